"""Small products on tensor cores, float32: a kernel for one shape, in which a block makes one tile.

The last steps of `course.kernels.gemm.float32`, of tiles of `course.kernels.gemm.small_tile`. Sizes
stand in the kernel as numbers, so all that a warp loads, or most of it, is in flight at once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import float32, int32

from course.backend import cuda
from course.kernels.arrays import VECTOR
from course.kernels.gemm.small_tile import DEEP, small_gemm_tile
from course.kernels.steps import ceil_div, round_up
from course.kernels.warps import WARP
from warpsim.ptx import store4

SMALL = 2048 * 2048  # results: of more the ways are equal, and each shape is a kernel to compile
AT_ONCE = 132  # blocks, one a multiprocessor of an H200; an A100 has 108
MOST_WARPS, REGISTERS, SHARED = 16, 2**16, 48 * 2**10  # of a block; bytes
FRAGMENTS = {
    "nn": ((1, 2), (2, 2), (1, 4), (2, 4)), "nt": ((1, 2), (1, 4), (2, 4)), "tn": ((2, 4),),
}  # fmt: skip


def tensor_refusal(p: Any) -> str:
    """What a product on tensor cores needs and does not find, in words; else nothing."""
    sizes = p.rows, p.columns, p.depth
    if any(size % VECTOR or not size for size in sizes):
        found = f"{p.rows}, {p.columns} and {p.depth}"
        return f"needs rows, columns and depth to be multiples of four, and they are {found}"
    if not p.wide:
        return "needs memory that begins at multiples of 16 bytes, and one array begins elsewhere"
    most = max(x * y for x, y in itertools.combinations(sizes, 2))
    return f"needs fewer than 2**31 numbers, and an array has {most:,}" if most >= 2**31 else ""


class Cut(NamedTuple):
    """How a product is cut, in `small_gemm_tile`'s words; a block's threads, their registers."""

    fragments: tuple[int, int]
    warps: int
    ahead: int
    threads = property(lambda self: WARP * self.warps)
    # a multiprocessor's quarters have a quarter of them each: 10 warps count as 12
    quarter = property(lambda self: round_up(self.threads, 4 * WARP))
    registers = property(lambda self: min(255, REGISTERS // self.quarter // 8 * 8))


def cut_of(layout: str, rows: int, columns: int, depth: int) -> Cut:
    """The cut of which a multiprocessor loads least; with warps enough to load all at once."""

    def loads(fragments: tuple[int, int]) -> tuple[int, int]:
        high, wide = 16 * fragments[0], 8 * fragments[1]
        blocks = ceil_div(rows, high) * ceil_div(columns, wide)
        return ceil_div(blocks, AT_ONCE) * (high + wide), blocks

    fragments = down, across = min(FRAGMENTS[layout], key=loads)
    sums = 4 * 16 * down * (8 * across + 8)  # bytes of a tile's, at most
    most = min(MOST_WARPS, SHARED // sums)
    # a thread's elements of one round; and its sums, what is cut in two, addresses
    each, besides = 8 * down + 4 * across, 4 * down * across + 8 * down + 4 * across + 40
    rounds = ceil_div(depth, DEEP)
    for ahead in range(1, rounds + 1):
        cut = Cut(fragments, ceil_div(rounds, ahead), ahead)
        if cut.warps <= most and each * ahead + besides <= cut.registers:
            return cut
    cut = Cut(fragments, min(most, 8), 1)
    return cut._replace(ahead=max(1, (cut.registers - besides) // each))


@functools.cache
def product_of(
    layout: str, rows: int, columns: int, depth: int, precision: str, cut: Cut | None = None
) -> tuple[Callable, int, int]:
    """A kernel of (a, b, out), flat arrays, for one shape; and its blocks and threads.

    Mapping: block i has tile i of the result, row by row of tiles; its warps share the depth.
    Memory: 16 bytes an access; four lanes side by side along the depth, eight along the result.
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
