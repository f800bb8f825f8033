"""Sums and maxima of whole arrays."""

import numpy as np

from course.heuristics.reduce import ReductionConfig
from course.kernels.reduce import ReductionProblem, reduction
from tests.course.kernels.contract import Case, Inputs, Right, elements

TILE = ReductionConfig().tile


def _draw(rng, size):
    kind = "sum" if size == "empty" else ("sum", "max")[rng.integers(2)]
    return Inputs({"x": rng.normal(0, 3, elements(rng, size, TILE))}, {"kind": kind})


def _right(arrays, kind):
    x = arrays["x"]
    if kind == "max":
        return [Right(np.max(x), np.zeros(()))]
    return [Right(np.sum(x), np.sum(np.abs(x)))]


CASES = [
    Case(
        reduction, _draw, _right,
        # a sum in a tree has about 20 roundings of 2^-24 on its way, more where a thread adds
        errors=dict.fromkeys(("float32", "float16", "bfloat16"), 1e-6), out_dtype="float32",
        work=lambda dtype: Inputs({"x": np.ones(8192)}, {"kind": "sum"}),
        best=[(ReductionProblem(5, False), "last block")],
        refused=[
            (lambda: reduction(np.zeros((0, 5), np.float32), "max"), ValueError, "no elements"),
            (lambda: reduction(np.zeros(4, np.float32), "mean"), ValueError,
             "no reduction 'mean': choose sum, max"),
        ],
    ),
]  # fmt: skip
