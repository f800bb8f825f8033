# %% [markdown]
# # 18 A vision transformer
#
# A vision transformer cuts an image into patches, and lets each patch look at all others. You write
# its kernels for float16. Then a trained network runs on them.

# %% [markdown]
# ## What you will do
#
# - Cut images into rows, and compute attention in float16 without storing a score.
# - Read digits with a trained network that runs on your kernels.

# %% [markdown]
# ## What you will learn
#
# - What a vision transformer computes, and what of it must be float32.
# - Why small batches wait for launches and weights, and large ones for tensor cores.

# %% [markdown]
# ## What you need
#
# Tiles from [lesson 05](05_shared_memory.ipynb), softmax from [lesson 10](10_reductions.ipynb),
# LayerNorm from [lesson 13](13_normalisation_and_fusion.ipynb), the epilogue from [lesson
# 16](16_a_vae_from_your_own_kernels.ipynb). Tensor cores are from [lesson
# 17](17_tensor_cores.ipynb), CUDA graphs from [lesson 08](08_streams.ipynb). No GPU is needed:
# times were recorded on an NVIDIA H200.

# %% [markdown]
# ## How long it takes

# %%
# NBVAL_IGNORE_OUTPUT
import math

import numpy as np
from numba import float32
from numba.types import float16

from course import check, cuda, gpu, mine, predict, progress, recorded, trace
from course_models.vit import reference
from course_lessons.lesson18 import machine, parts, pictures
from course_lessons.lesson18.parts import CUBE, KEYS, LOWEST, QUERIES, SIZE, SLOPE, TILE
from course_lessons.lesson18.parts import dot_in_tiles, fill_tile, load_query, row_sum

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 An image as a sentence
#
# <kbd>core</kbd> 5 minutes
#
# A transformer reads sentences: each word becomes a vector, a **token**. A vision transformer, ViT,
# reads an image in the same way. Its words are **patches**, little squares of pixels. Here is a
# small one, trained on digits of 8 × 8 pixels. It has never seen this one:

# %%
rng = np.random.default_rng(0)
shape, weights = parts.trained()
images, labels = parts.unseen()
chosen = 11
pictures.patches(images[chosen, 0].astype(float))

# %% [markdown]
# 16 patches of 2 × 2 pixels. Each becomes a row of four numbers, and a product makes a token of 32
# numbers of each row. A 17th token goes first, the **class token**: it is learned, the same for all
# images, and collects what the others know. To each token a learned vector is added that says where
# it stands: the **position**. This is all of it:

# %%
pictures.network(shape)

# %% [markdown]
# | part | does to the tokens, 17 × 32 |
# |---|---|
# | norm | LayerNorm of each row |
# | q, k, v | a product with 32 × 96, a bias |
# | attention | mixes the rows |
# | proj, + | projection: a product with 32 × 32, added to what came in |
# | fc1, GELU | fully connected: a product with 32 × 64, a curve |
# | fc2, + | a product with 64 × 32, added to what came in |
#
# The "+" is called the **residual**: a block changes its tokens, it does not replace them. In one
# sentence: norms and products work on each token alone, attention mixes them.

# %% [markdown]
# ## 2 Patches as rows
#
# <kbd>core</kbd> 20 minutes
#
# How does a patch become a token? By dot products: each of its pixels times a weight, summed, for
# each of the token's numbers. The first idea is a kernel that makes **one dot product**, of one
# line of 16 pixels in one channel. It is launched again and again.
#
# Take ViT-Base, the usual size. An image has 224 × 224 pixels in three colours, its 196 patches
# have 16 × 16. A token has 768 numbers. 12 blocks follow, with 86 million weights in all. How many
# launches does an image take?

# %%
predict("launches for an image, a dot product each", 7_000_000, within=1.3)

# %%
(launch,) = recorded("launch", variant="no arguments", metric="host", gpu="H200")
dots = machine.launches_of_dots()
print("196 patches x 768 numbers x 3 channels x 16 lines")
print(f"at {1e3 * launch.median:.0f} µs a launch: {dots * launch.median / 1e3:.0f} s an image")
predict.answer("launches for an image, a dot product each", dots, how="computed")

# %% [markdown]
# More than a minute, for work that the GPU does in microseconds. All these dot products are **one
# matrix product**, of patches as rows and weights. So all it takes is to copy patches to rows.
#
# ### Exercise: patches as rows
#
# `images` is (n, channels, height, width), `rows` is (n · patches, channels · patch · patch). Fill
# `rows` as in the picture: patches line by line, image after image. A row has channel after
# channel, each with the patch's pixels line by line. Thread (column, row) has one number. Sides are
# multiples of `patch`.
#
# <details><summary>Hint 1: from row to patch</summary>
#
# An image has `across = images.shape[3] // patch` patches in a line, and `count` in all. Row r is
# patch `r % count` of image `r // count`.
#
# </details>
#
# <details><summary>Hint 2: from column to pixel</summary>
#
# A channel has `patch * patch` numbers of a row. `//` by that gives the channel, `%` the pixel
# within the patch; `//` and `%` by `patch` give that pixel's line and place.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def patch_rows(images, patch, rows):
    """Write the patches of images as rows; x walks along a row."""
    column, row = cuda.grid(2)
    ### BEGIN SOLUTION
    if row < rows.shape[0] and column < rows.shape[1]:
        across = images.shape[3] // patch
        count = images.shape[2] // patch * across
        image, place = row // count, row % count
        channel, pixel = column // (patch * patch), column % (patch * patch)
        y = place // across * patch + pixel // patch
        x = place % across * patch + pixel % patch
        rows[row, column] = images[image, channel, y, x]
    ### END SOLUTION


