"""Stores of several threads to one element that nothing orders: does it matter who comes last?

It does not if the last store of each thread leaves the same bytes. So these stores are kept until
something orders what follows, and compared then. Nor does it matter to a thread that loads such an
element, if it has stored these bytes there itself and the others never store anything else: to
tell that, a thorough search keeps the loads and all stores. Equal bytes may be chance:
:mod:`warpsim.run.other_data` runs such a launch again.
"""

from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.front.names import Site
from warpsim.watch.access_history import Shadow
from warpsim.watch.findings import Finding

#: Stores that are kept at most before those that their own thread has overwritten are dropped.
MOST_STORES = 1 << 20
#: Stores and loads that a thorough search looks through at most, each as often as it does; beyond
#: that any load that is not ordered counts as a race.
MOST_LOOKED_THROUGH = 1 << 21


class Disputed:
    """The stores to those elements of one array that several threads have written."""

    def __init__(self, shadow: Shadow, thorough: bool):
        self.shadow, self.thorough = shadow, thorough
        self.is_open = np.zeros(shadow.size, bool)
        self.stores: list[tuple[ndarray, ndarray, ndarray, ndarray, ndarray]] = []
        self.loads: list[tuple[ndarray, ndarray, ndarray, ndarray, ndarray]] = []
        self.kept = self.time = 0

    def add(self, elements: ndarray, threads: ndarray, rows: ndarray, place: int) -> None:
        """Stores at a place of the source; -1 for one that nobody disputed when it was made."""
        made = elements, threads, rows, *self._opened(elements, place)
        if self.stores and not self.thorough:
            same = (np.array_equal(made[n], self.stores[-1][n]) for n in (0, 1, 3))
            if all(same):  # the next pass of a loop
                self.stores[-1] = made
                return
        self.stores.append(made)
        self.kept += len(elements)

    def add_loads(self, elements: ndarray, threads: ndarray, place: int, barriers: ndarray) -> None:
        """Loads at a place of the source, after so many ``barriers``, of a thorough search."""
        self.loads.append((elements, threads, *self._opened(elements, place), barriers))
        self.kept += len(elements)

    def _opened(self, elements: ndarray, place: int) -> tuple[ndarray, ndarray]:
        """Columns of the place and of the time for accesses that come now to some elements."""
        self.is_open[elements] = True
        self.time += 1
        return np.full(len(elements), place), np.full(len(elements), self.time)

    def sorted(self) -> list[ndarray]:
        """All stores by element and thread, and whether they are the last of their thread."""
        columns = [np.concatenate(part) for part in zip(*self.stores, strict=True)]
        order = np.lexsort((columns[4], columns[1], columns[0]))
        elements, threads, rows, places, times = (column[order] for column in columns)
        last = np.ones(len(order), bool)
        last[:-1] = (elements[1:] != elements[:-1]) | (threads[1:] != threads[:-1])
        return [elements, threads, rows, places, times, order, last]

    def seen_between(self, over: ndarray, by: tuple | None = None) -> set[int]:
        """Places of loads of some elements that may see what stays in none, and of the stores.

        Harmless is a load of what its thread has stored last, if no other thread stores anything
        else there. A thread that stores where it has loaded, with no barrier ``by`` then, comes
        after its own load alone: others may still come in between.
        """
        loads = [np.concatenate(part) for part in zip(*self.loads, strict=True)]
        chosen = over[loads[0]]
        kept = ~chosen
        if by is not None:
            elements, threads, barriers = by
            thread, since = np.full(len(over), -1), np.full(len(over), -1)
            thread[elements], since[elements] = threads, barriers
            kept |= (thread[loads[0]] == loads[1]) & (since[loads[0]] == loads[4])
        self.loads = [tuple(column[kept] for column in loads)] if kept.any() else []
        if not chosen.any() or not any(len(elements) for elements, *_ in self.stores):
            return set()
        loads = [column[chosen] for column in loads]
        elements, threads, rows, places, times, *_ = self.sorted()
        values = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        owners, thread = np.unique(np.concatenate([threads, loads[1]]), return_inverse=True)
        pair = elements * len(owners) + thread[: len(threads)]
        mine = loads[0] * len(owners) + thread[len(threads) :]
        # where each load would stand among the stores, which are sorted by pair and time
        both = np.lexsort((np.concatenate([times, loads[3]]), np.concatenate([pair, mine])))
        before = np.empty(len(both), np.intp)
        before[both] = np.cumsum(both < len(pair))
        own = before[len(pair) :] - 1
        has_own = (own >= 0) & (pair[own] == mine)
        kinds = int(values.max()) + 1
        alike = _count(elements * kinds + values, loads[0] * kinds + values[own])
        alike -= _count(pair * kinds + values, mine * kinds + values[own])
        others = _count(elements, loads[0]) - _count(pair, mine)
        bad = (others > 0) & (~has_own | (alike != others))
        touched = np.isin(elements, loads[0][bad])
        return {*loads[2][bad].tolist(), *places[touched].tolist()}


