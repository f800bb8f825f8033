"""Charts of a micro-benchmark: one of each operation, one of all speed-ups.

>>> figures = find("activation", metric=None, gpu="H200")      # of course.measure.recorded
>>> speed_chart(figures, "gelu")
>>> speedup_chart(figures)

The figures are rows of ``python -m course bench``, recorded or one's own; that command draws these
charts beside its file. Where the first version of this work published figures of the same work,
they are drawn hollow.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from course.files import data_path, table_of
from course.measure.recorded import Figure
from course.measure.roofline import time_text
from course.plots.style import (
    SMALL,
    Picture,
    headline,
    in_plain_numbers,
    listed,
    mark,
    plain,
    style,
)
from warpsim.draw.palette import BLACK, BLUE, GREEN, INK, ORANGE, PAPER, PURPLE, SKY, VERMILLION

WIDTH = 7.4  # [inch]
ROW = 0.24  # height of a program's row [inch]
LEFT, RIGHT = 0.2, 0.74  # ends of the axes; names stand left of it, figures right [of the width]
#: Programs that are not the course's own, with their colours.
PEERS = MappingProxyType({
    "torch": VERMILLION, "torch, two kernels": BLACK, "torch.compile": ORANGE, "Triton": GREEN,
    "CUDA C++": PURPLE, "cupy": SKY,
})  # fmt: skip
OURS = "this course"
#: Metric -> marker and words: what is shown of a program beside its time.
COSTS = {
    "launch": ("|", "the host's launch"),
    "events": (">", "between two events, nothing queued"),
    "graph": ("s", "replay of a CUDA graph, data cached"),
}
ORIGINAL = ("D", "published by the first version")


@functools.cache
def original() -> MappingProxyType[tuple[str, str, str], float]:
    """What the first version published: (kernel, shape, program) -> milliseconds."""
    _, rows = table_of(data_path("original-activations.csv"))
    return MappingProxyType(
        {(r["kernel"], r["shape"], r["program"]): float(r["milliseconds"]) for r in rows}
    )


def operations(figures: Iterable[Figure], dtype: str = "float32") -> list[str]:
    """The operations among the figures that are timed in more than one program, in their order."""
    programs: dict[str, set[str]] = {}
    for figure in figures:
        if figure.metric == "time" and figure.dtype == dtype:
            programs.setdefault(figure.kernel, set()).add(figure.variant)
    return [kernel for kernel, names in programs.items() if len(names) > 1]


def _chosen(
    figures: Iterable[Figure], kernel: str, dtype: str
) -> dict[str, dict[str, dict[str, Figure]]]:
    """An operation's figures by shape, program and metric; shapes and programs in their order."""
    found: dict[str, dict[str, dict[str, Figure]]] = {}
    for figure in figures:
        if figure.kernel == kernel and figure.dtype == dtype:
            its = found.setdefault(figure.shape, {}).setdefault(figure.variant, {})
            its[figure.metric] = figure
    for shape, programs in list(found.items()):
        found[shape] = {name: its for name, its in programs.items() if "time" in its}
    return {shape: programs for shape, programs in found.items() if programs}


