"""For few rows: the blocks of a cluster share the depth of one tile, and add what they have.

197 rows make two rows of tiles, where a GPU has 132 multiprocessors. So `splits` blocks take a part
of the depth each, leave their sums in shared memory, and read each other's: no memory beside, no
second launch, and always the same order, so the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32, uint64

from course.backend import cuda
from course.kernels.fragments import quotient
from course.kernels.halves.common import DEPTH, ELEMENTS, epilogue2, inwards
from course.kernels.halves.roles import GROUP, PIECE, WGMMA, Shape
from course.kernels.hopper import (
    cluster,
    cluster_barrier,
    cluster_rank,
    fence_mbarriers,
    load4_cluster,
    mbarrier_arrive,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
    named_barrier,
    spread,
    tma_load,
    wgmma_sums,
    wgmma_wait,
    wgmma_zeros,
)
from course.kernels.intrinsics import load4, store2, store4
from course.kernels.tensor_maps import tma_prefetch

AHEAD = 4  # lines of four sums that a thread adds up at a time
MORE = 8  # numbers between rows of sums: so eight rows lie in different banks


def shared_bytes(shape: Shape) -> int:
    """Bytes of a block: its tiles, or later its sums, in the same place."""
    return max(2 * shape.stages * shape.stage, 4 * shape.rows * (shape.columns + MORE))


@functools.cache
def product(
    layout: str, element: str, shape: Shape, splits: int, activation: str = "",
    biased: bool = False, added: bool = False,
) -> Callable:  # fmt: skip
    """The kernel of (a, b as tensor maps, out, bias, residual, rows, columns, depth).

    Mapping: the grid is splits x tiles down x tiles across; block s of a cluster has the steps of
    the depth from s / splits on, and adds up every `splits`-th line of sums of its threads.
    """
    turn_a, turn_b = layout == "tn", layout != "nt"
    multiply, finished = WGMMA[layout], epilogue2(activation, biased)
    ELEMENT = ELEMENTS[element]
    CONSUMERS, WIDE, STAGES, *_ = shape
    ROWS, STAGE, BYTES, THREADS = shape.rows, shape.stage, 2 * shape.stage, shape.threads
    SUMS, PITCH, FOURS = WIDE // 2, WIDE + MORE, WIDE // 4
    TURNS = -(-ROWS * FOURS // (THREADS * splits))

    @cuda.jit(launch_bounds=(shape.threads, 1), fastmath=True)
    def product_split(a, b, out, bias, other, rows, columns, depth):
        cluster(splits)
        tiles = cuda.shared.array(0, ELEMENT, alignment=1024)
        parts = cuda.shared.array(0, float32, alignment=1024)
        full = cuda.shared.array(STAGES, uint64)
        empty = cuda.shared.array(STAGES, uint64)
        t = int32(cuda.threadIdx.x)
        who = int32(t >> 7)
        if t == GROUP * CONSUMERS:
            tma_prefetch(a)
            tma_prefetch(b)
            for s in range(STAGES):
                mbarrier_init(full, int32(s), int32(1))
                mbarrier_init(empty, int32(s), int32(4 * CONSUMERS))
            fence_mbarriers()
        cuda.syncthreads()
        rank = cluster_rank()
        row, column = int32(cuda.blockIdx.y * ROWS), int32(cuda.blockIdx.z * WIDE)
        if not added:
            row, column = inwards(row, ROWS, rows), inwards(column, WIDE, columns)
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        first = quotient(int32(steps * rank), int32(splits))
        end = quotient(int32(steps * (rank + 1)), int32(splits))
        stage, parity = int32(0), int32(0)
        if who == CONSUMERS:
            if t == GROUP * CONSUMERS:
                for step in range(first, end):
                    k = int32(step << 6)
                    mbarrier_wait(empty, stage, int32(parity ^ 1))
                    mbarrier_expect(full, stage, int32(BYTES))
                    at = int32(stage * STAGE)
                    if turn_a:
                        for p in range(CONSUMERS):
                            place = (k, int32(row + 64 * p))
                            tma_load(tiles, int32(at + PIECE * p), a, place, full, stage)
                    else:
                        tma_load(tiles, at, a, (row, k), full, stage)
                    at = int32(at + ROWS * DEPTH)
                    if turn_b:
                        for p in range(WIDE // 64):
                            place = (k, int32(column + 64 * p))
                            tma_load(tiles, int32(at + PIECE * p), b, place, full, stage)
                    else:
                        tma_load(tiles, at, b, (column, k), full, stage)
                    stage = int32(stage + 1)
                    if stage == STAGES:
                        stage, parity = int32(0), int32(parity ^ 1)
        else:
            local = cuda.local.array(SUMS, float32)
            warp, lane = int32(t >> 5 & 3), int32(t & 31)
            sums = wgmma_zeros(WIDE)
            last = int32(-1)
            for step in range(first, end):
                mbarrier_wait(full, stage, parity)
                at = int32(stage * STAGE)
                sums = multiply(
                    sums,
                    tiles,
                    int32(at + PIECE * who),
                    tiles,
                    int32(at + ROWS * DEPTH),
                    int32(step - first),
                )
                wgmma_wait(1)
                if lane == 0 and last >= 0:
                    mbarrier_arrive(empty, last)
                last = stage
                stage = int32(stage + 1)
                if stage == STAGES:
                    stage, parity = int32(0), int32(parity ^ 1)
            sums = wgmma_sums(sums)
            named_barrier(1, GROUP * CONSUMERS)  # all tiles have been read
            spread(local, sums)
            r = int32(64 * who + 16 * warp + (lane >> 2))
            for j in range(WIDE // 8):
                at = int32(r * PITCH + 8 * j + 2 * (lane & 3))
                store2(parts, at, (local[4 * j], local[4 * j + 1]))
                store2(parts, int32(at + 8 * PITCH), (local[4 * j + 2], local[4 * j + 3]))
        cluster_barrier()
        last = int32(columns - 2)
        total = cuda.local.array((AHEAD, 4), float32)
        for turn in range(0, TURNS, AHEAD):
            begin = int32(int32(turn * splits + rank) * THREADS + t)
            for u in range(AHEAD):  # from far away: several loads are under way
                n = min(int32(begin + u * splits * THREADS), int32(ROWS * FOURS - 1))
                r = quotient(n, int32(FOURS))
                at = int32(r * PITCH + ((n - r * FOURS) << 2))
                for e in range(4):
                    total[u, e] = float32(0)
                for s in range(splits):
                    four = load4_cluster(parts, at, int32(s))
                    for e in range(4):
                        total[u, e] += four[e]
            for u in range(AHEAD):
                n = int32(begin + u * splits * THREADS)
                r = quotient(n, int32(FOURS))
                i, j = int32(row + r), int32(column + ((n - r * FOURS) << 2))
                if n < ROWS * FOURS and i < rows and j < columns:
                    x, y = finished(total[u, 0], total[u, 1], bias, j, last)
                    z, w = finished(total[u, 2], total[u, 3], bias, int32(j + 2), last)
                    if added:
                        four = load4(other, (i, j))
                        x, y = x + float32(four[0]), y + float32(four[1])
                        z, w = z + float32(four[2]), w + float32(four[3])
                    store4(out, (i, j), (ELEMENT(x), ELEMENT(y), ELEMENT(z), ELEMENT(w)))
        cluster_barrier()  # no block ends while another reads its sums

    return product_split
