"""Rebuild an image from its SVD, steps 5 to 8: tiles of results in each thread's registers.

Step 4 loads two elements from shared memory for each multiply-add. A thread that computes several
pixels reuses what it has loaded. Every kernel computes ``out = (u[:, :k] * s[:k]) @ vt[:k]`` with
float32 arrays u (rows, r), s (r,), vt (r, cols), out (rows, cols), r >= k. Blocks are
one-dimensional: t is a thread's index. A block computes BLOCK_ROWS x BLOCK_COLUMNS pixels; its
tiles of u and vt are DEPTH deep.

From here on elements are read and written with ``load(array, index)`` and ``store``, which are
``array[index]`` without Numba's test for a negative index. That test costs two instructions an
access, and hides from the compiler that accesses are contiguous.

Loads from global memory for each pixel and each i below k: 1 / BLOCK_COLUMNS of u and
1 / BLOCK_ROWS of vt, where step 3 has one of each.
"""

from collections.abc import Callable

from numba import float32

from course.backend import cuda
from warpsim.ptx import (
    commit_copies,
    copy4_async,
    copy_async,
    load,
    load4,
    store,
    store4,
    wait_copies,
)

# --- step 5: a column of results in each thread --------------------------------------------------

COLUMN_ROWS, COLUMN_COLUMNS, COLUMN_DEPTH, COLUMN_RESULTS = 64, 64, 8, 8


@cuda.jit
def reconstruct_column(u, s, vt, k, out):
    """Step 5: each thread computes 8 pixels of one column.

    Launch with 512 threads: 64 columns times 8 groups of 8 rows; a warp has 32 columns and one
    group of rows.
    Shared memory, a thread, for each i: 9 loads, one of vt and 8 of u, for 8 pixels, where step 4
    has 16. All lanes of a warp read the same element of u: a broadcast.
    Registers: 8 sums, in a local array whose loops the compiler unrolls.
    """
    u_tile = cuda.shared.array((COLUMN_ROWS, COLUMN_DEPTH), float32)
    vt_tile = cuda.shared.array((COLUMN_DEPTH, COLUMN_COLUMNS), float32)
    total = cuda.local.array(COLUMN_RESULTS, float32)
    t = cuda.threadIdx.x
    first_row = cuda.blockIdx.y * COLUMN_ROWS
    first_column = cuda.blockIdx.x * COLUMN_COLUMNS
    column = t % COLUMN_COLUMNS
    row = t // COLUMN_COLUMNS * COLUMN_RESULTS
    for n in range(COLUMN_RESULTS):
        total[n] = float32(0)
    for start in range(0, k, COLUMN_DEPTH):
        # each thread loads one element of u, scaled, and one of vt; zeros beyond the edges
        value, y, i = float32(0), t // COLUMN_DEPTH, t % COLUMN_DEPTH
        if first_row + y < u.shape[0] and start + i < k:
            value = load(u, (first_row + y, start + i)) * load(s, start + i)
        store(u_tile, (y, i), value)
        value, i = float32(0), t // COLUMN_COLUMNS
        if start + i < k and first_column + column < vt.shape[1]:
            value = load(vt, (start + i, first_column + column))
        store(vt_tile, (i, column), value)
        cuda.syncthreads()
        for i in range(COLUMN_DEPTH):
            b = load(vt_tile, (i, column))
            for n in range(COLUMN_RESULTS):
                total[n] += load(u_tile, (row + n, i)) * b
        cuda.syncthreads()
    for n in range(COLUMN_RESULTS):
        if first_row + row + n < out.shape[0] and first_column + column < out.shape[1]:
            out[first_row + row + n, first_column + column] = total[n]


# --- step 6: a square of results in each thread --------------------------------------------------

BLOCK_ROWS, BLOCK_COLUMNS, DEPTH = 128, 128, 8  # of steps 6 to 8
SIDE = 8  # rows and columns of a thread's square
ACROSS = BLOCK_COLUMNS // SIDE  # threads side by side
THREADS = ACROSS * BLOCK_ROWS // SIDE
COPIES = BLOCK_ROWS * DEPTH // THREADS


