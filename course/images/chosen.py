"""The photograph that a reader takes through the lessons: theirs, or one of the course's.

The module is not called `mine`, since `course.images.mine` must stay the function.
"""

from __future__ import annotations

import difflib
import io
import os
from pathlib import Path

import numpy as np
from PIL import Image

from course.files import make_folder, progress_file, write_whole
from course.images.images import photograph, photographs
from course.images.reading import UnreadableImage, load_image, resized_to

LONGEST = 256  # pixels of the longer side: what the simulator rebuilds in a tenth of a second
SHORTEST = 81  # of the shorter side, so that every photograph has 80 layers
INSTEAD = "chelsea"  # the cat
PHONES = (".heic", ".heif", ".avif")


class _Unusable(Exception):
    """Why there is no photograph of that name, as a sentence."""


def mine(name: str | Path | None = None) -> np.ndarray:
    """The reader's photograph, small and grey; the choice is kept for later lessons.

    Where a file cannot be used, a line says why, and the photograph is the course's cat. What
    grades or executes solutions keeps nothing, and nothing that was kept is read there.

    Parameters
    ----------
    name : str or Path, optional
        A name of `photographs()`, an image file, or "upload", which asks for a file in Colab.
        Without it the photograph that was chosen last, or the cat.

    Returns
    -------
    ndarray, shape (rows, columns), float32
        Grey levels in [0, 1], 256 different ones at most. The longer side has at most 256 pixels,
        and both sides are odd, so that no block of an even number of threads fits: the image is
        scaled, and a last row or column left out.
    """
    kept = progress_file()
    path = kept and kept.with_name("photograph.png")
    try:
        if name is not None:
            photo = _given(name)
        elif path and path.exists():
            return _of_file(path)
        else:
            return _small(photograph(INSTEAD))
    except _Unusable as why:
        print(f"{why} Here is {INSTEAD!r} instead.")
        return _small(photograph(INSTEAD))
    if path:
        _keep(photo, path)
    return photo


def _given(name: str | Path) -> np.ndarray:
    """The photograph of a name, as a reader writes it."""
    if not isinstance(name, str | Path):
        raise _Unusable(
            f"That is of type {type(name).__name__}: give a file's name between quotes."
        )
    if isinstance(name, str):
        name = name.strip()
        if name.lower() in photographs():
            return _small(photograph(name.lower()))
        if name.lower() == "upload":
            name = _uploaded()
        elif "://" in name:
            raise _Unusable(f"{name!r} is an address: download the picture, and give its file.")
    if not str(name):
        raise _Unusable("The name is empty.")
    try:
        path = Path(name).expanduser()
    except RuntimeError as error:  # a user without a home
        raise _Unusable(f"{str(name)!r} leads nowhere: {error}.") from error
    return _of_file(path)


def _uploaded() -> str:
    """The name of the file that a reader in Colab chooses."""
    try:
        from google.colab import files
    except ImportError:
        raise _Unusable("'upload' works in Colab; elsewhere give the name of a file.") from None
    names = list(files.upload())
    if not names:
        raise _Unusable("Nothing was uploaded.")
    return names[0]


def _of_file(path: Path) -> np.ndarray:
    try:
        return _small(load_image(path))
    except UnreadableImage as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise _Unusable(_missing(path)) from None
        further = " Export it as JPEG first." if path.suffix.lower() in PHONES else ""
        raise _Unusable(f"{error}.{further}") from error


def _missing(path: Path) -> str:
    folder = path.parent
    try:
        beside = [one.name for one in folder.iterdir()]
    except OSError:
        return f"There is no file {str(path)!r}, nor its folder."
    names = {one.lower(): one for one in (*beside, *photographs())}
    close = difflib.get_close_matches(path.name.lower(), names, n=1)
    meant = (
        f"did you mean {names[close[0]]!r}?" if close else f"samples: {', '.join(photographs())}."
    )
    return f"There is no file {path.name!r} in {str(folder.resolve())!r}; {meant}"


def _small(image: np.ndarray) -> np.ndarray:
    """An image as `mine` returns it."""
    rows, columns = image.shape
    scale = min(1, LONGEST / max(rows, columns))
    size = tuple(max(1, round(scale * side)) for side in (rows, columns))
    if min(size) < SHORTEST:
        raise _Unusable(
            f"It has {rows}x{columns} pixels: with {LONGEST} on the longer side, the shorter one "
            f"must have {SHORTEST} or more."
        )
    image = resized_to(image, None if size == image.shape else size, "stretch")
    rows, columns = (side - 1 + side % 2 for side in size)
    return np.round(255 * image[:rows, :columns]) / np.float32(255)


def _keep(photo: np.ndarray, path: Path) -> None:
    file = io.BytesIO()
    Image.fromarray(np.round(255 * photo).astype(np.uint8)).save(file, "PNG")
    try:
        if not os.environ.get("COURSE_PROGRESS"):
            make_folder(path.parent)
        write_whole(path, file.getvalue())
    except OSError as error:
        why = error.strerror or error
        print(f"Not kept for later lessons: {str(path)!r} cannot be written: {why}.")
