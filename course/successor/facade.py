"""Instructions for numba-cuda-mlir: llvmlite's builder over MLIR's dialect of LLVM.

`warpsim.ptx` declares an instruction once. Its code is a text of PTX, or a function that writes
LLVM's through llvmlite's builder and Numba's target context. Here are the methods of both that the
instructions use, over MLIR: a `Value` is an MLIR value and llvmlite's type of it. Types of Numba
stand in kernels, and are the successor's to it: `moved` and `original` translate.

MLIR cannot say of inline PTX that it is `convergent`: a mark stands before the text, and
`course.successor.mended` makes it LLVM's.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.core.targetconfig import ConfigStack
from numba.np.numpy_support import as_dtype
from numba_cuda_mlir import tools
from numba_cuda_mlir._mlir import ir as mlir
from numba_cuda_mlir._mlir.dialects import arith, builtin, llvm, memref
from numba_cuda_mlir._mlir.extras import types as T
from numba_cuda_mlir.descriptor import mlir_target
from numba_cuda_mlir.extending import intrinsic, refresh_registries
from numba_cuda_mlir.lowering_utilities import convert, memref_descriptor_type
from numba_cuda_mlir.models import UniTupleModel, register_model
from numba_cuda_mlir.numba_cuda import types as new
from numba_cuda_mlir.numba_cuda.core.errors import TypingError as NewTypingError
from numba_cuda_mlir.numba_cuda.np.numpy_support import from_dtype
from numba_cuda_mlir.numba_cuda.types.ext_types import bfloat16 as new_bfloat16
from numba_cuda_mlir.numba_cuda.typing.typeof import typeof, typeof_impl

from warpsim.core.number_types import Bfloat16, bfloat16
from warpsim.ptx import bfloat16 as bfloat16_code
from warpsim.ptx.instruction import BYTE, FLOAT, LONG, Intrinsic
from warpsim.ptx.tma import BEFORE, TensorMap, TensorMapType

CONVERGENT = "/*convergent*/"  # before a text of PTX
_INDEX_IS_A_VALUE = -(2**31)  # of llvm.getelementptr
_RENAMED = {"bool": "boolean", "f16": "float16"}
_FLOATS = {"float16": ir.HalfType(), "float32": ir.FloatType(), "float64": ir.DoubleType()}
_COMPARISONS = {"==": 0, "!=": 1, "<": 6, "<=": 7, ">": 8, ">=": 9}  # unsigned, of arith.cmpi


# ---------------------------------------------------------------------- types, both ways
class NewTensorMapType(new.UniTuple):
    """A tensor map: words by value. In the kernel, only where they lie is asked for."""

    def __init__(self, old: TensorMapType) -> None:
        super().__init__(new.uint64, old.count)
        self.old, self.name = old, f"TensorMap{zlib.crc32(old.name.encode())}"

    @property
    def key(self) -> Any:
        return self.name

    def __unliteral__(self) -> NewTensorMapType:
        return self


register_model(NewTensorMapType)(UniTupleModel)


def _other(kind: Any, name: str, to: Any, other: Callable) -> Any:
    """A type of one package as the other has it: of that name, or made of others."""
    if hasattr(kind, "layout"):
        element = other(kind.dtype)
        return to.Array(element, kind.ndim, kind.layout, not kind.mutable, aligned=kind.aligned)
    if hasattr(kind, "literal_value"):
        return to.IntegerLiteral(kind.literal_value)
    if isinstance(kind, types.UniTuple | new.UniTuple):
        return to.UniTuple(other(kind.dtype), kind.count)
    return to.Tuple(list(map(other, kind))) if hasattr(kind, "__iter__") else getattr(to, name)


def moved(kind: types.Type) -> Any:
    """The successor's type for one of Numba's."""
    if isinstance(kind, TensorMapType):
        return NewTensorMapType(kind)
    if isinstance(kind, Bfloat16):
        return new_bfloat16
    if isinstance(kind, types.Record):
        return from_dtype(as_dtype(kind))
    name = "boolean" if isinstance(kind, types.Boolean) else kind.name
    return _other(kind, name, new, moved)


def original(kind: Any) -> types.Type:
    """Numba's type for one of the successor's."""
    if isinstance(kind, NewTensorMapType):
        return kind.old
    if kind == new_bfloat16:
        return bfloat16
    return _other(kind, _RENAMED.get(str(kind), str(kind)), types, original)


def type_of(value: Any) -> types.Type | None:
    """Numba's type of a kernel's argument, as at a launch, or None."""
    try:
        its_own = hasattr(value, "__cuda_array_interface__")
        return original(typeof(value)) if its_own else numba.typeof(value)
    except (ValueError, TypeError, AttributeError):  # of no type, or one that only it has
        return None


def _to_mlir(kind: ir.Type) -> mlir.Type:
    """MLIR's type for llvmlite's."""
    if isinstance(kind, ir.IntType):
        return mlir.IntegerType.get_signless(kind.width)
    if isinstance(kind, ir.PointerType):
        return llvm.PointerType.get(kind.addrspace)
    if isinstance(kind, ir.VectorType):
        return mlir.VectorType.get([kind.count], _to_mlir(kind.element))
    if isinstance(kind, ir.LiteralStructType):
        return llvm.StructType.get_literal([_to_mlir(one) for one in kind.elements])
    return {ir.HalfType: T.f16, ir.FloatType: T.f32, ir.DoubleType: T.f64}[type(kind)]()


# ---------------------------------------------------------------------- values
@dataclass
class Value:
    """An MLIR value, or a tuple of `Value`s, and llvmlite's type of it."""

    made: Any
    type: Any


