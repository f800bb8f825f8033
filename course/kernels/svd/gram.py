"""R of tall matrices by their Gram matrix, in float64: blocks share a matrix, and none waits.

Reflections go column by column: of 900 x 60 elements one block sweeps 60 times, and again for Q.
Here, with the long side in rows, a is read twice, by as many blocks as there is work for:

1. g = a' a, each block of some rows; the blocks' parts are added in step 2;
2. elimination: g = L D L', with L's inverse in L's place, so R = D^1/2 L', and its inverse;
3. R's rows are rotated, w = J' R, k = J', see `course.kernels.svd.registers`;
4. a's left vectors are Q k' = a (R^-1 k'): two products.

In float32 this would lose half of the digits, as g's singular values are the squares of a's. A
product of two float32 is exact in float64, and what is rounded grows with the square of the
condition: 2^-53 2^28 is still less than float32's last digit. A matrix of a larger condition, or
one that is refused, is told to the host, which decomposes the batch by reflections then.

Source: Y. Yamamoto et al., "Roundoff error analysis of the CholeskyQR2 algorithm", ETNA 44 (2015).
"""

import math
from typing import Any

import numpy as np
from numba import float32, float64, int32

from course.backend import cuda
from course.dispatch.slots import workspace
from course.kernels.steps import Launch, ceil_div, multiprocessors
from course.kernels.svd import registers
from course.kernels.svd.registers import SIZES, padded
from course.kernels.svd.scaling_sorting import largest_of_warp, scales_of, sum_of_warp

THREADS = 256
STAGED = 2048  # elements of a that a block has in shared memory at once
MOST_PARTS = 8  # blocks that share a Gram matrix
DEPTH = 16  # of factors in shared memory at once
CONDITION = 2.0**14  # the largest, in the Frobenius norm
SMALLEST = 2.0**-31  # less than any pivot of a smaller one, whose longest column is about 1
ILL = 2  # what `refused` holds for a larger one


def _side(size: int) -> int:
    """Threads along an edge of a square of so many columns."""
    return {16: 4, 32: 8, 64: 8}.get(size, 16)


def _rows(size: int) -> int:
    """Rows of a product that a thread has."""
    return 8 if size in (32, 48) else 4


