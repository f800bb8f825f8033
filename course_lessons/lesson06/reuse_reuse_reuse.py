# %% [markdown]
# # 06 Reuse, reuse, reuse
#
# Once a number is in a register, use it as often as you can. With that one idea, rung by rung, your
# kernels climb from a sixth of a library's speed. The last rung is yours.

# %% [markdown]
# ## What you will do
#
# - Give each thread a square of pixels, and each warp a compact tile.
# - Order the main loop of a kernel as fast as a library's.

# %% [markdown]
# ## What you will learn
#
# - Why it is not the bytes that hold the tiled kernel back.
# - How to find the lowest of several roofs by counting.

# %% [markdown]
# ## What you need
#
# Lessons [02](02_an_image_from_its_svd.ipynb), [04](04_warps_and_coalescing.ipynb) and
# [05](05_shared_memory.ipynb); for the deepening [03](03_measuring_honestly.ipynb), too.

# %% [markdown]
# ## How long it takes
#
# Nine exercises. Take a break after section 5.

# %% [markdown]
# ## 1 How far is it to the top?
#
# <kbd>core</kbd>
#
# The kernels so far are rungs of a **ladder**: the project's **original**, its sum in **float32**,
# x on the columns (**naive**), tiles (**tiled**). Beside them stands CuPy, which computes `(u[:,
# :k] * s[:k]) @ vt[:k]`: a kernel that scales u, and a product by NVIDIA's library cuBLAS, tuned
# for years. For 4096×4096 pixels, k = 1024, on an H200: how fast was the tiled kernel, in percent
# of CuPy's speed?

# %%
from course import predict

predict("the tiled kernel, % of CuPy", 50, within=1.5)

# %%
from functools import cache

import numpy as np
from numba import float32

from course import beside, bound, check, cuda, images, mine, plots, progress, recorded_roofs, trace
from course.kernels.reconstruct import LADDER
from course_lessons.lesson06 import ladder, pictures

climbed = ["original", "float32", "naive", "tiled"]
print(ladder.Table(climbed))
share = 100 * ladder.of_peer(ladder.recorded("tiled"))
predict.answer("the tiled kernel, % of CuPy", round(share, 1))
print("The least time for k multiplications and k additions a pixel, by the data sheet:")
for what, milliseconds in bound(**ladder.work(), gpu="H200").times.items():
    print(f"{what:8} {milliseconds:.3f} ms")

# %% [markdown]
# `tiled` took many times that. So neither the bytes nor the arithmetic hold it up. What does?
# (All roofs here are of the data sheet's peak, 67 TFLOP/s. A benchmark of additions and
# multiplications alone measured 59.7 on this card.)

# %% [markdown]
# ## 2 What an SM does in a cycle
#
# <kbd>core</kbd>
#
# | in one cycle, an SM of an H200 | at most |
# |---|---|
# | issues instructions, of any kind | 4 |
# | issues multiply-adds (**FMA**), each for a warp | 4 |
# | serves wavefronts of shared memory | **1** |
#
# An FMA multiplies and adds in one instruction. Count what each FMA needs beside itself, and you
# know the bottleneck. The tiled kernel's inner loop:
#
# ```text
# for i in range(TILE):
#     total += u_tile[y, i] * vt_tile[i, x]
# ```
#
# How many wavefronts does an FMA need? There is no conflict.

# %%
predict("wavefronts for an FMA, tiled", 2, exact=True)

# %% tags=["long"]
rng = np.random.default_rng(6)
u = rng.random((256, 32), dtype=np.float32)
s = rng.random(32, dtype=np.float32)
vt = rng.random((32, 256), dtype=np.float32)
out = np.zeros((256, 256), dtype=np.float32)
warp_fmas = out.size * 32 / 32  # k = 32 for each pixel, 32 lanes in a warp


@cache
def traced(name):
    """Trace a rung of the ladder on 256 x 256 pixels, k = 32: each rung once."""
    step = LADDER[name]
    return trace(step.kernel, step.grid(256, 256), step.block, u, s, vt, 32, out, gpu="H200")


tiled = traced("tiled")
wavefronts = tiled.total("shared", "load").wavefronts / warp_fmas
roof = ladder.shared_roof(wavefronts)
# A quarter of a wavefront for an FMA would be four FMA a cycle: all that the units make.
print(f"peak of an H200, data sheet    {ladder.shared_roof(0.25):5.1f} TFLOP/s")
print(f"with 2 wavefronts for each FMA {roof:5.1f} TFLOP/s at most")
print(f"recorded                       {ladder.recorded('tiled').teraflops:5.1f} TFLOP/s")
predict.answer("wavefronts for an FMA, tiled", wavefronts, how="counted")

# %% [markdown]
# Two wavefronts take two cycles. In these the units could make eight FMA, and make one: an
# **eighth** of the peak is the most. `tiled` stands close under that roof. Faster device memory
# does not help, nor do more threads. **Fewer reads for each FMA** do.

# %% [markdown]
# ## 3 A nearer place: registers
#
# <kbd>core</kbd>
#
# A variable of your kernel lives in a register. Reading it costs nothing: it is part of the FMA.
# But only its own thread sees it. So let a thread compute *several* pixels: it reads a number once,
# and uses it for all of them. The picture has one pixel, as in the tiled kernel, a column of 8, and
# a square of 8×8. A column times a row, each number with each, is an **outer product**: `2 n`
# numbers in, `n * n` FMA out.

# %%
pictures.outer_products()

# %% [markdown]
# ### Exercise: reads for an FMA
#
# A thread computes a tile of `rows` × `columns` pixels. For each i it reads the numbers it needs
# once. Return how many numbers it reads for each FMA.
#
# <details><summary>Hint</summary>
#
# For one i: how many numbers of `u`, how many of `vt`, how many FMA?
#
# </details>


# %% tags=["exercise"]
def shared_reads(rows, columns):
    """Return the reads of shared memory for each FMA of a tile of rows x columns pixels."""
    ### BEGIN SOLUTION
    return (rows + columns) / (rows * columns)
    ### END SOLUTION


# %% tags=["check"]
check("shared-reads", shared_reads)

# %% [markdown]
# ## 4 A column in each thread
#
# <kbd>core</kbd>
#
# Read this kernel, label by label. A block of 512 threads computes 64×64 pixels, each thread 8 of
# one column. The tiles have 512 numbers each: each thread brings **one** of both.
#
# `cuda.local.array` is an array that each thread has for itself. The compiler **unrolls** short
# loops: it writes their body out, once for each pass. If all indices of the array are constants
# then, it lies in **registers**. For each i a thread reads 9 numbers for 8 FMA, instead of 16.

