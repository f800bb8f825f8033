"""Activation functions: right against float64, both ways, also at the edges of float32."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

from course import cuda, trace
from course.compiler.facts import compiled
from course.kernels import activation as kernels
from course.kernels.activation import FUNCTIONS, LADDER, activation, activation_gradient
from tests.course.compiled_samples import needs_compiler

STORED = (np.float32, np.float16)
#: Errors relative to the larger of 1 and the result: a few roundings of 2^-24, or one of 2^-11.
ERRORS = {np.float32: 3e-7, np.float16: 5.1e-4}


def exact(name, x):
    """A function and its derivative in float64."""
    x = x.astype(np.float64)
    with np.errstate(over="ignore"):
        if name in ("gelu", "gelu erf"):
            return x * ndtr(x), ndtr(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        if name == "gelu tanh":
            slope = math.sqrt(2 / math.pi)
            t = np.tanh(slope * (x + 0.044715 * x**3))
            rise = slope * (1 + 3 * 0.044715 * x * x)
            return x * (1 + t) / 2, (1 + t) / 2 + x * (1 - t * t) * rise / 2
        s = 1 / (1 + np.exp(-x))
        if name == "silu":
            return x * s, s * (1 + x * (1 - s))
        if name == "sigmoid":
            return s, s * (1 - s)
        if name == "leaky relu":
            return np.where(x > 0, x, x / 5), np.where(x > 0, 1, 0.2)
        return np.maximum(x, 0), (x > 0).astype(np.float64)


def error(got, right):
    return np.max(np.abs(got.astype(np.float64) - right) / np.maximum(1, np.abs(right)))


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_and_gradients_are_right_wherever_float32_has_numbers(rng, name, dtype):
    far = np.geomspace(1e-7, 6e4, 5000)
    x = np.concatenate([np.linspace(-20, 20, 40_001), far, -far]).astype(dtype)
    grad = rng.uniform(-1, 1, x.size).astype(dtype)
    right, slope = exact(name, x)
    assert error(activation(x, name), right) <= ERRORS[dtype]
    assert error(activation_gradient(grad, x, name), grad * slope) <= ERRORS[dtype]


@pytest.mark.parametrize("dtype", STORED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_infinities_have_their_limits_zeros_their_signs_and_nan_stays(name, dtype):
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype)
    for method in LADDER:
        y = activation(x, name, method=method)
        if name == "sigmoid":
            assert np.array_equal(y, [1, 0, np.nan, 0.5, 0.5], equal_nan=True)
            continue
        low = -np.inf if name == "leaky relu" else 0
        assert np.array_equal(y, [np.inf, low, np.nan, 0, 0], equal_nan=True)
        if name != "relu":
            assert np.signbit(y).tolist()[:2] + np.signbit(y).tolist()[3:] == [
                False, True, False, True,
            ]  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_at_infinities_are_those_of_the_limits_and_nan_stays(name):
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    far = 0 if name == "sigmoid" else 1
    got = activation_gradient(np.ones(3, np.float32), x, name)
    low = 0.2 if name == "leaky relu" else 0
    assert np.allclose(got[:2], [far, low], atol=1e-30)
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
    difference = np.abs(activation(x, "gelu tanh").astype(np.float64) - exact("gelu", x)[0])
    assert 4.7e-4 < difference.max() < 4.8e-4
    assert abs(x[difference.argmax()]) == pytest.approx(2.7, abs=0.05)
    assert "4.8e-4, near |x| = 2.7" in " ".join(kernels.gelu_tanh.py_func.__doc__.split())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_kernel_has_an_error_and_each_element_moves_once(rng, name):
    config = kernels.ActivationConfig(threads=64, accesses=2)
    forward, backward = FUNCTIONS[name]
    x, grad = rng.normal(0, 2, (2, 3 * config.tile + 5)).astype(np.float32)
    out = np.full_like(x, np.nan)
    for kernel, given in (
        (kernels.wide(forward, "float32", config), (x,)),
        (kernels.wide_gradient(backward, "float32", config), (grad, x)),
        (kernels.each(forward), (x,)),
        (kernels.each_gradient(backward), (grad, x)),
    ):
        wide = "wide" in kernel.py_func.__name__
        grid, block = (4, config.threads) if wide else (-(-x.size // 256), 256)
        report = trace(kernel, grid, block, *given, out)
        assert not [str(finding) for finding in report.findings if finding.is_error]
        assert report.operations.get("float64", 0) == 0
        assert report.total("global", "load").bytes == len(given) * x.nbytes
        assert report.total("global", "store").bytes == x.nbytes
        if wide:  # a request for 128 elements, but for the last five
            assert report.total("global", "load").requests == len(given) * (x.size // 128 + 1)


def test_swish_in_two_kernels_moves_five_halves_of_the_bytes(rng):
    x = rng.normal(0, 2, 1024).astype(np.float32)
    s, y, z = (np.empty_like(x) for _ in range(3))
    two = [trace(kernels.each(kernels.sigmoid), 4, 256, x, s)]
    two.append(trace(kernels.multiply, 4, 256, x, s, y))
    one = trace(kernels.each(kernels.silu), 4, 256, x, z)

    def moved(report):
        return report.total("global", "load").bytes + report.total("global", "store").bytes

    assert sum(map(moved, two)) == 2.5 * moved(one)
    assert error(y, exact("silu", x)[0]) <= ERRORS[np.float32]


def test_wrong_input_is_refused_with_what_to_do():
    x = np.zeros(6, np.float32)
    with pytest.raises(TypeError, match="x holds float64; it must hold float32, float16 or bf"):
        activation(np.zeros(4))
    with pytest.raises(TypeError, match="x holds int64"):
        activation(np.zeros(4, np.int64))
    with pytest.raises(ValueError, match="side by side: copy it to C order"):
        activation(cuda.to_device(np.zeros((4, 6), np.float32))[:, ::2])
    with pytest.raises(ValueError, match="'wide' of activation accesses four elements"):
        activation(cuda.to_device(x)[1:], method="wide")


@needs_compiler
@pytest.mark.parametrize("target", ["sm_75", "sm_90"])
def test_the_tail_takes_fewer_registers_than_the_librarys_erf(target):
    types, config = "void(float32[::1], float32[::1])", kernels.CONFIGS[target, 4]
    facts = {
        name: compiled(kernels.wide(FUNCTIONS[name][0], "float32", config), types, target)
        for name in ("gelu", "gelu erf")
    }
    assert facts["gelu"].registers < facts["gelu erf"].registers
    assert facts["gelu"].load_widths["global"]["v4.f32"] == config.accesses
    assert facts["gelu"].local_bytes == 0
