"""A pipeline of arithmetic: stages that take the time you give them, and queues between them.

Real threads do something else on every machine and in every run. Here every stage takes a known
time, so that who waits for whom, and how much waits where, is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Stage:
    """A stage: what an image takes [ms], and how many workers there are."""

    name: str
    milliseconds: float
    workers: int = 1


@dataclass(frozen=True)
class Work:
    """One image in one stage: taken at `start`, done at `end`, handed on at `left` [ms]."""

    stage: str
    worker: int
    image: int
    start: float
    end: float
    left: float


@dataclass(frozen=True)
class Run:
    """What a pipeline did.

    Attributes
    ----------
    stages : tuple of Stage
    images : int
    work : tuple of Work
        Image by image, in each image stage by stage.
    """

    stages: tuple[Stage, ...]
    images: int
    work: tuple[Work, ...]

    @property
    def milliseconds(self) -> float:
        """From the first image's start to the last one's end."""
        return max(work.left for work in self.work)

    @property
    def images_per_second(self) -> float:
        """Of the whole run, filling and emptying included."""
        return 1000 * self.images / self.milliseconds

    def busy(self, stage: str) -> float:
        """Share of the time in which the stage's workers work."""
        its = next(one for one in self.stages if one.name == stage)
        total = sum(work.end - work.start for work in self.work if work.stage == stage)
        return total / (its.workers * self.milliseconds)

    def most_waiting(self, stage: str) -> int:
        """The most images that lie in the queue in front of a stage at a time."""
        names = [one.name for one in self.stages]
        place = names.index(stage)
        if place == 0:
            raise ValueError(f"there is no queue in front of {stage!r}: it is the first stage")
        put = [work.left for work in self.work if work.stage == names[place - 1]]
        taken = [work.start for work in self.work if work.stage == stage]
        changes = sorted([*((t, 1) for t in put), *((t, -1) for t in taken)])
        waiting = most = 0
        for _, change in changes:  # at one moment, what leaves counts before what comes
            waiting += change
            most = max(most, waiting)
        return most


def play_pipeline(
    stages: Sequence[Stage], images: int, room: int | None = None, serial: bool = False
) -> Run:
    """Send images through stages.

    Parameters
    ----------
    stages : sequence of Stage
    images : int
    room : int, optional
        Places in each queue; a worker that finds it full waits with its image in hand. Without it
        queues have no end.
    serial : bool
        One worker does all stages of an image, then comes the next.

    Raises
    ------
    ValueError
        For no stage, no image, a time or a number of workers that is not above 0.
    """
    if not stages or images < 1 or (room is not None and room < 1):
        raise ValueError("give at least one stage, one image, and room for one or None")
    if any(stage.milliseconds <= 0 or stage.workers < 1 for stage in stages):
        raise ValueError("each stage takes more than 0 ms and has at least 1 worker")
    free = [[0.0] * stage.workers for stage in stages]
    starts: list[list[float]] = [[] for _ in stages]
    found = []
    last = 0.0
    for image in range(images):
        here = last if serial else 0.0
        for place, stage in enumerate(stages):
            worker = min(range(stage.workers), key=free[place].__getitem__)
            start = here if serial else max(here, free[place][worker])
            end = left = start + stage.milliseconds
            if not serial and room is not None and place + 1 < len(stages) and image >= room:
                left = max(end, starts[place + 1][image - room])
            free[place][worker] = left
            starts[place].append(start)
            found.append(Work(stage.name, worker, image, start, end, left))
            here = left
        last = here
    return Run(tuple(stages), images, tuple(found))
