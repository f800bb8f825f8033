"""Wrong answers to the exercises of lesson 05 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32, int32

from bug_zoo import Answers
from course import cuda

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right

BLOCK = 64
HALF = BLOCK // 2
RADIUS = 3
WINDOW = 2 * RADIUS + 1
WITH_HALO = BLOCK + 2 * RADIUS
TILE = 16
TOO_SMALL = 8
SIDE = 32
PADDED_SIDE = SIDE + 1
FULL = 0xFFFFFFFF
HALF_WARP = 0xFFFF
ZERO = np.float32(0)
ONE_SEVENTH = np.float32(1 / WINDOW)


# --- reverse-blocks -----------------------------------------------------------------------------


@wrong("reverse-blocks", "race", "buffer[63]", "cuda.syncthreads()", "Line 9")
@cuda.jit
def reverse_without_barrier(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = cuda.blockIdx.x * BLOCK
    count = min(BLOCK, x.size - first)
    if t < count:
        buffer[t] = x[i]
    if t < count:
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "race", "thread (63, 0, 0) reads too", "Line 6", "into the buffer")
@cuda.jit
def reverse_without_buffer(x):
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = cuda.blockIdx.x * BLOCK
    count = min(BLOCK, x.size - first)
    if t < count:
        x[i] = x[first + count - 1 - t]


@wrong("reverse-blocks", "race")
@cuda.jit
def reverse_with_syncwarp_only(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if t < count:
        buffer[t] = x[i]
    cuda.syncwarp()
    if t < count:
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "barrier-divergence", "100 elements", "let all threads wait")
@cuda.jit
def reverse_with_barrier_in_branch(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if i < x.size:
        buffer[t] = x[i]
        cuda.syncthreads()
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "out-of-bounds", "100 elements", "count")
@cuda.jit
def reverse_without_guard(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    buffer[t] = x[i]
    cuda.syncthreads()
    x[i] = buffer[BLOCK - 1 - t]


@wrong("reverse-blocks", "uninitialised-read", "100 elements", "count - 1 - t")
@cuda.jit
def reverse_full_blocks_only(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        buffer[t] = x[i]
    cuda.syncthreads()
    if i < x.size:
        x[i] = buffer[BLOCK - 1 - t]


@wrong("reverse-blocks", "out-of-bounds", "buffer[64]")
@cuda.jit
def reverse_off_by_one(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if t < count:
        buffer[t] = x[i]
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[count - t]


@wrong("reverse-blocks", "out-of-bounds", "192 elements", "buffer[64]")
@cuda.jit
def reverse_with_grid_index(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i = cuda.grid(1)
    if i < x.size:
        buffer[i] = x[i]
    cuda.syncthreads()
    if i < x.size:
        x[i] = buffer[x.size - 1 - i]


@wrong("reverse-blocks", "race", "192 elements", "of block (0, 0, 0)")
@cuda.jit
def reverse_reads_the_first_block(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if t < count:
        buffer[t] = x[t]
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "wrong-result", "100 elements", "the last 36 of 100")
@cuda.jit
def reverse_skips_the_last_block(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    full = (cuda.blockIdx.x + 1) * BLOCK <= x.size
    if full:
        buffer[t] = x[i]
    cuda.syncthreads()
    if full:
        x[i] = buffer[BLOCK - 1 - t]


@wrong("reverse-blocks", "typing", "compile-time constant")
@cuda.jit
def reverse_with_a_varying_shape(x):
    buffer = cuda.shared.array(cuda.blockDim.x, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if t < count:
        buffer[t] = x[i]
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "out-of-bounds", "buffer has size 32")
@cuda.jit
def reverse_with_half_a_buffer(x):
    buffer = cuda.shared.array(HALF, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if t < count:
        buffer[t] = x[i]
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "wrong-result", "as if it were full", "100 elements")
@cuda.jit
def reverse_the_last_block_as_if_full(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    buffer[BLOCK - 1 - t] = x[i] if i < x.size else ZERO
    cuda.syncthreads()
    if i < x.size:
        x[i] = buffer[t]


@wrong("reverse-blocks", "wrong-result", "It holds x, unchanged")
@cuda.jit
def reverse_twice(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = cuda.blockIdx.x * BLOCK
    count = min(BLOCK, x.size - first)
    if t < count:
        buffer[count - 1 - t] = x[i]
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "race", "buffer[63]", "cuda.syncthreads()", "Line 9")
@cuda.jit
def reverse_with_the_barrier_too_early(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = cuda.blockIdx.x * BLOCK
    count = min(BLOCK, x.size - first)
    cuda.syncthreads()
    if t < count:
        buffer[t] = x[i]
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "race", "192 elements", "Each block keeps to its own elements")
@cuda.jit
def reverse_the_whole_array(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        buffer[t] = x[x.size - 1 - i]
    cuda.syncthreads()
    if i < x.size:
        x[i] = buffer[t]


@wrong("reverse-blocks", "typing", "compile-time constant", "count is neither")
@cuda.jit
def reverse_with_a_buffer_of_count(x):
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    buffer = cuda.shared.array(count, float32)
    if t < count:
        buffer[t] = x[i]
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[count - 1 - t]


@wrong("reverse-blocks", "out-of-bounds", "192 elements", "min(BLOCK, x.size - first)")
@cuda.jit
def reverse_counts_all_that_is_left(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = x.size - cuda.blockIdx.x * BLOCK
    if t < count:
        buffer[t] = x[i]
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[count - 1 - t]


@right("reverse-blocks")
@cuda.jit
def reverse_by_swapping(x):
    first = cuda.blockIdx.x * BLOCK
    count = min(BLOCK, x.size - first)
    t = cuda.threadIdx.x
    if t < count // 2:
        left, right_one = x[first + t], x[first + count - 1 - t]
        x[first + t], x[first + count - 1 - t] = right_one, left


@right("reverse-blocks")
@cuda.jit
def reverse_with_early_return(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i >= x.size:
        return
    buffer[t] = x[i]
    cuda.syncthreads()
    x[i] = buffer[min(BLOCK, x.size - cuda.blockIdx.x * BLOCK) - 1 - t]


@right("reverse-blocks")
@cuda.jit
def reverse_fills_backwards(x):
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if t < count:
        buffer[count - 1 - t] = x[i]
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[t]


@right("reverse-blocks")
@cuda.jit
def reverse_with_one_value_and_a_barrier(x):
    first = cuda.blockIdx.x * BLOCK
    count = min(BLOCK, x.size - first)
    t = cuda.threadIdx.x
    value = ZERO
    if t < count:
        value = x[first + count - 1 - t]
    cuda.syncthreads()
    if t < count:
        x[first + t] = value


# --- blur-halo ----------------------------------------------------------------------------------


@wrong("blur-halo", "wrong-result|uninitialised-read", "halo|3 on either side")
@cuda.jit
def blur_without_halo(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t + RADIUS] = x[i] if i < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "wrong-result", "each block sums only its own elements")
@cuda.jit
def blur_with_an_empty_halo(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    for place in range(t, WITH_HALO, BLOCK):
        tile[place] = 0
    cuda.syncthreads()
    if i < x.size:
        tile[t + RADIUS] = x[i]
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "race", "cuda.syncthreads()")
@cuda.jit
def blur_without_barrier(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = i - t - RADIUS
    for place in range(t, WITH_HALO, BLOCK):
        element = first + place
        tile[place] = x[element] if 0 <= element < x.size else ZERO
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "wrong-result", "come round to the front")
@cuda.jit
def blur_wraps_around(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = i - t - RADIUS
    for place in range(t, WITH_HALO, BLOCK):
        tile[place] = x[first + place] if first + place < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "wrong-result", "cut off at the border")
@cuda.jit
def blur_divides_by_what_is_there(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = i - t - RADIUS
    for place in range(t, WITH_HALO, BLOCK):
        element = first + place
        tile[place] = x[element] if 0 <= element < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        number = int32(0)
        for place in range(t, t + WINDOW):
            if 0 <= first + place < x.size:
                total += tile[place]
                number += 1
        out[i] = total / float32(number)


@wrong("blur-halo", "out-of-bounds", "x ends at x.size - 1")
@cuda.jit
def blur_without_right_guard(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = i - t - RADIUS
    for place in range(t, WITH_HALO, BLOCK):
        tile[place] = x[first + place] if first + place >= 0 else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "out-of-bounds", "tile has size 64", "64 + 6 places")
@cuda.jit
def blur_with_a_tile_too_small(out, x):
    tile = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = i - t - RADIUS
    for place in range(t, WITH_HALO, BLOCK):
        element = first + place
        tile[place] = x[element] if 0 <= element < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "uninitialised-read", "All 70 places")
@cuda.jit
def blur_leaves_the_border_unfilled(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = i - t - RADIUS
    for place in range(t, WITH_HALO, BLOCK):
        if 0 <= first + place < x.size:
            tile[place] = x[first + place]
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "barrier-divergence", "1,003 elements")
@cuda.jit
def blur_with_barrier_under_the_guard(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < out.size:
        for place in range(t, WITH_HALO, BLOCK):
            element = i - t - RADIUS + place
            tile[place] = x[element] if 0 <= element < x.size else ZERO
        cuda.syncthreads()
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "limit", "into the tile")
@cuda.jit
def blur_without_tile(out, x):
    i = cuda.grid(1)
    if i < out.size:
        total = float32(0)
        for element in range(max(0, i - RADIUS), min(x.size, i + RADIUS + 1)):
            total += x[element]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "float64", "float32(7)")
@cuda.jit
def blur_divides_by_an_integer(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = i - t - RADIUS
    for place in range(t, WITH_HALO, BLOCK):
        element = first + place
        tile[place] = x[element] if 0 <= element < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / 7


@wrong("blur-halo", "wrong-result", "one element too early")
@cuda.jit
def blur_window_too_short(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = i - t - RADIUS
    for place in range(t, WITH_HALO, BLOCK):
        element = first + place
        tile[place] = x[element] if 0 <= element < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + 2 * RADIUS):
            total += tile[place]
        out[i] = total / float32(WINDOW)


@wrong("blur-halo", "input-modified", "x is an input", "write to out instead")
@cuda.jit
def blur_in_place(out, x):
    i = cuda.grid(1)
    if i < x.size:
        total = float32(0)
        for element in range(max(0, i - 3), min(x.size, i + 4)):
            total += x[element]
        x[i] = total / float32(7)
        out[i] = x[i]


@wrong("blur-halo", "wrong-result", "not that of this block")
@cuda.jit
def blur_with_the_wrong_right_halo(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t + 3] = x[i] if i < x.size else ZERO
    if t < 3:
        tile[t] = x[i - 3] if i >= 3 else ZERO
        tile[t + RADIUS + BLOCK] = x[i + 3] if i + 3 < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + 7):
            total += tile[place]
        out[i] = total / float32(7)


@wrong("blur-halo", "wrong-result", "begins at the element itself")
@cuda.jit
def blur_without_the_halo_offset(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    for place in range(t, WITH_HALO, BLOCK):
        element = i - t + place
        tile[place] = x[element] if element < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + 7):
            total += tile[place]
        out[i] = total / float32(7)


@wrong("blur-halo", "uninitialised-read", "1,003 elements", "tile[64]", "All 70 places")
@cuda.jit
def blur_steps_by_the_grid(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    for place in range(t, WITH_HALO, cuda.gridsize(1)):
        element = i - t - 3 + place
        tile[place] = x[element] if 0 <= element < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + 7):
            total += tile[place]
        out[i] = total / float32(7)


@wrong("blur-halo", "float64", "0.0 is float64")
@cuda.jit
def blur_with_float64_literals(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    for place in range(t, WITH_HALO, BLOCK):
        element = i - t - 3 + place
        tile[place] = x[element] if 0 <= element < x.size else 0.0
    cuda.syncthreads()
    if i < out.size:
        total = 0.0
        for place in range(t, t + 7):
            total += tile[place]
        out[i] = total / 7.0


@wrong("blur-halo", "wrong-result", "first is i - t")
@cuda.jit
def blur_fills_from_its_own_element(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    for place in range(t, WITH_HALO, BLOCK):
        element = i - 3 + place
        tile[place] = x[element] if 0 <= element < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + 7):
            total += tile[place]
        out[i] = total / float32(7)


@wrong("blur-halo", "wrong-result", "Only the first block")
@cuda.jit
def blur_of_the_first_block(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    for place in range(t, WITH_HALO, BLOCK):
        element = place - 3
        tile[place] = x[element] if 0 <= element < x.size else ZERO
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + 7):
            total += tile[place]
        out[i] = total / float32(7)


@right("blur-halo")
@cuda.jit
def blur_halo_by_the_outer_threads(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t + RADIUS] = x[i] if i < x.size else ZERO
    if t < RADIUS:
        left, beyond = i - RADIUS, i + BLOCK
        tile[t] = x[left] if left >= 0 else ZERO
        tile[t + RADIUS + BLOCK] = x[beyond] if beyond < x.size else ZERO
    cuda.syncthreads()
    if i >= out.size:
        return
    total = float32(0)
    for offset in range(-RADIUS, RADIUS + 1):
        total += tile[t + RADIUS + offset]
    out[i] = total * ONE_SEVENTH


@right("blur-halo")
@cuda.jit
def blur_halo_from_global_memory(out, x):
    tile = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        tile[t] = x[i]
    cuda.syncthreads()
    if i < x.size:
        total = float32(0)
        for offset in range(-RADIUS, RADIUS + 1):
            if 0 <= i + offset < x.size:
                if 0 <= t + offset < BLOCK:
                    total += tile[t + offset]
                else:
                    total += x[i + offset]
        out[i] = total / float32(WINDOW)


# --- reconstruct-tiled --------------------------------------------------------------------------


@wrong("reconstruct-tiled", "race", "Two barriers")
@cuda.jit
def tiled_without_first_barrier(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "race", "16 x 16, k = 32", "Two barriers")
@cuda.jit
def tiled_without_second_barrier(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "barrier-divergence", "Guard the loads and the last store")
@cuda.jit
def tiled_under_one_guard(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for start in range(0, k, TILE):
            u_tile[y, x] = u[row, start + x] * s[start + x] if start + x < k else ZERO
            vt_tile[y, x] = vt[start + y, col] if start + y < k else ZERO
            cuda.syncthreads()
            for i in range(TILE):
                total += u_tile[y, i] * vt_tile[i, x]
            cuda.syncthreads()
        out[row, col] = total


@wrong("reconstruct-tiled", "barrier-divergence", "32 x 16, k = 5")
@cuda.jit
def tiled_barrier_with_the_load(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        u_tile[y, x] = 0
        vt_tile[y, x] = 0
        if row < u.shape[0] and start + x < k:
            u_tile[y, x] = u[row, start + x] * s[start + x]
            cuda.syncthreads()
        if col < vt.shape[1] and start + y < k:
            vt_tile[y, x] = vt[start + y, col]
            cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "uninitialised-read", "Threads without a pixel fill, too")
@cuda.jit
def tiled_with_early_return(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    if row >= out.shape[0] or col >= out.shape[1]:
        return
    total = float32(0)
    for start in range(0, k, TILE):
        u_tile[y, x] = u[row, start + x] * s[start + x] if start + x < k else ZERO
        vt_tile[y, x] = vt[start + y, col] if start + y < k else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    out[row, col] = total


@wrong("reconstruct-tiled", "uninitialised-read", "0 where the tile sticks out")
@cuda.jit
def tiled_without_zero_fill(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        if row < u.shape[0] and start + x < k:
            u_tile[y, x] = u[row, start + x] * s[start + x]
        if col < vt.shape[1] and start + y < k:
            vt_tile[y, x] = vt[start + y, col]
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "filled anew")
@cuda.jit
def tiled_zeroes_before_the_loop_only(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    u_tile[y, x] = 0
    vt_tile[y, x] = 0
    for start in range(0, k, TILE):
        if row < u.shape[0] and start + x < k:
            u_tile[y, x] = u[row, start + x] * s[start + x]
        if col < vt.shape[1] and start + y < k:
            vt_tile[y, x] = vt[start + y, col]
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "the last tile reads past k")
@cuda.jit
def tiled_reads_past_k(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < s.size
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < s.size
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "the last tile reads past k")
@cuda.jit
def tiled_off_by_one_in_the_last_tile(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    last = min((k + TILE - 1) // TILE * TILE, s.size)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < last
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < last
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "out-of-bounds", "k = 33")
@cuda.jit
def tiled_guard_lets_one_more_in(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        first, second = start + x <= k, start + y < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if row < u.shape[0] and first else ZERO
        vt_tile[y, x] = vt[start + y, col] if col < vt.shape[1] and second else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "the last tile is left out")
@cuda.jit
def tiled_whole_tiles_only(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for tile in range(k // TILE):
        start = tile * TILE
        u_tile[y, x] = u[row, start + x] * s[start + x] if row < u.shape[0] else ZERO
        vt_tile[y, x] = vt[start + y, col] if col < vt.shape[1] else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "s is left out")
@cuda.jit
def tiled_without_s(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        u_tile[y, x] = u[row, start + x] if row < u.shape[0] and start + x < k else ZERO
        vt_tile[y, x] = vt[start + y, col] if col < vt.shape[1] and start + y < k else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "s is multiplied in twice")
@cuda.jit
def tiled_s_in_both_tiles(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] * s[start + y] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "s[x] instead of s[start + x]")
@cuda.jit
def tiled_first_part_of_s(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "start is missing in the index")
@cuda.jit
def tiled_same_tile_every_round(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, x] * s[x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "total starts again in every round")
@cuda.jit
def tiled_total_in_the_loop(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        total = float32(0)
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
        if row < out.shape[0] and col < out.shape[1]:
            out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "u_tile[y, i] * vt_tile[i, x]")
@cuda.jit
def tiled_reads_swapped_indices(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[i, y] * vt_tile[x, i]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "float64", "float32(0)")
@cuda.jit
def tiled_in_float64(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = 0.0
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "out-of-bounds", "axis 0 of u_tile has size 8", "16 x 16 threads")
@cuda.jit
def tiled_smaller_than_the_block(u, s, vt, k, out):
    u_tile = cuda.shared.array((TOO_SMALL, TOO_SMALL), float32)
    vt_tile = cuda.shared.array((TOO_SMALL, TOO_SMALL), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TOO_SMALL):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TOO_SMALL):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "limit", "the inner loop reads nothing but the two tiles")
@cuda.jit
def tiled_reads_s_in_the_inner_loop(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        u_tile[y, x] = u[row, start + x] if row < u.shape[0] and start + x < k else ZERO
        vt_tile[y, x] = vt[start + y, col] if col < vt.shape[1] and start + y < k else ZERO
        cuda.syncthreads()
        for i in range(min(TILE, k - start)):
            total += u_tile[y, i] * s[start + i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "limit", "only where you fill the tiles")
@cuda.jit
def tiled_not_at_all(u, s, vt, k, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct-tiled", "bank-conflict", "8.0 wavefronts", "Let x be the last index")
@cuda.jit
def tiled_x_on_the_rows(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row = cuda.blockIdx.y * TILE + x
    col = cuda.blockIdx.x * TILE + y
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + y < k
        u_tile[x, y] = u[row, start + y] * s[start + y] if inside else ZERO
        inside = col < vt.shape[1] and start + x < k
        vt_tile[x, y] = vt[start + x, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[x, i] * vt_tile[i, y]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "bank-conflict", "Let x be the last index")
@cuda.jit
def tiled_one_tile_on_its_side(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[x, y] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[x, i]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "race")
@cuda.jit
def tiled_sum_in_one_shared_place(u, s, vt, k, out):
    total = cuda.shared.array(1, float32)
    col, row = cuda.grid(2)
    total[0] = 0
    cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        for i in range(k):
            total[0] += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total[0]


@wrong("reconstruct-tiled", "uninitialised-read", "u_tile[0, 16]", "Every place of both tiles")
@cuda.jit
def tiled_larger_than_the_block(u, s, vt, k, out):
    u_tile = cuda.shared.array((SIDE, SIDE), float32)
    vt_tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, SIDE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(SIDE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "the last tile reads past k")
@cuda.jit
def tiled_guards_with_and_for_or(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        outside = row >= u.shape[0] and start + x >= k
        u_tile[y, x] = ZERO if outside else u[row, start + x] * s[start + x]
        outside = col >= vt.shape[1] and start + y >= k
        vt_tile[y, x] = ZERO if outside else vt[start + y, col]
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "transpose of the right one")
@cuda.jit
def tiled_image_transposed(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[1] and col < out.shape[0]:
        out[col, row] = total


@wrong("reconstruct-tiled", "out-of-bounds", "u_tile[16, 0]", "indices are y, x and i")
@cuda.jit
def tiled_indexed_by_row_and_col(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[row, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, col] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "out-of-bounds", "u_tile[0, 16]", "all below 16")
@cuda.jit
def tiled_inner_loop_to_k(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(k):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "wrong-result", "by 1 instead of 16")
@cuda.jit
def tiled_steps_by_one(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(k):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "limit", "Each pixel is stored once, after the last tile")
@cuda.jit
def tiled_stores_every_round(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
        if row < out.shape[0] and col < out.shape[1]:
            out[row, col] = total


@wrong("reconstruct-tiled", "race", "vt_tile[0, 0]", "Two barriers")
@cuda.jit
def tiled_barrier_between_the_fills(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        cuda.syncthreads()
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@wrong("reconstruct-tiled", "out-of-bounds", "13 x 37", "start + x < k")
@cuda.jit
def tiled_guards_k_without_start(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and x < k
        u_tile[y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and y < k
        vt_tile[y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@right("reconstruct-tiled")
@cuda.jit
def tiled_s_with_vt(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        u_tile[y, x] = u[row, start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        vt_tile[y, x] = vt[start + y, col] * s[start + y] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@right("reconstruct-tiled")
@cuda.jit
def tiled_double_buffer_one_barrier(u, s, vt, k, out):
    tiles = cuda.shared.array((2, 2, TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    now = 0
    for start in range(0, k, TILE):
        inside = row < u.shape[0] and start + x < k
        tiles[now, 0, y, x] = u[row, start + x] * s[start + x] if inside else ZERO
        inside = col < vt.shape[1] and start + y < k
        tiles[now, 1, y, x] = vt[start + y, col] if inside else ZERO
        cuda.syncthreads()
        for i in range(TILE):
            total += tiles[now, 0, y, i] * tiles[now, 1, i, x]
        now = 1 - now
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@right("reconstruct-tiled")
@cuda.jit
def tiled_waits_before_filling(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        cuda.syncthreads()
        u_tile[y, x] = 0
        vt_tile[y, x] = 0
        if row < u.shape[0] and start + x < k:
            u_tile[y, x] = u[row, start + x] * s[start + x]
        if col < vt.shape[1] and start + y < k:
            vt_tile[y, x] = vt[start + y, col]
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@right("reconstruct-tiled")
@cuda.jit
def tiled_without_zero_fill_in_k(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        depth = min(TILE, k - start)
        if row < u.shape[0] and x < depth:
            u_tile[y, x] = u[row, start + x] * s[start + x]
        if col < vt.shape[1] and y < depth:
            vt_tile[y, x] = vt[start + y, col]
        cuda.syncthreads()
        if row < out.shape[0] and col < out.shape[1]:
            for i in range(depth):
                total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


@right("reconstruct-tiled")
@cuda.jit
def tiled_reads_the_edge_again(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    near_row, near_col = min(row, u.shape[0] - 1), min(col, vt.shape[1] - 1)
    total = float32(0)
    for start in range(0, k, TILE):
        left, above = min(start + x, k - 1), min(start + y, k - 1)
        u_tile[y, x] = u[near_row, left] * s[left]
        vt_tile[y, x] = vt[above, near_col]
        cuda.syncthreads()
        for i in range(min(TILE, k - start)):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


# --- block-sums ---------------------------------------------------------------------------------


@wrong("block-sums", "race", "after filling the buffer")
@cuda.jit
def sums_without_first_barrier(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "race", "after every round")
@cuda.jit
def sums_without_barrier_in_the_loop(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "barrier-divergence", "outside of the if")
@cuda.jit
def sums_with_barrier_in_the_branch(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
            cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "race", "only the threads with t < step add")
@cuda.jit
def sums_without_the_guard_on_the_threads(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t + step < cuda.blockDim.x:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "out-of-bounds", "part[64]", "t < step")
@cuda.jit
def sums_without_any_guard_in_the_loop(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "uninitialised-read", "1,000 elements", "fill in a 0")
@cuda.jit
def sums_without_zeroes(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "out-of-bounds", "x[1000]", "Guard i")
@cuda.jit
def sums_without_guard_on_x(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i]
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "wrong-result", "the last round is missing")
@cuda.jit
def sums_one_round_too_few(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 1:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "limit", "Let many threads add at once")
@cuda.jit
def sums_by_one_thread(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for place in range(cuda.blockDim.x):
            total += part[place]
        out[cuda.blockIdx.x] = total


@wrong("block-sums", "race")
@cuda.jit
def sums_in_one_place(out, x):
    total = cuda.shared.array(1, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t == 0:
        total[0] = 0
    cuda.syncthreads()
    if i < x.size:
        total[0] += x[i]
    cuda.syncthreads()
    if t == 0:
        out[cuda.blockIdx.x] = total[0]


@wrong("block-sums", "unwritten-output", "cuda.blockIdx.x")
@cuda.jit
def sums_into_the_first_place_only(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if i == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "out-of-bounds|race", "size 32|part[")
@cuda.jit
def sums_of_a_fixed_size(out, x):
    part = cuda.shared.array(HALF, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "uninitialised-read", "total[0]", "starts at 0")
@cuda.jit
def sums_without_a_start(out, x):
    total = cuda.shared.array(1, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])
    cuda.syncthreads()
    if t == 0:
        out[cuda.blockIdx.x] = total[0]


@wrong("block-sums", "race", "total[0]", "cuda.syncthreads()")
@cuda.jit
def sums_by_atomics_without_the_last_barrier(out, x):
    total = cuda.shared.array(1, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t == 0:
        total[0] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])
    if t == 0:
        out[cuda.blockIdx.x] = total[0]


@wrong("block-sums", "barrier-divergence", "the mask 0xffff does not name its lane, 16")
@cuda.jit
def sums_by_shuffles_with_half_a_mask(out, x):
    i, t = cuda.grid(1), cuda.threadIdx.x
    part = cuda.shared.array(32, float32)
    value = x[i] if i < x.size else ZERO
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(HALF_WARP, value, step)
        step //= 2
    if t % 32 == 0:
        part[t // 32] = value
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for warp in range((cuda.blockDim.x + 31) // 32):
            total += part[warp]
        out[cuda.blockIdx.x] = total


@wrong("block-sums", "barrier-divergence", "1,000 elements", "A shuffle waits, too")
@cuda.jit
def sums_by_shuffles_under_the_guard(out, x):
    i, t = cuda.grid(1), cuda.threadIdx.x
    part = cuda.shared.array(32, float32)
    if i < x.size:
        value = x[i]
        step = 16
        while step > 0:
            value += cuda.shfl_down_sync(FULL, value, step)
            step //= 2
        if t % 32 == 0:
            part[t // 32] = value
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for warp in range((cuda.blockDim.x + 31) // 32):
            total += part[warp]
        out[cuda.blockIdx.x] = total


@wrong("block-sums", "wrong-result", "1 element, grid 1, block 16", "step begins at")
@cuda.jit
def sums_by_shuffles_over_32_lanes(out, x):
    # a block of 16 threads has no lanes 16 to 31
    i, t = cuda.grid(1), cuda.threadIdx.x
    part = cuda.shared.array(32, float32)
    value = x[i] if i < x.size else ZERO
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(FULL, value, step)
        step //= 2
    if t % 32 == 0:
        part[t // 32] = value
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for warp in range((cuda.blockDim.x + 31) // 32):
            total += part[warp]
        out[cuda.blockIdx.x] = total


@wrong("block-sums", "race", "part[1]", "nobody writes what another one reads")
@cuda.jit
def sums_of_neighbours_in_place(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else ZERO
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] = part[2 * t] + part[2 * t + 1]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "race", "out[0]", "thread 0 alone stores")
@cuda.jit
def sums_stored_by_all(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else ZERO
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    out[cuda.blockIdx.x] = part[t]


@wrong("block-sums", "endless-loop", "while step > 0")
@cuda.jit
def sums_forever(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else ZERO
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step >= 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "typing", "halve it with //")
@cuda.jit
def sums_with_true_division(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else ZERO
    cuda.syncthreads()
    step = cuda.blockDim.x / 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step /= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@wrong("block-sums", "out-of-bounds", "part[64]", "t < step")
@cuda.jit
def sums_from_a_whole_block(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else ZERO
    cuda.syncthreads()
    step = cuda.blockDim.x
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@right("block-sums")
@cuda.jit
def sums_of_neighbours_first(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = 1
    while step < cuda.blockDim.x:
        if t % (2 * step) == 0:
            part[t] += part[t + step]
        cuda.syncthreads()
        step *= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@right("block-sums")
@cuda.jit
def sums_with_barrier_at_the_start_of_a_round(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    step = cuda.blockDim.x // 2
    while step > 0:
        cuda.syncthreads()
        if t < step:
            part[t] += part[t + step]
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@right("block-sums")
@cuda.jit
def sums_with_the_last_warp_in_step(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        part[t] = x[i]
    else:
        part[t] = 0
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step >= 32:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t < 32:
        while step > 0:
            value = part[t] + part[t + step] if t < step else ZERO
            cuda.syncwarp()
            if t < step:
                part[t] = value
            cuda.syncwarp()
            step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


@right("block-sums")
@cuda.jit
def sums_by_shuffles(out, x):
    i, t = cuda.grid(1), cuda.threadIdx.x
    part = cuda.shared.array(32, float32)
    value = x[i] if i < x.size else ZERO
    step = min(cuda.blockDim.x, 32) // 2
    while step > 0:
        value += cuda.shfl_down_sync(FULL, value, step)
        step //= 2
    if t % 32 == 0:
        part[t // 32] = value
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for warp in range((cuda.blockDim.x + 31) // 32):
            total += part[warp]
        out[cuda.blockIdx.x] = total


@right("block-sums")
@cuda.jit
def sums_by_atomics(out, x):
    total = cuda.shared.array(1, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if t == 0:
        total[0] = 0
    cuda.syncthreads()
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])
    cuda.syncthreads()
    if t == 0:
        out[cuda.blockIdx.x] = total[0]


@right("block-sums")
@cuda.jit
def sums_stored_alike_by_all(out, x):
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    part[t] = x[i] if i < x.size else ZERO
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    out[cuda.blockIdx.x] = part[0]


# --- bank-wavefronts ----------------------------------------------------------------------------


@wrong("bank-wavefronts", "wrong-result", "lanes that read the same word", "12 x 8")
def wavefronts_without_broadcast(words):
    return np.bincount(words % 32).max()


@wrong("bank-wavefronts", "wrong-result", "this is how many banks are busy")
def wavefronts_is_busy_banks(words):
    return len(set(words % 32))


@wrong("bank-wavefronts", "wrong-result", "this is how many different words there are")
def wavefronts_is_words(words):
    return len(np.unique(words))


@wrong("bank-wavefronts", "wrong-result", "the first wavefront is missing")
def wavefronts_is_conflicts(words):
    return np.bincount(np.unique(words) % 32).max() - 1


@wrong("bank-wavefronts", "wrong-result", "result is 4, right is 2")
def wavefronts_by_division(words):
    return math.ceil(32 / len(np.unique(words % 32)))


@wrong("bank-wavefronts", "wrong-shape|wrong-result", "one number|most different words")
def wavefronts_of_each_bank(words):
    return np.bincount(np.unique(words) % 32)


@wrong("bank-wavefronts", "wrong-result", "bytes are taken for words")
def wavefronts_of_bytes(words):
    return int(np.bincount(np.unique(words * 4) % 32).max())


@wrong("bank-wavefronts", "wrong-result", "words % 32 is the bank")
def wavefronts_by_rows(words):
    return int(np.bincount(np.unique(words) // 32).max())


@right("bank-wavefronts")
def wavefronts_by_sets(words):
    banks = {}
    for word in words:
        banks.setdefault(word % 32, set()).add(word)
    return max(len(kept) for kept in banks.values())


# --- the transpose ------------------------------------------------------------------------------


@wrong("tiled-transpose", "uncoalesced", "32.0 sectors", "What turns is the tile")
@cuda.jit
def transpose_naive(out, image):
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        out[column, row] = image[row, column]


@wrong("tiled-transpose", "uncoalesced", "What turns is the tile")
@cuda.jit
def transpose_tile_for_nothing(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    if row < image.shape[0] and column < image.shape[1]:
        out[column, row] = tile[y, x]


@wrong("tiled-transpose", "race", "tile[0, 1]|tile[1, 0]", "cuda.syncthreads()")
@wrong("padded-transpose", "race", "cuda.syncthreads()")
@cuda.jit
def transpose_without_barrier(out, image):
    tile = cuda.shared.array((SIDE, PADDED_SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("tiled-transpose", "wrong-result", "64 x 64", "stay in their places")
@cuda.jit
def transpose_tiles_stay(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("tiled-transpose", "wrong-result", "do not turn|unchanged")
@cuda.jit
def transpose_tiles_do_not_turn(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[y, x]


@wrong("padded-transpose", "barrier-divergence", "in neither")
@cuda.jit
def transpose_under_one_guard(out, image):
    tile = cuda.shared.array((SIDE, PADDED_SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
        cuda.syncthreads()
        column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
        if row < out.shape[0] and column < out.shape[1]:
            out[row, column] = tile[x, y]


@wrong("tiled-transpose", "out-of-bounds", "33 x 70", "Two guards")
@cuda.jit
def transpose_without_second_guard(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    out[cuda.blockIdx.x * SIDE + y, cuda.blockIdx.y * SIDE + x] = tile[x, y]


@wrong("tiled-transpose", "uninitialised-read|unwritten-output", "33 x 70", "guard")
@cuda.jit
def transpose_with_the_first_guard_twice(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    inside = row < image.shape[0] and column < image.shape[1]
    if inside:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if inside and row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("padded-transpose", "bank-conflict", "32.0 wavefronts", "One more column")
@right("tiled-transpose")
@cuda.jit
def transpose_without_padding(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("padded-transpose", "bank-conflict", "One more column")
@cuda.jit
def transpose_padded_in_the_wrong_axis(out, image):
    tile = cuda.shared.array((PADDED_SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("padded-transpose", "typing", "SIDE + 1", "Compute it outside")
@cuda.jit
def transpose_with_a_sum_as_shape(out, image):
    tile = cuda.shared.array((SIDE, SIDE + 1), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("padded-transpose", "unwritten-output", "64 x 64", "out[0, 32]")
@cuda.jit
def transpose_padded_blocks_too(out, image):
    tile = cuda.shared.array((SIDE, PADDED_SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * PADDED_SIDE + x
    row = cuda.blockIdx.x * PADDED_SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("tiled-transpose", "out-of-bounds", "33 x 70", "the store with out.shape")
@cuda.jit
def transpose_leaves_with_the_guard_of_the_load(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row >= image.shape[0] or column >= image.shape[1]:
        return
    tile[y, x] = image[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * SIDE + x
    row = cuda.blockIdx.x * SIDE + y
    out[row, column] = tile[x, y]


@right("padded-transpose")
@cuda.jit
def transpose_padded_both(out, image):
    tile = cuda.shared.array((PADDED_SIDE, PADDED_SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * SIDE + x
    row = cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("tiled-transpose", "wrong-result", "turn twice")
@cuda.jit
def transpose_turns_twice(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * SIDE + y
    row = cuda.blockIdx.x * SIDE + x
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("tiled-transpose", "wrong-result", "turn twice")
@cuda.jit
def transpose_fills_and_reads_by_columns(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[x, y] = image[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * SIDE + x
    row = cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]


@wrong("padded-transpose", "uninitialised-read", "tile[0, 32]", "reads tile[x, y]")
@cuda.jit
def transpose_reads_the_padding(out, image):
    tile = cuda.shared.array((SIDE, PADDED_SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * SIDE + x
    row = cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y + 1]


@right("tiled-transpose", "padded-transpose")
@cuda.jit
def transpose_turns_while_filling(out, image):
    tile = cuda.shared.array((SIDE, PADDED_SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[x, y] = image[row, column]
    cuda.syncthreads()
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[y, x]


@right("tiled-transpose", "padded-transpose")
@cuda.jit
def transpose_by_shifted_columns(out, image):
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, (x + y) % SIDE] = image[row, column]
    cuda.syncthreads()
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, (x + y) % SIDE]


@right("tiled-transpose", "padded-transpose")
@cuda.jit
def transpose_with_two_more_columns_and_a_flat_tile(out, image):
    tile = cuda.shared.array(1120, float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[35 * y + x] = image[row, column]
    cuda.syncthreads()
    column, row = cuda.blockIdx.y * SIDE + x, cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[35 * x + y]


@right("reverse-blocks")
@cuda.jit
def reverse_in_two_steps_with_syncwarp(x):
    """Each warp turns its own 32 places, then the two warps of a full block change places."""
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if count < BLOCK:
        if t < count // 2:
            j = i - t + count - 1 - t
            x[i], x[j] = x[j], x[i]
        return
    buffer[t] = x[i]
    cuda.syncwarp()
    turned = buffer[t ^ 31]
    cuda.syncthreads()
    x[i - t + (t ^ 32)] = turned
