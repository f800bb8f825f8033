# %% [markdown]
# # 12 Reductions and normalisation
#
# Many numbers become one: a sum, a maximum, a mean. You let threads meet, first at one address, at
# the end without any memory at all. Then you fuse what a neural network does to its rows, count the
# bytes before you measure, and catch formulas that lose digits.

# %% [markdown]
# ## What you will do
#
# - Climb a ladder of sums, from two thousand times too slow to the memory's roof.
# - Watch 32 lanes exchange registers, lane by lane.
# - Derive a softmax that reads its row once less, and write it.
# - See right formulas give wrong numbers: a sum that stands still, a variance below zero.
# - Fuse LayerNorm and GELU into one kernel, and take published speed-ups apart, and our own.

# %% [markdown]
# ## What you will learn
#
# - Where partial results can meet, and what each meeting place costs.
# - What two parts must know of themselves, so that they can be merged.
# - What fusing saves, in bytes, and how to tell a fused kernel with a slow half.
# - Which sums may be made in float16, and which must not.

# %% [markdown]
# ## What you need
#
# Lesson 01: atomics and the strided loop. Lessons 03 to 05: roofs, warps, sectors, shared memory,
# barriers. Local arrays from lesson 06; section 6 speaks of graphs (lesson 08), section 9 reads the
# counters of lesson 07. No GPU is needed: what is counted runs here, what is timed was recorded on
# an NVIDIA H200.

# %% [markdown]
# ## How long it takes
#
# About 4 hours with the seven exercises. After section 4 and after section 6 are good places for a
# break.

# %% [markdown]
# ## 1 Everybody to one address
#
# Until now each output had a thread of its own. A sum has **one** output for all threads. The
# obvious kernel lets each thread add its number to that one address. From lesson 01 you know that
# this must be an atomic addition, or additions get lost.

# %%
import math

import numpy as np
from numba import float32, int32

from course import (
    benchmark,
    check,
    cuda,
    gpu,
    predict,
    progress,
    recorded_roofs,
    row_profile,
    trace,
)
from course import reduction_pictures as pictures
from course.kernels import activation, norm, reduce, softmax
from course.kernels.reduce import KINDS, pieces
from course.measurements import find
from course.plots import time_bars
from course.speed_charts import original, speed_chart


# %%
@cuda.jit
def sum_atomics(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(out, 0, x[i])


x = np.random.default_rng(12).integers(-4, 5, 65_536).astype(np.float32)
out = np.zeros(1, np.float32)
report = trace(sum_atomics, 256, 256, x, out)
print("right:", out[0] == x.sum(), "  atomic additions:", report.total("global", "atomic").lanes)

# %% [markdown]
# It is right, and short. Is it fast? Any kernel must at least read the numbers. For 2²⁶ of them:
# how many times as long as reading does this kernel take?

# %%
predict("atomics: how many times as long as reading", ...)


# %%
def h200(subject, kernel, variant, shape, metric="time", dtype="float32"):
    """Return what was recorded on an H200; times are in ms."""
    wanted = {"kernel": kernel, "variant": variant, "shape": shape, "metric": metric}
    return find(subject, **wanted, dtype=dtype, gpu="H200")[0].median


BIG = 2**26
COPY = recorded_roofs("H200").bandwidth  # GB/s of a copy, reading and writing
READ = recorded_roofs("H200").highest_bandwidth  # GB/s of a kernel that only reads
reading = 4 * BIG / READ * 1e-6  # bytes / (GB/s), in ms
atomics = h200("reduce", "sum", "atomics", str(BIG))
print(f"reading at the roof {reading:8.3f} ms\natomics, recorded   {atomics:8.3f} ms")
predict.answer("atomics: how many times as long as reading", round(atomics / reading))

# %% [markdown]
# The reads are in order, nothing is wrong with them. What is slow is the meeting place. All
# additions go to one address, and there they stand in line. So divide:

# %%
each = atomics / BIG * 1e6  # ns
print(f"one addition at that address every {each:.2f} ns")

# %% [markdown]
# Remember this figure. It is a **roof** of a new kind: not bytes, not operations, but additions at
# one address. You will use it to predict the next step.
#
# But first look at what the kernel computes. The recorded numbers were whole and small, so that any
# order gives the same sum. Now 2²⁶ random fractions between 0 and 1. A float32 has 24 bits, about
# seven digits. What relative error do you expect?

# %%
predict("atomics: relative error of a sum of 2**26 fractions", ...)

# %%
error = h200("reduce", "sum", "atomics", str(BIG), "error of fractions")
predict.answer("atomics: relative error of a sum of 2**26 fractions", round(error, 3))

# %% [markdown]
# That is no rounding error, half of the sum is missing. What happens to a float32 sum that has
# reached 2²⁴ = 16,777,216?

# %%
stuck = np.float32(2**24)
print("2**24 + 0.9 is 2**24:", stuck + np.float32(0.9) == stuck)
print("2**24 + 1.0 is 2**24:", stuck + np.float32(1.0) == stuck)

# %% [markdown]
# From 2²⁴ on, neighbouring float32 numbers are 2 apart. Whatever is added, up to 1, is rounded
# away, and **the sum stands still**: at 2²⁴, while 2²⁶ fractions of a half on average make 2²⁵. No
# warning, no NaN. The cure will come by itself: if you add in parts, you add numbers of similar
# size.

# %% [markdown]
# ## 2 A tree in shared memory
#
# Let a block meet first. Its threads put their numbers into shared memory. Then half of them add
# the other half's, then a quarter, until one is left. That one goes to the address. Here are eight
# threads, each starting with its own number:

# %%
pictures.tree(8)

# %% [markdown]
# Blue numbers are still needed, red lines show what is added. Between the steps all must wait: a
# barrier.
#
# The next cell runs a step of the package's ladder in the simulator. (Later cells use `traced_sum`
# again; what matters is what it counts.) Blocks have 256 threads. How many atomic additions are
# left for the 65,536 numbers?

# %%
predict("tree: atomic additions", ...)

# %%
SUM, SHAPE = KINDS["sum"], reduce.SHAPES["sm_90"]


def traced_sum(name):
    """Trace a step of the package's ladder on x."""
    step, out = reduce.LADDER[name], np.zeros(1, np.float32)
    if step.shaped:
        kernel, threads, tile = step.make(SUM, SHAPE, True), SHAPE.threads, SHAPE.tile
    else:
        kernel, threads, tile = step.make(SUM), reduce.THREADS, reduce.THREADS
    blocks = -(-x.size // tile)
    room = () if step.fills else (np.zeros(blocks, np.float32), np.zeros(1, np.uint32))
    return trace(kernel, blocks, threads, x, *room, out, gpu="H200")


tree = traced_sum("tree")
predict.answer("tree: atomic additions", tree.total("global", "atomic").lanes)

# %% [markdown]
# 256 times fewer. For 2²⁶ numbers there are 2¹⁸ blocks. If additions at one address were still what
# binds, how many ms would they take? You have the figure for one of them.

# %%
predict("tree: ms for the atomic additions of 2**18 blocks", ...)

# %%
by_additions = 2**18 * each * 1e-6
print(f"additions alone {by_additions:.3f} ms, reading alone {reading:.3f} ms")
print(f"tree, recorded  {h200('reduce', 'sum', 'tree', str(BIG)):.3f} ms")
predict.answer("tree: ms for the atomic additions of 2**18 blocks", round(by_additions, 3))

# %% [markdown]
# The kernel stands at that roof. The line at the address is shorter, and it is **still** what
# everybody waits for. And the error of the fractions?

# %%
for name in ("atomics", "tree"):
    error = h200("reduce", "sum", name, str(BIG), "error of fractions")
    print(f"{name:8} {'below 1e-5' if error < 1e-5 else f'{error:.2f}'}")

# %% [markdown]
# Each block adds 256 numbers of similar size, and what arrives at the address is larger than what
# it rounds away. Adding in a tree is not only faster, it is more accurate.
#
# **The last five steps** happen within one warp. Well-known programs leave the barriers out there:
# the lanes of a warp move in step, they say. What will the simulator find?

# %%
predict("the last warp without a barrier", ...)


# %%
def last_warp(waits):
    @cuda.jit
    def sum_last_warp(x, out):
        values = cuda.shared.array(32, float32)
        t, half = cuda.threadIdx.x, 16
        values[t] = x[t]
        while half > 0:
            if waits:
                cuda.syncwarp()
            if t < half:
                values[t] += values[t + half]
            half //= 2
        if t == 0:
            out[0] = values[0]

    return sum_last_warp


hasty, careful = (trace(last_warp(waits), 1, 32, x[:32], out) for waits in (False, True))
print(hasty.findings[0])
print("with syncwarp:", careful.findings or "no finding")
predict.answer("the last warp without a barrier", hasty.findings[0].kind)

# %% [markdown]
# Since the GPUs of 2017 lanes may run apart. `cuda.syncwarp()` is the barrier of a warp, and cheap.
# (The message advises the barrier of a block, which would do, and is more than is needed. Old code
# marks the memory `volatile` instead. That keeps a compiler from caching a value, and orders
# nothing.) But if all is within one warp, why go through memory?

# %% [markdown]
# ## 3 Lanes exchange registers
#
# The tree writes each partial sum to shared memory, waits, and reads it back. Lanes of one warp
# need not. With one instruction a lane reads **another lane's register**: a **shuffle**.
#
# ```text
# other = cuda.shfl_xor_sync(0xFFFFFFFF, value, 16)   # the value of lane (mine xor 16)
# other = cuda.shfl_down_sync(0xFFFFFFFF, value, 16)  # the value of lane (mine + 16)
# ```
#
# The first argument names who takes part, a bit for each lane: all of them. No memory, no barrier.
# `xor 16` flips the bit of a number that is worth 16: from 5 to 21, and from 21 back to 5.

# %% [markdown]
# Lane l starts with the number l. Each of the five steps adds the number of the lane that is 16
# away, then 8, 4, 2, 1, which is `16 >> step`. Since xor swaps, lanes 5 and 21 get each other's
# number. What does lane 5 hold after the **first** step, and after the last?

# %%
predict("lane 5 after step 1", ...)

# %%
predict("lane 5 after step 5", ...)


# %%
@cuda.jit
def butterfly(x, held):
    """Add the numbers of a warp; row n of held is what the lanes hold after n steps."""
    lane = cuda.threadIdx.x
    value = x[lane]
    held[0, lane] = value
    for step in range(5):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 16 >> step)
        held[step + 1, lane] = value


held = np.zeros((6, 32), np.float32)
butterfly[1, 32](np.arange(32, dtype=np.float32), held)
pictures.exchange(held, pictures.xor_partners(), lane=5)

# %%
predict.answer("lane 5 after step 1", held[1, 5])

# %%
predict.answer("lane 5 after step 5", held[5, 5])

# %% [markdown]
# Follow the red lines up from lane 5: its result has every number once. And so has that of every
# other lane, **all 32 hold the sum**, which will be handy: each can go on with it at once. Because
# of its crossing lines this is called a **butterfly**.
#
# Now the same with `shfl_down_sync`. For lane 31 there is no lane 16 further on. A lane that asks
# beyond the end gets its own number. What does lane 31 hold after five steps?

# %%
predict("lane 31 after five times shfl_down", ...)


# %%
@cuda.jit
def downwards(x, out):
    lane = cuda.threadIdx.x
    value = x[lane]
    for step in range(5):
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, 16 >> step)
    out[lane] = value


