# %% [markdown]
# # 12 More than one GPU
#
# Four GPUs do four times the work, if nobody has to wait for anybody. You split a batch over
# workers, keep every bit of its results, kill one of them, and find out what does not get faster.

# %% [markdown]
# ## What you will do
#
# - Start workers, a process each, let them rebuild images, and kill one.
# - Predict four GPUs from a run with one.

# %% [markdown]
# ## What you will learn
#
# - Which work scales, strongly and weakly, and the law of each.
# - Where the time goes that a second GPU does not save.

# %% [markdown]
# ## What you need
#
# [Lesson 09](09_a_thousand_images.ipynb): stacks of images, the slowest stage; for section 9 its
# journal, too. Section 11 of [lesson 08](08_streams.ipynb) derives the laws that sections 6 and 11
# use. No GPU is needed: workers without one do the same on CPU cores.
#
# Two cells start real workers with **Dask**. Colab has it. Else `pip install "dask[distributed]"`,
# or the extra `cluster` of this course; without it those two cells say so, and all others run.

# %% [markdown]
# ## How long it takes
#
# After section 7 is a good place for a break. The computer needs less than half a minute of it.

# %%
# NBVAL_IGNORE_OUTPUT
import pickle
from time import sleep

import numpy as np

from course import check, gpu, predict, progress, recorded
from course_lessons import lesson08 as streams
from course_app import pipeline
from course_lessons.lesson12 import cluster, pictures, plots
from course_lessons.lesson12.toy_cluster import play_cluster

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 What scales
#
# <kbd>core</kbd> 5 minutes
#
# A thousand images are a thousand **independent** pieces of work: no image needs to know anything
# of another one. So deal them out to four GPUs, and each has a quarter. Nothing is said between
# them until the results come home.
#
# Compare: *one* huge image whose left half needs the right half's result at every step. Two GPUs
# would spend their time talking. That is a subject of its own, and not this lesson's.

# %% [markdown]
# And one *small* image on four GPUs? Recorded: a stack of 1,024 images, 256×256 with k = 50, takes
# an H200 0.2 ms. For one image alone it has not even work for all of its SMs ([lesson
# 09](09_a_thousand_images.ipynb)). So the unit that we deal out is a **batch**: many images, one
# launch.
#
# | | what is divided | who talks to whom |
# |---|---|---|
# | lesson 09 | images over blocks of a grid | nobody |
# | this lesson | batches over GPUs | each worker with the scheduler |

# %% [markdown]
# These are the parts. Your program has a list of batches. The **scheduler** hands them out, to
# **workers** that are processes of their own, each with a GPU of its own. (Two things in the
# picture are for section 2: why each GPU is called 0 by its worker, and what 127.0.0.1 is.)

# %%
pictures.parts(4)

# %% [markdown]
# ## 2 A worker for each GPU
#
# <kbd>core</kbd> 5 minutes
#
# Why processes, and not threads as in [lesson 09](09_a_thousand_images.ipynb)?
#
# - Python lets one thread at a time run Python: its global interpreter lock, the **GIL**. While a
#   thread prepares a launch, the three others wait. Lesson 09's threads waited for other things
#   most of the time. (Free-threaded builds of Python have no GIL. The next two reasons stay.)
# - A process has one **context** for its GPU: its memory, its kernels. A kernel that writes where
#   it must not ends that context, for all threads that share it. With a process each, one worker
#   dies, and three go on.
# - A process can be killed and started again. A thread cannot.

# %% [markdown]
# How does a worker get *its* GPU? By the variable `CUDA_VISIBLE_DEVICES`: the GPUs that a process
# may see. In there they are counted from 0 again, so the code is the same on all workers.
#
# The driver reads the variable **once**, at the first CUDA call. A toy of a machine with four GPUs:


# %%
class ToyProcess:
    """A process: its variables, and a driver that looks at them at the first call only."""

    def __init__(self, **variables):
        self.variables, self.visible = variables, None

    def gpus(self):
        if self.visible is None:
            self.visible = self.variables.get("CUDA_VISIBLE_DEVICES", "0,1,2,3").split(",")
        return len(self.visible)


# %% [markdown]
# A worker asks how many GPUs there are, finds 4, sets the variable to `"2"` and asks again. How
# many does it see?

# %%
predict("GPUs seen, variable set after the first call", 1, exact=True)

# %%
late = ToyProcess()
late.gpus()
late.variables["CUDA_VISIBLE_DEVICES"] = "2"
early = ToyProcess(CUDA_VISIBLE_DEVICES="2")
print("set before the process starts:", early.gpus())
predict.answer("GPUs seen, variable set after the first call", late.gpus(), how="found")

# %% [markdown]
# Then all four workers would take GPU 0, three GPUs would be idle, and nothing would say so. So the
# variable is set **before** the worker's Python starts. `course_app/cluster/processes.py` does
# that, and when all are there, `check_gpus` asks each worker for the identity of its GPU: no two
# may be the same.

# %% [markdown]
# One more thing before we start any. Work travels as a **pickle**, bytes that say how to build an
# object. Reading a pickle may call any function. Here a message that calls `print`:


# %%
class Message:
    def __reduce__(self):
        return print, ("this ran at the receiver, by reading the message",)


message = pickle.dumps(Message())
_ = pickle.loads(message)

# %% [markdown]
# It could as well remove your files. **Who can reach a scheduler or a worker can run programs
# there.** So `course_app.cluster` listens on 127.0.0.1, **loopback**: an address that only programs
# on the same machine can reach. On a machine that others use, too, they can as well.

# %% [markdown]
# ## 3 Work that can be done anywhere
#
# <kbd>core</kbd> 5 minutes
#
# A batch may be done by any worker, at any time, and perhaps twice. For that the work must be a
# **pure function**: its result depends on its arguments and on nothing else, and it changes nothing
# else.
#
# This one is not. Six images in three batches, made from *one* random generator. Another worker is
# quicker, and the batches are done in the order 2, 0, 1. How many of the six images are the same?

# %%
predict("images that stay the same, in another order", 2, exact=True)


# %%
def do_all(work, batches):
    """Do batches (first image, how many) in this order; return the images by number."""
    images = {}
    for first, count in batches:
        images.update(zip(range(first, first + count), work(first, count)))
    return np.stack([images[number] for number in sorted(images)])


