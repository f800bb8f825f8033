# %% [markdown]
# # 09 A thousand images
#
# One small image leaves a GPU nearly empty. You rebuild a thousand in one launch. Then you build
# what stands around the kernel: threads, queues, a run that survives being killed.

# %% [markdown]
# ## What you will do
#
# - Rebuild a whole stack of images in one launch, with your own kernel.
# - Build a pipeline of threads and queues, and kill it in the middle of a write.

# %% [markdown]
# ## What you will learn
#
# - Why many small launches leave a GPU empty.
# - How a bounded queue, an error and a file behave in a program that must not stop.

# %% [markdown]
# ## What you need
#
# Lessons [02](02_an_image_from_its_svd.ipynb) and [06](06_reuse_reuse_reuse.ipynb): the
# reconstruction, and what a block needs. [Lesson 03](03_measuring_honestly.ipynb) for launch cost
# and theoretical occupancy. [Lesson 08](08_streams.ipynb), if you did it, for streams. No GPU is
# needed: figures of one were recorded. Threads and files are your own machine's.

# %% [markdown]
# ## How long it takes
#
# After section 4 is a good place for a break. The computer needs less than half a minute of it.

# %%
# NBVAL_IGNORE_OUTPUT
from queue import Full, Queue
from threading import Thread
from time import perf_counter

import numpy as np
from numba import float32

from course import check, cuda, gpu, mine, predict, progress
from course_app import pipeline
from course import recorded, recorded_roofs, simulated, trace
from course.kernels.reconstruct import LADDER
from course_lessons.lesson06 import ladder
from course_lessons.lesson09 import pictures
from course_lessons.lesson09.toy_pipeline import Stage, play_pipeline

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 A thousand launches
#
# <kbd>core</kbd> 10 minutes
#
# Images of 256×256, k = 50, a thousand of them. The simplest way is a loop that launches a kernel
# for each. What does that cost before any pixel is computed?
#
# A launch takes the **host** some time: it prepares each argument and puts the work into a queue.
# Our kernel has four arrays and a number. Recorded is an empty kernel with five arrays. How many ms
# does the host need for a thousand of these?

# %%
predict("ms of the host for 1,000 launches", 20, within=2)

# %%
(launch,) = recorded("launch", variant="5 Numba arrays", metric="host in a row", gpu="H200")
launches = 1000 * launch.median
predict.answer("ms of the host for 1,000 launches", round(launches, 1), unit="ms")

# %% [markdown]
# And what does the GPU need for the work itself? This was recorded for 1,024 images in **one**
# launch, with the package's kernel:

# %%
STACK = "1024x256x256x50"
(together,) = recorded("reconstruct", variant="warp tiles", shape=STACK, gpu="H200")
print(f"1,024 images in one launch: {together.median:.2f} ms")
print(f"1,024 launches cost the host {1.024 * launches:.0f} ms,")
print(f"{1.024 * launches / together.median:.0f} times as much")

# %% [markdown]
# So in the loop the GPU waits for the next launch, again and again. (A CUDA graph, [lesson
# 08](08_streams.ipynb), makes launches cheaper. One launch is cheaper still.)
#
# That is not all. What does the GPU do **during** the launch of one image? The package's kernel has
# tiles of 128×128 pixels, one for a block. An H200 has 132 SMs. How many of them have anything to
# do?

# %%
predict("multiprocessors that work at one image", 132, exact=True)

# %%
step = LADDER["warp tiles"]
across, down = step.grid(256, 256)
predict.answer("multiprocessors that work at one image", across * down, how="computed")

# %%
h200 = simulated("H200")
fits = ladder.facts("warp tiles").occupancy("H200")
places = h200.multiprocessors * fits.blocks
print(fits)
print(f"{h200.multiprocessors} multiprocessors hold {places} such blocks at a time")
print(f"one image gives {across * down} blocks, 1,024 images give {1024 * across * down:,}")
print(f"so 1,024 images fill the GPU {1024 * across * down / places:.1f} times")

# %% [markdown]
# Smaller tiles would make more blocks of one image, and use each number less often ([lesson
# 06](06_reuse_reuse_reuse.ipynb)). The cure is not a worse kernel. It is **more images**.

# %% [markdown]
# ## 2 One more dimension
#
# <kbd>core</kbd> 15 minutes
#
# A grid has up to three dimensions. x walks along the columns, y down the rows, as ever. Let z be
# the **image**. All arrays get one more axis in front:
#
# | array | one image | a stack |
# |---|---|---|
# | u | rows, r | images, rows, r |
# | s | r | images, r |
# | vt | r, columns | images, r, columns |
# | out | rows, columns | images, rows, columns |

# %% [markdown]
# ### Exercise: many images in one launch
#
# Each thread computes one pixel of one image, from the first k layers of that image. Which image it
# is, is the third number of `cuda.grid(3)`.
#
# <details><summary>Hint 1</summary>
#
# `col, row, image = cuda.grid(3)`, in this order: x comes first.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# A block may have more than one image in z. So there are three guards: for the image, the row and
# the column.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def rebuild_many(u, s, vt, k, out):
    """Write for each image of a stack the sum of its first k layers."""
    ### BEGIN SOLUTION
    col, row, image = cuda.grid(3)
    if image < out.shape[0] and row < out.shape[1] and col < out.shape[2]:
        total = float32(0)
        for i in range(k):
            total += u[image, row, i] * s[image, i] * vt[image, i, col]
        out[image, row, col] = total
    ### END SOLUTION


