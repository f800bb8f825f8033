"""Steps 4 to 7, warp specialisation: a producer warp copies by TMA, consumer warpgroups multiply.

Tiles of both operands pass through a ring of stages, see `course.kernels.gemm.ring`. Blocks are
persistent: the next tile's copies are in flight while this tile's results are stored. Results go
through shared memory: TMA then stores rows of 128 bytes, where a warp would store 16 of each.

TMA loads a residual, too, while the block still multiplies, to the addresses of the results. So a
thread reads what it adds from where it will store.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32, uint64

from course.backend import cuda
from course.heuristics.gemm import DEPTH, GROUP, PAIR, GemmConfig
from course.kernels.gemm import epilogue
from course.kernels.gemm.epilogue import NO_NORM, Norm, store_rows
from course.kernels.gemm.ring import Ring, ring
from course.kernels.gemm.tiles import ELEMENTS, clamp_tile, tile_coordinates
from warpsim.ptx import (
    cluster,
    cluster_barrier,
    commit_stores,
    fence_async,
    fence_mbarriers,
    grid_dependency_wait,
    mbarrier_arrive_at,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
    named_barrier,
    quotient,
    same_start,
    store,
    store2,
    tma_load,
    tma_load_multicast,
    tma_prefetch,
    tma_store,
    unpack,
    wait_stores,
    wgmma_nn,
    wgmma_nt,
    wgmma_sums,
    wgmma_tn,
    wgmma_tt,
    wgmma_wait,
    wgmma_zeros,
)

WGMMA = {"nt": wgmma_nt, "nn": wgmma_nn, "tn": wgmma_tn, "tt": wgmma_tt}
BOX = 64 * DEPTH  # elements of 64 rows of 128 bytes
BOTH = 3  # the multicast mask of a pair's blocks, a bit each


def ring_of(config: GemmConfig) -> Ring:
    """The ring of a tile's stages; each consumer warp releases them, in a pair of both blocks."""
    arrivals = 4 * config.consumers * (1 + config.paired)
    return ring(config.stages, 2 * DEPTH * config.rows, 2 * DEPTH * config.loaded, arrivals)


@functools.cache
def stage_loader(layout: str, config: GemmConfig) -> Callable:
    """Device function: begin to load both operands' tiles, 64 deep from k on, into a stage.

    ``(tiles, full, stage, a, b, row, column, k)``, by one thread that has acquired the stage. An
    operand that is contiguous along the results, not the depth, is loaded in boxes of 64.
    """
    transpose_a, transpose_b = layout[0] == "t", layout[1] == "n"
    CONSUMERS, BOXES, STAGE, TILE_M = config.consumers, config.boxes, config.stage, config.rows
    paired, HALF = config.paired, config.columns // 2

    @cuda.jit(device=True, inline="always")
    def load_stage(tiles, full, stage, a, b, row, column, k):
        at = int32(stage * STAGE)
        if transpose_a:
            for p in range(CONSUMERS):
                place = (k, int32(row + 64 * p))
                tma_load(tiles, int32(at + BOX * p), a, place, full, stage)
        else:
            tma_load(tiles, at, a, (row, k), full, stage)
        at = int32(at + TILE_M * DEPTH)
        if transpose_b:
            for p in range(BOXES):
                place = (k, int32(column + 64 * p))
                if not paired:
                    tma_load(tiles, int32(at + BOX * p), b, place, full, stage)
                elif p & 1 == cuda.blockIdx.x & 1:
                    tma_load_multicast(tiles, int32(at + BOX * p), b, place, full, stage, BOTH)
        elif paired:
            half = int32(HALF * (cuda.blockIdx.x & 1))
            place = int32(column + half), k
            tma_load_multicast(tiles, int32(at + half * DEPTH), b, place, full, stage, BOTH)
        else:
            tma_load(tiles, at, b, (column, k), full, stage)

    return load_stage


