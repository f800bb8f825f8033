# %% [markdown]
# # 19 What carries over
#
# You have made one program fast, and then many. GPUs change, languages change, and the next program
# is not this one. What of all that stays true? Here the course looks back, with its own figures,
# and then sends you off with a program of your own.

# %% [markdown]
# ## What you will do
#
# - Sort what made the course's programs fast by three principles.
# - See one kernel in seven ways, and plan a project of your own.

# %% [markdown]
# ## What you will learn
#
# - How to say what binds a program, and which stage is worth your week.
# - How to compare two programs so that the figure can be believed.

# %% [markdown]
# ## What you need
#
# The ground, [lesson 00](00_your_picture_your_kernel.ipynb) to
# [lesson 05](05_shared_memory.ipynb), and [lesson 08](08_streams.ipynb). Figures of other lessons
# appear; each names its lesson, and you can follow without it.
#
# No GPU is needed: all figures were recorded, on an NVIDIA H200 where nothing else is said.

# %% [markdown]
# ## How long it takes
#
# About 90 minutes with both exercises; the last project takes as long as you like.
#
# Core: sections 1 to 6 and 10, 65 minutes. Deepening: sections 7 to 9, 25 minutes.

# %%
# NBVAL_IGNORE_OUTPUT
import numpy as np

from course import check, gpu, predict, progress, recorded
from course_lessons.lesson19 import evidence, programs

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 Three principles
#
# <kbd>core</kbd> 10 minutes
#
# Everything that made a program faster in this course did one of three things.
#
# 1. **Many at once.** Enough independent work, spread over all that can do it: lanes, warps, SMs,
#    GPUs.
# 2. **Move less, and from near.** Arithmetic is cheap; bringing the numbers is not. Read each once,
#    in one piece, and keep it where it is used again.
# 3. **Never wait.** While one thing travels or starts, something else works.
#
# Before each table: how much did it give?

# %%
predict("64 warps on a multiprocessor, not one: times as fast", 8, within=2, no_effect=1)

# %% [markdown]
# The first principle. Each row is *one* change of a program; both times were recorded.

# %%
# NBVAL_IGNORE_OUTPUT
print(evidence.table(evidence.MANY))

# %%
warps = evidence.changes()[0]
predict.answer("64 warps on a multiprocessor, not one: times as fast", warps.factor)

# %% [markdown]
# A sum at one address is the extreme: 67 million additions that wait for one another are no
# parallel program, however many threads they have ([lesson 10](10_reductions.ipynb)). And four GPUs
# give hardly four: what is not spread stays ([lesson 12](12_more_than_one_gpu.ipynb)).
#
# The second principle, along the ladder of lessons [05](05_shared_memory.ipynb) and
# [06](06_reuse_reuse_reuse.ipynb), and in networks:

# %%
# NBVAL_IGNORE_OUTPUT
print(evidence.table(evidence.NEAR))

# %% [markdown]
# No single step is huge. They multiply: *tiled* and *warp tiles* are two of them, and together
# 45 times. Copies were the same story: only what is used should travel.
#
# The third. The factors of 32 images of 2048×2048 travel to the GPU, and the images back. Copied
# from ordinary memory this took 209 ms; what if the memory is pinned, and used again?

# %%
predict("pinned memory, used again: times as fast", 2, within=2, no_effect=1)

# %%
# NBVAL_IGNORE_OUTPUT
print(evidence.table(evidence.NEVER))

# %%
pinned = next(each for each in evidence.changes() if each.what.startswith("pinned"))
predict.answer("pinned memory, used again: times as fast", pinned.factor)

# %% [markdown]
# All in one picture. Look at the colours: no principle wins.

# %%
evidence.chart()

# %% [markdown]
# The factors say what *those* programs lacked, not what yours lacks. Which principle is next is a
# question for a measurement: [lesson 03](03_measuring_honestly.ipynb) and
# [lesson 07](07_reading_a_profiler.ipynb) come before all three.

