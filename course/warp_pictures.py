"""Drawings of warps: which threads they are, what their lanes do, and which memory they touch.

They are drawn with the palette and the fonts of `course.plots`.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_hex, to_rgb
from matplotlib.patches import Patch, Rectangle

from course.plots import (
    BLUE,
    FAINT,
    FONT_SIZE,
    GREEN,
    INK,
    ORANGE,
    PALETTE,
    PAPER,
    VERMILLION,
    Picture,
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
    picture = Picture(8.2, (down + 3.2) * side)
    axes = _axes(picture, (-0.5, widest + 0.5), down + 1.9, -1.3)
    numbers = set()
    for (title, (warps, lanes)), (left, top) in zip(maps.items(), places, strict=True):
        rows, columns = np.shape(warps)
        axes.text(left, top - 0.65, title, fontsize=FONT_SIZE, color=INK, va="center")
        for row in range(rows):
            for column in range(columns):
                warp = int(warps[row][column])
                numbers.add(warp)
                _box(axes, left + column, top + row, 1, 1, _pale(warp))
                number = str(int(lanes[row][column]))
                _write(axes, left + column + 0.5, top + row + 0.53, number, size=7)
    for place, warp in enumerate(sorted(numbers)):
        _box(axes, place * 4, down + 0.8, 0.7, 0.7, _pale(warp))
        axes.text(
            place * 4 + 1, down + 1.15, f"warp {warp}", fontsize=FONT_SIZE - 1, va="center",
            color=INK,
        )  # fmt: skip
    return picture


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
    colors = [PAPER, *(_pale(number, 0.25) for number in range(len(names)))]
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
        axes.set_title(title, fontsize=FONT_SIZE, color=INK)
        axes.set_yticks((0.5, 15.5, 31.5), ("0", "15", "31"))
        if steps[place] <= 8:
            numbers = np.arange(steps[place])
            axes.set_xticks(numbers + 0.5, [str(step + 1) for step in numbers])
            for step in numbers[1:]:
                axes.axvline(step, color=FAINT, linewidth=1)
        axes.tick_params(length=0, colors=INK, labelsize=FONT_SIZE - 1)
        axes.set_xlabel("step of the warp", fontsize=FONT_SIZE, color=INK)
        if place == 0:
            axes.set_ylabel("lane", fontsize=FONT_SIZE, color=INK)
        for spine in axes.spines.values():
            spine.set(color=FAINT)
    shown = [
        Patch(facecolor=color, edgecolor=FAINT, label=name)
        for color, name in zip(colors[1:], names, strict=True)
    ]
    shown.append(Patch(facecolor=PAPER, edgecolor=FAINT, label="waits"))
    picture.legend(
        handles=shown, loc="lower center", ncols=len(shown), frameon=False,
        fontsize=FONT_SIZE - 1, labelcolor=INK,
    )  # fmt: skip
    return picture


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
        sectors = set()
        for lane in range(lanes):
            row, column = (2, lane) if along_row else (lane, 2)
            sectors.add((row, column // 8))
            _box(axes, column, row, 1, 1, _pale(4))
            _write(axes, column + 0.5, row + 0.53, str(lane), size=7)
        for line in range(size + 1):
            axes.plot((0, size), (line, line), color=FAINT, linewidth=0.25)
            axes.plot((line, line), (0, size), color=FAINT, linewidth=0.25)
        for row, sector in sectors:
            frame = (sector * 8, row)
            axes.add_patch(
                Rectangle(frame, 8, 1, fill=False, edgecolor=VERMILLION, linewidth=1.6, zorder=3)
            )
        noun = "sector" if len(sectors) == 1 else "sectors"
        axes.set_title(
            f"{name}\n{lanes} lanes, {len(sectors)} {noun}", fontsize=FONT_SIZE, color=INK
        )
    return picture


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
    count = len(fields)
    together = [(name, number) for number in range(records) for name in fields]
    split = [(name, number) for name in fields for number in range(records)]
    cells = count * records
    picture = Picture(8.2, 2.35)
    axes = _axes(picture, (-0.3, cells + 0.3), 7.2, 0)
    colors = dict(zip(fields, (BLUE, ORANGE, GREEN, *PALETTE[4:]), strict=False))
    for top, title, order in (
        (1.1, "array of structs: points[i].x", together),
        (4.7, "struct of arrays: x[i], y[i], z[i]", split),
    ):
        axes.text(0, top - 0.5, title, fontsize=FONT_SIZE, color=INK, va="center")
        touched = set()
        for place, (name, number) in enumerate(order):
            used = name == fields[0]
            face = to_hex(0.5 + 0.5 * np.array(to_rgb(colors[name]))) if used else PAPER
            _box(axes, place, top, 1, 1.2, face)
            _write(axes, place + 0.5, top + 0.6, f"{name}{number}", size=6.5)
            if used:
                touched.add(place * 4 // SECTOR)
        for sector in touched:
            axes.add_patch(
                Rectangle(
                    (sector * 8 + 0.06, top - 0.09), 7.88, 1.38, fill=False,
                    edgecolor=VERMILLION, linewidth=1.8, zorder=3,
                )
            )  # fmt: skip
        noun = "sector" if len(touched) == 1 else "sectors"
        axes.text(
            cells, top - 0.5, f"{records} lanes read {fields[0]}: {len(touched)} {noun}",
            fontsize=FONT_SIZE, color=VERMILLION, ha="right", va="center",
        )  # fmt: skip
    return picture


def _axes(picture: Picture, across: tuple[float, float], bottom: float, top: float) -> Axes:
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=across, ylim=(bottom, top))
    axes.axis("off")
    return axes


def _box(axes: Axes, x: float, y: float, width: float, height: float, face: str) -> None:
    axes.add_patch(Rectangle((x, y), width, height, facecolor=face, edgecolor=FAINT, linewidth=0.7))


def _write(axes: Axes, x: float, y: float, text: str, size: float = FONT_SIZE) -> None:
    axes.text(x, y, text, fontsize=size, color=INK, ha="center", va="center", parse_math=False)


def _pale(number: int, white: float = 0.45) -> str:
    """A colour of the palette, light enough for text on it."""
    parts = to_rgb(PALETTE[number % (len(PALETTE) - 1)])
    return to_hex([white + (1 - white) * part for part in parts])
