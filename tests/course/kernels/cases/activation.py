"""Functions of each element, and their gradients."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from course import cuda
from course.kernels.activation import FUNCTIONS, ElementProblem, activation, activation_gradient
from tests.course.kernels.contract import Case, Inputs, Right, elements

#: Relative to the larger of 1 and the result: a few roundings of the function; then its own.
ERRORS = {"float32": 3e-7, "float16": 5.1e-4, "bfloat16": 4e-3}
SLOPE = math.sqrt(2 / math.pi)
TILE = 2048  # a multiple of what blocks have of any type


class Exact(NamedTuple):
    """A function and its derivative in float64, at finite numbers.

    `limits` are its values at minus infinity and infinity, `slopes` the derivative's; `signed`
    says that a result of 0 has the sign of x.
    """

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    limits: tuple[float, float] = (0, np.inf)
    slopes: tuple[float, float] = (0, 1)
    signed: bool = True


def _gelu_slope(x):
    return ndtr(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _share(x):
    """What GELU with tanh multiplies x by."""
    return (1 + np.tanh(SLOPE * (x + 0.044715 * x**3))) / 2


def _gelu_tanh_slope(x):
    half = _share(x)
    return half + 2 * x * half * (1 - half) * SLOPE * (1 + 3 * 0.044715 * x * x)


#: Of each function in `FUNCTIONS`.
EXACT = {
    "gelu": Exact(lambda x: x * ndtr(x), _gelu_slope),
    "gelu erf": Exact(lambda x: x * ndtr(x), _gelu_slope),
    "gelu tanh": Exact(lambda x: x * _share(x), _gelu_tanh_slope),
    "silu": Exact(lambda x: x * expit(x), lambda x: expit(x) * (1 + x * expit(-x))),
    "sigmoid": Exact(expit, lambda x: expit(x) * expit(-x), (0, 1), (0, 0), signed=False),
    "relu": Exact(lambda x: np.maximum(x, 0), lambda x: np.where(x > 0, 1.0, 0), signed=False),
    "leaky relu": Exact(
        lambda x: np.where(x > 0, x, 0.2 * x), lambda x: np.where(x > 0, 1.0, 0.2),
        (-np.inf, np.inf), (0.2, 1),
    ),
}  # fmt: skip


def exact(name, x):
    """A function and its derivative at finite numbers."""
    its = EXACT[name]
    return its.value(x), its.slope(x)


def _right(arrays, name):
    x, (below, above) = arrays["x"], EXACT[name].limits
    y = exact(name, np.where(np.isfinite(x), x, 0))[0]
    y = np.select([np.isnan(x), x == np.inf, x == -np.inf], [np.nan, above, below], y)
    return [Right(y, np.maximum(1, np.abs(y)))]


def _name(rng):
    return {"name": list(FUNCTIONS)[rng.integers(len(FUNCTIONS))]}


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


def _problem(size, aligned=True):
    return ElementProblem(size, "float32", aligned, "gelu")


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
        best=[(_problem(3), "wide"), (_problem(4096, False), "each")],
        refused=[
            (lambda: activation_gradient(X[1:], X), ValueError, "grad is float32 of shape"),
        ],
    ),
]  # fmt: skip
