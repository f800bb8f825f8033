# %% [markdown]
# # 03 Measuring honestly
#
# A student project drew five conclusions from its times. You measure again.

# %% [markdown]
# ## What you will do
#
# - Time one launch in six ways, and say what each time means.
# - Report your own kernel's time, so that others can check it.

# %% [markdown]
# ## What you will learn
#
# - What belongs in a time: first call, launch, copies, caches, the number of samples.
# - How long the work must take at least.

# %% [markdown]
# ## What you need
#
# Lessons [00](00_your_picture_your_kernel.ipynb) to [02](02_an_image_from_its_svd.ipynb):
# kernels, blocks and grids, the reconstruction.
#
# **Without a GPU** you see the least time that the work can take, and times that were **recorded**
# on an NVIDIA H200. CPU programs are timed on your machine.

# %% [markdown]
# ## How long it takes
#
# After section 8 is a good place for a break.

# %%
# NBVAL_IGNORE_OUTPUT

import numpy as np

from course import benchmark, bound, check, cuda, gpu, known_gpu, measure, mine
from course import plots, predict, progress, recorded, transfers, wrapped
from course.kernels.reconstruct import reconstruct_naive
from course_lessons.lesson02 import cpu
from course_lessons.lesson03.toy_gpu import ToyGPU

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 Three claims
#
# <kbd>core</kbd>
#
# The project behind this course measured on a Tesla T4, in ms:
#
# | what | times |
# |---|---|
# | one image of 256², k = 100, first calls inside | CuPy 1428, Numba 249, NumPy 0.66 |
# | kernel with shared memory, k = size | 186 at 512, 53.7 at 1024 |
# | kernel at 2048², k = 256 | 52.9 alone, 69.2 with copies in and out |

# %% [markdown]
# It concluded:
#
# 1. CuPy is slower than Numba.
# 2. **Shared memory**, the fast memory of a block ([lesson 05](05_shared_memory.ipynb)), makes a
#    small image 20 times slower.
# 3. The program is I/O bound: moving the data takes most of the time.
#
# (Claims 4 and 5 follow in sections 14 and 16.) How many of these three are right? Put your number
# in place of the dots.

# %%
predict("claims that survive", 2, exact=True)

# %% [markdown]
# Recorded times come from one run of `python -m course bench`, on an H200 beside a 16-core Xeon.
# This function looks a time up.


# %%
def h200(kernel, variant, shape=None, dtype=None, metric="time"):
    """Return a recorded median; times are in ms."""
    wanted = {"kernel": kernel, "variant": variant, "shape": shape, "dtype": dtype}
    return recorded("measuring", metric=metric, gpu="H200", **wanted)[0].median


# %% [markdown]
# ## 2 A clock that lies
#
# <kbd>core</kbd>
#
# The host and the GPU work at the same time. A launch puts work into a **queue** and returns:
# launches are **asynchronous**.
#
# Here is a toy. Each launch takes 2 ms of `work` on the GPU and 0.3 ms of `launch` on the host;
# `steady` leaves chance out. You read the clock before and after a launch. What is `after -
# before`, in ms?

# %%
toy = ToyGPU(work=2.0, launch=0.3, compiling=0.0, steady=True)
before = toy.clock()
toy.launch()
after = toy.clock()
toy.synchronize()

predict("ms between two readings around a launch", 2.3, within=1.1)

# %%
measured = round(1e3 * (after - before), 2)
predict.answer("ms between two readings around a launch", measured, unit="ms", how="computed")
marks = {"before": before, "after": after, "after synchronize()": toy.clock()}
plots.timeline(toy, marks=marks)

# %% [markdown]
# The clock was right: the host was busy for 0.3 ms. Without `synchronize()` you time a launch,
# which takes as long for every size of the image.
#
# The GPU may also be busy with earlier launches: you wait for those, too. So wait twice: **before**
# the first reading, until the queue is empty, and **before** the second, until the work is done.

# %% [markdown]
# ## 3 The first call
#
# <kbd>core</kbd>
#
# A kernel or an `njit` function is compiled when it is called for the first time.
#
# **Claim 2.** With k = size, 1024 has 2 · 2 · 2 = 8 times the work of 512. So 512 should have taken
# an eighth of 53.7 ms. It was measured first, and took 186: the rest is the compiler. Here is this
# course's kernel with shared memory, recorded on the H200 at 512×512 and k = 256:

# %%
print(f"T4: {53.7 / 8:.1f} ms expected, so {186 - 53.7 / 8:.0f} of 186 ms were something else")
shape = "512x512x256"
first = h200("reconstruct", "reconstruct_tiled 16x16", shape, metric="first call")
later = h200("reconstruct", "reconstruct_tiled 16x16", shape)
print(f"H200: first call {first:.0f} ms, later {later:.3f} ms, {first / later:,.0f} times")
naive = h200("reconstruct", "reconstruct_naive 16x16", shape)
print(f"without shared memory {naive:.3f} ms: shared memory is {naive / later:.1f} times faster")

# %% [markdown]
# Claim 2 falls: it compared a compiler's time with a kernel's.
#
# **Claim 1.** Recorded on the H200: each library in a process of its own, the first image and the
# median of twenty more, copies inside. Who is faster at the later images, CuPy or Numba?

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
# The order turns round: claim 1 compared start-up costs. A program of one image does pay them. So
# name first calls, and keep them **apart**.

# %% [markdown]
# ## 4 One sample is none
#
# <kbd>core</kbd>
#
# How often should you measure? Here are 300 calls of one NumPy program, on your machine.
# (`benchmark` with `host=True` reads the host's clock, and keeps the first call apart.)

# %%
# NBVAL_IGNORE_OUTPUT
u = np.random.default_rng(3).random((256, 100), dtype=np.float32)
s, vt = np.ones(100, dtype=np.float32), np.ascontiguousarray(u.T)
timing = benchmark(cpu.reconstruct_one_loop, u, s, vt, 20, host=True, samples=300)
plots.samples(timing.samples, "NumPy, layer by layer, 256 × 256, k = 20, on your CPU")

# %% [markdown]
# Disturbances make a call **slower**, hardly ever faster. The **median** has half of the samples
# below it. The **quartiles** enclose the middle half. So report **median, quartiles and the number
# of samples**.

# %% [markdown]
# ### Exercise: time a launch
#
# People often write this. Four things are wrong, and the unit:
#
# ```python
# start = clock()
# launch()
# return clock() - start
# ```
#
# Below, two are right already: the first call, and 21 samples. Order the five lines of the loop.
# The GPU may be busy at the start.
#
# <details><summary>Hint</summary>
#
# Wait twice: until the queue is empty, and until the work is done. Which line comes right after
# each of the two waits?
#
# </details>


# %% tags=["exercise"]
def time_launch(launch, synchronize, clock):
    """Return the median time of a launch [ms]; the first launch does not count."""
    launch()
    times = []
    for _ in range(21):
        ### BEGIN ORDER
        synchronize()
        start = clock()
        launch()
        synchronize()
        times.append(1e3 * (clock() - start))
        ### END ORDER
    return np.median(times)


# %% tags=["check"]
check("time-a-launch", time_launch)

# %% [markdown]
# ## 5 Short kernels
#
# <kbd>core</kbd>
#
# Your function times the launch, too, a few hundredths of a millisecond. For a short kernel that is
# too much. So GPUs have **events**. An event goes into the queue like a launch, and the GPU notes
# the time when it comes to it.
#
# Recorded on the H200, for a kernel that does nothing: `host` is the host's time for a launch,
# `events` the time between two events. `queued` is the same behind other work, so that the GPU
# never waits for the host.

# %%
empty = {
    figure.metric: figure.median
    for figure in recorded("launch", variant="no arguments", metric=None)
}
for metric in ("host", "events", "queued"):
    print(f"{metric:7} {1e3 * empty[metric]:5.1f} µs")

# %% [markdown]
# `benchmark` does all of this. It keeps the first call apart, warms up, queues launches behind a
# busy kernel, and reads events. Each launch gets **another copy** of the data. So no launch finds a
# **warm** cache, one that still holds its data.
#
# Time **your own** kernel of [lesson 02](02_an_image_from_its_svd.ipynb). (Without a GPU you get
# the least time that the work can take.)

# %%
# NBVAL_IGNORE_OUTPUT
rows, k = 2048, 256
rng = np.random.default_rng(0)
host = [rng.random(shape, dtype=np.float32) for shape in ((rows, k), k, (k, rows))]
arrays = [cuda.to_device(part) for part in host]
image = cuda.device_array((rows, rows), np.float32)
work = {"bytes": 4 * (2 * rows * k + k + rows * rows), "operations": 2 * rows * rows * k}
kernel = mine("reconstruct-columns", reconstruct_naive)
own = benchmark(kernel[(64, 256), (32, 8)], *arrays, k, image, **work, name="my kernel")
own

