"""Drawings of lesson 06: tiles in registers, lanes and banks, buffers, warp tiles."""

import numpy as np

from course.plots.style import TINY, Pen, Picture, listed
from warpsim.draw.palette import BLUE, FAINT, GREEN, GRID, INK, ORANGE, SKY, VERMILLION

BANKS = 32


# --- what a thread reads and makes --------------------------------------------------------------


def outer_products(tiles: tuple[tuple[int, int], ...] = ((1, 1), (8, 1), (8, 8))) -> Picture:
    """Draw, for one i, the numbers that a thread reads and the products that it makes of them.

    Parameters
    ----------
    tiles : tuple of (rows, columns)
        Pixels of the thread.
    """
    cell, panel = 0.19, 2.5
    pen = Pen(panel * len(tiles), 2.75)
    for number, (rows, columns) in enumerate(tiles):
        left, top = (number + 0.5) * panel - (columns + 1.5) * cell / 2, 0.85
        title = f"{rows} × {columns} pixel{'s' * (rows * columns > 1)}"
        pen.text(number * panel + panel / 2, 0.17, title, weight="bold")
        for m in range(rows):
            pen.tint(left, top + m * cell, cell, cell, BLUE)
        for n in range(columns):
            pen.tint(left + (n + 1.5) * cell, top - 1.5 * cell, cell, cell, ORANGE)
            for m in range(rows):
                pen.tint(left + (n + 1.5) * cell, top + m * cell, cell, cell, GREEN)
        pen.text(left - 0.16, top + rows * cell / 2, "u", style="italic")
        pen.text(left + 1.0 * cell, top - 1.0 * cell, "vt", style="italic", ha="right")
        reads, products = rows + columns, rows * columns
        text = f"{reads} reads, {products} product{'s' * (products > 1)}\n"
        text += f"{reads / products:.4g} read{'s' * (reads != products)} for each"
        pen.text(number * panel + panel / 2, 2.55, text, size=TINY + 0.5)
    return pen.picture.described(
        "What a thread reads of u and vt, and the products that it makes of it: "
        + listed(f"{m} × {n} pixels, {m + n} reads for {m * n} products" for m, n in tiles)
        + "."
    )


