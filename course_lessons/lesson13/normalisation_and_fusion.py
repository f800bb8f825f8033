# %% [markdown]
# # 13 Normalisation and fusion
#
# A neural network bends each number and normalises each row. You put both into one kernel, and
# count the bytes.

# %% [markdown]
# ## What you will do
#
# - Count the bytes of GELU and Swish, and of LayerNorm with GELU, before and after fusing.
# - Write them as one kernel, and take speed-ups apart.

# %% [markdown]
# ## What you will learn
#
# - What fusing saves, in bytes, and why it can give no more.
# - Which sums and formulas lose their digits.

# %% [markdown]
# ## What you need
#
# [Lesson 10](10_reductions.ipynb): shuffles and, in its sections 6 and 7, the butterfly and merged
# sums. Lessons [03](03_measuring_honestly.ipynb) to [05](05_shared_memory.ipynb): roofs, sectors,
# shared memory, barriers. [Lesson 06](06_reuse_reuse_reuse.ipynb): local arrays. For sections 6 and
# 10 graphs ([lesson 08](08_streams.ipynb)) and counters ([lesson
# 07](07_reading_a_profiler.ipynb)). No GPU is needed.

# %% [markdown]
# ## How long it takes
#
# After section 2 is a good place for a break.

# %%
# NBVAL_IGNORE_OUTPUT
import math

import numpy as np
from numba import float32

from course import benchmark, beside, check, cuda, gpu, predict, progress
from course import recorded, recorded_roofs, trace
from course.kernels import activation, norm, reduce
from course_lessons.lesson13 import pictures, plots, profile, traces

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 GELU and Swish: count the bytes
#
# <kbd>core</kbd> 25 minutes
#
# A network has large products, and small steps between them. A small step does little for each
# byte, so memory is its roof ([lesson 03](03_measuring_honestly.ipynb)).


# %%
def h200(subject, kernel, variant, shape, metric="time", dtype="float32"):
    """Return what was recorded on an H200; times are in ms."""
    wanted = {"kernel": kernel, "variant": variant, "shape": shape, "metric": metric}
    return recorded(subject, **wanted, dtype=dtype, gpu="H200")[0].median


def moved(report):
    """Bytes that the lanes asked for, global loads and stores."""
    return report.total("global", "load").bytes + report.total("global", "store").bytes


BIG = 2**26
COPY = recorded_roofs("H200").bandwidth  # GB/s of a copy, reading and writing
matrix = np.random.default_rng(5).standard_normal((32, 1024), dtype=np.float32)  # for traces

# %% [markdown]
# Between products a network bends each number by an **activation**. The plainest is ReLU, max(x,
# 0), with a corner at 0. **Swish** (also SiLU) and **GELU** have none:
#
# ```text
# Swish(x) = x * sigmoid(x) = x / (1 + exp(-x))
# GELU(x)  = x * (share of normally distributed numbers below x)
#          = x * (1 + erf(x / sqrt(2))) / 2
# ```

# %% [markdown]
# Each number comes in, is bent, goes out: two transfers. Swish as `x * torch.sigmoid(x)` runs two
# kernels. How many transfers are that, arrays read and arrays written?

# %%
predict("transfers of x * sigmoid(x) in two kernels", 4, exact=True)

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
# Data that no step has made comes from outside, and is read once. Sets can be subtracted.
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
predict("Swish: one kernel, times as fast as two", 2.5, within=1.5, no_effect=1)

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
predict.answer("transfers of x * sigmoid(x) in two kernels", both, how="counted")


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
# **Now the first version** of this lesson's work, in CUDA C++ and in Triton, a language for kernels
# within Python. It reported up to 1.87 times PyTorch's speed for Swish (1.878, cut off). Its
# figures, at 2²⁰ elements, in ms, are in `data/original-activations.csv`:

# %%
published = plots.original()
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
# Here are both comparisons with our own figures, for a chip that is full. Only the second one says
# anything of the kernel:

# %%
ours = of_swish("wide")
print(f"against x * sigmoid(x), two kernels: {of_swish('torch, two kernels') / ours:.2f} times")
print(f"against silu, one kernel:            {of_swish('torch') / ours:.2f} times")
print(f"a copy at the roof:                  {8 * BIG / COPY * 1e-6 / ours:.2f} times")

# %% [markdown]
# Nobody beats the library by much here, and nobody can: all stand at the roof of memory.

# %% [markdown]
# ## 2 LayerNorm, and a variance below zero
#
# <kbd>core</kbd> 20 minutes
#
# LayerNorm brings each row to mean 0 and variance 1. Then each column is stretched and shifted by
# two learned rows: gamma and beta. The small eps keeps the root above 0:
#
# ```text
# y = (x - mean) / sqrt(variance + eps) * gamma + beta
# variance = mean of (x - mean)²
# ```

# %% [markdown]
# As it stands this takes two passes before the last: the mean, then the squares. Schoolbooks have a
# shortcut: variance = mean(x²) − mean(x)². Sum and sum of squares in **one** pass. In exact numbers
# it is the same. Take float32 rows with spread 1 around 0, 10, 100 and so on. From which mean on is
# it useless: off by more than 0.1, where results are about 1?

