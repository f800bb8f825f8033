"""What an epilogue does, as a kernel of its own: what fusing saves. And a product turned.

>>> launches(y, bias, None, y, "gelu")          # y = gelu(y + bias)
>>> launches(y, None, residual, out)            # out = y + residual
>>> product_turned(a, b)                        # (a b')', without a transposition
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from numba import float32, int32

from course.backend import cuda
from course.door.door import Stream
from course.door.layout import name_of
from course.kernels.arrays import Array, flat, in_order
from course.kernels.halves.common import ELEMENTS, epilogue, epilogue2
from course.kernels.halves.products import product
from course.kernels.intrinsics import load2, store2

THREADS = 256


@functools.cache
def finished_apart(
    element: str, activation: str, biased: bool, added: bool, wide: bool = True
) -> Callable:
    """The kernel of (x, bias, other, out): activation(x + bias) + other, for each element.

    Mapping: a block has a row; thread t its numbers 2 t and 2 t + 1, then those 512 on.
    Memory: `wide`, a warp reads 128 bytes of the row at a time; the bias comes from L2.
    """
    ELEMENT = ELEMENTS[element]
    one, two = epilogue(activation, biased, added), epilogue2(activation, biased, added)

    @cuda.jit
    def apart_kernel(x, bias, other, out):
        row, t = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        if wide:
            for column in range(2 * t, x.shape[1], 2 * THREADS):
                c = int32(column)
                pair = load2(x, (row, c))
                p, q = two(float32(pair[0]), float32(pair[1]), bias, other, row, c, True)
                store2(out, (row, c), (ELEMENT(p), ELEMENT(q)))
        else:
            for column in range(t, x.shape[1], THREADS):
                c = int32(column)
                out[row, c] = ELEMENT(one(float32(x[row, c]), bias, other, row, c))

    return apart_kernel


def launches(
    x: Array, bias: Array | None, residual: Array | None, out: Array, activation: str = "",
    stream: Any = 0,
) -> list[tuple[Callable, tuple]]:  # fmt: skip
    """The launch of activation(x + bias) + residual, for device arrays (rows, columns).

    `out` may be x or the residual; the rows of x may lie apart.
    """
    given = [one for one in (x, bias, residual, out) if one is not None]
    starts = [one.__cuda_array_interface__["data"][0] for one in given]
    wide = x.shape[1] % 2 == 0 and not any(start % 4 for start in starts)
    kernel = finished_apart(
        name_of(x.dtype), activation, bias is not None, residual is not None, wide
    )
    arguments = (
        in_order(x, "x", rows=True),
        flat(out, "out") if bias is None else in_order(bias, "bias"),
        out if residual is None else in_order(residual, "residual"),
        in_order(out, "out"),
    )
    return [(kernel[x.shape[0], THREADS, stream], arguments)]


def product_turned(
    a: Array, b: Array, layout: str = "nt", out: Array | None = None, method: str = "auto",
    stream: Stream = None,
) -> Array:  # fmt: skip
    """The transposed product (columns, rows), by swapping the operands: (A B)' = B' A'.

    What lies transposed as the second factor is what a first factor is, and the other way round:
    "nt" of (b, a) is "nt" of (a, b), turned, and so with "tn". Nothing is copied. A result in
    column-major order is the same: its memory is that of the transposed in row-major order.

    Raises
    ------
    ValueError
        For "nn", which turned is "tt": no product here takes both factors transposed.
    """
    if layout == "nn":
        raise ValueError(
            "the layout 'nn' turned would be 'tt', which there is not: give b as (columns, depth), "
            "layout 'nt', or a as (depth, rows), layout 'tn'"
        )
    return product(b, a, layout, out=out, method=method, stream=stream)
