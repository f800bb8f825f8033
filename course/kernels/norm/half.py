"""LayerNorm of 16-bit elements, as a ladder of its own: tokens a block, elements a thread.

float16 and bfloat16 halve the bytes, so one element an access wastes more of it than before. Sums
stay float32: of 768 numbers near 60 the squares alone overflow float16, and its sums stop at 2,048.

============  =====================================================  ================
step          what is new                                            reads of x
============  =====================================================  ================
"tree"        a block a token, a tree in shared memory               3, 2 bytes each
"pairs"       two elements an access                                 3, 4 bytes
"block"       shuffles in the warps, one barrier between them        3, 4 bytes
"tokens"      a warp a token, several tokens a block, no barrier     3, 4 bytes
"registers"   several elements a thread, loops unrolled, kept        1, 8 bytes
"wide"        eight elements an access                               1, 16 bytes
============  =====================================================  ================

The first four find a token's elements in a cache when they read them again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.heuristics.norm import EIGHT, Variant, tokens_sweep
from course.kernels.arrays import NUMBA_TYPES, Array, as_words
from course.kernels.norm.first_steps import (
    TREE,
    Made,
    layer_norm_tree,
    tree_sum,
)
from course.kernels.norm.registers import in_registers
from course.kernels.steps import Launch, Step, ceil_div
from course.kernels.warps import WARP, lanes_sum
from warpsim.ptx import (
    grid_dependency_wait,
    load2,
    load4,
    load4_streaming,
    pack_bf16,
    pack_f16,
    store2,
    store4_streaming,
    unpack_bf16,
    unpack_f16,
)

TOKENS = 4  # of a block
LONGEST = 1024  # elements of a token in a warp's registers

add_lanes = lanes_sum(WARP)


@functools.cache
def pairs(kind: str, tokens: int = 0) -> Callable:
    """Steps 2 to 4, of (x, gamma, beta, eps, out): two neighbours an access, columns are even.

    Mapping: without `tokens` block i has row i, as a tree; with 1 the same by shuffles; with more,
    warp w of block i has row ``tokens * i + w``.
    """
    word, ROWS = NUMBA_TYPES[kind], max(tokens, 1)
    WARPS, SHARED = TREE // WARP, TREE

    @cuda.jit(device=True)
    def of_block(value, shared):
        t = int32(cuda.threadIdx.x)
        value = add_lanes(value)
        if t % WARP == 0:
            shared[t // WARP] = value
        cuda.syncthreads()
        total = float32(0)
        for warp in range(WARPS):
            total += shared[warp]
        cuda.syncthreads()
        return total

    if tokens > 1:
        lanes = WARP

        @cuda.jit(device=True)
        def summed(value, shared):
            return add_lanes(value)
    else:
        lanes = TREE
        summed = of_block if tokens else tree_sum

    @cuda.jit(fastmath=True)
    def layer_norm_pairs(x, gamma, beta, eps, out):
        shared = cuda.shared.array(SHARED, float32)
        t, columns = int32(cuda.threadIdx.x), int32(x.shape[1])
        row = int32(cuda.blockIdx.x) * int32(ROWS) + t // int32(lanes)
        first = int32(2) * (t % int32(lanes))
        if row < x.shape[0]:
            total = float32(0)
            for column in range(first, columns, 2 * lanes):
                a, b = load2(x, (row, column))
                total += float32(a) + float32(b)
            mean = summed(total, shared) / float32(columns)
            total = float32(0)
            for column in range(first, columns, 2 * lanes):
                a, b = load2(x, (row, column))
                da, db = float32(a) - mean, float32(b) - mean
                total += da * da + db * db
            variance = summed(total, shared) / float32(columns)
            scale = float32(1) / math.sqrt(variance + eps)
            for column in range(first, columns, 2 * lanes):
                a, b = load2(x, (row, column))
                y = (float32(a) - mean) * scale
                z = (float32(b) - mean) * scale
                y = y * float32(gamma[column]) + float32(beta[column])
                z = z * float32(gamma[column + 1]) + float32(beta[column + 1])
                store2(out, (row, column), (word(y), word(z)))

    return layer_norm_pairs


@functools.cache
def wide(kind: str, columns: int, tokens: int = TOKENS, factors: bool = True) -> Callable:
    """Step 6, of (x, gamma, beta, eps, out) as words of two elements: a warp a token, kept.

    Memory: an access has 16 bytes, all accesses to a token are in flight together.
    """
    unpack, pack = (
        (unpack_bf16, pack_bf16) if kind == "bfloat16" else (unpack_f16, pack_f16)
    )  # fmt: skip
    ACCESSES = ceil_div(columns, WARP * EIGHT)
    WIDTH, NUMBERS, FULL = columns // 2, ACCESSES * EIGHT, columns // (WARP * EIGHT)
    INVERSE = float32(1 / columns)

    @cuda.jit(fastmath=True)
    def layer_norm_wide(x, gamma, beta, eps, out):
        values = cuda.local.array(NUMBERS, float32)
        grid_dependency_wait()
        t = int32(cuda.threadIdx.x)
        wanted = int32(cuda.blockIdx.x) * int32(tokens) + t // int32(WARP)
        row = min(wanted, int32(x.shape[0] - 1))  # beyond the last, the last once more
        first = int32(4) * (t % int32(WARP))
        total = float32(0)
        for n in range(ACCESSES):
            column = first + int32(4 * WARP * n)
            clamped = column if n < FULL else min(column, int32(WIDTH - 4))
            four = load4_streaming(x, (row, clamped))
            for e in range(4):
                a, b = unpack(four[e])
                values[EIGHT * n + 2 * e], values[EIGHT * n + 2 * e + 1] = a, b
                total += a + b if n < FULL or column < WIDTH else float32(0)
        mean = add_lanes(total) * INVERSE
        total = float32(0)
        for n in range(ACCESSES):
            column = first + int32(4 * WARP * n)
            for e in range(EIGHT):
                difference = values[EIGHT * n + e] - mean
                inside = n < FULL or column < WIDTH
                total += difference * difference if inside else float32(0)
        scale = float32(1) / math.sqrt(add_lanes(total) * INVERSE + eps)
        for n in range(ACCESSES):
            column = first + int32(4 * WARP * n)
            if wanted < x.shape[0] and (n < FULL or column < WIDTH):
                for e in range(EIGHT):
                    values[EIGHT * n + e] = (values[EIGHT * n + e] - mean) * scale
                if factors:
                    g, b = load4(gamma, column), load4(beta, column)
                    for e in range(4):
                        g0, g1 = unpack(g[e])
                        b0, b1 = unpack(b[e])
                        m = EIGHT * n + 2 * e
                        values[m] = values[m] * g0 + b0
                        values[m + 1] = values[m + 1] * g1 + b1
                m = EIGHT * n
                words = (
                    pack(values[m], values[m + 1]), pack(values[m + 2], values[m + 3]),
                    pack(values[m + 4], values[m + 5]), pack(values[m + 6], values[m + 7]),
                )  # fmt: skip
                store4_streaming(out, (row, column), words)

    return layer_norm_wide


# --- launches -------------------------------------------------------------------------------------


#: The steps by name: rows, columns and variant to kernel, blocks and threads. All take (x, gamma,
#: beta, eps, out), x and out as matrices; those of "wide" as `as_words`.
STEPS: dict[str, Callable[[int, int, Variant], Made]] = {
    "tree": lambda rows, columns, variant: Made(layer_norm_tree, rows, TREE),
    "pairs": lambda rows, columns, variant: Made(pairs(variant.dtype), rows, TREE),
    "block": lambda rows, columns, variant: Made(pairs(variant.dtype, 1), rows, TREE),
    "tokens": lambda rows, columns, variant: Made(
        pairs(variant.dtype, TOKENS), ceil_div(rows, TOKENS), TOKENS * WARP
    ),
    "registers": lambda rows, columns, variant: in_registers(
        tokens_sweep(columns)[TOKENS], rows, columns, variant
    ),
    "wide": lambda rows, columns, variant: Made(
        wide(variant.dtype, columns, TOKENS, variant.gamma), ceil_div(rows, TOKENS), TOKENS * WARP
    ),
}


def eights_refusal(x: Array, gamma: Array | None, beta: Array | None, out: Array) -> str:
    """Why step 6 cannot have these arrays on the GPU, in words; "" if it can."""
    there = [array for array in (x, out, gamma, beta) if array is not None]
    if not all(array.dtype == out.dtype and array.dtype.itemsize == 2 for array in there):
        return "is for elements of 16 bits, of one type in all arrays"
    if x.shape[1] % EIGHT or x.shape[1] > LONGEST:
        return f"is for rows of a multiple of {EIGHT} elements, {LONGEST:,} at most"
    if (gamma is None) != (beta is None):
        return "is for gamma and beta together, or neither"
    if any(array.__cuda_array_interface__["data"][0] % 16 for array in there) or any(
        array.strides[0] % 16 for array in (x, out)
    ):
        return f"accesses {EIGHT} elements at once, and an array or a row begins between"
    return ""


def _half(p, x, gamma, beta, out, eps, activation):
    kernel, blocks, threads, _ = STEPS["wide"](p.rows, p.columns, p.variant)
    factors = (as_words(x), as_words(x)) if gamma is None else (as_words(gamma), as_words(beta))
    arguments = as_words(x), *factors, np.float32(eps), as_words(out)
    return [Launch(kernel, blocks, threads, arguments)]


#: "wide" as a step of `course.kernels.norm.ladder.LADDER`.
HALF = Step(_half, lambda problem: problem.eights, (8, 0))