# %% [markdown]
# Here is one image, timed in six ways on the H200. If a kernel gets NumPy arrays, Numba copies
# everything in and back, inside your time. float64 is what `np.random.rand` gives. Which of the six
# says how long the GPU works on this kernel?
#
# <details><summary>Afterwards: what each of them says</summary>
#
# The GPU works for `events, queued`. The host spends `no synchronize` on a launch. A caller waits
# `synchronize` for launch and work, `copies inside` for an image from the host and back.
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
plots.time_bars(times, "One kernel, timed in six ways: 2048 × 2048, k = 256, H200 (recorded)")

# %% [markdown]
# ## 6 In and out
#
# <kbd>core</kbd>
#
# Copies between host and GPU go over PCI Express (PCIe), much slower than through the GPU's own
# memory. How slow depends on how much you copy at once, and from where.
#
# An ordinary array is **pageable**: the system may move its pages at any time. So the driver first
# copies it to a place of its own. **Pinned** memory (`cuda.pinned_array`) stays where it is, and
# the GPU fetches it directly. How many times faster is that, with 256 MiB to the GPU?

# %%
predict("pinned against pageable, 256 MiB to the GPU: times faster", 4, within=2, no_effect=1)

# %%
lines = {}
for way in ("pinned in", "pinned out", "pageable in", "pageable out"):
    figures = recorded("transfers", variant=way)
    sizes = [figure.bytes / 2**10 for figure in figures]
    lines[way] = (sizes, [figure.gigabytes_per_second for figure in figures])
ratio = lines["pinned in"][1][-1] / lines["pageable in"][1][-1]
predict.answer("pinned against pageable, 256 MiB to the GPU: times faster", round(ratio, 1))
plots.curves(
    lines, "KiB in one copy", "GB/s", dashed=("pinned out", "pageable out"),
    title="Copies between host and H200 (recorded)",
)  # fmt: skip

# %% [markdown]
# (256 MiB are the last points.) A small copy costs some tens of microseconds, pinned or not. So a
# few large copies beat many small ones.
#
# **Claim 3**: the program is I/O bound. On the T4 the kernel took 52.9 of 69.2 ms, 76%. Claim 3
# falls by a division. Free copies would have saved a quarter.
#
# And on the H200? The kernel is `reconstruct_naive`, k is an eighth of the size, the arrays are
# pageable.

# %%
print("     size   copies in   kernel   copy out   all [ms]   kernel's part")
for size in (512, 1024, 2048, 4096):
    parts = ("copies in", "kernel", "copy out")
    there, middle, back = (h200("crossing", name, f"{size}x{size}x{size // 8}") for name in parts)
    everything = there + middle + back
    print(f"{size:9} {there:11.2f} {middle:8.2f} {back:10.2f} {everything:10.2f}", end="")
    print(f" {100 * middle / everything:13.0f}%")

# %% [markdown]
# Here small images *are* bound by their copies. The H200 runs the kernel 20 times faster than the
# T4, but copies only a few times faster. What binds a program depends on its size and its
# **machine**.

# %% [markdown]
# ## 7 The least it could take
#
# <kbd>core</kbd>
#
# On an H200 a kernel like yours takes 2.0 ms. Compare that with what the work needs:
# **bytes** to move and **operations** to do. Each element of the factors is
# read once, each pixel written once. Operations / bytes is the **arithmetic intensity**.
#
# A GPU has **roofs**: bytes and operations a second. Data sheets print them; a program that only
# copies, or only computes, measures them.

# %%
from course import recorded_roofs


def print_roof(figure):
    """Print a recorded roof with its quartiles."""
    amount, unit = (figure.operations, "TFLOP/s") if figure.operations else (figure.bytes, "GB/s")
    scale = 1e-9 if figure.operations else 1e-6
    low, middle, high = (amount / t * scale for t in (figure.q3, figure.median, figure.q1))
    print(f"{figure.variant:15} {middle:6,.1f} {unit:7}", end=" ")
    print(f"(middle half {low:,.1f} to {high:,.1f}, n = {figure.n})")


print(known_gpu("H200"))
for name in ("copy", "float32"):
    print_roof(recorded("roofs", kernel="roof", gpu="H200", variant=name)[0])

