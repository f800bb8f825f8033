"""Pictures of lesson 15: views of one memory, streams, where a call's microseconds go."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from course.plots.style import FONT_SIZE, SMALL, TINY, Pen, Picture, listed, style
from course_lessons.lesson15.toy_streams import Streams
from warpsim.draw.palette import BLUE, FAINT, GREEN, INK, PALETTE, VERMILLION, pale

# --- views ----------------------------------------------------------------------------------------


def views(arrays: Mapping[str, np.ndarray], memory: np.ndarray) -> Picture:
    """Draw which elements of a memory an array has, and in which order it counts them.

    Parameters
    ----------
    arrays : mapping of title -> array
        Views of `memory`.
    memory : array
        Elements that lie side by side.
    """
    if not arrays:
        raise ValueError("arrays is empty: give at least one view with its title")
    first = memory.__array_interface__["data"][0]
    pen = Pen(7.4, 0.55 * len(arrays) + 0.35)
    cell, left = 5.3 / memory.size, 2.0
    for row, (title, array) in enumerate(arrays.items()):
        y = 0.1 + 0.55 * row
        pen.text(left - 0.12, y + 0.17, title, ha="right", size=SMALL)
        places = _places(array, first)
        for place in range(memory.size):
            number = places.get(place)
            pen.tint(left + place * cell, y, cell, 0.34, BLUE if number is not None else "")
            if number is not None:
                pen.text(left + (place + 0.5) * cell, y + 0.17, str(number), size=TINY)
    pen.text(left, 0.1 + 0.55 * len(arrays) + 0.08, "address →", size=SMALL, ha="left")
    return pen.picture.described(
        f"A memory of {memory.size} elements, drawn once for each of {listed(list(arrays))}: the "
        "elements that belong to it are coloured and numbered in the array's own order."
    )


def _places(array: np.ndarray, first: int) -> dict[int, int]:
    """For each place in memory the number of the element, counted row by row, that lies there."""
    start = (array.__array_interface__["data"][0] - first) // array.itemsize
    steps = [step // array.itemsize for step in array.strides]
    return {
        start + sum(i * step for i, step in zip(index, steps, strict=True)): number
        for number, index in enumerate(np.ndindex(array.shape))
    }


# --- streams --------------------------------------------------------------------------------------


def timelines(cases: Mapping[str, Streams]) -> Picture:
    """Draw what runs when on each stream; works that nothing orders are red.

    Parameters
    ----------
    cases : mapping of title -> Streams
    """
    if not cases:
        raise ValueError("cases is empty: give at least one title with its streams")
    latest = max((span.end for toy in cases.values() for span in toy.spans), default=1.0)
    pen = Pen(7.4, sum(0.42 * len(_lanes(toy)) + 0.5 for toy in cases.values()) + 0.05)
    top = 0.28
    scale = 5.6 / latest
    for title, toy in cases.items():
        pen.text(0.1, top - 0.1, title, ha="left", weight="bold", size=SMALL)
        raced = {name for one, other, _ in toy.races for name in (one, other)}
        for stream in _lanes(toy):
            pen.text(1.5, top + 0.2, stream, ha="right", size=SMALL)
            for span in (span for span in toy.spans if span.stream == stream):
                look = {"edgecolor": VERMILLION, "linewidth": 1.8} if span.name in raced else {}
                colour = VERMILLION if span.name in raced else GREEN
                left, width = 1.6 + span.start * scale, (span.end - span.start) * scale
                pen.tint(left, top + 0.04, width, 0.32, colour, **look)
                pen.text(left + width / 2, top + 0.2, span.name, size=TINY)
            top += 0.42
        top += 0.5
    unordered = [title for title, toy in cases.items() if toy.races]
    return pen.picture.described(
        f"What runs when on the streams, for {listed(list(cases))}. "
        + (
            f"Red works touch the same array and are in no order: {listed(unordered)}."
            if unordered
            else "All works that touch the same array are ordered."
        )
    )


def _lanes(toy: Streams) -> list[str]:
    return list(dict.fromkeys(span.stream for span in toy.spans))


# --- where microseconds go ------------------------------------------------------------------------


def shares(calls: Mapping[str, Mapping[str, float]]) -> Picture:
    """Draw what parts of calls cost the host, as bars of pieces.

    Parameters
    ----------
    calls : mapping of call -> mapping of part -> microseconds
    """
    if not calls:
        raise ValueError("calls is empty: give at least one call with its parts")
    parts = list(dict.fromkeys(part for pieces in calls.values() for part in pieces))
    colours = dict(zip(parts, PALETTE, strict=False))
    picture = Picture(7.4, 0.5 * len(calls) + 1.1)
    axes = picture.subplots()
    picture.subplots_adjust(left=0.24, right=0.97, top=0.97, bottom=0.62 / picture.get_figheight())
    for row, pieces in enumerate(calls.values()):
        left = 0.0
        for part, cost in pieces.items():
            axes.barh(
                row, cost, 0.62, left=left, color=pale(colours[part]), edgecolor=colours[part],
                label=f"{part}: {cost:.1f}" if row == _first(calls, part) else None,
            )  # fmt: skip
            if cost > 0.04 * max(sum(p.values()) for p in calls.values()):
                axes.text(left + cost / 2, row, f"{cost:.1f}", ha="center", va="center",
                          fontsize=FONT_SIZE - 2, color=INK)  # fmt: skip
            left += cost
        axes.text(left, row, f"  {left:.1f}", va="center", fontsize=FONT_SIZE - 1, color=FAINT)
    axes.set_yticks(range(len(calls)), list(calls))
    axes.invert_yaxis()
    axes.set_xlabel("host time of a call [µs]")
    style(axes)
    axes.legend(loc="lower right", fontsize=FONT_SIZE - 2)
    return picture.described(
        "Host microseconds of a call, by part: "
        + "; ".join(f"{call} {sum(pieces.values()):.1f}" for call, pieces in calls.items())
        + "."
    )


def _first(calls: Mapping[str, Mapping[str, float]], part: str) -> int:
    return next(row for row, pieces in enumerate(calls.values()) if part in pieces)
