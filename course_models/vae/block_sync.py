"""How blocks of a launch pass results to each other: a reader polls the results' own memory.

Before the launch each element holds `MISSING`, a NaN with a bit pattern that no arithmetic of the
GPU gives. A thread that reads `MISSING` reads again. Four neighbours are stored and loaded at once,
in one access of 128 bits. So there is no flag or counter, and no two accesses need an order. All
blocks must run at the same time, which a cooperative launch ensures. `await4` and `publish4` are
not simulated: in the simulator all blocks synchronise at a barrier of the grid.

Source: NVIDIA, PTX ISA, "Memory Consistency Model", ld and st of .b128, griddepcontrol; the idea:
Lamport, "Concurrent reading and writing", CACM 20 (11), 1977, and its use in NCCL ("LL128") and
TensorRT-LLM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llvmlite import ir
from numba import types

from course.backend import cuda
from warpsim.ptx import store4
from warpsim.ptx.instruction import Intrinsic

MISSING = 0x7FFFDEAD
_WORD = ir.IntType(32)


@Intrinsic
def await4(typing, array, index):
    """``await4(array, index)``: four neighbours of global memory as other blocks last wrote them.

    All four words of 32 bits are of the same `publish4`; the index is a multiple of four.
    """
    letter = "f" if array.dtype == types.float32 else "r"

    def generate(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(view.data, [args[1]])
        kind = ir.FunctionType(ir.LiteralStructType([place.type.pointee] * 4), [place.type])
        text = (
            "{ .reg .b128 all; .reg .b64 low, high; ld.relaxed.gpu.global.b128 all, [$4]; "
            "mov.b128 {low, high}, all; mov.b64 {$0, $1}, low; mov.b64 {$2, $3}, high; }"
        )
        constraints = f"{f'={letter},' * 4}l,~{{memory}}"
        found = builder.call(ir.InlineAsm(kind, text, constraints, side_effect=True), [place])
        parts = [builder.extract_value(found, e) for e in range(4)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(array.dtype, 4)(array, types.int64), generate


@Intrinsic
def publish4(typing, array, index, values):
    """``publish4(array, index, (v0, v1, v2, v3))``: store four neighbours at once for `await4`."""

    def generate(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(view.data, [args[1]])
        given = [place, *(builder.extract_value(args[2], e) for e in range(4))]
        kind = ir.FunctionType(ir.VoidType(), [its.type for its in given])
        text = (
            "{ .reg .b128 all; .reg .b64 low, high; mov.b64 low, {$1, $2}; mov.b64 high, {$3, $4}; "
            "mov.b128 all, {low, high}; st.relaxed.gpu.global.b128 [$0], all; }"
        )
        builder.call(ir.InlineAsm(kind, text, "l,f,f,f,f,~{memory}", side_effect=True), given)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.UniTuple(types.float32, 4)), generate


@Intrinsic
def is_missing(typing, value):
    """``is_missing(value)``: whether a float32 is `MISSING`."""

    def generate(context, builder, signature, args):
        bits = builder.bitcast(args[0], _WORD)
        return builder.icmp_unsigned("==", bits, ir.Constant(_WORD, MISSING))

    return types.boolean(types.float32), generate


@Intrinsic
def _prefetch(typing, array, index):
    """Prefetch a cache line of global memory to L2."""

    def generate(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(view.data, [args[1]])
        kind = ir.FunctionType(ir.VoidType(), [place.type])
        code = ir.InlineAsm(kind, "prefetch.global.L2 [$0];", "l", side_effect=True)
        builder.call(code, [place])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _instruction(text: str) -> Callable:
    """A device function of one instruction without operands or result."""

    @Intrinsic
    def instruction(typing):
        def generate(context, builder, signature, args):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(ir.InlineAsm(kind, text, "~{memory}", side_effect=True), [])
            return context.get_dummy_value()

        return types.void(), generate

    return instruction


@cuda.jit(device=True)
def _nothing():
    pass


@cuda.jit(device=True)
def _no_line(array, index):
    pass


@cuda.jit(device=True)
def _all():
    cuda.cg.this_grid().sync()


_let_next = _instruction("griddepcontrol.launch_dependents;")
_done = _instruction("griddepcontrol.wait;")


class BlockSync(NamedTuple):
    """The device functions by which `forward` and `update` synchronise.

    Attributes
    ----------
    awaits : two functions, optional
        Load four results of other blocks, and tell whether one is still missing.
    publish4 : device function of (array, index, values)
        Store four results for other blocks.
    sync_blocks : device function of ()
        Called between layers.
    later : two functions, optional
        `awaits` of the second launch, `update`, which reads results of the first.
    done : device function of ()
        Waits until the launch before is done.
    let_next : device function of ()
        Once all blocks have called it, the next launch may begin where its blocks fit.
    prefetch : device function of (array, index)
        Prefetches a cache line to L2.
    """

    awaits: tuple[Callable, Callable] | None
    publish4: Callable
    sync_blocks: Callable
    later: tuple[Callable, Callable] | None
    done: Callable
    let_next: Callable
    prefetch: Callable


_AWAITS = await4, is_missing
#: How blocks synchronise. "early": `update` begins beside `forward` and polls its results, too. The
#: next step's `forward` begins beside `update` and waits until that is done. This needs compute
#: capability 9.0. "numbers": a launch begins when the one before is done; blocks of `forward` poll
#: each other's results. "grid": no block polls; a barrier of the grid stands between layers.
BLOCK_SYNC = {
    "early": BlockSync(_AWAITS, publish4, _nothing, _AWAITS, _done, _let_next, _prefetch),
    "numbers": BlockSync(_AWAITS, publish4, _nothing, None, _nothing, _nothing, _no_line),
    "grid": BlockSync(None, store4, _all, None, _nothing, _nothing, _no_line),
}