@cuda.jit(max_registers=128)
def reconstruct_square(u, s, vt, k, out):
    """Step 6: each thread computes 8 x 8 pixels.

    Launch with 256 threads: 16 across, 16 down.
    Shared memory, a thread, for each i: 16 loads, of 8 elements of u and 8 of vt, for 64 pixels;
    step 4 has 128. That is a quarter of a load for each multiply-add. But lanes are strided by 8
    elements: a four-way or two-way bank conflict.
    Registers: 64 accumulators, and the 16 elements that are multiplied.
    """
    u_tile = cuda.shared.array((BLOCK_ROWS, DEPTH), float32)
    vt_tile = cuda.shared.array((DEPTH, BLOCK_COLUMNS), float32)
    total = cuda.local.array((SIDE, SIDE), float32)
    a = cuda.local.array(SIDE, float32)
    b = cuda.local.array(SIDE, float32)
    t = cuda.threadIdx.x
    first_row = cuda.blockIdx.y * BLOCK_ROWS
    first_column = cuda.blockIdx.x * BLOCK_COLUMNS
    row, column = t // ACROSS * SIDE, t % ACROSS * SIDE
    clear(total)
    for start in range(0, k, DEPTH):
        for j in range(COPIES):  # 256 threads load 1,024 elements of u, and as many of vt
            value, y, i = float32(0), t // DEPTH + j * (THREADS // DEPTH), t % DEPTH
            if first_row + y < u.shape[0] and start + i < k:
                value = load(u, (first_row + y, start + i)) * load(s, start + i)
            store(u_tile, (y, i), value)
            value, x = float32(0), t % BLOCK_COLUMNS
            i = t // BLOCK_COLUMNS + j * (THREADS // BLOCK_COLUMNS)
            if start + i < k and first_column + x < vt.shape[1]:
                value = load(vt, (start + i, first_column + x))
            store(vt_tile, (i, x), value)
        cuda.syncthreads()
        for i in range(DEPTH):
            for m in range(SIDE):
                a[m] = load(u_tile, (row + m, i))
            for n in range(SIDE):
                b[n] = load(vt_tile, (i, column + n))
            outer_product(total, a, b)
        cuda.syncthreads()
    for m in range(SIDE):
        for n in range(SIDE):
            if first_row + row + m < out.shape[0] and first_column + column + n < out.shape[1]:
                out[first_row + row + m, first_column + column + n] = total[m, n]


# --- device functions of steps 7 and 8 -----------------------------------------------------------

PITCH = BLOCK_ROWS + 4  # elements from one row of the transposed tile of u to the next
HALF = SIDE // 2
FAR_ROW, FAR_COLUMN = BLOCK_ROWS // 2, BLOCK_COLUMNS // 2
QUADS_U, QUADS_VT = DEPTH // 4, BLOCK_COLUMNS // 4  # vectors of four elements in a row of a tile


@cuda.jit(device=True)
def places():
    """First row and column of the block, and those of the thread's square inside the block."""
    t = cuda.threadIdx.x
    first_row, first_column = cuda.blockIdx.y * BLOCK_ROWS, cuda.blockIdx.x * BLOCK_COLUMNS
    return first_row, first_column, t // ACROSS * 4, t % ACROSS * 4


@cuda.jit(device=True)
def shares():
    """Where a thread's four elements are: row and depth in u's tile, depth and column in vt's."""
    t = cuda.threadIdx.x
    return t // QUADS_U, t % QUADS_U * 4, t // QUADS_VT, t % QUADS_VT * 4


@cuda.jit(device=True)
def clear(total):
    """Set all accumulators to 0."""
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] = float32(0)


@cuda.jit(device=True)
def four_or_zeros(array, row, column, columns):
    """Four neighbours of a row; zeros from `columns` on and below the last row."""
    zero = float32(0)
    w, x, y, z = zero, zero, zero, zero
    if row < array.shape[0]:
        if column < columns:
            w = load(array, (row, column))
        if column + 1 < columns:
            x = load(array, (row, column + 1))
        if column + 2 < columns:
            y = load(array, (row, column + 2))
        if column + 3 < columns:
            z = load(array, (row, column + 3))
    return w, x, y, z


@cuda.jit(device=True)
def four_at_once(array, row, column, columns):
    """As `four_or_zeros`, by one access of 16 bytes where all four elements exist."""
    if row < array.shape[0] and column + 3 < columns:
        return load4(array, (row, column))
    return four_or_zeros(array, row, column, columns)


@cuda.jit(device=True)
def read_fragments(u_tile, vt_tile, stage, i, row, column, a, b):
    """The thread's 8 elements of u and 8 of vt at depth i: two vectors of four of each.

    A lane's second vector lies half a tile further, so that neighbouring lanes' vectors are
    contiguous: eight lanes read 128 bytes without a bank conflict.
    """
    a[0], a[1], a[2], a[3] = load4(u_tile, (stage, i, row))
    a[4], a[5], a[6], a[7] = load4(u_tile, (stage, i, row + FAR_ROW))
    b[0], b[1], b[2], b[3] = load4(vt_tile, (stage, i, column))
    b[4], b[5], b[6], b[7] = load4(vt_tile, (stage, i, column + FAR_COLUMN))


