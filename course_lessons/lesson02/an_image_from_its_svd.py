# %% [markdown]
# # 02 An image from its SVD
#
# You take your photograph apart and put it together again: with loops, with NumPy, and with your
# own kernel. The whole course makes this program fast.

# %% [markdown]
# ## What you will do
#
# - Write the kernel that rebuilds an image from a part of its factors.
# - Find two hidden costs of such a kernel.

# %% [markdown]
# ## What you will learn
#
# - What an SVD keeps, and what it throws away.
# - Why `total = 0.0` is a trap, and which way x walks.

# %% [markdown]
# ## What you need
#
# Lessons [00](00_your_picture_your_kernel.ipynb) and [01](01_threads_blocks_grids.ipynb). From
# NumPy: `u[:, :k]` and `@`.

# %% [markdown]
# ## How long it takes
#
# Eight exercises. Take a break after section 5.

# %%
import numpy as np
from numba import float32

from course import check, cuda, images, plots, predict, progress, recorded, trace, wrapped
from course_lessons.lesson02 import cpu, pictures

# %% [markdown]
# ## 1 A picture, three factors
#
# <kbd>core</kbd>
#
# Your photograph, an MRI slice of a head, a head drawn by a formula, and another photograph:

# %%
photo = images.mine()
mri, camera = images.head_mri(), images.photograph("camera", 256)
examples = {"yours": photo, "head MRI": mri, "phantom": images.phantom(256), "camera": camera}
plots.image_grid(list(examples.values()), list(examples), columns=4, cell=1.8)

# %% [markdown]
# An image is a matrix of grey levels, 0 is black and 1 is white. All are float32, four bytes a
# pixel.
#
# Every matrix is a product of three: `image = U · diag(s) · Vᵀ`. That is its singular value
# decomposition. `U` has columns, `Vᵀ` has rows, and `s` has one value for each pair of them, the
# largest first.

# %%
u, s, vt = images.svd(photo)
print("u", u.shape, " s", s.shape, " vt", vt.shape)
print("s[0], s[9], s[49]:", s[[0, 9, 49]].round(1))

# %% [markdown]
# The red frames mark the first 50 columns of `U`, values of `s` and rows of `Vᵀ`. You will keep
# only these.

# %%
pictures.factors(photo, u, s, vt, k=50)

# %% [markdown]
# One column, one value and one row make a whole image: a **layer**. Pixel `[row, col]` of layer
# `i` is `u[row, i] * s[i] * vt[i, col]`. The image is the sum of its layers. Grey stands for 0 in
# the upper row.

# %%
layers = [s[i] * np.outer(u[:, i], vt[i]) for i in range(5)]
sums = np.cumsum(layers, axis=0)
shown = [0.5 + layer / (2 * abs(layer).max()) for layer in layers] + list(sums)
titles = [f"layer {i}" for i in range(5)] + [f"sum of {i + 1}" for i in range(5)]
plots.image_grid(shown, titles, columns=5, cell=1.5)

# %% [markdown]
# ## 2 Keep the first k
#
# <kbd>core</kbd>
#
# Drop all layers but the first `k`. This line is the heart of the course:
#
# `reco = (u[:, :k] * s[:k]) @ vt[:k, :]`
#
# Of all sums of `k` layers, this image has the smallest squared error (Eckart and Young). NumPy
# multiplies each **column** of `u[:, :k]` by its own value of `s[:k]`: that is broadcasting. The
# product with `k` rows of `vt` makes all pixels.

# %%
names = ("head MRI", "camera", "phantom")
factors = {name: images.svd(examples[name]) for name in examples}
u, s, vt = factors["head MRI"]
k = 50
reco = (u[:, :k] * s[:k]) @ vt[:k, :]
print("shape:", reco.shape, " type:", reco.dtype)
print(f"mean error of a pixel: {abs(mri - reco).mean():.3f}, where 1 is white")

# %%
ranks, shown = [1, 5, 20, 50], ("yours", "phantom")
rows = [images.reconstruct(*factors[name], k) for name in shown for k in ranks]
titles = [f"k = {k}" for k in ranks] * 2
plots.image_grid(rows, titles, columns=4, row_names=shown, cell=1.6)

# %% [markdown]
# At k = 50 you have to look for a difference.

