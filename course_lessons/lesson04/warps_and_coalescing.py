# %% [markdown]
# # 04 Warps and coalescing
#
# You look at threads as the GPU does, 32 at a time. Then you can tell from the source how much
# memory a kernel moves, and change one line so that it moves a quarter.

# %% [markdown]
# ## What you will do
#
# - Predict how many sectors a request touches, then count them.
# - Find the guilty access of your own kernel.

# %% [markdown]
# ## What you will learn
#
# - Why neighbouring threads should touch neighbouring elements, **coalescing**.
# - How a fixed number of threads shares any number of elements.

# %% [markdown]
# ## What you need
#
# Lessons [00](00_your_picture_your_kernel.ipynb) to [02](02_an_image_from_its_svd.ipynb). No GPU.

# %% [markdown]
# ## How long it takes
#
# Eight exercises. Take a break after section 4.

# %% [markdown]
# ## 1 Thirty-two at a time
#
# <kbd>core</kbd>
#
# A GPU runs threads in groups of 32, a **warp**. The threads of a warp are its **lanes**, 0 to 31.
# All lanes run the same instruction in the same step.

# %%
import numpy as np
from numba import float32

from course import check, cuda, images, mine, predict, progress, recorded, trace
from course.kernels import reconstruct, transpose
from course_lessons.lesson01.pictures import thread_map
from course_lessons.lesson04 import pictures

# %% [markdown]
# They are counted along x first, then along y; every 32 form a warp. So how many rows lie under one
# warp of a 16×16 block?

# %%
predict("rows under one warp of a 16 x 16 block", 2, exact=True)


# %%
@cuda.jit
def who_is_in_which_warp(warps, lanes):
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    index = y * cuda.blockDim.x + x
    warps[y, x] = index // 32
    lanes[y, x] = cuda.laneid


maps = {}
for block in ((32, 2), (16, 4), (8, 8)):
    warps, lanes = np.zeros((2, *block[::-1]), dtype=np.int32)
    who_is_in_which_warp[1, block](warps, lanes)
    maps[f"block {block}"] = (warps, lanes)
pictures.warp_maps(maps)

# %% [markdown]
# Each number is a lane, `cuda.laneid`. In the first block a warp is one row, in the last it is four
# short rows. So **the width of the block decides how many rows lie under a warp.**

# %%
warps = np.zeros((16, 16), dtype=np.int32)
who_is_in_which_warp[1, (16, 16)](warps, np.zeros_like(warps))
rows_of_warp_0 = np.unique(np.nonzero(warps == 0)[0])
question = "rows under one warp of a 16 x 16 block"
predict.answer(question, len(rows_of_warp_0), unit="rows", how="counted")

# %% [markdown]
# ## 2 Requests and sectors
#
# <kbd>core</kbd>
#
# In this kernel lane `l` reads element `first + step * l` of `x`.


# %%
@cuda.jit
def read_somewhere(out, x, first, step):
    lane = cuda.grid(1)
    value = x[first + step * lane]
    out[lane] = value


# %% [markdown]
# The 32 lanes read in the same step: for the memory that is **one request**.
#
# Memory comes in **sectors** of 32 bytes. A sector begins at an address that is a multiple of 32.
# Every sector under at least one lane is moved, whole. That is what a request costs.
#
# 32 lanes read 32 neighbouring float32 elements of 4 bytes. How many sectors?

# %%
predict("sectors, neighbours", 4, exact=True)


# %%
def traced_read(x, first, step):
    return trace(read_somewhere, 1, 32, np.zeros(32, x.dtype), x, first, step)


x = np.zeros(1024, dtype=np.float32)
neighbours = traced_read(x, 0, 1)
load = neighbours.total("global", "load")
print(f"{load.requests} request, {load.bytes} bytes asked for, {load.sectors * 32} bytes moved")
predict.answer("sectors, neighbours", load.sectors, unit="sectors", how="counted")

# %% [markdown]
# 32 · 4 = 128 bytes, 4 sectors. No byte is moved in vain. Such a request is **coalesced**.
#
# Now every second element (`step` is 2), elements 32 apart (`step` is 32), and neighbours from
# element 1 on (`first` is 1). Draw the elements in rows of eight on paper, if you like.

# %%
predict(
    "sectors: every second, every 32nd, neighbours from element 1 on",
    8,
    32,
    4,
    exact=True,
    numbers=3,
)

