"""How good approximations of images are, and their pixels as a PNG file has them, on the GPU.

For each image of a stack one pass over its tiles gives mean squared error and structural similarity
(SSIM), and writes the scan lines of a PNG file: 8-bit pixels less what Paeth's filter predicts.
What is left for the host is to squeeze them.

A block has a tile of 32 x 32 pixels and the windows of 7 x 7 that begin in it. The 38 x 38 pixels
that these cover lie in shared memory, for both images. Five sums belong to a window, of x, x², y²,
d = x - y and d²: first along 7 pixels of a row, for each row, then of 7 such sums down a column; 14
terms instead of 49. A thread goes down four windows.

Variances are differences of much larger numbers: in float32 they would be lost. So sums are of
x - c and y - c, with one c for a tile, its first pixel: variances do not change, and the mean is
c more. Sums over a tile are float32, over an image float64, on the host, in the same order always.

Source: Wang et al., "Image Quality Assessment", IEEE Trans. Image Process. 13 (2004); W3C,
"Portable Network Graphics (PNG) Specification (Third Edition)", 9.4.
"""

from __future__ import annotations

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.kernels.arrays import Array, checked_float32
from course.kernels.steps import Launch
from course.kernels.warps import WARP, lanes_sum

WINDOW = 7
C1, C2 = 1e-4, 9e-4  # (0.01 * 1)² and (0.03 * 1)², for grey levels in [0, 1]
TILE = 32
REACH = TILE + WINDOW - 1  # rows and columns that a tile's windows cover
PITCH = REACH + 1  # elements from row to row: windows in a column lie in different banks
ROWS = 8  # of threads
THREADS = TILE * ROWS
DOWN = TILE // ROWS  # windows of a thread
WARPS = THREADS // WARP
PEAK = 255
WHOLE = 2**23
PAETH = 4  # the filter's number
PIXELS = WINDOW * WINDOW
UNBIASED = PIXELS / (PIXELS - 1)

_sum_of_lanes = lanes_sum(WARP)


@cuda.jit(device=True)
def pixel_of(level):
    """The 8-bit pixel of a grey level, 0 to 255, half to even.

    From 2**23 on float32 has whole numbers alone: adding that rounds. (`round` is float64's.) The
    minimum stands between product and sum: together they would be rounded once, as no CPU does.
    """
    whole = float32(WHOLE)
    return int32(min(max(level, float32(0)) * float32(PEAK), float32(PEAK)) + whole - whole)


@cuda.jit(device=True)
def predicted(left, up, corner):
    """What Paeth's filter predicts from three neighbours."""
    across, down, aslant = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
    if across <= down and across <= aslant:
        return left
    if down <= aslant:
        return up
    return corner


@cuda.jit(device=True)
def similarity_of(sum_x, sum_xx, sum_yy, sum_d, sum_dd, shift):
    """The SSIM of a window, from sums of x - shift, (x - shift)², (y - shift)², d = x - y and d².

    Both factors are 1 less a quotient above which d alone stands, as 2ab = a² + b² - (a - b)².
    """
    each, unbiased = float32(1 / PIXELS), float32(UNBIASED)
    c1, c2 = float32(C1), float32(C2)
    x, d = sum_x * each, sum_d * each
    y = x - d
    of_d = unbiased * (sum_dd * each - d * d)
    variances = unbiased * ((sum_xx * each - x * x) + (sum_yy * each - y * y))
    x, y = x + shift, y + shift
    bright = float32(1) - d * d / (x * x + y * y + c1)
    return bright * (float32(1) - of_d / (variances + c2))


