"""The course's own recorded figures, before and after one change each, by the principle behind it.

All on one NVIDIA H200; ``data/measurements`` has their shapes, spreads and dates.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from course import recorded
from course.files import data_path, table_of
from course.measure.recorded import Figure
from course.plots.style import Picture, style, swatches
from warpsim.draw.palette import BLUE, GREEN, ORANGE

MANY, NEAR, NEVER = "many at once", "move less", "never wait"
COLOURS = {MANY: BLUE, NEAR: GREEN, NEVER: ORANGE}
GPU = "H200"

SUM = {"subject": "reduce", "kernel": "sum", "shape": "67108864"}
LADDER = {"subject": "reconstruct", "shape": "4096x4096x1024"}
BATCH = {"subject": "streams", "kernel": "k columns and rows"}
SVD = {"subject": "svd", "kernel": "svd normal", "shape": "1024x64x64"}
GPUS = {"subject": "cluster", "kernel": "strong scaling", "shape": "1024x2048x2048x128"}
FLIP = {"subject": "transpose", "shape": "8192x8192"}
NORM = {"subject": "norm", "kernel": "layer norm + gelu", "shape": "16384x4096"}
NETWORK = {"subject": "spectral", "kernel": "spectral", "shape": "512"}
MEMORY = {"subject": "allocation", "kernel": "memory", "shape": "1024"}
EPOCH = {"subject": "vae", "kernel": "epoch", "dtype": "float32"}
WARPS = {"subject": "measuring", "kernel": "copy by warps", "dtype": "float32"}

#: What was changed, the lesson, the principle, where the figures are, and both variants.
ROWS = (
    ("64 warps a multiprocessor, not one", 3, MANY, WARPS, "1 warps", "64 warps"),
    ("a sum by trees, not at one address", 10, MANY, SUM, "atomics", "last block"),
    ("1,024 SVDs at once, not in turn", 11, MANY, SVD, "cupy", "auto"),
    ("four GPUs, not one", 12, MANY, GPUS, "1 worker", "4 workers"),
    ("neighbours read neighbours", 5, NEAR, FLIP, "transpose_read_coalesced", "transpose_padded"),
    ("tiles in shared memory", 5, NEAR, LADDER, "naive", "tiled"),
    ("sums and tiles in registers", 6, NEAR, LADDER, "tiled", "warp tiles"),
    ("only the columns that are used", 8, NEAR, BATCH, "original", "truncated"),
    ("a row stays in registers", 13, NEAR, NORM, "tree", "registers"),
    ("a network in one kernel", 14, NEAR, NETWORK, "layers", "folded"),
    ("pinned memory, used again", 8, NEVER, BATCH, "truncated", "pinned"),
    ("copies while kernels run", 8, NEVER, BATCH, "pinned", "2 streams"),
    ("one buffer, not one a call", 8, NEVER, MEMORY, "Numba, each call", "Numba, one buffer"),
    ("an epoch's launches as a graph", 16, NEVER, EPOCH, *(
        "torch eager, fused Adam", "torch graph, fused Adam",
    )),
)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """One change of a program, and what it gave: recorded times before and after."""

    what: str
    lesson: int
    principle: str
    before: Figure
    after: Figure

    @property
    def factor(self) -> float:
        """Time before / time after."""
        return self.before.median / self.after.median


def changes() -> list[Change]:
    """All changes, in the order of the principles."""
    return [
        Change(what, lesson, principle, *(_figure(variant, **where) for variant in variants))
        for what, lesson, principle, where, *variants in ROWS
    ]


def _figure(variant: str, **where: str) -> Figure:
    (figure,) = recorded(variant=variant, metric="time", gpu=GPU, **where)
    return figure


def table(principle: str) -> str:
    """The changes that follow one principle, as lines of text."""
    lines = [f"{'what was changed':36}{'lesson':>6}{'before':>12}{'after':>12}{'factor':>9}"]
    for each in changes():
        if each.principle == principle:
            times = f"{each.before.amount:>12}{each.after.amount:>12}"
            lines.append(f"{each.what:36}{each.lesson:>6}{times}{each.factor:9,.1f}")
    return "\n".join(lines)


def factor_text(factor: float) -> str:
    """A factor in three digits at least: "1,839", "9.21"."""
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"


def chart() -> Picture:
    """Draw all factors as points, the largest on top, in the colours of the principles."""
    ordered = sorted(changes(), key=lambda each: each.factor)
    picture = Picture(6.8, 0.9 + 0.27 * len(ordered))
    height = picture.get_figheight()
    axes = picture.subplots()
    picture.subplots_adjust(left=0.41, right=0.97, bottom=0.45 / height, top=1 - 0.1 / height)
    colours = [COLOURS[each.principle] for each in ordered]
    places = range(len(ordered))
    axes.scatter([each.factor for each in ordered], places, color=colours)
    axes.set_yticks(places, [each.what for each in ordered])
    axes.set_xscale("log")
    axes.set_xlim(1, 8 * ordered[-1].factor)
    for place, each in enumerate(ordered):
        axes.text(each.factor * 1.25, place, factor_text(each.factor), va="center")
    axes.set_xlabel("times as fast, logarithmic")
    axes.legend(handles=swatches(COLOURS), loc="lower right", frameon=False)
    style(axes, "x")
    said = "; ".join(f"{e.what}: {factor_text(e.factor)} ({e.principle})" for e in ordered[::-1])
    return picture.described(
        f"What one change gave on an {ordered[0].before.gpu}, as points. {said}."
    )


#: The stages of the program of lesson 09, and the programs of `recorded("pipeline")` that do them.
STAGES = {
    "decode": "decode, 1 thread",
    "factorise": "factorise, 1 thread",
    "rebuild": "rebuild, 1 thread",
    "write": "write, 1 thread",
}


def stages() -> dict[str, float]:
    """Milliseconds of an image in each stage of lesson 09's program, by one thread of the CPU."""
    found = {}
    for stage, variant in STAGES.items():
        (figure,) = recorded("pipeline", variant=variant, metric="rate", gpu=GPU)
        found[stage] = 1000 / figure.median
    return found


def successor() -> str:
    """How steps by numba-cuda-mlir compare with numba-cuda's on an H200: two lines."""
    _, rows = table_of(data_path("measurements", "h200-successor.csv"))
    same = sum(float(row["difference"]) == 0 for row in rows)
    ratios = [float(row["ratio"]) for row in rows]
    slowest = min(rows, key=lambda row: float(row["ratio"]))
    return (
        f"same result to the bit     {same} of {len(rows)}\n"
        f"time of numba-cuda / time  mean {statistics.geometric_mean(ratios):.2f}, from "
        f"{min(ratios):.2f} ({slowest['family']}, {slowest['step']}) to {max(ratios):.2f}"
    )
