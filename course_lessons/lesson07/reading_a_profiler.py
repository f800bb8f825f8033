# %% [markdown]
# # 07 Reading a profiler
#
# So far you timed and counted. A profiler watches: it shows *when* everything ran, and *what* a
# kernel did with its time. Here you learn to read both, and check three inferences of earlier
# lessons: two hold, one falls.

# %% [markdown]
# ## What you will do
#
# - Read a program's timeline.
# - Read a kernel's counters, and predict them.

# %% [markdown]
# ## What you will learn
#
# - Which of NVIDIA's two profilers answers which question.
# - How to tell a kernel that computes from one that waits.

# %% [markdown]
# ## What you need
#
# Lessons [03](03_measuring_honestly.ipynb) to [06](06_reuse_reuse_reuse.ipynb), of 06 the core.
# Everything was recorded on an NVIDIA H200.

# %% [markdown]
# ## How long it takes
#
# Six exercises. Break after section 4.

# %% [markdown]
# ## 1 Two questions, two tools
#
# <kbd>core</kbd>
#
# | | Nsight Systems (`nsys`) | Nsight Compute (`ncu`) |
# |---|---|---|
# | asks | when did what run? | what did this kernel do? |
# | looks at | the whole program | one launch at a time |
# | shows | a timeline | counters of the hardware |
# | costs | little | each launch is run many times |
#
# In this order: a kernel that takes a tenth of the time is not worth a day.

# %% [markdown]
# ## 2 Name your phases
#
# <kbd>core</kbd>
#
# A profiler knows calls, not *why* you make them. So name your phases. This program reads factors
# from files, and rebuilds one image after the other, as the first project did:

# %%
import inspect

import numpy as np

from course import check, predict, progress
from course_lessons.lesson07 import phases, pictures, profile

print(inspect.getsource(phases.first_way))

# %% [markdown]
# `phase` makes a context manager of a name: something that `with` takes. **NVTX** is a library that
# puts such ranges on the timeline. CuPy and PyTorch bring it along:
#
# ```text
# from cupy.cuda.nvtx import RangePush, RangePop      # or torch.cuda.nvtx
#
# RangePush("copy in")
# ...
# RangePop()
# ```
#
# It costs next to nothing when no profiler is watching. Here is a `phase` that prints instead. Two
# tiny images:

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

with TemporaryDirectory() as folder:
    phases.write_factors(Path(folder), images=2, size=64)
    rebuilt = phases.rebuild("first", Path(folder), images=2, k=8, phase=phases.printing())
print(len(rebuilt), "images")

# %% [markdown]
# On a GPU machine this is how you point the tools at it, in a terminal:
#
# ```text
# nsys profile --trace=cuda,nvtx --output=phases python -m course_lessons.lesson07.phases
# ncu --clock-control none --nvtx --nvtx-include "image 1/launch kernel/" \
#     python -m course_lessons.lesson07.phases
# ```
#
# The first writes a file for Nsight Systems' window. The second reads counters, of the kernels in
# **one phase of one image** only: names are good for that. (Without `--clock-control none`, `ncu`
# holds the GPU at its base clock.)

# %% [markdown]
# ## 3 One image, row by row
#
# <kbd>core</kbd>
#
# This program was recorded on an H200 through NVIDIA's library **CUPTI**, as both tools do: four
# images of 2048×2048, k = 256. How long did each phase of *image 2* take?

# %%
events = profile.timeline("first", 2)
for name in phases.PHASES:
    print(f"{name:15} {profile.phase(events, name).milliseconds:6.2f} ms")

# %% [markdown]
# A **timeline** shows more: time runs to the right. The two upper rows are the CPU: its phases, and
# its calls that launch kernels. The others are the GPU, a row for each part that can work by
# itself: copying in, computing, copying out.
#
# The phase *launch kernel* was short. How long did the *kernel* take on the GPU's row, in ms?
# ([Lesson 03](03_measuring_honestly.ipynb) had the project's kernel, with the same size and k.)

# %%
predict("ms of the kernel on the GPU's row", 2, within=1.5)

# %%
kernels = profile.row(events, "GPU: kernels")
kernel_time = round(profile.busy(kernels), 1)
predict.answer("ms of the kernel on the GPU's row", kernel_time, unit="ms")

# %%
pictures.timeline_picture(events, "image 2, as the first project did it")

