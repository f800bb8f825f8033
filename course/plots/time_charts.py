"""Charts of times: bars, who waits for whom, samples, heat maps of block shapes, curves by size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from matplotlib import colormaps
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from course.plots.style import Pen, in_plain_numbers, plain, series, style, swatches
from warpsim.draw.palette import BLUE, FAINT, GREEN, GRID, INK, ORANGE, PAPER, SKY, VERMILLION
from warpsim.draw.style import FONT_SIZE, SMALL, Picture, listed

WIDTH = 6.4  # [inch]


def time_bars(milliseconds: Mapping[str, float], title: str = "") -> Picture:
    """Show times as bars from the slowest to the fastest, from 0, with the figures.

    Parameters
    ----------
    milliseconds : mapping of a program's name to its time [ms], each above 0
    title : str
        Says on which machine and what was measured.
    """
    ordered = sorted(milliseconds.items(), key=lambda item: item[1])
    names, times = [name for name, _ in ordered], [time for _, time in ordered]
    picture = Picture(6.4, 0.9 + 0.32 * len(names))
    axes = picture.subplots()
    height = picture.get_figheight()
    picture.subplots_adjust(left=0.22, right=0.95, bottom=0.45 / height, top=1 - 0.3 / height)
    axes.barh(names, times, color=BLUE, height=0.62)
    axes.set_xlim(0, 1.2 * max(times))
    for place, time in enumerate(times):
        axes.text(time + 0.012 * max(times), place, f"{time:.3g} ms", va="center")
    axes.set_xlabel("time [ms]")
    axes.set_title(title, loc="left")
    style(axes, "x")
    return picture.described(
        f"{title or 'Times'}: "
        + listed(f"{name} {time:.3g} ms" for name, time in ordered[::-1])
        + ", from the slowest to the fastest."
    )


class HasSpans(Protocol):
    """A toy whose host and GPU did something: `course_lessons.lesson03.toy_gpu.ToyGPU`.

    Attributes
    ----------
    spans : sequence
        Each with where and what it was, start and end [s].
    """

    @property
    def spans(self) -> Sequence[Any]: ...


SPANS = {"compile": VERMILLION, "launch": BLUE, "wait": GRID, "work": GREEN, "other": ORANGE}


def timeline(toy: HasSpans, until: float | None = None, marks: Mapping[str, float] = {}) -> Picture:
    """Draw what the host and the GPU of a toy did, on one axis of time.

    Parameters
    ----------
    toy : HasSpans
    until : float, optional
        End of the axis [ms]; without it everything is shown.
    marks : mapping of a name to a time [s]
        Vertical lines, such as where the clock was read.
    """
    picture = Picture(WIDTH, 1.9)
    axes = picture.add_axes((0.08, 0.36, 0.89, 0.42))
    rows = {"host": 1, "GPU": 0}
    last = until or max((span.end for span in toy.spans), default=1e-3) * 1e3
    for span in toy.spans:
        start, width = span.start * 1e3, (span.end - span.start) * 1e3
        Pen.on(axes).box(start, rows[span.where] - 0.3, width, 0.6, SPANS[span.what], PAPER)
    for number, (name, second) in enumerate(marks.items()):
        axes.axvline(second * 1e3, color="black", linewidth=1.0, linestyle=":")
        right = second * 1e3 > 0.8 * last
        look = {"ha": "right" if right else "left", "annotation_clip": False, "fontsize": SMALL}
        axes.annotate(name, (second * 1e3, 1.62 + 0.3 * (number % 2)), **look)
    axes.set(xlim=(0, last * 1.02), ylim=(-0.5, 1.5), xlabel="time [ms]")
    axes.set_yticks(list(rows.values()), list(rows))
    style(axes, "none")
    shown = {what: c for what, c in SPANS.items() if any(span.what == what for span in toy.spans)}
    look = {"loc": "lower right", "ncols": len(shown), "bbox_to_anchor": (0.98, -0.03)}
    picture.legend(handles=swatches(shown), **look)
    return picture.described(
        f"What host and GPU do in {last:.3g} ms: {listed(shown)}"
        + "".join(f"; {name} at {second * 1e3:.3g} ms" for name, second in marks.items())
        + "."
    )


def samples(milliseconds: Sequence[float], title: str = "") -> Picture:
    """Draw samples in the order in which they were taken, with quartiles, median and mean."""
    times = np.asarray(milliseconds, dtype=np.float64)
    if times.size < 5:
        raise ValueError(f"{times.size} samples; give 5 or more, or there are no quartiles")
    q1, median, q3 = np.percentile(times, (25, 50, 75))
    picture = Picture(WIDTH, 2.6)
    axes = picture.add_axes((0.1, 0.19, 0.6, 0.68))
    axes.axhspan(q1, q3, color=SKY, alpha=0.45, linewidth=0)
    axes.axhline(median, color=BLUE, linewidth=1.4)
    axes.axhline(times.mean(), color=VERMILLION, linewidth=1.4, linestyle="--")
    axes.plot(np.arange(1, times.size + 1), times, "o", markersize=2.6, color=INK)
    axes.set(xlabel="sample", ylabel="ms", yscale="log")
    axes.set_title(title, loc="left")
    style(axes)
    three = FuncFormatter(lambda value, _: f"{value:.3g}")
    axes.yaxis.set_major_formatter(three)
    axes.yaxis.set_minor_formatter(three if times.max() < 8 * times.min() else NullFormatter())
    axes.tick_params(axis="y", which="minor", labelsize=FONT_SIZE - 2)
    rows = (
        (f"mean {times.mean():.3g} ms", VERMILLION), (f"median {median:.3g} ms", BLUE),
        (f"middle half\n{q1:.3g} to {q3:.3g} ms", FAINT),
        (f"shortest {times.min():.3g} ms\nlongest {times.max():.3g} ms", INK),
    )  # fmt: skip
    for place, (text, colour) in enumerate(rows):
        picture.text(0.73, 0.8 - 0.17 * place, text, color=colour, va="top")
    return picture.described(
        f"{title or 'Samples'}: {times.size} in the order in which they were taken, median "
        f"{median:.3g} ms, "
        f"middle half {q1:.3g} to {q3:.3g} ms, mean {times.mean():.3g} ms."
    )


def heat_maps(maps: Mapping[str, tuple[Sequence[str], Sequence[str], np.ndarray]]) -> Picture:
    """Draw times as heat maps side by side; the colour is the time / the best of its column.

    Parameters
    ----------
    maps : mapping of a title to (names of the rows, names of the columns, times)
        Times [ms] of shape (rows, columns); NaN where nothing was measured.
    """
    tallest = max(len(rows) for rows, _, _ in maps.values())
    height = 1.0 + 0.3 * tallest
    picture = Picture(8.2 if len(maps) > 1 else WIDTH, height)
    share = 1 / len(maps)
    colours = colormaps["cividis_r"]
    for place, (title, (rows, columns, times)) in enumerate(maps.items()):
        times = np.asarray(times, dtype=np.float64)
        worse = times / np.nanmin(times, axis=0)
        axes = picture.add_axes(
            (share * place + 0.07, 0.5 / height, share - 0.09, 0.3 * len(rows) / height)
        )
        axes.imshow(worse, cmap=colours, vmin=1, vmax=2.5, aspect="auto")
        for (row, column), time in np.ndenumerate(times):
            if np.isfinite(time):
                ink = PAPER if worse[row, column] > 1.6 else INK
                Pen.on(axes).text(column, row, f"{time:.3g}", SMALL, ink)
        axes.set_xticks(range(len(columns)), columns, fontsize=SMALL)
        axes.set_yticks(range(len(rows)), rows, fontsize=SMALL)
        axes.set_title(title, loc="left")
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
    text = "rows: block; columns: size of the image; figures: ms; the darker, the more times "
    text += "slower than the best of its column"
    picture.text(0.01, 0.06 / height, text, fontsize=SMALL, color=FAINT)
    return picture.described(
        "Times in ms of blocks over sizes, as maps. "
        + listed(
            f"{title}: the best at {columns[-1]} is "
            f"{rows[int(np.nanargmin(np.asarray(times)[:, -1]))]}"
            for title, (rows, columns, times) in maps.items()
        )
        + "."
    )


def curves(
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    xlabel: str,
    ylabel: str,
    *,
    title: str = "",
    dashed: Sequence[str] = (),
    level: tuple[str, float] | None = None,
    height: float = 3.4,
) -> Picture:
    """Draw curves on two logarithmic axes, each with its name at its end.

    Parameters
    ----------
    lines : mapping of a name to (xs, ys)
    xlabel, ylabel, title : str
    dashed : sequence of str
        Names of lines that are drawn dashed.
    level : (name, y), optional
        A horizontal line.
    height : float
        Of the picture [inch].

    Raises
    ------
    ValueError
        For a value that has no logarithm.
    """
    for name, (xs, ys) in lines.items():
        if len(xs) != len(ys) or not len(xs) or min(*xs, *ys) <= 0:
            raise ValueError(f"{name!r}: give as many ys as xs, all above 0")
    picture = Picture(WIDTH, height)
    axes = picture.add_axes((0.1, 0.46 / height, 0.62, 1 - 0.78 / height))
    ends = []
    for place, (name, (xs, ys)) in enumerate(lines.items()):
        look = series(place) | {"linestyle": "--" if name in dashed else "-"}
        axes.plot(xs, ys, markersize=4.2, linewidth=1.6, **look)
        ends.append((ys[-1], xs[-1], name, look["color"]))
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    if level is not None:
        axes.axhline(level[1], color=INK, linewidth=1.2, linestyle=":")
        ends.append((level[1], max(xs[-1] for xs, _ in lines.values()), level[0], INK))
    places = sorted({x for xs, _ in lines.values() for x in xs})
    axes.xaxis.set_major_locator(FixedLocator(_not_touching(axes, places)))
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    if high / low < 300:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 30 else (1, 3)))
    in_plain_numbers(axes.xaxis, axes.yaxis, words=plain)
    axes.set_title(title, loc="left")
    style(axes)
    _names_at_the_ends(axes, ends)
    return picture.described(
        f"{title + ': ' if title else ''}{ylabel} over {xlabel}: "
        + listed(f"{name}, at the end {plain(ys[-1])}" for name, (_, ys) in lines.items())
        + (f"; a line at {plain(level[1])}, {level[0]}." if level else ".")
    )


def _not_touching(axes, places: list[float]) -> list[float]:
    """Every place, or every second, third ... one: so that their numbers do not touch."""
    digit = FONT_SIZE * 0.65 * axes.figure.dpi / 72
    middles = [axes.transData.transform((x, 1))[0] for x in places]
    half_widths = [digit * (1 + len(plain(x))) / 2 for x in places]
    for step in range(1, len(places)):
        kept = range(0, len(places), step)
        if all(
            middles[a] + half_widths[a] <= middles[b] - half_widths[b] for a, b in pairwise(kept)
        ):
            return places[::step]
    return places[:1]


def _names_at_the_ends(axes, ends) -> None:
    """Write the lines' names at the right, moved apart where they would touch."""
    to_pixels, to_data = axes.transData, axes.transData.inverted()
    line = FONT_SIZE * 1.35 * axes.figure.dpi / 72
    right = axes.get_window_extent().x1
    below = float("inf")
    for y, x, name, colour in sorted(ends, key=lambda end: -end[0]):
        at_x, at_y = to_pixels.transform((x, y))
        below = min(at_y, below - line * (1 + name.count("\n")))
        place = to_data.transform((max(at_x, right) + 10, below))
        line_to = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkB": 3}
        look = {"va": "center", "fontsize": SMALL, "color": colour, "annotation_clip": False}
        axes.annotate(name, (x, y), place, arrowprops=line_to | {"relpos": (0, 0.5)}, **look)
