"""Rotations of rows that lie in registers: all sweeps over a matrix in one launch, a block each.

For R of a QR decomposition, of up to 128 columns: its rows w become orthogonal, w = diag(s) Y',
while k = J' gathers the rotations. Before the last sweeps k is refreshed, see `course.kernels.svd`.

Rows are padded to `size`. A lane has `own` pairs of rows in registers, a share of their elements:
other lanes, and warps, have the rest. A sweep pairs each two rows once. First all rows x are paired
with all rows y: among a lane's own by the order in which they are named; from step to step y moves
to another lane, whose number differs in one bit (as in a Gray code). Then half of the lanes take
all x, half take all y, and each half does the same among itself; until a lane is alone, and pairs
its x with each other, and its y. So few rows move for a rotation, by shuffles, none of them through
memory. Behind its elements a row has its squared length, which a rotation changes by a product
that is known; a sweep begins with new ones.

Loops count in int32 by `while`: those of `range` count in 64 bits, and are twice the code, which is
much here, to compile and to load.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.kernels.steps import Launch
from course.kernels.svd.rotate import (
    DONE,
    FINISHED,
    NEAR_BY_PAIRS,
    NOISE,
    ROTATES,
    rotation_at_once,
)
from course.kernels.svd.scaling_sorting import LITTLE, ZERO, largest_of_warp
from course.kernels.warps import ALL, lanes_sum
from warpsim.ptx import load, store

#: Rows of what the host reads, (4, batch), int32: the inverse of the scale is float32's bits.
STATE, REFUSED, SWEPT, UNSCALE = 0, 1, 2, 3
TOGETHER = 4  # rows that a thread works on at once
STATIC = 8192  # bytes of static shared memory, at most
LARGEST = 128  # columns
#: By columns, padded: warps of a block, and pairs of rows that a lane has.
WAYS = {16: (2, 2), 24: (3, 3), 32: (4, 2), 48: (4, 3), 64: (8, 1), 96: (8, 3), LARGEST: (8, 2)}

sum_of_warp = lanes_sum(32)


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
    return sum_of_warp(left)


@cuda.jit(device=True)
def complete(rows, pitch, order, have, wanted, rank, along):
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


def make_rotations(size: int, warps: int, own: int) -> tuple[int, Callable, Callable]:
    """Elements of a row that a lane has; what finds rows' squared lengths, and a sweep.

    Arguments of both are a lane's rows, x0 with y0, x1 with y1, x2 with y2, as many as it has: the
    elements of w, those of k, the squared length.
    """
    pairs = size // 2
    lanes = pairs // own  # of a warp that have other rows
    levels = 5 - (lanes.bit_length() - 1)  # of sums over a warp's lanes of one pair
    share = size * lanes // (32 * warps)
    both = 2 * share

    @cuda.jit(device=True, forceinline=True)
    def product(x, y):
        """A warp's share of the product of two rows of w."""
        total = float32(0)
        for n in range(share):
            total += x[n] * y[n]
        for level in range(levels):
            total += cuda.shfl_xor_sync(ALL, total, lanes << level)
        return total

    @cuda.jit(device=True, forceinline=True)
    def whole(a, b, c, sums, buffer):
        """The sums of all warps' a, b, c, as many as a lane has pairs."""
        if warps > 1:
            lane, warp = int32(cuda.threadIdx.x % 32), int32(cuda.threadIdx.x // 32)
            if lane < lanes:
                sums[buffer, 0, warp, lane] = a
                if own > 1:
                    sums[buffer, 1, warp, lane] = b
                if own > 2:
                    sums[buffer, 2, warp, lane] = c
            cuda.syncthreads()
            a, b, c, p = float32(0), float32(0), float32(0), int32(lane % lanes)
            for other in range(warps):
                a += sums[buffer, 0, other, p]
                if own > 1:
                    b += sums[buffer, 1, other, p]
                if own > 2:
                    c += sums[buffer, 2, other, p]
        return a, b, c

    @cuda.jit(device=True, forceinline=True)
    def turn(x, y, g, floor):
        """Make a pair's rows of w orthogonal; the cosine that they had."""
        before, s, d, tangent = rotation_at_once(x[both], y[both], g, floor)
        x[both] = max(x[both] - tangent * g, float32(0))
        y[both] = max(y[both] + tangent * g, float32(0))
        if cuda.any_sync(ALL, s != float32(0)):
            for n in range(share):
                p, q = x[n], y[n]
                x[n] = (p - s * q) - d * p
                y[n] = (q + s * p) - d * q
            for n in range(share, both):
                p, q = x[n], y[n]
                x[n] = (p - s * q) - d * p
                y[n] = (q + s * p) - d * q
        return before

    @cuda.jit(device=True, forceinline=True)
    def meet(x0, y0, x1, y1, x2, y2, floor, sums, buffer):
        """Rotate a lane's pairs; the largest cosine."""
        a, b, c = product(x0, y0), float32(0), float32(0)
        if own > 1:
            b = product(x1, y1)
        if own > 2:
            c = product(x2, y2)
        a, b, c = whole(a, b, c, sums, buffer)
        largest = turn(x0, y0, a, floor)
        if own > 1:
            largest = max(largest, turn(x1, y1, b, floor))
        if own > 2:
            largest = max(largest, turn(x2, y2, c, floor))
        return largest

    @cuda.jit(device=True, forceinline=True)
    def measure(x0, y0, x1, y1, x2, y2, sums):
        """Each row's squared length."""
        a, b, c = product(x0, x0), float32(0), float32(0)
        if own > 1:
            b = product(x1, x1)
        if own > 2:
            c = product(x2, x2)
        x0[both], b, c = whole(a, b, c, sums, 0)
        if own > 1:
            x1[both] = b
        if own > 2:
            x2[both] = c
        a = product(y0, y0)
        if own > 1:
            b = product(y1, y1)
        if own > 2:
            c = product(y2, y2)
        y0[both], b, c = whole(a, b, c, sums, 1)
        if own > 1:
            y1[both] = b
        if own > 2:
            y2[both] = c

    @cuda.jit(device=True, forceinline=True)
    def move(y, to):
        for n in range(both + 1):
            y[n] = cuda.shfl_xor_sync(ALL, y[n], to)

    @cuda.jit(device=True, forceinline=True)
    def part(x, y, group):
        """Half of the lanes take two rows x, half two rows y."""
        low = cuda.threadIdx.x & group == 0
        for n in range(both + 1):
            p, q = x[n], y[n]
            other = cuda.shfl_xor_sync(ALL, q if low else p, group)
            x[n], y[n] = p if low else other, other if low else q

    @cuda.jit(device=True, forceinline=True)
    def sweep(x0, y0, x1, y1, x2, y2, floor, sums):
        """Rotate each pair of rows once; the largest cosine."""
        largest, buffer, group = float32(0), int32(0), int32(lanes)
        measure(x0, y0, x1, y1, x2, y2, sums)
        while group > 0:
            step = int32(1)
            while step <= group:
                largest = max(largest, meet(x0, y0, x1, y1, x2, y2, floor, sums, buffer))
                if own == 2:
                    largest = max(largest, meet(x0, y1, x1, y0, x2, y2, floor, sums, 1 - buffer))
                    buffer = int32(1 - buffer)
                if own == 3:
                    largest = max(largest, meet(x0, y1, x1, y2, x2, y0, floor, sums, 1 - buffer))
                    largest = max(largest, meet(x0, y2, x1, y0, x2, y1, floor, sums, buffer))
                buffer = int32(1 - buffer)
                if step < group:
                    to = int32(step & -step)
                    move(y0, to)
                    if own > 1:
                        move(y1, to)
                    if own > 2:
                        move(y2, to)
                step = int32(step + 1)
            group = int32(group >> 1)
            if group > 0:
                part(x0, y0, group)
                if own > 1:
                    part(x1, y1, group)
                if own > 2:
                    part(x2, y2, group)
        if own == 2:
            largest = max(largest, meet(x0, x1, y0, y1, x2, y2, floor, sums, buffer))
        if own == 3:  # and pairs that have met, as one is free
            largest = max(largest, meet(x0, x1, y0, y1, x2, y2, floor, sums, buffer))
            largest = max(largest, meet(x0, x2, y0, y2, x1, y1, floor, sums, 1 - buffer))
            largest = max(largest, meet(x1, x2, y1, y2, x0, y0, floor, sums, buffer))
        return largest_of_warp(largest)

    return share, measure, sweep


def make_parts(size: int, warps: int, rotating: int, own: int, fill: Callable) -> tuple:
    """What is done with w and k: make w's rows orthogonal, sort, normalise, write.

    fill: a device function of a source, the columns, and where R goes, padded with zeros. rotating:
    how many of the warps rotate.
    """
    pairs, pitch = size // 2, size + 1
    lanes = pairs // own
    share, measure, sweep = make_rotations(size, rotating, own)
    both, row = 2 * share, 2 * share + 1  # of a row of w and of one of k; and its length
    lane_shares = 32 // lanes  # shares of a row in a warp

    @cuda.jit(device=True, forceinline=True)
    def begin(x, y, q, p, first, r):
        """A lane's shares of two rows, those of k of the identity."""
        i, j = int32(q * lanes + p), int32(pairs + q * lanes + p)
        for n in range(share):
            x[n] = load(r, int32(i * pitch + first + n))
            y[n] = load(r, int32(j * pitch + first + n))
            x[share + n] = float32(1) if first + n == i else float32(0)
            y[share + n] = float32(1) if first + n == j else float32(0)

    @cuda.jit(device=True, forceinline=True)
    def multiply(left, right, down, across, rank, q, p, first, x, y, at):
        """Shares of two rows of left times right, to x[at:] and y[at:]."""
        i, j, m = int32((q * lanes + p) * pitch), int32((pairs + q * lanes + p) * pitch), int32(0)
        for n in range(share):
            x[at + n], y[at + n] = float32(0), float32(0)
        while m < rank:
            one, other = load(left, int32(i + m)), load(left, int32(j + m))
            for n in range(share):
                z = load(right, int32(m * down + (first + n) * across))
                x[at + n] += one * z
                y[at + n] += other * z
            m = int32(m + 1)

    @cuda.jit(device=True, forceinline=True)
    def hand_out(x, y, at, q, p, first, rows):
        """Shares of two rows to shared memory."""
        i, j = int32(q * lanes + p), int32(pairs + q * lanes + p)
        for n in range(share):
            store(rows, int32(i * pitch + first + n), x[at + n])
            store(rows, int32(j * pitch + first + n), y[at + n])

    @cuda.jit(device=True, forceinline=True)
    def multiply_by_itself(x, y, k, r, rank, q, p, first):
        """r = k k'."""
        multiply(k, k, 1, pitch, rank, q, p, first, x, y, 0)
        hand_out(x, y, 0, q, p, first, r)

    @cuda.jit(device=True, forceinline=True)
    def refresh(x, y, k, r, q, p, first):
        """(3 k - r k) / 2, where k was."""
        for n in range(share):
            x[n], y[n] = float32(1.5) * x[share + n], float32(1.5) * y[share + n]
        multiply(r, k, pitch, 1, int32(size), q, p, first, x, y, share)
        for n in range(share):
            x[share + n] = x[n] - float32(0.5) * x[share + n]
            y[share + n] = y[n] - float32(0.5) * y[share + n]

    @cuda.jit(device=True)
    def orthogonalise(r, k, source, rank, sums, found, most):
        """Rotate R's rows in r, k beside it, until they are orthogonal: w to r, J' to k.

        Whether they are, and how often they were swept.
        """
        x0, y0 = cuda.local.array(row, float32), cuda.local.array(row, float32)
        x1, y1 = cuda.local.array(row, float32), cuda.local.array(row, float32)
        x2, y2 = cuda.local.array(row, float32), cuda.local.array(row, float32)
        t = int32(cuda.threadIdx.x)
        lane, warp = t % 32, t // 32
        p = int32(lane % lanes)
        first = int32((warp * lane_shares + lane // lanes) * share)
        rotates = warp < rotating
        floor, done, fresh, swept = float32(0), False, False, int32(0)
        if rotates:
            begin(x0, y0, 0, p, first, r)
            if own > 1:
                begin(x1, y1, 1, p, first, r)
            if own > 2:
                begin(x2, y2, 2, p, first, r)
            measure(x0, y0, x1, y1, x2, y2, sums)
            floor = max(x0[both], y0[both])
            if own > 1:
                floor = max(floor, max(x1[both], y1[both]))
            if own > 2:
                floor = max(floor, max(x2[both], y2[both]))
            floor = largest_of_warp(floor) * float32(NOISE) * float32(NOISE)
            floor = max(float32(ZERO), floor)
        cuda.syncthreads()
        while not done and swept < most:
            if rotates:
                largest = sweep(x0, y0, x1, y1, x2, y2, floor, sums)
                if t == 0:
                    found[0] = largest
            cuda.syncthreads()
            largest = found[0]
            cuda.syncthreads()
            swept = int32(swept + 1)
            done = fresh and largest <= float32(DONE)
            last = done or swept >= most
            near = not fresh and largest <= float32(NEAR_BY_PAIRS)
            if rotates and (near or last):
                hand_out(x0, y0, share, 0, p, first, k)
                if own > 1:
                    hand_out(x1, y1, share, 1, p, first, k)
                if own > 2:
                    hand_out(x2, y2, share, 2, p, first, k)
            if near:
                fresh = True
                cuda.syncthreads()
                if rotates:
                    multiply_by_itself(x0, y0, k, r, rank, 0, p, first)
                    if own > 1:
                        multiply_by_itself(x1, y1, k, r, rank, 1, p, first)
                    if own > 2:
                        multiply_by_itself(x2, y2, k, r, rank, 2, p, first)
                cuda.syncthreads()
                if rotates:
                    refresh(x0, y0, k, r, 0, p, first)
                    if own > 1:
                        refresh(x1, y1, k, r, 1, p, first)
                    if own > 2:
                        refresh(x2, y2, k, r, 2, p, first)
                cuda.syncthreads()
                if rotates:
                    hand_out(x0, y0, share, 0, p, first, k)
                    if own > 1:
                        hand_out(x1, y1, share, 1, p, first, k)
                    if own > 2:
                        hand_out(x2, y2, share, 2, p, first, k)
                fill(source, rank, r)
                if rotates:
                    multiply(k, r, pitch, 1, rank, 0, p, first, x0, y0, 0)
                    if own > 1:
                        multiply(k, r, pitch, 1, rank, 1, p, first, x1, y1, 0)
                    if own > 2:
                        multiply(k, r, pitch, 1, rank, 2, p, first, x2, y2, 0)
                cuda.syncthreads()
        if rotates:
            hand_out(x0, y0, 0, 0, p, first, r)
            if own > 1:
                hand_out(x1, y1, 0, 1, p, first, r)
            if own > 2:
                hand_out(x2, y2, 0, 2, p, first, r)
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
            total = sum_of_warp(total)
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
    def hand_over(w, k, rank, wanted, lengths, order, s, back, short, transposed):
        """Singular values, times `back`, and vectors of rows of w, by length; k's signs with them.

        Rows whose lengths are noise are completed. A block's threads come back together.
        """
        row = int32(0)
        sort(w, k, rank, lengths, order)
        while row < wanted and lengths[row] > float32(NOISE) * lengths[0]:
            row = int32(row + 1)
        have, row = row, int32(cuda.threadIdx.x // 32)
        while row < wanted:
            sign_and_normalise(w, k, int32(order[row] * pitch), rank, lengths[row])
            if cuda.threadIdx.x % 32 == 0:
                s[row] = lengths[row] * back
            row = int32(row + warps)
        cuda.syncthreads()
        if have < wanted:
            if cuda.threadIdx.x < 32:
                complete(w, pitch, order, have, wanted, rank, lengths)
            cuda.syncthreads()
        write_rows(w, order, rank, wanted, short, transposed)

    return orthogonalise, hand_over


def make_svd(size: int, warps: int, own: int) -> Any:
    """The kernel for R of at most `size` columns: it takes R, and what k' goes to, zeros below it.

    And s, the shorter factor, whether that is u, the most sweeps, what the host reads. Dynamic
    shared memory: `shared_bytes`.
    """
    pitch, threads, twice = size + 1, 32 * warps, 2 * size
    square, lanes = size * pitch, size // 2 // own

    @cuda.jit(device=True)
    def fill(source, rank, r):
        """r = R, padded with zeros."""
        n = int32(cuda.threadIdx.x)
        while n < size * size:
            i, j, x = int32(n // size), int32(n % size), float32(0)
            if i <= j < rank:
                x = load(source, (i, j))
            store(r, int32(i * pitch + j), x)
            n = int32(n + threads)
        cuda.syncthreads()

    orthogonalise, hand_over = make_parts(size, warps, warps, own, fill)

    @cuda.jit
    def svd_of_triangles(r, q, s, short, wide, most, told):
        memory = cuda.shared.array(0, float32)
        lengths = cuda.shared.array(twice, float32)
        order = cuda.shared.array(size, int32)
        found = cuda.shared.array(1, float32)
        sums = cuda.shared.array((2, own, warps, lanes), float32)
        matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
        rank = int32(short.shape[1] if wide else short.shape[2])
        wanted, w, k = int32(s.shape[1]), memory[:square], memory[square:]
        fill(r[matrix], rank, w)
        done, times = orthogonalise(w, k, r[matrix], rank, sums, found, most)
        if t == 0:
            told[STATE, matrix], told[SWEPT, matrix] = FINISHED if done else ROTATES, times
        back = cuda.libdevice.int_as_float(told[UNSCALE, matrix])
        hand_over(w, k, rank, wanted, lengths, order, s[matrix], back, short[matrix], wide)
        i = t // 32
        while i < q.shape[1]:
            c = t % 32
            while c < q.shape[2]:
                x = float32(0)
                if i < rank and c < wanted:
                    x = load(k, int32(order[c] * pitch + i))
                store(q, (matrix, i, c), x)
                c = int32(c + 32)
            i = int32(i + warps)

    return svd_of_triangles


SVD = {size: make_svd(size, *way) for size, way in WAYS.items()}


def padded(columns: int) -> int:
    """Columns that a kernel is made for."""
    return next(size for size in WAYS if size >= columns)


def shared_bytes(size: int) -> int:
    """Bytes of dynamic shared memory of a block."""
    return 8 * size * (size + 1)


def launch(r: Any, q: Any, s: Any, short: Any, wide: bool, most: int, told: Any) -> Launch:
    """The launch for R, (batch, ...), of the rank that the shorter factor has."""
    size = padded(short.shape[1 if wide else 2])
    arguments = r, q, s, short, np.int32(wide), np.int32(most), told
    return Launch(SVD[size], len(r), 32 * WAYS[size][0], arguments, shared_bytes(size))


def refusal(columns: int, limit: int) -> str:
    """Why matrices of so many columns cannot be had with so much shared memory."""
    if columns > LARGEST:
        return f"takes matrices whose shorter side is at most {LARGEST}; given {columns}"
    needed = shared_bytes(padded(columns)) + STATIC
    if needed > limit:
        return (
            f"needs {needed:,} bytes of shared memory for {columns} columns, and a block has at "
            f"most {limit:,}"
        )
    return ""
