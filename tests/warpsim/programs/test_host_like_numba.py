"""The host side as Numba has it: overloads, specialised kernels, array interface, ufuncs."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float32, int32, njit, types
from numba.core.errors import TypingError

from warpsim import cuda


class Foreign:
    """An array of another library: only its interface is known."""

    def __init__(self, array):
        self.owner, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


def test_overloads_tell_the_types_of_the_launches():
    @cuda.jit
    def kernel(x, factor):
        x[0] *= factor

    kernel[1, 1](np.ones(2, np.float32), 2)
    kernel[1, 1](cuda.to_device(np.ones(5, np.float32)), 3)
    kernel[1, 1](np.ones(2, np.float32), 2.5)
    array = types.Array(types.float32, 1, "C")
    assert list(kernel.overloads) == [(array, types.int64), (array, types.float64)]
    assert not kernel.overloads[array, types.int64].cooperative


def test_a_declared_kernel_is_typed_where_it_is_declared():
    with pytest.raises(TypingError, match="shape of cuda.shared.array must be"):

        @cuda.jit("void(int32)")
        def kernel(n):
            cuda.shared.array(n, float32)


def test_a_float_for_a_declared_integer_is_refused_at_the_launch():
    @cuda.jit("void(int32[:], int32)")
    def kernel(x, n):
        x[0] = n

    with pytest.raises(TypeError, match="argument 'n' is a float64, the signature says int32"):
        kernel[1, 1](np.zeros(1, np.int32), 1.5)


def test_specialised_kernels_are_kept_and_specialised_once():
    @cuda.jit
    def kernel(x):
        x[0] = 1

    made = kernel.specialize(float32[::1])
    assert made is kernel.specialize(np.zeros(3, np.float32)) and len(kernel.specializations) == 1
    assert kernel.specialize(int32[::1]) is not made
    with pytest.raises(RuntimeError, match="Dispatcher already specialized"):
        made.specialize(float32[::1])


def test_extensions_prepare_the_arguments():
    class InOnly:
        def prepare_args(self, kind, value, **options):
            return kind, cuda.In(value)

    @cuda.jit(extensions=[InOnly()])
    def kernel(x):
        x[0] = 7

    x = np.zeros(1)
    kernel[1, 1](x)
    assert x[0] == 0


def test_an_array_goes_through_the_array_interface_and_back():
    x = np.arange(24.0).reshape(4, 6)
    on_device = cuda.to_device(x)
    view = on_device[1::2, ::-1]
    back = cuda.as_cuda_array(Foreign(view))
    np.testing.assert_array_equal(back[:, ::-1].copy_to_host(), x[1::2])

    @cuda.jit
    def kernel(a):
        a[0, 0] = -1

    kernel[1, 1](Foreign(view))
    assert on_device.copy_to_host()[1, 5] == -1
    with pytest.raises(NotImplementedError, match="negative strides"):
        view.copy_to_host()


def test_an_unknown_address_is_not_read():
    interface = {"data": (64, False), "shape": (3,), "typestr": "<f8", "version": 3}
    with pytest.raises(TypeError, match="no memory of the simulator"):
        cuda.from_cuda_array_interface(interface)


def test_arrays_without_a_copy_in_one_piece_are_refused():
    rows = np.arange(20).reshape(4, 5)
    on_device = cuda.to_device(rows)
    with pytest.raises(ValueError, match="non-contiguous"):
        on_device[:, 0].copy_to_device(np.zeros(4, rows.dtype))
    with pytest.raises(ValueError, match="incompatible strides"):
        on_device.copy_to_device(cuda.to_device(np.asfortranarray(rows)))
    with pytest.raises(NotImplementedError, match="ravel"):
        on_device[::2, ::2].ravel()
    with pytest.raises(NotImplementedError, match="requires copying"):
        on_device[:, 1:].reshape(16)
    assert on_device[1:3].reshape(10).copy_to_host().tolist() == list(range(5, 15))
    assert on_device[:0, 1:].reshape(0).shape == (0,)


def test_options_and_arguments_of_ufuncs_are_checked():
    with pytest.raises(KeyError, match="Unrecognized options"):
        cuda.vectorize(["f8(f8)"], fast=True)
    with pytest.raises(TypeError, match="options are not supported: 'fast'"):
        cuda.guvectorize(["void(f8[:], f8[:])"], "(n)->(n)", fast=True)
    with pytest.raises(TypeError, match="specifies float64 return type"):
        cuda.guvectorize(["f8(f8[:], f8[:])"], "(n)->(n)")

    @cuda.guvectorize(["void(f8[:], f8, f8[:])"], "(n),()->(n)")
    def scale(x, factor, out):
        for i in range(x.shape[0]):
            out[i] = x[i] * factor

    np.testing.assert_array_equal(scale(np.arange(3.0), 2.0), [0, 2, 4])
    with pytest.raises(TypeError, match="Numba widens no argument"):
        scale(np.arange(3.0), 2)
    with pytest.raises(TypeError, match="accepts 2 positional arguments .* Got 1 positional"):
        scale(np.arange(3.0))
    with pytest.raises(ValueError, match="both positional and keyword"):
        scale(np.arange(3.0), 2, np.zeros(3), out=np.zeros(3))


def test_a_ufunc_and_a_cpu_function_are_refused_in_kernels():
    @cuda.vectorize(["f8(f8, f8)"])
    def product(a, b):
        return a * b

    @njit("f8(f8, f8)")
    def on_cpu(a, b):
        return a * b

    def calls(chosen):
        @cuda.jit
        def kernel(x):
            x[0] = chosen(x[0], x[0])

        return kernel

    for function in (product, on_cpu):
        with pytest.raises(TypingError, match="Untyped global name 'chosen'"):
            calls(function)[1, 1](np.ones(1))


def test_a_ufunc_reduces():
    @cuda.vectorize(["f8(f8, f8)"])
    def product(a, b):
        return a * b

    x = np.random.default_rng(1).random(37)
    np.testing.assert_allclose(product.reduce(x), x.prod())
