"""Reading what the CUDA compiler writes: PTX, its assembly language, and the linker's log.

Everything here is a count of instructions in the text: an instruction inside a loop counts once,
and as often as the compiler unrolled it. Reference: NVIDIA, Parallel Thread Execution ISA.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

#: Memory spaces of loads and stores; without one, an address is generic: known at run time only.
SPACES = ("global", "shared", "local", "const")
#: Instructions that only move 64 bits: no work for the float64 units.
_MOVES = frozenset(
    "ld ldu st mov selp shfl prmt cvta tex tld4 suld sust call ret isspacep slct".split()
)
_COMPARES = frozenset(("set", "setp", "testp"))
_ATOMICS = frozenset(("atom", "red"))
_TYPE = re.compile(r"(?:b|u|s|f|bf)(?:8|16|32|64|128)(?:x2)?$|pred$")

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_FUNCTION = re.compile(r"\.(entry|func)\b\s*(?:\([^)]*\)\s*)?([\w$.]+)")
_INSTRUCTION = re.compile(r"^[\s{}]*(?:@!?[%\w$]+\s+)?([a-z][a-z0-9]*(?:(?:\.|::)\w+)+)")


class Instruction(NamedTuple):
    """An instruction of PTX, such as ``cvt.f64.f32``, and the source line it comes from.

    `file` is the path as the compiler was given it; None, with line 0, where it names no line.
    """

    name: str
    function: str
    file: str | None
    line: int


def instructions(ptx: str) -> Iterator[Instruction]:
    """All typed instructions of a PTX text, in order."""
    files = {number: path.replace("\\\\", "\\") for number, path in _FILE.findall(ptx)}
    function, file, line = "", None, 0
    for row in _COMMENT.sub("", ptx).splitlines():
        stripped = row.strip()
        if not stripped:
            continue
        place = _LOC.match(stripped)
        if place:
            file, line = files.get(place[1]), int(place[2])
            continue
        opening = _FUNCTION.search(stripped) if stripped.startswith(".") else None
        if opening:
            function, file, line = opening[2], None, 0
            continue
        if stripped.startswith((".", "$")) and not stripped.startswith(".pragma"):
            continue
        for part in stripped.split(";"):
            found = _INSTRUCTION.match(part)
            if found:
                yield Instruction(found[1], function, file if line else None, line)


def float64_kind(name: str) -> str | None:
    """What a float64 instruction does: "arithmetic", "conversion", "compare", "atomic" or None.

    None for other types, and for moves, loads, stores and selections of float64 values: they take
    twice the bytes and no float64 unit.
    """
    operation, *parts = name.split(".")
    if "f64" not in parts or operation in _MOVES:
        return None
    if operation == "cvt":
        return "conversion"
    if operation in _COMPARES:
        return "compare"
    return "atomic" if operation in _ATOMICS else "arithmetic"


def access_widths(ptx: str, operation: str) -> dict[str, dict[str, int]]:
    """How wide the loads (``"ld"``) or stores (``"st"``) of each memory space are.

    Returns
    -------
    dict
        ``{"global": {"f32": 10, "v4.f32": 2}}``: ten instructions of 32 bits, two of 128. A space
        that is not accessed is left out. Kernel arguments (``ld.param``) and asynchronous copies
        (``cp.async``) are not counted.
    """
    widths: dict[str, Counter[str]] = {}
    for found in instructions(ptx):
        name, *parts = found.name.split(".")
        if name != operation and not (operation == "ld" and name == "ldu"):
            continue
        parts = [part.split("::")[0] for part in parts]
        if "param" in parts:
            continue
        space = next((part for part in parts if part in SPACES), "generic")
        vector = next((f"{part}." for part in parts if re.fullmatch(r"v[248]", part)), "")
        kind = next((part for part in reversed(parts) if _TYPE.fullmatch(part)), "?")
        widths.setdefault(space, Counter())[vector + kind] += 1
    return {space: dict(sorted(widths[space].items())) for space in sorted(widths)}


def shared_bytes(ptx: str) -> int:
    """Bytes of shared memory that PTX declares, each array at a multiple of its alignment.

    The linker's log is silent about them where it does not optimise.
    """
    end = 0
    for alignment, size in _SHARED.findall(ptx):
        end = -(-end // int(alignment)) * int(alignment) + int(size)
    return end


@dataclass(frozen=True)
class Resources:
    """What a kernel needs, by the linker's log; memory in bytes.

    `stack` is a thread's local memory: arrays that do not fit in registers, and spilled registers.
    Spills are the bytes that a thread's spill instructions move, each counted once.
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


_SHARED = re.compile(r"\.shared \.align (\d+) \.b8 \w+\[(\d+)\];")
_FRAME = re.compile(
    r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads"
    r"|(\d+) bytes cumulative stack size"
)
_USED = re.compile(r"^ptxas info\s*: Used (\d+) registers(.*)$", re.MULTILINE)


def resources(log: str) -> Resources:
    """Read the log of ``ptxas -v``.

    Raises
    ------
    ValueError
        When the log is not of that form.
    """
    used = _USED.findall(log)
    frames = _FRAME.findall(log)
    if not used or not frames:
        raise ValueError(f"the linker's log does not say what the kernel uses:\n{log}")

    shared = (int((re.findall(r"(\d+) bytes smem", rest) or [0])[0]) for _, rest in used)
    return Resources(
        registers=max(int(count) for count, _ in used),
        stack=max(int(frame or cumulative) for frame, _, _, cumulative in frames),
        spill_stores=sum(int(stores or 0) for _, stores, _, _ in frames),
        spill_loads=sum(int(loads or 0) for _, _, loads, _ in frames),
        shared=max(shared),
    )
