"""Files of a cache: read where nobody but their user can have written them."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def own_content(path: Path, most: int) -> bytes | None:
    """The content of a file of this user's, that no other may write, of at most so many bytes.

    Of any other file, of a link, a pipe or none it is None. It is the file that was opened which
    is asked: a moment later its name may be another's.
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
