"""Compare the simulator's counts with counters that were read from a GPU.

``python -m course_recording.profiling.counter_agreement data/measurements/h200-counters.csv`` shows
how many figures are equal and lists the others. It also takes ``h200-further_counters.csv``. It
needs no GPU.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from course.files import table_of
from course_recording.profiling.cases import further
from course_recording.profiling.cases.accesses import CASES, Case
from course_recording.profiling.hardware_counters import read
from warpsim import cuda as host
from warpsim import trace
from warpsim.core.masks import Mask
from warpsim.watch.counts import wavefronts

WIDE_BYTES = 16


@dataclass(frozen=True)
class Figure:
    """One counter of one case; ``reason`` is None where no difference is explained."""

    case: str
    counter: str
    measured: int
    simulated: int
    reason: str | None = None

    @property
    def equal(self) -> bool:
        return self.measured == self.simulated


def simulated(case: Case) -> dict[str, int]:
    """What the simulator counts, by the names of the data file; zeros are left out."""
    if case.lanes is not None:
        return _simulated_wide(case.lanes)
    report = trace(case.kernel, case.grid, case.block, *case.arguments(host.to_device), gpu="H200")
    found = {"global_atomic_requests": report.total("global", "atomic").requests}
    for op in ("load", "store"):
        for space in ("global", "shared", "local"):
            found[f"{space}_{op}_requests"] = report.total(space, op).requests
        found[f"global_{op}_sectors"] = report.total("global", op).sectors
        found[f"shared_{op}_wavefronts"] = report.total("shared", op).wavefronts
        found[f"shared_{op}_conflicts"] = report.total("shared", op).conflicts
    return {counter: count for counter, count in found.items() if count}


def _simulated_wide(lanes: np.ndarray) -> dict[str, int]:
    """Counts of one store and one load of 16 bytes, whose kernel runs on a GPU only."""
    active = lanes >= 0
    mask, found = Mask(active, int(active.sum()), None), {}
    for op in ("load", "store"):
        passes, ideal, _ = wavefronts(
            lanes.astype(np.int64), WIDE_BYTES, WIDE_BYTES, 0, mask, loads=op == "load"
        )
        found[f"shared_{op}_requests"] = 1
        found[f"shared_{op}_wavefronts"] = passes
        found[f"shared_{op}_conflicts"] = passes - ideal
    return {counter: count for counter, count in found.items() if count}


def measured(counters: dict[str, int]) -> dict[str, int]:
    """The GPU's counters as the simulator counts: atomics with and without old value together."""
    found = dict(counters)
    reductions = found.pop("global_reduction_requests", 0)
    if reductions:
        found["global_atomic_requests"] = found.get("global_atomic_requests", 0) + reductions
    return found


def explanations(path: Path) -> dict[tuple[str, str], tuple[int, str]]:
    """The explained differences: (case, counter) -> simulated figure, and why it differs."""
    reasons, rows = table_of(path)
    return {
        (row["case"], row["counter"]): (int(row["simulated"]), reasons[row["reason"]])
        for row in rows
    }


def explained_path(path: Path) -> Path:
    """``h200-counters.csv`` -> ``h200-counters-explained.csv``."""
    return path.with_name(f"{path.stem}-explained.csv")


def cases_of(path: Path) -> list[Case]:
    """The cases whose counters are in a file."""
    return further.CASES if path.stem.endswith("further_counters") else CASES


def figures(path: Path) -> list[Figure]:
    """All figures but those that are zero in the file and in the simulator."""
    _, recorded = read(path)
    explained = explanations(explained_path(path)) if explained_path(path).exists() else {}
    out = []
    for case in cases_of(path):
        ours, theirs = simulated(case), measured(recorded.get(case.name, {}))
        for counter in sorted({*ours, *theirs}):
            _, reason = explained.get((case.name, counter), (0, None))
            pair = theirs.get(counter, 0), ours.get(counter, 0)
            out.append(Figure(case.name, counter, *pair, reason))
    return out


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "counters", type=Path, help="a file of course_recording.profiling.hardware_counters"
    )
    path = parser.parse_args().counters
    found = figures(path)
    for figure in found:
        if not figure.equal:
            print(f"{figure.case}: {figure.counter} {figure.measured}, simulated "
                  f"{figure.simulated}: {figure.reason or 'not explained'}")  # fmt: skip
    equal = sum(figure.equal for figure in found)
    print(
        f"{len(cases_of(path))} cases, {len(found):,} figures, {equal:,} equal "
        f"({equal / len(found):.1%})"
    )


if __name__ == "__main__":
    main()
