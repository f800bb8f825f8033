"""Drawings of lesson 01: which thread has written which element, and counts as bars."""

import numpy as np
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from course.plots.style import SMALL, Picture, listed, style
from course_lessons.lesson00.pictures import cells
from warpsim.draw.palette import BLUE, INK


def thread_map(blocks: np.ndarray, threads: np.ndarray) -> Picture:
    """Draw an array in which each element has the colour of the block and the number of the thread.

    Parameters
    ----------
    blocks, threads : ndarray of int, shape (n,) or (rows, columns)
        Number of the block and of the thread that has written each element; a negative block
        stands for none.

    Raises
    ------
    ValueError
        When the two differ in shape, or are not one- or two-dimensional.
    """
    blocks, threads = np.asarray(blocks), np.asarray(threads)
    if blocks.shape != threads.shape or blocks.ndim not in (1, 2) or blocks.size == 0:
        raise ValueError(
            f"blocks and threads are arrays of one shape, (n,) or (rows, columns); "
            f"given {blocks.shape} and {threads.shape}"
        )
    blocks, threads = np.atleast_2d(blocks), np.atleast_2d(threads)
    kinds = [int(number) for number in np.unique(blocks[blocks >= 0])]
    return cells(blocks, threads.astype(str).tolist(), blocks < 0).picture.described(
        f"An array of {blocks.shape[0]} × {blocks.shape[1]} elements: each has the colour of the "
        f"block that wrote it, {listed(map(str, kinds))}, and its thread's number; "
        f"{int((blocks < 0).sum())} were written by none."
    )


def histogram_bars(
    counts: np.ndarray, label: str = "bin", right: np.ndarray | None = None
) -> Picture:
    """Draw counts as bars; with `right`, the counts that they should be as outlines around them."""
    picture = Picture(6.0, 2.4)
    axes = style(picture.add_axes((0.14, 0.2, 0.84, 0.74)), "y")
    places = np.arange(len(counts))
    if right is not None:
        look = {"fill": False, "edgecolor": INK, "linewidth": 1.2, "zorder": 2}
        axes.bar(places, right, 0.9, label="right", **look)
    axes.bar(places, counts, 0.9, color=BLUE, label="counted", zorder=1.5)
    axes.set(xlabel=label, ylabel="count", xlim=(-0.7, len(counts) - 0.3))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if right is not None:
        axes.legend()
        # a count of few thousandths of what it should be is no bar that one sees
        for place, count in zip(places, counts, strict=True):
            look = {"ha": "center", "color": BLUE, "fontsize": SMALL, "weight": "bold"}
            above = {"xytext": (0, 2), "textcoords": "offset points", "zorder": 3}
            if count < 0.05 * max(right):
                axes.annotate(f"{count:,.0f}", (place, count), **look, **above)
    return picture.described(
        f"A bar for the count of each {label}: {len(counts)} bars"
        + ("." if right is None else "; outlines show what each should be.")
    )
