"""Rotations of rows that lie in registers: all sweeps over a matrix in one launch, a block each.

R of a QR decomposition has up to 128 columns. Its rows become orthogonal, w = J' R = diag(s) Y',
while k = J' gathers the rotations. Before the last sweeps k is refreshed, see `course.kernels.svd`.

The number of rows is padded to a multiple of 16. A warp has 8 rows x and 8 rows y in registers. Of
each row, a lane has every 32nd element, first of w, then of k. So shuffles sum a dot product, and
rotations wait for no other warp. A sweep pairs every two rows once. In 8 steps a warp rotates each
x with each y. Then it hands its y to the warp before, through shared memory, as in a tournament
whose players change places with their neighbours. In every second round one warp has both the first
and the last place. It waits, and its x moves on in place of y. At the end each warp pairs its x
with one another, and its y. A lane has the squared lengths of one pair's rows: each rotation
updates them by a formula, and each sweep computes them anew.

Loops are `while` loops over int32. Those over `range` would count in 64 bits and take twice the
code, which is much to compile and to load here.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.dispatch.slots import workspace
from course.kernels.steps import Launch
from course.kernels.svd.qr import Reflections, halve_2, halve_4, halve_8
from course.kernels.svd.rotate import (
    DONE,
    FINISHED,
    LEAST,
    NEAR_BY_PAIRS,
    NOISE,
    ROTATES,
    rotation_at_once,
)
from course.kernels.svd.scaling_sorting import (
    ZERO,
    largest_of_warp,
    scaling,
    spreading,
    sum_of_warp,
)
from course.kernels.warps import ALL
from warpsim.ptx import load, named_barrier, store

#: Rows of what the host reads, (4, batch), int32. UNSCALE has float32's bits: 1 / scale.
STATE, REFUSED, SWEPT, UNSCALE = 0, 1, 2, 3
TOGETHER = 4  # rows that a thread handles at a time
STATIC = 8192  # bytes of static shared memory, at most
#: Sweeps after which a matrix counts as not converging; random ones take 8, repeated values 20.
MOST_SWEEPS = 60
OWN = 8  # rows x of a warp, and rows y
#: No sweep follows one whose largest cosine times the largest change of a row's direction is at
#: most this: it bounds the cosine of rows that were rotated early in it, and then with others.
LEFT = 5e-7
LARGEST = 128  # columns
LITTLE = 1e-6  # a unit vector with less squared length outside a space lies in it
SIZES = range(2 * OWN, LARGEST + 1, 2 * OWN)  # to which columns are padded


@cuda.jit(device=True, forceinline=True)
def squared_change(a, b, tangent):
    """(tangent * longer / shorter)², of two rows with squared lengths a and b.

    By so much the shorter row's direction changes, and with it its cosine with a third row.
    """
    least = max(min(a, b), float32(LEAST))
    return cuda.libdevice.fast_fdividef(tangent * tangent * max(a, b), least)


@cuda.jit(device=True)
def _project(rows, pitch, order, row, rank, along):
    """Make a row orthogonal to the rows before, twice, by one warp; return its squared length."""
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
    """Make rows from `have` on orthonormal to all before; each keeps its direction if it can.

    Else it becomes a unit vector, the next that does not lie in the space of the rows before. Unit
    vectors that lie there are not tried again, as they do for all further rows.
    """
    row, unit, lane = have, int32(0), int32(cuda.threadIdx.x % 32)
    while row < wanted:
        left, mine = _project(rows, pitch, order, row, rank, along), int32(order[row] * pitch)
        taken, e = left >= float32(LITTLE) or unit >= rank, lane  # NaN, too, ends the loop
        while e < rank:
            at = int32(mine + e)
            x = load(rows, at) / math.sqrt(left) if taken else float32(e == unit)
            store(rows, at, x)
            e = int32(e + 32)
        cuda.syncwarp()
        row, unit = int32(row + int32(taken)), int32(unit + int32(not taken))


def make_group(group: int, each: int) -> tuple[Callable, Callable]:
    """Device functions that pair a warp's rows x with one another, and its y: to begin, to go on.

    A lane has `each` elements of a row. Lanes 2 p and 2 p + 1 have the squared lengths of the rows
    of pair p.
    """

    @cuda.jit(device=True, forceinline=True)
    def regroup(x, y, a, b):
        for m in range(OWN // 2):
            q = m // group * 2 * group + m % group
            for n in range(each):
                x[(q + group) * each + n], y[q * each + n] = (
                    y[q * each + n], x[(q + group) * each + n]
                )  # fmt: skip
        upper = cuda.threadIdx.x & (2 * group) != 0
        other = cuda.shfl_xor_sync(ALL, a if upper else b, 2 * group)
        return other if upper else a, b if upper else other

    @cuda.jit(device=True, forceinline=True)
    def go_round(y, b):
        for m in range(OWN // group):
            for n in range(each):
                first = y[m * group * each + n]
                for q in range(group - 1):
                    y[(m * group + q) * each + n] = y[(m * group + q + 1) * each + n]
                y[(m * group + group - 1) * each + n] = first
        q = int32(cuda.threadIdx.x % 32 // 2)
        return cuda.shfl_sync(ALL, b, 2 * ((q & -group) | ((q + 1) & (group - 1))))

    return regroup, go_round


def make_sweep(size: int) -> Callable:
    """Device function: a sweep over the rows that the block's warps have in registers."""
    warps, each, pitch = size // (2 * OWN), size // 16, size + 1
    full, threads, square = size // 32, 32 * warps, size * pitch
    count, uneven = OWN * each, size % 32 != 0
    rounds = 2 * warps if warps > 1 else 1
    regroup_4, go_round_4 = make_group(4, each)
    regroup_2, go_round_2 = make_group(2, each)
    regroup_1, _ = make_group(1, each)

    @cuda.jit(device=True, forceinline=True)
    def products(x, y):
        """Dot products of all pairs' rows of w; a lane gets that of pair lane // 2 % 8."""
        g, lane = cuda.local.array(OWN, float32), int32(cuda.threadIdx.x % 32)
        for q in range(OWN):
            total = float32(0)
            for n in range(full):
                total += x[q * each + n] * y[q * each + n]
            if uneven:  # the other lanes have elements of k there
                total += x[q * each + full] * y[q * each + full] if lane < 16 else float32(0)
            g[q] = total
        halve_8(g)
        halve_4(g)
        halve_2(g)
        total = g[0] + cuda.shfl_xor_sync(ALL, g[0], 16)
        return total + cuda.shfl_xor_sync(ALL, total, 1)

    @cuda.jit(device=True, forceinline=True)
    def rotate_pairs(x, y, a, b, floor):
        """Rotate all pairs; return cosine, `squared_change`, squared lengths of a lane's pair."""
        g = products(x, y)
        before, s, d, tangent = rotation_at_once(a, b, g, floor)
        change = squared_change(a, b, tangent)
        for q in range(OWN):
            c, e = cuda.shfl_sync(ALL, s, 2 * q), cuda.shfl_sync(ALL, d, 2 * q)
            for n in range(each):
                p, r = x[q * each + n], y[q * each + n]
                x[q * each + n] = (p - c * r) - e * p
                y[q * each + n] = (r + c * p) - e * r
        return before, change, max(a - tangent * g, float32(0)), max(b + tangent * g, float32(0))

    @cuda.jit(device=True, forceinline=True)
    def rotate_and_shift(x, y, a, b, p, q, floor):
        """As `rotate_pairs`, of rows without their factors p, q; each y moves to the pair before.

        x' = c (x - t y) and y' = (y + s x') / c: p and q take the factors c and 1 / c.
        """
        first = cuda.local.array(each, float32)
        over, under = cuda.libdevice.fast_fdividef(q, p), cuda.libdevice.fast_fdividef(p, q)
        g = p * q * products(x, y)
        before, s, d, tangent = rotation_at_once(a, b, g, floor)
        change = squared_change(a, b, tangent)
        a, b = max(a - tangent * g, float32(0)), max(b + tangent * g, float32(0))
        c = float32(1) - d
        over, under = over * tangent, under * s * c
        p, q = p * c, cuda.libdevice.fast_fdividef(q, c)
        c, e = cuda.shfl_sync(ALL, over, 0), cuda.shfl_sync(ALL, under, 0)
        for n in range(each):
            x[n] -= c * y[n]
            first[n] = y[n] + e * x[n]
        for m in range(1, OWN):
            c, e = cuda.shfl_sync(ALL, over, 2 * m), cuda.shfl_sync(ALL, under, 2 * m)
            for n in range(each):
                x[m * each + n] -= c * y[m * each + n]
                y[(m - 1) * each + n] = y[m * each + n] + e * x[m * each + n]
        for n in range(each):
            y[(OWN - 1) * each + n] = first[n]
        other = (int32(cuda.threadIdx.x) + 2) & 14
        b, q = cuda.shfl_sync(ALL, b, other), cuda.shfl_sync(ALL, q, other)
        return before, change, a, b, p, q

    @cuda.jit(device=True, forceinline=True)
    def pass_on(y, b, memory, base):
        """Rows y go to the warp before; theirs come from the one behind."""
        t, lengths = int32(cuda.threadIdx.x), int32(base + size * size)
        for n in range(count):
            store(memory, int32(base + n * threads + t), y[n])
        if t & 17 == 0:
            store(memory, int32(lengths + t // 2 - t // 32 * 8), b)
        # racecheck reports hazards where two of eight warps wait here: it misses block barriers
        # that follow, even three. So it does in ten lines of CUDA C: of 4e10 reads none was stale
        named_barrier(int32(1), int32(threads))
        other = int32(t + 32 if t + 32 < threads else t + 32 - threads)
        for n in range(count):
            y[n] = load(memory, int32(base + n * threads + other))
        return load(memory, int32(lengths + other // 32 * 8 + other % 16 // 2))

    @cuda.jit(device=True)
    def sweep(x, y, floor, memory):
        """Rotate each pair of rows once; return a lane's largest cosine and `squared_change`."""
        warp, at = int32(cuda.threadIdx.x // 32), int32(0)
        largest, changed = float32(0), float32(0)
        a, b = products(x, x), products(y, y)
        while at < rounds:
            waits, step = at & 1 == 1 and warp == warps - (at + 1) // 2, int32(0)
            p, q = float32(1), float32(1)
            while step < OWN and not waits:
                before, change, a, b, p, q = rotate_and_shift(x, y, a, b, p, q, floor)
                largest, changed = max(largest, before), max(changed, change)
                step = int32(step + 1)
            for m in range(OWN):
                c, e = cuda.shfl_sync(ALL, p, 2 * m), cuda.shfl_sync(ALL, q, 2 * m)
                for n in range(each):
                    x[m * each + n] *= c
                    y[m * each + n] *= e
            if warps > 1:
                if waits:
                    for n in range(count):
                        x[n], y[n] = y[n], x[n]
                    a, b = b, a
                b = pass_on(y, b, memory, int32((at & 1) * square))
            at = int32(at + 1)
        step = int32(0)
        while step < OWN - 1:
            if step == 0:
                a, b = regroup_4(x, y, a, b)
            elif step == 4:
                a, b = regroup_2(x, y, a, b)
            elif step == 6:
                a, b = regroup_1(x, y, a, b)
            before, change, a, b = rotate_pairs(x, y, a, b, floor)
            largest, changed = max(largest, before), max(changed, change)
            if step < 3:
                b = go_round_4(y, b)
            elif step == 4:
                b = go_round_2(y, b)
            step = int32(step + 1)
        return largest, changed

    return sweep


def make_parts(size: int, warps: int, element: Callable) -> tuple:
    """Device function: make w's rows orthogonal, sort and normalise w and k, store vectors.

    ``element(source, i, j)``: device function, R's element. warps: at least as many as have rows.
    """
    pitch, each, columns = size + 1, size // 16, (size + 31) // 32
    square, threads, rotating, count = size * pitch, 32 * warps, size // (2 * OWN), OWN * each
    twice, sweep = 2 * size, make_sweep(size)

    @cuda.jit(device=True)
    def fill(source, rank, r):
        """r = R, padded with zeros."""
        n = int32(cuda.threadIdx.x)
        while n < size * size:
            i, j, x = int32(n // size), int32(n % size), float32(0)
            if i <= j < rank:
                x = element(source, i, j)
            store(r, int32(i * pitch + j), x)
            n = int32(n + threads)
        cuda.syncthreads()

    @cuda.jit(device=True, forceinline=True)
    def move_rows(x, y, memory, give):
        """Load a warp's rows, of w and then of k, from shared memory; if give is 1, store them."""
        lane, i = int32(cuda.threadIdx.x % 32), int32(cuda.threadIdx.x // 32 * OWN)
        for q in range(OWN):
            for n in range(each):
                e = int32(lane + 32 * n)
                at = int32((i + q) * pitch + (e if e < size else e + square - size))
                other = int32(at + rotating * OWN * pitch)
                if give == 1:
                    store(memory, at, x[q * each + n])
                    store(memory, other, y[q * each + n])
                else:
                    x[q * each + n], y[q * each + n] = load(memory, at), load(memory, other)

    @cuda.jit(device=True)
    def multiply(left, right, down, across, depth, out, other, by, more):
        """out = by * left right + more * other; each warp stores its rows when all have read."""
        x, y = cuda.local.array((OWN, columns), float32), cuda.local.array((OWN, columns), float32)
        z, lane = cuda.local.array(columns, float32), int32(cuda.threadIdx.x % 32)
        i, j = int32(cuda.threadIdx.x // 32 * OWN * pitch), int32(0)
        for q in range(OWN):
            for m in range(columns):
                x[q, m], y[q, m] = float32(0), float32(0)
        rotates = cuda.threadIdx.x < 32 * rotating
        while j < depth and rotates:
            for m in range(columns):
                z[m] = load(right, int32(j * down + min(lane + 32 * m, size - 1) * across))
            for q in range(OWN):
                one = load(left, int32(i + q * pitch + j))
                two = load(left, int32(i + (rotating * OWN + q) * pitch + j))
                for m in range(columns):
                    x[q, m] += one * z[m]
                    y[q, m] += two * z[m]
            j = int32(j + 1)
        cuda.syncthreads()
        for q in range(OWN):
            for m in range(columns):
                at = int32(i + q * pitch + lane + 32 * m)
                if lane + 32 * m < size and rotates:
                    store(out, at, by * x[q, m] + more * load(other, at))
                    at = int32(at + rotating * OWN * pitch)
                    store(out, at, by * y[q, m] + more * load(other, at))
        cuda.syncthreads()

    @cuda.jit(device=True)
    def orthogonalise(memory, source, rank, most):
        """Rotate R's rows until they are orthogonal; `memory` then holds w, and J' behind it.

        Returns whether they are orthogonal, and how often they were swept.
        """
        x, y = cuda.local.array(count, float32), cuda.local.array(count, float32)
        found, changes = cuda.shared.array(warps, float32), cuda.shared.array(warps, float32)
        t, longest = int32(cuda.threadIdx.x), float32(0)
        w, k, n = memory[:square], memory[square : 2 * square], int32(t)
        rotates = t < 32 * rotating
        fill(source, rank, w)
        while n < size * size:
            store(k, int32(n // size * pitch + n % size), float32(n // size == n % size))
            n = int32(n + threads)
        n = t // 32
        while n < size:  # find the longest row
            total, e = float32(0), int32(t % 32)
            while e < size:
                total += load(w, int32(n * pitch + e)) * load(w, int32(n * pitch + e))
                e = int32(e + 32)
            longest, n = max(longest, sum_of_warp(total)), int32(n + warps)
        if t % 32 == 0:
            found[t // 32] = longest
        cuda.syncthreads()
        for other in range(warps):
            longest = max(longest, found[other])
        floor = max(float32(ZERO), longest * float32(NOISE) * float32(NOISE))
        if rotates:
            move_rows(x, y, memory, int32(0))
        cuda.syncthreads()
        done, fresh, swept = False, False, int32(0)
        while not done and swept < most:
            largest, changed = float32(0), float32(0)
            if rotates:
                largest, changed = sweep(x, y, floor, memory)
                largest, changed = largest_of_warp(largest), largest_of_warp(changed)
            if t % 32 == 0:
                found[t // 32], changes[t // 32] = largest, changed
            cuda.syncthreads()
            for other in range(rotating):
                largest, changed = max(largest, found[other]), max(changed, changes[other])
            cuda.syncthreads()
            swept = int32(swept + 1)
            little = largest * largest * changed <= float32(LEFT * LEFT)
            done = fresh and (largest <= float32(DONE) or little)
            near = not fresh and largest <= float32(NEAR_BY_PAIRS)
            if rotates and (near or done or swept >= most):
                move_rows(x, y, memory, int32(1))
            cuda.syncthreads()
            if near:
                fresh, one, none, next_row = True, float32(1), float32(0), int32(pitch)
                multiply(k, k, int32(1), next_row, rank, w, w, one, none)
                multiply(w, k, next_row, int32(1), int32(size), k, k, float32(-0.5), float32(1.5))
                fill(source, rank, w)
                multiply(k, w, next_row, int32(1), rank, w, w, one, none)
                if rotates:
                    move_rows(x, y, memory, int32(0))
                cuda.syncthreads()
        return done, swept

    @cuda.jit(device=True)
    def sort(w, k, rank, lengths, order):
        """Sort rows by length, relative to k's; order: which row each is. Padding comes last."""
        t = int32(cuda.threadIdx.x)
        lane, row = t % 32, t // 32
        while row < size:
            total, unit, e = float32(0), float32(0), lane
            while e < size:
                x, y = load(w, int32(row * pitch + e)), load(k, int32(row * pitch + e))
                total += x * x
                unit += y * y
                if e >= rank:  # only in rows that are padding
                    total -= abs(y)
                e = int32(e + 32)
            total, unit = sum_of_warp(total), sum_of_warp(unit)
            if lane == 0:
                total = total / unit  # rounding has changed k's rows, and w's with them
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
        """Scale a row of w, and of k, to unit vectors; w's largest entry becomes positive.

        length: of w's row, relative to k's. Where it is noise, w's row becomes zero.
        """
        lane, largest, value = int32(cuda.threadIdx.x % 32), float32(-1), float32(0)
        of_w, of_k, e = float32(0), float32(0), lane
        while e < rank:
            x, y = load(w, int32(mine + e)), load(k, int32(mine + e))
            of_w += x * x
            of_k += y * y
            if abs(x) > largest:
                largest, value = abs(x), x
            e = int32(e + 32)
        of_w, of_k = math.sqrt(sum_of_warp(of_w)), math.sqrt(sum_of_warp(of_k))
        first = cuda.ffs(cuda.ballot_sync(ALL, largest == largest_of_warp(largest))) - 1
        sign = float32(1) if cuda.shfl_sync(ALL, value, first) >= float32(0) else float32(-1)
        by = sign / of_w if length * length > float32(ZERO) else float32(0)
        with_it, e = sign / of_k, lane
        while e < rank:
            store(w, int32(mine + e), by * load(w, int32(mine + e)))
            store(k, int32(mine + e), with_it * load(k, int32(mine + e)))
            e = int32(e + 32)

    @cuda.jit(device=True)
    def write_rows(w, order, rank, wanted, out, transposed):
        """Store the sorted rows, as columns if transposed."""
        t = int32(cuda.threadIdx.x)
        lane, warp = t % 32, t // 32
        i, rows, width = warp, rank if transposed else wanted, wanted if transposed else rank
        while i < rows:
            j = lane
            while j < width:
                row, e = j if transposed else i, i if transposed else j
                out[i, j] = load(w, int32(order[row] * pitch + e))
                j = int32(j + 32)
            i = int32(i + warps)

    @cuda.jit(device=True)
    def decompose(memory, source, rank, most, told, matrix, order, s, back, short, transposed):
        """Sorted singular values, times `back`, and w's vectors; k's rows get the same signs.

        `memory` holds w, and k behind it; `order` says which row each is. Rows whose lengths are
        noise are completed. The block is synchronised before vectors are stored.
        """
        lengths = cuda.shared.array(twice, float32)
        w, k = memory[:square], memory[square : 2 * square]
        wanted, row = int32(s.shape[0]), int32(0)
        done, times = orthogonalise(memory, source, rank, most)
        if cuda.threadIdx.x == 0:
            told[STATE, matrix], told[SWEPT, matrix] = FINISHED if done else ROTATES, times
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

    return decompose


def make_svd(size: int) -> Any:
    """The kernel for R of at most `size` columns, r; q receives k', with zeros below it.

    short: the shorter factor, u if wide. most: of sweeps. ones: receives ones. unscale: the scale's
    inverse. told: what the host reads. Dynamic shared memory: `shared_bytes`.
    """
    pitch, warps = size + 1, size // (2 * OWN)
    square = size * pitch

    @cuda.jit(device=True)
    def element(r, i, j):
        return load(r, (i, j))

    decompose = make_parts(size, warps, element)

    @cuda.jit
    def svd_of_triangles(r, q, s, short, wide, most, ones, unscale, refused, told):
        memory = cuda.shared.array(0, float32)
        order = cuda.shared.array(size, int32)
        matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
        rank = int32(short.shape[1] if wide else short.shape[2])
        wanted, k, back = int32(s.shape[1]), memory[square:], unscale[matrix]
        if t == 0:
            ones[matrix], told[REFUSED, matrix] = float32(1), refused[matrix]
            told[UNSCALE, matrix] = cuda.libdevice.float_as_int(back)
        if refused[matrix] != 0:
            return
        here, into = r[matrix], s[matrix]
        decompose(memory, here, rank, most, told, matrix, order, into, back, short[matrix], wide)
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


SVD = {size: make_svd(size) for size in SIZES}


def padded(columns: int, sizes: Iterable[int] = SIZES) -> int:
    """The columns of the smallest kernel for so many."""
    return next(size for size in sizes if size >= columns)


def shared_bytes(size: int) -> int:
    """Bytes of dynamic shared memory of a block."""
    return 8 * size * (size + 1)


class Scratch(NamedTuple):
    """Memory that the launches share: scaled matrices, which become R; k'; and V."""

    tall: Any
    q: Any
    reflections: Reflections

    @classmethod
    def made(cls, shape: tuple[int, ...], empty: Callable) -> "Scratch":
        """The memory for matrices (batch, rows, columns); ``empty(shape, dtype)`` allocates it."""
        batch, rank, length = shape[0], *sorted(shape[1:])
        tall = batch, max(length, padded(rank)), padded(rank)
        arrays = (empty(tall, np.float32) for _ in range(2))
        return cls(*arrays, Reflections(*tall, empty))


def rotating(r: Any, q: Any, s: Any, short: Any, wide: bool, *about: Any) -> Launch:
    """The launch of `svd_of_triangles`; about: ones, unscale, refused, told. short: u if wide."""
    size, given = r.shape[2], (r, q, s, short, np.int32(wide), np.int32(MOST_SWEEPS), *about)
    return Launch(SVD[size], len(s), 2 * size, given, shared_bytes(size))


def of_triangles(
    memory: Scratch, factors: tuple, scale: Any, unscale: Any, refused: Any, told: Any, state: Any
) -> list[Launch]:
    """The launches after `Reflections.factoring`, for u, s, vt, and what the host reads."""
    u, s, vt = factors
    wide = u.shape[1] < vt.shape[2]
    short, long = (u, vt) if wide else (vt, u)
    return [
        rotating(memory.tall, memory.q, s, short, wide, scale, unscale, refused, told),
        memory.reflections.forming(memory.q, state, given=True),
        spreading(memory.q, scale, long, wide),
    ]


def launches(a: Any, u: Any, s: Any, vt: Any, told: Any) -> list[Launch]:
    """All launches for matrices of any strides, (batch, rows, columns)."""
    memory, wide = Scratch.made(a.shape, workspace), a.shape[1] < a.shape[2]
    scale, unscale = (workspace(len(a), np.float32) for _ in range(2))
    refused = workspace(len(a), np.int32)
    return [
        scaling(a, scale, unscale, refused),
        spreading(a, scale, memory.tall, wide),
        *memory.reflections.factoring(memory.tall, refused),
        *of_triangles(memory, (u, s, vt), scale, unscale, refused, told, refused),
    ]
