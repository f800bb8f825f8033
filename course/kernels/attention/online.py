"""Attention, step 3: mma on 64 keys at a time, with an online softmax.

Where a row's largest score grows, its sums so far are scaled by ``exp(old largest - new largest)``.
So no scores are stored, and there may be any number of tokens.
Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv:1805.02867; Dao et
al., "FlashAttention", arXiv:2205.14135.

The accumulators of q k^T have the register layout of the A operand of the next mma, weights times
v. So the weights never leave their lane.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from numba import float32, int32, uint32

from course.backend import cuda
from course.kernels.arrays import PACK
from course.kernels.attention.first_steps import LOWEST
from course.kernels.gemm.tiles import ELEMENTS
from course.kernels.steps import round_up
from course.kernels.warps import largest_of_four, sum_of_four
from warpsim import ptx

WARPS, ROWS = 4, 16  # warps of a block; queries of a warp
KEYS = 64  # keys of a step
THREADS = 32 * WARPS


def row_softmax(element: str, columns: int) -> tuple[Callable, Callable, Callable]:
    """Device functions for a warp's scores, 16 rows of `columns`: mask, largest_score, weigh.

    In lane l, ``scores[4 * j + e]`` is in row l // 4 + 8 (e // 2), column 8 j + 2 (l % 4) + e % 2.
    So a lane has two rows: `half` 0 is the upper one, 1 the lower one.
    """
    pack = PACK[element]

    @cuda.jit(device=True, forceinline=True)
    def mask(scores, first, low, high, lane):
        """Mask the keys before `low`, and from `high` on, among the columns from `first` on."""
        for j in range(first // 8, columns // 8):
            for e in range(4):
                key = int32(8 * j + 2 * (lane & 3) + (e & 1))
                if key < low or key >= high:
                    scores[4 * j + e] = LOWEST

    @cuda.jit(device=True, forceinline=True)
    def largest_score(scores, half, largest):
        """The largest of a row's scores and `largest`; two chains of max halve the latency."""
        other = largest
        for j in range(columns // 8):
            largest = max(largest, scores[4 * j + 2 * half])
            other = max(other, scores[4 * j + 2 * half + 1])
        return largest_of_four(max(largest, other))

    @cuda.jit(device=True, forceinline=True)
    def weigh(scores, packed, half, factor, shift):
        """Pack a row's weights, two in a register; return this lane's sum of them, unrounded."""
        total, other = float32(0), float32(0)
        for j in range(columns // 8):
            n = 4 * j + 2 * half
            x = math.exp2(scores[n] * factor - shift)
            y = math.exp2(scores[n + 1] * factor - shift)
            total += x
            other += y
            packed[2 * j + half] = pack(x, y)
        return total + other

    return mask, largest_score, weigh


def pitch(size: int) -> int:
    """Row pitch in shared memory, in elements; the swizzle permutes 8 chunks of 8 elements."""
    return size if size <= 64 else round_up(size, 64)


@functools.cache
def online(element: str, size: int) -> Callable:
    """Step 3, (q, k, v, heads, parts, factor, out); factor is the scale times log2(e).

    Mapping: block i has part i % parts of the queries of head i // parts: 64 queries, 16 a warp.
    Memory: copies of 16 bytes. While a step is computed, the next step's keys and values arrive.
    Swizzle: chunk c of row r lies at c ^ (r % 8), in rows of 64 bytes at c ^ (r // 2 % 4). So
    ldmatrix, which reads eight rows at a time, has no bank conflicts.
    """
    ELEMENT = ELEMENTS[element]
    mma = ptx.mma_bf16 if element == "bfloat16" else ptx.mma_f16
    CHUNKS, DEEP, ACROSS, SUMS = size // 8, size // 16, size // 16, size // 2
    PITCH = pitch(size)
    QUERIES, STEP, SCORES = WARPS * ROWS * PITCH, KEYS * PITCH, KEYS // 2  # elements
    PACKED = KEYS // 4
    mask, largest_score, weigh = row_softmax(element, KEYS)
    half_rows = size < 64

    @cuda.jit(device=True)
    def swizzled(row, chunk):
        other = (row >> 1) & 3 if half_rows else row & 7
        return int32(row * PITCH + ((chunk ^ other) << 3))

    @cuda.jit(device=True)
    def fetch(source, tiles, start, first, rows, image, head):
        """Start the copies of a head's rows; rows beyond the last token become zeros."""
        for n in range(int32(cuda.threadIdx.x), int32(rows * CHUNKS), THREADS):
            row, chunk = int32(n // CHUNKS), int32(n % CHUNKS)
            inside = first + row < source.shape[1]
            token = int32(first + row) if inside else int32(0)
            there = image, token, head, int32(8 * chunk)
            at = int32(start + swizzled(row, chunk))
            ptx.copy8_async(tiles, at, source, there, 8 if inside else 0)

    # 16 keys a call: in a loop that is not unrolled, scores would be in local memory
    @cuda.jit(device=True, forceinline=True)
    def multiply(scores, queries, tiles, start, lane, j):
        """Compute the scores of 16 queries and the j-th 16 keys of a step."""
        for n in range(8):
            scores[8 * j + n] = float32(0)
        row = int32(16 * j + (lane & 7) + ((lane >> 4) << 3))
        for kk in range(DEEP):
            chunk = int32(2 * kk + (lane >> 3 & 1))
            x = ptx.ldmatrix4(tiles, int32(start + swizzled(row, chunk)))
            a4 = (queries[kk, 0], queries[kk, 1], queries[kk, 2], queries[kk, 3])
            for h in range(2):
                n = 8 * j + 4 * h
                c4 = (scores[n], scores[n + 1], scores[n + 2], scores[n + 3])
                c4 = mma(c4, a4, (x[2], x[3]) if h else (x[0], x[1]))
                for e in range(4):
                    scores[n + e] = c4[e]

    @cuda.jit(device=True)
    def add_values(total, packed, tiles, start, lane):
        """Add the step's values, times their weights."""
        for j in range(KEYS // 16):
            a4 = packed[4 * j], packed[4 * j + 1], packed[4 * j + 2], packed[4 * j + 3]
            row = int32(16 * j + (lane & 15))
            for i in range(ACROSS):
                chunk = int32(2 * i + (lane >> 4))
                x = ptx.ldmatrix4_trans(tiles, int32(start + swizzled(row, chunk)))
                for h in range(2):
                    n = 8 * i + 4 * h
                    c4 = (total[n], total[n + 1], total[n + 2], total[n + 3])
                    c4 = mma(c4, a4, (x[2], x[3]) if h else (x[0], x[1]))
                    for e in range(4):
                        total[n + e] = c4[e]

    @cuda.jit(launch_bounds=(THREADS, 2), fastmath=True)
    def attention_online(q, k, v, heads, parts, factor, out):
        tiles = cuda.shared.array(0, ELEMENT, alignment=128)
        queries = cuda.local.array((DEEP, 4), uint32)
        scores = cuda.local.array(SCORES, float32)
        packed = cuda.local.array(PACKED, uint32)
        total = cuda.local.array(SUMS, float32)
        t, tokens = int32(cuda.threadIdx.x), int32(q.shape[1])
        warp, lane = int32(t >> 5), int32(t & 31)
        of_all = ptx.quotient(int32(cuda.blockIdx.x), int32(parts))
        image = ptx.quotient(of_all, int32(heads))
        head = int32(of_all - image * heads)
        first = int32((int32(cuda.blockIdx.x) - of_all * parts) * (WARPS * ROWS))
        fetch(q, tiles, int32(0), first, WARPS * ROWS, image, head)
        fetch(k, tiles, int32(QUERIES), int32(0), KEYS, image, head)
        fetch(v, tiles, int32(QUERIES + STEP), int32(0), KEYS, image, head)
        ptx.commit_copies()
        ptx.wait_copies(0)
        cuda.syncthreads()
        for kk in range(DEEP):
            row, chunk = int32(ROWS * warp + (lane & 15)), int32(2 * kk + (lane >> 4))
            x = ptx.ldmatrix4(tiles, swizzled(row, chunk))
            for e in range(4):
                queries[kk, e] = x[e]
        for n in range(SUMS):
            total[n] = float32(0)
        largest0, largest1 = LOWEST, LOWEST
        weights0, weights1 = float32(0), float32(0)
        start, other = int32(QUERIES), int32(QUERIES + 2 * STEP)
        for key in range(0, tokens, KEYS):
            if key + KEYS < tokens:
                fetch(k, tiles, other, int32(key + KEYS), KEYS, image, head)
                fetch(v, tiles, int32(other + STEP), int32(key + KEYS), KEYS, image, head)
            ptx.commit_copies()
            multiply(scores, queries, tiles, start, lane, 0)
            multiply(scores, queries, tiles, start, lane, 1)
            multiply(scores, queries, tiles, start, lane, 2)
            multiply(scores, queries, tiles, start, lane, 3)
            if key + KEYS > tokens:
                mask(scores, 0, int32(0), int32(tokens - key), lane)
            before0, before1 = largest0, largest1
            largest0 = largest_score(scores, 0, largest0)
            largest1 = largest_score(scores, 1, largest1)
            old0 = math.exp2((before0 - largest0) * factor)
            old1 = math.exp2((before1 - largest1) * factor)
            weights0 = weights0 * old0 + weigh(scores, packed, 0, factor, largest0 * factor)
            weights1 = weights1 * old1 + weigh(scores, packed, 1, factor, largest1 * factor)
            for n in range(SUMS // 4):
                for e in range(2):
                    total[4 * n + e] *= old0
                    total[4 * n + 2 + e] *= old1
            add_values(total, packed, tiles, int32(start + STEP), lane)
            ptx.wait_copies(0)
            cuda.syncthreads()
            start, other = other, start
        scale0, scale1 = float32(1) / sum_of_four(weights0), float32(1) / sum_of_four(weights1)
        for half in range(2):
            row = int32(first + ROWS * warp + 8 * half + (lane >> 2))
            scale = scale1 if half else scale0
            if row < tokens:
                for n in range(SUMS // 4):
                    column = int32(head * size + 8 * n + 2 * (lane & 3))
                    x, y = total[4 * n + 2 * half], total[4 * n + 2 * half + 1]
                    ptx.store2(out, (image, row, column), (ELEMENT(x * scale), ELEMENT(y * scale)))

    return attention_online
