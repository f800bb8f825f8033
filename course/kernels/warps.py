"""A warp's threads, its lanes: how many there are, and a sum over them by shuffles."""

import functools
from collections.abc import Callable

from course.backend import cuda

WARP = 32
ALL = 0xFFFFFFFF  # lanes of a warp, a bit each


@functools.cache
def lanes_sum(lanes: int) -> Callable:
    """A device function: the sum over neighbouring lanes, a power of two of them, for each.

    All lanes of the warp take part.
    """
    steps = lanes.bit_length() - 1

    @cuda.jit(device=True)
    def summed(value):
        for step in range(steps):
            value += cuda.shfl_xor_sync(ALL, value, lanes >> (step + 1))
        return value

    return summed
