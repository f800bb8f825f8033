"""Kernels of the lessons as students write them: the solutions of lessons 00, 01 and 04.

The kernels of `course.kernels` are measured as they are.
"""

from __future__ import annotations

import math

from numba import float32

from course.backend import cuda


# ---------------------------------------------------------------------- lessons 00 and 01
@cuda.jit
def fill_index(out):
    """Without a guard, since the launch has one thread for each element."""
    i = cuda.grid(1)
    out[i] = i


@cuda.jit
def add_one(out, x):
    """Read one array, write another."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 1


@cuda.jit
def scale_add(out, a, x, y):
    """Read two arrays, write a third."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@cuda.jit
def square(out, x):
    """The source reads x twice."""
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < out.size:
        out[i] = x[i] * x[i]


@cuda.jit
def shift_right(out, x):
    """Each thread reads its left neighbour's element."""
    i = cuda.grid(1)
    if i == 0:
        out[0] = 0
    elif i < out.size:
        out[i] = x[i - 1]


@cuda.jit
def add_images(out, a, b):
    """Two axes, x along the columns."""
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


@cuda.jit
def rotate(out, image):
    """Rotate an image by a quarter: reads go down a column."""
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[image.shape[0] - 1 - column, row]


@cuda.jit
def scale_add_strided(out, a, x, y):
    """A grid-stride loop."""
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a * x[i] + y[i]


@cuda.jit(device=True)
def luminance(red, green, blue):
    """Grey of a colour."""
    return float32(0.299) * red + float32(0.587) * green + float32(0.114) * blue


@cuda.jit
def to_grey(out, rgb):
    """Each thread reads three values of a pixel, which lie side by side."""
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        pixel = rgb[row, column]
        out[row, column] = luminance(pixel[0], pixel[1], pixel[2])


@cuda.jit
def histogram(counts, values):
    """Count by atomics whose old values are not used."""
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)


# ---------------------------------------------------------------------- lesson 04
@cuda.jit
def add_pieces(total, x):
    """Each thread adds a chunk of its own: neighbours read far apart."""
    chunk = (x.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    first = cuda.grid(1) * chunk
    mine = float32(0)
    for i in range(first, min(first + chunk, x.size)):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@cuda.jit
def add_strided(total, x):
    """The same sum; neighbouring threads read neighbouring elements."""
    mine = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@cuda.jit
def one_layer(out, column, weight, row):
    """One layer of an image."""
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = column[i] * weight * row[j]


@cuda.jit
def lengths_of_records(out, points):
    """An array of structs."""
    i = cuda.grid(1)
    if i < out.size:
        x = points[i].x
        y = points[i].y
        z = points[i].z
        out[i] = math.sqrt(x * x + y * y + z * z)


@cuda.jit
def fill_odd_rows(out, image):
    """Odd rows of a uint8 image from the rows above and below."""
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        if row % 2 == 0:
            out[row, col] = image[row, col]
        else:
            out[row, col] = (image[row - 1, col] + image[row + 1, col]) // 2
