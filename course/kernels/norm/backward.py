"""The way back through LayerNorm: gradients of the rows, of gamma and of beta.

With xhat = (x - mean) * scale, scale = 1 / sqrt(variance + eps) and g = dy * gamma:

    dx     = scale * (g - mean(g) - xhat * mean(g * xhat))      means over the row
    dgamma = sum(dy * xhat),  dbeta = sum(dy)                   sums over the rows

Nothing is kept from the way forward: mean and scale are computed again from x, which has to be
read anyway. Sums over rows are float32, in parts that are added up at the end; no atomics, so the
same input gives the same bits.

Method "two kernels" takes rows of any length: one kernel for dx, one for the columns' sums, which
reads dy and x once more. Method "registers" does both in one: blocks walk over the rows with both
rows in registers, and their threads keep their columns' sums there, too.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, int32, int64

from course.backend import cuda
from course.door.door import Door, Result, Stream
from course.door.layout import name_of, workspace
from course.door.libraries import Seen
from course.kernels.arrays import (
    Array,
    checked,
    in_order,
    known,
    matrix,
    rows_are_aligned,
)
from course.kernels.norm.first_steps import Form, RowShape, merged_in_warp, moments_of
from course.kernels.norm.ladder import check_rows, constant
from course.kernels.norm.registers import ROW_THREADS, pieces, power_above, short_shape
from course.kernels.warps import WARP, lanes_sum

# --- the columns' sums, added up ------------------------------------------------------------------

COLUMNS, DOWN = 32, 8  # threads of a block in x and y


@cuda.jit(device=True)
def sum_down(value, shared):
    """The sum of the values of the threads above each other, for the uppermost."""
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    shared[y, x] = value
    cuda.syncthreads()
    half = DOWN // 2
    while half > 0:
        if y < half:
            shared[y, x] += shared[y + half, x]
        cuda.syncthreads()
        half //= 2
    return shared[0, x]


@cuda.jit
def column_sums(some, out):
    """out[column] = sum of some[:, column]. A block of 32 x 8 threads has 32 columns."""
    shared = cuda.shared.array((DOWN, COLUMNS), float32)
    column = cuda.blockIdx.x * COLUMNS + cuda.threadIdx.x
    total = float32(0)
    if column < some.shape[1]:
        for row in range(cuda.threadIdx.y, some.shape[0], DOWN):
            total += some[row, column]
    total = sum_down(total, shared)
    if column < some.shape[1] and cuda.threadIdx.y == 0:
        out[column] = total


# --- two kernels ----------------------------------------------------------------------------------

WARPS = 8
THREADS = WARPS * WARP


@cuda.jit(device=True)
def merged_in_block(count, mean, squares, shared):
    """The moments of all threads' parts together, for all; shared is (3, WARPS)."""
    t = cuda.threadIdx.x
    count, mean, squares = merged_in_warp(count, mean, squares)
    if t % WARP == 0:
        shared[0, t // WARP], shared[1, t // WARP], shared[2, t // WARP] = count, mean, squares
    cuda.syncthreads()
    other = min(t % WARP, WARPS - 1)
    count = shared[0, other] if t % WARP < WARPS else float32(0)
    squares = shared[2, other] if t % WARP < WARPS else float32(0)
    return merged_in_warp(count, shared[1, other], squares)


@cuda.jit(device=True)
def pair_sum(a, b, shared):
    """The sums of two values over a block, for all threads; shared is (2, WARPS)."""
    t = cuda.threadIdx.x
    a, b = sum_lanes(a), sum_lanes(b)
    if t % WARP == 0:
        shared[0, t // WARP], shared[1, t // WARP] = a, b
    cuda.syncthreads()
    a, b = float32(0), float32(0)
    for warp in range(WARPS):
        a += shared[0, warp]
        b += shared[1, warp]
    return a, b


sum_lanes = lanes_sum(WARP)


@cuda.jit
def backward_of_rows(dy, x, gamma, eps, dx, moments):
    """The gradient of the rows; moments (rows, 2) receives each row's mean and scale.

    Mapping: block i has row i, thread t the columns t, t + 256, ...
    Memory: x is read three times and dy twice, from memory once where the row stays in a cache.
    """
    shared = cuda.shared.array((3, WARPS), float32)
    shared_sums = cuda.shared.array((2, WARPS), float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    columns = x.shape[1]
    count, mean, squares = moments_of(x, row, t, THREADS)
    count, mean, squares = merged_in_block(count, mean, squares, shared)
    scale = float32(1) / math.sqrt(squares / count + eps)
    if t == 0:
        moments[row, 0], moments[row, 1] = mean, scale
    plain, turned = float32(0), float32(0)
    for column in range(t, columns, THREADS):
        g = float32(dy[row, column]) * float32(gamma[column])
        plain += g
        turned += g * ((float32(x[row, column]) - mean) * scale)
    plain, turned = pair_sum(plain, turned, shared_sums)
    plain, turned = plain / count, turned / count
    for column in range(t, columns, THREADS):
        g = float32(dy[row, column]) * float32(gamma[column])
        hat = (float32(x[row, column]) - mean) * scale
        dx[row, column] = scale * (g - plain - hat * turned)


@cuda.jit
def backward_of_columns(dy, x, moments, some_gamma, some_beta):
    """Sums of dy * xhat and of dy over some of the rows; some_gamma, some_beta (parts, columns).

    Mapping: block (i, j) of 32 x 8 threads has 32 columns and the rows of part j, which are
    every so many eights of rows.
    """
    shared = cuda.shared.array((2, DOWN, COLUMNS), float32)
    column = cuda.blockIdx.x * COLUMNS + cuda.threadIdx.x
    part, parts = cuda.blockIdx.y, cuda.gridDim.y
    of_gamma, of_beta = float32(0), float32(0)
    if column < x.shape[1]:
        for row in range(part * DOWN + cuda.threadIdx.y, x.shape[0], parts * DOWN):
            gradient = float32(dy[row, column])
            hat = (float32(x[row, column]) - moments[row, 0]) * moments[row, 1]
            of_gamma += gradient * hat
            of_beta += gradient
    of_gamma, of_beta = sum_down(of_gamma, shared[0]), sum_down(of_beta, shared[1])
    if column < x.shape[1] and cuda.threadIdx.y == 0:
        some_gamma[part, column], some_beta[part, column] = of_gamma, of_beta


# --- one kernel -----------------------------------------------------------------------------------

BACKWARD_SHORT = 256  # columns up to which a block has several rows; their sums take registers, too
BACKWARD_THREADS = 512  # of a row, at most
BACKWARD_ELEMENTS = {True: (8, 16), False: (8,)}
BLOCKS = 4  # for each multiprocessor: they walk over the rows


def backward_shape(columns: int, aligned: bool = True) -> RowShape:
    """The shape of a block that has rows of this length of dy and x, and its sums, in registers.

    Raises
    ------
    ValueError
        When the rows are too long.
    """
    if columns <= BACKWARD_SHORT:
        return short_shape(columns)
    for elements in BACKWARD_ELEMENTS[aligned]:
        for threads in ROW_THREADS:
            if threads <= BACKWARD_THREADS and threads * elements >= columns:
                return RowShape(threads, 1, elements)
    raise ValueError(
        f"two rows of {columns:,} numbers are too long for a block's registers, which hold "
        f"{BACKWARD_THREADS * BACKWARD_ELEMENTS[aligned][-1]:,} of each: choose the method "
        "'two kernels' or 'auto'"
    )


@functools.cache
def backward_in_registers(shape: RowShape, form: Form, parameters: bool) -> Callable:
    """The kernel (dy, x, gamma, eps, dx, some_gamma, some_beta) of method "registers".

    some_gamma, some_beta : (blocks * shape.rows, columns) float32
        Receive sums over some of the rows, where `parameters` is true.

    Launch with ``shape.threads`` threads and any number of blocks. One barrier a row: a warp's sums
    are about its own mean and moved to the row's when they are merged. The shared arrays of two
    rows take turns, so no thread overwrites what another still reads.
    """
    part = pieces(shape, form)
    take, put, bring = part.take, part.put, part.bring
    added, squared, of_warp = part.added, part.squared, part.of_warp
    row_threads, rows, elements = shape.row_threads, shape.rows, shape.elements
    full, wide, has_gamma = form.full, 4 if form.aligned else 1, form.gamma
    parts, warps = shape.parts(form.aligned), max(row_threads // WARP, 1)
    add_lanes = lanes_sum(min(row_threads, WARP))
    near_warps = power_above(warps)
    add_warps = lanes_sum(near_warps)
    own = pieces(shape, Form("float32", form.aligned, full)).put  # for the float32 sums

    @cuda.jit(device=True)
    def near_factors(gamma, p, columns, thread, factors):
        """A part of gamma, ones without it, zeros beyond the end of the row."""
        column = int64(thread) * wide + p * row_threads * wide
        here = p < full or column < columns
        for e in range(wide):
            factors[e] = float32(1)
        if has_gamma:
            take(gamma, column if p < full else min(column, int64(columns - wide)), factors, 0)
        for e in range(wide):
            factors[e] = factors[e] if here else float32(0)

    @cuda.jit(device=True)
    def sums(values, gradients, mean, gamma, columns, thread):
        """The sums of g = dy * gamma and of g * (x - mean)."""
        factors = cuda.local.array(4, float32)
        plain, turned = float32(0), float32(0)
        for p in range(parts):
            near_factors(gamma, p, columns, thread, factors)
            for e in range(wide):
                g = gradients[p * wide + e] * factors[e]
                plain += g
                turned += g * (values[p * wide + e] - mean)
        return add_lanes(plain), add_lanes(turned)

    if warps == 1:

        @cuda.jit(device=True)
        def merge(mean, square, plain, turned, shared, side, columns, thread):
            return mean, square, plain, turned

    else:

        @cuda.jit(device=True)
        def merge(mean, square, plain, turned, shared, side, columns, thread):
            """The row's mean and sums from those of its warps."""
            warp, lane = thread // int32(WARP), thread % int32(WARP)
            if lane == 0:
                shared[side, 0, warp], shared[side, 1, warp] = mean, square
                shared[side, 2, warp], shared[side, 3, warp] = plain, turned
            cuda.syncthreads()
            place = lane % int32(near_warps)
            other, here = min(place, int32(warps - 1)), place < warps
            weight = of_warp(other, columns) if here else float32(0)
            mean = add_warps(shared[side, 0, other] * weight) / float32(columns)
            moved = shared[side, 0, other] - mean
            square = shared[side, 1, other] if here else float32(0)
            plain = shared[side, 2, other] if here else float32(0)
            turned = shared[side, 3, other] if here else float32(0)
            square = add_warps(square + moved * weight * moved)
            turned = add_warps(turned + plain * moved)
            return mean, square, add_warps(plain), turned

    @cuda.jit(device=True)
    def save(some, row, sums_of, columns, thread):
        for p in range(parts):
            column = int64(thread) * wide + p * row_threads * wide
            if p < full or column < columns:
                own(some, (row, column), sums_of, p * wide)

    @cuda.jit(max_registers=shape.max_registers)
    def layer_norm_backward(dy, x, gamma, eps, dx, some_gamma, some_beta):
        shared = cuda.shared.array((2, 4, warps), float32)
        values = cuda.local.array(elements, float32)
        gradients = cuda.local.array(elements, float32)
        factors = cuda.local.array(4, float32)
        of_gamma = cuda.local.array(elements, float32)
        of_beta = cuda.local.array(elements, float32)
        t = int32(cuda.threadIdx.x)
        thread, slot = t % int32(row_threads), t // int32(row_threads)
        columns, last, side = int32(x.shape[1]), int32(x.shape[0] - 1), int32(0)
        for e in range(elements):
            of_gamma[e], of_beta[e] = float32(0), float32(0)
        for first in range(cuda.blockIdx.x * rows, x.shape[0], cuda.gridDim.x * rows):
            wanted = int32(first) + slot
            row = min(wanted, last)
            bring(x, row, 0, columns, thread, values)
            bring(dy, row, 0, columns, thread, gradients)
            count = float32(columns)
            if warps > 1:
                count = max(of_warp(t // int32(WARP), columns), float32(1))
            mean = add_lanes(added(values, 0, columns, thread)) / count
            square = add_lanes(squared(values, 0, columns, thread, mean))
            plain, turned = sums(values, gradients, mean, gamma, columns, thread)
            mean, square, plain, turned = merge(
                mean, square, plain, turned, shared, side, columns, thread
            )
            side = int32(1) - side
            scale = float32(1) / math.sqrt(square / float32(columns) + eps)
            plain, turned = plain / float32(columns), turned * scale / float32(columns)
            for p in range(parts):
                column, n = int64(thread) * wide + p * row_threads * wide, p * wide
                here = wanted <= last and (p < full or column < columns)
                near_factors(gamma, p, columns, thread, factors)
                for e in range(wide):
                    hat = (values[n + e] - mean) * scale
                    if parameters and here:
                        of_gamma[n + e] += gradients[n + e] * hat
                        of_beta[n + e] += gradients[n + e]
                    values[n + e] = scale * (gradients[n + e] * factors[e] - plain - hat * turned)
                if here:
                    put(dx, (row, column), values, n)
        if parameters:
            place = int32(cuda.blockIdx.x * rows) + slot
            save(some_gamma, place, of_gamma, columns, thread)
            save(some_beta, place, of_beta, columns, thread)

    return layer_norm_backward


# --- the front door -------------------------------------------------------------------------------

BACKWARD = ("two kernels", "registers")


def _results(
    dy: Seen, x: Seen, gamma: Seen | None, eps: float, parameters: bool, method: str
) -> list[Result | None]:
    columns = check_rows(x, {"gamma": gamma}, eps)
    checked(dy, "dy", like=x)
    known(method, "method", ("auto", *BACKWARD))
    a_sum = ((columns,), x.dtype if gamma is None else gamma.dtype) if parameters else None
    return [(x.shape, x.dtype), a_sum, a_sum]


def _launches(*given: Any, stream: Stream) -> list[tuple[Callable, tuple]]:
    dy, x, gamma, dx, dgamma, dbeta, eps, parameters, method = given
    if not x.size:  # sums of no rows
        none = workspace((1, x.shape[-1]), np.float32, zeros=True)
        sums = column_sums[-(-x.shape[-1] // COLUMNS), (COLUMNS, DOWN), stream]
        return [(sums, (none, place)) for place in (dgamma, dbeta) if parameters]
    if gamma is not None:
        in_order(gamma, "gamma")
    arrays = matrix(dy, "dy"), matrix(x, "x"), matrix(dx, "dx")
    return prepared_backward(*arrays, gamma, eps, dgamma, dbeta, method, stream)


_NAMES = ("dy", "x", "gamma")
_DOOR = Door("layer_norm_backward", _NAMES, _results, _launches, ("gamma",), empty=True)


def layer_norm_backward(
    dy: Array,
    x: Array,
    gamma: Array | None = None,
    eps: float = 1e-5,
    parameters: bool = True,
    method: str = "auto",
    stream: Stream = None,
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of `layer_norm` without an activation: of x, of gamma and of beta.

    Parameters
    ----------
    dy : array, shape (..., columns)
        The gradient of the result; of x's shape and type.
    x, gamma, eps
        As given to `layer_norm`.
    parameters : bool
        Whether dgamma and dbeta are wanted.
    method : str
        "auto", or one of `BACKWARD`; "registers" takes rows as `backward_shape` does.
    stream
        As for `layer_norm`.

    Returns
    -------
    dx : array, of x's shape and type
    dgamma, dbeta : array or None, shape (columns,)
        Of gamma's type; without gamma of x's.

    Raises
    ------
    ValueError, TypeError
        As `layer_norm`.
    """
    if isinstance(eps, np.generic):  # which would be compared in its own precision
        eps = eps.item()
    return _DOOR.enter((dy, x, gamma), (eps, parameters, method), None, stream)


def prepared_backward(
    dy: Array,
    x: Array,
    dx: Array,
    gamma: Array | None,
    eps: float,
    dgamma: Array | None,
    dbeta: Array | None,
    method: str = "auto",
    stream: Any = 0,
) -> list[tuple[Callable, tuple]]:
    """What `layer_norm_backward` launches, for arrays on the GPU, as `prepared`.

    Memory for the sums over some of the rows is made here, and lives as long as the list.
    """
    rows, columns = x.shape
    parameters, eps = dgamma is not None, np.float32(eps)
    most = BLOCKS * cuda.get_current_device().MULTIPROCESSOR_COUNT
    across = -(-columns // COLUMNS)
    block = COLUMNS, DOWN
    launches: list[tuple[Callable, tuple]] = []
    aligned = rows_are_aligned(dy, x, dx, gamma)
    if method == "auto":
        most_columns = BACKWARD_THREADS * BACKWARD_ELEMENTS[aligned][-1]
        method = "registers" if columns <= most_columns else "two kernels"
    if method == "registers":
        shape = backward_shape(columns, aligned)
        blocks = min(-(-rows // shape.rows), most)
        parts = blocks * shape.rows
    else:
        parts = min(-(-rows // DOWN), 64)
    shape_of_sums = (parts if parameters else 1, columns)
    some = [workspace(shape_of_sums, np.float32) for _ in range(2)]
    if method == "registers":
        full = shape.full(columns, aligned)
        form = Form(name_of(dx.dtype), aligned, full, gamma is not None)
        kernel = backward_in_registers(shape, form, parameters)
        factor = constant(1, 1) if gamma is None else gamma
        call = kernel[blocks, shape.threads, stream]
        launches.append((call, (dy, x, factor, eps, dx, *some)))
    else:
        moments = workspace((rows, 2), np.float32)
        factor = constant(1, columns) if gamma is None else gamma
        call = backward_of_rows[rows, THREADS, stream]
        launches.append((call, (dy, x, factor, eps, dx, moments)))
        if parameters:
            call = backward_of_columns[(across, parts), block, stream]
            launches.append((call, (dy, x, moments, *some)))
    if parameters:
        call = column_sums[across, block, stream]
        launches += [(call, (some[0], dgamma)), (call, (some[1], dbeta))]
    return launches
