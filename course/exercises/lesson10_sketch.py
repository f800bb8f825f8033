"""The exercise of lesson 10 about less than everything: orthonormal columns from a sketch."""

import numpy as np

from course.checks import Case, FunctionExercise, register
from course.exercises.lesson10_judges import judge_range
from course.verdicts import count


def _sketch(rows, columns, wide, power, falls, rest=0.1):
    """A matrix whose singular values fall by a factor over `wide` of them, then to `rest` of it."""

    def arguments(rng):
        rank = min(rows, columns)
        u, v = (np.linalg.qr(rng.standard_normal((n, rank)))[0] for n in (rows, columns))
        s = np.full(rank, rest / falls)
        s[:wide] = np.geomspace(1, 1 / falls, wide)
        return {
            "a": ((u * s) @ v.T).astype(np.float32),
            "random": rng.standard_normal((columns, wide)).astype(np.float32),
            "power": power,
        }

    steps = f"{power} power step" + "s" * (power != 1)
    return Case(f"{rows} x {columns}, {count(wide, 'column')}, {steps}", arguments)


register(
    FunctionExercise(
        name="range-finder",
        lesson=10,
        title="Orthonormal columns from a sketch",
        judge=judge_range,
        cases=[
            _sketch(20, 12, 4, 0, 3),
            _sketch(12, 30, 5, 1, 3),
            _sketch(25, 25, 1, 2, 3),
            _sketch(19, 16, 4, 2, 2, rest=0.7),
            _sketch(17, 23, 6, 2, 10),
            _sketch(40, 40, 8, 2, 100),
        ],
        hints={
            "raised": "a is (m, n), `random` (n, l): y = a @ random is (m, l). Back to n rows it "
            "goes with a.T. And `power` may be 0: then q comes from a @ random alone.",
            "input-modified": "Leave a and `random` as they are: y = a @ random is a new array.",
        },
    )
)
