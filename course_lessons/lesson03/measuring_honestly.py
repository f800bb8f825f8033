# %% [markdown]
# # 03 Measuring honestly
#
# You repeat an experiment first as it was done, and then as it should be done. Five conclusions
# were drawn from it. You see what becomes of each.

# %% [markdown]
# ## What you will do
#
# - Time one launch in six ways, and find out what each of the six figures says.
# - Count bytes and operations, and tell from them which figures cannot be true.
# - Look for the size from which on a GPU beats a CPU, with and without copies.
# - Solve seven exercises: a clock, copies, rates, bounds, occupancy, a crossing.

# %% [markdown]
# ## What you will learn
#
# - What belongs in a time: first call, launch, copies, caches, and how often you looked.
# - What the least time of a piece of work is, and how far from it a kernel runs.
# - What occupancy is good for, and when more of it is no gain.
# - Why "the GPU is faster" is half a sentence.

# %% [markdown]
# ## What you need
#
# Lessons [00](00_the_machine_in_front_of_you.ipynb) to [02](02_an_image_from_its_svd.ipynb):
# kernels, blocks and grids, the reconstruction, the float64 trap.
#
# **Without a GPU** nothing here pretends to time one. You see two things instead: the least time
# that the work could take, and figures that were **recorded** on an NVIDIA H200. What runs on the
# CPU is really timed, on yours. With a GPU, the cells that call `benchmark` and `transfers` measure
# it.

# %% [markdown]
# ## How long it takes
#
# About 3 hours with the seven exercises. After section 8 is a good place for a break.
# The computer needs less than half a minute of it.
#
# Core: sections 1 to 8, 70 minutes. Deepening: sections 9 to 17, 105 minutes.

# %%
from time import perf_counter

import numpy as np

from course import benchmark, bound, check, cuda, gpu, known_gpu, measure
from course import plots, predict, progress, recorded, transfers
from course.kernels.reconstruct import cpu
from course.kernels.reconstruct import reconstruct_naive, reconstruct_original
from course_lessons.lesson03.toy_gpu import ToyGPU

# %% [markdown]
# ## 1 Five claims
#
# <kbd>core</kbd> 5 minutes
#
# The student project behind this course measured on a Tesla T4, in ms:
#
# | what | figures |
# |---|---|
# | one image of 256², k = 100, first calls inside | CuPy 1428, Numba 249, NumPy 0.66 |
# | kernel with shared memory, k = size | 186 at 512, 53.7 at 1024, 157.5 at 2048 |
# | kernel at 2048², k = 256 | 52.9 with blocks of 8×8, 53.2 with 16×16 |
# | the same with copies in and out | 69.2 |
# | NumPy at 2048², k = 256 | 37.6 cold, 7.08 warm |

# %% [markdown]
# (**Shared memory** is fast memory that the threads of a block have in common:
# [lesson 05](05_shared_memory.ipynb).) The project concluded, in other words:
#
# 1. CuPy is slower than Numba.
# 2. Shared memory makes a small image 20 times slower: a "speed-up" of 0.05×.
# 3. Blocks of 8×8 and of 16×16 are equally fast.
# 4. The program is I/O bound: moving the data is what takes long.
# 5. CPU and GPU were compared: 7.08 ms against 157.5 ms.
#
# How many of the five will still stand at the end of this lesson? Put your number in place of the
# dots.

# %%
predict("claims that survive", 2, exact=True)

# %% [markdown]
# Recorded figures come from files in `data/measurements`. They were written by `python -m course
# bench`, in one run, on one machine: an H200 beside a 16-core Xeon. This function looks a time up.


# %%
def h200(kernel, variant, shape=None, dtype=None, metric="time"):
    """Return a recorded median; times are in ms."""
    wanted = {"kernel": kernel, "variant": variant, "shape": shape, "dtype": dtype}
    return recorded("measuring", metric=metric, gpu="H200", **wanted)[0].median


right = h200("way of timing", "events, queued, cold", "2048x2048x256")
print(f"the project's kernel, 2048 x 2048, k = 256, on an H200: {right:.2f} ms")

# %% [markdown]
# ## 2 A clock that lies
#
# <kbd>core</kbd> 5 minutes
#
# The host and the GPU work at the same time. A launch only puts work into a **queue** and returns:
# launches are **asynchronous**. So what does a clock see that is read before and after a launch?
#
# Try it with a toy. It has a clock and a queue. Each launch takes the time that you choose, in ms:
# `work` on the GPU, here 2, and `launch` on the host, here 0.3. `steady` leaves chance out. Its
# figures are the same on every machine. What is `after - before`, in ms?

# %%
toy = ToyGPU(work=2.0, launch=0.3, compiling=0.0, steady=True)
before = toy.clock()
toy.launch()
after = toy.clock()
toy.synchronize()
at_last = toy.clock()

predict("ms between two readings around a launch", 2.3, within=1.1)

# %%
measured = round(1e3 * (after - before), 2)
predict.answer("ms between two readings around a launch", measured, unit="ms", how="computed")

# %%
marks = {"before": before, "after": after, "after synchronize()": at_last}
plots.timeline(toy, marks=marks)

# %% [markdown]
# The clock was right. The question was wrong: it asked how long the host was busy. The work ends
# where the host has waited for it: `synchronize()`. A figure without it gives itself away: it stays
# the same, whatever the size of the image. It is the price of a launch. (Section 5 shows such a
# figure, from a real GPU.)
#
# The queue has a second trap. What other launches left in it is waited for by *you*.

# %%
toy = ToyGPU(work=2.0, launch=0.3, compiling=0.0, queued=5.0, steady=True)
before = toy.clock()
toy.launch()
toy.synchronize()
print(f"{1e3 * (toy.clock() - before):.1f} ms for 2 ms of work")
plots.timeline(toy, marks={"before": before, "after": toy.clock()})

# %% [markdown]
# So wait twice: **before** the first reading, that the queue is empty, and **before** the second,
# that the work is done.

# %% [markdown]
# ## 3 The first call
#
# <kbd>core</kbd> 5 minutes
#
# A kernel or an `njit` function is compiled when it is called for the first time.
#
# **Claim 2.** The shared-memory kernel took 186 ms at 512, and 53.7 ms at 1024, with k = size. From
# 512 to 1024 there are twice as many rows, columns and layers: 2 · 2 · 2 = 8 times the work. So it
# should have taken an eighth at 512. That was the first size that was measured, and the rest is the
# compiler. Beside it, this course's kernel with shared memory, recorded on the H200's machine at
# 512×512 and k = 256:

# %%
expected = 53.7 / 8
print(f"T4: {expected:.1f} ms expected, so {186 - expected:.0f} of 186 ms were something else")
shape = "512x512x256"
first = h200("reconstruct", "reconstruct_tiled 16x16", shape, metric="first call")
later = h200("reconstruct", "reconstruct_tiled 16x16", shape)
print(f"first call {first:.0f} ms, later {later:.3f} ms, {first / later:,.0f} times")
naive = h200("reconstruct", "reconstruct_naive 16x16", shape)
print(f"without shared memory {naive:.3f} ms: shared memory is {naive / later:.1f} times faster")

