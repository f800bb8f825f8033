"""The whole SVD of small matrices in one launch: a block a matrix, in shared memory and registers.

For a matrix, or its transpose, of `length` x `rank`, length >= rank:

1. its columns go to shared memory, scaled by a power of two;
2. a = Q R by Householder reflections: Q = I - V T V' (see `course.kernels.svd.qr`); V stays where
   the columns were;
3. rotations make the rows of w = R orthogonal, w = diag(s) Y', while k = J' gathers them. Before
   the last sweeps k is refreshed as in `course.kernels.svd`;
4. they are sorted; a = Q k' diag(s) Y'. Rows of Y' whose singular values are noise are completed.
   Q k' = k' - V (T V' k').

**Rotations.** Rows are padded to a power of two, and lane p has those of a pair in registers, a
share of their elements: other lanes, and warps, have the rest. A sweep pairs each two rows once.
First the rows x of all lanes are paired with the rows y of all: from step to step y moves to
another lane, whose number differs in one bit (as in a Gray code). Then half of the lanes take all
x, half take all y, and each half does the same among itself; until a lane is alone. So for each
rotation one row moves, by shuffles, and none of it goes through memory.

Loops count in int32 by `while`: those of `range` count in 64 bits, and are twice the code, which is
much here, to compile and to load.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.kernels.steps import Launch, multiprocessors
from course.kernels.svd.rotate import (
    DONE,
    FINISHED,
    NEAR_BY_PAIRS,
    NOISE,
    ROTATES,
    rotation_at_once,
)
from course.kernels.svd.scaling_sorting import LITTLE, ZERO, largest_of_warp, scales_of
from course.kernels.warps import ALL, lanes_sum
from warpsim.ptx import load, store

#: Rows of what the host reads, (4, batch), int32: the inverse of the scale is float32's bits.
STATE, REFUSED, SWEPT, UNSCALE = 0, 1, 2, 3
LARGEST = 64  # columns of a matrix
SIZES = 8, 16, 32, LARGEST  # to which they are padded
STATIC = 8192  # bytes of static shared memory, at most
TOGETHER = 4  # columns that a thread works on at once

_sum_of_warp = lanes_sum(32)


@cuda.jit(device=True)
def _reflection(squared, alpha):
    """Scale and shift of v = scale (x + shift e), of squared length 2; 0, 0 for a zero column.

    The scale is that of v as it becomes, however the shift is rounded.
    """
    if squared <= float32(ZERO):
        return float32(0), float32(0)
    length = math.sqrt(squared)
    half = float32(0.5) * (squared + length * length) + length * abs(alpha)
    scale = cuda.libdevice.rsqrtf(half)
    scale *= float32(1.5) - float32(0.5) * half * scale * scale
    return scale, length if alpha >= float32(0) else -length


@cuda.jit(device=True)
def _take_columns(a, wide, columns, pitch, found, warps):
    """A matrix's columns, or its rows where it is wide; the largest magnitude, NaN as infinity."""
    t, largest = int32(cuda.threadIdx.x), float32(0)
    lane, warp = t % 32, t // 32
    across, down = (int32(1), pitch) if not wide else (pitch, int32(1))
    row, rows, width = warp, int32(a.shape[0]), int32(a.shape[1])
    while row < rows:
        column = lane
        while column < width:
            x = a[row, column]
            store(columns, int32(row * across + column * down), x)
            size = abs(x)
            largest = max(largest, size if size < float32(math.inf) else float32(math.inf))
            column = int32(column + 32)
        row = int32(row + warps)
    largest = largest_of_warp(largest)
    if lane == 0:
        found[warp] = largest
    cuda.syncthreads()
    for other in range(warps):
        largest = max(largest, found[other])
    cuda.syncthreads()
    return largest