@cuda.jit(device=True)
def outer_product(total, a, b):
    """total += a b, 8 x 8."""
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] += a[m] * b[n]


@cuda.jit(device=True)
def store_square(out, total, row, column, aligned):
    """Write the thread's pixels: 8 rows of two groups of four."""
    for m in range(SIDE):
        y = row + m if m < HALF else row + m - HALF + FAR_ROW
        for n in range(0, SIDE, 4):
            x = column if n == 0 else column + FAR_COLUMN
            if y < out.shape[0]:
                if aligned and x + 3 < out.shape[1]:
                    four = total[m, n], total[m, n + 1], total[m, n + 2], total[m, n + 3]
                    store4(out, (y, x), four)
                else:
                    for e in range(4):
                        if x + e < out.shape[1]:
                            store(out, (y, x + e), total[m, n + e])


# --- step 7: wide loads, and a layout without bank conflicts -------------------------------------


def wide_tiles(aligned: bool) -> Callable:
    """Step 7: the square of step 6, with vectors of four elements.

    Launch with 256 threads. `aligned`: rows of u, vt and out begin at multiples of 16 bytes and
    are accessed 16 bytes at a time. Else each element is loaded by itself.
    Global memory: a quarter of the instructions. Shared memory: the tile of u is transposed, so
    that a thread's elements at one depth are contiguous. Rows are padded to PITCH, so that the
    transpose has no bank conflicts. 4 loads of 16 bytes serve 64 multiply-adds.
    """
    four = four_at_once if aligned else four_or_zeros

    @cuda.jit(max_registers=128)
    def reconstruct_wide(u, s, vt, k, out):
        u_tile = cuda.shared.array((1, DEPTH, PITCH), float32)
        vt_tile = cuda.shared.array((1, DEPTH, BLOCK_COLUMNS), float32)
        total = cuda.local.array((SIDE, SIDE), float32)
        a = cuda.local.array(SIDE, float32)
        b = cuda.local.array(SIDE, float32)
        first_row, first_column, row, column = places()
        u_row, u_depth, vt_depth, vt_column = shares()
        clear(total)
        for start in range(0, k, DEPTH):
            w, x, y, z = four(u, first_row + u_row, start + u_depth, k)
            store(u_tile, (0, u_depth, u_row), w)
            store(u_tile, (0, u_depth + 1, u_row), x)
            store(u_tile, (0, u_depth + 2, u_row), y)
            store(u_tile, (0, u_depth + 3, u_row), z)
            i = start + vt_depth
            scale, w, x, y, z = float32(0), float32(0), float32(0), float32(0), float32(0)
            if i < k:
                scale = load(s, i)
                w, x, y, z = four(vt, i, first_column + vt_column, vt.shape[1])
            store4(vt_tile, (0, vt_depth, vt_column), (w * scale, x * scale, y * scale, z * scale))
            cuda.syncthreads()
            for i in range(DEPTH):
                read_fragments(u_tile, vt_tile, 0, i, row, column, a, b)
                outer_product(total, a, b)
            cuda.syncthreads()
        store_square(out, total, first_row + row, first_column + column, aligned)

    return reconstruct_wide


# --- step 8: the next tile is prefetched while this one is used ----------------------------------


def double_buffered(aligned: bool) -> Callable:
    """Step 8: double buffering in shared memory, and the next tile prefetched into registers.

    Launch with 256 threads. The next tile's loads are issued before this tile is multiplied, and
    needed after it, so that arithmetic hides their latency. A tile has one barrier instead of two.
    Registers: 8 more, for the prefetched elements.
    """
    four = four_at_once if aligned else four_or_zeros

    @cuda.jit(device=True)
    def load_tile(u, s, vt, k, u_row, u_column, vt_row, vt_column, prefetched):
        """Load the thread's elements of both tiles into registers; vt's are scaled by s."""
        prefetched[0], prefetched[1], prefetched[2], prefetched[3] = four(u, u_row, u_column, k)
        scale, w, x, y, z = float32(0), float32(0), float32(0), float32(0), float32(0)
        if vt_row < k:
            scale = load(s, vt_row)
            w, x, y, z = four(vt, vt_row, vt_column, vt.shape[1])
        prefetched[4], prefetched[5] = w * scale, x * scale
        prefetched[6], prefetched[7] = y * scale, z * scale

    @cuda.jit(device=True)
    def store_tile(u_tile, vt_tile, stage, u_row, u_depth, vt_depth, vt_column, prefetched):
        """Store these elements in shared memory, u transposed."""
        for e in range(4):
            store(u_tile, (stage, u_depth + e, u_row), prefetched[e])
        four = prefetched[4], prefetched[5], prefetched[6], prefetched[7]
        store4(vt_tile, (stage, vt_depth, vt_column), four)

    @cuda.jit(max_registers=128)
    def reconstruct_buffered(u, s, vt, k, out):
        u_tile = cuda.shared.array((2, DEPTH, PITCH), float32)
        vt_tile = cuda.shared.array((2, DEPTH, BLOCK_COLUMNS), float32)
        total = cuda.local.array((SIDE, SIDE), float32)
        a = cuda.local.array(SIDE, float32)
        b = cuda.local.array(SIDE, float32)
        prefetched = cuda.local.array(8, float32)
        first_row, first_column, row, column = places()
        u_row, u_depth, vt_depth, vt_column = shares()
        y, x = first_row + u_row, first_column + vt_column
        clear(total)
        load_tile(u, s, vt, k, y, u_depth, vt_depth, x, prefetched)
        store_tile(u_tile, vt_tile, 0, u_row, u_depth, vt_depth, vt_column, prefetched)
        cuda.syncthreads()
        stage = 0
        for start in range(DEPTH, k + DEPTH, DEPTH):
            if start < k:
                load_tile(u, s, vt, k, y, start + u_depth, start + vt_depth, x, prefetched)
            for i in range(DEPTH):
                read_fragments(u_tile, vt_tile, stage, i, row, column, a, b)
                outer_product(total, a, b)
            stage = 1 - stage
            if start < k:
                store_tile(u_tile, vt_tile, stage, u_row, u_depth, vt_depth, vt_column, prefetched)
            cuda.syncthreads()
        store_square(out, total, first_row + row, first_column + column, aligned)

    return reconstruct_buffered


