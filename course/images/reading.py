"""Read JPEG, PNG, TIFF, GIF, WebP and BMP files of any size and mode as grey float32 images.

Pictures from the world are broken, animated, sideways, transparent or enormous: each file that
cannot be used is named with a reason, and the others are read.
"""

import operator
import stat
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from course.images.folders import list_folder

FORMATS = ("JPEG", "PNG", "TIFF", "GIF", "WEBP", "BMP")
FIRST_FRAME = ("MPO", "GIF", "WEBP")  # MPO: how many phones write a JPEG, with a preview behind it
FITS = ("stretch", "crop")
NOT_FINITE = "holds NaN or infinite values"


class ImageError(ValueError):
    """An image, a size or a rank that cannot be used; the message says why and what to do."""


class UnreadableImage(ImageError):
    """A file that is no usable image: `reason` says why, the message has the file's name too."""

    def __init__(self, file: Path, reason: str):
        super().__init__(f"{str(file)!r} {reason}")
        self.reason = reason


@dataclass(frozen=True, repr=False)
class LoadedImages:
    """The images of a folder.

    Attributes
    ----------
    images : ndarray, shape (n, rows, columns), float32
        Grey levels in [0, 1].
    names : list of str
        The n file names, in the order of `images`.
    skipped : list of (str, str)
        File name and reason of each file that was left out.
    """

    images: np.ndarray
    names: list[str]
    skipped: list[tuple[str, str]]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        count, rows, columns = self.images.shape
        lines = [f"{count} image{'' if count == 1 else 's'} of {rows}x{columns}"]
        lines += [f"  skipped {name}: {reason}" for name, reason in self.skipped]
        return "\n".join(lines)


def load_folder(
    path: str | Path,
    size: tuple[int, int] | int = (256, 256),
    *,
    fit: str = "stretch",
    background: float = 1.0,
) -> LoadedImages:
    """Load every image file of a folder, as grey images of one size.

    JPEG, PNG, TIFF, GIF, WebP and BMP. Files that are broken, empty, too large or unreadable are
    left out and named in the result. Subfolders and hidden files are not looked at.

    Parameters
    ----------
    path : str or Path
        The folder.
    size, fit, background
        As for `load_image`.

    Raises
    ------
    FileNotFoundError
        When there is no such folder, or no file of these kinds in it.
    NotADirectoryError
        When the path is a file.
    ImageError
        When `size` or `fit` is not one that exists.
    """
    size = checked_size(size)
    images, names, skipped = [], [], []
    for file in list_folder(path):
        try:
            images.append(load_image(file, size, fit=fit, background=background))
            names.append(file.name)
        except UnreadableImage as error:
            skipped.append((file.name, error.reason))
    stacked = np.stack(images) if images else np.empty((0, *size), dtype=np.float32)
    return LoadedImages(stacked, names, skipped)


def load_image(
    path: str | Path,
    size: tuple[int, int] | int | None = None,
    *,
    fit: str = "stretch",
    background: float = 1.0,
) -> np.ndarray:
    """Load one JPEG, PNG, TIFF, GIF, WebP or BMP file as a grey image.

    Colours become luma (ITU-R 601), 8 and 16 bits are divided by 255 and 65535. 32-bit integers,
    and floating-point files that leave [0, 1], have no agreed white: their largest value becomes
    1, their smallest 0 if it is negative. The orientation in a camera's EXIF data is applied.
    Of an animated GIF or WebP the first frame is taken; an animated PNG or a TIFF of several pages
    is refused.

    Parameters
    ----------
    path : str or Path
        The file; its content decides the format, not its suffix.
    size : (rows, columns) or int, optional
        Size wanted in pixels (Lanczos); without it the image's own.
    fit : {"stretch", "crop"}
        Whether the whole image is stretched to the size, or its middle is cut out in the size's
        proportions.
    background : float
        Grey level behind transparent pixels.

    Returns
    -------
    ndarray, shape (rows, columns), float32
        Grey levels in [0, 1]; where Lanczos overshoots, it is clipped.

    Raises
    ------
    UnreadableImage
        With the reason, whatever is wrong with the file.
    ImageError
        When `size` or `fit` is not one that exists.
    """
    size = None if size is None else checked_size(size)
    if fit not in FITS:
        raise ImageError(f"fit is {fit!r}; allowed are {' and '.join(map(repr, FITS))}")
    return brought_to(load_levels(path, background), size, fit)


