"""Barriers, and what the threads of a warp tell each other."""

import numpy as np
from numpy import ndarray

from warpsim.core.masks import in_warps
from warpsim.run.observer import Observer
from warpsim.run.state import State

WHOLE_WARP = 0xFFFFFFFF


class Exchange:
    """Barriers, votes and shuffles of the running threads."""

    def __init__(self, state: State, observer: Observer):
        self.state, self.observer = state, observer

    # ------------------------------------------------------------------ barriers
    def syncthreads(self, site: int) -> None:
        """Each block's active threads are none or all that have not returned."""
        self.check_barrier(site)
        self.observer.barrier_passed()

    def syncthreads_count(self, predicate, site: int):
        return self._vote_of_block(predicate, site)[0]

    def syncthreads_and(self, predicate, site: int):
        count, here = self._vote_of_block(predicate, site)
        return (count == here).astype(np.int32)

    def syncthreads_or(self, predicate, site: int):
        count, _ = self._vote_of_block(predicate, site)
        return (count > 0).astype(np.int32)

    def _vote_of_block(self, predicate, site: int) -> tuple[ndarray, ndarray]:
        state = self.state
        self.syncthreads(site)
        active = state.mask.active
        yes = (active & (np.asarray(predicate) != 0)).reshape(state.blocks, -1).sum(1)
        here = active.reshape(state.blocks, -1).sum(1)
        return np.repeat(yes, state.padded).astype(np.int32), np.repeat(here, state.padded)

    def check_barrier(self, site: int, of: str = "block") -> None:
        state = self.state
        mask = state.mask
        if mask is state.root:
            return
        groups = state.blocks if of == "block" else 1
        active, alive = (lanes.reshape(groups, -1) for lanes in (mask.active, state.alive))
        arrived, expected = active.sum(1), alive.sum(1)
        bad = (arrived > 0) & (arrived != expected)
        if bad.any():
            group = int(np.flatnonzero(bad)[0])
            missing = int(np.flatnonzero(alive[group] & ~active[group])[0])
            text = (
                f"does not reach this barrier, and {arrived[group]:,} of the {of}'s "
                f"{expected[group]:,} threads do: on a GPU they wait for ever or go on with half "
                "the data; move it out of the branch"
            )
            state.found("barrier-divergence", text, site, group * active.shape[1] + missing)

    def grid_sync(self, site: int) -> None:
        self.check_barrier(site, "grid")
        self.observer.grid_passed()

    def nanosleep(self, nanoseconds, site: int) -> None:
        """Nothing to wait for: lanes go in step."""

    # ------------------------------------------------------------------ members of a call
    def check_members(self, members, site: int) -> None:
        """All lanes that a mask names make the same call, unless they have returned."""
        state = self.state
        mask = state.mask
        if type(members) is not ndarray and members & WHOLE_WARP == WHOLE_WARP:
            if mask is state.root or state.exited is None and mask.whole_in(state.root):
                return
        named = np.broadcast_to(np.asarray(members), (state.lanes,)).astype(np.int64) & WHOLE_WARP
        outsiders = mask.active & ((named >> state.geometry.laneid) & 1 == 0)
        if outsiders.any():
            lane = int(np.flatnonzero(outsiders)[0])
            text = (
                f"makes this call, but the mask {int(named[lane]):#x} does not name its lane, "
                f"{lane & 31}: what it gets is undefined; the mask names all lanes that make the "
                "call, 0xFFFFFFFF is the whole warp"
            )
            state.found("barrier-divergence", text, site, lane)
            return
        waited_for = named & _bits(state.alive & ~mask.active) * mask.active
        if waited_for.any():
            caller = int(np.flatnonzero(waited_for)[0])
            wanted = int(waited_for[caller])
            lane = (caller & ~31) + (wanted & -wanted).bit_length() - 1
            text = (
                f"does not make this call, but the mask {int(named[caller]):#x} names its lane, "
                f"{lane & 31}: on a GPU the others wait for ever or get anything; let all lanes of "
                "the mask make the call, outside of the branch"
            )
            state.found("barrier-divergence", text, site, lane)

    # ------------------------------------------------------------------ shuffles
    def shfl_sync(self, members, value, source, site: int):
        return self._shuffle(members, value, np.asarray(source) & 31, site)

    def shfl_up_sync(self, members, value, delta, site: int):
        lane = self.state.geometry.laneid
        return self._shuffle(members, value, np.where(lane >= delta, lane - delta, lane), site)

    def shfl_down_sync(self, members, value, delta, site: int):
        lane = self.state.geometry.laneid
        return self._shuffle(members, value, np.where(lane + delta < 32, lane + delta, lane), site)

    def shfl_xor_sync(self, members, value, lanes, site: int):
        return self._shuffle(members, value, (self.state.geometry.laneid ^ lanes) & 31, site)

    def _shuffle(self, members, value, source, site: int):
        """The value of another lane; of one that does not make the call, whatever comes."""
        self.check_members(members, site)
        state = self.state
        if type(value) is not ndarray:
            return value
        lane = (state.lane & ~31) + source
        result = value[lane]
        if state.mask.count < state.lanes:
            nobody = ~state.mask.active[lane]
            if nobody.any():
                result[nobody] = self.observer.lost(result.dtype, site, nobody)
                if state.counters is not None:
                    self._note_absent(nobody & state.mask.active, lane, site)
        return result

    def _note_absent(self, readers: ndarray, source: ndarray, site: int) -> None:
        """Some lanes take the value of lanes that do not shuffle: an error, if it matters."""
        if not readers.any():
            return
        reader = int(np.flatnonzero(readers)[0])
        absent = int(source[reader])
        why = "which does not make this call"
        if not self.state.root.active[absent]:
            why = "which the block does not have"
        elif not self.state.alive[absent]:
            why = "which has returned"
        what = f"takes the value of lane {absent & 31}, {why}: a shuffle gives anything then, "
        cure = "let all 32 lanes come here, those without an element with a value that changes "
        cure += "nothing, such as 0 in a sum: no `return`, and no `if` around the shuffle"
        self.observer.candidate(f"{what}and that", cure, site, reader, whole=True)

    # ------------------------------------------------------------------ votes
    def activemask(self, site: int):
        """Bit l is set if lane l of the warp is active."""
        return self._ballot(True)

    def lanemask_lt(self, site: int):
        return (np.int64(1) << self.state.geometry.laneid) - 1

    def ballot_sync(self, members, predicate, site: int):
        self.check_members(members, site)
        return _signed(self._ballot(predicate) & members)

    def any_sync(self, members, predicate, site: int):
        self.check_members(members, site)
        return (self._ballot(predicate) & members) != 0

    def all_sync(self, members, predicate, site: int):
        self.check_members(members, site)
        return (self._ballot(predicate) & members) == (self._ballot(True) & members)

    def eq_sync(self, members, predicate, site: int):
        self.check_members(members, site)
        yes = self._ballot(predicate) & members
        return (yes == 0) | (yes == (self._ballot(True) & members))

    def match_any_sync(self, members, value, site: int):
        self.check_members(members, site)
        return _signed(self._equal_lanes(value) & members)

    def match_all_sync(self, members, value, site: int):
        """The members and True if all of them hold one value, else 0 and False."""
        self.check_members(members, site)
        here = self._ballot(True) & members
        same = (self._equal_lanes(value) & here) == here
        return _signed(np.where(same, here, 0)), same

    def _equal_lanes(self, value) -> ndarray:
        rows = np.broadcast_to(np.asarray(value), (self.state.lanes,)).reshape(-1, 32)
        active = self.state.mask.active.reshape(-1, 32)
        same = (rows[:, :, None] == rows[:, None, :]) & active[:, None, :]
        return in_warps(same).astype(np.int64)

    def _ballot(self, predicate) -> ndarray:
        return _bits(self.state.mask.active & predicate)


def _bits(lanes: ndarray) -> ndarray:
    """A bit for each lane of its warp, told to all of them."""
    return np.repeat(in_warps(lanes).astype(np.int64), 32)


def _signed(bits: ndarray) -> ndarray:
    """32 bits as an int32, as the hardware's result is typed."""
    return bits.astype(np.uint32).view(np.int32)