# %% [markdown]
# Claim 2 falls: it compared a compiler's time with a kernel's. Is shared memory a gain, then? For
# *this course's* kernels on an H200 it is. For the project's own kernels on a T4 the figures say
# "no difference": section 13 finds two that did equal work, 52.9 ms without and 53.7 with it.
#
# Now **claim 1**: CuPy 1428 ms, Numba 249, one image, first calls inside. Recorded on the H200:
# each library in a process of its own, the first image and the median of twenty more. Copies are
# inside. Who is faster at the later images, CuPy or Numba?

# %%
predict("faster at later images", "CuPy", choices=("CuPy", "Numba"))

# %%
libraries = ("CuPy", "Numba", "NumPy")
print("256 x 256, k = 100      first image   later images")
for name in libraries:
    first = h200("first image", name, "256x256x100", metric="first call")
    print(f"{name:24} {first:8.2f} ms {h200('first image', name, '256x256x100'):11.3f} ms")
later = {name: h200("first image", name, "256x256x100") for name in ("CuPy", "Numba")}
predict.answer("faster at later images", min(later, key=later.get))

# %% [markdown]
# The order turns round: claim 1 compared start-up costs. Do first calls not count, then? They do,
# where there is only one: a program that rebuilds one image and ends pays them. Name them, and keep
# them **apart**.
#
# And look at NumPy. For an image that small, neither of the two comes near it: copies are inside.
# Section 16 takes that apart.

# %% [markdown]
# ## 4 One sample is none
#
# <kbd>core</kbd> 20 minutes
#
# You know now where a measurement begins and ends. How often should you take it? Here are 300 calls
# of one and the same NumPy program, on your machine. (`benchmark` with `host=True` uses the host's
# clock, as you did, and keeps the first call apart.)

# %%
# NBVAL_IGNORE_OUTPUT
u = np.random.default_rng(3).random((256, 100), dtype=np.float32)
s, vt = np.ones(100, dtype=np.float32), np.ascontiguousarray(u.T)
timing = benchmark(cpu.reconstruct_one_loop, u, s, vt, 20, host=True, samples=300)
plots.samples(timing.samples, "NumPy, layer by layer, 256 × 256, k = 20, on your CPU")

# %% [markdown]
# Never twice the same. There is a floor, and above it lie samples in which the machine had
# something else to do. Disturbances make a call **slower**, hardly ever faster.
#
# The **median** has half of the samples below it. The **quartiles** enclose the middle half: they
# tell how much the samples scatter. The mean is a bad witness: of 300 samples, a single one that
# takes a hundred times as long moves it by a third. The median stays.
#
# The toy, too, is disturbed: a launch takes 2 ms, give or take a few percent, but each seventh
# takes six times as long. What is the mean of many, in ms?

# %%
predict("mean of the disturbed toy, in ms", 3.4, within=1.1)

# %%
toy, times = ToyGPU(work=2.0), []
toy.launch()
for _ in range(70):
    toy.synchronize()
    start = toy.clock()
    toy.launch()
    toy.synchronize()
    times.append(1e3 * (toy.clock() - start))

q1, median, q3 = np.percentile(times, (25, 50, 75))
print(f"median {median:.2f} ms, middle half {q1:.2f} to {q3:.2f} ms, n = {len(times)}")
print(f"shortest {min(times):.2f} ms, longest {max(times):.2f} ms")
predict.answer(
    "mean of the disturbed toy, in ms", round(np.mean(times), 2), unit="ms", how="computed"
)

# %% [markdown]
# No launch took that long, or nearly: each took about 2 ms, or 12. A mean of two things is neither.
# The shortest is no better a witness: one launch in ten has luck, as if it met a warm cache. So
# report **median, quartiles and how many samples**.

# %% [markdown]
# ### Exercise: time a launch
#
# This is how it is often written. Four things are wrong, and a fifth is the unit.
#
# ```python
# start = clock()
# launch()
# return clock() - start
# ```
#
# Write it rightly: return the median time of a launch's work, in **ms**. The three functions come
# as arguments, from a toy that you do not see; `clock()` gives seconds. Take at least five samples.
#
# (A median of many samples forgives a first call, or a full queue, among them, and so does the
# check. Do not count on it: in five samples, three faults are most of them.)
#
# <details><summary>Hint: the order</summary>
#
# Launch once, for the compiler. Then for each sample: synchronize, read the clock, launch,
# synchronize, read the clock.
#
# </details>


# %% tags=["exercise"]
def time_launch(launch, synchronize, clock):
    """Return the median time of a launch [ms]; the first launch does not count."""
    ### BEGIN SOLUTION
    launch()
    times = []
    for _ in range(21):
        synchronize()
        start = clock()
        launch()
        synchronize()
        times.append(1e3 * (clock() - start))
    return np.median(times)
    ### END SOLUTION


# %% tags=["check"]
check("time-a-launch", time_launch)

# %% [markdown]
# ## 5 Short kernels
#
# <kbd>core</kbd> 5 minutes
#
# Your function is right to a few hundredths of a millisecond: the launch itself is in it. A short
# kernel drowns in that. So GPUs have a clock of their own. An **event** goes into the queue like a
# launch, and the GPU notes the time when it comes to it.

# %% [markdown]
# Real figures: a kernel that does nothing, launched with Numba, recorded on the H200. `host` is
# what the host spends on a launch, `events` what lies between two events, `queued` the same while
# the GPU is still busy with other work, so that it never waits for the host.

# %%
empty = {
    figure.metric: figure.median
    for figure in recorded("launch", variant="no arguments", metric=None)
}
for metric in ("host", "events", "queued"):
    print(f"{metric:7} {1e3 * empty[metric]:5.1f} µs")

# %% [markdown]
# About ten times less in the queue: a launch is dear for the host, not for the GPU.
#
# `benchmark` does all of this for you. It keeps the first call apart, warms up, queues launches
# behind a busy kernel, reads events, and hands each launch **another copy** of the data, so that no
# cache is **warm**, holding what the launch before left there. On a GPU you get your GPU's time.
# Without one you get the least time that the work could take. (Three operations for each pixel and
# layer: the kernel multiplies twice, `u * s * vt`, and adds. Two are what the result needs.)

# %%
# NBVAL_IGNORE_OUTPUT
rows, k = 2048, 256
rng = np.random.default_rng(0)
host = [rng.random(shape, dtype=np.float32) for shape in ((rows, k), k, (k, rows))]
arrays = [cuda.to_device(part) for part in host]
image = cuda.device_array((rows, rows), np.float32)
work = {"bytes": 4 * (2 * rows * k + k + rows * rows), "operations": 3 * rows * rows * k}
benchmark(
    reconstruct_naive[(64, 256), (32, 8)], *arrays, k, image, **work, name="2048 x 2048, k = 256"
)

