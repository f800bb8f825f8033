"""Reads of what no thread has written: noticed while a traced launch runs, not yet judged.

Many correct kernels make such reads and throw the values away. So a read is a *candidate* only;
:mod:`warpsim.run.uninitialised` finds out whether its value matters. A copy into local memory,
``a[i] = b[j]``, is none until something else reads what was copied.
"""

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.memory import Array, item, poison
from warpsim.core.operators import UNSET
from warpsim.front.names import Site, Unsupported
from warpsim.watch.findings import Where

_all = np.logical_and.reduce
_COMPARE = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """The first read of something unwritten at one place of the source."""

    what: str  # these two go around the words for where the value ends
    advice: str
    where: Where
    whole: bool = False


class Unwritten:
    """Watches what the running threads read."""

    state: Any

    #: Of each lane the copy that its value comes from, between load and store; 0 where it is set.
    carried: ndarray | None = None
    #: The copies that have read something unwritten, numbered from 1, and what they read first.
    copies: dict[Site, tuple[int, Candidate]]
    #: By its array of what is written: of each element the copy that has left it unwritten, or 0.
    origins: dict[int, ndarray]

    def watch_unwritten(self, array: Array, elements: ndarray, mask, site: int, op: str) -> None:
        """An access by the lanes of ``mask`` to an array of which not all may be set."""
        state = self.state
        written = array.root.written
        if op == "load" and written.all():
            return
        chosen = elements if mask.count == state.lanes else elements[mask.indices]
        if op != "store" and (fresh := np.flatnonzero(~written[chosen])).size:
            self._reads_unwritten(array, chosen[fresh], mask.indices[fresh], site)
        if op != "load":
            written[chosen] = True

    def _reads_unwritten(self, array: Array, elements: ndarray, lanes: ndarray, site: int) -> None:
        """Some lanes read elements that are not set, or only by copies of such."""
        state, written, place = self.state, array.root.written, self.state.site(site)
        if place.dropped:
            return
        origins = self.origins.get(id(written))
        came = np.zeros(len(elements), int) if origins is None else origins[elements]
        told = place in state.launch.candidates or (place.copied and place in self.copies)
        if not told and not came.all():
            first = int(came.argmin())
            self._tell(array, elements[first], site, int(lanes[first]))
        if place.copied:
            number, _ = self.copies.get(place, (0, None))
            self.carried = np.zeros(state.lanes, int)
            self.carried[lanes] = np.where(came, came, number)
        elif came.any():
            self._use(came)
            written[elements[came > 0]] = True

    def _use(self, came: ndarray) -> None:
        """What some copies have read is used: that they read it may matter."""
        copies = list(self.copies.items())
        for number in np.unique(came[came > 0]):
            place, (_, found) = copies[number - 1]
            self.state.launch.candidates.setdefault(place, found)

    def hands_on(self, array: Array, uniform, varying, mask) -> bool:
        """A copy stores what is carried: whether to local memory, which holds nothing new then."""
        carried, self.carried = self.carried[mask.indices], None
        if array.rows is None:
            self._use(carried)
            return False
        elements = self.state.elements(array, uniform, varying)[mask.indices]
        root = array.root
        origins = self.origins.setdefault(id(root.written), np.zeros(len(root.written), int))
        origins[elements], root.written[elements] = carried, carried == 0
        root.whole.clear()
        return True

    def _tell(self, array: Array, element: int, site: int, lane: int) -> None:
        """A lane is the first that reads an element which is not set."""
        state, root = self.state, array.root
        name, before = state.spelled(array, element), "holds whatever was there before, and that"
        number, owner = divmod(int(element), state.lanes)
        block = state.block == state.block[owner]
        if root.space == "local" and (root.written.reshape(-1, state.lanes)[number] & block).any():
            what = (
                f"reads {name}, which only other threads have written, each in an array of its "
                f"own: local memory is private, this thread's {before}"
            )
            cure = "what threads of a block hand to each other goes through cuda.shared.array"
            self.candidate(what, cure, site, lane, whole=True)
            return
        nobody, cure = "no thread has written", "set it first"
        if root.space == "global":
            nobody = "neither the host nor a kernel has set"
            cure += f", as by cuda.to_device(...) or {root.name}[:] = 0 on the host"
        what = f"reads {name}, which {nobody}: {array.space} memory {before}"
        self.candidate(what, cure, site, lane)

    def is_written(self, root: Array, number: int, mask, op: str) -> bool:
        """An access to one element of each thread's own array: False where one reads too early."""
        known, state = root.whole.get(number), self.state
        if known is not None and mask.within(known):
            return op != "atomic"
        own = root.written[number * state.lanes : (number + 1) * state.lanes]
        if op == "store":
            own |= mask.active
        elif op != "load" or not _all(own[mask.active]):
            return False
        while mask.parent is not None and _all(own[mask.parent.active]):
            mask = mask.parent
        root.whole[number] = mask
        return True

    def lost(self, dtype: np.dtype, site: int, lanes: ndarray):
        """What a shuffle gives for a lane that does not make the call; seen to be wrong here."""
        return poison(dtype)

    def candidate(self, what: str, advice: str, site: int, lane: int, whole: bool = False) -> None:
        found, place = Candidate(what, advice, self.state.where(lane), whole), self.state.site(site)
        if place.copied:
            self.copies.setdefault(place, (len(self.copies) + 1, found))
        else:
            self.state.launch.candidates.setdefault(place, found)

    def compare(self, symbol: str, left, right, site: int):
        """``left < right`` and the like, traced."""
        return _COMPARE[symbol](left, right)

    def compare_tuples(self, symbol: str, left: tuple, right: tuple, plan: tuple, site: int):
        """``t < v`` of two tuples: the first pair that differs decides, else their lengths."""
        result = _COMPARE[symbol](len(left), len(right))
        if symbol in ("==", "!="):
            if len(left) != len(right):
                return result
            result = symbol == "=="  # what is left to say where all pairs are equal
        for a, b, how in reversed(list(zip(left, right, plan, strict=False))):
            if type(a) is tuple:
                same = self.compare_tuples("==", a, b, how, site)
                decides = self.compare_tuples(symbol, a, b, how, site)
            else:
                a, b = how(a), how(b)
                same = self.compare("==", a, b, site)
                decides = self.compare(symbol, a, b, site)
            if type(same) is ndarray or type(decides) is ndarray:
                result = np.where(same, result, decides)
            else:
                result = result if same else decides
        return result

    # ------------------------------------------------------------------ variables
    def now_set(self, before: ndarray | None) -> ndarray:
        """The threads that have set a variable, once the active ones have, too."""
        active = self.state.mask.active
        return active if before is None else before | active

    def given(self, value, kind):
        """A variable that perhaps no thread has set yet: then 0, as nobody looks."""
        return self.filled(value, None, kind, 0) if value is UNSET else value

    def maybe(self, value, was_set: ndarray | None, kind, lines: tuple[int, ...], site: int):
        """A variable that some threads may not have set, traced; ``lines`` are where it is set.

        ``kind`` is the name of its dtype, or a tuple of such for a tuple; None for an array.
        """
        state = self.state
        if not state.mask:
            return self.given(value, kind)
        active = state.mask.active
        unset = active if was_set is None else active & ~was_set
        if not unset.any():
            return value
        if state.site(site) not in state.launch.candidates:
            name, plural = state.site(site).code, len(lines) > 1
            numbers = " and ".join(filter(None, [", ".join(map(str, lines[:-1])), str(lines[-1])]))
            what = (
                f"reads {name}, but has never set it: only line{'s' * plural} {numbers} "
                f"{'do' if plural else 'does'}, and this thread did not get there; {name} holds "
                "anything then, and that"
            )
            lane = int(np.flatnonzero(unset)[0])
            self.candidate(what, f"give {name} a value first", site, lane)
        return self.filled(value, unset, kind, site)

    def filled(self, value, unset: ndarray | None, kind: Any, site: int):
        """A value with a stand-in for the threads that never set it, or for all with None."""
        if isinstance(kind, tuple):
            parts = (UNSET,) * len(kind) if value is UNSET else value
            return tuple(self.filled(a, unset, b, site) for a, b in zip(parts, kind, strict=True))
        if kind is None:
            if value is UNSET:
                raise Unsupported(
                    f"{self.state.launch.name}: an array is used that no thread has chosen; set "
                    "the variable on every way to its use"
                )
            return value
        stand_in = self.stand_in(np.dtype(kind), site)
        if value is UNSET or unset is None:
            return stand_in
        return np.where(unset, stand_in, value).astype(kind, copy=False)

    def stand_in(self, dtype: np.dtype, site: int):
        """What a variable holds that was never set: 0, as unwritten memory of the simulator."""
        return item(np.zeros((), dtype)[()])
