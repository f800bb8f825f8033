"""Small kernels on the way to wgmma and TMA, and what the lesson's cells are given for them."""

from __future__ import annotations

import inspect
import linecache
from typing import Any

import numpy as np
from numba import int32, uint64

from course import KernelError, cuda, trace
from course_lessons.edits import edited
from warpsim import ERRORS
from warpsim.ptx import (
    TensorMap,
    fence_mbarriers,
    mbarrier_expect,
    mbarrier_init,
    mbarrier_wait,
    tma_load,
)

TILE = 64 * 64  # elements, of rows of 128 bytes
GPU = "H200"


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


# --- one box by TMA, in an order that is given ----------------------------------------------------

STEPS = ("init", "fence", "barrier", "expect", "load", "wait")


@cuda.jit
def box_by_steps(order, size, box, out):
    """Bring a box of a matrix to shared memory, and store it row by row; 128 threads."""
    tile = cuda.shared.array(0, np.float16, alignment=1024)
    arrived = cuda.shared.array(1, uint64)
    t = cuda.threadIdx.x
    for n in range(order.size):
        if order[n] == 0 and t == 0:
            mbarrier_init(arrived, 0, 1)
        if order[n] == 1:
            fence_mbarriers()
        if order[n] == 2:
            cuda.syncthreads()
        if order[n] == 3 and t == 0:
            mbarrier_expect(arrived, 0, size)
        if order[n] == 4 and t == 0:
            tma_load(tile, 0, box, (0, 0), arrived, 0)
        if order[n] == 5:
            mbarrier_wait(arrived, 0, 0)
    for n in range(t, out.size, 128):
        row, column = n // 64, n % 64
        out[row, column] = tile[64 * row + (column // 8 ^ row % 8) * 8 + column % 8]


def try_box(order: list[str], size: int, rows: int) -> str | None:
    """What is wrong when a box of rows x 64 halves is brought in this order; None for nothing."""
    if order.index("fence") < order.index("init"):  # the simulator knows no barrier by its fence
        return "The fence makes a barrier known to TMA that has been initialised before it."
    x = np.random.default_rng(17).standard_normal((rows, 64)).astype(np.float16)
    out = np.zeros((rows, 64), np.float16)
    numbers = np.array([STEPS.index(name) for name in order], np.int32)
    box = TensorMap(cuda.to_device(x), rows, 64)
    try:
        report = trace(box_by_steps, 1, 128, numbers, int32(size), box, out,
                       dynamic_shared=128 * rows, gpu=GPU)  # fmt: skip
    except KernelError as error:
        return str(error.finding)
    if faults := [finding for finding in report.findings if finding.kind in ERRORS]:
        return str(faults[0])
    return None if np.array_equal(out, x) else "The box that arrived is not what was asked for."


# --- roles, and lines that are changed ------------------------------------------------------------


def changed(kernel: Any, old: str, new: str) -> Any:
    """A kernel of which one text is another.

    Raises
    ------
    ValueError
        When the old text is not there, or more than once.
    """
    function = kernel.py_func
    text = edited(inspect.getsource(function), [(old, new)], function.__name__)
    file = f"<{function.__name__} with {new!r}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    names = dict(function.__globals__)
    exec(compile(text, file, "exec"), names)
    return names[function.__name__]


def try_product(kernel: Any, steps: int = 5) -> str:
    """Launch a product of 64 x 64 sums and 64 steps of k; its error, or what the trace finds."""
    rng = np.random.default_rng(17)
    a, b = (rng.standard_normal((64, 64 * steps)).astype(np.float16) for _ in range(2))
    out = np.zeros((64, 64), np.float32)
    maps = (TensorMap(cuda.to_device(x), 64, 64) for x in (a, b))
    try:
        report = trace(kernel, 1, 256, *maps, out, int32(steps), dynamic_shared=8 * TILE, gpu=GPU)
    except KernelError as error:
        return str(error.finding)
    if faults := [finding for finding in report.findings if finding.kind in ERRORS]:
        return str(faults[0])
    right = a.astype(np.float64) @ b.astype(np.float64).T
    return f"no finding, largest error {np.abs(out - right).max() / np.abs(right).max():.0e}"
