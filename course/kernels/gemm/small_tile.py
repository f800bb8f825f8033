"""A tile of a matrix product, for layers so small that each block computes only one tile.

A layer's 128 x 400 results are 100 tiles of 32 x 16, fewer than a GPU has multiprocessors. So the
latency of a single tile counts, and most of it is spent on memory. Hence:

- the warps of a block split the tile's depth: each multiplies the whole tile, 16 deep at a time;
- a lane loads four neighbours at once, straight into the registers that mma reads;
- the second operand, a layer's weights, is loaded rounds ahead, before the first has to be there;
- at the end the warps' sums are added in shared memory.

The order of elements along the depth is free, as long as both operands agree. So lane 4 g + q
loads elements 4 q to 4 q + 3 of each 16: two for each of two mma instructions.

A tensor core accumulates with fewer bits than float32 has. So its accumulator starts at 0 for every
16 products, and float32 additions on CUDA cores collect the results.

Precisions: "tf32" rounds operands to 10 bits of fraction. "tf32x3" splits each operand in two and
computes three of the four products, which keeps float32's digits. "float32" is for GPUs before
Ampere: it multiplies on CUDA cores, and lanes exchange operands by shuffles.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from numba import float32, int32, uint32, uint64

from course.backend import cuda
from course.heuristics.small_gemm import DEEP
from course.kernels.steps import ceil_div
from course.kernels.warps import ALL, WARP
from warpsim.ptx import load, load2, load4, mma_tf32, store2, store4

PRECISIONS = ("tf32x3", "tf32", "float32")
ZERO = float32(0)
LEVEL = 2**13  # TF32 has 13 bits of fraction fewer than float32
STRIDE, PAUSE = 16, 400  # of polling: rows between two lanes' elements; nanoseconds between polls


# --- operands split in two, and mma on CUDA cores -------------------------------------------------


@functools.cache
def parts_of(size: int) -> Callable:
    """Device function: n // size and n % size, for a constant `size` and n from 0 to 2**31 - 1.

    Numba's own `//` and `%` work on 64 bits and treat signs: some thirty instructions. Here n times
    2**bits / size, rounded up, has the quotient in the bits from `bits` on.

    Source: Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
    """
    shift, rest = size.bit_length() - 1, size - 1
    bits = 31 + size.bit_length()
    inverse = ceil_div(2**bits, size)

    @cuda.jit(device=True)
    def shifted(n):
        return int32(n >> shift), int32(n & rest)

    @cuda.jit(device=True)
    def divided(n):
        whole = int32((uint64(uint32(n)) * uint64(inverse)) >> uint64(bits))
        return whole, int32(n - whole * size)

    return divided if size & rest else shifted


of_lanes, _fours = parts_of(WARP), parts_of(4)


@cuda.jit(device=True)
def lane_of():
    """(g, q) of lane 4 g + q: its row and column in mma's fragments."""
    return _fours(of_lanes(cuda.threadIdx.x)[1])


@cuda.jit(device=True)
def in_two(value):
    """Split a float32, below 4e34, into its nearest TF32 value and the rest, by three operations.

    The instruction for it, cvt.rna, takes a Hopper GPU five. The product must be rounded before the
    second line subtracts from it. A compiler may contract a written product and sum into one FMA,
    and then nothing is rounded; an explicit `fma` it leaves alone.
    Source: Dekker, "A floating-point technique for extending the available precision", 1971.
    """
    higher = cuda.fma(float32(LEVEL + 1), value, ZERO)
    upper = cuda.fma(float32(-LEVEL), value, higher)
    return upper, value - upper


@cuda.jit(device=True)
def four_plain(c, upper, lower, factor):
    """Four of the eight steps along the depth, for `mma_plain`."""
    g, q = lane_of()
    c0, c1, c2, c3 = c
    for k in range(4):
        high = cuda.shfl_sync(ALL, upper, 4 * g + k)
        low = cuda.shfl_sync(ALL, lower, 4 * g + k)
        left = cuda.shfl_sync(ALL, factor, 8 * q + k)
        right = cuda.shfl_sync(ALL, factor, 8 * q + 4 + k)
        c0, c1, c2, c3 = c0 + high * left, c1 + high * right, c2 + low * left, c3 + low * right
    return c0, c1, c2, c3


