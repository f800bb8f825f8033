"""Jacobi rotations block by block: a thread block makes 64 rows orthogonal, two blocks of 32.

Rotating two rows moves them through memory for one rotation. Here 64 rows come once for 2,016:

1. the Gram matrix g = x x' of the 64 rows, 64 x 64, into shared memory;
2. a sweep of rotations over g, while q gathers them (`course.kernels.svd_inner`): q' g q is
   nearly diagonal;
3. the rows become q' x, longest first.

The blocks of 32 rows meet as the rows do, in a tournament: a sweep over the matrix is one launch a
turn. What has to be multiplied is q - 1, small where rows are nearly orthogonal, so that what its
product is rounded to hardly matters: x + (q - 1)' x.
"""

from collections.abc import Callable
from typing import Any

from numba import float32, int32

from course.backend import cuda, jit_without_lto
from course.intrinsics import load, load2, load4, store2, store4
from course.kernels.svd_inner import OWN, PITCH, PLAYERS, THREADS, WARPS, diagonalise
from course.kernels.svd_rotate import DONE, FINISHED, FULL, cosine, partners

BLOCK = 32  # rows of a block
PAIR = PLAYERS  # rows of two
SQUARE = PAIR * PITCH


@cuda.jit(device=True)
def blocks_of(turn, pair, blocks):
    """The two blocks of a pair, the lower number first; (0, 0) where one has nobody to meet."""
    one, other = partners(turn, pair, blocks + blocks % 2)
    if max(one, other) >= blocks:
        return int32(0), int32(0)
    return min(one, other), max(one, other)


@cuda.jit(device=True)
def row_of(i, low, high):
    """The matrix's row of row i of a pair of blocks."""
    return int32(low * BLOCK + i if i < BLOCK else high * BLOCK + i - BLOCK)


@cuda.jit(device=True)
def spot(i, j):
    """Where g keeps the product of rows i and j: its upper triangle is enough."""
    return int32(min(i, j) * PITCH + max(i, j))


@cuda.jit(device=True)
def largest_cosine(g, floor, found):
    """The largest cosine between two of the 64 rows."""
    t, largest = int32(cuda.threadIdx.x), float32(0)
    for n in range(t, PAIR * PAIR, THREADS):
        i, j = int32(n // PAIR), int32(n % PAIR)
        if i < j:
            lengths = load(g, spot(i, i)), load(g, spot(j, j))
            largest = max(largest, cosine(lengths[0], lengths[1], load(g, spot(i, j)), floor))
    for step in range(5):
        largest = max(largest, cuda.shfl_xor_sync(FULL, largest, 16 >> step))
    if t % 32 == 0:
        found[t // 32] = largest
    cuda.syncthreads()
    for warp in range(WARPS):
        largest = max(largest, found[warp])
    return largest


# --- 64 columns at a time ------------------------------------------------------------------------


@cuda.jit(device=True)
def bring(rows, low, high, start, x):
    """64 columns of the 64 rows, from `start` on, to shared memory; zeros beyond the last."""
    cuda.syncthreads()
    for e in range(PAIR * PAIR // 4 // THREADS):
        n = int32(cuda.threadIdx.x + e * THREADS)
        i, j = int32(n // (PAIR // 4)), int32(n % (PAIR // 4) * 4)
        four = float32(0), float32(0), float32(0), float32(0)
        if start + j < rows.shape[1]:
            four = load4(rows, (row_of(i, low, high), start + j))
        store4(x, i * PITCH + j, four)
    cuda.syncthreads()


# --- products, without tensor cores --------------------------------------------------------------


@cuda.jit(device=True)
def gram_rows(rows, low, high, x, g):
    """g = the Gram matrix of the 64 rows: 4 x 2 numbers a thread."""
    total = cuda.local.array((OWN, 2), float32)
    warp, lane = int32(cuda.threadIdx.x // 32), int32(cuda.threadIdx.x % 32)
    for i in range(OWN):
        total[i, 0], total[i, 1] = float32(0), float32(0)
    for start in range(0, rows.shape[1], PAIR):
        bring(rows, low, high, start, x)
        for k in range(0, PAIR, 4):
            y, z = load4(x, lane * PITCH + k), load4(x, (lane + 32) * PITCH + k)
            for i in range(OWN):
                four = load4(x, (warp * OWN + i) * PITCH + k)
                for e in range(4):
                    total[i, 0] += four[e] * y[e]
                    total[i, 1] += four[e] * z[e]
    for i in range(OWN):
        row = (warp * OWN + i) * PITCH
        g[row + lane], g[row + lane + 32] = total[i, 0], total[i, 1]


@cuda.jit(device=True)
def rotate_rows(rows, low, high, q, place, x):
    """rows = x + q' x, each row to its place: 4 x 2 numbers a thread."""
    total = cuda.local.array((OWN, 2), float32)
    warp, lane = int32(cuda.threadIdx.x // 32), int32(cuda.threadIdx.x % 32)
    for start in range(0, rows.shape[1], PAIR):
        bring(rows, low, high, start, x)
        for i in range(OWN):
            total[i, 0], total[i, 1] = float32(0), float32(0)
        for k in range(PAIR):
            four, two = load4(q, k * PITCH + warp * OWN), load2(x, k * PITCH + lane * 2)
            for i in range(OWN):
                total[i, 0] += four[i] * two[0]
                total[i, 1] += four[i] * two[1]
        column = start + lane * 2
        for i in range(OWN):
            two = load2(x, (warp * OWN + i) * PITCH + lane * 2)
            if column < rows.shape[1]:
                row = row_of(place[warp * OWN + i], low, high)
                store2(rows, (row, column), (two[0] + total[i, 0], two[1] + total[i, 1]))


# --- the kernel ----------------------------------------------------------------------------------


def make_rotate(gram: Callable, rotate: Callable, **options: Any) -> Callable:
    """The kernel of one turn of a sweep, from the two functions that multiply.

    It takes w and k, (batch, n, n), n a multiple of 32; the grid is (batch, pairs of blocks). g, x
    and q as for `gram_rows` and `rotate_rows`.
    """

    @jit_without_lto(fastmath=True, **options)
    def rotate_blocks(w, k, floor, turn, cosines, state):
        x, g = cuda.shared.array(SQUARE, float32), cuda.shared.array(SQUARE, float32)
        rotations = cuda.shared.array(PAIR, float32)
        place = cuda.shared.array(PAIR, int32)
        found = cuda.shared.array(WARPS, float32)
        matrix = cuda.blockIdx.x
        low, high = blocks_of(turn, cuda.blockIdx.y, w.shape[1] // BLOCK)
        if state[matrix] == FINISHED or low == high:
            return
        gram(w[matrix], low, high, x, g)
        cuda.syncthreads()
        largest = largest_cosine(g, floor[matrix], found)
        if cuda.threadIdx.x == 0:
            cuda.atomic.max(cosines, matrix, largest)
        if largest <= float32(DONE):
            return
        diagonalise(g, floor[matrix], x, rotations, place)
        rotate(w[matrix], low, high, g, place, x)
        rotate(k[matrix], low, high, g, place, x)

    return rotate_blocks


rotate_blocks = make_rotate(gram_rows, rotate_rows)
SIGNATURE = (
    "void(float32[:, :, ::1], float32[:, :, ::1], float32[::1], int32, float32[::1], int32[::1])"
)
