"""Jacobi rotations block by block: a thread block makes 64 rows orthogonal, two blocks of 32.

Rotating two rows moves them through memory for one rotation. Here 64 rows are loaded once for 2,016
rotations:

1. the Gram matrix g = x x' of the 64 rows, 64 x 64, into shared memory;
2. a sweep of rotations over g, while q gathers them (`course.kernels.svd.diagonalise`): q' g q is
   nearly diagonal;
3. the rows become q' x, longest first.

Blocks of 32 rows are paired in a round-robin tournament, as rows are. A sweep over the matrix is a
launch for each step of it. The rows are multiplied as x + (q - 1)' x. Where they are nearly
orthogonal, q - 1 is small, and rounding its product hardly matters.

The products of 1 and 3 exist twice, for CUDA cores and for tensor cores (8.0). For the latter a
float32 element is the sum of two of TF32, upper + lower, and a product of two is

    x y = upper upper' + upper lower' + lower upper'

but for what float32 would round away. Tensor cores truncate when they add. So their sums are added
up in float32: the Gram matrix's after 64 columns, the rows' after 16.

Each of 16 warps computes 16 x 16 elements (`warpsim.ptx.mma_tf32`). Lane l has g = l // 4 and q = l
% 4. Of an A operand, 16 x 8, it holds rows g and g + 8, columns q and q + 4. Of a B operand, 8 x
16, it holds rows q and q + 4, columns g and g + 8. The depth may run in any order that both
operands share. Where both are rows of x, a lane takes depths 2 q and 2 q + 1, neighbours that one
load has. With a pitch of 72 elements, a warp reads 32 banks either way.

The limits on an H200, timed with and without 2: one matrix of 512 x 512 takes 153 us a launch, 74
without 2. The rotations depend on each other: they take 79 us however few matrices there are. With
many, 1 and 3 take longest: 236 of 418 us for 256 of 256 x 256, 870 of 1,202 for 256 of 512 x 512.
Alone, the latter's memory traffic would take 320 us, its tensor cores 360.
"""

from collections.abc import Callable
from typing import Any

from numba import float32, int32

from course.backend import cuda, jit_without_lto
from course.kernels.svd.diagonalise import OWN, PITCH, PLAYERS, THREADS, WARPS, diagonalise
from course.kernels.svd.rotate import DONE, FINISHED, cosine, partners
from course.kernels.svd.scaling_sorting import largest_of_warp
from warpsim.ptx import load, load2, load4, mma_tf32, round_tf32, store2, store4

BLOCK = 32  # rows of a block
PAIR = PLAYERS  # rows of a pair of blocks
SQUARE = PAIR * PITCH


@cuda.jit(device=True)
def blocks_of(step, pair, blocks):
    """The two blocks of a pair, the lower index first; (0, 0) where one has no partner."""
    one, other = partners(step, pair, blocks + blocks % 2)
    if max(one, other) >= blocks:
        return int32(0), int32(0)
    return min(one, other), max(one, other)


