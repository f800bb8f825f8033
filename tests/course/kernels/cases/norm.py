"""LayerNorm of rows, and its gradients."""

import numpy as np

from course.heuristics.norm import (
    FEW,
    REGISTERS_AND_SHARED,
    BackwardProblem,
    NormProblem,
    Variant,
)
from course.kernels.activation import FUNCTIONS
from course.kernels.norm.backward import layer_norm_backward
from course.kernels.norm.ladder import layer_norm
from tests.course.kernels.cases.activation import exact
from tests.course.kernels.contract import Case, Inputs, Right, rows_and_columns

EPS = 1e-5
ACTIVATIONS = (None, None, *FUNCTIONS)
FACTORS = ("both", "both", "gamma", "beta", "none")


def _shape(rng, size):
    """Of rows, or of none; a row has an element at least."""
    return (0, 7) if size == "empty" else rows_and_columns(rng, size)


def _options(rng, scale):
    """eps of the variance's size at times, so that it counts."""
    activation = ACTIVATIONS[rng.integers(len(ACTIVATIONS))]
    eps, factors = float(rng.choice([EPS, scale * scale])), str(rng.choice(FACTORS))
    return {"eps": eps, "activation": activation, "factors": factors}


def _given(gamma, beta, factors):
    """What of gamma and beta is given, None in place of the other."""
    return (gamma if factors in ("both", "gamma") else None,
            beta if factors in ("both", "beta") else None)  # fmt: skip


def _forward(x, gamma, beta, factors="both", **more):
    return layer_norm(x, *_given(gamma, beta, factors), **more)


_forward.ladder = layer_norm.ladder


def _draw(rng, size):
    shape, scale = _shape(rng, size), 10.0 ** rng.integers(-2, 2)
    gamma, beta = rng.normal(0, 1, (2, shape[-1]))
    x = rng.normal(scale, scale, shape)
    return Inputs({"x": x, "gamma": gamma, "beta": beta}, _options(rng, scale))


def _factors(gamma, beta, factors):
    """Both, ones and zeros where they are not given."""
    gamma, beta = _given(gamma, beta, factors)
    return 1.0 if gamma is None else gamma, 0.0 if beta is None else beta


def _normalised(x, eps):
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return centred * scale, scale


def right(arrays, eps=EPS, activation=None, factors="both"):
    x, gamma, beta = arrays.values()
    gamma, beta = _factors(gamma, beta, factors)
    hat, scale = _normalised(x, eps)
    y = hat * gamma + beta
    size = (np.abs(x).max(-1, keepdims=True, initial=0) * scale + 1) * np.abs(gamma) + np.abs(beta)
    if activation is not None:
        limits = np.where(np.isinf(y) & (y > 0), 0, y)
        y, size = exact(activation, limits)[0], size + 1
    return [Right(y, size)]


def _slope(name, y):
    return np.ones_like(y) if name is None else exact(name, y)[1]


def _draw_backward(rng, size):
    shape = _shape(rng, size)
    gamma, beta = rng.normal(0, 1, (2, shape[-1]))
    arrays = {"dy": rng.normal(0, 1, shape), "x": rng.normal(1, 1, shape)}
    return Inputs({**arrays, "gamma": gamma, "beta": beta}, _options(rng, 1.0))


def _backward(dy, x, gamma, beta, factors="both", **more):
    """`layer_norm_backward`, which takes eps before beta."""
    gamma, beta = _given(gamma, beta, factors)
    return layer_norm_backward(dy, x, gamma, beta=beta, **more)


_backward.ladder = layer_norm_backward.ladder


def right_backward(arrays, eps=EPS, activation=None, factors="both"):
    dy, x, gamma, beta = arrays.values()
    gamma, beta = _factors(gamma, beta, factors)
    hat, scale = _normalised(x, eps)
    slope = _slope(activation, hat * gamma + beta)
    dy = np.where(slope == 0, 0, dy * slope)
    g = dy * gamma
    dx = scale * (g - g.mean(-1, keepdims=True) - hat * (g * hat).mean(-1, keepdims=True))
    rows = tuple(range(x.ndim - 1))
    largest = np.abs(g).max(-1, keepdims=True, initial=0)
    along = (largest * (1 + np.abs(hat).max(-1, keepdims=True, initial=0) ** 2)) * scale
    sums = (np.abs(dy * hat) + np.abs(dy)).sum(rows)
    return [
        Right(dx, 4 * along + 0 * dx), Right((dy * hat).sum(rows), 4 * sums + 1),
        Right(dy.sum(rows), 4 * sums + 1),
    ]  # fmt: skip


