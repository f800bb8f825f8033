"""What streams can overlap, and what they cannot: a model of queues and engines, and three laws.

A GPU copies in, computes and copies out with engines of their own, which can be busy at the same
time. Streams say what must wait for what. From how long each step takes, and from the order in
which the host queues the steps, follows when each of them runs. Nothing here needs a GPU, and
nothing is measured: the times come from the caller, or from bytes and recorded bandwidths.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from course.measure.timeline import Span

#: Steps of an image, in their order.
STEPS = ("copy in", "kernel", "copy out")
#: Which engine does a step. Data-centre GPUs have a copy engine for each direction.
ENGINES = {"copy in": "copy in", "kernel": "compute", "copy out": "copy out"}
#: Many small GPUs have one for both.
ONE_COPY_ENGINE = {"copy in": "copy", "kernel": "compute", "copy out": "copy"}
#: The stream of calls that name none: it waits for all that was queued before, and all that is
#: queued later waits for it (CUDA programming guide, "Default Stream": the legacy one).
DEFAULT_STREAM = -1
FLOAT32 = 4  # bytes

Command = tuple[str, int, int]  # a step of STEPS, which image, in which stream


@dataclass(frozen=True)
class Stage:
    """How long the three steps of one image take [ms]."""

    copy_in: float
    kernel: float
    copy_out: float

    def __post_init__(self) -> None:
        for name in ("copy_in", "kernel", "copy_out"):
            value = getattr(self, name)
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"Stage: {name} is {value}; give a time in ms, 0 or more")
        if self.total == 0:
            raise ValueError("Stage: all three times are 0; at least one step must take time")

    @property
    def total(self) -> float:
        """One after the other [ms]."""
        return self.copy_in + self.kernel + self.copy_out

    def of(self, step: str) -> float:
        """Time of a step of `STEPS` [ms]."""
        return getattr(self, step.replace(" ", "_"))

    def engine_times(self, engines: Mapping[str, str] = ENGINES) -> dict[str, float]:
        """For each engine how long it is busy with an image [ms]."""
        times = dict.fromkeys(engines.values(), 0.0)
        for step in STEPS:
            times[engines[step]] += self.of(step)
        return times

    def busiest(self, engines: Mapping[str, str] = ENGINES) -> float:
        """Time of the engine that needs most for an image [ms]."""
        return max(self.engine_times(engines).values())


@dataclass(frozen=True)
class Link:
    """How fast data moves between host and device [GB/s, 10⁹ bytes a second], each way."""

    into: float
    out: float

    def __post_init__(self) -> None:
        if not (self.into > 0 and self.out > 0):
            raise ValueError(f"Link: {self.into} and {self.out} GB/s; both must be above 0")


def recorded_link(memory: str = "pinned", gpu: str = "H200") -> Link:
    """The recorded rates of large copies from and to host memory of a kind.

    Parameters
    ----------
    memory : "pinned" or "pageable"
    gpu : str
        Part of a GPU's name.

    Raises
    ------
    LookupError
        When nobody recorded that.
    """
    from course.measure.recorded import recorded

    rates = []
    for direction in ("in", "out"):
        figures = recorded("transfers", variant=f"{memory} {direction}", gpu=gpu)
        if not figures:
            raise LookupError(
                f"no recorded copies {direction} of {memory} memory on {gpu}; memory is 'pinned' "
                "or 'pageable', and `python -m course bench transfers` records your GPU"
            )
        rates.append(max(figures, key=lambda figure: figure.bytes).gigabytes_per_second)
    return Link(*rates)


def stage_of(
    rows: int, columns: int, k: int, link: Link, *, kernel: float, whole: bool = False
) -> Stage:
    """The three times of a reconstruction, from its bytes and the rates of a link.

    Parameters
    ----------
    rows, columns, k : int
        Size of the image, and how many singular values are used. Numbers are float32.
    link : Link
        See `recorded_link`.
    kernel : float
        Time of the kernel [ms]: measured, or a bound.
    whole : bool
        Copy all of u (rows × r), s (r) and vt (r × columns), r the smaller of rows and columns,
        instead of the k columns, values and rows that are needed.
    """
    least = min(rows, columns)
    if not 1 <= k <= least:
        raise ValueError(f"stage_of: k is {k}; it must be from 1 to {least}")
    used = least if whole else k
    into = FLOAT32 * (rows * used + used + used * columns)
    out = FLOAT32 * rows * columns
    return Stage(into / link.into * 1e-6, kernel, out / link.out * 1e-6)


# ---------------------------------------------------------------------- orders of issue
def in_turns(images: int, streams: int) -> list[Command]:
    """Queue image after image, each with its three steps in one stream, streams in turns."""
    _at_least_1(images=images, streams=streams)
    return [(step, image, image % streams) for image in range(images) for step in STEPS]


def back_at_the_end(images: int, streams: int) -> list[Command]:
    """Queue copies in and kernels in turns; at the end all copies back, in the default stream.

    So the student project did it, and it is how a loop that collects device arrays, followed by
    ``[array.copy_to_host() for array in results]``, queues its work.
    """
    there = [command for command in in_turns(images, streams) if command[0] != "copy out"]
    return there + [("copy out", image, DEFAULT_STREAM) for image in range(images)]


def _at_least_1(**given: int) -> None:
    for name, value in given.items():
        if value < 1:
            raise ValueError(f"{name} is {value}; give 1 or more")


# ---------------------------------------------------------------------- what runs when
class _Queues:
    """The streams' queues and the engines that work them off."""

    def __init__(self, stage: Stage, engines: Mapping[str, str]):
        self.stage, self.engines = stage, engines
        self.waiting: list[tuple[int, float, Command]] = []  # order of issue, when, what
        self.free = dict.fromkeys(engines.values(), 0.0)
        self.ends: dict[int, float] = {}  # by stream: end of what it began last
        self.spans: dict[int, Span] = {}

    def begin_next(self) -> tuple[int, float]:
        """Let the piece of work that can begin first begin; give its number and its end."""
        heads: dict[int, tuple[int, float, Command]] = {}
        for entry in self.waiting:
            stream = entry[2][2]
            if stream == DEFAULT_STREAM and heads:
                break  # it waits for what was queued before
            if stream not in heads:
                heads[stream] = entry
            if stream == DEFAULT_STREAM:
                break  # what comes later waits for it
        entry = min(heads.values(), key=lambda entry: (*self._start(entry), entry[0]))
        number, (step, image, stream) = entry[0], entry[2]
        start, _ = self._start(entry)
        end = start + self.stage.of(step)
        engine = self.engines[step]
        self.waiting.remove(entry)
        self.free[engine], self.ends[stream] = end, end
        self.spans[number] = Span(step, engine, start, end, image, max(stream, 0))
        return number, end

    def _start(self, entry: tuple[int, float, Command]) -> tuple[float, float]:
        """When a piece of work can begin, and since when it waits for nothing but its engine."""
        _, issued, (step, _, stream) = entry
        if stream == DEFAULT_STREAM:
            before = max(self.ends.values(), default=0.0)
        else:
            before = max(self.ends.get(stream, 0.0), self.ends.get(DEFAULT_STREAM, 0.0))
        ready = max(issued, before)
        return max(ready, self.free[self.engines[step]]), ready


