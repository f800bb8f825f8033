"""What launches cost: rows of a program for the host, between events, queued and in a graph."""

from types import SimpleNamespace

import numpy as np
import pytest

from course import backend
from course.measure import event_clock
from course_recording import launch_costs
from course_recording.frame import Bench
from tests.course_recording.fake_gpu import ROOFS, FakeGPU

KERNEL, LAUNCH, REPLAY = 5e-6, 2e-5, 6e-6  # seconds: on the GPU, on the host, of a graph


class FakeStream:
    """A stream of CuPy that can record what is launched on it."""

    def __init__(self, gpu):
        self.gpu, self.ptr, self.recorded = gpu, id(self), None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def synchronize(self):
        pass

    def begin_capture(self):
        self.recorded = []

    def end_capture(self):
        works, self.recorded = self.recorded, None

        def launch(stream):
            for work in works:
                work()
            self.gpu.launch(len(works) * KERNEL, cost=REPLAY)

        return SimpleNamespace(launch=launch)


@pytest.fixture
def frame(monkeypatch):
    """A bench on the fake GPU, and a CuPy that captures."""
    gpu = FakeGPU()
    clock = event_clock.EventClock(gpu, busy=gpu.busy, empty_l2=gpu.empty_l2, now=gpu.now)
    monkeypatch.setattr(event_clock, "clock", lambda: clock)
    streams = {}

    def stream(non_blocking):
        made = FakeStream(gpu)
        streams[made.ptr] = made
        return made

    gpu.external_stream = lambda ptr: streams[ptr]
    made = Bench("x", ROOFS, say=lambda _: None)
    made.cuda, made.gpu = gpu, gpu
    stream.null = "the default stream"
    cupy = SimpleNamespace(cuda=SimpleNamespace(Stream=stream))
    stream = cupy.cuda.Stream
    monkeypatch.setattr(made, "peer", lambda name: cupy if name == "cupy" else None)
    monkeypatch.setattr("course.backend.gpu", lambda: "NVIDIA Fake 1")
    return made


def doubling(frame, on_stream=True):
    """A program of launches: queued(stream) -> a function of (out, values)."""

    def queued(stream):
        def call(out, values):
            def work():
                np.multiply(values.values, np.float32(2), out=out.values)

            if stream and on_stream and stream.recorded is not None:
                stream.recorded.append(work)
                return
            if stream and stream.recorded is not None:
                return  # it ran on the default stream, before the replay
            work()
            frame.gpu.launch(KERNEL, cost=LAUNCH)

        return call

    return queued


def measured(frame, queued, **given):
    values = frame.random(1000)
    there, out = frame.gpu.to_device(values), frame.gpu.device_array(1000, np.float32)
    work = {"expected": 2 * values.astype(np.float64), "shape": "1000", "out": out,
            "bytes": 2 * values.nbytes}  # fmt: skip
    return launch_costs.variant(
        frame, "double", "mine", queued(0), (out, there), queued=queued, **(work | given)
    )


def rows(frame):
    return {figure.metric: figure for figure in frame.rows}


def test_host_events_queue_and_graph_are_kept_apart(frame):
    assert measured(frame, doubling(frame), small=True) is not None
    assert not frame.failures and not frame.notes
    found = rows(frame)
    assert set(launch_costs.METRICS) <= set(found)
    assert found["launch"].median == pytest.approx(LAUNCH * 1e3, rel=0.01)
    assert found["events"].median == pytest.approx((KERNEL + LAUNCH) * 1e3, rel=0.01)
    assert found["queued"].median == pytest.approx(KERNEL * 1e3, rel=0.05)
    assert found["graph"].median == pytest.approx(KERNEL * 1e3, rel=0.05)
    assert found["graph launch"].median == pytest.approx(REPLAY * 1e3, rel=0.01)
    assert found["graph of 20"].median == pytest.approx(KERNEL * 1e3, rel=0.05)
    assert found["events"].n == launch_costs.LAUNCHES


def test_large_work_has_no_such_rows(frame):
    assert measured(frame, doubling(frame)) is not None
    assert not set(launch_costs.METRICS) & set(rows(frame))


def test_a_graph_that_does_not_do_the_work_has_no_time(frame):
    measured(frame, doubling(frame, on_stream=False), small=True)
    (failure,) = frame.failures
    assert failure.startswith("double mine, graph: ") and "not finite" in failure
    assert "queued" in rows(frame) and "graph" not in rows(frame)


def test_a_program_that_cannot_be_captured_is_left_out_with_a_note(frame):
    plain = doubling(frame)

    def queued(stream):
        def call(*args):
            if stream and stream.recorded is not None:
                raise RuntimeError("not while capturing")
            return plain(stream)(*args)

        return call

    measured(frame, queued, small=True)
    assert not frame.failures
    (note,) = frame.notes
    assert note.startswith("double mine in a CUDA graph left out: ")
    assert note.endswith("not while capturing")
    assert "events" in rows(frame) and "graph" not in rows(frame)


def test_without_cupy_there_is_no_graph(frame, monkeypatch):
    monkeypatch.setattr(frame, "peer", lambda name: None)
    measured(frame, doubling(frame), small=True)
    assert "queued" in rows(frame) and "graph" not in rows(frame)


def test_a_wrong_program_has_no_rows_at_all(frame):
    assert measured(frame, doubling(frame), small=True, expected=np.ones(1000)) is None
    assert not frame.rows and len(frame.failures) == 1


def test_the_mean_stands_beside_the_median(frame):
    timing = measured(frame, doubling(frame))
    assert rows(frame)["mean"].median == pytest.approx(np.mean(timing.samples))
    assert rows(frame)["time"].q1 <= rows(frame)["time"].median <= rows(frame)["time"].q3


# --- on a GPU -------------------------------------------------------------------------------------


@pytest.mark.gpu
@pytest.mark.skipif(backend.gpu() is None, reason="needs a GPU")
def test_launches_of_numba_and_cupy_are_captured_and_replayed_on_a_gpu():
    cupy = pytest.importorskip("cupy")
    from course.kernels.activation import LADDER

    frame = Bench("x", None, say=lambda _: None)
    x = frame.random(4096)
    expected = np.maximum(x, 0).astype(np.float64)
    work = {"expected": expected, "shape": "4096", "bytes": 2 * x.nbytes, "small": True}
    pair = frame.cuda.to_device(x), frame.cuda.to_device(x)

    def queued(stream):
        (launch,) = LADDER.launches(*pair, name="relu")
        return launch.configured(stream)

    launch_costs.variant(
        frame, "relu", "numba", queued(0), pair, out=pair[1], queued=queued, **work
    )
    launch_costs.variant(
        frame, "relu", "cupy", lambda x: cupy.maximum(x, 0), (cupy.asarray(x),), **work
    )
    assert not frame.failures and not frame.notes
    assert sum(row.metric == "graph" for row in frame.rows) == 2