# %%
pictures.column_tile()

# %% tags=["long"]
ROWS, COLUMNS, DEPTH, RESULTS = 64, 64, 8, 8


@cuda.jit
def reconstruct_column(u, s, vt, k, out):
    u_tile = cuda.shared.array((ROWS, DEPTH), float32)
    vt_tile = cuda.shared.array((DEPTH, COLUMNS), float32)
    total = cuda.local.array(RESULTS, float32)
    # place: blocks have one dimension, and t is cut in three ways
    t = cuda.threadIdx.x
    first_row, first_column = cuda.blockIdx.y * ROWS, cuda.blockIdx.x * COLUMNS
    row, column = t // COLUMNS * RESULTS, t % COLUMNS
    for n in range(RESULTS):
        total[n] = float32(0)
    for start in range(0, k, DEPTH):
        # fill: multiply by s, and pad with 0
        y, i = t // DEPTH, t % DEPTH
        u_tile[y, i] = 0
        if first_row + y < u.shape[0] and start + i < k:
            u_tile[y, i] = u[first_row + y, start + i] * s[start + i]
        i = t // COLUMNS
        vt_tile[i, column] = 0
        if start + i < k and first_column + column < vt.shape[1]:
            vt_tile[i, column] = vt[start + i, first_column + column]
        # wait
        cuda.syncthreads()
        # reuse: one number of vt for eight rows
        for i in range(DEPTH):
            b = vt_tile[i, column]
            for n in range(RESULTS):
                total[n] += u_tile[row + n, i] * b
        # wait
        cuda.syncthreads()
    # store
    for n in range(RESULTS):
        if first_row + row + n < out.shape[0] and first_column + column < out.shape[1]:
            out[first_row + row + n, first_column + column] = total[n]


predict("column, times as fast as tiled", 1.8, within=1.5, no_effect=1)

# %%
column = trace(reconstruct_column, (4, 4), 512, u, s, vt, 32, out, gpu="H200")
wavefronts = column.total("shared", "load").wavefronts / warp_fmas
climbed.append("column")
roof = ladder.shared_roof(wavefronts)
print(f"{wavefronts:.3f} wavefronts for an FMA: shared memory allows {roof:.1f} TFLOP/s\n")
print(ladder.Table(climbed[-2:]))
faster = ladder.faster("column", than="tiled")
predict.answer("column, times as fast as tiled", round(faster, 2))

# %% [markdown]
# The roof of shared memory nearly doubled, and the speed did not follow it all the way: **another
# resource binds**, too. An SM issues four instructions a cycle, of any kind. The GPU has counted
# them, in the whole kernel ([lesson 07](07_reading_a_profiler.ipynb) says how):


# %%
def roofs(name):
    """Return the two roofs of a rung [TFLOP/s]: shared memory, instructions."""
    shared = traced(name).total("shared", "load").wavefronts / warp_fmas
    return ladder.shared_roof(shared), ladder.issue_roof(ladder.instructions(name))


def show_roofs(names):
    print("roofs in TFLOP/s:  shared memory   instructions   recorded")
    for name in names:
        shared, issue = roofs(name)
        print(f"{name:17}{shared:15.1f}{issue:15.1f}{ladder.recorded(name).teraflops:11.1f}")


show_roofs(["tiled", "column"])
for name in ("tiled", "column"):
    print(f"{name}: {ladder.instructions(name):.1f} instructions for an FMA")

# %% [markdown]
# `tiled` had one low roof. `column` has two that are nearly equal. **The lowest roof counts**, and
# when you lift it, you meet the next one. To lift both, a thread needs more FMA for each read *and*
# for each instruction around them.

# %% [markdown]
# ## 5 A square in each thread
#
# <kbd>core</kbd>
#
# 8×8 pixels in each thread: 16 reads for 64 FMA. A block of 256 threads, 16 across and 16 down,
# then computes 128×128 pixels. Each sum needs a register, and so do the 16 numbers.
#
# `@cuda.jit(max_registers=128)` asks the compiler for 128 registers a thread at most. An SM's
# 65,536 are then enough for two blocks, and while one waits at a barrier, the other one works. If a
# thread needs more than it gets, the compiler **spills** sums to memory, in the innermost loop.
# Avoid that.

# %% [markdown]
# ### Exercise: the outer product
#
# Fill in what a depth `i` does. Read the thread's 8 numbers of `u_tile` into `a` and its 8 of
# `vt_tile` into `b`, each once. Then multiply each with each. Read with
# `load(array, (row, column))`.
#
# <details><summary>Why load?</summary>
#
# In Numba, index -1 is the last element, so **every** `array[index]` tests whether the index is
# below zero: about two instructions. `load` and `store` from `warpsim.ptx` leave that test out. In
# an inner loop that matters.
#
# </details>
#
# <details><summary>Hint</summary>
#
# `a[m] = load(u_tile, (row + m, i))`, and `b[n]` from row `i` of `vt_tile`, column `column + n`.
#
# </details>

# %%
from warpsim.ptx import load, load4, store, store4

BLOCK, SIDE, THREADS = 128, 8, 256  # pixels of a block's side, of a thread's, threads of a block
ACROSS = BLOCK // SIDE  # threads side by side
predict("wavefronts for an FMA, square", 0.25, exact=True)


