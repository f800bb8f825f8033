# %% [markdown]
# # 10 Reductions
#
# Many numbers become one: a sum, a maximum, the total of a softmax. You let threads meet, first at
# one address, at the end without any memory at all, and say at each step what the meeting costs.

# %% [markdown]
# ## What you will do
#
# - Climb a ladder of sums, from two thousand times too slow to the memory's roof.
# - Derive a softmax that reads its row once less, and write it.

# %% [markdown]
# ## What you will learn
#
# - Where partial results can meet, and what each meeting place costs.
# - Why the order of additions matters: for speed, and for digits.

# %% [markdown]
# ## What you need
#
# [Lesson 01](01_threads_blocks_grids.ipynb): atomics. Lessons [03](03_measuring_honestly.ipynb) to
# [05](05_shared_memory.ipynb): roofs, warps, sectors, the grid-stride loop, shared memory,
# barriers. No GPU is needed: times were recorded on an NVIDIA H200.

# %% [markdown]
# ## How long it takes
#
# After section 4 is a good place for a break.

# %%
# NBVAL_IGNORE_OUTPUT
import math

import numpy as np
from numba import float32, int32

from course import beside, check, cuda, gpu, plots, predict, progress
from course import recorded, recorded_roofs, trace
from course.kernels import reduce, softmax
from course_lessons.lesson10 import pictures

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 Everybody to one address
#
# <kbd>core</kbd> 10 minutes
#
# Until now each output had a thread of its own. A sum has **one** output for all threads. The
# obvious kernel lets each thread add its number to that one address. From [lesson
# 01](01_threads_blocks_grids.ipynb) you know that this must be an atomic addition, or additions get
# lost.


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
predict("atomics: how many times as long as reading", 100, within=3, no_effect=1)


# %%
def h200(subject, kernel, variant, shape, metric="time", dtype="float32"):
    """Return what was recorded on an H200; times are in ms."""
    wanted = {"kernel": kernel, "variant": variant, "shape": shape, "metric": metric}
    return recorded(subject, **wanted, dtype=dtype, gpu="H200")[0].median


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
predict("atomics: relative error of a sum of 2**26 fractions", 0.0001, within=2)

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
# away: **the sum stands still** at 2²⁴. Yet 2²⁶ fractions of a half on average make 2²⁵. No
# warning, no NaN. The cure will come by itself: if you add in parts, you add numbers of similar
# size.

# %% [markdown]
# ## 2 A tree in shared memory
#
# <kbd>core</kbd> 10 minutes
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
predict("tree: atomic additions", 256, exact=True)


# %%
def traced_sum(name):
    """Trace what a step of the package's ladder launches for x."""
    there, out = cuda.to_device(x), cuda.to_device(np.zeros(1, np.float32))
    *_, launch = reduce.LADDER.launches(there, out, kind="sum", method=name)  # after out = 0
    return trace(launch.kernel, launch.grid, launch.block, *launch.arguments, gpu="H200")


tree = traced_sum("tree")
predict.answer("tree: atomic additions", tree.total("global", "atomic").lanes, how="counted")

# %% [markdown]
# 256 times fewer. For 2²⁶ numbers there are 2¹⁸ blocks. If additions at one address were still what
# binds, how many ms would they take? You have the figure for one of them.

# %%
predict("tree: ms for the atomic additions of 2**18 blocks", 0.46, within=1.1)

# %%
by_additions = 2**18 * each * 1e-6
print(f"additions alone {by_additions:.3f} ms, reading alone {reading:.3f} ms")
print(f"tree, recorded  {h200('reduce', 'sum', 'tree', str(BIG)):.3f} ms")
predict.answer(
    "tree: ms for the atomic additions of 2**18 blocks", round(by_additions, 3), how="computed"
)

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

