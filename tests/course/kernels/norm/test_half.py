"""LayerNorm of 16-bit numbers, eight an access, simulated, against float64."""

import numpy as np
import pytest
from numba import types

from course import cuda, trace
from course.compiler.facts import compiled
from course.dispatch.slots import name_of
from course.kernels.arrays import as_words
from course.kernels.norm.half import ROWS, eights_refusal, wide
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.cases.norm import right
from tests.course.kernels.contract import ROUNDING, in_float64, typed

EPS = 1e-6
TYPES = ("float16", "bfloat16")
pytestmark = pytest.mark.usefixtures("h200")
ERRORS = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence"}


def given(rows, columns, element, shift=0.0):
    rng = np.random.default_rng(rows)
    sizes = (rows, columns), (columns,), (columns,)
    return [typed(shift * (len(s) > 1) + rng.standard_normal(s), element) for s in sizes]


def assert_right(out, arrays):
    """Rounded once, and a few roundings of float32."""
    exact = dict(zip(("x", "gamma", "beta"), map(in_float64, arrays), strict=True))
    y, beta = right(exact, EPS)[0].values, exact["beta"]
    sizes = np.abs(y - beta) + np.abs(beta)
    bound = (ROUNDING[name_of(out.dtype)] + 2.0**-16) * sizes + 1e-6
    assert (np.abs(in_float64(out) - y) <= bound).all()


def launched(arrays, element):
    """The result and the report of a launch on NaN."""
    rows, columns = arrays[0].shape
    out = cuda.to_device(typed(np.full((rows, columns), np.nan), element))
    x, gamma, beta, o = [as_words(a) for a in (*map(cuda.to_device, arrays), out)]
    report = trace(wide(element, columns), -(-rows // ROWS), 32 * ROWS, x, gamma, beta,
                   np.float32(EPS), o, gpu="H200")  # fmt: skip
    return out, report


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("columns", [768, 200])
def test_rows_are_float64s_rounded_once_and_read_once(columns, element):
    arrays = given(8, columns, element, shift=50.0)
    out, report = launched(arrays, element)
    assert not ERRORS & {finding.kind for finding in report.findings}
    assert_right(out, arrays)
    # eight rows of x once, and gamma and beta for each: 3 accesses of a warp, or 1
    assert report.total("global", "load").requests == 8 * 3 * -(-columns // 256)


@pytest.mark.parametrize("element", TYPES)
def test_where_eight_elements_cannot_be_accessed_at_once(element):
    x, gamma, beta = given(3, 256, element)
    there = [cuda.to_device(array) for array in (x, gamma, beta)]
    assert not eights_refusal(*there, there[0])
    assert eights_refusal(there[0][:, :252], there[1][:252], there[2][:252], there[0][:, :252])
    assert eights_refusal(there[0], cuda.to_device(np.ones(256, np.float32)), there[2], there[0])
    assert eights_refusal(there[0], there[1], None, there[0])


def test_sums_that_float16_cannot_hold():
    arrays = given(4, 768, "float16", shift=60.0)
    assert np.isinf(np.square(arrays[0]).sum(1, dtype=np.float16)).all()
    out, _ = launched(arrays, "float16")
    assert_right(out, arrays)


@needs_compiler
@pytest.mark.parametrize("element", TYPES)
def test_the_kernel_has_no_spills_and_accesses_of_16_bytes(element):
    plane, line = types.Array(types.uint32, 2, "C"), types.Array(types.uint32, 1, "C")
    facts = compiled(wide(element, 768), (plane, line, line, types.float32, plane), "sm_80")
    assert not facts.spills + facts.local_bytes and not facts.float64_lines
    assert facts.registers <= 64 and "ld.global.cs.v4.b32" in facts.ptx
