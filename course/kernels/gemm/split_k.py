"""Split-K in a cluster, for few tiles: its blocks split one tile's depth and add their sums.

197 x 768 results are 48 tiles of 64 x 64, but an H200 has 132 multiprocessors. So two or four
blocks take a part of the depth each. Each warp's 16 rows are finished in one of the blocks. There
the warp adds the sums of its counterparts, which lie in the other blocks' shared memory, to its
own. This needs no workspace and no second launch. The order of additions is fixed, so results have
the same bits each time, also where tiles overlap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32, uint64

from course.backend import cuda
from course.heuristics.gemm import DEPTH, GROUP, PAIR, GemmConfig
from course.kernels.gemm import epilogue
from course.kernels.gemm.epilogue import NO_NORM, Norm
from course.kernels.gemm.tiles import ELEMENTS, clamp_tile
from course.kernels.gemm.warp_specialised import BOX, WGMMA, ring_of, stage_loader
from warpsim.ptx import (
    cluster,
    cluster_barrier,
    cluster_rank,
    commit_stores,
    fence_async,
    fence_mbarriers,
    grid_dependency_wait,
    load4_cluster,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
    named_barrier,
    quotient,
    same_start,
    store4,
    tma_load,
    tma_prefetch,
    tma_store,
    unpack,
    wait_stores,
    wgmma_sums,
    wgmma_wait,
    wgmma_zeros,
)

WARP = 16  # rows of a warp's results


@functools.cache
def gemm(
    layout: str, element: str, config: GemmConfig, splits: int, activation: str = "",
    biased: bool = False, norm: Norm = NO_NORM,
) -> Callable:  # fmt: skip
    """The kernel of (a, b, out, residual as tensor maps, bias, rows' sums, rows, columns, depth).

    Boxes of the result and the residual are 16 x 64. Without a residual any array may be passed in
    its place, and without a norm any in that of the sums.

    Mapping: the grid is splits x tiles down x tiles across. Block s of a cluster multiplies part s
    of the depth, and finishes the rows of part s of the warps.
    """
    CONSUMERS, TILE_N, STAGES, _, added, *_ = config
    multiply, ELEMENT = WGMMA[layout], ELEMENTS[element]
    store_sums = epilogue.store_epilogue(element, activation, biased, added, TILE_N, BOX // 4, norm)
    fetch_bias, keep_bias = epilogue.bias_of(TILE_N, biased, norm)
    read_sums, deviations, write_sums = epilogue.row_sums(norm)
    NORMED, COUNTS, KEPT = norm.parts > 0, norm.counts, norm.kept
    TILE_M, STAGE, THREADS = config.rows, config.stage, config.threads
    load_stage = stage_loader(layout, config)
    UP_A = 7 if layout == "tn" else 0  # TMA's boxes begin at multiples of 8 elements along a row
    init, producer_acquire, consumer_wait, consumer_release, advance = ring_of(config)
    SUMS, BOXES, (RESULTS, behind, _) = TILE_N // 2, config.boxes, config.split(splits)
    BIAS = behind // 4
    OWN_WARPS = 4 * CONSUMERS // splits  # warps whose results a block finishes
    OWN, LAST = BOXES * WARP * 64, TILE_N // 16 - 4

    @cuda.jit(device=True, forceinline=True)
    def add(local, parts, box, at, rank):
        """Add the other blocks' sums of 64 columns, in pairs: any block gets the same bits."""
        for n in range(8):
            j = 8 * box + n
            if j < SUMS // 4:
                four = load4_cluster(parts, int32(at + 128 * j), int32(rank ^ 1))
                for e in range(4):
                    local[4 * j + e] += four[e]
                if splits == 4:
                    x = load4_cluster(parts, int32(at + 128 * j), int32(rank ^ 2))
                    y = load4_cluster(parts, int32(at + 128 * j), int32(rank ^ 3))
                    for e in range(4):
                        local[4 * j + e] += x[e] + y[e]

    @cuda.jit(device=True, inline="always")
    def store_box(out, tiles, local, parts, box, at, rank, to, place, t, columns, own_sums):
        row, column, seen = place
        lane = int32(t & 31)
        line = int32(to + (lane & 15) * 64)
        add(local, parts, box, at, rank)
        bias = int32(BIAS + PAIR * TILE_N * (t >> 7))
        store_sums(tiles, local, box, line, column, t, columns, parts, bias, own_sums, seen)
        fence_async()  # make the warp's results visible to TMA
        cuda.syncwarp()
        if lane == 0:
            corner = row, int32(column + 16 * min(4 * box, LAST))
            tma_store(out, corner, tiles, int32(to + box * WARP * 64))

    @cuda.jit(launch_bounds=(THREADS, 1), fastmath=True)
    def gemm_split(a, b, out, other, bias, totals, rows, columns, depth):
        cluster(splits)
        tiles = cuda.shared.array(0, ELEMENT, alignment=1024)
        parts = cuda.shared.array(0, float32, alignment=1024)
        full = cuda.shared.array(STAGES, uint64)
        empty = cuda.shared.array(STAGES, uint64)
        residual_full = cuda.shared.array(1, uint64)  # completes when the residual has arrived
        t = int32(cuda.threadIdx.x)
        who = int32(t >> 7)
        if t == GROUP * CONSUMERS:
            tma_prefetch(a)
            tma_prefetch(b)
            tma_prefetch(out)
            init(full, empty)
            mbarrier_init(residual_full, 0, int32(1))
            fence_mbarriers()
        cuda.syncthreads()
        grid_dependency_wait()
        rank = cluster_rank()
        row, column = int32(cuda.blockIdx.y * TILE_M), int32(cuda.blockIdx.z * TILE_N)
        overlap = int32(1)  # tiles at the edges may overlap, and both store the same results
        if added:
            overlap = int32(1 - same_start(out, other))  # in place a residual would be added twice
        if overlap:
            high = int32((int32(rows) + int32(UP_A)) & int32(~UP_A))
            row, column = clamp_tile(row, TILE_M, high), clamp_tile(column, TILE_N, columns)
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        first = quotient(int32(steps * rank), int32(splits))
        end = quotient(int32(steps * (rank + 1)), int32(splits))
        stage, phase = int32(0), int32(0)
        local = cuda.local.array(SUMS, float32)
        own_sums = cuda.local.array(KEPT, float32)
        warp, lane = int32(t >> 5), int32(t & 31)
        owned = int32(warp - rank * OWN_WARPS)  # its index among the warps that end in this block
        here = owned >= 0 and owned < OWN_WARPS and who < CONSUMERS
        if who == CONSUMERS:
            if t == GROUP * CONSUMERS:
                for step in range(first, end):
                    k = int32(step << 6)
                    producer_acquire(full, empty, stage, phase)
                    load_stage(tiles, full, stage, a, b, row, column, k)
                    stage, phase = advance(stage, phase)
                if added:
                    mbarrier_expect(residual_full, 0, int32(2 * OWN * OWN_WARPS))
                    for w in range(OWN_WARPS):
                        high = int32(row + WARP * (rank * OWN_WARPS + w))
                        for p in range(BOXES):
                            corner = high, int32(column + 16 * min(4 * p, LAST))
                            to = int32(RESULTS + OWN * w + WARP * 64 * p)
                            tma_load(tiles, to, other, corner, residual_full, 0)
        else:
            sums = wgmma_zeros(TILE_N)
            last = int32(-1)
            for step in range(first, end):
                consumer_wait(full, stage, phase)
                at = int32(stage * STAGE)
                at_a, at_b = int32(at + BOX * who), int32(at + TILE_M * DEPTH)
                sums = multiply(sums, tiles, at_a, tiles, at_b, int32(step - first))
                wgmma_wait(1)
                if lane == 0 and last >= 0:
                    consumer_release(empty, last)
                last = stage
                stage, phase = advance(stage, phase)
            four = fetch_bias(bias, column, columns, t)  # overlaps the last wgmma
            if NORMED:
                read_sums(totals, own_sums, int32(row + WARP * warp), int32(rows), lane)
            sums = wgmma_sums(sums)
            keep_bias(parts, int32(BIAS + PAIR * TILE_N * who), t, four)
            named_barrier(1, GROUP * CONSUMERS)  # all stages have been read: sums overwrite them
            unpack(local, sums)
            at = int32((warp * (SUMS // 4) * 32 + lane) << 2)
            if not here:
                for j in range(SUMS // 4):
                    four = local[4 * j], local[4 * j + 1], local[4 * j + 2], local[4 * j + 3]
                    store4(parts, int32(at + 128 * j), four)
        cluster_barrier()
        if here:
            at = int32((warp * (SUMS // 4) * 32 + lane) << 2)
            if added:
                mbarrier_wait(residual_full, 0, 0)
            if NORMED:
                deviations(own_sums, int32(depth), lane)
            if COUNTS:
                for e in range(4):
                    own_sums[e] = float32(0)
            to, row = int32(RESULTS + owned * OWN), int32(row + WARP * warp)
            place = row, column, int32(cuda.blockIdx.z * TILE_N - column)
            store_box(out, tiles, local, parts, 0, at, rank, to, place, t, columns, own_sums)
            if BOXES > 1:
                store_box(out, tiles, local, parts, 1, at, rank, to, place, t, columns, own_sums)
            if BOXES > 2:
                store_box(out, tiles, local, parts, 2, at, rank, to, place, t, columns, own_sums)
            if BOXES > 3:
                store_box(out, tiles, local, parts, 3, at, rank, to, place, t, columns, own_sums)
            tile_column, top = int32(cuda.blockIdx.z), int32(cuda.blockIdx.y * TILE_M)
            write_sums(totals, own_sums, row, tile_column, top, int32(rows), lane)
            if lane == 0:
                commit_stores()
                wait_stores(0)
        cluster_barrier()  # no block ends while another reads its sums

    return gemm_split
