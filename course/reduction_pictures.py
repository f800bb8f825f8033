"""Drawings of lesson 12: lanes that exchange, a softmax that is rescaled, curves, transfers.

They are drawn with the palette and the fonts of `course.plots`.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Rectangle

from course.plots import (
    BLUE,
    FAINT,
    FONT_SIZE,
    GREEN,
    INK,
    MARKERS,
    ORANGE,
    SKY,
    VERMILLION,
    Picture,
    style,
)

UNUSED = "#EEEEEE"  # a lane whose number nobody will read again
MEMORY = "#DDDDDD"


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
    picture, axes = _blank(
        8.2, 0.62 * (steps + 1) + 0.35, (-0.09 * lanes, lanes), (2 * steps + 1.1, -0.9)
    )
    traced = _way_to(partners, lane)
    for step in range(steps + 1):
        label = "start" if step == 0 else f"step {step}"
        axes.text(-0.1, 2 * step + 0.4, label, fontsize=FONT_SIZE - 1, color=INK, ha="right",
                  va="center")  # fmt: skip
        for place in range(lanes):
            face = SKY if wanted[step, place] else UNUSED
            edge, width = (VERMILLION, 1.6) if place in traced[step] else (FAINT, 0.6)
            axes.add_patch(
                Rectangle((place + 0.04, 2 * step), 0.92, 0.8, facecolor=face, edgecolor=edge,
                          linewidth=width, alpha=1)
            )  # fmt: skip
            number = f"{values[step, place]:g}"
            size = 6.3 if lanes > 16 else FONT_SIZE
            axes.text(place + 0.5, 2 * step + 0.42, number, fontsize=size, color=INK, ha="center",
                      va="center")  # fmt: skip
    for step in range(steps):
        for place in range(lanes):
            _step_lines(axes, step, place, int(partners[step, place]), place in traced[step + 1])
    for place in range(lanes):
        axes.text(place + 0.5, -0.45, str(place), fontsize=6.5, color=FAINT, ha="center",
                  va="center")  # fmt: skip
    axes.text(-0.1, -0.45, who, fontsize=FONT_SIZE - 1, color=FAINT, ha="right", va="center")
    return picture


def _way_to(partners: np.ndarray, lane: int) -> list[set[int]]:
    """The lanes whose numbers are in a lane's result: those before each step, and at the end."""
    needed = [{lane}]
    for row in partners[::-1]:
        needed.append(needed[-1] | {int(row[place]) for place in needed[-1]})
    return needed[::-1]


def _step_lines(axes: Axes, step: int, place: int, partner: int, red: bool) -> None:
    """Where a lane's next number comes from: from itself, and from its partner."""
    colour, width, order = (VERMILLION, 1.2, 3) if red else (FAINT, 0.5, 1)
    for source in {place, partner}:
        axes.plot((source + 0.5, place + 0.5), (2 * step + 0.8, 2 * step + 2), color=colour,
                  linewidth=width, zorder=order)  # fmt: skip


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
        _legend(axes)
    lower.set_ylim(top=1.35 * float((totals + np.maximum(drops, 0)).max()))
    return picture


# --- activations ----------------------------------------------------------------------------------


def normal_below(x: np.ndarray) -> np.ndarray:
    """The probability that a standard normal number is below x, in float64."""
    return np.array([math.erfc(-value * math.sqrt(0.5)) / 2 for value in np.ravel(x)])


def gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    """GELU's approximation with tanh, in float64."""
    return x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2


