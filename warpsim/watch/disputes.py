"""Stores of several threads to one element that nothing orders: does it matter who comes last?

It does not if the last store of each thread leaves the same bytes. So these stores are kept until
something orders what follows, and compared then. Equal bytes may be chance:
:mod:`warpsim.run.other_data` runs such a launch again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from warpsim.front.names import Site
from warpsim.watch.access_history import Shadow
from warpsim.watch.findings import Finding

ndarray = np.ndarray

#: Stores that are kept at most before those that their own thread has overwritten are dropped.
MOST_STORES = 1 << 20


class Disputed:
    """The stores to those elements of one array that several threads have written."""

    def __init__(self, shadow: Shadow):
        self.shadow = shadow
        self.is_open = np.zeros(shadow.size, bool)
        self.stores: list[tuple[ndarray, ndarray, ndarray, ndarray]] = []
        self.kept = 0

    def add(self, elements: ndarray, threads: ndarray, rows: ndarray, place: int) -> None:
        """Stores at a place of the source; -1 for one that nobody disputed when it was made."""
        self.is_open[elements] = True
        made = elements, threads, rows, np.full(len(elements), place)
        if self.stores and all(map(np.array_equal, made[::3], self.stores[-1][::3])):
            if np.array_equal(threads, self.stores[-1][1]):  # the next pass of a loop
                self.stores[-1] = made
                return
        self.stores.append(made)
        self.kept += len(elements)

    def sorted(self) -> list[ndarray]:
        """All stores by element and thread, and whether they are the last of their thread."""
        columns = [np.concatenate(part) for part in zip(*self.stores, strict=True)]
        order = np.lexsort((columns[1], columns[0]))  # stable: a thread's own stay in order
        elements, threads, rows, places = (column[order] for column in columns)
        last = np.ones(len(order), bool)
        last[:-1] = (elements[1:] != elements[:-1]) | (threads[1:] != threads[:-1])
        return [elements, threads, rows, places, order, last]


class Disputes:
    """What the threads of a launch store without order.

    Attributes
    ----------
    places : (set of int, set of int)
        Where the last store to an element leaves something else than another thread's; where all
        threads of an element leave the same.
    torn : set of int
        All places of stores to elements of which threads leave different things.
    """

    def __init__(self) -> None:
        self._of: dict[int, Disputed] = {}
        self.places: tuple[set[int], set[int]] = set(), set()
        self.torn: set[int] = set()
        self.told: dict[int, bool] = {}  # places in findings: by two threads that differ?
        self.harmless: dict[Site, Finding] = {}  # what to say where all leave the same

    def of(self, shadow: Shadow) -> Disputed:
        return self._of.setdefault(id(shadow), Disputed(shadow))

    def restart(self, shadow: Shadow, elements: ndarray | None = None) -> None:
        """What comes now at some elements, or at all, is ordered after the stores so far."""
        disputed = self._of.get(id(shadow))
        if disputed is None or not disputed.kept:
            return
        over = disputed.is_open
        if elements is not None:
            over = np.zeros_like(over)
            over[elements] = disputed.is_open[elements]
            if not over.any():
                return
        self._judge(disputed, over)

    def tidy(self, disputed: Disputed) -> None:
        """Drop what a thread has overwritten itself; if that is little, judge what there is."""
        if disputed.kept <= MOST_STORES:
            return
        *columns, _, last = disputed.sorted()
        self.places[1].update(np.unique(columns[3][columns[3] >= 0]).tolist())
        disputed.stores = [tuple(column[last] for column in columns)]
        disputed.kept = int(last.sum())
        if disputed.kept > MOST_STORES // 2:
            self._judge(disputed, disputed.is_open)

    def judge(self) -> None:
        """The launch is over."""
        for disputed in self._of.values():
            if disputed.kept:
                self._judge(disputed, disputed.is_open)

    def _judge(self, disputed: Disputed, over: ndarray) -> None:
        elements, threads, rows, places, order, last = disputed.sorted()
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
        disputed.stores = [tuple(part[rest] for part in (elements, threads, rows, places))]
        disputed.kept = len(rest)
        disputed.is_open = disputed.is_open & ~over


def bytes_of(value: Any, dtype: np.dtype, count: int, rows: int) -> ndarray:
    """What ``count`` threads store, each its own or all the same: bytes, a row for each unit."""
    values = np.broadcast_to(np.asarray(value).astype(dtype, copy=False), (count,))
    return np.ascontiguousarray(values).view(np.uint8).reshape(rows, -1)
