# %% [markdown]
# # 15 Your kernel inside PyTorch
#
# PyTorch owns the tensors, the memory and the streams, and its gradients want a backward pass. You
# make your softmax one of its functions, forward and backward, and train with it.

# %% [markdown]
# ## What you will do
#
# - Launch your softmax on PyTorch's stream, and write its backward kernel.
# - Train a network with both, and see what a call costs the host.

# %% [markdown]
# ## What you will learn
#
# - Why a kernel has to run on the caller's stream.
# - When to write a kernel, and when to leave it to `torch.compile`.

# %% [markdown]
# ## What you need
#
# [Lesson 08](08_streams.ipynb) for streams and graphs, and [lesson 10](10_reductions.ipynb) for
# softmax and shuffles. One module is [lesson 13](13_normalisation_and_fusion.ipynb)'s LayerNorm. No
# GPU is needed: times were recorded on an NVIDIA H200.
#
# Some cells use **PyTorch**. Without it (`pip install torch`, some 2 GB) they print nothing; the
# solution shows what they would. The checks need none.

# %% [markdown]
# ## How long it takes

# %%
# NBVAL_IGNORE_OUTPUT
import functools
import math

import numpy as np
from numba import float32

from course import beside, check, cuda, gpu, mine, predict, progress, recorded
from course_lessons.lesson15 import pictures, toy_torch
from course_lessons.lesson15.toy_streams import Streams

print("GPU:", gpu() or "none here, so times are recorded ones")

# %% [markdown]
# ## 1 Current streams, and the wrong one
#
# <kbd>core</kbd> 5 minutes
#
# PyTorch has a **current stream**: each call is queued there. Numba's kernels go to the default
# stream, if you say nothing. As long as PyTorch uses the default stream, too, all is in order.
# Inside `with torch.cuda.stream(side):` it is not. Here is that bug, on a toy of which only the
# streams are left:

# %%
ALL = 0xFFFFFFFF
LOWEST = np.finfo(np.float32).min

# %%
# NBVAL_IGNORE_OUTPUT
try:
    import torch

    DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
    print("PyTorch", torch.__version__, "on", DEVICE)
except ImportError:
    torch = None
    print("PyTorch is not here. The cells that use it say nothing; read on.")


# %%
def program(stream):
    """PyTorch fills x on its stream and uses y there; our kernel, in between, is on `stream`."""
    toy = Streams()
    toy.launch("PyTorch's", "fill x", writes=["x"], ms=3)
    toy.launch(stream, "our kernel", reads=["x"], writes=["y"], ms=1.5)
    toy.launch("PyTorch's", "use y", reads=["y"], ms=1)
    return toy


wrong, right = program("default"), program("PyTorch's")
for earlier, later, array in wrong.races:
    print(f"nothing orders '{earlier}' and '{later}', which share {array}")
pictures.timelines({"our kernel on the default stream": wrong, "on PyTorch's": right})

# %% [markdown]
# Above, our kernel reads x **while** it is being filled. Nothing keeps `use y` from starting before
# y is there; here it happens to come later. No error, no warning: wrong values, **sometimes**. The
# toy calls it a race all the same, since nothing says which comes first.
#
# The cure for most programs is simple: **launch on the caller's current stream.** Then everything
# runs in the order in which it was written.

# %% [markdown]
# ## 2 Launch it
#
# <kbd>core</kbd> 10 minutes
#
# Two libraries share an array by a small dict: the address, the shape, the strides, the type.
# `cuda.as_cuda_array(tensor)` reads it and gives Numba's view; no element is copied. A stream is
# shared by a number.
#
# Here is a softmax as [lesson 10](10_reductions.ipynb) asks for it, a warp a row. Where yours has
# passed its check, `mine` takes yours:


# %%
@cuda.jit
def softmax_rows(x, out):
    """Write the softmax of each row of x; a warp for each row, four in a block."""
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    largest, total = LOWEST, float32(0)
    if row < x.shape[0]:
        for column in range(lane, x.shape[1], 32):
            value = x[row, column]
            new = max(largest, value)
            total = total * math.exp(largest - new) + math.exp(value - new)
            largest = new
        for step in range(5):
            other = cuda.shfl_xor_sync(ALL, largest, 16 >> step)
            other_total = cuda.shfl_xor_sync(ALL, total, 16 >> step)
            new = max(largest, other)
            total = total * math.exp(largest - new) + other_total * math.exp(other - new)
            largest = new
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column] - largest) / total


# %%
# NBVAL_IGNORE_OUTPUT
softmax_rows = mine("softmax-online", softmax_rows)

# %% [markdown]
# ### Exercise: a launch on PyTorch's stream
#
# Fill three lines: the number of PyTorch's current stream, Numba's stream of that number, and the
# launch on it. A block has 128 threads, `grid` is given; `tensors` are the kernel's arguments.
#
# - `torch.cuda.current_stream().cuda_stream` is a number; 0 is the default stream.
# - `cuda.external_stream(number)` makes Numba's stream of it.
# - A tensor that requires a gradient gives its address only after `.detach()`.
#
# `torch` and `cuda` are arguments: the check hands in stand-ins that note what you do. In this
# notebook the same function gets the real ones.
#
# <details><summary>Hint</summary>
#
# `kernel[grid, 128, stream](*views)`, with `cuda.as_cuda_array(one.detach())` for `one in tensors`.
#
# </details>