# %% [markdown]
# Now the project's experiment: one 2048×2048 image, timed in six ways on the H200. NumPy arrays
# handed to a kernel make Numba copy everything in, and everything back, inside your time. float64
# is what you get from `np.random.rand` or `np.linalg.svd` if you name no type. Each answers a
# question. Which one says how long the GPU works on this kernel?
#
# <details><summary>Afterwards: which one, and what are the others?</summary>
#
# `events, queued`. And `float64 arrays` is how long it works if you name no type. The host spends
# `no synchronize` on a launch; a caller waits `synchronize` for launch and work. An image that
# comes from the host and goes back takes `copies inside`, the first one `first call`.
#
# </details>

# %%
ways = {
    "no synchronize": "host clock, no synchronize",
    "events, queued": "events, queued, cold",
    "synchronize": "host clock, synchronize",
    "float64 arrays": "events, queued, cold, float64 arrays",
    "copies inside": "NumPy arrays",
    "first call": "first call, NumPy arrays",
}
times = {name: h200("way of timing", variant, "2048x2048x256") for name, variant in ways.items()}
plots.time_bars(times, "One kernel, six figures: 2048 × 2048, k = 256, H200 (recorded)")

# %% [markdown]
# ## 6 In and out
#
# <kbd>core</kbd> 10 minutes
#
# Between the host's memory and the GPU's lies a link, PCI Express. Copies go through it much slower
# than through the GPU's own memory. Two things decide how slow: how much you copy at once, and from
# where.
#
# An ordinary array is **pageable**: the system may move its pages at any time, so the driver first
# copies it to a place of its own. **Pinned** memory (`cuda.pinned_array`) stays where it is, and
# the GPU fetches it by itself. How many times faster is that, with 256 MiB to the GPU?

# %%
predict("pinned against pageable, 256 MiB to the GPU: times faster", 4, within=2, no_effect=1)

# %%
lines = {}
for way in ("pinned in", "pinned out", "pageable in", "pageable out"):
    figures = recorded("transfers", variant=way)
    sizes = [figure.bytes / 2**10 for figure in figures]
    lines[way] = (sizes, [figure.gigabytes_per_second for figure in figures])
plots.curves(
    lines, "KiB in one copy", "GB/s", dashed=("pinned out", "pageable out"),
    title="Copies between host and H200 (recorded)",
)  # fmt: skip

# %%
ratio = lines["pinned in"][1][-1] / lines["pageable in"][1][-1]
predict.answer("pinned against pageable, 256 MiB to the GPU: times faster", round(ratio, 1))

# %% [markdown]
# (256 MiB are 262,144 KiB, the last points.) On the left pinned is no better than pageable: a small
# copy costs some tens of microseconds, however small it is. So a few large copies beat many small
# ones.
#
# **Claim 4**: the program is I/O bound. On the T4 the kernel took 52.9 ms, with copies 69.2 ms.
# Which part of the time was the kernel, in percent?

# %%
predict("kernel, percent of the whole", 76, within=1.05)

# %%
predict.answer("kernel, percent of the whole", round(100 * 52.9 / 69.2), unit="%", how="computed")

# %% [markdown]
# Claim 4 falls by a division. Whoever had made the copies free would have saved a quarter.
#
# And on the H200? Transfer in, kernel, transfer out, apart. The kernel is `reconstruct_naive`, k is
# an eighth of the size, the arrays are pageable.

# %%
print("     size   copies in   kernel   copy out   all [ms]   kernel's part")
for size in (512, 1024, 2048, 4096):
    shape = f"{size}x{size}x{size // 8}"
    there, middle, back = (
        h200("crossing", name, shape) for name in ("copies in", "kernel", "copy out")
    )
    everything = there + middle + back
    print(f"{size:9} {there:11.2f} {middle:8.2f} {back:10.2f} {everything:10.2f}", end="")
    print(f" {100 * middle / everything:13.0f}%")

# %% [markdown]
# So on this machine small images *are* bound by their copies. Where is the difference to the T4?
# The H200 runs the kernel 20 times faster, but its link is only a few times faster. "Bound by" is
# no property of a program. It belongs to a program, a size **and a machine**.

# %% [markdown]
# ## 7 The least it could take
#
# <kbd>core</kbd> 15 minutes
#
# Is 2 ms good for this kernel? A time alone does not say. Compare it with what the work needs:
# **bytes** that must be moved, and **operations** that must be done. Each number of the factors has
# to be read once, each pixel written once.
#
# - **Effective bandwidth**: these bytes / time.
# - **Arithmetic intensity**: operations / these bytes.
#
# A GPU has **roofs**: so many bytes a second from its memory, so many operations a second. They are
# printed in data sheets, and they can be measured: by a program that only copies, and one that only
# multiplies and adds. (`tensor_…` are units for small matrix products:
# [lesson 17](17_tensor_cores.ipynb).)

# %%
from course import recorded_roofs

print(known_gpu("T4"))
print(known_gpu("H200"))
print(recorded_roofs("H200"))

# %% [markdown]
# The memory's measured roof, that of a copy, is 12% below the printed one. (A program that only
# reads gets a little further, to 8% below.) Neither reaches the printed one. Hold your
# figures against **measured** roofs, and never against another GPU's.
#
# Bytes take bytes / bandwidth. Operations take operations / rate. Both can go on at the same time,
# so the work takes at least the **longer** of the two. Where they are equal lies the **ridge**:
# below that intensity memory binds, above it arithmetic.

# %% [markdown]
# ### Exercise: the least time
#
# Return the least time in ms, and what binds: `"memory"` or `"arithmetic"`. The bandwidth is in
# GB/s (10⁹), the rate in TFLOP/s (10¹²).
#
# <details><summary>Hint</summary>
#
# `bytes / (bandwidth * 1e9)` are seconds. 1 s is 1000 ms.
#
# </details>


# %% tags=["exercise"]
def least_time(bytes, operations, bandwidth, rate):
    """Return (milliseconds, "memory" or "arithmetic")."""
    ### BEGIN SOLUTION
    memory = bytes / bandwidth * 1e-6
    arithmetic = operations / rate * 1e-9
    return max(memory, arithmetic), "memory" if memory > arithmetic else "arithmetic"
    ### END SOLUTION


# %% tags=["check"]
check("least-time", least_time)

# %% [markdown]
# `bound` is the same, with the table of GPUs behind it. Our image, 2048×2048 and k = 256, on an
# H200: what binds, memory or arithmetic?

# %%
predict("what binds at 2048, k = 256, H200", "memory", choices=("memory", "arithmetic"))

# %%
least = bound(work["bytes"], 2 * 2048 * 2048 * 256, recorded_roofs("H200"))
print(least)
print(f"intensity {least.intensity:.0f}, ridge at {recorded_roofs('H200').ridge():.0f}")
answer = "memory" if least.binding == "memory" else "arithmetic"
predict.answer("what binds at 2048, k = 256, H200", answer, how="computed")

# %% [markdown]
# ## 8 Say what you measured
#
# <kbd>core</kbd> 5 minutes
#
# A figure that others can check has all of this beside it:
#
# - what was computed, its size and its types, and that the result was right;
# - which machine, which versions;
# - what is inside: first call? launch? copies? cold or warm?
# - median, quartiles, n; where two programs are compared, an interval for each median (section 9);
# - bytes and operations, and the roof: how far is it?
# - against what: the best other program that you could get, on the same work.

