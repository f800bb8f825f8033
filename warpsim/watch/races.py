"""Who touched what in which interval: data races in shared and global memory.

Two threads race if they touch one address, at least one with a plain store (or, in shared memory,
one loads plainly after another's atomic; in global memory that counts if what is loaded may reach a
store, as looking ahead is no mistake), and nothing orders the two accesses. Ordered are: accesses
of one thread; of one block across ``syncthreads``; of one warp across ``syncwarp``; of two blocks
if the first fences after its access and then does an atomic, and the second does an atomic later
and then, before it loads, fences ("the last block reduces").
Source: CUDA C++ Programming Guide, "Memory Fence Functions" and "Synchronization Functions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from warpsim.run.masks import in_warps
from warpsim.run.memory import Array
from warpsim.watch.advice import barrier_cure

ndarray = np.ndarray

#: How far the threads of a set of accesses are spread.
ONE_THREAD, ONE_WARP, ONE_BLOCK, SEVERAL_BLOCKS = range(4)
NOWHERE = np.zeros(0, np.intp)


class Clock:
    """How many barriers each block and each warp has passed, and which blocks have published."""

    def __init__(self, blocks: int, padded: int):
        self.padded = padded
        self.block = np.zeros(blocks, np.int32)
        self.warp = np.zeros(blocks * padded // 32, np.int32)
        self.fenced = np.zeros(blocks, bool)
        self.announces = np.zeros(blocks, bool)  # has fenced since its last atomic
        self.released = np.zeros(blocks, np.int32)
        self.seen = np.zeros(blocks, np.int32)  # the last atomic
        self.acquired = np.zeros(blocks, np.int32)  # the last atomic before the last fence
        self.now = 0
        self.any_fence = self.moved = False  # has any of the times above moved?

    def spread(self, first: ndarray, second: ndarray) -> ndarray:
        """How far apart two different threads are."""
        same_block = first // self.padded == second // self.padded
        return np.where(
            first >> 5 == second >> 5, ONE_WARP, np.where(same_block, ONE_BLOCK, SEVERAL_BLOCKS)
        ).astype(np.uint8)


class Accesses:
    """The accesses of one kind (loads, stores or atomics) to each element of an array.

    For each element: one thread that made such an access, how far the others are from it, and
    the state of the clocks at the latest of them. A barrier mostly comes before anyone asks for
    that state, so it is written down only when needed.
    """

    def __init__(self, size: int):
        self.thread = np.full(size, -1, np.int32)
        self.spread = np.zeros(size, np.uint8)
        self.block_time = np.zeros(size, np.int32)
        self.warp_time = np.zeros(size, np.int32)
        self.fence_time = np.zeros(size, np.int32)
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

    def unordered(
        self, clock: Clock, elements: ndarray, threads: ndarray, sees: ndarray | None = None
    ) -> ndarray:
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
        ordered = (
            (first_block == block)
            & (spread <= ONE_BLOCK)
            & (self.block_time[element] < clock.block[block])
        )
        ordered |= (
            (first >> 5 == thread >> 5)
            & (spread <= ONE_WARP)
            & (self.warp_time[element] < clock.warp[thread >> 5])
        )
        if clock.any_fence:
            sees = clock.seen if sees is None else sees
            alone = spread < SEVERAL_BLOCKS
            released = np.where(alone, clock.released[first_block], clock.released.min())
            fits = (self.fence_time[element] < released) & (released <= sees[block])
            if self.last is not None:
                fits = np.where(alone, fits, self._all_published(clock, block, sees))
            ordered |= fits
        return place[~ordered]

    def _all_published(self, clock: Clock, block: ndarray, sees: ndarray) -> ndarray:
        """Whether each block sees the atomics of all the others here."""
        did = self.last > 0
        open_ = did & (self.last > clock.released)
        others = np.count_nonzero(open_) - open_[block]
        return (others == 0) & (clock.released[did].max(initial=0) <= sees[block])

    def note(self, clock: Clock, threads: ndarray) -> None:
        """Remember which blocks did atomics here; those that announce a fence count nothing."""
        if self.last is None:
            self.last = np.zeros(len(clock.block), np.int32)
        blocks = threads // clock.padded
        self.last[blocks[~clock.announces[blocks]]] = clock.now + 1

    def add(
        self, clock: Clock, elements: ndarray, threads: ndarray, mixed: ndarray | None = None
    ) -> ndarray:
        """Remember accesses; returns, for each, the thread that shares its element just now.

        ``mixed`` is what :meth:`unordered` says of them, if it has been asked.
        """
        if mixed is None:
            mixed = self.unordered(clock, elements, threads)
        late_elements, late_threads = elements[mixed], threads[mixed]
        if len(mixed):
            fresh = np.ones(len(elements), bool)
            fresh[mixed] = False
            elements, threads = elements[fresh], threads[fresh]
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
        """Write down the times of what came since the clocks moved."""
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
        """Enter the loads that were put off."""
        for load in self.pending:
            self.of("load").add(clock, *load())
        self.pending.clear()

    def settle(self, clock: Clock) -> None:
        """Write all down before the clocks move."""
        self.flush(clock)
        for accesses in self.kinds.values():
            accesses.settle(clock)

    def put_off(self, clock: Clock, load: Callable[[], tuple[ndarray, ndarray]]) -> None:
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


class Races:
    """Race detection of the running threads."""

    def shadows(self) -> list[Shadow]:
        own = [array.shadow for array in self._allocated.values() if array.shadow is not None]
        return [*own, *self.launch.shadows.values()]

    def track(self, array: Array, size: int) -> None:
        """Watch an array for races from now on."""
        if self.counters is not None:
            array.shadow = Shadow(size)

    def put_off_load(self, array, uniform, varying, mask) -> bool:
        """Whether a load can meet nothing: then where it was is only found out if need be."""
        root = array.root
        if root.place is not None or root.pending is not None or not root.shadow.is_only_read:
            return False
        if root.written is not None and not root.written.all():
            return False

        def load() -> tuple[ndarray, ndarray]:
            elements, threads = self.elements(array, uniform, varying), self.thread_number
            if mask.count == self.lanes:
                return elements, threads
            return elements[mask.indices], threads[mask.indices]

        root.shadow.put_off(self.launch.clock, load)
        return True

    def look_for_races(self, array, elements: ndarray, mask, site: int, op: str, value) -> None:
        shadow, clock = array.root.shadow, self.launch.clock
        threads = self.thread_number
        if mask.count != self.lanes:
            elements, threads = elements[mask.indices], threads[mask.indices]
        own = elements
        if array.root.place is not None:
            own, elements, threads = self._in_units(array.root.place, elements, threads)
        if op == "load":
            # an atomic of another thread may come before or after this load; in shared memory,
            # where a barrier is cheap, that is a mistake; in global memory it may be a look ahead
            counts = array.space == "shared" or self.site(site).stored
            kinds = ("store", "atomic") if counts else ("store",)
            clash = self._clash(shadow, kinds, clock, elements, threads, clock.acquired)
            shadow.put_off(clock, lambda: (elements, threads))
        elif op == "atomic":
            shadow.flush(clock)
            clash = self._clash(shadow, ("store",), clock, elements, threads)
            atomics = shadow.of("atomic")
            atomics.add(clock, elements, threads)
            atomics.note(clock, threads)
            self._publish(clock, threads)
        else:
            shadow.flush(clock)
            clash = self._clash(shadow, ("store", "load", "atomic"), clock, elements, threads)
            mixed = clash[0] if clash is not None and clash[2] == "store" else NOWHERE
            partner = shadow.of("store").add(clock, elements, threads, mixed)
            new = value[mask.indices] if type(value) is ndarray else value
            if type(new) is ndarray and len(own) > len(new):
                new = np.repeat(new, len(own) // len(new))
            if clash is not None and self._same(array, own, new, clash[0]):
                clash = (*clash[:3], "same-value-race")
            if clash is None:
                clash = self._meeting(elements, threads, partner, value)
        if clash is not None:
            self._report_race(array, op, site, *clash[1:])

    @staticmethod
    def _in_units(place: tuple[int, int], elements: ndarray, threads: ndarray) -> tuple:
        """Elements of an array as units of a shadow that it shares; each may be several."""
        first, width = place
        own, threads = np.repeat(elements, width), np.repeat(threads, width)
        return own, own * width + first + np.arange(len(own)) % width, threads

    @staticmethod
    def _clash(shadow: Shadow, kinds, clock: Clock, elements, threads, sees=None):
        """The first access that is not ordered after an earlier one of the given kinds.

        A load that a fence would order is told apart.
        """
        for kind in kinds:
            accesses = shadow.kinds.get(kind)
            if accesses is None:
                continue
            places = accesses.unordered(clock, elements, threads, sees)
            if len(places):
                place = places[0]
                others = accesses.thread[elements[places]]
                in_warp = (others >> 5 == threads[places] >> 5).all() and bool(
                    (accesses.spread[elements[places]] <= ONE_WARP).all()
                )
                who = (int(elements[place]), int(threads[place]), int(others[0]), in_warp)
                late = sees is not None and not len(accesses.unordered(clock, elements, threads))
                return places, who, kind, "unfenced" if late else "race"
        return None

    @staticmethod
    def _same(array, elements: ndarray, new, places: ndarray) -> bool:
        """Do the stores that clash leave memory as it is?"""
        wanted = new[places] if type(new) is ndarray else new
        return bool(np.all(array.flat[elements[places]] == wanted))

    def _meeting(self, elements, threads, partner, value):
        """Two threads that store to one element in the same instruction."""
        if len(partner) != len(threads):
            return None  # some were ordered by an earlier clash: reported there
        places = np.flatnonzero(partner != threads)
        if not len(places):
            return None
        kind = "same-value-race"
        if type(value) is ndarray:
            start = self.geometry.start
            mine, theirs = value[threads[places] - start], value[partner[places] - start]
            if not np.array_equal(mine, theirs):
                kind = "race"
                places = places[mine != theirs]
        place = places[0]
        who = (int(elements[place]), int(threads[place]), int(partner[place]), False)
        return places, who, "store", kind

    def _report_race(self, array, op: str, site: int, who, other_op: str, kind: str) -> None:
        element, thread, other, in_warp = who
        if array.root.place is not None:
            first, width = array.root.place
            element = (element - first) // width
        me, they = self.where_of(thread), self.where_of(other)
        same_block = me.block == they.block
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}
        does = verb[op]
        them = f"thread {they.thread}" + ("" if same_block else f" of block {they.block}")
        if other == thread:  # one of several, of which it is the first
            them, verb = "other threads", {op: word.removesuffix("s") for op, word in verb.items()}
        if kind == "same-value-race":
            advice = "all write the same value, so nothing breaks; one thread would be enough"
        elif kind == "unfenced":
            kind = "race"
            advice = (
                "the atomic told this block that the others are done, but it may still read what "
                "was there before: put cuda.threadfence() between that atomic and this read"
            )
        elif op == "load" and other_op == "atomic" and array.space == "global":
            advice = (
                "others may come later than this read: read it in a second launch, or let the "
                "block that counts last read it, with a fence before and after its count"
            )
        elif "= " in self.site(site).code:
            advice = (
                "reading, changing and writing are three steps, and updates get lost: use "
                "cuda.atomic.add, or give each thread its own element"
            )
        elif array.space == "global" and op == "store" and other_op == "store":
            advice = (
                "the last one wins: give each thread its own element (cuda.atomic is for values "
                "that are to be added up, or compared)"
            )
        elif not same_block:
            advice = "blocks cannot wait for each other: use cuda.atomic, or a second launch"
        else:
            advice = barrier_cure(self, in_warp)
        self.found(
            kind,
            f"{does} {self.spelled(array, element)}, which {them} {verb[other_op]} too, with "
            f"nothing to order the two: {advice}",
            site,
            thread - self.geometry.start,
        )

    # ------------------------------------------------------------------ what orders accesses
    def barrier_passed(self) -> None:
        """After ``syncthreads``: the accesses of each block that arrived are ordered."""
        if self.counters is None:
            return
        clock, first = self.launch.clock, self.geometry.first
        arrived = self.mask.active.reshape(self.blocks, -1).any(1)
        own = [array.shadow for array in self._allocated.values() if array.shadow is not None]
        if len(clock.block) == 1:  # no other block touches global arrays
            own += self.launch.shadows.values()
        if arrived.all():
            for shadow in own:
                shadow.clear()  # nothing before the barrier can clash with what comes after
        for shadow in self.shadows():
            shadow.settle(clock)
        clock.block[first : first + self.blocks][arrived] += 1
        clock.moved = True

    def grid_passed(self) -> None:
        """After a barrier of the whole grid: all accesses so far are ordered."""
        if self.counters is not None:
            self.launch.clock.block += 1
            self.launch.clock.moved = True
            for shadow in self.shadows():
                shadow.clear()

    def syncwarp(self, *mask_and_site) -> None:
        """Memory is ordered among the threads of each warp that arrived."""
        if self.counters is None:
            return
        clock = self.launch.clock
        for shadow in self.shadows():
            shadow.settle(clock)
        warps = np.flatnonzero(in_warps(self.mask.active))
        clock.warp[warps + self.geometry.start // 32] += 1
        clock.moved = True

    def threadfence(self, site: int) -> None:
        """What the active threads wrote is visible before what they write next."""
        if self.counters is None:
            return
        clock = self.launch.clock
        for shadow in self.shadows():
            shadow.flush(clock)
        clock.any_fence = True
        blocks = np.unique(self.thread_number[self.mask.active] // self.padded)
        clock.fenced[blocks] = clock.announces[blocks] = True
        clock.acquired[blocks] = clock.seen[blocks]

    threadfence_system = threadfence

    def threadfence_block(self, site: int) -> None:
        """Orders the writes of a thread within its block; no thread waits, so no race is cured."""

    @staticmethod
    def _publish(clock: Clock, threads: ndarray) -> None:
        """An atomic: what its block fenced before is published; a fence shows what others did."""
        if not clock.any_fence:
            return
        clock.now += 1
        clock.moved = True
        blocks = np.unique(threads // clock.padded)
        clock.released[blocks[clock.fenced[blocks]]] = clock.now
        clock.announces[blocks] = False
        clock.seen[blocks] = clock.now