# %% tags=["exercise"]
def launch(torch, cuda, kernel, tensors):
    """Launch a kernel that has a warp for each row on PyTorch's current stream."""
    grid = -(-tensors[0].shape[0] // 4)
    ### BEGIN SOLUTION
    number = torch.cuda.current_stream().cuda_stream
    stream = cuda.external_stream(number) if number else 0
    kernel[grid, 128, stream](*(cuda.as_cuda_array(one.detach()) for one in tensors))
    ### END SOLUTION


# %% tags=["check"]
check("launch-on-stream", launch)

# %% [markdown]
# Does it return **at once**, though the GPU is busy? Here it is behind 50 ms of other work, on a
# side stream. (Without a GPU the simulator computes, in the host's memory, and nothing is timed.)

# %%
# NBVAL_IGNORE_OUTPUT
if torch:
    place = toy_torch.of_this_machine(torch, cuda)

    def run(kernel, *tensors):
        launch(*place, kernel, tensors)

    x = torch.randn(64, 768, device=DEVICE)
    y = torch.empty_like(x)
    run(softmax_rows, x, y)
    print(f"largest error {(y - torch.softmax(x, 1)).abs().max():.0e}")
    if DEVICE == "cuda":
        print(toy_torch.behind_work(torch, run, softmax_rows))

# %% [markdown]
# ## 3 The backward pass
#
# <kbd>core</kbd> 20 minutes
#
# **Autograd** writes down each function that is called, and walks back at the end, from the last to
# the first. Each gets **dy**, the gradient of its result, and returns **dx**, the gradient of its
# input. For a row of a softmax, with y its result:
#
# $$dx_i = y_i \left(dy_i - \sum_j y_j\, dy_j\right)$$
#
# So it needs y, and not x. A kernel that keeps only the row's sum reads `dy` and `y` twice: once
# for the sum, once for the row.

# %% [markdown]
# ### Exercise: the backward kernel
#
# Write `dx`, a warp a row as above. Read `dy` and `y` **twice** at most. All 32 lanes need the
# row's sum, so exchange it by `cuda.shfl_xor_sync`.
#
# <details><summary>Hint 1: the sum</summary>
#
# `for column in range(lane, y.shape[1], 32)`: add `dy * y`. Then five times
# `total += cuda.shfl_xor_sync(ALL, total, 16 >> step)`.
#
# </details>
#
# <details><summary>Hint 2: the row</summary>
#
# The same loop once more: `dx[row, column] = y * (dy - total)`, each at `[row, column]`.
#
# </details>


# %% tags=["exercise"]
@cuda.jit
def softmax_gradient(dy, y, dx):
    """Write the gradient of a softmax's input; a warp for each row, four in a block."""
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    total = float32(0)
    ### BEGIN SOLUTION
    if row < y.shape[0]:
        for column in range(lane, y.shape[1], 32):
            total += dy[row, column] * y[row, column]
        for step in range(5):
            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)
        for column in range(lane, y.shape[1], 32):
            dx[row, column] = y[row, column] * (dy[row, column] - total)
    ### END SOLUTION


# %% tags=["check"]
check("softmax-gradient", softmax_gradient)

# %%
# NBVAL_IGNORE_OUTPUT
beside("softmax-gradient", softmax_gradient)

# %% [markdown]
# ## 4 Is the gradient right?
#
# <kbd>core</kbd> 10 minutes
#
# Formulas are easy to get wrong, and a network with a wrong gradient may still learn. So ask the
# forward pass itself: move x a little, by h times a random **direction** d, and see how the result
# moves.
#
# - By numbers: (f(x + h·d) − f(x − h·d)) / 2h, times dy, summed.
# - By the gradient: backward(dy, x) times d, summed.
#
# Both say how much the sum of dy · f(x) grows along d. They must agree.

# %% [markdown]
# ### Exercise: a gradient's check
#
# Return by how much the two differ, relative to the larger: |one − other| / max(|one|, |other|).
# All arrays have one shape. 0 is perfect; 1 is as good as nothing.
#
# <details><summary>Hint</summary>
#
# `numbers = ((forward(x + h * direction) - forward(x - h * direction)) * dy).sum() / (2 * h)`.
#
# </details>


# %% tags=["exercise"]
def gradient_gap(forward, backward, x, dy, direction, h):
    """Return how far backward's gradient is from what forward's numbers say, relatively."""
    ### BEGIN SOLUTION
    moved = forward(x + h * direction) - forward(x - h * direction)
    numbers = (moved * dy).sum() / (2 * h)
    ours = (backward(dy, x) * direction).sum()
    return abs(numbers - ours) / max(abs(numbers), abs(ours))
    ### END SOLUTION


# %% tags=["check"]
check("gradient-gap", gradient_gap)

# %% [markdown]
# Now your two kernels, and a slip: one that forgets the sum. They compute in float32, so a tiny h
# is lost in rounding.


