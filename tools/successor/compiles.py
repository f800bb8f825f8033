"""Which of the course's kernels numba-cuda-mlir compiles: ``data/successor.csv``.

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
import re
import sys
import time
from pathlib import Path
from types import FunctionType
from typing import Any

from course import successor
from course.compiler.arguments import arguments_of, function_of
from course.compiler.real_kernels import RealKernel, is_device_function
from course.files import write_whole
from tools import compile_all
from tools.compile.tensor_cases import tensor_cases
from tools.notebooks.lessons import ROOT
from warpsim.ptx.instruction import Intrinsic

FILE = ROOT / "data" / "successor.csv"
#: What a GPU of a compute capability gets from the successor.
TARGETS = {"sm_75": "sm_75", "sm_90": "sm_90a"}

#: Constructs, by the names that a kernel or its device functions use. "all" is every kernel.
CONSTRUCTS = {
    "all": r"",
    "shared memory": r"shared",
    "local memory": r"local",
    "barriers": r"syncthreads\w*",
    "warp functions": r"shfl_\w+|any_sync|all_sync|ballot_sync|syncwarp",
    "atomics": r"atomic",
    "fences": r"threadfence\w*",
    "grid barriers": r"cg",
    "math": r"math",
    "device functions": r"<device function>",
    "float16": r"<float16>",
    "bfloat16": r"<bfloat16>",
    "the course's intrinsics": r"<intrinsic>",
    "no intrinsics": r"<no intrinsic>",
}

COLUMNS = ("construct", "target", "kernels", "compiled")
#: Options of a kernel that change its code.
OPTIONS = ("fastmath", "max_registers", "opt", "lto", "launch_bounds")


def constructs(names: set[str]) -> list[str]:
    """The constructs that these names belong to."""
    names = names if "<intrinsic>" in names else names | {"<no intrinsic>"}
    return [
        construct
        for construct, form in CONSTRUCTS.items()
        if not form or any(re.fullmatch(form, name) for name in names)
    ]


class Used(RealKernel):
    """A kernel for the successor; `used` is what it and its device functions mention."""

    def __init__(self, function: FunctionType) -> None:
        self.used: set[str] = set()
        super().__init__(function)

    def _real(self, value: Any, names: frozenset[str]) -> Any:
        self.used |= names
        if isinstance(value, Intrinsic):
            self.used.add("<intrinsic>")
        if is_device_function(value):
            self.used.add("<device function>")
        return super()._real(value, names)


def attempt(case: compile_all.Case, target: str) -> dict[str, Any]:
    """What becomes of a kernel: its constructs, why it is refused if it is, seconds."""
    start = time.perf_counter()
    function, options = function_of(case.kernel)
    kinds = arguments_of(case.kernel, compile_all.signature(case))
    real = Used(function)
    stored = {f"<{name}>" for name in ("float16", "bfloat16")}
    used = real.used | {one for one in stored if re.search(rf"\b{one[1:-1]}\b", str(kinds))}
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    refused = ""
    try:
        if not successor.compiled(real.function, kinds, target, **given)["cubin"]:
            refused = "no error and no machine code"
    except Exception as error:  # whatever it is, it is a refusal, and counted
        refused = f"{type(error).__name__}: {error} {error.__context__}"[:400]
    seconds = round(time.perf_counter() - start, 2)
    return {"constructs": constructs(used), "refused": refused, "seconds": seconds}


def wanted() -> list[tuple[str, str, compile_all.Case]]:
    """Name, target and case of each kernel for each target."""
    return [
        (case.name, to, case)
        for case in (*compile_all.kernels(), *tensor_cases())
        for of, to in TARGETS.items()
        if case.is_for(of)
    ]


def read(files: list[Path]) -> dict[tuple[str, str], dict[str, Any]]:
    """What was recorded, by name and target."""
    lines = [one.read_text(encoding="utf-8").splitlines() for one in files if one.exists()]
    rows = map(json.loads, itertools.chain(*lines))
    return {(row.pop("name"), row.pop("target")): row for row in rows}


def table(records: dict[tuple[str, str], dict[str, Any]]) -> str:
    """The file's text."""
    rows = []
    for construct, target in itertools.product(CONSTRUCTS, TARGETS.values()):
        refused = [
            row["refused"] for (_, its), row in records.items()
            if its == target and construct in row["constructs"]
        ]  # fmt: skip
        if refused:
            rows.append(f"{construct},{target},{len(refused)},{refused.count('')}")
    packages = ("numba-cuda-mlir", "nvidia-nvvm", "nvidia-nvjitlink", "numba", "numpy")
    versions = [f"{one} {importlib.metadata.version(one)}" for one in packages]
    head = [f"# versions={', '.join(versions)}", "# command=python -m tools.successor.compiles"]
    head += [f"# refused={' '.join(one)}: {row['refused']}"
             for one, row in records.items() if row["refused"]]  # fmt: skip
    return "\n".join([*head, ",".join(COLUMNS), *rows, ""])


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
            records[name, target] = row = attempt(case, target)
            with asked.records[0].open("a", encoding="utf-8") as file:
                print(json.dumps({"name": name, "target": target, **row}), file=file)
    if all(one[:2] in records for one in cases):
        write_whole(FILE, table(records))
    return 1 if any(row["refused"] for row in records.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
