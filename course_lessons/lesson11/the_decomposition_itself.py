# %% [markdown]
# # 11 The decomposition itself
#
# Until now `u`, `s` and `vt` were given: NumPy made them, on the CPU. Now you make them yourself,
# with many small rotations that do not wait for each other, for many matrices at once. And you see
# what is saved where you ask for less than everything.

# %% [markdown]
# ## What you will do
#
# - Turn pairs of rows until they are orthogonal, by a timetable that you write.
# - Write the kernel that rotates all pairs of a round, a warp a pair.

# %% [markdown]
# ## What you will learn
#
# - Why the textbook's SVD leaves a GPU empty, and an older one fills it.
# - When a random answer is nearly as good as the best one.

# %% [markdown]
# ## What you need
#
# [Lesson 02](02_an_image_from_its_svd.ipynb) for the SVD of an image. Lessons
# [04](04_warps_and_coalescing.ipynb) and [05](05_shared_memory.ipynb) for warps, races, barriers
# and shared memory. [Lesson 10](10_reductions.ipynb) for the five shuffles that add up a number
# over a warp; here they are given. No GPU is needed.

# %% [markdown]
# ## How long it takes
#
# After section 5 is a good place for a break. The computer needs less than half a minute of it.

# %%
# NBVAL_IGNORE_OUTPUT
import math
from dataclasses import replace

import numpy as np
from numba import float32

from course import beside, check, cuda, gpu, images, plots, predict, progress
from course import recorded, recorded_roofs, simulated, trace
from course.kernels import svd
from course.kernels.reconstruct import reconstruct
from course.kernels.svd import rotate
from course_lessons.lesson11 import pictures, toy_svd

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 Why not the textbook's way?
#
# <kbd>core</kbd> 5 minutes
#
# The course's program takes images apart and puts them together again. Putting together is one
# product, and [lesson 06](06_reuse_reuse_reuse.ipynb) made it fast. In [lesson
# 09](09_a_thousand_images.ipynb) `factorise` was left on the CPU, and was the bottleneck.
#
# LAPACK, which NumPy calls, works through a matrix **column by column**. A product from the left
# with a *reflection*, a matrix that keeps lengths, makes zeros in a column, below the diagonal.
# Another from the right makes zeros in a row. Each needs the matrix as the last one has left it.

# %% [markdown]
# So for a matrix of 256×256 there are about 500 steps, two for each column. What happens *inside* a
# step can be shared among threads, a number of the matrix each. An H200 has 132 SMs with 2,048
# threads each. How much of that is busy, in percent, at the first and largest step?

# %%
predict("% of an H200's threads that one 256 x 256 matrix fills", 24, within=1.05)

# %%
h200 = simulated("H200")
places = 2048 * h200.multiprocessors  # threads that are there at the same time
print(f"{places:,} threads at a time, {256 * 256:,} numbers")
share = round(100 * 256 * 256 / places)
predict.answer("% of an H200's threads that one 256 x 256 matrix fills", share, how="computed")

# %% [markdown]
# A quarter, then less and less, 500 times with a wait in between. Sixty-four small matrices do not
# help a library that takes them **one after the other**. (CuPy documents a fast way for batches up
# to 32×32. Beyond, it calls `gesvd` of cuSOLVER, NVIDIA's library, which takes one matrix.)
#
# We want many small steps that do not wait for each other. A method of 1846 has them: **Jacobi's
# rotations**.

# %% [markdown]
# ## 2 A rotation
#
# <kbd>core</kbd> 25 minutes
#
# Take two rows of a matrix, x and y, and mix them:
#
# `x' = c x − s y`, `y' = s x + c y`, with c = cos(angle), s = sin(angle)
#
# (A prime marks what comes out.) The dot product of x' and y', in short x' y', depends on the
# angle. At some angle it is zero: the rows are then **orthogonal**. Rows of two numbers can be
# drawn as arrows. `toy_svd.rotation` finds c and s; you will write it below.

# %%
x, y = np.array([2.0, 0.4]), np.array([1.2, 1.1])
c, s = toy_svd.rotation(x @ x, y @ y, x @ y)
pictures.rotation(x, y, math.atan2(s, c))

# %% [markdown]
# On the right is x' y' at every angle. The grey band holds the angles up to 45 degrees. There is
# always a zero in it, the filled dot. At the other zero, 90 degrees away, x' and y' change places.
#
# Look at the lengths, too. x grew, y shrank. The squared lengths of x and y are 4.16 and 2.65
# before. What is their **sum** afterwards?

# %%
predict("sum of the squared lengths after the rotation", 6.81, exact=True)

# %%
new_x, new_y = c * x - s * y, s * x + c * y
print("orthogonal:", abs(new_x @ new_y) < 1e-12)
total = new_x @ new_x + new_y @ new_y
predict.answer(
    "sum of the squared lengths after the rotation", round(float(total), 2), how="computed"
)

# %% [markdown]
# It stays the same, as c² + s² = 1. The idea of this lesson: rotate the rows of a matrix A
# until **all** are orthogonal. All rotations together are one matrix from the left, J. It is an
# **orthogonal matrix**: its rows are *orthonormal*, orthogonal and of length one, and Jᵀ J
# is the identity. Each row of J A is its length σ times a unit vector. Let these be the rows of V.
# Then J A = diag(σ) V, or
#
# `A = Jᵀ · diag(σ) · V`
#
# That is the SVD: Jᵀ is NumPy's `u`, V its `vt`, and σ its `s`, but for order and signs. (In a
# rotation s is the sine, also in the code below.)

# %% [markdown]
# Which angle? It needs three dot products, three numbers: a = x x, b = y y and g = x y. Put x' and
# y' into x' y' = 0:
#
# `c s (a − b) + (c² − s²) g = 0`
#
# Divide by −c² g. With the tangent t = s / c this becomes
#
# `t² + 2 tau t − 1 = 0`, where `tau = (b − a) / (2 g)`

# %% [markdown]
# It has two solutions, t = −tau ± √(1 + tau²). The one nearer to 0 turns by at most 45 degrees. It
# is a **difference**: √(1 + tau²) − |tau|, and for negative tau minus that. When rows are nearly
# orthogonal, g is tiny and tau huge, say 10⁹. What is left of that difference in float64?

# %%
predict("sqrt(1 + tau**2) - tau for tau = 1e9", 5e-10, exact=True)

# %%
tau = 1e9
print(f"the same number as 1 / (tau + sqrt(1 + tau**2)): {1 / (tau + math.sqrt(1 + tau**2)):.1e}")
predict.answer("sqrt(1 + tau**2) - tau for tau = 1e9", math.sqrt(1 + tau**2) - tau, how="computed")

# %% [markdown]
# Nothing: such rows would never be rotated. Multiply and divide the difference by the sum √(1 +
# tau²) + |tau|, and it becomes a quotient, right to the last digit. The sign of t is that of tau:
#
# `t = sign(tau) / (|tau| + √(1 + tau²))`, then `c = 1 / √(1 + t²)`, `s = t c`

# %% [markdown]
# ### Exercise: the rotation that makes two rows orthogonal
#
# Return (c, s) from the three dot products. The angle is at most 45 degrees. Rows that are
# orthogonal already stay as they are.
#
# <details><summary>Hint</summary>
#
# Two special cases: g = 0, where tau does not exist, and a = b, where tau = 0 has no sign.
# `math.copysign(value, tau)` takes 0 for positive.
#
# </details>


