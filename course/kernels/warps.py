"""A warp's threads, its lanes, and a block's: what they combine of their values."""

import functools
from collections.abc import Callable

from course.backend import cuda

WARP = 32
ALL = 0xFFFFFFFF  # lanes of a warp, a bit each


@cuda.jit(device=True)
def added(a, b):
    """The sum of two."""
    return a + b


@cuda.jit(device=True)
def larger(a, b):
    """The larger of two; what becomes of NaN is not said."""
    return max(a, b)


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


def lanes_sum(lanes: int) -> Callable:
    """The same for a sum."""
    return over_lanes(added, lanes)


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


@functools.cache
def over_block(combined: Callable, threads: int) -> Callable:
    """A device function: the values of a block's threads combined in a tree, for all of them.

    Half of the threads combine two, then a quarter. Each has a place in `shared`, which may be
    written again once all have read their result.
    """

    @cuda.jit(device=True)
    def of_block(value, shared):
        t = cuda.threadIdx.x
        shared[t] = value
        cuda.syncthreads()
        half = threads // 2
        while half > 0:
            if t < half:
                shared[t] = combined(shared[t], shared[t + half])
            cuda.syncthreads()
            half //= 2
        return shared[0]

    return of_block
