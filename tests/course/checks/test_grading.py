"""What an answer is worth in a class: its verdict, in points."""

import sys
import warnings

import numpy as np
import pytest

from course import check
from course.checks import exercises, grading
from course.checks.exercises import find_exercise
from course_lessons.edits import edited, solution
from tests.course_lessons.wrong_answers import all_answers


def points(name, edits):
    found = solution(name)
    answer = found.define(edited(found.source, edits.items(), name), name)
    return grading.points(find_exercise(name), answer, check(name, answer))


@pytest.mark.parametrize(
    ("name", "edits", "worth"),
    [
        ("spotlight", {}, 4),
        ("spotlight", {"* light": "+ light"}, 0),
        ("fill-index", {"    i = cuda.grid(1)\n    out[i] = i": "    pass"}, 0),  # not started
        ("shift-right", {"out[i] = x[i - 1]": "while True:\n            pass"}, 0),
    ],
)
def test_an_answer_that_says_nothing_or_all_is_worth_nothing_or_all(name, edits, worth):
    assert points(name, edits) == worth


@pytest.mark.parametrize(
    ("name", "edits", "is_right"),
    [
        # where one block is enough
        (
            "fill-index",
            {"grid(1)": "threadIdx.x"},
            lambda case, given: given[0].size <= np.prod(case.block),
        ),
        # where the last block is full; a function is worth 2, a kernel 4
        (
            "launch-1d",
            {"(n + threads - 1) // threads": "n // threads"},
            lambda case, given: given[0] % 128 == 0,
        ),
    ],
)
def test_points_follow_from_the_cases_in_which_an_answer_is_right(name, edits, is_right):
    exercise = find_exercise(name)
    cases = list(enumerate(exercise.cases))
    right = sum(is_right(case, list(exercise.arguments(n).values())) for n, case in cases)
    assert 0 < right < len(cases)
    assert points(name, edits) == round(0.5 * exercise.points * right / len(cases), 2)


def test_a_right_result_at_too_high_a_cost_is_worth_half():
    wrong, _ = all_answers("01")
    costly = next(each for each in wrong if each.kinds == ["uncoalesced"])
    verdict = check(costly.exercise, costly.function)
    exercise = find_exercise(costly.exercise)
    assert "The result is right; the cost is not" in verdict.message
    assert grading.points(exercise, costly.function, verdict) == exercise.points / 2


def test_under_grading_a_check_prints_its_verdict_and_returns_points(monkeypatch, capsys):
    found = solution("fill-index")
    kernel = found.define(found.source, "fill-index")
    monkeypatch.setenv("COURSE_GRADING", "1")
    monkeypatch.setenv("COURSE_STRICT", "1")  # what grades never raises
    assert check("fill-index", kernel) == 4.0
    assert capsys.readouterr().out.startswith("✓ fill-index: passed\n")
    stub = found.define("@cuda.jit\ndef fill_index(out):\n    pass\n", "stub")
    assert check("fill-index", stub) == 0.0
    assert check("fill-index", stub, wrong_on_purpose=True).kind == "not-started"


def test_a_right_answer_that_warns_writes_nothing_that_nbgrader_takes_for_an_error(
    monkeypatch, capsys, recwarn
):
    def fair_ratio(old, new, old_work, new_work):
        warnings.warn("careful", stacklevel=1)
        print("careful", file=sys.stderr)
        return np.median(old[1:]) * new_work / np.median(new[1:]) / old_work

    monkeypatch.setenv("COURSE_GRADING", "1")
    assert check("fair-ratio", fair_ratio) == 2.0
    written = capsys.readouterr()
    assert written.err == "" and written.out.startswith("✓ fair-ratio: passed\n")
    assert not recwarn.list


def test_an_exercise_worth_nothing_is_refused():
    known = find_exercise("launch-1d")
    with pytest.raises(ValueError, match="points are 1 or more; got 0"):
        exercises.FunctionExercise(
            name="x", lesson=0, title="", cases=known.cases, reference=len, points=0
        )
