"""R of tall matrices by their Gram matrix, in float64: blocks share a matrix, and none waits.

Reflections go column by column: one block passes 60 times over 900 x 60 elements, and again for Q.
Here, with the long side in rows, a is read twice, by as many blocks as there is work for:

1. g = a' a, a block for some of the rows; step 2 adds the blocks' parts;
2. elimination: g = L D L', with L's inverse in L's place, so R = D^1/2 L', and its inverse;
3. R's rows are rotated, w = J' R, k = J', see `course.kernels.svd.registers`;
4. a's left vectors are Q k' = a (R^-1 k'): two products.

In float32 this would lose half of the digits, as g's singular values are the squares of a's. In
float64, a product of two float32 is exact. The rounding of sums grows with the square of the
condition, but 2^-53 2^28 is still less than float32's last digit. The host learns of matrices of a
larger condition, or with NaN or infinity, and decomposes the batch again by reflections.

Source: Y. Yamamoto et al., "Roundoff error analysis of the CholeskyQR2 algorithm", ETNA 44 (2015).
"""

import math
from typing import Any

import numpy as np
from numba import float32, float64, int32, uint32

from course.backend import cuda
from course.dispatch.slots import workspace
from course.heuristics.svd import gram_parts, gram_tile
from course.kernels.arrays import seen_as
from course.kernels.steps import Launch, ceil_div
from course.kernels.svd import registers
from course.kernels.svd.registers import SIZES, padded
from course.kernels.svd.scaling_sorting import largest_of_warp, scales_of, sum_of_warp
from warpsim.ptx import load, store

THREADS = 256
STAGED = 2048  # elements of a in a block's shared memory at a time, about
SQUARE = 16  # elements down and across that a block's threads load
DEPTH = 16  # of the factors in shared memory at a time
CONDITION = 2.0**14  # the largest that is taken, in the Frobenius norm
SMALLEST = 2.0**-31  # below all pivots of a smaller condition, if the longest column is about 1
ILL = 2  # in `refused`: a larger condition


