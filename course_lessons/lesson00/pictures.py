"""Drawings of lesson 00: the machine's two memories, and the threads of a launch."""

from collections.abc import Callable

import numpy as np

from course.plots.style import FONT_SIZE, SMALL, Pen, Picture
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
        "memory, "
        "kernels and device arrays. to_device copies an array to the device, a launch goes there "
        "too, "
        "copy_to_host brings an array back."
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
    pen = cells(blocks, names, (row >= rows) | (column >= columns), named)
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


def cells(
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
