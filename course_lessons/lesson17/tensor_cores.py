# %% [markdown]
# # 17 Tensor cores
#
# A GPU has units that multiply small matrices, and are far faster than those you used so far. But
# they take float16, and each lane must hand over the right ones.

# %% [markdown]
# ## What you will do
#
# - Make one product of 16×8×16 whose 32 lanes you fill in, then a tile of them.
# - Get float32's digits from float16; then write Hopper's wgmma and TMA.

# %% [markdown]
# ## What you will learn
#
# - How a fragment lies in a warp: which lane holds which numbers.
# - Why there are swizzles, descriptors and waves of tiles.

# %% [markdown]
# ## What you need
#
# [Lesson 06](06_reuse_reuse_reuse.ipynb): its ladder, with the deepening sections (two buffers,
# warp tiles). [Lesson 05](05_shared_memory.ipynb) for banks, [lesson
# 03](03_measuring_honestly.ipynb) for roofs. No GPU is needed: times were recorded on an NVIDIA
# H200.

# %% [markdown]
# ## How long it takes
#
# After section 3 is a good place for a break.

# %%
# NBVAL_IGNORE_OUTPUT
import numpy as np
from numba import float32, int32, uint32

from course import CompilerMissing, check, compiled, cuda, gpu, plots, predict, progress
from course import recorded_roofs
from warpsim.ptx import mma_f16
from course_lessons.lesson06 import ladder
from course_lessons.lesson17 import hopper, pictures
from course_lessons.lesson17.shares import pair, share_of_a, share_of_b, store_sums
from course_lessons.lesson17.shares import split_share_of_a, split_share_of_b

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 Units that multiply halves
#
# <kbd>core</kbd> 5 minutes
#
# An H200 has units that multiply small matrices: **tensor cores**. A warp hands them a piece of
# 16×16 and one of 16×8, and gets 16×8 sums back. They take **float16**, and are far faster than the
# units of [lesson 06](06_reuse_reuse_reuse.ipynb). But float16 has 11 bits, and float32 has 24.

# %%
rates = recorded_roofs("H200").rates
print(f"float32 {rates['float32']:.0f} TFLOP/s, tensor cores {rates['tensor_float16']:.0f}")
print(f"{rates['tensor_float16'] / rates['float32']:.0f} times as fast, measured on an H200")

# %% [markdown]
# What does that do to a reconstruction's result? NumPy can tell. The error is that of the whole
# matrix, relative to the exact result in float64. Predict it for factors that are simply rounded to
# float16.

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
# ## 2 One product, lane by lane
#
# <kbd>core</kbd> 25 minutes
#
# A product is one instruction of a **whole warp**: c + a b, where a is 16×16, b is 16×8, c is 16×8.
# That is 2,048 products and additions at once. No lane has a matrix: each holds its share in
# registers. All shares of a matrix together are called a **fragment**.
#
# a and b are float16, c is float32. The work is shared equally among 32 lanes. How many numbers of
# a, of b and of c does a lane hold?

# %%
predict("numbers of a, of b, of c in a lane", 8, 4, 4, exact=True, numbers=3)

