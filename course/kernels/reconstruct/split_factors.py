"""Factors of an image, split and laid out for tensor cores: the first launches of step 10.

Tensor cores multiply float16, 11 bits of fraction. To keep float32's accuracy, each element x is
split into two, x = upper + lower, which hold 22 of its 24 bits. But float16 reaches from 2^-14 to
65,504 only. So a power of two first scales each row of u and each column of s vt, so that its
largest entry is about 2^14. The inverses of these powers are kept to scale the result.

A tensor core takes its operands from the registers of a whole warp, a *fragment*: 16 rows of u by
16 values of i, or 16 values of i by 8 columns of vt. Fragments are stored in the order of lanes, 16
bytes each, so that they are loaded coalesced. Beyond the last row, column and value of i there are
zeros. So an element is split once, not by each of the many blocks that multiply it.

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
LANE_REGISTERS = 4  # contiguous registers of a lane: 16 bytes
U_REGISTERS, VT_REGISTERS = 256, 128  # in a fragment
WARPS = 8  # of a block
REGISTER_TYPES = {"float16": np.uint32, "tf32": np.float32}  # of fragments


@cuda.jit(device=True)
def power_near(largest):
    """The power of two that scales `largest` to 2^13 .. 2^14; for tiny magnitudes 2^114."""
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


@cuda.jit(device=True)
def two_rounded(x, y):
    """The counterpart of `split_halves` for TF32: two rounded elements, one a register."""
    return round_tf32(x), round_tf32(y)


class Splitters(NamedTuple):
    """Kernels that write fragments: for one image, and for many, with one more axis in front.

    ``u(u, k, fragments, scale)`` takes u (rows, r) and fills fragments (fragments, tiles,
    U_REGISTERS) and scale, one for each row of them. ``vt(s, vt, k, fragments, scale)`` takes s
    (r,) and vt (r, columns) and fills fragments (fragments, tiles, VT_REGISTERS) and scale, one for
    each column.
    There are ceil(k / 16) tiles. A block has 32 W x F threads, W F = WARPS: W warps for each of F
    fragments. With many images, the grid's y is the image.
    """

    u: Callable
    vt: Callable
    many_u: Callable
    many_vt: Callable


def splitters(dtype: str) -> Splitters:
    """The kernels for "float16", two elements a register; or for "tf32", one, with scales of 1."""
    split = dtype == "float16"
    in_registers = split_halves if split else two_rounded

    def splitting(LINES: int, element: Callable) -> Callable:
        """Device function that splits lines: rows of u or columns of s vt, `LINES` a fragment.

        ``element(factor, line, i, k)`` is an element of a line. A lane has one of 8 lines; of 16
        lines, also the one eight further on.
        """
        two = LINES == ROWS

        @cuda.jit(device=True)
        def largest_of(factor, line, k, warp, warps):
            """The largest magnitude among a warp's elements of a line."""
            largest = float32(0)
            for start in range(warp * DEPTH + cuda.threadIdx.x % 4, k, warps * DEPTH):
                for e in range(0, DEPTH, 4):
                    largest = max(largest, abs(element(factor, line, int32(start + e), k)))
            return largest_of_four(largest)

        @cuda.jit(device=True)
        def power_of(found, first, warps, index):
            """A line's power of two, by the largest magnitude that its fragment's warps found."""
            largest = float32(0)
            for other in range(warps):
                largest = max(largest, found[first + other, index])
            return power_near(largest)

        @cuda.jit(device=True)
        def two_of(factor, line, i, k, power):
            x, y = element(factor, line, i, k), element(factor, line, i + int32(1), k)
            return in_registers(x * power, y * power)

        @cuda.jit(device=True)
        def split_lines(factor, k, fragments, scale):
            lane, warp, warps = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32, cuda.blockDim.x // 32
            fragment = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
            g, at = lane // 4, LANE_REGISTERS * lane
            line, power, power_8 = int32(fragment * LINES + g), float32(1), float32(1)
            if split:
                found, first = cuda.shared.array((WARPS, LINES), float32), cuda.threadIdx.y * warps
                found[first + warp, g] = largest_of(factor, line, k, warp, warps)
                if two:
                    below = largest_of(factor, line + int32(8), k, warp, warps)
                    found[first + warp, g + 8] = below
                cuda.syncthreads()
                power = power_of(found, first, warps, g)
                if two:
                    power_8 = power_of(found, first, warps, g + 8)
            if lane % 4 == 0 and warp == 0:
                scale[line] = float32(1) / power
                if two:
                    scale[line + 8] = float32(1) / power_8
            for tile in range(warp, fragments.shape[1], warps):
                i = int32(tile * DEPTH + lane % 4 * 2)
                w, x = two_of(factor, line, i, k, power)
                y, z = two_of(factor, line, i + int32(8), k, power)
                if two:
                    a, b = two_of(factor, line + int32(8), i, k, power_8)
                    c, d = two_of(factor, line + int32(8), i + int32(8), k, power_8)
                    store4(fragments, (fragment, tile, at), (w, a, y, c))
                    store4(fragments, (fragment, tile, U_REGISTERS // 2 + at), (x, b, z, d))
                else:
                    store4(fragments, (fragment, tile, at), (w, y, x, z))

        return split_lines

    split_rows, split_columns = splitting(ROWS, of_u), splitting(COLUMNS, of_vt)

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