# %% [markdown]
# Read it from left to right, and always down from the CPU to the GPU:
#
# - While factors are loaded, the GPU has **nothing** to do: a gap in all its rows.
# - A copy on the GPU begins after its phase did, and between two copies there is a gap again:
#   `to_device` gets memory first, each time anew.
# - The phase *launch kernel* is over long before the kernel is. A launch only puts work into a
#   queue.
# - The phase *copy out* begins with waiting: for the kernel.

# %% [markdown]
# So for how many ms of the phase *copy out* did the GPU not copy, but compute? Look at the picture
# and estimate.

# %%
predict("ms of the kernel under the phase copy out", 2.4, within=1.25)

# %%
copy_out = profile.phase(events, "copy out")
hidden = profile.together([copy_out], kernels)
launch = profile.phase(events, "launch kernel").milliseconds
print(f"phase 'launch kernel' {launch:.2f} ms, phase 'copy out' {copy_out.milliseconds:.2f} ms")
predict.answer("ms of the kernel under the phase copy out", round(hidden, 1), unit="ms")

# %% [markdown]
# Whoever puts a host's clock around these phases reads: the kernel is free, and copying out is
# expensive. **A phase on the CPU's row says how long the CPU was in it**, and no more. For the
# work, read the GPU's rows.

# %% [markdown]
# First question to any timeline: for how much of the time does the GPU do anything? And do its rows
# ever work at the same time? `busy` counts in how many ms at least one of the events was running.

# %%
predict("% of image 2 in which the GPU was busy", 60, within=1.25)

# %%
image = profile.phase(events, "image 2")
gpu = profile.row(events, "GPU")
rows = ("GPU: copies in", "GPU: kernels", "GPU: copies out")
for name in rows:
    print(f"{name:16} {profile.busy(profile.row(events, name)):6.2f} ms")
print(f"all GPU rows     {profile.busy(gpu):6.2f} ms of {image.milliseconds:.2f} ms")
share = 100 * profile.busy(gpu) / image.milliseconds
predict.answer("% of image 2 in which the GPU was busy", round(share), unit="%")

# %% [markdown]
# The three rows add up to the time of all: no two of them ever worked at once. And there are gaps
# in between.
#
# **Is the program bound by copies, then?** On this machine they take longer than the kernel. On the
# project's T4 it was the other way round: 53 of 69 ms were the kernel. So ask *your* timeline what
# binds your program.

# %% [markdown]
# ## 4 Speed of light
#
# <kbd>core</kbd>
#
# Nsight Compute's first page is called *speed of light*: how near did the hardware come to what it
# can do?
#
# - **SM throughput**: of all that computes and starts instructions in an SM (multiprocessor), the
#   busiest part, in percent of its peak.
# - **Memory throughput**: the same of all that moves data: L1 and shared memory, L2, device memory.
#
# (**L1** is the cache inside each SM. It and shared memory are one piece of hardware: while a
# number for the one passes, none for the other can.)

# %% [markdown]
# The counters of nine rungs of the ladder were recorded, at 4096×4096, k = 1024. Among them are
# *buffered*, *wide* with two buffers, and *warp tiles*, your last rung, tuned. The `original` has a
# memory throughput of almost 100%. So how busy was the **device memory** (DRAM), in percent?

# %%
predict("DRAM throughput of original, %", 90, within=3)

# %%
for metric in ("memory throughput", "DRAM throughput"):
    print(f"{metric:18} {profile.counter('original', metric):6.2f} %")
dram = profile.counter("original", "DRAM throughput")
predict.answer("DRAM throughput of original, %", dram, unit="%")

# %% [markdown]
# Idle! "Memory" is the whole way of a number, and what is full here is its nearest end: the L1
# cache with its uncoalesced loads. So never stop at the headline. Ask *which* part.

# %%
pictures.utilisation()

# %% [markdown]
# Device memory is idle in **every** rung: the factors fit in the L2 cache. In the rungs up to
# *square*, *naive* apart, L1 and shared memory are the fullest part. From *wide* on it is the SM.
# And the grey bars: the fastest kernels have the lowest achieved occupancy. Section 5 comes to
# that.

# %% [markdown]
# ### Exercise: what binds a kernel?
#
# Nsight Compute's own first rule, made simpler: if neither throughput reaches 60%, the kernel does
# not use the hardware, it is `"waiting"`. Else the larger one has the word: `"compute"` or
# `"memory"`. Return the word.
#
# <details><summary>Hint</summary>
#
# Ask first whether both are below 60. At 60 itself a kernel is not waiting.
#
# </details>


