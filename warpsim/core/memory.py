"""Global, shared, local and constant arrays.

An array is a flat part of memory with an offset, a shape and strides. Shared memory has one copy a
block, local memory one a lane, all in one flat NumPy array.
"""

import math
import operator
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import numpy as np
from numpy import ndarray

from warpsim.core.interface import owner_of, start_of
from warpsim.core.number_types import BFLOAT16


class Array:
    """An array in a kernel: global, shared, local or constant; strides are in elements.

    ``flat`` is the memory of the whole allocation, 1-D; ``offset`` the element where the array
    starts, which differs between lanes for a view taken by lane.
    """

    __slots__ = (
        "address", "block_offset", "dtype", "fields", "flat", "itemsize", "name", "ndim", "offset",
        "pending", "pitch", "place", "ragged", "rows", "shadow", "shape", "simple", "space",
        "strides", "view_of", "written", "whole",
    )  # fmt: skip

    def __init__(self, flat, shape, strides, space, name, offset=0, root=None):
        self.flat, self.shape, self.strides = flat, shape, strides
        self.space, self.name, self.offset = space, name, offset
        self.dtype, self.ndim = flat.dtype, len(shape)
        self.view_of = root  # none: it names itself in no attribute, or memory stays after a launch
        self.ragged = any(type(size) is ndarray for size in shape)  # the shape differs by lane
        plain = all(type(step) is int and step >= 0 for step in strides)
        self.simple = plain and type(offset) is not ndarray
        self.address = 0  # bytes from a 256-byte boundary (global) or in shared memory
        self.itemsize = self.pitch = flat.dtype.itemsize  # of one; from one to the next [bytes]
        self.fields = None  # records: field name -> Array, made when first used
        self.block_offset = None  # shared: element of each lane's own copy
        self.shadow = None  # traced and watched for races: warpsim.watch.access_history.Shadow
        self.place = None  # in a shadow of several arrays: its first unit, units of an element
        self.written = None  # traced shared and local arrays: which elements hold a value
        self.whole: dict = {}  # traced local arrays: of an element threads that all have set it
        self.pending = None  # traced shared arrays: elements that asynchronous copies fill
        self.rows = None  # local, of numbers: a row of all lanes for each element

    root = property(lambda self: self if self.view_of is None else self.view_of)
    size = property(lambda self: math.prod(self.shape))
    nbytes = property(lambda self: self.size * self.itemsize)
    byte_strides = property(lambda self: tuple(step * self.itemsize for step in self.strides))
    transposed = property(
        lambda self: self.derived(self.shape[::-1], self.strides[::-1], self.offset)
    )

    def row(self, index: tuple) -> int | None:
        """Element number of an index that is the same for all lanes, and inside; None else."""
        place = self.offset
        if type(place) is not int or len(index) != self.ndim:
            return None
        if len(index) == 1:
            i = index[0]
            inside = type(i) is int and 0 <= i < self.shape[0]
            return place + i * self.strides[0] if inside else None
        for i, size, stride in zip(index, self.shape, self.strides):
            if type(i) is not int or not 0 <= i < size:
                return None
            place += i * stride
        return place

    def derived(self, shape, strides, offset) -> "Array":
        array = Array(self.flat, shape, strides, self.space, self.name, offset, self.root)
        array.pitch, array.rows = self.pitch, self.rows
        return array


def global_array(memory: ndarray, name: str) -> Array:
    """The kernel's view of an array: a whole one (C or F order), or a part of one.

    A part, such as ``x[3:]`` or ``x[::2]``, stays where it lies in its allocation.
    """
    memory = memory.view(np.uint16) if memory.dtype == BFLOAT16 else memory
    owner, size = owner_of(memory), max(1, memory.itemsize)
    start = start_of(memory) - start_of(owner)
    strides = tuple(stride // size for stride in memory.strides)
    if memory.flags.forc:
        array = Array(memory.reshape(-1, order="A"), memory.shape, strides, "global", name)
        array.address = start if memory.size else 0
        return array
    if not owner.flags.forc or any(step % size for step in (*memory.strides, start, owner.nbytes)):
        raise TypeError(
            f"argument {name!r}: its elements of {size} bytes lie {memory.strides} bytes apart, "
            "which the simulator cannot take; pass a copy"
        )
    flat = owner.reshape(-1, order="A").view(memory.dtype)
    return Array(flat, memory.shape, strides, "global", name, start // size)


def ConstantArray(value: ndarray) -> Array:
    """An array from outside the kernel: frozen when the kernel is compiled, as in Numba."""
    frozen = np.array(value, order="C")
    frozen.setflags(write=False)
    array = global_array(frozen, "constant array")
    array.space = "constant"
    return array


def leaves(value: Any) -> Iterator[Any]:
    """The arrays and numbers of an argument, or of a tuple of them."""
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, tuple):
            yield from leaves(part)
        else:
            yield part


def arrays(value: Any) -> Iterator[Array]:
    """The arrays of an argument."""
    return (leaf for leaf in leaves(value) if isinstance(leaf, Array))


def item(value):
    """An element of memory as a uniform value."""
    return value if value.dtype.char in "efFmM" else value.item()


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of an array in C order."""
    return tuple(accumulate(shape[:0:-1], operator.mul, initial=1))[::-1] if shape else ()


def poison(dtype: np.dtype):
    """What a load from outside gives: NaN, or the type's largest value."""
    if dtype.kind in "fc":
        return dtype.type(np.nan)
    if dtype.kind in "mM":
        return dtype.type("NaT")
    return dtype.type(True) if dtype == np.bool_ else np.iinfo(dtype).max