# %% tags=["check"]
check("rebuild-many", rebuild_many)

# %% [markdown]
# That is the whole trick, and the kernel of [lesson 06](06_reuse_reuse_reuse.ipynb) needs three
# lines for it. Its function becomes a device function. A block with z calls it with views of image
# z. (`u[image]` moves no number.) If your last rung has passed, it is yours:

# %%
MINE = mine("last-rung", LADDER["warp tiles"].kernel)
rebuild_one = cuda.jit(device=True)(MINE.py_func)


@cuda.jit(max_registers=128)
def rebuild_stack(u, s, vt, k, out):
    """Rebuild a stack, in tiles of 128 x 128; block (x, y, z) has a tile of image z."""
    image = cuda.blockIdx.z
    rebuild_one(u[image], s[image], vt[image], k, out[image])


# %% [markdown]
# Here is a small stack on the simulator:

# %%
rng = np.random.default_rng(9)
u = rng.random((3, 128, 16), dtype=np.float32)
s = rng.random((3, 16), dtype=np.float32)
vt = rng.random((3, 16, 128), dtype=np.float32)
rebuilt = np.zeros((3, 128, 128), dtype=np.float32)
rebuild_stack[(1, 1, 3), 256](u, s, vt, 16, rebuilt)
error = np.abs(rebuilt - (u * s[:, None, :]) @ vt).max()
print(rebuilt.shape, "error below 1e-5:", bool(error < 1e-5))

# %% [markdown]
# And what does the trace say of a stack? Three images should cost three times what one costs, and
# nothing more:

# %%
for images in (1, 3):
    grid, out = (1, 1, images), np.zeros((images, 128, 128), dtype=np.float32)
    arguments = u[:images], s[:images], vt[:images], 16, out
    report = trace(rebuild_stack, grid, 256, *arguments, gpu="H200")
    loads, stores = report.total("global", "load"), report.total("global", "store")
    print(f"grid {grid}: {loads.sectors:,} sectors loaded, {stores.sectors:,} stored")

# %% [markdown]
# How does it stand beside libraries? CuPy computes `(u * s) @ vt`, which takes stacks, too. PyTorch
# has a function for it, `torch.bmm`, a **b**atched **m**atrix **m**ultiplication, and multiplies
# `s` in first; that counts. Our kernel does it on the way. All in the same run, on the same H200:

# %%
(bmm,) = recorded("reconstruct", variant="torch.bmm", shape=STACK, gpu="H200")
print(f"{'1,024 images, 256 x 256, k = 50':32}{'ms':>7}{'million images/s':>19}  of torch.bmm's")
for name in ("cupy", "torch.bmm", "warp tiles", "tensor cores"):
    (figure,) = recorded("reconstruct", variant=name, shape=STACK, gpu="H200")
    speed = f"{bmm.median / figure.median:15.2f}x"
    print(f"{name:32}{figure.median:7.3f}{1024 / figure.median / 1e3:19.1f}{speed}")
roofs = recorded_roofs("H200")
memory = together.bytes / roofs.bandwidth * 1e-6
arithmetic = together.operations / roofs.rates["float32"] * 1e-9
print(f"at least: {memory:.3f} ms for the bytes, {arithmetic:.3f} ms for the arithmetic")

# %% [markdown]
# With k = 50 bytes and float32 arithmetic need about the same time, each half of what *warp tiles*
# takes. *Tensor cores* ([lesson 17](17_tensor_cores.ipynb)) do the arithmetic in a fraction of it;
# the bytes are left. At best they could become less than twice as fast. Is that worth your time?
# The next section asks.
#
# **On your own GPU** the next cell times the kernel from above for 256 images, with a launch for
# each and with one for all.

# %%
# NBVAL_IGNORE_OUTPUT
from course import benchmark, gpu

if gpu() is None:
    print("no GPU here, so nothing to time")
else:
    shapes = (256, 256, 48), (256, 48), (256, 48, 256)
    there = [cuda.to_device(rng.random(shape, dtype=np.float32)) for shape in shapes]
    target = cuda.device_array((256, 256, 256), np.float32)

    def one_by_one():
        for i in range(256):
            MINE[(2, 2), 256](*(array[i] for array in there), 48, target[i])

    def at_once():
        rebuild_stack[(2, 2, 256), 256](*there, 48, target)

    print("a launch for each image:", benchmark(one_by_one, host=True))
    print("one launch for all:     ", benchmark(at_once, host=True))

# %% [markdown]
# ## 3 Millions a second?
#
# <kbd>core</kbd> 10 minutes
#
# No program of yours will rebuild millions of images a second. The kernel is one piece of the way.
# An image has to be
#
# 1. read and **decoded**: a file becomes pixels,
# 2. **factorised**: the SVD of [lesson 02](02_an_image_from_its_svd.ipynb),
# 3. copied in, **rebuilt**, copied out,
# 4. measured and **written**: pixels become a file.
#
# Each of these is a **stage**. How many images a second does each let through, if it has nothing
# else to do? First the copies over PCIe ([lesson 03](03_measuring_honestly.ipynb)), and the kernel:


# %%
def a_second(bytes_of_an_image, way):
    """Return images a second over the link, from pinned memory, recorded on an H200."""
    (copy,) = recorded("transfers", variant=way, shape=str(2**28), gpu="H200")
    return 1e9 * copy.gigabytes_per_second / bytes_of_an_image


