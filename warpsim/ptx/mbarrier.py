"""mbarriers: barriers in shared memory that also count bytes; all need 9.0.

Phases count from 0; on a new barrier a wait for parity 1 is over at once. What is not ordered by
them is a ``race``, by the clocks of :mod:`warpsim.watch.happens_before`.

Source: NVIDIA, PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier",
fence.proxy.async.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.memory import Array
from warpsim.ptx.instruction import CONVERGENT, Ptx, instruction
from warpsim.watch.happens_before import Conflict, joined

HOPPER = (9, 0)


# ---------------------------------------------------------------------- in the simulator
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
        if self.pending == 0 and self.announced == self.arrived:
            self.phase += 1
            self.pending, self.announced, self.arrived = self.count, 0, 0
            if self.handed is not None:
                self.told = joined(self.told, self.handed)
            self.landed += self.flying
            self.flying.clear()

    def is_over(self, parity: int) -> bool:
        return self.phase & 1 != parity

    def state(self, parity: int) -> str:
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


class MBarriers:
    """What the lane program of one warp does with mbarriers."""

    its: Any  # the block
    scheduler: Any

    def _agent(self, words: str) -> int:
        agent = self.its.clocks.new_agent()
        self.scheduler.agents[agent] = words
        return agent

    def wrong(self, kind: str, site: int, text: str) -> None:
        self.found(kind, text, site, self.one_lane())

    def uniform(self, value, site: int) -> int:
        """A value that all active lanes give alike."""
        if type(value) is not ndarray:
            return int(value)
        lanes = value[self.mask.indices]
        if (lanes != lanes[0]).any():
            text = "gives another value here than other lanes of its warp"
            self.wrong("barrier-divergence", site, f"{text}: all threads give the same")
        return int(lanes[0])

    def _chosen(self, array: Array, index, site: int, *values) -> list[tuple]:
        """Address, name, values and number of lanes, of the elements that active lanes choose."""
        self.needs(HOPPER, "an mbarrier", site)
        here = self.mask
        uniform, varying, bad = self.locate(array, index, site, "load") if here else (0, None, None)
        mask = self.active_part(bad)
        if not mask:
            return []
        place = uniform if varying is None else varying + uniform
        rows = np.stack([np.broadcast_to(v, (self.lanes,))[mask.indices] for v in (place, *values)])
        start, size = array.root.address, array.itemsize
        return [
            (element * size + start, self.spelled(array, element), *rest, number)
            for (element, *rest), number in Counter(map(tuple, rows.T.tolist())).items()
        ]

    def _mbarrier(self, its: Any, address: int, name: str, site: int, asynchronous=False):
        """The mbarrier at an address of a block, if there is one that this warp knows of."""
        found = its.mbarriers.get(address)
        if found is None:
            text = f"uses {name}, which nobody has initialised: one thread calls mbarrier_init and "
            text += "fence_mbarriers first, then all meet at a barrier"
            self.wrong("uninitialised-read", site, text)
            return None
        clocks = self.its.clocks
        known = clocks.seen[self.number][found.by] >= found.step
        if not known or (asynchronous and clocks.visible[self.number][found.by] < found.step):
            missing = "fence_mbarriers() after that" if known else "a barrier between the two"
            text = f"uses {name}, which warp {found.by} initialises, with nothing to order the two"
            self.wrong("race", site, f"{text}: {missing} is missing")
        return found

    def mbarrier_init(self, array: Array, index, count, site: int) -> None:
        for address, name, number, lanes in self._chosen(array, index, site, count):
            if lanes > 1 or address in self.its.mbarriers:
                text = f"initialises {name}, which is initialised already: one thread does it, once"
                self.wrong("race", site, text)
            step = self.its.clocks.advance(self.number)
            made = MBarrier(name, number, self._agent("a TMA copy"), self.number, step, number)
            self.its.mbarriers[address] = made

    def mbarrier_arrive_at(self, array: Array, index, rank, site: int) -> None:
        self.mbarrier_expect(array, index, 0, site, rank)

    def mbarrier_expect(self, array: Array, index, size, site: int, rank=-1) -> None:
        for address, name, number, to, lanes in self._chosen(array, index, site, size, rank):
            its = self.its if to < 0 else self.scheduler.blocks[to]
            barrier = self._mbarrier(its, address, name, site)
            if barrier is None:
                continue
            if barrier.pending < lanes:
                text = f"arrives at {name}, where all {barrier.count} arrivals of this phase have "
                text += "come already: initialise it with as many as arrive in a phase"
                self.wrong("barrier-divergence", site, text)
                continue
            if its is not self.its:
                step = int(self.its.clocks.now[self.number])
                its.reach(self.number, step, self, self.base + site, "arrives at an mbarrier in")
            barrier.handed = joined(barrier.handed, self.its.clocks.release(self.number))
            barrier.announced += number * lanes
            barrier.pending -= lanes
            barrier.settle()

    def mbarrier_wait(self, array: Array, index, parity, site: int) -> None:
        for address, name, wanted, _ in self._chosen(array, index, site, parity):
            barrier = self._mbarrier(self.its, address, name, site)
            if barrier is None:
                continue
            parity = int(wanted) & 1
            self.pause(partial(barrier.is_over, parity), site, partial(barrier.state, parity))
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
    def ordered(self, its, agent: int, step: int, places, site: int, writes: bool, what: str):
        """Note an access to a block's shared memory, and report what it conflicts with."""
        history = its.history
        if history is None:
            return
        fresh = 0 if writes else np.count_nonzero(history.writer[places] < 0)
        if fresh:
            text = f"reads {what}, of which nobody has written {fresh:,} bytes: shared memory"
            text += " holds whatever was there before; fill it, and wait for that"
            self.wrong("uninitialised-read", site, text)
        clash = history.access(self.number, agent, step, self.base + site, places, writes)
        if clash is not None:
            self.wrong("race", site, self._unordered(clash, agent, writes, what))

    def _unordered(self, clash: Conflict, agent: int, writes: bool, what: str) -> str:
        agents, line = self.scheduler.agents, self.sites[clash.site].line
        asynchronous = clash.agent in agents
        who = agents.get(clash.agent, f"warp {clash.agent}")
        text = f"{'writes' if writes else 'reads'} {what}, which {who} (line {line}) "
        before = "let it arrive at an mbarrier or a barrier after that, and wait there before this"
        if clash.fence:
            end = "wrote by plain stores: who did calls fence_async(), then all meet at a barrier"
        elif clash.wrote and asynchronous:
            end = "has yet to fill: wait on its mbarrier first, for the phase of that copy"
        elif asynchronous:
            end = f"may still read: its warp waits until that has ended; {before}"
        else:
            does = "writes" if clash.wrote else "may still read"
            end = f"{does}, with nothing to order the two: {before}"
        return text + end


