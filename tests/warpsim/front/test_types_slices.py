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
