"""Functions and types as arguments of device functions, as Numba takes them."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float32, float64
from numba.core.errors import TypingError

from warpsim import cuda, trace


@cuda.jit(device=True)
def square(x):
    return x * x


@cuda.jit(device=True)
def half(x):
    return x / 2


@cuda.jit(device=True)
def twice(function, x):
    return function(function(x))


@cuda.jit(device=True)
def update(operation, out, place, value):
    operation(out, place, value)


@cuda.jit(device=True)
def through_shared(x, size, kind, reverse):
    tile = cuda.shared.array(size, kind)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    if reverse:
        return tile[size - 1 - t]
    else:
        return tile[t]


def test_device_functions_are_passed_and_called():
    @cuda.jit
    def kernel(out, x):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = twice(square, x[i]) + twice(half, x[i])

    x = np.arange(7.0)
    out = np.zeros(7)
    kernel[2, 4](out, x)
    np.testing.assert_array_equal(out, x**4 + x / 4)


def test_an_atomic_is_passed_and_its_stores_are_copied_back_and_counted():
    @cuda.jit
    def kernel(out, x):
        i = cuda.grid(1)
        if i < x.size:
            update(cuda.atomic.add, out, i % 2, x[i])
            update(cuda.atomic.max, out, 2, x[i])

    x, out = np.arange(7, dtype=np.int32), np.zeros(3, np.int32)
    report = trace(kernel, 2, 4, out, x)
    np.testing.assert_array_equal(out, [12, 9, 6])
    assert report.findings == ()
    assert report.total("global", "atomic").lanes == 14


@pytest.mark.parametrize("kind", [float32, float64])
def test_a_type_a_size_and_a_choice_are_known_when_the_kernel_is_compiled(kind):
    @cuda.jit
    def kernel(out, x):
        out[cuda.threadIdx.x] = through_shared(x, 8, kind, True)
        out[cuda.threadIdx.x + 8] = through_shared(x, 8, kind, False)

    x, out = np.linspace(0, 1, 8), np.zeros(16)
    kernel[1, 8](out, x)
    kept = x.astype(str(kind)).astype(np.float64)
    np.testing.assert_array_equal(out, [*kept[::-1], *kept])


def test_a_plain_function_is_refused_with_its_name():
    def plain(x):
        return x

    @cuda.jit
    def kernel(out):
        out[0] = twice(plain, out[0])

    with pytest.raises(TypingError, match="plain"):
        kernel[1, 1](np.zeros(1))
