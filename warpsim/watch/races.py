"""Who touched what in which interval: data races in shared and global memory.

Two threads race if they touch one address, at least one with a plain store (or, in shared memory,
one loads plainly after another's atomic; in global memory that counts if what is loaded may reach a
store, as looking ahead is no mistake), and nothing orders the two accesses. Ordered are: accesses
of one thread; of one block across ``syncthreads``; of one warp across ``syncwarp``; of two blocks
if the first fences after its access and then does an atomic, and the second does an atomic later
and then, before it loads, fences ("the last block reduces").
Source: CUDA C++ Programming Guide, "Memory Fence Functions" and "Synchronization Functions".
"""

from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.masks import in_warps
from warpsim.core.memory import Array
from warpsim.watch.access_history import NOWHERE, ONE_WARP, Clock, Shadow
from warpsim.watch.advice import barrier_cure, update_cure
from warpsim.watch.disputes import bytes_of
from warpsim.watch.findings import VERBS, Finding

HARMLESS = "same-value-race"


class Races:
    """Race detection of the running threads."""

    state: Any

    def _own_shadows(self) -> list[Shadow]:
        return [a.shadow for a in self.state.allocated.values() if a.shadow is not None]

    def shadows(self) -> list[Shadow]:
        return [*self._own_shadows(), *self.state.launch.shadows.values()]

    def track(self, array: Array, size: int) -> None:
        if self.state.counters is not None and not self.state.launch.one_thread:
            array.shadow = Shadow(size)

    def defer_load(self, array, uniform, varying, mask) -> bool:
        """Whether a load conflicts with nothing: then where it was is only found out if need be."""
        state = self.state
        root = array.root
        is_shared = root.place is not None or root.pending is not None
        if is_shared or not root.shadow.is_only_read or state.launch.disputes.thorough:
            return False
        if root.written is not None and not root.written.all():
            return False
        places = partial(state.elements, array, uniform, varying)
        root.shadow.defer(state.launch.clock, lambda: self._of_active(places(), mask))
        return True

    def _of_active(self, elements: ndarray, mask) -> tuple[ndarray, ndarray]:
        """The elements of the mask's lanes, and the numbers of those threads."""
        threads = self.state.geometry.thread_number
        if mask.count == self.state.lanes:
            return elements, threads
        return elements[mask.indices], threads[mask.indices]

    def look_for_races(self, array, elements: ndarray, mask, site: int, op: str, value) -> None:
        state = self.state
        shadow, clock, disputes = array.root.shadow, state.launch.clock, state.launch.disputes
        elements, threads = self._of_active(elements, mask)
        own = elements
        if array.root.place is not None:
            own, elements, threads = self._in_units(array.root.place, elements, threads)
        if op == "load":
            # an atomic of another thread may come before or after this load; in shared memory,
            # where a barrier is cheap, that is a mistake; in global memory it may be a look ahead
            counts = array.space == "shared" or state.site(site).stored
            kinds = ("store", "atomic") if counts else ("store",)
            clash = self._clash(shadow, kinds, clock, elements, threads, clock.acquired)
            shadow.defer(clock, lambda: (elements, threads))
            if disputes.thorough:
                number, barriers = state.base + site, clock.block[threads // clock.padded]
                disputes.of(shadow).add_loads(elements, threads, number, barriers)
        elif op == "atomic":
            shadow.flush(clock)
            clash = self._clash(shadow, ("store",), clock, elements, threads)
            atomics = shadow.of("atomic")
            atomics.add(clock, elements, threads)
            atomics.note(clock, threads)
            self._publish(clock, threads)
        else:
            shadow.flush(clock)
            kinds = "load", "atomic"
            clash = self._clash(shadow, kinds, clock, elements, threads)
            self._look_at_stores(array, own, elements, threads, site, value, mask, clash)
        if clash is None:
            return
        of_both = {op, clash[2]} == {"load", "store"} and clash[3] == "race"
        if of_both and self._clash(shadow, kinds[1:], clock, elements, threads) is None:
            # whether the load may see what does not stay is asked later
            place, who = state.site(site), clash[1]
            finding = self._race(array, op, site, who, clash[2], "race")
            if state.launch.findings.setdefault(("unordered-load", place), finding) is finding:
                harmless = self._race(array, op, site, who, clash[2], HARMLESS)
                disputes.harmless.setdefault(place, harmless)
        else:
            self._report_race(array, op, site, *clash[1:])

    def _look_at_stores(self, array, own, elements, threads, site: int, value, mask, loaded):
        """Keep stores that others conflict with: whether it matters is asked later.

        ``loaded`` says which of the elements others have loaded, with nothing to order the two.
        """
        state = self.state
        shadow, clock, disputes = array.root.shadow, state.launch.clock, state.launch.disputes
        stores = shadow.of("store")
        clash = self._clash(shadow, ("store",), clock, elements, threads)
        mixed = NOWHERE if clash is None else clash[0]
        last = stores.thread[elements]
        before = last[mixed]
        partner = stores.add(clock, elements, threads, mixed)
        fresh = np.delete(np.arange(len(elements)), mixed) if len(mixed) else np.s_[:]
        if disputes.thorough:
            ordered = np.arange(len(elements))[fresh]
            ordered = ordered[last[ordered] != threads[ordered]]  # a thread's own go on
            ordered = ordered[~np.isin(elements[ordered], elements[mixed])]
            if loaded is not None and loaded[2] == "load":
                met_late = np.intersect1d(loaded[0], ordered)
                disputes.loaded_before(shadow, elements[met_late], state.base + site)
            who = threads[ordered]
            disputes.restart(shadow, elements[ordered], who, clock.block[who // clock.padded])
        else:
            disputes.restart(shadow, elements[fresh])
        met = np.arange(len(elements))[fresh][partner != threads[fresh]]
        if clash is None and not len(met) and not disputes.thorough:
            return
        number, places = state.base + site, mixed if len(mixed) else met
        others = before if len(mixed) else partner[partner != threads[fresh]]
        if not disputes.thorough and state.launch.is_settled(state.site(site)):
            disputes.places[1].add(number)
            differ = np.zeros(1, bool)
        else:
            disputed, width = disputes.of(shadow), len(elements) // mask.count
            if type(value) is ndarray:
                value = value[mask.indices]
            rows = bytes_of(value, array.dtype, mask.count, len(elements))
            if len(mixed):  # there stands what the one thread before them has left
                old = bytes_of(array.flat[own[mixed]], array.dtype, len(mixed), len(mixed) * width)
                theirs = old[np.arange(len(mixed)) * width + mixed % width]
                new = np.flatnonzero(~disputed.is_open[elements[mixed]])
                if len(new):
                    disputed.add(elements[mixed[new]], before[new], theirs[new], -1)
            else:
                theirs = rows[np.searchsorted(threads, others)]
            disputed.is_open[elements[met]] = disputed.is_open[elements[mixed]] = True
            chosen = np.flatnonzero(disputed.is_open[elements] | disputes.thorough)
            disputed.add(elements[chosen], threads[chosen], rows[chosen], number)
            disputes.tidy(disputed)
            differ = (rows[places] != theirs).any(1)
        if not len(places):
            return
        if number not in disputes.told or (differ.any() and not disputes.told[number]):
            disputes.told[number] = bool(differ.any())
            first, in_warp = int(differ.argmax()), clash is not None and clash[1][3]
            place = places[first]
            who = int(elements[place]), int(threads[place]), int(others[first]), in_warp
            pair = [self._race(array, "store", site, who, "store", k) for k in ("race", HARMLESS)]
            state.launch.findings["unordered", state.site(site)] = pair[0]
            disputes.harmless[state.site(site)] = pair[1]

    @staticmethod
    def _in_units(place: tuple[int, int], elements: ndarray, threads: ndarray) -> tuple:
        """Elements of an array as units of a shadow that it shares; each may be several."""
        first, width = place
        own, threads = np.repeat(elements, width), np.repeat(threads, width)
        return own, own * width + first + np.arange(len(own)) % width, threads

    @staticmethod
    def _clash(shadow: Shadow, kinds, clock: Clock, elements, threads, sees=None):
        """The first access that is not ordered after an earlier one of the given kinds."""
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

    def _report_race(self, array, op: str, site: int, who, other_op: str, kind: str) -> None:
        finding = self._race(array, op, site, who, other_op, kind)
        self.state.launch.findings.setdefault(("race", self.state.site(site)), finding)

    def _race(self, array, op: str, site: int, who, other_op: str, kind: str) -> Finding:
        state = self.state
        element, thread, other, in_warp = who
        if array.root.place is not None:
            first, width = array.root.place
            element = (element - first) // width
        me, they = state.geometry.where(thread), state.geometry.where(other)
        same_block = me.block == they.block
        does, verb = VERBS[op], VERBS[other_op]
        them = f"thread {they.thread}" + ("" if same_block else f" of block {they.block}")
        if other == thread:  # one of several, of which it is the first
            them, verb = "other threads", verb.removesuffix("s")
        if kind == HARMLESS:
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
        elif "= " in state.site(site).code:
            advice = update_cure(state.site(site).code, array.name, same_block)
        elif array.space == "global" and op == "store" and other_op == "store":
            advice = (
                "the last one wins: give each thread its own element (cuda.atomic is for values "
                "that are to be added up, or compared)"
            )
        elif not same_block:
            advice = "blocks cannot wait for each other: use cuda.atomic, or a second launch"
        else:
            advice = barrier_cure(self.state, in_warp)
        text = (
            f"{does} {state.spelled(array, element)}, which {them} {verb} too, with "
            f"nothing to order the two: {advice}"
        )
        return state.finding(kind, text, site, thread - state.geometry.start)

    # ------------------------------------------------------------------ what orders accesses
    def _settled(self) -> Clock | None:
        """The clock, which is to move on, with all accesses so far settled; None if untraced."""
        if self.state.counters is None:
            return None
        clock = self.state.launch.clock
        for shadow in self.shadows():
            shadow.settle(clock)
        clock.moved = True
        return clock

    def _begin_anew(self, shadows: list[Shadow]) -> None:
        """Nothing that was before can clash with what comes now."""
        for shadow in shadows:
            self.state.launch.disputes.restart(shadow)
            shadow.clear()

    def barrier_passed(self) -> None:
        """After ``syncthreads``: the accesses of each block that arrived are ordered."""
        state = self.state
        if state.counters is None:
            return
        clock, first = state.launch.clock, state.geometry.first
        arrived = state.mask.active.reshape(state.blocks, -1).any(1)
        if arrived.all():
            alone = len(clock.block) == 1  # no other block touches global arrays
            self._begin_anew(self.shadows() if alone else self._own_shadows())
        self._settled().block[first : first + state.blocks][arrived] += 1

    def grid_passed(self) -> None:
        if clock := self._settled():
            clock.block += 1
            self._begin_anew(self.shadows())

    def syncwarp(self, *mask_and_site) -> None:
        if clock := self._settled():
            warps = np.flatnonzero(in_warps(self.state.mask.active))
            clock.warp[warps + self.state.geometry.start // 32] += 1

    def threadfence(self, site: int) -> None:
        """What the active threads wrote is visible before what they write next."""
        state, clock = self.state, self._settled()
        if clock is None:
            return
        clock.any_fence = True
        clock.now += 1
        blocks = np.unique(state.geometry.thread_number[state.mask.active] // state.padded)
        clock.fenced[blocks], clock.announces[blocks] = clock.now, True
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
        fenced = blocks[clock.fenced[blocks] > 0]
        clock.released[fenced], clock.covered[fenced] = clock.now, clock.fenced[fenced]
        clock.announces[blocks] = False
        clock.seen[blocks] = clock.now
