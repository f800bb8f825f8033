"""``*`` in signatures and calls, slices that differ by thread, enumerations, copies of arrays."""

from __future__ import annotations

import enum

import numpy as np
import pytest
from numba.core.errors import TypingError

from warpsim import cuda, trace


@cuda.jit(device=True)
def total(first, *rest):
    result = first
    for value in rest:
        result += value
    return result * len(rest)


@cuda.jit(device=True)
def handed_on(*rest):
    return total(1, *rest)


@cuda.jit(device=True)
def pair(v):
    return v, v + 1


@cuda.jit(device=True)
def digits(a, b, c):
    return a + 10 * b + 100 * c


def test_arguments_beyond_the_named_ones_are_a_tuple():
    @cuda.jit
    def kernel(out, *arrays):
        i = cuda.grid(1)
        out[i] = total(i, 1, 2) + handed_on(i, i, 5)
        for array in arrays:
            out[i] += array[i]

    x, out = np.arange(9), np.zeros(9, np.int64)
    kernel[1, 9](out, x, x, x)
    assert list(out) == [(i + 3) * 2 + (6 + 2 * i) * 3 + 3 * i for i in range(9)]
    assert not trace(kernel, 1, 9, out, x).findings


def test_a_spread_expression_is_evaluated_once():
    @cuda.jit
    def kernel(x, count, out):
        i = cuda.grid(1)
        out[i] = (
            digits(cuda.atomic.add(count, 0, 1) * 0, *pair(x[i]))
            if i > 3
            else digits(*pair(i), *pair(7)[:1])
        )

    x, out = np.arange(9), np.zeros(9, np.int64)
    report = trace(kernel, 1, 9, x, np.zeros(1, np.int64), out)
    assert list(out) == [i + 10 * (i + 1) + 700 if i < 4 else 10 * i + 100 * (i + 1) for i in x]
    assert report.total("global", "load").bytes == 5 * 8


def test_a_call_with_another_number_of_arguments_is_refused():
    @cuda.jit
    def kernel(out):
        out[0] = digits(*pair(1))

    with pytest.raises((TypingError, TypeError), match="3 arguments, 2 given"):
        kernel[1, 1](np.zeros(1))


def test_slices_may_have_a_step_and_a_place_of_each_thread():
    @cuda.jit
    def kernel(x, out, last):
        i = cuda.grid(1)
        part = x[i :: i + 1]
        result = 0
        for value in part:
            result += value
        out[3 * i : 3 * i + 3] = (result, part.size, part[0])
        back = x[:: -(i + 1)]
        last[i] = back[back.size - 1] * 1000 + back.strides[0]

    x = np.arange(32)
    out, last = np.zeros(96, np.int64), np.zeros(32, np.int64)
    kernel[1, 32](x, out, last)
    for i in range(32):
        part, back = x[i :: i + 1], x[:: -(i + 1)]
        assert list(out[3 * i : 3 * i + 3]) == [part.sum(), part.size, part[0]]
        assert last[i] == back[-1] * 1000 + back.strides[0]
    assert not {"race", "out-of-bounds"} & {
        finding.kind for finding in trace(kernel, 1, 32, x, out, last).findings
    }


def test_a_step_of_zero_and_a_tuple_that_does_not_fit_are_errors():
    @cuda.jit
    def zero(x, out):
        i = cuda.grid(1)
        out[i] = x[:: i - 2].size

    with pytest.raises(ValueError, match="line 3: slice step cannot be zero"):
        zero[1, 4](np.arange(4), np.zeros(4))

    @cuda.jit
    def too_many(x, out):
        i = cuda.grid(1)
        out[i : 2 * i] = (1, 2)

    with pytest.raises(ValueError, match="cannot assign 2 values to a slice of 0 elements"):
        too_many[1, 4](np.arange(4), np.zeros(9))


class Planet(enum.Enum):
    EARTH = (5.976e24, 6.37814e6)
    MARS = (6.421e23, 3.3972e6)


def test_members_whose_values_are_tuples_are_compared():
    @cuda.jit
    def kernel(given, out):
        i = cuda.grid(1)
        chosen = Planet.EARTH
        if i > 1:
            chosen = Planet.MARS
        out[i] = (given == chosen) + 2 * (given is Planet.MARS) + 4 * (chosen != Planet.MARS)

    out = np.zeros(4, np.int64)
    kernel[1, 4](Planet.MARS, out)
    assert list(out) == [6, 6, 3, 3]
    kernel[1, 4](Planet.EARTH, out)
    assert list(out) == [5, 5, 0, 0]


FROM_OUTSIDE = np.arange(5.0)


def test_a_copy_is_each_threads_own_where_numba_has_memory_for_it(monkeypatch):
    config = pytest.importorskip("numba.cuda.core.config")

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        for j in range(2):
            copy = x[j].copy()
            if j == 0:
                first = copy
            copy[i % 3] = -1.0
        out[i] = copy.sum() + 10 * first.sum() + FROM_OUTSIDE.sum()

    x, out = np.arange(6.0).reshape(2, 3), np.zeros(4)
    with pytest.raises(TypingError, match="NRT required but not enabled"):
        kernel[1, 4](x, out)
    monkeypatch.setattr(config, "CUDA_ENABLE_NRT", 1, raising=False)
    kernel[1, 4](x, out)
    first, last = np.where(np.eye(3, dtype=bool), -1, x[0]), np.where(np.eye(3) > 0, -1, x[1])
    assert list(out) == [(last.sum(1) + 10 * first.sum(1) + 10)[i % 3] for i in range(4)]
    assert x.min() == 0
