# %% [markdown]
# # 00 The machine in front of you
#
# You write small programs that thousands of threads run at once. They run on a GPU, or on a
# simulator that behaves like one. You need no GPU.

# %% [markdown]
# ## What you will do
#
# - Look at your machine.
# - Write your first kernel and launch it.
# - Break it on purpose, twice, and read what the machine says.
# - Solve three exercises.

# %% [markdown]
# ## What you will learn
#
# - What host, device, kernel, thread, block and launch mean.
# - Which line of an error message is the one to read.
# - What a simulator can prove about a kernel, and what it cannot.

# %% [markdown]
# ## What you need
#
# Python and a little NumPy: arrays, indices, shapes. No C, no CUDA, no GPU.

# %% [markdown]
# ## How long it takes
#
# About 1 hour.
#
# Core: sections 1 to 6 and 9, 50 minutes. Deepening: sections 7 and 8, 20 minutes.

# %% [markdown]
# ## 1 Which machine is this?
#
# <kbd>core</kbd> 5 minutes
#
# The first cell imports what this lesson uses: tools from one package, `course`, and drawings from
# the lesson's own folder.

# %%
import numpy as np

from course import check, cuda, doctor, gpu, predict, progress, trace
from course_lessons.lesson00 import pictures

# %% [markdown]
# `doctor()` looks at the machine in front of you. It changes nothing.

# %%
# NBVAL_IGNORE_OUTPUT
doctor()

# %% [markdown]
# Read it from the left:
#
# | sign | meaning |
# |---|---|
# | ✓ | works |
# | ○ | is not there, and you can do without it |
# | ! | works, but look at it |
# | ✗ | needs mending; the line with → says how |
#
# If the last line says "No problems.", go on.
#
# Where will your kernels run? `gpu()` gives the name of your GPU, or `None`.

# %%
# NBVAL_IGNORE_OUTPUT
print("Kernels run on:", gpu() or "the simulator")

# %% [markdown]
# Both answers are fine. Every lesson runs unchanged on both. You write the same kernels, and get
# the same results. Only the question "how long does it take?" needs a GPU: the simulator counts,
# and has no clock.

# %% [markdown]
# ## 2 Host and device
#
# <kbd>core</kbd> 5 minutes
#
# A machine with a GPU is two computers in one. The **host** is the CPU with its memory. The
# **device** is the GPU with a memory of its own. Your Python runs on the host. Arrays have to
# travel.

# %%
pictures.two_memories()

# %% [markdown]
# Send an array to the device. Then change the array on the host.

# %%
numbers = np.arange(5, dtype=np.float32)
on_device = cuda.to_device(numbers)
numbers[0] = 99
numbers

# %% [markdown]
# What does the device hold now as its first element? Put your guess in place of the dots. Guess
# before you run the next cell: being surprised is how it sticks.

# %%
predict("first element on the device", 99, exact=True)

# %%
back = on_device.copy_to_host()
print(back)
predict.answer("first element on the device", back[0], how="found")

# %% [markdown]
# The device did not notice. There are two arrays in two memories, and only a copy moves data from
# one to the other.

# %% [markdown]
# ## 3 Your first kernel
#
# <kbd>core</kbd> 10 minutes
#
# A **kernel** is a function that the device runs many times at once. Each run is a **thread**.
# `@cuda.jit` on the line above makes a Python function a kernel.


# %%
@cuda.jit
def say_hello():
    print("hello from thread", cuda.threadIdx.x, "of block", cuda.blockIdx.x)


# %% [markdown]
# Nothing has run yet. To start a kernel is to **launch** it. The square brackets say how many
# **blocks**, and how many threads in each block:
#
# ```python
# kernel[blocks, threads_per_block](arguments)
# ```

# %%
# NBVAL_IGNORE_OUTPUT
say_hello[1, 4]()
cuda.synchronize()

# %% [markdown]
# One function, four greetings. Nobody passed a number to it: `cuda.threadIdx.x` tells each thread
# which one it is in its block. That is how four threads can do four different things.
#
# The `.x` is there because blocks can have more than one axis;
# [lesson 01](01_threads_blocks_grids.ipynb) uses the second.
#
# `cuda.synchronize()` lets the host wait until the device is done.

# %%
# NBVAL_IGNORE_OUTPUT
say_hello[2, 3]()
cuda.synchronize()

# %% [markdown]
# Look at the thread numbers: they start again at 0 in every block. On a real GPU the order of the
# lines may change from run to run. Threads promise no order.
#
# How many threads does a launch with `[2, 3]` start? And one with `[25, 4]`?