@functools.cache
def partial_store(wide: int, swapped: bool) -> Callable:
    """Device function: store 64 of a tile's `wide` columns of accumulators, as partial sums.

    ``(sums, local, box, part, row, column, t, rows, columns)``; `swapped`: they are transposed.
    """

    @cuda.jit(device=True, forceinline=True)
    def store_partial(sums, local, box, part, row, column, t, rows, columns):
        high = int32(row + 16 * (t >> 5 & 3) + (t >> 2 & 7))
        for n in range(8):
            j = int32(8 * box + n)
            c = int32(column + 8 * j + 2 * (t & 3))
            if swapped:
                for e in range(4 if j < wide // 8 else 0):
                    r, d = int32(high + 8 * (e // 2)), int32(c + e % 2)
                    if r < rows and d < columns:
                        store(sums, (part, d, r), local[4 * j + e])
            elif j < wide // 8 and c < columns:
                if high < rows:
                    store2(sums, (part, high, c), (local[4 * j], local[4 * j + 1]))
                if high + 8 < rows:
                    low = int32(high + 8)
                    store2(sums, (part, low, c), (local[4 * j + 2], local[4 * j + 3]))

    return store_partial


@cuda.jit(device=True)
def store_nothing(sums, local, box, part, row, column, t, rows, columns):
    """Stand in for `partial_store` and `store_rows` where TMA stores the results."""


@functools.cache
def gemm(
    layout: str, element: str, config: GemmConfig, activation: str = "", biased: bool = False,
    norm: Norm = NO_NORM,
) -> Callable:  # fmt: skip
    """The kernel of (a, b, out, residual as tensor maps, bias, rows' sums, and sizes).

    The sizes are rows, columns, depth, splits, row_group. Without a residual any array may be
    passed in its place, without a norm any for the sums. Where threads store the results, `out`
    views them as words of 4 bytes, and the residual's place as elements.
    Partial sums go to `out`, float32 of (splits, rows, columns), an even number of columns.

    Mapping: block i (or pair i) computes tiles i, i + blocks, ... With one tile a block, the grid
    gives its coordinates, rows along x: no division delays the first copy. Warpgroup w computes
    rows 64 w to 64 w + 63 of a tile.
    Memory: a tile is read once for all of its results; TMA fills with zeros what lies outside.
    """
    CONSUMERS, TILE_N, STAGES, waves, added, partial, swapped, by_threads, paired, _ = config
    load_stage = stage_loader(layout, config)
    multiply, ELEMENT = WGMMA[layout], ELEMENTS[element]
    store_sums = epilogue.store_epilogue(element, activation, biased, added, TILE_N, BOX, norm)
    fetch_bias, keep_bias = epilogue.bias_of(TILE_N, biased, norm)
    fetch_two, store_columns = epilogue.store_columns(element, activation, biased, TILE_N)
    read_sums, deviations, write_sums = epilogue.row_sums(norm)
    NORMED, COUNTS, KEPT, BIAS = norm.parts > 0, norm.counts, norm.kept, config.tiled // 4
    store_partial = partial_store(TILE_N, swapped) if partial else store_nothing
    store_by_threads = store_rows(TILE_N, BOX) if by_threads else store_nothing
    one_tile, store_by_box = waves == 1, waves < 3
    TILE_M, STAGE = config.rows, config.stage
    # TMA's boxes begin at multiples of 8 elements along a row; partial sums are stored in pairs
    UP_A, UP_B = (7 if layout[0] == "t" else 0), (7 if layout[1] == "n" or partial else 0)
    init, producer_acquire, consumer_wait, consumer_release, advance = ring_of(config)
    RESULTS, BOXES, SUMS = config.results, config.boxes, TILE_N // 2
    # parts of the main loop; between them the residual's load is issued
    PARTS, PREFETCH_AT = (2, 0 if one_tile else 2) if added else (1, 0)
    OWN, LAST = BOXES * BOX, TILE_N // 16 - 4  # LAST: the last box's first column, in units of 16

    @cuda.jit(device=True)
    def ready(who, leader):
        """Make a warpgroup's results visible to TMA; return whether this thread stores them."""
        fence_async()
        named_barrier(int32(1 + who), GROUP)
        return leader

    @cuda.jit(device=True, forceinline=True)
    def release(empty, index, lane):
        if paired:
            if lane < 2:  # in both blocks: either's producer loads into both
                mbarrier_arrive_at(empty, index, lane)
        elif lane == 0:
            consumer_release(empty, index)

    @cuda.jit(device=True, forceinline=True)
    def corner_of(row, column, box):
        c = int32(column + 16 * min(4 * box, LAST))
        return (c, int32(row)) if swapped else (int32(row), c)

    # inlined, since a tensor map cannot be passed to a function that is called
    @cuda.jit(device=True, inline="always")
    def store_box(out, tiles, local, box, mine, place, t, columns, bias, own_sums):
        row, column, seen = place
        high = int32(16 * (t >> 5 & 3))  # the warp's first row
        if swapped:
            store_columns(tiles, local, box, int32(mine + box * BOX), t, own_sums)
        else:
            line = int32(mine + (high + (t & 15)) * 64)
            at = int32(BIAS + PAIR * TILE_N * (t >> 7))
            store_sums(tiles, local, box, line, column, t, columns, bias, at, own_sums, seen)
        if not by_threads and store_by_box and ready(int32(t >> 7), t & 127 == 0):
            tma_store(out, corner_of(row, column, box), tiles, int32(mine + box * BOX))
            commit_stores()

    @cuda.jit(device=True, forceinline=True)
    def place_of(tile, down, across, row_group):
        """Row and column of a tile, and its part of the depth."""
        if one_tile:
            return int32(cuda.blockIdx.x), int32(cuda.blockIdx.y), int32(cuda.blockIdx.z)
        part = int32(0)
        if partial:
            part = quotient(tile, int32(down * across))
            tile = int32(tile - part * down * across)
        tile_row, tile_column = tile_coordinates(tile, down, across, row_group)
        if paired:
            tile_row = int32(2 * tile_row + (cuda.blockIdx.x & 1))
        return tile_row, tile_column, part

    @cuda.jit(launch_bounds=(config.threads, 1), fastmath=True)
    def gemm_warp_specialised(
        a, b, out, other, bias, totals, rows, columns, depth, splits, row_group
    ):
        if paired:
            cluster(2)
        tiles = cuda.shared.array(0, ELEMENT, alignment=1024)
        kept = cuda.shared.array(0, float32, alignment=1024)
        full = cuda.shared.array(STAGES, uint64)
        empty = cuda.shared.array(STAGES, uint64)
        residual_full = cuda.shared.array(CONSUMERS, uint64)  # one for each warpgroup's part
        t = int32(cuda.threadIdx.x)
        who = int32(t >> 7)
        if t == GROUP * CONSUMERS:
            tma_prefetch(a)
            tma_prefetch(b)
            if not partial and not by_threads:
                tma_prefetch(out)
            init(full, empty)
            for group in range(CONSUMERS):
                mbarrier_init(residual_full, int32(group), int32(1))
            fence_mbarriers()
        if paired:
            cluster_barrier()
        else:
            cuda.syncthreads()
        grid_dependency_wait()
        down = quotient(int32(int32(rows) + int32(TILE_M - 1)), int32(TILE_M))
        across = quotient(int32(int32(columns) + int32(TILE_N - 1)), int32(TILE_N))
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        high = int32((int32(rows) + int32(UP_A)) & int32(~UP_A))
        wide = int32((int32(columns) + int32(UP_B)) & int32(~UP_B))
        if paired:
            down = int32((down + 1) >> 1)
        tile, stride = int32(0 if one_tile else cuda.blockIdx.x), int32(cuda.gridDim.x)
        if paired:
            tile, stride = int32(tile >> 1), int32(stride >> 1)
        tiles_in_all = int32(1 if one_tile else down * across)
        if partial and not one_tile:
            tiles_in_all = int32(tiles_in_all * splits)
        stage, phase = int32(0), int32(0)
        overlap = int32(1)  # tiles at the edges may overlap, and both store the same results
        if added:
            overlap = int32(1 - same_start(out, other))  # in place a residual would be added twice
        if who == CONSUMERS:  # the producer warp, one thread of it
            if t == GROUP * CONSUMERS:
                while tile < tiles_in_all:
                    tile_row, tile_column, part = place_of(tile, down, across, int32(row_group))
                    begin, end = int32(0), steps
                    if partial:
                        begin = quotient(int32(steps * part), int32(splits))
                        end = quotient(int32(steps * (part + 1)), int32(splits))
                    row, column = int32(tile_row * TILE_M), int32(tile_column * TILE_N)
                    if overlap:
                        row = clamp_tile(row, TILE_M, high)
                        column = clamp_tile(column, TILE_N, wide)
                    for step in range(begin, end):
                        k = int32(step << 6)
                        producer_acquire(full, empty, stage, phase)
                        load_stage(tiles, full, stage, a, b, row, column, k)
                        stage, phase = advance(stage, phase)
                    tile = int32(tile + stride)
        else:  # the consumer warpgroups
            local = cuda.local.array(SUMS, float32)
            own_sums = cuda.local.array(KEPT, float32)
            lane, high_row = int32(t & 31), int32(16 * (t >> 5 & 3))  # the warp's first row
            leader = t & 127 == 0
            mine = int32(RESULTS + who * OWN)
            split_at, residual_phase = int32(min(PREFETCH_AT, steps)), int32(0)
            while tile < tiles_in_all:
                tile_row, tile_column, tile_part = place_of(tile, down, across, int32(row_group))
                origin = int32(0)
                if partial:
                    origin = quotient(int32(steps * tile_part), int32(splits))
                row, column = int32(tile_row * TILE_M), int32(tile_column * TILE_N)
                if overlap:
                    row, column = clamp_tile(row, TILE_M, high), clamp_tile(column, TILE_N, wide)
                row = int32(row + 64 * who)
                sums = wgmma_zeros(TILE_N)
                last = int32(-1)
                for part in range(PARTS):  # two loops: a branch in one would cost each step
                    begin, end = origin, steps
                    if partial:
                        end = quotient(int32(steps * (tile_part + 1)), int32(splits))
                    if added:
                        if part == 0:
                            end = split_at
                        else:
                            begin = split_at
                            if leader:
                                wait_stores(0)  # TMA has read the previous tile's results
                                mbarrier_expect(residual_full, who, int32(2 * OWN))
                                for p in range(BOXES):
                                    corner = row, int32(column + 16 * min(4 * p, LAST))
                                    to = int32(mine + BOX * p)
                                    tma_load(tiles, to, other, corner, residual_full, who)
                    for step in range(begin, end):
                        consumer_wait(full, stage, phase)
                        at = int32(stage * STAGE)
                        at_a, at_b = int32(at + BOX * who), int32(at + TILE_M * DEPTH)
                        sums = multiply(sums, tiles, at_a, tiles, at_b, int32(step - origin))
                        wgmma_wait(1)  # the previous product has read its stage
                        if last >= 0:
                            release(empty, last, lane)
                        last = stage
                        stage, phase = advance(stage, phase)
                if swapped:
                    four = fetch_two(bias, row, rows, t)
                else:
                    four = fetch_bias(bias, column, columns, t)  # overlaps the last wgmma
                if NORMED:
                    read_sums(totals, own_sums, int32(row + high_row), int32(rows), lane)
                sums = wgmma_sums(sums)
                release(empty, last, lane)
                unpack(local, sums)
                if partial:
                    store_partial(out, local, 0, tile_part, row, column, t, rows, columns)
                    if BOXES > 1:
                        store_partial(out, local, 1, tile_part, row, column, t, rows, columns)
                    if BOXES > 2:
                        store_partial(out, local, 2, tile_part, row, column, t, rows, columns)
                    if BOXES > 3:
                        store_partial(out, local, 3, tile_part, row, column, t, rows, columns)
                else:
                    if by_threads:
                        named_barrier(int32(1 + who), GROUP)  # the previous results have been read
                    if swapped:
                        own_sums[0], own_sums[1] = four[0], four[1]
                    else:
                        keep_bias(kept, int32(BIAS + PAIR * TILE_N * who), t, four)
                    if NORMED:
                        deviations(own_sums, int32(depth), lane)
                    if COUNTS:
                        for e in range(4):
                            own_sums[e] = float32(0)
                    if one_tile and not added:
                        named_barrier(15, GROUP * CONSUMERS)  # all have read the operands' stages
                    else:
                        if added:
                            mbarrier_wait(residual_full, who, residual_phase)
                            residual_phase = int32(residual_phase ^ 1)
                        elif leader and not by_threads:
                            wait_stores(0)  # TMA has read the previous tile's results
                        named_barrier(int32(1 + who), GROUP)
                    seen = int32(tile_column * TILE_N - column)
                    place, own = (row, column, seen), t
                    if by_threads:  # hide t, or its addresses stay in registers from tile to tile
                        own = int32(cuda.shfl_sync(0xFFFFFFFF, t, t & 31))
                    store_box(out, tiles, local, 0, mine, place, own, columns, kept, own_sums)
                    if BOXES > 1:
                        store_box(out, tiles, local, 1, mine, place, own, columns, kept, own_sums)
                    if BOXES > 2:
                        store_box(out, tiles, local, 2, mine, place, own, columns, kept, own_sums)
                    if BOXES > 3:
                        store_box(out, tiles, local, 3, mine, place, own, columns, kept, own_sums)
                    if by_threads:
                        cuda.syncwarp()
                        store_by_threads(out, other, mine, row, column, own, rows, columns)
                    elif not store_by_box and ready(who, leader):
                        for p in range(BOXES):
                            corner = corner_of(row, column, p)
                            tma_store(out, corner, tiles, int32(mine + BOX * p))
                        commit_stores()
                    first = int32(tile_row * TILE_M)
                    write_sums(totals, own_sums, int32(row + high_row), tile_column, first,
                               int32(rows), lane)  # fmt: skip
                tile = int32(tile + stride)
            if not (partial or by_threads) and leader:
                wait_stores(0)
        if paired:
            cluster_barrier()  # no block ends while the other copies to it

    return gemm_warp_specialised