# %% tags=["exercise"]
def jacobi_rotation(a, b, g):
    """Return (c, s) for rows with x x = a, y y = b and x y = g."""
    ### BEGIN SOLUTION
    if g == 0:
        return 1.0, 0.0
    tau = (b - a) / (2 * g)
    t = math.copysign(1 / (abs(tau) + math.sqrt(1 + tau * tau)), tau)
    c = 1 / math.sqrt(1 + t * t)
    return c, t * c
    ### END SOLUTION


# %% tags=["check"]
check("jacobi-rotation", jacobi_rotation)

# %% [markdown]
# ## 3 Sweeps
#
# <kbd>deepening</kbd> 25 minutes
#
# Two rows are orthogonal now. Rotate the first one with a third, and they no longer are! A later
# rotation spoils what an earlier one has done. Why should that ever end?
#
# It spoils less than it gains. After each **sweep**, once through all pairs, most rows are a little
# nearer to orthogonal. "How near" is the **cosine** of the angle between two
# rows, |x y| / (|x| |y|), without its sign: 0 is orthogonal, 1 is parallel.

# %% [markdown]
# ### Exercise: a sweep, and how far it was from the end
#
# Go through all pairs (i, j) with i < j: (0, 1), (0, 2), and so on. Rotate each, and note the
# cosine that it had **before** its rotation. Return the new rows, and the largest cosine met.
# `rows` itself stays as it is; a row of zeros has cosine 0 with all others. `toy_svd.rotation` is a
# rotation like yours.
#
# <details><summary>Hint</summary>
#
# `x, y = rows[i].copy(), rows[j].copy()`: without `.copy()`, x *is* the row, and changes with it.
#
# </details>


# %% tags=["exercise"]
def jacobi_sweep(rows):
    """Return (rows after a sweep, the largest cosine met)."""
    ### BEGIN SOLUTION
    rows, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            a, b, g = x @ x, y @ y, x @ y
            if g != 0:
                largest = max(largest, abs(g) / math.sqrt(a) / math.sqrt(b))
            c, s = toy_svd.rotation(a, b, g)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, largest
    ### END SOLUTION


# %% tags=["check"]
check("jacobi-sweep", jacobi_sweep)

# %% [markdown]
# Now watch it. 64 rows of random numbers, 2,016 pairs. How many sweeps until the largest cosine is
# below a millionth? (`toy_svd.history` makes sweeps until then, and notes the largest cosine before
# the first one and after each. Its pairs come in another order than yours: section 4 has it.)

# %%
predict("sweeps for a random matrix of 64 x 64", 10, within=1.5)

# %%
# NBVAL_IGNORE_OUTPUT
rng = np.random.default_rng(10)
size = 64
matrices = {
    "random": rng.standard_normal((size, size)),
    "photograph": images.photograph("camera", size).astype(float),
    "rank 10": rng.standard_normal((size, 10)) @ rng.standard_normal((10, size)),
}
curves = {name: toy_svd.history(rows)[0] for name, rows in matrices.items()}
needed = len(curves["random"]) - 1
predict.answer("sweeps for a random matrix of 64 x 64", needed, unit="sweeps", how="counted")
pictures.convergence(curves, goal=1e-6)

# %% [markdown]
# For several sweeps nothing seems to happen. Then the blue line falls off a cliff: about 0.05,
# 2e-5, 2e-13. The exponent at least doubles: **quadratic** convergence. Why? Once rows are nearly
# orthogonal, angles are small. A rotation changes a row's product with a third row by sine times
# another product: a small number times a small number.
#
# The photograph takes longer, the matrix of rank 10 longest. Keep these two in mind.
#
# When all cosines are small, the lengths of the rows are the singular values. Are they?

# %%
_, rows = toy_svd.history(matrices["random"])
lengths = np.sort(np.linalg.norm(rows, axis=1))[::-1]
exact = np.linalg.svd(matrices["random"], compute_uv=False)
off = np.abs(lengths - exact).max() / exact[0]
print("largest difference below 1e-12 of the largest value:", bool(off < 1e-12))

# %% [markdown]
# ## 4 Who may rotate at the same time?
#
# <kbd>core</kbd> 25 minutes
#
# A later rotation spoils some of an earlier one, but less than it gains. Going once through all
# pairs is a **sweep**; some ten sweeps make all rows orthogonal (section 3 watches that).
#
# A rotation reads and writes two rows, and nothing else. So rotations of **disjoint** pairs have
# nothing to do with each other. Pairs that share a row do. (`toy_svd.rotated` rotates the pairs of
# a list.)

# %%
rng = np.random.default_rng(10)
rows = rng.standard_normal((4, 6))


def in_turn(*pairs):
    """Rotate pairs one after the other."""
    result = rows
    for pair in pairs:
        result = toy_svd.rotated(result, [pair])
    return result


for one, other in (((0, 1), (2, 3)), ((0, 1), (1, 2))):
    same = np.array_equal(in_turn(one, other), in_turn(other, one))
    print(f"{one} and {other}: in either order the same to the bit: {same}")

# %% [markdown]
# Of n rows at most n / 2 disjoint pairs can be made. 64 rows make 2,016 pairs. So how many
# **rounds** does a sweep need at least, if a round is 32 rotations at the same time?

# %%
predict("rounds of a sweep over 64 rows", 63, exact=True)

