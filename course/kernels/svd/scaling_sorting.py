"""Before and after an SVD's rotations: scaling, whether more sweeps are needed, sorting, factors.

All kernels take arrays (batch, ...); a block works for one matrix, or for a part of one. No kernel
waits for the host: `judge` decides on the GPU what a matrix needs next.
"""

import math
from typing import Any

from numba import float32, int32

from course.backend import cuda
from course.kernels.steps import Launch, ceil_div
from course.kernels.svd.rotate import DONE, FINISHED, NEAR, NOISE, REFRESHES, ROTATES
from course.kernels.warps import ALL, lanes_sum

THREADS, WARPS = 512, 16  # of a block that works for a whole matrix, at most
TILE, ROWS, PADDED = 32, 8, 33  # a tile is 32 x 32 (and padded), its block 32 x 8 threads
PARTS, PART_THREADS = 16, 256  # blocks that share a matrix's elements, and their threads
FRESH = 4  # sweeps for which a refreshed k stays orthonormal enough
MOST_REFRESHES = 3
MOST_POWER = 126  # of two, in a scale, so that its inverse is a normal float32, too
#: Squared length under which a row is noise, where a matrix's largest entry is about 1: float32 has
#: fewer bits from 1e-38 down.
ZERO = 1e-28

sum_of_warp = lanes_sum(32)


@cuda.jit(device=True)
def largest_of_warp(x):
    """A warp's largest x, for all of its lanes."""
    for step in range(5):
        x = max(x, cuda.shfl_xor_sync(ALL, x, 16 >> step))
    return x


