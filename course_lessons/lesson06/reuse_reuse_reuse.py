# %% [markdown]
# # 06 Reuse, reuse, reuse
#
# Once a number is in a register, use it as often as you can. With that one idea, in small steps,
# your kernels climb from a sixth of the library's speed to two thirds (in the core to nearly half).
# The package's last step, Python as well, stands beside the library. You can say of each step why.

# %% [markdown]
# ## What you will do
#
# - Let each thread compute 8, then 64 pixels, and write these kernels yourself.
# - Predict each step from counts, and compare with what was measured on a GPU.
# - To go deeper: four numbers at a time, double buffers, warp tiles.
#
# ## What you will learn
#
# - What binds a kernel whose data is near: trips to shared memory, and instructions.
# - Why registers are the place for reuse, and what they cost.
# - Why some good ideas gain nothing, and how to find that out.
# - How near Python kernels come to the library's, and what the last step takes.

# %% [markdown]
# ## What you need
#
# Lessons [02](02_an_image_from_its_svd.ipynb), [04](04_warps_and_coalescing.ipynb) and
# [05](05_shared_memory.ipynb): the reconstruction, sectors, tiles, barriers, banks.
# [Lesson 03](03_measuring_honestly.ipynb) for the word roof, and its section 15 for occupancy. No
# GPU is needed: all times below were recorded on one. If you have a GPU, you measure your own
# beside them.
#
# ## How long it takes
#
# About 4 and a half hours with the eight exercises. After section 4 is a good place for a break.
# The ladder goes on in sections 10, 12 and 13: those are for another day.
#
# Core: sections 1 to 7, 105 minutes. Deepening: sections 8 to 14, 155 minutes.

# %% [markdown]
# ## 1 How far is it to the top?
#
# <kbd>core</kbd> 5 minutes
#
# Four kernels so far: the project's **original**, its sum in **float32**, x on the columns
# (**naive**), tiles in shared memory (**tiled**). Beside them stands CuPy, which computes
# `(u[:, :k] * s[:k]) @ vt[:k]`: a kernel that scales u, and a product by NVIDIA's library cuBLAS.
# Experts tuned it for years. The table also has that product alone.
#
# The kernels are the steps of a **ladder**. `ladder` knows what was recorded of each, and what of
# its peer, which is CuPy.

# %%
from functools import cache

import numpy as np
from numba import float32

from course import (
    beside,
    bound,
    check,
    cuda,
    plots,
    predict,
    progress,
    recorded,
    recorded_roofs,
    trace,
)
from warpsim.ptx import load, load4, store4
from course.kernels.reconstruct import LADDER
from course_lessons.lesson06 import ladder, pictures

# %% [markdown]
# An image of 4096×4096 pixels, k = 1024, on an H200. How fast was the tiled kernel, as a share of
# CuPy's speed in percent?

# %%
predict("the tiled kernel, % of CuPy", 50, within=1.5)

# %%
climbed = ["original", "float32", "naive", "tiled"]
print(ladder.Table(climbed))
share = 100 * ladder.of_peer(ladder.recorded("tiled"))
predict.answer("the tiled kernel, % of CuPy", round(share, 1))

# %% [markdown]
# Every pixel needs k multiplications and k additions. So the work is `2 * rows * columns * k`
# operations, and TFLOP/s are those, divided by the time, in 10¹² a second. The table comes from the
# recorded file of one run, the registers from the compiler. It grows as you climb.
#
# What would be the least time for such a job? Every byte moved once, every operation done:

# %%
for what, milliseconds in bound(**ladder.work(), gpu="H200").times.items():
    print(f"{what:8} {milliseconds:.3f} ms, by the data sheet of an H200")

# %% [markdown]
# The arithmetic takes about half a millisecond, device memory far less. (The data sheet's peak is
# 67 TFLOP/s; measured by the rules of [lesson 03](03_measuring_honestly.ipynb) it was 59.7. This
# lesson's shares are of the data sheet's, but for the picture in section 7.) And `tiled` took many
# times that. (It loads each number more often than once. But even with all of those loads, device
# memory would allow twice its speed: section 11 counts them.) So it is not the bytes of
# [lesson 04](04_warps_and_coalescing.ipynb) that hold it up, and not the arithmetic. What is it?
# (Section 14 measures all steps on a GPU of your own.)

# %% [markdown]
# ## 2 What a multiprocessor does in a clock
#
# <kbd>core</kbd> 5 minutes
#
# | in one clock, on an H200 | how many |
# |---|---|
# | instructions started, of any kind | 4 |
# | products with their addition, for a warp | 4 |
# | wavefronts of shared memory | **1** |
#
# A **product** is from now on a multiplication with its addition: one instruction, in which each of
# the 32 lanes makes its own. Count what each product needs beside itself, and you know which row of
# the table is the narrow one.

# %% [markdown]
# Look into the tiled kernel's inner loop again:
#
# ```text
# for i in range(TILE):
#     total += u_tile[y, i] * vt_tile[i, x]
# ```
#
# How many wavefronts does a product need? There is no conflict.

# %%
predict("wavefronts for a product, tiled", 2, exact=True)

# %% tags=["long"]
rng = np.random.default_rng(6)
u = rng.random((256, 32), dtype=np.float32)
s = rng.random(32, dtype=np.float32)
vt = rng.random((32, 256), dtype=np.float32)
out = np.zeros((256, 256), dtype=np.float32)
warp_products = out.size * 32 / 32  # k = 32 for each pixel, 32 lanes in a warp


@cache
def traced(name):
    """Trace a step of the ladder on 256 x 256 pixels, k = 32: each step once."""
    step = LADDER[name]
    return trace(step.kernel, step.grid(256, 256), step.block, u, s, vt, 32, out, gpu="H200")


