"""The bench of allocations does what it says, but for the times."""

import contextlib
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from course import backend
from course.measure import event_clock
from course.measure.timing import timing_of
from course_recording.frame import Bench
from course_recording.subjects import allocation
from tests.course_recording.fake_gpu import ROOFS


class Pool:
    """A pool of CuPy, and of PyTorch; it notes when it was emptied."""

    emptied = 0

    def malloc(self, size):
        raise AssertionError("nobody asks the stand-in for memory")

    def free_all_blocks(self):
        Pool.emptied += 1


def libraries():
    """CuPy and PyTorch of NumPy; `used` has the allocators under which CuPy's calls were made."""
    used = []

    @contextlib.contextmanager
    def using_allocator(allocator):
        used.append(allocator)
        yield

    def multiply(x, two, out=None):
        return np.multiply(x, two, out=out)

    cupy = SimpleNamespace(
        cuda=SimpleNamespace(MemoryPool=Pool, using_allocator=using_allocator),
        asarray=np.asarray, empty_like=np.empty_like, multiply=multiply,
    )  # fmt: skip
    torch = SimpleNamespace(
        from_numpy=lambda values: SimpleNamespace(cuda=lambda: values), empty_like=np.empty_like,
        mul=multiply, cuda=SimpleNamespace(empty_cache=Pool().free_all_blocks),
    )  # fmt: skip
    return {"cupy": cupy, "torch": torch}, used


@pytest.fixture
def bench(monkeypatch):
    ticks = itertools.count()

    def wall(call):
        call()
        return 1.0

    clock = SimpleNamespace(
        wall=wall, now=lambda: next(ticks), warm_up=lambda calls: next(calls)(),
        cuda=SimpleNamespace(synchronize=lambda: None),
    )  # fmt: skip
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    monkeypatch.setattr(allocation, "SIZES", (4 * 37, 4 * 1000))
    made = Bench("allocation", ROOFS, say=lambda _: None)
    monkeypatch.setattr(made, "time", lambda *args, **given: timing_of([1.0], launch=0.5))
    monkeypatch.setattr("course_recording.frame.poison", lambda out, cuda: None)
    return made


@pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")
def test_each_way_is_right_and_has_its_rows(bench, monkeypatch):
    stand_ins, used = libraries()
    monkeypatch.setattr(bench, "peer", stand_ins.get)
    Pool.emptied = 0
    allocation.run(bench)
    assert not bench.failures
    rows = {}
    for figure in bench.rows:
        rows.setdefault((figure.variant, figure.shape), {})[figure.metric] = figure.median
    assert len(rows) == 2 * 7
    for (name, _), metrics in rows.items():
        assert {"time", "error", "hidden", "launch", "call", "in a row"} <= set(metrics)
        assert metrics["error"] == 0
        assert ("first" in metrics) == name.endswith("pool")
    assert rows["CuPy, pool", "148"]["in a row"] == pytest.approx(1 / 16)
    assert Pool.emptied == 2 * 2 * 5
    assert [allocator is None for allocator in used] == [True, False, True, False]


@pytest.mark.skipif(backend.gpu() is not None, reason="on a GPU the bench itself runs")
def test_a_way_that_fails_is_named_and_the_others_are_measured(bench, monkeypatch):
    stand_ins, _ = libraries()
    stand_ins["torch"].mul = lambda x, two, out=None: np.full_like(x, 3)
    monkeypatch.setattr(bench, "peer", stand_ins.get)
    allocation.run(bench)
    assert bench.failures[0].startswith("memory PyTorch, pool 148: ")
    assert {figure.variant for figure in bench.rows} >= {"Numba, each call", "CuPy, one buffer"}