# %%
every_second, far_apart, one_late = (
    traced_read(x, 0, 2),
    traced_read(x, 0, 32),
    traced_read(x, 1, 1),
)
question = "sectors: every second, every 32nd, neighbours from element 1 on"
found = [each.total("global", "load").sectors for each in (every_second, far_apart, one_late)]
predict.answer(question, found, how="counted")
one_late.show(3)

# %% [markdown]
# `show` draws the request of a line, counted from the `def`: a fifth sector comes for one lane. 32
# apart, each lane has a sector of its own: 1,024 bytes move for 128.
#
# All lanes may also read one and the same element (a **broadcast**), neighbours from the last to
# the first, or other types.

# %%
requests = {
    "every eighth": (np.float32, 0, 8),
    "all the same": (np.float32, 5, 0),
    "backwards": (np.float32, 31, -1),
    "neighbours, float64": (np.float64, 0, 1),
    "neighbours, uint8": (np.uint8, 0, 1),
}
print("request               asked  moved  sectors")
for name, (dtype, first, step) in requests.items():
    sectors = traced_read(np.zeros(1024, dtype), first, step).total("global", "load").sectors
    asked = 32 * np.dtype(dtype).itemsize
    print(f"{name:21} {asked:5}  {sectors * 32:5}  {sectors:7}")

# %% [markdown]
# From every eighth on, each lane has a sector of its own. A broadcast moves one. The order of the
# lanes does not matter. float64 needs twice the sectors of float32, uint8 a quarter.

# %% [markdown]
# ### Exercise: count the sectors of a request
#
# Write the rule as a function. `indices` holds the element that each active lane reads, `itemsize`
# is the size of an element in bytes. The array begins at byte 0. Return the number of sectors.
#
# <details><summary>Hint</summary>
#
# At which byte does element `i` begin? In which sector does byte `b` lie? `np.unique` removes
# repetitions.
#
# </details>


# %% tags=["exercise"]
def count_sectors(indices, itemsize):
    """Return how many sectors of 32 bytes the elements lie in; ``indices`` is an integer array."""
    ### BEGIN SOLUTION
    sectors = indices * itemsize // 32
    return len(np.unique(sectors))
    ### END SOLUTION


# %% tags=["check"]
check("count-sectors", count_sectors)

# %% [markdown]
# ## 3 A chunk for each thread?
#
# <kbd>core</kbd>
#
# 128 threads add up 4,096 elements. On a CPU each thread gets a chunk of its own. Here is the same
# idea as a kernel. How many sectors does a load request touch?


# %%
@cuda.jit
def add_chunks(total, x):
    chunk = (x.size + cuda.gridsize(1) - 1) // cuda.gridsize(1)
    first = cuda.grid(1) * chunk
    part = float32(0)
    for i in range(first, min(first + chunk, x.size)):
        part += x[i]
    cuda.atomic.add(total, 0, part)


# %%
predict("sectors per load request, a chunk for each thread", 4, exact=True)

# %%
numbers = np.ones(4096, dtype=np.float32)
total = np.zeros(1, dtype=np.float32)
chunks = trace(add_chunks, 2, 64, total, numbers)
load = chunks.total("global", "load")
for finding in chunks.findings:
    print(finding)
question = "sectors per load request, a chunk for each thread"
predict.answer(question, load.sectors / load.requests, unit="sectors", how="counted")

# %% [markdown]
# `uncoalesced` means at least twice the sectors that would do. Lane 0 reads element 0, lane 1
# element 32, lane 2 element 64. Each thread walks through memory in order, but the **warp** touches
# 32 sectors in each step. (A CPU's cache still has them in the next step. A GPU's cache is shared
# by a thousand threads.) So do not ask "what does my thread do next?", but **"what do my neighbours
# do now?"**

# %% [markdown]
# The cure is a **grid-stride loop**. Each thread starts at its own index and goes on in steps as
# long as the whole grid, `cuda.gridsize(1)` threads. Here 8 threads share 20 elements:


# %%
@cuda.jit
def who_is_where(blocks, threads):
    for i in range(cuda.grid(1), blocks.size, cuda.gridsize(1)):
        blocks[i] = cuda.blockIdx.x
        threads[i] = cuda.threadIdx.x


blocks, threads = np.full((2, 20), -1, dtype=np.int32)
who_is_where[2, 4](blocks, threads)
thread_map(blocks, threads)

# %% [markdown]
# All eight threads work side by side, then all move on by eight. The loop ends at `blocks.size`, so
# it needs no guard, and is right for **every** launch.

