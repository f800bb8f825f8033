# %% [markdown]
# # 05 Shared memory
#
# A block has a small, fast memory of its own. You use it to load a number once instead of many
# times, and to turn data around. It has two traps, and you learn to see both.

# %% [markdown]
# ## What you will do
#
# - Make a race visible that no result shows.
# - Rebuild your photograph from tiles.
#
# ## What you will learn
#
# - Who sees shared memory, and how long it lives.
# - Where a barrier must stand, and when a tile pays.

# %% [markdown]
# ## What you need
#
# Lessons [01](01_threads_blocks_grids.ipynb), [02](02_an_image_from_its_svd.ipynb) and
# [04](04_warps_and_coalescing.ipynb). Sections 11 and 12 go on with lesson 04's transpose.

# %% [markdown]
# ## How long it takes
#
# Nine exercises. Take a break after section 5.

# %% [markdown]
# ## 1 The same number, again and again
#
# <kbd>core</kbd>
#
# An image as in [lesson 02](02_an_image_from_its_svd.ipynb): 64×64 pixels, k = 32.

# %%
import numpy as np
from numba import float32

from course import check, cuda, images, mine, plots, predict, progress, trace, wrapped
from course.kernels import reconstruct, transpose
from course_lessons.lesson05 import pictures

k = 32
u, s, vt = images.svd(images.head_mri()[96:160, 96:160])
u, s, vt = np.ascontiguousarray(u[:, :k]), s[:k], np.ascontiguousarray(vt[:k])
out = np.zeros((64, 64), dtype=np.float32)
print("u", u.shape, " s", s.shape, " vt", vt.shape, " out", out.shape)

# %% [markdown]
# A thread computes one pixel, from a whole row of `u` and a whole column of `vt`. The thread beside
# it reads the same row of `u` again. How many threads load the same element of `u`?

# %%
predict("threads that load the same element of u", 64, exact=True)

# %%
naive = trace(reconstruct.reconstruct_naive, (4, 4), (16, 16), u, s, vt, k, out)
lanes = naive.lines.set_index("code")["lanes"]  # every load of every thread counts
print(f"loads of u: {lanes['u[row, i]']:,}, elements of u: {u.size:,}")
loads = naive.total("global", "load")
different = u.nbytes + s.nbytes + vt.nbytes
print(f"{loads.bytes:,} bytes asked for, {different:,} different ones")
predict.answer(
    "threads that load the same element of u", lanes["u[row, i]"] / u.size, how="counted"
)

# %% [markdown]
# All 64 pixels of a row want it; for `vt`, all 64 of a column. Look at one block of 16×16 pixels:

# %%
pictures.tile_rounds(1)

# %% [markdown]
# Its 256 threads need 16 rows of `u`, 16 columns of `vt`, and `s`. If the block fetched them once,
# every element of `u` and `vt` would serve 16 threads.

# %% [markdown]
# ## 2 A memory for the block
#
# <kbd>core</kbd>
#
# | memory | who sees it | on a Tesla T4 | lives as long as |
# |---|---|---|---|
# | registers | one thread | 256 KiB an SM | the thread |
# | **shared** | **one block** | **64 KiB an SM** | **the block** |
# | global | all threads | 15 GiB | you keep it |
#
# Shared memory sits inside the SM. `cuda.shared.array(shape, dtype)` asks for it.

# %% [markdown]
# Each thread puts a number into a buffer, and takes its right neighbour's out, the last thread the
# first one's. (Section 3 explains `syncthreads`.) Two blocks of 64 threads both fill `buffer[0]`,
# and `x` is 0, 1, 2, … 127. Which number does the last thread get?


# %%
@cuda.jit
def pass_on(out, x):
    buffer = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    buffer[t] = x[i]
    cuda.syncthreads()
    out[i] = buffer[(t + 1) % 64]


predict("out[127] of two blocks", 0, exact=True)

# %%
x = np.arange(128, dtype=np.float32)
passed = np.zeros_like(x)
pass_on[2, 64](passed, x)
print("out[60:67] =", passed[60:67])
predict.answer("out[127] of two blocks", passed[127], how="found")

# %% [markdown]
# **Each block has its own copy**, which others cannot see. The index is `t`, the place in the
# block, not `i`, the place in the grid.
#
# The memory holds anything at the start. It is gone when the block ends. A block may have 48 KiB.
# (Section 13 says how it gets more.)

# %% [markdown]
# ## 3 The barrier
#
# <kbd>core</kbd>
#
# Leave `cuda.syncthreads()` out. Is the result still right?


# %%
@cuda.jit
def pass_on_carelessly(out, x):
    buffer = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    buffer[t] = x[i]
    out[i] = buffer[(t + 1) % 64]


predict("is the result right without the barrier?", "no", choices=("yes", "no"))

# %%
careless = np.zeros_like(x)
report = trace(pass_on_carelessly, 2, 64, careless, x)
right = np.array_equal(careless, passed)
predict.answer("is the result right without the barrier?", "yes" if right else "no", how="found")

