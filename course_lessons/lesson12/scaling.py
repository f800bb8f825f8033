"""What a run on several workers spent its time with, and what the laws of scaling make of it.

A run is cut in three on the clock that all processes of a machine share: before the first worker
begins a batch nobody works yet, after the last one ends nobody works any more. Those two parts are
serial by definition: no further worker makes them shorter. Between them workers work, or wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from course.measure.recorded import Figure
from course_app.cluster.group import AHEAD, Group
from course_app.cluster.work import Done
from course_lessons.lesson08.overlap import amdahl, gustafson, serial_fraction


@dataclass(frozen=True)
class Parts:
    """Where the time of a run went [ms].

    Attributes
    ----------
    total : float
        On the host's clock, from the first batch's submission to the last result.
    start : float
        Until the first worker begins its first batch.
    gathering : float
        From the end of the last batch until all results are here.
    working : float
        In batches: the mean of the workers.
    workers : int
    """

    total: float
    start: float
    gathering: float
    working: float
    workers: int

    @property
    def serial(self) -> float:
        """In which nobody works [ms]."""
        return self.start + self.gathering

    @property
    def waiting(self) -> float:
        """Between the first batch's start and the last one's end, without a batch: the mean."""
        return self.total - self.serial - self.working

    @property
    def serial_share(self) -> float:
        """The serial part of the run's time."""
        return self.serial / self.total


def parts(begin: float, end: float, done: Sequence[Done], workers: int) -> Parts:
    """Cut a run in parts.

    Parameters
    ----------
    begin, end : float
        Of the run [s], on the clock of `done`.
    done : sequence of Done
        All its batches.
    workers : int

    Raises
    ------
    ValueError
        When there is no batch, or one lies outside of the run: two clocks.
    """
    first = min((one.start for one in done), default=None)
    last = max((one.end for one in done), default=None)
    if first is None or last is None or first < begin or last > end:
        raise ValueError(
            f"a run from {begin} to {end} s with batches from {first} to {last} s: there must be a "
            "batch, and all must lie inside; workers on another machine have another clock"
        )
    working = sum(one.end - one.start for one in done) / workers
    found = (end - begin, first - begin, end - last, working)
    return Parts(*(1e3 * seconds for seconds in found), workers=workers)


def timed_map(
    group: Group,
    work: Callable[..., Any],
    batches: Iterable[Any],
    *arguments: Any,
    ahead: int = AHEAD,
) -> tuple[list[Any], Parts]:
    """Do batches on all workers of a group: the results, and where the time went."""
    done: list[Done] = []
    workers = len(group)
    begin = time.perf_counter()
    results = list(group.map(work, batches, *arguments, ahead=ahead, done=done))
    return results, parts(begin, time.perf_counter(), done, workers)


# ---------------------------------------------------------------------- recorded figures
@dataclass(frozen=True)
class Scaling:
    """Recorded runs of one kind of batches, by number of workers.

    Attributes
    ----------
    shape : str
        Images in a batch, rows, columns, k: "2048x256x256x50".
    strong, weak : dict
        Workers -> milliseconds, of the same work, and of as much work for each worker.
    serial : float
        The serial part of the time of one worker, measured; of its weak run, too, which is the
        same work.
    gpu : str
    """

    shape: str
    strong: dict[int, float]
    weak: dict[int, float]
    serial: float
    gpu: str = ""

    def speedup(self, workers: int) -> float:
        """How many times faster so many workers do the same work."""
        return self.strong[1] / self.strong[workers]

    def scaled_speedup(self, workers: int) -> float:
        """How long one worker would take for the work of all, by how long all of them take.

        One worker that does it all has the serial part once, and the rest as many times as there
        are workers: so Gustafson defines it, and so it is here, from the parts of one worker's
        run. (`workers` runs of one worker would have as many serial parts; their time is more, and
        figures from it may lie above his law.)

        Source: J. Gustafson, "Reevaluating Amdahl's law", Communications of the ACM 31 (1988).
        """
        alone = self.weak[1] * (self.serial + workers * (1 - self.serial))
        return alone / self.weak[workers]

    def efficiency(self, workers: int) -> float:
        """The scaled speed-up, of each worker."""
        return self.scaled_speedup(workers) / workers

    def amdahl(self, workers: float) -> float:
        """The speed-up that Amdahl's law gives for the measured serial part."""
        return amdahl(self.serial, workers)

    def gustafson(self, workers: float) -> float:
        """The scaled speed-up that Gustafson's law gives for it."""
        return gustafson(self.serial, workers)

    def karp_flatt(self, workers: int) -> float:
        """The serial part that would explain the speed-up: it takes in all that does not scale."""
        return serial_fraction(self.speedup(workers), workers)


def scalings(figures: Iterable[Figure]) -> list[Scaling]:
    """The recorded runs of ``python -m course bench cluster``, a `Scaling` for each shape."""
    found: dict[str, dict[str, Any]] = {}
    for figure in figures:
        law, _, word = figure.kernel.partition(" ")
        if word != "scaling":
            continue
        its = found.setdefault(figure.shape, {"strong": {}, "weak": {}, "gpu": figure.gpu})
        if figure.metric == "time":
            its[law][workers_of(figure)] = figure.median
        elif figure.metric == "serial fraction" and law == "strong" and workers_of(figure) == 1:
            its["serial"] = figure.median
    return [
        Scaling(shape, its["strong"], its["weak"], its["serial"], its["gpu"])
        for shape, its in found.items()
        if 1 in its["strong"] and 1 in its["weak"] and "serial" in its
    ]


def workers_of(figure: Figure) -> int:
    """How many workers a row is of: its variant begins with the number."""
    return int(figure.variant.split()[0])


def variant(workers: int) -> str:
    """The variant of a row: "1 worker", "4 workers"."""
    return f"{workers} worker{'' if workers == 1 else 's'}"