factors = 4 * (2 * 256 * 50 + 50)
print(f"copy in   {a_second(factors, 'pinned in'):12,.0f} images/s")
print(f"kernel    {1024 / together.median * 1e3:12,.0f} images/s")
print(f"copy out  {a_second(4 * 256 * 256, 'pinned out'):12,.0f} images/s")

# %% [markdown]
# And how many a second does **one core of your CPU** factorise, by NumPy? Guess first.

# %%
predict("SVDs of 256 x 256 a second, on my CPU", 50, within=3)

# %%
# NBVAL_IGNORE_OUTPUT

image = rng.random((256, 256), dtype=np.float32)
with pipeline.threads.one_thread():
    np.linalg.svd(image)
    start = perf_counter()
    for _ in range(3):
        np.linalg.svd(image, full_matrices=False)
    a_core = 3 / (perf_counter() - start)
predict.answer("SVDs of 256 x 256 a second, on my CPU", round(a_core), unit="images/s")

# %% [markdown]
# (`one_thread` keeps NumPy to one core; else it takes several for one SVD.) Thousands of times
# fewer than the kernel! So the GPU will wait for the CPU, whatever you do to the kernel. You *can*
# keep all cores at work. No stage should stand still because another one works.
#
# In a plain loop, they stand still all the time. A **toy** shows it: its stages take the ms that
# you give them, so its figures are the same on every machine.

# %%
STAGES = [Stage("decode", 2), Stage("factorise", 6), Stage("rebuild", 1), Stage("write", 3)]
serial = play_pipeline(STAGES, images=4, serial=True)
print(f"{serial.images_per_second:.0f} images/s")
pictures.stages({"a loop": serial})

# %% [markdown]
# One bar at a time. Now give each stage a **thread** of its own: a line of work on the CPU, beside
# the others. (It shares no more than the name with the GPU's threads.) Between two stages let there
# be a place where finished images wait. How many images a second, when it runs for long?

# %%
predict("images/s, a thread for each stage", 167, within=1.05)

# %%
threads = play_pipeline(STAGES, images=1000, room=2)
predict.answer(
    "images/s, a thread for each stage", round(threads.images_per_second), how="computed"
)

# %%
pictures.stages({"a loop": serial, "a thread for each stage": play_pipeline(STAGES, 8, room=2)}, 48)

# %% [markdown]
# One image every 6 ms: `factorise` never stands still, and sets the pace. That is called
# **producer and consumer**: each stage consumes what the one before it produces. A grey bar is a
# **worker** (a thread that does a stage's work) with a finished image in hand, and nowhere to put
# it. (Sections 5 to 8 build such a pipeline, step by step.)

# %% [markdown]
# ## 4 The slowest stage
#
# <kbd>core</kbd> 20 minutes
#
# Back to the four stages of the toy. `factorise` sets the pace: 6 ms. Give it more workers, and
# watch:

# %%
print("workers at factorise   images/s   busy: decode, factorise, rebuild, write")
for workers in (1, 2, 3, 6):
    stages = [Stage("factorise", 6, workers) if s.name == "factorise" else s for s in STAGES]
    toy = play_pipeline(stages, 1000, room=4)
    busy = "   ".join(f"{toy.busy(stage.name):4.0%}" for stage in stages)
    print(f"{workers:12}{toy.images_per_second:21.0f}          {busy}")

# %% [markdown]
# From two workers on `factorise` is no longer the slowest: two workers make an image every 3 ms,
# as `write` does. Then `write` sets the pace, and a sixth worker helps nobody. Make the *slowest*
# stage faster, then look **again**: it is another one now.
#
# The stage that is busy all the time is the **bottleneck**. You also find it by its queues: the one
# before it is full, the one behind it is empty.

# %% [markdown]
# ### Exercise: the slowest stage
#
# `stages` is a dict: for each stage its ms for an image and its workers, such as `{"decode": (2.0,
# 1), ...}`. Return the name of the slowest stage, and how many images a second the pipeline makes
# at most.
#
# <details><summary>Hint</summary>
#
# n workers finish n images in those ms. 1 s is 1000 ms.
#
# </details>


# %% tags=["exercise"]
def slowest_stage(stages):
    """Return (name, images a second) of the stage that sets the pace."""
    ### BEGIN SOLUTION
    rates = {name: 1000 * workers / ms for name, (ms, workers) in stages.items()}
    name = min(rates, key=rates.get)
    return name, rates[name]
    ### END SOLUTION


# %% tags=["check"]
check("slowest-stage", slowest_stage)

# %% [markdown]
# And in earnest? The package does the same four things with each image. The next cell measures each
# **alone** on your machine: with one thread, then with a thread for each core of its share. Then it
# measures the package's whole. (Images of 256×256, k = 50. Without a GPU, NumPy rebuilds.) Which
# one sets the pace?

# %%
predict(
    "the slowest of decode, factorise, rebuild, write",
    "factorise",
    choices=("decode", "factorise", "rebuild", "write"),
)

# %%
# NBVAL_IGNORE_OUTPUT
from course_lessons.lesson09 import stage_rates

here = stage_rates.measure()
print(here)
predict.answer("the slowest of decode, factorise, rebuild, write", here.slowest)