last = np.zeros(32, np.float32)
downwards[1, 32](np.arange(32, dtype=np.float32), last)
print("lanes 0 to 3: ", last[:4])
predict.answer("lane 31 after five times shfl_down", last[31])

# %% [markdown]
# It doubled its own number five times. With `shfl_down` only **lane 0** has the sum, and all others
# hold something that looks like one. Choose what you need, and store from lane 0 when in doubt.
#
# One more trap. Twenty numbers, so why not let only the first 20 lanes work?


# %%
@cuda.jit
def careless(x, out):
    lane = cuda.threadIdx.x
    if lane < x.size:
        out[lane] = x[lane] + cuda.shfl_xor_sync(0xFFFFFFFF, x[lane], 16)


print(trace(careless, 1, 32, x[:20], np.zeros(32, np.float32)).findings[0])

# %% [markdown]
# The call names all 32 lanes, and twelve never come. It is the barrier of lesson 05 once more, so
# it has the same rule: **guard the load, never the shuffle.** A lane without a number takes part
# with one that changes nothing: 0 in a sum, −∞ in a maximum.

# %% [markdown]
# ### Exercise: a warp adds a row
#
# x has rows of any length. Blocks have 128 threads, four warps, and warp w of block b adds row
# `4 * b + w`. Lane l takes the columns l, l + 32, l + 64, … Then the lanes meet by shuffles, and
# lane 0 stores. No shared memory.
#
# <details><summary>Hint 1: a lane's columns</summary>
#
# `for column in range(lane, x.shape[1], 32)`, added to a `total` that starts with `float32(0)`.
#
# </details>
#
# <details><summary>Hint 2: warps without a row</summary>
#
# All lanes of a warp have the same row. So the whole warp may stay out with `if row < x.shape[0]`:
# whoever shuffles, shuffles with 31 others.
#
# </details>

# %%
ALL = 0xFFFFFFFF


