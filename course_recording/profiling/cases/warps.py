# ruff: noqa: D103 - the names say it
"""Lanes of a warp that exchange values: shuffles, votes, matches, and a warp's own memory."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int32, uint32

from course.backend import cuda
from course_recording.profiling.cases.accesses import numbers, scattered
from course_recording.profiling.cases.noted import Cases, zeros

CASES = Cases()
ALL = 0xFFFFFFFF


@CASES(2, 96, zeros(6), numbers(192))
@cuda.jit
def warp_sums(out, x):
    i = cuda.grid(1)
    value = x[i]
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(ALL, value, step)
    if cuda.laneid == 0:
        out[i >> 5] = value


@CASES(2, 64, zeros(128, "f8"), numbers(128, "f8"))
@cuda.jit
def centred(out, x):
    """The mean of a warp, known to all its lanes."""
    i = cuda.grid(1)
    value = x[i]
    total = float64(value)
    for step in (1, 2, 4, 8, 16):
        total += cuda.shfl_xor_sync(ALL, total, step)
    out[i] = value - total / 32


@CASES(3, 32, zeros(96, "i4"), numbers(96, "i4"))
@cuda.jit
def warp_scan(out, x):
    i, lane = cuda.grid(1), cuda.laneid
    value = x[i]
    step = 1
    while step < 32:
        below = cuda.shfl_up_sync(ALL, value, step)
        if lane >= step:
            value += below
        step *= 2
    out[i] = value


@CASES(2, 64, zeros(128, "i4"), zeros(4, "i4"), numbers(128, "i4"))
@cuda.jit
def ranks_in_warps(out, counts, x):
    """A lane's rank among the lanes before it, by a ballot."""
    i, lane = cuda.grid(1), cuda.laneid
    value = x[i]
    odd = uint32(cuda.ballot_sync(ALL, value % 2 == 1))
    rank = cuda.popc(odd & uint32((1 << lane) - 1))
    if value % 2 == 1:
        out[(i & -32) + rank] = value
    if lane == 0:
        counts[i >> 5] = cuda.popc(odd)


@CASES(3, 64, zeros(6, "i4"), numbers(192, "i4"))
@cuda.jit
def votes(out, x):
    i = cuda.grid(1)
    value = x[i]
    some, every = cuda.any_sync(ALL, value > 98), cuda.all_sync(ALL, value < 100)
    if cuda.laneid == 0:
        out[i >> 5] = (2 if some else 0) + (1 if every else 0)


@CASES(2, 32, zeros(64, "i4"), scattered(64, 6, 5))
@cuda.jit
def group_sizes(out, key):
    i = cuda.grid(1)
    out[i] = cuda.popc(cuda.match_any_sync(ALL, key[i]))


@CASES(2, 64, zeros(4, "i4"), zeros(4), numbers(128))
@cuda.jit
def largest_and_where(where, largest, x):
    i, lane = cuda.grid(1), cuda.laneid
    value, place = x[i], int32(lane)
    for step in (16, 8, 4, 2, 1):
        other = cuda.shfl_down_sync(ALL, value, step)
        its_place = cuda.shfl_down_sync(ALL, place, step)
        if other > value or (other == value and its_place < place):
            value, place = other, its_place
    if lane == 0:
        where[i >> 5] = place
        largest[i >> 5] = value


@CASES(2, 32, zeros((2, 32)), numbers((2, 32)))
@cuda.jit
def turned_rows(out, x):
    """Eight groups of four lanes, each rotated by its number."""
    lane, row = cuda.laneid, cuda.blockIdx.x
    group = lane >> 2
    source = (group << 2) | ((lane + group) & 3)
    out[row, lane] = cuda.shfl_sync(ALL, x[row, lane], source)


@CASES(3, 32, zeros(96, "i4"), numbers(96, "i4"))
@cuda.jit
def until_all_are_small(out, x):
    """A loop that a warp leaves together."""
    i = cuda.grid(1)
    value, steps = x[i], 0
    while cuda.any_sync(ALL, value > 3):
        value >>= 1
        steps += 1
    out[i] = steps


@CASES(2, 96, zeros(192), numbers(192))
@cuda.jit
def exchange_within_warps(out, x):
    """A warp's own part of shared memory, ordered by syncwarp."""
    tile = cuda.shared.array((3, 32), float32)
    i, lane, warp = cuda.grid(1), cuda.laneid, cuda.threadIdx.x >> 5
    tile[warp, lane] = x[i]
    cuda.syncwarp()
    out[i] = tile[warp, (lane * 5 + 3) % 32]


@CASES(3, 128, zeros(3, "f8"), numbers(380, "f8"))
@cuda.jit
def sums_in_two_steps(out, x):
    """Warps add up by shuffles; then each warp adds up all their sums in the same way."""
    sums = cuda.shared.array(4, float64)
    i, t, lane = cuda.grid(1), cuda.threadIdx.x, cuda.laneid
    value = x[i] if i < x.size else 0.0
    for step in (16, 8, 4, 2, 1):
        value += cuda.shfl_down_sync(ALL, value, step)
    if lane == 0:
        sums[t >> 5] = value
    cuda.syncthreads()
    value = sums[lane & 3]
    for step in (2, 1):
        value += cuda.shfl_xor_sync(ALL, value, step)
    if t == 0:
        out[cuda.blockIdx.x] = value


@CASES(4, 32, zeros((4, 5)), numbers((4, 80)), numbers((5, 80)))
@cuda.jit
def dot_products_by_warps(out, a, b):
    row, lane = cuda.blockIdx.x, cuda.laneid
    for k in range(b.shape[0]):
        total = float32(0)
        for place in range(lane, 80, 32):
            total += a[row, place] * b[k, place]
        for step in (16, 8, 4, 2, 1):
            total += cuda.shfl_xor_sync(ALL, total, step)
        if lane == 0:
            out[row, k] = total


@CASES(2, 64, zeros(1, "i4"), zeros(128, "i4"), numbers(128, "i4"))
@cuda.jit
def compacted_by_warps(count, out, x):
    """One atomic for each warp, and indices within it by a ballot."""
    i, lane = cuda.grid(1), cuda.laneid
    value = x[i]
    wanted = value % 4 == 0
    mask = uint32(cuda.ballot_sync(ALL, wanted))
    start = 0
    if lane == 0:
        start = cuda.atomic.add(count, 0, cuda.popc(mask))
    start = cuda.shfl_sync(ALL, start, 0)
    if wanted:
        out[start + cuda.popc(mask & uint32((1 << lane) - 1))] = value


@CASES(2, 64, zeros(128, "u4"), numbers(128, "u4"))
@cuda.jit
def reversed_bits(out, x):
    i = cuda.grid(1)
    value = x[i] + uint32(i)
    out[i] = cuda.brev(value) ^ uint32(cuda.clz(value)) ^ uint32(cuda.ffs(value))


@CASES(3, 48, zeros(144, "i4"))
@cuda.jit
def lanes_and_warps(out):
    i = cuda.grid(1)
    out[i] = cuda.laneid + 100 * (cuda.threadIdx.x // 32)


@CASES(2, 32, zeros(64, "i4"), np.repeat(numbers(8, "i4"), 8))
@cuda.jit
def run_lengths(out, x):
    """Heads of runs, found by comparing with the lane below."""
    i, lane = cuda.grid(1), cuda.laneid
    value = x[i]
    before = cuda.shfl_up_sync(ALL, value, 1)
    heads = uint32(cuda.ballot_sync(ALL, lane == 0 or value != before))
    below = heads & uint32((2 << lane) - 1)
    out[i] = lane - (31 - cuda.clz(below))
