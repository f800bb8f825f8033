"""Drawings of lesson 16: digits, a VAE, launches, epochs, the rooflines of its kernels.

>>> figures = recorded("vae_micro", metric=None, gpu="H200")
>>> of_products(figures, "4096x4096x4096")
>>> of_kernels(figures)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from course.kernels.gemm.float32 import LADDER
from course.measure.measured_roofs import roofs_in
from course.measure.recorded import Figure
from course.measure.roofline import Roofs
from course.plots.image_charts import image_grid
from course.plots.roofline_chart import roofline
from course.plots.style import (
    FONT_SIZE,
    SMALL,
    TINY,
    Pen,
    Picture,
    in_plain_numbers,
    listed,
    style,
)
from course.plots.vae_charts import CELL, squares
from course_lessons.lesson16.toy_launches import Work
from course_models.vae.shape import VAEShape
from warpsim.draw.palette import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    MARKERS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    pale,
)

LARGEST = "4096x4096x4096"
PEERS = ("cuBLAS", "cuBLAS TF32")
#: What each operation is drawn by: its fastest strategy among those that the course has.
OPERATIONS = ("leaky relu", "sample", "bce", "bce gradient", "kl", "adam", "bias gradient")
MOVING = ("transpose", "gather")


def of_products(figures: Sequence[Figure], shape: str = LARGEST) -> Picture:
    """Draw the steps of the product and cuBLAS's, of one size, under the roofs of their run."""
    timed = [its for its in figures if its.kernel == "matmul nn" and its.metric == "time"]
    found = {its.variant: its for its in timed if its.shape == shape}
    steps = [name for name in LADDER if name in found]
    points = {_said(name): found[name] for name in (*steps, *PEERS) if name in found}
    roofs = roofs_in(figures)
    pipes = [pipe for pipe in ("float32", "tensor_float32") if pipe in roofs.rates]
    title = f"Products of {shape.replace('x', ' × ')}, {roofs.gpu}"
    plain = [_said(name) for name in steps if not name.startswith("tensor")]
    return roofline(roofs, points, ladder=plain, pipes=pipes, title=title)


def _said(name: str) -> str:
    return name.replace("tf32", "TF32").replace("_", " ")


def of_kernels(figures: Sequence[Figure]) -> Picture:
    """Draw the fastest way of each operation at its largest size; what computes nothing below."""
    points = fastest(figures)
    for op in MOVING:
        points |= {f"{op}, {name}": its for name, its in _largest(figures, op).items()}
    roofs = roofs_in(figures)
    title = f"Kernels of a VAE at their largest sizes, {roofs.gpu}"
    return roofline(roofs, points, pipes=("float32",), title=title)


def fastest(figures: Sequence[Figure]) -> dict[str, Figure]:
    """The course's fastest way of each operation that computes, at its largest size."""
    ways = {op: _largest(figures, op) for op in OPERATIONS}
    return {
        op: min(found.values(), key=lambda its: its.median) for op, found in ways.items() if found
    }


def some_points(figures: Sequence[Figure]) -> dict[str, Figure]:
    """Four kernels that lie far apart: three that memory decides, and the largest product."""
    points = fastest(figures)
    products = {
        its.variant: its
        for its in figures
        if (its.kernel, its.shape, its.metric) == ("matmul nn", LARGEST, "time")
    }
    few = {name: points[name] for name in ("leaky relu", "adam", "bce")}
    return few | {"vectorised product": products["vectorised"]}


def _largest(figures: Sequence[Figure], op: str) -> dict[str, Figure]:
    """The course's ways of an operation at its largest size, by name."""
    timed = [its for its in figures if its.kernel == op and its.metric == "time"
             and not its.variant.startswith("torch")]  # fmt: skip
    most = max((its.bytes for its in timed), default=0)
    return {its.variant: its for its in timed if its.bytes == most}


