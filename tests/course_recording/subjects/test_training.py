"""The bench of training steps: both networks are the same, and rows name what was timed."""

from types import SimpleNamespace

import pytest

from course import backend
from course_recording.subjects import training

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")


def test_both_networks_alternate_and_have_the_same_losses(monkeypatch):
    small = {"INPUTS": 12, "HIDDEN": 16, "CLASSES": 3, "ROUNDS": 2, "STEPS": 2, "COMPARED": 3}
    for name, value in small.items():
        monkeypatch.setattr(training, name, value)
    monkeypatch.setattr(training, "BATCHES", (4,))
    monkeypatch.setattr(training, "DEVICE", "cpu")
    rows, gaps = [], []
    training.run(
        SimpleNamespace(
            cuda=SimpleNamespace(synchronize=lambda: None),
            peer=lambda name: torch,
            parts=lambda ways: ["eager"],
            row=lambda *about, metric: rows.append((*about[:3], metric, about[-1].n)),
            figure=lambda *about: gaps.append(about),
        )
    )
    assert [row[1] for row in rows] == ["eager, PyTorch's", "eager, ours"]
    assert {row[2:] for row in rows} == {("4x12", "step", 2)}
    ((_, what, *_, gap),) = gaps
    assert what == "eager, ours" and gap < 1e-5
