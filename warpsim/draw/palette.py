"""The colours and markers of every picture."""

from matplotlib.colors import to_hex, to_rgb

# Colours that colour-blind readers can tell apart: M. Okabe and K. Ito, "Color Universal Design"
# (2008). Their yellow is left out: on white paper it is too pale for lines and text. Vermillion
# is taken for orange beside orange; in its place stands the red of P. Tol's "vibrant" scheme.
BLUE = "#0072B2"
VERMILLION = "#CC3311"
GREEN = "#009E73"
ORANGE = "#E69F00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"
BLACK = "#000000"
PALETTE = (BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # so that no line is told by its colour alone

INK = "#222222"  # text and axes
FAINT = "#767676"  # what is secondary; still 4.5 to 1 against the paper
GRID = "#DDDDDD"
#: Opaque: no one ink reads on white and on dark pages at 4.5 to 1, and here it is 15 to 1 on both.
PAPER = "#FFFFFF"


def pale(colour: str, white: float = 0.55) -> str:
    """A colour with so much white in it that text can be read on it."""
    return to_hex([white + (1 - white) * part for part in to_rgb(colour)])


def pale_of(number: int, white: float = 0.45) -> str:
    """The pale colour of the block, or the warp, of that number."""
    return pale(PALETTE[number % (len(PALETTE) - 1)], white)