# %% tags=["exercise"]
def limiter(sm, memory):
    """Return "compute", "memory" or "waiting" for two throughputs [%]."""
    ### BEGIN SOLUTION
    if sm < 60 and memory < 60:
        return "waiting"
    return "compute" if sm >= memory else "memory"
    ### END SOLUTION


# %% tags=["check"]
check("speed-of-light", limiter)

# %%
for step in profile.steps():
    sm, memory = (profile.counter(step, f"{which} throughput") for which in ("SM", "memory"))
    full = "nearly full" if max(sm, memory) >= 80 else ""
    print(f"{step:11} SM {sm:3.0f} %  memory {memory:3.0f} %  {profile.limiter(step):8} {full}")

# %% [markdown]
# 60% says where to look first. It does not say that a part is full. The tool's rule goes on: from
# **80%** on it says that a part is used nearly to the full. Between 60 and 80 it names the larger
# one, and if the two are less than 10 apart, it calls them balanced.
#
# That is our yardstick, too, for every rung: from 80% on a part is nearly full, and the kernel
# stands at that roof. Between 60 and 80 a percentage decides nothing. Then ask what the **warps**
# do meanwhile: do they wait for that part, or for something else? Section 5 has the counters, and
# section 9 asks them.

# %% [markdown]
# ## 5 Occupancy, and what warps wait for
#
# <kbd>core</kbd>
#
# **Achieved or theoretical occupancy** is how many warps are on an SM, of the most that it can
# hold. The *theoretical* one follows from registers and shared memory ([lesson
# 03](03_measuring_honestly.ipynb)). The *achieved* one is counted: the grey bars of section 4.
# *warp tiles* has 24%.
#
# An SM of an H200 has places for 64 warps, in four quarters. Each quarter has a **scheduler**,
# which in each cycle starts an instruction of one of its own warps. How many warps has a scheduler
# to choose from in *warp tiles*?

# %%
predict("warps for a scheduler, warp tiles", 4, within=1.25)

# %%
print("             theoretical   achieved   issue slots busy   time")
for step in profile.steps():
    names = ("theoretical occupancy", "achieved occupancy", "issue slots", "duration")
    theory, achieved, issue, milliseconds = (profile.counter(step, name) for name in names)
    print(f"{step:12} {theory:9.0f} % {achieved:8.0f} % {issue:16.0f} % {milliseconds:8.2f} ms")
warps = profile.counter("warp tiles", "active warps")
predict.answer("warps for a scheduler, warp tiles", round(warps, 1), unit="warps")

# %% [markdown]
# Not even four, and it is the fastest rung. Warps are there to hide each other's waiting; four are
# enough if they seldom wait. Another counter tells that: how often a scheduler finds a warp that
# can go on.
#
# If `warps` are there, and in each cycle `issued` instructions start, how many cycles pass from one
# instruction of a warp to its next? Take *tiled*: its achieved occupancy and how busy its issue
# slots are stand in the table above.

# %%
predict("cycles between two instructions of a warp, tiled", 20, within=1.25)

# %%
for step in ("tiled", "warp tiles"):
    warps, issued = (profile.counter(step, name) for name in ("active warps", "issued a clock"))
    print(f"{step:10} {warps:5.1f} warps, {issued:.2f} instructions a cycle: ", end="")
    print(f"{warps / issued:.1f} cycles; counted {sum(profile.stalls(step).values()):.1f}")
tiled = profile.counter("tiled", "active warps") / profile.counter("tiled", "issued a clock")
predict.answer("cycles between two instructions of a warp, tiled", round(tiled), unit="cycles")

# %% [markdown]
# (That is Little's law, from [lesson 03](03_measuring_honestly.ipynb): how many are in flight = how
# often one starts × how long it takes.) And what does a warp do in these cycles? The hardware notes
# that, too. A **stall reason** is why a warp does not issue its next instruction.

# %%
pictures.stall_bars()

# %% [markdown]
# How to read a bar:
#
# - **Green** is no waiting. *selected*: the warp issues. *not_selected*: it could, but the
#   scheduler took another one. Much hatched green means warps to spare.
# - *long_scoreboard*: a number from global memory is not there yet. *lg_throttle* (local, global):
#   so many loads that their queue is full.
# - *short_scoreboard*, *mio_throttle* (memory input and output): the same for shared memory.
# - *math_pipe_throttle*: the unit for it is taken. *barrier*: `syncthreads`.
#
# Shares hide the length: look at the cycles at the right.