# %% [markdown]
# ## 3 Lanes exchange registers
#
# <kbd>core</kbd> 35 minutes
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
# Lane l starts with the number l. Each of the five steps adds what a lane further on holds: 16
# lanes away, then 8, 4, 2, 1, which is `16 >> step`. Since xor swaps, lanes 5 and 21 get each
# other's number. What does lane 5 hold after the **first** step, and after the last?

# %%
predict("lane 5 after step 1", 26, exact=True)
predict("lane 5 after step 5", 496, exact=True)


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
predict.answer("lane 5 after step 1", held[1, 5], how="found")
predict.answer("lane 5 after step 5", held[5, 5], how="found")

# %% [markdown]
# Follow the red lines up from lane 5: its result has every number once. And so has that of every
# other lane, **all 32 hold the sum**, which will be handy: each can go on with it at once. Because
# of its crossing lines this is called a **butterfly**.
#
# Now the same with `shfl_down_sync`. For lane 31 there is no lane 16 further on. A lane that asks
# beyond the end gets its own number. What does lane 31 hold after five steps?

# %%
predict("lane 31 after five times shfl_down", 496, exact=True)


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
predict.answer("lane 31 after five times shfl_down", last[31], how="found")

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
# The call names all 32 lanes, and twelve never come. It is the barrier of [lesson
# 05](05_shared_memory.ipynb) once more, so it has the same rule: **guard the load, never the
# shuffle.** A lane without a number takes part with one that changes nothing: 0 in a sum, −∞ in a
# maximum.

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

# %%
# NBVAL_IGNORE_OUTPUT
# yours beside the package's and the least: counts of the simulator, on a GPU times, too
beside("warp-row-sum", row_sums)

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
predict("shuffles, times as fast as the tree", 2, within=1.25, no_effect=1)

# %%
times = {name: h200("reduce", "sum", name, str(BIG)) for name in ("tree", "shuffles")}
for name, time in times.items():
    print(f"{name:9}{time:.3f} ms")
answer = round(times["tree"] / times["shuffles"], 2)
predict.answer("shuffles, times as fast as the tree", answer)

# %% [markdown]
# Did you look at the table's last column before you predicted? Both have as many additions at the
# address, and **that** binds. The shuffles relieved what was not the bottleneck ([lesson
# 06](06_reuse_reuse_reuse.ipynb)).

# %% [markdown]
# ## 4 Several numbers for each thread
#
# <kbd>core</kbd> 20 minutes
#
# Fewer additions at the address: that means fewer blocks, and so more numbers for each. A thread
# adds many numbers in a register before it meets anyone. In the package's step `several` it
# loads them four at a time.
#
# What is the roof now? Compute both, additions and reading, and predict how many ms 2²⁶ numbers
# take.

# %%
predict("several: ms", 0.06, within=1.25)

# %%
config = reduce.CONFIGS["sm_90"]  # chosen for an H200
blocks = BIG // config.tile
print(f"{config.threads} threads a block, {config.tile // config.threads} numbers a thread")
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
# [lesson 04](04_warps_and_coalescing.ipynb). Then the block adds up: a sum in each warp, eight
# numbers in `sums`, a barrier. One warp adds those, and **one** of its threads adds to `out[0]`,
# which holds 0 at the start. `warp_sum(value)` returns the butterfly's sum to all lanes.
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
# Two device functions that the package's kernels use: the sum of a warp's lanes, and of a block's.
warp_sum, block_sum = reduce.combiners(reduce.KINDS["sum"], warps=8)


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

# %%
# NBVAL_IGNORE_OUTPUT
beside("sum-several", sum_several)

# %% [markdown]
# ## 5 Within a block
#
# <kbd>deepening</kbd> 5 minutes
#
# **The last five steps** of the tree (section 2) happen within one warp. Well-known programs leave
# the barriers out there: the lanes of a warp move in step, they say. What will the simulator find?

