"""Parts of a subject: a stopped run goes on with the next, and some can be measured alone."""

import dataclasses
import sys
from pathlib import Path
from types import ModuleType

import pytest

from course import __main__ as command_line
from course.kernels.gemm import float32 as matmul
from course.measure import recorded
from course_recording import frame as bench
from course_recording import kept_rows


def call(capsys, *words):
    status = command_line.main(["bench", *map(str, words)])
    return status, *capsys.readouterr()


@pytest.fixture
def parted(gpu, monkeypatch):
    """A subject of three parts that can be told to stop or to fail at one; what it measured."""
    measured, trouble = [], {}

    def run(frame):
        frame.figure("before", "mine", "", "", "value", "units", len(measured))
        for size in frame.parts((1, 2, 3)):
            if trouble.get(size) == "stop":
                raise KeyboardInterrupt
            measured.append(size)
            if trouble.get(size) == "leave out":  # as without a framework to compare with
                continue
            frame.figure("part", "mine", str(size), "", "value", "units", 10 * size)
            frame.notes.append(f"of {size}")
            if trouble.get(size) == "fail":
                frame.failures.append(f"{size} is wrong")

    module = ModuleType("course_recording.subjects.parted")
    module.run = run
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bench, "subjects", lambda: {"parted": "what it measures"})
    return measured, trouble


def test_a_stopped_subject_goes_on_with_the_part_it_was_at(parted, tmp_path, capsys):
    measured, trouble = parted
    assert call(capsys, "parted", "--out", tmp_path)[0] == 0
    whole = recorded.read(tmp_path / "fake1-parted.csv")
    (tmp_path / "fake1-parted.csv").unlink()
    measured.clear()

    trouble[3] = "stop"
    assert call(capsys, "parted", "--out", tmp_path)[0] == 130
    assert [path.name for path in tmp_path.iterdir()] == ["fake1-parted.unfinished"]
    trouble.clear()
    status, out, _ = call(capsys, "parted", "--out", tmp_path)
    assert status == 0 and measured == [1, 2, 3]
    assert "2: measured before this run, 1 rows are taken" in out
    assert [path.name for path in tmp_path.iterdir()] == ["fake1-parted.csv"]
    again = recorded.read(tmp_path / "fake1-parted.csv")
    assert [row for row in again.figures if row.kernel == "part"] == list(whole.figures[1:])
    assert whole.header["notes"] == "of 1; of 2; of 3"
    earlier = "measured in an earlier run that was stopped"
    assert again.header == whole.header | {"notes": f"of 1; 1: {earlier}; of 2; 2: {earlier}; of 3"}


@pytest.mark.parametrize("what", ["fail", "leave out"])
def test_a_part_that_failed_or_gave_no_rows_is_measured_again(parted, tmp_path, capsys, what):
    measured, trouble = parted
    trouble.update({1: what, 3: "stop"})
    assert call(capsys, "parted", "--out", tmp_path)[0] == 130
    trouble.clear()
    assert call(capsys, "parted", "--out", tmp_path)[0] == 0
    assert measured == [1, 2, 1, 3]


def test_parts_of_other_code_are_not_taken(parted, tmp_path, capsys, monkeypatch):
    measured, trouble = parted
    trouble[2] = "stop"
    call(capsys, "parted", "--out", tmp_path)
    trouble.clear()
    monkeypatch.setattr(bench, "sources", lambda: "another digest")
    status, out, _ = call(capsys, "parted", "--out", tmp_path)
    assert status == 0 and measured == [1, 1, 2, 3]
    assert "fake1-parted.unfinished differs in sources: everything is measured anew" in out


def test_a_kernel_that_was_changed_makes_another_digest(tmp_path):
    assert any(Path(matmul.__file__).is_relative_to(folder) for folder in kept_rows.FOLDERS)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "kernel.py").write_text("x = 1", encoding="utf-8")
    before = kept_rows.sources(folders)
    assert before == kept_rows.sources(folders)
    (folders[1] / "deep" / "kernel.py").write_text("x = 2", encoding="utf-8")
    assert kept_rows.sources(folders) != before


