"""Where data lies, files that are whole or not there, tables with a header of ``# key=value``
lines.

In a clone the data lies beside the package, in an installed wheel inside it.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent


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


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; until all of it is there, an older one stays as it was.

    Raises
    ------
    OSError
        When the folder does not exist or cannot be written, or the disk is full; it names the file.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        write_new(part, content.encode() if isinstance(content, str) else content)
        os.replace(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError) and error.errno:  # it names the part, a full disk nothing
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def write_new(path: Path, content: bytes) -> None:
    """Write a file that nobody looks for yet; after an error it is gone.

    Raises
    ------
    OSError
        When the folder does not exist or cannot be written.
    """
    try:
        with open(path, "wb") as file:
            file.write(content)
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


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
