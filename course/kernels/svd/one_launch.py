"""The whole SVD of small matrices in one launch: a block a matrix, in shared memory and registers.

For a matrix, or its transpose, of `length` x `rank`, length >= rank:

1. its columns go to shared memory, scaled by a power of two;
2. a = Q R by Householder reflections: Q = I - V T V' (see `course.kernels.svd.qr`); V stays where
   the columns were;
3. rotations make the rows of w = R orthogonal, w = diag(s) Y', while k = J' gathers them, see
   `course.kernels.svd.registers`;
4. rows are sorted: a = Q k' diag(s) Y'. Rows of Y' whose singular values are noise are completed.
   Q k' = k' - V (T V' k').

Loops are `while` loops over int32. Those over `range` would count in 64 bits and take twice the
code, which is much to compile and to load here.
"""

import math
from typing import Any

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.heuristics.svd import FEW_WARPS, MANY_WARPS, warps_of
from course.kernels.steps import Launch
from course.kernels.svd.qr import scale_and_shift
from course.kernels.svd.registers import REFUSED, TOGETHER, UNSCALE, make_parts, padded
from course.kernels.svd.scaling_sorting import largest_of_warp, scales_of, sum_of_warp
from course.kernels.warps import ALL
from warpsim.ptx import load, store

SIZES = tuple(FEW_WARPS)  # to which columns are padded
LARGEST = SIZES[-1]


@cuda.jit(device=True)
def _take_columns(a, wide, columns, pitch, warps):
    """Copy a matrix's columns, if wide its rows; return the largest magnitude, NaN as infinity."""
    found = cuda.shared.array(32, float32)
    t, largest = int32(cuda.threadIdx.x), float32(0)
    lane, warp = t % 32, t // 32
    across, down = (int32(1), pitch) if not wide else (pitch, int32(1))
    row, rows, width = warp, int32(a.shape[0]), int32(a.shape[1])
    while row < rows:
        column = lane
        while column < width:
            x = a[row, column]
            store(columns, int32(row * across + column * down), x)
            size = abs(x)
            largest = max(largest, size if size < float32(math.inf) else float32(math.inf))
            column = int32(column + 32)
        row = int32(row + warps)
    largest = largest_of_warp(largest)
    if lane == 0:
        found[warp] = largest
    cuda.syncthreads()
    for other in range(warps):
        largest = max(largest, found[other])
    cuda.syncthreads()
    return largest


@cuda.jit(device=True)
def _reflect(columns, pitch, length, rank, scales, shifts, products, square_pitch, warps):
    """R above the columns' diagonal, V without its scales below it; V'V above that of products."""
    along = cuda.local.array(TOGETHER, float32)
    t = int32(cuda.threadIdx.x)
    lane, warp, j = t % 32, t // 32, int32(0)
    while j < rank:
        squared, mine = float32(0), int32(j * pitch)
        i = int32(j + lane)
        while i < length:
            x = load(columns, int32(mine + i))
            squared += x * x
            i = int32(i + 32)
        scale, shift = scale_and_shift(sum_of_warp(squared), load(columns, int32(mine + j)))
        first = int32(warp * TOGETHER)
        while first < rank:
            for e in range(TOGETHER):
                along[e] = float32(0)
            i = int32(j + lane)
            while i < length:
                x = load(columns, int32(mine + i)) + (shift if i == j else float32(0))
                for e in range(TOGETHER):
                    k = min(int32(first + e), int32(rank - 1))
                    along[e] += x * load(columns, int32(k * pitch + i))
                i = int32(i + 32)
            for e in range(TOGETHER):
                along[e] = scale * sum_of_warp(along[e])
                k = int32(first + e)
                if k < j and lane == 0:
                    store(products, int32(k * square_pitch + j), along[e] * scales[k])
                along[e] *= scale
            i = int32(j + lane)
            while i < length:
                x = load(columns, int32(mine + i)) + (shift if i == j else float32(0))
                for e in range(TOGETHER):
                    k = int32(first + e)
                    if j < k < rank:
                        at = int32(k * pitch + i)
                        store(columns, at, load(columns, at) - along[e] * x)
                i = int32(i + 32)
            first = int32(first + TOGETHER * warps)
        if t == 0:
            scales[j], shifts[j] = scale, shift
        cuda.syncthreads()
        j = int32(j + 1)


def shared_bytes(rank: int, length: int) -> int:
    """Bytes of dynamic shared memory of a block."""
    size = padded(rank, SIZES)
    return 4 * (3 * size * (size + 1) + rank * (length | 1))


