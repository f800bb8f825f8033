"""Views whose shape differs by thread, such as ``x[cuda.grid(1):]``; elements one by one."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from warpsim.core.memory import Array
from warpsim.core.operators import floor_divide, remainder

ndarray = np.ndarray


class Ragged:
    """Indices into arrays whose axes may have another size in each lane, and all indices."""

    def varying_slice(self, array: Array, part: slice, size, site: int):
        """Start, length and step of a slice in each lane, by Python's rules."""
        step = 1 if part.step is None else part.step
        if np.any(self.mask.active & (np.asarray(step) == 0)):
            raise ValueError(f"line {self.site(site).line}: slice step cannot be zero")
        size = np.broadcast_to(np.asarray(size, np.int64), (self.lanes,))
        if type(step) is ndarray:
            step = np.where(step == 0, 1, step)  # of lanes that are not there
        up = np.asarray(step) > 0
        low, high = np.where(up, 0, -1), np.where(up, size, size - 1)

        def limit(given, missing):
            if given is None:
                return missing
            given = np.asarray(given, np.int64)
            return np.clip(np.where(given < 0, given + size, given), low, high)

        start = limit(part.start, np.where(up, 0, size - 1))
        stop = limit(part.stop, np.where(up, size, -1))
        length = np.maximum(0, -(-(stop - start) // step))
        return start, np.broadcast_to(length, (self.lanes,)), step

    def places(self, array: Array, axis: int = 0):
        """All indices, one by one; lanes sit out what lies beyond the end of their own axes."""
        if axis == 0 and not array.ragged:
            yield from product(*map(range, array.shape))
        elif axis == array.ndim:
            yield ()
        else:
            entry = self.mask
            for i in self.lane_range(array.shape[axis]):
                for rest in self.places(array, axis + 1):
                    yield i, *rest
            self.mask = entry

    def indices(self, shape: tuple):
        """All indices within a shape, as ``np.ndindex`` gives them."""
        for number in self.lane_range(math.prod(shape)):
            yield self.unravel(number, shape)

    @staticmethod
    def unravel(number, shape: tuple) -> tuple:
        """The index of an element that is so far from the first one, in C order."""
        parts = []
        for size in shape[:0:-1]:
            parts.append(remainder(number, size))
            number = floor_divide(number, size)
        return (number, *reversed(parts)) if shape else ()

    def enumerated(self, array: Array, site: int):
        """Each index of an array, and its element."""
        for index in self.indices(array.shape):
            yield index, self.load(array, index, site)

    @staticmethod
    def numbered(items, start):
        """``enumerate(items, start)``, in which each lane may begin with another number."""
        for number, item in enumerate(items):
            yield start + number, item

    def items(self, array: Array, site: int):
        """The elements of a 1-D array, or the rows of one with more dimensions, one by one."""
        for i in self.lane_range(array.shape[0]):
            yield self.item(array, i, site)

    def item(self, array: Array, i: int, site: int):
        whole = array.ndim == 1 and array.dtype.names is None
        return self.load(array, (i,), site) if whole else self.view(array, (i,), site)

    def unpack(self, array: Array, count: int, site: int) -> tuple:
        """``a, b = array``: so many elements, of which there must be no more."""
        if np.any(self.mask.active & (np.asarray(array.shape[0]) > count)):
            raise ValueError(
                f"line {self.site(site).line}: {array.name} has more than the {count} elements "
                "that are unpacked: slice it"
            )
        return tuple(self.item(array, i, site) for i in range(count))

    def ragged_index(self, array: Array, index: tuple, axis: int, site: int, op: str):
        """One index in each lane, negative ones wrapped, and the lanes where it is outside."""
        size = np.broadcast_to(np.asarray(array.shape[axis], np.int64), (self.lanes,))
        i = np.broadcast_to(np.asarray(index[axis]), (self.lanes,)).astype(np.int64)
        active = self.mask.active
        below = active & (i < 0) & (i >= -size)
        if below.any():
            self.negative_index(array, index, axis, int(np.flatnonzero(below)[0]), site, op)
            i = np.where(below, i + size, i)
        outside = active & ((i < 0) | (i >= size))
        if not outside.any():
            return i, None
        self.out_of_bounds(array, index, axis, outside, site, op)
        return np.where(outside, 0, i), outside

    def locate_ragged(self, array: Array, index: tuple, site: int, op: str):
        """As `Memory.locate`, for an array whose shape differs by lane."""
        varying = np.broadcast_to(np.asarray(array.offset, np.int64), (self.lanes,))
        bad = None
        for axis in range(array.ndim):
            i, outside = self.ragged_index(array, index, axis, site, op)
            varying = varying + i * array.strides[axis]
            if outside is not None:
                bad = outside if bad is None else bad | outside
        return 0, varying, bad
