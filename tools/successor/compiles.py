"""Which of the course's kernels numba-cuda-mlir compiles: ``data/successor.csv``.

    COURSE_COMPILER=mlir python -m tools.successor.compiles RECORDS [--part 0/2] [--family svd ...]

needs no GPU: kernels are compiled to machine code, as `course.successor` does it for a launch, and
not run. RECORDS keeps a line of JSON a kernel and target; what is there is not compiled again, so
an hour's work may be stopped, and parts run beside each other, each with a file of its own. The
table is of all kernels, or with families printed and not written:

    python -m tools.successor.compiles RECORDS [RECORDS ...] --table

Status 1: a kernel is not compiled, or refused for a reason without a name.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import json
import re
import sys
import time
from collections import Counter
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

#: Kinds of refusal, by what the error says: the first that is found.
REFUSALS = {
    "intrinsic": r"Cannot determine Numba type of <class '\w+\.Piece'>",
    "fence": r"NotImplemented lowering call to <class '[\w.]+\.threadfence\w*'>",
    "shared_in_function": r"'memref\.get_global' op '\w+' does not reference a valid global memref",
    "view": r"'memref\.collapse_shape' op expected collapsed type",
    "large_constant": r"std::bad_cast",
    "other": r"",
}
COLUMNS = ("construct", "target", "kernels", "compiled", *REFUSALS)
#: Options of a kernel that change its code.
OPTIONS = ("fastmath", "max_registers", "opt", "lto", "launch_bounds")


def refusal(error: BaseException | str) -> tuple[str, str]:
    """The kind of an error, and the part of its text that says so.

    An internal error's message says where the reader's file is; what is wrong says its context.
    """
    text = error if isinstance(error, str) else f"{error} {error.__context__}"
    found = ((kind, re.search(form, text)) for kind, form in REFUSALS.items())
    return next((kind, match[0]) for kind, match in found if match)


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
    """What becomes of a kernel: its constructs, the kind of its refusal or "compiled", seconds."""
    start = time.perf_counter()
    function, options = function_of(case.kernel)
    kinds = arguments_of(case.kernel, compile_all.signature(case))
    real = Used(function)
    stored = {f"<{name}>" for name in ("float16", "bfloat16")}
    used = real.used | {one for one in stored if re.search(rf"\b{one[1:-1]}\b", str(kinds))}
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    kind, said = "compiled", ""
    try:
        if not successor.compiled(real.function, kinds, target, **given)["cubin"]:
            raise RuntimeError("no error and no machine code")
    except Exception as error:  # whatever it is, it is a refusal, and counted
        kind, said = refusal(error)
        if kind == "other":
            said = f"{type(error).__name__}: {error} {error.__context__}"[:400]
    seconds = round(time.perf_counter() - start, 2)
    return {"constructs": constructs(used), "kind": kind, "said": said, "seconds": seconds}


def wanted(families: tuple[str, ...]) -> list[tuple[str, str, compile_all.Case]]:
    """Name, target and case of each kernel for each target."""
    return [
        (case.name, to, case)
        for case in (*compile_all.kernels(), *tensor_cases())
        for of, to in TARGETS.items()
        if case.is_for(of) and (not families or compile_all.family(case) in families)
    ]


def read(files: list[Path]) -> dict[tuple[str, str], dict[str, Any]]:
    """What was recorded, by name and target."""
    lines = [one.read_text(encoding="utf-8").splitlines() for one in files if one.exists()]
    rows = map(json.loads, itertools.chain(*lines))
    return {(row.pop("name"), row.pop("target")): row for row in rows}


def table(records: dict[tuple[str, str], dict[str, Any]]) -> str:
    """The file's text."""
    counts: Counter[tuple[str, str, str]] = Counter()
    said: dict[str, str] = {}
    for (name, target), row in records.items():
        counts.update((construct, target, row["kind"]) for construct in row["constructs"])
        if row["said"]:
            said.setdefault(row["kind"], f"{row['said']}, first of {name}")
    rows = []
    for construct, target in itertools.product(CONSTRUCTS, TARGETS.values()):
        ends = [counts[construct, target, kind] for kind in ("compiled", *REFUSALS)]
        if sum(ends):
            rows.append(",".join(map(str, (construct, target, sum(ends), *ends))))
    packages = ("numba-cuda-mlir", "nvidia-nvvm", "nvidia-nvjitlink", "numba", "numpy")
    versions = [f"{one} {importlib.metadata.version(one)}" for one in packages]
    head = [f"# versions={', '.join(versions)}", "# command=python -m tools.successor.compiles"]
    head += [f"# {kind}={said[kind]}" for kind in REFUSALS if kind in said]
    return "\n".join([*head, ",".join(COLUMNS), *rows]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("records", type=Path, nargs="+", help="what was compiled, a line each")
    parser.add_argument("--family", action="append", help="such as svd; may be repeated")
    parser.add_argument("--part", default="0/1", help="0/2 and 1/2: every second kernel")
    parser.add_argument("--table", action="store_true", help="compile nothing, write the table")
    asked = parser.parse_args(arguments)
    if not successor.is_chosen() or not successor.is_installed(successor.DISTRIBUTION):
        print(
            "successor: install numba-cuda-mlir[cu13], and set COURSE_COMPILER=mlir",
            file=sys.stderr,
        )
        return 2
    families = tuple(asked.family or ())
    cases, records = wanted(families), read(asked.records)
    number, parts = map(int, asked.part.split("/"))
    for name, target, case in [] if asked.table else cases[number::parts]:
        if (name, target) not in records:
            records[name, target] = row = attempt(case, target)
            with asked.records[0].open("a", encoding="utf-8") as file:
                print(json.dumps({"name": name, "target": target, **row}), file=file)
    if asked.table:
        missing = [f"{one[0]} ({one[1]})" for one in cases if one[:2] not in records]
        found = table(records)
        print(found, end="")
        if not families and not missing:
            write_whole(FILE, found)
        print(*missing[:5], f"{len(missing)} not compiled yet", sep="\n", file=sys.stderr)
    wrong = [one for one, row in records.items() if row["kind"] not in ("compiled", *REFUSALS)[:-1]]
    print(*(f"refused, no kind of refusal fits: {one}" for one in wrong), sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
