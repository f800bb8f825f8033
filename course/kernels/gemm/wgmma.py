"""Step 2: wgmma, fed by cp.async. A warpgroup issues it; tensor cores read shared memory.

Unlike step 1 there is no ldmatrix, and operands take no registers, so a warpgroup has enough for
64 x 256 accumulators. wgmma runs in the asynchronous proxy. A fence, then a barrier, make what
threads copied visible to it. All threads still compute addresses.

It takes only float16, the layout "nt", no epilogue, so that the step stays short to read.
`warp_specialised` has the rest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba.types import float16, float32, int32

from course.backend import cuda
from course.heuristics.gemm import DEPTH
from course.kernels.gemm.tiles import ROW_GROUP, tile_coordinates
from course.kernels.steps import Launch, ceil_div
from warpsim.ptx import (
    commit_copies,
    copy8_async,
    fence_async,
    store2,
    unpack,
    wait_copies,
    wgmma_nt,
    wgmma_sums,
    wgmma_wait,
    wgmma_zeros,
)

TILE_M, TILE_N = 128, 256  # results of a block
THREADS = 256  # two warpgroups, 64 x 256 results each
STAGES, SUMS = 4, TILE_N // 2  # SUMS: accumulators of a thread
SIDE, STAGE = TILE_M * DEPTH, (TILE_M + TILE_N) * DEPTH  # elements of a's tile, of both tiles
SHARED = 2 * STAGES * STAGE  # bytes
LINES = THREADS // 8  # rows of a tile that the block copies at a time, 16 bytes a thread


@cuda.jit(device=True)
def fetch(source, lines, tiles, start, first, k, high, deep):
    """Load `lines` rows from `first` on, 64 deep from k on, swizzled, to ``tiles[start]``.

    Elements beyond the depth must be 0. For rows beyond the last any will do: none is stored.
    """
    t = int32(cuda.threadIdx.x)
    line, chunk = int32(t >> 3), int32(t & 7)
    to = int32(start + 64 * line + ((chunk ^ (line & 7)) << 3))
    column = int32(k + 8 * chunk)
    count = int32(min(int32(8), max(int32(0), int32(deep - column))))
    for go in range(lines // LINES):
        row = int32(min(int32(first + line + go * LINES), int32(high - 1)))
        copy8_async(tiles, int32(to + 64 * LINES * go), source, (row, column), count)


# 64 columns a call: a longer loop is not unrolled, and accumulators would be in local memory
@cuda.jit(device=True, forceinline=True)
def store_results(out, local, first, row, column, rows, columns):
    """Store a thread's sums of 64 columns, from column 8 * first on: pairs of them, in two rows."""
    for n in range(8):
        j = first + n
        c = int32(column + 8 * j)
        if c < columns:
            if row < rows:
                store2(out, (row, c), (float16(local[4 * j]), float16(local[4 * j + 1])))
            if row + 8 < rows:
                pair = float16(local[4 * j + 2]), float16(local[4 * j + 3])
                store2(out, (int32(row + 8), c), pair)


@cuda.jit(device=True, forceinline=True)
def store_tile(out, local, row, column, group, warp, lane, rows, columns):
    """Store a thread's sums of the tile that begins at (row, column)."""
    r = int32(row + 64 * group + 16 * warp + (lane >> 2))
    c = int32(column + 2 * (lane & 3))
    store_results(out, local, 0, r, c, rows, columns)
    store_results(out, local, 8, r, c, rows, columns)
    store_results(out, local, 16, r, c, rows, columns)
    store_results(out, local, 24, r, c, rows, columns)


@functools.cache
def gemm() -> Callable:
    """The kernel of (a, b, out, rows, columns, depth, row_group).

    Mapping: a block computes 128 x 256 results, warpgroup w the rows 64 w to 64 w + 63 of them.
    Memory: as step 1. A stage is overwritten two steps after it was multiplied, since the previous
    step's product may still be in flight.
    """

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath=True)
    def gemm_wgmma(a, b, out, rows, columns, depth, row_group):
        tiles = cuda.shared.array(0, float16, alignment=1024)
        local = cuda.local.array(SUMS, float32)
        t = int32(cuda.threadIdx.x)
        group, warp, lane = int32(t >> 7), int32(t >> 5 & 3), int32(t & 31)
        down, across = int32((int32(rows) + 127) >> 7), int32((int32(columns) + 255) >> 8)
        tile_row, tile_column = tile_coordinates(
            int32(cuda.blockIdx.x), down, across, int32(row_group)
        )
        row, column = int32(tile_row * TILE_M), int32(tile_column * TILE_N)
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        for s in range(STAGES - 2):
            if s < steps:
                at, k = int32(s * STAGE), int32(s * DEPTH)
                fetch(a, TILE_M, tiles, at, row, k, rows, depth)
                fetch(b, TILE_N, tiles, int32(at + SIDE), column, k, columns, depth)
            commit_copies()
        sums = wgmma_zeros(TILE_N)
        at, ahead = int32(0), int32((STAGES - 2) * STAGE)
        for step in range(steps):
            wait_copies(1)  # of the STAGES - 2 groups in flight the older one has arrived
            fence_async()
            cuda.syncthreads()
            sums = wgmma_nt(
                sums, tiles, int32(at + 64 * DEPTH * group), tiles, int32(at + SIDE), step
            )
            k = int32((step + STAGES - 2) * DEPTH)
            if k < depth:
                fetch(a, TILE_M, tiles, ahead, row, k, rows, depth)
                fetch(b, TILE_N, tiles, int32(ahead + SIDE), column, k, columns, depth)
            commit_copies()
            wgmma_wait(1)  # the previous product has read its stage
            at = int32(0) if at == (STAGES - 1) * STAGE else int32(at + STAGE)
            ahead = int32(0) if ahead == (STAGES - 1) * STAGE else int32(ahead + STAGE)
        unpack(local, wgmma_sums(sums))
        store_tile(out, local, row, column, group, warp, lane, rows, columns)

    return gemm_wgmma


def launched(kernel, p, factors, out):
    """The launch of a kernel with these tiles, in step 3 as well."""
    grid = ceil_div(p.rows, TILE_M) * ceil_div(p.columns, TILE_N)
    sizes = map(np.int32, (p.rows, p.columns, p.depth, ROW_GROUP))
    return [Launch(kernel, grid, THREADS, (*factors, out, *sizes), SHARED)]


def launches(p, a, b, bias, residual, out, **_):
    """What is launched, for device arrays."""
    return launched(gemm(), p, (a, b), out)
