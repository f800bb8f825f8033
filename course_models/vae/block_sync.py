"""How blocks of a launch hand each other numbers: a reader waits for the numbers themselves.

Before the launch each place holds `MISSING`, which no arithmetic gives: it is one of the many NaN,
and a GPU makes another one. Whoever reads `MISSING` reads again. Four neighbours are written and
read at once, as one number of 128 bits. So nothing is counted, and no memory has to be in order but
a four's own. All of the blocks must run at once: a cooperative launch sees to that. `await4` and
`publish4` are not simulated: there all blocks synchronise at a barrier of the grid.

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

    Words of 32 bits, all four of one `publish4`; the index is a multiple of four.
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
    """``publish4(array, index, (v0, v1, v2, v3))``: four neighbours for `await4`, at once."""

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
    """Prefetch a line of global memory to L2."""

    def generate(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(view.data, [args[1]])
        kind = ir.FunctionType(ir.VoidType(), [place.type])
        code = ir.InlineAsm(kind, "prefetch.global.L2 [$0];", "l", side_effect=True)
        builder.call(code, [place])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


def _instruction(text: str) -> Callable:
    """A function for kernels of one instruction that takes and gives nothing."""

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
    """What `forward` and `update` have of it.

    Attributes
    ----------
    awaits : two functions, optional
        How numbers of other blocks are read, and which are not there yet.
    publish4 : device function of (array, index, values)
        How numbers are written for other blocks.
    sync_blocks : device function of ()
        Between layers.
    later : two functions, optional
        As `awaits`, of the launch behind.
    done : device function of ()
        Waits until the launch before is done.
    let_next : device function of ()
        The launch behind may begin where a block fits, once all blocks have come here.
    prefetch : device function of (array, index)
        Prefetches a line of memory to L2.
    """

    awaits: tuple[Callable, Callable] | None
    publish4: Callable
    sync_blocks: Callable
    later: tuple[Callable, Callable] | None
    done: Callable
    let_next: Callable
    prefetch: Callable


_AWAITS = await4, is_missing
#: How blocks synchronise. "early": the second launch begins beside the first and waits for its
#: numbers, too, and the next step's first begins beside the second and waits until that is done; it
#: needs compute capability 9.0. "numbers": a launch begins when the one before is done. "grid": no
#: block waits for numbers.
BLOCK_SYNC = {
    "early": BlockSync(_AWAITS, publish4, _nothing, _AWAITS, _done, _let_next, _prefetch),
    "numbers": BlockSync(_AWAITS, publish4, _nothing, None, _nothing, _nothing, _no_line),
    "grid": BlockSync(None, store4, _all, None, _nothing, _nothing, _no_line),
}