# %% [markdown]
# ### Exercise: what does a warp wait for most?
#
# `clocks` is a dictionary: for each state, the cycles that a warp spends in it between two
# instructions. Return two things: the state with the most waiting, and its share of **all** cycles.
#
# <details><summary>Hint</summary>
#
# A warp that is `"selected"` or `"not_selected"` does not wait. `max(names, key=clocks.get)` finds
# the name with the largest value.
#
# </details>


# %% tags=["exercise"]
def main_stall(clocks):
    """Return the state with the most waiting, and its share of all cycles."""
    ### BEGIN SOLUTION
    waiting = [state for state in clocks if state not in ("selected", "not_selected")]
    worst = max(waiting, key=clocks.get)
    return worst, clocks[worst] / sum(clocks.values())
    ### END SOLUTION


# %% tags=["check"]
check("main-stall", main_stall)

# %%
for step in profile.steps():
    reason, share = profile.main_stall(step)
    print(f"{step:11} {share:4.0%} {reason:19} {profile.STALLS[reason]}")

# %% [markdown]
# The stalls tell the story of a ladder. Queues to global memory are full (uncoalesced loads); then
# a unit for integers is taken. Then numbers come from memory, between two barriers; then the queue
# to shared memory is full. At the end no reason stands out. Then the kernel is done, or needs
# another idea.
#
# A warning. A stall is only worth curing if the issue slots are *not* full. In *warp tiles* a warp
# waits for a quarter of its time, and it hardly matters: mostly another one can go on.

# %% [markdown]
# ## 6 What start-up explains
#
# <kbd>deepening</kbd>
#
# Section 3 looked at one image of a run of four. Now the whole run. How much of it was over, in
# percent, when the second image began? (Images count from 0, so the second one is *image 1*.)

# %%
predict("% of the run before the second image", 40, within=1.1)

# %%
run = profile.timeline("first")
whole = max(event.end for event in run)
second = profile.phase(run, "image 1").start
predict.answer("% of the run before the second image", round(100 * second / whole), unit="%")

# %%
pictures.timeline_picture(run, "the whole run: four images")

# %% [markdown]
# The first bar is the **start-up**: Numba is imported, the GPU's *context* is made (what the driver
# keeps there for a program), a test kernel is compiled. The next long bar is the *first* launch:
# there the program's kernel is compiled. The other images are the thin lines at the very right.
# (The faint marks below the start-up are a first call and the test kernel, with its copies.)

# %%
print("ms         " + "".join(f"{name:>15}" for name in phases.PHASES))
for image in range(4):
    events = profile.timeline("first", image)
    times = [profile.phase(events, name).milliseconds for name in phases.PHASES]
    print(f"image {image}    " + "".join(f"{time:15.2f}" for time in times))

# %% [markdown]
# The first project looked at such a timeline, too, and found the reason for its long times in it:
# the overhead of starting up. Its times, on a Tesla T4: 52.9 ms for the kernel, 69.2 ms with the
# copies. They were read **after** the start-up.
#
# Suppose that start-up and compiling took no time at all. By how many ms would *image 2* of our run
# be shorter?

# %%
predict("ms that image 2 gains if start-up costs nothing", 0, exact=True)

# %%
start_up = profile.phase(run, "start up")
image = profile.phase(run, "image 2")
print(f"start-up ends at {start_up.end:.0f} ms, image 2 begins at {image.start:.0f} ms")
gained = profile.together([start_up], [image])
predict.answer("ms that image 2 gains if start-up costs nothing", gained, unit="ms")

# %% [markdown]
# Nothing. **A time cannot hold work that was over before it began.** Start-up explains the time of
# the whole program, and of a first call ([lesson 03](03_measuring_honestly.ipynb): the 186 ms). It
# explains none of the times that were measured later.
#
# What does explain them? The timeline of one of the later images: section 3.

# %% [markdown]
# ## 7 The same work, tidied up
#
# <kbd>deepening</kbd>
#
# `course_lessons.lesson07.phases` knows a second way, "tidy". It reads and copies only the k
# columns and rows that are needed ([lesson 03](03_measuring_honestly.ipynb)). They go through
# **pinned** memory that it keeps. And it launches the ladder's kernel for float32, *warp tiles*.
# How many times as fast is an image?

