"""Instructions that Numba's own language lacks: vector loads, asynchronous copies, tensor cores.

Each function works inside a kernel, on a GPU and in the simulator alike.

=====================================  ==========================================================
`load`, `load2`, `load4`               1, 2 or 4 neighbouring elements of an array, in one access
`store`, `store2`, `store4`            the same, written
`load_streaming`, `load4_streaming`    global memory that is read once: no cache need keep it
`store_streaming`, `store4_streaming`  global memory that is written and not read soon
`load_kept`, `load4_kept`              global memory that L2 shall keep longer: 4 bytes each (8.0)
`copy_async`, `copy4_async`            global to shared memory without a register between (8.0)
`commit_copies`, `wait_copies`         close a group of copies; wait for groups (8.0)
`split_halves`                         two float32 as two pairs of halves: upper and lower parts
`round_tf32`                           a float32 rounded to TF32, 10 bits of fraction (8.0)
`mma_f16`, `mma_f16_k8`, `mma_tf32`    a product of tensor cores: c + a b, by a whole warp
=====================================  ==========================================================

Elements are integers or floats, an access has at most 16 bytes. The index of `load` and `store` is
an integer or a tuple, one integer an axis, and is taken as it is: no element -1 counted from the
end, whose test Numba adds to every ``array[index]``. The last axis must be contiguous, and for 2 or
4 elements the address a multiple of the access's bytes: the simulator reports a ``misaligned``
access, a GPU stops with an error. Before a copied element is touched, the thread that began the
copy waits for it, and other threads meet it at a barrier after that: all else is a ``race``.

Kernels that use these compile for every GPU that has the instruction: (8.0) means compute
capability 8.0 and newer, `mma_f16_k8` needs 7.5.
Source: NVIDIA, PTX ISA: ld, st, cp.async, mma, cvt; Numba, "Extending Numba", ``intrinsic``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError

from warpsim.front import names
from warpsim.ptx import instruction_types

try:
    from numba.cuda.extending import intrinsic
except ImportError:  # no numba-cuda: nothing is compiled, the simulator takes the names alone
    from numba.extending import intrinsic

__all__ = [
    "commit_copies", "copy4_async", "copy_async", "load", "load2", "load4", "load4_kept",
    "load4_streaming", "load_kept", "load_streaming", "mma_f16", "mma_f16_k8", "mma_tf32",
    "round_tf32", "split_halves", "store", "store2", "store4", "store4_streaming",
    "store_streaming", "wait_copies",
]  # fmt: skip

f4, u4 = types.float32, types.uint32
_FLOAT, _HALF = ir.FloatType(), ir.HalfType()
_BYTE, _WORD, _LONG = ir.IntType(8), ir.IntType(32), ir.IntType(64)


def _piece(function: Callable) -> Any:
    """An intrinsic that the simulator knows by its name, and that refuses what it refuses."""
    name = function.__name__

    @functools.wraps(function)
    def typed(typing, *kinds, **named):
        wrong = instruction_types.refusal(name, tuple(map(types.unliteral, kinds)), tuple(named))
        if wrong is not None:
            raise TypingError(wrong)
        return function(typing, *kinds)

    def outside(self, *args, **kwargs):
        raise TypeError(f"{name} works only inside a kernel, a function decorated with @cuda.jit")

    made = intrinsic(typed)
    made.__class__ = type("Piece", (type(made),), {"__call__": outside})
    type_of_call = functools.partial(instruction_types.piece_type, name=name)
    names.register(made, f"pieces.{name}", type_of_call)
    return made


# ---------------------------------------------------------------------- addresses
def _address(context, builder, array_type, array, index_type, index) -> Any:
    """Pointer to the bytes of ``array[index]``."""
    view = context.make_array(array_type)(context, builder, array)
    strides = cgutils.unpack_tuple(builder, view.strides, array_type.ndim)
    if isinstance(index_type, types.BaseTuple):
        kinds = list(index_type)
        parts = [builder.extract_value(index, axis) for axis in range(len(kinds))]
    else:
        kinds, parts = [index_type], [index]
    parts = [
        context.cast(builder, part, kind, types.intp)
        for part, kind in zip(parts, kinds, strict=True)
    ]
    pointer = builder.bitcast(view.data, _BYTE.as_pointer())
    for part, stride in zip(parts[:-1], strides, strict=False):
        pointer = builder.gep(pointer, [builder.mul(part, stride)])
    size = ir.Constant(_LONG, array_type.dtype.bitwidth // 8)
    return builder.gep(pointer, [builder.mul(parts[-1], size)])


# ---------------------------------------------------------------------- loads and stores
def _loader(count: int) -> Callable:
    def generate(context, builder, signature, args):
        array = signature.args[0]
        pointer = _address(context, builder, array, args[0], signature.args[1], args[1])
        one, size = context.get_data_type(array.dtype), array.dtype.bitwidth // 8
        if count == 1:
            return builder.load(builder.bitcast(pointer, one.as_pointer()), align=size)
        wide = ir.VectorType(one, count)
        value = builder.load(builder.bitcast(pointer, wide.as_pointer()), align=count * size)
        parts = [builder.extract_element(value, ir.Constant(_WORD, e)) for e in range(count)]
        return context.make_tuple(builder, signature.return_type, parts)

    return generate


def _storer(count: int) -> Callable:
    def generate(context, builder, signature, args):
        array = signature.args[0]
        pointer = _address(context, builder, array, args[0], signature.args[1], args[1])
        one, size = context.get_data_type(array.dtype), array.dtype.bitwidth // 8
        value, kind = args[2], one
        if count > 1:
            kind = ir.VectorType(one, count)
            value = ir.Constant(kind, ir.Undefined)
            for e in range(count):
                part = builder.extract_value(args[2], e)
                value = builder.insert_element(value, part, ir.Constant(_WORD, e))
        builder.store(value, builder.bitcast(pointer, kind.as_pointer()), align=count * size)
        return context.get_dummy_value()

    return generate


@_piece
def load(typing, array, index):
    """``load(array, index)``: one element."""
    return array.dtype(array, index), _loader(1)


@_piece
def load2(typing, array, index):
    """``load2(array, index)``: the element and its right neighbour, as a tuple."""
    return types.UniTuple(array.dtype, 2)(array, index), _loader(2)


@_piece
def load4(typing, array, index):
    """``load4(array, index)``: four neighbouring elements from the index on, as a tuple."""
    return types.UniTuple(array.dtype, 4)(array, index), _loader(4)


@_piece
def store(typing, array, index, value):
    """``store(array, index, value)``: write one element."""
    return types.none(array, index, value), _storer(1)


@_piece
def store2(typing, array, index, values):
    """``store2(array, index, (v0, v1))``: write two neighbouring elements."""
    return types.none(array, index, values), _storer(2)


@_piece
def store4(typing, array, index, values):
    """``store4(array, index, (v0, v1, v2, v3))``: write four neighbouring elements."""
    return types.none(array, index, values), _storer(4)


def _streaming(count: int, writes: bool) -> Callable:
    """An access with the cache operator .cs: likely touched once, the first to leave a cache."""

    def generate(context, builder, signature, args):
        bits = signature.args[0].dtype.bitwidth
        kind = f"global.cs{f'.v{count}' * (count > 1)}.b{bits}"
        if writes:
            word, letter = ir.IntType(bits), _LETTERS[bits]
            address = _global_address(context, builder, signature, args)
            numbers = [args[2]] if count == 1 else cgutils.unpack_tuple(builder, args[2])
            words = ", ".join(f"${e + 1}" for e in range(count))
            given = [address, *((builder.bitcast(number, word), letter) for number in numbers)]
            _assembly(builder, ir.VoidType(), given, f"st.{kind} [$0], {{{words}}};")
            return context.get_dummy_value()
        words = ", ".join(f"${e}" for e in range(count))
        text = f"ld.{kind} {{{words}}}, [${count}];"
        return _loaded(context, builder, signature, args, count, text)

    return generate


_LETTERS = {16: "h", 32: "r", 64: "l"}  # of inline PTX, for registers of so many bits


def _global_address(context, builder, signature, args) -> tuple[Any, str]:
    """The address of an element in global memory, as an argument of inline PTX."""
    kinds = signature.args
    pointer = _address(context, builder, kinds[0], args[0], kinds[1], args[1])
    pointer = builder.addrspacecast(pointer, ir.PointerType(_BYTE, 1))
    return builder.ptrtoint(pointer, _LONG), "l"


def _loaded(context, builder, signature, args, count: int, text: str) -> Any:
    """What a line of PTX loads from global memory: a number, or a tuple of them."""
    kind = signature.args[0].dtype
    word, one = ir.IntType(kind.bitwidth), context.get_data_type(kind)
    result = word if count == 1 else ir.LiteralStructType([word] * count)
    address = _global_address(context, builder, signature, args)
    made = _assembly(builder, result, [address], text,
                     ",".join([f"={_LETTERS[kind.bitwidth]}"] * count),
                     attributes=("readonly",))  # fmt: skip
    parts = [made] if count == 1 else [builder.extract_value(made, e) for e in range(count)]
    parts = [builder.bitcast(part, one) for part in parts]
    return parts[0] if count == 1 else context.make_tuple(builder, signature.return_type, parts)


@_piece
def load_streaming(typing, array, index):
    """``load_streaming(array, index)``: `load` of what is read once."""
    return array.dtype(array, index), _streaming(1, writes=False)


@_piece
def load4_streaming(typing, array, index):
    """``load4_streaming(array, index)``: `load4` of what is read once."""
    return types.UniTuple(array.dtype, 4)(array, index), _streaming(4, writes=False)


def _kept(count: int) -> Callable:
    """A load with the policy that L2 evicts its line last."""
    width = f"{f'.v{count}' * (count > 1)}.b32"
    words = ", ".join(f"${e}" for e in range(count))
    text = (
        "{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0; "
        f"ld.global.L1::evict_last.L2::cache_hint{width} {{{words}}}, [${count}], policy; }}"
    )

    def generate(context, builder, signature, args):
        return _loaded(context, builder, signature, args, count, text)

    return generate


@_piece
def load_kept(typing, array, index):
    """``load_kept(array, index)``: `load` of 4 bytes that L2 shall keep longer than others."""
    return array.dtype(array, index), _kept(1)


@_piece
def load4_kept(typing, array, index):
    """``load4_kept(array, index)``: `load4` of 16 bytes that L2 shall keep longer than others."""
    return types.UniTuple(array.dtype, 4)(array, index), _kept(4)


@_piece
def store_streaming(typing, array, index, value):
    """``store_streaming(array, index, value)``: `store` of what is not read soon."""
    return types.none(array, index, value), _streaming(1, writes=True)


@_piece
def store4_streaming(typing, array, index, values):
    """``store4_streaming(array, index, (v0, v1, v2, v3))``: `store4` of what is not read soon."""
    return types.none(array, index, values), _streaming(4, writes=True)


# ---------------------------------------------------------------------- inline PTX
def _assembly(
    builder, result, arguments: list[tuple[Any, str]], text: str, output: str = "", attributes=()
):
    """Insert a line of PTX; ``arguments`` are (value, constraint) pairs.

    Without an ``output`` it may write to memory. With the attribute ``readonly`` it reads what may
    change, so that it is neither left out nor moved across what writes.
    """
    kinds = [value.type for value, _ in arguments]
    constraints = ",".join(part for part in (output, *(c for _, c in arguments)) if part)
    if not output:
        constraints = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    assembly = ir.InlineAsm(
        ir.FunctionType(result, kinds), text, constraints,
        side_effect=not output or "readonly" in attributes,
    )  # fmt: skip
    return builder.call(assembly, [value for value, _ in arguments], attrs=attributes)


def _copier(count: int) -> Callable:
    size = 4 * count
    kind = "cg" if size == 16 else "ca"
    text = f"cp.async.{kind}.shared.global [$0], [$1], {size};"

    def generate(context, builder, signature, args):
        kinds = signature.args
        places = [
            _address(context, builder, kinds[i], args[i], kinds[i + 1], args[i + 1]) for i in (0, 2)
        ]
        shared = builder.addrspacecast(places[0], ir.PointerType(_BYTE, 3))
        pair = [(builder.ptrtoint(shared, _WORD), "r"), (builder.ptrtoint(places[1], _LONG), "l")]
        _assembly(builder, ir.VoidType(), pair, text)
        return context.get_dummy_value()

    return generate


@_piece
def copy_async(typing, to, index, source, place):
    """``copy_async(to, index, source, place)``: begin to copy one element of 4 bytes."""
    return types.none(to, index, source, place), _copier(1)


@_piece
def copy4_async(typing, to, index, source, place):
    """``copy4_async(to, index, source, place)``: begin to copy four neighbours, 16 bytes."""
    return types.none(to, index, source, place), _copier(4)


@_piece
def commit_copies(typing):
    """``commit_copies()``: the copies begun since the last call are one group."""

    def generate(context, builder, signature, args):
        _assembly(builder, ir.VoidType(), [], "cp.async.commit_group;")
        return context.get_dummy_value()

    return types.none(), generate


@_piece
def wait_copies(typing, most):
    """``wait_copies(n)``: wait until at most the newest n groups are under way; n is a literal."""
    groups = getattr(most, "literal_value", None)
    if groups is None or groups < 0:
        raise TypingError(instruction_types.LITERAL)

    def generate(context, builder, signature, args):
        _assembly(builder, ir.VoidType(), [], f"cp.async.wait_group {groups};")
        return context.get_dummy_value()

    return types.none(most), generate


# ---------------------------------------------------------------------- tensor cores
def _pair(builder, x, y) -> Any:
    """Two float32, rounded to halves, side by side."""
    value = ir.Constant(ir.VectorType(_HALF, 2), ir.Undefined)
    for e, part in enumerate((x, y)):
        half = builder.fptrunc(part, _HALF)
        value = builder.insert_element(value, half, ir.Constant(_WORD, e))
    return value


@_piece
def split_halves(typing, x, y):
    """``upper, lower = split_halves(x, y)``: x and y as sums of two halves each.

    ``upper`` holds x and y rounded to float16, ``lower`` what that leaves, rounded; each is a
    uint32 with x's part in its lower 16 bits. Together they keep 22 of float32's 24 bits of numbers
    from 1/4 to 65,504 in magnitude; of smaller ones all to 2^-25, half of the smallest float16.
    """

    def generate(context, builder, signature, args):
        upper = _pair(builder, *args)
        rest = []
        for e, value in enumerate(args):
            half = builder.extract_element(upper, ir.Constant(_WORD, e))
            rest.append(builder.fsub(value, builder.fpext(half, _FLOAT)))
        parts = [builder.bitcast(pair, _WORD) for pair in (upper, _pair(builder, *rest))]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(u4, 2)(x, y), generate


@_piece
def round_tf32(typing, x):
    """``round_tf32(x)``: x with 10 bits of fraction, rounded to nearest, ties away from zero."""

    def generate(context, builder, signature, args):
        pair = [(args[0], "f")]
        bits = _assembly(builder, _WORD, pair, "cvt.rna.tf32.f32 $0, $1;", "=r")
        return builder.bitcast(bits, _FLOAT)

    return types.float32(x), generate


def _product(name: str, instruction: str) -> Callable:
    """Typing function of a product."""
    wanted = instruction_types.PRODUCTS[name][0]

    def numbers(builder, kind, value) -> list[Any]:
        if isinstance(kind, types.BaseTuple):
            return [builder.extract_value(value, e) for e in range(len(kind))]
        return [value]

    def generate(context, builder, signature, args):
        c, a, b = (numbers(builder, k, v) for k, v in zip(wanted, args, strict=True))
        a, b = ([builder.bitcast(value, _WORD) for value in part] for part in (a, b))
        places = [f"${4 + n}" for n in range(len(a) + len(b) + 4)]
        lists = places[: len(a)], places[len(a) : len(a) + len(b)], places[-4:]
        operands = ", ".join("{" + ", ".join(part) + "}" for part in lists)
        result = ir.LiteralStructType([_FLOAT] * 4)
        arguments = [(value, "r") for value in (*a, *b)] + [(value, "f") for value in c]
        text = f"{instruction} {{$0, $1, $2, $3}}, {operands};"
        # convergent: a warp's lanes make it together, so it must not be moved into a branch
        out = _assembly(builder, result, arguments, text, "=f,=f,=f,=f", ("convergent",))
        parts = [builder.extract_value(out, e) for e in range(4)]
        return context.make_tuple(builder, signature.return_type, parts)

    def typed(c, a, b):
        return wanted[0](c, a, b), generate

    return typed


_f16 = _product("mma_f16", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
_f16_k8 = _product("mma_f16_k8", "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32")
_tf32_k8 = _product("mma_tf32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")


@_piece
def mma_f16(typing, c, a, b):
    """``mma_f16(c, a, b)``: c + a b, 16 x 8 from 16 x 16 and 16 x 8 halves; needs 8.0.

    Lane l has g = l // 4 and q = l % 4. c: four float32, rows g, g, g + 8, g + 8, columns 2q,
    2q + 1, 2q, 2q + 1. a: four uint32 of two halves, rows g, g + 8, g, g + 8, columns 2q and
    2q + 1, in the last two 8 more. b: two, rows 2q and 2q + 1, then 8 more, column g.
    """
    return _f16(c, a, b)


@_piece
def mma_f16_k8(typing, c, a, b):
    """``mma_f16_k8(c, a, b)``: c + a b, 16 x 8 from 16 x 8 and 8 x 8 halves; needs 7.5.

    As `mma_f16` with the first two registers of a and the first, no tuple, of b.
    """
    return _f16_k8(c, a, b)


@_piece
def mma_tf32(typing, c, a, b):
    """``mma_tf32(c, a, b)``: c + a b, 16 x 8 from 16 x 8 and 8 x 8 float32; needs 8.0.

    The factors are cut to TF32, 10 bits of fraction: `round_tf32` them before. c as for `mma_f16`.
    a: four float32, rows g, g + 8, g, g + 8, columns q, q, q + 4, q + 4. b: two, rows q and q + 4,
    column g.
    """
    return _tf32_k8(c, a, b)