# %% [markdown]
# One thing more. The project's notebook did not fit its own outputs: the code spoke of 32 images of
# 2048², the output beside it of ten of 1024². The text claimed a "significant speedup", the figure
# was 0.84×. Nobody lied. Cells were run in another order, and the text was never read again.
#
# Restart, run all, read the text against the numbers: then commit. This course's notebooks are
# executed from top to bottom by a machine, and their figures come from files.
#
# How many of the five claims survive? (Section 14 takes claim 3 apart, and section 16 claim 5.)

# %%
fate = {
    "CuPy is slower than Numba": "first calls; warm it is the other way round",
    "shared memory makes it slower": "the compiler; warm no slower (T4), faster (H200)",
    "8x8 and 16x16 are equally fast": "float64 may hide it on a T4; not so on an H200",
    "the program is I/O bound": "three quarters were the kernel",
    "7.08 ms against 157.5 ms": "eight times the work on one side",
}
for claim, reason in fate.items():
    print(f"{claim:30} {reason}")
predict.answer("claims that survive", 0, how="counted")

# %% [markdown]
# ## 9 How well is the median known?
#
# <kbd>deepening</kbd> 5 minutes
#
# Which of two programs is faster? Quartiles cannot tell. They say how much *single calls* scatter,
# and that stays the same, however many you take. You need another question: how well do you know
# the **median** itself? Each sample falls below the true median with probability ½, like a coin. So
# one can count how far from the middle of the sorted samples the true median may lie. That gives a
# **confidence interval**: in 95 of 100 such experiments the true median is inside.

# %%
for count in (10, 70, 1000):
    toy, times = ToyGPU(work=2.0), []
    toy.launch()
    for _ in range(count):
        toy.synchronize()
        start = toy.clock()
        toy.launch()
        toy.synchronize()
        times.append(1e3 * (toy.clock() - start))
    q1, median, q3 = np.percentile(times, (25, 50, 75))
    low, high = measure.median_interval(times)
    print(f"n = {count:4}: middle half {q1:.3f} to {q3:.3f}, ", end="")
    print(f"median {median:.3f}, between {low:.3f} and {high:.3f} ms")

# %% [markdown]
# With more samples the middle half stays, and the interval shrinks. If the intervals of two
# programs do not overlap, their medians differ. If they do, these figures do not tell: take more
# samples. (All of that holds for samples that know nothing of each other. Clocks that rise and
# machines that warm up break it. So time two programs in turns.)

# %% [markdown]
# ## 10 Events and caches
#
# <kbd>deepening</kbd> 5 minutes
#
# A toy shows what events see. Here a launch costs the host more than its work costs the GPU:

# %%
toy = ToyGPU(work=0.02, launch=0.1, compiling=0.0, steady=True)
begin = toy.event()
for _ in range(3):
    toy.launch()
end = toy.event()
toy.synchronize()
print(f"work 0.02 ms; between the events {1e3 * (end - begin) / 3:.3f} ms a launch")
plots.timeline(toy, marks={"first event": begin, "second event": end})

# %% [markdown]
# The GPU is idle most of the time: it waits for the host, and the events measure the waiting. The
# cure is to keep it busy with something else while the host fills the queue. Then the launches run
# without a gap. What will the events say now, in ms a launch?

# %%
predict("ms a launch between events, queued behind other work", 0.02, within=1.1)

# %%
toy = ToyGPU(work=0.02, launch=0.1, compiling=0.0, queued=0.5, steady=True)
begin = toy.event()
for _ in range(3):
    toy.launch()
end = toy.event()
each = round(1e3 * (end - begin) / 3, 3)
predict.answer(
    "ms a launch between events, queued behind other work", each, unit="ms", how="computed"
)

# %% [markdown]
# **Caches.** Between memory and multiprocessors lies the L2 cache, 60 MB on an H200. If you launch
# the same kernel on the same data again and again, it may find its data there: a **warm** cache. In
# a real program, other work comes in between: **cold**. Here a copy of few and of many bytes, both
# ways. At which size do they meet?

# %%
lines = {}
for way in ("warm", "cold"):
    figures = recorded("measuring", kernel="cached copy", variant=way)
    sizes = [figure.bytes / 2**20 for figure in figures]
    lines[way] = (sizes, [figure.gigabytes_per_second for figure in figures])
memory = recorded("roofs", variant="copy")[0].gigabytes_per_second
plots.curves(
    lines, "MiB read and written", "GB/s", level=("device memory, measured", memory),
    title="A copy on an H200: data in L2, or not (recorded)",
)  # fmt: skip

# %% [markdown]
# The warm line rises above what the memory can do. That is no wonder and no lie: the data never
# came from memory. It is a lie only if you write "memory bandwidth" beside it. On the left both are
# slow: too few bytes to keep the machine busy.

# %% [markdown]
# ## 11 Less to copy, and where to
#
# <kbd>deepening</kbd> 10 minutes
#
# The project copied too much. It sent the **whole** of `u` and `vt`, though only k = 256 columns
# and rows of 2,048 were used.

# %%
size, k = 2048, 256
whole = 4 * (2 * size * size + size)
needed = 4 * (2 * size * k + k)
back = 4 * size * size
rate = (whole + back) / (69.2 - 52.9) * 1e-6
print(f"in: {whole / 1e6:.1f} MB, needed {needed / 1e6:.1f} MB; out: {back / 1e6:.1f} MB")
print(f"16.3 ms for them are {rate:.1f} GB/s: pageable, it seems")
print(f"what is needed would take {(needed + back) / rate * 1e-6:.1f} ms at that rate")

# %% [markdown]
# ### Exercise: copy what is needed
#
# Return `u`, `s` and `vt` as they should travel: only what k layers need, float32, and each array
# with its rows one after the other in memory (**C-contiguous**). The factors come as float64, as
# NumPy makes them.
#
# <details><summary>Hint</summary>
#
# `np.ascontiguousarray(part, dtype=np.float32)`, for `u[:, :k]`, `s[:k]` and `vt[:k]`.
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

# %% [markdown]
# What does that save on the H200? Putting the columns of `u` in order takes the host some time,
# too. An honest balance has it.

# %%
parts = recorded("measuring", kernel="copies of an image")
for figure in parts:
    print(f"{figure.variant:34} {figure.bytes / 1e6:5.1f} MB {figure.median:6.2f} ms")

# %% [markdown]
# Before a copy comes the **memory** it goes to. Getting that has its price, too: the driver has to
# be asked, and the system hands out pages only when they are touched first. So get memory **once**,
# before the loop, and use it again: the array on the device, the pinned one, the result. Libraries
# such as CuPy keep a pool for that. In the project each image got new arrays.