def column_tile(rows: int = 64, columns: int = 64, depth: int = 8, results: int = 8) -> Picture:
    """Draw section 4's block: tiles of u and vt, its pixels, one thread's column of them."""
    pen = Pen(6.9, 3.5)
    scale = 2.3 / rows
    left, top = 2.2, 0.95
    wide, high, deep = columns * scale, rows * scale, depth * scale * 1.6
    pen.tint(left - deep - 0.15, top, deep, high, BLUE)
    pen.text(left - deep - 0.22, top + high / 2, f"u_tile\n{rows} × {depth}", ha="right")
    pen.tint(left, top - deep - 0.15, wide, deep, ORANGE)
    beside = left + wide + 0.08
    pen.text(beside, top - deep / 2 - 0.15, f"vt_tile\n{depth} × {columns}", ha="left")
    pen.tint(left, top, wide, high)
    x, y, tall = left + 0.3 * wide, top + results * 2 * scale, results * scale
    pen.tint(left, y, wide, tall, SKY, edge=SKY)
    for n in range(results):
        pen.tint(x, y + n * scale, 0.055, scale, VERMILLION, line=0.4)
        pen.tint(left - deep - 0.15, y + n * scale, deep, scale, BLUE, line=0.3)
    pen.tint(x, top - deep - 0.15, 0.055, deep, VERMILLION, line=0.4)
    pen.tint(left - deep - 0.15, y, deep, tall, VERMILLION, line=0.8)
    text = f"one thread: {results} pixels of a column\nits neighbours in x: the next columns"
    pen.text(beside, y + tall / 2, text, TINY, ha="left")
    text = f"the block's {rows} × {columns} pixels:\n{rows * columns // results} threads, "
    text += f"{columns} side by side,\n{rows // results} groups of {results} rows"
    pen.text(beside, top + high * 0.72, text, TINY, ha="left")
    return pen.picture.described(
        f"A block of {rows} × {columns} pixels with its tiles: u_tile, {rows} × {depth}, on its "
        f"left, vt_tile, {depth} × {columns}, above; one thread makes {results} pixels of a column."
    )


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
        "square": each lane has 8 neighbours, and reads its first; "wide": fours that touch.
    """
    words, count = fragment_words(kind)
    side = 0.215
    pen = Pen(BANKS * side + 0.65, 1.75)
    read = {int(word) + e: lane for lane, word in enumerate(words) for e in range(count)}
    first = {bank for bank in range(BANKS) if sum(word % BANKS == bank for word in read) > 1}
    for word in range(4 * BANKS):
        row, bank = divmod(word, BANKS)
        x, y = 0.55 + bank * side, 0.62 + row * 0.26
        lane = read.get(word)
        colour = "" if lane is None else VERMILLION if count == 1 else (BLUE, SKY)[lane % 2]
        pen.tint(x, y, side, 0.24, colour, edge=GRID)
        if lane is not None:
            pen.text(x + side / 2, y + 0.125, str(lane), TINY - 1)
    for bank in range(0, BANKS, 4):
        pen.text(0.55 + (bank + 0.5) * side, 0.5, str(bank), size=TINY - 1, color=FAINT)
    for row in range(4):
        text = f"{32 * row}–"
        pen.text(0.3, 0.745 + row * 0.26, text, size=TINY - 1, color=FAINT)
    pen.text(0.3, 0.5, "bank", size=TINY - 1, color=FAINT)
    text = (
        f"vt_tile[i, column + n], n = 0: 16 words in {len(first)} banks, 4 in each"
        if count == 1
        else "load4(vt_tile, (i, column)): 64 words side by side, 8 lanes fill all banks"
    )
    pen.text(0.1, 0.2, text + " (numbers: lanes)", ha="left")
    return pen.picture.described(
        "A row of vt_tile in lines of 32 banks: "
        + (
            f"16 lanes read 16 words in {len(first)} banks, 4 in each."
            if count == 1
            else "16 lanes read 64 words side by side, so that 8 lanes fill all banks."
        )
    )


def quarters(size: int = 128, lane: int = 5) -> Picture:
    """Draw where a thread's 8 x 8 pixels lie in the block's: one square, or four quarters."""
    pen = Pen(6.6, 2.95)
    scale = 2.3 / size
    for left, title, parts in (
        (0.25, "square: one square", [(8 * lane, 24, 8)]),
        (3.55, "wide: four quarters, half a tile apart",
         [(4 * lane + x, 12 + y, 4) for x in (0, size // 2) for y in (0, size // 2)]),
    ):  # fmt: skip
        pen.text(left, 0.2, title, ha="left", weight="bold")
        pen.tint(left, 0.45, 2.3, 2.3)
        step = parts[0][2]
        for other in range(16):  # the lanes beside it
            for x, y, side in parts:
                place = x - step * lane + step * other
                colour, part = VERMILLION if other == lane else SKY, side * scale
                pen.tint(left + place * scale, 0.45 + y * scale, part, part, colour, line=0.3)
    pen.text(2.62, 1.6, f"{size} × {size}\npixels", ha="left", size=TINY)
    return pen.picture.described(
        f"A thread's 8 × 8 pixels in a block of {size} × {size}: in `square` one square, in "
        "`wide` four squares of 4 × 4, half a tile apart."
    )


def turned_words(pitch: int) -> np.ndarray:
    """The word of the turned tile that each lane writes first, as in `wide`."""
    lane = np.arange(32)
    return lane % 2 * 4 * pitch + lane // 2


def turned_banks(pitches: tuple[int, ...] = (128, 132)) -> Picture:
    """Draw how many words of a warp's store into the turned tile meet in each bank."""
    pen = Pen(7.4, 0.95 * len(pitches) + 0.2)
    side = 0.215
    for number, pitch in enumerate(pitches):
        top = 0.95 * number + 0.2
        banks = turned_words(pitch) % BANKS
        most = int(np.bincount(banks).max())
        text = f"row stride {pitch}: {most} wavefront{'s' * (most > 1)} (numbers: lanes)"
        pen.text(0.2, top, text, ha="left")
        for bank in range(BANKS):
            x = 0.2 + bank * side
            pen.tint(x, top + 0.16, side, 0.46, edge=GRID)
            for place, lane in enumerate(np.flatnonzero(banks == bank)):
                colour = BLUE if lane % 2 == 0 else ORANGE
                words = {"text": str(lane), "size": TINY - 1}
                pen.tint(x, top + 0.16 + 0.23 * place, side, 0.23, colour, edge=GRID, **words)
    return pen.picture.described(
        "How many words of a warp's store into the turned tile meet in a bank: "
        + listed(
            f"row stride {pitch}, up to {np.bincount(turned_words(pitch) % BANKS).max()}"
            for pitch in pitches
        )
        + "."
    )