# %%
predict("tidy, times as fast", 5, within=2, no_effect=1)

# %%
tidy = profile.timeline("tidy", 2)
tidy_image = profile.phase(tidy, "image 2")
pictures.timeline_picture(tidy, "image 2, tidied up; mind the axis")

# %%
faster = image.milliseconds / tidy_image.milliseconds
predict.answer("tidy, times as fast", round(faster, 1))

# %% [markdown]
# And for how much of *this* image is the GPU busy?

# %%
predict("% of the tidy image in which the GPU was busy", 80, within=1.5)

# %%
gpu = profile.row(tidy, "GPU")
for name in rows:
    print(f"{name:16} {profile.busy(profile.row(tidy, name)):6.3f} ms")
share = 100 * profile.busy(gpu) / tidy_image.milliseconds
predict.answer("% of the tidy image in which the GPU was busy", round(share), unit="%")

# %% [markdown]
# Much faster, and much idler. Now the CPU is what everybody waits for: it loads, and it asks, call
# by call. Look at *copy in*: three copies of hundredths of a millisecond, in a phase of half a
# millisecond. The kernel is 2% of the time: a faster one would gain next to nothing. What would?
#
# - Load the next image **while** the GPU works: [lesson 09](09_a_thousand_images.ipynb).
# - Let copies and kernels of different images overlap: [lesson 08](08_streams.ipynb).
#
# You read that from the gaps. No counter would have told you.

# %% [markdown]
# ### Exercise: how long was a row busy?
#
# A row of a timeline is a list of spans, `(start, end)` in ms, in any order. Return for how many ms
# at least one of them was running. Spans may overlap.
#
# <details><summary>Hint</summary>
#
# Go through `sorted(spans)`, and keep the latest end so far. Of each span only what lies behind
# that is new.
#
# </details>


# %% tags=["exercise"]
def busy_time(spans):
    """Return the time in which at least one span was running [ms]."""
    ### BEGIN SOLUTION
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
    ### END SOLUTION


# %% tags=["check"]
check("busy-time", busy_time)

# %% [markdown]
# ### Exercise: two rows at once
#
# `first` and `second` are two rows. Return for how many ms both were busy. The spans *within* a row
# do not overlap. This is the figure that [lesson 08](08_streams.ipynb) wants to raise.
#
# <details><summary>Hint</summary>
#
# Two spans share the time from the later start to the earlier end, if there is any.
#
# </details>


# %% tags=["exercise"]
def together(first, second):
    """Return the time in which both rows were busy [ms]."""
    ### BEGIN SOLUTION
    total = 0.0
    for a in first:
        for b in second:
            total += max(0.0, min(a[1], b[1]) - max(a[0], b[0]))
    return total
    ### END SOLUTION


# %% tags=["check"]
check("together", together)

# %% [markdown]
# ## 8 Predicted, and counted
#
# <kbd>deepening</kbd>
#
# A counter alone says little. A counter beside a **prediction** says whether you understood. You
# can predict: the trace counts requests, sectors and wavefronts, on a small image. With each
# further step i of the sum over k, and each further block, their numbers grow by the same amount.
# So two traces of 256×256 pixels tell the counts of 4096×4096.

# %% [markdown]
# A **product** is, as in [lesson 06](06_reuse_reuse_reuse.ipynb), a multiplication with its
# addition, of a whole warp: one for each i. Blocks have 16×16 threads: a warp has 16 values of x
# and 2 of y. In `original` x walks down the rows, in `naive` along the columns. For one i a thread
# loads `u[row, i]`, `s[i]` and `vt[i, column]`.
#
# How many sectors does a warp of `original` load for a product, all three together?

# %%
predict("sectors that original loads for a product", 18, exact=True)

# %%
products = profile.products()  # of whole warps, in the profiled launch
for step in ("original", "naive"):
    expected = profile.predicted(step, "global load sectors")
    counted = profile.counter(step, "global load sectors")
    print(f"{step:9} predicted {expected:,.0f} sectors, counted {counted:,.0f}")
expected = profile.predicted("original", "global load sectors") / products
predict.answer("sectors that original loads for a product", round(expected, 1), how="counted")

# %% [markdown]
# Nearly ten thousand million sectors, predicted to the last one from an image of 256×256. Now all
# nine rungs, and all eight counts of the trace. Where do prediction and counter differ by more than
# a tenth? (Counts that are 0 on both sides are left out.)