# %% tags=["check"]
check("patch-rows", patch_rows)

# %% [markdown]
# ## 3 Sums in float16
#
# <kbd>deepening</kbd> 30 minutes
#
# All matrices here are float16: half the bytes. Tensor cores, a GPU's units for products of small
# matrices, take nothing longer at full speed. A float16 number has 11 bits of digits, and ends at
# 65,504. What does that do to a **sum**? One thread adds 4,000 ones, once in float16, once in
# float32. Where does the float16 sum end?

# %%
predict("4,000 ones, added in float16", 4000, exact=True)


# %%
@cuda.jit
def two_sums(ones, in_halves, in_float32):
    """Store each running sum; a thread has a row."""
    i = cuda.grid(1)
    half, total = float16(float32(0)), float32(0)
    for n in range(ones.shape[1]):
        half += ones[i, n]
        total += float32(ones[i, n])
        in_halves[i, n], in_float32[i, n] = half, total


ones = np.ones((1, 4000), np.float16)
sums = [np.zeros((1, 4000), np.float32) for _ in range(2)]
two_sums[1, 1](ones, *sums)
predict.answer("4,000 ones, added in float16", int(sums[0][0, -1]), how="counted")
lines = dict(zip(("float16", "float32"), (its[0] for its in sums), strict=True))
pictures.running_sums(np.arange(1, 4001), lines)

# %% [markdown]
# From 2,048 on float16 counts in twos. 2,048 + 1 lies between 2,048 and 2,050, and is rounded back:
# the sum **stops**. No error, no warning. Before that it only loses digits.
#
# That was one way to go wrong. LayerNorm of a token needs a mean and a mean of squares. Take a
# token of 768 numbers with a mean of 60. What is the sum of their squares in float16? And what is
# infinity less infinity, which a softmax meets if two scores overflow?

# %%
predict("768 squares near 3,600, summed in float16", "2.8e6", choices=("2.8e6", "65504", "inf"))

# %%
token = (60 + rng.standard_normal(768)).astype(np.float16)
with np.errstate(over="ignore", invalid="ignore"):
    squares = np.float16(0)
    for number in token:
        squares += number * number
    scores = np.float16([300, 200]) * np.float16([400, 400])  # products of a query and two keys
    less = scores - scores.max()
print("scores", scores, " less the largest", less, " shares", np.exp(less))
predict.answer("768 squares near 3,600, summed in float16", str(squares), how="found")

# %% [markdown]
# Three ways to go wrong, then: a sum in float16 **stops**, **overflows**, and by infinity less
# infinity becomes **NaN**. A NaN in one score is one in the whole row, and after the next product
# everywhere. (The project that this lesson follows met all three: in LayerNorm of 768 numbers, and
# in attention of 768 × 768, which gave NaN.)
#
# The cure is cheap: **store float16, add in float32**. A sum lives in a register, where float32
# costs no bytes. In Numba a product of two float16 numbers is float16, so convert *before* you
# multiply. In one sentence: float16 is for memory, float32 is for sums.

# %% [markdown]
# ### Exercise: LayerNorm in float16
#
# Each row of `x` less its mean, divided by √(variance + 10⁻⁶), times `gamma`, plus `beta`. All
# arrays are float16. A warp has a row. `row_sum(value)` gives the sum over a warp's lanes to each
# of them, as float32; all 32 lanes must call it.
#
# <details><summary>Hint 1: three loops</summary>
#
# Each is `for c in range(lane, x.shape[1], 32)`: one for the mean, one for the squares of
# differences from it, one that stores.
#
# </details>
#
# <details><summary>Hint 2: the sum</summary>
#
# `total = float32(0)`, then `total += float32(x[row, c])`; after the loop `mean = row_sum(total) /
# float32(x.shape[1])`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def norm_rows(x, gamma, beta, out):
    """Write LayerNorm of each row; a warp for each row, four in a block."""
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    ### BEGIN SOLUTION
    if row < x.shape[0]:
        total = float32(0)
        for c in range(lane, x.shape[1], 32):
            total += float32(x[row, c])
        mean = row_sum(total) / float32(x.shape[1])
        squares = float32(0)
        for c in range(lane, x.shape[1], 32):
            off = float32(x[row, c]) - mean
            squares += off * off
        variance = row_sum(squares) / float32(x.shape[1])
        scale = float32(1) / math.sqrt(variance + float32(1e-6))
        for c in range(lane, x.shape[1], 32):
            z = (float32(x[row, c]) - mean) * scale
            out[row, c] = z * float32(gamma[c]) + float32(beta[c])
    ### END SOLUTION


# %% tags=["check"]
check("norm-of-halves", norm_rows)

# %% [markdown]
# ## 4 Attention: who looks at whom
#
# <kbd>core</kbd> 20 minutes
#
# In attention each token asks a question of all tokens. Its **query** is compared with each one's
# **key**, by a dot product: the *score*. A softmax makes shares of the scores, which sum to 1. Then
# the tokens' **values** are averaged by these shares. Query, key and value are three products of
# the token. Two **heads** do this side by side, each with 16 of the 32 numbers.
#
# How much does the class token take of each patch, in the last block?

# %%
shares = parts.class_shares(shape, weights, images[chosen], block=1)
pictures.shares(images[chosen, 0].astype(float), shares, ["head 0", "head 1"])

# %% [markdown]
# ```text
# scores = q k' / 4              17 x 17 for each head; k' is k transposed, 4 the root of 16
# shares = softmax of each row
# out    = shares v              17 x 16
# ```
#
# For 17 tokens that is nothing. ViT-Base has 197, and 12 heads; a larger image or a text has
# thousands of tokens. Scores are tokens × tokens, for each head and each image. How many MB are
# they, in float16, for one image of 4,096 tokens and 12 heads, where q, k and v together are 19 MB?

