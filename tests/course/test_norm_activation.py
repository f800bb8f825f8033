"""The way back through LayerNorm and an activation at once agrees with float64."""

import math

import numpy as np
import pytest

from course import trace
from course.backend import cuda
from course.kernels.activation import FUNCTIONS, activation_gradient
from course.kernels.norm.backward import BACKWARD, layer_norm_backward
from course.kernels.norm.backward_registers import backward_config, backward_in_registers
from course.kernels.norm.first_steps import ACTIVATIONS, RowConfig, Variant
from course.kernels.norm.ladder import layer_norm
from tests.course.test_norm import assert_close, gradients, inputs, normalised, terms_of_dx

ERF = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * (1 + ERF(x / math.sqrt(2))) / 2


def gelu_slope(x):
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return (1 + ERF(x / math.sqrt(2))) / 2 + x * density


def gelu_tanh_slope(x):
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return (1 + np.tanh(inner)) / 2 + x * slope * (1 - np.tanh(inner) ** 2) / 2


#: Derivatives by the formulas, in float64.
SLOPES = {
    "gelu": gelu_slope,
    "gelu erf": gelu_slope,
    "gelu tanh": gelu_tanh_slope,
    "silu": lambda x: sigmoid(x) * (1 + x * (1 - sigmoid(x))),
    "sigmoid": lambda x: sigmoid(x) * (1 - sigmoid(x)),
    "relu": lambda x: (x > 0) * 1.0,
    "leaky relu": lambda x: np.where(x > 0, 1.0, 0.2),
}


def exact(dy, x, gamma, beta, activation):
    """Gradients of sum(dy * activation(normalised(x, gamma, beta))), in float64."""
    given = normalised(x, gamma, beta)
    return gradients(dy * SLOPES[activation](given), x, gamma)


def assert_right(result, dy, x, gamma, beta, activation, stored=0.0):
    """As `assert_gradients`, and the roundings of what the slope is taken of.

    That is hat * gamma + beta, to a few roundings of float32 of its terms, some 10 here; a slope
    changes by no more than 1.2 times as much. So each dy is off by 1e-6 of itself, at most, and dx
    by as much of the terms of which it is the difference.
    """
    (dx, *sums), (wanted, *wanted_sums) = result, exact(dy, x, gamma, beta, activation)
    dx = np.asarray(dx, np.float64)
    terms = terms_of_dx(np.abs(dy), x, gamma)
    assert np.all(np.abs(dx - wanted) <= 4e-6 * terms + stored * np.maximum(1, np.abs(wanted)))
    sizes = np.abs(dy.astype(np.float64)).sum(0) * (1 + np.abs(normalised(x)).max())
    for got, right in zip(sums, wanted_sums, strict=True):
        error = np.abs(np.asarray(got, np.float64) - right)
        assert np.all(error <= 2e-6 * np.maximum(sizes, 1) + stored * np.maximum(1, np.abs(right)))


def test_all_activations_have_a_slope_that_is_right():
    assert set(SLOPES) == set(FUNCTIONS) == set(ACTIVATIONS) - {None}
    x, step = np.linspace(-3, 3, 40), 1e-6  # relu's corner is in between
    for name, value in (("gelu", gelu), ("silu", lambda x: x * sigmoid(x)), ("sigmoid", sigmoid)):
        moved = (value(x + step) - value(x - step)) / (2 * step)
        assert np.allclose(moved, SLOPES[name](x), atol=1e-8)


