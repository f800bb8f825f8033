"""The look of every picture: a pen for drawings, and what several charts share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Self

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch, Rectangle
from matplotlib.ticker import FuncFormatter, NullFormatter

from warpsim.draw import style as trace_style
from warpsim.draw.palette import FAINT, GRID, INK, MARKERS, PALETTE, PAPER, pale
from warpsim.draw.style import FONT_SIZE, SMALL, Picture, listed, shortened

__all__ = [
    "FONT_SIZE", "SMALL", "TINY", "Pen", "Picture", "below_each_other", "framed", "headline",
    "in_plain_numbers", "listed", "mark", "overlaid", "plain", "series", "shortened", "style",
    "swatches",
]  # fmt: skip

TINY = FONT_SIZE - 1.5


class Pen(trace_style.Pen):
    """Draws boxes, words and arrows on a sheet of its own, in inches from the upper left corner."""

    @classmethod
    def on(cls, axes: Axes) -> Self:
        """A pen for axes that are there, such as those of a chart."""
        pen = cls.__new__(cls)
        pen.size, pen.line, pen.picture, pen.axes = FONT_SIZE, 0.8, axes.figure, axes
        return pen

    def tint(self, x, y, width, height, colour="", **more) -> Rectangle:
        """A box filled with a pale colour; without one, with paper."""
        return self.box(x, y, width, height, pale(colour) if colour else PAPER, **more)

    def rounded(self, x, y, width, height, text="", **more) -> None:
        """A box with round corners, 1 unit of the sheet each."""
        look = {"facecolor": PAPER, "edgecolor": FAINT, "linewidth": 1.2}
        corners = "round,pad=0,rounding_size=1"
        self.axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=corners, **look | more))
        self.text(x + width / 2, y + height / 2, text)

    def arrow(self, start, end, color=INK, line=1.3, head=11, **more) -> None:
        """An arrow with a head of so many points, from one place to the other without a gap."""
        look = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "linewidth": line, "color": color}
        self.axes.add_patch(FancyArrowPatch(start, end, mutation_scale=head, **(look | more)))


def style(axes: Axes, grid: str = "both") -> Axes:
    """Give a chart the course's look: a faint grid, no box.

    Parameters
    ----------
    axes : Axes
    grid : "both", "x", "y" or "none"
        The axis whose ticks have lines.
    """
    axes.set_facecolor(PAPER)
    if grid != "none":
        axes.grid(True, axis=grid, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    return axes


def framed(axes: Axes) -> Axes:
    """Give axes a pale frame and no ticks, as around an image."""
    axes.set(xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set_color(GRID)
    return axes


def series(number: int) -> dict[str, str]:
    """Colour and marker of a chart's line of that number."""
    place = number % len(PALETTE)
    return {"color": PALETTE[place], "marker": MARKERS[place]}


def overlaid(number: int) -> dict[str, object]:
    """Marks of several lines that may lie on each other: all but the first hollow and larger."""
    hollow = {"markerfacecolor": "none", "markeredgewidth": 1.6} if number else {}
    return series(number) | {"markersize": 5 + 3 * number, "zorder": 4} | hollow


def mark(marker: str, label: str, color: str = FAINT, **more) -> Line2D:
    """The entry of a legend: a marker without a line."""
    return Line2D([], [], linestyle="none", marker=marker, color=color, label=label, **more)


def headline(picture: Picture, text: str) -> None:
    """Write what a picture shows into its upper left corner."""
    picture.text(0.01, 1 - 0.08 / picture.get_figheight(), text, va="top", fontsize=FONT_SIZE + 1)


def below_each_other(
    heights: Mapping[str, float], width: float, left: float, wide: float, *,
    head: float, foot: float, above: Callable[[str], float] = lambda title: 0.28, gap: float = 0.0,
) -> tuple[Picture, list[Axes]]:  # fmt: skip
    """A picture with charts below each other on one axis of time.

    Parameters
    ----------
    heights : mapping of a chart's title to the height of its axes [inch]
    width : float
        Of the picture [inch].
    left, wide : float
        Left end and width of the axes, as shares of the picture's width.
    head, foot, gap : float
        Margins above and below them all, and below each but the last [inch].
    above : callable
        Margin for a title [inch].
    """
    inner = sum(above(title) + tall + gap for title, tall in heights.items())
    height = top = head + inner + foot
    picture, found = Picture(width, height), []
    top -= head
    for title, tall in heights.items():
        top -= above(title) + tall
        axes = picture.add_axes((left, top / height, wide, tall / height))
        top -= gap
        axes.set_title(title, loc="left")
        axes.tick_params(labelbottom=False)
        found.append(axes)
    axes.tick_params(labelbottom=True)
    axes.set_xlabel("time [ms]")
    return picture, found


def swatches(colours: Mapping[str, str]) -> list[Patch]:
    """The entries of a legend: a filled box for each name."""
    return [Patch(facecolor=colour, label=name) for name, colour in colours.items()]


def plain(value: float) -> str:
    """A number of a tick: 0.5, 20, 10,000."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def in_plain_numbers(*axes: Axis, words: Callable[[float], str] = "{:g}".format) -> None:
    """Write the numbers at major ticks without powers of ten, and none at minor ones."""
    for axis in axes:
        axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
        axis.set_minor_formatter(NullFormatter())