def _whole(dtype):
    """Rows of which every thread has its full share, but for those of "long"."""
    arrays = {"x": np.full((4, 1024), 0.5), "gamma": np.ones(1024), "beta": np.ones(1024)}
    return Inputs(arrays, {"eps": EPS, "activation": "gelu"})


def _some(dtype):
    """Rows that fill no block, for the gradients."""
    arrays = {name: np.full((11, 1004), 0.5) for name in ("dy", "x")}
    arrays |= {"gamma": np.ones(1004), "beta": np.ones(1004)}
    return Inputs(arrays, {"eps": EPS, "activation": None if dtype == "float16" else "gelu"})


def _problem(columns, dtype="float32", aligned=True, **more):
    return NormProblem(FEW, columns, dtype, aligned, limits=(227 * 1024, True), **more)


def _variant(aligned=True):
    return Variant(aligned=aligned)


LONG = np.zeros((1, 32_772), np.float32)

CASES = [
    Case(
        _forward, _draw, right,
        # of the row's largest element: a mean's and a variance's roundings; "squares" cancels
        errors={"float32": 2e-6, "float16": 1.2e-3, "bfloat16": 9e-3, "squares": 2e-2},
        layout="rows", in_place=("x",), special=(np.nan, np.inf), specials=("x",), work=_whole,
        best=[
            (_problem(384), "several rows"), (_problem(385), "registers"),
            (_problem(16_384), "registers"), (_problem(16_388), REGISTERS_AND_SHARED),
            (_problem(8192, aligned=False), "registers"),
            (_problem(8193, aligned=False), REGISTERS_AND_SHARED),
            (_problem(16_388, whole=False), "registers"),
            (_problem(16_388, "float16"), "registers"),
            (_problem(32_772, whole=False), "clusters"), (_problem(2**20), "long"),
        ],
        refused=[
            (lambda: layer_norm(LONG, method="registers"), ValueError,
             "'registers' of layer_norm holds rows of at most 32,768 elements, and these h"),
            (lambda: layer_norm(LONG[:, :16_385], method="registers"), ValueError, "most 16,384"),
            (lambda: layer_norm(LONG[:, :1028], method="several rows"), ValueError,
             "holds rows of at most 1,024 elements"),
            (lambda: layer_norm(LONG.astype(np.float16)[:, :12], method="half"), ValueError,
             "'half' of layer_norm (is for rows of a multiple of 8|needs compute capability 8.0)"),
            (lambda: layer_norm(LONG[:, :0]), ValueError, "must have from 1 to 16,777,216"),
            (lambda: layer_norm(np.zeros(2**20, "f4"), method=REGISTERS_AND_SHARED), ValueError,
             "1,048,576 elements .* a block's registers and shared"),
            (lambda: layer_norm(LONG, eps=-1), ValueError, "eps is -1"),
            (lambda: layer_norm(LONG, eps=np.nan), ValueError, "eps is nan"),
            (lambda: layer_norm(LONG[:, :8], LONG[0, :7]), ValueError, "gamma has the shape"),
            (lambda: layer_norm(LONG[:, :8], None, LONG[:, :8]), ValueError, "beta has the shape"),
            (lambda: layer_norm(np.zeros((), np.float32)), ValueError, "from 1 to 16,777,216"),
            (lambda: layer_norm(LONG, activation="tanh"), ValueError, "no activation 'tanh'"),
        ],
    ),
    Case(
        _backward, _draw_backward, right_backward,
        errors={"float32": 2e-6, "float16": 1.2e-3, "bfloat16": 9e-3},
        layout="rows", out=False, special=(np.nan,), specials=("dy",), work=_some,
        best=[
            (BackwardProblem(4, columns, _variant(aligned), True), name)
            for columns, aligned, name in (
                (8192, True, "registers"), (8196, True, "two kernels"),
                (4096, False, "registers"), (4097, False, "two kernels"),
            )
        ],
        refused=[
            (lambda: layer_norm_backward(LONG, LONG, method="registers"), ValueError,
             "'registers' of layer_norm_backward holds rows of at most 8,192 elements"),
            (lambda: layer_norm_backward(LONG, LONG, activation="swish"), ValueError,
             "there is no activation 'swish': choose gelu, gelu erf"),
            (lambda: layer_norm_backward(LONG, LONG, beta=LONG[0, 1:], activation="gelu"),
             ValueError, r"beta has the shape \(32771,\)"),
            (lambda: layer_norm_backward(LONG, LONG[:, 1:]), ValueError, "dy is float32 of shape"),
        ],
    ),
]  # fmt: skip
