"""Values of typed expressions: the simulator against code that Numba compiled.

Without a GPU the other side is Numba's compiler for the CPU, with one function for each element;
on a GPU machine it is the GPU itself.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numba import njit
from numba.core.errors import NumbaError

from tests.texts import function_of
from tests.warpsim import the_course
from warpsim import cuda as simulated

DTYPES = ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64", "bool_"]
ELEMENTS = 40


def values(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Random values with the awkward ones first."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(ELEMENTS) < 0.5
    if kind.kind == "f":
        out = (rng.standard_normal(ELEMENTS) * 10).astype(kind)
        out[:4] = 0, -1, 1, 0.5
        return out
    info = np.iinfo(kind)
    out = rng.integers(-20, 20, ELEMENTS).astype(kind)
    out[:5] = 0, 1, info.max, info.min, 7
    return out


@st.composite
def expressions(draw, depth=0):
    """Source of an expression of a, b and c."""
    choice = draw(st.integers(0, 9 if depth < 3 else 2))
    if choice <= 1:
        return draw(st.sampled_from(["a", "b", "c"]))
    if choice == 2:
        return draw(st.sampled_from(["2", "3", "-1", "0.5", "1.0", "7"]))
    left = draw(expressions(depth + 1))
    if choice == 3:
        return f"(-{left})"
    if choice == 4:
        return f"({left} if {draw(expressions(depth + 1))} > 1 else {draw(expressions(depth + 1))})"
    right = draw(expressions(depth + 1))
    if choice == 5:
        return f"{draw(st.sampled_from(['min', 'max']))}({left}, {right})"
    if choice == 6:
        return f"({left} {draw(st.sampled_from(['<', '<=', '==', '!=']))} {right})"
    if choice == 7:
        return f"abs({left})"
    return (
        f"({left} {draw(st.sampled_from(['+', '-', '*', '+', '-', '*', '/', '//', '%']))} {right})"
    )


def as_kernel(text: str, module):
    """A kernel that evaluates the expression for each element."""
    source = (
        "def f(a_, b_, c_, out):\n"
        "    i = cuda.grid(1)\n"
        "    if i < out.size:\n"
        "        a = a_[i]\n"
        "        b = b_[i]\n"
        "        c = c_[i]\n"
        f"        out[i] = {text}\n"
    )
    return module.jit(function_of(source, f"{text} in {module.__name__}", {"cuda": module}))


def by_the_cpu(text: str, arrays: list[np.ndarray], out: np.ndarray) -> None:
    source = (
        "def f(a_, b_, c_, out):\n"
        "    for i in range(out.size):\n"
        "        a = a_[i]\n"
        "        b = b_[i]\n"
        "        c = c_[i]\n"
        f"        out[i] = {text}\n"
    )
    njit(error_model="numpy")(function_of(source, f"{text} on the CPU", {}))(*arrays, out)


@pytest.mark.slow
@settings(
    max_examples=70, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
@given(text=expressions(), dtypes=st.tuples(*[st.sampled_from(DTYPES)] * 3), seed=st.integers(0, 5))
def test_expressions_have_the_values_that_compiled_code_has(text, dtypes, seed):
    if not any(name in text for name in "abc"):
        return
    rng = np.random.default_rng(seed)
    arrays = [values(dtype, rng) for dtype in dtypes]
    found, wanted = np.zeros(ELEMENTS), np.zeros(ELEMENTS)
    try:
        as_kernel(text, simulated)[2, 32](*arrays, found)
    except NumbaError:
        if the_course.gpu() is not None:
            with pytest.raises(NumbaError):
                as_kernel(text, the_course.cuda)[2, 32](*arrays, wanted)
        return
    if the_course.gpu() is not None:
        as_kernel(text, the_course.cuda)[2, 32](*arrays, wanted)
    else:
        by_the_cpu(text, arrays, wanted)
        if "min" in text or "max" in text:  # a CPU's min and max do with NaN as they like
            same = ~(np.isnan(found) | np.isnan(wanted))
            found, wanted = found[same], wanted[same]
    scale = np.maximum(1, np.abs(np.nan_to_num(wanted, posinf=1, neginf=1)))
    single = "float32" in dtypes
    np.testing.assert_allclose(
        found / scale, wanted / scale, rtol=0, atol=3e-5 if single else 1e-12,
        err_msg=f"{text} with {dtypes}",
    )  # fmt: skip
