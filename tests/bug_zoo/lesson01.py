"""Wrong answers to the exercises of lesson 01 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32, float64, int32

from bug_zoo import Answers
from course import cuda
from course.simt import host as simulated

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right


# --- square-map ---------------------------------------------------------------------------------


@wrong("square-map", "unwritten-output", "out[128]", "blockIdx.x * blockDim.x + threadIdx.x")
@cuda.jit
def square_in_the_first_block(out, x):
    i = cuda.threadIdx.x
    if i < out.size:
        out[i] = x[i] * x[i]


@wrong("square-map", "unwritten-output", "blockIdx.x * blockDim.x + threadIdx.x")
@cuda.jit
def square_with_block_plus_thread(out, x):
    i = cuda.blockIdx.x + cuda.threadIdx.x
    if i < out.size:
        out[i] = x[i] * x[i]


@wrong("square-map", "unwritten-output", "blockIdx.x * blockDim.x + threadIdx.x")
@cuda.jit
def square_with_grid_dim(out, x):
    i = cuda.blockIdx.x * cuda.gridDim.x + cuda.threadIdx.x
    if i < out.size:
        out[i] = x[i] * x[i]


@wrong("square-map", "out-of-bounds", "1,003 elements", "x[1003]")
@cuda.jit
def square_without_guard(out, x):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    out[i] = x[i] * x[i]


@wrong("square-map", "wrong-result", "when x is doubled")
@cuda.jit
def square_doubles(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + x[i]


@wrong("square-map", "wrong-result", "the index is squared")
@cuda.jit
def square_of_the_index(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = i * i


@wrong("square-map", "wrong-result", "It holds x, unchanged|square roots of the right")
@cuda.jit
def square_forgets_to_square(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


@wrong("square-map", "wrong-result", "integer division or type")
@cuda.jit
def square_as_integer(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = int32(x[i] * x[i])


@right("square-map")
@cuda.jit
def square_by_power(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] ** 2


@right("square-map")
@cuda.jit
def square_by_pow_in_float64(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.pow(float64(x[i]), 2.0)


# --- launch-1d ----------------------------------------------------------------------------------


@wrong("launch-1d", "wrong-result", "without a thread", "round up")
def launch_rounds_down(n):
    return n // 128, 128


@wrong("launch-1d", "wrong-result", "the last block has nothing to do")
def launch_one_more(n):
    return n // 128 + 1, 128


@wrong("launch-1d", "wrong-result", "whole numbers")
def launch_with_a_fraction(n):
    return n / 128, 128


@wrong("launch-1d", "wrong-result", "1,024 are allowed")
def launch_one_block(n):
    return 1, n


@wrong("launch-1d", "wrong-result", "more than needed", "the grid first")
def launch_swapped(n):
    return 128, (n + 127) // 128


@wrong("launch-1d", "wrong-result", "Return two things, grid and block")
def launch_only_the_grid(n):
    return (n + 127) // 128


@wrong("launch-1d", "wrong-result", "returns None", "return")
def launch_prints(n):
    print((n + 127) // 128, 128)


@wrong("launch-1d", "wrong-result", "without a thread")
def launch_with_round(n):
    return max(1, round(n / 128)), 128


@right("launch-1d")
def launch_with_ceil(n):
    return math.ceil(n / 256), 256


@right("launch-1d")
def launch_with_minus(n):
    return -(-n // 64), 64


@right("launch-1d")
def launch_with_tuples(n):
    return ((n + 31) // 32,), (32,)


@right("launch-1d")
def launch_with_small_blocks(n):
    threads = min(n, 1024)
    return int(np.ceil(n / threads)), threads


# --- shift-right --------------------------------------------------------------------------------


@wrong("shift-right", "negative-index|wrong-result", "x[i - 1] is x[-1]|comes round to the front")
@cuda.jit
def shift_wraps(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i - 1]


@wrong("shift-right", "unwritten-output", "out[0]", "needs a value: 0")
@cuda.jit
def shift_leaves_out_0(out, x):
    i = cuda.grid(1)
    if 0 < i < out.size:
        out[i] = x[i - 1]


@wrong("shift-right", "wrong-result", "out[0] is a copy of x[0]")
@cuda.jit
def shift_keeps_the_first(out, x):
    i = cuda.grid(1)
    if i == 0:
        out[i] = x[0]
    elif i < out.size:
        out[i] = x[i - 1]


@wrong("shift-right", "out-of-bounds", "writes out[8]", "Every index needs its own guard")
@cuda.jit
def shift_pushes_over_the_end(out, x):
    i = cuda.grid(1)
    if i < x.size:
        out[i + 1] = x[i]
        if i == 0:
            out[0] = 0


@wrong("shift-right", "out-of-bounds", "reads x[8]", "Every index needs its own guard")
@cuda.jit
def shift_to_the_left_and_out(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i + 1]


@wrong("shift-right", "wrong-result", "everything moves to the left")
@cuda.jit
def shift_to_the_left(out, x):
    i = cuda.grid(1)
    if i == out.size - 1:
        out[i] = 0
    elif i < out.size:
        out[i] = x[i + 1]


@wrong("shift-right", "out-of-bounds", "i for out, i - 1 or i + 1")
@cuda.jit
def shift_guards_only_zero(out, x):
    i = cuda.grid(1)
    if i > 0:
        out[i] = x[i - 1]
    else:
        out[i] = 0


@right("shift-right")
@cuda.jit
def shift_by_pushing(out, x):
    i = cuda.grid(1)
    if i == 0:
        out[0] = float32(0)
    if i + 1 < x.size:
        out[i + 1] = x[i]


@right("shift-right")
@cuda.jit
def shift_by_expression(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i - 1] if i > 0 else float32(0)


# --- add-images ---------------------------------------------------------------------------------


@wrong("add-images", "out-of-bounds", "13 x 37", "Guard each with its own axis")
@cuda.jit
def add_guards_the_wrong_axes(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[1] and column < out.shape[0]:
        out[row, column] = a[row, column] + b[row, column]


@wrong("add-images", "out-of-bounds", "13 x 37")
@cuda.jit
def add_without_guard(out, a, b):
    column, row = cuda.grid(2)
    out[row, column] = a[row, column] + b[row, column]


@wrong("add-images", "out-of-bounds", "axis 1 of a has size 37")
@cuda.jit
def add_guards_rows_only(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0]:
        out[row, column] = a[row, column] + b[row, column]


@wrong("add-images", "unwritten-output", "Is x the column? column, row = cuda.grid(2)")
@cuda.jit
def add_with_x_on_rows(out, a, b):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


@wrong("add-images", "uncoalesced", "The result is right; the cost is not", "Let it be the column")
@cuda.jit
def add_with_x_on_rows_and_strides(out, a, b):
    first_row, first_column = cuda.grid(2)
    row_step, column_step = cuda.gridsize(2)
    for row in range(first_row, out.shape[0], row_step):
        for column in range(first_column, out.shape[1], column_step):
            out[row, column] = a[row, column] + b[row, column]


@wrong("add-images", "wrong-result", "when b is subtracted")
@cuda.jit
def add_subtracts(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] - b[row, column]


@wrong("add-images", "unwritten-output", "out.shape[0]")
@cuda.jit
def add_within_a_block(out, a, b):
    column, row = cuda.threadIdx.x, cuda.threadIdx.y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


@wrong("add-images", "typing", "cuda.grid(2) gives two numbers")
@cuda.jit
def add_with_one_index(out, a, b):
    i = cuda.grid(2)
    if i < out.size:
        out[i] = a[i] + b[i]


@wrong("add-images", "out-of-bounds", "13 x 37", "Guard each with its own axis")
@cuda.jit
def add_leaves_with_and(out, a, b):
    column, row = cuda.grid(2)
    if row >= out.shape[0] and column >= out.shape[1]:
        return
    out[row, column] = a[row, column] + b[row, column]


@wrong("add-images", "out-of-bounds", "13 x 37", "Guard each with its own axis")
@cuda.jit
def add_guards_with_or(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0] or column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


@right("add-images")
@cuda.jit
def add_by_hand(out, a, b):
    column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    rows, columns = out.shape
    if row >= rows or column >= columns:
        return
    out[row, column] = a[row, column] + b[row, column]


# --- rotate-image -------------------------------------------------------------------------------


@wrong("rotate-image", "wrong-result", "turned the other way round")
@cuda.jit
def rotate_anticlockwise(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[column, image.shape[1] - 1 - row]


@wrong("rotate-image", "wrong-result", "mirrored at its diagonal")
@cuda.jit
def rotate_transposes(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[column, row]


@wrong("rotate-image", "out-of-bounds", "reads image[3, 0]", "image.shape[0] - 1")
@cuda.jit
def rotate_off_by_one(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[image.shape[0] - column, row]


@wrong("rotate-image", "out-of-bounds", "guard them with out.shape")
@cuda.jit
def rotate_with_the_guard_of_the_image(out, image):
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        out[row, column] = image[image.shape[0] - 1 - column, row]


@wrong("rotate-image", "out-of-bounds|wrong-result", "out.shape|A column of out is a row")
@cuda.jit
def rotate_by_the_wrong_axis(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[image.shape[1] - 1 - column, row]


@wrong("rotate-image", "wrong-result", "mirrored at its other diagonal")
@cuda.jit
def rotate_mirrors_both(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[image.shape[0] - 1 - column, image.shape[1] - 1 - row]


@wrong("rotate-image", "unwritten-output")
@cuda.jit
def rotate_square_part(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        if row < image.shape[0] and column < image.shape[1]:
            out[row, column] = image[image.shape[0] - 1 - column, row]


@right("rotate-image")
@cuda.jit
def rotate_by_pushing(out, image):
    y, x = cuda.grid(2)  # a thread for each pixel of out, read as one of the image
    if y < image.shape[0] and x < image.shape[1]:
        out[x, image.shape[0] - 1 - y] = image[y, x]


# --- strided-scale-add --------------------------------------------------------------------------


@wrong("strided-scale-add", "unwritten-output", "out[8]", "cuda.gridsize(1)")
@cuda.jit
def strided_without_loop(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@wrong("strided-scale-add", "out-of-bounds|unwritten-output", "cuda.gridsize(1)|range stop")
@cuda.jit
def strided_by_the_block(out, a, x, y):
    for i in range(cuda.threadIdx.x, out.size, cuda.gridsize(1)):
        out[i] = a * x[i] + y[i]


@wrong("strided-scale-add", "out-of-bounds", "Let range stop at out.size")
@cuda.jit
def strided_one_too_far(out, a, x, y):
    for i in range(cuda.grid(1), out.size + 1, cuda.gridsize(1)):
        out[i] = a * x[i] + y[i]


@wrong("strided-scale-add", "unwritten-output", "cuda.gridsize(1)")
@cuda.jit
def strided_stops_early(out, a, x, y):
    for i in range(cuda.grid(1), out.size - 1, cuda.gridsize(1)):
        out[i] = a * x[i] + y[i]


@wrong("strided-scale-add", "uncoalesced", "stride by the whole grid")
@cuda.jit
def strided_in_pieces(out, a, x, y):
    length = (out.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    first = cuda.grid(1) * length
    for i in range(first, min(first + length, out.size)):
        out[i] = a * x[i] + y[i]


@wrong("strided-scale-add", "wrong-result", "a * x[i] + y[i]")
@cuda.jit
def strided_forgets_y(out, a, x, y):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a * x[i]


@wrong("strided-scale-add", "out-of-bounds", "range stop at out.size")
@cuda.jit
def strided_over_the_rounded_size(out, a, x, y):
    step = cuda.gridsize(1)
    for turn in range((out.size + step - 1) // step):
        i = cuda.grid(1) + turn * step
        out[i] = a * x[i] + y[i]


@right("strided-scale-add")
@cuda.jit
def strided_with_while(out, a, x, y):
    i = cuda.grid(1)
    while i < out.size:
        out[i] = a * x[i] + y[i]
        i += cuda.gridsize(1)


@right("strided-scale-add")
@cuda.jit
def strided_by_hand(out, a, x, y):
    threads = cuda.gridDim.x * cuda.blockDim.x
    for i in range(cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, len(out), threads):
        out[i] = a * x[i] + y[i]


# --- clip ---------------------------------------------------------------------------------------

THREE = ["float32(float32, float32, float32)"]


@wrong("clip", "wrong-result", "Only values below low are changed.")
@cuda.vectorize(THREE)
def clip_below(x, low, high):
    return max(x, low)


@wrong("clip", "wrong-result", "Only values above high are changed.")
@cuda.vectorize(THREE)
def clip_above(x, low, high):
    if x > high:
        return high
    return x


@wrong("clip", "wrong-result", "low and high are mixed up.")
@cuda.vectorize(THREE)
def clip_mixed_up(x, low, high):
    if x < low:
        return high
    if x > high:
        return low
    return x


@wrong("clip", "wrong-result", "you return 0, right is")
@cuda.vectorize(THREE)
def clip_to_zero_and_one(x, low, high):
    if x < low:
        return float32(0)
    if x > high:
        return float32(1)
    return x


@wrong("clip", "raised", "exact types")
@cuda.vectorize(["float64(float64, float64, float64)"])
def clip_in_float64(x, low, high):
    return min(max(x, low), high)


@wrong("clip", "typing", "no index, no x.size")
@simulated.vectorize(THREE)  # on a GPU the decorator itself refuses it
def clip_with_an_index(x, low, high):
    i = cuda.grid(1)
    return min(max(x[i], low), high)


@wrong("clip", "raised", "Is @cuda.vectorize([...]) still")
def clip_without_decorator(x, low, high):
    if x < low:
        return low
    if x > high:
        return high
    return x


@right("clip")
@cuda.vectorize(THREE)
def clip_by_min_and_max(x, low, high):
    return min(max(x, low), high)


@right("clip")
@cuda.vectorize(THREE)
def clip_by_expression(x, low, high):
    return low if x < low else (high if x > high else x)


# --- to-grey ------------------------------------------------------------------------------------


@cuda.jit(device=True)
def grey_of(red, green, blue):
    return float32(0.299) * red + float32(0.587) * green + float32(0.114) * blue


@cuda.jit(device=True)
def grey_in_float64(red, green, blue):
    return 0.299 * red + 0.587 * green + 0.114 * blue


@wrong("to-grey", "float64", "The result is right; the cost is not", "float32(0.299)")
@cuda.jit
def to_grey_in_float64(out, rgb):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = grey_in_float64(
            rgb[row, column, 0], rgb[row, column, 1], rgb[row, column, 2]
        )


@wrong("to-grey", "wrong-result", "red, green and blue count alike")
@cuda.jit
def to_grey_by_the_mean(out, rgb):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = rgb[row, column, 0] + rgb[row, column, 1] + rgb[row, column, 2]
        out[row, column] = total / float32(3)


@wrong("to-grey", "wrong-result", "red and blue are swapped")
@cuda.jit
def to_grey_from_blue_to_red(out, rgb):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        pixel = rgb[row, column]
        out[row, column] = grey_of(pixel[2], pixel[1], pixel[0])


@wrong("to-grey", "out-of-bounds", "axis 2 of rgb has size 3")
@cuda.jit
def to_grey_counts_from_one(out, rgb):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = grey_of(rgb[row, column, 1], rgb[row, column, 2], rgb[row, column, 3])


@wrong("to-grey", "out-of-bounds", "13 x 37 x 3")
@cuda.jit
def to_grey_without_guard(out, rgb):
    column, row = cuda.grid(2)
    out[row, column] = grey_of(rgb[row, column, 0], rgb[row, column, 1], rgb[row, column, 2])


def plain_grey(red, green, blue):
    return float32(0.299) * red + float32(0.587) * green + float32(0.114) * blue


@wrong("to-grey", "typing", "@cuda.jit(device=True)")
@cuda.jit
def to_grey_with_a_plain_function(out, rgb):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        pixel = rgb[row, column]
        out[row, column] = plain_grey(pixel[0], pixel[1], pixel[2])


@cuda.jit(device=True)
def grey_without_return(red, green, blue):
    float32(0.299) * red + float32(0.587) * green + float32(0.114) * blue


@wrong("to-grey", "typing", "and a return")
@cuda.jit
def to_grey_without_return(out, rgb):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        pixel = rgb[row, column]
        out[row, column] = grey_without_return(pixel[0], pixel[1], pixel[2])


@right("to-grey")
@cuda.jit
def to_grey_without_device_function(out, rgb):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        total = float32(0.114) * rgb[row, column, 2]
        total += float32(0.587) * rgb[row, column, 1]
        total += float32(0.299) * rgb[row, column, 0]
        out[row, column] = total


# --- histogram ----------------------------------------------------------------------------------


@wrong("histogram", "race|wrong-result", "cuda.atomic.add(counts, index, 1)")
@cuda.jit
def histogram_without_atomic(counts, values):
    i = cuda.grid(1)
    if i < values.size:
        counts[values[i]] += 1


@wrong("histogram", "out-of-bounds", "values[40]", "guard i with values.size")
@cuda.jit
def histogram_without_guard(counts, values):
    i = cuda.grid(1)
    cuda.atomic.add(counts, values[i], 1)


@wrong("histogram", "wrong-result", "Is every value visited")
@cuda.jit
def histogram_guards_with_counts(counts, values):
    i = cuda.grid(1)
    if i < counts.size:
        cuda.atomic.add(counts, values[i], 1)


@wrong("histogram", "wrong-result", "the values are added up instead of counted")
@cuda.jit
def histogram_adds_the_values(counts, values):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], values[i])


@wrong("histogram", "out-of-bounds", "counts[4]", "The index into counts is values[i], not i")
@cuda.jit
def histogram_indexes_by_thread(counts, values):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, i, 1)


@wrong("histogram", "wrong-result|race", "cuda.atomic.add(counts, index, 1)")
@cuda.jit
def histogram_sets_instead_of_adds(counts, values):
    i = cuda.grid(1)
    if i < values.size:
        counts[values[i]] = counts[values[i]] + 1


@wrong("histogram", "wrong-result|race", "cuda.atomic.add(counts, index, 1)")
@cuda.jit
def histogram_clears_first(counts, values):
    i = cuda.grid(1)
    if i < counts.size:
        counts[i] = 1
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)


@right("histogram")
@cuda.jit
def histogram_strided(counts, values):
    for i in range(cuda.grid(1), values.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, values[i], 1)


@right("histogram")
@cuda.jit
def histogram_by_bins(counts, values):
    # a thread counts for a bin of its own: slow, and right without any atomic
    for bin_number in range(cuda.grid(1), counts.size, cuda.gridsize(1)):
        for i in range(values.size):
            if values[i] == bin_number:
                counts[bin_number] += 1
