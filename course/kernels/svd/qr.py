"""The QR decomposition of many matrices, by Householder reflections: one block a matrix.

A reflection H = I - v v' (v scaled so that v'v = 2) maps a column to a multiple of a unit
vector. Sixteen columns are a panel: a thread keeps a row of it, or up to four, in registers, and
all sixteen dot products that a reflection needs are summed at once. The columns right of the panel
are then reflected once for all sixteen,

    H1 H2 ... H16 = I - V T V',

64 columns at a time, two a lane: every warp multiplies some rows of V' and C, the warps' sums are
added, and V (T V' C) is subtracted from the same rows. A column of zeros has v = 0: its H is the
identity. So Q is orthonormal to rounding, whatever the matrix's rank, which the SVD relies on.

Source: R. Schreiber and C. Van Loan, "A storage-efficient WY representation for products of
Householder transformations", SIAM J. Sci. Stat. Comput. 10 (1989).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.dispatch.kept import Memory
from course.heuristics.svd import reflects_in_parts
from course.kernels.steps import Launch, ceil_div, round_up
from course.kernels.warps import ALL
from warpsim.ptx import load2, load4, store2, store4

Array = Any  # of numba.cuda

PANEL = 16  # columns
THREADS, WARPS = 256, 8  # at most
FEWEST = 128  # threads, at least: the columns right of a panel are work for more than its rows
BATCH = 8  # rows that a lane loads before it uses them
STAGED = 256  # rows of a panel of V in shared memory
PLANES = WARPS // 2  # of sums in shared memory: one for each two warps
STRIP = 64  # columns that take a panel's reflections together
LONGEST = 4 * THREADS  # rows of a matrix
#: Squared length below which a column counts as zeros; entries are about 1 at most. Float32 has
#: fewer bits from 1e-38 down.
ZERO = 1e-30


def _halver(count: int) -> Callable:
    """2 count sums a lane become count: each half of the lanes keeps one half of the sums."""

    @cuda.jit(device=True)
    def halve(sums):
        upper = int32(cuda.threadIdx.x) & int32(2 * count) != 0
        for c in range(count):
            low, high = sums[c], sums[c + count]  # else the array would be in local memory
            mine, other = (high, low) if upper else (low, high)
            sums[c] = mine + cuda.shfl_xor_sync(ALL, other, 2 * count)

    return halve


halve_16, halve_8, halve_4, halve_2 = (_halver(count) for count in (8, 4, 2, 1))


@cuda.jit(device=True)
def _sum_lanes(sums):
    """The warp's sum of each of 16 values: lane l returns that of value l // 2."""
    halve_16(sums)
    halve_8(sums)
    halve_4(sums)
    halve_2(sums)
    return sums[0] + cuda.shfl_xor_sync(ALL, sums[0], 1)


@cuda.jit(device=True)
def _load_rows(c, row, column, x):
    """Load `BATCH` rows of two columns; zeros beyond the edges."""
    for e in range(BATCH):
        x[e, 0], x[e, 1] = float32(0), float32(0)
        if row + e < c.shape[0] and column < c.shape[1]:
            x[e, 0], x[e, 1] = load2(c, (row + e, column))


