# %% [markdown]
# # 08 Streams
#
# While a GPU computes one image, it can fetch the next and send back the one before. In an
# experiment that you repeat, that made a program slower. You find out why, and fix it step by step.

# %% [markdown]
# ## What you will do
#
# - Draw timelines of a GPU's engines, by a model and as they were recorded.
# - Fix a program of 32 images, one fault after another, and predict each gain.

# %% [markdown]
# ## What you will learn
#
# - Streams and engines, and which work must wait for which.
# - What overlap can give at most, and the price of pinned memory.

# %% [markdown]
# ## What you need
#
# Lessons [02](02_an_image_from_its_svd.ipynb) and [03](03_measuring_honestly.ipynb): the
# reconstruction, queues, transfers, honest times. Section 5 runs your kernel of [lesson
# 06](06_reuse_reuse_reuse.ipynb), if you have one.
#
# **Without a GPU** you see a **model** of the overlap, computed from recorded bandwidths, and
# timelines **recorded** on an NVIDIA H200. The simulator tells whether programs with streams are
# right, but has no time.

# %% [markdown]
# ## How long it takes
#
# After section 5 is a good place for a break.

# %%
# NBVAL_IGNORE_OUTPUT
import numpy as np

from course import check, gpu, predict, progress, recorded
from course_lessons import lesson08 as streams
from course_lessons.lesson08 import plots

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 Ten images, slower
#
# <kbd>core</kbd> 5 minutes
#
# The student project behind this course rebuilt ten images of 1024² on a Tesla T4. One after the
# other they took 36.8 ms, with a **stream** for each image 44.0 ms. (A stream is a queue of work:
# section 2.) That is 0.84×. The text beside it spoke of a "significant speedup".
#
# Nothing is wrong with the idea. A GPU has parts that can work at the same time, its **engines**:
# one copies in, one computes, one copies out. Each image needs all three, one after the other. Here
# is a model of six images, 1 ms for each step.

# %%
equal = streams.Stage(copy_in=1.0, kernel=1.0, copy_out=1.0)
in_a_row = streams.schedule(equal, images=6, streams=1)
plots.gantt(in_a_row, "a model: six images, one after the other")

# %% [markdown]
# At any time one engine works, and two are idle. How many times faster could a long row of images
# be at most, if the engines worked at the same time?

# %%
predict("the most that overlap can give, times", 3, exact=True)

# %%
predict.answer(
    "the most that overlap can give, times", equal.total / equal.busiest(), how="computed"
)
plots.gantts(
    {f"a model: {n} stream{'s' * (n > 1)}": streams.schedule(equal, 6, streams=n) for n in (1, 3)},
    marks={"when the busiest engine could be done": streams.least_length(equal, images=6)},
)

# %% [markdown]
# Three engines, so at most three times, and only if they all have equally much to do. Six images
# gain 18 / 8 = 2.25 times only: at the start and at the end some engines have nothing to do yet, or
# nothing left. The longer the row, the less that counts.
#
# Remember that figure. Whoever claims ten times from streams alone has fixed something else, too.

# %% [markdown]
# ## 2 The busiest engine
#
# <kbd>core</kbd> 20 minutes
#
# In a real program the three steps differ. Say an image needs 1 ms to come in, 1.5 ms to be
# computed and 2 ms to go out. There are enough streams. How long do six images take, in ms?

# %%
predict("ms for six images", 14.5, exact=True)

# %%
uneven = streams.Stage(copy_in=1.0, kernel=1.5, copy_out=2.0)
six = streams.schedule(uneven, images=6, streams=3)
predict.answer("ms for six images", streams.length(six), unit="ms", how="computed")
plots.gantt(six, "a model: 1, 1.5 and 2 ms", marks={"bound": streams.least_length(uneven, 6)})

# %% [markdown]
# The copies out stand side by side, without a gap: six times 2 ms. Before the first of them, an
# image had to come in and be computed: 2.5 ms.
#
# So **the bound is the busiest engine**: its time for one image, times the images. No order and no
# number of streams goes below. To be faster still, you must give that engine less to do.
#
# The same timeline, drawn by streams. A **stream** is a queue: it does its work in the order in
# which you queued it. Different streams know nothing of each other.

# %%
plots.gantt(six, "the same, a row for each stream", rows="stream")

# %% [markdown]
# In Numba a stream is an object that you hand to copies and launches. The call returns at once, and
# the work waits in the stream:
#
# ```python
# stream = cuda.stream()
# on_gpu.copy_to_device(on_host, stream=stream)
# kernel[grid, block, stream](on_gpu, out_on_gpu)
# out_on_gpu.copy_to_host(out, stream=stream)
# stream.synchronize()              # now `out` may be read
# ```
#
# Work without a stream goes to the **default stream**. Such work begins when everything that you
# queued before it is done, in all streams. And what you queue after it, in any stream, begins when
# it is done. So a forgotten stream ends all overlap. (CUDA can also make streams that do not wait.
# Those of `cuda.stream()` do.)

# %% [markdown]
# ### Exercise: fill the queues
#
# Return a list of `(step, image, stream)` in the order in which the host queues them. Steps are
# `"copy in"`, `"kernel"`, `"copy out"`; images and streams count from 0. On the GPU each stream has
# room for **one** image. The check plays your list in the model, and its time must be that of the
# best order.
#
# <details><summary>Hint: which stream?</summary>
#
# Deal the images like cards: image 0 to stream 0, image 1 to stream 1, and after the last stream
# comes the first again. `image % streams` does that.
#
# </details>
#
# <details><summary>Hint: which order?</summary>
#
# Image after image, each with its three steps. Two loops, one inside the other.
#
# </details>


# %% tags=["exercise"]
def fill_queues(images, streams):
    """Return [(step, image, stream), ...] in the order in which they are queued."""
    ### BEGIN SOLUTION
    queue = []
    for image in range(images):
        for step in ("copy in", "kernel", "copy out"):
            queue.append((step, image, image % streams))
    return queue
    ### END SOLUTION


# %% tags=["check"]
check("fill-the-queues", fill_queues)

# %% [markdown]
# Your queue, played by the model (or a queue in one stream, as long as you have none). With two
# streams the last row has gaps: an image cannot come in earlier, because both streams are busy.
# With three, in the first picture of this section, there was none.

# %%
in_one = [(step, image, 0) for image in range(6) for step in streams.STEPS]
try:
    played = streams.play(fill_queues(6, 2) or in_one, uneven)
