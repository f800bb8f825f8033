"""LayerNorm of 16-bit elements: a warp a row of at most 1,024, eight elements an access.

float16 and bfloat16 halve the bytes, so an access of four elements would have 8 bytes, not 16. Sums
stay float32: 768 squares of numbers near 60 overflow float16, and counting in it stops at 2,048.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.heuristics.norm import EIGHT
from course.kernels.arrays import PACK, UNPACK, Array, address_of, as_words
from course.kernels.steps import Launch, Step, ceil_div
from course.kernels.warps import WARP, lanes_sum
from warpsim.ptx import grid_dependency_wait, load4, load4_streaming, store4_streaming

ROWS = 4  # of a block
LONGEST = 1024  # elements of a row in a warp's registers

add_lanes = lanes_sum(WARP)


@functools.cache
def wide(kind: str, columns: int, rows: int = ROWS, factors: bool = True) -> Callable:
    """The kernel of (x, gamma, beta, eps, out), as words of two elements; a warp keeps a row.

    Memory: a lane accesses 16 bytes at a time; all loads of a row are in flight together.
    """
    unpack, pack = UNPACK[kind], PACK[kind]
    ACCESSES = ceil_div(columns, WARP * EIGHT)
    WIDTH, NUMBERS, FULL = columns // 2, ACCESSES * EIGHT, columns // (WARP * EIGHT)
    INVERSE = float32(1 / columns)

    @cuda.jit(fastmath=True)
    def layer_norm_wide(x, gamma, beta, eps, out):
        values = cuda.local.array(NUMBERS, float32)
        grid_dependency_wait()
        t = int32(cuda.threadIdx.x)
        wanted = int32(cuda.blockIdx.x) * int32(rows) + t // int32(WARP)
        row = min(wanted, int32(x.shape[0] - 1))  # surplus warps load the last row again
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


def eights_refusal(x: Array, gamma: Array | None, beta: Array | None, out: Array) -> str:
    """Why the kernel cannot have these arrays on the GPU, in words; "" if it can."""
    there = [array for array in (x, out, gamma, beta) if array is not None]
    if not all(array.dtype == out.dtype and array.dtype.itemsize == 2 for array in there):
        return "is for elements of 16 bits, of one type in all arrays"
    if x.shape[1] % EIGHT or x.shape[1] > LONGEST:
        return f"is for rows of a multiple of {EIGHT} elements, {LONGEST:,} at most"
    if (gamma is None) != (beta is None):
        return "is for gamma and beta together, or neither"
    if any(n % 16 for n in (x.strides[0], out.strides[0], *map(address_of, there))):
        return f"accesses {EIGHT} elements at once, and an array or a row begins between"
    return ""


def _half(p, x, gamma, beta, out, eps, activation):
    kernel = wide(p.dtype, p.columns, ROWS, p.gamma)
    factors = (as_words(x), as_words(x)) if gamma is None else (as_words(gamma), as_words(beta))
    arguments = as_words(x), *factors, np.float32(eps), as_words(out)
    return [Launch(kernel, ceil_div(p.rows, ROWS), ROWS * WARP, arguments)]


#: The step "half" of `course.kernels.norm.ladder.LADDER`.
HALF = Step(_half, lambda problem: problem.eights, (8, 0))
