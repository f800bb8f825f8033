"""A roofline's table from a file of figures, and the roofs as rows of that file.

A line for each program: its operation and strategy; M, K and N, where it has them; the time and the
distance of its quartiles in ms; bytes and operations, and both per second in GB/s and GFLOP/s; the
percentage of the peak that bounds the program; operations a byte. Programs that were timed in a
graph find their data in L2, so that their memory's peak is that of L2.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from course import backend
from course.files import table_text, write_whole
from course.measure import recorded
from course.measure.measured_roofs import ROOF, roofs_in
from course.measure.recorded import BadMeasurements, Figure
from course.measure.roofline import Roofs
from course_recording.launch_costs import IN_A_GRAPH

COLUMNS = (
    "op", "strategy", "M", "K", "N", "time", "spread", "bytes", "flops", "bandwidth", "% of peak",
    "GFLOP/s", "arithmetic intensity",
)  # fmt: skip
UNITS = "time and spread in ms, bandwidth in GB/s, arithmetic intensity in operations a byte"
#: The pipe of a strategy, and how many products it computes for one; others use float32's pipe.
PIPE = {
    "tensor_cores": ("tensor_float32", 3), "tensor_cores_tf32": ("tensor_float32", 1),
    "cuBLAS TF32": ("tensor_float32", 1),
}  # fmt: skip


def keep_roofs(bench: Any) -> None:
    """Keep the roofs of this run as rows, so that one file has all that a roofline needs."""
    roofs = bench.roofs
    levels = {"memory": roofs.bandwidth, "reading": roofs.read_bandwidth, "L2": roofs.l2_bandwidth}
    for name, rate in levels.items():
        if rate:
            bench.figure(ROOF, name, "", "", "peak", "GB/s", rate)
    for pipe, rate in roofs.rates.items():
        bench.figure(ROOF, pipe, "", "", "peak", "TFLOP/s", rate)
        bench.figure(ROOF, pipe, "", "", "ridge point", "operations/byte", roofs.ridge(pipe))


def sizes(figure: Figure) -> tuple[str, str, str]:
    """M, K and N of a product; M and N of a matrix, M of a row of numbers."""
    found = re.findall(r"\d+", figure.shape)
    if len(found) == 3:
        return found[0], found[1], found[2]
    return (found + ["", ""])[0], "", (found + ["", ""])[1]


def share(figure: Figure, roofs: Roofs) -> float:
    """The share that a program reaches of the peak that bounds it: its memory's or its pipe's."""
    in_l2 = figure.metric == IN_A_GRAPH and roofs.l2_bandwidth
    found = [figure.gigabytes_per_second / (roofs.l2_bandwidth if in_l2 else roofs.bandwidth)]
    pipe, products = PIPE.get(figure.variant, ("float32", 1))
    if figure.operations and pipe in roofs.rates:
        found.append(figure.teraflops * products / roofs.rates[pipe])
    return max(found)


def rows(figures: Iterable[Figure]) -> Iterator[list[str]]:
    """The lines of the table, in the order of the figures."""
    figures = list(figures)
    roofs = roofs_in(figures)
    for its in figures:
        if its.metric not in ("time", IN_A_GRAPH) or not its.bytes:
            continue
        computes = not math.isnan(its.teraflops)
        amounts = (
            its.median, its.q3 - its.q1, its.bytes, its.operations or 0, its.gigabytes_per_second,
            100 * share(its, roofs), 1e3 * its.teraflops if computes else None,
            its.operations / its.bytes if computes else None,
        )  # fmt: skip
        yield [its.kernel, its.variant, *sizes(its), *map(recorded.number, amounts)]


def text(name: str, header: dict[str, str], figures: Iterable[Figure]) -> str:
    """The whole file: the header of the figures, peaks and ridge points, the table."""
    figures = list(figures)
    roofs = roofs_in(figures)
    ridges = (f"{pipe} {roofs.ridge(pipe):.3g}" for pipe in roofs.rates)
    about = {"units": UNITS, "peaks": roofs.sentence, "ridge point": ", ".join(ridges)}
    return table_text(name, header | about, COLUMNS, rows(figures), BadMeasurements)


def write_beside(bench: Any) -> Path | None:
    """Write the table of a bench's rows beside its file; None without a folder."""
    if bench.folder is None:
        return None
    gpu = backend.gpu() or bench.roofs.gpu
    path = bench.folder / recorded.file_name(gpu, f"{bench.subject}-table")
    header = recorded.header(gpu, None, f"python -m course bench {bench.subject}")
    figures = [dataclasses.replace(its, gpu=gpu) for its in bench.rows]
    write_whole(path, text(path.name, header, figures))
    bench.say(f"  written: {path}")
    return path
