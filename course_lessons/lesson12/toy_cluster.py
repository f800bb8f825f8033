"""A cluster of arithmetic: batches that take the time you give them, workers, and one scheduler.

Real workers take other times in every run. Here who does which batch, who waits, and what is done
twice when a worker is killed, is the same everywhere.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

BACK, FREE = 0, 1  # events: a lost batch is there again, a worker has nothing to do


@dataclass(frozen=True)
class Work:
    """A batch on a worker, from `start` to `end` [ms]; `lost` when the worker was killed in it."""

    batch: int
    worker: int
    start: float
    end: float
    lost: bool = False


@dataclass(frozen=True)
class Run:
    """What a cluster did.

    Attributes
    ----------
    workers : int
    start_up : float
        Until the first batch could be handed out [ms].
    work : tuple of Work
        In the order in which batches were handed out.
    killed : tuple of (worker, ms) or None
    """

    workers: int
    start_up: float
    work: tuple[Work, ...]
    killed: tuple[int, float] | None = None

    @property
    def milliseconds(self) -> float:
        """From the beginning to the last batch's end."""
        return max(one.end for one in self.work)

    @property
    def done(self) -> dict[int, Work]:
        """Batch -> the piece of work that gave its result."""
        return {one.batch: one for one in self.work if not one.lost}

    @property
    def lost(self) -> list[int]:
        """Batches that were under way on a worker that was killed."""
        return [one.batch for one in self.work if one.lost]

    def busy(self, worker: int) -> float:
        """Share of the time in which a worker works."""
        its = sum(one.end - one.start for one in self.work if one.worker == worker)
        return its / self.milliseconds


def play_cluster(
    batches: Sequence[float],
    workers: int,
    *,
    beforehand: bool = False,
    start_up: float = 0.0,
    hand_out: float = 0.0,
    killed: tuple[int, float] | None = None,
) -> Run:
    """Let workers do batches.

    Parameters
    ----------
    batches : sequence of float
        What each takes [ms].
    workers : int
    beforehand : bool
        Each worker gets its share before the run, as many batches as the others, neighbours
        together; else a batch goes to whoever is free first, the worker with the lower number
        where two are.
    start_up : float
        Before the first batch is handed out [ms].
    hand_out : float
        What the scheduler needs for a batch [ms]; it hands out one at a time.
    killed : (worker, ms), optional
        That worker is killed then, and does not come back. Its batch is done again by another
        one. Not with `beforehand`.

    Raises
    ------
    ValueError
        For no batch, no worker, a negative time, or when nobody is left to do the work.
    """
    if not batches or workers < 1 or min(*batches, start_up, hand_out) < 0:
        raise ValueError("give at least one batch and one worker, and no time below 0")
    if killed and (beforehand or workers < 2 or not 0 <= killed[0] < workers):
        raise ValueError(
            f"worker {killed[0]} of {workers} is killed: there must be another one, and batches "
            "must not be dealt beforehand"
        )
    waiting = _dealt(len(batches), workers, beforehand)
    victim, moment = killed or (-1, float("inf"))
    events = [(start_up, FREE, worker) for worker in range(workers)]
    scheduler, idle, found = start_up, [], []
    while events:
        when, kind, who = heapq.heappop(events)
        if kind == BACK:
            waiting[0].appendleft(who)
            events += [(when, FREE, worker) for worker in idle]
            heapq.heapify(events)
            idle = []
            continue
        if who == victim and when >= moment:
            continue
        if not waiting[who]:
            idle.append(who)
            continue
        batch = waiting[who].popleft()
        scheduler = start = max(when, scheduler) + hand_out
        end = start + batches[batch]
        if who == victim and end > moment:
            found.append(Work(batch, who, min(start, moment), moment, lost=True))
            heapq.heappush(events, (moment, BACK, batch))
        else:
            found.append(Work(batch, who, start, end))
            heapq.heappush(events, (end, FREE, who))
    return Run(workers, start_up, tuple(found), killed)


def _dealt(count: int, workers: int, beforehand: bool) -> list[deque[int]]:
    """For each worker the batches that it may take; without dealing the same for all."""
    if not beforehand:
        return [deque(range(count))] * workers
    each = -(-count // workers)
    return [deque(range(w * each, min((w + 1) * each, count))) for w in range(workers)]
