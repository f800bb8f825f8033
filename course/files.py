"""Where data lies, files that are whole or not there, folders that one process alone writes,
arrays of files that may be anybody's, tables with a header of ``# key=value`` lines.

In a clone the data lies beside the package, in an installed wheel inside it.
"""

from __future__ import annotations

import contextlib
import csv
import io
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_PACKAGE = Path(__file__).resolve().parent
MOST_PACKED = 16  # times the file's length that its arrays may be; those of weights are hardly less
LEAST_PACKED = 1 << 20  # bytes that they may be in any case
LOCK = ".lock"  # the file by which a process has a folder for itself


class FolderInUse(ValueError):
    """Another process writes to a folder; results of two would get mixed."""

    def __init__(self, folder: Path):
        super().__init__(
            f"another process writes its results to {str(folder)!r}: wait for it, or choose "
            "another folder"
        )


def data_path(*parts: str) -> Path:
    """Return the path of a file or folder that ships with the course.

    Parameters
    ----------
    *parts
        Names below ``data/``, as in ``data_path("measurements", "h200-copy.csv")``. None gives
        the folder itself.

    Returns
    -------
    pathlib.Path
        An existing path.

    Raises
    ------
    FileNotFoundError
        If there is no such file; the message lists what lies in the nearest folder that exists.
    """
    candidates = (_PACKAGE / "data", _PACKAGE.parent / "data")
    root = next((folder for folder in candidates if folder.is_dir()), None)
    if root is None:
        raise FileNotFoundError(
            "the course's data folder is missing; install the package again with pip, "
            "or work in a complete clone of the repository"
        )
    path = root.joinpath(*parts)
    if path.exists():
        return path
    nearest = path.parent
    while not nearest.is_dir():
        nearest = nearest.parent
    names = ", ".join(sorted(entry.name for entry in nearest.iterdir())) or "nothing"
    folder = "/".join(("data", *nearest.relative_to(root).parts))
    raise FileNotFoundError(
        f"the course has no data file {'/'.join(parts)!r}; in {folder} there is: {names}"
    )


def progress_file() -> Path | None:
    """The file in which progress is kept between sessions; None where none is.

    COURSE_PROGRESS, which is "off" for none; else ``~/.course/progress.jsonl``. What grades or
    executes solutions (COURSE_GRADING, COURSE_STRICT) has none. Other files of the user's own lie
    beside it.
    """
    chosen = os.environ.get("COURSE_PROGRESS", "")
    strangers = any(os.environ.get(name) == "1" for name in ("COURSE_GRADING", "COURSE_STRICT"))
    if strangers or chosen.lower() == "off":
        return None
    try:
        return Path(chosen or "~/.course/progress.jsonl").expanduser()
    except RuntimeError:  # a user without a home
        return None