tiled = traced("tiled")
wavefronts = tiled.total("shared", "load").wavefronts / warp_products
roof = ladder.shared_roof(wavefronts)
reached = ladder.recorded("tiled").teraflops
# A quarter of a wavefront for a product would be four products a clock: all that the units make.
print(f"peak of an H200, data sheet        {ladder.shared_roof(0.25):5.1f} TFLOP/s")
print(f"with 2 wavefronts for each product {roof:5.1f} TFLOP/s at most")
print(f"recorded                           {reached:5.1f} TFLOP/s, {reached / roof:.0%} of that")
predict.answer("wavefronts for a product, tiled", wavefronts, how="counted")

# %% [markdown]
# Two wavefronts, two clocks. In two clocks the units could make eight products, and get one to
# make. So at most an **eighth** of the peak is possible, whatever else you do.
#
# `tiled` stands close under its roof, and the roof is made of trips to shared memory.
# Faster device memory will not help, more threads will not help. **Fewer reads for each product**
# will.

# %% [markdown]
# ## 3 A nearer place: registers
#
# <kbd>core</kbd> 10 minutes
#
# A variable of your kernel lives in a register. Reading it costs nothing: it is part of the
# multiplication. But only its own thread sees it. So if a thread computed *several* pixels, it
# could read a number once, and use it for all of them.

# %%
pictures.outer_products(((1, 1), (8, 1)))

# %% [markdown]
# On the left is the tiled kernel: a thread has one pixel, and reads two numbers for one product. On
# the right it has a column of 8 pixels: one number of `vt` serves all eight.
#
# Now give it a square of 8×8 pixels: 16 numbers in, 64 products out. A product of a column by a
# row, every number with every number, is called an **outer product**. It is the best trade there
# is: `2 n` numbers in, `n * n` products out.

# %%
pictures.outer_products(((8, 8),))

# %% [markdown]
# ### Exercise: reads for a product
#
# A thread computes a tile of `rows` × `columns` pixels. For each i it reads the numbers it needs
# once. Return how many numbers it reads for each product.
#
# <details><summary>Hint</summary>
#
# For one i: how many numbers of `u`, how many of `vt`, how many products?
#
# </details>


# %% tags=["exercise"]
def shared_reads(rows, columns):
    """Return the reads of shared memory for each product of a tile of rows x columns pixels."""
    ### BEGIN SOLUTION
    return (rows + columns) / (rows * columns)
    ### END SOLUTION


# %% tags=["check"]
check("shared-reads", shared_reads)

# %% [markdown]
# ## 4 Step 5: a column in each thread
#
# <kbd>core</kbd> 35 minutes
#
# Now in code. A block of 512 threads computes 64×64 pixels, and each thread 8 of one column. The
# tiles are 64 rows of `u` by 8, and 8 rows of `vt` by 64: 512 numbers each, so each thread brings
# **one** number of each. In the code these sizes have names: `ROWS` and `COLUMNS` are 64, `DEPTH`
# and `RESULTS` are 8.

# %%
pictures.column_tile()

# %% [markdown]
# Three different places for a thread, do not mix them up:
#
# | for | thread t takes |
# |---|---|
# | filling `u_tile` | row `t // DEPTH`, place `t % DEPTH` |
# | filling `vt_tile` | row `t // COLUMNS`, place `t % COLUMNS` |
# | computing | column `t % COLUMNS`, rows from `t // COLUMNS * RESULTS` on |
#
# Blocks have one dimension from now on. It is simpler to cut `t` yourself.

# %% [markdown]
# Eight sums need eight variables. `cuda.local.array(8, float32)` is an array that each thread has
# for itself. A compiler can **unroll** a loop: write its body out, once for each pass. If all
# indices of the array are constants then, it is kept in **registers**, and there is no array any
# more. So: constant sizes, loops over `range(RESULTS)`, no index that depends on data.
#
# Predict before you write. How many wavefronts for a product?

# %%
ROWS, COLUMNS, DEPTH, RESULTS = 64, 64, 8, 8
predict("wavefronts for a product, column", 1.125, exact=True)

# %% [markdown]
# ### Exercise: step 5
#
# Fill both tiles, `s` multiplied in, zeros where they stick out. Wait. Add the products, reading
# each number of `vt_tile` once for all eight rows. Wait. At the end store eight pixels, guarded.
#
# <details><summary>Hint 1: filling</summary>
#
# `y, i = t // DEPTH, t % DEPTH`. There is a number if `first_row + y < u.shape[0]` and
# `start + i < k`.
#
# </details>
#
# <details><summary>Hint 2: the products</summary>
#
# ```text
# for i in range(DEPTH):
#     b = vt_tile[i, column]
#     for n in range(RESULTS):
#         total[n] += u_tile[row + n, i] * b
# ```
#
# </details>


