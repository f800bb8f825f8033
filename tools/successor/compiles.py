"""Which of the course's kernels numba-cuda-mlir compiles: ``data/successor.csv``.

    python -m tools.successor.compiles [--family svd ...]

needs no GPU. numba-cuda-mlir has numba-cuda's language and is to follow it. It is no dependency of
the course: this runs in a virtual environment of its own, with ``numba-cuda-mlir[cu13]`` and what
the course needs, without numba-cuda. Kernels are compiled to machine code, not run. With families
the table is printed and not written. Status 1: a kernel is refused for a reason without a name.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import io
import itertools
import re
import sys
from collections import Counter
from contextlib import redirect_stdout
from types import FunctionType
from typing import Any

from numba import types

from course.compiler import toolchain
from course.compiler.arguments import arguments_of, function_of
from course.compiler.real_kernels import RealKernel, is_device_function
from course.files import write_whole
from tools import compile_all
from tools.notebooks.lessons import ROOT

FILE = ROOT / "data" / "successor.csv"
PACKAGE = "numba_cuda_mlir"

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
#: Options of a kernel that change its code, as the successor calls them.
OPTIONS = ("fastmath", "max_registers", "opt", "lto")


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


def moved(kind: types.Type) -> Any:
    """The successor's type for one of Numba's."""
    new = importlib.import_module(f"{PACKAGE}.numba_cuda.types")
    if isinstance(kind, types.Array):
        element = moved(kind.dtype)
        return new.Array(element, kind.ndim, kind.layout, not kind.mutable, aligned=kind.aligned)
    if isinstance(kind, types.UniTuple):
        return new.UniTuple(moved(kind.dtype), kind.count)
    return getattr(new, "boolean" if isinstance(kind, types.Boolean) else kind.name)


class Moved(RealKernel):
    """A kernel's function with the successor in numba.cuda's place; `used` is what it mentions."""

    def __init__(self, function: FunctionType) -> None:
        self.used: set[str] = set()
        super().__init__(function)

    def _real(self, value: Any, names: frozenset[str]) -> Any:
        self.used |= names
        if type(value).__name__ == "Piece":
            self.used.add("<intrinsic>")
        if is_device_function(value):
            self.used.add("<device function>")
        if isinstance(value, types.Type):
            return moved(value)
        if value is types:
            return importlib.import_module(f"{PACKAGE}.numba_cuda.types")
        return super()._real(value, names)


def attempt(case: compile_all.Case, target: str) -> tuple[list[str], str, str]:
    """A kernel's constructs, the kind of its refusal ("compiled" if none), and what was said."""
    capability = toolchain.capability(target)
    # 0.6.0 asks the driver for a GPU's capability even where the target is given
    importlib.import_module(f"{PACKAGE}.tools")._cached_cc = capability
    function, options = function_of(case.kernel)
    kinds = arguments_of(case.kernel, compile_all.signature(case))
    real = Moved(function)
    stored = {f"<{name}>" for name in ("float16", "bfloat16")}
    used = real.used | {one for one in stored if re.search(rf"\b{one[1:-1]}\b", str(kinds))}
    given = {name: options[name] for name in OPTIONS if options.get(name) is not None}
    try:
        signature = tuple(map(moved, kinds))
        compiler = importlib.import_module(f"{PACKAGE}.compiler")
        with redirect_stdout(io.StringIO()):  # it prints modules that fail its verification
            code = compiler.compile_cubin(real.function, signature, cc=capability, **given)
    except Exception as error:  # whatever it is, it is a refusal, and counted
        return constructs(used), *refusal(error)
    if not code:
        raise RuntimeError(f"{case.name} ({target}) has no error and no machine code")
    return constructs(used), "compiled", ""


def text(families: tuple[str, ...] = ()) -> tuple[str, list[str]]:
    """The file's text, and the kernels that are refused for a reason without a name."""
    counts: Counter[tuple[str, str, str]] = Counter()
    said: dict[str, str] = {}
    unnamed = []
    cases = list(compile_all.kernels())
    if families:
        cases = [case for case in cases if compile_all.family(case) in families]
    for case, target in itertools.product(cases, compile_all.TARGETS):
        if case.is_for(target):
            found, kind, words = attempt(case, target)
            counts.update((construct, target, kind) for construct in found)
            if kind == "other":
                unnamed.append(f"{case.name} ({target})")
            elif kind != "compiled":
                said.setdefault(kind, f"{words}, first of {case.name}")
    rows = []
    for construct in CONSTRUCTS:
        for target in compile_all.TARGETS:
            ends = [counts[construct, target, kind] for kind in ("compiled", *REFUSALS)]
            if sum(ends):
                rows.append(",".join(map(str, (construct, target, sum(ends), *ends))))
    packages = ("numba-cuda-mlir", "nvidia-cuda-nvcc", "numba")
    versions = [f"{one} {importlib.metadata.version(one)}" for one in packages]
    head = [f"# versions={', '.join(versions)}", "# command=python -m tools.successor.compiles"]
    head += [f"# {kind}={said[kind]}" for kind in REFUSALS if kind in said]
    return "\n".join([*head, ",".join(COLUMNS), *rows]) + "\n", unnamed


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--family", action="append", help="such as svd; may be repeated")
    families = tuple(parser.parse_args(arguments).family or ())
    try:
        successor = importlib.import_module(f"{PACKAGE}.cuda")
    except ImportError as error:
        print(
            f"successor: numba-cuda-mlir cannot be imported ({error}): in a virtual environment "
            'of its own, python -m pip install "numba-cuda-mlir[cu13]" .',
            file=sys.stderr,
        )
        return 2
    # what a reader would do to the imports of a program, for this process
    sys.modules["numba.cuda"], sys.modules["numba.cuda.random"] = successor, successor.random
    table, unnamed = text(families)
    if families:
        print(table, end="")
    else:
        write_whole(FILE, table)
    for one in unnamed:
        print(f"refused, no kind of refusal fits: {one}", file=sys.stderr)
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
