"""Which files of a folder are images, by their suffix, and what else lies there, by kind."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".gif", ".webp", ".bmp")
#: Kinds of what is passed over, beside suffixes.
HIDDEN, NO_SUFFIX, FOLDER, LINK = "hidden", "without a suffix", "folder", "linked folder"


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
        linked folder.
    """

    files: list[Path] = field(default_factory=list)
    unreadable: list[tuple[Path, str]] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)


def search(folder: Path, recursive: bool = False, leave: Path | None = None) -> Found:
    """Look through a folder, and through its subfolders if `recursive`.

    Hidden folders are never looked into, nor are links to folders: so no way leads round in a
    circle, and no file is found twice.

    Parameters
    ----------
    folder : Path
    recursive : bool
    leave : Path, optional
        A folder that is treated as if it were not there.

    Raises
    ------
    OSError
        When the folder cannot be read; a sentence that says why.
    """
    found, subfolders = Found(), []
    try:
        with os.scandir(folder) as there:
            entries = sorted(there, key=lambda entry: entry.name)
    except OSError as error:
        raise cannot_read(folder, error) from error
    for entry in entries:
        path, suffix = folder / entry.name, suffix_of(entry.name)
        if entry.is_dir():
            if leave is not None and path.resolve() == leave:
                continue
            if entry.name.startswith("."):
                found.passed_over[HIDDEN] += 1
            elif entry.is_symlink():
                found.passed_over[LINK] += 1
            elif recursive:
                subfolders.append(path)
            else:
                found.passed_over[FOLDER] += 1
        elif entry.name.startswith("."):
            found.passed_over[HIDDEN] += 1
        elif suffix in SUFFIXES:
            found.files.append(path)
        else:
            found.passed_over[suffix or NO_SUFFIX] += 1
    for subfolder in subfolders:
        try:
            below = search(subfolder, recursive, leave)
        except OSError as error:
            found.unreadable.append((subfolder, f"cannot be read: {error.__cause__.strerror}"))
            continue
        found.files += below.files
        found.unreadable += below.unreadable
        found.passed_over += below.passed_over
    return found


def suffix_of(name: str) -> str:
    """A file name's suffix, such as ".jpg", in small letters; "" without one."""
    suffix = os.path.splitext(name)[1].lower()
    return "" if suffix == "." else suffix


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
        f"{count} {kind}{'s' * (kind == LINK and count > 1)}"
        for kind, count in kinds
        if kind != FOLDER and count
    )
    folders = f"{subfolders} folder{'s' * (subfolders > 1)} (use --recursive)" if subfolders else ""
    return "; ".join(filter(None, [files, folders]))