def _made(value: Any) -> Any:
    """The MLIR value of a `Value` or of a constant of llvmlite."""
    if isinstance(value, Value):
        return value.made
    kind = _to_mlir(value.type)
    if isinstance(value.type, ir.VectorType) or value.constant is ir.Undefined:
        return llvm.mlir_undef(kind)
    number = value.constant
    if isinstance(value.type, ir.IntType):
        half = 2 ** (value.type.width - 1)
        return llvm.mlir_constant(mlir.IntegerAttr.get(kind, (number + half) % (2 * half) - half))
    return llvm.mlir_constant(mlir.FloatAttr.get(kind, number))


def _two(operation: Any) -> Any:
    """A method of the builder for an operation of two numbers of one type."""
    return lambda self, x, y: Value(operation(_made(x), _made(y)), x.type)


def _to(operation: Any) -> Any:
    """A method of the builder that makes a number one of another type."""
    return lambda self, value, kind: Value(operation(_to_mlir(kind), _made(value)), kind)


class Builder:
    """The methods of llvmlite's IRBuilder that instructions use."""

    add, mul, sdiv, srem = map(_two, (arith.addi, arith.muli, arith.divsi, arith.remsi))
    and_, or_, shl, lshr = map(_two, (arith.andi, arith.ori, arith.shli, arith.shrui))
    fsub = _two(arith.subf)
    zext, trunc, fpext, fptrunc = map(_to, (arith.extui, arith.trunci, arith.extf, arith.truncf))
    addrspacecast, ptrtoint = map(_to, (llvm.addrspacecast, llvm.ptrtoint))

    def icmp_unsigned(self, sign, x, y):
        predicate = arith.CmpIPredicate(_COMPARISONS[sign])
        return Value(arith.cmpi(predicate, _made(x), _made(y)), ir.IntType(1))

    def select(self, chosen, x, y):
        return Value(arith.select(_made(chosen), _made(x), _made(y)), x.type)

    def bitcast(self, value, kind):
        if isinstance(kind, ir.PointerType):  # pointers do not say there what they point to
            return Value(_made(value), ir.PointerType(kind.pointee, value.type.addrspace))
        if value.type == kind:
            return value
        return Value(llvm.bitcast(_to_mlir(kind), _made(value)), kind)

    def gep(self, pointer, indices):
        (index,) = indices
        kind, element = _to_mlir(pointer.type), _to_mlir(pointer.type.pointee)
        places = [_made(index)], [_INDEX_IS_A_VALUE]
        place = llvm.getelementptr(kind, _made(pointer), *places, element, None)
        return Value(place, pointer.type)

    def load(self, pointer, align=None):
        kind = pointer.type.pointee
        return Value(llvm.load(_to_mlir(kind), _made(pointer), alignment=align), kind)

    def store(self, value, pointer, align=None):
        llvm.store(_made(value), _made(pointer), alignment=align)

    def extract_value(self, value, place):
        if isinstance(value, list):
            return value[place]
        if isinstance(value.made, tuple):
            return value.made[place]
        kind = value.type.elements[place]
        where = mlir.DenseI64ArrayAttr.get([place])
        return Value(llvm.extractvalue(_to_mlir(kind), value.made, where), kind)

    def extract_element(self, value, place):
        return Value(llvm.extractelement(_made(value), _made(place)), value.type.element)

    def insert_element(self, value, part, place):
        return Value(llvm.insertelement(_made(value), _made(part), _made(place)), value.type)

    def call(self, code, values, attrs=()):
        """Inline PTX."""
        result = code.function_type.return_type
        nothing = isinstance(result, ir.VoidType)
        text = CONVERGENT * ("convergent" in attrs) + code.asm
        out = llvm.inline_asm(
            None if nothing else _to_mlir(result), [_made(value) for value in values],
            text, code.constraint, has_side_effects=bool(code.side_effect),
        )  # fmt: skip
        return None if nothing else Value(out, result)


