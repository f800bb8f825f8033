# %% [markdown]
# # 17 Tensor cores
#
# A GPU has units that multiply small matrices, and are far faster than those you used so far. But
# they take halves. You see what that does to a result, and how to get float32's digits back.

# %% [markdown]
# ## What you will do
#
# - Predict what factors in halves do to a product, and look.
# - Write each float32 number as two halves, and see how many products that takes.
# - See what careless adding costs, and where to add instead.
# - Trace three kernels of the package that go past cuBLAS.

# %% [markdown]
# ## What you will learn
#
# - What a tensor core takes, and what it gives back.
# - How to get float32 results from units that multiply halves.
# - Why scaling by a power of two costs no digit.
# - What TF32 is, and why to say so when you use it.

# %% [markdown]
# ## What you need
#
# [Lesson 06](06_reuse_reuse_reuse.ipynb): its ladder, with the deepening sections (two buffers,
# warp tiles). [Lesson 03](03_measuring_honestly.ipynb) for roofs. No GPU is needed: what is counted
# runs here, what is timed was recorded on an NVIDIA H200.

# %% [markdown]
# ## How long it takes
#
# About 55 minutes with the two exercises.
#
# Core: sections 1 to 3, 5 and 6, 35 minutes. Deepening: section 4, 20 minutes.

# %% [markdown]
# ## 1 Units that multiply halves
#
# <kbd>core</kbd> 5 minutes
#
# An H200 has units that multiply small matrices: **tensor cores**. A warp hands them a piece of
# 16×16 and one of 16×8, and gets 16×8 sums back. They take **halves**, float16, and are far faster
# than the units of [lesson 06](06_reuse_reuse_reuse.ipynb). But a half has 11 bits, and float32 has
# 24.

# %%
import numpy as np

from course import check, plots, predict, progress, recorded_roofs
from lessons.lesson06 import ladder
from lessons.lesson17 import pictures

# %%
rates = recorded_roofs("H200").rates
print(f"float32 {rates['float32']:.0f} TFLOP/s, tensor cores {rates['tensor_float16']:.0f}")
print(f"{rates['tensor_float16'] / rates['float32']:.0f} times as fast, measured on an H200")

# %% [markdown]
# What does that do to a reconstruction's result? NumPy can tell. The error is that of the whole
# matrix, relative to the exact result in float64. Predict it for factors that are simply rounded to
# halves.

# %%
predict("relative error with factors in halves", 0.0002, within=3)

# %%
rng = np.random.default_rng(6)
u = rng.random((256, 32), dtype=np.float32)
s = rng.random(32, dtype=np.float32)
vt = rng.random((32, 256), dtype=np.float32)


def relative_error(result):
    """Return the error of a product, relative to float64's."""
    exact = (u.astype(np.float64) * s) @ vt.astype(np.float64)
    return np.linalg.norm(result - exact) / np.linalg.norm(exact)


def halves(x):
    """Return numbers rounded to float16, as float64 to multiply with."""
    return x.astype(np.float16).astype(np.float64)


scaled = vt * s[:, None]
by_halves = halves(u) @ halves(scaled)
print("float32 is good to 1e-6:", relative_error((u * s) @ vt) < 1e-6)
predict.answer(
    "relative error with factors in halves",
    float(f"{relative_error(by_halves):.0e}"),
    how="computed",
)

# %% [markdown]
# ## 2 Two halves for one number
#
# <kbd>core</kbd> 15 minutes
#
# Factors in halves are at least eighty times worse. The cure: write each number as a **sum of two
# halves**. `upper` is the number, rounded; `lower` is what rounding left over, rounded. Each has 11
# bits. Do they have 22 together? One more: `lower` has a sign of its own, since `upper` may be
# rounded up or down.

# %%
pictures.halves()

# %% [markdown]
# Try all float32 numbers from 1 to 2. There are 2²³ of them:

# %%
every = 1 + np.arange(2**23, dtype=np.float32) / np.float32(2**23)
upper = every.astype(np.float16)
lower = (every - upper.astype(np.float32)).astype(np.float16)
off = (every.astype(np.float64) - upper - lower) * 2**23
print(f"{np.mean(off == 0):.0%} exact; all others off by {np.abs(off).max():g} of the last bit")

# %% [markdown]
# So two halves hold 23 of float32's 24 bits, and often all: at most the last one is lost.

# %% [markdown]
# A product is then four products: `upper·upper + upper·lower + lower·upper + lower·lower`. Which
# of them can be left out?

