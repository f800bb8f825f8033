"""The epilogue of tiles by wgmma: accumulators become 16-bit results in shared memory, for TMA.

A warp's 16 rows of results lie in boxes of 64 columns. These have TMA's swizzle: chunk c of row r,
16 bytes, lies at c ^ (r % 8). TMA loads a residual to the same addresses, so a lane reads what it
adds from where it stores. Behind the boxes lies the bias of the tile's columns, in float32. It is
fetched while the last wgmma runs, which hides the latency.

LayerNorm between two products needs no launch of its own. The first product `counts`: it stores
each row's sum and sum of squares, a pair for each tile along the row. The second has gamma in its
weights, w' = gamma w. Its epilogue subtracts the mean and divides by the deviation:

    LayerNorm(x) w + bias = (x w' - mean(x) sums of w') / deviation(x) + beta w + bias

float32 is enough for the sums: their error is smaller than that of rows rounded to float16.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from numba import float32, int32, uint16, uint32

from course.backend import cuda
from course.heuristics.gemm import PAIR
from course.kernels.arrays import PACK, UNPACK
from course.kernels.gemm.tiles import ACTIVATIONS, shifted
from course.kernels.steps import ceil_div
from course.kernels.warps import lanes_sum
from warpsim import ptx

ROWS = 2, 8  # rows that a lane's accumulators span in a warp's 16, and their distance
ZERO = float32(0)


class Norm(NamedTuple):
    """What a product's epilogue does for LayerNorm."""

    parts: int = 0  # pairs of sums of each row of a, which it normalises; 0: it does not
    eps: float = 0.0  # added to the variance
    counts: bool = False  # it stores the sums of its results' rows

    kept = property(lambda self: 2 * ROWS[0] * max(1, ceil_div(self.parts, 4)))  # floats a lane


NO_NORM = Norm()


@functools.cache
def row_sums(norm: Norm) -> tuple[Callable, Callable, Callable]:
    """Device functions (read, deviations, write) for the sums of a lane's two rows.

    ``sums`` is float32 (rows, 2 * parts), ``mine`` a local array of ``norm.kept``. `read` fills it
    with a lane's share of the pairs, which four lanes split. `deviations` makes of them, for each
    row, the factor and the summand that normalise it. Where tiles overlap, the upper one writes.
    """
    PARTS, EPS, EACH = norm.parts, float32(norm.eps), norm.kept // 4
    of_four = lanes_sum(4)

    @cuda.jit(device=True, forceinline=True)
    def read(sums, mine, row, rows, lane):
        for h in range(ROWS[0]):
            r = min(int32(row + (lane >> 2) + ROWS[1] * h), int32(rows - 1))
            for i in range(EACH):
                part = min(int32(4 * i + (lane & 3)), int32(PARTS - 1))
                at = 2 * (EACH * h + i)
                mine[at], mine[at + 1] = ptx.load2(sums, (r, int32(2 * part)))

    @cuda.jit(device=True, forceinline=True)
    def deviations(mine, depth, lane):
        share = float32(1) / float32(depth)
        for h in range(ROWS[0]):
            one, squares = ZERO, ZERO
            for i in range(EACH):
                at = 2 * (EACH * h + i)
                if 4 * i + (lane & 3) < PARTS:
                    one, squares = one + mine[at], squares + mine[at + 1]
            mean = of_four(one) * share
            variance = max(of_four(squares) * share - mean * mean, ZERO)
            factor = float32(1) / math.sqrt(variance + EPS)
            mine[2 * h], mine[2 * h + 1] = factor, -mean * factor

    @cuda.jit(device=True, forceinline=True)
    def write(sums, mine, row, part, first, rows, lane):
        for h in range(ROWS[0]):
            pair = of_four(mine[2 * h]), of_four(mine[2 * h + 1])
            r = int32(row + (lane >> 2) + ROWS[1] * h)
            if lane & 3 == 0 and r >= first and r < rows:
                ptx.store2(sums, (r, int32(2 * part)), pair)

    @cuda.jit(device=True)
    def write_nothing(sums, mine, row, part, first, rows, lane):
        """Stand in for `write` in a product that does not count; its `sums` may be any array."""

    return read, deviations, write if norm.counts else write_nothing


