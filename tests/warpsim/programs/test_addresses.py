"""Addresses: pointers as arguments, arrays made of them, the address of an array."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float32, int32, types, uint8, uint32
from numba.core.errors import TypingError

from warpsim import KernelError, cuda, trace
from warpsim.front.names import Unsupported

try:
    from numba.cuda.np.numpy_support import carray, farray
except ImportError:  # older releases take Numba's
    from numba import carray, farray


@cuda.jit(types.void(types.CPointer(uint8), uint32))
def add_one(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] += 1


def test_a_pointer_is_the_memory_of_a_device_array():
    x = cuda.to_device(np.arange(10, dtype=np.uint8))
    address = x.__cuda_array_interface__["data"][0]
    add_one[1, 32](address, len(x))
    assert list(x.copy_to_host()) == list(range(1, 11))
    add_one[1, 32](address + 4, 2)
    assert list(x.copy_to_host()) == [1, 2, 3, 4, 6, 7, 7, 8, 9, 10]


def test_a_pointer_reaches_to_the_end_of_its_allocation():
    x = cuda.to_device(np.zeros(10, np.uint8))
    with pytest.raises(KernelError, match=r"x\[10\], but x has size 10"):
        add_one[1, 32](x.gpu_data.device_pointer, 11)
    with pytest.raises(TypeError, match="is no memory of the simulator"):
        add_one[1, 32](16, 1)


@pytest.mark.parametrize("code", [lambda p: p.size, lambda p: p.shape[0], lambda p: len(p)])
def test_a_pointer_has_no_size_and_no_shape(code):
    function = cuda.jit(device=True)(code)
    with pytest.raises(TypingError, match=r"int32\*"):

        @cuda.jit(types.void(types.CPointer(int32)))
        def kernel(p):
            p[0] = function(p)


@pytest.mark.parametrize("make", [carray, farray])
def test_an_array_is_made_of_a_pointer(make):
    @cuda.jit(types.void(types.CPointer(float32), int32, types.float64[:]))
    def kernel(p, rows, out):
        a = make(p, (rows, 3), dtype=float32)
        i = cuda.grid(1)
        if i < rows:
            out[i] = a[i, 0] + 10 * a[i, 2]
            a[i, 1] = -1

    values = np.arange(6, dtype=np.float32)
    x, out = cuda.to_device(values), np.zeros(2)
    kernel[1, 32](x.gpu_data.device_pointer, 2, out)
    matrix = values.reshape((2, 3), order="F" if make is farray else "C")
    assert list(out) == list(matrix[:, 0] + 10 * matrix[:, 2])
    assert (x.copy_to_host() == -1).sum() == 2
    with pytest.raises(ValueError, match=r"p has 6 elements, the shape is \(3, 3\)"):
        kernel[1, 32](x.gpu_data.device_pointer, 3, out)


def test_a_race_over_a_pointer_is_found():
    @cuda.jit(types.void(types.CPointer(float32), float32[:]))
    def kernel(p, x):
        a = carray(p, 4)
        i = cuda.grid(1)
        a[i] = 1
        x[3 - i] = 2

    x = cuda.to_device(np.zeros(4, np.float32))
    report = trace(kernel, 1, 4, x.gpu_data.device_pointer, x)
    assert "race" in {finding.kind for finding in report.findings}


@pytest.mark.parametrize("kind", [types.intp, types.CPointer(int32)])
def test_an_array_of_another_address_is_refused_by_name(kind):
    @cuda.jit
    def kernel(address, out):
        out[0] = carray(address, (2, 3), float32)[0, 0]

    x = cuda.to_device(np.zeros(6, np.int32))
    with pytest.raises(Unsupported, match=r"an array of an address, carray(.|\n)*CPointer"):
        cuda.jit(types.void(kind, types.float64[:]))(kernel.py_func)[1, 1](
            x.gpu_data.device_pointer, np.zeros(1)
        )


def test_an_array_tells_its_address():
    @cuda.jit
    def kernel(x, out):
        s = cuda.shared.array(5, uint8)
        t = cuda.shared.array(8, float32, alignment=256)
        mine = cuda.local.array(2, float32)
        s[0] = 0
        out[0], out[1] = x.ctypes.data, x[3:].ctypes.data
        out[2], out[3] = t.ctypes.data, t[1:].ctypes.data - t.ctypes.data
        out[4] = mine.ctypes.data % 4

    x, out = cuda.to_device(np.arange(6, dtype=np.float32)), np.zeros(5, np.uint64)
    kernel[1, 1](x, out)
    address = x.gpu_data.device_pointer
    assert list(out[:2]) == [address, address + 12]
    assert out[2] % 256 == 0 and list(out[3:]) == [4, 0]


@pytest.mark.parametrize("alignment", [-8, 0, 3, 4, 24])
def test_an_impossible_alignment_is_refused(alignment):
    @cuda.jit
    def kernel():
        cuda.shared.array(4, uint8, alignment=alignment)

    with pytest.raises(ValueError, match=r"Alignment must be .*-?\d+"):
        kernel[1, 1]()


def test_an_alignment_that_is_no_integer_is_refused():
    @cuda.jit
    def kernel():
        cuda.local.array(4, uint8, alignment=16.0)

    with pytest.raises(TypingError, match="RequireLiteralValue: alignment must be a constant"):
        kernel[1, 1]()


def test_integers_of_the_declared_size_are_taken_for_the_declared_ones():
    @cuda.jit("void(int32[:], int32)")
    def kernel(x, n):
        x[cuda.grid(1)] -= n

    x = np.arange(4, dtype=np.uint32)
    kernel[1, 4](x, 1)
    assert list(x.view(np.int32)) == [-1, 0, 1, 2]
    with pytest.raises(TypeError, match="No matching definition"):
        kernel[1, 4](np.zeros(4, np.int64), 1)
    with pytest.raises(TypeError, match="No matching definition"):
        kernel[1, 4](np.zeros(4, np.float32), 1)


def test_views_of_other_types_have_the_same_address():
    dates = np.arange("2005-02", "2005-04", dtype="datetime64[D]")
    array = cuda.to_device(dates)
    assert array.view(np.int64).gpu_data == array.gpu_data
    assert int(array.gpu_data) == array.gpu_data.device_ctypes_pointer.value
    assert array.gpu_data.size == dates.nbytes