# %% [markdown]
# ## 3 One formula, many programs
#
# <kbd>core</kbd>
#
# From here on, everything computes one formula. For each pixel, add up k products:
#
# `out[row, col] = Σ u[row, i] · s[i] · vt[i, col]`
#
# Three indices, so three loops. Every pixel is independent of all others: that suits a GPU. To
# rebuild a part of the image, you take some **rows** of `u` and some **columns** of `vt`.

# %%
k = 50
right = images.reconstruct(u, s, vt, k)
small_u = u[96:160]
small_vt = np.ascontiguousarray(vt[:, 96:160])
small = right[96:160, 96:160]
print(f"whole: {right.size * k:,} steps; small part: {small.size * k:,} steps")


def compare(image, expected=right):
    """Print how near an image is to what the line of section 2 gave."""
    error = np.abs(image - expected).max()
    if image.shape == expected.shape and error < 1e-5:
        print("every pixel is within 0.00001 of what the line of section 2 gave")
    else:
        print(f"shape {image.shape}, and a pixel is off by {error:.1g}")


# %% [markdown]
# **Program 1: Python runs three loops.** Python looks up types, bounds and objects at each step. So
# only the small part is rebuilt.


# %%
def three_loops(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for row in range(out.shape[0]):
        for col in range(out.shape[1]):
            for i in range(k):
                out[row, col] += u[row, i] * s[i] * vt[i, col]
    return out


compare(three_loops(small_u, s, small_vt, k), small)

# %% [markdown]
# **Program 2: the matrix product** of section 2. A library (BLAS) runs the loops, on all cores.

# %%
by_matmul = (u[:, :k] * s[:k]) @ vt[:k]
compare(by_matmul)

# %% [markdown]
# ## 4 What runs where
#
# <kbd>core</kbd>
#
# The CPU reads and decomposes the image, once. The factors are copied to the GPU. A thread computes
# each pixel. The image is copied back.

# %%
pictures.way_of_an_image(size=256, k=50)

# %% [markdown]
# The plan rests on **assumptions**. All fits into the GPU's memory. Images are rebuilt more often
# than decomposed. The copies are worth it: [lesson 03](03_measuring_honestly.ipynb) measures that.
#
# Only k columns of `u` and k rows of `vt` are needed. Copy all of them, and the result is right,
# too: nothing tells you.
#
# ### Exercise: copy what is needed
#
# Return what k layers need of `u`, `s` and `vt`, as float32: NumPy often makes float64. The rows of
# each array must follow each other in memory (**C-contiguous**).
#
# <details><summary>Hint</summary>
#
# `np.ascontiguousarray(part, dtype=np.float32)` for each of the three parts. `s` has one axis.
#
# </details>


# %% tags=["exercise"]
def needed_factors(u, s, vt, k):
    """Return the parts of u, s and vt that k layers need: float32, C-contiguous."""
    ### BEGIN SOLUTION
    parts = (u[:, :k], s[:k], vt[:k])
    return tuple(np.ascontiguousarray(part, dtype=np.float32) for part in parts)
    ### END SOLUTION


# %% tags=["check"]
check("needed-factors", needed_factors)

# %%
parts = needed_factors(u, s, vt, k) or (u, s, vt)  # all, while you have not written it
whole, copied = (sum(part.nbytes for part in each) for each in ((u, s, vt), parts))
print(f"256 x 256, k = {k}: whole factors {whole:,} bytes, yours {copied:,} bytes")
print(f"{whole / copied:.1f} times fewer")

# %% [markdown]
# ## 5 Your kernel
#
# <kbd>core</kbd>
#
# One thread computes one pixel: the two outer loops become the grid, the inner one stays a loop.
#
# | program 1 | kernel |
# |---|---|
# | `for row …`, `for col …` | `col, row = cuda.grid(2)` and a guard |
# | `for i in range(k)` | the same loop |
# | `out[row, col] += …` | add up in `total`, store once |
#
# ### Exercise: rebuild an image
#
# Write the kernel. `u` is (rows, r), `s` is (r,), `vt` is (r, cols), `out` is (rows, cols), and k
# may be smaller than r. The image need not be square.
#
# <details><summary>Hint</summary>
#
# `total` is zero before the loop, `total += u[row, i] * s[i] * vt[i, col]` stands in it, and
# `out[row, col] = total` after it. The guard is around all of them.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def reconstruct(u, s, vt, k, out):
    """Write the sum of the first k layers to ``out``, one thread a pixel."""
    ### BEGIN SOLUTION
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = 0.0
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total
    ### END SOLUTION


# %% tags=["check"]
check("reconstruct", reconstruct)

# %% [markdown]
# Now your photograph, from your own kernel and your own copies. As long as the kernel is empty, the
# picture is black.

# %%
whole = factors["yours"]
on_gpu = [cuda.to_device(part) for part in needed_factors(*whole, k) or whole]
out = cuda.to_device(np.zeros_like(photo))
reconstruct[(16, 16), (16, 16)](*on_gpu, k, out)
rebuilt = out.copy_to_host()
plots.image_grid([photo, rebuilt], ["yours", f"from your kernel, k = {k}"], cell=2.2)

# %% [markdown]
# ## 6 The float64 trap
#
# <kbd>core</kbd>
#
# This kernel comes from the student project that the course grew out of. It is right, and slow.
# There are **two** faults in it. Find one: u, s, vt and out are float32. Is it in your kernel, too?


# %%
@cuda.jit
def original(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = 0.0
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


# %% [markdown]
# `trace` counts its arithmetic. For 64×64 pixels and k = 8 the loop has 64 · 64 · 8 = 32,768 steps.
# How many **float64** operations do you expect?

# %%
predict("float64 operations, total = 0.0", 0, exact=True)

# %%
tiny = [np.ascontiguousarray(part) for part in (u[96:160, :8], s[:8], vt[:8, 96:160])]
tiny_out = np.zeros((64, 64), dtype=np.float32)
report = trace(original, (4, 4), (16, 16), *tiny, 8, tiny_out)
for finding in report.findings:
    if finding.kind == "float64":
        print(f"line {finding.line}: {finding.code}")
        print(wrapped(finding.message))
predict.answer("float64 operations, total = 0.0", report.operations["float64"], how="counted")

# %% [markdown]
# One in every step. In Python, `0.0` is a 64-bit number, and Numba keeps to that. A variable has
# **one** type in a kernel, so `total` is float64 in the whole loop. A T4 does float64 at 1/32 of
# the rate of float32. Section 14 computes what that costs.
#
# ### Exercise: no float64
#
# One line is missing: give `total` a zero that is float32. All else stays: one change at a time.
#
# <details><summary>Hint</summary>
#
# `float32` was imported from `numba` at the top. Call it with a zero.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def reconstruct_float32(u, s, vt, k, out):
    """As the project had it, with a float32 sum."""
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        ### BEGIN SOLUTION
        total = float32(0)
        ### END SOLUTION
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


# %% tags=["check"]
check("reconstruct-float32", reconstruct_float32)

# %% [markdown]
# ## 7 Which way does x walk?
#
# <kbd>core</kbd>
#
# The second fault is `row, col = cuda.grid(2)`. A **warp**, 32 threads that run together, has
# neighbouring x: here, neighbours in `row`. But in memory, neighbours in `col` lie side by side.
#
# The GPU moves memory in **sectors** of 32 bytes, eight float32 values. The drawing shows the
# stores of a 16 × 16 block's first warp. Each blue square is a thread's pixel, each red frame a
# sector. On the left are 16 sectors, each for two pixels.

# %%
pictures.warp_on_image()

# %% [markdown]
# ### Exercise: x along the columns
#
# Fix the second fault, too: neighbours in x must be neighbours in memory. Again one line is
# missing. [Lesson 04](04_warps_and_coalescing.ipynb) counts the sectors of each load.
#
# <details><summary>Hint</summary>
#
# The line is that of the project's kernel, in another order.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def reconstruct_columns(u, s, vt, k, out):
    """As before, x walks along the columns."""
    ### BEGIN SOLUTION
    col, row = cuda.grid(2)
    ### END SOLUTION
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


# %% tags=["check"]
check("reconstruct-columns", reconstruct_columns)

# %% [markdown]
# ## 8 What was measured?
#
# <kbd>core</kbd>
#
# The project timed 256×256 pixels, k = 100. Its kernel took 249 ms on a Tesla T4, NumPy 0.66 ms.
# Are GPUs no good?
#
# That was the first call: Numba compiled it. So say what you timed: the first image or a
# further one? With the copies? Against which CPU program?

# %% [markdown]
# Is the GPU faster? 2048×2048 pixels, k = 256, recorded on an H200 and on the 16 cores beside
# it, without first calls:

# %%
size = "2048x2048x256"
programs = {
    "NumPy, 16 cores": ("crossing", "NumPy"),
    "a kernel like yours": ("reconstruct", "reconstruct_naive 32x8"),
    "yours, and copies": ("crossing", "kernel and copies"),
    "tiles (lesson 05)": ("reconstruct", "reconstruct_tiled 16x16"),
}
times = {
    name: recorded("measuring", kernel=kernel, variant=variant, shape=size)[0].median
    for name, (kernel, variant) in programs.items()
}
print(f"tiles: {times['NumPy, 16 cores'] / times['tiles (lesson 05)']:.1f} times as fast as NumPy")
plots.time_bars(times, "2048 × 2048, k = 256: H200 and CPU (recorded)")

# %% [markdown]
# Your kernel is level with 16 cores at the first try, copies apart.
# [Lesson 04](04_warps_and_coalescing.ipynb) explains its memory accesses, and
# [lesson 05](05_shared_memory.ipynb) makes the kernel of the shortest bar.

# %% [markdown]
# ## 9 How good is it?
#
# <kbd>deepening</kbd>
#
# "Looks fine" is no figure. The **mean squared error** (MSE) is the mean of
# `(image - approximation) ** 2` over all pixels. The **peak signal-to-noise ratio** puts it on a
# scale in decibel, where more is better. For a peak of 1:
#
# `PSNR = -10 · log10(MSE)`

# %% [markdown]
# ### Exercise: the PSNR of two images
#
# Return the PSNR as one number. The images have one shape, any shape. They are never equal here.
#
# <details><summary>Hint</summary>
#
# `np.mean` without an axis is the mean over all pixels, and `np.log10` is the logarithm.
#
# </details>


# %% tags=["exercise"]
def psnr(image, approximation):
    """Return the peak signal-to-noise ratio [dB] for grey levels from 0 to 1."""
    ### BEGIN SOLUTION
    mean_squared_error = np.mean((image - approximation) ** 2)
    return -10 * np.log10(mean_squared_error)
    ### END SOLUTION


# %% tags=["check"]
check("psnr", psnr)

# %% [markdown]
# Before you look: how many layers does the head MRI need until its PSNR reaches 30 dB? Put a number
# in place of the dots. A guess is enough.

# %%
predict("k for 30 dB, head MRI", 40, within=2)

# %%
quality = [images.psnr(mri, images.reconstruct(u, s, vt, k)) for k in range(1, 40)]
needed = 1 + next(i for i, decibel in enumerate(quality) if decibel >= 30)
predict.answer("k for 30 dB, head MRI", needed, unit="layers", how="computed")

# %% [markdown]
# PSNR looks at each pixel alone. Your eye looks at edges and texture. The **structural similarity**
# (SSIM) compares small windows: their mean, contrast and structure. It is 1 for equal images.
#
# Below, the second and the third image have the same MSE, so the same PSNR. Which one is worse?

# %%
error = np.sqrt(images.mse(mri, reco))
brighter = mri + np.float32(error)
plots.image_grid([mri, reco, brighter], ["original", "k = 50", "a little brighter"], cell=2.2)

# %%
for name, other in (("k = 50", reco), ("brighter", brighter)):
    print(f"{name:9}  PSNR {images.psnr(mri, other):.0f} dB  SSIM {images.ssim(mri, other):.2f}")

# %% [markdown]
# SSIM says that the third image is worse, the brighter one. Most people find the second one worse.
# Which one did you choose? The shift turns black air into very dark grey air. Your eye hardly sees
# it, SSIM counts it heavily, and PSNR cannot tell the two apart. No single figure is the truth:
# look at both, and at the pictures.

# %% [markdown]
# Now the quality against k, for three images. The axis on top and the dashed line tell when the
# factors stop being smaller than the image. That is the next section's question.

# %%
ranks = [1, 2, 5, 10, 20, 35, 50, 75, 100, 128, 150]
decibels, similarities = {}, {}
for name in names:
    rebuilt = [images.reconstruct(*factors[name], k) for k in ranks]
    decibels[name] = [images.psnr(examples[name], image) for image in rebuilt]
    similarities[name] = [images.ssim(examples[name], image) for image in rebuilt]
plots.quality_curve(ranks, decibels, similarities, size=(256, 256))

# %% [markdown]
# There is a shortcut. The squares of the dropped singular values add up to the squared error of all
# pixels. So `s` alone tells the MSE of every k, before you rebuild anything.

# %%
dropped = np.sum(s[50:].astype(np.float64) ** 2)
from_pixels = images.mse(mri, reco) * mri.size
print("same to a thousandth:", abs(dropped - from_pixels) < 1e-3 * from_pixels)

# %% [markdown]
# Where are the errors? A ufunc ([lesson 01](01_threads_blocks_grids.ipynb), section 9) gives each
# pixel's squared error, again on the GPU. The picture shows it 300 times brighter.


# %%
@cuda.vectorize(["float32(float32, float32)"])
def squared_error(a, b):
    difference = a - b
    return difference * difference


errors = squared_error(mri, right)
plots.image_grid([right, 300 * errors], ["k = 50", "squared error, × 300"], cell=2.2)

# %% [markdown]
# The error sits on edges, where grey levels jump. Smooth parts need few layers.

# %% [markdown]
# ## 10 When is it smaller?
#
# <kbd>deepening</kbd>
#
# The image is 256 · 256 numbers. For k layers you store k columns of `u`, k numbers of `s` and k
# rows of `vt`. Predict the largest k for which that is **fewer** numbers than the image has.

# %%
predict("largest k that still compresses 256 x 256", 128, exact=True)

# %% [markdown]
# ### Exercise: where compression ends
#
# Return the largest k for which the factors hold fewer numbers than a `rows × columns` image. For a
# tiny image that may be 0.
#
# <details><summary>Hint</summary>
#
# One layer is `rows + 1 + columns` numbers. How many times does that fit into
# `rows * columns - 1`? The operator `//` divides and rounds down.
#
# </details>


# %% tags=["exercise"]
def break_even(rows, columns):
    """Return the largest k whose factors hold fewer numbers than the image, 0 if there is none."""
    ### BEGIN SOLUTION
    numbers_a_layer = rows + 1 + columns
    return (rows * columns - 1) // numbers_a_layer
    ### END SOLUTION


# %% tags=["check"]
check("break-even", break_even)

# %%
largest = max(k for k in range(1, 257) if images.compression(256, 256, k) > 1)
predict.answer("largest k that still compresses 256 x 256", largest, how="computed")

# %% [markdown]
# Half of the 256 layers is already no gain. And an honest remark: JPEG does far better on
# photographs. You rebuild images here because the formula is short, the result can be seen, and
# the same product is inside every neural network.

# %% [markdown]
# Why do a few layers carry so much? The singular values fall quickly. Compare the images. The
# camera's curve is long, since grass is full of detail. The MRI's ends sooner, since its black
# borders hold nothing. (The plot ends at a ten-thousandth of the first value.)

# %%
for name, (_, values, _) in factors.items():
    large = np.sum(values > 1e-4 * values[0])
    print(f"{name:8} {large} of {len(values)} values are above 1/10,000 of the first")
plots.singular_values({name: values for name, (_, values, _) in factors.items()}, keep=50)

# %% [markdown]
# ### Exercise: choose k by energy
#
# The **energy** of a layer is `s[i] ** 2`. Return the smallest k whose first k layers hold at least
# the given share of the whole energy.
#
# <details><summary>Hint</summary>
#
# `np.cumsum(s**2)` is the energy of the first 1, 2, 3, … layers. `np.argmax` of an array of
# booleans is the index of the first `True`. An index counts from 0, k counts from 1.
#
# </details>


# %% tags=["exercise"]
def energy_rank(s, share):
    """Return the smallest k with sum(s[:k] ** 2) >= share * sum(s ** 2)."""
    ### BEGIN SOLUTION
    energy = np.cumsum(s**2)
    return int(np.argmax(energy >= share * energy[-1])) + 1
    ### END SOLUTION


# %% tags=["check"]
check("energy-rank", energy_rank)

# %% [markdown]
# 99% of the energy sounds like nearly everything. Is it? The table tells k, PSNR and SSIM for it:
# the first layers hold the mean brightness, and that is most of the energy.

# %%
for name in names:
    energy = np.cumsum(factors[name][1].astype(np.float64) ** 2)
    k99 = 1 + int(np.argmax(energy >= 0.99 * energy[-1]))
    rebuilt = images.reconstruct(*factors[name], k99)
    decibel, similarity = images.psnr(examples[name], rebuilt), images.ssim(examples[name], rebuilt)
    print(f"{name:8}  99% at k = {k99:2}  PSNR {decibel:.0f} dB  SSIM {similarity:.2f}")

# %% [markdown]
# ## 11 Five more programs
#
# <kbd>deepening</kbd>
#
# The formula of section 3 again: for each pixel, add up k products. The question is who runs the
# loops.
#
# ### Exercise: one loop
#
# **Program 3: Python runs one loop, over the layers.** NumPy makes a whole layer at once:
# `np.outer(column, row)`. Add k of them up. The result is float32, like the factors.
#
# <details><summary>Hint</summary>
#
# Begin with `np.zeros(shape, dtype=np.float32)`. Layer `i` is `s[i]` times the outer product of
# the column `u[:, i]` and the row `vt[i]`. `+=` adds it.
#
# </details>


# %% tags=["exercise"]
def one_loop(u, s, vt, k):
    """Return the sum of the first k layers, shape (len(u), vt.shape[1]), float32."""
    ### BEGIN SOLUTION
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k):
        out += s[i] * np.outer(u[:, i], vt[i])
    return out
    ### END SOLUTION


# %% tags=["check"]
check("one-loop", one_loop)

# %% [markdown]
# **Program 4: einsum.** You write the indices of the formula: `r` for the row, `c` for the column.
# What is missing behind the arrow, `i`, is summed. NumPy runs all three loops, in C.

# %%
by_einsum = np.einsum("ri,i,ic->rc", u[:, :k], s[:k], vt[:k])
compare(by_einsum)

# %% [markdown]
# **Program 5: broadcasting.** All products at once, in an array with three axes: row, layer,
# column. Then a sum over the layers. It reads well, and it needs k times the memory of the image.

# %%
products = u[:, :k, None] * s[:k, None] * vt[:k]
by_broadcasting = products.sum(axis=1)
compare(by_broadcasting)
print(f"{products.shape}: {products.nbytes:,} bytes for an image of {right.nbytes:,}")

# %% [markdown]
# **Program 6: Numba compiles the loops, threads share the rows.** `prange` hands rows to the
# CPU's cores. The columns are innermost: they lie side by side in memory.

# %%
from numba import njit, prange


@njit(parallel=True)
def by_threads(u, s, vt, k):
    rows, cols = u.shape[0], vt.shape[1]
    out = np.zeros((rows, cols), dtype=np.float32)
    for row in prange(rows):
        for i in range(k):
            weight = u[row, i] * s[i]
            for col in range(cols):
                out[row, col] += weight * vt[i, col]
    return out


# %% [markdown]
# Numba compiles at the first call. Times are of the machine that ran this notebook.

# %%
# NBVAL_IGNORE_OUTPUT
from time import perf_counter

for call in ("first", "second", "third"):
    start = perf_counter()
    by_threads(u, s, vt, k)
    print(f"{call} call: {1e3 * (perf_counter() - start):.3g} ms")

# %%
compare(by_threads(u, s, vt, k))

# %% [markdown]
# **Program 7: processes.** Each process is a Python of its own with a memory of its own, and works
# on a band of rows. Processes may do quite different things at the same time: in Flynn's terms
# that is MIMD, multiple instructions on multiple data. This is what each of them runs.

# %%
from inspect import getsource

print(getsource(cpu.rebuild_band))

# %%
with cpu.start_processes(2) as pool:
    by_processes = cpu.reconstruct_processes(u, s, vt, k, pool)
compare(by_processes)

# %% [markdown]
# (A new process cannot import your notebook.) The factors are copied to each process, the bands
# back.

# %% [markdown]
# ## 12 What the clock says
#
# <kbd>deepening</kbd>
#
# Rules for a time: one call that does not count (it may compile), then calls for 0.1 seconds, at
# least three. The median counts.

# %%
from statistics import median


def median_ms(function, *arguments, seconds=0.1):
    """Return the median time of a call [ms], after one call that does not count."""
    function(*arguments)
    times = []
    begin = perf_counter()
    while len(times) < 3 or perf_counter() - begin < seconds:
        start = perf_counter()
        function(*arguments)
        times.append(1e3 * (perf_counter() - start))
    return median(times)


# %% [markdown]
# 64×64 pixels first. Which program wins?

# %%
# NBVAL_IGNORE_OUTPUT
programs = {**cpu.VARIANTS, "njit(parallel)": by_threads}
times = {name: median_ms(f, small_u, s, small_vt, k) for name, f in programs.items()}
with cpu.start_processes(2) as pool:
    times["2 processes"] = median_ms(cpu.reconstruct_processes, small_u, s, small_vt, k, pool)
plots.time_bars(times, "64 × 64 pixels, k = 50, on this machine's CPU")

# %% [markdown]
# Now 512×512 pixels, 64 times the work, without the three loops. Random factors will do: the clock
# does not look at the picture. What costs the same for every call weighs less: `one loop` moves up,
# since its 50 steps of Python stay 50. Each of the two processes runs an `einsum` of half the size.
# Are they twice as fast as one? Do not expect it. The factors are packed, sent and unpacked, and
# the bands come back in the same way. That can cost more than the half of the work that is saved:
# then two processes are **slower** than one.

# %%
# NBVAL_IGNORE_OUTPUT
rng = np.random.default_rng(2)
large = [rng.random(shape, dtype=np.float32) for shape in ((512, k), k, (k, 512))]
del programs["three loops"]
times = {name: median_ms(f, *large, k) for name, f in programs.items()}
with cpu.start_processes(2) as pool:
    times["2 processes"] = median_ms(cpu.reconstruct_processes, *large, k, pool)
plots.time_bars(times, "512 × 512 pixels, k = 50, on this machine's CPU")

# %% [markdown]
# Three things. First: from the slowest to the fastest program it is a factor of hundreds, on one
# CPU. Whoever compares a GPU with three Python loops compares with nothing. Second: on an idle
# machine the library's `@` and the compiled threads are ahead at 512×512. At 64×64 the threads are
# not: starting them takes longer than the work. Those two are to be beaten, each at its size.

# %% [markdown]
# Third: is something else running? Then the programs that use all cores lose most: they wait for
# the slowest core. Two libraries in one program can also disturb each other, if each has threads of
# its own. Run the two cells again. What is the same in both runs?

# %% [markdown]
# The figure of section 8 had a first call in it. Here are the same size and k, without first calls,
# on your machine:

# %%
# NBVAL_IGNORE_OUTPUT
again = median_ms(by_threads, u, s, vt, 100)
by_numpy = median_ms(cpu.reconstruct_matmul, u, s, vt, 100)
print(f"256 x 256, k = 100, first calls apart: threads {again:.2g} ms, NumPy {by_numpy:.2g} ms")

# %% [markdown]
# ## 13 The same line with CuPy
#
# <kbd>deepening</kbd>
#
# CuPy is NumPy on the GPU: the same names, other memory. `course.xp` is CuPy where CuPy and a GPU
# work, and NumPy elsewhere. Then NumPy stands in, and this section runs on your CPU.

# %%
# NBVAL_IGNORE_OUTPUT
from course import xp

print("xp is", xp.__name__, "here")

# %%
gpu_u, gpu_s, gpu_vt = xp.asarray(u[:, :k]), xp.asarray(s[:k]), xp.asarray(vt[:k])
gpu_reco = (gpu_u * gpu_s) @ gpu_vt
by_cupy = gpu_reco.get() if hasattr(gpu_reco, "get") else gpu_reco
compare(by_cupy)

# %% [markdown]
# The line in the middle is the one you know. Before it, `asarray` copies to the GPU; after it,
# `get` copies back. So why write a kernel at all?
# Because a library has only the operations that it has.

# %% [markdown]
# ## 14 What float64 costs on a T4
#
# <kbd>deepening</kbd>
#
# This is the loop as Numba's compiler translates it for a Tesla T4 (PTX for `sm_75`, numba-cuda
# 0.30.4; the loads are left out):
#
# ```
# mul.f32      %f6,   %f5,   %f4      u · s
# mul.f32      %f8,   %f6,   %f7      … · vt
# cvt.f64.f32  %fd11, %f8             a conversion to float64
# add.f64      %fd12, %fd23, %fd11    an addition in float64
# ```
#
# Two instructions of four run at the float64 rate: the conversion and the addition.

# %% [markdown]
# An SM of a T4 does 64 float32 operations a cycle, but only 2 of float64, conversions included
# (CUDA C++ programming guide, arithmetic throughput). A T4 has 40 SMs. The image has 2048×2048
# pixels, and k is 256.

# %%
instructions = 2 * 2048 * 2048 * 256  # a conversion and an addition in each step
for clock, gigahertz in (("base", 0.585), ("boost", 1.59)):
    milliseconds = instructions / (40 * 2 * gigahertz * 1e9) * 1e3
    print(f"at {clock} clock, {gigahertz} GHz: at least {milliseconds:.1f} ms")
print("measured on the T4: 52.9 ms with 8x8 blocks, 53.2 ms with 16x16")

# %% [markdown]
# At base clock the float64 pipe alone needs 45.9 ms, 87% of what was measured. It explains why both
# block shapes took the same time: neither changed the bottleneck. This is an **inference**. The
# instructions are a fact; which clock the GPU ran at, nobody wrote down.

# %% [markdown]
# This is the trace of the package's float32 kernel: no float64, and one more float32 operation in
# each step. Do you lose accuracy? In principle yes. For an image it is far below one grey level of
# 255, which is 0.004.

# %%
from course.kernels.reconstruct import reconstruct_float32 as package_float32

report = trace(package_float32, (4, 4), (16, 16), *tiny, 8, tiny_out)
exact = (tiny[0].astype(np.float64) * tiny[1]) @ tiny[2]
print({kind: f"{report.operations[kind]:,}" for kind in ("float32", "float64")})
print("largest error below 0.00001:", abs(tiny_out - exact).max() < 1e-5)

# %% [markdown]
# ## What you should be able to say now
#
# - An image is a sum of layers, and few layers carry most of it.
# - `k · (rows + columns + 1)` values replace `rows · columns`; copy only those.
# - The grid replaces the loops over pixels; the sum stays a loop in each thread.
# - `0.0` in a kernel is float64, and `float32(0)` is not.
# - x belongs on the axis whose neighbours are neighbours in memory: the last one.

# %%
progress()

# %% [markdown]
# ## Questions
#
# 1. Is `total = 0` (without a point) a way out of the trap?
# 2. Your kernel passes for 256×256, and fails for 200×300. What do you suspect first?
# 3. When would copying all of `u` and `vt` to the GPU be the right thing?
#
# <details><summary>Answers</summary>
#
# 1. No. It is an int64 first, and then it must hold a float32, too. Numba picks a type that holds
#    both: float64.
# 2. Rows and columns are swapped somewhere: in the guard, in `cuda.grid(2)` or in the launch. A
#    square image cannot tell. And 300 is no multiple of 16: is the guard there?
# 3. When you rebuild the same image for many k. Then they are copied once.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Do it in colour: three matrices, three decompositions. In a terminal,
#   `python -m course reconstruct my_photos --k 20 50 --out rebuilt` makes the grey version.
# - Let a kernel write the error `abs(image - reconstruction)`. Which argument is new?
# - Random noise as an image: what does its curve of singular values look like?

# %% [markdown]
# ## Common misconceptions
#
# - "It works": on a square image, with rows and columns swapped.
# - "The loop runs to `len(s)`": k is ignored, and the result looks better than it should.
# - "`out[row, col] += …` in the loop is as good as `total`": `out` holds anything at the start, and
#   each step loads and stores.
# - "The GPU is faster": than what, for which size, with which copies, at which call?

# %% [markdown]
# ## What to read next
#
# - [CUDA kernels in Numba](https://nvidia.github.io/numba-cuda/user/kernels.html).
# - [CUDA C++ programming guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/): the table
#   of arithmetic throughput.
# - [NumPy's tutorial on the SVD](https://numpy.org/numpy-tutorials/tutorial-svd/), in colour.
# - [Image quality: from error visibility to structural
#   similarity](https://doi.org/10.1109/TIP.2003.819861), the paper behind SSIM.
# - [Lesson 03](03_measuring_honestly.ipynb), *Measuring honestly*.