# %% [markdown]
# ## 2 Flynn's classes, and where each lesson stood
#
# <kbd>core</kbd> 5 minutes
#
# In [1966](https://doi.org/10.1109/PROC.1966.5273) Michael Flynn sorted machines by two questions:
# one stream of instructions or several? One stream of data or several?
#
# | class | instructions | data | in this course |
# |---|---|---|---|
# | SISD | one | one | three Python loops, [lesson 02](02_an_image_from_its_svd.ipynb) |
# | SIMD | one | several | a warp, [lesson 04](04_warps_and_coalescing.ipynb); NumPy inside |
# | MISD | several | one | hardly ever built: redundant computers that vote |
# | MIMD | several | several | processes and threads, [lesson 09](09_a_thousand_images.ipynb) |

# %%
predict(
    "two warps of a block, each at an instruction of its own",
    "SIMD",
    choices=("SISD", "SIMD", "MISD", "MIMD"),
)

# %% [markdown]
# One machine can be several of these at once. Within a warp: one instruction, 32 numbers. Two
# warps: each has its own instruction, so several streams of both.

# %%
predict.answer("two warps of a block, each at an instruction of its own", "MIMD", how="computed")

# %% [markdown]
# NVIDIA calls a warp's way **SIMT**: you write what *one thread* does. The hardware issues one
# instruction for all active lanes of a warp. Lanes that take another branch are masked meanwhile.
# That is SIMD's cost with MIMD's way of writing.
#
# | where | class |
# |---|---|
# | a warp, and a tensor core's instruction ([lesson 17](17_tensor_cores.ipynb)) | SIMD |
# | warps, blocks, SMs | MIMD, usually of one program ("SPMD") |
# | a producer warp beside consumer warps (lesson 17) | MIMD within one block |
# | copy engine beside compute engine ([lesson 08](08_streams.ipynb)) | MIMD |
# | a process for each core; a worker for each GPU | MIMD |

# %% [markdown]
# So the lessons went up and down one ladder. 02 begins SISD. 01, 04 to 07, 10, 11, 13, 14 and 17
# live inside the warp and the block, SIMD and MIMD at once. 08 lets engines overlap. 09 and 12 are
# MIMD around it all.

# %% [markdown]
# ## 3 What binds a whole program?
#
# <kbd>core</kbd> 15 minutes
#
# "CPU-bound or I/O-bound?" asks where a program would gain. There is no answer by the look of the
# code: a stage is bound by what it uses up. The program of [lesson 09](09_a_thousand_images.ipynb)
# decodes an image, factorises, rebuilds and writes it. Milliseconds of an image, by one thread:

# %%
# NBVAL_IGNORE_OUTPUT
stages = evidence.stages()
for stage, milliseconds in stages.items():
    print(f"{stage:10} {milliseconds:6.2f} ms  {100 * milliseconds / sum(stages.values()):3.0f}%")

# %% [markdown]
# "Write" compresses a PNG first, which is the CPU's work, not the disk's. So by one thread this
# program is bound by the CPU, and the factorisation is the largest part. Give it to the GPU, and
# decoding and writing are the largest: each fix changes the answer.
#
# So fix one stage at a time, the right one. You know what each takes now, and the least that it
# could take (its bound, by counting). Stages run one after the other, or they overlap. If they
# overlap, the longest decides.

# %% [markdown]
# ### Exercise: which stage, and what comes of it?
#
# `now` and `possible` hold each stage's time [ms], now and at best. You may fix **one** stage.
# Choose the one that leaves the shortest program. Return that program's **whole time** and the
# stage's **name**; at equal times the first stage. If `overlapped`, the whole takes as long as its
# longest stage; else as long as all together.
#
# <details><summary>Hint</summary>
#
# `{**now, stage: possible[stage]}` is a copy of `now` with one value changed. `max` and `sum` both
# take `.values()`.
#
# </details>


# %% tags=["exercise"]
def what_to_mend(now, possible, overlapped):
    """Return the whole time after fixing one stage [ms], and the stage that is worth it."""
    ### BEGIN SOLUTION
    whole = max if overlapped else sum
    best, least = None, float("inf")
    for stage in now:
        after = whole({**now, stage: possible[stage]}.values())
        if after < least:
            best, least = stage, after
    return least, best
    ### END SOLUTION


# %% tags=["check"]
check("what-to-mend", what_to_mend)

# %% [markdown]
# The largest factor does not decide, nor the longest stage. *Rebuild* could be ten times as fast,
# *factorise* is the longest. Which of them pays depends on whether they overlap.

