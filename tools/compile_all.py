"""Compile every kernel of the course with NVIDIA's compilers; needs no GPU, only the extra compile.

    python -m tools.compile_all [--target sm_75 ...]

prints a table and ends with status 1 when a kernel spills registers, has a float64 instruction that
it is not meant to have, does not compile, or has no types declared here; with 2 without compilers.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from numba.core.registry import CPUDispatcher

from course import toolchain
from course.compiler import Compiled, CompilerMissing, compiled
from course.kernels import convolution, linear, svd_blocks, svd_ends, svd_qr, svd_rotate, svd_solver
from course.models import cnn_whole, spectral, spectral_layers
from course.real_kernels import is_device_function

TARGETS = ("sm_75", "sm_90")  # a Tesla T4; an H100 or H200
PACKAGES = ("course.kernels", "course.models")
#: Modules of `course.kernels` whose `made_kernels` gives kernels and their types, by name.
FAMILIES = (
    "norm", "activation", "reduce", "softmax", "softmax_backward", "convolution", "linear",
)  # fmt: skip

_FACTORS = "float32[:, ::1], float32[::1], float32[:, ::1], int64, float32[:, ::1]"
_MANY = "float32[:, :, ::1], float32[:, ::1], float32[:, :, ::1], int64, float32[:, :, ::1]"
_PARTS = "{word}[:, :, ::1], {word}[:, :, ::1], float32[::1], float32[::1], float32[:, ::1]"
_MANY_PARTS = (
    "{word}[:, :, :, ::1], {word}[:, :, :, ::1], float32[:, ::1], float32[:, ::1], "
    "float32[:, :, ::1]"
)
_NORM_BACK = "float32[:, ::1], float32[:, ::1], float32[::1], float32"
WORDS = {"halves": "uint32", "tf32": "float32"}

#: Argument types of a kernel, by its module's name below the package and its own ("norm.softmax"),
#: or of all kernels of a module that are not named ("norm.*").
SIGNATURES: dict[str, str] = {
    "first_steps.*": f"void({_FACTORS})",
    "register_tiles.*": f"void({_FACTORS})",
    "reduce.fill": "void(float32[::1], float32)",
    "softmax.*": "void(float32[:, ::1], float32[:, ::1])",
    "softmax_backward.*": f"void({', '.join(['float32[:, ::1]'] * 3)})",
    "activation.multiply": "void(float32[::1], float32[::1], float32[::1])",
    "norm_steps.*": "void(float32[:, ::1], float32[::1], float32[::1], float32, float32[:, ::1])",
    "norm_split.shifted_factors": f"void({', '.join(['float32[::1]'] * 4)})",
    "norm_backward.backward_of_rows": f"void({_NORM_BACK}, float32[:, ::1], float32[:, ::1])",
    "norm_backward.backward_of_columns": f"void({', '.join(['float32[:, ::1]'] * 5)})",
    "norm_backward.column_sums": "void(float32[:, ::1], float32[::1])",
    "transpose.*": "void(float32[:, ::1], float32[:, ::1])",
    **{f"spectral_layers.{name}": types for name, types in spectral_layers.SIGNATURES.items()},
    **{f"convolution.{name}": types for name, types in convolution.SIGNATURES.items()},
    "linear.linear_naive": linear.SIGNATURE,
    "svd_rotate.*": svd_rotate.SIGNATURE,
    "svd_blocks.rotate_blocks": svd_blocks.SIGNATURE,
    "svd_qr.form_q": svd_qr.FORM_SIGNATURE,
    **{f"svd_ends.{name}": types for name, types in svd_ends.SIGNATURES.items()},
    "seeded.fill": "void(float32[::1], uint64, uint64)",
    "seeded.digest": "void(uint32[:, ::1], uint64[::1])",
}

#: Kernels that are meant to have float64 instructions, and why.
WITH_FLOAT64: dict[str, str] = {
    "first_steps.reconstruct_original": "shows what the literal 0.0 costs",
}

#: Kernels that are meant to spill, and why.
WITH_SPILLS: dict[str, str] = {
    f"reconstruct: {name}": "a register or two, read again once a tile: 128 let two blocks share a "
    "multiprocessor"
    for name in (
        "tf32", "tf32 (unaligned)", "tf32 (many)", "tf32 (many, unaligned)",
        "tensor cores (many)", "tensor cores (many, unaligned)",
    )
} | {
    f"spectral: 4 x 8, 4 groups{folded}": "with 96 registers twenty warps fit, five to a "
    "scheduler; a few registers wait in memory"
    for folded in ("", ", folded")
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A kernel to compile; `name` as in `SIGNATURES`."""

    name: str
    kernel: Any
    declared: str | None = None
    capability: tuple[int, int] = (5, 0)
    before: tuple[int, int] = (99, 0)

    def is_for(self, target: str) -> bool:
        """Whether the kernel is meant for a target."""
        return self.capability <= toolchain.capability(target) < self.before

    @property
    def signature(self) -> str | None:
        """The declared argument types."""
        if self.declared is not None:
            return self.declared
        module = self.name.rpartition(".")[0]
        return SIGNATURES.get(self.name) or SIGNATURES.get(f"{module}.*")


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


