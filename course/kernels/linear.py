"""A fully connected layer: out = activation(x weight' + bias), for few rows.

>>> y = linear(x, weight, bias, "gelu")            # NumPy in, NumPy out; GPU arrays stay there

x (rows, inputs), weight (outputs, inputs) as PyTorch has it, bias (outputs,). The steps:

=========  ===================================================================================
"naive"    a thread a result; the activation is a kernel of its own
"warp"     a warp a result of a few rows, its lanes along the inputs; the activation is fused
=========  ===================================================================================

For many rows it is a product of matrices, see `course.kernels.reconstruct`. For few, what counts is
that weights are read side by side and that there are enough warps.
"""

import functools
from collections.abc import Callable

import numpy as np
from numba import float32

from course.backend import cuda
from course.door.door import Result, Stream
from course.door.libraries import Seen
from course.kernels.activation import each
from course.kernels.arrays import Array, blocks_over, checked_float32, flat, known
from course.kernels.convolution import LayerLaunch, function_of, layer_door, threads_for
from course.kernels.intrinsics import load
from course.kernels.warps import WARP, lanes_sum

ZERO = float32(0)
WARPS = 8  # of a block, each with an output
ROWS = 4  # of a warp: a weight is read once for all of them
LADDER = ("naive", "warp")  # the steps
NAIVE_BLOCK = (32, 8)

sum_of_lanes = lanes_sum(WARP)


@cuda.jit
def linear_naive(x, weight, bias, out):
    """LayerLaunch 1, without activation. Mapping: thread (column, row) has out[row, column].

    Memory: lanes walk the outputs, so that each reads a row of the weights of its own: 32 sectors
    for 32 numbers.
    """
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = bias[column]
        for i in range(x.shape[1]):
            total += x[row, i] * weight[column, i]
        out[row, column] = total


@functools.cache
def warps(function: Callable, rows: int = ROWS) -> Callable:
    """LayerLaunch 2, of (x, weight, bias, out), with the activation.

    Mapping: warp w of block (b, r) has output 8 b + w of the rows r rows, ..., its lanes the inputs
    lane, lane + 32, ...: they read weights and rows side by side, and add up by shuffles.
    Memory: a weight is read once for `rows` rows; the rows are shared by the block's warps in L1.
    """

    @cuda.jit
    def linear_warps(x, weight, bias, out):
        lane, output = cuda.threadIdx.x, cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        first, last = cuda.blockIdx.y * rows, x.shape[0] - 1
        if output < out.shape[1]:  # the same for the whole warp
            totals = cuda.local.array(rows, float32)
            for r in range(rows):
                totals[r] = ZERO
            for i in range(lane, x.shape[1], WARP):
                w = load(weight, (output, i))
                for r in range(rows):
                    totals[r] += load(x, (min(first + r, last), i)) * w
            for r in range(rows):
                total = sum_of_lanes(totals[r]) + bias[output]
                if lane == r and first + r <= last:
                    out[first + r, output] = function(total)

    return linear_warps


def steps(
    x: Array, weight: Array, bias: Array, out: Array, activation: str | None, method: str
) -> list[LayerLaunch]:
    """What is launched, one after the other, for arrays on the device."""
    function = function_of(activation)
    count, outputs = out.shape
    if method == "warp":
        how = blocks_over(count, outputs, (WARPS, ROWS), "x"), (WARP, WARPS)
        return [("linear, activation", warps(function), how, (x, weight, bias, out))]
    known(method, "method", LADDER)
    how = blocks_over(count, outputs, NAIVE_BLOCK, "x"), NAIVE_BLOCK
    found: list[LayerLaunch] = [("linear", linear_naive, how, (x, weight, bias, out))]
    if activation is not None:
        numbers = flat(out, "out")
        found.append(("activation", each(function), threads_for(out), (numbers, numbers)))
    return found


def _result(x: Seen, weight: Seen, bias: Seen, activation: str | None, method: str) -> Result:
    function_of(activation)
    known(method, "method", LADDER)
    checked_float32(x, "x", 2, "(rows, inputs)")
    checked_float32(weight, "weight", 2, "(outputs, inputs)")
    checked_float32(bias, "bias", 1, "(outputs,)")
    (rows, inputs), outputs = x.shape, weight.shape[0]
    if not inputs or not outputs:
        raise ValueError(
            f"x and weight have the shapes {x.shape} and {weight.shape}; there must "
            "be at least 1 input and 1 output"
        )
    if weight.shape[1] != inputs or bias.shape != (outputs,):
        raise ValueError(
            f"weight and bias have the shapes {weight.shape} and {bias.shape}; for "
            f"x's {inputs} inputs they must be (outputs, {inputs}) and (outputs,)"
        )
    return (rows, outputs), np.float32


_DOOR = layer_door("linear", _result, steps)


def linear(
    x: Array,
    weight: Array,
    bias: Array,
    activation: str | None = None,
    out: Array | None = None,
    method: str = "warp",
    stream: Stream = None,
) -> Array:
    """Multiply rows by the weights, add the bias, apply the activation.

    Parameters
    ----------
    x : array, shape (rows, inputs), float32
        Of NumPy, CuPy, PyTorch or numba.cuda; on the GPU in C order.
    weight : array, shape (outputs, inputs), float32
    bias : array, shape (outputs,), float32
    activation : str or None
        Of `course.kernels.activation.FUNCTIONS`: "relu", "gelu", "silu", ...
    out : array, optional
        Where to write.
    method : str
        A step of `LADDER`.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one that x's library is at.

    Returns
    -------
    array, shape (rows, outputs), float32
        `out`, if it is given; else of x's kind. Without rows it is empty.

    Raises
    ------
    TypeError
        For no array, or elements that are not float32.
    ValueError
        For shapes or strides that do not fit, an unknown activation or method.
    """
    return _DOOR.enter((x, weight, bias), (activation, method), out, stream)