def charts(figures: Sequence[Figure]) -> dict[str, Picture]:
    """What ``python -m course bench vae_micro`` draws beside its file."""
    return {"products": of_products(figures), "kernels": of_kernels(figures)}


# --- digits ---------------------------------------------------------------------------------------


def in_two_rows(upper: np.ndarray, lower: np.ndarray, names: Sequence[str]) -> Picture:
    """Show as many digits in an upper row as in a lower one, each row with its name."""
    picture = image_grid(
        [*squares(upper), *squares(lower)], columns=len(upper), row_names=names, cell=CELL
    )
    return picture.described(
        f"Two rows of {len(upper)} images: above {names[0]}, below {names[1]}."
    )


# --- the network ----------------------------------------------------------------------------------

FORWARD, BACKWARD, UPDATE = BLUE, ORANGE, GREEN


def network(shape: VAEShape) -> Picture:
    """Draw a VAE's layers from left to right, each as high as it has numbers, roughly."""
    sizes = {
        "x": shape.pixels, "h": shape.hidden, "mean,\nlog variance": 2 * shape.latent,
        "z": shape.latent, "g": shape.hidden, "logits": shape.pixels,
    }  # fmt: skip
    between = ("W1, leaky", "W2", "+ noise", "W3, leaky", "W4")
    pen = Pen(7.4, 2.3)
    step, wide, middle = 1.27, 0.5, 1.1
    highest = max(sizes.values())
    for place, (name, size) in enumerate(sizes.items()):
        x, high = 0.22 + place * step, 0.3 + 1.2 * (size / highest) ** 0.5
        colour = PURPLE if name in ("z", "mean,\nlog variance") else SKY
        pen.tint(x, middle - high / 2, wide, high, colour)
        pen.text(x + wide / 2, middle, f"{size}", size=FONT_SIZE)
        pen.text(x + wide / 2, 2.05, name, size=SMALL)
        if place < len(between):
            pen.arrow((x + wide + 0.05, middle), (x + step - 0.05, middle))
            pen.text(x + (wide + step) / 2, middle - 0.14, between[place], size=TINY)
    pen.text(0.22 + 1.5 * step, 0.12, "encoder", size=SMALL, color=FAINT)
    pen.text(0.22 + 4.3 * step, 0.12, "decoder", size=SMALL, color=FAINT)
    return pen.picture.described(
        "A VAE from left to right: "
        + ", ".join(
            f"{name.replace(chr(10), ' ')} with {size} numbers" for name, size in sizes.items()
        )
        + "; noise comes in between the code and z."
    )


# --- launches -------------------------------------------------------------------------------------


def launches(work: Sequence[Work], numbers: Sequence[int]) -> Picture:
    """Draw operations as boxes, one column for each launch that they stand in.

    Parameters
    ----------
    work : sequence of Work
    numbers : sequence of int
        The launch of each, from 1.
    """
    columns = max(numbers)
    tallest = max(sum(n == column for n in numbers) for column in range(1, columns + 1))
    pen = Pen(7.4, 0.42 * tallest + 0.62)
    wide = min(7.2 / columns, 1.3)
    rows = [0] * (columns + 1)
    for its, number in zip(work, numbers, strict=True):
        name = its.name
        colour = (
            UPDATE
            if name.startswith("update")
            else (BACKWARD if name.startswith("d_") else FORWARD)
        )
        x, y = 0.1 + (number - 1) * wide, 0.34 + 0.42 * rows[number]
        pen.tint(x + 0.03, y, wide - 0.06, 0.34, colour)
        pen.text(x + wide / 2, y + 0.17, name, size=TINY)
        rows[number] += 1
    for column in range(1, columns + 1):
        text = f"launch {column}"
        pen.text(0.1 + (column - 0.5) * wide, 0.16, text, size=TINY, color=FAINT)
    pen.text(0.13, 0.42 * tallest + 0.5, "blue: forward, orange: back, green: weights change",
             ha="left", size=TINY, color=FAINT)  # fmt: skip
    return pen.picture.described(
        f"{len(work)} operations in {columns} launches: "
        + "; ".join(
            f"{column}: "
            + ", ".join(w.name for w, n in zip(work, numbers, strict=True) if n == column)
            for column in range(1, columns + 1)
        )
        + "."
    )


