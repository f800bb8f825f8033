"""Jacobi rotations block by block: a thread block makes 64 rows orthogonal, two blocks of 32.

Rotating two rows moves them through memory for one rotation. Here 64 rows come once for 2,016:

1. the Gram matrix g = x x' of the 64 rows, 64 x 64, into shared memory;
2. a sweep of rotations over g, 63 turns of 32, while q gathers them: q' g q is nearly diagonal;
3. the rows become q' x, longest first.

The blocks of 32 rows meet as the rows do, in a tournament: a sweep over the matrix is one launch a
turn. What has to be multiplied is q - 1, small where rows are nearly orthogonal, so that what its
product is rounded to hardly matters: x + (q - 1)' x.
"""

from numba import float32, int32

from course.backend import cuda
from course.intrinsics import load2, load4, store4
from course.kernels.svd_rotate import DONE, FINISHED, FULL, SMALL, cosine, partners, rotation

BLOCK = 32  # rows of a block
PAIR = 2 * BLOCK
TURNS = PAIR - 1
WARPS = 16
THREADS = 32 * WARPS
OWN = PAIR // WARPS  # rows of q that a warp keeps in registers
PITCH = PAIR + 4  # of rows in shared memory: 16 bytes from neighbouring rows lie in other banks


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
    return low * BLOCK + i if i < BLOCK else high * BLOCK + i - BLOCK


