"""Which part of a row a thread of the softmax kernels has, and how it is read and written."""

import functools
from collections.abc import Callable
from dataclasses import dataclass

from numba import int64

from course.backend import cuda
from course.intrinsics import (
    load4_streaming,
    load_streaming,
    store4_streaming,
    store_streaming,
)
from course.kernels.arrays import WIDE


@dataclass(frozen=True)
class Shape:
    """The sizes to tune.

    Attributes
    ----------
    row_threads : int
        Threads that share a row: a power of two from 4 to 1,024. Up to 32 need shuffles alone.
    rows : int
        Rows of a block; rows x row_threads is a multiple of 32.
    accesses : int
        Loads of four elements that a thread has under way together, its whole part of the row.
    """

    row_threads: int
    rows: int
    accesses: int

    @property
    def capacity(self) -> int:
        """The longest row."""
        return self.row_threads * self.accesses * WIDE

    def full(self, columns: int, aligned: bool) -> int:
        """Loads of a thread that are inside a row of this length for every thread."""
        if aligned:
            return min(columns // (self.row_threads * WIDE), self.accesses)
        return min(columns // self.row_threads, self.accesses * WIDE)


#: Accesses of four elements: what a thread has of a row where there are threads enough. float16's
#: are half as many bytes, and single elements four times as many accesses. Measured on an H200.
MOST_ACCESSES, MOST_OF_HALVES, MOST_UNALIGNED = 3, 8, 4
FEWEST_THREADS, MOST_THREADS = 4, 1024  # that share a row
BLOCK = 64  # threads of a block, at least


def most_accesses(stored: str, aligned: bool) -> int:
    """Accesses that a thread has of a row, at most, where there are threads enough."""
    if stored == "float16":
        return MOST_OF_HALVES
    return MOST_ACCESSES if aligned else MOST_UNALIGNED


def shape_for(columns: int, most: int = MOST_ACCESSES) -> Shape:
    """The shape for rows of so many elements, `most` accesses a thread where there are threads."""
    row_threads = FEWEST_THREADS
    while row_threads < MOST_THREADS and row_threads * most * WIDE < columns:
        row_threads *= 2
    accesses = max(1, -(-columns // (row_threads * WIDE)))
    return Shape(row_threads, max(1, BLOCK // row_threads), accesses)


@functools.cache
def part_of_row(shape: Shape, aligned: bool, full: int) -> tuple[Callable, Callable, Callable]:
    """Device functions of a thread's part of a row: bring it, what of it is inside, put it.

    Numbers are arrays (accesses, 4). Where rows begin on a multiple of four elements, access n is
    the four columns from ``4 (n row_threads + t)`` on; else neighbouring threads have neighbouring
    columns. The first `full` loads need no guard; others take the row's last elements where they
    are beyond its end. No cache need keep a row. Columns are counted in 64 bits, so that a thread's
    addresses are one register and constants.
    """
    row_threads, accesses = shape.row_threads, shape.accesses

    @cuda.jit(device=True)
    def inside(n, e, t, columns):
        """Whether number e of access n is in the row."""
        if aligned:
            return n < full or int64(t) * WIDE + n * row_threads * WIDE < columns
        return n * WIDE + e < full or int64(t) + (n * WIDE + e) * row_threads < columns

    if aligned:

        @cuda.jit(device=True)
        def bring(x, row, t, numbers):
            for n in range(accesses):
                column = int64(t) * WIDE + n * row_threads * WIDE
                near = column if n < full else min(column, int64(x.shape[1] - WIDE))
                four = load4_streaming(x, (row, near))
                numbers[n, 0], numbers[n, 1], numbers[n, 2], numbers[n, 3] = four

        @cuda.jit(device=True)
        def put(out, row, t, numbers):
            for n in range(accesses):
                column = int64(t) * WIDE + n * row_threads * WIDE
                if n < full or column < out.shape[1]:
                    four = numbers[n, 0], numbers[n, 1], numbers[n, 2], numbers[n, 3]
                    store4_streaming(out, (row, column), four)

    else:

        @cuda.jit(device=True)
        def bring(x, row, t, numbers):
            for n in range(accesses):
                for e in range(WIDE):
                    column = int64(t) + (n * WIDE + e) * row_threads
                    near = column if n * WIDE + e < full else min(column, int64(x.shape[1] - 1))
                    numbers[n, e] = load_streaming(x, (row, near))

        @cuda.jit(device=True)
        def put(out, row, t, numbers):
            for n in range(accesses):
                for e in range(WIDE):
                    column = int64(t) + (n * WIDE + e) * row_threads
                    if n * WIDE + e < full or column < out.shape[1]:
                        store_streaming(out, (row, column), numbers[n, e])

    return bring, inside, put