@cuda.jit(device=True)
def _reflect(columns, pitch, length, rank, scales, shifts, products, square_pitch, warps):
    """R above the diagonal of the columns, V below it without its scale; V'V above its diagonal."""
    along = cuda.local.array(TOGETHER, float32)
    t = int32(cuda.threadIdx.x)
    lane, warp, j = t % 32, t // 32, int32(0)
    while j < rank:
        squared, mine = float32(0), int32(j * pitch)
        i = int32(j + lane)
        while i < length:
            x = load(columns, int32(mine + i))
            squared += x * x
            i = int32(i + 32)
        scale, shift = _reflection(_sum_of_warp(squared), load(columns, int32(mine + j)))
        first = int32(warp * TOGETHER)
        while first < rank:
            for e in range(TOGETHER):
                along[e] = float32(0)
            i = int32(j + lane)
            while i < length:
                x = load(columns, int32(mine + i)) + (shift if i == j else float32(0))
                for e in range(TOGETHER):
                    k = min(int32(first + e), int32(rank - 1))
                    along[e] += x * load(columns, int32(k * pitch + i))
                i = int32(i + 32)
            for e in range(TOGETHER):
                along[e] = scale * _sum_of_warp(along[e])
                k = int32(first + e)
                if k < j and lane == 0:
                    store(products, int32(k * square_pitch + j), along[e] * scales[k])
                along[e] *= scale
            i = int32(j + lane)
            while i < length:
                x = load(columns, int32(mine + i)) + (shift if i == j else float32(0))
                for e in range(TOGETHER):
                    k = int32(first + e)
                    if j < k < rank:
                        at = int32(k * pitch + i)
                        store(columns, at, load(columns, at) - along[e] * x)
                i = int32(i + 32)
            first = int32(first + TOGETHER * warps)
        if t == 0:
            scales[j], shifts[j] = scale, shift
        cuda.syncthreads()
        j = int32(j + 1)


@cuda.jit(device=True)
def _unit_vector(rows, pitch, order, row, rank):
    """A row becomes the unit vector that is farthest from the rows before, by one warp."""
    lane, least, at = int32(cuda.threadIdx.x % 32), float32(2), int32(0)
    e = lane
    while e < rank:
        total, j = float32(0), int32(0)
        while j < row:
            x = load(rows, int32(order[j] * pitch + e))
            total += x * x
            j = int32(j + 1)
        if total < least:
            least, at = total, e
        e = int32(e + 32)
    low = -largest_of_warp(-least)
    at = cuda.shfl_sync(ALL, at, cuda.ffs(cuda.ballot_sync(ALL, low == least)) - 1)
    e = lane
    while e < rank:
        store(rows, int32(order[row] * pitch + e), float32(1) if e == at else float32(0))
        e = int32(e + 32)
    cuda.syncwarp()


@cuda.jit(device=True)
def _project(rows, pitch, order, row, rank, along):
    """A row becomes orthogonal to the rows before, twice, by one warp; its squared length then."""
    lane, mine, left = int32(cuda.threadIdx.x % 32), int32(order[row] * pitch), float32(0)
    for _ in range(2):
        j = lane
        while j < row:
            total, its, e = float32(0), int32(order[j] * pitch), int32(0)
            while e < rank:
                total += load(rows, int32(its + e)) * load(rows, int32(mine + e))
                e = int32(e + 1)
            along[j] = total
            j = int32(j + 32)
        cuda.syncwarp()
        left, e = float32(0), lane
        while e < rank:
            total, j = load(rows, int32(mine + e)), int32(0)
            while j < row:
                total -= along[j] * load(rows, int32(order[j] * pitch + e))
                j = int32(j + 1)
            store(rows, int32(mine + e), total)
            left += total * total
            e = int32(e + 32)
        cuda.syncwarp()
    return _sum_of_warp(left)


@cuda.jit(device=True)
def _complete(rows, pitch, order, have, wanted, rank, along):
    """Rows from `have` on become orthonormal to all before; each keeps its direction if it can."""
    row = have
    while row < wanted:
        left, tries = float32(0), int32(0)
        while left < float32(LITTLE) and tries < 2:
            if tries > 0:
                _unit_vector(rows, pitch, order, row, rank)
            left = _project(rows, pitch, order, row, rank, along)
            tries = int32(tries + 1)
        e = int32(cuda.threadIdx.x % 32)
        while e < rank:
            at = int32(order[row] * pitch + e)
            store(rows, at, load(rows, at) / math.sqrt(left))
            e = int32(e + 32)
        cuda.syncwarp()
        row = int32(row + 1)


