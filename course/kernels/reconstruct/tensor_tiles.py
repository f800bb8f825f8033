"""Rebuild an image from its SVD, step 10: tensor cores.

The factors come split and laid out by `course.kernels.reconstruct.fragments`. With halves,

    x y = lower upper' + upper lower' + upper upper'

is three products of halves for one of float32; the fourth, lower lower', is below what float32 can
show. Tensor cores cut bits off when they add: after every 16 values of i the sum is taken out and
added to a float32 sum, which is rounded. The fast-and-loose choice rounds each number to TF32, 11
bits of fraction, and multiplies once.

A block multiplies one tile while the copies of the next ones are under way. There is no guard but
where results are written: fragments are whole, with zeros beyond the edge.
"""

from collections.abc import Callable
from dataclasses import dataclass

from numba import float32, int32, uint32

from course.backend import cuda
from course.kernels.reconstruct.fragments import COLUMNS, LANE_WORDS, ROWS, U_WORDS, VT_WORDS
from course.kernels.reconstruct.warp_tiles import in_bands
from warpsim.ptx import (
    commit_copies,
    copy4_async,
    load,
    load4,
    mma_f16,
    mma_f16_k8,
    mma_tf32,
    store,
    store2,
    store4,
    wait_copies,
)


@dataclass(frozen=True)
class TensorConfig:
    """The sizes of the tiles, as tuned for a GPU.

    Attributes
    ----------
    rows, columns : int
        Results of a warp; multiples of 16 and 8.
    warps_down, warps_across : int
        Warps of a block.
    asynchronous : bool
        Whether copies go past the registers, and a product has 16 values of i (8.0), or 8 (7.5).
    max_registers : int
        Registers of a thread.
    """

    rows: int = 64
    columns: int = 32
    warps_down: int = 2
    warps_across: int = 4
    asynchronous: bool = True
    max_registers: int = 128

    @property
    def block_rows(self) -> int:
        return self.rows * self.warps_down

    @property
    def block_columns(self) -> int:
        return self.columns * self.warps_across

    @property
    def threads(self) -> int:
        return 32 * self.warps_down * self.warps_across


CONFIGS = {
    "sm_75": TensorConfig(warps_across=2, asynchronous=False, max_registers=255),
    "sm_90": TensorConfig(),
}


