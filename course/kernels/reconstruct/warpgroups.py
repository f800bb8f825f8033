"""Rebuild an image from its SVD, step 11: Hopper's tensor cores, fed by TMA.

The same three products of float16 as step 10, by warpgroups (`warpsim.ptx.wgmma`). After every 64
values of i the accumulators are added to float32 sums. While one warpgroup adds, the tensor cores
multiply for the other.

Factors are split once, but stay matrices: TMA loads tiles, with zeros beyond the edge. The upper
parts of u, (rows, depth), lie above the lower parts; those of s vt, (depth, columns), likewise. A
block has a ring of slots, each with one tile of both factors:

    slot 0: lower u, upper vt    slot 1: upper u, lower vt    slot 2: the next 64 values of i ...

so two slots hold what three products need: lower upper', upper lower', upper upper'.
"""

import functools
from collections.abc import Callable

from numba import float32, int32, uint64
from numba.types import float16

from course.backend import cuda
from course.heuristics.reconstruct import CONSUMERS, DEPTH, ROWS, WarpgroupConfig
from course.kernels.gemm.ring import ring
from course.kernels.gemm.tiles import tile_coordinates
from course.kernels.gemm.warp_specialised import BOX
from course.kernels.reconstruct.split_factors import power_near
from warpsim import ptx

WARPS = 16  # warps of a block that splits
THREADS = 32 * WARPS
CUT = 32  # columns of vt of such a block; others have WARPS rows of u
PITCH = 64 + 8  # of results in shared memory, so that rows begin in other banks


# --- split ----------------------------------------------------------------------------------------


