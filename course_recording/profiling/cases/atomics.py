# ruff: noqa: D103 - the names say it
"""Atomics of every kind, fences, and blocks that pass values to each other."""

from __future__ import annotations

import numpy as np
from numba import float32, float64, int32

from course.backend import cuda
from course_recording.profiling.cases.accesses import numbers, scattered
from course_recording.profiling.cases.noted import Cases, zeros

CASES = Cases()
BLOCKS, THREADS = 6, 96


@CASES(4, 128, zeros(10, "i4"), numbers(450, "i4"))
@cuda.jit
def digits_counted(bins, x):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(bins, x[i] % 10, 1)


@CASES((2, 3), (16, 8), zeros((3, 4)), numbers((20, 30)))
@cuda.jit
def sums_of_cells(cells, image):
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        cuda.atomic.add(cells, (row // 8, column // 8), image[row, column])


@CASES(3, 64, zeros(5, "f8"), numbers(170, "f8"))
@cuda.jit
def double_sums(total, x):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(total, i % 5, x[i])


@CASES(2, 64, np.full(7, 1000, "i4"), numbers(120, "i4"))
@cuda.jit
def taken_away(stock, wanted):
    i = cuda.grid(1)
    if i < wanted.size:
        cuda.atomic.sub(stock, i % 7, wanted[i])


@CASES(3, 96, zeros(1, "i4"), np.full(1, 999, "i4"), scattered(250, 900, 2))
@cuda.jit
def extremes(largest, smallest, x):
    i = cuda.grid(1)
    if i < x.size:
        value = x[i]
        cuda.atomic.max(largest, 0, value)
        cuda.atomic.min(smallest, 0, value)


@CASES(3, 64, zeros(4, "u8"), numbers(180, "u8"))
@cuda.jit
def largest_words(largest, x):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.max(largest, i & 3, x[i])


@CASES(2, 96, zeros(8, "u4"), np.full(8, 0xFFFFFFFF, "u4"), zeros(8, "u4"), numbers(190, "u4"))
@cuda.jit
def bits_of_all(any_of, all_of, parity, x):
    i = cuda.grid(1)
    if i < x.size:
        value, place = x[i], i & 7
        cuda.atomic.or_(any_of, place, value)
        cuda.atomic.and_(all_of, place, value)
        cuda.atomic.xor(parity, place, value)


@CASES(2, 64, zeros(3, "u4"), np.full(3, 9, "u4"), zeros(128, "u4"))
@cuda.jit
def round_robin(up, down, out):
    i = cuda.grid(1)
    out[i] = cuda.atomic.inc(up, i % 3, 9) + cuda.atomic.dec(down, i % 3, 9)


@CASES(1, 64, zeros(16, "i4"), zeros(64, "i4"), scattered(64, 16, 6))
@cuda.jit
def last_seen(seen, before, bucket):
    i = cuda.grid(1)
    before[i] = cuda.atomic.exch(seen, bucket[i], i)


@CASES(2, 64, np.full(32, -1, "i4"), zeros(100, "i4"), scattered(100, 32, 7))
@cuda.jit
def claimed(owner, won, wanted):
    i = cuda.grid(1)
    if i < wanted.size:
        won[i] = cuda.atomic.cas(owner, wanted[i], -1, i) == -1


@CASES(1, 32, zeros(1, "i4"), zeros(200, "i4"), numbers(192, "i4"))
@cuda.jit
def compacted(count, out, x):
    for i in range(cuda.threadIdx.x, x.size, 32):
        value = x[i]
        if value % 3 == 0:
            out[cuda.atomic.add(count, 0, 1)] = value


@CASES(4, 32, zeros(16, "i4"), numbers(1024, "u1"))
@cuda.jit
def histogram_of_blocks(bins, x):
    """Count in shared memory first, then add to global memory."""
    own = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        own[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(own, x[i] & 15, 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(bins, t, own[t])


@CASES(6, 32, zeros(6, "i4"), numbers(190, "i4"))
@cuda.jit
def largest_of_blocks(out, x):
    best = cuda.shared.array(1, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t == 0:
        best[0] = -1
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.max(best, 0, x[i])
    cuda.syncthreads()
    if t == 0:
        out[cuda.blockIdx.x] = best[0]


@CASES(BLOCKS, THREADS, zeros(1), zeros(BLOCKS), zeros(1, "i4"), numbers(BLOCKS * THREADS))
@cuda.jit
def sum_by_the_last_block(out, partial, counter, x):
    last = cuda.shared.array(1, int32)
    own = cuda.shared.array(THREADS, float32)
    t = cuda.threadIdx.x
    own[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for k in range(THREADS):
            total += own[k]
        partial[cuda.blockIdx.x] = total
        cuda.threadfence()
        last[0] = cuda.atomic.add(counter, 0, 1) == cuda.gridDim.x - 1
        cuda.threadfence()
    cuda.syncthreads()
    if last[0] and t == 0:
        total = float32(0)
        for k in range(cuda.gridDim.x):
            total += partial[k]
        out[0] = total


@CASES(2, 64, zeros((2, 5)), numbers((110, 2)), scattered(110, 5, 1))
@cuda.jit
def sums_of_clusters(sums, points, cluster):
    i = cuda.grid(1)
    if i < points.shape[0]:
        k = cluster[i]
        for axis in range(2):
            cuda.atomic.add(sums, (axis, k), points[i, axis])


@CASES(2, 64, zeros(9, "i8"), numbers(128, "i8"))
@cuda.jit
def old_values(total, x):
    """Use an atomic's old value as the index of another atomic."""
    i = cuda.grid(1)
    before = cuda.atomic.add(total, 8, x[i])
    cuda.atomic.add(total, before & 7, 1)


@CASES(1, 96, zeros(96, "f8"), zeros(1, "f8"), numbers(96, "f8"))
@cuda.jit
def shares(out, total, x):
    t = cuda.threadIdx.x
    value = float64(x[t])
    cuda.atomic.add(total, 0, value)
    cuda.syncthreads()
    out[t] = value / total[0]
