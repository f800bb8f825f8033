"""A matrix transposed: each element is where it must be, bit for bit."""

import numpy as np

from course.heuristics.transpose import MatrixProblem
from course.kernels.transpose import transpose
from tests.course.kernels.contract import Case, Inputs, Right, length


def _draw(rng, size):
    shape = length(rng, size, 255), length(rng, "odd" if size == "long" else size, 65)
    return Inputs({"image": rng.normal(0, 3, shape[:: rng.choice((1, -1))])})


def _right(arrays):
    image = arrays["image"]
    return [Right(image.T, np.zeros(image.T.shape))]


CASES = [
    Case(
        transpose, _draw, _right, errors={"float32": 0.0}, layout="any",
        work=lambda dtype: Inputs({"image": np.ones((64, 96))}),
        best=[(MatrixProblem(5, 7), "in flight")],
        refused=[
            (lambda: transpose(np.zeros((3, 3, 3), np.float32)), ValueError, "(rows, columns)"),
            (lambda: transpose(np.zeros((3, 3))), TypeError, "image holds float64"),
        ],
    ),
]  # fmt: skip
