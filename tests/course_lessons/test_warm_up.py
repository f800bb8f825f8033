"""Two questions of earlier lessons: what was wrong comes first, also in a later session."""

import pytest

from course.checks import progress
from course_lessons import warm_up
from course_lessons.warm_up import QUESTIONS
from tests.course.checks.test_progress import home  # noqa: F401
from tools.notebooks import cells


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("_records", "_failed", "_passed"):
        monkeypatch.setattr(progress, name, {})
    monkeypatch.setattr(warm_up, "_asked", {})


def chosen(lesson):
    return warm_up.chosen(lesson, progress.known())


def test_every_lesson_but_the_last_has_questions_with_three_choices():
    assert {question.lesson for question in QUESTIONS} == set(range(19))
    for question in QUESTIONS:
        assert question.right in "abc" and len(set(question.choices)) == 3
    assert {question.right for question in QUESTIONS} == set("abc")


@pytest.mark.parametrize("lesson", range(1, 20))
def test_a_lesson_asks_two_of_earlier_ones_the_same_on_each_machine(lesson):
    one, other = chosen(lesson)
    assert one != other and max(one.lesson, other.lesson) < min(lesson, 6)
    assert lesson == 1 or one.lesson != other.lesson
    assert chosen(lesson) == (one, other)


def test_a_lesson_without_an_earlier_one_asks_nothing():
    with pytest.raises(ValueError, match="no lesson stands before lesson 0"):
        warm_up.warm_up(0)


def test_answers_are_judged_and_the_questions_stay_those_that_were_asked(capsys):
    warm_up.warm_up(5, ..., ...)
    asked = " ".join(capsys.readouterr().out.split())
    one, other = chosen(5)
    assert asked.startswith(f"1. {one.text} (lesson {one.lesson:02d}) a {one.choices[0]} b ")
    wrong = next(letter for letter in "abc" if letter != other.right)
    for _ in range(2):  # what came out changes what another session asks, not this one
        warm_up.warm_up(5, one.right, wrong)
        said = " ".join(capsys.readouterr().out.split())
        assert f"✓ {one.right}: " in said and one.why in said
        assert f"✗ {wrong}; right is {other.right}: " in said
    warm_up.warm_up(5, one.right, ...)
    assert "2. " not in capsys.readouterr().out


@pytest.mark.parametrize("answer", ["d", "", 1, "A"])
def test_an_answer_that_is_no_choice_is_told(answer):
    with pytest.raises(ValueError, match="an answer is 'a', 'b' or 'c'"):
        warm_up.warm_up(5, "a", answer)


def test_what_was_wrong_is_asked_first_in_the_next_session(home, monkeypatch, capsys):  # noqa: F811
    one, other = chosen(5)
    wrong = next(letter for letter in "abc" if letter != other.right)
    warm_up.warm_up(5, one.right, wrong)
    monkeypatch.setattr(progress, "_records", {})
    monkeypatch.setattr(warm_up, "_asked", {})
    assert chosen(6)[0] == other and one not in chosen(6)
    assert not progress.progress().rows, "a question is no exercise"
    letters = [each.right for each in warm_up.chosen(6, {})]
    assert warm_up.right_answers(6) == letters, "a solution is the same on each machine"
    warm_up.warm_up(6, other.right)
    assert other not in chosen(7)


def test_lessons_with_a_wrong_exercise_come_before_others(monkeypatch):
    record = progress.Record("x", 3, "failed", "race", "", "2026-01-01")
    monkeypatch.setattr(progress, "_records", {"x": record})
    assert chosen(6)[0].lesson == 3
    beyond = progress.Record("y", 9, "passed", "passed", "", "2026-01-01")
    monkeypatch.setattr(progress, "_records", {"y": beyond})
    asked = {each.lesson for number in range(10, 30) for each in chosen(number)}
    assert 9 in asked and not asked & {6, 7, 8, 10}


def test_students_have_dots_where_solutions_have_letters():
    assert cells.stub('warm_up(5, "a", "c")') == "warm_up(5, ..., ...)"
