"""What a run has done, on disk, so that it can go on after it was killed.

While a run goes on its results lie in a hidden folder inside the folder for results, with
`journal.jsonl`: a first line with what the run was begun with, then a line for each image that is
done. A picture is written and only then entered. So whatever moment the process dies at, what the
journal names is whole, and what it does not name is done again.
A killed process loses nothing that it wrote. For a power failure that holds only as far as the
system had written it to the disk; files that are missing or of another size are done again.
What is found may be damaged, or somebody else's: lines count up to the first that could not be one
of this program's, and no name leads out of the folder.

`course_app.pipeline.resuming` goes on with it.
"""

import hashlib
import json
import math
import os
import shutil
import stat
import tempfile
import time
import zlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course.images.reading import ImageError

PREFIX = ".unfinished-"
FILE = "journal.jsonl"
ATTEMPTS = 50  # to remove a folder
MOVING = "moving"  # the entry that says that every result is there
GRID_IMAGES = 8  # images whose pictures are kept for the grid
LONGEST = 240  # bytes of a name before _kK.png


class ResumeError(ImageError):
    """A run that cannot be gone on with; the message says what differs."""


@dataclass(frozen=True)
class Done:
    """An image that is done.

    Attributes
    ----------
    image : int
        Index in the list of files.
    measures : list of (float, float, float)
        PSNR, SSIM and mean squared error for each k.
    bytes : list of int
        Size of each file.
    reason : str or None
        Why the image was set aside; then there are no measures.
    """

    image: int
    measures: list[tuple[float, float, float]]
    bytes: list[int]
    reason: str | None = None


def identity(
    settings: dict[str, Any], files: Sequence[Path], names: Sequence[str]
) -> dict[str, Any]:
    """What a run is begun with: settings, and each file's path, size, time and results' name.

    A file that the system says nothing about has a size of -1: it will be set aside.
    """
    paths = real_paths(files)
    about = [[path, *_changed(f), name] for path, f, name in zip(paths, files, names, strict=True)]
    return {"settings": settings, "files": about}


def outputs(begun: dict[str, Any]) -> list[list[str]]:
    """The names of each image's files, in the order of k."""
    return [[f"{name}_k{k}.png" for k in begun["settings"]["k"]] for *_, name in begun["files"]]


def real_paths(files: Iterable[Path]) -> list[str]:
    """The files' paths without links; a folder is looked up once for all of its files."""
    folders: dict[str, str] = {}
    found = []
    for file in map(str, files):
        if os.path.islink(file):
            found.append(os.path.realpath(file))
            continue
        folder, name = os.path.split(file)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        found.append(os.path.join(folders[folder], name))
    return found


def _changed(file: Path) -> list[int]:
    try:
        status = os.stat(file)
    except OSError:
        return [-1, 0]
    return [status.st_size, status.st_mtime_ns]


def fingerprint(begun: dict[str, Any]) -> str:
    """A short name for what a run was begun with: equal for equal runs."""
    return hashlib.sha256(json.dumps(begun, sort_keys=True).encode()).hexdigest()[:16]


class Journal:
    """The hidden folder of one run and the journal in it. Made by `begin` or `resume`.

    Attributes
    ----------
    folder : Path
    done : dict of int to Done
        By the image's index.
    moving : bool
        Whether all is done and the results are being moved to where they belong.
    """

    def __init__(self, folder: Path, done: dict[int, Done], moving: bool):
        self.folder, self.done, self.moving = folder, done, moving
        self._file = open(folder / FILE, "ab", buffering=0)

    def add(self, done: Done) -> None:
        """Enter an image whose files are there."""
        text = json.dumps([done.image, done.measures, done.bytes, done.reason])
        self.write(f"{text[:-1]}, {zlib.crc32(text.encode())}]")
        self.done[done.image] = done

    def begin_moving(self) -> None:
        """Enter that every result is there, and whole."""
        self.write(json.dumps(MOVING))
        self.moving = True

    def write(self, text: str) -> None:
        """Write a line to the file, of which a disk that gets full may take a part."""
        line = text.encode() + b"\n"
        while line:
            line = line[self._file.write(line) :]

    def close(self) -> None:
        """Let the folder be, for a later run to go on with."""
        self._file.close()

    def remove(self) -> None:
        """Remove the folder and all in it, the journal last."""
        for path in self.folder.iterdir() if self.folder.is_dir() else ():
            if path.name != FILE:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        self._file.close()
        for _ in range(ATTEMPTS):  # a thread that was not waited for may write a last picture
            shutil.rmtree(self.folder, ignore_errors=True)
            if not self.folder.exists():
                break
            time.sleep(0.02)