# %% tags=["exercise", "long"]
@cuda.jit(max_registers=128)
def reconstruct_square(u, s, vt, k, out):
    """Write the sum of the first k layers; 256 threads make 128 x 128 pixels, 8 x 8 each."""
    u_tile = cuda.shared.array((BLOCK, DEPTH), float32)
    vt_tile = cuda.shared.array((DEPTH, BLOCK), float32)
    total = cuda.local.array((SIDE, SIDE), float32)
    a = cuda.local.array(SIDE, float32)
    b = cuda.local.array(SIDE, float32)
    t = cuda.threadIdx.x
    first_row, first_column = cuda.blockIdx.y * BLOCK, cuda.blockIdx.x * BLOCK
    row, column = t // ACROSS * SIDE, t % ACROSS * SIDE
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] = float32(0)
    for start in range(0, k, DEPTH):
        for number in range(t, BLOCK * DEPTH, THREADS):
            y, i = number // DEPTH, number % DEPTH
            u_tile[y, i] = 0
            if first_row + y < u.shape[0] and start + i < k:
                u_tile[y, i] = u[first_row + y, start + i] * s[start + i]
        for number in range(t, DEPTH * BLOCK, THREADS):
            i, x = number // BLOCK, number % BLOCK
            vt_tile[i, x] = 0
            if start + i < k and first_column + x < vt.shape[1]:
                vt_tile[i, x] = vt[start + i, first_column + x]
        cuda.syncthreads()
        for i in range(DEPTH):
            for m in range(SIDE):
                ### BEGIN SOLUTION
                a[m] = load(u_tile, (row + m, i))
                ### END SOLUTION
            for n in range(SIDE):
                ### BEGIN SOLUTION
                b[n] = load(vt_tile, (i, column + n))
                ### END SOLUTION
            for m in range(SIDE):
                for n in range(SIDE):
                    ### BEGIN SOLUTION
                    total[m, n] += a[m] * b[n]
                    ### END SOLUTION
        cuda.syncthreads()
    for m in range(SIDE):
        for n in range(SIDE):
            if first_row + row + m < out.shape[0] and first_column + column + n < out.shape[1]:
                out[first_row + row + m, first_column + column + n] = total[m, n]


# %% tags=["check"]
check("square-tile", reconstruct_square)

# %%
# NBVAL_IGNORE_OUTPUT
# yours beside the package's and the least: counts of the simulator, on a GPU times, too
beside("square-tile", reconstruct_square)

# %%
square = traced("square")
wavefronts = square.total("shared", "load").wavefronts / warp_fmas
for finding in square.findings:
    if finding.kind == "bank-conflict":
        print(finding)
predict.answer("wavefronts for an FMA, square", wavefronts, how="counted")
show_roofs(["tiled", "column", "square"])
climbed.append("square")
print(f"\nsquare was {ladder.faster('square', than='column'):.2f} times as fast as column\n")
print(ladder.Table(climbed[-3:]))


# %%
pictures.fragment_banks("square")

# %% [markdown]
# Three times as many wavefronts as expected: bank conflicts. Each lane has 8 columns of its own.
# Neighbours read words 0, 8, 16, 24, 32, … of a row: all in banks 0, 8, 16 and 24.
#
# The kernel stands a little **above** the roof of its wavefronts, which nothing can. So that roof
# is wrong: the trace counts your *source*, and the compiler put reads together. By the GPU's own
# counters it is half a wavefront for each FMA ([lesson 07](07_reading_a_profiler.ipynb)). What is
# sure: most of the source's wavefronts are conflicts.

# %% [markdown]
# ## 6 Four at a time
#
# <kbd>core</kbd>
#
# One instruction can read 16 bytes: four neighbouring float32 numbers.
#
# ```text
# w, x, y, z = load4(array, (row, column))
# store4(array, (row, column), (w, x, y, z))
# ```
#
# The address must be a multiple of 16 bytes: elsewhere a GPU ends the program. So here k and the
# columns are multiples of 4.
#
# A square of 8×8 needs 8 neighbours of `vt`: two `load4`. To let neighbouring lanes read
# neighbouring fours, cut the square in four **quarters**: a lane's second four lies half a tile, 64
# columns, further on. One lane's pixels are red, those of the lanes beside it blue.

# %%
pictures.quarters()

# %% [markdown]
# The same for the rows of `u`. But 8 numbers of a *column* of `u_tile` are no neighbours. So **turn
# the tile** while you fill it, as in [lesson 05](05_shared_memory.ipynb): `u_tile[i, y]`. Its rows
# have 132 places for 128 numbers, as padding against conflicts (section 11 finds the 132).
#
# ### Exercise: four at a time
#
# Write 7 lines. Store the four of `u` below each other and the four of `vt` side by side. Then read
# both fours of `a` and both of `b`.
#
# <details><summary>Hint 1: filling</summary>
#
# Number `e` of the four of `u` goes to `u_tile[i + e, y]`. Those of `vt` go to `(i, x)` of
# `vt_tile`, with one `store4`.
#
# </details>
#
# <details><summary>Hint 2: reading</summary>
#
# `a[0], a[1], a[2], a[3] = load4(u_tile, (i, row))`, the second four at `row + FAR`; `b` likewise
# from `vt_tile` with `column`.
#
# </details>

# %%
PITCH, FAR = 132, 64
zero = np.float32(0)
predict("wide, times as fast as square", 1.6, within=1.5, no_effect=1)


# %% tags=["exercise", "long"]
@cuda.jit(max_registers=128)
def reconstruct_wide(u, s, vt, k, out):
    """Write the sum of the first k layers, four numbers at a time; k, columns: multiples of 4."""
    u_tile = cuda.shared.array((DEPTH, PITCH), float32)
    vt_tile = cuda.shared.array((DEPTH, BLOCK), float32)
    total = cuda.local.array((SIDE, SIDE), float32)
    a = cuda.local.array(SIDE, float32)
    b = cuda.local.array(SIDE, float32)
    t = cuda.threadIdx.x
    first_row, first_column = cuda.blockIdx.y * BLOCK, cuda.blockIdx.x * BLOCK
    row, column = t // ACROSS * 4, t % ACROSS * 4
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] = zero
    for start in range(0, k, DEPTH):
        y, i = t // 2, t % 2 * 4
        four = (zero, zero, zero, zero)
        if first_row + y < u.shape[0] and start + i < k:
            four = load4(u, (first_row + y, start + i))
        ### BEGIN SOLUTION
        for e in range(4):
            u_tile[i + e, y] = four[e]
        ### END SOLUTION
        i, x = t // 32, t % 32 * 4
        scale, four = zero, (zero, zero, zero, zero)
        if start + i < k and first_column + x < vt.shape[1]:
            scale = s[start + i]
            four = load4(vt, (start + i, first_column + x))
        four = (four[0] * scale, four[1] * scale, four[2] * scale, four[3] * scale)
        ### BEGIN SOLUTION
        store4(vt_tile, (i, x), four)
        ### END SOLUTION
        cuda.syncthreads()
        for i in range(DEPTH):
            ### BEGIN SOLUTION
            a[0], a[1], a[2], a[3] = load4(u_tile, (i, row))
            a[4], a[5], a[6], a[7] = load4(u_tile, (i, row + FAR))
            b[0], b[1], b[2], b[3] = load4(vt_tile, (i, column))
            b[4], b[5], b[6], b[7] = load4(vt_tile, (i, column + FAR))
            ### END SOLUTION
            for m in range(SIDE):
                for n in range(SIDE):
                    total[m, n] += a[m] * b[n]
        cuda.syncthreads()
    for m in range(SIDE):
        y = first_row + (row + m if m < 4 else row + m - 4 + FAR)
        for n in range(0, SIDE, 4):
            x = first_column + (column if n == 0 else column + FAR)
            if y < out.shape[0] and x < out.shape[1]:
                store4(
                    out, (y, x), (total[m, n], total[m, n + 1], total[m, n + 2], total[m, n + 3])
                )