# %%
predict("MB of scores, 4,096 tokens, 12 heads", 400, within=1.2)

# %%
for tokens in (197, 4096):
    scores, given = 2 * 12 * tokens**2 / 1e6, 2 * 3 * tokens * 768 / 1e6
    print(f"{tokens:5} tokens: scores {scores:6.1f} MB; q, k, v {given:5.1f} MB")
predict.answer("MB of scores, 4,096 tokens, 12 heads", round(scores), how="computed")

# %% [markdown]
# Scores grow with the square of the tokens, all else with the tokens. And they are written, read,
# written as shares, read again. So scores should never reach memory. Can a query forget each score
# as soon as it is used?

# %%
pictures.tiles(11, 4)

# %% [markdown]
# It can, by the **online softmax** of [lesson 10](10_reductions.ipynb). Go through the keys in
# **tiles**. Keep the largest score so far, the total of weights exp(score - largest), and the sums
# of values by these weights. When a tile brings a larger score, *all that was kept* is relative to
# the old one: multiply total **and** sums by exp(old - new). At the end divide once.

# %% [markdown]
# ### Exercise: attention of one query, tile by tile
#
# In NumPy, to get it right before it is a kernel. `tiles` gives `(scores, values)` of a tile of
# keys, (keys,) and (keys, size). Return the average of all values by the softmax of all scores,
# an array of `size` numbers. A tile comes **once**, and the next one overwrites it. So go through
# `tiles` with one loop, and keep no copies: the last case has 4,096 keys.
#
# <details><summary>Hint 1: the start</summary>
#
# Nothing so far: `largest, total, sums = -3e38, 0.0, np.zeros(size)`.
#
# </details>
#
# <details><summary>Hint 2: a tile</summary>
#
# `new = max(largest, scores.max())`, then the factor `np.exp(largest - new)` for what was kept, the
# weights `np.exp(scores - new)` for what comes. `weights @ values` are their values' sums.
#
# </details>


# %% tags=["exercise"]
def attend(tiles, size):
    """Return the values' average by the softmax of their scores; each tile comes once."""
    ### BEGIN SOLUTION
    largest, total, sums = -3e38, 0.0, np.zeros(size)
    for scores, values in tiles:
        new = max(largest, scores.max())
        factor, weights = np.exp(largest - new), np.exp(scores - new)
        total = total * factor + weights.sum()
        sums = sums * factor + weights @ values
        largest = new
    return sums / total
    ### END SOLUTION


# %% tags=["check"]
check("attend-online", attend)

# %% [markdown]
# ## 5 Attention in tiles
#
# <kbd>core</kbd> 20 minutes
#
# Now the kernel. A thread has a query: it keeps the query's 16 numbers and its 16 sums in
# registers. A block has 32 queries of one head of one image, and **shares** the tiles: 16 keys and
# 16 values at a time lie in shared memory, as in [lesson 05](05_shared_memory.ipynb). So a block
# loads each key once, not once for each query.
#
# All matrices are float16: half the bytes. A sum in float16 stops growing, or overflows (section
# 3). So float16 is for memory, and sums are float32, in registers.

# %% [markdown]
# ### Exercise: attention of one head in tiles
#
# `q`, `k`, `v` are (images, tokens, heads, SIZE), float16; `out` is (images, tokens, heads · SIZE).
# `load_query` brings the query's numbers, times `scale`, to `mine`. `fill_tile` brings 16 tokens
# from `first` on, by all threads of the block; it has no barrier. You write what follows in a
# round. The last tile may hold fewer keys: `min(KEYS, tokens - first)`. Threads without a query
# fill tiles, too; they compute with the last query, and store nothing.
#
# <details><summary>Hint</summary>
#
# A barrier, the keys one after the other, a barrier. For each key: score, new largest, factor and
# weight, total, sums, as in `attend`, with one key in place of a tile.
#
# </details>


# %% tags=["exercise", "long"]
@cuda.jit
def attention_in_tiles(q, k, v, scale, out):
    """Write attention of a head of an image; thread t of block x has query QUERIES x + t."""
    keys = cuda.shared.array((KEYS, SIZE), float32)
    values = cuda.shared.array((KEYS, SIZE), float32)
    mine = cuda.local.array(SIZE, float32)
    sums = cuda.local.array(SIZE, float32)
    head, image = cuda.blockIdx.y, cuda.blockIdx.z
    query, tokens = cuda.blockIdx.x * QUERIES + cuda.threadIdx.x, q.shape[1]
    load_query(mine, q, scale, image, head, query)
    for e in range(SIZE):
        sums[e] = float32(0)
    largest, total = LOWEST, float32(0)
    for first in range(0, tokens, KEYS):
        fill_tile(keys, k, image, head, first)
        fill_tile(values, v, image, head, first)
        ### BEGIN SOLUTION
        cuda.syncthreads()
        for n in range(min(KEYS, tokens - first)):
            score = float32(0)
            for e in range(SIZE):
                score += mine[e] * keys[n, e]
            new = max(largest, score)
            factor, weight = math.exp(largest - new), math.exp(score - new)
            total = total * factor + weight
            for e in range(SIZE):
                sums[e] = sums[e] * factor + weight * values[n, e]
            largest = new
        cuda.syncthreads()
        ### END SOLUTION
    if query < tokens:
        for e in range(SIZE):
            out[image, query, head * SIZE + e] = sums[e] / total


# %% tags=["check"]
check("attention-in-tiles", attention_in_tiles)