def signature(kind: str | None, many: bool) -> str:
    """Argument types of a step's kernel, which multiplies factors or fragments of a kind."""
    if kind is None:
        return f"void({_MANY if many else _FACTORS})"
    return f"void({(_MANY_PARTS if many else _PARTS).format(word=WORDS[kind])})"


def made() -> Iterator[Case]:
    """Kernels that are made: for shapes of tiles, kinds of factors, functions, stored types."""
    from course.kernels.reconstruct import FRAGMENTS, LADDER, made_kernels

    for name, (kernel, many, capability) in made_kernels().items():
        old, step = " before 8.0" in name, name.partition(" (")[0].removesuffix(" before 8.0")
        kind = None if step.endswith(", thin") else LADDER[step].kind  # that splits for itself
        before = (8, 0) if old else (99, 0)
        yield Case(f"reconstruct: {name}", kernel, signature(kind, many), capability, before)
    for kind, kernels in FRAGMENTS.items():
        word, capability = WORDS[kind], (5, 3) if kind == "halves" else (8, 0)
        for name, kernel in kernels._asdict().items():
            axis = ":, " if name.startswith("many_") else ""
            u, pieces = f"float32[{axis}:, ::1]", f"{word}[{axis}:, :, ::1]"
            scale = f"float32[{axis}::1]"
            taken = u if name.endswith("u") else f"{scale}, {u}"
            types = f"void({taken}, int64, {pieces}, {scale})"
            yield Case(f"fragments: {kind}, {name}", kernel, types, capability)
    for family in FAMILIES:
        makers = importlib.import_module(f"course.kernels.{family}").made_kernels()
        for name, found in makers.items():  # kernel, types, and a capability where it matters
            yield Case(f"{family}: {name}", *found)
    for name, (kernel, types, capability) in svd_solver.made_kernels().items():
        yield Case(f"svd: {name}", kernel, types, capability)
    for name, (kernel, capability) in spectral.made_kernels().items():
        yield Case(f"spectral: {name}", kernel, spectral.SIGNATURE, capability)
    for name, kernel in cnn_whole.made_kernels().items():
        yield Case(f"cnn: {name}", kernel, cnn_whole.SIGNATURE)


def complaints(case: Case, facts: Compiled) -> Iterator[str]:
    """What is wrong with a compiled kernel."""
    if facts.spills and case.name not in WITH_SPILLS:
        yield (
            f"{case.name} ({facts.target}) spills {facts.spill_stores} bytes of stores and "
            f"{facts.spill_loads} of loads"
        )
    if case.name in WITH_FLOAT64:
        if not facts.float64_lines:
            yield f"{case.name} ({facts.target}) is declared with float64 and has none"
        return
    for line in facts.float64_lines:
        yield f"{case.name} ({facts.target}) has float64 instructions, {line}"


def run(targets: tuple[str, ...]) -> list[str]:
    """Compile everything, print the table, return the complaints."""
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
    for case in found:
        if case.signature is None:
            wrong.append(f"{case.name} has no argument types in tools/compile_all.py, SIGNATURES")
            continue
        for target in targets:
            if not case.is_for(target):
                continue
            start = time.perf_counter()
            try:
                facts = compiled(case.kernel, case.signature, target)
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


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", action="append", help="such as sm_80; may be repeated")
    chosen = parser.parse_args(arguments)
    try:
        wrong = run(tuple(chosen.target or TARGETS))
    except CompilerMissing as error:
        print(error, file=sys.stderr)
        return 2
    for complaint in wrong:
        print(f"wrong: {complaint}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
