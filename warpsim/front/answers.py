"""Numba's answers about types of numbers, kept on disk: its rules take half a second to load.

Only questions about numbers, put to functions of Python's and NumPy's own, are kept: nobody gives
these other answers. The file belongs to the versions of Numba, numba-cuda and Python, and to the
text of what asks. It lies in the user's cache folder; WARPSIM_CACHE names another one, or is "off".
Its first line is a digest of its name and the rest; a file that was damaged, or is another user's,
says nothing.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import numpy as np
from numba import types

from warpsim.core.own_files import own_content

_NAMES = (
    "boolean int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 "
    "complex128"
).split()
_RANGES = "range_state32_type range_state64_type unsigned_range_state64_type".split()
_KINDS = {str(kind): kind for kind in (getattr(types, name) for name in (*_NAMES, *_RANGES))}
_MODULES = "_operator", "math", "numpy", "builtins"

MOST_BYTES = 1 << 24  # of the file

_found: dict[str, list] = {}
_new: set[str] = set()


def folder() -> Path | None:
    """Where answers are kept; None if they are not."""
    chosen = os.environ.get("WARPSIM_CACHE", "")
    if chosen:
        return None if chosen == "off" else Path(chosen)
    home = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None
    home = home or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "warpsim"


@cache
def has_numba_cuda() -> bool:
    """Whether numba-cuda can be imported, by the looks of it."""
    try:
        return importlib.util.find_spec("numba_cuda") is not None and not (
            "numba.cuda" in sys.modules and sys.modules["numba.cuda"] is None
        )
    except (ImportError, ValueError):  # somebody hides it
        return False


@cache
def _file() -> Path | None:
    with contextlib.suppress(RuntimeError):  # no home
        if (where := folder()) is None:
            return None
        said = hashlib.sha256(repr((*sys.version_info[:3], has_numba_cuda())).encode())
        for package in ("numba", "numba-cuda"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                said.update(f"{package} {importlib.metadata.version(package)}".encode())
        for name in ("answers.py", "oracle.py"):
            said.update(Path(__file__).with_name(name).read_bytes())
        return where / f"types-{said.hexdigest()[:16]}.json"
    return None


@cache
def _load() -> None:
    """Read what earlier processes were told, and leave what is new behind at the end."""
    if (file := _file()) is None:
        return
    for question, answer in _read(file).items():
        _found.setdefault(question, answer)
    atexit.register(save)


def _read(file: Path) -> dict[str, list]:
    """What a file says; nothing of one that is missing, damaged or not the user's own."""
    head, _, text = (own_content(file, MOST_BYTES) or b"").partition(b"\n")
    return json.loads(text) if head == _digest(file, text) else {}


def _digest(file: Path, text: bytes) -> bytes:
    return hashlib.sha256(file.name.encode() + text).hexdigest().encode()


def save() -> None:
    """Write all answers, whole or not at all; a folder that cannot be written is no error."""
    file = _file()
    if file is None or not _new:
        return
    with contextlib.suppress(OSError, ValueError):
        file.parent.mkdir(parents=True, exist_ok=True)
        answers = _read(file) | {question: _found[question] for question in sorted(_new)}
        text = json.dumps(answers).encode()
        number, name = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(number, "wb") as stream:
                stream.write(_digest(file, text) + b"\n" + text)
            os.replace(name, file)
        except OSError:
            os.unlink(name)
        _new.clear()


def _question(what: str, function: Any, kinds: tuple) -> str | None:
    """A question as a word; None if its answer is not kept."""
    words = [what]
    if function is not None:
        name = getattr(function, "__name__", "")
        module = "numpy" if isinstance(function, np.ufunc) else getattr(function, "__module__", "")
        if module not in _MODULES or getattr(sys.modules.get(module), name, None) is not function:
            return None
        words.append(f"{module}.{name}")
    for kind in kinds:
        name = str(kind)
        if _KINDS.get(name) != kind:
            return None
        words.append(name)
    return " ".join(words)


def kept(what: str, by_numba_cuda: Callable[[], bool]) -> Callable:
    """Decorate a question of a function (or None) and types; its answer is types, or None.

    `by_numba_cuda` says whose rules answer: where numba-cuda is there and others do, as under
    Numba's own simulator, nothing is kept.
    """

    def decorate(ask: Callable) -> Callable:
        @wraps(ask)
        def answer(function: Any, kinds: tuple[types.Type, ...]) -> tuple[types.Type, ...] | None:
            question = _question(what, function, kinds)
            if question is None:
                return ask(function, kinds)
            _load()
            if question not in _found:
                told = ask(function, kinds)
                names = None if told is None else [str(kind) for kind in told]
                if by_numba_cuda() != has_numba_cuda() or any(
                    _KINDS.get(name) != kind
                    for name, kind in zip(names or (), told or (), strict=True)
                ):
                    return told
                _found[question] = names
                _new.add(question)
            names = _found[question]
            return None if names is None else tuple(_KINDS[name] for name in names)

        return answer

    return decorate
