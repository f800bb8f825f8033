"""Files that are whole or not there, and CSV files with a header of ``# key=value`` lines."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; until all of it is there, an older one stays as it was.

    Raises
    ------
    OSError
        When the folder does not exist or cannot be written.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
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
