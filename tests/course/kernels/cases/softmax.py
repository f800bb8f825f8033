"""The softmax of rows, and its gradient."""

import numpy as np

from course.heuristics.softmax import RowProblem
from course.kernels.softmax.backward import softmax_backward
from course.kernels.softmax.forward import softmax
from tests.course.kernels.contract import Case, Inputs, Right, rows_and_columns


def _draw(rng, size):
    return Inputs({"x": rng.normal(0, 3, rows_and_columns(rng, size))})


def _right(arrays):
    x = arrays["x"]
    powers = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    y = powers / powers.sum(-1, keepdims=True)
    return [Right(y, y.max(-1, keepdims=True, initial=0))]


def _draw_backward(rng, size):
    shape = rows_and_columns(rng, size)
    y = _right({"x": rng.normal(0, 3, shape)})[0].values
    return Inputs({"dy": rng.normal(0, 1, shape), "y": y})


def _right_backward(arrays):
    dy, y = arrays["dy"], arrays["y"]
    inner = np.abs(dy * y).sum(-1, keepdims=True)
    terms = np.abs(y) * (np.abs(dy) + inner)
    return [
        Right(y * (dy - (dy * y).sum(-1, keepdims=True)), terms.max(-1, keepdims=True, initial=0))
    ]


def _whole(*names):
    """Rows of which every thread has its full share in every step."""
    return lambda dtype: Inputs({name: np.full((4, 4096), 0.5) for name in names})


def _rows(columns, dtype="float32", aligned=True):
    return RowProblem(1 << 20, columns, dtype, aligned)


_LONG = np.zeros((1, 32_772), np.float32)

CASES = [
    Case(
        softmax, _draw, _right,
        # an exponent that is rounded, the largest of a row being 1; then the result's own rounding
        errors={"float32": 5e-7, "float16": 6e-4, "bfloat16": 4.5e-3},
        layout="rows", in_place=("x",), work=_whole("x"),
        best=[
            (_rows(32_768), "registers"), (_rows(32_772), "clusters"), (_rows(300_000), "online"),
            (_rows(16_384, aligned=False), "registers"),
            (_rows(16_385, aligned=False), "clusters"),
        ],
        refused=[
            (lambda: softmax(_LONG, method="registers"), ValueError,
             "'registers' of softmax holds rows of at most 32,768 elements, and these have 32,772: "
             "choose 'three passes', 'online'"),
            (lambda: softmax(_LONG[:, :16_385], method="registers"), ValueError, "at most 16,384"),
            (lambda: softmax(np.zeros((), np.float32)), ValueError, "no axis"),
        ],
    ),
    Case(
        softmax_backward, _draw_backward, _right_backward,
        # of the largest term of a row, y (|dy| + sum |dy y|): a few roundings
        errors={"float32": 5e-7, "float16": 6e-4, "bfloat16": 4.5e-3},
        layout="rows", in_place=("dy", "y"), work=_whole("dy", "y"),
        best=[
            (_rows(16_384), "registers"), (_rows(16_388), "two passes"),
            (_rows(8192, aligned=False), "registers"), (_rows(8193, aligned=False), "two passes"),
        ],
        refused=[
            (lambda: softmax_backward(_LONG, _LONG, method="registers"), ValueError,
             "'registers' of softmax_backward holds rows of at most 16,384 elements"),
            (lambda: softmax_backward(_LONG, _LONG[:, 1:]), ValueError, "y is float32 of shape"),
            (lambda: softmax_backward(_LONG, _LONG.astype("f2")), ValueError, "y is float16"),
        ],
    ),
]  # fmt: skip
