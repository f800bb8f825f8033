"""A GPU of which only its streams are left: what runs when, and what nobody ordered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: ("launch", stream), ("record", event, stream) or ("wait", stream, event)
Command = Sequence


class Span(NamedTuple):
    """What a stream was busy with: from `start` to `end` [ms]."""

    stream: str
    name: str
    start: float
    end: float


@dataclass
class Work:
    """A piece of work: what it reads and writes, and the works that are surely done before it."""

    name: str
    stream: str
    reads: frozenset
    writes: frozenset
    before: set[int]
    start: float
    end: float


@dataclass
class Streams:
    """Streams that work side by side; works of one stream take turns.

    `launch` queues a work and returns at once, as a real launch does. When all is queued, `spans`
    says what ran when, and `races` names works that touch the same array, one of them to write,
    though nothing says which comes first. They may run in the right order all the same: by luck.
    """

    works: list[Work] = field(default_factory=list)
    events: dict = field(default_factory=dict)
    #: For each stream: when it is free, and which works are surely done by then.
    free: dict[str, float] = field(default_factory=dict)
    done: dict[str, set[int]] = field(default_factory=dict)

    def launch(
        self,
        stream: str,
        name: str,
        reads: Iterable[str] = (),
        writes: Iterable[str] = (),
        ms: float = 1.0,
    ) -> None:
        """Queue a work on a stream."""
        before = self.done.setdefault(stream, set())
        start = self.free.get(stream, 0.0)
        work = Work(
            name, stream, frozenset(reads), frozenset(writes), set(before), start, start + ms
        )
        self.works.append(work)
        self.free[stream] = work.end
        before.add(len(self.works) - 1)

    def record(self, event: object, stream: str) -> None:
        """Have an event happen when a stream has done what it was given so far."""
        self.events[event] = (self.free.get(stream, 0.0), set(self.done.get(stream, ())))

    def wait(self, stream: str, event: object) -> None:
        """Have a stream wait for an event; one that was never recorded is not waited for."""
        when, done = self.events.get(event, (0.0, set()))
        self.free[stream] = max(self.free.get(stream, 0.0), when)
        self.done.setdefault(stream, set()).update(done)

    @property
    def spans(self) -> list[Span]:
        """What ran when."""
        return [Span(work.stream, work.name, work.start, work.end) for work in self.works]

    @property
    def races(self) -> list[tuple[str, str, str]]:
        """(work, other work, array) for each pair that nothing orders."""
        found = []
        for later, one in enumerate(self.works):
            for earlier, other in enumerate(self.works[:later]):
                shared = (one.writes & (other.reads | other.writes)) | (one.reads & other.writes)
                if shared and earlier not in one.before:
                    found.append((other.name, one.name, min(shared)))
        return found