# %%
predict("threads of a launch [25, 4]", 100, exact=True)

# %% [markdown]
# Let them tell. Each thread puts a 1 into an array, at a place of its own.


# %%
@cuda.jit
def leave_a_mark(marks):
    marks[cuda.grid(1)] = 1


# %% [markdown]
# `cuda.grid(1)` is the thread's number counted over all blocks. All blocks together are the
# **grid**, and the 1 says that you count along one line.

# %%
marks = np.zeros(200, dtype=np.int32)
leave_a_mark[25, 4](marks)
predict.answer("threads of a launch [25, 4]", marks.sum(), unit="threads", how="counted")

# %% [markdown]
# Blocks times threads per block. The array has 200 places, and only the first 100 are marked.

# %%
marks.reshape(10, 20)

# %% [markdown]
# ## 4 A kernel returns nothing
#
# <kbd>core</kbd> 10 minutes
#
# Thousands of threads cannot return one value. A kernel writes its results into an array that you
# give it. In this course that array is called `out`. Here it comes first; in other kernels, from
# [lesson 02](02_an_image_from_its_svd.ipynb) on, it comes last. Both are fine. The launch must only
# give the arguments in the order in which the kernel names them.


# %%
@cuda.jit
def double(out, x):
    """Write ``2 * x[i]`` to ``out[i]``; one thread for each element."""
    i = cuda.grid(1)
    out[i] = x[i] + x[i]


# %%
x = np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=np.int32)
out = np.zeros_like(x)
double[2, 4](out, x)
out

# %% [markdown]
# There is no loop. Thread 0 doubled `x[0]`, thread 1 doubled `x[1]`, and so on: one thread, one
# element. You gave NumPy arrays, so the launch copied them to the device and back for you.

# %% [markdown]
# ### Exercise: write each thread's number
#
# Fill `out` with 0, 1, 2, 3, …: the thread with number `i` writes `i` to `out[i]`. The checks
# launch exactly as many threads as there are elements, in one block or in several.
#
# <details><summary>Hint</summary>
#
# Two lines are enough. `cuda.grid(1)` is the number of the thread. `out[...] = ...` writes.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def fill_index(out):
    """Write ``i`` to ``out[i]``; one thread for each element."""
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    out[i] = i
    ### END SOLUTION


# %% tags=["check"]
check("fill-index", fill_index)

# %% [markdown]
# A check runs your kernel in several cases and says what came out. You can run it as often as you
# like. ○ means not started, ✓ passed, ✗ failed.

# %% [markdown]
# ## 5 Past the end of the array
#
# <kbd>core</kbd> 5 minutes
#
# Ten elements, and blocks of four threads. Two blocks are too few. Three blocks have two threads
# more than there are elements. They are hatched here.

# %%
pictures.launch_picture(10, 3, 4)

# %% [markdown]
# The boxes are threads, the colours blocks, the thick frame is the array. The numbers inside are
# `cuda.threadIdx.x`, those below are `cuda.grid(1)`.
#
# What do the two hatched threads do in `leave_a_mark`? `trace` launches a kernel on the simulator,
# watches every access, and reports what it finds.

# %%
ten_marks = np.zeros(10, dtype=np.int32)
report = trace(leave_a_mark, 3, 4, ten_marks)
print(report.findings[0])

# %% [markdown]
# Read it piece by piece:
#
# - `out-of-bounds`: the kind of mistake.
# - `line 2`: counted from the kernel's `def`, which is line 1. The access stands beside it.
# - `Thread (2, 0, 0) of block (2, 0, 0)`: the first thread that does it, as x, y and z. Only x
#   matters in this lesson: thread 2 of block 2.
# - `writes marks[10]`: the first index that does not exist.
# - `2 threads in all`: so many threads do it.

# %% [markdown]
# A plain launch on the simulator stops at such a write, with a `KernelError`, and leaves your
# array as it was. This cell catches the error, and does it only where no GPU is.

# %%
# NBVAL_IGNORE_OUTPUT
if gpu() is None:
    try:
        leave_a_mark[3, 4](ten_marks)
    except Exception as error:
        print(type(error).__name__, "-", error)

# %% [markdown]
# **A real GPU does not stop.** It writes the 1 to whatever lies behind the array. Often that is
# somebody else's data, and you get wrong numbers elsewhere. If you are lucky, it is nobody's
# memory. Then you get a CUDA error, and every later call fails too until you restart Python.
#
# The cure is one `if`, the **guard**: a thread without an element does nothing.


