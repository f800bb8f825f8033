"""Loops in which nothing changes any more: threads that wait for what cannot come.

Threads run in step. A pass that leaves every variable, every active lane and all memory as they
were is followed by another such pass, for ever: a lock or a flag whose owner waits for its waiters.
Variables that steer nothing in the loop, such as a count of its passes, may go on changing.
"""

import zlib
from types import FrameType
from typing import Any

import numpy as np

from warpsim.code.statements import PROGRAM
from warpsim.core.masks import Frame, Loop, Mask
from warpsim.core.memory import Array, arrays


def _is_program(frame: FrameType) -> bool:
    return frame.f_globals["__name__"] == PROGRAM


def variables(state: Any, frame: FrameType | None, idle: tuple[str, ...]) -> int | None:
    """A number that changes when a variable or the active lanes do; None outside lane programs."""
    if frame is None or not _is_program(frame):
        return None
    number = _of(state.mask, 0)
    while frame is not None:
        if _is_program(frame):
            for name, value in frame.f_locals.items():
                passing = bool(idle) and name.startswith("_value")  # made anew in each pass
                if not passing and name.removeprefix("_m_") not in idle:
                    number = _of(value, number)
            idle = ()
        frame = frame.f_back
    return number


def memory(state: Any, frame: FrameType | None) -> int:
    """A number that changes when memory does which the threads can reach."""
    found = [*arrays((*state.launch.captured.values(),))]
    while frame is not None:
        if _is_program(frame):
            found += arrays((*frame.f_locals.values(),))
        frame = frame.f_back
    number = 0
    for array in {id(one.root.flat): one.root for one in found}.values():
        number = _bytes(array.flat, number)
    return number


def _bytes(values: np.ndarray, number: int) -> int:
    if not values.flags.c_contiguous:
        values = np.ascontiguousarray(values)
    return zlib.crc32(values.reshape(-1).view(np.uint8), number) if values.size else number


def _of(value: Any, number: int) -> int:
    if isinstance(value, Mask):
        value = value.active
    elif isinstance(value, Array):
        value = value.offset, value.shape, id(value.root)
    elif isinstance(value, Loop | Frame):
        value = getattr(value, "broken", None), value.returned
    if isinstance(value, np.ndarray):
        return _bytes(value, number)
    if isinstance(value, tuple):
        for part in value:
            number = _of(part, number)
        return number
    return zlib.crc32(repr(value).encode(), number)
