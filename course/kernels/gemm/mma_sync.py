"""Step 1: mma.sync, fed by cp.async; with variants for Turing, and for any shape and alignment.

>>> gemm("nt", "float16", "copied")      # cp.async: 8.0, rows at multiples of 16 bytes;
...                                         # of the results at multiples of 4
>>> gemm("nt", "bfloat16", "loaded")     # element by element: any memory
>>> gemm("nt", "float16", "turing")      # the same for 7.5, whose products are 8 deep
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32, uint32

from course.backend import cuda
from course.heuristics.gemm import DEPTH
from course.kernels.gemm.tiles import ELEMENTS, epilogue, tile_coordinates
from warpsim.ptx import (
    commit_copies,
    copy8_async,
    grid_dependency_wait,
    ldmatrix4,
    ldmatrix4_trans,
    mma_bf16,
    mma_f16,
    mma_f16_k8,
    store2,
    wait_copies,
)

TILE_M = TILE_N = 128  # a block's tile of the results
THREADS, WARP_TILE = 128, 64  # four warps of 64 x 64 results: every fragment serves four products
TILES = WARP_TILE // 16  # fragments of 16 x 16 results in a warp's tile, down and across
SIDE = TILE_M * DEPTH  # elements of a tile of one operand
LINES = THREADS // 8  # rows of a tile that the block copies at a time, 16 bytes a thread
STAGES = {"copied": 3, "loaded": 1, "turing": 1}


def shared_bytes(feed: str) -> int:
    """Bytes of a block's tiles."""
    return STAGES[feed] * 2 * SIDE * 2


