"""Reductions of whole arrays in a kernel, held to NumPy's and to Numba's own on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from tests.warpsim.numba_inference import inferred
from warpsim import cuda, trace
from warpsim.front.numba_typing import of_value

METHODS = {
    "sum": (lambda x: x.sum(), lambda x: np.sum(x)),
    "mean": (lambda x: x.mean(), lambda x: np.mean(x)),
    "prod": (lambda x: x.prod(), lambda x: np.prod(x)),
    "any": (lambda x: x.any(), lambda x: np.any(x)),
    "all": (lambda x: x.all(), lambda x: np.all(x)),
    "argmin": (lambda x: x.argmin(), lambda x: np.argmin(x)),
    "argmax": (lambda x: x.argmax(), lambda x: np.argmax(x)),
    "var": (lambda x: x.var(), lambda x: np.var(x)),
    "std": (lambda x: x.std(), lambda x: np.std(x)),
}
DTYPES = ["float32", "float64", "int8", "int32", "uint64", "bool"]


def rows(dtype, seed=0):
    """Rows with ties, zeros and, for floats, NaN in one of them."""
    values = np.random.default_rng(seed).integers(-3, 4, (8, 7)).astype(dtype)
    values[0] = 0
    if values.dtype.kind == "f":
        values[2, 3] = values[2, 5] = np.nan
        values[3] += np.float32(0.1)
    return values


def of_rows(function, values, dtype):
    inner = cuda.jit(device=True)(function)

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        out[i] = inner(x[i])

    out = np.zeros(len(values), dtype)
    kernel[1, len(values)](values, out)
    again = np.zeros_like(out)
    findings = trace(kernel, 1, len(values), values, again).findings
    assert not {"race", "out-of-bounds", "uninitialised-read"} & {f.kind for f in findings}
    np.testing.assert_array_equal(out, again)
    return out


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_reduction_is_numpys(name, dtype):
    values = rows(dtype)
    for function in METHODS[name]:
        agree(of_rows(function, values, "float64"), [function(row) for row in values])


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_reduction_is_numbas(name):
    values = rows("float32")
    compiled = njit(METHODS[name][0])
    agree(of_rows(METHODS[name][0], values, "float64"), [compiled(row) for row in values])


def agree(found, expected):
    expected = np.array(expected)
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected.astype(float))


def typed(function):
    """What numba-cuda infers for a row; older releases ask NVIDIA's compiler on the way."""
    try:
        return inferred(function, (of_value(rows("float32")[0]),))
    except Exception as error:
        if "libNVVM" in str(error):
            pytest.skip("needs NVIDIA's compilers")
        raise


@pytest.mark.parametrize("name", METHODS)
def test_numba_cuda_types_it_so(name):
    assert typed(METHODS[name][0]) is not None


def test_what_each_thread_reduces_may_have_a_length_of_its_own():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        part = x[: i + 1]
        out[i, 0], out[i, 1], out[i, 2] = part.prod(), part.argmax(), part.std()

    x, out = np.random.default_rng(1).random(6), np.zeros((6, 3))
    kernel[1, 6](x, out)
    expected = [[x[: i + 1].prod(), x[: i + 1].argmax(), x[: i + 1].std()] for i in range(6)]
    np.testing.assert_allclose(out, expected, atol=1e-12)


def test_the_place_of_nothing_is_an_error():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        if i < 2:
            out[i] = x[i:1].argmax()

    with pytest.raises(ValueError, match="line 4: attempt to reduce an empty sequence"):
        kernel[1, 2](np.ones(3), np.zeros(2))


@pytest.mark.parametrize("function", [lambda x: x.max(), lambda x: np.min(x), lambda x: x.cumsum()])
def test_what_numba_cuda_refuses_is_refused(function):
    with pytest.raises(TypingError):
        typed(function)
    with pytest.raises(TypingError):
        of_rows(function, rows("float32"), "float32")


def test_a_fill_sets_all_elements():
    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        mine = cuda.local.array((2, 3), np.float32)
        mine.fill(i)
        x[i].fill(2.75)
        out[i] = mine.sum()

    x, out = np.zeros((4, 3), np.int32), np.zeros(4)
    kernel[1, 4](x, out)
    assert (x == 2).all() and list(out) == [0, 6, 12, 18]
    x.flags.writeable = False
    with pytest.raises(TypingError, match="Cannot modify readonly array"):
        kernel[1, 4](x, out)
