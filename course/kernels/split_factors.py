"""What `layer_tiles` is made of beside `mma_tf32`: factors cut in two, plain cores' product."""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32, uint32, uint64

from course.backend import cuda
from course.kernels.steps import ceil_div
from course.kernels.warps import ALL, WARP

ZERO = float32(0)
LEVEL = 2**13  # TF32 has 13 bits of fraction fewer than float32


@functools.cache
def parts_of(size: int) -> Callable:
    """Device function: how many whole times a number holds `size`, and what is left.

    Of numbers from 0 to 2**31 - 1. `//` and `%` of Numba work on 64 bits and look at signs: some
    thirty instructions. A product with 2**places / size, rounded up, has the quotient above them.

    Source: Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
    """
    shift, rest = size.bit_length() - 1, size - 1
    places = 31 + size.bit_length()
    inverse = ceil_div(2**places, size)

    @cuda.jit(device=True)
    def shifted(n):
        return int32(n >> shift), int32(n & rest)

    @cuda.jit(device=True)
    def divided(n):
        whole = int32((uint64(uint32(n)) * uint64(inverse)) >> uint64(places))
        return whole, int32(n - whole * size)

    return divided if size & rest else shifted


of_lanes, _fours = parts_of(WARP), parts_of(4)


@cuda.jit(device=True)
def lane_of():
    """A lane's row and column in the instructions' pieces."""
    return _fours(of_lanes(cuda.threadIdx.x)[1])


@cuda.jit(device=True)
def in_two(value):
    """Its nearest number of TF32, below 4e34, and the rest, by three operations of float32.

    Rounding by the instruction for it takes a Hopper GPU five. The product has to be rounded before
    the second line subtracts from it: a compiler may join a product and a sum that are written as
    such, and then nothing is rounded at all. What is written as `fma` it leaves as it is.
    Source: Dekker, "A floating-point technique for extending the available precision", 1971.
    """
    higher = cuda.fma(float32(LEVEL + 1), value, ZERO)
    upper = cuda.fma(float32(-LEVEL), value, higher)
    return upper, value - upper


@cuda.jit(device=True)
def four_plain(c, upper, lower, factor):
    """Four of the eight products along the depth, for `mma_plain`."""
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
    """What `mma_tf32` does, with float32's digits, by shuffles and plain multiply-adds."""
    return four_plain(four_plain(c, a[0], a[1], b[0]), a[2], a[3], b[1])
