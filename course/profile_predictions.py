"""What the trace predicts for a GPU's counters: traffic, and which of its parts will be busiest.

A kernel is traced on a small image with two values of k. Its traffic grows by the same amount with
each further i and each further block, so the counts of the image that was profiled follow exactly.
They are the source's: where the compiler reads four neighbours at once, the hardware counts less.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from course import ladder
from course.kernels.reconstruct import LADDER
from course.profile import counter
from course.simt import Report, gpus, trace

SIDE = 256  # pixels of the traced image; every step's blocks fit
FEW, MORE = 32, 64  # values of k
LINE = 128  # bytes of a line of the L1 cache
WARP = 32
GPU = "H200"  # the one that was profiled

#: Name of a counter in `course.profile.METRICS` -> space, operation and figure of the trace.
TRAFFIC = {
    f"{space} {op} {what}": (space, op, what)
    for space, what in (("global", "sectors"), ("shared", "wavefronts"))
    for op in ("load", "store")
    for what in ("requests", what)
}
#: Part of a multiprocessor -> the counter that says how busy it was.
PARTS = {"L1 and shared memory": "L1 wavefronts", "issue slots": "issue slots",
         "float32 units": "FMA pipe"}  # fmt: skip


@functools.cache
def traced(step: str, k: int) -> Report:
    """The trace of a step on a small image."""
    its = LADDER[step]
    u, s, vt = (np.ones(shape, np.float32) for shape in ((SIDE, k), k, (k, SIDE)))
    out = np.zeros((SIDE, SIDE), np.float32)
    return trace(its.kernel, its.grid(SIDE, SIDE), its.block, u, s, vt, k, out, gpu=GPU)


def _at_the_profiled_size(few: float, more: float) -> float:
    rows, columns, k = ladder.SHAPE
    each = (more - few) / (MORE - FEW)
    return (few + each * (k - FEW)) * (rows * columns) / SIDE**2


def products() -> float:
    """Multiply-adds of whole warps in the profiled work."""
    rows, columns, k = ladder.SHAPE
    return rows * columns * k / WARP


def predicted(step: str, name: str) -> float:
    """A counter's value at the size that was profiled, predicted from the trace.

    Parameters
    ----------
    step : str
        Of the ladder.
    name : str
        Of `TRAFFIC`, such as "global load sectors".

    Raises
    ------
    ValueError
        For another counter.
    """
    if name not in TRAFFIC:
        raise ValueError(f"the trace does not count {name!r}; it counts {', '.join(TRAFFIC)}")
    space, op, what = TRAFFIC[name]
    few, more = (getattr(traced(step, k).total(space, op), what) for k in (FEW, MORE))
    return _at_the_profiled_size(few, more)


# ---------------------------------------------------------------------- how busy
def lines_of(report: Report) -> float:
    """Lines of 128 bytes that a launch's warps touch in global memory, one request at a time.

    Each request counts as many as the example of it that the trace keeps.
    """
    total = 0.0
    for key, count in report._counters.accesses.items():
        if key[1] == "global":
            sample = report._counters.samples[key]
            touched = np.unique(sample.bytes[sample.active] // LINE)
            total += count.requests * len(touched)
    return total


@dataclass(frozen=True)
class Busy:
    """How busy a part of the GPU is with a step of the ladder.

    Attributes
    ----------
    clocks : float
        That a multiprocessor's part needs for one product of a warp, predicted.
    share : float
        Of the part's clocks in which it worked, by the counters [%].
    """

    clocks: float
    share: float


def wavefronts(step: str) -> float:
    """Passes through L1 and shared memory for a product: lines, and wavefronts over the banks."""
    few, more = (
        lines_of(traced(step, k))
        + traced(step, k).total("shared", "load").wavefronts
        + traced(step, k).total("shared", "store").wavefronts
        for k in (FEW, MORE)
    )
    return _at_the_profiled_size(few, more) / products()


def busy(step: str) -> dict[str, Busy]:
    """Each of `PARTS`: predicted clocks for a product, and what was counted.

    L1 and shared memory pass one wavefront a clock. Four instructions start a clock, as many as
    PTX has in the inner loop for a product, see `course.ladder.facts`; for a step without such a
    loop they are not predicted (NaN). Four of them can be float32 arithmetic.
    """
    loop = ladder.facts(step).loop
    report = traced(step, MORE)
    done, each = report.operations, SIDE * SIDE * MORE
    # a product with its addition is two operations and one instruction; what is left are products
    arithmetic = done["float32"] / each - (done["float64"] == 0)
    clocks = {
        "L1 and shared memory": wavefronts(step),
        "issue slots": loop.per_product / 4 if loop else float("nan"),
        "float32 units": arithmetic / 4,
    }
    return {part: Busy(clocks[part], counter(step, PARTS[part])) for part in PARTS}


def busiest(step: str) -> tuple[str, str]:
    """The part that should be busiest, and the one that was."""
    parts = busy(step)
    predicted_part = max(parts, key=lambda part: np.nan_to_num(parts[part].clocks))
    return predicted_part, max(parts, key=lambda part: parts[part].share)


def clocks_taken(step: str) -> float:
    """Clocks that a multiprocessor took for a product, as counted."""
    return counter(step, "cycles") * gpus.find(GPU).multiprocessors / products()