# %% [markdown]
# In one sentence: attention in tiles reads queries, keys and values, writes its result, and forgets
# all scores. That is the idea of FlashAttention. The package's kernels do the two products by
# tensor cores ([lesson 17](17_tensor_cores.ipynb)): `course/kernels/attention/online.py` has your
# loop, with 64 keys in a tile.

# %% [markdown]
# ## 6 Bias and GELU in the epilogue
#
# <kbd>core</kbd> 15 minutes
#
# A product's **epilogue** is what its kernel does with the sums before it stores them. That of fc1
# adds a bias and takes a curve. **GELU** lets positive numbers through and cuts negative ones off,
# smoothly. With z the product and its bias:
#
# ```text
# GELU(z) = z / 2 · (1 + tanh(0.79788 (z + 0.044715 z³)))        0.79788 is the root of 2 / π
# ```
#
# (That is its usual approximation. Exact it is z times the normal distribution below z, by erf.
# They differ by less than 0.0005, about what float16 rounds at 1.)

# %% [markdown]
# ### Exercise: bias and GELU
#
# `dot_in_tiles(x, weight)` gives each thread its product: row `row` of x times row `column` of
# weight. It is the loop of [lesson 16](16_a_vae_from_your_own_kernels.ipynb), with barriers inside,
# so all threads call it. Add the bias, take GELU, store. SLOPE and CUBE are there.
#
# <details><summary>Hint</summary>
#
# `z = total + float32(bias[column])`, for threads with a result. `z * z * z` costs less than a
# power. The tanh is `math.tanh`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def linear_gelu(x, weight, bias, out):
    """Write GELU(x weight' + bias), in blocks of TILE x TILE threads."""
    column, row = cuda.grid(2)
    total = dot_in_tiles(x, weight)
    ### BEGIN SOLUTION
    if row < out.shape[0] and column < out.shape[1]:
        z = total + float32(bias[column])
        inner = SLOPE * (z + CUBE * z * z * z)
        out[row, column] = float32(0.5) * z * (float32(1) + math.tanh(inner))
    ### END SOLUTION


# %% tags=["check"]
check("bias-gelu", linear_gelu)

# %% [markdown]
# In one sentence: an epilogue works on what is in registers, and what it reads must be small. (A
# bias as a full matrix would save nothing: section 9 counts it.)

# %% [markdown]
# ## 7 From patches to scores
#
# <kbd>core</kbd> 5 minutes
#
# Three kernels are yours, and LayerNorm, if you wrote it in section 3. `parts.Layers` launches
# them, and three that are given: a product with bias, one that is added to a residual, and one that
# adds positions. The network then reads like its picture; weights have their usual names. ("head"
# is the last product, of 32 × 10, which makes
# the scores. With the heads of attention it shares the name only.) What is not written yet gives
# NaN.

# %%
norm = mine("norm-of-halves", parts.norm_rows)
layers = parts.Layers(shape, weights, patch_rows, norm, attention_in_tiles, linear_gelu)


def forward(images):
    """Return the scores of images, by ten digits."""
    x = layers.tokens(images)
    for n in range(shape.depth):
        block = f"blocks.{n}"
        qkv = layers.linear(layers.norm(x, f"{block}.norm1"), f"{block}.attn.qkv")
        x = layers.linear(layers.attention(qkv), f"{block}.attn.proj", added_to=x)
        hidden = layers.linear(layers.norm(x, f"{block}.norm2"), f"{block}.mlp.fc1", gelu=True)
        x = layers.linear(hidden, f"{block}.mlp.fc2", added_to=x)
    last = layers.norm(layers.class_tokens(x), "norm")
    return layers.linear(last, "head").copy_to_host()


# %% [markdown]
# The reference is NumPy in float64 (`course_models/vit/reference.py`). float16 has 11 bits, an
# error of up to 0.0005. The numbers go through 19 launches, each of which rounds its results. How
# large is the relative error of the scores, of 100 digits that the network has never seen?

# %%
predict("relative error of the scores", 0.001, within=3)

# %%
# NBVAL_IGNORE_OUTPUT
scores = forward(images[:100]).astype(np.float64)
exact = reference.forward(shape, weights, images[:100])
error = np.linalg.norm(scores - exact) / np.linalg.norm(exact)
print("launches:", layers.launches)
print("digits right:", np.mean(scores.argmax(1) == labels[:100]))
print("as the reference has them:", np.mean(scores.argmax(1) == exact.argmax(1)))
predict.answer("relative error of the scores", float(f"{error:.0e}"), how="computed")

# %% [markdown]
# Nineteen roundings, and the error is that of two: some go up and some down. A block adds little
# to the tokens that pass by it. Each digit is read as float64 reads it.
#
# Which of the kernels takes the time? On a GPU this times each launch of a second pass, by events:

# %%
# NBVAL_IGNORE_OUTPUT
if gpu():
    for name, share in layers.shares(lambda: forward(images[:100])).items():
        print(f"{name:20} {share:4.0%} of the time")
else:
    print("No GPU is here: the kernels were simulated, and nothing was timed.")

# %% [markdown]
# The package has this network for any size, `ViT`, with products by tensor cores. It takes your
# attention as a function that lists launches:

# %%
from course.kernels.steps import Launch
from course_models.vit import ViT


