"""Wrong answers to the exercises of lesson 06 as students write them, and unusual right ones."""

import numpy as np
from numba import float32

from bug_zoo import Answers
from course import cuda
from course.intrinsics import load4, store4
from course.kernels import register_tiles

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

ZERO = np.float32(0)

# --- shared-reads -------------------------------------------------------------------------------


@wrong("shared-reads", "wrong-result", "do not divide by the products")
def reads_in_all(rows, columns):
    return rows + columns


@wrong("shared-reads", "wrong-result", "turn it round")
def products_for_a_read(rows, columns):
    return rows * columns / (rows + columns)


@wrong("shared-reads", "wrong-result", "one read in all")
def one_read_for_all(rows, columns):
    return 1 / (rows * columns)


@wrong("shared-reads", "wrong-result", "2 whatever the tile|product of every pair")
def two_reads_always(rows, columns):
    return 2.0


@wrong("shared-reads", "wrong-result", "in brackets")
def reads_divided_before_added(rows, columns):
    return rows + columns / (rows * columns)


@wrong("shared-reads", "wrong-result", "which cuts off")
def reads_in_whole_numbers(rows, columns):
    return (rows + columns) // (rows * columns)


@right("shared-reads")
def reads_by_parts(rows, columns):
    return 1 / columns + 1 / rows


# --- smallest-block -----------------------------------------------------------------------------


@wrong("smallest-block", "wrong-result", "do not round up")
def block_not_rounded(gigabytes_per_second, teraflops):
    return 4000 * teraflops / gigabytes_per_second


@wrong("smallest-block", "wrong-result", "round down")
def block_rounded_down(gigabytes_per_second, teraflops):
    return int(4000 * teraflops / gigabytes_per_second) // 16 * 16


@wrong("smallest-block", "wrong-result", "with its addition it is two")
def block_of_one_operation(gigabytes_per_second, teraflops):
    side = 16
    while side / 8 < 1000 * teraflops / gigabytes_per_second:
        side += 16
    return side


@wrong("smallest-block", "wrong-result", "instead of 4")
def block_of_numbers_for_bytes(gigabytes_per_second, teraflops):
    side = 16
    while side < 1000 * teraflops / gigabytes_per_second:
        side += 16
    return side


@wrong("smallest-block", "wrong-result", "1000 * teraflops")
def block_in_mixed_units(gigabytes_per_second, teraflops):
    side = 16
    while side / 4 < teraflops / gigabytes_per_second:
        side += 16
    return side


@wrong("smallest-block", "wrong-result", "where a side fits exactly")
def block_beyond_the_ridge(gigabytes_per_second, teraflops):
    side = 16
    while side / 4 <= 1000 * teraflops / gigabytes_per_second:
        side += 16
    return side


@wrong("smallest-block", "wrong-result", "Operations / bytes must reach the ridge")
def block_turned_round(gigabytes_per_second, teraflops):
    return int(np.ceil(4 * gigabytes_per_second / (1000 * teraflops) / 16)) * 16


@right("smallest-block")
def block_by_division(gigabytes_per_second, teraflops):
    return int(np.ceil(4000 * teraflops / gigabytes_per_second / 16)) * 16


# --- largest-square -----------------------------------------------------------------------------


@wrong("largest-square", "wrong-result", "no longer fits")
def square_one_too_large(registers, other):
    n = 0
    while n * n + 2 * n + other <= registers:
        n += 1
    return n


@wrong("largest-square", "wrong-result", "n numbers of u and n of vt")
def square_of_sums_alone(registers, other):
    return int((registers - other) ** 0.5)


@wrong("largest-square", "wrong-result", "one side too far")
def square_of_two_sides_mixed(registers, other):
    n = 0
    while (n + 1) ** 2 + 2 * n + other <= registers:
        n += 1
    return n


@wrong("largest-square", "wrong-result", "leave out the other registers")
def square_without_the_rest(registers, other):
    n = 0
    while (n + 1) ** 2 + 2 * (n + 1) <= registers:
        n += 1
    return n


