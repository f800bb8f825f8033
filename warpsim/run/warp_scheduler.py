"""Warps that run one at a time: kernels whose warps wait for each other have no common step.

Each warp of a block, or of the blocks of a cluster, runs the lane program on its own, in a thread
that alone goes on until the warp waits; then the next warp whose wait is over goes on, always
in the same order. When all that are left wait, that is a deadlock, and is reported with lines:
nothing here waits for a time.
"""

import math
import threading
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.memory import Array, contiguous_strides
from warpsim.front.names import Unsupported
from warpsim.ptx.wgmma import Hopper
from warpsim.run.control import Control
from warpsim.run.exchange import Exchange
from warpsim.run.memory import Memory
from warpsim.run.observer import Observer
from warpsim.run.state import Dim3, Geometry, Lanes, State
from warpsim.run.threads import Ptx, Threads
from warpsim.watch.happens_before import Clocks, History, joined


class Barrier:
    """A barrier of a block (``syncthreads`` or a named one) or of a cluster."""

    def __init__(self, name: str):
        self.name = name
        self.arrived, self.passed = 0, 0
        self.wanted: int | None = None  # threads; None: all that are left
        self.handed: ndarray | None = None  # by those who have arrived
        self.told: ndarray | None = None  # to those who waited

    def over(self, mine: int, left: int) -> bool:
        """Has the barrier been passed since it had been so ``mine`` times?"""
        if self.passed == mine and self.arrived >= (self.wanted or left):
            self.told, self.handed = self.handed, None
            self.arrived, self.wanted, self.passed = 0, None, mine + 1
        return self.passed > mine


class Block:
    """What the warps of a block share."""

    def __init__(self, launch: Any, number: int, clocks: Clocks):
        self.number, self.used = number, launch.dynamic_shared
        self.memory = np.zeros(launch.gpu.shared_per_block, np.uint8)
        self.clocks = clocks
        self.history = History(clocks, len(self.memory)) if launch.counters else None
        self.arrays: dict[int, Array] = {}
        self.barriers: dict[int, Barrier] = {}
        self.mbarriers: dict[int, Any] = {}  # by their address
        self.products: dict[int, list] = {}  # that each warpgroup has made
        #: Agent and place of what other blocks do here: its last step, the warp, and what it does.
        self.reached: dict[tuple[int, int], tuple[int, WarpPtx, str]] = {}
        self.warps: list[Warp] = []

    def reach(self, agent: int, step: int, warp: "WarpPtx", site: int, does: str) -> None:
        self.reached[agent, site] = step, warp, does


class WarpObserver(Observer):
    """Races in shared memory are found by the clocks of the block."""

    warp: "Warp"

    def look_for_races(self, array, elements, mask, site: int, op: str, value) -> None:
        if array.space != "shared":
            super().look_for_races(array, elements, mask, site, op, value)
            return
        warp, chosen, size = self.warp, elements[mask.indices], array.itemsize
        places = (chosen[:, None] * size + array.root.address + np.arange(size)).ravel()
        step = int(warp.its.clocks.now[warp.number])
        what = self.state.spelled(array, int(chosen[0]))
        warp.ptx.ordered(warp.its, warp.number, step, places, site, op == "store", what)

    def candidate(self, *of_a_candidate, **more) -> None:
        """Reads of unwritten registers and local memory are not judged: it runs once."""