@functools.cache
def splitter(u_aligned: bool, vt_aligned: bool) -> Callable:
    """The kernel of (u, s, vt, k, of_u, of_vt, scale_u, scale_vt) that splits both factors.

    Mapping: the first blocks have 32 columns of vt each, the others 16 rows of u, one a warp.
    Memory: a factor is read twice, for its largest magnitudes and to be split, by 16 bytes if
    aligned. Two to four reads are in flight.
    """
    SIDE = THREADS // 8  # rows of vt side by side

    @cuda.jit(device=True)
    def four(array, row, column, end, aligned):
        """Four neighbours of a row, zeros from the column `end` on: read without a branch."""
        if aligned:
            a, b, c, d = ptx.load4(array, (row, min(column, int32(array.shape[1] - 4))))
        else:
            last = int32(end - 1)
            a = ptx.load(array, (row, min(column, last)))
            b = ptx.load(array, (row, min(int32(column + 1), last)))
            c = ptx.load(array, (row, min(int32(column + 2), last)))
            d = ptx.load(array, (row, min(int32(column + 3), last)))
        a, b = a if column < end else float32(0), b if column + 1 < end else float32(0)
        return a, b, c if column + 2 < end else float32(0), d if column + 3 < end else float32(0)

    @cuda.jit(device=True)
    def larger(largest, x):
        return max(largest, max(max(abs(x[0]), abs(x[1])), max(abs(x[2]), abs(x[3]))))

    @cuda.jit(device=True)
    def store_parts(parts, row, lower, column, x, a, b, c, d):
        """Store the upper parts of four scaled elements, and `lower` rows below the lower parts."""
        e, f, g, h = x[0] * a, x[1] * b, x[2] * c, x[3] * d
        upper = float16(e), float16(f), float16(g), float16(h)
        ptx.store4(parts, (row, column), upper)
        e, f = e - float32(upper[0]), f - float32(upper[1])
        g, h = g - float32(upper[2]), h - float32(upper[3])
        below = float16(e), float16(f), float16(g), float16(h)
        ptx.store4(parts, (int32(row + lower), column), below)

    @cuda.jit(device=True)
    def split_row(u, row, k, parts, scale):
        lane = int32(cuda.threadIdx.x) & int32(31)
        depth = int32(parts.shape[1])
        largest = float32(0)
        for i in range(int32(4 * lane), k, 256):
            largest = larger(largest, four(u, row, int32(i), k, u_aligned))
            largest = larger(largest, four(u, row, int32(i + 128), k, u_aligned))
        for step in range(5):
            largest = max(largest, cuda.shfl_xor_sync(0xFFFFFFFF, largest, 16 >> step))
        power = power_near(largest)
        if lane == 0:
            scale[row] = float32(1) / power
        lower = int32(u.shape[0])
        for i in range(int32(4 * lane), depth, 256):
            x, y = four(u, row, int32(i), k, u_aligned), four(u, row, int32(i + 128), k, u_aligned)
            store_parts(parts, row, lower, int32(i), x, power, power, power, power)
            if i + 128 < depth:
                store_parts(parts, row, lower, int32(i + 128), y, power, power, power, power)

    @cuda.jit(device=True)
    def four_of_vt(s, vt, i, column, k):
        """Four neighbours of row i of s vt, zeros from row k on."""
        clamped = min(i, int32(k - 1))
        x = four(vt, clamped, column, int32(vt.shape[1]), vt_aligned)
        factor = ptx.load(s, clamped)
        factor = factor if i < k else float32(0)
        return factor * x[0], factor * x[1], factor * x[2], factor * x[3]

    @cuda.jit(device=True)
    def split_columns(s, vt, first, k, parts, scale):
        """Eight threads have 32 columns, four each; the block has 64 rows at a time."""
        found = cuda.shared.array((WARPS, CUT), float32)
        powers = cuda.shared.array(CUT, float32)
        t = int32(cuda.threadIdx.x)
        warp, lane = t >> 5, t & int32(31)
        mine = int32(4 * (t & 7))
        column, depth = int32(first + mine), int32(parts.shape[0] >> 1)
        a, b, c, d = float32(0), float32(0), float32(0), float32(0)
        for i in range(t >> 3, k, 4 * SIDE):
            for ahead in range(0, 4 * SIDE, SIDE):
                x = four_of_vt(s, vt, int32(i + ahead), column, k)
                a, b = max(a, abs(x[0])), max(b, abs(x[1]))
                c, d = max(c, abs(x[2])), max(d, abs(x[3]))
        for step in range(2):
            a = max(a, cuda.shfl_xor_sync(0xFFFFFFFF, a, 16 >> step))
            b = max(b, cuda.shfl_xor_sync(0xFFFFFFFF, b, 16 >> step))
            c = max(c, cuda.shfl_xor_sync(0xFFFFFFFF, c, 16 >> step))
            d = max(d, cuda.shfl_xor_sync(0xFFFFFFFF, d, 16 >> step))
        if lane < 8:
            found[warp, mine], found[warp, mine + 1] = a, b
            found[warp, mine + 2], found[warp, mine + 3] = c, d
        cuda.syncthreads()
        if warp == 0:
            largest = found[0, lane]
            for other in range(1, WARPS):
                largest = max(largest, found[other, lane])
            powers[lane] = power_near(largest)
            if first + lane < parts.shape[1]:
                scale[first + lane] = float32(1) / powers[lane]
        cuda.syncthreads()
        if column < parts.shape[1]:
            a, b, c, d = powers[mine], powers[mine + 1], powers[mine + 2], powers[mine + 3]
            for i in range(t >> 3, depth, 2 * SIDE):
                x = four_of_vt(s, vt, int32(i), column, k)
                y = four_of_vt(s, vt, int32(i + SIDE), column, k)
                store_parts(parts, int32(i), depth, column, x, a, b, c, d)
                if i + SIDE < depth:
                    store_parts(parts, int32(i + SIDE), depth, column, y, a, b, c, d)

    @cuda.jit(launch_bounds=(THREADS, 2))
    def split_factors(u, s, vt, k, of_u, of_vt, scale_u, scale_vt):
        ptx.grid_dependency_wait()
        block, k = int32(cuda.blockIdx.x), int32(k)
        blocks_of_vt = int32((of_vt.shape[1] + CUT - 1) >> 5)  # these take longer, so they go first
        if block < blocks_of_vt:
            split_columns(s, vt, int32(block * CUT), k, of_vt, scale_vt)
        else:
            row = int32((block - blocks_of_vt) * WARPS) + (int32(cuda.threadIdx.x) >> 5)
            if row < u.shape[0]:
                split_row(u, row, k, of_u, scale_u)

    return split_factors


