"""A generator of random numbers with a state in memory, as `numba.cuda.random` has one.

Source: D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators" (2018):
xoroshiro128+, in its version of 2016, which Numba has.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float32, int32, uint64

from course.backend import cuda

LEFT, OTHER, SHIFT, WORD = uint64(55), uint64(36), uint64(14), uint64(64)
UNIT, DROPPED = float32(2.0**-24), uint64(40)  # of 64 random bits 24 are left


def states_of(threads: int, seed: int = 1) -> np.ndarray:
    """A state for each thread: (threads, 2), uint64, 16 bytes each."""
    rng = np.random.default_rng(seed)
    return rng.integers(1, 2**64, (threads, 2), np.uint64, endpoint=False)


@cuda.jit(device=True)
def next_bits(states, i):
    """64 random bits of thread i, whose state is read, changed and written."""
    first, second = states[i, 0], states[i, 1]
    mixed = first ^ second
    states[i, 0] = ((first << LEFT) | (first >> (WORD - LEFT))) ^ mixed ^ (mixed << SHIFT)
    states[i, 1] = (mixed << OTHER) | (mixed >> (WORD - OTHER))
    return first + second


@cuda.jit(device=True)
def uniform(states, i):
    """A number in (0, 1]."""
    return (float32(int32(next_bits(states, i) >> DROPPED)) + float32(1)) * UNIT


@cuda.jit(device=True)
def next_normal(states, i):
    """A normal number of thread i, by Box and Muller, from two draws."""
    radius = math.sqrt(float32(-2) * math.log(uniform(states, i)))
    return radius * math.cos(float32(2 * math.pi) * uniform(states, i))