def make_gram(size: int) -> Any:
    """The kernel of a' a, (batch, parts, size, size), of a or, where it is wide, a'.

    Groups of threads share the rows that are in shared memory; each has all elements.
    """
    side = _side(size)
    each, groups, rows, pitch = size // side, THREADS // side**2, STAGED // size, size + 1
    count, filled = each * each, rows * size
    loads, staged = ceil_div(filled, THREADS), rows * pitch

    @cuda.jit(device=True, forceinline=True)
    def load_rows(a, wide, base, x):
        """A thread's elements of the rows from `base` on, zeros for what is not there."""
        t = int32(cuda.threadIdx.x)
        for e in range(loads):
            n = int32(t + e * THREADS)
            if wide:
                i, j = int32(base + n % rows), int32(n // rows)
                x[e] = a[j, i] if i < a.shape[1] and j < a.shape[0] else float32(0)
            else:
                i, j = int32(base + n // size), int32(n % size)
                x[e] = a[i, j] if i < a.shape[0] and j < a.shape[1] else float32(0)

    @cuda.jit
    def gram(a, wide, parts):
        here = cuda.shared.array(staged, float64)
        total, x = cuda.local.array(count, float64), cuda.local.array(loads, float32)
        left, right = cuda.local.array(each, float64), cuda.local.array(each, float64)
        matrix, part, t = cuda.blockIdx.x, cuda.blockIdx.y, int32(cuda.threadIdx.x)
        group, down, across = t // (side * side), t // side % side, t % side
        length = int32(a.shape[2] if wide else a.shape[1])
        for n in range(count):
            total[n] = 0.0
        base = int32(part * rows)
        load_rows(a[matrix], wide, base, x)
        while base < length:
            cuda.syncthreads()
            for e in range(loads):
                n = int32(t + e * THREADS)
                if n < filled and wide:
                    here[n % rows * pitch + n // rows] = x[e]
                elif n < filled:
                    here[n // size * pitch + n % size] = x[e]
            cuda.syncthreads()
            base = int32(base + cuda.gridDim.y * rows)
            load_rows(a[matrix], wide, base, x)
            row = group
            while row < rows:
                for m in range(each):
                    left[m] = here[row * pitch + down + side * m]
                    right[m] = here[row * pitch + across + side * m]
                for m in range(each):
                    for n in range(m, each):
                        total[m * each + n] += left[m] * right[n]
                row = int32(row + groups)
        half = int32(groups // 2)
        while half > 0:  # the groups' sums, a row at a time
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

    A thread has elements of every 16th row. In step p the rows below take the pivot's row p: from
    the diagonal on it is D L', before it the inverse of L, which has a one where row p has p.
    """
    width = 16 if size <= 64 else 32
    rows, columns, warps = size // 16, ceil_div(size, width), width // 2
    count, pitch = rows * columns, width * columns
    twice = 2 * pitch

    @cuda.jit(max_registers=128)
    def eliminate(parts, rank, r, inverse, unscale, refused):
        own, here = cuda.local.array(count, float64), cuda.shared.array(twice, float64)
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
            row = int32(p % 2 * pitch)  # what a warp still reads, no other one overwrites
            for m in range(rows):
                if down + 16 * m == p:
                    for n in range(columns):
                        here[row + across + width * n] = own[m * columns + n]
            cuda.syncthreads()
            pivot = here[row + p]
            fine = fine and pivot > SMALLEST
            reciprocal = 0.0
            if pivot > SMALLEST:  # two Newton steps: a division would take as long as all the rest
                reciprocal = float64(float32(1) / float32(pivot))
                reciprocal *= 2.0 - pivot * reciprocal
                reciprocal *= 2.0 - pivot * reciprocal
            if t == 0:
                roots[p] = reciprocal
            for m in range(rows):
                i = int32(down + 16 * m)
                if i > p:
                    times = here[row + i] * reciprocal
                    for n in range(columns):
                        j = int32(across + width * n)
                        before = 0.0 if j == p else own[m * columns + n]
                        other = 1.0 if j == p else here[row + j]
                        own[m * columns + n] = before - times * other
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

    left, or its transpose, is (batch, rows, depth), right (batch, depth, columns), out, or its
    transpose, (batch, rows, columns).
    """
    side = _side(size)
    each, high = size // side, THREADS // side
    own, pitch = _rows(size), DEPTH + 1
    tile = own * high
    staged, below = tile * pitch, DEPTH * size

    @cuda.jit
    def product(left, left_across, right, depth, out, out_across):
        here = cuda.shared.array(staged, float64)
        there = cuda.shared.array(below, float64)
        total, x = cuda.local.array((own, each), float64), cuda.local.array(own, float64)
        matrix, first, t = cuda.blockIdx.x, int32(cuda.blockIdx.y * tile), int32(cuda.threadIdx.x)
        rows = int32(out.shape[2] if out_across else out.shape[1])
        columns = int32(out.shape[1] if out_across else out.shape[2])
        down, across = (t % high, t // high) if out_across else (t // side, t % side)
        for m in range(own):
            for n in range(each):
                total[m, n] = 0.0
        base = int32(0)
        while base < depth:
            n = t
            while n < tile * DEPTH:
                i, k = (n % tile, n // tile) if left_across else (n // DEPTH, n % DEPTH)
                row, d, value = int32(first + i), int32(base + k), float32(0)
                if row < rows and d < depth:
                    value = left[matrix, d, row] if left_across else left[matrix, row, d]
                here[i * pitch + k] = value
                n = int32(n + THREADS)
            n = t
            while n < below:
                d, j, other = int32(base + n // size), int32(n % size), 0.0
                if d < depth and j < columns:
                    other = right[matrix, d, j]
                there[n] = other
                n = int32(n + THREADS)
            cuda.syncthreads()
            for k in range(DEPTH):
                for m in range(own):
                    x[m] = here[(down + high * m) * pitch + k]
                for n in range(each):
                    y = there[k * size + across + side * n]
                    for m in range(own):
                        total[m, n] += x[m] * y
            cuda.syncthreads()
            base = int32(base + DEPTH)
        for m in range(own):
            for n in range(each):
                row, column = int32(first + down + high * m), int32(across + side * n)
                if row < rows and column < columns:
                    if out_across:
                        out[matrix, column, row] = total[m, n]
                    else:
                        out[matrix, row, column] = total[m, n]

    return product


GRAM, ELIMINATE, PRODUCT = (
    {size: make(size) for size in SIZES} for make in (make_gram, make_eliminate, make_product)
)


def _multiplying(left: Any, left_across: bool, right: Any, out: Any, out_across: bool) -> Launch:
    """The launch of out = left right; across: of a transposed one."""
    rows, columns = out.shape[:0:-1] if out_across else out.shape[1:]
    size, depth = padded(columns), np.int32(right.shape[1])
    tiles = ceil_div(rows, _rows(size) * THREADS // _side(size))
    arguments = left, bool(left_across), right, depth, out, bool(out_across)
    return Launch(PRODUCT[size], (len(out), tiles), THREADS, arguments)


def launches(a: Any, u: Any, s: Any, vt: Any, told: Any) -> list[Launch]:
    """All launches for matrices of any strides, (batch, rows, columns)."""
    (batch, *shape), wide = a.shape, a.shape[1] < a.shape[2]
    rank, length = sorted(shape)
    size, wanted = padded(rank), s.shape[1]
    parts = min(ceil_div(length * size, STAGED), ceil_div(2 * multiprocessors(), batch), MOST_PARTS)
    sums = workspace((batch, parts, size, size), np.float64)
    inverse = workspace((batch, size, size), np.float64)
    by = workspace((batch, rank, wanted), np.float64)
    r, q = (workspace((batch, size, size), np.float32) for _ in range(2))
    ones, unscale = (workspace(batch, np.float32) for _ in range(2))
    refused = workspace(batch, np.int32)
    short, long = (u, vt) if wide else (vt, u)
    kernel, threads = ELIMINATE[size]
    return [
        Launch(GRAM[size], (batch, parts), THREADS, (a, bool(wide), sums)),
        Launch(
            kernel, batch, threads, (sums, np.int32(rank), r, inverse, unscale, refused)
        ),
        registers.rotating(r, q, s, short, wide, ones, unscale, refused, told),
        _multiplying(q, True, inverse, by, True),
        _multiplying(a, wide, by, long, wide),
    ]  # fmt: skip
