"""Memory accesses of the running threads: addresses, bounds, loads, stores, atomics, allocation.

Bounds are checked on the smallest and the largest index of an access; masks are looked at only if
that check fails.
"""

import math
import threading
from collections.abc import Callable
from functools import partial

import numpy as np

from warpsim.core.interface import device_memory
from warpsim.core.memory import Array, contiguous_strides, global_array, item, poison
from warpsim.front.names import Unsupported
from warpsim.run.observer import Observer
from warpsim.run.state import State

ndarray = np.ndarray
_I8, _U8 = np.dtype("int64"), np.dtype("uint64")
_highest = np.maximum.reduce
#: Bytes that dynamic shared memory of a block is padded to, for elements of any usual size.
WIDEST = 16
#: Operations whose order does not matter: kind -> NumPy ufunc.
_UNORDERED = {
    "add": np.add, "sub": np.subtract, "max": np.maximum, "min": np.minimum,
    "nanmax": np.fmax, "nanmin": np.fmin, "and_": np.bitwise_and, "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip

_one_at_a_time = threading.Lock()  # for launches of several threads of the host


class Memory:
    """Memory accesses of the running threads."""

    #: How NumPy takes what idle lanes ask for outside. Where no lane does, "wrap" is the quickest;
    #: of numbers far outside it would take for ever.
    outside = "clip"

    def __init__(self, state: State, observer: Observer):
        self.state, self.observer = state, observer
        self.one_thread = state.root.count == 1  # the first lane is one, the others are none
        counters = state.counters
        self.always_free = counters is None if counters is None or counters.costs else None
        self.dynamic_shared: int = state.launch.dynamic_shared
        self.shared_bytes = self.dynamic_shared
        self._highest: dict = {}
        self._scaled: dict = {}
        self._dynamic: dict[int, Array] = {}  # by the bytes of an element

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
        """Element numbers of an access: the part that all lanes share, and the one that differs.

        The latter is None if none differs; and the lanes whose index is out of bounds, or None.
        """
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
                    i, bad = self.strange_index(array, index, axis, site, op, bad)
                uniform = uniform + i * stride
                continue
            if i.dtype != _I8:
                i = i.astype(_I8)
            if self.highest(i) >= size:
                self.outside = "clip"
                strange = self.state.mask.active & ((i < 0) | (i >= size))
                if strange.any():
                    i, bad = self.strange_index(array, index, axis, site, op, bad)
            if stride == 1:
                part = i
            elif stride == 0:
                continue
            else:
                part = self.scaled(i, stride)
            varying = part if varying is None else varying + part
        return uniform, varying, bad

    def strange_index(self, array: Array, index: tuple, axis: int, site: int, op: str, bad=None):
        """An index below zero or past the end: wrap it as Numba does, or report it.

        Returns the repaired index, and the ``bad`` lanes with those that stay outside, or None.
        """
        i, size = index[axis], array.shape[axis]
        lanes = np.broadcast_to(np.asarray(i), (self.state.lanes,))
        active, below = self.state.mask.active, (lanes < 0) & (lanes >= -size)
        if (active & below).any():
            lane = int(np.flatnonzero(active & below)[0])
            below &= self.observer.negative_index(array, index, axis, lane, site, op)
        wrapped = np.where(below, lanes + size, lanes)
        outside = active & ((wrapped < 0) | (wrapped >= size))
        differs = type(i) is ndarray or type(size) is ndarray
        if outside.any():
            self.observer.out_of_bounds(array, index, axis, outside, site, op)
            bad, wrapped = outside if bad is None else bad | outside, np.where(outside, 0, wrapped)
        if differs:
            return wrapped, bad
        return (i + size if -size <= i < 0 else 0), bad

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
            if type(i) is not ndarray and type(size) is not ndarray:
                strange = not 0 <= i < size
            else:
                strange = (self.state.mask.active & ((i < 0) | (i >= size))).any()
            if strange:
                i, _ = self.strange_index(array, index, axis, site, "view")
            offset = offset + i * stride
        return array.derived(tuple(shape), tuple(strides), offset)

    # ------------------------------------------------------------------ loads and stores
    def load(self, array: Array, index: tuple, site: int):
        if array.rows is not None:
            place = array.row(index)
            if place is not None:
                if self._is_free(array, place):
                    row = array.rows[place]
                    return item(row[0]) if self.one_thread else row.copy()
                return self.load_at(array, place, None, None, site)
        uniform, varying, bad = self.locate(array, index, site, "load")
        return self.load_at(array, uniform, varying, bad, site)

    def load_at(self, array: Array, uniform, varying, bad, site: int):
        if self.state.counters is not None:
            self.observer.record(array, uniform, varying, bad, site, "load")
        if array.space in ("shared", "local"):
            value = self._load_inside(array, uniform, varying)
        elif varying is None:
            value = item(array.flat[uniform]) if array.flat.size else poison(array.dtype)
        elif array.simple and array.flat.size > uniform:
            flat = array.flat[uniform:] if uniform else array.flat
            value = flat.take(varying, mode=self.outside)
        else:
            value = array.flat.take(varying + uniform, mode=self.outside)
        if bad is not None:
            return np.where(bad, poison(array.dtype), value).astype(array.dtype)
        return value

    def _is_free(self, array: Array, place: int) -> bool:
        """Whether nothing is asked of an access to an element of each thread's own array."""
        if self.always_free is not None:
            return self.always_free
        known, mask = array.root.whole.get(place), self.state.mask
        return known is mask or (known is not None and mask.within(known))

    def _load_inside(self, array: Array, uniform, varying):
        state, flat = self.state, array.flat
        if array.space == "local":
            if varying is None:
                row = flat.reshape(-1, state.lanes)[uniform]
                return item(row[0]) if self.one_thread and row.dtype.names is None else row.copy()
            return flat.take((varying + uniform) * state.lanes + state.lane, mode=self.outside)
        if varying is None:
            if state.blocks == 1:
                return item(flat[uniform])
            return np.repeat(flat.reshape(state.blocks, -1)[:, uniform], state.padded)
        full = state.in_blocks(varying, array) if state.blocks > 1 else varying
        if not array.simple:
            return flat.take(full + uniform, mode=self.outside)
        return (flat[uniform:] if uniform else flat).take(full, mode=self.outside)

    def store(self, array: Array, index: tuple, value, site: int) -> None:
        """Write the element of each active lane; of lanes that write to one, the last one stays."""
        state = self.state
        if array.rows is not None:
            place = array.row(index)
            if place is not None:
                mask = state.mask
                if mask.count and self.observer.carried is None and self._is_free(array, place):
                    if self.one_thread or mask.count == state.lanes:
                        array.rows[place] = value
                    else:
                        np.copyto(array.rows[place], value, where=mask.active, casting="unsafe")
                else:
                    self.store_at(array, place, None, None, value, site)
                return
        self.store_at(array, *self.locate(array, index, site, "store"), value, site)

    def store_at(self, array: Array, uniform, varying, bad, value, site: int) -> None:
        """Write the element of each active lane, once it is located."""
        state = self.state
        mask = state.active_part(bad)
        if state.counters is not None:
            self.observer.record(array, uniform, varying, bad, site, "store", value)
        if not mask:
            return
        flat, lanes = array.flat, state.lanes
        if array.space == "local":
            rows = flat.reshape(-1, lanes)
            if varying is None:
                if mask.count == lanes:
                    rows[uniform] = value
                else:
                    np.copyto(rows[uniform], value, where=mask.active, casting="unsafe")
                return
            full = (varying + uniform) * lanes + state.lane
        elif array.space == "shared" and (varying is None or state.blocks > 1):
            full = state.elements(array, uniform, varying)
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

    # ------------------------------------------------------------------ atomics
    def atomic(self, kind: str, array: Array, index: tuple, site: int, used: bool, *values):
        """Update elements, one thread after another by number; the old values if they are used."""
        state = self.state
        uniform, varying, bad = self.locate(array, index, site, "atomic")
        mask = state.active_part(bad)
        if state.counters is not None:
            self.observer.record(array, uniform, varying, bad, site, "atomic", values)
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
                for lane, place, *own in zip(lanes, places, *operands, strict=True):
                    old[lane] = flat[place]
                    flat[place] = _STEP[kind](flat[place], *own)
        return old

    # ------------------------------------------------------------------ allocation
    def captured(self, device, name: str) -> Array:
        """A device array from outside the kernel: its memory as it is at this launch."""
        launch = self.state.launch
        found = launch.captured.get(id(device))
        if found is None:
            found = launch.captured[id(device)] = global_array(device_memory(device), name)
            if launch.counters is not None:
                launch.watch(frozenset({name}), {name: found})
            if launch.inputs is not None:
                launch.inputs.keep(found)
        return found

    def shared_array(self, shape: tuple[int, ...], dtype, site: int, alignment: int = 1) -> Array:
        """``cuda.shared.array``: one copy for each block; the same one every time."""
        state = self.state
        key = state.base + site
        if key in state.allocated:
            return state.allocated[key]
        size, kind, name = math.prod(shape), np.dtype(dtype), state.site(site).array
        if size == 0 and kind.names is None:
            array = state.allocated[key] = self._dynamic_array(kind, name)
            return array
        if size:
            step = max(kind.alignment, alignment)
            address = -(-self.shared_bytes // step) * step
            self.shared_bytes = address + size * kind.itemsize
            self.check_shared(site)
        else:
            address, shape = 0, (self.dynamic_shared // kind.itemsize,)
            size = max(1, shape[0])
        spare = kind.names is not None  # a spare element for fields that are arrays: see Elements
        flat = np.zeros(state.blocks * size + spare, kind)[: state.blocks * size]
        array = self._of_blocks(flat, shape, size, name)
        array.address = address
        self._watched(array)
        state.allocated[key] = array
        self.fill(array)
        return array

    def _of_blocks(self, flat: ndarray, shape: tuple, per_block: int, name: str) -> Array:
        array = Array(flat, shape, contiguous_strides(shape), "shared", name)
        array.block_offset = self.state.block * per_block
        return array

    def _watched(self, array: Array) -> None:
        if self.state.counters is not None:
            array.written = np.zeros(array.flat.size, bool)
        self.observer.track(array, array.flat.size)

    def _dynamic_array(self, kind: np.dtype, name: str) -> Array:
        """``cuda.shared.array(0, ...)``: all dynamic memory of a block, whatever its elements.

        Arrays of elements of one size are watched together. Where there are several sizes, races
        between them and reads before any store are not looked for.
        """
        blocks, count = self.state.blocks, self.dynamic_shared // kind.itemsize
        step = -(-max(1, self.dynamic_shared) // WIDEST) * WIDEST
        others = list(self._dynamic.values())
        memory = others[0].flat.view(np.uint8) if others else np.zeros(blocks * step, np.uint8)
        array = self._of_blocks(memory.view(kind), (count,), step // kind.itemsize, name)
        twin = self._dynamic.setdefault(kind.itemsize, array)
        if twin is not array:
            array.written, array.shadow, array.pending = twin.written, twin.shadow, twin.pending
            return array
        self._watched(array)
        if array.written is not None:
            array.written.reshape(blocks, -1)[:, count:] = True
            for one in (array, *others) if others else ():
                one.written[...] = True
        if not others:
            self.fill(array)
        return array

    def local_array(self, shape: tuple[int, ...], dtype, site: int, alignment: int = 1) -> Array:
        """``cuda.local.array``: one copy for each lane."""
        state = self.state
        key = state.base + site, state.depth
        found = state.allocated.get(key)
        if found is not None:
            return found
        size = math.prod(shape)
        flat = np.zeros(size * state.lanes, dtype)
        array = Array(flat, shape, contiguous_strides(shape), "local", state.site(site).array)
        if flat.dtype.names is None:
            array.rows = flat.reshape(size, state.lanes)
        if state.counters is not None:
            array.written = np.zeros(flat.size, bool)
        state.allocated[key] = array
        self.fill(array)
        return array

    def fill(self, array: Array) -> None:
        """Fill new memory of the kernel's own: here with nothing but the zeros in it."""

    # ------------------------------------------------------------------ views that differ by lane
    def varying_slice(self, array: Array, part: slice, size, site: int):
        """Start, length and step of a slice in each lane, by Python's rules."""
        state = self.state
        step = 1 if part.step is None else part.step
        if np.any(state.mask.active & (np.asarray(step) == 0)):
            raise ValueError(f"line {state.site(site).line}: slice step cannot be zero")
        size = np.broadcast_to(np.asarray(size, np.int64), (state.lanes,))
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
        length = np.broadcast_to(np.maximum(0, -(-(stop - start) // step)), (state.lanes,))
        of_active = length[state.mask.active]
        alike = len(of_active) and (of_active == of_active[0]).all()
        return start, int(of_active[0]) if alike else length, step

    def locate_ragged(self, array: Array, index: tuple, site: int, op: str):
        """As `locate`, for an array whose shape differs by lane."""
        active = self.state.mask.active
        varying = np.broadcast_to(np.asarray(array.offset, np.int64), (self.state.lanes,))
        bad = None
        for axis, (i, size, stride) in enumerate(zip(index, array.shape, array.strides)):
            if (active & ((i < 0) | (i >= size))).any():
                i, bad = self.strange_index(array, index, axis, site, op, bad)
            varying = varying + i * stride
        return 0, varying, bad

    # ------------------------------------------------------------------ errors
    def check_shared(self, site: int) -> None:
        limit = self.state.launch.gpu.shared_per_block
        static = self.shared_bytes - self.dynamic_shared
        if static > 49_152 or self.shared_bytes > limit:
            raise Unsupported(
                f"{self.state.launch.name}: {self.shared_bytes:,} bytes of shared memory a block; "
                f"the {self.state.launch.gpu.name} has 49,152 for shared.array and {limit:,} in all"
            )


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


_STEP: dict[str, Callable] = {
    **_UNORDERED,
    "max": lambda old, new: new if new > old else old,  # also with NaN as on a GPU
    "min": lambda old, new: new if new < old else old,
    "exch": lambda old, new: new,
    "cas": lambda old, compare, new: new if old == compare else old,
    "inc": lambda old, top: 0 if old >= top else old + 1,
    "dec": lambda old, top: top if old == 0 or old > top else old - 1,
}