# --- one operation -------------------------------------------------------------------------------
def speed_chart(
    measurements: Iterable[Figure],
    kernel: str,
    *,
    shapes: Sequence[str] | None = None,
    dtype: str = "float32",
    bandwidth: float | None = None,
    title: str = "",
) -> Picture:
    """Draw the time of every program of an operation, a panel for each size.

    A dot is the median of the GPU's time, a line through it the middle half (often too short to be
    seen). At sizes at which a launch takes the host longer than the GPU works, the row also has the
    launch, the time between two events and the replay of a CUDA graph, where they are among the
    figures (both with the data where the call before left it, in L2 if it fits). Hollow: what the
    first version published.

    Parameters
    ----------
    measurements : iterable of Figure
        Rows of a bench, of all metrics: ``find("activation", metric=None)``.
    kernel : str
        The operation: a `Figure.kernel`, such as "gelu".
    shapes : sequence of str, optional
        Which sizes, in this order, such as "1048576"; without it all.
    dtype : str
    bandwidth : float, optional
        Of a copy of device memory [10⁹ bytes/s]; the time that it needs for the bytes is drawn
        where data of that size cannot stay in a cache, above 256 MiB.
    title : str
        Without it the operation and the GPU.

    Raises
    ------
    ValueError
        When there is no time of this operation, or none of a size; the message says of which.
    """
    measurements = list(measurements)
    found = _chosen(measurements, kernel, dtype)
    if not found:
        known = ", ".join(operations(measurements, dtype)) or "none"
        raise ValueError(f"no time of {kernel!r} in {dtype}; there are times of: {known}")
    missing = [shape for shape in shapes or () if shape not in found]
    if missing:
        raise ValueError(f"{kernel}: no time of the size {missing[0]!r}; sizes: {', '.join(found)}")
    panels = {shape: found[shape] for shape in shapes or found}

    heights = [ROW * len(programs) + 0.68 for programs in panels.values()]
    total = sum(heights) + 0.74
    picture = Picture(WIDTH, total)
    gpu = next((f.gpu for p in panels.values() for its in p.values() for f in its.values()), "")
    text = title or ", ".join(part for part in (kernel, dtype, gpu) if part)
    headline(picture, text)
    top, shown = total - 0.3, set()
    for (shape, programs), height in zip(panels.items(), heights, strict=True):
        box = LEFT, (top - height + 0.42) / total, RIGHT - LEFT, (height - 0.66) / total
        shown |= _panel(picture.add_axes(box), kernel, shape, programs, bandwidth)
        top -= height
    _make_room(picture)
    _legend(picture, shown)
    return picture.described(
        f"{text}: times of "
        f"{listed(dict.fromkeys(name for each in panels.values() for name in each), 10)} "
        f"at the sizes {listed(panels)}."
    )


def _make_room(picture: Picture) -> None:
    """Move the left ends of all panels to the right until the longest name fits."""
    renderer = picture.canvas.get_renderer()
    names = [axes.yaxis.get_tightbbox(renderer).x0 for axes in picture.axes]
    beyond = 0.01 - min(names) / picture.bbox.width
    if beyond > 0:
        for axes in picture.axes:
            left, bottom, width, height = axes.get_position().bounds
            axes.set_position((left + beyond, bottom, width - beyond, height))


def _panel(
    axes: Axes, kernel: str, shape: str, programs: dict[str, dict[str, Figure]],
    bandwidth: float | None,
) -> set[str]:  # fmt: skip
    """One size; returns which kinds of marks are drawn."""
    shown, values = {"time"}, []
    costs = COSTS if any(_launch_is_longer(its) for its in programs.values()) else {}
    for place, (name, its) in enumerate(programs.items()):
        y, colour, time = len(programs) - 1 - place, PEERS.get(name, BLUE), its["time"]
        axes.plot([time.q1, time.q3], [y, y], color=colour, linewidth=2.2, zorder=3)
        axes.plot([time.median], [y], "o", color=colour, markersize=6, zorder=4)
        values.append(time.median)
        for metric, (marker, _) in costs.items():
            if metric in its:
                size = 9 if marker == "|" else 5
                look = {"color": colour, "markersize": size, "markeredgewidth": 1.6, "zorder": 3}
                axes.plot([its[metric].median], [y], marker, **look)
                values.append(its[metric].median)
                shown.add(metric)
        published = original().get((kernel, shape, name))
        if published:
            look = {"color": colour, "markersize": 5.5, "markerfacecolor": PAPER, "zorder": 3}
            axes.plot([published], [y], ORIGINAL[0], **look)
            values.append(published)
            shown.add("original")
        rate = time.gigabytes_per_second
        text = time_text(time.median) + (f", {rate:,.0f} GB/s" if rate == rate else "")
        look = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": SMALL}
        axes.text(1.02, y, text, **look)
    amount = next(iter(programs.values()))["time"].bytes
    if bandwidth and amount and amount > 2**28:
        least = amount / bandwidth * 1e-6
        axes.axvline(least, color=INK, linewidth=1.2, linestyle=":")
        values.append(least)
        shown.add("roof")
    axes.set_yticks(range(len(programs)), list(programs)[::-1])
    axes.set_ylim(-0.6, len(programs) - 0.4)
    _time_axis(axes, min(values), max(values))
    axes.set_title(_words(shape), loc="left")
    style(axes)
    return shown