# %% [markdown]
# (Figures of a second or two, each from another moment. If your machine does something else
# meanwhile, one may contradict another.) Where the whole stays below its slowest stage: alone, that
# stage had all cores for itself. In the whole the other stages want some of them, too. The toy
# gave a core to each worker, and does not know that. Where it lies above: the package's whole has
# processes instead of threads. Section 11 says why.
#
# `python -m course bench pipeline` measures it with 10,000 images. Recorded on a machine with an
# H200:

# %%
# NBVAL_IGNORE_OUTPUT
print(stage_rates.recorded("H200"))

# %% [markdown]
# The next question needs no such run. An H200's kernel and its PCIe were recorded; PCIe is slower.
# How many of *your* cores would have to factorise, to keep that link busy?

# %%
predict("cores like mine that keep the link busy", 1000, within=3)

# %%
# NBVAL_IGNORE_OUTPUT
link = a_second(4 * 256 * 256, "pinned out")
cores = round(link / here.one_thread["factorise"])
predict.answer("cores like mine that keep the link busy", cores)

# %% [markdown]
# So a faster kernel would change nothing here; nor would a second GPU. What would: fewer or faster
# factorisations. [Lesson 11](11_the_decomposition_itself.ipynb) brings the SVD itself to the GPU,
# many at a time.
#
# This program is **CPU-bound**: its pace is set by arithmetic of the CPU. Were the slowest stage
# reading or writing files, it would be I/O-bound. You know only when you have measured each stage.

# %% [markdown]
# ## 5 Threads and a queue
#
# <kbd>deepening</kbd> 5 minutes
#
# Section 3 drew a pipeline. Now build one, in seven steps.
#
# **Step 1: a loop.** Small images, made up, so that you need no files. The rest is real.


# %%
def decode(number):
    """Stand in for reading a file: make image `number`."""
    return np.random.default_rng(number).random((48, 48), dtype=np.float32)


def rebuild(image, k=8):
    """Factorise an image and rebuild it from its k largest singular values."""
    u, s, vt = np.linalg.svd(image, full_matrices=False)
    return (u[:, :k] * s[:k]) @ vt[:k]


numbers = range(12)
expected = [rebuild(decode(number)) for number in numbers]
print(len(expected), "images rebuilt")

# %% [markdown]
# **Step 2: a thread.** `Thread(target=f)` is a second line of work in your program. `start()` lets
# it run, `join()` waits for its end. Both threads see the same variables.
#
# Python lets only one thread at a time run *Python*. But while NumPy computes an SVD, a file is
# read, or the GPU is waited for, the others go on. That is where our time goes, so threads are
# enough. (Since 3.13 there are also **free-threaded** builds of Python, such as `python3.13t`. In
# them threads run Python at the same time.)

# %%
found = []


def produce():
    for number in numbers:
        found.append(decode(number))


thread = Thread(target=produce)
thread.start()
thread.join()
print(len(found), "images decoded by another thread")

# %% [markdown]
# **Step 3: a queue.** The second thread should begin before the first one has ended. But a list
# does not say when something new is there. A `Queue` does: `put` adds at its end, `get` takes from
# its front, and **waits** while it is empty.

# %%
waiting = Queue()


def produce():
    for number in numbers:
        waiting.put(decode(number))


thread = Thread(target=produce)
thread.start()
results = [rebuild(waiting.get()) for _ in numbers]
thread.join()
print("as in the loop:", all(map(np.allclose, results, expected)))

# %% [markdown]
# **Step 4: a bound.** If decoding is faster, more and more images wait in memory.
# `Queue(maxsize=3)` has three places. `put` then waits for room. (`put_nowait` does not wait, but
# complains: good for seeing it.)

# %%
waiting = Queue(maxsize=3)
for number in range(5):
    try:
        waiting.put_nowait(number)
        print(f"{number} is in the queue, {waiting.qsize()} of {waiting.maxsize}")
    except Full:
        print(f"{number} finds no room; put would wait now")

# %% [markdown]
# ## 6 The end, and who waits for whom
#
# <kbd>deepening</kbd> 25 minutes
#
# **Step 5: an end marker.** In step 3 the consumer knew how many images come. Usually it does not.
# An empty queue says nothing: perhaps the next one is still being decoded. So the producer puts
# something that is no image: `None`.
#
# ```text
# while (item := waiting.get()) is not None:
#     results.append(work(item))
# ```
#
# `:=` gives `item` its value and hands it to the comparison, too. What if the producer forgets the
# `None`? Guess what this program does:


# %%
def forgets_the_end(items, work, workers, room):
    """Work on all items in another thread, and never say that it was the last."""
    waiting, results = Queue(maxsize=room), []

    def worker():
        while (item := waiting.get()) is not None:
            results.append(work(item))

    thread = Thread(target=worker)
    thread.start()
    for item in items:
        waiting.put(item)
    thread.join()
    return results


# %% [markdown]
# Run by itself, it would stand still for ever, without a word. The package's `call_watched` watches
# the threads of a call, and says who waits for whom. `check` uses it, too.

# %%
from course import wrapped
from course_lessons.lesson09.watching import Failure, call_watched

try:
    call_watched(forgets_the_end, (range(6), abs, 1, 2), seconds=10)
except Failure as failure:
    print(wrapped(failure))

# %% [markdown]
# A **deadlock**: the main thread waits for the worker, the worker waits for the main thread. If a
# program of yours stands still, make this list: *who waits, in which call, for whom?*
#
# Now several workers. They share one queue, and `get` gives each item to one of them only. That
# goes for the `None` as well. How many have to be put for 4 workers?

