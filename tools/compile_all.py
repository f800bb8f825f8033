"""Compile every kernel of the course with NVIDIA's compilers; needs no GPU, only the extra compile.

    python -m tools.compile_all [--target sm_75 ...] [--family svd ...] [--part 2/3]

prints a table, of all kernels or of every third from the second on, and ends with status 1 when a
kernel spills registers, has a float64 instruction that it is not meant to have, does not compile,
or has no types declared here; with 2 without compilers.

    python -m tools.compile_all --hashes FILE [--ptx FOLDER] [--family svd ...]
    python -m tools.compile_all --hashes-against FILE [--ptx FOLDER] [--family svd ...]

compile up to PTX alone, kernels on tensor cores too, and write a hash of each; or compare with a
file written before: status 1 when a kernel's PTX differs, or a kernel came or went. One with
another name, or in another module, whose PTX is equal has moved. `--ptx` keeps the texts.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import re
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import FunctionType
from typing import Any

from numba.core.registry import CPUDispatcher

from course.compiler import toolchain
from course.compiler.arguments import function_of
from course.compiler.facts import Compiled, CompilerMissing, compiled, unlinked_ptx
from course.compiler.real_kernels import is_device_function
from course.compiler.together import common, compiled_together
from tools.compile import ptx_hashes
from tools.compile.cases import SIGNATURES, Case, made
from tools.compile.tensor_cases import tensor_cases
from warpsim.ptx import grid_dependency

TARGETS = ("sm_75", "sm_90")  # a Tesla T4; an H100 or H200
PACKAGES = (
    "course.kernels", "course_models", "course_app.kernels", "course_lessons.lesson13.digits",
)  # fmt: skip

#: Kernels that are meant to have float64 instructions, and why.
WITH_FLOAT64: dict[str, str] = {
    "reconstruct.first_steps.reconstruct_original": "shows what the literal 0.0 costs",
} | {
    f"svd: {what}, {size} columns": "a Gram matrix in float32 has half of a matrix's digits"
    for what in ("Gram", "elimination", "product to multiply by", "product of a")
    for size in range(16, 129, 16)
}  # fmt: skip

#: Kernels that are meant to spill, and why.
WITH_SPILLS: dict[str, str] = {
    f"reconstruct: {name}": "a register or two, read again once a tile: 128 let two blocks share a "
    "multiprocessor"
    for name in (
        "tf32", "tf32 (unaligned)", "tf32 (many)", "tf32 (many, unaligned)",
        "tensor cores (many)", "tensor cores (many, unaligned)",
    )
} | {
    f"svd: elimination, {size} columns": "a few registers, read again once a matrix"
    for size in (112, 128)
} | {
    f"spectral: 4 x 8, 4 groups{folded}": "with 96 registers twenty warps fit, five to a "
    "scheduler; a few registers wait in memory"
    for folded in ("", ", folded")
}  # fmt: skip


def is_kernel(value: Any) -> bool:
    """Whether a value is a kernel of the simulator or of numba.cuda, and no device function."""
    has_function = isinstance(getattr(value, "py_func", None), FunctionType)
    return has_function and not isinstance(value, CPUDispatcher) and not is_device_function(value)


def kernels() -> Iterator[Case]:
    """Every kernel of the packages, in the order of its source."""
    for package_name in PACKAGES:
        package = importlib.import_module(package_name)
        for found in pkgutil.walk_packages(package.__path__, f"{package_name}."):
            module = importlib.import_module(found.name)
            below = found.name.removeprefix(f"{package_name}.")
            for name, value in vars(module).items():
                if is_kernel(value) and value.py_func.__module__ == found.name:
                    yield Case(f"{below}.{name}", value)
    yield from made()


def family(case: Case) -> str:
    """What kernels have in common: the first word of their names."""
    return ptx_hashes.family(case.name)


def signature(case: Case) -> str | None:
    """The declared argument types of a case's kernel."""
    if case.declared is not None:
        return case.declared
    module = case.name.rpartition(".")[0]
    return SIGNATURES.get(case.name) or SIGNATURES.get(f"{module}.*")


def complaints(case: Case, facts: Compiled) -> Iterator[str]:
    """What is wrong with a compiled kernel."""
    if facts.spills and case.name not in WITH_SPILLS:
        yield (
            f"{case.name} ({facts.target}) spills {facts.spill_stores} bytes of stores and "
            f"{facts.spill_loads} of loads"
        )
    # a launch is told that it may begin early by the text of its kernel
    if grid_dependency.PTX in facts.ptx and not grid_dependency.waits(case.kernel.py_func):
        yield f"{case.name} waits for the launch in front in a device function, not in its own text"
    if case.name in WITH_FLOAT64:
        if not facts.float64_lines:
            yield f"{case.name} ({facts.target}) is declared with float64 and has none"
        return
    for line in facts.float64_lines:
        yield f"{case.name} ({facts.target}) has float64 instructions, {line}"