def _launch_is_longer(its: dict[str, Figure]) -> bool:
    """Whether the host launches a program for longer than the GPU works on it."""
    return "launch" in its and its["launch"].median > its["time"].median


def _words(shape: str) -> str:
    """A size in words: "1048576" -> "1,048,576 elements"."""
    if shape.isdecimal():
        return f"{int(shape):,} elements"
    rows, _, columns = shape.partition("x")
    return f"{int(rows):,} rows of {int(columns):,}" if columns.isdecimal() else shape


def _time_axis(axes: Axes, low: float, high: float) -> None:
    """A logarithmic axis of times, with few round numbers."""
    unit, factor = ("µs", 1e3) if low < 1 else ("ms", 1)
    axes.set_xscale("log")
    axes.set_xlim(low / 1.25, high * 1.25)
    if high / low < 300:
        subs = (1, 1.5, 2, 3, 5, 7) if high / low < 3 else (1, 2, 5)
        axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_minor_locator(NullLocator())
    in_plain_numbers(axes.xaxis, words=lambda value: plain(value * factor))
    axes.set_xlabel(f"{unit}, logarithmic", labelpad=1)


def _legend(picture: Picture, shown: set[str]) -> None:
    """What the marks are, below all panels."""
    marks = {"time": ("o", "the GPU's time, data from memory"), **COSTS}
    handles = [mark(*marks[metric]) for metric in marks if metric in shown]
    if "original" in shown:
        handles.append(mark(*ORIGINAL, markerfacecolor=PAPER))
    if "roof" in shown:
        handles.append(Line2D([], [], linestyle=":", color=INK, label="a copy of as many bytes"))
    place = {"loc": "lower left", "bbox_to_anchor": (0.0, 0.0), "columnspacing": 1.4}
    picture.legend(handles=handles, ncols=3, handletextpad=0.4, **place)


# --- speed-ups -----------------------------------------------------------------------------------
def speedups(
    measurements: Iterable[Figure], dtype: str = "float32"
) -> dict[tuple[str, str, str], dict[str, float]]:
    """How many times faster than PyTorch each program is.

    Parameters
    ----------
    measurements : iterable of Figure
    dtype : str

    Returns
    -------
    dict
        (operation, size, PyTorch's program) -> {program: PyTorch's time / its time}. Of the
        course's own programs the fastest stands for all, under the name `OURS`. Where PyTorch has
        two programs, as for Swish, there are two entries; one in two kernels is no rival of
        itself in one.
    """
    measurements = list(measurements)
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for kernel in operations(measurements, dtype):
        for shape, programs in _chosen(measurements, kernel, dtype).items():
            times = {name: its["time"].median for name, its in programs.items()}
            own = [time for name, time in times.items() if name not in PEERS]
            rivals = ({OURS: min(own)} if own else {}) | {
                name: time for name, time in times.items() if name in PEERS
            }
            for baseline in ("torch", "torch, two kernels"):
                if baseline in times:
                    found[kernel, shape, baseline] = {
                        name: times[baseline] / time
                        for name, time in rivals.items()
                        if name != baseline and name != "torch, two kernels"
                    }
    return found


def original_speedups(kernel: str, shape: str, baseline: str) -> dict[str, float]:
    """The same of what the first version published; empty where it published nothing."""
    its = {name: time for (k, s, name), time in original().items() if (k, s) == (kernel, shape)}
    if baseline not in its:
        return {}
    return {name: its[baseline] / time for name, time in its.items() if name != baseline}