@cuda.jit(device=True)
def _largest_of_block(x, found):
    """The block's largest x, for its first thread."""
    x = largest_of_warp(x)
    if cuda.threadIdx.x % 32 == 0:
        found[cuda.threadIdx.x // 32] = x
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        for warp in range(cuda.blockDim.x // 32):
            x = max(x, found[warp])
    return x


@cuda.jit(device=True)
def scales_of(largest):
    """The power of two that scales a matrix's largest entry to 1/2 .. 1, and its inverse.

    (0, 1) for an infinite one.
    """
    power = int32(0)
    if largest < float32(math.inf):
        power = int32(math.frexp(largest)[1])
    power = int32(max(-MOST_POWER, min(MOST_POWER, power)))
    scale = math.ldexp(float32(1), int32(-power))
    return scale if largest < float32(math.inf) else float32(0), math.ldexp(float32(1), power)


@cuda.jit
def find_scale(a, scale, unscale, refused):
    """The power of two that scales each matrix's largest entry to 1/2 .. 1, and its inverse.

    refused: 1 where an element is NaN or infinite; the scale is 0 then.
    """
    found = cuda.shared.array(WARPS, float32)
    matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
    mine = float32(0)
    for row in range(t // 32, a.shape[1], cuda.blockDim.x // 32):
        for column in range(t % 32, a.shape[2], 32):
            size = abs(a[matrix, row, column])
            mine = max(mine, size if size < float32(math.inf) else float32(math.inf))
    mine = _largest_of_block(mine, found)
    if t == 0:
        refused[matrix] = 0 if mine < float32(math.inf) else 1
        scale[matrix], unscale[matrix] = scales_of(mine)


@cuda.jit
def scale_into(a, scale, out, transposed):
    """out = scale a, or its transpose, with zeros where `out` is larger; a may have any strides.

    Where the scale is 0 all is 0, whatever a holds.
    """
    tile = cuda.shared.array((TILE, PADDED), float32)
    matrix, x, y = cuda.blockIdx.x, int32(cuda.threadIdx.x), int32(cuda.threadIdx.y)
    first_row, first_column = cuda.blockIdx.y * TILE, cuda.blockIdx.z * TILE  # of out
    row, column = (first_column, first_row) if transposed else (first_row, first_column)  # of a
    factor = scale[matrix]
    for step in range(0, TILE, ROWS):
        i, j = row + y + step, column + x
        inside = i < a.shape[1] and j < a.shape[2] and factor != float32(0)
        tile[y + step, x] = a[matrix, i, j] * factor if inside else float32(0)
    cuda.syncthreads()
    for step in range(0, TILE, ROWS):
        i, j = first_row + y + step, first_column + x
        if i < out.shape[1] and j < out.shape[2]:
            out[matrix, i, j] = tile[x, y + step] if transposed else tile[y + step, x]


def by_rows(kernel: Any, matrices: Any, *arguments: Any, shared: int = 0) -> Launch:
    """The launch of a block a matrix; its warps have four rows each, more if warps are too few."""
    threads = min(THREADS, ceil_div(matrices.shape[1], 4) * 32)
    return Launch(kernel, len(matrices), threads, arguments, shared)


def by_tiles(kernel: Any, out: Any, *arguments: Any) -> Launch:
    """The launch of a block for each 32 x 32 elements of `out`."""
    tiles = (ceil_div(size, TILE) for size in out.shape[1:])
    return Launch(kernel, (len(out), *tiles), (TILE, ROWS), arguments)


def in_parts(kernel: Any, out: Any, *arguments: Any) -> Launch:
    """The launch of blocks that share a matrix."""
    return Launch(kernel, (len(out), PARTS), PART_THREADS, arguments)


def scaling(a: Any, scale: Any, unscale: Any, refused: Any) -> Launch:
    """The launch of `find_scale`."""
    return by_rows(find_scale, a, a, scale, unscale, refused)


def spreading(a: Any, scale: Any, out: Any, transposed: bool) -> Launch:
    """The launch of `scale_into`."""
    return by_tiles(scale_into, out, a, scale, out, bool(transposed))


@cuda.jit
def begin(w, floor, cosines, since, refreshes, state, swept):
    """Initialise: every matrix waits for its first sweep; a block a matrix.

    floor: the squared length below which a row of w is noise.
    """
    found = cuda.shared.array(WARPS, float32)
    matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
    longest = float32(0)
    for row in range(t // 32, w.shape[1], cuda.blockDim.x // 32):
        total = float32(0)
        for column in range(t % 32, w.shape[2], 32):
            x = w[matrix, row, column]
            total += x * x
        longest = max(longest, sum_of_warp(total))
    longest = _largest_of_block(longest, found)
    if t == 0:
        floor[matrix] = max(float32(ZERO), longest * float32(NOISE) * float32(NOISE))
        cosines[matrix] = float32(0)
        since[matrix], refreshes[matrix], state[matrix], swept[matrix] = -1, 0, ROTATES, 0


@cuda.jit
def judge(cosines, since, refreshes, state, sweeps, swept):
    """Decide what each matrix waits for, after so many sweeps; a thread a matrix.

    Rotations round: k is orthonormal to a few millionths after ten sweeps. When the rows of w are
    nearly orthogonal it is refreshed, k = (3 k - k k' k) / 2 and w = k x, once; and again when w is
    done, if more than `FRESH` sweeps have passed by then.

    cosines: the largest of the sweep, then reset. since: sweeps since the last refresh, -1 before
    the first. swept: how often a matrix was judged.
    """
    matrix = cuda.grid(1)
    if matrix >= state.size or state[matrix] == FINISHED:
        return
    largest, passed = cosines[matrix], since[matrix]
    swept[matrix] += 1
    cosines[matrix] = float32(0)
    if passed >= 0:
        passed += sweeps
    fresh = 0 <= passed <= FRESH or refreshes[matrix] == MOST_REFRESHES
    if largest <= float32(DONE) and fresh:
        state[matrix] = FINISHED
        return
    if largest <= float32(DONE) or (passed < 0 and largest <= float32(NEAR)):
        state[matrix] = REFRESHES
        since[matrix] = 0
        refreshes[matrix] += 1
    else:
        state[matrix] = ROTATES
        since[matrix] = passed


@cuda.jit
def sort_rows(w, k, unscale, s, order, w_factor, k_factor, missing, deficient):
    """Sort w's rows by length, largest first: singular values, and factors that normalise rows.

    order[rank] is a row; w_factor[rank] and k_factor[rank] are its factors in w and k. The entry of
    largest magnitude in a row of k becomes positive. w_factor is 0 for a zero row.

    missing: how many of the wanted rows are noise, so that their vectors are not yet orthogonal.
    deficient: 1 where there are some. s: (batch, wanted). Shared memory: a float32 a row.
    """
    lengths = cuda.shared.array(0, float32)
    matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
    lane, n, warps = t % 32, int32(w.shape[1]), int32(cuda.blockDim.x // 32)
    for row in range(t // 32, n, warps):
        total = float32(0)
        for column in range(lane, w.shape[2], 32):
            x = w[matrix, row, column]
            total += x * x
        total = sum_of_warp(total)
        if lane == 0:
            lengths[row] = math.sqrt(total)
    cuda.syncthreads()
    longest = float32(0)
    for row in range(lane, n, 32):
        longest = max(longest, lengths[row])
    longest = largest_of_warp(longest)
    noise = float32(NOISE) * longest
    if t < 32:
        nonzero = int32(0)
        for row in range(lane, n, 32):
            nonzero += int32(lengths[row] > noise)
        nonzero = sum_of_warp(nonzero)
        if lane == 0:
            lost = int32(max(0, s.shape[1] - nonzero))
            missing[matrix], deficient[matrix] = lost, int32(lost > 0)
    for row in range(t // 32, n, warps):
        mine, before = lengths[row], int32(0)
        for other in range(lane, n, 32):
            its = lengths[other]
            before += int32(its > mine or (its == mine and other < row))
        before = sum_of_warp(before)
        size, value = float32(0), float32(0)
        for column in range(lane, k.shape[2], 32):
            x = k[matrix, row, column]
            if abs(x) > size:
                size, value = abs(x), x
        top = largest_of_warp(size)
        first = cuda.ffs(cuda.ballot_sync(ALL, size == top)) - 1
        sign = float32(1) if cuda.shfl_sync(ALL, value, first) >= float32(0) else float32(-1)
        if lane == 0:
            order[matrix, before] = row
            w_factor[matrix, before] = sign / mine if mine * mine > float32(ZERO) else float32(0)
            k_factor[matrix, before] = sign
            if before < s.shape[1]:
                s[matrix, before] = mine * unscale[matrix]


@cuda.jit
def gather(rows, order, factor, out, transposed, state, wanted):
    """out[rank] = factor[rank] rows[order[rank]], or transposed; 32 ranks x 32 columns a block."""
    tile = cuda.shared.array((TILE, PADDED), float32)
    matrix, x, y = cuda.blockIdx.x, int32(cuda.threadIdx.x), int32(cuda.threadIdx.y)
    if state[matrix] != wanted and wanted >= 0:
        return
    rank, column = cuda.blockIdx.y * TILE, cuda.blockIdx.z * TILE
    for step in range(0, TILE, ROWS):
        i, j = rank + y + step, column + x
        value = float32(0)
        if i < order.shape[1] and j < rows.shape[2]:
            value = rows[matrix, order[matrix, i], j] * factor[matrix, i]
        if not transposed:
            if i < out.shape[1] and j < out.shape[2]:
                out[matrix, i, j] = value
        else:
            tile[y + step, x] = value
    if transposed:
        cuda.syncthreads()
        for step in range(0, TILE, ROWS):
            i, j = column + y + step, rank + x
            if i < out.shape[1] and j < out.shape[2]:
                out[matrix, i, j] = tile[x, y + step]


@cuda.jit
def copy_matrices(source, out, state, wanted):
    """out = source, of the matrices whose state is wanted; `PARTS` blocks share a matrix."""
    matrix, columns = cuda.blockIdx.x, int32(out.shape[2])
    if state[matrix] != wanted:
        return
    first, step = cuda.blockIdx.y * cuda.blockDim.x, cuda.gridDim.y * cuda.blockDim.x
    for n in range(int32(first + cuda.threadIdx.x), int32(out.shape[1] * columns), step):
        out[matrix, n // columns, n % columns] = source[matrix, n // columns, n % columns]


@cuda.jit
def complete(q, rows, order, factor, missing, out, wanted):
    """The last `missing` of the `wanted` columns are q's, orthonormal to all before.

    `PARTS` blocks share a matrix. The columns before are factor[rank] rows[order[rank]]: q's first
    columns span the same, but hundreds of reflections rounded them. q may be out.
    """
    matrix, columns = cuda.blockIdx.x, int32(out.shape[2])
    if missing[matrix] == 0:
        return
    nonzero = wanted - missing[matrix]
    first, step = cuda.blockIdx.y * cuda.blockDim.x, cuda.gridDim.y * cuda.blockDim.x
    for n in range(int32(first + cuda.threadIdx.x), int32(out.shape[1] * columns), step):
        i, j = n // columns, n % columns
        if j < nonzero:
            out[matrix, i, j] = rows[matrix, order[matrix, j], i] * factor[matrix, j]
        else:
            out[matrix, i, j] = q[matrix, i, j]