# --- two buffers --------------------------------------------------------------------------------


def buffers() -> Picture:
    """Draw the rounds of a block in time, with one buffer and with two."""
    pen = Pen(7.4, 2.55)

    def span(x, y, width, colour, text):
        pen.tint(x, y, width, 0.34, colour, text=text, size=TINY - 0.5)

    def barrier(x, top, bottom):
        pen.axes.plot([x, x], [top, bottom], color=INK, linewidth=2)

    for top, title, double in ((0.2, "one buffer", False), (1.4, "two buffers", True)):
        pen.text(0.15, top, title, ha="left", weight="bold")
        x = 0.15
        if double:
            span(x, top + 0.15, 0.75, BLUE, "load 0")
            span(x + 0.75, top + 0.15, 0.3, SKY, "put")
            x = 1.2
            for tile in range(4):
                barrier(x + 0.03, top + 0.13, top + 0.89)
                if tile < 3:
                    span(x + 0.08, top + 0.53, 0.75, BLUE, f"load {tile + 1}")
                    span(x + 1.0, top + 0.15, 0.3, SKY, "put")
                span(x + 0.08, top + 0.15, 0.92, GREEN, f"multiply {tile}")
                x += 1.33
        else:
            for tile in range(3):
                span(x, top + 0.15, 0.75, BLUE, f"load {tile}")
                span(x + 0.75, top + 0.15, 0.3, SKY, "put")
                barrier(x + 1.1, top + 0.13, top + 0.52)
                span(x + 1.15, top + 0.15, 0.92, GREEN, f"multiply {tile}")
                barrier(x + 2.12, top + 0.13, top + 0.52)
                x += 2.2
    pen.arrow((0.15, 2.42), (7.0, 2.42), FAINT, head=10)
    pen.text(7.2, 2.42, "time", size=TINY, color=FAINT)
    pen.text(4.6, 1.4, "thick lines: barriers", size=TINY, color=FAINT, ha="left")
    return pen.picture.described(
        "The rounds of a block in time. With one buffer: load, put, barrier, multiply, barrier. "
        "With two: while a tile is multiplied the next one is loaded; one barrier a round."
    )


# --- the last rung ------------------------------------------------------------------------------


def warp_tile() -> Picture:
    """Draw the last rung's block of 128 x 128 pixels, a warp's tile of it, and a thread's fours."""
    pen = Pen(7.6, 3.1)
    colours = (BLUE, ORANGE, SKY, GREEN)
    pen.text(0.2, 0.2, "block: 128 × 128, 8 warps", ha="left", weight="bold")
    for warp in range(8):
        x, y = 0.2 + warp // 4 * 1.2, 0.45 + warp % 4 * 0.6
        colour = VERMILLION if warp == 4 else colours[warp % 4]
        pen.tint(x, y, 1.2, 0.6, colour, text=f"warp {warp}", size=TINY)
    scale = 4.3 / 64
    left, top = 3.05, 0.45
    pen.text(left, 0.2, "warp: 32 × 64, lanes 4 down and 8 across", ha="left", weight="bold")
    for half_row in range(2):
        for half_column in range(2):
            for lane in range(32):
                x = left + (half_column * 32 + lane // 2 % 8 * 4) * scale
                y = top + (half_row * 16 + (lane // 16 * 2 + lane % 2) * 4) * scale
                fill, ink = (VERMILLION, INK) if lane == 9 else ("", FAINT)
                words = {"text": str(lane), "size": TINY - 1, "color": ink}
                pen.tint(x, y, 4 * scale, 4 * scale, fill, line=0.6, **words)
    text = "a square: 4 × 4 pixels of the lane that stands in it; a lane has four, 8 × 8 in all"
    pen.text(0.2, 2.98, text, size=TINY, ha="left")
    pen.arrow((2.63, 0.75), (left - 0.04, 0.75), FAINT, head=10)
    return pen.picture.described(
        "A block of 128 × 128 pixels has 8 warps, two columns of four; each has 32 × 64 pixels, "
        "its lanes stand 4 down and 8 across, and each lane has four squares of 4 × 4 pixels."
    )
