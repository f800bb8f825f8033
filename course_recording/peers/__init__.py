"""Programs of other frameworks that a bench runs beside the course's own.

A program whose framework is missing is left out, with a note. `torch.compile` needs a C++ compiler
for the host; CUDA C++ is compiled by CuPy's RawKernel.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

from course.backend import one_line

#: GELU and SiLU; a thread accesses four elements at once, so n is a multiple of four.
ACTIVATIONS = r"""
__device__ float gelu_of(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }
__device__ float silu_of(float x) { return x / (1.0f + __expf(-x)); }

#define EACH(name, of)                                                                          \
    extern "C" __global__ void name(const float4* x, float4* y, long long n) {                 \
        long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;                         \
        if (4 * i < n) {                                                                        \
            float4 v = x[i];                                                                    \
            y[i] = make_float4(of(v.x), of(v.y), of(v.z), of(v.w));                             \
        }                                                                                       \
    }

EACH(gelu, gelu_of)
EACH(silu, silu_of)
"""
THREADS = 256


def cuda_activation(cupy: ModuleType, name: str, size: int) -> Callable[[Any, Any], Any]:
    """A function of (x, out) in CUDA C++, CuPy arrays of `size` float32: "gelu" or "silu"."""
    kernel = cupy.RawKernel(ACTIVATIONS, name)
    grid, count = (-(-size // (4 * THREADS)),), cupy.int64(size)
    return lambda x, out: kernel(grid, (THREADS,), (x, out, count))


def torch_compiled(bench: Any, function: Callable, *arrays: Any) -> Callable | None:
    """What torch.compile makes of a function of these arrays; None, with a note, where it fails."""
    torch = bench.peer("torch")
    if torch is None:
        return None
    try:
        made = torch.compile(function, dynamic=False)
        made(*arrays)
        torch.cuda.synchronize()
    except Exception as problem:  # no compiler for the host, no Triton, or a bug in them
        bench.note(f"torch.compile left out: {one_line(problem)}")
        return None
    return made


def triton_programs(bench: Any) -> ModuleType | None:
    """`course_recording.peers.triton`; None, with a note, where Triton is missing or fails."""
    if bench.peer("triton") is None or bench.peer("torch") is None:
        return None
    try:
        from course_recording.peers import triton
    except Exception as problem:  # a Triton that cannot be imported in one of many ways
        bench.note(f"Triton's programs left out: {one_line(problem)}")
        return None
    return triton
