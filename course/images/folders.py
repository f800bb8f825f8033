"""Which files of a folder are images, by their suffix, and what else lies there, by kind."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from course.images.shortage import is_shortage

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".gif", ".webp", ".bmp")
#: Kinds of what is passed over, beside suffixes.
HIDDEN, NO_SUFFIX, FOLDER, LINK = "hidden", "without a suffix", "folder", "linked folder"
ODD, RESULT = "unreadable entry", "result of an earlier run"
PLURALS = {LINK: "linked folders", ODD: "unreadable entries", RESULT: "results of earlier runs"}


@dataclass
class Found:
    """What lies in a folder.

    Attributes
    ----------
    files : list of Path
        Those with an image's suffix, sorted by name; those of subfolders after them.
    unreadable : list of (Path, str)
        Subfolders that cannot be read, and why.
    passed_over : Counter
        How many of each kind are none: by suffix, as in ".txt", hidden, without a suffix, folder,
        linked folder, unreadable entry, result of an earlier run.
    """

    files: list[Path] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)


def search(
    folder: Path,
    recursive: bool = False,
    leave: tuple[int, int] | None = None,
    results: Callable[[Path, list[str]], set[str]] = lambda folder, names: set(),
) -> Found:
    """Look through a folder, and through its subfolders if `recursive`.

    Hidden folders are never looked into, nor are links to folders: so no way leads round in a
    circle, and no file is found twice.

    Parameters
    ----------
    folder : Path
    recursive : bool
    leave : (int, int), optional
        The `identity` of a folder that is treated as if it were not there.
    results : callable
        Which of a folder's names are results, not images.

    Raises
    ------
    OSError
        When the folder cannot be read; a sentence that says why. Or where the machine is short of
        what it takes to look at an entry.
    """
    found, waiting = Found(), [folder]
    while waiting:
        at = waiting.pop()
        try:
            with os.scandir(at) as there:
                entries = sorted(there, key=lambda entry: entry.name)
        except OSError as error:
            if is_shortage(error):
                raise
            if at is folder:
                raise cannot_read(at, error) from error
            found.unreadable.append((at, f"cannot be read: {error.strerror}"))
            continue
        left = results(at, [entry.name for entry in entries])
        subfolders = []
        for entry in entries:
            path, kind = at / entry.name, _kind(entry)
            if kind in (FOLDER, LINK, HIDDEN) and leave and identity(path) == leave:
                continue
            if kind == FOLDER and recursive:
                subfolders.append(path)
            elif entry.name in left:
                found.passed_over[RESULT] += 1
            elif kind in SUFFIXES:
                found.files.append(path)
            else:
                found.passed_over[kind] += 1
        waiting += reversed(subfolders)
    return found


def identity(path: str | Path) -> tuple[int, int] | None:
    """What tells a file or folder from all others, whatever it is called; None without one."""
    try:
        its = os.stat(path)
    except OSError:
        return None
    return its.st_dev, its.st_ino


def _kind(entry: os.DirEntry) -> str:
    """The kind of an entry, of those that are passed over; a file's suffix."""
    try:
        is_folder = entry.is_dir()
    except OSError as error:  # a link in a circle, or where nobody may look
        if is_shortage(error):
            raise
        return ODD
    if entry.name.startswith("."):
        return HIDDEN
    if is_folder:
        return LINK if entry.is_symlink() else FOLDER
    return os.path.splitext(entry.name)[1].lower().rstrip(".") or NO_SUFFIX


def cannot_read(path: Path, error: OSError) -> OSError:
    """The same error, in words that say what to do."""
    told = OSError(
        f"{str(path)!r} cannot be read: {error.strerror or error}; change its permissions, or name "
        "other files and folders"
    )
    told.errno = error.errno
    return told


def list_folder(path: str | Path) -> list[Path]:
    """Return the folder's files with an image's suffix, sorted by name.

    Raises
    ------
    FileNotFoundError
        When there is no such folder, or no file of these kinds in it.
    NotADirectoryError
        When the path is a file.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {str(path)!r}")
    if not path.is_dir():
        raise NotADirectoryError(f"{str(path)!r} is a file, not a folder")
    found = search(path)
    if not found.files:
        raise nothing_in(path, found)
    return found.files


def nothing_in(folder: Path, found: Found, recursive: bool = False) -> FileNotFoundError:
    """The error of a folder without an image."""
    wanted = ", ".join("*" + suffix for suffix in SUFFIXES)
    others = found.passed_over.total() - found.passed_over[HIDDEN]
    but = f"none of its {others} entries is one" if others else "it is empty"
    if found.passed_over[RESULT]:
        but += (
            f" ({found.passed_over[RESULT]} results of an earlier run are read only by their names)"
        )
    return FileNotFoundError(
        f"no images in the folder {str(folder)!r}: looked for {wanted} "
        f"(upper case too, {'in subfolders too' if recursive else 'not in subfolders'}), but {but}"
    )


def told(passed_over: Counter[str]) -> str:
    """What was passed over, in words; empty where nothing was.

    Such as "3 .txt, 2 .svg; 1 folder (use --recursive)".
    """
    subfolders = passed_over[FOLDER]
    kinds = sorted(passed_over.items(), key=lambda each: (-each[1], each[0]))
    files = ", ".join(
        f"{count} {PLURALS.get(kind, kind) if count > 1 else kind}"
        for kind, count in kinds
        if kind != FOLDER and count
    )
    folders = f"{subfolders} folder{'s' * (subfolders > 1)} (use --recursive)" if subfolders else ""
    return "; ".join(filter(None, [files, folders]))
