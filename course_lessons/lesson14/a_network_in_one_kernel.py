# %% [markdown]
# # 14 A network in one kernel
#
# A small network runs as ten kernels, and the GPU spends most of its time waiting for the next one.
# You make one kernel of it, say beforehand what that saves, and take a comparison apart that could
# only end in a draw.

# %% [markdown]
# ## What you will do
#
# - Find faulty machines by their sound, with a network that you fuse into one kernel.
# - Take apart a measurement in which a kernel was timed against itself.

# %% [markdown]
# ## What you will learn
#
# - What a launch costs, and three ways to pay less.
# - When fusing helps, by how much, and how you know before.

# %% [markdown]
# ## What you need
#
# Lessons [03](03_measuring_honestly.ipynb) to [06](06_reuse_reuse_reuse.ipynb): times that lie,
# sectors, barriers and banks, results in registers. [Lesson 10](10_reductions.ipynb) for shuffles,
# [lesson 13](13_normalisation_and_fusion.ipynb) for LayerNorm and GELU. [Lesson
# 08](08_streams.ipynb) if you want to know how a CUDA graph is made. Sections 4 and 8 show shapes
# and folded weights, which sections 13 and 16 explain. No GPU is needed: an H200 was recorded.

# %% [markdown]
# ## How long it takes
#
# After section 8 is a good place for a break. The computer needs less than half a minute of it.

# %%
# NBVAL_IGNORE_OUTPUT
import math
from inspect import getsource

import numpy as np
from numba import float32

from course import (
    beside, check, cuda, gpu, plots, predict, progress, recorded, recorded_roofs, trace, wrapped,
)  # fmt: skip
from course.kernels.activation import gelu
from course_models import spectral
from course_lessons.lesson03.toy_gpu import ToyGPU
from course_lessons.lesson14 import pictures

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 What a machine sounds like
#
# <kbd>core</kbd> 5 minutes
#
# A microphone stands beside a machine. Its sound is cut into short **frames**, and for each frame
# one notes how loud it is in 64 **bands**, from deep to high. Five frames make a **spectrum**: 320
# numbers.
#
# Nobody knows in advance what will break. So a network learns only how a **healthy** machine
# sounds. A spectrum that it cannot rebuild is suspicious.
#
# Our spectra are **synthetic**: made by a program, whose structure you can read in
# `course_models/spectral/data.py`. A healthy machine has six resonances (bands in which it is
# always loud) and some noise. There are four faults:

# %%
for name, what in spectral.FAULTS.items():
    print(f"{name:8} {what}")

# %% [markdown]
# An **autoencoder** squeezes 320 numbers through a **code** of 32, and rebuilds 320 from it. It was
# trained with healthy machines only, so its code has no words for anything else. A spectrum's
# **score** is the mean of the squared differences: high where it was rebuilt badly. Here are five
# spectra that the network has never seen:

# %%
weights = spectral.Weights.trained()
examples = {}
for name in (None, *spectral.FAULTS):
    x = spectral.spectra(1, seed=42, fault=name)
    examples[name or "healthy"] = x[0], spectral.reference(x, weights)[0][0]
pictures.rebuilt_spectra(examples)

# %% [markdown]
# On the right stands the rest, which the network could not rebuild: the whistle's line, the noisy
# frame, the lost resonance. Violet is what the network added. For `shift` it has no words at all.
#
# A microphone delivers a spectrum many times a second, a factory has many microphones. So it should
# be fast: for a few spectra at once, and for many. (Section 9 asks how good the alarm is.)

# %% [markdown]
# ## 2 The network
#
# <kbd>core</kbd> 5 minutes
#
# A **Linear** multiplies by a matrix of weights and adds a bias. LayerNorm and GELU are those of
# [lesson 13](13_normalisation_and_fusion.ipynb):
#
# | layer | a spectrum's numbers | weights |
# |---|---|---|
# | LayerNorm of frames | 5·64 | 2·64 |
# | Linear, GELU of frames | 5·64 → 5·64 | 64·64 + 64 |
# | basis P | 320 → 32 | 32·320 |
# | LayerNorm | 32 | 2·32 |
# | Linear, GELU | 32 → 32 | 32·32 + 32 |
# | the same basis, turned | 32 → 320 | |
# | Linear of frames | 5·64 → 5·64 | 64·64 + 64 |
# | mean squared error | 320 → 1 | |

# %% [markdown]
# The **basis** P is a Linear without a bias, used twice: down to the code and up again. (Its 32
# rows are unit vectors.) The five frames share the weights of their layers.
#
# In NumPy it is nine lines. This is the **reference**: float64, slow, and easy to check by eye.
# Weights stand in PyTorch's order, (outputs, inputs), so they are turned (`.T`).
#
# Everything that follows must agree with it to 1e-5, relative. How many multiplications does a
# spectrum need? The weights of a frame's Linear are used five times, once for each frame; the basis
# twice; the others once:

# %%
print(getsource(spectral.reference).partition('"""')[2].partition('"""')[2])
products = 2 * 5 * 64 * 64 + 2 * 32 * 320 + 32 * 32
print(f"{products:,} products for each spectrum, {2 * products * 32 / 1e6:.1f} million operations")
print(f"for 32 of them: {2 * products * 32 / recorded_roofs('H200').rates['float32'] / 1e6:.3f} µs")

# %% [markdown]
# ## 3 Layer by layer
#
# <kbd>core</kbd> 5 minutes
#
# A batch of 32 is nothing to an H200: less than a tenth of a microsecond of arithmetic. Keep that
# figure in mind when you see what it takes in practice.
#
# The natural way, which every framework goes: a kernel a layer. `course_models/spectral/layers.py`
# has four small kernels, launched ten times.

# %%
batch = 32
x = spectral.spectra(batch, seed=1)
there = cuda.to_device(x)
y, errors = cuda.device_array(x.shape, np.float32), cuda.device_array(batch, np.float32)
steps = spectral.Layers(weights, batch).launches(there, y, errors)
for name, kernel, (grid, block), arguments in steps:
    print(f"{name:10} {kernel.__name__:20} grid {grid!s:9} block {block!s:9}")
    kernel[grid, block](*arguments)
expected, expected_scores = spectral.reference(x, weights)


def relative_error(found, right):
    """Return how far an array is from the right one, relative to its length."""
    return np.linalg.norm(found - right) / np.linalg.norm(right)


error = relative_error(y.copy_to_host(), expected)
print("layer by layer, error below 1e-5:", bool(error < 1e-5))

# %% [markdown]
# It is right. (The GELU is a kernel by itself, though it needs nothing but the number before it.
# Compilers of frameworks fuse that much by themselves.) What would **one** kernel save?

# %% [markdown]
# ## 4 Bytes before the clock
#
# <kbd>core</kbd> 5 minutes
#
# Two things: launches, ten against one, and **bytes**. Each launch reads from device memory what
# the one before has just written there. One kernel keeps all that in registers and shared memory.
# It reads the spectra and the weights, and writes what was asked for.
#
# How many times as many bytes do the ten launches move, at a batch of 32? (Section 10 counts them
# on paper, one by one. For a guess: the table of section 2 says how many numbers stand between the
# layers.)

# %%
predict("times the bytes, ten launches against one, batch 32", 10, within=1.25)

# %% [markdown]
# The trace notes every byte that a kernel touches. First the ten kernels, then the package's fused
# one. `unique_bytes` counts each byte once for each launch. (`spectral.FusedConfig` says how much
# work a thread and a block get: section 13.)

# %%
from course_lessons.lesson14.own_network import traced

shape = spectral.FusedConfig(samples=4, columns=8)
ten = [trace(kernel, *how, *arguments, gpu="H200") for _, kernel, how, arguments in steps]
one, rebuilt = traced(shape, x, weights)
total = sum(report.unique_bytes for report in ten)
print(f"traced: {total:,} bytes against {one.unique_bytes:,}")
print("fused, error below 1e-5:", bool(relative_error(rebuilt, expected) < 1e-5))
predict.answer(
    "times the bytes, ten launches against one, batch 32",
    round(total / one.unique_bytes, 1),
    how="counted",
)

# %% [markdown]
# Does the speed-up follow? Only if memory is what binds. An H200's memory moves more than 4 MB in a
# microsecond ([lesson 03](03_measuring_honestly.ipynb)). The 646 kB of the ten launches at 32
# spectra take it less than a fifth of one. So it cannot be bytes there. It is the launches.

