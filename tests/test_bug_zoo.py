"""What students get wrong is told to them by name; what is right passes, however it is written."""

import importlib
import pkgutil

import bug_zoo
import pytest

from course.checks import check, exercises

LESSONS = [
    importlib.import_module(f"bug_zoo.{module.name}")
    for module in pkgutil.iter_modules(bug_zoo.__path__)
]
WRONG = [entry for lesson in LESSONS for entry in lesson.ANSWERS.noted_wrong]
RIGHT = [entry for lesson in LESSONS for entry in lesson.ANSWERS.noted_right]


def name_of(answer):
    function = getattr(answer, "py_func", answer)
    return getattr(function, "__name__", repr(function))


@pytest.mark.parametrize(
    ("exercise", "answer", "kinds", "words"),
    WRONG,
    ids=[f"{exercise}-{name_of(answer)}" for exercise, answer, _, _ in WRONG],
)
def test_a_wrong_answer_gets_its_verdict(exercise, answer, kinds, words):
    verdict = check(exercise, answer)
    assert verdict.status == "failed", verdict
    assert verdict.kind in kinds, verdict
    text = " ".join(str(verdict).split())
    for word in words:
        assert any(choice in text for choice in word.split("|")), (word, verdict)


@pytest.mark.parametrize(
    ("exercise", "answer"),
    RIGHT,
    ids=[f"{exercise}-{name_of(answer)}" for exercise, answer in RIGHT],
)
def test_an_unusual_right_answer_passes(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.status == "passed", verdict


def test_every_exercise_has_bug_zoo_and_an_unusual_right_one():
    names = [name for name, exercise in exercises().items() if exercise.lesson <= 16]
    assert len(names) >= 19
    for name in names:
        assert sum(exercise == name for exercise, *_ in WRONG) >= 3, name
        assert any(exercise == name for exercise, _ in RIGHT), name
