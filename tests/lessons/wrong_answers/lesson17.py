"""Wrong answers to the exercises of lesson 17 as students write them, and unusual right ones."""

import numpy as np
from numba import float32

from course import cuda
from course.kernels.intrinsics import mma_f16_k8, split_halves
from tests.lessons.wrong_answers import answers_to

# --- split-in-halves -------------------------------------------------------------------------

wrong, right = answers_to("split-in-halves")
wrong("wrong-result", "no better than upper alone")({"lower,": "np.zeros_like(upper),"})
wrong("wrong-result", "near 2^13", "a millionth")(
    "upper = x.astype(np.float16)\n"
    "return upper, (x - upper.astype(np.float32)).astype(np.float16), 1.0"
)


def power_of(x):
    """A power of two that brings the largest number near 2**13."""
    return np.float32(2.0) ** np.float32(14 - np.frexp(np.abs(x).max())[1])


wrong("wrong-result", "no better than upper alone")(
    "lower = x * power_of(x)\nupper = lower.astype(np.float16)\n"
    "return upper, lower.astype(np.float16) - upper, power_of(x)"
)
wrong("wrong-result", "one power of two")(
    "power = 1e4 / np.abs(x).max()\nscaled = x * power\n"
    "upper = scaled.astype(np.float16)\n"
    "return upper, (scaled - upper).astype(np.float16), power"
)
wrong("wrong-result", "it must be float16")(
    {"\n    lower = (x * power - upper": "", ")).astype(np.float16)": ")"}
)
wrong("wrong-result", "a half ends at 65,504")({"(2.0)": "(2.0**18)"})
wrong("wrong-result", "power is turned round")(
    "_ = x * power_of(x)\nupper = _.astype(np.float16)\n"
    "return upper, (_ - upper.astype(np.float32)).astype(np.float16), 1 / power_of(x)"
)
wrong("wrong-result", "upper + lower is x itself")(
    "upper = x.astype(np.float16)\n"
    "return upper, (x - upper.astype(np.float32)).astype(np.float16), power_of(x)"
)
wrong("wrong-result", "three things")({"lower =": "return upper,"})
right(
    "power = 2.0 ** np.floor(15 - np.log2(np.abs(x).max()))\n"
    "wide = x.astype(np.float64) * power\nupper = wide.astype(np.float16)\n"
    "return upper, (wide - upper).astype(np.float16), power"
)


# --- one-product -----------------------------------------------------------------------------

wrong, right = answers_to("one-product")
wrong("out-of-bounds", "g goes from 0 to 7, q from 0 to 3")(
    {"g, q = lane // 4, lane % 4": "q, g = lane // 4, lane % 4"}
)
wrong("out-of-bounds", "b is b[k, column]")(
    {"pair(b[k, g], b[k + 1, g])": "pair(b[g, k], b[g, k + 1])"}
)
wrong("limit", "hands over its own numbers alone|not-parallel")(
    "lane = cuda.threadIdx.x\nfor n in range(lane, 128, 32):\n    total = float32(0)\n"
    "    for k in range(16):\n        total += a[n // 8, k] * b[k, n % 8]\n"
    "    out[n // 8, n % 8] = total"
)
wrong("unwritten-output", "two in row g + 8")(
    {"out[g + 8, 2 * q], out[g + 8, 2 * q + 1] = c[2], c[3]": "pass"}
)
wrong("typing", "a tuple of two pairs of a")({"(above, below), right": "above, below, right"})


@right
@cuda.jit
def product_of_numbers_far_apart(a, b, out):
    """Any order of k will do, if it is the same of a and of b."""
    g, q = divmod(cuda.laneid, 4)
    c = (float32(0), float32(0), float32(0), float32(0))
    for first in (q, q + 4):
        above, _ = split_halves(a[g, first], a[g, first + 8])
        below, _ = split_halves(a[g + 8, first], a[g + 8, first + 8])
        right, _ = split_halves(b[first, g], b[first + 8, g])
        c = mma_f16_k8(c, (above, below), right)
    for n in range(2):
        out[g, 2 * q + n] = c[n]
        out[g + 8, 2 * q + n] = c[2 + n]
