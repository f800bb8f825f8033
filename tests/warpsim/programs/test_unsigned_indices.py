"""Unsigned indices below zero: Numba wraps only signed ones, so these are outside of any array."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float32, uint32, uint64

from warpsim import cuda, trace
from warpsim.watch.findings import KernelError


@cuda.jit
def load(x, out):
    t = cuda.threadIdx.x
    i = uint32(t) - uint32(1)
    out[t] = x[i]


@cuda.jit
def store(x, out):
    out[uint32(cuda.threadIdx.x) - uint32(1)] = x[0]


@cuda.jit
def atomic(x, out):
    cuda.atomic.add(out, uint32(cuda.threadIdx.x) - uint32(1), x[0])


@cuda.jit
def tuple_of_two(x, out):
    i = (0, uint32(cuda.threadIdx.x) - uint32(1))
    out[cuda.threadIdx.x] = x.reshape((1, 8))[i]


@cuda.jit
def atomic_of_a_tuple(x, out):
    i = (0, uint32(cuda.threadIdx.x) - uint32(1))
    cuda.atomic.add(out.reshape((1, 8)), i, x[0])


@cuda.jit
def row(x, out):
    out[cuda.threadIdx.x] = x.reshape((8, 1))[uint32(cuda.threadIdx.x) - uint32(1)][0]


@cuda.jit
def same_for_all(x, out):
    i = uint64(cuda.gridDim.x) - uint64(2)
    out[0] = x[i]


@cuda.jit
def of_shared(x, out):
    tile = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    out[t] = tile[uint32(t) - uint32(1)]


@cuda.jit
def ragged(x, out):
    t = cuda.threadIdx.x
    out[t] = x[t:][uint32(t) - uint32(1)]


ALL = [load, store, atomic, tuple_of_two, atomic_of_a_tuple, row, same_for_all, of_shared, ragged]


@pytest.mark.parametrize("kernel", ALL, ids=lambda kernel: kernel.__name__)
def test_an_unsigned_index_below_zero_is_out_of_bounds(kernel):
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    found = [f for f in trace(kernel, 1, 8, x, out).findings if f.kind == "out-of-bounds"]
    assert len(found) == 1 and found[0].is_error
    assert "18446744073709551615" in found[0].message and "unsigned" in found[0].message
    assert found[0].where.thread == (0, 0, 0)
    with pytest.raises(KernelError):
        kernel[1, 8](x, out)


def test_nothing_is_written_at_the_array_s_end():
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    trace(store, 1, 1, x, out)
    assert not out.any()


def test_signed_indices_still_count_from_the_end_and_unsigned_ones_inside_are_right():
    @cuda.jit
    def mixed(x, out):
        t = cuda.threadIdx.x
        i = uint32(t) + uint32(0)
        out[i] = x[i] + x[t - 8] + x[uint64(7) - uint64(t)]

    x, out = np.arange(8.0), np.zeros(8)
    report = trace(mixed, 1, 8, x, out)
    assert list(out) == [2 * i + 7 - i for i in range(8)]
    assert [f.kind for f in report.findings if f.kind != "float64"] == ["negative-index"]
