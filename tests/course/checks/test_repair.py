"""Which line decides is said of what one change makes right; what is said has been tried."""

import math
import re

import numpy as np
import pytest

from course.checks import check, judging, progress, repair
from course.checks.exercises import find_exercise
from course.checks.judging import judge
from course.checks.verdicts import Failure
from tests.course.checks.sample_exercises import SQUARE_TEXT as SQUARE
from tests.course.checks.sample_exercises import samples  # noqa: F401
from tests.texts import function_of
from warpsim import cuda

SAID = re.compile(r"(?m)^Line (\d+) decides: `(.*)`\. (With.*) the answer passes\.$")
RIGHT = re.compile(r"(?m)^Line (\d+) would be right as `(.*)`\.$")


def explained(text, name="square"):
    answer = function_of(text, text, {"cuda": cuda, "np": np, "math": math})
    return judge(find_exercise(f"sample-{name}"), answer, repairs=True)


@pytest.mark.parametrize(
    ("old", "new", "line", "change", "right"),
    [
        ("x[i] * x[i]", "x[i] + x[i]", 4, "other arithmetic", "out[i] = x[i] * x[i]"),
        ("x[i] * x[i]", "x[i] * x[i] + 1", 4, "a part of", "out[i] = x[i] * x[i]"),
        ("x[i] * x[i]", "2 * x[i]", 4, "other arithmetic", "out[i] = x[i] * x[i]"),
        ("x[i] * x[i]", "x[i] * x[i - 1]", 4, "another number", "out[i] = x[i] * x[i - 0]"),
        ("x[i] * x[i]", "x[i] * x[i] * i", 4, "a part of", "out[i] = x[i] * x[i]"),
        ("x[i] * x[i]", "x[i] * x[i] / 2", 4, "a part of", "out[i] = x[i] * x[i]"),
        ("x[i] * x[i]", "x[i] * out[i]", 4, "another name", "out[i] = x[i] * x[i]"),
        ("i < out.size", "i < out.size - 1", 3, "a part of", "if i < out.size:"),
        ("i < out.size", "i > out.size", 3, "another comparison", "if i < out.size:"),
        ("cuda.grid(1)", "cuda.threadIdx.x", 2, "a further factor", "i = cuda.blockIdx.x * "),
    ],
)  # fmt: skip
def test_a_slip_in_one_place_is_named_without_a_solution(old, new, line, change, right):
    verdict = explained(SQUARE.replace(old, new))
    said = SAID.search(verdict.message)
    assert said and int(said[1]) == line and change in said[3], verdict
    assert RIGHT.search(verdict.message)[2].startswith(right), verdict


LOOP = """def error(a, b):
    total, count = 0.0, 0
    for one, other in zip(np.ravel(a), np.ravel(b)):
        total += (one - other) ** 2
        count += 1
    return total / count, math.sqrt(total / count)
"""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"    return": "        return"}, "Line 6 decides: `return total / count, math.sqrt(total "
         "/ count)`. Indented as line 3 the answer passes."),
        ({"+= (one": "= (one", "+= 1": "= 2"},
         "Line 4 decides: `total = (one - other) ** 2`. So does line 5: `count = 2`. With both "
         "changed the answer passes.\nLine 4 would be right as `total += (one - other) ** 2`.\n"
         "Line 5 would be right as `count += 1`."),
        ({"+= (one": "= (one", "+= 1": "= 2", "math.sqrt(total / count)": "total"},
         "With all of them changed the answer passes.\nLine 4 would be right as"),
    ],
    ids=["indented", "two lines", "three"],
)  # fmt: skip
def test_a_line_that_is_indented_too_far_and_several_lines_are_named(changes, said, monkeypatch):
    monkeypatch.setattr(repair, "lesson_solution", lambda name: (LOOP, "error"))
    text = LOOP
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    verdict = explained(text, "error")
    assert said in verdict.message, verdict
    assert "decides" not in verdict.at_try(0).message
    assert (
        "would be right as" not in verdict.at_try(1).message
        and "decides" in verdict.at_try(1).message
    )


def test_a_line_that_decides_is_all_that_is_changed(monkeypatch):
    """A condition that is as good as the solution's is no part of it."""
    monkeypatch.setattr(repair, "lesson_solution", lambda name: (SQUARE, "square"))
    text = SQUARE.replace("i < out.size", "i < x.size").replace("x[i] * x[i]", "x[i] * x[i] + 1")
    said = RIGHT.search(explained(text).message)
    assert (said[1], said[2]) == ("4", "out[i] = x[i] * x[i]")


@pytest.mark.slow
def test_a_hopeless_answer_costs_a_bounded_number_of_runs(monkeypatch):
    runs, judged = [], repair.simulate_case
    monkeypatch.setattr(
        repair, "simulate_case", lambda *a, **more: runs.append(1) or judged(*a, **more)
    )
    body = "\n".join(f"        out[i] += {n} * x[i] - i * {n} + out.size" for n in range(40))
    head = SQUARE.partition("        out[i]")[0] + "        out[i] = 0\n"
    assert not SAID.search(explained(head + body).message)
    assert 20 < len(runs) <= repair.MOST_TRIES + 5


def test_a_change_that_does_not_end_is_stopped_by_its_lines():
    text = """def error(a, b):
    n = 0
    while n < 3:
        n += 1
    return np.abs(a - b).max() * n, np.abs(a - b).max()
"""
    verdict = explained(text, "error")
    assert verdict.kind != "endless-loop"
    lines = repair._Lines("<endless>")
    code = compile("while True:\n    pass\n", "<endless>", "exec")
    with pytest.raises(repair.OutOfTime), lines:
        exec(code)
    assert lines.count == repair.MOST_LINES + 1


def test_nothing_is_said_of_an_answer_without_a_source():
    names = {"cuda": cuda}
    exec(SQUARE.replace("* x[i]", "+ x[i]").replace("@cuda.jit\n", ""), names)
    failure = Failure("wrong-result", "It is wrong.")
    assert repair.repair(find_exercise("sample-square"), names["square"], failure) == []


def test_it_is_looked_for_from_the_second_wrong_answer_on_or_when_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "mine"))
    monkeypatch.setattr(progress, "_failed", {})
    asked = []
    monkeypatch.setattr(judging, "repair", lambda *a: asked.append(1) or [])
    answers = [
        function_of(SQUARE.replace("* x", f"* {n} * x"), f"{n}", {"cuda": cuda}) for n in (2, 3)
    ]
    for answer, times in ((answers[0], 0), (answers[0], 0), (answers[1], 1)):
        check("sample-square", answer)
        assert len(asked) == times
    check("sample-square", answers[0], explain=True, wrong_on_purpose=True)
    assert len(asked) == 2
