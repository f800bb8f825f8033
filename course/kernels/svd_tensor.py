"""Jacobi rotations block by block, as `course.kernels.svd_blocks`, products on tensor cores.

A float32 number is the sum of two numbers of TF32, upper + lower, and a product of two is

    x y = upper upper' + upper lower' + lower upper'

but for what float32 would round away. Tensor cores cut off what does not fit when they add: sums
are taken out, the Gram matrix's after 64 columns, the rows' after 16, and added in float32. What is
multiplied for the rows is q - 1.

Each of 16 warps computes 16 x 16 numbers. Lane l, with g = l // 4 and q = l % 4, has of a factor
of 16 x 8 the numbers in rows g and g + 8, columns q and q + 4, and of one of 8 x 16 those in rows q
and q + 4, columns g and g + 8 (`course.intrinsics.mma_tf32`). In which order the columns of one
factor and the rows of the other run is free: where both are rows of x they are 2 q and 2 q + 1,
neighbours that are read at once. With rows of 72 numbers, a warp reads 32 banks either way.
"""

from numba import float32, int32

from course.backend import cuda
from course.intrinsics import load, load2, mma_tf32, round_tf32, store2
from course.kernels.svd_blocks import PAIR, PITCH, bring, make_rotate, row_of

CAPABILITY = (8, 0)  # the oldest that has the instructions
REGISTERS = 64  # of a thread: two blocks share a multiprocessor
FOUR, EIGHT = 4 * PITCH, 8 * PITCH  # rows in shared memory
TAKEN_OUT = 16  # rows of x after which what tensor cores have summed is added in float32


@cuda.jit(device=True)
def _split(x):
    """A number as the sum of two of TF32."""
    upper = round_tf32(x)
    return upper, x - upper


@cuda.jit(device=True)
def _multiply(total, a, b):
    """total += a b, both float32: a has 4 numbers a lane, b 2 for each of two products."""
    a0, a1, a2, a3 = _split(a[0]), _split(a[1]), _split(a[2]), _split(a[3])
    upper, lower = (a0[0], a1[0], a2[0], a3[0]), (a0[1], a1[1], a2[1], a3[1])
    for half in range(2):
        b0, b1 = _split(b[2 * half]), _split(b[2 * half + 1])
        c = total[half, 0], total[half, 1], total[half, 2], total[half, 3]
        c = mma_tf32(c, lower, (b0[0], b1[0]))
        c = mma_tf32(c, upper, (b0[1], b1[1]))
        c = mma_tf32(c, upper, (b0[0], b1[0]))
        total[half, 0], total[half, 1], total[half, 2], total[half, 3] = c


@cuda.jit(device=True)
def _clear(total):
    for half in range(2):
        for e in range(4):
            total[half, e] = float32(0)


@cuda.jit(device=True)
def _add(total, part):
    for half in range(2):
        for e in range(4):
            total[half, e] += part[half, e]


@cuda.jit(device=True)
def _place():
    """The first row and column of a warp's 16 x 16 numbers, and its lane's g and q."""
    t = cuda.threadIdx.x
    return int32(t // 128 * 16), int32(t // 32 % 4 * 16), int32(t % 32 // 4), int32(t % 4)


@cuda.jit(device=True)
def gram_tensor(rows, low, high, x, g):
    """g = the Gram matrix of the 64 rows, its upper triangle."""
    total, part = cuda.local.array((2, 4), float32), cuda.local.array((2, 4), float32)
    b = cuda.local.array(4, float32)
    down, across, group, quarter = _place()
    _clear(total)
    for start in range(0, rows.shape[1], PAIR):
        bring(rows, low, high, start, x)
        if down <= across:
            _clear(part)
            for step in range(0, PAIR, 8):
                i = int32((down + group) * PITCH + step + 2 * quarter)
                j = int32((across + group) * PITCH + step + 2 * quarter)
                near, far = load2(x, i), load2(x, i + EIGHT)
                a = near[0], far[0], near[1], far[1]
                b[0], b[1] = load2(x, j)
                b[2], b[3] = load2(x, j + EIGHT)
                _multiply(part, a, b)
            _add(total, part)
    if down <= across:
        for half in range(2):
            i, j = down + group, across + 8 * half + 2 * quarter
            store2(g, i * PITCH + j, (total[half, 0], total[half, 1]))
            store2(g, (i + 8) * PITCH + j, (total[half, 2], total[half, 3]))


@cuda.jit(device=True)
def rotate_tensor(rows, low, high, q, place, x):
    """rows = x + q' x, each row to its place."""
    total, part = cuda.local.array((2, 4), float32), cuda.local.array((2, 4), float32)
    b = cuda.local.array(4, float32)
    down, across, group, quarter = _place()
    i = down + group
    near, far = row_of(place[i], low, high), row_of(place[i + 8], low, high)
    for start in range(0, rows.shape[1], PAIR):
        bring(rows, low, high, start, x)
        _clear(total)
        for top in range(0, PAIR, TAKEN_OUT):
            _clear(part)
            for step in range(top, top + TAKEN_OUT, 8):
                k = int32((step + quarter) * PITCH + i)
                a = load(q, k), load(q, k + 8), load(q, k + FOUR), load(q, k + FOUR + 8)
                j = int32((step + quarter) * PITCH + across + group)
                b[0], b[1] = load(x, j), load(x, j + FOUR)
                b[2], b[3] = load(x, j + 8), load(x, j + FOUR + 8)
                _multiply(part, a, b)
            _add(total, part)
        for half in range(2):
            j = across + 8 * half + 2 * quarter
            if start + j < rows.shape[1]:
                two, four = load2(x, i * PITCH + j), load2(x, i * PITCH + EIGHT + j)
                column = start + j
                store2(rows, (near, column), (two[0] + total[half, 0], two[1] + total[half, 1]))
                store2(rows, (far, column), (four[0] + total[half, 2], four[1] + total[half, 3]))


#: The kernel of one turn of a sweep, in a dictionary: not for every GPU.
ROTATE = {"tensor": make_rotate(gram_tensor, rotate_tensor, max_registers=REGISTERS)}
