"""Step 3: tiles by TMA. One thread orders a whole tile; an mbarrier counts the bytes that come.

Beside step 2: no addresses in all threads, no fence, no registers for copies. But all still wait
together: the thread that orders a copy first meets the others, who say that the tile was read.

The shapes are those of step 2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba.types import float16, float32, int32, uint64

from course.backend import cuda
from course.kernels.gemm.tiles import DEPTH, ROW_GROUP, tile_coordinates
from course.kernels.gemm.wgmma import (
    SHARED,
    SIDE,
    STAGE,
    STAGES,
    SUMS,
    THREADS,
    TILE_M,
    TILE_N,
    put,
)
from course.kernels.steps import Launch, ceil_div
from warpsim.ptx import (
    TensorMap,
    fence_mbarriers,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
    spread,
    tma_load,
    wgmma_nt,
    wgmma_sums,
    wgmma_wait,
    wgmma_zeros,
)


@functools.cache
def gemm() -> Callable:
    """The kernel of (a, b as tensor maps, out, rows, columns, depth, row_group).

    Mapping: as step 2. Memory: a tile is one order; TMA swizzles it, and makes zeros of what lies
    outside.
    """

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath=True)
    def gemm_tma(a, b, out, rows, columns, depth, row_group):
        tiles = cuda.shared.array(0, float16, alignment=1024)
        full = cuda.shared.array(STAGES, uint64)
        local = cuda.local.array(SUMS, float32)
        t = int32(cuda.threadIdx.x)
        group, warp, lane = int32(t >> 7), int32(t >> 5 & 3), int32(t & 31)
        down, across = int32((int32(rows) + 127) >> 7), int32((int32(columns) + 255) >> 8)
        tile_row, tile_column = tile_coordinates(
            int32(cuda.blockIdx.x), down, across, int32(row_group)
        )
        row, column = int32(tile_row * TILE_M), int32(tile_column * TILE_N)
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        if t == 0:
            for s in range(STAGES):
                mbarrier_init(full, int32(s), int32(1))
            fence_mbarriers()
            for s in range(min(steps, int32(STAGES))):
                at, k = int32(s * STAGE), int32(s * DEPTH)
                mbarrier_expect(full, int32(s), int32(2 * STAGE))
                tma_load(tiles, at, a, (row, k), full, int32(s))
                tma_load(tiles, int32(at + SIDE), b, (column, k), full, int32(s))
        cuda.syncthreads()
        sums = wgmma_zeros(TILE_N)
        stage, parity, last = int32(0), int32(0), int32(STAGES - 1)
        for step in range(steps):
            mbarrier_wait(full, stage, parity)
            at = int32(stage * STAGE)
            sums = wgmma_nt(
                sums, tiles, int32(at + 64 * DEPTH * group), tiles, int32(at + SIDE), step
            )
            wgmma_wait(1)
            cuda.syncthreads()  # both warpgroups' products before have read their stage
            k = int32((step - 1 + STAGES) * DEPTH)
            if t == 0 and step > 0 and k < depth:
                at = int32(last * STAGE)
                mbarrier_expect(full, last, int32(2 * STAGE))
                tma_load(tiles, at, a, (row, k), full, last)
                tma_load(tiles, int32(at + SIDE), b, (column, k), full, last)
            last = stage
            stage = int32(stage + 1)
            if stage == STAGES:
                stage, parity = int32(0), int32(parity ^ 1)
        spread(local, wgmma_sums(sums))
        r = int32(row + 64 * group + 16 * warp + (lane >> 2))
        c = int32(column + 2 * (lane & 3))
        put(out, local, 0, r, c, rows, columns)
        put(out, local, 8, r, c, rows, columns)
        put(out, local, 16, r, c, rows, columns)
        put(out, local, 24, r, c, rows, columns)

    return gemm_tma


def launches(p, a, b, bias, residual, out, **_):
    """What is launched, for device arrays."""
    grid = ceil_div(p.rows, TILE_M) * ceil_div(p.columns, TILE_N)
    sizes = map(np.int32, (p.rows, p.columns, p.depth, ROW_GROUP))
    factors = (TensorMap(a, TILE_M, DEPTH), TensorMap(b, TILE_N, DEPTH))
    return [Launch(gemm(), grid, THREADS, (*factors, out, *sizes), SHARED)]
