# %% [markdown]
# # 16 A VAE from your own kernels
#
# A variational autoencoder, VAE, learns digits and then draws new ones. You write kernels for it,
# forward, back and update. A step takes some forty launches at first, and two at the end.

# %% [markdown]
# ## What you will do
#
# - Write a loss that cannot overflow; order launches.
# - Train a small VAE, stop it, and go on with the same bits.

# %% [markdown]
# ## What you will learn
#
# - What a VAE computes.
# - What must not share a launch, and what fusing saves.

# %% [markdown]
# ## What you need
#
# Lessons [05](05_shared_memory.ipynb), [10](10_reductions.ipynb),
# [13](13_normalisation_and_fusion.ipynb); for the sections that name them
# [03](03_measuring_honestly.ipynb), [08](08_streams.ipynb) and
# [15](15_your_kernel_inside_pytorch.ipynb).

# %% [markdown]
# ## How long it takes
#
# Break after section 4.

# %% [markdown]
# ## 1 Digits from eight numbers
#
# <kbd>core</kbd>
#
# Here is a trained VAE. Its **encoder** makes 8 numbers of an image of 8 × 8 pixels, the
# **code**. Its **decoder** makes an image of a code. Digits that it has never seen, and what comes
# back:

# %%
# NBVAL_IGNORE_OUTPUT
import numpy as np

from course import beside, check, cuda, plots, predict, progress, recorded, trace
from course_models.vae import data
from course_models.vae.inference import VAE
from course_lessons.lesson16 import pictures

vae = VAE.trained()
unseen = data.digits(held_out=True)
x = unseen.images / np.float32(255)
code, _ = vae.encode(x)
plots.rebuilt_digits(x[:10], vae.decode(code[:10]))

# %% [markdown]
# A code is a point in a space of 8 axes. So there is a point half-way between two digits' codes.
# The mean of their images, pixel by pixel, is half-way, too. Which of the two is nearer to some
# real digit (by the root of the summed squares of all differences)?

# %%
predict("nearer to a real digit, half-way", "pixels", choices=("pixels", "codes"))

# %%
# NBVAL_IGNORE_OUTPUT
real = data.digits(held_out=False).images / np.float32(255)
one, other = np.arange(0, 100), np.arange(100, 200)  # a hundred pairs
ways = {
    "pixels": (x[one] + x[other]) / 2,
    "codes": vae.decode((code[one] + code[other]) / 2),
}
far = {}
for way, images in ways.items():
    distances = np.linalg.norm(images[:, None] - real[None], axis=2)
    far[way] = distances.min(axis=1).mean()
    print(f"mean distance from the nearest digit, by {way:7}{far[way]:.1f}")
predict.answer("nearer to a real digit, half-way", min(far, key=far.get), how="found")

first, last = (int(np.flatnonzero(unseen.labels == digit)[2]) for digit in (6, 3))
by_pixels, by_codes = (np.linspace(its[first], its[last], 9) for its in (x, code))
pictures.in_two_rows(by_pixels, vae.decode(by_codes), ["pixels", "codes"])

# %% [markdown]
# Nine images from a 6 to a 3. In the middle of the upper row both digits show. In the lower row
# there is one shape at each place: the 6 closes to an 8, and that opens to a 3. A code drawn at
# random gives a digit, too, most of the time (section 11).
#
# The picture says how many numbers an image has in each layer:

# %%
pictures.network(vae.shape)

# %% [markdown]
# ```text
# h                  = leaky(x W1' + b1)
# mean, log variance = h W2' + b2
# z                  = mean + exp(log variance / 2) noise
# g                  = leaky(z W3' + b3)
# logits             = g W4' + b4
# ```
#
# W' is W transposed. leaky(v) is v above 0, and v / 5 below: **LeakyReLU**. A logit l becomes a
# grey level by sigmoid(l) = 1 / (1 + exp(-l)).
#
# For each number of a code the encoder gives a mean, and the logarithm of a variance: a cloud. In
# training z is a random point of it, by normal noise, so neighbours must look alike. The codes
# above are means.

# %% [markdown]
# ## 2 A loss that does not overflow
#
# <kbd>core</kbd>
#
# The loss of a **batch** of images has two sums, divided by the number of images:
#
# - **BCE** (binary cross-entropy), over all pixels x, with s = sigmoid(l):
#   -x log(s) - (1 - x) log(1 - s).
# - **KL**, over all numbers of the codes: (mean² + variance - 1 - log variance) / 2. It pulls each
#   cloud towards mean 0 and variance 1, where codes are drawn later.
#
# A pixel has x = 0, its logit grows: 1, 2, 3, ... From which one on is BCE infinite in float32?

# %%
predict("first logit whose BCE is infinite", 89, within=1.2)

# %%
import math

from numba import float32

rng = np.random.default_rng(7)
with np.errstate(divide="ignore"):
    logit = np.arange(1, 120, dtype=np.float32)
    s = 1 / (1 + np.exp(-logit))
    bce = -np.log(1 - s)
print("logit 10:", f"{bce[9]:.4f}", " logit 16:", f"{bce[15]:.4f}")
predict.answer("first logit whose BCE is infinite", int(logit[np.isinf(bce)][0]), how="found")