# %% tags=["exercise", "long"]
@cuda.jit
def reconstruct_column(u, s, vt, k, out):
    """Write the sum of the first k layers; 512 threads make 64 x 64 pixels, 8 each."""
    u_tile = cuda.shared.array((ROWS, DEPTH), float32)
    vt_tile = cuda.shared.array((DEPTH, COLUMNS), float32)
    total = cuda.local.array(RESULTS, float32)
    t = cuda.threadIdx.x
    first_row, first_column = cuda.blockIdx.y * ROWS, cuda.blockIdx.x * COLUMNS
    row, column = t // COLUMNS * RESULTS, t % COLUMNS
    for n in range(RESULTS):
        total[n] = float32(0)
    for start in range(0, k, DEPTH):
        ### BEGIN SOLUTION
        y, i = t // DEPTH, t % DEPTH
        u_tile[y, i] = 0
        if first_row + y < u.shape[0] and start + i < k:
            u_tile[y, i] = u[first_row + y, start + i] * s[start + i]
        i = t // COLUMNS
        vt_tile[i, column] = 0
        if start + i < k and first_column + column < vt.shape[1]:
            vt_tile[i, column] = vt[start + i, first_column + column]
        cuda.syncthreads()
        for i in range(DEPTH):
            b = vt_tile[i, column]
            for n in range(RESULTS):
                total[n] += u_tile[row + n, i] * b
        cuda.syncthreads()
        ### END SOLUTION
    ### BEGIN SOLUTION
    for n in range(RESULTS):
        if first_row + row + n < out.shape[0] and first_column + column < out.shape[1]:
            out[first_row + row + n, first_column + column] = total[n]
    ### END SOLUTION


# %% tags=["check"]
check("column-tile", reconstruct_column)

# %%
# NBVAL_IGNORE_OUTPUT
# yours beside the package's and the least: counts of the simulator, on a GPU times, too
beside("column-tile", reconstruct_column)

# %%
# the package's kernel, which does what yours does
column = traced("column")
wavefronts = column.total("shared", "load").wavefronts / warp_products
predict.answer("wavefronts for a product, column", wavefronts, how="counted")

# %% [markdown]
# Everything got better: 1.125 wavefronts instead of 2, a quarter of the loads. So the roof of the
# shared memory rises. Predict how many times as fast as `tiled` the kernel was.

# %%
predict("column, times as fast as tiled", 1.8, within=1.5, no_effect=1)

# %%
climbed.append("column")
print(f"shared memory allows {ladder.shared_roof(wavefronts):.1f} TFLOP/s\n")
print(ladder.Table(climbed[-2:]))
faster = ladder.faster("column", than="tiled")
predict.answer("column, times as fast as tiled", round(faster, 2))

# %% [markdown]
# The roof nearly doubled, and the speed did not follow it all the way. Whenever that happens,
# **another row of the table has become narrow**, too. It is not the wavefronts alone: so count
# instructions.

# %% [markdown]
# ## 5 What the compiler made of it
#
# <kbd>core</kbd> 5 minutes
#
# `ladder.facts` has what NVIDIA's compilers say of each step, recorded without a GPU. It looks for
# the piece of code that makes the products, and counts its instructions. (In PTX, the compilers'
# last form but one; the machine's own may differ a little.) How many would you expect for a product
# of `tiled`: one multiply-add and its reads?

# %%
predict("instructions for a product, tiled", 3, exact=True)

# %%
print("step      instructions   products   reads   instructions for a product")
for name in ("naive", "tiled", "column"):
    loop = ladder.facts(name).loop
    print(f"{name:10}{loop.instructions:11}{loop.products:11}{loop.reads:8}", end="")
    print(f"{loop.per_product:21.3f}")
loop = ladder.facts("tiled").loop
predict.answer("instructions for a product, tiled", loop.per_product, how="counted")

# %% [markdown]
# `tiled` is unrolled whole: nothing is left but reads and products. `column` reads less, but its
# loop over i is a **loop** again: counting, comparing, computing addresses. `naive` computes
# addresses most of the time, and tests every index. (Reads are those of shared memory: it has
# none.)
#
# But that is the **inner loop** alone. Around it a thread fills tiles, tests edges, waits and
# counts rounds. An H200 has counted each instruction that it started, in the whole kernel.
# ([Lesson 07](07_reading_a_profiler.ipynb) says how. Here you only need the result.)

# %%
print("instructions for a product   inner loop, PTX   whole kernel, counted")
for name in ("tiled", "column"):
    print(f"{name:26}{ladder.facts(name).loop.per_product:18.2f}{ladder.instructions(name):24.2f}")

# %% [markdown]
# Turned round! The *loop* of `column` has more instructions for a product, the *kernel* has fewer.
# What stands around the loop is about as long in both. But in `tiled` it serves 16 products of a
# thread, in `column` 64. So take counts of the whole kernel, or you mend the wrong place.
#
# A multiprocessor starts four instructions a clock, of any kind. If only one in six is a product,
# at most a sixth of the peak is left. Both roofs, beside what was recorded:


# %%
def roofs(name):
    """Return the two roofs of a step [TFLOP/s]: shared memory, instructions."""
    shared = traced(name).total("shared", "load").wavefronts / warp_products
    return ladder.shared_roof(shared), ladder.issue_roof(ladder.instructions(name))


def show_roofs(names):
    print("roofs in TFLOP/s:  shared memory   instructions   recorded")
    for name in names:
        shared, issue = roofs(name)
        print(f"{name:17}{shared:15.1f}{issue:15.1f}{ladder.recorded(name).teraflops:11.1f}")


show_roofs(["tiled", "column"])
rose = [after / before for before, after in zip(roofs("tiled"), roofs("column"), strict=True)]
print(f"roof of shared memory: {rose[0]:.2f} times as high, of instructions {rose[1]:.2f} times")
print(f"the speed itself: {ladder.faster('column', than='tiled'):.2f}")

# %% [markdown]
# Both roofs rose, but not alike. `tiled` had one low roof. `column` has two that are nearly equal,
# and it reaches three quarters of each. That the rest is waiting, at barriers and for memory, is an
# **inference**; the counts are facts. (Section 8 asks for more.)
#
# The lesson of step 5: **the lowest roof counts**, and when you lift it, you meet the next one. To
# lift both, a thread needs more products for each read *and* for each instruction around them.

