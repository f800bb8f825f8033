"""Addresses of arrays, and arrays that lie at an address."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from warpsim.core.interface import address_of, memory_from
from warpsim.core.memory import Array, contiguous_strides
from warpsim.front.names import Unsupported

#: Where shared and local memory begin: anywhere, but far from each other and well aligned.
WINDOWS = {"shared": 1 << 46, "local": 1 << 45}


def pointed(address: int, dtype: np.dtype, name: str) -> Array:
    """The elements from an address on, to the end of the allocation in which it lies.

    Raises
    ------
    TypeError
        If no device array of the simulator lies there.
    """
    memory = memory_from(address, dtype)
    return Array(memory, memory.shape, (1,), "global", name)


class Addresses:
    """What lane programs do with addresses."""

    def address_of(self, array: Array):
        """``array.ctypes.data``: the address of its first element, in bytes."""
        if array.space in WINDOWS:
            start = WINDOWS[array.space] + array.root.address
        else:
            start = address_of(array.flat)
        return start + array.offset * array.itemsize

    def array_at(self, address, shape, dtype: np.dtype, fortran: bool, name: str, site: int):
        """``carray`` and ``farray``: an array of some shape at an address of global memory."""
        if isinstance(address, Array):
            address = self.address_of(address)
        sizes = shape if isinstance(shape, tuple) else (shape,)
        place = f"line {self.site(site).line}: {name}"
        if any(type(part) is np.ndarray for part in (address, *sizes)):
            one = [self._alike(part, place) for part in (address, *sizes)]
            address, sizes = one[0], tuple(one[1:])
        key: Any = (address, sizes, dtype, fortran)
        found = self.launch.captured.get(key)
        if found is None:
            memory = memory_from(address, dtype)
            count = math.prod(sizes)
            if count > memory.size:
                raise ValueError(
                    f"{place}: {count:,} elements of {dtype}, but {memory.size:,} lie there"
                )
            order = sizes[::-1] if fortran else sizes
            strides = contiguous_strides(order)
            strides = strides[::-1] if fortran else strides
            found = Array(memory[:count], sizes, strides, "global", name)
            self.launch.captured[key] = found
            if self.counters is not None:
                self.launch.watch(frozenset({name}), {name: found})
            if self.launch.inputs is not None:
                self.launch.inputs.keep(found)
        return found

    def _alike(self, value, place: str) -> int:
        """The value that all active lanes have in common."""
        if type(value) is not np.ndarray:
            return value
        first = int(value[self.mask.indices[0]])
        if (value[self.mask.active] != first).any():
            raise Unsupported(f"{place} of an address or a shape that differs by thread")
        return first
