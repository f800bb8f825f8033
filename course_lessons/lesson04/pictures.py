"""Drawings of warps: which threads they are, what their lanes do, and which memory they touch."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from course.plots.style import SMALL, Pen, Picture, listed
from warpsim.draw.palette import (
    BLUE,
    FAINT,
    GREEN,
    ORANGE,
    PALETTE,
    PAPER,
    VERMILLION,
    pale,
    pale_of,
)

WARP = 32  # threads
SECTOR = 32  # bytes


def warp_maps(maps: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Picture:
    """Draw blocks of threads; each thread has the colour of its warp and the number of its lane.

    Parameters
    ----------
    maps : mapping of title -> (warps, lanes)
        Two arrays of int, shape (threads in y, threads in x): each thread's warp and lane.

    Raises
    ------
    ValueError
        When there is no block, or its two arrays are not two-dimensional and of one shape.
    """
    shapes = [(np.shape(warps), np.shape(lanes)) for warps, lanes in maps.values()]
    if not shapes or any(a != b or len(a) != 2 for a, b in shapes):
        raise ValueError(f"give warps and lanes of one shape (y, x) for each block; got {shapes}")
    gap = 1.5  # boxes between two blocks
    widest = max(WARP, *(shape[1] for shape, _ in shapes))
    side = 8.0 / (widest + 1)  # of a box [inch]
    places, left, top, tallest = [], 0.0, 0.0, 0
    for (rows, columns), _ in shapes:
        if left and left + columns > widest:
            left, top = 0.0, top + tallest + 2.2
            tallest = 0
        places.append((left, top))
        left, tallest = left + columns + gap, max(tallest, rows)
    down = top + tallest
    across = (-0.5, widest + 0.5)
    pen = Pen(8.2, (down + 3.2) * side, across, (down + 1.9, -1.3), line=0.7)
    numbers = set()
    for (title, (warps, lanes)), (left, top) in zip(maps.items(), places, strict=True):
        pen.text(left, top - 0.65, title, ha="left")
        for (row, column), warp in np.ndenumerate(np.asarray(warps, int)):
            numbers.add(int(warp))
            pen.box(left + column, top + row, 1, 1, pale_of(warp))
            pen.text(left + column + 0.5, top + row + 0.53, str(int(lanes[row][column])), 7)
    for place, warp in enumerate(sorted(numbers)):
        pen.box(place * 4, down + 0.8, 0.7, 0.7, pale_of(warp))
        pen.text(place * 4 + 1, down + 1.15, f"warp {warp}", SMALL, ha="left")
    return pen.picture.described(
        f"Blocks of threads, each thread with the colour of its warp and the number of its lane: "
        f"{listed(maps)}; {len(numbers)} warps."
    )


def warp_timeline(panels: Mapping[str, np.ndarray], names: Sequence[str]) -> Picture:
    """Draw what the 32 lanes of a warp do, step by step; white is waiting.

    Parameters
    ----------
    panels : mapping of title -> ndarray of int, shape (32, steps)
        What each lane does in each step: 0 it waits, 1, 2, … the first, second, … name.
    names : sequence of str
        What the numbers from 1 on stand for.

    Raises
    ------
    ValueError
        When an array does not have 32 rows, or holds a number without a name.
    """
    for title, work in panels.items():
        if np.ndim(work) != 2 or len(work) != WARP or not 0 <= np.min(work) <= np.max(work):
            raise ValueError(f"{title!r} has the shape {np.shape(work)}; give (32, steps)")
        if np.max(work) > len(names):
            raise ValueError(f"{title!r} holds {np.max(work)}, but there are {len(names)} names")
    picture = Picture(7.6, 2.9)
    colors = [PAPER, *(pale_of(number, 0.25) for number in range(len(names)))]
    steps = [np.shape(work)[1] for work in panels.values()]
    left, gap = 0.07, 0.05
    unit = (0.91 - gap * (len(steps) - 1)) / sum(steps)  # width of a step, the same everywhere
    for place, (title, work) in enumerate(panels.items()):
        axes = picture.add_axes((left, 0.26, steps[place] * unit, 0.62))
        left += steps[place] * unit + gap
        axes.imshow(
            work, cmap=ListedColormap(colors), vmin=0, vmax=len(names), aspect="auto",
            interpolation="nearest", extent=(0, steps[place], WARP, 0),
        )  # fmt: skip
        axes.set_title(title)
        axes.set_yticks((0.5, 15.5, 31.5), ("0", "15", "31"))
        if steps[place] <= 8:
            numbers = np.arange(steps[place])
            axes.set_xticks(numbers + 0.5, [str(step + 1) for step in numbers])
            for step in numbers[1:]:
                axes.axvline(step, color=FAINT, linewidth=1)
        else:
            _name_the_longest(axes, np.asarray(work))
        axes.tick_params(length=0)
        axes.set_xlabel("step of the warp")
        if place == 0:
            axes.set_ylabel("lane")
        for spine in axes.spines.values():
            spine.set_color(FAINT)
    look = {"edgecolor": FAINT}
    shown = [Patch(facecolor=c, label=name, **look) for c, name in zip(colors[1:], names)]
    shown.append(Patch(facecolor=PAPER, label="waits", **look))
    picture.legend(handles=shown, loc="lower center", ncols=len(shown))
    return picture.described(
        f"What the 32 lanes of a warp do in each step: {listed(names)}, or wait. "
        + listed(
            f"{title}: {count} step{'s' * (count > 1)}"
            for title, count in zip(panels, steps, strict=True)
        )
        + "."
    )


def _name_the_longest(axes: Axes, work: np.ndarray) -> None:
    """Say of the lanes that work much longer than the others which they are."""
    taken = (work > 0).sum(axis=1)
    for lane in np.flatnonzero(taken > 3 * np.median(taken)):
        text = f"lane {lane}: {taken[lane]} steps"
        Pen.on(axes).text(taken[lane] / 2, lane - 0.3, text, SMALL, va="bottom")


def transpose_sides(size: int = 16, lanes: int = 8) -> Picture:
    """Draw which elements of image and out a transpose touches, and the sectors under them.

    Parameters
    ----------
    size : int
        The drawn corner has size x size float32 elements; a multiple of 8.
    lanes : int
        How many lanes of the warp are drawn, at most size.
    """
    picture = Picture(7.6, 3.9)
    for left, name, along_row in ((0.03, "image, read", True), (0.53, "out, written", False)):
        axes = picture.add_axes((left, 0.03, 0.44, 0.82))
        axes.set(xlim=(-0.2, size + 0.2), ylim=(size + 0.2, -0.2), aspect="equal")
        axes.axis("off")
        pen, sectors = Pen.on(axes), set()
        for lane in range(lanes):
            row, column = (2, lane) if along_row else (lane, 2)
            sectors.add((row, column // 8))
            pen.box(column, row, 1, 1, pale_of(4), line=0.7)
            pen.text(column + 0.5, row + 0.53, str(lane), 7)
        for line in range(size + 1):
            axes.plot((0, size), (line, line), color=FAINT, linewidth=0.25)
            axes.plot((line, line), (0, size), color=FAINT, linewidth=0.25)
        for row, sector in sectors:
            pen.box(sector * 8, row, 8, 1, "none", VERMILLION, 1.6, zorder=3)
        noun = "sector" if len(sectors) == 1 else "sectors"
        axes.set_title(f"{name}\n{lanes} lanes, {len(sectors)} {noun}")
    return picture.described(
        f"A transpose: {lanes} lanes of a warp read {lanes} neighbours in a row of the image, in "
        f"1 sector, and write them into a column of out, in {lanes} sectors."
    )


def records_in_memory(fields: Sequence[str] = "xyz", records: int = 8) -> Picture:
    """Draw records of float32 fields in memory, together and split by field, with the sectors.

    The elements of the first field are filled; a red frame is a sector that reading them touches.

    Parameters
    ----------
    fields : sequence of str
        Names of the fields of a record, 4 bytes each.
    records : int
        How many records are drawn; a multiple of 8.
    """
    together = [(name, number) for number in range(records) for name in fields]
    split = [(name, number) for name in fields for number in range(records)]
    cells = len(together)
    pen = Pen(8.2, 2.35, (-0.3, cells + 0.3), (7.2, 0), line=0.7)
    counts = []
    colors = dict(zip(fields, (BLUE, ORANGE, GREEN, *PALETTE[4:]), strict=False))
    for top, title, order in (
        (1.1, "array of structs: points[i].x", together),
        (4.7, "struct of arrays: x[i], y[i], z[i]", split),
    ):
        pen.text(0, top - 0.5, title, ha="left")
        touched = set()
        for place, (name, number) in enumerate(order):
            face = PAPER
            if name == fields[0]:
                face = pale(colors[name], 0.5)
                touched.add(place * 4 // SECTOR)
            pen.box(place, top, 1, 1.2, face, text=f"{name}{number}", size=6.5)
        for sector in touched:
            pen.box(sector * 8 + 0.06, top - 0.09, 7.88, 1.38, "none", VERMILLION, 1.8, zorder=3)
        counts.append(len(touched))
        noun = "sector" if len(touched) == 1 else "sectors"
        text = f"{records} lanes read {fields[0]}: {len(touched)} {noun}"
        pen.text(cells, top - 0.5, text, color=VERMILLION, ha="right")
    return pen.picture.described(
        f"{records} records of {listed(fields)} in memory. Record after record, {records} lanes "
        f"that read {fields[0]} touch {counts[0]} sectors; field after field, {counts[1]}."
    )
