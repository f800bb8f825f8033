"""Few rows: a warp a result, its lanes along the depth.

A fully connected layer, out = activation(x weight' + bias):

>>> for launch in LADDER.launches(x, weight, bias, out, activation="gelu"):
...     launch.on(stream)

x (rows, inputs), weight (outputs, inputs) as PyTorch has it, bias (outputs,). The steps:

=========  ===================================================================================
"naive"    a thread a result; the activation is a kernel of its own
"warp"     a warp a result of a few rows, its lanes along the inputs; the activation is fused
=========  ===================================================================================

For many rows it is a product of matrices, see `course.kernels.gemm.float32`. For few, what counts
is that weights are read side by side and that there are enough warps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32

from course.backend import cuda
from course.kernels.activation import function_of, in_place
from course.kernels.arrays import blocks_over
from course.kernels.steps import Ladder, Launch, Step
from course.kernels.warps import WARP, lanes_sum
from warpsim.ptx import load

ZERO = float32(0)
WARPS = 8  # of a block, each with an output
ROWS = 4  # of a warp: a weight is read once for all of them
NAIVE_BLOCK = (32, 8)

sum_of_lanes = lanes_sum(WARP)


@cuda.jit
def linear_naive(x, weight, bias, out):
    """Step 1, without activation. Mapping: thread (column, row) has out[row, column].

    Memory: lanes walk the outputs, so that each reads a row of the weights of its own: 32 sectors
    for 32 elements.
    """
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = bias[column]
        for i in range(x.shape[1]):
            total += x[row, i] * weight[column, i]
        out[row, column] = total


@functools.cache
def warps(function: Callable, rows: int = ROWS) -> Callable:
    """Step 2, of (x, weight, bias, out), with the activation.

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


def _naive(p, x, weight, bias, out, activation):
    grid = blocks_over(*p, NAIVE_BLOCK, "x")
    product = Launch(linear_naive, grid, NAIVE_BLOCK, (x, weight, bias, out))
    return [product, *in_place(out, activation)]


def _warp(p, x, weight, bias, out, activation):
    grid, kernel = blocks_over(*p, (WARPS, ROWS), "x"), warps(function_of(activation))
    return [Launch(kernel, grid, (WARP, WARPS), (x, weight, bias, out))]


LADDER = Ladder(
    "linear", lambda x, weight, bias, out, activation: out.shape,
    {"naive": Step(_naive), "warp": Step(_warp)}, best=lambda p: "warp",
)  # fmt: skip
