"""Drawings of lesson 17: fragments, numbers in two halves, swizzled tiles, orders of tiles."""

import numpy as np
from numba import int32, uint32

from course import cuda, trace
from course.plots.style import TINY, Pen, Picture
from course_lessons.lesson17 import hopper
from warpsim.draw.palette import BLUE, FAINT, GREEN, GRID, INK, ORANGE, PURPLE, VERMILLION, pale
from warpsim.ptx.mma import place_in_a, place_in_b, place_in_c

REGISTERS = (BLUE, ORANGE, GREEN, PURPLE)


# --- fragments ------------------------------------------------------------------------------------


def fragments(lane: int = 5) -> Picture:
    """Draw which lane holds which numbers of a, b and c; the simulator says where. One is framed.

    Parameters
    ----------
    lane : int
        The framed one.
    """
    side, top = 0.215, 0.62
    pen = Pen(8.05, top + 16 * side + 0.35)
    panels = (
        ("a, 16 × 16", 0.3, 16, 16, [place_in_a(r, p) for r in range(4) for p in range(2)], 2),
        ("b, 16 × 8", 4.1, 16, 8, [place_in_b(r, p) for r in range(2) for p in range(2)], 2),
        ("c, 16 × 8", 6.25, 16, 8, [place_in_c(r) for r in range(4)], 1),
    )
    for name, left, rows, columns, places, parts in panels:
        pen.text(left + columns * side / 2, 0.16, name, weight="bold")
        for column in range(columns):
            pen.text(left + (column + 0.5) * side, top - 0.1, str(column), TINY - 1.5, FAINT)
        for row in range(rows):
            pen.text(left - 0.1, top + (row + 0.5) * side, str(row), TINY - 1.5, FAINT)
        framed = []
        for number, (row, column) in enumerate(places):
            for its, (y, x) in enumerate(zip(row, column, strict=True)):
                place = left + x * side, top + y * side, side, side
                look = {"edge": GRID, "line": 0.5, "text": str(its), "size": TINY - 1.5}
                pen.tint(*place, REGISTERS[number // parts], **look)
                if its == lane:
                    framed.append(place)
        for place in framed:
            pen.box(*place, "none", INK, 1.6)
    below = top + 16 * side + 0.1
    words = f"each number is that of the lane; lane {lane} is framed; a colour is a register:"
    pen.text(0.3, below + side / 2, words, TINY, ha="left")
    for number, colour in enumerate(REGISTERS):
        pen.tint(4.4 + 0.3 * number, below, side, side, colour, text=str(number), size=TINY - 1.5)
    return pen.picture.described(
        "The 16 × 16 numbers of a, 16 × 8 of b and 16 × 8 sums, each with the lane that holds it. "
        f"Lane {lane}, of group {lane // 4}, has two neighbours in each of four places of a, two "
        "below each other in each of two places of b, and four sums in two rows."
    )


# --- two halves -----------------------------------------------------------------------------------


def halves() -> Picture:
    """Draw the 24 bits of a float32 number in two halves of 11."""
    pen = Pen(6.6, 1.75)
    cell = 0.2
    for row, (name, start, end, colour) in enumerate(
        (("float32", 0, 24, GREEN), ("upper", 0, 11, BLUE), ("lower", 12, 23, ORANGE))
    ):
        y = 0.2 + 0.42 * row
        pen.text(0.95, y + 0.15, name, ha="right", weight="bold")
        for bit in range(start, end):
            pen.tint(1.1 + bit * cell, y, cell, 0.3, colour)
    pen.text(1.1 + 11.5 * cell, 1.19, "±", weight="bold")  # the sign of lower is worth a bit
    pen.tint(1.1 + 23 * cell, 0.2, cell, 0.3, "", hatch="////")
    pen.text(1.1 + 22 * cell, 0.77, "1 bit may\nbe lost", size=TINY, ha="left")
    text = "bits of the fraction, the first one included; each half has its own exponent and sign"
    pen.text(0.3, 1.58, text, size=TINY, ha="left")
    return pen.picture.described(
        "The 24 bits of a float32 in two halves: 11 in upper, 11 in lower, whose sign is worth "
        "one more; 1 "
        "bit may be lost."
    )


# --- swizzles -------------------------------------------------------------------------------------


def _tile(flip):
    @cuda.jit
    def tile(out, seen):
        """Fill a tile of 8 rows of 32 words, copy it as it lies, read chunk 1 of each row."""
        shared = cuda.shared.array((8, 32), uint32)
        lane = int32(cuda.threadIdx.x)
        for row in range(8):
            shared[row, lane ^ (flip * (row % 8))] = lane // 4
        cuda.syncwarp()
        for row in range(8):
            out[row, lane] = shared[row, lane]
        g, q = lane // 4, lane % 4
        seen[lane] = shared[g, (4 + q) ^ (flip * (g % 8))]

    return tile


def lying(flip: int) -> tuple[np.ndarray, int]:
    """Which chunk of its row lies in each place of a tile, and wavefronts of reading chunk 1.

    Parameters
    ----------
    flip : int
        A word's column is changed by ^ (flip * row): 0 leaves it, 4 swizzles chunks of 4 words.
    """
    out, seen = np.zeros((8, 32), np.uint32), np.zeros(32, np.uint32)
    report = trace(_tile(flip), 1, 32, out, seen)
    lines = report.lines[(report.lines["space"] == "shared") & (report.lines["op"] == "load")]
    return out[:, ::4], int(lines["wavefronts"].iloc[-1])


def swizzle() -> Picture:
    """Draw a tile of 8 rows of 128 bytes, plain and swizzled, from the simulator's memory."""
    wide, high, top = 0.4, 0.25, 0.85
    pen = Pen(7.6, top + 8 * high + 0.4)
    shown = []
    for left, flip, title in ((0.45, 0, "as they come"), (4.15, 4, "swizzled: chunk ^ row")):
        chunks, wavefronts = lying(flip)
        shown.append(wavefronts)
        pen.text(left + 4 * wide, 0.16, title, weight="bold")
        pen.text(
            left + 4 * wide, 0.4, f"chunk 1 of eight rows: {wavefronts} wavefront"
            + "s" * (wavefronts > 1), TINY,
        )  # fmt: skip
        for place in range(8):
            banks = f"{4 * place}-{4 * place + 3}"
            pen.text(left + (place + 0.5) * wide, top - 0.12, banks, TINY - 1.5, FAINT)
        for row in range(8):
            pen.text(left - 0.13, top + (row + 0.5) * high, str(row), TINY - 1, FAINT)
            for place, chunk in enumerate(chunks[row]):
                pen.tint(
                    left + place * wide, top + row * high, wide, high,
                    (VERMILLION if wavefronts > 1 else BLUE) if chunk == 1 else "",
                    edge=GRID, line=0.7, text=str(chunk), size=TINY,
                )  # fmt: skip
    words = (
        "a box: 16 bytes, 8 halves, four banks (above); the number in it: which chunk of its row"
    )
    pen.text(0.3, top + 8 * high + 0.2, words, TINY, ha="left")
    return pen.picture.described(
        "Eight rows of a tile, eight chunks of 16 bytes each. As they come chunk 1 of all rows "
        f"lies in the same four banks, and reading it takes {shown[0]} wavefronts; with chunk ^ "
        f"row it lies in other banks in each row, and takes {shown[1]}."
    )


# --- orders of tiles ------------------------------------------------------------------------------


def orders(down: int = 12, across: int = 12, at_once: int = 16, band: int = 4) -> Picture:
    """Draw the tiles of the first wave, row by row and in bands, and the strips that they need.

    Parameters
    ----------
    down, across : int
        Tiles of the result.
    at_once : int
        Tiles of a wave.
    band : int
        Rows of tiles of a band on the right; on the left it is 1.
    """
    side, top = 0.2, 0.75
    pen = Pen(7.2, top + down * side + 0.25)
    shown = []
    for left, high, title in ((0.4, 1, "row by row"), (4.0, band, f"bands of {band} rows")):
        first = [hopper.tile_of(number, down, across, high) for number in range(at_once)]
        rows, columns = (set(part) for part in zip(*first, strict=True))
        strips = len(rows) + len(columns)
        shown.append(strips)
        pen.text(left + across * side / 2, 0.16, title, weight="bold")
        words = f"{len(rows)} strips of a + {len(columns)} of b = {strips}"
        pen.text(left + across * side / 2, 0.4, words, TINY)
        for row in range(down):
            if row in rows:
                pen.box(left - 0.16, top + row * side, 0.1, side, pale(BLUE), GRID, 0.5)
            for column in range(across):
                its = (row, column) in first
                text = str(first.index((row, column))) if its else ""
                look = {"edge": GRID, "line": 0.6, "text": text, "size": TINY - 1.5}
                pen.tint(left + column * side, top + row * side, side, side,
                         GREEN if its else "", **look)  # fmt: skip
        for column in columns:
            pen.box(left + column * side, top - 0.16, side, 0.1, pale(ORANGE), GRID, 0.5)
    return pen.picture.described(
        f"The first {at_once} of {down} × {across} tiles. Row by row they need {shown[0]} strips "
        f"of a and b, in bands of {band} rows {shown[1]}."
    )
