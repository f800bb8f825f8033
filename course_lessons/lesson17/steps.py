"""What the cells on the way to wgmma and TMA are given."""

from __future__ import annotations

from course import cuda

TILE = 64 * 64  # elements, of rows of 128 bytes


@cuda.jit(device=True)
def put_tile(tiles, start, x):
    """Store 64 x 64 elements from ``tiles[start]`` on, by 128 threads."""
    t = cuda.threadIdx.x
    for n in range(t, TILE, 128):
        row, column = n // 64, n % 64
        chunk = column // 8 ^ row % 8
        tiles[start + 64 * row + 8 * chunk + column % 8] = x[row, column]


@cuda.jit(device=True)
def save_sums(out, local, column):
    """Store a thread's 32 sums of a 64 x 64 tile, the first of 128 threads' at (0, column)."""
    t = cuda.threadIdx.x % 128
    row, first = 16 * (t // 32) + t % 32 // 4, column + 2 * (t % 4)
    for j in range(8):
        for e in range(4):
            out[row + 8 * (e // 2), first + 8 * j + e % 2] = local[4 * j + e]
