"""Global, shared, local and constant arrays: addresses, bounds, loads and stores.

An array is a flat piece of memory with an offset, a shape and strides. Shared memory has one copy
a block, local memory one a lane, all in one flat NumPy array. Bounds are checked on the smallest
and the largest index of an access; masks are looked at only if that check fails.
"""

from __future__ import annotations

import math

import numpy as np

from warpsim.core.interface import device_memory, owner_of, start_of
from warpsim.core.masks import Mask
from warpsim.core.number_types import BFLOAT16

ndarray = np.ndarray
_I8, _U8 = np.dtype("int64"), np.dtype("uint64")
_highest = np.maximum.reduce
_BOOL = np.dtype("bool")


class Array:
    """An array in a kernel.

    Attributes
    ----------
    flat : ndarray, 1-D
        The memory of the whole allocation.
    offset : int or ndarray of int64
        Element where the array starts; differs between lanes for a view taken by lane.
    shape, strides : tuple of int
        Strides in elements.
    space : {'global', 'shared', 'local', 'constant'}
    root : Array
        The array that this is a view of; itself if it is none.
    """

    __slots__ = (
        "address", "block_offset", "dtype", "fields", "flat", "name", "ndim", "offset", "pending",
        "pitch", "place", "ragged", "root", "rows", "shadow", "shape", "simple", "space",
        "strides", "written",
    )  # fmt: skip

    def __init__(self, flat, shape, strides, space, name, offset=0, root=None):
        self.flat, self.shape, self.strides = flat, shape, strides
        self.space, self.name, self.offset = space, name, offset
        self.dtype, self.ndim = flat.dtype, len(shape)
        self.root = self if root is None else root
        self.ragged = any(type(size) is ndarray for size in shape)  # the shape differs by lane
        self.simple = type(offset) is not ndarray and all(
            type(s) is int and s >= 0 for s in strides
        )
        self.address = 0  # bytes from a 256-byte boundary (global) or in shared memory
        self.pitch = flat.dtype.itemsize  # bytes from one element to the next
        self.fields = None  # records: field name -> Array, made when first used
        self.block_offset = None  # shared: element of each lane's own copy
        self.shadow = None  # traced and watched for races: warpsim.watch.access_history.Shadow
        self.place = None  # in a shadow of several arrays: its first unit, units of an element
        self.written = None  # traced shared and local arrays: which elements hold a value
        self.pending = None  # traced shared arrays: elements that asynchronous copies fill
        self.rows = None  # local, of numbers: a row of all lanes for each element

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def byte_strides(self) -> tuple[int, ...]:
        return tuple(stride * self.dtype.itemsize for stride in self.strides)

    def row(self, index: tuple) -> int | None:
        """Element number of an index that is the same for all lanes, and inside; None else."""
        place = self.offset
        if type(place) is not int or len(index) != self.ndim:
            return None
        for i, size, stride in zip(index, self.shape, self.strides):
            if type(i) is not int or not 0 <= i < size:
                return None
            place += i * stride
        return place

    @property
    def transposed(self) -> Array:
        return self.derived(self.shape[::-1], self.strides[::-1], self.offset)

    def derived(self, shape, strides, offset) -> Array:
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


