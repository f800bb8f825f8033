"""Functions of each element, and their gradients."""

import math

import numpy as np
from scipy.special import expit, ndtr

from course import cuda
from course.kernels.activation import (
    FUNCTIONS,
    ElementProblem,
    activation,
    activation_gradient,
)
from tests.course.kernels.contract import Case, Inputs, Right, elements

#: Relative to the larger of 1 and the result: a few roundings of the function; then its own.
ERRORS = {"float32": 3e-7, "float16": 5.1e-4, "bfloat16": 4e-3}
SLOPE = math.sqrt(2 / math.pi)
TILE = 2048  # a multiple of what blocks have of any type
LIMIT = {"sigmoid": 1.0}  # at infinity, of those that have one


def _name(rng):
    return {"name": list(FUNCTIONS)[rng.integers(len(FUNCTIONS))]}


def exact(name, x):
    """A function and its derivative in float64, at finite numbers."""
    if name in ("gelu", "gelu erf"):
        return x * ndtr(x), ndtr(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if name == "gelu tanh":
        t = np.tanh(SLOPE * (x + 0.044715 * x**3))
        rise = SLOPE * (1 + 3 * 0.044715 * x * x)
        return x * (1 + t) / 2, (1 + t) / 2 + x * (1 - t * t) * rise / 2
    s = expit(x)
    if name == "silu":
        return x * s, s * (1 + x * (1 - s))
    if name == "sigmoid":
        return s, s * (1 - s)
    low = 0.2 if name == "leaky relu" else 0.0
    return np.where(x > 0, x, low * x), np.where(x > 0, 1.0, low)


def _right(arrays, name):
    x = arrays["x"]
    y = exact(name, np.where(np.isfinite(x), x, 0))[0]
    y = np.where(np.isnan(x), np.nan, np.where(x == np.inf, LIMIT.get(name, np.inf), y))
    y = np.where(x == -np.inf, -np.inf if name == "leaky relu" else 0, y)
    return [Right(y, np.maximum(1, np.abs(y)))]


def _right_gradient(arrays, name):
    slope = exact(name, arrays["x"])[1]
    dx = np.where(slope == 0, 0, arrays["grad"] * slope)
    return [Right(dx, np.maximum(1, np.abs(dx)))]


def _draw(rng, size):
    return Inputs({"x": rng.normal(0, 3, elements(rng, size, TILE))}, _name(rng))


def _draw_gradient(rng, size):
    shape = elements(rng, size, TILE)
    return Inputs({"grad": rng.normal(0, 1, shape), "x": rng.normal(0, 3, shape)}, _name(rng))


def _whole(*names):
    return lambda dtype: Inputs({name: np.ones(4096) for name in names}, {"name": "silu"})


def _problem(size, aligned=True, arrays=1):
    return ElementProblem(size, "float32", aligned, arrays, "gelu")


X = np.zeros(6, np.float32)

CASES = [
    Case(
        activation, _draw, _right, ERRORS, in_place=("x",), work=_whole("x"),
        best=[(_problem(3), "wide"), (_problem(4096, aligned=False), "each")],
        refused=[
            (lambda: activation(X, "tanh"), ValueError, "no function 'tanh': choose gelu"),
            (lambda: activation(1.0), TypeError, "x is float: give an array"),
            (lambda: activation(cuda.to_device(X)[1:], method="wide"), ValueError,
             "'wide' of activation accesses four elements"),
            (lambda: activation(X, out=np.zeros(6, np.float16)), ValueError, "out is float16 of"),
        ],
    ),
    Case(
        activation_gradient, _draw_gradient, _right_gradient, ERRORS, in_place=("grad", "x"),
        special=(np.nan,), specials=("grad",), work=_whole("grad", "x"),
        best=[(_problem(3, arrays=2), "wide"), (_problem(4096, False, 2), "each")],
        refused=[
            (lambda: activation_gradient(X[1:], X), ValueError, "grad is float32 of shape"),
        ],
    ),
]  # fmt: skip
