"""Charts of a vision transformer's bench: by batch, size and streams, part by part, the roofline.

>>> figures = recorded("vit", metric=None)                  # of course.measure.recorded
>>> parts(figures, "64 images")

A program has one colour in all charts: ours, PyTorch eager, PyTorch compiled. Each is timed in a
CUDA graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from course.measure.measured_roofs import roofs_in
from course.measure.recorded import Figure
from course.measure.roofline import time_text
from course.plots.roofline_chart import roofline
from course.plots.style import (
    SMALL,
    Picture,
    headline,
    in_plain_numbers,
    listed,
    plain,
    series,
    style,
    swatches,
)
from warpsim.draw.palette import BLUE, INK, VERMILLION

METRIC = "time in a graph"
NAMES = {"ours": "ours", "eager": "PyTorch", "compiled": "PyTorch, compiled"}
#: The patch embedding, the parts of a block in their order, and the block.
PARTS = ("patch embedding", "norm", "qkv", "attention", "proj + residual", "fc1 + GELU",
         "fc2 + residual", "block")  # fmt: skip
#: The parts in a roofline; products that would lie at the same point are left out.
ROOFED = ("patch embedding", "norm", "attention", "proj + residual", "fc1 + GELU")

Curve = dict[int, float]


def _of(figures: Iterable[Figure], kernel: str, metric: str = METRIC) -> list[Figure]:
    return [its for its in figures if its.kernel == kernel and its.metric == metric]


def _gpu(figures: Iterable[Figure]) -> str:
    return next((its.gpu for its in figures if its.gpu), "")


def _words(shape: str) -> str:
    return "1 image" if shape == "1 images" else shape


def _curves(figures: Iterable[Figure], kernel: str, axis: int) -> dict[str, Curve]:
    """Milliseconds of each program by the number at `axis` of its shape, such as "64x224x224"."""
    found: dict[str, Curve] = {}
    for its in _of(figures, kernel):
        found.setdefault(its.variant, {})[int(its.shape.split("x")[axis])] = its.median
    return {name: dict(sorted(found[name].items())) for name in NAMES if name in found}


def _lines(axes: Axes, found: dict[str, Curve], xlabel: str, ylabel: str, title: str) -> None:
    for name, curve in found.items():
        look = series(list(NAMES).index(name)) | {"markersize": 4.2, "linewidth": 1.6}
        axes.plot(list(curve), list(curve.values()), label=NAMES[name], **look)
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, loc="left")
    axes.xaxis.set_major_locator(FixedLocator(sorted({x for its in found.values() for x in its})))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    in_plain_numbers(axes.xaxis, axes.yaxis, words=plain)
    style(axes)


def _beside(found: dict[str, Curve], xlabel: str, per: bool, title: str) -> Picture:
    """Times on the left; on the right how many times as fast as PyTorch ours is."""
    if "ours" not in found:
        raise ValueError(f"{title}: no times of ours to draw")
    picture = Picture(7.4, 3.3)
    headline(picture, title)
    left = picture.add_axes((0.085, 0.25, 0.39, 0.56))
    right = picture.add_axes((0.59, 0.25, 0.39, 0.56))
    times = {
        name: {x: time / x if per else time for x, time in its.items()}
        for name, its in found.items()
    }
    _lines(left, times, xlabel, "ms an image" if per else "ms", "time in a CUDA graph")
    ratios = {
        name: {x: time / found["ours"][x] for x, time in its.items() if x in found["ours"]}
        for name, its in found.items()
        if name != "ours"
    }
    _lines(right, ratios, xlabel, "times as fast", "its time / ours")
    right.set_yscale("linear")
    right.axhline(1, color=INK, linewidth=1.2, linestyle=":")
    right.set_ylim(0, 1.1 * max([1.3, *(y for its in ratios.values() for y in its.values())]))
    right.yaxis.set_major_locator(FixedLocator([0, 0.5, 1, 1.5, 2, 2.5, 3]))
    handles, labels = left.get_legend_handles_labels()
    picture.legend(handles, labels, loc="lower left", ncols=3, bbox_to_anchor=(0.08, 0.0))
    return picture.described(
        f"{title}. Ours takes "
        + listed((f"{time_text(time)} at {x}" for x, time in found["ours"].items()), 8)
        + "; "
        + listed(
            f"{NAMES[name]} takes times that: {listed((f'{y:.2f} at {x}' for x, y in its.items()))}"
            for name, its in ratios.items()
        )
        + "."
    )


def by_batch(figures: Iterable[Figure]) -> Picture:
    """The whole network: milliseconds for each image by batch size; and speed-ups."""
    figures = list(figures)
    title = f"ViT-Base, images of 224 × 224, float16, {_gpu(figures)}"
    return _beside(_curves(figures, "whole", 0), "images in a batch", True, title)


def by_size(figures: Iterable[Figure]) -> Picture:
    """The whole network, 8 images: milliseconds by an image's side; and speed-ups."""
    figures = list(figures)
    title = f"ViT-Base, 8 images by their side, float16, {_gpu(figures)}"
    return _beside(_curves(figures, "image", 1), "pixels of a side", False, title)


