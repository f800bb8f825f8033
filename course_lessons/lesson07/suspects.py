"""Five kernels whose source the reader of lesson 07 does not see, and what their counters say.

Each scales, turns or copies the same 512 x 512 numbers. They are traced when they are asked for,
and what the trace counts stands beside the name that Nsight Compute has for it. (Learners: the
exercise is to find out what is wrong with them from the counters alone. Here is the answer.)

On a GPU ``python -m course_lessons.lesson07.suspects`` launches them, and ``ncu --metrics
NAME,NAME,...`` in front of that reads the same counters from the hardware.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import float32

from course.backend import cuda
from course.checks.guesses import chosen, listed
from course.checks.verdicts import brief
from course_lessons.lesson07.profile import METRICS
from warpsim import trace

SIDE, TILE = 512, 32
MULTIPROCESSORS = 132  # of an H200
CHOICES = ("uncoalesced", "bank conflicts", "too few blocks", "float64", "nothing")

#: What is shown of a kernel, with Nsight Compute's name.
COUNTERS = {
    "blocks": "launch__grid_size",
    "threads of a block": "launch__block_size",
    **{
        name: METRICS[name]
        for name in (
            "global load requests", "global load sectors", "global store requests",
            "global store sectors", "shared load wavefronts", "shared load conflicts",
            "shared store wavefronts", "shared store conflicts", "float64 mul",
        )
    },
}  # fmt: skip


@cuda.jit
def _tile_turned(x, out):
    tile = cuda.shared.array((TILE, TILE), float32)
    first_row, first_column = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    column = cuda.threadIdx.x
    for row in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
        tile[row, column] = x[first_row + row, first_column + column]
    cuda.syncthreads()
    for row in range(cuda.threadIdx.y, TILE, cuda.blockDim.y):
        out[first_column + row, first_row + column] = tile[column, row]


@cuda.jit
def _few_walk(x, out):
    columns = x.shape[1]
    for n in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        row, column = n // columns, n % columns
        out[row, column] = float32(0.3) * x[row, column]


@cuda.jit
def _rows_to_columns(x, out):
    column, row = cuda.grid(2)
    out[column, row] = x[row, column]


@cuda.jit
def _scaled(x, out):
    column, row = cuda.grid(2)
    out[row, column] = float32(0.3) * x[row, column]


@cuda.jit
def _scaled_by_a_literal(x, out):
    column, row = cuda.grid(2)
    out[row, column] = 0.3 * x[row, column]


_WIDE = (SIDE // 32, SIDE // 8), (32, 8)
#: What the source says of a fault.
_WHY = {
    "bank conflicts": "It turns the image by way of a tile, so that all its sectors are full. But "
    "it reads the tile down a column: 32 lanes, one bank.",
    "float64": "A literal such as 0.3 is float64, and so is what is multiplied by it.",
    "uncoalesced": "It turns the image, and writes down a column: each lane has a sector of its "
    "own.",
    "nothing": "It is as it should be.",
    "too few blocks": "Its requests and sectors are those of a kernel without a fault. Only the "
    "blocks say that 124 multiprocessors have nothing to do.",
}
#: By letter: the kernel, its grid and block, and what is wrong with it.
_SUSPECTS = {
    "A": (_tile_turned, (SIDE // TILE, SIDE // TILE), (32, 8), "bank conflicts"),
    "B": (_scaled_by_a_literal, *_WIDE, "float64"),
    "C": (_rows_to_columns, *_WIDE, "uncoalesced"),
    "D": (_scaled, *_WIDE, "nothing"),
    "E": (_few_walk, 8, 256, "too few blocks"),
}
LETTERS = tuple(_SUSPECTS)


# ---------------------------------------------------------------------- counters
@functools.cache
def counters(letter: str) -> Mapping[str, int]:
    """The counters of a suspect, by the names in `COUNTERS`; traced, not typed."""
    kernel, grid, block, _ = _SUSPECTS[letter]
    x = np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)
    report = trace(kernel, grid, block, x, np.empty_like(x), gpu="H200")
    found = {"blocks": int(np.prod(grid)), "threads of a block": int(np.prod(block))}
    for name in COUNTERS:
        if name.startswith(("global", "shared")):
            space, kind, figure = name.split()
            found[name] = getattr(report.total(space, kind), figure)
    # of these kernels' operations only multiplications are float64
    return found | {"float64 mul": report.operations.get("float64", 0)}


def launch() -> None:
    """Launch each suspect once, for a profiler to watch."""
    x = cuda.to_device(np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE))
    for kernel, grid, block, _ in _SUSPECTS.values():
        kernel[grid, block](x, cuda.device_array(x.shape, np.float32))
    cuda.synchronize()


def table() -> str:
    """The counters of all suspects; under each name the one that Nsight Compute has for it."""
    lines = [f"{'':24}" + "".join(f"{letter:>10}" for letter in LETTERS)]
    for name, metric in COUNTERS.items():
        lines.append(f"{name:24}" + "".join(f"{counters(each)[name]:10,}" for each in LETTERS))
        lines.append(f"  {metric}")
    return "\n".join(lines)


# ---------------------------------------------------------------------- what they say
def _sectors(letter: str, kind: str) -> int:
    its = counters(letter)
    return its[f"global {kind} sectors"] // its[f"global {kind} requests"]


def _signs(letter: str) -> dict[str, str]:
    """For each diagnosis the sentence on a suspect's counters that decides it, for or against."""
    its = counters(letter)
    conflicts = its["shared load conflicts"] + its["shared store conflicts"]
    wavefronts = its["shared load wavefronts"] + its["shared store wavefronts"]
    blocks, doubles = its["blocks"], its["float64 mul"]
    load, store = _sectors(letter, "load"), _sectors(letter, "store")
    per_thread = SIDE * SIDE // (blocks * its["threads of a block"])
    shared = "no wavefront of shared memory is a conflict"
    if conflicts:
        shared = f"{conflicts:,} of {wavefronts:,} wavefronts of shared memory are conflicts"
    return {
        "uncoalesced": f"a request has {load} sectors in loads and {store} in stores; the 128 "
        "bytes of 32 neighbours have 4",
        "bank conflicts": shared,
        "too few blocks": f"there are {blocks:,} blocks for the {MULTIPROCESSORS} multiprocessors "
        f"of an H200, and a thread has {per_thread:,} of the numbers",
        "float64": f"{doubles:,} multiplications are float64, of {SIDE * SIDE:,} numbers",
    }