@dataclass
class _View:
    """What llvmlite's array has of an array: the pointer to its elements, strides in bytes."""

    data: Value
    strides: list[Value]


class Context:
    """What instructions ask of Numba's target context."""

    def get_data_type(self, kind):
        """llvmlite's type of a number, or of a tuple of them."""
        if isinstance(kind, types.BaseTuple):
            return ir.LiteralStructType([self.get_data_type(one) for one in kind])
        if isinstance(kind, types.Boolean):
            return ir.IntType(1)
        return _FLOATS.get(str(kind)) or ir.IntType(kind.bitwidth)

    def make_array(self, kind):
        """A function of (context, builder, value), as in Numba."""

        def view(context, builder, value):
            array = value.made
            found = mlir.MemRefType(array.type)
            if found.memory_space is not None:
                plain = mlir.MemRefType.get(found.shape, found.element_type, found.layout)
                array = memref.memory_space_cast(dest=plain, source=array)
            parts = builtin.unrealized_conversion_cast([memref_descriptor_type(kind.ndim)], [array])
            size = arith.constant(T.i64(), kind.dtype.bitwidth // 8)

            def in_bytes(*place):
                elements = llvm.extractvalue(T.i64(), parts, list(place))
                return Value(arith.muli(elements, size), LONG)

            data = Value(llvm.extractvalue(llvm.PointerType.get(), parts, [1]), BYTE.as_pointer())
            data = builder.gep(data, [in_bytes(2)])
            element = self.get_data_type(kind.dtype).as_pointer()
            strides = [in_bytes(4, axis) for axis in range(kind.ndim)]
            return _View(builder.bitcast(data, element), strides)

        return view

    def cast(self, builder, value, old, to):
        """A number as one of another type."""
        kind = self.get_data_type(to)
        signed = getattr(old, "signed", True)
        return Value(convert(_made(value), _to_mlir(kind), signed=signed), kind)

    def make_tuple(self, builder, kind, parts):
        return Value(tuple(parts), self.get_data_type(kind))

    def get_dummy_value(self):
        return None


# ---------------------------------------------------------------------- instructions
def _map_address(lower: Any, words: tuple) -> Value:
    """The address of a tensor map among the kernel's parameters, as `warpsim.ptx.tma` has it."""
    place = 0
    for one in lower.mlir_funcOp.body.blocks[0].arguments:
        if mlir.Value.__eq__(one, words[0]):  # == would emit a comparison
            break
        ranked = isinstance(one.type, mlir.MemRefType)
        place += 3 + 2 * mlir.MemRefType(one.type).rank if ranked else 1
    name = lower.mlir_funcOp.attributes["sym_name"].value
    text = f"{{ mov.b64 $0, {name}_param_{place}; cvta.param.u64 $0, $0; "
    text += f"add.s64 $0, $0, {8 * BEFORE}; }}"
    return Value(llvm.inline_asm(_to_mlir(LONG), [], text, "=l", has_side_effects=False), LONG)


def _entering(context: Context, lower: Any, kind: types.Type, value: Any) -> Value:
    """A value of the successor's for an instruction's code."""
    if isinstance(kind, TensorMapType):
        return _map_address(lower, value)
    if isinstance(kind, types.BaseTuple):
        parts = tuple(_entering(context, lower, *one) for one in zip(kind, value, strict=True))
        return Value(parts, context.get_data_type(kind))
    if isinstance(kind, types.Array):
        return Value(value, kind)
    wanted = context.get_data_type(kind)
    its = T.bf16() if isinstance(kind, Bfloat16) else _to_mlir(wanted)
    if not isinstance(value, mlir.Value) or value.type != its:
        value = convert(value, its, signed=getattr(kind, "signed", True))
    return Value(llvm.bitcast(T.i16(), value) if its == T.bf16() else value, wanted)


def _leaving(kind: types.Type, value: Any) -> Any:
    """A value of an instruction's code for the successor."""
    if isinstance(value, Value) and isinstance(value.made, tuple):
        return tuple(map(_leaving, kind, value.made))
    if isinstance(kind, Bfloat16):  # its bits
        return llvm.bitcast(T.bf16(), _made(value))
    return None if value is None else _made(value)


def rounded(value: Any) -> Any:
    """A float32 as bfloat16, as Numba compiles it."""
    with _compiled_for():
        bits = bfloat16_code._rounded(Context(), Builder(), None, None, Value(value, FLOAT))
    return llvm.bitcast(T.bf16(), _made(bits))


def _cluster(signature: Any, lower: Any) -> None:
    """The blocks of a cluster are an attribute of the kernel, not a note of its module."""
    size = mlir.DenseI32ArrayAttr.get([signature.args[0].literal_value, 1, 1])
    lower.mlir_funcOp.attributes["nvvm.cluster_dim"] = size


def _compiled_for() -> Any:
    """A context in which Numba's settings say what the successor compiles for."""
    return ConfigStack().enter(
        SimpleNamespace(compute_capability=tools.get_gpu_compute_capability(tuple))
    )


def _intrinsic(one: Intrinsic) -> Any:
    """The successor's intrinsic for one of the course's."""
    typed = one.typed

    def defined(typing, *kinds):
        try:
            with _compiled_for():
                signature, generate = typed(None, *map(original, kinds))
        except TypingError as error:  # the successor tries literals after its own error alone
            raise NewTypingError(str(error)) from None

        def lower(builder, target, args, kwargs):
            if one.__name__ == "cluster":
                _cluster(signature, builder)
                return builder.store_var(target, None)
            context = Context()
            given = [
                _entering(context, builder, types.unliteral(kind), builder.load_var(variable))
                for kind, variable in zip(signature.args, args, strict=True)
            ]
            with _compiled_for():
                out = generate(context, Builder(), signature, given)
            builder.store_var(target, _leaving(signature.return_type, out))

        return moved(signature.return_type)(*map(moved, signature.args)), lower

    defined.__name__ = defined.__qualname__ = one.__name__
    defined.__signature__ = inspect.signature(typed)
    return intrinsic(defined)


_types: dict[Intrinsic, Any] = {}


def register() -> None:
    """Tell the successor of what stands in the course's kernels: instructions, maps, types."""

    @typeof_impl.register(Intrinsic)
    def _(value: Intrinsic, purpose: Any) -> Any:
        if value not in _types:
            made = _intrinsic(value)
            refresh_registries(typing=True, target=False, include_uninitialized_cuda=False)
            _types[value] = mlir_target.typing_context.resolve_value_type(made)
        return _types[value]

    @typeof_impl.register(TensorMap)
    def _(value: TensorMap, purpose: Any) -> Any:
        return NewTensorMapType(value._numba_type_)

    @typeof_impl.register(types.Type)
    def _(value: types.Type, purpose: Any) -> Any:
        return typeof_impl(moved(value), purpose)
