"""Factors of an image, split and laid out for tensor cores: the first launches of step 10.

Tensor cores multiply float16, 11 bits of fraction. To keep float32's accuracy each element x is
split into two, x = upper + lower, which hold 22 of its 24 bits. float16 reaches from 2^-14 to
65,504 only: each row of u and each column of s vt is first scaled by a power of two, so that its
largest entry is about 2^14; the inverses are kept for the result.

A tensor core takes its operands from the registers of a whole warp, a *fragment*: 16 rows of u by
16 values of i, or 16 values of i by 8 columns of vt. Fragments are stored in the order of lanes, 16
bytes each, so that they are loaded coalesced. Beyond the last row, column and value of i there are
zeros. An element is split once, and not by each of the many blocks that multiply it.

With "tf32" each element is rounded to TF32, 11 bits of fraction, and not split.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.kernels.warps import largest_of_four
from warpsim.ptx import load, round_tf32, split_halves, store4

ROWS, COLUMNS, DEPTH = 16, 8, 16  # of fragments: rows of u, columns of vt, values of i of both
LANE_REGISTERS = 4  # in a row: 16 bytes
U_REGISTERS, VT_REGISTERS = 256, 128  # in a fragment
WARPS = 8  # of a block
REGISTER_TYPES = {"float16": np.uint32, "tf32": np.float32}  # of fragments


@cuda.jit(device=True)
def power_near(largest):
    """The power of two that scales to between 2^13 and 2^14; 2^114 for tiny magnitudes."""
    _, exponent = math.frexp(largest)
    return float32(math.ldexp(float32(1), 14 - max(exponent, -100)))


@cuda.jit(device=True)
def of_u(u, row, i, k):
    """u[row, i], or 0 beyond the last row and from i = k on; the load's index is clamped."""
    x = load(u, (min(row, int32(u.shape[0] - 1)), min(i, k - int32(1))))
    return x if row < u.shape[0] and i < k else float32(0)


@cuda.jit(device=True)
def of_vt(factors, column, i, k):
    """s[i] vt[i, column], or 0 beyond the last column and from i = k on."""
    s, vt = factors
    clamped = min(i, k - int32(1))
    x = load(s, clamped) * load(vt, (clamped, min(column, int32(vt.shape[1] - 1))))
    return x if column < vt.shape[1] and i < k else float32(0)


def of_lines(element: Callable) -> tuple[Callable, Callable]:
    """Device functions of what `element` gives, of a row of u or a column of s vt.

    The upper and the lower parts of two neighbours; and the largest magnitude in what a warp, one
    of several, has, by lane % 4.
    """

    @cuda.jit(device=True)
    def two_of(factor, line, i, k, power):
        x, y = element(factor, line, i, k), element(factor, line, i + int32(1), k)
        return split_halves(x * power, y * power)

    @cuda.jit(device=True)
    def largest_of(factor, line, k, warp, warps):
        largest = float32(0)
        for start in range(warp * DEPTH + cuda.threadIdx.x % 4, k, warps * DEPTH):
            for e in range(0, DEPTH, 4):
                largest = max(largest, abs(element(factor, line, int32(start + e), k)))
        return largest_of_four(largest)

    return two_of, largest_of


two_of_u, largest_of_row = of_lines(of_u)
two_of_vt, largest_of_column = of_lines(of_vt)


