# ruff: noqa: D103 - the names say it
"""Loops of another length in each thread, functions, local and constant arrays."""

from __future__ import annotations

import math

import numpy as np
from numba import complex128, float32, float64, int32, int64
from numba.types import UniTuple

from course.backend import cuda
from course_recording.profiling.cases.accesses import numbers, scattered, shuffled
from course_recording.profiling.cases.noted import Cases, zeros

CASES = Cases()
WEIGHTS = np.array([1, 4, 6, 4, 1], "f4") / 16
SORTED = np.sort(scattered(200, 1000, 9))


# ---------------------------------------------------------------------- while
@CASES((4, 5), (16, 4), zeros((19, 60), "i4"), 30)
@cuda.jit
def mandelbrot(out, most):
    column, row = cuda.grid(2)
    if row >= out.shape[0] or column >= out.shape[1]:
        return
    c = complex128(complex(column / 20.0 - 2.0, row / 10.0 - 1.0))
    z, steps = complex128(0), 0
    while steps < most and z.real * z.real + z.imag * z.imag < 4.0:
        z = z * z + c
        steps += 1
    out[row, column] = steps


@CASES(3, 64, zeros(170, "i4"), SORTED, scattered(170, 1000, 3))
@cuda.jit
def binary_search(out, ordered, wanted):
    i = cuda.grid(1)
    if i < out.size:
        value, low, high = wanted[i], 0, ordered.size
        while low < high:
            middle = (low + high) >> 1
            if ordered[middle] < value:
                low = middle + 1
            else:
                high = middle
        out[i] = low


@CASES(2, 48, zeros(90), scattered(64, 70, 8) - 6, numbers(64))
@cuda.jit
def chains(out, following, value):
    i = cuda.grid(1)
    if i < out.size:
        node, total, steps = int32(i % 64), float32(0), 0
        while 0 <= node < following.size and steps < 20:
            total += value[node]
            node = following[node]
            steps += 1
        out[i] = total


@CASES(2, 100, zeros(190, "i4"))
@cuda.jit
def collatz(out):
    i = cuda.grid(1)
    if i < out.size:
        value, steps = int64(i + 1), 0
        while value != 1:
            value = 3 * value + 1 if value & 1 else value >> 1
            steps += 1
        out[i] = steps


@CASES(2, 96, zeros(180, "u4"), numbers(180, "u4"), numbers(180, "u4")[::-1].copy())
@cuda.jit
def greatest_divisors(out, a, b):
    i = cuda.grid(1)
    if i < out.size:
        x, y = a[i], b[i]
        while y:
            x, y = y, x % y
        out[i] = x


@CASES(2, 64, zeros(120, "f8"), numbers(120, "f8"))
@cuda.jit
def newton_roots(out, x):
    i = cuda.grid(1)
    if i < out.size:
        wanted = x[i] + 1
        root = wanted
        while abs(root * root - wanted) > 1e-9 * wanted:
            root = 0.5 * (root + wanted / root)
        out[i] = root


@CASES(3, 32, zeros(80, "i4"), numbers((80, 23), "i4"), 90)
@cuda.jit
def first_above(out, matrix, level):
    row = cuda.grid(1)
    if row < out.size:
        found = -1
        for column in range(matrix.shape[1]):
            if matrix[row, column] > level:
                found = column
                break
        out[row] = found


@CASES(2, 64, zeros(110, "i4"), numbers(110 * 9, "u1"))
@cuda.jit
def words_in_bytes(out, text):
    """Count the bytes before the first above 96, of each 9; multiples of three do not count."""
    i = cuda.grid(1)
    if i < out.size:
        place, count = 9 * i, 0
        while place < 9 * i + 9:
            byte = text[place]
            place += 1
            if byte % 3 == 0:
                continue
            if byte > 96:
                break
            count += 1
        out[i] = count


# ---------------------------------------------------------------------- for
@CASES(2, 64, zeros(1024), numbers(1024), np.float32(3))
@cuda.jit
def strided_scale(out, x, factor):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = factor * x[i]


@CASES(3, 32, zeros(90), numbers((90, 17)), numbers(17))
@cuda.jit
def matrix_by_vector(out, matrix, x):
    row = cuda.grid(1)
    if row < out.size:
        total = float32(0)
        for column in range(x.size):
            total += matrix[row, column] * x[column]
        out[row] = total


@CASES(3, 32, zeros(90, "f8"), numbers((17, 90), "f8"), numbers(17, "f8"))
@cuda.jit
def vector_by_matrix(out, matrix, x):
    column = cuda.grid(1)
    if column < out.size:
        total = float64(0)
        for row in range(x.size):
            total += matrix[row, column] * x[row]
        out[column] = total