# %%
agree = 0
for step in profile.steps():
    for name in profile.TRAFFIC:
        expected, counted = profile.predicted(step, name), profile.counter(step, name)
        if not expected and not counted:
            continue
        close = abs(expected - counted) <= 0.1 * counted
        agree += close
        if not close:
            print(f"{step:8} {name:23} {expected / products:6.3f} for a product, ", end="")
            print(f"counted {counted / products:6.3f}")
print(f"\n{agree} others agree")

# %% [markdown]
# Two kernels. Both read *neighbours* in shared memory, in a loop that is unrolled. The **compiler**
# puts four such reads into one instruction of 16 bytes ([lesson 06](06_reuse_reuse_reuse.ipynb)
# does it by hand, with `load4`). And `tiled` stores a zero that is written over at once: one of the
# two stores goes. The trace counts your source. The hardware counts what the compiler made of it.
#
# **Lesson 06 refuted.** There *square* seemed to stand at the roof of shared memory, with ¾ of a
# wavefront for each product, and even a little above it. The counter says ½. So its roof is higher,
# and the kernel does **not** stand at it.

# %% [markdown]
# ### Which part is busiest?
#
# From the same counts follows how busy L1 and shared memory should be. They do one **pass** a
# cycle: a wavefront over the banks, or one **line** of the cache, 128 bytes, of a global load.

# %% [markdown]
# ### Exercise: lines of a load
#
# `elements` are the numbers that the 32 lanes of a warp read, as places in a float32 array that
# begins at a line. Return how many lines of 128 bytes they touch.
#
# <details><summary>Hint</summary>
#
# 128 bytes are 32 numbers. In which line lies element 70?
#
# </details>


