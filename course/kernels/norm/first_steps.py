"""Normalise the rows of a matrix (LayerNorm), steps 1 to 5: a thread, a block, a warp for a row.

Each row x of length n becomes ``(x - mean) / sqrt(variance + eps) * gamma + beta``, with the
variance as the mean of ``(x - mean)**2``: Ba, Kiros, Hinton, "Layer Normalization",
arXiv:1607.06450. All kernels take x (rows, columns), gamma (columns,), beta (columns,), eps, out
(rows, columns); x, out, gamma and beta hold float32, float16 or bfloat16, sums are float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.heuristics.norm import NormProblem, Variant
from course.kernels.arrays import Array
from course.kernels.steps import Launch, Step, ceil_div
from course.kernels.warps import ALL, WARP

# --- what a step is -------------------------------------------------------------------------------


class Made(NamedTuple):
    """A kernel, blocks, threads, and bytes of dynamic shared memory."""

    kernel: Callable
    blocks: int
    threads: int
    shared: int = 0


@dataclass(frozen=True, kw_only=True)
class NormStep(Step):
    """A step of the ladder that also gives its kernel by itself."""

    #: ``launch(rows, columns, variant)`` gives the kernel, called with (x, gamma, beta, eps, out),
    #: and what it is launched with.
    launch: Callable[[int, int, Variant], Made]


@functools.lru_cache(16)
def constant(value: int, length: int, device: int) -> Array:
    """An array on a GPU that repeats a number; cached."""
    return cuda.to_device(np.full(length, value, np.float32))


def or_constant(factor: Array | None, value: int, length: int) -> Array:
    """Gamma or beta; `length` times `value` where it is None."""
    if factor is not None:
        return factor
    return constant(value, length, cuda.get_current_device().id)


def fused(
    launch: Callable[[int, int, Variant], Made], refusal: Callable[[NormProblem], str],
    missing: int = 1,
) -> NormStep:  # fmt: skip
    """A step of one launch. A factor that is None becomes `missing` constants; 0: one a column."""

    def launches(p, x, gamma, beta, out, eps, activation):
        made, length = launch(p.rows, p.columns, p.variant), missing or p.columns
        factors = or_constant(gamma, 1, length), or_constant(beta, 0, length)
        arguments = x, *factors, np.float32(eps), out
        return [Launch(made.kernel, made.blocks, made.threads, arguments, made.shared)]

    return NormStep(launches, refusal, launch=launch)


# --- step 1: a thread a row -----------------------------------------------------------------------


@cuda.jit
def layer_norm_naive(x, gamma, beta, eps, out):
    """Step 1: the formula as it stands; the mean, then the variance, then the row.

    Mapping: thread i normalises row i.
    Memory: x is read three times. The lanes of a warp read one column, with addresses a row apart.
    So each lane requests its own sector, and uses 4 bytes of it at a time.
    """
    row = cuda.grid(1)
    if row < x.shape[0]:
        columns = x.shape[1]
        total = float32(0)
        for column in range(columns):
            total += float32(x[row, column])
        mean = total / float32(columns)
        squares = float32(0)
        for column in range(columns):
            difference = float32(x[row, column]) - mean
            squares += difference * difference
        scale = float32(1) / math.sqrt(squares / float32(columns) + eps)
        for column in range(columns):
            y = (float32(x[row, column]) - mean) * scale
            out[row, column] = y * float32(gamma[column]) + float32(beta[column])


# --- steps 2 and 3: a block a row, a tree in shared memory ----------------------------------------

TREE = 128  # threads of a block; a power of two


@cuda.jit(device=True)
def tree_sum(value, shared):
    """The sum of every thread's value, for all threads: half of the threads add, then a quarter."""
    t = cuda.threadIdx.x
    shared[t] = value
    cuda.syncthreads()
    half = TREE // 2
    while half > 0:
        if t < half:
            shared[t] += shared[t + half]
        cuda.syncthreads()
        half //= 2
    total = shared[0]
    cuda.syncthreads()  # all have read it before the next sum overwrites it
    return total


@cuda.jit(device=True)
def write_row(x, row, first, step, mean, scale, gamma, beta, out):
    """A thread's part of a row, every `step`-th column from `first` on, normalised."""
    for column in range(first, x.shape[1], step):
        y = (float32(x[row, column]) - mean) * scale
        out[row, column] = y * float32(gamma[column]) + float32(beta[column])