# %% [markdown]
# ## 5 What a launch costs
#
# <kbd>core</kbd> 20 minutes
#
# A launch costs the **host**. It looks at each argument: what type is it, is there a compiled
# version for these types? Then it writes down what the kernel gets. All of that in Python. (Section
# 11 finds out what an argument costs.)
#
# Ten short kernels in a row. A toy ([lesson 03](03_measuring_honestly.ipynb)): a launch takes the
# host 0.03 ms, a kernel works for 0.005 ms. When is the last one done?

# %%
predict("ms until ten launches are done", 0.05, within=1.1)

# %%
toy = ToyGPU(work=0.005, launch=0.03, compiling=0.0, steady=True)
for _ in range(10):
    toy.launch()
toy.synchronize()
done = max(span.end for span in toy.spans) * 1e3  # the toy's clock counts in s
print(f"the GPU worked for {10 * 0.005:.2f} of {done:.3f} ms")
predict.answer("ms until ten launches are done", round(done, 3), how="computed")
plots.timeline(toy)

# %% [markdown]
# The GPU waits most of the time. Such a program is **launch-bound**: a faster kernel would not
# change its time, and neither would a faster GPU.

# %% [markdown]
# ### Exercise: when is the last kernel done?
#
# The host launches kernels one after the other; each launch takes it `launch` ms. `works` are the
# kernels' times on the GPU, in ms. A kernel begins when it has been launched and the one before it
# is done. Return the ms from the first launch's begin to the end of the last kernel; 0 for none.
#
# <details><summary>Hint</summary>
#
# Two variables: the host's time `now`, and when the GPU is `done`. Go through `works` once.
#
# </details>


# %% tags=["exercise"]
def time_of_launches(launch, works):
    """Return when the last of some kernels is done [ms]."""
    ### BEGIN SOLUTION
    now = done = 0.0
    for work in works:
        now += launch
        done = max(now, done) + work
    return done
    ### END SOLUTION


# %% tags=["check"]
check("time-of-launches", time_of_launches)

# %% [markdown]
# Three ways to pay less:
#
# 1. **Larger batches.** The same launches for more work; good where the work can wait.
# 2. **A CUDA graph** ([lesson 08](08_streams.ipynb)): the launches are recorded once and replayed
#    by a single call. The host pays once, the GPU goes from kernel to kernel by itself.
# 3. **Fusion**: one launch.
#
# Recorded for the network at a batch of 32: the host's time for a call, and the GPU's, between
# events, queued behind other work. "Graph" is a replay:


# %%
def h200(variant, shape="", metric="time", kernel="spectral", subject="spectral"):
    """Return a recorded median of an H200 [µs]."""
    wanted = {"kernel": kernel, "variant": variant, "shape": str(shape), "metric": metric}
    return 1e3 * recorded(subject, gpu="H200", **wanted)[0].median


print("batch 32               host      GPU [µs]")
for name in ("layers", "layers, graph", "fused", "fused, graph"):
    host, work = h200(name, 32, "launch"), h200(name, 32)
    print(f"{name:20}{host:7.1f}{work:10.1f}")

# %% [markdown]
# Ten plain launches cost the host ten times what the GPU needs for the ten kernels. And the fused
# kernel, called plainly, is launch-bound, too: 30 µs of launch for 5 µs of work.
#
# So a small kernel has three times, and each is true: the host's, the time between two events, and
# a graph's replay. Say which one you mean.

# %% [markdown]
# ## 6 Frames in parallel
#
# <kbd>core</kbd> 20 minutes
#
# Now the kernel itself (`course_models/spectral/fused.py`), in steps. First: who does what?
#
# A natural plan is "a block a spectrum, a thread a band": 64 threads go through the five frames,
# one after the other. But the frames have nothing to do with each other until the basis. So give
# each its own **warp**: five warps, all at the same time.
#
# On the left is what a block has. On the right is one warp with a Linear to do: 64 results, two for
# each lane. Marked are those of one lane.

# %%
pictures.warps(spectral.FusedConfig(samples=1, columns=2))

# %% [markdown]
# A warp knows its frame alone, from the spectrum to the end of the first GELU. So there is nobody
# to wait for: no `syncthreads`. A LayerNorm needs two sums over 64 numbers. Each lane has two of
# these numbers in registers, and shuffles add up the rest ([lesson 10](10_reductions.ipynb)). (In
# the picture a lane's two columns are neighbours, read by one wide access. In your kernel they are
# 32 apart, read by two plain ones: each takes neighbouring numbers for neighbouring lanes, too.)

# %% [markdown]
# ### Exercise: LayerNorm of five frames, a warp each
#
# A block of 160 threads has one spectrum, row `cuda.blockIdx.x` of `x` (batch, 320). Warp f
# normalises columns 64·f to 64·f + 63: subtract their mean, divide by √(variance + 1e-5). There is
# no gamma and no beta. Read each number once, and use no shared memory.
#
# <details><summary>Hint 1</summary>
#
# Lane l has columns 64·f + l and 64·f + l + 32: neighbours read neighbours.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The sum over a warp, in each lane: `for step in range(5): total += cuda.shfl_xor_sync(0xFFFFFFFF,
# total, 1 << step)`.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# The variance is the mean of (value − mean)², not E[x²] − mean²: [lesson
# 13](13_normalisation_and_fusion.ipynb) shows how that loses its digits.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def normalise_frames(x, out):
    """LayerNorm of each frame of 64 numbers: a warp a frame, a block a spectrum."""
    row, lane = cuda.blockIdx.x, cuda.threadIdx.x % 32
    ### BEGIN SOLUTION
    column = cuda.threadIdx.x // 32 * 64 + lane
    a, b = x[row, column], x[row, column + 32]
    total = a + b
    for step in range(5):
        total += cuda.shfl_xor_sync(0xFFFFFFFF, total, 1 << step)
    mean = total / float32(64)
    square = (a - mean) * (a - mean) + (b - mean) * (b - mean)
    for step in range(5):
        square += cuda.shfl_xor_sync(0xFFFFFFFF, square, 1 << step)
    scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
    out[row, column] = (a - mean) * scale
    out[row, column + 32] = (b - mean) * scale
    ### END SOLUTION


# %% tags=["check"]
check("normalise-frames", normalise_frames)

# %%
# NBVAL_IGNORE_OUTPUT
# yours beside the package's and the least: counts of the simulator, on a GPU times, too
beside("normalise-frames", normalise_frames)

# %% [markdown]
# Where are gamma and beta? The fused kernel has none. A Linear follows, and W (γ z + β) + b is the
# same as (W γ) z + (W β + b). So γ and β are multiplied into the Linear's weight and bias when the
# weights are packed, once, in float64.

# %% [markdown]
# ## 7 Weights once a block
#
# <kbd>core</kbd> 25 minutes
#
# The first Linear has 4,096 weights, and each frame needs all of them. In `linear` of section 3
# each block of 16 × 16 threads fetches its part anew. A fused block keeps **all** weights of the
# network in shared memory: read once, used for every spectrum that the block ever sees. How many
# KiB are they, and do they fit?

# %%
predict("KiB of all weights", 77, within=1.05)

# %%
predict.answer(
    "KiB of all weights", round(weights.packed().nbytes / 1024, 1), unit="KiB", how="computed"
)

# %% [markdown]
# A block of an H200 can have up to 227 KiB, if the kernel is allowed to ask for it
# (`course/dispatch/prepared.py`). A T4 has 64, too few: there the package's kernel fetches the
# weights in parts.
#
# A block that stays for many spectra must not end with its first. Its warps go through the rows in
# strides of all warps of the grid.

