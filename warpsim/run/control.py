"""Control flow of the running threads: branches, loops, returns, variables under a mask."""

import sys
import zlib
from types import FrameType
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.code.statements import PROGRAM
from warpsim.core import masks
from warpsim.core.masks import EMPTY, PATIENCE, EndlessLoop, Frame, Loop, Mask, in_warps
from warpsim.core.memory import Array, arrays
from warpsim.core.operators import UNSET
from warpsim.front.names import Unsupported
from warpsim.run.observer import Observer
from warpsim.run.state import State


class Control:
    """Branches, loops and returns: which lanes are active, and what their variables hold."""

    def __init__(self, state: State, observer: Observer):
        self.state, self.observer = state, observer
        self.step_limit = masks.STEP_LIMIT.get()

    def split(self, condition, site: int | None = None, sides: int = 2) -> tuple[Mask, Mask]:
        """Lanes for which a condition holds, and the others; counted at a ``site`` of two sides."""
        site = None if sides < 2 else site
        mask = self.state.mask
        if type(condition) is not ndarray:
            if site is not None:
                self.observer.count_branch(site, mask.warps, 0)
            return (mask, EMPTY) if condition else (EMPTY, mask)
        yes = mask.active & condition
        if site is not None:
            both = (in_warps(yes) != 0) & (in_warps(mask.active & ~condition) != 0)
            self.observer.count_branch(site, mask.warps, int(np.count_nonzero(both)))
        count = int(np.count_nonzero(yes))
        if count == 0:
            return EMPTY, mask
        if count == mask.count:
            return mask, EMPTY
        return Mask(yes, count, mask), Mask(mask.active & ~condition, mask.count - count, mask)

    def join(self, outer: Mask, first: Mask, second: Mask) -> Mask:
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
        return self._lazily(left, right, False)

    def _lazily(self, left, right, goes_on: bool):
        state = self.state
        if type(left) is not ndarray:
            return right() if bool(left) is goes_on else left
        outer = state.mask
        yes, no = self.split(left)
        state.mask = yes if goes_on else no
        try:
            if not state.mask:
                return left
            value = right()
        finally:
            state.mask = outer
        return (left & value) if goes_on else (left | value)

    def choose(self, condition, yes, no):
        """``yes() if condition else no()``; each side sees only its lanes."""
        state = self.state
        if type(condition) is not ndarray:
            return yes() if condition else no()
        outer = state.mask
        left, right = self.split(condition)
        try:
            state.mask = left
            first = yes() if left else UNSET
            state.mask = right
            second = no() if right else UNSET
        finally:
            state.mask = outer
        if first is UNSET:
            return second
        return first if second is UNSET else self.merged(condition, first, second)

    def pick(self, values: tuple, index, site: int):
        """Element of a tuple by an index that is known only at run time."""
        if type(index) is not ndarray:
            if not -len(values) <= index < len(values):
                self._outside_tuple(index, len(values), site)
                return values[0]
            return values[index]
        result = values[0]
        for number, value in enumerate(values[1:], 1):
            result = self.merged((index == number) | (index == number - len(values)), value, result)
        bad = self.state.mask.active & ((index >= len(values)) | (index < -len(values)))
        if bad.any():
            self._outside_tuple(int(index[bad][0]), len(values), site)
        return result

    def element(self, values: tuple, number: int, site: int):
        """An element of a tuple of float32, traced."""
        return values[number]

    # ------------------------------------------------------------------ errors of threads
    def require(self, frame, condition, error: type, arguments: tuple, place: str) -> None:
        """``assert`` and ``raise``: with ``debug=True`` an error, else the thread ends."""
        holds, fails = self.split(condition)
        if not fails:
            return
        if self.state.launch.debug:
            self._raise(error, arguments, place, int(fails.indices[0]))
        self.state.mask = fails
        self.give(frame)
        self.state.mask = holds

    def divisor(self, value, place: str):
        """What is divided by under ``debug=True``: not zero."""
        zero = self.state.mask.active & (np.asarray(value) == 0)
        if zero.any():
            lane = int(np.flatnonzero(zero)[0])
            self._raise(ZeroDivisionError, ("division by zero",), place, lane)
        return value

    def some(self, value: tuple, site: int):
        """The number of what may be None, and is not."""
        none = self.state.mask.active & np.asarray(value[0])
        if none.any():
            text = "takes a value as a number, which is None here: ask `is None` first"
            self.state.found("uninitialised-read", text, site, int(np.flatnonzero(none)[0]))
        return value[1]

    def _outside_tuple(self, index: int, size: int, site: int) -> None:
        """A tuple has no such element: with ``debug=True`` an error, else a finding."""
        lane = int(self.state.mask.indices[0])
        if self.state.launch.debug:
            code = self.state.site(site).code
            text = f"tuple index out of range: element {index} of {size}, {code}"
            self._raise(IndexError, (text,), "", lane)
        text = f"takes element {index} of a tuple of {size}"
        self.state.found("out-of-bounds", text, site, lane)

    def _raise(self, error: type, arguments: tuple, place: str, lane: int) -> None:
        where = self.state.where(lane)
        text = f"{place}tid={[*where.thread]} ctaid={[*where.block]}"
        if arguments:
            text = f"{text}: {arguments[0]}"
        raise error(text, *arguments[1:])

    # ------------------------------------------------------------------ variables
    def assign(self, old, old_mask: Mask | None, new):
        """Set a variable for the active lanes; it was last valid under ``old_mask``."""
        mask = self.state.mask
        if old_mask is mask or old_mask is None or old is UNSET:
            return new, mask
        if not mask:
            return old, old_mask
        if old_mask.within(mask):
            return new, mask
        common = mask
        while common is not None and not old_mask.within(common):
            common = common.parent
        return self.merged(mask.active, new, old), common

    def merged(self, where: ndarray, new, old):
        """``new`` in some lanes and ``old`` in the others; both have the same static type."""
        if new is old:
            return new
        if type(new) is tuple:
            return tuple(self.merged(where, a, b) for a, b in zip(new, old, strict=True))
        if hasattr(new, "space") or hasattr(old, "space"):
            return self._merged_arrays(where, new, old)
        if type(new) is type(old) and type(new) is not ndarray and new == old:
            return new
        return np.where(where, new, old)

    def _merged_arrays(self, where, new, old):
        if new.root is old.root and new.strides == old.strides:
            places = (*new.shape, new.offset), (*old.shape, old.offset)
            *shape, offset = self.merged(where, *places)
            return new.derived(tuple(shape), new.strides, offset)
        raise Unsupported(
            f"{self.state.launch.name}: an array is chosen by thread ({new.name} for some, "
            f"{old.name} for others), which the simulator cannot do; choose the element instead"
        )

    def unsigned(self, value):
        """A uint64 that another may join: two of Python's integers would be joined as int64."""
        if type(value) is not int or self.state.mask.parent is None:
            return value
        return np.full(len(self.state.mask.active), value, np.uint64)

    # ------------------------------------------------------------------ calls and loops
    def frame(self, kernel: bool) -> Frame:
        return Frame(self.state.mask, kernel)

    def give(self, frame: Frame, value=None) -> None:
        """``return``: the active lanes are done with this call."""
        mask = self.state.mask
        if value is not None:
            frame.value, frame.value_mask = self.assign(frame.value, frame.value_mask, value)
        returned = frame.returned
        frame.returned = mask.active if returned is None else returned | mask.active
        if frame.kernel:
            self.state.exited = frame.returned
        self.state.mask = EMPTY

    def leave(self, frame: Frame):
        if not frame.kernel:
            self.state.mask = frame.entry
        return None if frame.value is UNSET else frame.value

    def loop(self, frame: Frame | None, line: int, idle: tuple[str, ...] = ()) -> Loop:
        return Loop(self.state.mask, frame, line, min(PATIENCE, self.step_limit), idle)

    def stop(self, loop: Loop | None = None) -> None:
        """``break``, from a loop that has an else."""
        if loop is not None:
            active = self.state.mask.active
            loop.broken = active if loop.broken is None else loop.broken | active
        self.state.mask = EMPTY

    def unbroken(self, loop: Loop) -> tuple[Mask, Mask]:
        """After a loop: its lanes that never said ``break``, and those that did."""
        return (self.state.mask, EMPTY) if loop.broken is None else self.split(~loop.broken)

    def skip(self, loop: Loop) -> None:
        active = self.state.mask.active
        loop.skipped = active if loop.skipped is None else loop.skipped | active
        self.state.mask = EMPTY

    def head(self, loop: Loop) -> bool:
        """Start of a pass: lanes that said ``continue`` are back. Is any lane left?"""
        state = self.state
        if loop.skipped is not None:
            active = loop.skipped if not state.mask else state.mask.active | loop.skipped
            loop.skipped = None
            state.mask = loop.entry.part(active)
        loop.steps += 1
        if loop.steps > loop.patience:
            self.long_loop(loop, sys._getframe(1))
        return state.mask.count > 0

    def test(self, condition, site: int | None = None) -> bool:
        """Keep the lanes whose condition holds. Is any lane left?"""
        state = self.state
        if type(condition) is not ndarray:
            if condition:
                return True
            state.mask = EMPTY
            return False
        mask = state.mask
        active = mask.active & condition
        count = int(np.count_nonzero(active))
        if count != mask.count:
            # a sibling, not a child: a chain as long as the loop would make every look-up slow
            parent = mask if mask.parent is None else mask.parent
            state.mask = Mask(active, count, parent) if count else EMPTY
        return count > 0

    def end(self, loop: Loop) -> None:
        """After a loop: the lanes that came in, less those that returned."""
        loop.ended = True
        self.state.launch.passes += loop.steps
        frame = loop.frame
        if frame is None or frame.returned is loop.returned:
            self.state.mask = loop.entry
        else:
            self.state.mask = loop.entry.part(loop.entry.active & ~frame.returned)

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
        while self.state.mask:
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

    # ------------------------------------------------------------------ loops without end
    def long_loop(self, loop: Loop, frame: Any) -> None:
        """Stop a loop that is past its limit, or in which nothing changes from pass to pass."""
        self.state.launch.progress.look(self.state.launch.name, frame)
        if loop.steps > loop.due:
            self._judge_loop(loop, frame)
        loop.patience = min(loop.steps + min(loop.steps, masks.EACH_TIME), loop.due)

    def _judge_loop(self, loop: Loop, frame: Any) -> None:
        state = self.state
        limit = self.step_limit
        if limit == masks.ENDLESS:
            limit = max(limit, loop.total)
        if loop.steps > limit:
            raise EndlessLoop(
                f"{state.launch.name}, line {loop.line}: this loop has run {self.step_limit:,} "
                f"times and {state.mask.count:,} threads are still in it; is its condition ever "
                "false?"
            )
        now = _variables(self.state, frame, loop.idle)
        same = now is not None and loop.seen[:1] == (now,)
        if same and len(loop.seen) == 1:
            loop.seen = (now, _memory(self.state, frame))
        elif same and loop.seen[1] == _memory(self.state, frame):
            raise EndlessLoop(self._stuck(loop))
        elif not loop.seen and now is not None:
            loop.seen = (now,)
        else:  # it goes on: look again when it is twice as old
            loop.seen, loop.due = (), min(2 * loop.steps, limit)

    def _stuck(self, loop: Loop) -> str:
        state = self.state
        sites = state.sites[state.base :]
        after = [s for s in sites if s.line >= loop.line and not s.code.endswith(":")]
        first = min(after, key=lambda site: (not site.array, site.line), default=None)
        at = f", at {first.code}" if first is not None else ""
        return (
            f"{state.launch.name}, line {loop.line}: {state.mask.count:,} threads wait "
            f"for ever in this loop{at}: no variable and no memory changes any more. Is its "
            "condition ever false? A lock or a flag between threads of a block cannot be waited "
            "for here: its threads run in step, so the one that should change it does not go on "
            "before the others do; on a GPU that may hang, too. Let one thread of a block wait, "
            "use atomics that need no lock, or cuda.syncthreads()"
        )


# ---------------------------------------------------------------------- what never changes
# Threads run in step. A pass that leaves every variable, every active lane and all memory as they
# were is followed by another one, for ever: a lock or a flag whose owner waits for its waiters.
# Variables that steer nothing in the loop, such as a count of its passes, may go on changing.
def _is_program(frame: FrameType) -> bool:
    return frame.f_globals["__name__"] == PROGRAM


def _variables(state: Any, frame: FrameType | None, idle: tuple[str, ...]) -> int | None:
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


def _memory(state: Any, frame: FrameType | None) -> int:
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