@pytest.mark.parametrize("method", BACKWARD)
def test_gamma_beta_and_their_gradients_may_be_left_out(rng, method):
    x, gamma, beta = inputs(rng, 6, 48)
    dy, ones, zeros = inputs(rng, 6, 48)[0], np.ones_like(gamma), np.zeros_like(gamma)
    for factor, shift in ((None, None), (gamma, None), (None, beta)):
        how = {"method": method, "beta": shift, "activation": "silu"}
        result = layer_norm_backward(dy, x, factor, **how)
        known = (ones if factor is None else factor), (zeros if shift is None else shift)
        assert_right(result, dy, x, *known, "silu")
        dx, *none = layer_norm_backward(dy, x, factor, parameters=False, **how)
        assert none == [None, None] and np.array_equal(dx, result[0])
    plain = layer_norm_backward(dy, x, gamma, method=method)
    for got, same in zip(
        layer_norm_backward(dy, x, gamma, beta=beta, method=method), plain, strict=True
    ):
        assert np.array_equal(got, same)  # without an activation beta plays no part


@pytest.mark.parametrize("method", BACKWARD)
def test_it_is_what_the_steps_give_one_by_one_on_slices_of_the_gpu(rng, method):
    rows = [inputs(rng, 6, 48)[0] for _ in range(2)]
    x, dy = (cuda.to_device(row)[:, 3:43] for row in rows)
    part, dy_part = (np.ascontiguousarray(row[:, 3:43]) for row in rows)
    gamma, beta = (cuda.to_device(factor) for factor in inputs(rng, 6, 40)[1:])
    before = layer_norm(x, gamma, beta)
    between = activation_gradient(cuda.to_device(dy_part), before, "gelu")
    found = layer_norm_backward(dy, x, gamma, method=method, beta=beta, activation="gelu")
    stepwise = layer_norm_backward(between, x, gamma, method=method)
    terms = [terms_of_dx(dy_part, part, gamma.copy_to_host()), 10, 10]
    for got, wanted, size in zip(found, stepwise, terms, strict=True):
        assert_close(got.copy_to_host(), wanted.copy_to_host().astype(np.float64), 4e-6, size)


# --- counted --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [RowConfig(4, 8, 8), RowConfig(64, 1, 8)])
def test_blocks_that_walk_over_many_rows_race_with_nobody(rng, shape):
    rows, columns, blocks = 37, shape.longest - 4, 3
    x, gamma, beta = inputs(rng, rows, columns)
    dy, dx = inputs(rng, rows, columns)[0], np.full_like(x, np.nan)
    some = np.full((2, blocks * shape.rows, columns), np.nan, np.float32)
    kernel = backward_in_registers(shape, Variant(activation="gelu"), True)
    eps = np.float32(1e-5)
    report = trace(kernel, blocks, shape.threads, dy, x, gamma, beta, eps, dx, some)
    assert not [finding for finding in report.findings if finding.is_error]
    assert_right((dx, *some.sum(1)), dy, x, gamma, beta, "gelu")


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_with_an_activation_rows_move_as_often_as_without(rng, activation):
    rows, columns, blocks = 24, 1024, 4
    x, gamma, beta = inputs(rng, rows, columns)
    dy, dx = inputs(rng, rows, columns)[0], np.zeros_like(x)
    some = np.zeros((2, blocks, columns), np.float32)
    shape = backward_config(columns)
    form = Variant(
        unguarded=shape.unguarded(columns, True), beta=activation is not None, activation=activation
    )
    kernel = backward_in_registers(shape, form, True)
    eps = np.float32(1e-5)
    report = trace(kernel, blocks, shape.threads, dy, x, gamma, beta, eps, dx, some)
    assert not report.findings
    loads, stores = (report.total("global", kind) for kind in ("load", "store"))
    factors = 4 if activation else 2  # gamma for the sums and for dx; both for the activation
    assert loads.bytes == 2 * x.nbytes + factors * rows * gamma.nbytes
    assert stores.bytes == dx.nbytes + some.nbytes


def test_what_is_wrong_is_said():
    x = np.zeros((2, 8), np.float32)
    with pytest.raises(
        ValueError, match="there is no activation 'swish': choose one of None, 'gelu"
    ):
        layer_norm_backward(x, x, activation="swish")
    with pytest.raises(ValueError, match=r"beta has the shape \(7,\)"):
        layer_norm_backward(x, x, beta=np.zeros(7, np.float32), activation="gelu")
