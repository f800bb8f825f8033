"""Active lanes and control flow: masks that form a tree, branches, loops, returns."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from warpsim.core.operators import UNSET

ndarray = np.ndarray

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
    """A set of active lanes, inside the set of its parent.

    Attributes
    ----------
    active : ndarray of bool, (lanes,)
    count : int
        Number of active lanes.
    parent : Mask or None
        A mask that contains this one.
    """

    __slots__ = ("_indices", "_warps", "_whole", "active", "count", "parent")

    def __init__(self, active: ndarray, count: int, parent: Mask | None):
        self.active, self.count, self.parent = active, count, parent
        self._warps: int | None = None
        self._indices: ndarray | None = None
        self._whole: bool | None = None

    def __bool__(self) -> bool:
        return self.count > 0

    @property
    def warps(self) -> int:
        """Number of warps with at least one active lane."""
        if self._warps is None:
            self._warps = int(np.count_nonzero(in_warps(self.active)))
        return self._warps

    @property
    def indices(self) -> ndarray:
        if self._indices is None:
            self._indices = np.flatnonzero(self.active)
        return self._indices

    def whole_in(self, root: Mask) -> bool:
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
    """Stop this thread's loops after so many passes: for small cases that should end soon."""
    before = STEP_LIMIT.set(limit)
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
    """One execution of a loop: the lanes that came in and those that said ``continue``.

    ``total`` is there where the passes are known, ``ended`` after the last one.
    """

    __slots__ = (
        "broken", "due", "ended", "entry", "frame", "idle", "line", "patience", "returned", "seen",
        "skipped", "steps", "total",
    )  # fmt: skip

    def __init__(
        self, entry: Mask, frame: Frame | None, line: int, due: int, idle: tuple[str, ...]
    ):
        self.idle = idle  # variables that steer nothing in it
        self.entry, self.frame, self.line, self.due = entry, frame, line, due
        self.patience = FIRST_TIME if due > FIRST_TIME else due  # until `long_loop` is asked
        self.seen: tuple = ()  # what variables and memory were, while it is looked at
        self.returned = None if frame is None else frame.returned
        self.skipped: ndarray | None = None
        self.broken: ndarray | None = None  # kept only for a loop that has an else
        self.steps = 0