@cuda.jit(device=True)
def _stage(v, base, first, here):
    """Copy a panel's rows of v from `base` on to shared memory; zeros beyond the last row."""
    cuda.syncthreads()
    for n in range(int32(cuda.threadIdx.x), STAGED * PANEL // 4, cuda.blockDim.x):
        row, k = int32(n // (PANEL // 4)), int32(n % (PANEL // 4) * 4)
        four = float32(0), float32(0), float32(0), float32(0)
        if base + row < v.shape[0]:
            four = load4(v, (base + row, first + k))
        store4(here, (row, k), four)
    cuda.syncthreads()


def _over_rows(use: Callable) -> Callable:
    """A device function: call `use` for a warp's share of the staged rows, two columns a lane."""

    @cuda.jit(device=True)
    def over_rows(c, here, base, column, y):
        x, following = (
            cuda.local.array((BATCH, 2), float32),
            cuda.local.array((BATCH, 2), float32),
        )
        warp, warps = int32(cuda.threadIdx.x // 32), int32(cuda.blockDim.x // 32)
        start, step = int32(warp * BATCH), int32(warps * BATCH)
        _load_rows(c, base + start, column, following)
        for row in range(start, min(STAGED, int32(c.shape[0] - base)), step):
            for e in range(BATCH):
                x[e, 0], x[e, 1] = following[e, 0], following[e, 1]
            _load_rows(c, int32(base + row + step), column, following)
            use(c, here, base, row, column, x, y)

    return over_rows


@_over_rows
@cuda.jit(device=True)
def _multiply_rows(c, here, base, row, column, x, y):
    """y += V' C."""
    for e in range(BATCH):
        for k in range(0, PANEL, 4):
            four = load4(here, (int32(row + e), k))
            for n in range(4):
                y[k + n, 0] += four[n] * x[e, 0]
                y[k + n, 1] += four[n] * x[e, 1]


@_over_rows
@cuda.jit(device=True)
def _subtract_rows(c, here, base, row, column, x, z):
    """C -= V z."""
    for e in range(BATCH):
        for k in range(0, PANEL, 4):
            four = load4(here, (int32(row + e), k))
            for n in range(4):
                x[e, 0] -= four[n] * z[k + n, 0]
                x[e, 1] -= four[n] * z[k + n, 1]
    for e in range(BATCH):
        if base + row + e < c.shape[0] and column < c.shape[1]:
            store2(c, (int32(base + row + e), column), (x[e, 0], x[e, 1]))


@cuda.jit(device=True)
def _sum_warps(y, parts):
    """Add up y, 16 x 64 elements, over all warps, an even number, into parts[0]."""
    thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    warp, lane = thread // 32, thread % 32
    planes = threads // 64
    if warp >= planes:
        for k in range(PANEL):
            store2(parts, (warp - planes, k, 2 * lane), (y[k, 0], y[k, 1]))
    cuda.syncthreads()
    if warp < planes:
        for k in range(PANEL):
            two = load2(parts, (warp, k, 2 * lane))
            store2(parts, (warp, k, 2 * lane), (y[k, 0] + two[0], y[k, 1] + two[1]))
    cuda.syncthreads()
    for n in range(thread, PANEL * STRIP // 4, threads):
        k, column = int32(n // (STRIP // 4)), int32(n % (STRIP // 4) * 4)
        e, f, g, h = load4(parts, (0, k, column))
        for other in range(1, planes):
            four = load4(parts, (int32(other), k, column))
            e, f, g, h = e + four[0], f + four[1], g + four[2], h + four[3]
        store4(parts, (0, k, column), (e, f, g, h))
    cuda.syncthreads()


@cuda.jit(device=True)
def _multiply_triangle(t, transposed, sums, products):
    """products = T sums, or T' sums, in shared memory."""
    for n in range(int32(cuda.threadIdx.x), PANEL * STRIP // 4, cuda.blockDim.x):
        k, column = int32(n // (STRIP // 4)), int32(n % (STRIP // 4) * 4)
        e, f, g, h = float32(0), float32(0), float32(0), float32(0)
        for i in range(PANEL):
            factor = t[i, k] if transposed else t[k, i]
            four = load4(sums, (i, column))
            e, f = e + factor * four[0], f + factor * four[1]
            g, h = g + factor * four[2], h + factor * four[3]
        store4(products, (k, column), (e, f, g, h))
    cuda.syncthreads()


@cuda.jit(device=True)
def _reflect(c, v, t, first, transposed, start, stop):
    """Apply a panel's reflections, V T V' or, transposed, V T' V', to columns `start` to `stop`.

    c: (rows, columns), in place. v: (rows, ...), the panel from row and column `first` on. t: T.
    """
    here = cuda.shared.array((STAGED, PANEL), float32)
    parts = cuda.shared.array((PLANES, PANEL, STRIP), float32)
    products = cuda.shared.array((PANEL, STRIP), float32)
    y = cuda.local.array((PANEL, 2), float32)
    lane, rows = int32(cuda.threadIdx.x % 32), int32(c.shape[0])
    for strip in range(start, stop, STRIP):
        column = int32(strip + 2 * lane)
        for k in range(PANEL):
            y[k, 0], y[k, 1] = float32(0), float32(0)
        for base in range(first, rows, STAGED):
            if strip == start or rows - first > STAGED:
                _stage(v, base, first, here)
            _multiply_rows(c, here, base, column, y)
        _sum_warps(y, parts)
        _multiply_triangle(t, transposed, parts[0], products)
        for k in range(PANEL):
            y[k, 0], y[k, 1] = load2(products, (k, 2 * lane))
        for base in range(first, rows, STAGED):
            if rows - first > STAGED:
                _stage(v, base, first, here)
            _subtract_rows(c, here, base, column, y)


@cuda.jit(device=True)
def scale_and_shift(squared, alpha):
    """Scale and shift of v = scale (x + shift e), of squared length 2; 0, 0 for a zero column.

    The scale is computed for the shift as it is rounded. There are no slow operations, since all
    threads wait for the result.
    """
    if squared <= float32(ZERO):
        return float32(0), float32(0)
    inverse = cuda.libdevice.rsqrtf(squared)
    length = squared * inverse
    length += float32(0.5) * inverse * (squared - length * length)
    half = float32(0.5) * (squared + length * length) + length * abs(alpha)
    scale = cuda.libdevice.rsqrtf(half)
    scale *= float32(1.5) - float32(0.5) * half * scale * scale
    return scale, length if alpha >= float32(0) else -length


def make_column(own: int) -> Callable:
    """The reflection of a panel's column j, which v_j replaces; `own` rows to a thread.

    Column j is the first in the registers, and v_j becomes the last: so the next column is first,
    and the same code serves all. All warps sum the column's dot products with the whole panel, also
    with the v before it, at once. Then each warp computes the rest for itself.
    """

    @cuda.jit(device=True)
    def column(rows, j, first, corners, sums, pivots, along):
        partial, x = cuda.local.array(PANEL, float32), cuda.local.array(own, float32)
        t, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        lane, c, corner = t % 32, t % PANEL, first + j
        buffer = j % 2  # double buffered: warps may still read the other one
        for o in range(own):
            x[o] = rows[o, 0] if t + o * threads >= corner else float32(0)
        for k in range(PANEL):
            partial[k] = float32(0)
            for o in range(own):
                partial[k] += x[o] * rows[o, k]
        has_corner = t == corner
        for o in range(1, own):
            has_corner = has_corner or t + o * threads == corner
        for k in range(PANEL):
            value = rows[0, k]
            for o in range(1, own):
                value = rows[o, k] if t + o * threads == corner else value
            if has_corner:
                pivots[buffer, k] = value
        mine = _sum_lanes(partial)
        if t % 2 == 0:
            sums[buffer, t // 32, lane // 2] = mine
        cuda.syncthreads()
        whole = float32(0)
        for n in range(WARPS // 2):
            warp = int32(2 * n + lane // PANEL)
            whole += sums[buffer, warp, c] if 32 * warp < threads else float32(0)
        whole += cuda.shfl_xor_sync(ALL, whole, PANEL)
        scale, shift = scale_and_shift(cuda.shfl_sync(ALL, whole, 0), pivots[buffer, 0])
        product = scale * (whole + shift * pivots[buffer, c])  # dot product of v_j and column c
        for o in range(own):
            row = t + o * threads
            if first <= row <= corner:
                corners[row - first, j] = rows[o, 0] if row < corner or scale == 0 else -shift
            x[o] = scale * (x[o] + (shift if row == corner else float32(0)))
        for k in range(1, PANEL):
            times = cuda.shfl_sync(ALL, product, k)
            for o in range(own):
                y = rows[o, k]
                rows[o, k - 1] = y - x[o] * times if k < PANEL - j else y
        for o in range(own):
            rows[o, PANEL - 1] = x[o]
        if t < PANEL:  # V'V right of its diagonal
            along[(c + j) % PANEL, j] = product

    return column


def make_factor(own: int) -> Callable:
    """The kernel that reflects a matrix into a triangle, `own` rows to a thread."""
    column = make_column(own)

    @cuda.jit(device=True)
    def factor_panel(a, v, first, t, corners, sums, pivots, along):
        """Reflect the columns of a panel: R in its upper triangle, V to global memory, T to t."""
        rows, triangle = (cuda.local.array((own, PANEL), float32), cuda.local.array(PANEL, float32))
        thread, threads = int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
        for o in range(own):
            row = int32(thread + o * threads)
            for c in range(0, PANEL, 4):
                four = float32(0), float32(0), float32(0), float32(0)
                if first <= row < a.shape[0] and first + c < a.shape[1]:
                    four = load4(a, (row, first + c))
                for n in range(4):
                    rows[o, c + n] = four[n]
        for j in range(PANEL):
            column(rows, int32(j), first, corners, sums, pivots, along)
        cuda.syncthreads()
        if thread < PANEL:  # a row of T; T's inverse is I + V'V right of its diagonal
            for j in range(PANEL):
                total = float32(1) if thread == j else float32(0)
                for k in range(PANEL):
                    if k < j:
                        total -= triangle[k] * along[k, j]
                triangle[j] = total
                t[thread, j] = total
        for o in range(own):
            row = int32(thread + o * threads)
            if first <= row < a.shape[0]:
                for c in range(0, PANEL, 4):
                    store4(v, (row, first + c), (
                        rows[o, c], rows[o, c + 1], rows[o, c + 2], rows[o, c + 3]
                    ))  # fmt: skip
        for n in range(thread, (a.shape[0] - first) * PANEL, threads):
            i, j = int32(n // PANEL), int32(n % PANEL)
            if first + j < a.shape[1]:
                a[first + i, first + j] = corners[i, j] if i <= j else float32(0)

    @cuda.jit
    def factor(a, v, triangles, state, wanted, begin, end, alone):
        """Reflect panels `begin` to `end`; alone: also the columns right of each panel."""
        warp_sums = cuda.shared.array((2, WARPS, PANEL), float32)
        pivots = cuda.shared.array((2, PANEL), float32)
        t = cuda.shared.array((PANEL, PANEL), float32)
        corners = cuda.shared.array((PANEL, PANEL), float32)
        along = cuda.shared.array((PANEL, PANEL), float32)
        matrix, thread = cuda.blockIdx.x, int32(cuda.threadIdx.x)
        if state[matrix] != wanted:
            return
        for panel in range(begin, end):
            first = int32(panel * PANEL)
            factor_panel(a[matrix], v[matrix], first, t, corners, warp_sums, pivots, along)
            cuda.syncthreads()
            if alone:
                _reflect(a[matrix], v[matrix], t, first, True, first + PANEL, a.shape[2])
            for n in range(thread, PANEL * PANEL, cuda.blockDim.x):
                triangles[matrix, panel, n // PANEL, n % PANEL] = t[n // PANEL, n % PANEL]
            cuda.syncthreads()

    return factor


@cuda.jit(device=True)
def _load_triangle(triangles, t):
    for n in range(int32(cuda.threadIdx.x), PANEL * PANEL, cuda.blockDim.x):
        t[n // PANEL, n % PANEL] = triangles[n // PANEL, n % PANEL]
    cuda.syncthreads()


@cuda.jit
def reflect_rest(a, v, triangles, state, wanted, panel):
    """Apply a panel's reflections to the columns right of it; a block has 64 of them."""
    t = cuda.shared.array((PANEL, PANEL), float32)
    matrix, first = cuda.blockIdx.x, int32(panel * PANEL)
    if state[matrix] != wanted:
        return
    _load_triangle(triangles[matrix, panel], t)
    start = int32(first + PANEL + cuda.blockIdx.y * STRIP)
    _reflect(a[matrix], v[matrix], t, first, True, start, start + STRIP)


@cuda.jit
def form_q(v, triangles, q, state, wanted, given):
    """Q = H1 H2 ... , the first columns of it: reflect the identity, the last panel first.

    A block has 64 columns of a matrix. given: q's content is reflected instead of the identity.
    """
    t = cuda.shared.array((PANEL, PANEL), float32)
    matrix, thread, threads = cuda.blockIdx.x, int32(cuda.threadIdx.x), int32(cuda.blockDim.x)
    if state[matrix] != wanted:
        return
    start = int32(cuda.blockIdx.y * STRIP)
    stop = int32(min(start + STRIP, q.shape[2]))
    panels = v.shape[2] // PANEL
    if not given:
        panels = min(panels, (stop + PANEL - 1) // PANEL)
        for n in range(thread, q.shape[1] * STRIP, threads):
            i, j = n // STRIP, start + n % STRIP
            if j < stop:
                q[matrix, i, j] = float32(1) if i == j else float32(0)
    for back in range(panels):
        panel = panels - 1 - back
        _load_triangle(triangles[matrix, panel], t)
        first = int32(panel * PANEL)
        _reflect(q[matrix], v[matrix], t, first, False, start, stop)
        cuda.syncthreads()


#: The kernels by how many rows a thread has.
FACTOR = {own: make_factor(own) for own in (1, 2, 4)}


class Reflections(Memory):
    """Memory for the reflections of a batch of matrices, and the launches that use it.

    They have at most `LONGEST` rows, and as many columns, padded to a multiple of 4, since rows are
    read four elements at a time. ``empty(shape, dtype)`` allocates memory on the GPU.
    """

    def __init__(self, batch: int, rows: int, columns: int, empty: Any = None):
        panels, empty = ceil_div(columns, PANEL), empty or cuda.device_array
        self.v = empty((batch, rows, panels * PANEL), np.float32)
        self.triangles = empty((batch, panels, PANEL, PANEL), np.float32)
        self.threads = min(THREADS, max(FEWEST, round_up(rows, 64)))
        self.own = next(own for own in FACTOR if own * self.threads >= rows)
        self.panels, self.strips = panels, ceil_div(columns, STRIP)
        self.shared = reflects_in_parts(columns, batch)

    def factoring(self, a: Array, state: Array, wanted: int = 0) -> list[Launch]:
        """Launches that replace each matrix of `a`, (batch, rows, columns), by R; zeros below."""
        alone, step = np.int32(not self.shared), 1 if self.shared else self.panels
        given, launches = (a, self.v, self.triangles, state, np.int32(wanted)), []
        for panel in range(0, self.panels, step):
            arguments = *given, np.int32(panel), np.int32(panel + step), alone
            launches.append(Launch(FACTOR[self.own], len(a), self.threads, arguments))
            strips = ceil_div(a.shape[2] - (panel + 1) * PANEL, STRIP)
            if self.shared and strips > 0:
                arguments = *given, np.int32(panel)
                launches.append(Launch(reflect_rest, (len(a), strips), self.threads, arguments))
        return launches

    def forming(self, q: Array, state: Array, wanted: int = 0, given: bool = False) -> Launch:
        """The launch that stores Q's columns in `q`, (batch, rows, columns); if `given`, Q q."""
        arguments = self.v, self.triangles, q, state, np.int32(wanted), np.int32(given)
        return Launch(form_q, (len(q), self.strips), self.threads, arguments)

    def factor(self, a: Array, state: Array, wanted: int = 0, *, stream: Any = 0) -> None:
        for launch in self.factoring(a, state, wanted):
            launch.on(stream)

    def form(self, q: Array, state: Array, wanted: int = 0, *, stream: Any = 0) -> None:
        self.forming(q, state, wanted).on(stream)

    def orthonormal(self, a: Array, q: Array, state: Array, *, stream: Any = 0) -> None:
        """Store orthonormal columns that span a's in `q`, which may be `a`; a is overwritten."""
        self.factor(a, state, stream=stream)
        self.form(q, state, stream=stream)
