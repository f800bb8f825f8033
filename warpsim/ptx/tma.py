"""TMA: boxes of matrices between global and shared memory, and the maps that tell of a matrix.

A map is 128 bytes: where the matrix lies, its shape and strides, the box that one copy takes, how
rows are swizzled in shared memory. It holds an address, so map and array are kept together. In a
kernel it is an argument by value, in the constant memory of the launch, and only the kernel's own
body can use it: `tma_load`. A kernel's maps are its **first** arguments, so
that they lie at multiples of 64 bytes. `tma_prefetch` has TMA read one before it is needed;
`same_start` compares two.

Source: NVIDIA, CUDA Driver API, "Tensor Map Object Management"; PTX ISA, "Tensors".
"""

import ctypes
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numpy import ndarray

from warpsim.core.interface import start_of
from warpsim.core.memory import Array
from warpsim.core.number_types import BFLOAT16, bfloat16
from warpsim.host import libcuda
from warpsim.ptx.instruction import CONVERGENT, LONG, Ptx, i4, instruction
from warpsim.ptx.mbarrier import HOPPER, MBarriers
from warpsim.ptx.memory import of_lane
from warpsim.watch.counts import Count
from warpsim.watch.happens_before import joined

WORDS = 16  # of 8 bytes
#: A map lies at a multiple of 64 bytes, and Hopper's parameters begin 16 bytes beyond one: so six
#: words go before a map, and two after it, since the next one shall lie as well.
BEFORE, AFTER = 6, 2
SOMEWHERE = 1 << 32  # an address that a map may hold
BEYOND = 1 << 56  # no memory has addresses from here on
ROW = 128  # bytes of a row of a box that is swizzled
_TYPES = {"float16": 6, "float32": 7, "bfloat16": 9}  # CUtensorMapDataType


class CannotEncode(TypeError):
    """A map whose address cannot be written later: each needs a map of its own."""


class TensorMapType(types.UniTuple):
    """Numba's type of a tensor map: 16 words of 8 bytes, and those around them."""

    def __init__(self, dtype: types.Type, box: tuple[int, int], swizzle: bool):
        _register()
        super().__init__(types.uint64, BEFORE + WORDS + AFTER)
        self.element, self.box, self.swizzle = dtype, box, swizzle
        self.name = f"TensorMap({dtype}, {box[0]} x {box[1]}{', swizzled' * swizzle})"

    @property
    def key(self) -> Any:
        return self.element, self.box, self.swizzle

    def __unliteral__(self) -> "TensorMapType":
        return self


class TensorMap:
    """A matrix and the box that one copy takes of it.

    Parameters
    ----------
    array : device array, 2-D
        float16, bfloat16 or float32; rows of neighbours, which begin at multiples of 16 bytes. One
        that has no memory yet says so by an address from `BEYOND` on.
    rows, columns : int
        Of the box, at most 256 each. With `swizzle` a row has 128 bytes.
    swizzle : bool
        In shared memory the chunks of 16 bytes of row r lie at chunk ^ (r % 8).

    Raises
    ------
    ValueError
        For an array or a box that TMA does not take.
    """

    def __init__(self, array: Any, rows: int, columns: int, swizzle: bool = True):
        self.array, self.box, self.swizzle = array, (rows, columns), swizzle
        name = "bfloat16" if array.dtype == BFLOAT16 else str(array.dtype)
        size = array.dtype.itemsize
        if len(array.shape) != 2 or name not in _TYPES:
            raise ValueError(
                f"a tensor map here is of a matrix of {', '.join(_TYPES)}; the array is {name} of "
                f"shape {array.shape}"
            )
        address, (pitch, step), row = self._address, array.strides, size * array.shape[1]
        self._pitch = pitch = row if array.shape[0] == 1 else pitch  # an only row's may be any
        if step != size or pitch % 16 or address % 16 or pitch < row:
            raise ValueError(
                f"TMA takes rows of neighbours that begin at multiples of 16 bytes; the array has "
                f"strides of {array.strides} bytes and begins {address % 16} bytes beyond one"
            )
        if not (0 < rows <= 256 and 0 < columns <= 256) or (swizzle and columns * size != ROW):
            raise ValueError(
                f"a box has at most 256 x 256 elements, and rows of {ROW} bytes if swizzled, not "
                f"{rows} x {columns} of {size} bytes"
            )
        element = bfloat16 if name == "bfloat16" else getattr(types, name)
        self._numba_type_ = TensorMapType(element, self.box, swizzle)
        self._kind = _TYPES[name]

    _address = property(lambda self: self.array.__cuda_array_interface__["data"][0])

    def words(self) -> tuple[int, ...]:
        """The map; of an array that has no memory yet, with some address."""
        address = self._address if self._address < BEYOND else SOMEWHERE
        return _encoded(self._kind, address, tuple(self.array.shape), self._pitch,
                        self.box, self.swizzle)  # fmt: skip

    def address_word(self) -> int:
        """Which of its words is the address alone; CannotEncode where this driver has none."""
        if not _address_is_first():
            raise CannotEncode("tensor maps whose first word is not the address")
        return BEFORE

    def __len__(self) -> int:
        return BEFORE + WORDS + AFTER

    def __iter__(self) -> Iterator[int]:
        return iter((0,) * BEFORE + self.words() + (0,) * AFTER)


