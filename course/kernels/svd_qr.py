"""The QR decomposition of many matrices, by Householder reflections: one block a matrix.

A reflection H = I - v v' (v scaled so that v'v = 2) turns a column into a multiple of a unit
vector. Sixteen columns are a panel: a thread keeps a row of it, or up to four, in registers, and
all sixteen dot products that a reflection needs are summed at once. The columns right of the panel
then take its sixteen reflections together,

    H1 H2 ... H16 = I - V T V',

each warp 32 columns, a lane one. A column of zeros has v = 0: its H is the identity, and Q stays
orthonormal to rounding whatever the matrix's rank. That is why the SVD uses it.

Source: R. Schreiber and C. Van Loan, "A storage-efficient WY representation for products of
Householder transformations", SIAM J. Sci. Stat. Comput. 10 (1989).
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.intrinsics import load, load4, store

Array = Any  # of numba.cuda

PANEL = 16  # columns
THREADS, WARPS = 256, 8  # at most
TOGETHER = 8  # rows that a lane loads before it uses them
SEGMENT = 32  # rows that are summed before they are added to the rest, for less rounding
LONGEST = 4 * THREADS  # rows of a matrix
FULL = 0xFFFFFFFF
#: Squared length below which a column counts as zeros; numbers are about 1 at most. Float32 has
#: fewer bits from 1e-38 down.
ZERO = 1e-30


def _halver(count: int) -> Callable:
    """A lane's 2 count sums become count: each half of the lanes keeps one half of the sums."""

    @cuda.jit(device=True)
    def halve(sums):
        upper = int32(cuda.threadIdx.x) & int32(2 * count) != 0
        for c in range(count):
            mine = sums[c + count] if upper else sums[c]
            other = sums[c] if upper else sums[c + count]
            sums[c] = mine + cuda.shfl_xor_sync(FULL, other, 2 * count)

    return halve


_halve_16, _halve_8, _halve_4, _halve_2 = (_halver(count) for count in (8, 4, 2, 1))


@cuda.jit(device=True)
def _sum_lanes(sums):
    """The warp's sum of each of 16 numbers: afterwards lane l has that of number l // 2."""
    _halve_16(sums)
    _halve_8(sums)
    _halve_4(sums)
    _halve_2(sums)
    return sums[0] + cuda.shfl_xor_sync(FULL, sums[0], 1)


