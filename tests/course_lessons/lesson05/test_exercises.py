"""Of all orders of a round those pass that have a barrier before the fill and one after it."""

import itertools

import pytest

from course.checks import judging
from course.checks.exercises import find_exercise
from course_lessons.edits import solution


def _indented(statement):
    return "".join(f"        {line}\n" for line in statement.split("\n"))


@pytest.mark.slow
def test_the_orders_that_pass():
    exercise, found = find_exercise("tile-rounds"), solution("tile-rounds")
    u, vt, wait, adds, _ = exercise.statements
    block = "".join(map(_indented, exercise.statements))
    assert block in found.source
    passed = set()
    for order in set(itertools.permutations(exercise.statements)):
        text = found.source.replace(block, "".join(map(_indented, order)))
        if judging.judge(exercise, found.define(text, "an order")):
            passed.add(order)
    fills = (u, vt), (vt, u)
    assert passed == {(*fill, wait, adds, wait) for fill in fills} | {
        (wait, *fill, wait, adds) for fill in fills
    }