def compile_kernels(
    targets: tuple[str, ...], families: tuple[str, ...] = (), part: str = "1/1"
) -> list[str]:
    """Compile everything, or a part of these families, print the table, return the complaints."""
    toolchain.require()
    wrong: list[str] = []
    found = list(kernels())
    if not found:
        return ["no kernels found"]
    known = {case.name for case in found}
    for declared in (SIGNATURES, WITH_FLOAT64, WITH_SPILLS):
        names = {name for name in declared if not name.endswith(".*")}
        wrong += [f"{name} is declared and does not exist" for name in sorted(names - known)]
    width = max(len(name) for name in known)
    print(f"{'kernel':{width}}  target  registers  spills  shared  float64 lines    ms")
    if unknown := sorted(set(families) - {family(case) for case in found}):
        wrong.append(f"there is no family {', '.join(unknown)}")
    first, parts = map(int, part.split("/"))
    chosen = [case for case in found if not families or family(case) in families]
    for case in chosen[first - 1 :: parts]:
        if (types := signature(case)) is None:
            wrong.append(f"{case.name} has no argument types in tools/compile/cases.py, SIGNATURES")
            continue
        for target in targets:
            if not case.is_for(target):
                continue
            start = time.perf_counter()
            try:
                facts = compiled(case.kernel, types, target)
                lines = ", ".join(str(line.line) for line in facts.float64_lines) or "-"
            except CompilerMissing:
                raise
            except Exception as error:  # a kernel that does not compile is a complaint
                wrong.append(f"{case.name} ({target}) does not compile: {_first_line(error)}")
                continue
            milliseconds = 1e3 * (time.perf_counter() - start)
            print(
                f"{case.name:{width}}  {target:6}  {facts.registers:9}  {facts.spills:6}  "
                f"{facts.shared_bytes:6}  {lines:13}  {milliseconds:4.0f}"
            )
            wrong += complaints(case, facts)
    return wrong


def hashes(
    targets: tuple[str, ...], families: tuple[str, ...] = (), folder: Path | None = None
) -> ptx_hashes.Hashes:
    """Hashes of the PTX of all kernels, or of these families; the texts go into a folder."""
    found: ptx_hashes.Hashes = {}
    for case in (*kernels(), *tensor_cases()):
        if families and family(case) not in families:
            continue
        for target in targets:
            if not case.is_for(target):
                continue
            ptx = unlinked_ptx(case.kernel, signature(case), f"{target}{case.suffix}")
            digest = ptx_hashes.hash_of(ptx, function_of(case.kernel)[1])
            found.setdefault(case.name, {})[target] = digest
            if folder:
                folder.mkdir(parents=True, exist_ok=True)
                file = re.sub(r"[^\w.,-]+", "_", f"{case.name}.{target}.ptx")
                (folder / file).write_text(ptx_hashes.normalised(ptx), encoding="utf-8")
    return found


def compare(path: Path, new: ptx_hashes.Hashes, *chosen: tuple[str, ...]) -> list[str]:
    """Print which kernels have moved; return what else became of those in a file."""
    targets, families = chosen
    old = ptx_hashes.read(path, targets)
    for name, before in ptx_hashes.moved(old, new).items():
        print(f"{before} is {name} now")
    wrong = list(ptx_hashes.differences(old, new, families))
    print(f"{len(new)} kernels compared, {len(wrong)} differ, came or went")
    return wrong


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", action="append", help="such as sm_80; may be repeated")
    parser.add_argument("--family", action="append", help="such as svd; may be repeated")
    parser.add_argument("--part", default="1/1", help="such as 2/3: every third from the second")
    parser.add_argument("--hashes", type=Path, metavar="FILE", help="write hashes of PTX")
    parser.add_argument("--hashes-against", type=Path, metavar="FILE", help="compare with a file")
    parser.add_argument("--ptx", type=Path, metavar="FOLDER", help="with hashes: keep the texts")
    chosen = parser.parse_args(arguments)
    part = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", chosen.part)
    if not part or int(part[1]) > int(part[2]):
        parser.error(f"--part is {chosen.part!r}: write it like 2/3, from 1/3 to 3/3")
    its = tuple(chosen.target or TARGETS), tuple(chosen.family or ())
    # Numba compiles a kernel once for all targets; around it more may be compiled together
    joined = nullcontext() if common() else compiled_together()
    try:
        with joined:
            if chosen.hashes or chosen.hashes_against:
                new = hashes(*its, chosen.ptx)
                wrong = compare(chosen.hashes_against, new, *its) if chosen.hashes_against else []
                if chosen.hashes:
                    ptx_hashes.write(chosen.hashes, new)
            else:
                wrong = compile_kernels(*its, chosen.part)
    except CompilerMissing as error:
        print(error, file=sys.stderr)
        return 2
    for complaint in wrong:
        print(f"wrong: {complaint}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
