"""Read a GPU's counters for every case of `course_recording.profiling.cases.accesses`.

``python -m course_recording.profiling.hardware_counters data/measurements/<gpu>-counters.csv`` on a
machine with a GPU and Nsight Compute; with ``--further`` those of
`course_recording.profiling.cases.further`. One process launches all cases, one after the other,
under ``ncu``; the counters are matched with the cases by order, kernel name, grid and block.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from course import __version__
from course_recording.profiling.cases import further
from course_recording.profiling.cases.accesses import CASES, COUNTERS, Case

COLUMNS = ("case", "kernel", "grid", "block", "counter", "value")
WIDE = "shared_wide"

#: Launches of each case. Wavefronts count a few passes too many when accesses get in each other's
#: way, now and then: the smallest figure is kept.
LAUNCHES = 3


class CountersNotRead(RuntimeError):
    """Nsight Compute is missing, refused, or launched something else than the cases."""


# ---------------------------------------------------------------------- the launching process
def launch(cases: list[Case], launches: int, facts: Path, sass: Path | None) -> None:
    """Launch every case; write which GPU and versions did it, and the machine code."""
    from course import backend, kernel_cache
    from course_recording.profiling.cases.access_kernels import shared_wide

    if backend.gpu() is None:
        raise SystemExit(f"there is no GPU to read counters from: {backend.why()}")
    cuda, wide = backend.cuda, shared_wide()
    launched = {}
    for case in cases:
        kernel = wide if case.kernel is None else case.kernel
        kernel_cache.cached(kernel)
        arguments = case.arguments(cuda.to_device)
        launched.setdefault(id(kernel), (kernel, case.name))
        cuda.synchronize()
        cuda.profile_start()
        for _ in range(launches):
            kernel[case.grid, case.block](*arguments)
        cuda.synchronize()
        cuda.profile_stop()
    facts.write_text(json.dumps(versions(backend.gpu(), cuda)), encoding="utf-8")
    if sass is not None:
        with sass.open("w", encoding="utf-8") as file:
            for kernel, name in launched.values():
                for signature, code in kernel.inspect_sass().items():
                    file.write(f"==== {kernel.__name__}{signature}: {name}\n{code}\n")


def versions(gpu: str, cuda) -> dict[str, str]:
    """What the figures may depend on."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader", "--id=0"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip()
    found = {
        "gpu": gpu,
        "compute_capability": ".".join(map(str, cuda.get_current_device().compute_capability)),
        "driver": driver or "unknown",
        "cuda": ".".join(map(str, cuda.runtime.get_version())),
        "python": platform.python_version(),
    }
    for package in ("numba-cuda", "numba", "numpy"):
        found[package] = importlib.metadata.version(package)
    return found


