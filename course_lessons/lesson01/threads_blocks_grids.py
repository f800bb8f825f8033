# %% [markdown]
# # 01 Threads, blocks, grids
#
# You give every element of an array its own thread: in one row, and in an image. You see why a GPU
# wants so many threads. Then you let many of them share one counter.

# %% [markdown]
# ## What you will do
#
# - Compute a thread's number by hand, and choose how many blocks to launch.
# - Add two images, and see how many bytes a launch copies.
# - Lose counts to a race, and get them back.
# - To go deeper: shift and turn arrays, write a function for whole arrays without any index, and a
#   helper that kernels call.

# %% [markdown]
# ## What you will learn
#
# - Why a GPU wants thousands of threads, why there are blocks, and how large they may be.
# - Which axis of an image is x.
# - What a launch copies, and how to avoid it.
# - What to do when a real GPU stops answering.

# %% [markdown]
# ## What you need
#
# [Lesson 00](00_the_machine_in_front_of_you.ipynb): kernel, launch, guard, check. NumPy arrays with
# two axes.

# %% [markdown]
# ## How long it takes
#
# About 2 and a half hours, nine exercises included. After section 6 is a good place for a break.
#
# Core: sections 1 to 8, 75 minutes. Deepening: sections 9 to 14, 75 minutes.

# %% [markdown]
# ## 1 One thread, one element
#
# <kbd>core</kbd> 5 minutes
#
# The simplest kernel is a **map**: each thread reads one element, computes, and writes one
# element.

# %%
import numpy as np
from numba import float32
from PIL import Image

from course import check, cuda, data_path, images, plots, predict, progress, recorded, trace
from course_lessons.lesson00.pictures import launch_picture
from course_lessons.lesson01 import pictures

# %% [markdown]
# Let the threads tell who they are. Each writes the number of its block, and its own number inside
# the block, at the place that `cuda.grid(1)` gives it.


# %%
@cuda.jit
def who_is_where(blocks, threads):
    i = cuda.grid(1)
    if i < blocks.size:
        blocks[i] = cuda.blockIdx.x
        threads[i] = cuda.threadIdx.x


blocks = np.full(14, -1, dtype=np.int32)
threads = np.full(14, -1, dtype=np.int32)
who_is_where[4, 4](blocks, threads)
pictures.thread_map(blocks, threads)

# %% [markdown]
# A colour is a block. In the boxes stand the threads' numbers, below them the elements'. Nobody
# drew this by hand: the kernel wrote it. Block 3 has four threads, too, but only two have an
# element.

# %% [markdown]
# ## 2 The index by hand
#
# <kbd>core</kbd> 10 minutes
#
# Look at element 9 in the picture: thread 1 of block 2. Two full blocks of four threads lie before
# it. So its number is 2 × 4 + 1.
#
# | name | what it is |
# |---|---|
# | `cuda.blockIdx.x` | number of my block |
# | `cuda.blockDim.x` | threads in a block |
# | `cuda.threadIdx.x` | my number in my block |


# %%
@cuda.jit
def count_by_hand(by_hand, by_numba):
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < by_hand.size:
        by_hand[i] = i
        by_numba[i] = cuda.grid(1)


by_hand = np.zeros(14, dtype=np.int32)
by_numba = np.zeros(14, dtype=np.int32)
count_by_hand[4, 4](by_hand, by_numba)
print(by_hand)
print(by_numba)

# %% [markdown]
# `cuda.grid(1)` is that formula. You will meet the long form in every CUDA program.
#
# ### Exercise: square every element
#
# Write `x[i]` times `x[i]` to `out[i]`. Compute `i` by hand this time, and guard it.
#
# <details><summary>Hint</summary>
#
# `i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x`, then the guard, then the product.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def square(out, x):
    """Write ``x[i] ** 2`` to ``out[i]``; one thread for each element."""
    ### BEGIN SOLUTION
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < out.size:
        out[i] = x[i] * x[i]
    ### END SOLUTION


# %% tags=["check"]
check("square-map", square)

# %% [markdown]
# ## 3 How many blocks?
#
# <kbd>core</kbd> 15 minutes
#
# You have 1,000 elements and blocks of 256 threads. How many blocks do you launch?

# %%
predict("blocks of 256 for 1,000 elements", 4, exact=True)