def tensor_tiles(
    config: TensorConfig, aligned: bool, kind: str = "halves"
) -> tuple[Callable, Callable]:
    """The kernels of step 10 for one image and for many, one more axis in front.

    They take (u_pieces, vt_pieces, u_scale, vt_scale, out), as
    `course.kernels.reconstruct.fragments` makes them, padded to whole blocks. Launch with
    ``config.threads`` threads.

    Parameters
    ----------
    aligned : bool
        Whether two neighbouring results can be written at once.
    kind : {"halves", "tf32"}
        Float32's accuracy from halves, or one product of TF32.
    """
    split, asynchronous = kind == "halves", config.asynchronous
    word = uint32 if split else float32
    threads, warps_down = config.threads, config.warps_down
    down, across = config.rows // ROWS, config.columns // COLUMNS  # a warp's results, in fragments
    block_down, block_across = config.block_rows // ROWS, config.block_columns // COLUMNS
    u_lanes, vt_lanes = U_WORDS // LANE_WORDS, VT_WORDS // LANE_WORDS  # copies of 16 bytes
    u_goes, vt_goes = block_down * u_lanes // threads, block_across * vt_lanes // threads
    share = 4 * (u_goes + vt_goes)

    # --- load a tile: global memory to shared memory ---------------------------------------------

    @cuda.jit(device=True)
    def copy(u, vt, tile, first_u, first_vt, u_tile, vt_tile, stage):
        """Begin to copy; on GPUs with copies past the registers."""
        t = int32(cuda.threadIdx.x)
        for go in range(u_goes):
            n = t + go * threads
            fragment, at = n // u_lanes, n % u_lanes * LANE_WORDS
            copy4_async(u_tile, (fragment, stage, at), u, (first_u + fragment, tile, at))
        for go in range(vt_goes):
            n = t + go * threads
            fragment, at = n // vt_lanes, n % vt_lanes * LANE_WORDS
            copy4_async(vt_tile, (fragment, stage, at), vt, (first_vt + fragment, tile, at))

    @cuda.jit(device=True)
    def bring(u, vt, tile, first_u, first_vt, x):
        """The same in two parts: global memory to registers, ..."""
        t = int32(cuda.threadIdx.x)
        for go in range(u_goes):
            n = t + go * threads
            place = (first_u + n // u_lanes, tile, n % u_lanes * LANE_WORDS)
            x[4 * go], x[4 * go + 1], x[4 * go + 2], x[4 * go + 3] = load4(u, place)
        for go in range(vt_goes):
            n, e = t + go * threads, 4 * (u_goes + go)
            place = (first_vt + n // vt_lanes, tile, n % vt_lanes * LANE_WORDS)
            x[e], x[e + 1], x[e + 2], x[e + 3] = load4(vt, place)

    @cuda.jit(device=True)
    def put(u_tile, vt_tile, stage, x):
        """... and registers to shared memory."""
        t = int32(cuda.threadIdx.x)
        for go in range(u_goes):
            n, four = t + go * threads, (x[4 * go], x[4 * go + 1], x[4 * go + 2], x[4 * go + 3])
            store4(u_tile, (n // u_lanes, stage, n % u_lanes * LANE_WORDS), four)
        for go in range(vt_goes):
            n, e = t + go * threads, 4 * (u_goes + go)
            four = x[e], x[e + 1], x[e + 2], x[e + 3]
            store4(vt_tile, (n // vt_lanes, stage, n % vt_lanes * LANE_WORDS), four)

    # --- multiply ------------------------------------------------------------------------------

    @cuda.jit(device=True)
    def product(c, a, b0, b1):
        """c + a b for one fragment of results."""
        if asynchronous:
            return mma_f16(c, a, (b0, b1))
        half = mma_f16_k8(c, (a[0], a[1]), b0)
        return mma_f16_k8(half, (a[2], a[3]), b1)

    @cuda.jit(device=True)
    def multiply(total, u_tile, vt_tile, stage, row, column, b, part):
        """Add a tile's products to the warp's results; small terms before large ones."""
        zero = (float32(0), float32(0), float32(0), float32(0))
        at = int32(cuda.threadIdx.x) % int32(32) * LANE_WORDS
        for n in range(across):
            b[n, 0], b[n, 1], b[n, 2], b[n, 3] = load4(vt_tile, (column + n, stage, at))
        for m in range(down):
            upper = load4(u_tile, (row + m, stage, at))
            lower = load4(u_tile, (row + m, stage, at + U_WORDS // 2))
            for n in range(across):
                if split:
                    c = product(zero, lower, b[n, 0], b[n, 1])
                else:
                    c = mma_tf32(zero, upper, (b[n, 0], b[n, 1]))
                part[n, 0], part[n, 1], part[n, 2], part[n, 3] = c
            for n in range(across):
                c = part[n, 0], part[n, 1], part[n, 2], part[n, 3]
                if split:
                    c = product(c, upper, b[n, 2], b[n, 3])
                else:
                    c = mma_tf32(c, lower, (b[n, 2], b[n, 3]))
                part[n, 0], part[n, 1], part[n, 2], part[n, 3] = c
            if split:
                for n in range(across):
                    c = part[n, 0], part[n, 1], part[n, 2], part[n, 3]
                    c = product(c, upper, b[n, 0], b[n, 1])
                    part[n, 0], part[n, 1], part[n, 2], part[n, 3] = c
            for n in range(across):
                for e in range(4):
                    total[m, n, e] += part[n, e]  # in float32, outside of the tensor cores

    # --- store ---------------------------------------------------------------------------------

    @cuda.jit(device=True)
    def save(out, total, first_row, first_column, u_scale, vt_scale):
        for n in range(across):
            for e in range(2):
                scale = load(vt_scale, first_column + COLUMNS * n + e)
                for m in range(down):
                    total[m, n, e] *= scale
                    total[m, n, e + 2] *= scale
        for m in range(down):
            for h in range(2):
                row = first_row + ROWS * m + 8 * h
                scale = load(u_scale, row)
                if row < out.shape[0]:
                    for n in range(across):
                        column = first_column + COLUMNS * n
                        w, x = total[m, n, 2 * h] * scale, total[m, n, 2 * h + 1] * scale
                        if aligned:
                            if column < out.shape[1]:
                                store2(out, (row, column), (w, x))
                        else:
                            if column < out.shape[1]:
                                store(out, (row, column), w)
                            if column + 1 < out.shape[1]:
                                store(out, (row, column + 1), x)

    # --- the block's work ----------------------------------------------------------------------

    @cuda.jit(device=True)
    def clear(total):
        for m in range(down):
            for n in range(across):
                for e in range(4):
                    total[m, n, e] = float32(0)

    @cuda.jit(device=True)
    def block_tile(u, vt, u_scale, vt_scale, out, tile_row, tile_column):
        u_tile = cuda.shared.array((block_down, 2, U_WORDS), word)
        vt_tile = cuda.shared.array((block_across, 2, VT_WORDS), word)
        total = cuda.local.array((down, across, 4), float32)
        b = cuda.local.array((across, 4), word)
        part = cuda.local.array((across, 4), float32)
        x = cuda.local.array(share, word)
        t = int32(cuda.threadIdx.x)
        warp, lane = t // int32(32), t % int32(32)
        row, column = warp % warps_down * down, warp // warps_down * across
        first_u, first_vt = tile_row * block_down, tile_column * block_across
        tiles = int32(u.shape[1])
        clear(total)
        stage = 0
        if asynchronous:
            copy(u, vt, 0, first_u, first_vt, u_tile, vt_tile, stage)
            commit_copies()
        else:
            bring(u, vt, 0, first_u, first_vt, x)
            put(u_tile, vt_tile, stage, x)
        for tile in range(1, tiles + 1):
            if asynchronous:
                wait_copies(0)
            cuda.syncthreads()
            if tile < tiles:
                if asynchronous:
                    copy(u, vt, tile, first_u, first_vt, u_tile, vt_tile, 1 - stage)
                    commit_copies()
                else:
                    bring(u, vt, tile, first_u, first_vt, x)
            multiply(total, u_tile, vt_tile, stage, row, column, b, part)
            stage = 1 - stage
            if not asynchronous:
                put(u_tile, vt_tile, stage, x)
        first_row = (first_u + row) * ROWS + lane // 4
        first_column = (first_vt + column) * COLUMNS + lane % 4 * 2
        save(out, total, first_row, first_column, u_scale, vt_scale)

    @cuda.jit(fastmath=True, max_registers=config.max_registers)
    def reconstruct_tensor_tiles(u, vt, u_scale, vt_scale, out):
        tile_row, tile_column = in_bands()
        block_tile(u, vt, u_scale, vt_scale, out, tile_row, tile_column)

    @cuda.jit(fastmath=True, max_registers=config.max_registers)
    def reconstruct_many(u, vt, u_scale, vt_scale, out):
        i, tile_row, tile_column = cuda.blockIdx.z, int32(cuda.blockIdx.y), int32(cuda.blockIdx.x)
        scales = u_scale[i], vt_scale[i]
        block_tile(u[i], vt[i], scales[0], scales[1], out[i], tile_row, tile_column)

    return reconstruct_tensor_tiles, reconstruct_many
