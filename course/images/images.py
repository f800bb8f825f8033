"""Images in, SVD factors, images out, and how good they are.

An image here is a two-dimensional float32 array of grey levels, 0 is black and 1 is white.
"""

import math
import operator

import numpy as np

from course.files import data_path
from course.images.reading import ImageError, checked_size, load_image
from course.images.samples import NOT_FINITE

PHOTOGRAPHS = {"camera": "camera.png", "coffee": "coffee.jpg", "chelsea": "chelsea.jpg"}

# The ellipses of Shepp and Logan (IEEE Trans. Nucl. Sci. 21, 1974, p. 21) with the intensities
# of Toft (The Radon Transform, 1996, p. 199), which can be told apart on a screen.
# Intensity, half axes in x and y, centre x and y (the image is the square -1..1), angle [degrees].
ELLIPSES = (
    (1.0, 0.6900, 0.9200, 0.00, 0.0000, 0),
    (-0.8, 0.6624, 0.8740, 0.00, -0.0184, 0),
    (-0.2, 0.1100, 0.3100, 0.22, 0.0000, -18),
    (-0.2, 0.1600, 0.4100, -0.22, 0.0000, 18),
    (0.1, 0.2100, 0.2500, 0.00, 0.3500, 0),
    (0.1, 0.0460, 0.0460, 0.00, 0.1000, 0),
    (0.1, 0.0460, 0.0460, 0.00, -0.1000, 0),
    (0.1, 0.0460, 0.0230, -0.08, -0.6050, 0),
    (0.1, 0.0230, 0.0230, 0.00, -0.6060, 0),
    (0.1, 0.0230, 0.0460, 0.06, -0.6050, 0),
)


# --- images that come with the course -----------------------------------------------------------


def head_mri() -> np.ndarray:
    """Return the head MRI that Matplotlib ships, read from Matplotlib's own copy.

    Returns
    -------
    ndarray, shape (256, 256), float32
        The file holds big-endian 16-bit integers; the largest of them becomes 1.
    """
    from matplotlib.cbook import get_sample_data

    with get_sample_data("s1045.ima.gz") as file:
        pixels = np.frombuffer(file.read(), dtype=">u2").reshape(256, 256)
    return (pixels / pixels.max()).astype(np.float32)


def phantom(rows: int, columns: int | None = None) -> np.ndarray:
    """Return a head phantom of any size: ten ellipses, a skull and what is inside.

    Parameters
    ----------
    rows, columns : int
        Size in pixels; without `columns` the image is square.

    Returns
    -------
    ndarray, shape (rows, columns), float32
        Grey levels in [0, 1], sampled at the centres of the pixels.

    Raises
    ------
    ImageError
        When a size is not a whole number of at least 1.
    """
    rows, columns = checked_size((rows, rows if columns is None else columns))
    y = 1 - (2 * np.arange(rows)[:, None] + 1) / rows
    x = (2 * np.arange(columns)[None, :] + 1) / columns - 1
    image = np.zeros((rows, columns))
    for intensity, half_x, half_y, centre_x, centre_y, angle in ELLIPSES:
        cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        along = (x - centre_x) * cosine + (y - centre_y) * sine
        across = (y - centre_y) * cosine - (x - centre_x) * sine
        image[(along / half_x) ** 2 + (across / half_y) ** 2 <= 1] += intensity
    return np.clip(image, 0, 1).astype(np.float32)  # sums such as 1 - 0.8 - 0.2 are not quite 0


def photographs() -> tuple[str, ...]:
    """Return the names of the photographs that come with the course, for `photograph`."""
    return tuple(PHOTOGRAPHS)


