"""Operations that stand in one launch, side by side: who writes what another one reads or writes.

>>> races([Work("d_z", ("d_g", "W"), ("d_z",)), Work("update W", ("d_g", "z", "W"), ("W",))])
[Race(array='W', writer='update W', other='d_z')]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import float32

from course.backend import cuda
from warpsim import trace


class Work(NamedTuple):
    """An operation, such as a product: its name, the arrays that it reads, and those it writes."""

    name: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


class Race(NamedTuple):
    """Two operations of one launch, and the array that one of them writes and both use."""

    array: str
    writer: str
    other: str


#: A VAE's training step, bias and activation in the products: way forward, way back, weights.
STEP = (
    Work("h", ("x", "W1"), ("h",)),
    Work("code", ("h", "W2"), ("code",)),
    Work("z", ("code",), ("z",)),
    Work("g", ("z", "W3"), ("g",)),
    Work("d_logits", ("g", "W4", "x"), ("d_logits",)),
    Work("d_g", ("d_logits", "W4", "g"), ("d_g",)),
    Work("d_code", ("d_g", "W3", "code"), ("d_code",)),
    Work("d_h", ("d_code", "W2", "h"), ("d_h",)),
    Work("update W4", ("d_logits", "g", "W4"), ("W4",)),
    Work("update W3", ("d_g", "z", "W3"), ("W3",)),
    Work("update W2", ("d_code", "h", "W2"), ("W2",)),
    Work("update W1", ("d_h", "x", "W1"), ("W1",)),
)


@cuda.jit
def side_by_side(memory, reads, writes):
    """Block b does operation b: it reads its arrays, a number each, and writes its own."""
    operation = cuda.blockIdx.x
    total = float32(operation + 1)
    for n in range(reads.shape[1]):
        if reads[operation, n] >= 0:
            total += memory[reads[operation, n]]
    for n in range(writes.shape[1]):
        if writes[operation, n] >= 0:
            memory[writes[operation, n]] = total


def findings(works: Sequence[Work]) -> tuple:
    """What the simulator finds where these operations are one launch, a block each."""
    arrays = sorted({name for work in works for name in (*work.reads, *work.writes)})

    def table(which: str) -> np.ndarray:
        rows = [[arrays.index(name) for name in getattr(work, which)] for work in works]
        wide = max([*map(len, rows), 1])
        return np.array([row + [-1] * (wide - len(row)) for row in rows], np.int32)

    memory = np.zeros(max(len(arrays), 1), np.float32)
    return trace(side_by_side, len(works), 1, memory, table("reads"), table("writes")).findings


def races(works: Sequence[Work]) -> list[Race]:
    """The races of operations that stand in one launch; none where their order does not matter."""
    if not any("race" in found.kind for found in findings(works)):
        return []
    return [
        Race(array, writer.name, other.name)
        for writer in works
        for other in works
        for array in writer.writes
        if other is not writer and array in (*other.reads, *other.writes)
    ]


def clash(earlier: Work, later: Work) -> str:
    """The array because of which one must be done before the other begins; "" for none."""
    for array in (*earlier.writes, *earlier.reads):
        both_read = array not in earlier.writes and array not in later.writes
        if array in (*later.reads, *later.writes) and not both_read:
            return array
    return ""


def fewest(works: Sequence[Work]) -> list[int]:
    """For each operation the launch in which it can stand at the earliest, from 1."""
    found: list[int] = []
    for place, work in enumerate(works):
        before = [
            n for earlier, n in zip(works[:place], found, strict=True) if clash(earlier, work)
        ]
        found.append(max(before, default=0) + 1)
    return found
