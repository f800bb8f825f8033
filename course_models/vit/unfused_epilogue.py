"""A product's epilogue as a kernel of its own, to show what fusion saves.

>>> launches(y, bias, None, y, "gelu")          # y = gelu(y + bias)
>>> launches(y, None, residual, out)            # out = y + residual
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32

from course.backend import cuda
from course.dispatch.slots import name_of
from course.kernels.arrays import Array, address_of, in_order
from course.kernels.gemm.tiles import ACTIVATIONS, ELEMENTS, or_anything
from course.kernels.steps import Launch
from warpsim.ptx import load2, store2

THREADS = 256


@functools.cache
def unfused_epilogue(
    element: str, activation: str, biased: bool, added: bool, wide: bool = True
) -> Callable:
    """The kernel of (x, bias, other, out): activation(x + bias) + other, for each element.

    Mapping: a block has a row; if `wide`, thread t has elements 2 t and 2 t + 1, then those 512 on.
    Memory: if `wide`, a warp loads 128 bytes of the row at a time; the bias comes from L2.
    """
    ELEMENT, act = ELEMENTS[element], ACTIVATIONS[activation] or ACTIVATIONS["gelu"]
    active, ZERO = bool(activation), float32(0)

    @cuda.jit(device=True)
    def finished(x, b, r):
        y = float32(x)
        if biased:
            y += float32(b)
        if active:
            y = act(y)
        if added:
            y += float32(r)
        return ELEMENT(y)

    @cuda.jit
    def apart_kernel(x, bias, other, out):
        row, t = int32(cuda.blockIdx.x), int32(cuda.threadIdx.x)
        if wide:
            for column in range(2 * t, x.shape[1], 2 * THREADS):
                c = int32(column)
                two = load2(x, (row, c))
                b = load2(bias, c) if biased else two
                r = load2(other, (row, c)) if added else two
                store2(out, (row, c), (finished(two[0], b[0], r[0]), finished(two[1], b[1], r[1])))
        else:
            for column in range(t, x.shape[1], THREADS):
                c = int32(column)
                b = float32(bias[c]) if biased else ZERO
                r = float32(other[row, c]) if added else ZERO
                out[row, c] = finished(x[row, c], b, r)

    return apart_kernel


def launches(
    x: Array, bias: Array | None, residual: Array | None, out: Array, activation: str = ""
) -> list[Launch]:
    """The launch of activation(x + bias) + residual, for device arrays (rows, columns).

    `out` may be x or the residual; the rows of x may be strided.
    """
    given = [one for one in (x, bias, residual, out) if one is not None]
    wide = x.shape[1] % 2 == 0 and not any(address_of(one) % 4 for one in given)
    kernel = unfused_epilogue(
        name_of(x.dtype), activation, bias is not None, residual is not None, wide
    )
    for array, name in ((bias, "bias"), (residual, "residual"), (out, "out")):
        if array is not None:
            in_order(array, name)
    arguments = in_order(x, "x", rows=True), *or_anything(bias, residual, out), out
    return [Launch(kernel, x.shape[0], THREADS, arguments)]
