"""What the steps share: which tile a block takes, and the epilogue of a result."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from numba import float32, int32, types, uint32, uint64

from course.backend import cuda
from course.kernels.activation import FAR, MINUS_ZERO, TANH_CUBE, TANH_SLOPE
from course.kernels.arrays import Array, flat
from warpsim.ptx import load, quotient
from warpsim.ptx.bfloat16 import bfloat16

ROW_GROUP = 16  # rows of tiles in a group, see `tile_coordinates`
ELEMENTS = {"float16": types.float16, "bfloat16": bfloat16}
HALF, SLOPE, CUBE = float32(0.5), TANH_SLOPE, float32(TANH_SLOPE * TANH_CUBE)


#: log2 of the probability that a standard normal value exceeds t, as a polynomial, constant first:
#: three terms fewer than in `course.kernels.activation`. Fitted to t from 0 to 6: the error of t
#: times the probability is at most 4e-6, a tenth of float16's rounding. Beyond 6 it falls to 0.
TAIL = (-1.000038981437683, -1.1504411697387695, -0.4611421227455139, -0.05064047873020172,
        0.006606933660805225, -0.0004080078797414899)  # fmt: skip
T0, T1, T2, T3, T4, T5 = map(float32, TAIL)


@cuda.jit(device=True, fastmath=True)
def fast_gelu(x):
    """GELU to the accuracy of 16-bit results: max(x, 0) - |x| tail(|x|)."""
    t = abs(x)
    p = T5 * t + T4
    p = p * t + T3
    p = p * t + T2
    p = p * t + T1
    # the factor t is clamped, the power's t is not: a NaN stays one, and infinity gives FAR * 0
    return max(x, MINUS_ZERO) - min(t, FAR) * math.exp2(p * t + T0)


@cuda.jit(device=True, fastmath=True)
def fast_gelu_tanh(x):
    """`gelu_tanh` by tanh.approx, whose error is up to 2**-11, as cuBLAS's epilogues compute it."""
    half = HALF * x
    return half + half * math.tanh(x * (SLOPE + CUBE * x * x))


ACTIVATIONS = {"": None, "gelu": fast_gelu, "gelu tanh": fast_gelu_tanh}


@cuda.jit(device=True)
def tile_coordinates(number, down, across, row_group):
    """Row and column of a tile, ordered for L2 hits: down first, in groups of `row_group` rows."""
    per_group = int32(row_group * across)
    b = quotient(number, per_group)
    high = int32(min(row_group, int32(down - b * row_group)))
    rest = int32(number - b * per_group)
    column = quotient(rest, high)
    return int32(b * row_group + rest - column * high), column


@cuda.jit(device=True)
def clamp_tile(start, size, length):
    """A tile's start, moved back where the tile would end beyond the matrix, but not below 0.

    TMA takes about 3 cycles for a row that is outside, and all blocks wait for the one that has it.
    Tiles overlap then, and the results that two share are stored twice, with the same values.
    """
    return int32(max(int32(0), min(int32(start), int32(length - size))))


@functools.cache
def shifted(words: int) -> Callable:
    """Device function ``(found, over)``: move `words` words to the front, from an element on."""

    @cuda.jit(device=True, forceinline=True)
    def shift(found, over):
        for e in range(2 * words - 2 if words > 2 else 0):
            found[e] = found[e + 2] if over & 4 else found[e]
        for e in range(words + 1 if words > 1 else 0):
            found[e] = found[e + 1] if over & 2 else found[e]
        for e in range(words):
            both = uint64(found[e + 1]) << uint64(32) | uint64(found[e])
            found[e] = uint32(both >> uint64(16 * (over & 1)))

    return shift


def or_anything(bias: Array | None, residual: Array | None, out: Array) -> tuple[Array, Array]:
    """Bias and residual for a kernel; where one is None, an array that stands in for it."""
    return flat(out, "out") if bias is None else bias, out if residual is None else residual


@functools.cache
def epilogue(activation: str, biased: bool, added: bool) -> Callable:
    """Device function ``(x, bias, other, row, column) -> x`` that finishes one result.

    The bias is added first, then the activation is applied, then the residual `other` is added.
    """
    act: Any = ACTIVATIONS[activation]
    active = act is not None
    act = act if active else fast_gelu

    @cuda.jit(device=True)
    def finished(x, bias, other, row, column):
        if biased:
            x += float32(load(bias, int32(column)))
        if active:
            x = act(x)
        if added:
            x += float32(load(other, (int32(row), int32(column))))
        return x

    return finished