# --- multiply -------------------------------------------------------------------------------------


@functools.cache
def warpgroup_tiles(config: WarpgroupConfig) -> Callable:
    """The kernel of (u, vt as tensor maps, scale_u, scale_vt, out, depth, row_group).

    Mapping: block i has tiles i, i + blocks, ...; in a tile, warpgroup 1 + w has rows 64 w to
    64 w + 63. Results go through shared memory, so that a warp stores 32 neighbours at a time. Else
    sectors would be stored in parts, as rows may begin at any address.
    """
    COLUMNS, SLOTS = config
    SLOT, SUMS, SCALES = config.slot, COLUMNS // 2, COLUMNS // 4 + 2
    LINES = 4 * CONSUMERS  # consumer warps, each with eight rows in shared memory
    init, producer_acquire, consumer_wait, consumer_release, advance = ring(
        SLOTS, 2 * ROWS * DEPTH, 2 * COLUMNS * DEPTH, 4 * CONSUMERS
    )  # each consumer warp releases a slot

    @cuda.jit(device=True, forceinline=True)
    def load_scales(scales, row, column, scale_u, scale_vt):
        """Load all scales of a lane's results, of its two rows last: one wait, then stores."""
        for j in range(COLUMNS // 8):
            clamped = min(int32(column + 8 * j), int32(scale_vt.size - 2))
            scales[2 * j], scales[2 * j + 1] = ptx.load2(scale_vt, clamped)
        last = int32(scale_u.size - 1)
        for h in range(2):
            scales[COLUMNS // 4 + h] = ptx.load(scale_u, min(int32(row + 8 * h), last))

    @cuda.jit(device=True, forceinline=True)
    def two_scaled(total, first, scales, h, j):
        """Two scaled results; the smaller scale comes first, so that no product overflows."""
        e, at, z = first + 4 * j + 2 * h, first // 2 + 2 * j, scales[COLUMNS // 4 + h]
        a, b = scales[at], scales[at + 1]
        return total[e] * min(z, a) * max(z, a), total[e + 1] * min(z, b) * max(z, b)

    @cuda.jit(device=True, forceinline=True)
    def save(lines, out, total, first, scales, parts, row, column):
        """Write 64 columns, the sums from `first` on, eight rows of a warp at a time."""
        rows, columns = int32(out.shape[0]), int32(out.shape[1])
        lane, warp = int32(cuda.threadIdx.x & 31), int32((cuda.threadIdx.x >> 5) - 4)
        mine, pair = int32(lane >> 2), int32(2 * (lane & 3))
        for h in range(2):
            for j in range(8):
                two = two_scaled(total, first, scales, h, j)
                ptx.store2(lines, (warp, mine, int32(8 * j + pair)), two)
            cuda.syncwarp()
            for n in range(16):
                parts[n] = ptx.load(lines, (warp, int32(n // 2), int32(32 * (n % 2) + lane)))
            for n in range(16):
                i = int32(row - mine + 8 * h + n // 2)
                c = int32(column - pair + 32 * (n % 2) + lane)
                if i < rows and c < columns:
                    ptx.store(out, (i, c), parts[n])
            cuda.syncwarp()

    @cuda.jit(launch_bounds=(config.threads, 1))
    def reconstruct_warpgroups(u, vt, scale_u, scale_vt, out, depth, row_group):
        tiles = cuda.shared.array(0, float16, alignment=1024)
        full = cuda.shared.array(SLOTS, uint64)
        empty = cuda.shared.array(SLOTS, uint64)
        lines = cuda.shared.array((LINES, 8, PITCH), float32)
        t = int32(cuda.threadIdx.x)
        group = int32(t >> 7)
        if t == 0:
            ptx.tma_prefetch(u)
            ptx.tma_prefetch(vt)
            init(full, empty)
            ptx.fence_mbarriers()
        cuda.syncthreads()
        ptx.grid_dependency_wait()
        rows, depth = int32(out.shape[0]), int32(depth)
        down = ptx.quotient(int32(rows + ROWS - 1), int32(ROWS))
        across = ptx.quotient(int32(int32(out.shape[1]) + COLUMNS - 1), int32(COLUMNS))
        slot, phase, high = int32(0), int32(0), int32(row_group)
        own, end, others = int32(cuda.blockIdx.x), int32(down * across), int32(cuda.gridDim.x)
        if group == 0:  # the producer warpgroup, one thread of it
            ptx.setmaxnreg_dec(40)
            if t == 0:
                for tile in range(own, end, others):
                    tile_row, tile_column = tile_coordinates(int32(tile), down, across, high)
                    row, column = int32(tile_row * ROWS), int32(tile_column * COLUMNS)
                    for i in range(0, depth, DEPTH):
                        for half in range(2):  # lower u and upper vt, then upper u and lower vt
                            producer_acquire(full, empty, slot, phase)
                            at, below = int32(slot * SLOT), int32(row + (1 - half) * rows)
                            ptx.tma_load(tiles, at, u, (below, int32(i)), full, slot)
                            at = int32(at + ROWS * DEPTH)
                            for p in range(COLUMNS // 64):
                                place = (int32(i + half * depth), int32(column + 64 * p))
                                ptx.tma_load(tiles, int32(at + BOX * p), vt, place, full, slot)
                            slot, phase = advance(slot, phase)
        else:  # the consumers
            ptx.setmaxnreg_inc(232)
            part = cuda.local.array(SUMS, float32)
            total = cuda.local.array(SUMS, float32)
            scales = cuda.local.array(SCALES, float32)
            who = int32(group - 1)
            warp, lane = int32(t >> 5 & 3), int32(t & 31)
            for tile in range(own, end, others):
                tile_row, tile_column = tile_coordinates(int32(tile), down, across, high)
                ptx.unpack(total, ptx.wgmma_zeros(COLUMNS))
                sums = ptx.wgmma_zeros(COLUMNS)
                for _ in range(0, depth, DEPTH):
                    consumer_wait(full, slot, phase)
                    first, at = slot, int32(slot * SLOT)
                    a, b = int32(at + BOX * who), int32(at + ROWS * DEPTH)
                    sums = ptx.wgmma_nn(sums, tiles, a, tiles, b, 0)
                    slot, phase = advance(slot, phase)
                    consumer_wait(full, slot, phase)
                    second, at = slot, int32(slot * SLOT)
                    a = int32(at + BOX * who)
                    sums = ptx.wgmma_nn(sums, tiles, a, tiles, int32(at + ROWS * DEPTH), 1)
                    sums = ptx.wgmma_nn(sums, tiles, a, tiles, b, 1)
                    slot, phase = advance(slot, phase)
                    sums = ptx.wgmma_sums(sums)
                    if lane == 0:
                        consumer_release(empty, first)
                        consumer_release(empty, second)
                    ptx.unpack(part, sums)
                    for e in range(SUMS):
                        total[e] += part[e]
                row = int32(tile_row * ROWS + 64 * who + 16 * warp + (lane >> 2))
                column = int32(tile_column * COLUMNS + 2 * (lane & 3))
                load_scales(scales, row, column, scale_u, scale_vt)
                save(lines, out, total, 0, scales, part, row, column)
                if COLUMNS > 64:
                    save(lines, out, total, 32, scales, part, row, int32(column + 64))
                if COLUMNS > 128:
                    save(lines, out, total, 64, scales, part, row, int32(column + 128))

    return reconstruct_warpgroups
