"""Two experiments of lesson 03 on the reader's GPU: one launch in six ways, kernels by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from course import measure
from course.backend import cuda
from course.kernels.reconstruct import reconstruct_naive, reconstruct_original
from course.measure.timing import Timing, benchmark

BLOCKS = (8, 8), (16, 16), (32, 8), (32, 32)
SHAPE = "2048x2048x256"  # rows, columns, k of `by_block`


def six_ways(host: Sequence[np.ndarray], k: int) -> dict[str, float]:
    """Return the times [ms] of one launch, as they are taken and mistaken.

    Parameters
    ----------
    host : sequence of ndarray
        u, s and vt, (rows, k), (k,) and (k, rows), float32.
    k : int
        How many layers are summed.
    """
    rows = len(host[0])
    image = np.zeros((rows, rows), np.float32)
    there = [cuda.to_device(part) for part in (*host, image)]
    wide = [cuda.to_device(part.astype(np.float64)) for part in (*host, image)]
    launch = cuda.jit(reconstruct_original.py_func)[_grid(rows, (16, 16)), (16, 16)]  # to compile
    there.insert(3, k)
    wide.insert(3, k)
    return {
        "first call": _clocked(launch, *host, k, image),
        "copies inside": _clocked(launch, *host, k, image),
        "float64 arrays": benchmark(launch, *wide).median,
        "synchronize": _clocked(launch, *there),
        "events, queued": benchmark(launch, *there).median,
        "no synchronize": _clocked(launch, *there, wait=False),
    }


def by_block(arrays: Sequence[Any], bytes: int) -> list[Timing]:
    """Time the naive and the project's kernel by block; keep the times as the reader's.

    Parameters
    ----------
    arrays : sequence of device arrays
        u, s, vt and the image, of the sizes in `SHAPE`.
    bytes : int
        That must be moved.
    """
    rows, _, k = map(int, SHAPE.split("x"))
    steps = rows * rows * k
    amounts = {
        reconstruct_naive: {"float32": 3 * steps},
        reconstruct_original: {"float32": 2 * steps, "float64": steps},
    }
    *factors, image = arrays
    timings = [
        benchmark(
            kernel[_grid(rows, block), block], *factors, k, image, bytes=bytes,
            operations=operations, name=f"{kernel.py_func.__name__} {block[0]}x{block[1]}",
            seconds=0.3,
        )
        for block in BLOCKS
        for kernel, operations in amounts.items()
    ]  # fmt: skip
    if timings[0].n:
        figures = [measure.figure_of(timing, "reconstruct", SHAPE) for timing in timings]
        measure.keep("measuring", figures)
    return timings


def _grid(rows: int, block: tuple[int, int]) -> tuple[int, int]:
    return -(-rows // block[0]), -(-rows // block[1])


def _clocked(function: Callable[..., Any], *arguments: Any, wait: bool = True) -> float:
    """The time of one call by the host's clock [ms], waited for or not."""
    cuda.synchronize()
    start = perf_counter()
    function(*arguments)
    if wait:
        cuda.synchronize()
    return 1e3 * (perf_counter() - start)
