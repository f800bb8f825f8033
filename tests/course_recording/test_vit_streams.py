"""Images that are fed in parts: in which order, on which streams, and what is kept of it."""

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest

from course.measure import event_clock, timeline
from course_models.vit import TOY
from course_recording import vit_streams
from course_recording.frame import Bench
from tests.course_recording.fake_gpu import ROOFS


class Tensor:
    """What of PyTorch's tensors is used here, of a NumPy array."""

    def __init__(self, array):
        self.array = array

    def __getitem__(self, part):
        return Tensor(self.array[part])

    def __sub__(self, other):
        return Tensor(self.array - other.array)

    def copy_(self, other, non_blocking=False):
        self.array[...] = other.array

    def normal_(self, generator=None):
        self.array[...] = np.random.default_rng(0).standard_normal(self.array.shape)

    def fill_(self, value):
        self.array[...] = value

    def norm(self):
        return np.linalg.norm(self.array)

    def same(self):
        return self

    pin_memory = cuda = double = cpu = same


class Torch:
    """Streams and events that note what is done, in an order."""

    half = np.float16

    def __init__(self):
        self.log, self.time, self.current = [], 0.0, "default"
        self.cuda = SimpleNamespace(
            Stream=self.stream, stream=self.on, Event=lambda enable_timing: self.event(),
            current_stream=lambda: self.stream(self.current),
        )  # fmt: skip

    def empty(self, shape, dtype, device=""):
        return Tensor(np.zeros(shape))

    def Generator(self):
        return SimpleNamespace(manual_seed=lambda seed: None)

    def stream(self, name=None):
        name = name or f"stream {sum('made' in line for line in self.log)}"
        if name.startswith("stream"):
            self.log.append(f"made {name}")
        return SimpleNamespace(name=name, synchronize=lambda: self.log.append("wait"))

    @contextlib.contextmanager
    def on(self, stream):
        before, self.current = self.current, stream.name
        yield
        self.current = before

    def event(self):
        its = SimpleNamespace(at=0.0)

        def record():
            self.time += 1.0
            its.at = self.time

        its.record, its.elapsed_time = record, lambda other: other.at - its.at
        return its


class Model:
    """Scores that are sums; it notes the stream it is called on."""

    shape = TOY

    def __init__(self, torch, wrong=0.0):
        self.torch, self.wrong = torch, wrong

    def __call__(self, images, out=None):
        sums = np.repeat(images.array.sum((1, 2, 3))[:, None], TOY.classes, 1)
        if out is None:
            return Tensor(sums)
        self.torch.log.append(f"forward on {self.torch.current}")
        out.array[...] = sums + self.wrong


@pytest.fixture
def bench(monkeypatch, tmp_path):
    def wall(call):
        call()
        return 2.0

    monkeypatch.setattr(event_clock, "clock", lambda: SimpleNamespace(wall=wall))
    monkeypatch.setattr(vit_streams, "gpu", lambda: "NVIDIA H200")
    facts = {"gpu": "NVIDIA H200", "course": "0", "date": "2026-01-01"}
    monkeypatch.setattr(vit_streams, "header", lambda *_: dict(facts))
    return Bench("vit", ROOFS, say=lambda _: None, folder=tmp_path)


def test_parts_are_spread_over_streams_and_the_host_waits_once_for_each():
    torch = Torch()
    vit_streams.Fed(torch, Model(torch), 24).go(2)
    done = [line for line in torch.log if "made" not in line]
    assert done == [*[f"forward on stream {n}" for n in (0, 1, 0)], "wait", "wait"]


def test_without_streams_the_host_waits_after_each_step():
    torch = Torch()
    vit_streams.Fed(torch, Model(torch), 16).go(0)
    assert torch.log.count("wait") == 2 * 4 + 1


def test_all_ways_are_timed_and_two_are_drawn(bench, tmp_path):
    torch = Torch()
    vit_streams.on_streams(bench, torch, Model(torch), 32, (1, 2))
    assert not bench.failures
    assert [row.variant for row in bench.rows] == ["synchronous", "1 stream", "2 streams"]
    spans = timeline.read(tmp_path / "h200-timeline-vit-3-streams.csv")
    assert [span.name for span in spans[:3]] == ["copy in", "kernel", "copy out"]
    assert {span.stream for span in spans} == {0, 1, 2} and len(spans) == 12
    said = timeline.header(tmp_path / "h200-timeline-vit-3-streams.csv")
    assert said["way"].startswith("3 streams: ") and said["shape"] == "32 images, 8 at a time"
    assert (tmp_path / "h200-vit-gantt.png").stat().st_size > 1000


def test_wrong_scores_are_no_row(bench):
    torch = Torch()
    vit_streams.on_streams(bench, torch, Model(torch, wrong=1e3), 16, (1,))
    assert not bench.rows and len(bench.failures) == 2