def begin(out: Path, begun: dict[str, Any]) -> Journal:
    """Begin a run: a new hidden folder inside `out`, which this process has for itself."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=out))
    with ExitStack() as undo:
        undo.callback(shutil.rmtree, folder, ignore_errors=True)
        kept = Journal(folder, {}, False)
        undo.callback(kept.close)
        kept.write(json.dumps(begun))
        undo.pop_all()
    return kept


@dataclass(frozen=True)
class Unfinished:
    """A run that began and did not end: its folder, the lines of its journal that count.

    `whole` is how many bytes these are.
    """

    folder: Path
    entries: list[Any]
    whole: int

    @property
    def begun(self) -> dict[str, Any]:
        """What it was begun with, as `identity` gives it."""
        return self.entries[0]

    @property
    def names(self) -> list[list[str]]:
        """As `outputs` gives them."""
        return outputs(self.begun)

    @property
    def moving(self) -> bool:
        """Whether its results were being moved to where they belong."""
        return self.entries[-1] == MOVING

    def done(self) -> dict[int, Done]:
        """What its journal says of images."""
        lines = (line for line in self.entries[1:] if line != MOVING)
        return {
            image: Done(image, [tuple(values) for values in measures], sizes, reason)
            for image, measures, sizes, reason, _ in lines
        }


def unfinished(out: Path) -> list[Unfinished]:
    """Runs in `out` that began and did not end, the newest first."""
    found = []
    for folder in out.glob(f"{PREFIX}*"):
        file = folder / FILE
        if is_file(file) and not folder.is_symlink():
            its = Unfinished(folder, *entries_of(file.read_bytes()))
            if its.entries:  # else it was killed before the first line was there
                found.append((file.stat().st_mtime_ns, folder, its))
    return [its for *_, its in sorted(found, key=lambda each: each[:2], reverse=True)]


def cells_name(image: int) -> str:
    """The file with an image's pictures for the grid."""
    return f"grid-{image}.npz"


def is_there(done: Done, names: list[str], folder: Path) -> bool:
    """Whether an image's files are in a folder, each as long as it was."""
    sizes = zip(names, done.bytes)  # none of an image that was set aside
    return all(is_file(folder / name, size) for name, size in sizes)


def is_file(path: Path, size: int | None = None) -> bool:
    """Whether it is a file itself, as this program writes them, of a size: no link, no pipe."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and size in (None, status.st_size)


def is_plain(name: str) -> bool:
    """Whether a name is that of a file in a folder, as results have it, and leads nowhere else."""
    return (
        name.isprintable() and name == os.path.basename(name) and len(os.fsencode(name)) <= LONGEST
    )


def entries_of(content: bytes) -> tuple[list[Any], int]:
    """The lines of a journal up to the first that is not whole, and how many bytes they are."""
    entries: list[Any] = []
    whole = 0
    for line in content.splitlines(keepends=True):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            break
        good = _is_done(entry, entries[0]) if entries else _is_begun(entry)
        if not good or not line.endswith(b"\n"):
            break
        entries.append(entry)
        whole += len(line)
    return entries, whole


def _is_begun(entry: Any) -> bool:
    """Whether an entry is what `identity` gives."""
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("settings"), dict)
        and isinstance(entry["settings"].get("k"), list)
        and all(type(k) is int for k in entry["settings"]["k"])
        and isinstance(entry.get("files"), list)
        and all(isinstance(its, list) for its in entry["files"])
        and all([*map(type, its)] == [str, int, int, str] for its in entry["files"])
        and all(is_plain(name) for *_, name in entry["files"])
    )


def _is_done(entry: Any, begun: dict[str, Any]) -> bool:
    """Whether an entry is that of an image of a run, or says that the results are being moved."""
    if entry == MOVING:
        return True
    if not isinstance(entry, list) or len(entry) != 5:
        return False
    image, measures, sizes, reason, checksum = entry
    count = 0 if reason is not None else len(begun["settings"]["k"])
    return (
        checksum == _checksum(entry[:4])
        and [*map(type, (measures, sizes))] == [list, list]
        and isinstance(reason, str | None)
        and (type(image) is int and 0 <= image < len(begun["files"]))
        and [*map(type, sizes)] == [int] * count == [int] * len(measures)
        and all(map(_are_measures, measures))
    )


def _are_measures(values: Any) -> bool:
    if not isinstance(values, list) or [*map(type, values)] != [float] * 3:
        return False
    psnr_db, ssim, mse = values
    return not math.isnan(psnr_db) and math.isfinite(ssim) and math.isfinite(mse)


def _checksum(entry: list[Any]) -> int:
    return zlib.crc32(json.dumps(entry).encode())


def clear(out: Path) -> None:
    """Remove what killed runs left in `out`."""
    for folder in out.glob(f"{PREFIX}*"):
        if not folder.is_symlink():
            shutil.rmtree(folder, ignore_errors=True)
