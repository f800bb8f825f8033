"""Rebuild an image from its SVD, step 10: tensor cores.

The factors are split and laid out by `course.kernels.reconstruct.split_factors`. With float16,

    x y = lower upper' + upper lower' + upper upper'

takes three products of float16 for one of float32. The fourth, lower lower', is too small for
float32's precision. Tensor cores truncate when they add. So their sum over 16 values of i is added
to a float32 sum, which rounds. With TF32 each element is rounded to 11 bits of fraction and
multiplied once: faster than float32, and less accurate.

A block multiplies one tile while the copies of the next one are in flight. Only stores are guarded:
fragments are whole, with zeros beyond the edge.
"""

from collections.abc import Callable

from numba import float32, int32, uint32

from course.backend import cuda
from course.heuristics.reconstruct import TensorConfig
from course.kernels.reconstruct.split_factors import (
    COLUMNS,
    LANE_REGISTERS,
    ROWS,
    U_REGISTERS,
    VT_REGISTERS,
)
from course.kernels.reconstruct.warp_tiles import row_group_tile
from warpsim import ptx


def tensor_tiles(
    config: TensorConfig, aligned: bool, dtype: str = "float16"
) -> tuple[Callable, Callable]:
    """The kernels of step 10, for one image, and for many, with one more axis in front.

    They take (u, vt, u_scale, vt_scale, out), u and vt as fragments, see
    `course.kernels.reconstruct.split_factors`, padded to whole blocks. Launch with
    ``config.threads`` threads. `aligned`: two neighbouring results can be written at once. With
    "float16" three products reach float32's accuracy; "tf32" takes one product.
    """
    split, asynchronous = dtype == "float16", config.asynchronous
    element = uint32 if split else float32
    threads, warps_down = config.threads, config.warps_down
    down, across = config.rows // ROWS, config.columns // COLUMNS  # a warp's results, in fragments
    block_down, block_across = config.block_rows // ROWS, config.block_columns // COLUMNS
    u_lanes, vt_lanes = U_REGISTERS // LANE_REGISTERS, VT_REGISTERS // LANE_REGISTERS
    u_copies, vt_copies = block_down * u_lanes // threads, block_across * vt_lanes // threads
    share = 4 * (u_copies + vt_copies)  # registers for a thread's 16-byte copies

    # --- load a tile: global memory to shared memory ---------------------------------------------

    @cuda.jit(device=True)
    def copy(u, vt, tile, first_u, first_vt, u_tile, vt_tile, stage):
        """Start the copies of a tile, on GPUs that have asynchronous copies."""
        t = int32(cuda.threadIdx.x)
        for j in range(u_copies):
            n = t + j * threads
            fragment, at = n // u_lanes, n % u_lanes * LANE_REGISTERS
            ptx.copy4_async(u_tile, (fragment, stage, at), u, (first_u + fragment, tile, at))
        for j in range(vt_copies):
            n = t + j * threads
            fragment, at = n // vt_lanes, n % vt_lanes * LANE_REGISTERS
            ptx.copy4_async(vt_tile, (fragment, stage, at), vt, (first_vt + fragment, tile, at))

    @cuda.jit(device=True)
    def load_tile(u, vt, tile, first_u, first_vt, x):
        """Without asynchronous copies, in two parts: global memory to registers, ..."""
        t = int32(cuda.threadIdx.x)
        for j in range(u_copies):
            n = t + j * threads
            at = (first_u + n // u_lanes, tile, n % u_lanes * LANE_REGISTERS)
            x[4 * j], x[4 * j + 1], x[4 * j + 2], x[4 * j + 3] = ptx.load4(u, at)
        for j in range(vt_copies):
            n, e = t + j * threads, 4 * (u_copies + j)
            at = (first_vt + n // vt_lanes, tile, n % vt_lanes * LANE_REGISTERS)
            x[e], x[e + 1], x[e + 2], x[e + 3] = ptx.load4(vt, at)

    @cuda.jit(device=True)
    def store_tile(u_tile, vt_tile, stage, x):
        """... and registers to shared memory."""
        t = int32(cuda.threadIdx.x)
        for j in range(u_copies):
            n, four = t + j * threads, (x[4 * j], x[4 * j + 1], x[4 * j + 2], x[4 * j + 3])
            ptx.store4(u_tile, (n // u_lanes, stage, n % u_lanes * LANE_REGISTERS), four)
        for j in range(vt_copies):
            n, e = t + j * threads, 4 * (u_copies + j)
            four = x[e], x[e + 1], x[e + 2], x[e + 3]
            ptx.store4(vt_tile, (n // vt_lanes, stage, n % vt_lanes * LANE_REGISTERS), four)

    # --- multiply ------------------------------------------------------------------------------

    @cuda.jit(device=True)
    def add_product(part, n, a, b0, b1):
        """Add the product of two fragments to the n-th partial sum."""
        c = part[n, 0], part[n, 1], part[n, 2], part[n, 3]
        if not split:
            c = ptx.mma_tf32(c, a, (b0, b1))
        elif asynchronous:
            c = ptx.mma_f16(c, a, (b0, b1))
        else:
            c = ptx.mma_f16_k8(ptx.mma_f16_k8(c, (a[0], a[1]), b0), (a[2], a[3]), b1)
        part[n, 0], part[n, 1], part[n, 2], part[n, 3] = c

    @cuda.jit(device=True)
    def multiply(total, u_tile, vt_tile, stage, row, column, b, part):
        """Add a tile's products to the warp's results; small terms before large ones."""
        at = int32(cuda.threadIdx.x) % int32(32) * LANE_REGISTERS
        for n in range(across):
            b[n, 0], b[n, 1], b[n, 2], b[n, 3] = ptx.load4(vt_tile, (column + n, stage, at))
        for m in range(down):
            upper = ptx.load4(u_tile, (row + m, stage, at))
            lower = ptx.load4(u_tile, (row + m, stage, at + U_REGISTERS // 2))
            for n in range(across):
                for e in range(4):
                    part[n, e] = float32(0)
                add_product(part, n, lower if split else upper, b[n, 0], b[n, 1])
            for n in range(across):
                add_product(part, n, upper if split else lower, b[n, 2], b[n, 3])
            if split:
                for n in range(across):
                    add_product(part, n, upper, b[n, 0], b[n, 1])
            for n in range(across):
                for e in range(4):
                    total[m, n, e] += part[n, e]  # tensor cores would truncate this sum

    # --- store ---------------------------------------------------------------------------------

    @cuda.jit(device=True)
    def save(out, total, first_row, first_column, u_scale, vt_scale):
        for n in range(across):
            for e in range(2):
                scale = ptx.load(vt_scale, first_column + COLUMNS * n + e)
                for m in range(down):
                    total[m, n, e] *= scale
                    total[m, n, e + 2] *= scale
        for m in range(down):
            for h in range(2):
                row = first_row + ROWS * m + 8 * h
                scale = ptx.load(u_scale, row)
                if row < out.shape[0]:
                    for n in range(across):
                        column = first_column + COLUMNS * n
                        w, x = total[m, n, 2 * h] * scale, total[m, n, 2 * h + 1] * scale
                        if aligned:
                            if column < out.shape[1]:
                                ptx.store2(out, (row, column), (w, x))
                        else:
                            if column < out.shape[1]:
                                ptx.store(out, (row, column), w)
                            if column + 1 < out.shape[1]:
                                ptx.store(out, (row, column + 1), x)

    # --- the block's work ----------------------------------------------------------------------

    @cuda.jit(device=True)
    def block_tile(u, vt, u_scale, vt_scale, out, tile_row, tile_column):
        u_tile = cuda.shared.array((block_down, 2, U_REGISTERS), element)
        vt_tile = cuda.shared.array((block_across, 2, VT_REGISTERS), element)
        total = cuda.local.array((down, across, 4), float32)
        b = cuda.local.array((across, 4), element)
        part = cuda.local.array((across, 4), float32)
        x = cuda.local.array(share, element)
        t = int32(cuda.threadIdx.x)
        warp, lane = t // int32(32), t % int32(32)
        row, column = warp % warps_down * down, warp // warps_down * across
        first_u, first_vt = tile_row * block_down, tile_column * block_across
        tiles = int32(u.shape[1])
        for m in range(down):
            for n in range(across):
                for e in range(4):
                    total[m, n, e] = float32(0)
        stage = 0
        if asynchronous:
            copy(u, vt, 0, first_u, first_vt, u_tile, vt_tile, stage)
            ptx.commit_copies()
        else:
            load_tile(u, vt, 0, first_u, first_vt, x)
            store_tile(u_tile, vt_tile, stage, x)
        for tile in range(1, tiles + 1):
            if asynchronous:
                ptx.wait_copies(0)
            cuda.syncthreads()
            if tile < tiles:
                if asynchronous:
                    copy(u, vt, tile, first_u, first_vt, u_tile, vt_tile, 1 - stage)
                    ptx.commit_copies()
                else:
                    load_tile(u, vt, tile, first_u, first_vt, x)
            multiply(total, u_tile, vt_tile, stage, row, column, b, part)
            stage = 1 - stage
            if not asynchronous:
                store_tile(u_tile, vt_tile, stage, x)
        first_row = (first_u + row) * ROWS + lane // 4
        first_column = (first_vt + column) * COLUMNS + lane % 4 * 2
        save(out, total, first_row, first_column, u_scale, vt_scale)

    @cuda.jit(fastmath=True, max_registers=config.max_registers)
    def reconstruct_tensor_tiles(u, vt, u_scale, vt_scale, out):
        tile_row, tile_column = row_group_tile()
        block_tile(u, vt, u_scale, vt_scale, out, tile_row, tile_column)

    @cuda.jit(fastmath=True, max_registers=config.max_registers)
    def reconstruct_many(u, vt, u_scale, vt_scale, out):
        i, tile_row, tile_column = cuda.blockIdx.z, int32(cuda.blockIdx.y), int32(cuda.blockIdx.x)
        scales = u_scale[i], vt_scale[i]
        block_tile(u[i], vt[i], scales[0], scales[1], out[i], tile_row, tile_column)

    return reconstruct_tensor_tiles, reconstruct_many