# %% tags=["check"]
check("wide-tile", reconstruct_wide)

# %%
# NBVAL_IGNORE_OUTPUT
beside("wide-tile", reconstruct_wide)

# %%
wide = traced("wide")
shared = wide.total("shared", "load")
figures = shared.wavefronts / warp_fmas, shared.requests / warp_fmas
print("bank conflicts:", shared.conflicts + wide.total("shared", "store").conflicts)
print("wavefronts and reads for an FMA:", *figures)
show_roofs(["tiled", "column", "square", "wide"])
climbed.append("wide")
print()
print(ladder.Table(climbed))
faster = ladder.faster("wide", than="square")
predict.answer("wide, times as fast as square", round(faster, 1))

# %% [markdown]
# Shared memory no longer binds, and what was recorded lies far below both roofs. So the warps are
# **stalled**: they wait for numbers that were asked for and are not there yet. (An inference;
# section 13 asks the GPU's counters.)

# %% [markdown]
# ## 7 The last rung: yours
#
# <kbd>core</kbd>
#
# Three things are left to do. **A compact tile for a warp.** In `wide` the 32 lanes are 16 across
# and 2 down, and need 144 different numbers for each i: 2 × 8 rows and 16 × 8 columns. In the
# picture they are 8 across and 4 down, and need 96.

# %%
pictures.warp_tile()

# %% [markdown]
# ### Exercise: which lane has which row and column?
#
# On the right is a warp's tile, 32 × 64 pixels. Each number stands in a square of 4 × 4 pixels: its
# lane's. Eight lanes in a row are served together, so they stand in a rectangle, 2 down and 4
# across. How many squares lie above a lane's first one, and how many to its left? Return its first
# row and column, in pixels. Lane 0 has (0, 0), lane 9 the red one.
#
# <details><summary>Hint</summary>
#
# `lane % 2` is 0 or 1 in turns: who stands below whom? `lane // 2` counts the pairs. And what
# happens at lane 16?
#
# </details>


# %% tags=["exercise"]
def lane_place(lane):
    """Return the row and the column at which a lane's first square of pixels begins."""
    ### BEGIN SOLUTION
    down = lane // 16 * 2 + lane % 2
    ### END SOLUTION
    ### BEGIN SOLUTION
    across = lane // 2 % 8
    ### END SOLUTION
    ### BEGIN SOLUTION
    return 4 * down, 4 * across
    ### END SOLUTION


# %% tags=["check"]
check("lane-place", lane_place)

# %% [markdown]
# **Load early, twice.** A block has two tiles of each kind, `stage` 0 and 1. While it multiplies
# one, the numbers of the next are on their way into registers. And while a thread multiplies the
# numbers of a depth, it reads those of the next one, into a second pair of `a` and `b`: `side` 0
# and 1.
#
# Five device functions, all known from `wide`, do the work. There is **no loop over a tile's 8
# depths**: they are written out, so that all indices are constants. `seven_depths` multiplies
# depths 0 to 6. It also reads depth 7, into side 1, and leaves it there.


