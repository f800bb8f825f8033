"""A step of Adam: new parameters and moments from a gradient and the moments before the step.

>>> corrected = cuda.to_device(corrections(step, 1e-3))
>>> for launch in LADDER.launches(weights, gradient, first, second, corrected, *results):
...     launch.on(stream)

All but `corrected` are flat device arrays of one length; results may overwrite arguments.

The moments begin at 0, so after t steps they are too small by the factor 1 - beta^t. The host
computes both factors once a step, in float64. In float32 1 - 0.999^t would be wrong by 1.3e-5 at
t = 1, since 0.999 is rounded first, and so would be every weight's first step. An element moves
28 bytes, 16 in and 12 out, for some ten operations, so that the kernels are memory-bound.

Source: Kingma, Ba, "Adam: a method for stochastic optimization", arXiv:1412.6980, algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import float32, int32, int64

from course.backend import cuda
from course.kernels.arrays import VECTOR, Array, are_aligned
from course.kernels.steps import Ladder, Launch, Step, ceil_div
from warpsim.ptx import load4, store4

BETA1, BETA2, TINY = 0.9, 0.999, 1e-8
THREADS = 256
LESS1, LESS2, KEPT2 = float32(1 - BETA1), float32(1 - BETA2), float32(BETA2)
EPSILON = float32(TINY)


def corrections(step: int, rate: float = 1e-3) -> np.ndarray:
    """rate / (1 - beta1^step) and 1 / (1 - beta2^step); the first step is 1.

    Returns
    -------
    ndarray, shape (2,), float32
    """
    if step < 1:
        raise ValueError(f"step is {step}; the first is 1")
    return np.array([rate / (1 - BETA1**step), 1 / (1 - BETA2**step)], np.float32)


@cuda.jit(device=True, fastmath=True)
def adam_of(parameter, gradient, first, second, size, spread):
    """A parameter and its moments after the step."""
    first += LESS1 * (gradient - first)
    second = KEPT2 * second + LESS2 * gradient * gradient
    return parameter - size * first / (math.sqrt(second * spread) + EPSILON), first, second


@cuda.jit(fastmath=True)
def adam_each(parameters, gradient, first, second, corrected, out, out1, out2):
    """Step 1. Mapping: thread i has element i. Results may overwrite arguments."""
    i = cuda.grid(1)
    if i < out.size:
        out[i], out1[i], out2[i] = adam_of(
            parameters[i], gradient[i], first[i], second[i], corrected[0], corrected[1]
        )


@cuda.jit(fastmath=True)
def adam_wide(parameters, gradient, first, second, corrected, out, out1, out2):
    """Step 2. Mapping: thread i has elements 4 i to 4 i + 3, loaded and stored 16 bytes at once.

    Fewer than four elements at the end are loaded and stored one by one.
    """
    block, t = int64(cuda.blockIdx.x) * (THREADS * VECTOR), int32(cuda.threadIdx.x) * VECTOR
    size, spread = corrected[0], corrected[1]
    place = block + t
    if place + VECTOR <= out.size:
        p, g = load4(parameters, place), load4(gradient, place)
        m, v = load4(first, place), load4(second, place)
        a, m0, v0 = adam_of(p[0], g[0], m[0], v[0], size, spread)
        b, m1, v1 = adam_of(p[1], g[1], m[1], v[1], size, spread)
        c, m2, v2 = adam_of(p[2], g[2], m[2], v[2], size, spread)
        d, m3, v3 = adam_of(p[3], g[3], m[3], v[3], size, spread)
        store4(out, place, (a, b, c, d))
        store4(out1, place, (m0, m1, m2, m3))
        store4(out2, place, (v0, v1, v2, v3))
    else:
        for i in range(place, out.size):
            out[i], out1[i], out2[i] = adam_of(
                parameters[i], gradient[i], first[i], second[i], size, spread
            )


class AdamProblem(NamedTuple):
    """What decides between the steps."""

    size: int
    aligned: bool  # four elements can be accessed at once

    @classmethod
    def of(cls, *arrays: Array) -> AdamProblem:
        """The problem of flat arrays on the device; corrections come before the three results."""
        *given, _, out, out1, out2 = arrays
        return cls(out.size, are_aligned(*given, out, out1, out2))


def _step(kernel: Any, tile: int, refusal: Callable[[AdamProblem], str]) -> Step:
    """The step that launches a kernel with `tile` elements for each block."""

    def launches(problem: AdamProblem, *arrays: Array) -> list[Launch]:
        return [Launch(kernel, ceil_div(problem.size, tile), THREADS, arrays)]

    return Step(launches, refusal)


def _between(problem: AdamProblem) -> str:
    return "" if problem.aligned else "accesses four elements at once, and an array begins between"


LADDER = Ladder(
    "adam", AdamProblem.of,
    {"each": _step(adam_each, THREADS, lambda problem: ""),
     "wide": _step(adam_wide, THREADS * VECTOR, _between)},
    best=lambda problem: "wide" if problem.aligned else "each",
)  # fmt: skip
