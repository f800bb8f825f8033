"""A GPU of arithmetic: a host's clock, a queue, and work that takes the time you give it.

Real clocks tell something else on every machine. Here every launch takes a known time, so a way of
timing can be tried, and judged, where there is no GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

READING = 1e-7  # seconds that a reading of the clock takes
MOST_READINGS = 1_000_000
#: Every so many launches something else gets in the way, and the work takes so many times longer.
DISTURBED, DISTURBANCE = 7, 6.0
#: What a launch's work takes, of the usual, in turns; one in ten has luck, such as a warm cache.
LUCK = 0.92
JITTER = (1.0, 1.02, 0.99, 1.008, LUCK, 1.015, 1.0, 0.985, 1.003, 1.01)


@dataclass(frozen=True)
class Span:
    """Something that took place: on "host" or "GPU", what, from when to when [s]."""

    where: str
    what: str
    start: float
    end: float


class ToyGPU:
    """A host and a GPU that only know how long things take.

    Parameters
    ----------
    work : float
        What the GPU needs for a launch [ms].
    launch : float
        What the host needs for one [ms].
    compiling : float
        What the first launch costs the host on top [ms].
    queued : float
        Other work that the GPU still has to do at the start [ms].
    steady : bool
        Every launch takes exactly `work`; else it varies by a few percent, and every seventh takes
        six times as long.
    turn : int
        At which launch of the turns it begins to vary.

    Attributes
    ----------
    spans : list of Span
        What took place, in the order in which it was asked for.
    launches : int
    over : set of int
        How many had been launched when somebody read the clock and none of them was running.
    """

    def __init__(
        self,
        work: float = 2.0,
        launch: float = 0.02,
        compiling: float = 150.0,
        queued: float = 0.0,
        steady: bool = False,
        turn: int = 0,
    ):
        self.work, self.cost, self.compiling = work * 1e-3, launch * 1e-3, compiling * 1e-3
        self.steady, self.turn, self.launches, self.readings = steady, turn, 0, 0
        self._now = 0.0
        self._done = queued * 1e-3  # when the GPU has worked off its queue
        self.spans: list[Span] = []
        self.over: set[int] = set()
        if queued:
            self.spans.append(Span("GPU", "other", 0.0, self._done))

    def clock(self) -> float:
        """The host's clock [s], as `time.perf_counter`."""
        self.readings += 1
        if self.readings > MOST_READINGS:
            raise RuntimeError(
                "the clock was read a million times: the loop does not end, because only launches, "
                "waiting and reading make the clock go on"
            )
        if self._now >= self._done:
            self.over.add(self.launches)
        self._now += READING
        return self._now

    def launch(self) -> None:
        """Put work into the GPU's queue; returns at once, the first time after compiling."""
        if self.launches == 0 and self.compiling:
            self._host("compile", self.compiling)
        self._host("launch", self.cost)
        takes = self.work
        if not self.steady:
            disturbed = self.launches % DISTURBED == DISTURBED - 2
            takes *= DISTURBANCE if disturbed else JITTER[(self.launches + self.turn) % len(JITTER)]
        start = max(self._now, self._done)
        self._done = start + takes
        self.spans.append(Span("GPU", "work", start, self._done))
        self.launches += 1

    def synchronize(self) -> None:
        """Wait until the GPU has nothing more to do."""
        if self._done > self._now:
            self._host("wait", self._done - self._now)

    def event(self) -> float:
        """Ask the GPU to note the time when it comes to this place in its queue [s]."""
        self._done = max(self._now, self._done)
        return self._done

    def _host(self, what: str, seconds: float) -> None:
        self.spans.append(Span("host", what, self._now, self._now + seconds))
        self._now += seconds
