"""Hashes of kernels' PTX: whether a change of the source changed what is compiled.

`python -m tools.compile_all --hashes FILE` writes them, `--hashes-against FILE` compares. Where a
kernel or its module is renamed, symbols alone differ: they are numbered in order of appearance.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

from course.compiler import toolchain
from course.files import write_whole

Hashes = dict[str, dict[str, str]]  # by kernel, then by target
_SYMBOL = re.compile(r"\b_(?:Z|cudapy_)[\w$]+")


def normalised(ptx: str) -> str:
    """PTX without what the source's names decide.

    Comment lines are dropped, and Numba's tables of globals, which no instruction reads. Names of
    dynamic shared memory, which all begin at one place, come last: NVVM declares them in any order.
    """
    numbers = count()
    found: dict[str, str] = {}

    def numbered(symbol: re.Match[str]) -> str:
        if symbol[0] not in found:
            found[symbol[0]] = f"_{next(numbers)}"
        return found[symbol[0]]

    lines = (line.rstrip() for line in ptx.splitlines())
    kept = (
        line for line in lines
        if line and not line.lstrip().startswith("//") and "_ZN08NumbaEnv" not in line
    )  # fmt: skip
    text = _SYMBOL.sub(numbered, "\n".join(_dynamic_last(kept)))
    return "\n".join(_dynamic_last(text.split("\n"))) + "\n"


def _dynamic_last(lines: Iterable[str]) -> list[str]:
    return sorted(lines, key=lambda line: line if line.startswith(".extern .shared") else "")


def hash_of(ptx: str, options: dict[str, Any]) -> str:
    """The sha256 of a kernel's PTX, and of the options that take effect behind it."""
    behind = {name: options.get(name) for name in ("max_registers", "lto")}
    return hashlib.sha256(f"{behind}\n{normalised(ptx)}".encode()).hexdigest()


def compilers() -> str:
    """The versions that decide, for a file's first line."""
    versions = (f"{name} {metadata.version(name)}" for name in ("numba", "numba-cuda"))
    return f"{', '.join(versions)}; {toolchain.installed()}"


def write(path: Path, hashes: Hashes) -> None:
    """Write a line for each kernel and target."""
    rows = (f"{its[target]} {target} {name}" for name, its in hashes.items() for target in its)
    write_whole(path, "\n".join([f"# {compilers()}", *rows]) + "\n")


def read(path: Path, targets: Iterable[str]) -> Hashes:
    """Read what `write` wrote, of some targets.

    Raises
    ------
    ValueError
        When other compilers made the file.
    """
    head, *rows = path.read_text(encoding="utf-8").splitlines()
    if head != f"# {compilers()}":
        raise ValueError(f"{path} was made with {head[2:]}; here is {compilers()}: write it anew")
    hashes: Hashes = {}
    for row in rows:
        digest, target, name = row.split(" ", 2)
        if target in targets:
            hashes.setdefault(name, {})[target] = digest
    return hashes


def moved(old: Hashes, new: Hashes) -> dict[str, str]:
    """Old names of kernels that have another name now, by the new ones: their PTX is equal."""
    went = {name: its for name, its in old.items() if name not in new}
    found = {}
    for name, its in new.items():
        if name not in old and its in went.values():
            before = next(other for other, hashes in went.items() if hashes == its)
            found[name] = before
            del went[before]
    return found


def differences(old: Hashes, new: Hashes, families: Iterable[str] = ()) -> Iterator[str]:
    """What became of kernels whose PTX is not found again; with `families`, of theirs alone."""
    elsewhere = moved(old, new)
    for name, its in new.items():
        if name in old and its != old[name]:
            targets = sorted(t for t in its | old[name] if its.get(t) != old[name].get(t))
            yield f"{name} differs for {', '.join(targets)}"
        elif name not in old and name not in elsewhere:
            yield f"{name} came"
    for name in old:
        known = name in new or name in elsewhere.values()
        if not known and (not families or family(name) in families):
            yield f"{name} went"


def family(name: str) -> str:
    """What kernels have in common: the first word of their names."""
    return re.split(r"[.:]", name)[0]