# %% [markdown]
# ## 12 Rates and the roofline
#
# <kbd>deepening</kbd> 25 minutes
#
# ### Exercise: effective bandwidth and intensity
#
# A `rows × columns` image is rebuilt from k layers in so many milliseconds; all is float32. Return
# the effective bandwidth in GB/s (10⁹ bytes a second), and the intensity. Count two operations for
# each pixel and layer: a multiplication and an addition.
#
# <details><summary>Hint</summary>
#
# Numbers: `rows * k`, `k`, `k * columns`, `rows * columns`. Four bytes each.
#
# </details>


# %% tags=["exercise"]
def effective_rates(rows, columns, k, milliseconds):
    """Return (GB/s, operations a byte)."""
    ### BEGIN SOLUTION
    moved = 4 * (rows * k + k + k * columns + rows * columns)
    return moved / milliseconds * 1e-6, 2 * rows * columns * k / moved
    ### END SOLUTION


# %% tags=["check"]
check("effective-rates", effective_rates)

# %% [markdown]
# A roof is also a lie detector. A figure clearly **above** it is wrong: the kernel did not do all
# its work, the data was in a cache, the clock was read too early, or bytes or operations were
# counted wrongly. Why "clearly"? A measured roof is a measurement, and scatters as all do:

# %%
for figure in recorded("roofs", kernel="roof", gpu="H200"):
    amount, unit = (figure.operations, "TFLOP/s") if figure.operations else (figure.bytes, "GB/s")
    scale = 1e-9 if figure.operations else 1e-6
    low, middle, high = (amount / t * scale for t in (figure.q3, figure.median, figure.q1))
    print(f"{figure.variant:15} {middle:6,.1f} {unit:7}", end=" ")
    print(f"(middle half {low:,.1f} to {high:,.1f}, n = {figure.n})")

# %% [markdown]
# Most roofs are good to a thousandth. Those of the tensor cores scatter by some percent; why, was
# not measured. So quote a roof with its scatter. `benchmark` lets figures pass up to 3% above a
# measured one.

# %% [markdown]
# ### Exercise: which figure is impossible?
#
# `figures` is a list of tuples (name, bytes, operations, milliseconds), as colleagues reported
# them. Return the names of those that are above a roof of the GPU: `bandwidth` in GB/s, `rate` in
# TFLOP/s. Some lists have none.
#
# <details><summary>Hint</summary>
#
# `least_time(...)[0]`, the first of the two values of your function, is what each takes at least.
#
# </details>


# %% tags=["exercise"]
def impossible(figures, bandwidth, rate):
    """Return the names of the figures that cannot be true, as a list."""
    ### BEGIN SOLUTION
    found = []
    for name, bytes, operations, milliseconds in figures:
        if milliseconds < max(bytes / bandwidth * 1e-6, operations / rate * 1e-9):
            found.append(name)
    return found
    ### END SOLUTION


# %% tags=["check"]
check("impossible-figures", impossible)

# %% [markdown]
# Now the **roofline**: intensity to the right, TFLOP/s upwards, the roofs as lines. Under the
# sloping line memory sets the limit, under the flat one arithmetic. Copies compute nothing; they
# stand below, as bars. (A transpose swaps rows and columns:
# [lesson 04](04_warps_and_coalescing.ipynb).) Where will the kernels of
# [lesson 02](02_an_image_from_its_svd.ipynb) be: near the roof, at a half, or below a tenth? Give
# it in percent of the roof, for `reconstruct_naive`.

# %%
predict("reconstruct_naive, percent of the float32 roof", 10, within=3)

# %%

shape = "4096x4096x256"
steps = ("original 16x16", "float32 16x16", "naive 32x8", "tiled 16x16")
kernels = {
    name: recorded("measuring", kernel="reconstruct", variant=f"reconstruct_{name}", shape=shape)[0]
    for name in steps
}
kernels["transpose"] = recorded(
    "transpose", variant="transpose_write_coalesced", shape="8192x8192"
)[0]
kernels["a simple copy"] = recorded("transpose", variant="copy", shape="8192x8192")[0]
kernels["best copy"] = recorded("roofs", variant="copy")[0]
plots.roofline(recorded_roofs("H200"), kernels, ladder=steps, title="H200, measured (recorded)")

# %%
share = 100 * kernels["naive 32x8"].teraflops / recorded_roofs("H200").rates["float32"]
predict.answer("reconstruct_naive, percent of the float32 roof", round(share, 1), unit="%")

# %% [markdown]
# All four points stand above each other: the same work on the same bytes, so one and the same
# intensity. And all are far below the roof. Something else binds. A roofline tells **how much** is
# left, not what is in the way.

# %% [markdown]
# ## 13 What binds the first kernel?
#
# <kbd>deepening</kbd> 5 minutes
#
# One suspect is the loop of [lesson 02](02_an_image_from_its_svd.ipynb)'s kernel: how many
# instructions does a step of it take? With the extra `compile` this cell asks the compiler
# (`doctor()` says whether you have it), and counts in what it wrote. Look at the output; you need
# not follow the counting.
#
# (Two words for the next output. A **register** is a place for one number, in the multiprocessor
# itself: a thread's variables live there. If there are too few, the compiler **spills**: it keeps
# some variables in memory. [Lesson 04](04_warps_and_coalescing.ipynb) says more.)

# %%
# NBVAL_IGNORE_OUTPUT
import re

from course import CompilerMissing, compiled

small = [np.zeros((64, 64), np.float32), np.zeros(64, np.float32), np.zeros((64, 64), np.float32)]
try:
    facts = compiled(reconstruct_naive, (*small, 8, small[0]), target="sm_90")
    loops = re.findall(r"^(\$\w+):(.*?)bra[^\n]*\1;", facts.ptx, re.DOTALL | re.MULTILINE)
    loop = max((body for _, body in loops), key=len)
    steps = loop.count("fma.rn.f32")  # the compiler unrolls the loop
    each = len(re.findall(r"^\s+[a-z@]", loop, re.MULTILINE)) / steps
    print(f"{facts.registers} registers, {facts.spills} bytes spilled; a step: {each:.0f}", end=" ")
    print(f"instructions: {loop.count('ld.global') / steps:.0f} loads, 2 of arithmetic")
except CompilerMissing:
    print("The extra compile is not here. Compiled elsewhere for an H200 (CUDA 13.0):")
    print("32 registers, 0 bytes spilled; a step: 28 instructions: 3 loads, 2 of arithmetic")

# %% [markdown]
# Of 28 instructions 2 compute. Each of `u[row, i]`, `s[i]`, `vt[i, col]` is turned into an address,
# with 64-bit integers, at each step. That this is what binds is an **inference**; a profiler can
# prove it ([lesson 07](07_reading_a_profiler.ipynb)). What is proven: neither the memory nor the
# float32 units are busy.
#
# **The float64 sum** on a T4 ([lesson 02](02_an_image_from_its_svd.ipynb)): two instructions a
# step, a conversion and an addition, at 1/32 of the float32 rate: each of its 40 multiprocessors
# does 2 a clock. If that binds, all runs of the project must fit it. The clock is not known: a T4
# has 0.585 GHz at base, 1.59 GHz at boost.

