"""Factors of an image, split and laid out for tensor cores: the first half of step 10.

A tensor core multiplies halves, float16 with 11 bits of fraction. To keep float32's accuracy each
number x is split into two halves, x = upper + lower, which hold 22 of its 24 bits. Halves reach
from 2^-14 to 65,504 only: each row of u and each column of s vt is first multiplied by a power of
two that brings its largest entry near 2^14; the inverses are kept for the result.

A tensor core takes its numbers from the registers of a whole warp, a *fragment*: 16 rows of u by 16
values of i, or 16 values of i by 8 columns of vt. They are written so that a lane's numbers are 16
neighbouring bytes, and the lanes' follow each other: whoever needs a fragment reads it in a row.
Beyond the last row, column and value of i there are zeros. Split once, a number need not be split
again by each of the many blocks that multiply it.

The fast-and-loose choice, kind "tf32", rounds each number to TF32, 11 bits of fraction.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import float32, int32

from course.backend import cuda
from warpsim.ptx import load, round_tf32, split_halves, store4

ROWS, COLUMNS, DEPTH = 16, 8, 16  # of fragments: rows of u, columns of vt, values of i of both
LANE_WORDS = 4  # in a row: 16 bytes
U_WORDS, VT_WORDS = 256, 128  # in a fragment
WARPS = 8  # of a block
WORDS = {"halves": np.uint32, "tf32": np.float32}  # what fragments are made of, by kind


@cuda.jit(device=True)
def power_near(largest):
    """The power of two that brings a number between 2^13 and 2^14; 2^114 for tiny ones."""
    _, exponent = math.frexp(largest)
    return float32(math.ldexp(float32(1), 14 - max(exponent, -100)))


@cuda.jit(device=True)
def of_u(u, row, i, k):
    """u[row, i], or 0 beyond the last row and from i = k on: read without a branch."""
    x = load(u, (min(row, int32(u.shape[0] - 1)), min(i, k - int32(1))))
    return x if row < u.shape[0] and i < k else float32(0)


@cuda.jit(device=True)
def of_vt(s, vt, i, column, k):
    """s[i] vt[i, column], or 0 beyond the last column and from i = k on."""
    near = min(i, k - int32(1))
    x = load(s, near) * load(vt, (near, min(column, int32(vt.shape[1] - 1))))
    return x if column < vt.shape[1] and i < k else float32(0)


@cuda.jit(device=True)
def two_of_u(u, row, i, k, power):
    """The upper and the lower halves of two neighbours in a row."""
    return split_halves(of_u(u, row, i, k) * power, of_u(u, row, i + int32(1), k) * power)


@cuda.jit(device=True)
def two_of_vt(s, vt, i, column, k, power):
    """The upper and the lower halves of two neighbours in a column."""
    x, y = of_vt(s, vt, i, column, k), of_vt(s, vt, i + int32(1), column, k)
    return split_halves(x * power, y * power)


@cuda.jit(device=True)
def largest_of_four(x):
    """The largest of the four lanes with the same lane // 4."""
    x = max(x, cuda.shfl_xor_sync(0xFFFFFFFF, x, 1))
    return max(x, cuda.shfl_xor_sync(0xFFFFFFFF, x, 2))


@cuda.jit(device=True)
def largest_of_row(u, row, k, warp, warps):
    """The largest magnitude in what a warp, one of several, has of a row; by lane % 4."""
    largest = float32(0)
    for start in range(warp * DEPTH + cuda.threadIdx.x % 4, k, warps * DEPTH):
        for e in range(0, DEPTH, 4):
            largest = max(largest, abs(of_u(u, row, int32(start + e), k)))
    return largest_of_four(largest)


@cuda.jit(device=True)
def largest_of_column(s, vt, column, k, warp, warps):
    """The same for a column of s vt."""
    largest = float32(0)
    for start in range(warp * DEPTH + cuda.threadIdx.x % 4, k, warps * DEPTH):
        for e in range(0, DEPTH, 4):
            largest = max(largest, abs(of_vt(s, vt, int32(start + e), column, k)))
    return largest_of_four(largest)