except (TypeError, ValueError) as error:
    print(error)
    played = streams.play(in_one, uneven)
plots.gantt(played, "six images, two streams", marks={"bound": streams.least_length(uneven, 6)})

# %% [markdown]
# ## 3 What the project did
#
# <kbd>core</kbd> 10 minutes
#
# This is its loop with streams, in short:
#
# ```python
# for image in range(images):
#     stream = cuda.stream()
#     d_u = cuda.to_device(u[image], stream=stream)      # all of u, new memory on the GPU
#     d_s = cuda.to_device(s[image], stream=stream)
#     d_vt = cuda.to_device(vt[image], stream=stream)
#     d_out = cuda.device_array(shape, np.float32)
#     kernel[grid, block, stream](d_u, d_s, d_vt, k, d_out)
#     results.append(d_out)
# images = [d_out.copy_to_host() for d_out in results]   # no stream is named
# ```
#
# Four faults are in it, each of which costs overlap or time. Which do you see?

# %% [markdown]
# Its images are right (section 13 looks). What about its order of work? The last line names no
# stream, so the copies out go to the default stream, **behind everything else**. The model has six
# images of 1, 1.5 and 2 ms. For how many ms do copies in and copies out go on at the same time?

# %%
predict("ms with copies both ways, the project's order", 0, exact=True)

# %%
theirs = streams.schedule(uneven, 6, streams=6, order=streams.back_at_the_end)
both = streams.together(theirs, "copy in", "copy out")
predict.answer("ms with copies both ways, the project's order", both, unit="ms", how="computed")
plots.gantts({"a model: the project's order": theirs, "in turns, three streams": six})

# %% [markdown]
# Images that are done wait until the last one is computed. And the GPU must hold all of them at the
# same time.
#
# What else? Ordinary memory, such as a NumPy array's, is **pageable**: the operating system may
# move it. On most machines an engine cannot copy from there. So the driver copies each piece to a
# buffer of its own first, and **the host waits** until that is over. A call that makes the host
# wait queues nothing meanwhile. (There are machines whose GPU follows the system's pages by itself,
# such as Grace Hopper. They were not measured here.)

# %% [markdown]
# Predict: what becomes of your good order, image by image in turns, if memory is pageable? How many
# ms for the six images?

# %%
predict("ms in turns, pageable", 14.5, within=1.1, no_effect=14.5)

# %%
waiting = streams.schedule(uneven, 6, streams=3, pageable=True)
predict.answer("ms in turns, pageable", streams.length(waiting), unit="ms", how="computed")
plots.gantt(waiting, "a model: in turns, three streams, pageable memory")

# %% [markdown]
# As with one stream! The copy out makes the host wait until the image is there, and only then can
# it queue the next. So **pageable memory and overlap do not go together**. The project's order at
# least overlaps copies in with kernels.
#
# So the four faults are, in the order in which you will fix them:
#
# 1. **All** of u and vt travels, where k columns and rows are needed.
# 2. The memory is pageable.
# 3. Memory is allocated anew for every image, on the GPU and on the host.
# 4. The order: all copies out come last.

# %% [markdown]
# ## 4 The same, measured
#
# <kbd>core</kbd> 30 minutes
#
# From here on: **32 images of 2048×2048, k = 128, host to host** (from the host's memory back to
# the host's memory), in float32, on an H200. All ways ran in one run, and each image was checked.
# This function looks up what was recorded.

# %%
TRUNCATED, WHOLE, SMALL = "k columns and rows", "whole factors", "small images"


def h200(way, metric="time", case=TRUNCATED, shape="32x2048x2048x128"):
    """Return a recorded median; times are in ms."""
    wanted = {"kernel": case, "variant": way, "shape": shape, "metric": metric}
    return recorded("streams", **wanted, gpu="H200")[0].median


for way in ("original", "original's streams"):
    print(f"{way:20} {h200(way):7.1f} ms")

# %% [markdown]
# (`original` is the same program without streams. Both use the course's fast kernel here, so that
# the ways are compared and not the kernels.)
#
# That is what the host's clock says. What did the engines do? **Events** before and after each
# piece of work tell ([lesson 03](03_measuring_honestly.ipynb)). Twelve images:

# %%
# NBVAL_IGNORE_OUTPUT
project_spans = streams.timeline.recorded("original's streams")
slow = streams.recorded_link("pageable")
kernel = np.median([span.milliseconds for span in project_spans if span.name == "kernel"])
stage = streams.stage_of(2048, 2048, 128, slow, kernel=float(kernel), whole=True)
modelled = streams.schedule(stage, 12, 12, order=streams.back_at_the_end, pageable=True)
share = 100 * streams.busy(project_spans, "compute") / streams.length(project_spans)
print(f"the kernels take {share:.1f}% of the time")
print(f"copies both ways at once: {streams.together(project_spans, 'copy in', 'copy out'):.2f} ms")
plots.gantts(
    {
        "the model: bytes at the rates of pageable memory": modelled,
        "recorded on an H200: the original's streams, twelve images": project_spans,
    }
)

# %% [markdown]
# The order is the model's: first everything in, then everything out, never both. The times are not:
# it took more than twice as long as bytes and rates say. Something else takes time, and the model
# has shown that there **is** something. Keep it in mind.
#
# The kernels are slivers. No order of work can hide much behind them. Copies to the GPU and back
# take the time. So fix that, one fault after another, and predict each gain.

# %% [markdown]
# **First fault: what travels.** u is 2048×2048, vt too. Of each, k = 128 columns or rows are used.
# How many times fewer bytes go in, if only these travel? And by how much is the whole program
# faster? Not by as much: bytes out are as many as before.

# %%
predict("times fewer bytes in", 16, exact=True)
predict("truncated: times faster than the original", 2, within=1.5, no_effect=1)

# %%
for way in ("original", "truncated"):
    into, out = (h200(way, f"bytes {where}") / 1e6 for where in ("in", "out"))
    print(f"{way:10} {into:8.1f} MB in, {out:.1f} MB out, {h200(way):7.1f} ms")
fewer = h200("original", "bytes in") / h200("truncated", "bytes in")
predict.answer("times fewer bytes in", round(fewer, 2), how="computed")
faster = h200("original") / h200("truncated")
predict.answer("truncated: times faster than the original", round(faster, 2))