# %% tags=["exercise"]
@cuda.jit
def row_sums(x, out):
    """Write the sum of row r of x to out[r]; a warp for each row, four in a block."""
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    ### BEGIN SOLUTION
    if row < x.shape[0]:
        total = float32(0)
        for column in range(lane, x.shape[1], 32):
            total += x[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        if lane == 0:
            out[row] = total
    ### END SOLUTION


# %% tags=["check"]
check("warp-row-sum", row_sums)

# %% [markdown]
# Back to one long array. A block of 256 threads has eight warps. Each sums its numbers by shuffles,
# lane 0 puts the warp's sum into shared memory, **one** barrier, and one warp adds those eight. In
# the ladder that is the step `shuffles`. Beside the tree, for 65,536 numbers:

# %%
shuffled = traced_sum("shuffles")
print("            shared loads  shared stores  atomic additions")
for name, report in (("tree", tree), ("shuffles", shuffled)):
    loads, stores = (report.total("shared", op).wavefronts for op in ("load", "store"))
    print(f"{name:9}{loads:15,}{stores:15,}{report.total('global', 'atomic').lanes:18,}")

# %% [markdown]
# Nine barriers became one, and shared memory has little to do. How many times as fast as the tree
# is it, then?

# %%
predict("shuffles, times as fast as the tree", ...)

# %%
times = {name: h200("reduce", "sum", name, str(BIG)) for name in ("tree", "shuffles")}
for name, time in times.items():
    print(f"{name:9}{time:.3f} ms")
answer = round(times["tree"] / times["shuffles"], 2)
predict.answer("shuffles, times as fast as the tree", answer)

# %% [markdown]
# Did you look at the table's last column before you predicted? Both have as many additions at the
# address, and **that** binds. The shuffles widened a place that was not the narrow one (lesson 06).
#
# A maximum has as many atomics, but they compare whole numbers (a float32's bits), and their line
# moves faster. So what happens within the blocks shows:

# %%
largest = {name: h200("reduce", "max", name, str(BIG)) for name in ("tree", "shuffles")}
for name, time in largest.items():
    print(f"maximum, {name:9}{time:.3f} ms")
print(f"{largest['tree'] / largest['shuffles']:.2f} times as fast with shuffles")

# %% [markdown]
# ## 4 Several numbers for each thread
#
# Fewer additions at the address, that means fewer blocks, and so more numbers for each. A thread
# adds many numbers in a register before it meets anyone. In the package's step `several` it loads
# them four at a time:

# %%
print(f"{SHAPE.threads} threads a block, {SHAPE.tile // SHAPE.threads} numbers a thread")

# %% [markdown]
# What is the roof now? Compute both, additions and reading, and predict how many ms 2²⁶ numbers
# take.

# %%
predict("several: ms", ...)

# %%
blocks = BIG // SHAPE.tile
several = h200("reduce", "sum", "several", str(BIG))
print(f"additions {blocks * each * 1e-6:.3f} ms, reading {reading:.3f} ms")
predict.answer("several: ms", round(several, 3), unit="ms")

# %% [markdown]
# The additions take less than the reading, and happen meanwhile. So now memory binds, as it should.
# Your turn.

# %% [markdown]
# ### Exercise: several elements a thread, one atomic a block
#
# The grid is fixed, x has any size: all threads of all blocks share it, by the strided loop of
# lesson 01. Then the block meets: a sum in each warp, eight numbers in `sums`, a barrier, one warp
# adds them, **one** thread goes to `out[0]`, which holds 0 at the start. `warp_sum(value)` returns
# the butterfly's sum to all lanes.
#
# <details><summary>Hint 1: the loop</summary>
#
# `for i in range(cuda.grid(1), x.size, cuda.gridsize(1))`
#
# </details>
#
# <details><summary>Hint 2: the second meeting</summary>
#
# After the barrier every warp may compute it, it does no harm: `warp_sum` of `sums[lane]` where
# `lane < 8`, of `float32(0)` elsewhere. All lanes must call it, so pick the number first:
# `value = sums[lane] if lane < 8 else float32(0)`.
#
# </details>

# %%
warp_sum, block_sum = pieces(SUM, warps=8)  # what the package's kernels use


# %% tags=["exercise"]
@cuda.jit
def sum_several(x, out):
    """Add all of x to out[0]; 256 threads a block, any number of blocks."""
    sums = cuda.shared.array(8, float32)
    t = cuda.threadIdx.x
    warp, lane = t // 32, t % 32
    ### BEGIN SOLUTION
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    total = warp_sum(total)
    if lane == 0:
        sums[warp] = total
    cuda.syncthreads()
    total = warp_sum(sums[lane] if lane < 8 else float32(0))
    if t == 0:
        cuda.atomic.add(out, 0, total)
    ### END SOLUTION


# %% tags=["check"]
check("sum-several", sum_several)

# %% [markdown]
# **Without any atomic on the sum.** Atomics have two faults left. Somebody must write a 0 to `out`
# first: one more launch. And they come in any order, so a sum of fractions has other last bits each
# time you run it. Same numbers, other order:

# %%
fractions = np.random.default_rng(1).random(4096, dtype=np.float32)
orders = [np.random.default_rng(seed).permutation(fractions) for seed in range(20)]
results = {float(np.add.accumulate(numbers)[-1]) for numbers in orders}
print(f"20 orders of adding one by one, more than 5 different sums: {len(results) > 5}")

# %% [markdown]
# So let each block write its sum to a place of its own, and let **the last block** add them. Who is
# the last? Each block counts itself with an atomic on a counter, which returns how many came
# before.
#
# Between its sum and the counter a block calls `cuda.threadfence()`: what I wrote before, all see
# before what I write after. The kernel below can be made with it and without. What will the
# simulator find without? (`block_sum` is what you have just written, up to the atomic.)

# %%
predict("finding without the fence", ...)


# %%
def last_block(fence):
    @cuda.jit
    def sum_last_block(x, partial, counter, out):
        is_last = cuda.shared.array(1, int32)
        value, blocks = block_sum(x[cuda.grid(1)]), cuda.gridDim.x
        if cuda.threadIdx.x == 0:
            partial[cuda.blockIdx.x] = value
            if fence:
                cuda.threadfence()
            is_last[0] = int32(cuda.atomic.inc(counter, 0, blocks - 1) == blocks - 1)
        cuda.syncthreads()
        if is_last[0] and cuda.threadIdx.x == 0:
            total = float32(0)
            for block in range(blocks):
                total += partial[block]
            out[0] = total

    return sum_last_block


# %%
def run_last_block(fence):
    """Trace the kernel on 1,024 numbers; return the report and the sum."""
    room, out = (np.zeros(4, np.float32), np.zeros(1, np.uint32)), np.zeros(1, np.float32)
    return trace(last_block(fence), 4, 256, x[:1024], *room, out), out[0]


for fence in (True, False):
    report, total = run_last_block(fence)
    print(f"fence {fence!s:5}  sum right: {total == x[:1024].sum()}")
    for finding in report.findings:
        print(finding)
predict.answer("finding without the fence", report.findings[0].kind)

# %% [markdown]
# Right both times, and a **race** without the fence: the counter may be seen to be full before the
# sums are there. It would go well a thousand times, and then not. The message names two usual
# cures; counter and fence are a third. (`atomic.inc` counts to `blocks - 1` and then starts again
# at 0, so the counter is ready for the next launch.)

# %% [markdown]
# The whole ladder, and others beside it: CuPy; PyTorch, **eager** (each call runs a kernel that was
# written before); PyTorch **compiled** (`torch.compile` writes kernels for your function). Later
# comes **Triton**, a language for kernels within Python.

# %%
STEPS = ("atomics", "tree", "shuffles", "several", "last block")
programs = (*STEPS, "cupy", "torch", "torch.compile")
times = {name: h200("reduce", "sum", name, str(BIG)) for name in programs}
time_bars(times | {"reading at the roof": reading}, "sum of 2²⁶ float32, recorded on an H200")

# %%
print("            atomics   loads of warps   GB/s      error of fractions")
for name in STEPS:
    report = traced_sum(name)
    error = h200("reduce", "sum", name, str(BIG), "error of fractions")
    counted = report.total("global", "atomic").lanes, report.total("global", "load").requests
    rate = 4 * BIG / times[name] * 1e-6
    print(f"{name:11}{counted[0]:8,}{counted[1]:17,}{rate:7,.0f}{error:20.0e}")

# %% [markdown]
# (Counted for 65,536 numbers, timed for 2²⁶. From `several` on, a load of a warp brings four
# numbers to each lane. The last step's atomics go to the counter.) Each step moved the meeting
# place nearer to the threads: one address, shared memory, a neighbour's register, an own register.
# **The best meeting is none.**

# %% [markdown]
# ## 5 Softmax: three readings, or two
#
# A softmax makes shares out of any numbers: `exp(x) / sum(exp(x))`, row by row. Language models
# take it of rows of thousands. Try it as it stands, on numbers that a network may well produce:


# %%
def plain(row):
    """Return the softmax as the formula stands, in float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        powers = np.exp(row)
        return powers / powers.sum()


for row in ([1, 2, 3], [81, 82, 83], [101, 102, 103]):
    print(row, "->", np.round(plain(np.array(row, np.float32)), 3))

# %% [markdown]
# The three rows differ by a constant, so their shares are the same. But `exp(89)` is more than a
# float32 holds: infinity, and infinity divided by infinity is NaN. So subtract the row's largest
# number first. No power is above 1 then, and the shares stay the same.
#
# But now you need the maximum before the first power, and the sum before the first share: three
# passes over the row. If each pass reads the row from memory, how many bytes are read and written
# together, in units of the size of x?

# %%
predict("three passes: bytes read and written / bytes of x", ...)

# %%
matrix = np.random.default_rng(5).standard_normal((32, 1024), dtype=np.float32)


def traced_softmax(name):
    """Trace a step of the package's ladder on the matrix; return report and result."""
    (rows, columns), out = matrix.shape, np.zeros_like(matrix)
    shape = softmax.shape_for(columns)
    kernel, grid, block = {
        "three passes": (softmax.softmax_three_passes, rows, softmax.THREADS),
        "online": (softmax.online("float32", 256, True), rows, 256),
        "registers": (
            softmax.registers("float32", shape, True),
            -(-rows // shape.rows),
            (shape.row_threads, shape.rows),
        ),
    }[name]
    return trace(kernel, grid, block, matrix, out, gpu="H200"), out


def moved(report):
    """Bytes that the lanes asked for, global loads and stores."""
    return report.total("global", "load").bytes + report.total("global", "store").bytes


report, _ = traced_softmax("three passes")
question = "three passes: bytes read and written / bytes of x"
predict.answer(question, moved(report) / matrix.nbytes)

# %% [markdown]
# Can one reading give both, maximum and sum? The sum needs the maximum, which you only know at the
# end. So take **the largest so far**, and a sum of powers relative to it:
#
# ```text
# m = the largest of the numbers so far
# s = exp(x1 - m) + exp(x2 - m) + ...
# ```
#
# Now a number comes that is larger than m. The new maximum is n. What must happen to s?

# %% [markdown]
# <details><summary>Derive it on paper first, then look</summary>
#
# Each term should be exp(x − n), and is exp(x − m). Now
#
# exp(x − n) = exp(x − m) · exp(m − n)
#
# The factor exp(m − n) is the same for every term, so it can be taken out of the sum:
#
# s, relative to n, is **s · exp(m − n)**. One multiplication corrects all of the past.
#
# </details>
#
# Nine numbers, one after the other:

# %%
numbers = [1.0, 0.5, 2.5, 2.0, 1.0, 4.0, 3.5, 0.0, 3.0]
pictures.running_softmax(numbers)

# %% [markdown]
# Where a larger number comes, a part of the sum falls away. Nothing is lost that counts: the same
# powers, relative to a larger one. As a loop:

# %%
largest, total = -np.inf, 0.0
for number in numbers:
    new = max(largest, number)
    total = total * np.exp(largest - new) + np.exp(number - new)
    largest = new
exact = np.exp(np.array(numbers) - max(numbers)).sum()
print(f"online {total:.6f}, with the maximum known {exact:.6f}")

# %% [markdown]
# That is the **online softmax**. Lesson 15 needs it for attention, whose matrix is too large to be
# stored at all.
#
# One lane does this for its columns. Then 32 lanes must meet, each with a pair (largest, total).
# The same correction, now for both:

# %% [markdown]
# ### Exercise: two parts of a softmax become one
#
# Return `(largest, total)` of two parts of a row together. A part without numbers has the largest
# −3.4·10³⁸ (the lowest float32) and the total 0; it must change nothing.
#
# <details><summary>Hint</summary>
#
# Which of the two totals must be multiplied down? Both may be, with a factor of at most 1 each:
# `math.exp(its own largest - the larger one)`.
#
# </details>


# %% tags=["exercise"]
def merge_softmax(largest, total, other_largest, other_total):
    """Return the largest number and the sum of powers, relative to it, of two parts together."""
    ### BEGIN SOLUTION
    both = max(largest, other_largest)
    factor, other_factor = math.exp(largest - both), math.exp(other_largest - both)
    return both, total * factor + other_total * other_factor
    ### END SOLUTION


# %% tags=["check"]
check("merge-softmax", merge_softmax)

# %% [markdown]
# Why not −∞ for "no number yet"? Two empty parts would meet as −∞ − (−∞), which is NaN. With the
# lowest finite number they meet as 0.

# %% [markdown]
# ### Exercise: softmax in two readings
#
# A warp a row, as in the first exercise. A lane goes through its columns and keeps `largest` and
# `total`, which start as a part without numbers: `LOWEST` (float32's lowest) and 0. Then five
# exchanges of both, each followed by a merge. Then the row is read again, and written.
#
# <details><summary>Hint 1: the first loop</summary>
#
# ```text
# value = x[row, column]
# new = max(largest, value)
# total = total * math.exp(largest - new) + math.exp(value - new)
# largest = new
# ```
#
# </details>
#
# <details><summary>Hint 2: the exchange</summary>
#
# `other_largest = cuda.shfl_xor_sync(ALL, largest, 16 >> step)`, the same for the total, then as in
# your `merge_softmax`. Exchange both **before** you change either.
#
# </details>

# %%
LOWEST = np.finfo(np.float32).min


# %% tags=["exercise"]
@cuda.jit
def softmax_rows(x, out):
    """Write the softmax of each row of x; a warp for each row, four in a block."""
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    largest, total = LOWEST, float32(0)
    ### BEGIN SOLUTION
    if row < x.shape[0]:
        for column in range(lane, x.shape[1], 32):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        for step in range(5):
            other = cuda.shfl_xor_sync(ALL, largest, 16 >> step)
            other_total = cuda.shfl_xor_sync(ALL, total, 16 >> step)
            new = max(largest, other)
            total = total * math.exp(largest - new) + other_total * math.exp(other - new)
            largest = new
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column] - largest) / total
    ### END SOLUTION


