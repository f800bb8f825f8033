"""Charts of attention's bench: every program of each shape.

>>> figures = recorded("attention", metric=None)            # of course.measure.recorded
>>> programs(figures, "attention")
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from matplotlib.ticker import LogLocator, NullLocator

from course.measure.recorded import Figure
from course.measure.roofline import time_text
from course.plots.style import (
    SMALL,
    Picture,
    headline,
    in_plain_numbers,
    listed,
    plain,
    style,
    swatches,
)
from warpsim.draw.palette import BLUE, VERMILLION

METRIC, DTYPE = "time in a graph", "float16"
NORM = "layer norm in halves"
PEERS = ("FlashAttention", "cuDNN", "efficient", "PyTorch")
#: Variants of LayerNorm in blocks of several shapes, in older files.
SWEEP = re.compile(r"(\d+) (tokens a block|numbers a thread)")
ROW, ABOVE = 0.23, 0.5  # height of a program's bar, space above a panel [inch]


def _by_shape(figures: Iterable[Figure], kernel: str) -> dict[str, list[Figure]]:
    found: dict[str, list[Figure]] = {}
    for its in figures:
        if (its.kernel, its.metric, its.dtype) == (kernel, METRIC, DTYPE):
            found.setdefault(its.shape, []).append(its)
    return found


def _words(shape: str) -> str:
    sizes = shape.split("x")
    if len(sizes) == 4:
        return "{} images, {} heads, {} tokens, heads of {}".format(*sizes)
    return f"{int(sizes[0]):,} tokens of {sizes[1]}"


def programs(figures: Iterable[Figure], kernel: str = "attention") -> Picture:
    """The time of every program, a panel for each shape; variants of `SWEEP` are left out."""
    found = {
        shape: [its for its in rows if not SWEEP.fullmatch(its.variant)]
        for shape, rows in _by_shape(figures, kernel).items()
    }
    if not found:
        raise ValueError(f"no time of {kernel!r} in {DTYPE} to draw")
    heights = {shape: ROW * len(rows) for shape, rows in found.items()}
    total = sum(heights.values()) + ABOVE * len(heights) + 0.95
    picture = Picture(7.4, total)
    gpu = next(iter(found.values()))[0].gpu
    title = f"{kernel[0].upper()}{kernel[1:]}, {DTYPE}, in CUDA graphs, {gpu}"
    headline(picture, title)
    top = total - 0.25
    for shape, rows in found.items():
        top -= ABOVE + heights[shape]
        box = 0.24, (top + 0.15) / total, 0.62, heights[shape] / total
        axes = picture.add_axes(box)
        colours = [VERMILLION if its.variant.split(",")[0] in PEERS else BLUE for its in rows]
        axes.barh([its.variant for its in rows], [1e3 * its.median for its in rows], 0.7,
                  color=colours)  # fmt: skip
        for place, its in enumerate(rows):
            axes.text(1.06e3 * its.median, place, time_text(its.median), va="center",
                      fontsize=SMALL)  # fmt: skip
        every = [1e3 * its.median for its in rows]
        axes.set(xscale="log", xlim=(min(every) / 2, max(every) * 2.2))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_title(_words(shape), loc="left")
        subs = (1, 2, 5) if max(every) < 100 * min(every) else (1,)
        axes.xaxis.set_major_locator(LogLocator(subs=subs))
        axes.xaxis.set_minor_locator(NullLocator())
        in_plain_numbers(axes.xaxis, words=plain)
        style(axes, "x")
    axes.set_xlabel("µs, logarithmic")
    handles = swatches({"PyTorch": VERMILLION, "ours": BLUE})
    picture.legend(handles=handles, loc="lower left", ncols=2, bbox_to_anchor=(0.23, 0.0))
    words = [
        f"{_words(shape)}: "
        + listed((f"{its.variant} {time_text(its.median)}" for its in rows), 12)
        for shape, rows in found.items()
    ]
    return picture.described(f"{title}. {'. '.join(words)}.")


def charts(figures: Sequence[Figure]) -> dict[str, Picture]:
    """What ``python -m course bench attention`` draws beside its file."""
    kernels = {its.kernel for its in figures if its.metric == METRIC}
    found = {}
    if "attention" in kernels:
        found["programs"] = programs(figures)
    if NORM in kernels:
        found["norm"] = programs(figures, NORM)
    return found
