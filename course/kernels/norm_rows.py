"""Normalise the rows of a matrix, steps 6 and 7: wide loads and the row in registers.

Step 6: a block reads its row once, 16 bytes a thread and access, all of them under way together,
and keeps it in registers: mean, then squared differences, then the result, without reading again.
Step 7 is the same with several short rows in a block: the threads of a row are a part of a warp and
need shuffles alone.

Which numbers a thread has: columns ``(part * row_threads + thread) * wide`` and the ``wide - 1``
after it, for each part. Parts that a row surely fills are compiled without a guard. In others, what
is beyond the row's end is the last numbers once more, left out of the sums: no load stands behind a
branch. Columns are counted in 64 bits, so that the parts' addresses are one register and constants.

An activation may follow before the result is written: fused, it costs no memory traffic.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from numba import float32, int32, int64

from course.backend import cuda
from course.intrinsics import (
    load,
    load4,
    load4_kept,
    load4_streaming,
    load_kept,
    load_streaming,
    store,
    store4,
    store4_streaming,
    store_streaming,
)  # fmt: skip
from course.kernels.activation import FUNCTIONS
from course.kernels.arrays import WORDS
from course.kernels.norm_steps import ALL, WARP


@cuda.jit(device=True)
def unchanged(x):
    """No activation."""
    return x


#: What may follow the normalisation, by name.
ACTIVATIONS: dict[str | None, Callable] = {
    None: unchanged,
    **{name: function for name, (function, _) in FUNCTIONS.items()},
}
REGISTERS = 65_536  # of a multiprocessor, from compute capability 5.0 to 12.0


@dataclass(frozen=True)
class Shape:
    """How the threads of a block share rows; what is tuned for a GPU.

    Attributes
    ----------
    row_threads : int
        Threads of a row: a power of two below 32, or a multiple of 32.
    rows : int
        Rows of a block.
    elements : int
        Numbers that a thread has of a row; a multiple of 4.
    most_registers : int
        Registers of a thread; fewer where else a block would not fit a multiprocessor.
    """

    row_threads: int
    rows: int = 1
    elements: int = 8
    most_registers: int = 255

    def __post_init__(self) -> None:
        threads = self.row_threads
        whole_warps = threads > 0 and threads % WARP == 0 and self.rows == 1
        part_of_warp = 0 < threads <= WARP and WARP % threads == 0 and self.threads % WARP == 0
        if not (whole_warps or part_of_warp) or self.threads > 1024:
            raise ValueError(
                f"{threads} threads for each of {self.rows} rows: one row takes whole warps; "
                "several take 1, 2, 4, 8, 16 or 32 threads each and fill whole warps together, of "
                "at most 1,024 threads"
            )
        if self.elements < 4 or self.elements % 4:
            raise ValueError(f"{self.elements} elements a thread: take a multiple of 4")

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.row_threads * self.rows

    @property
    def max_registers(self) -> int:
        """Registers of a thread, so that a block fits a multiprocessor."""
        return min(self.most_registers, REGISTERS // self.threads // 8 * 8)

    @property
    def longest(self) -> int:
        """The longest row that fits."""
        return self.row_threads * self.elements

    def parts(self, aligned: bool) -> int:
        """Accesses of a thread to a row."""
        return self.elements // (4 if aligned else 1)

    def full(self, columns: int, aligned: bool) -> int:
        """Those of them that are inside a row of this length for every thread."""
        wide = 4 if aligned else 1
        return min(columns // (self.row_threads * wide), self.parts(aligned))


@dataclass(frozen=True)
class Form:
    """What a kernel is compiled for, beside its shape.

    Attributes
    ----------
    kind : {"float32", "float16"}
        What the result is stored as.
    aligned : bool
        Rows, gamma and beta can be accessed four numbers at a time.
    full : int
        Parts of the threads' numbers that every row fills: no guard is needed there.
    gamma, beta : bool
        Whether they are there; without it the argument is not touched.
    activation : str, optional
        A name in `ACTIVATIONS`.
    shifted : bool
        Rows begin anywhere, but all of a row but at most 66 numbers can be accessed four at a time:
        `course.kernels.norm_split`. Gamma and beta are four copies.
    in_l2 : bool
        L2 is asked to keep what is read, float32, longer than what is written: compute capability
        8.0. On an H200 that is worth 1 to 3%; no counter has shown why.
    types : str, optional
        Signature of the arguments, of a kernel that is for these alone.
    """

    kind: str = "float32"
    aligned: bool = True
    full: int = 0
    gamma: bool = True
    beta: bool = True
    activation: str | None = None
    shifted: bool = False
    in_l2: bool = False
    types: str | None = None

    @property
    def wide(self) -> int:
        """Numbers of an access to a row."""
        return 4 if self.aligned or self.shifted else 1


class Pieces(NamedTuple):
    """Device functions of one thread's numbers.

    `take`, `put`: ``wide`` numbers at an index, to and from ``values[n:]``; `take_row`: of a row.
    `bring`: all numbers of a chunk. `how_many`: those that are in the row; `of_warp`: a whole
    warp's. `added`, `squared`: a thread's sum, and that of its squared differences from a number.
    `factors_at`: ``wide`` numbers of gamma and then of beta, from a column on. `result`: normalise
    ``wide`` numbers with them. `finish`: normalise all numbers, and write them. `take_row`, `bring`
    and `finish` say that no cache need keep a row, unless it is read `again`, or `Form.in_l2`.
    """

    take: Callable
    take_row: Callable
    put: Callable
    bring: Callable
    how_many: Callable
    of_warp: Callable
    added: Callable
    squared: Callable
    factors_at: Callable
    result: Callable
    finish: Callable


def pieces(shape: Shape, form: Form, again: bool = False) -> Pieces:
    """The device functions for a shape and a form."""
    row_threads, full = shape.row_threads, form.full
    wide, kind = form.wide, WORDS[form.kind]
    parts = shape.elements // wide
    has_gamma, has_beta, activation = form.gamma, form.beta, ACTIVATIONS[form.activation]
    read_one, read_four = load_streaming, load4_streaming
    write_one, write_four = store_streaming, store4_streaming
    if form.in_l2:
        read_one, read_four, write_one, write_four = load_kept, load4_kept, store, store4
    elif again:
        read_one, read_four = load, load4

    if wide == 4:

        def taking(load_wide):
            @cuda.jit(device=True)
            def take(array, index, values, n):
                a, b, c, d = load_wide(array, index)
                values[n], values[n + 1] = float32(a), float32(b)
                values[n + 2], values[n + 3] = float32(c), float32(d)

            return take

        take, take_row = taking(load4), taking(read_four)

        @cuda.jit(device=True)
        def put(array, index, values, n):
            a, b, c, d = values[n], values[n + 1], values[n + 2], values[n + 3]
            write_four(array, index, (kind(a), kind(b), kind(c), kind(d)))

    else:

        def taking(load_one):
            @cuda.jit(device=True)
            def take(array, index, values, n):
                values[n] = float32(load_one(array, index))

            return take

        take, take_row = taking(load), taking(read_one)

        @cuda.jit(device=True)
        def put(array, index, values, n):
            write_one(array, index, kind(values[n]))

    @cuda.jit(device=True)
    def bring(x, row, start, columns, thread, values):
        first = int64(start) + int64(thread) * wide
        for part in range(parts):
            column = first + part * row_threads * wide
            near = column if part < full else min(column, int64(columns - wide))
            take_row(x, (row, near), values, part * wide)

    @cuda.jit(device=True)
    def how_many(start, columns, thread):
        first = int64(start) + int64(thread) * wide
        found = int32(0)
        for part in range(parts):
            if part < full or first + part * row_threads * wide < columns:
                found += int32(wide)
        return float32(found)

    @cuda.jit(device=True)
    def of_warp(warp, columns):
        found = int32(full * WARP * wide)
        for part in range(full, parts):
            start = int32((part * row_threads + warp * WARP) * wide)
            found += max(int32(0), min(int32(columns - start), int32(WARP * wide)))
        return float32(found)

    @cuda.jit(device=True)
    def added(values, start, columns, thread):
        first = int64(start) + int64(thread) * wide
        result = float32(0)
        for part in range(parts):
            some = float32(0)
            for e in range(wide):
                some += values[part * wide + e]
            here = part < full or first + part * row_threads * wide < columns
            result += some if here else float32(0)
        return result

    @cuda.jit(device=True)
    def squared(values, start, columns, thread, mean):
        first = int64(start) + int64(thread) * wide
        result = float32(0)
        for part in range(parts):
            some = float32(0)
            for e in range(wide):
                difference = values[part * wide + e] - mean
                some += difference * difference
            here = part < full or first + part * row_threads * wide < columns
            result += some if here else float32(0)
        return result

    @cuda.jit(device=True)
    def factors_at(gamma, beta, column, factors, n):
        if has_gamma:
            take(gamma, column, factors, n)
        if has_beta:
            take(beta, column, factors, n + wide)

    @cuda.jit(device=True)
    def result(values, n, mean, scale, factors, m):
        for e in range(wide):
            values[n + e] = (values[n + e] - mean) * scale
        if has_gamma:
            for e in range(wide):
                values[n + e] *= factors[m + e]
        if has_beta:
            for e in range(wide):
                values[n + e] += factors[m + wide + e]
        for e in range(wide):
            values[n + e] = activation(values[n + e])

    @cuda.jit(device=True)
    def finish(out, row, start, columns, thread, values, mean, scale, gamma, beta, wanted):
        factors = cuda.local.array(8, float32)
        first = int64(start) + int64(thread) * wide
        for part in range(parts):
            column, n = first + part * row_threads * wide, part * wide
            near = column if part < full else min(column, int64(columns - wide))
            factors_at(gamma, beta, near, factors, 0)
            result(values, n, mean, scale, factors, 0)
            if wanted and (part < full or column < columns):
                put(out, (row, column), values, n)

    return Pieces(
        take, take_row, put, bring, how_many, of_warp, added, squared, factors_at, result, finish
    )


def power_above(number: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(number - 1, 0).bit_length()


def lanes_sum(lanes: int) -> Callable:
    """A device function: the sum over neighbouring lanes, a power of two of them, for each."""
    steps = lanes.bit_length() - 1

    @cuda.jit(device=True)
    def summed(value):
        for step in range(steps):
            value += cuda.shfl_xor_sync(ALL, value, lanes >> (step + 1))
        return value

    return summed


@functools.cache
def rows_in_registers(shape: Shape, form: Form) -> Callable:
    """The kernel of steps 6 and 7, (x, gamma, beta, eps, out), with `shape.rows` rows a block.

    Rows are at most `shape.longest` long. Launch with ``shape.threads`` threads.
    """
    part = pieces(shape, form)
    bring, added, squared, finish = part.bring, part.added, part.squared, part.finish
    of_warp = part.of_warp
    row_threads, rows, elements = shape.row_threads, shape.rows, shape.elements
    warps = row_threads // WARP
    add_lanes = lanes_sum(min(row_threads, WARP))
    near_warps = power_above(warps)
    add_warps = lanes_sum(near_warps)

    if warps <= 1:

        @cuda.jit(fastmath=True, max_registers=shape.max_registers)
        def layer_norm_rows(x, gamma, beta, eps, out):
            values = cuda.local.array(elements, float32)
            t = int32(cuda.threadIdx.x)
            thread = t % int32(row_threads)
            wanted = int32(cuda.blockIdx.x * rows + t // int32(row_threads))
            columns = int32(x.shape[1])
            row = min(wanted, int32(x.shape[0] - 1))  # beyond the last, the last once more
            bring(x, row, 0, columns, thread, values)
            mean = add_lanes(added(values, 0, columns, thread)) / float32(columns)
            variance = add_lanes(squared(values, 0, columns, thread, mean)) / float32(columns)
            scale = float32(1) / math.sqrt(variance + eps)
            here = wanted < x.shape[0]
            finish(out, row, 0, columns, thread, values, mean, scale, gamma, beta, here)

        return layer_norm_rows

    @cuda.jit(fastmath=True, max_registers=shape.max_registers)
    def layer_norm_row(x, gamma, beta, eps, out):
        values = cuda.local.array(elements, float32)
        warp_means = cuda.shared.array(warps, float32)
        warp_squares = cuda.shared.array(warps, float32)
        row, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        warp, lane = thread // int32(WARP), thread % int32(WARP)
        columns = int32(x.shape[1])
        bring(x, row, 0, columns, thread, values)
        count = max(of_warp(warp, columns), float32(1))
        mean = add_lanes(added(values, 0, columns, thread)) / count
        square = add_lanes(squared(values, 0, columns, thread, mean))
        if lane == 0:
            warp_means[warp], warp_squares[warp] = mean, square
        cuda.syncthreads()
        # the warps' parts, one a lane, merged as in `merged`, all at once
        place = lane % int32(near_warps)
        other = min(place, int32(warps - 1))
        weight = of_warp(other, columns) if place < warps else float32(0)
        mean = add_warps(warp_means[other] * weight) / float32(columns)
        difference = warp_means[other] - mean
        square = warp_squares[other] if place < warps else float32(0)
        square = add_warps(square + difference * weight * difference)
        scale = float32(1) / math.sqrt(square / float32(columns) + eps)
        finish(out, row, 0, columns, thread, values, mean, scale, gamma, beta, True)

    return layer_norm_row
