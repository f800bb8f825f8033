"""The roofline plot: what the machine allows as lines, what kernels reach as points.

Kernels that compute nothing (copies, transposes) have no place on such axes; they stand below, as
bars against the bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from course.measure.roofline import Roofs
from course.plots.style import SMALL, Picture, in_plain_numbers, listed, shortened, style
from warpsim.draw.palette import BLUE, FAINT, GREEN, INK, MARKERS, ORANGE, PURPLE, SKY, VERMILLION

if TYPE_CHECKING:
    from course.measure.recorded import Figure
    from course.measure.timing import Timing

WIDTH, HEIGHT = 6.4, 4.0  # of the upper part [inch]
BAR = 0.26  # height of a bar's row [inch]
LINE = 0.17  # height of a label [inch]
LONGEST = 26  # characters of a name
AWAY = 20  # pixels between a point and its name
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.85}
PIPES = {
    "float32": (BLUE, "float32"),
    "float64": (VERMILLION, "float64"),
    "tensor_float64": (ORANGE, "tensor cores, float64"),
    "tensor_float32": (PURPLE, "tensor cores, TF32"),
    "tensor_float16": (GREEN, "tensor cores, float16"),
}


def roofline(
    roofs: Roofs,
    kernels: Mapping[str, Timing | Figure],
    *,
    ladder: Sequence[str] = (),
    pipes: Sequence[str] | None = None,
    title: str = "",
) -> Picture:
    """Draw a roofline with kernels in it.

    Parameters
    ----------
    roofs : Roofs
        Measured ones, or a vendor's.
    kernels : mapping of a name to a Timing or a recorded Figure
        Each with its bytes. Those without operations are drawn apart. A bound, which is no time,
        is drawn hollow.
    ladder : sequence of str
        Names of kernels in the order of their steps; a line joins them.
    pipes : sequence of str, optional
        Which of the machine's peaks are drawn; without it float32 and what the kernels use.
    title : str

    Raises
    ------
    ValueError
        When a kernel has no bytes, or a step of the ladder is none of the kernels.
    """
    missing = [step for step in ladder if step not in kernels]
    if missing:
        raise ValueError(f"the ladder's {missing[0]!r} is none of {', '.join(kernels)}")
    for name, found in kernels.items():
        if not found.bytes or not found.median > 0:
            raise ValueError(
                f"{name!r} has no bytes or no time: benchmark(..., bytes=, operations=)"
            )
    working = {name: k for name, k in kernels.items() if not math.isnan(k.teraflops)}
    moving = {name: k for name, k in kernels.items() if name not in working}
    wanted = ("float32", *used_pipes(working.values())) if pipes is None else pipes
    drawn = [pipe for pipe in PIPES if pipe in wanted and pipe in roofs.rates]

    above = HEIGHT if working or not moving else 0.32
    below = 0.55 + BAR * len(moving) if moving else 0.0
    total = above + below
    picture = Picture(WIDTH, total)
    kind = "measured" if roofs.measured else "as its vendor prints them"
    picture.text(0.1, 1 - 0.08 / total, title or f"{roofs.gpu}, roofs {kind}", va="top")
    if above == HEIGHT:
        axes = picture.add_axes((0.1, (below + 0.48) / total, 0.87, (HEIGHT - 0.8) / total))
        _roofs(axes, roofs, drawn, working)
        _points(axes, working, ladder)
    if moving:
        bars = picture.add_axes((0.3, 0.42 / total, 0.6, BAR * len(moving) / total))
        _bars(bars, roofs, moving)
    return picture.described(
        f"{title or roofs.gpu}: a roofline, memory {roofs.bandwidth:,.0f} GB/s, "
        + listed(f"{pipe} {roofs.rates[pipe]:.3g} TFLOP/s" for pipe in drawn)
        + (f"; {listed(reached(working), 10)}" if working else "")
        + (f"; GB/s alone: {listed(moving, 10)}" if moving else "")
        + "."
    )


def reached(kernels: Mapping[str, Timing | Figure]) -> list[str]:
    """What each kernel reaches, in words."""
    return [f"{name} {found.teraflops:.3g} TFLOP/s" for name, found in kernels.items()]


def used_pipes(kernels: Iterable[Timing | Figure]) -> set[str]:
    """Pipes on which some kernels work."""
    found: set[str] = set()
    for kernel in kernels:
        done = kernel.operations
        found |= {kernel.dtype} if isinstance(done, int | float) else {k for k in done if done[k]}
    return found & PIPES.keys()


def intensity(found: Timing | Figure) -> float:
    """Operations a byte of a kernel that computes."""
    return found.teraflops * found.median * 1e9 / found.bytes


def _roofs(axes: Axes, roofs: Roofs, pipes: Sequence[str], working: Mapping) -> None:
    top = max([roofs.rates[pipe] for pipe in pipes] + [k.teraflops for k in working.values()])
    ridges = [roofs.ridge(pipe) for pipe in pipes] or [10.0]
    places = [intensity(k) for k in working.values()]
    x = np.array([min(places + ridges) / 9, max(places + ridges) * 12])
    lowest = min([k.teraflops for k in working.values()] + [x[0] * roofs.bandwidth * 1e-3])
    axes.set(xscale="log", yscale="log", xlim=x, ylim=(lowest / 2.2, top * 2.6))

    height, width = axes.get_window_extent().height, axes.get_window_extent().width
    decades = np.log10(axes.get_ylim()[1] / axes.get_ylim()[0]), np.log10(x[1] / x[0])
    angle = math.degrees(math.atan2(height / decades[0], width / decades[1]))
    peak = max([roofs.rates[pipe] for pipe in pipes], default=top)
    levels = [(roofs.bandwidth, "device memory", INK, "-", 0.86, "top")]
    if roofs.l2_bandwidth and roofs.l2_bandwidth > roofs.bandwidth:
        levels.append((roofs.l2_bandwidth, "L2", FAINT, "--", 1.1, "bottom"))
    for bandwidth, name, colour, dashes, apart, side in levels:
        ends = np.array([x[0], min(peak * 1e3 / bandwidth, x[1])])
        axes.plot(ends, ends * bandwidth * 1e-3, color=colour, linewidth=1.6, linestyle=dashes)
        start = x[0] * 1.2
        axes.text(
            start, start * bandwidth * 1e-3 * apart, f"{name} {bandwidth:,.0f} GB/s", va=side,
            rotation=angle, rotation_mode="anchor", fontsize=SMALL, color=colour,
        )  # fmt: skip
    for pipe in pipes:
        colour, name = PIPES[pipe]
        rate, ridge = roofs.rates[pipe], roofs.ridge(pipe)
        axes.plot([ridge, x[1]], [rate, rate], color=colour, linewidth=1.6)
        axes.plot([ridge], [rate], marker="|", markersize=9, color=colour)
        # at the right end, but not across the points
        rates = [kernel.teraflops for kernel in working.values()] or [rate]
        crosses = min(rates) < 1.4 * rate and max(rates) > rate
        axes.text(
            ridge * 1.5 if crosses else x[1] / 1.06, rate * 1.07,
            f"{name} {rate:.3g} TFLOP/s, ridge {ridge:.3g}", ha="left" if crosses else "right",
            va="bottom", fontsize=SMALL, color=colour, bbox=BEHIND,
        )  # fmt: skip
    axes.set(xlabel="operations a byte of device memory", ylabel="TFLOP/s")
    in_plain_numbers(axes.xaxis, axes.yaxis)
    style(axes)


def _points(axes: Axes, working: Mapping, ladder: Sequence[str]) -> None:
    steps = [name for name in ladder if name in working]
    if len(steps) > 1:
        rates = [working[name].teraflops for name in steps]
        places = [intensity(working[name]) for name in steps]
        axes.plot(places, rates, color="black", linewidth=1.0, zorder=3)
    others = [name for name in working if name not in steps]
    marks = dict.fromkeys(steps, ("black", "o"))
    colours = (VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLUE)
    for place, name in enumerate(others):
        marks[name] = (colours[place % len(colours)], MARKERS[1 + place % (len(MARKERS) - 1)])
    for name, found in working.items():
        colour, marker = marks[name]
        hollow = found_is_bound(found)
        axes.plot(
            [intensity(found)], [found.teraflops], marker=marker, markersize=5.5, linestyle="none",
            color=colour, markerfacecolor="white" if hollow else colour, zorder=4,
        )  # fmt: skip
    _labels(axes, working, {name: colour for name, (colour, _) in marks.items()})


def found_is_bound(found: Timing | Figure) -> bool:
    """Whether a timing is a bound and no measured time."""
    return getattr(found, "source", "recorded") == "bound"


def _labels(axes: Axes, working: Mapping, colours: Mapping[str, str]) -> None:
    """Write the names beside the points, from the top down, moved apart where they would touch."""
    to_pixels, to_data = axes.transData, axes.transData.inverted()
    line = LINE * axes.figure.dpi
    right_edge = axes.get_window_extent().x1
    taken: list[tuple[float, float, float]] = []
    for name, found in sorted(working.items(), key=lambda item: -item[1].teraflops):
        x, y = to_pixels.transform((intensity(found), found.teraflops))
        text = shortened(name, LONGEST)
        width = len(text) * line * 0.42
        left = x + AWAY + width < right_edge
        start = x + AWAY if left else x - AWAY - width
        place = y
        while any(
            start < its_end and its_start < start + width and abs(place - its_place) < line
            for its_start, its_end, its_place in taken
        ):
            place -= line / 4
        taken.append((start, start + width, place))
        anchor = to_data.transform((x + AWAY if left else x - AWAY, place))
        arrow = {"arrowstyle": "-", "color": colours[name], "linewidth": 0.6, "shrinkA": 0,
                 "shrinkB": 3, "relpos": (0 if left else 1, 0.5)}  # fmt: skip
        look = {"fontsize": SMALL, "color": colours[name], "zorder": 5, "bbox": BEHIND}
        look |= {"ha": "left" if left else "right", "va": "center", "arrowprops": arrow}
        axes.annotate(text, (intensity(found), found.teraflops), anchor, **look)


def _bars(axes: Axes, roofs: Roofs, moving: Mapping) -> None:
    names = list(moving)[::-1]
    rates = [moving[name].gigabytes_per_second for name in names]
    fill = ["white" if found_is_bound(moving[name]) else BLUE for name in names]
    short = [shortened(name, LONGEST) for name in names]
    axes.barh(short, rates, height=0.62, edgecolor=BLUE, color=fill)
    axes.axvline(roofs.bandwidth, color=INK, linewidth=1.6)
    axes.set_xlim(0, max([roofs.bandwidth, *rates]) * 1.2)
    for place, rate in enumerate(rates):
        text = f"{rate:,.0f} ({rate / roofs.bandwidth:.0%})"
        x = rate + axes.get_xlim()[1] * 0.012
        axes.text(x, place, text, va="center", fontsize=SMALL, bbox=BEHIND)
    text = f"kernels without operations: GB/s, of the {roofs.bandwidth:,.0f} of the memory"
    axes.set_xlabel(text)
    style(axes, "x")
