"""The product of two matrices, for each pair of a batch: what the SVD does between its rotations.

A block of 128 threads computes 64 x 64 results of one matrix, 8 x 4 a thread. Tiles of both
factors, 16 deep, go through shared memory: each element is read from global memory once for 64
results, and the next tiles are in flight while these are multiplied. What a tile gives is summed
before it is added to the rest: a sum of 256 equal numbers, one by one, would be wrong by several
units of the last place, always in the same direction.

The loop is that of `course.kernels.gemm.float32`, the loads are not. With both as forms of one
kernel, of the same bits, an H200 took 1 to 7% longer for these, 4 to 7% less for a b', and for
single matrices whose rows are not aligned 21 to 28% longer.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.kernels.arrays import Array
from course.kernels.steps import Launch, ceil_div
from warpsim.ptx import load, load4, store

TILE, DEPTH, THREADS = 64, 16, 128
FETCHED = TILE * DEPTH // THREADS  # elements of a tile that a thread loads
PITCH = TILE + 4  # of a tile's rows: neighbours down a column lie in other banks


def make_product(transpose_a: bool, transpose_b: bool) -> Callable:
    """The kernel of one choice of which factors are transposed; see `multiply`."""

    @cuda.jit(device=True)
    def load_share(a, matrix, first, start, transposed, numbers):
        """Load a thread's share of 16 x 64 elements; neighbours take neighbours in memory."""
        for go in range(FETCHED):
            n = int32(cuda.threadIdx.x + go * THREADS)
            if transposed:
                row, column = int32(start + n // TILE), int32(first + n % TILE)
            else:
                row, column = int32(first + n // DEPTH), int32(start + n % DEPTH)
            inside = row < a.shape[1] and column < a.shape[2]
            numbers[go] = load(a, (int32(matrix), row, column)) if inside else float32(0)

    @cuda.jit(device=True)
    def store_share(numbers, transposed, tile):
        for go in range(FETCHED):
            n = int32(cuda.threadIdx.x + go * THREADS)
            if transposed:
                store(tile, (int32(n // TILE), int32(n % TILE)), numbers[go])
            else:
                store(tile, (int32(n % DEPTH), int32(n // DEPTH)), numbers[go])

    @cuda.jit
    def product(a, b, alpha, beta, c, out, state, wanted):
        """out = alpha op(a) op(b) + beta c, of the matrices whose state is wanted."""
        a_tile = cuda.shared.array((DEPTH, PITCH), float32)
        b_tile = cuda.shared.array((DEPTH, PITCH), float32)
        total, part = cuda.local.array((8, 4), float32), cuda.local.array((8, 4), float32)
        next_a, next_b = cuda.local.array(FETCHED, float32), cuda.local.array(FETCHED, float32)
        matrix = cuda.blockIdx.x
        if state[matrix] != wanted:
            return
        from_b = matrix if b.shape[0] > 1 else 0  # it may be the same for all
        t = int32(cuda.threadIdx.x)
        first_row, first_column = cuda.blockIdx.y * TILE, cuda.blockIdx.z * TILE
        row, column = t // 16 * 4, t % 16 * 4
        for i in range(8):
            for j in range(4):
                total[i, j] = float32(0)
        load_share(a, matrix, first_row, 0, transpose_a, next_a)
        load_share(b, from_b, first_column, 0, not transpose_b, next_b)
        depth = a.shape[1] if transpose_a else a.shape[2]
        for start in range(0, depth, DEPTH):
            store_share(next_a, transpose_a, a_tile)
            store_share(next_b, not transpose_b, b_tile)
            cuda.syncthreads()
            # the next tiles, while these are used
            load_share(a, matrix, first_row, start + DEPTH, transpose_a, next_a)
            load_share(b, from_b, first_column, start + DEPTH, not transpose_b, next_b)
            for i in range(8):
                for j in range(4):
                    part[i, j] = float32(0)
            for k in range(DEPTH):
                w, x = load4(a_tile, (k, row)), load4(a_tile, (k, row + TILE // 2))
                y = load4(b_tile, (k, column))
                for i in range(4):
                    for j in range(4):
                        part[i, j] += w[i] * y[j]
                        part[i + 4, j] += x[i] * y[j]
            for i in range(8):
                for j in range(4):
                    total[i, j] += part[i, j]
            cuda.syncthreads()
        for i in range(8):
            for j in range(4):
                down = first_row + row + (i if i < 4 else i + TILE // 2 - 4)
                across = first_column + column + j
                if down < out.shape[1] and across < out.shape[2]:
                    value = alpha * total[i, j]
                    if beta != float32(0):
                        value += beta * c[matrix, down, across]
                    out[matrix, down, across] = value

    return product


#: By whether a and b are transposed.
PRODUCTS = {
    (transpose_a, transpose_b): make_product(transpose_a, transpose_b)
    for transpose_a, transpose_b in ((False, False), (False, True), (True, False), (True, True))
}


def multiply(
    a: Array, b: Array, out: Array, state: Array, wanted: int = 0, *, transpose_a: bool = False,
    transpose_b: bool = False, alpha: float = 1.0, beta: float = 0.0, c: Array | None = None,
    stream: Any = 0,
) -> None:  # fmt: skip
    """Launch out = alpha op(a) op(b) + beta c for each matrix of a batch whose state is `wanted`.

    Device arrays of float32, (batch, rows, columns); op transposes where `transpose_a` and
    `transpose_b` say so. The batch of `b` may be 1: the same for all. Results beyond the shape of
    `out` are dropped; without `c` nothing is added.
    """
    batch, rows, columns = out.shape
    grid = batch, ceil_div(rows, TILE), ceil_div(columns, TILE)
    factors = np.float32(alpha), np.float32(beta)
    arguments = (a, b, *factors, out if c is None else c, out, state, np.int32(wanted))
    Launch(PRODUCTS[transpose_a, transpose_b], grid, THREADS, arguments).on(stream)