# %% [markdown]
# Both measured roofs lie 11 to 12% below the printed ones. Compare your times with the **measured**
# roof of the same GPU, and quote its quartiles. (They are those of one run, whose clock nobody
# noted. A run at a higher clock can exceed this roof by some percent.)
#
# Bytes take bytes / bandwidth. Operations take operations / rate. Both go on at the same time, so
# the work takes at least the **longer** of the two. They are equal at the **ridge**: below that
# intensity memory binds, above it arithmetic.

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
# `bound` is the same, with the table of GPUs behind it. What binds your image of section 5 on an
# H200, memory or arithmetic?

# %%
predict("what binds at 2048, k = 256, H200", "memory", choices=("memory", "arithmetic"))

# %%
least = bound(work["bytes"], work["operations"], recorded_roofs("H200"))
print(least)
print(f"intensity {least.intensity:.0f}, ridge at {recorded_roofs('H200').ridge():.0f}")
answer = "memory" if least.binding == "memory" else "arithmetic"
predict.answer("what binds at 2048, k = 256, H200", answer, how="computed")

# %% [markdown]
# ## 8 Say what you measured
#
# <kbd>core</kbd>
#
# A time that others can check has this beside it:
#
# - what was computed, its size and its types, and that the result was right;
# - which machine, which versions;
# - what is inside: first call, launch, copies, warm caches;
# - median, quartiles, n, and the bound;
# - the best other program that you could get, on the same work.

# %% [markdown]
# ### Exercise: the report of your kernel
#
# The report below has three blanks for you: the median of the samples, the share, and the speed-up.
# The share is the bound / median: 1 where a kernel is as fast as its bound allows. The speed-up is
# over another program. All times are in ms.
#
# <details><summary>Hint</summary>
#
# `np.median(samples)`. If the bound is 1 ms and the median 4, the share is 0.25. If the other
# program takes 8 ms, you are 2 times as fast.
#
# </details>

# %%
LINE = (
    "2048 x 2048, k = 256, float32, {gpu}, no first call, no copies, cold: median {median:.3g} ms "
    "(n = {n}); the bound is {share:.1%} of that; {times:.2f} times as fast as NumPy beside it"
)


# %% tags=["exercise"]
def report(samples, least, other):
    """Return (median, share of the bound, times as fast as the other program)."""
    ### BEGIN SOLUTION
    median = np.median(samples)
    return median, least / median, other / median
    ### END SOLUTION


# %% tags=["check"]
check("report-line", report)

# %% [markdown]
# Here is the report of your kernel of section 5. (Without a GPU: of a recorded kernel, whose
# quartiles stand in for the samples.)

# %%
# NBVAL_IGNORE_OUTPUT
if gpu() is None:
    seen = recorded("measuring", variant="reconstruct_naive 32x8", shape="2048x2048x256")[0]
    samples, n, name = (seen.q1, seen.median, seen.q3), seen.n, seen.gpu
    other = h200("crossing", "NumPy", "2048x2048x256")
else:
    samples, n, name, least = own.samples, own.n, gpu(), own.bound
    other = benchmark(cpu.reconstruct_matmul, *host, k, host=True).median
filled = report(samples, least.milliseconds, other)
if filled is not None:
    median, share, times = filled
    print(wrapped(LINE.format(gpu=name, median=median, n=n, share=share, times=times)))

# %% [markdown]
# One thing more. The project's code spoke of 32 images of 2048², the output beside it of ten of
# 1024²: cells were run in another order. Restart, run all, read the text against the numbers, then
# commit.
#
# How many of the three claims survive?

# %%
fate = {
    "CuPy is slower than Numba": "first calls; warm it is the other way round",
    "shared memory makes it slower": "the compiler; warm no slower (T4), faster (H200)",
    "the program is I/O bound": "three quarters were the kernel",
}
for claim, reason in fate.items():
    print(f"{claim:30} {reason}")
predict.answer("claims that survive", 0, how="counted")

# %% [markdown]
# ## 9 How well is the median known?
#
# <kbd>deepening</kbd>
#
# Which of two programs is faster? Quartiles cannot tell. They say how much *single calls* scatter,
# and that stays the same, however many you take. Ask instead how well you know the **median**
# itself. Each sample falls below the true median with probability ½, like a coin. So one can count
# how far from the middle of the sorted samples the true median may lie. That gives a **confidence
# interval**: in 95 of 100 such experiments the true median is inside.