def careless():
    rng = np.random.default_rng(11)
    return lambda first, count: rng.random((count, 4, 4))


one, two, three = (0, 2), (2, 2), (4, 2)
in_order, other = do_all(careless(), [one, two, three]), do_all(careless(), [three, one, two])
same = sum(np.array_equal(a, b) for a, b in zip(in_order, other))
predict.answer("images that stay the same, in another order", same, how="found")

# %% [markdown]
# The generator is an argument that nobody sees: its state is what all the calls before have left.
# Make each image's numbers from **its own number** instead:


# %%
def pure(first, count):
    return [np.random.default_rng([11, n]).random((4, 4)) for n in range(first, first + count)]


whole = do_all(pure, [(0, 6)])
for split in ([one, two, three], [three, one, two], [(3, 3), (0, 3)]):
    print(split, "the same:", np.array_equal(do_all(pure, split), whole))

# %% [markdown]
# Now neither the order matters nor how the images are cut in batches. Such a call is a **recipe**:
# a few numbers from which a worker makes the data itself. The package's `Recipe` makes the factors
# of a batch like that, on the GPU, and they stay there.

# %% [markdown]
# ## 4 What travels
#
# <kbd>core</kbd> 20 minutes
#
# Three plans to bring factors to a worker, for a batch that is rebuilt in several **passes** (say,
# with several k):
#
# | plan | there |
# |---|---|
# | `"send"` | the factors, in each pass |
# | `"keep"` | the factors, once; the worker keeps them |
# | `"make"` | a recipe of 64 bytes for each batch, once; the worker makes and keeps them |
#
# Back come results, in each pass: whole images, or a few bytes that are computed from each.

# %% [markdown]
# ### Exercise: bytes over the network
#
# Return the bytes that travel there and back, together. `factors` and `back` are the bytes of one
# image's factors and of one image's result. There are `images` in batches of `batch`; the last one
# may be shorter.
#
# <details><summary>Hint</summary>
#
# First `there`, which depends on the plan; then add the results of all passes. `math.ceil(images /
# batch)` or `-(-images // batch)` is the number of batches.
#
# </details>


