"""How blocks of a launch hand each other numbers: a reader waits for the numbers themselves.

Before the launch each place holds `MISSING`, which no arithmetic gives: it is one of the many NaN,
and a GPU makes another one. Whoever reads `MISSING` reads again. So nothing is counted, and no
memory has to be in order but a number's own. All of the blocks must run at once: a cooperative
launch sees to that. `take4` is not simulated: there all blocks meet.

Source: NVIDIA, PTX ISA, "Memory Consistency Model", ld; the idea: Lamport, "Concurrent reading and
writing", CACM 20 (11), 1977, and its use in NCCL ("LL128") and TensorRT-LLM.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from course.backend import cuda
from course.kernels.intrinsics import intrinsic

MISSING = 0x7FFFDEAD
_WORD, _NUMBER = ir.IntType(32), ir.FloatType()


@intrinsic
def take4(typing, array, index):
    """``take4(array, index)``: four neighbours of global memory as other blocks last wrote them."""

    def generate(context, builder, signature, args):
        view = context.make_array(signature.args[0])(context, builder, args[0])
        place = builder.gep(view.data, [args[1]])
        kind = ir.FunctionType(ir.LiteralStructType([_NUMBER] * 4), [place.type])
        text = "ld.relaxed.gpu.global.v4.f32 {$0, $1, $2, $3}, [$4];"
        assembly = ir.InlineAsm(kind, text, "=f,=f,=f,=f,l,~{memory}", side_effect=True)
        found = builder.call(assembly, [place])
        parts = [builder.extract_value(found, e) for e in range(4)]
        return context.make_tuple(builder, signature.return_type, parts)

    return types.UniTuple(types.float32, 4)(array, types.int64), generate


@intrinsic
def is_missing(typing, value):
    """``is_missing(value)``: whether a float32 is `MISSING`."""

    def generate(context, builder, signature, args):
        bits = builder.bitcast(args[0], _WORD)
        return builder.icmp_unsigned("==", bits, ir.Constant(_WORD, MISSING))

    return types.boolean(types.float32), generate


@cuda.jit(device=True)
def _nothing():
    pass


@cuda.jit(device=True)
def _all():
    cuda.cg.this_grid().sync()


#: How blocks meet: what reads numbers that are awaited, and what stands between layers.
MEETINGS = {"numbers": ((take4, is_missing), _nothing), "grid": (None, _all)}
