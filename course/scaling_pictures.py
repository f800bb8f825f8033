"""Pictures of several workers: who they are, what they do when, how speed-ups compare with laws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.ticker import MaxNLocator

from course.drawing import (
    BLUE,
    FAINT,
    FONT_SIZE,
    GREEN,
    GRID,
    INK,
    MARKERS,
    ORANGE,
    PALETTE,
    VERMILLION,
    Picture,
    style,
)
from course.toy_cluster import Run

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
    picture = Picture(WIDTH, 3.6)
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 100), ylim=(0, 49))
    axes.axis("off")
    _box(axes, 3, 36, 29, 10, "your program",
         "knows the batches, collects\nthe results in their order", BLUE)  # fmt: skip
    _box(axes, 56, 36, 29, 10, "the scheduler",
         "knows who is there and who\nhas which batch", GREEN)  # fmt: skip
    _arrow(axes, (32.5, 42.4), (55.5, 42.4))
    _arrow(axes, (55.5, 39.6), (32.5, 39.6))
    axes.text(44, 43.3, "batches", ha="center", fontsize=FONT_SIZE - 1, color=INK)
    axes.text(44, 37.2, "results", ha="center", fontsize=FONT_SIZE - 1, color=INK)
    axes.text(86.5, 41, "reached from\n127.0.0.1 only", va="center", fontsize=FONT_SIZE - 2,
              color=INK, linespacing=1.35)  # fmt: skip
    for worker in range(workers):
        left = 3 + 24.3 * worker
        _box(axes, left, 16, 21, 12, f"worker {worker}",
             f"a process of its own with\nCUDA_VISIBLE_DEVICES={worker},\n"
             "one thread, one context", ORANGE)  # fmt: skip
        _box(axes, left + 1, 2.5, 19, 8, f"GPU {worker}", "called 0 by its worker", VERMILLION)
        _arrow(axes, (70.5, 35.8), (left + 10.5, 28.4), both=True)
        _arrow(axes, (left + 10.5, 15.8), (left + 10.5, 10.8), both=True)
    return picture


def _box(
    axes: Axes, left: float, bottom: float, width: float, height: float, name: str, text: str,
    colour: str,
) -> None:  # fmt: skip
    axes.add_patch(
        FancyBboxPatch(
            (left, bottom),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=1",
            facecolor=colour,
            alpha=0.12,
            edgecolor="none",
        )  # fmt: skip
    )
    middle, top = left + width / 2, bottom + height
    axes.text(middle, top - 1.2, name, ha="center", va="top", fontsize=FONT_SIZE,
              fontweight="bold", color=INK)  # fmt: skip
    axes.text(middle, top - 4.6, text, ha="center", va="top", fontsize=FONT_SIZE - 2, color=INK,
              linespacing=1.35)  # fmt: skip


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], both=False) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="<|-|>" if both else "-|>",
            mutation_scale=9,
            color=INK,
            linewidth=1.1,
            shrinkA=0,
            shrinkB=0,
        )  # fmt: skip
    )


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
    below = 0.5 + 0.2 * len(marks or {})
    height = below + sum(0.34 + 0.26 * run.workers for run in runs.values())
    picture = Picture(WIDTH, height)
    last = 1.02 * max(run.milliseconds for run in runs.values())
    top = height - 0.04
    for number, (title, run) in enumerate(runs.items()):
        tall = 0.26 * run.workers
        top -= 0.28 + tall
        axes = picture.add_axes((0.1, top / height, 0.88, tall / height))
        top -= 0.06
        _draw(axes, run, last)
        axes.set_title(title, loc="left", fontsize=FONT_SIZE, color=INK, parse_math=False, pad=4)
        for place, moment in enumerate((marks or {}).values()):
            axes.axvline(moment, color=PALETTE[6 - place], linewidth=1.3, linestyle="--")
        if number + 1 < len(runs):
            axes.set_xticklabels([])
        else:
            axes.set_xlabel("time [ms]", fontsize=FONT_SIZE, color=INK)
    for place, text in enumerate(marks or {}):
        picture.text(0.1, (0.06 + 0.2 * place) / height, f"- - -  {text}", fontsize=FONT_SIZE - 1,
                     color=PALETTE[6 - place])  # fmt: skip
    return picture


def _draw(axes: Axes, run: Run, last: float) -> None:
    again = set(run.lost)
    if run.start_up:
        axes.add_patch(Rectangle((0, -0.5), run.start_up, run.workers, facecolor=GRID))
    for one in run.work:
        place = run.workers - 1 - one.worker
        colour = VERMILLION if one.lost else GREEN if one.batch in again else BLUE
        axes.add_patch(
            Rectangle(
                (one.start, place - 0.38),
                one.end - one.start,
                0.76,
                facecolor=colour,
                edgecolor="white",
                linewidth=0.8,
            )  # fmt: skip
        )
        if one.end - one.start > 0.022 * last:
            axes.text(one.start + 0.006 * last, place - 0.04, str(one.batch), ha="left",
                      va="center", fontsize=FONT_SIZE - 2, color="white")  # fmt: skip
        if one.lost:
            axes.plot([one.end], [place], marker="x", color=INK, markersize=8, markeredgewidth=2,
                      zorder=5)  # fmt: skip
    axes.set(xlim=(0, last), ylim=(-0.6, run.workers - 0.4))
    axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 5, 10]))
    axes.set_yticks(range(run.workers), [f"worker {n}" for n in range(run.workers)][::-1])
    style(axes)
    axes.grid(False, axis="y")
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
        hollow = {"markerfacecolor": "none", "markeredgewidth": 1.6} if place else {}
        axes.plot(list(its), list(its.values()), color=PALETTE[place], marker=MARKERS[place],
                  markersize=5 + 3 * place, linestyle="none", label=name, zorder=4,
                  **hollow)  # fmt: skip
        if laws and name in laws:
            axes.plot(fine, [laws[name](n) for n in fine], color=PALETTE[place], linewidth=1.4,
                      linestyle="--")  # fmt: skip
    axes.set_xlabel("workers")
    axes.set_ylabel(axis)
    axes.set_xticks(_ticks(measured))
    axes.set_xlim(0.6, most + 0.4)
    axes.set_ylim(0, most * 1.03)
    style(axes)
    axes.legend(fontsize=FONT_SIZE - 1, frameon=False, labelcolor=INK, loc="upper left")
    return picture


def _ticks(measured: Mapping[str, Mapping[int, float]]) -> Sequence[int]:
    return sorted({count for its in measured.values() for count in its})
