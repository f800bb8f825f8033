"""TMA for one warp: boxes of matrices between global and shared memory.

Source: NVIDIA, PTX ISA, "cp.async.bulk.tensor".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from warpsim.core.memory import Array
from warpsim.ptx.mbarrier import HOPPER, MBarriers
from warpsim.ptx.wgmma_operands import Box
from warpsim.watch.happens_before import joined

ndarray = np.ndarray


@dataclass
class Store:
    """A TMA store under way."""

    copy: Callable
    lane: int
    site: int
    step: int
    group: int | None = None


class Tiles(MBarriers):
    """What the lane program of one warp does with TMA."""

    def end_hopper(self) -> None:
        """The end of the lane program: no block may end while its memory is still read."""
        for store in self.stores:
            self.base = 0
            self.found(
                "race",
                "ends while this TMA store may still read the block's shared memory: the thread "
                "that began it waits for it before it returns (wait_stores)",
                store.site, store.lane,
            )  # fmt: skip
            store.copy()

    def same_start(self, source: Box, other: Box, site: int) -> int:
        """Whether two tensors begin in one place."""
        begins = (one.matrix.__array_interface__["data"][0] for one in (source, other))
        return int(next(begins) == next(begins))

    def tma_load(
        self, to: Array, index, source: Box, corner, bars: Array, bar, mask=None, *, site: int
    ) -> None:
        """Begin to copy a box of a tensor to shared memory; it arrives at an mbarrier."""
        self.needs(HOPPER, "a TMA copy", site)
        for start, place, what in self._boxes(to, index, source, corner, site):
            address, name, *_ = self._chosen(bars, bar, site)[0]
            values = source.read(place)
            self._count_box(source, place, site, "load")
            ranks = [None] if mask is None else range(len(self.turns.blocks))
            several = 0 if mask is None else self.uniform(mask, site)
            for rank in ranks:
                if rank is None or several >> rank & 1:
                    its = self.its if rank is None else self.turns.blocks[rank]
                    self._fly(its, address, name, source, start, values, what, site)

    def _fly(
        self, its, address: int, name: str, source: Box, start: int, values, what, site
    ) -> None:
        """A box is under way to a block's shared memory."""
        barrier = self._mbarrier(its, address, name, site, asynchronous=True)
        if barrier is None:
            return
        step = self.its.clocks.begin(barrier.agent)
        where = slice(start, start + source.bytes)
        self.ordered(its, barrier.agent, step, where, site, True, what)
        if its is not self.its:
            its.reach(barrier.agent, step, self, self.base + site, "copies to")
        handed = np.zeros((2, barrier.agent + 1), np.int32)
        handed[:, barrier.agent] = step
        barrier.handed = joined(barrier.handed, handed)
        self.count_tile(site, "store", 1, source.bytes)
        chunks, memory = source.chunks + start // 16, its.memory.reshape(-1, 16)
        barrier.flying.append(lambda: memory.__setitem__(chunks, values))
        barrier.arrived += source.bytes
        barrier.settle()

    def _boxes(self, array: Array, index, box: Box, corner: tuple, site: int) -> list[tuple]:
        """Where in shared memory the active lane copies a box, at which corner of the tensor."""
        if not self.mask:
            return []
        if self.mask.count > 1:
            self.found(
                "race",
                f"begins this copy in {self.mask.count} threads, and each copies the whole box: "
                "let one thread do it",
                site, self.one_lane(),
            )  # fmt: skip
        start = self._tile(array, index, box.bytes, box.alignment, "copies", site)
        if start is None:
            return []
        lane = self.one_lane()
        place = tuple(int(c[lane]) if type(c) is ndarray else int(c) for c in corner)
        return [(start, place, array.name)]

    def _tile(self, array: Array, index, size: int, step: int, verb: str, site: int) -> int | None:
        """The first byte of a tile in shared memory, if it is inside, at a multiple of `step`."""
        if array.space != "shared":
            self.found(
                "out-of-bounds", f"takes {array.name} for a tile in shared memory, and it is in "
                f"{array.space} memory", site, self.one_lane(),
            )  # fmt: skip
            return None
        uniform, varying, bad = self.locate(array, index, site, "load")
        if not self.active_part(bad):
            return None
        first = uniform if varying is None else self.uniform(varying + uniform, site)
        start = first * array.itemsize + array.root.address
        what = f"{verb} a tile of {size:,} bytes at {self.spelled(array, first)}"
        if start + size > array.root.address + array.root.flat.size * array.itemsize:
            where = f"{what}, beyond the end of {array.name}"
            self.found("out-of-bounds", where, site, self.one_lane())
            return None
        if start % step:
            self.found(
                "misaligned",
                f"{what}, byte {start:,} of shared memory: it begins at a multiple of {step:,}",
                site, self.one_lane(),
            )  # fmt: skip
            return None
        return start

    def _count_box(self, box: Box, corner: tuple, site: int, op: str) -> None:
        """A box is one request, of the sectors that its rows lie in; races are of its elements."""
        if self.counters is None:
            return
        _, count = self.counters.of(self.base + site, "global", op)
        elements, size = box.elements(corner), box.array.itemsize
        first = elements[:, :1] * size + box.array.root.address
        sectors = (first + elements.shape[1] * size - 1) // 32 - first // 32 + 1
        count.requests += 1
        count.lanes += 1
        count.bytes += elements.size * size
        if elements.size:
            count.sectors += int(sectors.sum())
            count.ideal_sectors += int(sectors.sum())
            self.counters.touch(box.array, elements.ravel())
        if box.array.root.shadow is not None and elements.size:
            self._look_in_box(box.array, elements.ravel(), site, op)

    def count_tile(self, site: int, op: str, requests: int, size: int) -> None:
        """Some bytes of tiles in shared memory, 128 a pass: swizzled, they have no conflicts."""
        if self.counters is not None:
            _, count = self.counters.of(self.base + site, "shared", op)
            count.requests += requests
            count.lanes += requests
            count.bytes += size
            count.wavefronts += size // 128
            count.ideal_wavefronts += size // 128

    def _look_in_box(self, array: Array, elements: ndarray, site: int, op: str) -> None:
        shadow, clock = array.root.shadow, self.launch.clock
        threads = np.full(elements.size, self.geometry.start + self.one_lane(), np.int32)
        if array.root.place is not None:
            _, elements, threads = self._in_units(array.root.place, elements, threads)
        shadow.flush(clock)
        kinds = ("store", "atomic") if op == "load" else ("store", "load", "atomic")
        clash = self._clash(shadow, kinds, clock, elements, threads)
        shadow.of(op).add(clock, elements, threads)
        if clash is not None:
            self._report_race(array, op, site, *clash[1:])

    def tma_store(self, box: Box, corner, source: Array, index, site: int) -> None:
        """Begin to copy a box from shared memory to a tensor."""
        self.needs(HOPPER, "a TMA copy", site)
        for start, place, what in self._boxes(source, index, box, corner, site):
            self._count_box(box, place, site, "store")
            self.count_tile(site, "load", 1, box.bytes)
            step = self.its.clocks.begin(self.storing)
            where = slice(start, start + box.bytes)
            self.ordered(self.its, self.storing, step, where, site, False, what)
            chunks, memory = box.chunks + start // 16, self.its.memory.reshape(-1, 16)

            def copy(place=place, chunks=chunks, memory=memory) -> None:
                box.write(place, memory[chunks])

            self.stores.append(Store(copy, self.one_lane(), self.base + site, step))

    def commit_stores(self, site: int) -> None:
        """Close the group of the TMA stores begun since the last one."""
        self.store_groups += 1
        for store in self.stores:
            if store.group is None and self.mask and self.mask.active[store.lane]:
                store.group = self.store_groups

    def wait_stores(self, most: int, site: int) -> None:
        """Wait until at most so many groups of this thread's stores are under way."""
        newest = self.store_groups - most
        for store in list(self.stores):
            mine = self.mask and self.mask.active[store.lane]
            if mine and store.group is not None and store.group <= newest:
                store.copy()
                self.its.clocks.done(self.number, self.storing, store.step)
                self.stores.remove(store)
