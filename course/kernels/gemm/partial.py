"""Split-K through global memory: the blocks' partial sums are added, finished and stored.

>>> sums = workspace_for(splits, out)
>>> launches(sums, bias, residual, out, "gelu")      # after what leaves its sums there

Any number of blocks can share a tile, and results may have any alignment. The price is a second
launch; programmatic dependent launch hides its start behind the product. The order of additions is
fixed, so results have the same bits each time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import float32, int32

from course.backend import cuda
from course.dispatch.slots import name_of, workspace
from course.kernels.arrays import Array
from course.kernels.gemm.tiles import ELEMENTS, epilogue, or_anything
from course.kernels.steps import Launch, ceil_div, round_up
from warpsim.ptx import grid_dependency_wait, load4, quotient, store

THREADS = 256
FOUR = 4  # results of a thread, neighbours of a row
SHARED_FROM = 8  # splits; where there are more, several threads add a result's partial sums
SHARE = 16  # such threads


@functools.cache
def finish(element: str, epilogue_of: tuple[str, bool, bool], shared: bool) -> Callable:
    """The kernel of (sums, bias, residual, out), with `sums` as `workspace_for` lays them out.

    Mapping: a thread finishes four neighbours of a row. With `shared`, 16 threads of a block work
    on the same four, and each adds every 16th split.
    """
    ELEMENT, finished = ELEMENTS[element], epilogue(*epilogue_of)
    GROUPS = SHARE if shared else 1
    OWN = THREADS // GROUPS
    ZERO = float32(0)

    @cuda.jit(launch_bounds=(THREADS, 4), fastmath=True)
    def gemm_finish(sums, bias, other, out):
        parts = cuda.shared.array((GROUPS, FOUR, OWN), float32)
        t = int32(cuda.threadIdx.x)
        group, mine = (int32(t // OWN), int32(t % OWN)) if shared else (int32(0), t)
        n = int32(int32(cuda.blockIdx.x) * OWN + mine)
        across = int32(int32(sums.shape[2]) >> 2)
        row = quotient(n, across)
        column = int32((n - row * across) << 2)
        grid_dependency_wait()
        x0, x1, x2, x3 = ZERO, ZERO, ZERO, ZERO
        if row < out.shape[0]:
            s = group
            while s < sums.shape[0]:
                four = load4(sums, (s, row, column))
                x0, x1, x2, x3 = x0 + four[0], x1 + four[1], x2 + four[2], x3 + four[3]
                s = int32(s + GROUPS)
        if shared:
            parts[group, 0, mine], parts[group, 1, mine] = x0, x1
            parts[group, 2, mine], parts[group, 3, mine] = x2, x3
            cuda.syncthreads()
            if group == 0:
                for s in range(1, GROUPS):
                    x0 += parts[s, 0, mine]
                    x1 += parts[s, 1, mine]
                    x2 += parts[s, 2, mine]
                    x3 += parts[s, 3, mine]
        if group == 0 and row < out.shape[0]:
            found = x0, x1, x2, x3
            for e in range(FOUR):
                c = int32(column + e)
                if c < out.shape[1]:
                    store(out, (row, c), ELEMENT(finished(found[e], bias, other, row, c)))

    return gemm_finish


def workspace_for(splits: int, out: Array) -> Array:
    """Memory for partial sums: float32 (splits, rows, columns), rows padded to 16 bytes."""
    rows, columns = out.shape
    return workspace((splits, rows, round_up(columns, FOUR)), np.float32)


def launches(sums: Array, bias: Array | None, residual: Array | None, out: Array,
             activation: str) -> list[Launch]:  # fmt: skip
    """The launch that adds the partial sums of a product and finishes its results."""
    splits, rows, pitch = sums.shape
    shared = splits > SHARED_FROM
    epilogue_of = activation, bias is not None, residual is not None
    kernel = finish(name_of(out.dtype), epilogue_of, shared)
    extra = or_anything(bias, residual, out)
    blocks = ceil_div(rows * pitch // FOUR, THREADS // SHARE if shared else THREADS)
    return [Launch(kernel, blocks, THREADS, (sums, *extra, out))]
