"""The threads of a chunk of blocks, running a lane program in step."""

import sys
from functools import cached_property
from typing import Any

from warpsim.core.memory import poison
from warpsim.ptx.cp_async import AsyncCopies
from warpsim.ptx.integers import Integers
from warpsim.ptx.mma import TensorCores
from warpsim.ptx.wgmma import Sums
from warpsim.run.control import Control
from warpsim.run.elements import Elements
from warpsim.run.exchange import Exchange
from warpsim.run.memory import Memory
from warpsim.run.observer import Observer
from warpsim.run.state import Geometry, State

#: How deep a device function may call itself, and the Python frames that this takes.
DEEPEST, FRAMES = 1_000, 12_000


def _of(part: str, name: str) -> property:
    return property(
        lambda self: getattr(getattr(self, part), name),
        lambda self, value: setattr(getattr(self, part), name, value),
    )


class Ptx(AsyncCopies, TensorCores, Integers, Sums):
    """What instructions see of the running threads, each thing by one name, and leave there."""

    mask, base, exited = (_of("state", name) for name in ("mask", "base", "exited"))
    counted_apart = _of("observer", "counted_apart")
    poison = staticmethod(poison)

    def __init__(self, state: State, memory: Memory):
        self.state, self.observer = state, memory.observer
        self.launch, self.geometry, self.root = state.launch, state.geometry, state.root
        self.lanes, self.padded = state.lanes, state.padded
        self.counters, self.sites = state.counters, state.sites
        self.active_part, self.elements = state.active_part, state.elements
        self.site, self.spelled, self.found = state.site, state.spelled, state.found
        self.locate, self.highest = memory.locate, memory.highest
        self.load, self.load_at = memory.load, memory.load_at
        self.store, self.store_at = memory.store, memory.store_at
        self.count_access = self.observer.count_access
        self.look_for_races = self.observer.look_for_races
        self.conflicts_with_copy = self.observer.conflicts_with_copy
        self.out_of_bounds = self.observer.out_of_bounds
        self.copies: list[Any] = []  # asynchronous ones in flight, the oldest first
        self.groups: Any = 0  # of copies that each thread has closed


class Threads:
    """What a lane program gets as ``T``: the parts that do its operations, and what they share.

    A part that not every program needs is made when it is asked for.
    """

    State, Observer, Memory, Control = State, Observer, Memory, Control

    def __init__(self, launch: Any, geometry: Geometry):
        self.geometry = geometry
        self.state = state = self.State(launch, geometry)
        self.observer = self.Observer(state)
        self.memory = self.Memory(state, self.observer)
        self.control = self.Control(state, self.observer)

    elements = cached_property(lambda self: Elements(self.state, self.memory, self.control))
    exchange = cached_property(lambda self: Exchange(self.state, self.observer))
    ptx = cached_property(lambda self: Ptx(self.state, self.memory))

    def call(self, program, base: int, site: int | None, *arguments):
        """Call a device function; its places follow those of its caller.

        ``site`` is the call's own, if the function is one of another module.
        """
        state = self.state
        outer, calling = state.base, state.calling
        if site is not None and calling is None:
            state.calling = state.site(site)
        if state.calling is not None and state.counters is not None:
            state.counters.called.setdefault(program.__name__, state.calling)
        state.base = outer + base
        try:
            return program(self, *arguments)
        finally:
            state.base, state.calling = outer, calling

    def again(self, program, *arguments):
        state = self.state
        state.depth += 1
        if state.depth > DEEPEST:
            raise RecursionError(
                f"{state.launch.name}: {program.__name__} calls itself more than {DEEPEST:,} times "
                "deep; a GPU's stack is full long before"
            )
        if sys.getrecursionlimit() < FRAMES:
            sys.setrecursionlimit(FRAMES)  # for good: it is the process's, and has other threads
        try:
            return program(self, *arguments)
        finally:
            state.depth -= 1