def play(
    commands: Iterable[Command],
    stage: Stage,
    engines: Mapping[str, str] = ENGINES,
    *,
    pageable: bool = False,
    issue: float = 0.0,
) -> tuple[Span, ...]:
    """When each piece of work runs, if the host queues it in this order.

    A stream does its work in the order in which it was queued; an engine does one piece at a time,
    of all that could begin the one that was ready first. The model knows nothing of memory
    bandwidth that two engines share, and of kernels that fill only a part of the GPU.

    Parameters
    ----------
    commands : iterable of (step, image, stream)
        In the order in which the host queues them; step is one of `STEPS`, a stream is a number
        from 0, or `DEFAULT_STREAM`.
    stage : Stage
        Times of the steps.
    engines : mapping of a step to an engine's name
    pageable : bool
        Copies from and to ordinary memory: the host waits for each until it is over.
    issue : float
        What queueing a piece of work costs the host [ms].

    Returns
    -------
    tuple of Span
        In the order of the commands; a lane is an engine.
    """
    queues, now, count = _Queues(stage, engines), 0.0, 0
    for count, (step, image, stream) in enumerate(commands, 1):
        if step not in STEPS:
            raise ValueError(f"command {count} is {step!r}; a step is one of {', '.join(STEPS)}")
        if not isinstance(stream, int) or stream < DEFAULT_STREAM:
            raise ValueError(
                f"command {count} is in stream {stream!r}; streams are numbers from 0, or "
                "DEFAULT_STREAM"
            )
        now += issue
        queues.waiting.append((count, now, (step, image, stream)))
        if pageable and step != "kernel":
            done = -1
            while done != count:
                done, end = queues.begin_next()
            now = end
    while queues.waiting:
        queues.begin_next()
    return tuple(queues.spans[number] for number in range(1, count + 1))


