"""Bar charts of what was recorded: the first launches, and where the course ends."""

from __future__ import annotations

from course.measure.recorded import Figure, recorded
from course.plots import time_bars
from course.plots.style import Picture

WARPS = 1, 2, 8, 64  # of a copy, on each SM
ON_ONE_CARD = {"shape": "2048x2048x256", "dtype": "float32", "gpu": "H200"}


def first_launches_picture() -> Picture:
    """Draw the times of one kernel in several launches, of a card for which they are recorded.

    Where those of the lesson's own kernel are not, they are of a copy, by the warps on each SM.
    """
    if own := recorded("first_launches", kernel="glow"):
        own = [each for each in own if each.gpu == own[0].gpu]
        times = {f"LAUNCH = {each.variant}": each.median for each in own}
        return time_bars(times, f"{own[0].gpu}, recorded: this kernel on 1024 × 1024 pixels")
    copies = recorded("measuring", kernel="copy by warps", dtype="float32", gpu="H200")
    copies = [each for each in copies if int(each.shape) in WARPS]
    times = {f"{32 * int(each.shape):,} threads": each.median for each in copies}
    size = f"{copies[0].bytes / 2e6:.0f} MB copied"
    return time_bars(times, f"{copies[0].gpu}, recorded: {size}, by threads on each SM")


def course_picture() -> Picture:
    """Draw the times of the course's program, from NumPy to the last rung, on one card.

    The last rung is the reader's of lesson 06 where it is recorded, else the package's.
    """
    last = {"subject": "reconstruct", "variant": "yours"}
    if not recorded(**last, **ON_ONE_CARD):
        last["variant"] = "warp tiles"
    steps = {
        "NumPy, 16 cores": {"kernel": "crossing", "variant": "NumPy"},
        "a kernel like yours": {"variant": "reconstruct_naive 16x16"},
        "lesson 05: tiles": {"variant": "reconstruct_tiled 16x16"},
        "lesson 06: last rung": last,
    }
    figures = {name: _time(**which) for name, which in steps.items()}
    times = {name: each.median for name, each in figures.items()}
    first, *_, last = times.values()
    of = f"2048², 256 layers, {first / last:.0f} times faster"
    return time_bars(times, f"{figures['lesson 06: last rung'].gpu}, recorded: {of}")


def _time(subject: str = "measuring", **which: str) -> Figure:
    return recorded(subject, **ON_ONE_CARD, **which)[0]
