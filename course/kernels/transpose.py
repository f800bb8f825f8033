"""Transpose a matrix, ``out[col, row] = image[row, col]``: a ladder of kernels.

The arrays are image (rows, cols) and out (cols, rows), C-contiguous. A warp that walks along a row
of one of them walks down a column of the other; each step says which side pays for that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import float32

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.kernels.arrays import Array, blocks_over, checked_float32
from course.kernels.steps import Ladder, Launch, Step, Work, require_choice

# --- step 0: the yardstick ------------------------------------------------------------------------


@cuda.jit
def copy(out, image):
    """Copy without transposing: as many bytes as a transpose moves, coalesced on both sides.

    Mapping: thread (x, y) copies row y, column x; the grid covers the image.
    Memory, a warp of 32 columns of float32: loads 4 sectors, stores 4.
    """
    col, row = cuda.grid(2)
    if row < image.shape[0] and col < image.shape[1]:
        out[row, col] = image[row, col]


# --- step 1: coalesced on one side --------------------------------------------------------------


@cuda.jit
def transpose_read_coalesced(out, image):
    """Step 1a: x walks along the rows of the image, so down the columns of out.

    Mapping: thread (x, y) moves image[y, x]; the grid covers the image.
    Memory, a warp of 32 columns of float32: loads 4 sectors, stores 32, one for each lane.
    """
    col, row = cuda.grid(2)
    if row < image.shape[0] and col < image.shape[1]:
        out[col, row] = image[row, col]


@cuda.jit
def transpose_write_coalesced(out, image):
    """Step 1b: x walks along the rows of out, so down the columns of the image.

    Mapping: thread (x, y) fills out[y, x]; the grid covers out.
    Memory, a warp of 32 columns of float32: loads 32 sectors, one for each lane, stores 4.
    """
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = image[col, row]


# --- steps 2 and 3: through a tile ----------------------------------------------------------------

TILE = 32  # rows and columns of a tile
PADDED = TILE + 1
BLOCK = (TILE, 8)  # threads in x and y: each moves four elements of the tile
ROWS = BLOCK[1]


@cuda.jit
def transpose_tiled(out, image):
    """Step 2: a tile of 32 x 32 elements is transposed in shared memory; both sides are coalesced.

    Mapping: a block of 32 x 8 threads moves one tile, four elements a thread. The grid covers the
    image in tiles. The tile is filled row by row and read column by column.
    Memory, a warp: loads 4 sectors, stores 4. A column of the tile lies in one bank: 32 wavefronts.
    """
    tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
    for row in range(y, TILE, ROWS):
        if top + row < image.shape[0] and left + x < image.shape[1]:
            tile[row, x] = image[top + row, left + x]
    cuda.syncthreads()
    for row in range(y, TILE, ROWS):
        if left + row < out.shape[0] and top + x < out.shape[1]:
            out[left + row, top + x] = tile[x, row]


@cuda.jit
def transpose_padded(out, image):
    """Step 3: one more column, never used, shifts each row of the tile by one bank.

    Mapping and global memory: as in step 2.
    Shared memory, a warp: a row of the tile and a column of it take one wavefront each.
    """
    tile = cuda.shared.array((TILE, PADDED), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    left, top = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
    for row in range(y, TILE, ROWS):
        if top + row < image.shape[0] and left + x < image.shape[1]:
            tile[row, x] = image[top + row, left + x]
    cuda.syncthreads()
    for row in range(y, TILE, ROWS):
        if left + row < out.shape[0] and top + x < out.shape[1]:
            out[left + row, top + x] = tile[x, row]


# --- the ladder -----------------------------------------------------------------------------------


class MatrixProblem(NamedTuple):
    """A matrix to be transposed."""

    rows: int
    columns: int

    @classmethod
    def of(cls, image: Array, out: Array) -> MatrixProblem:
        """Of arrays on the device."""
        return cls(*image.shape)


def moved_by(kernel: Any, tile: tuple[int, int]) -> Step:
    """The step of a kernel whose blocks move so many columns and rows each."""

    def launches(problem: MatrixProblem, image: Array, out: Array) -> list[Launch]:
        return [Launch(kernel, blocks_over(*problem, tile, "image"), BLOCK, (out, image))]

    return Step(launches, work=lambda problem: Work(2 * 4 * problem.rows * problem.columns, {}))


LADDER = Ladder(
    "transpose",
    MatrixProblem.of,
    {
        "naive": moved_by(transpose_read_coalesced, BLOCK),
        "tiled": moved_by(transpose_tiled, (TILE, TILE)),
        "padded": moved_by(transpose_padded, (TILE, TILE)),
    },
    best=lambda problem: "padded",
)


# --- the entry point ------------------------------------------------------------------------------


def _result(image: ArrayFacts, method: str) -> Result:
    require_choice(method, "method", LADDER.names)
    checked_float32(image, "image", 2, "(rows, columns)")
    return image.shape[::-1], np.float32


_ENTRY = EntryPoint("transpose", ("image",), _result, LADDER.launches, options=("method",))


def transpose(
    image: Array, out: Array | None = None, method: str = "auto", stream: Stream = None
) -> Array:
    """Transpose a matrix on the GPU (or the simulated one).

    Parameters
    ----------
    image : array, shape (rows, columns), float32
        Of NumPy, CuPy, PyTorch or numba.cuda, of any strides.
    out : array, shape (columns, rows), float32, optional
        Where to write; no part of image.
    method : str
        Of `LADDER.names`; "auto" takes "padded".
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it the one of image's library.

    Returns
    -------
    array, shape (columns, rows), float32
        `out`, if it is given; else of image's library.

    Raises
    ------
    TypeError
        For no array, or elements that are not float32.
    ValueError
        For another number of axes, an unknown method, or an `out` that does not fit.
    """
    return _ENTRY.call((image,), (method,), out, stream)


transpose.ladder = LADDER
