"""Transposing a matrix: the kernels of lesson 05 beside CuPy and PyTorch.

A transpose moves each byte twice and computes nothing, so its roof is that of a copy.
"""

import numpy as np

from course.kernels.transpose import (
    BLOCK,
    TILE,
    copy,
    transpose_padded,
    transpose_read_coalesced,
    transpose_tiled,
    transpose_write_coalesced,
)

SHAPES = ((1024, 1024), (4096, 4096), (8192, 8192), (4099, 8191))
TILED = (transpose_tiled, transpose_padded)


def blocks(columns: int, rows: int, block: tuple[int, int]) -> tuple[int, int]:
    """Blocks in x and y that cover so many columns and rows."""
    return -(-columns // block[0]), -(-rows // block[1])


def run(bench):
    """Check and time the ladder and its peers."""
    for rows, columns in SHAPES:
        image = bench.random(rows, columns)
        there = bench.cuda.to_device(image)
        expected = image.T.astype(np.float64)
        work = {"shape": f"{rows}x{columns}", "limit": 0, "bytes": 2 * image.nbytes}

        same = bench.cuda.device_array((rows, columns), np.float32)
        cover = copy[blocks(columns, rows, BLOCK), BLOCK]
        bench.variant("transpose", "copy", cover, (same, there), out=same,
                      expected=image.astype(np.float64), **work)  # fmt: skip
        out = bench.cuda.device_array((columns, rows), np.float32)
        launches = {
            transpose_read_coalesced: (blocks(columns, rows, BLOCK), BLOCK),
            transpose_write_coalesced: (blocks(rows, columns, BLOCK), BLOCK),
            **{kernel: (blocks(columns, rows, (TILE, TILE)), BLOCK) for kernel in TILED},
        }
        for kernel, (grid, block) in launches.items():
            name = kernel.py_func.__name__
            bench.variant("transpose", name, kernel[grid, block], (out, there), out=out,
                          expected=expected, **work)  # fmt: skip
        if cupy := bench.peer("cupy"):
            pair = (cupy.empty((columns, rows), cupy.float32), cupy.asarray(image))
            bench.variant("transpose", "cupy", lambda to, of: cupy.copyto(to, of.T), pair,
                          out=pair[0], expected=expected, **work)  # fmt: skip
        if torch := bench.peer("torch"):
            pair = (torch.empty(columns, rows, device="cuda"), torch.from_numpy(image).cuda())
            bench.variant("transpose", "torch", lambda to, of: to.copy_(of.t()), pair,
                          out=pair[0], expected=expected, **work)  # fmt: skip
