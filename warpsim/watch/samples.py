"""One warp's request, kept as an example for the pictures of a trace."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from warpsim.core.memory import Array, contiguous_strides
from warpsim.front.names import Site

ndarray = np.ndarray
SECTOR = 32  # bytes
BANKS = 32


@dataclass(frozen=True)
class Sample:
    """A request of one warp: which lane wants which element."""

    site: Site
    space: str
    op: str
    amount: int  # sectors (global memory) or wavefronts (shared memory)
    elements: ndarray  # int64, (32,): numbers within the array, in shared memory the block's own
    active: ndarray  # bool, (32,)
    size: int  # bytes of an element, from one to the next, and before the first
    pitch: int
    address: int
    shape: tuple[int, ...]  # of the whole array
    order: str  # 'C' or 'F', in which its elements are numbered; '' where in neither
    block: tuple[int, int, int]
    block_shape: tuple[int, int, int]
    warp: int  # in its block

    @property
    def lanes(self) -> list[int]:
        """The active lanes."""
        return [int(lane) for lane in np.flatnonzero(self.active)]

    @property
    def bytes(self) -> ndarray:
        """Byte address of each lane's element, from the start of the array's space."""
        return self.elements * self.pitch + self.address

    @property
    def ideal(self) -> int:
        """The least that would do: sectors or wavefronts."""
        if self.space == "global":
            distinct = len(np.unique(self.elements[self.active]))
            return -(-distinct * self.size // SECTOR)
        return len(self.groups)

    def element_name(self, element: int) -> str:
        """The index of an element, such as ``[3, 4]``."""
        if not self.order or not self.shape or not 0 <= element < math.prod(self.shape):
            return f"#{element}"
        index = np.unravel_index(int(element), self.shape, self.order)
        return f"[{', '.join(str(i) for i in index)}]"

    # ------------------------------------------------------------------ global memory
    @property
    def sectors(self) -> dict[int, list[int]]:
        """The lanes of each sector, by the sector's number, ascending."""
        found: dict[int, list[int]] = {}
        for lane in self.lanes:
            found.setdefault(int(self.bytes[lane]) // SECTOR, []).append(lane)
        return dict(sorted(found.items()))

    @property
    def wanted(self) -> Counter[int]:
        """How many lanes want each element."""
        return Counter(int(element) for element in self.elements[self.active])

    # ------------------------------------------------------------------ shared memory
    @property
    def groups(self) -> list[list[int]]:
        """The active lanes that go together: all, or half or quarter warps of wide elements."""
        width = lanes_together(self.size)
        parts = [
            [lane for lane in self.lanes if lane // width == part] for part in range(32 // width)
        ]
        return [part for part in parts if part]

    @property
    def stacks(self) -> list[dict[int, dict[int, list[int]]]]:
        """For each group the banks that it wants, their four-byte words, and the words' lanes."""
        out = []
        for group in self.groups:
            banks: dict[int, dict[int, list[int]]] = {}
            for lane in group:
                first = int(self.bytes[lane]) // 4
                for word in range(first, first + max(1, self.size // 4)):
                    banks.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
            out.append(banks)
        return out


def lanes_together(size: int) -> int:
    """Lanes of a warp that reach shared memory together, by the bytes of an element."""
    return {8: 16, 16: 8}.get(size, 32)


def keep(
    key: tuple[Site, str, str], state: Any, array: Array, uniform: int, varying: ndarray | None,
    active: ndarray, row: int, amount: int,
) -> None:  # fmt: skip
    """Keep the request of warp ``row`` of the running chunk as the example of its place."""
    lanes = slice(row * 32, row * 32 + 32)
    elements = np.full(32, uniform) if varying is None else varying[lanes] + uniform
    root = array.root
    order = ""
    if root.strides == contiguous_strides(root.shape):
        order = "C"
    elif root.strides == contiguous_strides(root.shape[::-1])[::-1]:
        order = "F"
    where = state.where(row * 32)
    state.counters.samples[key] = Sample(
        *key, int(amount), elements, active[lanes].copy(), array.itemsize, array.pitch,
        root.address, root.shape, order, where.block,
        state.geometry.block_shape, (state.geometry.start // 32 + row) % (state.padded // 32),
    )  # fmt: skip
