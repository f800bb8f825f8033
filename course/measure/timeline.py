"""What a GPU's engines and streams did when: spans of time, measured with events or modelled.

``data/measurements/<gpu>-timeline-<name>.csv`` holds a recorded timeline: a header of
``# key=value`` lines as in `course.measure.recorded`, then a row for each span.
``python -m course bench streams`` records them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from course.files import data_path, table_parts, table_text, write_whole


@dataclass(frozen=True)
class Span:
    """A span of work on a timeline.

    Attributes
    ----------
    name : str
        What was done, such as "copy in", "kernel", "copy out".
    lane : str
        The row that it is drawn in: an engine ("copy in", "compute", "copy out"), or a stream.
    start, end : float
        From the start of the run [ms].
    image : int
        Which image it belongs to, from 0; of several the first; -1 for all of them.
    stream : int
        Which stream it was queued in, from 0.
    """

    name: str
    lane: str
    start: float
    end: float
    image: int = -1
    stream: int = 0

    @property
    def milliseconds(self) -> float:
        """Its length."""
        return self.end - self.start


COLUMNS = tuple(field.name for field in fields(Span))


class BadTimeline(ValueError):
    """A file that is no timeline; the message names the file, the line and what is wrong."""


# ---------------------------------------------------------------------- looking at spans
def busy(spans: Iterable[Span], lane: str) -> float:
    """Milliseconds in which a lane had something to do; what overlaps counts once."""
    total, until = 0.0, -math.inf
    for start, end in sorted((span.start, span.end) for span in spans if span.lane == lane):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total


def together(spans: Iterable[Span], lane: str, other: str) -> float:
    """Milliseconds in which two lanes were busy at the same time."""
    spans = list(spans)
    either = [Span("", "", span.start, span.end) for span in spans if span.lane in (lane, other)]
    return busy(spans, lane) + busy(spans, other) - busy(either, "")


def one_at_a_time(spans: Iterable[Span], lanes: Iterable[str]) -> tuple[Span, ...]:
    """Let each span of some lanes begin no earlier than the one before it has ended.

    An event in front of a copy passes when its stream has come that far, though the copy engine may
    still be at another stream's copy. The engine does one copy at a time, in the order in which
    they end, so what lies before the end of the copy before was waiting.
    """
    lanes, found, last = set(lanes), [], {}
    for span in sorted(spans, key=lambda span: span.end):
        start = span.start
        if span.lane in lanes:
            start = min(max(start, last.get(span.lane, start)), span.end)
            last[span.lane] = span.end
        found.append(Span(span.name, span.lane, start, span.end, span.image, span.stream))
    return tuple(sorted(found, key=lambda span: (span.start, span.end)))


# ---------------------------------------------------------------------- files
def write(path: str | Path, spans: Iterable[Span], header: Mapping[str, str]) -> Path:
    """Write a timeline; what cannot be read back is not written.

    Raises
    ------
    BadTimeline
        When a line of the header is not one line, or a span ends before it starts.
    OSError
        When the file cannot be written.
    """
    target = Path(path)
    rows = ([f"{v:.4f}" if isinstance(v, float) else v for v in astuple(span)] for span in spans)
    text = table_text(target.name, header, COLUMNS, rows, BadTimeline)
    _parsed(text, target.name)
    write_whole(target, text)
    return target


def read(path: str | Path) -> tuple[Span, ...]:
    """The spans of a file.

    Raises
    ------
    BadTimeline
        When it is no timeline.
    OSError
        When it cannot be read.
    """
    return _parsed(Path(path).read_text(encoding="utf-8"), Path(path).name)[1]


def header(path: str | Path) -> dict[str, str]:
    """What the file says of itself: which GPU, when, what was done."""
    return _parsed(Path(path).read_text(encoding="utf-8"), Path(path).name)[0]


def _parsed(text: str, name: str) -> tuple[dict[str, str], tuple[Span, ...]]:
    about, first, rows = table_parts(name, text, (), COLUMNS, BadTimeline)
    spans = []
    for place, row in enumerate(rows, first):
        try:
            what, lane, start, end, image, stream = row
            span = Span(what, lane, float(start), float(end), int(image), int(stream))
        except ValueError as problem:
            raise BadTimeline(f"{name}, line {place}: {problem}") from None
        if not (math.isfinite(span.start) and span.start <= span.end < math.inf):
            raise BadTimeline(
                f"{name}, line {place}: it lasts from {span.start} to {span.end} ms; a span ends "
                "after it starts"
            )
        spans.append(span)
    return about, tuple(spans)


# ---------------------------------------------------------------------- recorded timelines
def slug(name: str) -> str:
    """A name as it stands in a file's name: "original's streams" -> "originals-streams"."""
    plain = name.lower().replace("'", "")
    return "-".join("".join(c if c.isalnum() else " " for c in plain).split())


def names(gpu: str = "h200", folder: Path | None = None) -> tuple[str, ...]:
    """Which timelines are recorded."""
    folder = data_path("measurements") if folder is None else folder
    start = f"{slug(gpu)}-timeline-"
    return tuple(path.stem.removeprefix(start) for path in sorted(folder.glob(f"{start}*.csv")))


def recorded_path(name: str, gpu: str = "h200", folder: Path | None = None) -> Path:
    """The file of a recorded timeline.

    Raises
    ------
    LookupError
        When there is none of this name; the message says which there are.
    """
    folder_ = data_path("measurements") if folder is None else folder
    path = folder_ / f"{slug(gpu)}-timeline-{slug(name)}.csv"
    if not path.is_file():
        known = ", ".join(names(gpu, folder)) or "none"
        raise LookupError(f"no timeline {name!r} is recorded on {gpu}; there are: {known}")
    return path


def recorded(name: str, gpu: str = "h200", folder: Path | None = None) -> tuple[Span, ...]:
    """The spans of a recorded timeline, such as "3 streams"; see `recorded_path`."""
    return read(recorded_path(name, gpu, folder))