# %%
upper_u, upper_v = halves(u), halves(scaled)
lower_u, lower_v = halves(u - upper_u), halves(scaled - upper_v)
total = upper_u @ upper_v
print(f"upper upper         {relative_error(total):.0e}")
total += upper_u @ lower_v
print(f"  + upper lower     {relative_error(total):.0e}")
total += lower_u @ upper_v
print(f"  + lower upper     below 1e-6: {relative_error(total) < 1e-6}")
total += lower_u @ lower_v
print(f"  + lower lower     below 1e-6: {relative_error(total) < 1e-6}")

# %% [markdown]
# Three products are enough; the fourth is below what float32 can show. Units that are so much
# faster can make three.
#
# **But halves have a short range.** The largest is 65,504, the smallest 6·10⁻⁸. What becomes of
# numbers near a millionth?

# %%
small = np.float32(1.2345678e-6)
upper = np.float16(small)
lower = np.float16(small - np.float32(upper))
print(f"{small:.7e} becomes {float(upper) + float(lower):.7e}")

# %% [markdown]
# Only a few digits survive. So the numbers are first multiplied by a power of two, which changes no
# digit, and the result is divided by it. The largest number of each row of `u`, and of each column
# of `s · vt`, decides its power: it is brought to between 2¹³ and 2¹⁴.

# %% [markdown]
# ### Exercise: a float32 in two halves
#
# A row of `u` comes in. Return `(upper, lower, power)`: two float16 arrays and a power of two, so
# that `(upper + lower) / power` is `x` to 23 bits of its largest number.
#
# <details><summary>Hint 1: the power</summary>
#
# `np.frexp` writes a number as `fraction * 2**exponent`, with a fraction from 0.5 to 1. So
# `_, exponent = np.frexp(np.abs(x).max())`, then `2.0 ** (14 - exponent)`.
#
# </details>
#
# <details><summary>Hint 2: lower</summary>
#
# Subtract in float32: `scaled - upper.astype(np.float32)`. Then round to float16.
#
# </details>


# %% tags=["exercise"]
def split(x):
    """Return (upper, lower, power) of a float32 array; x is (upper + lower) / power."""
    ### BEGIN SOLUTION
    _, exponent = np.frexp(np.abs(x).max())
    power = np.float32(2.0) ** np.float32(14 - exponent)
    upper = (x * power).astype(np.float16)
    lower = (x * power - upper.astype(np.float32)).astype(np.float16)
    return upper, lower, power
    ### END SOLUTION


# %% tags=["check"]
check("split-in-halves", split)

# %% [markdown]
# ## 3 Sums outside
#
# <kbd>core</kbd> 5 minutes
#
# **Tensor cores add carelessly.** They keep float32 sums, but they cut bits off where others
# round. Cutting always goes the same way, so the errors do not cancel. Add 4,096 random numbers
# both ways:


# %%
def cut(x):
    """Return a float64 number cut to float32's 24 bits, towards zero."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.trunc(np.ldexp(fraction, 24)), exponent - 24)


numbers = np.random.default_rng(7).random(4096).astype(np.float32).astype(np.float64)
rounded, cut_off, outside = 0.0, 0.0, 0.0
for first in range(0, 4096, 16):
    piece = 0.0
    for number in numbers[first : first + 16]:
        rounded, cut_off = float(np.float32(rounded + number)), cut(cut_off + number)
        piece = cut(piece + number)
    outside = float(np.float32(outside + piece))
for name, sum_ in (("rounded", rounded), ("cut off", cut_off), ("cut off, added outside", outside)):
    print(f"{name:23} relative error {abs(sum_ - numbers.sum()) / numbers.sum():.0e}")

# %% [markdown]
# The third line is what the kernel does. After every 16 layers (values of i, as in [lesson
# 06](06_reuse_reuse_reuse.ipynb)) it takes the sums out of the tensor cores. It adds them to other
# sums, in registers. There additions round.

# %% [markdown]
# ## 4 Split once, in fragments
#
# <kbd>deepening</kbd> 20 minutes
#
# Where are the numbers split? In the warp tiles of [lesson 06](06_reuse_reuse_reuse.ipynb) (step
# 9), each number of `u` is brought to shared memory by every block in its row of blocks. Splitting
# is work. How often would the same number be split there, with blocks of 128×128 and an image of
# 8192×8192?

# %%
predict("times that blocks split the same number of u", 64, exact=True)

# %%
predict.answer("times that blocks split the same number of u", 8192 // 128, how="computed")

# %% [markdown]
# So it is done **once**, by two small kernels that go first
# (`course/kernels/reconstruct/fragments.py`). They write the halves in the order in which tensor
# cores want them: a **fragment** is what a warp hands over, 16 rows × 16 values of i, and each
# lane's share is 16 bytes in a row. Whatever is awkward ends there: rows that are not aligned, an
# edge, a k that fills no tile. Behind them are zeros.

# %% [markdown]
# The third kernel (`course/kernels/reconstruct/tensor_tiles.py`) is [lesson
# 06](06_reuse_reuse_reuse.ipynb)'s step 8 with other products: asynchronous copies bring the next
# tile of fragments while this one is multiplied. In step 8 they could not pay, since `s` had to be
# multiplied on the way. Here nothing is left to do on the way.
#
# What does the pass cost? It reads both factors and writes as many bytes again. At 8192×8192 with
# k = 2048:

# %%
bytes_moved = 2 * 4 * 2 * 8192 * 2048
seconds = bytes_moved / (recorded_roofs("H200").bandwidth * 1e9)
print(f"at least {seconds * 1e3:.2f} ms of reading and writing")

# %% [markdown]
# With few values of i, as in a stack of small images, the pass would cost more than the products.
# Up to k = 56 there is none: each block brings its rows and columns whole, splits them in registers
# and multiplies (`course/kernels/reconstruct/thin_tiles.py`). [Lesson
# 09](09_a_thousand_images.ipynb) shows what that gives.

# %% [markdown]
# ### A product by hand
#
# The simulator has tensor cores, too, so make one product yourself: 16 × 16 times 16 × 8, by one
# warp. `mma_f16_k8(c, (above, below), right)` multiplies 16 × 8 by 8 × 8 and adds `c`, so it takes
# two. (A newer one, `mma_f16`, takes all 16 values of k at once; this one runs on a T4, too.)
#
# Each lane hands over numbers of its own. With g = lane // 4, from 0 to 7, and q = lane % 4:

# %% [markdown]
# | what | of a lane | rows | columns |
# |---|---|---|---|
# | `above`, of a | a pair of halves | g | 2q, 2q + 1 |
# | `below`, of a | a pair of halves | g + 8 | 2q, 2q + 1 |
# | `right`, of b | a pair of halves | 2q, 2q + 1 | g |
# | `c` | four float32 | g, g, g + 8, g + 8 | 2q, 2q + 1, 2q, 2q + 1 |
#
# (Columns of a and rows of b count from the beginning of the 8 values of k.)

# %%
from numba import float32

from course import cuda
from course.kernels.intrinsics import mma_f16_k8, split_halves


@cuda.jit(device=True)
def pair(x, y):
    """Two numbers as halves, side by side in 32 bits."""
    return split_halves(x, y)[0]


# %% [markdown]
# ### Exercise: which lane hands over what
#
# Write `a @ b` to `out`, with one warp. All numbers are whole and small, so halves hold them.
#
# <details><summary>Hint</summary>
#
# A loop over `start` 0 and 8, and in it `k = start + 2 * q`: `above` is `pair(a[g, k], a[g, k +
# 1])`. The result of the first call is the `c` of the second.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def one_product(a, b, out):
    """Write a b, 16 x 16 times 16 x 8, by one warp's tensor cores."""
    lane = cuda.threadIdx.x
    g, q = lane // 4, lane % 4
    c = (float32(0), float32(0), float32(0), float32(0))
    ### BEGIN SOLUTION
    for start in range(0, 16, 8):
        k = start + 2 * q
        above = pair(a[g, k], a[g, k + 1])
        below = pair(a[g + 8, k], a[g + 8, k + 1])
        right = pair(b[k, g], b[k + 1, g])
        c = mma_f16_k8(c, (above, below), right)
    out[g, 2 * q], out[g, 2 * q + 1] = c[0], c[1]
    out[g + 8, 2 * q], out[g + 8, 2 * q + 1] = c[2], c[3]
    ### END SOLUTION


# %% tags=["check"]
check("one-product", one_product)

# %% [markdown]
# ## 5 Past cuBLAS
#
# <kbd>core</kbd> 5 minutes
#
# The simulator has the tensor cores' instructions as well. Here are both kinds on the arrays of
# this lesson. Each has three kernels, two that split the factors and one that multiplies (section
# 4). They are: **halves in pairs**, and **TF32**, the fast-and-loose choice. TF32 is float32
# rounded to 11 bits, as many as a half has.

