"""Step 1: mma.sync, fed by cp.async; and what any GPU, shape and alignment can have.

>>> product("nt", "float16", "copied")      # cp.async: 8.0, rows at multiples of 16 bytes
>>> product("nt", "bfloat16", "loaded")     # element by element: any memory
>>> product("nt", "float16", "turing")      # the same for 7.5, whose products are 8 deep
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32, uint32

from course.backend import cuda
from course.kernels.fragments import copy8_async, ldmatrix4, ldmatrix4_trans, mma_bf16
from course.kernels.halves.common import DEPTH, ELEMENTS, epilogue, tile_of
from course.kernels.intrinsics import commit_copies, mma_f16, mma_f16_k8, wait_copies

HIGH = WIDE = 128  # results of a block
THREADS, WARPS_DOWN, WARPS_ACROSS = 256, 2, 4
DOWN, ACROSS = HIGH // WARPS_DOWN // 16, WIDE // WARPS_ACROSS // 16  # products of a warp, 16 x 16
PIECE = 64 * DEPTH
SIDE = HIGH * DEPTH  # elements of a tile of one factor
LINES = THREADS // 8  # rows of a tile that are copied at a time
STAGES = {"copied": 3, "loaded": 1, "turing": 1}


def shared_bytes(feed: str) -> int:
    """Bytes of a block's tiles."""
    return STAGES[feed] * 2 * SIDE * 2


