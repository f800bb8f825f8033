# %% [markdown]
# # 00 Your picture, your kernel
#
# In half an hour your photograph goes through your kernels, on a GPU or a simulator.

# %% [markdown]
# ## What you need
#
# Python, a little NumPy. No GPU.

# %% [markdown]
# ## How long it takes

# %% [markdown]
# ## 1 A thread for each pixel
#
# <kbd>core</kbd>
#
# Name your file.

# %%
from numba import float32

from course import check, cuda, images, plots, predict
from course_lessons.lesson00 import bars, light, looking_back, watch

photo = images.mine("chelsea")  # or "me.jpg", or "upload" in Colab
plots.image_grid([photo], cell=3)

# %% [markdown]
# A **kernel**, marked by `@cuda.jit`, is a function that a GPU runs many times at once. Each run, a
# **thread**, computes one pixel and stores it in `out`. `cuda.grid(2)` tells it which.


# %%
@cuda.jit
def negative(photo, out):
    column, row = cuda.grid(2)  # which pixel is mine?
    if row < out.shape[0] and column < out.shape[1]:  # is it in the photograph?
        out[row, column] = float32(1) - photo[row, column]  # why not 1: lesson 02


# %% [markdown]
# A **launch** says how many **blocks** of how many threads, x (along the columns) first.

# %%
out = photo.copy()
blocks = photo.shape[1] // 16 + 1, photo.shape[0] // 16 + 1
negative[blocks, (16, 16)](photo, out)
plots.image_grid([out], cell=3)

# %% [markdown]
# ### Exercise: shine a light on it
#
# `light(row, column, out)` is the brightness at a pixel. Instead of `pass`, store the pixel times
# the light.


