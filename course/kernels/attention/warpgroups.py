"""Attention, step 4: wgmma on 64 queries a warpgroup, keys and values by TMA, persistent blocks.

A wgmma leaves the scores of 64 queries and up to 256 keys in registers. Up to 256 tokens, these are
all scores of a query: the softmax takes one pass, and no sum is rescaled. With more tokens, a step
takes `keys` keys, and the softmax is online. The weights stay in registers, as the A operand of the
second wgmma (`warpsim.ptx.wgmma_rn`).

Thread 0 also starts the copies, a step ahead, and waits until the other warpgroups have released a
stage. So its own one trails in each step, and the others use other units of the SM. An item's
results are staged in shared memory where its queries were. They have been stored before the item's
last stage is released.

With many tokens, two warpgroups ping-pong. The barriers `ready` give the tensor cores to one, for
its values and its next scores, while the other computes weights. A third warpgroup is the producer,
so that neither waits for the other to release a stage. It hands most of its registers to them.
Source: Shah et al., "FlashAttention-3", arXiv:2407.08608.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from numba import float32, int32, uint32, uint64

from course.backend import cuda
from course.heuristics.attention import BOX, WIDE, Config
from course.kernels.arrays import PACK
from course.kernels.attention.first_steps import LOWEST
from course.kernels.attention.online import row_softmax
from course.kernels.gemm.tiles import ELEMENTS
from course.kernels.warps import ALL, sum_of_four
from warpsim import ptx


@functools.cache
def warpgroups(element: str, config: Config) -> Callable:
    """The kernel of (q, k, v as tensor maps, out, tokens, heads, parts, items, factor).

    An item is one of a head's `parts`: 64 * groups queries. factor is the scale times log2(e).
    Mapping: block i has items i, i + blocks, ...; warp w of a warpgroup has rows 16 w to 16 w + 15,
    four lanes a row.
    Memory: q, k and v of an item are read once, by boxes with rows of 128 bytes. A head of 80 takes
    two boxes; only 16 columns of the second one are its own, and only these are multiplied. With
    `held` tokens a box has just these rows, so it reads none of the next image; the rest of a stage
    is zeroed once. With more tokens, the last step begins earlier for the same reason, and keys
    that the step before has done are masked.
    """
    GROUPS, KEYS, STAGES, HELD, _, SIZE, PINGPONG = config
    BOXES, TILE, DEEP = config.boxes, config.tile, min(SIZE, WIDE)
    LAST = max(SIZE - WIDE, 0)  # columns of the head in the second box
    ELEMENT, pack = ELEMENTS[element], PACK[element]
    THREADS, STAGE, AHEAD, BUFFERS = config.threads, config.stage, config.ahead, config.buffers
    STAGE_BITS = STAGES.bit_length() - 1
    QUERIES, ITEM = STAGES * STAGE, GROUPS * TILE  # where queries begin; an item's queries
    KEY_BYTES, QUERY_BYTES = 2 * config.box * BOXES * WIDE, 2 * ITEM
    COLUMNS, SCORES, WORDS = config.columns, config.columns // 2, KEYS // 4
    SUMS, BESIDE, VALUES = SIZE // 2, KEYS * WIDE, KEYS * BOXES * WIDE
    ZERO = float32(0)
    mask, largest_score, weigh = row_softmax(element, COLUMNS)

    @cuda.jit(device=True, inline="always")
    def begin(tiles, full, filled, empty, q, k, v, begun, steps, tokens, heads, parts, mine, grid):
        """Start the copies of a block's step `begun`, as soon as its stage is free."""
        n = begun if HELD else ptx.quotient(begun, steps)
        item, next_step = int32(mine + n * grid), int32(begun - n * steps)
        head = ptx.quotient(item, int32(parts))
        image = ptx.quotient(head, int32(heads))
        row, column = int32(image * tokens), int32((head - image * heads) * SIZE)
        stage = int32(begun & (STAGES - 1))
        ptx.mbarrier_wait(empty, stage, int32((begun >> STAGE_BITS & 1) ^ 1))
        bytes_due = int32(KEY_BYTES)
        if next_step == 0:
            bytes_due = int32(KEY_BYTES + QUERY_BYTES)
        ptx.mbarrier_expect(full, stage, bytes_due)
        ptx.mbarrier_expect(filled, stage, int32(KEY_BYTES))
        if next_step == 0:
            top = int32(row + (item - head * parts) * (64 * GROUPS))
            to = int32(QUERIES + (n & (BUFFERS - 1)) * ITEM)
            for g in range(GROUPS * BOXES):
                corner = int32(top + 64 * (g // BOXES)), int32(column + WIDE * (g % BOXES))
                ptx.tma_load(tiles, int32(to + BOX * g), q, corner, full, stage)
        if not HELD:
            row += int32(min(int32(next_step * KEYS), int32(tokens - KEYS)))
        for b in range(BOXES):
            corner = (row, int32(column + WIDE * b))
            to = int32(stage * STAGE + BESIDE * b)
            ptx.tma_load(tiles, to, k, corner, full, stage)
            ptx.tma_load(tiles, int32(to + VALUES), v, corner, filled, stage)

    @cuda.jit(launch_bounds=(config.threads, config.blocks), fastmath=True)
    def attention_warpgroups(q, k, v, out, tokens, heads, parts, items, factor):
        tiles = cuda.shared.array(0, ELEMENT, alignment=1024)
        full = cuda.shared.array(STAGES, uint64)  # barriers: queries and keys have arrived
        filled = cuda.shared.array(STAGES, uint64)  # values have arrived
        empty = cuda.shared.array(STAGES, uint64)
        ready = cuda.shared.array(2, uint64)  # a warpgroup may use the tensor cores
        scores = cuda.local.array(SCORES, float32)
        words = cuda.local.array(WORDS, uint32)
        fresh = cuda.local.array(SUMS, float32)
        total = cuda.local.array(SUMS, float32)
        t = int32(cuda.threadIdx.x)
        group, warp, lane = int32(t >> 7), int32(t >> 5 & 3), int32(t & 31)
        if t == 0:
            ptx.tma_prefetch(q)
            ptx.tma_prefetch(k)
            ptx.tma_prefetch(v)
            for s in range(STAGES):
                ptx.mbarrier_init(full, int32(s), int32(1))
                ptx.mbarrier_init(filled, int32(s), int32(1))
                ptx.mbarrier_init(empty, int32(s), int32(4 * GROUPS))  # one arrival a warp
            if PINGPONG:
                ptx.mbarrier_init(ready, int32(0), int32(4))
                ptx.mbarrier_init(ready, int32(1), int32(4))
            ptx.fence_mbarriers()
        if HELD:
            for s in range(2 * STAGES * BOXES):
                for n in range(t, (KEYS - HELD) * WIDE, THREADS):
                    tiles[int32((s * KEYS + HELD) * WIDE + n)] = ELEMENT(ZERO)
            ptx.fence_async()
        steps = int32(1) if HELD else ptx.quotient(int32(tokens + (KEYS - 1)), int32(KEYS))
        mine, grid = int32(cuda.blockIdx.x), int32(cuda.gridDim.x)
        count = ptx.quotient(int32(items - mine + grid - 1), grid)  # items of this block
        all_steps, begun = int32(0), int32(0)  # the block's steps that are done; that are copied
        cuda.syncthreads()
        ptx.grid_dependency_wait()
        if PINGPONG and group == GROUPS:
            ptx.setmaxnreg_dec(24)
            while t == 128 * GROUPS and begun < count * steps:
                begin(tiles, full, filled, empty, q, k, v, begun, steps, tokens, heads, parts, mine,
                      grid)  # fmt: skip
                begun = int32(begun + 1)
            return
        if PINGPONG:
            ptx.setmaxnreg_inc(240)
        phase = int32(group ^ 1)  # warpgroup 0 passes its first wait at once
        for number in range(count):
            queries = int32(QUERIES + (number & (BUFFERS - 1)) * ITEM + TILE * group)
            largest0, largest1, weights0, weights1 = LOWEST, LOWEST, ZERO, ZERO
            for e in range(SUMS):
                total[e] = ZERO
            for step in range(steps):
                if not PINGPONG:
                    while t == 0 and begun <= all_steps + AHEAD and begun < count * steps:
                        begin(tiles, full, filled, empty, q, k, v, begun, steps, tokens, heads,
                              parts, mine, grid)  # fmt: skip
                        begun = int32(begun + 1)
                stage = int32(all_steps & (STAGES - 1))
                parity = int32(all_steps >> STAGE_BITS & 1)
                cuda.syncwarp()
                ptx.mbarrier_wait(full, stage, parity)
                if PINGPONG and step == 0:
                    ptx.mbarrier_wait(ready, group, phase)
                    phase = int32(phase ^ 1)
                sums = ptx.wgmma_zeros(COLUMNS)
                at = int32(stage * STAGE)
                sums = ptx.wgmma_nt_deep(sums, tiles, queries, tiles, at, DEEP, int32(0))
                if LAST:
                    of_q, at = int32(queries + BOX), int32(at + BESIDE)
                    sums = ptx.wgmma_nt_deep(sums, tiles, of_q, tiles, at, LAST, int32(1))
                if PINGPONG and lane == 0:
                    ptx.mbarrier_arrive(ready, int32(group ^ 1))
                sums = ptx.wgmma_sums(sums)
                ptx.unpack(scores, sums)
                if HELD:
                    mask(scores, HELD, int32(0), int32(HELD), lane)
                elif step > 0 and step == steps - 1:
                    seen = int32(step * KEYS - (tokens - KEYS))
                    mask(scores, 0, seen, int32(KEYS), lane)
                before0, before1 = largest0, largest1
                largest0 = largest_score(scores, 0, largest0)
                new0 = weigh(scores, words, 0, factor, largest0 * factor)
                largest1 = largest_score(scores, 1, largest1)
                new1 = weigh(scores, words, 1, factor, largest1 * factor)
                for n in range(COLUMNS // 4, WORDS):
                    words[n] = uint32(0)
                ptx.mbarrier_wait(filled, stage, parity)
                if PINGPONG:
                    ptx.mbarrier_wait(ready, group, phase)
                    phase = int32(phase ^ 1)
                sums2 = ptx.wgmma_zeros(SIZE)
                sums2 = ptx.wgmma_rn(
                    sums2, words, tiles, int32(stage * STAGE + VALUES), KEYS, int32(0)
                )
                if PINGPONG and step == steps - 1 and lane == 0:
                    ptx.mbarrier_arrive(ready, int32(group ^ 1))
                old0 = math.exp2((before0 - largest0) * factor)
                old1 = math.exp2((before1 - largest1) * factor)
                weights0, weights1 = weights0 * old0 + new0, weights1 * old1 + new1
                sums2 = ptx.wgmma_sums(sums2)
                ptx.unpack(fresh, sums2)
                if HELD:
                    for n in range(SUMS):
                        total[n] = fresh[n]
                else:
                    for j in range(SUMS // 4):
                        for e in range(2):
                            n = 4 * j + e
                            total[n] = total[n] * old0 + fresh[n]
                            total[n + 2] = total[n + 2] * old1 + fresh[n + 2]
                if step == steps - 1:
                    scale0 = float32(1) / sum_of_four(weights0)
                    scale1 = float32(1) / sum_of_four(weights1)
                    ptx.named_barrier(int32(1 + group), int32(128))  # the queries have been read
                    # a shuffle hides the lane from the compiler, which would else compute the
                    # addresses below before the loop, and hold them in registers throughout
                    its = cuda.shfl_sync(ALL, lane, lane)
                    line = int32(queries + (16 * warp + (its & 15)) * WIDE)
                    for j in range(SIZE // 16):
                        n = 8 * j
                        four = (
                            pack(total[n] * scale0, total[n + 1] * scale0),
                            pack(total[n + 2] * scale1, total[n + 3] * scale1),
                            pack(total[n + 4] * scale0, total[n + 5] * scale0),
                            pack(total[n + 6] * scale1, total[n + 7] * scale1),
                        )
                        chunk = int32(2 * (j & 3) + (its >> 4)) ^ int32(its & 7)
                        ptx.stmatrix4(tiles, int32(line + (j >> 2) * BOX + (chunk << 3)), four)
                    cuda.syncwarp()
                    item = int32(mine + number * grid)
                    head = ptx.quotient(item, int32(parts))
                    image = ptx.quotient(head, int32(heads))
                    column = int32((head - image * heads) * SIZE + 4 * (its & 15))
                    top = int32((item - head * parts) * (64 * GROUPS) + 64 * group + 16 * warp)
                    for go in range(8):
                        r = int32(2 * go + (its >> 4))
                        chunk = int32((its & 15) >> 1) ^ int32(r & 7)
                        if top + r < tokens:
                            at = int32(queries + (16 * warp + r) * WIDE)
                            at = int32(at + (chunk << 3) + 4 * (its & 1))
                            if 4 * (its & 15) < SIZE:
                                ptx.store4(
                                    out, (image, int32(top + r), column), ptx.load4(tiles, at)
                                )
                            if 4 * (its & 15) < LAST:
                                there = image, int32(top + r), int32(column + WIDE)
                                ptx.store4(out, there, ptx.load4(tiles, int32(at + BOX)))
                    ptx.fence_async()  # TMA writes the next queries over these results
                    cuda.syncwarp()
                if lane == 0:
                    ptx.mbarrier_arrive(empty, stage)
                all_steps = int32(all_steps + 1)

    return attention_warpgroups
