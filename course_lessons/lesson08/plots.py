"""Gantt charts: what a GPU's engines, or its streams, did when; measured or modelled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course.measure.timeline import Span
from course.plots.style import (
    FONT_SIZE,
    SMALL,
    Pen,
    Picture,
    below_each_other,
    listed,
    style,
    swatches,
)
from course.plots.time_charts import curves
from warpsim.draw.palette import (
    BLACK,
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

__all__ = ["curves", "gantt", "gantts"]

WIDTH = 6.4  # [inch]
ROW = 0.3
BAR = 0.72  # of a row's height
MOST_ROWS = 16  # more streams than that are drawn thin, and only some are named
THIN = 0.1  # [inch]
LANES = ("host", "copy in", "copy", "compute", "copy out")  # their order from above
COLOURS = {"copy in": BLUE, "kernel": ORANGE, "copy out": GREEN}
OTHERS = (PURPLE, SKY, VERMILLION, FAINT)  # for work that is none of these three
LETTER = 0.075  # [inch], of a figure in a bar
BEHIND = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.5}  # a title
NARROW = 0.025  # [inch]: a white edge would hide the bar


def gantt(
    spans: Iterable[Span],
    title: str = "",
    rows: str = "lane",
    *,
    marks: Mapping[str, float] | None = None,
    until: float | None = None,
) -> Picture:
    """Draw a timeline: a row for each engine or stream, a bar for each piece of work.

    Parameters
    ----------
    spans : iterable of Span
        Measured or modelled.
    title : str
        Says of which machine, and whether it was measured.
    rows : "lane" or "stream"
        What has a row of its own.
    marks : mapping of a name to a time [ms], optional
        Vertical lines, such as the bound.
    until : float, optional
        End of the axis [ms]; without it everything is shown.

    Raises
    ------
    ValueError
        When there is no span, or `rows` is neither.
    """
    return gantts({title: spans}, rows, marks=marks, until=until)


def gantts(
    charts: Mapping[str, Iterable[Span]],
    rows: str = "lane",
    *,
    marks: Mapping[str, float] | None = None,
    until: float | None = None,
) -> Picture:
    """Draw several timelines below each other on one axis of time.

    Parameters
    ----------
    charts : mapping of a title to its spans
    rows, marks, until
        As for `gantt`.

    Raises
    ------
    ValueError
        When there is no chart, one has no span, or `rows` is neither "lane" nor "stream".
    """
    if rows not in ("lane", "stream"):
        raise ValueError(f'rows is {rows!r}; give "lane" or "stream"')
    drawn = {title: tuple(spans) for title, spans in charts.items()}
    if not drawn or not all(drawn.values()):
        empty = [title or "the chart" for title, spans in drawn.items() if not spans]
        raise ValueError(f"nothing to draw in {', '.join(empty) or 'no chart'}; give spans")
    marks = dict(marks or {})
    last = until or max(span.end for spans in drawn.values() for span in spans)
    names = {title: _names(spans, rows) for title, spans in drawn.items()}
    heights = {title: _row_height(its) * len(its) for title, its in names.items()}
    left, width = 0.125, 0.855
    picture, every = below_each_other(
        heights, WIDTH, left, width, head=0.22 if marks else 0.05, foot=0.7,
        above=lambda title: 0.3 if title else 0.1,
    )  # fmt: skip
    scale = WIDTH * width / (1.02 * last)  # [inch/ms]
    for axes, (title, spans) in zip(every, drawn.items(), strict=True):
        _draw(axes, spans, names[title], rows, scale)
        axes.set(xlim=(0, 1.02 * last), ylim=(len(names[title]) - 0.5, -0.5))
        style(axes, "x")
        axes.tick_params(axis="y", length=0)
        axes.set_title(title, loc="left", bbox=BEHIND)
        for milliseconds in marks.values():
            axes.axvline(milliseconds, color=BLACK, linewidth=1.1, linestyle=":")
    for name, milliseconds in marks.items():
        x, side = left + width * milliseconds / (1.02 * last), "left"
        if milliseconds > 0.6 * last:
            side = "right"
        top = 1 - 0.06 / picture.get_figheight()
        picture.text(x, top, f" {name} ", va="top", ha=side, fontsize=SMALL)
        # up to its name, behind the title
        look = {"color": BLACK, "linewidth": 1.1, "linestyle": ":", "zorder": -1}
        picture.add_artist(Line2D([x, x], [every[0].get_position().y1, top], **look))
    _legend(picture, [span.name for spans in drawn.values() for span in spans])
    return picture.described(
        listed(
            f"{title or 'A timeline'}: {max(span.end for span in spans):.4g} ms in rows for "
            f"{'the streams ' if rows == 'stream' else ''}{listed(map(str, names[title]))}"
            for title, spans in drawn.items()
        )
        + "".join(f"; {name} at {place:.4g} ms" for name, place in marks.items())
        + "."
    )


def _names(spans: Sequence[Span], rows: str) -> list[str] | list[int]:
    """The rows of a chart, from above."""
    if rows == "stream":
        return sorted({span.stream for span in spans})
    found = list(dict.fromkeys(span.lane for span in spans))
    return sorted(found, key=lambda lane: LANES.index(lane) if lane in LANES else len(LANES))


def _row_height(names: Sequence[object]) -> float:
    return ROW if len(names) <= MOST_ROWS else THIN


def _draw(
    axes: Axes, spans: Sequence[Span], names: Sequence[str | int], rows: str, scale: float
) -> None:
    place = {name: row for row, name in enumerate(names)}
    pen, thin = Pen.on(axes), _row_height(names) == THIN
    for span in spans:
        row = place[span.lane if rows == "lane" else span.stream]
        wide, colour = span.milliseconds * scale, _colour(span.name)  # [inch], a colour
        edge = PAPER if wide > NARROW else colour
        pen.box(span.start, row - BAR / 2, span.milliseconds, BAR, colour, edge, 0.6)
        label = str(span.image) if span.image >= 0 else ""
        if label and not thin and wide > LETTER * len(label) + 0.03:
            middle, ink = (
                span.start + span.milliseconds / 2,
                PAPER if span.name != "kernel" else INK,
            )
            pen.text(middle, row, label, FONT_SIZE - 2, ink, va="center_baseline", clip_on=True)
    every = max(1, len(names) // 8) if thin else 1
    shown = range(0, len(names), every)
    labels = [f"stream {names[row]}" if rows == "stream" else str(names[row]) for row in shown]
    axes.set_yticks(list(shown), labels)


def _colour(name: str) -> str:
    if name in COLOURS:
        return COLOURS[name]
    return GRID if name == "wait" else OTHERS[sum(map(ord, name)) % len(OTHERS)]


def _legend(picture: Picture, names: Iterable[str]) -> None:
    found = set(names)
    ordered = [name for name in COLOURS if name in found] + sorted(found - set(COLOURS))
    handles = swatches({name: _colour(name) for name in ordered})
    place = {"bbox_to_anchor": (0.99, -0.01), "borderaxespad": 0.2}
    picture.legend(handles=handles, loc="lower right", ncols=len(handles), **place)
