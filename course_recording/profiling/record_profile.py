"""Record Nsight Compute's figures of kernels: utilisation, occupancy, stalls.

Run ``python -m course_recording.profiling.record_profile data/measurements/<gpu>-profile.csv`` on a
machine with a GPU and Nsight Compute. One process launches each step of the ladder under ``ncu``,
at the size of the ladder's times. The file has the form of all recorded figures; the metrics' names
are in its header. With ``--subject norm`` and ``<gpu>-profile-norm.csv`` the process launches the
kernels of `course_lessons.lesson13.profile`.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from course.measure.recorded import Figure, write
from course_lessons.lesson07.profile import METRICS, STALLS, stall_metric
from course_recording.profiling import nsight
from course_recording.profiling.nsight import CountersNotRead, number_in

MODULE = "course_recording.profiling.record_profile"

STEPS = (
    "original", "float32", "naive", "tiled", "column", "square", "wide", "buffered", "warp tiles",
)  # fmt: skip
LAUNCHES = 3
#: ncu's unit -> the file's unit, and the factor to it.
UNITS = {
    "nsecond": ("ms", 1e-6), "ns": ("ms", 1e-6), "usecond": ("ms", 1e-3), "us": ("ms", 1e-3),
    "msecond": ("ms", 1.0), "ms": ("ms", 1.0), "second": ("ms", 1e3), "s": ("ms", 1e3),
    "byte": ("bytes", 1.0), "%": ("%", 1.0),
}  # fmt: skip


SUBJECTS = ("ladder", "norm")
Named = tuple[str, str, str]  # a kernel, its variant and its shape, as in the rows


# ---------------------------------------------------------------------- what is profiled
def named(subject: str, shape: str) -> list[Named]:
    """Name each launched kernel; `shape` is rows x columns x k of the ladder."""
    if subject == "ladder":
        return [("reconstruct", step, shape) for step in STEPS]
    from course_lessons.lesson13.profile import CASES

    return [(case.kernel, case.variant, case.shape) for case in CASES.values()]


def ladder_calls(shape: str) -> Iterator[Callable[[], None]]:
    """A launch of each step of the ladder."""
    from course.backend import cuda
    from course_lessons.lesson06.ladder import prepared

    rows, columns, k = map(int, shape.split("x"))
    rng = np.random.default_rng(0)
    u, s, vt = (
        cuda.to_device(rng.random(size, dtype=np.float32) - np.float32(0.5))
        for size in ((rows, k), k, (k, columns))
    )
    out = cuda.device_array((rows, columns), np.float32)
    for name in STEPS:
        call = prepared(name, u, s, vt, k, out)
        yield lambda call=call: call(u, s, vt, k, out)


def row_calls() -> Iterator[Callable[[], None]]:
    """A launch of each kernel of `course_lessons.lesson13.profile`."""
    from course_lessons.lesson13.profile import CASES, ROWS

    for case in CASES.values():
        call, arguments = case.launch(ROWS)
        yield lambda call=call, arguments=arguments: call(*arguments)


def launch(facts: Path, subject: str, shape: str) -> None:
    """Launch every kernel, compiled before; write the GPU and the versions."""
    command = f"python -m {MODULE}" + f" --subject {subject}" * (subject != "ladder")
    with nsight.launching(facts, command):
        for call in ladder_calls(shape) if subject == "ladder" else row_calls():
            call()
            nsight.profiled(call, LAUNCHES)


# ---------------------------------------------------------------------- Nsight Compute
def wanted() -> dict[str, str]:
    """By each figure's name, Nsight Compute's metric for it."""
    return METRICS | {f"stall {reason}": stall_metric(reason) for reason in STALLS}


def run_nsight_compute(
    ncu: str, subject: str, shape: str
) -> tuple[list[dict[str, str]], dict[str, str], dict[str, str], list[str]]:
    """Launch the kernels of a subject under ``ncu``.

    Returns
    -------
    rows, units, facts
        As of `course_recording.profiling.nsight.counted`.
    left_out : list of str
        Figures whose metric this ncu does not have.

    Raises
    ------
    CountersNotRead
        When ncu fails or may not read counters; the message ends with ncu's output.
    """
    metrics, known = wanted(), nsight.known_metrics(ncu)
    left_out = [n for n, its in metrics.items() if known and its.split(".")[0] not in known]
    asked = (its for name, its in metrics.items() if name not in left_out)
    found = nsight.counted(ncu, asked, MODULE, "--subject", subject, "--shape", shape)
    return *found, left_out


def figures(
    rows: list[dict[str, str]], units: dict[str, str], launched: list[Named], left_out: list[str]
) -> list[Figure]:
    """The figures of all kernels: median and quartiles of each one's launches.

    There is no figure where a metric has no number, such as the hit rate of a cache that the kernel
    does not use.

    Raises
    ------
    CountersNotRead
        When a launch is missing.
    """
    made = len(launched) * LAUNCHES
    if len(rows) != made:
        raise CountersNotRead(f"{made} launches were made, {len(rows)} profiled")
    found = []
    for number, (kernel, variant, shape) in enumerate(launched):
        launches = rows[number * LAUNCHES : (number + 1) * LAUNCHES]
        if len({row["Kernel Name"] for row in launches}) != 1:
            raise CountersNotRead(f"{kernel} {variant}: its launches are of several kernels")
        for name, metric in wanted().items():
            if name in left_out:
                continue
            values = [number_in(row, metric) for row in launches]
            if not all(map(math.isfinite, values)):
                continue
            unit, factor = UNITS.get(units.get(metric, ""), ("", 1.0))
            unit = unit or unit_of(name)
            spread = np.percentile(values, (25, 50, 75)) * factor
            if unit in ("count", "bytes"):
                spread = spread.round()
            q1, median, q3 = map(float, spread)
            found.append(
                Figure(kernel, variant, shape, "float32", name, unit, median, q1, q3, LAUNCHES)
            )
    return found


def unit_of(name: str) -> str:
    """The unit of a figure for which ncu gives no unit: clocks, warps, or a count."""
    if name.startswith("stall") or name == "clocks between instructions":
        return "clocks"
    if name in ("active warps", "eligible warps"):
        return "warps"
    return "instructions" if name == "issued a clock" else "count"


def main() -> None:
    """Command line."""
    from course_lessons.lesson06.ladder import SHAPE

    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--subject", choices=SUBJECTS, default=SUBJECTS[0], help="which kernels")
    parser.add_argument(
        "--shape", default="x".join(map(str, SHAPE)), help="of the ladder: rows x columns x k"
    )
    chosen = nsight.options(parser)
    if chosen.launch:
        launch(chosen.launch, chosen.subject, chosen.shape)
        return
    try:
        rows, units, facts, left_out = run_nsight_compute(chosen.ncu, chosen.subject, chosen.shape)
        launched = named(chosen.subject, chosen.shape)
        found = figures(rows, units, launched, left_out)
    except CountersNotRead as error:
        raise SystemExit(str(error)) from None
    if left_out:
        facts["left out"] = ", ".join(left_out)
    write(chosen.output, facts | {k: v for k, v in wanted().items() if k not in left_out}, found)
    print(f"{chosen.output}: {len(launched)} kernels, {len(found)} figures")


if __name__ == "__main__":
    main()