# %%
predict("the last warp without a barrier", "nothing", choices=("race", "deadlock", "nothing"))


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
predict.answer("the last warp without a barrier", hasty.findings[0].kind, how="found")

# %% [markdown]
# On GPUs since 2017 the lanes of a warp may run apart. `cuda.syncwarp()` is the barrier of a warp,
# and cheap. (The message advises the barrier of a block, which would do, and is more than is
# needed. Old code marks the memory `volatile` instead. That keeps a compiler from caching a value,
# and orders nothing.)

# %% [markdown]
# **Shuffles that pay.** For sums shuffles gained nothing: additions at one address bind (section
# 3). A maximum has as many atomics, but they compare whole numbers (a float32's bits), and their
# line moves faster. So what happens within the blocks shows:

# %%
largest = {name: h200("reduce", "max", name, str(BIG)) for name in ("tree", "shuffles")}
for name, time in largest.items():
    print(f"maximum, {name:9}{time:.3f} ms")
print(f"{largest['tree'] / largest['shuffles']:.2f} times as fast with shuffles")

# %% [markdown]
# ## 6 Without any atomic on the sum
#
# <kbd>deepening</kbd> 10 minutes
#
# Atomics have two faults left. Somebody must write a 0 to `out` first: one more launch. And they
# come in any order, so a sum of fractions has other last bits each time you run it. Same numbers,
# other order:

# %%
fractions = np.random.default_rng(1).random(4096, dtype=np.float32)
orders = [np.random.default_rng(seed).permutation(fractions) for seed in range(20)]
results = {float(np.add.accumulate(numbers)[-1]) for numbers in orders}
print(f"20 orders of adding one by one, more than 5 different sums: {len(results) > 5}")

# %% [markdown]
# So let each block write its sum to a place of its own, and let **the last block** add them. Who is
# the last? Each block counts itself with an atomic on a counter, which returns how many came
# before.

# %% [markdown]
# Between writing its sum and counting itself a block calls `cuda.threadfence()`: whoever sees the
# count then sees the sum, too. The last block calls it once more, between seeing the count and
# reading the sums: so it reads none that is older. The kernel below can be made with both and
# without. What will the simulator find without? (`block_sum` is what you wrote in section 4, up to
# the atomic.)

# %%
predict("finding without the fence", "race", choices=("race", "deadlock", "nothing"))


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
            if fence:
                cuda.threadfence()
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
predict.answer("finding without the fence", report.findings[0].kind, how="found")

# %% [markdown]
# Right both times, and a **race** without the fences: the counter may be seen to be full before the
# sums are there. It would go well a thousand times, and then not. The message names two usual
# cures; a counter with a fence before and after it is a third. (`atomic.inc` counts to
# `blocks - 1` and then starts again at 0, so the counter is ready for the next launch.)

# %% [markdown]
# The whole ladder, and others beside it: CuPy; PyTorch, **eager** (each call runs a kernel that was
# written before); PyTorch **compiled** (`torch.compile` writes kernels for your function). Section
# 7 adds **Triton**, a language for kernels within Python.

# %%
STEPS = ("atomics", "tree", "shuffles", "several", "last block")
programs = (*STEPS, "cupy", "torch", "torch.compile")
times = {name: h200("reduce", "sum", name, str(BIG)) for name in programs}
plots.time_bars(times | {"reading at the roof": reading}, "sum of 2²⁶ float32, recorded on an H200")

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
# ## 7 Softmax: three readings, or two
#
# <kbd>deepening</kbd> 45 minutes
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
predict("three passes: bytes read and written / bytes of x", 4, exact=True)

# %%
matrix = np.random.default_rng(5).standard_normal((32, 1024), dtype=np.float32)


