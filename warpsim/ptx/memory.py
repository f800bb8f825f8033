"""Loads and stores of one or several neighbouring elements, in one access.

The index is an integer or a tuple, one integer an axis, and is taken as it is: no element -1
counted from the end, whose test Numba adds to every ``array[index]``. Elements are integers or
floats, an access has at most 16 bytes. The last axis is contiguous, and for 2 or 4 elements the
address is a multiple of the access's bytes: the simulator reports a ``misaligned`` access, a GPU
stops with an error. Those that end in "streaming" are of global memory that is touched once, which
no cache need keep; in "kept", of 4 bytes each that L2 shall keep longer (8.0).

Source: NVIDIA, PTX ISA, ld, st, createpolicy.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy import ndarray

from warpsim.core.memory import Array
from warpsim.core.number_types import Bfloat16
from warpsim.front.names import typing_error
from warpsim.host import gpus
from warpsim.ptx.instruction import GLOBAL, WORD, Instruction, Ptx, named, pointer, several
from warpsim.watch.findings import VERBS

_together = np.bitwise_or.reduce
WIDEST = 16  # bytes of the widest access that a GPU makes


# ---------------------------------------------------------------------- in the simulator
def of_lane(value: Any, lane: int) -> int:
    """A lane's integer, of one for all or one a lane."""
    return int(value[lane]) if type(value) is ndarray else int(value)


class Accesses:
    """Accesses of the running threads of several elements at once."""

    def load_vector(self, array: Array, index: tuple, count: int, site: int, cached=""):
        self._check_global(array, site, cached)
        uniform, varying, bad = self._reach(array, index, count, site, "load")
        if bad is not None and not self.active_part(bad):
            values = (self.poison(array.dtype),) * count
            return values if count > 1 else values[0]
        self._count_vector(array, uniform, varying, bad, count, site, "load")
        self.counted_apart = True  # the elements are not counted one by one
        values = tuple(self.load_at(array, uniform + e, varying, bad, site) for e in range(count))
        self.counted_apart = False
        return values if count > 1 else values[0]

    def store_vector(self, array: Array, index: tuple, values, count: int, site: int, cached=""):
        self._check_global(array, site, cached)
        uniform, varying, bad = self._reach(array, index, count, site, "store")
        self._count_vector(array, uniform, varying, bad, count, site, "store")
        self._write(array, (uniform, varying, bad), values if count > 1 else (values,), site)

    def _write(self, array: Array, place: tuple, values: tuple, site: int) -> None:
        uniform, varying, bad = place
        if self.active_part(bad):
            self.counted_apart = True
            for e, value in enumerate(values):
                self.store_at(array, uniform + e, varying, bad, value, site)
            self.counted_apart = False

    def _check_global(self, array: Array, site: int, cached: str) -> None:
        if cached == "kept":
            self.needs((8, 0), "a load that L2 shall keep", site)
        if cached and array.space != "global":
            raise typing_error(
                f"line {self.site(site).line}: a {cached} access is one of global memory, and "
                f"{array.name} is in {array.space} memory: take load or store, load4 or store4"
            )

    def _reach(self, array: Array, index: tuple, count: int, site: int, op: str) -> tuple:
        """As `locate`, of each lane's first element; the others are inside, too, and aligned."""
        wide = (i.astype(np.int64, copy=False) if type(i) is ndarray else int(i) for i in index)
        index = tuple(wide)
        last, pitch = array.strides[-1], array.pitch // array.itemsize
        if (last != 1 and np.any(np.asarray(array.shape[-1]) > 1)) or pitch != 1:
            raise typing_error(
                f"line {self.site(site).line}: neighbours on the last axis of {array.name} lie "
                f"{last * array.pitch} bytes apart, its elements have {array.itemsize}: this "
                f"access needs a contiguous last axis; index {array.name} with [ ] instead"
            )
        bad = self._beyond(array, index, count, site, op)
        if bad is not None:
            index = tuple(
                np.where(bad, 0, i) if type(i) is ndarray else 0 if bad.all() else i for i in index
            )
            if not self.active_part(bad):
                return 0, None, bad
        uniform, varying, outside = self.locate(array, index, site, op)
        bad = outside if bad is None else bad if outside is None else bad | outside
        size = count * array.itemsize
        if count > 1 and self.mask:
            first = uniform * array.itemsize + array.root.address
            odd = first if varying is None else int(_together(varying)) * array.itemsize | first
            if type(odd) is ndarray or odd & (size - 1):  # of an odd address one part at least
                odd = (first if varying is None else varying * array.itemsize + first) & (size - 1)
                odd = self.active_part(bad).active & (odd != 0) if self.active_part(bad) else odd
                if np.any(odd):
                    lane = int(np.flatnonzero(odd)[0])
                    self._misaligned(array, index, lane, count, site, op)
                    bad = odd if bad is None else bad | odd
        return uniform, varying, bad

    def _beyond(self, array: Array, index: tuple, count: int, site: int, op: str) -> ndarray | None:
        """The active lanes with an element outside of the array; reported, if there are any."""
        bad = None
        for axis, i in enumerate(index):
            size, more = array.shape[axis], count - 1 if axis == len(index) - 1 else 0
            highest = self.highest(i) if type(i) is ndarray else i
            if type(size) is not ndarray and 0 <= highest < size - more:
                continue
            outside = self.mask.active & ((i < 0) | (i + more >= size)) if self.mask else None
            if outside is not None and outside.any():
                self.out_of_bounds(array, index, axis, outside, site, op, more)
                bad = outside if bad is None else bad | outside
        return bad

    def _misaligned(self, array: Array, index: tuple, lane: int, count: int, site, op) -> None:
        *others, last = (of_lane(i, lane) for i in index)
        spelled = ", ".join(map(str, (*others, last)))
        size = count * array.itemsize
        start = of_lane(array.offset, lane) * array.itemsize + array.root.address
        if last % count:
            cure = f"let the last index be a multiple of {count}"
        elif array.ndim > 1 and any(stride % count for stride in array.strides[:-1]):
            cure = (
                f"a row of {array.name} has {array.strides[-2]} elements: let rows be multiples of "
                f"{count} elements long, or access one element at a time"
            )
        elif start % size and array.space == "shared":
            cure = (
                f"{array.name} begins at byte {start} of shared memory, after other arrays: let "
                f"their sizes be multiples of {size} bytes, or make it the first one"
            )
        else:
            cure = (
                f"{array.name} is a part of an array that begins at its byte {start}: let it begin "
                f"at a multiple of {size}"
            )
        text = f"{VERBS[op]} {count} elements from {array.name}[{spelled}] on, an access of {size} "
        text += f"bytes whose address is no multiple of {size}, where a GPU stops: {cure}"
        self.found("misaligned", text, site, lane)

    def _count_vector(self, array: Array, uniform, varying, bad, count: int, site: int, op: str):
        if self.counters is None or array.space == "constant":
            return
        mask = self.active_part(bad)
        if not mask:
            return
        wide = array.derived(array.shape, array.strides, array.offset)
        wide.itemsize *= count
        self.count_access(wide, uniform, varying, bad, site, op)
        if array.space == "global":
            elements = uniform if varying is None else (varying + uniform)[mask.indices]
            for e in range(1, count):
                self.counters.touch(array, elements + e)

    def needs(self, capability: tuple[int, int], what: str, site: int) -> None:
        gpu = self.launch.gpu
        if gpu.compute_capability < capability:
            have = ".".join(map(str, gpu.compute_capability))
            newest = max(gpus.GPUS.values(), key=lambda gpu: gpu.compute_capability).name
            raise typing_error(
                f"line {self.site(site).line}: {what} needs compute capability "
                f"{capability[0]}.{capability[1]}, and the simulated {gpu.name} has {have}: choose "
                f'another with course.simulate("{newest}"), or trace(..., gpu="{newest}")'
            )


