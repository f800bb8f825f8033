"""Fixtures of many tests of the program."""

import pytest

from course_app.pipeline import capacity, pipeline, results
from tests.course_app.pipeline_parts import at_work, draw_quickly
from tests.course_app.worker_parts import lives


@pytest.fixture
def out(tmp_path):
    """Where results go; not there yet."""
    return tmp_path / "out"


@pytest.fixture
def quick_grid(monkeypatch):
    """The grid of pictures is not drawn."""
    monkeypatch.setattr(results, "write_grid", draw_quickly)


@pytest.fixture(scope="module")
def group():
    """Two workers without a GPU."""
    from course_app.cluster.group import cluster

    with cluster(2, gpus=False) as its:
        yield its


@pytest.fixture
def begun(monkeypatch):
    """Processes work on however little there is; all that were begun, by their numbers."""
    monkeypatch.setattr(capacity, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(capacity, "WORTH_A_PROCESS", 1e-9)
    found = []

    class Noted(pipeline.Workers):
        def add(self, count):
            super().add(count)
            found.extend(hand.pid for hand in self.hands[len(self.hands) - count :])

    monkeypatch.setattr(pipeline, "Workers", Noted)
    yield found
    assert not any(map(lives, found)) and not at_work()
