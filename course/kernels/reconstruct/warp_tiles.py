"""Rebuild an image from its SVD, step 9: warp tiles, for one image and for many.

Step 8 with three changes. A warp's 32 threads, 4 down and 8 across, share a compact tile of 32 x 64
results. The eight threads that a wavefront serves are 2 down and 4 across, so they read few
different elements from shared memory. The loop over the tile's depth is unrolled, and the next
step's fragments are loaded while this step is multiplied. And the main loop is unguarded. Indices
beyond the edge are clamped to the last row and column, and these results are not stored. The part
of k that fills no whole tile comes first, padded with zeros.

With link-time optimisation (lto) the main loop would have 2 to 4% more instructions.

A thread loads four neighbours of a row of u, aligned or not. Four single loads request each sector
four times, but hit in L1. With elements of four rows, a thread would need four addresses.
"""

from collections.abc import Callable

from numba import float32, int32, uint32

from course.backend import cuda, jit_without_lto
from warpsim.ptx import load, load4, store, store4

WARPS_DOWN, WARPS_ACROSS = 4, 2  # of a block, by measurement on an H200
BLOCK_ROWS, BLOCK_COLUMNS, THREADS = 32 * WARPS_DOWN, 64 * WARPS_ACROSS, 256
DEPTH = 8  # of the tiles in shared memory: a row of vt for each warp
PITCH = BLOCK_ROWS + 4  # elements from one row of the transposed tile of u to the next


