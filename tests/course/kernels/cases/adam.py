"""A step of Adam."""

import numpy as np

from course_models.training.adam import LADDER, THREADS, AdamProblem, corrections
from tests.course.kernels.contract import Case, Inputs, Right, elements, launched_by

EPS, RATE = 1e-8, 1e-3


def _draw(rng, size):
    p, g, m, v = rng.normal(0, 1, (4, *elements(rng, size, 4 * THREADS)))
    arrays = {"parameters": p, "gradient": 1e-3 * g, "first": 1e-3 * m, "second": 1e-6 * v * v}
    if rng.random() < 0.2:  # gradients so small that epsilon decides
        arrays |= {name: 1e-5 * arrays[name] for name in ("gradient", "first")}
        arrays["second"] = 1e-10 * arrays["second"]
    return Inputs({**arrays, "corrected": corrections(int(rng.integers(1, 50)), RATE)})


def _right(arrays):
    p, g, m, v, (size, of_square) = arrays.values()
    first, second = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    update = size * first / (np.sqrt(second * of_square) + EPS)
    sums = np.abs(m) + np.abs(g), np.abs(v) + g * g
    moved = size * sums[0] / (np.sqrt(np.abs(second) * of_square) + EPS)
    return [
        Right(p - update, np.abs(p) / 4 + 4 * moved), Right(first, sums[0]), Right(second, sums[1])
    ]  # fmt: skip


CASES = [
    Case(
        launched_by(LADDER, results=3), _draw, _right,
        # a few roundings of 2^-24 each: of the parameter, the update and the moments
        errors={"float32": 3e-7}, out=False, entered=False,
        typed=("parameters", "gradient", "first", "second"), special=(np.nan,),
        work=lambda dtype: Inputs(
            dict.fromkeys(("parameters", "gradient", "first", "second"), np.ones(2051))
            | {"corrected": corrections(3)}
        ),
        best=[(AdamProblem(5, True), "wide"), (AdamProblem(5, False), "each")],
    ),
]  # fmt: skip
