"""Drawings of lesson 06: tiles in registers, lanes and banks, buffers, warp tiles, halves."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.patches import Rectangle

from course.drawing import (
    BLUE,
    FAINT,
    FONT_SIZE,
    GREEN,
    GRID,
    INK,
    ORANGE,
    PAPER,
    SKY,
    VERMILLION,
    Picture,
)

BANKS = 32
SMALL = FONT_SIZE - 1.5


def _blank(width: float, height: float) -> tuple[Picture, Axes]:
    """A picture of so many inches, its axes in inches from the upper left corner."""
    picture = Picture(width, height)
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    return picture, axes


def _box(axes: Axes, x: float, y: float, width: float, height: float, color: str = "", **more):
    style = {"facecolor": _pale(color) if color else PAPER, "edgecolor": FAINT, "linewidth": 0.8}
    axes.add_patch(Rectangle((x, y), width, height, **(style | more)))


def _write(axes: Axes, x: float, y: float, text: str, *, size: float = FONT_SIZE, **more) -> None:
    style = {"ha": "center", "va": "center", "color": INK, "parse_math": False}
    axes.text(x, y, text, fontsize=size, **(style | more))


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    arrow = {"arrowstyle": "-|>", "color": FAINT, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=arrow)


def _pale(color: str, share: float = 0.55) -> str:
    """A colour of the palette, light enough for text on it."""
    return to_hex([share + (1 - share) * part for part in to_rgb(color)])


# --- what a thread reads and makes --------------------------------------------------------------


def outer_products(tiles: tuple[tuple[int, int], ...] = ((1, 1), (8, 1), (8, 8))) -> Picture:
    """Draw, for one i, the numbers that a thread reads and the products that it makes of them.

    Parameters
    ----------
    tiles : tuple of (rows, columns)
        Pixels of the thread.
    """
    cell, panel = 0.19, 2.5
    picture, axes = _blank(panel * len(tiles), 2.75)
    for number, (rows, columns) in enumerate(tiles):
        left, top = (number + 0.5) * panel - (columns + 1.5) * cell / 2, 0.85
        title = f"{rows} × {columns} pixel{'s' * (rows * columns > 1)}"
        _write(axes, number * panel + panel / 2, 0.17, title, weight="bold")
        for m in range(rows):
            _box(axes, left, top + m * cell, cell, cell, BLUE)
        for n in range(columns):
            _box(axes, left + (n + 1.5) * cell, top - 1.5 * cell, cell, cell, ORANGE)
            for m in range(rows):
                _box(axes, left + (n + 1.5) * cell, top + m * cell, cell, cell, GREEN)
        _write(axes, left - 0.16, top + rows * cell / 2, "u", style="italic")
        _write(axes, left + 1.0 * cell, top - 1.0 * cell, "vt", style="italic", ha="right")
        reads, products = rows + columns, rows * columns
        text = f"{reads} reads, {products} product{'s' * (products > 1)}\n"
        text += f"{reads / products:.4g} read{'s' * (reads != products)} for each"
        _write(axes, number * panel + panel / 2, 2.55, text, size=SMALL + 0.5)
    return picture


def column_tile(rows: int = 64, columns: int = 64, depth: int = 8, results: int = 8) -> Picture:
    """Draw step 5's block: tiles of u and vt, the block's pixels, one thread's column of them."""
    picture, axes = _blank(6.9, 3.5)
    scale = 2.3 / rows
    left, top = 2.2, 0.95
    wide, high, deep = columns * scale, rows * scale, depth * scale * 1.6
    _box(axes, left - deep - 0.15, top, deep, high, BLUE)
    _write(axes, left - deep - 0.22, top + high / 2, f"u_tile\n{rows} × {depth}", ha="right")
    _box(axes, left, top - deep - 0.15, wide, deep, ORANGE)
    _write(
        axes, left + wide + 0.08, top - deep / 2 - 0.15, f"vt_tile\n{depth} × {columns}", ha="left"
    )
    _box(axes, left, top, wide, high)
    x, y, tall = left + 0.3 * wide, top + results * 2 * scale, results * scale
    _box(axes, left, y, wide, tall, SKY, edgecolor=SKY)
    for n in range(results):
        _box(axes, x, y + n * scale, 0.055, scale, VERMILLION, linewidth=0.4)
        _box(axes, left - deep - 0.15, y + n * scale, deep, scale, BLUE, linewidth=0.3)
    _box(axes, x, top - deep - 0.15, 0.055, deep, VERMILLION, linewidth=0.4)
    _box(axes, left - deep - 0.15, y, deep, tall, VERMILLION, linewidth=0.8)
    _write(
        axes, left + wide + 0.08, y + tall / 2,
        f"one thread: {results} pixels of a column\nits neighbours in x: the next columns",
        ha="left", size=SMALL,
    )  # fmt: skip
    _write(
        axes, left + wide + 0.08, top + high * 0.72,
        f"the block's {rows} × {columns} pixels:\n{rows * columns // results} threads, "
        f"{columns} side by side,\n{rows // results} groups of {results} rows",
        ha="left", size=SMALL,
    )  # fmt: skip
    return picture


