"""Recorded profiles: a timeline of phases and copies, counters of kernels, what a trace predicts.

Recorded with ``course_recording/profiling/record_timeline.py`` and
``course_recording/profiling/record_profile.py`` on a GPU, shown here on any machine.

A kernel is traced on a small image with two values of k. Its traffic grows by the same amount with
each further i and each further block, so the counts of the image that was profiled follow exactly.
They are the source's: where the compiler reads four neighbours at once, the hardware counts less.
"""

from __future__ import annotations

import csv
import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from course.files import data_path, table_text, write_whole
from course.kernels.reconstruct.ladder import LADDER
from course.measure import timeline as timelines
from course.measure.recorded import REQUIRED, BadMeasurements, Figure, read
from course.measure.timeline import Span
from course_lessons.lesson06 import ladder
from warpsim import Report, trace
from warpsim.host import gpus

#: Name of a figure -> Nsight Compute's metric.
METRICS = {
    "duration": "gpu__time_duration.sum",
    "cycles": "sm__cycles_elapsed.max",
    "SM throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory throughput": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "L2 throughput": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "L1 throughput": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "L1 wavefronts": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
    "L1 requests": "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed",
    "issue slots": "sm__inst_issued.avg.pct_of_peak_sustained_active",
    "FMA pipe": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "FMA pipe cycles": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "ALU pipe": "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active",
    "LSU pipe": "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active",
    "FP64 pipe": "sm__inst_executed_pipe_fp64.avg.pct_of_peak_sustained_active",
    "uniform pipe": "sm__inst_executed_pipe_uniform.avg.pct_of_peak_sustained_active",
    "achieved occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "theoretical occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "active warps": "smsp__warps_active.avg.per_cycle_active",
    "eligible warps": "smsp__warps_eligible.avg.per_cycle_active",
    "issued a clock": "smsp__issue_active.avg.per_cycle_active",
    "clocks between instructions": "smsp__average_warp_latency_per_inst_issued.ratio",
    "instructions": "smsp__inst_executed.sum",
    "L1 hit rate": "l1tex__t_sector_hit_rate.pct",
    "L2 hit rate": "lts__t_sector_hit_rate.pct",
    "DRAM bytes read": "dram__bytes_read.sum",
    "DRAM bytes written": "dram__bytes_write.sum",
    "global load requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global load sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global store requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global store sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared load requests": "smsp__inst_executed_op_shared_ld.sum",
    "shared load wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared load conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared store requests": "smsp__inst_executed_op_shared_st.sum",
    "shared store wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared store conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "float32 fma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "float32 add": "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",
    "float32 mul": "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",
    "float64 fma": "smsp__sass_thread_inst_executed_op_dfma_pred_on.sum",
    "float64 add": "smsp__sass_thread_inst_executed_op_dadd_pred_on.sum",
    "float64 mul": "smsp__sass_thread_inst_executed_op_dmul_pred_on.sum",
}

#: What a warp is doing while it does not issue an instruction, in Nsight Compute's words; of a
#: warp that does, "selected", and of one that could but was not taken, "not_selected".
STALLS = {
    "selected": "it issues an instruction",
    "not_selected": "it could, another warp was taken",
    "long_scoreboard": "waits for global or local memory",
    "short_scoreboard": "waits for shared memory",
    "mio_throttle": "queue to shared memory is full",
    "lg_throttle": "queue to global memory is full",
    "math_pipe_throttle": "the arithmetic unit is busy",
    "wait": "fixed pause after an instruction",
    "barrier": "waits for its block at a barrier",
    "dispatch_stall": "the dispatcher holds it back",
    "no_instruction": "its next instruction is not there yet",
    "branch_resolving": "waits for a jump",
    "imc_miss": "waits for a constant",
    "drain": "its stores are on their way at the end",
    "membar": "waits at a memory fence",
    "tex_throttle": "queue to the texture unit is full",
    "gmma": "waits for a warp group's tensor cores",
    "sleeping": "sleeps",
    "misc": "other reasons",
}


def stall_metric(reason: str) -> str:
    """Nsight Compute's metric of a reason: warps in that state, for each instruction issued."""
    return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"


# ---------------------------------------------------------------------- the timeline
@dataclass(frozen=True)
class Event:
    """Something that the CPU or the GPU did.

    Attributes
    ----------
    run : str
        Which program: "first" or "tidy", see `course_recording.profiling.phases`.
    row : str
        The row of the timeline: "CPU: phases", "CPU: calls", "GPU: copies in", "GPU: kernels",
        "GPU: copies out".
    name : str
    start, end : float
        From the start of the run [ms].
    image : int
        From 0; -1 before the first.
    stream : int
        On the GPU; -1 on the CPU.
    bytes : int
        Of a copy.
    call : int
        The number that a call on the CPU and what it started on the GPU share; 0 for none.
    """

    run: str
    row: str
    name: str
    start: float
    end: float
    image: int = -1
    stream: int = -1
    bytes: int = 0
    call: int = 0

    @property
    def milliseconds(self) -> float:
        """Its length."""
        return self.end - self.start


