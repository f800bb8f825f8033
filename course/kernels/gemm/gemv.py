"""A layer on few rows (GEMV): a warp computes one output of each, its lanes split the depth.

A fully connected layer, out = activation(x weight' + bias):

>>> for launch in LADDER.launches(x, weight, bias, out, activation="gelu"):
...     launch.on(stream)

x (rows, inputs), weight (outputs, inputs) as PyTorch has it, bias (outputs,). The steps:

=========  ===================================================================================
"naive"    a thread a result; the activation is a kernel of its own
"warp"     a warp an output of a few rows, its lanes along the inputs; the activation is fused
=========  ===================================================================================

Many rows make it a matrix product, see `course.kernels.gemm.float32`. With few rows, memory is the
bottleneck: loads of the weights have to coalesce, and enough warps have to issue them.
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
WARPS = 8  # warps of a block, each with an output of its own
ROWS = 4  # rows of x that a warp serves: it loads each weight once for all of them
NAIVE_BLOCK = (32, 8)

sum_of_lanes = lanes_sum(WARP)


@cuda.jit
def linear_naive(x, weight, bias, out):
    """Step 1, without activation. Mapping: thread (column, row) has out[row, column].

    Memory: a warp's lanes lie along the outputs, so each reads its own row of the weights: 32
    sectors for 32 elements.
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

    Mapping: warp w of block (b, r) computes output 8 b + w of `rows` rows, from r * rows on. Its
    lanes take the inputs lane, lane + 32, ..., so that loads coalesce, and add up by shuffles.
    Memory: a weight is read once for `rows` rows; the block's warps share the rows in L1.
    """

    @cuda.jit
    def linear_warps(x, weight, bias, out):
        lane, output = cuda.threadIdx.x, cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        first, last = cuda.blockIdx.y * rows, x.shape[0] - 1
        if output < out.shape[1]:  # uniform over the warp, as its shuffles need
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
