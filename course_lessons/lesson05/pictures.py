"""Drawings of shared memory: tiles and their rounds, barriers, halos, banks."""

from course.plots.style import TINY, Pen, Picture, listed
from warpsim.draw.palette import BLUE, FAINT, GRID, INK, ORANGE, PAPER, VERMILLION, pale

BANKS = 32


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
    pen = Pen(6.2, 4.2)
    tile = 1.6 / rounds
    matrices = ((0.6, 2.1, 1.6, 2.0, "u"), (3.4, 0.2, 2.4, 1.6, "vt"), (3.4, 2.1, 2.4, 2.0, "out"))
    for x, y, width, height, name in matrices:
        pen.box(x, y, width, height, line=1.2)
        pen.text(x - 0.22, y + 0.12, name, weight="bold")
    row, column, side = 2.75, 4.2, 0.4  # the block of pixels, and the width of the strips
    for number in range(rounds):
        marked = current is None or number == current
        name = {"text": str(number) if rounds > 1 else "", "color": INK if marked else FAINT}
        for x, y, width, height, color in (
            (0.6 + number * tile, row, tile, side, BLUE),
            (column, 0.2 + number * tile, side, tile, ORANGE),
        ):
            face = pale(color) if marked else PAPER
            pen.box(x, y, width, height, face, color, 1.2, size=TINY, **name)
    pen.tint(column, row, side, side, VERMILLION, edge=VERMILLION, line=1)
    pen.text(column + side + 0.1, row + side / 2, "a block\nof pixels", TINY, ha="left")
    for start, end in (
        ((0.6 + 1.6, row + side / 2), (column, row + side / 2)),
        ((column + side / 2, 0.2 + 1.6), (column + side / 2, row)),
    ):
        pen.arrow(start, end, FAINT, 1.2, 10, shrinkA=2, shrinkB=2)
    what = "its rows of u" if current is None else f"round {current}: a tile of u"
    pen.text(1.4, row - 0.14, what, TINY)
    what = "its columns of vt" if current is None else f"round {current}:\na tile of vt"
    pen.text(column + side + 0.1, 1.0, what, TINY, ha="left")
    return pen.picture.described(
        "A block of pixels of out needs the rows of u beside it and the columns of vt above it"
        + (f", cut into {rounds} tiles each" if rounds > 1 else "")
        + ("." if current is None else f"; in round {current} it uses tile {current} of both.")
    )


def tile_turn(side: int = 4) -> Picture:
    """Draw how a tile turns: filled by rows of the image, read by columns, stored by rows of out.

    Parameters
    ----------
    side : int
        Rows and columns of the drawn tile.
    """
    cell, gap = 0.42, 1.35
    width = 3 * side * cell + 2 * gap + 0.4
    pen = Pen(width, side * cell + 0.75)
    for number, name in enumerate(("image", "tile", "out")):
        left = 0.2 + number * (side * cell + gap)
        pen.text(left + side * cell / 2, 0.2, name, weight="bold")
        for row in range(side):
            for column in range(side):
                y, x = (row, column) if number < 2 else (column, row)  # its place in the image
                filled, read = number < 2 and row == 1, number > 0 and x == 2
                color = BLUE if filled else ORANGE if read else ""
                place = left + column * cell, 0.4 + row * cell
                pen.tint(*place, cell, cell, color, text=str(y * side + x))
        if number < 2:
            start = left + side * cell + 0.08
            middle = 0.4 + side * cell / 2
            ends = (start, middle), (start + gap - 0.16, middle)
            pen.arrow(*ends, FAINT, 1.4, 10, shrinkA=2, shrinkB=2)
            text = "load a row,\nfill a row" if number == 0 else "read a column,\nstore a row"
            pen.text(start + gap / 2 - 0.08, middle - 0.3, text, TINY)
    return pen.picture.described(
        f"A tile of {side} × {side} turns: a row of the image is loaded and fills a row of the "
        "tile; a column of the tile is read and stored as a row of out."
    )


# --- a barrier ----------------------------------------------------------------------------------


