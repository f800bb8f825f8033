"""Drawings of lesson 01: threads of a launch, the two memories, and counts as bars."""

from collections.abc import Callable

import numpy as np
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from course.plots.style import FONT_SIZE, SMALL, Pen, Picture, listed, style
from warpsim.draw.palette import BLUE, FAINT, INK, PAPER, VERMILLION, pale_of


def two_memories() -> Picture:
    """Draw the two memories of a machine with a GPU, and what crosses between them."""
    pen = Pen(6.4, 2.3)
    for x, color, name, lines in (
        (0.1, BLUE, "host", "CPU and its memory\nPython, NumPy arrays"),
        (4.1, VERMILLION, "device", "GPU and its memory\nkernels, device arrays"),
    ):
        pen.box(x, 0.3, 2.2, 1.8, PAPER, color, 2)
        pen.text(x + 1.1, 0.72, name, FONT_SIZE + 3, color, weight="bold")
        pen.text(x + 1.1, 1.4, lines)
    for y, text, start, end in (
        (0.75, "cuda.to_device(array)", 2.4, 4.0),
        (1.3, "kernel[blocks, threads](...)", 2.4, 4.0),
        (1.85, "array.copy_to_host()", 4.0, 2.4),
    ):
        pen.arrow((start, y), (end, y), FAINT, 1.5, 10, shrinkA=2, shrinkB=2)
        pen.text(3.2, y - 0.14, text, FONT_SIZE - 1.5)
    return pen.picture.described(
        "Two boxes: the host, with CPU, its memory and NumPy arrays; the device, with GPU, its "
        "memory, kernels and device arrays. to_device copies an array to the device, a launch goes "
        "there too, copy_to_host brings an array back."
    )


def launch_picture(
    shape: int | tuple[int, int], grid: int | tuple[int, int], block: int | tuple[int, int]
) -> Picture:
    """Draw the threads of a launch over the array they are for; hatched threads have no element.

    Parameters
    ----------
    shape : int or (rows, columns)
        Shape of the array.
    grid, block : int or (x, y)
        As in the launch: x runs along the columns.

    Raises
    ------
    ValueError
        When the three do not have one and the same number of axes.
    """
    parts = [part if isinstance(part, tuple) else (part,) for part in (shape, grid, block)]
    if len({len(part) for part in parts}) != 1 or len(parts[0]) > 2:
        raise ValueError(f"give shape, grid, block one or two numbers each; given {parts}")
    flat = len(parts[0]) == 1
    if flat:
        parts = [(1, *parts[0]), (*parts[1], 1), (*parts[2], 1)]
    (rows, columns), (blocks_x, blocks_y), (threads_x, threads_y) = parts
    row, column = np.indices((blocks_y * threads_y, blocks_x * threads_x))
    names = [
        [f"{x % threads_x}" if flat else f"({x % threads_x}, {y % threads_y})" for x in column[0]]
        for y in row[:, 0]
    ]
    blocks = row // threads_y * blocks_x + column // threads_x
    named = str if flat else lambda number: f"({number % blocks_x}, {number // blocks_x})"
    pen = _cells(blocks, names, (row >= rows) | (column >= columns), named)
    pen.box(0, 0, columns, rows, "none", INK, 2.5, zorder=3)
    if not flat:
        pen.text(len(row[0]), -0.85, "in a box: (x, y) in its block", SMALL, FAINT, ha="right")
    return pen.picture.described(
        f"{rows * columns} elements in "
        f"{'a row' if flat else f'{rows} rows and {columns} columns'} under "
        f"{blocks_x * blocks_y} blocks of {threads_x * threads_y} threads, a colour for each "
        f"block{'' if flat else ', which are numbered (x, y)'}; "
        f"{int(((row >= rows) | (column >= columns)).sum())} threads, hatched, have no element."
    )