# %% tags=["check"]
check("softmax-online", softmax_rows)

# %% [markdown]
# One more reading can go. If a block holds its row **in registers**, spread over its threads, it is
# read once: then online is not needed within a thread, it has all its numbers. So 4, 3 and 2
# transfers. If bytes were all, `registers` would be twice as fast as three passes. Was it?

# %%
predict("softmax in registers, times as fast as three passes", ...)

# %%
print("16384 x 4096           moved / x   recorded")
shape, copy = "16384x4096", 8 * 16_384 * 4096 / COPY * 1e-6
times = {}
for name in ("three passes", "online", "registers"):
    report, _ = traced_softmax(name)
    times[name] = h200("reduce", "softmax", name, shape)
    print(f"{name:17}{moved(report) / matrix.nbytes:13.0f}{times[name]:14.3f} ms")
for name in ("torch", "torch.compile", "Triton"):
    print(f"{name:30}{h200('reduce', 'softmax', name, shape):14.3f} ms")
print(f"{'a copy, at the roof':30}{copy:14.3f} ms")
faster = times["three passes"] / times["registers"]
predict.answer("softmax in registers, times as fast as three passes", round(faster, 2))

# %% [markdown]
# Not the ratio of the bytes. Two things work against each other:
#
# - A row of 16 KiB that was read a moment ago is still in a cache. So the second reading of
#   `online` costs far less than the first: it stands near `registers`.
# - `three passes` loads number by number, and two of its passes end in a tree of nine barriers,
#   where everybody waits. That is more than its bytes explain.
#
# Bytes are a **roof**. A kernel may be far below it, and caches may lift it for repeated readings.

# %% [markdown]
# ## 6 GELU and Swish: count the bytes
#
# Between its matrix products a network bends each number by an **activation**. The plainest is
# ReLU, max(x, 0), with a corner at 0. **Swish** (also SiLU) and **GELU** have none:
#
# ```text
# Swish(x) = x * sigmoid(x) = x / (1 + exp(-x))
# GELU(x)  = x * (share of normally distributed numbers below x)
#          = x * (1 + erf(x / sqrt(2))) / 2
# ```
#
# The error function `erf` takes many operations. Many programs use another function instead:
#
# ```text
# 0.5 * x * (1 + tanh(sqrt(2 / π) * (x + 0.044715 * x³)))
# ```
#
# By how much do the two differ at most?

# %%
predict("largest difference, GELU with tanh", ...)

# %%
pictures.activation_curves()

# %%
grid = np.linspace(-6, 6, 12_001)
right = grid * pictures.normal_below(grid)
difference = np.abs(pictures.gelu_by_tanh(grid) - right)
worst = abs(grid[difference.argmax()])
print(f"largest at |x| = {worst:.1f}")
predict.answer("largest difference, GELU with tanh", float(f"{difference.max():.1e}"))

# %% [markdown]
# Is that much? It depends on beside what:

# %%
near = grid.searchsorted(-4.0)
print(f"float16's rounding of 2.7: up to {np.spacing(np.float16(2.7)) / 2:.1e}")
print(f"float32's rounding of 2.7: up to {np.spacing(np.float32(2.7)) / 2:.1e}")
print(f"of GELU(-4) = {right[near]:.1e} the difference is {difference[near] / -right[near]:.0%}")
values = grid.astype(np.float32)
exact = values * pictures.normal_below(values)
for name in ("gelu", "gelu erf", "gelu tanh"):
    error = np.abs(activation.activation(values, name) - exact).max()
    print(f"{name:9} in float32, error", "below 1e-6" if error < 1e-6 else f"{error:.0e}")

# %% [markdown]
# In float16 it hides behind the rounding, at least for positive numbers. In float32 it is thousands
# of roundings, and in the left tail about half of the value itself, farther out more. It does no
# harm to a network that was **trained** with it. But do not swap one for the other afterwards, and
# do not call both GELU in a comparison. (The package's `gelu` is erf's, by its own polynomial.)

# %% [markdown]
# **Speed.** Each number comes in, is bent, goes out: two transfers, whatever the function. Swish as
# it is often written for PyTorch, `x * torch.sigmoid(x)`, runs two kernels. How many transfers are
# that, arrays read and arrays written?

# %%
predict("transfers of x * sigmoid(x) in two kernels", ...)

# %%
pictures.transfers(
    {
        "two kernels": [("sigmoid", ["x"], "s"), ("multiply", ["x", "s"], "y")],
        "fused": [("Swish", ["x"], "y")],
    }
)

# %% [markdown]
# x is read twice, and the sigmoids are written only to be read again. Putting both into one kernel
# is called **fusing**: the sigmoid stays in a register. Count before you measure:

# %% [markdown]
# ### Exercise: transfers before and after fusing
#
# `steps` is a list of `(inputs, output)`: the names of the arrays that a kernel reads, and of the
# one it writes. Return `(apart, fused)`: the transfers when each step is a kernel, and when all are
# one. Only the last output is wanted. Within a kernel an array is read once.
#
# ```text
# [(["x"], "s"), (["x", "s"], "y")]   ->   (5, 2)
# ```
#
# <details><summary>Hint: apart</summary>
#
# `len(set(inputs)) + 1` for each step.
#
# </details>
#
# <details><summary>Hint: fused</summary>
#
# What no step has made comes from outside, and is read once. Sets can be subtracted.
#
# </details>


# %% tags=["exercise"]
def count_transfers(steps):
    """Return how many arrays cross to or from memory, (apart, fused)."""
    ### BEGIN SOLUTION
    apart = sum(len(set(inputs)) + 1 for inputs, _ in steps)
    read = {name for inputs, _ in steps for name in inputs}
    made = {output for _, output in steps}
    return apart, len(read - made) + 1
    ### END SOLUTION


# %% tags=["check"]
check("count-transfers", count_transfers)

# %% [markdown]
# So 5 against 2. Does the trace agree? And on an H200, with arrays far larger than its caches: how
# many times as fast as two kernels is one?

# %%
predict("Swish: one kernel, times as fast as two", ...)

# %%
flat = matrix.ravel()
between, swish = np.empty_like(flat), np.empty_like(flat)
kernels = {
    "sigmoid": (activation.each(activation.sigmoid), (flat, between)),
    "multiply": (activation.multiply, (flat, between, swish)),
    "fused": (activation.each(activation.silu), (flat, swish)),
}
counts = {}
for name, (kernel, arguments) in kernels.items():
    counts[name] = moved(trace(kernel, 128, 256, *arguments)) / flat.nbytes
    print(f"{name:9}{counts[name]:4.0f} transfers")
both = counts["sigmoid"] + counts["multiply"]
predict.answer("transfers of x * sigmoid(x) in two kernels", both)


# %%
def of_swish(name, shape=BIG, metric="time"):
    """Return a recorded figure of Swish."""
    return h200("activation", "silu", name, str(shape), metric)


for two, one in (("two kernels", "each"), ("torch, two kernels", "torch")):
    ratio = of_swish(two) / of_swish(one)
    print(f"{two:19}{of_swish(two):7.3f} ms   {one:6}{of_swish(one):7.3f} ms   {ratio:.2f} times")
ratio = of_swish("torch, two kernels") / of_swish("torch")
predict.answer("Swish: one kernel, times as fast as two", round(ratio, 2))

# %% [markdown]
# Nearly the ratio of the bytes, 2.5. (The first row has the course's simple kernels, a number a
# thread. They stay below the roof; `wide`, below, takes four numbers at a time and does not.)
#
# **Now the publication** that this lesson repeats: students wrote these operations as CUDA C++ and
# Triton kernels and reported up to 1.87 times PyTorch's speed for Swish (1.878, cut off). Their
# figures, at 2²⁰ elements, in ms:

# %%
published = original()
print("             torch    CUDA C++   Triton")
for kernel, torch in (("gelu", "torch"), ("silu", "torch, two kernels")):
    row = [published[kernel, "1048576", name] for name in (torch, "CUDA C++", "Triton")]
    print(f"{kernel:8}", "".join(f"{time:10.4f}" for time in row))