def barrier_timelines() -> Picture:
    """Draw two warps of a block in time: without a barrier one reads too early, with it both wait.

    The order on the left is one that may happen, not one that must.
    """
    pen = Pen(7.6, 2.1)
    panels = (
        (0.75, "without a barrier: this may happen", ((0.0, 0.8), (1.2, 2.0)), None),
        (4.55, "with cuda.syncthreads()", ((0.0, 2.1), (1.2, 2.1)), 2.0),
    )
    for left, title, starts, barrier in panels:
        pen.text(left + 1.4, 0.2, title, weight="bold")
        for warp, (fills, takes) in enumerate(starts):
            y = 0.5 + 0.6 * warp
            pen.text(left - 0.38, y + 0.2, f"warp {warp}", TINY)
            late = VERMILLION if barrier is None and warp == 0 else ORANGE
            for start, text, color in ((fills, "fills", BLUE), (takes, "reads", late)):
                look = {"edge": color, "line": 1, "text": text, "size": TINY}
                pen.tint(left + start, y, 0.75, 0.4, color, **look)
        if barrier is not None:
            pen.axes.plot([left + barrier] * 2, [0.42, 1.6], color=INK, linewidth=2.5)
            wait = {"arrowstyle": "-", "linestyle": ":", "shrinkA": 2, "shrinkB": 2}
            pen.arrow((left + barrier, 0.7), (left + 0.78, 0.7), FAINT, 1, **wait)
            pen.text(left + 1.38, 0.6, "waits", TINY, FAINT)
        pen.arrow((left, 1.75), (left + 2.95, 1.75), FAINT, 1, 10, shrinkA=2, shrinkB=2)
        pen.text(left + 1.4, 1.92, "time", TINY, FAINT)
    return pen.picture.described(
        "Two warps in time, which fill and then read. Without a barrier warp 0 may read before "
        "warp 1 has filled; with cuda.syncthreads() warp 0 waits until both have."
    )


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
    side, left = 0.32, 0.6
    pen = Pen(left + size * side + 0.15, 1.75)
    first = number * block
    for row, (name, start, end, offset) in enumerate(
        (("x", 0, size, 0), ("tile", first - radius, first + block + radius, first - radius))
    ):
        y = 0.25 + 0.72 * row
        pen.text(left / 2, y + side / 2, name, weight="bold")
        for element in range(start, end):
            own = first <= element < first + block
            near = first - radius <= element < first + block + radius
            color = BLUE if own else ORANGE if near else ""
            look = {"text": str(element - offset), "size": TINY - 0.5}
            pen.tint(left + element * side, y, side, side, color, **look)
    y = 0.25 + 0.72 + side + 0.2
    for start, end, text in (
        (first - radius, first, "halo"),
        (first, first + block, f"one element for each thread of block {number}"),
        (first + block, first + block + radius, "halo"),
    ):
        pen.text(left + (start + end) / 2 * side, y, text, TINY)
    return pen.picture.described(
        f"The tile of block {number} holds {block + 2 * radius} elements of x: one for each of "
        f"its {block} threads, and a halo of {radius} on either side."
    )


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
    width, height = 33 * side + 0.5, len(widths) * (rows * side + gap) + 0.05
    pen, found = Pen(width, height, (-0.35, width - 0.35)), []
    for number, width in enumerate(widths):
        top = number * (rows * side + gap) + 0.4
        banks = {row * width % BANKS for row in range(rows)}
        found.append((width, len(banks)))
        title = f"rows of {width} words: the first {rows} words of column 0 are in "
        title += "one bank" if len(banks) == 1 else f"{len(banks)} banks"
        pen.text(0, top - 0.18, title, ha="left")
        for row in range(rows):
            pen.text(-0.18, top + (row + 0.5) * side, str(row), TINY - 1, FAINT)
            for column in range(width):
                first = column == 0
                face = "" if not first else VERMILLION if len(banks) == 1 else BLUE
                pen.tint(
                    column * side, top + row * side, side, side, face, edge=GRID, line=0.7,
                    text=str((row * width + column) % BANKS), size=TINY - 1.5,
                    color=INK if first else FAINT, hatch="////" if column >= BANKS else None,
                )  # fmt: skip
    return pen.picture.described(
        "Rows of tiles with the bank of each word: "
        + listed(
            f"rows of {width} words: column 0 is in {count} bank{'s' * (count > 1)}"
            for width, count in found
        )
        + "."
    )