def item(value):
    """An element of memory as a uniform value."""
    return value if value.dtype.char in "efFmM" else value.item()


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of an array in C order."""
    strides = [1]
    for size in shape[:0:-1]:
        strides.append(strides[-1] * size)
    return tuple(reversed(strides)) if shape else ()


class Memory:
    """Memory accesses of the running threads."""

    #: How NumPy takes what idle lanes ask for outside. Where no lane does, "wrap" is the quickest;
    #: of numbers far outside it would take for ever.
    outside = "clip"

    # ------------------------------------------------------------------ addresses
    def highest(self, index: ndarray) -> int:
        """Largest int64 over all lanes, kept while the array lives; of one below zero, past any."""
        found = self._highest.get(id(index))
        if found is not None:
            return found[1]
        if len(self._highest) > 64:
            self._highest.clear()
            self._scaled.clear()
        highest = int(_highest(index.view(_U8)))  # below zero is 2**63 and more
        self._highest[id(index)] = (index, highest)
        return highest

    def scaled(self, index: ndarray, stride: int) -> ndarray:
        """``index * stride``, kept while the array lives: rows of a matrix come back often."""
        key = (id(index), stride)
        found = self._scaled.get(key)
        if found is None:
            found = self._scaled[key] = index * stride
        return found

    def locate(self, array: Array, index: tuple, site: int, op: str):
        """Element numbers of an access.

        Returns
        -------
        uniform : int
            The part of the element number that all lanes share.
        varying : ndarray or None
            The part that differs.
        bad : ndarray of bool or None
            Lanes whose index is out of bounds.
        """
        if len(index) != array.ndim:
            self.wrong_dimensions(array, index, site)
        if array.ragged:
            self.outside = "clip"
            return self.locate_ragged(array, index, site, op)
        uniform, varying, bad = array.offset, None, None
        self.outside = "wrap"
        if type(uniform) is ndarray:
            uniform, varying, self.outside = 0, array.offset, "clip"
        for axis, i in enumerate(index):
            size, stride = array.shape[axis], array.strides[axis]
            if type(i) is not ndarray:
                if not 0 <= i < size:
                    i, outside = self.strange_index(array, index, axis, site, op)
                    if outside is not None:
                        bad = outside if bad is None else bad | outside
                uniform = uniform + i * stride
                continue
            if i.dtype != _I8:
                i = i.astype(_I8)
            if self.highest(i) >= size:
                self.outside = "clip"
                strange = self.mask.active & ((i < 0) | (i >= size))
                if strange.any():
                    i, outside = self.strange_index(array, index, axis, site, op)
                    if outside is not None:
                        bad = outside if bad is None else bad | outside
            if stride == 1:
                part = i
            elif stride == 0:
                continue
            else:
                part = self.scaled(i, stride)
            varying = part if varying is None else varying + part
        return uniform, varying, bad

    def strange_index(self, array: Array, index: tuple, axis: int, site: int, op: str):
        """An index below zero or past the end: wrap it as Numba does, or report it.

        Returns the repaired index and the lanes that stay outside, or None.
        """
        i, size = index[axis], array.shape[axis]
        lanes = np.broadcast_to(np.asarray(i), (self.lanes,))
        active = self.mask.active
        below = active & (lanes < 0) & (lanes >= -size)
        if below.any():
            self.negative_index(array, index, axis, int(np.flatnonzero(below)[0]), site, op)
        wrapped = np.where((lanes < 0) & (lanes >= -size), lanes + size, lanes)
        outside = active & ((wrapped < 0) | (wrapped >= size))
        if not outside.any():
            if type(i) is ndarray:
                return wrapped, None
            return (i + size if -size <= i < 0 else 0), None
        self.out_of_bounds(array, index, axis, outside, site, op)
        if type(i) is ndarray:
            return np.where(outside, 0, wrapped), outside
        return 0, outside

    def view(self, array: Array, index: tuple, site: int) -> Array:
        """A slice or a row of an array: no copy."""
        offset, shape, strides, axis = array.offset, [], [], -1
        missing = array.ndim - sum(i is not None for i in index)
        for i in (*index, *[slice(None)] * missing):
            if i is None:  # a new axis
                shape.append(1)
                strides.append(0)
                continue
            axis += 1
            size, stride = array.shape[axis], array.strides[axis]
            if type(i) is slice:
                if any(type(part) is ndarray for part in (i.start, i.stop, i.step, size)):
                    start, length, step = self.varying_slice(array, i, size, site)
                    shape.append(length)
                else:
                    start, stop, step = i.indices(size)
                    shape.append(max(0, -(-(stop - start) // step)))
                strides.append(stride * step)
                offset = offset + start * stride
                continue
            if type(size) is ndarray:
                i, _ = self.ragged_index(array, index, axis, site, "view")
            elif type(i) is not ndarray:
                if not 0 <= i < size:
                    i, _ = self.strange_index(array, index, axis, site, "view")
            elif (self.mask.active & ((i < 0) | (i >= size))).any():
                i, _ = self.strange_index(array, index, axis, site, "view")
            offset = offset + i * stride
        return array.derived(tuple(shape), tuple(strides), offset)

    def active_part(self, bad: ndarray | None) -> Mask:
        """The active lanes, less those whose address is bad."""
        if bad is None:
            return self.mask
        return self.inside(self.mask.active & ~bad, self.mask)

    # ------------------------------------------------------------------ loads and stores
    def load(self, array: Array, index: tuple, site: int):
        """The element of each lane."""
        if array.rows is not None:
            place = array.row(index)
            if place is not None:
                if self.counters is None:
                    return array.rows[place].copy()
                return self.load_at(array, place, None, None, site)
        uniform, varying, bad = self.locate(array, index, site, "load")
        return self.load_at(array, uniform, varying, bad, site)

    def load_at(self, array: Array, uniform, varying, bad, site: int):
        """The element of each lane, once it is located."""
        space = array.space
        if space in ("global", "constant"):
            if self.counters is not None:
                self.record(array, uniform, varying, bad, site, "load")
            if varying is None:
                value = item(array.flat[uniform]) if array.flat.size else self.poison(array.dtype)
            elif array.simple and array.flat.size > uniform:
                flat = array.flat[uniform:] if uniform else array.flat
                value = flat.take(varying, mode=self.outside)
            else:
                value = array.flat.take(varying + uniform, mode=self.outside)
        else:
            value = self.load_inside(array, uniform, varying, bad, site)
        if bad is not None:
            return np.where(bad, self.poison(array.dtype), value).astype(array.dtype)
        return value

    def load_inside(self, array: Array, uniform, varying, bad, site: int):
        """A load from shared or local memory."""
        root = array.root
        if self.counters is not None:
            self.record(array, uniform, varying, bad, site, "load")
        if root.space == "local":
            if varying is None:
                return array.flat.reshape(-1, self.lanes)[uniform].copy()
            return array.flat.take((varying + uniform) * self.lanes + self.lane, mode=self.outside)
        if varying is None:
            if self.blocks == 1:
                return item(array.flat[uniform])
            return np.repeat(array.flat.reshape(self.blocks, -1)[:, uniform], self.padded)
        full = self.in_blocks(varying, array) if self.blocks > 1 else varying
        flat = array.flat[uniform:] if uniform and array.simple else array.flat
        if not array.simple:
            full = full + uniform
        return flat.take(full, mode=self.outside)

    def store(self, array: Array, index: tuple, value, site: int) -> None:
        """Write the element of each active lane; of lanes that meet, the last one stays."""
        if array.space == "constant":
            self.constant_store(array, site)
        elif array.rows is not None:
            place = array.row(index)
            if place is not None:
                if self.counters is None and self.mask.count == self.lanes:
                    array.rows[place] = value
                else:
                    self.store_at(array, place, None, None, value, site)
                return
        self.store_at(array, *self.locate(array, index, site, "store"), value, site)

    def store_at(self, array: Array, uniform, varying, bad, value, site: int) -> None:
        """Write the element of each active lane, once it is located."""
        mask = self.active_part(bad)
        if self.counters is not None:
            self.record(array, uniform, varying, bad, site, "store", value)
        if not mask:
            return
        flat, lanes = array.flat, self.lanes
        if array.space == "local":
            rows = flat.reshape(-1, lanes)
            if varying is None:
                if mask.count == lanes:
                    rows[uniform] = value
                else:
                    np.copyto(rows[uniform], value, where=mask.active, casting="unsafe")
                return
            full = (varying + uniform) * lanes + self.lane
        elif array.space == "shared" and (varying is None or self.blocks > 1):
            full = self.elements(array, uniform, varying)
        elif varying is None:
            flat[uniform] = value[mask.indices[-1]] if type(value) is ndarray else value
            return
        else:
            full = varying + uniform if uniform else varying
        if mask.count == lanes:
            flat[full] = value
        else:
            chosen = mask.indices
            flat[full[chosen]] = value[chosen] if type(value) is ndarray else value

    @staticmethod
    def poison(dtype: np.dtype):
        """What a load from outside gives: NaN, or the type's largest value."""
        if dtype.kind in "fc":
            return dtype.type(np.nan)
        if dtype.kind in "mM":
            return dtype.type("NaT")
        return dtype.type(True) if dtype == _BOOL else np.iinfo(dtype).max

    # ------------------------------------------------------------------ allocation
    def captured(self, device, name: str) -> Array:
        """A device array from outside the kernel: its memory as it is at this launch."""
        found = self.launch.captured.get(id(device))
        if found is None:
            found = self.launch.captured[id(device)] = global_array(device_memory(device), name)
            if self.counters is not None:
                self.launch.watch(frozenset({name}), {name: found})
            if self.launch.inputs is not None:
                self.launch.inputs.keep(found)
        return found

    def shared_array(self, shape: tuple[int, ...], dtype, site: int, alignment: int = 1) -> Array:
        """``cuda.shared.array``: one copy for each block; the same one every time."""
        found = self._allocated.get(self.base + site)
        if found is not None:
            return found
        size, kind = math.prod(shape), np.dtype(dtype)
        if size == 0:
            shape, size = (self.dynamic_shared // kind.itemsize,), 0
            per_block = shape[0]
        else:
            per_block = size
        spare = kind.names is not None  # room for fields that are arrays: see Records
        flat = np.zeros(self.blocks * max(per_block, 1) + spare, kind)
        flat = flat[:-1] if spare else flat
        strides = contiguous_strides(shape)
        array = Array(flat, shape, strides, "shared", self.site(site).array)
        array.block_offset = self.block * per_block
        if size:
            step = max(kind.alignment, alignment)
            array.address = -(-self.shared_bytes // step) * step
            self.shared_bytes = array.address + size * kind.itemsize
            self.check_shared(site)
        if self.counters is not None:
            array.written = np.zeros(flat.size, _BOOL)
        self.track(array, flat.size)
        self._allocated[self.base + site] = array
        return array

    def local_array(self, shape: tuple[int, ...], dtype, site: int, alignment: int = 1) -> Array:
        """``cuda.local.array``: one copy for each lane."""
        key = self.base + site, self.depth
        found = self._allocated.get(key)
        if found is not None:
            return found
        size = math.prod(shape)
        flat = np.zeros(size * self.lanes, dtype)
        array = Array(flat, shape, contiguous_strides(shape), "local", self.site(site).array)
        if flat.dtype.names is None:
            array.rows = flat.reshape(size, self.lanes)
        if self.counters is not None:
            array.written = np.zeros(flat.size, _BOOL)
        self._allocated[key] = array
        return array
