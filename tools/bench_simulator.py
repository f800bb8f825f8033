"""How fast the simulator is, beside Numba's own, on the machine in front of you.

Usage: python tools/bench_simulator.py [--quick]

Numba's simulator runs in a process of its own, as it replaces ``numba.cuda``. Times are medians of
several runs after a first one (which translates the kernel); the simulator's times say nothing
about a GPU.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
from numba import float32

TILE = 16

if __name__ == "__main__" and "--numba" in sys.argv:
    from numba import cuda
else:
    from warpsim import cuda


@cuda.jit
def naive(u, s, vt, out, k):
    """One thread an element; x walks along columns."""
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@cuda.jit
def tiled(u, s, vt, out, k):
    """As ``naive``, through tiles in shared memory."""
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    col, row = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for start in range(0, k, TILE):
        left[y, x] = float32(0)
        right[y, x] = float32(0)
        if row < u.shape[0] and start + x < k:
            left[y, x] = u[row, start + x] * s[start + x]
        if col < vt.shape[1] and start + y < k:
            right[y, x] = vt[start + y, col]
        cuda.syncthreads()
        for i in range(TILE):
            total += left[y, i] * right[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@cuda.jit
def layer_norm(x, out):
    """One warp a row: sums by shuffles."""
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x
    total = float32(0)
    squares = float32(0)
    for j in range(lane, x.shape[1], 32):
        total += x[row, j]
        squares += x[row, j] * x[row, j]
    step = 16
    while step > 0:
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, step)
        squares += cuda.shfl_xor_sync(0xFFFFFFFF, squares, step)
        step >>= 1
    mean = total / float32(x.shape[1])
    scale = float32(1) / (squares / float32(x.shape[1]) - mean * mean) ** float32(0.5)
    for j in range(lane, x.shape[1], 32):
        out[row, j] = (x[row, j] - mean) * scale


@cuda.jit
def add(x, y, out):
    """One thread an element."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


def factors(size: int, k: int) -> list:
    rng = np.random.default_rng(0)
    return [
        rng.random((size, k), dtype=np.float32),
        rng.random(k, dtype=np.float32),
        rng.random((k, size), dtype=np.float32),
        np.zeros((size, size), np.float32),
        k,
    ]


def seconds(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """First call and median of the others."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times[0], statistics.median(times[1:])


def launch(kernel, size: int, k: int) -> Callable[[], object]:
    arguments, blocks = factors(size, k), -(-size // TILE)
    return lambda: kernel[(blocks, blocks), (TILE, TILE)](*arguments)


def numba_seconds(size: int, k: int) -> float:
    """The same kernel in Numba's simulator, in a process of its own."""
    command = [sys.executable, __file__, "--numba", str(size), str(k)]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    found = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(found.stdout)


def main(quick: bool) -> int:
    """Measure and print; the exit status says whether all bounds were kept."""
    from warpsim import trace

    rng = np.random.default_rng(1)
    x, y, out = (rng.random(256, dtype=np.float32) for _ in range(3))
    small, tiles, large = factors(256, 50), factors(256, 64), factors(2048, 10)
    rows_in = rng.random((256, 768), dtype=np.float32)
    rows_out = np.zeros_like(rows_in)
    rows: list[tuple[str, Callable[[], object], float, int]] = [
        ("add, 256 elements", lambda: add[1, 256](x, y, out), 200e-6, 200),
        ("naive 64x64, k = 50", launch(naive, 64, 50), 0.02, 20),
        ("naive 256x256, k = 50", launch(naive, 256, 50), 0.05, 10),
        ("naive 256x256, k = 50, traced",
         lambda: trace(naive, (16, 16), (16, 16), *small), 0.1, 5),
        ("tiled 256x256, k = 64", launch(tiled, 256, 64), 0.1, 5),
        ("tiled 256x256, k = 64, traced",
         lambda: trace(tiled, (16, 16), (16, 16), *tiles), 0.2, 5),
        ("LayerNorm by shuffles, 256x768",
         lambda: layer_norm[256, 32](rows_in, rows_out), 0.02, 5),
        ("naive 2048x2048, k = 10", launch(naive, 2048, 10), 1.0, 2),
        ("naive 2048x2048, k = 10, traced",
         lambda: trace(naive, (128, 128), (16, 16), *large), 2.0, 1),
        ("naive 1024x1024, k = 64", launch(naive, 1024, 64), 1.5, 1 if quick else 3),
    ]  # fmt: skip
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ",
        end="",
    )
    print(f"NumPy {np.__version__}")
    print(f"{'':34}{'first':>12}{'median':>12}{'bound':>12}")
    kept = True
    medians = {}
    for name, run, bound, repeats in rows:
        first, median = seconds(run, repeats)
        medians[name] = median
        kept &= median <= bound
        mark = "" if median <= bound else "  over the bound"
        print(f"{name:34}{first * 1e3:10.2f}ms{median * 1e3:10.3f}ms{bound * 1e3:10.2f}ms{mark}")
    theirs = numba_seconds(64, 50)
    ratio = theirs / medians["naive 64x64, k = 50"]
    kept &= ratio >= 300
    print(
        f"Numba's simulator, naive 64x64, k = 50: {theirs * 1e3:.0f} ms, {ratio:.0f} times as long"
    )
    return 0 if kept else 1


if __name__ == "__main__":
    if "--numba" in sys.argv:
        run = launch(naive, int(sys.argv[-2]), int(sys.argv[-1]))
        print(seconds(run, 1)[1])
        sys.exit()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one run of the largest case")
    sys.exit(main(parser.parse_args().quick))
