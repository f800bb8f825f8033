"""Progress: a table of what was checked, saved whole or not at all, and honest about itself."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from course.checks import progress as session
from course.checks.verdicts import Verdict
from tests.course.checks.sample_exercises import ALL, MEAN, SQUARE, samples  # noqa: F401


@pytest.fixture(autouse=True)
def nothing_before(monkeypatch, samples):  # noqa: F811
    monkeypatch.setattr(session, "_failed", {})
    monkeypatch.setattr(session, "_trouble", None)


def record(exercise, status="passed", kind="passed", answer=None):
    session.record(exercise, Verdict(exercise.name, status, kind, ""), answer)


def an_answer(a, b):
    return a + b


def test_nothing_checked_says_so():
    assert repr(session.progress()) == "Nothing was checked yet."


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


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user's own home, and no setting of the course."""
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("COURSE_PROGRESS")
    return tmp_path


def begin_another_session(monkeypatch):
    monkeypatch.setattr(session, "_records", {})
    monkeypatch.setattr(session, "_failed", {})


def test_progress_is_kept_for_the_next_session_and_says_where(home, monkeypatch):
    record(SQUARE)
    begin_another_session(monkeypatch)
    progress = session.progress()
    assert progress.passed == 1
    where = f"Kept in ~{os.sep}.course{os.sep}progress.jsonl; progress(clear=True) deletes it."
    assert " ".join(repr(progress).split()).endswith(where)
    assert "deletes it" in progress._repr_html_()


def test_progress_can_be_cleared(home):
    record(SQUARE)
    record(MEAN, "failed", "race", an_answer)
    cleared = session.progress(clear=True)
    assert not cleared.rows and "progress.jsonl is deleted" in " ".join(repr(cleared).split())
    assert session.tries(MEAN.name) == 0
    assert os.listdir(home / ".course") == []
    assert repr(session.progress()) == "Nothing was checked yet."


@pytest.mark.parametrize(
    ("name", "value"),
    [("COURSE_PROGRESS", "off"), ("COURSE_GRADING", "1"), ("COURSE_STRICT", "1")],
)
def test_tests_grading_and_solutions_neither_read_nor_write_it(home, monkeypatch, name, value):
    record(SQUARE)
    begin_another_session(monkeypatch)
    before = (home / ".course/progress.jsonl").read_bytes()
    monkeypatch.setenv(name, value)
    assert not session.progress().rows
    record(MEAN)
    assert "Kept" not in repr(session.progress())
    assert (home / ".course/progress.jsonl").read_bytes() == before


def test_no_test_reads_or_writes_the_users_progress():
    assert os.environ["COURSE_PROGRESS"] == "off" and session.progress_file() is None


def test_a_stub_takes_nothing_away_from_what_passed_in_an_earlier_session(home, monkeypatch):
    record(SQUARE)
    begin_another_session(monkeypatch)
    record(SQUARE, "not started", "not-started")
    record(MEAN, "not started", "not-started")
    assert session.progress().passed == 1
    record(SQUARE, "failed", "race")
    assert session.progress().passed == 0


@pytest.mark.slow
def test_two_notebooks_write_at_a_time_and_the_later_verdict_counts(home, monkeypatch):
    record(SQUARE, "failed", "race")
    script = (
        "from course.checks import progress, verdicts\n"
        "from tests.course.checks.sample_exercises import ALL\n"
        "for _ in range(200):\n"
        "    for exercise in ALL:\n"
        "        verdict = verdicts.Verdict(exercise.name, 'passed', 'passed', '')\n"
        "        progress.record(exercise, verdict, None)\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    # where one saw half of the other's line, it began a new one: a blank line is nobody's
    lines = [one for one in (home / ".course/progress.jsonl").read_text().splitlines() if one]
    assert len(lines) == 1 + 2 * 200 * len(ALL) and all(map(json.loads, lines))
    earlier = replace(session._records[SQUARE.name], date="2020-02-02T00:00:00+00:00")
    monkeypatch.setitem(session._records, SQUARE.name, earlier)
    assert session.progress().passed == len(ALL)


def test_a_line_that_was_cut_off_takes_no_other_with_it(home, monkeypatch):
    record(SQUARE)
    path = home / ".course/progress.jsonl"
    path.write_bytes(path.read_bytes()[:-20])
    record(MEAN)
    begin_another_session(monkeypatch)
    progress = session.progress()
    assert progress.passed == 1
    assert "1 line of it cannot be read" in " ".join(repr(progress).split())


def test_a_full_disk_disturbs_no_check(home, monkeypatch):
    monkeypatch.setattr(os, "write", lambda handle, content: len(content) // 2)
    record(SQUARE)
    said = " ".join(repr(session.progress()).split())
    assert "cannot be written: No space left on device. COURSE_PROGRESS names another" in said


def test_a_file_that_cannot_be_read_disturbs_nothing(home):
    (home / ".course/progress.jsonl").mkdir(parents=True)
    record(SQUARE)
    progress = session.progress()
    assert progress.passed == 1
    assert "cannot be read" in repr(progress) and "cannot be written" in repr(progress)


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
