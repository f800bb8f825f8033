"""Wrong answers to the exercises of lesson 06 as students write them, and unusual right ones."""

from fractions import Fraction

import numpy as np
from numba import float32

from course import cuda
from course.kernels.reconstruct import register_tiles
from tests.course_lessons.wrong_answers import answers_to

ZERO = np.float32(0)
DEPTH = 8
SQUARE, SIDE, THREADS = 128, 8, 256
ACROSS = SQUARE // SIDE


wrong, right = answers_to("shared-reads")
wrong("wrong-result", "2 whatever the tile|product of every pair")("return 2.0")


@right
def shared_reads_as_a_fraction(rows, columns):
    return Fraction(rows + columns, rows * columns)


wrong, right = answers_to("smallest-block")
wrong("wrong-result")({"< ridge": "< ridge - 1e-3"})
wrong("wrong-result", "1000 * teraflops")({"ridge:": "teraflops / gigabytes_per_second:"})
right("return int(np.ceil(4000 * teraflops / gigabytes_per_second / 16)) * 16")


wrong, right = answers_to("largest-square")
wrong("wrong-result", "registers = 120")({"other <=": "other <"})
right("return int((registers - other + 1) ** 0.5 - 1)")


wrong, right = answers_to("free-pitch")
wrong("wrong-result", "result is 100, right is")({"-(-least // 4)": "round(least / 4)"})
wrong("wrong-result", "result is 129, right is 132", "multiples of 4")("return least + 1")
right("pitch = -(-least // 4)\nreturn 4 * (pitch if pitch % 2 else pitch + 1)")


wrong, right = answers_to("square-tile")
wrong("wrong-result", "drawn")({"range(0, k": "range(0, min(k, 128)"})
wrong("limit", "sectors per request", "neighbouring threads load neighbours")(
    {"y, i = number // DEPTH, number % DEPTH": "y, i = number % BLOCK, number // BLOCK"}
)
wrong("uninitialised-read", "Every place")(
    {"range(t, BLOCK * DEPTH, THREADS)": "range(t, BLOCK * DEPTH, BLOCK * DEPTH)"}
)
wrong("unwritten-output", "out")({"first_column + column + n] =": "first_column + column] ="})
wrong("wrong-result", "Line 18 decides", "k = 16")({"* s[start + i]": "* s[i]"})
wrong("limit", "16 reads for 64 products")({"a[m] * b[n]": "u_tile[row + m, i] * b[n]"})


@wrong("limit", "once for the block")
@cuda.jit
def square_without_tiles(u, s, vt, k, out):
    total = cuda.local.array((SIDE, SIDE), float32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.y * SQUARE + t // ACROSS * SIDE
    column = cuda.blockIdx.x * SQUARE + t % ACROSS * SIDE
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] = float32(0)
    for i in range(k):
        for m in range(SIDE):
            for n in range(SIDE):
                if row + m < out.shape[0] and column + n < out.shape[1]:
                    total[m, n] += u[row + m, i] * s[i] * vt[i, column + n]
    for m in range(SIDE):
        for n in range(SIDE):
            if row + m < out.shape[0] and column + n < out.shape[1]:
                out[row + m, column + n] = total[m, n]


right(register_tiles.reconstruct_square)


wrong, right = answers_to("wide-tile")
wrong("bank-conflict", "PITCH")({"PITCH": "128"})
wrong("misaligned", "multiple of 4")({"PITCH": "129"})
wrong("limit", "Read the tiles with load4")(
    {
        (
            "a[0], a[1], a[2], a[3] = load4(u_tile, (i, row))\n"
            "            a[4], a[5], a[6], a[7] = load4(u_tile, (i, row + FAR))"
        ): (
            "for m in range(4):\n"
            "                a[m], a[m + 4] = u_tile[i, row + m], u_tile[i, row + m "
            "+ FAR]"
        )
    }
)
wrong("race", "number e of the four of u goes to")({"u_tile[i + e, y]": "u_tile[i, y + e]"})
wrong("wrong-result", "second fours lie at row + FAR")({"row + FAR)": "row + 4)"})
wrong("out-of-bounds", "The tile of u is turned")({"i + e, y": "y, i + e"})