class Control:
    """Control flow of the running threads. ``self.mask`` holds the active lanes."""

    mask: Mask

    def inside(self, active: ndarray, parent: Mask) -> Mask:
        """The mask of some lanes of ``parent``."""
        count = int(np.count_nonzero(active))
        if count == 0:
            return EMPTY
        return parent if count == parent.count else Mask(active, count, parent)

    def split(self, condition, site: int | None = None, sides: int = 2) -> tuple[Mask, Mask]:
        """Lanes for which a condition holds, and the others.

        An `if` that is traced gives its ``site``, and is counted if both ``sides`` have a suite.
        """
        if sides < 2:
            site = None
        mask = self.mask
        if type(condition) is not ndarray:
            if site is not None:
                self.count_branch(site, mask.warps, 0)
            return (mask, EMPTY) if condition else (EMPTY, mask)
        yes = mask.active & condition
        if site is not None:
            both = (in_warps(yes) != 0) & (in_warps(mask.active & ~condition) != 0)
            self.count_branch(site, mask.warps, int(np.count_nonzero(both)))
        count = int(np.count_nonzero(yes))
        if count == 0:
            return EMPTY, mask
        if count == mask.count:
            return mask, EMPTY
        return Mask(yes, count, mask), Mask(mask.active & ~condition, mask.count - count, mask)

    def join(self, outer: Mask, first: Mask, second: Mask) -> Mask:
        """The lanes that are left after both sides of a branch."""
        if not first:
            return second
        if not second:
            return first
        if first.count + second.count == outer.count:
            return outer
        return Mask(first.active | second.active, first.count + second.count, outer)

    def both(self, left, right):
        """``left and right()``: the right side sees only the lanes where the left holds."""
        return self._lazily(left, right, True)

    def either(self, left, right):
        """``left or right()``."""
        return self._lazily(left, right, False)

    def _lazily(self, left, right, goes_on: bool):
        if type(left) is not ndarray:
            return right() if bool(left) is goes_on else left
        outer = self.mask
        yes, no = self.split(left)
        self.mask = yes if goes_on else no
        try:
            if not self.mask:
                return left
            value = right()
        finally:
            self.mask = outer
        return (left & value) if goes_on else (left | value)

    def choose(self, condition, yes, no):
        """``yes() if condition else no()``; each side sees only its lanes."""
        if type(condition) is not ndarray:
            return yes() if condition else no()
        outer = self.mask
        left, right = self.split(condition)
        try:
            self.mask = left
            first = yes() if left else UNSET
            self.mask = right
            second = no() if right else UNSET
        finally:
            self.mask = outer
        if first is UNSET:
            return second
        return first if second is UNSET else self.merged(condition, first, second)

    def pick(self, values: tuple, index, site: int):
        """Element of a tuple by an index that is known only at run time."""
        if type(index) is not ndarray:
            if not -len(values) <= index < len(values):
                self.outside_tuple(index, len(values), site)
                return values[0]
            return values[index]
        result = values[0]
        for number, value in enumerate(values[1:], 1):
            result = self.merged((index == number) | (index == number - len(values)), value, result)
        bad = self.mask.active & ((index >= len(values)) | (index < -len(values)))
        if bad.any():
            self.outside_tuple(int(index[bad][0]), len(values), site)
        return result

    # ------------------------------------------------------------------ variables
    def assign(self, old, old_mask: Mask | None, new):
        """Set a variable for the active lanes; it was last valid under ``old_mask``."""
        mask = self.mask
        if old_mask is mask or old_mask is None or old is UNSET:
            return new, mask
        if not mask:
            return old, old_mask
        parent = old_mask.parent
        while parent is not None:
            if parent is mask:
                return new, mask
            parent = parent.parent
        above = set()
        parent = old_mask
        while parent is not None:
            above.add(id(parent))
            parent = parent.parent
        common = mask
        while common is not None and id(common) not in above:
            common = common.parent
        return self.merged(mask.active, new, old), common

    def merged(self, where: ndarray, new, old):
        """``new`` in some lanes and ``old`` in the others; both have the same static type."""
        if new is old:
            return new
        if type(new) is tuple:
            return tuple(self.merged(where, a, b) for a, b in zip(new, old, strict=True))
        if hasattr(new, "space") or hasattr(old, "space"):
            return self.merged_arrays(where, new, old)
        if type(new) is type(old) and type(new) is not ndarray and new == old:
            return new
        return np.where(where, new, old)

    def unsigned(self, value):
        """A uint64 that may meet another: two of Python's integers would meet as int64."""
        if type(value) is not int or self.mask.parent is None:
            return value
        return np.full(len(self.mask.active), value, np.uint64)

    # ------------------------------------------------------------------ calls and loops
    def frame(self, kernel: bool) -> Frame:
        return Frame(self.mask, kernel)

    def give(self, frame: Frame, value=None) -> None:
        """``return``: the active lanes are done with this call."""
        mask = self.mask
        if value is not None:
            frame.value, frame.value_mask = self.assign(frame.value, frame.value_mask, value)
        returned = frame.returned
        frame.returned = mask.active if returned is None else returned | mask.active
        if frame.kernel:
            self.exited = frame.returned
        self.mask = EMPTY

    def leave(self, frame: Frame):
        """The end of a call: its lanes come back together."""
        if not frame.kernel:
            self.mask = frame.entry
        return None if frame.value is UNSET else frame.value

    def loop(self, frame: Frame | None, line: int, idle: tuple[str, ...] = ()) -> Loop:
        return Loop(self.mask, frame, line, min(PATIENCE, self.step_limit), idle)

    def stop(self, loop: Loop | None = None) -> None:
        """``break``, from a loop that has an else."""
        if loop is not None:
            active = self.mask.active
            loop.broken = active if loop.broken is None else loop.broken | active
        self.mask = EMPTY

    def unbroken(self, loop: Loop) -> tuple[Mask, Mask]:
        """After a loop: its lanes that never said ``break``, and those that did."""
        return (self.mask, EMPTY) if loop.broken is None else self.split(~loop.broken)

    def skip(self, loop: Loop) -> None:
        """``continue``"""
        active = self.mask.active
        loop.skipped = active if loop.skipped is None else loop.skipped | active
        self.mask = EMPTY

    def head(self, loop: Loop) -> bool:
        """Start of a pass: lanes that said ``continue`` are back. Is any lane left?"""
        if loop.skipped is not None:
            active = loop.skipped if not self.mask else self.mask.active | loop.skipped
            loop.skipped = None
            self.mask = self.inside(active, loop.entry)
        loop.steps += 1
        if loop.steps > loop.patience:
            self.long_loop(loop, sys._getframe(1))
        return self.mask.count > 0

    def test(self, condition, site: int | None = None) -> bool:
        """Keep the lanes whose condition holds. Is any lane left?"""
        if type(condition) is not ndarray:
            if condition:
                return True
            self.mask = EMPTY
            return False
        mask = self.mask
        active = mask.active & condition
        count = int(np.count_nonzero(active))
        if count != mask.count:
            # a sibling, not a child: a chain as long as the loop would make every look-up slow
            parent = mask if mask.parent is None else mask.parent
            self.mask = Mask(active, count, parent) if count else EMPTY
        return count > 0

    def end(self, loop: Loop) -> None:
        """After a loop: the lanes that came in, less those that returned."""
        loop.ended = True
        self.launch.passes += loop.steps
        frame = loop.frame
        if frame is None or frame.returned is loop.returned:
            self.mask = loop.entry
        else:
            self.mask = self.inside(loop.entry.active & ~frame.returned, loop.entry)

    def range(self, loop: Loop, start, stop=None, step=1, site: int | None = None):
        """The values of ``range``; lanes leave when their own range ends."""
        values = self.lane_range(start, stop, step)
        if type(values) is range:
            loop.total = len(values)
        return self.each(loop, values)

    def lane_range(self, start, stop=None, step=1):
        """The values of a range within a loop, which each lane leaves where its own ends."""
        if stop is None:
            start, stop = 0, start
        if any(type(limit) is ndarray for limit in (start, stop, step)):
            return self._until(start, stop, step)
        return range(start, stop, step) if step else ()

    def _until(self, start, stop, step):
        current, upward = start, step > 0
        while self.mask:
            if type(step) is ndarray:
                goes_on = np.where(upward, current < stop, (current > stop) & (step < 0))
            else:
                goes_on = current < stop if upward else current > stop
            if not self.test(goes_on):
                return
            yield current
            current = current + step

    def each(self, loop: Loop, items):
        """The items of a tuple, of an array, or of enumerate and zip of them."""
        for value in items:
            yield value
            if not self.head(loop):
                break
        self.end(loop)
