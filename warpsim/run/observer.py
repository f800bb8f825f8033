"""What is counted of the running threads, and what they do wrong."""

import numpy as np
from numpy import ndarray

from warpsim.core.masks import Mask
from warpsim.core.memory import Array, leaves
from warpsim.core.operators import FAR_BELOW
from warpsim.run.state import State
from warpsim.watch.advice import bounds_cure, wide_cure
from warpsim.watch.counts import Counting
from warpsim.watch.findings import VERBS, index_names
from warpsim.watch.races import Races
from warpsim.watch.uninitialised_reads import Unwritten


class Observer(Counting, Races, Unwritten):
    """Counts, races and reads of what nobody has written; where an index or a barrier is wrong."""

    def __init__(self, state: State):
        self.state = state
        self.counted_apart = False  # the elements of one access, touched one by one
        self.copies, self.origins = {}, {}

    # ------------------------------------------------------------------ what may be wrong
    def out_of_bounds(self, array, index, axis, outside, site, op, more=None) -> None:
        """Report an index; of an access to ``more`` elements after it, too, none wraps."""
        state = self.state
        lanes = np.flatnonzero(outside)
        lane = int(lanes[0])
        values = tuple(int(_flat(i, lane)) for i in index)
        wrapped = values[axis] < -(FAR_BELOW >> 1) or values[axis] >> 63 == 1
        values = tuple(i + FAR_BELOW + (1 << 64) if i < -(FAR_BELOW >> 1) else i for i in values)
        what = f"{array.name}[{', '.join(map(str, values))}]"
        if more:
            what = f"{more + 1} elements from {what} on"
        name = index_names(state.site(site), len(index))[axis]
        size = int(_flat(array.shape[axis], lane))
        others = f" ({len(lanes):,} threads in all)" if len(lanes) > 1 else ""
        axis_name = f"axis {axis} of {array.name}" if array.ndim > 1 else array.name
        why = f"but {axis_name} has size {size}{others}"
        full = np.broadcast_to(np.asarray(index[axis]), (state.lanes,))
        if more is not None and values[axis] < 0:
            why = f"and this access counts none from the end{others}"
            cure = f"let the index be 0 or more, or guard it with `if {name} >= 0:`"
        elif more:
            cure = wide_cure(array, name, axis, int(full[outside].max()), more, size)
        elif wrapped:
            cure = (
                "the index is unsigned and went below zero, where nothing counts from the end: "
                "subtract signed integers, such as int32, and guard with `>= 0`"
            )
        else:
            if type(array.shape[axis]) is ndarray:  # each lane has a size of its own
                outside = state.lane == lane
            cure = bounds_cure(self.state, array, name, axis, full, outside, size, op)
        state.found("out-of-bounds", f"{VERBS[op]} {what}, {why}: {cure}", site, lane)

    def negative_index(self, array, index, axis, lane, site, op) -> bool:
        text = (
            f"uses index {_flat(index[axis], lane)} on axis {axis} of {array.name}, which counts "
            "from the end: Numba wraps it, at the price of a test in every access; make sure that "
            "it is meant"
        )
        self.state.found("negative-index", text, site, lane)
        return True

    def watch(self, array: Array, uniform, varying, mask: Mask, site: int, op: str, value) -> None:
        """Races, and reads of shared and local memory that nobody has written."""
        root = array.root
        if self.carried is not None and self.hands_on(array, uniform, varying, mask):
            return
        if root.written is None and root.shadow is None:
            return
        if varying is None and array.space == "local" and root.shadow is None:
            if self.is_written(root, uniform, mask, op):
                return
        if op == "load" and root.shadow is not None:
            if self.defer_load(array, uniform, varying, mask):
                return
        elements = self.state.elements(array, uniform, varying)
        if root.pending is not None and self.conflicts_with_copy(array, elements, mask, site, op):
            return
        if root.written is not None:
            self.watch_unwritten(array, elements, mask, site, op)
        if root.shadow is not None:
            self.look_for_races(array, elements, mask, site, op, value)

    def conflicts_with_copy(self, array: Array, elements, mask, site: int, op: str) -> bool:
        """Report an access to elements that an asynchronous copy has yet to fill."""
        state = self.state
        pending = array.root.pending[elements[mask.indices]]
        met = np.flatnonzero(pending)
        if not len(met):
            return False
        lane = int(mask.indices[met[0]])
        begun = state.sites[pending[met[0]] - 1]
        text = (
            f"{VERBS[op]} {state.spelled(array, elements[lane])}, which the copy begun in line "
            f"{begun.line} has yet to fill: the thread that began it calls commit_copies() and "
            "wait_copies(n) first, with n the groups begun after it, and for other threads' copies "
            "cuda.syncthreads() follows"
        )
        state.found("race", text, site, lane)
        return True

    # ------------------------------------------------------------------ output
    def print(self, *parts) -> None:
        """``print``: a line for each active thread, in their order."""
        template = " ".join(form for form, _ in parts)
        values = [leaf for _, value in parts for leaf in leaves(value)]
        for lane in self.state.mask.indices:
            print(template % tuple(_flat(value, lane) for value in values))


def _flat(value, lane: int):
    return value[lane] if type(value) is ndarray else value
