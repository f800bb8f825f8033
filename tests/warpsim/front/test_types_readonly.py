"""Arrays whose ``flags.writeable`` is False: kernels may read them, and no store is lost."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float32, types
from numba.core.errors import TypingError

from tests.warpsim.front.test_allocations import made, numbas
from tests.warpsim.numba_inference import inferred
from warpsim import cuda, trace
from warpsim.code.programs import program_of

READONLY = types.Array(types.float32, 1, "C", readonly=True)
STORES = [
    "x[0] = 1", "x[:] = 1", "y = x[1:]\ny[0] = 1", "y = x.reshape((2, 2))\ny[0, 0] = 1",
    "y = x.T\ny[0] = 1", "y = x.view(np.int32)\ny[0] = 1", "x[0] += 1", "t = (x, x)\nt[0][1] = 1",
    "y = x.real\ny[0] = 2", "if x.size > 3:\n    z = x\nelse:\n    z = w\nz[0] = 1",
    "y = x.reshape((2, 2))[0]\ny[0] = 1", "for y in x.reshape((2, 2)):\n    y[0] = 1",
]  # fmt: skip


def readonly(values):
    values = np.array(values, np.float32)
    values.flags.writeable = False
    return values


@pytest.mark.parametrize("text", [*STORES, "cuda.atomic.add(x, 0, 1)"])
def test_a_kernel_that_changes_one_is_refused(text):
    """As Numba refuses it; atomics Numba takes, and where their result ends is left open."""
    text, takes = f"w = cuda.local.array(4, float32)\n{text}", text not in STORES
    function = made(text)
    with pytest.raises(TypingError, match=r"Cannot modify readonly array(.|\n)*line \d"):
        program_of(function).typing((READONLY, types.int64))
    if not takes:
        with pytest.raises(TypingError):
            inferred(numbas(made(text)), (READONLY, types.int64))


def test_no_result_is_lost_at_a_launch():
    @cuda.jit
    def double(x):
        i = cuda.grid(1)
        x[i] = 2 * x[i]

    @cuda.jit
    def outer(x, factor):
        cuda.atomic.add(x, cuda.grid(1), factor)

    x = readonly([1, 2, 3, 4])
    for launch in (lambda: double[1, 4](x), lambda: trace(double, 1, 4, x)):
        with pytest.raises(TypingError, match="line 3 of double"):
            launch()
    with pytest.raises(TypingError, match="line 2 of outer"):
        outer[1, 4](x, 1)
    for hint in (cuda.Out, cuda.InOut):
        with pytest.raises(TypingError, match="readonly"):
            double[1, 4](hint(x))
    assert list(x) == [1, 2, 3, 4]


def test_a_device_function_that_stores_is_refused():
    @cuda.jit(device=True)
    def put(row, value):
        row[0] = value

    @cuda.jit
    def through(x):
        put(x, 1)

    with pytest.raises(TypingError, match="line 2 of put"):
        through[1, 1](readonly([1, 2]))


def test_a_kernel_that_reads_one_works():
    @cuda.jit(device=True)
    def third(row):
        return row[2]

    @cuda.jit
    def reads(x, pair, out):
        tile = cuda.shared.array(4, float32)
        i = cuda.grid(1)
        tile[i] = x[i]
        cuda.syncthreads()
        total = float32(0)
        for value in x:
            total += value
        out[i] = tile[3 - i] + x[1:][0] + third(pair[0]) + x.reshape((2, 2))[1, 1] + total

    x, out = readonly([1, 2, 3, 4]), np.zeros(4, np.float32)
    wanted = [4 - i + 2 + 3 + 4 + 10 for i in range(4)]
    reads[1, 4](x, (x, np.ones(3, np.float32)), out)
    assert list(out) == wanted
    report = trace(reads, 1, 4, x, (x, x), out)
    assert list(out) == wanted and not [f for f in report.findings if f.is_error]


def test_a_writable_one_and_a_readonly_one_in_turn():
    @cuda.jit
    def copy(x, out):
        out[cuda.grid(1)] = x[cuda.grid(1)]

    out = np.zeros(2, np.float32)
    for x in (np.ones(2, np.float32), readonly([3, 4])):
        copy[1, 2](x, out)
        assert list(out) == list(x)
    with pytest.raises(TypingError):
        copy[1, 2](out, readonly([3, 4]))


def test_a_signature_of_a_writable_array_does_not_fit():
    @cuda.jit("void(float32[:], float32[:])")
    def copy(x, out):
        out[cuda.grid(1)] = x[cuda.grid(1)]

    with pytest.raises(TypeError, match="No matching definition"):
        copy[1, 2](readonly([1, 2]), np.zeros(2, np.float32))
