"""How blocks of a GPU wait for each other within a launch.

`arrive` and `arrived` work on a counter in global memory: whoever finds the others' arrivals there
also finds what they wrote before. All of the blocks must run at once: a cooperative launch sees to
that. Neither is simulated.

Source: NVIDIA, PTX ISA, "Memory Consistency Model", red, ld.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types

from course.backend import cuda
from course.kernels.intrinsics import intrinsic

_WORD, _VOID = ir.IntType(32), ir.VoidType()


def _text(builder, result, kinds, text, constraints, values):
    function = ir.FunctionType(result, kinds)
    assembly = ir.InlineAsm(function, text, f"{constraints}~{{memory}}", side_effect=True)
    return builder.call(assembly, values, attrs=("convergent",))


def _place(context, builder, signature, args):
    """The address of a counter."""
    view = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.gep(view.data, [args[1]])


@intrinsic
def arrive(typing, counters, index):
    """``arrive(counters, index)``: add 1, after all that this thread wrote or saw written."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature, args)
        _text(
            builder, _VOID, [place.type], "red.release.gpu.global.add.s32 [$0], 1;", "l,", [place]
        )
        return context.get_dummy_value()

    return types.none(counters, types.int32), generate


@intrinsic
def arrived(typing, counters, index):
    """``arrived(counters, index)``: the arrivals; what they wrote can be read afterwards."""

    def generate(context, builder, signature, args):
        place = _place(context, builder, signature, args)
        text = "ld.acquire.gpu.global.s32 $0, [$1];"
        return _text(builder, _WORD, [place.type], text, "=r,l,", [place])

    return types.int32(counters, types.int32), generate


# --- a group's meeting: (arrive, wait), device functions of (counters, group), (…, count) ---------


@cuda.jit(device=True)
def _arrive_alone(counters, group):
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        arrive(counters, group)


@cuda.jit(device=True)
def _wait_alone(counters, group, count):
    if cuda.threadIdx.x == 0:
        while arrived(counters, group) < count:
            pass
    cuda.syncthreads()


@cuda.jit(device=True)
def _arrive_all(counters, group):
    pass


@cuda.jit(device=True)
def _wait_all(counters, group, count):
    cuda.cg.this_grid().sync()


#: How a group's blocks meet: by counters, or, in the simulator, with all others.
MEETINGS = {
    "counters": (_arrive_alone, _wait_alone),
    "grid": (_arrive_all, _wait_all),
}
