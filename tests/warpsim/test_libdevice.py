"""cuda.libdevice against Python's own functions, and against the declarations of numba-cuda."""

import math

import numpy as np
import pytest

from warpsim import cuda
from warpsim.run import libdevice

X = np.array([0.25, 0.5, 0.75, 0.9])
BY_MATH = [
    "acos", "asin", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "fabs",
    "floor", "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
    "trunc", "cbrt", "exp2",
]  # fmt: skip


def _kernel(function):
    @cuda.jit
    def each(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = function(x[i])

    return each


@pytest.mark.parametrize("name", BY_MATH)
@pytest.mark.parametrize("end, dtype", [("", np.float64), ("f", np.float32)])
def test_as_pythons_math(name, end, dtype):
    out = np.zeros(4)
    _kernel(getattr(cuda.libdevice, name + end))[1, 32](X.astype(dtype), out)
    expected = [getattr(math, name)(float(x)) for x in X.astype(dtype)]
    np.testing.assert_allclose(
        out, expected, rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).eps
    )
    if dtype is np.float32:
        assert (out == out.astype(np.float32)).all()


@cuda.jit
def several(x, out, bits):
    i = cuda.grid(1)
    if i < x.size:
        s, c = cuda.libdevice.sincosf(x[i])
        out[0, i] = s * s + c * c
        out[1, i] = cuda.libdevice.fast_fdividef(x[i], 2)
        out[2, i] = cuda.libdevice.saturatef(x[i] * 2 - 1)
        out[3, i] = cuda.libdevice.powif(x[i], 3)
        out[4, i] = cuda.libdevice.int_as_float(cuda.libdevice.float_as_int(x[i]))
        bits[i] = cuda.libdevice.float_as_int(x[i]) + cuda.libdevice.llmax(i, 2)


def test_results_that_are_no_plain_numbers():
    x, out, bits = X.astype(np.float32), np.zeros((5, 4), np.float32), np.zeros(4, np.int64)
    several[1, 32](x, out, bits)
    expected = [np.ones(4), x / 2, np.clip(2 * x - 1, 0, 1), x**3, x]
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    assert (bits == x.view(np.int32) + np.maximum(np.arange(4), 2)).all()


def test_types_are_those_that_numba_declares():
    declared = pytest.importorskip("numba.cuda.libdevicefuncs")
    for name, (_, result, operands) in libdevice.CALLS.items():
        signature = declared.create_signature(*declared.functions[f"__nv_{name}"])
        assert [str(kind) for kind in signature.args] == [str(kind) for kind in operands], name
        assert str(signature.return_type) == str(result), name


def test_what_is_missing_is_named():
    with pytest.raises(AttributeError, match="cuda.libdevice has no attribute 'fadd_ru'"):
        _ = cuda.libdevice.fadd_ru