# %%
runs = {"2048, k = 256": (2048, 256, 52.9), "1024, k = 1024": (1024, 1024, 53.7)}
runs["2048, k = 2048"] = (2048, 2048, 157.5)
multiprocessors, float64_a_clock = 40, 2
print("size               measured   float64 at base   at boost   (ms)")
for name, (size, rank, milliseconds) in runs.items():
    instructions = 2 * size * size * rank
    clocks = instructions / (multiprocessors * float64_a_clock)
    base, boost = (clocks / (gigahertz * 1e6) for gigahertz in (0.585, 1.59))
    print(f"{name:16} {milliseconds:10.1f} {base:17.1f} {boost:10.1f}")

# %% [markdown]
# 45.9 of 52.9 and of 53.7 are about 86%, at base clock. 135.1 of 157.5 are 86%, too, at boost; at
# base clock the last line would be impossible. So it seems that short runs met a GPU half asleep,
# and the long one woke it up. The first two even do equally many steps, one without and one with
# shared memory, and take the same time.
#
# Everything fits, and still it is an **inference**: nobody noted the clock. Let a GPU work a while
# before you count. `benchmark` does.

# %% [markdown]
# ## 14 Block shapes and sizes
#
# <kbd>deepening</kbd> 10 minutes
#
# **Claim 3**: blocks of 8×8 and of 16×16 are equally fast. Three kernels, recorded on the H200 with
# k = 256, by shape and size:
#
# - `naive`: x on the columns, float32.
# - `float32`: x on the **rows**, float32.
# - `original`: x on the rows, and the sum in float64.
#
# For `original` at 2048: how many times slower is 32×32 than 8×8?

# %%
predict("original: 32x32 against 8x8, times slower", 2, within=1.5, no_effect=1)


# %%
def by_shape_and_size(kernel):
    """Return names of the blocks, names of the sizes, times [ms]."""
    sizes = (512, 1024, 2048, 4096)
    figures = recorded("measuring", kernel="reconstruct")
    blocks = [f.variant.split()[1] for f in figures if f.variant.startswith(f"{kernel} ")]
    blocks = list(dict.fromkeys(blocks))
    times = [
        [h200("reconstruct", f"{kernel} {block}", f"{size}x{size}x256") for size in sizes]
        for block in blocks
    ]
    return blocks, [str(size) for size in sizes], np.array(times)


names = ("naive", "float32", "original")
maps = {name: by_shape_and_size(f"reconstruct_{name}") for name in names}
plots.heat_maps(maps)

# %%
blocks, sizes, times = maps["original"]
slower = times[blocks.index("32x32"), 2] / times[blocks.index("8x8"), 2]
predict.answer("original: 32x32 against 8x8, times slower", round(slower, 1))

# %% [markdown]
# In `naive` the shape hardly matters. In the two others 16×16 is slower than 8×8, and 32×32 is
# twice as slow: x walks down the rows, and a 32-wide block puts 32 rows under each warp.
# ([Lesson 04](04_warps_and_coalescing.ipynb) counts it.) So claim 3 held on a T4, where float64
# seems to have hidden everything else, and it does not hold in general. Change **one thing at a
# time**, and ask what could hide what you look for.

# %% [markdown]
# Now compare `float32` with `original`, shape by shape: the same mapping, another sum. On a T4 the
# float64 sum seems to have cost nearly everything. How many percent does it cost here, with
# 16×16 at 2048?

# %%
predict("cost of the float64 sum on an H200, in percent", 10, exact=True)

# %%
both = [maps[name][2][maps[name][0].index("16x16"), 2] for name in ("original", "float32")]
for name in ("T4", "H200"):
    rates = known_gpu(name).rates
    print(f"{name}: float32 is {rates['float32'] / rates['float64']:.0f} times as fast as float64")
cost = round(100 * (both[0] / both[1] - 1))
predict.answer("cost of the float64 sum on an H200, in percent", cost, unit="%")

# %% [markdown]
# An H200 has float64 units in plenty, and other things bind here. The same trap, on another
# machine, is free. That is why a figure needs its machine beside it.

# %% [markdown]
# ## 15 Occupancy, and what it hides
#
# <kbd>deepening</kbd> 20 minutes
#
# A load from memory takes hundreds of clocks. A warp that waits for one does nothing. The
# multiprocessor does not wait: it goes on with **another warp**. That is called **latency hiding**,
# and it needs warps.
#
# How many are there? A multiprocessor of a T4 has room for 32 warps and 16 blocks, 65,536 registers
# and 64 KiB of shared memory. What runs out first is the limit. **Occupancy** is the share of the
# 32 places that is taken.

# %% [markdown]
# For a T4 the compiler gives `reconstruct_original` 44 registers a thread, none spilled (CUDA
# 13.0). How many warps are resident with blocks of 8×8? Think of blocks, too.

# %%
predict("warps on a T4's multiprocessor, blocks of 8 x 8", 32, exact=True)

# %%
from course import occupancy

for block in ((8, 8), (16, 16), (32, 32), (16, 1), (24, 24)):
    print(f"{block}:", occupancy("T4", block, registers=44))
warps = occupancy("T4", (8, 8), registers=44).warps
predict.answer(
    "warps on a T4's multiprocessor, blocks of 8 x 8", warps, unit="warps", how="computed"
)

# %% [markdown]
# 8×8, 16×16 and 32×32 all fill it. (16, 1) wastes half of every warp, and only 16 blocks have room.
# (24, 24) are 18 warps a block, and a second block does not fit.

# %% [markdown]
# What is occupancy worth? Take a copy on the H200, and allow each multiprocessor 1, 2, 4, up to all
# 64 warps. Each thread copies float32 in one line, float64 in the other. With one warp on each
# multiprocessor all of them together reach some 90 GB/s with float32. What with 32, half of the
# places?

# %%
predict("GB/s of a float32 copy by 32 warps", 2800, within=1.5)

# %%
lines = {}
for dtype, size in (("float32", 4), ("float64", 8)):
    figures = recorded("measuring", kernel="copy by warps", dtype=dtype)
    counts = [int(figure.shape) for figure in figures]
    name = f"{dtype}: {32 * size} bytes\nin a warp's load"
    lines[name] = (counts, [figure.gigabytes_per_second for figure in figures])
plots.curves(
    lines, "warps on each multiprocessor", "GB/s", level=("best copy", memory), height=3.0,
    title="A copy on an H200, by resident warps (recorded)",
)  # fmt: skip

# %%
by_32 = recorded("measuring", kernel="copy by warps", variant="32 warps", dtype="float32")[0]
predict.answer("GB/s of a float32 copy by 32 warps", round(by_32.gigabytes_per_second), unit="GB/s")

# %% [markdown]
# Twice the warps, twice the speed, nearly all the way: each brings its own load, and while one is
# under way the others are, too. Then the memory is busy, and the line bends.
#
# Now compare the two lines: float64 with 16 warps does what float32 does with 32. It is not warps
# that count. It is **bytes under way** (Little's law: bytes under way = rate × latency).