# %% [markdown]
# The result is right, and the program is wrong. The simulator runs all threads line by line. **A
# GPU promises no such thing:** a block's warps run in any order. This may happen:

# %%
pictures.barrier_timelines()

# %% [markdown]
# Warp 0 reads a place that warp 1 has not filled yet: perhaps on one run of a thousand. The trace
# asks of any two threads at one address: does anything **order** them?

# %%
for finding in report.findings:
    print(finding)

# %% [markdown]
# `cuda.syncthreads()` is a **barrier**: every thread of the block waits there until all have
# arrived. After it, all can read the stores from before it. It knows nothing of other blocks.

# %% [markdown]
# ## 4 All or nobody
#
# <kbd>core</kbd>
#
# What if some never come? Here is the usual guard, for 100 elements in two blocks of 64. The second
# block has 36 elements.


# %%
@cuda.jit
def pass_on_guarded(out, x):
    buffer = cuda.shared.array(64, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        buffer[t] = x[i]
        cuda.syncthreads()
        out[i] = buffer[(t + 1) % 64]


report = trace(pass_on_guarded, 2, 64, careless[:100], x[:100])
print(report.findings[0])

BLOCK = 64  # threads of a block, from here on

# %% [markdown]
# 28 threads skip the barrier, and the others wait: on a GPU perhaps for ever. The rule:
#
# **Guard the loads and stores. Never guard the barrier.**
#
# ```text
# if i < x.size:            # some fill
#     buffer[t] = x[i]
# cuda.syncthreads()        # all wait
# if i < x.size:            # some store
#     out[i] = ...
# ```

# %% [markdown]
# ### Exercise: reverse each block's elements, in place
#
# Every block turns its own `count` elements around, in `x` itself. The fill is given. Write the
# other three lines.
#
# ```text
# blocks of 4:   0 1 2 3 | 4 5 6 7 | 8 9   becomes   3 2 1 0 | 7 6 5 4 | 9 8
# ```
#
# <details><summary>Hint</summary>
#
# First all threads wait. Thread `t` takes the number at `count - 1 - t` of the buffer.
#
# </details>
#
# <details><summary>Afterwards: why the buffer?</summary>
#
# In place, a thread overwrites what its partner may not have read yet.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def reverse_blocks(x):
    """Reverse the elements of each block of BLOCK threads in ``x``, in place."""
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    first = cuda.blockIdx.x * BLOCK
    count = min(BLOCK, x.size - first)
    if t < count:
        buffer[t] = x[i]
    ### BEGIN SOLUTION
    cuda.syncthreads()
    if t < count:
        x[i] = buffer[count - 1 - t]
    ### END SOLUTION


# %% tags=["check"]
check("reverse-blocks", reverse_blocks)

# %% [markdown]
# ## 5 The second barrier
#
# <kbd>core</kbd>
#
# Often a buffer is used more than once. Here one block goes through a long array, 64 elements a
# round. There is a barrier:


# %%
@cuda.jit
def pass_on_in_rounds(out, x):
    buffer = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    for start in range(0, x.size, 64):
        buffer[t] = x[start + t]
        cuda.syncthreads()
        out[start + t] = buffer[(t + 1) % 64]


report = trace(pass_on_in_rounds, 1, 64, careless, x)
for finding in report.findings:
    print(finding)

# %% [markdown]
# Now the **store** is accused. A fast warp fills the buffer anew while a slow one still reads the
# old numbers. So a loop has two barriers: between fill and read, and between read and the next
# fill.

# %% [markdown]
# ## 6 Tiles
#
# <kbd>core</kbd>
#
# If k is large, 16 rows of `u` and 16 columns of `vt` do not fit into shared memory. So go through
# them in **rounds**, a tile of 16×16 from each. In each round a thread at `x`, `y` of the block
# fills one place of each tile. `start` is the first of the round's 16 singular values:
#
# | place | holds |
# |---|---|
# | `u_tile[y, x]` | `u[row, start + x] * s[start + x]` |
# | `vt_tile[y, x]` | `vt[start + y, col]` |
#
# Then it adds 16 products to its sum, `u_tile[y, i] * vt_tile[i, x]`: row `y` of one tile times
# column `x` of the other.

# %%
pictures.tile_rounds(4, current=1)

# %% [markdown]
# ### Exercise: the order of a round
#
# Here the image is a whole number of blocks, and k one of tiles. **Put the round's five statements
# in order**: move whole lines, the loop with its body.
#
# <details><summary>Hint</summary>
#
# Fill, wait, add up, wait. The second barrier stands before the next round fills.
#
# </details>

# %%
TILE = 16


# %% tags=["exercise"]
@cuda.jit
def rounds_in_order(u, s, vt, k, out):
    """Write the sum of the first k layers; sizes are multiples of TILE."""
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        ### BEGIN ORDER
        u_tile[y, x] = u[row, start + x] * s[start + x]
        vt_tile[y, x] = vt[start + y, col]
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
        ### END ORDER
    out[row, col] = total


# %% tags=["check"]
check("tile-rounds", rounds_in_order)

# %% [markdown]
# A wrong order may give the right image, and a race.
#
# **Edges.** Few images are a whole number of 16×16 blocks, and few k a multiple of 16. Pad with
# **0** where a tile goes past the edge: a product with 0 adds nothing. Threads without a pixel fill
# and wait, too. Only their last store is left out.

# %% [markdown]
# ### Exercise: rebuild an image from tiles
#
# Write the 10 lines of a round, for any sizes. `u` may have more than k columns. Load at most one
# sector for each pixel: the kernel of section 1 needs 5.
#
# <details><summary>Hint 1: the round</summary>
#
# Fill `u_tile[y, x]` or set it to 0. Fill `vt_tile[y, x]` or set it to 0. Wait. Add 16 products.
# Wait.
#
# </details>
#
# <details><summary>Hint 2: the guards</summary>
#
# For `u_tile`: `row < u.shape[0] and start + x < k`. For `vt_tile`:
# `start + y < k and col < vt.shape[1]`. For the store the guard that you know.
#
# </details>


# %% tags=["exercise", "long"]
@cuda.jit
def reconstruct_tiled(u, s, vt, k, out):
    """Write the sum of the first k layers to ``out``, in blocks of TILE x TILE threads."""
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    col, row = cuda.grid(2)
    total = float32(0)
    for start in range(0, k, TILE):
        ### BEGIN SOLUTION
        u_tile[y, x] = 0
        if row < u.shape[0] and start + x < k:
            u_tile[y, x] = u[row, start + x] * s[start + x]
        vt_tile[y, x] = 0
        if start + y < k and col < vt.shape[1]:
            vt_tile[y, x] = vt[start + y, col]
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[y, i] * vt_tile[i, x]
        cuda.syncthreads()
        ### END SOLUTION
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


# %% tags=["check"]
check("reconstruct-tiled", reconstruct_tiled)

# %%
photo = images.mine()
factors = [np.ascontiguousarray(part) for part in images.svd(photo)]
rebuilt = np.zeros_like(photo)
MINE = mine("reconstruct-tiled", reconstruct.reconstruct_tiled)
rows, columns = photo.shape
MINE[(-(-columns // TILE), -(-rows // TILE)), (TILE, TILE)](*factors, 40, rebuilt)
plots.image_grid([photo, rebuilt], ["your photograph", "40 layers, from tiles"])

# %% [markdown]
# ## 7 What the tiles saved, and when a tile pays
#
# <kbd>core</kbd>
#
# The naive kernel loads 20,480 sectors (32 bytes each). With tiles, a warp of 2 rows and 16 columns
# loads once a round: 2 × 16 numbers of `u`, 16 of `s`, 2 × 16 of `vt`. There are 128 warps and 2
# rounds.
#
# <details><summary>Help with counting</summary>
#
# 16 neighbouring float32 numbers are 64 bytes: 2 sectors. So a round of a warp is 4 + 2 + 4
# sectors.
#
# </details>

# %%
predict("sectors loaded with tiles", 2560, exact=True)

# %%
tiled = trace(reconstruct.reconstruct_tiled, (4, 4), (16, 16), u, s, vt, k, out)
predict.answer("sectors loaded with tiles", tiled.total("global", "load").sectors, how="counted")
print("loads (requests)     naive     tiled")
for space in ("global", "shared"):
    counts = [report.total(space, "load").requests for report in (naive, tiled)]
    print(f"{space:14} {counts[0]:11,} {counts[1]:9,}")

# %% [markdown]
# An eighth of the sectors. When does a tile pay?
#
# | kernel | loads of an element | with a tile | gain |
# |---|---|---|---|
# | reconstruction | 64 | 4 | reuse |
# | blur (section 9) | 7 | 1.1 | reuse |
# | transpose (section 11) | 1 | 1 | order |
# | a map such as `2 * x` | 1 | 1 | nothing |
#
# (And caches reuse, too.)

# %% [markdown]
# ## 8 Banks
#
# <kbd>core</kbd>
#
# Shared memory has 32 **banks**. Word `w` (four bytes, one float32) is in bank `w % 32`. At a time,
# each bank gives **one** word: 32 lanes with 32 different banks are served at once, in one
# **wavefront**. Two different words in one bank take a second one: a **bank conflict**.
#
# Lane `t` reads word `stride * t`. How many wavefronts with stride 2, and with 0 (one word for
# all)?


# %%
@cuda.jit
def read_with_stride(out, stride):
    buffer = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    for place in range(t, 1024, 32):
        buffer[place] = place
    cuda.syncthreads()
    out[t] = buffer[stride * t]


predict("wavefronts, strides 2 and 0", 2, 32, exact=True, numbers=2)


# %%
def wavefronts(stride):
    return trace(read_with_stride, 1, 32, careless, stride).total("shared", "load").wavefronts


found = [wavefronts(stride) for stride in (2, 0)]
predict.answer("wavefronts, strides 2 and 0", found, how="counted")

# %% [markdown]
# - Stride 2: words 0 and 32 are both in bank 0, and the odd banks have nothing to do.
# - **One** word for many lanes is free: a bank gives it to everyone who asks, a broadcast.

# %% [markdown]
# ## 9 Neighbours share: the halo
#
# <kbd>deepening</kbd>
#
# Here is another use that saves loads. A blur replaces each element by the mean of seven: itself
# and three on either side. Outside of `x` stand zeros. How many loads is that for each element,
# without shared memory?

# %%
RADIUS = 3
WINDOW = 2 * RADIUS + 1


@cuda.jit
def blur_directly(out, x):
    i = cuda.grid(1)
    if i < out.size:
        total = float32(0)
        for element in range(i - RADIUS, i + RADIUS + 1):
            if 0 <= element < x.size:
                total += x[element]
        out[i] = total / float32(WINDOW)


# %%
predict("loads for each element, blurred directly", 7, within=1.05)

# %%
row = images.head_mri()[128]
blurred = np.zeros_like(row)
report = trace(blur_directly, 4, BLOCK, blurred, row)
loads = report.total("global", "load").lanes / row.size
predict.answer("loads for each element, blurred directly", round(loads, 2), how="counted")

# %% [markdown]
# A little below seven, because of the two ends. Now let the block fetch its elements once. It needs
# three more on either side: the **halo**. Here is a small block of 8 threads with a halo of 2:

# %%
pictures.halo(block=8, radius=2)

# %% [markdown]
# Place `p` of the tile holds element `first - RADIUS + p` of `x`, where `first` is the block's
# first element: `i - t` in each of its threads. There are more places than threads, so some threads
# fill two. That is the strided loop from [lesson 04](04_warps_and_coalescing.ipynb) (section 3),
# inside a block:
#
# ```text
# for place in range(t, WITH_HALO, BLOCK):
#     tile[place] = ...
# ```

# %% [markdown]
# The tile has `BLOCK + 2 * RADIUS` places. You may want to write it like this:


# %%
from numba.core.errors import NumbaError


@cuda.jit
def ask_with_a_sum(out):
    tile = cuda.shared.array(BLOCK + 2 * RADIUS, float32)
    tile[cuda.threadIdx.x] = 1


try:
    trace(ask_with_a_sum, 1, 32, blurred)
except NumbaError as error:
    print(wrapped(error))

# %% [markdown]
# The compiler sets the memory aside. So a shape must be a **constant**: a number, or a name from
# outside of the kernel. An argument is none, a sum is none.

# %%
WITH_HALO = BLOCK + 2 * RADIUS

# %% [markdown]
# ### Exercise: blur with a halo
#
# Blur `x` into `out`. Each element is loaded once, but for the halo: at most 1.25 loads for each
# element.
#
# <details><summary>Hint 1: filling the tile</summary>
#
# In the loop, `element = i - t - RADIUS + place`. If `0 <= element < x.size` fill in `x[element]`,
# otherwise 0.
#
# </details>
#
# <details><summary>Hint 2: using it</summary>
#
# After the barrier, thread `t` adds up the places `t` to `t + WINDOW - 1`. Divide by
# `float32(WINDOW)`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def blur(out, x):
    """Write the mean of ``x[i - 3]`` to ``x[i + 3]`` to ``out[i]``; zeros stand outside of x."""
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    ### BEGIN SOLUTION
    for place in range(t, WITH_HALO, BLOCK):
        element = i - t - RADIUS + place
        if 0 <= element < x.size:
            tile[place] = x[element]
        else:
            tile[place] = 0
    cuda.syncthreads()
    if i < out.size:
        total = float32(0)
        for place in range(t, t + WINDOW):
            total += tile[place]
        out[i] = total / float32(WINDOW)
    ### END SOLUTION


# %% tags=["check"]
check("blur-halo", blur)

# %% [markdown]
# ## 10 Banks and the tiles
#
# <kbd>deepening</kbd>
#
# Which line of the tiled kernel has the traffic now? In the picture, each wavefront is one access
# of shared memory.

# %%
tiled.heat_map()

# %% [markdown]
# In the inner loop a warp of 2 rows and 16 columns reads `u_tile[y, i]` with two values of `y`. It
# reads `vt_tile[i, x]` with 16 values of `x`. How many wavefronts does each take?

# %%
predict("wavefronts of u_tile[y, i] and vt_tile[i, x]", 1, 1, exact=True, numbers=2)

# %%
inner = tiled.lines.set_index("code").loc[["u_tile[y, i]", "vt_tile[i, x]"]]
wavefronts_each = tuple(inner["wavefronts"] / inner["requests"])
predict.answer("wavefronts of u_tile[y, i] and vt_tile[i, x]", wavefronts_each, how="counted")

# %%
tiled.show(int(inner["line"].iloc[0]))

# %% [markdown]
# Two words for 32 lanes, in two banks, and 16 words for 32 lanes, in 16 banks. Both are broadcasts,
# and free. Other strides, with the kernel of section 8:

# %%
print("stride      ", *[f"{stride:3}" for stride in (1, 2, 3, 4, 5, 8, 16, 31, 32, 33)])
print("wavefronts  ", *[f"{wavefronts(n):3}" for n in (1, 2, 3, 4, 5, 8, 16, 31, 32, 33)])

# %% [markdown]
# Odd strides are free: they visit all 32 banks. Powers of two are bad.

# %% [markdown]
# ### Exercise: wavefronts of one request
#
# Plain Python: `words` holds the word that each lane reads. Return how many wavefronts that takes.
#
# <details><summary>Hint</summary>
#
# The busiest bank decides. How many **different** words does it have to give? `np.unique(words)` is
# each word once, and `np.bincount` counts.
#
# </details>


# %% tags=["exercise"]
def bank_wavefronts(words):
    """Return the wavefronts of a request; ``words`` is an array of 32 numbers of words."""
    ### BEGIN SOLUTION
    banks = np.unique(words) % 32
    return np.bincount(banks).max()
    ### END SOLUTION


# %% tags=["check"]
check("bank-wavefronts", bank_wavefronts)

# %% [markdown]
# ## 11 The transpose, through a tile
#
# <kbd>deepening</kbd>
#
# [Lesson 04](04_warps_and_coalescing.ipynb) left you with a transpose that is slow on one side,
# whatever you do: 4 sectors a request for the loads and 32 for the stores, or the other way round.

# %% [markdown]
# ### Exercise: transpose, stores in order
#
# Turn it round: let the stores be coalesced, at most 4 sectors each. The grid is large enough for
# both arrays, so guard with care.
#
# <details><summary>Hint</summary>
#
# Give each thread an element of `out`: x is its last index. Where in `image` does it come from?
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def transpose_write(out, image):
    """Write the transpose of ``image``, (rows, columns), to ``out``, (columns, rows)."""
    ### BEGIN SOLUTION
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[column, row]
    ### END SOLUTION


# %% tags=["check"]
check("transpose-write", transpose_write)

# %% [markdown]
# A tile solves it. Global memory is loaded by rows **and** stored by rows. Only the tile turns.

# %%
pictures.tile_turn()

# %% [markdown]
# Two things have to change. Inside the tile, rows become columns: filled at `tile[y, x]`, read at
# `tile[x, y]`. And the tile itself moves. A block has two numbers: `cuda.blockIdx.x` counts blocks
# to the right, `cuda.blockIdx.y` counts them down, and `cuda.grid(2)` computes with both. A tile
# loaded by block `(bx, by)` belongs where block `(by, bx)` would be. With 32×32 tiles and blocks:
#
# | | column | row |
# |---|---|---|
# | load from `image` | `blockIdx.x * SIDE + x` | `blockIdx.y * SIDE + y` |
# | store to `out` | `blockIdx.y * SIDE + x` | `blockIdx.x * SIDE + y` |

# %% [markdown]
# ### Exercise: transpose through a tile
#
# `image` is (rows, columns), `out` is (columns, rows). The grid covers `image`. Both sides must be
# coalesced: 4 sectors a request.
#
# <details><summary>Hint</summary>
#
# Fill, wait, store. There are two guards: the first compares with `image.shape`, the second, with
# the new row and column, with `out.shape`.
#
# </details>

# %%
SIDE = 32


# %% tags=["exercise"]
@cuda.jit
def transpose_tiled(out, image):
    """Write the transpose of ``image`` to ``out``, in blocks of SIDE x SIDE threads."""
    tile = cuda.shared.array((SIDE, SIDE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    ### BEGIN SOLUTION
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * SIDE + x
    row = cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]
    ### END SOLUTION


# %% tags=["check"]
check("tiled-transpose", transpose_tiled)

# %% [markdown]
# ## 12 Padding
#
# <kbd>deepening</kbd>
#
# Global memory is in order now. And the tile? It is filled by rows: 32 neighbouring words. It is
# read by columns: lane `x` reads `tile[x, y]`, and a row has 32 words. Predict the wavefronts of
# that one request.

# %%
predict("wavefronts of reading a column of 32 x 32", 32, exact=True)

# %%
image = np.ascontiguousarray(images.head_mri()[96:160, 96:192])
turned = np.zeros((96, 64), dtype=np.float32)
by_tile = trace(transpose.transpose_tiled, (3, 2), transpose.BLOCK, turned, image)
column = by_tile.total("shared", "load")
question = "wavefronts of reading a column of 32 x 32"
predict.answer(question, column.wavefronts / column.requests, how="counted")

# %% [markdown]
# The worst there is: the whole column lies in one bank. And the cure is so small that it looks like
# a joke: give the tile **one more column**, and never use it.

# %%
pictures.tile_banks((32, 33))

# %% [markdown]
# The numbers are banks. With 33 words in a row, each row starts one bank further on. A column then
# visits all banks, and a row still does. It is stride 33 from the table. This is called
# **padding**.

# %% [markdown]
# ### Exercise: pad the tile
#
# Your transpose again, without a bank conflict. Remember what a shape must be.
#
# <details><summary>Hint</summary>
#
# Outside of the kernel stands `PADDED = SIDE + 1`. Which of the two axes gets it? Look at the
# picture: a *row* has 33 words.
#
# </details>

# %%
PADDED = SIDE + 1


# %% tags=["exercise"]
@cuda.jit
def transpose_padded(out, image):
    """Write the transpose of ``image`` to ``out``, without a bank conflict."""
    ### BEGIN SOLUTION
    tile = cuda.shared.array((SIDE, PADDED), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    if row < image.shape[0] and column < image.shape[1]:
        tile[y, x] = image[row, column]
    cuda.syncthreads()
    column = cuda.blockIdx.y * SIDE + x
    row = cuda.blockIdx.x * SIDE + y
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[x, y]
    ### END SOLUTION


# %% tags=["check"]
check("padded-transpose", transpose_padded)

# %% [markdown]
# All steps side by side, per request: sectors of the loads and stores, wavefronts of reading the
# tile. The kernels are the package's.


# %%
def per_request(report, space, op, figure):
    """Return a figure of a traced kernel for each of its requests, 0 where it has none."""
    total = report.total(space, op)
    return getattr(total, figure) / max(total.requests, 1)


print("transpose   load sectors  store sectors  tile wavefronts")
for name in ("read_coalesced", "tiled", "padded"):
    kernel = getattr(transpose, f"transpose_{name}")
    grid, block = ((3, 8), (32, 8)) if name == "read_coalesced" else ((3, 2), transpose.BLOCK)
    report = trace(kernel, grid, block, turned, image)
    loads = per_request(report, "global", "load", "sectors")
    stores = per_request(report, "global", "store", "sectors")
    reads = per_request(report, "shared", "load", "wavefronts")
    print(f"{name:14} {loads:9.0f} {stores:14.0f} {reads:16.0f}")

# %% [markdown]
# The package's blocks have 32×8 threads, and each moves four elements of the 32×32 tile. A block of
# 1,024 threads, as in your exercise, fills a T4's SM alone: while its threads wait at
# the barrier, nobody else works. The counts are the same.

# %% [markdown]
# Is padding always good? Take blocks of 16×16, whose warps have two rows, and a tile of 16×16.
# Nothing but filling it, row by row. Predict the wavefronts of a request: without padding, and with
# 17 words in a row.

# %%
predict("wavefronts of filling 16 x 16, and 16 x 17", 1, 1, exact=True, numbers=2)


# %%
def filling(width):
    """Return a kernel that fills a tile of 16 rows of ``width`` words."""

    @cuda.jit
    def fill():
        tile = cuda.shared.array((16, width), float32)
        tile[cuda.threadIdx.y, cuda.threadIdx.x] = 1

    return fill


answers = []
for width in (16, 17):
    store = trace(filling(width), 1, (16, 16)).total("shared", "store")
    answers.append(store.wavefronts / store.requests)
predict.answer("wavefronts of filling 16 x 16, and 16 x 17", tuple(answers), how="counted")

# %% [markdown]
# Padding made it **worse**. Without it, two rows of 16 words are all 32 banks. With it, they are
# words 0 to 15 and 17 to 32, and words 0 and 32 share bank 0. The tiles of section 6 have no
# conflict, so there is nothing to pad. Count first.

# %% [markdown]
# ## 13 How much a block may have
#
# <kbd>deepening</kbd>
#
# How large can a square float32 tile be, if a block may have 48 KiB?

# %%
predict("largest n for an n x n float32 tile in 48 KiB", 110, exact=True)


# %%
@cuda.jit
def ask_for_much(out):
    tile = cuda.shared.array((128, 128), float32)
    tile[0, 0] = 1
    out[0] = tile[0, 0]


try:
    trace(ask_for_much, 1, 1, passed, gpu="T4")
except NumbaError as error:
    print(wrapped(error))
predict.answer(
    "largest n for an n x n float32 tile in 48 KiB", int((48 * 1024 / 4) ** 0.5), how="computed"
)

# %% [markdown]
# 128 × 128 is refused, 110 × 110 just fits: 48,400 of 49,152 bytes. That limit is for a shape in
# the source (**static**).
#
# A block that takes much also keeps others away: two blocks of 40 KiB do not fit into the 64 KiB of
# an SM.
#
# A kernel for blocks of **any** size needs **dynamic** shared memory: shape 0, and the launch tells
# how much.


# %%
@cuda.jit
def pass_on_any(out, x):
    buffer = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    buffer[t] = x[i]
    cuda.syncthreads()
    out[i] = buffer[(t + 1) % cuda.blockDim.x]


# %% [markdown]
# The launch has four numbers now: `kernel[grid, block, stream, bytes]`. Streams are
# [lesson 08](08_streams.ipynb); 0 is the usual one. The last number is in **bytes**, for one block.

# %%
for threads in (32, 64, 128):
    pass_on_any[128 // threads, threads, 0, 4 * threads](passed, x)
    print(f"blocks of {threads:3}: out[31] = {passed[31]:.0f}, out[127] = {passed[127]:.0f}")

# %% [markdown]
# `trace` takes the bytes as `dynamic_shared`. Forget them, and the buffer has no place at all:

# %%
print(trace(pass_on_any, 2, 64, passed, x).findings[0])
print()
print("with 256 bytes:", len(trace(pass_on_any, 2, 64, passed, x, dynamic_shared=256).findings))

# %% [markdown]
# All dynamic arrays of a kernel begin at the **same** place: take one, and use parts of it.
#
# It may have 48 KiB. A T4 gives a block up to 64 KiB, an H200 227, if the driver is asked, once for
# each kernel. Numba has no word for it; `allow_shared` in `course/dispatch/prepared.py` asks
# ([lesson 14](14_a_network_in_one_kernel.ipynb)). The simulator keeps the GPU's own limit:

# %%
for kibibytes in (64, 65):
    try:
        trace(pass_on_any, 2, 64, passed, x, dynamic_shared=1024 * kibibytes, gpu="T4")
        print(kibibytes, "KiB: a T4 has them")
    except ValueError as error:
        print(kibibytes, "KiB:", error)

# %% [markdown]
# ### Exercise: the sum of each block
#
# Each block writes the sum of its elements to `out`. Blocks have 16 to 256 threads, a power of two;
# the last one may have fewer elements. Add in rounds, the second half to the first:
#
# ```text
# 3  1  4  1  5  9  2  6     step 4: place t += place t + 4, for t < 4
# 8 10  6  7                 step 2
# 14 17                      step 1
# 31
# ```
#
# <details><summary>Hint 1: before the rounds</summary>
#
# Thread `t` fills in `x[i]`, or 0 where there is no element. Then all wait.
#
# </details>
#
# <details><summary>Hint 2: a round</summary>
#
# `if t < step:` add, and nothing else in the `if`. Then **all** wait, and `step //= 2`. The loop
# runs `while step > 0`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def block_sums(out, x):
    """Write the sum of the elements of each block to ``out[blockIdx.x]``, float32."""
    part = cuda.shared.array(0, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    ### BEGIN SOLUTION
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
    ### END SOLUTION


# %% tags=["check"]
check("block-sums", block_sums)

# %% [markdown]
# One thread alone needs 255 additions for 256 numbers. How many rounds does the block need?

# %%
predict("rounds for the sum of 256 numbers", 8, exact=True)

# %%
rounds, step = 0, 256 // 2
while step > 0:
    rounds, step = rounds + 1, step // 2
predict.answer("rounds for the sum of 256 numbers", rounds, unit="rounds", how="computed")

# %% [markdown]
# A **reduction**: [lesson 10](10_reductions.ipynb).

# %% [markdown]
# ## 14 What the project's tiles did
#
# <kbd>deepening</kbd>
#
# The project had x on the rows, in the image **and** in the tiles.


# %%
@cuda.jit
def original_tiled(u, s, vt, k, out):
    u_tile = cuda.shared.array((TILE, TILE), float32)
    vt_tile = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.grid(2)
    total = 0.0
    for start in range(0, k, TILE):
        u_tile[x, y] = u[row, start + y] * s[start + y]
        vt_tile[x, y] = vt[start + x, col]
        cuda.syncthreads()
        for i in range(TILE):
            total += u_tile[x, i] * vt_tile[i, y]
        cuda.syncthreads()
    out[row, col] = total


# %% [markdown]
# A warp has 16 values of `x`, 16 words apart. How many wavefronts has `u_tile[x, i]`?

# %%
predict("wavefronts of u_tile[x, i]", 8, exact=True)

# %%
original = trace(original_tiled, (4, 4), (16, 16), u, s, vt, k, out)
read = original.lines.set_index(["code", "op"]).loc[("u_tile[x, i]", "load")]
predict.answer("wavefronts of u_tile[x, i]", read["wavefronts"] / read["requests"], how="counted")

# %%
original.show(12)

# %% [markdown]
# 16 rows, 16 words apart: two banks, eight each. An **8-way conflict**, in the innermost loop.
#
# Beside the repaired kernel: sectors per request of `u`, `vt`, `out`, wavefronts of the tiles.


# %%
def costs(report):
    """Return sectors or wavefronts per request, by the code and kind of an access."""
    lines = report.lines.set_index(["code", "op"])
    return (lines["sectors"] + lines["wavefronts"]) / lines["requests"]


before, after = costs(original), costs(tiled)
print("       original                repaired")
for op, first, second in (
    ("load", "u[row, start + y]", "u[row, start + x]"),
    ("store", "u_tile[x, y]", "u_tile[y, x]"),
    ("load", "vt[start + x, col]", "vt[start + y, col]"),
    ("store", "vt_tile[x, y]", "vt_tile[y, x]"),
    ("load", "u_tile[x, i]", "u_tile[y, i]"),
    ("load", "vt_tile[i, y]", "vt_tile[i, x]"),
    ("store", "out[row, col]", "out[row, col]"),
):
    pair = before[[(first, op)]].max(), after[[(second, op)]].max()
    print(f"{op:6} {first:19}{pair[0]:3.0f}  {second:19}{pair[1]:3.0f}")

# %% [markdown]
# One line decides all of it: which index follows x. In the naive kernel of
# [lesson 04](04_warps_and_coalescing.ipynb) the wrong order made the loads of `u` uncoalesced. Here
# it does so to `u` **and** `vt`, and the tiles are filled and read through conflicts. Only
# `vt_tile[i, y]` was free already. The sums:

# %%
print("                            original  repaired")
for space, op, figure in (
    ("global", "load", "sectors"),
    ("global", "store", "sectors"),
    ("shared", "load", "wavefronts"),
    ("shared", "store", "wavefronts"),
):
    pair = [getattr(report.total(space, op), figure) for report in (original, tiled)]
    print(f"{space} {op:5} {figure:10} {pair[0]:13,} {pair[1]:9,}")
doubles = [report.operations["float64"] for report in (original, tiled)]
print(f"float64 operations      {doubles[0]:13,} {doubles[1]:9,}")

# %% [markdown]
# Which of its faults cost the time? The project measured on a T4, with k as large as the image. Two
# lower bounds, from counted work on its 40 SMs:
#
# - **float64** as in [lesson 02](02_an_image_from_its_svd.ipynb): a conversion and an addition in
#   each step of a thread, 2 a cycle;
# - **wavefronts**: 8 + 1 in each step of a warp. A bank gives one word a cycle, says the CUDA C++
#   programming guide, so at most one wavefront a cycle. (Nobody measured it on a T4 here. If it has
#   too few units that load, a wavefront takes two cycles, and the two right columns double.)

# %%
print(" size   measured   float64: base  boost   wavefronts: base  boost clock [ms]")
for size, measured in ((512, 186), (1024, 53.7), (2048, 157.5)):
    steps = size**3
    bounds = []
    for clocks in (2 * steps / 2, 9 * steps / 32):
        for rate in (0.585e9, 1.59e9):
            bounds.append(1e3 * clocks / (40 * rate))
    print(f"{size:5} {measured:9} {bounds[0]:15.1f} {bounds[1]:6.1f}", end="")
    print(f" {bounds[2]:18.1f} {bounds[3]:6.1f}")

# %% [markdown]
# - **512:** both bounds are a few milliseconds. The 186 ms hold the first call: the compiler.
# - **1024** fits 46 ms of float64 at base clock, **2048** fits 135 ms at boost clock. In both, the
#   bound is about 86% of what was measured. For the naive kernel in
#   [lesson 02](02_an_image_from_its_svd.ipynb) it was 87%.
# - The wavefronts need about a quarter of that, or a half if each takes two cycles. Either way they
#   fit behind float64.
#
# So the tiles removed a cost that did not bind, and their conflicts added one that did not bind
# either. The instructions are counted. Which clock the GPU ran at is an **inference**.

# %% [markdown]
# ## What you should be able to say now
#
# - Shared memory belongs to a block: one copy each, 48 KiB at most if static, gone when it ends.
# - Between a store and another thread's load stands a barrier; in a loop there are two.
# - All threads of the block reach the barrier. Guards go around loads and stores.
# - Different words in one bank queue, the same word does not.
# - A tile pays through reuse or through order.

# %%
progress(5)

# %% [markdown]
# ## Questions
#
# 1. A kernel gives the right result in a thousand runs. Can it still have a race?
# 2. Could two buffers save one of the two barriers?
#
# <details><summary>Answers</summary>
#
# 1. Yes. You saw one: the order that would break it just did not come up.
# 2. Yes. In the next round the block fills the other buffer, so nobody overwrites what is still
#    read: double buffering ([lesson 06](06_reuse_reuse_reuse.ipynb)).
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Blur an image in both directions, with a tile of 18×18 for 16×16 pixels.
# - Count a histogram for each block in shared memory, with `cuda.atomic.add`, and add the blocks'
#   counters to `counts` at the end. Where do its two barriers stand?

# %% [markdown]
# ## Common misconceptions
#
# - *"Shared memory is shared by all threads."* By those of one block.
# - *"The result is right, so the barrier is not needed."* The trace tells.
# - *"One barrier is enough in a loop."* The next round overwrites what is still read.
# - *"`if inside: … syncthreads()`."* Some wait for threads that never come.
# - *"Threads without a pixel can leave."* Not if others need what they would have loaded.
# - *"Shared memory starts with zeros."* It holds what was there before.
# - *"The tile's index is `i`."* It is the place in the block; `i` is the place in the grid.
# - *"Padding never hurts."* It did, in section 12.
# - *"All lanes on one word is the worst conflict."* It is a broadcast, and free.

# %% [markdown]
# ## What to read next
#
# - [Using Shared Memory in CUDA
#   C/C++](https://developer.nvidia.com/blog/using-shared-memory-cuda-cc/) and [An Efficient Matrix
#   Transpose](https://developer.nvidia.com/blog/efficient-matrix-transpose-cuda-cc/) by Mark
#   Harris: the same two stories, timed.
# - [Numba-CUDA: shared memory](https://nvidia.github.io/numba-cuda/user/memory.html) and its
#   [matrix multiplication](https://nvidia.github.io/numba-cuda/user/examples.html).
# - [CUDA C++ programming guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/): shared
#   memory and banks, and what `__syncthreads()` promises.
# - Next in the course: [lesson 06](06_reuse_reuse_reuse.ipynb), Reuse, reuse, reuse.