def schedule(
    stage: Stage,
    images: int,
    streams: int = 1,
    engines: Mapping[str, str] = ENGINES,
    *,
    order: Callable[[int, int], list[Command]] = in_turns,
    pageable: bool = False,
    issue: float = 0.0,
) -> tuple[Span, ...]:
    """A model of so many images on so many streams; one stream is "serial".

    Parameters
    ----------
    stage, engines, pageable, issue
        As for `play`.
    images, streams : int
    order : callable
        Takes images and streams and gives the commands: `in_turns`, `back_at_the_end`, yours.
    """
    _at_least_1(images=images, streams=streams)
    return play(order(images, streams), stage, engines, pageable=pageable, issue=issue)


def length(spans: Iterable[Span]) -> float:
    """From the run's start to the end of its last piece of work [ms]."""
    return max((span.end for span in spans), default=0.0)


def busy_shares(spans: Iterable[Span]) -> dict[str, float]:
    """For each lane the share of the whole time in which it works."""
    spans = tuple(spans)
    whole = length(spans)
    shares: dict[str, float] = {}
    for span in spans:
        shares[span.lane] = shares.get(span.lane, 0.0) + span.milliseconds / whole
    return shares


def least_length(stage: Stage, images: int, engines: Mapping[str, str] = ENGINES) -> float:
    """No order of issue is faster: the time of the busiest engine with all images [ms]."""
    _at_least_1(images=images)
    return images * stage.busiest(engines)


# ---------------------------------------------------------------------- laws
def _share_and_workers(serial: float, workers: float) -> None:
    if not 0 <= serial <= 1:
        raise ValueError(f"the serial fraction is {serial}; it must be from 0 to 1")
    if not workers >= 1:
        raise ValueError(f"workers is {workers}; give 1 or more")


def amdahl(serial: float, workers: float) -> float:
    """How many times faster the same work gets, where a fraction of its time stays as it is.

    Source: G. Amdahl, "Validity of the single processor approach to achieving large scale computing
    capabilities", AFIPS (1967).
    """
    _share_and_workers(serial, workers)
    return 1 / (serial + (1 - serial) / workers)


def gustafson(serial: float, workers: float) -> float:
    """How much more work gets done in the same time, where a fraction of that time is serial.

    Source: J. Gustafson, "Reevaluating Amdahl's law", Communications of the ACM 31 (1988).
    """
    _share_and_workers(serial, workers)
    return workers - serial * (workers - 1)


def serial_fraction(speedup: float, workers: float) -> float:
    """The fraction that would explain a measured speed-up by Amdahl's law; above 1 for a slow-down.

    Source: A. Karp and H. Flatt, "Measuring parallel processor performance", Communications of the
    ACM 33 (1990).

    Raises
    ------
    ValueError
        When `speedup` is not above 0, or there is no second worker.
    """
    if not speedup > 0 or not workers > 1:
        raise ValueError(
            f"speed-up {speedup} with {workers} workers: the speed-up must be above 0, and there "
            "must be more than one worker"
        )
    return (1 / speedup - 1 / workers) / (1 - 1 / workers)
