"""Jacobi rotations that make a matrix's rows orthogonal: a block a matrix, a warp a pair of rows.

Two rows x and y with lengths |x|^2 = a and |y|^2 = b and the product x y = g become

    c x - s y,  s x + c y        tan 2 angle = 2 g / (b - a)

which are orthogonal. A sweep rotates every pair once. It takes n - 1 steps, in each of which n / 2
pairs without a common row rotate in parallel, as in a round-robin tournament. All rotations of w's
rows are applied to k's rows, too: at the end w = J' x and k = J' k0, with J orthogonal.

Source: M. Hestenes, "Inversion of matrices by biorthogonalization and related results", J. SIAM 6
(1958); R. Brent and F. Luk, "The solution of singular-value and symmetric eigenvalue problems on
multiprocessor arrays", SIAM J. Sci. Stat. Comput. 6 (1985).
"""

import math

from numba import float32, int32

from course.backend import cuda
from course.kernels.warps import ALL
from warpsim.ptx import load, store

WARPS = 16  # of a block
THREADS = 32 * WARPS
SHARED_ROWS = 64  # rows and columns that fit into shared memory, w and k together

#: SMALL: rows rotate if the cosine of their angle is larger. It is a unit of float32's last place:
#: rounding alone changes rows as much. DONE: no sweep follows one whose largest cosine is at most
#: this.
SMALL, DONE = 1e-7, 1.2e-6
LEAST = 1e-36  # below every squared length but noise, and a normal number, so that rsqrt takes it
#: Once the largest cosine is below this, k is made orthonormal again, see `course.kernels.svd`.
NEAR = 0.03
#: The same for kernels that rotate pair by pair. These round a row in each of its rotations, not
#: once for 63 of them, so fewer sweeps may follow the refresh.
NEAR_BY_PAIRS = 1e-3
#: Rows up to this part of the longest row's length are noise: rounding makes as much. Their
#: direction means nothing, so they are not rotated.
NOISE = 2.0**-22

#: What a matrix waits for: sweeps, a refresh, nothing more.
ROTATES, REFRESHES, FINISHED = 0, 1, 2


@cuda.jit(device=True)
def partners(step, pair, n):
    """The rows of a pair in a step of a round-robin tournament of n rows, n even.

    The last row stays. From step to step the first rows of the pairs move to the pair before, the
    second ones to the pair behind: the first of pair p is that of pair p + 1 in the step before.
    """
    last = int32(n - 1)
    if pair == 0:
        return last, int32(step)
    one, other = int32(step + pair), int32(step - pair)
    if one >= last:
        one = int32(one - last)
    if other < 0:
        other = int32(other + last)
    return one, other


@cuda.jit(device=True)
def cosine(a, b, g, floor):
    """|cos| of the angle of two rows with squared lengths a, b and product g; 0 for noise."""
    if min(a, b) <= floor:
        return float32(0)
    return abs(g) / (math.sqrt(a) * math.sqrt(b))


@cuda.jit(device=True)
def rotation(a, b, g):
    """Return (sin, 1 - cos) of the rotation that makes g zero; its angle is 45 degrees at most.

    With 1 - cos a rotation by a small angle changes an element by a small amount, rounded as such.
    """
    tau = (b - a) / (float32(2) * g)
    t = float32(1) / (abs(tau) + math.sqrt(float32(1) + tau * tau))
    if tau < float32(0):
        t = -t
    c = float32(1) / math.sqrt(float32(1) + t * t)
    s = t * c
    return s, s * s / (float32(1) + c)


@cuda.jit(device=True)
def rotation_at_once(a, b, g, floor):
    """The `cosine` of two rows, and (sin, 1 - cos, tan) of `rotation`, 0 where nothing rotates.

    There is no branch and no slow operation, since other threads wait for the rotation. However the
    angle is rounded, 1 - cos fits the sine to a few units of the last place.
    """
    inverse = cuda.libdevice.rsqrtf(max(a, float32(LEAST)))
    inverse *= cuda.libdevice.rsqrtf(max(b, float32(LEAST)))
    twice, difference = float32(2) * g * inverse, (b - a) * inverse
    square = max(twice * twice + difference * difference, float32(LEAST))
    inverse = cuda.libdevice.rsqrtf(square)
    squared_cosine = float32(0.5) + float32(0.5) * abs(difference) * inverse
    other = cuda.libdevice.rsqrtf(squared_cosine)
    s = float32(0.5) * twice * inverse * other
    s = s if difference >= float32(0) else -s
    d = cuda.libdevice.fast_fdividef(s * s, float32(1) + squared_cosine * other)
    before = float32(0.5) * abs(twice) if min(a, b) > floor else float32(0)
    if before <= float32(SMALL):
        s, d = float32(0), float32(0)
    return before, s, d, s * other