# %%
@cuda.jit
def leave_a_mark_guarded(marks):
    i = cuda.grid(1)
    if i < marks.size:
        marks[i] = 1


# %%
ten_marks = np.zeros(10, dtype=np.int32)
leave_a_mark_guarded[3, 4](ten_marks)
ten_marks

# %% [markdown]
# ## 6 Your first failed check
#
# <kbd>core</kbd> 10 minutes
#
# Here is a kernel that looks fine. It adds 1 to each element.


# %%
@cuda.jit
def add_one_unguarded(out, x):
    i = cuda.grid(1)
    out[i] = x[i] + 1


# %%
y = np.zeros_like(x)
add_one_unguarded[2, 4](y, x)
y

# %% [markdown]
# Eight elements, eight threads, a right result. Does it pass its check? `wrong_on_purpose` says
# that this is not your answer yet.

# %%
check("fix-the-guard", add_one_unguarded, wrong_on_purpose=True)

# %% [markdown]
# The verdict names the kind of mistake, the access, the line and the **case**: 10 elements, three
# blocks of four. A result that is right for 8 elements proves little. Checks use awkward sizes:
# prime numbers, one element, fewer elements than a block has threads.

# %% [markdown]
# ### Exercise: add 1, and stay inside the array
#
# Write the kernel above so that it works for every size and every number of blocks.
#
# <details><summary>Hint</summary>
#
# Put the line that reads and writes under an `if`. The last element is `out[out.size - 1]`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def add_one(out, x):
    """Write ``x[i] + 1`` to ``out[i]``; extra threads do nothing."""
    i = cuda.grid(1)
    ### BEGIN SOLUTION
    if i < out.size:
        out[i] = x[i] + 1
    ### END SOLUTION


# %% tags=["check"]
check("fix-the-guard", add_one)

# %% [markdown]
# ## 7 Reading a typing error
#
# <kbd>deepening</kbd> 15 minutes
#
# A kernel looks like Python, but it is compiled: by Numba, at its first launch. Numba has to know
# the type of every value. Where it cannot, it raises a `TypingError`. Here a name is mistyped.


# %%
@cuda.jit
def copy_mistyped(out, x):
    i = cuda.grid(1)
    if i < out.sise:
        out[i] = x[i]


# %%
try:
    trace(copy_mistyped, 2, 4, out, x)
except Exception as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown]
# Read two things: **what** (`sise` is unknown) and **where** (line 3 of your kernel).
#
# `array(int32, 1d, C)` is how Numba writes the type of `out`: 32-bit integers, one axis, C order.

# %% [markdown]
# On a GPU, Numba wraps the same sentence in more words. What and where are still in it; skip the
# rest:
#
# ```text
# TypingError: Failed in cuda mode pipeline (step: nopython frontend)
# Unknown attribute 'sise' of type array(int32, 1d, C)
#
# File "...", line 3:
# def copy_mistyped(out, x):
#     <source elided>
#     i = cuda.grid(1)
#     if i < out.sise:
#     ^
#
# During: typing of get attribute at ... (3)
# ```

# %% [markdown]
# The second typical case is a NumPy habit: arithmetic on a whole array. A thread works on numbers.


# %%
@cuda.jit
def double_all(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x * 2


# %%
try:
    trace(double_all, 2, 4, out, x)
except Exception as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown]
# `mul` is the multiplication sign. Numba knows none for an array and an integer. The index is
# missing: `x[i]`.
#
# Inside a kernel you use numbers, array elements, `if`, `for`, `while` and functions of `math`. No
# lists, no dicts, no NumPy calls on whole arrays.

# %% [markdown]
# ### Exercise: scale one array and add another
#
# Write `a * x[i] + y[i]` to `out[i]`. Here `a` is one number, and `x`, `y` and `out` are arrays.
# This time you write all of it, guard included.
#
# <details><summary>Hint</summary>
#
# Three lines: the thread's number, the guard, the formula. `a` has no index.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def scale_add(out, a, x, y):
    """Write ``a * x[i] + y[i]`` to ``out[i]``; extra threads do nothing."""
    ### BEGIN SOLUTION
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]
    ### END SOLUTION


# %% tags=["check"]
check("scale-add", scale_add)

# %% [markdown]
# ## 8 What a simulator can prove
#
# <kbd>deepening</kbd> 5 minutes
#
# The simulator runs your kernel for all threads and watches each access to memory. So it can
# count. The next kernel reads two arrays and writes a third.


