"""Attention of each head of each image."""

import numpy as np

from course.kernels.attention import SIZES, attention
from tests.course.kernels.contract import ROUNDING, Case, Inputs, Right, length


def _draw(rng, size):
    batch, heads = map(int, rng.integers(1, 3, 2))
    # a step of "online" has 64 keys
    tokens = int(rng.choice((63, 70, 127))) if size == "long" else length(rng, size, 65)
    shape = batch, tokens, heads, int(rng.choice(SIZES))
    scale = None if rng.random() < 0.5 else float(rng.uniform(0.01, 1))
    return Inputs({name: 2 * rng.standard_normal(shape) for name in "qkv"}, {"scale": scale})


def _right(arrays, scale):
    batch, tokens, heads, size = arrays["q"].shape
    q, k, v = (array.transpose(0, 2, 1, 3) for array in arrays.values())
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ k.transpose(0, 1, 3, 2) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    weights /= weights.sum(-1, keepdims=True)
    y, sums = weights @ v, weights @ np.abs(v)
    # each weight is rounded once, and so is the result; a score's own error is in an exponent
    bounds = np.abs(y) + (2 + scale) * sums + 1e-3
    return [
        Right(*(its.transpose(0, 2, 1, 3).reshape(batch, tokens, heads * size)
                for its in (y, bounds)))
    ]  # fmt: skip


def _some(dtype):
    """Tokens that fill no block."""
    return Inputs({name: np.full((2, 96, 2, 64), 0.5) for name in "qkv"}, {"scale": None})


_X = np.ones((1, 8, 2, 64), np.float16)

CASES = [
    Case(
        attention, _draw, _right, errors={name: ROUNDING[name] for name in ("float16", "bfloat16")},
        special=(np.nan,), sizes=("tiny", "odd", "long", "empty"), work=_some,
        works_in_place=("scores", "auto"),
        refused=[
            (lambda: attention(_X, _X, _X.astype("f4")), TypeError, "v holds float32; it must"),
            (lambda: attention(_X, _X[:, :4], _X), ValueError, r"k has the shape \(1, 4, 2, 64\)"),
            (lambda: attention(*[_X[..., :48]] * 3), ValueError, "heads have 48 numbers"),
            (lambda: attention(*[_X[0]] * 3), ValueError, r"q has the shape \(8, 2, 64\)"),
            (lambda: attention(_X, _X, _X, -1.0), ValueError, "scale is -1.0"),
        ],
    ),
]  # fmt: skip