# %% [markdown]
# ### Exercise: a Linear and GELU, weights read once a block
#
# `z` (rows, 64) are normalised frames, `weight` (64, 64) is (inputs, outputs), `bias` has 64
# numbers. Write `gelu(z @ weight + bias)` to `out`; `gelu` is there. First all threads copy the
# weights to shared memory. Then each **warp** takes rows: its own index in the grid, then in steps
# of all warps of the grid. Blocks may have 2 or 4 warps, a grid 1 to 3 blocks.
#
# <details><summary>Hint 1</summary>
#
# `for n in range(cuda.threadIdx.x, 4096, cuda.blockDim.x)` for the copying.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `for row in range(cuda.grid(1) // 32, z.shape[0], cuda.gridsize(1) // 32)`. A lane has two columns
# of the row.
#
# </details>
#
# <details><summary>Hint 3</summary>
#
# One barrier is enough. Inside the loop there must be none: warps have different numbers of rows.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def staged_weights(z, weight, bias, out):
    """Linear 64 -> 64 and GELU: a warp a row, all weights in shared memory."""
    shared = cuda.shared.array((64, 64), float32)
    ### BEGIN SOLUTION
    for n in range(cuda.threadIdx.x, 4096, cuda.blockDim.x):
        shared[n // 64, n % 64] = weight[n // 64, n % 64]
    cuda.syncthreads()
    lane = cuda.threadIdx.x % 32
    for row in range(cuda.grid(1) // 32, z.shape[0], cuda.gridsize(1) // 32):
        left, right = bias[lane], bias[lane + 32]
        for k in range(64):
            value = z[row, k]
            left += value * shared[k, lane]
            right += value * shared[k, lane + 32]
        out[row, lane] = gelu(left)
        out[row, lane + 32] = gelu(right)
    ### END SOLUTION


# %% tags=["check"]
check("staged-weights", staged_weights)

# %%
# NBVAL_IGNORE_OUTPUT
beside("staged-weights", staged_weights)

# %% [markdown]
# ## 8 What it brings
#
# <kbd>core</kbd> 5 minutes
#
# Now a fair table. Each line is from one run on an H200, the last one from a later run on the same
# day. Each program was checked against float64 first. Each ran **inside a CUDA graph**, one launch
# for everybody: so only the GPU's work is compared. PyTorch as it is (**eager**), PyTorch compiled
# (the better of two modes), the course's ten kernels, and the fused one. Two of them also
# **folded** (section 16).
#
# How many times faster than the best compiled one is the fused kernel, at a batch of 32?

# %%
predict("fused against compiled, batch 32, times", 4, within=2, no_effect=1)

# %%
BATCHES = (32, 64, 128, 256, 512, 4096, 65536)
PROGRAMS = {
    "eager": ["torch"],
    "compiled": ["torch.compile default", "torch.compile max-autotune-no-cudagraphs"],
    "ten kernels": ["layers"],
    "fused": ["fused"],
    "compiled, folded": ["torch.compile default, folded"],
    "fused, folded": ["folded"],
}


def in_graphs(batch):
    """Return the recorded µs of each program at a batch, replayed inside a graph."""
    return {
        name: min(h200(f"{variant}, graph", batch) for variant in variants)
        for name, variants in PROGRAMS.items()
    }


table = {batch: in_graphs(batch) for batch in BATCHES}
print("batch" + "".join(f"  {name}" for name in PROGRAMS) + " [µs]")
for n, times in table.items():
    print(f"{n:5}" + "".join(f"{time:{2 + len(name)}.1f}" for name, time in times.items()))
few = table[32]["compiled"] / table[32]["fused"]
predict.answer("fused against compiled, batch 32, times", round(few, 1))

# %%
print("fused:  times eager   times compiled   folded: times compiled, folded")
for n, times in table.items():
    eager, compiled_once = (times[name] / times["fused"] for name in ("eager", "compiled"))
    both_folded = times["compiled, folded"] / times["fused, folded"]
    print(f"{n:6}{eager:13.2f}{compiled_once:17.2f}{both_folded:33.2f}")
lines = {name: (BATCHES, [table[n][name] for n in BATCHES]) for name in PROGRAMS}
title = "A forward pass on an H200, inside a graph (recorded)"
plots.curves(lines, "spectra", "µs", title=title)

# %% [markdown]
# One kernel is 4.7 to 5.4 times as fast as the best compiled program for 64 to 512 spectra, and
# 1.67 times for 65,536. Where does each come from?
#
# (At 32 it is 7.4 times. That ratio is not one to publish. Compiled PyTorch takes longer for 32
# spectra than for 64, 39 µs against 30: the rival became worse, not the fused kernel better.)
#
# (Section 12 has a benchmark that cannot see such a difference.)

# %% [markdown]
# **Few**: starting. 32 spectra need 0.07 µs of arithmetic. But a kernel begins when the one before
# has ended, in a graph, too, and its first bytes have to arrive: 31 µs for the ten kernels, 3 µs
# each. The fused one does that once.
#
# (Eager PyTorch takes *less* time for 128 spectra than for 32. For few rows its library seems to
# choose other kernels: its recorded rounding errors differ, too.)

# %% [markdown]
# ## 9 How good is the alarm?
#
# <kbd>deepening</kbd> 5 minutes
#
# How good is the score of section 1 as an alarm? Take a healthy and a faulty spectrum at random.
# How often does the faulty one have the higher score? 0.5 would be chance. (Printed beside it, to
# compare with: the same question with a spectrum's loudness in place of its score.)

# %%
predict("faulty scores higher than healthy, share of pairs", 0.95, within=1.1)

# %%
sounds, is_faulty = spectral.held_out(512)
_, scores = spectral.reference(sounds, weights)
share = spectral.area_under_curve(scores, is_faulty)
loudness = spectral.area_under_curve((sounds**2).mean(axis=1), is_faulty)
print(f"by loudness alone: {loudness:.2f}")
predict.answer("faulty scores higher than healthy, share of pairs", round(share, 2), how="computed")
each = np.array_split(scores[is_faulty], len(spectral.FAULTS))
pictures.scores(scores[~is_faulty], dict(zip(spectral.FAULTS, each)))

# %% [markdown]
# Left, the scores. Right, the **ROC curve** of each fault: each point is a limit, above which a
# score raises the alarm. It shows which share of the faulty spectra that limit finds, and which
# share of the healthy ones it calls faulty. The area under the curve of all faults together is the
# share of pairs that you have just guessed.

# %% [markdown]
# ## 10 Bytes on paper
#
# <kbd>deepening</kbd> 20 minutes
#
# Section 4 traced the bytes of ten launches and of one. They can be counted on paper, too.
#
# ### Exercise: bytes of many launches, and of one
#
# `launches` is a list such as `[(("x", "w"), "a"), (("a",), "y")]`: what each reads, and what it
# writes. `of_a_sample` and `of_weights` say how many numbers a name has: for each of the `batch`
# samples, or altogether. Return the bytes that all launches move, and those of one kernel for the
# whole, which writes only the `results`. All is float32. Each launch reads what it needs once; so
# does the one kernel.
#
# <details><summary>Hint</summary>
#
# First make a dict: name → bytes. The one kernel reads each name that no launch writes, once: a
# `set` helps.
#
# </details>


# %% tags=["exercise"]
def fused_bytes(launches, of_a_sample, of_weights, results, batch):
    """Return (bytes of all launches, bytes of one kernel)."""
    ### BEGIN SOLUTION
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    size |= {name: 4 * count for name, count in of_weights.items()}
    unfused = sum(size[name] for reads, written in launches for name in (*reads, written))
    read = {name for reads, _ in launches for name in reads}
    made = {written for _, written in launches}
    return unfused, sum(size[name] for name in (*(read - made), *results))
    ### END SOLUTION


# %% tags=["check"]
check("fused-bytes", fused_bytes)

# %% [markdown]
# Now our network. `a` to `h` are what lies between the layers; a Linear's bias is counted with its
# weight, gamma and beta together as "norm". The picture has the traced bytes, in three parts.
#
# (Paper and trace differ a little. A basis has no bias, but the kernel `linear` reads one of zeros.
# And the fused kernel has neither gamma nor beta, but padded rows: sections 6 and 14.)

# %% tags=["long"]
launches = [
    (("x", "norm"), "a"), (("a", "encode"), "b"), (("b",), "c"), (("c", "basis"), "d"),
    (("d", "norm of code"), "e"), (("e", "middle"), "f"), (("f",), "g"), (("g", "basis"), "h"),
    (("h", "decode"), "y"), (("x", "y"), "errors"),
]  # fmt: skip
of_a_sample = dict.fromkeys("xabchy", 320) | dict.fromkeys("defg", 32) | {"errors": 1}
of_weights = {"norm": 128, "encode": 4160, "basis": 10240, "norm of code": 64}
of_weights |= {"middle": 1056, "decode": 4160}
counted = fused_bytes(launches, of_a_sample, of_weights, ["y", "errors"], 32)
print("on paper:", counted or "not written yet")


def parts(report, read):
    """Return the bytes of a launch: read of the batch, weights, written."""
    stored = report.total("global", "store").bytes
    return read, report.unique_bytes - read - stored, stored


names = [name for name, *_ in steps]
reads = [4 * batch * sum(of_a_sample.get(name, 0) for name in launch[0]) for launch in launches]
programs = {
    "layer by layer": [
        (name, *parts(report, read)) for name, report, read in zip(names, ten, reads)
    ],
    "fused": [("all", *parts(one, x.nbytes))],
}
pictures.traffic(programs)

# %% [markdown]
# At a batch of 32 half of the fused kernel's bytes are weights. So for more spectra the ratio
# grows. What is it at 65,536, where weights hardly count?

# %%
predict("times the bytes, batch 65,536", 6, within=1.1)

# %%
# numbers for each spectrum: a to h are written and read; x and y read or written twice; an error
by_ten = 2 * sum(of_a_sample[name] for name in "abcdefgh") + 2 * 320 + 2 * 320 + 1
by_one = 320 + 320 + 1  # x, y, the error
predict.answer("times the bytes, batch 65,536", round(by_ten / by_one, 1), how="computed")

# %% [markdown]
# ## 11 What an argument costs
#
# <kbd>deepening</kbd> 5 minutes
#
# Section 5's launch takes the host longer, the more arguments it has. An array is no single number:

# %%
from numba.core.datamodel import default_manager

matrix = default_manager.lookup(float32[:, ::1])
kinds = [matrix.get_type(number) for number in range(matrix.field_count)]
print(wrapped(", ".join(map(str, kinds))))
print(sum(getattr(kind, "count", 1) for kind in kinds), "words for a matrix")

# %% [markdown]
# These are two words that a kernel has no use for, the length, an element's size and the address.
# Each of the two axes adds a shape and a stride.
#
# Recorded: an empty kernel, with no arguments and with five arrays. What does **one** array cost
# the host, in µs?

# %%
predict("µs of the host for an array argument", 1, within=2)

# %%
cost = {
    name: 1e3 * recorded("launch", variant=name, metric="host in a row", gpu="H200")[0].median
    for name in ("no arguments", "5 Numba arrays")
}
an_array = (cost["5 Numba arrays"] - cost["no arguments"]) / 5
for name, microseconds in cost.items():
    print(f"{name:15} {microseconds:5.1f} µs")
predict.answer("µs of the host for an array argument", round(an_array, 1))

# %% [markdown]
# The network has eleven arrays of weights. With x, y and the errors a fused kernel would have 14
# arguments. (From C or C++ a kernel is handed addresses only: such a launch costs less.)
#
# The cure is cheap: **pack** all weights into one array, once, when they are loaded. Then the
# kernel has four arguments. An empty kernel was recorded beside the network: the host's time, the
# time between two **events**, and the same **queued** behind other work.

# %%
print(f"{'an empty kernel [µs]':26}   host  events  queued")
for name in ("14 arrays", "4 arrays", "4 arrays, configured anew"):
    figures = [h200(name, "", metric, "empty") for metric in ("host in a row", "events", "queued")]
    print(f"{name:26}" + "".join(f"{figure:7.1f} " for figure in figures))

# %% [markdown]
# Ten arrays less are 41 µs less: 4 µs each, as you have just seen. ("Configured anew" is
# `kernel[grid, block](...)`, written out at each call. `launch = kernel[grid, block]` once, before
# the loop, saves about 1 µs.)
#
# The GPU needs next to nothing for any of them: queued, 1.3 µs. But events around a single launch
# show the host's time again: the GPU stands at the first event and waits.

# %% [markdown]
# ## 12 A comparison that could not lose
#
# <kbd>deepening</kbd> 10 minutes
#
# A benchmark compares a fused kernel with PyTorch's own layers, at batches of 32 to 512. Its table
# says about 0.07 ms for each program and each batch. Does fusing give nothing?
#
# Two of its lines are behind that. Here they stand around a toy whose launch costs 0.07 ms. The
# fused kernel works for 0.013 ms at a batch of 32 and for 0.061 ms at 512. Each of the ten layers
# takes 0.010 and 0.034 ms.

# %% tags=["long"]
HAVE_EXTENSION = True  # it was built, and could be imported


def extension(toy, batch):
    """The fused kernel: one launch."""
    toy.work = (0.010 + batch / 10_000) * 1e-3  # in s
    toy.launch()


def native(toy, batch):
    """The layers, where nothing better is there."""
    if HAVE_EXTENSION:
        return extension(toy, batch)
    toy.work = (0.008 + batch / 20_000) * 1e-3
    for _ in range(10):
        toy.launch()


def timed(program, batch, wait):
    """Return the ms of a call after a warm-up, and how many launches it made."""
    toy = ToyGPU(launch=0.07, compiling=0.0, steady=True)
    program(toy, batch)
    toy.synchronize()
    warm, start = toy.launches, toy.clock()
    program(toy, batch)
    if wait:
        toy.synchronize()
    return 1e3 * (toy.clock() - start), toy.launches - warm


def compare(wait):
    print("batch   native   extension [ms]   speed-up")
    for batch in (32, 64, 128, 256, 512):
        (theirs, _), (ours, _) = timed(native, batch, wait), timed(extension, batch, wait)
        print(f"{batch:5}{theirs:9.3f}{ours:12.3f}{theirs / ours:15.2f}")


compare(wait=False)

# %% [markdown]
# There is the table: flat, and a draw. (A real machine adds a few percent of chance.) Look at the
# first column: 16 times as many spectra take the same time. What is constant is the price of a
# launch; nobody waited for the kernel. So put in the `synchronize`. What will the speed-up be at a
# batch of 512?

# %%
predict("speed-up at 512, with synchronize", 2, within=1.25, no_effect=1)

# %%
compare(wait=True)
(theirs, count), (ours, _) = timed(native, 512, True), timed(extension, 512, True)
predict.answer("speed-up at 512, with synchronize", round(theirs / ours, 2), how="computed")

# %% [markdown]
# The times grow now, as they should. The draw stays! One fault hid the other. How would you find
# the second? Not by looking at the times. Look at **what ran**: the next cell prints how many
# launches a call of `native` made. In earnest a profiler says so: the names of the kernels ([lesson
# 07](07_reading_a_profiler.ipynb)).
#
# `native` means "our best way", and its best way *is* the extension, as soon as that can be
# imported. A kernel was timed against itself. Give each contender a name that cannot mean the
# other:

# %%
print("launches of a native call:", count, "- a network of ten layers")
HAVE_EXTENSION = False
compare(wait=True)

# %% [markdown]
# That is a speed-up. In this toy most of it is launches: ten against one. So a fair table has a
# third contender: PyTorch's layers inside a **CUDA graph**, which pays for one launch, too. What is
# left then is the kernels' own time. Section 8 has that table, measured.
#
# Before you believe a comparison, your own first:
#
# 1. Does the time grow with the work? If not, what is constant?
# 2. Which kernels ran, how often?
# 3. Do both give the right result, on the same input?
# 4. Was everybody's work waited for, everybody warm, everybody's launch in or out?

# %% [markdown]
# ## 13 Several spectra a block
#
# <kbd>deepening</kbd> 20 minutes
#
# First the copying of section 7. Why (inputs, outputs), and not PyTorch's (outputs, inputs)?
# Neighbouring lanes make neighbouring *outputs*, so these have to lie side by side in memory:
# **coalesced**. Turning them once, when they are packed, is free. And the fused kernel copies
# sixteen bytes with each lane. How many sectors does such a request need, at best?

# %%
predict("sectors a request of 16 bytes a lane", 16, exact=True)

# %%
lines = one.lines
copied = lines[(lines.array == "packed") & (lines.space == "global") & (lines.op == "load")]
full = copied.sectors.sum() / copied.requests.sum()
print(copied[["code", "requests", "sectors", "ideal_sectors"]].to_string(index=False))
predict.answer("sectors a request of 16 bytes a lane", round(full), how="counted")

# %% [markdown]
# The weights are in shared memory now. Each product of a Linear needs one of them, and a number of
# the frame. Read both for every product, and shared memory is what binds ([lesson
# 06](06_reuse_reuse_reuse.ipynb)). The cure is the same: a lane computes several results in
# registers, and uses each number that it reads for all of them. So a lane takes several **spectra**
# and several **columns**.

# %%
pictures.warps(shape)

# %% [markdown]
# Here five warps have a **tile** of 16 spectra, and a lane 4 × 8 results. The trace says what
# that saves. How many wavefronts of shared memory does a spectrum need, with 4 × 8 results a lane,
# if it needs 2,600 with 1 × 2?

# %%
predict("wavefronts a spectrum, 4 x 8 results a lane", 650, within=2)

# %%
four_groups = spectral.CONFIGS[-1]
print("results groups spectra a block shared memory wavefronts a spectrum blocks for 32")
for form in (spectral.FusedConfig(1, 2), spectral.FusedConfig(2, 4), shape, four_groups):
    held = form.tile * form.groups
    report, _ = traced(form, spectral.spectra(held, seed=3), weights)
    needed = report.total("shared", "load").wavefronts / held
    print(f"{form.samples} x {form.columns}{form.groups:9}{held:16}", end="")
    print(f"{form.shared_bytes / 1024:10.0f} KiB{needed:22,.0f}{form.blocks(32, 132):14}")
    if form == shape:
        measured = needed
predict.answer("wavefronts a spectrum, 4 x 8 results a lane", round(measured), how="counted")

# %% [markdown]
# The last shape has four **groups** of five warps in a block. Each group has a tile of its own, and
# room for it; the weights they share. That saves no wavefronts. What it brings, you will see below.
#
# First look at the last column. An H200 has 132 SMs. With the largest shape, 32 spectra are **one**
# block: 131 stand idle. With the smallest, 32 of them work, each with less reuse. So there is no
# best shape for all batches. `config_for` chooses one for each: the smallest shape with which no SM
# gets a second block. Where every shape would give some a second one, it takes the largest.

# %%
for batch in (32, 128, 512, 4096, 65536):
    form = spectral.config_for(batch, 132, 227 * 1024, (9, 0))
    tiles = form.tile * form.groups
    print(f"batch {batch:6}: {tiles:3} spectra a block, {form.blocks(batch, 132):3} blocks")

# %% [markdown]
# (128 blocks, and not 132? A block that is done with its spectra takes the next ones. 65,536 are
# 1,024 times 64: eight rounds for each of 128 blocks. With 132 some would need eight, too.)
#
# Was that chosen well? Recorded is the kernel in each shape at four batches. A star stands at the
# shape that `config_for` takes. For 32 spectra, how many times as long as the smallest shape does
# the largest take?

# %%
predict("32 spectra: largest shape against smallest, times", 4, within=2, no_effect=1)


# %%
def of_shape(form, batch, metric="time"):
    """Return what was recorded of the kernel in a shape; its time in ms."""
    name = f"{form.samples}x{form.columns}, {form.groups} groups"
    wanted = {"kernel": "spectral shape", "variant": name, "shape": str(batch), "metric": metric}
    return recorded("spectral", gpu="H200", **wanted)[0].median


print("µs for a batch of" + "".join(f"{batch:>10,}" for batch in (32, 512, 4096, 65536)))
for form in spectral.CONFIGS:
    line = f"{form.samples} x {form.columns}" + f", {form.groups} groups" * (form.groups > 1)
    line = f"{line:17}"
    for batch in (32, 512, 4096, 65536):
        star = "*" if form == spectral.config_for(batch, 132, 227 * 1024, (9, 0)) else " "
        line += f"{1e3 * of_shape(form, batch):9.1f}{star}"
    print(line)
smallest, largest = (of_shape(form, 32) for form in (spectral.CONFIGS[0], four_groups))
predict.answer("32 spectra: largest shape against smallest, times", round(largest / smallest, 1))

# %% [markdown]
# In each column the star stands at the shortest time. One shape for all would cost dearly: for few
# spectra the largest, for 65,536 the smallest.
#
# Now the groups. The last three shapes have much in common. A lane has 4 × 8 results, a spectrum
# needs 428 wavefronts. 128 blocks do 65,536 spectra, each on an SM of its own. In a **round** each
# group of a block does a tile: one group does 16 spectra, four groups do
# 64. That is four times the work, on one SM. How many times as long does such a round take?

# %%
predict("round of four groups against round of one, times", 4, within=1.5, no_effect=1)

# %%
print("groups  warps  registers  local memory")
for form in spectral.CONFIGS[-3:]:
    registers, local = (of_shape(form, 65536, what) for what in ("registers", "local memory"))
    print(f"{form.groups:6}{form.threads // 32:7}{registers:11.0f}{local:8.0f} bytes")
print("\n batch  groups  blocks  rounds  a round [µs]   all [µs]")
a_round = {}
for batch in (65536, 4096):
    for form in spectral.CONFIGS[-3:]:
        blocks, took = form.blocks(batch, 132), 1e3 * of_shape(form, batch)
        rounds = math.ceil(batch / (form.tile * form.groups * blocks))
        a_round[batch, form.groups] = took / rounds
        print(f"{batch:6}{form.groups:8}{blocks:8}{rounds:8}{took / rounds:14.1f}{took:11.1f}")
ratio = a_round[65536, 4] / a_round[65536, 1]
predict.answer("round of four groups against round of one, times", round(ratio, 1))

# %% [markdown]
# Four times the work in 2.4 times the time. A spectrum still needs the same products and
# wavefronts. Only the time spent **waiting** can be less. (What for was not recorded.) While a warp
# waits, its SM goes on with another one, if it has another ([lesson
# 03](03_measuring_honestly.ipynb)). Each of an SM's four quarters has one or two of five warps, or
# five of twenty.

# %% [markdown]
# That has a price. 640 threads share 65,536 registers: 102 each, and in multiples of 8 that is 96.
# The compiler would take 127. So it puts 16 bytes of each thread into **local memory** (section
# 15). Its machine code reads none of them in an innermost loop, of which [lesson
# 06](06_reuse_reuse_reuse.ipynb) warns. Here more warps are worth more than registers.
#
# Why not for 4,096 spectra? Four groups need only 64 blocks: 68 SMs stand idle, and a batch takes
# 36 µs. Two groups need 128 blocks, and 22 µs. First comes work for every SM, then more warps in
# each.

# %% [markdown]
# ## 14 Banks and barriers
#
# <kbd>deepening</kbd> 10 minutes
#
# **Banks.** The basis has 32 rows of 320 numbers. In the product that makes the code, eight lanes
# side by side read four numbers each, of eight different rows. Eight such reads of 16 bytes fill
# the 32 banks, so a warp needs 4 wavefronts, if there is no conflict. But 320 is a multiple of 32.
# In which bank does each row begin? How many wavefronts then?

# %%
predict("wavefronts, rows 320 apart", 32, exact=True)

# %%
from warpsim.ptx import load4


def wavefronts_of(pitch):
    """Trace a read of 16 bytes a lane: eight lanes, eight rows, `pitch` numbers apart."""
    size = 8 * pitch

    @cuda.jit
    def read_rows(out):
        basis = cuda.shared.array(size, float32)
        for n in range(cuda.laneid, size, 32):
            basis[n] = float32(n)
        cuda.syncwarp()
        p, q, r, s = load4(basis, cuda.laneid % 8 * pitch)
        out[cuda.laneid] = p + q + r + s

    lines = trace(read_rows, 1, 32, np.zeros(32, np.float32), gpu="H200").lines
    return int(lines[lines.code.str.contains("load4")].wavefronts.sum())


for pitch in (320, 324, 328, 336):
    print(f"rows {pitch} apart: {wavefronts_of(pitch)} wavefronts")
predict.answer("wavefronts, rows 320 apart", wavefronts_of(320), how="counted")
loads, stores = one.total("shared", "load"), one.total("shared", "store")
print(f"{loads.wavefronts:,} wavefronts of loads, {loads.conflicts} of them conflicts")
print(f"{stores.wavefronts:,} wavefronts of stores, {stores.conflicts} of them conflicts")

# %% [markdown]
# Four numbers of padding a row decide: are all eight rows in the same four banks, or spread over
# all 32? ([Lesson 05](05_shared_memory.ipynb) had one number of padding. Here lanes read four at a
# time, and each must begin at a multiple of four.) Spectra lie 336 apart in the kernel: of them
# only two are read at a time, and 336 puts the second one 16 banks further. The last two lines are
# of the whole kernel: it has no conflicts.

# %% [markdown]
# **Barriers.** At each one, all warps of a block wait for the slowest. There are two versions of
# the kernel. `fetched` needs little shared memory (any GPU): it fetches a layer's weights when they
# are needed, over those of the layer before. Nobody may overwrite what another still reads, and
# nobody read what is not there yet: two barriers for each part. There are five parts, and three
# barriers more. `resident` has all weights all the time. How many are left there, for each tile?

# %%
predict("barriers a tile, weights resident", 3, exact=True)


# %%
def barriers(tiles, resident):
    """Count the barriers of a block that rebuilds so many tiles."""
    form = spectral.FusedConfig(samples=2, columns=4, resident=resident)
    return traced(form, spectral.spectra(tiles * form.tile, seed=3), weights)[0].barriers


for name, resident in (("fetched", False), ("resident", True)):
    a_tile = barriers(2, resident) - barriers(1, resident)
    print(f"{name:9} {a_tile} barriers a tile")
predict.answer("barriers a tile, weights resident", a_tile, how="counted")

# %% [markdown]
# Two, and both are needed. A code is a sum over five frames, so five warps must have written their
# shares. All five then rebuild from that code. Everywhere else a warp waits for its own lanes only:
# `syncwarp`. (The first tile of a block has two more: the weights are still arriving, in three
# parts, while the first LayerNorm is computed. And one comes after the loop.)

# %% [markdown]
# ## 15 Loops that disappear
#
# <kbd>deepening</kbd> 5 minutes
#
# A lane's 4 × 8 results live in `cuda.local.array`. Registers have no numbers that a program could
# compute: there is no "register i". So an array can be in registers only if the compiler knows each
# index. It does when it **unrolls** the loops: writes their body once for each round. For that it
# must know how many rounds there are.
#
# Two kernels that do the same. One has 8 in its text, the other gets it as an argument:
#
# Numba has no `#pragma unroll`; constants do the same. NVIDIA's compiler says what became of the
# arrays (with the extra `compile`, no GPU needed):


# %% tags=["long"]
# NBVAL_IGNORE_OUTPUT
@cuda.jit
def sums_of_8(x, n, out):
    total = cuda.local.array(8, float32)
    for i in range(8):
        total[i] = float32(0)
    for row in range(x.shape[0]):
        for i in range(8):
            total[i] += x[row, cuda.threadIdx.x] * x[row, i]
    for i in range(8):
        out[i, cuda.threadIdx.x] = total[i]


@cuda.jit
def sums_of_n(x, n, out):
    total = cuda.local.array(8, float32)
    for i in range(n):
        total[i] = float32(0)
    for row in range(x.shape[0]):
        for i in range(n):
            total[i] += x[row, cuda.threadIdx.x] * x[row, i]
    for i in range(n):
        out[i, cuda.threadIdx.x] = total[i]


from course import CompilerMissing, compiled

try:
    for kernel in (sums_of_8, sums_of_n):
        facts = compiled(kernel, "void(float32[:, ::1], int64, float32[:, ::1])", target="sm_90")
        local = sum(facts.load_widths.get("local", {}).values())
        print(
            kernel.py_func.__name__, f"{facts.registers} registers, {local} local loads", sep=": "
        )
except CompilerMissing:
    print("The extra compile is not here. Compiled elsewhere for an H200 (CUDA 13.0):")
    print("sums_of_8: 32 registers, 0 local loads")
    print("sums_of_n: 30 registers, 12 local loads")

# %% [markdown]
# `sums_of_8` has its sums in registers and no access to local memory. `sums_of_n` has them in local
# memory: a read and a write for each product, by way of a cache. (Section 13 had 16 bytes of a
# thread there, read seldom. This is another matter.)
#
# That is why `fused(shape)` is a Python function that *makes* a kernel: `samples` and `columns` are
# names from outside the kernel, constants for the compiler. Each shape is a kernel of its own, with
# straight code in it.

# %% [markdown]
# ## 16 How right, and a third less work
#
# <kbd>deepening</kbd> 15 minutes
#
# How right is the kernel? The next cell compares it with float64, with more and with fewer spectra
# than a tile holds. A float32 has about 7 digits, and so have the results.
#
# Now a shortcut that many programs take: **tanh** in place of erf, in the GELU. It was meant to be
# cheaper, and is off by 0.0005 at most. By how much does it change what the network rebuilds,
# relative? Below 1e-5?

# %%
model = spectral.Autoencoder(weights)
for batch in (1, 31, 200):
    x = spectral.spectra(batch, seed=batch)
    expected, expected_scores = spectral.reference(x, weights)
    rebuilt, found = model(x)
    errors = relative_error(rebuilt, expected), relative_error(found, expected_scores)
    print(f"batch {batch:3}: errors below 1e-6: {max(errors) < 1e-6}")
predict("tanh GELU: relative change of the rebuilt spectra", 0.0005, within=3)

# %%
from unittest.mock import patch


def gelu_by_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


x, is_faulty = spectral.held_out(128)
expected, expected_scores = spectral.reference(x, weights)
grid = np.linspace(-6, 6, 2001)
print(
    f"of one number: {np.abs(gelu_by_tanh(grid) - spectral.network.gelu(grid)).max():.1e} at most"
)
with patch.object(spectral.network, "gelu", gelu_by_tanh):
    by_tanh, tanh_scores = spectral.reference(x, weights)
changed = relative_error(by_tanh, expected)
areas = [spectral.area_under_curve(values, is_faulty) for values in (expected_scores, tanh_scores)]
print("area under the curve: {:.3f} with erf, {:.3f} with tanh".format(*areas))
predict.answer(
    "tanh GELU: relative change of the rebuilt spectra", float(f"{changed:.0e}"), how="computed"
)

# %% [markdown]
# Many times what all the roundings of float32 do together, and the alarm is as good as before. Is
# tanh allowed, then? It is another function. A network may be *trained* with it. But who compares a
# kernel with a reference to 1e-5 must use the same one, and who publishes a speed-up must say
# which.
#
# And now less work without another function. Between the code and the rebuilt frames stand two
# Linears, nothing else: the basis, then the decoder. (h P) Wᵀ is h (P Wᵀ). So the product P Wᵀ can
# be made **once**, when the weights are packed, and not for each spectrum.

# %% [markdown]
# ### Exercise: two Linears folded into one
#
# `basis` is (rows, frames · wide): the frames' columns stand side by side. `weight` is (outputs,
# wide), in PyTorch's order, the same for all frames. Return the matrix (rows, frames · outputs)
# that does both at once.
#
# <details><summary>Hint</summary>
#
# Cut the rows into frames: `basis.reshape(rows, frames, wide)`. The `@` of NumPy multiplies stacks
# of matrices.
#
# </details>


# %% tags=["exercise"]
def folded_decoder(basis, weight):
    """Return the basis with the decoder multiplied into each frame."""
    ### BEGIN SOLUTION
    frames = basis.reshape(len(basis), -1, weight.shape[1])
    return (frames @ weight.T).reshape(len(basis), -1)
    ### END SOLUTION


# %% tags=["check"]
check("folded-decoder", folded_decoder)

# %%

for name, folded in (("as it is drawn", False), ("folded", True)):
    print(f"{name:15} {spectral.multiplications(1, folded):,} products for a spectrum")
rebuilt, _ = model(x, method="folded")
print("folded, error below 1e-5:", bool(relative_error(rebuilt, expected) < 1e-5))

# %% [markdown]
# A third less. (The encoder keeps P as it is: between the first Linear and P stands a GELU, and
# what is not linear cannot be folded.) Any framework may do that, too: where it is compared, both
# should.

# %% [markdown]
# All programs of the table compute in float32: PyTorch without the shorter TF32, and its errors are
# as small as ours, about 2e-7. (**TF32** is float32 rounded to 11 bits, for the tensor cores:
# [lesson 17](17_tensor_cores.ipynb). With it PyTorch would be faster where products bind, and its
# errors some thousand times larger. Is that allowed? If three digits are enough, yes, and then for
# the fused kernel, too. It was not recorded here. So the table says nothing about a program that
# may use TF32.)

# %% [markdown]
# ## 17 How near to the roofs
#
# <kbd>deepening</kbd> 5 minutes
#
# For few spectra a kernel's start is what takes long (section 8). For **many** every SM is busy,
# and bytes and products count. How far is each program from the least time that its work could
# take?
#
# One kernel moves bytes and computes **at the same time**: its least time is the longer of the two.
# Ten kernels run one after the other. So take the longer one of **each** kernel, and add these up.
# (`products_for` are the products that make a number's array, for a spectrum.)

# %% tags=["long"]
from course import bound

largest = BATCHES[-1]
operations = 2 * products * largest
for name, numbers in (("fused", by_one), ("ten kernels", by_ten)):
    limit = bound(4 * largest * numbers, operations, gpu=recorded_roofs("H200"))
    for what, milliseconds in limit.times.items():
        print(f"{name:11} {what:8} {1e3 * milliseconds:7.1f} µs at least, for {largest:,} spectra")
products_for = {"b": 5 * 64 * 64, "d": 32 * 320, "f": 32 * 32, "h": 32 * 320, "y": 5 * 64 * 64}
assert sum(products_for.values()) == products
least = {"ten kernels": 0.0}
for read, written in launches:
    numbers = sum(of_a_sample.get(name, 0) for name in (*read, written))
    limit = bound(
        4 * largest * numbers,
        2 * largest * products_for.get(written, 0),
        gpu=recorded_roofs("H200"),
    )
    least["ten kernels"] += 1e3 * limit.milliseconds
limit = bound(4 * largest * by_one, operations, gpu=recorded_roofs("H200"))
least["fused"] = 1e3 * limit.milliseconds
for name, of in (("fused", "fused"), ("compiled", "ten kernels"), ("ten kernels", "ten kernels")):
    took = table[largest][name]
    print(f"{name:12} recorded {took:7.1f} µs, at least {least[of]:5.1f}: {least[of] / took:.0%}")
print(f"the two bounds: {least['ten kernels'] / least['fused']:.2f} to 1")

# %% [markdown]
# For the fused kernel the arithmetic is the higher hurdle by far, 137 µs against 40. So more bytes
# saved would save little; fewer products do, as "folded" shows: 222 µs.
#
# Ten kernels need at least 266 µs. In the large Linears bytes and products take about equally long.
# There fusion can save little. It saves the bytes of the kernels that compute next to nothing. So
# it can gain a factor of 1.9 here. It gained 1.67 against compiled PyTorch. (PyTorch puts some of
# the ten together, so its own bound is lower, and its share of it smaller than printed. Our ten
# kernels are far from any roof: 5 times faster than those says little.)

# %% [markdown]
# And the fused kernel takes twice its bound. What fills the rest was not measured. Each spectrum
# needs 352 GELUs, six LayerNorms and 428 wavefronts of shared memory, and the bound counts none of
# them. And an SM has only twenty warps to hide waiting, not 64. (Ten were slower, and more than
# twenty do not fit, with 96 registers a thread.) [Lesson 07](07_reading_a_profiler.ipynb) shows how
# to find out.
#
# And without a graph, as most programs call it? Then the host counts:

# %%
print("host's time for a call, batch 32 [µs]")
for name in ("torch", "torch.compile default", "layers", "fused", "fused, graph"):
    print(f"{name:24}{h200(name, 32, 'launch'):8.1f}")

# %% [markdown]
# Compiled, PyTorch launches fewer kernels, and yet the host spends as long on a call: it checks its
# arguments before each. (The host's times vary: from batch to batch by up to a factor of 1.8.)
#
# **On your own GPU** the next cell measures the ten kernels and the one. Without one there is
# nothing to time.

# %%
# NBVAL_IGNORE_OUTPUT
from course import benchmark, gpu

if gpu() is None:
    print("no GPU here, so nothing to time")
else:
    for batch in (32, 4096):
        there = cuda.to_device(spectral.spectra(batch, seed=1))
        target = cuda.device_array(there.shape, np.float32)
        marks = cuda.device_array(batch, np.float32)
        for method in ("layers", "fused"):
            call = model.configured(batch, method)
            print(f"batch {batch}, {method}:", benchmark(call, there, target, marks))

# %% [markdown]
# ## 18 What may go wrong
#
# <kbd>deepening</kbd> 5 minutes
#
# A fused kernel hides its layers. So it has to be strict at its door, and its errors must say what
# to do. What does the package refuse, and what does it let pass? And where does a NaN go?

# %%
x = spectral.spectra(3, seed=5)
longer = cuda.to_device(np.zeros(3 * 320 + 1, np.float32))
for what, given in (
    ("float64", x.astype(np.float64)),
    ("319 columns", x[:, :319]),
    ("an address of its own", longer[1:].reshape(3, 320)),
):
    try:
        model(given)
    except (TypeError, ValueError) as error:
        print(wrapped(f"{what}: {error}"))
x[1, 100] = np.nan
rebuilt, found = model(x)
print("spectra with NaN in the result:", np.flatnonzero(np.isnan(found)))
rebuilt, found = model(spectral.spectra(0, seed=1))
print("a batch of none:", rebuilt.shape, found.shape)

# %% [markdown]
# The third error is about 16 bytes. A lane reads four numbers at a time, and such a read must begin
# at a multiple of 16. On a GPU it would be "misaligned address", some calls later, and the session
# would be lost ([lesson 01](01_threads_blocks_grids.ipynb)). A NaN stays in its spectrum: two
# spectra share weights, never sums.

# %% [markdown]
# And the kernel's shape? Registers are given to whole warps, in each quarter of an SM ([lesson
# 03](03_measuring_honestly.ipynb)). A block of two groups has ten warps: three in some quarter. In
# an early version such a block asked for 200 registers a thread. The most that fit are
# 168. Of four groups, with five warps in each quarter, section 13 said 96, where the compiler would
# take 127:
#
# Every simulated test was green, and the GPU refused the launch: what registers allow, only
# arithmetic or a GPU can tell. Now a test of the package does that arithmetic for each shape.

# %%
from course import occupancy

for form, registers in ((spectral.CONFIGS[-2], (200, 168)), (four_groups, (127, 96))):
    for each in registers:
        fits = occupancy("H200", form.threads, each, form.shared_bytes)
        print(f"{form.groups} groups, {each} registers: {fits.blocks} blocks, ", end="")
        print("limited by", " and ".join(fits.limited_by))

# %% [markdown]
# ## 19 Your own network in one kernel
#
# <kbd>deepening</kbd> 65 minutes
#
# You have normalised frames, staged weights, counted barriers. Now the whole network, in one kernel
# of your own, some 40 lines: a block has **one** spectrum, five warps its five frames. The fused
# kernel of the package does no more. It only has more spectra a block, so that it may keep the
# weights in shared memory.
#
# With one spectrum a block each weight of a frame is used five times at most. So yours reads the
# weights where they are: they lie in L2 after the first block, and the five warps share them in L1.

# %%
from course_lessons.lesson14.own_network import arguments_of


@cuda.jit(device=True)
def over_warp(value):
    """The sum over the 32 lanes of a warp, in each of them."""
    for step in range(5):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << step)
    return value


for name, array in arguments_of(spectral.spectra(2, seed=1), weights).items():
    print(f"{name:12} {array.shape}")

# %% [markdown]
# ### Exercise: a network in one kernel
#
# Block b has row b of `x`. Write the code (after its GELU) to `code`, the rebuilt spectrum to `y`,
# the mean of its 320 squared differences from `x` to `errors`. All weights are (inputs, outputs),
# and gamma and beta are in them. `to_code` and `from_code` are the same basis, turned and as it is.
#
# 1. LayerNorm, Linear, GELU of the warp's own frame.
# 2. The warp's **share** of the code: its 64 numbers times its 64 rows of `to_code`.
# 3. One warp adds up five shares: LayerNorm, Linear, GELU of 32 numbers.
# 4. Up: the frame's 64 columns of `from_code`. Then the decoder.
# 5. The error: five shares again.

# %% [markdown]
# Between layers the numbers go through shared memory: who reads needs what other lanes wrote. Think
# before each step who that is. Lanes of the same warp: `cuda.syncwarp()`. Other warps:
# `cuda.syncthreads()`. Three of the latter are enough.
#
# <details><summary>Hint 1: a Linear</summary>
#
# As in `staged_weights`: `p` and `q` begin with the bias of `lane` and `lane + 32`; for each k of
# 64 they grow by `frames[first + k]` times a weight.
#
# </details>
#
# <details><summary>Hint 2: where an array is used again</summary>
#
# The results of a Linear may take the place of its inputs in `frames`, when **all** lanes have read
# these: `cuda.syncwarp()` before the store, and another one behind it.
#
# </details>
#
# <details><summary>Hint 3: the code</summary>
#
# `if warp == 0:` and a lane for each of its 32 numbers: both sums of LayerNorm by `over_warp`, then
# through `codes` for the Linear. Behind that `if` all warps wait.
#
# </details>


# %% tags=["exercise", "long"]
@cuda.jit
def one_kernel(
    x, encode, encode_bias, to_code, middle, middle_bias, from_code, decode, decode_bias,
    code, y, errors
):  # fmt: skip
    """Rebuild a spectrum in a block of five warps; write its code, itself and its error."""
    frames = cuda.shared.array(320, float32)  # what a layer of the frames hands to the next
    shares = cuda.shared.array((5, 32), float32)  # of each frame, in the code
    codes = cuda.shared.array(32, float32)
    squares = cuda.shared.array(5, float32)  # of each frame, in the error
    row = cuda.blockIdx.x
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    first = 64 * warp  # column of the frame, and of this lane:
    column = first + lane
    ### BEGIN SOLUTION
    a, b = x[row, column], x[row, column + 32]
    mean = over_warp(a + b) / float32(64)
    p, q = a - mean, b - mean
    scale = float32(1) / math.sqrt(over_warp(p * p + q * q) / float32(64) + float32(1e-5))
    frames[column], frames[column + 32] = p * scale, q * scale
    cuda.syncwarp()
    p, q = encode_bias[lane], encode_bias[lane + 32]
    for k in range(64):
        p += frames[first + k] * encode[k, lane]
        q += frames[first + k] * encode[k, lane + 32]
    cuda.syncwarp()
    frames[column], frames[column + 32] = gelu(p), gelu(q)
    cuda.syncwarp()
    share = float32(0)
    for k in range(64):
        share += frames[first + k] * to_code[first + k, lane]
    shares[warp, lane] = share
    cuda.syncthreads()
    if warp == 0:
        number = float32(0)
        for frame in range(5):
            number += shares[frame, lane]
        number -= over_warp(number) / float32(32)
        number /= math.sqrt(over_warp(number * number) / float32(32) + float32(1e-5))
        codes[lane] = number
        cuda.syncwarp()
        total = middle_bias[lane]
        for k in range(32):
            total += codes[k] * middle[k, lane]
        cuda.syncwarp()
        codes[lane] = gelu(total)
        code[row, lane] = codes[lane]
    cuda.syncthreads()
    p, q = float32(0), float32(0)
    for k in range(32):
        p += codes[k] * from_code[k, column]
        q += codes[k] * from_code[k, column + 32]
    frames[column], frames[column + 32] = p, q
    cuda.syncwarp()
    p, q = decode_bias[lane], decode_bias[lane + 32]
    for k in range(64):
        p += frames[first + k] * decode[k, lane]
        q += frames[first + k] * decode[k, lane + 32]
    y[row, column], y[row, column + 32] = p, q
    square = over_warp((p - a) * (p - a) + (q - b) * (q - b))
    if lane == 0:
        squares[warp] = square
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total = float32(0)
        for frame in range(5):
            total += squares[frame]
        errors[row] = total / float32(320)
    ### END SOLUTION


# %% tags=["check"]
check("one-kernel", one_kernel)

# %% [markdown]
# **Yours beside the package's**, both traced for 32 spectra. For so few the package's blocks have
# one spectrum each, too. The bytes differ by the basis, which yours has twice, and the code. But
# the **sectors**: your five warps ask for the frames' weights five times, and L1 answers. The
# package's block copies them once to shared memory, and pays with wavefronts there.
#
# On a GPU the cell also times both, and PyTorch's layers, for 4,096 spectra. There a block of the
# package's uses the weights that it has copied for 32 spectra at a time. Yours fetches them for
# each.

# %%
# NBVAL_IGNORE_OUTPUT
beside("one-kernel", one_kernel)

# %%
progress(14)

# %% [markdown]
# ## What you should be able to say now
#
# - A short kernel's time has three figures: the host's launch, what lies between events, a replay
#   inside a graph.
# - Fusion saves launches and the bytes between layers. Both can be counted before.
# - Warps that need nobody else need no barrier. The two that are left have a reason each.
# - Weights read once a block, results in registers, rows padded: each step shows in the trace.
# - A time that does not grow with the work measures something else.
# - A fair comparison names what ran, waits for it, and gives everybody the same launch.

# %% [markdown]
# ## Questions
#
# 1. A program launches 10 kernels of 5 µs each; a launch costs the host 30 µs. What does a kernel
#    that is twice as fast bring? What does one launch for all bring?
# 2. Why do five warps need no barrier until the basis?
# 3. A table says 0.07 ms for 32 spectra and for 512. Name two reasons, one honest.
# 4. Why does the best shape depend on the batch?
# 5. Fusing saves a factor of 6.4 in bytes at 65,536. Why is the speed-up smaller?
# 6. What must not lie between two Linears that are folded?
# 7. A colleague's fused kernel is 1e-4 off the reference. What do you ask first?
#
# <details><summary>Answers</summary>
#
# 1. Next to nothing: the host needs 300 µs for the launches, and the GPU waits. One launch of
#    50 µs of work takes 80 µs instead of 305.
# 2. LayerNorm, Linear and GELU of a frame need that frame and weights. The code is the first number
#    that all frames are in.
# 3. Nobody waited for the work; or somebody did, and the program is launch-bound: for both batches
#    the host is what takes long.
# 4. Few spectra have to be spread over all SMs, so small tiles. With many, each SM is busy anyway:
#    larger tiles read shared memory less often, and more warps hide more waiting.
# 5. The fused kernel is not bound by bytes any more: products alone take 3.4 times as long.
# 6. Anything that is not linear: GELU, LayerNorm. (A bias is no obstacle.)
# 7. Which GELU? erf and tanh differ by that much.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Add gamma and beta to `normalise_frames`. How many more reads does the trace count?
# - Let a lane of `staged_weights` take two rows at a time. What happens to the wavefronts?
# - Give the fused kernel a new fault: set `SAMPLE` to 320 in `course_models/spectral/config.py`,
#   and read the trace.
# - Replace MSE by the largest difference of a frame. Which faults does that find better?
# - Invent a fault in `course_models/spectral/data.py`. Does the score find it?

# %% [markdown]
# ## Common misconceptions
#
# - *"Fusion makes kernels faster."* It takes away what lies between them. A slow kernel stays slow.
# - *"The GPU is at 100%, so it is busy."* That figure says that *some* kernel ran, not that all SMs
#   did.
# - *"A CUDA graph is as good as fusion."* It takes away the host's cost. The bytes and the starts
#   of the kernels stay.
# - *"synchronize makes a benchmark slow."* It makes it true.
# - *"No speed-up, so the idea is bad."* Or the measurement is. Look at what ran.
# - *"The best block is the largest."* Not if it is the only one.

# %% [markdown]
# ## What to read next
#
# - Hendrycks, Gimpel, [Gaussian Error Linear Units](https://arxiv.org/abs/1606.08415): GELU, and
#   where the tanh comes from.
# - NVIDIA, [Getting started with CUDA graphs](https://developer.nvidia.com/blog/cuda-graphs/).
# - PyTorch, [Accelerating PyTorch with CUDA
#   graphs](https://pytorch.org/blog/accelerating-pytorch-with-cuda-graphs/).
# - Horace He, [Making deep learning go brrrr from first
#   principles](https://horace.io/brrr_intro.html): compute, bandwidth, overhead.
# - NVIDIA, [CUDA C++ Programming
#   Guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/): dynamic shared memory, warp
#   shuffles.
# - Next in the course: [lesson 15](15_your_kernel_inside_pytorch.ipynb), Your kernel inside
#   PyTorch.
