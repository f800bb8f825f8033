"""Charts of a network's programs by batch size: latency, speed-up, efficiency.

>>> figures = recordings("cnn")[0].figures
>>> latency_by_batch(figures)

A panel for each activation. A program has one colour and marker everywhere; dashed is the same
program inside a CUDA graph. Programs that were not measured are not drawn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from course.measure.recorded import Figure
from course.plots.style import SMALL, Picture, in_plain_numbers, listed, series, style
from warpsim.draw.palette import FAINT, INK

PREFIX = "digits "  # of the kernels' names; the activation follows
GRAPH = ", graph"  # what a program's name ends with where it ran inside a CUDA graph
BASE = "torch"  # what a speed-up is against; inside a graph, the same inside a graph

HIGH, ABOVE, BELOW = 1.9, 0.34, 1.05  # of a panel, above it, and below all [inch]
#: Programs in the order in which they are drawn, and what the legend calls them.
PROGRAMS = {
    "whole": "ours, one kernel",
    "fused": "ours, four kernels",
    "naive": "ours, nine kernels",
    "torch": "PyTorch",
    "torch, Numba activation": "PyTorch with our activation",
    "torch, Triton activation": "PyTorch with Triton's",
    "torch.compile": "torch.compile",
}
TITLES = {"relu": "ReLU", "gelu": "GELU", "silu": "SiLU (Swish)"}

Curve = dict[int, float]  # batch size -> value


class NothingMeasured(ValueError):
    """There are no figures for a chart."""


def values(figures: Iterable[Figure], metric: str) -> dict[str, dict[str, Curve]]:
    """Medians of a metric: activation -> program -> batch size -> value."""
    found: dict[str, dict[str, Curve]] = {}
    for figure in figures:
        if figure.metric == metric and figure.kernel.startswith(PREFIX):
            programs = found.setdefault(figure.kernel.removeprefix(PREFIX), {})
            programs.setdefault(figure.variant, {})[int(figure.shape)] = figure.median
    return found


def _scaled(figures: Iterable[Figure], metric: str, factor: float) -> dict[str, dict[str, Curve]]:
    return {
        activation: {
            name: {batch: factor * value for batch, value in curve.items()}
            for name, curve in programs.items()
        }
        for activation, programs in values(figures, metric).items()
    }


def latency_by_batch(figures: Iterable[Figure]) -> Picture:
    """What a caller waits for: from the call to scores that are there [µs]."""
    figures = list(figures)
    return _panels(_scaled(figures, "latency", 1e3), "latency [µs]", figures)


def speedup_by_batch(figures: Iterable[Figure]) -> Picture:
    """How many times faster than PyTorch, eager, with its own activation; by latency.

    A program inside a CUDA graph is compared with PyTorch inside one: each pays for one launch.
    """
    figures, found = list(figures), {}
    for activation, programs in values(figures, "latency").items():
        for name, curve in programs.items():
            base = programs.get(BASE + GRAPH if name.endswith(GRAPH) else BASE, {})
            ratios = {batch: base[batch] / value for batch, value in curve.items() if batch in base}
            if ratios:
                found.setdefault(activation, {})[name] = ratios
    if not found:
        raise NothingMeasured(
            f"no latency of {BASE!r} among these figures: nothing to compare with"
        )
    return _panels(found, "latency of PyTorch / latency", figures, level=1.0)


def efficiency_by_batch(figures: Iterable[Figure]) -> Picture:
    """The least time that the GPU's roofs allow / time of the GPU [%]."""
    figures = list(figures)
    return _panels(_scaled(figures, "efficiency", 100), "of what the roofs allow [%]", figures)


CHARTS = {
    "latency": latency_by_batch,
    "speed-up": speedup_by_batch,
    "efficiency": efficiency_by_batch,
}


def charts(figures: Iterable[Figure]) -> dict[str, Picture]:
    """All charts of a bench's figures, by the ends of their files' names.

    One of which nothing was measured, such as a speed-up without PyTorch, is left out.
    """
    found, figures = {}, list(figures)
    for name, draw in CHARTS.items():
        with contextlib.suppress(NothingMeasured):
            found[name] = draw(figures)
    return found


def _panels(
    found: dict[str, dict[str, Curve]],
    ylabel: str,
    figures: Sequence[Figure],
    level: float | None = None,
) -> Picture:
    """A panel for each activation, on common logarithmic axes; one legend; which GPU it was.

    Programs inside a CUDA graph have panels of their own, below: a line each in a panel.

    Raises
    ------
    NothingMeasured
        When there is nothing to draw.
    ValueError
        For a value that has no logarithm.
    """
    shown = [name for name in TITLES if found.get(name)]
    if not shown:
        raise NothingMeasured("there are no figures of a network's programs to draw")
    every = [v for name in shown for curve in found[name].values() for v in curve.values()]
    if min(every) <= 0:
        raise ValueError(f"a value of {min(every)} has no logarithm")
    batches = sorted({b for name in shown for curve in found[name].values() for b in curve})
    low, high = min(every) / 1.25, max(every) * 1.25
    names = {name for programs in found.values() for name in programs}
    ways = {"launched one by one": ""}
    if any(name.endswith(GRAPH) for name in names):
        ways["in a CUDA graph"] = GRAPH
    total = BELOW + (HIGH + ABOVE) * len(ways)
    picture = Picture(8.2, total)
    share = 0.93 / len(shown)
    for row, (way, ending) in enumerate(ways.items()):
        bottom = (total - (HIGH + ABOVE) * (row + 1)) / total
        for place, activation in enumerate(shown):
            box = 0.075 + share * place, bottom, share - 0.025, HIGH / total
            axes = picture.add_axes(box)
            for number, program in enumerate(PROGRAMS):
                curve = found[activation].get(program + ending, {})
                its = [curve[batch] for batch in sorted(curve)]
                look = series(number) | {"linewidth": 1.5}
                axes.plot(sorted(curve), its, markersize=4.2, **look)
            if level is not None:
                axes.axhline(level, color=INK, linewidth=1.0, linestyle=":")
            axes.set(xscale="log", yscale="log", ylim=(low, high))
            axes.set_ylabel(ylabel if place == 0 else "")
            axes.set_title(f"{TITLES[activation]}, {way}", loc="left", fontsize=SMALL)
            axes.xaxis.set_major_locator(FixedLocator(batches))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
            in_plain_numbers(axes.xaxis, axes.yaxis)
            style(axes)
            axes.tick_params(labelleft=place == 0, labelbottom=row == len(ways) - 1)
            if row == len(ways) - 1:
                axes.set_xlabel("images in a batch")
    machine = next((figure.gpu for figure in figures if figure.gpu), "")
    picture.text(0.985, 0.08 / total, machine, ha="right", fontsize=SMALL, color=FAINT)
    _legend(picture, names)
    return picture.described(
        f"{ylabel} over images in a batch, for {listed(TITLES[name] for name in shown)}: "
        f"{listed(dict.fromkeys(name for each in shown for name in found[each]), 10)}."
    )


def _legend(picture: Picture, names: set[str]) -> None:
    """The programs that are drawn."""
    handles = [
        Line2D([], [], label=text, linewidth=1.5, **series(number))
        for number, (name, text) in enumerate(PROGRAMS.items())
        if names & {name, name + GRAPH}
    ]
    picture.legend(handles=handles, loc="lower left", bbox_to_anchor=(0.06, 0.0), ncols=3)