# %% tags=["long"]
@cuda.jit(device=True)
def load_tile(u, s, vt, start, first_row, first_column, next_u, next_vt):
    """Global memory to registers; what lies beyond the edge is read from the last row, column."""
    t = cuda.threadIdx.x
    row = min(first_row + t // 2, u.shape[0] - 1)
    column = min(first_column + t % 32 * 4, vt.shape[1] - 4)
    next_u[0], next_u[1], next_u[2], next_u[3] = load4(u, (row, start + t % 2 * 4))
    w, x, y, z = load4(vt, (start + t // 32, column))
    scale = load(s, start + t // 32)
    next_vt[0], next_vt[1], next_vt[2], next_vt[3] = w * scale, x * scale, y * scale, z * scale


@cuda.jit(device=True)
def store_tile(u_tile, vt_tile, stage, next_u, next_vt):
    """Registers to shared memory, u turned."""
    t = cuda.threadIdx.x
    for e in range(4):
        store(u_tile, (stage, t % 2 * 4 + e, t // 2), next_u[e])
    four = next_vt[0], next_vt[1], next_vt[2], next_vt[3]
    store4(vt_tile, (stage, t // 32, t % 32 * 4), four)


@cuda.jit(device=True)
def read(u_tile, vt_tile, stage, i, row, column, a, b, side):
    """Shared memory to registers: the thread's numbers of depth i."""
    a[side, 0], a[side, 1], a[side, 2], a[side, 3] = load4(u_tile, (stage, i, row))
    a[side, 4], a[side, 5], a[side, 6], a[side, 7] = load4(u_tile, (stage, i, row + 16))
    b[side, 0], b[side, 1], b[side, 2], b[side, 3] = load4(vt_tile, (stage, i, column))
    b[side, 4], b[side, 5], b[side, 6], b[side, 7] = load4(vt_tile, (stage, i, column + 32))


@cuda.jit(device=True)
def multiply(total, a, b, side):
    """Outer product of the numbers of a side."""
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] += a[side, m] * b[side, n]


@cuda.jit(device=True)
def save(out, total, row, column):
    """Registers to global memory, but for what lies beyond the edge."""
    for m in range(SIDE):
        y = row + (m if m < 4 else m + 12)
        for n in range(0, SIDE, 4):
            x = column + 8 * n
            if y < out.shape[0] and x < out.shape[1]:
                four = total[m, n], total[m, n + 1], total[m, n + 2], total[m, n + 3]
                store4(out, (y, x), four)


@cuda.jit(device=True)
def two_depths(total, u_tile, vt_tile, stage, i, row, column, a, b):
    read(u_tile, vt_tile, stage, i + 1, row, column, a, b, 1)
    multiply(total, a, b, 0)
    read(u_tile, vt_tile, stage, i + 2, row, column, a, b, 0)
    multiply(total, a, b, 1)


@cuda.jit(device=True)
def seven_depths(total, u_tile, vt_tile, stage, row, column, a, b):
    two_depths(total, u_tile, vt_tile, stage, 0, row, column, a, b)
    two_depths(total, u_tile, vt_tile, stage, 2, row, column, a, b)
    two_depths(total, u_tile, vt_tile, stage, 4, row, column, a, b)
    read(u_tile, vt_tile, stage, 7, row, column, a, b, 1)
    multiply(total, a, b, 0)


# %% [markdown]
# ### Exercise: the main loop
#
# When a round begins, tile `stage` is full, and the numbers of its depth 0 are in side 0. **Put the
# seven statements in order**: move whole lines. One multiplies depths 0 to 6 of this tile, one
# depth 7. Others load the next tile into registers, store it, and read its depth 0. One changes the
# stage, one waits. More than one order is right.
#
# <details><summary>Hint 1</summary>
#
# Two moments count. When may a thread store into a buffer that others have read? When may it read
# what others have stored? The barrier can answer both only if reads and stores are of different
# stages.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Begin with the load, so that its numbers have the time of seven depths to arrive. The barrier
# stands between `store_tile` and `read`.
#
# </details>


# %% tags=["exercise", "long"]
@cuda.jit(max_registers=128)
def reconstruct_mine(u, s, vt, k, out):
    """Write the sum of the first k layers; k: a multiple of 8, columns: of 4."""
    u_tile = cuda.shared.array((2, DEPTH, PITCH), float32)
    vt_tile = cuda.shared.array((2, DEPTH, BLOCK), float32)
    total = cuda.local.array((SIDE, SIDE), float32)
    a = cuda.local.array((2, SIDE), float32)
    b = cuda.local.array((2, SIDE), float32)
    next_u = cuda.local.array(4, float32)
    next_vt = cuda.local.array(4, float32)
    first_row, first_column = cuda.blockIdx.y * BLOCK, cuda.blockIdx.x * BLOCK
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    row = warp % 4 * 32 + (lane // 16 * 2 + lane % 2) * 4  # your lane_place, in its warp
    column = warp // 4 * 64 + lane // 2 % 8 * 4
    for m in range(SIDE):
        for n in range(SIDE):
            total[m, n] = float32(0)
    load_tile(u, s, vt, 0, first_row, first_column, next_u, next_vt)
    store_tile(u_tile, vt_tile, 0, next_u, next_vt)
    cuda.syncthreads()
    stage = 0
    read(u_tile, vt_tile, stage, 0, row, column, a, b, 0)
    for start in range(DEPTH, k, DEPTH):
        ### BEGIN ORDER
        load_tile(u, s, vt, start, first_row, first_column, next_u, next_vt)
        seven_depths(total, u_tile, vt_tile, stage, row, column, a, b)
        stage = 1 - stage
        store_tile(u_tile, vt_tile, stage, next_u, next_vt)
        cuda.syncthreads()
        read(u_tile, vt_tile, stage, 0, row, column, a, b, 0)
        multiply(total, a, b, 1)
        ### END ORDER
    seven_depths(total, u_tile, vt_tile, stage, row, column, a, b)
    multiply(total, a, b, 1)
    save(out, total, first_row + row, first_column + column)


# %% tags=["check"]
check("last-rung", reconstruct_mine)

# %%
# NBVAL_IGNORE_OUTPUT
beside("last-rung", reconstruct_mine)

# %% [markdown]
# A wrong order may give the right image on the simulator. The check refuses it all the same, where
# nothing orders the stores of one warp and the reads of another.
#
# How fast is it? The compiler makes of the main loop 580 instructions for 512 FMA, in 128
# registers, and an eighth of a wavefront goes with each FMA.

# %%
card = ladder.card_of(ladder.OWN)
peak = ladder.shared_roof(0.25, card)
allowed = min(ladder.issue_roof(ladder.OWN_LOOP.per_product, card), ladder.shared_roof(0.125, card))
library = ladder.recorded(ladder.PEER, gpu=card).teraflops
print(f"your counts allow {allowed / peak:.0%} of the peak; CuPy, recorded: {library / peak:.0%}\n")
print(ladder.Table([*climbed, ladder.OWN, "warp tiles"], card))

# %% [markdown]
# Nothing that is counted holds your kernel below what the library reaches. `warp tiles` is the
# package's last rung: your loop, tuned, for every k and every row (section 14). Now your kernel
# rebuilds your photograph.

# %%
photo = images.mine()
photo = photo[:, : photo.shape[1] // 4 * 4]  # your kernel takes fours
rows, columns = photo.shape
k = min(64, min(rows, columns) // 8 * 8)
u_all, s_all, vt_all = images.svd(photo)
layers = [np.ascontiguousarray(part) for part in (u_all[:, :k], s_all[:k], vt_all[:k])]
rebuilt = np.zeros_like(photo)
MINE = mine("last-rung", LADDER["warp tiles"].kernel)
MINE[(-(-columns // BLOCK), -(-rows // BLOCK)), THREADS](*layers, k, rebuilt)
plots.image_grid([photo, rebuilt], ["your photograph", f"{k} layers of it"])

# %% [markdown]
# ## 8 Looking back
#
# <kbd>core</kbd>
#
# The rungs in one picture. Left to right is how many operations there are for each byte that must
# be moved: the same for all. Up is speed.

# %%
steps = ["original", "naive", "tiled", "square", "wide", "warp tiles"]
points = {name: ladder.recorded(name) for name in steps}
points["CuPy"] = ladder.recorded(ladder.PEER)
plots.roofline(recorded_roofs("H200"), points, ladder=steps)

# %% [markdown]
# The job is far to the right: arithmetic should bind. Your counts tell why it did not for most
# rungs: under the roof are other roofs. For another problem:
#
# 1. Count what each useful operation needs: bytes, sectors, wavefronts, instructions.
# 2. Find the bottleneck. Change that, and only that.
# 3. Measure. If nothing happened, another resource binds: back to 1.

# %% [markdown]
# ## 9 What the compiler made of it
#
# <kbd>deepening</kbd>
#
# `ladder.facts` has what NVIDIA's compilers say of each rung, recorded without a GPU. It looks for
# the straight code with the most FMA, and counts its instructions. (In PTX, the last step before
# machine code, SASS.) How many for an FMA of `tiled`: one FMA and its reads?

# %%
predict("instructions for a product, tiled", 3, exact=True)

# %%
print("rung      instructions   products   reads   instructions for a product")
for name in ("naive", "tiled", "column"):
    loop = ladder.facts(name).loop
    print(f"{name:10}{loop.instructions:11}{loop.products:11}{loop.reads:8}", end="")
    print(f"{loop.per_product:21.3f}")
loop = ladder.facts("tiled").loop
predict.answer("instructions for a product, tiled", loop.per_product, how="counted")

# %% [markdown]
# `tiled` is unrolled whole: nothing is left but reads and products. `column` reads less, but its
# loop over i is a **loop** again: counting, comparing, computing addresses. `naive` computes
# addresses most of the time, and tests every index. (It has no reads of shared memory.)
#
# But that is the **inner loop** alone. Around it a thread fills tiles, tests edges and waits:

# %%
print("instructions for a product   inner loop, PTX   whole kernel, counted")
for name in ("tiled", "column"):
    print(f"{name:26}{ladder.facts(name).loop.per_product:18.2f}{ladder.instructions(name):24.2f}")

# %% [markdown]
# Turned round! The *loop* of `column` has more instructions for an FMA, the *kernel* has fewer.
# The code around the loop is about as long in both. But in `tiled` it serves 16 FMA of a thread,
# in `column` 64. So take counts of the whole kernel, or you fix the wrong bottleneck.
#
# And the registers? Each thread of `column` needs more of them, so fewer warps fit that could work
# while others wait:

# %%
for name in ("tiled", "column"):
    print(f"{name:7}", ladder.facts(name).registers, "registers;", ladder.facts(name).occupancy())

# %% [markdown]
# With the extra `compile` the next cell asks the compiler about *your* square. Does it have many
# more instructions for an FMA than the package's 92 for 64? Then look for an `array[index]` in the
# inner loop.

# %%
# NBVAL_IGNORE_OUTPUT
print(ladder.compiled_text(reconstruct_square, (u, s, vt, 32, out), block=THREADS))

# %% [markdown]
# ## 10 The largest square
#
# <kbd>deepening</kbd>
#
# ### Exercise: the largest square
#
# A thread may use `registers` registers. A square of n × n pixels takes `n * n` for the sums, `n`
# for the numbers of `u`, `n` for those of `vt`. Addresses, counters and the like take `other`.
# Return the largest n that fits, 0 if none does.
#
# <details><summary>Hint</summary>
#
# Start with `n = 0`. While a square of `n + 1` fits, count up.
#
# </details>


# %% tags=["exercise"]
def largest_square(registers, other):
    """Return the side of the largest square of sums that fits in the registers."""
    ### BEGIN SOLUTION
    n = 0
    while (n + 1) ** 2 + 2 * (n + 1) + other <= registers:
        n += 1
    return n
    ### END SOLUTION


# %% tags=["check"]
check("largest-square", largest_square)

# %% [markdown]
# An SM has 65,536 registers. With two blocks of 256 threads on it, each thread may have
# 128, and the answer is 8 if everything else takes 40. Why two blocks? While one waits at a
# barrier, the other one can work.

# %%
predict("registers of a thread, square", 96, within=1.25)

# %%
print(ladder.facts("square").occupancy())
predict.answer("registers of a thread, square", ladder.facts("square").registers, how="counted")

# %% [markdown]
# ## 11 A row stride without conflicts
#
# <kbd>deepening</kbd>
#
# In `wide` a thread brings four neighbours of a row of `u`, and writes them below each other. Lane
# l brings four number `l % 2` of row `l // 2`. Are these stores free of conflicts, if a row of the
# turned tile has 128 places? How many wavefronts does one take?

# %%
predict("wavefronts of a store into the turned tile, 128 words a row", 1, exact=True)


# %%
def turned_stores(pitch):
    """Return the word that each lane writes, of its first number."""
    lane = np.arange(32)
    return lane % 2 * 4 * pitch + lane // 2


banks = np.bincount(turned_stores(128) % 32)
question = "wavefronts of a store into the turned tile, 128 words a row"
predict.answer(question, banks.max(), how="computed")

# %% [markdown]
# Rows 0 and 4 begin in the same bank, so even and odd lanes meet. Padding helps, as for the
# transpose. But how much? The number of elements from one row to the next is the **row stride**,
# `pitch` in the code. One more, 129, will not do: rows must begin at multiples of four, or `load4`
# is misaligned.
#
# ### Exercise: a row stride without conflicts
#
# Return the smallest row stride from `least` on, a multiple of 4, with which the 32 words above lie
# in 32 banks.
#
# <details><summary>Hint</summary>
#
# `turned_stores(pitch)` gives the words. `np.bincount(words % 32).max()` is 1 when no two meet. Try
# one row stride after the other.
#
# </details>


# %% tags=["exercise"]
def free_pitch(least):
    """Return the smallest multiple of 4, at least `least`, without a bank conflict."""
    ### BEGIN SOLUTION
    pitch = -(-least // 4) * 4
    while np.bincount(turned_stores(pitch) % 32).max() > 1:
        pitch += 4
    return pitch
    ### END SOLUTION


# %% tags=["check"]
check("free-pitch", free_pitch)

# %%
pictures.turned_banks((128, 132))

# %% [markdown]
# ## 12 What about device memory?
#
# <kbd>deepening</kbd>
#
# A block of `side` × `side` pixels loads, for each i, `side` numbers of `u` and `side` of `vt`, and
# makes `side * side` products. So the block's side decides how many operations there are for each
# byte. If too few, device memory binds, and all of the above is in vain.
#
# ### Exercise: the block that leaves the memory roof
#
# A GPU moves `gigabytes_per_second` · 10⁹ bytes and does `teraflops` · 10¹² operations a second.
# Return the smallest side of a square block, a multiple of 16, whose arithmetic takes at least as
# long as its loads. Take it that no cache helps, and leave `s` and the stores out.
#
# <details><summary>Hint</summary>
#
# Bytes for each i: `2 * side * 4`. Operations: `2 * side * side`. Operations / bytes must be at
# least `1000 * teraflops / gigabytes_per_second`.
#
# </details>


# %% tags=["exercise"]
def smallest_block(gigabytes_per_second, teraflops):
    """Return the smallest side of a block, a multiple of 16, that is bound by arithmetic."""
    ### BEGIN SOLUTION
    ridge = 1000 * teraflops / gigabytes_per_second  # operations a byte
    side = 16
    while side / 4 < ridge:
        side += 16
    return side
    ### END SOLUTION


# %% tags=["check"]
check("smallest-block", smallest_block)

# %%
measured = recorded_roofs("H200")
for side in (1, 16, 64, 128):
    rate = side / 4 * measured.bandwidth / 1000
    print(f"block of {side:3} x {side:3}: {side / 4:5.2f} operations a byte, ", end="")
    print(f"device memory allows {min(rate, measured.rates['float32']):4.1f} TFLOP/s")

# %% [markdown]
# So 16×16 would be too small if L2 did not help: blocks that run at once want the same rows and
# columns. Tiles of 128 need no such luck.

# %% [markdown]
# ## 13 Two buffers
#
# <kbd>deepening</kbd>
#
# A round of `wide`: load a tile, wait for memory, write it, **barrier**, multiply, **barrier**.
# While a block waits, it multiplies nothing. With two tiles of each kind, the next one can be on
# its way while this one is used. Is one barrier a round enough? Try it on the kernel of [lesson
# 05](05_shared_memory.ipynb). This fills one of two buffers, `stage` 0 or 1:

# %%
TILE = 16


@cuda.jit(device=True)
def fill(u_tile, vt_tile, stage, u, s, vt, k, start, row, col):
    """Fill the tiles `stage` with what begins at `start`; zeros past the edges."""
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    u_tile[stage, y, x] = 0
    if row < u.shape[0] and start + x < k:
        u_tile[stage, y, x] = u[row, start + x] * s[start + x]
    vt_tile[stage, y, x] = 0
    if start + y < k and col < vt.shape[1]:
        vt_tile[stage, y, x] = vt[start + y, col]


# %%
pictures.buffers()

# %% [markdown]
# Here is a round without any barrier but the first. Two buffers, so nobody should meet. What does
# the trace say?


# %%
@cuda.jit
def two_buffers_in_a_hurry(u, s, vt, k, out):
    u_tile = cuda.shared.array((2, TILE, TILE), float32)
    vt_tile = cuda.shared.array((2, TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total, stage = float32(0), 0
    fill(u_tile, vt_tile, 0, u, s, vt, k, 0, row, col)
    cuda.syncthreads()
    for start in range(TILE, k + TILE, TILE):
        if start < k:
            fill(u_tile, vt_tile, 1 - stage, u, s, vt, k, start, row, col)
        for i in range(TILE):
            total += u_tile[stage, y, i] * vt_tile[stage, i, x]
        stage = 1 - stage
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


check("two-buffers", two_buffers_in_a_hurry, wrong_on_purpose=True)

# %% [markdown]
# ### Exercise: the double buffer
#
# Write the loop with **one** barrier a round, in the right place. It has two duties: behind it this
# round's tiles are full, and everybody is done with the tiles that are filled next.
#
# <details><summary>Hint</summary>
#
# Put it at the start of the round. What was filled in the round before is full then, and what was
# read in the round before is free.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def reconstruct_two_buffers(u, s, vt, k, out):
    """Write the sum of the first k layers; while a tile is used, the next one is filled."""
    u_tile = cuda.shared.array((2, TILE, TILE), float32)
    vt_tile = cuda.shared.array((2, TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total, stage = float32(0), 0
    fill(u_tile, vt_tile, 0, u, s, vt, k, 0, row, col)
    ### BEGIN SOLUTION
    for start in range(TILE, k + TILE, TILE):
        cuda.syncthreads()
        if start < k:
            fill(u_tile, vt_tile, 1 - stage, u, s, vt, k, start, row, col)
        for i in range(TILE):
            total += u_tile[stage, y, i] * vt_tile[stage, i, x]
        stage = 1 - stage
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total
    ### END SOLUTION


# %% tags=["check"]
check("two-buffers", reconstruct_two_buffers)

# %%
# NBVAL_IGNORE_OUTPUT
beside("two-buffers", reconstruct_two_buffers)

# %% [markdown]
# The rung `buffered` does this to `wide`, as your last rung does it. On GPUs since 2020 numbers can
# even travel past the registers, by **asynchronous copies**. How many times as fast as `wide` is
# each of the two, `buffered` and these?

# %%
predict(
    "buffered, asynchronous: times as fast as wide", 1.2, 0.9, within=1.25, no_effect=1, numbers=2
)

# %%
faster = [round(ladder.faster(name, than="wide"), 2) for name in ("buffered", "asynchronous")]
climbed += ["buffered", "asynchronous"]
print(ladder.Table(climbed[-3:]))
predict.answer("buffered, asynchronous: times as fast as wide", faster)

# %% [markdown]
# A famous trick, and on this GPU it gained nothing. Was there nothing to hide? Ask the GPU's
# counters ([lesson 07](07_reading_a_profiler.ipynb) explains them). How many cycles does a warp
# wait between two of its instructions, for global memory and at the barrier? How many instructions
# are there? And which share of the issue slots is used?

# %%
print("          cycles of waiting for     instructions   issue slots")
print("rung      memory    the barrier    for an FMA      used [%]")
for name in ("wide", "buffered"):
    waits = [ladder.counter(name, f"stall {why}") for why in ("long_scoreboard", "barrier")]
    busy = ladder.counter(name, "issue slots")
    print(f"{name:9}{waits[0]:7.2f}{waits[1]:15.2f}{ladder.instructions(name):17.3f}{busy:11.0f}")
more = ladder.instructions("buffered") / ladder.instructions("wide") - 1
print(f"{more:.0%} more instructions\n")
for name in ("wide", "buffered", "asynchronous"):
    its = ladder.facts(name)
    loop = f"{its.loop.per_product:.3f} instructions a product (loop, PTX)"
    print(f"{name:14}{loop}, {its.registers} registers, {its.occupancy().blocks} blocks")

# %% [markdown]
# - **It did hide waiting.** A warp waits for memory half as long as before.
# - **It costs instructions**, a tenth more: address arithmetic, in the inner loop. `wide` used two
#   thirds of its issue slots. So there was little time to win.
# - **An asynchronous copy cannot compute on the way.** So every thread that reads multiplies `s`
#   in. And `u` can be turned only number by number. (Inferred from its code.)
#
# So is double buffering useless? No: two blocks share an SM here, and while one waits, the other
# multiplies. With one block on an SM there is more to hide. And its instructions can become fewer:
# your last rung keeps both buffers, and writes its loop out.

# %% [markdown]
# ## 14 The last 5 to 10%
#
# <kbd>deepening</kbd>
#
# The package's `warp tiles` (`course/kernels/reconstruct/warp_tiles.py`) is your loop with small
# changes. Its FMA have an order of their own. Blocks take their tiles in bands of eight rows of
# tiles, so that blocks that run at the same time share numbers in L2. Indices have 32 bits, not 64.
# The compiler may be a little less exact (`fastmath`), and does not optimise once more at the end
# (`lto=False`). How many percent of CuPy's speed does it reach?

# %%
predict("warp tiles, % of CuPy", 95, within=1.1)

# %%
print(ladder.Table(["wide", "warp tiles"]))
share = 100 * ladder.of_peer(ladder.recorded("warp tiles"))
predict.answer("warp tiles, % of CuPy", round(share, 1))

# %% [markdown]
# Python beside the library that NVIDIA's experts wrote. Which of the changes gained what? Take away
# **one** at a time, and time the kernel without it: an **ablation**. It was recorded at 8192 ×
# 8192, k = 2048, each kernel three times, in turns. Which one costs most when it is missing, and
# which one nothing? (In brackets the shortest and the longest of the three times.)

# %%
from course import recorded

times = {}
for figure in recorded("ablation", metric="time", gpu="H200"):
    if figure.shape.startswith("8192x8192x2048"):
        times.setdefault(figure.variant, []).append(figure.median)
whole = np.median(times.pop("nothing"))
times["lto=False"] = times.pop("leaving out lto")
for part in sorted(times, key=lambda part: -np.median(times[part])):
    least, middle, most = (time / whole - 1 for time in sorted(times[part]))
    print(f"without {part:24}{middle:+6.1%}   ({least:+.2%} to {most:+.2%})")

# %% [markdown]
# The order of the FMA is worth more than the compact tile! No count tells that. It was **tuned**:
# many variants were tried, on a GPU, and the fastest was kept. It goes two columns at a time, in
# zigzag. So an FMA shares a factor with the one before it, which need not be read from its register
# again. And `fastmath` gains nothing.
#
# On a GPU, climb the rest yourself, one change at a time, each beside the kernel before it. Take
# the order in `multiply` from the package's, then `int32` indices, then bands (`row_group_tile`).
# At last put `jit_without_lto` from `course.backend` in place of `cuda.jit`.

# %% [markdown]
# The road ends at the peak of these units. A GPU has others, **tensor cores**, that multiply
# float16 and are far faster: [lesson 17](17_tensor_cores.ipynb).

# %% [markdown]
# ## 15 All counts, a T4, and your GPU
#
# <kbd>deepening</kbd>
#
# What bound each rung? Both counts of all of them, on an H200:

# %%
print("for an FMA:     wavefronts  instructions  recorded")
print("               (1 a cycle)   (4 a cycle)   TFLOP/s")
for name in ("naive", "tiled", "column", "square", "wide", "buffered", "warp tiles"):
    shared = traced(name).total("shared", "load").wavefronts / warp_fmas
    issue = ladder.instructions(name)
    print(f"{name:14}{shared:12.3f}{issue:14.3f}{ladder.recorded(name).teraflops:10.1f}")

# %% [markdown]
# (Wavefronts are the source's, by the trace; instructions the whole kernel's, counted on an H200.)
#
# And on a **Tesla T4**, as in Colab? It has half as many float32 units: two FMA a cycle. If the
# other rows of the table stay as they are, the next cell **predicts** the lower of two roofs.
# Nobody measured it here. It is too high if the T4 has too few units that load for a wavefront a
# cycle. It is so, too, where the rest of a kernel adds to its inner loop's instructions. It is too
# low where the compiler puts reads together, as in `tiled` and `square`.
#
# If you have a T4, `ladder.measure` tells what is true.

# %%
for name in ("tiled", "column", "square", "wide", "buffered", "warp tiles"):
    shared = traced(name).total("shared", "load").wavefronts / warp_fmas
    issue = ladder.facts(name, "sm_75").loop.per_product
    roof = min(ladder.shared_roof(shared, "T4"), ladder.issue_roof(issue, "T4"))
    share = roof / ladder.shared_roof(0, "T4")
    print(f"{name:11} roof at {roof:4.1f} TFLOP/s on a T4, {share:4.0%} of its peak")

# %% [markdown]
# On a GPU the next cell measures the package's rungs; without one it gives the bounds. (`beside`
# had your kernels. Is one of them more than 1.4 times as slow as the package's? Then look for an
# `array[index]` left in its inner loop.)

# %%
# NBVAL_IGNORE_OUTPUT
for name in ("tiled", "column", "square", "wide", "buffered", "warp tiles"):
    print(ladder.measure(name))

# %% [markdown]
# ## What you should be able to say now
#
# - Tiles of results in registers: `rows + columns` reads make `rows * columns` FMA; nearly square
#   is best, for a block, a warp and a thread.
# - Registers limit the tile, and with it how many blocks share an SM.
# - Wide accesses need aligned addresses; lanes read neighbouring fours.
# - The lowest roof counts. Count the whole kernel.
# - Load early, store to the other buffer, wait once.

# %%
progress(6)

# %% [markdown]
# ## Questions
#
# 1. Why is the local array `total` in registers, and when would it not be?
# 2. In your main loop, why is one barrier enough?
#
# <details><summary>Answers</summary>
#
# 1. All its indices are constants once the loops are unrolled. With an index that depends on data,
#    the compiler must put it in local memory.
# 2. A round stores into the buffer that nobody reads in it. The barrier stands between these stores
#    and the reads of the next round. It also stands between this round's reads and the stores of
#    the next.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Squares of 4×4: more threads, fewer registers. Predict the roofs, then trace.
# - Let your last rung take any k: first the part that fills no whole tile, padded with 0.

# %% [markdown]
# ## Common misconceptions
#
# - *"More threads are faster."* `wide` has one thread for 64 pixels, `naive` one for each.
# - *"A full SM is the goal."* The fastest kernels here fill a quarter of an SM or less. Enough work
#   in each thread hides waiting, too.
# - *"A local array is slow memory."* Not if the compiler can keep it in registers.
# - *"The image is right, so the order is."* The trace tells.

# %% [markdown]
# ## What to read next
#
# - Simon Boehm, [How to optimize a CUDA matmul kernel](https://siboehm.com/articles/22/CUDA-MMM):
#   a ladder in CUDA C++, with other pictures.
# - NVIDIA, [CUTLASS: fast linear algebra in CUDA
#   C++](https://developer.nvidia.com/blog/cutlass-linear-algebra-cuda/): the same three floors.
# - V. Volkov's [talk of 2010](https://www.nvidia.com/content/GTC-2010/pdfs/2238_GTC2010.pdf): why
#   registers beat threads.
# - Next in the course: [lesson 07](07_reading_a_profiler.ipynb), Reading a profiler.
#   [Lesson 17](17_tensor_cores.ipynb) goes on from here, to tensor cores.
