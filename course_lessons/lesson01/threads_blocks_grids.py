# %% [markdown]
# # 01 Threads, blocks, grids
#
# You compute which element belongs to which thread, keep a photograph on the device, and let many
# threads share one counter.

# %% [markdown]
# ## What you will do
#
# - Find each thread's element; add images.
# - Lose counts to a race, and get them back.

# %% [markdown]
# ## What you will learn
#
# - Why there are blocks, and so many threads.
# - Which axis is x, and what a launch copies.

# %% [markdown]
# ## What you need
#
# [Lesson 00](00_your_picture_your_kernel.ipynb).

# %% [markdown]
# ## How long it takes
#
# Nine exercises. Take a break after section 4.

# %% [markdown]
# ## 1 One block, then two
#
# <kbd>core</kbd>
#
# `cuda.threadIdx.x` is a thread's index in its block. One block squares 1,024 elements:

# %%
import numpy as np
from numba import float32

from course import check, cuda, images, plots, predict, progress, recorded, trace, wrapped
from course_lessons.lesson01 import pictures


@cuda.jit
def square_in_a_block(out, x):
    i = cuda.threadIdx.x
    if i < out.size:
        out[i] = x[i] * x[i]


x = np.arange(1, 1025, dtype=np.float32)
out = np.zeros_like(x)
square_in_a_block[1, 1024](out, x)
print("right:", np.count_nonzero(out == x * x), "of", x.size)

# %% [markdown]
# Twice as many elements. So twice as many threads? `trace` launches on the simulator.

# %%
x = np.arange(1, 2049, dtype=np.float32)
out = np.zeros_like(x)
try:
    trace(square_in_a_block, 1, 2048, out, x)
except ValueError as error:
    print(wrapped(error))

# %% [markdown]
# Take two blocks, then. How many of the 2,048 elements are right?

# %%
predict("elements that are right, two blocks of 1,024", 2048, exact=True)

# %%
square_in_a_block[2, 1024](out, x)
right = np.count_nonzero(out == x * x)
predict.answer("elements that are right, two blocks of 1,024", right, how="counted")

# %% [markdown]
# Each block has threads 0 to 1,023. Both squared the first half, and nobody the second.
#
# In a smaller launch each thread stores its block's index, and its own in the block.


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
# A colour is a block. The threads' indices are in the boxes, the elements' below. Element 9 belongs
# to thread 1 of block 2: two blocks of four threads come before it, so 2 × 4 + 1 = 9.
#
# | name | what it is |
# |---|---|
# | `cuda.blockIdx.x` | index of my block |
# | `cuda.blockDim.x` | threads in a block |
# | `cuda.threadIdx.x` | my index in my block |
# | `cuda.gridDim.x` | blocks in the grid |
#
# ### Exercise: square every element
#
# One line is missing: compute `i` from three of these names. Then you know what `cuda.grid(1)` is
# short for.
#
# <details><summary>Hint</summary>
#
# All threads of the blocks before mine, and then my index in my block.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def square(out, x):
    """Write ``x[i] ** 2`` to ``out[i]``; one thread for each element."""
    ### BEGIN SOLUTION
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    ### END SOLUTION
    if i < out.size:
        out[i] = x[i] * x[i]


# %% tags=["check"]
check("square-map", square)

# %% [markdown]
# ## 2 How many blocks?
#
# <kbd>core</kbd>
#
# For 1,000 elements and blocks of 256 threads, `1000 // 256` is 3 blocks, or 768 threads: 232
# elements get none. Round **up**: add one less than the divisor, then divide. This is called
# ceiling division: `(1000 + 255) // 256` is 4. For 1,024 elements it gives 4 too, not 5.
#
# ### Exercise: enough blocks, and none too many
#
# Return two whole numbers for `n` elements: blocks, and threads in a block. Every element gets a
# thread, and every block an element.
#
# <details><summary>Hint</summary>
#
# `return ..., threads`, with the ceiling division by `threads` in place of the dots.
#
# </details>


