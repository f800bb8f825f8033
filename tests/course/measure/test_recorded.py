"""Recorded figures: whole files or none, errors that name the line, own beside recorded."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from course import backend
from course.files import data_path
from course.measure import own_figures
from course.measure import recorded as measurements
from course.measure.own_figures import compare, figure_of, judged, keep, own_folder
from course.measure.recorded import (
    BadMeasurements,
    Figure,
    file_name,
    longest_recorded,
    read,
    recorded,
    recordings,
    table,
    write,
)
from course.measure.roofline import PIPES, Roofs, known_gpu, refuse_impossible
from course.measure.timing import timing_of
from course_lessons.lesson12.scaling import workers_of
from warpsim.host.device import NoTime

HEADER = {"gpu": "NVIDIA H200", "course": "0.1.0", "date": "2026-01-02", "driver": "580"}
TIME = Figure("copy", "mine", "8x8", "float32", "time", "ms", 0.5, 0.25, 1.0, 30, 512.0, None)
ERROR = Figure("copy", "mine", "8x8", "float32", "error", "relative", 3e-7, 3e-7, 3e-7, 1)


def a_file(folder, figures=(TIME, ERROR), header=HEADER, name="h200-copy.csv"):
    return write(folder / name, header, figures)


def test_what_is_written_is_read_back(tmp_path):
    found = read(a_file(tmp_path))
    assert found.header == HEADER and found.gpu == "NVIDIA H200"
    assert found.figures == (TIME, ERROR)
    assert found.figures[0].gpu == "NVIDIA H200" and found.figures[0].date == "2026-01-02"


def test_a_file_has_the_columns_of_the_design(tmp_path):
    lines = a_file(tmp_path).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# gpu=NVIDIA H200"
    columns = "kernel,variant,shape,dtype,metric,unit,median,q1,q3,n,bytes,operations"
    assert lines[len(HEADER)] == columns
    assert lines[len(HEADER) + 1] == "copy,mine,8x8,float32,time,ms,0.5,0.25,1,30,512,"


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = a_file(tmp_path)
    before = path.read_bytes()
    with pytest.raises(BadMeasurements, match="stands in line 6 already"):
        a_file(tmp_path, (TIME, TIME))

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(measurements.os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        a_file(tmp_path, (ERROR,))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["h200-copy.csv"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"median": 2.0}, "must rise"),
        ({"q1": math.nan}, "must rise"),
        ({"n": 0}, "n of 1 or more"),
        ({"q1": 0.0}, "a time of 0.0 ms"),
        ({"kernel": ""}, "has a kernel"),
    ],
)
def test_figures_that_are_none_are_not_written(tmp_path, change, words):
    with pytest.raises(BadMeasurements, match=words):
        a_file(tmp_path, (dataclasses.replace(TIME, **change),))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("# gpu=NVIDIA H200\n", "", r"h200-copy\.csv: the header does not say gpu"),
        ("# driver=580", "# driver", "line 4: a header line is '# key=value'"),
        ("unit,median", "unit,mean", "line 5: the columns must be"),
        (",0.5,", ",fast,", "line 6: median is 'fast', which is no number"),
        (",30,512,", ",30,512,,9", "line 6: 13 values for 12 columns"),
    ],
)
def test_errors_of_a_file_name_the_line(tmp_path, old, new, words):
    path = a_file(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(BadMeasurements, match=words):
        read(path)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "h200-x.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadMeasurements, match="UTF-8"):
        read(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(BadMeasurements, match="does not say gpu, course, date"):
        read(path)


@pytest.mark.parametrize(
    ("gpu", "name"),
    [("NVIDIA H200", "h200"), ("Tesla T4", "t4"), ("NVIDIA GeForce RTX 4090", "rtx4090"),
     ("NVIDIA A100-SXM4-80GB", "a100sxm480gb")],
)  # fmt: skip
def test_a_files_name_says_gpu_and_subject(gpu, name):
    assert file_name(gpu, "copy") == f"{name}-copy.csv"


def test_rates_and_text_of_a_figure():
    figure = dataclasses.replace(TIME, operations=2e9, gpu="NVIDIA H200", date="2026-01-02")
    assert figure.gigabytes_per_second == pytest.approx(512 / 0.5e-3 / 1e9)
    assert figure.teraflops == pytest.approx(4.0)
    assert math.isnan(ERROR.teraflops) and math.isnan(ERROR.gigabytes_per_second)
    text = str(figure)
    assert text == "recorded on an NVIDIA H200, 2026-01-02: mine 8x8 float32 500 µs (n = 30)"
    assert table([figure, ERROR]) == ["  copy  mine  8x8  float32  500 µs  4 TFLOP/s  error 3e-07"]
    assert table([]) == []


# --- what is recorded -----------------------------------------------------------------------------


def test_a_header_is_written_whatever_the_roofs_are(tmp_path, monkeypatch):
    monkeypatch.setattr(
        backend.cuda, "runtime", SimpleNamespace(get_version=lambda: (13, 0)), raising=False
    )
    pipes = {"float32": 59.8, "float64": 32.7, "tensor_float16": 701.0, "tensor_float32": 385.0}
    rates = {"read_bandwidth": 4404.0, "l2_bandwidth": 7951.0, "l2_bytes": 60 << 20}
    roofs = Roofs("NVIDIA H200", 4228.0, pipes, **rates)
    assert "\n" in str(roofs)  # as it is printed
    facts = measurements.header("NVIDIA H200", roofs, "python -m course bench roofs")
    path = write(tmp_path / "h200-roofs.csv", facts, (TIME,))
    assert read(path).header["roofs"].endswith("tensor_float32 385 TFLOP/s")


def test_every_recorded_file_is_good_and_its_name_fits_its_header():
    found = recordings()
    assert {"roofs", "transfers", "launch", "transpose"} <= {
        measurements.subject_of(recording.path) for recording in found
    }
    for recording in found:
        subject = measurements.subject_of(recording.path)
        assert recording.path.name == file_name(recording.gpu, subject)
        assert recording.figures
        for key in ("driver", "cuda", "numba-cuda", "numpy", "roofs", "command"):
            assert recording.header.get(key), f"{recording.path.name} does not say {key}"


def test_no_recorded_time_is_above_what_the_gpu_can_do():
    for figure in recorded():
        if figure.kernel == "transfer":
            assert figure.gigabytes_per_second < known_gpu(figure.gpu).link
            continue
        printed = known_gpu(figure.gpu)
        small = (figure.bytes or 0) < 2 * printed.l2_bytes or "L2" in figure.variant
        pipe = figure.variant if figure.variant in PIPES else figure.dtype
        gpus = workers_of(figure) if figure.kernel.endswith(" scaling") else 1  # a worker has one
        done = figure.operations / gpus if figure.operations else None
        done = {pipe: done} if done and pipe in printed.rates else None
        refuse_impossible(figure.median, figure.bytes, done, printed, in_l2=small, what=str(figure))


def test_find_takes_what_fits_all_that_is_given():
    shape = "8192x8192"
    found = recorded("transpose", variant="transpose_padded", shape=shape, gpu="h200")
    assert [(figure.variant, figure.shape) for figure in found] == [("transpose_padded", shape)]
    assert recorded("transpose", gpu="T4") == []
    assert recorded("nowhere") == []
    assert {figure.metric for figure in recorded("transpose")} == {"time"}
    assert "error" in {figure.metric for figure in recorded("transpose", metric=None)}


def test_recorded_is_the_largest_work_of_a_program():
    figure = longest_recorded("transpose_padded")
    assert figure.bytes == max(f.bytes for f in recorded(variant="transpose_padded"))
    assert longest_recorded("no such kernel") is None


def test_files_with_another_layout_are_left_alone():
    assert data_path("measurements", "h200-counters.csv").exists()
    assert not any("counters" in recording.path.name for recording in recordings())


# --- the reader's own -----------------------------------------------------------------------------


def test_own_figures_stand_beside_the_recorded_ones(tmp_path):
    theirs = longest_recorded("transpose_padded")
    mine = dataclasses.replace(theirs, median=2 * theirs.median, q1=2 * theirs.q1, q3=2 * theirs.q3)
    other = dataclasses.replace(mine, shape="3x3")
    a_file(tmp_path, (mine, other), HEADER | {"gpu": "Tesla T4"}, "t4-transpose.csv")
    found = compare("transpose", own=tmp_path)
    assert len(found) == 1
    row = found.iloc[0]
    assert row["own GPU"] == "Tesla T4" and row["recorded GPU"] == "NVIDIA H200"
    assert row["own / recorded"] == pytest.approx(2, rel=1e-4)
    assert row["says"] == "2 times as much"
    assert compare("launch", own=tmp_path).empty
    assert compare(own=tmp_path / "nowhere").empty


def test_a_difference_within_the_spread_is_none():
    near = dataclasses.replace(TIME, median=0.9)
    assert judged(near, TIME) == "the same"
    far = dataclasses.replace(TIME, median=0.1, q1=0.1, q3=0.1)
    assert judged(far, TIME) == "5 times less"


def test_new_figures_take_the_place_of_earlier_ones_of_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: "Tesla T4")
    monkeypatch.setattr(own_figures, "header", lambda gpu, *_: HEADER | {"gpu": gpu})
    own = tmp_path / "new"
    keep("lesson03", [TIME, ERROR], own)
    faster = dataclasses.replace(TIME, median=0.3)
    assert keep("lesson03", [faster], own) == own / "t4-lesson03.csv"
    assert read(own / "t4-lesson03.csv").figures == (faster, ERROR)


def test_only_what_was_measured_on_a_gpu_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: None)
    with pytest.raises(NoTime, match="no figures of one to keep"):
        keep("lesson03", [TIME], tmp_path)
    measured = timing_of([1.0, 2.0, 3.0], name="mine", bytes=8.0, operations={"float32": 6.0})
    figure = figure_of(measured, "copy", "2x1")
    assert figure.key == ("copy", "mine", "2x1", "float32", "time")
    assert (figure.median, figure.n, figure.bytes) == (2, 3, 8)
    assert figure.operations == pytest.approx(6)
    with pytest.raises(ValueError, match="a bound is no figure of yours"):
        figure_of(dataclasses.replace(measured, source="bound"), "copy")


def test_own_figures_are_kept_where_the_reader_says(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_MEASUREMENTS", str(tmp_path))
    assert own_folder() == tmp_path
    monkeypatch.delenv("COURSE_MEASUREMENTS")
    assert own_folder().parts[-2:] == (".course", "measurements")