# %% tags=["exercise"]
def lines_of_a_load(elements):
    """Return how many lines of 128 bytes the elements lie in."""
    ### BEGIN SOLUTION
    return len(np.unique(elements // 32))
    ### END SOLUTION


# %% tags=["check"]
check("lines-of-a-load", lines_of_a_load)

# %% [markdown]
# For one i a warp loads from `u`, from `s` and from `vt`. How many lines are that together for
# `original`, how many for `naive`?

# %%
predict("lines for an i: original, naive", 18, 4, exact=True, numbers=2)

# %%
counted = []
for step in ("original", "naive"):
    busy = profile.counter(step, "L1 wavefronts") / 100  # share of all cycles
    counted.append(busy * profile.clocks_taken(step))
    print(f"{step:9} predicted {profile.wavefronts(step):6.2f}  counted {counted[-1]:6.2f}")
predict.answer("lines for an i: original, naive", tuple(round(count) for count in counted))

# %%
pictures.predicted_bars()

# %% [markdown]
# The axis is logarithmic: from the first rung to the last, passes for a product fall to a 97th.
# Only *tiled* and *square* stand out, for the reason that you know. A pass takes a cycle of L1. The
# issue slots start four instructions a cycle, and the FMA units take four warps' FMA. (Instructions
# are predicted from the inner loop alone, so there are more: [lesson
# 06](06_reuse_reuse_reuse.ipynb).) The part with the **most cycles for an FMA** should be the
# busiest. In how many of the nine rungs is it?

# %%
predict("steps of nine whose busiest part is predicted", 7, exact=True)

# %%
right = 0
print("            cycles for a product: predicted      busy: counted")
print("            L1 passes   issue   float32          L1 passes   issue   float32")
for step in profile.steps():
    parts = profile.busy_parts(step).values()
    expected, found = profile.busiest(step)
    right += expected == found
    print(f"{step:11}", *[f"{part.clocks:9.3f}" for part in parts], end="      ")
    print(*[f"{part.share:8.0f}%" for part in parts], "" if expected == found else "  no")
question = "steps of nine whose busiest part is predicted"
predict.answer(question, right, how="counted")

# %% [markdown]
# The prediction names the busiest part, each time. It does not say *how* busy that part gets: no
# rung reaches 100%, since warps also wait. (`nan`: no inner loop of the original is known. The
# float32 units also multiply integers, for addresses.)
#
# **[Lesson 06](06_reuse_reuse_reuse.ipynb) confirmed.** *tiled* does stand at its roof: the busiest
# part is 91% busy. It has fewer wavefronts than its source, but what it loads from global memory
# passes through the same hardware.

# %% [markdown]
# ## 9 Between 60% and 80%
#
# <kbd>deepening</kbd>
#
# So ask the warps of *naive* and of *square*.
#
# **[Lesson 03](03_measuring_honestly.ipynb) confirmed.** There `naive` was far from both roofs, and
# the suspicion was: instructions for addresses. The counters:

# %%
instructions = profile.counter("naive", "instructions") / products
print(f"instructions for a product  {instructions:5.1f}, 2 of them compute")
for metric in ("issue slots", "ALU pipe", "uniform pipe", "FMA pipe", "L1 wavefronts"):
    print(f"{metric:24} {profile.counter('naive', metric):6.1f} % busy")


def of_a_warp(step, *states):
    """Return the share of a warp's time in some states [%]."""
    clocks = profile.stalls(step)
    return 100 * sum(clocks.get(state, 0) for state in states) / sum(clocks.values())


print(f"waiting for memory       {of_a_warp('naive', 'long_scoreboard'):6.1f} % of a warp's time")
print(f"waiting for a unit       {of_a_warp('naive', 'math_pipe_throttle'):6.1f} %")
print(f"ready                    {of_a_warp('naive', 'selected', 'not_selected'):6.1f} %")

# %% [markdown]
# Two parts are three quarters busy: the issue slots and the *uniform* pipe. That pipe computes what
# a whole warp shares: here, parts of addresses. The ALU (other integers), float32 and memory have
# much room. By our yardstick 74% alone would decide nothing. But see what the warps do: next to
# none waits for memory. They are ready and another one is taken, or they wait for a unit. So there
# are too many instructions, as was inferred, and even more of them than the 28 that PTX showed.

# %% [markdown]
# In the table of section 4 the rule says `memory` of *square*, with 77%. That is between 60 and 80,
# as 74% for *naive* is. So ask its warps the same question:

# %%
for step in ("naive", "square"):
    ready = of_a_warp(step, "selected", "not_selected")
    unit = of_a_warp(step, "math_pipe_throttle", "mio_throttle", "lg_throttle")
    numbers = of_a_warp(step, "long_scoreboard", "short_scoreboard", "barrier")
    print(f"{step:7} ready {ready:2.0f}%, for a unit or its queue {unit:2.0f}%, ", end="")
    print(f"for numbers or each other {numbers:2.0f}%")

# %% [markdown]
# In *naive* nearly everybody is ready, or stands in line for a unit. In *square* the largest part
# of the waiting is for shared memory, for global memory, for each other, and issue slots have room.
# That is **latency**, not a roof.

# %% [markdown]
# [Lesson 06](06_reuse_reuse_reuse.ipynb) left open what keeps *column* below both of its roofs, and
# inferred waiting at the barrier. That is less than a tenth of a warp's time. For more than a third
# the warp is ready, and another one is taken. L1 is 85% busy, the issue slots 75% (section 8): it
# stands near **two** roofs at once.

# %% [markdown]
# ## 10 What watching costs
#
# <kbd>deepening</kbd>
#
# Nsight Compute cannot read all counters at once. It runs a launch again and again, with memory put
# back and caches emptied before each pass. So is the *duration* that it shows still the kernel's?

# %%
from course_lessons.lesson06 import ladder

print("            under ncu   recorded by events")
for step in profile.steps():
    watched, alone = profile.counter(step, "duration"), ladder.recorded(step).median
    print(f"{step:11} {watched:7.3f} ms {alone:10.3f} ms   {watched / alone:.2f} times")

# %% [markdown]
# For these long kernels it is, to a percent: their data are loaded once and used a thousand times.
# A short kernel would start each pass with empty caches. And the *program* takes many times as
# long.
#
# A timeline has its price, too. What a launch costs the host, alone and in the watched program:

# %%
alone = ladder.recorded("warp tiles", "launch").median
watched = profile.phase(tidy, "launch kernel").milliseconds
print(f"launching warp tiles: alone {alone:.3f} ms, in the timeline {watched:.3f} ms")

# %% [markdown]
# So take times from a program that nobody watches, and use the profiler for the **why**.
#
# **On your machine.** The next cell says which tools are here. It records the tidy program with
# Nsight Systems, or else with PyTorch's profiler, and one phase of one image with Nsight Compute.
# What is missing it names, and says what to do.

# %%
# NBVAL_IGNORE_OUTPUT
from course_lessons.lesson07 import record

for tool, place in record.tools().items():
    print(f"{tool:8} {'here' if place else 'not here'}")
record.timeline_here("tidy")
record.counters_here()

# %% [markdown]
# ## 11 Kernels that nobody shows you
#
# <kbd>core</kbd>
#
# Often you have no source: the kernel is a library's, or somebody else's. Here are five. Each goes
# over the same 512 × 512 numbers, reads each once and writes each once. Their counters were traced,
# just now; below each stands the name under which Nsight Compute has it. Such a name is read from
# its end: `op_ld` are loads, `mem_global` is where, `t_sectors` is what, `l1tex` is who counted.

# %%
from course_lessons.lesson07 import suspects

print(suspects.table())

# %% [markdown]
# ### Exercise: what is wrong with them?
#
# Return a dictionary with a word for each of A to E: `"uncoalesced"`, `"bank conflicts"`, `"too few
# blocks"`, `"float64"` (it computes in float64, on float32 numbers), or `"nothing"`. They are for
# an H200 with its 132 SMs.
#
# <details><summary>Hint</summary>
#
# A single number says little: divide. How many sectors has a request, of loads, of stores? How many
# wavefronts are conflicts? How many numbers has a thread?
#
# </details>


# %% tags=["exercise"]
def diagnosis():
    """Return what is wrong with each kernel, by its letter."""
    ### BEGIN SOLUTION
    return {
        "A": "bank conflicts",
        "B": "float64",
        "C": "uncoalesced",
        "D": "nothing",
        "E": "too few blocks",
    }
    ### END SOLUTION


# %% tags=["check"]
check("unseen-kernels", diagnosis)

# %% [markdown]
# What says so, and the source at last, of those that you named rightly:

# %%
print(suspects.revealed(diagnosis()))

# %% [markdown]
# Two things to keep. A count alone accuses nobody: divide it by the requests, by the numbers, by
# the SMs. And counters of *work* do not show who is *idle*.

# %%
progress(7)

# %% [markdown]
# ## What you should be able to say now
#
# - First the timeline, then the counters.
# - A phase on the CPU's row is the time that the CPU was in it. Work is on the GPU's rows.
# - Gaps in the GPU's rows are time to win. What is over before a measurement explains nothing in
#   it.
# - Speed of light names the busiest part; "memory" need not be device memory.
# - A counter beside a prediction shows what the compiler did behind your back.
# - Low achieved occupancy is no fault, if the warps that are there do not wait.

# %% [markdown]
# ## Questions
#
# 1. A colleague's timeline shows `cudaMemcpy` as 80% of the CPU's time. Is the program bound by
#    copies?
# 2. A kernel has 95% memory throughput and 2% DRAM throughput. Where do you look?
# 3. Both throughputs are 30%, the achieved occupancy is 100%. What now?
#
# <details><summary>Answers</summary>
#
# 1. Perhaps. The call may be waiting for a kernel. Look at the GPU's rows.
# 2. At L1 and shared memory: uncoalesced loads, bank conflicts.
# 3. The warps wait. Look at the stall reasons.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Draw the timeline of image 0, and find where its kernel was compiled.
# - How long is the longest gap of the GPU in the tidy image? Write a function that finds it.
# - Copy `u`, `s` and `vt` in one piece. How much shorter could *copy in* be, by the timeline?
# - Trace *column* with `s` multiplied into `vt` instead. Which part should then be busiest?
# - With a GPU: profile one of your own kernels of [lesson 06](06_reuse_reuse_reuse.ipynb), and
#   predict its counters before.

# %% [markdown]
# ## Common misconceptions
#
# - *"The launch takes as long as the kernel."* It is over before the kernel begins, or nearly.
# - *"Start-up makes the GPU slow."* Once. See section 6.
# - *"Memory bound means device memory."* See the red bars of section 4.
# - *"High utilisation is good."* The `original` has the highest of all, and is the slowest.
# - *"Every stall must be cured."* Only if nobody else can go on.
# - *"The profiler's time is the time."* It is the time of a watched program.

# %% [markdown]
# ## What to read next
#
# - NVIDIA, [Nsight Systems user
#   guide](https://docs.nvidia.com/nsight-systems/UserGuide/index.html): what can be traced, and
#   how.
# - NVIDIA, [Nsight Compute profiling
#   guide](https://docs.nvidia.com/nsight-compute/ProfilingGuide/index.html): every counter, every
#   stall reason.
# - NVIDIA, [NVTX](https://nvidia.github.io/NVTX/): ranges with colours and categories.
# - Next in the course: [lesson 08](08_streams.ipynb), Streams.