# %% tags=["exercise"]
def launch_1d(n):
    """Return (blocks, threads per block) for ``n`` elements, ``n`` at least 1."""
    threads = 128
    ### BEGIN SOLUTION
    return (n + threads - 1) // threads, threads
    ### END SOLUTION


# %% tags=["check"]
check("launch-1d", launch_1d)

# %% [markdown]
# ## 3 Why blocks, and why so many threads?
#
# <kbd>core</kbd>
#
# A GPU has many copies of one part, the **SM** (multiprocessor): a T4 40, an H200 132. A
# whole block runs on one SM, where its threads can share memory and wait for each other. Blocks run
# in any order, so a program runs on 40 SMs and on 132.
#
# Threads run in packs of 32, called **warps**. Make blocks a multiple of 32: 128 or 256.

# %% [markdown]
# A value from memory arrives hundreds of cycles (ticks of the SM's clock) after a thread asked for
# it. Meanwhile the SM goes on with **another warp**, at no cost. This **latency hiding**
# needs many warps: an H200 has places for 64 on each SM, 270,336 threads.
#
# A copy, `out[i] = x[i]`, with 1 to 64 warps on each SM (*recorded*: measured before, on the GPU
# that is named):

# %%
copies = recorded("measuring", kernel="copy by warps", dtype="float32", gpu="H200")
on_the_gpu = [132 * 32 * int(copy.shape) for copy in copies]
rates = [copy.gigabytes_per_second for copy in copies]
plots.curves(
    {"copy": (on_the_gpu, rates)}, "threads on the GPU", "GB/s", height=2.6,
    title="A copy on an H200, by its threads (recorded)",
)  # fmt: skip

# %% [markdown]
# With few threads the machine waits. [Lesson 03](03_measuring_honestly.ipynb) measures this.

# %% [markdown]
# ## 4 Two axes: x is the column
#
# <kbd>core</kbd>
#
# Grids and blocks can have two axes, x and y. Here 5 × 10 pixels get blocks of 4 threads in x and 3
# in y. `(threadIdx.x, threadIdx.y)` is in the boxes, `(blockIdx.x, blockIdx.y)` below.

# %%
pictures.launch_picture((5, 10), (3, 2), (4, 3))

# %% [markdown]
# CUDA says **x first**, and x runs along the columns. NumPy says `shape = (rows, columns)`. Each
# axis has its own index:
#
# ```python
# column = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
# row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
# ```
#
# `column, row = cuda.grid(2)` is short for both. The launch, too, has x first: `[(3, 2), (4, 3)]`.
#
# This kernel compares each index with the wrong axis. What does its check say?