@functools.cache
def bias_of(wide: int, biased: bool, norm: Norm) -> tuple[Callable, Callable]:
    """Device functions: a thread fetches two columns' biases, then keeps them in shared memory.

    With ``norm.parts`` each column has a pair instead: (bias, sum of the weights). A bias without
    pairs may have any alignment, so its two elements are loaded one by one.
    """
    normed = norm.parts > 0

    @cuda.jit(device=True, forceinline=True)
    def fetch(bias, column, columns, t):
        c, last = int32(column + 2 * (t & 127)), int32(columns - 1)
        w, x, y, z = ZERO, ZERO, ZERO, ZERO
        if normed:
            four = ptx.load4(bias, int32(2 * min(c, int32(last - 1))))
            w, x, y, z = float32(four[0]), float32(four[1]), float32(four[2]), float32(four[3])
        elif biased:
            w = float32(ptx.load(bias, min(c, last)))
            x = float32(ptx.load(bias, min(int32(c + 1), last)))
        return w, x, y, z

    @cuda.jit(device=True, forceinline=True)
    def keep(kept, at, t, four):
        n = int32(t & 127)
        if normed and 2 * n < wide:
            ptx.store4(kept, int32(at + 4 * n), four)
        elif biased and 2 * n < wide:
            ptx.store2(kept, int32(at + 2 * n), (four[0], four[1]))

    return fetch, keep


@functools.cache
def store_epilogue(
    element: str, activation: str, biased: bool, added: bool, wide: int, box_size: int,
    norm: Norm = NO_NORM,
) -> Callable:  # fmt: skip
    """Finish and store a box of accumulators: (tiles, local, box, line, column, t, columns, kept,
    at, mine, seen).

    Row `lane % 16` of box 0 begins at `line` of `tiles`; boxes lie `box_size` elements apart. The
    tile begins at `column`, whose bias lies at `at` of `kept`. A call stores 64 columns: the
    compiler would not unroll a longer loop, and accumulators would lie in local memory. In a tile
    whose width is no multiple of 64, the last box overlaps the one before. `mine` holds what
    `row_sums` made, or the sums of a norm that counts. These sums skip the tile's first `seen`
    columns, which belong to the tile before, too.
    """
    pack, unpack, normed, counts = PACK[element], UNPACK[element], norm.parts > 0, norm.counts
    act: Any = ACTIVATIONS[activation]
    active = act is not None
    act = act or ACTIVATIONS["gelu"]
    LAST = wide // 16 - 4  # the last box's first column, in units of 16
    EACH = PAIR if normed else 1

    @cuda.jit(device=True)
    def plus(x, y, pair):
        left, right = unpack(pair)
        return x + left, y + right

    @cuda.jit(device=True, forceinline=True)
    def finished(x, y, kept, at, factor, summand):
        if normed:
            four = ptx.load4(kept, at)
            # explicit FMAs, or the compiler might fuse otherwise in the tile that overlaps this one
            x = cuda.fma(x, factor, cuda.fma(summand, four[1], four[0]))
            y = cuda.fma(y, factor, cuda.fma(summand, four[3], four[2]))
        elif biased:
            two = ptx.load2(kept, at)
            x, y = x + two[0], y + two[1]
        if active:
            x, y = act(x), act(y)
        return x, y

    @cuda.jit(device=True, forceinline=True)
    def store_box(tiles, local, box, line, column, t, columns, kept, at, mine, seen):
        lane = int32(t & 31)
        first, start = min(4 * box, LAST), int32(line + box_size * box)
        for n in range(4):
            j = int32(first + n)
            e = int32(8 * j)
            c = int32(at + EACH * (16 * j + 2 * (lane & 3)))
            d = int32(c + EACH * 8)
            x0, y0 = finished(local[e], local[e + 1], kept, c, mine[0], mine[1])
            x1, y1 = finished(local[e + 2], local[e + 3], kept, c, mine[2], mine[3])
            x2, y2 = finished(local[e + 4], local[e + 5], kept, d, mine[0], mine[1])
            x3, y3 = finished(local[e + 6], local[e + 7], kept, d, mine[2], mine[3])
            chunk = int32(2 * n + (lane >> 4)) ^ int32(lane & 7)
            place = int32(start + (chunk << 3))
            if added:
                others = ptx.ldmatrix4(tiles, place)
                x0, y0 = plus(x0, y0, others[0])
                x1, y1 = plus(x1, y1, others[1])
                x2, y2 = plus(x2, y2, others[2])
                x3, y3 = plus(x3, y3, others[3])
            if counts and j >= 4 * box and seen <= 16 * j and column + 16 * j < columns:
                mine[0] += x0 + y0 + x2 + y2
                mine[1] += x0 * x0 + y0 * y0 + x2 * x2 + y2 * y2
                mine[2] += x1 + y1 + x3 + y3
                mine[3] += x1 * x1 + y1 * y1 + x3 * x3 + y3 * y3
            ptx.stmatrix4(tiles, place, (pack(x0, y0), pack(x1, y1), pack(x2, y2), pack(x3, y3)))

    return store_box