def warp_tiles(aligned: bool) -> tuple[Callable, Callable]:
    """The kernels of step 9, (u, s, vt, k, out): for one image; for many, with one more axis.

    `aligned` as in step 7. Launch with `THREADS` threads.
    """
    wide = 4 if aligned else 1  # elements in one access to vt
    parts = 4 // wide  # accesses that a warp needs for a row of vt

    @cuda.jit(device=True)
    def load_tile(u, s, vt, start, k, whole, first_row, first_column, next_u, next_vt):
        """Load a tile from global memory to registers; unless `whole`, zeros from i = k on."""
        t = int32(cuda.threadIdx.x)
        last_row, last_column = int32(u.shape[0] - 1), int32(vt.shape[1] - wide)
        row, i = min(int32(first_row + t // 2), last_row), start + t % 2 * 4
        if aligned and whole:
            next_u[0], next_u[1], next_u[2], next_u[3] = load4(u, (row, i))
        else:
            for e in range(4):
                next_u[e] = load(u, (row, i + e)) if whole or i + e < k else float32(0)
        i = start + t // 32
        here = whole or i < k
        scale = load(s, i) if here else float32(0)
        for part in range(parts):
            unclamped = int32(first_column + (part * 32 + t % 32) * wide)
            column, n = min(unclamped, last_column), part * wide
            if not here:
                for e in range(wide):
                    next_vt[n + e] = float32(0)
            elif aligned:
                w, x, y, z = load4(vt, (i, column))
                next_vt[n], next_vt[n + 1] = w * scale, x * scale
                next_vt[n + 2], next_vt[n + 3] = y * scale, z * scale
            else:
                next_vt[n] = load(vt, (i, column)) * scale

    @cuda.jit(device=True)
    def store_tile(u_tile, vt_tile, stage, next_u, next_vt):
        """Store a tile from registers to shared memory, u transposed."""
        t = int32(cuda.threadIdx.x)
        for e in range(4):
            store(u_tile, (stage, t % 2 * 4 + e, t // 2), next_u[e])
        i = t // 32
        for part in range(parts):
            column, n = (part * 32 + t % 32) * wide, part * wide
            if aligned:
                four = next_vt[n], next_vt[n + 1], next_vt[n + 2], next_vt[n + 3]
                store4(vt_tile, (stage, i, column), four)
            else:
                store(vt_tile, (stage, i, column), next_vt[n])

    @cuda.jit(device=True)
    def read(u_tile, vt_tile, stage, i, row, column, a, b, side):
        """Read a fragment: shared memory to registers."""
        for g in range(0, 8, 4):
            four = load4(u_tile, (stage, i, row + g * 4))
            a[side, g], a[side, g + 1], a[side, g + 2], a[side, g + 3] = four
        for g in range(0, 8, 4):
            four = load4(vt_tile, (stage, i, column + g * 8))
            b[side, g], b[side, g + 1], b[side, g + 2], b[side, g + 3] = four

    @cuda.jit(device=True)
    def multiply(total, a, b, side):
        """Outer product, two columns in zigzag: successive multiply-adds share a factor."""
        for n in range(0, 8, 2):
            for there in range(8):
                m = 7 - there if n % 4 else there
                near, far = n + 1 - there % 2, n + there % 2
                total[m, near] += a[side, m] * b[side, near]
                total[m, far] += a[side, m] * b[side, far]

    @cuda.jit(device=True)
    def two_steps(total, u_tile, vt_tile, stage, i, row, column, a, b):
        read(u_tile, vt_tile, stage, i + 1, row, column, a, b, 1)
        multiply(total, a, b, 0)
        read(u_tile, vt_tile, stage, i + 2, row, column, a, b, 0)
        multiply(total, a, b, 1)

    @cuda.jit(device=True)
    def all_but_last_step(total, u_tile, vt_tile, stage, row, column, a, b):
        two_steps(total, u_tile, vt_tile, stage, 0, row, column, a, b)
        two_steps(total, u_tile, vt_tile, stage, 2, row, column, a, b)
        two_steps(total, u_tile, vt_tile, stage, 4, row, column, a, b)
        read(u_tile, vt_tile, stage, 7, row, column, a, b, 1)
        multiply(total, a, b, 0)

    @cuda.jit(device=True)
    def save(out, total, first_row, first_column):
        """Store results from registers to global memory, except those beyond the edge."""
        for m in range(8):
            row = first_row + m // 4 * 16 + m % 4
            if row < out.shape[0]:
                for n in range(0, 8, wide):
                    column = first_column + n // 4 * 32 + n % 4
                    if column < out.shape[1]:
                        if aligned:
                            four = total[m, n], total[m, n + 1], total[m, n + 2], total[m, n + 3]
                            store4(out, (row, column), four)
                        else:
                            store(out, (row, column), total[m, n])

    @cuda.jit(device=True)
    def block_tile(u, s, vt, k, out, first_row, first_column):
        u_tile = cuda.shared.array((2, DEPTH, PITCH), float32)
        vt_tile = cuda.shared.array((2, DEPTH, BLOCK_COLUMNS), float32)
        total = cuda.local.array((8, 8), float32)
        a, b = cuda.local.array((2, 8), float32), cuda.local.array((2, 8), float32)
        next_u, next_vt = cuda.local.array(4, float32), cuda.local.array(4, float32)
        t = int32(cuda.threadIdx.x)
        warp, lane = t // int32(32), t % int32(32)
        lane_row, lane_column = lane // 16 * 2 + lane % 2, lane // 2 % 8
        row = int32(warp % WARPS_DOWN * 32 + lane_row * 4)
        column = int32(warp // WARPS_DOWN * 64 + lane_column * 4)
        for m in range(8):
            for n in range(8):
                total[m, n] = float32(0)
        last = (k - 1) // DEPTH * DEPTH  # the tile in which k ends comes first
        load_tile(u, s, vt, last, k, False, first_row, first_column, next_u, next_vt)
        store_tile(u_tile, vt_tile, 0, next_u, next_vt)
        cuda.syncthreads()
        stage = 0
        read(u_tile, vt_tile, stage, 0, row, column, a, b, 0)
        for start in range(0, last, DEPTH):
            load_tile(u, s, vt, start, k, True, first_row, first_column, next_u, next_vt)
            all_but_last_step(total, u_tile, vt_tile, stage, row, column, a, b)
            stage = 1 - stage
            store_tile(u_tile, vt_tile, stage, next_u, next_vt)
            cuda.syncthreads()
            read(u_tile, vt_tile, stage, 0, row, column, a, b, 0)
            multiply(total, a, b, 1)
        all_but_last_step(total, u_tile, vt_tile, stage, row, column, a, b)
        multiply(total, a, b, 1)
        save(out, total, first_row + row, first_column + column)

    kernel = jit_without_lto(fastmath=True, max_registers=128)

    @kernel
    def reconstruct_warp_tiles(u, s, vt, k, out):
        row, column = row_group_tile()
        block_tile(u, s, vt, k, out, row * int32(BLOCK_ROWS), column * int32(BLOCK_COLUMNS))

    @kernel
    def reconstruct_many(u, s, vt, k, out):
        image = cuda.blockIdx.z
        row, column = int32(cuda.blockIdx.y * BLOCK_ROWS), int32(cuda.blockIdx.x * BLOCK_COLUMNS)
        block_tile(u[image], s[image], vt[image], k, out[image], row, column)

    return reconstruct_warp_tiles, reconstruct_many


ROW_GROUP = 8  # rows of tiles that blocks walk together: they share columns of vt in L2


@cuda.jit(device=True)
def row_group_tile():
    """The (row, column) of the block's tile: down ROW_GROUP rows, then on to the next column."""
    across, down = uint32(cuda.gridDim.x), uint32(cuda.gridDim.y)
    number = uint32(uint32(cuda.blockIdx.y) * across + uint32(cuda.blockIdx.x))
    group = uint32(uint32(ROW_GROUP) * across)
    first = uint32(uint32(number // group) * uint32(ROW_GROUP))
    height = uint32(min(uint32(down - first), uint32(ROW_GROUP)))
    inside = uint32(number % group)
    return int32(first + inside % height), int32(inside // height)
