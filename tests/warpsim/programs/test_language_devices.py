"""Device functions as Numba calls them: several signatures, rows by thread, arrays' order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba.core.errors import TypingError

from warpsim import cuda


def _add(a, b):
    return a + b


add = cuda.jit(["(int64, int64)", "(float64, float64)"], device=True)(_add)
widened = cuda.jit(["(float32, float32)", "(float64, float64)"], device=True)(_add)


def test_a_device_function_is_called_by_the_signature_that_loses_least():
    @cuda.jit
    def kernel(out):
        out[0] = add(1.5, 2.5)
        out[1] = add(1, 2)
        out[2] = add(1, 2.5)
        out[3] = widened(1.0, 2.0**-25)

    out = np.zeros(4)
    kernel[1, 1](out)
    assert out.tolist() == [4.0, 3.0, 3.5, 1.0 + 2.0**-25]


def test_a_device_function_without_a_fitting_signature_is_refused():
    @cuda.jit
    def kernel(out, x):
        out[0] = add(x[0], x[0])

    with pytest.raises(TypingError, match="(?s)Invalid use of .*complex128.*Known signatures"):
        kernel[1, 1](np.zeros(1, complex), np.zeros(1, complex))


def test_a_row_chosen_by_thread_is_each_threads_own():
    @cuda.jit
    def kernel(a, out):
        i = cuda.grid(1)
        if i % 2 == 0:
            row = a[0]
        else:
            row = a[1]
        out[i] = row[i % 3]

    a = np.arange(6.0).reshape(2, 3)
    out = np.zeros(6)
    kernel[1, 6](a, out)
    assert out.tolist() == [a[i % 2, i % 3] for i in range(6)]


def test_erfc_of_large_numbers_is_no_zero():
    @cuda.jit
    def kernel(out, x):
        i = cuda.grid(1)
        out[i] = math.erfc(x[i])

    x = np.linspace(-3.0, 28.0, 63)
    out = np.zeros_like(x)
    kernel[1, len(x)](out, x)
    np.testing.assert_allclose(out, [math.erfc(value) for value in x], rtol=1e-12)
    assert out[60] > 0  # 27.0: smaller than the smallest normal number


def test_arrays_like_a_view_keep_the_order_of_its_strides():
    view = np.zeros((10, 12), order="F")[::2, ::2]
    on_device = cuda.device_array((10, 12), order="F")[::2, ::2]
    for like in (cuda.device_array_like, cuda.pinned_array_like, cuda.mapped_array_like):
        assert like(on_device).strides == np.zeros_like(view).strides


def test_a_transposed_device_array_is_a_copy_in_c_order():
    a = np.arange(120).reshape(10, 12)
    view = cuda.to_device(a)[::2, ::2]
    turned = view.T
    assert turned.strides == (40, 8)
    np.testing.assert_array_equal(turned.copy_to_host(), a[::2, ::2].T)
    turned[0] = -1
    np.testing.assert_array_equal(view.copy_to_host(), a[::2, ::2])


def test_a_device_function_may_have_the_name_of_a_variable_where_it_is_called():
    def make():
        @cuda.jit(device=True)
        def count(x):
            return x + 1

        return count

    count_of = make()

    @cuda.jit
    def kernel(out):
        count = out[0]
        for i in range(3):
            count += count_of(i)
        out[0] = count

    out = np.zeros(1, np.int64)
    kernel[1, 1](out)
    assert out[0] == 6