@cuda.jit
def layer_norm_tree(x, gamma, beta, eps, out):
    """Step 2: a block shares a row and adds in a tree; still two passes before the last.

    Mapping: block i normalises row i, thread t has the columns t, t + 128, ...
    Memory: neighbouring lanes read neighbouring columns. x is read three times, the second and
    third from a cache, if the row is still there. Each tree has 9 barriers.
    """
    shared = cuda.shared.array(TREE, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    columns = x.shape[1]
    total = float32(0)
    for column in range(t, columns, TREE):
        total += float32(x[row, column])
    mean = tree_sum(total, shared) / float32(columns)
    squares = float32(0)
    for column in range(t, columns, TREE):
        difference = float32(x[row, column]) - mean
        squares += difference * difference
    variance = tree_sum(squares, shared) / float32(columns)
    write_row(x, row, t, TREE, mean, float32(1) / math.sqrt(variance + eps), gamma, beta, out)


@cuda.jit
def layer_norm_squares(x, gamma, beta, eps, out):
    """A trap beside step 3: one pass with variance = mean(x²) - mean(x)², which loses digits.

    Where the mean is large beside the spread, two large numbers are subtracted, each rounded to 24
    bits: the variance may come out wrong, zero, or below zero, and the row as NaN. In exact numbers
    the formula is right. Mapping and memory as in step 3, `layer_norm_one_pass`.
    """
    shared = cuda.shared.array(TREE, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    columns = x.shape[1]
    total, squares = float32(0), float32(0)
    for column in range(t, columns, TREE):
        value = float32(x[row, column])
        total += value
        squares += value * value
    mean = tree_sum(total, shared) / float32(columns)
    variance = tree_sum(squares, shared) / float32(columns) - mean * mean
    write_row(x, row, t, TREE, mean, float32(1) / math.sqrt(variance + eps), gamma, beta, out)


@cuda.jit(device=True)
def merged(count, mean, squares, other_count, other_mean, other_squares):
    """Merge count, mean and sum of squared differences from the mean of two parts of a row.

    Only differences are squared, so a large mean costs no digits. An empty part changes nothing.
    Source: Chan, Golub, LeVeque, "Updating Formulae and a Pairwise Algorithm for Computing Sample
    Variances", 1979.
    """
    both = count + other_count
    share = other_count / max(both, float32(1))
    difference = other_mean - mean
    moved = difference * share
    return both, mean + moved, squares + other_squares + moved * count * difference


@cuda.jit(device=True)
def moments_of(x, row, first, step):
    """Count, mean and sum of squared differences of every `step`-th element of a row, in one pass.

    Source: Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products",
    Technometrics 4 (1962).
    """
    count, mean, squares = float32(0), float32(0), float32(0)
    for column in range(first, x.shape[1], step):
        value = float32(x[row, column])
        count += float32(1)
        difference = value - mean
        mean += difference / count
        squares += difference * (value - mean)
    return count, mean, squares


@cuda.jit
def layer_norm_one_pass(x, gamma, beta, eps, out):
    """Step 3: mean and variance in one pass (Welford), the threads' parts merged in a tree.

    Mapping: as in step 2.
    Memory: x is read twice, from memory and from a cache. One tree instead of two.
    """
    counts = cuda.shared.array(TREE, float32)
    means = cuda.shared.array(TREE, float32)
    squares = cuda.shared.array(TREE, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    counts[t], means[t], squares[t] = moments_of(x, row, t, TREE)
    cuda.syncthreads()
    half = TREE // 2
    while half > 0:
        if t < half:
            o = t + half
            counts[t], means[t], squares[t] = merged(
                counts[t], means[t], squares[t], counts[o], means[o], squares[o]
            )
        cuda.syncthreads()
        half //= 2
    scale = float32(1) / math.sqrt(squares[0] / float32(x.shape[1]) + eps)
    write_row(x, row, t, TREE, means[0], scale, gamma, beta, out)


# --- steps 4 and 5: shuffles ----------------------------------------------------------------------

WARPS = 4  # of a block: rows in step 4, parts of a row in step 5


@cuda.jit(device=True)
def merged_in_warp(count, mean, squares):
    """Merge the moments of all lanes, for all lanes: five shuffles, no barrier."""
    for step in range(5):
        offset = 16 >> step
        other_count = cuda.shfl_xor_sync(ALL, count, offset)
        other_mean = cuda.shfl_xor_sync(ALL, mean, offset)
        other_squares = cuda.shfl_xor_sync(ALL, squares, offset)
        count, mean, squares = merged(count, mean, squares, other_count, other_mean, other_squares)
    return count, mean, squares


@functools.cache
def merged_in_block(warps: int) -> Callable:
    """Device function: merge the moments of all threads, for all threads."""

    @cuda.jit(device=True)
    def of_block(count, mean, squares):
        shared = cuda.shared.array((3, warps), float32)
        t = int32(cuda.threadIdx.x)
        warp, lane = t // int32(WARP), t % int32(WARP)
        count, mean, squares = merged_in_warp(count, mean, squares)
        if lane == 0:
            shared[0, warp], shared[1, warp], shared[2, warp] = count, mean, squares
        cuda.syncthreads()
        other = min(lane, int32(warps - 1))
        count = shared[0, other] if lane < warps else float32(0)
        squares = shared[2, other] if lane < warps else float32(0)
        return merged_in_warp(count, shared[1, other], squares)

    return of_block


@cuda.jit
def layer_norm_warp(x, gamma, beta, eps, out):
    """Step 4: a warp a row; lanes exchange registers, without shared memory and barriers.

    Mapping: warp w of block b normalises row 4 b + w, lane l has the columns l, l + 32, ...
    Memory: x is read twice, from memory and from a cache. Long rows leave a GPU with few warps.
    """
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * WARPS + t // WARP, t % WARP
    if row < x.shape[0]:
        count, mean, squares = moments_of(x, row, lane, WARP)
        count, mean, squares = merged_in_warp(count, mean, squares)
        scale = float32(1) / math.sqrt(squares / count + eps)
        write_row(x, row, lane, WARP, mean, scale, gamma, beta, out)


@cuda.jit
def layer_norm_block(x, gamma, beta, eps, out):
    """Step 5: a block a row; shuffles within the warps, one barrier between them.

    Mapping: block i normalises row i, thread t has the columns t, t + 128, ...
    Memory: x is read twice, from memory and from a cache. Each warp merges all warps' moments for
    itself, which saves a second barrier.
    """
    counts = cuda.shared.array(WARPS, float32)
    means = cuda.shared.array(WARPS, float32)
    squares_of = cuda.shared.array(WARPS, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    warp, lane = t // WARP, t % WARP
    count, mean, squares = moments_of(x, row, t, WARPS * WARP)
    count, mean, squares = merged_in_warp(count, mean, squares)
    if lane == 0:
        counts[warp], means[warp], squares_of[warp] = count, mean, squares
    cuda.syncthreads()
    count, mean, squares = counts[0], means[0], squares_of[0]
    for other in range(1, WARPS):
        count, mean, squares = merged(
            count, mean, squares, counts[other], means[other], squares_of[other]
        )
    scale = float32(1) / math.sqrt(squares / count + eps)
    write_row(x, row, t, WARPS * WARP, mean, scale, gamma, beta, out)


# --- launches -------------------------------------------------------------------------------------


def _plain(kernel: Callable, rows_a_block: int, threads: int) -> NormStep:
    """The step of a kernel that is the same for all rows, and fuses no activation."""

    def launch(rows: int, columns: int, variant: Variant) -> Made:
        return Made(kernel, ceil_div(rows, rows_a_block), threads)

    return fused(launch, lambda problem: "", missing=0)


#: The steps by name; "squares" is there to show how it fails.
FIRST_STEPS = {
    "naive": _plain(layer_norm_naive, 64, 64),
    "tree": _plain(layer_norm_tree, 1, TREE),
    "squares": _plain(layer_norm_squares, 1, TREE),
    "one pass": _plain(layer_norm_one_pass, 1, TREE),
    "warp": _plain(layer_norm_warp, WARPS, WARPS * WARP),
    "block": _plain(layer_norm_block, 1, WARPS * WARP),
}
