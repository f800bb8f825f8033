"""Rebuild an image from its SVD, step 10: tensor cores.

A tensor core multiplies halves, float16 with 11 bits of fraction, sixteen times as fast as the
other units multiply float32, and adds the products in float32. To keep float32's accuracy each
number x is split into two halves, x = upper + lower, which hold 22 of its 24 bits, and

    x y = lower upper' + upper lower' + upper upper'

is three products of halves; the fourth, lower lower', is below what float32 can show. Two things
must be seen to. Halves reach from 2^-14 to 65,504 only: u and vt are multiplied by powers of two
that bring their largest entry near 2^14, and the result by their inverses. And tensor cores cut
bits off when they add: after every 16 values of i the sum is added to a float32 sum outside.

The fast-and-loose choice rounds each number to TF32, 11 bits of fraction, and multiplies once.

Lane l of a warp has g = l // 4 and q = l % 4. Of each 16 values of i, it multiplies 4 q to 4 q + 3:
which of them a tensor core takes for which is free, as long as u and vt agree.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from numba import float32, int32, uint32

from course.backend import cuda
from course.intrinsics import (
    load,
    load2,
    load4,
    mma_f16,
    mma_f16_k8,
    mma_tf32,
    split_halves,
    store,
    store2,
    store4,
)

DEPTH = 16  # values of i in a tile
QUADS = DEPTH // 4
TOGETHER = 8  # rows of blocks that run at about the same time


@dataclass(frozen=True)
class TensorShape:
    """The sizes of the tiles, as tuned for a GPU.

    Attributes
    ----------
    rows, columns : int
        Results of a warp; multiples of 16 and 8.
    warps_down, warps_across : int
        Warps of a block.
    max_registers : int
        Registers of a thread.
    """

    rows: int = 64
    columns: int = 64
    warps_down: int = 2
    warps_across: int = 2
    max_registers: int = 255

    @property
    def block_rows(self) -> int:
        return self.rows * self.warps_down

    @property
    def block_columns(self) -> int:
        return self.columns * self.warps_across

    @property
    def threads(self) -> int:
        return 32 * self.warps_down * self.warps_across


SHAPES = {"sm_75": TensorShape(columns=32), "sm_90": TensorShape()}


# --- the largest entries, which decide what u and vt are multiplied by ---------------------------

SCAN_THREADS = 256


@cuda.jit(device=True)
def add_largest(u, s, vt, k, largest):
    """Raise largest[0] and [1] to the largest magnitudes of u[:, :k] and of s[i] * vt[i], i < k."""
    big_u, big_vt = float32(0), float32(0)
    t = cuda.threadIdx.x
    for row in range(cuda.blockIdx.x, u.shape[0], cuda.gridDim.x):
        for i in range(t, k, SCAN_THREADS):
            big_u = max(big_u, abs(u[row, i]))
    for i in range(cuda.blockIdx.x, k, cuda.gridDim.x):
        for column in range(t, vt.shape[1], SCAN_THREADS):
            big_vt = max(big_vt, abs(s[i] * vt[i, column]))
    for step in (16, 8, 4, 2, 1):
        big_u = max(big_u, cuda.shfl_xor_sync(0xFFFFFFFF, big_u, step))
        big_vt = max(big_vt, cuda.shfl_xor_sync(0xFFFFFFFF, big_vt, step))
    if t % 32 == 0:
        cuda.atomic.max(largest, 0, big_u)
        cuda.atomic.max(largest, 1, big_vt)


@cuda.jit
def clear(largest):
    """Set all to 0: the start of `largest_entries`. Launch with a thread for each."""
    i = cuda.grid(1)
    if i < largest.size:
        largest[i] = float32(0)


@cuda.jit
def largest_entries(u, s, vt, k, largest):
    """What `add_largest` says, for one image; largest has 2 numbers, which are 0 before.

    Launch with blocks of SCAN_THREADS threads, any number of them.
    """
    add_largest(u, s, vt, k, largest)


@cuda.jit
def largest_entries_of_many(u, s, vt, k, largest):
    """The same for many images; largest has 2 numbers for each, one after the other."""
    image = cuda.blockIdx.y
    add_largest(u[image], s[image], vt[image], k, largest[2 * image : 2 * image + 2])


@cuda.jit(device=True)
def power_near(largest):
    """The power of two that brings a number between 2^13 and 2^14; 2^114 for tiny ones."""
    _, exponent = math.frexp(largest)
    return float32(math.ldexp(float32(1), 14 - max(exponent, -100)))


def tensor_tiles(
    shape: TensorShape, aligned: bool, kind: str = "halves", deep: bool = True
) -> tuple[Callable, Callable]:
    """The kernels of step 10, for one image (u, s, vt, k, out, largest) and for many.

    Parameters
    ----------
    aligned : bool
        As in step 7.
    kind : {"halves", "tf32"}
        Float32's accuracy from halves, or one product of TF32; the latter ignores `largest`.
    deep : bool
        Whether the GPU multiplies 16 values of i at once (8.0); else 8 (7.5).
    """
    split = kind == "halves"
    threads, block_rows, block_columns = shape.threads, shape.block_rows, shape.block_columns
    warp_rows, warp_columns, warps_down = shape.rows, shape.columns, shape.warps_down
    half_warp_rows = warp_rows // 2
    down, across = warp_rows // 16, warp_columns // 8  # a warp's results, in fragments
    middle = down // 2
    word = uint32 if split else float32
    # A thread brings rows g and g + 8 of a fragment, four values of i of each, ...
    pairs, pairs_a_go = block_rows // 2, threads // QUADS
    u_goes = pairs // pairs_a_go
    # ... and four values of i of `wide` neighbouring columns.
    wide = 2 if aligned and block_columns // (threads // QUADS) == 2 else 4 if aligned else 1
    columns_a_go = threads // QUADS * wide
    vt_goes = block_columns // columns_a_go
    two, four = wide == 2, wide == 4
    shift = {1: 0, 2: 1, 4: 2}[wide]
    share_u, share_vt = 8 * u_goes, 4 * wide * vt_goes

    # --- load a tile: global memory to registers -----------------------------------------------

    @cuda.jit(device=True)
    def bring(u, s, vt, start, k, whole, first_row, first_column, up_u, up_vt, next_u, next_vt):
        """Where the tile is not whole, because k ends in it, there are zeros from k on."""
        t = int32(cuda.threadIdx.x)
        last_row, last_column = int32(u.shape[0] - 1), int32(vt.shape[1] - wide)
        i = start + t % QUADS * 4
        for go in range(u_goes):
            pair = t // QUADS + go * pairs_a_go
            for h in range(2):
                row = min(int32(first_row + pair // 8 * 16 + pair % 8 + 8 * h), last_row)
                n = 8 * go + 4 * h
                if aligned and whole:
                    w, x, y, z = load4(u, (row, i))
                    next_u[n], next_u[n + 1] = w * up_u, x * up_u
                    next_u[n + 2], next_u[n + 3] = y * up_u, z * up_u
                else:
                    for e in range(4):
                        here = whole or i + e < k
                        next_u[n + e] = load(u, (row, i + e)) * up_u if here else float32(0)
        for e in range(4):
            here = whole or i + e < k
            scale = load(s, i + e) * up_vt if here else float32(0)
            for go in range(vt_goes):
                wanted = int32(first_column + t // QUADS * wide + go * columns_a_go)
                column, n = min(wanted, last_column), (go * 4 + e) * wide
                if four and whole:
                    w, x, y, z = load4(vt, (i + e, column))
                    next_vt[n], next_vt[n + 1] = w * scale, x * scale
                    next_vt[n + 2], next_vt[n + 3] = y * scale, z * scale
                elif two and whole:
                    w, x = load2(vt, (i + e, column))
                    next_vt[n], next_vt[n + 1] = w * scale, x * scale
                else:
                    for c in range(wide):
                        number = load(vt, (i + e, column + c)) * scale if here else float32(0)
                        next_vt[n + c] = number

    # --- ... and registers to shared memory, split, as the tensor cores want them ----------------

    @cuda.jit(device=True)
    def place_of(column):
        """Columns change places by twos, so that no two stores of a warp meet in a bank."""
        return column ^ (column >> shift & 1) if shift else column

    @cuda.jit(device=True)
    def put(u_tile, vt_tile, stage, x, y):
        """x: the thread's share of u; y: of vt."""
        t = int32(cuda.threadIdx.x)
        quad = t % QUADS
        for go in range(u_goes):
            n, pair = 8 * go, t // QUADS + go * pairs_a_go
            if split:
                h0, l0 = split_halves(x[n], x[n + 1])
                h1, l1 = split_halves(x[n + 4], x[n + 5])
                h2, l2 = split_halves(x[n + 2], x[n + 3])
                h3, l3 = split_halves(x[n + 6], x[n + 7])
                store4(u_tile, (stage, 0, pair, quad, 0), (h0, h1, h2, h3))
                store4(u_tile, (stage, 1, pair, quad, 0), (l0, l1, l2, l3))
            else:
                low, high = (
                    (x[n], x[n + 4], x[n + 1], x[n + 5]),
                    (x[n + 2], x[n + 6], x[n + 3], x[n + 7]),
                )
                store4(u_tile, (stage, 0, pair, quad, 0), low)
                store4(u_tile, (stage, 1, pair, quad, 0), high)
        for go in range(vt_goes):
            for e in range(wide):
                column = place_of(int32(t // QUADS * wide + go * columns_a_go + e))
                n = go * 4 * wide + e
                if split:
                    h0, l0 = split_halves(y[n], y[n + wide])
                    h1, l1 = split_halves(y[n + 2 * wide], y[n + 3 * wide])
                    store4(vt_tile, (stage, column, quad, 0), (h0, h1, l0, l1))
                else:
                    rows = y[n], y[n + wide], y[n + 2 * wide], y[n + 3 * wide]
                    store4(vt_tile, (stage, column, quad, 0), rows)

    # --- multiply ------------------------------------------------------------------------------

    @cuda.jit(device=True)
    def product(c, a, b0, b1):
        """c + a b for one fragment of results."""
        if deep:
            return mma_f16(c, a, (b0, b1))
        half = mma_f16_k8(c, (a[0], a[1]), b0)
        return mma_f16_k8(half, (a[2], a[3]), b1)

    @cuda.jit(device=True)
    def read_vt(vt_tile, stage, column, quad, b):
        for n in range(across):
            b[n, 0], b[n, 1], b[n, 2], b[n, 3] = load4(vt_tile, (stage, column + 8 * n, quad, 0))

    @cuda.jit(device=True)
    def multiply(total, u_tile, stage, pair, quad, b, first, end):
        """Add to rows `first` to `end` of the warp's fragments; small terms before large ones."""
        zero = (float32(0), float32(0), float32(0), float32(0))
        part = cuda.local.array((across, 4), float32)
        for m in range(first, end):
            upper = load4(u_tile, (stage, 0, pair + 8 * m, quad, 0))
            lower = load4(u_tile, (stage, 1, pair + 8 * m, quad, 0))
            for n in range(across):
                if split:
                    c = product(zero, lower, b[n, 0], b[n, 1])
                else:
                    c = mma_tf32(zero, upper, (b[n, 0], b[n, 1]))
                part[n, 0], part[n, 1], part[n, 2], part[n, 3] = c
            for n in range(across):
                c = part[n, 0], part[n, 1], part[n, 2], part[n, 3]
                if split:
                    c = product(c, upper, b[n, 2], b[n, 3])
                else:
                    c = mma_tf32(c, lower, (b[n, 2], b[n, 3]))
                part[n, 0], part[n, 1], part[n, 2], part[n, 3] = c
            if split:
                for n in range(across):
                    c = part[n, 0], part[n, 1], part[n, 2], part[n, 3]
                    c = product(c, upper, b[n, 0], b[n, 1])
                    part[n, 0], part[n, 1], part[n, 2], part[n, 3] = c
            for n in range(across):
                for e in range(4):
                    total[m, n, e] += part[n, e]  # in float32, outside of the tensor cores

    # --- store ---------------------------------------------------------------------------------

    @cuda.jit(device=True)
    def save(out, total, first_row, first_column, down_u, down_vt):
        for m in range(down):
            for h in range(2):
                row = first_row + 16 * m + 8 * h
                if row < out.shape[0]:
                    for n in range(across):
                        column = first_column + 8 * n
                        w = total[m, n, 2 * h] * down_u * down_vt
                        x = total[m, n, 2 * h + 1] * down_u * down_vt
                        if aligned:
                            if column < out.shape[1]:
                                store2(out, (row, column), (w, x))
                        else:
                            if column < out.shape[1]:
                                store(out, (row, column), w)
                            if column + 1 < out.shape[1]:
                                store(out, (row, column + 1), x)

    # --- the block's work ----------------------------------------------------------------------

    @cuda.jit(device=True)
    def block_tile(u, s, vt, k, out, largest, first_row, first_column):
        u_tile = cuda.shared.array((2, 2, pairs, QUADS, 4), word)
        vt_tile = cuda.shared.array((2, block_columns, QUADS, 4), word)
        total = cuda.local.array((down, across, 4), float32)
        b = cuda.local.array((across, 4), word)
        x = cuda.local.array(share_u, float32)
        y = cuda.local.array(share_vt, float32)
        t = int32(cuda.threadIdx.x)
        warp, lane = t // int32(32), t % int32(32)
        g, quad = lane // int32(4), lane % int32(4)
        pair = int32(warp % warps_down * half_warp_rows + g)
        column = int32(warp // warps_down * warp_columns + place_of(g))
        up_u, up_vt = float32(1), float32(1)
        if split:
            up_u, up_vt = power_near(largest[0]), power_near(largest[1])
        for m in range(down):
            for n in range(across):
                for e in range(4):
                    total[m, n, e] = float32(0)
        last = (k - 1) // DEPTH * DEPTH  # the tile in which k ends comes first
        bring(u, s, vt, last, k, False, first_row, first_column, up_u, up_vt, x, y)
        put(u_tile, vt_tile, 0, x, y)
        if last > 0:
            bring(u, s, vt, 0, k, True, first_row, first_column, up_u, up_vt, x, y)
        cuda.syncthreads()
        stage = 0
        for start in range(DEPTH, last + DEPTH, DEPTH):
            read_vt(vt_tile, stage, column, quad, b)
            multiply(total, u_tile, stage, pair, quad, b, 0, middle)
            put(u_tile, vt_tile, 1 - stage, x, y)
            multiply(total, u_tile, stage, pair, quad, b, middle, down)
            ahead = min(start, last - DEPTH)  # the last time, something that nobody uses
            bring(u, s, vt, ahead, k, True, first_row, first_column, up_u, up_vt, x, y)
            stage = 1 - stage
            cuda.syncthreads()
        read_vt(vt_tile, stage, column, quad, b)
        multiply(total, u_tile, stage, pair, quad, b, 0, down)
        first_row += warp % warps_down * warp_rows + g
        first_column += warp // warps_down * warp_columns + 2 * quad
        save(out, total, first_row, first_column, float32(1) / up_u, float32(1) / up_vt)

    @cuda.jit(fastmath=True, max_registers=shape.max_registers)
    def reconstruct_tensor_tiles(u, s, vt, k, out, largest):
        # Blocks go down TOGETHER rows of tiles before they go on to the next column.
        wide_grid, high_grid = uint32(cuda.gridDim.x), uint32(cuda.gridDim.y)
        number = uint32(uint32(cuda.blockIdx.y) * wide_grid + uint32(cuda.blockIdx.x))
        band = uint32(uint32(TOGETHER) * wide_grid)
        first = uint32(uint32(number // band) * uint32(TOGETHER))
        height = uint32(min(uint32(high_grid - first), uint32(TOGETHER)))
        inside = uint32(number % band)
        first_row = int32(uint32(first + inside % height) * uint32(block_rows))
        first_column = int32(uint32(inside // height) * uint32(block_columns))
        block_tile(u, s, vt, k, out, largest, first_row, first_column)

    @cuda.jit(fastmath=True, max_registers=shape.max_registers)
    def reconstruct_many(u, s, vt, k, out, largest):
        image = cuda.blockIdx.z
        first_row = int32(cuda.blockIdx.y * block_rows)
        first_column = int32(cuda.blockIdx.x * block_columns)
        two = largest[2 * image : 2 * image + 2]
        block_tile(u[image], s[image], vt[image], k, out[image], two, first_row, first_column)

    return reconstruct_tensor_tiles, reconstruct_many
