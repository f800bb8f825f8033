"""What begins and ends an SVD: scaling, judging sweeps, sorting, handing the factors over.

Kernels of one batch take arrays (batch, ...); a block works for one matrix, or for a part of one.
"""

import math

from numba import float32, int32

from course.backend import cuda
from course.kernels.svd_rotate import DONE, FINISHED, NEAR, NOISE, REFRESHES, ROTATES

THREADS, WARPS = 256, 8
TILE, ROWS, PADDED = 32, 8, 33  # a tile is 32 x 32 (and padded), its block 32 x 8 threads
FULL = 0xFFFFFFFF
FRESH = 5  # sweeps that a refreshed k may take until it must be refreshed again
MOST_REFRESHES = 3
#: Squared length under which all is noise, where the largest entry of a matrix is about 1: float32
#: has fewer bits from 1e-38 down.
ZERO = 1e-28


@cuda.jit(device=True)
def _largest_of_warp(x):
    for step in range(5):
        x = max(x, cuda.shfl_xor_sync(FULL, x, 16 >> step))
    return x


@cuda.jit
def find_largest(a, largest):
    """The largest magnitude of each matrix, infinite where a number is none or infinite."""
    found = cuda.shared.array(WARPS, float32)
    matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
    mine = float32(0)
    for row in range(t // 32, a.shape[1], WARPS):
        for column in range(t % 32, a.shape[2], 32):
            size = abs(a[matrix, row, column])
            mine = max(mine, size if size < float32(math.inf) else float32(math.inf))
    mine = _largest_of_warp(mine)
    if t % 32 == 0:
        found[t // 32] = mine
    cuda.syncthreads()
    if t == 0:
        for warp in range(WARPS):
            mine = max(mine, found[warp])
        largest[matrix] = mine


@cuda.jit
def begin(cosines, since, refreshes, state, remaining, deficient):
    """Every matrix waits for its first sweep."""
    n = cuda.grid(1)
    if n < state.size:
        cosines[n], deficient[n] = float32(0), 0
        since[n], refreshes[n], state[n] = -1, 0, ROTATES
    if n < remaining.size:
        remaining[n] = 0


@cuda.jit
def scale_into(a, scale, out, turned):
    """out = scale a, or its transpose, with zeros where `out` is larger; a may have any strides."""
    tile = cuda.shared.array((TILE, PADDED), float32)
    matrix, x, y = cuda.blockIdx.x, int32(cuda.threadIdx.x), int32(cuda.threadIdx.y)
    first_row, first_column = cuda.blockIdx.y * TILE, cuda.blockIdx.z * TILE  # of out
    row, column = (first_column, first_row) if turned else (first_row, first_column)  # of a
    for step in range(0, TILE, ROWS):
        i, j = row + y + step, column + x
        inside = i < a.shape[1] and j < a.shape[2]
        tile[y + step, x] = a[matrix, i, j] * scale[matrix] if inside else float32(0)
    cuda.syncthreads()
    for step in range(0, TILE, ROWS):
        i, j = first_row + y + step, first_column + x
        if i < out.shape[1] and j < out.shape[2]:
            out[matrix, i, j] = tile[x, y + step] if turned else tile[y + step, x]


@cuda.jit
def find_floor(w, floor):
    """The squared length below which a row of w is noise; a block a matrix."""
    found = cuda.shared.array(WARPS, float32)
    matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
    longest = float32(0)
    for row in range(t // 32, w.shape[1], WARPS):
        total = float32(0)
        for column in range(t % 32, w.shape[2], 32):
            x = w[matrix, row, column]
            total += x * x
        for step in range(5):
            total += cuda.shfl_xor_sync(FULL, total, 16 >> step)
        longest = max(longest, total)
    if t % 32 == 0:
        found[t // 32] = longest
    cuda.syncthreads()
    if t == 0:
        for warp in range(WARPS):
            longest = max(longest, found[warp])
        floor[matrix] = max(float32(ZERO), longest * float32(NOISE) * float32(NOISE))


@cuda.jit
def judge(cosines, since, refreshes, state, sweeps, remaining, at, history):
    """Decide what each matrix waits for, after so many sweeps; a thread a matrix.

    Rotations round: k is orthonormal to a few millionths after ten sweeps. When the rows of w are
    nearly orthogonal it is refreshed, k = (3 k - k k' k) / 2 and w = k x, once; and again when w is
    done, if more than `FRESH` sweeps have passed by then.

    cosines: the largest of the sweep, taken. since: sweeps since the last refresh, -1 before the
    first. remaining[at] grows by the matrices that are not finished. history[at] keeps the cosines.
    """
    matrix = cuda.grid(1)
    if matrix >= state.size or state[matrix] == FINISHED:
        return
    largest, passed = cosines[matrix], since[matrix]
    history[at, matrix] = largest
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
    cuda.atomic.add(remaining, at, 1)


@cuda.jit
def sort_rows(w, k, unscale, s, order, w_factor, k_factor, deficient):
    """Lengths of the rows of w, largest first: singular values, and what makes rows vectors.

    order[rank] is a row, w_factor[rank] and k_factor[rank] what it is multiplied with. The entry of
    largest magnitude in a row of k becomes positive. w_factor is 0 for a zero row, and deficient 1
    where a row is noise: those vectors are not yet orthogonal. s: (batch, k), as many as are
    wanted. Shared memory: a number a row.
    """
    lengths = cuda.shared.array(0, float32)
    matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
    lane, n = t % 32, int32(w.shape[1])
    for row in range(t // 32, n, WARPS):
        total = float32(0)
        for column in range(lane, w.shape[2], 32):
            x = w[matrix, row, column]
            total += x * x
        for step in range(5):
            total += cuda.shfl_xor_sync(FULL, total, 16 >> step)
        if lane == 0:
            lengths[row] = math.sqrt(total)
    cuda.syncthreads()
    longest = float32(0)
    for row in range(n):
        longest = max(longest, lengths[row])
    for row in range(t // 32, n, WARPS):
        mine, before = lengths[row], int32(0)
        for other in range(lane, n, 32):
            its = lengths[other]
            before += int32(its > mine or (its == mine and other < row))
        for step in range(5):
            before += cuda.shfl_xor_sync(FULL, before, 16 >> step)
        size, value = float32(0), float32(0)
        for column in range(lane, k.shape[2], 32):
            x = k[matrix, row, column]
            if abs(x) > size:
                size, value = abs(x), x
        top = _largest_of_warp(size)
        first = cuda.ffs(cuda.ballot_sync(FULL, size == top)) - 1
        sign = float32(1) if cuda.shfl_sync(FULL, value, first) >= float32(0) else float32(-1)
        if lane == 0:
            noise = mine <= float32(NOISE) * longest
            order[matrix, before] = row
            w_factor[matrix, before] = sign / mine if mine * mine > float32(ZERO) else float32(0)
            k_factor[matrix, before] = sign
            if before < s.shape[1]:
                s[matrix, before] = mine * unscale[matrix]
                if noise:
                    deficient[matrix] = 1


@cuda.jit
def gather(rows, order, factor, out, turned, state, wanted):
    """out[rank] = factor[rank] rows[order[rank]], or as columns; 32 ranks x 32 columns a block."""
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
        if not turned:
            if i < out.shape[1] and j < out.shape[2]:
                out[matrix, i, j] = value
        else:
            tile[y + step, x] = value
    if turned:
        cuda.syncthreads()
        for step in range(0, TILE, ROWS):
            i, j = column + y + step, rank + x
            if i < out.shape[1] and j < out.shape[2]:
                out[matrix, i, j] = tile[x, y + step]


@cuda.jit
def copy_matrices(source, out, state, wanted):
    """out = source, of the matrices whose state is wanted; a block of threads for each row."""
    matrix, row = cuda.blockIdx.x, cuda.blockIdx.y
    if state[matrix] == wanted:
        for column in range(int32(cuda.threadIdx.x), out.shape[2], cuda.blockDim.x):
            out[matrix, row, column] = source[matrix, row, column]


@cuda.jit
def restore_signs(q, r, out, state, wanted):
    """out = q with the signs of r's diagonal: what a QR decomposition flipped, flipped back."""
    matrix, rows, columns = cuda.blockIdx.x, int32(out.shape[1]), int32(out.shape[2])
    if state[matrix] != wanted:
        return
    for n in range(int32(cuda.threadIdx.x), rows * columns, cuda.blockDim.x):
        i, j = n // columns, n % columns
        value = q[matrix, i, j]
        out[matrix, i, j] = -value if r[matrix, j, j] < float32(0) else value


_MATRICES, _VECTORS, _FLAGS = "float32[:, :, ::1]", "float32[:, ::1]", "int32[::1]"
SIGNATURES = {
    "find_largest": f"void({_MATRICES}, float32[::1])",
    "scale_into": f"void({_MATRICES}, float32[::1], {_MATRICES}, boolean)",
    "begin": f"void(float32[::1], {', '.join([_FLAGS] * 5)})",
    "find_floor": f"void({_MATRICES}, float32[::1])",
    "judge": f"void(float32[::1], {_FLAGS}, {_FLAGS}, {_FLAGS}, int32, {_FLAGS}, int32, "
    f"{_VECTORS})",
    "copy_matrices": f"void({_MATRICES}, {_MATRICES}, {_FLAGS}, int32)",
    "sort_rows": f"void({_MATRICES}, {_MATRICES}, float32[::1], {_VECTORS}, int32[:, ::1], "
    f"{_VECTORS}, {_VECTORS}, {_FLAGS})",
    "gather": f"void({_MATRICES}, int32[:, ::1], {_VECTORS}, {_MATRICES}, boolean, {_FLAGS}, "
    "int32)",
    "restore_signs": f"void({_MATRICES}, {_MATRICES}, {_MATRICES}, {_FLAGS}, int32)",
}
