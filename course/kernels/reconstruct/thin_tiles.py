"""Rebuild images from few singular values: tensor cores without a launch that splits the factors.

With k up to 56, as in stacks of small images, writing fragments to memory and reading them again
(`course.kernels.reconstruct.split_factors`) costs more than multiplying them. Here a block loads
all its rows of u and columns of vt, splits them in registers and multiplies: no loop over k.

Each warp has 32 columns. The lane that splits an element of vt also multiplies it, so vt stays in
registers. Each warp splits some rows of u, and all warps share them. A fragment may have any
columns, and i any order that is the same for both factors. So lane l, with g = l // 4 and q = l %
4, takes columns 4g to 4g + 3 of vt, one for each fragment. Hence vt is loaded, and the result
stored, 16 bytes at a time. Of a row of u the lane takes elements 16 t + 4q to 16 t + 4q + 3. It
loads them one by one, as rows of a truncated u begin anywhere. Three of four loads hit in L1.
"""

from collections.abc import Callable

from numba import float32, int32, uint32

from course.backend import cuda, jit_without_lto
from course.heuristics.reconstruct import DEEPEST
from course.kernels.reconstruct.split_factors import ROWS, power_near
from course.kernels.reconstruct.warp_tiles import row_group_tile
from course.kernels.warps import largest_of_four
from warpsim.ptx import load, load4, mma_f16, mma_f16_k8, split_halves, store4

WARPS = 4  # of a block, side by side
ACROSS = 4  # fragments of 8 columns of a warp
LANE_REGISTERS = 4  # of a slice of u, 16 x 8: upper parts of rows g and g + 8, then lower parts
U_REGISTERS = 32 * LANE_REGISTERS
BLOCK_ROWS, BLOCK_COLUMNS, THREADS = 128, 32 * WARPS, 32 * WARPS


