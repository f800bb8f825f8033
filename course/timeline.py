"""What a GPU's engines and streams did when: spans of time, measured with events or modelled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """One piece of work on a timeline.

    Attributes
    ----------
    name : str
        What was done, such as "copy in", "kernel", "copy out".
    lane : str
        The row that it is drawn in: an engine ("copy in", "compute", "copy out"), or a stream.
    start, end : float
        From the start of the run [ms].
    image : int
        Which image it belongs to, from 0; -1 for all of them.
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
