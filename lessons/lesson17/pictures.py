"""Drawings of lesson 17: a number in two halves."""

from course.plots.style import TINY, Pen, Picture
from warpsim.draw.palette import BLUE, GREEN, ORANGE


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