def thin_tiles() -> tuple[Callable, Callable]:
    """The kernels of (u, s, vt, k, out): for one image, and for many, with one more axis in front.

    k is at most `DEEPEST`, and rows of vt and out begin at multiples of 16 bytes. Launch with
    `THREADS` threads.
    """
    fragments = BLOCK_ROWS // ROWS
    eighths = DEEPEST // 8  # slices of 8 values of i: three pairs of them, and a last one
    pairs, values = eighths // 2, 2 * eighths  # values: a lane's elements of a row or column

    @cuda.jit(device=True)
    def first_i(eighth):
        """The first of the two neighbouring values of i that a lane has in a slice."""
        q = int32(cuda.threadIdx.x) % int32(4)
        if eighth < 2 * pairs:
            return 16 * (eighth // 2) + 4 * q + 2 * (eighth % 2)
        return 8 * eighth + 2 * q

    # --- load and split --------------------------------------------------------------------------

    @cuda.jit(device=True)
    def load_row(u, row, k, x, side):
        """A lane's elements of a row of u; zeros from i = k on."""
        row = min(row, int32(u.shape[0] - 1))
        for eighth in range(eighths):
            for e in range(2):
                i = first_i(eighth) + e
                value = load(u, (row, min(i, k - 1)))
                x[side, 2 * eighth + e] = value if i < k else float32(0)

    @cuda.jit(device=True)
    def load_columns(s, vt, first_column, k, x):
        """A lane's elements of four neighbouring columns of s vt; zeros from i = k on."""
        column = first_column + int32(cuda.threadIdx.x) % int32(32) // int32(4) * int32(4)
        for eighth in range(eighths):
            for e in range(2):
                i = first_i(eighth) + e
                clamped, n = min(i, k - 1), 2 * eighth + e
                scale = load(s, clamped) if i < k else float32(0)
                four = load4(vt, (clamped, min(column, int32(vt.shape[1] - 4))))
                x[0, n], x[1, n] = four[0] * scale, four[1] * scale
                x[2, n], x[3, n] = four[2] * scale, four[3] * scale

    @cuda.jit(device=True)
    def power_of(x, side):
        """The power of two that scales the largest of a row or column to about 2^14."""
        largest = float32(0)
        for n in range(values):
            largest = max(largest, abs(x[side, n]))
        return power_near(largest_of_four(largest))

    @cuda.jit(device=True)
    def store_rows(x, power, power_8, u_tile, fragment):
        """Split a lane's elements of rows g and g + 8 into a fragment in shared memory."""
        at = int32(cuda.threadIdx.x) % int32(32) * int32(LANE_REGISTERS)
        for h in range(eighths):
            upper, lower = split_halves(x[0, 2 * h] * power, x[0, 2 * h + 1] * power)
            upper_8, lower_8 = split_halves(x[1, 2 * h] * power_8, x[1, 2 * h + 1] * power_8)
            store4(u_tile, (fragment, h, at), (upper, upper_8, lower, lower_8))

    # --- multiply and store ----------------------------------------------------------------------

    @cuda.jit(device=True)
    def multiply(total, rest, u_tile, fragment, upper, lower):
        """The products of a fragment of u's rows; `rest` is the sum of the small terms."""
        zero = (float32(0), float32(0), float32(0), float32(0))
        at = int32(cuda.threadIdx.x) % int32(32) * int32(LANE_REGISTERS)
        for n in range(ACROSS):
            for e in range(4):
                total[n, e], rest[n, e] = float32(0), float32(0)
        for pair in range(pairs):
            h = 2 * pair
            w = load4(u_tile, (fragment, h, at))
            x = load4(u_tile, (fragment, h + 1, at))
            a, a_rest = (w[0], w[1], x[0], x[1]), (w[2], w[3], x[2], x[3])
            for n in range(ACROSS):
                c = rest[n, 0], rest[n, 1], rest[n, 2], rest[n, 3]
                c = mma_f16(c, a_rest, (upper[n, h], upper[n, h + 1]))
                c = mma_f16(c, a, (lower[n, h], lower[n, h + 1]))
                rest[n, 0], rest[n, 1], rest[n, 2], rest[n, 3] = c
                c = mma_f16(zero, a, (upper[n, h], upper[n, h + 1]))
                for e in range(4):
                    total[n, e] += c[e]
        h = 2 * pairs
        w = load4(u_tile, (fragment, h, at))
        for n in range(ACROSS):
            c = rest[n, 0], rest[n, 1], rest[n, 2], rest[n, 3]
            c = mma_f16_k8(c, (w[2], w[3]), upper[n, h])
            c = mma_f16_k8(c, (w[0], w[1]), lower[n, h])
            d = mma_f16_k8(zero, (w[0], w[1]), upper[n, h])
            for e in range(4):
                total[n, e] += d[e] + c[e]

    @cuda.jit(device=True)
    def save(out, total, row, first_column, u_scale, of_row, scale):
        """Write a lane's results in rows `row` and `row` + 8: eight neighbours of each."""
        column = first_column + int32(cuda.threadIdx.x) % int32(4) * int32(8)
        for e in range(2):
            factor = load(u_scale, of_row + 8 * e)
            if row + 8 * e < out.shape[0]:
                for c in range(2):
                    for n in range(ACROSS):
                        total[n, 2 * e + c] *= scale[c, n] * factor
                    w, x = total[0, 2 * e + c], total[1, 2 * e + c]
                    y, z = total[2, 2 * e + c], total[3, 2 * e + c]
                    first = column + 4 * c
                    if first < out.shape[1]:
                        store4(out, (row + 8 * e, first), (w, x, y, z))

    # --- the block's work ------------------------------------------------------------------------

    @cuda.jit(device=True)
    def block_tile(u, s, vt, k, out, tile_row, tile_column):
        u_tile = cuda.shared.array((fragments, eighths, U_REGISTERS), uint32)
        u_scale = cuda.shared.array(BLOCK_ROWS, float32)
        x = cuda.local.array((2, values), float32)
        y = cuda.local.array((ACROSS, values), float32)
        upper = cuda.local.array((ACROSS, eighths), uint32)
        lower = cuda.local.array((ACROSS, eighths), uint32)
        scale = cuda.local.array((2, ACROSS), float32)
        total = cuda.local.array((ACROSS, 4), float32)
        rest = cuda.local.array((ACROSS, 4), float32)
        t = int32(cuda.threadIdx.x)
        warp, g, q = t // int32(32), t % int32(32) // int32(4), t % int32(4)
        first_row = tile_row * int32(BLOCK_ROWS)
        first_column = (tile_column * int32(WARPS) + warp) * int32(32)
        load_columns(s, vt, first_column, k, y)
        for j in range(fragments // WARPS):
            fragment = j * WARPS + warp
            row = fragment * int32(ROWS) + g
            load_row(u, first_row + row, k, x, 0)
            load_row(u, first_row + row + int32(8), k, x, 1)
            power, power_8 = power_of(x, 0), power_of(x, 1)
            if q == 0:
                u_scale[row], u_scale[row + 8] = float32(1) / power, float32(1) / power_8
            store_rows(x, power, power_8, u_tile, fragment)
        for n in range(ACROSS):
            power = power_of(y, n)
            for h in range(eighths):
                pair = split_halves(y[n, 2 * h] * power, y[n, 2 * h + 1] * power)
                upper[n, h], lower[n, h] = pair
            inverse = float32(1) / power
            for c in range(2):
                scale[c, n] = cuda.shfl_sync(0xFFFFFFFF, inverse, q * 8 + c * 4)
        cuda.syncthreads()
        for fragment in range(fragments):
            multiply(total, rest, u_tile, fragment, upper, lower)
            row = fragment * int32(ROWS) + g
            save(out, total, first_row + row, first_column, u_scale, row, scale)

    kernel = jit_without_lto(fastmath=True, max_registers=168)

    @kernel
    def reconstruct_thin(u, s, vt, k, out):
        row, column = row_group_tile()
        block_tile(u, s, vt, int32(k), out, row, column)

    @kernel
    def reconstruct_many(u, s, vt, k, out):
        i, row, column = cuda.blockIdx.z, int32(cuda.blockIdx.y), int32(cuda.blockIdx.x)
        block_tile(u[i], s[i], vt[i], int32(k), out[i], row, column)

    return reconstruct_thin, reconstruct_many