# %% [markdown]
# ## 4 A figure that can be believed
#
# <kbd>core</kbd> 15 minutes
#
# The first project set two figures of 2048×2048 side by side: 7.08 ms on the CPU, 157.5 ms in its
# kernel on a Tesla T4. So the GPU is 22 times slower? The CPU had rebuilt with k = 256, the GPU
# with k = 2048: eight times the work. Another table had a "slow-down" of 0.05×: that time was the
# compiler's.
#
# Three things make a ratio fair. Leave out the first call, or say that it is in. Let the median
# stand for all calls. Divide the time by the work. How many times as fast as the CPU is the GPU,
# for the same work?

# %%
predict("7.08 ms for k = 256, 157.5 ms for k = 2048: times as fast", 0.045, within=1.5, no_effect=1)

# %% [markdown]
# ### Exercise: a speed-up that you can believe
#
# `old` and `new` are times [ms] of calls in their order; the first call of each compiles.
# `old_work` and `new_work` say how much one call did. Return how many times as fast the new program
# does the same work: by medians, without the first calls.
#
# <details><summary>Hint</summary>
#
# `np.median(old[1:]) / old_work` is the old program's time for one unit of work.
#
# </details>


# %% tags=["exercise"]
def fair_ratio(old, new, old_work, new_work):
    """Return how many times as fast the new program does the same work."""
    ### BEGIN SOLUTION
    old_time = np.median(old[1:]) / old_work
    new_time = np.median(new[1:]) / new_work
    return old_time / new_time
    ### END SOLUTION


# %% tags=["check"]
check("fair-ratio", fair_ratio)

# %%
ratio = (7.08 / 256) / (157.5 / 2048)
predict.answer("7.08 ms for k = 256, 157.5 ms for k = 2048: times as fast", ratio, how="computed")

# %% [markdown]
# A third as fast, for the same work: a kernel that brings every number from far away, beside a
# library on warm cores. That is bad enough, and not what the table said. A better kernel is in
# [lesson 06](06_reuse_reuse_reuse.ipynb).

# %% [markdown]
# ## 5 What went wrong in five projects
#
# <kbd>core</kbd> 10 minutes
#
# The course grew out of five projects of students and engineers. Each worked hard, and each told
# itself something that was not so. (Their reports are not linked here: the course knows them from
# their authors' texts and tables alone. Times in quotation marks are theirs, not ours.)

# %% [markdown]
# First **the SVD** on a Tesla T4, its kernel:
#
# - *"8×8 and 16×16 threads are alike."* The sum began as `0.0`, which is float64 in Numba; at a
#   T4's rate that, very probably, bound both. **Noticed by** the trace, which names the line
#   ([lesson 02](02_an_image_from_its_svd.ipynb)).
# - *"32×32 spills registers."* 44 to 49 registers, no spill. A warp's load touched 32 rows, and one
#   block filled an SM. **Noticed by** asking the compiler, and counting sectors
#   ([lesson 04](04_warps_and_coalescing.ipynb)).
# - *"Shared memory hardly helps."* x walked down the rows, and tiles were read with eight-way
#   conflicts. **Noticed by** counting wavefronts ([lesson 05](05_shared_memory.ipynb)).

# %% [markdown]
# The same project, its measurements:
#
# - *"0.05 times as fast at size 512."* The compiler, in the first call. **Noticed by** a second
#   call.
# - *"CuPy is slower than Numba."* CuPy's first call. **Noticed by** the same.
# - *"157.5 ms beside 7.08."* Eight times the work. **Noticed by** writing k beside each time.
# - *"I/O bound."* 53.2 of 69.2 ms were the kernel's. **Noticed by** adding up the parts:

# %%
predict("the kernel's share of 69.2 ms, if it takes 53.2 [percent]", 30, within=1.1)

# %%
share = 100 * 53.2 / 69.2
predict.answer("the kernel's share of 69.2 ms, if it takes 53.2 [percent]", share, how="computed")

# %% [markdown]
# Its copies, its streams and its text:
#
# - *"The matrices must travel."* A quarter of their columns was used, or less. **Noticed by**
#   counting the bytes that are needed.
# - *"A significant speedup"* by streams. Its own table says 0.84 times: pageable memory, allocated
#   anew, every copy back at the end. **Noticed by** reading the table before writing the sentence,
#   and by a timeline ([lesson 08](08_streams.ipynb)).
# - *"The outputs of this notebook."* Ten images of 1024², beside code for 32 of 2048². **Noticed
#   by** running all cells, and keeping what comes.

