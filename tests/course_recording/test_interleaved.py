"""Programs in graphs, interleaved: what is checked, replayed, refused, kept; PyTorch is made up."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from course_recording import interleaved
from tests.course_recording.untimed import Untimed

KEY = "product", "2x3", "float16"


class Graph:
    """Replays take 1 ms a call, or what its program says."""

    clock, captured = 0.0, None

    def replay(self):
        Graph.clock += self.milliseconds


class Result(np.ndarray):
    def double(self):
        return self.astype(float).view(Result)

    def norm(self):
        return np.linalg.norm(self)


@pytest.fixture
def torch():
    @contextlib.contextmanager
    def graph(made, stream):
        Graph.captured = []
        yield
        made.calls, made.milliseconds = Graph.captured, sum(its[1] for its in Graph.captured)
        Graph.captured = None

    def event(enable_timing):
        its = SimpleNamespace(synchronize=lambda: None)
        its.record = lambda: setattr(its, "time", Graph.clock)
        its.elapsed_time = lambda end: end.time - its.time
        return its

    cuda = SimpleNamespace(
        Stream=lambda: SimpleNamespace(wait_stream=lambda other: None), CUDAGraph=Graph,
        current_stream=lambda: None, stream=lambda its: contextlib.nullcontext(),
        synchronize=lambda: None, graph=graph, Event=event,
    )  # fmt: skip
    return SimpleNamespace(cuda=cuda)


def program(milliseconds, value):
    def call(i):
        if Graph.captured is not None:
            Graph.captured.append((i, milliseconds))
        return np.full(3, value).view(Result)

    return call


def test_right_programs_are_replayed_interleaved_and_held_to_the_peer(torch):
    bench = Untimed()
    programs = {"peer": program(3.0, 2.0), "ours": program(2.0, 2.0), "wrong": program(1.0, 2.5)}
    programs |= {"absent": lambda i: {}[i]}
    expected = np.full(3, 2.0).view(Result)

    def right(name, call):
        return interleaved.relative(call(0), expected, 1e-3)

    times = interleaved.timed(bench, torch, KEY, programs, right, 5, 2, 8, 100, may_fail=["absent"])
    for name in ("peer", "nobody"):
        interleaved.keep_ratio(bench, KEY, times, name)
    rows = [(row.variant, row.metric, row.median, row.n) for row in bench.rows]
    assert rows == [
        ("peer", "error", 0.0, 1), ("ours", "error", 0.0, 1),
        ("peer", interleaved.METRIC, 3.0, interleaved.ROUNDS),
        ("ours", interleaved.METRIC, 2.0, interleaved.ROUNDS),
        ("peer / ours", "ratio", 1.5, interleaved.ROUNDS),
    ]  # fmt: skip
    assert bench.failures == [
        "wrong product 2x3: WrongResult: the relative Frobenius error is 0.25; 0.001 is allowed"
    ]
    assert bench.notes == ["absent 2x3: KeyError: 0"]
    calls = interleaved.captured(torch, programs["ours"], 5, 2).calls
    assert [i for i, _ in calls] == [0, 1, 0, 1, 0]


def test_a_time_above_the_roof_is_refused(torch):
    bench = Untimed()
    with pytest.raises(ValueError, match="ours: .* above the 10 of that pipe"):
        slow = {"ours": program(1e-3, 1)}
        interleaved.timed(bench, torch, KEY, slow, lambda *_: 0.0, 1, 1, 8, 1e9)