@cuda.jit(device=True)
def _reflect(c, v, t, first, turned, start):
    """Columns from `start` on take a panel's reflections, V T V' or, turned, V T' V'.

    c: (rows, columns), in place. v: (rows, ...), the panel from row and column `first` on. t: T.
    """
    y, z = cuda.local.array(PANEL, float32), cuda.local.array(PANEL, float32)
    part, x = cuda.local.array(PANEL, float32), cuda.local.array(TOGETHER, float32)
    rows, columns = int32(c.shape[0]), int32(c.shape[1])
    lane, below = int32(cuda.threadIdx.x % 32), int32(rows - 1)
    for strip in range(start + cuda.threadIdx.x // 32 * 32, columns, cuda.blockDim.x):
        column = int32(strip + lane)
        inside = column < columns
        for k in range(PANEL):
            y[k] = float32(0)
        for segment in range(first, rows, SEGMENT):
            for k in range(PANEL):
                part[k] = float32(0)
            for top in range(segment, min(int32(segment + SEGMENT), rows), TOGETHER):
                row = int32(top)
                for e in range(TOGETHER):
                    there = row + e < rows and inside
                    x[e] = load(c, (row + e, column)) if there else float32(0)
                for e in range(TOGETHER):
                    for k in range(0, PANEL, 4):
                        four = load4(v, (min(int32(row + e), below), first + k))
                        for n in range(4):
                            part[k + n] += four[n] * x[e]
            for k in range(PANEL):
                y[k] += part[k]
        for k in range(PANEL):
            total = float32(0)
            for i in range(PANEL):
                total += (t[i, k] if turned else t[k, i]) * y[i]
            z[k] = total
            cuda.syncwarp()  # or the compiler loads all of t at once, and has no registers left
        for top in range(first, rows, TOGETHER):
            row = int32(top)
            for e in range(TOGETHER):
                there = row + e < rows and inside
                x[e] = load(c, (row + e, column)) if there else float32(0)
            for e in range(TOGETHER):
                for k in range(0, PANEL, 4):
                    four = load4(v, (min(int32(row + e), below), first + k))
                    for n in range(4):
                        x[e] -= four[n] * z[k + n]
            for e in range(TOGETHER):
                if row + e < rows and inside:
                    store(c, (row + e, column), x[e])


@cuda.jit(device=True)
def _work_out(j, warps, sums, along, facts, pivot, dots):
    """The reflection of a panel's column j, by one warp, from dot products with x, the column.

    sums: each warp's part of them. pivot: the row in whose diagonal x ends. facts: scale and shift
    of v = scale (x + shift e). along: the products of v with all columns, with the v before j too.
    """
    t = int32(cuda.threadIdx.x)
    c = int32(t % PANEL)
    whole = float32(0)
    for warp in range(warps):
        whole += sums[warp, c]
    squared, alpha = cuda.shfl_sync(FULL, whole, j), pivot[j]
    length, scale = float32(0), float32(0)
    if squared > float32(ZERO):
        length = math.sqrt(squared)
        scale = float32(1) / math.sqrt(length * (length + abs(alpha)))
    shift = length if alpha >= float32(0) else -length
    product = scale * (whole + shift * pivot[c])
    if t < PANEL:
        along[t] = product
        if t < j:
            dots[t, j] = product
    if t == 0:
        facts[0], facts[1] = scale, shift


@cuda.jit(device=True)
def _triangle(dots, t):
    """T from the dot products of the v: its inverse is I and what is right of V'V's diagonal."""
    i = int32(cuda.threadIdx.x)
    if i < PANEL:
        for j in range(PANEL):
            total = float32(1) if i == j else float32(0)
            for k in range(i, j):
                total -= t[i, k] * dots[k, j]
            t[i, j] = total


def make_factor(own: int) -> Callable:
    """The kernel that reflects a matrix into a triangle, `own` rows to a thread."""

    @cuda.jit(device=True)
    def factor_panel(a, v, first, sums, along, facts, pivot, dots):
        """Reflect the columns of a panel: R in its upper triangle, V to global memory."""
        row = cuda.local.array((own, PANEL), float32)
        vector = cuda.local.array((own, PANEL), float32)
        partial = cuda.local.array(PANEL, float32)
        x = cuda.local.array(own, float32)
        t, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        rows, columns = int32(a.shape[0]), int32(a.shape[1])
        for o in range(own):
            for c in range(PANEL):
                inside = t + o * threads < rows and first + c < columns
                row[o, c] = a[t + o * threads, first + c] if inside else float32(0)
                vector[o, c] = float32(0)
        for j in range(PANEL):
            corner = first + j
            for o in range(own):
                x[o] = float32(0)
                for c in range(PANEL):
                    if c == j and t + o * threads >= corner:
                        x[o] = row[o, c]
            for c in range(PANEL):
                partial[c] = float32(0)
                for o in range(own):
                    partial[c] += x[o] * (vector[o, c] if c < j else row[o, c])
                    if t + o * threads == corner:
                        pivot[c] = vector[o, c] if c < j else row[o, c]
            mine = _sum_lanes(partial)
            if t % 2 == 0:
                sums[t // 32, t % 32 // 2] = mine
            cuda.syncthreads()
            if t < 32:
                _work_out(j, threads // 32, sums, along, facts, pivot, dots)
            cuda.syncthreads()
            scale, shift = facts[0], facts[1]
            for o in range(own):
                place = t + o * threads
                entry = scale * (x[o] + (shift if place == corner else float32(0)))
                for c in range(PANEL):
                    if c > j:
                        row[o, c] -= entry * along[c]
                    if c == j:
                        vector[o, c] = entry
                        if place >= corner and scale > float32(0):
                            row[o, c] = -shift if place == corner else float32(0)
            cuda.syncthreads()
        for o in range(own):
            for c in range(PANEL):
                if t + o * threads < rows:
                    v[t + o * threads, first + c] = vector[o, c]
                    if first + c < columns:
                        a[t + o * threads, first + c] = row[o, c]

    @cuda.jit
    def factor(a, v, triangles, state, wanted):
        sums = cuda.shared.array((WARPS, PANEL), float32)
        along = cuda.shared.array(PANEL, float32)
        facts = cuda.shared.array(2, float32)
        pivot = cuda.shared.array(PANEL, float32)
        dots = cuda.shared.array((PANEL, PANEL), float32)
        t = cuda.shared.array((PANEL, PANEL), float32)
        matrix, thread = cuda.blockIdx.x, int32(cuda.threadIdx.x)
        if state[matrix] != wanted:
            return
        for panel in range(v.shape[2] // PANEL):
            first = int32(panel * PANEL)
            factor_panel(a[matrix], v[matrix], first, sums, along, facts, pivot, dots)
            _triangle(dots, t)
            cuda.syncthreads()
            _reflect(a[matrix], v[matrix], t, first, True, first + PANEL)
            for n in range(thread, PANEL * PANEL, cuda.blockDim.x):
                triangles[matrix, panel, n // PANEL, n % PANEL] = t[n // PANEL, n % PANEL]
            cuda.syncthreads()

    return factor


@cuda.jit
def form_q(v, triangles, q, state, wanted):
    """Q = H1 H2 ... , the first columns of it: reflect the identity, the last panel first."""
    t = cuda.shared.array((PANEL, PANEL), float32)
    matrix, thread, threads = cuda.blockIdx.x, int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    if state[matrix] != wanted:
        return
    columns = int32(q.shape[2])
    for n in range(thread, q.shape[1] * columns, threads):
        i, j = n // columns, n % columns
        q[matrix, i, j] = float32(1) if i == j else float32(0)
    panels = v.shape[2] // PANEL
    for back in range(panels):
        panel = panels - 1 - back
        for n in range(thread, PANEL * PANEL, threads):
            t[n // PANEL, n % PANEL] = triangles[matrix, panel, n // PANEL, n % PANEL]
        cuda.syncthreads()
        first = int32(panel * PANEL)
        _reflect(q[matrix], v[matrix], t, first, False, first)
        cuda.syncthreads()


#: By how many rows a thread has.
FACTOR = {own: make_factor(own) for own in (1, 2, 4)}
FACTOR_SIGNATURE = (
    "void(float32[:, :, ::1], float32[:, :, ::1], float32[:, :, :, ::1], int32[::1], int32)"
)
FORM_SIGNATURE = (
    "void(float32[:, :, ::1], float32[:, :, :, ::1], float32[:, :, ::1], int32[::1], int32)"
)


class Reflections:
    """Memory for the reflections of a batch of matrices, and the launches that use it.

    Parameters
    ----------
    batch, rows, columns : int
        rows >= columns, rows at most `LONGEST`.
    """

    def __init__(self, batch: int, rows: int, columns: int):
        panels = -(-columns // PANEL)
        self.v = cuda.device_array((batch, rows, panels * PANEL), np.float32)
        self.triangles = cuda.device_array((batch, panels, PANEL, PANEL), np.float32)
        self.threads = min(THREADS, -(-rows // 32) * 32)
        self.own = next(own for own in FACTOR if own * self.threads >= rows)

    def factor(self, a: Array, state: Array, wanted: int = 0, *, stream: Any = 0) -> None:
        """Replace each matrix of `a`, (batch, rows, columns), by R: zeros below its diagonal."""
        kernel = FACTOR[self.own][len(a), self.threads, stream]
        kernel(a, self.v, self.triangles, state, np.int32(wanted))

    def form(self, q: Array, state: Array, wanted: int = 0, *, stream: Any = 0) -> None:
        """Write the orthonormal columns of Q into `q`, (batch, rows, columns)."""
        form_q[len(q), self.threads, stream](self.v, self.triangles, q, state, np.int32(wanted))

    def orthonormal(self, a: Array, q: Array, state: Array, *, stream: Any = 0) -> None:
        """Orthonormal columns that span those of `a`, into `q`, which may be `a`; a is lost."""
        self.factor(a, state, stream=stream)
        self.form(q, state, stream=stream)
