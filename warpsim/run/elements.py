"""Elements of arrays: parts, other views, arrays at an address; reductions and ufuncs of all.

A part, such as a field of records or an imaginary part, is an array of its own that lies in the
memory of the whole. Whole records are copied field by field, so that every access to them is one to
a number.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.lib.stride_tricks import as_strided

from warpsim.core import operators
from warpsim.core.interface import address_of
from warpsim.core.memory import Array, contiguous_strides
from warpsim.front.names import Unsupported
from warpsim.run.control import Control
from warpsim.run.memory import Memory
from warpsim.run.state import State

#: Where shared and local memory begin: anywhere, but far from each other and well aligned.
WINDOWS = {"shared": 1 << 46, "local": 1 << 45}


class Elements:
    """What lane programs do with parts of elements, with addresses, and with one after another."""

    def __init__(self, state: State, memory: Memory, control: Control):
        self.state, self.memory, self.control = state, memory, control

    # ------------------------------------------------------------------ parts
    def field(self, array: Array, name: str) -> Array:
        """A field of records: an array of the records' shape, then the field's own."""
        root = array.root
        part = self._part(root, name, lambda: self._field(root, name))
        own, ratio = root.ndim, root.pitch // part.pitch if root.space != "local" else 0
        if part.ndim == own:
            return part.derived(array.shape, array.strides, array.offset)
        count = ratio or math.prod(part.shape[own:])
        strides = tuple(stride * count for stride in array.strides)
        shape = array.shape + part.shape[own:]
        return part.derived(shape, strides + part.strides[own:], array.offset * count)

    def component(self, array: Array, name: str) -> Array:
        root = array.root
        start = root.itemsize // 2 if name == "imag" else 0
        make = partial(self._like, root, getattr(root.flat, name), name, start)
        part = self._part(root, name, make)
        part.written, part.whole = root.written, root.whole
        return part.derived(array.shape, array.strides, array.offset)

    def _part(self, root: Array, name: str, make: Callable[[], Array]) -> Array:
        root.fields = root.fields or {}
        if name not in root.fields:
            root.fields[name] = make()
        return root.fields[name]

    def _like(self, root: Array, flat: ndarray, name: str, start: int) -> Array:
        place = root.shape, root.strides, root.space, f"{root.name}.{name}"
        return self._over(root, Array(flat, *place), start, root.pitch)

    def _over(self, root: Array, part: Array, start: int, pitch: int, step: int = 1) -> Array:
        """An array in the memory of a whole one, from a byte on, with more elements a block."""
        part.pitch, part.address = pitch, root.address + start
        if root.block_offset is not None:
            part.block_offset = root.block_offset * step
        if root.written is not None and root.space == "global":
            root.written[...] = True  # as other elements they are not followed
        elif root.written is not None:
            part.written = np.zeros(part.flat.size, bool)
        if root.shadow is not None:
            self.memory.observer.track(part, part.flat.size)
            self.state.launch.shadows[id(part)] = part.shadow
        return part

    def _field(self, root: Array, name: str) -> Array:
        kind, start = root.dtype.fields[name][:2]
        if kind.subdtype is None:
            return self._like(root, root.flat[name], name, start)
        kind, own = kind.subdtype
        inner, size = contiguous_strides(own), math.prod(own)
        if root.space == "local":  # each lane's own copy: whole records go field by field
            flat, step = np.zeros(root.flat.size * size, kind), size
            pitch = kind.itemsize
        else:
            pitch = math.gcd(root.pitch, kind.itemsize)
            step, inner = root.pitch // pitch, tuple(s * kind.itemsize // pitch for s in inner)
            bytes_ = root.flat.size * root.pitch - start
            count = (bytes_ - kind.itemsize) // pitch + 1 if bytes_ > 0 else 0
            if root.space == "shared":  # one record too many is allocated: all blocks alike
                count = root.flat.size * step
            flat = _typed(root.flat, name, kind, count, pitch)
        strides = tuple(stride * step for stride in root.strides) + inner
        part = Array(flat, root.shape + own, strides, root.space, f"{root.name}.{name}")
        self._over(root, part, start, pitch, step)
        if root.space == "local":
            self.memory.fill(part)
        return part

    # ------------------------------------------------------------------ other shapes and types
    def reshape(self, array: Array, shape: tuple, site: int) -> Array:
        """The same elements under another shape; they lie without gaps, as Numba asks for."""
        if any(type(size) is ndarray for size in shape) or array.ragged:
            raise Unsupported(f"line {self.state.site(site).line}: a shape that differs by thread")
        line = f"line {self.state.site(site).line}"
        if array.strides != contiguous_strides(array.shape) and array.size:
            raise NotImplementedError(f"{line}: reshape() supports contiguous array only")
        sizes = list(shape)
        if sizes.count(-1) == 1:
            rest = -math.prod(sizes)
            sizes[sizes.index(-1)] = array.size // rest if rest else 0
        if math.prod(sizes) != array.size or min(sizes, default=0) < 0:
            raise ValueError(
                f"{line}: total size of new array must be unchanged: {array.name} has {array.size} "
                f"elements, the shape is {tuple(shape)}"
            )
        return array.derived(tuple(sizes), contiguous_strides(tuple(sizes)), array.offset)

    def view_as(self, array: Array, dtype: np.dtype, site: int) -> Array:
        """The same bytes as elements of another type."""
        root, old, new = array.root, array.dtype.itemsize, dtype.itemsize
        place = f"line {self.state.site(site).line}: .view({dtype}) of {array.name}"
        if old == new:
            make = partial(self._like, root, root.flat.view(dtype), "", 0)
            part = self._part(root, dtype.name, make)
            part.name, part.written, part.shadow = root.name, root.written, root.shadow
            part.whole = root.whole
            return part.derived(array.shape, array.strides, array.offset)
        if array.space == "local" or root.pitch != old:
            raise Unsupported(f"{place}, whose elements have another size")
        if not array.ndim or array.strides[-1] != 1 or self._somewhere(array.shape[-1] * old % new):
            raise ValueError(f"{place}: its last axis does not hold whole elements without gaps")
        start, copies = array.offset * old, 1 if root.block_offset is None else self.state.blocks
        whole = root.flat.nbytes // copies // new  # elements of an allocation, or of each block's
        odd = copies > 1 and root.flat.nbytes // copies % new
        if odd or self._somewhere(start % new) or any(s * old % new for s in array.strides[:-1]):
            raise Unsupported(f"{place} at an address that is no multiple of {new} bytes")

        def made() -> Array:
            flat = root.flat[: copies * whole * new // old].view(dtype)
            part = self._over(root, Array(flat, (whole,), (1,), root.space, root.name), 0, new)
            if root.block_offset is not None:
                part.block_offset = self.state.block * whole
                if root.written is not None:  # as other elements they are not followed
                    root.written[...] = part.written[...] = True
            return part

        part = self._part(root, dtype.name, made)
        strides = tuple(stride * old // new for stride in array.strides[:-1])
        shape = (*array.shape[:-1], array.shape[-1] * old // new)
        return part.derived(shape, (*strides, 1), start // new)

    def _somewhere(self, wrong: Any) -> bool:
        return bool(np.any(wrong[self.state.mask.active] if type(wrong) is ndarray else wrong))

    # ------------------------------------------------------------------ whole records and slices
    def store_record(self, array: Array, index: tuple, value: Array, site: int) -> None:
        """Copy a record; its numbers are all read before the first is set."""
        for target, place, element in list(self._numbers(array, index, value, site)):
            self.memory.store(target, place, element, site)

    def _numbers(self, array: Array, index: tuple, value: Array, site: int):
        for name in array.dtype.names:
            target, source = self.field(array, name), self.field(value, name)
            for inner in product(*map(range, source.shape)):
                if target.dtype.names is None:
                    yield target, index + inner, self.memory.load(source, inner, site)
                else:
                    part = self.memory.view(source, inner, site)
                    yield from self._numbers(target, index + inner, part, site)

    def copied(self, array: Array, site: int) -> Array:
        """``array.copy()``: an array of each thread's own, a new one every time."""
        state = self.state
        if array.ragged:
            raise Unsupported(f"line {state.site(site).line}: .copy() of a shape that differs")
        state.allocated.pop((state.base + site, state.depth), None)
        made = self.memory.local_array(array.shape, array.dtype, site)
        self.store_all(made, array, site, None if array.dtype.names else lambda value: value)
        return made

    def store_all(self, array: Array, value, site: int, convert: Callable | None) -> None:
        """``array[...] = value``: each thread sets all elements; an array is read before that."""
        state = self.state
        if not isinstance(value, tuple | Array):
            for place in self.places(array):
                self.memory.store(array, place, value, site)
            return
        line = f"line {state.site(site).line}"
        if isinstance(value, tuple):  # for an array of one axis
            sizes = np.broadcast_to(np.asarray(array.shape[0]), state.lanes)
            wrong = state.mask.active & (sizes != len(value))
            if wrong.any():
                there = f"a slice of {int(sizes[wrong][0])} elements"
                raise ValueError(f"{line}: cannot assign {len(value)} values to {there}")
            for number, element in enumerate(value):
                # converted once more: the register of a byte has 16 bits
                self.memory.store(array, (number,), convert(element), site)
            return
        if array.ragged or value.ragged:
            raise Unsupported(f"{line}: several values for a slice whose limits differ by thread")
        if not broadcasts(value.shape, array.shape):
            raise ValueError(
                f"{line}: cannot assign slice of shape {array.shape} from "
                f"input of different size {value.shape}"
            )
        places = {p: broadcast_place(p, value.shape) for p in product(*map(range, array.shape))}
        if convert is None:
            for place, source in places.items():
                self.store_record(array, place, self.memory.view(value, source, site), site)
            return
        read = {p: convert(self.memory.load(value, source, site)) for p, source in places.items()}
        for place, element in read.items():
            self.memory.store(array, place, element, site)

    # ------------------------------------------------------------------ addresses
    def address_of(self, array: Array):
        """``array.ctypes.data``: the address of its first element, in bytes."""
        if array.space in WINDOWS:
            start = WINDOWS[array.space] + array.root.address
        else:
            start = address_of(array.flat)
        return start + array.offset * array.itemsize

    # ------------------------------------------------------------------ one by one
    def places(self, array: Array, axis: int = 0):
        """All indices, one by one; lanes sit out what lies beyond the end of their own axes."""
        if axis == 0 and not array.ragged:
            yield from product(*map(range, array.shape))
        elif axis == array.ndim:
            yield ()
        else:
            entry = self.state.mask
            for i in self.control.lane_range(array.shape[axis]):
                for rest in self.places(array, axis + 1):
                    yield i, *rest
            self.state.mask = entry

    def indices(self, shape: tuple):
        """All indices within a shape, as ``np.ndindex`` gives them."""
        for number in self.control.lane_range(math.prod(shape)):
            yield self.unravel(number, shape)

    @staticmethod
    def unravel(number, shape: tuple) -> tuple:
        """The index of an element that is so far from the first one, in C order."""
        parts = []
        for size in shape[:0:-1]:
            parts.append(operators.remainder(number, size))
            number = operators.floor_divide(number, size)
        return (number, *reversed(parts)) if shape else ()

    def enumerated(self, array: Array, site: int):
        for index in self.indices(array.shape):
            yield index, self.memory.load(array, index, site)

    @staticmethod
    def numbered(items, start):
        """``enumerate(items, start)``, in which each lane may begin with another number."""
        for number, item in enumerate(items):
            yield start + number, item

    def items(self, array: Array, site: int):
        """The elements of a 1-D array, or the rows of one with more dimensions, one by one."""
        for i in self.control.lane_range(array.shape[0]):
            yield self.item(array, i, site)

    def item(self, array: Array, i: int, site: int):
        number = array.ndim == 1 and array.dtype.names is None
        return (self.memory.load if number else self.memory.view)(array, (i,), site)

    def unpack(self, array: Array, count: int, site: int) -> tuple:
        """``a, b = array``: so many elements, of which there must be no more."""
        state = self.state
        if np.any(state.mask.active & (np.asarray(array.shape[0]) > count)):
            raise ValueError(
                f"line {state.site(site).line}: {array.name} has more than the {count} elements "
                "that are unpacked: slice it"
            )
        return tuple(self.item(array, i, site) for i in range(count))

    # ------------------------------------------------------------------ all of them
    def _folded(self, array: Array, heading: str, site: int, value, step: Callable):
        """``step(value, element, its number)`` for all elements, from the first on."""
        counted = {heading: 1, "in double": 1} if heading == "float64" else {heading: 1}
        for number, index in enumerate(self.places(array)):
            more = step(value, self.memory.load(array, index, site), number)
            there = self.state.mask.active
            value = self.control.merged(there, more, value) if array.ragged else more
            if self.state.counters is not None:
                self.memory.observer.count(site, counted)
        return value

    def reduced(self, name: str, array: Array, convert: Callable, heading: str, site: int):
        """One number of all: by an array's method, such as ``sum``, or by ``min`` and ``max``."""
        fold = partial(self._folded, array, heading, site)
        count = convert(math.prod(array.shape))
        zero, better = array.dtype.type(0), np.less if name.endswith("min") else np.greater
        match name:
            case "sum" | "mean":
                value = fold(convert(0), lambda old, x, _: convert(old + convert(x)))
                return value if name == "sum" else convert(operators.divide(value, count))
            case "prod":
                wrap = operators.wrap
                return fold(convert(1), lambda old, x, _: convert(wrap(old * convert(x))))
            case "any":
                return fold(False, lambda old, x, _: old | (x != 0))
            case "all":
                return fold(True, lambda old, x, _: old & (x != 0))
            case "min" | "max":
                self._refuse_empty(array, site, "iterable argument is empty")
                return fold((0, zero), _first_best(better, False))[1]
            case "argmin" | "argmax":
                self._refuse_empty(array, site, "attempt to reduce an empty sequence")
                return fold((0, zero), _first_best(better, True))[0]
        wide = operators.complex128 if array.dtype.kind == "c" else operators.float64
        mean = self.reduced("mean", array, wide, heading, site)
        squares = fold(convert(0), lambda old, x, _: old + ((x - mean) * np.conj(x - mean)).real)
        variance = convert(operators.divide(squares, count))
        return variance if name == "var" else variance**0.5

    def _refuse_empty(self, array: Array, site: int, words: str) -> None:
        empty = (self.state.mask.active & (np.asarray(size) == 0) for size in array.shape)
        if any(lanes.any() for lanes in empty):
            raise ValueError(f"line {self.state.site(site).line}: {words}")

    def ufunc(self, run: Callable, out: Array, convert: Callable, site: int, *inputs: Any) -> Array:
        """``out[...] = run(inputs)``, the inputs broadcast to the shape of ``out``."""
        arrays = [value for _, value in inputs if isinstance(value, Array)]
        place = f"line {self.state.site(site).line}"
        if out.ragged or any(array.ragged for array in arrays):
            raise Unsupported(f"{place}: a ufunc of arrays whose shape differs by thread")
        for array in arrays:
            if not broadcasts(array.shape, out.shape):
                raise ValueError(
                    f"{place}: operands could not be broadcast together: {array.name} has shape "
                    f"{array.shape}, the result {out.shape}"
                )
        for index in product(*map(range, out.shape)):
            values = []
            for widen, value in inputs:
                if widen is not None:
                    place = broadcast_place(index, value.shape)
                    value = widen(self.memory.load(value, place, site))
                values.append(value)
            self.memory.store(out, index, convert(run(*values)), site)
        return out


