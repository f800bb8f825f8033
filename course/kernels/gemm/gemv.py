"""Few rows, or few results: a warp a result, its lanes along the depth.

Of float32, a fully connected layer, out = activation(x weight' + bias):

>>> for launch in LADDER.launches(x, weight, bias, out, activation="gelu"):
...     launch.on(stream)

x (rows, inputs), weight (outputs, inputs) as PyTorch has it, bias (outputs,). The steps:

=========  ===================================================================================
"naive"    a thread a result; the activation is a kernel of its own
"warp"     a warp a result of a few rows, its lanes along the inputs; the activation is fused
=========  ===================================================================================

For many rows it is a product of matrices, see `course.kernels.gemm.float32`. For few, what counts
is that weights are read side by side and that there are enough warps.

Of float16 and bfloat16, `launches`, for a network's last layer: a product of 64 x 100 results is
one tile, so one of 132 multiprocessors would walk along the depth.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32

from course.backend import cuda
from course.dispatch.slots import name_of
from course.kernels.activation import function_of, in_place
from course.kernels.arrays import Array, address_of, as_words, blocks_over
from course.kernels.gemm.tiles import ELEMENTS, UNPACK
from course.kernels.steps import Ladder, Launch, Step, ceil_div
from course.kernels.warps import WARP, lanes_sum
from warpsim.ptx import grid_dependency_wait, load, load4, quotient

ZERO = float32(0)
WARPS = 8  # of a block, each with an output
ROWS = 4  # of a warp: a weight is read once for all of them
NAIVE_BLOCK = (32, 8)
MOST = 16_384  # results of 16 bits; of more a tile is read less often
WARPS_16 = 4  # of a block of such

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

# --- 16 bits --------------------------------------------------------------------------------------


@functools.cache
def gemv(element: str, biased: bool) -> Callable:
    """The kernel of (a, b as uint32 of two elements, bias, out): out = a b' + bias.

    Mapping: warp w of block i has the result ``4 i + w``, along rows.
    Memory: a warp reads 512 bytes of both factors at a time; they come from L2.
    """
    ELEMENT, unpack = ELEMENTS[element], UNPACK[element]

    @cuda.jit(fastmath=True)
    def gemv_kernel(a, b, bias, out):
        grid_dependency_wait()
        t = int32(cuda.threadIdx.x)
        result = int32(int32(cuda.blockIdx.x) * int32(WARPS_16) + t // int32(WARP))
        row = quotient(result, int32(out.shape[1]))
        column = int32(result - row * int32(out.shape[1]))
        if row < out.shape[0]:
            total = float32(0)
            for k in range(int32(4) * (t & int32(31)), int32(a.shape[1]), int32(4 * WARP)):
                x, y = load4(a, (row, int32(k))), load4(b, (column, int32(k)))
                for e in range(4):
                    left, right = unpack(x[e]), unpack(y[e])
                    total += left[0] * right[0] + left[1] * right[1]
            total = sum_of_lanes(total)
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
    return [Launch(kernel, ceil_div(out.size, WARPS_16), WARPS_16 * WARP, arguments)]
