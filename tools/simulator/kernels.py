"""Kernels that the simulator is timed with: the course's first ones, and programs of users.

Each `Case` is a launch. With NUMBA_ENABLE_CUDASIM=1 the kernels are those of Numba's own simulator.
"""

from __future__ import annotations

import linecache
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numba import float32, int32

if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
    from numba import cuda
    from numba.cuda import random
else:
    from warpsim import cuda
    from warpsim.cuda import random

TILE = 16


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


# ---------------------------------------------------------------------- programs of users
@cuda.jit
def reduction(x, out):
    """Strided loop, shuffles, a sum for each warp, an atomic for each block."""
    warps = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    for step in (16, 8, 4, 2, 1):
        total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
    if t % 32 == 0:
        warps[t // 32] = total
    cuda.syncthreads()
    if t < 32:
        total = warps[t] if t < cuda.blockDim.x // 32 else float32(0)
        for step in (16, 8, 4, 2, 1):
            total += cuda.shfl_down_sync(0xFFFFFFFF, total, step)
        if t == 0:
            cuda.atomic.add(out, 0, total)


@cuda.jit
def histogram(x, out):
    """Atomics in shared memory, then in global memory."""
    bins = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    bins[t] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(bins, x[i], 1)
    cuda.syncthreads()
    cuda.atomic.add(out, t, bins[t])


@cuda.jit
def stencil(a, b):
    """The mean of four neighbours; x walks rows, as in many a first kernel."""
    i, j = cuda.grid(2)
    if 1 <= i < a.shape[0] - 1 and 1 <= j < a.shape[1] - 1:
        b[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])


@cuda.jit
def bitonic(x):
    """Sorts 1,024 elements a block in shared memory."""
    s = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    base = cuda.blockIdx.x * 1024
    s[t] = x[base + t]
    s[t + 512] = x[base + t + 512]
    cuda.syncthreads()
    k = 2
    while k <= 1024:
        j = k >> 1
        while j > 0:
            i = 2 * j * (t // j) + t % j
            if (s[i] > s[i + j]) == ((i & k) == 0):
                s[i], s[i + j] = s[i + j], s[i]
            cuda.syncthreads()
            j >>= 1
        k <<= 1
    x[base + t] = s[t]
    x[base + t + 512] = s[t + 512]


@cuda.jit
def odd_even(x):
    """Sorts an array in one block, by swaps of neighbours in global memory."""
    t = cuda.threadIdx.x
    for phase in range(x.shape[0]):
        i = 2 * t + phase % 2
        if i + 1 < x.shape[0] and x[i] > x[i + 1]:
            x[i], x[i + 1] = x[i + 1], x[i]
        cuda.syncthreads()


@cuda.jit(device=True)
def pull(xi, yi, zi, xj, yj, zj, mass):
    """What one body pulls another with."""
    dx, dy, dz = xj - xi, yj - yi, zj - zi
    d = dx * dx + dy * dy + dz * dz + 0.01
    f = mass / math.sqrt(d * d * d)
    return f * dx, f * dy, f * dz


@cuda.jit
def n_body(at, mass, out):
    """One thread a body, which looks at all others."""
    i = cuda.grid(1)
    if i >= at.shape[0]:
        return
    x = y = z = 0.0
    for j in range(at.shape[0]):
        p = pull(at[i, 0], at[i, 1], at[i, 2], at[j, 0], at[j, 1], at[j, 2], mass[j])
        x += p[0]
        y += p[1]
        z += p[2]
    out[i, 0], out[i, 1], out[i, 2] = x, y, z


@cuda.jit
def monte_carlo(states, n, out):
    """Pi, by random points."""
    t = cuda.grid(1)
    inside = 0
    for _ in range(n):
        x = random.xoroshiro128p_uniform_float32(states, t)
        y = random.xoroshiro128p_uniform_float32(states, t)
        if x**2 + y**2 <= 1.0:
            inside += 1
    out[t] = 4.0 * inside / n


@cuda.jit
def mandelbrot(out, most):
    """A loop that each thread leaves at its own time; complex numbers."""
    x, y = cuda.grid(2)
    c = complex(-2.0 + 2.6 * x / out.shape[1], -1.0 + 2.0 * y / out.shape[0])
    z = 0.0j
    for i in range(most):
        z = z * z + c
        if z.real * z.real + z.imag * z.imag >= 4:
            out[y, x] = i
            break


def of_lines(count: int) -> FunctionType:
    """A kernel whose body has so many lines, one like the other; another one at each call."""
    body = "    t = t * x[i] + x[0]\n" * count
    text = f"def lines(x, out):\n    i = cuda.grid(1)\n    t = x[i]\n{body}    out[i] = t\n"
    name = f"<{count} lines>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    found: dict[str, Any] = {"cuda": cuda}
    exec(compile(text, name, "exec"), found)
    return found["lines"]


# ---------------------------------------------------------------------- launches
@dataclass(frozen=True)
class Case:
    """A kernel, its grid and block, and a function that makes its arguments.

    ``sorts``: it changes what it reads, so each launch gets arguments as they were at first.
    """

    kernel: Any
    grid: Any
    block: Any
    make: Callable[[], tuple]
    sorts: bool = False

    def _launch(self, how: Callable[..., object]) -> Callable[[], object]:
        arguments = self.make()
        if self.sorts:
            return lambda: how(*(argument.copy() for argument in arguments))
        return lambda: how(*arguments)

    def plain(self) -> Callable[[], object]:
        """A launch, to be called."""
        return self._launch(self.kernel[self.grid, self.block])

    def traced(self) -> Callable[[], object]:
        """The same, traced."""
        from warpsim import trace

        return self._launch(lambda *given: trace(self.kernel, self.grid, self.block, *given))


def product(kernel: Any, size: int, k: int) -> Case:
    """An image of so many pixels a side, from k singular values."""
    rng = np.random.default_rng(0)
    blocks = -(-size // TILE)

    def make() -> tuple:
        u, s, vt = (rng.random(shape, np.float32) for shape in ((size, k), k, (k, size)))
        return u, s, vt, np.zeros((size, size), np.float32), k

    return Case(kernel, (blocks, blocks), (TILE, TILE), make)


def of_users() -> dict[str, Case]:
    """Launches of users' programs, of some ms each."""
    rng = np.random.default_rng(1)

    def f4(*shape: int) -> np.ndarray:
        return rng.random(shape, np.float32)

    return {
        "reduction": Case(reduction, 128, 256, lambda: (f4(1 << 19), np.zeros(1, np.float32))),
        "histogram": Case(
            histogram, 64, 256,
            lambda: (rng.integers(0, 256, 1 << 17, np.int32), np.zeros(256, np.int32)),
        ),
        "stencil": Case(stencil, (24, 24), (16, 16), lambda: (f4(384, 384), f4(384, 384))),
        "bitonic sort": Case(bitonic, 16, 512, lambda: (f4(1 << 14),), True),
        "odd-even sort": Case(odd_even, 1, 256, lambda: (f4(512),), True),
        "n-body": Case(n_body, 4, 128, lambda: (rng.random((512, 3)), rng.random(512),
                                                np.zeros((512, 3)))),
        "xoroshiro": Case(
            monte_carlo, 64, 64,
            lambda: (random.create_xoroshiro128p_states(4096, 1), 20, np.zeros(4096)),
        ),
        "mandelbrot": Case(
            mandelbrot, (16, 16), (16, 16), lambda: (np.zeros((256, 256), np.int32), 40)
        ),
    }  # fmt: skip
