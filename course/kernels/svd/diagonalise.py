"""Diagonalise a 64 x 64 matrix in shared memory by Jacobi rotations: one sweep, a thread block.

In each of 63 rounds 32 pairs of rows and columns rotate: g becomes q' g q. Elements are stored by
the seats of the round-robin tournament, not by the matrix's rows: seats (p, 0) and (p, 1) are the
two players of pair p, and after a round players move on,

    (0, 0) stays, (1, 0) -> (0, 1), (p, 0) -> (p - 1, 0), (p, 1) -> (p + 1, 1), (31, 1) -> (31, 0)

So a thread's addresses are the same in every round. Two pairs share 2 x 2 elements of g, a quad,
which one thread rotates. As g is symmetric, the 496 quads of pairs p < q are enough, for 512
threads. Warp w has rows w and 31 - w of that triangle, 31 quads together. Behind all those, a pair
has a quad with itself: its squared lengths a and b, and its product. A quad's four elements lie in
four planes, so that neighbouring threads read neighbouring banks.

Columns of q stay in registers: a lane has the two of its pair, a warp four rows of them. They move
on by shuffles.
"""

import math

from numba import float32, int32

from course.backend import cuda
from course.kernels.svd.rotate import partners, rotation_at_once
from course.kernels.warps import ALL, lanes_sum
from warpsim.ptx import load, load2, store, store2

PAIRS = 32
PLAYERS = 2 * PAIRS
ROUNDS = PLAYERS - 1
WARPS = 16
THREADS = 32 * WARPS
OWN = PLAYERS // WARPS  # rows of q that a warp has
QUADS = PAIRS + 1  # pitch of warps' quads, of which a warp uses 31
#: Where the quads of pairs with themselves begin, and elements from plane to plane. Of those that
#: fit, these have the fewest bank conflicts when players move on (125 wavefronts a round, not 155).
OWN_QUADS, PLANE = WARPS * QUADS + 1, 575
STATE = 4 * PLANE  # elements of four planes; there are two states, before and after a round
PITCH = PLAYERS + 8  # of rows in shared memory: four rows of eight elements lie in 32 banks
SUMS = THREADS // PLAYERS  # partial sums of a column

sum_of_warp = lanes_sum(32)


@cuda.jit(device=True)
def _quad(p, q):
    """The index of the quad of pairs p <= q."""
    if p == q:
        return int32(OWN_QUADS + p)
    return int32(p * QUADS + q - p - 1 if p < WARPS else (31 - p) * QUADS + q - 1)


@cuda.jit(device=True)
def _next_seat(p, side):
    """The seat, pair and side, to which the player of a seat moves for the next round."""
    if side == 0:
        return int32(max(0, p - 1)), int32(1 if p == 1 else 0)
    return int32(min(31, p + 1)), int32(0 if p == 31 else 1)


@cuda.jit(device=True)
def index_after(p, a, q, b):
    """The index of the element of players (p, a) and (q, b) after the round."""
    p, a = _next_seat(p, a)
    q, b = _next_seat(q, b)
    if p == q:
        plane = 2 * a + b if a == b else 1
    else:
        plane = 2 * a + b if p < q else 2 * b + a
    return int32(plane * PLANE + _quad(min(p, q), max(p, q)))


@cuda.jit(device=True)
def _seated(g, p, a, q, b):
    """The element of players (p, a) and (q, b) before the first round, from g's upper triangle."""
    one, other = partners(0, p, PLAYERS), partners(0, q, PLAYERS)
    i, j = one[1] if a else one[0], other[1] if b else other[0]
    return g[min(i, j) * PITCH + max(i, j)]


@cuda.jit(device=True)
def _rotate_own(h, before, after, quad, to_a, to_b, to_product, floor, rotations):
    """Find the rotation of a lane's pair, by one warp, and rotate the pair's own elements."""
    lane = int32(cuda.threadIdx.x)
    a, b = load(h, before + quad), load(h, before + quad + 3 * PLANE)
    product = load(h, before + quad + PLANE)
    _, sine, rest, tangent = rotation_at_once(a, b, product, floor)
    change = tangent * product
    a, b, product = a - change, b + change, product if sine == float32(0) else float32(0)
    store(h, after + to_a, a)
    store(h, after + to_b, b)
    store(h, after + to_product, product)
    store2(rotations, 2 * lane, (sine, float32(1) - rest))


@cuda.jit(device=True)
def _rotate_quad(h, before, quad, after, w, x, y, z, rows, columns):
    """Rotate a quad's rows and columns by (sin, cos); w, x, y, z: where its elements move."""
    e, f = load(h, before + quad), load(h, before + quad + PLANE)
    g, i = load(h, before + quad + 2 * PLANE), load(h, before + quad + 3 * PLANE)
    s, c = rows
    e, g = c * e - s * g, s * e + c * g
    f, i = c * f - s * i, s * f + c * i
    s, c = columns
    e, f = c * e - s * f, s * e + c * f
    g, i = c * g - s * i, s * g + c * i
    store(h, after + w, e)
    store(h, after + x, f)
    store(h, after + y, g)
    store(h, after + z, i)


@cuda.jit(device=True)
def _rotate_q(one, other, rotation_of_pair):
    """Rotate the columns of q of a lane's pair, then move on; one, other: its players' rows."""
    lane, (s, c) = int32(cuda.threadIdx.x % 32), rotation_of_pair
    for e in range(OWN):
        x, y = one[e], other[e]
        x, y = c * x - s * y, s * x + c * y
        before, behind = cuda.shfl_down_sync(ALL, x, 1), cuda.shfl_up_sync(ALL, y, 1)
        one[e] = x if lane == 0 else (y if lane == 31 else before)
        other[e] = before if lane == 0 else behind