def your_attention(q, k, v, out):
    """Return the launch of your kernel; q, k, v are (images, tokens, heads, SIZE)."""
    count, tokens, heads, size = q.shape
    grid = (-(-tokens // QUERIES), heads, count)
    arguments = (q, k, v, np.float32(size**-0.5), out)
    return [Launch(attention_in_tiles, grid, QUERIES, arguments)]


vit = ViT(shape, weights, attention=your_attention)
same = vit(images[:100]).argmax(1) == exact.argmax(1)
print(f"with your attention {same.mean():.0%} are read as by float64")

# %% [markdown]
# (ViT-Base has heads of 64. For these `SIZE` must be 64, in your kernel and in what it calls:
# `load_query` and `fill_tile` of `course_lessons/lesson18/parts.py`.)

# %% [markdown]
# ## 8 What binds a small batch
#
# <kbd>core</kbd> 5 minutes
#
# ViT-Base's forward pass in float16, on an H200. Three things take time, at least:
#
# - **Launches**: 5 and 7 a block, as in section 7. Each takes an empty kernel's recorded time on
#   the GPU, 1.4 µs. (The 11 µs of section 2 are the host's, which may be ahead.)
# - **Weights**: 86 million, 2 bytes each, read once from memory.
# - **Operations**: at the rate that tensor cores were measured at.
#
# The first two are the same for one image and for a hundred. What share of the three together are
# they, in percent, at one image? And at 64?

# %%
predict("launches and weights, % at 1 image and at 64", 75, 5, within=1.4, numbers=2)

# %%
count, found = 5 + 7 * machine.BASE.depth, []
for batch in (1, 8, 64):
    floors = machine.floors(batch, count)
    found.append(round(100 * floors.fixed))
    print(f"{batch:3} images: launches {floors.launches:.2f} ms, weights {floors.weights:.2f} ms, "
          f"operations {floors.operations:.2f} ms")  # fmt: skip
question = "launches and weights, % at 1 image and at 64"
predict.answer(question, (found[0], found[-1]), how="computed")

# %% [markdown]
# So **launches and weights' bytes bind small batches**: a weight that is read serves the 197 rows
# of one image, or the 12,608 of 64. Do recorded times say the same? Here are the parts of a block
# for one image: what binds each, the least time that this allows, and the measured time.

# %%
print(machine.table_of_parts(1))
one, many = machine.whole(1).median, machine.whole(64).median
print(f"\nall of it: {one:.2f} ms; 64 images {many:.2f} ms, {many / one:.1f} times as long")

# %% [markdown]
# All are bound by memory, where the weights are nearly all that is read. And none is near its
# bound: a kernel with a microsecond's work still has to begin, to wait for its first bytes, and to
# end. Three things help. A CUDA graph ([lesson 08](08_streams.ipynb)) takes the host out. Epilogues
# make fewer kernels. And your users may wait for more images. In one sentence: what does not grow
# with the batch decides when the batch is small.

# %% [markdown]
# ## 9 What is saved, counted
#
# <kbd>deepening</kbd> 10 minutes
#
# The course has five ways to make tokens of patches, as people think of them one after the other
# (`course_models/patches.py`). Here they count what they do, on two images that lie on the host:
#
# - "channels": a channel goes to the GPU, its product comes back, the host adds.
# - "sorted": the host sorts pixels into rows, one product. "streams": the same in parts.
# - "kept": all stays on the GPU, channel by channel. "gemm": one copy, one product.
#
# Which of them has the fewest launches?

# %%
predict("fewest launches", "gemm", choices=("channels", "sorted", "streams", "kept", "gemm"))

# %%
# NBVAL_IGNORE_OUTPUT
from course_models.patches import WAYS, PatchEmbedding

sizes = (32, 3, 4, 4), (32,), (32,), (5, 32)  # weights, bias, class token, positions
made = [0.1 * rng.standard_normal(size, dtype=np.float32) for size in sizes]
pair = rng.standard_normal((2, 3, 8, 8)).astype(np.float16)
embedding, launched, found = PatchEmbedding(*made), {}, {}
print(f"{'way':10}launches  waits  bytes up  back")
for way in WAYS:
    found[way], counts = embedding.embed(pair, way)
    launched[way] = counts.launches
    print(f"{way:10}{counts.launches:8}{counts.synchronisations:7}"
          f"{counts.to_gpu:10,}{counts.to_host:6,}")  # fmt: skip
off = max(np.abs(its - found["gemm"]).max() for its in found.values())
print("all the same, as float16 rounds:", off < 0.01)
predict.answer("fewest launches", min(launched, key=launched.get), how="counted")

# %% [markdown]
# `sorted` has the fewest, but there the host sorts all pixels. `channels` and `kept` launch equally
# often, but `kept` saves waits and copies. `gemm` has two launches, and copies each pixel once.
# Launches alone do not decide.

# %% [markdown]
# A product of the BLAS libraries has no place for a vector, but takes a **matrix** that it adds, as
# large as the result. So somebody fills each row of a matrix with the bias, hands it over, and
# calls that fused. Three ways to add a bias:
#
# - apart: the product writes, a second kernel reads and writes again;
# - a matrix: one kernel writes it, the product's epilogue reads it;
# - a vector, as in your kernel.
#
# How many bytes is each, in units of the result, without the product's factors?

# %%
predict("bytes / result: apart, a matrix, a vector", 3, 2, 1, within=1.15, numbers=3)


# %%
@cuda.jit
def spread(bias, full):
    """Fill each row with the bias."""
    column, row = cuda.grid(2)
    full[row, column] = bias[column]


@cuda.jit
def add_bias(y, bias):
    """Add the bias to each row, in place."""
    column, row = cuda.grid(2)
    y[row, column] = float32(y[row, column]) + float32(bias[column])


@cuda.jit
def add_full(x, weight, full, out):
    """A product to which a whole matrix is added."""
    column, row = cuda.grid(2)
    total = dot_in_tiles(x, weight)
    out[row, column] = total + float32(full[row, column])


# %%
made = (rng.standard_normal(its) for its in ((64, 16), (96, 16), 96))
x, weight, bias = (its.astype(np.float16) for its in made)
full, out = (np.zeros((64, 96), np.float16) for _ in range(2))
how = (96 // TILE, 64 // TILE), (TILE, TILE)


def touched(kernel, *arguments, without=0):
    """Bytes that a launch asks for, less those of the product's factors."""
    report = trace(kernel, *how, *arguments)
    return sum(report.total("global", way).bytes for way in ("load", "store")) - without


factors = touched(add_full, x, weight, full, out) - 2 * out.nbytes
product = touched(parts.linear, x, weight, bias, out, without=factors) - bias.nbytes * 64
apart = touched(add_bias, out, bias) - bias.nbytes * 64
matrix = touched(spread, bias, full) - bias.nbytes * 64
adding = touched(add_full, x, weight, full, out, without=factors)
ways = product + apart, matrix + adding, product
found = tuple(round(its / out.nbytes, 1) for its in ways)
predict.answer("bytes / result: apart, a matrix, a vector", found, how="counted")

# %% [markdown]
# **A bias as a full matrix saves nothing**: three times the result, as before the "fusion". (Kept
# from call to call it saves a write, and takes memory as large as the result.) The vector is 96
# numbers, which the cache has for all rows. They are left out above.

# %% [markdown]
# And what do attention's tiles save? Take 64 tokens of one head. The course's first step keeps
# scores in memory (`course/kernels/attention/first_steps.py`): each thread has one score, and reads
# its query and its key. How many times the bytes of your whole kernel does it ask for, for the
# **scores alone**?

# %%
predict("bytes asked for: scores in memory / all in tiles", 10, within=1.6, no_effect=1)

# %%
from course.kernels.attention.first_steps import scores_in_memory

qkv = rng.standard_normal((3, 1, 64, 1, SIZE)).astype(np.float16)
scale, out = np.float32(0.25), np.zeros((1, 64, SIZE), np.float16)
reports = {
    "in memory": trace(scores_in_memory, (4, 4), (16, 16), qkv[0], qkv[1], scale,
                       np.zeros((64, 64), np.float32)),
    "in tiles": trace(attention_in_tiles, (2, 1, 1), QUERIES, *qkv, scale, out),
}  # fmt: skip
asked = {
    name: sum(its.total("global", way).bytes for way in ("load", "store"))
    for name, its in reports.items()
}
print({name: f"{count:,} bytes" for name, count in asked.items()})
ratio = round(asked["in memory"] / max(asked["in tiles"], 1), 1)
predict.answer("bytes asked for: scores in memory / all in tiles", ratio, how="counted")

# %% [markdown]
# Each of 64 × 64 threads reads a query and a key, 64 bytes, so a key is read 64 times. In tiles it
# is read by two blocks, once each. And the softmax, with its readings of the scores, and the
# product with the values are still to come.

# %% [markdown]
# ## 10 Memory by lifetimes
#
# <kbd>deepening</kbd> 20 minutes
#
# Between its launches a forward pass has **buffers**: normed tokens, q k v, what attention gives,
# and so on. Each is needed for a few steps only. Then its bytes could hold another one. Here are a
# block's buffers, and in which of its steps 0 to 6 each is needed; x comes in, out goes out:

# %%
from course_models.vit.buffers import lifetimes, packed

steps = [("x", "normed"), ("normed", "qkv"), ("qkv", "heads"), ("heads", "x", "middle"),
         ("middle", "normed2"), ("normed2", "hidden"), ("hidden", "middle", "out")]  # fmt: skip
token = 2 * 16 * 32  # bytes; 16 tokens, so that numbers are round
sizes = dict.fromkeys(("x", "normed", "heads", "middle", "normed2", "out"), token)
sizes |= {"qkv": 3 * token, "hidden": 2 * token}
lives = lifetimes(steps)
for name, (first, last) in lives.items():
    print(f"{name:8} {sizes[name]:5,} bytes, steps {first} to {last}")

# %% [markdown]
# A buffer is **alive** from the step that writes it to the last that reads it. Two may share bytes
# if their lives do not meet. A step reads one buffer while it writes another: these two must not.
#
# Apart, all eight take 11 units of `token` bytes. How many units are enough?

# %%
predict("units of memory for a block's buffers", 5, exact=True)

# %%
place = packed(lives, sizes).offsets
most = max(place[name] + sizes[name] for name in lives)
predict.answer("units of memory for a block's buffers", most // token, how="computed")
pictures.arena(lives, sizes, place)

# %% [markdown]
# ### Exercise: buffers by lifetimes
#
# `steps` is a list of the names that each step touches, `sizes` the bytes by name. Return a
# dictionary, the first byte of each buffer by its name. The rule: the **largest first**, each at
# the lowest place where no buffer lies whose life meets its own. (A gap between two others counts.)
# `lifetimes(steps)` gives `{name: (first step, last step)}`.
#
# <details><summary>Hint 1: do two lives meet?</summary>
#
# `(a, b)` and `(c, d)` meet if `a <= d and c <= b`.
#
# </details>
#
# <details><summary>Hint 2: the lowest place</summary>
#
# List begin and end of those that are in the way, sorted by begin. Start at 0. While the next one
# begins before you would end, go on behind its end.
#
# </details>


# %% tags=["exercise"]
def placed(steps, sizes):
    """Return the first byte of each buffer; none overlaps another that is alive with it."""
    ### BEGIN SOLUTION
    lives, places = lifetimes(steps), {}
    for name in sorted(lives, key=lambda name: -sizes[name]):
        first, last = lives[name]
        meets = [other for other in places if lives[other][0] <= last and first <= lives[other][1]]
        place = 0
        for begin, end in sorted((places[other], places[other] + sizes[other]) for other in meets):
            if place + sizes[name] > begin:
                place = max(place, end)
        places[name] = place
    return places
    ### END SOLUTION


# %% tags=["check"]
check("buffers-by-lifetimes", placed)

# %% [markdown]
# In the full network all 12 blocks share one such arena. What happens if a buffer is used again too
# early? No kernel fails: attention reads numbers that look like any others. It is a race between
# launches, and only a comparison with a reference finds it.

# %% [markdown]
# ## 11 By rows, by columns
#
# <kbd>deepening</kbd> 15 minutes
#
# NumPy keeps matrices **by rows**. The BLAS libraries, cuBLAS among them, come from Fortran, and
# keep them **by columns**. Must everything be transposed first?

# %%
pictures.readings()

# %% [markdown]
# The same bytes, read in the other way, are the **transposed** matrix. Nothing has to move. So a
# library by columns that is handed your A reads A'. And what it writes as a matrix C, you read as
# C'. You want D = A B in your way. Then it has to write D' in its own:
#
# ```text
# D' = (A B)' = B' A'
# ```
#
# B' and A' are what it reads in your memory of B and A. What do you hand over first?

# %%
predict("the first factor that is handed over", "B", choices=("A", "B", "A transposed", "a copy"))

# %%
from course_lessons.lesson18.toy_gemm import gemm

a, b = np.float64([[1, 2, 3], [4, 5, 6]]), np.float64([[1, 0], [0, 1], [2, 2]])
out = np.zeros((2, 2))
gemm(2, 2, 3, b, 2, a, 3, out, 2)
print("gemm:", *out, "  NumPy:", *(a @ b))
first = "B" if np.array_equal(out, a @ b) else "A"
predict.answer("the first factor that is handed over", first, how="found")

# %% [markdown]
# ### Exercise: a product by rows, of a library by columns
#
# Call `gemm` once, so that `out` becomes a b, all three by rows:
#
# ```text
# gemm(m, n, k, first, ld_first, second, ld_second, out, ld_out)
# ```
#
# It computes by columns: first is m × k, second k × n, out m × n. Each has a **leading dimension**,
# ld: how many numbers lie between the begins of two columns. No copy, no `.T`.
#
# <details><summary>Hint: leading dimensions</summary>
#
# A column of B' is a row of b. How far is one row of b from the next?
#
# </details>


# %% tags=["exercise"]
def product_by_rows(gemm, a, b, out):
    """Have gemm, which goes by columns, write a b to out; all lie in memory by rows."""
    ### BEGIN SOLUTION
    rows, depth = a.shape
    columns = b.shape[1]
    gemm(columns, rows, depth, b, columns, a, depth, out, columns)
    ### END SOLUTION


# %% tags=["check"]
check("product-by-rows", product_by_rows)

# %% [markdown]
# Tensor cores' own layouts are met in the same way ([lesson 17](17_tensor_cores.ipynb)). If D is
# tall and thin, a kernel that makes 64 × 256 sums at a time may compute D' instead.

# %% [markdown]
# ## 12 The recorded machine
#
# <kbd>deepening</kbd> 10 minutes
#
# `course_models.vit` is the whole at full size; it takes a trained ViT-B/16 of the libraries timm
# or torchvision, too. It was timed on an NVIDIA H200 in float16, beside PyTorch with the same
# weights. *Eager* has a kernel for each operation. *Compiled* fuses some. *Max-autotune* also
# searches among products, for minutes. All make patches to rows for one product, as you do: a
# convolution would take ten times as long. Each ran in a CUDA graph, by turns. How many times as
# fast is the course's as the best of PyTorch's, for 64 images?

# %%
predict("64 images, times as fast as the best PyTorch", 1, within=1.2, no_effect=1)

# %%
print(machine.table_of_wholes())
ours = machine.whole(64)
peers = [machine.whole(64, name) for name in machine.PEERS]
ratio = min(its.median for its in peers) / ours.median
print(f"{ours.teraflops:.0f} TFLOP/s of products")
predict.answer("64 images, times as fast as the best PyTorch", round(ratio, 2))

# %% [markdown]
# Where does that come from? Each part of a block, and the patch embedding, for 64 images. In which
# part is PyTorch's eager way farthest behind?

# %%
predict(
    "the part with the largest ratio",
    "attention",
    choices=("patch embedding", "norm", "qkv", "attention", "fc1 + GELU"),
)

# %%
many = machine.parts(64)
largest = max(many, key=lambda name: many[name]["PyTorch"] / many[name]["ours"])
predict.answer("the part with the largest ratio", largest)
pictures.parts(many, "64 images on an H200")

# %% [markdown]
# qkv is a product and a bias alone: there both are near each other, on the same tensor cores. Most
# of what is gained, is gained **around** products: copying patches, norms, attention, GELU. That is
# fusion, and it is what sections 2 to 6 were about.
#
# The whole network goes a step further: no norm has a launch of its own. The product that adds to
# the tokens also stores each row's sum, and that of its squares. The next product multiplies the
# rows as they are, by weights times the norm's own. Its epilogue takes the mean off, and divides by
# the deviation. What binds the parts:

# %%
print(machine.table_of_parts(64))

# %% [markdown]
# With 64 images operations bind the products, as section 8 said. Next is the ladder of attention
# for 8 images, from `course/kernels/attention`, beside PyTorch's kernels. Its last rung is called
# "ours". Below it are the five ways of section 9, for eight images of 224 × 224 that lie on the
# host, by the host's clock:

# %%
print(machine.table_of_attention())
print(machine.table_of_patches())

# %% [markdown]
# From scores in memory to the last rung it is a factor of a hundred. `fused` writes no scores, but
# multiplies without tensor cores, as your kernel does. The next two rungs, `online` and `ours`,
# hand tiles to them. The others are kernels of PyTorch, given parts of one array of q, k and v, or
# ("in C order") copies of them.

# %% [markdown]
# Of the patches' ways `gemm` is the fastest, six times as fast as `channels`, with nearly the same
# bytes going up. `kept` has as many launches as `channels`, and takes a quarter of the time: copies
# back, waits and the host's sums cost more than launches. Sorting on the host takes longer than all
# else. So streams have little to hide, and four of them (`streams`) are slower than none.

# %% [markdown]
# And what does a user wait for? A process that has never run a network compiles its kernels first,
# or takes what another process kept; and images lie in files:

# %%
print(machine.table_of_waiting())

# %% [markdown]
# The second process waits as long as for a dozen passes; PyTorch's compiler, though it keeps its
# kernels, traces the network anew. And a thread that reads files takes fifty times as long as the
# network: whoever has many files needs many threads, or the GPU waits.

# %% [markdown]
# **And FP8?** Hopper's tensor cores take floats of 8 bits at [twice the
# rate](https://www.nvidia.com/en-us/data-center/h100/) of float16, and weights take half the bytes.
# But such a number has 3 or 4 bits of digits. So each matrix, or each block of it, needs a
# **scale** of its own. It is measured on images beforehand, or on the way, one more reduction a
# layer.

# %% [markdown]
# Why is it not here? An error of a product does not tell what is lost. The number of images that
# are still recognised does, and that takes a trained network of this size and its data set. This
# course ships neither, so a number here would be a speed without its price. And the kernels would
# change. Hopper keeps some 14 bits of an FP8 product's sums
# ([DeepSeek-V3](https://arxiv.org/abs/2412.19437), section 3.3), so they are taken out often. And
# wgmma [transposes](https://docs.nvidia.com/cuda/parallel-thread-execution/) factors of 16 bits
# only, so k must run along the rows of both.

# %%
progress(18)

# %% [markdown]
# ## What you should be able to say now
#
# - An image's patches are rows of a matrix, and their tokens one product.
# - Sums in float16 stop, overflow, become NaN. float16 is for memory, float32 for sums.
# - Attention compares all tokens with all, and in tiles no score reaches memory.
# - When a larger score comes, total *and* sums are multiplied by exp(old - new).
# - An epilogue works in registers, and what it reads must be small.
# - Small batches wait for launches and weights, large ones for tensor cores.
# - Buffers share memory if their lives do not meet. By columns, memory is the transposed matrix.

# %% [markdown]
# ## Questions
#
# 1. An image of 384 × 384 in patches of 16: how many tokens? How many times the scores of 224?
# 2. Why does a sum of ones stop at 2,048, and not at 65,504?
# 3. A tile's scores are all smaller than the largest so far. What is the factor?
# 4. Why do threads without a query fill tiles?
# 5. What would change in the result if all scores of a query were 5 larger?
# 6. A norm of 64 images reads 19 MB and writes 19 MB. Could a block's two norms be fused?
# 7. Why does the fixed share fall from 1 image to 64, and what does not fall with it?
#
# <details><summary>Answers</summary>
#
# 1. 24 × 24 + 1 = 577. (577 / 197)², 8.6 times.
# 2. float16 has 11 bits. From 2,048 on neighbours are 2 apart, and adding 1 is rounded away.
# 3. exp(0) = 1: what was kept stays. The tile's weights are below 1.
# 4. Each brings its part of the tile; without them it has holes. And they must meet the barriers.
# 5. Nothing: the softmax takes the largest away.
# 6. No: the second needs the results of all kernels between them. But its sums can be taken where
#    the rows are made, and the rest be done in the epilogue of the product behind it.
# 7. Launches and weights are the same, operations grow with the images. The operations of each
#    *image* stay.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Let a block of your attention have 64 queries. Who fills the tiles then?
# - Draw `parts.class_shares` of ten digits. Where do the heads look?
# - Put float16 into the sums of your norm, and run `forward` again. How many digits are right?
# - Take `max` out of your attention. For which scores does it still work in float32?
# - With a GPU: `python -m course bench vit`, and read `machine.table_of_parts` of your own file.

# %% [markdown]
# ## Common misconceptions
#
# - *"Sums in float16 only lose digits."* They stop, or overflow. Store float16, add in float32.
# - *"The online softmax is an approximation."* It has the same terms, relative to another largest.
# - *"Only the total is corrected."* The sums of values have the same past.
# - *"Attention is slow because of its operations."* With scores in memory bytes bind; without,
#   from some 300 tokens on, tensor cores.
# - *"Fused is fused."* If the fused part reads a matrix, the bytes are still there.
# - *"One image takes a 64th of 64 images' time."* It takes a thirteenth: launches and weights
#   stay.
# - *"For a library by columns I must transpose."* Exchange the factors.

# %% [markdown]
# ## What to read next
#
# - A. Dosovitskiy and others, [An image is worth 16×16 words](https://arxiv.org/abs/2010.11929),
#   2020: the vision transformer.
# - T. Dao and others, [FlashAttention](https://arxiv.org/abs/2205.14135), 2022: attention in tiles.
# - M. Milakov and N. Gimelshein, [Online normalizer calculation for
#   softmax](https://arxiv.org/abs/1805.02867), 2018.
# - P. Micikevicius and others, [FP8 formats for deep learning](https://arxiv.org/abs/2209.05433),
#   2022.
# - Next in the course: [lesson 19](19_what_carries_over.ipynb), what carries over.
