"""Tables of the kernels over rows and elements, in Markdown: what they move, what they compile to.

    python -m tools.publish.kernel_tables traffic
    python -m tools.publish.kernel_tables compiled [softmax norm ...] [--target sm_75 ...]

`traffic` traces programs, fused and not, and gives the bytes that their warps ask for as multiples
of the array's. `compiled` gives registers, spills and shared memory of the kernels whose names in
`tools.compile_all` begin so, and needs the extra compile. Neither needs a GPU.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from course.backend import cuda
from course.compiler.facts import CompilerMissing, compiled
from course.kernels.steps import configured
from course_lessons.lesson13.profile import trace_launch
from tools import compile_all

FAMILIES = ("reduce", "softmax", "activation", "norm", "spectral", "convolution", "linear")
ROWS, COLUMNS = 8, 4096
EPS = 1e-5
Launches = list[tuple[Any, tuple[Any, ...]]]


# --- traffic -------------------------------------------------------------------------------------
def programs() -> Iterator[tuple[str, str, Callable[[Any, Any], Launches]]]:
    """Work, how it is done, and its launches on (x, out), matrices on the device."""
    from course.kernels import activation, norm, softmax

    def flat(array: Any) -> Any:
        return array.reshape(array.size)

    def activated(name: str, x: Any, out: Any) -> Launches:
        pair = flat(x), flat(out)
        return configured(activation.LADDER.launches(*pair, name=name))

    def normalised(x: Any, out: Any, gelu: str | None = None, method: str = "auto") -> Launches:
        how = {"eps": EPS, "activation": gelu, "method": method}
        return configured(norm.LADDER.launches(x, None, None, out, **how))

    def two_kernels(x: Any, out: Any) -> Launches:
        between, grid = cuda.device_array(x.size, np.float32), -(-x.size // activation.EACH)
        first = activation.each(activation.sigmoid)[grid, activation.EACH]
        second = activation.multiply[grid, activation.EACH]
        return [(first, (flat(x), between)), (second, (flat(x), between, flat(out)))]

    yield "LayerNorm + GELU", "fused", lambda x, out: normalised(x, out, "gelu")
    yield (
        "LayerNorm + GELU",
        "LayerNorm, then GELU",
        lambda x, out: normalised(x, out) + activated("gelu", out, out),
    )
    yield (
        "LayerNorm + GELU",
        "LayerNorm in two passes, then GELU",
        lambda x, out: normalised(x, out, "gelu", "block"),
    )
    yield "Swish", "fused", lambda x, out: activated("silu", x, out)
    yield "Swish", "sigmoid, then product", two_kernels
    for method in softmax.LADDER:

        def one(x: Any, out: Any, method: str = method) -> Launches:
            return configured(softmax.LADDER.launches(x, out, method=method))

        yield "softmax", method, one


def traffic() -> list[str]:
    """The table of what programs move."""
    lines = [
        "| work | program | kernels | read | written | both | of the least |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    x = np.random.default_rng(0).random((ROWS, COLUMNS), dtype=np.float32)
    for work, how, launches in programs():
        there, out = cuda.to_device(x), cuda.device_array(x.shape, np.float32)
        made = launches(there, out)
        reports = [trace_launch(*launch) for launch in made]
        read, written = (
            sum(report.total("global", op).bytes for report in reports) / x.nbytes
            for op in ("load", "store")
        )
        both = read + written
        lines.append(
            f"| {work} | {how} | {len(made)} | {read:.3g} | {written:.3g} | {both:.3g} "
            f"| {both / 2:.3g}× |"
        )
    return lines


# --- compiled ------------------------------------------------------------------------------------
def compiled_table(families: tuple[str, ...], targets: tuple[str, ...]) -> list[str]:
    """The table of what kernels compile to; "–" where one is not meant for a target."""
    columns = [f"{what} {target}" for target in targets for what in ("registers", "spills")]
    lines = [
        "| kernel | " + " | ".join(columns) + " | shared bytes |",
        "|---|" + "---:|" * (len(columns) + 1),
    ]
    spills = 0
    for case in compile_all.kernels():
        if not case.name.startswith(families):
            continue
        cells, shared = [], set()
        for target in targets:
            if not case.is_for(target):
                cells += ["–", "–"]
                continue
            facts = compiled(case.kernel, compile_all.signature(case), target)
            cells += [str(facts.registers), str(facts.spills)]
            spills += facts.spills
            shared.add(facts.shared_bytes)
        sizes = " / ".join(f"{size:,}" for size in sorted(shared))
        lines.append(f"| {case.name} | " + " | ".join(cells) + f" | {sizes} |")
    lines.append(f"\n{len(lines) - 2} kernels, {spills} spills.")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", choices=("traffic", "compiled"))
    parser.add_argument("families", nargs="*", help=f"of `compiled`: {' '.join(FAMILIES)}")
    parser.add_argument("--target", action="append", help="such as sm_80; may be repeated")
    chosen = parser.parse_args(arguments)
    if chosen.table == "traffic":
        lines = traffic()
    else:
        targets = tuple(chosen.target or compile_all.TARGETS)
        try:
            lines = compiled_table(tuple(chosen.families) or FAMILIES, targets)
        except CompilerMissing as error:
            print(error, file=sys.stderr)
            return 2
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