# %% [markdown]
# **The VAE** in CUDA:
#
# - *"This kernel is far below its bandwidth."* The bytes of its random numbers' state were not
#   counted. **Noticed by** listing all that a kernel reads and writes.
# - *"Padding will help the tile."* Its reads had no conflicts. **Noticed by** wavefronts, before.
# - *"`volatile` keeps a warp in step."* Not since Volta: lanes may part. **Noticed by** the guide
#   of that GPU; `syncwarp` or shuffles do it ([lesson 10](10_reductions.ipynb)).
# - *"So many % of peak."* Of another GPU's datasheet, which bends every roofline. **Noticed by**
#   measuring the roof ([lesson 03](03_measuring_honestly.ipynb)).

# %% [markdown]
# **The spectral autoencoder**, one fused kernel:
#
# - *"As fast as PyTorch, 0.97 to 1.02 times."* The "native" path called the extension: a kernel was
#   timed against itself. **Noticed by** breaking one of the two on purpose: does the other change?
# - *"0.07 ms, at every batch size."* The launch; nobody waited for the GPU. **Noticed by** this: a
#   time that does not grow with the work is not the work's.
#
# [Lesson 14](14_a_network_in_one_kernel.ipynb) has the speed-up that was there to be had.

# %% [markdown]
# **The vision transformer**:
#
# - *NaN in attention and LayerNorm.* Sums in float16, whose largest number is 65,504. **Noticed
#   by** comparing with float64, block by block. Store float16, add in float32.
# - *Slow kernels.* One launch for each dot product: millions. **Noticed by** counting launches,
#   times some µs.
# - *"The bias is fused."* It read a full matrix, so nothing was saved. **Noticed by** counting
#   bytes.

# %% [markdown]
# **Activations and norms**, three ways:
#
# - *"Swish 1.87 times as fast as PyTorch."* As `x * sigmoid(x)`, two kernels and 2.5 times the
#   bytes. **Noticed by** timing the library's own `silu`.
# - *"Fused: 1.38 times as fast."* The bytes promised more, so one half was slow. **Noticed by** a
#   bound beside each time.
# - *"Inference takes ..."* with the compiler in it. **Noticed by** a second call.
# - *"E[x²] − mean² saves a pass."* Digits cancel. **Noticed by** data with a mean far from 0
#   ([lesson 13](13_normalisation_and_fusion.ipynb)).

# %% [markdown]
# Five projects, and five habits that would have caught all of it:
#
# 1. Work out the figure **before** you measure. What is far off is a mistake in one of the two.
# 2. Call twice; wait for the GPU; take the median; write down machine, size and work.
# 3. Count bytes and operations, all of them, and put the bound beside the time.
# 4. Compare with the best that is there, on the same data, and check the result against float64.
# 5. Let the figure write the sentence, not the wish.

# %% [markdown]
# ## 6 Two questions, in your own words
#
# <kbd>core</kbd> 5 minutes
#
# Write two sentences for each before you unfold.

# %% [markdown]
# **Which three principles made the programs fast?**
#
# <details><summary>A model answer</summary>
#
# Many at once: a kernel gives each pixel a thread, and thousands of warps hide each other's waits.
# Move less, and from near: tiles in shared memory and sums in registers, so that each number
# loaded serves many products; only k columns travel. Never wait: pinned buffers, made once, and
# streams in which copies and kernels overlap. In our figures the second gave 45 times between the
# naive kernel and the last step, the third 20 times for a batch.
#
# </details>

# %% [markdown]
# **Is your program CPU-bound or I/O-bound?**
#
# <details><summary>A model answer</summary>
#
# It depends on the stage, so measure stages. One image on the GPU: neither; the kernel took 53 of
# 69 ms on the T4, bound very probably by float64 arithmetic. With a good kernel the copies over
# PCIe are the longest, and the program is bound by that transfer. A thousand images from files: the
# factorisation binds on the CPU. With the factorisation on the GPU, decoding and compressing bind,
# which is CPU work again.
#
# </details>

# %% [markdown]
# ## 7 Three more questions
#
# <kbd>deepening</kbd> 5 minutes
#
# As before: two sentences, then unfold.

