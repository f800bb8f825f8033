"""Atomic operations of the running threads, with the old value that each thread gets."""

import threading
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy import ndarray

from warpsim.core.memory import Array
from warpsim.run.memory import Memory
from warpsim.run.state import State

#: Operations whose order does not matter: kind -> NumPy ufunc.
_UNORDERED = {
    "add": np.add, "sub": np.subtract, "max": np.maximum, "min": np.minimum,
    "nanmax": np.fmax, "nanmin": np.fmin, "and_": np.bitwise_and, "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip

_one_at_a_time = threading.Lock()  # for launches of several threads of the host


class Atomics:
    """``cuda.atomic``: threads that access one address go one after the other, by number."""

    def __init__(self, state: State, memory: Memory):
        self.state, self.memory = state, memory

    def atomic(self, kind: str, array: Array, index: tuple, site: int, used: bool, *values):
        """Update elements; returns the old values if they are used, else None."""
        state = self.state
        uniform, varying, bad = self.memory.locate(array, index, site, "atomic")
        mask = state.active_part(bad)
        if state.counters is not None:
            self.memory.observer.record(array, uniform, varying, bad, site, "atomic", values)
        if not mask:
            return array.dtype.type(0)
        full = state.elements(array, uniform, varying)
        lanes = mask.indices
        places = full[lanes]
        fill = partial(np.full, len(lanes), dtype=array.dtype)
        operands = [value[lanes] if type(value) is ndarray else fill(value) for value in values]
        flat = array.flat
        if kind in ("max", "min") and array.dtype.kind == "f" and not used:
            kept = ~np.isnan(operands[0])  # as on a GPU, a NaN is neither larger nor smaller
            places, operands = places[kept], [operands[0][kept]]
        with _one_at_a_time:
            if not used and kind in _UNORDERED:
                _UNORDERED[kind].at(flat, places, operands[0].astype(array.dtype, copy=False))
                return None
            old = np.zeros(state.lanes, array.dtype)
            if kind in ("add", "sub") and array.dtype.kind in "iu":
                old[lanes] = _running_sums(flat, places, operands[0], kind == "sub")
            else:
                old[lanes] = _one_by_one(flat, places, _STEP[kind], operands)
        return old


def _running_sums(flat: ndarray, places: ndarray, values: ndarray, negative: bool) -> ndarray:
    """Old values of integer additions, and the additions themselves."""
    values = values.astype(flat.dtype)
    if negative:
        values = -values
    order = _by_place(places)
    place, value = places[order], values[order]
    before = np.cumsum(value, dtype=flat.dtype) - value
    starts = np.r_[True, place[1:] != place[:-1]]
    first = np.maximum.accumulate(np.where(starts, np.arange(len(place)), 0))
    old = np.empty(len(place), flat.dtype)
    old[order] = flat[place] + (before - before[first])
    np.add.at(flat, places, values)
    return old


def _by_place(places: ndarray) -> ndarray:
    """The order of a stable sort; NumPy sorts numbers many times faster than it says how."""
    if (places[1:] >= places[:-1]).all():
        return np.arange(len(places))
    bits = len(places).bit_length()
    return np.sort(places << bits | np.arange(len(places))) & ((1 << bits) - 1)


def _one_by_one(flat: ndarray, places: ndarray, step: Callable, operands: list[ndarray]) -> ndarray:
    old = np.empty(len(places), flat.dtype)
    for number, place in enumerate(places):
        old[number] = flat[place]
        flat[place] = step(flat[place], *(operand[number] for operand in operands))
    return old


_STEP: dict[str, Callable] = {
    **_UNORDERED,
    "max": lambda old, new: new if new > old else old,  # also with NaN as on a GPU
    "min": lambda old, new: new if new < old else old,
    "exch": lambda old, new: new,
    "cas": lambda old, compare, new: new if old == compare else old,
    "inc": lambda old, top: 0 if old >= top else old + 1,
    "dec": lambda old, top: top if old == 0 or old > top else old - 1,
}
