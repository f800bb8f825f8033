"""The softmax backward: dx = y * (dy - sum(dy * y)), each row for itself.

>>> dx = softmax_backward(dy, y)         # y is the softmax's result; NumPy in, NumPy out
>>> softmax_backward(dy, y, out=dy)      # in place

Of the forward, only y is kept, not x. Rows hold float32, float16 or bfloat16, sums are float32. A
NaN in a row of y or dy makes all of that row NaN. Method "two passes" reads both arrays twice,
"registers" once, the least possible.
"""

import functools
from collections.abc import Callable

from numba import float32, int32

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.heuristics import softmax as heuristics
from course.heuristics.softmax import VECTOR, RowProblem, SoftmaxConfig
from course.kernels.arrays import NUMBA_TYPES, Array, alike, matrix
from course.kernels.softmax import forward
from course.kernels.softmax.forward import ZERO, in_registers, most_registers, part_of_row
from course.kernels.steps import Ladder, Launch, Step, require_choice, row_limit
from course.kernels.warps import WARP, lanes_sum

# --- step 1: two passes ---------------------------------------------------------------------------

THREADS = 256  # of a block in step 1
WARPS = THREADS // WARP
sum_of_warp = lanes_sum(WARP)


@functools.cache
def row_sum(row_threads: int, rows: int) -> Callable:
    """Device function: as `course.kernels.softmax.forward.exchange`, for sums alone."""
    warps = row_threads // WARP
    sum_of = lanes_sum(warps)

    @cuda.jit(device=True)
    def of_row(total):
        totals = cuda.shared.array((rows, warps), float32)
        t, row = int32(cuda.threadIdx.x), int32(cuda.threadIdx.y)
        if t % WARP == 0:
            totals[row, t // WARP] = total
        cuda.syncthreads()
        return sum_of(totals[row, t % warps])

    return of_row


sum_of_row = row_sum(THREADS, 1)


@cuda.jit
def softmax_backward_two_passes(dy, y, dx):
    """Step 1, as the formula stands, of rows of any length: the sum, then the row.

    Mapping: block i has row i, thread t the columns t, t + 256, ...
    Memory: dy and y are read twice, the second time from a cache, if the rows are still there.
    """
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    columns = y.shape[1]
    total = ZERO
    for column in range(t, columns, THREADS):
        total += float32(dy[row, column]) * float32(y[row, column])
    total = sum_of_row(sum_of_warp(total))
    for column in range(t, columns, THREADS):
        dx[row, column] = float32(y[row, column]) * (float32(dy[row, column]) - total)


# --- step 2: both rows in registers ---------------------------------------------------------------


@functools.cache
def backward_in_registers(
    dtype: str, config: SoftmaxConfig, access: str, unguarded: int = 0
) -> Callable:
    """Step 2, of (dy, y, dx): each row of dy and y is read once and kept in registers.

    Mapping: as in `course.kernels.softmax.forward.registers`. Columns beyond the end count as
    zeros; rows beyond the end are not written. dx may be dy or y.
    """
    element, row_threads, accesses = NUMBA_TYPES[dtype], config.row_threads, config.accesses
    block_rows, warps = config.rows, config.row_threads // WARP
    sum_of = lanes_sum(min(row_threads, WARP))
    of_row = row_sum(row_threads, block_rows) if warps > 1 else None
    first_of, load_row, inside, store_row = part_of_row(config, access, unguarded)

    @cuda.jit(max_registers=most_registers(row_threads * block_rows))
    def softmax_backward_registers(dy, y, dx):
        gradients = cuda.local.array((accesses, VECTOR), element)
        results = cuda.local.array((accesses, VECTOR), element)
        t, columns = int32(cuda.threadIdx.x), int32(y.shape[1])
        row = int32(cuda.blockIdx.x) * block_rows + int32(cuda.threadIdx.y)
        clamped = min(row, int32(y.shape[0] - 1))
        first = first_of(dy, clamped, t)
        load_row(dy, clamped, first, gradients)
        load_row(y, clamped, first, results)
        total = ZERO
        for n in range(accesses):
            for e in range(VECTOR):
                product = float32(gradients[n, e]) * float32(results[n, e])
                total += product if inside(n, e, first, columns) else ZERO
        total = sum_of(total)
        if warps > 1:
            total = of_row(total)
        if row >= y.shape[0]:
            return
        for n in range(accesses):
            for e in range(VECTOR):
                g = float32(gradients[n, e]) - total
                gradients[n, e] = element(float32(results[n, e]) * g)
        store_row(dx, row, first, gradients)

    return softmax_backward_registers


# --- the ladder -----------------------------------------------------------------------------------


def _two_passes(problem: RowProblem, dy: Array, y: Array, dx: Array) -> list[Launch]:
    return [Launch(softmax_backward_two_passes, problem.rows, THREADS, (dy, y, dx))]


_registers = functools.partial(in_registers, backward_in_registers, heuristics.backward_config_for)
_too_long = row_limit(heuristics.BACKWARD_LONGEST.get)

BACKWARD = Ladder(
    "softmax_backward",
    forward.problem_of,
    {"two passes": Step(_two_passes), "registers": Step(_registers, _too_long)},
    best=lambda problem: "two passes" if _too_long(problem) else "registers",
)


# --- the entry point ------------------------------------------------------------------------------


def _result(dy: ArrayFacts, y: ArrayFacts, method: str) -> Result:
    require_choice(method, "method", BACKWARD.names)
    return alike({"dy": dy, "y": y}, rows=True)


def _launches(dy: Array, y: Array, dx: Array, method: str) -> list[Launch]:
    return BACKWARD.launches(matrix(dy, "dy"), matrix(y, "y"), matrix(dx, "out"), method=method)


_ENTRY = EntryPoint(
    "softmax_backward", ("dy", "y"), _result, _launches, in_place=("dy", "y"), options=("method",)
)


def softmax_backward(
    dy: Array, y: Array, out: Array | None = None, method: str = "auto", stream: Stream = None
) -> Array:
    """The gradient of a softmax's input, on the GPU (or the simulated one).

    Parameters
    ----------
    dy : array, shape (..., columns)
        The gradient of the softmax's result; of NumPy, CuPy, PyTorch or numba.cuda, float32,
        float16 or bfloat16. On the GPU each row is contiguous.
    y : array
        The softmax's result, of dy's shape and dtype.
    out : array, optional
        Where to write, of dy's shape and dtype; may be dy or y.
    method : str
        One of `BACKWARD.names`: "auto" takes "registers", and "two passes" for longer rows.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; by default dy's library's current one.

    Returns
    -------
    array
        `out`, if it is given; else of dy's library, shape and dtype. An empty array launches
        nothing.

    Raises
    ------
    TypeError
        For an argument that is no array, or another dtype.
    ValueError
        For an unknown method, or one that does not take such rows; arrays without an axis; shapes
        or strides that do not fit.
    """
    return _ENTRY.call((dy, y), (method,), out, stream)


softmax_backward.ladder = BACKWARD
