"""A first kernel by one thread, by a warp, by a block and by 65,536 threads.

Lesson 00 shows these times. The kernel takes the square root of each pixel in a grid-stride loop,
so that it is right with any launch. A row's variant is the launch's ``[blocks, threads]``.
"""

from __future__ import annotations

import numpy as np
from numba import float32

SIZE = 1024
LAUNCHES = ((1, 1), (1, 32), (1, 256), (256, 256))


def run(bench):
    """Time the launches on an image of 1024 x 1024 pixels; one thread takes 0.2 s on an H200."""
    cuda = bench.cuda

    @cuda.jit
    def glow(photo, out):
        for i in range(cuda.grid(1), photo.size, cuda.gridsize(1)):
            out[i] = photo[i] ** float32(0.5)

    photo = bench.random(SIZE * SIZE) + np.float32(0.5)
    there, out = cuda.to_device(photo), cuda.device_array_like(photo)
    for blocks, threads in LAUNCHES:
        bench.variant(
            "glow", f"{blocks}, {threads}", glow[blocks, threads], (there, out), out=out,
            expected=np.sqrt(photo.astype(np.float64)), shape=f"{SIZE}x{SIZE}",
            bytes=2 * photo.nbytes,
        )  # fmt: skip
