"""python -m course bench: right results only, a file for each subject, without a GPU no time."""

import dataclasses
import sys
from types import ModuleType

import numpy as np
import pytest

from course import __main__ as command_line
from course import backend
from course.measure import recorded
from course_lessons.lesson13 import speed_charts
from course_recording import frame as bench
from course_recording.frame import Bench, WrongResult, judged, poison
from tests.course_recording.fake_gpu import ROOFS
from warpsim.draw.style import Picture


def program(gpu, work, seconds=5e-6):
    """A function on fake device arrays that takes so long."""

    def call(out, values):
        work(out.values, values.values)
        gpu.launch(seconds, cost=1e-5)

    return call


def a_case(frame, gpu, work, **options):
    values = frame.random(600_000)
    there, out = gpu.to_device(values), gpu.device_array(600_000, np.float32)
    given = {"expected": 2 * values.astype(np.float64), "shape": "600000", "out": out,
             "bytes": 2 * values.nbytes}  # fmt: skip
    call = program(gpu, work, options.pop("seconds", 1e-4))
    return frame.variant("double", "mine", call, (out, there), **(given | options))


def doubled(out, values):
    np.multiply(values, np.float32(2), out=out)


def said(frame):
    return {figure.metric: figure for figure in frame.rows}


def test_a_right_program_gives_rows_of_its_time_error_and_launch(gpu):
    frame = Bench("x", ROOFS, say=lambda _: None)
    timing = a_case(frame, gpu, doubled, operations=600_000)
    assert timing.median == pytest.approx(0.1, rel=1e-2) and not frame.failures
    rows = said(frame)
    assert rows["time"].median == timing.median and rows["time"].bytes == 4_800_000
    assert rows["time"].operations == 600_000 and rows["time"].n == timing.n
    assert rows["error"].median == 0
    assert rows["launch"].median == pytest.approx(0.01, rel=0.01)


def test_rows_give_the_operations_that_the_work_needs(gpu):
    frame = Bench("x", ROOFS, say=lambda _: None)
    a_case(frame, gpu, doubled, operations={"float32": 1_800_000}, needed=600_000)
    assert said(frame)["time"].operations == 600_000


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda out, values: None, "600,000 of 600,000 elements are not finite"),
        (lambda out, values: doubled(out[:-1], values[:-1]), "1 of 600,000 elements"),
        (lambda out, values: np.copyto(out, values), "error is 0.5; 1e-06 is allowed"),
        (lambda out, values: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_wrong_program_has_no_time_and_stops_nothing_else(gpu, work, words):
    frame = Bench("x", ROOFS, say=lambda _: None)
    assert a_case(frame, gpu, work) is None
    assert not frame.rows
    assert words in frame.failures[0] and frame.failures[0].startswith("double mine 600000:")
    assert a_case(frame, gpu, doubled) is not None and frame.rows


@pytest.mark.slow
def test_a_figure_above_the_measured_roof_is_no_row(gpu):
    frame = Bench("x", ROOFS, say=lambda _: None)
    assert a_case(frame, gpu, doubled, seconds=1e-6) is None
    assert "above the 1,000 GB/s" in frame.failures[0] and not frame.rows


def test_a_result_that_is_returned_is_compared_too(gpu):
    frame = Bench("x", ROOFS, say=lambda _: None)
    values = np.arange(5, dtype=np.float32)
    assert frame.check(lambda x: 2 * x, (values,), 2.0 * values) == 0
    with pytest.raises(WrongResult, match=r"shape \(4,\), not \(5,\)"):
        frame.check(lambda x: x[:4], (values,), 2.0 * values)


def test_an_exact_result_must_be_exact(gpu):
    wrong = np.ones(1000)
    wrong[7] = np.nextafter(1, 2)
    assert judged(np.ones(1000), np.ones(1000), 0, gpu) == 0
    with pytest.raises(WrongResult, match="0 is allowed"):
        judged(wrong, np.ones(1000), 0, gpu)


def test_outputs_are_poisoned(gpu):
    for dtype in (np.float32, np.float64, np.int32, np.uint8):
        out = gpu.device_array((3, 2), dtype)
        poison(out, gpu)
        assert not np.isfinite(out.values).any() or (out.values == np.iinfo(dtype).max).all()


def test_a_peer_that_is_missing_or_broken_is_left_out_with_a_note(gpu, monkeypatch):
    frame = Bench("x", ROOFS, say=lambda _: None)
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert frame.peer("cupy") is None and frame.peer("cupy") is None
    assert len(frame.notes) == 1 and frame.notes[0].startswith("cupy left out: ")
    broken = ModuleType("torch")  # has no backends
    monkeypatch.setitem(sys.modules, "torch", broken)
    assert frame.peer("torch") is None and "torch left out" in frame.notes[1]


def test_random_inputs_are_the_same_in_every_run(gpu):
    one, other = (Bench("x", ROOFS).random(3, 4) for _ in range(2))
    assert np.array_equal(one, other) and one.dtype == np.float32 and np.abs(one).max() <= 0.5


# --- subjects and files ---------------------------------------------------------------------------


@pytest.fixture
def subjects(gpu, monkeypatch):
    """Two subjects, the second of which has a wrong program, and a third that is stopped."""

    def good(frame):
        a_case(frame, gpu, doubled)

    def half_good(frame):
        a_case(frame, gpu, lambda out, values: None)
        frame.figure("answer", "mine", "", "", "value", "units", 42)
        frame.notes.append("something was left out")

    def stopped(frame):
        raise KeyboardInterrupt

    runs = {"good": good, "half": half_good, "stopped": stopped, "empty": lambda frame: None}
    for name, run in runs.items():
        module = ModuleType(f"course_recording.subjects.{name}")
        module.run = run
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bench, "subjects", lambda: dict.fromkeys(runs, "what it measures"))


