"""Who touched which element, and when: what the search for races remembers.

Times are counts of barriers, warp barriers and publications (fences and atomics), of each block and
warp for itself: :class:`Clock`. See :mod:`warpsim.watch.races` for what orders two accesses.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.interface import owner_of, start_of
from warpsim.core.memory import Array, leaves

#: How far the threads of a set of accesses are spread.
ONE_THREAD, ONE_WARP, ONE_BLOCK, SEVERAL_BLOCKS = range(4)
NOWHERE = np.zeros(0, np.intp)


class Clock:
    """How many barriers each block and each warp has passed, and which blocks have published."""

    def __init__(self, blocks: int, padded: int):
        self.padded = padded
        self.warp = np.zeros(blocks * padded // 32, np.int32)
        self.announces = np.zeros(blocks, bool)  # has fenced since its last atomic
        # the last fence; the last atomic after one, and the last fence before that; the last atomic
        # of all, and the last one before the last fence
        times = np.zeros((6, blocks), np.int32)
        self.block, self.fenced, self.released, self.covered, self.seen, self.acquired = times
        self.now = 0
        self.any_fence = self.moved = False  # has any of the times above moved?

    def spread(self, first: ndarray, second: ndarray) -> ndarray:
        """How far apart two different threads are."""
        same_block = first // self.padded == second // self.padded
        apart = np.where(same_block, np.uint8(ONE_BLOCK), np.uint8(SEVERAL_BLOCKS))
        return np.where(first >> 5 == second >> 5, np.uint8(ONE_WARP), apart)


class Accesses:
    """The accesses of one kind (loads, stores or atomics) to each element of an array.

    For each element: one thread that made such an access, how far the others are from it, and
    the state of the clocks at the latest of them. A barrier mostly comes before anyone asks for
    that state, so it is written down only when needed.
    """

    def __init__(self, size: int):
        self.thread = np.full(size, -1, np.int32)
        self.spread = np.zeros(size, np.uint8)
        self.block_time, self.warp_time, self.fence_time = np.zeros((3, size), np.int32)
        self.last: ndarray | None = None  # atomics: 1 + the time of each block's last one
        self.used = self.shared = False  # anything here? Several threads at one element?
        self.late: list[tuple[ndarray, ndarray, int]] = []  # their times are not written down

    def clear(self) -> None:
        if self.used:
            self.thread.fill(-1)
            if self.shared:
                self.spread.fill(ONE_THREAD)
            self.used = self.shared = False
            self.late.clear()
            self.last = None

    def unordered(self, clock: Clock, elements: ndarray, threads: ndarray, sees=None) -> ndarray:
        """Positions in ``elements`` whose earlier accesses are by others and not ordered.

        ``sees`` is how far each block sees what others published; else up to its last atomic.
        """
        if not self.used:
            return NOWHERE
        before = self.thread.take(elements, mode="wrap")
        other = before != threads
        if self.shared:
            other |= self.spread.take(elements, mode="wrap") > ONE_THREAD
        other &= before >= 0
        if not other.any():
            return NOWHERE
        self.settle(clock)
        place = np.flatnonzero(other)
        element, first, thread = elements[place], before[place], threads[place]
        spread = self.spread[element]
        block, first_block = thread // clock.padded, first // clock.padded
        ordered = (first_block == block) & (spread <= ONE_BLOCK)
        ordered &= self.block_time[element] < clock.block[block]
        in_warp = (first >> 5 == thread >> 5) & (spread <= ONE_WARP)
        ordered |= in_warp & (self.warp_time[element] < clock.warp[thread >> 5])
        if clock.any_fence:
            sees = clock.seen if sees is None else sees
            alone = spread < SEVERAL_BLOCKS
            released = np.where(alone, clock.released[first_block], clock.released.min())
            covered = np.where(alone, clock.covered[first_block], clock.covered.min())
            fits = (self.fence_time[element] < covered) & (released <= sees[block])
            if self.last is not None:  # or each block sees the atomics of all the others here
                open_ = (self.last > 0) & (self.last > clock.released)
                others = np.count_nonzero(open_) - open_[block]
                latest = clock.released[self.last > 0].max(initial=0)
                fits = np.where(alone, fits, (others == 0) & (latest <= sees[block]))
            ordered |= fits
        return place[~ordered]

    def note(self, clock: Clock, threads: ndarray) -> None:
        """Remember which blocks did atomics here; those that announce a fence count nothing."""
        if self.last is None:
            self.last = np.zeros(len(clock.block), np.int32)
        blocks = threads // clock.padded
        self.last[blocks[~clock.announces[blocks]]] = clock.now + 1

    def add(self, clock: Clock, elements: ndarray, threads: ndarray, mixed=None) -> ndarray:
        """Remember accesses; returns, for each, the thread that shares its element just now.

        ``mixed`` is what :meth:`unordered` says of them, if it has been asked.
        """
        if mixed is None:
            mixed = self.unordered(clock, elements, threads)
        late_elements, late_threads = elements[mixed], threads[mixed]
        if len(mixed):
            elements, threads = np.delete(elements, mixed), np.delete(threads, mixed)
        self.used = True
        self.thread[elements] = threads  # what was there is ordered before them
        if self.shared:
            self.spread[elements] = ONE_THREAD
        self._stamp(clock, elements, threads)
        partner = self.thread.take(elements, mode="wrap")
        self._join(clock, elements, threads, partner)
        if len(mixed):
            self._join(clock, late_elements, late_threads, self.thread[late_elements])
            self._stamp(clock, late_elements, late_threads)
        return partner

    def _join(self, clock: Clock, elements: ndarray, threads: ndarray, partner: ndarray) -> None:
        """Widen the sets of some elements by threads that are not ordered after them."""
        others = partner != threads
        if others.any():
            elements, threads = elements[others], threads[others]
            self.shared = True
            np.maximum.at(self.spread, elements, clock.spread(partner[others], threads))
            self._stamp(clock, elements, threads)

    def _stamp(self, clock: Clock, elements: ndarray, threads: ndarray) -> None:
        self.late.append((elements, threads, clock.now))
        if len(self.late) > 16:
            self.settle(clock)

    def settle(self, clock: Clock) -> None:
        for elements, threads, now in self.late if clock.moved else ():  # else all times are 0
            self.block_time[elements] = clock.block[threads // clock.padded]
            self.warp_time[elements] = clock.warp[threads >> 5]
            self.fence_time[elements] = now
        self.late.clear()


class Shadow:
    """All accesses to one array since its threads were last in step."""

    def __init__(self, size: int):
        self.size = size
        self.kinds: dict[str, Accesses] = {}
        #: Loads that are not entered: what gives their elements and threads.
        self.pending: list[Callable[[], tuple[ndarray, ndarray]]] = []

    def of(self, kind: str) -> Accesses:
        """The accesses of a kind; made when first needed, as they take memory."""
        if kind not in self.kinds:
            self.kinds[kind] = Accesses(self.size)
        return self.kinds[kind]

    def flush(self, clock: Clock) -> None:
        for load in self.pending:
            self.of("load").add(clock, *load())
        self.pending.clear()

    def settle(self, clock: Clock) -> None:
        self.flush(clock)
        for accesses in self.kinds.values():
            accesses.settle(clock)

    def defer(self, clock: Clock, load: Callable[[], tuple[ndarray, ndarray]]) -> None:
        """A load that no store has to be compared with yet, and perhaps none will."""
        self.pending.append(load)
        if len(self.pending) > 64:
            self.flush(clock)

    @property
    def is_only_read(self) -> bool:
        """Whether nothing but loads is remembered."""
        return not any(its.used for kind, its in self.kinds.items() if kind != "load")

    def clear(self) -> None:
        self.pending.clear()
        for accesses in self.kinds.values():
            accesses.clear()


# ---------------------------------------------------------------------- arrays over each other
# They share one shadow: races are of addresses, not of names. Device arrays may be parts of one
# allocation, ``d[:128]`` and ``d[1:]``, or the same bytes as elements of another size. Their
# elements are counted in units that fit them all.
#: Larger allocations are watched only where an argument lies: a device array from outside the
#: kernel that reaches further is watched apart.
MOST_BYTES = 1 << 22


@dataclass
class Span:
    """Bytes that so many arrays lie in, and who touched them, unit by unit."""

    start: int
    end: int
    unit: int
    shadow: Shadow
    arrays: int = 0

    def takes(self, array: Array) -> bool:
        """Let an array share this shadow, if it lies inside and its elements are whole units."""
        start, end = bounds(array)
        inside = self.start <= start and end <= self.end
        if not inside or array.itemsize % self.unit or (start - self.start) % self.unit:
            return False
        array.shadow = self.shadow
        self.arrays += 1
        place = (start - self.start) // self.unit, array.itemsize // self.unit
        array.place = None if place == (0, 1) else place
        return True


def bounds(array: Array) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last."""
    start = start_of(array.flat)
    return start, start + array.flat.size * array.itemsize


