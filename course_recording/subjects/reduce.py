"""Sum, maximum and the softmax of rows, both ways: ladders beside CuPy, PyTorch and Triton.

The summed numbers are small integers, so that every order of adding gives the same sum, and a
result must be exact. The error of each step with fractions has its own rows. At the small sizes
launches take most of the time: there the rows of `course_recording.launch_costs` are kept, too.
"""

from functools import partial

import numpy as np

from course.kernels import reduce, softmax
from course_recording import launch_costs, peers

SMALL, ORIGINAL = 1 << 20, (4096, 1024)  # where launch costs are measured
SIZES = (SMALL, 1 << 26)
#: Rows and columns; the last shape's rows are unaligned, so that they are not loaded by fours.
SHAPES = (ORIGINAL, (16384, 4096), (65536, 768), (16384, 4095))
#: Largest relative Frobenius error of a softmax: results in float16 are rounded to 11 bits.
LIMITS = {"float32": 1e-6, "float16": 6e-4}
SPREAD = np.float32(8)
CHARTS = True  # beside the file


def run(bench):
    """Check and time the steps and their peers."""
    for size in bench.parts(SIZES):
        for kind in reduce.KINDS:
            one_reduction(bench, size, kind)
        fractions(bench, size)
    for rows, columns in bench.parts(SHAPES):
        for stored in LIMITS:
            one_softmax(bench, rows, columns, stored)


def one_reduction(bench, size, kind):
    """All steps and peers on integers from -4 to 4, with one 5 as the maximum."""
    x = np.rint(bench.random(size) * SPREAD)
    x[size // 3] = 5
    there, out = bench.cuda.to_device(x), bench.cuda.device_array(1, np.float32)
    found = x.sum(dtype=np.float64) if kind == "sum" else x.max().astype(np.float64)
    work = {"expected": np.array([found]), "shape": str(size), "limit": 0, "bytes": x.nbytes}
    work["small"] = size == SMALL
    for name in reduce.LADDER:
        launches = partial(reduce.LADDER.launches, there, out, kind=kind, method=name)
        launch_costs.step(bench, kind, name, launches, (there, out), **work)
    if cupy := bench.peer("cupy"):
        there = (cupy.asarray(x),)
        launch_costs.variant(
            bench, kind, "cupy", lambda x: getattr(x, kind)().reshape(1), there, **work
        )
    if torch := bench.peer("torch"):

        def torch_call(x):
            return getattr(x, kind)().reshape(1)

        one = torch.from_numpy(x).cuda()
        launch_costs.torch_and_compiled(bench, kind, torch_call, (one,), **work)


def fractions(bench, size):
    """Keep the error of float32 sums of positive fractions, relative to the sum in float64."""
    x = bench.random(size) + np.float32(0.5)
    exact = x.sum(dtype=np.float64)
    there = bench.cuda.to_device(x)
    for name in reduce.LADDER:
        off = abs(float(reduce.reduction(there, "sum", method=name)) - exact) / exact
        bench.figure("sum", name, str(size), "float32", "error of fractions", "relative", off)


def one_softmax(bench, rows, columns, stored):
    """All steps and peers on one matrix."""
    x = (bench.random(rows, columns) * SPREAD).astype(stored)
    cupy, torch = bench.peer("cupy"), bench.peer("torch")
    library = cupy or np
    powers = library.exp(library.asarray(x).astype(np.float64))  # |x| <= 4: no overflow
    expected = powers / powers.sum(axis=1, keepdims=True)
    work = {
        "expected": expected, "shape": f"{rows}x{columns}", "dtype": stored,
        "limit": LIMITS[stored], "bytes": 2 * x.nbytes,
        "small": (rows, columns) == ORIGINAL and stored == "float32",
    }  # fmt: skip
    there = bench.cuda.to_device(x)
    out = bench.cuda.device_array(x.shape, x.dtype)
    problem = softmax.LADDER.problem(there, out)
    for name in softmax.LADDER:
        if wrong := softmax.LADDER[name].lacks(problem):
            bench.note(f"{name} left out: it {wrong}")
            continue
        launches = partial(softmax.LADDER.launches, there, out, method=name)
        launch_costs.step(bench, "softmax", name, launches, (there, out), **work)
    softmax_gradient(bench, library, expected, work)
    if torch is None:
        return
    one = torch.from_numpy(x).cuda()

    def torch_call(x):
        return torch.softmax(x, -1)

    launch_costs.torch_and_compiled(bench, "softmax", torch_call, (one,), **work)
    if triton := peers.triton_programs(bench):
        pair = one, torch.empty_like(one)
        launch_costs.variant(bench, "softmax", "Triton", triton.softmax, pair, out=pair[1], **work)


def softmax_gradient(bench, library, result, work):
    """Backward, from a result in float64: the steps, PyTorch's, and the formula compiled."""
    y = result.astype(work["dtype"])
    y = y.get() if hasattr(y, "get") else y  # CuPy's array to NumPy's
    dy = bench.random(*y.shape, dtype=y.dtype)
    wide = [library.asarray(array).astype(np.float64) for array in (dy, y)]
    expected = wide[1] * (wide[0] - (wide[0] * wide[1]).sum(axis=1, keepdims=True))
    work = work | {"expected": expected, "bytes": 3 * y.nbytes}
    args = (*map(bench.cuda.to_device, (dy, y)), bench.cuda.device_array(y.shape, y.dtype))
    for name in softmax.BACKWARD:
        launches = partial(softmax.BACKWARD.launches, *args, method=name)
        launch_costs.step(bench, "softmax gradient", name, launches, args, **work)
    if torch := bench.peer("torch"):
        pair = tuple(torch.from_numpy(array).cuda() for array in (dy, y))

        def torch_call(dy, y):
            return torch.ops.aten._softmax_backward_data(dy, y, -1, y.dtype)

        launch_costs.torch_and_compiled(bench, "softmax gradient", torch_call, pair, **work)