def call(capsys, *words):
    status = command_line.main(["bench", *map(str, words)])
    return status, *capsys.readouterr()


def test_each_subject_becomes_a_file_and_wrong_programs_end_with_status_1(
    subjects, tmp_path, capsys
):
    status, out, err = call(capsys, "good", "half", "--out", tmp_path / "new")
    assert status == 1
    assert err == (
        "failed: half: double mine 600000: WrongResult: 600,000 of 600,000 elements are not "
        "finite: not written, or wrong\n"
    )
    assert "2 files written" in out and "FAILED" in out
    good = recorded.read(tmp_path / "new" / "fake1-good.csv")
    assert good.header["gpu"] == "NVIDIA Fake 1" and good.header["compute_capability"] == "9.9"
    assert good.header["roofs"].startswith("memory 1,000 GB/s, float32 10 TFLOP/s")
    assert good.header["command"] == "python -m course bench good"
    half = recorded.read(tmp_path / "new" / "fake1-half.csv")
    assert [figure.median for figure in half.figures] == [42]
    assert half.header["notes"] == "something was left out"


def test_the_folder_may_be_called_outdir(subjects, tmp_path, capsys):
    assert call(capsys, "good", "--outdir", tmp_path / "new")[0] == 0
    assert (tmp_path / "new" / "fake1-good.csv").exists()


def test_what_is_done_is_kept_when_the_rest_is_stopped(subjects, tmp_path, capsys):
    status, _, err = call(capsys, "good", "stopped", "half", "--out", tmp_path)
    assert status == 130
    assert err == "python -m course: stopped; files that were written before are whole\n"
    assert [path.name for path in tmp_path.iterdir()] == ["fake1-good.csv"]


def test_charts_stand_beside_the_file_and_without_them_the_figures_are_kept(
    subjects, tmp_path, capsys, monkeypatch
):
    drawn = []

    def charts(figures, bandwidth):
        drawn.append(bandwidth)
        if len(drawn) > 1:
            raise ValueError("no paper")
        return {"line": Picture(1, 1)}

    monkeypatch.setattr(speed_charts, "charts", charts)
    monkeypatch.setattr(
        sys.modules["course_recording.subjects.good"], "CHARTS", True, raising=False
    )
    status, out, _ = call(capsys, "good", "--out", tmp_path)
    assert status == 0 and drawn == [1000]
    assert f"written: {tmp_path / 'fake1-good-line.png'}" in out
    status, _, err = call(capsys, "good", "--out", tmp_path)
    assert status == 1 and "failed: good: no charts: ValueError: no paper" in err
    assert (tmp_path / "fake1-good.csv").exists()


