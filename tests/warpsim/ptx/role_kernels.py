"""A warp-specialised product; tests break it line by line."""

import numpy as np
from numba import float32, int32, uint64

from warpsim import cuda
from warpsim.ptx import (
    commit_stores,
    fence_async,
    fence_mbarriers,
    mbarrier_arrive,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
    named_barrier,
    pack_f16,
    stmatrix4,
    tma_load,
    tma_store,
    unpack,
    wait_stores,
    wgmma_nt,
    wgmma_sums,
    wgmma_wait,
    wgmma_zeros,
)

TILE = 64 * 64  # elements
STAGES = 2
SHARED = 2 * (2 * STAGES + 1) * TILE  # bytes


@cuda.jit
def product(a, b, out, steps, tiles):
    """A tile of 64 x 64 of a b^T at a time: warp 0 copies, warps 4 to 7 multiply."""
    held = cuda.shared.array(0, np.float16, alignment=1024)
    full = cuda.shared.array(STAGES, uint64)
    empty = cuda.shared.array(STAGES, uint64)
    t = int32(cuda.threadIdx.x)
    if t == 0:
        for s in range(STAGES):
            mbarrier_init(full, s, 1)
            mbarrier_init(empty, s, 4)
        fence_mbarriers()
    cuda.syncthreads()
    stage, parity = int32(0), int32(0)
    if t < 128:
        if t == 0:
            for tile in range(tiles):
                for step in range(steps):
                    mbarrier_wait(empty, stage, parity ^ 1)
                    mbarrier_expect(full, stage, 4 * TILE)
                    at = int32(2 * stage * TILE)
                    tma_load(held, at, a, (0, 64 * step), full, stage)
                    tma_load(held, at + TILE, b, (64 * tile, 64 * step), full, stage)
                    stage = int32(stage + 1)
                    if stage == STAGES:
                        stage, parity = int32(0), int32(parity ^ 1)
    else:
        local = cuda.local.array(32, float32)
        warp, lane = t // 32 % 4, t % 32
        mine = int32(2 * STAGES * TILE)
        for tile in range(tiles):
            sums = wgmma_zeros(64)
            last = int32(-1)
            for step in range(steps):
                mbarrier_wait(full, stage, parity)
                at = int32(2 * stage * TILE)
                sums = wgmma_nt(sums, held, at, held, at + TILE, step)
                wgmma_wait(1)
                if lane == 0 and last >= 0:
                    mbarrier_arrive(empty, last)
                last = stage
                stage = int32(stage + 1)
                if stage == STAGES:
                    stage, parity = int32(0), int32(parity ^ 1)
            sums = wgmma_sums(sums)
            if lane == 0:
                mbarrier_arrive(empty, last)
            unpack(local, sums)
            if t == 128:
                wait_stores(0)
            named_barrier(1, 128)
            for j in range(4):
                chunk = (2 * j + lane // 16) ^ (lane & 7)
                place = int32(mine + (16 * warp + lane % 16) * 64 + 8 * chunk)
                e = 8 * j
                four = (
                    pack_f16(local[e], local[e + 1]), pack_f16(local[e + 2], local[e + 3]),
                    pack_f16(local[e + 4], local[e + 5]), pack_f16(local[e + 6], local[e + 7]),
                )  # fmt: skip
                stmatrix4(held, place, four)
            fence_async()
            named_barrier(1, 128)
            if t == 128:
                tma_store(out, (0, 64 * tile), held, mine)
                commit_stores()
        if t == 128:
            wait_stores(0)