@cuda.jit
def judge(images, approximations, lines, sums):
    """Write an image's scan lines, and for each tile its squared error and its windows' SSIM.

    Mapping: block (x, y, z) has tile (y, x) of image z; thread (x, y) has column x and the rows
    y * DOWN to y * DOWN + DOWN - 1.
    Memory: each pixel of both images is read 1.4 times, a byte for each is written.
    """
    x_tile = cuda.shared.array((REACH, PITCH), float32)
    y_tile = cuda.shared.array((REACH, PITCH), float32)
    along = cuda.shared.array((5, REACH, TILE), float32)
    of_warps = cuda.shared.array((2, WARPS), float32)
    image, approximation = images[cuda.blockIdx.z], approximations[cuda.blockIdx.z]
    rows, columns = image.shape
    top, left = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    for row in range(y, REACH, ROWS):
        for column in range(x, REACH, TILE):
            inside = top + row < rows and left + column < columns
            x_tile[row, column] = image[top + row, left + column] if inside else float32(0)
            y_tile[row, column] = approximation[top + row, left + column] if inside else float32(0)
    cuda.syncthreads()
    shift = x_tile[0, 0]
    for row in range(y, REACH, ROWS):
        sum_x, sum_xx, sum_yy = float32(0), float32(0), float32(0)
        sum_d, sum_dd = float32(0), float32(0)
        for step in range(WINDOW):
            a, b = x_tile[row, x + step], y_tile[row, x + step]
            d = a - b
            a, b = a - shift, b - shift
            sum_x += a
            sum_xx += a * a
            sum_yy += b * b
            sum_d += d
            sum_dd += d * d
        along[0, row, x], along[1, row, x], along[2, row, x] = sum_x, sum_xx, sum_yy
        along[3, row, x], along[4, row, x] = sum_d, sum_dd
    cuda.syncthreads()
    squared, similar = float32(0), float32(0)
    for step in range(DOWN):
        row = y * DOWN + step
        if top + row < rows and left + x < columns:
            value = y_tile[row, x]
            difference = x_tile[row, x] - value
            squared += difference * difference
            before = up = corner = int32(0)
            if left + x > 0:
                before = pixel_of(approximation[top + row, left + x - 1])
            if top + row > 0:
                up = pixel_of(approximation[top + row - 1, left + x])
                if left + x > 0:
                    corner = pixel_of(approximation[top + row - 1, left + x - 1])
            code = (pixel_of(value) - predicted(before, up, corner)) & 255
            lines[cuda.blockIdx.z, top + row, 1 + left + x] = code
            if left + x == 0:
                lines[cuda.blockIdx.z, top + row, 0] = PAETH
        if top + row + WINDOW <= rows and left + x + WINDOW <= columns:
            sum_x, sum_xx, sum_yy = float32(0), float32(0), float32(0)
            sum_d, sum_dd = float32(0), float32(0)
            for below in range(WINDOW):
                sum_x += along[0, row + below, x]
                sum_xx += along[1, row + below, x]
                sum_yy += along[2, row + below, x]
                sum_d += along[3, row + below, x]
                sum_dd += along[4, row + below, x]
            similar += similarity_of(sum_x, sum_xx, sum_yy, sum_d, sum_dd, shift)
    squared, similar = _sum_of_lanes(squared), _sum_of_lanes(similar)
    if x == 0:
        of_warps[0, y], of_warps[1, y] = squared, similar
    cuda.syncthreads()
    if x < 2 and y == 0:
        total = float32(0)
        for warp in range(WARPS):
            total += of_warps[x, warp]
        sums[cuda.blockIdx.z, cuda.blockIdx.y * cuda.gridDim.x + cuda.blockIdx.x, x] = total


# --- the host side --------------------------------------------------------------------------------


def _tiles(rows: int, columns: int) -> tuple[int, int]:
    return -(-rows // TILE), -(-columns // TILE)


def _results(images: ArrayFacts, approximations: ArrayFacts) -> list[Result]:
    for one, name in ((images, "images"), (approximations, "approximations")):
        checked_float32(one, name, 3, "(images, rows, columns)")
    if images.shape != approximations.shape:
        raise ValueError(
            f"images are {images.shape} and approximations {approximations.shape}: they must be of "
            "one shape"
        )
    count, rows, columns = images.shape
    if min(rows, columns) < WINDOW:
        raise ValueError(f"images are {rows}x{columns}; SSIM compares windows of 7x7 pixels")
    down, across = _tiles(rows, columns)
    return [((count, rows, 1 + columns), np.uint8), ((count, down * across, 2), np.float32)]


def launches(images: Array, approximations: Array, lines: Array, sums: Array) -> list[Launch]:
    """What `quality_of` launches, of arrays on the GPU."""
    count, rows, columns = images.shape
    down, across = _tiles(rows, columns)
    arrays = images, approximations, lines, sums
    return [Launch(judge, (across, down, count), (TILE, ROWS), arrays)]


_ENTRY = EntryPoint("quality_of", ("images", "approximations"), _results, launches)


def quality_of(images: Array, approximations: Array, stream: Stream = None) -> tuple[Array, Array]:
    """How good each approximation of a stack is, and its scan lines, on the GPU or simulated.

    Parameters
    ----------
    images, approximations : array, shape (images, rows, columns), float32
        Grey levels in [0, 1], of NumPy, CuPy, PyTorch or numba.cuda; at least 7 x 7 pixels, at most
        65,535 images. Pixels that leave the range are clipped in the scan lines alone.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of images' library.

    Returns
    -------
    lines : array, shape (images, rows, 1 + columns), uint8
        As `course_app.pipeline.png` takes them.
    sums : array, shape (images, tiles, 2), float32
        For each tile squared errors and SSIM, summed; `measures` makes them an image's.

    Raises
    ------
    TypeError
        For no array, or elements that are not float32.
    ValueError
        For shapes that do not fit, or images that are too small.
    """
    return _ENTRY.call((images, approximations), (), None, stream)


def measures(sums: np.ndarray, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean squared error and SSIM of each image, float64, of the sums that `quality_of` gives.

    Parameters
    ----------
    sums : ndarray, shape (images, tiles, 2), float32
    rows, columns : int
        Of an image.
    """
    squared, similar = np.moveaxis(sums.astype(np.float64).sum(axis=1), 1, 0)
    windows = (rows - WINDOW + 1) * (columns - WINDOW + 1)
    return squared / (rows * columns), similar / windows