@cuda.jit(device=True)
def _round(h, before, after, one, other, floor, rotations, p, q, own, seats):
    """A round, from one state of h to the other; seats: where a thread's elements move."""
    t = cuda.threadIdx.x
    warp, lane = int32(t // 32), int32(t % 32)
    w, x, y, z, to_a, to_b, to_product = seats
    if warp == 0:
        _rotate_own(h, before, after, own, to_a, to_b, to_product, floor, rotations)
    cuda.syncthreads()
    if lane < 31:
        rows, columns = load2(rotations, 2 * p), load2(rotations, 2 * q)
        _rotate_quad(h, before, warp * QUADS + lane, after, w, x, y, z, rows, columns)
    _rotate_q(one, other, load2(rotations, 2 * lane))
    cuda.syncthreads()


@cuda.jit(device=True)
def _run_rounds(h, one, other, floor, rotations):
    """63 rounds; h: two states, the first one filled."""
    t = cuda.threadIdx.x
    warp, lane = int32(t // 32), int32(t % 32)
    p, q = warp, int32(warp + 1 + lane)
    if q > 31:
        p, q = int32(31 - warp), int32(min(31, 1 + lane))
    seats = (
        index_after(p, 0, q, 0), index_after(p, 0, q, 1), index_after(p, 1, q, 0),
        index_after(p, 1, q, 1), index_after(lane, 0, lane, 0), index_after(lane, 1, lane, 1),
        index_after(lane, 0, lane, 1),
    )  # fmt: skip
    own = _quad(lane, lane)
    for _ in range(ROUNDS // 2):
        _round(h, 0, STATE, one, other, floor, rotations, p, q, own, seats)
        _round(h, STATE, 0, one, other, floor, rotations, p, q, own, seats)
    _round(h, 0, STATE, one, other, floor, rotations, p, q, own, seats)


@cuda.jit(device=True)
def _rank(g, ranks):
    """ranks[i] = how many diagonal elements of g are larger than element i, or equal and before."""
    t = cuda.threadIdx.x
    warp, lane = int32(t // 32), int32(t % 32)
    for e in range(OWN):
        i = warp * OWN + e
        mine, larger = g[i * PITCH + i], int32(0)
        for j in range(lane, PLAYERS, 32):
            its = g[j * PITCH + j]
            larger += int32(its > mine or (its == mine and j < i))
        larger = sum_of_warp(larger)
        if lane == 0:
            ranks[i] = larger


@cuda.jit(device=True)
def _sharpen(g, h):
    """Make columns of q unit vectors: g is q - 1; its diagonal is computed from other elements.

    The diagonal of q, near 1, has been rounded in 63 rotations. The other elements are small, and
    so are their errors.
    """
    t = cuda.threadIdx.x
    column, share = int32(t % PLAYERS), int32(t // PLAYERS)
    total = float32(0)
    for row in range(share, PLAYERS, SUMS):
        x = load(g, row * PITCH + column)
        if row != column:
            total += x * x
    store(h, int32(t), total)
    cuda.syncthreads()
    if share == 0:
        total = float32(0)
        for other in range(SUMS):
            total += load(h, other * PLAYERS + column)
        at = column * PITCH + column
        if total < float32(0.5) and load(g, at) > float32(-1):
            store(g, at, -total / (float32(1) + math.sqrt(float32(1) - total)))


@cuda.jit(device=True)
def diagonalise(g, floor, h, rotations, ranks):
    """One sweep over g; afterwards g is q - 1, and ranks[i] the rank of row i of q' x.

    In shared memory: g, 64 rows with a pitch of PITCH elements, its upper triangle filled; h, 2
    STATE elements; rotations, 64; ranks, 64. Diagonal elements up to `floor` are noise.
    """
    one, other = cuda.local.array(OWN, float32), cuda.local.array(OWN, float32)
    t = cuda.threadIdx.x
    warp, lane = int32(t // 32), int32(t % 32)
    first, second = partners(0, lane, PLAYERS)
    for e in range(OWN):
        one[e] = float32(1) if first == warp * OWN + e else float32(0)
        other[e] = float32(1) if second == warp * OWN + e else float32(0)
    for plane in range(4):
        a, b = int32(plane // 2), int32(plane % 2)
        p, q = warp, int32(warp + 1 + lane)
        if q > 31:
            p, q = int32(31 - warp), int32(min(31, 1 + lane))
        if lane < 31:
            h[plane * PLANE + warp * QUADS + lane] = _seated(g, p, a, q, b)
        if warp == 0:
            h[plane * PLANE + _quad(lane, lane)] = _seated(g, lane, a, lane, b)
    cuda.syncthreads()
    _run_rounds(h, one, other, floor, rotations)
    if warp == 0:  # after 63 rounds all players are in their first seats
        own = STATE + _quad(lane, lane)
        g[first * PITCH + first], g[second * PITCH + second] = h[own], h[own + 3 * PLANE]
    cuda.syncthreads()
    _rank(g, ranks)
    cuda.syncthreads()
    for e in range(OWN):
        i = warp * OWN + e
        g[i * PITCH + first] = one[e] - (float32(1) if i == first else float32(0))
        g[i * PITCH + second] = other[e] - (float32(1) if i == second else float32(0))
    cuda.syncthreads()
    _sharpen(g, h)
    cuda.syncthreads()
