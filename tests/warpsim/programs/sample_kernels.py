"""Kernels as strangers write them, each with a launch and random arguments of awkward sizes.

``build(module)`` makes them for any module with the names of ``numba.cuda``: ours, Numba's own
simulator, or the real one. Run as a script it writes all results to an ``.npz`` file.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import boolean, float32, float64, int32, int64

TILE = 8
PADDED = 9
BINS = 16
TABLE = np.array([3.0, -1.0, 0.5, 2.0], np.float32)


@dataclass
class Sample:
    """A kernel, its launch, and its arguments."""

    kernel: object
    grid: object
    block: object
    arguments: Callable[[np.random.Generator], list]
    shared: int = 0
    on_simulators: bool = True  # Numba's simulator runs it, too


def build(module) -> dict[str, Sample]:
    """All samples for one module, which becomes the global name ``cuda`` of their kernels."""
    global cuda
    cuda = module
    samples: dict[str, Sample] = {}

    def sample(grid, block, arguments, **options):
        def keep(function):
            samples[function.__name__] = Sample(
                cuda.jit(function), grid, block, arguments, **options
            )

        return keep

    def f4(*shape):
        return lambda rng: rng.standard_normal(shape, dtype=np.float32)

    # ------------------------------------------------------------------ maps
    @sample(5, 32, lambda r: [f4(131)(r), f4(131)(r), np.zeros(131, np.float32)])
    def add(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i] + y[i]

    @sample(3, 33, lambda r: [f4(1000)(r), np.float32(1.5), np.zeros(1000, np.float32)])
    def grid_stride(x, a, out):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            out[i] = a * x[i] + float32(1)

    @sample((3, 2), (7, 5), lambda r: [f4(9, 17)(r), np.zeros((9, 17), np.float32)])
    def early_return(image, out):
        x, y = cuda.grid(2)
        if x >= image.shape[1] or y >= image.shape[0]:
            return
        out[y, x] = max(image[y, x], float32(0))

    @sample((2, 2, 2), (3, 4, 2), lambda r: [f4(6, 7, 3)(r), np.zeros((6, 7, 3), np.float32)])
    def three_axes(volume, out):
        i, j, k = cuda.grid(3)
        if i < volume.shape[0] and j < volume.shape[1] and k < volume.shape[2]:
            out[i, j, k] = volume[i, j, k] * (i + 10 * j + 100 * k)

    @sample(2, 20, lambda r: [np.zeros((2, 20), np.int32)])
    def by_hand(out):
        out[cuda.blockIdx.x, cuda.threadIdx.x] = (
            cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x + 100 * cuda.gridDim.x
        )

    # ------------------------------------------------------------------ numbers
    @sample(1, 64, lambda r: [r.integers(-50, 50, 64), np.zeros((64, 6), np.int64)])
    def integers(x, out):
        i = cuda.grid(1)
        v = x[i]
        out[i, 0] = v // 7
        out[i, 1] = v % 7
        out[i, 2] = v // -3
        out[i, 3] = v << 3
        out[i, 4] = v >> 2
        out[i, 5] = (v & 12) | (v ^ 5)

    @sample(1, 64, lambda r: [np.abs(f4(64)(r)) + 0.1, np.zeros((64, 9), np.float32)])
    def functions(x, out):
        i = cuda.grid(1)
        v = x[i]
        out[i, 0] = math.sqrt(v)
        out[i, 1] = math.exp(v)
        out[i, 2] = math.log(v)
        out[i, 3] = math.sin(v) + math.cos(v)
        out[i, 4] = math.tanh(v)
        out[i, 5] = math.pow(v, float32(1.5))
        out[i, 6] = math.erf(v)
        out[i, 7] = v**3 + abs(-v)
        out[i, 8] = math.atan2(v, float32(2)) + math.floor(v) + math.ceil(v)

    @sample(1, 96, lambda r: [f4(96)(r), np.zeros(96, np.uint8), np.zeros(96, np.bool_)])
    def narrow(x, small, flag):
        i = cuda.grid(1)
        small[i] = int(abs(x[i]) * 50)
        flag[i] = x[i] > 0 and x[i] < 1

    @sample(1, 40, lambda r: [r.integers(0, 2**32, 40, np.uint32), np.zeros(40, np.uint32)],
            on_simulators=False)  # fmt: skip
    def wrapping(seed, out):
        i = cuda.grid(1)
        state = np.uint32(seed[i])
        for _ in range(5):
            state = np.uint32(state * np.uint32(1664525) + np.uint32(1013904223))
        out[i] = state

    # ------------------------------------------------------------------ divergence
    @sample(2, 50, lambda r: [r.integers(1, 300, 90), np.zeros(90, np.int32)])
    def collatz(start, steps):
        i = cuda.grid(1)
        if i < start.size:
            n = start[i]
            count = 0
            while n != 1:
                if n % 2 == 0:
                    n = n // 2
                else:
                    n = 3 * n + 1
                count += 1
            steps[i] = count

    @sample((3, 3), (8, 8), lambda r: [np.zeros((20, 24), np.int32)])
    def mandelbrot(out):
        j, i = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            x0, y0 = j / 12.0 - 1.5, i / 10.0 - 1.0
            x = 0.0
            y = 0.0
            for step in range(40):
                if x * x + y * y > 4:
                    break
                x, y = x * x - y * y + x0, 2 * x * y + y0
                out[i, j] = step

    @sample(2, 32, lambda r: [np.sort(f4(200)(r)), f4(50)(r), np.zeros(50, np.int64)])
    def binary_search(table, keys, found):
        i = cuda.grid(1)
        if i >= keys.size:
            return
        low, high = 0, table.size
        while low < high:
            middle = (low + high) // 2
            if table[middle] < keys[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low

    @sample(1, 64, lambda r: [r.integers(1, 99, (64, 2)), np.zeros(64, np.int64)])
    def greatest_divisor(pairs, out):
        i = cuda.grid(1)
        a, b = pairs[i, 0], pairs[i, 1]
        while b:
            a, b = b, a % b
        out[i] = a

    @sample(2, 40, lambda r: [f4(70, 5)(r), np.zeros(70, np.float32)])
    def skips(x, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            total = float32(0)
            for j in range(x.shape[1]):
                if x[i, j] < 0:
                    continue
                if total > 2:
                    break
                total += x[i, j]
            out[i] = total

    # ------------------------------------------------------------------ device functions
    @cuda.jit(device=True)
    def clamp(value, low, high):
        if value < low:
            return low
        if value > high:
            return high
        return value

    @cuda.jit(device=True)
    def first_above(row, limit):
        for j in range(row.shape[0]):
            if row[j] > limit:
                return j
        return -1

    @cuda.jit(device=True)
    def swap_min(values, a, b):
        if values[b] < values[a]:
            values[a], values[b] = values[b], values[a]

    @sample(1, 64, lambda r: [f4(60, 6)(r), np.zeros(60, np.int64), np.zeros(60, np.float32)])
    def device_functions(x, where, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            where[i] = first_above(x[i], float32(0.5))
            out[i] = clamp(x[i, 0], float32(-1), float32(1)) + clamp(
                x[i, 1], float32(0), float32(0.5)
            )

    # ------------------------------------------------------------------ local and constant memory
    @sample(1, 48, lambda r: [f4(40, 7)(r), np.zeros((40, 7), np.float32)])
    def insertion_sort(x, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            row = cuda.local.array(7, float32)
            for j in range(7):
                row[j] = x[i, j]
            for j in range(1, 7):
                value = row[j]
                k = j - 1
                while k >= 0 and row[k] > value:
                    row[k + 1] = row[k]
                    k -= 1
                row[k + 1] = value
            for j in range(7):
                out[i, j] = row[j]

    @sample(1, 48, lambda r: [f4(40, 4)(r)])
    def sorting_network(x):
        i = cuda.grid(1)
        if i < x.shape[0]:
            row = x[i]
            for a, b in ((0, 1), (2, 3), (0, 2), (1, 3), (1, 2)):
                swap_min(row, a, b)

    @sample(1, 32, lambda r: [r.integers(0, 4, 32), np.zeros(32, np.float32)])
    def constant_table(index, out):
        table = cuda.const.array_like(TABLE)
        i = cuda.grid(1)
        out[i] = table[index[i]] + table[3]

    # ------------------------------------------------------------------ shared memory
    @sample(4, 32, lambda r: [f4(128)(r), np.zeros(128, np.float32)])
    def reverse_block(x, out):
        buffer = cuda.shared.array(32, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        buffer[t] = x[i]
        cuda.syncthreads()
        out[i] = buffer[31 - t]

    @sample((3, 2), (TILE, TILE), lambda r: [f4(13, 20)(r), np.zeros((20, 13), np.float32)])
    def transpose(x, out):
        tile = cuda.shared.array((TILE, PADDED), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        col = cuda.blockIdx.x * TILE + tx
        row = cuda.blockIdx.y * TILE + ty
        if row < x.shape[0] and col < x.shape[1]:
            tile[ty, tx] = x[row, col]
        cuda.syncthreads()
        col = cuda.blockIdx.y * TILE + tx
        row = cuda.blockIdx.x * TILE + ty
        if row < out.shape[0] and col < out.shape[1]:
            out[row, col] = tile[tx, ty]

    @sample((3, 2), (TILE, TILE),
            lambda r: [f4(13, 19)(r), f4(19, 21)(r), np.zeros((13, 21), np.float32)])  # fmt: skip
    def tiled_product(a, b, out):
        left = cuda.shared.array((TILE, TILE), float32)
        right = cuda.shared.array((TILE, TILE), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        col, row = cuda.grid(2)
        total = float32(0)
        for start in range(0, a.shape[1], TILE):
            left[ty, tx] = float32(0)
            right[ty, tx] = float32(0)
            if row < a.shape[0] and start + tx < a.shape[1]:
                left[ty, tx] = a[row, start + tx]
            if start + ty < b.shape[0] and col < b.shape[1]:
                right[ty, tx] = b[start + ty, col]
            cuda.syncthreads()
            for k in range(TILE):
                total += left[ty, k] * right[k, tx]
            cuda.syncthreads()
        if row < out.shape[0] and col < out.shape[1]:
            out[row, col] = total

    @sample(5, 64, lambda r: [f4(300)(r), np.zeros(5, np.float32)])
    def tree_sum(x, out):
        part = cuda.shared.array(64, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        part[t] = x[i] if i < x.size else float32(0)
        cuda.syncthreads()
        step = 32
        while step > 0:
            if t < step:
                part[t] += part[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            out[cuda.blockIdx.x] = part[0]

    @sample(3, 32, lambda r: [r.integers(0, 9, 96), np.zeros(96, np.int64)])
    def scan(x, out):
        line = cuda.shared.array((2, 32), int64)
        i, t = cuda.grid(1), cuda.threadIdx.x
        now = 0
        line[now, t] = x[i]
        cuda.syncthreads()
        step = 1
        while step < 32:
            value = line[now, t]
            if t >= step:
                value += line[now, t - step]
            line[1 - now, t] = value
            now = 1 - now
            step *= 2
            cuda.syncthreads()
        out[i] = line[now, t]

    @sample(2, 40, lambda r: [f4(80)(r), np.zeros(80, np.float32)], shared=160)
    def dynamic_shared(x, out):
        buffer = cuda.shared.array(0, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        buffer[t] = x[i]
        cuda.syncthreads()
        out[i] = buffer[(t + 1) % cuda.blockDim.x]

    @sample(3, 50, lambda r: [r.integers(0, 2, 150).astype(np.int32), np.zeros((3, 3), np.int32)])
    def block_votes(x, out):
        i = cuda.grid(1)
        count = cuda.syncthreads_count(x[i])
        everyone = cuda.syncthreads_and(x[i] + 1)
        anyone = cuda.syncthreads_or(x[i])
        if cuda.threadIdx.x == 0:
            out[cuda.blockIdx.x, 0] = count
            out[cuda.blockIdx.x, 1] = everyone != 0
            out[cuda.blockIdx.x, 2] = anyone != 0

    # ------------------------------------------------------------------ atomics
    @sample(4, 32, lambda r: [r.integers(0, BINS, 120), np.zeros(BINS, np.int32)])
    def histogram(x, counts):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(counts, x[i], 1)

    @sample(4, 32, lambda r: [r.integers(0, BINS, 120), np.zeros(BINS, np.int32)])
    def shared_histogram(x, counts):
        mine = cuda.shared.array(BINS, int32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        if t < BINS:
            mine[t] = 0
        cuda.syncthreads()
        if i < x.size:
            cuda.atomic.add(mine, x[i], 1)
        cuda.syncthreads()
        if t < BINS:
            cuda.atomic.add(counts, t, mine[t])

    @sample(3, 32, lambda r: [f4(90)(r), np.full(2, 0, np.float32)])
    def extremes(x, out):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.max(out, 0, x[i])
            cuda.atomic.min(out, 1, x[i])

    @sample(3, 32, lambda r: [f4(90)(r), np.zeros(90, np.float32), np.zeros(1, np.int32)])
    def count_positive(x, ranks, counter):
        i = cuda.grid(1)
        if i < x.size and x[i] > 0:
            rank = cuda.atomic.add(counter, 0, 1)
            ranks[rank] = 1

    @sample(2, 32, lambda r: [r.integers(1, 100, 64).astype(np.int32), np.zeros(1, np.int32)])
    def maximum_by_cas(x, best):
        i = cuda.grid(1)
        seen = best[0]
        while x[i] > seen:
            before = cuda.atomic.cas(best, 0, seen, x[i])
            if before == seen:
                seen = x[i]
            else:
                seen = before

    # ------------------------------------------------------------------ mixtures
    @sample((2, 2), (8, 8), lambda r: [r.integers(0, 2, (14, 15)).astype(np.int32),
                                       np.zeros((14, 15), np.int32)])  # fmt: skip
    def life(now, later):
        col, row = cuda.grid(2)
        rows, cols = now.shape
        if row < rows and col < cols:
            alive = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if (di != 0 or dj != 0) and 0 <= row + di < rows and 0 <= col + dj < cols:
                        alive += now[row + di, col + dj]
            later[row, col] = 1 if alive == 3 or (alive == 2 and now[row, col] == 1) else 0

    @sample(2, 32, lambda r: [f4(50, 12)(r), f4(5)(r), np.zeros((50, 12), np.float32)])
    def stencil(x, weights, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            for j in range(x.shape[1]):
                total = 0.0
                for d, w in enumerate(weights):
                    k = min(max(j + d - 2, 0), x.shape[1] - 1)
                    total += w * x[i, k]
                out[i, j] = total

    @sample(1, 32, lambda r: [np.asfortranarray(f4(9, 4)(r)), np.zeros((4, 9), np.float32)])
    def column_major(x, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            for j in range(x.shape[1]):
                out[j, i] = x[i, j] + x.T[j, i]

    @sample(1, 32, lambda r: [f4(20, 10)(r), np.zeros(20, np.float32)])
    def slices(x, out):
        i = cuda.grid(1)
        if i < x.shape[0]:
            part = x[i, 2:9:3]
            out[i] = part[0] + part[1] + part[2] + x[i][-1] + part.shape[0]

    @sample(1, 32, lambda r: [f4(32)(r), np.zeros(32, np.float64), True, (2, 0.5)])
    def scalars_and_tuples(x, out, flag, pair):
        i = cuda.grid(1)
        a, b = pair
        out[i] = x[i] * a + b if flag else 0.0
        both = (x[i], float64(i)) + (1.0,)
        for part in (both[1], both[2]):
            out[i] += part

    @sample(1, 33, lambda r: [np.zeros(33, np.float64)])
    def variables_change_type(out):
        i = cuda.grid(1)
        t = 1
        if i % 3 == 0:
            t = 0.5
        out[i] = t
        t = i // 2
        for j in range(i % 4):
            t += 0.25 * j
            if t > 10:
                t = 3
                break
        out[i] += t

    @sample(1, 40, lambda r: [r.integers(0, 100, 40), np.zeros(40, np.bool_)])
    def primes(x, out):
        i = cuda.grid(1)
        n = x[i]
        prime = boolean(n > 1)
        d = 2
        while d * d <= n:
            if n % d == 0:
                prime = False
                break
            d += 1
        out[i] = prime

    return samples


def outputs(samples: dict[str, Sample], only_simulators: bool = False) -> dict[str, np.ndarray]:
    """Run all samples; every array argument of each, after the launch."""
    results = {}
    for number, (name, sample) in enumerate(samples.items()):
        if only_simulators and not sample.on_simulators:
            continue
        arguments = sample.arguments(np.random.default_rng(number))
        sample.kernel[sample.grid, sample.block, 0, sample.shared](*arguments)
        for position, value in enumerate(arguments):
            if isinstance(value, np.ndarray):
                results[f"{name} {position}"] = value
    return results


if __name__ == "__main__":
    from numba import cuda as numba_cuda

    np.savez(sys.argv[1], **outputs(build(numba_cuda), only_simulators="simulator" in sys.argv))
