# ruff: noqa: D103 - the names say it
"""Elements of every type, grids and arrays of every shape."""

from __future__ import annotations

import math

import numpy as np
from numba import complex64, float32, float64, int16, int32, int64, uint8, uint16, uint32, uint64

from course.backend import cuda
from course_recording.profiling.cases.accesses import numbers, scattered, shuffled
from course_recording.profiling.cases.noted import Cases, zeros
from warpsim.ptx import load2, load4, load_streaming, store2, store4, store_streaming

CASES = Cases()
PARTICLE = np.dtype([("x", "f4"), ("y", "f4"), ("vx", "f4"), ("vy", "f4")], align=True)
ACCOUNT = np.dtype([("kind", "i2"), ("balance", "f8"), ("owner", "i4")], align=True)


# ---------------------------------------------------------------------- one element a thread
@CASES(7, 128, zeros(777, "i1"), numbers(777, "i1"), numbers(777, "i1"))
@cuda.jit
def saturating_sum(out, a, b):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = min(max(int32(a[i]) + int32(b[i]), -100), 100)


@CASES((4, 9), (24, 5), zeros((41, 93), "u1"), numbers((41, 93), "u1"), 40)
@cuda.jit
def threshold(out, image, level):
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        out[row, column] = 255 if image[row, column] > level else 0


@CASES(5, 100, zeros(450, "i2"), numbers(451, "i2"))
@cuda.jit
def differences(out, x):
    i = cuda.grid(1)
    if i + 1 < x.size:
        out[i] = x[i + 1] - x[i]


@CASES(3, 64, zeros(180, "u2"), numbers(180, "u2"))
@cuda.jit
def swapped_bytes(out, x):
    i = cuda.grid(1)
    if i >= x.size:
        return
    value = uint32(x[i])
    out[i] = uint16(((value << uint32(8)) | (value >> uint32(8))) & uint32(0xFFFF))


@CASES(6, 96, zeros(555, "u4"), 1234)
@cuda.jit
def pseudo_random(out, seed):
    i = cuda.grid(1)
    if i < out.size:
        state = uint32(seed + i)
        for _ in range(10):
            state = uint32(state * uint32(1664525) + uint32(1013904223))
        out[i] = state


@CASES(4, 128, zeros(500, "i8"), numbers(500, "i8"), shuffled(500))
@cuda.jit
def gathered_products(out, x, order):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[order[i]] * int64(i)


@CASES(2, 160, zeros(300, "i4"), numbers(300, "u8"))
@cuda.jit
def ones_in_words(out, words):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = cuda.popc(words[i] * uint64(0x9E3779B97F4A7C15))


@CASES(4, 70, zeros(261, "f2"), numbers(261, "f2"), np.float32(0.5))
@cuda.jit
def scaled_halves(out, x, factor):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(x[i]) * factor


@CASES(3, 128, zeros(333, "f8"), numbers(333, "f8"), numbers(6, "f8"))
@cuda.jit
def polynomial(out, x, coefficients):
    i = cuda.grid(1)
    if i < out.size:
        at, total = x[i], float64(0)
        for k in range(coefficients.size):
            total = total * at + coefficients[k]
        out[i] = total


@CASES(2, 192, zeros(350, "c16"), numbers(350, "c16"), 0.6, 0.8)
@cuda.jit
def turned(out, z, cosine, sine):
    i = cuda.grid(1)
    if i < z.size:
        out[i] = z[i] * complex(cosine, sine)


@CASES(3, 96, zeros(270), numbers(270, "c8"))
@cuda.jit
def magnitudes(out, z):
    i = cuda.grid(1)
    if i < out.size:
        value = complex64(z[i])
        out[i] = math.sqrt(value.real * value.real + value.imag * value.imag)


@CASES(4, 64, zeros(250), numbers(250), numbers(250), numbers(250, "i4") % 3 == 0)
@cuda.jit
def chosen(out, a, b, first):
    i = cuda.grid(1)
    if i < out.size:
        if first[i]:
            out[i] = a[i]
        else:
            out[i] = b[i]


# ---------------------------------------------------------------------- records
@CASES(3, 64, zeros(150, PARTICLE), numbers(600).view(PARTICLE), np.float32(0.1))
@cuda.jit
def moved_particles(out, particles, step):
    i = cuda.grid(1)
    if i < particles.size:
        p = particles[i]
        out[i].x = p.x + step * p.vx
        out[i].y = p.y + step * p.vy


@CASES(2, 80, zeros(140, "f8"), np.array([(k % 3, k / 2, k) for k in range(140)], ACCOUNT))
@cuda.jit
def balances(out, accounts):
    i = cuda.grid(1)
    if i < out.size:
        if accounts[i].kind == 1:
            out[i] = accounts[i].balance
        else:
            out[i] = accounts[i].owner


@CASES(2, 96, zeros(170, ACCOUNT), numbers(170, "i4"))
@cuda.jit
def opened_accounts(accounts, owners):
    i = cuda.grid(1)
    if i < accounts.size:
        accounts[i]["kind"] = i % 7
        accounts[i]["owner"] = owners[i]


