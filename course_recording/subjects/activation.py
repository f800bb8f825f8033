"""GELU and Swish (SiLU), forward and backward, beside CuPy, PyTorch, Triton and CUDA C++.

For every program each byte counts once in and once out. A program that moves more, such as Swish in
two kernels, shows a lower rate. At the small size launches take most of the time: there the rows
of `course_recording.launch_costs` are kept, too.
"""

import math
from functools import partial

import numpy as np

from course.kernels.activation import EACH, GRADIENT, LADDER, each, multiply, sigmoid
from course.kernels.steps import Launch
from course_recording import launch_costs, peers

SMALL = 1 << 20  # the size of the first version's micro-benchmark
SIZES = (SMALL, 1 << 26)
FORWARD = ("gelu", "gelu erf", "gelu tanh", "silu")
BACKWARD = ("gelu", "silu")
#: Largest relative Frobenius error: results in float16 are rounded to 11 bits.
LIMITS = {"float32": 1e-6, "float16": 6e-4}
SPREAD = np.float32(8)  # numbers from -4 to 4
CHARTS = True  # beside the file


def run(bench):
    """Check and time the steps and their peers."""
    for size in SIZES:
        for stored in LIMITS:
            x = (bench.random(size) * SPREAD).astype(stored)
            grad = bench.random(size, dtype=stored)
            one_size(bench, x, grad, stored)


def exact(bench, name, x):
    """A function and its derivative in float64: on the GPU where CuPy is there."""
    library = bench.peer("cupy")
    if library is None:
        library = np
        from scipy.special import erf
    else:
        from cupyx.scipy.special import erf
    x = library.asarray(x).astype(np.float64)
    if name == "silu":
        s = 1 / (1 + library.exp(-x))
        return x * s, s * (1 + x * (1 - s))
    if name == "gelu tanh":
        slope = math.sqrt(2 / math.pi)
        return x * (1 + library.tanh(slope * (x + 0.044715 * x**3))) / 2, None
    below = (1 + erf(x * math.sqrt(0.5))) / 2
    return x * below, below + x * library.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def one_size(bench, x, grad, stored):
    """All functions on one array."""
    cuda, work = bench.cuda, {"shape": str(x.size), "dtype": stored, "limit": LIMITS[stored]}
    work["small"] = x.size == SMALL and stored == "float32"
    there, back = cuda.to_device(x), cuda.to_device(grad)
    out = cuda.device_array(x.size, x.dtype)
    for name in FORWARD:
        expected, slope = exact(bench, name, x)
        given = work | {"expected": expected, "bytes": 2 * x.nbytes}
        for method in ("each", "wide"):
            ours(bench, name, name, method, (there, out), given)
        if name == "silu" and stored == "float32":
            two_kernels(bench, there, out, given)
        peers_forward(bench, name, x, given)
        if name in BACKWARD:
            library = type(slope).__module__.split(".")[0]
            widened = bench.peer("cupy").asarray(grad) if library == "cupy" else grad
            given = work | {"expected": slope * widened, "bytes": 3 * x.nbytes}
            for method in ("each", "wide"):
                ours(bench, f"{name} gradient", name, method, (back, there, out), given)
            peers_backward(bench, name, x, grad, given)


def ours(bench, kernel, name, method, args, given):
    """A step of the course's ladder; the last of `args` receives the result."""
    ladder = LADDER if len(args) == 2 else GRADIENT
    launches = partial(ladder.launches, *args, name=name, method=method)
    launch_costs.step(bench, kernel, method, launches, args, **given)


def two_kernels(bench, there, out, given):
    """Swish in two kernels, as its formula says: the sigmoid of all elements, then the product."""
    between = bench.cuda.device_array(there.size, there.dtype)
    grid, args = (-(-there.size // EACH),), (there, between, out)
    launches = [
        Launch(each(sigmoid), grid, (EACH,), args[:2]), Launch(multiply, grid, (EACH,), args)
    ]  # fmt: skip
    launch_costs.step(bench, "silu", "two kernels", lambda: launches, args, **given)


def peers_forward(bench, name, x, given):
    """CUDA C++, PyTorch and Triton, where each has the function."""
    cupy, torch = bench.peer("cupy"), bench.peer("torch")
    if cupy and name in ("gelu", "silu") and given["dtype"] == "float32":
        pair = cupy.asarray(x), cupy.empty(x.size, x.dtype)
        call = peers.cuda_activation(cupy, name, x.size)
        launch_costs.variant(bench, name, "CUDA C++", call, pair, out=pair[1], **given)
    if torch is None or name == "gelu erf":
        return
    there = torch.from_numpy(x).cuda()
    functions = torch.nn.functional
    programs = {
        "gelu": {"torch": functions.gelu},
        "gelu tanh": {"torch": lambda x: functions.gelu(x, approximate="tanh")},
        "silu": {"torch": functions.silu, "torch, two kernels": lambda x: x * torch.sigmoid(x)},
    }[name]
    launch_costs.torch_and_compiled(bench, name, programs.pop("torch"), (there,), **given)
    for label, call in programs.items():
        launch_costs.variant(bench, name, label, call, (there,), **given)
    if name != "gelu tanh" and (triton := peers.triton_programs(bench)):
        pair = there, torch.empty_like(there)
        launch_costs.variant(
            bench, name, "Triton", getattr(triton, name), pair, out=pair[1], **given
        )


def peers_backward(bench, name, x, grad, given):
    """PyTorch's own backward kernels."""
    torch = bench.peer("torch")
    if torch is None:
        return
    pair = torch.from_numpy(grad).cuda(), torch.from_numpy(x).cuda()
    call = getattr(torch.ops.aten, f"{name}_backward")
    launch_costs.variant(bench, f"{name} gradient", "torch", call, pair, **given)
