"""Small float32 products on tensor cores: each shape has its kernel, each block computes one tile.

The last steps of `course.kernels.gemm.float32`, made of `course.kernels.gemm.small_tile`. Sizes are
constants of the kernel, so its loops unroll: all or most of a warp's loads are in flight at once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from numba import float32, int32

from course.backend import cuda
from course.heuristics.small_gemm import Cut, cut_of
from course.kernels.arrays import VECTOR
from course.kernels.gemm.small_tile import small_gemm_tile
from course.kernels.steps import ceil_div
from warpsim.ptx import store4

SMALL = 2048 * 2048  # results; with more, "vectorised" is as fast, and not compiled for each shape


def tensor_refusal(p: Any) -> str:
    """Why tensor cores cannot take a product; "" if they can."""
    sizes = p.rows, p.columns, p.depth
    if any(size % VECTOR or not size for size in sizes):
        found = f"{p.rows}, {p.columns} and {p.depth}"
        return f"needs rows, columns and depth to be multiples of four, and they are {found}"
    if not p.wide:
        return "needs memory that begins at multiples of 16 bytes, and one array begins elsewhere"
    most = max(x * y for x, y in itertools.combinations(sizes, 2))
    return f"needs fewer than 2**31 numbers, and an array has {most:,}" if most >= 2**31 else ""


@functools.cache
def product_of(
    layout: str, rows: int, columns: int, depth: int, precision: str, cut: Cut | None = None
) -> tuple[Callable, int, int]:
    """A kernel of (a, b, out), flat arrays, for one shape; its blocks and threads.

    Mapping: block i computes tile i of the result, in row-major order; its warps split the depth.
    Memory: 16 bytes an access; four of a warp's lanes lie along the depth, eight along the result.
    """
    cut = cut or cut_of(layout, rows, columns, depth)
    row_pitches = {"nn": (depth, columns), "nt": (depth, depth), "tn": (rows, columns)}[layout]
    tile = small_gemm_tile(layout, rows, columns, depth, row_pitches, precision, **cut._asdict())
    fetch, multiply, four = tile.fetch, tile.multiply, tile.four
    tile_elements, shape_b = tile.elements, tile.shape_b
    TILE_M, TILE_N, THREADS = tile.rows, tile.columns, cut.threads
    across = ceil_div(columns, TILE_N)

    @cuda.jit(max_registers=cut.registers)
    def matmul_tensor(a, b, out):
        shared = cuda.shared.array(tile_elements, float32)
        first = cuda.local.array(shape_b, float32)
        i = int32(cuda.blockIdx.x)
        row, column = i // int32(across) * int32(TILE_M), i % int32(across) * int32(TILE_N)
        fetch(b, int32(0), column, first)
        multiply(shared, a, int32(0), b, int32(0), row, column, first)
        for n in range(int32(cuda.threadIdx.x), TILE_M * TILE_N // 4, THREADS):
            r, c = n // int32(TILE_N // 4), n % int32(TILE_N // 4) * int32(4)
            if row + r < rows and column + c < columns:
                store4(out, (row + r) * int32(columns) + column + c, four(shared, r, c))

    return matmul_tensor, across * ceil_div(rows, TILE_M), THREADS