@cuda.jit(device=True)
def write_u(u, row, k, power, power_8, tile, pieces, fragment):
    """Split a warp's share of a fragment: its lanes' rows are `row` and `row` + 8."""
    lane = cuda.threadIdx.x % 32
    i = int32(tile * DEPTH + lane % 4 * 2)
    upper_0, lower_0 = two_of_u(u, row, i, k, power)
    upper_1, lower_1 = two_of_u(u, row + int32(8), i, k, power_8)
    upper_2, lower_2 = two_of_u(u, row, i + int32(8), k, power)
    upper_3, lower_3 = two_of_u(u, row + int32(8), i + int32(8), k, power_8)
    upper = upper_0, upper_1, upper_2, upper_3
    lower = lower_0, lower_1, lower_2, lower_3
    store4(pieces, (fragment, tile, LANE_WORDS * lane), upper)
    store4(pieces, (fragment, tile, U_WORDS // 2 + LANE_WORDS * lane), lower)


@cuda.jit(device=True)
def write_vt(s, vt, column, k, power, tile, pieces, fragment):
    """The same for a fragment of s vt: each lane has one column."""
    lane = cuda.threadIdx.x % 32
    i = int32(tile * DEPTH + lane % 4 * 2)
    upper_0, lower_0 = two_of_vt(s, vt, i, column, k, power)
    upper_1, lower_1 = two_of_vt(s, vt, i + int32(8), column, k, power)
    words = upper_0, upper_1, lower_0, lower_1
    store4(pieces, (fragment, tile, LANE_WORDS * lane), words)


@cuda.jit(device=True)
def write_u_tf32(u, row, k, tile, pieces, fragment):
    """As `write_u`, each number rounded to TF32: two fragments of 8 values of i."""
    lane = cuda.threadIdx.x % 32
    for h in range(2):
        i = int32(tile * DEPTH + 8 * h + lane % 4)
        w, x = of_u(u, row, i, k), of_u(u, row + int32(8), i, k)
        y, z = of_u(u, row, i + int32(4), k), of_u(u, row + int32(8), i + int32(4), k)
        four = round_tf32(w), round_tf32(x), round_tf32(y), round_tf32(z)
        store4(pieces, (fragment, tile, U_WORDS // 2 * h + LANE_WORDS * lane), four)


@cuda.jit(device=True)
def write_vt_tf32(s, vt, column, k, tile, pieces, fragment):
    """As `write_vt`, each number rounded to TF32."""
    lane = cuda.threadIdx.x % 32
    i = int32(tile * DEPTH + lane % 4)
    w, x = of_vt(s, vt, i, column, k), of_vt(s, vt, i + int32(4), column, k)
    y, z = of_vt(s, vt, i + int32(8), column, k), of_vt(s, vt, i + int32(12), column, k)
    four = round_tf32(w), round_tf32(x), round_tf32(y), round_tf32(z)
    store4(pieces, (fragment, tile, LANE_WORDS * lane), four)


class Splitters(NamedTuple):
    """Kernels that write fragments, for one image, and for many, one more axis in front.

    ``u(u, k, pieces, scale)`` takes u (rows, r) and fills pieces (fragments, tiles, U_WORDS) and
    scale, a number for each row of the fragments. ``vt(s, vt, k, pieces, scale)`` takes s (r,) and
    vt (r, columns) and fills pieces (fragments, tiles, VT_WORDS) and scale, one for each column.
    Tiles are ceil(k / 16). A block has 32 W x F threads, W F = WARPS: W warps for each of F
    fragments; with many images, the grid's y counts them.
    """

    u: Callable
    vt: Callable
    many_u: Callable
    many_vt: Callable


def splitters(kind: str) -> Splitters:
    """Make the kernels.

    Parameters
    ----------
    kind : {"halves", "tf32"}
        uint32 pieces of two halves each; or float32 pieces, all scales 1.
    """
    split = kind == "halves"

    @cuda.jit(device=True)
    def of_all_warps(found, largest, line):
        """The largest that the warps of a fragment found in one of its rows or columns."""
        warps, group = cuda.blockDim.x // 32, cuda.threadIdx.y
        found[group * warps + cuda.threadIdx.x // 32, line] = largest
        cuda.syncthreads()
        for other in range(warps):
            largest = max(largest, found[group * warps + other, line])
        return largest

    @cuda.jit(device=True)
    def split_rows(u, k, pieces, scale):
        warp, warps = cuda.threadIdx.x // 32, cuda.blockDim.x // 32
        fragment = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        g = cuda.threadIdx.x % 32 // 4
        row, power, power_8 = int32(fragment * ROWS + g), float32(1), float32(1)
        if split:
            found = cuda.shared.array((WARPS, ROWS), float32)
            largest = largest_of_row(u, row, k, warp, warps)
            largest_8 = largest_of_row(u, row + int32(8), k, warp, warps)
            power = power_near(of_all_warps(found, largest, g))
            power_8 = power_near(of_all_warps(found, largest_8, g + 8))
        if cuda.threadIdx.x % 4 == 0 and warp == 0:
            scale[row], scale[row + 8] = float32(1) / power, float32(1) / power_8
        for tile in range(warp, pieces.shape[1], warps):
            if split:
                write_u(u, row, k, power, power_8, tile, pieces, fragment)
            else:
                write_u_tf32(u, row, k, tile, pieces, fragment)

    @cuda.jit(device=True)
    def split_columns(s, vt, k, pieces, scale):
        warp, warps = cuda.threadIdx.x // 32, cuda.blockDim.x // 32
        fragment = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        g = cuda.threadIdx.x % 32 // 4
        column, power = int32(fragment * COLUMNS + g), float32(1)
        if split:
            found = cuda.shared.array((WARPS, COLUMNS), float32)
            largest = largest_of_column(s, vt, column, k, warp, warps)
            power = power_near(of_all_warps(found, largest, g))
        if cuda.threadIdx.x % 4 == 0 and warp == 0:
            scale[column] = float32(1) / power
        for tile in range(warp, pieces.shape[1], warps):
            if split:
                write_vt(s, vt, column, k, power, tile, pieces, fragment)
            else:
                write_vt_tf32(s, vt, column, k, tile, pieces, fragment)

    @cuda.jit
    def split_u(u, k, pieces, scale):
        split_rows(u, int32(k), pieces, scale)

    @cuda.jit
    def split_vt(s, vt, k, pieces, scale):
        split_columns(s, vt, int32(k), pieces, scale)

    @cuda.jit
    def split_many_u(u, k, pieces, scale):
        image = cuda.blockIdx.y
        split_rows(u[image], int32(k), pieces[image], scale[image])

    @cuda.jit
    def split_many_vt(s, vt, k, pieces, scale):
        image = cuda.blockIdx.y
        split_columns(s[image], vt[image], int32(k), pieces[image], scale[image])

    return Splitters(split_u, split_vt, split_many_u, split_many_vt)
