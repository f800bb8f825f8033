"""A launch that takes long says once how long it will take."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

SECONDS = 10.0
clock = time.monotonic


def announced(name: str, blocks: int, most: int) -> Iterator[tuple[int, int]]:
    """The parts of a launch, each its first block and how many; past 10 s a line on stderr.

    A notebook gets none: its cells' output would depend on the machine.
    """
    began, silent = clock(), "ipykernel" in sys.modules
    for done in range(0, blocks, most):
        passed = clock() - began
        if passed >= SECONDS and done and not silent:
            silent = True
            more = span(passed * (blocks - done) / done)
            line = f"{done:,} of {blocks:,} blocks after {passed:.0f} s, about {more} more"
            print(f"warpsim: {name}: {line}", file=sys.stderr, flush=True)
        yield done, min(most, blocks - done)


def span(seconds: float) -> str:
    """A time in the unit that people would say it in."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