@functools.cache
def store_columns(
    element: str, activation: str, biased: bool, wide: int
) -> tuple[Callable, Callable]:
    """Device functions (fetch, store_box) for swapped operands: accumulators are transposed.

    ``(bias, row, rows, t)`` loads the biases of a thread's two rows, which are columns of results.
    ``(tiles, local, box, start, t, mine)`` finishes 64 rows of the results and stores them in the
    box at `start`; `mine` holds the biases.
    """
    pack, act, LAST = PACK[element], ACTIVATIONS[activation] or ACTIVATIONS["gelu"], wide // 16 - 4
    active = bool(activation)

    @cuda.jit(device=True, forceinline=True)
    def fetch(bias, row, rows, t):
        r, last = int32(row + 16 * (t >> 5 & 3) + (t >> 2 & 7)), int32(rows - 1)
        x, y = ZERO, ZERO
        if biased:
            x = float32(ptx.load(bias, min(r, last)))
            y = float32(ptx.load(bias, min(int32(r + 8), last)))
        return x, y, ZERO, ZERO

    @cuda.jit(device=True, forceinline=True)
    def finished(x, y, bias):
        x, y = x + bias, y + bias
        return (act(x), act(y)) if active else (x, y)

    @cuda.jit(device=True, forceinline=True)
    def store_box(tiles, local, box, start, t, mine):
        lane, first = int32(t & 31), min(4 * box, LAST)
        r, matrix = int32(lane & 7), int32(lane >> 3)
        chunk = int32(2 * (t >> 5 & 3) + (matrix & 1)) ^ r
        to = int32(start + (8 * (matrix >> 1) + r) * 64 + (chunk << 3))
        for n in range(4):
            e = int32(8 * (first + n))
            x0, y0 = finished(local[e], local[e + 1], mine[0])
            x1, y1 = finished(local[e + 2], local[e + 3], mine[1])
            x2, y2 = finished(local[e + 4], local[e + 5], mine[0])
            x3, y3 = finished(local[e + 6], local[e + 7], mine[1])
            four = pack(x0, y0), pack(x1, y1), pack(x2, y2), pack(x3, y3)
            ptx.stmatrix4_trans(tiles, int32(to + 16 * 64 * n), four)

    return fetch, store_box


@functools.cache
def store_rows(wide: int, box_size: int) -> Callable:
    """Device function: threads store a warp's 16 rows of results, which may have any alignment.

    ``(out, elements, start, row, column, t, rows, columns)``: the warpgroup's first box begins at
    `start` of shared memory and at (row, column) of the results. `out` views the results as words
    of 4 bytes, `elements` by 2. Threads store aligned 16 bytes, then the ends of each row.
    """
    CHUNKS, LAST, shift = wide // 8, ceil_div(wide, 64) - 1, shifted(4)

    @cuda.jit(device=True, forceinline=True)
    def load_eight(found, line, r, n, begin, left):
        """Load eight neighbours that fill 16 aligned bytes of the results; return their column."""
        words = cuda.shared.array(0, uint32, alignment=1024)
        over = int32(-begin & 7)
        n = min(n, int32(int32(left - over) >> 3))
        for h in range(2):
            chunk = min(max(int32(n + h), int32(0)), int32(CHUNKS - 1))
            box = min(int32(chunk >> 3), int32(LAST))
            place = int32(chunk - min(int32(8 * box), int32(CHUNKS - 8))) ^ int32(r & 7)
            four = ptx.load4(words, int32(line + box * (box_size >> 1) + 32 * r + 4 * place))
            for e in range(4):
                found[4 * h + e] = four[e]
        shift(found, over)
        return int32(over + 8 * n)

    @cuda.jit(device=True, forceinline=True)
    def store_tile(out, elements, start, row, column, t, rows, columns):
        found = cuda.local.array(8, uint32)
        lane, high = int32(t & 31), int32(16 * (t >> 5 & 3))
        line, left = int32((start >> 1) + 32 * high), min(int32(columns - column), int32(wide))
        first, last = int32((row + high) * columns + column), int32(left - 8)
        i, many = lane, min(int32(rows - row - high), int32(16))  # rows inside
        while i < int32(many * CHUNKS):
            r = int32(uint32(i) // uint32(CHUNKS))
            begin = int32(first + r * columns)
            e = load_eight(found, line, r, int32(i - r * CHUNKS), begin, left)
            if e <= last:
                ptx.store4(
                    out, int32(int32(begin + e) >> 1), (found[0], found[1], found[2], found[3])
                )
            i = int32(i + 32)
        r, n = int32(lane >> 1), int32(CHUNKS if lane & 1 else -1)
        begin = int32(first + r * columns)
        e = load_eight(found, line, r, n, begin, left)
        if r < many:
            for w in range(4):
                behind = int32(left - e)
                if e >= 0 and behind > 1:
                    ptx.store(out, int32(int32(begin + e) >> 1), found[w])
                elif e >= -1 and behind > 0:  # one of the word's two elements is in the row
                    one = found[w] if e >= 0 else found[w] >> uint32(16)
                    ptx.store(elements, max(int32(begin + e), begin), uint16(one & uint32(0xFFFF)))
                e = int32(e + 2)

    return store_tile
