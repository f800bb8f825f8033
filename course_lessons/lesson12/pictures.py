"""Pictures of several workers: who they are, what they do when, how speed-ups compare with laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from course.plots.style import (
    FONT_SIZE,
    SMALL,
    Pen,
    Picture,
    below_each_other,
    listed,
    overlaid,
    style,
)
from course_lessons.lesson12.toy_cluster import Run
from warpsim.draw.palette import BLUE, FAINT, GREEN, GRID, INK, ORANGE, PALETTE, PAPER, VERMILLION

WIDTH = 7.4  # [inch]

# --- who is there ---------------------------------------------------------------------------------


def parts(workers: int = 4) -> Picture:
    """Draw the processes of a cluster on one machine, and what belongs to each.

    Parameters
    ----------
    workers : int
        From 1 to 4.
    """
    if not 1 <= workers <= 4:
        raise ValueError(f"workers is {workers}; there is room for 1 to 4")
    pen = Pen(WIDTH, 3.6, (0, 100), (0, 49))
    text = "knows the batches, collects\nthe results in their order"
    _part(pen, 3, 36, 29, 10, "your program", text, BLUE)
    text = "knows who is there and who\nhas which batch"
    _part(pen, 56, 36, 29, 10, "the scheduler", text, GREEN)
    look = {"line": 1.1, "head": 9}
    pen.arrow((32.5, 42.4), (55.5, 42.4), **look)
    pen.arrow((55.5, 39.6), (32.5, 39.6), **look)
    pen.text(44, 43.3, "batches", SMALL, va="baseline")
    pen.text(44, 37.2, "results", SMALL, va="baseline")
    text = "reached from\n127.0.0.1 only"
    pen.text(86.5, 41, text, FONT_SIZE - 2, ha="left", linespacing=1.35)
    for worker in range(workers):
        left = 3 + 24.3 * worker
        text = f"a process of its own with\nCUDA_VISIBLE_DEVICES={worker},\n"
        text += "one thread, one context"
        _part(pen, left, 16, 21, 12, f"worker {worker}", text, ORANGE)
        text = "called 0 by its worker"
        _part(pen, left + 1, 2.5, 19, 8, f"GPU {worker}", text, VERMILLION)
        pen.arrow((70.5, 35.8), (left + 10.5, 28.4), arrowstyle="<|-|>", **look)
        pen.arrow((left + 10.5, 15.8), (left + 10.5, 10.8), arrowstyle="<|-|>", **look)
    return pen.picture.described(
        "Your program hands batches to a scheduler and collects results; the scheduler talks to "
        f"{workers} "
        "workers, each a process of its own that sees one GPU."
    )


def _part(pen: Pen, x, y, width, height, name: str, text: str, colour: str) -> None:
    pen.rounded(x, y, width, height, facecolor=colour, alpha=0.12, edgecolor="none")
    pen.text(x + width / 2, y + height - 1.2, name, va="top", weight="bold")
    place = {"va": "top", "linespacing": 1.35}
    pen.text(x + width / 2, y + height - 4.6, text, FONT_SIZE - 2, **place)


# --- what workers do when -------------------------------------------------------------------------


def timelines(runs: Mapping[str, Run], marks: Mapping[str, float] | None = None) -> Picture:
    """Draw toy clusters on one axis of time: a row for each worker, a bar for each batch.

    A red bar with a cross is a batch that was under way when its worker was killed; the bar of the
    same number in green is the same batch, done again.

    Parameters
    ----------
    runs : mapping of a title to a Run
    marks : mapping of a text to a time [ms], optional
        Dashed lines through all of them.
    """
    if not runs:
        raise ValueError("give at least one run")
    heights = {title: 0.26 * run.workers for title, run in runs.items()}
    room = {"head": 0.04, "foot": 0.46 + 0.2 * len(marks or {}), "gap": 0.06}
    picture, charts = below_each_other(heights, WIDTH, 0.1, 0.88, **room)
    height, last = picture.get_figheight(), 1.02 * max(run.milliseconds for run in runs.values())
    for axes, (title, run) in zip(charts, runs.items(), strict=True):
        _draw(axes, run, last)
        axes.set_title(title, loc="left", pad=4)
        for place, moment in enumerate((marks or {}).values()):
            axes.axvline(moment, color=PALETTE[6 - place], linewidth=1.3, linestyle="--")
    for place, text in enumerate(marks or {}):
        look = {"fontsize": SMALL, "color": PALETTE[6 - place]}
        picture.text(0.1, (0.06 + 0.2 * place) / height, f"- - -  {text}", **look)
    return picture.described(
        "Toy clusters in time, a row for each worker, a bar for each batch: "
        + listed(
            f"{title}, {run.workers} workers, {run.milliseconds:.4g} ms"
            + (f", {len(set(run.lost))} batches lost and done again" if run.lost else "")
            for title, run in runs.items()
        )
        + "."
    )


def _draw(axes: Axes, run: Run, last: float) -> None:
    again, pen = set(run.lost), Pen.on(axes)
    if run.start_up:
        pen.box(0, -0.5, run.start_up, run.workers, GRID, "none")
    for one in run.work:
        place = run.workers - 1 - one.worker
        colour = VERMILLION if one.lost else GREEN if one.batch in again else BLUE
        pen.box(one.start, place - 0.38, one.end - one.start, 0.76, colour, PAPER)
        if one.end - one.start > 0.022 * last:
            x, text = one.start + 0.006 * last, str(one.batch)
            pen.text(x, place - 0.04, text, FONT_SIZE - 2, PAPER, ha="left")
        if one.lost:
            look = {"markersize": 8, "markeredgewidth": 2, "zorder": 5}
            axes.plot([one.end], [place], marker="x", color=INK, **look)
    axes.set(xlim=(0, last), ylim=(-0.6, run.workers - 0.4))
    axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10]))
    axes.set_yticks(range(run.workers), [f"worker {n}" for n in range(run.workers)][::-1])
    style(axes, "x")
    axes.tick_params(axis="y", length=0)


# --- speed-ups ------------------------------------------------------------------------------------


def speedups(
    measured: Mapping[str, Mapping[int, float]],
    laws: Mapping[str, Callable[[float], float]] | None = None,
    axis: str = "times as fast",
) -> Picture:
    """Draw speed-ups over the number of workers: marks, and laws as dashed lines beside them.

    Parameters
    ----------
    measured : mapping of a name to {workers: times}
        At most 6.
    laws : mapping of such a name to a function of the workers, optional
        Drawn in that name's colour. Marks after the first are hollow and larger, so that those
        below them are seen.
    axis : str
        What is on the vertical axis.
    """
    if not 1 <= len(measured) <= len(PALETTE) - 1:
        raise ValueError(f"{len(measured)} lines to draw; give 1 to {len(PALETTE) - 1}")
    most = max(max(its) for its in measured.values())
    picture = Picture(5.6, 3.4)
    axes = picture.add_axes((0.1, 0.14, 0.87, 0.82))
    fine = np.linspace(1, most, 200)
    axes.plot(fine, fine, color=FAINT, linewidth=1, linestyle=":", label="the ideal")
    for place, (name, its) in enumerate(measured.items()):
        axes.plot(list(its), list(its.values()), linestyle="none", label=name, **overlaid(place))
        if laws and name in laws:
            law = [laws[name](n) for n in fine]
            axes.plot(fine, law, color=PALETTE[place], linewidth=1.4, linestyle="--")
    axes.set(xlabel="workers", ylabel=axis, xlim=(0.6, most + 0.4), ylim=(0, most * 1.03))
    axes.set_xticks(sorted({count for its in measured.values() for count in its}))
    style(axes)
    axes.legend(loc="upper left")
    return picture.described(
        f"{axis} over the number of workers, beside the ideal: "
        + listed(f"{name}, {its[max(its)]:.3g} with {max(its)}" for name, its in measured.items())
        + "."
    )
