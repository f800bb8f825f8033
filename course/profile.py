"""Recorded profiles: a timeline of phases, copies, kernels; the counters of the ladder's kernels.

Recorded with ``profiling/record_timeline.py`` and ``profiling/record_profile.py`` on a GPU, shown
here on any machine. What the trace predicts for the counters is in `course.profile_predictions`.
"""

from __future__ import annotations

import csv
import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from course import timeline as timelines
from course.measurements import REQUIRED, BadMeasurements, Figure, read
from course.paths import data_path
from course.tables import table_text, write_whole
from course.timeline import Span

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
        Which program: "first" or "tidy", see `profiling.phases`.
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
    """Milliseconds in which at least one of the events was under way."""
    return timelines.busy([Span("", "", event.start, event.end) for event in events], "")


def together(first: Iterable[Event], second: Iterable[Event]) -> float:
    """Milliseconds in which one of the first and one of the second were under way at once."""
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
def _figures(gpu: str) -> dict[tuple[str, str], Figure]:
    found = read(data_path("measurements", f"{gpu}-profile.csv"))
    return {(figure.variant, figure.metric): figure for figure in found.figures}


def steps(gpu: str = "h200") -> list[str]:
    """The steps of the ladder of which counters were recorded."""
    return list(dict.fromkeys(step for step, _ in _figures(gpu)))


def recorded(step: str, metric: str, gpu: str = "h200") -> Figure:
    """A recorded counter of a step of the ladder.

    Parameters
    ----------
    step : str
        Such as "tiled".
    metric : str
        A name of `METRICS`, or "stall " and a reason of `STALLS`.
    gpu : str
        As in the file's name.

    Raises
    ------
    ValueError
        Where it was not recorded; the message says what was.
    """
    figures = _figures(gpu)
    if (step, metric) not in figures:
        if step not in steps(gpu):
            raise ValueError(f"no counters of {step!r}; there are those of {', '.join(steps(gpu))}")
        known = ", ".join(name for its, name in figures if its == step)
        raise ValueError(f"no recorded {metric!r} of {step!r}; there is {known}")
    return figures[step, metric]


def counter(step: str, metric: str, gpu: str = "h200") -> float:
    """The median of a recorded counter, see `recorded`."""
    return recorded(step, metric, gpu).median


#: Percent of a roof from which on it is said to bind: Nsight Compute's own rule.
NEAR_A_ROOF = 60.0


def limiter(step: str, gpu: str = "h200") -> str:
    """What binds a step by its speed of light: "compute", "memory", or "waiting" for neither."""
    sm, memory = (counter(step, f"{which} throughput", gpu) for which in ("SM", "memory"))
    if max(sm, memory) < NEAR_A_ROOF:
        return "waiting"
    return "compute" if sm >= memory else "memory"


def main_stall(step: str, gpu: str = "h200") -> tuple[str, float]:
    """What the warps of a step wait for most, and its share of a warp's time."""
    clocks = stalls(step, gpu)
    reason = next(name for name in clocks if name not in ("selected", "not_selected"))
    return reason, clocks[reason] / sum(clocks.values())


def stalls(step: str, gpu: str = "h200") -> dict[str, float]:
    """Where the warps of a step are: clocks in each state between two instructions of a warp.

    The longest comes first; states in which no warp was are left out. Their sum is the average
    number of clocks from one instruction of a warp to its next.
    """
    found = {
        metric.removeprefix("stall "): figure.median
        for (its, metric), figure in _figures(gpu).items()
        if its == step and metric.startswith("stall ")
    }
    return {
        reason: clocks
        for reason, clocks in sorted(found.items(), key=lambda pair: -pair[1])
        if clocks > 0
    }