def allocation(array: Array) -> tuple[int, int]:
    """The addresses of the allocation that an array is a part of; of a large one, its own."""
    owner = owner_of(array.flat)
    if owner.nbytes > MOST_BYTES:
        return bounds(array)
    return start_of(owner), start_of(owner) + owner.nbytes


def spread(arguments: Iterable[tuple[str, Any]]) -> list[tuple[str, Array]]:
    """The arrays among named arguments, those of tuples too."""
    own = [(name, leaf) for name, value in arguments for leaf in leaves(value)]
    own = [(name, getattr(leaf, "array", leaf)) for name, leaf in own]  # of a tensor map
    return [pair for pair in own if isinstance(pair[1], Array) and pair[1].flat.size]


def watch(spans: list[Span], names: frozenset[str], arguments: dict[str, Any]) -> None:
    """Look for races in the arrays of some names, and in all that lie over one of them."""
    groups: list[list[tuple[str, Array]]] = []
    end = 0
    for name, array in sorted(spread(arguments.items()), key=lambda pair: allocation(pair[1])):
        if not groups or allocation(array)[0] >= end:
            groups.append([])
        groups[-1].append((name, array))
        end = max(end, allocation(array)[1])
    for group in groups:
        if names.isdisjoint(name for name, _ in group):
            continue
        members = [array for _, array in group]
        if len(members) == 1 and any(span.takes(members[0]) for span in spans):
            continue  # a device array from outside, met while the kernel runs
        starts, ends = zip(*map(allocation, members), strict=True)
        first, last = min(starts), max(ends)
        steps = [bounds(array)[0] - first for array in members]
        unit = math.gcd(*steps, *(array.itemsize for array in members))
        spans.append(Span(first, last, unit, Shadow((last - first) // unit)))
        for array in members:
            spans[-1].takes(array)
