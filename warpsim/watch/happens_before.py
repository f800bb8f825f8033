"""What happens before what, where warps wait for each other: vector clocks.

Each warp is an *agent*, and so is what it sets going and does not wait for: its TMA loads, its TMA
stores and its wgmma products read and write shared memory on their own. A clock says, for each
agent, up to which of its steps one has waited. Two accesses to a byte race if at least one writes
and the later agent's clock does not cover the earlier one, in whatever order the warps ran here.
A second clock covers what the asynchronous agents may see: ``fence_async`` advances it to the
first.
Source: NVIDIA, PTX ISA, "Memory Consistency Model" ("Causality Order", "Proxies"); Flanagan and
Freund, "FastTrack: efficient and precise dynamic race detection" (2009).
"""

from typing import NamedTuple

import numpy as np
from numpy import ndarray


class Conflict(NamedTuple):
    """Two accesses to a byte that nothing orders."""

    byte: int
    agent: int
    site: int
    wrote: bool
    fence: bool  # ordered, but no fence between plain stores and asynchronous accesses


class Clocks:
    """The clocks of some warps. Agents 0, 1, ... are the warps; others join with `new_agent`."""

    def __init__(self, warps: int):
        self.warps = warps
        self.now = np.ones(warps, np.int32)  # the step that each agent is in
        self.seen = np.eye(warps, dtype=np.int32)
        self.visible = np.zeros((warps, warps), np.int32)  # to asynchronous accesses

    def new_agent(self) -> int:
        """Something asynchronous whose own steps come one after another."""
        self.now = np.append(self.now, np.int32(1))
        self.seen, self.visible = (np.pad(c, ((0, 0), (0, 1))) for c in (self.seen, self.visible))
        return len(self.now) - 1

    def begin(self, agent: int) -> int:
        """The step of something asynchronous that is set going now."""
        self.now[agent] += 1
        return int(self.now[agent])

    def release(self, warp: int) -> ndarray:
        """What a warp hands on when it arrives somewhere; its later steps are new ones."""
        handed = np.stack([self.seen[warp], self.visible[warp]])
        self.advance(warp)
        return handed

    def advance(self, warp: int) -> int:
        """Begin a step of a warp, so that a fence from before does not cover what is in it."""
        self.now[warp] += 1
        self.seen[warp, warp] = self.now[warp]
        return int(self.now[warp])

    def acquire(self, warp: int, handed: ndarray) -> None:
        own = np.stack([self.seen[warp], self.visible[warp]])
        self.seen[warp], self.visible[warp] = joined(own, handed)

    def fence(self, warp: int) -> None:
        """``fence.proxy.async``: plain accesses so far come before later asynchronous ones."""
        self.visible[warp] = self.seen[warp]

    def done(self, warp: int, agent: int, step: int) -> None:
        """A warp has waited for its own asynchronous work up to a step."""
        for clock in (self.seen[warp], self.visible[warp]):
            clock[agent] = max(clock[agent], step)


def joined(first: ndarray | None, second: ndarray) -> ndarray:
    """What is known to whom has waited for both."""
    if first is None:
        return second
    if first.shape[1] < second.shape[1]:
        first, second = second, first
    made = first.copy()
    np.maximum(made[:, : second.shape[1]], second, out=made[:, : second.shape[1]])
    return made


class History:
    """Who last wrote and who last read each byte of a block's shared memory."""

    is_only_read = False  # each access is looked at, at once

    def __init__(self, clocks: Clocks, size: int):
        self.clocks = clocks
        self.writer = np.full(size, -1, np.int16)
        self.step = np.zeros(size, np.int32)
        self.site = np.zeros(size, np.int32)
        self.readers: dict[int, ndarray] = {}  # agent -> the step of its last read
        self.read_at: dict[tuple[int, int], int] = {}  # agent, step -> place

    def access(self, warp: int, agent: int, step: int, site: int, places, writes: bool):
        """One access to some bytes by a warp or by what it sets going; what it conflicts with."""
        clocks = self.clocks
        found = self._unordered(clocks.seen[warp], agent, step, places, writes)
        if found is None and agent != warp:  # plain stores that asynchronous accesses need not see
            writer = self.writer[places]
            hidden = (writer >= 0) & (writer < clocks.warps)
            hidden &= self.step[places] > clocks.visible[warp][writer]
            found = self._conflict(places, hidden, None, True, True) if hidden.any() else None
        if writes:
            self.writer[places], self.step[places], self.site[places] = agent, step, site
        else:
            if agent not in self.readers:
                self.readers[agent] = np.zeros(len(self.writer), np.int32)
            self.readers[agent][places] = step
            self.read_at[agent, step] = site
        return found

    def _unordered(self, seen: ndarray, agent: int, step: int, places, writes: bool):
        writer = self.writer[places]
        late = (self.step[places] > seen[writer]) & (writer >= 0)
        # what one asynchronous operation reads and writes itself is no conflict
        late &= (writer != agent) | (self.step[places] != step)
        if late.any():
            return self._conflict(places, late, None, wrote=True)
        for reader, steps in self.readers.items() if writes else ():
            late = steps[places] > seen[reader]
            if late.any() and not (reader == agent and (steps[places][late] == step).all()):
                return self._conflict(places, late, reader, wrote=False)
        return None

    def _conflict(self, places, late, reader: int | None, wrote: bool, fence=False) -> Conflict:
        first = int(np.flatnonzero(late)[0])
        byte = places.start + first if isinstance(places, slice) else int(places[first])
        if reader is None:
            return Conflict(byte, int(self.writer[byte]), int(self.site[byte]), wrote, fence)
        at = self.read_at[reader, int(self.readers[reader][byte])]
        return Conflict(byte, reader, at, wrote, fence)
