"""Arrays that lie over each other in memory share one shadow: races are of addresses, not of names.

Device arrays may be parts of one allocation, ``d[:128]`` and ``d[1:]``, or the same bytes as
elements of another size. Their elements are counted in units that fit them all.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from warpsim.core.interface import owner_of, start_of
from warpsim.core.memory import Array, leaves
from warpsim.watch.access_history import Shadow

#: Larger allocations are watched only where an argument lies: a device array from outside the
#: kernel that reaches further is watched apart.
MOST_BYTES = 1 << 22


@dataclass
class Span:
    """Bytes that so many arrays lie in, and who touched them, unit by unit."""

    start: int
    end: int
    unit: int
    shadow: Shadow
    arrays: int = 0

    def takes(self, array: Array) -> bool:
        """Let an array share this shadow, if it lies inside and its elements are whole units."""
        start, end = bounds(array)
        inside = self.start <= start and end <= self.end
        if not inside or array.itemsize % self.unit or (start - self.start) % self.unit:
            return False
        array.shadow = self.shadow
        self.arrays += 1
        place = (start - self.start) // self.unit, array.itemsize // self.unit
        array.place = None if place == (0, 1) else place
        return True


def bounds(array: Array) -> tuple[int, int]:
    """The addresses of an array's first byte and of the one after its last."""
    start = start_of(array.flat)
    return start, start + array.flat.size * array.itemsize


def allocation(array: Array) -> tuple[int, int]:
    """The addresses of the allocation that an array is a part of; of a large one, its own."""
    owner = owner_of(array.flat)
    if owner.nbytes > MOST_BYTES:
        return bounds(array)
    return start_of(owner), start_of(owner) + owner.nbytes


def spread(arguments: Iterable[tuple[str, Any]]) -> list[tuple[str, Array]]:
    """The arrays among named arguments, those of tuples too."""
    own = [(name, leaf) for name, value in arguments for leaf in leaves(value)]
    own = [(name, getattr(leaf, "array", leaf)) for name, leaf in own]  # of a tensor map
    return [pair for pair in own if isinstance(pair[1], Array) and pair[1].flat.size]


def watch(spans: list[Span], names: frozenset[str], arguments: dict[str, Any]) -> None:
    """Look for races in the arrays of some names, and in all that lie over one of them."""
    groups: list[list[tuple[str, Array]]] = []
    end = 0
    for name, array in sorted(spread(arguments.items()), key=lambda pair: allocation(pair[1])):
        if not groups or allocation(array)[0] >= end:
            groups.append([])
        groups[-1].append((name, array))
        end = max(end, allocation(array)[1])
    for group in groups:
        if names.isdisjoint(name for name, _ in group):
            continue
        members = [array for _, array in group]
        if len(members) == 1 and any(span.takes(members[0]) for span in spans):
            continue  # a device array from outside, met while the kernel runs
        starts, ends = zip(*map(allocation, members), strict=True)
        first, last = min(starts), max(ends)
        steps = [bounds(array)[0] - first for array in members]
        unit = math.gcd(*steps, *(array.itemsize for array in members))
        spans.append(Span(first, last, unit, Shadow((last - first) // unit)))
        for array in members:
            spans[-1].takes(array)
