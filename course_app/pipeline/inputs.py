"""What a run reads: files that are given or lie in folders, and what their results are called."""

import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from course.images import folders
from course.images.reading import ImageError, printable
from course_app.pipeline import journal
from course_app.pipeline.results import FORMULA, of_earlier_run

LONGEST_NAME = 50  # letters, each up to 4 bytes: with _k50.png it fits a file system's 255 bytes

BETWEEN = "__"  # the names of subfolders and of a file


@dataclass
class Inputs:
    """The files of a run.

    Attributes
    ----------
    files : list of Path
        Each once, in the order in which they were given, those of a folder sorted.
    stems : list of str
        What each would be called without the others: its name, after the subfolders in which it
        was found, as in "summer__beach" for summer/beach.jpg.
    unreadable : list of (str, str)
        Subfolders that cannot be read, and why.
    passed_over : Counter
        What else lies in the folders, as `course.images.folders.Found` has it.
    """

    files: list[Path] = field(default_factory=list)
    stems: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    passed_over: Counter[str] = field(default_factory=Counter)

    @property
    def names(self) -> list[str]:
        """What the results of each file are called, all different."""
        used: dict[str, int] = {}
        return [_unused_name(stem, used) for stem in self.stems]


def gathered(
    inputs: Sequence[str | Path], out: str | Path | None = None, recursive: bool = False
) -> Inputs:
    """The files to read: each file given, and each image of a folder given, once.

    Parameters
    ----------
    inputs : sequence of str or Path
    out : str or Path, optional
        The folder for results: nothing in it is read. Earlier runs' results are read nowhere.
    recursive : bool
        Look into subfolders.

    Raises
    ------
    OSError
        When one does not exist, or a folder holds no image.
    ImageError
        When nothing is given, or when `out` is one of the folders that are read.
    """
    if not inputs:
        raise ImageError("no images were given; name image files, or folders that hold some")
    if "" in map(os.fspath, inputs):  # of a variable that is not set, as in "$PHOTOS"
        raise ImageError("the name of an image or folder is empty; a dot is the current folder")
    leave = None if out is None else folders.identity(out)
    gathered, found = Inputs(), dict[str, list[Any]]()
    for given in map(Path, inputs):
        if _is_folder(given):
            if folders.identity(given) == leave:
                raise ImageError(
                    f"{str(given)!r} would be read and written; choose another folder for results"
                )
            listed = folders.search(given, recursive, leave, of_earlier_run)
            if not listed.files:
                raise folders.nothing_in(given, listed, recursive)
            gathered.passed_over += listed.passed_over
            gathered.unreadable += [(str(path), why) for path, why in listed.unreadable]
            files, below = listed.files, given
        else:
            files, below = [given], given.parent
        stems = _stems(files, below)
        for path, *its in zip(journal.real_paths(files), files, stems, strict=True):
            found.setdefault(path, its)
    gathered.files = [file for file, _ in found.values()]
    gathered.stems = [stem for _, stem in found.values()]
    return gathered


def _is_folder(given: Path) -> bool:
    """Whether it is a folder, not a file; raises OSError where it is neither."""
    try:
        return stat.S_ISDIR(given.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(f"there is no file or folder {str(given)!r}") from None
    except OSError as error:
        raise folders.cannot_read(given, error) from error


def _stems(files: Sequence[Path], folder: Path) -> list[str]:
    """What files' results are called: subfolders and name, from a long name the last letters."""
    subfolders: dict[str, tuple[str, ...]] = {}
    stems = []
    for file in files:
        parent = os.path.dirname(file)
        if parent not in subfolders:
            subfolders[parent] = Path(parent).relative_to(folder).parts
        parts = (*subfolders[parent], file.stem[:LONGEST_NAME])
        stem = printable(BETWEEN.join(parts)[-LONGEST_NAME:])
        stems.append(f"_{stem}" if stem.startswith(FORMULA) else stem)
    return stems


def _unused_name(stem: str, used: dict[str, int]) -> str:
    """Return the stem, numbered if an earlier image has it: photos of two folders may share it.

    `used` has the names that are taken, each with the last number that was tried for it.
    """
    name, count = stem, used.get(stem.casefold(), 1)
    while name.casefold() in used:  # some file systems do not tell A.png from a.png
        count += 1
        name = f"{stem}_{count}"
    used[stem.casefold()] = count
    used.setdefault(name.casefold(), 1)
    return name
