"""Few results: a warp each, along the depth. For a network's last layer: a tile would be one block.

A product of 64 x 100 results is one tile, so one of 132 multiprocessors walks along the depth. Here
each result has a warp, whose lanes take eight numbers of both factors at a time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32

from course.backend import cuda
from course.door.layout import name_of
from course.kernels.arrays import Array, address_of
from course.kernels.halves.common import ELEMENTS, UNPACK
from course.kernels.norm.halves import as_words
from course.kernels.steps import Launch, ceil_div
from course.kernels.warps import WARP, lanes_sum
from warpsim.ptx.fragments import quotient
from warpsim.ptx.grid_dependency import follow
from warpsim.ptx.intrinsics import load4

MOST = 16_384  # results; of more a tile is read less often
EIGHT, WARPS = 8, 4  # numbers of an access; warps of a block
add_lanes = lanes_sum(WARP)


@functools.cache
def gemv(element: str, biased: bool) -> Callable:
    """The kernel of (a, b as words of two numbers, bias, out): out = a b' + bias.

    Mapping: warp w of block i has the result ``4 i + w``, along rows.
    Memory: a warp reads 512 bytes of both factors at a time; they come from L2.
    """
    ELEMENT, unpack = ELEMENTS[element], UNPACK[element]

    @cuda.jit(fastmath=True)
    def gemv_kernel(a, b, bias, out):
        follow()
        t = int32(cuda.threadIdx.x)
        number = int32(int32(cuda.blockIdx.x) * int32(WARPS) + t // int32(WARP))
        row = quotient(number, int32(out.shape[1]))
        column = int32(number - row * int32(out.shape[1]))
        if row < out.shape[0]:
            total = float32(0)
            for k in range(int32(4) * (t & int32(31)), int32(a.shape[1]), int32(4 * WARP)):
                x, y = load4(a, (row, int32(k))), load4(b, (column, int32(k)))
                for e in range(4):
                    left, right = unpack(x[e]), unpack(y[e])
                    total += left[0] * right[0] + left[1] * right[1]
            total = add_lanes(total)
            if t & int32(31) == 0:
                if biased:
                    total += float32(bias[column])
                out[row, column] = ELEMENT(total)

    return gemv_kernel


def takes(a: Array, b: Array, out: Array) -> bool:
    """Whether these, of the layout "nt", are few results of what is read 16 bytes at a time."""
    starts = [address_of(array) for array in (a, b)]
    steps = [n for array in (a, b) for n in (array.strides[0], 2 * array.shape[1])]
    return 0 < out.size <= MOST and bool(a.shape[1]) and not any(n % 16 for n in starts + steps)


def launches(a: Array, b: Array, bias: Array | None, out: Array) -> list[Launch]:
    """What it launches, for device arrays that it takes."""
    kernel = gemv(name_of(out.dtype), bias is not None)
    extra = out.reshape(out.size) if bias is None else bias
    arguments = as_words(a), as_words(b), extra, out
    return [Launch(kernel, ceil_div(out.size, WARPS), WARPS * WARP, arguments)]