@cuda.jit(device=True)
def largest_cosine(g, floor, found):
    """The largest cosine between two of the 64 rows, from the upper triangle of g."""
    t, largest = int32(cuda.threadIdx.x), float32(0)
    for n in range(t, PAIR * PAIR, THREADS):
        i, j = n // PAIR, n % PAIR
        if i < j:
            largest = max(largest, cosine(g[i, i], g[j, j], g[i, j], floor))
    for step in range(5):
        largest = max(largest, cuda.shfl_xor_sync(FULL, largest, 16 >> step))
    if t % 32 == 0:
        found[t // 32] = largest
    cuda.syncthreads()
    for warp in range(WARPS):
        largest = max(largest, found[warp])
    return largest


@cuda.jit(device=True)
def _angles(g, turn, floor, s, d):
    """The 32 rotations of a turn, a lane each, by one warp; what they do to their own numbers."""
    lane = int32(cuda.threadIdx.x)
    i, j = partners(turn, lane, PAIR)
    low, high = min(i, j), max(i, j)
    a, b, product = g[i, i], g[j, j], g[low, high]
    sine, rest = float32(0), float32(0)
    if cosine(a, b, product, floor) > float32(SMALL):
        sine, rest = rotation(a, b, product)
        change = sine / (float32(1) - rest) * product
        g[i, i], g[j, j], g[low, high] = a - change, b + change, float32(0)
    s[lane], d[lane] = sine, rest


@cuda.jit(device=True)
def _turn_quad(g, turn, s, d):
    """Rows of one pair and columns of another meet in 2 x 2 numbers of g: a thread rotates four.

    Of the pairs p and q only p < q are needed, 496 for 512 threads: a warp takes the rows p and
    31 - p of that triangle, 31 together.
    """
    warp, lane = int32(cuda.threadIdx.x) // 32, int32(cuda.threadIdx.x) % 32
    if lane == 31:
        return
    p, q = warp, warp + 1 + lane
    if q > 31:
        p, q = 31 - warp, 1 + lane
    i, j = partners(turn, p, PAIR)
    m, n = partners(turn, q, PAIR)
    x, y = g[min(i, m), max(i, m)], g[min(i, n), max(i, n)]
    z, w = g[min(j, m), max(j, m)], g[min(j, n), max(j, n)]
    sine, rest = s[p], d[p]
    x, z = x - (rest * x + sine * z), z + (sine * x - rest * z)
    y, w = y - (rest * y + sine * w), w + (sine * y - rest * w)
    sine, rest = s[q], d[q]
    x, y = x - (rest * x + sine * y), y + (sine * x - rest * y)
    z, w = z - (rest * z + sine * w), w + (sine * z - rest * w)
    g[min(i, m), max(i, m)], g[min(i, n), max(i, n)] = x, y
    g[min(j, m), max(j, m)], g[min(j, n), max(j, n)] = z, w


@cuda.jit(device=True)
def _turn_q(one, other, sine, rest):
    """Rotate the columns of q that a lane has, its own rows of them; then pass them on.

    one[e], other[e]: row e of the first and of the second column of the lane's pair.
    """
    lane = int32(cuda.threadIdx.x) % 32
    for e in range(OWN):
        x, y = one[e], other[e]
        x, y = x - (rest * x + sine * y), y + (sine * x - rest * y)
        before, behind = cuda.shfl_down_sync(FULL, x, 1), cuda.shfl_up_sync(FULL, y, 1)
        one[e] = x if lane == 0 else (y if lane == 31 else before)
        other[e] = before if lane == 0 else behind


@cuda.jit(device=True)
def diagonalise(g, floor, s, d, place):
    """Sweep once over g; afterwards g is q - 1, and place[i] the rank of row i of q' x.

    g: (64, 64 or more), its upper triangle. s, d: 32 numbers each, place: 64, all in shared memory.
    """
    one, other = cuda.local.array(OWN, float32), cuda.local.array(OWN, float32)
    t = int32(cuda.threadIdx.x)
    warp, lane = t // 32, t % 32
    first, second = partners(0, lane, PAIR)
    for e in range(OWN):
        one[e] = float32(1) if first == warp * OWN + e else float32(0)
        other[e] = float32(1) if second == warp * OWN + e else float32(0)
    for turn in range(TURNS):
        if warp == 0:
            _angles(g, turn, floor, s, d)
        cuda.syncthreads()
        _turn_quad(g, turn, s, d)
        _turn_q(one, other, s[lane], d[lane])
        cuda.syncthreads()
    for e in range(OWN):
        i = warp * OWN + e
        mine, before = g[i, i], int32(0)
        for j in range(lane, PAIR, 32):
            before += int32(g[j, j] > mine or (g[j, j] == mine and j < i))
        for step in range(5):
            before += cuda.shfl_xor_sync(FULL, before, 16 >> step)
        if lane == 0:
            place[i] = before
    cuda.syncthreads()
    for e in range(OWN):
        i = warp * OWN + e
        g[i, first] = one[e] - (float32(1) if i == first else float32(0))
        g[i, second] = other[e] - (float32(1) if i == second else float32(0))
    cuda.syncthreads()


# --- without tensor cores ------------------------------------------------------------------------


@cuda.jit(device=True)
def _bring(rows, low, high, start, x):
    """64 columns of the 64 rows, from `start` on, to shared memory; zeros beyond the last."""
    for n in range(int32(cuda.threadIdx.x), PAIR * PAIR // 4, THREADS):
        i, j = n // (PAIR // 4), n % (PAIR // 4) * 4
        if start + j < rows.shape[1]:
            store4(x, (i, j), load4(rows, (row_of(i, low, high), start + j)))
        else:
            store4(x, (i, j), (float32(0), float32(0), float32(0), float32(0)))


@cuda.jit(device=True)
def _add_products(x, total):
    """Add what 64 columns give to a thread's 4 x 2 numbers of the Gram matrix."""
    warp, lane = int32(cuda.threadIdx.x) // 32, int32(cuda.threadIdx.x) % 32
    for k in range(0, PAIR, 4):
        y, z = load4(x, (lane, k)), load4(x, (lane + 32, k))
        for i in range(OWN):
            four = load4(x, (warp * OWN + i, k))
            for e in range(4):
                total[i, 0] += four[e] * y[e]
                total[i, 1] += four[e] * z[e]


@cuda.jit(device=True)
def _rotate_rows(rows, low, high, q, place, x):
    """rows = x + q' x, 64 columns at a time, each row to its place."""
    total = cuda.local.array((OWN, 2), float32)
    warp, lane = int32(cuda.threadIdx.x) // 32, int32(cuda.threadIdx.x) % 32
    for start in range(0, rows.shape[1], PAIR):
        cuda.syncthreads()
        _bring(rows, low, high, start, x)
        cuda.syncthreads()
        for i in range(OWN):
            total[i, 0], total[i, 1] = float32(0), float32(0)
        for k in range(PAIR):
            four, two = load4(q, (k, warp * OWN)), load2(x, (k, lane * 2))
            for i in range(OWN):
                total[i, 0] += four[i] * two[0]
                total[i, 1] += four[i] * two[1]
        column = start + lane * 2
        for i in range(OWN):
            row = row_of(place[warp * OWN + i], low, high)
            if column < rows.shape[1]:
                rows[row, column] = x[warp * OWN + i, lane * 2] + total[i, 0]
                rows[row, column + 1] = x[warp * OWN + i, lane * 2 + 1] + total[i, 1]


@cuda.jit
def rotate_blocks(w, k, floor, turn, cosines, state):
    """One turn of a sweep: w and k, (batch, n, n), n a multiple of 32. Grid: batch x pairs."""
    x = cuda.shared.array((PAIR, PITCH), float32)
    g = cuda.shared.array((PAIR, PITCH), float32)
    s, d = cuda.shared.array(BLOCK, float32), cuda.shared.array(BLOCK, float32)
    place = cuda.shared.array(PAIR, int32)
    found = cuda.shared.array(WARPS, float32)
    total = cuda.local.array((OWN, 2), float32)
    matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
    low, high = blocks_of(turn, cuda.blockIdx.y, w.shape[1] // BLOCK)
    if state[matrix] == FINISHED or low == high:
        return
    warp, lane = t // 32, t % 32
    for i in range(OWN):
        total[i, 0], total[i, 1] = float32(0), float32(0)
    for start in range(0, w.shape[2], PAIR):
        cuda.syncthreads()
        _bring(w[matrix], low, high, start, x)
        cuda.syncthreads()
        _add_products(x, total)
    for i in range(OWN):
        g[warp * OWN + i, lane], g[warp * OWN + i, lane + 32] = total[i, 0], total[i, 1]
    cuda.syncthreads()
    largest = largest_cosine(g, floor[matrix], found)
    if t == 0:
        cuda.atomic.max(cosines, matrix, largest)
    if largest <= float32(DONE):
        return
    diagonalise(g, floor[matrix], s, d, place)
    _rotate_rows(w[matrix], low, high, g, place, x)
    _rotate_rows(k[matrix], low, high, g, place, x)


SIGNATURE = (
    "void(float32[:, :, ::1], float32[:, :, ::1], float32[::1], int32, float32[::1], int32[::1])"
)