# %%
predict("mean from which mean(x²) - mean(x)² is useless, spread 1", 10_000, exact=True)

# %%
GAMMA, BETA = np.ones(1024, np.float32), np.zeros(1024, np.float32)


def normalised(rows, method):
    """Normalise rows of 1,024 numbers by a step of the package's ladder, simulated."""
    kernel, blocks, threads, _ = norm.LADDER[method].launch(
        *rows.shape, norm.Variant()
    )  # with gamma and beta
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
predict.answer("mean from which mean(x²) - mean(x)² is useless, spread 1", useless, how="computed")

# %% [markdown]
# Around 1,000 the squares are a million, and a float32 near a million is good to 0.06. Their
# difference should be 1, and is off by as much as a tenth. From 10,000 on, what is left of it is
# mostly rounding: it can be **below zero**, and its root is NaN. This is *cancellation*: two large
# numbers that are nearly equal are subtracted. Such kernels survive, because on test data with
# mean 0 they work.
#
# (Two passes lose digits, too, but slowly: near 30,000 the numbers themselves are good to 0.002.)

# %% [markdown]
# So how do you get the variance in **one** pass, and safely? Keep what the online softmax of
# [lesson 10](10_reductions.ipynb) kept: something relative to the best you know so far. For the
# numbers until now: their count, their mean, and the sum of squared differences **from that mean**.
# A new number x comes (B. P. Welford, 1962):
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
# moments: **whatever can be merged in any order can be reduced**, by [lesson
# 10](10_reductions.ipynb)'s tree, butterfly and last block. Only the function in the middle
# changes. Look at the package: `merged_in_warp` in `course/kernels/norm/first_steps.py` is your
# butterfly with three values.

# %% [markdown]
# ## 3 A ladder of LayerNorms
#
# <kbd>core</kbd> 10 minutes
#
# Read how each step spreads a row. How often do `tree`, `warp` and `registers` *read* x?
#
# | step | who has a row | how |
# |---|---|---|
# | naive | a thread | mean, squares, row |
# | tree | a block | the same, two trees |
# | one pass | a block | Welford, then the row |
# | warp | a warp | Welford, shuffles |
# | block | a block | Welford, shuffles, one barrier |
# | registers | a block | wide loads, the row stays in registers |
# | several rows | a warp or a part of it | the same, for rows of up to 1,024 |

# %%
predict("x is read by tree, warp, registers", 3, 2, 1, exact=True, numbers=3)

# %%
NORMS = ("naive", "tree", "one pass", "warp", "block", "registers", "several rows")


counted = {name: traces.of_norm(name, matrix, GAMMA, BETA) for name in NORMS}
read = {name: round(its.transfers - 1) for name, its in counted.items()}
asked = tuple(read[name] for name in ("tree", "warp", "registers"))
predict.answer("x is read by tree, warp, registers", asked, how="counted")
print("               x is read   sectors a request   shared wavefronts")
for name, its in counted.items():
    print(f"{name:13}{read[name]:8} x{its.sectors:18.1f}{its.wavefronts:20,}")

# %% [markdown]
# `naive` has a thread for each row, so a warp's lanes read a column: 32 sectors for a request, of
# which an eighth is used ([lesson 04](04_warps_and_coalescing.ipynb)). `registers` reads 16 bytes a
# lane: 16 sectors for a request, all of them used, and a quarter of the requests. For rows of
# 4,096: how many times as fast as `naive` will the fastest step be?

# %%
predict("LayerNorm: fastest step, times as fast as naive", 8, within=2, no_effect=1)


# %%
def of_norm(shape, kernel="layer norm"):
    """Return the recorded times [ms] of all programs of an operation, by name."""
    found = recorded("norm", kernel=kernel, shape=shape, dtype="float32", gpu="H200")
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

# %% [markdown]
# For long rows one reading less is hardly a gain, if any. What is in the way? There is a control:
# `squares`, the trap, reads x as often as `one pass`. Its threads meet in two trees of one number,
# those of `one pass` in one tree of three. It is faster. So the suspect is Welford's
# **division** at every number, and that each new mean waits for the one before.
#
# `warp` loses for long rows, 128 numbers for each lane one after the other, and gains for short
# ones. And two passes over **registers** cost no memory and no division. So the fastest step is the
# formula as it stands, at another place.

# %% [markdown]
# ## 4 Fused: LayerNorm and GELU
#
# <kbd>core</kbd> 35 minutes
#
# In a network GELU may follow LayerNorm at once. Two kernels, or one. Count first, in transfers of
# x's size: how many times fewer bytes does the fused kernel move?

# %%
predict("LayerNorm + GELU: times fewer bytes, fused", 2, exact=True)

# %%
TWO_KERNELS = [("LayerNorm", ["x"], "y"), ("GELU", ["y"], "z")]
ONE_KERNEL = [("LayerNorm + GELU", ["x"], "z")]
pictures.transfers({"apart": TWO_KERNELS, "fused": ONE_KERNEL})

