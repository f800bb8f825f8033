"""Step 3: tiles by TMA. One thread issues a whole tile's copy; an mbarrier counts arriving bytes.

Unlike step 2, threads compute no addresses, need no fence, and spend no registers on copies. But
all still wait together: before each copy the block synchronises, so that the stage has been read.

It takes the same problems as step 2.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba.types import float16, float32, int32, uint64

from course.backend import cuda
from course.heuristics.gemm import DEPTH
from course.kernels.gemm import wgmma
from course.kernels.gemm.ring import ring
from course.kernels.gemm.tiles import tile_coordinates
from course.kernels.gemm.wgmma import SIDE, STAGE, STAGES, SUMS, THREADS, TILE_M, TILE_N, store_tile
from warpsim.ptx import (
    TensorMap,
    fence_mbarriers,
    tma_load,
    unpack,
    wgmma_nt,
    wgmma_sums,
    wgmma_wait,
    wgmma_zeros,
)


@functools.cache
def gemm() -> Callable:
    """The kernel of (a, b as tensor maps, out, rows, columns, depth, row_group).

    Mapping: as step 2. Memory: a tile is one instruction; TMA swizzles it, and fills with zeros
    what lies outside the matrix.
    """

    init, acquire, consumer_wait, _, advance = ring(STAGES, 2 * SIDE, 2 * (STAGE - SIDE))

    @cuda.jit(device=True, inline="always")
    def load(tiles, full, a, b, row, column, stage, k):
        """Begin to load the tiles of both operands, from k on."""
        at = int32(stage * STAGE)
        acquire(full, full, stage, int32(0))
        tma_load(tiles, at, a, (row, k), full, stage)
        tma_load(tiles, int32(at + SIDE), b, (column, k), full, stage)

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
            init(full, full)
            fence_mbarriers()
            for s in range(min(steps, int32(STAGES))):
                load(tiles, full, a, b, row, column, int32(s), int32(s * DEPTH))
        cuda.syncthreads()
        sums = wgmma_zeros(TILE_N)
        stage, phase, last = int32(0), int32(0), int32(STAGES - 1)
        for step in range(steps):
            consumer_wait(full, stage, phase)
            at = int32(stage * STAGE)
            sums = wgmma_nt(
                sums, tiles, int32(at + 64 * DEPTH * group), tiles, int32(at + SIDE), step
            )
            wgmma_wait(1)
            cuda.syncthreads()  # the previous products of both warpgroups have read their stage
            k = int32((step - 1 + STAGES) * DEPTH)
            if t == 0 and step > 0 and k < depth:
                load(tiles, full, a, b, row, column, last, k)
            last = stage
            stage, phase = advance(stage, phase)
        unpack(local, wgmma_sums(sums))
        store_tile(out, local, row, column, group, warp, lane, rows, columns)

    return gemm_tma


def launches(p, a, b, bias, residual, out, **_):
    """What is launched, for device arrays."""
    factors = TensorMap(a, TILE_M, DEPTH), TensorMap(b, TILE_N, DEPTH)
    return wgmma.launched(gemm(), p, factors, out)
