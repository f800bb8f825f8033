"""How many of the course's kernels numba-cuda-mlir compiles: ``data/successor.csv``.

    COURSE_COMPILER=mlir python -m tools.successor.compiles RECORDS [RECORDS ...] [--part 0/2]

needs no GPU: kernels are compiled to machine code, as `course.successor` does it for a launch, and
not run. The first of RECORDS gets a line of JSON a kernel and target; what one of them has is not
compiled again, so an hour's work may be stopped, and parts run beside each other, each with a file
of its own. Once they have all kernels the table is written. Status 1: a kernel is refused.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import sys
from pathlib import Path

from course import successor
from course.compiler.arguments import arguments_of, function_of
from course.compiler.real_kernels import RealKernel
from course.files import write_whole
from tools import compile_all
from tools.compile.tensor_cases import tensor_cases
from tools.notebooks.lessons import ROOT

FILE = ROOT / "data" / "successor.csv"
#: What a GPU of a compute capability gets from the successor.
TARGETS = {"sm_75": "sm_75", "sm_90": "sm_90a"}
COLUMNS = ("target", "kernels", "compiled")
#: Options of a kernel that change its code.
OPTIONS = ("fastmath", "max_registers", "opt", "lto", "launch_bounds")

#: Why a kernel is refused, or nothing, by its name and target.
Records = dict[tuple[str, str], str]


def attempt(case: compile_all.Case, target: str) -> str:
    """Why a kernel is refused, if it is."""
    function, options = function_of(case.kernel)
    kinds = arguments_of(case.kernel, compile_all.signature(case))
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    try:
        made = successor.compiled(RealKernel(function).function, kinds, target, **given)
    except Exception as error:  # whatever it is, it is a refusal, and counted
        return f"{type(error).__name__}: {error} {error.__context__}"[:400]
    return "" if made["cubin"] else "no error and no machine code"


def wanted() -> list[tuple[str, str, compile_all.Case]]:
    """Name, target and case of each kernel for each target."""
    return [
        (case.name, to, case)
        for case in (*compile_all.kernels(), *tensor_cases())
        for of, to in TARGETS.items()
        if case.is_for(of)
    ]


def read(files: list[Path]) -> Records:
    """What was recorded."""
    lines = [one.read_text(encoding="utf-8").splitlines() for one in files if one.exists()]
    rows = map(json.loads, itertools.chain(*lines))
    return {(row["name"], row["target"]): row["refused"] for row in rows}


def table(records: Records) -> str:
    """The file's text."""
    packages = ("numba-cuda-mlir", "nvidia-nvvm", "nvidia-nvjitlink", "numba", "numpy")
    versions = [f"{one} {importlib.metadata.version(one)}" for one in packages]
    head = [f"# versions={', '.join(versions)}", "# command=python -m tools.successor.compiles"]
    head += [f"# refused={' '.join(one)}: {why}" for one, why in records.items() if why]
    rows = [",".join(COLUMNS)]
    for target in TARGETS.values():
        its = [why for (_, to), why in records.items() if to == target]
        rows.append(f"{target},{len(its)},{its.count('')}")
    return "\n".join([*head, *rows, ""])


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("records", type=Path, nargs="+", help="what was compiled, a line each")
    parser.add_argument("--part", default="0/1", help="0/2 and 1/2: every second kernel")
    asked = parser.parse_args(arguments)
    if not successor.is_chosen() or not successor.is_installed(successor.DISTRIBUTION):
        print("install numba-cuda-mlir[cu13], and set COURSE_COMPILER=mlir", file=sys.stderr)
        return 2
    cases, records = wanted(), read(asked.records)
    number, parts = map(int, asked.part.split("/"))
    for name, target, case in cases[number::parts]:
        if (name, target) not in records:
            records[name, target] = refused = attempt(case, target)
            with asked.records[0].open("a", encoding="utf-8") as file:
                row = {"name": name, "target": target, "refused": refused}
                print(json.dumps(row), file=file)
    if all(one[:2] in records for one in cases):
        write_whole(FILE, table(records))
    return 1 if any(records.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