def speedup_chart(
    measurements: Iterable[Figure], *, dtype: str = "float32", title: str = ""
) -> Picture:
    """Draw how many times faster than PyTorch the programs are, a row for operation and size.

    Right of the line at 1 is faster. The course's own program is the fastest step of its ladder.
    Hollow: the ratios of the times that the first version published.

    Parameters
    ----------
    measurements : iterable of Figure
        Rows of one or several benches.
    dtype : str
    title : str
        Without it the GPU.

    Raises
    ------
    ValueError
        When no operation was timed in PyTorch, too.
    """
    measurements = list(measurements)
    rows = speedups(measurements, dtype)
    if not rows:
        raise ValueError(f"no operation in {dtype} is timed in PyTorch, too: no speed-up to draw")
    height = 0.27 * len(rows) + 1.3
    picture = Picture(WIDTH, height)
    axes = picture.add_axes((0.42, 0.86 / height, 0.55, 1 - 1.22 / height))
    axes.axvline(1, color=INK, linewidth=1.2)
    colours, seen, hollow, values = {OURS: BLUE, **PEERS}, set(), False, [0.8, 1.25]
    for place, ((kernel, shape, baseline), its) in enumerate(rows.items()):
        y = len(rows) - 1 - place
        published = original_speedups(kernel, shape, baseline)
        for filled, ratios in ((True, its), (False, published)):
            for name, ratio in ratios.items():
                colour, own = colours[name], name == OURS
                look = {"color": colour, "markersize": 7 if own else 5, "zorder": 5 if own else 4}
                marker, look["markerfacecolor"] = ("o", colour) if filled else (ORIGINAL[0], PAPER)
                axes.plot([ratio], [y + (0 if filled else 0.16)], marker, **look)
                seen.add(name)
                values.append(ratio)
        hollow |= bool(published)
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 1.15, max(values) * 1.15)
    subs = (1, 1.5, 2, 3, 5, 7) if max(values) / min(values) < 30 else (1, 3)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_minor_locator(NullLocator())
    in_plain_numbers(axes.xaxis, words=plain)
    labels = [
        f"{kernel}, {_words(shape)}" + ("" if baseline == "torch" else "\nagainst x * sigmoid(x)")
        for kernel, shape, baseline in rows
    ]
    axes.set_yticks(range(len(rows)), labels[::-1])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("times faster than PyTorch's own kernels, logarithmic", labelpad=2)
    gpu = next((figure.gpu for figure in measurements), "")
    text = title or ", ".join(part for part in ("speed-ups", dtype, gpu) if part)
    headline(picture, text)
    style(axes)
    handles = [mark("o", name, colours[name]) for name in colours if name in seen]
    if hollow:
        handles.append(mark(*ORIGINAL, markerfacecolor=PAPER))
    picture.legend(handles=handles, loc="lower left", ncols=6, handletextpad=0.3, columnspacing=1.2)
    return picture.described(
        f"{text}: times faster than PyTorch, "
        + listed(
            (f"{kernel} {its[OURS]:.3g}" for (kernel, *_), its in rows.items() if OURS in its), 10
        )
        + "."
    )


def charts(
    measurements: Iterable[Figure], bandwidth: float | None = None, dtype: str = "float32"
) -> dict[str, Picture]:
    """All charts of a bench's figures, by the ends of their files' names.

    One of each operation that more than one program does, and "speedups" where PyTorch is among
    them.
    """
    measurements = list(measurements)
    found = {
        kernel.replace(" + ", "-").replace(" ", "-"): speed_chart(
            measurements, kernel, dtype=dtype, bandwidth=bandwidth
        )
        for kernel in operations(measurements, dtype)
    }
    if speedups(measurements, dtype):
        found["speedups"] = speedup_chart(measurements, dtype=dtype)
    return found