# %% [markdown]
# ## 6 Step 6: a square in each thread
#
# <kbd>core</kbd> 40 minutes
#
# 8×8 pixels in each thread: 16 reads for 64 products. A block of 256 threads, 16 across and 16
# down, then computes 128×128 pixels. What does a square cost? Every sum needs a register. And the
# 16 numbers that are multiplied do, too.
#
# `@cuda.jit(max_registers=128)` asks the compiler to keep to 128 registers a thread: then two
# blocks fit on a multiprocessor, and while one waits at a barrier, the other one can work. If a
# thread needs more than it can get, the compiler **spills** sums to memory, in the innermost loop.
# Never let that happen. (Section 9 works out how large a square may be.)

# %% [markdown]
# Each thread now brings four numbers of each tile, in a loop over the tile's 1,024 numbers, as with
# the halo of [lesson 05](05_shared_memory.ipynb) (section 10):
#
# ```text
# for number in range(t, BLOCK * DEPTH, THREADS):
#     y, i = number // DEPTH, number % DEPTH
# ```
#
# ### Exercise: step 6
#
# As before, with `a` and `b` for the 16 numbers of a depth: read them once, then multiply every
# one with every one. `load(array, index)` reads without Numba's test for negative indices (section
# 8). At the end store 64 pixels, guarded.
#
# <details><summary>Hint: the products</summary>
#
# ```text
# for i in range(DEPTH):
#     for m in range(SIDE):
#         a[m] = load(u_tile, (row + m, i))
#     for n in range(SIDE):
#         b[n] = load(vt_tile, (i, column + n))
#     for m in range(SIDE):
#         for n in range(SIDE):
#             total[m, n] += a[m] * b[n]
# ```
#
# </details>

# %%
BLOCK, SIDE, THREADS = 128, 8, 256  # pixels of a block's side, of a thread's, threads of a block
ACROSS = BLOCK // SIDE  # threads side by side


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
        ### BEGIN SOLUTION
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
                a[m] = load(u_tile, (row + m, i))
            for n in range(SIDE):
                b[n] = load(vt_tile, (i, column + n))
            for m in range(SIDE):
                for n in range(SIDE):
                    total[m, n] += a[m] * b[n]
        cuda.syncthreads()
        ### END SOLUTION
    ### BEGIN SOLUTION
    for m in range(SIDE):
        for n in range(SIDE):
            if first_row + row + m < out.shape[0] and first_column + column + n < out.shape[1]:
                out[first_row + row + m, first_column + column + n] = total[m, n]
    ### END SOLUTION


# %% tags=["check"]
check("square-tile", reconstruct_square)

# %% [markdown]
# A quarter of a read for each product. How many wavefronts, then: a quarter?

# %%
predict("wavefronts for a product, square", 0.25, exact=True)

# %%
square = traced("square")
wavefronts = square.total("shared", "load").wavefronts / warp_products
for finding in square.findings:
    if finding.kind == "bank-conflict":
        print(finding)
predict.answer("wavefronts for a product, square", wavefronts, how="counted")

# %%
# NBVAL_IGNORE_OUTPUT
beside("square-tile", reconstruct_square)

# %% [markdown]
# Three times as many: bank conflicts. In a warp 16 threads lie side by side, and each has 8 columns
# of its own. At the same n they read words 0, 8, 16, 24, 32, … 120 of a row of `vt_tile`: all in
# banks 0, 8, 16 and 24. Four words in each. The warp's two rows of threads are 8 rows of `u_tile`
# apart, 64 words: again the same bank.
#
# (Padding, as for the transpose, would cure `u_tile`. In `vt_tile` the words that
# meet lie in the *same* row, so wider rows change nothing.)

# %%
pictures.fragment_banks("square")

# %% [markdown]
# Still, the step should gain on both counts. Compare the roofs, and see what was recorded.

# %%
show_roofs(["tiled", "column", "square"])
climbed.append("square")
print(f"\nsquare was {ladder.faster('square', than='column'):.2f} times as fast as column\n")
print(ladder.Table(climbed[-3:]))

# %% [markdown]
# The inner loop is 64 products and little else. The wavefronts are the lower roof by far, and the
# kernel seems to stand at it. But look closely: it stands a little **above** it, which nothing can
# ([lesson 03](03_measuring_honestly.ipynb)). So one of the figures is wrong, and it is the roof.
# The trace counts your *source*. The compiler may put reads together that the source has apart, and
# then there are fewer wavefronts. [Lesson 07](07_reading_a_profiler.ipynb) asks the GPU's own
# counters, and finds a half for each product.
#
# What is sure: two thirds of the source's wavefronts are conflicts. They are the next thing to go,
# in section 10.

# %% [markdown]
# ## 7 Looking back
#
# <kbd>core</kbd> 5 minutes
#
# The steps in one picture. Left to right is how many operations there are for each byte that must
# be moved, which is the same for all: it is the same job. Up is speed.

# %%
steps = ["original", "naive", "tiled", "square", "wide", "warp tiles"]
points = {name: ladder.recorded(name) for name in steps}
points["CuPy"] = ladder.recorded(ladder.PEER)
plots.roofline(recorded_roofs("H200"), points, ladder=steps)

# %% [markdown]
# The roofline has only two roofs for a step, memory and arithmetic, and the job is far to the
# right: arithmetic should bind. Why for most steps it did not, the counts of this lesson tell:
# under the roof are other roofs.
#
# (`wide` and `warp tiles` are sections 10 and 13.) How would you climb such a ladder for another
# problem?
#
# 1. Count what each useful operation needs: bytes, sectors, wavefronts, instructions.
# 2. Find the narrow row of the table. Change that, and only that. (Step 9 did not, so its changes
#    had to be taken back, one by one, to learn what each had gained: section 13.)
# 3. Measure. If nothing happened, another row binds: back to 1.

