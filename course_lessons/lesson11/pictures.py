"""Drawings of lesson 11: a rotation, who meets whom, how cosines fade, what a sketch costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from course.plots.style import FONT_SIZE, TINY, Pen, Picture, listed, series, style
from warpsim.draw.palette import BLUE, FAINT, GRID, INK, PALETTE, PAPER, VERMILLION

LEAST = 1e-16  # cosines below are drawn there
MINUS = "\N{MINUS SIGN}"


# --- one rotation ---------------------------------------------------------------------------------


def rotation(x: Sequence[float], y: Sequence[float], angle: float) -> Picture:
    """Draw two rows of two numbers before and after a rotation, and what every angle would give.

    Parameters
    ----------
    x, y : two numbers each
    angle : float
        Of the rotation [radians]: rows c x - s y and s x + c y.
    """
    x, y = np.asarray(x, float), np.asarray(y, float)

    def turned(angle):
        c, s = math.cos(angle), math.sin(angle)
        return c * x - s * y, s * x + c * y

    picture = Picture(7.6, 2.9)
    reach = 1.15 * max(np.linalg.norm(row) for row in (x, y, *turned(angle)))
    for place, (title, rows) in enumerate((("before", (x, y)), ("after", turned(angle)))):
        axes = picture.add_axes((0.02 + 0.27 * place, 0.08, 0.25, 0.8))
        pen = Pen.on(axes)
        for name, row, colour in zip(("x", "y"), rows, (BLUE, VERMILLION), strict=True):
            pen.arrow((0, 0), row, colour, 2, 10, shrinkA=2, shrinkB=2, zorder=3)
            tip = row * (1 + 0.12 * reach / np.linalg.norm(row))
            pen.text(*tip, name + "\N{PRIME}" * place, color=colour, weight="bold")
        axes.plot(0, 0, ".", color=INK)
        axes.set(xlim=(-0.5 * reach, reach), ylim=(-0.6 * reach, 0.9 * reach), aspect="equal")
        axes.set_title(title)
        axes.set_axis_off()
        product = rows[0] @ rows[1]
        shown = "0" if abs(product) < 1e-9 else f"{product:.2f}".replace("-", MINUS)
        names = "x\N{PRIME} y\N{PRIME}" if place else "x y"
        pen.text(0.25 * reach, -0.5 * reach, f"{names} = {shown}")
    axes = picture.add_axes((0.66, 0.17, 0.32, 0.71))
    degrees = np.linspace(-90, 90, 181)
    products = [np.dot(*turned(math.radians(each))) for each in degrees]
    axes.plot(degrees, products, color=INK, linewidth=1.5)
    axes.axhline(0, color=FAINT, linewidth=0.8)
    zeros = [math.degrees(angle) + turn for turn in (-90, 0, 90)]
    for zero in zeros:
        if -90 <= zero <= 90:
            small = abs(zero) <= 45
            axes.plot(zero, 0, "o", color=VERMILLION if small else PAPER, markersize=6,
                      markeredgecolor=VERMILLION, zorder=3)  # fmt: skip
    axes.axvspan(-45, 45, color=GRID, alpha=0.5, linewidth=0)
    axes.set(xlabel="angle [degrees]", ylabel="product of the two rows", xlim=(-90, 90))
    axes.set_xticks([-90, -45, 0, 45, 90])
    style(axes)
    return picture.described(
        f"Two rows as arrows before and after a rotation by {math.degrees(angle):.0f} degrees: "
        "their product "
        f"goes from {x @ y:.2f} to {abs(np.dot(*turned(angle))):.2f}. Over all angles the "
        "product is a "
        "wave that is 0 twice in 180 degrees."
    )


# --- cosines --------------------------------------------------------------------------------------


def convergence(curves: Mapping[str, Sequence[float]], goal: float | None = None) -> Picture:
    """Draw the largest cosine against sweeps.

    Parameters
    ----------
    curves : mapping of a name to the largest |cos| before the first sweep and after each
    goal : float, optional
        Drawn as a line.
    """
    picture = Picture(7.4, 3.3)
    axes = picture.add_axes((0.1, 0.15, 0.6, 0.8))
    for place, (name, values) in enumerate(curves.items()):
        shown = np.maximum(values, LEAST)
        look = series(place) | {"markersize": 4.5, "linewidth": 1.6}
        axes.plot(range(len(shown)), shown, label=name, **look)
    if goal is not None:
        axes.axhline(goal, color=INK, linewidth=1.1, linestyle=":", label=f"goal, {goal:.0e}")
    axes.set(yscale="log", xlabel="sweeps", ylabel="largest |cos| of two rows", ylim=(LEAST / 3, 4))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(LogLocator(base=10, numticks=6))
    axes.yaxis.set_minor_locator(NullLocator())
    style(axes)
    axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), fontsize=FONT_SIZE - 0.5)
    return picture.described(
        "The largest cosine of two rows, falling from sweep to sweep: "
        + listed(
            f"{name}, {len(values) - 1} sweeps to {max(values[-1], LEAST):.0e}"
            for name, values in curves.items()
        )
        + "."
    )


def fading(matrices: Mapping[str, np.ndarray]) -> Picture:
    """Draw |cos| of all pairs of rows as heat maps, one a title.

    Parameters
    ----------
    matrices : mapping of a title to ndarray, shape (n, n)
    """
    count = len(matrices)
    picture = Picture(7.8, 0.62 + 6.8 / count)
    width = 0.88 / count
    shown = None
    for place, (title, values) in enumerate(matrices.items()):
        axes = picture.add_axes((0.01 + width * place, 0.03, 0.95 * width, 0.8))
        clipped = np.clip(values, 1e-8, 1)
        np.fill_diagonal(clipped, 1e-8)
        shown = axes.imshow(clipped, cmap="cividis", norm=LogNorm(1e-8, 1))
        axes.set_title(title)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(NullLocator())
    bar = picture.colorbar(shown, cax=picture.add_axes((0.905, 0.1, 0.014, 0.66)))
    bar.set_ticks([1, 1e-4, 1e-8])
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.ax.tick_params(labelsize=TINY)
    return picture.described(
        f"Cosines of all pairs of rows as maps from 1 down to 1e-8, for {listed(matrices)}: they "
        "fade."
    )


# --- who meets whom -------------------------------------------------------------------------------


def tournament(rounds: Sequence[Sequence[tuple[int, int]]], drawn: int = 4) -> Picture:
    """Draw the first rounds of a tournament as pairs on a ring, and all rounds as a table.

    Parameters
    ----------
    rounds : sequence of rounds, each of pairs (i, j)
        Row n - 1 stands in the middle of the ring.
    drawn : int
        Rounds that are drawn as rings.
    """
    n = 2 * len(rounds[0])
    picture = Picture(8.2, 2.25)
    angles = math.pi / 2 - 2 * math.pi * np.arange(n - 1) / (n - 1)
    spots = [*zip(np.cos(angles), np.sin(angles), strict=True), (0.0, 0.0)]
    for turn in range(drawn):
        axes = picture.add_axes((0.005 + 0.178 * turn, 0.02, 0.172, 0.8))
        for pair, (i, j) in enumerate(rounds[turn]):
            axes.plot(*zip(spots[i], spots[j], strict=True), color=PALETTE[pair % len(PALETTE)],
                      linewidth=2.5, zorder=1)  # fmt: skip
        for row, spot in enumerate(spots):
            axes.plot(*spot, "o", color=PAPER, markeredgecolor=INK, markersize=15, zorder=2)
            Pen.on(axes).text(*spot, str(row), TINY, zorder=3)
        axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
        axes.set_title(f"round {turn}")
        axes.set_axis_off()
    axes = picture.add_axes((0.765, 0.02, 0.225, 0.78))
    for turn, pairs in enumerate(rounds):
        for i, j in pairs:
            for row, column in ((i, j), (j, i)):
                Pen.on(axes).text(column, row, str(turn), TINY, INK if row < column else FAINT)
    for row in range(n):
        axes.fill_between((row - 0.5, row + 0.5), row - 0.5, row + 0.5, color=GRID)
    axes.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal")
    axes.set_xticks(range(n))
    axes.set_yticks(range(n))
    axes.tick_params(length=0, labelsize=TINY, colors=FAINT, labeltop=True, labelbottom=False)
    axes.set_title("round in which rows meet", fontsize=TINY, pad=5)
    for side in axes.spines.values():
        side.set_color(FAINT)
    return picture.described(
        f"A tournament of {n} rows: in each of {len(rounds)} rounds all meet in pairs, and each "
        "pair meets "
        f"once. {drawn} rounds are drawn as pairs on a ring, all of them as a table."
    )


# --- a sketch -------------------------------------------------------------------------------------


def sketch_errors(errors: Mapping[str, Sequence[float]]) -> Picture:
    """Draw errors of sketches as multiples of the least possible one, against power steps.

    Parameters
    ----------
    errors : mapping of a name to the ratio with 0, 1, 2, ... power steps
    """
    picture = Picture(6.8, 2.7)
    axes = picture.add_axes((0.1, 0.17, 0.87, 0.76))
    width = 0.8 / len(errors)
    for place, (name, ratios) in enumerate(errors.items()):
        middle = np.arange(len(ratios)) + (place - (len(errors) - 1) / 2) * width
        beyond = 100 * (np.asarray(ratios) - 1)
        axes.bar(middle, beyond, 0.92 * width, color=PALETTE[place], label=name)
        for x, percent in zip(middle, beyond, strict=True):
            above = {"xytext": (0, 2), "textcoords": "offset points", "ha": "center"}
            axes.annotate(f"{percent:.1f}", (x, percent), fontsize=TINY, **above)
    axes.set(xlabel="power steps", ylabel="error above the best one [%]")
    axes.set_xticks(range(len(ratios)))
    style(axes, "y")
    axes.legend(fontsize=FONT_SIZE)
    return picture.described(
        "By how many percent a sketch's error is above the least possible one, with 0, 1, 2, ... "
        "power "
        "steps: "
        + listed(
            f"{name} {', '.join(f'{100 * (ratio - 1):.1f}' for ratio in ratios)}"
            for name, ratios in errors.items()
        )
        + "."
    )
