"""Threads, loads and blocks of sums and maxima, by the GPU and the number of elements."""

from dataclasses import dataclass
from typing import NamedTuple

from course.backend import cuda
from course.heuristics.device import ceil_div

WARP, VECTOR = 32, 4  # lanes of a warp, elements of an access
ALONE = 16_384  # elements up to which one block is faster: several must find out who ends last


class ReductionProblem(NamedTuple):
    """What decides between the steps of a reduction."""

    size: int
    aligned: bool  # four elements can be accessed at once


@dataclass(frozen=True)
class ReductionConfig:
    """What is tuned."""

    threads: int = 256  # of a block; 32 times a power of two
    accesses: int = 4  # loads of four elements that a thread has in flight
    blocks: int = 8  # for each multiprocessor, in step 5

    tile = property(  # elements that a block reads at a time
        lambda self: self.threads * self.accesses * VECTOR
    )


#: Each thread has 64 bytes of float32 in flight; blocks fill a multiprocessor with threads.
CONFIGS = {"sm_75": ReductionConfig(blocks=4), "sm_90": ReductionConfig(blocks=8)}


def config_for() -> ReductionConfig:
    """The config for this GPU."""
    capability = tuple(cuda.get_current_device().compute_capability)
    return CONFIGS["sm_90" if capability >= (8, 0) else "sm_75"]


def last_block_config(size: int) -> ReductionConfig:
    """The config of step 5 for so many elements; measured on an H200."""
    if size <= ALONE:
        fours = 1 << max(ceil_div(size, VECTOR) - 1, 0).bit_length()  # accesses, a power of two
        threads = min(max(fours, WARP), 1024)
        return ReductionConfig(threads, max(fours // threads, 1), 1)
    if size < 1 << 19:
        return ReductionConfig(256, 2, 4)
    return ReductionConfig(512, 2 if size < 1 << 22 else 4 if size < 3 << 23 else 8, 2)