print(f"\nSwish, torch / CUDA C++: {row[0] / row[1]:.3f}")

# %% [markdown]
# Before you read on: what is compared with what? GELU and Swish move the same bytes. What would
# **one** kernel of PyTorch, its own `silu`, have taken on that machine, about?
#
# <details><summary>What we make of it</summary>
#
# About as long as its `gelu`, 0.065 ms: one array in, one out, and both functions hide behind that.
# Against that the CUDA kernel is *slower*: 0.065 / 0.077 = 0.84. The 1.87 are two kernels against
# one. The bytes alone promise 2.5 there, so even this win is a part of what was to be had.
#
# (That `silu` would have taken as long as `gelu` is an inference. They did not time it.)
#
# </details>
#
# Both comparisons, ours, for a chip that is full. Only the second one says anything of the kernel:

# %%
ours = of_swish("wide")
print(f"against x * sigmoid(x), two kernels: {of_swish('torch, two kernels') / ours:.2f} times")
print(f"against silu, one kernel:            {of_swish('torch') / ours:.2f} times")
print(f"a copy at the roof:                  {8 * BIG / COPY * 1e-6 / ours:.2f} times")

# %% [markdown]
# Nobody beats the library by much here, and nobody can: all stand at the roof of memory.
#
# **And at 2²⁰?** Four MiB in, four out. That fits into the L2 cache of an H200, and the kernel
# takes a few millionths of a second. How long does the *host* take to launch it, compared with
# that?

# %%
predict("2**20: the host's launch / the kernel's time", ...)

# %%
SMALL = 2**20
found = find(
    "activation", kernel="silu", shape=str(SMALL), dtype="float32", metric=None, gpu="H200"
)
micro = {(figure.variant, figure.metric): 1e3 * figure.median for figure in found}
clocks = {"time": "GPU alone", "graph": "in a graph", "events": "two events", "launch": "host"}
print("µs              ", *(f"{words:>11}" for words in clocks.values()))
for name in ("wide", "two kernels", "CUDA C++", "torch", "torch.compile", "Triton"):
    cells = [micro.get((name, metric)) for metric in clocks]
    print(f"{name:16}", *(f"{'' if cell is None else f'{cell:.1f}':>11}" for cell in cells))
ratio = of_swish("wide", SMALL, "launch") / of_swish("wide", SMALL)
predict.answer("2**20: the host's launch / the kernel's time", round(ratio, 1))

# %%
speed_chart(find("activation", kernel="silu", metric=None, gpu="H200"), "silu")

# %% [markdown]
# (Hollow: the published figures; their machine is not named. Blue: the course's kernels; the other
# colours only tell the programs apart.) `host` is what a launch costs the program that makes it.
# `two events` is what a careless clock shows, with the launch in it. A replayed **graph** holds the
# launch ready (lesson 08), and finds its data in L2, where the replay before left it.
#
# So whoever times one call of such a size measures launches, and calls them kernels. Numba looks at
# the type of every argument at each launch, which costs. State the size with every speed-up, and
# the clock.

# %% [markdown]
# One more figure that is easily mistaken for a kernel's time: the **first call**. It compiles.
# After how many calls is it less than 1% of all that was spent?

# %%
predict("calls until compilation is below 1%", ...)

# %%
first, later = of_swish("wide", SMALL, "first call"), of_swish("wide", SMALL)
print(f"first call {first:.0f} ms, then {later:.4f} ms")
mean = (first + 99 * later) / 100
print(f"mean of 100 calls, the first one counted: {mean / later:,.0f} times too slow")
calls = math.ceil(0.99 * first / (0.01 * later))
predict.answer("calls until compilation is below 1%", calls)

# %% [markdown]
# The publication's network timed its inference with such first calls in it. Compilation is not
# inference. Warm up, then measure (lesson 03).

# %% [markdown]
# ## 7 LayerNorm, and a variance below zero
#
# LayerNorm brings each row to mean 0 and variance 1. Then it stretches and shifts it, column by
# column, by two rows that the network has learned, gamma and beta. eps is small, and keeps the root
# above 0:
#
# ```text
# y = (x - mean) / sqrt(variance + eps) * gamma + beta
# variance = mean of (x - mean)²
# ```

# %% [markdown]
# As it stands this takes two passes before the last: the mean, then the squares. Schoolbooks have a
# shortcut: variance = mean(x²) − mean(x)². Sum and sum of squares in **one** pass. In exact numbers
# it is the same. In float32, rows with spread 1 around 0, 10, 100, …: from which mean on will it be
# useless: off by more than 0.1, where results are about 1?

# %%
predict("mean from which mean(x²) - mean(x)² is useless, spread 1", ...)

# %%
GAMMA, BETA = np.ones(1024, np.float32), np.zeros(1024, np.float32)


def normalised(rows, method):
    """Normalise rows of 1,024 numbers by a step of the package's ladder, simulated."""
    kernel, blocks, threads, _ = norm.LADDER[method].launch(*rows.shape, norm.Form())
    result = np.empty_like(rows)
    trace(kernel, blocks, threads, rows, GAMMA, BETA, np.float32(1e-5), result, gpu="H200")
    return result


def exact_norm(rows):
    """Normalise rows in float64."""
    centred = rows - rows.mean(1, dtype=np.float64, keepdims=True)
    return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)


# %%
normal = np.random.default_rng(1).standard_normal((8, 1024))
print("mean     two passes   mean(x²) - mean(x)²   rows that are NaN")
useless = None
for mean in (0, 10, 100, 1000, 10_000, 30_000):
    rows = (normal + mean).astype(np.float32)
    results = [normalised(rows, method) for method in ("tree", "squares")]
    errors = [float(np.nanmax(np.abs(result - exact_norm(rows)))) for result in results]
    if errors[1] > 0.1 and useless is None:
        useless = mean
    powers = [f"1e{math.ceil(math.log10(error))}" for error in errors]
    lost = np.isnan(results[1]).any(1).sum()
    print(f"{mean:6}   below {powers[0]:6} below {powers[1]:14} {lost:3} of 8")
predict.answer("mean from which mean(x²) - mean(x)² is useless, spread 1", useless)

# %% [markdown]
# Around 1,000 the squares are a million, and a float32 near a million is good to 0.06. Their
# difference should be 1. So what is left of it is mostly rounding, a little later it is **below
# zero**, and its root is NaN. This is *cancellation*: two large numbers that are nearly equal are
# subtracted. Such kernels survive, because on test data with mean 0 they work.
#
# (Two passes lose digits, too, but slowly: near 30,000 the numbers themselves are good to 0.002.)

# %% [markdown]
# And in float16? Its largest number is 65,504, and it has 11 bits. Two more questions. What is the
# sum of 4,096 ones, added one by one? And that of the squares of 768 numbers of size 10?

# %%
predict("float16: 4,096 ones, added one by one", ...)

# %%
predict("float16: 768 squares of 10", ...)

# %%
with np.errstate(over="ignore"):
    ones = np.add.accumulate(np.ones(4096, np.float16), dtype=np.float16)[-1]
    squares = np.add.accumulate(np.full(768, 10, np.float16) ** 2, dtype=np.float16)[-1]
predict.answer("float16: 4,096 ones, added one by one", float(ones))

# %%
predict.answer("float16: 768 squares of 10", float(squares))

# %% [markdown]
# 2,048 + 1 is 2,048 again: the sum stands still, as float32's did at 2²⁴. And 76,800 is above the
# largest. In a LayerNorm that means: a scale of zero, or rows of NaN. **Store in float16 if you
# like, add in float32.** The package does:

# %%
halves = (10 * normal).astype(np.float16)
error = np.abs(norm.layer_norm(halves) - exact_norm(halves)).max()
print("float16 in and out, sums in float32: error below 2e-3:", error < 2e-3)

# %% [markdown]
# And storing in float16 pays. GELU of 2²⁶ numbers, the package's kernel `wide`: how many times as
# fast as with float32?

# %%
predict("GELU in float16, times as fast", ...)

# %%
single, half = (
    h200("activation", "gelu", "wide", str(BIG), dtype=d) for d in ("float32", "float16")
)
print(f"float32 {single:.3f} ms, float16 {half:.3f} ms")
predict.answer("GELU in float16, times as fast", round(single / half, 2))

# %% [markdown]
# So how do you get the variance in **one** pass, and safely? Keep what the online softmax kept:
# something relative to the best you know so far. For the numbers until now: their count, their
# mean, and the sum of squared differences **from that mean**. A new number x comes (B. P. Welford,
# 1962):
#
# ```text
# count += 1
# difference = x - mean
# mean += difference / count
# squares += difference * (x - mean)      # old difference times new difference
# ```
#
# Only differences are squared. The mean's size does not matter.

# %%
row = (normal[0] + 10_000).astype(np.float32)
count, mean, squares = np.float32(0), np.float32(0), np.float32(0)
for number in row:
    count += np.float32(1)
    difference = number - mean
    mean += difference / count
    squares += difference * (number - mean)
