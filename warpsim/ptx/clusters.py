"""Clusters, named barriers and a warpgroup's registers: what warps of Hopper do with each other.

All but named barriers need compute capability 9.0, and numba-cuda 0.30, which compiles for
"sm_90a".

Source: NVIDIA, PTX ISA, "Cluster barrier", mapa, bar, setmaxnreg.
"""

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from warpsim.core.memory import Array
from warpsim.ptx.instruction import CONVERGENT, TYPES, WORD, Ptx, i4, instruction
from warpsim.ptx.mbarrier import HOPPER, MBarriers


# ---------------------------------------------------------------------- in the simulator
class Clusters(MBarriers):
    """What the lane program of one warp does with the blocks of its cluster."""

    def cluster_rank(self, site: int) -> int:
        return self.scheduler.blocks.index(self.its)

    def load4_cluster(self, array: Array, index, rank, site: int) -> tuple:
        self.needs(HOPPER, "another block's shared memory", site)
        its, here = self.scheduler.blocks[self.uniform(rank, site)], array.root
        flat = its.memory[here.address : here.address + here.flat.nbytes].view(here.dtype)
        other = Array(flat, here.shape, here.strides, "shared", array.name)
        other.address, other.block_offset = here.address, here.block_offset
        if its.history is not None:
            uniform, varying, _ = self.locate(array, index, site, "load")
            first = uniform if varying is None else (varying + uniform)[self.mask.indices]
            places = np.unique(np.asarray(first).reshape(-1, 1) * 4 + np.arange(16)) + here.address
            step = int(self.its.clocks.now[self.number])
            self.ordered(its, self.number, step, places, site, False, array.name)
        part = other.derived(array.shape, array.strides, array.offset)
        return self.load_vector(part, index, 4, site)


# ---------------------------------------------------------------------- code
@instruction("literal", known=range(1, 9), by_warp=True, hopper=True)
def cluster(n):
    """``cluster(n)``: n blocks side by side along x are one cluster; a literal, in the kernel."""

    def generate(context, builder, signature, args):
        notes = cgutils.get_or_insert_named_metadata(builder.module, "nvvm.annotations")
        for axis, size in (("x", n.literal_value), ("y", 1), ("z", 1)):
            text = ir.MetaDataString(builder.module, f"cluster_dim_{axis}")
            notes.add(builder.module.add_metadata((builder.function, text, WORD(size))))
        return context.get_dummy_value()

    return generate


@instruction(gives=i4, twin=Clusters.cluster_rank, by_warp=True)
def cluster_rank():
    """``cluster_rank()``: which block of its cluster this one is."""
    return Ptx("mov.u32 $0, %cluster_ctarank;")


@instruction(twin="cluster_barrier", by_warp=True)
def cluster_barrier():
    """``cluster_barrier()``: all threads of a cluster's blocks wait, and see what was stored.

    Warps are counted, so a warp's lanes come together first: a lane that comes alone would count as
    a warp.
    """
    return Ptx(
        "bar.warp.sync 0xffffffff; barrier.cluster.arrive.release.aligned; "
        "barrier.cluster.wait.acquire.aligned;",
        CONVERGENT,
    )


@instruction("floats index number", TYPES["f4x4"], twin=Clusters.load4_cluster, by_warp=True)
def load4_cluster(array, index, rank):
    """``load4_cluster(array, index, rank)``: four float32 of the same array of another block."""
    return Ptx(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, $4, $5; "
        "ld.shared::cluster.v4.f32 {$0, $1, $2, $3}, [there]; }",
        ("readonly",),
    )


@instruction("number number", twin="named_barrier", by_warp=True)
def named_barrier(number, threads):
    """``named_barrier(id, threads)``: warps of so many threads in all wait; id from 1 to 15."""
    return Ptx("bar.sync $0, $1;", CONVERGENT)


@instruction("literal", known=range(24, 257, 8), by_warp=True)
def setmaxnreg_dec(n):
    """``setmaxnreg_dec(n)``: a warpgroup's threads keep n registers each; a literal."""
    return Ptx(f"setmaxnreg.dec.sync.aligned.u32 {n.literal_value};", CONVERGENT)


@instruction("literal", known=range(24, 257, 8), by_warp=True)
def setmaxnreg_inc(n):
    """``setmaxnreg_inc(n)``: a warpgroup's threads wait until they have n registers each."""
    return Ptx(f"setmaxnreg.inc.sync.aligned.u32 {n.literal_value};", CONVERGENT)