# %% [markdown]
# **Second fault: pageable memory.** **Pinned** memory is locked: it stays where it is. The copy
# engine reads it directly, at the full rate of PCIe, and the host need not wait. Rates of large
# copies, recorded:

# %%
for memory in ("pageable", "pinned"):
    link = streams.recorded_link(memory)
    print(f"{memory:9} {link.into:5.1f} GB/s in, {link.out:5.1f} GB/s out")

# %% [markdown]
# Locking has its price. It takes time itself, so it is done **once**, and the memory is used again.
# And what is locked is missing elsewhere, so it has a limit. A **pool** lends such memory and takes
# it back:

# %%
pool = streams.PinnedPool(limit=64 * 2**20)  # bytes
for _ in range(3):
    buffer = pool.take(1000)  # 1000 float32; what stands in it is left over
    pool.give(buffer)
print(pool.allocations, "allocation for three turns")
print(pool)

# %% [markdown]
# ### Exercise: pack what is needed into one pinned buffer
#
# `u[:, :k]` is a part of each row: its numbers do not lie side by side, so it cannot be copied as
# one piece. Pack `u[:, :k]`, `s[:k]` and `vt[:k]` one after the other, row by row, into **one**
# buffer that `take(n)` lends: n float32 in pinned memory. Return the buffer (a slice of it, if you
# took more).
#
# <details><summary>Hint: how many numbers?</summary>
#
# rows · k of u, k of s, k · columns of vt.
#
# </details>
#
# <details><summary>Hint: how to write into a buffer</summary>
#
# `buffer[:n] = part.ravel()` writes there. `buffer = ...` only gives a name to other memory.
#
# </details>


# %% tags=["exercise"]
def pack(u, s, vt, k, take):
    """Pack the used parts of the factors into one buffer that take(n) lends, and return it."""
    ### BEGIN SOLUTION
    parts = (u[:, :k], s[:k], vt[:k])
    buffer = take(sum(part.size for part in parts))
    start = 0
    for part in parts:
        buffer[start : start + part.size] = part.ravel()
        start += part.size
    return buffer
    ### END SOLUTION


# %% tags=["check"]
check("pack-factors", pack)

# %% [markdown]
# `pinned` does both, and uses all its memory again: on the host and on the GPU. It still waits at
# each step. Take the rates from above: 67 MB in, 537 MB out. By how many times should it be faster
# than `truncated`?

# %%
predict("pinned: times faster than truncated", 10, within=1.5, no_effect=1)

# %%
fast = streams.recorded_link("pinned")
images_there, size, k = 32, 2048, 128
into = 4 * images_there * (2 * size * k + k) * 1e-6  # MB: k columns of u, k of s, k rows of vt
out = 4 * images_there * size**2 * 1e-6
by_rates = [into / link.into + out / link.out for link in (slow, fast)]
print(f"{into:.1f} MB in, {out:.1f} MB out")
print(f"by the rates: {by_rates[0]:.0f} and {by_rates[1]:.0f} ms in copies")
for way in ("original", "truncated", "pinned"):
    print(f"{way:10} {h200(way):7.1f} ms")
faster = h200("truncated") / h200("pinned")
predict.answer("pinned: times faster than truncated", round(faster, 2))

# %% [markdown]
# ## 5 What overlap can give
#
# <kbd>core</kbd> 10 minutes
#
# `pinned` gained far more than the rates explain: it does not ask for new memory each time (section
# 7 has the figures). And until now nothing overlaps! There is less to carry, a better road, and
# memory that is there already: that was all, and it was most.
#
# The fourth fault is the order. Here is the model with real figures: bytes, recorded rates, and the
# kernel's time.

# %%
# NBVAL_IGNORE_OUTPUT
overlapped = streams.timeline.recorded("3 streams")
kernel = np.median([span.milliseconds for span in overlapped if span.name == "kernel"])
link = streams.recorded_link("pinned")
image = streams.stage_of(2048, 2048, 128, link, kernel=float(kernel))
for step in streams.STEPS:
    print(f"{step:8} {1e3 * image.of(step):6.1f} µs an image, {32 * image.of(step):6.2f} ms for 32")
print(f"together {32 * image.total:.2f} ms, bound {streams.least_length(image, 32):.2f} ms")
print(f"measured, one after the other (pinned): {h200('pinned'):.2f} ms")

# %% [markdown]
# The copies out are by far the busiest engine: an image has 2048 · 2048 numbers, its factors only
# 128 · 4097. So overlap can hide the rest behind them, and no more.
#
# And there is a part that is no engine's: `pinned` takes longer than the three together. After each
# step the host notices that it is over, and only then makes the next call. That can be hidden, too.
# How many times faster than `pinned` will `3 streams` be?

# %%
predict("3 streams: times faster than pinned", 1.3, within=1.5, no_effect=1)

# %%
print("               measured     bound")
for way in ("pinned", "2 streams", "3 streams", "4 streams", "n streams", "queues"):
    print(f"{way:10} {h200(way):10.2f} ms {h200(way, 'bound'):7.2f} ms")
predict.answer("3 streams: times faster than pinned", round(h200("pinned") / h200("3 streams"), 2))

# %%
# NBVAL_IGNORE_OUTPUT
pinned, queues = (streams.timeline.recorded(way) for way in ("pinned", "queues"))
plots.gantts(
    {
        "recorded on an H200: pinned, waiting at each step": pinned,
        "recorded on an H200: 3 streams": overlapped,
        "recorded on an H200: queues, a stream for each engine": queues,
        "the model: 3 streams": streams.schedule(image, images=12, streams=3),
    },
    marks={"bound": streams.least_length(image, 12)},
)

# %% [markdown]
# Copy out behind copy out, with copies in and kernels in their shadow. Two streams are enough:
# 32 of them gain nothing. (Section 6 finds that number by a rule.)
#
# Look closely at the second chart. Early on, copies in wait for a copy out of **another** stream.
# The model has no reason for that. `queues` has one stream for copies in, one for kernels and one
# for copies out. **Events** say what waits for what: `event.wait(stream)` makes a stream wait until
# another one has passed the event. In `queues` it does not happen. (So it is no engine that was
# busy. Perhaps the driver puts several streams into one queue of the hardware. We did not find
# out.)

# %% [markdown]
# **This is what overlap can give here, and no more.** The best way is within a few percent of the
# bound, and nothing can go below. From the original to `pinned` was a far larger step, and nothing
# overlapped in it. (The table's bound is 9.74 ms, the model's 9.81 ms: the rates were measured anew
# in the run of the table.)

