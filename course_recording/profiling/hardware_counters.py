"""Read a GPU's counters for every case of `course_recording.profiling.cases.accesses`.

Run ``python -m course_recording.profiling.hardware_counters data/measurements/<gpu>-counters.csv``
on a machine with a GPU and Nsight Compute. With ``--further`` it reads the counters of
`course_recording.profiling.cases.further`. One process launches all cases one by one under
``ncu``; the counters are matched with the cases by order, kernel name, grid and block.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from pathlib import Path

from course.files import table_of, table_text, write_whole
from course_recording.profiling import nsight
from course_recording.profiling.cases import further
from course_recording.profiling.cases.accesses import CASES, COUNTERS, Case
from course_recording.profiling.nsight import CountersNotRead, number_in

MODULE = "course_recording.profiling.hardware_counters"
COLUMNS = ("case", "kernel", "grid", "block", "counter", "value")
WIDE = "shared_wide"

#: Launches of each case, of which the smallest figure is kept: now and then accesses disturb each
#: other, and wavefronts count a few passes too many.
LAUNCHES = 3


# ---------------------------------------------------------------------- the launching process
def launch(cases: list[Case], launches: int, facts: Path, sass: Path | None) -> None:
    """Launch every case; write which GPU and versions did it, and the machine code."""
    from course import backend, kernel_cache
    from course_recording.profiling.cases.access_kernels import shared_wide

    wide, launched = None, {}
    with nsight.launching(facts, f"python -m {MODULE}"):
        for case in cases:
            kernel = case.kernel or (wide := wide or shared_wide())
            kernel_cache.cached(kernel)
            arguments = case.arguments(backend.cuda.to_device)
            launched.setdefault(id(kernel), (kernel, case.name))
            nsight.profiled(partial(kernel[case.grid, case.block], *arguments), launches)
    if sass is not None:
        with sass.open("w", encoding="utf-8") as file:
            for kernel, name in launched.values():
                for signature, code in kernel.inspect_sass().items():
                    file.write(f"==== {kernel.__name__}{signature}: {name}\n{code}\n")


# ---------------------------------------------------------------------- what was counted
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
        value = number_in(row, metric)
        if not math.isfinite(value):
            raise CountersNotRead(f"{case.name}: {metric} is {row.get(metric, '')!r}")
        if value:
            found[counter] = int(value)
    if case.kernel is None:  # keep only the counters of shared memory's wide accesses
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
    header = facts | {
        "launches": f"{times} of each case, the smallest figure; {uneven} figures differed",
        "figures": "a counter of a case that is not listed was 0",
    }
    write_whole(path, table_text(path.name, header | COUNTERS, COLUMNS, lines, ValueError))
    return len(lines)


def read(path: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """The header of a data file, and the counters of each case that are not zero."""
    header, rows = table_of(path)
    figures: dict[str, dict[str, int]] = {}
    for row in rows:
        figures.setdefault(row["case"], {})[row["counter"]] = int(row["value"])
    return header, figures


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--sass", type=Path, help="write the kernels' machine code to this file")
    parser.add_argument(
        "--further", action="store_true", help="the kernels of profiling.cases.further"
    )
    parser.add_argument(
        "--launches", type=int, default=LAUNCHES, help="of each case; the smallest figure is kept"
    )
    chosen = nsight.options(parser)
    cases, options = CASES, ["--launches", str(chosen.launches)]
    if chosen.further:
        cases, options = further.CASES, [*options, "--further"]
    if chosen.launch:
        launch(cases, chosen.launches, chosen.launch, chosen.sass)
        return
    options += ["--sass", str(chosen.sass)] if chosen.sass else []
    try:
        rows, _, facts = nsight.counted(chosen.ncu, COUNTERS.values(), MODULE, *options)
        count = write(chosen.output, rows, facts, cases, chosen.launches)
    except CountersNotRead as error:
        raise SystemExit(str(error)) from None
    print(f"{chosen.output}: {len(cases)} cases, {count} figures")


if __name__ == "__main__":
    main()