def _count(among: ndarray, keys: ndarray) -> ndarray:
    among = np.sort(among)
    return np.searchsorted(among, keys, "right") - np.searchsorted(among, keys, "left")


class Disputes:
    """What the threads of a launch store without order."""

    def __init__(self, thorough: bool = False) -> None:
        self.thorough = thorough
        self._of: dict[int, Disputed] = {}
        #: Where the last store to an element leaves something else than another thread's; where all
        #: threads of an element leave the same.
        self.places: tuple[set[int], set[int]] = set(), set()
        self.torn: set[int] = set()  # all stores to elements where threads leave different things
        #: Loads that may see what does not stay, and stores that come between: if thorough.
        self.early: set[int] = set()
        self.looked_through = 0
        self.gave_up = False  # there were more than can be kept, or looked through
        self.told: dict[int, bool] = {}  # places in findings: by two threads that differ?
        self.harmless: dict[Site, Finding] = {}  # what to say where all leave the same

    def of(self, shadow: Shadow) -> Disputed:
        return self._of.setdefault(id(shadow), Disputed(shadow, self.thorough))

    def loaded_before(self, shadow: Shadow, elements: ndarray, place: int) -> None:
        """A store comes to elements that others have loaded, with nothing to order the two."""
        if len(elements):
            self.early.add(place)
            for loaded, _, places, *_ in self.of(shadow).loads:
                self.early.update(places[np.isin(loaded, elements)].tolist())

    def restart(self, shadow: Shadow, *by: ndarray) -> None:
        """What comes now at some elements, ``by`` threads, or at all, comes after all so far."""
        disputed = self._of.get(id(shadow))
        if disputed is None or not disputed.kept:
            return
        over = disputed.is_open
        if by:
            over = np.zeros_like(over)
            over[by[0]] = disputed.is_open[by[0]]
            if not over.any():
                return
        self._judge(disputed, over, by if len(by) == 3 else None)

    def tidy(self, disputed: Disputed) -> None:
        """Drop what a thread has overwritten itself; if that is little, judge what there is."""
        if disputed.kept <= MOST_STORES:
            return
        if disputed.thorough:
            self._give_up(disputed)
        *columns, _, last = disputed.sorted()
        self.places[1].update(np.unique(columns[3][columns[3] >= 0]).tolist())
        disputed.stores = [tuple(column[last] for column in columns)]
        disputed.kept = int(last.sum())
        if disputed.kept > MOST_STORES // 2:
            self._judge(disputed, disputed.is_open)

    def judge(self) -> None:
        for disputed in self._of.values():
            if disputed.kept:
                self._judge(disputed, disputed.is_open)

    def _give_up(self, disputed: Disputed) -> None:
        self.gave_up = True
        disputed.thorough = self.thorough = False
        disputed.loads.clear()
        disputed.kept = sum(len(one[0]) for one in disputed.stores)

    def _judge(self, disputed: Disputed, over: ndarray, by: tuple | None = None) -> None:
        if disputed.thorough:
            self.looked_through += disputed.kept
            if self.looked_through > MOST_LOOKED_THROUGH:
                self._give_up(disputed)
        if disputed.loads:
            self.early.update(disputed.seen_between(over, by))
            disputed.kept = sum(len(one[0]) for one in (*disputed.stores, *disputed.loads))
        disputed.is_open = disputed.is_open & ~over  # judged, but for the loads that are kept
        for elements, *_ in disputed.loads:
            disputed.is_open[elements] = True
        if not disputed.stores:
            return
        elements, threads, rows, places, times, order, last = disputed.sorted()
        now, own = over[elements], elements[last]
        first = np.searchsorted(own, own)
        other = (rows[last] != rows[last][first]).any(1)
        torn = np.zeros(len(over), bool)
        torn[own[other]] = True
        told = now & (places >= 0)
        self.places[1].update(places[told & ~torn[elements]].tolist())
        latest = np.full(len(over), -1)
        late = told & torn[elements]
        self.torn.update(places[late].tolist())
        np.maximum.at(latest, elements[late], order[late])
        self.places[0].update(places[late & (latest[elements] == order)].tolist())
        rest = np.flatnonzero(~now)
        rest = rest[order[rest].argsort()]
        disputed.stores = [tuple(part[rest] for part in (elements, threads, rows, places, times))]
        disputed.kept = len(rest) + sum(len(one[0]) for one in disputed.loads)


def bytes_of(value: Any, dtype: np.dtype, count: int, rows: int) -> ndarray:
    """What ``count`` threads store, each its own or all the same: bytes, a row for each unit."""
    values = np.broadcast_to(np.asarray(value).astype(dtype, copy=False), (count,))
    return np.ascontiguousarray(values).view(np.uint8).reshape(rows, -1)