def photograph(name: str, size: tuple[int, int] | int | None = None) -> np.ndarray:
    """Return a photograph of the course in grey; data/README.md has sources and licences.

    Parameters
    ----------
    name : str
        One of `photographs()`.
    size : (rows, columns) or int, optional
        Size in pixels, cut from the middle; without it the photograph's own.

    Returns
    -------
    ndarray, shape (rows, columns), float32
        Grey levels in [0, 1].

    Raises
    ------
    ImageError
        When there is no photograph of that name.
    """
    if name not in PHOTOGRAPHS:
        raise ImageError(f"no photograph is called {name!r}; there are {', '.join(PHOTOGRAPHS)}")
    return load_image(data_path("images", PHOTOGRAPHS[name]), size, fit="crop")


# --- factors and quality ------------------------------------------------------------------------


def svd(image: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the thin singular value decomposition, image = (u * s) @ vt.

    Computed in float64, rounded to float32 at the end.

    Parameters
    ----------
    image : array_like, shape (m, n)

    Returns
    -------
    u : ndarray, shape (m, r), float32
    s : ndarray, shape (r,), float32, largest first
    vt : ndarray, shape (r, n), float32
        With r = min(m, n).

    Raises
    ------
    ImageError
        When the image is not a matrix, is empty, is masked, or holds NaN or infinite values; and
        when a singular value is beyond float32.
    """
    image = _matrix(image)
    u, s, vt = np.linalg.svd(image, full_matrices=False)
    return u.astype(np.float32), _within_float32(s).astype(np.float32), vt.astype(np.float32)


def leading_svd(image: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the k largest singular values and vectors, in less than half of the time of `svd`.

    With a = image, the vectors on its shorter side are eigenvectors of the Gram matrix a aᵀ (or
    aᵀ a), in float64; the others are a's products with them, scaled to length 1. So u * s is
    exactly a product with the image, and what is rebuilt differs from that of `svd` by no more than
    rounding (6e-8), also where the image has a lower rank. What the Gram matrix loses are singular
    values below about 1e-8 of the largest, and the directions that belong to them: use `svd` where
    these matter.

    Parameters
    ----------
    image : array_like, shape (m, n)
    k : int
        From 1 to min(m, n).

    Returns
    -------
    u : ndarray, shape (m, k), float32
    s : ndarray, shape (k,), float32, largest first
    vt : ndarray, shape (k, n), float32
        Where a singular value is 0, the vector of the longer side is 0, too.

    Raises
    ------
    ImageError
        As `svd`, and for such a k.

    Source: Golub and Van Loan, "Matrix Computations", 4th edition, section 8.6.
    """
    image = _matrix(image)
    k = checked_rank(k, *image.shape)
    wide = image.shape[0] < image.shape[1]
    gram = image @ image.T if wide else image.T @ image
    shorter = np.linalg.eigh(gram)[1][:, : -k - 1 : -1]  # which are sorted, the smallest first
    longer = (image.T if wide else image) @ shorter
    s = np.linalg.norm(longer, axis=0)
    longer /= np.where(s > 0, s, 1)
    order = np.argsort(-s, kind="stable")  # of a lower rank the last ones are noise
    shorter, longer, s = shorter[:, order], longer[:, order], s[order]
    u, v = (shorter, longer) if wide else (longer, shorter)
    parts = u, _within_float32(s), v.T
    return tuple(np.ascontiguousarray(part, dtype=np.float32) for part in parts)


def _matrix(image: np.ndarray) -> np.ndarray:
    """An image in float64; ImageError where it is no matrix of numbers."""
    image = _numbers(image, "the image")
    if image.ndim != 2 or image.size == 0:
        raise ImageError(f"an image must be a matrix (rows, columns); given shape {image.shape}")
    if not np.isfinite(image).all():
        raise ImageError(f"the image {NOT_FINITE}: an SVD needs numbers, so repair them first")
    return _within_float32(image)


def _numbers(image: np.ndarray, name: str) -> np.ndarray:
    """An array in float64; ImageError for a mask, which would be lost, and for no numbers."""
    if type(image) not in (np.ndarray, list) and isinstance(image, np.ma.MaskedArray):
        raise ImageError(f"{name} is a masked array: fill what is masked first, with .filled(0)")
    image = np.asarray(image)
    if image.dtype.kind not in "biuf":
        raise ImageError(f"{name} holds {image.dtype}; it must hold real numbers")
    return image.astype(np.float64, copy=False)


def _within_float32(values: np.ndarray) -> np.ndarray:
    """The values, of an image or its singular ones; ImageError if float32 has none so large."""
    if np.abs(values).max() > np.finfo(np.float32).max:
        raise ImageError(
            "the image has a singular value beyond float32's largest, 3.4e38: scale it first"
        )
    return values


def checked_rank(k: int, rows: int, columns: int) -> int:
    """Return k as an int if 1 <= k <= min(rows, columns); ImageError otherwise."""
    largest = min(rows, columns)
    try:
        rank = None if isinstance(k, bool) else operator.index(k)
    except TypeError:
        rank = None
    if rank is None:
        raise ImageError(f"k is {k!r}; it must be a whole number from 1 to {largest}")
    if not 1 <= rank <= largest:
        raise ImageError(
            f"k is {rank}; for an image of {rows}x{columns} it must be from 1 to {largest}"
        )
    return rank


def reconstruct(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> np.ndarray:
    """Rebuild an image from its k largest singular values, on the CPU with NumPy.

    Parameters
    ----------
    u, s, vt : ndarray, shapes (m, r), (r,), (r, n)
        As `svd` returns them.
    k : int
        From 1 to r.

    Returns
    -------
    ndarray, shape (m, n)
        ``(u[:, :k] * s[:k]) @ vt[:k]``, in the factors' type.
    """
    k = checked_rank(k, len(u), vt.shape[1])
    return (u[:, :k] * s[:k]) @ vt[:k]


def compression(rows: int, columns: int, k: int) -> float:
    """Return how many times fewer numbers the factors hold than the image.

    The image has rows x columns numbers, the factors k x (rows + columns + 1). Below 1 the
    factors are the larger.
    """
    k = checked_rank(k, rows, columns)
    return rows * columns / (k * (rows + columns + 1))


def mse(image: np.ndarray, approximation: np.ndarray) -> float:
    """Return the mean squared error, in float64; ImageError if shapes differ or for NaN."""
    image, approximation = _comparable(image, approximation)
    return float(np.mean((image - approximation) ** 2))


def psnr(image: np.ndarray, approximation: np.ndarray) -> float:
    """Return the peak signal-to-noise ratio [dB] for a peak of 1; infinite if there is no error."""
    return psnr_of(mse(image, approximation))


def psnr_of(error: float) -> float:
    """The PSNR [dB] of a mean squared error; ImageError where that is no number."""
    if not math.isfinite(error):
        raise ImageError("the reconstruction holds NaN or infinite values")
    return math.inf if error == 0 else -10 * math.log10(error)


def ssim(image: np.ndarray, approximation: np.ndarray) -> float:
    """Return the structural similarity: 1 for equal images, lower the less they look alike.

    Wang et al., IEEE Trans. Image Process. 13 (2004), with a window of 7x7 pixels, as
    scikit-image computes it for grey levels in [0, 1].
    """
    from skimage.metrics import structural_similarity

    image, approximation = _comparable(image, approximation)
    if min(image.shape) < 7:
        raise ImageError(f"SSIM needs at least 7x7 pixels; given {image.shape}")
    return float(structural_similarity(image, approximation, data_range=1.0))


def _comparable(image: np.ndarray, approximation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    image = _numbers(image, "the first image to compare")
    approximation = _numbers(approximation, "the second image to compare")
    if image.shape != approximation.shape:
        raise ImageError(
            f"the images to compare have the shapes {image.shape} and {approximation.shape}; "
            "they must be equal"
        )
    for name, values in (("first", image), ("second", approximation)):
        if values.size == 0 or not np.isfinite(values).all():
            problem = NOT_FINITE if values.size else "is empty"
            raise ImageError(f"the {name} image to compare {problem}: there is no quality to tell")
    return image, approximation