# %% [markdown]
# **Which of Flynn's classes did you use, and where?**
#
# <details><summary>A model answer</summary>
#
# SISD: the three loops in Python. SIMD: NumPy's inner loops on the CPU, and each warp on the GPU,
# 32 lanes at one instruction (NVIDIA says SIMT, since lanes may be masked). MIMD on the CPU: the
# pool of processes that rebuilds many images. MIMD on the GPU: warps and blocks among themselves,
# and copy engines beside the compute engine. MISD not at all.
#
# </details>

# %% [markdown]
# **Design a producer–consumer program for many images.**
#
# <details><summary>A model answer</summary>
#
# Stages with short queues between them. Readers decode and factorise. One consumer gathers a batch
# in pinned memory, copies and launches on streams. Writers take what comes back. Queues are
# bounded, so that a fast stage waits instead of filling the memory. Each image carries its name; a
# broken one is set aside with its reason. A stage ends by an end mark in its queue, and an error in
# one stage stops the others. [Lesson 09](09_a_thousand_images.ipynb) built it otherwise: a process
# for each core does all stages, and processes take turns at the GPU. It records what is finished,
# so a run that was killed goes on with the same bytes.
#
# </details>

# %% [markdown]
# **What went wrong, and why?**
#
# <details><summary>A model answer</summary>
#
# In the first project a literal `0.0` made the sum float64. x walked down the rows, so a warp
# touched many sectors. Streams shared pageable memory and allocated anew, so nothing overlapped.
# Times had the compiler in them, and were compared at different k. Why? The result was right, and a
# right result hides a slow way to it. And a sentence was written before its figure was read. A
# bound worked out first, a second call and a trace would have helped.
#
# </details>

# %% [markdown]
# ## 8 One kernel, seven ways
#
# <kbd>deepening</kbd> 15 minutes
#
# SiLU of every element, `x / (1 + exp(-x))`, as [lesson 13](13_normalisation_and_fusion.ipynb)
# knows it. First the course's own way:

# %%
print(programs.text("Numba"))

# %% [markdown]
# **[numba-cuda-mlir](https://nvidia.github.io/numba-cuda-mlir/latest/)** is to follow numba-cuda.
# In this program the imports change. In larger ones the host's part does, too: `to_device`, pinned
# arrays and random numbers are deprecated there. It advises arrays of CuPy or PyTorch, and
# streams of cuda.core.

# %%
ours, theirs = (set(programs.text(name).splitlines()) for name in ("Numba", "numba-cuda-mlir"))
print("\n".join(sorted(theirs - ours)))

# %% [markdown]
# **CUDA C++**, compiled through CuPy. Index, guard and formula are the same; types stand at each
# name:

# %%
print(programs.text("CUDA C++"))

# %% [markdown]
# **CuPy** makes index and guard itself. You give the formula:

# %%
print(programs.text("CuPy"))

# %% [markdown]
# **Triton** has no threads. A program takes a *block* of elements, and a mask is the guard:

# %%
print(programs.text("Triton"))

# %% [markdown]
# **[cuTile](https://docs.nvidia.com/cuda/cutile-python)** is NVIDIA's own for blocks (driver r580
# or newer). It has neither pointers nor a mask: a tile that goes past the end is padded.

# %%
print(programs.text("cuTile"))

# %% [markdown]
# **PyTorch** has it. Look there first:

# %%
print(programs.text("PyTorch"))

# %% [markdown]
# Those that can run here, against float64:

# %%
# NBVAL_IGNORE_OUTPUT
print(programs.compared())

# %% [markdown]
# And how fast? 2²⁶ elements have to be read and written, whoever does it. Up to 2% is *alike*; of
# Numba's kernels take the best.

# %%
predict("which is fastest", "CUDA C++", choices=("Numba", "CUDA C++", "Triton", "PyTorch", "alike"))

# %%
# NBVAL_IGNORE_OUTPUT
names = {"each": "Numba, as above", "wide": "Numba, four a thread", "torch": "PyTorch"}
where = {"kernel": "silu", "shape": "67108864", "dtype": "float32", "gpu": "H200"}
for figure in recorded("activation", **where):
    rate = figure.gigabytes_per_second
    print(f"{names.get(figure.variant, figure.variant):22} {figure.amount:>9} {rate:6,.0f} GB/s")