def explained(letter: str, said: str) -> str:
    """Why a diagnosis is wrong, or right, by the counters."""
    truth = _SUSPECTS[letter][3]
    signs = _signs(letter)
    if said == truth == "nothing":
        return f"{letter}, nothing: {'; '.join(signs.values())}."
    if said == truth:
        return f"{letter}, {said}: {signs[said]}."
    if said != "nothing":
        return f"{letter} is not {said!r}: {signs[said]}."
    return f"{letter} is not in order: {signs[truth]}."


def judge(answer: Any) -> str | None:
    """The first fault of a diagnosis of all suspects; None where all are right."""
    if not isinstance(answer, Mapping):
        return f"Return a dictionary, {{'A': word, 'B': word, ...}}; got {brief(answer)}."
    given = {str(letter).strip().upper(): said for letter, said in answer.items()}
    if missing := [letter for letter in LETTERS if letter not in given]:
        return f"Nothing is said of {missing[0]}: there are {', '.join(LETTERS)}."
    for letter in LETTERS:
        said = given[letter]
        word = chosen(said, CHOICES) if isinstance(said, str) and said not in LETTERS else None
        if word is None:
            return f"{brief(said)} of {letter} is none of the words: {listed(CHOICES)}."
        if word != _SUSPECTS[letter][3]:
            return explained(letter, word)
    return None


def revealed(answer: Any) -> str:
    """Of each suspect that is named rightly, what says so and its source; of others nothing."""
    parts = []
    given = answer if isinstance(answer, Mapping) else {}
    for letter, said in given.items():
        if letter in _SUSPECTS and isinstance(said, str):
            kernel, _, _, truth = _SUSPECTS[letter]
            if chosen(said, CHOICES) == truth:
                source = inspect.getsource(getattr(kernel, "py_func", kernel)).rstrip()
                said = textwrap.wrap(f"{explained(letter, truth)} {_WHY[truth]}", 80)
                parts.append("\n".join([*said, source]))
    return "\n\n".join(parts) or "None is named rightly yet."


if __name__ == "__main__":
    launch()