# %%
for name in ("tensor cores", "tf32"):
    result = np.zeros((256, 256), np.float32)
    reports = ladder.trace_fragments(name, u, s, vt, 32, result)
    error = relative_error(result)
    print(f"{name:13}", "below 1e-6" if error < 1e-6 else f"{error:.0e}")
products = reports[-1].total("shared", "load")
print("shared wavefronts that conflicts add in the product:", products.conflicts)

# %%
print(ladder.Table(["warp tiles", "tensor cores", "tf32"]))
print()
for name in ("cupy", "warp tiles", "tensor cores", "tf32"):
    error = ladder.recorded(name, "error")
    print(f"{name:13} error {error.median:.1e}" if error else f"{name:13} not recorded")

# %% [markdown]
# Past cuBLAS, and *more* accurate than it: sums of 16 added in float32 round less often than sums
# that grow one by one. TF32 needs one product instead of three. Choose it if three digits are
# enough, and **say** that you did: who compares TF32 with float32 compares two different jobs.

# %%
# NBVAL_IGNORE_OUTPUT
print(ladder.measure("tensor cores"))

# %% [markdown]
# ## 6 Looking back
#
# <kbd>core</kbd> 5 minutes
#
# The ladder's last step in the picture of [lesson 06](06_reuse_reuse_reuse.ipynb). Tensor cores
# have a roof of their own, and the step makes three products for each one that counts here.

# %%
steps = ["tiled", "wide", "warp tiles", "tensor cores"]
points = {name: ladder.recorded(name) for name in steps}
points["CuPy, cuBLAS"] = ladder.recorded(ladder.PEER)
plots.roofline(recorded_roofs("H200"), points, ladder=steps)

# %%
progress(17)

# %% [markdown]
# ## What you should be able to say now
#
# - A warp hands tensor cores fragments of halves, and gets float32 sums back.
# - Two halves hold 23 bits of a number, if a power of two brings it into their range.
# - Three products of halves make one of float32; the fourth is below its last bit.
# - Tensor cores cut sums off. Sums of 16 are taken out, and added in registers, where they round.
# - TF32 is another job than float32: say which one you timed.

# %% [markdown]
# ## Questions
#
# 1. Why may `lower · lower` be left out, and `upper · lower` not?
# 2. Why is x multiplied by a power of two, and not by 10,000?
# 3. Cutting off and rounding lose about as much in one addition. Why is the one worse in a long
#    sum?
# 4. Why do two small kernels split the numbers, and not the blocks that multiply them?
# 5. A colleague times TF32 against float32, and finds 2.7 times the speed. What do you ask?
#
# <details><summary>Answers</summary>
#
# 1. `lower` is at most 2⁻¹¹ of a number. `upper · lower` is 2⁻¹¹ of the product, which float32
#    shows; `lower · lower` is 2⁻²², near its last bit.
# 2. It changes the exponent alone, and no digit. A product with 10,000 is rounded.
# 3. Cutting always goes the same way, so its errors add up. Those of rounding go both ways.
# 4. Each number is needed by a whole row of blocks. Each of them would split it again.
# 5. Whether three digits are enough for the job. If so: what float16 would give. If not, TF32 does
#    not do that job.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Leave the power away in your `split`. For which sizes of numbers do two halves still give 1e-6?
# - A bfloat16 has 8 bits, and float32's range. How many of them hold a float32 number, and how many
#   products are that?
# - In section 3 take the sums out after 64 numbers, then after 256. When does the error return?

# %% [markdown]
# ## Common misconceptions
#
# - *"Tensor cores are inaccurate."* What you feed them decides, and where you add.
# - *"Halves are too small for such numbers."* Not if each row is scaled first.
# - *"TF32 is float32 on tensor cores."* It has float32's range and a half's digits.
# - *"Three products, so a third of the speed."* A third of a far higher one.

# %% [markdown]
# ## What to read next
#
# - H. Ootomo and R. Yokota, [Recovering single precision accuracy from tensor
#   cores](https://arxiv.org/abs/2203.03341), 2022: halves in pairs, and sums outside.
# - NVIDIA, [Programming tensor cores in CUDA
#   9](https://developer.nvidia.com/blog/programming-tensor-cores-cuda-9/): the first of them, from
#   CUDA C++.
# - Next in the course: lesson 18, A vision transformer.
