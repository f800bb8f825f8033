"""A kernel as a student's cell gives it is not started, whatever lines are given, in each class."""

import pytest

from course import check
from course.checks.exercises import exercises
from course_lessons.edits import LessonFunction, LessonKernel, solution

NAMES = [
    name for name, each in exercises().items() if isinstance(each, LessonKernel | LessonFunction)
]


def verdict_of(name, text):
    return check(name, solution(name).define(text, f"given, {name}"), wrong_on_purpose=True)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_given_is_not_started(name):
    given = exercises()[name].given()
    if not given:  # statements to be put in order
        pytest.skip("no line is to be written")
    for placeholder in ("pass", "...", "raise NotImplementedError()"):
        assert verdict_of(name, given.replace("pass\n", f"{placeholder}\n")).kind == "not-started"


def test_a_line_that_was_written_is_judged():
    given = exercises()["fill-index"].given()
    assert "pass" in given and verdict_of("fill-index", given).kind == "not-started"
    begun = given.replace("    pass", "    i = cuda.grid(1)\n    out[i] = i + 1\n    pass")
    assert verdict_of("fill-index", begun).kind == "wrong-result"
