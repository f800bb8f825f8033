"""Launches that begin before the one in front of them is done: programmatic dependent launch.

A launch costs the GPU a microsecond or two after the last block before it has ended: blocks are
scheduled on multiprocessors, barriers are made, tensor maps are read. A kernel that calls
`grid_dependency_wait` does all that meanwhile, and waits then: it is launched with the attribute of
a programmatic dependent launch, behind another one.

Source: NVIDIA, CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization"; PTX
ISA, "griddepcontrol".
"""

from types import FunctionType

from warpsim.ptx.instruction import Ptx, capability, instruction

PTX = "griddepcontrol.launch_dependents; griddepcontrol.wait;"


@instruction()
def grid_dependency_wait():
    """``grid_dependency_wait()``: let the next launch begin, and wait for the one before.

    For all threads, after what needs no other launch's results. Each launch waits until the one
    before is done, so all that were before that are, too. Before compute capability 9.0 it is
    nothing: no launch begins early there.
    """

    def generate(context, builder, signature, args):
        if capability() >= (9, 0):
            Ptx(PTX).generate([], context, builder, signature, args)
        return context.get_dummy_value()

    return generate


def waits(kernel: FunctionType) -> bool:
    """Whether a kernel waits for the launch in front, by `grid_dependency_wait`."""
    return grid_dependency_wait.__name__ in kernel.__code__.co_names
