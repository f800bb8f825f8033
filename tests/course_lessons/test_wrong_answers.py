"""What students get wrong is told to them by name; what is right passes, however it is written."""

import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from course.backend import gpu
from course.checks.exercises import exercises
from course_lessons.edits import edited, solution
from tests.course_lessons.wrong_answers import all_answers, fault_of_pass, fault_of_refusal

WRONG, RIGHT = all_answers()


def names(answers):
    return [f"{answer.exercise}/{answer.name}" for answer in answers]


@pytest.mark.drawn(10)
@pytest.mark.parametrize("answer", WRONG, ids=names(WRONG))
def test_a_wrong_answer_gets_its_verdict(answer):
    try:
        verdict = answer.judged()
    except Exception as error:
        if not gpu() or type(error).__name__ != "TypingError" or "typing" not in answer.kinds:
            raise
        pytest.skip("numba.cuda refuses a vectorised function where it is defined")
    assert fault_of_refusal(verdict, answer.kinds, answer.words) is None, verdict


@pytest.mark.drawn(5)
@pytest.mark.parametrize("answer", RIGHT, ids=names(RIGHT))
def test_an_unusual_right_answer_passes(answer):
    verdict = answer.judged()
    assert fault_of_pass(verdict) is None, verdict


def test_every_exercise_has_wrong_answers_and_an_unusual_right_one():
    """Beside what tools.mutants makes of its solution."""
    assert len(exercises()) >= 90
    for name in exercises():
        assert any(answer.exercise == name for answer in WRONG), name
        assert any(answer.exercise == name for answer in RIGHT), name


def test_a_verdict_that_is_not_the_wanted_one_is_told_apart():
    answer = WRONG[0]
    verdict = answer.judged()
    assert fault_of_refusal(verdict, answer.kinds, answer.words) is None
    assert "the reason is" in fault_of_refusal(verdict, ["race"], answer.words)
    assert "does not say ['nobody']" in fault_of_refusal(verdict, answer.kinds, ["nobody"])
    assert fault_of_pass(verdict) == f"it is failed: {verdict.kind}"


def test_an_edit_of_text_that_is_not_there_once_is_refused():
    text = solution("fill-index").source
    assert edited(text, [("= i", "= 2 * i")], "here") == text.replace("= i", "= 2 * i")
    for old, times in (("threadIdx", 0), ("out", 2)):
        with pytest.raises(ValueError, match=f"here: '{old}' stands {times} times in"):
            edited(text, [(old, "")], "here")


def test_an_exercise_of_no_lesson_is_told():
    with pytest.raises(LookupError, match="no lesson has check\\('no-such-exercise'"):
        solution("no-such-exercise")


@pytest.mark.slow
def test_the_script_prints_percentages_of_100():
    """Of one lesson; the tests above judge the answers of all."""
    folder, (wrong, right) = Path(__file__).parent / "wrong_answers", all_answers("04")
    assert wrong and right and len(wrong) < len(WRONG)
    done = subprocess.run([sys.executable, folder, "04"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"reason: {len(wrong)} of {len(wrong)}, 100.0%" in done.stdout
    assert f"finding: {len(right)} of {len(right)}, 100.0%" in done.stdout


def test_a_tenth_of_the_wrong_answers_is_drawn_and_the_others_are_slow(request):
    tests = [it for it in request.session.items if "gets_its_verdict[" in it.name]
    drawn = [it for it in tests if zlib.crc32(it.name.encode()) % 10 == 0]
    assert [it for it in tests if it.get_closest_marker("slow") is None] == drawn