def traced_softmax(name):
    """Trace a step of the package's ladder on the matrix; return report and result."""
    (rows, columns), out = matrix.shape, np.zeros_like(matrix)
    shape = softmax.config_for(columns)
    kernel, grid, block = {
        "three passes": (softmax.softmax_three_passes, rows, softmax.THREADS),
        "online": (softmax.online("float32", 256, True), rows, 256),
        "registers": (
            softmax.registers("float32", shape, "aligned"),
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
predict.answer(question, moved(report) / matrix.nbytes, how="counted")

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
# That is the **online softmax**. [Lesson 18](18_a_vision_transformer.ipynb) needs it for attention,
# whose matrix is too large to be stored at all.
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

# %%
# NBVAL_IGNORE_OUTPUT
beside("softmax-online", softmax_rows)

# %% [markdown]
# One more reading can go. If a block holds its row **in registers**, spread over its threads, it is
# read once. A thread has all its numbers, and needs no online sum. So as many bytes as x has move
# 4, 3 and 2 times. If bytes were all, `registers` would be twice as fast as three passes. Was it?

# %%
predict("softmax in registers, times as fast as three passes", 2, within=1.5, no_effect=1)

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
# ## 8 Looking back
#
# <kbd>core</kbd> 5 minutes
#
# | who meets | where | what it costs |
# |---|---|---|
# | all threads | one address | additions stand in line |
# | a block | shared memory | a barrier at each step |
# | a warp | registers, by shuffles | five exchanges |
# | a thread's own numbers | its register | nothing |
# | the blocks, at the end | a place for each | a counter and two fences |
#
# Give each thread much to do alone, and let few meet. They carry a sum, a maximum, or a pair with
# its correction: the road is the same.

# %%
progress(10)

# %% [markdown]
# ## What you should be able to say now
#
# - Additions at one address stand in line; fewer meetings, nearer to the threads, are faster.
# - A shuffle reads another lane's register. All lanes named take part; guard loads, not shuffles.
# - Between two blocks of one launch a number is safe to read only so: write, fence, counter;
#   counter, fence, read. Or read it in a second launch.
# - Online softmax: when a larger number comes, the sum is multiplied by exp(old − new).
# - Whatever can be merged in any order can be reduced: sums, maxima, softmax pairs.
# - A float32 sum stands still at 2²⁴ times what is added. Adding in parts keeps the digits.

# %% [markdown]
# ## Questions
#
# 1. Why did shuffles not beat the tree for sums of 2²⁶ numbers, and did for maxima?
# 2. Why has the last block's sum the same bits each time, and the atomics' not?
# 3. A lane has no number. What does it contribute to a sum, a maximum, a softmax pair?
#
# <details><summary>Answers</summary>
#
# 1. Both send one addition a block to one address, and those bind. For maxima that line moves
#    faster, so the work within the block shows.
# 2. It adds the blocks' sums in a fixed order; atomics come as they come.
# 3. Values that change nothing: 0, −∞, and the pair of float32's lowest number and 0.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - The position of the largest number (argmax) as a reduction. What must a part know? What if two
#   are equal?
# - Your `sum_several` with `shfl_down`. Which lane stores then?
# - Feed the online softmax numbers that rise all the time. How often is the sum rescaled?
# - Give `sum_atomics` 2²⁵ ones in float32, on paper. What is the sum?

# %% [markdown]
# ## Common misconceptions
#
# - *"Atomics are slow."* Many at one address are: 2²⁶, and still 2¹⁸. 2¹⁴ hide behind the reading.
# - *"Shuffles are always faster than shared memory."* Only where that binds. See section 3.
# - *"Threads of a warp need no barrier in shared memory."* They do since 2017: `syncwarp`. Shuffles
#   order registers only.
# - *"The last block is the one with the highest number."* It is the one that finishes last.
# - *"A sum is exact to seven digits."* After 2²⁴ additions of 1 it stands still.

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
# - Next in the course: [lesson 11](11_the_decomposition_itself.ipynb), The decomposition itself.
#   [Lesson 13](13_normalisation_and_fusion.ipynb) reduces rows again, for LayerNorm.
