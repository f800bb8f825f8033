"""What every picture is drawn with: one palette, white paper, and figures that show themselves.

Nothing here touches `matplotlib.pyplot`, so no figure stays open and none is shown twice.
"""

import io
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

# Colours that colour-blind readers can tell apart: M. Okabe and K. Ito, "Color Universal Design"
# (2008). Their yellow is left out: on white paper it is too pale for lines and text.
BLUE = "#0072B2"
VERMILLION = "#D55E00"
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
PAPER = "#FFFFFF"  # opaque, so that a picture reads the same in a dark and a light notebook
FONT_SIZE = 9.0
SCREEN_DPI = 100


class Picture(Figure):
    """A Matplotlib figure that a notebook shows as a PNG, with or without pyplot's machinery."""

    #: For a drawing of few flat colours: the file keeps so many, the most frequent ones, exactly.
    flat_colours: int | None = None

    def __init__(self, width: float, height: float):
        super().__init__(figsize=(width, height), dpi=SCREEN_DPI, facecolor=PAPER)
        FigureCanvasAgg(self)

    def __repr__(self) -> str:
        return "<a picture>"

    def png(self, dpi: float = SCREEN_DPI) -> bytes:
        """Return the picture as the bytes of a PNG file."""
        buffer = io.BytesIO()
        # No software version in the file: the same picture is the same bytes on every machine
        # with the same Matplotlib.
        self.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
        return _slimmed(buffer, self.flat_colours)

    def save(self, path: str | Path, dpi: float = SCREEN_DPI) -> None:
        """Write the picture as a PNG file."""
        Path(path).write_bytes(self.png(dpi))

    def _repr_png_(self) -> bytes:
        return self.png()


def _slimmed(png: io.BytesIO, flat_colours: int | None = None) -> bytes:
    """The same picture in a third to a half of the bytes: grey, or at most 256 colours."""
    drawn = Image.open(png).convert("RGB")
    red, green, blue = np.moveaxis(np.asarray(drawn), -1, 0)
    grey = np.array_equal(red, green) and np.array_equal(green, blue)
    if grey:
        slim = drawn.convert("L")
    elif flat_colours is None:
        slim = drawn.quantize(256, dither=Image.Dither.NONE)
    else:
        slim = _flat(np.asarray(drawn), flat_colours)
    buffer = io.BytesIO()
    slim.save(buffer, format="png", optimize=True, dpi=Image.open(png).info.get("dpi"))
    return buffer.getvalue()


def _flat(drawn: np.ndarray, colours: int) -> Image.Image:
    """The picture in its most frequent colours; every other pixel takes the nearest of them."""
    packed = drawn.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    found, place, amount = np.unique(packed, return_inverse=True, return_counts=True)
    kept = found[np.argsort(-amount, kind="stable")[:colours]]
    parts, centres = (
        np.stack([values >> 16, values >> 8 & 255, values & 255], axis=1).astype(np.int32)
        for values in (found, kept)
    )
    nearest = ((parts[:, None] - centres) ** 2).sum(2).argmin(1).astype(np.uint8)
    slim = Image.fromarray(nearest[place].reshape(packed.shape))
    slim.putpalette(centres.astype(np.uint8).tobytes())
    return slim


def style(axes: Axes) -> Axes:
    """Give axes the course's look: ink, a faint grid, no box."""
    axes.set_facecolor(PAPER)
    axes.grid(True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK, labelsize=FONT_SIZE - 1)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set(color=INK, fontsize=FONT_SIZE)
    return axes


def shortened(text: str, longest: int) -> str:
    """Return the text, its middle replaced by an ellipsis where it is too long."""
    if len(text) <= longest:
        return text
    head = max((longest - 1) // 2, 1)
    tail = max(longest - 1 - head, 1)
    return f"{text[:head]}…{text[-tail:]}"
