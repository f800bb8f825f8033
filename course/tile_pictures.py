"""Drawings of shared memory: tiles and their rounds, barriers, halos, banks.

They are drawn with the palette and the fonts of `course.plots`.
"""

from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle

from course.plots import BLUE, FAINT, FONT_SIZE, GRID, INK, ORANGE, PAPER, VERMILLION, Picture

BANKS = 32
SMALL = FONT_SIZE - 1.5


# --- tiles --------------------------------------------------------------------------------------


def tile_rounds(rounds: int = 4, current: int | None = None) -> Picture:
    """Draw which parts of u and vt one block of pixels needs, cut into tiles.

    Parameters
    ----------
    rounds : int
        How many tiles the strips are cut into, k / TILE; 1 leaves them whole.
    current : int, optional
        The round whose two tiles are marked; without it the whole strips are.
    """
    picture = Picture(6.2, 4.2)
    axes = _blank(picture, (0, 6.2), (4.2, 0))
    tile = 1.6 / rounds
    matrices = ((0.6, 2.1, 1.6, 2.0, "u"), (3.4, 0.2, 2.4, 1.6, "vt"), (3.4, 2.1, 2.4, 2.0, "out"))
    for x, y, width, height, name in matrices:
        box = Rectangle((x, y), width, height, facecolor=PAPER, edgecolor=FAINT, linewidth=1.2)
        axes.add_patch(box)
        _write(axes, x - 0.22, y + 0.12, name, weight="bold")
    row, column, side = 2.75, 4.2, 0.4  # the block of pixels, and the width of the strips
    for number in range(rounds):
        marked = current is None or number == current
        for place, width, height, color in (
            ((0.6 + number * tile, row), tile, side, BLUE),
            ((column, 0.2 + number * tile), side, tile, ORANGE),
        ):
            axes.add_patch(
                Rectangle(
                    place, width, height, facecolor=_pale(color) if marked else PAPER,
                    edgecolor=color, linewidth=1.2,
                )
            )  # fmt: skip
            middle = place[0] + width / 2, place[1] + height / 2
            if rounds > 1:
                _write(axes, *middle, str(number), size=SMALL, color=INK if marked else FAINT)
    axes.add_patch(
        Rectangle((column, row), side, side, facecolor=_pale(VERMILLION), edgecolor=VERMILLION)
    )
    text = "a block\nof pixels"
    axes.text(column + side + 0.1, row + side / 2, text, fontsize=SMALL, color=INK, va="center")
    for start, end in (
        ((0.6 + 1.6, row + side / 2), (column, row + side / 2)),
        ((column + side / 2, 0.2 + 1.6), (column + side / 2, row)),
    ):
        arrow = {"arrowstyle": "-|>", "color": FAINT, "linewidth": 1.2}
        axes.annotate("", end, start, arrowprops=arrow)
    what = "its rows of u" if current is None else f"round {current}: a tile of u"
    _write(axes, 1.4, row - 0.14, what, size=SMALL)
    what = "its columns of vt" if current is None else f"round {current}:\na tile of vt"
    axes.text(column + side + 0.1, 1.0, what, fontsize=SMALL, color=INK, va="center")
    return picture


def tile_turn(side: int = 4) -> Picture:
    """Draw how a tile turns: filled by rows of the image, read by columns, stored by rows of out.

    Parameters
    ----------
    side : int
        Rows and columns of the drawn tile.
    """
    cell, gap = 0.42, 1.35
    width = 3 * side * cell + 2 * gap + 0.4
    picture = Picture(width, side * cell + 0.75)
    axes = _blank(picture, (0, width), (side * cell + 0.75, 0))
    for number, name in enumerate(("image", "tile", "out")):
        left = 0.2 + number * (side * cell + gap)
        _write(axes, left + side * cell / 2, 0.2, name, weight="bold")
        for row in range(side):
            for column in range(side):
                y, x = (row, column) if number < 2 else (column, row)  # its place in the image
                filled, read = number < 2 and row == 1, number > 0 and x == 2
                face = BLUE if filled else ORANGE if read else None
                corner = left + column * cell, 0.4 + row * cell
                axes.add_patch(
                    Rectangle(
                        corner, cell, cell, facecolor=_pale(face) if face else PAPER,
                        edgecolor=FAINT, linewidth=0.8,
                    )
                )  # fmt: skip
                _write(axes, corner[0] + cell / 2, corner[1] + cell / 2, str(y * side + x))
        if number < 2:
            start = left + side * cell + 0.08
            middle = 0.4 + side * cell / 2
            arrow = {"arrowstyle": "-|>", "color": FAINT, "linewidth": 1.4}
            axes.annotate("", (start + gap - 0.16, middle), (start, middle), arrowprops=arrow)
            text = "load a row,\nfill a row" if number == 0 else "read a column,\nstore a row"
            _write(axes, start + gap / 2 - 0.08, middle - 0.3, text, size=SMALL)
    return picture


# --- a barrier ----------------------------------------------------------------------------------


