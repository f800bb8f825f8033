"""Device memory that nobody has set: which elements of ``cuda.device_array`` hold no value yet.

Elements count as set once a host call, or a kernel's store, has gone there; after a launch that is
not traced all that it may store to. Whoever writes some other way is seen by what stands there.
"""

import weakref
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.interface import owner_of, start_of

#: Allocations with elements that nobody has set: which are, and what the others hold.
_allocations: dict[int, tuple[ndarray, np.generic]] = {}


def never_set(memory: ndarray) -> None:
    """Note an allocation whose elements all hold the same, and no value."""
    owner, size = owner_of(memory), memory.itemsize
    if memory.size and memory.dtype.names is None and not owner.nbytes % size:
        made = np.zeros(owner.nbytes // size, bool), memory.reshape(-1, order="A")[0].copy()
        _allocations[id(owner)] = made
        weakref.finalize(owner, _allocations.pop, id(owner), None).atexit = False


def set_elements(memory: ndarray) -> ndarray | None:
    """Which elements are set, as a view; None where all are, and where that is not known."""
    owner = owner_of(memory)
    known = _allocations.get(id(owner))
    if known is None or not memory.size:
        return None
    is_set, filled = known
    start, size = start_of(memory) - start_of(owner), filled.itemsize
    if memory.itemsize != size or any(step % size for step in (start, *memory.strides)):
        is_set[...] = True  # elements of another size: not followed further
    if is_set.all():
        del _allocations[id(owner)]
        return None
    steps = [step // size for step in memory.strides]
    return ndarray(memory.shape, bool, is_set, start // size, steps)


def now_set(memory: ndarray, values: Any = None) -> None:
    """All elements of an array have been written, or those for which some values are set."""
    found = set_elements(memory) if _allocations else None
    if found is not None:
        known = set_elements(values) if isinstance(values, ndarray) else None
        found |= True if known is None else known


def never_set_elements(flat: ndarray) -> ndarray | None:
    """Which elements of a 1-D array are set, as a view, once one has looked at what they hold."""
    found = set_elements(flat) if _allocations else None
    if found is not None:
        held = _allocations[id(owner_of(flat))][1].tobytes()
        found |= (flat.view(np.uint8).reshape(len(flat), -1) != np.frombuffer(held, "u1")).any(1)
    return found
