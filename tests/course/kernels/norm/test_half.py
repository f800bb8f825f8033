"""LayerNorm of 16-bit numbers, simulated: every step and both sweeps against float64."""

import numpy as np
import pytest

from course import cuda, trace
from course.compiler.facts import compiled
from course.dispatch.slots import name_of
from course.heuristics.norm import Variant, elements_sweep, tokens_sweep
from course.kernels.arrays import as_words
from course.kernels.norm.half import STEPS, eights_refusal
from course.kernels.norm.registers import in_registers
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.cases.norm import right
from tests.course.kernels.contract import ROUNDING, in_float64, typed
from tools.compile import tensor_cases as cases

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


def launched(launch, arrays, element, words=False):
    """The result and the report of a launch on NaN."""
    x = arrays[0]
    out = cuda.to_device(typed(np.full(x.shape, np.nan), element))
    there = [cuda.to_device(array) for array in arrays]
    x, gamma, beta, o = [as_words(a) if words else a for a in (*there, out)]
    report = trace(launch.kernel, launch.blocks, launch.threads, x, gamma, beta, np.float32(EPS), o,
                   gpu="H200")  # fmt: skip
    return out, report


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("columns", [768, 200])
@pytest.mark.parametrize("step", STEPS)
def test_every_step_is_float64s_rounded_once(step, columns, element):
    arrays = given(5, columns, element, shift=50.0)
    out, report = launched(
        STEPS[step](5, columns, Variant(element)), arrays, element, step == "wide"
    )
    assert not ERRORS & {finding.kind for finding in report.findings}
    assert_right(out, arrays)


@pytest.mark.parametrize("sweep", [tokens_sweep, elements_sweep])
def test_every_shape_of_a_sweep_is_right(sweep):
    arrays = given(7, 768, "float16")
    for shape in sweep(768).values():
        out, _ = launched(in_registers(shape, 7, 768, Variant("float16")), arrays, "float16")
        assert_right(out, arrays)


def test_later_steps_make_fewer_requests():
    arrays = given(8, 768, "float16")
    requests = {}
    for step in STEPS:
        launch = STEPS[step](8, 768, Variant("float16"))
        _, report = launched(launch, arrays, "float16", step == "wide")
        requests[step] = report.total("global", "load").requests
    assert requests["tree"] > requests["pairs"] >= requests["block"] > requests["registers"]
    assert requests["wide"] * 2 == requests["registers"]
    # eight rows of x once, and gamma and beta for each: 3 accesses of a warp
    assert requests["wide"] == 8 * 3 * 3


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
    out, _ = launched(STEPS["wide"](4, 768, Variant("float16")), arrays, "float16", True)
    assert_right(out, arrays)


@needs_compiler
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("step", STEPS)
def test_steps_of_layer_norm_have_no_spills_and_the_width_they_say(step, element):
    kernel = STEPS[step](197, 768, Variant(element)).kernel
    facts = compiled(kernel, cases.of_norm(step, element), "sm_80")
    assert not facts.spills + facts.local_bytes and not facts.float64_lines
    assert facts.registers <= 64
    wide = {"wide": "ld.global.cs.v4.b32", "registers": "ld.global.cs.v4.b16"}
    assert wide.get(step, "ld.global") in facts.ptx
