"""LayerNorm backward: gradients of the rows, of gamma and of beta.

With xhat = (x - mean) * scale, scale = 1 / sqrt(variance + eps) and g = dy * gamma:

    dx     = scale * (g - mean(g) - xhat * mean(g * xhat))      means over the row
    dgamma = sum(dy * xhat),  dbeta = sum(dy)                   sums over the rows

Where an activation follows, dy is first multiplied by its derivative at xhat * gamma + beta.

Nothing is kept from forward: mean and scale are computed again from x, which has to be
read anyway. Sums over rows are float32, in parts that are added up at the end; no atomics, so the
same input gives the same bits.

Method "two kernels" takes rows of any length: one kernel for dx, one for the columns' sums, which
reads dy and x once more. Method "registers" (`course.kernels.norm.backward_registers`) does both in
one. Its blocks walk over the rows; registers hold a row of x and of dy, and the columns' sums.
After either, one small kernel adds up the parts of dgamma and dbeta.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numba import float32

from course.backend import cuda
from course.dispatch.entry import EntryPoint, Stream
from course.dispatch.slots import name_of, workspace
from course.heuristics import norm as heuristics
from course.heuristics.device import ceil_div, multiprocessors, row_limit
from course.kernels.activation import function_of
from course.kernels.arrays import Array, checked, matrix, rows_are_aligned
from course.kernels.norm.backward_registers import backward_in_registers
from course.kernels.norm.first_steps import merged_in_block, moments_of, or_constant
from course.kernels.norm.ladder import check_rows, factors_in_order
from course.kernels.steps import Ladder, Launch, Step, require_choice
from course.kernels.warps import WARP, lanes_sum

# --- the columns' sums, added up ------------------------------------------------------------------

COLUMNS, DOWN = 32, 8  # threads of a block in x and y
MOST_PARTS = 64  # of the rows, each with its own sums
SUMS_DOWN = 32  # threads in y of `column_sums`: the most that a block can have, and loads in flight


@functools.cache
def sum_down(down: int) -> Callable:
    """A device function: the sum over the `down` threads of a column, for its first thread."""

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


sum_lanes, of_block = lanes_sum(WARP), merged_in_block(WARPS)


@functools.cache
def backward_of_rows(activation: str | None) -> Callable:
    """The gradient of the rows, of (dy, x, gamma, beta, eps, dx, moments).

    moments (rows, 2) receives each row's mean and scale.

    Mapping: block i has row i, thread t the columns t, t + 256, ...
    Memory: x is read three times and dy twice, from memory once where the row stays in a cache.
    """
    slope = function_of(activation, backward=True)

    @cuda.jit
    def backward_of_row(dy, x, gamma, beta, eps, dx, moments):
        shared_sums = cuda.shared.array((2, WARPS), float32)
        row, t = cuda.blockIdx.x, cuda.threadIdx.x
        columns = x.shape[1]
        count, mean, squares = moments_of(x, row, t, THREADS)
        count, mean, squares = of_block(count, mean, squares)
        scale = float32(1) / math.sqrt(squares / count + eps)
        if t == 0:
            moments[row, 0], moments[row, 1] = mean, scale
        sum_g, sum_gx = float32(0), float32(0)
        for column in range(t, columns, THREADS):
            hat, factor = (float32(x[row, column]) - mean) * scale, float32(gamma[column])
            g = slope(float32(dy[row, column]), hat * factor + float32(beta[column])) * factor
            sum_g += g
            sum_gx += g * hat
        sum_g, sum_gx = pair_sum(sum_g, sum_gx, shared_sums)
        sum_g, sum_gx = sum_g / count, sum_gx / count
        for column in range(t, columns, THREADS):
            hat, factor = (float32(x[row, column]) - mean) * scale, float32(gamma[column])
            g = slope(float32(dy[row, column]), hat * factor + float32(beta[column])) * factor
            dx[row, column] = scale * (g - sum_g - hat * sum_gx)

    return backward_of_row


@functools.cache
def backward_of_columns(activation: str | None) -> Callable:
    """Sums of dy * xhat and of dy over parts of the rows, by (dy, x, gamma, beta, moments, some).

    some (2, parts, columns) receives them; dy is first multiplied by the activation's derivative.

    Mapping: block (i, j) of 32 x 8 threads has 32 columns and part j of the rows. These are groups
    j, j + parts, ... of eight rows each.
    """
    slope = function_of(activation, backward=True)

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


# --- the ladder -----------------------------------------------------------------------------------


def _problem_of(dy, x, gamma, beta, dx, dgamma, dbeta, eps, activation):
    given = gamma is not None, beta is not None and activation is not None
    aligned = rows_are_aligned(dy, x, dx, gamma, beta if given[1] else None)
    variant = heuristics.Variant(name_of(dx.dtype), aligned, 0, *given, activation)
    return heuristics.BackwardProblem(*x.shape, variant, dgamma is not None)


_too_long = row_limit(heuristics.longest_backward)


def _two_kernels(p, dy, x, gamma, beta, dx, dgamma, dbeta, eps, activation):
    rows, columns, variant, parameters = p
    parts = min(ceil_div(rows, DOWN), MOST_PARTS)
    moments = workspace((rows, 2), np.float32)
    beta = beta if variant.beta else None
    factors = or_constant(gamma, 1, columns), or_constant(beta, 0, columns)
    kernel, arguments = backward_of_rows(activation), (dy, x, *factors, np.float32(eps), dx)
    found = [Launch(kernel, rows, THREADS, (*arguments, moments))]
    if parameters:
        some = workspace((2, parts, columns), np.float32)
        kernel, grid = backward_of_columns(activation), (ceil_div(columns, COLUMNS), parts)
        found.append(Launch(kernel, grid, (COLUMNS, DOWN), (dy, x, *factors, moments, some)))
        found.append(summed(some, dgamma, dbeta))
    return found


def _registers(p, dy, x, gamma, beta, dx, dgamma, dbeta, eps, activation):
    rows, columns, variant, parameters = p
    config = heuristics.backward_config(columns, variant.aligned)
    blocks = min(ceil_div(rows, config.rows), heuristics.BACKWARD_BLOCKS * multiprocessors())
    some = workspace((2, blocks * config.rows if parameters else 1, columns), np.float32)
    variant = replace(variant, unguarded=config.unguarded(columns, variant.aligned))
    kernel = backward_in_registers(config, variant, parameters)
    factors = or_constant(gamma, 1, 1), or_constant(beta if variant.beta else None, 0, 1)
    arguments = dy, x, *factors, np.float32(eps), dx, some
    found = [Launch(kernel, blocks, config.threads, arguments)]
    return [*found, summed(some, dgamma, dbeta)] if parameters else found


def summed(some: Array, dgamma: Array, dbeta: Array) -> Launch:
    """The launch that adds up the parts of dgamma and of dbeta."""
    grid = ceil_div(some.shape[-1], COLUMNS), 2
    return Launch(column_sums, grid, (COLUMNS, SUMS_DOWN), (some, dgamma, dbeta))


BACKWARD = Ladder(
    "layer_norm_backward",
    _problem_of,
    {"two kernels": Step(_two_kernels), "registers": Step(_registers, _too_long)},
    best=lambda problem: "two kernels" if _too_long(problem) else "registers",
)


# --- the entry point ------------------------------------------------------------------------------


def _results(dy, x, gamma, beta, eps, parameters, method, activation):
    columns = check_rows(x, {"gamma": gamma, "beta": beta}, eps)
    checked(dy, "dy", like=x)
    require_choice(method, "method", BACKWARD.names)
    function_of(activation)
    a_sum = ((columns,), x.dtype if gamma is None else gamma.dtype) if parameters else None
    return [(x.shape, x.dtype), a_sum, a_sum]


def _launches(dy, x, gamma, beta, dx, dgamma, dbeta, eps, parameters, method, activation):
    if not x.size:  # sums over no rows are zeros
        none = workspace((2, 1, x.shape[-1]), np.float32, zeros=True)
        return [summed(none, dgamma, dbeta)] if parameters else []
    arrays = matrix(dy, "dy"), matrix(x, "x"), gamma, beta, matrix(dx, "dx"), dgamma, dbeta
    factors_in_order(gamma, beta)
    return BACKWARD.launches(*arrays, eps=eps, activation=activation, method=method)


_ENTRY = EntryPoint(
    "layer_norm_backward", ("dy", "x", "gamma", "beta"), _results, _launches, ("gamma", "beta"),
    empty=True, options=("eps", "parameters", "method", "activation"),
)  # fmt: skip


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
        The gradient of the result; of x's shape and dtype.
    x, gamma, eps
        As given to `layer_norm`.
    parameters : bool
        Whether dgamma and dbeta are wanted.
    method : str
        One of `BACKWARD.names`: "auto" takes "registers", and "two kernels" for longer rows.
    stream
        As for `layer_norm`.
    beta, activation
        As given to `layer_norm`. Without an activation no gradient depends on beta.

    Returns
    -------
    dx : array, of x's shape and dtype
    dgamma, dbeta : array or None, shape (columns,)
        Of gamma's dtype; without gamma, of x's.

    Raises
    ------
    ValueError, TypeError
        As `layer_norm`.
    """
    if isinstance(eps, np.generic):  # it would be compared in its own precision
        eps = eps.item()
    return _ENTRY.call((dy, x, gamma, beta), (eps, parameters, method, activation), None, stream)


layer_norm_backward.ladder = BACKWARD
