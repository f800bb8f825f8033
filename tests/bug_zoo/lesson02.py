"""Wrong answers to the exercises of lesson 02 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32, float64, int32

from bug_zoo import Answers
from course import cuda

ANSWERS = Answers()
wrong, right = ANSWERS.wrong, ANSWERS.right


KERNELS = ("reconstruct", "reconstruct-float32", "reconstruct-columns")

# --- psnr ---------------------------------------------------------------------------------------


@wrong("psnr", "wrong-result", "you return the MSE itself, without the logarithm")
def psnr_is_mse(image, approximation):
    return np.mean((image - approximation) ** 2)


@wrong("psnr", "wrong-result", "the sign is lost")
def psnr_without_minus(image, approximation):
    return 10 * np.log10(np.mean((image - approximation) ** 2))


@wrong("psnr", "wrong-result", "the natural one")
def psnr_natural_logarithm(image, approximation):
    return -10 * np.log(np.mean((image - approximation) ** 2))


@wrong("psnr", "wrong-result", "the sum of the squares instead of their mean")
def psnr_sum(image, approximation):
    return -10 * np.log10(np.sum((image - approximation) ** 2))


@wrong("psnr", "wrong-result", "the factor is 20 instead of 10")
def psnr_factor_twenty(image, approximation):
    return 20 * np.log10(1 / np.mean((image - approximation) ** 2))


@wrong("psnr", "wrong-result", "the absolute error instead of its square")
def psnr_absolute(image, approximation):
    return -10 * np.log10(np.mean(np.abs(image - approximation)))


@wrong("psnr", "wrong-result", "errors of opposite sign cancel")
def psnr_square_of_mean(image, approximation):
    return -10 * np.log10(np.mean(image - approximation) ** 2)


@wrong("psnr", "wrong-shape", "one number")
def psnr_per_column(image, approximation):
    return -10 * np.log10(np.mean((image - approximation) ** 2, axis=0))


@wrong("psnr", "wrong-result", "return")
def psnr_printed(image, approximation):
    print(-10 * np.log10(np.mean((image - approximation) ** 2)))


@wrong("psnr", "raised", "Line 2", "a square is x ** 2")
def psnr_with_a_hat(image, approximation):
    return -10 * np.log10(np.mean((image - approximation) ^ 2))


@wrong("psnr", "input-modified", "image")
def psnr_in_place(image, approximation):
    image -= approximation
    return -10 * np.log10(np.mean(image**2))


@wrong("psnr", "wrong-result", "wrap around at 256")
def psnr_of_bytes(image, approximation):
    a = (image * 255).astype(np.uint8)
    b = (approximation * 255).astype(np.uint8)
    return 10 * np.log10(255**2 / np.mean((a - b) ** 2))


@right("psnr")
def psnr_in_python(image, approximation):
    total = 0.0
    for a, b in zip(image.ravel(), approximation.ravel(), strict=True):
        total += (a - b) ** 2
    return 10 * math.log10(image.size / total)


@right("psnr")
def psnr_by_norm(image, approximation):
    return -20 * np.log10(np.linalg.norm(image - approximation) / np.sqrt(image.size))


# --- break-even ---------------------------------------------------------------------------------


@wrong("break-even", "wrong-result", "you leave the division as a fraction")
def even_fraction(rows, columns):
    return rows * columns / (rows + columns + 1)


@wrong("break-even", "wrong-result", "you forget the k numbers of s")
def even_without_s(rows, columns):
    return (rows * columns - 1) // (rows + columns)


@wrong("break-even", "wrong-result", "equally many")
def even_or_equal(rows, columns):
    return rows * columns // (rows + columns + 1)


@wrong("break-even", "wrong-result", "you round up")
def even_rounded_up(rows, columns):
    return math.ceil(rows * columns / (rows + columns + 1))


@wrong("break-even", "wrong-result", "right is 127")
def even_half(rows, columns):
    return min(rows, columns) // 2


@wrong("break-even", "wrong-result", "not even one layer is smaller")
def even_at_least_one(rows, columns):
    return max(1, (rows * columns - 1) // (rows + columns + 1))


@wrong("break-even", "wrong-arguments", "rows, columns")
def even_of_shape(shape):
    return (shape[0] * shape[1] - 1) // (shape[0] + shape[1] + 1)


@right("break-even")
def even_by_trying(rows, columns):
    k = 0
    while (k + 1) * (rows + columns + 1) < rows * columns:
        k += 1
    return k


@right("break-even")
def even_by_ceiling(rows, columns):
    return math.ceil(rows * columns / (rows + columns + 1)) - 1


# --- energy-rank --------------------------------------------------------------------------------


@wrong("energy-rank", "wrong-result", "an index, which counts from 0")
def rank_is_index(s, share):
    energy = np.cumsum(s**2)
    return int(np.argmax(energy >= share * energy[-1]))


@wrong("energy-rank", "wrong-result", "you add up s instead of its squares")
def rank_without_squares(s, share):
    energy = np.cumsum(s)
    return int(np.argmax(energy >= share * energy[-1])) + 1


@wrong("energy-rank", "wrong-result", "exactly the share is enough")
def rank_strictly_more(s, share):
    energy = np.cumsum(s**2)
    for k, sofar in enumerate(energy, start=1):
        if sofar > share * energy[-1]:
            return k
    return len(s)


@wrong("energy-rank", "wrong-result", "of how many values there are")
def rank_by_count(s, share):
    return math.ceil(share * len(s))


@wrong("energy-rank", "wrong-shape", "one number, k")
def rank_all_of_them(s, share):
    return np.cumsum(s**2) / np.sum(s**2)


@wrong("energy-rank", "wrong-result", "you compare with share itself")
def rank_without_total(s, share):
    return int(np.argmax(np.cumsum(s**2) >= share)) + 1


@right("energy-rank")
def rank_by_loop(s, share):
    goal, sofar = share * float(np.sum(s.astype(np.float64) ** 2)), 0.0
    for k, value in enumerate(s, start=1):
        sofar += float(value) ** 2
        if sofar >= goal:
            return k
    return len(s)


@right("energy-rank")
def rank_by_search(s, share):
    energy = np.cumsum(s.astype(np.float64) ** 2)
    return np.searchsorted(energy, share * energy[-1]) + 1


# --- one-loop -----------------------------------------------------------------------------------


@wrong("one-loop", "wrong-result", "k is ignored")
def loop_over_all(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(len(s)):
        out += s[i] * np.outer(u[:, i], vt[i])
    return out


@wrong("one-loop", "wrong-result", "s is left out")
def loop_without_s(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k):
        out += np.outer(u[:, i], vt[i])
    return out


@wrong("one-loop", "wrong-result", "vt is read as if it were V")
def loop_columns_of_vt(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k):
        out += s[i] * np.outer(u[:, i], vt[:, i])
    return out


@wrong("one-loop", "wrong-result", "transpose of the right one")
def loop_transposed(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k):
        out += s[i] * np.outer(vt[i], u[:, i])
    return out


@wrong("one-loop", "wrong-result", "u and vt have changed places")
def loop_swapped_factors(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k):
        out += s[i] * np.outer(vt[:, i], u[i])
    return out


@wrong("one-loop", "wrong-result", "replaces the sum (=)")
def loop_replaces(u, s, vt, k):
    for i in range(k):
        out = s[i] * np.outer(u[:, i], vt[i])
    return out


@wrong("one-loop", "wrong-result", "the last of the k singular values is left out")
def loop_one_less(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k - 1):
        out += s[i] * np.outer(u[:, i], vt[i])
    return out


@wrong("one-loop", "wrong-result", "one singular value too many")
def loop_one_more(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(min(k + 1, len(s))):
        out += s[i] * np.outer(u[:, i], vt[i])
    return out


@wrong("one-loop", "wrong-dtype", "float64", "dtype=np.float32")
def loop_float64(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]))
    for i in range(k):
        out += s[i] * np.outer(u[:, i], vt[i])
    return out


@wrong("one-loop", "raised", "Line 4", "the i-th row is vt[i]")
def loop_square_only(u, s, vt, k):
    out = np.zeros(u.shape, dtype=np.float32)
    for i in range(k):
        out += s[i] * np.outer(u[:, i], vt[i])
    return out


@wrong("one-loop", "wrong-result", "a layer needs np.outer")
def loop_elementwise(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k):
        out += s[i] * u[:, i] * vt[i]
    return out


@wrong("one-loop", "input-modified", "u is an input")
def loop_scales_u(u, s, vt, k):
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k):
        u[:, i] *= s[i]
        out += np.outer(u[:, i], vt[i])
    return out


@right("one-loop")
def loop_by_broadcasting(u, s, vt, k):
    out = np.zeros((u.shape[0], vt.shape[1]), dtype=np.float32)
    for i in range(k):
        out += s[i] * u[:, i : i + 1] * vt[i : i + 1]
    return out


@right("one-loop")
def loop_over_rows(u, s, vt, k):
    return np.array([(row[:k] * s[:k]) @ vt[:k] for row in u], dtype=np.float32)


@right("one-loop")
def loop_backwards(u, s, vt, k):
    out = np.zeros((u.shape[0], vt.shape[1]), dtype=np.float64)
    for i in reversed(range(k)):
        out += np.outer(u[:, i].astype(np.float64) * s[i], vt[i])
    return out.astype(np.float32)


# --- kernels: wrong for all three ---------------------------------------------------------------


@wrong("reconstruct", "out-of-bounds", "Compare row with")
@cuda.jit
def kernel_without_guard(u, s, vt, k, out):
    row, col = cuda.grid(2)
    total = float32(0)
    for i in range(k):
        total += u[row, i] * s[i] * vt[i, col]
    out[row, col] = total


@wrong("reconstruct", "unwritten-output", "the last 24 columns of 37", "col with out.shape[1]")
@cuda.jit
def kernel_with_square_guard(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[0]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "out-of-bounds", "shape")
@cuda.jit
def kernel_with_swapped_guard(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[1] and col < out.shape[0]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "out-of-bounds", "out")
@cuda.jit
def kernel_guard_lets_one_more_in(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row <= out.shape[0] and col <= out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "unwritten-output", "cuda.grid(2)")
@cuda.jit
def kernel_guard_too_narrow(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] - 1 and col < out.shape[1] - 1:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "unwritten-output", "cuda.grid(2)")
@cuda.jit
def kernel_only_first_block(u, s, vt, k, out):
    row, col = cuda.threadIdx.x, cuda.threadIdx.y
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "k is ignored")
@cuda.jit
def kernel_ignores_k(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(s.size):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "s is left out")
@cuda.jit
def kernel_without_s(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "vt is read as if it were V")
@cuda.jit
def kernel_vt_not_transposed(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[col, i]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "u is read as if it were transposed")
@cuda.jit
def kernel_u_transposed(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[i, row] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "u and vt have changed places")
@cuda.jit
def kernel_factors_swapped(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += vt[row, i] * s[i] * u[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "transpose of the right one")
@cuda.jit
def kernel_image_transposed(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[col, row] = total


@wrong("reconstruct", "wrong-result", "replaces the sum (=)")
@cuda.jit
def kernel_replaces(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        for i in range(k):
            out[row, col] = u[row, i] * s[i] * vt[i, col]


@wrong("reconstruct", "wrong-result", "one singular value too many")
@cuda.jit
def kernel_one_more(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k + 1):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "the last of the k singular values is left out")
@cuda.jit
def kernel_one_less(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k - 1):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "the first singular value is left out")
@cuda.jit
def kernel_starts_at_one(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(1, k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "s is multiplied in twice")
@cuda.jit
def kernel_s_twice(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "uninitialised-read", "do not add to it")
@cuda.jit
def kernel_adds_to_out(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        for i in range(k):
            out[row, col] += u[row, i] * s[i] * vt[i, col]


@wrong("reconstruct", "input-modified", "u is an input")
@cuda.jit
def kernel_changes_u(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total
        if col == 0:
            u[row, 0] = total


@wrong("reconstruct", "limit", "Many threads compute the same pixel")
@cuda.jit
def kernel_one_dimension(u, s, vt, k, out):
    row = cuda.grid(1)
    if row < out.shape[0]:
        for col in range(out.shape[1]):
            total = float32(0)
            for i in range(k):
                total += u[row, i] * s[i] * vt[i, col]
            out[row, col] = total


@wrong("reconstruct", "typing", "Line 4", "A kernel works on single numbers")
@cuda.jit
def kernel_with_matmul(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = (u[row, :k] * s[:k]) @ vt[:k, col]


@wrong("reconstruct", "typing", "Line 6")
@cuda.jit
def kernel_forgets_index(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "wrong-arguments", "this exercise gives 5 arguments: u, s, vt, k, out")
@cuda.jit
def kernel_without_k(u, s, vt, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(s.size):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "not-a-kernel", "@cuda.jit")
def kernel_without_decorator(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = (u[row, :k] * s[:k]) @ vt[:k, col]


# --- kernels: right, but not what the exercise asks for -----------------------------------------


@wrong("reconstruct-float32", "float64", "Line 6: total += ", "float32(0)")
@wrong("reconstruct-columns", "float64", "float32(0)")
@cuda.jit
def kernel_float_literal(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = 0.0
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct-float32", "float64", "so is total = 0")
@cuda.jit
def kernel_integer_literal(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = 0
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct-float32", "float64", "Line 6")
@cuda.jit
def kernel_converts_at_the_end(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = 0.0
        for i in range(k):
            total += float32(u[row, i] * s[i] * vt[i, col])
        out[row, col] = float32(total)


@wrong("reconstruct-float32", "float64", "Line 6")
@cuda.jit
def kernel_python_float(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct-float32", "float64", "Line 6")
@cuda.jit
def kernel_multiplies_by_a_literal(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += 1.0 * u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct-float32", "wrong-result", "fractions are lost")
@cuda.jit
def kernel_integer_sum(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = int32(total)


@wrong("reconstruct-columns", "limit", "6 sectors per request", "col, row = cuda.grid(2)")
@cuda.jit
def kernel_x_on_rows(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct-columns", "wrong-result", "transpose of the right one")
@cuda.jit
def kernel_swaps_the_store_only(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[col, row] = total


@wrong("reconstruct-columns", "out-of-bounds", "Compare row with")
@cuda.jit
def kernel_swaps_the_guard_too(u, s, vt, k, out):
    col, row = cuda.grid(2)
    if col < out.shape[0] and row < out.shape[1]:
        total = float32(0)
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@wrong("reconstruct", "out-of-bounds", "Compare row with")
@cuda.jit
def kernel_leaves_with_and(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row >= out.shape[0] and col >= out.shape[1]:
        return
    total = float32(0)
    for i in range(k):
        total += u[row, i] * s[i] * vt[i, col]
    out[row, col] = total


@wrong("reconstruct", "uninitialised-read", "total[0]", "starts at 0")
@cuda.jit
def kernel_with_local_sum(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = cuda.local.array(1, float32)
        for i in range(k):
            total[0] += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total[0]


@wrong("reconstruct", "typing", "'total' is used before it is set")
@cuda.jit
def kernel_never_sets_total(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        for i in range(k):
            total += u[row, i] * s[i] * vt[i, col]  # noqa: F821
        out[row, col] = total


@wrong("reconstruct", "wrong-result", "the first singular value is left out")
@cuda.jit
def kernel_sets_total_in_the_first_round(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        for i in range(k):
            if i == 1:
                total = float32(0)
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


# --- kernels: unusual, and right ----------------------------------------------------------------


@right("reconstruct")
@cuda.jit
def kernel_float64_on_purpose(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = float64(0)
        for i in range(k):
            total += float64(u[row, i]) * s[i] * vt[i, col]
        out[row, col] = total


@right("reconstruct", "reconstruct-float32")
@cuda.jit
def kernel_early_return(u, s, vt, k, out):
    row, col = cuda.grid(2)
    if row >= out.shape[0] or col >= out.shape[1]:
        return
    total = float32(0)
    for i in range(k):
        total += u[row, i] * s[i] * vt[i, col]
    out[row, col] = total


@right(*KERNELS)
@cuda.jit
def kernel_numpy_float32(u, s, vt, k, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        total = np.float32(0)
        for i in range(k):
            total = total + u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@right(*KERNELS)
@cuda.jit
def kernel_first_layer_first(u, s, vt, k, out):
    col, row = cuda.grid(2)
    if row < u.shape[0] and col < vt.shape[1]:
        total = u[row, 0] * s[0] * vt[0, col]
        for i in range(1, k):
            total += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total


@right("reconstruct", "reconstruct-float32")
@wrong("reconstruct-columns", "limit", "Each pixel is stored once")
@cuda.jit
def kernel_sum_in_out(u, s, vt, k, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = 0
        for i in range(k):
            out[row, col] += u[row, i] * s[i] * vt[i, col]


@right(*KERNELS)
@cuda.jit
def kernel_while_backwards(u, s, vt, k, out):
    col = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    if row < out.shape[0]:
        if col < out.shape[1]:
            total = float32(0)
            i = k - 1
            while i >= 0:
                total += u[row, i] * (s[i] * vt[i, col])
                i -= 1
            out[row, col] = total


@right(*KERNELS)
@cuda.jit
def kernel_grid_stride(u, s, vt, k, out):
    first_col, first_row = cuda.grid(2)
    step_col, step_row = cuda.gridsize(2)
    for row in range(first_row, out.shape[0], step_row):
        for col in range(first_col, out.shape[1], step_col):
            total = float32(0)
            for i in range(k):
                total += u[row, i] * s[i] * vt[i, col]
            out[row, col] = total


@cuda.jit(device=True)
def pixel(u, s, vt, k, row, col):
    """Sum of the first k layers at one pixel."""
    total = float32(0)
    for i in range(k):
        total += u[row, i] * s[i] * vt[i, col]
    return total


@right(*KERNELS)
@cuda.jit
def kernel_with_device_function(u, s, vt, k, out):
    col, row = cuda.grid(2)
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = pixel(u, s, vt, k, row, col)