# %% [markdown]
# The toy is disturbed, too: a launch takes 2 ms, give or take a few percent, but each seventh takes
# six times as long. What is the mean of many, in ms?

# %%
predict("mean of the disturbed toy, in ms", 3.4, within=1.1)

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
mean = round(np.mean(times), 2)
predict.answer("mean of the disturbed toy, in ms", mean, unit="ms", how="computed")

# %% [markdown]
# No launch took as long as the mean: each took about 2 ms, or 12. With more samples the middle half
# stays, and the interval shrinks. If the intervals of two programs do not overlap, their medians
# differ. If they do, take more samples. (That holds for samples that are independent. A GPU whose
# frequency rises breaks it: time two programs alternately.)

# %% [markdown]
# ## 10 Events and caches
#
# <kbd>deepening</kbd>
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
question = "ms a launch between events, queued behind other work"
predict.answer(question, each, unit="ms", how="computed")

# %% [markdown]
# **Caches.** Between memory and the SMs (multiprocessors, which run the warps) lies the L2 cache,
# 60 MB on an H200. If you launch the same kernel on the same data again and again, it may find its
# data there: a **warm** cache. In a real program, other work comes in between: **cold**. Here a
# copy of few and of many bytes, both ways. At which size do they meet?

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
# <kbd>deepening</kbd>
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
# You copied only the needed parts in [lesson 02](02_an_image_from_its_svd.ipynb) (section 4). What
# does that save on the H200? Putting the columns of `u` in order takes the host some time, too.

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
# <kbd>deepening</kbd>
#
# ### Exercise: effective bandwidth and intensity
#
# A `rows × columns` image is rebuilt from k layers in so many milliseconds; all is float32. Return
# the **effective bandwidth**, needed bytes / time, in GB/s (10⁹ bytes a second), and the intensity.
# Count two operations for each pixel and layer: a multiplication and an addition.
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
# A roof is also a lie detector. A figure clearly **above** it is wrong. The kernel did not do all
# its work, the data was in a cache, the clock was read too early, or the counts are wrong. Why
# "clearly"? A measured roof is a measurement, and scatters as all do:

# %%
for figure in recorded("roofs", kernel="roof", gpu="H200"):
    print_roof(figure)

# %% [markdown]
# (`tensor_…` are units for small matrix products: [lesson 17](17_tensor_cores.ipynb).) Within this
# run most roofs are good to a thousandth. Those of the tensor cores scatter by some percent; why,
# was not measured. `benchmark` lets times pass up to 3% above a measured roof.

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
# All four points stand above each other: the same work on the same bytes. And all are far below the
# roof. A roofline tells **how much** is left, not what is in the way.

# %% [markdown]
# ## 13 What binds the first kernel?
#
# <kbd>deepening</kbd>
#
# One suspect is the loop of [lesson 02](02_an_image_from_its_svd.ipynb)'s kernel: how many
# instructions has a step? With the extra `compile` this cell asks the compiler. (A **register**
# holds a value of a thread; **spilled** ones are in memory.)

# %%
# NBVAL_IGNORE_OUTPUT
import re

from course import CompilerMissing, compiled

try:
    facts = compiled(reconstruct_naive, (*host, 8, host[0]), target="sm_90")
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
# step, a conversion and an addition, at 1/32 of the float32 rate. Each of its 40 SMs does 2 a
# cycle. If that binds, all runs of the project must fit it. The clock is not known: a T4 has 0.585
# GHz at base, 1.59 GHz at boost.

# %%
runs = {"2048, k = 256": (2048, 256, 52.9), "1024, k = 1024": (1024, 1024, 53.7)}
runs["2048, k = 2048"] = (2048, 2048, 157.5)
multiprocessors, float64_a_cycle = 40, 2
print("size               measured   float64 at base   at boost   (ms)")
for name, (size, rank, milliseconds) in runs.items():
    instructions = 2 * size * size * rank
    cycles = instructions / (multiprocessors * float64_a_cycle)
    base, boost = (cycles / (gigahertz * 1e6) for gigahertz in (0.585, 1.59))
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
# <kbd>deepening</kbd>
#
# **Claim 4**: blocks of 8×8 and of 16×16 are equally fast. On the T4 they took 52.9 and 53.2 ms, at
# 2048², k = 256. Three kernels, recorded on the H200 with k = 256, by shape and size:
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
# twice as slow. There x is on the rows, and a 32-wide block puts 32 rows under each warp. ([Lesson
# 04](04_warps_and_coalescing.ipynb) counts it.) So claim 4 held on a T4, where float64 seems to
# have hidden everything else, and it does not hold in general. Change **one thing at a time**, and
# ask what could hide what you look for.

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
# <kbd>deepening</kbd>
#
# A load from memory takes hundreds of cycles. A warp that waits for it is stalled. The SM goes on
# with **another warp**. That is called **latency hiding**, and it needs warps.
#
# An SM of a T4 holds at most 32 warps and 16 blocks, 65,536 registers and 64 KiB of shared memory.
# The resource that runs out first is the limit. **Theoretical occupancy** is the share of the 32
# warps that fit.