COLUMNS = tuple(column.name for column in fields(Event))
_KINDS = (str, str, str, float, float, int, int, int, int)


def write_timeline(
    path: str | os.PathLike[str], header: Mapping[str, str], events: Iterable[Event]
) -> None:
    """Write a timeline: ``# key=value`` lines, then a row for each event, times in ms."""
    target = Path(path)
    rows = ([f"{v:.4f}" if isinstance(v, float) else v for v in astuple(e)] for e in events)
    write_whole(target, table_text(target.name, header, COLUMNS, rows, BadMeasurements))


def read_timeline(path: str | os.PathLike[str]) -> tuple[dict[str, str], tuple[Event, ...]]:
    """The header and the events of a file of `write_timeline`.

    Raises
    ------
    BadMeasurements
        When it is not such a file; the message names the line.
    """
    name = Path(path).name
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    header = dict(line[2:].split("=", 1) for line in lines if line.startswith("# "))
    missing = [key for key in REQUIRED if not header.get(key)]
    rows = list(csv.reader(lines[len(header) :]))
    if missing or not rows or tuple(rows[0]) != COLUMNS:
        raise BadMeasurements(
            f"{name}: a timeline has the header lines {', '.join(REQUIRED)} and then the columns "
            f"{','.join(COLUMNS)}"
        )
    events = []
    for place, row in enumerate(rows[1:], len(header) + 2):
        try:
            values = [kind(text) for kind, text in zip(_KINDS, row, strict=True)]
        except ValueError:
            raise BadMeasurements(f"{name}, line {place}: {','.join(row)} is no event") from None
        events.append(Event(*values))
    return header, tuple(events)


def timeline(run: str, image: int | None = None, gpu: str = "h200") -> tuple[Event, ...]:
    """The recorded events of a run, or of one of its images.

    Parameters
    ----------
    run : str
        "first" or "tidy".
    image : int, optional
        Without it all, the start-up included.
    gpu : str
        As in the file's name.

    Raises
    ------
    ValueError
        For a run or an image that was not recorded.
    """
    _, events = read_timeline(data_path("measurements", f"{gpu}-profile-timeline.csv"))
    found = tuple(e for e in events if e.run == run and image in (None, e.image))
    if not found:
        runs = ", ".join(sorted({event.run for event in events}))
        images = sorted({event.image for event in events})
        raise ValueError(
            f"no events of run {run!r}, image {image}: the runs are {runs}, the images from "
            f"{images[0]} (before the first) to {images[-1]}"
        )
    return found


def busy(events: Iterable[Event]) -> float:
    """Milliseconds in which at least one of the events was running."""
    return timelines.busy([Span("", "", event.start, event.end) for event in events], "")


def together(first: Iterable[Event], second: Iterable[Event]) -> float:
    """Milliseconds in which one of the first and one of the second were running at once."""
    spans = [
        Span("", lane, event.start, event.end)
        for lane, events in (("first", first), ("second", second))
        for event in events
    ]
    return timelines.together(spans, "first", "second")


def row(events: Iterable[Event], name: str) -> list[Event]:
    """The events of one row, or of all rows whose names begin so, such as "GPU"."""
    return [event for event in events if event.row.startswith(name)]


def phase(events: Iterable[Event], name: str) -> Event:
    """The phase of that name; of several, as of several images, the first.

    Raises
    ------
    ValueError
        When there is none.
    """
    phases = row(events, "CPU: phases")
    for event in phases:
        if event.name == name:
            return event
    names = ", ".join(dict.fromkeys(event.name for event in phases)) or "none"
    raise ValueError(f"no phase {name!r} among these events; there are: {names}")


# ---------------------------------------------------------------------- the counters
@functools.cache
def _figures(subject: str, by: str, gpu: str) -> dict[tuple[str, str], Figure]:
    found = read(data_path("measurements", f"{gpu}-{subject}.csv"))
    return {(getattr(figure, by), figure.metric): figure for figure in found.figures}


