"""Hopper's asynchronous instructions for one warp: mbarriers, TMA copies, wgmma products.

What an instruction sets going is written down where it begins, and done where it is waited for: the
bytes of a TMA load arrive when a wait on its mbarrier is over, a TMA store and a product read
shared memory when their group is waited for. A kernel that waits rightly cannot tell the
difference; one that does not gets what was there before, and a finding by the clocks of
:mod:`warpsim.watch.order`.
Source: NVIDIA, PTX ISA, "wgmma.mma_async", "mbarrier", "cp.async.bulk.tensor", "fence.proxy".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from warpsim.run.fragments import widened
from warpsim.run.memory import Array
from warpsim.run.operands import Box, Operand, matrix_of, registers_of, taken
from warpsim.watch.order import Clash, joined

ndarray = np.ndarray
HOPPER = (9, 0)


@dataclass
class MBarrier:
    """A phase of an mbarrier ends when all have arrived, and all bytes that were announced."""

    name: str
    count: int
    agent: int  # the copies that arrive here, as one that does step after step
    by: int  # the warp that initialised it, at a step
    step: int
    pending: int  # arrivals to come
    phase: int = 0  # how many have ended
    announced: int = 0  # bytes in this phase
    arrived: int = 0
    handed: ndarray | None = None
    told: ndarray | None = None
    flying: list[Callable] = field(default_factory=list)  # copies of this phase
    landed: list[Callable] = field(default_factory=list)  # of phases that ended

    def settle(self) -> None:
        """End the phase if nothing is missing."""
        if self.pending == 0 and self.announced == self.arrived:
            self.phase += 1
            self.pending, self.announced, self.arrived = self.count, 0, 0
            if self.handed is not None:
                self.told = joined(self.told, self.handed)
            self.landed += self.flying
            self.flying.clear()

    def state(self, parity: int) -> str:
        """What keeps a phase from ending, in words."""
        text = f"at {self.name} for the end of a phase of parity {parity}: {self.phase} have ended"
        text += f", and {self.count - self.pending} of {self.count} have arrived in the next"
        if self.announced != self.arrived:
            text += (
                f" with {self.arrived:,} bytes of copies, where {self.announced:,} bytes were "
                "announced: expect as many as the copies bring"
            )
        elif self.phase == 0 and parity == 0:
            text += "; on a new mbarrier a wait for parity 1 is over at once"
        return text


class Product(NamedTuple):
    """This warp's 16 rows of a wgmma product under way."""

    operands: list[tuple[ndarray, bool]]  # chunks in shared memory, transposed or not
    bfloat: bool
    inputs: tuple | None  # sums to add to
    outputs: tuple[ndarray, ...]
    step: int


@dataclass
class Store:
    """A TMA store under way."""

    copy: Callable
    lane: int
    site: int
    step: int
    group: int | None = None


