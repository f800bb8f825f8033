"""Masks of active lanes, which form a tree; calls and loops that lanes are in."""

from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy import ndarray

from warpsim.core.operators import UNSET

#: Bound on the passes of one loop; a loop that runs longer is reported as endless, unless its
#: passes are known and nobody has asked for a lower limit.
ENDLESS = 4_000_000
STEP_LIMIT: ContextVar[int] = ContextVar("STEP_LIMIT", default=ENDLESS)
#: Passes after which a loop is looked at for the first time: does anything still change in it?
PATIENCE = 100
#: Passes after which it asks for the first time how long the launch takes; and at most later on.
FIRST_TIME, EACH_TIME = 16, 1024


def in_warps(lanes: ndarray) -> ndarray:
    """The lanes of each warp that are on: bit l of its number is lane l."""
    return np.packbits(lanes, bitorder="little").view("<u4")


class Mask:
    """A set of active lanes, so many, inside the set of its parent, if it has one."""

    __slots__ = ("_indices", "_warps", "_whole", "active", "count", "parent")

    def __init__(self, active: ndarray, count: int, parent: "Mask | None"):
        self.active, self.count, self.parent = active, count, parent
        self._warps: int | None = None
        self._indices: ndarray | None = None
        self._whole: bool | None = None

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def warps(self) -> int:
        if self._warps is None:
            self._warps = int(np.count_nonzero(in_warps(self.active)))
        return self._warps

    @property
    def indices(self) -> ndarray:
        if self._indices is None:
            self._indices = np.flatnonzero(self.active)
        return self._indices

    def within(self, other: "Mask") -> bool:
        """Whether it is another mask, or below it in the tree."""
        mask: Mask | None = self
        while mask is not None:
            if mask is other:
                return True
            mask = mask.parent
        return False

    def part(self, active: ndarray) -> "Mask":
        count = int(np.count_nonzero(active))
        if count == 0:
            return EMPTY
        return self if count == self.count else Mask(active, count, self)

    def whole_in(self, root: "Mask") -> bool:
        """Whether each warp has all lanes of the `root`, always the same one, or none of them."""
        if self._whole is None:
            here, all_ = in_warps(self.active), in_warps(root.active)
            self._whole = not ((here != 0) & (here != all_)).any()
        return self._whole


EMPTY = Mask(np.zeros(0, bool), 0, None)


class EndlessLoop(RuntimeError):
    """A loop ran past :data:`STEP_LIMIT` passes."""


@contextmanager
def limited_steps(limit: int):
    """Stop this thread's loops after so many passes, or sooner where a limit around it says so."""
    before = STEP_LIMIT.set(min(limit, STEP_LIMIT.get()))
    try:
        yield
    finally:
        STEP_LIMIT.reset(before)


class Frame:
    """The lanes of one call that have returned, and what they returned."""

    __slots__ = ("entry", "kernel", "returned", "value", "value_mask")

    def __init__(self, entry: Mask, kernel: bool):
        self.entry, self.kernel = entry, kernel
        self.returned: ndarray | None = None
        self.value, self.value_mask = UNSET, None


class Loop:
    """One execution of a loop: the lanes that came in and those that said ``continue``."""

    def __init__(self, entry: Mask, frame: Frame | None, line: int, due: int, idle: tuple):
        self.idle = idle  # variables that steer nothing in it
        self.entry, self.frame, self.line, self.due = entry, frame, line, due
        self.patience = min(FIRST_TIME, due)  # until `long_loop` is asked
        self.seen: tuple = ()  # what variables and memory were, while it is looked at
        self.returned = None if frame is None else frame.returned
        self.skipped = self.broken = None  # the latter kept only for a loop that has an else
        self.steps = self.total = 0  # passes that were made; that there are, where it is known
        self.ended = False