# ---------------------------------------------------------------------- code
@instruction("barriers index number", twin=MBarriers.mbarrier_init, by_warp=True, hopper=True)
def mbarrier_init(barriers, index, count):
    """``mbarrier_init(barriers, i, count)``: a shared uint64 as a barrier; one thread does it."""
    return Ptx("mbarrier.init.shared::cta.b64 [$0], $1;")


@instruction(twin=MBarriers.fence_async, by_warp=True)
def fence_mbarriers():
    """``fence_mbarriers()``: new barriers are seen by copies and by the cluster."""
    text = "fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;"
    return Ptx(text, CONVERGENT)


@instruction(twin=MBarriers.fence_async, by_warp=True)
def fence_async():
    """``fence_async()``: what this thread stored to shared memory is seen by wgmma and TMA."""
    return Ptx("fence.proxy.async.shared::cta;", CONVERGENT)


@instruction("barriers index", twin=MBarriers.mbarrier_expect, more={"size": 0}, by_warp=True)
def mbarrier_arrive(barriers, index):
    """``mbarrier_arrive(barriers, i)``: one of those whose arrival a phase waits for."""
    return Ptx("mbarrier.arrive.shared::cta.b64 _, [$0];")


@instruction("barriers index number", twin=MBarriers.mbarrier_expect, by_warp=True)
def mbarrier_expect(barriers, index, size):
    """``mbarrier_expect(barriers, i, bytes)``: arrive; the phase waits for so many bytes, too."""
    return Ptx("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;")


@instruction("barriers index number", twin=MBarriers.mbarrier_arrive_at, by_warp=True)
def mbarrier_arrive_at(barriers, index, rank):
    """``mbarrier_arrive_at(barriers, i, rank)``: at another block's; it hands over no stores."""
    return Ptx(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $0, $1; "
        "mbarrier.arrive.shared::cluster.b64 _, [there]; }"
    )


@instruction("barriers index number", twin=MBarriers.mbarrier_wait, by_warp=True)
def mbarrier_wait(barriers, index, parity):
    """``mbarrier_wait(barriers, i, parity)``: until the phase of that parity is over."""
    return Ptx(
        "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1; "
        "@done bra ready; bra again; ready: }"
    )
