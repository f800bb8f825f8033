"""Losses of a VAE, summed, and the gradient of one."""

import numpy as np
from scipy.special import expit

from course_models.training.losses import THREADS, TILE, LossProblem, bce_gradient, loss
from tests.course.kernels.contract import Case, Inputs, Right, elements


def _bce(rng, shape):
    """Logits, and targets that are numbers up to 1, or bytes above it."""
    targets = rng.random(shape).astype(np.float32)
    if rng.random() < 0.5:
        targets = rng.integers(2, 256, shape).astype(np.uint8)
    return rng.normal(0, 3, shape), targets


def _targets(values):
    return values / 255 if values.size and values.max() > 1 else values


def _draw(rng, size):
    name, shape = ("bce", "kl")[rng.integers(2)], elements(rng, size, TILE)
    if name == "bce":
        first, second = _bce(rng, shape)
    else:
        first, second = rng.normal(0, 1, (2, *shape)).astype(np.float32)
    return Inputs({"first": first, "second": second}, {"name": name})


def _named_last(first, second, name, **more):
    return loss(name, first, second, **more)


_named_last.ladder = loss.ladder


def _right(arrays, name):
    x, y = arrays["first"], arrays["second"]
    if name == "kl":
        parts = (x * x + np.exp(y) - 1 - y) / 2
    else:
        parts = np.logaddexp(0, x) - x * _targets(y)
    return [Right(parts.sum(), parts.sum() + 0.5)]


def _draw_gradient(rng, size):
    logits, targets = _bce(rng, elements(rng, size, 4 * THREADS))
    return Inputs({"logits": logits, "targets": targets}, {"scale": 1 / 128})


def _right_gradient(arrays, scale):
    y = scale * (expit(arrays["logits"]) - _targets(arrays["targets"]))
    return [Right(y, np.full(y.shape, scale))]


def _whole(*names, **options):
    return lambda dtype: Inputs(dict.fromkeys(names, np.ones(8192, np.float32)), options)


X = np.zeros(3, np.float32)

CASES = [
    Case(
        _named_last, _draw, _right,
        # a tree's roundings of 2^-24, and those of the logarithm; "atomics" adds one by one
        errors={"float32": 2e-6, "atomics": 1e-5}, typed=("first",),
        work=_whole("first", "second", name="bce"), special=(),
        best=[(LossProblem(5, 1.0, False), "vectorised")],
        refused=[
            (lambda: loss("mse", X, X), ValueError, "no loss 'mse': choose bce, kl"),
            (lambda: loss("bce", X.astype(float), X), TypeError, "logits holds float64"),
            (lambda: loss("bce", X, X.astype(np.int8)), TypeError, "float32 or uint8"),
            (lambda: loss("kl", X, X.astype(np.uint8)), TypeError, "log_variance holds"),
            (lambda: loss("kl", X, X[1:]), ValueError, "that of mean"),
        ],
    ),
    Case(
        bce_gradient, _draw_gradient, _right_gradient,
        errors={"float32": 2.5e-7},  # of the factor: the exponential's and the quotient's rounding
        typed=("logits",), in_place=("logits",), special=(),
        work=_whole("logits", "targets", scale=1.0),
        best=[(LossProblem(5, 1.0, True), "wide"), (LossProblem(5, 1.0, False), "each")],
        refused=[(lambda: bce_gradient(X, X[1:]), ValueError, "that of logits")],
    ),
]  # fmt: skip