# ---------------------------------------------------------------------- Nsight Compute
def run_nsight_compute(
    ncu: str, sass: Path | None, options: list[str]
) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Launch all cases under ``ncu``; returns its rows, one a launch, and the versions."""
    with tempfile.TemporaryDirectory() as folder:
        report, facts = Path(folder, "counters.ncu-rep"), Path(folder, "facts.json")
        program = [
            sys.executable,
            "-m",
            "course_recording.profiling.hardware_counters",
            *options,
            "--launch",
            str(facts),
        ]
        if sass is not None:
            program += ["--sass", str(sass)]
        profiled = [
            ncu, "--profile-from-start", "off", "--clock-control", "none",
            "--metrics", ",".join(COUNTERS.values()), "--export", str(report), "--force-overwrite",
            *program,
        ]  # fmt: skip
        done = subprocess.run(profiled, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not report.exists():
            raise CountersNotRead(f"{ncu} gave no counters:\n{done.stdout[-2000:]}{done.stderr}")
        printed, version = printed_report(ncu, report)
        found = json.loads(facts.read_text(encoding="utf-8"))
    found["ncu"] = version
    return rows_of(printed), found


def printed_report(ncu: str, report: Path) -> tuple[str, str]:
    """What a report of Nsight Compute says, as CSV in base units, and the version of ncu."""
    printed = subprocess.run(
        [ncu, "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    version = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=True)
    return printed, version.stdout.split("Version")[-1].split()[0]


def rows_of(printed: str) -> list[dict[str, str]]:
    """The rows of ``ncu --csv --page raw``: the first line has names, the second units."""
    lines = [line for line in printed.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    return [row for row in rows if row["ID"]]


def triple(sizes: int | tuple[int, ...]) -> tuple[int, ...]:
    """A grid or block shape as three sizes."""
    given = sizes if isinstance(sizes, tuple) else (sizes,)
    return given + (1,) * (3 - len(given))


def counters_of(case: Case, row: dict[str, str]) -> dict[str, int]:
    """The counters of one launch that are not zero.

    Raises
    ------
    CountersNotRead
        If the row is of another kernel or launch, or lacks a counter.
    """
    name = WIDE if case.kernel is None else case.kernel.__name__
    launched = row["Kernel Name"], row["Grid Size"], row["Block Size"]
    wanted = str(triple(case.grid)), str(triple(case.block))
    if name not in launched[0] or launched[1:] != wanted:
        raise CountersNotRead(f"{case.name}: launch {row['ID']} is {launched}, not {name} {wanted}")
    found = {}
    for counter, metric in COUNTERS.items():
        text = row.get(metric, "").replace(",", "")
        try:
            value = float(text)
        except ValueError:
            raise CountersNotRead(f"{case.name}: {metric} is {text!r}") from None
        if value:
            found[counter] = int(value)
    if case.kernel is None:  # only what the wide accesses do
        found = {name: value for name, value in found.items() if name.startswith("shared")}
    return found


# ---------------------------------------------------------------------- the data file
def write(
    path: Path,
    rows: list[dict[str, str]],
    facts: dict[str, str],
    cases: list[Case] = CASES,
    times: int = LAUNCHES,
) -> int:
    """Write the data file; returns the number of figures in it."""
    if len(rows) != len(cases) * times:
        raise CountersNotRead(f"{len(cases)} cases were launched, {len(rows) / times} profiled")
    lines, uneven = [], 0
    for number, case in enumerate(cases):
        its_rows = rows[number * times : (number + 1) * times]
        launches = [counters_of(case, row) for row in its_rows]
        kernel = WIDE if case.kernel is None else case.kernel.__name__
        shapes = ["x".join(map(str, triple(sizes))) for sizes in (case.grid, case.block)]
        for counter in COUNTERS:
            values = [found.get(counter, 0) for found in launches]
            uneven += min(values) != max(values)
            if min(values):
                lines.append((case.name, kernel, *shapes, counter, min(values)))
    header = {**facts, "course": __version__, "date": datetime.date.today().isoformat()}
    header["launches"] = f"{times} of each case, the smallest figure; {uneven} figures differed"
    header["figures"] = "a counter of a case that is not listed was 0"
    with path.open("w", encoding="utf-8", newline="") as file:
        for key, value in {**header, **COUNTERS}.items():
            file.write(f"# {key}={value}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(lines)
    return len(lines)


def read(path: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The header of a data file, and the counters of each case that are not zero."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = file.read().splitlines()
    header = dict(line[2:].split("=", 1) for line in lines if line.startswith("# "))
    figures: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(line for line in lines if not line.startswith("# ")):
        figures.setdefault(row["case"], {})[row["counter"]] = int(row["value"])
    return header, figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("output", nargs="?", type=Path, help="the data file to write")
    parser.add_argument("--sass", type=Path, help="write the kernels' machine code to this file")
    parser.add_argument("--ncu", default=shutil.which("ncu") or "ncu", help="path of ncu")
    parser.add_argument(
        "--further",
        action="store_true",
        help="the kernels of profiling.cases.further",
    )
    parser.add_argument(
        "--launches", type=int, default=LAUNCHES, help="of each case; the smallest figure is kept"
    )
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    cases, options = CASES, ["--launches", str(chosen.launches)]
    if chosen.further:
        cases, options = further.CASES, [*options, "--further"]
    if chosen.launch:
        launch(cases, chosen.launches, chosen.launch, chosen.sass)
        return
    if chosen.output is None:
        parser.error("which file shall be written?")
    if shutil.which(chosen.ncu) is None:
        raise SystemExit(f"there is no {chosen.ncu}: install Nsight Compute, or give --ncu PATH")
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    try:
        rows, facts = run_nsight_compute(chosen.ncu, chosen.sass, options)
        count = write(chosen.output, rows, facts, cases, chosen.launches)
    except CountersNotRead as error:
        raise SystemExit(str(error)) from None
    print(f"{chosen.output}: {len(cases)} cases, {count} figures")


if __name__ == "__main__":
    main()
