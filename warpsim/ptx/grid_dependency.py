"""Launches that begin before the one in front of them is done: programmatic dependent launch.

A launch costs the GPU a microsecond or two after the last block before it has ended: blocks are
brought to multiprocessors, barriers are made, tensor maps are read. A kernel that calls `follow`
does all that meanwhile, and waits then. `course.dispatch.plans` launches it so, behind another
launch of its plan.

Source: NVIDIA, CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX
ISA, "griddepcontrol".
"""

from __future__ import annotations

from types import FunctionType

from numba import types

from warpsim.ptx.fragments import done
from warpsim.ptx.hopper import _VOID
from warpsim.ptx.intrinsics import _assembly, _piece

__all__ = ["follow"]


@_piece
def follow(typing):
    """``follow()``: let the next launch begin where there is room, and wait for the one before.

    For all threads, after what needs no other launch's results. Each launch waits until the one
    before is done, so all that were before that are, too. Before compute capability 9.0 it is
    nothing: no launch begins early there.
    """
    from numba.core.targetconfig import ConfigStack

    def generate(context, builder, signature, args):
        capability = getattr(ConfigStack().top_or_none(), "compute_capability", None) or (0, 0)
        if tuple(capability[:2]) >= (9, 0):
            text = "griddepcontrol.launch_dependents; griddepcontrol.wait;"
            _assembly(builder, _VOID, [], text)
        return done(context)

    return types.none(), generate


def waits(kernel: FunctionType) -> bool:
    """Whether a kernel waits for the launch before its own, by `follow`."""
    return "follow" in kernel.__code__.co_names
