"""Drawings of many images at once: the parts of the pipeline, and what its stages do when."""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from course.drawing import (
    BLUE,
    FAINT,
    FONT_SIZE,
    GREEN,
    GRID,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Picture,
    style,
)
from course.toy_pipeline import Run

WIDTH = 8.4  # [inch]
STAGES = {"decode": BLUE, "factorise": VERMILLION, "rebuild": ORANGE, "write": GREEN}
OTHERS = (PURPLE, SKY)
MOST_BARS = 12  # images that are numbered

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
    picture = Picture(WIDTH, 5.0)
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 100), ylim=(0, 60))
    axes.axis("off")
    for bottom, height, name, colour in _BANDS:
        band = Rectangle((1, bottom), 98, height, facecolor=colour, alpha=0.1, edgecolor="none")
        axes.add_patch(band)
        axes.text(2, bottom + height - 2.6, name, fontsize=FONT_SIZE, fontweight="bold", color=INK)
    for left, name, threads in _THREADS:
        _box(axes, left, 45, 16, 7.5, f"{name}\n{threads}")
    for middle, what in _QUEUES:
        _cells(axes, middle, 33.5, [""] * 4, 2.0)
        axes.text(middle, 31, f"{what}, bounded", ha="center", fontsize=FONT_SIZE - 1, color=INK)
    _cells(axes, 67, 24, ["copy in", "kernel", "copy out"], 7.5)
    axes.text(54.5, 25.4, "stream", ha="right", va="center", fontsize=FONT_SIZE, color=INK)
    for left, width, name in _ENGINES:
        _box(axes, left, 4, width, 8, name)
    axes.text(45.3, 15.2, "the GPU", fontsize=FONT_SIZE - 1, color=INK)
    axes.add_patch(Rectangle((45, 2.3), 44, 12, fill=False, edgecolor=FAINT, linewidth=1.0))
    for (middle, _), left, right in zip(_QUEUES, (19, 42, 66.5), (33, 57, 83), strict=True):
        _arrow(axes, (left, 45), (middle - 4.3, 35))
        _arrow(axes, (middle + 4.3, 35), (right, 45))
    _arrow(axes, (60, 45), (60, 27.2), style="<|-|>")
    axes.text(59.2, 28, "queue,\nwait", ha="right", fontsize=FONT_SIZE - 1, color=INK)
    for start, end in (((59.5, 24), (53, 12.2)), ((67, 24), (67, 12.2)), ((74.5, 24), (81, 12.2))):
        _arrow(axes, start, end, dotted=True)
    _arrow(axes, (17.5, 12), (17.5, 45))
    _arrow(axes, (92.7, 45), (94.5, 12.2))
    return picture


def _box(axes: Axes, left: float, bottom: float, width: float, height: float, text: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (left, bottom),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=1",
            facecolor="white",
            edgecolor=FAINT,
            linewidth=1.2,
        )  # fmt: skip
    )
    axes.text(
        left + width / 2, bottom + height / 2, text, ha="center", va="center",
        fontsize=FONT_SIZE, color=INK,
    )  # fmt: skip


def _cells(axes: Axes, middle: float, bottom: float, texts: list[str], width: float) -> None:
    """A queue: cells side by side."""
    left = middle - width * len(texts) / 2
    for place, text in enumerate(texts):
        cell = Rectangle(
            (left + place * width, bottom), width, 3, facecolor="white", edgecolor=INK, linewidth=1
        )
        axes.add_patch(cell)
        axes.text(
            left + (place + 0.5) * width, bottom + 1.4, text, ha="center", va="center",
            fontsize=FONT_SIZE - 1, color=INK,
        )  # fmt: skip


def _arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    style: str = "-|>",
    dotted: bool = False,
) -> None:
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle=style,
            mutation_scale=11,
            color=FAINT if dotted else INK,
            linewidth=1.3,
            shrinkA=0,
            shrinkB=0,
            linestyle=":" if dotted else "-",
        )  # fmt: skip
    )


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
    height = 0.55 + sum(0.36 + 0.27 * len(its) for its in rows.values())
    picture = Picture(6.4, height)
    last = until or max(run.milliseconds for run in runs.values())
    top = height - 0.08
    for number, (title, run) in enumerate(runs.items()):
        its = rows[title]
        tall = 0.27 * len(its)
        top -= 0.28 + tall
        axes = picture.add_axes((0.14, top / height, 0.83, tall / height))
        top -= 0.08
        _draw_stages(axes, run, its, last)
        axes.set_title(title, loc="left", fontsize=FONT_SIZE, color=INK, parse_math=False)
        if number + 1 < len(runs):
            axes.set_xticklabels([])
        else:
            axes.set_xlabel("time [ms]", fontsize=FONT_SIZE, color=INK)
    return picture


def _draw_stages(axes: Axes, run: Run, rows: list, last: float) -> None:
    names = [
        stage.name if stage.workers == 1 else f"{stage.name} {worker + 1}" for stage, worker in rows
    ]
    places = {(stage.name, worker): len(rows) - 1 - row for row, (stage, worker) in enumerate(rows)}
    others = iter(OTHERS * len(run.stages))
    colours = {stage.name: STAGES.get(stage.name) or next(others) for stage in run.stages}
    for work in run.work:
        if work.start >= last:
            continue
        place = places[work.stage, work.worker]
        if work.left > work.end:
            axes.add_patch(
                Rectangle((work.end, place - 0.36), work.left - work.end, 0.72, facecolor=GRID)
            )
        axes.add_patch(
            Rectangle(
                (work.start, place - 0.36),
                work.end - work.start,
                0.72,
                facecolor=colours[work.stage],
                edgecolor="white",
                linewidth=0.8,
            )  # fmt: skip
        )
        if work.end - work.start > 0.025 * last and work.end <= last:
            axes.text(
                (work.start + work.end) / 2, place - 0.03, str(work.image), ha="center",
                va="center", fontsize=FONT_SIZE - 2, color="white", clip_on=True,
            )  # fmt: skip
    axes.set(xlim=(0, last), ylim=(-0.6, len(rows) - 0.4))
    axes.set_yticks(range(len(rows)), names[::-1])
    style(axes)
    axes.grid(False, axis="y")
    axes.tick_params(axis="y", length=0)
