"""Products of matrices of float32, in each layout."""

import numpy as np

from course.kernels.gemm.float32 import LAYOUTS, MatmulProblem, matmul
from course.kernels.gemm.small import SMALL
from tests.course.kernels.contract import Case, Inputs, Right, length


def _draw(rng, size):
    sizes = [length(rng, "tiny" if size == "tiny" else "odd", 65) for _ in range(3)]
    if size == "fours":
        sizes = [4 * int(n) for n in rng.integers(1, 33, 3)]
    elif size == "long":
        factor, depth = (1, 259) if rng.random() < 0.5 else (4, int(rng.choice((260, 400))))
        sizes = [*map(int, factor * rng.integers(1, 9, 2)), depth]
    elif size == "empty":
        sizes[int(rng.integers(3))] = 0
    layout = str(rng.choice(list(LAYOUTS)))
    return _inputs(layout, rng.standard_normal(sizes[::2]), rng.standard_normal(sizes[:0:-1]))


def _inputs(layout, *factors):
    a, b = map(np.ascontiguousarray, _laid_out(layout, *factors))
    return Inputs({"a": a, "b": b}, {"layout": layout})


def _laid_out(layout, *factors):
    """The factors as a layout has them, or back."""
    return [its.T if transpose else its for its, transpose in zip(factors, LAYOUTS[layout])]


def _right(arrays, layout):
    a, b = _laid_out(layout, *arrays.values())
    return [Right(a @ b, (a.shape[1] + 1) * (np.abs(a) @ np.abs(b)))]


def _square(rows, wide=True):
    return MatmulProblem("nn", rows, 64, 64, wide)


CASES = [
    Case(
        matmul, _draw, _right,
        # of the sum of |a| |b|, times the depth; sums by tiles are better, tensor cores cut factors
        errors={
            "float32": 2.0**-24, "tensor_cores": 33 * 2.0**-24, "tensor_cores_tf32": 2.0**-8,
        },
        special=(np.nan,), work=lambda dtype: _inputs("tn", np.ones((68, 36)), np.ones((36, 100))),
        best=[(_square(64), "tensor_cores"), (_square(63), "vectorised"),
              (_square(64, False), "vectorised"), (_square(SMALL), "vectorised")],
        refused=[
            (lambda: matmul(np.ones((2, 3)), np.ones((3, 2), "f4")), TypeError, "a holds float64"),
            (lambda: matmul(*[np.ones((2, 3), "f4")] * 2), ValueError,
             r"in the layout 'nn' they must be \(rows, depth\) and \(depth, columns\), so 3 and 2"),
            (lambda: matmul(*[np.ones((2, 3), "f4")] * 2, "tt"), ValueError, "no layout 'tt'"),
            (lambda: matmul(np.ones(3, "f4"), np.ones((3, 2), "f4")), ValueError,
             r"a has the shape \(3,\); it must be \(rows, depth\)"),
        ],
    ),
]  # fmt: skip