# %%
print("1000 / 256  =", 1000 / 256)
print("1000 // 256 =", 1000 // 256, "blocks, for", 1000 // 256 * 256, "elements")
enough = (1000 + 256 - 1) // 256
predict.answer("blocks of 256 for 1,000 elements", enough, unit="blocks", how="computed")

# %% [markdown]
# Rounded down, 232 elements get no thread. You have to round **up**. This is called ceiling
# division: add one less than the divisor before you divide.
#
# For 1,024 elements the same formula gives 4 as well, not 5. To add 1 to the rounded-down number
# would be one block too many.

# %%
print("elements  blocks of 256")
for n in (1, 255, 256, 257, 1000, 1024, 1025):
    print(f"{n:8,}  {(n + 255) // 256:6}")

# %% [markdown]
# ### Exercise: enough blocks, and none too many
#
# Return the grid and the block for `n` elements, as two whole numbers. You choose the size of a
# block: 128 or 256 is a good habit. No element stays without a thread, and no block without an
# element.
#
# <details><summary>Hint</summary>
#
# `return blocks, threads`, with `blocks` from the ceiling division by `threads`.
#
# </details>


# %% tags=["exercise"]
def launch_1d(n):
    """Return (blocks, threads per block) for ``n`` elements, ``n`` at least 1."""
    ### BEGIN SOLUTION
    threads = 128
    return (n + threads - 1) // threads, threads
    ### END SOLUTION


# %% tags=["check"]
check("launch-1d", launch_1d)

# %% [markdown]
# ## 4 Why blocks at all?
#
# <kbd>core</kbd> 5 minutes
#
# Why not one block with a million threads? Ask for one with 2,000.

# %%
from course import wrapped

try:
    trace(who_is_where, 1, 2000, blocks, threads)
except ValueError as error:
    print(wrapped(error))

# %% [markdown]
# A GPU is made of **multiprocessors**: a Tesla T4 has 40, an H200 132. A whole block runs on one
# of them, so that its threads can share memory and wait for each other. So a block has to fit:
# CUDA allows at most 1,024 threads in it.
#
# Blocks know nothing of each other. They run in any order, some at once, some later. That is the
# trick: the same program runs on 40 multiprocessors and on 132, and nobody has to change it.
#
# Threads come in packs of 32, called **warps**. So make blocks a multiple of 32: 128 or 256.

# %% [markdown]
# ## 5 Why thousands of threads?
#
# <kbd>core</kbd> 5 minutes
#
# A number from the GPU's memory arrives hundreds of clocks after it was asked for. A CPU avoids
# such waits by large caches. A GPU accepts them. While one warp waits, the multiprocessor goes on
# with **another warp**, at once and at no cost. This is called **latency hiding**. It needs warps
# that can go on, so it needs many threads: an H200 has room for 64 warps on each of its 132
# multiprocessors, 270,336 threads.
#
# A copy, `out[i] = x[i]`, was timed on an H200 with 1, 2, 4, … 64 warps on
# each multiprocessor. How many times faster is the copy with 64 warps than with one?

# %%
predict("copy with 64 warps instead of 1: times faster", 2, within=2, no_effect=1)

# %%
copies = recorded("measuring", kernel="copy by warps", dtype="float32", gpu="H200")
on_the_gpu = [132 * 32 * int(copy.shape) for copy in copies]
rates = [copy.gigabytes_per_second for copy in copies]
plots.curves(
    {"copy": (on_the_gpu, rates)}, "threads on the GPU", "GB/s", height=2.6,
    title="A copy on an H200, by its threads (recorded)",
)  # fmt: skip

# %%
predict.answer("copy with 64 warps instead of 1: times faster", round(rates[-1] / rates[0], 1))

# %% [markdown]
# The machine and its memory are the same for all points. Only the number of threads differs: with
# few of them it waits most of the time. With twice the threads, twice as much is under way, until
# the memory itself is busy. [Lesson 03](03_measuring_honestly.ipynb) measures this in full.
#
# What does it buy? This is the program of [lesson 02](02_an_image_from_its_svd.ipynb), recorded: an
# image of 2048×2048 pixels is rebuilt, by NumPy on 16 cores of a CPU, by a first kernel with a
# thread for each pixel, and by the kernel of [lesson 05](05_shared_memory.ipynb). The copies
# between host and device are left out.

# %%
size = "2048x2048x256"
times = {
    "NumPy, 16 cores": recorded("measuring", kernel="crossing", variant="NumPy", shape=size),
    "a first kernel": recorded("measuring", variant="reconstruct_naive 32x8", shape=size),
    "lesson 05": recorded("measuring", variant="reconstruct_tiled 16x16", shape=size),
}
times = {name: figures[0].median for name, figures in times.items()}
print(f"lesson 05 is {times['NumPy, 16 cores'] / times['lesson 05']:.1f} times as fast as NumPy")
plots.time_bars(times, "2048 × 2048 pixels, H200 and CPU (recorded)")

# %% [markdown]
# ## 6 Two axes: x is the column
#
# <kbd>core</kbd> 15 minutes
#
# An image has rows and columns. Grids and blocks can have two axes as well, x and y. Here 5 × 10
# pixels get blocks of 4 threads in x and 3 in y.

# %%
launch_picture((5, 10), (3, 2), (4, 3))

# %% [markdown]
# In each box stand `threadIdx.x, threadIdx.y`. Two things to remember:
#
# - CUDA says **x first**, and x runs along the columns. NumPy says `shape = (rows, columns)`.
# - So `(rows, columns)` of the image becomes `(x, y) = (columns, rows)` of the launch.
#
# `cuda.grid(2)` gives two numbers, x first. Name them at once, and nothing can get mixed up:


# %%
@cuda.jit
def add_images_by_columns(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


# %% [markdown]
# Each index is guarded with its own axis. The launch needs a grid and a block of two numbers each,
# x first. Ceiling division again, once for each axis:

# %%
rows, columns = 64, 96
block = (32, 8)
grid = ((columns + 31) // 32, (rows + 7) // 8)
print("grid:", grid)

a = np.full((rows, columns), 2, dtype=np.float32)
b = np.full((rows, columns), 3, dtype=np.float32)
total = np.zeros((rows, columns), dtype=np.float32)
add_images_by_columns[grid, block](total, a, b)
print(total.min(), total.max())

# %% [markdown]
# A guard with the axes mixed up is right for square images, and only for those. This is what its
# check says:


# %%
@cuda.jit
def add_square_images(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[1] and column < out.shape[0]:
        out[row, column] = a[row, column] + b[row, column]


check("add-images", add_square_images, wrong_on_purpose=True)

# %% [markdown]
# The verdict names the first wrong access and the first case in which it happens. 16 × 16 was
# right, 13 × 37 is not: when the square case passes and the other fails, two axes are mixed up.

# %% [markdown]
# ### Exercise: add two images
#
# Write the sum of `a` and `b` to `out`, for images of every shape. x is the column here, too:
# memory comes in **sectors** of 32 bytes, eight float32 numbers. Neighbours in x run at the same
# moment, and share a sector only where they are neighbours in memory. The check counts sectors.
#
# <details><summary>Hint</summary>
#
# Three lines: `column, row = cuda.grid(2)`, then a guard with two comparisons, then the sum.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def add_images(out, a, b):
    """Write ``a + b`` to ``out``, arrays of shape (rows, columns)."""
    ### BEGIN SOLUTION
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]
    ### END SOLUTION


# %% tags=["check"]
check("add-images", add_images)

# %% [markdown]
# ## 7 What a launch copies
#
# <kbd>core</kbd> 5 minutes
#
# You gave NumPy arrays to your kernels, and it worked. How? For each launch Numba copies **every**
# array to the device, and afterwards **every** array back, inputs included.


# %%
@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


on_host = np.zeros(5, dtype=np.int32)
add_one[1, 32](on_host)
on_host

# %% [markdown]
# With a device array nothing is copied. You decide when. Three launches in a row, one copy back:

# %%
on_device = cuda.to_device(on_host)
for _ in range(3):
    add_one[1, 32](on_device)
print("host:", on_host, " device:", on_device.copy_to_host())

# %% [markdown]
# `cuda.device_array_like(x)` makes an array on the device without copying anything. Its elements
# hold no defined values until a kernel writes them. That is what outputs are for.
#
# Count the bytes: ten launches of a kernel with two inputs and one output, a million float32 each.

# %%
predict("megabytes copied in ten launches, NumPy arrays", 120, exact=True)

# %%
arrays = [np.zeros(1_000_000, dtype=np.float32) for _ in range(3)]
one_way = sum(array.nbytes for array in arrays) / 1e6
print(f"device arrays, each copied once: {one_way:.0f} MB")
predict.answer(
    "megabytes copied in ten launches, NumPy arrays", 10 * 2 * one_way, unit="MB", how="computed"
)

# %% [markdown]
# Ten launches, each array there and back. The way between host and device is far slower than the
# GPU's own memory. [Lesson 03](03_measuring_honestly.ipynb) measures both. The habit: copy in once,
# launch many times, copy out once.

# %% [markdown]
# ## 8 One counter for many threads
#
# <kbd>core</kbd> 15 minutes
#
# Here is a head, seen by magnetic resonance. How often does each grey level occur in it? That is a
# **histogram**. The grey levels are sorted into eight bins first.
#
# Now on the device: a thread for each pixel, and each adds 1 to the counter of its bin. What comes
# out?

# %%
head = images.head_mri()
bins = np.minimum(head * 8, 7).astype(np.int32).ravel()
right = np.bincount(bins, minlength=8)
print(f"{bins.size:,} pixels:", right)
plots.image_grid([head], ["a head"])


# %%
@cuda.jit
def count_carelessly(counts, values):
    i = cuda.grid(1)
    if i < values.size:
        counts[values[i]] += 1


predict("are all pixels counted?", "no", choices=("yes", "no"))

# %%
# NBVAL_IGNORE_OUTPUT
counts = np.zeros(8, dtype=np.int32)
count_carelessly[512, 128](counts, bins)
print(counts)
predict.answer("are all pixels counted?", "yes" if counts.sum() == bins.size else "no", how="found")

# %% [markdown]
# `counts[v] += 1` is three steps: read, add, write. Two threads read a 5, both write a 6, and one
# update is lost. This is a **race**. In the simulator many threads take each step together, so
# nearly all updates are lost. On a GPU the result may change from run to run.
#
# No run of the program tells you that for sure. The trace does: it knows who touched what, and in
# which order nothing is promised.

# %%
report = trace(count_carelessly, 512, 128, np.zeros(8, dtype=np.int32), bins)
for finding in report.findings:
    print(f"{finding.kind}, line {finding.line}")

# %% [markdown]
# The cure is an **atomic** operation: read, add and write as one step that nobody can interrupt.
# `cuda.atomic.add(count, 0, 1)` adds 1 to `count[0]`, and the threads queue for it. Queues cost
# time, so atomics are for results that many threads share. A thread that has its own element needs
# none.
#
# ### Exercise: count how often each value occurs
#
# Add 1 to `counts[v]` for each `v` in `values`. The counts are there already, mostly 0: you change
# them.
#
# <details><summary>Hint</summary>
#
# Guard `i` with `values.size`. The index for `cuda.atomic.add` is `values[i]`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def histogram(counts, values):
    """Add to ``counts[v]`` how often ``v`` occurs in ``values``."""
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)
    ### END SOLUTION


# %% tags=["check"]
check("histogram", histogram)

# %%
counts = np.zeros(8, dtype=np.int32)
histogram[512, 128](counts, bins)
pictures.histogram_bars(counts, "grey level, in eight bins", right=right)

# %% [markdown]
# ## 9 Neighbours and borders
#
# <kbd>deepening</kbd> 15 minutes
#
# A thread may read other elements than its own. This kernel moves every element one place to the
# right. What does it write to `out[0]`?


# %%
@cuda.jit
def shift_carelessly(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i - 1]


# %%
predict("out[0] after the careless shift of 10, 20, 30, 40", 0, exact=True)

# %%
x = np.array([10, 20, 30, 40], dtype=np.float32)
out = np.zeros_like(x)
report = trace(shift_carelessly, 1, 4, out, x)
print(out)
predict.answer("out[0] after the careless shift of 10, 20, 30, 40", out[0], how="found")

# %% [markdown]
# Thread 0 reads `x[-1]`. As in NumPy, that is the last element. No error, and a wrong border. The
# trace has seen it:

# %%
print(report.findings[0])

# %% [markdown]
# In the other direction `x[i + 1]` leaves the array at the other end. How you read such a verdict
# is the same as in [lesson 00](00_the_machine_in_front_of_you.ipynb): which index, which size,
# which thread. Then ask: **is there a guard for this very index?** A guard for `i` does not guard
# `i + 1`.

# %% [markdown]
# ### Exercise: move every element one place to the right
#
# `out[i]` becomes `x[i - 1]`, and `out[0]` becomes 0. Nothing may be read from outside, not even
# by a negative index.
#
# <details><summary>Hint</summary>
#
# Three kinds of threads: number 0, the others that have an element, and the rest. `if`, `elif`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def shift_right(out, x):
    """Write ``x[i - 1]`` to ``out[i]``, and 0 to ``out[0]``."""
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if i == 0:
        out[0] = 0
    elif i < out.size:
        out[i] = x[i - 1]
    ### END SOLUTION


# %% tags=["check"]
check("shift-right", shift_right)

# %% [markdown]
# ## 10 x along the rows, and a turn
#
# <kbd>deepening</kbd> 15 minutes
#
# What if x runs along the rows? The guard is the right one. The result is the same:


# %%
@cuda.jit
def add_images_by_rows(out, a, b):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


# %%
other_total = np.zeros_like(total)
grid_by_rows = ((rows + 31) // 32, (columns + 7) // 8)
add_images_by_rows[grid_by_rows, block](other_total, a, b)
print(np.array_equal(other_total, total))

# %% [markdown]
# The result is, the work is not. Threads with neighbouring x read at the same moment. How many
# times more sectors, of eight float32 numbers each, do they need when neighbours in x stand in
# different rows?

# %%
predict("times more sectors with x along the rows", 8, exact=True)

# %%
by_columns = trace(add_images_by_columns, grid, block, total, a, b).total("global", "load")
by_rows = trace(add_images_by_rows, grid_by_rows, block, total, a, b).total("global", "load")
print(f"x along columns: {by_columns.sectors:,} sectors, along rows: {by_rows.sectors:,}")
predict.answer(
    "times more sectors with x along the rows", by_rows.sectors / by_columns.sectors, how="counted"
)

# %% [markdown]
# Of the eight numbers in each sector only one is used at a time.
# [Lesson 04](04_warps_and_coalescing.ipynb) is about this. Until then: **x is the column.**

# %% [markdown]
# ### Exercise: turn an image by a quarter
#
# Turn `image` clockwise. An image of shape (rows, columns) becomes an `out` of shape (columns,
# rows). Each thread fills one pixel of `out`: which pixel of `image` belongs there?
#
# ```text
# image      out
# 1 2 3      4 1
# 4 5 6      5 2
#            6 3
# ```
#
# <details><summary>Hint</summary>
#
# The first row of `out` is the first column of `image`, from below. The last row of `image` has
# the number `image.shape[0] - 1`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def rotate(out, image):
    """Write ``image``, turned by a quarter clockwise, to ``out`` of shape (columns, rows)."""
    column, row = cuda.grid(2)
    ### BEGIN SOLUTION
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = image[image.shape[0] - 1 - column, row]
    ### END SOLUTION


# %% tags=["check"]
check("rotate-image", rotate)

# %% [markdown]
# Try it on the head of section 8. As long as `rotate` is
# empty, nobody writes to `out`, and the picture of it is black.

# %%
turned = np.zeros((head.shape[1], head.shape[0]), dtype=np.float32)
rotate[(16, 16), (16, 16)](turned, head)
plots.image_grid([head, turned], ["image", "out"])

# %% [markdown]
# ## 11 More elements than threads
#
# <kbd>deepening</kbd> 10 minutes
#
# So far there was a thread for every element. A thread can also take several. It starts at its own
# number and goes on in steps as long as the whole grid: a **grid-stride loop**.


# %%
@cuda.jit
def who_is_where_strided(blocks, threads):
    for i in range(cuda.grid(1), blocks.size, cuda.gridsize(1)):
        blocks[i] = cuda.blockIdx.x
        threads[i] = cuda.threadIdx.x


# %% [markdown]
# `cuda.gridsize(1)` is the number of threads in the grid. Here it is 8, for 20 elements.

# %%
blocks = np.full(20, -1, dtype=np.int32)
threads = np.full(20, -1, dtype=np.int32)
who_is_where_strided[2, 4](blocks, threads)
pictures.thread_map(blocks, threads)

# %% [markdown]
# All eight threads work side by side, then all move on by eight. The loop ends at `blocks.size`,
# so it is its own guard. Such a kernel is right for **every** launch, even for one thread:

# %%
for launch in ((1, 1), (2, 4), (3, 32)):
    blocks[:] = -1
    who_is_where_strided[launch](blocks, threads)
    print(launch, "every element written:", blocks.min() >= 0)

# %% [markdown]
# ### Exercise: more elements than threads
#
# `out[i] = a * x[i] + y[i]` again, as in [lesson 00](00_the_machine_in_front_of_you.ipynb). This
# time the launch has a fixed number of threads, often fewer than elements.
#
# <details><summary>Hint</summary>
#
# `for i in range(first, end, step)`: which three numbers?
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
# ## 12 Arrays without an index: ufuncs
#
# <kbd>deepening</kbd> 15 minutes
#
# For a map you need not write a kernel. NumPy calls a function that works element by element a
# **ufunc**. `cuda.vectorize` makes one that runs on the GPU: index, guard and launch are written
# for you. You say the types: first the result's, then, in brackets, the arguments'.


# %%
@cuda.vectorize(["float32(float32, float32)"])
def brighten(grey, gamma):
    return grey**gamma


# %%
bright = brighten(head, np.float32(0.5))
print(bright.shape, bright.dtype)
plots.image_grid([head, bright], ["image", "gamma 0.5"])

# %% [markdown]
# Inside, `grey` is one number. Outside, it is a whole array of any shape, and one number goes with
# an array, as in NumPy. Is it right?

# %%
print("as NumPy says, to 1e-6:", np.allclose(bright, head**0.5, rtol=0, atol=1e-6))

# %% [markdown]
# ### Exercise: a ufunc that clips
#
# Return `low` where `x` is below it, `high` where `x` is above it, and `x` itself in between. The
# last line stands there already.
#
# <details><summary>Hint</summary>
#
# Two `if`s, each with a `return`. No index anywhere.
#
# </details>


# %% tags=["exercise"]
@cuda.vectorize(["float32(float32, float32, float32)"])
def clip(x, low, high):
    """Return ``x``, but at least ``low`` and at most ``high``."""
    ### BEGIN SOLUTION
    if x < low:
        return low
    if x > high:
        return high
    ### END SOLUTION
    return x


# %% tags=["check"]
check("clip", clip)

# %% [markdown]
# ## 13 Helpers for kernels: device functions
#
# <kbd>deepening</kbd> 15 minutes
#
# A kernel can call functions, if they are made for the device. Such a **device function** may
# return a value. You cannot launch it.


# %%
@cuda.jit(device=True)
def squared_distance(x, y):
    return x * x + y * y


@cuda.jit
def draw_rings(out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        from_centre = squared_distance(row - out.shape[0] // 2, column - out.shape[1] // 2)
        out[row, column] = from_centre // 256 % 2


# %%
rings = np.zeros((128, 192), dtype=np.float32)
draw_rings[(12, 8), (16, 16)](rings)
plots.image_grid([rings])

# %% [markdown]
# No loop and no list of pixels: each thread asks how far its pixel is from the centre.

# %% [markdown]
# ### Exercise: colours to grey
#
# Write both: a device function that makes one grey of three colours, and a kernel that calls it
# for each pixel of `rgb`, shape (rows, columns, 3).
#
# grey = 0.299 red + 0.587 green + 0.114 blue
#
# Write the weights as `float32(0.299)` and so on. A plain 0.299 is float64 in a kernel, and GPUs
# are slow at that; [lesson 02](02_an_image_from_its_svd.ipynb) shows it.
#
# <details><summary>Hint</summary>
#
# `rgb[row, column, 0]` is the red of a pixel. The guard needs only the two axes of `out`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit(device=True)
def luminance(red, green, blue):
    """Return the grey of a colour, a float32."""
    ### BEGIN SOLUTION
    return float32(0.299) * red + float32(0.587) * green + float32(0.114) * blue
    ### END SOLUTION


@cuda.jit
def to_grey(out, rgb):
    """Write the grey of each pixel of ``rgb``, (rows, columns, 3), to ``out``, (rows, columns)."""
    ### BEGIN SOLUTION
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        pixel = rgb[row, column]
        out[row, column] = luminance(pixel[0], pixel[1], pixel[2])
    ### END SOLUTION


# %% tags=["check"]
check("to-grey", to_grey)

# %%
with Image.open(data_path("images", "chelsea.jpg")) as file:
    rgb = np.asarray(file.resize((225, 150)), dtype=np.float32) / 255
grey = np.zeros(rgb.shape[:2], dtype=np.float32)
to_grey[(15, 10), (16, 16)](grey, rgb)
plots.image_grid([rgb[:, :, 0], rgb[:, :, 2], grey], ["red", "blue", "your grey"], columns=3)

# %% [markdown]
# ## 14 When a real GPU goes wrong
#
# <kbd>deepening</kbd> 5 minutes
#
# On a GPU a launch returns at once, and an error shows up later, at the next copy or
# `cuda.synchronize()`. The call that reports it is not the call that did it.

# %% [markdown]
# After an access to memory that is nobody's, **every** further call fails, right ones too. The
# error is *sticky*: the device has given up this process. Only a restart of Python helps (in a
# notebook: restart the kernel). Then run `check` or `trace` before you launch again.

# %% [markdown]
# NVIDIA's tool for such cases is **compute-sanitizer**. It comes with the CUDA toolkit, runs your
# program on the GPU, slowly, and watches its accesses:
#
# ```text
# compute-sanitizer --tool memcheck python my_program.py
# ```
#
# | tool | finds |
# |---|---|
# | `memcheck` | accesses outside of arrays |
# | `racecheck` | races in shared memory ([lesson 05](05_shared_memory.ipynb)) |
# | `initcheck` | reads of memory that nobody wrote |
# | `synccheck` | wrong use of barriers (lesson 05) |

# %% [markdown]
# Put `@cuda.jit(lineinfo=True)` above a kernel, and the tool names your lines. It needs a GPU, and
# this notebook was made without one, so you see no output of it here. `trace` looks for the same
# kinds of mistakes on any machine, for the sizes that you give it.

# %% [markdown]
# ## What you should be able to say now
#
# - `blockIdx.x * blockDim.x + threadIdx.x` is a thread's number; `cuda.grid(1)` is short for it.
# - Blocks = ceiling of elements / threads; at most 1,024 threads in a block, a multiple of 32.
# - x comes first and is the column: `column, row = cuda.grid(2)`.
# - Threads that share a counter need an atomic.
# - Device arrays save copies.
# - Many threads hide the time that memory takes to answer.
# - From section 11: a grid-stride loop is right for every launch.

# %%
progress(1)

# %% [markdown]
# ## Questions
#
# **1.** An image has 700 rows and 1,000 columns, a block is (32, 8). Which grid?
#
# <details><summary>Answer</summary>
#
# x along the columns: (1000 + 31) // 32 = 32 blocks. y along the rows: (700 + 7) // 8 = 88 blocks.
# The grid is (32, 88).
#
# </details>
#
# **2.** Why can blocks not wait for each other?
#
# <details><summary>Answer</summary>
#
# They need not all run at the same time. A block that waits could keep the place that the other
# block needs.
#
# </details>
#
# **3.** (Section 12.) When is a ufunc enough, and when do you need a kernel?
#
# <details><summary>Answer</summary>
#
# A ufunc computes each element of the result from the same element of its arguments. For
# neighbours, other shapes, counters or sums you need a kernel.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Mirror an image from left to right. Then do it in place, in the same array. What can go wrong?
# - Blur: each pixel becomes the mean of itself and its neighbours. Decide what happens at the
#   border.
# - Write `histogram` with a grid-stride loop, and launch it with 8 blocks only.
# - Find the largest value of an array with `cuda.atomic.max`.

# %% [markdown]
# ## Common misconceptions
#
# - *"x is the first axis of the array."* x is the first axis of the launch, and the last of the
#   array.
# - *"One guard is enough for an image."* `row * columns + column` may be inside while a column is
#   not.
# - *"More threads per block are faster."* Up to 1,024 are allowed; what is best is measured.
# - *"`+=` is one step."* It is three, and others come between.
# - *"Inputs are not copied back."* NumPy arguments are, all of them, at each launch.

# %% [markdown]
# ## What to read next
#
# - [Lesson 02](02_an_image_from_its_svd.ipynb), *An image from its SVD*: the program that the rest
#   of the course makes fast.
# - [Numba-CUDA: memory management](https://nvidia.github.io/numba-cuda/user/memory.html) and
#   [ufuncs](https://nvidia.github.io/numba-cuda/user/ufunc.html).
# - [CUDA Pro Tip: grid-stride
#   loops](https://developer.nvidia.com/blog/cuda-pro-tip-write-flexible-kernels-grid-stride-loops/)
#   by Mark Harris.
# - [Compute Sanitizer](https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html), its
#   documentation.
