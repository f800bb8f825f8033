"""A vision transformer fed from the host, part by part: waiting after each step, or on streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from course.backend import gpu
from course.files import write_whole
from course.measure import event_clock, timeline
from course.measure.recorded import file_name, header
from course.measure.timeline import Span
from course_lessons.lesson08.plots import gantts

CALLS = 7
LIMIT = 5e-3
PART = 8  # images that are copied and computed together
STEPS = (("copy in", "copy in"), ("kernel", "compute"), ("copy out", "copy out"))  # name, lane
#: Programs that are drawn beside each other as a Gantt chart: streams, and the timeline's text.
SHOWN = {
    "synchronous": (0, "a vision transformer's images, part after part; waiting at each step"),
    "3 streams": (3, "a vision transformer's images, part after part in three streams"),
}


def clocked(bench: Any, kernel: str, variant: str, name: str, call: Callable[[], Any]) -> float:
    """Keep what a call takes by the host's clock until its work is done; return the median."""
    wall = event_clock.clock().wall
    its = [wall(call) for _ in range(CALLS)]
    return bench.spread(kernel, variant, name, "float16", "time", "ms", its)


class Fed:
    """Images and scores in pinned memory, and arrays on the GPU for both."""

    def __init__(self, torch: Any, vit: Any, images: int):
        self.torch, self.vit, shape = torch, vit, vit.shape
        sizes = (images, shape.channels, shape.image, shape.image), (images, shape.classes)
        self.images, self.scores = (torch.empty(n, dtype=torch.half).pin_memory() for n in sizes)
        self.images.normal_(generator=torch.Generator().manual_seed(0))
        self.there, self.out = (torch.empty(n, device="cuda", dtype=torch.half) for n in sizes)
        self.parts = [slice(n, n + PART) for n in range(0, images, PART)]

    def go(self, count: int, events: list[list[Any]] | None = None) -> None:
        """Run all parts on so many streams, then wait; with 0 streams, wait after each step."""
        cuda = self.torch.cuda
        streams = [cuda.Stream() for _ in range(count)] or [cuda.current_stream()]
        for number, part in enumerate(self.parts):
            marks: list[Any] = []
            with cuda.stream(streams[number % len(streams)]):
                for step in (self._none, self._in, self._forward, self._back):
                    step(part)
                    if events is not None:
                        marks.append(cuda.Event(enable_timing=True))
                        marks[-1].record()
                    if not count:
                        cuda.current_stream().synchronize()
            if events is not None:
                events.append(marks)
        for stream in streams:
            stream.synchronize()

    def _none(self, part: slice) -> None:
        """Do nothing, so that the first event is recorded before the copy."""

    def _in(self, part: slice) -> None:
        self.there[part].copy_(self.images[part], non_blocking=True)

    def _forward(self, part: slice) -> None:
        self.vit(self.there[part], out=self.out[part])

    def _back(self, part: slice) -> None:
        self.scores[part].copy_(self.out[part], non_blocking=True)

    def spans(self, count: int) -> tuple[Span, ...]:
        """What was done when, by events on the streams."""
        events: list[list[Any]] = []
        start = self.torch.cuda.Event(enable_timing=True)
        start.record()
        self.go(count, events)
        found = []
        for number, marks in enumerate(events):
            times = [start.elapsed_time(mark) for mark in marks]
            for (name, lane), begin, end in zip(STEPS, times, times[1:], strict=False):
                stream = number % max(count, 1)
                found.append(Span(name, lane, begin, max(begin, end), number, stream))
        return tuple(found)


def on_streams(bench: Any, torch: Any, vit: Any, images: int, counts: Sequence[int]) -> None:
    """Time each number of streams; draw two of them beside each other as a Gantt chart."""
    fed, name = Fed(torch, vit, images), f"{images} images"
    exact = vit(fed.images.cuda()).double().cpu()
    for count in (0, *counts):
        variant = f"{count} stream{'s' * (count > 1)}" if count else "synchronous"
        fed.scores.fill_(float("nan"))
        fed.go(count)
        error = float((fed.scores.double() - exact).norm() / exact.norm())
        if not error <= LIMIT:
            bench.failures.append(f"{variant}: the scores are {error:.3g} from those at once")
            continue
        median = clocked(bench, "streams", variant, name, lambda count=count: fed.go(count))
        bench.say(f"  {name} by {PART}, {variant}: {median:.3f} ms")
    drawn, facts = {}, header(gpu(), bench.roofs, "python -m course bench vit")
    for way, (count, words) in SHOWN.items():
        runs = [fed.spans(count) for _ in range(CALLS)]
        spans = min(runs, key=lambda its: max(span.end for span in its))
        facts |= {"way": f"{way}: {words}", "shape": f"{images} images, {PART} at a time"}
        if bench.folder is not None:
            path = bench.folder / file_name(gpu(), f"timeline-vit-{timeline.slug(way)}")
            timeline.write(path, spans, facts)
        drawn[f"{way}: {images} images, {PART} at a time, {gpu()}"] = spans
    if bench.folder is not None:
        chart = bench.folder / file_name(gpu(), "vit-gantt").replace(".csv", ".png")
        write_whole(chart, gantts(drawn, rows="stream").png(dpi=150))
