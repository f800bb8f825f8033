"""Normalise long rows, steps 8 and 9: a row in registers and shared memory, and longer ones.

Step 8 is for rows that a block's registers do not hold: the first numbers lie in registers as in
step 6, the rest in shared memory, up to 79,456 numbers on an H200. Still each is read once. One
block has a multiprocessor to itself, so nobody else's loads fill the time in which it writes. Hence
it walks over rows: where a result was written, the same place's next number is on its way.

Gamma and beta are as long as a row, too long for the L1 cache beside it, so every row fetches them
from L2, as many bytes as x and the result together: two accesses of each at a time, or a thread
waits for every one. To keep a part of them in what is left of shared memory makes nothing faster.

Step 9 is for rows of any length: moments of a chunk after the other, then the row is read a second
time, while some of it may still be in L2.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from numba import float32, int32, int64

from course.backend import cuda
from course.intrinsics import (
    commit_copies,
    copy4_async,
    copy_async,
    load4_streaming,
    load_streaming,
    store,
    store4,
    wait_copies,
)  # fmt: skip
from course.kernels.arrays import WORDS
from course.kernels.norm_rows import Form, Shape, lanes_sum, pieces, power_above
from course.kernels.norm_steps import WARP, merged, merged_in_warp

SUMS = 4 * 5 * WARP  # bytes of static shared memory: warps' counts, two of means and squares


@dataclass(frozen=True)
class Split:
    """Where the numbers of a row are.

    Attributes
    ----------
    shape : Shape
        Of a block with one row: the first ``shape.longest`` numbers are in registers.
    copies : bool
        The rest is copied asynchronously: float32 on compute capability 8.0. Else threads wait for
        it.
    group : int
        Accesses whose results a thread computes before it writes them: so many fetch their gamma
        and beta at a time.
    """

    shape: Shape
    copies: bool = True
    group: int = 2

    def __post_init__(self) -> None:
        shape = self.shape
        if shape.rows != 1 or shape.threads % WARP:
            raise ValueError(f"{shape} has several rows or a part of a warp: take one row")
        if self.group < 1:
            raise ValueError(f"groups of {self.group} accesses: take at least 1")

    def dynamic_shared(self, columns: int, kind: str = "float32") -> int:
        """Bytes of dynamic shared memory for rows of a length."""
        size = WORDS[kind].bitwidth // 8
        return max(columns - self.shape.longest, 0) * size


@functools.cache
def rows_in_both(split: Split, form: Form) -> Callable:
    """The kernel of step 8, (x, gamma, beta, eps, out), with a row a block at a time.

    Each thread touches only its own places of shared memory, so that copies need no barrier: where
    it has written a result it begins to copy the following row's number. Warps exchange means and
    squares in one of two sets, in turn, so that one barrier a row is enough.
    Launch with ``split.shape.threads`` threads, ``split.dynamic_shared(...)`` bytes and any number
    of blocks.
    """
    shape = split.shape
    if form.kind != "float32" and split.copies:
        raise ValueError(f"{form.kind} is not copied asynchronously: take Split(shape, False)")
    part = pieces(shape, form)
    bring, added, squared, of_warp = part.bring, part.added, part.squared, part.of_warp
    put, take, result = part.put, part.take, part.result
    threads, elements, held = shape.threads, shape.elements, shape.longest
    wide, kind = 4 if form.aligned else 1, WORDS[form.kind]
    across, group = threads * wide, split.group
    at_once = group * wide
    parts, full = elements // wide, form.full
    warps = threads // WARP
    near_warps = power_above(warps)
    add_lanes, add_warps = lanes_sum(WARP), lanes_sum(near_warps)

    if split.copies:
        copy = copy4_async if form.aligned else copy_async

        @cuda.jit(device=True)
        def fetch(rest, place, x, row, column):
            copy(rest, place, x, (row, column))

        @cuda.jit(device=True)
        def arrived():
            commit_copies()
            wait_copies(0)

    else:
        write, read = (store4, load4_streaming) if form.aligned else (store, load_streaming)

        @cuda.jit(device=True)
        def fetch(rest, place, x, row, column):
            write(rest, place, read(x, (row, column)))

        @cuda.jit(device=True)
        def arrived():
            pass

    @cuda.jit(device=True)
    def weight_of(warp, columns):
        """Numbers of a row that a warp has."""
        rest = max(int32(columns - held), int32(0))
        whole = rest // int32(across)
        left = rest - whole * int32(across) - warp * int32(WARP * wide)
        left = min(max(left, int32(0)), int32(WARP * wide))
        return of_warp(warp, columns) + float32(whole * int32(WARP * wide) + left)

    @cuda.jit(device=True)
    def moments_of_rest(rest, some, first, length):
        """How many, their mean less the first number, that number, and squares around the mean."""
        if first >= length:
            return float32(0), float32(0), float32(0), float32(0)
        shift, total, square = float32(rest[first]), float32(0), float32(0)
        for place in range(first, length, int32(across)):
            take(rest, place, some, 0)
            for e in range(wide):
                difference = some[e] - shift
                total += difference
                square += difference * difference
        count = float32((length - first + int32(across - 1)) // int32(across) * int32(wide))
        mean = total / count
        return count, mean, shift, square - total * mean

    @cuda.jit(device=True)
    def finish_rest(out, row, rest, some, first, length, scaling, gamma, beta, x, following):
        mean, scale = scaling
        last = length - int32((group - 1) * across)
        place = first
        while place < last:
            for g in range(group):
                take(rest, place + int32(g * across), some, g * wide)
            for g in range(group):
                column = int64(place) + (held + g * across)
                result(some, g * wide, column, mean, scale, gamma, beta)
            for g in range(group):
                column = int64(place) + (held + g * across)
                put(out, (row, column), some, g * wide)
                if following < x.shape[0]:
                    fetch(rest, place + int32(g * across), x, following, column)
            place += int32(group * across)
        while group > 1 and place < length:
            column = int64(place) + held
            take(rest, place, some, 0)
            result(some, 0, column, mean, scale, gamma, beta)
            put(out, (row, column), some, 0)
            if following < x.shape[0]:
                fetch(rest, place, x, following, column)
            place += int32(across)

    @cuda.jit(device=True)
    def finish(out, row, values, columns, thread, scaling, gamma, beta):
        mean, scale = scaling
        first = int64(thread) * wide
        for start in range(0, parts, group):
            for g in range(group):
                p = start + g
                if p < parts:
                    column = first + p * across
                    near = column if p < full else min(column, int64(columns - wide))
                    result(values, p * wide, near, mean, scale, gamma, beta)
            for g in range(group):
                p = start + g
                column = first + p * across
                if p < full or (p < parts and column < columns):
                    put(out, (row, column), values, p * wide)

    @cuda.jit(fastmath=True, max_registers=shape.max_registers)
    def layer_norm_both(x, gamma, beta, eps, out):
        values = cuda.local.array(elements, float32)
        some = cuda.local.array(at_once, float32)
        warp_means = cuda.shared.array((2, WARP), float32)
        warp_squares = cuda.shared.array((2, WARP), float32)
        warp_counts = cuda.shared.array(WARP, float32)
        rest = cuda.shared.array(0, kind)
        rows, columns = int32(x.shape[0]), int32(x.shape[1])
        thread = int32(cuda.threadIdx.x)
        warp, lane = thread // int32(WARP), thread % int32(WARP)
        first, length = thread * int32(wide), max(int32(columns - held), int32(0))
        row, slot = int32(cuda.blockIdx.x), int32(0)
        for start in range(first, length, int32(across)):
            fetch(rest, start, x, row, int64(start) + held)
        if lane == 0:
            warp_counts[warp] = weight_of(warp, columns)
        cuda.syncthreads()
        while row < rows:
            bring(x, row, 0, columns, thread, values)
            arrived()
            count = max(warp_counts[warp], float32(1))
            number, middle, shift, square = moments_of_rest(rest, some, first, length)
            total = added(values, 0, columns, thread) + number * (shift + middle)
            mean = add_lanes(total) / count
            middle -= mean - shift
            square += number * middle * middle + squared(values, 0, columns, thread, mean)
            square = add_lanes(square)
            if lane == 0:
                warp_means[slot, warp], warp_squares[slot, warp] = mean, square
            cuda.syncthreads()
            place = lane % int32(near_warps)
            other = min(place, int32(warps - 1))
            weight = warp_counts[other] if place < warps else float32(0)
            mean = add_warps(warp_means[slot, other] * weight) / float32(columns)
            difference = warp_means[slot, other] - mean
            square = warp_squares[slot, other] if place < warps else float32(0)
            square = add_warps(square + difference * weight * difference)
            scaling = mean, float32(1) / math.sqrt(square / float32(columns) + eps)
            following = row + int32(cuda.gridDim.x)
            finish_rest(out, row, rest, some, first, length, scaling, gamma, beta, x, following)
            finish(out, row, values, columns, thread, scaling, gamma, beta)
            row, slot = following, slot ^ int32(1)

    return layer_norm_both


@functools.cache
def long_rows(shape: Shape, form: Form) -> Callable:
    """The kernel of step 9, (x, gamma, beta, eps, out): a block a row of any length.

    Chunks of `shape.longest` numbers; each thread merges its part of a chunk into its moments.
    """
    part = pieces(shape, form, again=True)
    bring, how_many, finish = part.bring, part.how_many, part.finish
    added, squared = part.added, part.squared
    elements, chunk, warps = shape.elements, shape.longest, shape.row_threads // WARP

    @cuda.jit(max_registers=shape.max_registers)
    def layer_norm_long(x, gamma, beta, eps, out):
        values = cuda.local.array(elements, float32)
        counts = cuda.shared.array(warps, float32)
        means = cuda.shared.array(warps, float32)
        squares = cuda.shared.array(warps, float32)
        row, thread = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        warp, lane = thread // int32(WARP), thread % int32(WARP)
        columns = int32(x.shape[1])
        count, mean, square = float32(0), float32(0), float32(0)
        for start in range(0, columns, chunk):
            bring(x, row, start, columns, thread, values)
            found = how_many(start, columns, thread)
            middle = added(values, start, columns, thread) / max(found, float32(1))
            spread = squared(values, start, columns, thread, middle)
            count, mean, square = merged(count, mean, square, found, middle, spread)
        count, mean, square = merged_in_warp(count, mean, square)
        if lane == 0:
            counts[warp], means[warp], squares[warp] = count, mean, square
        cuda.syncthreads()
        other = min(lane, int32(warps - 1))
        count = counts[other] if lane < warps else float32(0)
        square = squares[other] if lane < warps else float32(0)
        count, mean, square = merged_in_warp(count, means[other], square)
        scale = float32(1) / math.sqrt(square / count + eps)
        for start in range(0, columns, chunk):
            bring(x, row, start, columns, thread, values)
            finish(out, row, start, columns, thread, values, mean, scale, gamma, beta, True)

    return layer_norm_long