@dataclass(frozen=True)
class Counters:
    """Recorded counters of some kernels.

    A GPU is named as in the file's name. Where nothing was recorded on it, there is a
    FileNotFoundError.

    Attributes
    ----------
    subject : str
        In the file's name.
    by : str
        The attribute of a `Figure` that tells the kernels apart: "kernel" or "variant".
    """

    subject: str
    by: str

    def names(self, gpu: str = "h200") -> list[str]:
        """The kernels of which counters were recorded."""
        return list(dict.fromkeys(name for name, _ in _figures(self.subject, self.by, gpu)))

    def recorded(self, name: str, metric: str, gpu: str = "h200") -> Figure:
        """A recorded counter of a kernel.

        Parameters
        ----------
        name : str
            Of the kernel, such as "tiled".
        metric : str
            A name of `METRICS`, or "stall " and a reason of `STALLS`.
        gpu : str

        Raises
        ------
        ValueError
            Where it was not recorded; the message says what was.
        """
        figures = _figures(self.subject, self.by, gpu)
        if (name, metric) not in figures:
            names = self.names(gpu)
            if name not in names:
                raise ValueError(f"no counters of {name!r}; there are those of {', '.join(names)}")
            known = ", ".join(metric for its, metric in figures if its == name)
            raise ValueError(f"no recorded {metric!r} of {name!r}; there is {known}")
        return figures[name, metric]

    def counter(self, name: str, metric: str, gpu: str = "h200") -> float:
        """The median of a recorded counter, see `recorded`."""
        return self.recorded(name, metric, gpu).median

    def stalls(self, name: str, gpu: str = "h200") -> dict[str, float]:
        """Where a kernel's warps are: cycles in each state between two instructions of a warp.

        The longest comes first; states in which no warp was are left out. Their sum is the average
        number of cycles from one instruction of a warp to its next.
        """
        found = {
            metric.removeprefix("stall "): figure.median
            for (its, metric), figure in _figures(self.subject, self.by, gpu).items()
            if its == name and metric.startswith("stall ") and figure.median > 0
        }
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def main_stall(self, name: str, gpu: str = "h200") -> tuple[str, float]:
        """What a kernel's warps wait for most, and its share of a warp's time."""
        clocks = self.stalls(name, gpu)
        reason = next(state for state in clocks if state not in ("selected", "not_selected"))
        return reason, clocks[reason] / sum(clocks.values())


of_steps = Counters("profile", "variant")  # of the ladder
steps, recorded, counter = of_steps.names, of_steps.recorded, of_steps.counter
stalls, main_stall = of_steps.stalls, of_steps.main_stall

#: Percent of a roof from which on the larger throughput has the word: Nsight Compute's first rule,
#: made simpler. (Its file SpeedOfLight.py: below 60 both, "latency issues"; from 80 on "utilizing
#: greater than 80%"; between, the larger, or "well-balanced" where they are less than 10 apart.)
NEAR_A_ROOF = 60.0


def limiter(step: str, gpu: str = "h200") -> str:
    """What binds a step by its speed of light: "compute", "memory", or "waiting" for neither."""
    sm, memory = (counter(step, f"{which} throughput", gpu) for which in ("SM", "memory"))
    if max(sm, memory) < NEAR_A_ROOF:
        return "waiting"
    return "compute" if sm >= memory else "memory"


SIDE = 256  # pixels of the traced image; every step's blocks fit
FEW, MORE = 32, 64  # values of k
LINE = 128  # bytes of a line of the L1 cache
WARP = 32
GPU = "H200"  # the one that was profiled

#: Name of a counter in `METRICS` -> space, operation and figure of the trace.
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


def traffic(name: str, reports: Iterable[Report], also: Sequence[str] = ()) -> list[int]:
    """What traces count of a counter of `TRAFFIC`.

    Raises
    ------
    ValueError
        For another counter; `also` names those that can be had otherwise.
    """
    if name not in TRAFFIC:
        known = ", ".join((*TRAFFIC, *also))
        raise ValueError(f"the trace does not count {name!r}; it counts {known}")
    space, op, what = TRAFFIC[name]
    return [getattr(report.total(space, op), what) for report in reports]


def grown(few: float, more: float, sizes: tuple[int, int], size: int) -> float:
    """What becomes, at a size, of something that grows evenly: known at two smaller sizes."""
    return few + (more - few) / (sizes[1] - sizes[0]) * (size - sizes[0])


def _at_the_profiled_size(few: float, more: float) -> float:
    rows, columns, k = ladder.SHAPE
    return grown(few, more, (FEW, MORE), k) * (rows * columns) / SIDE**2


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
    return _at_the_profiled_size(*traffic(name, (traced(step, k) for k in (FEW, MORE))))


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
        Of the part's cycles in which it worked, by the counters [%].
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


def busy_parts(step: str) -> dict[str, Busy]:
    """Each of `PARTS`: predicted cycles for a product, and what was counted.

    L1 and shared memory pass one wavefront a cycle. Four instructions start a cycle, as many as
    PTX has in the inner loop for a product, see `course_lessons.lesson06.ladder.facts`; for a step
    without such a loop they are not predicted (NaN). Four of them can be float32 arithmetic.
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
    parts = busy_parts(step)
    predicted_part = max(parts, key=lambda part: np.nan_to_num(parts[part].clocks))
    return predicted_part, max(parts, key=lambda part: parts[part].share)


def clocks_taken(step: str) -> float:
    """Clocks that a multiprocessor took for a product, as counted."""
    return counter(step, "cycles") * gpus.find(GPU).multiprocessors / products()