# %%
shares = tuple(size // 32 for size in (16 * 16, 16 * 8, 16 * 8))
predict.answer("numbers of a, of b, of c in a lane", shares, how="computed")

# %% [markdown]
# Which ones? That is fixed in the hardware. Here it is as the simulator has it. Two float16 lie
# side by side in a register of 32 bits, so a lane has four registers of a and two of b:

# %%
pictures.fragments(lane=5)

# %% [markdown]
# Find lane 5 in each picture. With `g = lane // 4`, from 0 to 7, and `q = lane % 4`, it has g = 1
# and q = 1. Pairs of b lie **below** each other: they are neighbours in k. In words:
#
# | in registers | rows | columns |
# |---|---|---|
# | a: four pairs | g, g + 8, g, g + 8 | 2q, 2q + 1; in the last two + 8 |
# | b: two pairs | 2q, 2q + 1; in the second + 8 | g |
# | c: four sums | g, g, g + 8, g + 8 | 2q, 2q + 1, 2q, 2q + 1 |

# %% [markdown]
# ### Exercise: one product
#
# Write `a @ b` to `out`, with one warp: 16×16 times 16×8. `pair(x, y)` rounds two numbers to
# float16 and puts them into one register, x first. `mma_f16(c, of_a, of_b)` takes four sums, a
# tuple of four pairs and a tuple of two, and **returns** four sums. All numbers here are whole and
# small, so float16 holds them.
#
# <details><summary>Hint 1: the first pair of a</summary>
#
# With `k = 2 * q` it is `pair(a[g, k], a[g, k + 1])`. The second one is 8 rows below, the third 8
# columns to the right, the fourth both.
#
# </details>
#
# <details><summary>Hint 2: the pairs of b</summary>
#
# `pair(b[k, g], b[k + 1, g])`, and the same 8 rows below.
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
    k = 2 * q
    of_a = (
        pair(a[g, k], a[g, k + 1]),
        pair(a[g + 8, k], a[g + 8, k + 1]),
        pair(a[g, k + 8], a[g, k + 9]),
        pair(a[g + 8, k + 8], a[g + 8, k + 9]),
    )
    of_b = (pair(b[k, g], b[k + 1, g]), pair(b[k + 8, g], b[k + 9, g]))
    c = mma_f16(c, of_a, of_b)
    out[g, k], out[g, k + 1] = c[0], c[1]
    out[g + 8, k], out[g + 8, k + 1] = c[2], c[3]
    ### END SOLUTION


# %% tags=["check"]
check("one-product", one_product)

# %% [markdown]
# (It needs compute capability 8.0: an A100 or newer, and the check simulates one. A T4 has the
# older `mma_f16_k8`, with half of the k: the first two pairs of a, the first of b.)

# %% [markdown]
# ## 3 A tile from products
#
# <kbd>core</kbd> 20 minutes
#
# One product loads 16×16 + 16×8 numbers and makes 16·8·16 products: how many for each number? If a
# warp makes two of them side by side, 16×16 sums, the fragment of a serves both: how many then? And
# if a **block** makes 128×128 sums, each 16 of k at a time?

# %%
predict("products for a number: 16 x 8, 16 x 16, 128 x 128", 5, 8, 64, within=1.1, numbers=3)


# %%
def products_a_number(rows, columns, depth=16):
    """Products that are made for each number of a and b that is loaded."""
    return rows * columns * depth / (rows * depth + depth * columns)


sizes = ((16, 8), (16, 16), (128, 128))
found = tuple(round(products_a_number(*size), 1) for size in sizes)
predict.answer("products for a number: 16 x 8, 16 x 16, 128 x 128", found, how="computed")

# %% [markdown]
# That is [lesson 06](06_reuse_reuse_reuse.ipynb)'s arithmetic, and its cure: larger tiles. But
# here it presses harder. These units multiply more than ten times as fast, and the numbers come
# from the same memories. So all that follows is about feeding them.

# %% [markdown]
# ### Exercise: a tile, along all of k
#
# A warp makes 16×16 sums of `a @ b`: `left` has columns 0 to 7 of the tile, `right` 8 to 15. All
# sizes are multiples of 16. Load each number of a **once**.
#
# Your shares of the first exercise are given as functions, for any place:
#
# - `share_of_a(a, row, k)`: rows `row` and 8 below, k, k + 1 and 8 farther.
# - `share_of_b(b, k, column)`
# - `store_sums(out, row, column, c)`
#
# For lane 5 and the tile's first product that was `share_of_a(a, 1, 2)` and `share_of_b(b, 2, 1)`.
#
# <details><summary>Hint 1: the loop</summary>
#
# `for start in range(0, a.shape[1], 16)`, and in it `k = start + 2 * q`.
#
# </details>
#
# <details><summary>Hint 2: the sums</summary>
#
# They go on: `left = mma_f16(left, of_a, ...)`. Store after the loop.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def tile_of_products(a, b, out):
    """Write 16 x 16 sums of a b; a warp is a block, x walks along the columns."""
    lane = cuda.threadIdx.x
    g, q = lane // 4, lane % 4
    row, column = 16 * cuda.blockIdx.y, 16 * cuda.blockIdx.x
    zeros = (float32(0), float32(0), float32(0), float32(0))
    ### BEGIN SOLUTION
    left, right = zeros, zeros
    for start in range(0, a.shape[1], 16):
        k = start + 2 * q
        of_a = share_of_a(a, row + g, k)
        left = mma_f16(left, of_a, share_of_b(b, k, column + g))
        right = mma_f16(right, of_a, share_of_b(b, k, column + 8 + g))
    store_sums(out, row + g, column + 2 * q, left)
    store_sums(out, row + g, column + 8 + 2 * q, right)
    ### END SOLUTION


# %% tags=["check"]
check("tile-of-products", tile_of_products)

# %% [markdown]
# The sums never leave the registers until k is done. They are float32, so only the *factors* lose
# digits. (What happens to sums that are float16 themselves is a subject of [lesson
# 18](18_a_vision_transformer.ipynb).)

# %% [markdown]
# ## 4 Two halves for one number
#
# <kbd>core</kbd> 25 minutes
#
# Factors in float16 are at least eighty times worse. The cure: write each number as a **sum of two
# float16**. `upper` is the number, rounded; `lower` is what rounding left over, rounded. Each has
# 11 bits. Do they have 22 together? One more: `lower` has a sign of its own, since `upper` may be
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
# So two float16 hold 23 of float32's 24 bits, and often all: at most the last one is lost.
#
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
# **But float16 has a short range.** The largest is 65,504, the smallest 6·10⁻⁸. What becomes of
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
# ### Exercise: a float32 product of halves
#
# The same on tensor cores: `out = a @ b`, 16×16 times 16×8, of numbers that are not whole. A lane's
# shares come in two parts each, upper and lower. Make the products that are needed, and no more.
# All sums go to the same c.
#
# <details><summary>Hint</summary>
#
# A product's sums are the `c` of the next: `c = mma_f16(c, ...)`, three times. `store_sums(out,
# row, column, c)` as before: row g, column 2 q.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def split_product(a, b, out):
    """Write a b, 16 x 16 times 16 x 8, as exactly as float32."""
    lane = cuda.threadIdx.x
    g, q = lane // 4, lane % 4
    upper_a, lower_a = split_share_of_a(a, g, 2 * q)
    upper_b, lower_b = split_share_of_b(b, 2 * q, g)
    zeros = (float32(0), float32(0), float32(0), float32(0))
    ### BEGIN SOLUTION
    c = zeros
    c = mma_f16(c, lower_a, upper_b)
    c = mma_f16(c, upper_a, lower_b)
    c = mma_f16(c, upper_a, upper_b)
    store_sums(out, g, 2 * q, c)
    ### END SOLUTION


# %% tags=["check"]
check("split-product", split_product)

# %% [markdown]
# (The package's kernels also do this with **TF32**, float32 rounded to 11 bits: *3xTF32*. Its range
# is float32's, so it needs no power of two; but an H200 makes only half as many of them.)

# %% [markdown]
# ## 5 Sums outside
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
# ## 6 What a `//` costs
#
# <kbd>core</kbd> 5 minutes
#
# Fast kernels give each block a tile by its number: row `tile // across`, column `tile % across`.
# In Numba `int32 // int32` is an **int64**, as sums and products of integers are. A sum of 64 bits
# is two instructions. For a division a GPU has none at all: it is a small program.


# %%
@cuda.jit
def by_division(across, out):
    """Write row and column of each block's tile, by // and %."""
    tile, across = int32(cuda.blockIdx.x), int32(across)
    out[tile, 0], out[tile, 1] = tile // across, tile % across


@cuda.jit
def by_float32(across, out):
    """The same: a quotient in float32, cut; then what is left."""
    tile, across = int32(cuda.blockIdx.x), int32(across)
    row = int32(float32(tile) / float32(across))
    out[tile, 0], out[tile, 1] = row, tile - int32(row * across)


@cuda.jit
def by_bits(across, out):
    """The same where across is 32: a shift and a mask."""
    tile = int32(cuda.blockIdx.x)
    out[tile, 0], out[tile, 1] = tile >> int32(5), tile & int32(31)


# %%
# is a quotient in float32 right?
tiles = np.arange(2**18)
wrong = 0
for across in range(1, 101):
    quotient = (tiles.astype(np.float32) / np.float32(across)).astype(np.int32)
    wrong += int(np.sum(quotient != tiles // across))
print(f"{wrong} of {100 * tiles.size:,} quotients are wrong")

# %% [markdown]
# A float32 has 24 bits, and division rounds to the nearest one. Below 2²⁴ a quotient can not be
# rounded up to the next whole number. No result has that many tiles.
#
# Now ask the compiler, for an H200. By bits this kernel needs 12 registers. How many by division?

# %%
predict("registers of the tile's place, by division", 20, within=1.3)

# %%
# NBVAL_IGNORE_OUTPUT
try:
    for kernel in (by_bits, by_float32, by_division):
        facts = compiled(kernel, "void(int32, int32[:, ::1])", target="sm_90")
        wide = facts.ptx.count("div.s64") + facts.ptx.count("rem.s64")
        print(f"{facts.name:12}{facts.registers:3} registers, divisions of 64 bits: {wide}")
    needed = facts.registers
except CompilerMissing:
    needed = 22
    print("The extra compile is not installed. CUDA 13.0 gave by_bits 12 registers,")
    print("by_float32 14, and by_division 22, which alone divides 64 bits.")
predict.answer("registers of the tile's place, by division", needed, how="found")

# %% [markdown]
# Ten registers seem few. A thread that multiplies 128×256 tiles keeps 128 sums in registers and may
# have 168 (section 17). If the rest does not fit, sums are **spilled** to memory. And without
# optimisation at link time a division is a *call*: before a call the compiler waits for all tensor
# cores. So: shifts, float32 quotients, or a division before the loop; and
# `int32(...)` around an index.

# %% [markdown]
# ## 7 Past cuBLAS
#
# <kbd>core</kbd> 5 minutes
#
# The simulator has the tensor cores' instructions as well. Here are both kinds on the arrays of
# this lesson. Each has three kernels, two that split the factors and one that multiplies (section
# 9). They are: **float16 in pairs**, and **TF32**, the fast-and-loose choice. TF32 is float32
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
print(ladder.Table(["warp tiles", "tensor cores", "warpgroups", "tf32"]))
print()
for name in ("cupy", "warp tiles", "tensor cores", "warpgroups", "tf32"):
    error = ladder.recorded(name, "error")
    print(f"{name:13} error {error.median:.1e}" if error else f"{name:13} not recorded")

# %% [markdown]
# Past cuBLAS, and *more* accurate than it: sums of 16 added in float32 round less often than sums
# that grow one by one. `warpgroups` make the same three products with Hopper's own instructions
# (section 14), at more than three times cuBLAS's speed. TF32 needs one product instead of three.
# Choose it if three digits are enough, and **say** that you did: who compares TF32 with float32
# compares two different jobs.

# %%
# NBVAL_IGNORE_OUTPUT
print(ladder.measure("tensor cores"))

# %% [markdown]
# ## 8 Looking back
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

# %% [markdown]
# ## 9 Split once, in fragments
#
# <kbd>deepening</kbd> 5 minutes
#
# Where are the numbers split? In [lesson 06](06_reuse_reuse_reuse.ipynb)'s warp tiles, every block
# in a row of blocks brings the same numbers of `u` to shared memory. Splitting is work. How often
# would the same number be split there, with blocks of 128×128 and an image of 8192×8192?

# %%
predict("times that blocks split the same number of u", 64, exact=True)

# %%
predict.answer("times that blocks split the same number of u", 8192 // 128, how="computed")

# %% [markdown]
# So it is done **once**, by two small kernels that go first
# (`course/kernels/reconstruct/split_factors.py`). They write the numbers in the order in which
# tensor cores want them. A **fragment** is what a warp hands over, 16 rows × 16 values of i. Each
# lane's share is 16 bytes in a row. Whatever is awkward ends there: rows that are not aligned, an
# edge, a k that fills no tile. Behind them are zeros.

# %% [markdown]
# The third kernel (`course/kernels/reconstruct/tensor_tiles.py`) is `asynchronous` of [lesson
# 06](06_reuse_reuse_reuse.ipynb) (section 13) with other products. Copies bring the next tile of
# fragments while this one is multiplied. There they could not pay, since `s` had to be multiplied
# on the way. Here nothing is left to do on the way.
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
# ## 10 A tile that is swizzled
#
# <kbd>deepening</kbd> 20 minutes
#
# A block brings tiles to shared memory, and its warps read fragments from there. Take a tile of 16
# rows of 64 float16: a row has 128 bytes, 32 words, **all 32 banks**. A fragment's first register
# is word q of row g: eight rows, four words of each. How many wavefronts is that read?

# %%
predict("wavefronts of a fragment's register, rows of 128 bytes", 8, exact=True)

# %%
_, wavefronts = pictures.lying(flip=0)
question = "wavefronts of a fragment's register, rows of 128 bytes"
predict.answer(question, wavefronts, how="counted")

# %% [markdown]
# In each row the four words lie in the same four banks. [Lesson 05](05_shared_memory.ipynb) padded
# rows. But padding costs memory. The hardware that copies whole tiles (section 15) knows another
# cure. Chunks of 16 bytes **change places within their row**, in another way in each of eight rows.
# Chunk c of row r lies at place `c ^ (r % 8)`. That is a **swizzle**:

# %%
pictures.swizzle()

# %% [markdown]
# Why `^`, the exclusive or? For any fixed row it only exchanges places, two by two. For a fixed
# chunk the eight rows give eight different places. And doing it twice undoes it, so filling and
# reading have the same rule. For words it is `word ^ (row % 8 * 4)`: a chunk has four words, and
# their order in it stays.

# %% [markdown]
# ### Exercise: fragments without conflicts
#
# `a` has 16 rows of 32 words, a pair of float16 each. Bring it to `tile`, swizzled, by whole rows.
# Then write to `out[step, r, lane]` register r of the lane's share, for steps 0 to 3: row
# `g + 8 * (r % 2)`, word `8 * step + 4 * (r // 2) + q`. No conflict is allowed.
#
# <details><summary>Hint 1: filling</summary>
#
# A row at a time, lane l brings word l: `tile[row, lane ^ (row % 8 * 4)] = a[row, lane]`.
#
# </details>
#
# <details><summary>Hint 2: between</summary>
#
# Other lanes read what a lane wrote: `cuda.syncwarp()`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def swizzled_tile(a, out):
    """Write the fragments of a, 16 rows of 32 words, through a swizzled tile."""
    tile = cuda.shared.array((16, 32), uint32)
    lane = cuda.threadIdx.x
    g, q = lane // 4, lane % 4
    ### BEGIN SOLUTION
    for row in range(16):
        tile[row, lane ^ (row % 8 * 4)] = a[row, lane]
    cuda.syncwarp()
    for step in range(4):
        for r in range(4):
            row, word = g + r % 2 * 8, 8 * step + r // 2 * 4 + q
            out[step, r, lane] = tile[row, word ^ (row % 8 * 4)]
    ### END SOLUTION


# %% tags=["check"]
check("swizzled-tile", swizzled_tile)

# %% [markdown]
# (An instruction, `ldmatrix`, reads four registers of all lanes at once, from rows of 16 bytes: one
# chunk is what one of its rows needs. It has the same conflicts, and the same cure. Rows padded to
# 36 words would have no conflicts either, but TMA cannot pad them so: it swizzles.)

# %% [markdown]
# ## 11 Waves of tiles
#
# <kbd>deepening</kbd> 20 minutes
#
# An H200 has 132 SMs, and a block with a large tile fills one. So tiles come in **waves** of 132,
# and the last wave may be nearly empty. Take a result of 12,608×768, from a layer of a network. In
# tiles of 128×256 it has 99×3. For what share of the time are the SMs at work? And with the
# *smaller* tiles of 128×192?

# %%
predict("share of the time at work: 128 x 256, 128 x 192", 0.9, 0.8, within=1.1, numbers=2)

# %%
shares_at_work = []
for tile in ((128, 256), (128, 192), (128, 128)):
    number = hopper.waves(12_608, 768, tile)
    shares_at_work.append(round(number / np.ceil(number), 2))
    print(f"{tile[0]} x {tile[1]}: {number:.2f} waves, at work {shares_at_work[-1]:.0%}")
question = "share of the time at work: 128 x 256, 128 x 192"
predict.answer(question, tuple(shares_at_work[:2]), how="computed")

# %% [markdown]
# So the best tile depends on the shape. Large tiles load less for a product (section 3), small ones
# leave less of the last wave empty. A front door that picks a kernel has to weigh both.

# %% [markdown]
# **Which tiles are at work at the same time?** They read strips of a and of b, from the L2 cache if
# a neighbour has just read the same. Row by row a wave needs few strips of a, and all of b. In
# **bands** of rows it is nearly a square:

# %%
pictures.orders()

# %% [markdown]
# ### Exercise: the order of tiles
#
# `tile_of(number, down, across, band)` returns row and column of a tile, of `down` × `across` of
# them. Bands are `band` rows high. In a band tiles go down first, then to the right, as in the
# picture. The last band may have fewer rows.
#
# <details><summary>Hint</summary>
#
# A whole band has `band * across` tiles: `divmod` gives the band, and the place in it. The band's
# height is `min(band, down - first_row)`.
#
# </details>


# %% tags=["exercise"]
def tile_of(number, down, across, band):
    """Return row and column of the tile of that number."""
    ### BEGIN SOLUTION
    whole, within = divmod(number, band * across)
    high = min(band, down - whole * band)
    return whole * band + within % high, within // high
    ### END SOLUTION


# %% tags=["check"]
check("tile-order", tile_of)

# %% [markdown]
# At 8192×8192 in tiles of 128×256 a wave of 132 has 64×32 tiles to choose from. How many strips
# does it need row by row, and how many in bands of 8 rows?

# %%
predict("strips of a wave: row by row, bands of 8", 37, 25, exact=True, numbers=2)

# %%
found = tuple(hopper.strips(64, 32, 132, band) for band in (1, 8))
predict.answer("strips of a wave: row by row, bands of 8", found, how="counted")

# %% [markdown]
# ## 12 The ladder to wgmma
#
# <kbd>deepening</kbd> 35 minutes
#
# On Hopper (compute capability 9.0) tensor cores have instructions that feed themselves. A ladder
# leads there, each step for one reason. (Blackwell has others again; the reasons stay.)

# %% [markdown]
# | step | what is new | what it saves | file |
# |---|---|---|---|
# | mma, cp.async | copies beside products | waiting for memory | `mma_sync.py` |
# | wgmma | four warps give one order | fragments in registers | `wgmma.py` |
# | TMA | one thread orders a whole tile | all threads' addresses | `tma.py` |
# | roles | some warps copy, some multiply | waiting for each other | `warp_specialised.py` |
# | persistent | a block takes tile after tile | starts, the first wait | |
# | staged results | out through shared memory | narrow stores | |
# | clusters | blocks share what one brings | traffic from L2 | |

# %% [markdown]
# The files are in `course/kernels/gemm`. `wgmma.py` and `tma.py` are as short as they can be;
# `warp_specialised.py` has three steps, and all types and layouts.

# %% [markdown]
# **What binds the first step?** Let a warp make 64×64 sums, 128 in each lane. For 16 of k it reads
# 64×16 float16 of a and as many of b from shared memory, which gives 128 bytes a cycle. An SM's
# tensor cores make 2,048 products a cycle. How many cycles does shared memory need for each of
# theirs?

# %%
predict("cycles of shared memory for one of tensor cores, 64 x 64", 1, within=1.2)

# %%
reading, multiplying = hopper.shared_clocks(2 * 64 * 16), hopper.tensor_clocks(64, 64, 16)
question = "cycles of shared memory for one of tensor cores, 64 x 64"
predict.answer(question, reading / multiplying, how="computed")

# %% [markdown]
# Both would have to be busy all the time, and the copies into shared memory come on top. So with
# fragments in registers the tensor cores wait.

# %% [markdown]
# **wgmma** needs no fragments. A *warpgroup*, four warps, gives one order for 64×256 sums. The
# tensor cores read a and b from shared memory themselves. For what share of their cycles is shared
# memory busy now?

# %%
predict("share of the cycles, wgmma of 64 x 256", 0.5, within=1.15)

# %%
multiplying = hopper.tensor_clocks(64, 256, 16)
busy = hopper.shared_clocks((64 + 256) * 16) / multiplying
predict.answer("share of the cycles, wgmma of 64 x 256", busy, how="computed")

# %% [markdown]
# (At least: what else the hardware reads is not published. And `mma.sync` itself may not reach
# Hopper's full rate; shared memory is one reason.) The next five sections take one instruction at a
# time. All of it runs here, on the simulator.

# %% [markdown]
# ## 13 A descriptor
#
# <kbd>deepening</kbd> 10 minutes
#
# How does wgmma know where a tile lies? By a **descriptor** of 64 bits. Addresses and distances
# count in units of 16 bytes:
#
# | bits | field |
# |---|---|
# | 0 to 13 | address |
# | 16 to 29 | `leading`: of no use here, where rows lie along k and are swizzled |
# | 32 to 45 | `stride`: from one group of eight rows to the next |
# | 62 and 63 | swizzle: 0 none, 1 of 128 bytes, 2 of 64, 3 of 32 |

# %% [markdown]
# ### Exercise: the descriptor
#
# Fill in the fields. All three distances are given in bytes.
#
# <details><summary>Hint</summary>
#
# `address >> 4` is the address in units of 16 bytes. A field at bit 16 is shifted by `<< 16`.
#
# </details>


# %% tags=["exercise"]
def descriptor(address, leading, stride, swizzle):
    """Return the 64 bits that tell wgmma where a tile lies; three in bytes, swizzle from 0 to 3."""
    ### BEGIN SOLUTION
    return address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62
    ### END SOLUTION


# %% tags=["check"]
check("wgmma-descriptor", descriptor)

# %% [markdown]
# ## 14 One product of a warpgroup
#
# <kbd>deepening</kbd> 15 minutes
#
# `wgmma_nt(c, tiles, i, tiles, j, keep)` makes that descriptor and begins `c + a b'`, 64 deep.
# `tiles[i]` is where a begins, `tiles[j]` where b does; without `keep` the sums begin at 0.
#
# - It returns **at once**. `wgmma_sums(c)` waits; before that, a sum is garbage.
# - The tensor cores read shared memory on a path of their own. What threads **stored** they see
#   only after each of these threads has called `fence_async()`.
# - All 128 threads store the tiles. So somebody must wait for all.
#
# `put_tile` stores 64×64 float16, swizzled as in section 10; `save_sums` stores a thread's 32 sums.

# %%
import inspect

from numba import uint64

from course_lessons.lesson17 import steps
from course_lessons.lesson17.steps import TILE, put_tile, save_sums
from warpsim.ptx import (
    fence_async, fence_mbarriers, mbarrier_arrive, mbarrier_expect, mbarrier_init, mbarrier_wait,
    tma_load, unpack, wgmma_nt, wgmma_sums, wgmma_zeros,
)  # fmt: skip

SIDE, BOTH = 64 * 64, 2 * 64 * 64  # elements of a tile, of two
print(inspect.getsource(put_tile.py_func))

# %% [markdown]
# ### Exercise: four statements in order
#
# Put the four in order: the fence, the barrier, the product, the wait. Move whole lines. Two orders
# are right.
#
# <details><summary>Hint</summary>
#
# Who stored calls the fence. The product reads what *other* threads stored.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def one_wgmma(a, b, out):
    """Write a b', 64 x 64 x 64, by one warpgroup."""
    tiles = cuda.shared.array(BOTH, np.float16, alignment=1024)
    local = cuda.local.array(32, float32)
    c = wgmma_zeros(64)
    put_tile(tiles, 0, a)
    put_tile(tiles, SIDE, b)
    ### BEGIN ORDER
    fence_async()
    cuda.syncthreads()
    c = wgmma_nt(c, tiles, int32(0), tiles, int32(SIDE), int32(0))
    c = wgmma_sums(c)
    ### END ORDER
    unpack(local, c)
    save_sums(out, local, 0)


# %% tags=["check"]
check("one-wgmma", one_wgmma)

# %% [markdown]
# Without the fence the sums are right in the simulator. It is a race all the same: on a GPU the
# tensor cores may read what lay there before. Try it: put the fence last.

# %% [markdown]
# ## 15 One box by TMA
#
# <kbd>deepening</kbd> 15 minutes
#
# 128 threads computed 8,192 addresses for these tiles. TMA, the *tensor memory accelerator*, needs
# **one** thread that names a box of a matrix. The bytes arrive later, swizzled, and are counted by
# an **mbarrier**, a barrier in shared memory. Six steps bring a box:
#
# | step | does |
# |---|---|
# | `mbarrier_init(arrived, 0, 1)` | one arrival ends a phase of the mbarrier, with its bytes |
# | `fence_mbarriers()` | TMA may know the mbarriers that were initialised before |
# | `cuda.syncthreads()` | so may all threads |
# | `mbarrier_expect(arrived, 0, size)` | arrive, and announce bytes |
# | `tma_load(tile, 0, box, (0, 0), arrived, 0)` | begin the copy |
# | `mbarrier_wait(arrived, 0, 0)` | by all: until the phase of parity 0 is over |

# %% [markdown]
# ### Exercise: the bytes, and six steps in order
#
# Say in `size` how many bytes arrive: those of all of `out`, which has float16. Then put the six
# steps in order: move whole statements. Several orders are right.
#
# <details><summary>Hint</summary>
#
# Nobody may touch the mbarrier before it is initialised, and seen by all. What is announced and not
# loaded is waited for without end.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def one_box(box, out):
    """Bring a box of a matrix to shared memory, and store it row by row; 128 threads."""
    tile = cuda.shared.array(0, np.float16, alignment=1024)
    arrived = cuda.shared.array(1, uint64)
    t = cuda.threadIdx.x
    ### BEGIN SOLUTION
    size = 2 * out.size
    ### END SOLUTION
    ### BEGIN ORDER
    if t == 0:
        mbarrier_init(arrived, 0, 1)
    fence_mbarriers()
    cuda.syncthreads()
    if t == 0:
        mbarrier_expect(arrived, 0, size)
    if t == 0:
        tma_load(tile, 0, box, (0, 0), arrived, 0)
    mbarrier_wait(arrived, 0, 0)
    ### END ORDER
    for n in range(t, out.size, 128):
        row, column = n // 64, n % 64
        out[row, column] = tile[64 * row + (column // 8 ^ row % 8) * 8 + column % 8]


# %% tags=["check"]
check("one-box", one_box)

# %% [markdown]
# With too few bytes, or too many, the phase never ends: all threads wait for ever, and a GPU hangs.
# Announce half of them, and check: the simulator calls it a deadlock, and says what arrived.

# %% [markdown]
# ## 16 A ring of stages
#
# <kbd>deepening</kbd> 15 minutes
#
# One box at a time leaves the tensor cores waiting. So a block has several **stages**, and fills
# them in turn: a ring. A *stage* is 128×64 float16 of a and 64×256 of b. A block has 227 KiB. How
# many stages fit?

# %%
predict("stages of 128 x 64 and 64 x 256 halves", 4, exact=True)

# %%
question = "stages of 128 x 64 and 64 x 256 halves"
predict.answer(question, hopper.stages(128, 256, 64), how="computed")

# %% [markdown]
# Each stage has two mbarriers. **full**: its bytes have arrived. **empty**: all have read it. They
# count rounds by a **parity**. In the first round consumers wait for full's phase of parity 0, in
# the second of 1, then 0 again.
#
# The producer waits for `empty` of the round **before**, which has the other parity. In the first
# round there is none: on a new mbarrier a wait for parity 1 is over at once.

# %% [markdown]
# ### Exercise: a step's place in the ring
#
# Return three numbers: a step's stage, the parity of `full` that consumers wait for, and that of
# `empty` before the producer refills.
#
# <details><summary>Hint</summary>
#
# The round is `step // stages`.
#
# </details>


# %% tags=["exercise"]
def ring_place(step, stages):
    """Return stage, parity of full and parity of empty for a step along k."""
    ### BEGIN SOLUTION
    parity = step // stages % 2
    return step % stages, parity, 1 - parity
    ### END SOLUTION


# %% tags=["check"]
check("ring-place", ring_place)

# %% [markdown]
# ## 17 Roles
#
# <kbd>deepening</kbd> 20 minutes
#
# **Roles**: some warps copy, others multiply, and each waits only for what it needs. Here are the
# instructions of the last sections together, in a ring of two stages. Thread 0 copies, warps 4 to 7
# multiply.


# %%
@cuda.jit(device=True)
def following(stage, parity):
    """The next stage of a ring of two; after the last one the parity changes."""
    return (int32(1), parity) if stage == 0 else (int32(0), int32(parity ^ 1))


# %% [markdown]
# ### Exercise: who waits for whom
#
# Three lines are missing: a wait by who copies, a wait by those who multiply, and an arrival by one
# thread of each warp. At which mbarrier are they, and for which parity?
#
# <details><summary>Hint</summary>
#
# Section 16: the producer waits for `empty` of the round before. `mbarrier_init(empty, s, 4)` says
# how many arrive there.
#
# </details>


# %% tags=["exercise", "long"]
@cuda.jit
def by_roles(a, b, out, steps):
    """Write a b', 64 x 64; thread 0 copies, warps 4 to 7 multiply."""
    tiles = cuda.shared.array(0, np.float16, alignment=1024)
    full = cuda.shared.array(2, uint64)
    empty = cuda.shared.array(2, uint64)
    t, stage, parity = cuda.threadIdx.x, int32(0), int32(0)
    if t == 0:
        for s in range(2):
            mbarrier_init(full, s, 1)
            mbarrier_init(empty, s, 4)
        fence_mbarriers()
    cuda.syncthreads()
    if t == 0:
        for step in range(steps):
            ### BEGIN SOLUTION
            mbarrier_wait(empty, stage, parity ^ 1)
            ### END SOLUTION
            mbarrier_expect(full, stage, 4 * TILE)
            tma_load(tiles, 2 * stage * TILE, a, (0, 64 * step), full, stage)
            tma_load(tiles, (2 * stage + 1) * TILE, b, (0, 64 * step), full, stage)
            stage, parity = following(stage, parity)
    if t >= 128:
        local, sums = cuda.local.array(32, float32), wgmma_zeros(64)
        for step in range(steps):
            ### BEGIN SOLUTION
            mbarrier_wait(full, stage, parity)
            ### END SOLUTION
            at = int32(2 * stage * TILE)
            sums = wgmma_sums(wgmma_nt(sums, tiles, at, tiles, at + TILE, step))
            if t % 32 == 0:
                ### BEGIN SOLUTION
                mbarrier_arrive(empty, stage)
                ### END SOLUTION
            stage, parity = following(stage, parity)
        unpack(local, sums)
        save_sums(out, local, 0)


# %% tags=["check"]
check("by-roles", by_roles)

# %% [markdown]
# Now break it, and check each time. Announce a quarter of the bytes: `TILE` for `4 * TILE`. Let one
# arrival of four end a phase: `mbarrier_init(empty, s, 1)`. Who waits for ever, and where?

# %% [markdown]
# The package's `warp_specialised.py` has one warpgroup that copies and two that multiply: 384
# threads. Of 65,536 registers each thread gets 168, and 128 of them are its sums. 40 are left for
# all else: here the `//` of section 6 hurts. But those that copy need few. `setmaxnreg` lets them
# keep 40, and gives 232 to the others.

# %% [markdown]
# ## 18 Beside the package, and cuBLAS
#
# <kbd>deepening</kbd> 15 minutes
#
# Read `tma.py` and `warp_specialised.py` now: you know each of their instructions. New are blocks
# that stay, results staged in shared memory, and **clusters**. Two blocks, one below the other,
# need the same tile of b. Each may bring half of it for both (*multicast*): a third fewer numbers
# from L2, but two blocks that wait for each other.

# %% [markdown]
# **When do blocks that stay gain most?** They bring the next tile while they store the one before.
# Two products were recorded: 4096³, and 12608×2304 results of a depth of 768. For which do blocks
# that stay gain the larger factor over a block for each tile?

# %%
predict("the depth at which blocks that stay gain more", "768", choices=("4096", "768"))

# %%
recorded_steps = hopper.recorded_ladder()
print(f"{'TFLOP/s, k =':22}  4096   768")
for step, (deep, flat) in recorded_steps.items():
    print(f"{step:22}  {deep:4.0f}  {flat:4.0f}")
before, after = recorded_steps["roles, a tile a block"], recorded_steps["roles"]
deep, flat = (new / old for old, new in zip(before, after))
question = "the depth at which blocks that stay gain more"
predict.answer(question, "4096" if deep > flat else "768", how="found")

# %% [markdown]
# A tile of depth 768 is 12 steps: its beginning and its end are a larger part of it. Each rung
# pays, at both depths.
#
# **What binds in the end?** Take 4096³ in float16, each matrix read or written once, at the
# measured roofs:

# %%
roofs = recorded_roofs("H200")
at_cores = 2 * 4096**3 / roofs.rates["tensor_float16"] * 1e-6
at_memory = 3 * 2 * 4096**2 / roofs.bandwidth * 1e-3
print(f"tensor cores {at_cores:.0f} µs, memory {at_memory:.0f} µs")
print(hopper.recorded_products())

# %% [markdown]
# The tensor cores bind, by far. (Their roof varies between recordings, from 662 to 729 TFLOP/s, 208
# to 188 µs. A chip that multiplies all the time comes to the limit of its power, and lowers its
# clock.) In the last column 1 is level, and less is a loss.
#
# The table is of `course.kernels.gemm` beside cuBLAS. 1,576 and 197 rows are a vision transformer's
# 8 images and 1. There a launch, and waves that are partly empty, take what the tensor cores do
# not. Section 7's `warpgroups` is such a kernel for float32. It brings upper and lower parts of
# each tile, and adds sums of 64 products to others in registers.

# %%
progress(17)

# %% [markdown]
# ## What you should be able to say now
#
# - A product is a whole warp's: each lane hands over 8 numbers of a, 4 of b, and gets four sums.
# - A fragment serves several products: larger tiles load less.
# - Two float16 hold 23 bits of a number, if a power of two brings it into their range.
# - Three products of float16 make one of float32; the fourth is below its last bit.
# - Tensor cores cut sums off. Sums of 16 are taken out, and added in registers.
# - `//` is a program of 64 bits. Shifts and float32 quotients are not.
# - TF32 is another job than float32: say which one you timed.

# %% [markdown]
# ## Questions
#
# 1. Lane 13 hands over pairs of a and b. Which rows of a, and which column of b?
# 2. Why may `lower · lower` be left out, and `upper · lower` not?
# 3. Why is x multiplied by a power of two, and not by 10,000?
# 4. Cutting off and rounding lose about as much in one addition. Why is the one worse in a long
#    sum?
# 5. Why do two small kernels split the numbers, and not the blocks that multiply them?
# 6. A colleague times TF32 against float32, and finds 2.7 times the speed. What do you ask?
# 7. 133 tiles for 132 SMs: what share of the time are they at work?
#
# <details><summary>Answers</summary>
#
# 1. g = 3, q = 1: rows 3 and 11, column 3.
# 2. `lower` is at most 2⁻¹¹ of a number. `upper · lower` is 2⁻¹¹ of the product, which float32
#    shows; `lower · lower` is 2⁻²², near its last bit.
# 3. It changes the exponent alone, and no digit. A product with 10,000 is rounded.
# 4. Cutting always goes the same way, so its errors add up. Those of rounding go both ways.
# 5. Each number is needed by a whole row of blocks. Each of them would split it again.
# 6. Whether three digits are enough for the job. If so: what float16 would give. If not, TF32 does
#    not do that job.
# 7. 133 / 264, about half: the second wave has one tile.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Leave the power away in your `split`. For which sizes of numbers do two float16 still give 1e-6?
# - A bfloat16 has 8 bits, and float32's range. How many of them hold a float32 number, and how many
#   products are that?
# - Let a warp of your tile make 32×32 sums. How many numbers does a lane load for each product?
# - In section 5 take the sums out after 64 numbers, then after 256. When does the error return?

# %% [markdown]
# ## Common misconceptions
#
# - *"A lane multiplies its numbers."* It only hands them over; its sums are of others' numbers.
# - *"Tensor cores are inaccurate."* What you feed them decides, and where you add.
# - *"A float16 is too small for such numbers."* Not if each row is scaled first.
# - *"TF32 is float32 on tensor cores."* It has float32's range and a half's digits.
# - *"Three products, so a third of the speed."* A third of a far higher one.
# - *"The largest tile is the fastest."* Not if it leaves a wave nearly empty.

# %% [markdown]
# ## What to read next
#
# - H. Ootomo and R. Yokota, [Recovering single precision accuracy from tensor
#   cores](https://arxiv.org/abs/2203.03341), 2022: float16 in pairs, and sums outside.
# - NVIDIA, [Programming tensor cores in CUDA
#   9](https://developer.nvidia.com/blog/programming-tensor-cores-cuda-9/): the first of them, from
#   CUDA C++.
# - NVIDIA, [PTX ISA](https://docs.nvidia.com/cuda/parallel-thread-execution/): the sections on mma
#   and wgmma have these pictures for all types.
# - Next in the course: [lesson 18](18_a_vision_transformer.ipynb), a vision transformer.