class WarpMemory(Memory):
    """Shared memory is the block's."""

    warp: "Warp"

    def shared_array(self, shape: tuple, dtype, site: int, alignment: int = 1) -> Array:
        """A part of the block's shared memory; all dynamic arrays are the same bytes."""
        state, block = self.state, self.warp.its
        key = state.base + site
        if key in block.arrays:
            return block.arrays[key]
        size, kind = math.prod(shape), np.dtype(dtype)
        if kind.names is not None:
            not_here(state, "an array of records in shared memory", site)
        start, end, step = 0, self.dynamic_shared, max(kind.alignment, alignment)
        if size:
            start = -(-block.used // step) * step
            end = self.shared_bytes = block.used = start + size * kind.itemsize
            self.check_shared(site)
        else:
            shape = (end // kind.itemsize,)
        flat = block.memory[start : start + math.prod(shape) * kind.itemsize].view(kind)
        array = Array(flat, shape, contiguous_strides(shape), "shared", state.site(site).array)
        array.address, array.block_offset = start, np.zeros(32, np.int64)
        array.shadow = block.history
        block.arrays[key] = array
        return array


class WarpControl(Control):
    """Sums that a product makes may be in flight."""

    warp: "Warp"

    def element(self, values: tuple, number: int, site: int):
        self.warp.ptx.finished(values, site)
        return values[number]

    def pick(self, values: tuple, index, site: int):
        self.warp.ptx.finished(values, site)
        return super().pick(values, index, site)


class Warp(Threads):
    """One warp as its lane program sees it, by its number among the warps of the cluster."""

    Observer, Memory, Control = WarpObserver, WarpMemory, WarpControl

    def __init__(self, launch: Any, geometry: Geometry, block: Block, number: int, scheduler: Any):
        self.its, self.number, self.scheduler = block, number, scheduler
        super().__init__(launch, geometry)
        self.observer.warp = self.memory.warp = self.control.warp = self
        self.goes_on = threading.Semaphore(0)
        self.ready: Callable[[], bool] | None = None
        self.waits: tuple[int, int, int, Callable[[], str]] | None = None
        self.ended = False

    exchange = cached_property(lambda self: Barriers(self))
    ptx = cached_property(lambda self: WarpPtx(self))

    # ------------------------------------------------------------------ waiting
    def pause(self, ready: Callable[[], bool], site: int, what: Callable[[], str]) -> None:
        """Let the other warps go on until ``ready()``; ``what()`` says what this one waits for."""
        if ready():
            return
        self.ready, self.waits = ready, (self.state.base, site, self.one_lane(), what)
        self.scheduler.back.release()
        self.goes_on.acquire()
        if self.scheduler.over:
            raise _Over
        self.ready = self.waits = None

    def one_lane(self) -> int:
        mask = self.state.mask
        return int(mask.indices[0]) if mask else 0

    def learned(self) -> None:
        """After a wait: what others of the block did to global memory is ordered."""
        if self.state.counters is not None:
            launch = self.state.launch
            for shadow in launch.shadows.values():
                shadow.settle(launch.clock)
            launch.clock.block[self.its.number] += 1
            launch.clock.moved = True


class WarpPtx(Hopper, Ptx):
    """Instructions that are asynchronous, too."""

    def __init__(self, warp: Warp):
        super().__init__(warp.state, warp.memory)
        self.its, self.number, self.scheduler = warp.its, warp.number, warp.scheduler
        self.pause, self.one_lane, self.learned = warp.pause, warp.one_lane, warp.learned
        self.named_barrier = warp.exchange.named_barrier
        self.cluster_barrier = warp.exchange.cluster_barrier


class Barriers(Exchange):
    """Exchange, where warps wait for each other."""

    def __init__(self, warp: Warp):
        super().__init__(warp.state, warp.observer)
        self.warp, self.its = warp, warp.its

    def syncthreads(self, site: int) -> None:
        state, its = self.state, self.its
        barrier = its.barriers.setdefault(0, Barrier("cuda.syncthreads()"))
        self._arrive(barrier, None, its.warps, site)
        if state.counters is not None and state.geometry.start == its.number * state.padded:
            state.counters.barriers[its.number] += 1

    def named_barrier(self, number, threads, site: int) -> None:
        number, threads = (self.warp.ptx.uniform(value, site) for value in (number, threads))
        if not 1 <= number <= 15 or threads % 32 or not 32 <= threads <= self.state.padded:
            text = f"waits at barrier {number} for {threads} threads: a block has named barriers 1 "
            text += f"to 15, for a multiple of 32 threads, at most {self.state.padded} here"
            self.state.found("barrier-divergence", text, site, self.warp.one_lane())
            return
        barrier = self.its.barriers.setdefault(number, Barrier(f"named barrier {number}"))
        self._arrive(barrier, threads, self.its.warps, site)

    def cluster_barrier(self, site: int) -> None:
        self._arrive(self.warp.scheduler.barrier, None, self.warp.scheduler.warps, site)

    def _arrive(self, barrier: Barrier, threads: int | None, among: list[Warp], site: int) -> None:
        warp = self.warp
        if not self.state.mask:
            return
        self.check_barrier(site)
        if barrier.arrived and barrier.wanted != threads:
            text = f"comes to {barrier.name} for {threads} threads, others came for "
            text += f"{barrier.wanted}: all that meet there give the same number"
            self.state.found("barrier-divergence", text, site, warp.one_lane())
        clocks, mine = self.its.clocks, barrier.passed
        barrier.wanted, barrier.arrived = threads, barrier.arrived + 32
        barrier.handed = joined(barrier.handed, clocks.release(warp.number))

        def left() -> int:
            return 32 * sum(not warp.ended for warp in among)

        def waits() -> str:
            of = barrier.wanted or left()
            return f"at {barrier.name}, where {barrier.arrived} of {of} threads are"

        warp.pause(lambda: barrier.over(mine, left()), site, waits)
        clocks.acquire(warp.number, barrier.told)
        warp.learned()

    def _vote_of_block(self, predicate, site: int):
        not_here(self.state, "a vote of a whole block", site)

    def grid_sync(self, site: int) -> None:
        not_here(self.state, "a barrier of the whole grid", site)


def not_here(state: State, what: str, site: int) -> None:
    """Refuse what needs all threads of a block, or of the grid, in step."""
    raise Unsupported(
        f"line {state.site(site).line}: {what} is not supported by the simulator in a kernel "
        "whose warps wait for each other at mbarriers, products or named barriers"
    )


class _Over(BaseException):
    """Ends the threads of warps that go on no more."""


class WarpScheduler:
    """Runs the warps of one block, or of the blocks of a cluster, to their end."""

    def __init__(self, launch: Any, program: Callable, grid: Dim3, block: Dim3, numbers: range):
        self.launch, self.program = launch, program
        own = -(-math.prod(block) // 32)
        clocks = Clocks(own * len(numbers))
        self.blocks = [Block(launch, number, clocks) for number in numbers]
        for rank, its in enumerate(self.blocks):
            for warp in range(own):
                inside = Lanes(block, np.zeros(32, np.int64), np.arange(32 * warp, 32 * warp + 32))
                made = Geometry(grid, its.number, 1, inside, warp)
                its.warps.append(Warp(launch, made, its, rank * own + warp, self))
        self.warps = [warp for its in self.blocks for warp in its.warps]
        self.agents: dict[int, str] = {}  # what is asynchronous, in words
        self.barrier = Barrier("cluster_barrier()")
        self.back, self.over = threading.Semaphore(0), False
        self.error: BaseException | None = None
        for warp in self.warps:
            warp.ptx.start_hopper()

    def run(self, values: list[Any]) -> bool:
        """Run all warps; False if they wait for each other for ever, which is reported."""
        ways = {"target": self._one, "daemon": True}
        threads = [threading.Thread(args=(warp, values), **ways) for warp in self.warps]
        for thread in threads:
            thread.start()
        try:
            return self._schedule()
        finally:
            self.over = True
            for warp in self.warps:
                warp.goes_on.release()
            for thread in threads:
                thread.join()

    def _one(self, warp: Warp, values: list[Any]) -> None:
        warp.goes_on.acquire()
        try:
            if not self.over:
                with np.errstate(all="ignore"):
                    self.program(warp, *values)
                    warp.ptx.end_hopper()
        except _Over:
            pass
        except BaseException as error:
            self.error = self.error or error
        finally:
            warp.ended = True
            self.back.release()

    def _schedule(self) -> bool:
        left = self.warps
        while left:
            went = False
            for warp in left:
                if warp.ready is None or warp.ready():
                    went = True
                    warp.goes_on.release()
                    self.back.acquire()
                    if self.error is not None:
                        raise self.error
            left = [warp for warp in left if not warp.ended]
            if left and not went:
                self._deadlock(left)
                return False
        self._ended_too_soon()
        return True

    def _ended_too_soon(self) -> None:
        """Report what reaches for another block's shared memory, and may come after its end."""
        for its in self.blocks if self.launch.counters is not None else ():
            own = [warp.number for warp in its.warps]
            end = its.clocks.seen[own].max(axis=0)
            for agent, steps in its.history.readers.items():
                if agent < len(self.warps) and agent not in own:
                    last = int(steps.max())
                    site = its.history.read_at[agent, last]
                    its.reach(agent, last, self.warps[agent].ptx, site, "reads")
            for (agent, site), (step, warp, does) in its.reached.items():
                if step > end[agent]:
                    warp.base = 0
                    text = f"{does} another block's shared memory, and that block may have ended: "
                    text += "cluster_barrier() comes after the last time"
                    warp.found("race", text, site, None)
                    break

    @staticmethod
    def _deadlock(left: list[Warp]) -> None:
        """Report warps that wait for ever: at the place that tells most, naming the others."""

        def told(warp: Warp) -> tuple:
            base, site, _, what = warp.waits
            return warp.state.sites[base + site].line, what()

        def tells(warp: Warp) -> tuple:
            text = told(warp)[1]
            return "announced" in text, "new mbarrier" in text, -warp.number

        first = max(left, key=tells)
        others = Counter(told(warp) for warp in left if told(warp) != told(first))
        message = f"waits for ever {told(first)[1]}"
        for (line, what), count in others.items():
            wait = f"warp{'s' * (count > 1)} wait{'s' * (count == 1)} in line {line}"
            message += f"; {count} {wait} {what.partition(';')[0]}"  # without advice
        first.state.base, site, lane, _ = first.waits
        first.state.found("deadlock", message, site, lane)


def run_clusters(launch: Any, lanes: Any, grid: Dim3, block: Dim3, values: list[Any]) -> None:
    """Run all blocks, cluster after cluster, their warps one at a time; stop at a deadlock."""
    blocks = math.prod(grid)
    if launch.counters is not None:
        launch.counters.barriers = np.zeros(blocks, np.int32)
    for first in range(0, blocks, lanes.cluster):
        numbers = range(first, first + lanes.cluster)
        if not WarpScheduler(launch, lanes.run, grid, block, numbers).run(values):
            return