# %% [markdown]
# For a T4 the compiler gives `reconstruct_original` 44 registers a thread, none spilled (CUDA
# 13.0). How many warps are resident with blocks of 8×8? Think of blocks, too.

# %%
predict("warps on a T4's SM, blocks of 8 x 8", 32, exact=True)

# %%
from course import occupancy

for block in ((8, 8), (16, 16), (32, 32), (16, 1), (24, 24)):
    print(f"{block}:", occupancy("T4", block, registers=44))
warps = occupancy("T4", (8, 8), registers=44).warps
predict.answer("warps on a T4's SM, blocks of 8 x 8", warps, unit="warps", how="computed")

# %% [markdown]
# 8×8, 16×16 and 32×32 all fill it. (16, 1) wastes half of every warp, and only 16 blocks fit.
# (24, 24) are 18 warps a block, and a second block does not fit.

# %% [markdown]
# How much is that worth? Take a copy on the H200, and allow each SM 1, 2, 4, up to all 64 warps.
# Each thread copies float32 in one line, float64 in the other. With one warp on each SM the GPU
# reaches some 90 GB/s with float32. How many GB/s with 32 warps?

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
    lines, "warps on each SM", "GB/s", level=("best copy", memory), height=3.0,
    title="A copy on an H200, by resident warps (recorded)",
)  # fmt: skip

# %%
by_32 = recorded("measuring", kernel="copy by warps", variant="32 warps", dtype="float32")[0]
predict.answer("GB/s of a float32 copy by 32 warps", round(by_32.gigabytes_per_second), unit="GB/s")

# %% [markdown]
# Twice the warps, twice the speed, nearly all the way: the loads of all warps are in flight at the
# same time. Then the memory is busy, and the line bends.
#
# Now compare the two lines: float64 with 16 warps is as fast as float32 with 32. So **bytes in
# flight** count, not warps (Little's law: bytes in flight = rate × latency).

# %%
print("bytes in flight on an SM              float32   float64   (GB/s)")
(counts, four), (_, eight) = lines.values()
for place in range(1, len(counts)):
    print(f"{128 * counts[place]:37,} {four[place]:9,.0f} {eight[place - 1]:9,.0f}")

# %% [markdown]
# (One reason why the simple copy among the bars of the roofline stays at 57%: each of its threads
# moves 4 bytes.)
#
# So a full SM is no aim in itself. Threads with four loads in flight each need a quarter of the
# warps ([lesson 06](06_reuse_reuse_reuse.ipynb)). Raise theoretical occupancy where warps are
# **stalled** and few bytes are in flight.

# %% [markdown]
# And `reconstruct_naive`, at 2% of its roof? The compiler gave it 32 registers on the H200.
#
# The SM is full, and the kernel is slow all the same. More warps cannot help it.

# %%
registers = h200("reconstruct", "reconstruct_naive 32x8", "4096x4096x256", metric="registers")
print(occupancy("H200", (32, 8), registers=int(registers)))

# %% [markdown]
# ### Exercise: choose a block by occupancy
#
# A kernel needs so many `registers` and so many bytes of `shared` memory for **each thread**.
# Return the threads of a block, a multiple of 32 up to 1,024, with which an **H200's**
# SM holds the most warps. (It holds at most 64 warps and 32 blocks, 65,536 registers and 228 KiB of
# shared memory.) If several do, take any.
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
# <kbd>deepening</kbd>
#
# **Claim 5** compared CPU and GPU: 7.08 ms against 157.5 ms, NumPy at k = 256 against a kernel at
# k = 2048. That is eight times the work. Here are all four times, from one machine. The kernel is
# the project's own.