def asynchronous(aligned: bool) -> Callable:
    """Step 8 with asynchronous copies, which bypass the registers (needs 8.0).

    Launch with 256 threads. A copy cannot scale, so s is copied, too, and each element of vt is
    multiplied by it when it is read: 8 multiplications for 64 multiply-adds. And u, which is
    transposed, is copied element by element.
    """

    @cuda.jit(device=True)
    def begin(u_tile, s_tile, vt_tile, stage, u, s, vt, k, start, first_row, first_column):
        """Start the copies of the thread's part of a tile; store zeros beyond the edges."""
        t = cuda.threadIdx.x
        for value in range(t, BLOCK_ROWS * DEPTH, THREADS):
            y, i = value // DEPTH, value % DEPTH
            if first_row + y < u.shape[0] and start + i < k:
                copy_async(u_tile, (stage, i, y), u, (first_row + y, start + i))
            else:
                store(u_tile, (stage, i, y), float32(0))
        i, x = t // QUADS_VT, t % QUADS_VT * 4
        column = first_column + x
        if aligned and start + i < k and column + 3 < vt.shape[1]:
            copy4_async(vt_tile, (stage, i, x), vt, (start + i, column))
        else:
            for e in range(4):
                if start + i < k and column + e < vt.shape[1]:
                    copy_async(vt_tile, (stage, i, x + e), vt, (start + i, column + e))
                else:
                    store(vt_tile, (stage, i, x + e), float32(0))
        if t < DEPTH:
            if start + t < k:
                copy_async(s_tile, (stage, t), s, start + t)
            else:
                store(s_tile, (stage, t), float32(0))
        commit_copies()

    @cuda.jit(max_registers=128)
    def reconstruct_asynchronous(u, s, vt, k, out):
        u_tile = cuda.shared.array((2, DEPTH, PITCH), float32)
        s_tile = cuda.shared.array((2, DEPTH), float32)
        vt_tile = cuda.shared.array((2, DEPTH, BLOCK_COLUMNS), float32)
        total = cuda.local.array((SIDE, SIDE), float32)
        a = cuda.local.array(SIDE, float32)
        b = cuda.local.array(SIDE, float32)
        first_row, first_column, row, column = places()
        for m in range(SIDE):
            for n in range(SIDE):
                total[m, n] = float32(0)
        stage = 0
        begin(u_tile, s_tile, vt_tile, 0, u, s, vt, k, 0, first_row, first_column)
        for start in range(DEPTH, k + DEPTH, DEPTH):
            wait_copies(0)  # this thread's own copies of this tile have arrived
            cuda.syncthreads()  # ... and the others'; all are done with the tile before
            if start < k:
                begin(
                    u_tile, s_tile, vt_tile, 1 - stage, u, s, vt, k, start, first_row, first_column
                )
            for i in range(DEPTH):
                read_fragments(u_tile, vt_tile, stage, i, row, column, a, b)
                scale = load(s_tile, (stage, i))
                for n in range(SIDE):
                    b[n] *= scale
                outer_product(total, a, b)
            stage = 1 - stage
        store_square(out, total, first_row + row, first_column + column, aligned)

    return reconstruct_asynchronous
