"""What a thread raises: assertions, errors of ``debug=True``, None where a number is wanted."""

from typing import Any

import numpy as np

from warpsim.run.state import State


class Exceptions:
    """Errors of running threads."""

    def __init__(self, state: State, control: Any):
        self.state, self.control = state, control

    def require(self, frame, condition, error: type, arguments: tuple, place: str) -> None:
        """``assert`` and ``raise``: with ``debug=True`` an error, else the thread ends."""
        holds, fails = self.control.split(condition)
        if not fails:
            return
        if self.state.launch.debug:
            raised(self.state, error, arguments, place, int(fails.indices[0]))
        self.state.mask = fails
        self.control.give(frame)
        self.state.mask = holds

    def divisor(self, value, place: str):
        """What is divided by under ``debug=True``: not zero."""
        zero = self.state.mask.active & (np.asarray(value) == 0)
        if zero.any():
            lane = int(np.flatnonzero(zero)[0])
            raised(self.state, ZeroDivisionError, ("division by zero",), place, lane)
        return value

    def some(self, value: tuple, site: int):
        """The number of what may be None, and is not."""
        none = self.state.mask.active & np.asarray(value[0])
        if none.any():
            text = "takes a value as a number, which is None here: ask `is None` first"
            self.state.found("uninitialised-read", text, site, int(np.flatnonzero(none)[0]))
        return value[1]


def raised(state: State, error: type, arguments: tuple, place: str, lane: int) -> None:
    """Raise what a thread raises, with its place in Numba's words."""
    where = state.where(lane)
    text = f"{place}tid={[*where.thread]} ctaid={[*where.block]}"
    if arguments:
        text = f"{text}: {arguments[0]}"
    raise error(text, *arguments[1:])


def outside_tuple(state: State, index: int, size: int, site: int) -> None:
    """A tuple has no such element: with ``debug=True`` an error, else a finding."""
    lane = int(state.mask.indices[0])
    if state.launch.debug:
        code = state.site(site).code
        text = f"tuple index out of range: element {index} of {size}, {code}"
        raised(state, IndexError, (text,), "", lane)
    state.found("out-of-bounds", f"takes element {index} of a tuple of {size}", site, lane)
