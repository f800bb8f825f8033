"""Launches become a CUDA graph from the second call on, and are made one by one without one."""

from types import SimpleNamespace

import numpy as np
import pytest

from course import backend
from course.dispatch import graphs

SIMULATED = pytest.mark.skipif(backend.gpu() is not None, reason="with a GPU graphs are real")


@pytest.fixture
def made(monkeypatch):
    """A GPU and a CuPy that seem to be there; what happens, in order."""
    assert backend.cuda is not None  # decided before it is pretended that there is a GPU
    happened = []
    graph = SimpleNamespace(
        upload=lambda stream: happened.append("upload"),
        launch=lambda stream: happened.append(f"replay on {stream}"),
    )
    origin = SimpleNamespace(
        ptr=7,
        begin_capture=lambda: happened.append("begin"),
        end_capture=lambda: happened.append("end") or graph,
        synchronize=lambda: None,
    )

    def stream(non_blocking):
        return origin

    stream.null = "the default stream"
    cupy = SimpleNamespace(cuda=SimpleNamespace(Stream=stream))
    monkeypatch.setattr(backend, "gpu", lambda: "NVIDIA Test")
    monkeypatch.setattr(backend, "array_module", lambda: (cupy, "works"))
    return happened


@SIMULATED
def test_the_first_call_launches_the_second_captures_all_others_replay(made):
    replayed, streams = graphs.ReplayedGraph(), []
    for _ in range(3):
        replayed(streams.append)
    assert streams[0] == 0 and streams[1].handle == 7 and len(streams) == 2
    again = "replay on the default stream"
    assert made == ["begin", "end", "upload", again, again]


@SIMULATED
def test_a_capture_that_fails_is_ended_told_once_and_launches_go_on(made):
    replayed, streams = graphs.ReplayedGraph(), []

    def queue(stream):
        if stream != 0:
            raise RuntimeError("not while capturing")
        streams.append(stream)

    replayed(queue)
    with pytest.warns(RuntimeWarning, match="one by one.*not while capturing"):
        replayed(queue)
    replayed(queue)
    assert streams == [0, 0, 0] and made == ["begin", "end"]


@SIMULATED
def test_without_cupy_launches_are_made_one_by_one(made, monkeypatch):
    monkeypatch.setattr(backend, "array_module", lambda: (np, "no CuPy"))
    replayed, streams = graphs.ReplayedGraph(), []
    for _ in range(3):
        replayed(streams.append)
    assert streams == [0, 0, 0] and not made and replayed.graph is None


@SIMULATED
def test_an_error_ends_the_capture_and_is_raised(made):
    origin = backend.array_module()[0].cuda.Stream(non_blocking=True)
    with pytest.raises(ZeroDivisionError):
        graphs.capture_graph(origin, lambda: 1 / 0)
    assert made == ["begin", "end"]


@SIMULATED
def test_where_cupy_is_not_at_work_nothing_is_copied():
    one, other = (np.zeros(4, np.float32) for _ in range(2))
    assert not graphs.copied(one, other)


@pytest.mark.skipif(backend.gpu() is None, reason="copies on the GPU")
def test_a_contiguous_array_is_copied_and_another_refused():
    cuda = backend.cuda
    source = cuda.to_device(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    target = cuda.to_device(np.zeros((2, 3, 4), np.float32))
    assert graphs.copied(source, target)
    assert (target.copy_to_host() == source.copy_to_host()).all()
    assert not graphs.copied(source[:, :, ::2], target[:, :, :2])
    assert not graphs.copied(source, target[:1])