# %% [markdown]
# (gamma and beta are a row each, and stay in a cache.) Now from the trace: `block`, then GELU as a
# second kernel, against `registers` with GELU inside.

# %%
apart = counted["block"].transfers
second = trace(norm.activate("gelu"), (4, 32), 256, np.zeros_like(matrix))
after = moved(second) / matrix.nbytes
fused = traces.of_norm("registers", matrix, GAMMA, BETA, "gelu").transfers
print(f"block, then gelu: {apart:.0f} + {after:.0f} transfers of x")
print(f"registers, fused: {fused:.0f}")
fewer = (apart + after) / fused
print(f"{fewer:.1f} times fewer that the lanes ask for")
least = [sum(len(read) + 1 for _, read, _ in steps) for steps in (TWO_KERNELS, ONE_KERNEL)]
predict.answer("LayerNorm + GELU: times fewer bytes, fused", least[0] / least[1], how="computed")

# %% [markdown]
# `block` reads its row twice, and the second time a cache may have it. The traffic that **must** be
# is 4 against 2, as in the picture. Remember the number 2: it is the most that fusing can give,
# **if both sides are equally near to the roof**.

# %% [markdown]
# ### Exercise: LayerNorm and GELU in one kernel
#
# A warp a row, as in [lesson 10](10_reductions.ipynb), rows of at most 256 numbers, so each lane
# has at most eight: `values[n]` is column `lane + 32 * n`. They are loaded for you; do not read x
# **again**. Mean, then the squared differences from it, then each number normalised, times gamma,
# plus beta, through `gelu`, and out. `gelu` is given, and so is `warp_sum(value)`: the butterfly's
# sum, in all lanes.
#
# <details><summary>Hint 1: beyond the row's end</summary>
#
# There `values[n]` is 0. In the squares it would count as (0 − mean)². Guard those, and the stores.
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
warp_sum, _ = reduce.combiners(reduce.KINDS["sum"], warps=8)  # as in lesson 10
gelu = activation.gelu  # a device function: gelu(y)