@cuda.jit(device=True)
def _rotate_rows(x, i, j, s, d):
    """Rotate rows i and j of x, by a warp."""
    for column in range(cuda.threadIdx.x % 32, x.shape[1], 32):
        p, q = load(x, (i, column)), load(x, (j, column))
        store(x, (i, column), p - (d * p + s * q))
        store(x, (j, column), q + (s * p - d * q))


@cuda.jit(device=True)
def _rotate_pair(w, k, i, j, floor):
    """Make rows i and j of w orthogonal, by a warp; return the cosine that they had."""
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(cuda.threadIdx.x % 32, w.shape[1], 32):
        p, q = load(w, (i, column)), load(w, (j, column))
        a += p * p
        b += q * q
        g += p * q
    for step in range(5):
        a += cuda.shfl_xor_sync(ALL, a, 16 >> step)
        b += cuda.shfl_xor_sync(ALL, b, 16 >> step)
        g += cuda.shfl_xor_sync(ALL, g, 16 >> step)
    before = cosine(a, b, g, floor)
    if before > float32(SMALL):
        s, d = rotation(a, b, g)
        _rotate_rows(w, i, j, s, d)
        _rotate_rows(k, i, j, s, d)
    return before


@cuda.jit(device=True)
def _sweeps(w, k, floor, goal, most, found):
    """Sweep until the largest cosine is at most the goal; return it, and how many sweeps."""
    warp, lane, n = int32(cuda.threadIdx.x) // 32, int32(cuda.threadIdx.x) % 32, int32(w.shape[0])
    largest, done = float32(2), int32(0)
    while largest > goal and done < most:
        mine = float32(0)
        for step in range(n - 1):
            for pair in range(warp, n // 2, WARPS):
                i, j = partners(step, pair, n)
                mine = max(mine, _rotate_pair(w, k, i, j, floor))
            cuda.syncthreads()
        if lane == 0:
            found[warp] = mine
        cuda.syncthreads()
        largest = found[0]
        for other in range(1, WARPS):
            largest = max(largest, found[other])
        cuda.syncthreads()
        done += 1
    return largest, done


@cuda.jit(device=True)
def _keep(matrix, largest, done, cosines, since):
    """Report to `judge` of `course.kernels.svd.scaling_sorting` how far a matrix has come."""
    if cuda.threadIdx.x == 0:
        cosines[matrix] = largest
        if since[matrix] >= 0:
            since[matrix] += done


@cuda.jit
def rotate_plain(w, k, floor, most, cosines, since, state):
    """Sweeps over matrices in global memory: w and k, (batch, n, columns), n even, of any size."""
    found = cuda.shared.array(WARPS, float32)
    matrix = cuda.blockIdx.x
    if state[matrix] == FINISHED:
        return
    goal = float32(NEAR_BY_PAIRS if since[matrix] < 0 else DONE)
    largest, done = _sweeps(w[matrix], k[matrix], floor[matrix], goal, most, found)
    _keep(matrix, largest, done, cosines, since)


@cuda.jit(device=True)
def _copy(there, here, back):
    rows, columns = int32(there.shape[0]), int32(there.shape[1])
    for n in range(int32(cuda.threadIdx.x), rows * columns, THREADS):
        i, j = n // columns, n % columns
        if back:
            there[i, j] = here[i, j]
        else:
            here[i, j] = there[i, j]


@cuda.jit
def rotate_shared(w, k, floor, most, cosines, since, state):
    """As `rotate_plain`, in shared memory: n and the columns are at most `SHARED_ROWS`."""
    found = cuda.shared.array(WARPS, float32)
    rows_w = cuda.shared.array((SHARED_ROWS, SHARED_ROWS), float32)
    rows_k = cuda.shared.array((SHARED_ROWS, SHARED_ROWS), float32)
    matrix = cuda.blockIdx.x
    if state[matrix] == FINISHED:
        return
    n = w.shape[1]
    here_w, here_k = rows_w[:n, :n], rows_k[:n, :n]
    _copy(w[matrix], here_w, False)
    _copy(k[matrix], here_k, False)
    cuda.syncthreads()
    goal = float32(NEAR_BY_PAIRS if since[matrix] < 0 else DONE)
    largest, done = _sweeps(here_w, here_k, floor[matrix], goal, most, found)
    _copy(w[matrix], here_w, True)
    _copy(k[matrix], here_k, True)
    _keep(matrix, largest, done, cosines, since)
