"""Read JPEG, PNG, TIFF, GIF, WebP and BMP files of any size and mode as grey float32 images.

Pictures from the world are broken, animated, sideways, transparent or enormous: each file that
cannot be used is named with a reason, and the others are read.
"""

import io
import operator
import stat
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from course.images import LARGEST
from course.images.folders import list_folder
from course.images.samples import Refused, grey_levels, imagecodecs, refuse_large, upright
from course.images.shortage import is_shortage

FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "BMP")  # TIFF by its own tags: course.images.tiff
TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # + is BigTIFF
ORIENTATIONS = (b"eXIf", b"Raw profile type exif", b"XML:com.adobe.xmp")  # chunks of a PNG
FITS = ("stretch", "crop")


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
    largest: float = LARGEST,
) -> LoadedImages:
    """Load every image file of a folder, as grey images of one size.

    JPEG, PNG, TIFF, GIF, WebP and BMP. Files that are broken, empty, too large or unreadable are
    left out and named in the result. Subfolders and hidden files are not looked at.

    Parameters
    ----------
    path : str or Path
        The folder.
    size, fit, background, largest
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
            image = load_image(file, size, fit=fit, background=background, largest=largest)
            images.append(image)
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
    largest: float = LARGEST,
) -> np.ndarray:
    """Load one JPEG, PNG, TIFF, GIF, WebP or BMP file as a grey image.

    Colours become luma (ITU-R 601), n bits are divided by 2^n - 1, up to 16. Integers that are
    signed or have more bits, and floating-point files that leave [0, 1], have no agreed white:
    their largest value becomes 1, their smallest 0 if it is negative. The orientation in a camera's
    EXIF data is applied; ICC profiles are not: levels stay as they are stored. Of an animated GIF
    or WebP the first frame is taken, of a TIFF the first page; an animated PNG is refused, and so
    is what cannot be read rightly, or ends early.

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
    largest : float
        Megapixels; a larger image is refused before it is decoded.

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
    return resized_to(load_levels(path, background, largest), size, fit)


def load_levels(path: str | Path, background: float = 1.0, largest: float = LARGEST) -> np.ndarray:
    """Load a file at its own size; what `resized_to` makes of it is `load_image`'s image.

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
        with _quiet, path.open("rb") as file:
            levels, formats = None, FORMATS
            signature = file.read(4)
            file.seek(0)
            if signature in TIFF:
                from course.images import tiff  # takes long to import

                levels, formats = tiff.levels(file, background, largest), ("TIFF",)
                file.seek(0)
            if levels is None:
                levels = _by_pillow(file, formats, background, largest)
            if levels.size == 0:
                raise Refused("has no pixels")
            return levels
    except ImageError:
        raise
    except Refused as error:
        raise UnreadableImage(path, str(error)) from None
    except UnidentifiedImageError:
        raise UnreadableImage(
            path, "is broken, or not a JPEG, PNG, TIFF, GIF, WebP or BMP image"
        ) from None
    except Exception as error:  # a decoder may raise almost any exception for broken bytes
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        reason = reason or type(error).__name__
        raise UnreadableImage(path, f"cannot be read: {reason}") from error


def resized_to(levels: np.ndarray, size: tuple[int, int] | None, fit: str) -> np.ndarray:
    """Grey levels as float32 in [0, 1], resized to (rows, columns), unless that is None."""
    if levels.dtype == np.uint8:
        levels = levels.astype(np.float32)
        levels /= 255
    if size is None:
        return levels
    rows, columns = size
    image = Image.fromarray(np.ascontiguousarray(levels, dtype=np.float32))
    if fit == "crop":
        image = ImageOps.fit(image, (columns, rows), Image.Resampling.LANCZOS)
    elif levels.shape != size:
        image = image.resize((columns, rows), Image.Resampling.LANCZOS)
    return np.clip(np.asarray(image, dtype=np.float32), 0, 1)


class _Quiet:
    """Decoders' warnings are off while any thread decodes: the filters belong to all threads.

    So does Pillow's limit on pixels, in whose place is the caller's.
    """

    def __init__(self):
        self._lock, self._inside = threading.Lock(), 0
        self._filters, self._limit = warnings.catch_warnings(), None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
                self._limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
            self._inside += 1

    def __exit__(self, *what: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._filters.__exit__(None, None, None)
                Image.MAX_IMAGE_PIXELS = self._limit


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


def _by_pillow(
    file: BinaryIO, formats: Sequence[str], background: float, largest: float
) -> np.ndarray:
    """Grey levels of an open file, as `load_levels` has them."""
    with Image.open(file, formats=formats) as image:
        refuse_large(*image.size, largest)
        if image.format == "PNG":
            return _of_png(image, file, background)
        image.load()
        if image.format == "JPEG":
            _refuse_doubtful_jpeg(image, file)
        return upright(_of_picture(image, background), _orientation(image))


def _of_picture(image: Image.Image, background: float) -> np.ndarray:
    """Grey levels of a picture of Pillow's, of 8 bits or fewer."""
    _refuse_unknown_colours(image)
    if image.has_transparency_data:
        layers = np.asarray(image.convert("RGBA").convert("LA"))
        alpha = layers[..., 1] / np.float32(255)
        return grey_levels(layers[..., 0], 255, alpha, background=background)
    return np.asarray(image.convert("L"))


