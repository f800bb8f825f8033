"""Attention, steps 1 and 2: scores in memory; and a block that keeps all keys of a head.

For each head, ``out = softmax(scale q k^T) v``: a score compares query i with a key, and the
softmax of the scores weighs the values. Source: Vaswani et al., "Attention Is All You Need",
arXiv:1706.03762.

All kernels take q, k, v (batch, tokens, heads, size) and out (batch, tokens, heads * size), of
float16 or bfloat16; sums are float32. The last axis is contiguous, the others may be strided. Step
1 writes the scores, tokens x tokens for each head, to global memory; later steps do not.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from numba import float32, int32

from course.backend import cuda
from course.kernels.gemm.tiles import ELEMENTS

LOG2_E = float32(1 / math.log(2))
LOWEST = float32(-3e38)  # lower than any score of float16 q and k

# --- step 1: scores in memory ---------------------------------------------------------------------

SIDE = 16  # threads of a block, along both axes


@cuda.jit(fastmath=True)
def scores_in_memory(q, k, scale, scores):
    """Step 1: scores (batch * heads * tokens, tokens), float32; a softmax of the rows follows.

    Mapping: thread (x, y) has key x and query y; blockIdx.z counts the heads of all images.
    Memory: a thread reads a row of q and one of k, and writes 4 bytes, which two launches read.
    """
    key, query = cuda.grid(2)
    tokens, heads, size = q.shape[1], q.shape[2], q.shape[3]
    image, head = cuda.blockIdx.z // heads, cuda.blockIdx.z % heads
    if key < tokens and query < tokens:
        total = float32(0)
        for e in range(size):
            total += float32(q[image, query, head, e]) * float32(k[image, key, head, e])
        scores[cuda.blockIdx.z * tokens + query, key] = total * scale


@cuda.jit(fastmath=True)
def values_of_scores(weights, v, out):
    """Step 1, the end: each output is the sum of all values, times their weights.

    Mapping: thread (x, y) has column x of a head and query y, as in `scores_in_memory`.
    """
    e, query = cuda.grid(2)
    tokens, heads, size = v.shape[1], v.shape[2], v.shape[3]
    image, head = cuda.blockIdx.z // heads, cuda.blockIdx.z % heads
    if e < size and query < tokens:
        total = float32(0)
        for key in range(tokens):
            weight = weights[cuda.blockIdx.z * tokens + query, key]
            total += weight * float32(v[image, key, head, e])
        out[image, query, head * size + e] = total


# --- step 2: fused --------------------------------------------------------------------------------

QUERIES = 64  # of a block: one a thread


@functools.cache
def fused(element: str, size: int) -> Callable:
    """Step 2, (q, k, v, scale, out): one launch, no scores in memory.

    Mapping: thread t of block (x, y) has query 64 x + t of head y, counted over all images.
    Memory: the block copies the head's keys and values to shared memory once, 4 * size bytes a
    token. All threads read the same element at the same time: a broadcast. Scores are computed
    twice, first for their maximum, then for the weights: storing them would cost more.
    """
    ELEMENT = ELEMENTS[element]

    @cuda.jit(fastmath=True)
    def attention_fused(q, k, v, scale, out):
        shared = cuda.shared.array(0, ELEMENT)
        mine = cuda.local.array(size, float32)
        total = cuda.local.array(size, float32)
        t, tokens, heads = int32(cuda.threadIdx.x), int32(q.shape[1]), int32(q.shape[2])
        image, head = cuda.blockIdx.y // heads, cuda.blockIdx.y % heads
        values = tokens * int32(size)  # where the values begin in shared memory
        for n in range(t, values, QUERIES):
            token, e = n // int32(size), n % int32(size)
            shared[n] = k[image, token, head, e]
            shared[values + n] = v[image, token, head, e]
        cuda.syncthreads()
        query = cuda.blockIdx.x * QUERIES + t
        if query < tokens:
            for e in range(size):
                mine[e] = float32(q[image, query, head, e]) * (scale * LOG2_E)
                total[e] = float32(0)
            largest = LOWEST
            for key in range(tokens):
                score = float32(0)
                for e in range(size):
                    score += mine[e] * float32(shared[key * size + e])
                largest = max(largest, score)
            weights = float32(0)
            for key in range(tokens):
                score = float32(0)
                for e in range(size):
                    score += mine[e] * float32(shared[key * size + e])
                weight = math.exp2(score - largest)
                weights += weight
                for e in range(size):
                    total[e] += weight * float32(shared[values + key * size + e])
            for e in range(size):
                out[image, query, head * size + e] = total[e] / weights

    return attention_fused