def broadcasts(shape: tuple, whole: tuple) -> bool:
    """Whether an array of a shape can be broadcast to a whole of no fewer axes."""
    return all(own in (1, size) for own, size in zip(shape, whole[len(whole) - len(shape) :]))


def broadcast_place(place: tuple, shape: tuple) -> tuple:
    """The index in an array of a shape that is broadcast, for one in the whole."""
    own = place[len(place) - len(shape) :]
    return tuple(0 if size == 1 else i for i, size in zip(own, shape, strict=True))


def _typed(records: ndarray, name: str, kind: np.dtype, count: int, pitch: int) -> ndarray:
    """The numbers of a field that is an array, one every ``pitch`` bytes from the first on."""
    if count == 0:
        return np.empty(0, kind)
    first = records[name].reshape(len(records), -1)[:1, :1].reshape(-1)
    return as_strided(first, (count,), (pitch,))


def _first_best(better: Callable, nan_wins: bool) -> Callable:
    """Number and value of the first best element; a NaN is better than any other, or than none."""

    def step(old, x, number):
        place, best = old
        if number == 0:
            return 0, x
        new = better(x, best) | (nan_wins & (x != x) & (best == best))
        if type(new) is not np.ndarray:
            return (number, x) if new else old
        return np.where(new, number, place), np.where(new, x, best)

    return step
