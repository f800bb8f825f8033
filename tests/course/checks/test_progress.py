"""Progress: a table of what was checked, saved whole or not at all, and honest about itself."""

import json
import os

import pytest

from course.checks import exercises
from course.checks import progress as session
from course.checks.verdicts import Verdict
from tests.course.checks.sample_exercises import ALL, MEAN, SQUARE


@pytest.fixture(autouse=True)
def samples(monkeypatch):
    monkeypatch.setattr(exercises, "_exercises", {exercise.name: exercise for exercise in ALL})
    monkeypatch.setattr(exercises, "_loaded", True)
    monkeypatch.setattr(session, "_records", {})
    monkeypatch.setattr(session, "_failed", {})
    monkeypatch.setattr(session, "_trouble", None)
    monkeypatch.delenv("COURSE_PROGRESS", raising=False)


def record(exercise, status="passed", kind="passed", answer=None):
    session.record(exercise, Verdict(exercise.name, status, kind, ""), answer)


def an_answer(a, b):
    return a + b


def test_nothing_checked_says_so():
    assert repr(session.progress()) == "Nothing was checked in this session yet."


def test_all_exercises_of_a_touched_lesson_are_listed():
    record(SQUARE)
    record(MEAN, "failed", "wrong-result")
    text = repr(session.progress())
    assert text.startswith("1 of 4 exercises passed\nLesson 99\n")
    assert "✓ sample-square " in text
    assert "✗ sample-error " in text
    assert "(wrong-result)" in text
    assert "○ sample-histogram " in text


def test_latest_verdict_counts():
    record(SQUARE, "failed", "race")
    record(SQUARE)
    assert session.progress().passed == 1
    record(SQUARE, "failed", "race")
    assert session.progress().passed == 0


def another_answer(a, b):
    return a - b


def test_tries_are_answers_that_failed_and_differ():
    assert session.tries(SQUARE.name) == 0
    record(SQUARE, "not started", "not-started")
    for answer in (an_answer, an_answer, another_answer, an_answer):
        record(SQUARE, "failed", "race", answer)
    record(SQUARE, answer=record)
    assert session.tries(SQUARE.name) == 2
    assert session.tries(SQUARE.name, an_answer) == 1
    assert session.tries(SQUARE.name, record) == 2
    assert session.tries(MEAN.name) == 0


def test_untouched_lesson_can_be_asked_for_and_an_unknown_one_is_refused():
    assert len(session.progress(99).rows) == 4
    with pytest.raises(ValueError, match="these have: 99"):
        session.progress(98)


def test_saved_table_is_markdown_with_digest_and_says_that_it_proves_nothing(tmp_path):
    record(SQUARE, answer=an_answer)
    progress = session.progress()
    path = progress.save(tmp_path / "progress.md")
    text = path.read_text(encoding="utf-8")
    assert "| 99 | sample-square | Square every element | ✓ passed |" in text
    assert session.fingerprint(an_answer) in text
    assert f"Digest: {progress.digest()}" in text
    assert "anybody can edit it" in text
    assert os.listdir(tmp_path) == ["progress.md"]


def test_digest_depends_on_the_rows_and_not_on_the_day():
    record(SQUARE)
    first = session.progress().digest()
    record(SQUARE)
    assert session.progress().digest() == first
    record(MEAN)
    assert session.progress().digest() != first


def test_fingerprint_ignores_blank_lines_and_blanks_at_the_end_only(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "fp_a.py").write_text("def f(x):\n    return x\n")
    (tmp_path / "fp_b.py").write_text("def f(x):   \n\n    return x\n")
    (tmp_path / "fp_c.py").write_text("def f(x):\n    return -x\n")
    import fp_a
    import fp_b
    import fp_c

    assert session.fingerprint(fp_a.f) == session.fingerprint(fp_b.f)
    assert session.fingerprint(fp_a.f) != session.fingerprint(fp_c.f)
    assert session.fingerprint(3) == ""


def test_failed_save_leaves_the_older_file_and_no_rest(tmp_path, monkeypatch):
    record(SQUARE)
    target = tmp_path / "progress.md"
    target.write_text("older")

    def refuse(*names):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        session.progress().save(target)
    assert target.read_text() == "older"
    assert os.listdir(tmp_path) == ["progress.md"]


def test_nothing_is_written_unasked(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    record(SQUARE)
    session.progress()
    assert os.listdir(tmp_path) == []


def test_named_file_keeps_the_session_for_the_next(tmp_path, monkeypatch):
    path = tmp_path / "record.jsonl"
    monkeypatch.setenv("COURSE_PROGRESS", str(path))
    record(SQUARE, "failed", "race")
    record(SQUARE)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["status"] for line in lines] == ["failed", "passed"]
    monkeypatch.setattr(session, "_records", {})
    assert session.progress().passed == 1


def test_damaged_line_is_left_out_and_mentioned(tmp_path, monkeypatch):
    path = tmp_path / "record.jsonl"
    monkeypatch.setenv("COURSE_PROGRESS", str(path))
    record(SQUARE)
    path.write_text(path.read_text() + "half a li\n")
    monkeypatch.setattr(session, "_records", {})
    progress = session.progress()
    assert progress.passed == 1
    assert "1 line" in repr(progress)


def test_file_that_cannot_be_written_disturbs_no_check(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "missing" / "record.jsonl"))
    record(SQUARE)
    progress = session.progress()
    assert progress.passed == 1
    assert "cannot be written" in repr(progress)


def test_course_progress_is_the_function_whatever_was_imported_first():
    import course
    import course.checks.progress

    assert callable(course.progress)
