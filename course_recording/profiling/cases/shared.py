# ruff: noqa: D103 - the names say it
"""Blocks that share memory: tiles, scans, sorts, queues; conflicts of every width."""

from __future__ import annotations

import numpy as np
from numba import boolean, complex64, float32, float64, int8, int16, int32, int64, uint8

from course.backend import cuda
from course_recording.profiling.cases.accesses import numbers, scattered, shuffled
from course_recording.profiling.cases.noted import Cases, zeros

CASES = Cases()
EDGE = 8
HALO = EDGE + 2


@CASES(3, 64, zeros(192), numbers(192))
@cuda.jit
def reversed_blocks(out, x):
    tile = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t] = x[i]
    cuda.syncthreads()
    out[i] = tile[63 - t]


@CASES(4, 32, zeros(128, "i4"), numbers(128, "i4"))
@cuda.jit
def running_sums(out, x):
    """The scan of Hillis and Steele, double-buffered."""
    buffers = cuda.shared.array((2, 32), int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    value = x[i]
    buffers[0, t] = value
    cuda.syncthreads()
    source, distance = 0, 1
    while distance < 32:
        if t >= distance:
            value += buffers[source, t - distance]
        source = 1 - source
        buffers[source, t] = value
        cuda.syncthreads()
        distance *= 2
    out[i] = value


@CASES(3, 32, zeros(192, "f8"), numbers(192, "f8"))
@cuda.jit
def work_efficient_scan(out, x):
    """Blelloch's scan: up the tree and down, two elements for each thread."""
    tree = cuda.shared.array(64, float64)
    t, first = cuda.threadIdx.x, cuda.blockIdx.x * 64
    tree[t] = x[first + t]
    tree[t + 32] = x[first + t + 32]
    step, width = 1, 32
    while width > 0:
        cuda.syncthreads()
        if t < width:
            tree[step * (2 * t + 2) - 1] += tree[step * (2 * t + 1) - 1]
        step *= 2
        width //= 2
    if t == 0:
        tree[63] = 0
    width = 1
    while width < 64:
        step //= 2
        cuda.syncthreads()
        if t < width:
            left, right = step * (2 * t + 1) - 1, step * (2 * t + 2) - 1
            low, high = tree[left], tree[right]
            tree[left] = high
            tree[right] = low + high
        width *= 2
    cuda.syncthreads()
    out[first + t] = tree[t]
    out[first + t + 32] = tree[t + 32]


@CASES(4, 64, zeros(4), numbers(250))
@cuda.jit
def block_sums(out, x):
    """A tree: half of the threads add, then a quarter."""
    tile = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t] = x[i] if i < x.size else float32(0)
    cuda.syncthreads()
    half = cuda.blockDim.x >> 1
    while half > 0:
        if t < half:
            tile[t] += tile[t + half]
        cuda.syncthreads()
        half >>= 1
    if t == 0:
        out[cuda.blockIdx.x] = tile[0]


