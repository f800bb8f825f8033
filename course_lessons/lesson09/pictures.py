"""Drawings of many images at once: the parts of the pipeline, and what its stages do when."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes

from course.plots.style import FONT_SIZE, SMALL, Pen, Picture, below_each_other, listed, style
from course_lessons.lesson09.toy_pipeline import Run
from warpsim.draw.palette import (
    BLUE,
    FAINT,
    GREEN,
    GRID,
    INK,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    VERMILLION,
)

WIDTH = 8.4  # [inch]
STAGES = {"decode": BLUE, "factorise": VERMILLION, "rebuild": ORANGE, "write": GREEN}
OTHERS = (PURPLE, SKY)

# --- the parts and who owns them ------------------------------------------------------------------

_BANDS = (
    (41.5, 17.5, "host components: threads", BLUE),
    (20.5, 20, "logical queues", GREEN),
    (1, 18.5, "physical engines", ORANGE),
)
_THREADS = (
    (4, "decode", "a thread or more"),
    (28, "factorise", "most of the threads"),
    (52, "rebuild", "one thread"),
    (78, "write", "a thread or more"),
)
_QUEUES = ((24, "images"), (48, "factors"), (73, "images"))
_ENGINES = (
    (14, 7, "disk"),
    (23.5, 19, "CPU cores:\nall threads run here"),
    (47, 11, "copy engine\nin"),
    (60.5, 13, "multi-\nprocessors"),
    (76, 11, "copy engine\nout"),
    (91, 7, "disk"),
)


def components() -> Picture:
    """Draw the parts of the batched version: threads, the queues between them, what does the work.

    Solid arrows are the way of an image, dotted ones say which engine does the work.
    """
    pen = Pen(WIDTH, 5.0, (0, 100), (0, 60))
    for bottom, height, name, colour in _BANDS:
        pen.box(1, bottom, 98, height, colour, "none", alpha=0.1)
        pen.text(2, bottom + height - 2.6, name, ha="left", va="baseline", weight="bold")
    for left, name, threads in _THREADS:
        pen.rounded(left, 45, 16, 7.5, f"{name}\n{threads}")
    for middle, what in _QUEUES:
        _cells(pen, middle, 33.5, [""] * 4, 2.0)
        pen.text(middle, 31, f"{what}, bounded", SMALL, va="baseline")
    _cells(pen, 67, 24, ["copy in", "kernel", "copy out"], 7.5)
    pen.text(54.5, 25.4, "stream", ha="right")
    for left, width, name in _ENGINES:
        pen.rounded(left, 4, width, 8, name)
    pen.text(45.3, 15.2, "the GPU", SMALL, ha="left", va="baseline")
    pen.box(45, 2.3, 44, 12, "none", FAINT, 1)
    for (middle, _), left, right in zip(_QUEUES, (19, 42, 66.5), (33, 57, 83), strict=True):
        pen.arrow((left, 45), (middle - 4.3, 35))
        pen.arrow((middle + 4.3, 35), (right, 45))
    pen.arrow((60, 45), (60, 27.2), arrowstyle="<|-|>")
    pen.text(59.2, 28, "queue,\nwait", SMALL, ha="right", va="baseline")
    for start, end in (((59.5, 24), (53, 12.2)), ((67, 24), (67, 12.2)), ((74.5, 24), (81, 12.2))):
        pen.arrow(start, end, FAINT, linestyle=":")
    pen.arrow((17.5, 12), (17.5, 45))
    pen.arrow((92.7, 45), (94.5, 12.2))
    return pen.picture.described(
        "Four stages of threads, decode, factorise, rebuild and write, with bounded queues of "
        "images and "
        "factors between them. Rebuild feeds a stream of copy in, kernel, copy out; the GPU's "
        "two copy "
        "engines and its multiprocessors do that work, the CPU's cores and the disk the rest."
    )


def _cells(pen: Pen, middle: float, bottom: float, texts: list[str], width: float) -> None:
    """A queue: cells side by side."""
    left = middle - width * len(texts) / 2
    for place, text in enumerate(texts):
        pen.box(left + place * width, bottom, width, 3, PAPER, INK, 1)
        pen.text(left + (place + 0.5) * width, bottom + 1.4, text, SMALL)


# --- what the stages do when ----------------------------------------------------------------------


def stages(runs: Mapping[str, Run], until: float | None = None) -> Picture:
    """Draw toy pipelines on one axis of time: a row for each worker, a bar for each image.

    A pale bar behind a bar is a worker that stands with a finished image in hand, since the next
    queue is full.

    Parameters
    ----------
    runs : mapping of a title to a Run
    until : float, optional
        End of the axis [ms].
    """
    rows = {
        title: [(stage, worker) for stage in run.stages for worker in range(stage.workers)]
        for title, run in runs.items()
    }
    heights = {title: 0.27 * len(its) for title, its in rows.items()}
    picture, charts = below_each_other(heights, 6.4, 0.14, 0.83, head=0.08, foot=0.47, gap=0.08)
    last = until or max(run.milliseconds for run in runs.values())
    for axes, (title, run) in zip(charts, runs.items(), strict=True):
        _draw_stages(axes, run, rows[title], last)
    return picture.described(
        "Toy pipelines in time, a row for each worker, a bar for each image: "
        + listed(f"{title}, {run.milliseconds:.4g} ms" for title, run in runs.items())
        + "."
    )


def _draw_stages(axes: Axes, run: Run, rows: list, last: float) -> None:
    names = [
        stage.name if stage.workers == 1 else f"{stage.name} {worker + 1}" for stage, worker in rows
    ]
    places = {(stage.name, worker): len(rows) - 1 - row for row, (stage, worker) in enumerate(rows)}
    others = iter(OTHERS * len(run.stages))
    colours = {stage.name: STAGES.get(stage.name) or next(others) for stage in run.stages}
    pen = Pen.on(axes)
    for work in run.work:
        if work.start >= last:
            continue
        place = places[work.stage, work.worker]
        if work.left > work.end:
            pen.box(work.end, place - 0.36, work.left - work.end, 0.72, GRID, "none")
        long, colour = work.end - work.start, colours[work.stage]
        pen.box(work.start, place - 0.36, long, 0.72, colour, PAPER)
        if long > 0.025 * last and work.end <= last:
            middle = (work.start + work.end) / 2
            pen.text(middle, place - 0.03, str(work.image), FONT_SIZE - 2, PAPER, clip_on=True)
    axes.set(xlim=(0, last), ylim=(-0.6, len(rows) - 0.4))
    axes.set_yticks(range(len(rows)), names[::-1])
    style(axes, "x")
    axes.tick_params(axis="y", length=0)
