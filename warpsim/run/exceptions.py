"""What a thread raises: assertions, errors of ``debug=True``, None where a number is wanted."""

from __future__ import annotations

from typing import Any

import numpy as np


class Raising:
    """Errors of running threads."""

    launch: Any
    mask: Any

    def require(self, frame, condition, error: type, arguments: tuple, place: str) -> None:
        """``assert`` and ``raise``: with ``debug=True`` an error, else the thread ends."""
        holds, fails = self.split(condition)
        if not fails:
            return
        if self.launch.debug:
            self.raised(error, arguments, place, int(fails.indices[0]))
        self.mask = fails
        self.give(frame)
        self.mask = holds

    def divisor(self, value, place: str):
        """What is divided by under ``debug=True``: not zero."""
        zero = self.mask.active & (np.asarray(value) == 0)
        if zero.any():
            lane = int(np.flatnonzero(zero)[0])
            self.raised(ZeroDivisionError, ("division by zero",), place, lane)
        return value

    def raised(self, error: type, arguments: tuple, place: str, lane: int) -> None:
        """Raise what a thread raises, with its place in Numba's words."""
        where = self.where(lane)
        text = f"{place}tid={[*where.thread]} ctaid={[*where.block]}"
        if arguments:
            text = f"{text}: {arguments[0]}"
        raise error(text, *arguments[1:])

    def some(self, value: tuple, site: int):
        """The number of what may be None, and is not."""
        none = self.mask.active & np.asarray(value[0])
        if none.any():
            text = "takes a value as a number, which is None here: ask `is None` first"
            self.found("uninitialised-read", text, site, int(np.flatnonzero(none)[0]))
        return value[1]

    def outside_tuple(self, index: int, size: int, site: int) -> None:
        if self.launch.debug:
            text = f"tuple index out of range: element {index} of {size}, {self.site(site).code}"
            self.raised(IndexError, (text,), "", int(self.mask.indices[0]))
        self.found(
            "out-of-bounds",
            f"takes element {index} of a tuple of {size}",
            site,
            int(self.mask.indices[0]),
        )