@functools.lru_cache(maxsize=4096)
def _encoded(
    kind: int, address: int, shape: tuple[int, int], pitch: int, box: tuple[int, int], swizzle: bool
) -> tuple[int, ...]:
    """The words of a map; a DriverError where the driver refuses."""
    space = (ctypes.c_uint64 * (WORDS + 8))()
    beyond = -ctypes.addressof(space) % 64 // 8  # a map lies at a multiple of 64 bytes
    made = (ctypes.c_uint64 * WORDS).from_buffer(space, 8 * beyond)
    libcuda.call(
        "cuTensorMapEncodeTiled", ctypes.byref(made), kind, 2, ctypes.c_void_p(address),
        (ctypes.c_uint64 * 2)(shape[1], shape[0]), (ctypes.c_uint64 * 1)(pitch),
        (ctypes.c_uint32 * 2)(box[1], box[0]), (ctypes.c_uint32 * 2)(1, 1),
        0,  # not interleaved
        3 * swizzle,  # CU_TENSOR_MAP_SWIZZLE_128B
        3,  # fetched to L2 by 256 bytes
        0,  # zeros where there is no element
    )  # fmt: skip
    return tuple(made)


@functools.cache
def _address_is_first() -> bool:
    """Whether a map's first word is the address and nothing else of it is: asked of the driver."""
    one, other = (
        _encoded(6, address, (64, 64), 128, (64, 64), True)
        for address in (SOMEWHERE, 3 * SOMEWHERE)
    )
    return one[0] == SOMEWHERE and other[0] == 3 * SOMEWHERE and one[1:] == other[1:]


@functools.cache
def _register() -> None:
    """Tell numba.cuda how a map is passed; where it is missing, nothing is compiled."""
    try:
        from numba.cuda.datamodel.models import UniTupleModel
        from numba.cuda.models import register_model
    except (ImportError, AttributeError):
        return

    class Address(UniTupleModel):
        """Passed as words; in the kernel, the address at which the map lies."""

        def get_value_type(self) -> Any:
            return LONG

        get_data_type = get_return_type = get_value_type

        def from_argument(self, builder: Any, value: Any) -> Any:
            function = builder.function
            # the first argument of what Numba makes is where a result goes: a kernel has none
            place = next(n for n, one in enumerate(function.args) if one is value[0]) - 1
            kind = ir.FunctionType(LONG, [])
            text = f"{{ mov.b64 $0, {function.name}_param_{place}; cvta.param.u64 $0, $0; "
            text += f"add.s64 $0, $0, {8 * BEFORE}; }}"
            return builder.call(ir.InlineAsm(kind, text, "=l"), [])

        def as_argument(self, builder: Any, value: Any) -> Any:
            raise NotImplementedError("a tensor map is used in the kernel whose argument it is")

        def as_data(self, builder: Any, value: Any) -> Any:
            return value

        from_data = as_return = from_return = as_data

    register_model(TensorMapType)(Address)


