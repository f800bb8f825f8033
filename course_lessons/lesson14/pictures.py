"""Drawings of lesson 14: spectra, scores, bytes of each launch, who does what in a fused kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from course.plots.style import SMALL, TINY, Pen, Picture, listed, style, swatches
from course_models.spectral.config import FusedConfig
from course_models.spectral.data import BANDS, FRAMES
from warpsim.draw.palette import (
    BLUE,
    FAINT,
    GREEN,
    MARKERS,
    ORANGE,
    PALETTE,
    PAPER,
    VERMILLION,
    pale,
)

LOUDNESS = (-1.5, 3.0)  # darkest and brightest, of spectra whose loudness is 0 on average
FURTHEST = 2.0  # a difference with full colour
PARTS = {"read of the batch": BLUE, "weights read": ORANGE, "written": GREEN}


# --- spectra and scores --------------------------------------------------------------------------


def rebuilt_spectra(spectra: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Picture:
    """Draw spectra, what was rebuilt of them, and how far that is off.

    Parameters
    ----------
    spectra : mapping of a name to (given, rebuilt)
        Arrays of 320 numbers each.
    """
    heads = ("given", "rebuilt", "given \N{MINUS SIGN} rebuilt")
    high = 0.68 + 0.68 * len(spectra)
    picture = Picture(7.6, high)
    for row, (name, (given, rebuilt)) in enumerate(spectra.items()):
        for column, values in enumerate((given, rebuilt, np.subtract(given, rebuilt))):
            low = 1 - (0.3 + 0.68 * (row + 1)) / high
            axes = picture.add_axes((0.1 + 0.302 * column, low + 0.14 / high, 0.285, 0.5 / high))
            shown = np.asarray(values).reshape(FRAMES, BANDS)
            of_difference = column == len(heads) - 1
            low_end, high_end = (-FURTHEST, FURTHEST) if of_difference else LOUDNESS
            colours = "PuOr_r" if of_difference else "cividis"
            axes.imshow(shown, cmap=colours, vmin=low_end, vmax=high_end, aspect="auto")
            axes.tick_params(length=0, labelsize=TINY, labelleft=False)
            axes.yaxis.set_major_locator(NullLocator())
            if row < len(spectra) - 1:
                axes.xaxis.set_major_locator(NullLocator())
            if row == 0:
                axes.set_title(heads[column])
            if column == 0:
                axes.set_ylabel(name, rotation=0, ha="right", va="center")
    across = f"across: {BANDS} bands; down: {FRAMES} frames"
    notes = ((0.1, f"{across}; bright: loud"), (0.704, "orange: more than rebuilt, violet: less"))
    for left, note in notes:
        picture.text(left, 0.05 / high, note, va="bottom", fontsize=TINY, color=FAINT)
    return picture.described(
        "Spectra as maps, given, rebuilt, and their difference: "
        + listed(
            f"{name}, at most {np.abs(np.subtract(given, rebuilt)).max():.1f} off"
            for name, (given, rebuilt) in spectra.items()
        )
        + "."
    )


def scores(healthy: np.ndarray, faulty: Mapping[str, np.ndarray]) -> Picture:
    """Draw scores as histograms, and the ROC curve of each fault.

    A point of the curve belongs to a limit: the share of faulty spectra above it, over that of
    healthy ones. Drawn is its left part, where few healthy ones are called faulty.

    Parameters
    ----------
    healthy : ndarray
        Scores of spectra without a fault, all above 0.
    faulty : mapping of a fault to ndarray
        Scores of spectra with it.
    """
    picture = Picture(8.2, 2.9)
    left = picture.add_axes((0.07, 0.17, 0.5, 0.73))
    right = picture.add_axes((0.66, 0.17, 0.32, 0.73))
    everything = np.concatenate([healthy, *faulty.values()])
    edges = np.geomspace(everything.min(), everything.max(), 45)
    left.hist(healthy, edges, color=pale(FAINT, 0.35), label="healthy")
    limits = np.append(np.unique(everything)[::-1], -np.inf)
    of_healthy = [np.mean(healthy > limit) for limit in limits]
    for place, (name, values) in enumerate(faulty.items()):
        colour = PALETTE[place]
        left.hist(values, edges, histtype="step", color=colour, linewidth=1.5, label=name)
        found = [np.mean(values > limit) for limit in limits]
        look = {"marker": MARKERS[place], "markevery": (place * 7, 60), "markersize": 4}
        right.plot(of_healthy, found, color=colour, linewidth=1.5, **look)
    left.set(xscale="log", xlabel="score (mean squared error)", ylabel="spectra")
    left.set_title("scores", loc="left")
    right.set_title("ROC curve, its left part", loc="left")
    left.set_xlim(edges[0], edges[-1])
    left.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    left.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    left.xaxis.set_minor_locator(NullLocator())
    left.legend()
    right.plot((0, 1), (0, 1), color=FAINT, linestyle=":", linewidth=1)
    right.text(0.22, 0.26, "chance", color=FAINT, fontsize=SMALL, ha="right")
    right.set(xlabel="healthy ones called faulty", ylabel="faulty ones found")
    right.set(xlim=(-0.005, 0.3), ylim=(-0.02, 1.02))
    for axes in (left, right):
        style(axes)
    return picture.described(
        f"Histograms of scores: healthy spectra around {np.median(healthy):.2g}, "
        + listed(f"{name} around {np.median(values):.2g}" for name, values in faulty.items())
        + "; beside them the ROC curve of each."
    )


# --- bytes of each launch ------------------------------------------------------------------------


def traffic(programs: Mapping[str, Sequence[tuple[str, float, float, float]]]) -> Picture:
    """Draw what each launch of some programs moves.

    Parameters
    ----------
    programs : mapping of a program to its launches
        Each (name, bytes read for the batch, bytes of weights, bytes written).
    """
    rows = sum(len(launches) for launches in programs.values()) + 1.5 * len(programs)
    high = 0.62 + 0.2 * rows
    picture = Picture(7.4, high)
    axes = picture.add_axes((0.15, 0.46 / high, 0.83, 1 - 0.5 / high))
    pen = Pen.on(axes)
    place, longest = 0.0, max(sum(launch[1:]) for many in programs.values() for launch in many)
    for program, launches in programs.items():
        total = sum(sum(launch[1:]) for launch in launches) / 1e3
        plural = "launch" if len(launches) == 1 else "launches"
        text = f"{program}: {len(launches)} {plural}, {total:,.0f} kB"
        pen.text(0, place - 0.05, text, ha="left", weight="bold")
        place += 1
        for name, *parts in launches:
            start = 0.0
            for colour, part in zip(PARTS.values(), parts, strict=True):
                pen.box(start, place - 0.36, part / 1e3, 0.72, colour, PAPER, 0.6)
                start += part / 1e3
            pen.text(-0.012 * longest / 1e3, place, name, SMALL, ha="right")
            place += 1
        place += 0.5
    axes.set(xlim=(0, 1.03 * longest / 1e3), ylim=(place - 0.5, -0.6), xlabel="kB")
    style(axes, "x")
    axes.yaxis.set_major_locator(NullLocator())
    axes.legend(handles=swatches(PARTS), loc="upper right")
    return picture.described(
        "Bytes that each launch moves: "
        + listed(
            f"{program}, {len(launches)} launches, "
            f"{sum(sum(x[1:]) for x in launches) / 1e3:,.0f} kB"
            for program, launches in programs.items()
        )
        + "."
    )


# --- who does what -------------------------------------------------------------------------------


def warps(shape: FusedConfig, lane: tuple[int, int] = (1, 2)) -> Picture:
    """Draw a tile of spectra with its five warps, and one warp's share of a product.

    Parameters
    ----------
    shape : FusedConfig
    lane : (int, int)
        Row and column of the lane whose results are marked.
    """
    tile, across, down = shape.tile, BANDS // shape.columns, shape.columns // 2
    side = min(0.2, 2.6 / tile)
    high = tile * side + 1.15
    pen = Pen(8.2, high)
    left, top, wide = 0.75, 0.62, 0.56
    for frame in range(FRAMES):
        x = left + frame * wide
        for sample in range(tile):
            pen.box(x, top + sample * side, wide, side, pale(PALETTE[frame], 0.5), PAPER)
        pen.text(x + wide / 2, top - 0.13, f"warp {frame}", TINY)
    text = f"{tile} spectra" if tile > 1 else "1 spectrum"
    pen.text(left + FRAMES * wide / 2, 0.2, f"a tile of {text}", weight="bold")
    pen.text(left - 0.12, top + tile * side / 2, text, TINY, rotation=90)
    below = top + tile * side + 0.16
    pen.text(left + FRAMES * wide / 2, below, f"{FRAMES} frames of {BANDS} bands", TINY)
    x0, width = left + FRAMES * wide + 0.75, 3.25
    step, middle = width / BANDS, x0 + width / 2
    pen.text(middle, 0.2, "warp 1: 32 lanes, one product", weight="bold")
    pen.box(x0, top, width, tile * side, pale(PALETTE[1], 0.8))
    row, column = lane[0] % down, lane[1] % across
    run = min(shape.columns, 4)
    for sample in range(row, tile, down):
        for start in range(0, shape.columns, run):
            place = x0 + (column * run + start // run * across * run) * step
            pen.box(place, top + sample * side, run * step, side, VERMILLION, PAPER, 0.5)
    plural = "spectra" if shape.samples > 1 else "spectrum"
    text = f"one lane: {shape.samples} {plural} × {shape.columns} columns = "
    text += f"{shape.samples * shape.columns} results in registers"
    pen.text(middle, below, text, TINY, VERMILLION)
    pen.text(middle, top - 0.13, f"lanes stand {across} across and {down} down", TINY)
    pen.text(middle, below + 0.2, f"{BANDS} columns of the weights", TINY, FAINT)
    return pen.picture.described(
        f"A tile of {tile} spectra of {FRAMES} frames, a warp for each frame; of its product a "
        "lane makes "
        f"{shape.samples} × {shape.columns} results, and the 32 lanes stand {across} across and "
        f"{down} "
        "down."
    )
