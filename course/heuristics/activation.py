"""Threads and loads of functions of each element, by how many elements there are."""

from dataclasses import dataclass
from typing import NamedTuple

VECTOR = 4  # elements of an access


class ElementProblem(NamedTuple):
    """What decides between the steps of a function of each element, of one array or two."""

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


FEW, MANY = 1 << 21, 1 << 23  # elements from which on another config is faster, on an H200


def config_for(dtype: str, size: int) -> ActivationConfig:
    """The config for so many elements.

    Few blocks run at the same time whatever they are, and a thread's accesses follow each other.
    Of many, a new one can begin about every nanosecond: each must have enough to do.
    """
    if size < MANY:
        return ActivationConfig(256, 1 if size < FEW else 2)
    return ActivationConfig(128, 2 if dtype == "float32" else 4)