# %%
# NBVAL_IGNORE_OUTPUT
def by_kernel(kernel, *arrays):
    """Return what a kernel with a warp for each row writes, as float64."""
    given = [np.float32(array) for array in arrays]
    out = np.empty_like(given[0])
    kernel[-(-len(out) // 4), 128](*given, out)
    return out.astype(np.float64)


def backward(dy, x):
    return by_kernel(softmax_gradient, dy, by_kernel(softmax_rows, x))


def forgets_the_sum(dy, x):
    return dy * by_kernel(softmax_rows, x)


values = np.random.default_rng(5).standard_normal((3, 13, 77))
forward = functools.partial(by_kernel, softmax_rows)
for h in (1, 0.03, 0.00001):
    gaps = [gradient_gap(forward, each, *values, h) for each in (backward, forgets_the_sum)]
    if None not in gaps:  # until yours is written
        print(f"h = {h:7}: gap {gaps[0]:.0e}, of one that forgets the sum {gaps[1]:.0e}")

# %% [markdown]
# With a large step the curve bends, with a tiny one rounding takes over. In between the right
# gradient's gap is far below that of a wrong one. (PyTorch's own `gradcheck` does the same in
# float64.)

# %% [markdown]
# ## 5 A function of PyTorch's
#
# <kbd>core</kbd> 10 minutes
#
# `torch.autograd.Function` is what autograd writes down: `forward` computes, and keeps what
# `backward` will need.

# %% [markdown]
# ### Exercise: both ways
#
# Fill three lines: a launch and what is kept in `forward`, a launch in `backward`. `run(kernel,
# *tensors)` launches on PyTorch's stream, as your `launch` does.
#
# <details><summary>Hint</summary>
#
# `ctx.save_for_backward(...)` keeps what `ctx.saved_tensors` gives back.
#
# </details>


# %% tags=["exercise"]
def softmax_function(torch, run, forward_kernel, backward_kernel):
    """Return the autograd.Function of a softmax; the kernels take (x, y) and (dy, y, dx)."""

    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = torch.empty_like(x)
            ### BEGIN SOLUTION
            run(forward_kernel, x, y)
            ctx.save_for_backward(y)
            ### END SOLUTION
            return y

        @staticmethod
        def backward(ctx, dy):
            (y,) = ctx.saved_tensors
            dx = torch.empty_like(y)
            ### BEGIN SOLUTION
            run(backward_kernel, dy, y, dx)
            ### END SOLUTION
            return dx

    return Softmax


# %% tags=["check"]
check("softmax-both-ways", softmax_function)

# %% [markdown]
# Does a network learn the same with it? Each input looks at eight learned keys, a softmax makes
# shares of the scores, and the shares mix eight learned values. Twenty steps, once with PyTorch's
# softmax, once with yours:


# %%
def losses(softmax, steps=20):
    """Train a small network for some steps, and return its losses."""
    torch.manual_seed(0)
    keys, values = (torch.nn.Linear(*size).to(DEVICE) for size in ((16, 8), (8, 4)))
    optimiser = torch.optim.SGD([*keys.parameters(), *values.parameters()], lr=3.0)
    x = torch.randn(32, 16).to(DEVICE)
    labels = x[:, :4].argmax(1)
    found = []
    for _ in range(steps):
        loss = torch.nn.functional.cross_entropy(values(softmax(keys(x))), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    return found


# %%
# NBVAL_IGNORE_OUTPUT
if torch:
    theirs, ours = losses(functools.partial(torch.softmax, dim=1)), [math.nan] * 20
    try:
        ours = losses(softmax_function(torch, run, softmax_rows, softmax_gradient).apply)
    except ValueError as fault:
        print("yours:", fault)
    print("step    PyTorch's      yours")
    for step in (0, 4, 9, 19):
        print(f"{step + 1:4}   {theirs[step]:10.6f} {ours[step]:10.6f}")

# %% [markdown]
# Your kernels are in PyTorch now. The host's part of each call has been added, and that is the
# subject of the next section.

# %% [markdown]
# ## 6 Where the microseconds go
#
# <kbd>core</kbd> 20 minutes
#
# A kernel on 64 × 768 numbers takes the GPU a few microseconds. What does the **call** take?
#
# Guess, in microseconds: what does one launch by Numba cost the host, `kernel[grid, block](x,
# out)`? (Not the first, which compiles. Its arrays are on the GPU already.)

# %%
predict("microseconds of a launch by Numba", 5, within=2)


# %%
def microseconds(part):
    """Return what a part of a call costs the host, recorded on an H200."""
    (figure,) = recorded("door", variant=part, metric="step", gpu="H200")
    return figure.median * 1e3


predict.answer(
    "microseconds of a launch by Numba", round(microseconds("Numba's launch"), 1), how="measured"
)

# %% [markdown]
# Numba looks at each argument anew: its type, shape, strides, whether it is on the GPU. Then it
# packs all that for the driver. Since the last call only the **addresses** have changed.
#
# So decide once what stays, and keep it: a **plan**. A call then looks at its arrays, finds the
# plan, writes the addresses into it, and launches. Here are the parts of such a call, the course's
# `softmax` of a PyTorch tensor, beside PyTorch's own:

# %%
names = ["look at the array", "memory for the result", "write addresses", "ask for the stream"]
parts = {name: microseconds(name) for name in [*names, "the driver's launch"]}
parts["the rest"] = microseconds("the whole call") - sum(parts.values())
calls = {
    "Numba's launch": {"all of it": microseconds("Numba's launch")},
    "softmax, the course's": parts,
    "softmax, PyTorch's": {"all of it": microseconds("PyTorch's call")},
}
pictures.shares(calls)

# %% [markdown]
# More than half is the driver's launch, which nobody can save. The result's memory comes from
# PyTorch's pool. Looking at the array is half a microsecond. "The rest", a microsecond, finds the
# plan, and calls functions.
#
# What belongs to a plan's **key**? All that the compiled launch depends on. Leave one out, and a
# call gets a plan that was made for another array. Put too much in, and each call makes a new plan.

# %% [markdown]
# ### Exercise: the plan for arrays that look alike
#
# `x` has `address`, `shape`, `strides`, `dtype` and `device`; `plans` is a dict, empty at first,
# and the same in each call. `prepare(x)` makes a plan, which is slow. Return a plan for x: an old
# one where it fits, else a new one that you keep.
#
# Kernels load 16 bytes at once where the first address is a multiple of 16, and single numbers
# where it is not. So a plan also depends on what the address leaves over 16.
#
# <details><summary>Hint</summary>
#
# `key = (x.shape, ...)`. Which of the five belong into it as they are, and which only in part?
#
# </details>


# %% tags=["exercise"]
def find_plan(x, plans, prepare):
    """Return a plan for an array; `plans` keeps those that were made."""
    ### BEGIN SOLUTION
    key = (x.shape, x.strides, x.dtype, x.device, x.address % 16)
    if key not in plans:
        plans[key] = prepare(x)
    return plans[key]
    ### END SOLUTION


# %% tags=["check"]
check("find-a-plan", find_plan)

# %% [markdown]
# The package's own is `course/dispatch/`. What its whole calls cost the host stands below, recorded
# in one run with the libraries' own. The first column has a new result in each call, the second
# writes into `out=`. Microseconds matter where kernels are short; with LayerNorm at 8192², in the
# last line, the GPU is what you wait for.


# %%
# NBVAL_IGNORE_OUTPUT
def host(call, library="PyTorch"):
    """Return a call's host microseconds, as text; a dash where there is no such row."""
    found = recorded("door", variant=f"{call}, {library}", metric="host", gpu="H200")
    return f"{found[0].median * 1e3:5.1f}" if found else "    -"


print("µs on the host          new   out=   the library's own")
for name in ("layer_norm", "softmax", "activation"):
    own = host(f"own: {name}")
    print(f"{name:12} PyTorch  {host(name)}  {host(f'{name}, out')}   {own}")
own = host("own: reconstruct", "CuPy")
new, into = (host(name, "CuPy") for name in ("reconstruct", "reconstruct, out"))
print(f"{'reconstruct':12} CuPy     {new}  {into}   {own}  (u * s) @ vt")
(large,) = recorded("door", variant="layer_norm, PyTorch", shape="8192x8192", gpu="H200")
print(f"on the GPU, 8192 x 8192: {large.median * 1e3:.0f} µs")

# %% [markdown]
# ## 7 When is it worth it?
#
# <kbd>core</kbd> 5 minutes
#
# Take a training step of a network with two hidden layers of 1,024, each with LayerNorm and GELU.
# PyTorch runs it in three ways: **eager**, call by call; **compiled** by `torch.compile`; and
# compiled into CUDA **graphs** ([lesson 08](08_streams.ipynb)), each launched at once.
#
# How many times as fast as PyTorch's is ours, eager, for 128 rows? (2 is twice as fast, 0.5 half.)
# Ours is one function instead of two, but forward and backward are called from Python.

# %%
predict("128 rows, eager: how many times as fast is ours?", 0.9, within=1.3, no_effect=1)


# %%
# NBVAL_IGNORE_OUTPUT
def step(way, whose, rows):
    """Return a training step's milliseconds, recorded on an H200."""
    variant = f"{way}, {whose}"
    (figure,) = recorded(
        "training", variant=variant, shape=f"{rows}x784", metric="step", gpu="H200"
    )
    return figure.median


ratio = step("eager", "PyTorch's", 128) / step("eager", "ours", 128)
print("rows  way       PyTorch's      ours   times as fast")
for size in (128, 1024, 8192):
    for way in ("eager", "compiled", "graphs"):
        theirs, ours = step(way, "PyTorch's", size), step(way, "ours", size)
        print(f"{size:4}  {way:8} {theirs:7.2f} ms {ours:7.2f} ms   {theirs / ours:.2f}")
predict.answer("128 rows, eager: how many times as fast is ours?", round(ratio, 2))

# %% [markdown]
# An honest table. With few rows the **host** decides: PyTorch's backward pass is C++, ours is
# Python that C++ calls, in another thread. With 8,192 rows the GPU decides, and ours moves fewer
# bytes: the backward pass reads dy and x once and applies GELU's slope in registers. A graph of the
# whole step leaves no host in it; here loss and optimiser stay eager.
#
# Compiled, PyTorch fuses LayerNorm and GELU by itself, and launches what it made from Python, too.
# So the two are close.

# %% [markdown]
# | you have | take |
# |---|---|
# | a chain of elementwise functions, norms, sums | `torch.compile`: it fuses them for you |
# | a matrix product, a convolution, attention | the library; somebody spent years on it |
# | a new pattern that it does not fuse | **Triton**, a language for kernels by blocks, in Python |
# | a factorisation, warps with roles, a layout of your own | a kernel of your own |
# | many short calls | a graph first; then count microseconds |
#
# Measure first: the profile of [lesson 07](07_reading_a_profiler.ipynb) says whether the part that
# you would write is worth a minute.

# %% [markdown]
# ## 8 What an array is to another library
#
# <kbd>deepening</kbd> 20 minutes
#
# To NumPy, CuPy, PyTorch and Numba an array is the same thing: **memory, and a way to count it**.
# Each of them says so in a dict that others can read. Here is what an array on the GPU (or in the
# simulator) says:

# %%
# NBVAL_IGNORE_OUTPUT
x = cuda.to_device(np.zeros((4, 6), np.float32))
for key, value in x.__cuda_array_interface__.items():
    print(f"{key:8} {value}")

# %% [markdown]
# - `data`: the address of the first element, and whether it is read-only.
# - `shape`, and `typestr`: `<f4` is a float of 4 bytes (`<` says which byte comes first).
# - `strides`: how many **bytes** lie between neighbours along each axis. `None` means that elements
#   lie in C order: row after row, without gaps.
#
# That is all. The numbers stay where they are; only this travels.

# %% [markdown]
# A slice is another way to count the same memory. So is a transposed matrix. NumPy has the same
# dict, under the name `__array_interface__`.

# %%
matrix = np.arange(24, dtype=np.float32).reshape(4, 6)
parts = {
    "m": matrix,
    "m[1:3, 2:5]": matrix[1:3, 2:5],
    "m.T": matrix.T,
    "m[::-1, ::3]": matrix[::-1, ::3],
}
for name, array in parts.items():
    print(f"{name:13} shape {array.shape!s:7} strides {array.strides}")
pictures.views(parts, matrix)

# %% [markdown]
# Each row of the picture is the same memory. Coloured are the elements of an array, numbered as
# that array counts them.
#
# `m[1:3, 2:5]` begins at row 1, column 2 of rows of 6 numbers. How many bytes behind `m`'s first
# element?

# %%
predict("bytes from m to m[1:3, 2:5]", 32, exact=True)

# %%
first, later = (a.__array_interface__["data"][0] for a in (matrix, matrix[1:3, 2:5]))
predict.answer("bytes from m to m[1:3, 2:5]", later - first, how="found")

# %% [markdown]
# Row 1 is 6 numbers away, column 2 is 2 more: 8 numbers of 4 bytes. If m's address is a multiple of
# 16, so is one 32 bytes further. From `m[0, 1:]`, 4 bytes further, a kernel may not load four
# numbers at once ([lesson 06](06_reuse_reuse_reuse.ipynb)).

# %% [markdown]
# ### Exercise: where an element lies
#
# You get such a dict, and an index: a tuple with a number for each axis. Return the element's
# address.
#
# <details><summary>Hint 1: with strides</summary>
#
# The first address, plus index times stride for each axis. Strides are bytes.
#
# </details>
#
# <details><summary>Hint 2: without</summary>
#
# Where `strides` is None, the last axis has the size of an element,
# `int(array["typestr"][2:])`. The axis before it: that, times the length of the last. And so on.
#
# </details>


# %% tags=["exercise"]
def address_of(array, index):
    """Return the address of an element; `array` is an array's interface, a dict."""
    ### BEGIN SOLUTION
    strides = array["strides"]
    if strides is None:
        strides, size = [], int(array["typestr"][2:])
        for length in reversed(array["shape"]):
            strides.insert(0, size)
            size *= length
    return array["data"][0] + sum(i * s for i, s in zip(index, strides, strict=True))
    ### END SOLUTION


# %% tags=["check"]
check("element-address", address_of)

# %% [markdown]
# PyTorch's tensors have that dict, too, where they are on a GPU; `cuda.as_cuda_array(tensor)` is
# Numba's view of one. There is a second protocol, **DLPack**, a small record in C instead of a
# dict. PyTorch, CuPy and JAX speak it (`torch.from_dlpack(x)`), and NumPy for arrays in the host's
# memory. No number is copied.

# %% [markdown]
# ## 9 Between two libraries' streams
#
# <kbd>deepening</kbd> 15 minutes
#
# What if two libraries are at work, each on a stream of its own? Then an **event** orders them. It
# is a mark: one stream sets it when its work so far is done, another waits for it. The host waits
# for nothing.

# %%
toy = Streams()
toy.launch("CuPy's", "fill x", writes=["x"], ms=3)
toy.record("x is there", "CuPy's")
toy.wait("PyTorch's", "x is there")
toy.launch("PyTorch's", "our kernel", reads=["x"], writes=["y"], ms=1.5)
toy.launch("CuPy's", "fill x again", writes=["x"], ms=2)
print("races:", toy.races)
pictures.timelines({"an event before": toy})

# %% [markdown]
# Better, and not right: now CuPy fills x **again** while our kernel still reads it. So it takes two
# events: one before our launch, one behind it.

# %% [markdown]
# ### Exercise: between two libraries' streams
#
# Your kernel reads an array of each of the streams in `others`, and is launched on `mine`. Return a
# list of commands such that it reads what was written before, and nobody overwrites it too early:
#
# - `("record", event, stream)`: the event happens when the stream has done what it was given so
#   far;
# - `("wait", stream, event)`: what the stream is given from now on waits for it;
# - `("launch", stream)`: your kernel, once.
#
# After your call each of the others may write into its array again. An event is any name that you
# like. One of `others` may be `mine` itself.
#
# <details><summary>Hint</summary>
#
# For each of the others: record, and let `mine` wait. Then launch. Then record once on `mine`, and
# let each of the others wait for that.
#
# </details>


# %% tags=["exercise"]
def ordered(mine, others):
    """Return the commands for a launch on `mine` that reads arrays of other streams."""
    ### BEGIN SOLUTION
    commands = []
    for other in others:
        commands += [("record", other, other), ("wait", mine, other)]
    commands += [("launch", mine), ("record", "done", mine)]
    for other in others:
        commands += [("wait", other, "done")]
    return commands
    ### END SOLUTION


# %% tags=["check"]
check("ordered-streams", ordered)

# %% [markdown]
# `__cuda_array_interface__` has an entry for this, `stream`: the one that the array's owner works
# on. Read `cuda.as_cuda_array` with care, though: where an array names a stream, it **waits** until
# that stream is empty. A call that waits is no launch any more.
#
# This course's LayerNorm once did that. With 100 ms of other work on the GPU, its call came back
# after 92 ms, when that work was done. Here is what it takes now:

# %%
# NBVAL_IGNORE_OUTPUT
for library in ("PyTorch", "CuPy", "Numba"):
    (figure,) = recorded("door", variant=f"layer_norm, out, {library}", metric="behind", gpu="H200")
    print(f"layer_norm with {library:8} arrays, behind 100 ms of work: {figure.median:.2f} ms")

# %% [markdown]
# ## 10 Who owns the memory
#
# <kbd>deepening</kbd> 5 minutes
#
# An address keeps nothing alive. When the last name of an array goes, its library takes the memory
# back, and **gives it to the next who asks**. Whoever kept the address alone then reads another
# array's numbers.
#
# Here is a pool of two places, as CuPy and PyTorch have them, only smaller:


# %%
class Pool:
    """Memory that is given out, taken back, and given out again."""

    def __init__(self):
        self.free = ["place 2", "place 1"]

    def new(self, name):
        address = self.free.pop()
        print(f"{name} is at {address}")
        return address

    def give_back(self, address):
        self.free.append(address)


pool = Pool()
kept = pool.new("a")  # an address, as a kernel's argument is
pool.give_back(kept)  # a's last name is gone

# %% [markdown]
# Now somebody asks for memory for `b`. Whose memory is at the kept address then: a's, b's, or
# nobody's?

# %%
predict("who is at the kept address", "b", choices=("a", "b", "nobody"))

# %%
b = pool.new("b")
predict.answer("who is at the kept address", "b" if kept == b else "a", how="found")

# %% [markdown]
# So keep the **array**, not its address, as long as anybody uses its memory. NumPy's views do that
# by themselves: a view's `base` is the array that owns. Numba's view of a tensor holds the tensor,
# too.

# %%
owner = np.arange(6)
view = owner[2:4]
del owner
print("the view's memory is still there:", view, "and its owner:", view.base)

# %% [markdown]
# But how long is "as long as anybody uses it"? A launch returns at once, and the kernel runs later.
# Python may let a temporary array go **before** the kernel has read it. Why does that go well?
#
# Because of the **stream**. The pool knows on which stream the memory was **allocated**. The
# next owner writes on the same stream, so its writing comes after your kernel. Nothing is
# overwritten too early, as long as all of it is on one stream.

# %% [markdown]
# ## 11 An operator that PyTorch knows
#
# <kbd>deepening</kbd> 5 minutes
#
# **`torch.compile`** reads your program and makes another one of it. An `autograd.Function` whose
# kernels it cannot see breaks the program in two. An **operator** tells it enough:
#
# - the function, with types of what goes in and comes out;
# - a **fake**: what the result looks like, without computing it;
# - a gradient, which calls operators again.
#
# `torch.library.custom_op` takes all three. Your softmax needs two operators, one for each kernel:

# %%
# NBVAL_IGNORE_OUTPUT
if torch:

    @torch.library.custom_op("lesson15::softmax", mutates_args=())
    def softmax_operator(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        run(softmax_rows, x, y)
        return y

    @torch.library.custom_op("lesson15::softmax_backward", mutates_args=())
    def gradient_operator(dy: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        dx = torch.empty_like(y)
        run(softmax_gradient, dy, y, dx)
        return dx

    softmax_operator.register_fake(lambda x: torch.empty_like(x))
    gradient_operator.register_fake(lambda dy, y: torch.empty_like(y))
    softmax_operator.register_autograd(
        lambda ctx, dy: gradient_operator(dy, *ctx.saved_tensors),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
    )

# %% [markdown]
# `torch.library.opcheck` tries whether all of that fits together. Then the network learns with it:

# %%
# NBVAL_IGNORE_OUTPUT
if torch:
    sample = (torch.randn(5, 40, device=DEVICE, requires_grad=True),)
    found = torch.library.opcheck(softmax_operator, sample, raise_exception=False)
    for name, verdict in found.items():
        print(f"{name:35} {str(verdict)[:60]}")
    print("loss of step 5:", f"{losses(softmax_operator, steps=5)[-1]:.6f}")

# %% [markdown]
# `course.torch` has its kernels ready as such operators. (It registers the same parts one by one,
# with `torch.library.Library`: what `custom_op` makes is called through a dozen functions, and
# small calls feel that.) The package's plain `softmax` refuses a tensor that requires a gradient.
# It would compute, and record nothing: a bug that you would find weeks later.

# %%
# NBVAL_IGNORE_OUTPUT
if torch:
    import course.torch as operators
    from course.kernels.softmax import softmax

    print("recorded by:", type(operators.softmax(*sample).grad_fn).__name__)
    try:
        softmax(*sample)
    except ValueError as refused:
        print(str(refused).replace(": ", ":\n").replace(", and", ",\nand"))

# %% [markdown]
# ## 12 Two types of 16 bits
#
# <kbd>deepening</kbd> 15 minutes
#
# Networks are trained in 16 bits: half the bytes, and the tensor cores of [lesson
# 17](17_tensor_cores.ipynb). Two types do it: **float16** has 5 bits of exponent and 10 of
# fraction, **bfloat16** has 8 and 7. Its 16 bits are the upper 16 of a float32's. What does each
# keep of a large number, a small one, and of 1/3?

# %%
from course_lessons.lesson15.judges import rounded


def bfloat16(x):
    """Round float32 numbers to bfloat16, and return them as float32."""
    return (rounded(np.atleast_1d(np.float32(x))).astype(np.uint32) << 16).view(np.float32)


with np.errstate(over="ignore"):
    print("number        float16     bfloat16")
    for number in (1e5, 1e-9, 1 / 3):
        print(f"{number:<12.6g}  {np.float16(number):<10.6g}  {bfloat16(number)[0]:.6g}")

# %% [markdown]
# `float16` overflows at 65,504 and loses small gradients, so training with it needs scaled losses.
# `bfloat16` reaches as far as float32, with 8 bits of each number.
#
# Add 1 to a bfloat16 number, again and again, beginning at 0 and rounding each time. Where does it
# stop growing?

# %%
predict("where a bfloat16 sum of ones stops", 256, exact=True)

# %%
total = np.float32(0)
while bfloat16(total + 1)[0] > total:
    total = bfloat16(total + 1)[0]
predict.answer("where a bfloat16 sum of ones stops", int(total), how="found")

# %% [markdown]
# 256 + 1 is half-way between 256 and 258. **Of two as near, the even one** is taken: its last bit
# is 0. That rule keeps rounding errors from always going the same way. And sums of 8,192 numbers
# must not be kept in bfloat16: the kernels add in float32.
#
# NumPy has no bfloat16. So a kernel reads 16 bits, shifts them up, and has a float32. To store a
# result it must round.

# %% [markdown]
# ### Exercise: round to bfloat16
#
# Return the 16 bits, as uint16, of the bfloat16 number nearest to each float32 in `x`. Of two as
# near, take the even one. NaN stays NaN.
#
# <details><summary>Hint 1: the bits</summary>
#
# `bits = x.view(np.uint32)`. The upper 16 of them stay: `bits >> 16`. That is cutting off; to
# round, add something before you shift.
#
# </details>
#
# <details><summary>Hint 2: what to add</summary>
#
# 0x7fff rounds up whatever is above half. And 1 more where the last bit that stays is 1, so that a
# tie goes to the even one: `bits >> 16 & 1`.
#
# </details>


# %% tags=["exercise"]
def to_bfloat16(x):
    """Return the bits of float32 numbers, rounded to bfloat16, as uint16."""
    ### BEGIN SOLUTION
    bits = x.view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(x), 0x7FC0, bits).astype(np.uint16)
    ### END SOLUTION


# %% tags=["check"]
check("bfloat16-bits", to_bfloat16)

# %% [markdown]
# The package's kernels take such tensors: loads turn bfloat16 into float32, stores round it
# back, and the rest of the kernel is unchanged. In the simulator, too:

# %%
# NBVAL_IGNORE_OUTPUT
if torch:
    wide = torch.randn(4, 6).to(DEVICE)
    short = operators.softmax(wide.bfloat16())
    print(short.dtype, "largest error", f"{(short.float() - wide.softmax(1)).abs().max():.0e}")

# %% [markdown]
# ## 13 In a graph
#
# <kbd>deepening</kbd> 5 minutes
#
# A graph is captured once and replayed often ([lesson 08](08_streams.ipynb)). It replays
# **addresses**. Memory that your kernel used when captured must be there at each replay, and nobody
# else may use it. PyTorch keeps a graph's results apart by itself. But what of memory that a kernel
# needs only in between, a **workspace**?
#
# LayerNorm's backward pass has one: sums over some of the rows, which a second kernel adds up. A
# plan might keep it from call to call. Two graphs that are captured in turn would then share it.
# What happens when they are replayed side by side, on two streams?


# %%
def replayed(workspaces):
    """Two graphs, replayed on two streams, with these workspaces."""
    toy = Streams()
    for number, workspace in enumerate(workspaces):
        stream = f"stream {number}"
        toy.launch(stream, f"sums of graph {number}", writes=[workspace], ms=2)
        toy.launch(stream, f"add up {number}", reads=[workspace], ms=1)
    return toy


shared, apart = replayed(["w", "w"]), replayed(["w 0", "w 1"])
print("shared: races", len(shared.races), " one for each graph: races", len(apart.races))

# %%
pictures.timelines({"one workspace for both": shared, "one for each": apart})

# %% [markdown]
# So each graph gets its own. With PyTorch's tensors that is simple: ask PyTorch for the memory in
# each call, and let it go at the end. Its pool costs a microsecond, and what it gives out during a
# capture belongs to that graph. (The course's plans first kept workspaces. Then `torch.compile`
# with `mode="reduce-overhead"` refused to run, and said why: "tensors in the cudagraph pool not
# tracked as outputs".)

# %%
progress(15)

# %% [markdown]
# ## What you should be able to say now
#
# - Launch on the caller's current stream, which is shared by a number.
# - A softmax's backward pass needs y and dy, each read twice, and not x.
# - An `autograd.Function` keeps what its backward pass needs. Check a gradient by numbers.
# - The driver's launch takes some four microseconds; Numba's takes twenty, since it looks at each
#   argument anew. Keep a plan.
# - Deepening: an address keeps nothing alive. Two events order two streams, one on each side.
# - Deepening: bfloat16 is the upper half of float32, rounded to the nearest, ties to even.

# %% [markdown]
# ## Questions
#
# 1. Each row of y sums to 1. What does a row of dx sum to?
# 2. A kernel gets the address of a temporary tensor, on the tensor's own stream. Python lets the
#    tensor go right after the launch. Why is the kernel's input safe?
# 3. The same, but the kernel is on another stream. What may happen?
# 4. Why does the plan's key hold what the address leaves over 16, and not the address?
# 5. Your gradient check says 0.003 for h = 0.00001, and 0.0001 for h = 0.01. Is the gradient
#    wrong?
# 6. Why must the fake of an operator not compute anything?
#
# <details><summary>Answers</summary>
#
# 1. To 0: the sum of y·dy less the same sum times the sum of y. A check that costs one line.
# 2. Whoever gets the memory next uses it on that stream, behind the kernel.
# 3. The pool gives the memory to somebody on the tensor's stream, who writes into it while the
#    kernel still reads. Tell the pool (`tensor.record_stream`), or order the streams.
# 4. The address differs in each call, and is written with each launch. What it leaves over 16
#    decides which loads the kernel was compiled with.
# 5. No. In float32 a step of 0.00001 is lost in rounding; the larger step says that it is right.
# 6. `torch.compile` calls it without numbers, only to learn shapes and types.
#
# </details>

# %% [markdown]
# ## Exercises on your own
#
# - Write LayerNorm's backward kernel for x alone (`course/kernels/norm` has the formula), and check
#   it with your `gradient_gap`.
# - With a GPU: time `softmax(tensor)` and `torch.softmax(tensor, 1)` for 64 × 768, a thousand calls
#   in a row. `python -m course bench door` alternates the two.
# - Let `find_plan` keep at most 100 plans. Which one should go?
# - Give the default stream of `program` other work first. When does the wrong stream go well, and
#   do the races go away?

# %% [markdown]
# ## Common misconceptions
#
# - *"The array is on the GPU, so the kernel can have it."* When? On which stream?
# - *"It gave the right result, so the streams are in order."* Or this time it was quick enough.
# - *"Zero-copy means free."* No number moves, and the call costs microseconds all the same.
# - *"The network learns, so the gradient is right."* A wrong one may point downhill, too.
# - *"bfloat16 is float16 with another name."* Three bits went from the fraction to the exponent.

# %% [markdown]
# ## What to read next
#
# - Numba, [CUDA Array
#   Interface](https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html), and
#   [DLPack](https://dmlc.github.io/dlpack/latest/).
# - PyTorch, [Custom
#   operators](https://pytorch.org/tutorials/advanced/custom_ops_landing_page.html), and [CUDA
#   semantics](https://pytorch.org/docs/stable/notes/cuda.html).
# - Next in the course: [lesson 16](16_a_vae_from_your_own_kernels.ipynb), A VAE from your own
#   kernels.
