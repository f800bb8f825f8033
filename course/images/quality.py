"""PSNR, SSIM and mean squared error of many images, fast; files that are whole or not there.

`course.images` has the same measures, one call each, SSIM by scikit-image. For ten thousand images
their time counts: SSIM alone took more than half as long as the SVD, and each of NumPy's calls asks
for Python's lock, for which 16 threads queue. Here one compiled function does it all in a tenth of
the time, without the lock. A test holds it to scikit-image.
"""

import io
import math
from collections.abc import Callable

import numpy as np
from numba import njit
from PIL import Image

from course.images.reading import ImageError

WINDOW = 7  # pixels: SSIM compares windows of 7x7
#: Constants of Wang et al. (2004) for grey levels in [0, 1]: (0.01 * 1)**2 and (0.03 * 1)**2.
C1, C2 = 1e-4, 9e-4
PEAK = 255  # of an 8-bit PNG


def _compiled(function: Callable) -> Callable:
    """Compile with Numba, to run without Python's lock; keep the machine code between runs."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder can be written in which to keep it
        return njit(nogil=True, error_model="numpy")(function)


def judged(image: np.ndarray, approximation: np.ndarray) -> tuple[float, float, float, np.ndarray]:
    """Return PSNR [dB], SSIM and mean squared error of an approximation, and its 8-bit pixels.

    Parameters
    ----------
    image, approximation : ndarray, shape (rows, columns), float32
        Grey levels in [0, 1]; at least 7x7 pixels. Pixels that leave the range are clipped.

    Raises
    ------
    ImageError
        When the approximation holds NaN or infinite values, or the sizes do not fit.
    """
    if image.shape != approximation.shape or min(image.shape) < WINDOW:
        raise ImageError(
            f"images of {image.shape} and {approximation.shape}: they must be of one size, of at "
            f"least {WINDOW}x{WINDOW} pixels"
        )
    image, approximation = (
        np.ascontiguousarray(values, dtype=np.float32) for values in (image, approximation)
    )
    pixels = np.empty(image.shape, dtype=np.uint8)
    error, similarity = _judge(image, approximation, pixels)
    if not math.isfinite(error):
        raise ImageError("the reconstruction holds NaN or infinite values")
    return (math.inf if error == 0 else -10 * math.log10(error)), similarity, error, pixels


@_compiled
def _judge(image, approximation, pixels):
    """Mean squared error and SSIM in float64, one pass over the rows; fills `pixels`.

    SSIM: Wang et al., IEEE Trans. Image Process. 13 (2004), with windows of 7x7 pixels. `sums` has
    for each column the sums over the last 7 rows of x, y, x², y² and xy.
    """
    rows, columns = image.shape
    sums = np.zeros((5, columns))
    windows, unbiased = WINDOW * WINDOW, WINDOW * WINDOW / (WINDOW * WINDOW - 1.0)
    squared = similar = 0.0
    for row in range(rows):
        for column in range(columns):
            x, y = np.float64(image[row, column]), np.float64(approximation[row, column])
            squared += (x - y) * (x - y)
            level = min(max(approximation[row, column], np.float32(0)), np.float32(1))
            pixels[row, column] = np.uint8(np.rint(level * np.float32(PEAK)))
            sums[0, column] += x
            sums[1, column] += y
            sums[2, column] += x * x
            sums[3, column] += y * y
            sums[4, column] += x * y
            if row >= WINDOW:
                x = np.float64(image[row - WINDOW, column])
                y = np.float64(approximation[row - WINDOW, column])
                sums[0, column] -= x
                sums[1, column] -= y
                sums[2, column] -= x * x
                sums[3, column] -= y * y
                sums[4, column] -= x * y
        if row < WINDOW - 1:
            continue
        sum_x = sum_y = sum_xx = sum_yy = sum_xy = 0.0
        for column in range(columns):
            sum_x += sums[0, column]
            sum_y += sums[1, column]
            sum_xx += sums[2, column]
            sum_yy += sums[3, column]
            sum_xy += sums[4, column]
            if column >= WINDOW:
                sum_x -= sums[0, column - WINDOW]
                sum_y -= sums[1, column - WINDOW]
                sum_xx -= sums[2, column - WINDOW]
                sum_yy -= sums[3, column - WINDOW]
                sum_xy -= sums[4, column - WINDOW]
            if column < WINDOW - 1:
                continue
            x, y = sum_x / windows, sum_y / windows
            variances = unbiased * ((sum_xx / windows - x * x) + (sum_yy / windows - y * y))
            covariance = unbiased * (sum_xy / windows - x * y)
            similar += ((2 * x * y + C1) * (2 * covariance + C2)) / (
                (x * x + y * y + C1) * (variances + C2)
            )
    return squared / (rows * columns), similar / ((rows - WINDOW + 1) * (columns - WINDOW + 1))


def png(grey: np.ndarray) -> bytes:
    """A grey image as the content of a PNG file, squeezed quickly rather than as far as possible.

    Parameters
    ----------
    grey : ndarray, shape (rows, columns), uint8
    """
    content = io.BytesIO()
    Image.fromarray(grey).save(content, "png", compress_level=1)
    return content.getvalue()
