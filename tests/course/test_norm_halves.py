"""LayerNorm of 16-bit numbers, simulated: every step and both sweeps against float64."""

import numpy as np
import pytest

from course import backend, cuda, trace
from course.kernels.arrays import as_words
from course.kernels.norm import Variant, layer_norm
from course.kernels.norm.halves import (
    HALVES,
    eights_refusal,
    elements_sweep,
    in_registers,
    tokens_sweep,
)
from warpsim.core.number_types import rounded, widened
from warpsim.host import gpus
from warpsim.ptx.bfloat16 import BFLOAT16

EPS = 1e-6
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
ERRORS = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence"}


@pytest.fixture(autouse=True)
def simulated_h200(monkeypatch):
    monkeypatch.setattr(gpus, "_chosen", None)
    if backend.gpu() is None:
        backend.simulate("H200")


def stored(values, element):
    if element == "float16":
        return np.asarray(values, np.float16)
    return np.asarray(rounded(np.asarray(values, np.float32))).view(BFLOAT16)


def numbers(array):
    array = array.copy_to_host() if hasattr(array, "copy_to_host") else array
    return (widened(array.view(np.uint16)) if array.dtype == BFLOAT16 else array).astype(float)


def given(rows, columns, element, shift=0.0):
    rng = np.random.default_rng(rows)
    sizes = (rows, columns), (columns,), (columns,)
    return [stored(shift * (len(s) > 1) + rng.standard_normal(s), element) for s in sizes]


def near(found, x, gamma, beta, element):
    x, gamma, beta = map(numbers, (x, gamma, beta))
    x = x - x.mean(1, keepdims=True)
    y = x / np.sqrt((x * x).mean(1, keepdims=True) + EPS)
    bound = (ROUNDING[element] + 2.0**-16) * (np.abs(y * gamma) + np.abs(beta)) + 1e-6
    return (np.abs(numbers(found) - (y * gamma + beta)) <= bound).all()


def launched(launch, arrays, element, words=False):
    """The result and the report of a launch on NaN."""
    x = arrays[0]
    out = cuda.to_device(stored(np.full(x.shape, np.nan), element))
    there = [cuda.to_device(array) for array in arrays]
    x, gamma, beta, o = [as_words(a) if words else a for a in (*there, out)]
    report = trace(launch.kernel, launch.blocks, launch.threads, x, gamma, beta, np.float32(EPS), o,
                   gpu="H200")  # fmt: skip
    return out, report


@pytest.mark.parametrize("element", ROUNDING)
@pytest.mark.parametrize("columns", [768, 200])
@pytest.mark.parametrize("step", HALVES)
def test_every_step_is_float64s_rounded_once(step, columns, element):
    arrays = given(5, columns, element, shift=50.0)
    out, report = launched(
        HALVES[step](5, columns, Variant(element)), arrays, element, step == "wide"
    )
    assert not ERRORS & {finding.kind for finding in report.findings}
    assert near(out, *arrays, element)


@pytest.mark.parametrize("sweep", [tokens_sweep, elements_sweep])
def test_every_shape_of_a_sweep_is_right(sweep):
    arrays = given(7, 768, "float16")
    for shape in sweep(768).values():
        out, _ = launched(in_registers(shape, 7, 768, Variant("float16")), arrays, "float16")
        assert near(out, *arrays, "float16")


def test_later_steps_make_fewer_requests():
    arrays = given(8, 768, "float16")
    requests = {}
    for step in HALVES:
        launch = HALVES[step](8, 768, Variant("float16"))
        _, report = launched(launch, arrays, "float16", step == "wide")
        requests[step] = report.total("global", "load").requests
    assert requests["tree"] > requests["pairs"] >= requests["block"] > requests["registers"]
    assert requests["wide"] * 2 == requests["registers"]
    # eight rows of x once, and gamma and beta for each: 3 accesses of a warp
    assert requests["wide"] == 8 * 3 * 3


@pytest.mark.parametrize("element", ROUNDING)
def test_the_front_door_takes_wide_accesses_where_it_can(element):
    x, gamma, beta = given(3, 256, element)
    assert near(layer_norm(x, gamma, beta, EPS), x, gamma, beta, element)
    there = [cuda.to_device(array) for array in (x, gamma, beta)]
    assert not eights_refusal(*there, there[0])
    assert eights_refusal(there[0][:, :252], there[1][:252], there[2][:252], there[0][:, :252])
    assert eights_refusal(there[0], cuda.to_device(np.ones(256, np.float32)), there[2], there[0])
    assert eights_refusal(there[0], there[1], None, there[0])


def test_sums_that_float16_cannot_hold():
    arrays = given(4, 768, "float16", shift=60.0)
    assert np.isinf(np.square(arrays[0]).sum(1, dtype=np.float16)).all()
    out, _ = launched(HALVES["wide"](4, 768, Variant("float16")), arrays, "float16", True)
    assert near(out, *arrays, "float16")


def test_a_row_with_nan_or_infinity_is_nan_alone():
    x, gamma, beta = given(4, 256, "float16")
    x[1, 7], x[2, 200] = np.nan, np.inf
    out, _ = launched(HALVES["wide"](4, 256, Variant("float16")), (x, gamma, beta), "float16", True)
    assert np.isnan(out.copy_to_host()).all(1).tolist() == [False, True, True, False]
    assert np.isfinite(out.copy_to_host()[[0, 3]]).all()
