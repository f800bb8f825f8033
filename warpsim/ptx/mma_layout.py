"""Which element of a tensor core's product lies in which register of which lane.

A product m16n8: c (16 x 8) + a (16 x depth) b (depth x 8). A register holds `parts` neighbours: 2
halves, or 1 number of 32 bits. Of lane l the group is l // 4, the place in it l % 4.
Source: NVIDIA, PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and the same
for m16n8k8.
"""

from __future__ import annotations

import numpy as np

LANE = np.arange(32)
GROUP, IN_GROUP = LANE >> 2, LANE & 3
Places = tuple[np.ndarray, np.ndarray]


def place_in_a(register: int, part: int = 0, parts: int = 2) -> Places:
    """Row and column, of each lane, of a part of a register of a."""
    column = (register // 2) * 4 * parts + IN_GROUP * parts + part
    return GROUP + 8 * (register % 2), column


def place_in_b(register: int, part: int = 0, parts: int = 2) -> Places:
    """Row and column, of each lane, of a part of a register of b."""
    return register * 4 * parts + IN_GROUP * parts + part, GROUP


def place_in_c(register: int) -> Places:
    """Row and column, of each lane, of a sum."""
    return GROUP + 8 * (register // 2), 2 * IN_GROUP + register % 2