def write_whole(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Write a file, text as UTF-8; until all of it is there, an older one stays as it was.

    `mode`: its permissions, before the process's umask.

    Raises
    ------
    OSError
        When the folder does not exist or cannot be written, or the disk is full; it names the file.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write_new(part, content.encode() if isinstance(content, str) else content, mode)
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.errno:  # it names the part, a full disk nothing
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def write_new(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file that nobody looks for yet; after an error it is gone.

    Raises
    ------
    OSError
        When the folder does not exist or cannot be written.
    """
    try:
        with open(path, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def unwaiting(name: str, flags: int) -> int:
    """The `opener` of an open() that does not wait for the other end of a pipe."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0), 0o666)


def make_folder(path: Path) -> None:
    """Make a folder where there is none; an OSError says what is in its way."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        what = "a file" if os.path.exists(error.filename) else "a link that leads nowhere"
        raise NotADirectoryError(
            f"{str(error.filename)!r} is {what}: name another folder, or remove it"
        ) from error


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Write to a folder, made if need be, as the only process.

    The lock ends with its process, however that ends. A folder that was made and is empty at the
    end is removed.

    Raises
    ------
    FolderInUse
        When another process has the folder.
    OSError
        When the folder cannot be made or written.
    """
    made = [its for its in (folder, *folder.parents) if not its.exists()]
    try:
        with _locked(folder):
            try:
                yield
            finally:
                with contextlib.suppress(OSError):  # Windows removes no file that is open
                    os.unlink(folder / LOCK)
    finally:
        with contextlib.suppress(OSError):
            for its in made:
                its.rmdir()


def _locked(folder: Path) -> BinaryIO:
    """The folder's file, locked; not one that a process which ended meanwhile has removed."""
    path, own = folder / LOCK, getattr(os, "O_NOFOLLOW", 0)
    while True:
        make_folder(folder)  # that process may have removed it, too
        with contextlib.ExitStack() as opened, contextlib.suppress(FileNotFoundError):
            file = open(path, "ab", opener=lambda name, flags: unwaiting(name, flags | own))
            opened.callback(file.close)
            if not lock(file):
                raise FolderInUse(folder)
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                opened.pop_all()
                return file


def lock(file: BinaryIO) -> bool:
    """Lock a file for this process, until it closes it or dies; False if another has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def arrays_in(path: Path | str) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` file by name: of numbers and text, none of Python's objects.

    What the file says of its sizes is compared before an array is read: it takes no more memory
    than the file is long, or `MOST_PACKED` times as much where it is compressed.

    Raises
    ------
    ValueError
        When it is no such file, is cut off or damaged, or an array is pickled.
    OSError
        When it cannot be opened.
    """
    with open(path, "rb", opener=unwaiting) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                most = max(MOST_PACKED * os.fstat(file.fileno()).st_size, LEAST_PACKED)
                if sum(one.file_size for one in archive.infolist()) > most:
                    raise ValueError(f"unpacked it would be {MOST_PACKED} times as large")
                return {
                    one.filename.removesuffix(".npy"): _array_in(archive, one)
                    for one in archive.infolist()
                }
        except MemoryError:
            raise
        except Exception as problem:  # a dozen kinds, of zipfile, zlib and NumPy, by which byte
            raise ValueError(f"{path} is no .npz file, or cut off: {problem}") from None


def _array_in(archive: zipfile.ZipFile, one: zipfile.ZipInfo) -> np.ndarray:
    """An array of an archive, if its member is as long as the array's header says."""
    if one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{one.filename} is compressed in a way that NumPy's are not")
    with archive.open(one) as member:
        if (version := np.lib.format.read_magic(member)) != (1, 0):
            raise ValueError(f"{one.filename} has version {version} of NumPy's format, and not 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(member)
        if dtype.kind not in "biufcU" or not dtype.itemsize or min(shape, default=0) < 0:
            raise ValueError(
                f"{one.filename} holds {dtype}, shape {shape}, and not numbers (allow_pickle=False)"
            )
        if one.file_size - member.tell() != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{one.filename} is not as long as {dtype}, shape {shape}")
    with archive.open(one) as member:
        return np.lib.format.read_array(member, allow_pickle=False)


def table_text(
    name: str,
    header: Mapping[str, Any],
    columns: Sequence[str],
    rows: Iterable[Iterable[Any]],
    error: type[ValueError],
) -> str:
    """The text of a table; `error` is raised, with the file's `name`, for a header of more lines.

    Parameters
    ----------
    rows : iterable of iterable
        Values in the order of the columns, as they are to be written.
    """
    text = io.StringIO()
    for key, value in header.items():
        if "\n" in f"{key}{value}" or "=" in key:
            raise error(f"{name}: header line {key!r}={value!r} is not one line")
        text.write(f"# {key}={value}\n")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def table_of(path: Path | str) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Header and rows, by column, of a table that is as `table_text` writes it."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    header = dict(line[2:].partition("=")[::2] for line in lines if line.startswith("# "))
    return header, list(csv.DictReader(line for line in lines if not line.startswith("#")))


def table_parts(
    name: str, text: str, required: Iterable[str], columns: Sequence[str], error: type[ValueError]
) -> tuple[dict[str, str], int, list[list[str]]]:
    """Header of a table's text, the line of its first row, and its rows, as they are.

    `error` is raised, with the file's `name`, where the text is no table of these columns, or its
    header lacks a line that is `required`.
    """
    header, lines = {}, text.splitlines()
    start = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    for place, line in enumerate(lines[:start], 1):
        key, equals, value = line[1:].strip().partition("=")
        if not equals:
            raise error(f"{name}, line {place}: a header line is '# key=value'")
        header[key] = value
    if missing := [key for key in required if not header.get(key)]:
        raise error(f"{name}: the header does not say {', '.join(missing)}")
    try:
        rows = list(csv.reader(lines[start:]))
    except csv.Error as problem:
        raise error(f"{name}: {problem}") from None
    if not rows or tuple(rows[0]) != columns:
        given = ",".join(rows[0]) if rows else "nothing"
        wanted = ",".join(columns)
        raise error(f"{name}, line {start + 1}: the columns must be {wanted}; got {given}")
    return header, start + 2, rows[1:]
