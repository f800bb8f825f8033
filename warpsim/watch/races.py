"""Who touched what in which interval: data races in shared and global memory.

Two threads race if they touch one address, at least one with a plain store (or, in shared memory,
one loads plainly after another's atomic), and nothing orders the two accesses. Ordered are:
accesses of one thread; of one block across ``syncthreads``; of one warp across ``syncwarp``; of two
blocks if the first fences after its access and then does an atomic, and the second does an atomic
later ("the last block reduces").
Source: CUDA C++ Programming Guide, "Memory Fence Functions" and "Synchronization Functions".
"""

from __future__ import annotations

import ast

import numpy as np

from warpsim.front.names import MISSING, KernelName
from warpsim.run.memory import Array
from warpsim.watch.advice import barrier_cure

ndarray = np.ndarray

#: How far the threads of a set of accesses are spread.
ONE_THREAD, ONE_WARP, ONE_BLOCK, SEVERAL_BLOCKS = range(4)


class Clock:
    """How many barriers each block and each warp has passed, and which blocks have published."""

    def __init__(self, blocks: int, padded: int):
        self.padded = padded
        self.block = np.zeros(blocks, np.int32)
        self.warp = np.zeros(blocks * padded // 32, np.int32)
        self.fenced = np.zeros(blocks, bool)
        self.released = np.zeros(blocks, np.int32)
        self.acquired = np.zeros(blocks, np.int32)
        self.now = 0
        self.any_fence = False

    def spread(self, first: ndarray, second: ndarray) -> ndarray:
        """How far apart two different threads are."""
        same_block = first // self.padded == second // self.padded
        return np.where(
            first >> 5 == second >> 5, ONE_WARP, np.where(same_block, ONE_BLOCK, SEVERAL_BLOCKS)
        ).astype(np.uint8)


class Accesses:
    """The accesses of one kind (loads, stores or atomics) to each element of an array.

    For each element: one thread that made such an access, how far the others are from it, and
    the state of the clocks at the latest of them.
    """

    def __init__(self, size: int):
        self.thread = np.full(size, -1, np.int32)
        self.spread = np.zeros(size, np.uint8)
        self.block_time = np.zeros(size, np.int32)
        self.warp_time = np.zeros(size, np.int32)
        self.fence_time = np.zeros(size, np.int32)
        self.used = False

    def clear(self) -> None:
        if self.used:
            self.thread.fill(-1)
            self.used = False

    def unordered(self, clock: Clock, elements: ndarray, threads: ndarray) -> ndarray:
        """Positions in ``elements`` whose earlier accesses are by others and not ordered."""
        if not self.used:
            return np.zeros(0, np.intp)
        before = self.thread[elements]
        other = (before >= 0) & ((before != threads) | (self.spread[elements] > ONE_THREAD))
        place = np.flatnonzero(other)
        if not len(place):
            return place
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
            everywhere = clock.released.min()
            released = np.where(spread < SEVERAL_BLOCKS, clock.released[first_block], everywhere)
            ordered |= (self.fence_time[element] < released) & (released <= clock.acquired[block])
        return place[~ordered]

    def add(self, clock: Clock, elements: ndarray, threads: ndarray) -> ndarray:
        """Remember accesses; returns, for each, the thread that shares its element just now."""
        mixed = self.unordered(clock, elements, threads)
        late_elements, late_threads = elements[mixed], threads[mixed]
        if len(mixed):
            fresh = np.ones(len(elements), bool)
            fresh[mixed] = False
            elements, threads = elements[fresh], threads[fresh]
        self.used = True
        self.thread[elements] = threads  # what was there is ordered before them
        self.spread[elements] = ONE_THREAD
        self._stamp(clock, elements, threads)
        partner = self.thread[elements]
        self._join(clock, elements, threads)
        self._join(clock, late_elements, late_threads)
        self._stamp(clock, late_elements, late_threads)
        return partner

    def _join(self, clock: Clock, elements: ndarray, threads: ndarray) -> None:
        """Widen the sets of some elements by threads that are not ordered after them."""
        others = self.thread[elements] != threads
        if others.any():
            elements, threads = elements[others], threads[others]
            apart = clock.spread(self.thread[elements], threads)
            np.maximum.at(self.spread, elements, apart)
            self._stamp(clock, elements, threads)

    def _stamp(self, clock: Clock, elements: ndarray, threads: ndarray) -> None:
        self.block_time[elements] = clock.block[threads // clock.padded]
        self.warp_time[elements] = clock.warp[threads >> 5]
        self.fence_time[elements] = clock.now


class Shadow:
    """All accesses to one array since its threads were last in step."""

    def __init__(self, size: int):
        self.size = size
        self.kinds: dict[str, Accesses] = {}
        self.pending: list[tuple[ndarray, ndarray]] = []

    def of(self, kind: str) -> Accesses:
        """The accesses of a kind; made when first needed, as they take memory."""
        if kind not in self.kinds:
            self.kinds[kind] = Accesses(self.size)
        return self.kinds[kind]

    def flush(self, clock: Clock) -> None:
        """Enter the loads that were put off."""
        for elements, threads in self.pending:
            self.of("load").add(clock, elements, threads)
        self.pending.clear()

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

    def look_for_races(self, array, elements: ndarray, mask, site: int, op: str, value) -> None:
        shadow, clock = array.root.shadow, self.launch.clock
        threads = self.thread_number
        if mask.count != self.lanes:
            elements, threads = elements[mask.active], threads[mask.active]
        if op == "load":
            # an atomic of another thread may come before or after this load; in shared memory,
            # where a barrier is cheap, that is a mistake; in global memory, a way to look ahead
            kinds = ("store", "atomic") if array.space == "shared" else ("store",)
            clash = self._clash(shadow, kinds, clock, elements, threads)
            shadow.pending.append((elements, threads))
            if len(shadow.pending) > 64:
                shadow.flush(clock)
        elif op == "atomic":
            shadow.flush(clock)
            clash = self._clash(shadow, ("store",), clock, elements, threads)
            shadow.of("atomic").add(clock, elements, threads)
            self._publish(clock, threads)
        else:
            shadow.flush(clock)
            clash = self._clash(shadow, ("store", "load", "atomic"), clock, elements, threads)
            partner = shadow.of("store").add(clock, elements, threads)
            new = value[mask.active] if type(value) is ndarray else value
            if clash is not None and self._same(array, elements, new, clash[0]):
                clash = (*clash[:3], "same-value-race")
            if clash is None:
                clash = self._meeting(elements, threads, partner, value)
        if clash is not None:
            self._report_race(array, op, site, *clash[1:])

    @staticmethod
    def _clash(shadow: Shadow, kinds, clock: Clock, elements, threads):
        """The first access that is not ordered after an earlier one of the given kinds."""
        for kind in kinds:
            accesses = shadow.kinds.get(kind)
            if accesses is None:
                continue
            places = accesses.unordered(clock, elements, threads)
            if len(places):
                place = places[0]
                others = accesses.thread[elements[places]]
                in_warp = (others >> 5 == threads[places] >> 5).all() and bool(
                    (accesses.spread[elements[places]] <= ONE_WARP).all()
                )
                who = (int(elements[place]), int(threads[place]), int(others[0]), in_warp)
                return places, who, kind, "race"
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
            start = self.geometry.first * self.padded
            mine, theirs = value[threads[places] - start], value[partner[places] - start]
            if not np.array_equal(mine, theirs):
                kind = "race"
                places = places[mine != theirs]
        place = places[0]
        who = (int(elements[place]), int(threads[place]), int(partner[place]), False)
        return places, who, "store", kind

    def _report_race(self, array, op: str, site: int, who, other_op: str, kind: str) -> None:
        element, thread, other, in_warp = who
        me, they = self.where_of(thread), self.where_of(other)
        same_block = me.block == they.block
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}
        does = verb[op]
        them = f"thread {they.thread}" + ("" if same_block else f" of block {they.block}")
        if other == thread:  # one of several, of which it is the first
            them, verb = "other threads", {op: word.removesuffix("s") for op, word in verb.items()}
        if kind == "same-value-race":
            advice = "all write the same value, so nothing breaks; one thread would be enough"
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
            thread - self.geometry.first * self.padded,
        )

    # ------------------------------------------------------------------ what orders accesses
    def barrier_passed(self) -> None:
        """After ``syncthreads``: the accesses of each block that arrived are ordered."""
        if self.counters is None:
            return
        clock, first = self.launch.clock, self.geometry.first
        arrived = self.mask.active.reshape(self.blocks, -1).any(1)
        own = [array.shadow for array in self._allocated.values() if array.shadow is not None]
        for shadow in own:
            if arrived.all():
                shadow.clear()  # nothing before the barrier can clash with what comes after
            else:
                shadow.flush(clock)
        for shadow in self.launch.shadows.values():
            shadow.flush(clock)
        clock.block[first : first + self.blocks][arrived] += 1

    def grid_passed(self) -> None:
        """After a barrier of the whole grid: all accesses so far are ordered."""
        if self.counters is not None:
            self.launch.clock.block += 1
            for shadow in self.shadows():
                shadow.clear()

    def syncwarp(self, *mask_and_site) -> None:
        """Memory is ordered among the threads of each warp that arrived."""
        if self.counters is None:
            return
        clock = self.launch.clock
        for shadow in self.shadows():
            shadow.flush(clock)
        warps = np.flatnonzero(self.mask.active.reshape(-1, 32).any(1))
        clock.warp[warps + self.geometry.first * self.padded // 32] += 1

    def threadfence(self, site: int) -> None:
        """What the active threads wrote is visible before what they write next."""
        if self.counters is None:
            return
        clock = self.launch.clock
        for shadow in self.shadows():
            shadow.flush(clock)
        clock.any_fence = True
        clock.fenced[np.unique(self.thread_number[self.mask.active] // self.padded)] = True

    threadfence_system = threadfence

    def threadfence_block(self, site: int) -> None:
        """Orders the writes of a thread within its block; no thread waits, so no race is cured."""

    @staticmethod
    def _publish(clock: Clock, threads: ndarray) -> None:
        """An atomic: what its block fenced before is published, and it sees what others did."""
        if not clock.any_fence:
            return
        clock.now += 1
        blocks = np.unique(threads // clock.padded)
        clock.released[blocks[clock.fenced[blocks]]] = clock.now
        clock.acquired[blocks] = clock.now


# ---------------------------------------------------------------------- which arrays to watch
#: Functions that change the elements of their first argument.
_STORING = ("atomic.", "pieces.store", "pieces.copy")


def stored_arguments(source, callee_stores) -> frozenset[str]:
    """Arguments of a function whose elements it may change, itself or through what it calls.

    Parameters
    ----------
    source : warpsim.front.names.Source
    callee_stores : callable
        Gives, for a device function, the positions of the arguments that it may change.
    """
    stored, aliases = set(), []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            stored.add(_root(node.value))
        elif isinstance(node, ast.Call):
            function = source.static(node.func)
            if isinstance(function, KernelName) and function.path.startswith(_STORING):
                stored.add(_root(node.args[0]) if node.args else None)
            elif function is not MISSING and hasattr(function, "py_func"):
                for position in callee_stores(function):
                    if position < len(node.args):
                        stored.add(_root(node.args[position]))
        elif isinstance(node, ast.Assign):
            names = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            used = {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)}
            aliases += [(name, used) for name in names]
        elif isinstance(node, ast.For):
            names = [n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)]
            used = {n.id for n in ast.walk(node.iter) if isinstance(n, ast.Name)}
            aliases += [(name, used) for name in names]
    grown = True
    while grown:
        before = len(stored)
        for name, used in aliases:
            if name in stored:
                stored |= used
        grown = len(stored) > before
    if None in stored:
        return frozenset(source.arguments)
    return frozenset(stored) & frozenset(source.arguments)


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