# %%
predict("end markers for 4 workers", 1, exact=True)

# %% [markdown]
# ### Exercise: several workers
#
# Return the results of `work(item)` for all items, in any order. Let `workers` threads do the work,
# with a queue that has `room` places. All threads must have ended when you return.
#
# <details><summary>Hint 1</summary>
#
# The order matters: make the queue, start all workers, put all items, put the ends, join all.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# `threads = [Thread(target=worker) for _ in range(workers)]`. Two threads may `append` to one list
# at the same time: Python does that in one step.
#
# </details>


# %% tags=["exercise"]
def run_workers(items, work, workers, room):
    """Return work(item) of every item, in any order, done by so many threads."""
    ### BEGIN SOLUTION
    waiting, results = Queue(maxsize=room), []

    def worker():
        while (item := waiting.get()) is not None:
            results.append(work(item))

    threads = [Thread(target=worker) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for item in items:
        waiting.put(item)
    for _ in threads:
        waiting.put(None)
    for thread in threads:
        thread.join()
    return results
    ### END SOLUTION


# %% tags=["check"]
check("run-workers", run_workers)

# %%
predict.answer("end markers for 4 workers", 4, how="computed")

# %% [markdown]
# ## 7 Errors travel, and order is kept
#
# <kbd>deepening</kbd> 40 minutes
#
# **Step 6: errors.** Among ten thousand files one is broken. `decode` raises an exception, in a
# thread. It ends that thread, and **nobody else notices**: the others wait for an image that will
# never come.
#
# So an error must travel the same way as the images. A worker hands on *either* a result *or* a
# reason:
#
# | of | number | result | reason |
# |---|---|---|---|
# | a good image | 7 | the image | `None` |
# | a bad one | 8 | `None` | `"not an image"` |
#
# Whoever is at the end of the line writes the good ones, and a report about the others.

# %% [markdown]
# ### Exercise: errors travel
#
# You are one worker. Take pairs `(number, image)` out of `waiting` until `None` comes. Put a triple
# `(number, result, reason)` into `done` for each, with `result` from `work(image)`. Return how many
# were bad.
#
# <details><summary>Hint 1</summary>
#
# `try: ... except Exception as error:` stands **inside** the loop, or the first bad image ends it.
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# The reason is `str(error)`.
#
# </details>


# %% tags=["exercise"]
def careful_worker(waiting, done, work):
    """Hand on (number, result, reason) for each image; return the number of bad ones."""
    ### BEGIN SOLUTION
    bad = 0
    while (entry := waiting.get()) is not None:
        number, image = entry
        try:
            done.put((number, work(image), None))
        except Exception as error:
            done.put((number, None, str(error)))
            bad += 1
    return bad
    ### END SOLUTION


# %% tags=["check"]
check("errors-travel", careful_worker)

# %% [markdown]
# **Step 7: order.** Several workers finish in any order. Where the order matters, as for the frames
# of a film, each image carries its number, and somebody sorts. But not at the end: then all images
# would be in memory. Write each **as soon as its turn comes**, and keep only what came too early.
#
# Results arrive in the order 2, 0, 1, 3. How many have to be kept at a time, at most?

# %%
predict("results kept at a time, for 2, 0, 1, 3", 2, exact=True)

# %% [markdown]
# ### Exercise: results in order
#
# `pairs` gives `(number, result)` in any order; the numbers are 0, 1, 2, ... without a gap. Call
# `write(result)` in the order of the numbers, each as early as possible. Return the most results
# that had to be kept at a time, counted after each arrival, when what can be written is written.
#
# <details><summary>Hint</summary>
#
# A dict `early` for what came too early, and `turn`, the number that is to be written next. One
# arrival may give several others their turn.
#
# </details>


# %% tags=["exercise"]
def write_in_order(pairs, write):
    """Write results in the order of their numbers; return the most that were kept at a time."""
    ### BEGIN SOLUTION
    early, turn, most = {}, 0, 0
    for number, result in pairs:
        early[number] = result
        while turn in early:
            write(early.pop(turn))
            turn += 1
        most = max(most, len(early))
    return most
    ### END SOLUTION


# %% tags=["check"]
check("write-in-order", write_in_order)

# %%
kept = write_in_order([(2, "c"), (0, "a"), (1, "b"), (3, "d")], lambda result: None)
predict.answer(
    "results kept at a time, for 2, 0, 1, 3",
    "not written yet" if kept is None else kept,
    how="counted",
)

# %% [markdown]
# **All steps together**, with your own two functions. There are a producer, three workers and two
# bounded queues. Each worker gets an end marker, errors travel, and results come in order.


# %%
def work(number):
    """Decode and rebuild an image; number 5 is broken."""
    if number == 5:
        raise ValueError("file 5 is broken")
    return rebuild(decode(number))


# %%
def all_together(numbers, workers=3):
    waiting, done, results = Queue(maxsize=4), Queue(maxsize=4), []

    def produce():
        for item in [*((n, n) for n in numbers), *[None] * workers]:
            waiting.put(item)

    def arrivals():
        for _ in numbers:
            number, result, reason = done.get()
            yield number, reason if result is None else result

    tasks = [(produce, ())] + [(careful_worker, (waiting, done, work))] * workers
    threads = [Thread(target=target, args=arguments) for target, arguments in tasks]
    for thread in threads:
        thread.start()
    write_in_order(arrivals(), results.append)
    for thread in threads:
        thread.join()
    return results


# %% [markdown]
# If one of your functions is not finished yet, `call_watched` tells you who waits for whom.

# %%
try:
    results = call_watched(all_together, (numbers,), seconds=10)
    for number, (result, right) in enumerate(zip(results, expected)):
        good = isinstance(result, np.ndarray) and np.allclose(result, right)
        print(number, "as in the loop" if good else result)
except Failure as failure:
    print(failure)

# %% [markdown]
# ## 8 Back-pressure
#
# <kbd>deepening</kbd> 5 minutes
#
# What is a bound good for? Let the slowest stage be the last one: decoding takes 1 ms, writing
# 5 ms, a thousand images. How many images lie in a queue **without** a bound, at worst?

# %%
predict("images in a queue without a bound", 1000, within=1.05)

# %%
SLOW_DISK = [Stage("decode", 1), Stage("write", 5)]
endless, bounded = play_pipeline(SLOW_DISK, 1000), play_pipeline(SLOW_DISK, 1000, room=4)
predict.answer("images in a queue without a bound", endless.most_waiting("write"), how="computed")

# %%
print("room       images/s   in the queue   of 2048 x 2048, float32")
for name, toy in (("no bound", endless), ("4", bounded)):
    waiting_there = toy.most_waiting("write")
    print(f"{name:10}{toy.images_per_second:9.1f}{waiting_there:15}", end="")
    print(f"{waiting_there * 4 * 2048**2 / 1e9:21.2f} GB")
pictures.stages({"room for 2": play_pipeline(SLOW_DISK, 12, room=2)}, until=40)

# %% [markdown]
# Not one image a second is lost, and nearly all of the memory is saved. `decode` is held up by the
# full queue: grey bars. It works as fast as `write` does, on the average. That is
# **back-pressure**: a slow stage slows down all those before it, through queues alone. Nobody has
# to measure or to steer anything.
#
# How many places? Enough that a stage still has work when the one before it hesitates; a few for
# each worker. More only needs memory.

# %% [markdown]
# ## 9 Killed in the middle
#
# <kbd>deepening</kbd> 30 minutes
#
# A long run takes hours. Somewhere on the way somebody shuts the laptop, or the cluster takes your
# machine away: `kill -9`. No handler runs, no file is closed. What is on the disk then?
#
# `kill_everywhere` runs a function that writes a file again and again, and stops it after one more
# step each time. What do you find of a file of 1,000 bytes, where an older one was?

# %%
import inspect
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from course_lessons.lesson09.killed_writes import kill_everywhere


def careless(path, data):
    """Write a file, as one does."""
    with open(path, "wb") as file:
        file.write(data)


outcome = kill_everywhere(careless, (Path("0007.png"), bytes(1000), b"an older image"))
for kill in outcome.kills:
    print(f"killed after {kill.after}: {len(kill.content)} bytes")

# %% [markdown]
# An empty file, half a file, a whole file, all with the right **name**. Whoever starts again sees
# `0007.png` and takes it for done. Half an image in ten thousand: you would never find it.
#
# The way out: write under *another name* in the same folder. When all is written and closed,
# rename. `os.replace(source, target)` puts a file in another's place in **one step** of the file
# system. Before it, the old one is there, after it, the new one. Nothing lies between.

# %% [markdown]
# ### Exercise: whole or not there
#
# Write `data` (bytes) to `path` (a `Path`). Whenever the program is killed, `path` must hold either
# the old data or all of the new.
#
# <details><summary>Hint 1</summary>
#
# `path.with_name(path.name + ".part")` is a second name in the same folder. (Another folder may be
# another disk, where renaming means copying.)
#
# </details>
#
# <details><summary>Hint 2</summary>
#
# Close the file before you rename it: until then some of it may not have left your program.
#
# </details>


# %% tags=["exercise"]
def save_whole(path, data):
    """Write a file that is whole or not there, whenever the program is killed."""
    ### BEGIN SOLUTION
    part = path.with_name(path.name + ".part")
    with open(part, "wb") as file:
        file.write(data)
    os.replace(part, path)
    ### END SOLUTION


# %% tags=["check"]
check("save-whole", save_whole)

# %% [markdown]
# (This is about a program that is killed. When the *power* fails, the system's own memory is lost,
# too. Against that two more steps help, for a price. `file.flush()` and `os.fsync(file.fileno())`
# before the renaming bring the **data** to the disk. The new **name** stands in the folder, so the
# folder must reach the disk, too, after the renaming. On Linux, open it with `os.open(folder,
# os.O_RDONLY)` and call `os.fsync` for it. Without that, the old name may be back. The package
# takes neither step: it is made for programs that are killed.)

# %% [markdown]
# And which images are done? A **journal** says so: a text file that grows by a line, the image's
# name, each time a file is in its place. First the file, then the line. If the program dies between
# the two, one image is done twice. The other way round, one would be lost.

# %% [markdown]
# ### Exercise: what is left to do
#
# Return the names that are not done yet, in their order. `journal` is the journal's text. Beware:
# the program may have died in the middle of a line. If `12` was to be written, what may stand
# there?
#
# <details><summary>Hint</summary>
#
# A line counts if it ends in a newline, `"\n"`.
#
# </details>


# %% tags=["exercise"]
def left_to_do(names, journal):
    """Return the names that no whole line of the journal has."""
    ### BEGIN SOLUTION
    done = set(journal.split("\n")[:-1])
    return [name for name in names if name not in done]
    ### END SOLUTION


# %% tags=["check"]
check("left-to-do", left_to_do)

# %% [markdown]
# Now in earnest: a second Python process, with your two functions, which really gets killed. The
# program makes 20 small images. `inspect.getsource` takes your functions' text over to it. For
# image `stop`, its `os.replace` (or `os.rename`) says "in the middle" and waits. So we can kill it
# at the worst moment: the data is written, the name is not there.

# %%
PROGRAM = """
import os, shutil, sys, tempfile, time
from pathlib import Path

folder, stop, replace = Path(sys.argv[1]), sys.argv[2], os.replace
journal, names = folder / "journal.txt", [f"image{n:02}.pgm" for n in range(20)]

def replace_or_wait(source, target):
    if Path(target).name == stop:
        print("in the middle", flush=True)
        time.sleep(60)
    replace(source, target)

os.replace = os.rename = replace_or_wait
text = journal.read_text() if journal.exists() else ""
save_whole(journal, text[: text.rfind("\\n") + 1].encode())  # half a line is cut off
for name in left_to_do(names, text) or []:
    pixels = bytes(int(name[5:7]) * x * y % 256 for y in range(64) for x in range(64))
    save_whole(folder / name, b"P5 64 64 255 " + pixels)
    with open(journal, "a") as lines:
        lines.write(name + "\\n")
    print(name, flush=True)
"""


# %%
def run_program(folder, stop="never"):
    """Run the program in another process; kill it where it says that it is in the middle."""
    own = inspect.getsource(save_whole) + "\n" + inspect.getsource(left_to_do)
    command = [sys.executable, "-c", own + PROGRAM, folder, stop]
    made, end = [], "then it was done"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stdout:
            if line.strip() == "in the middle":
                process.kill()
                end = "then killed"
                break
            made.append(line.strip())
        errors = process.stderr.read().strip().splitlines()
    return made, errors[-1] if errors else end


# %% [markdown]
# `process.kill()` is `kill -9`. We take the eighth image, `image07.pgm`. How many images will the
# second run make?

# %%
predict("images that the second run makes", 12, exact=True)

# %%
with TemporaryDirectory() as folder, TemporaryDirectory() as calm:
    first, end = run_program(folder, stop="image07.pgm")
    left = sorted(path.name for path in Path(folder).iterdir())
    second, second_end = run_program(folder)
    run_program(calm)
    same = [
        (Path(folder) / name).read_bytes() == (Path(calm) / name).read_bytes()
        for name in first + second
        if (Path(folder) / name).exists()
    ]
    print(f"first run: {len(first)} images, {end}")
    print("left behind:", *[name for name in left if name not in first])
    print(f"second run: {len(second)} images, from {second[:1]} on, {second_end}")
    print(f"{sum(same)} of 20 are as in a run that nobody disturbed")
    print("made twice:", len(first + second) - len(set(first + second)))
predict.answer("images that the second run makes", len(second), how="counted")

# %% [markdown]
# The file under the second name was the one in flight. The second run has written over it. Nothing
# is torn, nothing lost, nothing done twice.

# %% [markdown]
# ## 10 The whole machine
#
# <kbd>deepening</kbd> 5 minutes
#
# This is what you have built, with the GPU at its side: threads above, queues in the middle, and
# below what does the work.

# %%
pictures.components()

# %% [markdown]
# In four sentences:
#
# 1. **Host components** are threads of one process, and each does one stage: decode, factorise,
#    rebuild, write.
# 2. **Logical queues** stand between them. They are bounded, so that a slow stage holds up those
#    before it. Between the host and the GPU the queue is a **stream**: the rebuild thread puts
#    copies and kernels into it, and waits for its end.
# 3. **Physical engines** take work out of a queue when they are free: CPU cores run all threads,
#    the GPU has a copy engine for each direction and its SMs, the disk reads and writes.
# 4. A queue says only what must come *before* what; how much happens *at once* is decided by the
#    engines.

# %% [markdown]
# More streams ([lesson 08](08_streams.ipynb)) are more logical queues, not more engines. They help
# where one queue holds up work that an engine could go on with. Here the copies and the kernel of a
# thousand images take a few ms, and factorising them takes a CPU far longer. So one stream is
# enough, for now.

# %% [markdown]
# ## 11 The package's pipeline
#
# <kbd>deepening</kbd> 10 minutes
#
# `reconstruct_images` has the same stages, bounds and journal, but **processes** where you had
# threads (`course_app/pipeline/scheduler.py`, `workers.py`, `journal.py`). Its first version had
# threads, and was slower than a script of 25 lines with a process for each core. Why? On section
# 4's machine, with its 16 cores, how many times as many images do 16 threads decode as one thread?

# %%
predict("times as many images decoded by 16 threads", 16, within=1.25, no_effect=1)


# %%
# NBVAL_IGNORE_OUTPUT
def of_pipeline(variant):
    """Return the images a second that were recorded of a part of the pipeline."""
    (found,) = recorded("pipeline", variant=variant, metric="rate", gpu="H200")
    return found.median


print(f"{'images/s':12}{'1 thread':>10}{'16 threads':>12}")
gains = {}
for stage in ("decode", "factorise", "write"):
    one, many = (of_pipeline(f"{stage}, {threads}") for threads in ("1 thread", "16 threads"))
    gains[stage] = many / one
    print(f"{stage:12}{one:10,.0f}{many:12,.0f}   {gains[stage]:.1f} times")
predict.answer("times as many images decoded by 16 threads", round(gains["decode"], 1), how="found")

# %% [markdown]
# Only one thread runs Python at a time: it holds Python's **lock**. A library may let go of it
# while it computes, as LAPACK does in `factorise`. Opening, resizing and squeezing a small image
# takes a hundred short steps. Between two of them a thread wants the lock again. Sixteen wait for
# it in turn, and each hand-over costs time. Processes share no lock. They share memory that is set
# aside for it: images lie in *trays* that all can see, and only their places travel.
#
# The same 10,000 images by whole programs, from their start to their end, on that machine:

# %%
# NBVAL_IGNORE_OUTPUT
for name in ("plain script", "reconstruct_images, svd cpu", "reconstruct_images, svd gpu"):
    print(f"{name:28}{of_pipeline(f'{name}, 16 processes'):7,.0f} images/s")
gpu_alone = of_pipeline("factorise, rebuild and judge on the GPU, 1 thread")
print(f"the GPU by itself, from memory to memory: {gpu_alone:,.0f} images/s")

# %% [markdown]
# All three have 16 processes. With `svd cpu` they factorise, and only as many values as are wanted;
# the GPU rebuilds and judges. With `svd gpu` it factorises, too, and the cores do nothing but read
# and write.
#
# So where does the GPU pay? Where much is computed for each byte that is read, and the work takes
# longer than the second or two of the start. For 300 images the package does not touch it. And it
# has processes of its own. Beside the threads that talk to the others, it waited for the lock as
# long as it computed. Three take turns, since one that copies images does not compute.

# %% [markdown]
# A decoder that crashes ends one process, and costs one image. Five images, and one file that is
# none:

# %%
from PIL import Image


with TemporaryDirectory() as folder:
    inputs, out = Path(folder) / "inputs", Path(folder) / "out"
    inputs.mkdir()
    for number in range(5):
        pixels = (255 * decode(number)).astype(np.uint8)
        Image.fromarray(pixels).save(inputs / f"image{number}.png")
    (inputs / "broken.png").write_bytes(b"not an image")
    report = pipeline.reconstruct_images([inputs], [8], out, size=48, engine="numpy", resume=True)
    for quality in report.qualities:
        print(f"{quality.file}  {quality.psnr_db:.1f} dB")
    for path, reason in report.skipped:
        print(wrapped(f"{Path(path).name} set aside: {reason}"))

# %% [markdown]
# In a terminal, for a folder of your own photos; with `--resume` you may kill it and start it
# again:
#
# ```text
# python -m course reconstruct photos --k 50 --out rebuilt --resume
# ```

# %%
progress(9)

# %% [markdown]
# ## What you should be able to say now
#
# - One launch for many images: no launch cost for each, and work for every SM.
# - A queue hands work from thread to thread; a bound keeps memory small; a marker says that it
#   ends.
# - Threads that all wait for each other are a deadlock: say who waits for whom.
# - An exception in a thread is lost unless it travels with the data.
# - A pipeline is as fast as its slowest stage, and that one has to be measured.
# - Threads help where they let go of Python's lock; for the rest there are processes.
# - Write under another name, rename, then enter it in the journal.

# %% [markdown]
# ## Questions
#
# 1. Why does an empty queue not mean the end?
# 2. A pipeline's queue before `write` is always full. What do you do?
# 3. Why first the file, then the journal? And why does the program cut off half a line first?
#
# <details><summary>Answers</summary>
#
# 1. The producer may still be at work on the next item. Only it knows that nothing more comes.
# 2. `write` is the bottleneck: give it more workers, or make writing cheaper. A longer queue only
#    needs more memory.
# 3. If the program dies in between, an image is made twice. The other way round it would be
#    missing, and nobody would know. The next name would be written behind the half line: a line
#    that names no image.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - In `run_workers` let one `None` be enough: a worker that takes it puts it back.
# - Give `all_together` a stage more: `decode` and `rebuild` apart, with a queue between.
# - Kill `python -m course reconstruct ... --resume` on a folder of your own, several times.
# - What would the toy say of a machine whose disk takes 10 ms for every image?

# %% [markdown]
# ## Common misconceptions
#
# - *"Python threads are useless, because only one runs."* Only one runs Python. While NumPy, a disk
#   or a GPU is at work, the others run (section 11).
# - *"A longer queue makes it faster."* It evens out hesitations. The slowest stage stays what it
#   is.
# - *"More workers are always faster."* From a point on another stage is the slowest.
# - *"The GPU is the bottleneck, it has the most work."* Look at the figures of section 4.
# - *"A file with the right name is done."* Only if it can get that name in no other way.
# - *"`queue.empty()` tells me that I am done."* It tells you that nothing is there right now.

# %% [markdown]
# ## What to read next
#
# - Python documentation, [queue](https://docs.python.org/3/library/queue.html) and
#   [threading](https://docs.python.org/3/library/threading.html).
# - Python documentation, [os.replace](https://docs.python.org/3/library/os.html#os.replace).
# - NVIDIA, [cuBLAS: batched
#   GEMM](https://developer.nvidia.com/blog/cublas-strided-batched-matrix-multiply/): why small
#   products are done many at a time.
# - PyTorch documentation,
#   [torch.bmm](https://docs.pytorch.org/docs/stable/generated/torch.bmm.html).
# - Next in the course: [lesson 10](10_reductions.ipynb), Reductions.