@cuda.jit(device=True)
def mma_plain(c, a, b):
    """What `mma_tf32` computes, with float32's digits, by shuffles and FMAs on CUDA cores."""
    return four_plain(four_plain(c, a[0], a[1], b[0]), a[2], a[3], b[1])


# --- the tile -------------------------------------------------------------------------------------


@cuda.jit(device=True)
def _is_there(value):
    return False


Awaits = tuple[Callable, Callable] | None  # load four elements; whether one is not there yet


def taken_by(awaits: Awaits) -> tuple[Callable, Callable]:
    """Both functions; without `awaits`, plain loads, of which no element is missing."""
    return awaits or (load4, _is_there)


@dataclass(frozen=True)
class Tile:
    """A product's tile: its size, and the device functions that compute it, in this order."""

    #: Takes (B, b0, column, b) and begins to load the second operand's first rounds into b.
    fetch: Callable
    #: Takes (shared, A, a0, B, b0, row, column, b) and leaves each warp's sums of the tile at (row,
    #: column) in `shared`. The matrices begin at a0 and b0 of the flat arrays A and B.
    multiply: Callable
    #: Takes (shared, row, column) and returns four neighbours, summed over the warps in order.
    four: Callable
    rows: int
    columns: int
    elements: int  # float32 elements of `shared`
    shape_b: tuple[int, int, int]  # shape of the local array b


def _row_at(row_pitch: int) -> Callable:
    @cuda.jit(device=True)
    def row_at(begin, row):
        return int32(begin + row * int32(row_pitch))

    return row_at


@cuda.jit(device=True)
def _row_found(starts, row):
    return load(starts[0], int32(starts[1] + row))


@cuda.jit(device=True)
def _row_at_pitch(given, row):
    return int32(given[0] + row * given[1])


@cuda.jit(device=True)
def _last_given(given):
    return given[2]


def _always(size: int) -> Callable:
    @cuda.jit(device=True)
    def size_of(begin):
        return int32(size)

    return size_of


