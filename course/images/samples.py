"""What the samples of an image file mean: grey levels in [0, 1], upright, on a background.

The rules are the same whatever the format: `course.images.reading` and `course.images.tiff`.
"""

import logging
from types import ModuleType

import numpy as np
from PIL import Image

LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601, of red, green and blue
NOT_FINITE = "holds NaN or infinite values"

for _library in ("imagecodecs", "tifffile"):  # without a handler they write to stderr
    logging.getLogger(_library).addHandler(logging.NullHandler())


class Refused(ValueError):
    """What is wrong with an image, told as the end of a sentence that begins with its name."""


def imagecodecs() -> ModuleType | None:
    """The package of that name, imported when first needed; a browser's Python has none."""
    try:
        import imagecodecs
    except ImportError:
        return None
    return imagecodecs


def refuse_large(columns: int, rows: int, largest: float) -> None:
    """Refuse an image of more than so many megapixels, before any of it is decoded."""
    pixels = columns * rows / 1e6
    if pixels > largest:
        raise Refused(
            f"is too large: {columns}x{rows} are {pixels:,.4g} megapixels, and the limit is "
            f"{largest:,g} (--largest)"
        )


def grey_levels(
    colours: np.ndarray,
    white: int | None,
    alpha: np.ndarray | None = None,
    *,
    background: float = 1.0,
    associated: bool = False,
    inverted: bool = False,
) -> np.ndarray:
    """Grey levels, (rows, columns), in [0, 1]; uint8 to 255, of 8 bits and fewer without alpha.

    Parameters
    ----------
    colours : ndarray, shape (rows, columns) or (rows, columns, 3)
        Grey, or red, green and blue.
    white : int, optional
        The sample that is white; None where none is agreed. Then the largest becomes 1, and the
        smallest 0 if it is negative, except for floating-point samples that all lie in [0, 1].
    alpha : ndarray, shape (rows, columns), optional
        How opaque each pixel is, in [0, 1]; `associated` colours are multiplied by it already.
    background : float
        Grey level behind transparent pixels.
    inverted : bool
        Whether 0 is white.
    """
    if white in (1, 3, 15) and colours.dtype == np.uint8:
        colours, white = colours * np.uint8(255 // white), 255
    if white == 255:
        if colours.ndim == 3:
            colours = np.asarray(Image.fromarray(np.ascontiguousarray(colours)).convert("L"))
        if alpha is None:
            return 255 - colours if inverted else colours
    levels = _own_range(colours, associated) if white is None else np.float32(1 / white) * colours
    levels = levels.astype(np.float32, copy=False)
    if levels.ndim == 3:
        levels = levels @ LUMA
    if inverted:
        levels = 1 - levels
    if alpha is not None:
        levels = (levels if associated else levels * alpha) + background * (1 - alpha)
    return np.clip(levels, 0, 1, dtype=np.float32)


def _own_range(values: np.ndarray, associated: bool) -> np.ndarray:
    if not np.isfinite(values).all():
        raise Refused(NOT_FINITE)
    smallest, largest = values.min(), values.max()
    if values.dtype.kind == "f" and smallest >= 0 and largest <= 1:
        return values
    if associated:
        raise Refused("has colours multiplied by their alpha, but no agreed white")
    values = values.astype(np.float64)
    values -= min(float(smallest), 0.0)
    values /= values.max() or 1
    return values


def upright(levels: np.ndarray, orientation: int) -> np.ndarray:
    """Rotate an image as a camera noted it: 1 to 8 of EXIF and TIFF; other numbers mean nothing."""
    if orientation in (5, 6, 7, 8):
        levels = levels.T
    if orientation in (3, 4, 7, 8):
        levels = levels[::-1]
    if orientation in (2, 3, 6, 7):
        levels = levels[:, ::-1]
    return np.ascontiguousarray(levels)
