"""What numba-cuda-mlir's typing says of calls: ``successor_answers.txt``.

    python -m tests.warpsim.front.successor_answers

writes the file anew where that package is installed. Each line has a function, the type of its
first argument where it has two, and the types of its results by the types of its last argument in
the order of `KINDS`; "-" where there is no such call.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".txt")
KINDS = (
    "boolean int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
).split()
OPERATORS = "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor lt eq".split()
SIGNS = "neg pos invert".split()
OF_TWO = "atan2 copysign fmod hypot pow ldexp".split()
BITS = "popc clz ffs brev".split()
OF_ONE = (
    "acos acosh asin asinh atan atanh ceil cos cosh degrees erf erfc exp exp2 expm1 fabs floor "
    "gamma isfinite isinf isnan lgamma log log10 log1p log2 radians sin sinh sqrt tan tanh trunc"
).split()


def questions(of_bits: Callable[[str], Any] = str) -> Iterator[tuple[str, Any, int]]:
    """All functions: name, function, number of arguments."""
    yield from ((f"operator.{name}", getattr(operator, name), 2) for name in OPERATORS)
    yield from ((f"operator.{name}", getattr(operator, name), 1) for name in SIGNS)
    yield "abs", abs, 1
    yield from ((f"math.{name}", getattr(math, name), 1) for name in OF_ONE)
    yield from ((f"math.{name}", getattr(math, name), 2) for name in OF_TWO)
    yield from ((f"cuda.{name}", of_bits(name), 1) for name in BITS)


def answers() -> dict[tuple[str, ...], str]:
    """The file: the type of a result by name and types."""
    found = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        head, _, told = line.partition(": ")
        for kind, answer in zip(KINDS, told.split(), strict=True):
            found[*head.split(), kind] = answer
    return found


def main() -> None:
    """Ask the package."""
    from numba_cuda_mlir import cuda, tools, types
    from numba_cuda_mlir.descriptor import mlir_target
    from numba_cuda_mlir.numba_cuda.core.target_extension import target_override

    tools._cached_cc = (9, 0)  # else it asks a driver
    context = mlir_target.typing_context
    context.refresh()

    def ask(function: Any, kinds: tuple[str, ...]) -> str:
        try:
            with target_override("cuda"):
                arguments = tuple(getattr(types, kind) for kind in kinds)
                signature = context.resolve_function_type(function, arguments, {})
        except Exception as error:
            if type(error).__name__ not in ("TypingError", "NumbaTypeError", "UnsupportedError"):
                raise
            return "-"
        return "-" if signature is None else str(signature.return_type)

    lines = []
    for name, function, count in questions(lambda bits: getattr(cuda, bits)):
        for first in itertools.product(KINDS, repeat=count - 1):
            told = [ask(function, (*first, kind)) for kind in KINDS]
            lines.append(f"{' '.join((name, *first))}: {' '.join(told)}\n")
    FILE.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
