"""Products by mma.sync straight from global memory: thin, shallow or without any alignment.

Where a result has few rows or few columns, the larger operand is read once and hardly reused. There
shared memory gains nothing; what counts is enough loads in flight on every multiprocessor. So each
warp loads its fragments into registers itself. The depth may be summed in any order that is the
same for both operands. A lane takes eight neighbours along the depth, 16 bytes of a row.

The warps of a block split the depth of one tile, or have tiles of their own. Blocks can split the
depth, too, see `course.kernels.gemm.partial`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import float32, int32, uint32

from course.backend import cuda
from course.heuristics.gemm import CHUNK, ThinConfig
from course.kernels.arrays import Array, address_of, as_words, flat
from course.kernels.gemm import partial
from course.kernels.gemm.tiles import ELEMENTS, epilogue, or_anything, shifted
from course.kernels.steps import Launch, ceil_div
from warpsim.ptx import grid_dependency_wait, load, load2, load4, mma_bf16, mma_f16, quotient, store

NEAR = 8  # elements past a chunk that vector accesses may read


@functools.cache
def fragment_loader(along: bool, lines: int, aligned: bool) -> tuple[Callable, Callable]:
    """Device functions that load a warp's part of an operand: at once, at its ends, one by one.

    They are of ``(fragment, words, elements, first, many, k, pitch, last, deep, total)``, 32 deep.
    Word e of a lane's line l has the depths ``8 (lane % 4) + 2 e`` and the next. With `along` the
    operand is contiguous along the depth, and line l is row or column ``8 l + lane / 4``. Without,
    it is contiguous along the lines, and line l is ``lines (lane / 4) + l``.

    Unaligned rows take two vector accesses for one, and a shift. At the operand's ends indices are
    clamped, so that no access leaves the matrix; elements beyond the depth are wrong and masked
    later. Parts that are neither aligned nor `inside` are loaded element by element.
    """
    WORDS = 4 if along else max(lines // 2, 1)  # words of a lane's access
    ROWS, TWICE, MANY = lines if along else 8, 2 * WORDS, 8 if along else lines
    LOW, HIGH, shift = uint32(0xFFFF), uint32(0xFFFF0000), shifted(WORDS)
    load_some = load4 if WORDS == 4 else load2

    @cuda.jit(device=True, forceinline=True)
    def access(raw, r, words, at):
        """Load `WORDS` words from an element on: by one access, or by two and a shift."""
        found = cuda.local.array(TWICE, uint32)
        over = int32(0 if aligned else at & (TWICE - 1))
        for n in range(1 if aligned else 2):
            w = int32(((at - over) >> 1) + n * WORDS)
            if WORDS > 1:
                some = load_some(words, w)
                for e in range(WORDS):
                    found[WORDS * n + e] = some[e]
            else:
                found[n] = load(words, w)
        if not aligned:
            shift(found, over)
        for e in range(WORDS):
            raw[r, e] = found[e]

    def at_once_of(bounded):
        @cuda.jit(device=True, forceinline=True)
        def at_once(fragment, words, elements, first, many, k, pitch, last, deep, total):
            lane = int32(cuda.threadIdx.x & 31)
            g, t = int32(lane >> 2), int32(lane & 3)
            depth, column, most = int32(k + 8 * t), int32(first + lines * g), int32(total - MANY)
            if along:
                for r in range(ROWS):
                    at = int32(min(int32(first + 8 * r + g), int32(last)) * pitch + depth)
                    access(fragment, r, words, min(at, most) if bounded and aligned else at)
            else:
                raw = cuda.local.array((ROWS, WORDS), uint32)
                start = int32(depth * pitch + column)
                for r in range(ROWS):
                    at = int32(start + r * pitch)
                    if bounded:
                        at = int32(min(int32(depth + r), int32(deep - 1)) * pitch + column)
                        at = min(at, most) if aligned or lines == 1 else at
                    if lines == 1:
                        raw[r, 0] = uint32(load(elements, at))
                    else:
                        access(raw, r, words, at)
                for p in range(4):
                    for w in range(WORDS):
                        x, y = raw[2 * p, w], raw[2 * p + 1, w]
                        fragment[2 * w, p] = (x & LOW) | (y << uint32(16))
                        if lines > 1:
                            fragment[2 * w + 1, p] = (x >> uint32(16)) | (y & HIGH)

        return at_once

    @cuda.jit(device=True, forceinline=True)
    def one_by_one(fragment, words, elements, first, many, k, pitch, last, deep, total):
        lane = int32(cuda.threadIdx.x & 31)
        g, t = int32(lane >> 2), int32(lane & 3)
        for line in range(lines):
            row = int32(first + (8 * line + g if along else lines * g + line))
            row = min(row, int32(last))
            for p in range(4):
                word = uint32(0)
                for h in range(2):
                    d = int32(k + 8 * t + 2 * p + h)
                    if d < deep:
                        at = int32(row * pitch + d) if along else int32(d * pitch + row)
                        word |= uint32(load(elements, at)) << uint32(16 * h)
                fragment[line, p] = word

    return at_once_of(False), at_once_of(True), one_by_one


@functools.cache
def gemm(
    element: str, along: tuple[bool, bool], aligned: tuple[bool, bool], swapped: bool,
    config: ThinConfig, epilogue_of: tuple[str, bool, bool] | None,
) -> Callable:  # fmt: skip
    """The kernel of (wide and thin operand, each as words and as elements, out, bias, ...).

    Then come the wide and the thin side, the depth, row strides of both operands, and how many
    elements each has. That is 0 where an operand does not begin at a multiple of 16 bytes. With
    `swapped` the wide side is that of the columns. Without `epilogue_of`, block z stores its
    partial sums to ``out[z]``, in float32.

    Mapping: block (x, y, z) computes `config.beside` tiles along the wide side and one along the
    thin, for part z of the depth. A tile's `config.deep` warps take its chunks round-robin.
    Memory: a warp's load covers 8 rows of 64 bytes each, or 4 rows of 128, 64 or 32.
    """
    DOWN, ACROSS, DEEP, BESIDE = config
    WIDE, THIN, WARPS = config.wide, config.thin, config.warps
    wide_at_once, wide_at_end, wide_one_by_one = fragment_loader(along[0], 2 * DOWN, aligned[0])
    thin_at_once, thin_at_end, thin_one_by_one = fragment_loader(along[1], ACROSS, aligned[1])
    (wide_along, thin_along), (wide_aligned, thin_aligned) = along, aligned
    mma = mma_bf16 if element == "bfloat16" else mma_f16
    is_partial = epilogue_of is None
    finished = epilogue(*(epilogue_of or ("", False, False)))
    ELEMENT, ZERO = ELEMENTS[element], float32(0)
    TILE, LINES = WIDE * THIN, 2 * DOWN
    ALL, NEAR_SIDE = WARPS * TILE, WIDE if swapped else THIN  # along a row of results
    OWN, ROUNDS = BESIDE * TILE, ceil_div(BESIDE * TILE, 32 * WARPS)
    BATCH = min(8, ROUNDS)
    TILE_BITS, NEAR_BITS = TILE.bit_length() - 1, NEAR_SIDE.bit_length() - 1

    @cuda.jit(device=True, forceinline=True)
    def inside(is_along, is_aligned, tile):
        """Whether vector accesses to a warp's part of an operand would stay inside the matrix."""
        first, many, k, pitch, last, deep, total = tile
        if is_along:
            row, end = min(int32(first + many - 1), int32(last)), int32(k + CHUNK)
        else:
            row, end = min(int32(k + CHUNK), int32(deep)) - 1, int32(first + many)
        return row * pitch + end + (0 if is_aligned else NEAR) <= total

    @cuda.jit(device=True, forceinline=True)
    def masked(fragment, lines, left):
        """Zero the elements beyond the depth, of which `left` remain from the chunk's first on."""
        for p in range(4):
            here = int32(left - 8 * int32(cuda.threadIdx.x & 3) - 2 * p)
            keep = uint32(0xFFFFFFFF) if here > 1 else uint32(0xFFFF) if here > 0 else uint32(0)
            for line in range(lines):
                fragment[line, p] &= keep

    @cuda.jit(device=True, forceinline=True)
    def place_of(r, left, start):
        """Row and column of a block's result r, and the index of its first warp's sum."""
        tile, place = int32(r >> TILE_BITS), int32(r & (TILE - 1))
        low, high = int32(place & (NEAR_SIDE - 1)), int32(place >> NEAR_BITS)
        at, left = int32(tile * (DEEP * TILE) + place), int32(left + tile * WIDE)
        if swapped:
            return int32(high + start), int32(low + left), at
        return int32(high + left), int32(low + start), at

    @cuda.jit(launch_bounds=(32 * WARPS, 2), fastmath=True)
    def gemm_thin(
        wide_words, wide_elements, thin_words, thin_elements, out, bias, other,
        wide, thin, depth, wide_pitch, thin_pitch, wide_total, thin_total,
    ):  # fmt: skip
        shared = cuda.shared.array(ALL, float32)
        sums = cuda.local.array((DOWN, ACROSS, 4), float32)
        fa = cuda.local.array((LINES, 4), uint32)
        fb = cuda.local.array((ACROSS, 4), uint32)
        t = int32(cuda.threadIdx.x)
        warp, lane = int32(t >> 5), int32(t & 31)
        beside, part = int32(warp // DEEP), int32(warp % DEEP)
        first = int32((int32(cuda.blockIdx.x) * BESIDE + beside) * WIDE)
        start = int32(int32(cuda.blockIdx.y) * THIN)
        for i in range(DOWN):
            for j in range(ACROSS):
                for e in range(4):
                    sums[i, j, e] = ZERO
        grid_dependency_wait()
        chunks = int32((int32(depth) + (CHUNK - 1)) >> 5)
        splits, z = int32(cuda.gridDim.z), int32(cuda.blockIdx.z)
        per_split = quotient(int32(chunks + splits - 1), splits)
        end = min(chunks, int32((z + 1) * per_split))
        chunk = int32(z * per_split + part)
        if first >= wide:
            chunk = end
        while chunk < end:
            k = int32(chunk << 5)
            its = first, WIDE, k, wide_pitch, int32(wide - 1), depth, wide_total
            of = start, THIN, k, thin_pitch, int32(thin - 1), depth, thin_total
            wide_inside = inside(wide_along, wide_aligned, its)
            thin_inside = inside(thin_along, thin_aligned, of)
            if k + CHUNK <= depth and wide_inside and thin_inside:  # all loads at once
                wide_at_once(fa, wide_words, wide_elements, *its)
                thin_at_once(fb, thin_words, thin_elements, *of)
            else:
                if wide_aligned or wide_inside:
                    wide_at_end(fa, wide_words, wide_elements, *its)
                else:
                    wide_one_by_one(fa, wide_words, wide_elements, *its)
                if thin_aligned or thin_inside:
                    thin_at_end(fb, thin_words, thin_elements, *of)
                else:
                    thin_one_by_one(fb, thin_words, thin_elements, *of)
                masked(fa, LINES, int32(depth - k))
                masked(fb, ACROSS, int32(depth - k))
            for s in range(2):
                for i in range(DOWN):
                    for j in range(ACROSS):
                        c = sums[i, j, 0], sums[i, j, 1], sums[i, j, 2], sums[i, j, 3]
                        a = (
                            fa[2 * i, 2 * s], fa[2 * i + 1, 2 * s],
                            fa[2 * i, 2 * s + 1], fa[2 * i + 1, 2 * s + 1],
                        )  # fmt: skip
                        c = mma(c, a, (fb[j, 2 * s], fb[j, 2 * s + 1]))
                        for e in range(4):
                            sums[i, j, e] = c[e]
            chunk = int32(chunk + DEEP)
        g, two = int32(lane >> 2), int32(2 * (lane & 3))
        mine = int32(warp * TILE)
        for i in range(DOWN):
            for j in range(ACROSS):
                for e in range(4):
                    line, near = 2 * i + e // 2, int32(two + e % 2)
                    w = int32(8 * line + g) if wide_along else int32(2 * DOWN * g + line)
                    n = int32(8 * j + near) if thin_along else int32(ACROSS * near + j)
                    place = int32(n * WIDE + w) if swapped else int32(w * THIN + n)
                    shared[mine + place] = sums[i, j, e]
        cuda.syncthreads()
        left = int32(int32(cuda.blockIdx.x) * BESIDE * WIDE)
        rows, columns = (thin, wide) if swapped else (wide, thin)
        found = cuda.local.array(BATCH, float32)
        for batch in range(0, ROUNDS, BATCH):  # a batch is loaded before its first store
            for n in range(BATCH):
                r = min(int32(t + (batch + n) * (32 * WARPS)), int32(OWN - 1))
                row, column, at = place_of(r, left, start)
                x = ZERO
                for d in range(DEEP):
                    x += shared[int32(at + d * TILE)]
                if not is_partial:
                    high, low = min(row, int32(rows - 1)), min(column, int32(columns - 1))
                    x = finished(x, bias, other, high, low)
                found[n] = x
            for n in range(BATCH):
                r = int32(t + (batch + n) * (32 * WARPS))
                row, column, _ = place_of(r, left, start)
                if r < OWN and row < rows and column < columns:
                    if is_partial:
                        store(out, (z, row, column), found[n])
                    else:
                        store(out, (row, column), ELEMENT(found[n]))

    return gemm_thin


def launches(
    config: ThinConfig, splits: int, swapped: bool, p, a: Array, b: Array,
    bias: Array | None, residual: Array | None, out: Array,
) -> list[Launch]:  # fmt: skip
    """What is launched with a config and `splits` blocks that share the depth."""
    sides = [(a, p.rows, p.layout != "tn"), (b, p.columns, p.layout == "nt")]
    wide, thin = sides[::-1] if swapped else sides
    factors, pitches, totals = [], [], []
    aligned = p.aligned[1::-1] if swapped else p.aligned[:2]
    for array, _, _ in (wide, thin):
        line, start = flat(array, "a factor"), address_of(array)
        factors += [as_words(line), as_words(line, 2)]
        pitches.append(np.int32(array.shape[1]))
        totals.append(np.int32(array.size if start % 16 == 0 else 0))
    along = wide[2], thin[2]
    sums, epilogue_of, behind = out, p.epilogue, []
    if splits > 1:
        sums, epilogue_of = partial.workspace_for(splits, out), None
        behind = partial.launches(sums, bias, residual, out, p.epilogue[0])
    kernel = gemm(p.dtype, along, aligned, swapped, config, epilogue_of)
    grid = ceil_div(wide[1], config.wide * config.beside), ceil_div(thin[1], config.thin), splits
    extra = or_anything(bias, residual, out)
    sizes = np.int32(wide[1]), np.int32(thin[1]), np.int32(p.depth)
    arguments = (*factors, sums, *extra, *sizes, *pitches, *totals)
    return [Launch(kernel, grid, 32 * config.warps, arguments), *behind]