# ---------------------------------------------------------------------- types
def unfit(name: str, takes: list[str], kinds: tuple) -> str | None:
    """What is wrong with the arrays and indices of an access of global or shared memory."""
    pairs = zip(kinds[::2], kinds[1::2], strict=False)
    return next(filter(None, (_unfit(name, *pair) for pair in pairs)), None)


def _unfit(name: str, array: Any, index: Any) -> str | None:
    parts = list(index) if isinstance(index, types.BaseTuple) else [index]
    if not isinstance(array, types.Array):
        return f"{name} needs an array, not {array}"
    if not isinstance(array.dtype, types.Integer | types.Float | Bfloat16):
        return f"{name} needs an array of integers or floats, not of {array.dtype}"
    if array.ndim == 0:
        return f"{name} needs an array with an axis, not one of a single element"
    if len(parts) != array.ndim or not all(isinstance(part, types.Integer) for part in parts):
        return (
            f"{name} of an array with {array.ndim} {'axis' if array.ndim == 1 else 'axes'} needs "
            f"as many integers as its index, not {index}"
        )
    if array.layout == "F" and array.ndim > 1:
        return f"{name} needs an array whose last axis is contiguous, not one in Fortran's order"
    bits = array.dtype.bitwidth
    if name.endswith("_streaming") and bits not in (16, 32, 64):
        return f"{name} needs elements of 2, 4 or 8 bytes, not of {array.dtype}"
    if name.endswith("_kept") and bits != 32:
        return f"{name} needs elements of 4 bytes, not of {array.dtype}"
    size = count_of(name) * bits // 8
    if size > WIDEST:
        return (
            f"{name} of {array.dtype} is an access of {size} bytes, a GPU makes them of at most "
            f"{WIDEST}: take fewer elements"
        )
    return None