# %% [markdown]
# ## 8 More on step 5
#
# <kbd>deepening</kbd> 5 minutes
#
# And the loads from global memory? A tile of 64 columns lets each number of `u` serve 64 pixels, a
# tile of 64 rows each number of `vt`.

# %%
print("for each pixel and i:   u        vt       s")
for name, report in (("tiled", tiled), ("column", column)):
    lines = report.lines[report.lines["space"] == "global"]
    lanes = lines[lines["op"] == "load"].groupby("array")["lanes"].sum() / (out.size * 32)
    print(f"{name:17}", *[f"1 / {1 / lanes[array]:.0f}" for array in ("u", "vt", "s")], sep="   ")

# %% [markdown]
# And the registers? Each thread of `column` needs more of them, so fewer warps fit that could work
# while others wait:

# %%
for name in ("tiled", "column"):
    print(f"{name:7}", ladder.facts(name).registers, "registers;", ladder.facts(name).occupancy())

# %% [markdown]
# How much each of these costs, only a profiler can tell ([lesson 07](07_reading_a_profiler.ipynb)).
# With the extra `compile` the next cell asks the compiler about *your* kernel.

# %%
# NBVAL_IGNORE_OUTPUT
print(ladder.compiled_text(reconstruct_column, (u, s, vt, 32, out), block=512))

# %% [markdown]
# Does yours have many more instructions for a product? Then you wrote `array[index]` in the inner
# loop. In Numba, index -1 is the last element, so **every** access tests whether its index is below
# zero: about two instructions each. `load(array, index)` and `store(array, index, value)` from
# `warpsim.ptx` leave that test out. The package's kernels use them from step 5 on.

# %% [markdown]
# ## 9 The largest square
#
# <kbd>deepening</kbd> 15 minutes
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
# A multiprocessor has 65,536 registers. With two blocks of 256 threads on it, each thread may have
# 128, and the answer is 8 if everything else takes 40. Why two blocks? While one waits at a
# barrier, the other one can work.

# %%
predict("registers of a thread, square", 96, within=1.25)

# %%
print(ladder.facts("square").occupancy())
predict.answer("registers of a thread, square", ladder.facts("square").registers, how="counted")

# %% [markdown]
# ## 10 Step 7: four at a time
#
# <kbd>deepening</kbd> 65 minutes
#
# One instruction can read 16 bytes: four neighbouring float32 numbers. `load4` and `store4` do
# that, in global and in shared memory:
#
# ```text
# w, x, y, z = load4(array, (row, column))
# store4(array, (row, column), (w, x, y, z))
# ```
#
# The address must be a multiple of 16 bytes. What if it is not?


# %%
@cuda.jit
def four_from(out, x, first):
    store4(out, 0, load4(x, first))


report = trace(four_from, 1, 1, np.zeros(4, np.float32), np.arange(16, dtype=np.float32), 2)
print(report.findings[0])

# %% [markdown]
# On a GPU that is an error which ends the program. So rows must begin at multiples of 16 bytes: a
# row of 36 numbers does, one of 37 does not. The package has each wide kernel twice, the second one
# for rows that begin anywhere.
#
# **Reading.** A square of 8×8 needs 8 neighbours of `vt`: two `load4`. But 8 neighbours for each
# lane would leave gaps between the lanes again. So cut the square in four quarters. A lane's second
# four lie half a tile, 64 columns, further on. Then neighbouring lanes read neighbouring fours. In
# the second picture one lane's pixels are red, those of the lanes beside it blue.

# %%
pictures.fragment_banks("wide")

# %%
pictures.quarters()

# %% [markdown]
# The same for the rows of `u`: but 8 numbers of a *column* of `u_tile` are no neighbours. The cure
# is from [lesson 05](05_shared_memory.ipynb) (section 12): **turn the tile** while filling it.
# `u_tile[i, y]` instead of `u_tile[y, i]`.
#
# A thread brings four neighbours of a row of `u` with one `load4`, and writes them below each
# other. Lane l brings four number `l % 2` of row `l // 2`. Are these stores free of conflicts, if a
# row of the turned tile has 128 words? Say how many wavefronts one takes.

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
# transpose. But how much? The number of words from one row to the next is called the **pitch**. One
# more, 129, will not do: rows must begin at multiples of four, or `load4` is misaligned.
#
# ### Exercise: a pitch without conflicts
#
# Return the smallest pitch from `least` on, a multiple of 4, with which the 32 words above lie in
# 32 banks.
#
# <details><summary>Hint</summary>
#
# `turned_stores(pitch)` gives the words. `np.bincount(words % 32).max()` is 1 when no two meet. Try
# one pitch after the other.
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
PITCH, FAR = 132, 64
zero = np.float32(0)

pictures.turned_banks((128, 132))

