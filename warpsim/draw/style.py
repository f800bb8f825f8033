"""What every picture is drawn with: one look of words, one pen, figures that show themselves.

Nothing here touches `matplotlib.pyplot`, so no figure stays open and none is shown twice; nor its
settings, so pictures look the same beside figures of another style.
"""

import base64
import io
import os
from collections.abc import Callable, Iterable
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.patches import Rectangle
from PIL import Image, ImageDraw

from warpsim.core.words import wrapped
from warpsim.draw.palette import FAINT, INK, PAPER

FONT_SIZE = 9.0
SMALL = FONT_SIZE - 1
SCREEN_DPI = 100
CORNER = 8  # radius of a picture's corners [pixels]

#: How words and legends look where a call does not say; a name with a $ is no formula.
WORDS = {"fontsize": FONT_SIZE, "color": INK, "parse_math": False}
LEGEND = {"fontsize": SMALL, "frameon": False, "labelcolor": INK}


def _in_ink(write: Callable) -> Callable:
    return wraps(write)(lambda self, *given, **more: write(self, *given, **(WORDS | more)))


def _plain_legend(make: Callable) -> Callable:
    @wraps(make)
    def method(self, *given: Any, **more: Any) -> Legend:
        legend = make(self, *given, **(LEGEND | more))
        for text in legend.get_texts():
            text.set_parse_math(False)
        return legend

    return method


class Sheet(Axes):
    """Axes whose words are `WORDS` and whose legends are `LEGEND`."""

    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self.tick_params(colors=INK, labelsize=SMALL)
        for label in (self.xaxis.label, self.yaxis.label):
            label.set(color=INK, fontsize=FONT_SIZE)

    text, annotate, set_title = map(_in_ink, (Axes.text, Axes.annotate, Axes.set_title))
    legend = _plain_legend(Axes.legend)


class Picture(Figure):
    """A Matplotlib figure that a notebook shows as a PNG, with or without pyplot's machinery.

    Each of its axes is a `Sheet`.
    """

    #: For a drawing of few flat colours: how many the file keeps.
    flat_colours: int | None = None
    #: What the picture shows, in a sentence or two.
    alternative: str = ""

    def __init__(self, width: float, height: float):
        super().__init__(figsize=(width, height), dpi=SCREEN_DPI, facecolor=PAPER)
        FigureCanvasAgg(self)

    def add_axes(self, *args: Any, **more: Any):
        return super().add_axes(*args, **({"axes_class": Sheet} | more))

    def add_subplot(self, *args: Any, **more: Any):
        return super().add_subplot(*args, **({"axes_class": Sheet} | more))

    text, legend = _in_ink(Figure.text), _plain_legend(Figure.legend)

    def described(self, words: str) -> Self:
        """Say what the picture shows, for whoever does not see it; return the picture."""
        self.alternative = " ".join(words.split())
        return self

    def __repr__(self) -> str:
        return wrapped(self.alternative or "a picture without a description", hanging="")

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

    def _repr_png_(self) -> tuple[bytes, dict[str, str]]:
        """Bytes and metadata of a notebook's output; a ValueError if nobody said what it shows."""
        if not self.alternative:
            raise ValueError("say what the picture shows: return picture.described(...)")
        return self.png(), {"alt": self.alternative}

    def _repr_html_(self) -> str | None:
        """The picture with its words, in a kernel that a Jupyter server started; else None.

        JupyterLab shows a PNG without any words for a screen reader, whatever its metadata says.
        """
        if "JPY_SESSION_NAME" not in os.environ:
            return None
        png, about = self._repr_png_()
        data = base64.b64encode(png).decode()
        return f'<img alt="{escape(about["alt"])}" src="data:image/png;base64,{data}">'


def _slimmed(png: io.BytesIO, flat_colours: int | None = None) -> bytes:
    """The same picture in a third to a half of the bytes: grey, or at most 255 colours."""
    drawn = Image.open(png).convert("RGB")
    red, green, blue = np.moveaxis(np.asarray(drawn), -1, 0)
    if np.array_equal(red, green) and np.array_equal(green, blue):
        slim = drawn.convert("L")
    else:  # few colours are worth a search for the best ones
        few = flat_colours is not None
        slim = drawn.quantize(flat_colours or 255, kmeans=few, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    look = {"optimize": True, "dpi": Image.open(png).info.get("dpi")}
    slim, transparent = _with_round_corners(slim)
    slim.save(buffer, format="png", **look, **transparent)
    return buffer.getvalue()


def _with_round_corners(slim: Image.Image) -> tuple[Image.Image, dict[str, int]]:
    """The picture as a card on a dark page: nothing in its corners; and how to save that."""
    inside = Image.new("1", slim.size, 0)
    edges = (0, 0, slim.width - 1, slim.height - 1)
    ImageDraw.Draw(inside).rounded_rectangle(edges, CORNER, fill=1)
    if slim.mode == "L":
        slim.putalpha(inside.convert("L"))
        return slim, {}
    pixels = np.asarray(slim)
    nothing = int(pixels.max()) + 1  # a colour of its own
    rounded = Image.fromarray(np.where(np.asarray(inside), pixels, np.uint8(nothing)))
    rounded.putpalette([*slim.getpalette()[: 3 * nothing], 255, 255, 255])
    return rounded, {"transparency": nothing}


class Pen:
    """Draws boxes and words on a sheet of its own, in inches from the upper left corner.

    Parameters
    ----------
    width, height : float
        Of the picture [inch].
    across, down : (float, float), optional
        Ends of the sheet in units of one's own: left and right, upper and lower.
    size, line : float
        Of words and of boxes' edges where a call does not say [points].
    """

    def __init__(
        self, width: float, height: float, across: tuple[float, float] | None = None,
        down: tuple[float, float] | None = None, *, size: float = FONT_SIZE, line: float = 0.8,
    ):  # fmt: skip
        self.size, self.line = size, line
        self.picture = Picture(width, height)
        self.axes = self.picture.add_axes((0, 0, 1, 1))
        self.axes.set(xlim=across or (0, width), ylim=down or (height, 0))
        self.axes.axis("off")

    def box(self, x, y, width, height, face=PAPER, edge=FAINT, line=None, *,
            text="", size=None, color=INK, **more) -> Rectangle:  # fmt: skip
        """A box; with words in its middle, if there are some."""
        if text:
            self.text(x + width / 2, y + height / 2, text, size, color)
        line = self.line if line is None else line
        look = {"facecolor": face, "edgecolor": edge, "linewidth": line, **more}
        return self.axes.add_patch(Rectangle((x, y), width, height, **look))

    def text(self, x, y, text, size=None, color=INK, ha="center", va="center", **more) -> None:
        size = self.size if size is None else size
        self.axes.text(x, y, text, fontsize=size, color=color, ha=ha, va=va, **more)


def listed(words: Iterable[str], most: int = 8) -> str:
    """Words in a row: "a, b and c"; of more than `most` the first ones and how many follow.

    Where one has a comma of its own, semicolons part them.
    """
    words = [" ".join(str(word).split()) for word in words]
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    if any("," in word for word in words):
        return "; ".join(words)
    *others, last = words or ["nothing"]
    return f"{', '.join(others)} and {last}" if others else last


def shortened(text: str, longest: int) -> str:
    """Return the text, its middle replaced by an ellipsis where it is too long."""
    if len(text) <= longest:
        return text
    head = max((longest - 1) // 2, 1)
    tail = max(longest - 1 - head, 1)
    return f"{text[:head]}…{text[-tail:]}"