def load_levels(path: str | Path, background: float = 1.0) -> np.ndarray:
    """Load a file at its own size; what `brought_to` makes of it is `load_image`'s image.

    Returns
    -------
    ndarray, shape (rows, columns), uint8 or float32
        Grey levels from 0 to 255, as most files have them; or in [0, 1].

    Raises
    ------
    UnreadableImage
        With the reason, whatever is wrong with the file.
    """
    path = Path(path)
    try:
        _refuse_special_files(path)
        with _quiet:
            # Given a name, Pillow maps an uncompressed TIFF to memory and then scrambles the one
            # whose orientation swaps rows and columns; given an open file, it reads it right.
            with path.open("rb") as file, Image.open(file, formats=FORMATS) as image:
                _refuse_many_pages(image, path)
                image.load()
                return _grey_levels(_upright(image), path, background)
    except ImageError:
        raise
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        limit = f"{Image.MAX_IMAGE_PIXELS:,} pixels"
        raise UnreadableImage(path, f"is too large: more than {limit}") from None
    except UnidentifiedImageError:
        raise UnreadableImage(
            path, "is broken, or not a JPEG, PNG, TIFF, GIF, WebP or BMP image"
        ) from None
    except Exception as error:  # a decoder meets broken bytes with almost any exception
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        reason = reason or type(error).__name__
        raise UnreadableImage(path, f"cannot be read: {reason}") from error


def brought_to(levels: np.ndarray, size: tuple[int, int] | None, fit: str) -> np.ndarray:
    """Grey levels as float32 in [0, 1], brought to a size (rows, columns), unless it is None."""
    if levels.dtype == np.uint8:
        levels = levels.astype(np.float32) / 255
    return levels if size is None else _resized(levels, size, fit)


class _Quiet:
    """Decoders' warnings are off while any thread decodes: the filters belong to all threads.

    Pillow only warns of an image of up to twice its limit; that becomes an error.
    """

    def __init__(self):
        self._lock, self._inside = threading.Lock(), 0
        self._filters = warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
                warnings.simplefilter("error", Image.DecompressionBombWarning)
            self._inside += 1

    def __exit__(self, *what: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.__exit__(None, None, None)


_quiet = _Quiet()


def printable(name: str) -> str:
    """Return a file's name as one line of text that any screen, font and file can take."""
    if name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def checked_size(size: tuple[int, int] | int) -> tuple[int, int]:
    """Return a size as (rows, columns); an int means a square. ImageError if it is not one."""
    try:
        rows, columns = (size, size) if np.isscalar(size) else size
        rows, columns = operator.index(rows), operator.index(columns)
    except (TypeError, ValueError):
        raise ImageError(f"size is {size!r}; it must be (rows, columns), whole numbers") from None
    if rows < 1 or columns < 1:
        raise ImageError(f"size is {rows}x{columns}; rows and columns must be at least 1")
    return rows, columns


def _refuse_special_files(path: Path) -> None:
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):  # opening a named pipe would wait for ever
        raise UnreadableImage(path, "is not a regular file")
    if status.st_size == 0:
        raise UnreadableImage(path, "is empty (0 bytes)")


def _refuse_many_pages(image: Image.Image, path: Path) -> None:
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format not in FIRST_FRAME:
        kind = "has several pages" if image.format == "TIFF" else "is animated"
        raise UnreadableImage(path, f"{kind} ({frames} frames): save one of them by itself")


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # damaged EXIF data: the pixels are good, so show them as they are stored
        return image


def _grey_levels(image: Image.Image, path: Path, background: float) -> np.ndarray:
    if image.has_transparency_data:
        layers = np.asarray(image.convert("RGBA").convert("LA"), dtype=np.float32) / 255
        return layers[..., 0] * layers[..., 1] + background * (1 - layers[..., 1])
    if image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.float32) / 65535
    if image.mode == "I" and image.format == "PNG":  # 16-bit grey, as older Pillows open it
        return np.asarray(image).astype(np.float32) / 65535
    if image.mode in ("I", "F"):
        return _own_range(np.asarray(image).astype(np.float64), image.mode, path)
    return np.asarray(image.convert("L"))


def _own_range(values: np.ndarray, mode: str, path: Path) -> np.ndarray:
    if not np.isfinite(values).all():
        raise UnreadableImage(path, NOT_FINITE)
    smallest, largest = values.min(), values.max()
    if mode == "I" or smallest < 0 or largest > 1:
        values = values - min(smallest, 0)
        values = values / (values.max() or 1)
    return values.astype(np.float32)


def _resized(grey: np.ndarray, size: tuple[int, int], fit: str) -> np.ndarray:
    rows, columns = size
    image = Image.fromarray(np.ascontiguousarray(grey, dtype=np.float32))
    if fit == "crop":
        image = ImageOps.fit(image, (columns, rows), Image.Resampling.LANCZOS)
    elif grey.shape != size:
        image = image.resize((columns, rows), Image.Resampling.LANCZOS)
    return np.clip(np.asarray(image, dtype=np.float32), 0, 1)
