"""Grey images of any sizes resized to one size by Lanczos's filter, as Pillow has it, on the GPU.

A pixel of the result is a mean of the pixels around its position in the image that was given,
weighted by sinc(x) sinc(x / 3), where x is the distance in pixels of the coarser of the two.
The filter is a product of one for rows and one for columns: first `resize_along` goes along rows,
then `resize_down` down the columns of what that left. Weights depend on a row or column alone;
`weigh` computes them once for each.

A warp has 32 columns side by side. Where an image shrinks its loads are strided by the factor by
which it shrinks, and the L1 cache serves their sectors; all other accesses are coalesced.

Source: Duchon, "Lanczos Filtering in One and Two Dimensions", J. Appl. Meteor. 18 (1979); Pillow,
src/libImaging/Resample.c.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.slots import workspace
from course.kernels.arrays import Array, whole
from course.kernels.steps import Launch, ceil_div

LOBES = 3  # of the filter, to each side
MOST = 4  # times as many rows, or columns, as the result has
TAPS = 2 * LOBES * MOST + 1  # pixels that count for one of the result, at most
WIDE, HIGH = 32, 8  # threads of a block
THREADS = 128
PEAK = 255
PI = math.pi


@cuda.jit(device=True)
def sin_pi(x):
    """sin(pi x), by Taylor's series around the nearest whole number. (`sin` needs float64.)"""
    whole = int32(math.floor(x + float32(0.5)))
    angle = (x - float32(whole)) * float32(PI)
    square = angle * angle
    series = float32(1 / 362880) - square * float32(1 / 39916800)
    series = float32(1 / 5040) - square * series
    series = float32(1 / 120) - square * series
    series = float32(1) - square * (float32(1 / 6) - square * series)
    return -angle * series if whole & 1 else angle * series


@cuda.jit(device=True)
def lanczos(x):
    """The filter's weight at a distance."""
    if abs(x) >= float32(LOBES):
        return float32(0)
    if x == float32(0):
        return float32(1)
    angle = x * float32(PI)
    slow = x * float32(1 / LOBES)
    return sin_pi(x) * sin_pi(slow) / (angle * angle * float32(1 / LOBES))