@functools.cache
def gemm(
    layout: str, element: str, feed: str, activation: str = "", biased: bool = False,
    added: bool = False,
) -> Callable:  # fmt: skip
    """The kernel of (a, b, out, bias, residual, rows, columns, depth, row_group).

    Mapping: a block computes 128 x 128 results, a warp 64 x 64 of them, in fragments of 16 x 16.
    Memory: a thread copies chunks of 16 bytes, eight of them a row. Shared memory is swizzled:
    chunk c of row r lies at c ^ (r % 8), so ldmatrix reads eight rows without a bank conflict.
    """
    transpose_a, transpose_b = layout == "tn", layout != "nt"
    finished = epilogue(activation, biased, added)
    ELEMENT, COUNT = ELEMENTS[element], STAGES[feed]
    LEFT = max(COUNT - 2, 0)  # groups of copies that may be in flight
    load_a = ldmatrix4_trans if transpose_a else ldmatrix4
    load_b = ldmatrix4_trans if transpose_b else ldmatrix4
    mma = mma_bf16 if element == "bfloat16" else mma_f16
    copied, turing = feed == "copied", feed == "turing"
    ZERO = float32(0)

    @cuda.jit(device=True)
    def fetch(source, transposed, tiles, start, first, k, high, deep):
        """Load 128 rows or columns from `first` on, 64 deep from k on, to ``tiles[start]``.

        Elements beyond the depth must be 0. Beyond the results any will do: they are not stored.
        """
        t = int32(cuda.threadIdx.x)
        line, chunk = int32(t >> 3), int32(t & 7)
        to = int32(start + 64 * line + ((chunk ^ (line & 7)) << 3))
        column = int32((first if transposed else k) + 8 * chunk)
        for go in range(TILE_M // LINES):
            if transposed:  # chunks of 64 along the results
                row, ahead = int32(k + line + go * LINES % 64), int32(go * LINES // 64 * 64)
                left = int32(high - column - ahead) if row < deep else int32(0)
            else:
                row, ahead = int32(min(int32(first + line + go * LINES), int32(high - 1))), int32(0)
                left = int32(deep - column)
            count = int32(min(int32(8), max(int32(0), left)))
            place = row, int32(column + ahead)
            if copied:
                copy8_async(tiles, int32(to + 64 * LINES * go), source, place, count)
            else:
                for e in range(8):
                    x = source[place[0], place[1] + e] if e < count else ELEMENT(ZERO)
                    tiles[to + 64 * LINES * go + e] = x

    # Called once for each constant kk or j below, not in a loop. Where the compiler did not unroll
    # it, loads and products would alternate, and accumulators would lie in local memory.
    @cuda.jit(device=True, forceinline=True)
    def load(fa, fb, tiles, kk, at_a, at_b, lane):
        """Load a warp's fragments of both operands, 16 deep, from tiles at `at_a` and `at_b`.

        Even and odd `kk` have registers of their own, so that loads run ahead of the products.
        """
        low, eight, sixteen = int32(lane & 7), int32(lane >> 3 & 1), int32(lane >> 4)
        for i in range(TILES):
            if transpose_a:
                line, chunk, more = int32(low + 8 * sixteen), int32(2 * i + eight), 16 * kk
            else:
                line, chunk, more = int32(low + 8 * eight), int32(2 * kk + sixteen), 16 * i
            x = load_a(tiles, int32(at_a + 64 * line + ((chunk ^ low) << 3)) + 64 * more)
            for e in range(4):
                fa[kk % 2, i, e] = x[e]
        for j in range(TILES):
            if transpose_b:
                line, chunk, more = int32(low + 8 * eight), int32(2 * j + sixteen), 16 * kk
            else:
                line, chunk, more = int32(low + 8 * sixteen), int32(2 * kk + eight), 16 * j
            x = load_b(tiles, int32(at_b + 64 * line + ((chunk ^ low) << 3)) + 64 * more)
            for e in range(4):
                fb[kk % 2, j, e] = x[e]

    @cuda.jit(device=True, forceinline=True)
    def multiply(total, fa, fb, kk):
        p = kk % 2
        for i in range(TILES):
            for j in range(TILES):
                for h in range(2):
                    c = total[i, j, h, 0], total[i, j, h, 1], total[i, j, h, 2], total[i, j, h, 3]
                    if turing:
                        c = mma_f16_k8(c, (fa[p, i, 0], fa[p, i, 1]), fb[p, j, 2 * h])
                        c = mma_f16_k8(c, (fa[p, i, 2], fa[p, i, 3]), fb[p, j, 2 * h + 1])
                    else:
                        a = fa[p, i, 0], fa[p, i, 1], fa[p, i, 2], fa[p, i, 3]
                        c = mma(c, a, (fb[p, j, 2 * h], fb[p, j, 2 * h + 1]))
                    for e in range(4):
                        total[i, j, h, e] = c[e]

    @cuda.jit(device=True, forceinline=True)
    def store_results(out, total, j, row, column, rows, columns, bias, other):
        """Finish and store 16 columns of accumulators, from column 16 j on; pairs if aligned."""
        for i in range(TILES):
            for half in range(2):
                for h in range(2):
                    r, c = int32(row + 16 * i + 8 * half), int32(column + 16 * j + 8 * h)
                    d = int32(c + 1)
                    x, y = total[i, j, h, 2 * half], total[i, j, h, 2 * half + 1]
                    if copied:
                        if r < rows and c < columns:
                            x = finished(x, bias, other, r, c)
                            y = finished(y, bias, other, r, d)
                            store2(out, (r, c), (ELEMENT(x), ELEMENT(y)))
                    else:
                        if r < rows and c < columns:
                            out[r, c] = finished(x, bias, other, r, c)
                        if r < rows and d < columns:
                            out[r, d] = finished(y, bias, other, r, d)

    @cuda.jit(launch_bounds=(THREADS, 2), fastmath=True)
    def gemm_plain(a, b, out, bias, other, rows, columns, depth, row_group):
        tiles = cuda.shared.array(0, ELEMENT, alignment=1024)
        total = cuda.local.array((TILES, TILES, 2, 4), float32)
        fa, fb = cuda.local.array((2, TILES, 4), uint32), cuda.local.array((2, TILES, 4), uint32)
        t = int32(cuda.threadIdx.x)
        warp, lane = int32(t >> 5), int32(t & 31)
        high, wide = int32((int32(rows) + 127) >> 7), int32((int32(columns) + 127) >> 7)
        tile_row, tile_column = tile_coordinates(
            int32(cuda.blockIdx.x), high, wide, int32(row_group)
        )
        row, column = int32(tile_row << 7), int32(tile_column << 7)
        down, across = int32((warp & 1) * WARP_TILE), int32((warp >> 1) * WARP_TILE)
        for i in range(TILES):
            for j in range(TILES):
                for h in range(2):
                    for e in range(4):
                        total[i, j, h, e] = ZERO
        grid_dependency_wait()
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        for s in range(COUNT - 1):
            if s < steps:
                at, k = int32(2 * SIDE * s), int32(DEPTH * s)
                fetch(a, transpose_a, tiles, at, row, k, rows, depth)
                fetch(b, transpose_b, tiles, int32(at + SIDE), column, k, columns, depth)
            if copied:
                commit_copies()
        at, ahead = int32(0), int32(2 * SIDE * (COUNT - 1))
        for step in range(steps):
            if copied:
                wait_copies(LEFT)
            cuda.syncthreads()
            at_a, at_b = int32(at + DEPTH * down), int32(at + SIDE + DEPTH * across)
            if copied:
                load(fa, fb, tiles, 0, at_a, at_b, lane)  # first: issuing copies takes long
            k = int32(DEPTH * (step + COUNT - 1))
            if k < depth:
                fetch(a, transpose_a, tiles, ahead, row, k, rows, depth)
                fetch(b, transpose_b, tiles, int32(ahead + SIDE), column, k, columns, depth)
            if copied:
                commit_copies()
            else:
                cuda.syncthreads()
                load(fa, fb, tiles, 0, at_a, at_b, lane)
            load(fa, fb, tiles, 1, at_a, at_b, lane)
            multiply(total, fa, fb, 0)
            load(fa, fb, tiles, 2, at_a, at_b, lane)
            multiply(total, fa, fb, 1)
            load(fa, fb, tiles, 3, at_a, at_b, lane)
            multiply(total, fa, fb, 2)
            multiply(total, fa, fb, 3)
            at = int32(0) if at == 2 * SIDE * (COUNT - 1) else int32(at + 2 * SIDE)
            ahead = int32(0) if ahead == 2 * SIDE * (COUNT - 1) else int32(ahead + 2 * SIDE)
        r, c = int32(row + down + (lane >> 2)), int32(column + across + 2 * (lane & 3))
        store_results(out, total, 0, r, c, rows, columns, bias, other)
        store_results(out, total, 1, r, c, rows, columns, bias, other)
        store_results(out, total, 2, r, c, rows, columns, bias, other)
        store_results(out, total, 3, r, c, rows, columns, bias, other)

    return gemm_plain
