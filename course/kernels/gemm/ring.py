"""A ring of stages in shared memory: a producer fills them by TMA, consumers multiply them.

Each stage has two barriers: `full`, when TMA's bytes have arrived, and `empty`, when all consumers
have read it. The producer waits for `empty` and begins the next copies; consumers wait for `full`.
A thread's position in the ring is a stage's index and a phase, a bit that flips each time around.
In the first round the producer does not wait, since all stages are empty.

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

    #: (full, empty): called by one thread, before `fence_mbarriers` and a block synchronisation
    init: Callable
    #: (full, empty, index, phase): waits until the stage is empty; announces the bytes to load
    producer_acquire: Callable
    consumer_wait: Callable  # (full, index, phase): waits until the stage's bytes are there
    consumer_release: Callable  # (empty, index): called by one thread for each arrival
    advance: Callable  # (index, phase): returns those of the next stage


@functools.cache
def ring(stages: int, bytes_a: int, bytes_b: int, arrivals: int = 0) -> Ring:
    """A ring whose stages hold `bytes_a` and `bytes_b` of the operands.

    `arrivals` is how often consumers release a stage, for example once for each warp. With 0 the
    kernel synchronises the block instead, and any array may be passed for `empty`.
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
    def advance(index, phase):
        index = int32(index + 1)
        if index == stages:
            index, phase = int32(0), int32(phase ^ 1)
        return index, phase

    return Ring(init, producer_acquire, mbarrier_wait, mbarrier_arrive, advance)