shortcut = np.mean(row * row) - np.mean(row) ** 2
print(f"exact variance {row.astype(np.float64).var():.2f}")
print(f"Welford        {squares / count:.2f}")
print(f"mean(x²) - mean(x)²: off by more than 0.3: {abs(shortcut - row.var(dtype=float)) > 0.3}")

# %% [markdown]
# (There is a cheaper cure: subtract the row's first number from all, and then take the shortcut.
# The first is near enough to the mean, mostly. That is called a *shifted* sum.)
#
# Lanes must meet, so parts must be merged. Two parts with n and m numbers, whose means are d apart.
# The mean of both lies between, nearer to the larger part. How far do the squares grow? Each part's
# numbers were measured from their own mean, and must be measured from the common one:
#
# ```text
# squares = squares_1 + squares_2 + d² · n · m / (n + m)
# ```
#
# Check it for one number each, 0 and d: mean d/2, squares twice (d/2)² = d²/2. ✓

# %% [markdown]
# ### Exercise: mean and squares of two parts together
#
# Return `(count, mean, squares)` of two parts. Either, or both, may be empty: all three are 0 then.
#
# <details><summary>Hint: the mean</summary>
#
# From the first part's mean it moves towards the other one's by the other one's share of all
# numbers: `difference * other_count / (count + other_count)`.
#
# </details>


# %% tags=["exercise"]
def merge_moments(count, mean, squares, other_count, other_mean, other_squares):
    """Return count, mean and sum of squared differences of two parts together."""
    ### BEGIN SOLUTION
    both = count + other_count
    difference = other_mean - mean
    share = other_count / max(both, 1)
    grown = squares + other_squares + difference**2 * count * share
    return both, mean + difference * share, grown
    ### END SOLUTION


# %% tags=["check"]
check("merge-moments", merge_moments)

# %% [markdown]
# (Count, mean and squares of a part are called its **moments**.) Sums, maxima, softmax pairs,
# moments: **whatever can be merged in any order can be reduced**, by the same tree, butterfly and
# last block. Only the function in the middle changes. Look at the package: `merged_in_warp` in
# `course/kernels/norm_steps.py` is your butterfly with three values.

# %% [markdown]
# Now LayerNorm's ladder. Read how each step spreads a row, then predict how often each *reads* x,
# seven numbers in brackets, `(3, ...)`:
#
# | step | who has a row | how |
# |---|---|---|
# | naive | a thread | mean, squares, row |
# | tree | a block | the same, two trees |
# | one pass | a block | Welford, then the row |
# | warp | a warp | Welford, shuffles |
# | block | a block | Welford, shuffles, one barrier |
# | registers | a block | wide loads, the row stays in registers |
# | several rows | a warp or a part of it | the same, several rows a block |

# %%
predict("x is read by naive, tree, one pass, warp, block, registers, several rows", ...)

# %%
NORMS = ("naive", "tree", "one pass", "warp", "block", "registers", "several rows")


def traced_norm(name, activation=None):
    """Trace a step of the package's ladder on the matrix."""
    form, result = norm.Form(gamma=False, beta=False, activation=activation), np.empty_like(matrix)
    kernel, blocks, threads, _ = norm.LADDER[name].launch(*matrix.shape, form)
    given = matrix, GAMMA, BETA, np.float32(1e-5), result
    return trace(kernel, blocks, threads, *given, gpu="H200")


def loads_of_x(report):
    """The lines of a trace that load from global memory, but not gamma and beta."""
    lines = report.lines[(report.lines["space"] == "global") & (report.lines["op"] == "load")]
    return lines[~lines["array"].isin(["gamma", "beta"])]


def transfers(report):
    """Bytes loaded and stored, gamma and beta left out, by the bytes of the matrix."""
    loads = report.total("global", "load")
    factors = 4 * (loads.lanes - loads_of_x(report)["lanes"].sum())
    return (moved(report) - factors) / matrix.nbytes


# %%
reports = {name: traced_norm(name) for name in NORMS}
readings = tuple(round(transfers(report) - 1) for report in reports.values())
question = "x is read by naive, tree, one pass, warp, block, registers, several rows"
predict.answer(question, readings)

# %%
print("               x is read   sectors a request   shared wavefronts")
for name, report in reports.items():
    loads = loads_of_x(report)
    sectors = loads["sectors"].sum() / loads["requests"].sum()
    shared = report.total("shared", "load").wavefronts
    print(f"{name:13}{transfers(report) - 1:8.0f} x{sectors:18.1f}{shared:20,}")

# %% [markdown]
# `naive` has a thread for each row, so a warp's lanes read a column: 32 sectors for a request, of
# which an eighth is used (lesson 04). `registers` reads 16 bytes a lane: 16 sectors for a request,
# all of them used, and a quarter of the requests. For rows of 4,096: how many times as fast as
# `naive` will the fastest step be? And how many times as fast as `tree` will `one pass` be, which
# reads x once less?

# %%
predict("LayerNorm: fastest step, times as fast as naive", ...)

# %%
predict("one pass, times as fast as tree", ...)


# %%
def of_norm(shape, kernel="layer norm"):
    """Return the recorded times [ms] of all programs of an operation, by name."""
    found = find("norm", kernel=kernel, shape=shape, dtype="float32", gpu="H200")
    return {figure.variant: figure.median for figure in found}


LONG_ROWS, SHORT_ROWS = "16384x4096", "65536x768"
long, short = of_norm(LONG_ROWS), of_norm(SHORT_ROWS)
copies = {LONG_ROWS: 8 * 16_384 * 4096 / COPY * 1e-6, SHORT_ROWS: 8 * 65_536 * 768 / COPY * 1e-6}
print("                rows of 4096   rows of 768")
for name in (*NORMS[:2], "squares", *NORMS[2:], "torch", "torch.compile", "Triton", "CUDA C++"):
    cells = [f"{found[name]:10.3f} ms" if name in found else " " * 13 for found in (long, short)]
    print(f"{name:15}", *cells)
print(f"{'copy, the roof':15}", *(f"{time:10.3f} ms" for time in copies.values()))
steps = {name: long[name] for name in NORMS if name in long}
best = min(steps, key=steps.get)
print("\nfastest for rows of 4096:", best)
faster = steps["naive"] / steps[best]
predict.answer("LayerNorm: fastest step, times as fast as naive", round(faster, 1))

# %%
predict.answer("one pass, times as fast as tree", round(long["tree"] / long["one pass"], 2))

# %% [markdown]
# (`several rows` takes rows of up to 1,024 numbers: a warp or a part of it can hold no more. Two
# more steps are for rows that a block's registers do not hold: see the end of section 8.)
#
# For long rows one reading less is hardly a gain, if any. What is in the way? There is a control:
# `squares`, the trap, reads x as often as `one pass`. Its threads meet in two trees of one number,
# those of `one pass` in one tree of three. It is faster. So the suspect is Welford's
# **division** at every number, and that each new mean waits for the one before.

# %% [markdown]
# `registers` and `torch.compile` are level. Both read x once from memory, and both ask the L2 cache
# to keep x longer than what is written, so that results leave the cache first (`load4_kept` in
# `course/intrinsics.py`). An earlier `registers` did not ask, and took 3% longer for rows of 4,096.
# How was that found? By reading the code that `torch.compile` had made.

# %% [markdown]
# `warp` loses for long rows, 128 numbers for each lane one after the other, and gains for short
# ones. And two passes over **registers** cost no memory and no division. So the fastest step is the
# formula as it stands, at another place.

# %% [markdown]
# ## 8 Fused: LayerNorm and GELU
#
# In a network GELU may follow LayerNorm at once. Two kernels, or one. Count first, in transfers of
# x's size: how many times fewer bytes does the fused kernel move?

# %%
predict("LayerNorm + GELU: times fewer bytes, fused", ...)

# %%
TWO_KERNELS = [("LayerNorm", ["x"], "y"), ("GELU", ["y"], "z")]
ONE_KERNEL = [("LayerNorm + GELU", ["x"], "z")]
pictures.transfers({"apart": TWO_KERNELS, "fused": ONE_KERNEL})

# %% [markdown]
# (gamma and beta are a row each, and stay in a cache.) Now from the trace: `block`, then GELU as a
# second kernel, against `registers` with GELU inside.

# %%
apart = traced_norm("block")
second = trace(norm.activate("gelu"), (4, 32), 256, np.zeros_like(matrix))
fused = traced_norm("registers", "gelu")
print(f"block, then gelu: {transfers(apart):.0f} + {transfers(second):.0f} transfers of x")
print(f"registers, fused: {transfers(fused):.0f}")
fewer = (transfers(apart) + transfers(second)) / transfers(fused)
print(f"{fewer:.1f} times fewer that the lanes ask for")
least = [sum(len(read) + 1 for _, read, _ in steps) for steps in (TWO_KERNELS, ONE_KERNEL)]
predict.answer("LayerNorm + GELU: times fewer bytes, fused", least[0] / least[1])