def make_svd(size: int, warps: int) -> Any:
    """The kernel for matrices of at most `size` columns, by blocks of so many warps.

    It takes a, u, s, vt; most, a number of sweeps; and told, which the host reads. Dynamic shared
    memory: `shared_bytes`.
    """
    pitch = size + 1
    square, lane_rows = size * pitch, (size + 31) // 32

    @cuda.jit(device=True)
    def element(source, i, j):
        columns, column_pitch, scales, shifts = source
        if i == j and scales[j] != float32(0):
            return -shifts[j]
        return load(columns, int32(j * column_pitch + i))

    decompose = make_parts(size, warps, element)

    @cuda.jit(device=True)
    def gather_reflections(columns, column_pitch, k, order, products, scales, rank, count, y):
        """y = T V' k' for k's first `count` rows in order, times the scales that V's columns lack.

        A lane has rows of y, a warp `TOGETHER` columns at a time.
        """
        own = cuda.local.array((lane_rows, TOGETHER), float32)
        t = int32(cuda.threadIdx.x)
        lane, c = t % 32, int32(t // 32 * TOGETHER)
        while c < count:
            for row in range(lane_rows):
                for e in range(TOGETHER):
                    own[row, e] = float32(0)
            n = int32(0)
            while n < rank:
                for row in range(lane_rows):
                    i = int32(lane + 32 * row)
                    x = load(columns, int32(i * column_pitch + n)) if i < rank else float32(0)
                    for e in range(TOGETHER):
                        own[row, e] += x * load(k, int32(order[c + e] * pitch + n))
                n = int32(n + 1)
            for row in range(lane_rows):
                i = int32(lane + 32 * row)
                for e in range(TOGETHER):
                    own[row, e] *= scales[i] if i < rank else float32(0)
            j = int32(rank - 1)
            while j > 0:
                for row in range(lane_rows):
                    i = int32(lane + 32 * row)
                    x = load(products, int32(i * pitch + j)) if i < j else float32(0)
                    for e in range(TOGETHER):
                        last = own[0, e]
                        if lane_rows > 1:
                            last = own[lane_rows - 1, e] if j >= 32 else last
                        own[row, e] -= x * cuda.shfl_sync(ALL, last, j % 32)
                j = int32(j - 1)
            for row in range(lane_rows):
                i = int32(lane + 32 * row)
                if i < rank:
                    for e in range(TOGETHER):
                        store(y, int32(i * pitch + c + e), scales[i] * own[row, e])
            c = int32(c + TOGETHER * warps)
        cuda.syncthreads()

    @cuda.jit(device=True)
    def write_long(
        columns, column_pitch, length, k, order, y, rank, wanted, count, out, transposed
    ):
        """out = k' - V y, or its transpose; lanes have neighbouring rows of `TOGETHER` columns."""
        total = cuda.local.array(TOGETHER, float32)
        t, groups = int32(cuda.threadIdx.x), int32((length + 31) // 32)
        lane, c, group = t % 32, int32(0), t // 32
        while c < count:
            while group < groups:
                i = int32(32 * group + lane)
                if i < length:
                    for e in range(TOGETHER):
                        total[e] = float32(0)
                        if i < rank:
                            total[e] = load(k, int32(order[c + e] * pitch + i))
                    j = int32(0)
                    while j < rank:
                        x = load(columns, int32(j * column_pitch + i))
                        for e in range(TOGETHER):
                            total[e] -= x * load(y, int32(j * pitch + c + e))
                        j = int32(j + 1)
                    for e in range(TOGETHER):
                        if c + e < wanted:
                            if transposed:
                                out[c + e, i] = total[e]
                            else:
                                out[i, c + e] = total[e]
                group = int32(group + warps)
            while group >= groups:  # go on to the next columns
                group = int32(group - groups)
                c = int32(c + TOGETHER)

    @cuda.jit
    def svd_in_one_launch(a, u, s, vt, most, told):
        memory = cuda.shared.array(0, float32)
        scales, shifts = cuda.shared.array(size, float32), cuda.shared.array(size, float32)
        order = cuda.shared.array(size, int32)
        matrix, t = cuda.blockIdx.x, int32(cuda.threadIdx.x)
        lane, warp = t % 32, t // 32
        wide = a.shape[1] < a.shape[2]
        rank, length = int32(min(a.shape[1], a.shape[2])), int32(max(a.shape[1], a.shape[2]))
        column_pitch, wanted = int32(length | 1), int32(s.shape[1])
        count = int32((wanted + TOGETHER - 1) & -TOGETHER)
        w, k, products = memory[:square], memory[square : 2 * square], memory[2 * square :]
        columns = memory[3 * square :]
        # 1
        largest = _take_columns(a[matrix], wide, columns, column_pitch, warps)
        factor, back = scales_of(largest)
        if t == 0:
            told[REFUSED, matrix] = int32(0 if largest < float32(math.inf) else 1)
            told[UNSCALE, matrix] = cuda.libdevice.float_as_int(back)
        j = warp
        while j < rank:
            i = lane
            while i < length:
                at = int32(j * column_pitch + i)
                x = load(columns, at) * factor if factor != float32(0) else float32(0)
                store(columns, at, x)
                i = int32(i + 32)
            j = int32(j + warps)
        cuda.syncthreads()
        # 2
        _reflect(columns, column_pitch, length, rank, scales, shifts, products, pitch, warps)
        source = columns, column_pitch, scales, shifts
        # 3
        short, long = (u, vt) if wide else (vt, u)
        into = s[matrix]
        decompose(memory, source, rank, most, told, matrix, order, into, back, short[matrix], wide)
        # 4
        j = warp
        while j < rank:  # V takes R's place, its diagonal too
            i = lane
            while i <= j:
                at = int32(j * column_pitch + i)
                store(columns, at, load(columns, at) + shifts[j] if i == j else float32(0))
                i = int32(i + 32)
            j = int32(j + warps)
        cuda.syncthreads()
        gather_reflections(columns, column_pitch, k, order, products, scales, rank, count, w)
        write_long(
            columns, column_pitch, length, k, order, w, rank, wanted, count, long[matrix], wide
        )

    return svd_in_one_launch


SVD = {
    (size, warps): make_svd(size, warps)
    for size, warps in sorted({*FEW_WARPS.items(), *MANY_WARPS.items()})
}


def launch(a: Any, u: Any, s: Any, vt: Any, told: Any, most: int) -> Launch:
    """The launch for these arrays, of batches: (batch, ...)."""
    rank, length = sorted(a.shape[1:])
    size, shared = padded(rank, SIZES), shared_bytes(rank, length)
    warps = warps_of(size, shared, len(a))
    arguments = a, u, s, vt, np.int32(most), told
    return Launch(SVD[size, warps], len(a), 32 * warps, arguments, shared)
