"""Drawings of lesson 16: the rooflines of a VAE's kernels, from recorded figures.

>>> figures = recorded("vae_micro", metric=None, gpu="H200")
>>> of_products(figures, "4096x4096x4096")
>>> of_kernels(figures)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from course.kernels.matmul import LADDER
from course.measure.recorded import Figure
from course.measure.roofline import PIPES, Roofs
from course.plots.roofline_chart import roofline
from course.plots.style import Picture

ROOF = "roof"  # rows of a file that say what the GPU can do
LARGEST = "4096x4096x4096"
PEERS = ("cuBLAS", "cuBLAS TF32")
#: What each operation is drawn by: its fastest strategy among those that the course has.
OPERATIONS = ("leaky relu", "sample", "bce", "bce gradient", "kl", "adam", "bias gradient")
MOVING = ("transpose", "gather")


def roofs_in(figures: Iterable[Figure]) -> Roofs:
    """The roofs that a file of figures has as rows.

    Raises
    ------
    ValueError
        When it has none.
    """
    rows = [its for its in figures if its.kernel == ROOF and its.metric == "peak"]
    found = {its.variant: its.median for its in rows}
    if "memory" not in found:
        raise ValueError("the figures have no roofs: python -m course bench vae_micro writes them")
    return Roofs(
        gpu=rows[0].gpu or "this GPU",
        bandwidth=found["memory"],
        rates={pipe: found[pipe] for pipe in PIPES if pipe in found},
        l2_bytes=0,
        read_bandwidth=found.get("reading"),
        l2_bandwidth=found.get("L2"),
        measured=True,
        source="rows of the same file",
    )


def of_products(figures: Sequence[Figure], shape: str = LARGEST) -> Picture:
    """Draw the steps of the product and cuBLAS's, of one size, under the roofs of their run."""
    timed = [its for its in figures if its.kernel == "matmul nn" and its.metric == "time"]
    found = {its.variant: its for its in timed if its.shape == shape}
    steps = [name for name in LADDER if name in found]
    points = {name: found[name] for name in (*steps, *PEERS) if name in found}
    roofs = roofs_in(figures)
    pipes = [pipe for pipe in ("float32", "tensor_float32") if pipe in roofs.rates]
    title = f"Products of {shape.replace('x', ' × ')}, {roofs.gpu}"
    plain = [name for name in steps if not name.startswith("tensor")]
    return roofline(roofs, points, ladder=plain, pipes=pipes, title=title)


def of_kernels(figures: Sequence[Figure]) -> Picture:
    """Draw the fastest way of each operation at its largest size; what computes nothing below."""
    points = {}
    for op in OPERATIONS:
        ways = _largest(figures, op)
        if ways:
            points[op] = min(ways.values(), key=lambda its: its.median)
    for op in MOVING:
        points |= {f"{op}, {name}": its for name, its in _largest(figures, op).items()}
    roofs = roofs_in(figures)
    title = f"Kernels of a VAE at their largest sizes, {roofs.gpu}"
    return roofline(roofs, points, pipes=("float32",), title=title)


def _largest(figures: Sequence[Figure], op: str) -> dict[str, Figure]:
    """The course's ways of an operation at its largest size, by name."""
    timed = [its for its in figures if its.kernel == op and its.metric == "time"
             and not its.variant.startswith("torch")]  # fmt: skip
    most = max((its.bytes for its in timed), default=0)
    return {its.variant: its for its in timed if its.bytes == most}


def charts(figures: Sequence[Figure]) -> dict[str, Picture]:
    """What ``python -m course bench vae_micro`` draws beside its file."""
    return {"products": of_products(figures), "kernels": of_kernels(figures)}
