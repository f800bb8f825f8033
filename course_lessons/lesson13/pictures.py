"""Drawings of lesson 13: curves of activations, transfers between kernels."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from course.plots.style import FONT_SIZE, SMALL, Pen, Picture, listed, style
from warpsim.draw.palette import BLUE, FAINT, GREEN, INK, ORANGE, SKY, VERMILLION

MEMORY = "#DDDDDD"


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
    left.set_title("the functions", loc="left")
    right.plot(x, (gelu_by_tanh(x) - exact) * 1e4, color=VERMILLION, linewidth=1.7)
    right.set(xlabel="x", ylabel="difference [10⁻⁴]")
    right.set_title("GELU with tanh, less GELU", loc="left")
    for axes in (left, right):
        style(axes)
    left.legend(loc="upper left")
    return picture.described(
        "ReLU, Swish and GELU over x; beside them GELU with tanh less GELU, at most "
        f"{np.abs(gelu_by_tanh(x) - exact).max() * 1e4:.1f} times ten to the minus 4."
    )


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
    across, down = (0, widest * unit + 0.2), (rows * 3, 0)
    pen = Pen(min(8.2, 2.6 * widest + 1.4), 1.5 * rows + 0.1, across, down)
    for row, (title, steps) in enumerate(chains.items()):
        top = 3 * row
        count = sum(len(reads) + 1 for _, reads, _ in steps)
        pen.text(0.1, top + 0.35, f"{title}: {count} transfers", ha="left")
        pen.box(0.1, top + 2.15, widest * unit - 0.1, 0.55, MEMORY, line=0.7)
        pen.text(0.25, top + 2.43, "device memory", FONT_SIZE - 2, ha="left")
        for place, (kernel, reads, written) in enumerate(steps):
            _kernel(pen, place * unit + 0.1, top + 0.7, width, kernel, [*reads], written)
    return pen.picture.described(
        "Kernels, and the arrays that they read from device memory and write there: "
        + listed(
            f"{title}, {len(steps)} kernels, {sum(len(reads) + 1 for _, reads, _ in steps)} "
            "transfers"
            for title, steps in chains.items()
        )
        + "."
    )


def _kernel(
    pen: Pen, left: float, top: float, width: float, name: str, reads: list[str], written: str
) -> None:
    pen.box(left, top, width, 0.6, SKY, INK)
    pen.text(left + width / 2, top + 0.32, name)
    names = [(array, True) for array in reads] + [(written, False)]
    for place, (array, reading) in enumerate(names):
        x = left + width * (place + 1) / (len(names) + 1)
        ends, colour = ((x, top + 1.45), (x, top + 0.62)), GREEN
        if not reading:
            ends, colour = ends[::-1], VERMILLION
        pen.arrow(*ends, colour, 1.5, shrinkA=2, shrinkB=2)
        pen.text(x + 0.12, top + 1.02, array, SMALL, ha="left")
