"""Rebuild an image from its SVD, step 9: warp tiles, for one image and for many.

What step 8 does, with three changes. A warp's 32 threads share a compact tile of results, so that
they read few different numbers from shared memory. The loop over the tile's depth is unrolled and
reads the fragments of the next step while this one is multiplied. And the main loop has no guard:
rows and columns beyond the edge are read from the last row and column, and thrown away at the end;
the part of k that fills no whole tile comes first, with zeros.
"""

from collections.abc import Callable
from dataclasses import dataclass

from numba import float32, int32, uint32

from course.backend import cuda
from course.intrinsics import load, load4, store, store4


@dataclass(frozen=True)
class Shape:
    """The sizes of the tiles, as tuned for a GPU.

    Attributes
    ----------
    rows, columns : int
        Results of a thread; multiples of 4.
    lanes_down : int
        Rows of lanes in a warp, 4 or 8; the warp's 32 lanes have 32 / lanes_down columns.
    warps_down, warps_across : int
        Warps of a block.
    depth : int
        Of the tiles in shared memory; a multiple of 8.
    max_registers : int
        Registers of a thread: how many blocks a multiprocessor can hold hangs on it.
    """

    rows: int = 8
    columns: int = 8
    lanes_down: int = 4
    warps_down: int = 4
    warps_across: int = 2
    depth: int = 8
    max_registers: int = 128

    @property
    def block_rows(self) -> int:
        return self.warps_down * self.lanes_down * self.rows

    @property
    def block_columns(self) -> int:
        return self.warps_across * (32 // self.lanes_down) * self.columns

    @property
    def threads(self) -> int:
        return 32 * self.warps_down * self.warps_across


#: Tuned by measurement on an H200; for a Tesla T4 by its registers and shared memory alone.
SHAPES = {"sm_75": Shape(), "sm_90": Shape()}

TOGETHER = 8  # rows of blocks that run at about the same time: they share columns of vt in L2


def unrolled(step: Callable, times: int) -> Callable:
    """A device function that calls ``step`` at depth i, i + 2, i + 4, ...: a loop without a loop.

    The compiler leaves a loop of this length as it is; its counting and address arithmetic cost 8%.
    """
    if times == 1:
        return step
    rest = unrolled(step, times - 1)

    @cuda.jit(device=True)
    def steps(total, u_tile, vt_tile, stage, i, row, column, a, b):
        step(total, u_tile, vt_tile, stage, i, row, column, a, b)
        rest(total, u_tile, vt_tile, stage, i + 2, row, column, a, b)

    return steps


def warp_tiles(shape: Shape, aligned: bool) -> tuple[Callable, Callable]:
    """The kernels of step 9, for one image (u, s, vt, k, out) and for many, one more axis in front.

    `aligned` as in step 7. Launch with ``shape.threads`` threads; see `course.kernels.reconstruct`.
    """
    rows, columns, depth, threads = shape.rows, shape.columns, shape.depth, shape.threads
    block_rows, block_columns = shape.block_rows, shape.block_columns
    lanes_down, warps_down = shape.lanes_down, shape.warps_down
    warp_rows, warp_columns = lanes_down * rows, 32 // lanes_down * columns
    row_step, column_step = lanes_down * 4, 32 // lanes_down * 4  # between a thread's fours
    pitch, last_step, pairs = block_rows + 4, depth - 1, depth // 2 - 1
    wide = 4 if aligned else 1  # numbers in one access to global memory
    # Eight neighbours of u are 32 bytes, a sector: threads side by side take a row's eight.
    u_lanes = 8 // wide
    u_rows = threads // u_lanes  # rows that all threads together bring in one go
    u_goes, u_parts = block_rows // u_rows, depth // 8
    # A warp takes neighbours in a row of vt.
    vt_rows, vt_columns = threads // 32, 32 * wide
    vt_goes, vt_parts = depth // vt_rows, block_columns // vt_columns
    share_u, share_vt = u_goes * u_parts * wide, vt_goes * vt_parts * wide

    # --- load a tile: global memory to registers -----------------------------------------------

    @cuda.jit(device=True)
    def bring(u, s, vt, start, k, whole, first_row, first_column, next_u, next_vt):
        """Where the tile is not whole, because k ends in it, there are zeros from k on."""
        t = int32(cuda.threadIdx.x)
        last_row, last_column = int32(u.shape[0] - 1), int32(vt.shape[1] - wide)
        for part in range(u_parts):
            i = start + part * 8 + t % u_lanes * wide
            for go in range(u_goes):
                row = min(int32(first_row + t // u_lanes + go * u_rows), last_row)
                n = (part * u_goes + go) * wide
                if aligned and whole:
                    next_u[n], next_u[n + 1], next_u[n + 2], next_u[n + 3] = load4(u, (row, i))
                else:
                    for e in range(wide):
                        here = whole or i + e < k
                        next_u[n + e] = load(u, (row, i + e)) if here else float32(0)
        for go in range(vt_goes):
            i = start + t // 32 + go * vt_rows
            here = whole or i < k
            scale = load(s, i) if here else float32(0)
            for part in range(vt_parts):
                wanted = int32(first_column + t % 32 * wide + part * vt_columns)
                column, n = min(wanted, last_column), (go * vt_parts + part) * wide
                if aligned and whole:
                    w, x, y, z = load4(vt, (i, column))
                    next_vt[n], next_vt[n + 1] = w * scale, x * scale
                    next_vt[n + 2], next_vt[n + 3] = y * scale, z * scale
                else:
                    for e in range(wide):
                        number = load(vt, (i, column + e)) * scale if here else float32(0)
                        next_vt[n + e] = number

    # --- ... and registers to shared memory, u turned ------------------------------------------

    @cuda.jit(device=True)
    def put(u_tile, vt_tile, stage, next_u, next_vt):
        t = int32(cuda.threadIdx.x)
        for part in range(u_parts):
            for go in range(u_goes):
                for e in range(wide):
                    i, row = part * 8 + t % u_lanes * wide + e, t // u_lanes + go * u_rows
                    store(u_tile, (stage, i, row), next_u[(part * u_goes + go) * wide + e])
        for go in range(vt_goes):
            i = t // 32 + go * vt_rows
            for part in range(vt_parts):
                column, n = t % 32 * wide + part * vt_columns, (go * vt_parts + part) * wide
                if aligned:
                    four = next_vt[n], next_vt[n + 1], next_vt[n + 2], next_vt[n + 3]
                    store4(vt_tile, (stage, i, column), four)
                else:
                    store(vt_tile, (stage, i, column), next_vt[n])

    # --- read a fragment: shared memory to registers -------------------------------------------

    @cuda.jit(device=True)
    def read(u_tile, vt_tile, stage, i, row, column, a, b, side):
        for g in range(0, rows, 4):
            four = load4(u_tile, (stage, i, row + g // 4 * row_step))
            a[side, g], a[side, g + 1], a[side, g + 2], a[side, g + 3] = four
        for g in range(0, columns, 4):
            four = load4(vt_tile, (stage, i, column + g // 4 * column_step))
            b[side, g], b[side, g + 1], b[side, g + 2], b[side, g + 3] = four

    # --- outer product: registers only ---------------------------------------------------------

    @cuda.jit(device=True)
    def multiply(total, a, b, side):
        """Down one column, up the next: each product shares a factor with the one before it."""
        for n in range(columns):
            for there in range(rows):
                m = rows - 1 - there if n % 2 else there
                total[m, n] += a[side, m] * b[side, n]

    @cuda.jit(device=True)
    def two_steps(total, u_tile, vt_tile, stage, i, row, column, a, b):
        read(u_tile, vt_tile, stage, i + 1, row, column, a, b, 1)
        multiply(total, a, b, 0)
        read(u_tile, vt_tile, stage, i + 2, row, column, a, b, 0)
        multiply(total, a, b, 1)

    all_but_two = unrolled(two_steps, pairs)

    # --- store ---------------------------------------------------------------------------------

    @cuda.jit(device=True)
    def save(out, total, first_row, first_column):
        for m in range(rows):
            row = first_row + m // 4 * row_step + m % 4
            if row < out.shape[0]:
                for n in range(0, columns, 4):
                    column = first_column + n // 4 * column_step
                    if aligned:
                        if column < out.shape[1]:
                            four = total[m, n], total[m, n + 1], total[m, n + 2], total[m, n + 3]
                            store4(out, (row, column), four)
                    else:
                        for e in range(4):
                            if column + e < out.shape[1]:
                                store(out, (row, column + e), total[m, n + e])

    # --- the block's work ----------------------------------------------------------------------

    @cuda.jit(device=True)
    def block_tile(u, s, vt, k, out, first_row, first_column):
        u_tile = cuda.shared.array((2, depth, pitch), float32)
        vt_tile = cuda.shared.array((2, depth, block_columns), float32)
        total = cuda.local.array((rows, columns), float32)
        a = cuda.local.array((2, rows), float32)
        b = cuda.local.array((2, columns), float32)
        next_u = cuda.local.array(share_u, float32)
        next_vt = cuda.local.array(share_vt, float32)
        t = int32(cuda.threadIdx.x)
        warp, lane = t // int32(32), t % int32(32)
        lane_row, lane_column = lane % lanes_down, lane // lanes_down
        row = int32(warp % warps_down * warp_rows + lane_row * 4)
        column = int32(warp // warps_down * warp_columns + lane_column * 4)
        for m in range(rows):
            for n in range(columns):
                total[m, n] = float32(0)
        last = (k - 1) // depth * depth  # the tile in which k ends comes first
        bring(u, s, vt, last, k, False, first_row, first_column, next_u, next_vt)
        put(u_tile, vt_tile, 0, next_u, next_vt)
        cuda.syncthreads()
        stage = 0
        read(u_tile, vt_tile, stage, 0, row, column, a, b, 0)
        for start in range(0, last, depth):
            bring(u, s, vt, start, k, True, first_row, first_column, next_u, next_vt)
            all_but_two(total, u_tile, vt_tile, stage, 0, row, column, a, b)
            read(u_tile, vt_tile, stage, last_step, row, column, a, b, 1)
            multiply(total, a, b, 0)
            stage = 1 - stage
            put(u_tile, vt_tile, stage, next_u, next_vt)
            cuda.syncthreads()
            read(u_tile, vt_tile, stage, 0, row, column, a, b, 0)
            multiply(total, a, b, 1)
        all_but_two(total, u_tile, vt_tile, stage, 0, row, column, a, b)
        read(u_tile, vt_tile, stage, last_step, row, column, a, b, 1)
        multiply(total, a, b, 0)
        multiply(total, a, b, 1)
        save(out, total, first_row + row, first_column + column)

    @cuda.jit(fastmath=True, max_registers=shape.max_registers)
    def reconstruct_warp_tiles(u, s, vt, k, out):
        # Blocks go down TOGETHER rows of tiles before they go on to the next column.
        across, down = uint32(cuda.gridDim.x), uint32(cuda.gridDim.y)
        number = uint32(uint32(cuda.blockIdx.y) * across + uint32(cuda.blockIdx.x))
        band = uint32(uint32(TOGETHER) * across)
        first = uint32(uint32(number // band) * uint32(TOGETHER))
        height = uint32(min(uint32(down - first), uint32(TOGETHER)))
        inside = uint32(number % band)
        first_row = int32(uint32(first + inside % height) * uint32(block_rows))
        first_column = int32(uint32(inside // height) * uint32(block_columns))
        block_tile(u, s, vt, k, out, first_row, first_column)

    @cuda.jit(fastmath=True, max_registers=shape.max_registers)
    def reconstruct_many(u, s, vt, k, out):
        image = cuda.blockIdx.z
        first_row = int32(cuda.blockIdx.y * block_rows)
        first_column = int32(cuda.blockIdx.x * block_columns)
        block_tile(u[image], s[image], vt[image], k, out[image], first_row, first_column)

    return reconstruct_warp_tiles, reconstruct_many
