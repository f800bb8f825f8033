"""Files of a cache: read where nobody but their user can have written them.

The first line of what is kept is a digest of the file's name and the rest; a file that was damaged,
or is another user's, says nothing.
"""

import hashlib
import json
import os
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any


def folder() -> Path | None:
    """The cache's folder: the user's, or what WARPSIM_CACHE says; None if that is "off"."""
    chosen = os.environ.get("WARPSIM_CACHE", "")
    if chosen:
        return None if chosen == "off" else Path(chosen)
    home = os.environ.get("LOCALAPPDATA") if sys.platform == "win32" else None
    try:
        home = home or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None  # no home
    return Path(home) / "warpsim"


def kept(file: Path, most: int) -> bytes:
    """What a file of the cache says; nothing if it is missing, damaged or not the user's own."""
    head, _, text = (own_content(file, most) or b"").partition(b"\n")
    return text if head == _digest(file, text) else b""


def keep(file: Path, text: bytes) -> None:
    """Write a file of the cache, whole or not at all."""
    file.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(_digest(file, text) + b"\n" + text)
        os.replace(name, file)
    except OSError:
        os.unlink(name)


def write_json(file: Path, what: Any, indent: int = 1) -> None:
    """Write a file of the user's, whole or not at all."""
    part = file.with_name(f"{file.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps(what, indent=indent) + "\n", encoding="utf-8")
        os.replace(part, file)
    finally:
        part.unlink(missing_ok=True)


def _digest(file: Path, text: bytes) -> bytes:
    return hashlib.sha256(file.name.encode() + text).hexdigest().encode()


def own_content(path: Path, most: int) -> bytes | None:
    """The content of a file of this user's, that no other may write, of at most so many bytes.

    It is the file that was opened which is asked: a moment later its name may be another's.
    """
    plain = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | plain)) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > most or not is_own(about):
                return None
            return file.read(about.st_size)
    except OSError:
        return None


def is_own(about: os.stat_result) -> bool:
    """Whether a file or folder is this user's, and no other may write it; true on Windows."""
    if not hasattr(os, "geteuid"):
        return True
    others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return about.st_uid == os.geteuid() and not others
