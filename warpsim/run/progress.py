"""A launch that takes long says once how long it will take, and in which loop it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from types import FrameType

from warpsim.core.masks import Loop

SECONDS = 10.0
clock = time.monotonic


class Progress:
    """How far a launch is: past 10 s a line on stderr for its blocks, and one for its loops.

    A notebook gets none: its cells' output would depend on the machine.
    """

    def __init__(self) -> None:
        self.began = clock()
        self.tells_blocks = self.tells_loops = "ipykernel" not in sys.modules
        self.whole = False  # all blocks run at once: its outermost loop says how long that takes

    def parts(self, name: str, blocks: int, most: int) -> Iterator[tuple[int, int]]:
        """The parts of a launch, each its first block and how many."""
        self.whole = blocks <= most
        for done in range(0, blocks, most):
            passed = clock() - self.began
            if passed >= SECONDS and done and self.tells_blocks:
                self.tells_blocks = False
                more = span(passed * (blocks - done) / done)
                _say(name, f"{done:,} of {blocks:,} blocks after {passed:.0f} s, about {more} more")
            yield done, min(most, blocks - done)
        self.tells_loops = False

    def look(self, name: str, frame: FrameType | None) -> None:
        """The threads are in a loop of a lane program's frame: now and then it asks for this."""
        if not self.tells_loops or (passed := clock() - self.began) < SECONDS:
            return
        self.tells_loops = False
        loops: list[tuple[Loop, str]] = []  # with the function that each is in, outermost first
        while frame is not None:
            here = [one for one in frame.f_locals.values() if isinstance(one, Loop)]
            going = sorted((one for one in here if not hasattr(one, "ended")), key=_line)
            loops = [(one, frame.f_code.co_name) for one in going] + loops
            frame = frame.f_back
        loop, function = next((pair for pair in loops if pair[0].steps > 1), loops[-1])
        total = getattr(loop, "total", 0)
        of = f" of {total:,}" if total else ""
        where = f"line {loop.line}" + (f" of {function}" if function != name else "")
        text = f"pass {loop.steps:,}{of} of the loop in {where} after {passed:.0f} s"
        if total and self.whole and loop is loops[0][0]:
            text += f", about {span(passed * (total - loop.steps) / loop.steps)} more"
        _say(name, text)


def _line(loop: Loop) -> int:
    return loop.line


def _say(name: str, text: str) -> None:
    print(f"warpsim: {name}: {text}", file=sys.stderr, flush=True)


def span(seconds: float) -> str:
    """A time in the unit that people would say it in."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