def small_gemm_tile(
    layout: str, rows: int, columns: int, depth: int, row_pitches: tuple[int, int],
    precision: str, *, warps: int, fragments: tuple[int, int], ahead: int = 1, half_pitch: int = 0,
    exact: str = "", scattered: str = "", awaits: Awaits = None, given: bool = False, ones: int = 0,
) -> Tile:  # fmt: skip
    """A tile of a product; its rows, columns and depth are multiples of four.

    Parameters
    ----------
    layout : str
        As in `course.kernels.gemm.float32`.
    row_pitches : (int, int)
        Row strides of a and b, in elements.
    warps : int
        Warps of a block, which split the depth.
    fragments : (int, int)
        Fragments of 16 x 8 results, down and across. In "tn" (2, 4); in "nn" 2 or 4 across.
    ahead : int
        Rounds for which `fetch` loads the second operand.
    half_pitch : int
        The second half of the tile's columns lies so many columns behind the first, in "nt".
    exact : str
        The operand, "a" or "b", whose values TF32 represents exactly, such as pixels.
    scattered : str
        The operand, "a" in "nt" or "b" in "tn", whose rows are scattered. Its a0 or b0 is then a
        pair: an array of the rows' offsets, and the index of the first one to use.
    awaits : two functions, optional
        The first operand, in "tn" the second as well, is loaded again until all of it has been
        published. Four neighbours arrive together, so only the first of them is checked.
    given : bool
        In "tn": a0 and b0 are (first element, row stride, columns - 4) of an operand. So layers of
        different sizes share their code.
    ones : int
        In "tn": the second operand has one more column behind its last, filled with this number.
    """
    down, across = fragments
    high, wide = 16 * down, 8 * across
    upright_a, upright_b = layout == "tn", layout != "nt"
    four_wide = across == 4
    # row stride of the sums in shared memory, padded against bank conflicts of a warp's stores
    pitch = wide
    if layout == "nt" and wide % 32 not in (8, 24):
        pitch += 8
    elif layout == "nn" and four_wide:
        pitch += 4
    part = high * pitch
    row_pitch_a, row_pitch_b = row_pitches
    each = DEEP * warps
    rounds = min(ahead, ceil_div(depth, each))
    more = rounds * each < depth
    looped = more and upright_a
    ragged = depth % DEEP != 0
    split_a = precision == "tf32x3" and exact != "a"
    split_b = precision == "tf32x3" and exact != "b"
    plain = precision == "float32"
    whole_a, whole_b = plain or exact == "a", plain or exact == "b"
    mma = mma_plain if plain else mma_tf32
    half_across = across // 2 if half_pitch else across

    scattered_b = scattered == "b"
    waits, (await4, is_missing) = awaits is not None, taken_by(awaits)
    waits_b = waits and upright_a and not scattered_b
    await4_b = await4 if waits_b else load4
    row_start_a = (
        _row_at_pitch if given else _row_found if scattered == "a" else _row_at(row_pitch_a)
    )
    row_start_b = _row_at_pitch if given else _row_found if scattered_b else _row_at(row_pitch_b)
    last_a = _last_given if given else _always(rows - 4)
    last_b = _last_given if given else _always(columns - (4 if four_wide else 2))
    by_row_b = scattered_b or given

    # `more`, a round's distance from `start`, is constant, and so are its loads' address offsets

    @cuda.jit(device=True)
    def load_fragments_b(B, b0, column, start, more, b, slot):
        """Load a lane's elements of the second operand, 16 deep, from `start` + `more` on."""
        g, q = lane_of()
        k, beyond = int32(start + 4 * q), more
        if ragged:
            k, beyond = min(int32(k + more), int32(depth - 4)), 0
        if upright_b:
            c = int32(column + (4 * g if four_wide else 2 * g))
            at_end, one_more = column + (wide - 4) > last_b(b0), c > last_b(b0)
            c = min(c, last_b(b0))
            at = c if by_row_b else int32(row_start_b(b0, k) + c)
            for e in range(4):
                if by_row_b:
                    here = int32(row_start_b(b0, int32(k + beyond + e)) + at)
                else:
                    here = at + (beyond + e) * row_pitch_b
                if four_wide:
                    four = await4_b(B, here)
                    for n in range(4):
                        b[slot, n, e] = float32(four[n])
                    if ones and at_end and one_more:
                        b[slot, 0, e] = float32(ones)
                        for n in range(1, 4):
                            b[slot, n, e] = ZERO
                else:
                    two = load2(B, here)
                    for n in range(2):
                        b[slot, n, e] = float32(two[n])
        else:
            for n in range(across):
                c = int32(column + 8 * (n % half_across) + g)
                if half_pitch:
                    c = int32(min(c, int32(half_pitch - 1)) + n // half_across * half_pitch)
                at = int32(row_start_b(b0, min(c, int32(columns - 1))) + k)
                four = load4(B, at + beyond)
                for e in range(4):
                    b[slot, n, e] = float32(four[e])

    @cuda.jit(device=True)
    def load_fragments_a(A, a0, row, start, more, a, slot):
        """Load the same of the first operand, and 0 beyond the end of the depth."""
        g, q = lane_of()
        k, beyond = int32(start + 4 * q), more
        wanted = int32(k + more)
        if ragged:
            k, beyond = min(wanted, int32(depth - 4)), 0
        if upright_a:
            c = min(int32(row + 4 * g), last_a(a0))
            at = c if given else int32(row_start_a(a0, k) + c)
            for e in range(4):
                if given:
                    four = await4(A, int32(row_start_a(a0, int32(k + beyond + e)) + at))
                else:
                    four = await4(A, at + (beyond + e) * row_pitch_a)
                a[slot, 0, 0, e], a[slot, 0, 1, e] = float32(four[0]), float32(four[1])
                a[slot, 1, 0, e], a[slot, 1, 1, e] = float32(four[2]), float32(four[3])
        else:
            for m in range(down):
                for h in range(2):
                    r = min(int32(row + 16 * m + 8 * h + g), int32(rows - 1))
                    at = int32(row_start_a(a0, r) + k)
                    four = await4(A, at + beyond)
                    for e in range(4):
                        a[slot, m, h, e] = float32(four[e])
        if ragged and wanted >= depth:
            for m in range(down):
                for h in range(2):
                    for e in range(4):
                        a[slot, m, h, e] = ZERO

    @cuda.jit(device=True)
    def lacks(a, b, slot):
        """Whether some of a lane's awaited elements are not there yet."""
        found = False
        for e in range(4 if upright_a else 1):
            for m in range(1 if upright_a else down):
                for h in range(1 if upright_a else 2):
                    found = found or is_missing(a[slot, m, h, e])
            if waits_b:
                found = found or is_missing(b[slot, 0, e])
        return found

    @cuda.jit(device=True)
    def pause(A, a0, row):
        """Poll a few of the first operand's elements until they are there, with little traffic."""
        _, lane = of_lanes(cuda.threadIdx.x)
        k = min(int32(STRIDE * lane), int32(depth - 1))
        at = int32(row_start_a(a0, k) + min(row, last_a(a0)))
        while cuda.any_sync(ALL, is_missing(await4(A, at)[0])):
            cuda.nanosleep(uint32(PAUSE))

    @cuda.jit(device=True)
    def add(a, b, total, slot):
        """Multiply the fragments of a slot, 16 deep, and add the products to the sums."""
        upper_a = cuda.local.array((down, 2, 4), float32)
        upper_b = cuda.local.array((across, 4), float32)
        rest_a = cuda.local.array((down, 2, 4), float32)
        rest_b = cuda.local.array((across, 4), float32)
        for m in range(down):
            for h in range(2):
                for e in range(4):
                    value = a[slot, m, h, e]
                    upper_a[m, h, e], rest_a[m, h, e] = (value, ZERO) if whole_a else in_two(value)
        for n in range(across):
            for e in range(4):
                value = b[slot, n, e]
                upper_b[n, e], rest_b[n, e] = (value, ZERO) if whole_b else in_two(value)
        for m in range(down):
            for n in range(across):
                c = ZERO, ZERO, ZERO, ZERO
                for p in range(2):
                    i, j = 2 * p, 2 * p + 1
                    a4 = upper_a[m, 0, i], upper_a[m, 1, i], upper_a[m, 0, j], upper_a[m, 1, j]
                    b2 = upper_b[n, i], upper_b[n, j]
                    if split_a:
                        rest = rest_a[m, 0, i], rest_a[m, 1, i], rest_a[m, 0, j], rest_a[m, 1, j]
                        c = mma(c, rest, b2)
                    if split_b:
                        c = mma(c, a4, (rest_b[n, i], rest_b[n, j]))
                    c = mma(c, a4, b2)
                for e in range(4):
                    total[m, n, e] += c[e]

    # a function for each of the first rounds: slots are constants, so fragments stay in registers

    def first_rounds(n: int) -> tuple[Callable, Callable, Callable, Callable]:
        """Device functions for round n and later ones: load b, load a, is any missing, multiply."""
        if n == rounds:

            @cuda.jit(device=True)
            def no_load(factor, begin, place, start, to):
                pass

            @cuda.jit(device=True)
            def no_products(start, a, b, total):
                pass

            @cuda.jit(device=True)
            def none_lack(start, a, b):
                return False

            return no_load, no_load, none_lack, no_products
        first_has_it = (n * warps + warps - 1) * DEEP < depth
        all_have_it = depth % (rounds * each) == 0 if looped else first_has_it
        beyond = n * each
        later_b, later_a, later_lack, later = first_rounds(n + 1)

        @cuda.jit(device=True)
        def load_b(B, b0, column, start, b):
            if all_have_it or start < depth - beyond:  # uniform over the warp
                load_fragments_b(B, b0, column, start, beyond, b, n)
            later_b(B, b0, column, start, b)

        @cuda.jit(device=True)
        def load_a(A, a0, row, start, a):
            if all_have_it or start < depth - beyond:
                load_fragments_a(A, a0, row, start, beyond, a, n)
            later_a(A, a0, row, start, a)

        @cuda.jit(device=True)
        def some_lack(start, a, b):
            found = later_lack(start, a, b)
            if all_have_it or start < depth - beyond:
                found = found or lacks(a, b, n)
            return found

        @cuda.jit(device=True)
        def products(start, a, b, total):
            if all_have_it or start < depth - beyond:
                add(a, b, total, n)
            later(start, a, b, total)

        return load_b, load_a, some_lack, products

    all_b, all_a, any_lacks, all_products = first_rounds(0)

    @cuda.jit(device=True)
    def fetch(B, b0, column, b):
        if not looped:
            warp, _ = of_lanes(cuda.threadIdx.x)
            all_b(B, b0, column, int32(warp * DEEP), b)

    @cuda.jit(device=True)
    def multiply(shared, A, a0, B, b0, row, column, b):
        a = cuda.local.array((rounds, down, 2, 4), float32)
        total = cuda.local.array((down, across, 4), float32)
        g, q = lane_of()
        warp, _ = of_lanes(cuda.threadIdx.x)
        start = int32(warp * DEEP)
        for m in range(down):
            for n in range(across):
                for e in range(4):
                    total[m, n, e] = ZERO
        if looped:
            while start < depth:
                all_b(B, b0, column, start, b)
                all_a(A, a0, row, start, a)
                if waits:
                    while cuda.any_sync(ALL, any_lacks(start, a, b)):
                        pause(A, a0, row)
                        all_b(B, b0, column, start, b)
                        all_a(A, a0, row, start, a)
                all_products(start, a, b, total)
                start += int32(rounds * each)
        else:
            all_a(A, a0, row, start, a)
            if waits:
                while cuda.any_sync(ALL, any_lacks(start, a, b)):
                    if upright_a:
                        pause(A, a0, row)
                    if waits_b:
                        all_b(B, b0, column, start, b)
                    all_a(A, a0, row, start, a)
            all_products(start, a, b, total)
            start += int32(rounds * each)
            while more and start < depth:
                load_fragments_b(B, b0, column, start, 0, b, 0)
                load_fragments_a(A, a0, row, start, 0, a, 0)
                if waits:
                    while cuda.any_sync(ALL, lacks(a, b, 0)):
                        load_fragments_a(A, a0, row, start, 0, a, 0)
                add(a, b, total, 0)
                start += int32(each)
        cuda.syncthreads()  # all warps have read what lay in `shared` before
        base = int32(warp * part)
        for m in range(down):
            for h in range(2):
                r = 4 * g + 2 * m + h if upright_a else 16 * m + 8 * h + g
                at = int32(base + r * pitch)
                if not upright_b:
                    for n in range(across):
                        pair = total[m, n, 2 * h], total[m, n, 2 * h + 1]
                        store2(shared, at + 8 * n + 2 * q, pair)
                elif four_wide:
                    i, j = 2 * h, 2 * h + 1
                    one = total[m, 0, i], total[m, 1, i], total[m, 2, i], total[m, 3, i]
                    two = total[m, 0, j], total[m, 1, j], total[m, 2, j], total[m, 3, j]
                    at += 8 * q
                    if upright_a:  # odd lanes store their two vectors in reverse: no bank conflict
                        odd = g % 2 == 1
                        first = (two[0] if odd else one[0], two[1] if odd else one[1],
                                 two[2] if odd else one[2], two[3] if odd else one[3])  # fmt: skip
                        other = (one[0] if odd else two[0], one[1] if odd else two[1],
                                 one[2] if odd else two[2], one[3] if odd else two[3])  # fmt: skip
                        store4(shared, at + 4 * (g % 2), first)
                        store4(shared, at + 4 - 4 * (g % 2), other)
                    else:
                        store4(shared, at, one)
                        store4(shared, at + 4, two)
                else:
                    four = (total[m, 0, 2 * h], total[m, 1, 2 * h],
                            total[m, 0, 2 * h + 1], total[m, 1, 2 * h + 1])  # fmt: skip
                    store4(shared, at + 4 * q, four)
        cuda.syncthreads()

    @cuda.jit(device=True)
    def four(shared, row, column):
        at = int32(row * int32(pitch) + column)
        w, x, y, z = load4(shared, at)
        for n in range(1, warps):
            of = load4(shared, at + n * part)
            w, x, y, z = w + of[0], x + of[1], y + of[2], z + of[3]
        return w, x, y, z

    return Tile(fetch, multiply, four, high, wide, warps * part, (rounds, across, 4))