@wrong("largest-square", "wrong-result", "registers = 120")
def square_smaller_than_all(registers, other):
    n = 0
    while (n + 1) ** 2 + 2 * (n + 1) + other < registers:
        n += 1
    return n


@right("largest-square")
def square_by_root(registers, other):
    return int((registers - other + 1) ** 0.5 - 1)


# --- free-pitch ---------------------------------------------------------------------------------


@wrong("free-pitch", "wrong-result", "as for the transpose")
def pitch_plus_one(least):
    return least + 1


@wrong("free-pitch", "wrong-result", "do not look at the banks")
def pitch_as_it_is(least):
    return -(-least // 4) * 4


@wrong("free-pitch", "wrong-result", "multiple of 4")
def pitch_of_any_number(least):
    pitch = least
    while (
        pitch * 4 % 32 != 16 and len({(4 * pitch * (n % 2) + n // 2) % 32 for n in range(32)}) < 32
    ):
        pitch += 1
    return pitch if pitch != least else least + 1


@wrong("free-pitch", "wrong-result", "the padding, not the pitch")
def pitch_padding_only(least):
    pitch = -(-least // 4) * 4
    while pitch % 8 != 4:
        pitch += 4
    return pitch - least


@right("free-pitch")
def pitch_by_thought(least):
    fours = -(-least // 4)
    return 4 * (fours if fours % 2 else fours + 1)


# --- column-tile --------------------------------------------------------------------------------

ROWS, COLUMNS, DEPTH, RESULTS = 64, 64, 8, 8

right("column-tile")(register_tiles.reconstruct_column)


def column_kernel(
    first_barrier=True,
    second_barrier=True,
    rounds=0,
    guard=True,
    scaled=True,
    u_start=True,
    vt_start=True,
    u_row=True,
    vt_column=True,
    reads_row=True,
    stores_row=True,
    early=False,
    zeros=True,
):
    """Step 5 with a part of it left out, or with stores in every round."""

    @cuda.jit
    def reconstruct_column(u, s, vt, k, out):
        u_tile = cuda.shared.array((ROWS, DEPTH), float32)
        vt_tile = cuda.shared.array((DEPTH, COLUMNS), float32)
        total = cuda.local.array(RESULTS, float32)
        t = cuda.threadIdx.x
        first_row, first_column = cuda.blockIdx.y * ROWS, cuda.blockIdx.x * COLUMNS
        row, column = t // COLUMNS * RESULTS, t % COLUMNS
        for n in range(RESULTS):
            total[n] = float32(0)
        for start in range(0, k - rounds, DEPTH):
            y, i = t // DEPTH, t % DEPTH
            if zeros:
                u_tile[y, i] = 0
            if first_row + y < u.shape[0] and start + i < k:
                scale = s[start + i] if scaled else float32(1)
                u_tile[y, i] = u[u_row * first_row + y, u_start * start + i] * scale
            i = t // COLUMNS
            vt_tile[i, column] = 0
            if start + i < k and first_column + column < vt.shape[1]:
                vt_tile[i, column] = vt[vt_start * start + i, vt_column * first_column + column]
            if first_barrier:
                cuda.syncthreads()
            for i in range(DEPTH):
                b = vt_tile[i, column]
                for n in range(RESULTS):
                    total[n] += u_tile[reads_row * row + n, i] * b
            if early:
                for n in range(RESULTS):
                    if first_row + row + n < out.shape[0] and first_column + column < out.shape[1]:
                        out[first_row + row + n, first_column + column] = total[n]
            if second_barrier:
                cuda.syncthreads()
        for n in range(RESULTS):
            if not guard or (
                first_row + row + n < out.shape[0] and first_column + column < out.shape[1]
            ):
                out[stores_row * first_row + row + n, first_column + column] = total[n]

    return reconstruct_column


wrong("column-tile", "race", "Two barriers")(column_kernel(first_barrier=False))
wrong("column-tile", "race", "Two barriers", "k = 32")(column_kernel(second_barrier=False))
wrong("column-tile", "out-of-bounds", "128 x 64|13 x 37", "store only pixels")(
    column_kernel(guard=False)
)
wrong("column-tile", "uninitialised-read", "which no thread has written")(
    column_kernel(zeros=False)
)
wrong("column-tile", "wrong-result", "s is left out")(column_kernel(scaled=False))
wrong("column-tile", "wrong-result", "instead of u[..., start + i]")(column_kernel(u_start=False))
wrong("column-tile", "wrong-result", "instead of vt[start + i")(column_kernel(vt_start=False))
wrong("column-tile", "wrong-result", "first_row is left out")(column_kernel(u_row=False))
wrong("column-tile", "wrong-result", "first_column is left out")(column_kernel(vt_column=False))
wrong("column-tile", "wrong-result", "row is left out where it reads")(
    column_kernel(reads_row=False)
)
wrong("column-tile", "race", "look at its row and column")(column_kernel(stores_row=False))
wrong("column-tile", "limit", "Store once, after the last round")(column_kernel(early=True))
wrong("column-tile", "wrong-result|unwritten-output", "The last tile is left out|the last tile is")(
    column_kernel(rounds=DEPTH)
)


@wrong("column-tile", "limit", "9 reads for 8 products")
@cuda.jit
def column_reads_vt_for_every_row(u, s, vt, k, out):
    u_tile = cuda.shared.array((ROWS, DEPTH), float32)
    vt_tile = cuda.shared.array((DEPTH, COLUMNS), float32)
    total = cuda.local.array(RESULTS, float32)
    t = cuda.threadIdx.x
    first_row, first_column = cuda.blockIdx.y * ROWS, cuda.blockIdx.x * COLUMNS
    row, column = t // COLUMNS * RESULTS, t % COLUMNS
    for n in range(RESULTS):
        total[n] = float32(0)
    for start in range(0, k, DEPTH):
        y, i = t // DEPTH, t % DEPTH
        u_tile[y, i] = 0
        if first_row + y < u.shape[0] and start + i < k:
            u_tile[y, i] = u[first_row + y, start + i] * s[start + i]
        i = t // COLUMNS
        vt_tile[i, column] = 0
        if start + i < k and first_column + column < vt.shape[1]:
            vt_tile[i, column] = vt[start + i, first_column + column]
        cuda.syncthreads()
        for n in range(RESULTS):
            for i in range(DEPTH):
                total[n] += u_tile[row + n, i] * vt_tile[i, column]
        cuda.syncthreads()
    for n in range(RESULTS):
        if first_row + row + n < out.shape[0] and first_column + column < out.shape[1]:
            out[first_row + row + n, first_column + column] = total[n]


@wrong("column-tile", "limit", "once for the block")
@cuda.jit
def column_without_tiles(u, s, vt, k, out):
    total = cuda.local.array(RESULTS, float32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.y * ROWS + t // COLUMNS * RESULTS
    column = cuda.blockIdx.x * COLUMNS + t % COLUMNS
    for n in range(RESULTS):
        total[n] = float32(0)
    if column < out.shape[1]:
        for i in range(k):
            b = s[i] * vt[i, column]
            for n in range(RESULTS):
                if row + n < out.shape[0]:
                    total[n] += u[row + n, i] * b
        for n in range(RESULTS):
            if row + n < out.shape[0]:
                out[row + n, column] = total[n]


@wrong("column-tile", "barrier-divergence", "Guard the loads and the stores")
@cuda.jit
def column_leaves_early(u, s, vt, k, out):
    u_tile = cuda.shared.array((ROWS, DEPTH), float32)
    t = cuda.threadIdx.x
    row = cuda.blockIdx.y * ROWS + t // COLUMNS * RESULTS
    column = cuda.blockIdx.x * COLUMNS + t % COLUMNS
    if column < out.shape[1]:
        u_tile[t // DEPTH, t % DEPTH] = 0
        cuda.syncthreads()
        for n in range(RESULTS):
            if row + n < out.shape[0]:
                total = float32(0)
                for i in range(k):
                    total += u[row + n, i] * s[i] * vt[i, column]
                out[row + n, column] = total


@wrong("column-tile", "wrong-result", "one sum is written|One sum is written")
@cuda.jit
def column_of_one_sum(u, s, vt, k, out):
    t = cuda.threadIdx.x
    row = cuda.blockIdx.y * ROWS + t // COLUMNS * RESULTS
    column = cuda.blockIdx.x * COLUMNS + t % COLUMNS
    if column < out.shape[1] and row < out.shape[0]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, column]
        for n in range(RESULTS):
            if row + n < out.shape[0]:
                out[row + n, column] = total


# --- square-tile --------------------------------------------------------------------------------

SQUARE, SIDE, THREADS = 128, 8, 256
ACROSS = SQUARE // SIDE

right("square-tile")(register_tiles.reconstruct_square)


def square_kernel(
    second_barrier=True,
    step=THREADS,
    ones=False,
    again=True,
    s_of_the_tile=False,
    doubled=False,
    turned=False,
    reads_column=True,
):
    """Step 6 with a mistake in it."""
    start_value = 0.0 if doubled else ZERO

    @cuda.jit
    def reconstruct_square(u, s, vt, k, out):
        u_tile = cuda.shared.array((SQUARE, DEPTH), float32)
        vt_tile = cuda.shared.array((DEPTH, SQUARE), float32)
        total = cuda.local.array((SIDE, SIDE), float32)
        a = cuda.local.array(SIDE, float32)
        t = cuda.threadIdx.x
        first_row, first_column = cuda.blockIdx.y * SQUARE, cuda.blockIdx.x * SQUARE
        row, column = t // ACROSS * SIDE, t % ACROSS * SIDE
        for m in range(SIDE):
            for n in range(SIDE):
                total[m, n] = float32(0)
        for start in range(0, k, DEPTH):
            for number in range(t, SQUARE * DEPTH, step):
                y, i = number // DEPTH, number % DEPTH
                u_tile[y, i] = 0
                if first_row + y < u.shape[0] and start + i < k:
                    scale = s[i] if s_of_the_tile else s[start + i]
                    u_tile[y, i] = u[first_row + y, start + i] * scale
            for number in range(t, DEPTH * SQUARE, THREADS):
                i, x = number // SQUARE, number % SQUARE
                vt_tile[i, x] = 0
                if start + i < k and first_column + x < vt.shape[1]:
                    vt_tile[i, x] = vt[start + i, first_column + x]
            cuda.syncthreads()
            for i in range(DEPTH):
                for m in range(SIDE):
                    a[m] = u_tile[row + m, i]
                for n in range(SIDE):
                    b = vt_tile[i, reads_column * column + n]
                    for m in range(SIDE):
                        more = start_value
                        more += a[m] * b if again else u_tile[row + m, i] * b
                        if turned:
                            total[n, m] += more
                        else:
                            total[m, n] += more
            if second_barrier:
                cuda.syncthreads()
        for m in range(SIDE):
            for n in range(SIDE):
                y, x = first_row + row + m, first_column + column + (0 if ones else n)
                if y < out.shape[0] and x < out.shape[1]:
                    out[y, x] = total[m, n]

    return reconstruct_square


right("square-tile")(square_kernel())
wrong("square-tile", "race", "Two barriers", "k = 16")(square_kernel(second_barrier=False))
wrong("square-tile", "uninitialised-read", "Every place")(square_kernel(step=SQUARE * DEPTH))
wrong("square-tile", "unwritten-output", "out")(square_kernel(ones=True))
wrong("square-tile", "wrong-result", "s[start + i]", "k = 16")(square_kernel(s_of_the_tile=True))
wrong("square-tile", "limit", "16 reads for 64 products")(square_kernel(again=False))
wrong("square-tile", "float64", "float32(0)")(square_kernel(doubled=True))
wrong("square-tile", "wrong-result", "you exchanged them")(square_kernel(turned=True))
wrong("square-tile", "wrong-result", "column is left out where it reads")(
    square_kernel(reads_column=False)
)


@wrong("square-tile", "limit", "once for the block")
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


# --- wide-tile ----------------------------------------------------------------------------------

FAR = 64

right("wide-tile")(register_tiles.wide_tiles(True))


def wide_kernel(
    pitch=132,
    turned_reads=True,
    far=FAR,
    quads=True,
    barrier=True,
    by_s=True,
    apart=True,
    one_s=False,
):
    """Step 7 with a mistake in it."""
    step = 4 if quads else SIDE

    @cuda.jit
    def reconstruct_wide(u, s, vt, k, out):
        u_tile = cuda.shared.array((DEPTH, pitch), float32)
        vt_tile = cuda.shared.array((DEPTH, SQUARE), float32)
        total = cuda.local.array((SIDE, SIDE), float32)
        a = cuda.local.array(SIDE, float32)
        b = cuda.local.array(SIDE, float32)
        t = cuda.threadIdx.x
        first_row, first_column = cuda.blockIdx.y * SQUARE, cuda.blockIdx.x * SQUARE
        row, column = t // ACROSS * step, t % ACROSS * step
        for m in range(SIDE):
            for n in range(SIDE):
                total[m, n] = ZERO
        for start in range(0, k, DEPTH):
            y, i = t // 2, t % 2 * 4
            four = (ZERO, ZERO, ZERO, ZERO)
            if first_row + y < u.shape[0] and start + i < k:
                four = load4(u, (first_row + y, start + i))
            for e in range(4):
                u_tile[i + e, y] = four[e] * (
                    s[start + i] if one_s and start + i < k else float32(1)
                )
            i, x = t // 32, t % 32 * 4
            scale, four = ZERO, (ZERO, ZERO, ZERO, ZERO)
            if start + i < k and first_column + x < vt.shape[1]:
                scale = s[start + i] if by_s else float32(1)
                four = load4(vt, (start + i, first_column + x))
            store4(
                vt_tile,
                (i, x),
                (four[0] * scale, four[1] * scale, four[2] * scale, four[3] * scale),
            )
            if barrier:
                cuda.syncthreads()
            for i in range(DEPTH):
                if turned_reads:
                    a[0], a[1], a[2], a[3] = load4(u_tile, (i, row))
                    a[4], a[5], a[6], a[7] = load4(u_tile, (i, row + far))
                else:
                    for m in range(4):
                        a[m], a[m + 4] = u_tile[i, row + m], u_tile[i, row + m + far]
                b[0], b[1], b[2], b[3] = load4(vt_tile, (i, column))
                b[4], b[5], b[6], b[7] = load4(vt_tile, (i, column + far))
                for m in range(SIDE):
                    for n in range(SIDE):
                        total[m, n] += a[m] * b[n]
            cuda.syncthreads()
        for m in range(SIDE):
            for n in range(SIDE):
                y = first_row + (row + m if m < 4 else row + m - 4 + far)
                x = first_column + (column + n if n < 4 else column + n - 4 + far)
                if not apart:
                    y, x = first_row + 2 * row + m, first_column + 2 * column + n
                if y < out.shape[0] and x < out.shape[1]:
                    out[y, x] = total[m, n]

    return reconstruct_wide


right("wide-tile")(wide_kernel(pitch=140))
wrong("wide-tile", "wrong-result", "side by side, as one square")(wide_kernel(apart=False))
wrong("wide-tile", "bank-conflict", "PITCH")(wide_kernel(pitch=128))
wrong("wide-tile", "misaligned", "multiple of 4")(wide_kernel(pitch=129))
wrong("wide-tile", "bank-conflict", "half a tile after the first")(wide_kernel(far=4, quads=False))
wrong("wide-tile", "limit", "Read the tiles with load4")(wide_kernel(turned_reads=False))
wrong("wide-tile", "race", "Two barriers")(wide_kernel(barrier=False))
wrong("wide-tile", "wrong-result", "s is left out")(wide_kernel(by_s=False))
wrong("wide-tile", "wrong-result", "a four of u is multiplied by one s")(
    wide_kernel(by_s=False, one_s=True)
)


@wrong("wide-tile", "out-of-bounds", "The tile of u is turned")
@cuda.jit
def wide_not_turned(u, s, vt, k, out):
    u_tile = cuda.shared.array((DEPTH, 132), float32)
    t = cuda.threadIdx.x
    y, i = t // 2, t % 2 * 4
    if y < u.shape[0] and i < k:
        four = load4(u, (y, i))
        for e in range(4):
            u_tile[y, i + e] = four[e]
    cuda.syncthreads()
    if t < out.shape[0]:
        out[t, 0] = u_tile[0, t % 132]


@right("wide-tile")
@cuda.jit
def wide_with_s_on_u(u, s, vt, k, out):
    u_tile = cuda.shared.array((DEPTH, 132), float32)
    vt_tile = cuda.shared.array((DEPTH, SQUARE), float32)
    total = cuda.local.array((SIDE, SIDE), float32)
    a = cuda.local.array(SIDE, float32)
    b = cuda.local.array(SIDE, float32)
    t = cuda.threadIdx.x
    first_row, first_column = cuda.blockIdx.y * SQUARE, cuda.blockIdx.x * SQUARE
    row, column = t // ACROSS * 4, t % ACROSS * 4
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] = ZERO
    for start in range(0, k, DEPTH):
        y, i = t // 2, t % 2 * 4
        four = (ZERO, ZERO, ZERO, ZERO)
        if first_row + y < u.shape[0] and start + i < k:
            four = load4(u, (first_row + y, start + i))
        for e in range(4):
            scale = s[start + i + e] if start + i < k else ZERO
            u_tile[i + e, y] = four[e] * scale
        i, x = t // 32, t % 32 * 4
        four = (ZERO, ZERO, ZERO, ZERO)
        if start + i < k and first_column + x < vt.shape[1]:
            four = load4(vt, (start + i, first_column + x))
        store4(vt_tile, (i, x), four)
        cuda.syncthreads()
        for i in range(DEPTH):
            a[0], a[1], a[2], a[3] = load4(u_tile, (i, row))
            a[4], a[5], a[6], a[7] = load4(u_tile, (i, row + FAR))
            b[0], b[1], b[2], b[3] = load4(vt_tile, (i, column))
            b[4], b[5], b[6], b[7] = load4(vt_tile, (i, column + FAR))
            for m in range(SIDE):
                for n in range(SIDE):
                    total[m, n] += a[m] * b[n]
        cuda.syncthreads()
    for m in range(SIDE):
        y = first_row + row + m % 4 + m // 4 * FAR
        for n in range(SIDE):
            x = first_column + column + n % 4 + n // 4 * FAR
            if y < out.shape[0] and x < out.shape[1]:
                out[y, x] = total[m, n]


@wrong("wide-tile", "limit|bank-conflict", "The result is right")
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


# --- two-buffers --------------------------------------------------------------------------------

TILE = 16


@cuda.jit(device=True)
def fill(u_tile, vt_tile, stage, u, s, vt, k, start, row, col):
    """As in the lesson."""
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    u_tile[stage, y, x] = 0
    if row < u.shape[0] and start + x < k:
        u_tile[stage, y, x] = u[row, start + x] * s[start + x]
    vt_tile[stage, y, x] = 0
    if start + y < k and col < vt.shape[1]:
        vt_tile[stage, y, x] = vt[start + y, col]


def two_buffers(before=True, after=False, same=False, last=0, swap=True, first=TILE, counts=False):
    """The double buffer with a mistake in it."""

    @cuda.jit
    def reconstruct_two_buffers(u, s, vt, k, out):
        u_tile = cuda.shared.array((2, TILE, TILE), float32)
        vt_tile = cuda.shared.array((2, TILE, TILE), float32)
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        col, row = cuda.grid(2)
        total, stage = float32(0), 0
        fill(u_tile, vt_tile, 0, u, s, vt, k, 0, row, col)
        for start in range(first, k + first - last, TILE):
            if before:
                cuda.syncthreads()
            if start < k:
                other = stage if same else 1 - stage
                fill(u_tile, vt_tile, other, u, s, vt, k, start, row, col)
            for i in range(TILE):
                total += u_tile[stage, y, i] * vt_tile[stage, i, x]
            if counts:
                stage += 1
            elif swap:
                stage = 1 - stage
            if after:
                cuda.syncthreads()
        if row < out.shape[0] and col < out.shape[1]:
            out[row, col] = total

    return reconstruct_two_buffers


right("two-buffers")(two_buffers(after=True))
wrong("two-buffers", "race", "One barrier at the start")(two_buffers(before=False))
wrong("two-buffers", "race", "One barrier at the start")(two_buffers(before=False, after=True))
wrong("two-buffers", "race", "which may be filled now")(two_buffers(same=True))
wrong("two-buffers", "wrong-result", "last tile is left out")(two_buffers(last=TILE))
wrong("two-buffers", "wrong-result", "never swapped")(two_buffers(swap=False))
wrong("two-buffers", "wrong-result", "the first tile is filled again")(two_buffers(first=0))
wrong("two-buffers", "out-of-bounds", "There are two buffers, 0 and 1")(two_buffers(counts=True))


@wrong("two-buffers", "unwritten-output", "Nothing was written|unwritten")
@cuda.jit
def two_buffers_without_the_store(u, s, vt, k, out):
    u_tile = cuda.shared.array((2, TILE, TILE), float32)
    vt_tile = cuda.shared.array((2, TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total, stage = float32(0), 0
    fill(u_tile, vt_tile, 0, u, s, vt, k, 0, row, col)
    for start in range(TILE, k + TILE, TILE):
        cuda.syncthreads()
        if start < k:
            fill(u_tile, vt_tile, 1 - stage, u, s, vt, k, start, row, col)
        for i in range(TILE):
            total += u_tile[stage, y, i] * vt_tile[stage, i, x]
        stage = 1 - stage


# --- split-in-halves ----------------------------------------------------------------------------


def power_of(x):
    """A power of two that brings the largest number near 2**13."""
    return np.float32(2.0) ** np.float32(14 - np.frexp(np.abs(x).max())[1])


@wrong("split-in-halves", "wrong-result", "no better than upper alone")
def split_without_the_rest(x):
    scaled = x * power_of(x)
    upper = scaled.astype(np.float16)
    return upper, np.zeros_like(upper), power_of(x)


@wrong("split-in-halves", "wrong-result", "near 2^13", "a millionth")
def split_without_a_power(x):
    upper = x.astype(np.float16)
    return upper, (x - upper.astype(np.float32)).astype(np.float16), 1.0


@wrong("split-in-halves", "wrong-result", "no better than upper alone")
def split_subtracts_in_halves(x):
    scaled = x * power_of(x)
    upper = scaled.astype(np.float16)
    return upper, scaled.astype(np.float16) - upper, power_of(x)


@wrong("split-in-halves", "wrong-result", "one power of two")
def split_by_the_largest(x):
    power = 1e4 / np.abs(x).max()
    scaled = x * power
    upper = scaled.astype(np.float16)
    return upper, (scaled - upper).astype(np.float16), power


@wrong("split-in-halves", "wrong-result", "it must be float16")
def split_in_floats(x):
    scaled = x * power_of(x)
    upper = scaled.astype(np.float16).astype(np.float32)
    return upper, scaled - upper, power_of(x)


@wrong("split-in-halves", "wrong-result", "a half ends at 65,504")
def split_too_large(x):
    power = np.float32(2.0**18)
    with np.errstate(all="ignore"):
        upper = (x * power).astype(np.float16)
        return upper, (x * power - upper.astype(np.float32)).astype(np.float16), power


@wrong("split-in-halves", "wrong-result", "power is turned round")
def split_by_the_inverse(x):
    scaled = x * power_of(x)
    upper = scaled.astype(np.float16)
    return upper, (scaled - upper.astype(np.float32)).astype(np.float16), 1 / power_of(x)


@wrong("split-in-halves", "wrong-result", "upper + lower is x itself")
def split_forgets_its_power(x):
    upper = x.astype(np.float16)
    return upper, (x - upper.astype(np.float32)).astype(np.float16), power_of(x)


@wrong("split-in-halves", "wrong-result", "three things")
def split_in_two(x):
    upper = x.astype(np.float16)
    return upper, (x - upper.astype(np.float32)).astype(np.float16)


@right("split-in-halves")
def split_by_logarithm(x):
    power = 2.0 ** np.floor(15 - np.log2(np.abs(x).max()))
    wide = x.astype(np.float64) * power
    upper = wide.astype(np.float16)
    return upper, (wide - upper).astype(np.float16), power
