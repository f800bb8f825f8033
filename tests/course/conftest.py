"""What tests of the course share: NumPy in the place of a library of the GPU."""

import ctypes

import numpy as np
import pytest

from course import gpu
from course.kernels.gemm import library
from warpsim.core.number_types import rounded, widened


class NumPysBlas:
    """cuBLAS by its signatures, of memory that the host reads; it notes what it is asked."""

    def __init__(self):
        self.asked, self.where, self.now = [], [], []

    def cublasCreate_v2(self, handle):
        handle._obj.value = 77
        return 0

    def cublasSetMathMode(self, handle, mode):
        assert (handle.value, mode) == (77, 16)

    def cublasSetStream_v2(self, handle, stream):
        self.now = [stream.value or 0]

    def cublasSetWorkspace_v2(self, handle, space, size):
        assert space.value and size.value == library.SPACE
        self.now.append(space.value)

    def cublasGemmEx(self, handle, of_b, of_a, n, m, k, by, b, b_type, b_pitch, a, a_type, a_pitch,
                     more, out, type_, pitch, compute, how):  # fmt: skip
        assert (handle.value, compute, how, len(self.now), a_type) == (77, 68, -1, 2, b_type)
        assert (by._obj.value, more._obj.value) == (1, 0) and min(m, n, k) > 0
        a = _numbers(a.value, a_type, *((m, k) if of_a else (k, m)), a_pitch)
        b = _numbers(b.value, b_type, *((k, n) if of_b else (n, k)), b_pitch)
        x = ((a.T if of_a else a) @ (b.T if of_b else b)).astype(np.float32)
        there = _memory(out.value, type_, n, m, pitch)
        there[:] = rounded(x).view(np.uint16) if type_ == 14 else x
        self.asked.append((m, n, k))
        self.where.append(tuple(self.now))
        return 0

    def cublasGemmStridedBatchedEx(self, handle, of_b, of_a, n, m, k, by, *given):
        *matrices, images, compute, how = given
        b, a, more, out = matrices[:4], matrices[4:8], matrices[8], matrices[9:]
        for image in range(images):
            places = (
                (ctypes.c_void_p(p.value + image * apart.value * 4), kind, pitch)
                for p, kind, pitch, apart in (b, a, out)
            )
            b_, a_, out_ = places
            self.cublasGemmEx(handle, of_b, of_a, n, m, k, by, *b_, *a_, more, *out_, compute, how)
        return 0


def _memory(address, kind, columns, rows, pitch):
    """A matrix in memory, its rows ours."""
    number = np.dtype({0: np.float32, 2: np.float16, 14: np.uint16}[kind])
    size = ((rows - 1) * pitch + columns) * number.itemsize
    found = np.frombuffer((ctypes.c_char * size).from_address(address), number)
    steps = pitch * number.itemsize, number.itemsize
    return np.lib.stride_tricks.as_strided(found, (rows, columns), steps)


def _numbers(address, kind, *how):
    found = np.ascontiguousarray(_memory(address, kind, *how))
    return np.float64(widened(found) if kind == 14 else found)


@pytest.fixture
def blas(monkeypatch):
    """NumPy in cuBLAS's place, where there is no GPU."""
    its = NumPysBlas()
    if gpu() is None:
        handle = library.Handle(its)
        monkeypatch.setattr(library, "cublas", lambda: handle)
    return its