def thread_map(blocks: np.ndarray, threads: np.ndarray) -> Picture:
    """Draw an array in which each element has the colour of the block and the number of the thread.

    Parameters
    ----------
    blocks, threads : ndarray of int, shape (n,) or (rows, columns)
        Number of the block and of the thread that has written each element; a negative block
        stands for none.

    Raises
    ------
    ValueError
        When the two differ in shape, or are not one- or two-dimensional.
    """
    blocks, threads = np.asarray(blocks), np.asarray(threads)
    if blocks.shape != threads.shape or blocks.ndim not in (1, 2) or blocks.size == 0:
        raise ValueError(
            f"blocks and threads are arrays of one shape, (n,) or (rows, columns); "
            f"given {blocks.shape} and {threads.shape}"
        )
    blocks, threads = np.atleast_2d(blocks), np.atleast_2d(threads)
    kinds = [int(number) for number in np.unique(blocks[blocks >= 0])]
    return _cells(blocks, threads.astype(str).tolist(), blocks < 0).picture.described(
        f"An array of {blocks.shape[0]} × {blocks.shape[1]} elements: each has the colour of the "
        f"block that wrote it, {listed(map(str, kinds))}, and its thread's number; "
        f"{int((blocks < 0).sum())} were written by none."
    )


def histogram_bars(
    counts: np.ndarray, label: str = "bin", right: np.ndarray | None = None
) -> Picture:
    """Draw counts as bars; with `right`, the counts that they should be as outlines around them."""
    picture = Picture(6.0, 2.4)
    axes = style(picture.add_axes((0.14, 0.2, 0.84, 0.74)), "y")
    places = np.arange(len(counts))
    if right is not None:
        look = {"fill": False, "edgecolor": INK, "linewidth": 1.2, "zorder": 2}
        axes.bar(places, right, 0.9, label="right", **look)
    axes.bar(places, counts, 0.9, color=BLUE, label="counted", zorder=1.5)
    axes.set(xlabel=label, ylabel="count", xlim=(-0.7, len(counts) - 0.3))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if right is not None:
        axes.legend()
        # a count of few thousandths of what it should be is no bar that one sees
        for place, count in zip(places, counts, strict=True):
            look = {"ha": "center", "color": BLUE, "fontsize": SMALL, "weight": "bold"}
            above = {"xytext": (0, 2), "textcoords": "offset points", "zorder": 3}
            if count < 0.05 * max(right):
                axes.annotate(f"{count:,.0f}", (place, count), **look, **above)
    return picture.described(
        f"A bar for the count of each {label}: {len(counts)} bars"
        + ("." if right is None else "; outlines show what each should be.")
    )


def _cells(
    blocks: np.ndarray,
    names: list[list[str]],
    idle: np.ndarray,
    named: Callable[[int], str] = str,
) -> Pen:
    """Draw boxes in rows and columns: coloured by block, idle ones hatched, a legend below.

    `named` makes a block's name in the legend of its number.
    """
    rows, columns = blocks.shape
    flat = rows == 1
    side = min(0.42, 7.4 / columns)  # of a box [inch]
    left, above, below = (0.15 if flat else 0.55), (0.1 if flat else 0.5), 0.4
    legend = [int(number) for number in np.unique(blocks[blocks >= 0])[:8]]
    apart = 0.82 if flat else 0.92  # [inch], as long as a name
    width = max(columns * side + 0.15, apart * len(legend), 3.6 - left) + left
    height = rows * side + above + below + (0.2 if flat else 0)
    across = -left / side, (width - left) / side
    pen = Pen(width, height, across, ((height - above) / side, -above / side))
    size = min(SMALL, side * 72 * (0.5 if flat else 0.25))
    for row in range(rows):
        for column in range(columns):
            if idle[row, column]:
                pen.box(column, row, 1, 1, hatch="////")
            else:
                face = pale_of(int(blocks[row, column]))
                pen.box(column, row, 1, 1, face, text=names[row][column], size=size)
    for column in range(columns):
        y, its = (1.35, size * 0.85) if flat else (-0.35, size)
        pen.text(column + 0.5, y, str(column), its, FAINT)
    if not flat:
        for row in range(rows):
            pen.text(-0.4, row + 0.5, str(row), size, FAINT)
        pen.text(columns / 2, -0.85, "column", color=FAINT)
        pen.text(-0.95, rows / 2, "row", color=FAINT, rotation=90)
    y = (height - above - 0.2) / side
    for place, number in enumerate(legend):
        x, part = apart * place / side, 0.14 / side
        pen.box(x, y - part / 2, part, part, pale_of(number))
        pen.text(x + 0.2 / side, y, f"block {named(number)}", SMALL, ha="left")
    return pen