def barrier_timelines() -> Picture:
    """Draw two warps of a block in time: without a barrier one reads too early, with it both wait.

    The order on the left is one that may happen, not one that must.
    """
    picture = Picture(7.6, 2.1)
    axes = _blank(picture, (0, 7.6), (2.1, 0))
    panels = (
        (0.75, "without a barrier: this may happen", ((0.0, 0.8), (1.2, 2.0)), None),
        (4.55, "with cuda.syncthreads()", ((0.0, 2.1), (1.2, 2.1)), 2.0),
    )
    for left, title, starts, barrier in panels:
        _write(axes, left + 1.4, 0.2, title, weight="bold")
        for warp, (fills, takes) in enumerate(starts):
            y = 0.5 + 0.6 * warp
            _write(axes, left - 0.38, y + 0.2, f"warp {warp}", size=SMALL)
            early = barrier is None and warp == 0
            for start, text, color in (
                (fills, "fills", BLUE),
                (takes, "reads", VERMILLION if early else ORANGE),
            ):
                face = _pale(color)
                box = Rectangle((left + start, y), 0.75, 0.4, facecolor=face, edgecolor=color)
                axes.add_patch(box)
                _write(axes, left + start + 0.375, y + 0.2, text, size=SMALL)
        if barrier is not None:
            axes.plot([left + barrier] * 2, [0.42, 1.6], color=INK, linewidth=2.5)
            wait = {"arrowstyle": "-", "color": FAINT, "linewidth": 1, "linestyle": ":"}
            axes.annotate("", (left + 0.78, 0.7), (left + barrier, 0.7), arrowprops=wait)
            _write(axes, left + 1.38, 0.6, "waits", size=SMALL, color=FAINT)
        axes.annotate(
            "", (left + 2.95, 1.75), (left, 1.75), arrowprops={"arrowstyle": "-|>", "color": FAINT}
        )
        _write(axes, left + 1.4, 1.92, "time", size=SMALL, color=FAINT)
    return picture


# --- a halo -------------------------------------------------------------------------------------


def halo(block: int = 8, radius: int = 2, number: int = 1, size: int = 22) -> Picture:
    """Draw the elements of x that a block's tile holds: its own, and a halo on either side.

    Parameters
    ----------
    block : int
        Threads of a block.
    radius : int
        Neighbours on either side that a result needs.
    number : int
        Number of the drawn block.
    size : int
        Elements of x that are drawn.
    """
    side = 0.32
    left = 0.6
    picture = Picture(left + size * side + 0.15, 1.75)
    axes = _blank(picture, (0, left + size * side + 0.15), (1.75, 0))
    first = number * block
    for row, (name, start, end, offset) in enumerate(
        (("x", 0, size, 0), ("tile", first - radius, first + block + radius, first - radius))
    ):
        y = 0.25 + 0.72 * row
        _write(axes, left / 2, y + side / 2, name, weight="bold")
        for element in range(start, end):
            own = first <= element < first + block
            near = first - radius <= element < first + block + radius
            color = BLUE if own else ORANGE if near else None
            axes.add_patch(
                Rectangle(
                    (left + element * side, y), side, side,
                    facecolor=_pale(color) if color else PAPER, edgecolor=FAINT, linewidth=0.8,
                )
            )  # fmt: skip
            middle = left + (element + 0.5) * side, y + side / 2
            _write(axes, *middle, str(element - offset), size=SMALL - 0.5)
    y = 0.25 + 0.72 + side + 0.2
    for start, end, text in (
        (first - radius, first, "halo"),
        (first, first + block, f"one element for each thread of block {number}"),
        (first + block, first + block + radius, "halo"),
    ):
        _write(axes, left + (start + end) / 2 * side, y, text, size=SMALL)
    return picture


# --- banks --------------------------------------------------------------------------------------


def tile_banks(widths: tuple[int, ...] = (32, 33), rows: int = 8) -> Picture:
    """Draw the first rows of tiles with the bank of each word; the words of one column are marked.

    Parameters
    ----------
    widths : tuple of int
        Columns of each tile; what goes beyond 32 is drawn as padding.
    rows : int
        How many rows are drawn.
    """
    side, gap = 0.215, 0.55
    picture = Picture(33 * side + 0.5, len(widths) * (rows * side + gap) + 0.05)
    axes = _blank(picture, (-0.35, 33 * side + 0.15), (len(widths) * (rows * side + gap) + 0.05, 0))
    for number, width in enumerate(widths):
        top = number * (rows * side + gap) + 0.4
        banks = {row * width % BANKS for row in range(rows)}
        title = f"rows of {width} words: the first {rows} words of column 0 are in " + (
            "one bank" if len(banks) == 1 else f"{len(banks)} banks"
        )
        axes.text(0, top - 0.18, title, fontsize=FONT_SIZE, color=INK, va="center")
        for row in range(rows):
            _write(axes, -0.18, top + (row + 0.5) * side, str(row), size=SMALL - 1, color=FAINT)
            for column in range(width):
                face = PAPER
                if column == 0:
                    face = _pale(VERMILLION if len(banks) == 1 else BLUE)
                corner = column * side, top + row * side
                hatch = "////" if column >= BANKS else None
                axes.add_patch(
                    Rectangle(
                        corner, side, side, facecolor=face, edgecolor=GRID, linewidth=0.7,
                        hatch=hatch,
                    )
                )  # fmt: skip
                bank = str((row * width + column) % BANKS)
                middle = corner[0] + side / 2, corner[1] + side / 2
                color = INK if column == 0 else FAINT
                _write(axes, *middle, bank, size=SMALL - 1.5, color=color)
    return picture


def _blank(picture: Picture, across: tuple[float, float], down: tuple[float, float]) -> Axes:
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


def _pale(color: str) -> str:
    """A colour of the palette, light enough for text on it."""
    return to_hex([0.55 + 0.45 * part for part in to_rgb(color)])