# %%
print("2048 x 2048     NumPy, 16 cores   the kernel, H200")
for layers in (256, 2048):
    shape = f"2048x2048x{layers}"
    by_cpu = h200("way of timing", "NumPy", shape)
    by_gpu = h200("way of timing", "events, queued, cold", shape)
    print(f"k = {layers:<12} {by_cpu:12.2f} ms {by_gpu:15.2f} ms")

# %% [markdown]
# Compare within a row, and the two are equally fast. Compare one row with the other, as claim 5
# did, and you can prove whatever you like. NumPy at k = 256 is 8 times as fast as the kernel at k =
# 2048. The kernel at k = 256 is 8 times as fast as NumPy at k = 2048.
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
# Given are rates, `cpu` and `gpu` in GFLOP/s and `link` (PCIe) in GB/s. `start` is the cost of
# launch and copies before a byte has moved, in ms. k is `n // 8`. Return the first of `sizes`
# (ascending) at which the GPU is faster, copies in and out included, and 0 if none is.
#
# - operations: 2 n² k
# - bytes over PCIe: 4 (2 n k + k + n²)
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
# <kbd>deepening</kbd>
#
# With a GPU, these cells repeat three experiments on it. First what a copy costs, and the one
# launch in six ways. Without a GPU, you see the bound of the simulated one's link.

# %%
# NBVAL_IGNORE_OUTPUT
transfers(16 * 1024**2)


# %%
# NBVAL_IGNORE_OUTPUT
from course_lessons.lesson03.own_gpu import by_block, six_ways

for name, milliseconds in (six_ways(host, k) if gpu() else {}).items():
    print(f"{name:15} {milliseconds:8.3f} ms")

# %% [markdown]
# Then the kernels of section 14, by block. Your figures are kept in a folder of yours, and shown
# beside the recorded ones. Without a GPU you get the bound of the simulated one: from the additions
# alone, at the best rate. So it lies below what section 13 found.

# %%
# NBVAL_IGNORE_OUTPUT
timings = by_block([*arrays, image], work["bytes"])
if gpu() is None:
    print("No GPU here, so no times.", timings[-1].bound, sep="\n")
else:
    table = measure.compare("measuring")
    print(table[["variant", "own", "recorded", "says"]].to_string(index=False))

# %% [markdown]
# ## What you should be able to say now
#
# - A launch returns at once. Wait before both readings of the clock, or use events.
# - First calls, copies and launches are real costs. Report each by itself.
# - Report median, quartiles, n, not the mean.
# - The bound is bytes / bandwidth or operations / rate, the longer. A time far below it is wrong.
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
# That is what launches cost. Either nobody waited for the work, or the work is too small. Ask for
# `synchronize`, and try a far larger size.
#
# </details>
#
# **2.** A copy reaches 6,000 GB/s on a GPU with 4,200 GB/s of memory. Is that wrong?
#
# <details><summary>Answer</summary>
#
# As a rate of the memory, yes. It may be the rate of a warm L2 cache. How much data was it, and was
# it the same in each launch?
#
# </details>
#
# **3.** When is it right to leave the copies out of a time?
#
# <details><summary>Answer</summary>
#
# When the data stays on the GPU, before and after. A program that sends an image and gets one back
# pays for them.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Take a speed-up from a paper or a blog. Which points of section 8 does it leave out?
# - With a GPU: `python -m course bench measuring` in a terminal. Where is your crossing?

# %% [markdown]
# ## Common misconceptions
#
# - *"The first call is slow because the GPU is cold."* It compiles; its frequency and caches come
#   after.
# - *"The shortest time is the true one."* It may have had luck: a warm cache, say.
# - *"synchronize() makes my program slower, so it does not belong in a measurement."*
# - *"More warps are more speed."* Bytes in flight count (section 15).
# - *"The simulator took 3 s, so ..."* It counts; it has no clock.

# %% [markdown]
# ## What to read next
#
# - [Performance metrics in CUDA
#   C/C++](https://developer.nvidia.com/blog/how-implement-performance-metrics-cuda-cc/) by Mark
#   Harris.
# - [Roofline: an insightful visual performance model](https://doi.org/10.1145/1498765.1498785) by
#   Williams, Waterman and Patterson.
# - [Scientific benchmarking of parallel computing systems](https://doi.org/10.1145/2807591.2807644)
#   by Hoefler and Belli: twelve ways to tell the truth.
# - Next in the course: [lesson 04](04_warps_and_coalescing.ipynb), Warps and coalescing.
