"""The bench of entry points: every call works, and rows name the shapes that were called."""

from types import SimpleNamespace

import numpy as np
import pytest

from course import backend
from course_recording.subjects import door

pytestmark = pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")


def test_calls_and_their_rows(monkeypatch):
    for name, small in {"ROWS": 3, "COLUMNS": 20, "SIDE": 12, "RANK": 4, "CALLS": 2}.items():
        monkeypatch.setattr(door, name, small)
    monkeypatch.setattr(door, "ROUNDS", 2)
    rows = []
    bench = SimpleNamespace(
        cuda=backend.cuda,
        peer=lambda name: None,
        random=lambda *shape: np.random.default_rng(0).random(shape, dtype=np.float32),
        row=lambda *about, metric: rows.append((*about[1:3], metric, about[-1].n)),
    )
    assert dict(door._calls(bench, "torch")) == {}
    calls = dict(door._calls(bench, "numba"))
    assert len(calls) == 12 and all(name.endswith(", Numba") for name in calls)
    door.hosts(bench, calls)
    assert {shape for name, shape, *_ in rows if "reconstruct" in name} == {"12x12x4"}
    assert {shape for name, shape, *_ in rows if "reconstruct" not in name} == {"3x20"}
    assert {(metric, n) for *_, metric, n in rows} == {("host", 2)}