class Hopper:
    """What the lane program of one warp does with Hopper's asynchronous instructions."""

    its: Any  # the block
    turns: Any

    def start_hopper(self) -> None:
        self.warp = (self.geometry.start % self.padded) // 32
        self.multiplying = self._agent(f"a product (wgmma) of warp {self.warp}")
        self.storing = self._agent("a TMA store")
        self.products: list[Product] = []
        self.stores: list[Store] = []
        self.store_groups = self.made = 0

    def _agent(self, words: str) -> int:
        agent = self.its.clocks.new_agent()
        self.turns.agents[agent] = words
        return agent

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

    def uniform(self, value, site: int) -> int:
        """A value that all active lanes give alike."""
        if type(value) is not ndarray:
            return int(value)
        lanes = value[self.mask.indices]
        if (lanes != lanes[0]).any():
            self.found(
                "barrier-divergence",
                "gives another value here than other lanes of its warp: all threads give the same",
                site, self.one_lane(),
            )  # fmt: skip
        return int(lanes[0])

    # ------------------------------------------------------------------ mbarriers
    def _chosen(self, array: Array, index, site: int, *values) -> list[tuple]:
        """Address, name, values and number of lanes, of the elements that active lanes choose."""
        self.needs(HOPPER, "an mbarrier", site)
        here = self.mask
        uniform, varying, bad = self.locate(array, index, site, "load") if here else (0, None, None)
        mask = self.active_part(bad)
        if not mask:
            return []
        place = uniform if varying is None else varying + uniform
        rows = [
            np.broadcast_to(np.asarray(v), (self.lanes,))[mask.indices].tolist()
            for v in (place, *values)
        ]
        lanes: dict[tuple, int] = {}
        for row in zip(*rows, strict=True):
            lanes[row] = lanes.get(row, 0) + 1
        start, size = array.root.address, array.itemsize
        return [
            (element * size + start, self.spelled(array, element), *rest, number)
            for (element, *rest), number in lanes.items()
        ]

    def _mbarrier(self, its: Any, address: int, name: str, site: int, asynchronous=False):
        """The mbarrier at an address of a block, if there is one that this warp knows of."""
        found = its.mbarriers.get(address)
        if found is None:
            self.found(
                "uninitialised-read",
                f"uses {name}, which nobody has initialised: one thread calls mbarrier_init and "
                "fence_mbarriers first, then all meet at a barrier",
                site, self.one_lane(),
            )  # fmt: skip
            return None
        clocks = self.its.clocks
        known = clocks.seen[self.number][found.by] >= found.step
        if not known or (asynchronous and clocks.visible[self.number][found.by] < found.step):
            missing = "fence_mbarriers() after that" if known else "a barrier between the two"
            self.found(
                "race",
                f"uses {name}, which warp {found.by} initialises, with nothing to order the two: "
                f"{missing} is missing",
                site, self.one_lane(),
            )  # fmt: skip
        return found

    def mbarrier_init(self, array: Array, index, count, site: int) -> None:
        for address, name, number, lanes in self._chosen(array, index, site, count):
            if lanes > 1 or address in self.its.mbarriers:
                self.found(
                    "race",
                    f"initialises {name}, which is initialised already: one thread does it, once",
                    site, self.one_lane(),
                )  # fmt: skip
            step = int(self.its.clocks.now[self.number])
            made = MBarrier(name, number, self._agent("a TMA copy"), self.number, step, number)
            self.its.mbarriers[address] = made

    def mbarrier_arrive(self, array: Array, index, site: int) -> None:
        self.mbarrier_expect(array, index, 0, site)

    def mbarrier_arrive_at(self, array: Array, index, rank, site: int) -> None:
        self.mbarrier_expect(array, index, 0, site, rank)

    def mbarrier_expect(self, array: Array, index, size, site: int, rank=None) -> None:
        """Each active lane arrives, and announces some bytes of copies."""
        for address, name, number, to, lanes in self._chosen(
            array, index, site, size, -1 if rank is None else rank
        ):
            its = self.its if to < 0 else self.turns.blocks[to]
            barrier = self._mbarrier(its, address, name, site)
            if barrier is None:
                continue
            if barrier.pending < lanes:
                self.found(
                    "barrier-divergence",
                    f"arrives at {name}, where all {barrier.count} arrivals of this phase have come "
                    "already: initialise it with as many as arrive in a phase",
                    site, self.one_lane(),
                )  # fmt: skip
                continue
            barrier.handed = joined(barrier.handed, self.its.clocks.release(self.number))
            barrier.announced += number * lanes
            barrier.pending -= lanes
            barrier.settle()

    def mbarrier_wait(self, array: Array, index, parity, site: int) -> None:
        """Wait until the phase of a parity has ended; its copies arrive then."""
        for address, name, wanted, _ in self._chosen(array, index, site, parity):
            barrier = self._mbarrier(self.its, address, name, site)
            if barrier is None:
                continue

            def over(barrier=barrier, wanted=int(wanted) & 1) -> bool:
                return barrier.phase & 1 != wanted

            self.pause(over, site, lambda b=barrier, w=int(wanted) & 1: b.state(w))
            for arrive in barrier.landed:
                arrive()
            barrier.landed.clear()
            if barrier.told is not None:
                self.its.clocks.acquire(self.number, barrier.told)
            self.learned()

    def fence_async(self, site: int) -> None:
        self.needs(HOPPER, "a fence between plain and asynchronous accesses", site)
        if self.mask:
            self.its.clocks.fence(self.number)

    # ------------------------------------------------------------------ what is not ordered
    def ordered(
        self, its: Any, agent: int, step: int, places, site: int, writes: bool, what: str
    ) -> None:
        """Note an access to a block's shared memory, and report what it may meet."""
        history = its.history
        if history is None:
            return
        fresh = 0 if writes else np.count_nonzero(history.unwritten(places))
        if fresh:
            self.found(
                "uninitialised-read",
                f"reads {what}, of which nobody has written {fresh:,} bytes: shared memory holds "
                "whatever was there before; fill it first",
                site, self.one_lane(),
            )  # fmt: skip
        clash = history.access(self.number, agent, step, self.base + site, places, writes)
        if clash is not None:
            self.found("race", self._unordered(clash, agent, writes, what), site, self.one_lane())

    def _unordered(self, clash: Clash, agent: int, writes: bool, what: str) -> str:
        """An access that meets an earlier one, in words."""
        agents, line = self.turns.agents, self.sites[clash.site].line
        asynchronous = clash.agent in agents
        who = agents.get(clash.agent, f"warp {clash.agent}")
        text = f"{'writes' if writes else 'reads'} {what}, which {who} (line {line}) "
        if clash.fence:
            return (
                f"{text}wrote by plain stores; asynchronous accesses see those only after a fence: "
                "those that wrote call fence_async(), then all meet at a barrier"
            )
        if clash.wrote and asynchronous:
            return f"{text}has yet to fill: wait on its mbarrier first, for the phase of that copy"
        if clash.wrote:
            cure = (
                "let a barrier come between, or let it arrive at an mbarrier and wait on that here"
            )
            return f"{text}writes too, with nothing to order the two: {cure}"
        done = "wait for that" if agent == clash.agent or not asynchronous else "let its warp wait"
        if not asynchronous:
            return (
                f"{text}may still read, with nothing to order the two: let it arrive at an mbarrier "
                "after its last read, and wait on that here, or let a barrier come between"
            )
        return (
            f"{text}may still read: {done} until it has ended, then let it arrive at an mbarrier or "
            "a barrier, and wait there before this"
        )

    # ------------------------------------------------------------------ TMA
    def tma_load(
        self, to: Array, index, source: Box, corner, bars: Array, bar, mask=None, *, site: int
    ) -> None:
        """Begin to copy a box of a tensor to shared memory; it arrives at an mbarrier."""
        self.needs(HOPPER, "a TMA copy", site)
        for start, corner, what in self._boxes(to, index, source, corner, site):
            address, name, *_ = self._chosen(bars, bar, site)[0]
            values = source.read(corner)
            self._count_box(source, corner, site, "load")
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
        handed = np.zeros((2, barrier.agent + 1), np.int32)
        handed[:, barrier.agent] = step
        barrier.handed = joined(barrier.handed, handed)
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
                f"begins this copy in {self.mask.count} threads, and each copies the whole box: let "
                "one thread do it",
                site, self.one_lane(),
            )  # fmt: skip
        start = self._tile(array, index, box.bytes, box.alignment, "copies", site)
        if start is None:
            return []
        lane = self.one_lane()
        place = tuple(int(c[lane]) if type(c) is ndarray else int(c) for c in corner)
        return [(start, place, array.name)]

    def _tile(self, array: Array, index, size: int, step: int, verb: str, site: int) -> int | None:
        """The first byte in shared memory of a tile, if that is inside, and a multiple of ``step``."""
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
        _, count = self.counters.of(self.sites, self.base + site, "global", op)
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
        for start, corner, what in self._boxes(source, index, box, corner, site):
            self._count_box(box, corner, site, "store")
            step = self.its.clocks.begin(self.storing)
            where = slice(start, start + box.bytes)
            self.ordered(self.its, self.storing, step, where, site, False, what)
            chunks, memory = box.chunks + start // 16, self.its.memory.reshape(-1, 16)

            def copy(corner=corner, chunks=chunks, memory=memory) -> None:
                box.write(corner, memory[chunks])

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

    # ------------------------------------------------------------------ wgmma
    def wgmma(
        self, sums, a: Array, a_index, b: Array, b_index, keep, bfloat, a_turned, b_turned, site
    ) -> tuple:
        """Begin a product of depth 64 by a warpgroup; this warp makes 16 of its 64 rows.

        The sums given back hold nothing before the product is waited for.
        """
        self.needs(HOPPER, "a product of a warpgroup (wgmma)", site)
        columns = 2 * len(sums)
        outputs = tuple(np.full(32, np.nan, np.float32) for _ in sums)
        if not self.mask:
            return outputs
        self._whole_warps(site)
        starts = [
            self._tile(array, index, 128 * rows, 1024, "multiplies", site)
            for array, index, rows in ((a, a_index, 64), (b, b_index, columns))
        ]
        if None in starts:
            return outputs
        self._together((*starts, columns), site)
        step, operands = self.its.clocks.begin(self.multiplying), []
        for array, start, first, rows, turned in (
            (a, starts[0], 16 * (self.warp % 4), 16, a_turned), (b, starts[1], 0, columns, b_turned),
        ):  # fmt: skip
            operand = Operand(start, 8192 if turned else 16, 1024, 128, turned)
            chunks = operand.chunks(first, rows, 64)
            operands.append((chunks, turned))
            places = (chunks.reshape(-1, 1) * 16 + np.arange(16)).ravel()
            self.ordered(self.its, self.multiplying, step, places, site, False, array.name)
        if self.counters is not None:
            self.counters.operations["tensor"] += 2 * 16 * columns * 64
        inputs = sums if self.uniform(keep, site) else None
        self.products.append(Product(operands, bfloat, inputs, outputs, step))
        return outputs

    def _together(self, made: tuple, site: int) -> None:
        """All four warps of a warpgroup make the same products, one after another."""
        group = self.its.products.setdefault(self.warp // 4, [])
        if self.made == len(group):
            group.append((made, set()))
        if group[self.made][0] != made:
            self.found(
                "barrier-divergence",
                "makes another product than the other warps of its warpgroup: all 128 threads give "
                "the same operands, in the same order",
                site, self.one_lane(),
            )  # fmt: skip
        group[self.made][1].add(self.warp)
        self.made += 1

    def wgmma_wait(self, most: int, site: int) -> None:
        """Wait until at most so many products are under way; the whole warpgroup makes them."""
        group = self.its.products.get(self.warp // 4, ())
        while len(self.products) > most:
            number = self.made - len(self.products)
            who = group[number][1]
            self.pause(
                lambda who=who: len(who) == 4,
                site,
                lambda who=who: f"for a product that {len(who)} of the 4 warps of a warpgroup make",
            )
            product = self.products.pop(0)
            self._finish(product)
            self.its.clocks.done(self.number, self.multiplying, product.step)

    def _finish(self, product: Product) -> None:
        left, right = (
            widened(taken(self.its.memory, *operand), product.bfloat)
            for operand in product.operands
        )
        total = left @ right.T
        if product.inputs is not None:
            rows = [np.broadcast_to(np.float32(value), (32,)) for value in product.inputs]
            total += matrix_of(np.stack(rows))
        for output, register in zip(product.outputs, registers_of(total), strict=True):
            output[:] = register

    def wgmma_sums(self, sums: tuple, site: int) -> tuple:
        self.wgmma_wait(0, site)
        return sums

    def element(self, values: tuple, number: int, site: int):
        self._finished(values, site)
        return values[number]

    def pick(self, values: tuple, index, site: int):
        self._finished(values, site)
        return super().pick(values, index, site)

    def spread(self, array: Array, values: tuple, site: int) -> None:
        self._finished(values, site)
        super().spread(array, values, site)

    def _finished(self, values: tuple, site: int) -> None:
        """Report sums that are read while the product that makes them is under way."""
        if any(product.outputs is values for product in self.products):
            self.found(
                "race",
                "reads sums that a product under way has yet to write: sums = wgmma_sums(sums) first",
                site, self.one_lane(),
            )  # fmt: skip

    # ------------------------------------------------------------------ clusters
    def cluster_rank(self, site: int) -> int:
        return self.turns.blocks.index(self.its)

    def load4_cluster(self, array: Array, index, rank, site: int) -> tuple:
        """Four neighbours of the same array of another block of the cluster."""
        self.needs(HOPPER, "another block's shared memory", site)
        its, here = self.turns.blocks[self.uniform(rank, site)], array.root
        flat = its.memory[here.address : here.address + here.flat.nbytes].view(here.dtype)
        other = Array(flat, here.shape, here.strides, "shared", array.name)
        other.address, other.block_offset = here.address, here.block_offset
        if its.history is not None:
            uniform, varying, _ = self.locate(array, index, site, "load")
            first = uniform if varying is None else (varying + uniform)[self.mask.indices]
            places = np.unique(np.asarray(first).reshape(-1, 1) * 4 + np.arange(16))
            step = int(self.its.clocks.now[self.number])
            self.ordered(its, self.number, step, places + here.address, site, False, array.name)
        view = other.derived(array.shape, array.strides, array.offset)
        return self.load_vector(view, index, 4, site)