@cuda.jit(device=True)
def row_of(i, low, high):
    """The row of the matrix that is row i of a pair of blocks."""
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
    largest = largest_of_warp(largest)
    if t % 32 == 0:
        found[t // 32] = largest
    cuda.syncthreads()
    for warp in range(WARPS):
        largest = max(largest, found[warp])
    return largest


# --- 64 columns at a time ------------------------------------------------------------------------


@cuda.jit(device=True)
def load_rows(rows, low, high, start, x):
    """Load 64 columns of the 64 rows, from `start` on, to shared memory; zeros beyond the last."""
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
    """Compute g, the Gram matrix of the 64 rows: 4 x 2 elements a thread."""
    total = cuda.local.array((OWN, 2), float32)
    warp, lane = int32(cuda.threadIdx.x // 32), int32(cuda.threadIdx.x % 32)
    for i in range(OWN):
        total[i, 0], total[i, 1] = float32(0), float32(0)
    for start in range(0, rows.shape[1], PAIR):
        load_rows(rows, low, high, start, x)
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
def rotate_rows(rows, low, high, q, ranks, x):
    """Replace the rows by x + q' x, each stored at its rank: 4 x 2 elements a thread."""
    total = cuda.local.array((OWN, 2), float32)
    warp, lane = int32(cuda.threadIdx.x // 32), int32(cuda.threadIdx.x % 32)
    for start in range(0, rows.shape[1], PAIR):
        load_rows(rows, low, high, start, x)
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
                row = row_of(ranks[warp * OWN + i], low, high)
                store2(rows, (row, column), (two[0] + total[i, 0], two[1] + total[i, 1]))


# --- the kernel ----------------------------------------------------------------------------------


def make_rotate(gram: Callable, rotate: Callable, **options: Any) -> Callable:
    """The kernel of one step of a sweep; `gram` and `rotate` are the functions that multiply.

    It takes w and k, (batch, n, n), n a multiple of 32; the grid is (batch, pairs of blocks). The
    two functions take arguments as `gram_rows` and `rotate_rows` do.
    """

    @jit_without_lto(fastmath=True, **options)
    def rotate_blocks(w, k, floor, step, cosines, state):
        x, g = cuda.shared.array(SQUARE, float32), cuda.shared.array(SQUARE, float32)
        rotations = cuda.shared.array(PAIR, float32)
        ranks = cuda.shared.array(PAIR, int32)
        found = cuda.shared.array(WARPS, float32)
        matrix = cuda.blockIdx.x
        low, high = blocks_of(step, cuda.blockIdx.y, w.shape[1] // BLOCK)
        if state[matrix] == FINISHED or low == high:
            return
        gram(w[matrix], low, high, x, g)
        cuda.syncthreads()
        largest = largest_cosine(g, floor[matrix], found)
        if cuda.threadIdx.x == 0:
            cuda.atomic.max(cosines, matrix, largest)
        if largest <= float32(DONE):
            return
        diagonalise(g, floor[matrix], x, rotations, ranks)
        rotate(w[matrix], low, high, g, ranks, x)
        rotate(k[matrix], low, high, g, ranks, x)

    return rotate_blocks


rotate_blocks = make_rotate(gram_rows, rotate_rows)

# --- products on tensor cores --------------------------------------------------------------------

CAPABILITY = (8, 0)  # the oldest that has the instructions
REGISTERS = 64  # of a thread: two blocks share a multiprocessor
FOUR, EIGHT = 4 * PITCH, 8 * PITCH  # rows in shared memory
TAKEN_OUT = 16  # rows of x after which tensor cores' sums are added in float32


@cuda.jit(device=True)
def _split(x):
    upper = round_tf32(x)
    return upper, x - upper


@cuda.jit(device=True)
def _multiply(total, a, b):
    """total += a b, both float32: a lane has 4 elements of a, and 2 of b for each product."""
    a0, a1, a2, a3 = _split(a[0]), _split(a[1]), _split(a[2]), _split(a[3])
    upper, lower = (a0[0], a1[0], a2[0], a3[0]), (a0[1], a1[1], a2[1], a3[1])
    for half in range(2):
        b0, b1 = _split(b[2 * half]), _split(b[2 * half + 1])
        c = total[half, 0], total[half, 1], total[half, 2], total[half, 3]
        c = mma_tf32(c, lower, (b0[0], b1[0]))
        c = mma_tf32(c, upper, (b0[1], b1[1]))
        c = mma_tf32(c, upper, (b0[0], b1[0]))
        total[half, 0], total[half, 1], total[half, 2], total[half, 3] = c


@cuda.jit(device=True)
def _clear(total):
    for half in range(2):
        for e in range(4):
            total[half, e] = float32(0)


@cuda.jit(device=True)
def _add(total, part):
    for half in range(2):
        for e in range(4):
            total[half, e] += part[half, e]


@cuda.jit(device=True)
def _lane_tile():
    """The first row and column of a warp's 16 x 16 elements, and its lane's g and q."""
    t = cuda.threadIdx.x
    return int32(t // 128 * 16), int32(t // 32 % 4 * 16), int32(t % 32 // 4), int32(t % 4)


@cuda.jit(device=True)
def gram_tensor(rows, low, high, x, g):
    """g = the Gram matrix of the 64 rows, its upper triangle."""
    total, part = cuda.local.array((2, 4), float32), cuda.local.array((2, 4), float32)
    b = cuda.local.array(4, float32)
    down, across, group, quarter = _lane_tile()
    _clear(total)
    for start in range(0, rows.shape[1], PAIR):
        load_rows(rows, low, high, start, x)
        if down <= across:
            _clear(part)
            for step in range(0, PAIR, 8):
                i = int32((down + group) * PITCH + step + 2 * quarter)
                j = int32((across + group) * PITCH + step + 2 * quarter)
                first, second = load2(x, i), load2(x, i + EIGHT)
                a = first[0], second[0], first[1], second[1]
                b[0], b[1] = load2(x, j)
                b[2], b[3] = load2(x, j + EIGHT)
                _multiply(part, a, b)
            _add(total, part)
    if down <= across:
        for half in range(2):
            i, j = down + group, across + 8 * half + 2 * quarter
            store2(g, i * PITCH + j, (total[half, 0], total[half, 1]))
            store2(g, (i + 8) * PITCH + j, (total[half, 2], total[half, 3]))


@cuda.jit(device=True)
def rotate_tensor(rows, low, high, q, ranks, x):
    """rows = x + q' x, each row to its rank."""
    total, part = cuda.local.array((2, 4), float32), cuda.local.array((2, 4), float32)
    b = cuda.local.array(4, float32)
    down, across, group, quarter = _lane_tile()
    i = down + group
    first, second = row_of(ranks[i], low, high), row_of(ranks[i + 8], low, high)
    for start in range(0, rows.shape[1], PAIR):
        load_rows(rows, low, high, start, x)
        _clear(total)
        for top in range(0, PAIR, TAKEN_OUT):
            _clear(part)
            for step in range(top, top + TAKEN_OUT, 8):
                k = int32((step + quarter) * PITCH + i)
                a = load(q, k), load(q, k + 8), load(q, k + FOUR), load(q, k + FOUR + 8)
                j = int32((step + quarter) * PITCH + across + group)
                b[0], b[1] = load(x, j), load(x, j + FOUR)
                b[2], b[3] = load(x, j + 8), load(x, j + FOUR + 8)
                _multiply(part, a, b)
            _add(total, part)
        for half in range(2):
            j = across + 8 * half + 2 * quarter
            if start + j < rows.shape[1]:
                two, four = load2(x, i * PITCH + j), load2(x, i * PITCH + EIGHT + j)
                column = start + j
                store2(rows, (first, column), (two[0] + total[half, 0], two[1] + total[half, 1]))
                store2(rows, (second, column), (four[0] + total[half, 2], four[1] + total[half, 3]))


#: The kernel of one step of a sweep. It is in a dictionary, as it is not for every GPU.
ROTATE = {"tensor": make_rotate(gram_tensor, rotate_tensor, max_registers=REGISTERS)}
