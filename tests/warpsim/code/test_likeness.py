"""Functions that are alike share one program; what may change is like nothing else."""

import types as python_types

import numpy as np
import pytest
from numba import types

from warpsim import cuda
from warpsim.code.programs import program_of

LIMIT = 3
BY_VALUE = [
    3, 2.5, -0.0, True, 1 + 2j, "text", None, np.float32(1.5), slice(1, 4), (1, (2.0, slice(3))),
    types.float32, np.float64, np.dtype("f4"), np.arange(3), range,
]  # fmt: skip


def made(value, step=1):
    @cuda.jit
    def kernel(x, by=step):
        if value is not None:
            x[cuda.threadIdx.x] += by

    return kernel


def calling(function):
    @cuda.jit
    def kernel(x):
        x[0] = function(x[0])

    return kernel


def added(amount, **options):
    @cuda.jit(device=True, **options)
    def add(x):
        return x + amount

    return add


def same(one, other):
    return program_of(one) is program_of(other)


@pytest.mark.parametrize("value", BY_VALUE, ids=repr)
def test_what_is_made_anew_shares_a_program(value):
    assert same(made(value), made(value))


@pytest.mark.parametrize(
    "one, other",
    [
        (0.0, -0.0), (1, 1.0), (1, True), (slice(1), slice(2)), (np.float32(1), np.float64(1)),
        (types.float32, types.float64), (np.arange(3), np.arange(4)),
        (np.arange(4), np.arange(4)[::-1][::-1].reshape(2, 2)), ((1, 2), (1, 3)),
    ],
)  # fmt: skip
def test_what_differs_does_not(one, other):
    assert not same(made(one), made(other))
    assert not same(made(1, step=1), made(1, step=2))


def test_an_array_that_has_changed_meanwhile_is_another():
    table = np.arange(3.0)
    first = made(table)
    program_of(first)
    table[0] = 7
    assert not same(first, made(table))


def test_device_functions_are_compared_by_what_they_do():
    assert same(calling(added(1)), calling(added(1)))
    assert not same(calling(added(1)), calling(added(2)))
    assert not same(calling(added(1)), calling(added(1, inline="always")))
    x, y = np.zeros(1), np.zeros(1)
    calling(added(1))[1, 1](x)
    calling(added(2))[1, 1](y)
    assert x[0] == 1 and y[0] == 2


class Holder:
    limit = 1


@pytest.mark.parametrize(
    "value", [[1, 2], {"a": 1}, Holder, python_types.ModuleType("settings"), cuda.to_device([1.0])]
)
def test_what_may_change_is_like_nothing_else(value):
    assert not same(made(value), made(value))


def test_a_global_that_has_changed_meanwhile(monkeypatch):
    def kernel():
        @cuda.jit
        def fill(x):
            x[0] = LIMIT

        return fill

    first, second = np.zeros(1), np.zeros(1)
    kernel()[1, 1](first)
    monkeypatch.setitem(globals(), "LIMIT", 4)
    kernel()[1, 1](second)
    assert first[0] == 3 and second[0] == 4


def test_one_that_calls_itself_is_its_own():
    def countdown():
        @cuda.jit(device=True)
        def down(n):
            if n <= 0:
                return 0
            return 1 + down(n - 1)

        @cuda.jit
        def kernel(x):
            x[0] = down(int(x[0]))

        return kernel

    one, other = countdown(), countdown()
    assert not same(one, other)
    x = np.full(1, 5.0)
    other[1, 1](x)
    assert x[0] == 5


def test_one_whose_names_have_no_value_yet_is_its_own():
    def early():
        @cuda.jit
        def kernel(x):
            x[0] = later

        program_of(kernel)
        later = 2
        return kernel

    assert not same(early(), early())
