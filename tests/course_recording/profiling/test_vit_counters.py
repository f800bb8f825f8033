"""Counters of a vision transformer: what is launched, and how ncu's rows become figures."""

import pytest

from course.measure.recorded import parsed, write
from course_models.vit import TOY, shape
from course_recording.profiling import vit_counters
from course_recording.profiling.nsight import CountersNotRead

METRICS = {"duration": "gpu__time_duration.sum", "tensor pipe": "sm__pipe.avg"}
UNITS = {"gpu__time_duration.sum": "nsecond", "sm__pipe.avg": "%"}
ROWS = [{"gpu__time_duration.sum": "12,000", "sm__pipe.avg": "61.5"},
        {"gpu__time_duration.sum": "4,000", "sm__pipe.avg": "n/a"}]  # fmt: skip


def test_each_launch_of_a_forward_pass_has_its_name(monkeypatch, h200):
    monkeypatch.setattr(shape, "ViTShape", lambda: TOY)
    names = [name for name, *_ in vit_counters.calls(2)]
    assert names[:3] == ["patch_embed", "patch_embed, 2", "blocks.0.norm1"]
    assert names[-2:] == ["norm", "head"] and len(set(names)) == len(names) == 11


def test_rows_become_figures_in_the_files_form(tmp_path):
    names = [("norm", "64 images"), ("head", "64 images")]
    found = vit_counters.figures(ROWS, UNITS, names, METRICS)
    assert [(its.kernel, its.metric, its.unit, its.median) for its in found] == [
        ("norm", "duration", "ms", 0.012), ("norm", "tensor pipe", "%", 61.5),
        ("head", "duration", "ms", 0.004),
    ]  # fmt: skip
    facts = {"gpu": "a GPU", "course": "0", "date": "2026-01-01"}
    path = write(tmp_path / "test-vit_counters.csv", facts, found)
    assert len(parsed(path.read_text(), path).figures) == 3


def test_a_launch_that_was_not_profiled_is_missed():
    with pytest.raises(CountersNotRead, match="1 launches were made, 2 profiled"):
        vit_counters.figures(ROWS, UNITS, [("norm", "")], METRICS)