def _refuse_unknown_colours(image: Image.Image) -> None:
    if image.mode == "P" and np.asarray(image).max() >= len(image.getpalette()) // 3:
        raise Refused("has pixels of colours that are not in its palette")


def _orientation(image: Image.Image) -> int:
    try:
        return image.getexif().get(0x0112, 1)
    except Exception as error:
        if is_shortage(error):
            raise
        return 1  # damaged EXIF data: the pixels are good, so show them as they are stored


def _refuse_doubtful_jpeg(image: Image.Image, file: BinaryIO) -> None:
    """Refuse a JPEG of inks that may be inverted, or whose stream ends early.

    What is missing at the end becomes middle grey, and no decoder says so. Where the end is of that
    grey, it is decoded again with more bytes before it: a complete stream needs none.
    """
    if image.mode == "CMYK" and "adobe" not in image.info:
        raise Refused("is CMYK, and has no Adobe marker that says whether 0 is white")
    last = image.getpixel((image.width - 1, image.height - 1))
    if np.isin(last, (127, 128)).any():
        file.seek(0)
        before, end, after = file.read().rpartition(b"\xff\xd9")
        longer = io.BytesIO(before.rstrip(b"\xff") + bytes(range(1, 255)) + end + after)
        with Image.open(longer, formats=("JPEG",)) as other:
            if not np.array_equal(np.asarray(image), np.asarray(other)):
                raise Refused("ends early: its last part is missing")


def _of_png(image: Image.Image, file: BinaryIO, background: float) -> np.ndarray:
    """Grey levels of a PNG, by libpng.

    Pillow leaves rows that are missing black, drops 8 of 16 bits of colours, and compares
    transparent levels wrongly. Both take the same time.
    """
    if image.n_frames > 1:
        raise Refused(f"is animated ({image.n_frames} frames): save one of them by itself")
    if (codecs := imagecodecs()) is None:
        keyed = "transparency" in image.info and image.mode in ("1", "L")
        if keyed or image.tile[0][3].endswith("16B"):
            raise Refused("is a PNG of 16 bits or transparent levels: install imagecodecs")
        return upright(_of_picture(image, background), _orientation(image))
    file.seek(0)
    content = file.read()
    try:
        samples = np.atleast_3d(codecs.png_decode(content))
    except codecs.PngError as error:
        raise Refused(f"is damaged, or ends early: {error}") from error
    if image.mode == "P":  # libpng makes colours of it, black where there is none
        image.load()
        _refuse_unknown_colours(image)
    white, count = np.iinfo(samples.dtype).max, samples.shape[-1]
    colours = samples[..., 0] if count < 3 else samples[..., :3]
    alpha = samples[..., -1] / np.float32(white) if count % 2 == 0 else None
    levels = grey_levels(colours, white, alpha, background=background)
    oriented = any(where in content for where in ORIENTATIONS)  # else Pillow decodes it, to look
    return upright(levels, _orientation(image) if oriented else 1)