@cuda.jit(device=True)
def store_u(u, row, k, powers, tile, fragments, fragment):
    """Split and store a warp's part of a fragment: a lane's rows are `row` and `row` + 8."""
    lane, (power, power_8) = cuda.threadIdx.x % 32, powers
    i = int32(tile * DEPTH + lane % 4 * 2)
    upper_0, lower_0 = two_of_u(u, row, i, k, power)
    upper_1, lower_1 = two_of_u(u, row + int32(8), i, k, power_8)
    upper_2, lower_2 = two_of_u(u, row, i + int32(8), k, power)
    upper_3, lower_3 = two_of_u(u, row + int32(8), i + int32(8), k, power_8)
    upper = upper_0, upper_1, upper_2, upper_3
    lower = lower_0, lower_1, lower_2, lower_3
    store4(fragments, (fragment, tile, LANE_REGISTERS * lane), upper)
    store4(fragments, (fragment, tile, U_REGISTERS // 2 + LANE_REGISTERS * lane), lower)


@cuda.jit(device=True)
def store_vt(factors, column, k, powers, tile, fragments, fragment):
    """The same for a fragment of s vt: each lane has one column."""
    lane, (power, _) = cuda.threadIdx.x % 32, powers
    i = int32(tile * DEPTH + lane % 4 * 2)
    upper_0, lower_0 = two_of_vt(factors, column, i, k, power)
    upper_1, lower_1 = two_of_vt(factors, column, i + int32(8), k, power)
    registers = upper_0, upper_1, lower_0, lower_1
    store4(fragments, (fragment, tile, LANE_REGISTERS * lane), registers)


@cuda.jit(device=True)
def store_u_tf32(u, row, k, tile, fragments, fragment):
    """As `store_u`, each element rounded to TF32: two fragments of 8 values of i."""
    lane = cuda.threadIdx.x % 32
    for h in range(2):
        i = int32(tile * DEPTH + 8 * h + lane % 4)
        w, x = of_u(u, row, i, k), of_u(u, row + int32(8), i, k)
        y, z = of_u(u, row, i + int32(4), k), of_u(u, row + int32(8), i + int32(4), k)
        four = round_tf32(w), round_tf32(x), round_tf32(y), round_tf32(z)
        store4(fragments, (fragment, tile, U_REGISTERS // 2 * h + LANE_REGISTERS * lane), four)


@cuda.jit(device=True)
def store_vt_tf32(factors, column, k, tile, fragments, fragment):
    """As `store_vt`, each element rounded to TF32."""
    lane = cuda.threadIdx.x % 32
    i = int32(tile * DEPTH + lane % 4)
    w, x = of_vt(factors, column, i, k), of_vt(factors, column, i + int32(4), k)
    y, z = of_vt(factors, column, i + int32(8), k), of_vt(factors, column, i + int32(12), k)
    four = round_tf32(w), round_tf32(x), round_tf32(y), round_tf32(z)
    store4(fragments, (fragment, tile, LANE_REGISTERS * lane), four)


class Splitters(NamedTuple):
    """Kernels that write fragments, for one image, and for many, one more axis in front.

    ``u(u, k, fragments, scale)`` takes u (rows, r) and fills fragments (fragments, tiles,
    U_REGISTERS) and scale, one for each row of them. ``vt(s, vt, k, fragments, scale)`` takes s
    (r,) and vt (r, columns) and fills fragments (fragments, tiles, VT_REGISTERS) and scale, one for
    each column.
    Tiles are ceil(k / 16). A block has 32 W x F threads, W F = WARPS: W warps for each of F
    fragments; with many images, the grid's y counts them.
    """

    u: Callable
    vt: Callable
    many_u: Callable
    many_vt: Callable


def splitters(dtype: str) -> Splitters:
    """The kernels of "float16", two in a register; or of "tf32", one, all scales 1."""
    split = dtype == "float16"

    @cuda.jit(device=True)
    def of_all_warps(found, largest, index):
        """The largest that the warps of a fragment found in one of its rows or columns."""
        warps, group = cuda.blockDim.x // 32, cuda.threadIdx.y
        found[group * warps + cuda.threadIdx.x // 32, index] = largest
        cuda.syncthreads()
        for other in range(warps):
            largest = max(largest, found[group * warps + other, index])
        return largest

    def splitting(LINES: int, largest_of: Callable, store: Callable, rounded: Callable) -> Callable:
        """Of `ROWS` lines a lane has two, eight apart."""
        two = LINES == ROWS

        @cuda.jit(device=True)
        def split_lines(factor, k, fragments, scale):
            warp, warps = cuda.threadIdx.x // 32, cuda.blockDim.x // 32
            fragment = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
            g = cuda.threadIdx.x % 32 // 4
            line, power, power_8 = int32(fragment * LINES + g), float32(1), float32(1)
            if split:
                found = cuda.shared.array((WARPS, LINES), float32)
                largest = largest_of(factor, line, k, warp, warps)
                largest_8 = largest_of(factor, line + int32(8), k, warp, warps) if two else largest
                power = power_near(of_all_warps(found, largest, g))
                if two:
                    power_8 = power_near(of_all_warps(found, largest_8, g + 8))
            if cuda.threadIdx.x % 4 == 0 and warp == 0:
                inverse, inverse_8 = float32(1) / power, float32(1) / power_8
                scale[line] = inverse
                if two:
                    scale[line + 8] = inverse_8
            for tile in range(warp, fragments.shape[1], warps):
                if split:
                    store(factor, line, k, (power, power_8), tile, fragments, fragment)
                else:
                    rounded(factor, line, k, tile, fragments, fragment)

        return split_lines

    split_rows = splitting(ROWS, largest_of_row, store_u, store_u_tf32)
    split_columns = splitting(COLUMNS, largest_of_column, store_vt, store_vt_tf32)

    @cuda.jit
    def split_u(u, k, fragments, scale):
        split_rows(u, int32(k), fragments, scale)

    @cuda.jit
    def split_vt(s, vt, k, fragments, scale):
        split_columns((s, vt), int32(k), fragments, scale)

    @cuda.jit
    def split_many_u(u, k, fragments, scale):
        image = cuda.blockIdx.y
        split_rows(u[image], int32(k), fragments[image], scale[image])

    @cuda.jit
    def split_many_vt(s, vt, k, fragments, scale):
        image = cuda.blockIdx.y
        split_columns((s[image], vt[image]), int32(k), fragments[image], scale[image])

    return Splitters(split_u, split_vt, split_many_u, split_many_vt)
