"""A ring of stages in shared memory: a producer fills them by TMA, consumers multiply them.

Each stage has two barriers: `full`, when TMA's bytes have arrived, and `empty`, when all consumers
have read it. The producer waits for `empty` and begins the next copies; consumers wait for `full`.
Where a thread is in the ring is its stage's index and a phase, which changes with each round. At
first the producer's wait is over at once.

The words are those of CUTLASS's `PipelineTmaAsync`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from numba import int32

from course.backend import cuda
from warpsim.ptx import mbarrier_arrive, mbarrier_expect, mbarrier_init, mbarrier_wait


class Ring(NamedTuple):
    """Device functions; `full` and `empty` are arrays of uint64 in shared memory, one a stage."""

    #: of (full, empty), by one thread, before `fence_mbarriers` and a block synchronisation
    init: Callable
    #: of (full, empty, index, phase): waits until the stage has been read; how many bytes come
    producer_acquire: Callable
    consumer_wait: Callable  # of (full, index, phase): waits until they are there
    consumer_release: Callable  # of (empty, index), by one thread of those that arrive
    advance: Callable  # of (index, phase): the next stage's


@functools.cache
def ring(stages: int, bytes_a: int, bytes_b: int, arrivals: int = 0) -> Ring:
    """A ring whose stages take so many bytes of both factors.

    `arrivals` is how often consumers release a stage, say a warp each. With 0 they and the
    producer synchronise the block instead, and anything stands for `empty`.
    """
    BYTES = bytes_a + bytes_b

    @cuda.jit(device=True)
    def init(full, empty):
        for s in range(stages):
            mbarrier_init(full, int32(s), int32(1))
            if arrivals:
                mbarrier_init(empty, int32(s), int32(arrivals))

    @cuda.jit(device=True)
    def producer_acquire(full, empty, index, phase):
        if arrivals:
            mbarrier_wait(empty, index, int32(phase ^ 1))
        mbarrier_expect(full, index, int32(BYTES))

    @cuda.jit(device=True)
    def consumer_wait(full, index, phase):
        mbarrier_wait(full, index, phase)

    @cuda.jit(device=True)
    def consumer_release(empty, index):
        mbarrier_arrive(empty, index)

    @cuda.jit(device=True)
    def advance(index, phase):
        index = int32(index + 1)
        if index == stages:
            index, phase = int32(0), int32(phase ^ 1)
        return index, phase

    return Ring(init, producer_acquire, consumer_wait, consumer_release, advance)
