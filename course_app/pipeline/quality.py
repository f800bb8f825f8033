"""PSNR, SSIM and mean squared error of many images, fast, on the CPU.

`course.images` has the same measures, one call each, SSIM by scikit-image. For ten thousand images
their time counts: SSIM alone took more than half as long as the SVD. Here sums over windows are
added up from sums over fewer pixels, in float32, and what belongs to the original is computed once
for all its approximations; a process need not wait for a compiler. Tests hold it to scikit-image.
`course_app.kernels.image_quality` does the same on the GPU.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from course.images.images import psnr_of
from course.images.reading import ImageError

WINDOW = 7  # pixels: SSIM compares windows of 7x7
#: Constants of Wang et al. (2004) for grey levels in [0, 1]: (0.01 * 1)**2 and (0.03 * 1)**2.
C1, C2 = np.float32(1e-4), np.float32(9e-4)
PEAK = 255  # of an 8-bit PNG
PAETH = 4  # the filter's number in PNG
#: Subtracted from all pixels: variances are differences of squares, which are smaller then.
SHIFT = np.float32(0.5)


class Judged(NamedTuple):
    """How good an approximation is, and its pixels.

    Attributes
    ----------
    psnr_db, ssim, mse : float
    lines : ndarray, shape (rows, 1 + columns), uint8
        The approximation in 8 bits, as `course_app.pipeline.png` takes it.
    """

    psnr_db: float
    ssim: float
    mse: float
    lines: np.ndarray


def quality_of(image: np.ndarray, approximations: Sequence[np.ndarray]) -> list[Judged]:
    """How good approximations of an image are, and their pixels.

    Parameters
    ----------
    image : ndarray, shape (rows, columns), float32
        Grey levels in [0, 1]; at least 7x7 pixels.
    approximations : sequence of ndarray, of the image's shape
        Pixels that leave the range are clipped in `lines` alone.

    Raises
    ------
    ImageError
        When an approximation holds NaN or infinite values, or the sizes do not fit.
    """
    image = np.ascontiguousarray(image, dtype=np.float32)
    found = []
    moments = None
    for approximation in approximations:
        if image.shape != approximation.shape or min(image.shape) < WINDOW:
            raise ImageError(
                f"images of {image.shape} and {approximation.shape}: they must be of one size, of "
                f"at least {WINDOW}x{WINDOW} pixels"
            )
        approximation = np.ascontiguousarray(approximation, dtype=np.float32)
        difference = (image - approximation).ravel()
        error = float(np.dot(difference, difference.astype(np.float64))) / image.size
        psnr_db = psnr_of(error)
        if moments is None:
            shifted = image - SHIFT
            moments = _moments(shifted)
        similarity = _similarity(shifted, moments, approximation - SHIFT)
        found.append(Judged(psnr_db, similarity, error, scan_lines(approximation)))
    return found


def _moments(shifted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean of each window, less the shift, and mean of its squares."""
    return _means(shifted), _means(shifted * shifted)


def _means(values: np.ndarray) -> np.ndarray:
    """The mean of each window of 7x7 values."""
    along = _sums(values.T).T
    along = _sums(along)
    along *= np.float32(1 / WINDOW**2)
    return along


def _sums(values: np.ndarray) -> np.ndarray:
    """Sums over 7 rows: of 4, of 2 and of 1."""
    of_2 = values[:-1] + values[1:]
    of_7 = of_2[:-2] + of_2[2:]
    of_7 = of_7[:-3] + of_2[4:-1] if len(of_2) > 5 else of_7[:1] + of_2[4:5]
    of_7 += values[WINDOW - 1 :]
    return of_7


def _similarity(x: np.ndarray, of_x: tuple[np.ndarray, np.ndarray], y: np.ndarray) -> float:
    """The mean SSIM of all windows: Wang et al., IEEE Trans. Image Process. 13 (2004).

    Its two factors, of means and of variances, are each 1 less a quotient above which only the
    difference d = x - y stands, as 2ab = a² + b² - (a - b)²: so rounding in float32 does no harm
    where the images are nearly the same, or flat.
    """
    unbiased = np.float32(WINDOW**2 / (WINDOW**2 - 1))
    mean_x, squares_x = of_x
    d = x - y
    mean_d, squares_d = _moments(d)
    mean_y, squares_y = mean_x - mean_d, _means(y * y)
    squared_mean = mean_d * mean_d
    squares_d -= squared_mean
    squares_d *= unbiased  # the variance of d
    squares_y += squares_x
    squares_y -= mean_x * mean_x
    squares_y -= mean_y * mean_y
    squares_y *= unbiased  # the variances of x and y
    squares_y += C2
    squares_d /= squares_y
    mean_y += SHIFT
    bright = mean_x + SHIFT
    bright *= bright
    mean_y *= mean_y
    bright += mean_y
    bright += C1
    squared_mean /= bright
    np.subtract(1, squares_d, out=squares_d)
    np.subtract(1, squared_mean, out=squared_mean)
    squares_d *= squared_mean
    return float(squares_d.mean(dtype=np.float64))


def scan_lines(levels: np.ndarray) -> np.ndarray:
    """Grey levels in 8 bits, half to even, less what Paeth's filter predicts (PNG, 9.4).

    Parameters
    ----------
    levels : ndarray, shape (rows, columns), float32
        In [0, 1]; what leaves the range is clipped.

    Returns
    -------
    ndarray, shape (rows, 1 + columns), uint8
    """
    rows, columns = levels.shape
    pixels = np.zeros((1 + rows, 1 + columns), np.int16)  # with the row above and the column before
    pixels[1:, 1:] = np.rint(np.clip(levels, 0, 1) * np.float32(PEAK))
    left, up, corner = pixels[1:, :-1], pixels[:-1, 1:], pixels[:-1, :-1]
    down, across = left - corner, up - corner
    aslant = np.abs(down + across)
    np.abs(across, out=across)
    np.abs(down, out=down)
    guess = np.where(down <= aslant, up, corner)
    nearest = across <= down
    nearest &= across <= aslant
    np.copyto(guess, left, where=nearest)
    lines = np.empty((rows, 1 + columns), np.uint8)
    lines[:, 0] = PAETH
    np.subtract(pixels[1:, 1:], guess, out=lines[:, 1:], casting="unsafe")
    return lines