@CASES(2, 32, zeros(64, "i4"), shuffled(64, 37, 3))
@cuda.jit
def bitonic_sort(out, x):
    keys = cuda.shared.array(32, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    keys[t] = x[i]
    cuda.syncthreads()
    size = 2
    while size <= 32:
        step = size >> 1
        while step > 0:
            other = t ^ step
            if other > t:
                mine, its = keys[t], keys[other]
                if (mine > its) == ((t & size) == 0):
                    keys[t] = its
                    keys[other] = mine
            cuda.syncthreads()
            step >>= 1
        size *= 2
    out[i] = keys[t]


@CASES(3, 31, zeros(93, "i2"), shuffled(93, 37, 1).astype("i2"))
@cuda.jit
def odd_even_sort(out, x):
    """Pairs of neighbours alternate, with an odd number of elements."""
    keys = cuda.shared.array(31, int16)
    i, t = cuda.grid(1), cuda.threadIdx.x
    keys[t] = x[i]
    cuda.syncthreads()
    for phase in range(31):
        if t % 2 == phase % 2 and t + 1 < 31:
            left, right = keys[t], keys[t + 1]
            keys[t] = min(left, right)
            keys[t + 1] = max(left, right)
        cuda.syncthreads()
    out[i] = keys[t]


@CASES((4, 3), (HALO, HALO), zeros((21, 29)), numbers((21, 29)))
@cuda.jit
def blurred_tiles(out, image):
    """A tile with a halo: threads of the halo only load."""
    tile = cuda.shared.array((HALO, HALO), float32)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    row, column = cuda.blockIdx.y * EDGE + i - 1, cuda.blockIdx.x * EDGE + j - 1
    if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
        tile[i, j] = image[row, column]
    else:
        tile[i, j] = 0
    cuda.syncthreads()
    inner = 0 < i < HALO - 1 and 0 < j < HALO - 1
    if inner and row < image.shape[0] and column < image.shape[1]:
        out[row, column] = tile[i - 1, j] + tile[i + 1, j] + tile[i, j - 1] + tile[i, j + 1]


@CASES((3, 2), (16, 16), zeros((32, 48), "i4"), numbers((32, 40), "i4"), numbers((40, 48), "i4"))
@cuda.jit
def tiled_integer_product(out, a, b):
    """Both tiles are indexed by depth first, so that a thread's words never lie side by side."""
    left = cuda.shared.array((8, 17), int32)
    right = cuda.shared.array((8, 16), int32)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = int32(0)
    for first in range(0, a.shape[1], 8):
        if j < 8:
            left[j, i] = a[row, first + j]
        if i < 8:
            right[i, j] = b[first + i, column]
        cuda.syncthreads()
        for k in range(8):
            total += left[k, i] * right[k, j]
        cuda.syncthreads()
    out[row, column] = total


@CASES(2, 64, zeros(128, "c8"), numbers(128, "c8"))
@cuda.jit
def complex_butterfly(out, z):
    """One step of a Fourier transform."""
    tile = cuda.shared.array(64, complex64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t] = z[i]
    cuda.syncthreads()
    mine, other = tile[t], tile[t ^ 8]
    sign = float32(1 - ((t >> 2) & 2))
    out[i] = other + mine * sign


@CASES(3, 32, zeros(96, "u1"), numbers(96, "u1"))
@cuda.jit
def bytes_four_apart(out, x):
    tile = cuda.shared.array(132, uint8)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[4 * t] = x[i]
    cuda.syncthreads()
    out[i] = tile[4 * (31 - t)]


@CASES((3, 2), (32, 4), zeros((64, 64), "i2"), numbers((64, 96), "i2"))
@cuda.jit
def short_transpose(out, image):
    """A tile of 16-bit elements, padded by one column."""
    tile = cuda.shared.array((32, 33), int16)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.blockIdx.x * 32, cuda.blockIdx.y * 32
    for step in range(0, 32, 4):
        tile[y + step, x] = image[row + y + step, column + x]
    cuda.syncthreads()
    for step in range(0, 32, 4):
        if column + y + step < out.shape[0]:
            out[column + y + step, row + x] = tile[x, y + step]


@CASES(2, (8, 4, 2), zeros((2, 2, 4, 8), "f8"), numbers((2, 2, 4, 8), "f8"))
@cuda.jit
def cube_corners(out, x):
    """Three axes in shared memory, read in another order."""
    cube = cuda.shared.array((2, 4, 8), float64)
    i, j, k = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
    cube[k, j, i] = x[cuda.blockIdx.x, k, j, i]
    cuda.syncthreads()
    flat = i + 8 * (j + 4 * k)
    out[cuda.blockIdx.x, k, j, i] = cube[flat & 1, flat >> 1 & 3, flat >> 3]


@CASES(3, 64, zeros(3, "i4"), zeros(3, "i4"), zeros(192, "i4"), numbers(192, "i4"))
@cuda.jit
def votes_of_blocks(counts, alike, some, x):
    i = cuda.grid(1)
    value = x[i]
    above = cuda.syncthreads_count(1 if value > 50 else 0)
    every = cuda.syncthreads_and(value + 1)
    any_of = cuda.syncthreads_or(value & 64)
    some[i] = any_of
    if cuda.threadIdx.x == 0:
        counts[cuda.blockIdx.x] = above
        alike[cuda.blockIdx.x] = every


@CASES(2, 96, zeros(192, "i4"), numbers(192, "i4"))
@cuda.jit
def stable_partition(out, x):
    """Flags, their running sums by one thread, and each element's new index."""
    flags = cuda.shared.array(96, boolean)
    places = cuda.shared.array(97, int32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    value = x[i]
    flags[t] = value % 2 == 0
    cuda.syncthreads()
    if t == 0:
        place = 0
        for k in range(96):
            places[k] = place
            if flags[k]:
                place += 1
        places[96] = place
    cuda.syncthreads()
    place = places[t] if flags[t] else places[96] + t - places[t]
    out[cuda.blockIdx.x * 96 + place] = value


@CASES(2, 64, zeros((2, 64), "i8"), scattered(128, 64, 3))
@cuda.jit
def scattered_words(out, index):
    """64-bit elements at random indices: bank conflicts of half-warps."""
    tile = cuda.shared.array(64, int64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[63 - t] = int64(t) * 3
    cuda.syncthreads()
    out[cuda.blockIdx.x, t] = tile[index[i]]


@CASES(1, 128, zeros(128), numbers(128), 17)
@cuda.jit
def table_lookup(out, x, step):
    """A table that all threads fill, and read with a stride."""
    table = cuda.shared.array(512, float32)
    t = cuda.threadIdx.x
    value = x[t]
    for k in range(4):
        table[t + 128 * k] = value * float32(k)
    cuda.syncthreads()
    out[t] = table[t * step % 512]


@CASES(3, (4, 16), zeros((3, 4)), numbers((3, 16, 4)))
@cuda.jit
def column_means(out, x):
    """Threads load a tile; those of its first row each add up a column."""
    tile = cuda.shared.array((16, 4), float32)
    j, i = cuda.threadIdx.x, cuda.threadIdx.y
    tile[i, j] = x[cuda.blockIdx.x, i, j]
    cuda.syncthreads()
    if i == 0:
        total = float32(0)
        for k in range(16):
            total += tile[k, j]
        out[cuda.blockIdx.x, j] = total / float32(16)


@CASES(3, 29, zeros(87, "i1"), numbers(87, "i1"))
@cuda.jit
def neighbours_of_bytes(out, x):
    """A block whose last warp is not full."""
    tile = cuda.shared.array(31, int8)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t + 1] = x[i]
    if t == 0:
        tile[0] = 0
        tile[30] = 0
    cuda.syncthreads()
    out[i] = tile[t] + tile[t + 2]


@CASES(2, 32, zeros(2, "i4"), numbers(128, "i4"), np.int32(60))
@cuda.jit
def breadth_first(out, x, limit):
    """A queue in shared memory, filled while it is emptied."""
    queue = cuda.shared.array(128, int32)
    length = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        queue[0] = 0
        length[0] = 1
    cuda.syncthreads()
    done, todo = 0, 1
    while done < todo:
        if done + t < todo:
            node = queue[done + t]
            for child in range(2 * node + 1, 2 * node + 3):
                if child < limit and x[child] % 5 != 0:
                    queue[cuda.atomic.add(length, 0, 1)] = child
        cuda.syncthreads()
        done, todo = todo, length[0]
        cuda.syncthreads()
    if t == 0:
        out[cuda.blockIdx.x] = done