# %%
times = {figure.variant: figure.median for figure in recorded("activation", **where)}
best = {"Numba": "wide", "CUDA C++": "CUDA C++", "Triton": "Triton", "PyTorch": "torch"}
ordered = sorted(best, key=lambda name: times[best[name]])
alike = times[best[ordered[-1]]] < 1.02 * times[best[ordered[0]]]
predict.answer("which is fastest", "alike" if alike else ordered[0])

# %% [markdown]
# (The recorded CUDA C++ loads four numbers a thread, too. The programs in CuPy, numba-cuda-mlir and
# cuTile were not timed. cuTile's was compiled, by cuda-tile 1.7, and not run.) Memory binds every
# kernel that asks for 16 bytes a thread, in any language. The kernel printed above asks for 4, and
# reaches 59% of that.
#
# What is known of numba-cuda-mlir 0.6.0? Where `COURSE_COMPILER=mlir` asks for it, the course fixes
# its faults. Then it compiles all 348 kernels of the course for a Tesla T4 and all 486 for an H200.
# 116 steps of the course's ladders ran on an H200 in both:

# %%
# NBVAL_IGNORE_OUTPUT
print(evidence.successor())

# %% [markdown]
# Across the seven ways, this differs:
#
# | | you decide | it decides |
# |---|---|---|
# | CUDA C++, Numba, its successor | each thread, each barrier | registers, instructions |
# | Triton, cuTile | blocks, and what a block loads | threads, shared memory, barriers |
# | CuPy's elementwise, PyTorch | the formula | all else |
#
# Take the highest level that reaches the bound. Go down where it does not.

# %% [markdown]
# A reduction needs no kernel of yours at all, only its operator. This is
# [cuda.compute](https://nvidia.github.io/cccl/python/compute), a public beta (not run here):
#
# ```python
# d_sum, start = cupy.empty(1, np.float32), np.zeros(1, np.float32)
# cuda.compute.reduce_into(d_x, d_sum, OpKind.PLUS, d_x.size, start)
# ```

# %% [markdown]
# What of this course carries over, and what does not?
#
# | to | carries over | does not |
# |---|---|---|
# | numba-cuda-mlir 0.6 | kernels, by the import | the host's API: arrays, memory, random numbers |
# | cuTile 1.7 | grid, bytes, roofs, tiles, streams | threads, barriers, shared memory, guards |
# | Triton | the same | the same; pointers and masks are yours |
# | [CuTe DSL] 4.8 | threads, swizzles, TMA, mbarriers, wgmma | index arithmetic: layouts do it |
# | cuda.compute (cccl 1.2) | when a reduction is bound by memory | the kernel |
# | [cuda.core] 1.2 | streams, events, graphs | Numba's objects for them |
#
# [CuTe DSL]: https://docs.nvidia.com/cutlass/latest/media/docs/pythonDSL/overview.html
# [cuda.core]: https://nvidia.github.io/cuda-python/cuda-core/latest/

# %% [markdown]
# ## 9 Where to go next
#
# <kbd>deepening</kbd> 5 minutes
#
# | you want to | go to |
# |---|---|
# | products and convolutions at full speed | [CUTLASS] and CuTe DSL |
# | your own layers in training | `torch.compile`, [Triton's tutorials] |
# | several GPUs and machines | [NCCL], `torch.distributed`, MPI |
# | simulations on meshes and particles | [Warp], [JAX], CUDA C++ |
# | other makers' GPUs | [HIP], SYCL, WebGPU: the same principles |
# | to read how others did it | the profiler on the library that beats you |
#
# [CUTLASS]: https://docs.nvidia.com/cutlass/latest/
# [Triton's tutorials]: https://triton-lang.org/main/getting-started/tutorials/
# [NCCL]: https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/
# [Warp]: https://nvidia.github.io/warp/
# [JAX]: https://docs.jax.dev/
# [HIP]: https://rocm.docs.amd.com/projects/HIP/en/latest/

# %% [markdown]
# Other names: a warp is a *wavefront* at AMD (32 or 64 lanes) and a *subgroup* in WebGPU. Shared
# memory is *LDS* or *workgroup memory*, an SM is a *compute unit*. On a CPU these are vector
# registers, the L1 cache and cores. One question carries over: how many bytes, from where, and who
# waits?