# %%
@cuda.jit
def add_square_images(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[1] and column < out.shape[0]:
        out[row, column] = a[row, column] + b[row, column]


check("add-images", add_square_images, wrong_on_purpose=True)

# %% [markdown]
# 16 × 16 was right, 13 × 37 is not. When only the square case passes, two axes are mixed up.
#
# ### Exercise: add two images
#
# Add images of every shape. One line is missing: when is this thread `inside` the image?
#
# <details><summary>Hint</summary>
#
# Two comparisons with `and` between them, each index with its own axis of `out.shape`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def add_images(out, a, b):
    """Write ``a + b`` to ``out``, arrays of shape (rows, columns)."""
    column, row = cuda.grid(2)
    ### BEGIN SOLUTION
    inside = row < out.shape[0] and column < out.shape[1]
    ### END SOLUTION
    if inside:
        out[row, column] = a[row, column] + b[row, column]


# %% tags=["check"]
check("add-images", add_images)

# %% [markdown]
# ## 5 Host and device
#
# <kbd>core</kbd>
#
# The **host** is the CPU with its memory. The **device** is the GPU with a memory of its own.

# %%
pictures.two_memories()

# %% [markdown]
# Your kernels got NumPy arrays. For that, each launch copies **every** array to the device, and
# then every array back, inputs included.
#
# This kernel makes dark pixels darker and bright ones brighter. `contrast` launches it.


# %%
@cuda.jit
def contrast_kernel(out, image):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        grey = image[row, column]
        out[row, column] = grey * grey * (float32(3) - grey - grey)


def contrast(out, image):
    rows, columns = out.shape
    contrast_kernel[((columns + 31) // 32, (rows + 7) // 8), (32, 8)](out, image)


# %% [markdown]
# Three launches. How often is an array copied?


# %%
def with_copies(photo):
    a, b = photo.copy(), np.zeros_like(photo)
    contrast(b, a)
    contrast(a, b)
    contrast(b, a)
    return b


predict("copies in three launches, NumPy arrays", 2, exact=True)

# %%
check("keep-it-there", with_copies, wrong_on_purpose=True)

# %%
predict.answer("copies in three launches, NumPy arrays", 3 * 2 * 2, unit="copies", how="computed")

# %% [markdown]
# Three launches, two arrays each, there and back. With **device arrays** a launch copies nothing:
#
# | call | what it does |
# |---|---|
# | `cuda.to_device(x)` | copies `x` to the device, returns the device array |
# | `cuda.device_array_like(x)` | makes one without copying; its values are undefined |
# | `d.copy_to_host()` | copies `d` back, returns a NumPy array |
#
# ### Exercise: keep it there
#
# The same three launches, with 2 copies in all. The first line and the last are missing.
#
# <details><summary>Hint</summary>
#
# The first line makes two device arrays, `a` with the photograph. The last copies one back.
#
# </details>


# %% tags=["exercise"]
def keep_it_there(photo):
    """Return the photograph after three launches of ``contrast``, with two copies."""
    ### BEGIN SOLUTION
    a, b = cuda.to_device(photo), cuda.device_array_like(photo)
    ### END SOLUTION
    contrast(b, a)
    contrast(a, b)
    contrast(b, a)
    ### BEGIN SOLUTION
    return b.copy_to_host()
    ### END SOLUTION


# %% tags=["check"]
check("keep-it-there", keep_it_there)

# %%
photo = images.mine()
plots.image_grid([photo, with_copies(photo)], ["before", "after"], cell=2.2)

# %% [markdown]
# So copy in once, launch many times, copy out once. The next cell compares one copy with a *bound*:
# the least time in which the GPU's own memory moves so many bytes. With a GPU, it times yours.

# %%
# NBVAL_IGNORE_OUTPUT
from course import benchmark, bound, gpu

if gpu():
    print(benchmark(with_copies, photo), benchmark(keep_it_there, photo), sep="\n")
back = recorded("measuring", kernel="copies of an image", variant="out, pageable", gpu="H200")[0]
on_device = bound(bytes=2 * back.bytes, gpu="H200")
print("H200, 2048 x 2048 pixels, float32")
print(f"one copy to the host: {back.median:.2f} ms (recorded)")
print(f"read and write it on the device: {on_device.milliseconds:.4f} ms at least")

# %% [markdown]
# ## 6 One counter for many threads
#
# <kbd>core</kbd>
#
# How often does each grey level occur in your photograph? That is a **histogram**. With eight bins
# of grey levels, NumPy counts:

# %%
bins = np.minimum(photo * 8, 7).astype(np.int32).ravel()
right = np.bincount(bins, minlength=8)
blocks = (bins.size + 127) // 128
print(f"{bins.size:,} pixels:", right)

# %% [markdown]
# On the device, a thread for each pixel adds 1 to the counter of its bin.


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
count_carelessly[blocks, 128](counts, bins)
print(counts)
predict.answer("are all pixels counted?", "yes" if counts.sum() == bins.size else "no", how="found")

# %% [markdown]
# `counts[v] += 1` reads, adds and writes. Two threads read a 5, both write a 6, and one update is
# lost. This is a **race**. The trace finds it in any run:

# %%
report = trace(count_carelessly, blocks, 128, np.zeros(8, dtype=np.int32), bins)
for finding in report.findings:
    print(f"{finding.kind}, line {finding.line}")

# %% [markdown]
# An **atomic** operation reads, adds and writes as one step that nobody can interrupt.
# `cuda.atomic.add(count, 0, 1)` adds 1 to `count[0]`. Threads wait for each other there, so use it
# only for results that many threads share.
#
# ### Exercise: count how often each value occurs
#
# Add 1 to `counts[v]` for each `v` in `values`. `counts` may hold counts already.
#
# <details><summary>Hint</summary>
#
# Three lines. The index for `cuda.atomic.add` is `values[i]`.
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
histogram[blocks, 128](counts, bins)
pictures.histogram_bars(counts, "grey level, in eight bins", right=right)

# %% [markdown]
# ## 7 Neighbours and borders
#
# <kbd>deepening</kbd>
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
# In the other direction `x[i + 1]` leaves the array at the other end. Read such a verdict as in
# [lesson 00](00_your_picture_your_kernel.ipynb): which index, which size, which thread. Then ask:
# **is there a guard for this very index?** A guard for `i` does not guard `i + 1`.

# %% [markdown]
# ### Exercise: move every element one place to the right
#
# `out[i]` becomes `x[i - 1]`, and `out[0]` becomes 0. Nothing may be read from outside, not even
# by a negative index.
#
# <details><summary>Hint</summary>
#
# Three kinds of threads: thread 0, the others that have an element, and the rest. `if`, `elif`.
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
# ## 8 x along the rows, and a turn
#
# <kbd>deepening</kbd>
#
# What if x runs along the rows? The guard is right, and so is the result:


# %%
@cuda.jit
def add_images_by_columns(out, a, b):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


@cuda.jit
def add_images_by_rows(out, a, b):
    row, column = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column] + b[row, column]


# %%
grid, block = (2, 8), (32, 8)
a = b = np.ones((64, 64), dtype=np.float32)
total, other_total = np.zeros_like(a), np.zeros_like(a)
add_images_by_columns[grid, block](total, a, b)
add_images_by_rows[grid, block](other_total, a, b)
print(np.array_equal(other_total, total))

# %% [markdown]
# The work is not the same. Threads with neighbouring x read at the same moment, and memory comes in
# **sectors** of 32 bytes, eight float32 values. How many times more sectors do they need when
# neighbours in x are in different rows?

# %%
predict("times more sectors with x along the rows", 8, exact=True)

# %%
by_columns = trace(add_images_by_columns, grid, block, total, a, b).total("global", "load")
by_rows = trace(add_images_by_rows, grid, block, total, a, b).total("global", "load")
print(f"x along columns: {by_columns.sectors:,} sectors, along rows: {by_rows.sectors:,}")
predict.answer(
    "times more sectors with x along the rows", by_rows.sectors / by_columns.sectors, how="counted"
)

# %% [markdown]
# Of the eight values in each sector only one is used at a time. So
# ([lesson 04](04_warps_and_coalescing.ipynb)): **x is the column.**

# %% [markdown]
# ### Exercise: turn an image by a quarter
#
# Turn `image`, shape (rows, columns), clockwise into `out`, shape (columns, rows). Each thread
# fills one pixel of `out`. Which pixel of `image` belongs there?
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
# the index `image.shape[0] - 1`.
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
# Try it on your photograph. As long as `rotate` is empty, nobody writes to `out`, and its picture
# is black.

# %%
turned = np.zeros((photo.shape[1], photo.shape[0]), dtype=np.float32)
rotate[(16, 16), (16, 16)](turned, photo)
plots.image_grid([photo, turned], ["image", "out"])

# %% [markdown]
# ## 9 Arrays without an index: ufuncs
#
# <kbd>deepening</kbd>
#
# NumPy calls a function that works element by element a **ufunc**. `cuda.vectorize` makes one that
# runs on the GPU: index, guard and launch are written for you. You say the types: first the
# result's, then, in brackets, the arguments'.


# %%
@cuda.vectorize(["float32(float32, float32)"])
def brighten(grey, gamma):
    return grey**gamma


# %%
bright = brighten(photo, np.float32(0.5))
print(bright.shape, bright.dtype)
plots.image_grid([photo, bright], ["image", "gamma 0.5"])

# %% [markdown]
# Inside, `grey` is one number. Outside, it is a whole array of any shape, and one number goes with
# an array, as in NumPy. Is it right?

# %%
print("as NumPy says, to 1e-6:", np.allclose(bright, photo**0.5, rtol=0, atol=1e-6))

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
# ## 10 Helpers for kernels: device functions
#
# <kbd>deepening</kbd>
#
# A kernel can call functions, if they are made for the device, as `light` of
# [lesson 00](00_your_picture_your_kernel.ipynb) is. `@cuda.jit(device=True)` stands above such a
# **device function**. It may return a value, and nobody launches it.
#
# ### Exercise: colours to grey
#
# Write a device function that makes one grey of three colours. Then write a kernel that calls it
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
from PIL import Image

from course import data_path

with Image.open(data_path("images", "chelsea.jpg")) as file:
    rgb = np.asarray(file.resize((225, 150)), dtype=np.float32) / 255
grey = np.zeros(rgb.shape[:2], dtype=np.float32)
to_grey[(15, 10), (16, 16)](grey, rgb)
plots.image_grid([rgb[:, :, 0], rgb[:, :, 2], grey], ["red", "blue", "your grey"], columns=3)

# %% [markdown]
# ## 11 When a real GPU goes wrong
#
# <kbd>deepening</kbd>
#
# On a GPU a launch returns at once. An error shows up later, at the next copy or
# `cuda.synchronize()`: not in the call that did it.

# %% [markdown]
# After an access to memory that is nobody's, **every** further call fails, right ones too. The
# error is *sticky*: only a restart of Python helps (in a notebook: restart the kernel).

# %% [markdown]
# NVIDIA's **compute-sanitizer** (in the CUDA toolkit) runs your program on the GPU, slowly, and
# watches its accesses:
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
# Above a kernel, `@cuda.jit(lineinfo=True)` makes it name your lines. `trace` finds the same kinds
# of mistakes on any machine, for the sizes that you give it.

# %% [markdown]
# ## What you should be able to say now
#
# - `blockIdx.x * blockDim.x + threadIdx.x` is a thread's index; `cuda.grid(1)` is short for it.
# - Blocks = ceiling of elements / threads; at most 1,024 threads in a block, a multiple of 32.
# - x comes first and is the column: `column, row = cuda.grid(2)`.
# - Device arrays save copies. Threads that share a counter need an atomic.

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
# They need not all run at the same time. A block that waits may keep the place that the other
# needs.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Mirror an image in place, in the same array. What can go wrong?
# - Blur: each pixel becomes the mean of itself and its neighbours. What happens at the border?

# %% [markdown]
# ## Common misconceptions
#
# - *"x is the first axis of the array."* It is the first axis of the launch, the last of the array.
# - *"`+=` is one step."* It is three, and others come between.
# - *"Inputs are not copied back."* NumPy arguments are, all of them, at each launch.

# %% [markdown]
# ## What to read next
#
# - [Lesson 02](02_an_image_from_its_svd.ipynb): the program that the rest of the course makes fast.
# - [Numba-CUDA: memory management](https://nvidia.github.io/numba-cuda/user/memory.html) and
#   [ufuncs](https://nvidia.github.io/numba-cuda/user/ufunc.html).
# - [Compute Sanitizer](https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html).