# --- lanes and banks ----------------------------------------------------------------------------


def fragment_words(kind: str) -> tuple[np.ndarray, int]:
    """First word of vt_tile's row that each of 16 lanes side by side reads, and how many each."""
    lane = np.arange(16)
    return (lane * 8, 1) if kind == "square" else (lane * 4, 4)


def fragment_banks(kind: str = "square") -> Picture:
    """Draw a row of vt_tile in lines of 32 banks, and what 16 lanes read with one instruction.

    Parameters
    ----------
    kind : {"square", "wide"}
        Step 6: each lane has 8 neighbours, and reads its first; step 7: fours that touch.
    """
    words, count = fragment_words(kind)
    side = 0.215
    picture, axes = _blank(BANKS * side + 0.65, 1.75)
    read = {int(word) + e: lane for lane, word in enumerate(words) for e in range(count)}
    first = {bank for bank in range(BANKS) if sum(word % BANKS == bank for word in read) > 1}
    for word in range(4 * BANKS):
        row, bank = divmod(word, BANKS)
        colour = (
            "" if word not in read else VERMILLION if count == 1 else (BLUE, SKY)[read[word] % 2]
        )
        x, y = 0.55 + bank * side, 0.62 + row * 0.26
        _box(axes, x, y, side, 0.24, colour, edgecolor=GRID)
        if word in read:
            _write(axes, x + side / 2, y + 0.125, str(read[word]), size=SMALL - 1)
    for bank in range(0, BANKS, 4):
        _write(axes, 0.55 + (bank + 0.5) * side, 0.5, str(bank), size=SMALL - 1, color=FAINT)
    for row in range(4):
        text = f"{32 * row}–"
        _write(axes, 0.3, 0.745 + row * 0.26, text, size=SMALL - 1, color=FAINT)
    _write(axes, 0.3, 0.5, "bank", size=SMALL - 1, color=FAINT)
    text = (
        f"vt_tile[i, column + n], n = 0: 16 words in {len(first)} banks, 4 in each"
        if count == 1
        else "load4(vt_tile, (i, column)): 64 words side by side, 8 lanes fill all banks"
    )
    _write(axes, 0.1, 0.2, text + " (numbers: lanes)", ha="left")
    return picture


