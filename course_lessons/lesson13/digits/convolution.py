"""A layer of a small convolutional network: 3 x 3 convolution, bias, activation, 2 x 2 pooling.

>>> for launch in LADDER.launches(x, weight, bias, out, activation="relu"):
...     launch.on(stream)

Images lie as PyTorch's do, x (image, channel, row, column), weight (outputs, inputs, 3, 3); around
an image are zeros. Of each 2 x 2 activated results the largest goes on; a last odd row or column is
dropped. The steps:

=========  =======================================================================================
"naive"    three kernels: a thread a result, each reads and writes device memory
"fused"    one kernel: an image in shared memory, each thread has four results and keeps the largest
=========  =======================================================================================

The order is that of the formula, activation first: GELU and SiLU fall before they rise, so that the
largest activated number need not be that of the largest number. Unlike ReLU they cannot change
places with the pooling.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import float32

from course.backend import cuda
from course.dispatch.slots import workspace
from course.kernels.activation import element_blocks, function_of, in_place
from course.kernels.arrays import Array
from course.kernels.reduce import larger
from course.kernels.steps import STATIC_SHARED, Ladder, Launch, Step, ceil_div
from warpsim.ptx import load, store

ZERO = float32(0)
#: Numbers in a row of an image in its frame beyond its pixels: 1 before, 3 behind. With 2 in all
#: lanes, which read every second pixel of some rows, would meet in a bank at 8 columns.
PADDING = 4
IN_FLIGHT = 18  # loads that a thread has in flight together, before it stores the first


# --- step 1: naive --------------------------------------------------------------------------------
@cuda.jit
def convolve_naive(x, weight, bias, out):
    """The convolution and the bias; out (image, output, row, column).

    Mapping: a thread a result, neighbours along a row.
    Memory: each thread reads 9 pixels and 9 weights of each channel, that its neighbours read, too.
    """
    i = cuda.grid(1)
    if i < out.size:
        rows, columns = out.shape[2], out.shape[3]
        column, row = i % columns, i // columns % rows
        output, image = i // (columns * rows) % out.shape[1], i // (columns * rows * out.shape[1])
        total = bias[output]
        for channel in range(x.shape[1]):
            for down in range(3):
                for right in range(3):
                    r, c = row + down - 1, column + right - 1
                    if 0 <= r < rows and 0 <= c < columns:
                        total += x[image, channel, r, c] * weight[output, channel, down, right]
        out[image, output, row, column] = total


@cuda.jit
def pool_naive(x, out):
    """The largest of each 2 x 2 pixels; NaN where one is NaN. Mapping: a thread a result."""
    i = cuda.grid(1)
    if i < out.size:
        rows, columns = out.shape[2], out.shape[3]
        column, row = i % columns, i // columns % rows
        channel, image = i // (columns * rows) % out.shape[1], i // (columns * rows * out.shape[1])
        above = larger(x[image, channel, 2 * row, 2 * column],
                       x[image, channel, 2 * row, 2 * column + 1])  # fmt: skip
        below = larger(x[image, channel, 2 * row + 1, 2 * column],
                       x[image, channel, 2 * row + 1, 2 * column + 1])  # fmt: skip
        out[image, channel, row, column] = larger(above, below)


# --- step 2: fused --------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConvolutionConfig:
    """The sizes to tune.

    Attributes
    ----------
    pixels : int
        Pooled pixels at a time: threads side by side, that share the weights they read.
    outputs : int
        Output channels of a block: threads below each other, that share the pixels.
    """

    pixels: int = 16
    outputs: int = 16

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.outputs * self.pixels


def config_for(rows: int, columns: int) -> ConvolutionConfig:
    """The config for images of so many rows and columns: no more threads than pooled pixels."""
    pixels = 1
    while 2 * pixels <= min(16, (rows // 2) * (columns // 2)):
        pixels *= 2
    return ConvolutionConfig(pixels)


@functools.cache
def four_results(inputs: int, frame: int, wide: int) -> Callable:
    """A device function: the convolution at 2 x 2 pixels, from images in frames in shared memory.

    Of (tile, corner, weights, at, before): `corner` is the place in the frame of the upper left of
    the 4 x 4 pixels that are read, `at` that of an output's first weight, `before` the bias. Frames
    of `frame` numbers, one a channel, have rows of `wide` numbers.
    """

    @cuda.jit(device=True)
    def results(tile, corner, weights, at, before):
        patch = cuda.local.array((4, 4), float32)
        a, b, c, d = before, before, before, before
        for channel in range(inputs):
            for down in range(4):
                for right in range(4):
                    patch[down, right] = load(tile, channel * frame + corner + down * wide + right)
            for down in range(3):
                for right in range(3):
                    w = load(weights, at + 9 * channel + 3 * down + right)
                    a += patch[down, right] * w
                    b += patch[down, right + 1] * w
                    c += patch[down + 1, right] * w
                    d += patch[down + 1, right + 1] * w
        return a, b, c, d

    return results


@functools.cache
def largest_of(function: Callable) -> Callable:
    """A device function: the largest of four numbers, each activated; NaN where one is NaN."""

    @cuda.jit(device=True)
    def largest(four):
        above = larger(function(four[0]), function(four[1]))
        return larger(above, larger(function(four[2]), function(four[3])))

    return largest


@functools.cache
def fused(
    function: Callable, inputs: int, rows: int, columns: int, config: ConvolutionConfig
) -> Callable:
    """Step 2, of (x, weight, bias, out), for images of `inputs` channels, rows x columns pixels.

    x is (images, inputs rows columns), weight (outputs 9 inputs), out (images, outputs, pooled
    pixels): the same numbers as before, with fewer axes.

    Mapping: block (i, g) has image i and group g of outputs; thread (p, o) output o of the group
    and the pooled pixels p, p + pixels, ...; of each the four results, from 4 x 4 pixels.
    Memory: an image and the group's weights are read once, results written once, side by side. A
    thread begins several loads before it stores the first, and waits for all at a time.
    Shared memory: the image in a frame of zeros, so that no pixel is asked whether it is inside;
    rows of weights have odd lengths, so that neighbouring outputs lie in different banks.
    """
    high, wide = rows + 2, columns + PADDING
    frame, pooled_columns = high * wide, columns // 2
    pooled = (rows // 2) * pooled_columns
    pixels, outputs, threads = config.pixels, config.outputs, config.threads
    taps, pitch = 9 * inputs, 9 * inputs | 1
    area, numbers, longer = rows * columns, inputs * rows * columns, pitch - taps
    tile_size, weights_size = inputs * frame, outputs * pitch
    at_once = min(IN_FLIGHT, ceil_div(max(numbers, outputs * taps), threads))
    results, largest = four_results(inputs, frame, wide), largest_of(function)

    @cuda.jit
    def convolve_fused(x, weight, bias, out):
        tile = cuda.shared.array(tile_size, float32)
        weights = cuda.shared.array(weights_size, float32)
        values = cuda.local.array(at_once, float32)
        image, first = cuda.blockIdx.x, cuda.blockIdx.y * outputs
        p, o = cuda.threadIdx.x, cuda.threadIdx.y
        t, here = o * pixels + p, min(outputs, bias.shape[0] - first)

        for i in range(t, tile_size, threads):
            store(tile, i, ZERO)
        count = here * taps
        for start in range(t, count, at_once * threads):
            for n in range(at_once):
                values[n] = load(weight, first * taps + min(start + n * threads, count - 1))
            for n in range(at_once):
                i = start + n * threads
                if i < count:
                    store(weights, i + i // taps * longer, values[n])
        cuda.syncthreads()
        for start in range(t, numbers, at_once * threads):
            for n in range(at_once):
                values[n] = load(x, (image, min(start + n * threads, numbers - 1)))
            for n in range(at_once):
                i = start + n * threads
                if i < numbers:
                    row, column = i % area // columns + 1, i % columns + 1
                    store(tile, i // area * frame + row * wide + column, values[n])
        cuda.syncthreads()

        if o < here:
            before = bias[first + o]
            for pixel in range(p, pooled, pixels):
                corner = 2 * (pixel // pooled_columns) * wide + 2 * (pixel % pooled_columns)
                four = results(tile, corner, weights, o * pitch, before)
                out[image, first + o, pixel] = largest(four)

    return convolve_fused


def fused_bytes(inputs: int, rows: int, columns: int, config: ConvolutionConfig) -> int:
    """Bytes of shared memory of a block."""
    tile = inputs * (rows + 2) * (columns + PADDING)
    return 4 * (tile + config.outputs * (9 * inputs | 1))


# --- the ladder -----------------------------------------------------------------------------------


class LayerProblem(NamedTuple):
    """What decides between the steps: of images the channels, rows and columns."""

    inputs: int
    rows: int
    columns: int

    @classmethod
    def of(cls, x: Array, *arrays: Array, activation: str | None) -> LayerProblem:
        """That of images."""
        return cls(*x.shape[1:])


def _naive(p, x, weight, bias, out, activation):
    between = workspace((len(x), len(weight), p.rows, p.columns), np.float32)
    return [
        Launch(convolve_naive, *element_blocks(between), (x, weight, bias, between)),
        *in_place(between, activation),
        Launch(pool_naive, *element_blocks(out), (between, out)),
    ]


def _fused(p, x, weight, bias, out, activation):
    config, images, outputs = config_for(p.rows, p.columns), len(x), len(weight)
    grid = images, ceil_div(outputs, config.outputs)
    given = x.reshape(images, x.size // images), weight.reshape(weight.size), bias
    result = out.reshape(images, outputs, out.size // (images * outputs))
    kernel = fused(function_of(activation), *p, config)
    return [Launch(kernel, grid, (config.pixels, config.outputs), (*given, result))]


def _fused_refusal(p):
    size = fused_bytes(*p, config_for(p.rows, p.columns))
    if size <= STATIC_SHARED:
        return ""
    return (
        f"keeps images in shared memory: {p.inputs} channels of {p.rows} x {p.columns} pixels need "
        f"{size:,} bytes, and a block has {STATIC_SHARED:,}"
    )


LADDER = Ladder(
    "convolution", LayerProblem.of, {"naive": Step(_naive), "fused": Step(_fused, _fused_refusal)},
    best=lambda p: "naive" if _fused_refusal(p) else "fused",
)  # fmt: skip