def test_a_subject_may_name_the_module_of_its_charts(subjects, tmp_path, capsys, monkeypatch):
    good = sys.modules["course_recording.subjects.good"]
    monkeypatch.setattr(good, "CHARTS", "course_recording.subjects.good", raising=False)
    monkeypatch.setattr(good, "charts", lambda figures: {"own": Picture(1, 1)}, raising=False)
    status, out, _ = call(capsys, "good", "--out", tmp_path)
    assert status == 0 and f"written: {tmp_path / 'fake1-good-own.png'}" in out


def test_a_subject_without_rows_has_no_file(subjects, tmp_path, capsys):
    status, out, _ = call(capsys, "empty", "--out", tmp_path)
    assert status == 0 and "nothing was measured" in out and not list(tmp_path.iterdir())


def test_without_out_the_files_are_the_readers_own(subjects, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COURSE_MEASUREMENTS", str(tmp_path / "mine"))
    assert call(capsys, "good")[0] == 0
    assert (tmp_path / "mine" / "fake1-good.csv").exists()


def test_own_times_are_shown_beside_the_recorded_ones(subjects, tmp_path, capsys, monkeypatch):
    def again(frame):
        for figure in recorded.recorded("transpose", variant="copy"):
            twice = {"median": 2 * figure.median, "q1": 2 * figure.q1, "q3": 2 * figure.q3}
            frame.rows.append(dataclasses.replace(figure, **twice))

    module = ModuleType("course_recording.subjects.transpose")
    module.run = again
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(bench, "subjects", lambda: {"transpose": "transposes"})
    status, out, _ = call(capsys, "transpose", "--out", tmp_path)
    assert status == 0
    assert "fake1-transpose beside what is recorded [ms]:" in out
    assert "NVIDIA H200" in out and out.count("2 times as much") == len(
        recorded.recorded("transpose", variant="copy")
    )


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: None)
    monkeypatch.setattr(backend, "why", lambda: "no driver")


def test_without_a_gpu_it_says_so_and_shows_what_is_recorded(no_gpu, tmp_path, capsys):
    status, out, err = call(capsys, "transpose", "--out", tmp_path)
    assert status == 0 and not err
    assert out.startswith("There is no GPU to measure here (no driver). This is what is recorded:")
    assert "NVIDIA H200" in out and "transpose_padded" in out and "GB/s" in out
    assert not list(tmp_path.iterdir())


def test_the_list_says_what_every_subject_measures(no_gpu, capsys):
    status, out, _ = call(capsys, "--list")
    lines = out.splitlines()
    assert status == 0
    assert [line.split()[0] for line in lines[:3]] == ["roofs", "transfers", "launch"]
    assert all(len(line.split()) > 3 for line in lines)


def test_an_unknown_subject_is_an_error_of_one_line(no_gpu, capsys):
    status, _, err = call(capsys, "transposed")
    assert status == 2
    assert err.startswith("python -m course: error: there is no subject 'transposed'; there are ")
    assert err.count("\n") == 1


def test_every_subject_can_be_run_and_says_what_it_measures():
    import importlib

    for name, what in bench.subjects().items():
        module = importlib.import_module(f"course_recording.subjects.{name}")
        assert callable(module.run) and what and not what.endswith(".")


def test_launches_are_timed_for_the_host_between_events_and_queued(gpu):
    from course_recording.subjects import launch

    frame = Bench("launch", ROOFS, say=lambda _: None)
    launch.time_launch(frame, "empty", lambda: gpu.launch(1e-6, cost=1e-5))
    rows = said(frame)
    assert rows["host"].median == pytest.approx(0.01, rel=0.01)
    assert rows["host in a row"].median == pytest.approx(0.01, rel=0.01)
    assert rows["events"].median == pytest.approx(0.011, rel=0.01)
    assert rows["queued"].median == pytest.approx(0.001, rel=0.05)


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")
def test_transposes_are_right_and_measured_on_a_gpu(tmp_path, monkeypatch):
    from course_recording.subjects import transpose

    monkeypatch.setattr(transpose, "SHAPES", ((1031, 517),))
    files, failures = bench.measure_subjects(["transpose"], tmp_path)
    assert not failures
    found = {figure.variant for figure in recorded.read(files[0]).figures}
    assert {"copy", "transpose_tiled", "transpose_padded"} <= found
