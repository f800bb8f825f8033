"""Which files of a folder are images, by their suffix, and what else lies there, by kind."""

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

SUFFIXES = (".jpg", ".jpeg", ".png", ".tif", ".tiff")
#: Kinds of what is passed over, beside suffixes.
HIDDEN, NO_SUFFIX, FOLDER = "hidden", "without a suffix", "folder"


@dataclass
class Found:
    """What lies in a folder.

    Attributes
    ----------
    files : list of Path
        Those with an image's suffix, sorted by name.
    passed_over : Counter
        How many of each kind are none: by suffix, as in ".txt", hidden, without a suffix, folder.
    """

    files: list[Path] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)


def search(folder: Path, leave: Path | None = None) -> Found:
    """Look through a folder; one that is called `leave` is as if it were not there.

    Raises
    ------
    OSError
        When the folder cannot be read.
    """
    found = Found()
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path, suffix = folder / entry.name, Path(entry.name).suffix.lower()
        if entry.is_dir():
            if leave is None or path.resolve() != leave:
                found.passed_over[HIDDEN if entry.name.startswith(".") else FOLDER] += 1
        elif entry.name.startswith("."):
            found.passed_over[HIDDEN] += 1
        elif suffix in SUFFIXES:
            found.files.append(path)
        else:
            found.passed_over[suffix or NO_SUFFIX] += 1
    return found


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


def nothing_in(folder: Path, found: Found) -> FileNotFoundError:
    """The error of a folder without an image."""
    wanted = ", ".join("*" + suffix for suffix in SUFFIXES)
    others = found.passed_over.total() - found.passed_over[HIDDEN]
    but = f"none of its {others} entries is one" if others else "it is empty"
    return FileNotFoundError(
        f"no images in the folder {str(folder)!r}: looked for {wanted} "
        f"(upper case too, not in subfolders), but {but}"
    )


def told(passed_over: Counter[str]) -> str:
    """What was passed over, in words, such as "3 .txt, 2 .svg; 1 folder"; empty without any."""
    folders = passed_over[FOLDER]
    kinds = [(kind, count) for kind, count in passed_over.items() if kind != FOLDER and count]
    files = ", ".join(
        f"{count} {kind}" for kind, count in sorted(kinds, key=lambda each: (-each[1], each[0]))
    )
    return "; ".join(
        filter(None, [files, f"{folders} folder{'s' * (folders > 1)}" * bool(folders)])
    )
