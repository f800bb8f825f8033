"""A warp's threads, its lanes: how many there are, and what they combine by shuffles."""

import functools
from collections.abc import Callable

from course.backend import cuda

WARP = 32
ALL = 0xFFFFFFFF  # lanes of a warp, a bit each


@functools.cache
def over_lanes(combined: Callable, lanes: int = WARP) -> Callable:
    """A device function: the values of neighbouring lanes combined, two by two, for each of them.

    There are a power of two of them. All lanes of the warp take part.
    """
    steps = lanes.bit_length() - 1

    @cuda.jit(device=True)
    def of_lanes(value):
        for step in range(steps):
            value = combined(value, cuda.shfl_xor_sync(ALL, value, lanes >> (step + 1)))
        return value

    return of_lanes


@functools.cache
def lanes_sum(lanes: int) -> Callable:
    """The same for a sum: the addition, as a function of its own, changed large kernels' code."""
    steps = lanes.bit_length() - 1

    @cuda.jit(device=True)
    def summed(value):
        for step in range(steps):
            value += cuda.shfl_xor_sync(ALL, value, lanes >> (step + 1))
        return value

    return summed


@cuda.jit(device=True)
def largest_of_four(x):
    """Of four neighbouring lanes, which have parts of one row."""
    x = max(x, cuda.shfl_xor_sync(ALL, x, 1))
    return max(x, cuda.shfl_xor_sync(ALL, x, 2))


@cuda.jit(device=True)
def sum_of_four(x):
    """The same for a sum."""
    x += cuda.shfl_xor_sync(ALL, x, 1)
    return x + cuda.shfl_xor_sync(ALL, x, 2)
