"""A slice that has a name outside the kernel is the slice that it names, as in Numba's typing."""

import numpy as np
import pytest
from numba import njit

from warpsim import cuda

LIMITS = [(2, 5), (None, 3), (5, None), (-3, None), (None, -2), (None, None), (1, 7, 2)]


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_a_part_of_an_array(limits):
    part = slice(*limits)

    def fill(x):
        v = x[part]
        for i in range(v.size):
            v[i] = i + 1

    found, wanted = np.zeros(8), np.zeros(8)
    cuda.jit(fill)[1, 1](found)
    njit(fill)(wanted)
    assert (found == wanted).all()


def test_among_several_indices():
    part = slice(1, 3)

    @cuda.jit
    def fill(x):
        x[part, 1][cuda.threadIdx.x] = 7

    x = np.zeros((4, 3))
    fill[1, 2](x)
    assert x[1:3, 1].tolist() == [7, 7] and x.sum() == 14


def test_limits_that_are_no_numbers_are_refused():
    part = slice(0, 2.5)

    @cuda.jit
    def fill(x):
        x[part][0] = 1

    with pytest.raises(Exception, match="whole numbers"):
        fill[1, 1](np.zeros(4))


@pytest.mark.parametrize("seed", range(20))
def test_slices_that_start_elsewhere_in_each_thread(seed):
    random = np.random.default_rng(seed)
    first, size = random.integers(0, 8, 8), np.full(8, 4)
    if seed % 2:  # sizes differ, too
        size[random.integers(0, 8, 3)] = random.integers(1, 5, 3)
    active, inner = int(random.integers(1, 9)), int(random.integers(-3, 3))

    @cuda.jit
    def fill(x, first, size, active, inner, out):
        t = cuda.threadIdx.x
        if t < active:
            part = x[first[t] : first[t] + size[t]]
            out[t, 0] = part.size
            for i in range(part[inner:].size):
                out[t, 1 + i] = part[inner:][i]

    x, out, wanted = random.random(12), np.zeros((8, 5)), np.zeros((8, 5))
    fill[1, 8](x, first, size, active, inner, out)
    for t in range(active):
        part = x[first[t] : first[t] + size[t]]
        wanted[t, 0], rest = len(part), part[inner:]
        wanted[t, 1 : 1 + len(rest)] = rest
    assert (out == wanted).all()


def test_slices_of_one_size_take_another_shape():
    @cuda.jit
    def fill(x, out):
        t = cuda.threadIdx.x
        if t < 7:
            out[t] = x[t * 4 : t * 4 + 4].reshape(2, 2)[1, 0]

    out = np.zeros(8)
    fill[1, 8](np.arange(32.0), out)
    assert out.tolist() == [2, 6, 10, 14, 18, 22, 26, 0]