# ---------------------------------------------------------------------- arrays of other layouts
@CASES((3, 5), (16, 16), zeros((70, 45)), np.asfortranarray(numbers((70, 45))), numbers((70, 45)))
@cuda.jit
def fortran_plus_c(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


def _thirds(to_device):
    return to_device(zeros(100, "f8")), to_device(numbers(400, "f8"))[7:307:3]


@CASES(2, 64, _thirds)
@cuda.jit
def every_third(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] / 3


def _backwards(to_device):
    return to_device(zeros(200, "i2")), to_device(numbers(230, "i2"))[210:10:-1]


@CASES(2, 128, _backwards)
@cuda.jit
def backwards(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + int16(1)


def _middle(to_device):
    image = to_device(numbers((60, 70)))
    return to_device(zeros((31, 29))), image[11:42, 20:49]


@CASES((1, 8), (32, 4), _middle)
@cuda.jit
def middle_of_an_image(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[row, column]


def _transposed(to_device):
    return to_device(zeros((40, 50))), to_device(numbers((50, 40))).T


@CASES((7, 10), (8, 4), _transposed)
@cuda.jit
def transposed_view(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[row, column] - float32(1)


@CASES(3, 32, zeros(75), numbers((75, 19)))
@cuda.jit
def rows_as_views(out, matrix):
    i = cuda.grid(1)
    if i < out.size:
        row = matrix[i]
        out[i] = row[0] + row[row.size - 1]


# ---------------------------------------------------------------------- two and three axes
@CASES((3, 5, 2), (5, 3, 7), zeros((14, 15, 13), "i4"), numbers((14, 15, 13), "i4"))
@cuda.jit
def flipped_volume(out, volume):
    x, y, z = cuda.grid(3)
    if x < out.shape[2] and y < out.shape[1] and z < out.shape[0]:
        out[z, y, x] = volume[out.shape[0] - 1 - z, y, out.shape[2] - 1 - x]


@CASES((2, 3, 3), (16, 4, 4), zeros((10, 12, 20), "f8"), numbers((10, 12, 20), "f8"))
@cuda.jit
def seven_points(out, x):
    k, j, i = cuda.grid(3)
    inside = 0 < i < x.shape[0] - 1 and 0 < j < x.shape[1] - 1 and 0 < k < x.shape[2] - 1
    if inside:
        around = x[i - 1, j, k] + x[i + 1, j, k] + x[i, j - 1, k] + x[i, j + 1, k]
        out[i, j, k] = around + x[i, j, k - 1] + x[i, j, k + 1] - 6 * x[i, j, k]


@CASES((3, 6), (32, 8), zeros((45, 83)), numbers((45, 83)))
@cuda.jit
def heat(out, x):
    j, i = cuda.grid(2)
    if i >= x.shape[0] or j >= x.shape[1]:
        return
    if i == 0 or j == 0 or i == x.shape[0] - 1 or j == x.shape[1] - 1:
        out[i, j] = 0
        return
    out[i, j] = float32(0.25) * (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1])


@CASES((5, 9), (16, 8), zeros((66, 78), "u1"), numbers((33, 39), "u1"))
@cuda.jit
def doubled_image(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[row // 2, column // 2]


@CASES((2, 4), (20, 9), zeros((35, 33), "u4"), numbers((35, 33, 3), "u1"))
@cuda.jit
def packed_colours(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        red, green = uint32(image[row, column, 0]), uint32(image[row, column, 1])
        out[row, column] = red << uint32(16) | green << uint32(8) | uint32(image[row, column, 2])


@CASES((4, 4), (8, 8), zeros((30, 30)), numbers((30, 3)), numbers((30, 3)))
@cuda.jit
def distances(out, a, b):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        total = float32(0)
        for axis in range(a.shape[1]):
            gap = a[i, axis] - b[j, axis]
            total += gap * gap
        out[i, j] = math.sqrt(total)


@CASES((2, 25), (48, 1), zeros((25, 70)), numbers((99, 70)), scattered(25, 99, 4))
@cuda.jit
def rows_by_number(out, table, number):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = table[number[row], column]


@CASES((4, 3), (16, 16), zeros((48, 50), "i4"))
@cuda.jit
def checkerboard(board):
    column, row = cuda.grid(2)
    if row < board.shape[0] and column < board.shape[1] and (row + column) % 2 == 0:
        board[row, column] = 1


@CASES((2, 7), (33, 6), zeros((40, 60), "f2"), numbers((40, 60), "f2"), 17)
@cuda.jit
def rolled(out, x, by):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, (column + by) % out.shape[1]] = x[row, column]


# ---------------------------------------------------------------------- several at once
@CASES(3, 32, zeros(380), numbers(380))
@cuda.jit
def doubled_by_fours(out, x):
    i = 4 * cuda.grid(1)
    if i < out.size:
        a, b, c, d = load4(x, i)
        store4(out, i, (a + a, b + b, c + c, d + d))


@CASES(2, 50, zeros(180, "f8"), numbers(180, "f8"))
@cuda.jit
def exchanged_pairs(out, x):
    i = 2 * cuda.grid(1)
    if i < out.size:
        a, b = load2(x, i)
        store2(out, i, (b, a))


@CASES(2, 64, zeros(120, "i4"), numbers(480, "i1"))
@cuda.jit
def sums_of_four_bytes(out, x):
    i = cuda.grid(1)
    if i < out.size:
        a, b, c, d = load4(x, 4 * i)
        out[i] = int32(a) + int32(b) + int32(c) + int32(d)


@CASES(5, 64, zeros(300), numbers(300))
@cuda.jit
def streamed(out, x):
    i = cuda.grid(1)
    if i < out.size:
        store_streaming(out, i, load_streaming(x, i) + float32(2))


@CASES(3, 96, zeros(260), numbers(260, "i1"), numbers(9))
@cuda.jit
def dequantised(out, x, scales):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = float32(x[i]) * scales[i >> 5]


@CASES(2, 40, zeros(75, "u1"), numbers(600, "u1"))
@cuda.jit
def packed_bits(out, x):
    i = cuda.grid(1)
    if i < out.size:
        byte = uint8(0)
        for bit in range(8):
            byte |= uint8((x[8 * i + bit] & 1) << bit)
        out[i] = byte
