"""What students get wrong in lessons 00 and 01 is told to them by name; what is right passes."""

import pytest
from wrong_answers import lesson00, lesson01

from course.checks import check, exercises

WRONG = lesson00.WRONG + lesson01.WRONG
RIGHT = lesson00.RIGHT + lesson01.RIGHT


@pytest.fixture(autouse=True)
def no_strictness(monkeypatch):
    monkeypatch.delenv("COURSE_STRICT", raising=False)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)


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


def test_every_exercise_has_five_wrong_answers_and_an_unusual_right_one():
    names = [name for name, exercise in exercises().items() if exercise.lesson in (0, 1)]
    assert len(names) == 12
    for name in names:
        assert sum(exercise == name for exercise, *_ in WRONG) >= 5, name
        assert any(exercise == name for exercise, _ in RIGHT), name
