"""Drawings of threads, blocks and grids: which thread has which element.

They are drawn with the palette and the fonts of `course.plots`.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from course.plots import (
    BLUE,
    FAINT,
    FONT_SIZE,
    INK,
    PALETTE,
    PAPER,
    VERMILLION,
    Picture,
    style,
)


def host_and_device() -> Picture:
    """Draw the two memories of a machine with a GPU, and what crosses between them."""
    picture = Picture(6.4, 2.3)
    axes = _blank_axes(picture, (0, 6.4), (2.3, 0))
    for x, color, name, lines in (
        (0.1, BLUE, "host", "CPU and its memory\nPython, NumPy arrays"),
        (4.1, VERMILLION, "device", "GPU and its memory\nkernels, device arrays"),
    ):
        axes.add_patch(Rectangle((x, 0.3), 2.2, 1.8, facecolor=PAPER, edgecolor=color, linewidth=2))
        _write(axes, x + 1.1, 0.72, name, size=FONT_SIZE + 3, color=color, weight="bold")
        _write(axes, x + 1.1, 1.4, lines)
    for y, text, start, end in (
        (0.75, "cuda.to_device(array)", 2.4, 4.0),
        (1.3, "kernel[blocks, threads](...)", 2.4, 4.0),
        (1.85, "array.copy_to_host()", 4.0, 2.4),
    ):
        arrow = {"arrowstyle": "-|>", "color": FAINT, "linewidth": 1.5}
        axes.annotate("", (end, y), (start, y), arrowprops=arrow)
        _write(axes, 3.2, y - 0.14, text, size=FONT_SIZE - 1.5)
    return picture


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
    block_number = row // threads_y * blocks_x + column // threads_x
    names = [
        [f"{x % threads_x}" if flat else f"{x % threads_x},{y % threads_y}" for x in column[0]]
        for y in row[:, 0]
    ]
    outside = (row >= rows) | (column >= columns)
    picture, axes = _cells(block_number, names, outside)
    axes.add_patch(
        Rectangle((0, 0), columns, rows, fill=False, edgecolor=INK, linewidth=2.5, zorder=3)
    )
    return picture


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
    return _cells(blocks, threads.astype(str).tolist(), blocks < 0)[0]


def histogram_bars(
    counts: np.ndarray, label: str = "bin", right: np.ndarray | None = None
) -> Picture:
    """Draw counts as bars; with `right`, the counts that they should be as outlines around them."""
    picture = Picture(6.0, 2.4)
    axes = style(picture.add_axes((0.14, 0.2, 0.84, 0.74)))
    places = np.arange(len(counts))
    if right is not None:
        axes.bar(
            places, right, 0.9, fill=False, edgecolor=INK, linewidth=1.2, label="right", zorder=2
        )
    axes.bar(places, counts, 0.9, color=BLUE, label="counted", zorder=1.5)
    axes.grid(False, axis="x")
    axes.set(xlabel=label, ylabel="count", xlim=(-0.7, len(counts) - 0.3))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    if right is not None:
        axes.legend(fontsize=FONT_SIZE - 1, frameon=False, labelcolor=INK)
    return picture


def _blank_axes(picture: Picture, across: tuple[float, float], down: tuple[float, float]) -> Axes:
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=across, ylim=down)
    axes.axis("off")
    return axes


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: float = FONT_SIZE,
    color: str = INK,
    weight: str = "normal",
) -> None:
    axes.text(
        x, y, text, fontsize=size, color=color, fontweight=weight, ha="center", va="center",
        parse_math=False,
    )  # fmt: skip


def _cells(blocks: np.ndarray, names: list[list[str]], idle: np.ndarray) -> tuple[Picture, Axes]:
    """Boxes in rows and columns: coloured by block, idle ones hatched, a legend below."""
    rows, columns = blocks.shape
    flat = rows == 1
    side = min(0.42, 7.4 / columns)  # of a box [inch]
    left, above, below = (0.15 if flat else 0.55), (0.1 if flat else 0.5), 0.4
    footer = 0.2 if flat else 0
    width = max(columns * side + left + 0.15, 3.6)
    height = rows * side + above + below + footer
    picture = Picture(width, height)
    axes = _blank_axes(
        picture,
        (-left / side, (width - left) / side),
        ((height - above) / side, -above / side),
    )
    size = min(FONT_SIZE - 1, side * 72 * (0.5 if flat else 0.32))
    for row in range(rows):
        for column in range(columns):
            number, nobody = int(blocks[row, column]), bool(idle[row, column])
            face = PAPER if nobody else _pale(number)
            axes.add_patch(
                Rectangle(
                    (column, row), 1, 1, facecolor=face, edgecolor=FAINT, linewidth=0.8,
                    hatch="////" if nobody else None,
                )
            )  # fmt: skip
            if not nobody:
                _write(axes, column + 0.5, row + 0.5, names[row][column], size=size)
    if flat:
        for column in range(columns):
            _write(axes, column + 0.5, 1.35, str(column), size=size * 0.85, color=FAINT)
    else:
        for column in range(columns):
            _write(axes, column + 0.5, -0.35, str(column), size=size, color=FAINT)
        for row in range(rows):
            _write(axes, -0.4, row + 0.5, str(row), size=size, color=FAINT)
        _write(axes, columns / 2, -0.85, "column", color=FAINT)
        axes.text(
            -0.95, rows / 2, "row", rotation=90, fontsize=FONT_SIZE, color=FAINT,
            ha="center", va="center",
        )  # fmt: skip
    _legend_of_blocks(axes, np.unique(blocks[blocks >= 0]), height - above - 0.2, side)
    return picture, axes


def _pale(block: int) -> str:
    """The colour of a block, light enough for text on it."""
    red, green, blue = to_rgb(PALETTE[block % (len(PALETTE) - 1)])
    return to_hex([0.45 + 0.55 * part for part in (red, green, blue)])


def _legend_of_blocks(axes: Axes, numbers: np.ndarray, y: float, side: float) -> None:
    x = 0.0
    for number in numbers[:8]:
        axes.add_patch(
            Rectangle(
                (x, (y - 0.07) / side), 0.14 / side, 0.14 / side,
                facecolor=_pale(int(number)), edgecolor=FAINT, linewidth=0.8,
            )
        )  # fmt: skip
        text = f"block {number}"
        axes.text(x + 0.2 / side, y / side, text, fontsize=FONT_SIZE - 1, color=INK, va="center")
        x += 0.82 / side