@pytest.mark.parametrize("spoil", ["driver", "not json", "[]", '{"facts": {}}'])
def test_parts_of_another_machine_or_of_a_broken_file_are_not_taken(
    parted, tmp_path, capsys, spoil
):
    measured, trouble = parted
    trouble[2] = "stop"
    call(capsys, "parted", "--out", tmp_path)
    trouble.clear()
    kept = tmp_path / "fake1-parted.unfinished"
    text = kept.read_text()
    assert '"driver": "' in text
    kept.write_text(text.replace('"driver": "', '"driver": "1') if spoil == "driver" else spoil)
    status, out, _ = call(capsys, "parted", "--out", tmp_path)
    says = "differs in driver" if spoil == "driver" else "cannot be read"
    assert status == 0 and measured == [1, 1, 2, 3]
    assert f"{kept.name} {says}" in out and "everything is measured anew" in out
    assert not kept.exists()


# --- some parts alone -----------------------------------------------------------------------------


def test_parts_alone_take_the_places_of_their_rows(parted, tmp_path, capsys):
    measured, _ = parted
    path = tmp_path / "fake1-parted.csv"
    call(capsys, "parted", "--out", tmp_path)
    whole = recorded.read(path)
    older = [dataclasses.replace(row, median=7.0, q1=7.0, q3=7.0) for row in whole.figures]
    older.append(dataclasses.replace(older[0], kernel="1"))  # no row of a part outlives it
    recorded.write(path, whole.header | {"date": "2020-02-02", "driver": "1.5"}, older)
    measured.clear()
    assert call(capsys, "parted", "--parts", "3", "1", "--out", tmp_path)[0] == 0
    assert measured == [1, 3]
    found = recorded.read(path)
    values = {(row.kernel, row.shape): row.median for row in found.figures}
    assert values == {("before", ""): 7, ("part", "1"): 10, ("part", "2"): 7, ("part", "3"): 30}
    assert found.header["date"] == "2020-02-02" and found.header["driver"] == "1.5"
    today, driver = whole.header["date"], whole.header["driver"]
    assert found.header["notes"] == (
        f"of 1; of 2; of 3; of 1; of 3; 1, 3: measured alone on {today} driver={driver}"
    )


def test_of_parts_alone_each_is_kept_when_it_is_done_and_runs_add_up(parted, tmp_path, capsys):
    _, trouble = parted
    path = tmp_path / "fake1-parted.csv"
    shapes = lambda: [row.shape for row in recorded.read(path).figures]  # noqa: E731
    trouble[3] = "stop"
    assert call(capsys, "parted", "--parts", "1", "3", "--out", tmp_path)[0] == 130
    assert recorded.read(path).header["notes"] == "of 1; 1: measured alone, and nothing else"
    assert shapes() == ["1"]
    assert call(capsys, "parted", "--parts", "2", "3", "--out", tmp_path)[0] == 130
    assert shapes() == ["1", "2"] and list(tmp_path.iterdir()) == [path]
    assert call(capsys, "parted", "--parts", "1", "--seed", "7", "--out", tmp_path)[0] == 0
    assert shapes() == ["1", "2"]
    path = tmp_path / "fake1-parted-7.csv"
    assert shapes() == ["1"]


def test_parts_alone_leave_a_stopped_run_as_it_was(parted, tmp_path, capsys):
    measured, trouble = parted
    trouble[3] = "stop"
    call(capsys, "parted", "--out", tmp_path)
    before = (tmp_path / "fake1-parted.unfinished").read_bytes()
    trouble.clear()
    assert call(capsys, "parted", "--out", tmp_path, "--parts", "1")[0] == 0
    assert measured == [1, 2, 1]
    assert (tmp_path / "fake1-parted.unfinished").read_bytes() == before


def test_a_part_that_is_not_there_is_named_with_those_that_are(parted, tmp_path, capsys):
    status, out, err = call(capsys, "parted", "--out", tmp_path, "--parts", "4")
    assert status == 1 and "so no file of parted" in out and not list(tmp_path.iterdir())
    assert err == "failed: parted: there is no part '4'; others are: '1', '2', '3'\n"


def test_parts_are_of_one_subject(parted, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(bench, "subjects", lambda: dict.fromkeys(("parted", "other"), ""))
    for subjects in ((), ("parted", "other")):
        status, _, err = call(capsys, *subjects, "--parts", "1", "--out", tmp_path)
        assert status == 2 and "--parts are those of one subject, and 2 are named" in err


def test_a_file_that_cannot_be_read_is_refused_before_anything_is_measured(
    parted, tmp_path, capsys
):
    (tmp_path / "fake1-parted.csv").write_text("no figures")
    status, _, err = call(capsys, "parted", "--parts", "1", "--out", tmp_path)
    assert status and "fake1-parted.csv" in err and not parted[0]
    assert (tmp_path / "fake1-parted.csv").read_text() == "no figures"