def count_of(name: str) -> int:
    """Elements of one access, by the function's name."""
    return next((n for n in (2, 4) if str(n) in name), 1)


def _stored(name: str, array: types.Array, index: types.Type, value: types.Type) -> str | None:
    if not array.mutable:
        return f"{name} cannot write to a read-only array"
    wanted = several(array.dtype, count_of(name))
    if value != wanted:
        return f"{name} to an array of {array.dtype} takes {wanted}, not {value}"
    return None


# ---------------------------------------------------------------------- code
def _wide(context, builder, signature, args, count: int) -> tuple[Any, Any, int]:
    kind = signature.args[0].dtype
    one, size = context.get_data_type(kind), count * kind.bitwidth // 8
    place = pointer(context, builder, signature, args, 0)
    wide = one if count == 1 else ir.VectorType(one, count)
    return builder.bitcast(place, wide.as_pointer()), wide, size


def _load(count: int, context, builder, signature, args) -> Any:
    place, _, size = _wide(context, builder, signature, args, count)
    value = builder.load(place, align=size)
    if count == 1:
        return value
    parts = [builder.extract_element(value, ir.Constant(WORD, e)) for e in range(count)]
    return context.make_tuple(builder, signature.return_type, parts)


def _store(count: int, context, builder, signature, args) -> Any:
    place, wide, size = _wide(context, builder, signature, args, count)
    value = args[2]
    if count > 1:
        value = ir.Constant(wide, ir.Undefined)
        for e in range(count):
            part = builder.extract_value(args[2], e)
            value = builder.insert_element(value, part, ir.Constant(WORD, e))
    builder.store(value, place, align=size)
    return context.get_dummy_value()


def _code(name: str, array: types.Array) -> Ptx | Callable:
    """Of an access: streaming has the cache operator .cs, the first to leave a cache; kept is by
    the policy that L2 evicts its line last."""
    count, writes = count_of(name), name.startswith("store")
    vector = f".v{count}" * (count > 1)
    numbers = "{" + ", ".join(f"${e + writes}" for e in range(count)) + "}"
    if name.endswith("_streaming"):
        kind = f"global.cs{vector}.b{array.dtype.bitwidth}"
        text = f"st.{kind} [$0], {numbers};" if writes else f"ld.{kind} {numbers}, [${count}];"
    elif name.endswith("_kept"):
        text = (
            "{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0; "
            f"ld.global.L1::evict_last.L2::cache_hint{vector}.b32 {numbers}, [${count}], policy; }}"
        )
    else:
        return partial(_store if writes else _load, count)
    return Ptx(text, () if writes else ("readonly",), (GLOBAL,), bits=True)


#: What each access does; its name says of how many elements, and how caches keep them.
_DOES = {
    "load": "one element.",
    "load2": "the element and its right neighbour, as a tuple.",
    "load4": "four neighbouring elements from the index on, as a tuple.",
    "load_streaming": "`load` of what is read once.",
    "load4_streaming": "`load4` of what is read once.",
    "load_kept": "`load` of 4 bytes that L2 shall keep longer than others.",
    "load4_kept": "`load4` of 16 bytes that L2 shall keep longer than others.",
    "store": "write one element.",
    "store2": "write two neighbouring elements.",
    "store4": "write four neighbouring elements.",
    "store_streaming": "`store` of what is not read soon.",
    "store4_streaming": "`store4` of what is not read soon.",
}
_VALUES = {1: "value", 2: "(v0, v1)", 4: "(v0, v1, v2, v3)"}


def _access(name: str, does: str) -> Instruction:
    count, cached = count_of(name), name.partition("_")[2]
    more = {"count": count} | ({"cached": cached} if cached else {})
    if name.startswith("load"):
        load = named(lambda array, index: _code(name, array), f"{name}(array, index)", does)
        return Instruction(
            load, "array index", lambda array, index: several(array.dtype, count), each=unfit,
            twin=Accesses.load_vector, more=more,
        )  # fmt: skip
    call = f"{name}(array, index, {_VALUES[count]})"
    return Instruction(
        named(lambda array, index, values: _code(name, array), call, does), "array index value",
        each=unfit, check=_stored, twin=Accesses.store_vector, more=more,
    )  # fmt: skip


for _name, _does in _DOES.items():
    globals()[_name] = _access(_name, _does)
