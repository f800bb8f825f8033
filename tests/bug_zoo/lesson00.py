"""Wrong answers to the exercises of lesson 00 as students write them, and unusual right ones."""

from numba import njit

from bug_zoo import Answers
from course import cuda

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right


# --- fill-index ---------------------------------------------------------------------------------


@wrong("fill-index", "unwritten-output", "out[4]", "starts again at 0 in every block")
@cuda.jit
def fill_only_the_first_block(out):
    i = cuda.threadIdx.x
    out[i] = i


@wrong("fill-index", "out-of-bounds", "writes out[8]", "size 8", "Thread (7, 0, 0)")
@cuda.jit
def fill_from_one(out):
    i = cuda.grid(1) + 1
    out[i] = i


@wrong("fill-index", "wrong-result", "An index is off by one", "out[0] is 1, right is 0")
@cuda.jit
def fill_counts_from_one(out):
    i = cuda.grid(1)
    out[i] = i + 1


@wrong("fill-index", "uninitialised-read", "Use `=`, not `+=`")
@cuda.jit
def fill_adds(out):
    i = cuda.grid(1)
    out[i] += i


@wrong("fill-index", "wrong-result", "out[4] is 0, right is 4")
@cuda.jit
def fill_restarts_in_each_block(out):
    out[cuda.grid(1)] = cuda.threadIdx.x


@wrong("fill-index", "not-a-kernel", "plain Python function", "@cuda.jit")
def fill_without_decorator(out):
    i = cuda.grid(1)
    out[i] = i


@wrong("fill-index", "not-a-kernel", "compiled for the CPU")
@njit
def fill_with_njit(out):
    for i in range(out.size):
        out[i] = i


@wrong("fill-index", "typing", "write the result into an array")
@cuda.jit
def fill_returns(out):
    return cuda.grid(1)


@wrong("fill-index", "typing", "did you mean cuda.grid?", "Line 2: i = cuda.gird(1)")
@cuda.jit
def fill_mistyped(out):
    i = cuda.gird(1)
    out[i] = i


@wrong("fill-index", "wrong-arguments", "takes no argument|takes 0 arguments", "1 argument: out")
@cuda.jit
def fill_takes_nothing():
    cuda.grid(1)


@wrong("fill-index", "unwritten-output", "Nothing was written to out")
@cuda.jit
def fill_forgets_the_index(out):
    out = cuda.grid(1)  # noqa: F841


@right("fill-index")
@cuda.jit
def fill_by_hand_and_guarded(result):
    number = cuda.threadIdx.x + cuda.blockDim.x * cuda.blockIdx.x
    if number >= result.shape[0]:
        return
    result[number] = number


@right("fill-index")
@cuda.jit
def fill_with_one_thread(out):
    if cuda.grid(1) == 0:
        for i in range(len(out)):
            out[i] = i


# --- fix-the-guard ------------------------------------------------------------------------------


@wrong("fix-the-guard", "out-of-bounds", "reads x[10]", "10 elements, grid 3, block 4")
@cuda.jit
def guard_is_missing(out, x):
    i = cuda.grid(1)
    out[i] = x[i] + 1


@wrong("fix-the-guard", "out-of-bounds", "x[10]", "i < out.size")
@cuda.jit
def guard_is_one_too_late(out, x):
    i = cuda.grid(1)
    if i <= out.size:
        out[i] = x[i] + 1


@wrong("fix-the-guard", "unwritten-output", "out[9]", "Your guard stops too many threads")
@cuda.jit
def guard_is_one_too_early(out, x):
    i = cuda.grid(1)
    if i < out.size - 1:
        out[i] = x[i] + 1


@wrong("fix-the-guard", "out-of-bounds", "reads x[11]", "i < out.size")
@cuda.jit
def guard_is_upside_down(out, x):
    i = cuda.grid(1)
    if i > out.size:
        out[i] = x[i] + 1


@wrong("fix-the-guard", "out-of-bounds", "x[10]", "size 10")
@cuda.jit
def guard_is_only_for_the_store(out, x):
    i = cuda.grid(1)
    value = x[i] + 1
    if i < out.size:
        out[i] = value


@wrong("fix-the-guard", "out-of-bounds", "x[10]")
@cuda.jit
def guard_compares_the_block(out, x):
    i = cuda.grid(1)
    if cuda.threadIdx.x < out.size:
        out[i] = x[i] + 1


@wrong("fix-the-guard", "wrong-result|input-modified", "out holds|x is an input|It holds x")
@cuda.jit
def guard_is_right_but_nothing_is_added(out, x):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i]


@wrong("fix-the-guard", "input-modified", "x is an input", "write to out instead")
@cuda.jit
def guard_is_right_but_x_is_changed(out, x):
    i = cuda.grid(1)
    if i < out.size:
        x[i] += 1
        out[i] = x[i]


@right("fix-the-guard")
@cuda.jit
def guard_leaves_early(out, x):
    i = cuda.grid(1)
    if not i < x.shape[0]:
        return
    out[i] = 1 + x[i]


@right("fix-the-guard")
@cuda.jit
def guard_by_loop(out, x):
    for i in range(cuda.grid(1), len(x), cuda.gridsize(1)):
        out[i] = x[i] + 1


# --- scale-add ----------------------------------------------------------------------------------


@wrong("scale-add", "out-of-bounds", "3 elements", "x[3]", "more threads than")
@cuda.jit
def scale_add_without_guard(out, a, x, y):
    i = cuda.grid(1)
    out[i] = a * x[i] + y[i]


@wrong("scale-add", "wrong-result", "That is what you get when y is left out")
@cuda.jit
def scale_only(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i]


@wrong("scale-add", "wrong-result", "when a scales the sum of x and y")
@cuda.jit
def scale_the_sum(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * (x[i] + y[i])


@wrong("scale-add", "wrong-result", "when a scales y instead of x")
@cuda.jit
def scale_the_other(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + a * y[i]


@wrong("scale-add", "typing", "a is one number, not an array")
@cuda.jit
def scale_with_an_index(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] * x[i] + y[i]


@wrong("scale-add", "typing", "out[i] = a * x + y")
@cuda.jit
def scale_whole_arrays(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x + y


@wrong("scale-add", "wrong-arguments", "in that order", "out, a, x, y")
@cuda.jit
def scale_with_out_last(a, x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@wrong("scale-add", "unwritten-output", "out[64]")
@cuda.jit
def scale_the_first_block(out, a, x, y):
    i = cuda.threadIdx.x
    if i < out.size:
        out[i] = a * x[i] + y[i]


@wrong("scale-add", "input-modified", "y is an input", "write to out instead")
@cuda.jit
def scale_into_y(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        y[i] = a * x[i] + y[i]


@right("scale-add")
@cuda.jit
def scale_add_in_steps(out, a, x, y):
    i = cuda.grid(1)
    if i < x.size and i < y.size:
        out[i] = a * x[i]
        out[i] += y[i]


@right("scale-add")
@cuda.jit
def scale_add_fused(out, a, x, y):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = cuda.fma(a, x[i], y[i])
