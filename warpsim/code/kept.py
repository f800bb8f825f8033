"""What is known of functions of one shape, for those that are made later, here and elsewhere.

A translation asks of the functions that it calls no more than their `Facts`. It serves every
function of the same shape for which these come out the same; only its calls are bound anew.

``pytest --warpsim`` and ``python -m warpsim`` keep what is known on disk (`begin`), beside Numba's
answers about types, a file for each shape. Its folder belongs to the versions of Python, NumPy and
Numba and to warpsim's own text, its name to the function's text and place and to all that it finds
outside itself. What no file can hold, as an array of the device, is translated each time, and so is
what warns.
"""

import atexit
import contextlib
import gc
import marshal
import pickle
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
from numba import types

from warpsim.code.likeness import digest, is_plain
from warpsim.core import own_files
from warpsim.front.names import Site
from warpsim.front.numba_typing import rules_are_usual, versions

Signature = tuple[types.Type, ...]

#: Bytes of a file, and of all: the oldest go first.
MOST_BYTES, MOST_OF_ALL = 1 << 22, 1 << 26
#: Kinds of argument types, and of what is called, of one shape that a file holds.
MOST_VARIANTS = 32


@dataclass(frozen=True)
class Facts:
    """What callers ask of a function for some argument types; of a recursive one they ask more."""

    result: types.Type
    stores: frozenset[int]  # positions of arguments whose elements it may change
    unread: frozenset[int]  # of those that it never looks at
    makes: bool = False  # returns an array of its own
    optional = recursive = False
    source = None


@dataclass(frozen=True)
class Shell:
    """A lane program whose calls are not bound yet."""

    name: str
    text: str
    code: CodeType  # of the function
    sites: tuple[Site, ...]  # its own places; those of its calls follow
    values: dict[str, Any]  # what it finds outside itself, but for what every lane program does
    #: Of each call the names of the program and of the number of its first place, the function or
    #: the name that stands for it outside the caller, and the argument types.
    calls: tuple[tuple[str, str, Any, Signature], ...]
    cooperative: bool  # the rest as in a `LaneProgram`, its calls apart
    by_warp: bool
    locks: bool
    cluster: int

    def __reduce__(self) -> tuple:
        return _shell, ({**vars(self), "code": marshal.dumps(self.code)},)


def _shell(parts: dict[str, Any]) -> Shell:
    return Shell(**{**parts, "code": marshal.loads(parts["code"])})


@dataclass
class Variant:
    """What is known for some argument types."""

    #: The calls that typing it made, in order: the function's name, the types of the arguments, the
    #: facts. Without types: one that it calls somewhere, where no result counts. They must be the
    #: same wherever this is taken.
    needs: tuple[tuple[str, Signature | None, Facts], ...]
    facts: Facts
    #: By the further arguments of :meth:`~warpsim.code.programs.Program.lane_program`; bytes, as a
    #: file holds it, until it is asked for.
    shells: dict[tuple, Shell | bytes] = field(default_factory=dict)

    def shell(self, how: tuple) -> Shell | None:
        """The lane program, if there is one."""
        found = self.shells.get(how)
        if isinstance(found, bytes):
            found = self.shells[how] = pickle.loads(found)
        return found


class Kept:
    """All variants of one shape, by their argument types."""

    def __init__(self, shape: tuple):
        self.variants: dict[Signature, list[Variant]] = {}
        self.is_new = False
        self.file = _file(shape) if _begun else None
        for signature, variant in _read(self.file):
            self.variants.setdefault(signature, []).append(variant)

    def add(self, signature: Signature, variant: Variant) -> None:
        self.variants.setdefault(signature, []).append(variant)
        self.is_new = True

    def save(self) -> None:
        """Write what is new, with what others have written meanwhile."""
        self.is_new = False
        pairs = [(kinds, one) for kinds, found in self.variants.items() for one in found]
        for kinds, other in _read(self.file):
            same = (one for one in self.variants.get(kinds, ()) if one.needs == other.needs)
            mine = next(same, None)
            if mine is None:
                pairs.append((kinds, other))
            else:
                mine.shells = other.shells | mine.shells
        parts = [part for pair in pairs[-MOST_VARIANTS:] if (part := _packed(*pair))]
        text = pickle.dumps(parts, pickle.HIGHEST_PROTOCOL)
        if parts and len(text) < MOST_BYTES:
            own_files.keep(self.file, text)


_begun = False
_by_shape: dict[tuple, Kept] = {}


def kept_of(shape: tuple) -> Kept:
    """What is known of functions of a shape."""
    if shape not in _by_shape:
        _by_shape[shape] = Kept(shape)
    return _by_shape[shape]


# ---------------------------------------------------------------------- on disk
def begin() -> None:
    """From now on take what earlier processes have left, and leave what is new at the end."""
    global _begun
    if not _begun:
        _begun = True
        atexit.register(gc.freeze)  # no search for what can go while all goes
        atexit.register(save)


def save() -> None:
    """Write what is new; a folder that cannot be written is no error."""
    new = [one for one in _by_shape.values() if one.is_new and one.file is not None]
    if not new or not rules_are_usual():
        return
    with contextlib.suppress(OSError):
        for one in new:
            one.save()
        _drop_oldest(_folder().parent)


def _drop_oldest(folder: Path) -> None:
    """Hold all files, those of other versions too, to their bytes."""
    files = [(path.stat(), path) for path in folder.glob("programs-*/*")]
    left = sum(about.st_size for about, _ in files)
    most = left if left <= MOST_OF_ALL else MOST_OF_ALL // 2
    for about, path in sorted(files, key=lambda pair: pair[0].st_mtime):
        if left <= most:
            break
        left -= about.st_size
        path.unlink(missing_ok=True)


@cache
def _folder() -> Path | None:
    where = own_files.folder()
    if where is None:
        return None
    said, package = versions(), Path(__file__).parents[1]
    said.update(f"numpy {np.__version__}".encode())
    for path in sorted(package.rglob("*.py")):
        said.update(path.relative_to(package).as_posix().encode() + path.read_bytes())
    return where / f"programs-{said.hexdigest()[:16]}"


def _file(shape: tuple) -> Path | None:
    name = digest(shape) if _folder() is not None else None
    return None if name is None else _folder() / name


def _read(file: Path | None) -> list[tuple[Signature, Variant]]:
    text = None if file is None else own_files.kept(file, MOST_BYTES)
    with contextlib.suppress(Exception):  # what it names may be gone
        parts = pickle.loads(text) if text else []
        return [(signature, Variant(*rest)) for signature, *rest in parts]
    return []


def _packed(signature: Signature, variant: Variant) -> tuple | None:
    """A variant as a file holds it; None if none can."""
    kinds = [*signature, variant.facts.result]
    for _, given, facts in variant.needs:
        kinds += [*(given or ()), facts.result]
    if not all(map(is_plain, kinds)):
        return None
    shells = {}
    for how, shell in variant.shells.items():
        with contextlib.suppress(Exception):  # it holds something that belongs to this process
            packed = isinstance(shell, bytes)
            shells[how] = shell if packed else pickle.dumps(shell, pickle.HIGHEST_PROTOCOL)
    return signature, variant.needs, variant.facts, shells