# %%
print(f"original to pinned      {h200('original') / h200('pinned'):5.1f} times faster")
print(f"pinned to 2 streams     {h200('pinned') / h200('2 streams'):5.1f} times faster")
print(f"2 streams to the bound  {h200('2 streams') / h200('2 streams', 'bound'):5.2f} times")

# %% [markdown]
# Now your own kernel: the last rung of [lesson 06](06_reuse_reuse_reuse.ipynb), if it has passed.
# Your photograph is rebuilt three times, from 8, 24 and 64 layers. Each has a stream, one copy in
# and one copy out:

# %%
from course import cuda, images, mine
from course import plots as pictures
from course.kernels.reconstruct import LADDER

MINE = mine("last-rung", LADDER["warp tiles"].kernel)
pack_own = mine("pack-factors", streams.packed)
photo = images.mine()
rows, columns = photo.shape[0], photo.shape[1] // 4 * 4  # your kernel takes fours
factors, grid = images.svd(photo[:, :columns]), (-(-columns // 128), -(-rows // 128))
print(f"{rows} x {columns}, in a grid of {grid}")

# %%
rebuilt = {}
for layers in [k for k in (8, 24, 64) if k <= len(factors[1])]:
    stream = cuda.stream()
    on_gpu = cuda.to_device(pack_own(*factors, layers, pool.take), stream=stream)
    end_u, end_s = rows * layers, (rows + 1) * layers
    own_u = on_gpu[:end_u].reshape(rows, layers)
    own_vt = on_gpu[end_s:].reshape(layers, columns)
    out_on_gpu = cuda.device_array((rows, columns), np.float32)
    MINE[grid, 256, stream](own_u, on_gpu[end_u:end_s], own_vt, layers, out_on_gpu)
    rebuilt[f"{layers} layers"] = pool.take((rows, columns))
    out_on_gpu.copy_to_host(rebuilt[f"{layers} layers"], stream=stream)
cuda.synchronize()
pictures.image_grid(list(rebuilt.values()), list(rebuilt))

# %% [markdown]
# ## 6 How many streams are enough?
#
# <kbd>deepening</kbd> 15 minutes
#
# In section 2 two streams left gaps, and three left none. Now other times: 0.5 ms to come in, 0.5
# ms to be computed, 2 ms to go out. How many streams are enough for these, so that the busiest
# engine never waits?

# %%
predict("streams that are enough for 0.5, 0.5 and 2 ms", 3, exact=True)

# %%
short = streams.Stage(copy_in=0.5, kernel=0.5, copy_out=2.0)
print("30 images:   1, 1.5 and 2 ms   0.5, 0.5 and 2 ms")
for n in (1, 2, 3, 4, 30):
    first, second = (streams.length(streams.schedule(stage, 30, n)) for stage in (uneven, short))
    print(f"{n:2} streams {first:14.1f} ms {second:17.1f} ms")
times = [streams.length(streams.schedule(short, 30, n)) for n in range(1, 31)]
enough = 1 + next(n for n, time in enumerate(times) if time <= min(times) * 1.0001)
predict.answer("streams that are enough for 0.5, 0.5 and 2 ms", enough, how="computed")

# %% [markdown]
# ### Exercise: how many streams are enough?
#
# Given are the three times of an image. Return the smallest number of streams with which the
# busiest engine never has to wait for a stream (but for the start).
#
# <details><summary>Hint</summary>
#
# An image occupies its stream for the sum of the three times. In that time, how many images does
# the busiest engine want to work on? Round up: `math.ceil`, or a loop.
#
# </details>


# %% tags=["exercise"]
def enough_streams(copy_in, kernel, copy_out):
    """Return the smallest number of streams with which the busiest engine never waits."""
    ### BEGIN SOLUTION
    streams = 1
    while streams * max(copy_in, kernel, copy_out) < copy_in + kernel + copy_out:
        streams += 1
    return streams
    ### END SOLUTION


# %% tags=["check"]
check("enough-streams", enough_streams)

# %% [markdown]
# Never more than three, with three engines. More streams only cost memory: each needs room for an
# image. (In a real run one more does no harm: it helps where the host was late.)

# %% [markdown]
# ## 7 Memory that is there already
#
# <kbd>deepening</kbd> 5 minutes
#
# In section 4 `pinned` gained far more than the rates explain. Here is what the model did not know.
# `truncated` returns each image in a **new** NumPy array. The operating system hands out new memory
# page by page, when a page is first touched. That is the third fault once more, on the host.
# Recorded: one thread copies the 32 images on, within the host's memory.

# %%
for name in ("to memory in use", "to fresh memory"):
    time = h200(name, case="images copied on", shape="32x2048x2048")
    print(f"{name:17} {time:6.1f} ms")

# %% [markdown]
# The difference is about half of what the rates leave unexplained of `truncated`. (The rest was not
# recorded apart. Memory allocated anew on the GPU is in it, and cutting out the columns.)

# %% [markdown]
# ## 8 Another busiest engine
#
# <kbd>deepening</kbd> 10 minutes
#
# What if an image went back as 8-bit grey levels, a quarter of the bytes? The kernel would round
# them before they leave. By the model: how many times shorter gets the bound?

# %%
predict("times shorter with 8-bit images", 4, exact=True)

# %%
grey = streams.Stage(image.copy_in, image.kernel, image.copy_out / 4)
shorter = streams.least_length(image, 32) / streams.least_length(grey, 32)
predict.answer("times shorter with 8-bit images", round(shorter, 2), how="computed")

# %% [markdown]
# (If you predicted 4: right, as long as the copy out stays the busiest engine. Halve it further and
# another one takes over.)
#
# **A second case, where overlap matters.** Let all of the factors go in, as if k were 2048: then
# both directions have much to do. Which engine is the busiest now, and how many times faster than
# its own `pinned` can it get at most, by the model?

# %%
predict("whole factors: most that overlap can give, times", 2, within=1.1, no_effect=1)

# %%
whole = streams.stage_of(2048, 2048, 128, link, kernel=float(kernel), whole=True)
for name, milliseconds in whole.engine_times().items():
    print(f"{name:8} {32 * milliseconds:6.2f} ms for 32 images")
most = round(whole.total / whole.busiest(), 2)
predict.answer("whole factors: most that overlap can give, times", most, how="computed")

# %%
# NBVAL_IGNORE_OUTPUT
for way in ("pinned", "2 streams", "3 streams", "queues"):
    print(f"{way:10} {h200(way, case=WHOLE):7.2f} ms")
plots.gantts(
    {
        f"recorded on an H200: whole factors, {way}": streams.timeline.recorded(f"whole {way}")
        for way in ("pinned", "3 streams")
    }
)

# %% [markdown]
# More than the model's figure, because `pinned` waits for the host as well. Above all, here overlap
# is worth something: two engines have much to do. (Look at the numbers in the lower chart: image 2
# came in before image 1. Between streams there is no order.)
#
# Do the copies in take longer while copies out go on? Both directions share what feeds them. Large
# copies, alone and both at once:

# %%
for figure in recorded("streams", kernel="link", gpu="H200"):
    print(f"{figure.variant:20} {figure.gigabytes_per_second:5.1f} GB/s")

# %% [markdown]
# A tenth less. The model does not know that. A model is worth what it leaves out: compare it with a
# measurement before you trust it.

# %% [markdown]
# ## 9 The host is an engine, too
#
# <kbd>deepening</kbd> 5 minutes
#
# Be fair to the original. It started from NumPy arrays. The other ways found their factors packed,
# in pinned memory. If the host must pack them first, that takes time, and locking memory takes
# more:

# %%
PACKED = "packed on the host"
print(f"packing 32 images' factors {h200('packing alone', case=PACKED):6.1f} ms")
(pinning,) = recorded("streams", kernel="pinned memory", gpu="H200")
print(f"locking {pinning.bytes / 2**20:.0f} MiB            {pinning.median:6.1f} ms, once")

# %% [markdown]
# Packing can overlap, too: pack an image while the GPU is busy with others. Then the host is a
# fourth engine. Given 13 ms of packing, and 10 ms of everything else on the GPU: what is the bound
# if one thread packs meanwhile, in ms?

# %%
predict("bound with packing meanwhile, ms", 13, within=1.05)

# %%
for name in ("before", "meanwhile", "meanwhile, 4 threads"):
    (figure,) = recorded("streams", kernel=PACKED, variant=name, gpu="H200")
    host = h200(name, "host", case=PACKED)
    print(
        f"packed {name:20} {figure.median:5.1f} ms (middle half {figure.q1:.1f} to "
        f"{figure.q3:.1f}), host busy {host:.1f}"
    )
longest = max(h200("packing alone", case=PACKED), h200("3 streams"))
predict.answer("bound with packing meanwhile, ms", round(longest, 1), unit="ms", how="computed")

# %% [markdown]
# One thread that packs and queues is far from that bound: the host is busy nearly to the end. Four
# threads that pack while another one queues are below it, mostly: packing is not the busiest any
# more. But look at how much they vary. (A program that makes the factors itself writes them into
# pinned memory at once: [lesson 09](09_a_thousand_images.ipynb).)

# %% [markdown]
# ## 10 Fewer calls
#
# <kbd>deepening</kbd> 25 minutes
#
# **One launch, or many?** If all images have one size, why not one large copy in, **one launch**
# for all of them, and one copy out? That is `batched`. How does it compare with `3 streams`:
# faster, slower, equal?

# %%
predict("batched against 3 streams", "faster", choices=("faster", "slower", "equal"))

# %%
# NBVAL_IGNORE_OUTPUT
plots.gantts(
    {
        f"recorded on an H200: {way}": streams.timeline.recorded(way)
        for way in ("batched", "3 streams", "chunks")
    }
)

# %%
from course import wrapped

for way in ("pinned", "3 streams", "batched", "chunks"):
    line = f"{way:10} {h200(way):7.2f} ms   {streams.WAYS[way].text}"
    print(wrapped(line, hanging=" " * 24))
ratio = h200("batched") / h200("3 streams")
answer = "equal" if abs(ratio - 1) < 0.02 else "slower" if ratio > 1 else "faster"
predict.answer("batched against 3 streams", answer)

# %% [markdown]
# One launch saves launches, but everything waits for the last byte in, and the first image leaves
# after the last is computed. **Chunks** do both: a few images to a launch, several chunks under
# way. It is a rule far beyond GPUs: cut the work in pieces that are large enough to be efficient
# and small enough to overlap.
#
# (The third chunk came in only after the second was out. That is the wait for another stream's copy
# out again, which section 5 could not explain.)
#
# **What queueing costs.** Each copy and each launch costs the host something, whatever its size.
# Recorded, through Numba:

# %%
calls = {f.variant: 1e3 * f.median for f in recorded("streams", kernel="host call", gpu="H200")}
for name in ("copy in", "launch", "copy out"):
    print(f"{name:10} {calls[name]:5.1f} µs of the host")
an_image = sum(calls[name] for name in ("copy in", "launch", "copy out"))
print(f"an image   {an_image:5.1f} µs, fifty of them {50e-3 * an_image:.1f} ms")

# %% [markdown]
# For an image of 2048² that can be hidden. But take **50 images of 256²**, k = 50. Their copies are
# short, by bytes and rates: the next cell prints how short.
#
# Repeat the project's experiment with them. How many times faster are the original's streams than
# the original without streams, on an H200?

# %%
small = streams.stage_of(256, 256, 50, link, kernel=0.0)
print(f"50 copies in {50 * small.copy_in:.3f} ms, 50 copies out {50 * small.copy_out:.3f} ms")
predict("small images: the original's streams, times faster", 1.6, within=1.5, no_effect=1)

# %%
shape = "50x256x256x50"
times = {way: h200(way, case=SMALL, shape=shape) for way in streams.WAYS}
for way in ("original", "original's streams", "truncated", "pinned", "3 streams", "n streams"):
    print(f"{way:20} {times[way]:6.2f} ms")
ratio = round(times["original"] / times["original's streams"], 2)
predict.answer("small images: the original's streams, times faster", ratio)

# %% [markdown]
# There it is again, the project's slow-down, on another GPU. **The host is the busiest engine**:
# the GPU's are idle nearly all of the time. Streams give the host more to do, not less. It makes
# one for each image, and everything stays on the GPU until the end.
#
# In `pinned`, too, overlap gains little. There must be fewer **calls**. How many times faster is
# the best way than the original's streams?

# %%
predict(
    "50 small images: times, from the original's streams to the best", 10, within=2, no_effect=1
)

# %%
for way in ("3 streams", "chunks", "graph", "batched"):
    host = h200(way, "host", case=SMALL, shape=shape)
    print(f"{way:10} {times[way]:6.2f} ms, the host queues for {host:6.2f} ms of it")
best = times["original's streams"] / min(times.values())
question = "50 small images: times, from the original's streams to the best"
predict.answer(question, round(best))

# %% [markdown]
# Section 1 said that overlap gives three times at most. The rest is memory that is used again,
# fewer bytes and fewer calls. All of it goes under the name "streams".

# %% [markdown]
# A **CUDA graph** is a recorded queue: copies and kernels with what waits for what. It is captured
# once and then launched by **one** call, as often as you like. (Numba has no capture of its own.
# CuPy's works with Numba's kernels: `_capture` in `course_lessons/lesson08/batches.py` shows how.)
# `graph` is `3 streams`, captured. It queues all 150 pieces of work in one call, and each image is
# still its own. What does a launch cost when nobody has to make the call?

# %%
(by_numba,) = recorded("launch", variant="5 Numba arrays", metric="host in a row", gpu="H200")
(queued,) = recorded("launch", variant="5 Numba arrays", metric="queued", gpu="H200")
print(f"a launch: {1e3 * by_numba.median:.1f} µs of the host, {1e3 * queued.median:.1f} of the GPU")
each = 1e3 * h200("graph", "host", case=SMALL, shape=shape) / 150
print(f"a graph:  {each:.1f} µs of the host for each of its pieces")

# %% [markdown]
# The graph's price: it must be captured, and what is captured is fixed: the addresses of its memory
# and the sizes of its work. (CUDA can change the arguments of a graph's nodes between two launches:
# `cudaGraphExecKernelNodeSetParams`, or `cudaGraphExecUpdate` for the whole graph. That costs calls
# again. The course's graphs do without.) It pays where the same small work comes again and again.

# %% [markdown]
# ### Exercise: from how many runs on does a graph pay?
#
# A run has `kernels` launches of `launch` µs each. A graph costs `capture` µs once; then each run
# costs `replay` µs, plus `node` µs for each of its kernels. Return the first number of runs with
# which the graph has cost **less** in all, and 0 if it never does.
#
# <details><summary>Hint</summary>
#
# What does one run save? If that is not above 0, the graph never pays. Else divide `capture` by it
# and take the next whole number above. Or count runs in a loop; but ask first whether a run saves
# anything, or the loop never ends.
#
# </details>


# %% tags=["exercise"]
def graph_pays(kernels, launch, capture, replay, node):
    """Return from how many runs on a graph costs less than launches; 0 for never."""
    ### BEGIN SOLUTION
    saved = kernels * launch - (replay + kernels * node)
    if saved <= 0:
        return 0
    return int(capture // saved) + 1
    ### END SOLUTION


# %% tags=["check"]
check("graph-pays", graph_pays)

# %% [markdown]
# ## 11 Three laws
#
# <kbd>deepening</kbd> 20 minutes
#
# **Amdahl's law.** A fraction f of a program's time stays as it is, the rest gets w times faster.
# Then the whole gets 1 / (f + (1 − f) / w) times faster, and never more than 1 / f.
#
# The project's first program took 69.2 ms at 2048², k = 256: 52.9 ms in the kernel, the rest mostly
# copies. Lessons [04](04_warps_and_coalescing.ipynb) to [06](06_reuse_reuse_reuse.ipynb) made such
# kernels many times faster. With the copies as they are: how many times faster can the whole get at
# most?

# %%
predict("the most from a faster kernel, times", 4.2, within=1.05)

# %%
serial = (69.2 - 52.9) / 69.2
for workers in (2, 10, 100):
    print(f"kernel {workers:3} times faster: {streams.amdahl(serial, workers):.2f} times in all")
predict.answer("the most from a faster kernel, times", round(1 / serial, 2), how="computed")

# %% [markdown]
# The law works backwards, too. Measure a speed-up S with w workers, and ask which fraction would
# explain it. That is Karp and Flatt's figure:
#
# f = (1/S − 1/w) / (1 − 1/w)
#
# It tells more than S. If f stays the same with more workers, it is truly serial work. If it grows,
# something else gets in the way.

# %% [markdown]
# ### Exercise: the serial fraction from measured times
#
# `workers` is a list such as [1, 2, 4], `milliseconds` the time with each. Return the fraction for
# each number of workers **but the first**, which is 1.
#
# <details><summary>Hint</summary>
#
# The speed-up is `milliseconds[0] / milliseconds[i]`. Loop over i from 1 on.
#
# </details>


# %% tags=["exercise"]
def serial_fractions(workers, milliseconds):
    """Return Karp and Flatt's fraction for each number of workers but the first."""
    ### BEGIN SOLUTION
    found = []
    for count, time in zip(workers[1:], milliseconds[1:], strict=True):
        speedup = milliseconds[0] / time
        found.append((1 / speedup - 1 / count) / (1 - 1 / count))
    return found
    ### END SOLUTION


# %% tags=["check"]
check("serial-fractions", serial_fractions)

# %% [markdown]
# Take streams as workers. First the project's own: 36.8 ms, and 44.0 ms with ten streams. Then the
# recorded ways: `pinned` has one image under way, the others 2, 3, 4 and 32.

# %%
print(f"the project on a T4, 10 streams: {streams.serial_fraction(36.8 / 44.0, 10):.2f}")
counts = {"2 streams": 2, "3 streams": 3, "4 streams": 4, "n streams": 32}
for case in (TRUNCATED, WHOLE):
    for way, count in counts.items():
        speedup = h200("pinned", case=case) / h200(way, case=case)
        fraction = streams.serial_fraction(speedup, count)
        print(f"{case:18} {way:10} {speedup:5.2f} times faster, fraction {fraction:.2f}")
for case in (TRUNCATED, WHOLE):
    share = h200("pinned", "bound", case=case) / h200("pinned", case=case)
    print(f"{case:18} the busiest engine's part: {share:.2f}")

# %% [markdown]
# Above 1 for the project: a slow-down, which no serial part explains. Streams were **added work**.
#
# And the fixed program? The fraction grows with the streams, so it is no serial code. It is the
# busiest engine: all streams share the one that copies out (or in), and its part of the time is
# never divided. With many streams the fraction must come near that part of `pinned`'s time, and it
# does: see the last two lines.
#
# So a serial fraction says **that** something is not divided. **What** it is, a timeline
# tells.

# %% [markdown]
# **Gustafson's law** asks another question. Not: how much faster is the same work? But: how much
# more work gets done in the same time? A fraction f of **that** time is serial, and w workers do
# w − f · (w − 1) times the work.
#
# Compiling a kernel, starting, capturing a graph and locking memory are paid once. The next table
# has 512 MiB locked once, and then some batches of 32 images. If locking cannot be divided, how
# many times the work do four GPUs do?

# %%
print("   batches   locking's share   work of four GPUs")
for batches in (1, 10, 100, 1000):
    share = pinning.median / (pinning.median + batches * h200("3 streams"))
    print(f"{batches:10} {share:16.1%} {streams.gustafson(share, 4):13.2f} times")

# %% [markdown]
# The project's first figure was of that kind: 1428 ms for one image with CuPy, start-up inside
# ([lesson 03](03_measuring_honestly.ipynb)). Amdahl says why one image cannot get much faster.
# Gustafson says why ten thousand can: the serial part need not grow with the work. [Lesson
# 09](09_a_thousand_images.ipynb) rebuilds ten thousand.

# %% [markdown]
# ## 12 An honest notebook
#
# <kbd>deepening</kbd> 20 minutes
#
# The project's notebook had 32 images of 2048² in its code, and beside it the output "10 images of
# 1024²". It printed the time of a copy back that the code does not make. And its text claimed a
# "significant speedup" over a measured 0.84×.
#
# How does that happen without a lie? A notebook keeps code and outputs **apart**. You change a cell
# and do not run it again. You run cells in another order. The old output stays, and looks as if it
# came from the code above it.

# %%
import contextlib
import io


def output_of(source, names):
    """Execute a cell's source with these names, and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(source, names)
    return printed.getvalue()


cells = ["images, size = 10, 1024", "print(images, 'images of', size)"]
names = {}
notebook = [(source, output_of(source, names)) for source in cells]
print(notebook[1])

# %% [markdown]
# A cell and its saved output: that is a notebook, and it is honest. Now somebody edits the first
# cell, for a larger run "later", and saves. The next cell does that.
#
# Nothing here looks wrong. No error, no warning. What does the second cell print, if the notebook
# is restarted and run from top to bottom?

# %%
notebook[0] = ("images, size = 32, 2048", "")
for source, saved in notebook:
    print(f"{source:36} saved: {saved!r}")
predict(
    "what the second cell prints",
    "32 images of 2048",
    choices=("10 images of 1024", "32 images of 2048", "an error"),
)

# %%
fresh = {}
printed = [output_of(source, fresh) for source, _ in notebook]
predict.answer("what the second cell prints", printed[1].strip(), how="found")

# %% [markdown]
# ### Exercise: find the outputs that do not come from the code
#
# `cells` is a list of `(source, saved output)`. Run all of them in order, in **one** new namespace,
# as "Restart and run all" does. Return the places (from 0) of the cells that do not print what is
# saved.
#
# <details><summary>Hint</summary>
#
# `names = {}` before the loop, then `output_of(source, names) != saved` for each cell.
# `enumerate(cells)` gives the places.
#
# </details>


# %% tags=["exercise"]
def stale_outputs(cells):
    """Return the places of the cells that do not print what is saved beside them."""
    ### BEGIN SOLUTION
    names, found = {}, []
    for place, (source, saved) in enumerate(cells):
        if output_of(source, names) != saved:
            found.append(place)
    return found
    ### END SOLUTION


# %% tags=["check"]
check("stale-outputs", stale_outputs)

# %%
for place, ((_, saved), now) in enumerate(zip(notebook, printed, strict=True)):
    print(f"cell {place}:", "honest" if saved == now else f"stale, {saved!r} became {now!r}")

# %% [markdown]
# This is what `pytest --nbval` does with all notebooks of this course, each time its tests run.
# Four habits keep a notebook honest:
#
# - **Restart and run all** before you save. Execution counts then go 1, 2, 3, ...
# - Let a machine compare saved outputs with new ones.
# - Keep measured figures in files, with machine and date, and **compute** what the text says of
#   them.
# - Read the text against the figures, last.
#
# The third in use: a claim that is computed cannot be forgotten.

# %%
speedup = 36.8 / 44.0
claim = "faster" if speedup > 1.05 else "slower" if speedup < 0.95 else "as fast"
print(f"with streams the project was {claim}: {speedup:.2f} times")

# %% [markdown]
# ## 13 All ways, and yours
#
# <kbd>deepening</kbd> 5 minutes
#
# The whole story in one table. "of the bound" is measured time / bound: 1.00 cannot be beaten.

# %%
print(f"32 images of 2048 x 2048, k = 128   {'ms':>8} {'of the bound':>13} {'times faster':>13}")
for way in streams.WAYS:
    time, least = h200(way), h200(way, "bound")
    print(f"{way:34} {time:9.2f} {time / least:13.2f} {h200('original') / time:13.1f}")

# %% [markdown]
# The project's loop, `"original's streams"`, is one of twelve ways in the course to rebuild a stack
# of images. Is each of them right? Six small images in the simulator, or on your GPU:

# %%
rng = np.random.default_rng(8)
u = rng.standard_normal((6, 24, 16), dtype=np.float32)
s = rng.random((6, 16), dtype=np.float32)
vt = rng.standard_normal((6, 16, 20), dtype=np.float32)
k = 5
expected = (u[:, :, :k] * s[:, None, :k]) @ vt[:, :k]


def largest_error(way):
    """Rebuild the six images in a way; return the largest error."""
    return np.abs(streams.rebuild_stack(way, u, s, vt, k).images - expected).max()


right = [way for way in streams.WAYS if largest_error(way) < 1e-4]
print(f"{len(right)} of {len(streams.WAYS)} ways have an error below 1e-4")

# %% [markdown]
# With a GPU, the next cell draws your own timeline, for eight images of 1024². Without one it draws
# the model. How many copy engines does yours have? With one, copies in and copies out never
# overlap.

# %%
# NBVAL_IGNORE_OUTPUT
if gpu() is None:
    print("No GPU here; above are the timelines recorded on an H200.")
    model = streams.schedule(image, images=8, streams=3)
    mine = plots.gantt(model, "the model: eight images of 2048², three streams")
else:
    stacks = [rng.random(shape, dtype=np.float32) for shape in ((8, 1024, 128), (8, 128))]
    stacks.append(rng.random((8, 128, 1024), dtype=np.float32))
    ways = ("original's streams", "pinned", "3 streams")
    own = {way: streams.rebuild_stack(way, *stacks, 128) for way in ways}
    for way, done in own.items():
        print(f"{way:20} {done.milliseconds:7.2f} ms")
    mine = plots.gantts({f"{gpu()}: {way}": done.spans for way, done in own.items()})
mine

# %% [markdown]
# ## 14 Memory for each call
#
# <kbd>deepening</kbd> 5 minutes
#
# The project's third fault was memory: new arrays for every image (section 3). What does that cost,
# and what does a **pool** save, which keeps freed pieces and lends them again? Recorded on an H200:
# a call that gets memory for its result, launches one short kernel (`out = 2 x`), and drops the
# result. Either **each call** asks the driver, or it asks a pool: CuPy and PyTorch have one. Or
# **one buffer** is there from the start, and is never given back.
#
# The result has 1 KiB. How many times as long as with one buffer does a caller wait in Numba, if
# each call asks the driver?

# %%
predict("1 KiB, each call against one buffer, times the wait", 3, within=2, no_effect=1)

# %%
memory = {}
for figure in recorded("allocation", metric="call", gpu="H200"):
    memory.setdefault(figure.variant, {})[int(figure.shape)] = 1e3 * figure.median
sizes = {2**10: "1 KiB", 2**18: "256 KiB", 2**22: "4 MiB", 2**26: "64 MiB", 2**28: "256 MiB"}
print(f"{'a caller waits [µs]':20}" + "".join(f"{name:>11}" for name in sizes.values()))
for way, waits in memory.items():
    print(f"{way:20}" + "".join(f"{waits[size]:11.1f}" for size in sizes))
buffer = {"variant": "CuPy, one buffer", "metric": "time", "gpu": "H200"}
alone = {int(figure.shape): 1e3 * figure.median for figure in recorded("allocation", **buffer)}
print(f"{'CuPy, kernel alone':20}" + "".join(f"{alone[size]:11.1f}" for size in sizes))
times = memory["Numba, each call"][2**10] / memory["Numba, one buffer"][2**10]
predict.answer("1 KiB, each call against one buffer, times the wait", round(times, 1))

# %%
ways = ("Numba, each call", "CuPy, each call", "CuPy, pool", "CuPy, one buffer")
lines = {way: ([n / 2**10 for n in memory[way]], list(memory[way].values())) for way in ways}
plots.curves(lines, "KiB", "µs", title="A call with memory for its result, on an H200 (recorded)")

# %% [markdown]
# Compare each library with its own buffer only: launches and kernels differ. (From 64 MiB on,
# CuPy's kernel alone takes longer than a whole call of PyTorch.)
#
# - **Each call**: getting memory is a call into the driver, and giving it back mostly waits until
#   the GPU has nothing left to do. Then nothing overlaps. For 64 MiB the two take longer than the
#   kernel.
# - A **pool** costs some 5 µs at most, once it has a piece of that size. Its first call still asks
#   the driver, and what it keeps, other programs do not get.
# - **One buffer** is a pool that you write yourself: the address stays, as a CUDA graph needs it.

# %%
progress(8)

# %% [markdown]
# ## What you should be able to say now
#
# - A stream is a queue: order within it, none between streams. Engines do the work.
# - Overlap needs pinned memory, more than one stream, and each image's steps queued together.
# - The bound is the busiest engine. As many streams as total / busiest, rounded up, are enough.
# - Fewer bytes come first, then pinned memory, then overlap, then fewer calls.
# - A graph saves the host's calls. It pays for small work that repeats.
# - A measured serial fraction says that something is not divided, a timeline says what.
# - A notebook is honest when a machine has run it from top to bottom.

# %% [markdown]
# ## Questions
#
# 1. A copy from a NumPy array names a stream. Why does it not overlap with the next copy?
# 2. Copies out take 80% of a serial program's time. How many times faster can streams make it?
# 3. A pinned buffer is filled with the next image's factors right after the copy was queued. What
#    goes wrong?
#
# <details><summary>Answers</summary>
#
# 1. Its memory is pageable. The driver copies it to a pinned buffer of its own, and the host waits
#    until that is over. Meanwhile it queues nothing.
# 2. 1 / 0.8 = 1.25 times. The engine that copies out has its work to do, whatever is hidden behind
#    it.
# 3. The copy may not have begun. Then it copies the new numbers, or some of both. Wait for an event
#    behind the copy, or for the stream, before you write there.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - `streams.overlap.ONE_COPY_ENGINE` is for GPUs that copy in one direction at a time. What is the
#   bound of the 32 images there, and how many streams are enough?
# - Give `schedule` an `issue` of 0.04 ms, a third of an image's calls, for the 50 small images. How
#   much of the measured time does that explain?
# - With a GPU: run `3 streams` with a stack of NumPy arrays that you fill anew while it runs. When
#   do the results go wrong?
# - Take a notebook of yours, restart it and run all. What changed?

# %% [markdown]
# ## Common misconceptions
#
# - *"A stream runs on a part of the GPU."* It is a queue. All queues share the engines.
# - *"More streams, more overlap."* Until the busiest engine never waits.
# - *"Asynchronous calls overlap."* From pinned memory, and if nothing waits in between.
# - *"Overlap makes copies faster."* It hides them behind others.
# - *"All copies in, then all kernels, then all copies out."* All images must fit on the GPU, and
#   none goes out before the end.
# - *"A graph makes kernels faster."* It makes launching them cheaper.
# - *"The serial fraction is serial code."* It is whatever is not divided.
# - *"It printed the right thing yesterday."* From which code?

# %% [markdown]
# ## What to read next
#
# - [How to overlap data transfers in CUDA
#   C/C++](https://developer.nvidia.com/blog/how-overlap-data-transfers-cuda-cc/) by Mark Harris.
# - [CUDA C++ programming guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/):
#   asynchronous concurrent execution, default stream, graphs.
# - [Getting started with CUDA graphs](https://developer.nvidia.com/blog/cuda-graphs/) by Alan Gray.
# - [Reevaluating Amdahl's law](https://doi.org/10.1145/42411.42415) by John Gustafson, and
#   [Measuring parallel processor performance](https://doi.org/10.1145/78607.78614) by Karp and
#   Flatt.
# - Next in the course: [lesson 09](09_a_thousand_images.ipynb), A thousand images.
