"""Drawings of lesson 10: lanes that exchange, a softmax that is rescaled."""

import math
from collections.abc import Sequence

import numpy as np

from course.plots.style import FONT_SIZE, SMALL, Pen, Picture, style
from warpsim.draw.palette import BLUE, FAINT, MARKERS, SKY, VERMILLION

UNUSED = "#EEEEEE"  # a lane whose number nobody will read again


def exchange(
    values: np.ndarray,
    partners: np.ndarray,
    wanted: np.ndarray | None = None,
    lane: int = 0,
    who: str = "lane",
) -> Picture:
    """Draw which lane adds whose number, step by step, and what each then holds.

    Parameters
    ----------
    values : ndarray, shape (steps + 1, lanes)
        What each lane holds, before the first step and after each.
    partners : ndarray of int, shape (steps, lanes)
        The lane whose number is added; its own where none is.
    wanted : ndarray of bool, shape (steps + 1, lanes), optional
        Whether a number is part of the result; others are drawn pale.
    lane : int
        The lane whose way to its result is drawn red.
    who : str
        What a column is.

    Raises
    ------
    ValueError
        When the shapes do not fit.
    """
    values, partners = np.asarray(values), np.asarray(partners)
    if values.ndim != 2 or partners.shape != (len(values) - 1, values.shape[1]):
        raise ValueError(
            f"values has the shape {values.shape}, partners {partners.shape}: for n steps values "
            "has n + 1 rows, partners n, with a column for each lane"
        )
    steps, lanes = partners.shape
    wanted = np.ones(values.shape, bool) if wanted is None else np.asarray(wanted)
    across, down = (-0.09 * lanes, lanes), (2 * steps + 1.1, -0.9)
    pen = Pen(8.2, 0.62 * (steps + 1) + 0.35, across, down)
    traced = _way_to(partners, lane)
    for step in range(steps + 1):
        pen.text(-0.1, 2 * step + 0.4, f"step {step}" if step else "start", SMALL, ha="right")
        for place in range(lanes):
            face = SKY if wanted[step, place] else UNUSED
            edge, line = (VERMILLION, 1.6) if place in traced[step] else (FAINT, 0.6)
            pen.box(place + 0.04, 2 * step, 0.92, 0.8, face, edge, line)
            number, size = f"{values[step, place]:g}", 6.3 if lanes > 16 else FONT_SIZE
            pen.text(place + 0.5, 2 * step + 0.42, number, size)
    for step in range(steps):
        for place in range(lanes):  # where its next number comes from: itself, and its partner
            red = place in traced[step + 1]
            colour, line, order = (VERMILLION, 1.2, 3) if red else (FAINT, 0.5, 1)
            for source in {place, int(partners[step, place])}:
                ends = (source + 0.5, place + 0.5), (2 * step + 0.8, 2 * step + 2)
                pen.axes.plot(*ends, color=colour, linewidth=line, zorder=order)
    for place in range(lanes):
        pen.text(place + 0.5, -0.45, str(place), 6.5, FAINT)
    pen.text(-0.1, -0.45, who, SMALL, FAINT, ha="right")
    return pen.picture.described(
        f"{lanes} {who}s in {steps} steps: in each, a {who} adds the number of another one. At "
        "the end "
        f"{who} {lane} holds {values[-1, lane]:g}; the way to it is drawn red."
    )


def _way_to(partners: np.ndarray, lane: int) -> list[set[int]]:
    """The lanes whose numbers are in a lane's result: those before each step, and at the end."""
    needed = [{lane}]
    for row in partners[::-1]:
        needed.append(needed[-1] | {int(row[place]) for place in needed[-1]})
    return needed[::-1]


def xor_partners(lanes: int = 32) -> np.ndarray:
    """The partners of a butterfly: in each step lane l meets lane l xor 16, then 8, 4, 2, 1."""
    place = np.arange(lanes)
    return np.array([place ^ (lanes >> step) for step in range(1, lanes.bit_length())])


def tree_partners(threads: int = 8) -> np.ndarray:
    """The partners of a tree: the first half adds the second half, then a quarter, ..."""
    place, rows, half = np.arange(threads), [], threads // 2
    while half:
        rows.append(np.where(place < half, place + half, place))
        half //= 2
    return np.array(rows)


def tree(threads: int = 8) -> Picture:
    """Draw the tree of a block of so many threads (a power of two), thread l starting with l."""
    partners = tree_partners(threads)
    values, wanted = [np.arange(threads)], [np.ones(threads, bool)]
    for row in partners:
        here = values[-1]
        moved = row != np.arange(threads)
        values.append(np.where(moved, here + here[row], here))
        wanted.append(moved)
    return exchange(np.array(values), partners, np.array(wanted), who="thread")


# --- softmax --------------------------------------------------------------------------------------


def running_softmax(numbers: Sequence[float]) -> Picture:
    """Draw the largest number so far, and the sum of exponentials relative to it.

    Where a larger number comes, the sum is first multiplied down: a red bar shows what is lost.

    Parameters
    ----------
    numbers : sequence of float, one at least
    """
    numbers = np.asarray(numbers, dtype=np.float64)
    place = np.arange(len(numbers))
    largest = np.maximum.accumulate(numbers)
    before, after, total, old = [], [], 0.0, -math.inf
    for number, new in zip(numbers, largest, strict=True):
        before.append(total)
        scaled = total * math.exp(old - new)
        total = scaled + math.exp(number - new)
        after.append((scaled, total))
        old = new
    scaled, totals = np.array(after).T
    picture = Picture(7.4, 3.5)
    upper, lower = picture.subplots(2, 1, sharex=True)
    picture.subplots_adjust(left=0.11, right=0.98, top=0.97, bottom=0.13, hspace=0.15)
    upper.plot(place, numbers, color=BLUE, marker=MARKERS[0], markersize=5, linestyle="none",
               label="number")  # fmt: skip
    upper.step(place, largest, where="post", color=VERMILLION, label="largest so far")
    lower.bar(place, scaled, 0.62, color=SKY, label="sum before, multiplied down")
    lower.bar(place, totals - scaled, 0.62, bottom=scaled, color=BLUE, label="added")
    drops = np.array(before) - scaled
    fell = drops > 1e-9
    lower.bar(place[fell], drops[fell], 0.62, bottom=totals[fell], facecolor="none",
              edgecolor=VERMILLION, linestyle="--", label="lost by multiplying")  # fmt: skip
    upper.set_ylabel("number")
    lower.set(ylabel="sum, relative\nto the largest", xlabel="numbers read, in this order")
    lower.set_xticks(place)
    for axes in (upper, lower):
        style(axes)
        axes.legend(loc="best")
    lower.set_ylim(top=1.35 * float((totals + np.maximum(drops, 0)).max()))
    return picture.described(
        f"{len(numbers)} numbers read one by one: the largest so far, at the end "
        f"{largest[-1]:g}, and the "
        f"sum of exponentials relative to it, {totals[-1]:.3g}; where a larger number comes, the "
        "sum is "
        "multiplied down."
    )
