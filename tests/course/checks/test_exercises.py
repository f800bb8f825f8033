"""Cases that are drawn: others by another seed, the same by the same, named in the verdict."""

import dataclasses

import numpy as np
import pytest

from course import cuda
from course.checks import check, exercises
from course.checks.exercises import Case, FunctionExercise
from course_lessons.cases import extent
from tests.course.checks.sample_exercises import SQUARE, _square_case, samples, square  # noqa: F401

LARGE = 1100


@pytest.fixture
def drawn(monkeypatch, samples):  # noqa: F811
    def drawer(rng):
        return _square_case(int(rng.integers(2, 2 * LARGE)))

    exercise = dataclasses.replace(SQUARE, drawer=drawer)
    monkeypatch.setitem(exercises._exercises, SQUARE.name, exercise)
    return exercise


@cuda.jit
def square_of_few(out, x):
    i = cuda.grid(1)
    if i < x.size and i < LARGE:
        out[i] = x[i] * x[i]


def test_a_right_answer_passes_in_listed_and_drawn_cases(drawn):
    verdict = check(SQUARE.name, square)
    assert verdict and verdict.message.endswith("97 elements, and in 3 drawn ones.")


def test_an_answer_for_the_listed_sizes_fails_by_a_seed_that_shows_it_again(drawn):
    failing = [seed for seed in range(9) if drawn.seeded(seed, 1).arguments(5)["x"].size > LARGE]
    seed = failing[0]
    verdict = check(SQUARE.name, square_of_few, seed=seed)
    assert verdict.kind == "unwritten-output" and f"drawn by seed {seed}" in verdict.message
    assert check(SQUARE.name, square_of_few, seed=seed).message == verdict.message


def test_seeds_give_the_same_cases_each_time_and_others_other_ones(drawn):
    sizes = [[len(drawn.seeded(s).arguments(n)["x"]) for n in range(8)] for s in (0, 0, 3)]
    assert sizes[0] == sizes[1] and sizes[0][:5] == sizes[2][:5]
    assert sizes[0][5:] != sizes[2][5:]


def test_of_three_cases_in_a_row_one_goes_above_the_listed_ones_and_one_below():
    def case(n):
        return Case(f"{n}", lambda rng: {"n": n})

    exercise = FunctionExercise(
        name="double",
        lesson=0,
        title="Double",
        reference=lambda n: 2 * n,
        cases=[case(40), case(60)],
        drawer=lambda rng: case(int(rng.integers(100))),
        drawn=30,
    )
    drawn = [exercise.arguments(2 + seed)["n"] for seed in range(30)]
    assert min(drawn[0::3]) > 60 and max(drawn[1::3]) < 40
    assert all(n < 40 or n > 60 for n in drawn[2::3]) and len(set(drawn)) > 15


def test_extents_are_within_their_limits_and_meet_what_is_beside_multiples():
    rng = np.random.default_rng(5)
    sizes = [extent(rng, 1, 3000) for _ in range(2000)]
    assert min(sizes) == 1 and max(sizes) > 2900 and max(sizes) <= 3000
    assert {31, 32, 33, 1023, 1024, 1025} <= set(sizes)
    assert sum(size < 55 for size in sizes) > 600  # small ones as likely as large ones
