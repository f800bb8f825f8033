"""Reductions within a warp: what its lanes combine by shuffles."""

import functools
from collections.abc import Callable

from course.backend import cuda

WARP = 32
ALL = 0xFFFFFFFF  # the mask of all lanes of a warp, a bit each


@functools.cache
def over_lanes(combined: Callable, lanes: int = WARP) -> Callable:
    """A device function that reduces each group of `lanes` neighbouring lanes by shuffles.

    `lanes` is a power of two. Every lane gets its group's result; all lanes of the warp must call.
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
    """`over_lanes` for sums. Passed as a function, the addition changed large kernels' code."""
    steps = lanes.bit_length() - 1

    @cuda.jit(device=True)
    def summed(value):
        for step in range(steps):
            value += cuda.shfl_xor_sync(ALL, value, lanes >> (step + 1))
        return value

    return summed


@cuda.jit(device=True)
def largest_of_four(x):
    """The maximum over four neighbouring lanes, which hold parts of one row."""
    x = max(x, cuda.shfl_xor_sync(ALL, x, 1))
    return max(x, cuda.shfl_xor_sync(ALL, x, 2))


@cuda.jit(device=True)
def sum_of_four(x):
    """The sum over four neighbouring lanes."""
    x += cuda.shfl_xor_sync(ALL, x, 1)
    return x + cuda.shfl_xor_sync(ALL, x, 2)
