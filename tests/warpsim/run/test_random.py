"""Random numbers of the simulator: bit for bit those of Numba."""

from __future__ import annotations

import numpy as np
import pytest
from numba import uint64

from warpsim import cuda
from warpsim.run import random


@cuda.jit
def draw(states, bits, uniform, wide, normal):
    i = cuda.grid(1)
    if i < bits.shape[0]:
        for j in range(bits.shape[1]):
            bits[i, j] = random.xoroshiro128p_next(states, i)
            uniform[i, j] = random.xoroshiro128p_uniform_float32(states, i)
            wide[i, j] = random.xoroshiro128p_uniform_float64(states, i)
            normal[i, j] = random.xoroshiro128p_normal_float32(states, i)


@pytest.mark.slow
def test_the_sequence_is_numbas_bit_for_bit():
    numbas = pytest.importorskip("numba.cuda.random")
    seed, threads, draws = 123, 40, 5
    theirs = np.empty(threads, numbas.xoroshiro128p_dtype)
    for i in range(threads):
        if i == 0:
            numbas.init_xoroshiro128p_state(theirs, 0, np.uint64(seed))
        else:
            theirs[i] = theirs[i - 1]
            numbas.xoroshiro128p_jump(theirs, i)
    states = random.create_xoroshiro128p_states(threads, seed)
    for name in ("s0", "s1"):
        assert np.array_equal(states.copy_to_host()[name], theirs[name])
    later = random.create_xoroshiro128p_states(3, seed, subsequence_start=5)
    assert np.array_equal(later.copy_to_host()["s0"], theirs["s0"][5:8])
    bits = np.zeros((threads, draws), np.uint64)
    uniform, normal = (np.zeros((threads, draws), np.float32) for _ in range(2))
    wide = np.zeros((threads, draws))
    draw[2, 32](states, bits, uniform, wide, normal)
    for i in range(threads):
        for j in range(draws):
            assert bits[i, j] == np.uint64(numbas.xoroshiro128p_next(theirs, i))
            assert uniform[i, j] == numbas.xoroshiro128p_uniform_float32(theirs, i)
            assert wide[i, j] == numbas.xoroshiro128p_uniform_float64(theirs, i)
            wanted = numbas.xoroshiro128p_normal_float32(theirs, i)
            np.testing.assert_allclose(normal[i, j], wanted, rtol=3e-6)


def test_numbas_own_functions_can_be_called_in_a_simulated_kernel():
    numbas = pytest.importorskip("numba.cuda.random")
    uniform_float32 = numbas.xoroshiro128p_uniform_float32

    @cuda.jit
    def kernel(states, out):
        i = cuda.grid(1)
        out[i] = uniform_float32(states, i)

    ours, theirs = np.zeros(32, np.float32), np.zeros(32, np.float32)
    kernel[1, 32](random.create_xoroshiro128p_states(32, 7), theirs)

    @cuda.jit
    def own(states, out):
        i = cuda.grid(1)
        out[i] = random.xoroshiro128p_uniform_float32(states, i)

    own[1, 32](random.create_xoroshiro128p_states(32, 7), ours)
    assert np.array_equal(ours, theirs)


def test_uniform_and_normal_numbers_look_like_it():
    states = cuda.random.create_xoroshiro128p_states(20_000, 1)

    @cuda.jit
    def kernel(states, uniform, normal):
        i = cuda.grid(1)
        if i < uniform.size:
            uniform[i] = cuda.random.xoroshiro128p_uniform_float32(states, i)
            normal[i] = cuda.random.xoroshiro128p_normal_float64(states, i)

    uniform, normal = np.zeros(20_000, np.float32), np.zeros(20_000)
    kernel[157, 128](states, uniform, normal)
    assert 0 <= uniform.min() and uniform.max() <= 1
    assert abs(uniform.mean() - 0.5) < 0.01 and abs(uniform.std() - 12**-0.5) < 0.01
    assert abs(normal.mean()) < 0.03 and abs(normal.std() - 1) < 0.03


def test_unsigned_arithmetic_wraps():
    @cuda.jit
    def kernel(out):
        out[0] = uint64(0) - uint64(1)
        out[1] = uint64(1) << uint64(63)
        out[2] = (uint64(2**64 - 1) * uint64(3)) >> uint64(1)

    out = np.zeros(3, np.uint64)
    kernel[1, 1](out)
    assert out.tolist() == [2**64 - 1, 2**63, (2**64 - 3) >> 1]