@functools.cache
def product(
    layout: str, element: str, feed: str, activation: str = "", biased: bool = False,
    added: bool = False,
) -> Callable:  # fmt: skip
    """The kernel of (a, b, out, bias, residual, rows, columns, depth, band), all arrays.

    Mapping: a block has 128 x 128 results, a warp 64 x 32 of them, as products of 16 x 16.
    Memory: 16 bytes a thread, rows of 128 bytes; in shared memory chunk c of row r lies at
    c ^ (r % 8), so that ldmatrix, eight rows at a time, meets each bank once.
    """
    turn_a, turn_b = layout == "tn", layout != "nt"
    finished = epilogue(activation, biased, added)
    ELEMENT, COUNT = ELEMENTS[element], STAGES[feed]
    LEFT = max(COUNT - 2, 0)  # groups of copies that may be under way
    load_a = ldmatrix4_trans if turn_a else ldmatrix4
    load_b = ldmatrix4_trans if turn_b else ldmatrix4
    mma = mma_bf16 if element == "bfloat16" else mma_f16
    copied, turing = feed == "copied", feed == "turing"
    ZERO = float32(0)

    @cuda.jit(device=True)
    def fetch(source, turned, tiles, start, first, k, high, deep):
        """Bring 128 rows or columns from `first` on, 64 deep from k on, to ``tiles[start]``."""
        t = int32(cuda.threadIdx.x)
        chunk = int32(t & 7)
        for go in range(HIGH // LINES):
            line = int32((t >> 3) + go * LINES)
            if turned:  # pieces of 64 along the results
                row, column = int32(k + (line & 63)), int32(first + (line & 64) + 8 * chunk)
                inside, left = row < deep, int32(high - column)
            else:
                row, column = int32(first + line), int32(k + 8 * chunk)
                inside, left = row < high, int32(deep - column)
            count = int32(min(int32(8), max(int32(0), left))) if inside else int32(0)
            to = int32(start + 64 * line + ((chunk ^ (line & 7)) << 3))
            if copied:
                place = (row, column) if count > 0 else (int32(0), int32(0))
                copy8_async(tiles, to, source, place, count)
            else:
                for e in range(8):
                    tiles[to + e] = source[row, column + e] if e < count else ELEMENT(ZERO)

    @cuda.jit(device=True)
    def multiply(total, tiles, start, down, across, lane):
        """Add the product of a warp's parts of two tiles, 64 deep."""
        fa, fb = cuda.local.array((DOWN, 4), uint32), cuda.local.array((ACROSS, 4), uint32)
        low = int32(lane & 7)
        for kk in range(DEPTH // 16):
            for i in range(DOWN):
                r = int32(down + 16 * i)
                if turn_a:
                    line = int32(16 * kk + low + ((lane >> 4) << 3))
                    chunk = int32(((r & 63) >> 3) + (lane >> 3 & 1))
                    at = int32(start + PIECE * (r >> 6) + 64 * line + ((chunk ^ low) << 3))
                else:
                    chunk = int32(2 * kk + (lane >> 4))
                    at = int32(start + 64 * (r + (lane & 15)) + ((chunk ^ low) << 3))
                x = load_a(tiles, at)
                for e in range(4):
                    fa[i, e] = x[e]
            for j in range(ACROSS):
                c = int32(across + 16 * j)
                if turn_b:
                    line = int32(16 * kk + low + (lane & 8))
                    chunk = int32(((c & 63) >> 3) + (lane >> 4))
                    at = int32(start + SIDE + PIECE * (c >> 6) + 64 * line + ((chunk ^ low) << 3))
                else:
                    chunk = int32(2 * kk + (lane >> 3 & 1))
                    line = int32(c + low + ((lane >> 4) << 3))
                    at = int32(start + SIDE + 64 * line + ((chunk ^ low) << 3))
                x = load_b(tiles, at)
                for e in range(4):
                    fb[j, e] = x[e]
            for i in range(DOWN):
                for j in range(ACROSS):
                    for h in range(2):
                        c4 = (
                            total[i, j, h, 0],
                            total[i, j, h, 1],
                            total[i, j, h, 2],
                            total[i, j, h, 3],
                        )
                        if turing:
                            c4 = mma_f16_k8(c4, (fa[i, 0], fa[i, 1]), fb[j, 2 * h])
                            c4 = mma_f16_k8(c4, (fa[i, 2], fa[i, 3]), fb[j, 2 * h + 1])
                        else:
                            a4 = (fa[i, 0], fa[i, 1], fa[i, 2], fa[i, 3])
                            c4 = mma(c4, a4, (fb[j, 2 * h], fb[j, 2 * h + 1]))
                        for e in range(4):
                            total[i, j, h, e] = c4[e]

    @cuda.jit(launch_bounds=(THREADS, 2), fastmath=True)
    def product_plain(a, b, out, bias, other, rows, columns, depth, band):
        tiles = cuda.shared.array(0, ELEMENT, alignment=1024)
        total = cuda.local.array((DOWN, ACROSS, 2, 4), float32)
        t = int32(cuda.threadIdx.x)
        warp, lane = int32(t >> 5), int32(t & 31)
        high, wide = int32((int32(rows) + 127) >> 7), int32((int32(columns) + 127) >> 7)
        tile_row, tile_column = tile_of(int32(cuda.blockIdx.x), high, wide, int32(band))
        row, column = int32(tile_row << 7), int32(tile_column << 7)
        down, across = int32((warp & 1) << 6), int32((warp >> 1) << 5)
        for i in range(DOWN):
            for j in range(ACROSS):
                for h in range(2):
                    for e in range(4):
                        total[i, j, h, e] = ZERO
        steps = int32((int32(depth) + int32(DEPTH - 1)) >> 6)
        for s in range(COUNT - 1):
            if s < steps:
                fetch(a, turn_a, tiles, int32(2 * SIDE * s), row, int32(64 * s), rows, depth)
                fetch(
                    b,
                    turn_b,
                    tiles,
                    int32(2 * SIDE * s + SIDE),
                    column,
                    int32(64 * s),
                    columns,
                    depth,
                )
            if copied:
                commit_copies()
        stage, ahead = int32(0), int32(COUNT - 1)
        for step in range(steps):
            if copied:
                wait_copies(LEFT)
            cuda.syncthreads()
            coming = int32(step + COUNT - 1)
            if coming < steps:
                at = int32(2 * SIDE * ahead)
                fetch(a, turn_a, tiles, at, row, int32(64 * coming), rows, depth)
                fetch(
                    b, turn_b, tiles, int32(at + SIDE), column, int32(64 * coming), columns, depth
                )
            if copied:
                commit_copies()
            else:
                cuda.syncthreads()
            multiply(total, tiles, int32(2 * SIDE * stage), down, across, lane)
            stage = int32(0) if stage == COUNT - 1 else int32(stage + 1)
            ahead = int32(0) if ahead == COUNT - 1 else int32(ahead + 1)
        for i in range(DOWN):
            for half in range(2):
                r = int32(row + down + 16 * i + 8 * half + (lane >> 2))
                if r < rows:
                    for j in range(ACROSS):
                        for h in range(2):
                            c = int32(column + across + 16 * j + 8 * h + 2 * (lane & 3))
                            x, y = total[i, j, h, 2 * half], total[i, j, h, 2 * half + 1]
                            for e in range(2):
                                if c + e < columns:
                                    out[r, c + e] = finished(y if e else x, bias, other, r, c + e)

    return product_plain
