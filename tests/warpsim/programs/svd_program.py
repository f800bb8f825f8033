"""A program as a notebook's cells, one after the other: an image from its SVD, on CPU and GPU."""

import math
import multiprocessing
import sys
from time import perf_counter

import numpy as np
from numba import cuda, float32, njit, prange, vectorize

SIZE, K = (int(word) for word in (sys.argv[1:] or ("64", "20")))
TPB = 16

# --- which machine is this
print("available:", cuda.is_available())
device = cuda.get_current_device()
print("device:", device.name.decode() if isinstance(device.name, bytes) else device.name)
print("compute capability:", device.compute_capability)
free, total = cuda.current_context().get_memory_info()
assert 0 < free <= total
cuda.detect()


# --- a first function on the GPU
@vectorize(["float32(float32, float32)"], target="cuda")
def add(a, b):
    return a + b


n = np.arange(1000, dtype=np.float32)
print("ufunc:", np.array_equal(add(n, n), 2 * n))

# --- an image and its decomposition
y, x = np.mgrid[:SIZE, :SIZE] / SIZE
image = (np.sin(9 * x) * np.cos(7 * y) + (x > y)).astype(np.float32)
U, s, Vt = np.linalg.svd(image, full_matrices=False)
expected = (U[:, :K] * s[:K]) @ Vt[:K]


# --- on the CPU
@njit(parallel=True)
def on_all_cores(U, s, Vt, k):
    rows, columns = U.shape[0], Vt.shape[1]
    out = np.zeros((rows, columns), dtype=np.float32)
    for i in prange(rows):
        for j in range(columns):
            for m in range(k):
                out[i, j] += U[i, m] * s[m] * Vt[m, j]
    return out


def one_row(i):
    return (U[i, :K] * s[:K]) @ Vt[:K]


by_row = np.array(list(map(one_row, range(SIZE))))
by_einsum = np.einsum("ik,k,kj->ij", U[:, :K], s[:K], Vt[:K])
for name, made in [("njit", on_all_cores(U, s, Vt, K)), ("rows", by_row), ("einsum", by_einsum)]:
    print(name + ":", np.allclose(made, expected, atol=1e-4))


# --- naive: a thread an element
@cuda.jit
def reconstruct_naive(U, s, Vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        temp_sum = 0.0
        for m in range(k):
            temp_sum += U[row, m] * s[m] * Vt[m, col]
        out[row, col] = temp_sum


# --- tiles in shared memory
@cuda.jit
def reconstruct_tiled(U, s, Vt, k, out):
    tile_u = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    tile_v = cuda.shared.array(shape=(TPB, TPB), dtype=float32)
    row, col = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for first in range((k + TPB - 1) // TPB):
        m = first * TPB
        if row < U.shape[0] and m + ty < k:
            tile_u[tx, ty] = U[row, m + ty] * s[m + ty]
        else:
            tile_u[tx, ty] = 0
        if col < Vt.shape[1] and m + tx < k:
            tile_v[tx, ty] = Vt[m + tx, col]
        else:
            tile_v[tx, ty] = 0
        cuda.syncthreads()
        for j in range(TPB):
            total += tile_u[tx, j] * tile_v[j, ty]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


# --- each block shape: copies in, kernel, copy out, timed apart
for kernel in (reconstruct_naive, reconstruct_tiled):
    for shape in [(8, 8), (16, 16), (32, 32)] if kernel is reconstruct_naive else [(TPB, TPB)]:
        start, end = cuda.event(), cuda.event()
        began = perf_counter()
        on_gpu = [cuda.to_device(np.ascontiguousarray(part)) for part in (U, s, Vt)]
        out = cuda.device_array((SIZE, SIZE), dtype=np.float32)
        grid = tuple(math.ceil(SIZE / threads) for threads in shape)
        start.record()
        kernel[grid, shape](*on_gpu, K, out)
        end.record()
        end.synchronize()
        cuda.event_elapsed_time(start, end)
        result = out.copy_to_host()
        assert perf_counter() > began
        print(kernel.__name__, shape, np.allclose(result, expected, atol=1e-4))

# --- a batch on streams, from pinned memory
images = [np.roll(image, shift, axis=1) for shift in range(4)]
streams = [cuda.stream() for _ in images]
results = [cuda.pinned_array((SIZE, SIZE), dtype=np.float32) for _ in images]
grid = (math.ceil(SIZE / TPB),) * 2
for one, stream, result in zip(images, streams, results):
    parts = np.linalg.svd(one, full_matrices=False)
    with cuda.pinned(*parts):
        on_gpu = [cuda.to_device(np.ascontiguousarray(part), stream=stream) for part in parts]
        out = cuda.device_array((SIZE, SIZE), dtype=np.float32, stream=stream)
        reconstruct_tiled[grid, (TPB, TPB), stream](*on_gpu, SIZE, out)
        out.copy_to_host(result, stream=stream)
cuda.synchronize()
good = [np.allclose(result, one, atol=1e-4) for one, result in zip(images, results)]
print("batch:", good, multiprocessing.cpu_count() > 0)
