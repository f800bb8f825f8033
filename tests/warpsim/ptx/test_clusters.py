"""Blocks of a cluster: arrivals at each other's barriers, tiles that one copy loads to both.

`test_clusters_on_gpu` runs the right ones on a GPU.
"""

import numpy as np
import pytest
from numba.types import float16, int32, uint64

from course import backend, cuda, trace
from warpsim import ptx
from warpsim.host import gpus

BOX = 64 * 64  # elements
TWO = 2 * BOX


@pytest.fixture(autouse=True)
def simulated_h200(monkeypatch):
    """Variants that would hang are made here, so no GPU runs them."""
    monkeypatch.setattr(gpus, "_chosen", None)
    if backend.gpu() is not None:
        pytest.skip("kernels with faults in them run in the simulator only")
    backend.simulate("H200")


def arrivals(lanes=2, together=True):
    """Two warps of two blocks arrive at both blocks' barriers, lane r at that of block r."""

    @cuda.jit
    def kernel(out):
        ptx.cluster(2)
        bars = cuda.shared.array(1, uint64)
        t = int32(cuda.threadIdx.x)
        if t == 0:
            ptx.mbarrier_init(bars, 0, 4)
            ptx.fence_mbarriers()
        ptx.cluster_barrier()
        if t % 32 < lanes:
            ptx.mbarrier_arrive_at(bars, 0, t % 32)
        ptx.mbarrier_wait(bars, 0, 0)
        if t == 0:
            out[ptx.cluster_rank()] = 1
        if together:
            ptx.cluster_barrier()

    return kernel


def casts(mask=3, size=4 * BOX, met=True, together=True):
    """Each of two blocks loads a box of a to both."""

    @cuda.jit
    def kernel(a, out):
        ptx.cluster(2)
        tiles = cuda.shared.array(TWO, float16, alignment=1024)
        bars = cuda.shared.array(1, uint64)
        t = int32(cuda.threadIdx.x)
        rank = ptx.cluster_rank()
        if t == 0:
            ptx.mbarrier_init(bars, 0, 1)
            ptx.fence_mbarriers()
        if met:
            ptx.cluster_barrier()
        else:
            cuda.syncthreads()
        if t == 0:
            ptx.mbarrier_expect(bars, 0, size)
            ptx.tma_load_multicast(tiles, rank * BOX, a, (rank * 64, 0), bars, 0, mask)
        ptx.mbarrier_wait(bars, 0, 0)
        for n in range(t, TWO, 64):
            out[rank, n] = tiles[n]
        if together:
            ptx.cluster_barrier()

    return kernel


def found(kernel, *arguments):
    report = trace(kernel, 2, 64, *arguments, gpu="H200")
    return report, {finding.kind for finding in report.findings}


def cast(**faults):
    a = np.arange(TWO).reshape(128, 64).astype(np.float16)
    out = cuda.to_device(np.zeros((2, TWO), np.float16))
    report, kinds = found(casts(**faults), ptx.TensorMap(cuda.to_device(a), 64, 64), out)
    return report, kinds, np.sort(a.ravel()), np.sort(out.copy_to_host(), axis=1)


def test_blocks_arrive_at_each_others_barriers():
    out = cuda.to_device(np.zeros(2, np.int32))
    assert found(arrivals(), out)[1] == set()
    assert out.copy_to_host().tolist() == [1, 1]


def test_a_tile_goes_to_both_blocks_and_is_read_once():
    report, kinds, given, got = cast()
    assert not kinds and all((row == given).all() for row in got)
    assert report.total("global", "load").bytes == 2 * 2 * BOX
    assert report.total("shared", "store").bytes == 2 * 2 * 2 * BOX


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"mask": 1}, "deadlock"),
        ({"size": 2 * BOX}, "race"),
        ({"met": False}, "race"),  # who initialises, and who copies to it
    ],
)
def test_faults_of_a_multicast_are_found(fault, kind):
    assert kind in cast(**fault)[1]


def test_arrivals_that_do_not_come_are_a_deadlock_and_late_ones_a_race():
    out = cuda.to_device(np.zeros(2, np.int32))
    assert "deadlock" in found(arrivals(lanes=1), out)[1]
    report, kinds = found(arrivals(together=False), out)
    assert not kinds  # who waits for the arrivals knows that they have come


def test_a_block_that_ends_while_another_arrives_there_is_a_race():
    @cuda.jit
    def kernel(out):
        ptx.cluster(2)
        bars = cuda.shared.array(1, uint64)
        t = int32(cuda.threadIdx.x)
        if t == 0:
            ptx.mbarrier_init(bars, 0, 2)
            ptx.fence_mbarriers()
        ptx.cluster_barrier()
        if t == 0:
            ptx.mbarrier_arrive_at(bars, 0, 1 - ptx.cluster_rank())
        out[64 * ptx.cluster_rank() + t] = 1

    report, kinds = found(kernel, cuda.to_device(np.zeros(128, np.int32)))
    assert kinds == {"race"}
    assert "that block may have ended" in report.findings[0].message