# %% [markdown]
# ## 10 The last project: somebody's own program
#
# <kbd>core</kbd> 5 minutes
#
# Take a program that somebody uses: yours, best of all. It takes a minute or more. Hand in:
#
# 1. **The question.** The program's purpose, its users, its data, and how you know that a result is
#    right.
# 2. **The baseline.** Stages and times, warm, medians; machine and sizes.
# 3. **The plan.** Bytes and operations of each stage, the bound, what you expect, and which stage
#    you fix first.
# 4. **The steps.** One change each: predicted, measured, kept or taken back.
# 5. **The end.** What binds now, and what the next step would be.

# %% [markdown]
# The rubric:
#
# | | 0 | 1 | 2 |
# |---|---|---|---|
# | right | not tested | some inputs | float64, awkward sizes, each step |
# | honest | first calls, other work | medians, machine named | and beside the best there is |
# | bound | none | for the kernel | for the program, before measuring |
# | steps | one large one | several | each predicted, one taken back |
# | told | a figure without a sentence | what was done | what binds now, and why |
# | fast | slower | nearer to the bound | within 80% of it, or the reason measured |
#
# Twelve points.

# %% [markdown]
# A program that is no faster, with all of this, has ten; one that is ten times as fast without it
# has two.

# %% [markdown]
# Three to begin with, if you have none: blur a thousand photographs; find each point's ten nearest
# of a million; simulate a pile of particles. The simulator runs your kernels as they are
# (`python -m course run --trace program.py`), and `doctor()` knows the machine.

# %%
progress(19)

# %% [markdown]
# ## What you should be able to say now
#
# - Many at once, move less, never wait; and which of them my program lacks.
# - A warp is SIMD, the warps among themselves are MIMD.
# - A program is bound by a stage, a stage by what it uses up, and each fix changes both.
# - A ratio without work, warmth and machine says nothing.
# - The language matters where it keeps me from the bound, and nowhere else.

# %% [markdown]
# ## Questions
#
# 1. Your kernel runs at 95% of the memory's bandwidth. Is there anything left to do?
# 2. A colleague's program is 40 times as fast on a GPU. What do you ask first?
# 3. Which of the three principles does a CUDA graph follow? Fusion? A batch?
# 4. Why may a stage that is made ten times as fast change nothing?
# 5. What would you measure first in a program that you have never seen?
#
# <details><summary>Answers</summary>
#
# 1. Yes: move fewer bytes. Fuse it with its neighbours, or store float16.
# 2. As fast as what? On how many cores, warm, with the copies, for the same work and result?
# 3. Never wait; move less; many at once.
# 4. Others run beside it and take longer, or it was a small part.
# 5. The time of each stage, warm, on real data: a timeline.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Sort the factors of section 1 by hours of your work per factor. Which was the cheapest?
# - Write SiLU's gradient in the two ways of section 8 that you know least.
# - Take a published speed-up that you believe, and look for the five habits in it.
# - Find the sixth project: your own first GPU program. What did it say that was not so?

# %% [markdown]
# ## Common misconceptions
#
# - *"CUDA C++ is faster than Python."* Section 8 has the recorded times: alike. A launch costs a
#   Python program some microseconds ([lesson 03](03_measuring_honestly.ipynb)).
# - *"A new GPU makes all this obsolete."* It moves the roofs. Bytes stay bytes.
# - *"Fix the longest stage."* Fix the one that leaves the shortest program.
# - *"A speed-up is a property of a program."* Of two programs, a machine and a size.
# - *"GPU programs are SIMD."* Their warps are.
# - *"The result is right, so the program is good."* Most results of the five projects were right.

# %% [markdown]
# ## What to read next
#
# - M. J. Flynn, [Some computer organizations and their
#   effectiveness](https://doi.org/10.1109/TC.1972.5009071), 1972: the classes, by their author.
# - S. Williams, A. Waterman, D. Patterson, [Roofline: an insightful visual performance
#   model](https://doi.org/10.1145/1498765.1498785), 2009.
# - T. Hoefler, R. Belli, [Scientific benchmarking of parallel computing
#   systems](https://doi.org/10.1145/2807591.2807644), 2015: twelve rules for honest figures.
# - NVIDIA, [CUDA C++ best practices
#   guide](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/index.html).