def padded(columns: int) -> int:
    """Columns that a kernel is made for."""
    return next(size for size in SIZES if size >= columns)


def shared_floats(size: int, rank: int, length: int) -> int:
    """Numbers of float32 that a block has in dynamic shared memory."""
    return 3 * size * (size + 1) + rank * (length | 1)


def make_rotations(size: int, rotating: int) -> tuple[int, Callable]:
    """Elements of a row that a lane has, and a sweep over `size` rows by so many warps."""
    pairs = size // 2
    levels = 5 - (pairs.bit_length() - 1)  # of sums over a warp's lanes of one pair
    share = size * pairs // (32 * rotating)

    @cuda.jit(device=True)
    def rotate(x, y, floor, sums, buffer):
        """Make a pair's rows of w orthogonal; the cosine that they had."""
        lane, warp = int32(cuda.threadIdx.x % 32), int32(cuda.threadIdx.x // 32)
        a, b, g = float32(0), float32(0), float32(0)
        for n in range(share):
            a += x[n] * x[n]
            b += y[n] * y[n]
            g += x[n] * y[n]
        for level in range(levels):
            a += cuda.shfl_xor_sync(ALL, a, pairs << level)
            b += cuda.shfl_xor_sync(ALL, b, pairs << level)
            g += cuda.shfl_xor_sync(ALL, g, pairs << level)
        if rotating > 1:
            if lane < pairs:
                sums[buffer, 0, warp, lane] = a
                sums[buffer, 1, warp, lane] = b
                sums[buffer, 2, warp, lane] = g
            cuda.syncthreads()
            a, b, g, p = float32(0), float32(0), float32(0), int32(lane % pairs)
            for other in range(rotating):
                a += sums[buffer, 0, other, p]
                b += sums[buffer, 1, other, p]
                g += sums[buffer, 2, other, p]
        before, s, d, _ = rotation_at_once(a, b, g, floor)
        if cuda.any_sync(ALL, s != float32(0)):
            for n in range(2 * share):
                p, q = x[n], y[n]
                x[n] = (p - s * q) - d * p
                y[n] = (q + s * p) - d * q
        return before

    @cuda.jit(device=True)
    def sweep(x, y, floor, sums):
        """Rotate each pair of rows once; the largest cosine. x, y: of w, and then of k."""
        lane, largest, buffer = int32(cuda.threadIdx.x % 32), float32(0), int32(0)
        group = int32(pairs)
        while group > 0:
            step = int32(1)
            while step <= group:
                largest = max(largest, rotate(x, y, floor, sums, buffer))
                buffer = int32(1 - buffer)
                if step < group:
                    to = int32(step & -step)
                    for n in range(2 * share):
                        y[n] = cuda.shfl_xor_sync(ALL, y[n], to)
                step = int32(step + 1)
            group = int32(group >> 1)
            if group > 0:
                low = lane & group == 0
                for n in range(2 * share):
                    p, q = x[n], y[n]
                    other = cuda.shfl_xor_sync(ALL, q if low else p, group)
                    x[n], y[n] = p if low else other, other if low else q
        return largest_of_warp(largest)

    return share, sweep


def make_svd(size: int, warps: int, rotating: int, registers: int | None = None) -> Any:
    """The kernel for matrices of at most `size` columns, by blocks of so many warps.

    It takes a, u, s, vt; whether a is scaled, and its `UNSCALE` and `REFUSED` known; the most
    sweeps; and what the host reads. rotating: how many warps rotate, 1 or all. Dynamic shared
    memory: `shared_floats`.
    """
    pairs, pitch, bits = size // 2, size + 1, size.bit_length() - 1
    square, twice, threads = size * pitch, 2 * size, 32 * warps
    share, sweep = make_rotations(size, rotating)
    both = 2 * share  # of a row of w and of one of k
    lane_shares = 32 // pairs  # shares of a row in a warp
    lane_rows = max(1, size // 32)

    @cuda.jit(device=True)
    def fill_triangle(columns, column_pitch, rank, scales, shifts, r):
        """r = R, padded with zeros."""
        n = int32(cuda.threadIdx.x)
        while n < size * size:
            i, j, x = int32(n >> bits), int32(n & (size - 1)), float32(0)
            if i <= j < rank:
                x = load(columns, int32(j * column_pitch + i))
                if i == j and scales[j] != float32(0):
                    x = -shifts[j]
            store(r, int32(i * pitch + j), x)
            n = int32(n + threads)
        cuda.syncthreads()

    @cuda.jit(device=True)
    def multiply_by_itself(k, rank, out):
        """out = k k', of the first `rank` columns."""
        total = cuda.local.array(TOGETHER, float32)
        lane, first = int32(cuda.threadIdx.x % 32), int32(cuda.threadIdx.x // 32 * TOGETHER)
        while first < size:
            j = lane
            while j < size:
                for e in range(TOGETHER):
                    total[e] = float32(0)
                n = int32(0)
                while n < rank:
                    x = load(k, int32(j * pitch + n))
                    for e in range(TOGETHER):
                        total[e] += x * load(k, int32((first + e) * pitch + n))
                    n = int32(n + 1)
                for e in range(TOGETHER):
                    store(out, int32((first + e) * pitch + j), total[e])
                j = int32(j + 32)
            first = int32(first + TOGETHER * warps)
        cuda.syncthreads()

    @cuda.jit(device=True)
    def multiply(left, right, rank, p, first, x, y, at):
        """A lane's share of rows p and p + pairs of left times right, to x[at:] and y[at:]."""
        for n in range(share):
            x[at + n], y[at + n] = float32(0), float32(0)
        j = int32(0)
        while j < rank:
            one = load(left, int32(p * pitch + j))
            other = load(left, int32((p + pairs) * pitch + j))
            for n in range(share):
                z = load(right, int32(j * pitch + first + n))
                x[at + n] += one * z
                y[at + n] += other * z
            j = int32(j + 1)

    @cuda.jit(device=True)
    def hand_out(x, y, at, p, first, rows):
        """A lane's shares to rows of shared memory."""
        for n in range(share):
            store(rows, int32(p * pitch + first + n), x[at + n])
            store(rows, int32((p + pairs) * pitch + first + n), y[at + n])

    @cuda.jit(device=True)
    def orthogonalise(r, k, columns, column_pitch, rank, scales, shifts, sums, found, most):
        """Rotate R's rows in r, k beside it, until they are orthogonal: w to r, J' to k.

        Whether they are, and how often they were swept.
        """
        t = int32(cuda.threadIdx.x)
        lane, warp = t % 32, t // 32
        x, y = cuda.local.array(both, float32), cuda.local.array(both, float32)
        p = int32(lane % pairs)
        first = int32((warp * lane_shares + lane // pairs) * share)
        rotates = warp < rotating
        longest = float32(0)
        if rotates:
            a, b, j = float32(0), float32(0), int32(0)
            while j < rank:
                one, other = load(r, int32(p * pitch + j)), load(r, int32((p + pairs) * pitch + j))
                a += one * one
                b += other * other
                j = int32(j + 1)
            longest = largest_of_warp(max(a, b))
            for n in range(share):
                x[n] = load(r, int32(p * pitch + first + n))
                y[n] = load(r, int32((p + pairs) * pitch + first + n))
                x[share + n] = float32(1) if first + n == p else float32(0)
                y[share + n] = float32(1) if first + n == p + pairs else float32(0)
        floor = max(float32(ZERO), longest * float32(NOISE) * float32(NOISE))
        done, fresh, swept = False, False, int32(0)
        while not done and swept < most:
            if rotates:
                largest = sweep(x, y, floor, sums)
                if t == 0:
                    found[0] = largest
            cuda.syncthreads()
            largest = found[0]
            cuda.syncthreads()
            swept = int32(swept + 1)
            done = fresh and largest <= float32(DONE)
            if not fresh and largest <= float32(NEAR_BY_PAIRS):
                fresh = True
                if rotates:
                    hand_out(x, y, share, p, first, k)
                cuda.syncthreads()
                multiply_by_itself(k, rank, r)
                if rotates:
                    for n in range(share):
                        x[n] = float32(1.5) * x[share + n]
                        y[n] = float32(1.5) * y[share + n]
                    multiply(r, k, int32(size), p, first, x, y, share)
                    for n in range(share):
                        x[share + n] = x[n] - float32(0.5) * x[share + n]
                        y[share + n] = y[n] - float32(0.5) * y[share + n]
                cuda.syncthreads()
                if rotates:
                    hand_out(x, y, share, p, first, k)
                fill_triangle(columns, column_pitch, rank, scales, shifts, r)
                if rotates:
                    multiply(k, r, rank, p, first, x, y, 0)
                cuda.syncthreads()
        if rotates:
            hand_out(x, y, 0, p, first, r)
            hand_out(x, y, share, p, first, k)
        cuda.syncthreads()
        return done, swept

    @cuda.jit(device=True)
    def sort(w, k, rank, lengths, order):
        """Lengths of rows, largest first; which row each is. Padding comes last."""
        t = int32(cuda.threadIdx.x)
        lane, row = t % 32, t // 32
        while row < size:
            total, e = float32(0), lane
            while e < size:
                x = load(w, int32(row * pitch + e))
                total += x * x
                if e >= rank:  # only in rows that are padding
                    total -= abs(load(k, int32(row * pitch + e)))
                e = int32(e + 32)
            total = _sum_of_warp(total)
            if lane == 0:
                lengths[size + row] = math.sqrt(total) if total >= float32(0) else float32(-1)
            row = int32(row + warps)
        cuda.syncthreads()
        if t < size:
            mine, before, other = lengths[size + t], int32(0), int32(0)
            while other < size:
                its = lengths[size + other]
                before = int32(before + int32(its > mine or (its == mine and other < t)))
                other = int32(other + 1)
            lengths[before], order[before] = mine, t
        cuda.syncthreads()

    @cuda.jit(device=True)
    def sign_and_normalise(w, k, mine, rank, length):
        """A row of w, of this length, to a unit vector; its largest entry positive. k's with it."""
        lane, largest, value = int32(cuda.threadIdx.x % 32), float32(-1), float32(0)
        e = lane
        while e < rank:
            x = load(w, int32(mine + e))
            if abs(x) > largest:
                largest, value = abs(x), x
            e = int32(e + 32)
        first = cuda.ffs(cuda.ballot_sync(ALL, largest == largest_of_warp(largest))) - 1
        sign = float32(1) if cuda.shfl_sync(ALL, value, first) >= float32(0) else float32(-1)
        by = sign / length if length * length > float32(ZERO) else float32(0)
        e = lane
        while e < rank:
            store(w, int32(mine + e), by * load(w, int32(mine + e)))
            store(k, int32(mine + e), sign * load(k, int32(mine + e)))
            e = int32(e + 32)

    @cuda.jit(device=True)
    def gather_reflections(columns, column_pitch, k, order, products, scales, rank, count, y):
        """y = T V' k', of k's first rows in order, with the scale that V's columns lack.

        Lanes have rows of y, a warp some columns at once.
        """
        own = cuda.local.array((lane_rows, TOGETHER), float32)
        t = int32(cuda.threadIdx.x)
        lane, c = t % 32, int32(t // 32 * TOGETHER)
        while c < count:
            for row in range(lane_rows):
                for e in range(TOGETHER):
                    own[row, e] = float32(0)
            n = int32(0)
            while n < rank:
                for row in range(lane_rows):
                    i = int32(lane + 32 * row)
                    x = load(columns, int32(i * column_pitch + n)) if i < rank else float32(0)
                    for e in range(TOGETHER):
                        own[row, e] += x * load(k, int32(order[c + e] * pitch + n))
                n = int32(n + 1)
            for row in range(lane_rows):
                i = int32(lane + 32 * row)
                for e in range(TOGETHER):
                    own[row, e] *= scales[i] if i < rank else float32(0)
            j = int32(rank - 1)
            while j > 0:
                for row in range(lane_rows):
                    i = int32(lane + 32 * row)
                    x = load(products, int32(i * pitch + j)) if i < j else float32(0)
                    for e in range(TOGETHER):
                        last = own[0, e]
                        if lane_rows > 1:
                            last = own[lane_rows - 1, e] if j >= 32 else last
                        own[row, e] -= x * cuda.shfl_sync(ALL, last, j % 32)
                j = int32(j - 1)
            for row in range(lane_rows):
                i = int32(lane + 32 * row)
                if i < rank:
                    for e in range(TOGETHER):
                        store(y, int32(i * pitch + c + e), scales[i] * own[row, e])
            c = int32(c + TOGETHER * warps)
        cuda.syncthreads()

    @cuda.jit(device=True)
    def write_rows(w, order, rank, wanted, out, transposed):
        """Sorted rows, or columns where they are transposed."""
        t = int32(cuda.threadIdx.x)
        lane, warp = t % 32, t // 32
        i, rows, width = warp, rank if transposed else wanted, wanted if transposed else rank
        while i < rows:
            j = lane
            while j < width:
                row, e = (j, i) if transposed else (i, j)
                out[i, j] = load(w, int32(order[row] * pitch + e))
                j = int32(j + 32)
            i = int32(i + warps)

    @cuda.jit(device=True)
    def write_long(
        columns, column_pitch, length, k, order, y, rank, wanted, count, out, transposed
    ):
        """k' - V y, or its transpose: lanes have neighbouring rows, each some columns at once."""
        total = cuda.local.array(TOGETHER, float32)
        t, groups = int32(cuda.threadIdx.x), int32((length + 31) // 32)
        lane, c, group = t % 32, int32(0), t // 32
        while c < count:
            while group < groups:
                i = int32(32 * group + lane)
                if i < length:
                    for e in range(TOGETHER):
                        total[e] = float32(0)
                        if i < rank:
                            total[e] = load(k, int32(order[c + e] * pitch + i))
                    j = int32(0)
                    while j < rank:
                        x = load(columns, int32(j * column_pitch + i))
                        for e in range(TOGETHER):
                            total[e] -= x * load(y, int32(j * pitch + c + e))
                        j = int32(j + 1)
                    for e in range(TOGETHER):
                        if c + e < wanted:
                            if transposed:
                                out[c + e, i] = total[e]
                            else:
                                out[i, c + e] = total[e]
                group = int32(group + warps)
            while group >= groups:  # the next columns
                group = int32(group - groups)
                c = int32(c + TOGETHER)

    @cuda.jit(max_registers=registers)
    def svd_in_one_launch(a, u, s, vt, scaled, most, told):
        memory = cuda.shared.array(0, float32)
        scales, shifts = cuda.shared.array(size, float32), cuda.shared.array(size, float32)
        lengths = cuda.shared.array(twice, float32)
        order = cuda.shared.array(size, int32)
        found = cuda.shared.array(warps, float32)
        sums = cuda.shared.array((2, 3, rotating, pairs), float32)
        matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
        lane, warp = t % 32, t // 32
        wide = a.shape[1] < a.shape[2]
        rank, length = int32(min(a.shape[1], a.shape[2])), int32(max(a.shape[1], a.shape[2]))
        column_pitch, wanted = int32(length | 1), int32(s.shape[1])
        count = int32((wanted + TOGETHER - 1) & -TOGETHER)
        w, k, products = memory[:square], memory[square : 2 * square], memory[2 * square :]
        columns = memory[3 * square :]
        # 1
        largest = _take_columns(a[matrix], wide, columns, column_pitch, found, warps)
        factor, back = scales_of(largest)
        if scaled:
            factor, back = float32(1), cuda.libdevice.int_as_float(told[UNSCALE, matrix])
        elif t == 0:
            told[REFUSED, matrix] = int32(0 if largest < float32(math.inf) else 1)
            told[UNSCALE, matrix] = cuda.libdevice.float_as_int(back)
        j = warp
        while j < rank:
            i = lane
            while i < length:
                at = int32(j * column_pitch + i)
                x = load(columns, at) * factor if factor != float32(0) else float32(0)
                store(columns, at, x)
                i = int32(i + 32)
            j = int32(j + warps)
        cuda.syncthreads()
        # 2
        _reflect(columns, column_pitch, length, rank, scales, shifts, products, pitch, warps)
        fill_triangle(columns, column_pitch, rank, scales, shifts, w)
        # 3
        done, times = orthogonalise(
            w, k, columns, column_pitch, rank, scales, shifts, sums, found, most
        )
        if t == 0:
            told[STATE, matrix], told[SWEPT, matrix] = FINISHED if done else ROTATES, times
        # 4
        sort(w, k, rank, lengths, order)
        noise, have, row = float32(NOISE) * lengths[0], int32(0), int32(0)
        while row < wanted and lengths[row] > noise:
            row = int32(row + 1)
        have, row = row, warp
        while row < wanted:
            sign_and_normalise(w, k, int32(order[row] * pitch), rank, lengths[row])
            if lane == 0:
                s[matrix, row] = lengths[row] * back
            row = int32(row + warps)
        j = warp
        while j < rank:  # V where R was, its diagonal too
            i = lane
            while i <= j:
                at = int32(j * column_pitch + i)
                store(columns, at, load(columns, at) + shifts[j] if i == j else float32(0))
                i = int32(i + 32)
            j = int32(j + warps)
        cuda.syncthreads()
        if have < wanted:
            if warp == 0:
                _complete(w, pitch, order, have, wanted, rank, lengths)
            cuda.syncthreads()
        short, long = (u, vt) if wide else (vt, u)
        write_rows(w, order, rank, wanted, short[matrix], wide)
        cuda.syncthreads()
        gather_reflections(columns, column_pitch, k, order, products, scales, rank, count, w)
        write_long(
            columns, column_pitch, length, k, order, w, rank, wanted, count, long[matrix], wide
        )

    return svd_in_one_launch


#: Warps of a block, by columns, padded: where matrices are few, and many. A matrix's result is the
#: same to the bit with either: all sums are made in one order.
FEW_WARPS = {8: 4, 16: 4, 32: 8, LARGEST: 8}
MANY_WARPS = {8: 2, 16: 2, 32: 2, LARGEST: 8}
MUCH = 64 * 1024  # bytes of shared memory from which so few blocks share a multiprocessor


def _kernels() -> dict[tuple[int, int], Any]:
    """By columns, padded, and warps."""
    pairs = sorted({*FEW_WARPS.items(), *MANY_WARPS.items()})
    return {
        (size, warps): make_svd(size, warps, warps if size == LARGEST else 1)
        for size, warps in pairs
    }


SVD = _kernels()


def launch(a: Any, u: Any, s: Any, vt: Any, told: Any, scaled: bool, most: int) -> Launch:
    """The launch for these arrays, of batches: (batch, ...)."""
    rank, length = sorted(a.shape[1:])
    size = padded(rank)
    shared = 4 * shared_floats(size, rank, length)
    few = shared > MUCH or len(a) <= 2 * multiprocessors()
    warps = (FEW_WARPS if few else MANY_WARPS)[size]
    arguments = a, u, s, vt, np.int32(scaled), np.int32(most), told
    return Launch(SVD[size, warps], len(a), 32 * warps, arguments, shared)


def refusal(columns: int, rows: int, limit: int) -> str:
    """Why matrices of rows x columns, columns <= rows, cannot be had with so much shared memory."""
    if columns > LARGEST:
        return f"takes matrices whose shorter side is at most {LARGEST}; given {columns}"
    needed = 4 * shared_floats(padded(columns), columns, rows) + STATIC
    if needed > limit:
        return (
            f"needs {needed:,} bytes of shared memory for {rows} x {columns}, and a block has at "
            f"most {limit:,}"
        )
    return ""