# %%
@cuda.jit
def add_arrays(out, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


# %% [markdown]
# A float32 number has 4 bytes. How many bytes does this kernel read for 1,000 elements?

# %%
predict("bytes read for 1,000 elements", 4000, exact=True)

# %%
a = np.ones(1000, dtype=np.float32)
b = np.ones(1000, dtype=np.float32)
total = np.zeros(1000, dtype=np.float32)
report = trace(add_arrays, 8, 128, total, a, b)
predict.answer(
    "bytes read for 1,000 elements",
    report.total("global", "load").bytes,
    unit="bytes",
    how="counted",
)

# %% [markdown]
# Two arrays of 4,000 bytes each. *Global* is the GPU's large memory, the one that your arrays are
# in, and to *load* is to read. Here is the whole report:

# %%
report

# %% [markdown]
# You need only the last line today: no findings, so nothing was wrong. The other lines are how you
# will find out, in [lesson 04](04_warps_and_coalescing.ipynb), why one kernel is slower than
# another that computes the same.

# %% [markdown]
# | a simulator can prove | it cannot |
# |---|---|
# | the result is right, up to rounding | how many seconds it takes |
# | no thread leaves an array | that another program is right, too |
# | how many bytes are read and written | what else the hardware does meanwhile |
# | where threads disturb each other | that sizes you never tried work |
#
# So without a GPU this course never shows seconds as a GPU's.

# %% [markdown]
# On a machine with a GPU, `check` simulates your kernel first. Only if nothing is wrong does it
# launch the kernel on the GPU, and compares again. A mistake then costs you a sentence, not a
# restart.
#
# | you see | it comes from | do this |
# |---|---|---|
# | `TypingError` | Numba, while it compiles | read what and where; mend that line |
# | `KernelError` | the simulator, while it runs | read index and thread; mend the guard |
# | `CudaAPIError` | the GPU's driver | restart Python; `check` the kernel |
# | a verdict with ✗ | `check` | read the case and the hint |

# %% [markdown]
# ## 9 Where you stand
#
# <kbd>core</kbd> 5 minutes
#
# `progress()` lists the exercises that you have checked, in earlier sessions, too.
# `progress().save("progress.md")` writes the list to a file that you can show.

# %%
progress()

# %% [markdown]
# ## What you should be able to say now
#
# - Host and device have a memory each, and data moves only by copies.
# - A kernel is run by many threads at once. `cuda.grid(1)` tells a thread which one it is.
# - `kernel[blocks, threads](...)` starts blocks × threads threads.
# - A thread without an element needs a guard.
# - Of an error message I read what and where.

# %% [markdown]
# ## Questions
#
# **1.** You launch `[3, 256]` over 700 elements without a guard. How many threads write outside?
#
# <details><summary>Answer</summary>
#
# 768 threads, 700 elements: 68 threads write outside, in the third block.
#
# </details>
#
# **2.** Why does a kernel not return its result?
#
# <details><summary>Answer</summary>
#
# Each of its threads would return something, and a launch does not even wait for them. Results go
# into an array on the device.
#
# </details>
#
# **3.** Your kernel gives the right result on a GPU, without an error. Is it right?
#
# <details><summary>Answer</summary>
#
# Not proven. It may write past the end of an array without anybody noticing, or fail for other
# sizes. Trace it, or check it, with awkward sizes.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Launch `say_hello[4, 2]()` and then `say_hello[2, 4]()`. What changes?
# - Trace `double` over 10 elements with `[3, 4]`. There are two findings. Why two?
# - Write a kernel that writes `10 * block + thread` to each element, and print the result.

# %% [markdown]
# ## Common misconceptions
#
# - *"`threadIdx.x` is the thread's number."* Only inside its block. `cuda.grid(1)` counts over
#   all.
# - *"The guard costs time, so leave it out."* It is one comparison. Without it the kernel is
#   wrong.
# - *"No error, so it is right."* A GPU rarely complains. It writes.
# - *"Thread 0 runs first."* There is no order.

# %% [markdown]
# ## What to read next
#
# - [Lesson 01](01_threads_blocks_grids.ipynb), *Threads, blocks, grids*: many more elements, two
#   axes, and counters that many share.
# - [Writing CUDA kernels](https://nvidia.github.io/numba-cuda/user/kernels.html) in the
#   documentation of Numba-CUDA.
# - [CUDA programming guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/), the chapter
#   on the programming model.
