"""Instructions for numba-cuda-mlir: functions in LLVM IR, which its code calls.

`warpsim.ptx` declares an instruction once. Its code is a text of PTX, or a function that generates
LLVM IR with llvmlite's builder and Numba's target context. Here either becomes an LLVM function,
which `course.successor.mended` gives libNVVM with the kernel. Kernels name Numba's types, and
numba-cuda-mlir has types of its own: `moved` and `original` translate.
"""

from __future__ import annotations

import inspect
import itertools
import zlib
from collections.abc import Callable, Iterator
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
from numba_cuda_mlir._mlir.dialects import func, llvm, memref
from numba_cuda_mlir._mlir.extras import types as T
from numba_cuda_mlir.descriptor import mlir_target
from numba_cuda_mlir.extending import intrinsic, refresh_registries
from numba_cuda_mlir.lowering_utilities import get_or_insert_function
from numba_cuda_mlir.models import UniTupleModel, register_model
from numba_cuda_mlir.numba_cuda import types as new
from numba_cuda_mlir.numba_cuda.core.errors import TypingError as NewTypingError
from numba_cuda_mlir.numba_cuda.np.numpy_support import from_dtype
from numba_cuda_mlir.numba_cuda.types.ext_types import bfloat16 as new_bfloat16
from numba_cuda_mlir.numba_cuda.typing.typeof import typeof, typeof_impl

from warpsim.core.number_types import Bfloat16, bfloat16
from warpsim.ptx import bfloat16 as bfloat16_code
from warpsim.ptx.instruction import BYTE, LONG, Intrinsic
from warpsim.ptx.tma import BEFORE, TensorMap, TensorMapType

_RENAMED = {"bool": "boolean", "f16": "float16"}
_FLOATS = {"float16": ir.HalfType(), "float32": ir.FloatType(), "float64": ir.DoubleType()}


# ---------------------------------------------------------------------- types, both ways
class NewTensorMapType(new.UniTuple):
    """A tensor map, passed as words by value; a kernel only needs the address of these words."""

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
    """A type of one package in the other: the type of that name, or made of translated types."""
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
    except (ValueError, TypeError, AttributeError):  # no type, or one that Numba itself lacks
        return None


# ---------------------------------------------------------------------- instructions
class Context:
    """What instructions ask of Numba's target context."""

    def get_data_type(self, kind):
        """llvmlite's type of a number."""
        return _FLOATS.get(str(kind)) or ir.IntType(getattr(kind, "bitwidth", 1))

    def make_array(self, kind):
        """A function of (context, builder, value), as in Numba."""
        return lambda context, builder, value: value

    def cast(self, builder, value, old, to):
        """An integer as one of another type."""
        kind = self.get_data_type(to)
        if kind.width <= value.type.width:
            return builder.trunc(value, kind)
        return (builder.sext if getattr(old, "signed", False) else builder.zext)(value, kind)

    def make_tuple(self, builder, kind, parts):
        made = ir.Constant(ir.LiteralStructType([part.type for part in parts]), ir.Undefined)
        for place, part in enumerate(parts):
            made = builder.insert_value(made, part, place)
        return made

    def get_dummy_value(self):
        return None


CONTEXT = Context()


def _map_address(lower: Any, words: tuple) -> Any:
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
    return llvm.inline_asm(T.i64(), [], text, "=l", has_side_effects=False)


def _types_of(kind: mlir.Type) -> list[ir.Type]:
    """llvmlite's types of a scalar, or of the parameters by which a function takes an array."""
    if isinstance(kind, mlir.MemRefType):
        return [BYTE.as_pointer()] * 2 + [LONG] * (1 + 2 * kind.rank)
    if isinstance(kind, mlir.IntegerType):
        return [ir.IntType(kind.width)]
    return [_FLOATS[f"float{str(kind)[1:]}"]]