# %% [markdown]
# ### Exercise: step 7
#
# Here k and the columns of the image are multiples of 4, so a four is there whole or not at all.
# `s` goes with `vt` now: one number of `s` for four of `vt`. Each thread has one four of `u` and
# one of `vt` to bring.
#
# <details><summary>Hint 1: filling</summary>
#
# `y, i = t // 2, t % 2 * 4` for `u`, stored to `u_tile[i, y]` … `u_tile[i + 3, y]`. And
# `i, x = t // 32, t % 32 * 4` for `vt`, written with one `store4`.
#
# </details>
#
# <details><summary>Hint 2: reading</summary>
#
# `a[0], a[1], a[2], a[3] = load4(u_tile, (i, row))`, the second four at `row + FAR`; `b` likewise
# from `vt_tile` with `column`.
#
# </details>
#
# <details><summary>Hint 3: storing</summary>
#
# Sum `m, n` belongs to row `row + m` if `m < 4`, else to `row + m - 4 + FAR`; four columns at a
# time, at `column` and at `column + FAR`.
#
# </details>


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
        ### BEGIN SOLUTION
        y, i = t // 2, t % 2 * 4
        four = (zero, zero, zero, zero)
        if first_row + y < u.shape[0] and start + i < k:
            four = load4(u, (first_row + y, start + i))
        for e in range(4):
            u_tile[i + e, y] = four[e]
        i, x = t // 32, t % 32 * 4
        scale, four = zero, (zero, zero, zero, zero)
        if start + i < k and first_column + x < vt.shape[1]:
            scale = s[start + i]
            four = load4(vt, (start + i, first_column + x))
        four = (four[0] * scale, four[1] * scale, four[2] * scale, four[3] * scale)
        store4(vt_tile, (i, x), four)
        cuda.syncthreads()
        for i in range(DEPTH):
            a[0], a[1], a[2], a[3] = load4(u_tile, (i, row))
            a[4], a[5], a[6], a[7] = load4(u_tile, (i, row + FAR))
            b[0], b[1], b[2], b[3] = load4(vt_tile, (i, column))
            b[4], b[5], b[6], b[7] = load4(vt_tile, (i, column + FAR))
            for m in range(SIDE):
                for n in range(SIDE):
                    total[m, n] += a[m] * b[n]
        cuda.syncthreads()
        ### END SOLUTION
    ### BEGIN SOLUTION
    for m in range(SIDE):
        y = first_row + (row + m if m < 4 else row + m - 4 + FAR)
        for n in range(0, SIDE, 4):
            x = first_column + (column if n == 0 else column + FAR)
            if y < out.shape[0] and x < out.shape[1]:
                store4(
                    out, (y, x), (total[m, n], total[m, n + 1], total[m, n + 2], total[m, n + 3])
                )
    ### END SOLUTION


# %% tags=["check"]
check("wide-tile", reconstruct_wide)

# %% [markdown]
# Predict three figures: wavefronts for a product, read instructions for a product, and how many
# times as fast as the square.

# %%
predict("wide: wavefronts, reads for a product", 0.25, 0.0625, exact=True, numbers=2)
predict("wide, times as fast as square", 1.6, within=1.5, no_effect=1)

# %%
wide = traced("wide")
shared = wide.total("shared", "load")
figures = shared.wavefronts / warp_products, shared.requests / warp_products
print("bank conflicts:", shared.conflicts + wide.total("shared", "store").conflicts)
predict.answer("wide: wavefronts, reads for a product", figures, how="counted")

# %%
# NBVAL_IGNORE_OUTPUT
beside("wide-tile", reconstruct_wide)

# %%
show_roofs(["tiled", "column", "square", "wide"])
climbed.append("wide")
print()
print(ladder.Table(climbed))
faster = ladder.faster("wide", than="square")
predict.answer("wide, times as fast as square", round(faster, 1))

# %% [markdown]
# The wavefronts for a product are below a quarter: shared memory no longer binds. And one
# instruction reads four numbers. There is *no* new idea in it. It is the idea of step 6, with its
# numbers in the right places.
#
# Now what was recorded lies far below both roofs. So it is neither: it is **waiting**, for numbers
# that were asked for and are not there yet. That is an inference again. Section 12 tries to hide
# the waiting, and asks the GPU's counters whether there was any.

# %% [markdown]
# ## 11 What about device memory?
#
# <kbd>deepening</kbd> 15 minutes
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
# So 16×16 would be too small if no cache helped. It does: blocks that run at the same time want
# the same rows and columns, and find them in L2. Tiles of 128 do not depend on such luck.

# %% [markdown]
# ## 12 Step 8: two buffers
#
# <kbd>deepening</kbd> 25 minutes
#
# A round of step 7: load a tile, wait for memory, write it, **barrier**, multiply, **barrier**.
# While a block waits for its tile, it multiplies nothing. With two tiles of each kind, the next one
# can be on its way while this one is used. (**put**: write what was loaded to the tile.)
#
# Nobody fills what is being read, so one barrier a round is enough. Is it? Try it on the kernel of
# [lesson 05](05_shared_memory.ipynb), with tiles of 16×16. The picture shows the plan.
# The device function behind it fills one of two buffers, `stage` 0 or 1.

# %%
pictures.buffers()

# %%
TILE = 16


@cuda.jit(device=True)
def fill(u_tile, vt_tile, stage, u, s, vt, k, start, row, col):
    """Fill the tiles `stage` with what begins at `start`; zeros where they stick out."""
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    u_tile[stage, y, x] = 0
    if row < u.shape[0] and start + x < k:
        u_tile[stage, y, x] = u[row, start + x] * s[start + x]
    vt_tile[stage, y, x] = 0
    if start + y < k and col < vt.shape[1]:
        vt_tile[stage, y, x] = vt[start + y, col]


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
# ### Exercise: mend the double buffer
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
# Step 8 does this to step 7, with one refinement: a thread *loads* the next numbers into registers
# before it multiplies, and *writes* them to the tile afterwards. So the loads have the whole time
# of the products to arrive. On GPUs since 2020 numbers can even travel past the registers, by
# **asynchronous copies**. How many times as fast as step 7 is each of the two, step 8 and these?

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
# counters ([lesson 07](07_reading_a_profiler.ipynb) explains them): how many clocks does a warp
# wait between two of its instructions, for global memory and at the barrier? How many instructions
# are there? And how many of the four that may start in a clock do start?

