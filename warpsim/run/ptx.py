"""The part that does the instructions of :mod:`warpsim.ptx`."""

from typing import Any

from warpsim.core.memory import poison
from warpsim.ptx.cp_async import AsyncCopies
from warpsim.ptx.integers import Integers
from warpsim.ptx.mma import TensorCores
from warpsim.ptx.wgmma import Sums
from warpsim.run.memory import Memory
from warpsim.run.state import State


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
