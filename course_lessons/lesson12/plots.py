"""Charts of scaling: measured on so many workers, beside the laws of Amdahl and Gustafson.

>>> scaling_chart(scalings(find("cluster", metric=None)))      # of course.measure.recorded
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course.measure.recorded import Figure
from course.plots.style import Picture, headline, listed, overlaid, series, style
from course_lessons.lesson12.scaling import Scaling, scalings
from warpsim.draw.palette import FAINT, PALETTE

FURTHEST = 4  # workers to which the laws are drawn at least


def scaling_chart(measured: Sequence[Scaling], title: str = "") -> Picture:
    """Draw strong scaling on the left and weak scaling on the right.

    Marks are measured, with thin lines between them so that a kind is seen as one; all but the
    first kind's are hollow and larger, so that those below them are seen. Dashed lines are the laws
    for the serial part that was measured on one worker. A mark far below its line stands for what
    the law leaves out: costs that grow with the number of batches, and workers that wait for each
    other.

    Parameters
    ----------
    measured : sequence of Scaling
        Of `course_lessons.lesson12.scaling.scalings`; at most 7.
    title : str
        Without it the GPU.

    Raises
    ------
    ValueError
        When nothing was measured, or more kinds than there are colours.
    """
    if not 1 <= len(measured) <= len(PALETTE):
        raise ValueError(f"{len(measured)} kinds of batches to draw; give 1 to {len(PALETTE)}")
    furthest = max(FURTHEST, *(max(one.strong) for one in measured))
    row = 0.2
    height = 3.5 + row * (len(measured) + 1)
    picture = Picture(7.4, height)
    bottom, top = (row * (len(measured) + 1) + 0.55) / height, 1 - 0.55 / height
    strong, weak = picture.subplots(1, 2)
    picture.subplots_adjust(left=0.08, right=0.98, bottom=bottom, top=top, wspace=0.22)
    headline(picture, title or measured[0].gpu)
    workers = np.linspace(1, furthest, 200)
    strong.plot(workers, workers, color=FAINT, linewidth=1, linestyle=":")
    weak.axhline(100, color=FAINT, linewidth=1, linestyle=":")
    for place, one in enumerate(measured):
        marks = overlaid(place) | {"linewidth": 0.7}
        law = {"color": PALETTE[place], "linewidth": 1.4, "linestyle": "--"}
        strong.plot(sorted(one.strong), [one.speedup(n) for n in sorted(one.strong)], **marks)
        strong.plot(workers, [one.amdahl(n) for n in workers], **law)
        weak.plot(sorted(one.weak), [100 * one.efficiency(n) for n in sorted(one.weak)], **marks)
        weak.plot(workers, [100 * one.gustafson(n) / n for n in workers], **law)
    _axes(strong, furthest, "the same work: times as fast")
    _axes(weak, furthest, "as much work each: share of the ideal [%]")
    strong.set_ylim(0, furthest * 1.03)
    strong.yaxis.get_major_locator().set_params(integer=True)
    weak.set_ylim(0, 108)
    handles = [
        Line2D([], [], linewidth=0.7, markersize=6, **series(place),
               markerfacecolor="none" if place else PALETTE[place],
               label=f"{words(one.shape)}: {100 * one.serial:.1f}% of one worker's time is serial")
        for place, one in enumerate(measured)
    ]  # fmt: skip
    text = "the laws of Amdahl (left) and Gustafson (right) for that share; dotted: the ideal"
    handles.append(Line2D([], [], color=FAINT, linestyle="--", label=text))
    place = {"loc": "lower left", "bbox_to_anchor": (0.02, 0.0), "labelspacing": 0.35}
    picture.legend(handles=handles, handletextpad=0.6, **place)
    return picture.described(
        f"{title or measured[0].gpu}: strong and weak scaling beside the laws. "
        + listed(
            f"{words(one.shape)}: {one.speedup(max(one.strong)):.3g} times with {max(one.strong)}"
            for one in measured
        )
        + "."
    )


def _axes(axes: Axes, furthest: int, title: str) -> None:
    axes.set_title(title, loc="left")
    axes.set(xlabel="workers, a GPU each", xlim=(0.6, furthest + 0.3))
    axes.set_xticks([n for n in range(1, furthest + 1) if n <= 8 or n % 4 == 0])
    style(axes)


def words(shape: str) -> str:
    """A shape in words: "256x2048x2048x128" -> "batches of 256 images, 2048×2048, k = 128"."""
    images, rows, columns, k = shape.split("x")
    return f"batches of {int(images):,} images, {rows}×{columns}, k = {k}"


def charts(figures: Iterable[Figure]) -> dict[str, Picture]:
    """The chart of a bench's figures by the end of its file's name, if there was more than one."""
    measured = [one for one in scalings(figures) if max(one.strong) > 1]
    return {"scaling": scaling_chart(measured)} if measured else {}
