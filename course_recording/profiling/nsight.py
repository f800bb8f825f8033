"""Programs that read a GPU's counters: they start themselves again under Nsight Compute.

Such a program is called with the file to write. Under ``ncu`` it is called with ``--launch FACTS``:
then it launches kernels, those that count within `profiled`, and leaves in the file FACTS which GPU
and which versions did it.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from course import backend
from course.measure.recorded import header


class CountersNotRead(RuntimeError):
    """Nsight Compute is missing, refused, or launched something else than was to be launched."""


def options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What such a program is called with: the output, ``--ncu``, ``--launch``, its own options."""
    parser.add_argument("output", nargs="?", type=Path, help="the file to write")
    parser.add_argument("--ncu", default=shutil.which("ncu") or "ncu", help="path of ncu")
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.launch is None:
        if chosen.output is None:
            parser.error("which file shall be written?")
        if shutil.which(chosen.ncu) is None:
            raise SystemExit(
                f"there is no {chosen.ncu}: install Nsight Compute, or give --ncu PATH"
            )
    return chosen


# ---------------------------------------------------------------------- the launching process
@contextlib.contextmanager
def launching(facts: Path, command: str) -> Iterator[dict[str, Any]]:
    """In the process under ``ncu``: the facts are written at its end, with what is added to them.

    SystemExit without a GPU.
    """
    if backend.gpu() is None:
        raise SystemExit(f"there is no GPU to read counters from: {backend.why()}")
    more: dict[str, Any] = {}
    yield more
    found = header(backend.gpu(), None, command) | more
    facts.write_text(json.dumps(found), encoding="utf-8")


def profiled(call: Callable[[], Any], times: int = 1) -> None:
    """Make a call so many times while counters are read; its kernels are compiled before."""
    cuda = backend.cuda
    cuda.synchronize()
    cuda.profile_start()
    for _ in range(times):
        call()
    cuda.synchronize()
    cuda.profile_stop()


# ---------------------------------------------------------------------- Nsight Compute
def counted(
    ncu: str, metrics: Iterable[str], module: str, *options: str
) -> tuple[list[dict[str, str]], dict[str, str], dict[str, Any]]:
    """Run ``python -m module options --launch FACTS`` under ``ncu``.

    Returns
    -------
    rows, units : list of dict, dict
        ncu's rows, one a launch, in base units, and the units of its columns.
    facts : dict
        What `launching` has written, and the version of ncu.

    Raises
    ------
    CountersNotRead
        When ncu fails or is not allowed to read counters; the message ends with what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        report, facts = Path(folder, "counters.ncu-rep"), Path(folder, "facts.json")
        command = [
            ncu, "--profile-from-start", "off", "--clock-control", "none",
            "--metrics", ",".join(metrics), "--export", str(report), "--force-overwrite",
            sys.executable, "-m", module, *options, "--launch", str(facts),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not report.exists():
            said = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
            if "ERR_NVGPUCTRPERM" in said:
                said += (
                    "\ncourse_recording/profiling/README.md says how to be allowed to read counters"
                )
            raise CountersNotRead(f"{ncu} gave no counters:\n{said}")
        printed = subprocess.run(
            [ncu, "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        version = subprocess.run([ncu, "--version"], capture_output=True, text=True, check=True)
        found = json.loads(facts.read_text(encoding="utf-8"))
    found["ncu"] = version.stdout.split("Version")[-1].split()[0]
    return *rows_of(printed), found


def rows_of(printed: str) -> tuple[list[dict[str, str]], dict[str, str]]:
    """The rows of ``ncu --csv --page raw``, and the units, which its second line has."""
    lines = [line for line in printed.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    return [row for row in rows if row["ID"]], rows[0] if rows else {}


def known_metrics(ncu: str) -> set[str]:
    """The metrics that this ncu has for this GPU, without suffixes; empty where it does not say."""
    done = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, check=False)
    return set(re.findall(r"^(\w+__\w+) ", done.stdout, re.MULTILINE))


def number_in(row: dict[str, str], metric: str) -> float:
    """A metric of a launch; NaN where it is no number."""
    with contextlib.suppress(ValueError):
        return float(row.get(metric, "").replace(",", ""))
    return float("nan")
