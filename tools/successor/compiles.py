"""How many of the course's kernels numba-cuda-mlir compiles: ``data/successor.csv``.

    COURSE_COMPILER=mlir python -m tools.successor.compiles

needs no GPU, and twenty minutes of two cores: kernels are compiled to machine code, as
`course.successor` does it for a launch, and not run. Status 1: a kernel is refused.
"""

from __future__ import annotations

import functools
import importlib.metadata
import multiprocessing
import sys

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


@functools.cache
def wanted() -> list[tuple[str, str, compile_all.Case]]:
    """Name, target and case of each kernel for each target."""
    return [
        (case.name, to, case)
        for case in (*compile_all.kernels(), *tensor_cases())
        for of, to in TARGETS.items()
        if case.is_for(of)
    ]


def attempt(place: int) -> str:
    """Why one of `wanted` is refused, if it is."""
    _, target, case = wanted()[place]
    function, options = function_of(case.kernel)
    kinds = arguments_of(case.kernel, compile_all.signature(case))
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    try:
        made = successor.compiled(RealKernel(function).function, kinds, target, **given)
    except Exception as error:  # whatever it is, it is a refusal, and counted
        return f"{type(error).__name__}: {error} {error.__context__}"[:400]
    return "" if made["cubin"] else "no error and no machine code"


def table(refused: list[str]) -> str:
    """The file's text, of an answer for each of `wanted`."""
    packages = ("numba-cuda-mlir", "nvidia-nvvm", "nvidia-nvjitlink", "numba", "numpy")
    versions = [f"{one} {importlib.metadata.version(one)}" for one in packages]
    head = [f"# versions={', '.join(versions)}", "# command=python -m tools.successor.compiles"]
    found = [(name, to, why) for (name, to, _), why in zip(wanted(), refused, strict=True)]
    head += [f"# refused={name} {to}: {why}" for name, to, why in found if why]
    rows = [",".join(COLUMNS)]
    for target in TARGETS.values():
        its = [why for _, to, why in found if to == target]
        rows.append(f"{target},{len(its)},{its.count('')}")
    return "\n".join([*head, *rows, ""])


def main() -> int:
    """Run from the command line; returns the exit status."""
    if not successor.is_chosen() or not successor.is_installed(successor.DISTRIBUTION):
        print("install numba-cuda-mlir[cu13], and set COURSE_COMPILER=mlir", file=sys.stderr)
        return 2
    with multiprocessing.get_context("spawn").Pool() as pool:
        refused = pool.map(attempt, range(len(wanted())), chunksize=8)
    write_whole(FILE, table(refused))
    return 1 if any(refused) else 0


if __name__ == "__main__":
    sys.exit(main())
