"""What is special about activations: all numbers of float32, limits and signs, the tail, bytes."""

import numpy as np
import pytest
from scipy.special import ndtr

from course import cuda, trace
from course.compiler.facts import compiled
from course.kernels import activation as kernels
from course.kernels.activation import FUNCTIONS, LADDER, activation, activation_gradient
from tests.course.compiled_samples import needs_compiler
from tests.course.kernels.cases.activation import EXACT, exact
from tests.course.kernels.contract import checked, typed
from warpsim.ptx.grid_dependency import waits

STORED = (np.float32, np.float16)


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_gradients_are_right_wherever_float32_has_numbers(rng, name, dtype):
    far = np.geomspace(1e-7, 6e4, 5000)
    x = np.concatenate([np.linspace(-20, 20, 40_001), far, -far]).astype(dtype)
    grad = rng.uniform(-1, 1, x.size).astype(dtype)
    checked("activation", x=x, name=name)
    checked("activation_gradient", grad=grad, x=x, name=name)


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_infinities_have_their_limits_zeros_their_signs_and_nan_stays(name, dtype):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype)
    (below, above), zero = EXACT[name].limits, EXACT[name].value(0.0)
    for method in LADDER:
        y = activation(x, name, method=method)
        assert np.allclose(y, [above, below, np.nan, zero, zero], rtol=1e-3, equal_nan=True)
        if EXACT[name].signed:
            assert np.signbit(y).tolist()[:2] + np.signbit(y).tolist()[3:] == [
                False, True, False, True,
            ]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_at_infinities_are_those_of_the_limits_and_nan_stays(name):
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    got = activation_gradient(np.ones(3, np.float32), x, name)
    assert np.allclose(got[:2], EXACT[name].slopes[::-1], atol=1e-30)
    assert np.isnan(got[2]) or name.endswith("relu")
    nan = np.full(2, np.nan, np.float32)
    assert np.isnan(activation_gradient(nan, np.ones(2, np.float32), name)).all()


def test_the_tail_is_within_its_stated_error_and_falls_to_zero():
    @cuda.jit
    def tails(t, out):
        i = cuda.grid(1)
        if i < t.size:
            out[i] = kernels.upper_tail(t[i])

    t = np.linspace(0, 16, 400_001, dtype=np.float32)
    out = np.full_like(t, np.nan)
    tails[-(-t.size // 256), 256](t, out)
    difference = np.abs(out - ndtr(-t.astype(np.float64)))
    assert difference.max() <= 1e-7
    assert (t * difference).max() <= 1e-7
    assert out[-1] == 0
    assert np.all(out[t > 6] < 1e-9)


def test_the_tanh_formula_differs_from_gelu_as_its_docstring_says():
    x = np.linspace(-6, 6, 48_001, dtype=np.float32)
    difference = np.abs(activation(x, "gelu tanh") - exact("gelu", x.astype(np.float64))[0])
    assert 4.7e-4 < difference.max() < 4.8e-4
    assert abs(x[difference.argmax()]) == pytest.approx(2.7, abs=0.05)
    assert "4.8e-4, near |x| = 2.7" in " ".join(kernels.gelu_tanh.py_func.__doc__.split())


def test_swish_in_two_kernels_moves_two_and_a_half_times_the_bytes(rng):
    x = rng.normal(0, 2, 1024).astype(np.float32)
    s, y, z = (np.empty_like(x) for _ in range(3))
    two = [trace(kernels.each(kernels.sigmoid), 4, 256, x, s)]
    two.append(trace(kernels.multiply, 4, 256, x, s, y))
    one = trace(kernels.each(kernels.silu), 4, 256, x, z)

    def moved(report):
        return report.total("global", "load").bytes + report.total("global", "store").bytes

    assert sum(map(moved, two)) == 2.5 * moved(one)
    assert np.allclose(y, activation(x, "silu"), rtol=1e-6)


def test_a_warp_asks_once_for_128_elements_of_float32_and_of_bfloat16_once_for_as_many(rng):
    for dtype, sectors in (("float32", 16), ("float16", 8), ("bfloat16", 8)):
        config = kernels.config_for(dtype, 1 << 20)
        x = typed(rng.normal(0, 2, 4 * config.tile), dtype)
        kernel = kernels.wide(kernels.silu, dtype, config)
        report = trace(kernel, 4, config.threads, x, np.zeros_like(x))
        assert not report.findings
        for op in ("load", "store"):
            total = report.total("global", op)
            assert total.requests == x.size // 128 and total.sectors == sectors * total.requests


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_the_tail_takes_fewer_registers_than_the_librarys_erf(target):
    types, config = "void(float32[::1], float32[::1])", kernels.config_for("float32", 1 << 20)
    facts = {
        name: compiled(kernels.wide(FUNCTIONS[name][0], "float32", config), types, target)
        for name in ("gelu", "gelu erf")
    }
    assert facts["gelu"].registers < facts["gelu erf"].registers
    assert facts["gelu"].load_widths["global"]["v4.f32"] == config.accesses
    assert facts["gelu"].local_bytes == 0


def test_the_references_slopes_are_the_functions_rise():
    x, step = np.linspace(-3, 3, 40), 1e-6  # the corners of those that have one are in between
    for name in FUNCTIONS:
        rise = (exact(name, x + step)[0] - exact(name, x - step)[0]) / (2 * step)
        assert np.allclose(rise, exact(name, x)[1], atol=1e-8)


@pytest.mark.parametrize("backward", [False, True])
def test_what_is_wide_begins_before_the_launch_in_front_is_done(backward):
    config = kernels.config_for("float32", 64)
    assert waits(kernels.wide(FUNCTIONS["gelu"][backward], "float32", config, backward).py_func)
