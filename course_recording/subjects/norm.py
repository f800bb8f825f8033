"""LayerNorm, alone and fused with GELU: the ladder, backward, and peers.

The bytes are those that must move: x in, the result out; backward dy and x in, dx out. The roof is
that of a copy. Peers: PyTorch eager and compiled, Triton, CUDA C++ through CuPy. At the small size
launches take most of the time: there the rows of `course_recording.launch_costs` are kept, too.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from course.heuristics.norm import REGISTERS, REGISTERS_AND_SHARED, short_config
from course.kernels.norm.backward import BACKWARD
from course.kernels.norm.ladder import LADDER, prepared
from course.kernels.steps import hopper_refusal, one_call, shared_memory_limit
from course_recording import launch_costs, peers
from course_recording.peers import cuda_cpp as cuda_cpp_norm

SHAPES = ((16_384, 4096), (65_536, 768))
ORIGINAL = (4096, 1024)  # the size of the first version's micro-benchmark
EPS = 1e-5
HALF_LIMIT = 1e-3  # float16 has a significand of 11 bits
CHARTS = True  # beside the file


def run(bench):
    """Check and time the ladder, the gradients, and the peers."""
    for rows, columns in bench.parts((*SHAPES, ORIGINAL)):
        data = inputs(bench, rows, columns)
        for activation in (None, "gelu"):
            compare(bench, data, activation, [name for name in LADDER if name != "half"])
        half = inputs(bench, rows, columns, np.float16)
        ours(bench, half, "gelu", ("auto",), exact(bench, half, "gelu"))
        backward(bench, data)


def compare(bench, data, activation, methods):
    """Steps of the ladder beside the peers."""
    expected = exact(bench, data, activation)
    ours(bench, data, activation, methods, expected)
    beside(bench, data, activation, expected)


def inputs(bench, rows, columns, dtype=np.float32):
    """x, gamma and beta, on the host."""
    x = bench.random(rows, columns, dtype=dtype)
    gamma, beta = (bench.random(columns, dtype=dtype) for _ in range(2))
    return x, gamma + dtype(1), beta


def exact(bench, data, activation):
    """The result in float64: on the GPU where CuPy is there."""
    if module := bench.peer("cupy"):
        from cupyx.scipy.special import erf
    else:
        import math

        module, erf = np, np.vectorize(math.erf)
    x, gamma, beta = (module.asarray(array).astype(np.float64) for array in data)
    x -= x.mean(1, keepdims=True)
    y = x / module.sqrt((x * x).mean(1, keepdims=True) + EPS) * gamma + beta
    return y if activation is None else y * (1 + erf(y * 0.5**0.5)) / 2


def work_of(data, activation):
    """The name of the kernel, and what is the same in the rows of every program."""
    x = data[0]
    limit = {"limit": HALF_LIMIT} if x.dtype == np.float16 else {}
    name = "layer norm" if activation is None else f"layer norm + {activation}"
    shape = f"{x.shape[0]}x{x.shape[1]}"
    small = x.shape == ORIGINAL and not limit
    work = {"shape": shape, "dtype": str(x.dtype), "bytes": 2 * x.nbytes, "small": small}
    return name, work | limit


def ours(bench, data, activation, methods, expected):
    """Steps of the ladder; a step that does not fuse the activation launches a second kernel."""
    name, work = work_of(data, activation)
    columns = data[0].shape[1]
    x, gamma, beta = (bench.cuda.to_device(array) for array in data)
    out = bench.cuda.device_array(x.shape, x.dtype)
    for method in methods:
        if method == "several rows" and columns > short_config(1024).longest:
            continue
        if method == REGISTERS_AND_SHARED and not shared_memory_limit()[1]:
            bench.note(f"{method} left out: it needs compute capability 8.0")
            continue
        if method == "clusters" and (wrong := hopper_refusal()):
            bench.note(f"{method} left out: it {wrong}")
            continue

        arguments = x, gamma, beta, np.float32(EPS), out

        def queued(stream, method=method, arguments=arguments):
            return one_call(prepared(*arguments, method, activation, stream), arguments)

        launch_costs.variant(
            bench, name, method, queued(0), arguments, out=out, expected=expected, queued=queued,
            **work,
        )  # fmt: skip
        if method == "registers" and not work["small"] and (torch := bench.peer("torch")):
            in_torch_memory(bench, torch, (name, method), arguments, expected, work)


def in_torch_memory(bench, torch, names, arguments, expected, work):
    """Time a kernel as PyTorch calls its own: each result is new, from PyTorch's memory.

    The addresses of its arrays change the time of a memory-bound kernel by some percent. On an
    H200 the same kernel takes 128.4 us if its result is PyTorch's. It takes 131.8 if that
    alternates between two arrays of numba.cuda, 138.5 if it is always the same one.
    """
    name, method = names
    *_, like = arguments
    result = torch.empty(like.shape, dtype=getattr(torch, str(like.dtype)), device="cuda")

    def call(x, gamma, beta, eps):
        out = torch.empty_like(result)
        launch(x, gamma, beta, eps, bench.cuda.as_cuda_array(out))
        return out

    launch = prepared(*arguments, method, "gelu" if "gelu" in name else None)[0][0]
    launch_costs.variant(
        bench, name, f"{method}, in PyTorch's memory", call, arguments[:-1], expected=expected,
        **work,
    )  # fmt: skip


def beside(bench, data, activation, expected):
    """PyTorch, compiled PyTorch, Triton and CUDA C++."""
    name, work = work_of(data, activation)
    gelu = activation == "gelu"
    if torch := bench.peer("torch"):
        tensors = tuple(torch.from_numpy(array).cuda() for array in data)

        def eager(x, gamma, beta):
            y = torch.nn.functional.layer_norm(x, x.shape[-1:], gamma, beta, EPS)
            return torch.nn.functional.gelu(y) if gelu else y

        torch.compiler.reset()  # else it gives up compiling after a few row lengths
        launch_costs.torch_and_compiled(bench, name, eager, tensors, expected=expected, **work)
        if peers.triton_programs(bench):
            from course_recording.peers import triton

            out = torch.empty_like(tensors[0])
            arguments = (*tensors, EPS, out, gelu)
            launch_costs.variant(
                bench, name, "Triton", triton.layer_norm, arguments, out=out,
                expected=expected, **work,
            )  # fmt: skip
    if cupy := bench.peer("cupy"):
        cuda_cpp(bench, cupy, data, gelu, name, {"expected": expected, **work})


def cuda_cpp(bench, cupy, data, gelu, name, work):
    """The kernel of `course_recording.peers.cuda_cpp`, where it takes the row."""
    rows, columns = data[0].shape
    found = cuda_cpp_norm.launch_shape(columns)
    if found is None:
        bench.notes.append(f"CUDA C++ left out at rows of {columns}: no multiple of 4, or too long")
        return
    threads, parts = found
    kernel = cupy.RawKernel(cuda_cpp_norm.SOURCE, "layer_norm", cuda_cpp_norm.options(parts, gelu))
    if kernel.num_regs * threads > REGISTERS:
        bench.notes.append(
            f"CUDA C++ left out at rows of {columns}: {kernel.num_regs} registers for each of "
            f"{threads:,} threads are more than a multiprocessor has"
        )
        return
    arrays = [cupy.asarray(array) for array in data]
    out, eps = cupy.empty_like(arrays[0]), np.float32(EPS)

    def call(x, gamma, beta, out):
        kernel((rows,), (threads,), (x, gamma, beta, eps, out, np.int32(columns)))

    launch_costs.variant(bench, name, "CUDA C++", call, (*arrays, out), out=out, **work)


# ---------------------------------------------------------------------- backward
def backward(bench, data):
    """The gradients of x, gamma and beta; dx is checked."""
    _, work = work_of(data, None)
    work["bytes"] = 3 * data[0].nbytes
    dy = bench.random(*data[0].shape)
    module = bench.peer("cupy") or np
    gradient, x, gamma = (module.asarray(a).astype(np.float64) for a in (dy, *data[:2]))
    x -= x.mean(1, keepdims=True)
    scale = 1 / module.sqrt((x * x).mean(1, keepdims=True) + EPS)
    x *= scale
    gradient *= gamma
    along = gradient.mean(1, keepdims=True), (gradient * x).mean(1, keepdims=True)
    work["expected"] = (gradient - along[0] - x * along[1]) * scale
    there = [bench.cuda.to_device(array) for array in (dy, *data[:2])]
    dx = bench.cuda.device_array(dy.shape, dy.dtype)
    sums = [bench.cuda.device_array(dy.shape[1], dy.dtype) for _ in range(2)]
    for method in BACKWARD:
        launches = partial(
            BACKWARD.launches, *there, None, dx, *sums, eps=EPS, activation=None, method=method
        )
        launch_costs.step(bench, "layer norm backward", method, launches, (*there, dx), **work)
    if torch := bench.peer("torch"):
        tensors = [torch.from_numpy(array).cuda() for array in (dy, *data)]
        size = [dy.shape[1]]
        moments = torch.ops.aten.native_layer_norm(tensors[1], size, *tensors[2:], EPS)[1:]

        def eager(dy, x, mean, scale, gamma, beta):
            return torch.ops.aten.native_layer_norm_backward(
                dy, x, size, mean, scale, gamma, beta, [True, True, True]
            )[0]

        arguments = (*tensors[:2], *moments, *tensors[2:])
        launch_costs.variant(bench, "layer norm backward", "torch", eager, arguments, **work)