# %% tags=["exercise", "long"]
@cuda.jit
def layer_norm_gelu(x, gamma, beta, eps, out):
    """Write GELU of the normalised rows of x; a warp for each row, four in a block."""
    values = cuda.local.array(PARTS, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    columns = float32(x.shape[1])
    if row < x.shape[0]:
        total = float32(0)
        for n in range(PARTS):
            column = lane + 32 * n
            values[n] = x[row, column] if column < x.shape[1] else float32(0)
            total += values[n]
        ### BEGIN SOLUTION
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

# %%
# NBVAL_IGNORE_OUTPUT
# yours beside the package's and the least: counts of the simulator, on a GPU times, too
beside("layer-norm-gelu", layer_norm_gelu)

# %% [markdown]
# What does fusing gain on the H200? Two kernels move 4 transfers, the fused one 2. First against
# **our own** two kernels, `block` and then GELU, for rows of 4,096. By what factor is our fused
# kernel faster?

# %%
predict("fused, times as fast as block, then gelu", 2, within=1.5, no_effect=1)

# %%
FUSED = "layer norm + gelu"
found, roof = of_norm(LONG_ROWS, FUSED), copies[LONG_ROWS]
ours = found["registers"]
predict.answer("fused, times as fast as block, then gelu", round(found["block"] / ours, 2))

# %% [markdown]
# Far above 2. Fusing alone **cannot** give that. We could print it in large letters, and it would
# be the trick of section 1 again: our two kernels are slow ones. Who would be a fair opponent?
# PyTorch's two kernels, or, better still, the best two that *we* have: `registers` without GELU,
# then `wide` GELU on as many numbers. (Where a pair was timed as a whole, GELU's share is what is
# left when LayerNorm's time is taken off.)

# %%
predict("fused, times as fast as the best two kernels", 2, within=1.25, no_effect=1)

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

# %% [markdown]
# ## 5 Two functions called GELU
#
# <kbd>deepening</kbd> 5 minutes
#
# GELU's error function `erf` takes many operations. Many programs use another function instead:
#
# ```text
# 0.5 * x * (1 + tanh(sqrt(2 / π) * (x + 0.044715 * x³)))
# ```
#
# By how much do the two differ at most?

# %%
predict("largest difference, GELU with tanh", 0.001, within=3)

# %%
pictures.activation_curves()

# %%
grid = np.linspace(-6, 6, 12_001)
right = grid * pictures.normal_below(grid)
difference = np.abs(pictures.gelu_by_tanh(grid) - right)
worst = abs(grid[difference.argmax()])
print(f"largest at |x| = {worst:.1f}")
predict.answer(
    "largest difference, GELU with tanh", float(f"{difference.max():.1e}"), how="computed"
)

# %% [markdown]
# Is that much? Compare it with what rounding loses, and with GELU's own size:

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
# ## 6 Small arrays, and the first call
#
# <kbd>deepening</kbd> 10 minutes
#
# Swish at **2²⁰** numbers, the size of the published figures: four MiB in, four out. That fits into
# the L2 cache of an H200, and the kernel takes a few millionths of a second. How long does the
# *host* take to launch it, compared with that?

# %%
predict("2**20: the host's launch / the kernel's time", 0.5, within=2, no_effect=1)

# %%
SMALL = 2**20
found = recorded(
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
plots.speed_chart(recorded("activation", kernel="silu", metric=None, gpu="H200"), "silu")

# %% [markdown]
# (Hollow: the published figures; their machine is not named. Blue: the course's kernels; the other
# colours only tell the programs apart.) `host` is what a launch costs the program that makes it.
# `two events` is what a careless clock shows, with the launch in it. A replayed **graph** holds the
# launch ready ([lesson 08](08_streams.ipynb)), and finds its data in L2, where the replay before
# left it.
#
# So whoever times one call of such a size measures launches, and calls them kernels. Numba looks at
# the type of every argument at each launch, which costs. State the size with every speed-up, and
# the clock.

# %% [markdown]
# One more figure that is easily mistaken for a kernel's time: the **first call**. It compiles.
# After how many calls is it less than 1% of all that was spent? (By the host's clock, for a program
# that calls again and again.)

# %%
predict("calls until compilation is below 1%", 1000, within=3)

# %%
# Both by one clock, the host's: a launch takes it longer than the kernel takes the GPU.
first, later = of_swish("wide", SMALL, "first call"), of_swish("wide", SMALL, "launch")
print(f"first call {first:.0f} ms, then {later:.4f} ms")
mean = (first + 99 * later) / 100
print(f"mean of 100 calls, the first one counted: {mean / later:,.0f} times too slow")
calls = math.ceil(0.99 * first / (0.01 * later))
predict.answer("calls until compilation is below 1%", calls, how="computed")

# %% [markdown]
# Compilation is not inference. Warm up, then measure ([lesson 03](03_measuring_honestly.ipynb)).

# %% [markdown]
# ## 7 Store in float16, add in float32
#
# <kbd>deepening</kbd> 10 minutes
#
# In float32 the shortcut of section 2 lost its digits. And in float16? Its largest number is
# 65,504, and it has 11 bits. Two more questions. What is the sum of 4,096 ones, added one by one?
# And that of the squares of 768 numbers of size 10?

# %%
predict("float16: 4,096 ones, added one by one", 4096, exact=True)
predict("float16: 768 squares of 10", 76_800, exact=True)

# %%
with np.errstate(over="ignore"):
    ones = np.add.accumulate(np.ones(4096, np.float16), dtype=np.float16)[-1]
    squares = np.add.accumulate(np.full(768, 10, np.float16) ** 2, dtype=np.float16)[-1]
predict.answer("float16: 4,096 ones, added one by one", float(ones), how="computed")
predict.answer("float16: 768 squares of 10", float(squares), how="computed")

# %% [markdown]
# 2,048 + 1 is 2,048 again: the sum stands still, as [lesson 10](10_reductions.ipynb)'s did at 2²⁴.
# And 76,800 is above the largest. In a LayerNorm that means: a scale of zero, or rows of NaN.
# **Store in float16 if you like, add in float32.** The package does:

# %%
halves = (10 * normal).astype(np.float16)
error = np.abs(norm.layer_norm(halves) - exact_norm(halves)).max()
print("float16 in and out, sums in float32: error below 2e-3:", error < 2e-3)

# %% [markdown]
# And storing in float16 pays. GELU of 2²⁶ numbers, the package's kernel `wide`: how many times as
# fast as with float32?

# %%
predict("GELU in float16, times as fast", 2, within=1.25, no_effect=1)

# %%
single, half = (
    h200("activation", "gelu", "wide", str(BIG), dtype=d) for d in ("float32", "float16")
)
print(f"float32 {single:.3f} ms, float16 {half:.3f} ms")
predict.answer("GELU in float16, times as fast", round(single / half, 2))

# %% [markdown]
# ## 8 What others fused
#
# <kbd>deepening</kbd> 10 minutes
#
# In section 4 fusing gave 2, what the bytes say. And the fused kernels of others? They move the
# same bytes as a LayerNorm alone. So they should take as long as one. Do they?

# %%
print("                       LayerNorm   fused with GELU    GB/s")
for rows in (LONG_ROWS, SHORT_ROWS):
    alone, fused_times = of_norm(rows), of_norm(rows, FUSED)
    for name in ("registers", "torch.compile", "Triton", "CUDA C++"):
        rate = copies[rows] * COPY / fused_times[name]
        print(f"{rows:11} {name:13}{alone[name]:7.3f}{fused_times[name]:15.3f} ms{rate:12,.0f}")

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
# slow half. Now take the first version's fused kernels apart, with that formula. Its figures in ms,
# for 4096×1024:

# %%
for kernel in ("layer norm", FUSED):
    theirs = [published[kernel, "4096x1024", name] for name in ("torch", "CUDA C++", "Triton")]
    print(f"{kernel:18}", *(f"{time:8.4f}" for time in theirs), "   torch, CUDA C++, Triton")
for name, time in zip(("CUDA C++", "Triton"), theirs[1:], strict=True):
    print(f"fused, {name:9}{theirs[0] / time:.2f} times as fast as PyTorch's two kernels")

# %% [markdown]
# That was reported as the success of fusion. What is the rate of the fused kernels, compared with
# that of PyTorch's unfused pair?

# %%
predict(
    "published: rate of the fused Triton kernel / rate of PyTorch's pair",
    2,
    within=1.5,
    no_effect=1,
)

# %%
megabytes = 8 * 4096 * 1024 / 1e6
for name, time, arrays in (("torch, two", theirs[0], 4), ("CUDA C++", theirs[1], 2)):
    print(f"{name:11} moves {arrays} arrays at {arrays / 2 * megabytes / time:4.0f} GB/s")
print(f"Triton      moves 2 arrays at {megabytes / theirs[2]:4.0f} GB/s")
rate = (theirs[0] / theirs[2]) / (4 / 2)
question = "published: rate of the fused Triton kernel / rate of PyTorch's pair"
predict.answer(question, round(rate, 2), how="computed")

# %% [markdown]
# Below 1. Had the fused kernels only kept PyTorch's rate, they would have been twice as fast. They
# **lost** a part of what fusion gave them, and their LayerNorm is the suspect: alone it was slower
# than PyTorch's in both languages. The fusion was right, and it hid a slow kernel.
#
# The same size on our H200, beside theirs. There a launch takes the host about as long as the GPU
# works, often longer, so a careless clock shows little of the kernels. (`long` is the package's
# step for the longest rows: more of it in section 9.)

# %%
figures = recorded("norm", kernel=FUSED, metric=None, gpu="H200")
plots.speed_chart(figures, FUSED, shapes=["4096x1024"])

# %% [markdown]
# ## 9 Other lengths
#
# <kbd>deepening</kbd> 5 minutes
#
# How near to the roof is LayerNorm with GELU for rows of other lengths? Each recorded array has
# about 2²⁶ numbers, cut into rows of 64 to 65,536. `layer_norm` chooses the step. Of long rows a
# part is in a block's registers and the rest in **shared memory** (step `registers and shared
# memory`), so each number is still read once. Only a row that does not fit there either is read
# twice (`long`).


# %%
def of_length(columns):
    """Return the recorded figures of the programs for rows of a length, by name."""
    found = recorded("norm_lengths", kernel=FUSED, dtype="float32", gpu="H200")
    return {it.variant: it for it in found if it.shape.endswith(f"x{columns}")}


LENGTHS = [64, 384, 1000, 1023, 4096, 4099, 8192, 12_001, 16_384, 20_000, 20_001]
LENGTHS += [24_576, 32_768, 40_000, 40_001, 50_000, 65_535, 65_536]
# An H200: bytes of shared memory for a block; True: copies to it run while the block computes.
H200_ROOM = 227 * 1024, True
print("numbers a row    GB/s   % of a copy   torch.compile  chosen step")
for length in LENGTHS:
    found = of_length(length)
    # the step that `layer_norm` chooses for rows of this length, on such a GPU
    rows = norm.NormProblem(2**26 // length, length, aligned=length % 4 == 0, limits=H200_ROOM)
    step = norm.LADDER.best(rows)
    rate, theirs = (found[name].gigabytes_per_second for name in ("auto", "torch.compile"))
    print(f"{length:13,}{rate:8,.0f}{rate / COPY:14.0%}{theirs:16,.0f}  {step}")

# %% [markdown]
# Rows that fit in registers reach 88% of a copy and more. Longer rows, of a length that four
# divides, reach 79% to 89%. Two things hold them back:
#
# - A block can write no result before it knows the row's sums. Until then its threads wait.
# - Other blocks could work meanwhile. But each needs so much shared memory that only one or two fit
#   on an SM.
#
# Why is 50,000 the lowest of them? 2²⁶ numbers are 1,342 such rows. 132 SMs take one each: 10
# rounds, and an eleventh for the last 22 rows.

# %% [markdown]
# **Odd** lengths suffer: their rows begin anywhere, so each access is of one number, not four. At
# 4,099, in registers, that costs 8%.

# %% [markdown]
# For longer odd rows the package does three things:
#
# 1. Up to the first multiple of 256 bytes it takes single numbers.
# 2. From there on it takes four at a time, all but at most 66 numbers of a row.
# 3. Those fours begin elsewhere in each row, and so must the fours of gamma and beta. So a small
#    kernel first makes four copies of both, each shifted by one number more. One always fits.
#
# 79% to 85% of a copy remain. `torch.compile` keeps less than half. (The rates are measured. The
# reasons follow from the kernel's code; no counter confirmed them.)

# %% [markdown]
# For LayerNorm alone `registers` and `torch.compile` are level (section 3). Both read x once from
# memory. Both also ask the L2 cache to keep x longer than the results, so that results leave the
# cache first (`load4_kept` in `warpsim.ptx`). How was that found? By reading the code that
# `torch.compile` had made.

# %% [markdown]
# On **your own GPU** the next cell times the package's two ways. Without one it gives the bound.

# %%
# NBVAL_IGNORE_OUTPUT
rows = 16_384 if gpu() else 8
given, result = (cuda.to_device(np.ones((rows, 4096), np.float32)) for _ in range(2))
factors = [cuda.to_device(np.ones(4096, np.float32)) for _ in range(2)]
for method in ("block", "registers"):
    how = {"eps": 1e-5, "activation": "gelu", "method": method}
    for launch in norm.LADDER.launches(given, *factors, result, **how):
        print(benchmark(launch.configured(), *launch.arguments, bytes=8 * 16_384 * 4096))

# %% [markdown]
# ## 10 What the GPU's counters say
#
# <kbd>deepening</kbd> 10 minutes
#
# So far: times, and counts of the source. Nsight Compute ([lesson 07](07_reading_a_profiler.ipynb))
# read the hardware's counters of the fast steps, each on 2²⁶ numbers (sum and softmax are those of
# [lesson 10](10_reductions.ipynb)):
#
# - *DRAM*: the bytes that device memory moved, in percent of the data sheet's 4.8 TB/s;
# - *SM*: how busy the busiest unit of the SMs was;
# - *achieved occupancy*: how many of the warps that could be there were there.
#
# What do you expect of the fused kernel?

# %%
predict("fused kernel: DRAM, % of peak", 90, within=1.25)
predict("fused kernel: SM, % of peak", 30, within=1.25)

# %%
METRICS = ("DRAM throughput", "SM throughput", "achieved occupancy")
PROFILED = ("sum", "softmax", "gelu", "silu", "layer norm", FUSED, "layer norm backward")
print("                      DRAM    SM   occupancy   read   written   waits most for")
for kernel in PROFILED:
    dram, sm, warps = (profile.counter(kernel, metric) for metric in METRICS)
    read = profile.counter(kernel, "DRAM bytes read") / (4 * BIG)
    written = profile.counter(kernel, "DRAM bytes written") / (4 * BIG)
    reason, _ = profile.main_stall(kernel)
    print(f"{kernel:20}{dram:5.0f}%{sm:5.0f}%{warps:11.0f}%", end="")
    print(f"{read:7.2f}{written:10.2f}   {reason}")
print(f"{'a copy':20}{100 * COPY / 4800:5.0f}%")
dram, sm = (profile.counter(FUSED, metric) for metric in METRICS[:2])
predict.answer("fused kernel: DRAM, % of peak", round(dram), unit="%")
predict.answer("fused kernel: SM, % of peak", round(sm), unit="%")

# %% [markdown]
# That is what the roof of memory looks like from within. Memory moves nearly what it moves in a
# copy. x came from it once (*read*, in units of x's size), as you counted. Of what was written,
# about a tenth is still in the L2 cache at the end. Most of all, warps wait for loads
# (`long_scoreboard`, [lesson 07](07_reading_a_profiler.ipynb)).
#
# GELU keeps the SMs busier than LayerNorm alone, but in time that was spent waiting. That is why
# fusing costs next to nothing here.

# %% [markdown]
# Achieved occupancy need not be 100%. `gelu` and `silu` reach as much of memory with fewer warps:
# it is enough if the loads in flight fill memory's time. (101%? That is a quotient of two counters,
# probably read in two runs of the kernel.)
#
# But it can be too low. The last row is LayerNorm's backward pass, which training needs. It reads
# two arrays and holds a row of each in registers. So few warps fit that memory is idle for a good
# part of the time: probably too few loads are in flight. Against PyTorch it wins, against the roof
# not.

# %%
backward = h200("norm", "layer norm backward", "registers", LONG_ROWS)
torch_backward = h200("norm", "layer norm backward", "torch", LONG_ROWS)
least_time = 3 / 2 * copies[LONG_ROWS]  # two arrays in, one out; a copy has one and one
print(f"LayerNorm's backward pass: {torch_backward / backward:.2f} times as fast as PyTorch's")
print(f"at the roof it would be {backward / least_time:.2f} times as fast as it is")

# %% [markdown]
# ## 11 A faster activation in a small network
#
# <kbd>deepening</kbd> 20 minutes
#
# A GELU and a Swish of one's own can go into a small network that reads handwritten digits. In a
# **convolution** a pixel becomes a sum over itself and its eight neighbours, each times a weight of
# its own: nine weights. Sixteen such sets of weights make 16 numbers of each pixel. (So in the
# second convolution a sum has 9 · 16 = 144 weights.) A **Linear** multiplies by a matrix of weights
# and adds a bias.

# %% [markdown]
# | layer | numbers of an image |
# |---|---|
# | 3 × 3 convolution, activation | 8 × 8 → 16 · 8 × 8 |
# | the largest of each 2 × 2 | → 16 · 4 × 4 |
# | convolution, activation, largest | → 32 · 2 × 2 |
# | Linear, activation | 128 → 64 |
# | Linear | 64 → 10 scores |

# %% [markdown]
# The first trap comes before any clock. There are three activations, and a network can be computed
# with another one than it was trained with: nothing complains. Say how many of 360 held-out digits
# a network reads right that was trained with ReLU and computes GELU, in percent. With its own it is
# 98.3%.

# %%
predict("trained with ReLU, computed with GELU: % right", 50, within=1.1, no_effect=98.3)

# %%
from dataclasses import replace

from course_lessons.lesson13 import digits


images, labels = digits.held_out()
print("trained with   computed with " + "".join(f"{name:>8}" for name in digits.ACTIVATIONS))
for name in digits.ACTIVATIONS:
    trained = digits.Weights.trained(name)
    right = [
        digits.accuracy(digits.reference(images, replace(trained, activation=other)), labels)
        for other in digits.ACTIVATIONS
    ]
    print(f"{name:29}" + "".join(f"{share:8.1%}" for share in right))
    if name == "relu":
        exchanged = 100 * right[digits.ACTIVATIONS.index("gelu")]
predict.answer(
    "trained with ReLU, computed with GELU: % right", round(exchanged, 1), how="computed"
)

# %% [markdown]
# On the diagonal are the three networks as they should be: an image is 0.3 points, so they are
# equally good. Five of the six exchanges lose 2 to 4 points. The sixth loses nothing, SiLU's
# weights with GELU: the two curves are alike. But that you know only when you have counted. So who
# exchanges the activation trains again; here each has weights of its own.

# %% [markdown]
# The course computes it in three ways. With **nine** kernels, each has a layer. With **four**, the
# activation and the largest of four are in the kernel of the layer before them. With **one**, each
# block has an image, and computes all of it. Bytes, traced, for 16 images:

# %%
network = digits.Network(digits.Weights.trained("silu"))
there = cuda.to_device(np.ascontiguousarray(images[:16]))
results = cuda.device_array((16, 10), np.float32)
print("kernels    bytes  digits right")
for method in ("naive", "fused", "whole"):
    kernels = network.program(method).steps(there, results)
    moved_bytes = sum(
        trace(kernel, *how, *arguments, gpu="H200").unique_bytes
        for _, kernel, how, arguments in kernels
    )
    share = digits.accuracy(network(images, method), labels)
    print(f"{len(kernels):7} {moved_bytes:8,}  {share:12.1%}")

# %% [markdown]
# Bytes and launches say: nine are worst, one is best. And the **activation**? In PyTorch's network
# we replace its ReLU by a Numba kernel of ours, which is no slower, and change nothing else. How
# many times as long does a caller wait for the scores of 128 images?

# %%
predict("PyTorch with our ReLU against PyTorch, times the wait", 1, within=2, no_effect=1)


# %%
def of_digits(name, metric="time"):
    """Return a recorded median of the network with ReLU and 128 images [µs]."""
    return 1e3 * h200("cnn", "digits relu", name, "128", metric)


PROGRAMS_OF_DIGITS = {
    "torch": "PyTorch",
    "torch, Numba activation": "PyTorch with our ReLU",
    "torch, Triton activation": "PyTorch with Triton's",
    "torch.compile": "PyTorch compiled",
    "naive": "our nine kernels",
    "fused": "our four",
    "whole": "our one",
}
waits = {}
print("ReLU, 128 images        caller waits   of it GPU   waits, in a graph [µs]")
for name, said in PROGRAMS_OF_DIGITS.items():
    waits[name] = of_digits(name, "latency")
    work = of_digits(name)
    in_a_graph = of_digits(f"{name}, graph", "latency")
    print(f"{said:22}{waits[name]:14.0f}{work:12.1f}{in_a_graph:16.0f}")
longer = waits["torch, Numba activation"] / waits["torch"]
predict.answer("PyTorch with our ReLU against PyTorch, times the wait", round(longer, 1))

# %% [markdown]
# For the GPU all three activations are alike to a percent: a ReLU of so few numbers is one short
# launch among many. But each launch from PyTorch through Numba costs the host some 200 µs more: it
# has to turn tensors into arguments. So the exchange of a fast kernel for a fast kernel made the
# network four times slower. In a graph nothing of that is left, and nothing is gained.
#
# What does pay is what lies *between* the kernels: one launch instead of nine.

# %%
figures = recorded("cnn", gpu="H200", metric=None)
plots.latency_by_batch(figures)

# %% [markdown]
# Time hardly grows with the batch: all of them wait for starts, not for work. (Solid lines are the
# host's, and jump; dashed ones are steady.)
#
# What is honest to say? Compare solid with solid, dashed with dashed. A graph beside a plain call
# is another speed-up that says nothing about kernels. One kernel is 2.3 to 4.6 times as fast as
# PyTorch when both are in a graph, four kernels 1.6 to 2.9 times. Nine are about as fast as
# PyTorch, 0.7 to 1.2 times.
#
# And how well is the GPU used? **Efficiency**: the least time that the roofs allow, over the GPU's
# time. Guess for one kernel and 128 images, in percent.

# %%
predict("efficiency of one kernel, 128 images, %", 50, within=2)

# %%
used = h200("cnn", "digits relu", "whole", "128", "efficiency")
predict.answer("efficiency of one kernel, 128 images, %", round(100 * used, 1))
relu = [its for its in figures if its.kernel == "digits relu"]
plots.efficiency_by_batch([its for its in relu if not its.variant.endswith(", graph")])

# %% [markdown]
# Small work does not fill a large GPU. Twice the images take the same time, so efficiency doubles,
# and it is still below 6%. Speed-ups do not say that: one may be four times as fast and use a
# twentieth.
#
# Remember section 6: how many
# times too long is the mean of 100 calls of our one kernel, with the first one in it?

# %%
predict("mean with the first of 100 calls, times too long", 2, within=3, no_effect=1)

# %%
first = 1e3 * h200("cnn", "digits gelu", "whole", "16", "first call")
usual = 1e3 * h200("cnn", "digits gelu", "whole", "16", "latency")
print(f"first call {first:,.0f} µs, then {usual:.0f} µs")
mean = (first + 99 * usual) / 100
predict.answer("mean with the first of 100 calls, times too long", round(mean / usual))

# %% [markdown]
# ## 12 Looking back
#
# <kbd>deepening</kbd> 5 minutes
#
# Three comparisons of the first version (`data/original-activations.csv`), and one of section 6:
#
# | what was said | what was compared | what it shows |
# |---|---|---|
# | 1.87 times on Swish | two kernels with one | bytes, not the kernel |
# | fusion 1.4 to 1.6 times | 4 transfers with 2 | a slow half: 2 was there |
# | times at 2²⁰ | kernels as short as launches | say the size and the clock |
# | a mean of 100 calls | compilation within | the first call |

# %% [markdown]
# Before you believe a speed-up, ask: the same bytes? The same function, to the same accuracy? The
# best of the other side? A size that fills the chip? Waited for the GPU, after warm-up? And what
# does the **roof** say: how much could be gained at all?

# %%
progress(13)

# %% [markdown]
# ## What you should be able to say now
#
# - A step that computes little for each number is bound by its transfers: count them first.
# - Fusing saves transfers. The ratio of bytes is the most it can give.
# - Beyond the ratio of bytes a speed-up shows that the other side is slow.
# - mean(x²) − mean(x)² cancels. Measure differences from a mean: Welford, or two passes in
#   registers.
# - Count, mean and squares of two parts can be merged, so LayerNorm is a reduction, too.
# - Float16 sums stand still or overflow: store in float16, add in float32.
# - A faster activation in a small network gains nothing, and another one needs another training.

# %% [markdown]
# ## Questions
#
# 1. Why are GELU and Swish equally fast on arrays that are far larger than the caches?
# 2. A figure says 1.9 times PyTorch's speed. Which two questions do you ask first?
# 3. Why are two passes over registers better than Welford's one pass over them?
# 4. A fused kernel of three steps saves 7 → 2 transfers, and is 2.5 times as fast. Good?
# 5. At which means of its rows does `squares` fail, and why did its tests pass?
# 6. A faster GELU in a trained ReLU network: "1.3 times as fast". What do you look at?
#
# <details><summary>Answers</summary>
#
# 1. They move the same bytes, and the bytes bind. The arithmetic happens while loads are under way.
# 2. How many kernels were that, moving how many bytes? And with which clock, at which size?
# 3. Reading registers again costs nothing. Welford divides at each number, and each step waits for
#    the one before.
# 4. The bytes allow 3.5. Its rate is 2.5 / 3.5 = 71% of that of the separate kernels: look for the
#    slow half.
# 5. Where the mean is a thousand times the spread or more. Tests with mean 0 have nothing to
#    cancel.
# 6. How many it still gets right: it was trained with ReLU. And whether both were called in the
#    same way: with or without a graph, first call in or out.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - RMSNorm leaves the mean out: `x / sqrt(mean(x²) + eps) * gamma`. Does it cancel, too?
# - Fuse a residual into your last exercise: GELU(LayerNorm(x + r)). Count the transfers first.
# - Write the shifted sum: subtract a row's first number, then take the shortcut. Up to which mean
#   is it good? Which rows break it?
# - Take a speed-up from a paper or a README that you know. Which of the four comparisons is it?
# - If you have MNIST's files: train the digit network on them with `python -m tools.train.cnn silu
#   --mnist FOLDER --out FILE` (minutes), and let the three programs read its test images.

# %% [markdown]
# ## Common misconceptions
#
# - *"GELU is GELU."* With tanh it is another function, thousands of float32 roundings away.
# - *"The function decides the time."* Not at the roof of memory: GELU and Swish take as long as a
#   copy.
# - *"A formula that is right is right in float32."* The variance below zero came from one.
# - *"Fused means optimal."* Compare the rate with that of a copy.
# - *"A faster activation makes a faster network."* Not if starts take the time.
# - *"A speed-up over PyTorch."* Over which of its calls, and how many kernels were that?

# %% [markdown]
# ## What to read next
#
# - J. Ba, J. Kiros and G. Hinton, [Layer normalization](https://arxiv.org/abs/1607.06450), 2016.
# - D. Hendrycks and K. Gimpel, [GELU](https://arxiv.org/abs/1606.08415), 2016.
# - T. Dao and others, [FlashAttention](https://arxiv.org/abs/2205.14135), 2022: attention fused,
#   with the online softmax inside. [Lesson
#   18](18_a_vision_transformer.ipynb) comes to it.
# - Next in the course: [lesson 14](14_a_network_in_one_kernel.ipynb), A network in one kernel.