# %%
print("          clocks of waiting for     instructions   starts that")
print("step      memory    the barrier    for a product   are used [%]")
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
#   thirds of the four starts of a clock. So there was little time to win.
# - **An asynchronous copy cannot compute on the way.** So every thread that reads multiplies `s`
#   in. And `u` can be turned only number by number. (Inferred from its code.)
#
# So is double buffering useless? No: two blocks share a multiprocessor here, and while one waits,
# the other multiplies. With one block only, a second buffer has more to hide. Or its
# instructions become fewer: step 9 keeps it, and writes its loop out.

# %% [markdown]
# ## 13 Step 9: warp tiles
#
# <kbd>deepening</kbd> 25 minutes
#
# What is left between step 7 and the peak? Some of the instructions are no products, and each depth
# begins with four reads that its products wait for. Step 9
# (`course/kernels/reconstruct/warp_tiles.py`) changes three large things, and some small ones. It
# is made of five named device functions. This is a number's way through them:

# %%
pictures.pieces()

# %% [markdown]
# **First, a compact tile for a warp.** In step 7 a warp's 32 lanes are 16 across and 2 down: they
# need 2 × 8 rows and 16 × 8 columns, 144 different numbers for each i. Arrange them 8 across and 4
# down. How many numbers then?

# %%
predict("different numbers for a warp, 8 across and 4 down", 96, exact=True)

# %%
print("lanes across, down: numbers")
for across, down in ((32, 1), (16, 2), (8, 4)):
    print(f"{across:8} x {down}  {across * 8 + down * 8:13}")
predict.answer("different numbers for a warp, 8 across and 4 down", 8 * 8 + 4 * 8, how="computed")

# %% [markdown]
# It is the outer product once more, one floor up: a tile that is nearly square needs the fewest
# numbers. Block, warp, thread: three floors, at each the same idea.
#
# There is a fourth floor. When 32 lanes read 16 bytes each, eight lanes are served together. So
# these eight should need few different numbers, too. They stand in a small rectangle: 2 down and 4
# across.

# %%
print("wavefronts for a read of 16 bytes by a warp")
for name in ("wide", "warp tiles"):
    loads = traced(name).total("shared", "load")
    print(f"{name:12}{loads.wavefronts / loads.requests:5.2f}")
pictures.warp_tile()

# %% [markdown]
# ### Exercise: which lane has which row and column?
#
# On the right is a warp's tile, 32 × 64 pixels. Return `(row, column)` of the upper left pixel of a
# lane's **first** square, the one in the upper left quarter of the tile. Lane 0 has (0, 0), lane 9
# the red one. Each number in the picture stands in a square of 4 × 4 pixels.
#
# <details><summary>Hint 1</summary>
#
# Find the place among the lanes first, how many of them down and how many across, and multiply by 4
# at the end.
#
# </details>
#
# <details><summary>Hint 2</summary>
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
    across = lane // 2 % 8
    return 4 * down, 4 * across
    ### END SOLUTION


# %% tags=["check"]
check("lane-place", lane_place)

# %% [markdown]
# **Second, no loop.** The compiler leaves the loop over a tile's depth as it is. Step 9 writes it
# out, two steps at a time (`two_steps`). And while the numbers of depth i are multiplied, those of
# i + 1 are read already, into a second pair of `a` and `b`: a double buffer again, in registers.
#
# **Third, no guards in the main loop.** Rows beyond the edge are read from the last row, and thrown
# away at the end.

# %% [markdown]
# **And small things.** Blocks take their tiles in bands of eight rows of tiles, so that blocks that
# run at the same time share numbers in L2. Indices have 32 bits, not 64. The compiler may be a
# little less exact (`fastmath`), and does not optimise once more at the end (`lto=False`). The
# products have an order of their own, see below.
#
# How many instructions for a product are left?

# %%
predict("instructions for a product, warp tiles", 1.1, within=1.1)

# %%
for name in ("square", "wide", "buffered", "warp tiles"):
    loop = ladder.facts(name).loop
    extra = loop.instructions - loop.products - loop.reads
    print(f"{name:12}{loop.products:4} products, {loop.reads:2} reads, {extra:2} others")
loop = ladder.facts("warp tiles").loop
predict.answer("instructions for a product, warp tiles", round(loop.per_product, 2), how="counted")

# %% [markdown]
# Nearly all of them are products: there is hardly anything left to take away from this loop. How
# many percent of CuPy's rate will that be?

# %%
predict("warp tiles, % of CuPy", 95, within=1.1)

# %%
climbed.append("warp tiles")
print(ladder.Table(climbed))
share = 100 * ladder.of_peer(ladder.recorded("warp tiles"))
predict.answer("warp tiles, % of CuPy", round(share, 1))

# %% [markdown]
# Python kernels beside the library that NVIDIA's experts wrote. But so many things changed from
# `wide` to `warp tiles` that you cannot say which of them gained what. To divide the gain, take
# away **one** change at a time, and time the kernel without it. That is called an **ablation**. It
# was recorded at 8192 × 8192, k = 2048, each kernel three times, in turns. Six parts were taken
# away: the compact tiles, the order of the products, the bands, the indices of 32 bits, `fastmath`
# and `lto=False`. Which one costs most when it is missing, and which one nothing? (In brackets the
# shortest and the longest of the three times.)

# %%
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
# The order of the products is worth more than the compact tile! No count tells that. It was
# **tuned**: many variants were tried, on a GPU, and the fastest was kept. It goes two columns at a
# time, in zigzag, so that a factor stays where it is. And `fastmath` gains nothing.
#
# Multiplied, the rows give about 1.2. But step 9 is 1.5 times as fast as `wide`. The rest was not
# taken back: the loop written out, the buffer in registers, no guards, the tuned shape of a block.
#
# The road ends at the peak of these units. A GPU has others, **tensor cores**, that multiply halves
# and are far faster: [lesson 17](17_tensor_cores.ipynb).