# %% [markdown]
# exp(l) overflows only at 89. But from 17 on s rounds to 1, and log(1 - s) is infinite. The loss of
# logit 16 is wrong by 0.06. Write BCE by the **logit**, with e = exp(-|l|) <= 1:
#
# ```text
# BCE   = max(l, 0) - l x + log(1 + e)
# slope = sigmoid(l) - x        sigmoid(l) = 1 / (1 + e) for l >= 0, else e / (1 + e)
# ```
#
# The slope is BCE's derivative by the logit. There the way back begins.
#
# ### Exercise: BCE of a logit, and its slope
#
# `targets` holds the pixels x. Store each logit's BCE in `values`, and its slope times `scale` in
# `slopes`, in float32. One exponential serves both.
#
# <details><summary>Hint 1: the order</summary>
#
# Load logit and target. Then `e = math.exp(-abs(logit))`, the loss, the sigmoid, the slope.
#
# </details>
#
# <details><summary>Hint 2: two ways of the sigmoid</summary>
#
# `(float32(1) if logit >= float32(0) else e) / (float32(1) + e)`
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def bce_of_logits(logits, targets, scale, values, slopes):
    """Write BCE of each logit, and its slope times `scale`."""
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < logits.size:
        logit, x = logits[i], targets[i]
        e = math.exp(-abs(logit))
        values[i] = max(logit, float32(0)) - logit * x + math.log(float32(1) + e)
        share = (float32(1) if logit >= float32(0) else e) / (float32(1) + e)
        slopes[i] = scale * (share - x)
    ### END SOLUTION


# %% tags=["check"]
check("bce-of-logits", bce_of_logits)

# %%
# NBVAL_IGNORE_OUTPUT
beside("bce-of-logits", bce_of_logits)

# %% [markdown]
# ## 3 The gradient by hand
#
# <kbd>core</kbd>
#
# Backward a layer y = v W' + b is given d_y, the loss's derivatives by y. It makes
#
# ```text
# d_v = d_y W                             for the layer below
# d_W = d_y' v,  d_b = sum of d_y's rows  for the update
# ```
#
# LeakyReLU divides by 5 where its number is not above 0. The noise is a **constant**:
#
# ```text
# d_mean         = d_z + mean / images
# d_log variance = (d_z noise exp(log variance / 2) + (variance - 1) / images) / 2
# ```
#
# What has `/ images` is KL's.

# %% [markdown]
# All kernels are held to `course_models/vae/reference.py`, in NumPy. Is it right? Move one weight
# by h to both sides, as in [lesson 15](15_your_kernel_inside_pytorch.ipynb): the loss's difference,
# divided by 2 h, must be the derivative. In a tiny network:

# %%
from course_models.vae import reference
from course_models.vae.shape import VAEShape
from course_lessons.lesson16.parts import quotients

for name, by_hand, quotient in quotients(("pixels.weight", "decode.bias", "code.weight")):
    print(f"{name:14} by hand {by_hand:9.5f}  quotient {quotient:9.5f}")

# %% [markdown]
# ## 4 The data: bytes
#
# <kbd>core</kbd>
#
# The file of images: their count (int32, lowest byte first), a byte for each pixel, a byte for each
# label. (The course reads MNIST's own files, too: the variable COURSE_MNIST says in which folder.)
#
# A file can be cut off, and its reader would take labels for pixels. So the reader refuses it, and
# says where it ends:

# %%
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "digits.bin")
    data.write(file, unseen.images, unseen.labels)
    content = file.read_bytes()
    print(len(content), "bytes:", *content[:4], "are the number of images")
    again = data.read(file)
    print("the same images:", np.array_equal(again.images, unseen.images))
    file.write_bytes(content[:-7])  # seven bytes are lost
    try:
        data.read(file)
    except ValueError as refused:
        print(str(refused).replace(": ", ":\n"))

# %% [markdown]
# ## 5 Kernels that you know
#
# <kbd>deepening</kbd>
#
# `course/kernels/` has most of a VAE, in steps ("each": a number a thread; "wide": four at once):
#
# | operation | from | steps |
# |---|---|---|
# | product | [lesson 05](05_shared_memory.ipynb) | naive, tiled, padded, vectorised, tensor cores |
# | bias, LeakyReLU, both ways | [lesson 13](13_normalisation_and_fusion.ipynb) | each, wide |
# | BCE, KL | [lesson 10](10_reductions.ipynb) | atomics, tree, unrolled, shuffles, vectorised |
# | sums of rows, for a bias | lesson 10 | warps |
# | sample | new, section 6 | Philox |
# | Adam | new, section 9 | each, wide |

# %% [markdown]
# The product comes in three **layouts**: a factor is transposed (t) or not (n). The product x W' is
# "nt". For d_v = d_y W it is "nn", for d_W = d_y' v "tn". Tiles are turned as they are filled.

# %%
from course.kernels.gemm import float32 as matmul

a, b = (rng.standard_normal((48, 40), dtype=np.float32) for _ in range(2))
square = rng.standard_normal((40, 40), dtype=np.float32)
for layout, left, right, exact in (
    ("nt", a, square, a @ square.T.astype(np.float64)),
    ("nn", a, square, a @ square.astype(np.float64)),
    ("tn", a, b, a.T @ b.astype(np.float64)),
):
    off = np.abs(matmul.matmul(left, right, layout, method="tiled") - exact).max()
    print(f"{layout}: right to 1e-5: {off < 1e-5}")

