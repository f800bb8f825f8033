"""Rebuild images of any size and number: each warp has a tile of its own, and waits for no other.

The threads of a large block share what they load, but wait for each other. Tiles of 128 x 128 leave
most of a GPU idle where an image is small, and most of a block where it is narrow. Here one warp
makes a tile of 32 to 1,024 pixels, by the image's shape, and a block may have tiles of several
small images. Or the warps of a block share a tile: each takes every fourth step over i, and the
sums are added in shared memory. A warp stages its rows of u, times s, in shared memory, `DEEP`
values of i at a time, for all of its lanes. The columns of vt stay in registers. While a step is
multiplied, the next one is loaded.

Neighbouring lanes have neighbouring columns, or four each where rows begin at multiples of 16
bytes: so loads and stores are coalesced, wherever rows begin. In a stack no tile is shared, and a
pixel's terms are added in the order of i. So an image is the same, bit for bit, in any stack.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from numba import float32, int32

from course.backend import cuda
from course.heuristics.reconstruct import WARPS, WarpTile
from warpsim.ptx import load, load4, quotient, store, store4


@functools.cache
def warp_per_tile(config: WarpTile) -> tuple[Callable, Callable]:
    """The kernels of (u, s, vt, k, out, tiles): for one image, and for many, with one more axis.

    An image has `tiles`. Launch with ``config.threads`` threads, a block for ``config.of_block``.
    """
    LANES, ROWS, COLUMNS, DEEP, WIDE, SHARED = config
    DOWN, ACROSS = config.block_rows, config.block_columns
    SHARE = DOWN * DEEP // 32  # elements of u that a lane loads
    PITCH = DOWN | 4  # of rows of i in shared memory: neighbouring lanes' stores use other banks
    TILE, STEP = DEEP * PITCH, 4 if WIDE else 1
    PARTS = WARPS if SHARED else 1
    SAVED, SUMS = ROWS // PARTS, 32 * COLUMNS * ROWS if SHARED else 1  # rows a lane stores; sums

    @cuda.jit(device=True, forceinline=True)
    def load_u(u, s, start, k, first_row, last_row, lane, x):
        """A lane's share of the rows of u, times s; zeros from i = k on."""
        i, row = start + (lane & (DEEP - 1)), int32(first_row + lane // DEEP)
        inside = int32(lane & (DEEP - 1)) < int32(k - start)
        factor = load(s, i) if inside else float32(0)
        for j in range(SHARE):
            n = min(int32(row + j * (32 // DEEP)), last_row)
            x[j] = load(u, (n, i)) * factor if inside else float32(0)

    @cuda.jit(device=True, forceinline=True)
    def load_vt(vt, start, k, column, last_column, x):
        """A lane's columns of vt; zeros from i = k on."""
        left = int32(k - start)
        for d in range(DEEP):
            i = start + d
            for n in range(0, COLUMNS, STEP):
                at = min(int32(column + n * LANES), last_column)
                if d >= left:
                    for e in range(STEP):
                        x[d, n + e] = float32(0)
                elif WIDE:
                    x[d, n], x[d, n + 1], x[d, n + 2], x[d, n + 3] = load4(vt, (i, at))
                else:
                    x[d, n] = load(vt, (i, at))

    @cuda.jit(device=True)
    def warp_tile(u, s, vt, k, out, tile):
        u_tile = cuda.shared.array((WARPS, 2, TILE), float32)
        sums = cuda.shared.array((WARPS, SUMS), float32)
        total = cuda.local.array((ROWS, COLUMNS), float32)
        now = cuda.local.array((DEEP, COLUMNS), float32)
        ahead = cuda.local.array((DEEP, COLUMNS), float32)
        share = cuda.local.array(SHARE, float32)
        t = int32(cuda.threadIdx.x)
        warp, lane = int32(t >> 5), int32(t & 31)
        down = quotient(int32(out.shape[0] + (DOWN - 1)), int32(DOWN))
        across = quotient(tile, down)
        first_row = int32((tile - across * down) * DOWN)
        group = int32(lane // LANES * ROWS)  # this lane's first row in the tile
        column = int32(across * ACROSS + lane % LANES * STEP)
        last_row, last_column = int32(u.shape[0] - 1), int32(vt.shape[1] - STEP)
        for m in range(ROWS):
            for n in range(COLUMNS):
                total[m, n] = float32(0)
        first = warp % PARTS * DEEP
        load_u(u, s, first, k, first_row, last_row, lane, share)
        load_vt(vt, first, k, column, last_column, ahead)
        stage = int32(0)
        for start in range(first, k, PARTS * DEEP):
            for j in range(SHARE):
                n = int32(lane + 32 * j)
                store(u_tile, (warp, stage, int32(n % DEEP * PITCH + n // DEEP)), share[j])
            for d in range(DEEP):
                for n in range(COLUMNS):
                    now[d, n] = ahead[d, n]
            cuda.syncwarp()
            following = start + PARTS * DEEP
            if following < k:
                load_u(u, s, following, k, first_row, last_row, lane, share)
                load_vt(vt, following, k, column, last_column, ahead)
            for d in range(DEEP):
                for g in range(0, ROWS, 4):
                    a = load4(u_tile, (warp, stage, int32(d * PITCH + group + g)))
                    for n in range(COLUMNS):
                        for e in range(4):
                            total[g + e, n] += a[e] * now[d, n]
            stage = int32(1 - stage)
        mine = int32(warp % PARTS * SAVED)
        first_row = int32(first_row + group + mine)
        if SHARED:
            for m in range(ROWS):
                for n in range(COLUMNS):
                    store(sums, (warp, int32((m * COLUMNS + n) * 32 + lane)), total[m, n])
            cuda.syncthreads()
            for m in range(SAVED):
                for n in range(COLUMNS):
                    at = int32(((mine + m) * COLUMNS + n) * 32 + lane)
                    total[m, n] = load(sums, (0, at))
                    for other in range(1, PARTS):
                        total[m, n] += load(sums, (other, at))
        for m in range(SAVED):
            row = int32(first_row + m)
            for n in range(0, COLUMNS, STEP):
                at = int32(column + n * LANES)
                if row < int32(out.shape[0]) and at < int32(out.shape[1]):
                    if WIDE:
                        four = total[m, n], total[m, n + 1], total[m, n + 2], total[m, n + 3]
                        store4(out, (row, at), four)
                    else:
                        store(out, (row, at), total[m, n])

    @cuda.jit
    def reconstruct_warp_per_tile(u, s, vt, k, out, tiles):
        tile = int32((cuda.blockIdx.x * WARPS + (cuda.threadIdx.x >> 5)) // PARTS)
        if tile < tiles:
            warp_tile(u, s, vt, k, out, tile)

    @cuda.jit
    def reconstruct_many(u, s, vt, k, out, tiles):
        number = int32((cuda.blockIdx.x * WARPS + (cuda.threadIdx.x >> 5)) // PARTS)
        image = quotient(number, int32(tiles))
        if image < out.shape[0]:
            tile = int32(number - image * tiles)
            warp_tile(u[image], s[image], vt[image], k, out[image], tile)

    return reconstruct_warp_per_tile, reconstruct_many