def _entering(lower: Any, kind: types.Type, variable: Any) -> list[Any]:
    """The values by which a function takes a variable: scalars and memrefs."""
    value = lower.load_var(variable)
    if isinstance(kind, TensorMapType):
        return [_map_address(lower, value)]
    if not isinstance(kind, types.Array):
        return lower._call_operands_from_vars([variable], expected_types=[moved(kind)])
    found = mlir.MemRefType(value.type)
    plain = mlir.MemRefType.get(found.shape, found.element_type, found.layout)
    return [memref.memory_space_cast(plain, value) if found.memory_space else value]


def _inside(builder: Any, kind: types.Type, numbers: Iterator) -> Any:
    """The value that an instruction's code expects, from the parameters of the function."""
    if isinstance(kind, types.Array):
        size = LONG(kind.dtype.bitwidth // 8)
        _, data, start, *rest = itertools.islice(numbers, 3 + 2 * kind.ndim)
        start, *strides = (builder.mul(one, size) for one in (start, *rest[kind.ndim :]))
        data = builder.bitcast(
            builder.gep(data, [start]), CONTEXT.get_data_type(kind.dtype).as_pointer()
        )
        return SimpleNamespace(data=data, strides=CONTEXT.make_tuple(builder, None, strides))
    if isinstance(kind, types.BaseTuple) and not isinstance(kind, TensorMapType):
        return CONTEXT.make_tuple(builder, kind, [_inside(builder, one, numbers) for one in kind])
    return next(numbers)


#: The LLVM functions of the instructions, by name.
FUNCTIONS: dict[str, str] = {}


def _called(generate: Callable, signature: Any, given: list[Any], outs: list[mlir.Type]) -> list:
    """Make an LLVM function of an instruction's code and call it; LLVM inlines it."""
    given = [llvm.bitcast(T.i16(), one) if one.type == T.bf16() else one for one in given]
    plain = [T.i16() if one == T.bf16() else one for one in outs]
    kinds = [kind for one in given for kind in _types_of(one.type)]
    results = [kind for one in plain for kind in _types_of(one)]
    several = ir.LiteralStructType(results) if results else ir.VoidType()
    result = results[0] if len(results) == 1 else several
    function = ir.Function(ir.Module(), ir.FunctionType(result, kinds), "NAME")
    builder, rest = ir.IRBuilder(function.append_basic_block()), iter(function.args)
    its = [_inside(builder, types.unliteral(one), rest) for one in signature.args]
    with _compiled_for():
        out = generate(CONTEXT, builder, signature, its)
    builder.ret(out) if outs else builder.ret_void()
    function.attributes.add("alwaysinline")
    if " convergent" in str(function):
        function.attributes.add("convergent")
    text = str(function).replace("define", "define linkonce_odr")
    kind = mlir.FunctionType.get([one.type for one in given], plain)
    name = f"course_{zlib.crc32(f'{text}{kind}'.encode()):010}"
    FUNCTIONS[name] = text.replace("NAME", name)
    module = mlir.InsertionPoint.current.block.owner
    while module.name != "gpu.module":
        module = module.parent
    made = func.CallOp(get_or_insert_function(name, kind, module.opview), given).results
    return [llvm.bitcast(*one) if one[0] == T.bf16() else one[1] for one in zip(outs, made)]


def rounded(value: Any) -> Any:
    """A float32 rounded to bfloat16 by the code that Numba compiles, too."""

    def generate(context, builder, signature, args):
        return bfloat16_code._rounded(context, builder, None, None, *args)

    return _called(generate, bfloat16(types.float32), [value], [T.bf16()])[0]


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
            kinds = map(types.unliteral, signature.args)
            given = [_entering(builder, *one) for one in zip(kinds, args, strict=True)]
            result = moved(signature.return_type)
            outs = [builder.get_mlir_type(one) for one in getattr(result, "types", (result,))]
            outs = [] if result == new.none else outs
            made = _called(generate, signature, list(itertools.chain(*given)), outs)
            builder.store_var(target, builder._unflatten_abi_value(result, iter(made)))

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
