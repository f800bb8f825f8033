"""How sums become results: epilogue, 16 bits, shared memory, from where TMA stores them.

The results of a warp, 16 rows, lie in boxes of 64 columns as TMA has them: chunk c of row r at
c ^ (r % 8). A residual that TMA has loaded lies there, too, so a lane finds what it adds where
it stores.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import int32, uint16, uint32

from course.backend import cuda
from course.kernels.gemm.tiles import PACK, UNPACK, epilogue2
from warpsim.ptx import ldmatrix4, load, stmatrix4, store


@functools.cache
def store_epilogue(
    element: str, activation: str, biased: bool, added: bool, wide: int, box_size: int,
    paired: bool = True,
) -> Callable:  # fmt: skip
    """What stores a box of a warp's sums: (tiles, local, box, line, column, t, columns, bias).

    `line` is where row `lane % 16` of box 0 begins in `tiles`, boxes lie `box_size` elements
    apart; `column` is the tile's first. 64 columns at a time: of a loop that the compiler does not
    unroll, the sums are in memory. Where the tile is not a multiple of 64, the last box has some
    columns of the one before, and the same elements.
    """
    finished = epilogue2(activation, biased, paired)
    pack, unpack = PACK[element], UNPACK[element]
    LAST = wide // 16 - 4  # where the last box begins, in 16 columns

    @cuda.jit(device=True)
    def plus(x, y, pair):
        left, right = unpack(pair)
        return x + left, y + right

    @cuda.jit(device=True, forceinline=True)
    def store_box(tiles, local, box, line, column, t, columns, bias):
        lane, last = int32(t & 31), int32(columns - 2)
        first, start = min(4 * box, LAST), int32(line + box_size * box)
        for n in range(4):
            j = int32(first + n)
            e = int32(8 * j)
            c = int32(column + 16 * j + 2 * (lane & 3))
            d = int32(c + 8)
            x0, y0 = finished(local[e], local[e + 1], bias, c, last)
            x1, y1 = finished(local[e + 2], local[e + 3], bias, c, last)
            x2, y2 = finished(local[e + 4], local[e + 5], bias, d, last)
            x3, y3 = finished(local[e + 6], local[e + 7], bias, d, last)
            chunk = int32(2 * n + (lane >> 4)) ^ int32(lane & 7)
            place = int32(start + (chunk << 3))
            if added:
                others = ldmatrix4(tiles, place)
                x0, y0 = plus(x0, y0, others[0])
                x1, y1 = plus(x1, y1, others[1])
                x2, y2 = plus(x2, y2, others[2])
                x3, y3 = plus(x3, y3, others[3])
            stmatrix4(tiles, place, (pack(x0, y0), pack(x1, y1), pack(x2, y2), pack(x3, y3)))

    return store_box


@cuda.jit(device=True, forceinline=True)
def store_rows(out, elements, line, box, row, column, t, rows, columns):
    """A warp's 16 rows of a box go to rows that begin anywhere, by words, at their ends by elements.

    In shared memory row 0 of the box begins at word `line`; `out` and `elements` are the results, by
    4 bytes and by 2.
    """
    words = cuda.shared.array(0, uint32, alignment=1024)
    lane = int32(t & 31)
    after = min(int32(lane + 1), int32(31))
    left = min(int32(columns - column), int32(64))
    for first in range(0, min(int32(rows - row), int32(16)), 4):  # four rows at a time
        for n in range(4):
            r = int32(first + n)
            start = int32(line + 32 * r)
            low = load(words, int32(start + ((lane >> 2 ^ r & 7) << 2) + (lane & 3)))
            high = load(words, int32(start + ((after >> 2 ^ r & 7) << 2) + (after & 3)))
            begin = int32((row + r) * columns + column)
            odd = int32(begin & 1)
            e = int32(2 * lane + odd)
            if row + r < rows:
                pair = uint32((low >> uint32(16) | high << uint32(16)) if odd else low)
                if e + 1 < left:
                    store(out, int32((begin + e) >> 1), pair)
                elif e < left:
                    store(elements, int32(begin + e), uint16(pair & uint32(0xFFFF)))
                if odd and lane == 0 and left > 0:
                    store(elements, begin, uint16(low & uint32(0xFFFF)))
