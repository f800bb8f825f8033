"""Step 8: clusters of two. One block is below the other, so both need the same tile of b: each
brings half of it, and the hardware hands it to both (multicast). 1.5 times fewer bytes from L2.

Beside `roles`: a tile may be overwritten when the consumers of **both** blocks have read it, so all
arrive at both blocks' barriers, and the two wait for each other at every step.

The shapes are those of step 2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba.types import float16, float32, int32, uint64

from course.backend import cuda
from course.kernels.fragments import pack_f16, stmatrix4
from course.kernels.halves.common import BAND, DEPTH, tile_of
from course.kernels.halves.roles import GROUP, PIECE, Shape
from course.kernels.hopper import (
    cluster,
    cluster_barrier,
    cluster_rank,
    commit_stores,
    fence_async,
    fence_mbarriers,
    mbarrier_arrive_at,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
    named_barrier,
    setmaxnreg_dec,
    setmaxnreg_inc,
    spread,
    tma_load,
    tma_load_multicast,
    tma_store,
    wait_stores,
    wgmma_nt,
    wgmma_sums,
    wgmma_wait,
    wgmma_zeros,
)
from course.kernels.tensor_maps import TensorMap

SHAPE = Shape(consumers=2, columns=256, stages=3)
HIGH, WIDE, STAGES, SUMS = SHAPE.rows, SHAPE.columns, SHAPE.stages, SHAPE.columns // 2
SIDE, STAGE, HALF = HIGH * DEPTH, SHAPE.stage, WIDE // 2 * DEPTH  # elements
BOTH = 3  # a bit for each block of a cluster


# 64 columns at a time: of a loop that the compiler does not unroll, the sums are in memory
@cuda.jit(device=True, forceinline=True)
def put(tiles, local, piece, line, lane):
    """Put 64 columns of sums into the tile of results."""
    for n in range(4):
        e = int32(32 * piece + 8 * n)
        four = (
            pack_f16(local[e], local[e + 1]),
            pack_f16(local[e + 2], local[e + 3]),
            pack_f16(local[e + 4], local[e + 5]),
            pack_f16(local[e + 6], local[e + 7]),
        )
        chunk = int32(2 * n + (lane >> 4)) ^ int32(lane & 7)
        stmatrix4(tiles, int32(line + PIECE * piece + (chunk << 3)), four)


@functools.cache
def product() -> Callable:
    """The kernel of (a, b, out as tensor maps, rows, columns, depth, band).

    Mapping: cluster i has the pairs of tiles i, i + clusters, ..., and its block of rank r the tile
    that is r-th from above. The rest is as in `roles`.
    """

    @cuda.jit(launch_bounds=(SHAPE.threads, 1), fastmath=True)
    def product_multicast(a, b, out, rows, columns, depth, band):
        cluster(2)
        tiles = cuda.shared.array(0, float16, alignment=1024)
        full = cuda.shared.array(STAGES, uint64)
        empty = cuda.shared.array(STAGES, uint64)
        t = int32(cuda.threadIdx.x)
        group, rank = int32(t >> 7), cluster_rank()
        if t == 0:
            for s in range(STAGES):
                mbarrier_init(full, int32(s), int32(1))
                mbarrier_init(empty, int32(s), int32(2 * 4 * 2))  # a warp each, of both blocks
            fence_mbarriers()
        cluster_barrier()
        down, across = int32((int32(rows) + 255) >> 8), int32((int32(columns) + 255) >> 8)
        first, clusters = int32(cuda.blockIdx.x >> 1), int32(cuda.gridDim.x >> 1)
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        stage, parity = int32(0), int32(0)
        if group == 0:  # the warpgroup that copies, one thread of it
            setmaxnreg_dec(40)
            if t == 0:
                for pair in range(first, int32(down * across), clusters):
                    pair_row, pair_column = tile_of(int32(pair), down, across, int32(band))
                    row = int32((2 * pair_row + rank) * HIGH)
                    column = int32(pair_column * WIDE + rank * (WIDE // 2))
                    for step in range(steps):
                        k, at = int32(step << 6), int32(stage * STAGE)
                        mbarrier_wait(empty, stage, int32(parity ^ 1))
                        mbarrier_expect(full, stage, int32(2 * STAGE))
                        tma_load(tiles, at, a, (row, k), full, stage)
                        at = int32(at + SIDE + rank * HALF)
                        tma_load_multicast(tiles, at, b, (column, k), full, stage, BOTH)
                        stage = int32(stage + 1)
                        if stage == STAGES:
                            stage, parity = int32(0), int32(parity ^ 1)
        else:  # the warpgroups that multiply
            setmaxnreg_inc(232)
            local = cuda.local.array(SUMS, float32)
            who, warp, lane = int32(group - 1), int32(t >> 5 & 3), int32(t & 31)
            leader = t & 127 == 0
            mine = int32(STAGES * STAGE + who * 64 * WIDE)
            line = int32(mine + (16 * warp + (lane & 15)) * 64)
            for pair in range(first, int32(down * across), clusters):
                pair_row, pair_column = tile_of(int32(pair), down, across, int32(band))
                row = int32((2 * pair_row + rank) * HIGH + 64 * who)
                sums = wgmma_zeros(WIDE)
                last = int32(-1)
                for step in range(steps):
                    mbarrier_wait(full, stage, parity)
                    at = int32(stage * STAGE)
                    sums = wgmma_nt(
                        sums, tiles, int32(at + PIECE * who), tiles, int32(at + SIDE), step
                    )
                    wgmma_wait(1)  # the product before has read its tiles
                    if lane < 2 and last >= 0:
                        mbarrier_arrive_at(empty, last, lane)
                    last = stage
                    stage = int32(stage + 1)
                    if stage == STAGES:
                        stage, parity = int32(0), int32(parity ^ 1)
                sums = wgmma_sums(sums)
                if lane < 2:
                    mbarrier_arrive_at(empty, last, lane)
                spread(local, sums)
                if leader:
                    wait_stores(0)  # the results before have left shared memory
                named_barrier(int32(1 + who), GROUP)
                put(tiles, local, 0, line, lane)
                put(tiles, local, 1, line, lane)
                put(tiles, local, 2, line, lane)
                put(tiles, local, 3, line, lane)
                fence_async()
                named_barrier(int32(1 + who), GROUP)
                if leader:
                    for p in range(WIDE // 64):
                        corner = (row, int32(pair_column * WIDE + 64 * p))
                        tma_store(out, corner, tiles, int32(mine + PIECE * p))
                    commit_stores()
            if leader:
                wait_stores(0)
        cluster_barrier()  # no block ends while the other copies to it or arrives at its barriers

    return product_multicast


def launch(a, b, out, blocks: int) -> tuple[Callable, int, int, int, tuple]:
    """Kernel, blocks, threads, bytes of shared memory and arguments, for device arrays."""
    (rows, columns), depth = out.shape, a.shape[1]
    grid = 2 * min(-(-rows // (2 * HIGH)) * -(-columns // WIDE), blocks // 2)
    maps = TensorMap(a, HIGH, DEPTH), TensorMap(b, WIDE // 2, DEPTH), TensorMap(out, 64, 64)
    sizes = map(np.int32, (rows, columns, depth, BAND))
    return product(), grid, SHAPE.threads, SHAPE.shared, (*maps, *sizes)