def make_gram(size: int) -> Any:
    """The kernel of a' a, (batch, parts, size, size), of tall a; rows_first: columns contiguous.

    Groups of threads share out the rows in shared memory; each group sums all elements of a' a.
    """
    side, _ = gram_tile(size)
    each, groups, pitch = size // side, THREADS // side**2, size + 1
    rows = max(SQUARE, STAGED // size // SQUARE * SQUARE)
    down_loads, across_loads = rows // SQUARE, size // SQUARE
    count, loads, staged = each * each, down_loads * across_loads, rows * pitch

    @cuda.jit(device=True, forceinline=True)
    def load_rows(a, first, column, x):
        """Load a thread's elements of the next rows; beyond the last row, indices are clamped.

        Were each load behind a branch, the loads would wait for one another.
        """
        high, width = int32(a.shape[0] - 1), int32(a.shape[1] - 1)
        for m in range(down_loads):
            for n in range(across_loads):
                i, j = min(int32(first + m * SQUARE), high), min(int32(column + n * SQUARE), width)
                x[m * across_loads + n] = a[uint32(i), uint32(j)]

    @cuda.jit
    def gram(a, rows_first, parts):
        here = cuda.shared.array(staged, float64)
        total, x = cuda.local.array(count, float64), cuda.local.array(loads, float32)
        left, right = cuda.local.array(each, float64), cuda.local.array(each, float64)
        matrix, part, t = cuda.blockIdx.x, cuda.blockIdx.y, int32(cuda.threadIdx.x)
        group, down, across = t // (side * side), t // side % side, t % side
        length, rank = int32(a.shape[1]), int32(a.shape[2])
        row, column = (t % SQUARE, t // SQUARE) if rows_first else (t // SQUARE, t % SQUARE)
        for n in range(count):
            total[n] = 0.0
        base = int32(part * rows)
        load_rows(a[matrix], int32(base + row), column, x)
        while base < length:
            cuda.syncthreads()
            for m in range(down_loads):
                for n in range(across_loads):
                    i, j = int32(row + m * SQUARE), int32(column + n * SQUARE)
                    inside = base + i < length and j < rank
                    value = x[m * across_loads + n] if inside else float32(0)
                    store(here, int32(i * pitch + j), float64(value))
            cuda.syncthreads()
            base = int32(base + cuda.gridDim.y * rows)
            load_rows(a[matrix], int32(base + row), column, x)
            k = group
            while k < rows:
                for m in range(each):
                    left[m] = load(here, int32(k * pitch + down + side * m))
                    right[m] = load(here, int32(k * pitch + across + side * m))
                for m in range(each):
                    for n in range(m, each):
                        total[m * each + n] += left[m] * right[n]
                k = int32(k + groups)
        half = int32(groups // 2)
        while half > 0:  # add up the groups' sums, a row at a time
            for m in range(each):
                cuda.syncthreads()
                if half <= group < 2 * half:
                    for n in range(each):
                        here[n * side * side * half + t - half * side * side] = total[m * each + n]
                cuda.syncthreads()
                if group < half:
                    for n in range(each):
                        total[m * each + n] += here[n * side * side * half + t]
            half = int32(half // 2)
        if group == 0:
            for m in range(each):
                for n in range(m, each):
                    parts[matrix, part, down + side * m, across + side * n] = total[m * each + n]

    return gram


def make_eliminate(size: int) -> tuple[Any, int]:
    """The kernel of R, float32 and scaled, and R^-1', float64, size x size; and its threads.

    A thread has elements of every 16th row. Step p subtracts multiples of row p from those
    below. From the diagonal on, row p is D L'; before it, L's inverse, whose diagonal is 1.
    """
    width = 16 if size <= 64 else 32
    rows, columns, warps = size // 16, ceil_div(size, width), width // 2
    count, pitch = rows * columns, width * columns
    twice, staged = 2 * pitch, 2 * pitch + 2

    @cuda.jit(max_registers=128)
    def eliminate(parts, rank, r, inverse, unscale, refused):
        own, here = cuda.local.array(count, float64), cuda.shared.array(staged, float64)
        pivotal = cuda.local.array(columns, float64)
        roots, found = cuda.shared.array(size, float64), cuda.shared.array(warps, float32)
        matrix, t, part = cuda.blockIdx.x, int32(cuda.threadIdx.x), int32(0)
        down, across, largest = t // width, t % width, float32(0)
        for n in range(count):
            own[n] = 0.0
        while part < parts.shape[1]:
            for m in range(rows):
                for n in range(columns):
                    i, j = int32(down + 16 * m), int32(across + width * n)
                    if i <= j < rank:
                        own[m * columns + n] += parts[matrix, part, i, j]
            part = int32(part + 1)
        for m in range(rows):
            for n in range(columns):
                i, j = int32(down + 16 * m), int32(across + width * n)
                if i == j:
                    largest = max(largest, float32(math.sqrt(own[m * columns + n])))
        largest = largest_of_warp(largest)
        if t % 32 == 0:
            found[t // 32] = largest
        cuda.syncthreads()
        for other in range(warps):
            largest = max(largest, found[other])
        scale, back = scales_of(largest)
        fine, p, square = largest < float32(math.inf), int32(0), float64(scale) * scale
        for m in range(rows):
            for n in range(columns):
                padding = down + 16 * m == across + width * n and down + 16 * m >= rank
                own[m * columns + n] = 1.0 if padding else own[m * columns + n] * square
        while p < size:
            row = int32(p % 2 * pitch)  # double buffered: warps may still read the other
            for m in range(rows):
                if down + 16 * m == p:
                    for n in range(columns):
                        j, value = int32(across + width * n), own[m * columns + n]
                        store(here, int32(row + j), 1.0 if j == p else value)
                        if j == p:
                            store(here, int32(twice + p % 2), value)
            for n in range(columns):  # clear L's column p: the inverse begins there
                if p // width == n and across == p % width:
                    for m in range(rows):
                        own[m * columns + n] *= float64(down + 16 * m <= p)
            cuda.syncthreads()
            pivot = load(here, int32(twice + p % 2))
            fine = fine and pivot > SMALLEST
            reciprocal = 0.0
            if pivot > SMALLEST:  # two Newton steps: a division would take as long as all the rest
                reciprocal = float64(float32(1) / float32(pivot))
                reciprocal *= 2.0 - pivot * reciprocal
                reciprocal *= 2.0 - pivot * reciprocal
            if t == 0:
                roots[p] = reciprocal
            for n in range(columns):
                pivotal[n] = load(here, int32(row + across + width * n))
            for m in range(rows):
                if down + 16 * m > p:
                    times = load(here, int32(row + down + 16 * m)) * reciprocal
                    for n in range(columns):
                        own[m * columns + n] -= times * pivotal[n]
            p = int32(p + 1)
        cuda.syncthreads()
        if t < size:
            roots[t] = math.sqrt(roots[t])
        cuda.syncthreads()
        total = float32(0)
        for m in range(rows):
            for n in range(columns):
                i, j = int32(down + 16 * m), int32(across + width * n)
                x = own[m * columns + n] * roots[i]
                if j < size:
                    r[matrix, i, j] = float32(x) if i <= j else float32(0)
                    x = roots[i] if i == j else x if i > j else 0.0
                    inverse[matrix, i, j] = x * scale
                    total += float32(x * x) if i < rank else float32(0)
        total = sum_of_warp(total)
        if t % 32 == 0:
            found[t // 32] = total
        cuda.syncthreads()
        if t == 0:
            for other in range(1, warps):
                total += found[other]
            fine = fine and rank * total <= float32(CONDITION * CONDITION)
            unscale[matrix], refused[matrix] = back, int32(0 if fine else ILL)

    return eliminate, 16 * width


def make_product(size: int) -> Any:
    """The kernel of out = left right, of at most `size` columns, summed in float64.

    left is (batch, rows, depth), right (batch, depth, columns), out (batch, rows, columns);
    rows_first: where columns of left, or of out, are contiguous.
    """
    side, own = gram_tile(size)
    each, high, pitch = size // side, THREADS // side, DEPTH + 1
    tile = own * high
    staged, below = tile * pitch, DEPTH * size
    down_loads, across_loads = tile // SQUARE, size // SQUARE

    @cuda.jit(device=True, forceinline=True)
    def load_factors(left, right, row, k, x, d, column, y):
        """Load a thread's elements of both factors; beyond the edges, indices are clamped."""
        high, deep, width = left.shape[0] - 1, left.shape[1] - 1, int32(right.shape[1] - 1)
        for m in range(down_loads):
            i = min(int32(row + m * SQUARE), int32(high))
            x[m] = left[uint32(i), uint32(min(k, int32(deep)))]
        for n in range(across_loads):
            j = min(int32(column + n * SQUARE), width)
            y[n] = load(right, (min(d, int32(deep)), j))

    @cuda.jit(max_registers=128)
    def product(left, rows_first, right, out, out_rows_first):
        here = cuda.shared.array(staged, float64)
        there = cuda.shared.array(below, float64)
        total, own_left = cuda.local.array((own, each), float64), cuda.local.array(own, float64)
        x, y = cuda.local.array(down_loads, float32), cuda.local.array(across_loads, float64)
        matrix, first, t = cuda.blockIdx.x, int32(cuda.blockIdx.y * tile), int32(cuda.threadIdx.x)
        slow, fast, base = t // SQUARE, t % SQUARE, int32(0)
        row, k = (fast, slow) if rows_first else (slow, fast)
        down, across = (t % high, t // high) if out_rows_first else (t // side, t % side)
        depth = int32(left.shape[2])
        for m in range(own):
            for n in range(each):
                total[m, n] = 0.0
        load_factors(left[matrix], right[matrix], int32(first + row), k, x, slow, fast, y)
        while base < depth:
            for m in range(down_loads):
                store(here, int32((row + m * SQUARE) * pitch + k), float64(x[m]))
            for n in range(across_loads):
                value = y[n] if base + slow < depth else 0.0
                store(there, int32(slow * size + fast + n * SQUARE), value)
            cuda.syncthreads()
            base = int32(base + DEPTH)
            if base < depth:
                i, d = int32(first + row), int32(base + slow)
                load_factors(left[matrix], right[matrix], i, int32(base + k), x, d, fast, y)
            for e in range(DEPTH):
                for m in range(own):
                    own_left[m] = load(here, int32((down + high * m) * pitch + e))
                for n in range(each):
                    value = load(there, int32(e * size + across + side * n))
                    for m in range(own):
                        total[m, n] += own_left[m] * value
            cuda.syncthreads()
        for m in range(own):
            for n in range(each):
                i, j = int32(first + down + high * m), int32(across + side * n)
                if i < out.shape[1] and j < out.shape[2]:
                    out[matrix, uint32(i), uint32(j)] = total[m, n]

    return product


GRAM, ELIMINATE, PRODUCT = (
    {size: make(size) for size in SIZES} for make in (make_gram, make_eliminate, make_product)
)


def _tall(a: Any, wide: bool) -> Any:
    """Matrices, or the transposed of wide ones."""
    (batch, rows, columns), (matrix, row, column) = a.shape, a.strides
    return seen_as(a, (batch, columns, rows), (matrix, column, row)) if wide else a


def _multiplying(left: Any, left_wide: bool, right: Any, out: Any, out_wide: bool) -> Launch:
    """The launch of out = left right; left_wide, out_wide: that matrix is transposed."""
    arguments = _tall(left, left_wide), bool(left_wide), right, _tall(out, out_wide), bool(out_wide)
    _, rows, columns = arguments[3].shape
    size = padded(columns)
    side, own = gram_tile(size)
    tiles = ceil_div(rows, own * THREADS // side)
    return Launch(PRODUCT[size], (len(out), tiles), THREADS, arguments)


def launches(a: Any, u: Any, s: Any, vt: Any, told: Any) -> list[Launch]:
    """All launches for matrices of any strides, (batch, rows, columns)."""
    (batch, *shape), wide = a.shape, a.shape[1] < a.shape[2]
    rank, length = sorted(shape)
    size, wanted = padded(rank), s.shape[1]
    parts = gram_parts(ceil_div(length * size, STAGED), batch)
    sums = workspace((batch, parts, size, size), np.float64)
    inverse = workspace((batch, size, size), np.float64)
    by = workspace((batch, rank, wanted), np.float64)
    r, q = (workspace((batch, size, size), np.float32) for _ in range(2))
    ones, unscale = (workspace(batch, np.float32) for _ in range(2))
    refused = workspace(batch, np.int32)
    short, long = (u, vt) if wide else (vt, u)
    kernel, threads = ELIMINATE[size]
    return [
        Launch(GRAM[size], (batch, parts), THREADS, (_tall(a, wide), bool(wide), sums)),
        Launch(
            kernel, batch, threads, (sums, np.int32(rank), r, inverse, unscale, refused)
        ),
        registers.rotating(r, q, s, short, wide, ones, unscale, refused, told),
        _multiplying(q, True, inverse, by, True),
        _multiplying(a, wide, by, long, wide),
    ]  # fmt: skip
