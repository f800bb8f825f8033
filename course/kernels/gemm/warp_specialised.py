"""Steps 4 to 7, warp specialisation: a producer warp copies by TMA, consumer warpgroups multiply.

Tiles of both factors are a ring in shared memory, see `course.kernels.gemm.ring`. Blocks are
persistent: the next tile's copies are in flight while results of this one are stored. Results go
through shared memory: rows of 128 bytes by TMA in place of 16 bytes a row.

A residual comes by TMA, too, while the block still multiplies, to where the results will be: a
thread finds what it adds where it will store.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from numba import float32, int32, uint64

from course.backend import cuda
from course.kernels.gemm.epilogue import store_epilogue
from course.kernels.gemm.ring import ring
from course.kernels.gemm.tiles import DEPTH, ELEMENTS, clamp_tile, tile_coordinates
from course.kernels.steps import ceil_div
from warpsim.ptx import (
    commit_stores,
    fence_async,
    fence_mbarriers,
    grid_dependency_wait,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
    named_barrier,
    quotient,
    same_start,
    tma_load,
    tma_prefetch,
    tma_store,
    unpack,
    wait_stores,
    wgmma_nn,
    wgmma_nt,
    wgmma_sums,
    wgmma_tn,
    wgmma_wait,
    wgmma_zeros,
)

WGMMA = {"nt": wgmma_nt, "nn": wgmma_nn, "tn": wgmma_tn}
BOX = 64 * DEPTH  # elements of 64 rows of 128 bytes
GROUP = 128  # threads of a warpgroup


class GemmConfig(NamedTuple):
    """How a block's tile is made.

    Attributes
    ----------
    consumers : int
        Warpgroups that multiply, 64 rows of results each.
    columns : int
        Of the tile: 64 to 256, a multiple of 16; of 64, where neighbours of b lie along them.
    stages : int
        Tiles of both factors, 64 deep, that are in flight.
    waves : int
        Tiles of the results that a block takes, one after the other; 3 for more. Results of an only
        tile lie where the factors' tiles were; of one or two a box is stored when it is there.
    added : bool
        A residual is added. It is prefetched, so no tile of the factors can lie there.
    """

    consumers: int
    columns: int
    stages: int
    waves: int = 3
    added: bool = False

    rows = property(lambda self: 64 * self.consumers)
    threads = property(lambda self: GROUP * self.consumers + 32)
    boxes = property(lambda self: ceil_div(self.columns, 64))
    stage = property(lambda self: (self.rows + self.columns) * DEPTH)  # elements
    ring = property(
        lambda self: ring(
            self.stages, 2 * DEPTH * self.rows, 2 * DEPTH * self.columns, 4 * self.consumers
        )
    )  # a warp each releases a stage
    own_results = property(lambda self: self.waves > 1 or self.added)  # beside the factors' tiles
    results = property(lambda self: self.own_results * self.stages * self.stage)  # begin there
    shared = property(
        lambda self: 2 * max(
            self.stages * self.stage, self.results + self.rows * 64 * self.boxes
        )
    )  # fmt: skip


@functools.cache
def stage_loader(layout: str, config: GemmConfig) -> Callable:
    """Device function: begin to load both factors' tiles, 64 deep from k on, into a stage.

    ``(tiles, full, stage, a, b, row, column, k)``, by one thread that has acquired the stage.
    Neighbours that lie along the results come in boxes of 64.
    """
    transpose_a, transpose_b = layout == "tn", layout != "nt"
    CONSUMERS, TILE_N, STAGE, TILE_M = config.consumers, config.columns, config.stage, config.rows

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
            for p in range(TILE_N // 64):
                place = (k, int32(column + 64 * p))
                tma_load(tiles, int32(at + BOX * p), b, place, full, stage)
        else:
            tma_load(tiles, at, b, (column, k), full, stage)

    return load_stage


@functools.cache
def gemm(
    layout: str, element: str, config: GemmConfig, activation: str = "", biased: bool = False
) -> Callable:
    """The kernel of (a, b, out, residual as tensor maps, bias, rows, columns, depth, row_group).

    Without a residual its place takes anything.

    Mapping: block i has the tiles i, i + blocks, ...; an only tile is that of the block's place in
    the grid, rows along x: no division before the first copy. Warpgroup w has the rows 64 w to
    64 w + 63 of a tile.
    Memory: a tile is read once for all of its results; TMA makes zeros of what lies outside.
    """
    CONSUMERS, TILE_N, STAGES, waves, added = config
    load_stage = stage_loader(layout, config)
    multiply, ELEMENT = WGMMA[layout], ELEMENTS[element]
    store_sums = store_epilogue(element, activation, biased, added, TILE_N, BOX)
    one_tile, store_by_box = waves == 1, waves < 3
    TILE_M, STAGE = config.rows, config.stage
    init, producer_acquire, consumer_wait, consumer_release, advance = config.ring
    RESULTS, BOXES, SUMS = config.results, config.boxes, TILE_N // 2
    PARTS, PREFETCH_AT = (
        (2, 0 if one_tile else 2) if added else (1, 0)
    )  # between, a residual is asked for
    OWN, LAST = BOXES * BOX, TILE_N // 16 - 4  # where the last box begins, in 16 columns

    @cuda.jit(device=True)
    def ready(who, leader):
        """A warpgroup's results are where TMA sees them; whether this thread shall store them."""
        fence_async()
        named_barrier(int32(1 + who), GROUP)
        return leader

    # a tensor map goes to no function that is called
    @cuda.jit(device=True, inline="always")
    def store_box(out, tiles, local, box, line, mine, row, column, t, columns, bias):
        store_sums(tiles, local, box, line, column, t, columns, bias)
        if store_by_box and ready(int32(t >> 7), t & 127 == 0):
            corner = row, int32(column + 16 * min(4 * box, LAST))
            tma_store(out, corner, tiles, int32(mine + box * BOX))
            commit_stores()

    @cuda.jit(launch_bounds=(config.threads, 1), fastmath=True)
    def gemm_warp_specialised(a, b, out, other, bias, rows, columns, depth, row_group):
        tiles = cuda.shared.array(0, ELEMENT, alignment=1024)
        full = cuda.shared.array(STAGES, uint64)
        empty = cuda.shared.array(STAGES, uint64)
        residual_full = cuda.shared.array(CONSUMERS, uint64)  # a warpgroup's part of the residual
        t = int32(cuda.threadIdx.x)
        who = int32(t >> 7)
        if t == GROUP * CONSUMERS:
            tma_prefetch(a)
            tma_prefetch(b)
            tma_prefetch(out)
            init(full, empty)
            for group in range(CONSUMERS):
                mbarrier_init(residual_full, int32(group), int32(1))
            fence_mbarriers()
        cuda.syncthreads()
        grid_dependency_wait()
        down = quotient(int32(int32(rows) + int32(TILE_M - 1)), int32(TILE_M))
        across = quotient(int32(int32(columns) + int32(TILE_N - 1)), int32(TILE_N))
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        tile = int32(0 if one_tile else cuda.blockIdx.x)
        tiles_in_all = int32(1 if one_tile else down * across)
        stage, phase = int32(0), int32(0)
        overlap = int32(1)  # tiles may share what both store
        if added:
            overlap = int32(1 - same_start(out, other))  # else it were added twice
        if who == CONSUMERS:  # the producer warp, one thread of it
            if t == GROUP * CONSUMERS:
                while tile < tiles_in_all:
                    if one_tile:
                        tile_row, tile_column = int32(cuda.blockIdx.x), int32(cuda.blockIdx.y)
                    else:
                        tile_row, tile_column = tile_coordinates(
                            tile, down, across, int32(row_group)
                        )
                    row, column = int32(tile_row * TILE_M), int32(tile_column * TILE_N)
                    if overlap:
                        row, column = (
                            clamp_tile(row, TILE_M, rows),
                            clamp_tile(column, TILE_N, columns),
                        )
                    for step in range(steps):
                        k = int32(step << 6)
                        producer_acquire(full, empty, stage, phase)
                        load_stage(tiles, full, stage, a, b, row, column, k)
                        stage, phase = advance(stage, phase)
                    tile = int32(tile + cuda.gridDim.x)
        else:  # the consumer warpgroups
            local = cuda.local.array(SUMS, float32)
            warp, lane = int32(t >> 5 & 3), int32(t & 31)
            leader = t & 127 == 0
            mine = int32(RESULTS + who * OWN)
            line = int32(mine + (16 * warp + (lane & 15)) * 64)
            split_at, residual_phase = int32(min(PREFETCH_AT, steps)), int32(0)
            while tile < tiles_in_all:
                if one_tile:
                    tile_row, tile_column = int32(cuda.blockIdx.x), int32(cuda.blockIdx.y)
                else:
                    tile_row, tile_column = tile_coordinates(tile, down, across, int32(row_group))
                row, column = int32(tile_row * TILE_M), int32(tile_column * TILE_N)
                if overlap:
                    row, column = clamp_tile(row, TILE_M, rows), clamp_tile(column, TILE_N, columns)
                row = int32(row + 64 * who)
                sums = wgmma_zeros(TILE_N)
                last = int32(-1)
                for part in range(PARTS):  # a branch in the loop would cost each step
                    begin, end = int32(0), steps
                    if added:
                        if part == 0:
                            end = split_at
                        else:
                            begin = split_at
                            if leader:
                                wait_stores(0)  # the results before have left shared memory
                                mbarrier_expect(residual_full, who, int32(2 * OWN))
                                for p in range(BOXES):
                                    corner = row, int32(column + 16 * min(4 * p, LAST))
                                    to = int32(mine + BOX * p)
                                    tma_load(tiles, to, other, corner, residual_full, who)
                    for step in range(begin, end):
                        consumer_wait(full, stage, phase)
                        at = int32(stage * STAGE)
                        at_a, at_b = int32(at + BOX * who), int32(at + TILE_M * DEPTH)
                        sums = multiply(sums, tiles, at_a, tiles, at_b, step)
                        wgmma_wait(1)  # the product before has read its tiles
                        if lane == 0 and last >= 0:
                            consumer_release(empty, last)
                        last = stage
                        stage, phase = advance(stage, phase)
                sums = wgmma_sums(sums)
                if lane == 0:
                    consumer_release(empty, last)
                unpack(local, sums)
                if added:
                    mbarrier_wait(residual_full, who, residual_phase)
                    residual_phase = int32(residual_phase ^ 1)
                elif one_tile:
                    named_barrier(15, GROUP * CONSUMERS)  # all have read the factors' tiles
                else:
                    if leader:
                        wait_stores(0)  # the results before have left shared memory
                    named_barrier(int32(1 + who), GROUP)
                store_box(out, tiles, local, 0, line, mine, row, column, t, columns, bias)
                if BOXES > 1:
                    store_box(out, tiles, local, 1, line, mine, row, column, t, columns, bias)
                if BOXES > 2:
                    store_box(out, tiles, local, 2, line, mine, row, column, t, columns, bias)
                if BOXES > 3:
                    store_box(out, tiles, local, 3, line, mine, row, column, t, columns, bias)
                if not store_by_box and ready(who, leader):
                    for p in range(BOXES):
                        corner = (row, int32(column + 16 * min(4 * p, LAST)))
                        tma_store(out, corner, tiles, int32(mine + BOX * p))
                    commit_stores()
                tile = int32(tile + cuda.gridDim.x)
            if leader:
                wait_stores(0)

    return gemm_warp_specialised
