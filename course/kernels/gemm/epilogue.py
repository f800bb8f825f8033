"""How sums become results: epilogue, 16 bits, shared memory, from where TMA stores them.

The results of a warp, 16 rows, lie in boxes of 64 columns as TMA has them: chunk c of row r at
c ^ (r % 8). A residual that TMA has loaded lies there, too, so a lane finds what it adds where
it stores.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import int32

from course.backend import cuda
from course.kernels.gemm.tiles import PACK, UNPACK, epilogue2
from warpsim.ptx import ldmatrix4, stmatrix4


@functools.cache
def store_epilogue(
    element: str, activation: str, biased: bool, added: bool, wide: int, box_size: int
) -> Callable:
    """What stores a box of a warp's sums: (tiles, local, box, line, column, t, columns, bias).

    `line` is where row `lane % 16` of box 0 begins in `tiles`, boxes lie `box_size` elements
    apart; `column` is the tile's first. 64 columns at a time: of a loop that the compiler does not
    unroll, the sums are in memory. Where the tile is not a multiple of 64, the last box has some
    columns of the one before, and the same elements.
    """
    finished, pack, unpack = epilogue2(activation, biased), PACK[element], UNPACK[element]
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
