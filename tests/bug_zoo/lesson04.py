"""Wrong answers to the exercises of lesson 04 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32

from bug_zoo import Answers
from course import cuda

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right


# --- count-sectors ------------------------------------------------------------------------------


@wrong("count-sectors", "wrong-result", "gaps and borders cost, too")
def sectors_by_bytes(indices, itemsize):
    return math.ceil(len(indices) * itemsize / 32)


@wrong("count-sectors", "wrong-result", "you count the lanes or their elements")
def sectors_by_elements(indices, itemsize):
    return len(set(indices))


@wrong("count-sectors", "wrong-result", "as if each element had one byte")
def sectors_without_itemsize(indices, itemsize):
    return len(np.unique(indices // 32))


@wrong("count-sectors", "wrong-result", "whatever their size")
def sectors_of_eight_elements(indices, itemsize):
    return len(np.unique(indices // 8))


@wrong("count-sectors", "wrong-result", "only touched ones move")
def sectors_from_first_to_last(indices, itemsize):
    first, last = indices.min() * itemsize // 32, indices.max() * itemsize // 32
    return last - first + 1


@wrong("count-sectors", "wrong-result", "not the sectors under them")
def sectors_for_each_lane(indices, itemsize):
    return len(indices)


@wrong("count-sectors", "wrong-result", "b // 32")
def sectors_by_true_division(indices, itemsize):
    return len(np.unique(indices * itemsize / 32))


@wrong("count-sectors", "wrong-shape", "Return one number")
def sectors_not_counted(indices, itemsize):
    return np.unique(indices * itemsize // 32)


@wrong("count-sectors", "raised", "Line 2")
def sectors_with_a_typing_mistake(indices, itemsize):
    return len(np.uniqe(indices * itemsize // 32))


@wrong("count-sectors", "wrong-result", "wrap around at 256")
def sectors_in_bytes(indices, itemsize):
    addresses = (indices * itemsize).astype(np.uint8)
    return len(np.unique(addresses // 32))


@wrong("count-sectors", "wrong-result", "from the array's beginning")
def sectors_up_to_the_last(indices, itemsize):
    return int(np.max(indices * itemsize // 32)) + 1


@wrong("count-sectors", "wrong-result", "the byte behind each element")
def sectors_with_the_byte_behind(indices, itemsize):
    first = indices * itemsize // 32
    last = (indices * itemsize + itemsize) // 32
    return len(np.union1d(first, last))


@wrong("count-sectors", "wrong-result", "the order of the lanes is free", "in any order")
def sectors_by_differences(indices, itemsize):
    s = indices * itemsize // 32
    return int(np.count_nonzero(np.diff(s))) + 1


@right("count-sectors")
def sectors_as_a_set(indices, itemsize):
    return len({int(i) * itemsize // 32 for i in indices})


@right("count-sectors")
def sectors_by_marks(indices, itemsize):
    touched = np.zeros(1_000, dtype=bool)
    touched[(indices * itemsize) >> 5] = True
    return touched.sum()


# --- total-by-strides ---------------------------------------------------------------------------


@wrong("total-by-strides", "limit", "32 sectors per request", "32 neighbours")
@cuda.jit
def add_pieces(total, x):
    piece = (x.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    first = cuda.grid(1) * piece
    mine = float32(0)
    for i in range(first, min(first + piece, x.size)):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@wrong("total-by-strides", "wrong-result", "more values than threads")
@cuda.jit
def add_one_each(total, x):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])


@wrong("total-by-strides", "limit", "add to total once", "128 are enough")
@cuda.jit
def add_each_element_atomically(total, x):
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(total, 0, x[i])


@wrong("total-by-strides", "race", "cuda.atomic.add(total, 0, mine)")
@cuda.jit
def add_without_atomic(total, x):
    mine = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine += x[i]
    total[0] += mine


@wrong("total-by-strides", "wrong-result", "Each element is added exactly once")
@cuda.jit
def add_strided_by_the_block(total, x):
    mine = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.blockDim.x):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@wrong("total-by-strides", "wrong-result", "every thread adds up all|exactly once")
@cuda.jit
def add_everything_everywhere(total, x):
    mine = float32(0)
    for i in range(x.size):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@wrong("total-by-strides", "float64", "Start your sum with float32(0)")
@cuda.jit
def add_in_float64(total, x):
    mine = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@wrong("total-by-strides", "out-of-bounds", "range(first, x.size, step)")
@cuda.jit
def add_one_too_many(total, x):
    mine = float32(0)
    for i in range(cuda.grid(1), x.size + 1, cuda.gridsize(1)):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@wrong("total-by-strides", "uninitialised-read", "mine[0]", "set it first")
@cuda.jit
def add_into_a_local_array(total, x):
    mine = cuda.local.array(1, float32)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine[0] += x[i]
    cuda.atomic.add(total, 0, mine[0])


@wrong("total-by-strides", "wrong-result", "begin at cuda.grid(1)")
@cuda.jit
def add_from_thread_index(total, x):
    mine = float32(0)
    for i in range(cuda.threadIdx.x, x.size, cuda.gridsize(1)):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@wrong("total-by-strides", "race", "cuda.atomic.add(total, 0, mine)")
@cuda.jit
def add_sets_total(total, x):
    mine = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine += x[i]
    total[0] = mine


@wrong("total-by-strides", "wrong-result", "once, after the loop")
@cuda.jit
def add_the_sum_so_far(total, x):
    mine = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine += x[i]
        cuda.atomic.add(total, 0, mine)


@right("total-by-strides")
@cuda.jit
def add_with_while(total, x):
    i = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    mine = float32(0)
    while i < x.size:
        mine += x[i]
        i += cuda.blockDim.x * cuda.gridDim.x
    if mine > float32(0):
        cuda.atomic.add(total, 0, mine)


@right("total-by-strides")
@cuda.jit
def add_pieces_a_block(total, x):
    # a piece for each block is fine: inside it, the lanes read neighbours
    piece = (x.size + cuda.gridDim.x - 1) // cuda.gridDim.x
    first = cuda.blockIdx.x * piece
    mine = float32(0)
    for i in range(first + cuda.threadIdx.x, min(first + piece, x.size), cuda.blockDim.x):
        mine += x[i]
    cuda.atomic.add(total, 0, mine)


@right("total-by-strides")
@cuda.jit
def add_backwards(total, x):
    mine = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        mine += x[x.size - 1 - i]
    cuda.atomic.add(total, 0, mine)


# --- one-layer ----------------------------------------------------------------------------------


@wrong("one-layer", "limit", "global stores need 32 sectors per request", "its last index")
@cuda.jit
def layer_with_x_on_rows(out, column, weight, row):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = column[i] * weight * row[j]


@wrong("one-layer", "out-of-bounds", "Guard the row with out.shape[0]")
@cuda.jit
def layer_without_guard(out, column, weight, row):
    j, i = cuda.grid(2)
    out[i, j] = column[i] * weight * row[j]


@wrong("one-layer", "out-of-bounds", "13 x 37")
@cuda.jit
def layer_guards_the_wrong_axes(out, column, weight, row):
    j, i = cuda.grid(2)
    if i < out.shape[1] and j < out.shape[0]:
        out[i, j] = column[i] * weight * row[j]


@wrong("one-layer", "out-of-bounds", "13 x 37")
@cuda.jit
def layer_guards_one_axis(out, column, weight, row):
    j, i = cuda.grid(2)
    if i < out.shape[0]:
        out[i, j] = column[i] * weight * row[j]


@wrong("one-layer", "wrong-result", "row and column are exchanged")
@cuda.jit
def layer_exchanges_its_factors(out, column, weight, row):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = column[j] * weight * row[i]


@wrong("one-layer", "wrong-result", "weight is left out")
@cuda.jit
def layer_without_weight(out, column, weight, row):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = column[i] * row[j]


@wrong("one-layer", "typing", "it has no index")
@cuda.jit
def layer_indexes_weight(out, column, weight, row):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = column[i] * weight[i] * row[j]


@wrong("one-layer", "limit|race", "take both indices from cuda.grid(2)")
@cuda.jit
def layer_a_row_for_each_thread(out, column, weight, row):
    j, i = cuda.grid(2)
    if i < out.shape[0]:
        for other in range(out.shape[1]):
            out[i, other] = column[i] * weight * row[other]


@wrong("one-layer", "limit", "Neighbours in x should store neighbours")
@cuda.jit
def layer_swaps_names_twice(out, column, weight, row):
    # the names are exchanged in grid(2) and in the guard: right, and still down the rows
    column_number, row_number = cuda.grid(2)
    if column_number < out.shape[0] and row_number < out.shape[1]:
        out[column_number, row_number] = column[column_number] * weight * row[row_number]


@wrong("one-layer", "unwritten-output", "cuda.grid(2) gives both indices")
@cuda.jit
def layer_along_one_line(out, column, weight, row):
    n = cuda.grid(1)
    if n < out.size:
        i, j = n // out.shape[1], n % out.shape[1]
        out[i, j] = column[i] * weight * row[j]


@wrong("one-layer", "out-of-bounds", "13 x 37", "the column with out.shape[1]")
@cuda.jit
def layer_leaves_with_and(out, column, weight, row):
    j, i = cuda.grid(2)
    if i >= out.shape[0] and j >= out.shape[1]:
        return
    out[i, j] = column[i] * weight * row[j]


@wrong("one-layer", "uninitialised-read", "Store the result with `=`")
@cuda.jit
def layer_adds(out, column, weight, row):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] += column[i] * weight * row[j]


@wrong("one-layer", "typing", "column[i] and row[j] are numbers")
@cuda.jit
def layer_of_whole_arrays(out, column, weight, row):
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = (column * weight * row)[i, j]


@right("one-layer")
@cuda.jit
def layer_by_hand(out, column, weight, row):
    x = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    y = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if y >= column.size or x >= row.size:
        return
    out[y, x] = weight * (row[x] * column[y])


@right("one-layer")
@cuda.jit
def layer_strided(out, column, weight, row):
    first_column, first_row = cuda.grid(2)
    columns, rows = cuda.gridsize(2)
    for i in range(first_row, out.shape[0], rows):
        scaled = column[i] * weight
        for j in range(first_column, out.shape[1], columns):
            out[i, j] = scaled * row[j]


# --- two-jobs -----------------------------------------------------------------------------------


@wrong("two-jobs", "limit", "128 requests per launch", "Give whole warps one job")
@cuda.jit
def jobs_by_lane(squares, roots, x, y):
    thread = cuda.grid(1)
    i = thread // 2
    if i < x.size:
        if thread % 2 == 0:
            squares[i] = x[i] * x[i]
        else:
            roots[i] = math.sqrt(y[i])


@wrong("two-jobs", "limit", "Give whole warps one job")
@cuda.jit
def jobs_by_half_warps(squares, roots, x, y):
    thread = cuda.grid(1)
    i = thread // 32 * 16 + thread % 16
    if i < x.size:
        if thread % 32 < 16:
            squares[i] = x[i] * x[i]
        else:
            roots[i] = math.sqrt(y[i])


@wrong("two-jobs", "out-of-bounds", "y[", "i - x.size")
@cuda.jit
def jobs_without_an_offset(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    else:
        roots[i] = math.sqrt(y[i])


@wrong("two-jobs", "out-of-bounds", "Threads from 2 * x.size on have no job")
@cuda.jit
def jobs_without_the_last_guard(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    else:
        roots[i - x.size] = math.sqrt(y[i - x.size])


@wrong("two-jobs", "unwritten-output", "roots", "which the roots?")
@cuda.jit
def jobs_only_one(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]


@wrong("two-jobs", "unwritten-output", "roots")
@cuda.jit
def jobs_one_element_too_few(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    elif i < 2 * x.size - 1:
        roots[i - x.size] = math.sqrt(y[i - x.size])


@wrong("two-jobs", "wrong-result", "squares and roots are exchanged")
@cuda.jit
def jobs_exchanged(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = math.sqrt(y[i])
    elif i < 2 * x.size:
        roots[i - x.size] = x[i - x.size] * x[i - x.size]


@wrong("two-jobs", "wrong-result", "the roots are those of x")
@cuda.jit
def jobs_of_one_array(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    elif i < 2 * x.size:
        roots[i - x.size] = math.sqrt(x[i - x.size])


@wrong("two-jobs", "typing", "math.sqrt(number)")
@cuda.jit
def jobs_on_whole_arrays(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    elif i < 2 * x.size:
        roots[i - x.size] = math.sqrt(y)


@wrong("two-jobs", "out-of-bounds", "y[8]", "Threads from 2 * x.size on have no job")
@cuda.jit
def jobs_one_too_many(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    elif i <= 2 * x.size:
        roots[i - x.size] = math.sqrt(y[i - x.size])


@wrong("two-jobs", "unwritten-output", "squares", "All of them may be in one block")
@cuda.jit
def jobs_by_block(squares, roots, x, y):
    i = cuda.grid(1)
    half = cuda.gridDim.x // 2
    if cuda.blockIdx.x < half:
        if i < x.size:
            squares[i] = x[i] * x[i]
    else:
        i -= half * cuda.blockDim.x
        if i < x.size:
            roots[i] = math.sqrt(y[i])


@wrong("two-jobs", "unwritten-output", "roots[0]")
@cuda.jit
def jobs_without_the_first_root(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    if i > x.size and i < 2 * x.size:
        roots[i - x.size] = math.sqrt(y[i - x.size])


@right("two-jobs")
@cuda.jit
def jobs_one_after_the_other(squares, roots, x, y):
    # every thread does both: no branch at all, and half of the threads have nothing to do
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] ** 2
        roots[i] = y[i] ** float32(0.5)


@right("two-jobs")
@cuda.jit
def jobs_roots_first(squares, roots, x, y):
    n = y.shape[0]
    i = cuda.grid(1)
    if i >= 2 * n:
        return
    if i < n:
        roots[i] = math.sqrt(y[i])
        return
    squares[i - n] = x[i - n] * x[i - n]


@right("two-jobs")
@cuda.jit
def jobs_by_warp_number(squares, roots, x, y):
    warp, lane = cuda.grid(1) // 32, cuda.laneid
    i = warp // 2 * 32 + lane
    if i < x.size:
        if warp % 2 == 0:
            squares[i] = x[i] * x[i]
        else:
            roots[i] = math.sqrt(y[i])
    # a launch with an odd number of warps lacks the roots of the last one
    if i < x.size and warp % 2 == 0 and (warp + 1) * 32 >= cuda.gridsize(1):
        roots[i] = math.sqrt(y[i])


@right("two-jobs")
@cuda.jit
def jobs_backwards(squares, roots, x, y):
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    elif i < 2 * x.size:
        roots[2 * x.size - 1 - i] = math.sqrt(y[2 * x.size - 1 - i])


# --- block-shape --------------------------------------------------------------------------------


def ceiling(a, b):
    return (a + b - 1) // b


@wrong("block-shape", "wrong-result", "walks both sides", "16 active lanes")
def shape_square(rows, columns):
    return (ceiling(columns, 16), ceiling(rows, 16)), (16, 16)


@wrong("block-shape", "wrong-result", "walks both sides")
def shape_tall(rows, columns):
    return (ceiling(columns, 8), ceiling(rows, 32)), (8, 32)


@wrong("block-shape", "wrong-result", "has 32 threads", "stays half empty")
def shape_one_warp(rows, columns):
    return (ceiling(columns, 32), rows), (32, 1)


@wrong("block-shape", "wrong-result", "without a thread|more than needed")
def shape_axes_exchanged(rows, columns):
    return (ceiling(rows, 32), ceiling(columns, 8)), (32, 8)


@wrong("block-shape", "wrong-result", "without a thread")
def shape_rounds_down(rows, columns):
    return (columns // 32, max(1, rows // 8)), (32, 8)


@wrong("block-shape", "wrong-result", "at most 1,024 are allowed")
def shape_too_large(rows, columns):
    return (ceiling(columns, 64), ceiling(rows, 32)), (64, 32)


@wrong("block-shape", "wrong-result", "give 2 numbers")
def shape_flat(rows, columns):
    return ceiling(columns * rows, 256), 256


@wrong("block-shape", "wrong-result", "the last block has nothing to do")
def shape_one_block_more(rows, columns):
    return (columns // 32 + 1, rows // 8 + 1), (32, 8)


@wrong("block-shape", "wrong-result", "24 active lanes", "lies over several rows")
def shape_of_warps_and_a_half(rows, columns):
    return ((columns + 47) // 48, (rows + 1) // 2), (48, 2)


@wrong("block-shape", "wrong-result", "Grid and block are exchanged")
def shape_block_first(rows, columns):
    return (32, 8), ((columns + 31) // 32, (rows + 7) // 8)


@wrong("block-shape", "wrong-result", "give 2 numbers")
def shape_with_a_third_axis(rows, columns):
    return ((columns + 31) // 32, (rows + 7) // 8, 1), (32, 8, 1)


@right("block-shape")
def shape_wide(rows, columns):
    return (ceiling(columns, 256), rows), (256, 1)


@right("block-shape")
def shape_large(rows, columns):
    return [-(-columns // 64), -(-rows // 16)], [64, 16]


@right("block-shape")
def shape_with_numpy(rows, columns):
    x, y = 32, 4
    return (math.ceil(columns / x), math.ceil(rows / y)), (x, y)


# --- transpose-write ----------------------------------------------------------------------------


@wrong("transpose-write", "limit", "stores need 32 sectors per request", "The loads will pay")
@cuda.jit
def transpose_reads_in_order(out, image):
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        out[column, row] = image[row, column]


@wrong("transpose-write", "out-of-bounds", "13 x 37", "the axis on which you use it")
@cuda.jit
def transpose_guards_with_the_image(out, image):
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        out[row, column] = image[column, row]


@wrong("transpose-write", "out-of-bounds", "image|out")
@cuda.jit
def transpose_without_guard(out, image):
    column, row = cuda.grid(2)
    out[row, column] = image[column, row]


@wrong("transpose-write", "wrong-result", "transpose of the right one|It holds image, unchanged")
@cuda.jit
def transpose_copies(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[row, column]


@wrong("transpose-write", "wrong-result", "turned by a quarter")
@cuda.jit
def transpose_turns(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[image.shape[0] - 1 - column, row]


@wrong("transpose-write", "input-modified", "image")
@cuda.jit
def transpose_in_place(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        image[column, row] = out[row, column]


@wrong("transpose-write", "unwritten-output", "Which shape do you guard with?")
@cuda.jit
def transpose_only_the_square_part(out, image):
    column, row = cuda.grid(2)
    side = min(out.shape[0], out.shape[1])
    if row < side and column < side:
        out[row, column] = image[column, row]


@wrong("transpose-write", "limit|race", "take both indices from cuda.grid(2)")
@cuda.jit
def transpose_a_row_for_each_thread(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0]:
        for other in range(out.shape[1]):
            out[row, other] = image[other, row]


@wrong("transpose-write", "out-of-bounds", "13 x 37", "the axis on which you use it")
@cuda.jit
def transpose_guards_with_or(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] or column < out.shape[1]:
        out[row, column] = image[column, row]


@wrong("transpose-write", "limit", "Let x be the last index of out")
@cuda.jit
def transpose_x_on_the_rows_of_out(out, image):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[column, row]


@right("transpose-write")
@cuda.jit
def transpose_through_a_view(out, image):
    column, row = cuda.grid(2)
    if column < image.shape[0] and row < image.shape[1]:
        out[row, column] = image[column][row]


@right("transpose-write")
@cuda.jit
def transpose_along_one_line(out, image):
    # the threads are numbered through, and go along out in its own order
    x, y = cuda.grid(2)
    width, height = cuda.gridsize(2)
    for number in range(y * width + x, out.size, width * height):
        row, column = number // out.shape[1], number % out.shape[1]
        out[row, column] = image[column, row]


# --- split-records ------------------------------------------------------------------------------


@wrong("split-records", "wrong-result", "still 12 bytes", "a view into the records")
def split_into_views(points):
    return points["x"], points["y"], points["z"]


@wrong("split-records", "wrong-result", "Return three arrays")
def split_only_one(points):
    return np.ascontiguousarray(points["x"])


@wrong("split-records", "wrong-result", "y[0] is", "points[0].y")
def split_exchanged(points):
    return tuple(np.ascontiguousarray(points[name]) for name in ("x", "z", "y"))


@wrong("split-records", "wrong-dtype", "float64")
def split_through_lists(points):
    return tuple(np.array([float(point[name]) for point in points]) for name in "xyz")


@wrong("split-records", "wrong-result", "must be an array")
def split_into_lists(points):
    return tuple([point[name] for point in points] for name in "xyz")


@wrong("split-records", "wrong-result", "still 12 bytes")
def split_by_asarray(points):
    return tuple(np.asarray(points[name]) for name in "xyz")


@wrong("split-records", "raised", "points['x']")
def split_by_attribute(points):
    return points.x.copy(), points.y.copy(), points.z.copy()


@wrong("split-records", "wrong-result", "x[1] is", "points[1].x")
def split_by_thirds(points):
    return tuple(points.view(np.float32).reshape(3, -1))


@wrong("split-records", "wrong-result", "still 12 bytes")
def split_by_steps(points):
    flat = points.view(np.float32)
    return flat[0::3], flat[1::3], flat[2::3]


@right("split-records")
def split_by_copy(points):
    return points["x"].copy(), points["y"].copy(), points["z"].copy()


@right("split-records")
def split_by_bytes(points):
    return np.ascontiguousarray(points.view(np.float32).reshape(-1, 3).T)


@right("split-records")
def split_into_rows(points):
    return np.array([points["x"], points["y"], points["z"]])