# %% [markdown]
# "padded" is "tiled" with rows of 33 numbers instead of 32 ([lesson 05](05_shared_memory.ipynb)).
# Does padding help in layout "nn"?
#
# Divide the wavefronts of shared memory that "tiled" needs by those that "padded" needs. What comes
# out in layout "nn", and what in "nt"? (2: twice as many.)

# %%
predict("wavefronts, tiled / padded, nn and nt", 2, 4, within=1.1, numbers=2)


# %%
def wavefronts(layout, method):
    """Wavefronts of shared memory, of a product of 64 x 64 matrices."""
    factor = np.ones((64, 64), np.float32)
    tile, pad = matmul.SQUARE, 1 if method == "padded" else 0
    arguments = factor, factor, np.zeros((64, 64), np.float32)
    report = trace(matmul.tiled(layout, pad), (64 // tile,) * 2, (tile, matmul.BLOCK_Y), *arguments)
    both = [report.total("shared", operation) for operation in ("load", "store")]
    print(f"{layout} {method:6} conflicts: {sum(each.conflicts for each in both):6,}")
    return sum(each.wavefronts for each in both)


ratios = [wavefronts(its, "tiled") / wavefronts(its, "padded") for its in ("nn", "nt")]
ratios = tuple(round(ratio, 2) for ratio in ratios)
predict.answer("wavefronts, tiled / padded, nn and nt", ratios, how="counted")

# %% [markdown]
# In "nn" lanes fill a tile's rows and read its rows: 32 banks, no conflict, and **nothing that
# padding could save**. In "nt" lanes fill a tile down its columns: their places are 32 words apart,
# all in one bank. There padding pays. Look for the conflict before you cure it. And the clock, "nn"
# with matrices of 4,096 × 4,096 on an H200:

# %%
for method in ("tiled", "padded"):
    wanted = {"kernel": "matmul nn", "variant": method, "shape": "4096x4096x4096"}
    (its,) = recorded("vae_micro", metric="time", gpu="H200", **wanted)
    print(f"{method:6} {its.teraflops:.1f} TFLOP/s")

# %% [markdown]
# ## 6 Noise from a counter
#
# <kbd>deepening</kbd>
#
# A generator of random numbers usually has a **state**, and each draw changes it. On a GPU each
# thread needs a state of its own, in memory. Here is the sample with xoroshiro128+, the generator
# that Numba has in `cuda.random`. Its state has 16 bytes:

# %%
from course_lessons.lesson16.toy_generator import next_normal, states_of


@cuda.jit
def sample_by_state(mean, log_variance, states, z, noise):
    """z = mean + deviation times noise, each thread with its own generator."""
    i = cuda.grid(1)
    if i < z.size:
        e = next_normal(states, i)
        noise[i] = e
        z[i] = mean[i] + math.exp(float32(0.5) * log_variance[i]) * e


# %% [markdown]
# Mean, log variance, z and noise are 16 bytes an element. A normal number takes two draws, and each
# draw reads the state and writes it.
#
# How many bytes does a thread load and store, all in all?

# %%
predict("bytes an element, generator with a state", 16, exact=True)

# %%
N = 1024
numbers = rng.standard_normal((2, N), dtype=np.float32)
results = np.zeros((2, N), np.float32)
report = trace(sample_by_state, N // 128, 128, *numbers, states_of(N), *results)
asked = report.total("global", "load").bytes + report.total("global", "store").bytes
predict.answer("bytes an element, generator with a state", asked // N, how="counted")

# %% [markdown]
# Five times what the formula shows. Caches serve the second draw. Still 48 bytes an element must
# pass: the 16, and the state in and out, twice 16. Who counts 16 misses that. Where memory decides,
# its bandwidth then looks like a third of what the kernel really uses. **A kernel's bytes include
# its random numbers' state.**

# %% [markdown]
# **Philox** has no state. It is a function, as a cipher is: (counter, seed) goes in, random bits
# come out. The counter here is a place in z, and the step of the training. Nothing is kept from one
# draw to the next. And any grid, any GPU, NumPy, too, draws the same noise in any order.

# %%
from course_models.training import rng as sampling
from course_models.training.rng import normal4  # for the exercise

by_four = N // 4 // 128
report = trace(sampling.sample, by_four, 128, *numbers, np.array([5, 0]), *results)
asked = report.total("global", "load").bytes + report.total("global", "store").bytes
print(f"bytes loaded and stored, an element: {asked / N:.0f}")
print("NumPy's", *np.round(reference.noise(1, 4, step=0, seed=5)[0], 3))
print("kernel's", *np.round(results[1, :4].astype(np.float64), 3))

# %% [markdown]
# 16, and a quarter of the 16 bytes that hold seed and step: a thread draws four numbers.
#
# ### Exercise: a sample of a code, from a counter
#
# `normal4(group, step, seed)` gives four normal numbers, for the four places from 4 · group on.
# Store them in `noise`, and mean + exp(log variance / 2) noise in `z`. `counter[0]` is the seed,
# `counter[1]` the step. The grid may be smaller than the work. Each thread begins with the group of
# its own index, and goes on by the count of all threads.
#
# <details><summary>Hint 1: the loop</summary>
#
# `for group in range(cuda.grid(1), groups, cuda.gridsize(1)):` with `(z.size + 3) // 4` groups.
#
# </details>
#
# <details><summary>Hint 2: the last group</summary>
#
# `four = normal4(...)`, then a loop over n from 0 to 3, and in it `if i < z.size`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def sample_code(mean, log_variance, counter, z, noise):
    """Draw z from normal distributions; the same noise whatever the grid."""
    ### BEGIN SOLUTION
    groups = (z.size + 3) // 4
    for group in range(cuda.grid(1), groups, cuda.gridsize(1)):
        four = normal4(group, counter[1], counter[0])
        for n in range(4):
            i = 4 * group + n
            if i < z.size:
                noise[i] = four[n]
                z[i] = mean[i] + math.exp(float32(0.5) * log_variance[i]) * four[n]
    ### END SOLUTION


# %% tags=["check"]
check("sample-code", sample_code)

# %%
# NBVAL_IGNORE_OUTPUT
beside("sample-code", sample_code)

# %% [markdown]
# ## 7 No weight changes before its last reader
#
# <kbd>core</kbd>
#
# Backward, a weight is read once more, for d_v = d_y W. Then it may change. Both need d_y, so
# why not do them in one launch? Here the first blocks make d_v, a row each, and the others change
# W. Each result has one writer. What does the simulator find?


# %%
@cuda.jit
def back_and_update(d_y, v, w, d_v, rate):
    """Blocks make rows of d_v = d_y W; those behind them change rows of W."""
    rows, column, total = d_v.shape[0], cuda.threadIdx.x, float32(0)
    if cuda.blockIdx.x < rows:
        row = cuda.blockIdx.x
        for k in range(w.shape[0]):
            total += d_y[row, k] * w[k, column]
        d_v[row, column] = total
    else:
        k = cuda.blockIdx.x - rows
        for row in range(rows):
            total += d_y[row, k] * v[row, column]
        w[k, column] -= rate * total


# %%
predict("back and update in one launch", "nothing", choices=("nothing", "a race"))

# %%
d_y, v, w = (rng.standard_normal(size, dtype=np.float32) for size in ((4, 3), (4, 8), (3, 8)))
report = trace(back_and_update, 4 + 3, 8, d_y, v, w, np.zeros_like(v), np.float32(0.1))
(race,) = report.findings
print(race.kind, "in line", race.line, "at", race.code)
print("block", race.where.block[0], "changes a weight that a block of d_v reads")
predict.answer("back and update in one launch", "a race", how="found")

# %% [markdown]
# Nothing says whether a block of d_v reads W before or after it changes. A network may still learn
# with a wrong gradient now and then, so nobody would look for it. **Idle threads** at a tile's edge
# can do it, too: who has no result must read nothing.

# %% [markdown]
# The cure is two launches: a launch begins when all before it in the stream is done. Two operations
# may share one, unless one of them **writes** what the other one reads or writes. Here are a step's
# twelve, with what they read and write. "code" is mean and log variance, "d_logits" makes the
# logits and BCE's slope. `races` launches two of them side by side in the simulator.

# %%
from course_lessons.lesson16.parts import fetched
from course_lessons.lesson16.toy_launches import STEP, fewest, races

TILE, PITCH = 32, 33  # of the product in section 8
for work in STEP:
    print(f"{work.name:10} reads {', '.join(work.reads):16} writes {', '.join(work.writes)}")
by_name = {work.name: work for work in STEP}
for neighbour in ("d_g", "d_code"):
    found = races([by_name[neighbour], by_name["update W4"]])
    print(f"update W4 beside {neighbour}: {'a race' if found else 'no race'}")

# %% [markdown]
# ### Exercise: as few launches as the order allows
#
# `work` is a list of (name, reads, writes), in an order that is right. Return a list of launches,
# each a list of names: as few launches as possible, with the results of that order.
#
# <details><summary>Hint 1: when two must stay apart</summary>
#
# `set(writes) & (set(other_reads) | set(other_writes))`, or the other way round: what one writes,
# the other uses.
#
# </details>
#
# <details><summary>Hint 2: where it goes</summary>
#
# Take the operations in order. Each goes into the launch after the **last** one that holds an
# operation from which it must stay apart.
#
# </details>


# %% tags=["exercise"]
def launches_in_order(work):
    """Return launches, each a list of names, as few as the order of `work` allows."""
    ### BEGIN SOLUTION
    launches = []
    for name, reads, writes in work:
        after = 0
        for number, launch in enumerate(launches, start=1):
            for _, others_reads, others_writes in launch:
                if set(writes) & {*others_reads, *others_writes} or set(reads) & {*others_writes}:
                    after = number
        if after == len(launches):
            launches.append([])
        launches[after].append((name, reads, writes))
    return [[name for name, _, _ in launch] for launch in launches]
    ### END SOLUTION


# %% tags=["check"]
check("order-the-launches", launches_in_order)

# %% [markdown]
# Nine launches for twelve operations. Weights change as soon as their last reader is done:

# %%
pictures.launches(STEP, fewest(STEP))

# %% [markdown]
# ## 8 Fusing, down to two launches
#
# <kbd>core</kbd>
#
# A layer takes three launches: product, bias, LeakyReLU. But the thread that summed a number has
# it in a register. Its work before the store is the **epilogue**.
#
# ### Exercise: a product with its bias and LeakyReLU
#
# Write leaky(x weight' + bias). Row j of `x_tile` is for your result's row, row i of
# `w_tile` for its column. Write the rest of a round, and below the loop bias, LeakyReLU, one store.
#
# <details><summary>Hint 1: a round</summary>
#
# A barrier, then the sum over n of `x_tile[j, n] * w_tile[i, n]`, then a barrier.
#
# </details>
#
# <details><summary>Hint 2: the epilogue</summary>
#
# Only for threads with a result: `y = total + bias[column]`, then y or a fifth of it.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def hidden_layer(x, weight, bias, out):
    """Write leaky(x weight' + bias), in blocks of TILE x TILE threads."""
    x_tile = cuda.shared.array((TILE, PITCH), float32)  # [row, depth]
    w_tile = cuda.shared.array((TILE, PITCH), float32)  # [column, depth]
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.grid(2)
    unit = cuda.blockIdx.x * TILE + j  # whose weights this thread fetches, 0 beyond the edge
    total = float32(0)
    for start in range(0, x.shape[1], TILE):
        k = start + i
        x_tile[j, i], w_tile[j, i] = fetched(x, row, k), fetched(weight, unit, k)
        ### BEGIN SOLUTION
        cuda.syncthreads()
        for n in range(TILE):
            total += x_tile[j, n] * w_tile[i, n]
        cuda.syncthreads()
        ### END SOLUTION
    ### BEGIN SOLUTION
    if row < out.shape[0] and column < out.shape[1]:
        y = total + bias[column]
        out[row, column] = y if y > float32(0) else float32(0.2) * y
    ### END SOLUTION


# %% tags=["check"]
check("product-epilogue", hidden_layer)

# %%
# NBVAL_IGNORE_OUTPUT
beside("product-epilogue", hidden_layer)

# %% [markdown]
# The second fusion is for the way back. d_W = d_y' v is made in tiles. Adam, the rule by which
# weights change (section 9: it keeps two **moments** for each), is a formula for each element of
# d_W. It follows **in the same tile**: no gradient is stored.
#
# The third makes one launch of many. What an image becomes depends on no other image. So a group of
# blocks takes 16 images forward and back (`course_models/vae/forward.py`). A second launch updates
# all weights (`update.py`).

# %% [markdown]
# `LayeredTrainer` has a launch for each operation, `FusedTrainer` two a step. The first has 14
# products (mean and log variance are two layers), and each bias, activation and loss is one or two
# launches more. How many launches has its step? And how many times the bytes of the fused step does
# it touch, if each launch counts each byte that it touches once?

# %%
predict("launches, layered; bytes, layered / fused", 20, 20, within=1.5, numbers=2)

# %%
# NBVAL_IGNORE_OUTPUT
from course_models.vae.weights import Training
from course_lessons.lesson16.counting import bytes_of_fused, bytes_of_layered

seen = data.digits(held_out=False).images
begun = Training.begun(vae.shape, batch=32, seed=1, rate=2e-3)
many, two = bytes_of_layered(begun, seen), bytes_of_fused(begun, seen)
print(f"layered: {sum(many) / 1e6:.2f} MB in {len(many)} launches")
print(f"fused:   {sum(two) / 1e6:.2f} MB in {len(two)} launches")
print(f"weights and moments alone: {3 * 4 * vae.shape.count / 1e6:.2f} MB")
found = len(many), round(sum(many) / sum(two), 1)
predict.answer("launches, layered; bytes, layered / fused", found, how="counted")

# %% [markdown]
# Bytes fall to less than half, launches to a twentieth. Section 12 has the times.

# %% [markdown]
# ## 9 Adam in one kernel
#
# <kbd>deepening</kbd>
#
# Adam keeps two **moments** for each weight: a running mean of its gradients, and one of their
# squares. The weight goes against the first, divided by the root of the second.
#
# ```text
# first  += 0.1   (g  - first)
# second += 0.001 (g² - second)
# w      -= rate first / (1 - 0.9^t) / (sqrt(second / (1 - 0.999^t)) + 1e-8)
# ```
#
# `rate`, such as 0.001, says how far a weight goes. Moments begin at 0. So after t steps they are
# too small, by the factors 1 - 0.9^t and 1 - 0.999^t, and Adam divides by these. Both are the same
# for all weights: compute them once a step, on the host.

# %% [markdown]
# In which type? Take t = 1. 0.999 is no float32 number: it is rounded first, and then subtracted
# from 1. How large is the relative error of 1 - 0.999 in float32? (Rounding alone makes one of 6e-8
# at most.)

# %%
predict("relative error of 1 - 0.999 in float32", 6e-8, within=3)

# %%
short = float(np.float32(1) - np.float32(0.999))
error = abs(short - 0.001) / 0.001
predict.answer("relative error of 1 - 0.999 in float32", float(f"{error:.1e}"), how="computed")

# %% [markdown]
# Two hundred times as much: digits cancel ([lesson 13](13_normalisation_and_fusion.ipynb)). So the
# host does it in float64, once, and hands the kernel two float32 factors. A float64 operation in
# the kernel would be done for each weight.
#
# In PyTorch without `fused=True` a step of Adam is a dozen kernels over all weights. In one kernel
# an element moves 28 bytes: four numbers in, three out.

# %% [markdown]
# ### Exercise: a step of Adam
#
# Change w, first and second in place. `corrected[0]` is rate / (1 - 0.9^t), `corrected[1]` is 1 /
# (1 - 0.999^t). The launch may have more threads than weights. All in float32.
#
# <details><summary>Hint: in which order</summary>
#
# Load g = gradient[i]. Compute the new first moment m and the new second one v in variables, change
# w[i] by them, then store both.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def adam_step(w, gradient, first, second, corrected):
    """Change weights and their moments by a step of Adam."""
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < w.size:
        g, m, v = gradient[i], first[i], second[i]
        m += float32(0.1) * (g - m)
        v += float32(0.001) * (g * g - v)
        w[i] -= corrected[0] * m / (math.sqrt(v * corrected[1]) + float32(1e-8))
        first[i], second[i] = m, v
    ### END SOLUTION


# %% tags=["check"]
check("adam-step", adam_step)

# %%
# NBVAL_IGNORE_OUTPUT
beside("adam-step", adam_step)

# %% [markdown]
# ## 10 What `volatile` does not do
#
# <kbd>deepening</kbd>
#
# Older code sums a block's last 64 numbers by one warp, **without any barrier**. Its threads run in
# step, so each has written before another reads. In C the array was `volatile`: none of it is kept
# in a register. Here it is, with and without one:


# %%
def sum_of_a_warp(waits):
    """A kernel that sums 64 numbers by one warp."""

    @cuda.jit
    def warp_sum(x, out):
        values = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        values[t], values[t + 32] = x[t], x[t + 32]
        for half in (32, 16, 8, 4, 2, 1):
            if waits:
                cuda.syncwarp()
            if t < half:
                values[t] += values[t + half]
        if t == 0:
            out[0] = values[0]

    return warp_sum


# %%
predict("a warp's sum without a barrier", "nothing", choices=("nothing", "a race"))

# %%
for waits in (False, True):
    given = np.ones(64, np.float32), np.zeros(1, np.float32)
    found = trace(sum_of_a_warp(waits), 1, 32, *given).findings
    kinds = {f"{finding.kind} in line {finding.line}" for finding in found}
    print(f"waits: {waits!s:5} {', '.join(sorted(kinds)) or 'no finding'}")
    if not waits:
        said = "a race" if any("race" in kind for kind in kinds) else "nothing"
predict.answer("a warp's sum without a barrier", said, how="found")

# %% [markdown]
# Since Volta (2017) a warp's threads need not run in step: each has its own place in the program.
# `volatile` says *do not keep it in a register*. It says nothing about **when** the other thread
# writes. `cuda.syncwarp()` does: it waits for the warp's threads, and orders their memory. Shuffles
# need no memory at all ([lesson 10](10_reductions.ipynb)), and are the package's way.

# %% [markdown]
# ## 11 Training
#
# <kbd>core</kbd>
#
# An **epoch** takes all images once, in a new random order, here in batches of 32. Order and noise
# follow from seed and step, so every trainer here does the same. These are the losses of the first
# three steps, by NumPy, by a launch for each operation, and by two launches:

# %%
from course import gpu
from course_models.vae.trainer import FusedTrainer
from course_models.vae.reference import NumpyTrainer
from course_lessons.lesson16.layered import LayeredTrainer

for kind in (NumpyTrainer, LayeredTrainer, FusedTrainer):
    trainer = kind(begun, seen)
    trainer.run(3)
    print(f"{kind.__name__:15}", *(f"{loss:7.1f}" for loss in trainer.losses))

# %% [markdown]
# Without a GPU the kernels' steps are simulated, a tenth of a second and more each. NumPy takes a
# millisecond for a step of a network this small. So here NumPy trains; where there is a GPU, the
# fused kernels do. Two epochs (a loss by natural logarithms is in *nats*):

# %%
# NBVAL_IGNORE_OUTPUT
Trainer = FusedTrainer if gpu() else NumpyTrainer
trainer = Trainer(begun, seen)
trainer.run(2 * trainer.steps_of_an_epoch)
print(f"{trainer.step} steps by {Trainer.__name__}, on {gpu() or 'the CPU'}")
plots.loss_curve(trainer.losses, trainer.steps_of_an_epoch)

# %% [markdown]
# Now stop in the middle of an epoch, save, load, go on. What must be in the file, besides the
# weights? Both moments, and the step: it says where in the epoch we are, in which order, and which
# noise comes next.
#
# Does a training that was stopped end in the same bits as one that was not?

# %%
predict("weights after a stop", "equal", choices=("equal", "close", "different"))

# %%
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "training.npz")
    before = Trainer(begun, seen)
    before.run(30)  # an epoch has 44 steps
    before.training().save(file)
    after = Trainer(Training.load(file), seen)
after.run(trainer.step - after.step)
ends = [its.training().weights for its in (trainer, after)]
equal = all(np.array_equal(ends[0][name], ends[1][name]) for name in ends[0])
predict.answer("weights after a stop", "equal" if equal else "different", how="found")

# %% [markdown]
# Equal bits take sums in a fixed order, and noise that follows from the step. With a generator that
# has a state, the file would have to hold each thread's.
#
# What has the network learned in two epochs? Codes are drawn at random and decoded. The upper row
# is your network's; the lower that of the course, after 900 epochs.

# %%
# NBVAL_IGNORE_OUTPUT
learned = VAE(vae.shape, trainer.training().weights)
pictures.in_two_rows(learned.sample(10, 3), vae.sample(10, 3), ["yours", "shipped"])

# %% [markdown]
# ## 12 What an epoch takes
#
# <kbd>core</kbd>
#
# `python -m course vae train` trains as long as you like, on MNIST if you have it. The weights that
# ship are the **small model's**, of 8 × 8 digits. The full size is only timed, on these digits
# drawn larger: 28 × 28 pixels, 869,184 parameters, 468 steps of 128 images on one H200.
#
# The course has four ways, all in CUDA graphs. *naive* and *optimised* take 49 and 42 launches a
# step, two *fused* ones two. PyTorch's ways go from plain (*eager*) to compiled and captured in a
# CUDA graph.
#
# How many times as fast is the best fused step as the best of PyTorch's, both with float32's
# accuracy?

# %%
predict("fused against the best PyTorch, times as fast", 1, within=1.6, no_effect=1)

# %%
epochs = {
    its.variant: its.median
    for its in recorded("vae", gpu="H200")
    if its.kernel == "epoch" and its.dtype == "float32"
}
peers = {name: time for name, time in epochs.items() if name.startswith("torch")}
best = min(peers, key=peers.get)
ours = epochs["fused, 3xTF32"]
print(f"fused {ours:.1f} ms, {best} {peers[best]:.1f} ms")
predict.answer("fused against the best PyTorch, times as fast", round(peers[best] / ours, 1))
(searched,) = recorded("vae_autotune", dtype="float32")
print(f"max-autotune on an {searched.gpu}: {searched.median:.0f} ms")
print("until a process's first epoch is done, kernels compiled or kept:")
for its in recorded("vae", kernel="epoch", metric="first", gpu="H200"):
    print(f"  {its.variant:40}{its.median / 1e3:6.2f} s")
pictures.epochs(epochs)

# %% [markdown]
# Half a minute, once: long kernels take long to compile. Who trains for a few epochs, and once, is
# done sooner with plain PyTorch. "max-autotune" searches for four minutes. It was recorded on an
# H100, the rest on an H200, so its 118 ms beside 93.7 ms decide nothing.
#
# "fused, float32" uses plain cores. "fused, 3xTF32" uses tensor cores, which round factors to
# **TF32**, 10 bits behind the point. It makes three such products for one, for the bits that one
# loses ([lesson 17](17_tensor_cores.ipynb)). Is that as exact as float32? Here are a step's
# gradients against float64: the relative error of the layer that is worst. In rows with "tfloat32"
# each product is made once:

# %%
for name in ("fused, 3xTF32", "fused, float32", "fused, TF32", "torch"):
    for its in recorded("vae", metric="worst gradient", variant=name, gpu="H200"):
        print(f"  {name:15} {its.dtype:10} {its.median:.1e}")

# %% [markdown]
# One product in TF32 is more than a thousand times worse. Three for one are as exact as float32.
#
# What is the least that an epoch could take? Its products need their operations. And each step
# reads and writes weights and two moments, six numbers of 4 bytes for each parameter, in the L2
# cache. Each of the two is a floor:

# %%
from course import recorded_roofs

roofs = recorded_roofs("H200")
(epoch,) = recorded("vae", variant="fused, 3xTF32", metric="time", gpu="H200")
by_operations = 3 * epoch.operations / roofs.rates["tensor_float32"] * 1e-9
steps = int(epoch.shape.partition("x")[0])
by_bytes = steps * 6 * 4 * VAEShape().count / roofs.l2_bandwidth * 1e-6
a_step = 1e3 * epoch.median / steps
print(f"three products of TF32 each  {by_operations:5.1f} ms")
print(f"weights and moments, from L2 {by_bytes:5.1f} ms")
print(f"measured                     {epoch.median:5.1f} ms")
print(f"a step {a_step:.0f} µs, a ninth of it {a_step / 9:.1f} µs")

# %% [markdown]
# Neither floor is near. What is left is **latency**, time in which somebody waits. Nine operations
# must follow each other (section 7), and each has some microseconds. It begins with loads that it
# waits for, and the next one waits for its last block. A layer of 128 images is little work for 132
# SMs. Fusing took launches away, and bytes. It cannot take away that one operation waits for
# another.

# %% [markdown]
# ## 13 Below the right roof
#
# <kbd>deepening</kbd>
#
# The same kernels, large enough to fill the GPU: products of 4,096 × 4,096 matrices, and all others
# on 67 million elements. The roofs were measured on the same GPU, in the same run. First the
# product's steps, and cuBLAS:

# %%
figures = recorded("vae_micro", metric=None, gpu="H200")
pictures.of_products(figures)

# %% [markdown]
# All stand far to the right of the ridge: not memory, but operations or what goes with them decide
# (indices, loads of shared memory, launches). Now the other kernels, each by its
# fastest step. What computes nothing has no place on a roofline: it stands below, by its bytes.

# %%
pictures.of_kernels(figures)

# %% [markdown]
# Here memory decides. Most of the kernels that compute reach its roof. Two do not. Philox's integer
# operations are no part of this picture, so the sample seems to do little. The bias's gradient has
# a block for each 32 columns. At 1,024 columns these are 32 blocks, for 132 SMs: it was written for
# batches of a hundred rows.
#
# What if the peaks come from the data sheet of **another GPU**? Take the course's Adam, measured on
# the H200, and the bandwidth that an A100's data sheet prints. How many percent of it does Adam
# reach?

# %%
predict("Adam, percent of an A100's bandwidth", 90, within=1.3)

# %%
from course import known_gpu

right, wrong = pictures.roofs_in(figures), known_gpu("A100")
points = pictures.some_points(figures)
adam = points["adam"].gigabytes_per_second
for roofs in (right, wrong):
    print(
        f"{roofs.gpu}: {adam / roofs.bandwidth:4.0%} of {roofs.bandwidth:,.0f} GB/s, "
        f"ridge {roofs.ridge():.1f}"
    )
share = round(100 * adam / wrong.bandwidth)
predict.answer("Adam, percent of an A100's bandwidth", share, how="computed")

# %%
pictures.two_roofs(points, right, wrong)

# %% [markdown]
# The wrong roof changes each percentage, and the **ridge**: a kernel between the two ridges goes
# from "memory decides" to "operations decide". The points, their order and each speed-up stay. A
# roof that is too low shows, since nothing can be above a roof by more than its spread (1% here).
# One that is too **high** does not show: all kernels look slow, and somebody spends a week on one
# that is done.

# %%
progress(16)

# %% [markdown]
# ## What you should be able to say now
#
# - A VAE's code is a cloud, and its loss is BCE and KL. To the way back the noise is a constant.
# - BCE belongs to the logit: exp(-|l|) never overflows, and serves loss and slope.
# - What one operation writes, no other one of its launch may touch: no weight changes before its
#   last reader.
# - An epilogue works on what is still in registers.
# - To go on with a training takes weights, moments, step.
# - Deepening: noise from a counter costs no bytes; `volatile` is no barrier. Padding cures only a
#   conflict that is there, and a roof belongs to one GPU.

# %% [markdown]
# ## Questions
#
# 1. Why is the log variance learned, and not the variance?
# 2. Block 7 has no result. It reads W[0] all the same, and throws it away. In the same launch
#    block 0 changes W[0]. Does it matter?
# 3. Why may the update of W4 stand beside d_code, and not beside d_g?
#
# <details><summary>Answers</summary>
#
# 1. It may be any number. A variance must be above 0, and a step of Adam would not know that.
# 2. No result changes today. But it is a race: the language promises nothing, and another compiler
#    or the next change of the code can make it count. Idle threads read nothing.
# 3. d_g reads W4 and must have the old one. It is done when d_code begins, and d_code reads W3.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Train with a code of 2 numbers: `VAEShape(64, 128, 2)`. Then draw the plane of all codes,
#   `plots.code_plane(mean, labels)`.
# - Give KL a weight of 4 in `reference.py`, train, and look at digits and samples. Which get
#   better, which worse?
# - Put `sample_code` into the launch of the layer before it. Which tile needs which noise?
# - With a GPU and MNIST: `python -m course vae train`. How far is its loss after ten epochs?
# - With a GPU: `python -m course bench vae_micro`, and draw `pictures.of_kernels` of your own file.

# %% [markdown]
# ## Common misconceptions
#
# - *"The random part cannot have a gradient."* The noise has none; mean and deviation do.
# - *"It trains, so there is no race."* A stale weight now and then looks like noise.
# - *"Threads of a warp are in step, so they need no barrier."* Not since Volta.
# - *"Padding is always worth it."* It cures a conflict; where none is, it only takes memory.
# - *"Fewer launches are faster because launches cost."* In a graph they cost little. The bytes
#   between them, and each kernel's start and tail, do.
# - *"Random numbers cost nothing but operations."* A state is read and written in each draw.

# %% [markdown]
# ## What to read next
#
# - Kingma and Welling, [Auto-encoding variational Bayes](https://arxiv.org/abs/1312.6114); and
#   their [Introduction to variational autoencoders](https://arxiv.org/abs/1906.02691).
# - Kingma and Ba, [Adam](https://arxiv.org/abs/1412.6980).
# - Salmon and others, [Parallel random numbers: as easy as 1, 2,
#   3](https://www.thesalmons.org/john/random123/papers/random123sc11.pdf): Philox.
# - NVIDIA, CUDA C++ Programming Guide, [Independent thread
#   scheduling](https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#independent-thread-scheduling).
# - Next in the course: [lesson 17](17_tensor_cores.ipynb), tensor cores.