# %% [markdown]
# ## 14 All counts, a T4, and your GPU
#
# <kbd>deepening</kbd> 5 minutes
#
# What bound each step? Both counts of all of them, on an H200:

# %%
print("for a product:  wavefronts  instructions  recorded")
print("               (1 a clock)   (4 a clock)   TFLOP/s")
for name in ("naive", "tiled", "column", "square", "wide", "buffered", "warp tiles"):
    shared = traced(name).total("shared", "load").wavefronts / warp_products
    issue = ladder.instructions(name)
    print(f"{name:14}{shared:12.3f}{issue:14.3f}{ladder.recorded(name).teraflops:10.1f}")

# %% [markdown]
# (Wavefronts are the source's, by the trace; instructions the whole kernel's, counted on an H200.)
#
# And on a **Tesla T4**, as in Colab? It has half as many float32 units: two products a clock. If
# the other rows of the table stay as they are, the next cell **predicts** the lower of two roofs.
# Nobody measured it here. It is too high if the T4 has too few units that load for a wavefront a
# clock, or where the rest of a kernel adds to its inner loop's instructions. It is too low where
# the compiler puts reads together, as in `tiled` and `square`.
#
# If you have a T4, `ladder.measure` tells what is true.

# %%
for name in ("tiled", "column", "square", "wide", "buffered", "warp tiles"):
    shared = traced(name).total("shared", "load").wavefronts / warp_products
    issue = ladder.facts(name, "sm_75").loop.per_product
    roof = min(ladder.shared_roof(shared, "T4"), ladder.issue_roof(issue, "T4"))
    share = roof / ladder.shared_roof(0, "T4")
    print(f"{name:11} roof at {roof:4.1f} TFLOP/s on a T4, {share:4.0%} of its peak")

# %% [markdown]
# On a GPU the next cell measures the package's steps; without one it gives the bounds. (`beside`
# had your kernels. Is one of them more than 1.4 times as slow as the package's? Then look for an
# `array[index]` left in its inner loop.)

# %%
# NBVAL_IGNORE_OUTPUT
for name in ("tiled", "column", "square", "wide", "buffered", "warp tiles"):
    print(ladder.measure(name))

# %% [markdown]
# ## What you should be able to say now
#
# - Tiles of results in registers: `rows + columns` reads make `rows * columns` products.
# - The same idea works for a block, a warp and a thread; nearly square is best.
# - Registers limit the tile, and with it how many blocks share a multiprocessor.
# - Wide accesses need aligned addresses; lanes should read neighbouring fours.
# - The lowest roof counts. Double buffers hide waiting, and cost instructions.
# - Count the whole kernel: an inner loop alone may point the wrong way.
# - Nearly square tiles and few other instructions bring a Python kernel beside cuBLAS.

# %%
progress(6)

# %% [markdown]
# ## Questions
#
# 1. A thread tile of 16×4 and one of 8×8 make as many products. Which one reads less?
# 2. Why is the local array `total` in registers, and when would it not be?
# 3. Why do lanes read fours that touch, and not eights?
# 4. Step 5 reads nearly half as often as step 4. Why is it not nearly twice as fast?
# 5. Would step 8 gain on a GPU on which only one block fits a multiprocessor?
#
# <details><summary>Answers</summary>
#
# 1. 8×8: 16 reads against 20.
# 2. All its indices are constants once the loops are unrolled. With an index that depends on data,
#    the compiler must put it in local memory.
# 3. With eights, the lanes' first fours are 32 bytes apart: 16 lanes use half of the banks, and
#    meet. With fours, 8 lanes read 128 bytes side by side.
# 4. Its instructions for each product fell by a third only, so they have become a narrow row, too.
#    Fewer warps fit, and all wait at barriers.
# 5. More likely: nobody else works while the block waits.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Let `s` go with `u` in step 7. What does it cost in loads? In the trace?
# - Step 6 with squares of 4×4: more threads, fewer registers. Predict the roofs, then trace.
# - Change DEPTH to 16 in step 7. What changes in shared memory, what in barriers?
# - Count the wavefronts of step 7 with eights instead of fours.

# %% [markdown]
# ## Common misconceptions
#
# - *"More threads are faster."* Step 7 has one thread for 64 pixels, step 3 one for each. See the
#   table.
# - *"Full occupancy is the goal."* The fastest kernels here fill a quarter of a multiprocessor or
#   less. Enough work in each thread hides waiting, too.
# - *"A local array is slow memory."* Not if the compiler can keep it in registers.
# - *"Half the reads, half the time."* Only if reads bind.
# - *"Double buffering always pays."* Look at the table.

# %% [markdown]
# ## What to read next
#
# - Simon Boehm, [How to optimize a CUDA matmul kernel](https://siboehm.com/articles/22/CUDA-MMM):
#   a ladder in CUDA C++, with other pictures.
# - NVIDIA, [CUTLASS: fast linear algebra in CUDA
#   C++](https://developer.nvidia.com/blog/cutlass-linear-algebra-cuda/): the same three floors.
# - V. Volkov, [Better performance at lower
#   occupancy](https://www.nvidia.com/content/GTC-2010/pdfs/2238_GTC2010.pdf), 2010: why registers
#   beat threads.
# - Next in the course: [lesson 07](07_reading_a_profiler.ipynb), Reading a profiler.
#   [Lesson 17](17_tensor_cores.ipynb) goes on from here, to tensor cores.