# ---------------------------------------------------------------------- in the simulator
def swizzled(address):
    """Where a byte lies: bits 4 to 6 of its address (the chunk) are xored with bits 7 to 9."""
    return address ^ (address >> 7 & 7) << 4


class Box:
    """What a TMA copy moves: a box, rows and columns, of a matrix in global memory."""

    def __init__(self, array: Any, box: tuple[int, int], swizzle: bool):
        self.array, self.box, self.swizzle = array, box, swizzle
        self.alignment = 1024 if swizzle else 128  # of its place in shared memory [bytes]
        self.bytes = box[0] * box[1] * array.itemsize
        places = 16 * np.arange(self.bytes // 16)
        #: Where each 16 bytes of the box go, from that place on.
        self.chunks = (swizzled(places) if swizzle else places) >> 4

    def part(self, corner: tuple[int, int]) -> tuple[tuple[slice, ...], ndarray]:
        """What of a box at a corner the matrix covers, and the numbers of its elements there."""
        inside, there = [], []
        for at, size, whole in zip(corner, self.box, self.array.shape, strict=True):
            low = min(max(at, 0), whole)
            high = max(min(at + size, whole), low)
            inside.append(slice(low - at, high - at))
            there.append(np.arange(low, high))
        rows, columns = (at * step for at, step in zip(there, self.array.strides, strict=True))
        return tuple(inside), rows[:, None] + (columns + self.array.offset)

    def read(self, corner: tuple[int, int]) -> ndarray:
        """The box at a corner as chunks of 16 bytes; what is outside of the matrix is 0."""
        values = np.zeros(self.box, self.array.dtype)
        inside, elements = self.part(corner)
        values[inside] = self.array.flat[elements]
        return values.view(np.uint8).reshape(-1, 16)

    def write(self, corner: tuple[int, int], chunks: ndarray) -> None:
        """Write a box from shared memory; what is outside of the matrix is dropped."""
        values = chunks.reshape(-1).view(self.array.dtype).reshape(self.box)
        inside, elements = self.part(corner)
        self.array.flat[elements] = values[inside]


@dataclass
class Store:
    """A TMA store in flight."""

    copy: Callable
    lane: int
    site: int
    step: int
    group: int | None = None


class Tma(MBarriers):
    """What the lane program of one warp does with TMA."""

    def end_hopper(self) -> None:
        """The end of the lane program: no block may end while its memory is still read."""
        text = "ends while this TMA store may still read the block's shared memory: the thread "
        text += "that began it waits for it before it returns (wait_stores)"
        for store in self.stores:
            self.base = 0
            self.found("race", text, store.site, store.lane)
            store.copy()

    def same_start(self, source: Box, other: Box, site: int) -> int:
        one, two = (start_of(box.array.flat[box.array.offset :]) for box in (source, other))
        return int(one == two)

    def tma_load(
        self, to: Array, index, source: Box, corner, bars: Array, bar, mask=None, *, site: int
    ) -> None:
        self.needs(HOPPER, "a TMA copy", site)
        for start, place, what in self._boxes(to, index, source, corner, site):
            address, name, *_ = self._chosen(bars, bar, site)[0]
            values = source.read(place)
            self._count_box(source, place, site, "load")
            blocks = [self.its]
            if mask is not None:
                several = self.uniform(mask, site)
                blocks = [b for n, b in enumerate(self.scheduler.blocks) if several >> n & 1]
            for its in blocks:
                self._fly(its, address, name, source, start, values, what, site)

    def _fly(self, its, address: int, name: str, source: Box, start: int, values, what, site):
        barrier = self._mbarrier(its, address, name, site, asynchronous=True)
        if barrier is None:
            return
        step = self.its.clocks.begin(barrier.agent)
        where = slice(start, start + source.bytes)
        self.ordered(its, barrier.agent, step, where, site, True, what)
        if its is not self.its:
            its.reach(barrier.agent, step, self, self.base + site, "copies to")
        handed = np.zeros((2, barrier.agent + 1), np.int32)
        handed[:, barrier.agent] = step
        barrier.handed = joined(barrier.handed, handed)
        self.count_tile(site, "store", 1, source.bytes)
        chunks, memory = source.chunks + start // 16, its.memory.reshape(-1, 16)
        barrier.flying.append(lambda: memory.__setitem__(chunks, values))
        barrier.arrived += source.bytes
        barrier.settle()

    def _boxes(self, array: Array, index, box: Box, corner: tuple, site: int) -> list[tuple]:
        """Where in shared memory the active lane copies a box, at which corner of the tensor."""
        if not self.mask:
            return []
        if self.mask.count > 1:
            text = f"begins this copy in {self.mask.count} threads, and each copies the whole box: "
            self.wrong("race", site, f"{text}let one thread do it")
        start = self._tile(array, index, box.bytes, box.alignment, "copies", site)
        if start is None:
            return []
        lane = self.one_lane()
        place = tuple(of_lane(c, lane) for c in corner)
        byte = place[1] * box.array.itemsize
        if box.swizzle and byte % 16:
            text = f"copies a swizzled box from column {place[1]} on, byte {byte:,} of a row: it "
            self.wrong("misaligned", site, f"{text}begins at a multiple of 16")
            return []
        return [(start, place, array.name)]

    def _tile(self, array: Array, index, size: int, step: int, verb: str, site: int) -> int | None:
        """The first byte of a tile in shared memory, if it is inside, at a multiple of `step`."""
        if array.space != "shared":
            text = f"takes {array.name} for a tile in shared memory, and it is in {array.space}"
            self.wrong("out-of-bounds", site, f"{text} memory")
            return None
        uniform, varying, bad = self.locate(array, index, site, "load")
        if not self.active_part(bad):
            return None
        first = uniform if varying is None else self.uniform(varying + uniform, site)
        start = first * array.itemsize + array.root.address
        what = f"{verb} a tile of {size:,} bytes at {self.spelled(array, first)}"
        if start + size > array.root.address + array.root.flat.nbytes:
            self.wrong("out-of-bounds", site, f"{what}, beyond the end of {array.name}")
            return None
        if start % step:
            what += f", byte {start:,} of shared memory: it begins at a multiple of {step:,}"
            self.wrong("misaligned", site, what)
            return None
        return start

    def _count_box(self, box: Box, corner: tuple, site: int, op: str) -> None:
        """A box is one request, of the sectors that its rows lie in; races are of its elements."""
        if self.counters is None:
            return
        elements, size = box.part(corner)[1], box.array.itemsize
        first = elements[:, :1] * size + box.array.root.address
        sectors = (first + elements.shape[1] * size - 1) // 32 - first // 32 + 1
        most = int(sectors.sum()) if elements.size else 0
        count = Count(1, most, most, lanes=1, bytes=elements.size * size)
        self.counters.of(self.base + site, "global", op)[1].add(count)
        if elements.size:
            self.counters.touch(box.array, elements.ravel())
        root, clock, races = box.array.root, self.launch.clock, self.observer
        if root.shadow is None or not elements.size:
            return
        threads = np.full(elements.size, self.geometry.start + self.one_lane(), np.int32)
        elements = elements.ravel()
        if root.place is not None:
            _, elements, threads = races._in_units(root.place, elements, threads)
        root.shadow.flush(clock)
        kinds = ("store", "atomic") if op == "load" else ("store", "load", "atomic")
        clash = races._clash(root.shadow, kinds, clock, elements, threads)
        root.shadow.of(op).add(clock, elements, threads)
        if clash is not None:
            races._report_race(box.array, op, site, *clash[1:])

    def count_tile(self, site: int, op: str, requests: int, size: int) -> None:
        """Some bytes of tiles in shared memory, 128 a pass: swizzled, they have no conflicts."""
        if self.counters is not None:
            count = Count(requests, 0, 0, size // 128, size // 128, requests, size)
            self.counters.of(self.base + site, "shared", op)[1].add(count)

    def tma_store(self, box: Box, corner, source: Array, index, site: int) -> None:
        self.needs(HOPPER, "a TMA copy", site)
        for start, place, what in self._boxes(source, index, box, corner, site):
            self._count_box(box, place, site, "store")
            self.count_tile(site, "load", 1, box.bytes)
            step = self.its.clocks.begin(self.storing)
            where = slice(start, start + box.bytes)
            self.ordered(self.its, self.storing, step, where, site, False, what)
            chunks, memory = box.chunks + start // 16, self.its.memory.reshape(-1, 16)

            def copy(place=place, chunks=chunks, memory=memory) -> None:
                box.write(place, memory[chunks])

            self.stores.append(Store(copy, self.one_lane(), self.base + site, step))

    def commit_stores(self, site: int) -> None:
        self.store_groups += 1
        for store in self.stores:
            if store.group is None and self.mask and self.mask.active[store.lane]:
                store.group = self.store_groups

    def wait_stores(self, most: int, site: int) -> None:
        newest = self.store_groups - most
        for store in list(self.stores):
            mine = self.mask and self.mask.active[store.lane]
            if mine and store.group is not None and store.group <= newest:
                store.copy()
                self.its.clocks.done(self.number, self.storing, store.step)
                self.stores.remove(store)


# ---------------------------------------------------------------------- code
_LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
_LOADED = "array index map corner barriers index"


@instruction(_LOADED, twin=Tma.tma_load, by_warp=True, hopper=True)
def tma_load(to, index, tensor, corner, barriers, number):
    """``tma_load(to, index, map, (row, column), barriers, i)``: begin to copy a box.

    Its first element goes to ``to[index]``; what is outside of the matrix becomes 0. All its bytes
    arrive at the barrier. One thread does it.
    """
    return Ptx(f"{_LOAD} [$0], [$1, {{$2, $3}}], [$4];")


@instruction(f"{_LOADED} number", twin=Tma.tma_load, by_warp=True, hopper=True)
def tma_load_multicast(to, index, tensor, corner, barriers, number, mask):
    """``tma_load_multicast(..., mask)``: the same to each block of the cluster with a bit in mask.

    The bytes arrive at the same place, and at the same barrier, of each.
    """
    return Ptx(
        "{ .reg .b16 mask; cvt.u16.u32 mask, $5; "
        f"{_LOAD}.multicast::cluster [$0], [$1, {{$2, $3}}], [$4], mask; }}"
    )


@instruction("map corner array index", twin=Tma.tma_store, by_warp=True, hopper=True)
def tma_store(tensor, corner, source, index):
    """``tma_store(map, (row, column), source, index)``: begin to copy a box from shared memory.

    What is outside of the matrix is dropped. Before it, who wrote the tile calls `fence_async`, and
    a barrier. One thread does it, commits and waits.
    """
    return Ptx("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [$0, {$1, $2}], [$3];")


@instruction(twin=Tma.commit_stores, by_warp=True)
def commit_stores():
    """``commit_stores()``: the stores begun since the last call are one group."""
    return Ptx("cp.async.bulk.commit_group;", CONVERGENT)


@instruction("literal", known=range(8), twin=Tma.wait_stores, by_warp=True)
def wait_stores(most):
    """``wait_stores(n)``: until at most the newest n groups have not read their tile; a literal."""
    return Ptx(f"cp.async.bulk.wait_group.read {most.literal_value};", CONVERGENT)


@instruction("map", by_warp=True)
def tma_prefetch(tensor):
    """``tma_prefetch(map)``: have TMA read the map itself; one thread does it."""
    return Ptx("prefetch.tensormap [$0];")


@instruction("map map", i4, twin=Tma.same_start)
def same_start(tensor, other):
    """``same_start(map, other)``: 1 if two maps of one box are of the same memory, else 0.

    Maps of the same memory and box are equal; their first words tell others apart.
    """
    return Ptx(
        "{ .reg .b64 x, y; .reg .pred same; cvta.to.param.u64 x, $1; cvta.to.param.u64 y, $2; "
        "ld.param.b64 x, [x]; ld.param.b64 y, [y]; "
        "setp.eq.b64 same, x, y; selp.u32 $0, 1, 0, same; }"
    )
