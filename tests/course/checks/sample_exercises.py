"""Small exercises, as a lesson would declare them, for the tests of the checks."""

import numpy as np
import pytest

from course import backend
from course.checks import exercises, progress
from course.checks.exercises import Case, FunctionExercise, KernelExercise, Tolerance
from tests.texts import function_of
from warpsim import cuda


def _square_case(n, block=128):
    return Case(
        "1 element" if n == 1 else f"{n:,} elements",
        lambda rng: {"out": np.empty(n, np.float32), "x": rng.standard_normal(n, dtype=np.float32)},
        block=block,
    )


SQUARE = KernelExercise(
    name="sample-square",
    lesson=99,
    title="Square every element",
    outputs=("out",),
    reference=lambda x: x * x,
    cases=[
        _square_case(8, block=8),
        _square_case(128),
        _square_case(1003),
        _square_case(1),
        _square_case(97, block=32),
    ],
    tolerance=Tolerance(1, "one float32 product rounds once"),
    forbidden={"float64", "uncoalesced"},
    hints={"out-of-bounds": "Compare i with x.size first."},
)


def _add_case(rows, columns, block=(16, 16)):
    return Case(
        f"{rows} x {columns}",
        lambda rng: {
            "out": np.empty((rows, columns), np.float32),
            "a": rng.standard_normal((rows, columns), dtype=np.float32),
            "b": rng.standard_normal((rows, columns), dtype=np.float32),
        },
        block=block,
    )


ADD = KernelExercise(
    name="sample-add",
    lesson=99,
    title="Add two images",
    outputs=("out",),
    reference=lambda a, b: a + b,
    cases=[
        _add_case(32, 32),
        _add_case(13, 37),
        _add_case(37, 13, (8, 4)),
        _add_case(1, 5),
        _add_case(64, 64),
    ],
    tolerance=Tolerance(1, "one float32 sum rounds once"),
    forbidden={"float64", "uncoalesced"},
)


def _histogram_case(n, bins, block=64, grid=3):
    return Case(
        f"{n} values, {bins} bins",
        lambda rng: {
            "counts": np.zeros(bins, np.int32),
            "values": rng.integers(0, bins, n).astype(np.int32),
        },
        block=block,
        grid=grid,
    )


HISTOGRAM = KernelExercise(
    name="sample-histogram",
    lesson=99,
    title="Count values",
    updated=("counts",),
    reference=lambda counts, values: counts + np.bincount(values, minlength=counts.size),
    cases=[_histogram_case(50, 4), _histogram_case(500, 7), _histogram_case(193, 256)],
)

MEAN = FunctionExercise(
    name="sample-error",
    lesson=99,
    title="Mean squared error and its square root",
    reference=lambda a, b: (np.mean((a - b) ** 2), np.sqrt(np.mean((a - b) ** 2))),
    cases=[
        Case(
            "5 x 7",
            lambda rng: {
                "a": rng.random((5, 7), dtype=np.float32),
                "b": rng.random((5, 7), dtype=np.float32),
            },
        )
    ],
    tolerance=Tolerance(64, "35 terms are added, in any order"),
)

ALL = (SQUARE, ADD, HISTOGRAM, MEAN)
#: The text of a right answer to `SQUARE`; beside it the same compiled.
SQUARE_TEXT = """@cuda.jit
def square(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]
"""
square = function_of(SQUARE_TEXT, "right square", {"cuda": cuda})


def writes_far(cuda):
    """An answer to `MEAN`'s exercise that launches a kernel which writes out[100]."""

    @cuda.jit
    def far(out):
        out[cuda.grid(1) + 100] = 1

    def error(a, b):
        out = np.zeros(3, np.float32)
        far[1, 1](out)
        return out

    return error


@pytest.fixture(autouse=True)
def samples(monkeypatch):
    """Only the sample exercises, a fresh session, no strictness from outside."""
    monkeypatch.setattr(exercises, "_exercises", {exercise.name: exercise for exercise in ALL})
    monkeypatch.setattr(exercises, "_loaded", True)
    monkeypatch.setattr(progress, "_records", {})
    monkeypatch.delenv("COURSE_STRICT", raising=False)
    monkeypatch.setattr(backend, "gpu", lambda: None)


def failed(verdict, kind, *words):
    """Assert that a verdict is a failure of this kind, and says these words."""
    assert verdict.status == "failed", verdict
    assert verdict.kind == kind, verdict
    for word in words:
        assert word in str(verdict).replace("\n    ", " "), (word, str(verdict))