# %%
print("bytes under way on a multiprocessor   float32   float64   (GB/s)")
(counts, four), (_, eight) = lines.values()
for place in range(1, len(counts)):
    print(f"{128 * counts[place]:37,} {four[place]:9,.0f} {eight[place - 1]:9,.0f}")

# %% [markdown]
# (One reason why the simple copy among the bars of the roofline stays at 57%: each of its threads
# moves 4 bytes.)
#
# So full occupancy is no aim in itself. A thread that has four loads under way needs a quarter of
# the warps; [lesson 06](06_reuse_reuse_reuse.ipynb) trades occupancy for that. Raise occupancy
# where warps **wait**, and where little else is under way.

# %% [markdown]
# And `reconstruct_naive`, at 2% of its roof? The compiler gave it 32 registers on the H200.
#
# All places are taken, and it is slow all the same. More occupancy cannot help it.

# %%
registers = h200("reconstruct", "reconstruct_naive 32x8", "4096x4096x256", metric="registers")
print(occupancy("H200", (32, 8), registers=int(registers)))

# %% [markdown]
# ### Exercise: choose a block by occupancy
#
# A kernel needs so many `registers` and so many bytes of `shared` memory for **each thread**.
# Return the threads of a block, a multiple of 32 up to 1,024, with which an **H200's**
# multiprocessor holds the most warps. (It has room for 64 warps and 32 blocks, 65,536 registers and
# 228 KiB of shared memory.) If several do, take any.
#
# <details><summary>Hint</summary>
#
# Try all sizes: `occupancy("H200", threads, registers, shared * threads).warps`.
#
# </details>


# %% tags=["exercise"]
def fullest_block(registers, shared):
    """Return the threads of a block; registers and bytes of shared memory are of a thread."""

    ### BEGIN SOLUTION
    def warps(threads):
        return occupancy("H200", threads, registers, shared * threads).warps

    return max(range(32, 1025, 32), key=warps)
    ### END SOLUTION


# %% tags=["check"]
check("fullest-block", fullest_block)

# %% [markdown]
# ## 16 CPU against GPU
#
# <kbd>deepening</kbd> 20 minutes
#
# **Claim 5** compared NumPy at k = 256 with a kernel at k = 2048: eight times the work. Here are
# all four figures, from one machine. The kernel is the project's own.

# %%
print("2048 x 2048     NumPy, 16 cores   the kernel, H200")
for layers in (256, 2048):
    shape = f"2048x2048x{layers}"
    by_cpu = h200("way of timing", "NumPy", shape)
    by_gpu = h200("way of timing", "events, queued, cold", shape)
    print(f"k = {layers:<12} {by_cpu:12.2f} ms {by_gpu:15.2f} ms")

# %% [markdown]
# Compare within a row, and the two are equally fast. Compare one row with the other, as claim 5
# did, and you can prove whatever you like: NumPy at k = 256 is 8 times as fast as the kernel at
# k = 2048, and the kernel at k = 256 is 8 times as fast as NumPy at k = 2048.
#
# So a first kernel on one of the fastest GPUs is just level with NumPy on 16 cores. On the T4 it
# was worse: 52.9 ms against 7.08 ms. NumPy's `@` is a library that experts tuned for years. The
# kernel is six lines.

# %% [markdown]
# **Where is the crossing?** Seven sizes, 64, 128, 256 and so on up to 4096, k an eighth of each,
# warm, medians. Drawn is how many times faster than NumPy: above 1 the GPU wins. Four programs:
#
# - the kernel alone, by events;
# - launched, and waited for by the host;
# - with copies in and out, pinned, then pageable.
#
# From which of the sizes on does each win? Begin with the first.

# %%
predict("kernel alone: first size that beats NumPy", 256, exact=True)

# %%
sizes = [64, 128, 256, 512, 1024, 2048, 4096]
shapes = [f"{size}x{size}x{size // 8}" for size in sizes]
by_numpy = np.array([h200("crossing", "NumPy", shape) for shape in shapes])
programs = {
    "kernel alone": "kernel",
    "launch and wait": "kernel, launch and wait",
    "with copies, pinned": "kernel and copies, pinned",
    "with copies, pageable": "kernel and copies",
}
faster = {
    name: by_numpy / [h200("crossing", program, shape) for shape in shapes]
    for name, program in programs.items()
}
plots.curves(
    {name: (sizes, ratios) for name, ratios in faster.items()},
    "rows and columns of the image", "times faster than NumPy", level=("NumPy", 1.0),
    title="reconstruct_naive on an H200 against 16 cores (recorded)",
)  # fmt: skip

# %%
first = {
    name: next((n for n, ratio in zip(sizes, ratios, strict=True) if ratio > 1), None)
    for name, ratios in faster.items()
}
for name, size in first.items():
    print(f"{name:26} {'from ' + str(size) if size else 'not up to 4096'}")
