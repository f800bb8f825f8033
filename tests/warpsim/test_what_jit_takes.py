"""What cuda.jit is given that is no plain function, and words that Python has for several."""

import functools

import numpy as np
import pytest
from numba.core.errors import TypingError

from warpsim import KernelError, Unsupported, cuda


class Callable:
    def __call__(self, x):
        x[0] = 1


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (Callable, "the class Callable"),
        (Callable(), "a Callable"),
        (Callable().__call__, "a method"),
        (functools.partial(Callable()), "a partial"),
        (len, "a builtin_function_or_method"),
    ],
)
def test_jit_of_what_is_no_function_says_what_it_is(value, what):
    for decorate in (cuda.jit, cuda.jit(device=True)):
        with pytest.raises(TypeError, match=f"written with def, not {what}:"):
            decorate(value)


def test_a_kernel_that_another_decorator_wrapped_is_named():
    def logged(function):
        @functools.wraps(function)
        def around(x):
            return function(x)

        return around

    @cuda.jit
    @logged
    def kernel(x):
        x[0] = 1

    with pytest.raises(Unsupported, match="kernel is decorated: what runs is 'around'"):
        kernel[1, 1](np.zeros(1))


def test_one_of_several_numbers():
    @cuda.jit
    def choose(x):
        i = cuda.grid(1)
        if i in (2, 5):
            x[i] = 1
        if i not in (2, 3):
            x[i] += 2

    x = np.zeros(8)
    choose[1, 8](x)
    assert x.tolist() == [2, 2, 1, 0, 2, 3, 2, 2]


def test_a_slice_of_fixed_length_is_unpacked():
    @cuda.jit
    def unpack(x, rows, out):
        a, b, c = x[:3]
        first, second = rows[1:3]
        out[0] = 100 * a + 10 * b + c
        out[1] = first[0] + second[1]

    out = np.zeros(2)
    unpack[1, 1](np.arange(1.0, 9.0), np.arange(8.0).reshape(4, 2), out)
    assert out.tolist() == [123, 2 + 5]


def test_unpacking_beyond_the_end_is_found():
    @cuda.jit
    def unpack(x):
        a, b, c = x[1:4]
        x[0] = a + b + c

    with pytest.raises(KernelError, match="out-of-bounds"):
        unpack[1, 1](np.zeros(3))


def test_a_loop_over_a_list_of_numbers():
    @cuda.jit
    def add(x):
        i = cuda.grid(1)
        for j in [1, 2, 4]:
            x[i] += j * i

    x = np.zeros(4)
    add[1, 4](x)
    assert x.tolist() == [0, 7, 14, 21]


def test_none_in_the_place_of_an_array_is_named():
    @cuda.jit
    def fill(x):
        x[0] = 1

    with pytest.raises(TypingError, match="x is None, not an array"):
        fill[1, 1](None)
