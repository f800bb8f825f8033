"""Tensor maps: what TMA is told of a matrix in global memory, made on the host.

A map is 128 bytes: where the matrix lies, its shape and strides, the box that one copy takes, how
rows are swizzled in shared memory. It holds an address, so map and array are kept together. In a
kernel it is an argument by value, in the constant memory of the launch, and only the kernel's own
body can use it: `tma_load`. A kernel's maps are its **first** arguments, so
that they lie at multiples of 64 bytes. `tma_prefetch` brings one to TMA before it is needed;
`same_start` compares two.

Source: NVIDIA, CUDA Driver API, "Tensor Map Object Management"; PTX ISA, "Tensors".
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.typeof import typeof_impl

from warpsim.host import libcuda
from warpsim.ptx.bfloat16 import BFLOAT16, bfloat16
from warpsim.ptx.fragments import done
from warpsim.ptx.intrinsics import _assembly, _piece

WORDS = 16  # of 8 bytes
#: A map lies at a multiple of 64 bytes, and Hopper's parameters begin 16 bytes beyond one: so six
#: words go before a map, and two after it, since the next one shall lie as well.
BEFORE, AFTER = 6, 2
SOMEWHERE = 1 << 32  # an address that a map may hold
BEYOND = 1 << 56  # no memory has addresses from here on
ROW = 128  # bytes of a row of a box that is swizzled
_TYPES = {"float16": 6, "float32": 7, "bfloat16": 9}  # CUtensorMapDataType


class CannotEncode(TypeError):
    """A map whose address cannot be put in later: each needs a map of its own."""


class TensorMapType(types.UniTuple):
    """Numba's type of a tensor map: 16 words of 8 bytes, and those around them."""

    def __init__(self, dtype: types.Type, box: tuple[int, int], swizzle: bool):
        super().__init__(types.uint64, BEFORE + WORDS + AFTER)
        self.element, self.box, self.swizzle = dtype, box, swizzle
        self.name = f"TensorMap({dtype}, {box[0]} x {box[1]}{', swizzled' * swizzle})"

    @property
    def key(self) -> Any:
        """What tells types apart."""
        return self.element, self.box, self.swizzle

    def __unliteral__(self) -> TensorMapType:
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
        address = array.__cuda_array_interface__["data"][0]
        pitch, step = array.strides
        if step != size or pitch % 16 or address % 16 or pitch < size * array.shape[1]:
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

    def words(self) -> tuple[int, ...]:
        """The map; of an array that has no memory yet, with some address."""
        address = self.array.__cuda_array_interface__["data"][0]
        address = address if address < BEYOND else SOMEWHERE
        return _encoded(self._kind, address, tuple(self.array.shape), self.array.strides[0],
                        self.box, self.swizzle)  # fmt: skip

    def address_word(self) -> int:
        """Which of its words is the array's address, and nothing else.

        Raises
        ------
        CannotEncode
            When this driver's maps are not like that.
        """
        if not _address_is_first():
            raise CannotEncode("tensor maps whose first word is not the address")
        return BEFORE

    def __len__(self) -> int:
        return BEFORE + WORDS + AFTER

    def __iter__(self) -> Iterator[int]:
        """What a launch by Numba passes."""
        return iter((0,) * BEFORE + self.words() + (0,) * AFTER)


@functools.lru_cache(maxsize=4096)
def _encoded(
    kind: int, address: int, shape: tuple[int, int], pitch: int, box: tuple[int, int], swizzle: bool
) -> tuple[int, ...]:
    """The words of a map.

    Raises
    ------
    warpsim.host.libcuda.DriverError
        When the driver refuses.
    """
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


@_piece
def tma_prefetch(typing, tensor):
    """``tma_prefetch(map)``: begin to bring the map itself to TMA; one thread does it."""

    def generate(context, builder, signature, args):
        _assembly(builder, ir.VoidType(), [(args[0], "l")], "prefetch.tensormap [$0];")
        return done(context)

    return types.none(tensor), generate


@_piece
def same_start(typing, tensor, other):
    """``same_start(map, other)``: 1 if two maps of one box are of the same memory, else 0.

    Maps of the same memory and box are equal; their first words tell others apart.
    """

    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(64)] * 2)
        text = (
            "{ .reg .b64 x, y; .reg .pred same; cvta.to.param.u64 x, $1; cvta.to.param.u64 y, $2; "
            "ld.param.b64 x, [x]; ld.param.b64 y, [y]; "
            "setp.eq.b64 same, x, y; selp.u32 $0, 1, 0, same; }"
        )
        return builder.call(ir.InlineAsm(kind, text, "=r,l,l"), list(args))

    return types.int32(tensor, other), generate


@typeof_impl.register(TensorMap)
def _type_of(value: TensorMap, context: Any) -> TensorMapType:
    return value._numba_type_


def _register() -> None:
    """Tell numba.cuda how a map is passed; where it is missing, nothing is compiled."""
    try:
        from numba.cuda.datamodel.models import UniTupleModel
        from numba.cuda.models import register_model
        from numba.cuda.typing.typeof import typeof_impl as of_cuda
    except (ImportError, AttributeError):
        return
    of_cuda.register(TensorMap)(_type_of)
    long = ir.IntType(64)

    class Address(UniTupleModel):
        """Passed as words; in the kernel, the address at which the map lies."""

        def get_value_type(self) -> Any:
            return long

        get_data_type = get_return_type = get_value_type

        def from_argument(self, builder: Any, value: Any) -> Any:
            function = builder.function
            # the first argument of what Numba makes is where a result goes: a kernel has none
            place = next(n for n, one in enumerate(function.args) if one is value[0]) - 1
            kind = ir.FunctionType(long, [])
            text = f"{{ mov.b64 $0, {function.name}_param_{place}; cvta.param.u64 $0, $0; "
            text += f"add.s64 $0, $0, {8 * BEFORE}; }}"
            return builder.call(ir.InlineAsm(kind, text, "=l"), [])

        def as_argument(self, builder: Any, value: Any) -> Any:
            raise NotImplementedError("a tensor map is used in the kernel whose argument it is")

        def as_data(self, builder: Any, value: Any) -> Any:
            return value

        def from_data(self, builder: Any, value: Any) -> Any:
            return value

        as_return, from_return = as_data, from_data

    register_model(TensorMapType)(Address)


_register()