@wrong("limit|bank-conflict", "The result is right")
@cuda.jit
def wide_as_the_square(u, s, vt, k, out):
    u_tile = cuda.shared.array((SQUARE, DEPTH), float32)
    vt_tile = cuda.shared.array((DEPTH, SQUARE), float32)
    total = cuda.local.array((SIDE, SIDE), float32)
    t = cuda.threadIdx.x
    first_row, first_column = cuda.blockIdx.y * SQUARE, cuda.blockIdx.x * SQUARE
    row, column = t // ACROSS * SIDE, t % ACROSS * SIDE
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] = ZERO
    for start in range(0, k, DEPTH):
        for number in range(t, SQUARE * DEPTH, THREADS):
            y, i = number // DEPTH, number % DEPTH
            u_tile[y, i] = 0
            if first_row + y < u.shape[0] and start + i < k:
                u_tile[y, i] = u[first_row + y, start + i] * s[start + i]
            i, x = number // SQUARE, number % SQUARE
            vt_tile[i, x] = 0
            if start + i < k and first_column + x < vt.shape[1]:
                vt_tile[i, x] = vt[start + i, first_column + x]
        cuda.syncthreads()
        for i in range(DEPTH):
            for m in range(SIDE):
                for n in range(SIDE):
                    total[m, n] += u_tile[row + m, i] * vt_tile[i, column + n]
        cuda.syncthreads()
    for m in range(SIDE):
        for n in range(SIDE):
            if first_row + row + m < out.shape[0] and first_column + column + n < out.shape[1]:
                out[first_row + row + m, first_column + column + n] = total[m, n]


right(register_tiles.wide_tiles(True))


wrong, right = answers_to("last-rung")
LOAD = "        load_tile(u, s, vt, start, first_row, first_column, next_u, next_vt)\n"
SEVEN = "        seven_depths(total, u_tile, vt_tile, stage, row, column, a, b)\n"
CHANGE = "        stage = 1 - stage\n"
STORE = "        store_tile(u_tile, vt_tile, stage, next_u, next_vt)\n"
WAIT = "        cuda.syncthreads()\n"
READ = "        read(u_tile, vt_tile, stage, 0, row, column, a, b, 0)\n"
MULTIPLY = "        multiply(total, a, b, 1)\n"
IN_ORDER = LOAD + SEVEN + CHANGE + STORE + WAIT + READ + MULTIPLY


def ordered(*statements):
    """Return the edit that puts the main loop in another order."""
    return {IN_ORDER: "".join(statements)}


wrong("race", "Between `store_tile(...)` and `read(...)`, there is no barrier")(
    ordered(LOAD, SEVEN, CHANGE, WAIT, STORE, READ, MULTIPLY)
)
wrong("race", "stores to a buffer and before the reads")(
    ordered(LOAD, SEVEN, CHANGE, STORE, READ, WAIT, MULTIPLY)
)
wrong("wrong-result", "`stage` changes behind seven_depths and before read")(
    ordered(LOAD, CHANGE, STORE, WAIT, SEVEN, READ, MULTIPLY)
)
wrong("uninitialised-read", "seven_depths reads it")(
    ordered(MULTIPLY, LOAD, SEVEN, CHANGE, STORE, WAIT, READ)
)
wrong("statements", "`cuda.syncthreads()` is given once, and stands nowhere")(
    ordered(LOAD, SEVEN, CHANGE, STORE, READ, MULTIPLY)
)
right(ordered(LOAD, SEVEN, CHANGE, STORE, WAIT, MULTIPLY, READ))


wrong, right = answers_to("two-buffers")
wrong("wrong-result", "drawn")({", k + TILE": ", min(k, 256) + TILE"})
wrong("limit", "barriers; 2 are enough", "one barrier a round")(
    {"        stage = 1": "        cuda.syncthreads()\n        stage = 1"}
)
right({"    if row < out.shape[0] and": "    cuda.syncthreads()\n    if row < out.shape[0] and"})
wrong("race", "which may be filled now")({", 1 -": ","})
wrong("wrong-result", "Line 8 decides")({"+ TILE": "+ TILE - TILE"})
wrong("wrong-result", "drawn")({"(TILE, k +": "(TILE, min(k, 128) +"})
wrong("out-of-bounds", "There are two buffers, 0 and 1")({"= 1 - stage": "+= 1"})


wrong, right = answers_to("lane-place")
wrong("wrong-result", "result[1, 0] is 0, right is 4")(
    "row, column = divmod(lane, 8)\nreturn 4 * row, 4 * column"
)
wrong("wrong-result", "Line 2 decides")({"lane // 16 * 2": "lane / 16 * 2"})
wrong("raised", "Return two numbers for each lane")({"return 4 * down, 4 * across": "return down"})
right("return [(lane >> 4 << 3) + ((lane & 1) << 2), (lane >> 1 & 7) << 2]")
