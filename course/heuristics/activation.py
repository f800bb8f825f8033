"""Threads and loads of elementwise functions, by the number of elements: measured on an H200."""

from dataclasses import dataclass
from typing import NamedTuple

VECTOR = 4  # elements of an access


class ElementProblem(NamedTuple):
    """What decides between the steps of an elementwise function of one array or two."""

    size: int
    dtype: str
    aligned: bool  # four elements can be accessed at once
    name: str


@dataclass(frozen=True)
class ActivationConfig:
    """What is tuned."""

    threads: int = 128  # of a block
    accesses: int = 1  # loads of four elements that a thread has in flight

    tile = property(lambda self: self.threads * self.accesses * VECTOR)  # elements of a block


FEW_ELEMENTS, MANY = 1 << 21, 1 << 23  # from which on the next config is faster


def config_for(dtype: str, size: int) -> ActivationConfig:
    """The config for so many elements.

    Few blocks are all resident at once, so a thread with one access is done soonest. Of many blocks
    a new one can begin about every nanosecond: each must have enough to do.
    """
    if size < MANY:
        return ActivationConfig(256, 1 if size < FEW_ELEMENTS else 2)
    return ActivationConfig(128, 2 if dtype == "float32" else 4)
