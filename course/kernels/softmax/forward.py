"""The softmax of each row, ``exp(x - max) / sum(exp(x - max))``: three passes, two, one.

>>> y = softmax(x)                       # NumPy in, NumPy out; GPU arrays stay there
>>> softmax(x, out=x)                    # in place

The maximum is subtracted so that no exponential overflows; the result is the same. Rows hold
float32, float16 or bfloat16, sums are float32. NaN or +inf in a row makes all of it NaN, and so
does a row of -inf alone, as in PyTorch. The steps change how often a row is read from memory.

Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, int32, int64

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import name_of
from course.heuristics import softmax as heuristics
from course.heuristics.softmax import VECTOR, RowProblem, SoftmaxConfig, best, no_cluster, too_long
from course.kernels.arrays import NUMBA_TYPES, Array, address_of, alike, matrix, rows_are_aligned
from course.kernels.steps import Ladder, Launch, Step, ceil_div, require_choice, shared_memory_limit
from course.kernels.warps import WARP, lanes_sum, over_lanes
from warpsim import ptx

LOG2_E = np.float32(math.log2(math.e))
ZERO, ONE, MINUS_INFINITY = np.float32(0), np.float32(1), np.float32(-np.inf)
LOWEST = np.finfo(np.float32).min  # first maximum; not minus infinity, which less itself is NaN


@cuda.jit(device=True)
def larger(a, b):
    """The larger of two, ignoring NaN, which the sum of exponentials carries on."""
    return cuda.libdevice.fmaxf(a, b)


@cuda.jit(device=True)
def power(x, largest):
    """exp(x - largest), at most 1. With fastmath the power is one instruction, and 0 below 2**-126.
    Without it, three more instructions keep such subnormal numbers.
    """
    return cuda.libdevice.fast_expf(x - largest)


def most_registers(threads: int) -> int | None:
    """The most registers a thread with which a block of so many threads can be launched.

    None for small blocks: left alone, the compiler takes fewer, and occupancy is higher.
    """
    return 65_536 // threads if threads > 512 else None


@functools.cache
def exchange(row_threads: int, rows: int) -> Callable:
    """Device function: merge (largest, total) of a row's warps, for all threads of the row.

    The block has `rows` rows of `row_threads` threads, 64 at least. One barrier: each warp reads
    the pairs of all warps of its row and merges them for itself, which saves a second barrier.
    """
    warps = row_threads // WARP
    largest_of, sum_of = over_lanes(larger, warps), lanes_sum(warps)

    @cuda.jit(device=True)
    def of_row(largest, total):
        maxima = cuda.shared.array((rows, warps), float32)
        totals = cuda.shared.array((rows, warps), float32)
        t, row = int32(cuda.threadIdx.x), int32(cuda.threadIdx.y)
        if t % WARP == 0:
            maxima[row, t // WARP], totals[row, t // WARP] = largest, total
        cuda.syncthreads()
        largest, total = maxima[row, t % warps], totals[row, t % warps]
        both = largest_of(largest)
        return both, sum_of(total * power(largest, both))

    return of_row


@functools.cache
def exchange_in_cluster(threads: int, blocks: int) -> Callable:
    """As `exchange`, for a row of a cluster's blocks, which read each other's shared memory."""
    of_block = exchange(threads, 1)

    @cuda.jit(device=True)
    def of_row(largest, total):
        pair = cuda.shared.array(4, float32, alignment=16)
        largest, total = of_block(largest, total)
        if cuda.threadIdx.x == 0:
            ptx.store4(pair, 0, (largest, total, ZERO, ZERO))
        ptx.cluster_barrier()
        largest, total = LOWEST, ZERO
        for block in range(blocks):
            its = ptx.load4_cluster(pair, int32(0), int32(block))
            both = larger(largest, its[0])
            total = total * power(largest, both) + its[1] * power(its[0], both)
            largest = both
        ptx.cluster_barrier()  # a block may not end while others read its pair
        return largest, total

    return of_row


# --- step 1: three passes -------------------------------------------------------------------------

THREADS = 256  # of a block in step 1


@cuda.jit
def softmax_three_passes(x, out):
    """Step 1, as the formula stands: the maximum, the sum, the row; x is read three times.

    Mapping: block i has row i, thread t the columns t, t + 256, ... Two passes end in a tree.
    Memory: the second and third pass read from a cache, if the row is still there.
    """
    shared = cuda.shared.array(THREADS, float32)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    columns = x.shape[1]
    largest = LOWEST
    for column in range(t, columns, THREADS):
        largest = larger(largest, float32(x[row, column]))
    shared[t] = largest
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            shared[t] = larger(shared[t], shared[t + half])
        cuda.syncthreads()
        half //= 2
    largest = shared[0]
    cuda.syncthreads()  # all have read shared[0] before it is overwritten
    total = ZERO
    for column in range(t, columns, THREADS):
        total += power(float32(x[row, column]), largest)
    shared[t] = total
    cuda.syncthreads()
    half = THREADS // 2
    while half > 0:
        if t < half:
            shared[t] += shared[t + half]
        cuda.syncthreads()
        half //= 2
    for column in range(t, columns, THREADS):
        out[row, column] = power(float32(x[row, column]), largest) / shared[0]


# --- step 2: online -------------------------------------------------------------------------------


@functools.cache
def online(dtype: str, threads: int, aligned: bool) -> Callable:
    """Step 2, of (x, out): maximum and sum in one pass, so x is read twice.

    The sum is of exponentials relative to the largest element so far. A larger element rescales it;
    four elements share a rescaling. Threads merge their pairs (maximum, sum) by shuffles.
    Mapping: block i has row i, of any length.
    """
    element = NUMBA_TYPES[dtype]
    of_row = exchange(threads, 1)
    largest_of, sum_of = over_lanes(larger, WARP), lanes_sum(WARP)

    @cuda.jit(device=True)
    def one_of(x, row, column, columns):
        value = float32(x[row, min(column, columns - 1)])
        return value if column < columns else MINUS_INFINITY

    @cuda.jit(device=True)
    def four_of(x, row, part, t, columns):
        """Four elements of a row, minus infinity beyond its end."""
        if aligned:
            column = (part * threads + t) * VECTOR
            a, b, c, d = ptx.load4(x, (row, min(column, columns - VECTOR)))
            if column >= columns:
                return MINUS_INFINITY, MINUS_INFINITY, MINUS_INFINITY, MINUS_INFINITY
            return float32(a), float32(b), float32(c), float32(d)
        column = part * VECTOR * threads + t
        a, b = one_of(x, row, column, columns), one_of(x, row, column + threads, columns)
        column += 2 * threads
        return a, b, one_of(x, row, column, columns), one_of(x, row, column + threads, columns)

    @cuda.jit(fastmath=True, max_registers=most_registers(threads))
    def softmax_online(x, out):
        row, t, columns = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x), int32(x.shape[1])
        parts = (columns + (VECTOR * threads - 1)) // (VECTOR * threads)
        largest, total = LOWEST, ZERO
        for part in range(parts):
            a, b, c, d = four_of(x, row, int32(part), t, columns)
            here = larger(largest, larger(larger(a, b), larger(c, d)))
            total = (
                total * power(largest, here)
                + (power(a, here) + power(b, here))
                + (power(c, here) + power(d, here))
            )
            largest = here
        here = largest_of(largest)
        largest, total = of_row(here, sum_of(total * power(largest, here)))
        scale = ONE / total
        for part in range(parts):
            a, b, c, d = four_of(x, row, int32(part), t, columns)
            a, b = power(a, largest) * scale, power(b, largest) * scale
            c, d = power(c, largest) * scale, power(d, largest) * scale
            if aligned:
                column = (int32(part) * threads + t) * VECTOR
                if column < columns:
                    four = element(a), element(b), element(c), element(d)
                    ptx.store4(out, (row, column), four)
            else:
                column = int32(part) * VECTOR * threads + t
                for value in (a, b, c, d):
                    if column < columns:
                        out[row, column] = value
                    column += threads

    return softmax_online


# --- step 3: the row in registers -----------------------------------------------------------------


@functools.cache
def part_of_row(
    config: SoftmaxConfig, access: str, unguarded: int, keep_in_l2: bool = False
) -> tuple[Callable, Callable, Callable, Callable]:
    """Device functions of a thread's part of a row: first_of, load_row, inside, store_row.

    `values` has the shape (accesses, 4). Where all rows begin at a multiple of four elements
    ("aligned"), access n of thread t has four columns from ``4 (n row_threads + t)`` on. Where only
    arrays begin so ("shifted"), these columns count from the multiple of four at or before the
    row's begin. There, accesses across an end of the row go element by element. Else ("single")
    neighbouring threads have neighbouring columns.
    The first `unguarded` loads are inside the row for every thread, except those across a row's
    begin. In the others, columns are clamped to the row's last ones. Accesses are streaming: no
    cache need keep a row. With `keep_in_l2`, L2 keeps loaded elements longer. Columns are 64-bit
    integers, so that a thread's addresses share one register, with constant offsets.
    """
    row_threads, accesses = config.row_threads, config.accesses
    single, shifted = access == "single", access == "shifted"
    after = {"aligned": VECTOR, "shifted": VECTOR, "single": 1}[access]  # the next thread's column
    read, read_four, write, write_four = (
        (ptx.load_kept, ptx.load4_kept, ptx.store, ptx.store4) if keep_in_l2
        else (ptx.load_streaming, ptx.load4_streaming, ptx.store_streaming, ptx.store4_streaming)
    )  # fmt: skip

    @cuda.jit(device=True)
    def first_of(x, row, t):
        """The first column of a thread, below 0 where the row begins within its four."""
        shift = row * (x.strides[0] // x.itemsize) & (VECTOR - 1) if shifted else 0
        return int64(t) * after - shift

    @cuda.jit(device=True)
    def inside(n, e, first, columns):
        """Whether element e of access n is in the row."""
        if single:
            return n * VECTOR + e < unguarded or first + (n * VECTOR + e) * row_threads < columns
        column = first + n * row_threads * VECTOR + (e if shifted else 0)
        begun = n > 0 or not shifted or column >= 0
        return begun and (n < unguarded or column < columns)

    @cuda.jit(device=True)
    def load_row(x, row, first, values):
        last = int64(x.shape[1] - 1)
        for n in range(accesses):
            column = first + n * row_threads * VECTOR
            if access == "aligned":
                clamped = column if n < unguarded else min(column, last - (VECTOR - 1))
                four = read_four(x, (row, clamped))
                values[n, 0], values[n, 1], values[n, 2], values[n, 3] = four
            elif shifted:
                whole = n < unguarded or column + (VECTOR - 1) <= last
                if whole and (n > 0 or column >= 0):
                    four = read_four(x, (row, column))
                    values[n, 0], values[n, 1], values[n, 2], values[n, 3] = four
                else:
                    for e in range(VECTOR):
                        clamped = max(min(column + e, last), int64(0))
                        values[n, e] = read(x, (row, clamped))
            else:
                for e in range(VECTOR):
                    column = first + (n * VECTOR + e) * row_threads
                    clamped = column if n * VECTOR + e < unguarded else min(column, last)
                    values[n, e] = read(x, (row, clamped))

    @cuda.jit(device=True)
    def store_row(out, row, first, values):
        last = int64(out.shape[1] - 1)
        for n in range(accesses):
            column = first + n * row_threads * VECTOR
            if single:
                for e in range(VECTOR):
                    column = first + (n * VECTOR + e) * row_threads
                    if n * VECTOR + e < unguarded or column <= last:
                        write(out, (row, column), values[n, e])
                continue
            whole = n < unguarded or column + (VECTOR - 1) <= last
            if whole and (n > 0 or not shifted or column >= 0):
                four = values[n, 0], values[n, 1], values[n, 2], values[n, 3]
                write_four(out, (row, column), four)
            elif shifted:
                for e in range(VECTOR):
                    if 0 <= column + e <= last:
                        write(out, (row, column + e), values[n, e])

    return first_of, load_row, inside, store_row


#: Registers a thread in clusters of 16-bit rows with up to `THIN_ACCESSES` accesses, which need no
#: more. So three blocks of 512 threads fit a multiprocessor, not two: while one waits for its
#: cluster, two load or store.
THIN, THIN_ACCESSES = 40, 5


@functools.cache
def registers(
    dtype: str, config: SoftmaxConfig, access: str, unguarded: int = 0, keep_in_l2: bool = False
) -> Callable:
    """Step 3, of (x, out): each row is read once, kept in registers, and written.

    Mapping: block (row_threads, rows), thread (t, r) of block b works on row ``b * rows + r``, on
    the columns of `part_of_row`; `unguarded` is `SoftmaxConfig.unguarded` of the rows, or less.
    `keep_in_l2` needs float32 and compute capability 8.0: see `part_of_row`.
    Columns beyond the end count as minus infinity; rows beyond the end are not written. x may be
    out. Where several blocks share a row, block b has a part of row ``b // blocks``.
    """
    element, row_threads, accesses = NUMBA_TYPES[dtype], config.row_threads, config.accesses
    block_rows, warps, blocks = config.rows, row_threads // WARP, config.blocks
    threads, lanes = row_threads // blocks, min(row_threads, WARP)
    largest_of, sum_of = over_lanes(larger, lanes), lanes_sum(lanes)
    of_row = exchange(row_threads, block_rows) if warps > 1 else None
    if blocks > 1:
        of_row = exchange_in_cluster(threads, blocks)
    first_of, load_row, inside, store_row = part_of_row(config, access, unguarded, keep_in_l2)
    thin = blocks > 1 and access == "aligned" and accesses <= THIN_ACCESSES and dtype != "float32"
    limit = THIN if thin else most_registers(threads * block_rows)

    @cuda.jit(fastmath=True, max_registers=limit)
    def softmax_registers(x, out):
        if blocks > 1:
            ptx.cluster(blocks)
        row_elements = cuda.local.array((accesses, VECTOR), element)
        values = cuda.local.array((accesses, VECTOR), float32)
        ptx.grid_dependency_wait()
        t, columns = int32(cuda.threadIdx.x), int32(x.shape[1])
        row = int32(cuda.blockIdx.x) * block_rows + int32(cuda.threadIdx.y)
        if blocks > 1:
            t, row = t + ptx.cluster_rank() * int32(threads), row // int32(blocks)
        clamped = min(row, int32(x.shape[0] - 1))
        first = first_of(x, clamped, t)
        load_row(x, clamped, first, row_elements)
        largest, total = LOWEST, ZERO
        for n in range(accesses):
            for e in range(VECTOR):
                value = float32(row_elements[n, e])
                values[n, e] = value if inside(n, e, first, columns) else MINUS_INFINITY
            left, right = larger(values[n, 0], values[n, 1]), larger(values[n, 2], values[n, 3])
            largest = larger(largest, larger(left, right))
        largest = largest_of(largest)
        for n in range(accesses):
            for e in range(VECTOR):
                values[n, e] = power(values[n, e], largest)
            total += (values[n, 0] + values[n, 1]) + (values[n, 2] + values[n, 3])
        total = sum_of(total)
        scale = ONE
        if warps > 1:
            here = largest
            largest, total = of_row(here, total)
            scale = power(here, largest)
        scale = cuda.libdevice.fast_fdividef(scale, total)
        for n in range(accesses):
            for e in range(VECTOR):
                row_elements[n, e] = element(values[n, e] * scale)
        if row < x.shape[0]:
            store_row(out, row, first, row_elements)

    return softmax_registers


# --- launches -------------------------------------------------------------------------------------

ONLINE_THREADS = {"short": 256, "long": 1024}  # of a block in step 2; long: beyond LONGEST


def problem_of(*arrays: Array) -> RowProblem:
    """The problem of matrices on the device."""
    first, aligned = arrays[0], rows_are_aligned(*arrays)
    size = VECTOR * first.dtype.itemsize
    forward32 = len(arrays) == 2 and first.dtype.itemsize == 4
    shifted = not aligned and heuristics.prefers_shifted(*first.shape, forward32) and all(
        address_of(array) % size == (array.strides[0] - first.strides[0]) % size == 0
        for array in arrays
    )  # fmt: skip
    return RowProblem(*first.shape, name_of(first.dtype), aligned, shifted)


def _three_passes(problem: RowProblem, x: Array, out: Array) -> list[Launch]:
    return [Launch(softmax_three_passes, problem.rows, THREADS, (x, out))]


def _online(problem: RowProblem, x: Array, out: Array) -> list[Launch]:
    threads = ONLINE_THREADS["long" if too_long(problem) else "short"]
    kernel = online(problem.dtype, threads, problem.aligned)
    return [Launch(kernel, problem.rows, threads, (x, out))]


def in_registers(
    make: Callable, config_of_rows: Callable, problem: RowProblem, *arrays: Array
) -> list[Launch]:
    """The launch of a kernel with rows in registers; `config_of_rows` chooses its config."""
    rows, columns, dtype, access = *problem[:3], problem.access
    processors = heuristics.multiprocessors()
    config = config_of_rows(columns, access, problem.size, rows, processors)
    kernel = make(dtype, config, access, config.unguarded(columns, access))
    grid, threads = ceil_div(rows, config.rows) * config.blocks, config.row_threads
    early = heuristics.begins_early(threads, columns, access, rows, processors, len(arrays) - 1)
    return [Launch(kernel, grid, (threads // config.blocks, config.rows), arrays, early=early)]


def _on_this_gpu(dtype: str, *more: Any) -> Callable:
    """The kernel of step 3; kept in L2, float32 took 1 to 9% less time on an H200."""
    return registers(dtype, *more, dtype == "float32" and shared_memory_limit()[1])


_registers = functools.partial(in_registers, _on_this_gpu, heuristics.config_for)
_clusters = functools.partial(in_registers, registers, heuristics.cluster_config)

LADDER = Ladder(
    "softmax",
    problem_of,
    {
        "three passes": Step(_three_passes),
        "online": Step(_online),
        "registers": Step(_registers, too_long),
        "clusters": Step(_clusters, no_cluster),
    },
    best=lambda problem: best(problem, not LADDER["clusters"].lacks(problem)),
)


# --- the entry point ------------------------------------------------------------------------------


def _result(x: ArrayFacts, method: str) -> Result:
    require_choice(method, "method", LADDER.names)
    return alike({"x": x}, rows=True)


def _launches(x: Array, out: Array, method: str) -> list[Launch]:
    return LADDER.launches(matrix(x, "x"), matrix(out, "out"), method=method)


_ENTRY = EntryPoint("softmax", ("x",), _result, _launches, in_place=("x",), options=("method",))


def softmax(
    x: Array, out: Array | None = None, method: str = "auto", stream: Stream = None
) -> Array:
    """The softmax along the last axis, on the GPU (or the simulated one).

    Parameters
    ----------
    x : array, shape (..., columns)
        Of NumPy, CuPy, PyTorch or numba.cuda; float32, float16, bfloat16. On the GPU each row is
        contiguous; a matrix may be a slice of longer rows.
    out : array, optional
        Where to write, of x's shape and dtype; may be x.
    method : str
        One of `LADDER.names`: "auto" takes "registers"; for few long rows, and rows too long for
        registers, "clusters". Where clusters cannot be had, rows too long take "online".
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda; by default x's library's current one.

    Returns
    -------
    array
        `out`, if it is given; else of x's library, shape and dtype.

    Raises
    ------
    TypeError, ValueError
        For another dtype; an unknown method, or one that does not take such rows; shapes or strides
        that do not fit.
    """
    return _ENTRY.call((x,), (method,), out, stream)


softmax.ladder = LADDER