# %% [markdown]
# `block` reads its row twice, and the second time a cache may have it. What **must** cross to and
# from memory is 4 against 2, as in the picture. Remember the number 2: it is the most that fusing
# can give, **if both sides are equally near to the roof**.

# %% [markdown]
# ### Exercise: LayerNorm and GELU in one kernel
#
# A warp a row, rows of at most 256 numbers, so each lane has at most eight: `values[n]` is column
# `lane + 32 * n`. Read x **once**. Mean, then the squared differences from it, then each number
# normalised, times gamma, plus beta, through `gelu`, and out. `warp_sum` and `gelu` are given.
#
# <details><summary>Hint 1: beyond the row's end</summary>
#
# `values[n] = float32(0)` where there is no column, then it may be added to the sum. But in the
# squares it would count as (0 − mean)². Guard those, and the stores.
#
# </details>
#
# <details><summary>Hint 2: mean and variance</summary>
#
# `columns = float32(x.shape[1])`; both are a `warp_sum` divided by it. The root is
# `math.sqrt(variance + eps)`.
#
# </details>

# %%
PARTS = 8
gelu = activation.gelu  # a device function: gelu(y)


# %% tags=["exercise", "long"]
@cuda.jit
def layer_norm_gelu(x, gamma, beta, eps, out):
    """Write GELU of the normalised rows of x; a warp for each row, four in a block."""
    values = cuda.local.array(PARTS, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    columns = float32(x.shape[1])
    ### BEGIN SOLUTION
    if row < x.shape[0]:
        total = float32(0)
        for n in range(PARTS):
            column = lane + 32 * n
            values[n] = x[row, column] if column < x.shape[1] else float32(0)
            total += values[n]
        mean = warp_sum(total) / columns
        squares = float32(0)
        for n in range(PARTS):
            if lane + 32 * n < x.shape[1]:
                squares += (values[n] - mean) * (values[n] - mean)
        scale = float32(1) / math.sqrt(warp_sum(squares) / columns + eps)
        for n in range(PARTS):
            column = lane + 32 * n
            if column < x.shape[1]:
                y = (values[n] - mean) * scale
                out[row, column] = gelu(y * gamma[column] + beta[column])
    ### END SOLUTION


# %% tags=["check"]
check("layer-norm-gelu", layer_norm_gelu)

# %% [markdown]
# What does fusing gain on the H200? Two kernels move 4 transfers, the fused one 2. First against
# **our own** two kernels, `block` and then GELU, for rows of 4,096. By what factor is our fused
# kernel faster?

# %%
predict("fused, times as fast as block, then gelu", ...)

# %%
FUSED = "layer norm + gelu"
found, roof = of_norm(LONG_ROWS, FUSED), copies[LONG_ROWS]
ours = found["registers"]
predict.answer("fused, times as fast as block, then gelu", round(found["block"] / ours, 2))

# %% [markdown]
# Far above 2. Fusing alone **cannot** give that. We could print it in large letters, and it would
# be the trick of section 6 again: our two kernels are slow ones. Who would be a fair opponent?
# PyTorch's two kernels, or, better still, the best two that *we* have: `registers` without GELU,
# then `wide` GELU on as many numbers. (Where a pair was timed as a whole, GELU's share is what is
# left when LayerNorm's time is taken off.)

# %%
predict("fused, times as fast as the best two kernels", ...)

# %%
gelu_alone = h200("activation", "gelu", "wide", str(BIG))
pairs = {
    "block, then gelu": (long["block"], found["block"] - long["block"]),
    "PyTorch": (long["torch"], found["torch"] - long["torch"]),
    "registers, wide": (long["registers"], gelu_alone),
}
print("two kernels         LayerNorm     GELU   each, % of a copy   fused is faster by")
for name, (first, second) in pairs.items():
    shares = f"{roof / first:.0%}, {roof / second:.0%}"
    print(f"{name:18}{first:8.3f} ms{second:8.3f} ms{shares:>16}{(first + second) / ours:17.2f}")
ratio = sum(pairs["registers, wide"]) / ours
predict.answer("fused, times as fast as the best two kernels", round(ratio, 2))

# %% [markdown]
# Three true figures, one answer: **fusing gives 2**, what the bytes say, once both sides are near
# the roof. What is above that is a slow half in the *other* side.
#
# And the fused kernels of others? They move the same bytes as a LayerNorm alone. So they should
# take as long as one. Do they?

# %%
print("                       LayerNorm   fused with GELU    GB/s")
for rows in (LONG_ROWS, SHORT_ROWS):
    alone, its = of_norm(rows), of_norm(rows, FUSED)
    for name in ("registers", "torch.compile", "Triton", "CUDA C++"):
        rate = copies[rows] * COPY / its[name]
        print(f"{rows:11} {name:13}{alone[name]:7.3f}{its[name]:15.3f} ms{rate:12,.0f}")

# %% [markdown]
# Not all, not always. Where `fused` takes longer, the kernel has a slow half of its **own**. The
# table says how slow. (Probably arithmetic that memory cannot hide: these three take the library's
# erf, ours a polynomial.)

# %% [markdown]
# So a ratio has two factors: **bytes saved** × **nearness to the roof**. In a formula, with the
# bytes B and the times T of both:
#
# ```text
# T_apart / T_fused = (B_apart / B_fused) * (rate_fused / rate_apart)
# ```
#
# If the ratio of times is *below* that of the bytes, the fused kernel has the lower rate: it has a
# slow half. Now take the publication's fused kernels apart, with that formula. Its figures in ms,
# for 4096×1024:

# %%
for kernel in ("layer norm", FUSED):
    its = [published[kernel, "4096x1024", name] for name in ("torch", "CUDA C++", "Triton")]
    print(f"{kernel:18}", *(f"{time:8.4f}" for time in its), "   torch, CUDA C++, Triton")
for name, time in zip(("CUDA C++", "Triton"), its[1:], strict=True):
    print(f"fused, {name:9}{its[0] / time:.2f} times as fast as PyTorch's two kernels")

# %% [markdown]
# It was reported as the success of fusion. What is the rate of the fused kernels, compared with
# that of PyTorch's unfused pair?

# %%
predict("published: rate of the fused Triton kernel / rate of PyTorch's pair", ...)

# %%
megabytes = 8 * 4096 * 1024 / 1e6
for name, time, transfers_ in (("torch, two", its[0], 4), ("CUDA C++", its[1], 2)):
    print(f"{name:11} moves {transfers_} arrays at {transfers_ / 2 * megabytes / time:4.0f} GB/s")
print(f"Triton      moves 2 arrays at {megabytes / its[2]:4.0f} GB/s")
rate = (its[0] / its[2]) / (4 / 2)
question = "published: rate of the fused Triton kernel / rate of PyTorch's pair"
predict.answer(question, round(rate, 2))

# %% [markdown]
# Below 1. Had the fused kernels only kept PyTorch's rate, they would have been twice as fast. They
# **lost** a part of what fusion gave them, and their LayerNorm is the suspect: alone it was slower
# than PyTorch's in both languages. The fusion was right, and it hid a slow kernel.
#
# The same size on our H200, beside theirs. There a launch takes the host about as long as the GPU
# works, often longer, so a careless clock shows little of the kernels. (`long` is the package's
# step for the longest rows: more of it below.)

# %%
figures = find("norm", kernel=FUSED, metric=None, gpu="H200")
speed_chart(figures, FUSED, shapes=["4096x1024"])

# %% [markdown]
# How near to the roof is LayerNorm with GELU at **other lengths**? Each recorded array has about
# 2²⁶ numbers, cut into rows of 64 to 65,536. `layer_norm` chooses the step. Of long rows a part is
# in a block's registers and the rest in **shared memory** (step `registers and shared memory`), so
# each number is still read once. Only a row that does not fit there either is read twice (`long`).


# %%
def of_length(columns):
    """Return the recorded figures of the programs for rows of a length, by name."""
    found = find("norm_lengths", kernel=FUSED, dtype="float32", gpu="H200")
    return {it.variant: it for it in found if it.shape.endswith(f"x{columns}")}


LENGTHS = [64, 384, 1000, 1023, 4096, 4099, 8192, 12_001, 16_384, 20_000, 20_001]
LENGTHS += [24_576, 32_768, 40_000, 40_001, 50_000, 65_535, 65_536]
H200_ROOM = 227 * 1024, True  # shared memory of a block [bytes]; copies to it run meanwhile
print("numbers a row    GB/s   % of a copy   torch.compile   chosen step")
for length in LENGTHS:
    found = of_length(length)
    step = norm.method_for("auto", length, length % 4 == 0, given=H200_ROOM)
    rate, theirs = (found[name].gigabytes_per_second for name in ("auto", "torch.compile"))
    print(f"{length:13,}{rate:8,.0f}{rate / COPY:14.0%}{theirs:16,.0f}   {step}")

# %% [markdown]
# In registers alone: 88% of a copy and more. Longer rows, of a length that four divides, 79% to
# 89%. There a block walks over rows. Where it has written a result, it begins to bring the next
# row's number to the same place. But before it may write, all its threads must have their row's
# sums, and the one or two blocks that a multiprocessor has room for leave nobody to work then.
#
# Why is 50,000 the lowest of them? 2²⁶ numbers are 1,342 such rows, and 132 multiprocessors take
# one each: 10 rounds, and an eleventh for the last 22 rows.

# %% [markdown]
# **Odd** lengths suffer: their rows begin anywhere, so each access is of one number, not four. At
# 4,099, in registers, that costs 8%.
#
# Of longer odd rows the package accesses all but at most 66 numbers four at a time: from the first
# multiple of 256 bytes on. For each row that place is at another of its numbers. So gamma and beta
# must be there from four different numbers on, and a small kernel makes four copies of them first.
# 79% to 85% of a copy remain. `torch.compile` keeps less than half.

# %% [markdown]
# The rates are measured. The reasons follow from the kernel's code; no counter confirmed them.

# %% [markdown]
# On **your own GPU** the next cell times the package's two ways. Without one it gives the bound.

# %%
# NBVAL_IGNORE_OUTPUT
rows = 16_384 if gpu() else 8
given, result = (cuda.to_device(np.ones((rows, 4096), np.float32)) for _ in range(2))
factors = [cuda.to_device(np.ones(4096, np.float32)) for _ in range(2)]
for method in ("block", "registers"):
    for launch, arguments in norm.prepared(given, *factors, 1e-5, result, method, "gelu"):
        print(benchmark(launch, *arguments, bytes=8 * 16_384 * 4096))

# %% [markdown]
# ## 9 What the GPU's counters say
#
# So far: times, and counts of the source. Nsight Compute (lesson 07) read the hardware's counters
# of the fast steps, each on 2²⁶ numbers:
#
# - *DRAM*: the bytes that device memory moved, in percent of the data sheet's 4.8 TB/s;
# - *SM*: how busy the busiest unit of the multiprocessors was;
# - *occupancy*: how many of the warps that could be there were there.
#
# What do you expect of the fused kernel?

# %%
predict("fused kernel: DRAM, % of peak", ...)

# %%
predict("fused kernel: SM, % of peak", ...)

# %%
METRICS = ("DRAM throughput", "SM throughput", "achieved occupancy")
PROFILED = ("sum", "softmax", "gelu", "silu", "layer norm", FUSED, "layer norm backward")
print("                      DRAM    SM   occupancy   read   written   waits most for")
for kernel in PROFILED:
    dram, sm, warps = (row_profile.counter(kernel, metric) for metric in METRICS)
    read = row_profile.counter(kernel, "DRAM bytes read") / (4 * BIG)
    written = row_profile.counter(kernel, "DRAM bytes written") / (4 * BIG)
    reason, _ = row_profile.main_stall(kernel)
    print(f"{kernel:20}{dram:5.0f}%{sm:5.0f}%{warps:11.0f}%", end="")
    print(f"{read:7.2f}{written:10.2f}   {reason}")
print(f"{'a copy':20}{100 * COPY / 4800:5.0f}%")
dram, sm = (row_profile.counter(FUSED, metric) for metric in METRICS[:2])
predict.answer("fused kernel: DRAM, % of peak", round(dram), unit="%")

# %%
predict.answer("fused kernel: SM, % of peak", round(sm), unit="%")

# %% [markdown]
# That is what the roof of memory looks like from within. Memory moves nearly what it moves in a
# copy. x came from it once (*read*, in units of x's size), as you counted. Of what was written,
# about a tenth is still in the L2 cache at the end. Most of all, warps wait for loads
# (`long_scoreboard`, lesson 07).
#
# GELU keeps the multiprocessors busier than LayerNorm alone, but in time that was spent waiting.
# That is why fusing costs next to nothing here.

# %% [markdown]
# Occupancy need not be 100%. `gelu` and `silu` reach as much of memory with fewer warps: it is
# enough if the loads under way fill memory's time. (101%? That is a quotient of two
# counters, probably read in two runs of the kernel.)
#
# But it can be too low. The last row is LayerNorm's way back, which training needs. It reads two
# arrays and holds a row of each in registers. So few warps fit that memory is idle for a good part
# of the time: probably too few loads are under way. Against PyTorch it wins, against the roof not.

# %%
backward = h200("norm", "layer norm backward", "registers", LONG_ROWS)
torch_backward = h200("norm", "layer norm backward", "torch", LONG_ROWS)
least_time = 3 / 2 * copies[LONG_ROWS]  # two arrays in, one out; a copy has one and one
print(f"LayerNorm's way back: {torch_backward / backward:.2f} times as fast as PyTorch's")
print(f"at the roof it would be {backward / least_time:.2f} times as fast as it is")

# %% [markdown]
# ## 10 Looking back
#
# Four comparisons from one publication, each true as a measurement. As claims:
#
# | what was said | what was compared | what it shows |
# |---|---|---|
# | 1.87 times on Swish | two kernels with one | bytes, not the kernel |
# | fusion 1.4 to 1.6 times | 4 transfers with 2 | a slow half: 2 was there |
# | times at 2²⁰ | kernels as short as launches | say the size and the clock |
# | inference times | compilation within | the first call |

# %% [markdown]
# Before you believe a speed-up, ask: the same bytes? The same function, to the same accuracy? The
# best of the other side? A size that fills the chip? A clock that waited, after warm-up? And what
# does the **roof** say: how much could be gained at all?

# %%
progress(12)

# %% [markdown]
# ## What you should be able to say now
#
# - Additions at one address stand in line; fewer meetings, nearer to the threads, are faster.
# - A shuffle reads another lane's register. All lanes named take part; guard loads, not shuffles.
# - Whatever can be merged in any order can be reduced: sums, softmax pairs, moments.
# - Online softmax: when a larger number comes, the sum is multiplied by exp(old − new).
# - Fusing saves transfers. The ratio of bytes is the most it can give.
# - mean(x²) − mean(x)² cancels. Float16 sums stand still or overflow: add in float32.

# %% [markdown]
# ## Questions
#
# 1. Why did shuffles not beat the tree for sums of 2²⁶ numbers, and did for maxima?
# 2. When do you need `shfl_xor`, and when is `shfl_down` enough?
# 3. Why has the last block's sum the same bits each time, and the atomics' not?
# 4. Can the online softmax overflow, if the largest number comes last?
# 5. Why are two passes over registers better than Welford's one pass over them?
# 6. A fused kernel of three steps saves 7 → 2 transfers, and is 2.5 times as fast. Good?
#
# <details><summary>Answers</summary>
#
# 1. Both send one addition a block to one address, and those bind. For maxima that line moves
#    faster, so the work within the block shows.
# 2. xor gives the sum to all lanes; down gives it to lane 0, enough if only that one stores.
# 3. It adds the blocks' sums in a fixed order; atomics come as they come.
# 4. No. All powers are relative to the largest so far, at most 1; a larger one makes the past
#    smaller.
# 5. Reading registers again costs nothing. Welford divides at each number, and each step waits for
#    the one before.
# 6. The bytes allow 3.5. Its rate is 2.5 / 3.5 = 71% of that of the separate kernels: look for the
#    slow half.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - The position of the largest number (argmax) as a reduction. What must a part know? What if two
#   are equal?
# - Your `sum_several` with `shfl_down`. Which lane stores then?
# - RMSNorm leaves the mean out: `x / sqrt(mean(x²) + eps) * gamma`. Does it cancel, too?
# - Fuse a residual into your last exercise: GELU(LayerNorm(x + r)). Count the transfers first.
# - Feed the online softmax numbers that rise all the time. How often is the sum rescaled?

# %% [markdown]
# ## Common misconceptions
#
# - *"Atomics are slow."* Many at one address are: 2²⁶, and still 2¹⁸. 2¹⁴ hide behind the reading.
# - *"Shuffles are always faster than shared memory."* Only where that binds. See section 3.
# - *"Threads of a warp need no barrier in shared memory."* They do since 2017: `syncwarp`. Shuffles
#   order registers only.
# - *"A sum is exact to seven digits."* After 2²⁴ additions of 1 it stands still.
# - *"GELU is GELU."* With tanh it is another function, thousands of float32 roundings away.
# - *"Fused means optimal."* Compare the rate with that of a copy.
# - *"A speed-up over PyTorch."* Over which of its calls, and how many kernels were that?

# %% [markdown]
# ## What to read next
#
# - M. Harris, [Optimizing parallel reduction in
#   CUDA](https://developer.download.nvidia.com/assets/cuda/files/reduction.pdf), 2007: the ladder's
#   ancestor. (Its last steps leave out barriers within a warp, which is unsafe today.)
# - J. Luitjens, [Faster parallel reductions on
#   Kepler](https://developer.nvidia.com/blog/faster-parallel-reductions-kepler/): shuffles.
# - M. Milakov and N. Gimelshein, [Online normalizer calculation for
#   softmax](https://arxiv.org/abs/1805.02867), 2018.
# - J. Ba, J. Kiros and G. Hinton, [Layer normalization](https://arxiv.org/abs/1607.06450), 2016; D.
#   Hendrycks and K. Gimpel, [GELU](https://arxiv.org/abs/1606.08415), 2016.
# - Next in the course: lesson 13, A network in one kernel.
