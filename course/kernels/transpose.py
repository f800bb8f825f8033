"""Transpose a matrix, ``out[col, row] = image[row, col]``: a ladder of kernels.

The arrays are image (rows, cols) and out (cols, rows), C-contiguous. A warp that walks along a row
of one of them walks down a column of the other; each step says which side pays for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, int32, int64

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.heuristics.transpose import MatrixProblem, TileConfig, tile_for
from course.kernels.arrays import VECTOR, Array, blocks_over, checked_float32, rows_are_aligned
from course.kernels.steps import Ladder, Launch, Step, require_choice
from warpsim.ptx import grid_dependency_wait, load, load4, store, store4

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


# --- step 4: all loads in flight ------------------------------------------------------------------


@functools.cache
def in_flight(config: TileConfig, reads: int, writes: int) -> Callable:
    """Step 4, of (out, image): a thread has all its loads in flight before it stores the first.

    Mapping: a block moves a tile. Lanes walk along its rows to load, along its columns to store.
    `reads` and `writes` are the elements of an access to image and out, 1 or 4. 0 is for single
    elements of rows that are not contiguous.
    Memory: indices beyond the edge are clamped to the last row or column, so that no load is behind
    a branch. Bank conflicts are two-way at most.
    """
    high, wide, threads = config.high, config.wide, config.threads
    pitch, size = wide + 1, high * (wide + 1)
    in_step, out_step = max(reads, 1), max(writes, 1)
    loads, stores = high * wide // (threads * in_step), high * wide // (threads * out_step)
    across, along = wide // in_step, high // out_step  # threads side by side: to load, to store
    down, right = threads // across, threads // along  # from one access of a thread to its next one

    @cuda.jit(device=True)
    def read(image, row, column, values, n):
        if reads == VECTOR:
            four = load4(image, (row, column))
            values[n, 0], values[n, 1], values[n, 2], values[n, 3] = four
        elif reads == 1:
            values[n, 0] = load(image, (row, column))
        else:
            values[n, 0] = image[row, column]

    @cuda.jit(device=True)
    def write(out, column, row, tile, here):
        if writes == VECTOR:
            four = tile[here], tile[here + pitch], tile[here + 2 * pitch], tile[here + 3 * pitch]
            store4(out, (column, row), four)
        elif writes == 1:
            store(out, (column, row), tile[here])
        else:
            out[column, row] = tile[here]

    @cuda.jit
    def transpose_in_flight(out, image):
        tile = cuda.shared.array(size, float32)
        values = cuda.local.array((loads, in_step), float32)
        grid_dependency_wait()
        t = int32(cuda.threadIdx.x)
        left, top = int64(cuda.blockIdx.x) * wide, int64(cuda.blockIdx.y) * high
        whole = left + wide <= image.shape[1] and top + high <= image.shape[0]
        row, column = t // int32(across), t % int32(across) * int32(in_step)
        if whole:
            for n in range(loads):
                read(image, top + row + n * down, left + column, values, n)
        else:
            last_row, last_column = image.shape[0] - 1, image.shape[1] - in_step
            for n in range(loads):
                clamped = min(top + row + n * down, last_row)
                read(image, clamped, min(left + column, last_column), values, n)
        for n in range(loads):
            for e in range(in_step):
                tile[(row + int32(n * down)) * int32(pitch) + column + int32(e)] = values[n, e]
        cuda.syncthreads()
        column, row = t // int32(along), t % int32(along) * int32(out_step)
        here = row * int32(pitch) + column
        for n in range(stores):
            if whole or (left + column + n * right < out.shape[0] and top + row < out.shape[1]):
                write(out, left + column + n * right, top + row, tile, here + int32(n * right))

    return transpose_in_flight


# --- the ladder -----------------------------------------------------------------------------------


def problem_of(image: Array, out: Array) -> MatrixProblem:
    """The problem of arrays on the device."""
    return MatrixProblem(*image.shape, _at_once(image), _at_once(out))


def _at_once(array: Array) -> int:
    if array.strides[1] != array.dtype.itemsize:
        return 0
    return VECTOR if rows_are_aligned(array) else 1


def moved_by(kernel: Any, tile: tuple[int, int]) -> Step:
    """The step of a kernel whose blocks move `tile` each: so many columns and rows."""

    def launches(problem: MatrixProblem, image: Array, out: Array) -> list[Launch]:
        grid = blocks_over(problem.rows, problem.columns, tile, "image")
        return [Launch(kernel, grid, BLOCK, (out, image))]

    return Step(launches)


def _in_flight(problem: MatrixProblem, image: Array, out: Array) -> list[Launch]:
    config = tile_for(problem)
    tile = config.wide, config.high
    most = VECTOR if config.high * config.wide >= VECTOR * config.threads else 1
    kernel = in_flight(config, min(problem.reads, most), min(problem.writes, most))
    grid = blocks_over(problem.rows, problem.columns, tile, "image")
    return [Launch(kernel, grid, config.threads, (out, image))]


LADDER = Ladder(
    "transpose",
    problem_of,
    {
        "naive": moved_by(transpose_read_coalesced, BLOCK),
        "tiled": moved_by(transpose_tiled, (TILE, TILE)),
        "padded": moved_by(transpose_padded, (TILE, TILE)),
        "in flight": Step(_in_flight),
    },
    best=lambda problem: "in flight",
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
        Of NumPy, CuPy, PyTorch or numba.cuda, with any strides.
    out : array, shape (columns, rows), float32, optional
        Where to write; shares no memory with image.
    method : str
        One of `LADDER.names`; "auto" takes "in flight".
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; by default image's library's current one.

    Returns
    -------
    array, shape (columns, rows), float32
        `out`, if it is given; else of image's library.

    Raises
    ------
    TypeError
        For an argument that is no array, or another dtype than float32.
    ValueError
        For another number of axes, an unknown method, an `out` that does not fit, or more rows than
        a grid has blocks for: 4.19 million, with 9 columns or more.
    """
    return _ENTRY.call((image,), (method,), out, stream)


transpose.ladder = LADDER