@CASES((2, 7), (32, 4), zeros((27, 50), "i8"), numbers((27, 13), "i4"), numbers((13, 50), "i4"))
@cuda.jit
def integer_product(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = int64(0)
        for k in range(a.shape[1]):
            total += int64(a[row, k]) * int64(b[k, column])
        out[row, column] = total


@CASES(3, 50, zeros(130, "i4"), zeros(130), numbers((130, 2)), numbers((21, 2)))
@cuda.jit
def nearest_centre(out, away, points, centres):
    i = cuda.grid(1)
    if i < out.size:
        x, y = points[i, 0], points[i, 1]
        best, least = 0, float32(1e30)
        for k in range(centres.shape[0]):
            dx, dy = x - centres[k, 0], y - centres[k, 1]
            if dx * dx + dy * dy < least:
                best, least = k, dx * dx + dy * dy
        out[i] = best
        away[i] = least


@CASES((3, 3), (16, 8), zeros((24, 44)), numbers((24, 44)))
@cuda.jit
def box_average(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total, count = float32(0), 0
        for dr in range(-1, 2):
            for dc in range(-1, 2):
                r, c = row + dr, column + dc
                if 0 <= r < image.shape[0] and 0 <= c < image.shape[1]:
                    total += image[r, c]
                    count += 1
        out[row, column] = total / float32(count)


@CASES(2, 96, zeros(170, "i8"), numbers(170, "i8"))
@cuda.jit
def powers(out, x):
    i = cuda.grid(1)
    if i < out.size:
        base, exponent, result = x[i] % 7, i % 12, int64(1)
        while exponent > 0:
            if exponent & 1:
                result *= base
            base *= base
            exponent >>= 1
        out[i] = result


@CASES(3, 64, zeros(150), numbers(150), numbers(150), numbers(150))
@cuda.jit
def roots_of_quadratics(out, a, b, c):
    i = cuda.grid(1)
    if i >= out.size:
        return
    p, q, r = a[i], b[i], c[i]
    discriminant = q * q - float32(4) * p * r
    if discriminant < 0:
        out[i] = math.nan
        return
    if p == 0:
        out[i] = 0
        return
    out[i] = (-q + math.sqrt(discriminant)) / (float32(2) * p)


# ---------------------------------------------------------------------- constant arrays
@CASES(3, 128, zeros(340), numbers(340))
@cuda.jit
def smoothed(out, x):
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i < out.size:
        total = float32(0)
        for k in range(5):
            total += weights[k] * x[min(max(i + k - 2, 0), x.size - 1)]
        out[i] = total


# ---------------------------------------------------------------------- functions
@cuda.jit(device=True)
def polar(x, y):
    return math.sqrt(x * x + y * y), math.atan2(y, x)


@CASES(2, 64, zeros((2, 100)), numbers((100, 2)))
@cuda.jit
def to_polar(out, points):
    i = cuda.grid(1)
    if i < points.shape[0]:
        out[0, i], out[1, i] = polar(points[i, 0], points[i, 1])


@cuda.jit(device=True)
def clamped(x, place):
    return x[min(max(place, 0), x.size - 1)]


@cuda.jit(device=True)
def second_difference(x, place):
    return clamped(x, place - 1) + clamped(x, place + 1)


@CASES(2, 96, zeros(150, "f8"), numbers(150, "f8"))
@cuda.jit
def curvature(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = second_difference(x, i)


@cuda.jit(UniTuple(int32, 2)(int32, int32), device=True)
def spread(x, y):
    return x | (y << 1), y | (x << 1)


@CASES((5, 3), (8, 8), zeros((20, 37), "i4"))
@cuda.jit
def interleaved_codes(out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        a, b = spread(column, row)
        out[row, column] = a ^ b


def scaled_by(factor, power):
    """Make a kernel with its own constants, by a closure."""

    @cuda.jit(fastmath=True)
    def scaled_power(out, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = float32(factor) * x[i] ** power

    return scaled_power


CASES(3, 64, zeros(160), numbers(160))(scaled_by(2.5, 3))


# ---------------------------------------------------------------------- local arrays
@CASES(2, 64, zeros((100, 6), "i4"), shuffled(600, 37, 5).reshape(100, 6), scattered(6, 40, 2))
@cuda.jit
def sorted_rows(out, rows, where):
    """Insertion into each thread's local array, at given positions."""
    i = cuda.grid(1)
    if i >= out.shape[0]:
        return
    kept = cuda.local.array(40, int32)
    for k in range(rows.shape[1]):
        value, place = rows[i, k], k
        while place > 0:
            before = kept[where[place - 1]]
            if before <= value:
                break
            kept[where[place]] = before
            place -= 1
        kept[where[place]] = value
    for k in range(rows.shape[1]):
        out[i, k] = kept[where[k]]


@CASES(2, 32, zeros(60, "u4"), numbers((60, 20), "u4"), 37)
@cuda.jit
def commonest_remainder(out, rows, divisor):
    """A histogram in each thread's local array."""
    i = cuda.grid(1)
    bins = cuda.local.array(50, int32)
    if i < out.size:
        for k in range(divisor):
            bins[k] = 0
        for k in range(rows.shape[1]):
            bins[rows[i, k] % divisor] += 1
        best, most = 0, 0
        for k in range(divisor):
            count = bins[k]
            if count > most:
                best, most = k, count
        out[i] = best


@CASES(1, 40, zeros((40, 2)), numbers((40, 2, 2)), numbers((40, 2)))
@cuda.jit
def solved_pairs(out, matrices, sides):
    i = cuda.grid(1)
    if i < out.shape[0]:
        a, b = matrices[i, 0, 0] + float32(200), matrices[i, 0, 1]
        c, d = matrices[i, 1, 0], matrices[i, 1, 1] + float32(200)
        p, q = sides[i, 0], sides[i, 1]
        scale = float32(1) / (a * d - b * c)
        out[i, 0] = (d * p - b * q) * scale
        out[i, 1] = (a * q - c * p) * scale