# %%
predict.answer("rounds of a sweep over 64 rows", 64 * 63 // 2 // 32, how="computed")

# %% [markdown]
# 63: each row meets each of its 63 partners once. Chess clubs have the same problem, and an old
# solution. One player sits in the middle, all others in a ring around. The middle meets somebody of
# the ring; the others meet across, left with right, along parallel lines. In the next round all
# lines turn by one seat; in the picture each keeps its colour. (For Jacobi it is known as the
# **Brent–Luk** order.)

# %%
pictures.tournament(toy_svd.tournament(8))

# %% [markdown]
# ### Exercise: rounds in which every two rows meet once
#
# Return a list of n − 1 rounds, each a list of n / 2 pairs (i, j) of row indices. Each two of the n
# rows meet exactly once. n is even. Any order of rounds, pairs and rows is right.
#
# <details><summary>Hint 1</summary>
#
# Row n − 1 stays in the middle. The others form a ring of n − 1. In round `turn` the middle meets
# `turn`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The parallel lines: p seats on either side of `turn`, `turn + p` meets `turn - p`, for p from 1 to
# n / 2 − 1. The ring closes with `% (n - 1)`.
#
# </details>


# %% tags=["exercise"]
def tournament(n):
    """Return n - 1 rounds of n / 2 disjoint pairs."""
    ### BEGIN SOLUTION
    ring = n - 1
    rounds = []
    for turn in range(ring):
        pairs = [(turn, ring)]
        for p in range(1, n // 2):
            pairs.append(((turn + p) % ring, (turn - p) % ring))
        rounds.append(pairs)
    return rounds
    ### END SOLUTION


# %% tags=["check"]
check("tournament", tournament)

# %% [markdown]
# So a round makes 32 rotations at the same time. (Is this order as good as row by row? Section 6
# counts sweeps: it hardly matters.) Now count for a batch of 64 matrices of 256×256. How many
# rotations can happen at the same time?

# %%
predict("rotations at the same time, 64 matrices of 256 x 256", 8192, exact=True)

# %%
together = 64 * 256 // 2
print(f"{together:,} warps; an H200 holds {places // 32:,} at a time")
predict.answer("rotations at the same time, 64 matrices of 256 x 256", together, how="computed")

# %% [markdown]
# Give each rotation a warp, and the GPU is full. That is why we take Jacobi, though it does more
# arithmetic than LAPACK's way: **at the same time**.

# %% [markdown]
# ## 5 A warp a pair
#
# <kbd>core</kbd> 30 minutes
#
# In the kernel a block has a matrix, a warp a pair of its rows. The lanes share the columns: three
# dot products, added up over the warp, then the rotation.
#
# One detail decides how right the result is. When the angle is 0.0002, c is 0.99999998. What is
# that in float32?

# %%
predict("cos(0.0002) in float32", 0.99999998, exact=True)

# %%
predict.answer("cos(0.0002) in float32", float(np.float32(math.cos(0.0002))), how="computed")
c, s, x, y = np.cos(2e-4, dtype="f4"), np.float32(2e-4), np.float32(0.6), np.float32(0.8)
for _ in range(10_000):
    x, y = c * x - s * y, s * x + c * y
print(f"length 1 after ten thousand such rotations: {math.hypot(x, y):.4f}")

# %% [markdown]
# So `c * x` leaves x as it is, and lengths grow. The package works with **d = 1 − c**. It computes
# d as s² / (1 + c), not as a difference, so float32 holds it to seven digits. Put c = 1 − d into
# the rotation:
#
# `x' = x − (d x + s y)`, `y' = y + (s x − d y)`
#
# A small change, computed as such, then added once. The device function `rotate.rotation(a, b, g)`
# returns (s, d), for g other than 0.

# %% [markdown]
# ### Exercise: all pairs of a round, a warp a pair
#
# `w` is (batch, n, columns); block b has matrix b. `pairs` is (n / 2, 2): warp p of each block
# rotates rows `pairs[p, 0]` (x) and `pairs[p, 1]` (y), in place. There are as many warps as pairs.
# Columns may be any number. Given are the zeros and the sums over the warp. You write what each
# lane adds before, and the rotation after. Where g is 0, nothing is to be done.
#
# <details><summary>Hint 1</summary>
#
# A lane has the columns `range(lane, w.shape[2], 32)`, in both loops.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Both new numbers come from the old x and y: read both first.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def rotate_pairs(w, pairs):
    """Rotate the pairs of a round: a block a matrix, a warp a pair."""
    matrix, warp, lane = cuda.blockIdx.x, cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    i, j = pairs[warp, 0], pairs[warp, 1]
    a, b, g = float32(0), float32(0), float32(0)
    ### BEGIN SOLUTION
    for column in range(lane, w.shape[2], 32):
        x, y = w[matrix, i, column], w[matrix, j, column]
        a += x * x
        b += y * y
        g += x * y
    ### END SOLUTION
    for step in range(5):
        a += cuda.shfl_xor_sync(0xFFFFFFFF, a, 1 << step)
        b += cuda.shfl_xor_sync(0xFFFFFFFF, b, 1 << step)
        g += cuda.shfl_xor_sync(0xFFFFFFFF, g, 1 << step)
    ### BEGIN SOLUTION
    if g != float32(0):
        s, d = rotate.rotation(a, b, g)
        for column in range(lane, w.shape[2], 32):
            x, y = w[matrix, i, column], w[matrix, j, column]
            w[matrix, i, column] = x - (d * x + s * y)
            w[matrix, j, column] = y + (s * x - d * y)
    ### END SOLUTION


# %% tags=["check"]
check("rotate-pairs", rotate_pairs)

# %%
# NBVAL_IGNORE_OUTPUT
beside("rotate-pairs", rotate_pairs)

# %% [markdown]
# What if the timetable is wrong? Rows 0 and 1 meet, and rows 1 and 2 at the same time. On a GPU the
# result would be wrong now and then. The simulator names the race:

# %%
batch = rng.standard_normal((1, 4, 32)).astype(np.float32)
for pairs in ([(0, 1), (2, 3)], [(0, 1), (1, 2)]):
    report = trace(rotate_pairs, 1, 64, batch.copy(), np.array(pairs, np.int32))
    found = sorted({finding.kind for finding in report.findings} & {"race"})
    print(pairs, "->", ", ".join(found) or "no race")

# %% [markdown]
# (As long as your kernel is empty, there is no race.) With this kernel a round is a launch: 63 for
# a sweep of 64 rows. Each launch costs the host some microseconds, and each round reads and writes
# the whole matrix in device memory. Section 7 keeps it in shared memory.
#
# (There is another cure for the cost of launches: a *CUDA graph*, [lesson 08](08_streams.ipynb).
# Where CuPy works, the package records its launches once, and from then on one call makes all of
# them.)

# %% [markdown]
# ## 6 Watching sweeps
#
# <kbd>deepening</kbd> 5 minutes
#
# The largest cosine hides what goes on before it falls. Here is **each** pair of rows of the random
# matrix, a pixel each, before and after some sweeps. The scale is logarithmic: yellow is 1, dark is
# 10⁻⁸ and less. One dark diagonal is each row with itself, left out. The other holds the pairs that
# were rotated last: nothing has spoiled them yet. (Here and in `toy_svd.history` the pairs come in
# the rounds of section 4.)

# %%
rows, shown = matrices["random"], {"before": toy_svd.cosines(matrices["random"])}
for sweep in range(1, 8):
    for pairs in toy_svd.tournament(size):
        rows = toy_svd.rotated(rows, pairs)
    if sweep >= 3:
        shown[f"{sweep} sweeps"] = toy_svd.cosines(rows)
pictures.fading(shown)

# %% [markdown]
# Is the order of section 4 as good as that of your sweep, row by row? Sweeps until 1e-6, for the
# photograph:

# %%
one_by_one, rows = 0, matrices["photograph"]
largest = 1.0
while largest > 1e-6:
    rows, largest = toy_svd.swept(rows)
    one_by_one += 1
in_rounds = len(curves["photograph"]) - 1
print(f"row by row: {one_by_one} sweeps; in rounds: {in_rounds} sweeps")

# %% [markdown]
# ## 7 One block, one matrix
#
# <kbd>deepening</kbd> 25 minutes
#
# Sweep after sweep needs the same rows, so they belong in shared memory. A block loads its matrix,
# then goes through all rounds of all sweeps. Between two rounds **all** warps wait: in the next
# one, rows have other partners.

# %% [markdown]
# ### Exercise: a sweep in shared memory
#
# `w` is (batch, n, columns), n even, both at most 32; block b has matrix b. Copy it to shared
# memory, make **one** sweep there, and copy it back. A block may have fewer warps than pairs: warp
# k takes pairs k, k + warps, … Given are two device functions: `rotate.partners(turn, pair, n)`
# returns the rows (i, j) of a pair in a round, and `toy_svd.rotate_two(rows, i, j)` makes two rows
# of a matrix orthogonal, by a warp.
#
# <details><summary>Hint 1</summary>
#
# `rows = cuda.shared.array((32, 32), float32)`. Copying: `for e in range(cuda.threadIdx.x, n *
# columns, cuda.blockDim.x)`, row `e // columns`, column `e % columns`.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `toy_svd.rotate_two` takes a matrix of the right shape: `rows[:n, :columns]`, a view of the shared
# array.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# Who waits for whom? Everybody, after the copying and after **each** round. Within a round nobody.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def sweep_in_shared_memory(w):
    """Sweep once over each matrix: a block a matrix, a warp every so many pairs."""
    ### BEGIN SOLUTION
    rows = cuda.shared.array((32, 32), float32)
    matrix, thread, threads = cuda.blockIdx.x, cuda.threadIdx.x, cuda.blockDim.x
    n, columns = w.shape[1], w.shape[2]
    for e in range(thread, n * columns, threads):
        rows[e // columns, e % columns] = w[matrix, e // columns, e % columns]
    cuda.syncthreads()
    for turn in range(n - 1):
        for pair in range(thread // 32, n // 2, threads // 32):
            i, j = rotate.partners(turn, pair, n)
            toy_svd.rotate_two(rows[:n, :columns], i, j)
        cuda.syncthreads()
    for e in range(thread, n * columns, threads):
        w[matrix, e // columns, e % columns] = rows[e // columns, e % columns]
    ### END SOLUTION


# %% tags=["check"]
check("sweep-shared", sweep_in_shared_memory)

# %%
# NBVAL_IGNORE_OUTPUT
beside("sweep-shared", sweep_in_shared_memory)

# %% [markdown]
# The package's kernel does the same, and goes on: sweep after sweep, until the largest cosine that
# any warp has met is small.
#
# Two matrices are rotated together. The rows of `w` become orthogonal. `k` begins with orthonormal
# rows, the identity for example, and gets each rotation, too: that makes it section 2's J. (This k
# is a matrix, not a number of singular values.) At the end, divide the rows of `w` by their
# lengths: these are the vectors of one side. Those of the other side are in `k`. How many KiB are
# both for 64×64, float32?

# %%
predict("KiB for w and k, 64 x 64", 32, exact=True)

# %%
kib = 2 * rotate.SHARED_ROWS**2 * 4 / 1024
predict.answer("KiB for w and k, 64 x 64", round(kib), unit="KiB", how="computed")

# %% [markdown]
# So both fit into the shared memory of any GPU. For 256×256 it is 512 KiB, more than any SM has.
#
# The package has both ways: `plain` rotates in device memory, `shared` in shared memory. How many
# bytes of device memory does that save? The next cells put `Traced` in the place of the package's
# kernel. It **traces** each launch and adds up. You need not follow each line:


# %%
class Traced:
    """A kernel whose first launches are traced; their bytes are added up."""

    def __init__(self, kernel, most):
        self.kernel, self.left, self.bytes, self.operations = kernel, most, 0, 0

    def __getitem__(self, how):
        def launch(*arguments):
            if self.left == 0:
                return self.kernel[how](*arguments)
            report = trace(self.kernel, *how[:2], *arguments, gpu="H200")
            moved = (report.total("global", which) for which in ("load", "store"))
            self.bytes += 32 * sum(each.sectors for each in moved)
            self.operations += report.operations["float32"]
            self.left -= 1

        return launch


# %%
def traced_svd(method, n, launches):
    """Decompose a random matrix of n x n; return what traced its rotations."""
    solver = svd.Solver(1, n, n, method)
    kernel = Traced(solver.step.kernel, launches)
    solver.step = replace(solver.step, kernel=kernel)
    a = np.random.default_rng(1).standard_normal((1, n, n)).astype(np.float32)
    factors = [cuda.device_array(shape, np.float32) for shape in ((1, n, n), (1, n), (1, n, n))]
    solver(cuda.to_device(a), *factors)
    return kernel


plain, shared = traced_svd("plain", 32, 99), traced_svd("shared", 32, 99)
print("as many operations, to 2%:", abs(shared.operations / plain.operations - 1) < 0.02)
print("bytes of device memory: at least 50 times fewer:", plain.bytes > 50 * shared.bytes)

# %% [markdown]
# The same arithmetic, and a fiftieth of the bytes or less: a matrix is loaded once and stored once,
# whatever the sweeps. A batch of small matrices is then a grid of blocks that never meet.

# %% [markdown]
# ## 8 Blocks of rows
#
# <kbd>deepening</kbd> 10 minutes
#
# A matrix of 256×256 does not fit. What then? Look at what a rotation needs: two rows come from
# memory, 512 numbers, for *one* angle. That is a long way for little work.
#
# So let **blocks** of 32 rows meet, not rows. 64 rows come together, and of these all 2,016 pairs
# are rotated. How? Angles come from dot products alone. So nobody needs the rows for that, only
# their 64×64 dot products, the **Gram matrix**. It fits into shared memory.

# %% [markdown]
# 1. Compute the Gram matrix g = x xᵀ of the 64 rows x.
# 2. Rotate in g, 63 rounds: where two rows of x are mixed, two rows of g are, and then two columns.
#    Gather the rotations in a matrix q, 64×64.
# 3. Then, once, rotate the rows themselves: x becomes qᵀ x.
#
# Steps 1 and 3 are products of matrices, and you know how to make those fast ([lesson
# 06](06_reuse_reuse_reuse.ipynb)). The blocks meet as the rows did: in a tournament.
#
# In a sweep over 256 rows, with 8 blocks: how many times fewer rows are loaded than pair by pair?

# %%
predict("times fewer rows loaded, blocks of 32, 256 rows", 36, within=1.05)

# %%
by_pairs = 2 * (256 * 255 // 2)
by_blocks = 64 * (8 * 7 // 2)
print(f"pair by pair {by_pairs:,} rows, block by block {by_blocks:,}")
predict.answer(
    "times fewer rows loaded, blocks of 32, 256 rows", round(by_pairs / by_blocks), how="computed"
)

# %% [markdown]
# And of 64 matrices 64 · 4 pairs of blocks meet in each round, a thread block each: enough for 132
# SMs.
#
# What does the trace say, for a single matrix of 64 rows? First pair by pair, on paper. A pair
# moves ten rows of 64 numbers. Those of w are read twice and written once (6), those of k read once
# and written once (4). For each column it takes 22 operations: three products that are added up
# (6), and four new numbers of 4 operations each (16).

# %%
blocks = traced_svd("blocks", 64, launches=1)  # with two blocks of 32 rows that is a sweep
pairs = 64 * 63 // 2
a_sweep, operations = pairs * 10 * 64 * 4, pairs * 22 * 64
print(f"pair by pair, a sweep on paper: {a_sweep:,} bytes, {operations:,} operations")
print("block by block, traced:")
print("  at least 40 times fewer bytes:", a_sweep > 40 * blocks.bytes)
print("  less than twice the operations:", blocks.operations < 2 * operations)
roofs = recorded_roofs("H200")
print(f"operations a byte: {operations / a_sweep:.2f} before, now more than 25:", end=" ")
print(blocks.operations > 25 * blocks.bytes)
print(f"what an H200 does while a byte comes: {1e3 * roofs.rates['float32'] / roofs.bandwidth:.0f}")

# %% [markdown]
# With two blocks each row comes once in a sweep, not 63 times. An H200 makes 14 operations while a
# byte comes. Pair by pair has half an operation for it, so memory sets the pace, unless caches
# help. With blocks there are more than 25, so memory no longer does ([lesson
# 03](03_measuring_honestly.ipynb)'s roofs).
#
# `svd.LADDER` names what the package has; `svd.svd(a, method=...)` takes one of them:

# %%
for name, step in svd.LADDER.items():
    print(f"{name:13} from {step.smallest:3} to {step.largest:5,} rows")

# %% [markdown]
# `registers` keeps the rows of a matrix in a block's registers, for all sweeps. `one launch` makes
# all the rest in this block, too. The last one makes the blocks' products on **tensor cores**
# ([lesson 17](17_tensor_cores.ipynb)). Those round what they multiply to TF32, 11 significant bits.
# So each number is split into two of TF32, and three products take the place of one.
#
# Which one is taken, if you do not say? `auto` takes one launch up to 32 columns, registers up to
# 128. Beyond, it takes blocks, on tensor cores where the GPU has them.

# %% [markdown]
# ## 9 Fewer sweeps
#
# <kbd>deepening</kbd> 5 minutes
#
# So far each sweep has become cheaper. Now: fewer of them. The rows of a photograph are all alike,
# nearly parallel. Could we hand Jacobi better rows?
#
# A **QR decomposition** writes a = Q R, with Q orthogonal and R triangular. It needs no sweeps, and
# is cheap. Sixteen columns make 16 reflections, and the columns right of them take all 16 at once,
# as matrix products. The singular values of R are those of a, as Q keeps lengths and angles. Once
# more, of Rᵀ: then rows come out from long to short, and nearly orthogonal.
#
# The photograph took 12 sweeps. How many after two QR decompositions?

# %%
predict("sweeps for the photograph, after QR twice", 8, within=1.5, no_effect=12)

# %%
print("            as it is   QR once   QR twice")
for name, rows in matrices.items():
    once = np.linalg.qr(rows)[1]
    twice = np.linalg.qr(once.T)[1]
    counts = [len(toy_svd.history(each, floor=1e-12)[0]) - 1 for each in (rows, once, twice)]
    print(f"{name:12}{counts[0]:8}{counts[1]:10}{counts[2]:11}")
    if name == "photograph":
        halved = counts[2]
predict.answer("sweeps for the photograph, after QR twice", halved, unit="sweeps", how="counted")

# %% [markdown]
# For the photograph half of the sweeps are gone. This is **preconditioning**: a cheap step that
# makes the dear one shorter. (And rank 10 takes 7 sweeps here, half of section 3's: rows that are
# noise do not count, by `floor`. That is the next section.)
#
# For tall matrices `auto` has a cheaper R, of the Gram matrix aᵀa. Its singular values are the
# squares of a's: half of the digits go. So it is computed in float64, and only used where the
# largest singular value is at most some 16,000 times the smallest.

# %% [markdown]
# ## 10 What a missing rank breaks
#
# <kbd>deepening</kbd> 10 minutes
#
# A matrix of rank 10 has 10 singular values; the others are zero. Of 64 rows 10 end long, and 54
# are **noise**: what rounding has left, some 10⁻¹⁶ of the longest. What direction does a row of
# noise have? How large is the largest cosine among them?

# %%
predict("largest cosine of two rows of noise", 0, within=1.1)

# %%
# NBVAL_IGNORE_OUTPUT
_, rows = toy_svd.history(matrices["rank 10"], floor=1e-12)
lengths = np.linalg.norm(rows, axis=1)
noise = rows[lengths < 1e-12 * lengths.max()]
print(f"{len(rows) - len(noise)} rows, and {len(noise)} of noise")
largest = toy_svd.cosines(noise).max()
predict.answer("largest cosine of two rows of noise", round(float(largest), 2), how="computed")

# %% [markdown]
# Any direction, so two may be parallel. Three things go wrong with them:
#
# 1. **They are rotated for nothing.** Their angles are chance. In section 3 that took half of the
#    sweeps. Cure: a floor; below it, rows are not rotated.
# 2. **0 / 0.** A vector is a row divided by its length. For a row of zeros that is NaN.
# 3. **They are not orthogonal.** "vt has orthonormal rows" is then simply false, in silence.

# %%
with np.errstate(invalid="ignore"):
    row = np.zeros(4, np.float32)
    print("a row of zeros, normalised:", row / np.linalg.norm(row))

# %% [markdown]
# How is it repaired? The matrix `k` of section 7 begins orthonormal and only ever gets *rotations*:
# it stays orthonormal whatever the rank. That is one side. For the other side, keep the vectors
# that mean something as columns and replace the others by **zeros**. Make a QR decomposition of
# that. It is made of reflections (section 1), which are orthogonal also where a column is zero. So
# Q is orthonormal all the same:

# %%
u = np.linalg.qr(rng.standard_normal((8, 8)))[0]
u[:, 3:] = 0  # three vectors are known
q, _ = np.linalg.qr(u)
print("orthonormal:", np.allclose(q.T @ q, np.eye(8)))
print(
    "the three are there, up to a sign:", np.allclose(np.abs(np.diag(q.T @ u)), [1] * 3 + [0] * 5)
)

# %% [markdown]
# That repairs any number of vectors, and costs a QR decomposition of a whole matrix. Matrices of up
# to 128 columns lie in shared memory. There the package completes vectors one by one
# (**Gram–Schmidt**): take a vector, subtract what lies along all others, normalise. It subtracts
# **twice**, as rounding leaves a little of it the first time. Larger ones go through a QR
# decomposition.

# %% [markdown]
# How right is the package then? Four figures, against float64 (from here on `a` is a matrix again,
# and `s` has its singular values):
#
# - the **residual** ‖a − u s vt‖ / ‖a‖ (‖ ‖ is the root of the sum of all squares): at most 1e-6;
# - **singular values**, off by at most 5e-7 of the largest;
# - uᵀu and vt vtᵀ, off the identity by at most 2e-6.
#
# These are the package's own limits, a few units of float32's last place. A float32 result cannot
# be *much* better.


# %%
def errors(a, u, s, vt):
    """Return the residual, the error of singular values, and of both sides' orthogonality."""
    a, u, s, vt = (np.asarray(each, np.float64) for each in (a, u, s, vt))
    exact, one = np.linalg.svd(a, compute_uv=False), np.eye(len(s))
    residual = np.linalg.norm(a - (u * s) @ vt) / (np.linalg.norm(a) or 1)
    values = np.abs(s - exact).max() / (exact[0] or 1)
    return residual, values, np.abs(u.T @ u - one).max(), np.abs(vt @ vt.T - one).max()


# %%
# corners of section 3's matrices, and four more
hard = {name: rows[:16, :16] for name, rows in matrices.items()}
hard |= {"zero": np.zeros((16, 16)), "all ones": np.ones((16, 16)), "identity": np.eye(16)}
hard["1e-30"] = 1e-30 * hard["random"]
stack = np.stack(list(hard.values())).astype(np.float32)
LIMITS = (1e-6, 5e-7, 2e-6, 2e-6)
print(f"{'':12}{'residual':>10}{'values':>10}{'u':>10}{'vt':>10}")
for name, a, u, s, vt in zip(hard, stack, *svd.svd(stack)):
    held = [bool(error <= limit) for error, limit in zip(errors(a, u, s, vt), LIMITS)]
    print(f"{name:12}" + "".join(f"{'held' if each else 'BROKEN':>10}" for each in held))

# %% [markdown]
# Mind what is not promised. "Off by at most 5e-7 **of the largest**" says nothing about small
# singular values. One of 1e-8 · s[0] may be wrong in its first digit. For images it does not
# matter; for a matrix that you want to invert it does.
#
# And NaN? It would spread over its matrix in silence. So it is refused, and the error says which
# matrix it was:

# %%
stack[3, 5, 7] = np.nan
try:
    svd.svd(stack)
except ValueError as error:
    print(error)

# %% [markdown]
# ## 11 Less than everything
#
# <kbd>deepening</kbd> 20 minutes
#
# The course's program keeps k = 50 of 256 singular values. Why compute the others?
#
# Here is a bold idea. Multiply `a` with a few **random** columns: `y = a @ random`. Each column of
# y is a random mixture of the columns of a. In that mixture, what belongs to large singular values
# is large. So y's columns *lean* to the columns of u that we want, those of the largest singular
# values. With a few more columns than k, they span nearly all of what these span.

# %% [markdown]
# 1. **Sketch**: y = a @ random, with l columns, a few more than k.
# 2. q = orthonormal columns that span those of y, by a QR decomposition.
# 3. b = qᵀ a is small, l × n. Its SVD, u_b, s and vt, is cheap. a is nearly q b, so u = q u_b.
#
# If it is not good enough, a **power step**: y = a (aᵀ y). It multiplies by the squares of the
# singular values: in y, what was half as large becomes an eighth. But it also turns all columns
# towards the *first* vector, until float32 cannot tell them apart. So make them orthonormal in
# between: that changes no space that they span.

# %% [markdown]
# ### Exercise: orthonormal columns from a sketch
#
# `a` is (m, n), `random` (n, l), both float32. Return q, (m, l): orthonormal columns that span
# those of a @ random, after `power` power steps (0 or more). Let all stay float32.
#
# <details><summary>Hint</summary>
#
# `np.linalg.qr(y)[0]` makes columns orthonormal. In a power step: q from y, z = aᵀ q, the same for
# z, then y = a z.
#
# </details>


# %% tags=["exercise"]
def range_finder(a, random, power):
    """Return orthonormal columns that a's columns lean to."""
    ### BEGIN SOLUTION
    q = np.linalg.qr(a @ random)[0]
    for _ in range(power):
        z = np.linalg.qr(a.T @ q)[0]
        q = np.linalg.qr(a @ z)[0]
    return q
    ### END SOLUTION


# %% tags=["check"]
check("range-finder", range_finder)

# %% [markdown]
# What does it lose? Eckart and Young gave the least error of rank k: square all singular values
# that are left out, add them, take the root. Take k = 50 and l = 64, of 256. How many percent above
# the least is the sketch's error, for a photograph, without a power step?

# %%
predict("error above the best, photograph, no power step, %", 5, within=2)


# %%
def beyond_best(name, columns, power, k=50):
    """Return the error of a sketch's rank k, over the least possible one."""
    a = examples[name]
    random = np.random.default_rng(1).standard_normal((a.shape[1], columns))
    q = np.linalg.qr(a @ random)[0]
    for _ in range(power):
        q = np.linalg.qr(a @ np.linalg.qr(a.T @ q)[0])[0]
    b = q.T @ a
    kept = np.linalg.eigvalsh(b @ b.T)[-k:]  # the squares of b's largest singular values
    return math.sqrt((a**2).sum() - kept.sum()) / least[name]  # Pythagoras


examples = {
    "photograph": images.photograph("camera", 256).astype(float),
    "MRI": images.head_mri().astype(float),
    "noise": np.random.default_rng(2).standard_normal((256, 256)),
}
values = {name: np.linalg.svd(a, compute_uv=False) for name, a in examples.items()}
least = {name: math.sqrt((s[50:] ** 2).sum()) for name, s in values.items()}
lost = {name: [beyond_best(name, 64, power) for power in (0, 1, 2)] for name in examples}
above = round(100 * (lost["photograph"][0] - 1))
predict.answer("error above the best, photograph, no power step, %", above, how="computed")
pictures.sketch_errors(lost)

# %% [markdown]
# Without a power step the images lose much. One step, and they are about 2% above; two, and nobody
# would notice. Noise is the other way round. Its singular values are all alike, so it hardly
# matters which of them a sketch catches: it begins with the least loss. And powers do not tell
# apart what is alike: after two steps noise has the largest loss.
#
# And the extra columns? k = 50, with one power step:

# %%
print("columns   " + "   ".join(examples))
for columns in (50, 58, 64):
    percent = [100 * (beyond_best(name, columns, 1) - 1) for name in examples]
    print(f"{columns:7}{percent[0]:10.1f} %{percent[1]:5.1f} %{percent[2]:6.1f} %")

# %% [markdown]
# A few columns more gain a lot, and cost little. The package takes two power steps and at least 8
# columns more than k, rounded up to a multiple of 32: 64 for k = 50. Halko, Martinsson and Tropp
# bound the error **on average** over sketches. Without power steps, k = 50 and 64 columns give at
# most √(1 + 50 / (64 − 50 − 1)) = 2.2 times the least.
#
# What does it trade? Certainty, for speed. Products of matrices with 64 columns take the place of
# sweeps over 256 rows. Is the package's `svd.rank_k` as near to the best? (Up to 128 columns `auto`
# makes no sketch: all values are found faster. `shared` makes one.)

# %%
small = images.photograph("camera", 64)
u, s, vt = svd.rank_k(small, 12, method="shared")
best = np.linalg.norm(np.linalg.svd(small.astype(float), compute_uv=False)[12:])
error = np.linalg.norm(small - (u.astype(float) * s) @ vt)
print("within 5% of the best rank 12:", bool(error <= 1.05 * best))

# %% [markdown]
# ## 12 What the libraries do
#
# <kbd>deepening</kbd> 15 minutes
#
# | | how | what it promises |
# |---|---|---|
# | NumPy | LAPACK `gesdd` on the CPU, column by column | float64's accuracy, then rounded |
# | CuPy | cuSOLVER `gesvd` beyond 32×32, a matrix after the other | full accuracy |
# | PyTorch, `gesvdj` | cuSOLVER's Jacobi | accuracy of a tolerance |
# | PyTorch, `gesvda` | cuSOLVER's *approximate* SVD, batched | made for tall matrices |
#
# NVIDIA's documentation calls the last one "approximate"; PyTorch's advises it for tall or wide
# matrices, where you do not mind some loss of precision. A table that puts it beside the others
# must say how far its results were off, and for which matrices.

# %% [markdown]
# `python -m course bench svd` recorded an H200: all programs in one run, on the same 64 matrices.
# Beside each time stands how far the result is off, as in section 10: `sigma` for singular values,
# `orthogonality` for the worse of both sides. The kinds are "normal" (random numbers), "image"
# (parts of photographs) and "deficient" (a quarter of full rank). `plain`, `blocks`, `tensor cores`
# and `auto` are the package's.
#
# CuPy takes 64 matrices of 256×256 one after the other; here half of the rows of all of them rotate
# at the same time. How many times faster is that?

# %%
predict("times faster than CuPy, 64 matrices of 256 x 256", 64, within=3, no_effect=1)


# %%
def svd_table(kernel, shape, *metrics):
    """Print the recorded times of a batch, fastest first, and how far the results are off."""
    print(f"{kernel}, {shape}".ljust(33) + "ms" + "".join(f"{each:>15}" for each in metrics))
    wanted = {"kernel": kernel, "shape": shape, "gpu": "H200"}
    for figure in sorted(recorded("svd", **wanted), key=lambda each: each.median):
        line = f"  {figure.variant:22}{figure.median:11.2f}"
        for metric in metrics:
            (off,) = recorded("svd", variant=figure.variant, metric=metric, **wanted)
            line += f"{off.median:15.4g}"
        print(line)


OFF = ("residual", "sigma", "orthogonality")
for kind in ("normal", "image", "deficient"):
    svd_table(f"svd {kind}", "64x256x256", *OFF)

# %%
wanted = {"kernel": "svd normal", "shape": "64x256x256", "gpu": "H200"}
ms = {figure.variant: figure.median for figure in recorded("svd", **wanted)}
times = round(ms["cupy"] / ms["auto"])
predict.answer("times faster than CuPy, 64 matrices of 256 x 256", times)

# %% [markdown]
# Batching decides. Programs that take one matrix after the other (`cupy`, `gesvdj`, and NumPy on
# the CPU) need 400 ms or more. `gesvda`, and blocks that meet in all matrices at once, need about
# 10 ms at most. Our tensor cores, which `auto` takes, are the fastest here, for each kind of
# matrix. Deficient ones take the fewest sweeps: rows of noise do not count.
#
# And rounding? `gesvdj` stops at its tolerance: its residual is 300 times ours. CuPy's is 12
# times ours.

# %% [markdown]
# **And `gesvda`?** Look at "normal": the most exact of all on a GPU, as exact as NumPy, which
# computes in float64 and rounds at the end. So what does it give up? Look at "image". The residual
# is as small as ever, but the vectors are off orthogonal by 2e-4, two hundred times as much as
# ours. Photographs have far smaller singular values than noise, and what is wrong with their
# vectors hardly shows in a residual.
#
# In "deficient" it has no line. It ended with an error, which the file notes: failed to converge,
# "ill-conditioned or … too many repeated singular values".

# %% [markdown]
# **The ladder**, from the same file. What did each step bring?

# %%
steps = [name for name in svd.LADDER if recorded("svd", variant=name, gpu="H200")]
print("64 matrices  " + "".join(f"{name:>14}" for name in steps) + "   [ms]")
for size in (64, 128, 256):
    line = f"{f'{size} x {size}':13}"
    for name in steps:
        wanted = {"kernel": "svd normal", "shape": f"64x{size}x{size}", "gpu": "H200"}
        line += "".join(f"{each.median:14.2f}" for each in recorded("svd", variant=name, **wanted))
        line += " " * 14 * (size > svd.LADDER[name].largest)
    print(line)

# %% [markdown]
# Shared memory needs a fiftieth of the bytes or less (section 7), but saves only about an eighth of
# the time. The 2 MiB of w and k of all 64 small matrices fit the L2 cache. So memory did not set
# the pace.
#
# Blocks take off more than two fifths even there. For 256×256 they are 6.5 times as fast as pair by
# pair. They move fewer bytes, and multiply matrices in place of many short sums. Tensor cores take
# off another fifth. They speed up the products only: the Gram matrix still has its 63 rounds.

# %% [markdown]
# All of this was one batch. Now other sizes and batches, `auto` beside `gesvda`. Above 1 the
# course's program is faster:

# %%
BATCHES = (1, 8, 64, 256, 1024)
print("gesvda's time / ours" + "".join(f"{batch:8,}" for batch in BATCHES) + "  matrices")
for size in (64, 128, 256, 512):
    line = f"{f'{size} x {size}':20}"
    for batch in BATCHES:
        wanted = {"kernel": "svd normal", "shape": f"{batch}x{size}x{size}", "gpu": "H200"}
        ms = [recorded("svd", variant=name, **wanted) for name in ("torch gesvda", "auto")]
        line += f"{ms[0][0].median / ms[1][0].median:8.2f}" if all(ms) else f"{'-':>8}"
    print(line)

# %% [markdown]
# Nobody wins everywhere. One matrix of 256×256 takes ours 4.5 ms, twice as long as `gesvda`;
# one of 512×512 nearly four times. A few pairs of blocks do not fill a GPU: eight of 256×256 cost
# hardly more than one. But 8 or 64 of 64×64 or 128×128 take ours longer, too. Large batches of
# 512×512 take up to half as long again. Where CuPy is, `auto` leaves `gesvda` single matrices of
# more than 128 columns, few of 97 to 128, and such large batches.
#
# So if your matrices are random, take the one that wins in this table. If they are images or may
# lack rank, look first at how far the results are off, in the tables before.

# %% [markdown]
# Would faster products help where ours takes longer? For few matrices, no. When two blocks of rows
# meet, the 63 rounds in their Gram matrix take about 80 µs, one after the other. `gesvda`'s whole
# time leaves 40 to 75 µs for each such pair. For many matrices, yes: products are over half of a
# pair's time (`course/kernels/svd/blocks.py`). Twice as fast, ours would win there, too.
#
# Last, **less than everything**: rank 50 of the same 64 matrices. "Above best" is the error divided
# by the least possible one.

# %%
for kind in ("normal", "image"):
    svd_table(f"rank 50 {kind}", "64x256x256x50", "above best")

# %% [markdown]
# With two power steps a sketch takes about a quarter of the whole decomposition's time, and is 0.5%
# above the best for images. One step saves a fifth of that time, and is 2.7% above. For noise it is
# 1.9% with two steps and 4.7% with one: section 11 said why.
#
# PyTorch's `svd_lowrank` makes a sketch, too, of as many columns and with two power steps. Its
# error is a little smaller. It takes about 65 times as long.

# %% [markdown]
# **On your own GPU** the next cell measures 64 matrices of 256×256. Without one there is nothing to
# time: the simulator's seconds say nothing about a GPU.

# %%
# NBVAL_IGNORE_OUTPUT
from course import benchmark, gpu

if gpu() is None:
    print("no GPU here, so nothing to time")
else:
    many = np.random.default_rng(3).standard_normal((64, 256, 256)).astype(np.float32)
    there = cuda.to_device(many)
    print("all singular values:", benchmark(svd.svd, there))
    print("the 50 largest:", benchmark(svd.rank_k, there, 50))

# %% [markdown]
# ## 13 The whole program on the GPU
#
# <kbd>deepening</kbd> 5 minutes
#
# Images in, factors, a reconstruction, images out: now nothing is left for the CPU but reading and
# writing files. Given device arrays, `rank_k` and `reconstruct` return device arrays: nothing
# travels between the steps.
#
# (For files there is `python -m course reconstruct IMAGES --svd gpu`: [lesson
# 09](09_a_thousand_images.ipynb)'s four stages, in which `factorise` hands stacks of images to the
# GPU.)

# %%
names = ("camera", "coffee", "chelsea")
originals = np.stack([images.photograph(name, 64) for name in names])
there = cuda.to_device(originals)
factors = svd.rank_k(there, 24, method="shared")
rebuilt = reconstruct(*factors, 24).copy_to_host()
print("device arrays all the way:", all(hasattr(each, "copy_to_host") for each in factors))
shown = [*originals, *np.clip(rebuilt, 0, 1)]
plots.image_grid(shown, columns=3, row_names=("given", "k = 24"), cell=1.5)

# %% [markdown]
# The package makes two power steps. How many decibels would be lost against the best approximation,
# NumPy's, **without** any?

# %%
predict("dB lost by the sketch, no power step, k = 24", 2, within=2)

# %%
best = np.stack([images.reconstruct(*images.svd(image), 24) for image in originals])
without = reconstruct(*svd.rank_k(there, 24, power=0, method="shared"), 24).copy_to_host()
for power, sketched in ((2, rebuilt), (0, without)):
    losses = [
        images.psnr(image, its_best) - images.psnr(image, ours)
        for image, its_best, ours in zip(originals, best, sketched)
    ]
    print(f"{power} power steps: up to {max(losses):.1f} dB lost")
predict.answer(
    "dB lost by the sketch, no power step, k = 24", round(max(losses), 1), unit="dB", how="computed"
)

# %% [markdown]
# With two steps nobody would see the loss. And where would you *not* take the sketch? Where small
# singular values matter: to count a rank, to solve a system, or for a bound that holds each time.

# %% [markdown]
# And [lesson 09](09_a_thousand_images.ipynb)'s pipeline, with its files? Of its stages `factorise`
# took most of the cores' time. The same 10,000 images of 256×256, before and after, on the H200
# with its 16 CPU cores. (On the GPU the stage rebuilds the images and computes their errors, too.)


# %%
def images_per_second(variant):
    """Return what was recorded of one way of the pipeline."""
    (found,) = recorded("pipeline", variant=variant, metric="rate", gpu="H200")
    return found.median


print(f"{'images/s':12}{'SVDs on 16 cores':>20}{'SVDs on the GPU':>20}")
ways = "factorise, 9 threads", "factorise, rebuild and judge on the GPU, 1 thread"
factorise = [images_per_second(way) for way in ways]
ways = [f"reconstruct_images, svd {svd}, 16 processes" for svd in ("cpu", "gpu")]
whole = [images_per_second(way) for way in ways]
for name, (before, after) in (("factorise", factorise), ("whole", whole)):
    print(f"{name:12}{before:20,.0f}{after:20,.0f}   {after / before:.1f} times")
rates = [images_per_second(f"{stage}, 1 thread") for stage in ("decode", "write")]
print("decode and write alone, one core:", *(f"{rate:,.0f}" for rate in rates))
together = 1 / sum(1 / rate for rate in rates)
print(f"one after the other: {together:,.0f}, on 16 cores at most {16 * together:,.0f}")

# %% [markdown]
# The stage became 6 times as fast, the whole only 1.8 times. The GPU could do more than twice the
# images that reach it: the other stages are the bottleneck. Decoding and writing have the 16 cores
# for themselves, a process each: even then they would end at about 4,200 images a second. The whole
# time also has the program's start and end in it, and the GPU's start.

# %%
progress(11)

# %% [markdown]
# ## What you should be able to say now
#
# - A rotation needs three dot products, and at most 45 degrees.
# - Rotated until all rows are orthogonal, a matrix has its singular values as their lengths.
# - Jacobi does more arithmetic than LAPACK's way. But half of the rows rotate at the same time.
# - It converges slowly, then quadratically. A QR decomposition before it saves the slow part.

# %% [markdown]
# - Small matrices fit into a block's shared memory. Larger ones meet in blocks of rows, by their
#   Gram matrix.
# - Rows of noise have no direction. They are not rotated, and the vectors are completed: by
#   Gram–Schmidt in shared memory, else by a QR decomposition.
# - A random sketch with a power step or two is nearly the best approximation, for a part of the
#   work.

# %% [markdown]
# ## Questions
#
# 1. Why is t = −tau + √(1 + tau²) worst in the *last* sweeps?
# 2. Seven rows are to meet in rounds. How many rounds, and how many rotations a round?
# 3. Why must all warps wait between two rounds, but not within one?
# 4. The largest cosines of three sweeps are 1e-2, 1e-4, 1e-6. What do you suspect?
# 5. Why are rows of noise not simply thrown away?
# 6. A sketch of a 256×256 matrix has 256 columns. What does it save, and how large is its error?
# 7. A table says `gesvda` is fastest. What do you ask?
#
# <details><summary>Answers</summary>
#
# 1. Rows are nearly orthogonal then: g is small, tau large, and tau and the root nearly equal.
# 2. Seven rounds of three. With an eighth player who is not there, one row rests in each round.
# 3. In the next round a row has another partner, in another warp. Within a round pairs are
#    disjoint.
# 4. The convergence is linear: each sweep gains the same factor. At the end the exponent should
#    double. A wrong sign, stale dot products, or pairs that never meet.
# 5. u and vt would have fewer columns and rows than promised. (If you want only the rank that is
#    there, do throw them away.)
# 6. Nothing. And none: q spans all there is.
# 7. For which matrices, and what else is off besides the residual: it may be small while vectors
#    are not orthogonal. And whether each of the others was asked for more or less accuracy.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Sort the rows by length before each sweep of section 3. Are there fewer sweeps?
# - In `rotate_pairs` the rows are read twice. Keep up to 96 columns in registers instead, and look
#   at the trace.
# - Make a matrix with ten equal singular values. How many sweeps does it take? Why is its u not
#   NumPy's, and still right?
# - Choose the columns of a sketch so that the error is at most 1% above the best, for the MRI and
#   one power step.
# - Let `jacobi_sweep` skip pairs whose cosine is below 1e-8. How many rotations of the last sweep
#   are left?

# %% [markdown]
# ## Common misconceptions
#
# - *"A random method gives random results."* With a seed it gives the same ones each time, and its
#   error has a bound.
# - *"The method with the least operations is the fastest."* Not on a machine that does ten thousand
#   of them at a time.
# - *"After a rotation two rows are orthogonal, so they are done."* Until the next rotation of one
#   of them.
# - *"Any of the two angles will do."* The larger one swaps the rows, and sweeps may never end.
# - *"u and vt are unique."* Signs are free, and with equal singular values so are rotations among
#   their vectors.

# %% [markdown]
# - *"The residual is small, so the factors are right."* With a missing rank it stays small when vt
#   is not orthogonal at all. Section 12 has a library's case.

# %% [markdown]
# ## What to read next
#
# - Halko, Martinsson, Tropp, [Finding structure with
#   randomness](https://arxiv.org/abs/0909.4061): sketches, power steps, and the theorem.
# - Drmač, Veselić, [New fast and accurate Jacobi SVD
#   algorithm](https://www.netlib.org/lapack/lawnspdf/lawn169.pdf): QR decompositions before the
#   rotations.
# - PyTorch, [torch.linalg.svd](https://pytorch.org/docs/stable/generated/torch.linalg.svd.html):
#   which driver for which matrix.
# - NVIDIA, [cuSOLVER](https://docs.nvidia.com/cuda/cusolver/index.html): `gesvdj` and `gesvda`.
# - Next in the course: [lesson 12](12_more_than_one_gpu.ipynb), More than one GPU.
