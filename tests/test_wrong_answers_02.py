"""What students get wrong in lesson 02 is told to them by name; what is right passes."""

import pytest
from wrong_answers.lesson02 import RIGHT, WRONG

from course.checks import check, exercises


def name_of(answer):
    return getattr(answer, "py_func", answer).__name__


@pytest.mark.parametrize(
    ("exercise", "answer", "kind", "words"),
    WRONG,
    ids=[f"{exercise}-{name_of(answer)}" for exercise, answer, _, _ in WRONG],
)
def test_a_wrong_answer_gets_its_verdict(exercise, answer, kind, words):
    verdict = check(exercise, answer)
    assert verdict.status == "failed", verdict
    assert verdict.kind == kind, verdict
    text = " ".join(str(verdict).split())
    for word in words:
        assert word in text, verdict


@pytest.mark.parametrize(
    ("exercise", "answer"),
    RIGHT,
    ids=[f"{exercise}-{name_of(answer)}" for exercise, answer in RIGHT],
)
def test_an_unusual_right_answer_passes(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.status == "passed", verdict


def test_every_exercise_has_wrong_and_right_answers():
    names = {name for name, exercise in exercises().items() if exercise.lesson == 2}
    assert len(names) == 7
    for name in names:
        assert sum(exercise == name for exercise, *_ in WRONG) >= 3, name
        assert any(exercise == name for exercise, _ in RIGHT), name
