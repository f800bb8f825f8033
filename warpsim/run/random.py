"""Random numbers in kernels: the xoroshiro128+ generator, the sequence of ``numba.cuda.random``.

One state a thread. States start 2**64 numbers apart in one long sequence, so they do not overlap.
Source of the generator: D. Blackman and S. Vigna, "Scrambled linear pseudorandom number
generators" (2018), version of 2016; of the seeding: Vigna's splitmix64.
"""

import math
from typing import Any

import numpy as np
from numba import float32, float64, njit, uint32, uint64

from warpsim.host.device import DeviceNDArray
from warpsim.run.kernel import jit

xoroshiro128p_dtype = np.dtype([("s0", np.uint64), ("s1", np.uint64)], align=True)

_FIRST_JUMP, _SECOND_JUMP = uint64(0xBEAC0467EBA5FACB), uint64(0xD86B048B86AA9922)
_TWO_PI = 2 * math.pi


# ---------------------------------------------------------------------- on the host
@njit
def _advance(s0, s1):
    s1 ^= s0
    first = ((s0 << uint64(55)) | (s0 >> uint64(9))) ^ s1 ^ (s1 << uint64(14))
    return first, (s1 << uint64(36)) | (s1 >> uint64(28))


@njit
def _jump(s0, s1):
    """The state 2**64 numbers later."""
    a, b = uint64(0), uint64(0)
    for jump in (_FIRST_JUMP, _SECOND_JUMP):
        for bit in range(64):
            if jump & (uint64(1) << uint64(bit)):
                a ^= s0
                b ^= s1
            s0, s1 = _advance(s0, s1)
    return a, b


@njit
def _fill(states, seed, skip):
    mixed = uint64(seed) + uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> uint64(27))) * uint64(0x94D049BB133111EB)
    mixed ^= mixed >> uint64(31)
    s0, s1 = mixed, mixed
    for _ in range(skip):
        s0, s1 = _jump(s0, s1)
    for i in range(states.size):
        states[i].s0, states[i].s1 = s0, s1
        s0, s1 = _jump(s0, s1)


def init_xoroshiro128p_states(states: Any, seed: int, subsequence_start: int = 0, stream: Any = 0):
    """Set the states of an array, of dtype :data:`xoroshiro128p_dtype`."""
    memory = states._memory if isinstance(states, DeviceNDArray) else states
    _fill(memory, np.uint64(seed), subsequence_start)


def create_xoroshiro128p_states(n: int, seed: int, subsequence_start: int = 0, stream: Any = 0):
    """States for ``n`` threads, on the device."""
    states = np.empty(n, xoroshiro128p_dtype)
    init_xoroshiro128p_states(states, seed, subsequence_start)
    return DeviceNDArray(states)


# ---------------------------------------------------------------------- in kernels
@jit(device=True)
def xoroshiro128p_next(states, index):
    """The next 64 random bits of a state."""
    s0 = states[index]["s0"]
    s1 = states[index]["s1"]
    result = s0 + s1
    s1 ^= s0
    states[index]["s0"] = ((s0 << uint32(55)) | (s0 >> uint32(9))) ^ s1 ^ (s1 << uint32(14))
    states[index]["s1"] = (s1 << uint32(36)) | (s1 >> uint32(28))
    return result


@jit(device=True)
def xoroshiro128p_uniform_float64(states, index):
    """A float64 in [0, 1)."""
    bits = xoroshiro128p_next(states, index)
    return (bits >> uint32(11)) * (float64(1) / (uint64(1) << uint32(53)))


@jit(device=True)
def xoroshiro128p_uniform_float32(states, index):
    """A float32 in [0, 1]; 1 if the float64 rounds up to it."""
    return float32(xoroshiro128p_uniform_float64(states, index))


@jit(device=True)
def xoroshiro128p_normal_float32(states, index):
    """A float32 of the standard normal distribution (Box and Muller)."""
    first = xoroshiro128p_uniform_float32(states, index)
    second = xoroshiro128p_uniform_float32(states, index)
    return math.sqrt(float32(-2.0) * math.log(first)) * math.cos(float32(_TWO_PI) * second)


@jit(device=True)
def xoroshiro128p_normal_float64(states, index):
    """A float64 of the standard normal distribution (Box and Muller)."""
    first = xoroshiro128p_uniform_float64(states, index)
    second = xoroshiro128p_uniform_float64(states, index)
    return math.sqrt(float64(-2.0) * math.log(first)) * math.cos(_TWO_PI * second)