def activation_curves(farthest: float = 5.0) -> Picture:
    """Draw GELU, Swish and ReLU, and beside them by how much GELU with tanh is off.

    Parameters
    ----------
    farthest : float
        Drawn from minus this to this.
    """
    x = np.linspace(-farthest, farthest, 501)
    exact = x * normal_below(x)
    picture = Picture(7.8, 3.0)
    left, right = picture.subplots(1, 2)
    picture.subplots_adjust(left=0.07, right=0.98, top=0.9, bottom=0.16, wspace=0.28)
    for name, y, colour, line in (
        ("ReLU", np.maximum(x, 0), FAINT, ":"),
        ("Swish", x / (1 + np.exp(-x)), ORANGE, "--"),
        ("GELU", exact, BLUE, "-"),
    ):
        left.plot(x, y, color=colour, linestyle=line, linewidth=1.7, label=name)
    left.set(xlabel="x", xlim=(-farthest, 3), ylim=(-0.5, 3))
    left.set_title("the functions", loc="left", fontsize=FONT_SIZE)
    right.plot(x, (gelu_by_tanh(x) - exact) * 1e4, color=VERMILLION, linewidth=1.7)
    right.set(xlabel="x", ylabel="difference [10⁻⁴]")
    right.set_title("GELU with tanh, less GELU", loc="left", fontsize=FONT_SIZE)
    for axes in (left, right):
        style(axes)
    _legend(left, "upper left")
    return picture


# --- transfers ------------------------------------------------------------------------------------


def transfers(chains: Mapping[str, Sequence[tuple[str, Sequence[str], str]]]) -> Picture:
    """Draw kernels one after the other, and every array that crosses to or from device memory.

    Parameters
    ----------
    chains : mapping of title -> sequence of (kernel, arrays in, array out)
        Each array that is read or written by a kernel is an arrow, and counts as one transfer.
    """
    if not chains:
        raise ValueError("chains is empty: give at least one title with its kernels")
    rows = len(chains)
    widest = max(len(steps) for steps in chains.values())
    width, unit = 3.2, 3.4
    picture, axes = _blank(
        min(8.2, 2.6 * widest + 1.4), 1.5 * rows + 0.1, (0, widest * unit + 0.2), (rows * 3, 0)
    )
    for row, (title, steps) in enumerate(chains.items()):
        top = 3 * row
        count = sum(len(reads) + 1 for _, reads, _ in steps)
        axes.text(0.1, top + 0.35, f"{title}: {count} transfers", fontsize=FONT_SIZE, color=INK,
                  va="center")  # fmt: skip
        axes.add_patch(
            Rectangle((0.1, top + 2.15), widest * unit - 0.1, 0.55, facecolor=MEMORY,
                      edgecolor=FAINT, linewidth=0.7)
        )  # fmt: skip
        axes.text(0.25, top + 2.43, "device memory", fontsize=FONT_SIZE - 2, color=INK, va="center")
        for place, (kernel, reads, written) in enumerate(steps):
            _kernel(axes, place * unit + 0.1, top + 0.7, width, kernel, [*reads], written)
    return picture


def _kernel(
    axes: Axes, left: float, top: float, width: float, name: str, reads: list[str], written: str
) -> None:
    axes.add_patch(
        Rectangle((left, top), width, 0.6, facecolor=SKY, edgecolor=INK, linewidth=0.8)
    )  # fmt: skip
    axes.text(left + width / 2, top + 0.32, name, fontsize=FONT_SIZE, color=INK, ha="center",
              va="center")  # fmt: skip
    names = [(array, True) for array in reads] + [(written, False)]
    for place, (array, reading) in enumerate(names):
        x = left + width * (place + 1) / (len(names) + 1)
        ends = ((x, top + 1.45), (x, top + 0.62))
        start, end = ends if reading else ends[::-1]
        axes.add_patch(
            FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=11, linewidth=1.5,
                            color=GREEN if reading else VERMILLION)
        )  # fmt: skip
        axes.text(x + 0.12, top + 1.02, array, fontsize=FONT_SIZE - 1, color=INK, va="center",
                  parse_math=False)  # fmt: skip


# --- parts ----------------------------------------------------------------------------------------


def _blank(
    width: float, height: float, across: tuple[float, float], down: tuple[float, float]
) -> tuple[Picture, Axes]:
    picture = Picture(width, height)
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=across, ylim=down)
    axes.axis("off")
    return picture, axes


def _legend(axes: Axes, place: str = "best") -> None:
    legend = axes.legend(loc=place, fontsize=FONT_SIZE - 1, frameon=False)
    for text in legend.get_texts():
        text.set_color(INK)
