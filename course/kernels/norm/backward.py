"""The way back through LayerNorm: gradients of the rows, of gamma and of beta.

With xhat = (x - mean) * scale, scale = 1 / sqrt(variance + eps) and g = dy * gamma:

    dx     = scale * (g - mean(g) - xhat * mean(g * xhat))      means over the row
    dgamma = sum(dy * xhat),  dbeta = sum(dy)                   sums over the rows

Where an activation follows, dy is first multiplied by its slope at xhat * gamma + beta.

Nothing is kept from the way forward: mean and scale are computed again from x, which has to be
read anyway. Sums over rows are float32, in parts that are added up at the end; no atomics, so the
same input gives the same bits.

Method "two kernels" takes rows of any length: one kernel for dx, one for the columns' sums, which
reads dy and x once more. Method "registers" does both in one: blocks walk over the rows with both
rows in registers, and their threads keep their columns' sums there, too:
`course.kernels.norm.backward_registers`. After either, one small kernel adds up both sums' parts.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32

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
from course.kernels.norm.backward_registers import (
    BACKWARD_ELEMENTS,
    BACKWARD_THREADS,
    BLOCKS,
    SLOPES,
    backward_in_registers,
    backward_shape,
)
from course.kernels.norm.first_steps import Form, merged_in_warp, moments_of
from course.kernels.norm.ladder import check_activation, check_rows, constant
from course.kernels.warps import WARP, lanes_sum

# --- the columns' sums, added up ------------------------------------------------------------------

COLUMNS, DOWN = 32, 8  # threads of a block in x and y
SUMS_DOWN = 32  # in y, where nothing but sums is to be done: as many loads under way as can be


@functools.cache
def sum_down(down: int) -> Callable:
    """A device function: the sum of the values of `down` threads above each other, for the top."""

    @cuda.jit(device=True)
    def summed(value, shared):
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        shared[y, x] = value
        cuda.syncthreads()
        half = down // 2
        while half > 0:
            if y < half:
                shared[y, x] += shared[y + half, x]
            cuda.syncthreads()
            half //= 2
        return shared[0, x]

    return summed


sum_part, sum_all = sum_down(DOWN), sum_down(SUMS_DOWN)


@cuda.jit
def column_sums(some, dgamma, dbeta):
    """dgamma[column] = sum of some[0, :, column], and dbeta of some[1, :, column].

    Mapping: block (i, 0) of 32 x 32 threads has 32 columns of dgamma, block (i, 1) of dbeta.
    """
    shared = cuda.shared.array((SUMS_DOWN, COLUMNS), float32)
    column, which = cuda.blockIdx.x * COLUMNS + cuda.threadIdx.x, cuda.blockIdx.y
    total = float32(0)
    if column < some.shape[2]:
        for row in range(cuda.threadIdx.y, some.shape[1], SUMS_DOWN):
            total += some[which, row, column]
    total = sum_all(total, shared)
    if column < some.shape[2] and cuda.threadIdx.y == 0:
        if which == 0:
            dgamma[column] = total
        else:
            dbeta[column] = total


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


@functools.cache
def backward_of_rows(activation: str | None) -> Callable:
    """The gradient of the rows, of (dy, x, gamma, beta, eps, dx, moments).

    moments (rows, 2) receives each row's mean and scale.

    Mapping: block i has row i, thread t the columns t, t + 256, ...
    Memory: x is read three times and dy twice, from memory once where the row stays in a cache.
    """
    slope = SLOPES[activation]

    @cuda.jit
    def backward_of_row(dy, x, gamma, beta, eps, dx, moments):
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
            hat, factor = (float32(x[row, column]) - mean) * scale, float32(gamma[column])
            g = slope(float32(dy[row, column]), hat * factor + float32(beta[column])) * factor
            plain += g
            turned += g * hat
        plain, turned = pair_sum(plain, turned, shared_sums)
        plain, turned = plain / count, turned / count
        for column in range(t, columns, THREADS):
            hat, factor = (float32(x[row, column]) - mean) * scale, float32(gamma[column])
            g = slope(float32(dy[row, column]), hat * factor + float32(beta[column])) * factor
            dx[row, column] = scale * (g - plain - hat * turned)

    return backward_of_row


@functools.cache
def backward_of_columns(activation: str | None) -> Callable:
    """Sums of dy * xhat and of dy over some of the rows, of (dy, x, gamma, beta, moments, some).

    some (2, parts, columns) receives them; dy is what comes back from the activation.

    Mapping: block (i, j) of 32 x 8 threads has 32 columns and the rows of part j, which are
    every so many eights of rows.
    """
    slope = SLOPES[activation]

    @cuda.jit
    def backward_of_column(dy, x, gamma, beta, moments, some):
        shared = cuda.shared.array((2, DOWN, COLUMNS), float32)
        column = cuda.blockIdx.x * COLUMNS + cuda.threadIdx.x
        part, parts = cuda.blockIdx.y, cuda.gridDim.y
        of_gamma, of_beta = float32(0), float32(0)
        if column < x.shape[1]:
            factor, shift = float32(gamma[column]), float32(beta[column])
            for row in range(part * DOWN + cuda.threadIdx.y, x.shape[0], parts * DOWN):
                hat = (float32(x[row, column]) - moments[row, 0]) * moments[row, 1]
                gradient = slope(float32(dy[row, column]), hat * factor + shift)
                of_gamma += gradient * hat
                of_beta += gradient
        of_gamma, of_beta = sum_part(of_gamma, shared[0]), sum_part(of_beta, shared[1])
        if column < x.shape[1] and cuda.threadIdx.y == 0:
            some[0, part, column], some[1, part, column] = of_gamma, of_beta

    return backward_of_column


# --- the front door -------------------------------------------------------------------------------

BACKWARD = ("two kernels", "registers")


def _results(
    dy: Seen, x: Seen, gamma: Seen | None, beta: Seen | None, eps: float, parameters: bool,
    method: str, activation: str | None,
) -> list[Result | None]:  # fmt: skip
    columns = check_rows(x, {"gamma": gamma, "beta": beta}, eps)
    checked(dy, "dy", like=x)
    known(method, "method", ("auto", *BACKWARD))
    check_activation(activation)
    a_sum = ((columns,), x.dtype if gamma is None else gamma.dtype) if parameters else None
    return [(x.shape, x.dtype), a_sum, a_sum]


def _launches(*given: Any, stream: Stream) -> list[tuple[Callable, tuple]]:
    dy, x, gamma, beta, dx, dgamma, dbeta, eps, parameters, method, activation = given
    if not x.size:  # sums of no rows
        none = workspace((2, 1, x.shape[-1]), np.float32, zeros=True)
        return [_summed(none, dgamma, dbeta, stream)] if parameters else []
    for name, factor in (("gamma", gamma), ("beta", beta)):
        if factor is not None:
            in_order(factor, name)
    arrays = matrix(dy, "dy"), matrix(x, "x"), matrix(dx, "dx")
    return prepared_backward(
        *arrays, gamma, eps, dgamma, dbeta, method, stream, beta, activation
    )  # fmt: skip


_NAMES = ("dy", "x", "gamma", "beta")
_DOOR = Door("layer_norm_backward", _NAMES, _results, _launches, ("gamma", "beta"), empty=True)


def layer_norm_backward(
    dy: Array,
    x: Array,
    gamma: Array | None = None,
    eps: float = 1e-5,
    parameters: bool = True,
    method: str = "auto",
    stream: Stream = None,
    beta: Array | None = None,
    activation: str | None = None,
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of `layer_norm`, with its activation: of x, of gamma and of beta.

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
    beta, activation
        As given to `layer_norm`. What the activation was given is computed once more, in float32,
        and neither kept nor written. Without an activation no gradient depends on beta.

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
    return _DOOR.enter((dy, x, gamma, beta), (eps, parameters, method, activation), None, stream)


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
    beta: Array | None = None,
    activation: str | None = None,
) -> list[tuple[Callable, tuple]]:
    """What `layer_norm_backward` launches, for arrays on the GPU, as `prepared`.

    Memory for the sums over some of the rows is made here, and lives as long as the list.
    """
    rows, columns = x.shape
    parameters, eps = dgamma is not None, np.float32(eps)
    most = BLOCKS * cuda.get_current_device().MULTIPROCESSOR_COUNT
    launches: list[tuple[Callable, tuple]] = []
    if activation is None:
        beta = None  # plays no part
    aligned = rows_are_aligned(dy, x, dx, gamma, beta)
    if method == "auto":
        most_columns = BACKWARD_THREADS * BACKWARD_ELEMENTS[aligned][-1]
        method = "registers" if columns <= most_columns else "two kernels"
    if method == "registers":
        shape = backward_shape(columns, aligned)
        blocks = min(-(-rows // shape.rows), most)
        parts = blocks * shape.rows
    else:
        parts = min(-(-rows // DOWN), 64)
    some = workspace((2, parts if parameters else 1, columns), np.float32)
    if method == "registers":
        full = shape.full(columns, aligned)
        form = Form(
            name_of(dx.dtype), aligned, full, gamma is not None, beta is not None, activation
        )
        kernel = backward_in_registers(shape, form, parameters)
        factors = (
            constant(1, 1) if gamma is None else gamma,
            constant(0, 1) if beta is None else beta,
        )
        call = kernel[blocks, shape.threads, stream]
        launches.append((call, (dy, x, *factors, eps, dx, some)))
    else:
        moments = workspace((rows, 2), np.float32)
        factors = (
            constant(1, columns) if gamma is None else gamma,
            constant(0, columns) if beta is None else beta,
        )
        call = backward_of_rows(activation)[rows, THREADS, stream]
        launches.append((call, (dy, x, *factors, eps, dx, moments)))
        if parameters:
            grid = -(-columns // COLUMNS), parts
            call = backward_of_columns(activation)[grid, (COLUMNS, DOWN), stream]
            launches.append((call, (dy, x, *factors, moments, some)))
    if parameters:
        launches.append(_summed(some, dgamma, dbeta, stream))
    return launches


def _summed(some: Array, dgamma: Array, dbeta: Array, stream: Any) -> tuple[Callable, tuple]:
    """The launch that adds up the parts of both sums."""
    grid = -(-some.shape[-1] // COLUMNS), 2
    return column_sums[grid, (COLUMNS, SUMS_DOWN), stream], (some, dgamma, dbeta)
