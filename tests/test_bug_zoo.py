"""What students get wrong is told to them by name; what is right passes, however it is written."""

import subprocess
import sys
from pathlib import Path

import pytest
from bug_zoo import all_answers, fault_of_pass, fault_of_refusal, name_of

from course.checks import check, exercises

WRONG, RIGHT = all_answers()


@pytest.mark.parametrize(
    ("exercise", "answer", "kinds", "words"),
    WRONG,
    ids=[f"{exercise}-{name_of(answer)}" for exercise, answer, _, _ in WRONG],
)
def test_a_wrong_answer_gets_its_verdict(exercise, answer, kinds, words):
    verdict = check(exercise, answer)
    assert fault_of_refusal(verdict, kinds, words) is None, verdict


@pytest.mark.parametrize(
    ("exercise", "answer"),
    RIGHT,
    ids=[f"{exercise}-{name_of(answer)}" for exercise, answer in RIGHT],
)
def test_an_unusual_right_answer_passes(exercise, answer):
    verdict = check(exercise, answer)
    assert fault_of_pass(verdict) is None, verdict


def test_every_exercise_has_wrong_answers_and_an_unusual_right_one():
    names = [name for name, exercise in exercises().items() if exercise.lesson <= 16]
    assert len(names) >= 19
    for name in names:
        assert sum(exercise == name for exercise, *_ in WRONG) >= 3, name
        assert any(exercise == name for exercise, _ in RIGHT), name


def test_a_verdict_that_is_not_the_wanted_one_is_told_apart():
    exercise, answer, kinds, words = WRONG[0]
    verdict = check(exercise, answer)
    assert fault_of_refusal(verdict, kinds, words) is None
    assert "the reason is" in fault_of_refusal(verdict, ["race"], words)
    assert "does not say ['nobody']" in fault_of_refusal(verdict, kinds, ["nobody"])
    assert fault_of_pass(verdict) == f"it is failed: {verdict.kind}"


def test_the_script_prints_percentages_of_100():
    """Of one lesson; the tests above judge the answers of all."""
    zoo, (wrong, right) = Path(__file__).parent / "bug_zoo", all_answers("04")
    assert wrong and right and len(wrong) < len(WRONG)
    done = subprocess.run([sys.executable, zoo, "04"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"reason: {len(wrong)} of {len(wrong)}, 100.0%" in done.stdout
    assert f"finding: {len(right)} of {len(right)}, 100.0%" in done.stdout