def by_streams(figures: Iterable[Figure]) -> Picture:
    """Images from the host and scores back to it, in parts, on so many streams."""
    found = _of(figures, "streams", "time")
    if not found:
        raise ValueError("no times by streams to draw")
    height = 0.95 + 0.3 * len(found)
    picture = Picture(6.4, height)
    title = f"{found[0].shape}, host to host, in parts, {found[0].gpu}"
    headline(picture, title)
    axes = picture.add_axes((0.17, 0.5 / height, 0.7, 1 - 0.85 / height))
    axes.barh([its.variant for its in found], [its.median for its in found], 0.62, color=BLUE)
    for place, its in enumerate(found):
        axes.text(1.01 * its.median, place, time_text(its.median), va="center", fontsize=SMALL)
    axes.set(xlabel="ms", ylim=(len(found) - 0.5, -0.5))
    style(axes, "x")
    return picture.described(
        f"{title}: {listed(f'{its.variant} {time_text(its.median)}' for its in found)}."
    )


def parts(figures: Iterable[Figure], shape: str = "64 images") -> Picture:
    """Kernel against routine: each part of the network, ours and PyTorch's, with the ratio."""
    figures = list(figures)
    rows: list[tuple[str, float, float]] = []
    for name in PARTS:
        images = shape.split()[0]
        times = {
            its.variant: its.median
            for its in _of(figures, name)
            if its.shape == shape or (name == "block" and its.shape.split("x")[0] == images)
        }
        if {"ours", "eager"} <= times.keys():
            rows.append((name, times["ours"], times["eager"]))
    if not rows:
        raise ValueError(f"no part was timed for {shape}")
    height = 1.2 + 0.46 * len(rows)
    picture = Picture(7.4, height)
    title = f"A ViT's parts, {_words(shape)}, float16, {_gpu(figures)}"
    headline(picture, title)
    axes = picture.add_axes((0.19, 0.75 / height, 0.66, 1 - 1.1 / height))
    for place, (_, ours, theirs) in enumerate(rows):
        y = len(rows) - 1 - place
        for shift, time, colour in ((0.2, theirs, VERMILLION), (-0.2, ours, BLUE)):
            axes.barh([y + shift], [1e3 * time], height=0.36, color=colour)
            axes.text(1e3 * time * 1.06, y + shift, time_text(time), va="center", fontsize=SMALL)
        look = {"transform": axes.get_yaxis_transform(), "va": "center"}
        axes.text(1.03, y, f"{theirs / ours:.2f} ×", **look)
    every = [1e3 * time for _, *times in rows for time in times]
    axes.set(xscale="log", xlim=(min(every) / 2, max(every) * 2.4), ylim=(-0.6, len(rows) - 0.4))
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows][::-1])
    axes.set_xlabel("µs, logarithmic")
    in_plain_numbers(axes.xaxis, words=plain)
    style(axes, "x")
    handles = swatches({"PyTorch": VERMILLION, "ours": BLUE})
    picture.legend(handles=handles, loc="lower left", ncols=2, bbox_to_anchor=(0.18, 0.0))
    return picture.described(
        f"{title}: PyTorch's time / ours is "
        + listed((f"{theirs / ours:.2f} for {name}" for name, ours, theirs in rows), 10)
        + "."
    )


def in_roofline(figures: Sequence[Figure], shape: str = "64 images") -> Picture:
    """The parts under the roofs of their run.

    All programs of a part have the same x, since operations and bytes are those that the part
    needs. LayerNorm, which has hardly any operations, is listed below the chart.
    """
    found = {}
    for name in ROOFED:
        for its in _of(figures, name):
            if its.shape == shape and its.bytes:
                program = NAMES.get(its.variant, its.variant.removeprefix("ours, "))
                found[f"{name}, {program}"] = its
    if not found:
        raise ValueError(f"no part with bytes was timed for {shape}")
    title = f"A ViT's parts, {_words(shape)}, {_gpu(figures)}"
    return roofline(roofs_in(figures), found, pipes=("tensor_float16",), title=title)


def charts(figures: Sequence[Figure]) -> dict[str, Picture]:
    """What ``python -m course bench vit`` draws beside its file, by the endings of file names.

    A chart without measurements is left out.
    """
    kernels = {its.kernel for its in figures if its.metric in (METRIC, "time")}
    found = {}
    if "whole" in kernels:
        found["batches"] = by_batch(figures)
    if "image" in kernels:
        found["sizes"] = by_size(figures)
    if "streams" in kernels:
        found["streams"] = by_streams(figures)
    for shape in dict.fromkeys(its.shape for its in _of(figures, "norm")):
        name = shape.replace(" ", "-")
        found[f"parts-{name}"] = parts(figures, shape)
        if "roof" in {its.kernel for its in figures}:
            found[f"roofline-{name}"] = in_roofline(figures, shape)
    return found
