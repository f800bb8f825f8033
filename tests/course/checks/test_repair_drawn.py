"""Slips drawn in lessons' solutions: which line decides is said, and what would be right is."""

import re

import pytest

from course.checks import repair
from course.checks.exercises import find_exercise
from course.checks.judging import judge
from course.checks.verdicts import Failure
from tools.mutants.judging import MUTANTS, made
from tools.mutants.subjects import subject

DECIDES = re.compile(r"(?m)^Line \d+ decides: ")
RIGHT = re.compile(r"(?m)^Line (\d+) would be right as `(.*)`\.$")
DRAWN = (
    "scale-add", "shift-right", "total-by-strides", "psnr", "together", "energy-rank",
    "reverse-blocks", "merge-softmax", "slowest-stage", "left-to-do",
    "count-transfers",
)  # fmt: skip
SLIPS = ("constants", "terms", "arithmetic", "comparisons", "ranges", "axes", "running-values")


@pytest.mark.drawn(5)
@pytest.mark.parametrize("seed", [0, 1], ids="seed {}".format)
@pytest.mark.parametrize("name", DRAWN)
def test_drawn_slips_are_named_and_what_is_said_to_be_right_is(name, seed):
    exercise, named, failed = find_exercise(name), 0, 0
    for each in made(name, {kind: MUTANTS[kind] for kind in SLIPS}, 6, seed):
        verdict = judge(exercise, each.define(), repairs=True)
        if verdict or verdict.kind in repair.SAID or "guard it with" in verdict.message:
            continue
        failed, said = failed + 1, RIGHT.search(verdict.message)
        named += bool(DECIDES.search(verdict.message))
        if said:
            lines = each.text.split("\n")
            head = next(n for n, t in enumerate(lines) if t.startswith("def "))
            at = head + int(said[1]) - 1
            lines[at] = lines[at][: len(lines[at]) - len(lines[at].lstrip())] + said[2]
            assert judge(exercise, subject(name).define("\n".join(lines), "replayed")), verdict
    assert named >= failed - 1, f"{named} of {failed}"


def test_a_line_that_is_right_below_a_condition_is_shown_inside_it():
    of = subject("reverse-blocks")
    text = of.text.replace("    if t < count:\n        x[i]", "    x[i]")
    said = judge(
        find_exercise("reverse-blocks"), of.define(text, "unguarded"), repairs=True
    ).message
    assert "as `if t < count:` and, inside it, `x[i] = buffer[count - 1 - t]`" in said


@pytest.mark.parametrize("name", DRAWN)
def test_a_right_answer_is_never_changed(name):
    of = subject(name)
    answer = of.define(of.text, "the solution")
    for kind in ("wrong-result", "raised"):
        assert repair.repair(of.exercise, answer, Failure(kind, "It is wrong.")) == []
