"""Fragments of tensor cores, of 16-bit numbers: between shared memory, registers and products.

==============================  =================================================================
`ldmatrix4`, `ldmatrix4_trans`  four matrices of 8 x 8 from shared memory; transposed (7.5)
`stmatrix4`                     the way back, not transposed (9.0)
`mma_bf16`                      as `warpsim.ptx.intrinsics.mma_f16`, of bfloat16 (8.0)
`pack_f16`, `pack_bf16`         two float32 to the two halves of a register
`unpack_f16`, `unpack_bf16`     the way back
`copy8_async`                   eight elements from global to shared memory, or zeros (8.0)
`quotient`, `remainder`         of int32; Numba's own ``//`` divides 64 bits, by a call
==============================  =================================================================

All 32 lanes of a warp take part in ldmatrix, stmatrix and mma. Lane 8 i + r says where row r of
matrix i lies: ``array[index]`` is the first of its 8 neighbours, at a multiple of 16 bytes. Lane l
holds elements 2 (l % 4) and the next one of row l // 4, the first in the lower 16 bits; transposed,
of column l // 4. (8.0) is the compute capability that an instruction needs.

Source: NVIDIA, PTX ISA, "Warp-level matrix instructions": ldmatrix, stmatrix, mma; "Data movement
and conversion instructions": cp.async, cvt; "Integer arithmetic instructions": div, rem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from warpsim.ptx.intrinsics import (
    _FLOAT,
    _LONG,
    _WORD,
    _address,
    _assembly,
    _piece,
    _product,
    f4,
    u4,
)

__all__ = [
    "copy8_async", "ldmatrix4", "ldmatrix4_trans", "mma_bf16", "pack_bf16", "pack_f16", "quotient",
    "remainder", "stmatrix4", "unpack_bf16", "unpack_f16",
]  # fmt: skip

_SHARED = ir.PointerType(ir.IntType(8), 3)


def shared_place(context, builder, signature, args, first: int) -> tuple[Any, str]:
    """The 32-bit address of ``args[first][args[first + 1]]`` in shared memory, for inline PTX."""
    kinds = signature.args
    pointer = _address(
        context, builder, kinds[first], args[first], kinds[first + 1], args[first + 1]
    )
    return builder.ptrtoint(builder.addrspacecast(pointer, _SHARED), _WORD), "r"


def done(context) -> Any:
    """What an instruction without a result hands to Numba."""
    return context.get_dummy_value()


# ---------------------------------------------------------------------- ldmatrix, stmatrix
def _matrices(name: str, stores: bool) -> Any:
    kind = types.UniTuple(u4, 4)
    words = "{" + ", ".join(f"${n + stores}" for n in range(4)) + "}"
    operands = f"[$0], {words}" if stores else f"{words}, [$4]"
    trans = ".trans" * name.endswith("_trans")
    what = f"{name[:8]}.sync.aligned.m8n8.x4{trans}"
    text = f"{what}.shared.b16 {operands};"

    def load(context, builder, signature, args):
        out = _assembly(
            builder, ir.LiteralStructType([_WORD] * 4),
            [shared_place(context, builder, signature, args, 0)], text, "=r,=r,=r,=r",
            ("readonly", "convergent"),
        )  # fmt: skip
        parts = [builder.extract_value(out, e) for e in range(4)]
        return context.make_tuple(builder, signature.return_type, parts)

    def store(context, builder, signature, args):
        given = [(builder.extract_value(args[2], e), "r") for e in range(4)]
        to = shared_place(context, builder, signature, args, 0)
        _assembly(builder, ir.VoidType(), [to, *given], text, attributes=("convergent",))
        return done(context)

    def load_typed(typing, array, index):
        return kind(array, index), load

    def store_typed(typing, array, index, x):
        return types.none(array, index, x), store

    typed = store_typed if stores else load_typed
    typed.__name__ = typed.__qualname__ = name
    call = f"{name}(array, index{', x' * stores})"
    typed.__doc__ = f"``{call}``: four matrices of 8 x 8{', transposed' * bool(trans)}; see above."
    return _piece(typed)


ldmatrix4, ldmatrix4_trans = (_matrices(f"ldmatrix4{t}", False) for t in ("", "_trans"))
stmatrix4 = _matrices("stmatrix4", True)

_bf16 = _product("mma_f16", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")


@_piece
def mma_bf16(typing, c, a, b):
    """``mma_bf16(c, a, b)``: c + a b as `mma_f16`, of bfloat16; needs 8.0."""
    return _bf16(c, a, b)


# ---------------------------------------------------------------------- two numbers in a register
def _packed(text: str) -> Callable:
    def generate(context, builder, signature, args):
        kind = ir.FunctionType(_WORD, [_FLOAT, _FLOAT])
        return builder.call(ir.InlineAsm(kind, text, "=r,f,f"), list(args))

    return generate


def _unpacked(text: str) -> Callable:
    def generate(context, builder, signature, args):
        kind = ir.FunctionType(ir.LiteralStructType([_FLOAT] * 2), [_WORD])
        out = builder.call(ir.InlineAsm(kind, text, "=f,=f,r"), [args[0]])
        parts = [builder.extract_value(out, e) for e in range(2)]
        return context.make_tuple(builder, signature.return_type, parts)

    return generate


@_piece
def pack_f16(typing, x, y):
    """``pack_f16(x, y)``: two float32 as float16, rounded; x in the lower half. Needs 8.0."""
    return u4(f4, f4), _packed("cvt.rn.f16x2.f32 $0, $2, $1;")


@_piece
def pack_bf16(typing, x, y):
    """``pack_bf16(x, y)``: two float32 as bfloat16, rounded; x in the lower half. Needs 8.0."""
    return u4(f4, f4), _packed("cvt.rn.bf16x2.f32 $0, $2, $1;")


@_piece
def unpack_f16(typing, word):
    """``x, y = unpack_f16(word)``: the two float16 of a register as float32."""
    return types.UniTuple(f4, 2)(u4), _unpacked(
        "{ .reg .b16 l, h; mov.b32 {l, h}, $2; cvt.f32.f16 $0, l; cvt.f32.f16 $1, h; }"
    )


@_piece
def unpack_bf16(typing, word):
    """``x, y = unpack_bf16(word)``: the two bfloat16 of a register as float32."""
    return types.UniTuple(f4, 2)(u4), _unpacked(
        "{ .reg .b32 l, h; shl.b32 l, $2, 16; and.b32 h, $2, 0xffff0000; "
        "mov.b32 $0, l; mov.b32 $1, h; }"
    )


# ---------------------------------------------------------------------- copies, division
@_piece
def copy8_async(typing, to, index, source, place, count):
    """``copy8_async(to, index, source, place, count)``: begin to copy eight elements of 16 bits.

    Only the first ``count`` are read, the rest of the eight becomes 0. Both places are at multiples
    of 16 bytes. The copy is waited for as those of `warpsim.ptx.intrinsics.copy_async`.
    """

    def generate(context, builder, signature, args):
        kinds = signature.args
        source = _address(context, builder, kinds[2], args[2], kinds[3], args[3])
        size = builder.shl(context.cast(builder, args[4], kinds[4], u4), _WORD(1))
        _assembly(
            builder, ir.VoidType(),
            [shared_place(context, builder, signature, args, 0),
             (builder.ptrtoint(source, _LONG), "l"), (size, "r")],
            "cp.async.cg.shared.global [$0], [$1], 16, $2;",
        )  # fmt: skip
        return done(context)

    return types.none(to, index, source, place, count), generate


@_piece
def quotient(typing, x, y):
    """``quotient(x, y)``: x / y of int32, cut towards zero as in C; y is not 0."""

    def generate(context, builder, signature, args):
        return builder.sdiv(*args)

    return types.int32(types.int32, types.int32), generate


@_piece
def remainder(typing, x, y):
    """``remainder(x, y)``: what `quotient` leaves, with the sign of x."""

    def generate(context, builder, signature, args):
        return builder.srem(*args)

    return types.int32(types.int32, types.int32), generate