def quarters(size: int = 128, lane: int = 5) -> Picture:
    """Draw where a thread's 8 x 8 pixels lie in the block's: one square, or four quarters."""
    picture, axes = _blank(6.6, 2.95)
    scale = 2.3 / size
    for left, title, parts in (
        (0.25, "step 6: one square", [(8 * lane, 24, 8)]),
        (3.55, "step 7: four quarters, half a tile apart",
         [(4 * lane + x, 12 + y, 4) for x in (0, size // 2) for y in (0, size // 2)]),
    ):  # fmt: skip
        _write(axes, left, 0.2, title, ha="left", weight="bold")
        _box(axes, left, 0.45, 2.3, 2.3)
        step = parts[0][2]
        for other in range(16):  # the lanes beside it
            for x, y, side in parts:
                place = x - step * lane + step * other
                _box(
                    axes, left + place * scale, 0.45 + y * scale, side * scale, side * scale,
                    VERMILLION if other == lane else SKY, linewidth=0.3,
                )  # fmt: skip
    _write(axes, 2.62, 1.6, f"{size} × {size}\npixels", ha="left", size=SMALL)
    return picture


def turned_words(pitch: int) -> np.ndarray:
    """The word of the turned tile that each lane writes first, as in step 7."""
    lane = np.arange(32)
    return lane % 2 * 4 * pitch + lane // 2


def turned_banks(pitches: tuple[int, ...] = (128, 132)) -> Picture:
    """Draw how many words of a warp's store into the turned tile meet in each bank."""
    picture, axes = _blank(7.4, 0.95 * len(pitches) + 0.2)
    side = 0.215
    for number, pitch in enumerate(pitches):
        top = 0.95 * number + 0.2
        banks = turned_words(pitch) % BANKS
        most = int(np.bincount(banks).max())
        text = f"pitch {pitch}: {most} wavefront{'s' * (most > 1)} (banks 0 to 31; numbers: lanes)"
        _write(axes, 0.2, top, text, ha="left")
        for bank in range(BANKS):
            x = 0.2 + bank * side
            _box(axes, x, top + 0.16, side, 0.46, edgecolor=GRID)
            for place, lane in enumerate(np.flatnonzero(banks == bank)):
                colour = BLUE if lane % 2 == 0 else ORANGE
                _box(axes, x, top + 0.16 + 0.23 * place, side, 0.23, colour, edgecolor=GRID)
                _write(axes, x + side / 2, top + 0.275 + 0.23 * place, str(lane), size=SMALL - 1)
    return picture


# --- two buffers --------------------------------------------------------------------------------


def buffers() -> Picture:
    """Draw the rounds of a block in time, with one buffer and with two."""
    picture, axes = _blank(7.4, 2.55)
    for top, title, double in ((0.2, "one buffer", False), (1.4, "two buffers", True)):
        _write(axes, 0.15, top, title, ha="left", weight="bold")
        x = 0.15
        if double:
            _span(axes, x, top + 0.15, 0.75, "load 0", BLUE)
            _span(axes, x + 0.75, top + 0.15, 0.3, "put", SKY)
            x = 1.2
            for tile in range(4):
                axes.plot([x + 0.03] * 2, [top + 0.13, top + 0.89], color=INK, linewidth=2)
                if tile < 3:
                    _span(axes, x + 0.08, top + 0.53, 0.75, f"load {tile + 1}", BLUE)
                    _span(axes, x + 1.0, top + 0.15, 0.3, "put", SKY)
                _span(axes, x + 0.08, top + 0.15, 0.92, f"multiply {tile}", GREEN)
                x += 1.33
        else:
            for tile in range(3):
                _span(axes, x, top + 0.15, 0.75, f"load {tile}", BLUE)
                _span(axes, x + 0.75, top + 0.15, 0.3, "put", SKY)
                axes.plot([x + 1.1] * 2, [top + 0.13, top + 0.52], color=INK, linewidth=2)
                _span(axes, x + 1.15, top + 0.15, 0.92, f"multiply {tile}", GREEN)
                axes.plot([x + 2.12] * 2, [top + 0.13, top + 0.52], color=INK, linewidth=2)
                x += 2.2
    _arrow(axes, (0.15, 2.42), (7.0, 2.42))
    _write(axes, 7.2, 2.42, "time", size=SMALL, color=FAINT)
    _write(axes, 4.6, 1.4, "thick lines: barriers", size=SMALL, color=FAINT, ha="left")
    return picture


def _span(axes: Axes, x: float, y: float, width: float, text: str, colour: str) -> None:
    _box(axes, x, y, width, 0.34, colour)
    _write(axes, x + width / 2, y + 0.17, text, size=SMALL - 0.5)


# --- step 9 -------------------------------------------------------------------------------------


def pieces() -> Picture:
    """Draw the five pieces of step 9 on the way of a number, from memory to memory."""
    picture, axes = _blank(8.0, 2.2)
    places = ((0.1, "global\nmemory"), (1.75, "registers"), (3.4, "shared\nmemory"),
              (5.05, "registers\na, b"), (6.7, "registers\ntotal"))  # fmt: skip
    for number, (x, name) in enumerate(places):
        _box(axes, x, 0.75, 1.05, 0.6, (BLUE, ORANGE, SKY, ORANGE, GREEN)[number])
        _write(axes, x + 0.525, 1.05, name, size=SMALL + 0.5)
    for x, name, what in (
        (1.15, "bring", "load a tile"), (2.8, "put", "u turned"), (4.45, "read", "a fragment"),
        (6.1, "multiply", "outer product"),
    ):  # fmt: skip
        _arrow(axes, (x + 0.04, 1.05), (x + 0.56, 1.05))
        _write(axes, x + 0.3, 0.5, name, weight="bold")
        _write(axes, x + 0.3, 0.25, what, size=SMALL)
    axes.plot([7.22, 7.22, 0.62], [1.35, 1.85, 1.85], color=FAINT, linewidth=1.3)
    _arrow(axes, (0.62, 1.85), (0.62, 1.37))
    _write(axes, 4.0, 1.72, "save", weight="bold")
    _write(axes, 4.0, 2.0, "at the end, once", size=SMALL)
    return picture


def warp_tile() -> Picture:
    """Draw step 9's block of 128 x 128 pixels, a warp's tile of it, and a thread's fours."""
    picture, axes = _blank(7.6, 3.1)
    colours = (BLUE, ORANGE, SKY, GREEN)
    _write(axes, 0.2, 0.2, "block: 128 × 128, 8 warps", ha="left", weight="bold")
    for warp in range(8):
        x, y = 0.2 + warp // 4 * 1.2, 0.45 + warp % 4 * 0.6
        _box(axes, x, y, 1.2, 0.6, VERMILLION if warp == 4 else colours[warp % 4])
        _write(axes, x + 0.6, y + 0.3, f"warp {warp}", size=SMALL)
    scale = 4.3 / 64
    left, top = 3.05, 0.45
    _write(axes, left, 0.2, "warp: 32 × 64, lanes 4 down and 8 across", ha="left", weight="bold")
    for half_row in range(2):
        for half_column in range(2):
            for lane in range(32):
                x = left + (half_column * 32 + lane // 2 % 8 * 4) * scale
                y = top + (half_row * 16 + (lane // 16 * 2 + lane % 2) * 4) * scale
                mine = lane == 9
                _box(axes, x, y, 4 * scale, 4 * scale, VERMILLION if mine else "", linewidth=0.6)
                _write(
                    axes, x + 2 * scale, y + 2 * scale, str(lane), size=SMALL - 1,
                    color=INK if mine else FAINT,
                )  # fmt: skip
    text = "a square: 4 × 4 pixels of the lane that stands in it; a lane has four, 8 × 8 in all"
    _write(axes, 0.2, 2.98, text, size=SMALL, ha="left")
    _arrow(axes, (2.63, 0.75), (left - 0.04, 0.75))
    return picture


# --- halves -------------------------------------------------------------------------------------


def halves() -> Picture:
    """Draw the 24 bits of a float32 number in two halves of 11."""
    picture, axes = _blank(6.6, 1.75)
    cell = 0.2
    for row, (name, start, end, colour) in enumerate(
        (("float32", 0, 24, GREEN), ("upper", 0, 11, BLUE), ("lower", 11, 22, ORANGE))
    ):
        y = 0.2 + 0.42 * row
        _write(axes, 0.95, y + 0.15, name, ha="right", weight="bold")
        for bit in range(start, end):
            _box(axes, 1.1 + bit * cell, y, cell, 0.3, colour)
    _box(axes, 1.1 + 22 * cell, 0.2, 2 * cell, 0.3, "", hatch="////")
    _write(axes, 1.1 + 22 * cell, 0.77, "2 bits\nlost", size=SMALL, ha="left")
    text = "bits of the fraction, the first one included; each half has its own exponent and sign"
    _write(axes, 0.3, 1.58, text, size=SMALL, ha="left")
    return picture
