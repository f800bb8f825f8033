"""For programs that read a GPU's counters: they start themselves again under Nsight Compute.

The user calls such a program with the file to write. It starts itself under ``ncu`` with
``--launch FACTS``. Then it launches kernels, those to be counted within `profiled`, and writes to
the file FACTS which GPU and versions it ran on.
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
    """Nsight Compute is missing, may not read counters, or saw other launches than expected."""


def options(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Read the command line: the output, ``--ncu``, ``--launch``, the program's own options."""
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
    """In the process under ``ncu``, yield a dict for further facts; write all facts at the end.

    Raises SystemExit without a GPU.
    """
    if backend.gpu() is None:
        raise SystemExit(f"there is no GPU to read counters from: {backend.why()}")
    more: dict[str, Any] = {}
    yield more
    found = header(backend.gpu(), None, command) | more
    facts.write_text(json.dumps(found), encoding="utf-8")


def profiled(call: Callable[[], Any], times: int = 1) -> None:
    """Make a call so many times while counters are read; the caller has compiled its kernels."""
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
        The facts that `launching` wrote, and the version of ncu.

    Raises
    ------
    CountersNotRead
        When ncu fails or may not read counters; the message ends with ncu's output.
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
    """The rows of ``ncu --csv --page raw``, and the units, which are in its second line."""
    lines = [line for line in printed.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    return [row for row in rows if row["ID"]], rows[0] if rows else {}


def known_metrics(ncu: str) -> set[str]:
    """This ncu's metrics for this GPU, without suffixes; empty where ncu lists none."""
    done = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, check=False)
    return set(re.findall(r"^(\w+__\w+) ", done.stdout, re.MULTILINE))


def number_in(row: dict[str, str], metric: str) -> float:
    """The value of a launch's metric; NaN where it is no number."""
    with contextlib.suppress(ValueError):
        return float(row.get(metric, "").replace(",", ""))
    return float("nan")