# %% [markdown]
# ### Exercise: add up, neighbours side by side
#
# Fill in where a thread starts, and how long its step is, so that the lanes of a warp read
# neighbours in every step.
#
# <details><summary>Hint</summary>
#
# `first, step = ...`: the thread's index, and the number of all threads.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def add_strided(total, x):
    """Add the sum of ``x`` to ``total[0]``; the lanes of a warp read neighbours."""
    part = float32(0)
    ### BEGIN SOLUTION
    first, step = cuda.grid(1), cuda.gridsize(1)
    ### END SOLUTION
    for i in range(first, x.size, step):
        part += x[i]
    cuda.atomic.add(total, 0, part)


# %% tags=["check"]
check("total-by-strides", add_strided)

# %% [markdown]
# ## 4 Rows against columns
#
# <kbd>core</kbd>
#
# Here are your two kernels of [lesson 02](02_an_image_from_its_svd.ipynb), x on the rows and x on
# the columns. The image has 64 × 64 pixels, k = 8, blocks of 16 × 16.


# %%
u, s, vt = images.svd(images.head_mri()[96:160, 96:160])
factors = [np.ascontiguousarray(part) for part in (u[:, :8], s[:8], vt[:8])]
image = np.zeros((64, 64), dtype=np.float32)


def traced(kernel, block):
    grid = (64 // block[0], 64 // block[1])
    return trace(kernel, grid, block, *factors, 8, image)


on_rows = traced(mine("reconstruct-float32", reconstruct.reconstruct_float32), (16, 16))
on_columns = traced(mine("reconstruct-columns", reconstruct.reconstruct_naive), (16, 16))

# %% [markdown]
# Each step of the loop loads three elements. With x on the rows, 16 rows and 2 columns lie under a
# warp. Predict the sectors of each of the three loads. In how many sectors lie 16 different rows of
# `u`, at the same `i`?

# %%
predict("sectors of u[row, i], s[i], vt[i, col], x on the rows", 16, 1, 2, exact=True, numbers=3)


# %%
def sectors_by_array(report):
    """Return sectors per request of each array of a traced kernel."""
    sums = report.lines.groupby("array")[["sectors", "requests"]].sum()
    return (sums["sectors"] / sums["requests"]).to_dict()


before = sectors_by_array(on_rows)
question = "sectors of u[row, i], s[i], vt[i, col], x on the rows"
predict.answer(question, [before[array] for array in ("u", "s", "vt")], how="counted")
on_rows.heat_map()

# %% [markdown]
# The heat map shows the lines; of the three loads in the loop `u` is guilty, with 16 of 18 sectors.
# Its next row begins k elements further on. `col, row = cuda.grid(2)` puts 2 rows and 16 columns
# under the warp:

# %%
after = sectors_by_array(on_columns)
print("sectors per request   x on the rows   x on the columns")
for array in ("u", "s", "vt", "out"):
    print(f"{array:21} {before[array]:13.0f} {after[array]:18.0f}")
loads = [report.total("global", "load").sectors for report in (on_rows, on_columns)]
print(f"sectors of all loads  {loads[0]:13,} {loads[1]:18,}")

# %% [markdown]
# u goes from 16 sectors to 2, vt from 1 to 2, out from 16 to 4. The counters of an H200 read the
# same totals ([lesson 07](07_reading_a_profiler.ipynb)).
#
# So ask of each access: **which index changes from lane to lane, and is it the last one?**

# %% [markdown]
# ## 5 The guilty access
#
# <kbd>core</kbd>
#
# `dots[a, b]` is the dot product of columns a and b of a picture, so `dots[b, a]` is the same. The
# heat map shows where this kernel's sectors go. Which array is guilty?


# %%
@cuda.jit
def overlaps(out, dots, lengths):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        product = dots[col, row]
        length = lengths[row]
        out[row, col] = product / length


columns = images.head_mri()[:, 96:160]
dots = columns.T @ columns
lengths = np.ascontiguousarray(np.diag(dots))
report = trace(overlaps, (2, 8), (32, 8), np.zeros_like(dots), dots, lengths)
report.heat_map()

# %%
predict("guilty access", "dots", choices=("dots", "lengths", "out"))

# %%
by_array = sectors_by_array(report)
predict.answer("guilty access", max(by_array, key=by_array.get), how="counted")

# %% [markdown]
# ### Exercise: fix the access
#
# Fill in the line with that access fixed, so that no request needs more than 4 sectors. The result
# stays the same.
#
# <details><summary>Hint</summary>
#
# `col` comes from x. Where `col` is an index, it should be the last one.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def overlaps_fixed(out, dots, lengths):
    """Write ``dots[row, col] / lengths[row]``; ``dots`` is symmetric."""
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        ### BEGIN SOLUTION
        product = dots[row, col]
        ### END SOLUTION
        length = lengths[row]
        out[row, col] = product / length


# %% tags=["check"]
check("fix-the-access", overlaps_fixed)

# %% [markdown]
# ## 6 The transpose
#
# <kbd>core</kbd>
#
# Rows become columns: `out[col, row] = image[row, col]`. No arithmetic at all, only memory. In the
# first version x walks along the rows of the image. Block 32 × 8. What do its loads cost, what its
# stores?

# %%
predict(
    "sectors per load and per store, x along the rows of the image", 4, 32, exact=True, numbers=2
)

# %%
matrix = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
flipped = np.zeros((96, 64), dtype=np.float32)


def load_and_store_sectors(kernel, grid, out):
    report = trace(kernel, grid, (32, 8), out, matrix)
    totals = [report.total("global", op) for op in ("load", "store")]
    return tuple(total.sectors / total.requests for total in totals)


reading = load_and_store_sectors(transpose.transpose_read_coalesced, (3, 8), flipped)
print("right:", np.array_equal(flipped, matrix.T))
question = "sectors per load and per store, x along the rows of the image"
predict.answer(question, reading, how="counted")

# %% [markdown]
# A row of the image is a column of `out`. The warp reads 32 neighbours, four sectors, and writes
# them to 32 rows, 32 sectors. You cannot win both ways: what is a row on one side is a column on
# the other. (Section 12 says what is at stake; [lesson 05](05_shared_memory.ipynb) wins both.)

# %% [markdown]
# ## 7 What the counts do not say
#
# <kbd>core</kbd>
#
# The trace counts the sectors that the lanes request of the first cache, L1. Some come from a
# cache. The compiler may load once what you wrote twice. And fewer sectors take less time only
# where sectors are the bottleneck: measure.

# %% [markdown]
# ## 8 Two more mappings
#
# <kbd>deepening</kbd>
#
# The grid-stride loop of section 3 also writes: every element of `out` is written by one thread.
#
# ### Exercise: more elements than threads
#
# `out[i] = a * x[i] + y[i]`. The launch has a fixed number of threads, often fewer than elements.
#
# <details><summary>Hint</summary>
#
# `for i in range(first, end, step)`: which three values?
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def scale_add_strided(out, a, x, y):
    """Write ``a * x[i] + y[i]`` to ``out[i]``, with any number of threads."""
    ### BEGIN SOLUTION
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = a * x[i] + y[i]
    ### END SOLUTION


# %% tags=["check"]
check("strided-scale-add", scale_add_strided)

# %% [markdown]
# ### Exercise: one layer, in the right order
#
# A layer of an image is `out[i, j] = column[i] * weight * row[j]`; `weight` is one number. Write
# it with at most 4 sectors per **store** request. Before you start: which of the accesses cares
# which way x walks?
#
# <details><summary>Hint</summary>
#
# `j, i = cuda.grid(2)`: x is the last index of `out`. Guard `i` with `out.shape[0]`, `j` with
# `out.shape[1]`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def one_layer(out, column, weight, row):
    """Write ``column[i] * weight * row[j]`` to ``out[i, j]``."""
    ### BEGIN SOLUTION
    j, i = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = column[i] * weight * row[j]
    ### END SOLUTION


# %% tags=["check"]
check("one-layer", one_layer)

# %% [markdown]
# Here only the store cares. Of `column` and `row`, one is read by neighbours and the other is a
# broadcast, whichever way x walks.

# %% [markdown]
# ## 9 Why were 32 × 32 blocks slow?
#
# <kbd>deepening</kbd>
#
# The project had x on the rows. It tried blocks of 8 × 8, 16 × 16 and 32 × 32 threads. 32 × 32 was
# the slowest. The text blamed *register spills*. A thread keeps its variables in **registers**, the
# nearest memory of all. If it needs more of them than it can get, it puts values into memory.
#
# On a T4 a block of 1,024 threads may use 64 registers a thread. Compiled for a T4 (CUDA 13.0), the
# project's kernel needs 44, and spills none. The extra `compile` shows it (`doctor()` says whether
# you have it):

# %%
# NBVAL_IGNORE_OUTPUT
from course import CompilerMissing, compiled

try:
    facts = compiled(reconstruct.reconstruct_original, (*factors, 8, image), target="sm_75")
    print(facts.registers, "registers,", facts.spills, "bytes spilled")
except CompilerMissing:
    print("The extra compile is not installed here.")

# %% [markdown]
# x walks down the rows, so the block's width is the number of rows under a warp. Predict the
# sectors of a load of `u` for the three blocks.

# %%
predict("sectors of u[row, i] for 8, 16 and 32 wide blocks", 8, 16, 32, exact=True, numbers=3)

# %%
print("block    rows under a warp   u  s  vt  out   blocks at a time on a T4")
sectors_of_u = []
for width in (8, 16, 32):
    by_array = sectors_by_array(traced(reconstruct.reconstruct_original, (width, width)))
    sectors_of_u.append(by_array["u"])
    u_s_vt_out = "".join(f"{by_array[array]:4.0f}" for array in ("u", "s", "vt", "out"))
    at_a_time = min(16, 1024 // width**2)
    print(f"{width:2} x {width:2} {width:17} {u_s_vt_out} {at_a_time:16}")
predict.answer(
    "sectors of u[row, i] for 8, 16 and 32 wide blocks", tuple(sectors_of_u), how="counted"
)

# %% [markdown]
# The number of requests is the same. But a step of the loop needs 34 sectors instead of 18 or 10,
# and a store 32 instead of 16 or 8.
#
# The last column is the second reason. An SM (multiprocessor) of a T4 holds 1,024 threads
# and at most 16 blocks. A 32 × 32 block fills it alone. The next block can start only when its last
# warp is done. With four or sixteen blocks the others fill the gap.
#
# The counts are facts, and the spills are refuted. That the time comes from these two reasons is an
# **inference**: nobody measured the counters back then.

# %% [markdown]
# ## 10 The block's shape is a knob
#
# <kbd>deepening</kbd>
#
# With x on the columns, blocks of 256 threads can still be flat or tall. Which of these five needs
# the fewest sectors per load request: 64 × 4, 32 × 8, 16 × 16, 8 × 32 or 4 × 64?

# %%
predict(
    "fewest load sectors: width of the block",
    "32 x 8",
    choices=("64 x 4", "32 x 8", "16 x 16", "8 x 32", "4 x 64"),
)

# %%
print("  block    u  s  vt   per load request   out")
per_request = {}
for width in (64, 32, 16, 8, 4):
    report = traced(reconstruct.reconstruct_naive, (width, 256 // width))
    u_s_vt_out = [sectors_by_array(report)[array] for array in ("u", "s", "vt", "out")]
    per_request[width] = sum(u_s_vt_out[:3]) / 3
    print(
        f"{width:3} x {256 // width:2} {u_s_vt_out[0]:4.0f} {u_s_vt_out[1]:2.0f} "
        f"{u_s_vt_out[2]:3.0f} {per_request[width]:18.2f} {u_s_vt_out[3]:5.0f}"
    )
best = min(per_request, key=per_request.get)
predict.answer("fewest load sectors: width of the block", f"{best} x {256 // best}", how="counted")

# %% [markdown]
# A flat warp reads many columns of `vt`, a tall one many rows of `u`. 16 × 2 is between them. For
# the store all are equal, down to a width of 8: eight float32 values are 32 bytes. The part of a
# row under a warp has to fill **whole sectors**, so the type matters. Predict the sectors of a
# store of uint8 pixels, with 16 threads along x.

# %%
predict("sectors per store, uint8, block (16, 16)", 2, exact=True)

# %%
widths = (32, 16, 8, 4)
print("width of the block" + "".join(f"{width:5}" for width in widths))
stores = {}
for dtype in (np.float64, np.float32, np.uint8):
    picture = np.zeros((64, 64), dtype=dtype)
    for width in widths:
        block, grid = (width, 256 // width), (64 // width, width // 4)
        report = trace(transpose.copy, grid, block, np.zeros_like(picture), picture)
        store = report.total("global", "store")
        stores[dtype, width] = store.sectors // store.requests
    figures = "".join(f"{stores[dtype, width]:5}" for width in widths)
    print(f"{np.dtype(dtype).name:18}{figures}")
predict.answer("sectors per store, uint8, block (16, 16)", stores[np.uint8, 16], how="counted")

# %% [markdown]
# 16 pixels of one byte are half a sector, and the warp's two rows need one each. A block of
# **32 × 8** is right for every type. Where the counts of two shapes are alike, as here for float32,
# only a measurement can decide.

# %% [markdown]
# ## 11 Branches and loops
#
# <kbd>deepening</kbd>
#
# What happens at an `if` when the lanes of a warp do not agree? Each thread here writes how many
# lanes are active with it. `cuda.activemask()` has a bit for each active lane, `cuda.popc` counts
# bits. The threads take sides in groups of `alike` neighbours, first of 1: even or odd.


# %%
@cuda.jit
def who_is_with_me(active, alike):
    i = cuda.grid(1)
    if i // alike % 2 == 0:
        active[i] = cuda.popc(cuda.activemask())
    else:
        active[i] = cuda.popc(cuda.activemask())


predict("active lanes in a branch for even i", 16, exact=True)

# %%
active = np.zeros(64, dtype=np.int32)
report = trace(who_is_with_me, 1, 64, active, 1)
predict.answer("active lanes in a branch for even i", active[0], unit="lanes", how="counted")

# %% [markdown]
# The warp runs **both** sides: the even lanes work and the odd ones wait, then the odd lanes work
# and the even ones wait. That is **divergence**. (Newer GPUs may switch between the sides. They
# never run both at once.) Two warps make four store requests, each with 16 lanes.
#
# With groups of 32 the lanes of each warp agree. How many store requests?

# %%
predict("store requests of two warps, branch by warp", 4, exact=True)

# %%
report = trace(who_is_with_me, 1, 64, active, 32)
print("active lanes:", active.min(), "to", active.max())
requests = report.total("global", "store").requests
predict.answer(
    "store requests of two warps, branch by warp", requests, unit="requests", how="counted"
)

# %% [markdown]
# So an `if` is **free where whole warps agree**. In the guard `if i < n` only the one warp at the
# end of the array is split. (A short `if` often becomes no branch at all: both results are
# computed, and one is taken.)
#
# The picture shows both kernels, step by step. White lanes wait.

# %%
lane = np.arange(32)
both_sides = np.stack([np.where(lane % 2 == 0, 1, 0), np.where(lane % 2 == 1, 2, 0)], axis=1)
one_side = {"if by warp: warp 0": np.full((32, 1), 1), "warp 1": np.full((32, 1), 2)}
pictures.warp_timeline({"if by lane: each of both warps": both_sides, **one_side}, ["if", "else"])

# %% [markdown]
# A loop can diverge, too. A warp goes on as long as its last lane does. This one counts the steps
# of a famous game: halve an even number, replace an odd one by `3 n + 1`, until it is 1.


# %%
@cuda.jit
def steps_to_one(steps, numbers):
    i = cuda.grid(1)
    if i < numbers.size:
        number = numbers[i]
        while number != 1:
            if number % 2 == 0:
                number = number // 2
            else:
                number = 3 * number + 1
            steps[i] += 1


# %% [markdown]
# The numbers 1 to 32, a lane each. What share of the lanes is at work, on average over the whole
# loop, in percent?

# %%
predict("lanes at work in the loop, in percent", 50, within=1.5)

# %%
steps = np.zeros(32, dtype=np.int32)
steps_to_one[1, 32](steps, np.arange(1, 33))
share = 100 * steps.mean() / steps.max()
print("steps, shortest and longest:", steps.min(), "and", steps.max())
predict.answer("lanes at work in the loop, in percent", round(share), unit="%", how="counted")

# %%
at_work = (steps[:, None] > np.arange(steps.max())).astype(int)
pictures.warp_timeline({"the numbers 1 to 32": at_work}, ["works"])

# %% [markdown]
# The number 27 takes 111 steps, 31 takes 106, and all others at most 23. The whole warp is busy
# until the last lane is done. White is time that is paid and not used. Give a warp work of about
# equal length: sort it, or cut it in equal parts.

# %% [markdown]
# ### Exercise: two jobs in one launch
#
# One launch does two jobs: `squares[i] = x[i] * x[i]`, and `roots[i] = math.sqrt(y[i])`. All four
# arrays have n elements, and there are at least 2 n threads. This answer is right, and its warps
# are split:

# %%
import math


@cuda.jit
def two_jobs_by_lane(squares, roots, x, y):
    thread = cuda.grid(1)
    i = thread // 2
    if i < x.size:
        if thread % 2 == 0:
            squares[i] = x[i] * x[i]
        else:
            roots[i] = math.sqrt(y[i])


check("two-jobs", two_jobs_by_lane, wrong_on_purpose=True)

# %% [markdown]
# Give whole warps one job.
#
# <details><summary>Hint</summary>
#
# Threads 0 to n - 1 do the squares, threads n to 2 n - 1 the roots. Thread n has the root number 0.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def two_jobs(squares, roots, x, y):
    """Write the squares of ``x`` and the roots of ``y``; whole warps do one job."""
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < x.size:
        squares[i] = x[i] * x[i]
    elif i < 2 * x.size:
        roots[i - x.size] = math.sqrt(y[i - x.size])
    ### END SOLUTION


# %% tags=["check"]
check("two-jobs", two_jobs)

# %% [markdown]
# ### Exercise: a block whose warps agree
#
# Old cameras deliver every second row of a picture. This kernel fills the odd rows with the mean of
# their neighbours. (The number of rows is odd, so the last row has none to fill.) The picture is
# uint8. Return grid and block for it, x along the columns, so that no warp has to walk both sides.
# At least 64 threads a block.


# %%
@cuda.jit
def fill_odd_rows(out, image):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        if row % 2 == 0:
            out[row, col] = image[row, col]
        else:
            out[row, col] = (image[row - 1, col] + image[row + 1, col]) // 2


# %% [markdown]
# <details><summary>Hint</summary>
#
# All lanes of a warp must have the same row. Look at the drawing in section 1 again.
#
# </details>


# %% tags=["exercise"]
def launch_for_rows(rows, columns):
    """Return (grid, block), two numbers each, x first."""
    ### BEGIN SOLUTION
    block = (32, 8)
    grid = ((columns + block[0] - 1) // block[0], (rows + block[1] - 1) // block[1])
    return grid, block
    ### END SOLUTION


# %% tags=["check"]
check("block-shape", launch_for_rows)

# %% [markdown]
# ## 12 Both sides of a transpose
#
# <kbd>deepening</kbd>
#
# The picture shows eight of the lanes of section 6's first version: what they read, and what they
# write.

# %%
pictures.transpose_sides()

# %%
writing = load_and_store_sectors(transpose.transpose_write_coalesced, (2, 12), flipped)
copying = load_and_store_sectors(transpose.copy, (3, 8), np.zeros_like(matrix))
print("sectors per        load  store")
for name, sectors in (("copy", copying), ("reads in order", reading), ("writes in order", writing)):
    print(f"{name:18} {sectors[0]:4.0f} {sectors[1]:6.0f}")

# %% [markdown]
# A plain copy shows what would be ideal. How much is at stake? Take 8192 × 8192 numbers on an H200.
# Its memory copies so many bytes a second (recorded):

# %%
copied = recorded("roofs", variant="copy", gpu="H200")[0].gigabytes_per_second
one_way = 8192 * 8192 * 4
print(f"measured for a copy: {copied / 1e3:.2f} TB/s")
for name, sectors in (("copy", copying), ("naive transpose", reading)):
    moved = one_way * (sectors[0] + sectors[1]) / 4
    print(f"{name:16} {moved / 1e9:.2f} GB, {moved / copied * 1e-3:.0f} µs at the copy's rate")

# %% [markdown]
# The copy's line is a bound: no transpose can be faster. The other is what it would take if every
# sector went to memory. A real GPU lies between the two, since its caches put parts of sectors
# together. [Lesson 05](05_shared_memory.ipynb) transposes with both sides in order.

# %% [markdown]
# ## 13 Records, or an array for each field
#
# <kbd>deepening</kbd>
#
# A point has x, y and z. In Python you would make a record of them, and an array of records. NumPy
# can do that, and kernels can read it: `points[i].x`.
#
# `align=True` promises that every field lies on a whole multiple of its size. Without it, Numba
# reads a float32 byte by byte: on an H200, four requests for one.

# %%
point = np.dtype([("x", np.float32), ("y", np.float32), ("z", np.float32)], align=True)
points = np.zeros(1024, dtype=point)
points["x"], points["y"], points["z"] = 3, 4, 12
print("a point has", point.itemsize, "bytes")


# %%
@cuda.jit
def lengths_of_records(out, points):
    i = cuda.grid(1)
    if i < out.size:
        x = points[i].x
        y = points[i].y
        z = points[i].z
        out[i] = math.sqrt(x * x + y * y + z * z)


# %% [markdown]
# 32 lanes read `points[i].x`. From one x to the next it is 12 bytes. How many sectors?

# %%
predict("sectors of points[i].x", 12, exact=True)

# %%
lengths = np.zeros(1024, dtype=np.float32)
together = trace(lengths_of_records, 8, 128, lengths, points)
print("a length:", lengths[0])
load = together.total("global", "load")
predict.answer(
    "sectors of points[i].x", load.sectors / load.requests, unit="sectors", how="counted"
)

# %%
pictures.records_in_memory()

# %% [markdown]
# 32 records are 384 bytes, 12 sectors, and each holds some x. The loads of y and z touch the same
# 12 sectors again. This layout is called **array of structs**. With an array for each field, a
# **struct of arrays**, neighbours are neighbours.

# %% [markdown]
# ### Exercise: split the records
#
# Return three arrays, x, y and z, each with its elements side by side. Careful: `points["x"]` has
# the right values, but it only looks into the records.
#
# <details><summary>Hint</summary>
#
# `np.ascontiguousarray` copies an array so that neighbours lie side by side.
#
# </details>


# %% tags=["exercise"]
def split(points):
    """Return x, y, z of ``points``, float32 arrays of their own."""
    ### BEGIN SOLUTION
    return tuple(np.ascontiguousarray(points[name]) for name in ("x", "y", "z"))
    ### END SOLUTION


# %% tags=["check"]
check("split-records", split)


# %%
@cuda.jit
def lengths_of_arrays(out, x, y, z):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = math.sqrt(x[i] * x[i] + y[i] * y[i] + z[i] * z[i])


# %% [markdown]
# The same lengths from three arrays. (As long as your function is empty, zeros stand in for them.)

# %%
arrays = split(points)
if arrays is None:
    arrays = [np.zeros(1024, dtype=np.float32)] * 3
apart = trace(lengths_of_arrays, 8, 128, lengths, *arrays)
for name, report in (("array of structs", together), ("struct of arrays", apart)):
    load = report.total("global", "load")
    print(f"{name}: {load.sectors / load.requests:.0f} sectors a request")

# %% [markdown]
# A kernel that needs all three fields may find y and z in the cache, since the sectors are the
# same. A kernel that needs only x moves three times too much, and no cache helps. So keep fields
# apart that are used apart.

# %% [markdown]
# ## What you should be able to say now
#
# - A warp is 32 threads, counted along x first.
# - A request costs as many sectors of 32 bytes as lie under its lanes.
# - Neighbours in x must be neighbours in memory: x is the last index.
# - A grid-stride loop lets neighbours read side by side, with any number of threads.
# - A naive transpose is coalesced on one side only.

# %%
progress(4)

# %% [markdown]
# ## Questions
#
# **1.** A warp reads 32 neighbouring float64 elements, beginning at the array's first. How many
# sectors, and is that uncoalesced?
#
# <details><summary>Answer</summary>
#
# 32 · 8 = 256 bytes, 8 sectors. It is coalesced: nothing is moved in vain.
#
# </details>
#
# **2.** An image has 1,001 columns of float32. Why do most of its rows cost a sector more?
#
# <details><summary>Answer</summary>
#
# A row has 4,004 bytes, which is no multiple of 32. So most rows begin inside a sector, and 32
# neighbours lie over five sectors instead of four.
#
# </details>
#
# **3.** `for i in range(k): total += u[row, i]`, and x is on the columns. All 16 lanes of a row
# read the same element. Is that bad?
#
# <details><summary>Answer</summary>
#
# No. It is a broadcast: one sector serves all of them.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Sum each **row** of a matrix, a thread a row; then each **column**, a thread a column. Which one
#   is coalesced? What could you do about the other one?

# %% [markdown]
# ## Common misconceptions
#
# - *"My thread reads in order, so it is coalesced."* Its neighbours' reads in the same step count.
# - *"Coalesced means in the order of the lanes."* Any order will do, within the same sectors.
# - *"An if is slow on a GPU."* Only where the lanes of one warp disagree (section 11).
# - *"A view is a copy."* `points["x"]` moves nothing.

# %% [markdown]
# ## What to read next
#
# - [Lesson 05](05_shared_memory.ipynb), *Shared memory*: the transpose with both sides in order.
# - [How to access global memory efficiently in CUDA
#   kernels](https://developer.nvidia.com/blog/how-access-global-memory-efficiently-cuda-c-kernels/)
#   by Mark Harris.
# - [Nsight Compute's documentation](https://docs.nvidia.com/nsight-compute/ProfilingGuide/): the
#   memory tables explain requests and sectors.
