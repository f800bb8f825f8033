"""The digit network in one kernel: a block has an image, what lies between the layers stays in it.

Device memory is touched for the image, the weights (from L2, for all blocks but the first) and ten
scores. One launch instead of four, and its arguments are three: all weights come as one array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import float32

from course.backend import cuda
from course.kernels.steps import STATIC_SHARED, ceil_div
from course.kernels.warps import WARP, lanes_sum
from course_lessons.lesson13.digits.convolution import PADDING, ZERO, four_results, largest_of
from course_lessons.lesson13.digits.weights import FIRST, HIDDEN, NAMES, SECOND, Weights
from course_models.digits import CLASSES
from warpsim.ptx import load, store

THREADS = 256
WARPS = THREADS // WARP
PITCH = 9 * FIRST + 1  # of a second layer's output in the packed weights; odd, as in `convolution`
FIRST_BIAS = 9 * FIRST  # where parts begin in the packed weights
SECOND_WEIGHT = FIRST_BIAS + FIRST
SECOND_BIAS = SECOND_WEIGHT + SECOND * PITCH
STAGED = SECOND_BIAS + SECOND  # numbers that go to shared memory; the rest is read once
AT_ONCE = ceil_div(STAGED, THREADS)  # loads of a thread, all in flight together
ROWS = HIDDEN // WARPS  # hidden numbers of a warp
MOST_PIXELS = THREADS // SECOND  # threads side by side in the second layer


sum_of_lanes = lanes_sum(WARP)


def packed(weights: Weights) -> np.ndarray:
    """All weights as one array, in the order of `NAMES`; the second layer's rows are padded."""
    parts = []
    for name in NAMES:
        array = getattr(weights, name)
        if name == "second_weight":
            array = np.pad(array.reshape(SECOND, -1), ((0, 0), (0, PITCH - 9 * FIRST)))
        parts.append(array.ravel())
    return np.concatenate(parts)


def shared_bytes(side: int) -> int:
    """Bytes of shared memory of a block."""
    half, quarter = side // 2, side // 4
    frames = (side + 2) * (side + PADDING) + FIRST * (half + 2) * (half + PADDING)
    return 4 * (STAGED + frames + SECOND * quarter**2 + HIDDEN)


def whole_refusal(side: int) -> str:
    """Why images are too large for a block's shared memory, in words; else nothing."""
    size = shared_bytes(side)
    if size <= STATIC_SHARED:
        return ""
    return f"needs {size:,} bytes for {side} x {side} pixels, and a block has {STATIC_SHARED:,}"


def threads_for(side: int) -> tuple[int, int]:
    """Threads side by side, each with pixels of its own, in the first and the second layer."""
    found = []
    for most, pixels in ((THREADS // FIRST, (side // 2) ** 2), (MOST_PIXELS, (side // 4) ** 2)):
        beside = 1
        while 2 * beside <= min(most, pixels):
            beside *= 2
        found.append(beside)
    return found[0], found[1]


@functools.cache
def whole(function: Callable, side: int) -> Callable:
    """The kernel of (x, packed, scores): x (batch, side side), scores (batch, 10).

    Mapping: block i has image i. In a convolution thread t has output t // n and the pooled pixels
    t % n, + n, ...; in Linear a warp has every eighth output, its lanes the inputs.
    Shared memory: images in frames of zeros, the convolutions' weights, what is between the layers.
    """
    half, quarter = side // 2, side // 4
    area, pooled, left = side * side, half * half, quarter * quarter
    wide, wide_half = side + PADDING, half + PADDING
    frame, frame_half = (side + 2) * wide, (half + 2) * wide_half
    image_size, first_size, features = frame, FIRST * frame_half, SECOND * left
    beside, beside_half = threads_for(side)
    hidden_at, hidden_bias = STAGED, STAGED + HIDDEN * features
    out_at = hidden_bias + HIDDEN
    out_bias = out_at + CLASSES * HIDDEN
    first_results = four_results(1, frame, wide)
    second_results = four_results(FIRST, frame_half, wide_half)
    largest = largest_of(function)

    @cuda.jit
    def whole_network(x, packed, scores):
        weights = cuda.shared.array(STAGED, float32)
        image = cuda.shared.array(image_size, float32)
        between = cuda.shared.array(first_size, float32)
        flat = cuda.shared.array(features, float32)
        hidden = cuda.shared.array(HIDDEN, float32)
        values = cuda.local.array(AT_ONCE, float32)
        totals = cuda.local.array(ROWS, float32)
        t, block = cuda.threadIdx.x, cuda.blockIdx.x
        lane, warp = t % WARP, t // WARP

        # the convolutions' weights; frames of zeros
        for n in range(AT_ONCE):
            values[n] = load(packed, min(t + n * THREADS, STAGED - 1))
        for i in range(t, image_size, THREADS):
            store(image, i, ZERO)
        for i in range(t, first_size, THREADS):
            store(between, i, ZERO)
        for n in range(AT_ONCE):
            if t + n * THREADS < STAGED:
                store(weights, t + n * THREADS, values[n])
        cuda.syncthreads()
        for i in range(t, area, THREADS):
            store(image, (i // side + 1) * wide + i % side + 1, load(x, (block, i)))
        cuda.syncthreads()

        # 1 -> 16 channels
        output = t // beside
        if output < FIRST:
            for pixel in range(t % beside, pooled, beside):
                row, column = pixel // half, pixel % half
                four = first_results(
                    image, 2 * row * wide + 2 * column, weights, 9 * output,
                    load(weights, FIRST_BIAS + output),
                )  # fmt: skip
                place = output * frame_half + (row + 1) * wide_half + column + 1
                store(between, place, largest(four))
        cuda.syncthreads()

        # 16 -> 32 channels
        output = t // beside_half
        if output < SECOND:
            for pixel in range(t % beside_half, left, beside_half):
                corner = 2 * (pixel // quarter) * wide_half + 2 * (pixel % quarter)
                four = second_results(
                    between, corner, weights, SECOND_WEIGHT + PITCH * output,
                    load(weights, SECOND_BIAS + output),
                )  # fmt: skip
                store(flat, output * left + pixel, largest(four))
        cuda.syncthreads()

        # Linear, activation
        for n in range(ROWS):
            totals[n] = ZERO
        for i in range(lane, features, WARP):
            value = load(flat, i)
            for n in range(ROWS):
                totals[n] += value * load(packed, hidden_at + (warp + n * WARPS) * features + i)
        for n in range(ROWS):
            total = sum_of_lanes(totals[n])
            if lane == n:
                output = warp + n * WARPS
                store(hidden, output, function(total + load(packed, hidden_bias + output)))
        cuda.syncthreads()

        # Linear
        for output in range(warp, CLASSES, WARPS):
            total = ZERO
            for i in range(lane, HIDDEN, WARP):
                total += load(hidden, i) * load(packed, out_at + output * HIDDEN + i)
            total = sum_of_lanes(total)
            if lane == 0:
                scores[block, output] = total + load(packed, out_bias + output)

    return whole_network