# %% tags=["exercise"]
def network_bytes(plan, images, batch, factors, back, passes):
    """Return the bytes there and back of a plan: "send", "keep" or "make"."""
    ### BEGIN SOLUTION
    there = {
        "send": passes * images * factors,
        "keep": images * factors,
        "make": 64 * -(-images // batch),
    }
    return there[plan] + passes * images * back
    ### END SOLUTION


# %% tags=["check"]
check("network-bytes", network_bytes)

# %% [markdown]
# 10,000 images of 256×256 with k = 50, in batches of 100, five passes. Only 8 bytes of each image
# come back: a **digest**, which depends on all of its bits. How many times fewer bytes has "make"
# than "send"?

# %%
predict("times fewer bytes, made there instead of sent", 10_000, within=1.5)

# %%
factors, image = 4 * (256 * 50 + 50 + 50 * 256), 4 * 256 * 256
counted = {
    (plan, back): network_bytes(plan, 10_000, 100, factors, back, 5)
    for plan in ("send", "keep", "make")
    for back in (image, 8)
}
for (plan, back), count in counted.items():
    words = "not written yet" if count is None else f"{count / 1e6:12,.2f} MB"
    print(f"{plan}, {back:7,} bytes back: {words}")
sent, made = counted["send", 8], counted["make", 8]
fewer = "not written yet" if made is None else round(sent / made)
predict.answer("times fewer bytes, made there instead of sent", fewer, how="computed")

# %% [markdown]
# Four orders of magnitude. Is the count right? Ask the bytes themselves: this is what would be put
# on the wire for a batch of 100 images.

# %%
shapes = (100, 256, 50), (100, 50), (100, 50, 256)
on_the_wire = len(pickle.dumps(tuple(np.zeros(shape, np.float32) for shape in shapes), 4))
recipe = len(pickle.dumps(cluster.Recipe(0, 100, 256, 256, 50), 4))
print(f"counted for the factors: {100 * factors:,} bytes")
print("pickled, less than 0.1% more:", 100 * factors < on_the_wire < 1.001 * 100 * factors)
print("a recipe of the package, below 200 bytes:", recipe < 200)

# %% [markdown]
# (The recipe that we counted with is a tight one. The package's also says how large the images
# are.)
#
# What does that mean in time? A network of 10 Gbit/s carries 1.25 GB/s at the very most. An H200
# rebuilds 1,024 such images in the recorded 0.2 ms. If factors go there and images come back, over
# this network: what share of the time does the GPU work, in percent?

# %%
predict("percent of the time in which the GPU works", 1, within=2)

# %%
(stack,) = recorded("reconstruct", variant="warp tiles", shape="1024x256x256x50", gpu="H200")
by_gpu, by_network = 1024e3 / stack.median, 1.25e9 / (factors + image)
print(f"the GPU: {by_gpu / 1e6:.1f} million images/s; the network: {by_network:,.0f} images/s")
share = round(100 * by_network / by_gpu, 2)
predict.answer("percent of the time in which the GPU works", share, unit="%", how="computed")

# %% [markdown]
# Four GPUs behind that wire work a quarter of that each. So first the question *"does it have to
# travel?"*, then the number of GPUs.

# %% [markdown]
# ## 5 The same bits
#
# <kbd>core</kbd> 5 minutes
#
# Now for real. This is the work: a pure function of a batch, that is its first image's number and
# how many there are. It makes factors, rebuilds the images, and returns a digest of each: a SHA-256
# depends on every bit.

# %%
import hashlib

FALLING = (1 / np.arange(1, 51)).astype(np.float32)


def work(batch):
    """Make and rebuild the images of a batch; return a digest of each."""
    first, count = batch
    digests = []
    for number in range(first, first + count):
        rng = np.random.default_rng([11, number])
        u, vt = (rng.random(shape, np.float32) for shape in ((256, 50), (50, 256)))
        digests.append(hashlib.sha256((u * FALLING) @ vt).hexdigest())
    return digests


batches = [(first, 8) for first in range(0, 128, 8)]
with pipeline.threads.one_thread():
    here = [work(batch) for batch in batches]
print(len(batches), "batches,", len({one for each in here for one in each}), "different digests")

# %% [markdown]
# **Dask** is a Python library that starts processes, sends them functions and data, and brings the
# results back. `course_app.cluster` is a thin layer on it: a GPU for each worker, the results in
# the order of the batches.

# %% [markdown]
# Then the same by one worker, and by two, without GPUs, so that it runs anywhere. (With GPUs the
# work would be the package's `rebuilt_digests`: [lesson 06](06_reuse_reuse_reuse.ipynb)'s kernel,
# on recipes.)
#
# - `group.map(work, batches)` has each batch done by some worker. `group.part(1)` is one of them.
# - `cluster.scaling.timed_map` does the same, and says where the time went.
# - At the end of `with` the processes are gone, whatever has happened.
#
# The last line hands out batches without work. Up to 16 are under way to each worker, so that none
# waits just because the way is long. Section 12 asks what they cost.

# %%

parts, empty = {}, None
try:
    with cluster.cluster(2, gpus=False) as group:
        print(len({one.process for one in group.seen}), "workers, a process each")
        list(group.map(work, batches[:4]))  # warm up
        for count in (1, 2):
            found, parts[count] = cluster.scaling.timed_map(group.part(count), work, batches)
            print("workers:", count, " the same to the bit:", found == here)
        _, empty = cluster.scaling.timed_map(group, cluster.work.nothing, range(100), ahead=16)
except (ImportError, cluster.ClusterError) as error:
    print(error)

# %% [markdown]
# The same in every run, though each time other batches go to other workers. Four things make it so:
#
# 1. The **split** is fixed: batches depend on the images, not on how many workers there are.
# 2. A batch is done by one thread of one worker, with the **same kernel** that one GPU would run.
# 3. In the kernel each thread adds in a fixed **order**, without atomic additions. (So does NumPy's
#    matrix product, on one thread.)
# 4. Results are put in their place **by number**, not in the order in which they arrive.
#
# A different GPU may have another kernel chosen for it, or another compiler: then bits may differ.

# %% [markdown]
# ## 6 Two questions, two laws
#
# <kbd>core</kbd> 15 minutes
#
# - **Strong scaling**: the *same work* on more workers. How many times as fast is it? That is the
#   **speed-up**; divided by the workers, the **efficiency**.
# - **Weak scaling**: *as much work for each worker*. How many times as long would **one** worker
#   need for the work of all? That is the **scaled speed-up**.
#
# For both, cut a run in parts:
#
# | part | who works |
# |---|---|
# | **start** | nobody yet: until the first worker begins |
# | **working** | the workers |
# | **gathering** | nobody any more: until all results are home |

# %% [markdown]
# Start and gathering are **serial** by definition: one more worker does not make them shorter. So
# their share f can be *measured*, with one worker. Then Amdahl's law says what w workers do to the
# same work, and Gustafson's what they do to w times the work ([lesson 08](08_streams.ipynb)):
#
# S = 1 / (f + (1 − f) / w)  and  S = w − f · (w − 1)
#
# Why less than w in the second? One worker that does the work of all would start **once**: it takes
# serial + w · working, and w workers take serial + working.

# %% [markdown]
# ### Exercise: two laws from one run
#
# Given are the parts of a run with **one** worker [ms]. Return two numbers for so many `workers`.
# First: the work stays the same. How many times as fast is it done? Second: each worker gets as
# much work as the one had. How many times as long would one worker need for all of it? The serial
# part stays as it is, in ms.
#
# <details><summary>Hint</summary>
#
# `serial = (start + gathering) / (start + working + gathering)`, then the two formulas. Or without
# them: write down both times in ms.
#
# </details>


# %% tags=["exercise"]
def two_laws(start, working, gathering, workers):
    """Return (Amdahl's speed-up, Gustafson's) from the parts of a run with one worker."""
    ### BEGIN SOLUTION
    serial = (start + gathering) / (start + working + gathering)
    same_work = 1 / (serial + (1 - serial) / workers)
    as_much_each = workers - serial * (workers - 1)
    return same_work, as_much_each
    ### END SOLUTION


# %% tags=["check"]
check("two-laws", two_laws)

# %% [markdown]
# A toy run: 160 batches of 4 ms, after 20 ms of start. 3% of it are serial. With 16 workers, how
# many times as fast is the same work?

# %%
predict("times as fast with 16 workers, 3% serial", 11, within=1.1, no_effect=1)

# %%
COUNTS, WORK, START = (1, 2, 4, 8, 16), [4.0] * 160, 20.0


def strong(hand_out):
    """Return {workers: speed-up} of the toy, which spends so many ms on handing out a batch."""
    times = {
        n: play_cluster(WORK, n, start_up=START, hand_out=hand_out).milliseconds for n in COUNTS
    }
    return {n: times[1] / times[n] for n in COUNTS}


quick = strong(0.0)
laws = two_laws(START, sum(WORK), 0.0, 16)
print("by your function:", "not written yet" if laws is None else [round(law, 1) for law in laws])
predict.answer("times as fast with 16 workers, 3% serial", round(quick[16], 1), how="computed")

# %% [markdown]
# ## 7 Recorded: four H200s
#
# <kbd>core</kbd> 5 minutes
#
# `python -m course bench cluster` measures all that on a machine with several GPUs. Recorded is one
# with **four** H200s. (What this lesson says of more than four workers is a law or a toy, not a
# measurement.)
#
# Three kinds of batches, made and kept by the workers. Each is rebuilt; back come digests, the same
# as from one worker. First with **one** worker: where do the milliseconds of a batch go?

# %%
measured = cluster.scaling.scalings(recorded("cluster", metric=None, gpu="H200"))
empty_ms = {
    n: recorded("cluster", kernel="empty batch", variant=cluster.scaling.variant(n), gpu="H200")
    for n in (1, 2, 4)
}
empty_ms = {n: figure.median for n, (figure,) in empty_ms.items()}


def of(case, workers, metric):
    """Return a recorded median of a kind of batches, strong scaling."""
    found = {"kernel": "strong scaling", "shape": case.shape, "metric": metric, "gpu": "H200"}
    (figure,) = recorded("cluster", variant=cluster.scaling.variant(workers), **found)
    return figure.median


def kind(case):
    images, rows, columns, _ = case.shape.split("x")
    return f"{int(images):,} of {rows} x {columns}"


# %%
batch_count, alone = {}, {}
print("batch of             from batch to batch   working   waiting   start + gathering")
for case in measured:
    time, images = of(case, 1, "time"), of(case, 1, "rate") * of(case, 1, "time") / 1e3
    count = batch_count[case.shape] = round(images / int(case.shape.split("x")[0]))
    working, waiting = of(case, 1, "working") / count, of(case, 1, "waiting") * time / count
    alone[case.shape] = working, waiting, case.serial * time
    print(f"{kind(case):21}{time / count:16.1f} ms{working:8.1f}{waiting:10.1f}{case.serial:16.1%}")
print(f"{'an empty one':21}{empty_ms[1]:16.1f} ms")

# %% [markdown]
# Between two batches a worker waits for 2.2 to 2.6 ms, **whatever is in them**: not much more than
# an empty batch takes. That is a batch's cost, though 16 are under way to each worker. Beside 33 ms
# of work it is small; of a batch of 256 small images it is half.
#
# Amdahl's law knows start and gathering only, 1.3 to 2.2% of the run. So it gives four GPUs more
# than 3.7 in each case.
#
# How many times as fast are four GPUs with batches of 256 small images? (Empty batches come every
# 1.9 ms with one worker, every 1.3 with two, every 1.5 with four.)

# %%
predict("times as fast, four GPUs, batches of 256 small images", 3, within=1.5, no_effect=1)

# %%
print("ms from batch to batch   1 worker   2 workers   4 workers")
for case in measured:
    each = [case.strong[n] / batch_count[case.shape] for n in (1, 2, 4)]
    print(f"{kind(case):22}{each[0]:11.1f}{each[1]:12.1f}{each[2]:12.1f}")
print(f"{'empty':22}{empty_ms[1]:11.1f}{empty_ms[2]:12.1f}{empty_ms[4]:12.1f}")
small = round(measured[-1].speedup(4), 2)
predict.answer("times as fast, four GPUs, batches of 256 small images", small)

# %% [markdown]
# Read it row by row:
#
# - **Large images scale.** From 35 to 9.2 ms, 3.8 times as fast.
# - **Small images, many in a batch**, scale less: 3.2 times.
# - **Small batches** gain from a second GPU, and *lose* from two more: with four workers they take
#   longer than with two. That is more than the runs differ. Of five runs each, the upper quartile
#   with two is 600 ms, the lower quartile with four 613.
#
# So **four GPUs are four times one** only if there is much to do in each batch. Section 13 finds
# out why.

# %% [markdown]
# ## 8 A total with the same bits
#
# <kbd>deepening</kbd> 15 minutes
#
# As long as results are only put side by side, section 5 is all. It gets harder as soon as they are
# **added up**: a mean over all images, a gradient. Each float32 addition rounds. Here are the sums
# of 64 batches, which arrive in a hundred different orders. How many different totals?

# %%
predict("different totals of the same 64 numbers", 100, within=3)

# %%
rng = np.random.default_rng(5)
sums = (rng.standard_normal(64) * 100).astype(np.float32)


def as_they_arrive(arrivals):
    total = np.float32(0)
    for _number, _worker, value in arrivals:
        total += value
    return total


runs = [[(int(n), int(rng.integers(4)), sums[n]) for n in rng.permutation(64)] for _ in range(100)]
totals = {float(as_they_arrive(arrivals)) for arrivals in runs}
predict.answer("different totals of the same 64 numbers", len(totals), how="found")

# %% [markdown]
# None of them is wrong. But tomorrow's run does not give today's result, and no test can compare
# them. It gets no better when each worker first adds up what it did: who did what changes, too.

# %% [markdown]
# ### Exercise: a sum that does not depend on the workers
#
# `arrivals` is a list of triples `(number, worker, value)`, as they arrive: the batch's number, who
# did it, and a float32. Return their sum, the same **to the bit** for any order and any workers.
#
# <details><summary>Hint</summary>
#
# An order that is always the same: `sorted(arrivals)` sorts by the first entry of each triple, and
# leaves the list as it was.
#
# </details>


# %% tags=["exercise"]
def steady_sum(arrivals):
    """Return the sum of the values, the same for any order and any workers."""
    ### BEGIN SOLUTION
    total = np.float32(0)
    for _number, _worker, value in sorted(arrivals):
        total += value
    return total
    ### END SOLUTION


# %% tags=["check"]
check("steady-sum", steady_sum)

# %%
steady = {steady_sum(arrivals) for arrivals in runs}
print("not written yet" if steady == {None} else f"{len(steady)} total in {len(runs)} runs")

# %% [markdown]
# The price: somebody has to wait for the batch that is late, and keep the others meanwhile. For a
# number a batch that is nothing. (Other ways: whole numbers, whose sums do not round, or a tree
# with a fixed shape, as in [lesson 10](10_reductions.ipynb).)

# %% [markdown]
# ## 9 A worker is killed
#
# <kbd>deepening</kbd> 10 minutes
#
# With more machines it is more likely that one of them fails. First a toy: twelve batches of 2 ms,
# three workers, and worker 1 is killed at 5 ms. Its delivered results are safe. How many batches
# are begun twice?

# %%
predict("batches begun twice", 1, exact=True)

# %%
killed = play_cluster([2.0] * 12, workers=3, killed=(1, 5.0))
pictures.timelines({"a toy: worker 1 is killed at 5 ms": killed})

# %%
print("done, in the end:", len(killed.done), "of 12")
print("at work: worker 1 until 5 ms, the others until", f"{killed.milliseconds:.0f} ms")
predict.answer("batches begun twice", len(killed.lost), how="counted")

# %% [markdown]
# One: the batch that was in its hands. The scheduler knows who has what, sees that the worker is
# gone, and gives batch 7 to the next worker that is free. (A real worker has a few batches waiting.
# They go back, too, but nothing was done with them.)
#
# What if work is *not* pure? Suppose each batch entered itself in a list when it began:

# %%
entered = sorted(one.batch for one in killed.work)
print(len(entered), "entries for 12 batches:", entered)

# %% [markdown]
# Batch 7 counts twice. So it goes with `total += ...`, with a line that is appended to a file, with
# a mail that is sent. What is *returned* is taken once; what is *done on the way* may happen twice.
#
# A file can still be written: with a name that belongs to the batch, whole or not at all ([lesson
# 09](09_a_thousand_images.ipynb)). Done twice, it is the same file.

# %% [markdown]
# **In earnest**: the 16 batches of section 5, with a pause in each, so that we meet a worker in the
# middle of one. After the first result the first worker gets a `kill()`. (`psutil`, which Dask
# brings, finds a process by its number.) How many of the 16 results will be there?

# %%
predict("results of 16, a worker killed", 15, exact=True)


# %%
def slowly(batch):
    sleep(0.02)
    return work(batch)


back = []
try:
    with cluster.cluster(2, gpus=False) as group:
        import psutil

        results = group.map(slowly, batches)
        back.append(next(results))
        psutil.Process(group.seen[0].process).kill()
        back.extend(results)
    print("as if nothing had happened:", back == here)
except (ImportError, cluster.ClusterError) as error:
    print(error)
predict.answer("results of 16, a worker killed", len(back) or "no workers here", how="counted")

# %% [markdown]
# `slowly` and `work` were sent over as they stand in this notebook: whatever a function uses, it
# has to bring along, or find there. Each worker has a **nanny**, a small process that starts it
# again when it dies. And what a worker had *kept* on its GPU? Gone; but there is its recipe, so
# another worker makes it again.
#
# One batch that kills **every** worker, for lack of memory say, would end them one after the other.
# So it gets a few tries, the last one alone, and is then given up and named: `BatchError: batch 5
# ended its worker's process every time`.

# %% [markdown]
# ## 10 Who gets the next batch?
#
# <kbd>deepening</kbd> 20 minutes
#
# So far all batches took the same time. They hardly ever do: images differ in size, a GPU is
# warmer, somebody else uses it. Here are twelve batches: of 5, 5, 4 and 4 ms, then eight of 1 ms,
# together 26 ms. **Static** scheduling deals them out beforehand, to three workers: the first four
# to one, the next four to another. **Dynamic** scheduling gives a batch to whoever is free.
#
# By static scheduling, when is the last batch done?

# %%
predict("ms, dealt beforehand", 18, exact=True)

# %%
uneven = [5.0, 5.0, 4.0, 4.0] + [1.0] * 8
dealt, free = play_cluster(uneven, 3, beforehand=True), play_cluster(uneven, 3)
bound = sum(uneven) / 3
pictures.timelines(
    {"static: dealt beforehand": dealt, "dynamic: to whoever is free": free},
    marks={"all of the work, divided by three": bound},
)

# %%
for name, one in (("static", dealt), ("dynamic", free)):
    print(f"{name:8}{one.milliseconds:5.0f} ms, {sum(uneven) / one.milliseconds:.1f} times as fast")
predict.answer("ms, dealt beforehand", dealt.milliseconds, unit="ms", how="computed")

# %% [markdown]
# ### Exercise: when is the last batch done?
#
# Batches take `milliseconds`, and are given out in this order, each to a worker that is free first.
# Return when the last one is done.
#
# <details><summary>Hint</summary>
#
# `free = [0.0] * workers`: when each is free. `free.index(min(free))` is a worker that is free
# first.
#
# </details>


# %% tags=["exercise"]
def last_batch(milliseconds, workers):
    """Return when the last batch is done [ms], each given to who is free first."""
    ### BEGIN SOLUTION
    free = [0.0] * workers
    for time in milliseconds:
        free[free.index(min(free))] += time
    return max(free)
    ### END SOLUTION


# %% tags=["check"]
check("last-batch", last_batch)

# %% [markdown]
# The same twelve batches the other way round, the long ones last. When is the last one done, by
# dynamic scheduling?

# %%
predict("ms, the long ones last", 9, exact=True)

# %%
late = play_cluster(uneven[::-1], 3)
pictures.timelines(
    {"dynamic, the long ones last": late}, marks={"all of the work, divided by three": bound}
)

# %%
print("by your function:", last_batch(uneven[::-1], 3) or "not written yet")
predict.answer("ms, the long ones last", late.milliseconds, unit="ms", how="computed")

# %% [markdown]
# A **straggler**: the last batch runs alone, and two workers wait. Nobody can cut a batch in two.
# Two things help: the **longest first**, as above, and more, smaller batches, several for each
# worker. Then little is left over at the end. With one batch for each worker, dynamic scheduling is
# static.
#
# Then why not batches of one image? Section 12.

# %% [markdown]
# ## 11 Handing out takes time
#
# <kbd>deepening</kbd> 10 minutes
#
# The toy run of section 6 once more. Its scheduler now needs 0.5 ms to hand out a batch, one at a
# time. One worker hardly feels it. Sixteen?

# %%
slow = strong(0.5)
toys = {"handing out takes no time": quick, "handing out takes 0.5 ms": slow}
serial = {name: START / (START + len(WORK) * (4 + ms)) for name, ms in zip(toys, (0.0, 0.5))}
pictures.speedups(toys, {name: lambda n, f=f: streams.amdahl(f, n) for name, f in serial.items()})

# %% [markdown]
# Marks are the toy's, dashed lines are Amdahl's law. (Handing out makes one worker's run longer, so
# 20 ms are a smaller share of it: 2.7%.) At 16 the square falls off its line. The law knows only
# what is serial with *one* worker. Ask the other way round, by **Karp and Flatt** ([lesson
# 08](08_streams.ipynb)): which serial share would explain the speed-up that was measured?

# %%
print("workers   no time       0.5 ms")
for n in COUNTS[1:]:
    both = [streams.serial_fraction(toy[n], n) for toy in (quick, slow)]
    print(f"{n:7}{both[0]:10.1%}{both[1]:13.1%}")

# %% [markdown]
# In the left column it stays the same: truly serial work. In the right one it grows beyond 2.7%:
# something gets in the way, **more with each worker**. It is the scheduler. A worker comes back for
# a batch after 4.5 ms. So 16 of them want one every 0.28 ms, and get one every 0.5 ms. From the
# tenth worker on each only waits.
#
# Now weak scaling: 160 batches for **each** of 16 workers. How many times as long would one worker
# need for all of that? First with a scheduler that takes no time:

# %%
predict("scaled speed-up of 16 workers, no time to hand out", 11, within=1.02, no_effect=1)


# %%
def weak(workers, hand_out):
    """How long one worker takes for the work of all, by how long all of them take."""
    one, all_of_them = (
        play_cluster(WORK * workers, n, start_up=START, hand_out=hand_out).milliseconds
        for n in (1, workers)
    )
    return one / all_of_them


gustafson = streams.gustafson(serial["handing out takes no time"], 16)
print(f"Gustafson: {gustafson:.1f} times; handing out takes 0.5 ms: {weak(16, 0.5):.1f} times")
predict.answer(
    "scaled speed-up of 16 workers, no time to hand out", round(weak(16, 0.0), 1), how="computed"
)

# %% [markdown]
# The serial part does not grow with the work, so its share gets smaller: that is Gustafson's point.
# But the scheduler has more to do the more batches there are. More work does not make that small;
# larger batches do.
#
# And the two real workers of section 5, on your machine? **Waiting** is what is left of the time:
# workers that had nothing in hand. Amdahl's law knows nothing of it. (Two workers on two busy cores
# say little; your figures will differ from run to run.)

# %%
# NBVAL_IGNORE_OUTPUT
for count, case in parts.items():
    print(f"{count} worker{'s' * (count > 1)}: {case.total:.1f} ms. Start {case.start:.1f},")
    print(
        f"  working {case.working:.1f}, waiting {case.waiting:.1f}, gathering {case.gathering:.1f}"
    )
if parts:
    speedup = parts[1].total / parts[2].total
    law = streams.amdahl(parts[1].serial_share, 2)
    print(f"{speedup:.2f} times as fast; Amdahl, {parts[1].serial_share:.1%} serial: {law:.2f}")
else:
    print("no workers were started")

# %% [markdown]
# ## 12 How large must a batch be?
#
# <kbd>deepening</kbd> 15 minutes
#
# A batch costs something before any image is computed: a message there, a message back, the
# scheduler's books, a launch. Say that cost is 2.3 ms and an image takes 0.7 ms. How many images
# must a batch have, so that the cost is at most 5% of the batch's time?

# %%
predict("images in a batch, for a cost of at most 5%", 63, exact=True)

# %% [markdown]
# ### Exercise: how large must a batch be?
#
# `image` is the time of an image and `cost` that of a batch, in ms. Return the smallest number of
# images with which the cost is at most the `share` of the batch's **whole** time, such as 0.05.
#
# <details><summary>Hint</summary>
#
# The whole time of n images is cost + n · image. So cost ≤ share · (cost + n · image). Solve for n
# and round up, or count n up until it is true.
#
# </details>


# %% tags=["exercise"]
def batch_size(image, cost, share):
    """Return the smallest number of images with which the cost is at most that share."""
    ### BEGIN SOLUTION
    images = 1
    while cost > share * (cost + images * image):
        images += 1
    return images
    ### END SOLUTION


# %% tags=["check"]
check("batch-size", batch_size)

# %%
answer = batch_size(0.7, 2.3, 0.05) or "not written yet"
predict.answer("images in a batch, for a cost of at most 5%", answer, how="computed")

# %% [markdown]
# Now with a GPU's times. In section 5 two workers were handed 100 **empty** batches: no work at
# all, so what a batch took is its cost. On a machine with H200s the same was recorded, with one
# worker, and that an image of 256×256 takes the kernel 0.2 µs. How many images does a batch need
# there?

# %%
an_image = stack.median / 1024


def how_large(cost):
    print(f"an empty batch: {cost:.2f} ms; an image: {1e3 * an_image:.2f} µs")
    for share in (0.5, 0.05, 0.01):
        images = batch_size(an_image, cost, share)
        if images is None:
            print("not written yet")
        else:
            size = images * image / 1e9
            print(f"cost at most {share:4.0%}: {images:,} images in a batch, {size:,.1f} GB")


how_large(empty_ms[1])

# %% [markdown]
# And for images that fast, with the scheduler that just ran on your machine:

# %%
# NBVAL_IGNORE_OUTPUT
if empty is None:
    print("no workers were started, so there is no cost to reckon with")
else:
    how_large(empty.total / 100)

# %% [markdown]
# Recorded: some 183,000 images, 48 GB, for 5%! The faster the kernel, the larger the batch must be.
# A cost that is nothing beside an SVD on the CPU is most of the time beside 0.2 µs. And that is one
# scheduler for **all** workers: with four GPUs it has a quarter of the time for each batch.
#
# So there are limits on both sides. Large enough that the cost is small. Small enough that a batch
# fits into the GPU's memory, and each worker gets several: else there are stragglers. Large images
# need fewer of them in a batch.

# %% [markdown]
# ## 13 Where the milliseconds go
#
# <kbd>deepening</kbd> 10 minutes
#
# What holds up the small batches of section 7? Is it the GPUs? Is it start and gathering, as in
# Amdahl's law? With four workers:

# %%
print("share of the time     working   waiting   start + gathering")
for case in measured:
    working = of(case, 4, "working") / case.strong[4]
    waiting, ends = of(case, 4, "waiting"), of(case, 4, "serial fraction")
    print(f"{kind(case):22}{working:7.0%}{waiting:10.0%}{ends:16.0%}")

# %% [markdown]
# Neither. With small batches a worker has nothing to do for 75% of the time: a quicker kernel or
# more GPUs would wait as well. Start and gathering are 6%. What is left lies between two batches:
# they are handed out and collected one by one, by **one** scheduler. (In `course_app.cluster` it
# lives in your program's process, and shares its GIL.) In none of these runs did they follow each
# other faster than one every 2.2 ms. Two workers want one every 4.6 / 2 = 2.3: any more can only
# wait.
#
# And with four workers *empty* batches, too, come more slowly than with two: one every 1.5 ms, not
# 1.3. Why, these rows do not say.

# %% [markdown]
# Section 11's toy has such a scheduler. Give it what was recorded with **one** worker: so many ms
# of work, and the waiting as the time to hand a batch out. What does it say of two and four?


# %%
def toy(case, workers, share=1):
    """Return the ms that section 11's toy takes, with the times that one worker took."""
    working, waiting, ends = alone[case.shape]
    batches = [working] * batch_count[case.shape] * share
    return play_cluster(batches, workers, start_up=ends, hand_out=waiting).milliseconds


print("                            the same work:                     as much each:")
print("batch of          GPUs measured Amdahl  toy K.-Flatt  measured Gustafson  toy")
for case in measured:
    for n in (2, 4):
        same, as_much = toy(case, 1) / toy(case, n), toy(case, 1, n) / toy(case, n, n)
        print(f"{kind(case):21}{n}{case.speedup(n):9.2f}{case.amdahl(n):7.2f}{same:5.2f}", end="")
        print(f"{case.karp_flatt(n):9.1%}{case.scaled_speedup(n):10.2f}", end="")
        print(f"{case.gustafson(n):10.2f}{as_much:5.2f}")

# %%

plots.scaling_chart(measured)

# %% [markdown]
# - **Large images**: 3.80. Amdahl says 3.85, and Karp and Flatt's share stays below 2%: little gets
#   in the way.
# - **16,384 small ones**: 3.23, where Amdahl says 3.75. Four workers want a batch every (6.3 + 2.6)
#   / 4 = 2.2 ms. One every 2.6 is what the scheduler gives, so the toy says 3.21.
# - **256 small ones**: with two GPUs 1.98, all that Amdahl promises (and a little more: the runs
#   with one worker differ by 8%). With four 1.77, and Karp and Flatt see 42% instead of 0.8%:
#   **more with each worker**, as in section 11. The toy says 2.02. That a scheduler gets slower
#   with more workers, it does not know.

# %% [markdown]
# A run with **one** GPU told what four would do, within 15%. Amdahl's law alone was wrong by a
# factor of two: it knows the times in which nobody works, not those in which everybody waits. (The
# toy fits. That does not prove that Dask works like it inside.)
#
# With as much work for each, it is 3.81, 3.04 and 2.02 of Gustafson's 3.93 and more. More work
# means more batches, and each has its cost. **Larger batches** help, not more of them.

# %% [markdown]
# These are figures of *one* machine. GPUs of a kind are alike, hosts are not. Another machine with
# two H200s, recorded earlier, worked as long on large images, within 2%. But one worker did small
# batches in 2.9 ms each, not 4.6.

# %% [markdown]
# So far nothing but digests has travelled. And if factors go there and images come back, on the
# same machine, without any network?

# %%
print("batches of 128 images, 256 x 256, that travel")
for n in (1, 2, 4):
    workers = cluster.scaling.variant(n)
    (trip,) = recorded("cluster", kernel="travelling batches", variant=workers, gpu="H200")
    rate = 8 * 128e3 / trip.median  # a run has eight batches
    print(f"{workers:10}{rate:10,.0f} images/s{trip.bytes / trip.median * 1e-6:7.2f} GB/s")
for case in measured[1:]:
    print(f"kept, 1 worker, {kind(case)}: {of(case, 1, 'rate'):,.0f} images/s")

# %% [markdown]
# **What travels hardly scales**: 641 images/s with one GPU, 929 with four, 1.45 times as many;
# where they stay, 1.8 million with one. Your program packs and unpacks every byte, and Dask carries
# it through a socket from process to process: 0.2 to 0.3 GB/s, for all GPUs together. Against that
# the kernel is nothing: section 4's question comes first.

# %% [markdown]
# **With two or more GPUs** the next cell is your own: strong scaling. Eight batches for each GPU
# are made from recipes, and kept by one GPU, by two, by all of them. Each is rebuilt eight times;
# digests come back. Batches of 1,024 small images: by sections 7 and 13, what do you expect? Then
# write 16,384 for both 1,024. (Where they do not fit, `keep` says so.)

# %%
# NBVAL_IGNORE_OUTPUT
from course import read_driver

if gpu() is None or len(read_driver().devices) < 2:
    print("fewer than two GPUs here")
else:
    times = {}
    with cluster.cluster() as group:
        for count in sorted({1, 2, len(group)}):
            part = group.part(count)
            kept = part.keep(cluster.recipes(8 * len(group) * 1024, 1024, 256, 256, 50))
            list(part.map(cluster.rebuilt_digests, kept))  # warm up
            _, case = cluster.scaling.timed_map(part, cluster.rebuilt_digests, kept * 8, ahead=16)
            times[count] = case.total
            print(f"{count} GPUs: {case.total:.1f} ms, {times[1] / case.total:.2f} times as fast")

# %% [markdown]
# ## 14 What does not scale
#
# <kbd>deepening</kbd> 10 minutes
#
# Back to [lesson 09](09_a_thousand_images.ipynb)'s pipeline: files in, files out. On a machine with
# 16 cores and an H200 these were recorded, each stage by itself, in images/s:

# %%
# NBVAL_IGNORE_OUTPUT
from course_lessons.lesson09 import stage_rates

stages = stage_rates.recorded("H200")
print(stages)

# %% [markdown]
# A CPU factorises, the GPU rebuilds. Give that machine three more GPUs, so that `rebuild` does four
# times as much. How many times as fast does the pipeline get?

# %%
predict("times as fast, three GPUs more", 4, within=1.25, no_effect=1)

# %%
rates = dict(stages.alone)
more = rates | {"rebuild": 4 * rates["rebuild"]}
faster = min(more.values()) / min(rates.values())
predict.answer("times as fast, three GPUs more", round(faster, 2), how="computed")

# %% [markdown]
# Not at all: `rebuild` is not the slowest stage. The others are the CPU's, and `factorise` has most
# of its cores. Move *that* stage to the GPU: [lesson 11](11_the_decomposition_itself.ipynb)'s
# batched SVD, and `reconstruct --svd gpu` does it. Then its cores are free for the others. Whole
# programs, which have a process for each core and no threads, with one GPU:

# %%
# NBVAL_IGNORE_OUTPUT
programs = [f"reconstruct_images, svd {svd}, 16 processes" for svd in ("cpu", "gpu")]
for name in (*programs, "factorise, rebuild and judge on the GPU, 1 thread"):
    (figure,) = recorded("pipeline", variant=name, metric="rate", gpu="H200")
    print(f"{name:52}{figure.median:6,.0f} images/s")

# %% [markdown]
# With the SVDs on the GPU the whole is 1.8 times as fast. The last line is what that GPU does with
# images that lie in memory: more than twice as many as reach it. So what is slow now is **the
# host**: decoding and writing files. A GPU more has nothing to do with either. So four GPUs are for
# work that is *made* or *kept* on them, or that takes them long: training, large images,
# simulation. Before you ask for a second GPU, look for the slowest stage.
#
# What else stays as it is, however many GPUs there are:

# %% [markdown]
# - **Start-up.** Python, libraries, a context, kernels to compile: about 7 s on section 7's
#   machine. The first batch of a kind takes up to 4 more. Once for all batches, so do not start
#   workers for a small job.
# - **Gathering.** All results come to one process. If they are large, that process is the last
#   stage of a pipeline, and the slowest.
# - **Links.** Each GPU has a link to the host, some share one, and all share the host's memory.
#   Four GPUs behind one PCIe connection have a quarter of it each.
# - **The scheduler.** One process hands out all batches: sections 11 and 13.
# - **The longest batch.** No worker makes it shorter: section 10.

# %% [markdown]
# ## 15 The whole machine
#
# <kbd>deepening</kbd> 5 minutes
#
# In 1966 Michael Flynn sorted machines by how many streams of **instructions** and of **data** they
# have:
#
# | | one stream of data | many |
# |---|---|---|
# | one stream of instructions | SISD: one plain core | SIMD: one instruction, many numbers |
# | many | MISD: rare | MIMD: each its own program |
#
# A warp is close to SIMD: one instruction, 32 lanes. With masks each lane may look as if it went
# its own way; NVIDIA says SIMT. Warps of a GPU may be at different places of one kernel. Four
# workers are **MIMD**: each has its own program counter, memory, and fate.

# %% [markdown]
# So this lesson's machine is **MIMD over SIMD**, and at each level there is another way to wait:
#
# | level | how many | who talks | waits at |
# |---|---|---|---|
# | lanes of a warp | 32 | shuffles | the other branch |
# | warps of a block | up to 32 | shared memory | a barrier |
# | blocks of a grid | as many as you like | atomics, fences | the kernel's end |
# | GPUs | 4 here | the scheduler | the last batch |

# %% [markdown]
# Blocks can leave numbers for each other, as for the last block of [lesson
# 10](10_reductions.ipynb). But a block must not *wait* for another one: that one may not have
# begun.
#
# The further up, the slower it is to talk, and the more the parts may differ. Good programs talk
# little, and at the lowest level that they can.

# %%
progress(12)

# %% [markdown]
# ## What you should be able to say now
#
# - Independent batches scale. A worker is a process with one GPU, chosen before CUDA starts.
# - Work is a pure function: whoever does it, however often, the bits are the same.
# - Count what travels. Make data where they are used.
# - The order of a sum belongs to its result. Fix the split and the order.
# - Dynamic scheduling, the longest first, several batches for each worker.
# - Amdahl: the same work. Gustafson: more of it. Karp and Flatt: what neither knows.
# - A batch has a cost, empty ones show it: make yours large.
# - Before a second GPU: which stage is the slowest?

# %% [markdown]
# ## Questions
#
# 1. Two workers print the same GPU number, 0. Is that wrong?
# 2. Your sum has another seventh digit with 4 workers than with 2. Whose fault?
# 3. A worker is killed while it writes a file. What must hold for the file?
# 4. 1% of a run is serial. How many times as fast at most? With 64 workers?
# 5. Karp and Flatt's share is 1%, 2%, 4% with 2, 4, 8 workers. Why?
# 6. Why does a scheduler listen on 127.0.0.1?
# 7. Four workers are slower than two, and mostly wait. Does a quicker kernel help?
# 8. Four GPUs, one half as fast, do four equal batches. How many times as fast as one good GPU?
#
# <details><summary>Answers</summary>
#
# 1. No: each counts the GPUs that it may see from 0. Compare their identities (UUIDs).
# 2. Nobody's: additions round, and the split or the order depends on the workers. Fix both.
# 3. A name that belongs to the batch, and whole or not there: then doing it twice gives the same.
# 4. 100 times; with 64 workers 39 times.
# 5. Something that costs more with each worker: a scheduler, a shared link, handing out.
# 6. Who can send it a message can run programs on it.
# 7. No: the workers have nothing to do as it is. Larger batches do, for fewer are handed out.
# 8. Twice: the slow one needs 2 for its batch, the others wait; one alone would need 4. Smaller
#    batches, dynamically: up to 3.5 times.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Give the toy 16 workers and a `hand_out` of 0.5 ms. From how many ms for a batch on are 16
#   workers 15 times as fast as one?
# - Ask section 13's `toy` for 8 and 16 GPUs. Which kinds of batches still get faster?
# - Start two workers as in section 9 and kill **both**. What happens?
# - Write a `steady_sum` that does not wait for the end: it adds what can be added already. ([Lesson
#   09](09_a_thousand_images.ipynb)'s results in order.)
# - `python -m course reconstruct photos --gpus 2` shares files among GPUs, `--scheduler ADDRESS`
#   among the workers of a cluster. Without GPUs the first says what it needs.

# %% [markdown]
# ## Common misconceptions
#
# - *"Two GPUs are twice as fast."* If the slowest stage runs on them, and nothing has to travel.
# - *"More GPUs cannot make it slower."* Section 7: with small batches, four took longer than two.
# - *"One thread for each GPU is enough."* For a while, until one of them crashes, or Python itself
#   is the slowest stage.
# - *"`os.environ[...]` in the worker's function picks its GPU."* Not after the first CUDA call.
# - *"Parallel programs cannot be reproducible."* Those with a fixed split and a fixed order are.

# %% [markdown]
# - *"float64 makes the order irrelevant."* It makes the difference smaller.
# - *"A lost worker means a lost run."* Not if its work can be done again.
# - *"Smaller batches balance better."* Until the cost of a batch is most of its time.

# %% [markdown]
# ## What to read next
#
# - Dask documentation, [Scheduling](https://docs.dask.org/en/stable/scheduling.html) and
#   [resilience](https://distributed.dask.org/en/stable/resilience.html).
# - RAPIDS, [dask-cuda](https://docs.rapids.ai/api/dask-cuda/stable/): workers with a GPU each.
# - John Gustafson, [Reevaluating Amdahl's law](https://doi.org/10.1145/42411.42415); Karp and
#   Flatt, [Measuring parallel processor performance](https://doi.org/10.1145/78607.78614).
# - Michael Flynn, [Some computer organizations and their
#   effectiveness](https://doi.org/10.1109/TC.1972.5009071).
# - Next in the course: [lesson 13](13_normalisation_and_fusion.ipynb), Normalisation and fusion.
