"""Record what NVIDIA's compilers make of the ladder's steps: ``data/compiled-ladder.csv``.

    python -m tools.compile.ladder

needs no GPU, only the extra compile. Lesson 06 shows the file's figures where the compilers are not
installed; a test compares the two where they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from numba import types

from course.compiler.facts import Compiled, CompilerMissing, compiled
from course.compiler.together import compiled_together
from course.files import write_whole
from course.heuristics.gemm import DEPTH
from course.kernels.reconstruct import warpgroups
from course.kernels.reconstruct.ladder import (
    LADDER,
    OLDER,
    TileStep,
    config_for,
    tile_for,
)
from course.kernels.reconstruct.warp_per_tile import warp_per_tile
from course_lessons.lesson06 import ladder
from tools.compile.cases import of_factors
from tools.notebooks.lessons import ROOT
from warpsim.ptx.tma import TensorMapType

FILE = ROOT / "data" / "compiled-ladder.csv"
COLUMNS = (
    "step", "target", "registers", "spills", "shared_bytes", "instructions", "products", "reads",
)  # fmt: skip


def steps() -> Iterator[tuple[str, str, Compiled]]:
    """Every step with the targets that it has."""
    for target in ladder.CAPABILITY:
        capability = int(target[3:-1]), int(target[-1])
        for name, newest in LADDER.items():
            step = OLDER if name == "tensor cores" and capability < (8, 0) else newest
            if name == "warpgroups" and step.capability <= capability:
                yield name, target, compiled(*of_warpgroups(), target=f"{target}a")
            elif name == "warp per tile":
                yield name, target, compiled(*of_warp_per_tile(), target=target)
            elif name != "library" and step.capability <= capability:
                factors = of_factors(step.dtype, many=False)
                yield name, target, compiled(step.kernel, factors, target=target)


def of_warpgroups() -> tuple[Any, tuple[Any, ...]]:
    """The kernel that multiplies at the ladder's shape on an H200, and its types."""
    config = config_for(*ladder.SHAPE, 132)
    maps = (TensorMapType(types.float16, (rows, DEPTH), True) for rows in (warpgroups.ROWS, DEPTH))
    line, sizes = types.float32[::1], (types.int32, types.int32)
    given = (*maps, line, line, types.float32[:, ::1], *sizes)
    return warpgroups.warpgroup_tiles(config), given


def of_warp_per_tile() -> tuple[Any, tuple[Any, ...]]:
    """The kernel of one image at the ladder's shape, and its types."""
    plane, line = types.float32[:, ::1], types.float32[::1]
    kernel, _ = warp_per_tile(tile_for(*ladder.SHAPE, 0, True, 132))
    return kernel, (plane, line, plane, types.int32, plane, types.int32)


def row(name: str, target: str, found: Compiled) -> tuple:
    """One line of the file; tensor cores' products are no float32 instructions."""
    its = name, target, found.registers, found.spills, found.shared_bytes
    step = LADDER[name]
    if not isinstance(step, TileStep) or step.dtype or not ladder.has_products(found.ptx):
        return (*its, "", "", "")
    loop = ladder.inner_loop(found.ptx)
    return (*its, loop.instructions, loop.products, loop.reads)


def text() -> str:
    """The file's text."""
    rows, toolkits = [], set()
    with compiled_together():
        for name, target, found in steps():
            rows.append(",".join(map(str, row(name, target, found))))
            toolkits.add(found.toolkit)
    head = [f"# toolkit={', '.join(sorted(toolkits))}", "# command=python -m tools.compile.ladder"]
    return "\n".join([*head, ",".join(COLUMNS), *rows]) + "\n"


if __name__ == "__main__":
    try:
        write_whole(FILE, text())
    except CompilerMissing as error:
        sys.exit(f"compile_ladder: {error}")