# --- an epoch -------------------------------------------------------------------------------------


def epochs(times: Mapping[str, float]) -> Picture:
    """Draw what an epoch takes, a bar for each way, from 0.

    Parameters
    ----------
    times : mapping of str to float
        Milliseconds by the way's name; PyTorch's begin with "torch".
    """
    names = sorted(times, key=times.__getitem__, reverse=True)
    said = {name: f"{its:,.0f}" if its >= 100 else f"{its:.3g}" for name, its in times.items()}
    high = 0.27 * len(names)
    picture = Picture(7.2, high + 0.75)
    axes = picture.add_axes((0.33, 0.5 / (high + 0.75), 0.58, high / (high + 0.75)))
    for row, name in enumerate(names):
        colour = SKY if name.startswith("torch") else VERMILLION
        axes.barh(row, times[name], 0.66, color=pale(colour), edgecolor=colour)
        look = {"va": "center", "fontsize": SMALL, "color": INK}
        axes.text(times[name] + 0.01 * max(times.values()), row, said[name], **look)
    axes.set_yticks(range(len(names)), [n.replace("torch", "PyTorch") for n in names])
    axes.invert_yaxis()
    axes.set(xlabel="an epoch of 468 steps [ms]", xlim=(0, 1.15 * max(times.values())))
    in_plain_numbers(axes.xaxis)
    style(axes, "x")
    return picture.described(
        "Milliseconds of an epoch: " + "; ".join(f"{name} {said[name]}" for name in names) + "."
    )


# --- roofs of two GPUs ----------------------------------------------------------------------------


def two_roofs(points: Mapping[str, Figure], right: Roofs, wrong: Roofs) -> Picture:
    """Draw the same points below the roofs of their GPU and, dashed, below another one's."""
    picture = Picture(7.2, 3.9)
    axes = picture.add_axes((0.09, 0.14, 0.88, 0.8))
    places = {name: its.operations / its.bytes for name, its in points.items()}
    x = np.array([min(places.values()) / 4, max(*places.values(), right.ridge()) * 6])
    for roofs, dashes, colour, at in ((right, "-", INK, 1.18), (wrong, "--", VERMILLION, 0.66)):
        peak, slope = roofs.rates["float32"], roofs.bandwidth * 1e-3
        axes.plot([x[0], peak / slope, x[1]], [x[0] * slope, peak, peak], dashes, color=colour)
        text = f"{roofs.gpu}: {peak:.3g} TFLOP/s, {roofs.bandwidth:,.0f} GB/s"
        axes.text(peak / slope * 1.2, peak * at, text, fontsize=SMALL, color=colour)
    for number, (name, its) in enumerate(points.items()):
        axes.plot([places[name]], [its.teraflops], marker=MARKERS[number % len(MARKERS)],
                  linestyle="none", color=BLUE, zorder=4)  # fmt: skip
        axes.annotate(name, (places[name], its.teraflops), (-9, 3), textcoords="offset points",
                      ha="right", fontsize=SMALL, color=BLUE)  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel="operations a byte of device memory",
             ylabel="TFLOP/s", xlim=x)  # fmt: skip
    in_plain_numbers(axes.xaxis, axes.yaxis)
    axes.set_ylim(top=2.5 * max(right.rates["float32"], wrong.rates["float32"]))
    style(axes)
    return picture.described(
        f"{listed(list(points))} below two roofs: those of {right.gpu}, and dashed the lower ones "
        f"of {wrong.gpu}. The points are the same."
    )