for place in (2, 5):
    gigaflops = 2 * sizes[place] ** 2 * (sizes[place] // 8) / by_numpy[place] * 1e-6
    print(f"NumPy at {sizes[place]:4}: {gigaflops:4.0f} GFLOP/s")
question = "kernel alone: first size that beats NumPy"
predict.answer(question, first["kernel alone"])

# %% [markdown]
# Why four answers?
#
# - A launch costs the host some 40 µs with its arrays. Work below that is lost on a GPU.
# - The copies cost 0.3 ms before a byte has moved.
# - Bytes grow about as n², work as n² · k. So with n and k the copies weigh less: that makes a
#   crossing.
# - NumPy's rate grows with the size, too: a small image does not fill 16 cores. So the lead of the
#   kernel alone shrinks.
# - For large images both rates are nearly equal here, and the copies come on top.
#
# Three ways to move the crossing: a better kernel, fewer or faster copies, or more work on data
# that is already there.

# %% [markdown]
# ### Exercise: where the GPU begins to win
#
# Given are rates, `cpu` and `gpu` in GFLOP/s and `link` in GB/s, and `start`: what launch and
# copies cost before a byte has moved, in ms. k is `n // 8`. Return the first of `sizes` (ascending)
# at which the GPU is faster, copies in and out included, and 0 if none is.
#
# - operations: 2 n² k
# - bytes over the link: 4 (2 n k + k + n²)
# - the GPU's time: start + bytes / link + operations / gpu
#
# <details><summary>Hint</summary>
#
# `operations / (cpu * 1e6)` are ms, and so are `bytes / (link * 1e6)`. Loop over the sizes, return
# at the first that wins.
#
# </details>


# %% tags=["exercise"]
def crossing(sizes, cpu, gpu, link, start):
    """Return the first size at which the GPU with copies beats the CPU, 0 if there is none."""
    ### BEGIN SOLUTION
    for n in sizes:
        k = n // 8
        operations = 2 * n * n * k
        copied = 4 * (2 * n * k + k + n * n)
        on_gpu = start + copied / (link * 1e6) + operations / (gpu * 1e6)
        if on_gpu < operations / (cpu * 1e6):
            return n
    return 0
    ### END SOLUTION


# %% tags=["check"]
check("crossing", crossing)

# %% [markdown]
# ## 17 On your own GPU
#
# <kbd>deepening</kbd> 5 minutes
#
# With a GPU, these cells repeat three experiments on it. First what a copy costs, and the one
# launch in six ways. Without a GPU, you see the bound of the simulated one's link.

# %%
# NBVAL_IGNORE_OUTPUT
transfers(16 * 1024**2)


# %% tags=["long"]
# NBVAL_IGNORE_OUTPUT
def clocked(function, *args, wait=True):
    """Return the time of one call by the host's clock [ms], waited for or not."""
    cuda.synchronize()
    start = perf_counter()
    function(*args)
    if wait:
        cuda.synchronize()
    return 1e3 * (perf_counter() - start)


if gpu() is not None:
    launch = cuda.jit(reconstruct_original.py_func)[(128, 128), (16, 16)]  # not compiled yet
    there, empty_image = (*arrays, k, image), np.zeros((rows, rows), np.float32)
    wide = [cuda.to_device(part.astype(np.float64)) for part in (*host, empty_image)]
    figures = {
        "first call": clocked(launch, *host, k, empty_image),
        "copies inside": clocked(launch, *host, k, empty_image),
        "float64 arrays": benchmark(launch, *wide[:3], k, wide[3]).median,
        "synchronize": clocked(launch, *there),
        "events, queued": benchmark(launch, *there).median,
        "no synchronize": clocked(launch, *there, wait=False),
    }
    for name, milliseconds in figures.items():
        print(f"{name:15} {milliseconds:8.3f} ms")

# %% [markdown]
# Then the kernels of section 14, by block. Your figures are kept in a folder of yours, and shown
# beside the recorded ones. Without a GPU you get the bound of the simulated one: from the additions
# alone, at the best rate. So it lies below what section 13 found.

# %% tags=["long"]
# NBVAL_IGNORE_OUTPUT
rows, k = 2048, 256
own, steps = [], rows * rows * k
amounts = {
    reconstruct_naive: {"float32": 3 * steps},
    reconstruct_original: {"float32": 2 * steps, "float64": steps},
}
for block in ((8, 8), (16, 16), (32, 8), (32, 32)):
    grid = tuple(-(-rows // threads) for threads in block)
    for kernel, operations in amounts.items():
        name = f"{kernel.py_func.__name__} {block[0]}x{block[1]}"
        timing = benchmark(
            kernel[grid, block], *arrays, k, image, bytes=work["bytes"], operations=operations,
            name=name, seconds=0.3,
        )  # fmt: skip
        own.append(timing)
        if gpu() is not None:
            print(f"{name:26} {timing.median:.3f} ms")
if gpu() is None:
    print("No GPU here, so no times.", own[-1].bound, sep="\n")
else:
    shape = "2048x2048x256"
    measure.keep("measuring", [measure.figure_of(timing, "reconstruct", shape) for timing in own])
    table = measure.compare("measuring")
    print(table[["variant", "own", "recorded", "says"]].to_string(index=False))

# %% [markdown]
# ## What you should be able to say now
#
# - A launch returns at once. Wait before both readings of the clock, or use events.
# - First calls, copies and launches are real costs, and each has a figure of its own.
# - Median, quartiles, n, not the mean. An interval tells how well the median is known.
# - A time means something beside a bound: bytes / bandwidth, or operations / rate, the longer.
# - A figure above a measured roof, by more than the roof's own scatter, is wrong.
# - Occupancy helps where warps wait. What counts are bytes under way.
# - "Faster" needs a size, a machine, what is inside, and what it is compared with.

# %%
progress(3)

# %% [markdown]
# ## Questions
#
# **1.** A colleague's kernel takes 0.07 ms for every size from 32 to 512. What do you suspect?
#
# <details><summary>Answer</summary>
#
# That is what launches cost. Either nobody waited for the work, or the work is so small that the
# launch is all there is. Ask for `synchronize`, and try a far larger size.
#
# </details>
#
# **2.** Two kernels: 1.00 ms (middle half 0.98 to 1.05) and 0.99 ms (0.97 to 1.06). Which one is
# faster?
#
# <details><summary>Answer</summary>
#
# These figures do not tell. They say how single calls scatter, not how well the medians are known.
# Ask for n and for an interval of each median. If the intervals overlap, take more samples, in
# turns, or call the two equal.
#
# </details>
#
# **3.** A copy reaches 6,000 GB/s on a GPU with 4,200 GB/s of memory. Is the figure wrong?
#
# <details><summary>Answer</summary>
#
# As a rate of the memory, yes. It may be right as a rate of a warm L2 cache. How much data was it,
# and was it the same in each launch?
#
# </details>
#
# **4.** Your kernel has an occupancy of 25%. Is that bad?
#
# <details><summary>Answer</summary>
#
# Not by itself. How far is it from its roof? If each thread has several loads or several
# independent sums under way, 25% can be plenty.
#
# </details>
#
# **5.** When is it right to leave the copies out of a time?
#
# <details><summary>Answer</summary>
#
# When the data stays on the GPU, before and after: a step in the middle of a longer program. For a
# program that sends an image and gets one back they belong to it.
#
# </details>
#
# **6.** Why does `benchmark` hand each launch another copy of the data?
#
# <details><summary>Answer</summary>
#
# So that no launch finds its data in L2, where the one before left it. In a program other work
# comes in between.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Time `cpu.reconstruct_matmul` while something else runs on your machine. What becomes of the
#   median, the mean, the shortest?
# - Give the toy `launch=0.5` and `work=0.1`. How many launches fit into a second, and who is the
#   bottleneck?
# - Take a speed-up from a paper or a blog. Which points of section 8 does it leave out?
# - With a GPU: `python -m course bench measuring` in a terminal. Where is your crossing?

# %% [markdown]
# ## Common misconceptions
#
# For instructors; the checks name most of them.
#
# - *"The first call is slow because the GPU is cold."* It compiles; clocks and caches come after.
# - *"I took the mean of 1,000, so it is exact."* With disturbances in it.
# - *"The shortest time is the true one."* It may have had luck: a warm cache, say.
# - *"synchronize() makes my program slower, so it does not belong in a measurement."*
# - *"More occupancy is more speed."*
# - *"The GPU has 100 times the TFLOP/s, so it is 100 times faster."* Than a kernel that reaches its
#   roof.
# - *"The simulator took 3 s, so ..."* It counts; it has no clock.

# %% [markdown]
# ## What to read next
#
# - [How to implement performance metrics in CUDA
#   C/C++](https://developer.nvidia.com/blog/how-implement-performance-metrics-cuda-cc/) by Mark
#   Harris: events, effective bandwidth.
# - [Roofline: an insightful visual performance model](https://doi.org/10.1145/1498765.1498785) by
#   Williams, Waterman and Patterson.
# - [CUDA C++ best practices guide](https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/):
#   timing, bandwidth, occupancy.
# - [Scientific benchmarking of parallel computing systems](https://doi.org/10.1145/2807591.2807644)
#   by Hoefler and Belli: twelve ways to tell the truth.
# - Next in the course: [lesson 04](04_warps_and_coalescing.ipynb), Warps and coalescing.