@cuda.jit
def weigh(sizes, rows, columns, which, weights):
    """Find which pixels count for a row or a column of the result, and how much each.

    In `which` go the first of them and how many they are.

    Mapping: block (x, y, z) has image z and the result's rows (y = 0) or columns (y = 1); a thread
    one of them.
    """
    wanted = int32(columns) if cuda.blockIdx.y else int32(rows)
    it = int32(cuda.blockIdx.x * THREADS + cuda.threadIdx.x)
    if it >= wanted:
        return
    image, axis = cuda.blockIdx.z, cuda.blockIdx.y
    given = sizes[image, axis]
    if given == wanted:  # nothing to do along this axis
        which[image, axis, 0, it], which[image, axis, 1, it] = it, 1
        weights[image, axis, 0, it] = float32(1)
        return
    # the centre, (it + 1/2) given / wanted, as a whole number and a rest: so no digit is lost
    twice = (2 * it + 1) * given
    whole = int32(twice // (2 * wanted))
    rest = float32(twice - whole * 2 * wanted) / float32(2 * wanted) - float32(0.5)
    wide = max(float32(given) / float32(wanted), float32(1))
    reach = wide * float32(LOBES)
    begin = max(whole + int32(math.ceil(rest - reach)), int32(0))
    end = min(whole + int32(math.floor(rest + reach)) + 1, given)
    count = min(end - begin, int32(TAPS))
    which[image, axis, 0, it], which[image, axis, 1, it] = begin, count
    total = float32(0)
    for tap in range(count):
        weight = lanczos((float32(begin + tap - whole) - rest) / wide)
        weights[image, axis, tap, it] = weight
        total += weight
    for tap in range(count):
        weights[image, axis, tap, it] /= total


@cuda.jit
def resize_along(pixels, sizes, which, weights, between):
    """Resize the rows of the images that were given to the result's length.

    Mapping: a thread of block (x, y, z) has one pixel, of image z.
    """
    image = cuda.blockIdx.z
    x = int32(cuda.blockIdx.x * WIDE + cuda.threadIdx.x)
    y = int32(cuda.blockIdx.y * HIGH + cuda.threadIdx.y)
    rows, columns = sizes[image, 0], sizes[image, 1]
    if y >= rows or y >= between.shape[1] or x >= between.shape[2]:
        return
    start, total = y * columns + which[image, 1, 0, x], float32(0)
    for tap in range(which[image, 1, 1, x]):
        total += float32(pixels[image, start + tap]) * weights[image, 1, tap, x]
    between[image, y, x] = total / float32(PEAK)


@cuda.jit
def resize_down(between, sizes, which, weights, out):
    """Resize the columns to the result's length; what the filter overshoots is clipped.

    Mapping: a thread of block (x, y, z) has one pixel, of image z.
    """
    image = cuda.blockIdx.z
    x = int32(cuda.blockIdx.x * WIDE + cuda.threadIdx.x)
    y = int32(cuda.blockIdx.y * HIGH + cuda.threadIdx.y)
    if sizes[image, 0] == 0 or y >= out.shape[1] or x >= out.shape[2]:
        return
    begin, total = which[image, 0, 0, y], float32(0)
    for tap in range(which[image, 0, 1, y]):
        total += between[image, begin + tap, x] * weights[image, 0, tap, y]
    out[image, y, x] = min(max(total, float32(0)), float32(1))


# --- the host side --------------------------------------------------------------------------------


def _result(pixels: ArrayFacts, sizes: ArrayFacts, rows: int, columns: int) -> Result:
    if pixels.dtype != np.uint8 or pixels.ndim != 2:
        raise TypeError(
            f"pixels are {pixels.dtype} of the shape {pixels.shape}; they must be uint8 of the "
            "shape (images, most pixels)"
        )
    if sizes.dtype != np.int32 or sizes.shape != (pixels.shape[0], 2):
        raise TypeError(
            f"sizes are {sizes.dtype} of the shape {sizes.shape}; they must be int32, "
            f"({pixels.shape[0]}, 2): rows and columns of each image"
        )
    if pixels.shape[1] == 0:
        raise ValueError(f"pixels have the shape {pixels.shape}: there is none to resize")
    if min(rows, columns) < 1:
        raise ValueError(f"the size is {rows}x{columns}; rows and columns must be at least 1")
    return (pixels.shape[0], rows, columns), np.float32


def launches(pixels: Array, sizes: Array, out: Array, rows: int, columns: int) -> list[Launch]:
    """What `resized` launches, of arrays on the GPU."""
    count, longest = pixels.shape[0], max(rows, columns)
    most = min(MOST * rows, pixels.shape[1])
    which = workspace((count, 2, 2, longest), np.int32)
    weights = workspace((count, 2, TAPS, longest), np.float32)
    between = workspace((count, most, columns), np.float32)
    across, block = ceil_div(columns, WIDE), (WIDE, HIGH)
    return [
        Launch(weigh, (ceil_div(longest, THREADS), 2, count), THREADS,
               (sizes, rows, columns, which, weights)),
        Launch(resize_along, (across, ceil_div(most, HIGH), count), block,
               (pixels, sizes, which, weights, between)),
        Launch(resize_down, (across, ceil_div(rows, HIGH), count), block,
               (between, sizes, which, weights, out)),
    ]  # fmt: skip


_ENTRY = EntryPoint("resized", ("pixels", "sizes"), _result, launches, options=("rows", "columns"))


def resized(
    pixels: Array,
    sizes: Array,
    rows: int,
    columns: int,
    out: Array | None = None,
    stream: Stream = None,
) -> Array:
    """Resize 8-bit grey images of any sizes to one size, on the GPU (or the simulated one).

    As Pillow's ``resize`` of the grey levels as float32, with ``LANCZOS``: within 1e-6 of it.

    Parameters
    ----------
    pixels : array, shape (images, most pixels), uint8
        Of NumPy, CuPy, PyTorch or numba.cuda: each image's rows one behind the other, then
        whatever there is.
    sizes : array, shape (images, 2), int32
        Rows and columns of each, where pixels are: at most 4 times those of the result, and no
        more pixels than there are. For an image of 0 rows nothing is written to `out`.
    rows, columns : int
        Of the result.
    out : array, shape (images, rows, columns), float32, optional
        Where to write.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of pixels' library.

    Returns
    -------
    array, shape (images, rows, columns), float32
        Grey levels in [0, 1]: `out`, if it is given; else of the library that pixels are of.

    Raises
    ------
    TypeError
        For no array, or another type or shape.
    ValueError
        For no pixels, a size without any, or an `out` that does not fit.
    """
    size = whole(rows, "rows"), whole(columns, "columns")
    return _ENTRY.call((pixels, sizes), size, out, stream)
