"""CUDA's vector types in kernels: made of numbers and of shorter ones, read part by part."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError

from warpsim import cuda, trace


def test_both_names_of_a_type_are_one():
    assert cuda.float4 is cuda.float32x4 and cuda.ushort2 is cuda.uint16x2
    with pytest.raises(TypeError, match="works only inside a kernel"):
        cuda.float32x4(1, 2, 3, 4)


def test_numbers_become_the_types_own():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        v = cuda.int16x2(x[i] * 40_000, 2.75)
        out[i, 0], out[i, 1] = v.x, v.y

    out = np.zeros((3, 2))
    kernel[1, 3](np.arange(3.0), out)
    assert out[:, 1].tolist() == [2, 2, 2]
    assert out[:2, 0].tolist() == [0, 32767] or out[1, 0] == -25536


def test_vectors_are_made_of_vectors_chosen_handed_over_and_returned():
    @cuda.jit(device=True)
    def swapped(v):
        return cuda.float2(v.y, v.x)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        low = cuda.float2(x[i], 1)
        if i % 2:
            low = swapped(low)
        whole = cuda.float4(low, swapped(cuda.float2(2, 3)))
        for j, part in enumerate((whole.x, whole.y, whole.z, whole.w)):
            out[i, j] = part

    x, out = np.arange(10, 14, dtype=np.float32), np.zeros((4, 4), np.float32)
    kernel[1, 4](x, out)
    expected = [[10, 1, 3, 2], [1, 11, 3, 2], [12, 1, 3, 2], [1, 13, 3, 2]]
    assert out.tolist() == expected
    assert not trace(kernel, 1, 4, x, out).findings or out.tolist() == expected


def test_what_a_vector_is_not_made_of_is_refused():
    @cuda.jit
    def too_few(out):
        out[0] = cuda.float4(1, 2).x

    @cuda.jit
    def of_another_type(out):
        out[0] = cuda.float4(cuda.double2(1, 2), cuda.float2(3, 4)).x

    for kernel in (too_few, of_another_type):
        with pytest.raises(TypingError, match=r"float32x4\(.*it takes 4 numbers|(?s:.*)4 numbers"):
            kernel[1, 1](np.zeros(1))


def test_a_vector_is_no_tuple():
    @cuda.jit
    def indexed(out):
        out[0] = cuda.float2(1, 2)[0]

    @cuda.jit
    def measured(out):
        out[0] = len(cuda.float2(1, 2))

    @cuda.jit
    def beyond(out):
        out[0] = cuda.float2(1, 2).z

    with pytest.raises(TypingError, match="has the parts x, y"):
        indexed[1, 1](np.zeros(1))
    with pytest.raises(TypingError, match="len of float32x2"):
        measured[1, 1](np.zeros(1))
    with pytest.raises(TypingError, match="Unknown attribute 'z' of type float32x2"):
        beyond[1, 1](np.zeros(1))