# %% tags=["exercise"]
@cuda.jit
def spotlight(photo, out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        # out[row, column] = ...
        ### BEGIN SOLUTION
        out[row, column] = photo[row, column] * light(row, column, out)
        ### END SOLUTION


# %% tags=["check"]
check("spotlight", spotlight)

# %%
spotlight[blocks, (16, 16)](photo, out)
plots.image_grid([out], cell=3)

# %% [markdown]
# ## 2 Past the edge
#
# <kbd>core</kbd>
#
# The `if` is the **guard**. Without it, a GPU gives the same picture. Right?


# %%
@cuda.jit
def unguarded(photo, out):
    column, row = cuda.grid(2)
    out[row, column] = photo[row, column] * light(row, column, out)


# %%
predict("right without the guard?", "no", choices=("yes", "no"))

# %%
predict.answer("right without the guard?", "no", how="found")
check("spotlight", unguarded, wrong_on_purpose=True)

# %% [markdown]
# Whole blocks go past the edge. A GPU does not stop: it stores elsewhere.

# %% [markdown]
# ## 3 Thousands of threads
#
# <kbd>core</kbd>
#
# One thread could do it all. `glow` takes it as one row; `gridsize` counts all threads.


# %%
@cuda.jit
def glow(photo, out):
    for i in range(cuda.grid(1), out.size, cuda.gridsize(1)):
        out[i] = photo[i] ** float32(0.5)


# %% [markdown]
# A GPU runs 32 threads together, a **warp**. One **request** loads or stores for all of them, in
# **sectors** of 32 bytes.

# %%
predict("times fewer requests with 32 threads instead of 1", 32, exact=True)

# %% [markdown]
# Run it. Then change `1, 1` to `1, 32`, `1, 256`, `256, 256`. *Steps* are the busiest thread's
# pixels.

# %%
LAUNCH = 1, 1
watch(glow, LAUNCH, photo)

# %%
few, many = watch(glow, (1, 1), photo).requests, watch(glow, (1, 32), photo).requests
predict.answer("times fewer requests with 32 threads instead of 1", few / many, how="counted")
bars.first_launches_picture()

# %% [markdown]
# More warps save no requests, but time: on each SM (multiprocessor) some threads go on while others
# wait.

# %% [markdown]
# ## 4 The course's program
#
# <kbd>core</kbd>
#
# A photograph is a sum of layers (its SVD). Layer `i` is column `i` of `u` times row `i` of `vt`,
# times a strength: at a pixel the product of `u[row, i]`, `s[i]` and `vt[i, column]`.

# %% [markdown]
# ### Exercise: rebuild it
#
# Two blanks: guard, and what layer `i` adds.


# %% tags=["exercise"]
@cuda.jit
def rebuild(u, s, vt, k, out):
    column, row = cuda.grid(2)
    inside = False
    # inside = column < out.shape[1] and ...
    ### BEGIN SOLUTION
    inside = column < out.shape[1] and row < out.shape[0]
    ### END SOLUTION
    if inside:
        total = float32(0)
        for i in range(k):
            # total += ...
            ### BEGIN SOLUTION
            total += u[row, i] * s[i] * vt[i, column]
            ### END SOLUTION
        out[row, column] = total


# %% tags=["check"]
check("rebuild", rebuild)

# %%
u, s, vt = images.svd(photo)
rebuilt = []
for k in (5, 20, 80):
    rebuild[blocks, (16, 16)](u, s, vt, k, out)
    rebuilt.append(out.copy())
plots.image_grid(rebuilt, ["5 layers", "20 layers", "80 layers"])

# %% [markdown]
# You write each step:

# %%
bars.course_picture()

# %% [markdown]
# Run this, then write letters for `?`.

# %%
looking_back(pixel="?", guard="?", thousands="?")

# %% [markdown]
# Next: [lesson 01](01_threads_blocks_grids.ipynb). Bored?
# [Lesson 04](04_warps_and_coalescing.ipynb).

# %% [markdown]
# ## 5 Which machine is this?
#
# <kbd>deepening</kbd>

# %%
import numpy as np

from course import data_path, doctor, gpu, trace

# %% [markdown]
# `doctor()` looks at the machine in front of you. It changes nothing.

# %%
# NBVAL_IGNORE_OUTPUT
doctor()

# %% [markdown]
# | sign | meaning |
# |---|---|
# | ✓ | works |
# | ○ | is not there, and you can do without it |
# | ! | works, but look at it |
# | ✗ | needs a fix; the line with → says how |
#
# Where do your kernels run? `gpu()` gives the name of your GPU, or `None`.

# %%
# NBVAL_IGNORE_OUTPUT
print("Kernels run on:", gpu() or "the simulator")

# %% [markdown]
# Both answers are fine. Every lesson runs unchanged on both, with the same results. Only the
# question "how long does it take?" needs a GPU: the simulator counts, and has no clock.

# %% [markdown]
# ## 6 A folder of your own pictures
#
# <kbd>deepening</kbd>
#
# `load_folder` takes colour, palettes, 16 bits and any size, and makes all images grey, of one
# size, from 0 to 1. It names what it cannot read. Here are three good files and a broken one.

# %%
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

with TemporaryDirectory() as folder:
    path = Path(folder)
    coffee = Image.open(data_path("images", "coffee.jpg"))
    coffee.save(path / "colour.png")
    coffee.quantize(16).save(path / "palette.png")
    Image.fromarray((images.head_mri() * 65535).astype(np.uint16)).save(path / "sixteen_bits.tif")
    (path / "broken.jpg").write_bytes(b"this is no picture")
    loaded = images.load_folder(path, size=256)

print(loaded.names, loaded.images.shape, loaded.images.dtype)
print("skipped:", [name for name, reason in loaded.skipped])

# %% [markdown]
# ## 7 More of your own
#
# <kbd>deepening</kbd>
#
# ### Exercise: guard the rows, too
#
# `mirror` swaps left and right. Its guard looks at the column only.


# %% tags=["exercise"]
@cuda.jit
def mirror(photo, out):
    column, row = cuda.grid(2)
    inside = column < out.shape[1]
    # inside = inside and ...
    ### BEGIN SOLUTION
    inside = inside and row < out.shape[0]
    ### END SOLUTION
    if inside:
        out[row, column] = photo[row, out.shape[1] - 1 - column]


# %% tags=["check"]
check("mirror", mirror)

# %% [markdown]
# `light` is a **device function**: a kernel calls it, and nobody launches it. Here is one more. No
# loop and no list of pixels: each thread asks how far its pixel is from the centre.


# %%
@cuda.jit(device=True)
def squared_distance(x, y):
    return x * x + y * y


@cuda.jit
def draw_rings(out):
    column, row = cuda.grid(2)
    if row < out.shape[0] and column < out.shape[1]:
        from_centre = squared_distance(row - out.shape[0] // 2, column - out.shape[1] // 2)
        out[row, column] = from_centre // 256 % 2


rings = np.zeros((128, 192), dtype=np.float32)
draw_rings[(12, 8), (16, 16)](rings)
plots.image_grid([rings])

# %% [markdown]
# ### Exercise: write each thread's number
#
# Now one axis, and a kernel from its first line. `cuda.grid(1)` is a thread's index over all
# blocks. Fill `out` with 0, 1, 2, 3, …: thread `i` writes `i` to `out[i]`. Here there are exactly
# as many threads as elements, so no guard is needed.
#
# <details><summary>Hint</summary>
#
# Two lines are enough. `cuda.grid(1)` is the index of the thread. `out[...] = ...` writes.
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
# ## 8 Reading a typing error
#
# <kbd>deepening</kbd>
#
# A kernel looks like Python, but it is compiled: by Numba, at its first launch. Numba has to know
# the type of every value. Where it cannot, it raises a `TypingError`. Here a name is mistyped.


# %%
x = np.array([3, 1, 4, 1, 5, 9, 2, 6], dtype=np.int32)
squares = np.zeros_like(x)


@cuda.jit
def copy_mistyped(out, x):
    i = cuda.grid(1)
    if i < out.sise:
        out[i] = x[i]


# %%
try:
    trace(copy_mistyped, 2, 4, squares, x)
except Exception as error:
    print(f"{type(error).__name__}: {error}")

# %% [markdown]
# Read two things: **what** (`sise` is unknown) and **where** (line 3 of your kernel).
#
# `array(int32, 1d, C)` is how Numba writes the type of `out`: 32-bit integers, one axis, C order.
# On a GPU, Numba wraps the same sentence in more words; skip them.

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
    trace(double_all, 2, 4, squares, x)
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
# Three lines: the thread's index, the guard, the formula. `a` has no index.
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
# ## 9 What a simulator can prove
#
# <kbd>deepening</kbd>
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
# in, and to *load* is to read.

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
# | `TypingError` | Numba, while it compiles | read what and where; fix that line |
# | `KernelError` | the simulator, while it runs | read index and thread; fix the guard |
# | `CudaAPIError` | the GPU's driver | restart Python; `check` the kernel |
# | a verdict with ✗ | `check` | read the case and the hint |

# %% [markdown]
# ## Common misconceptions
#
# - *"The picture is right, so the kernel is."* A GPU rarely complains. It writes.

# %% [markdown]
# ## What to read next
#
# - [Writing CUDA kernels](https://nvidia.github.io/numba-cuda/user/kernels.html)
# - [CUDA programming guide](https://docs.nvidia.com/cuda/cuda-c-programming-guide/)
