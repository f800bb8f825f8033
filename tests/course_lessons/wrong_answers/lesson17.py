"""Wrong answers to the exercises of lesson 17 as students write them, and unusual right ones."""

import numpy as np
from numba import float32

from course import cuda
from course_lessons.lesson17.hopper import tile_of
from course_lessons.lesson17.shares import pair, share_of_a, share_of_b, store_sums
from tests.course_lessons.wrong_answers import answers_to
from warpsim.ptx import mma_f16, mma_f16_k8, split_halves

wrong, right = answers_to("split-in-halves")
wrong("wrong-result", "no better than upper alone")({"lower,": "np.zeros_like(upper),"})
wrong("wrong-result", "near 2^13", "a millionth")(
    "upper = x.astype(np.float16)\n"
    "return upper, (x - upper.astype(np.float32)).astype(np.float16), 1.0"
)


def power_of(x):
    """A power of two that brings the largest number near 2**13."""
    return np.float32(2.0) ** np.float32(14 - np.frexp(np.abs(x).max())[1])


wrong("wrong-result", "one power of two")(
    "power = 1e4 / np.abs(x).max()\nscaled = x * power\n"
    "upper = scaled.astype(np.float16)\n"
    "return upper, (scaled - upper).astype(np.float16), power"
)
wrong("wrong-result", "it must be float16")(
    {"\n    lower = (x * power - upper": "", ")).astype(np.float16)": ")"}
)
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
wrong("wrong-result", "drawn")({"14 - exponent": "max(14 - exponent, -20)"})
wrong("wrong-result", "a half ends at 65,504", "-5,000 among")({"np.abs(x).max()": "x.max()"})


wrong, right = answers_to("one-product")
wrong("out-of-bounds", "g goes from 0 to 7, q from 0 to 3")(
    {"g, q = lane // 4, lane % 4": "q, g = lane // 4, lane % 4"}
)
wrong("limit", "no product on tensor cores; 1 is needed")(
    "lane = cuda.threadIdx.x\nfor n in range(lane, 128, 32):\n    total = float32(0)\n"
    "    for k in range(16):\n        total += a[n // 8, k] * b[k, n % 8]\n"
    "    out[n // 8, n % 8] = total"
)
wrong("unwritten-output", "two in row g + 8")(
    {"out[g + 8, k], out[g + 8, k + 1] = c[2], c[3]": "pass"}
)
wrong("typing", "a tuple of four pairs of a")({"(c, of_a, of_b)": "(c, of_b, of_a)"})
wrong("barrier-divergence", "in no branch")(
    {"c = mma_f16(c, of_a, of_b)": "if lane < 16:\n        c = mma_f16(c, of_a, of_b)"}
)


@right
@cuda.jit
def product_in_two_steps(a, b, out):
    """The older instruction, half of k at a time."""
    g, q = divmod(cuda.laneid, 4)
    c = (float32(0), float32(0), float32(0), float32(0))
    for first in (2 * q, 2 * q + 8):
        above = pair(a[g, first], a[g, first + 1])
        below = pair(a[g + 8, first], a[g + 8, first + 1])
        c = mma_f16_k8(c, (above, below), pair(b[first, g], b[first + 1, g]))
    for n in range(2):
        out[g, 2 * q + n] = c[n]
        out[g + 8, 2 * q + n] = c[2 + n]


@right
@cuda.jit
def product_of_four_neighbours(a, b, out):
    """Any order of k will do, if it is the same of a and of b: lane q takes 4 q to 4 q + 3."""
    lane = cuda.threadIdx.x
    g, q = lane >> 2, lane & 3
    k = 4 * q
    rows = (g, g + 8)
    first, _ = split_halves(a[rows[0], k], a[rows[0], k + 1])
    second, _ = split_halves(a[rows[1], k], a[rows[1], k + 1])
    third, _ = split_halves(a[rows[0], k + 2], a[rows[0], k + 3])
    fourth, _ = split_halves(a[rows[1], k + 2], a[rows[1], k + 3])
    of_b = pair(b[k, g], b[k + 1, g]), pair(b[k + 2, g], b[k + 3, g])
    zero = float32(0)
    store_sums(
        out, g, 2 * q, mma_f16((zero, zero, zero, zero), (first, second, third, fourth), of_b)
    )


wrong, right = answers_to("tile-of-products")
wrong("limit", "load it once, for both")({"(right, of_a,": "(right, share_of_a(a, row + g, k),"})
wrong("unwritten-output", "Store both halves of the tile")(
    {"store_sums(out, row + g, column + 8 + 2 * q, right)": ""}
)
wrong("out-of-bounds", "in steps of 16")(
    {"range(0, a.shape[1], 16)": "range(0, a.shape[1] + 16, 16)"}
)
wrong(
    "wrong-result|unwritten-output|out-of-bounds", "Store both halves|Rows begin at row + g|16 rows"
)({"16 * cuda.blockIdx.y, 16 * cuda.blockIdx.x": "cuda.blockIdx.y, cuda.blockIdx.x"})
wrong("typing", "share_of_b(b, k, column)")({"share_of_b(b, k, column + g)": "of_a"})


@right
@cuda.jit
def tile_counted_down(a, b, out):
    """From the last k to the first, sums in other names; the second half first."""
    lane = cuda.threadIdx.x
    g, q = lane // 4, lane % 4
    row, column = cuda.blockIdx.y * 16 + g, cuda.blockIdx.x * 16
    zero = float32(0)
    one = (zero, zero, zero, zero)
    two = one
    k = a.shape[1] - 16 + 2 * q
    while k >= 0:
        mine = share_of_a(a, row, k)
        two = mma_f16(two, mine, share_of_b(b, k, column + g + 8))
        one = mma_f16(one, mine, share_of_b(b, k, column + g))
        k -= 16
    for n in range(2):
        out[row, column + 2 * q + n], out[row + 8, column + 2 * q + n] = one[n], one[2 + n]
        out[row, column + 8 + 2 * q + n], out[row + 8, column + 8 + 2 * q + n] = two[n], two[2 + n]


wrong("limit", "no product on tensor cores; 10 are needed")(
    "row, column = 16 * cuda.blockIdx.y, 16 * cuda.blockIdx.x\n"
    "for n in range(cuda.threadIdx.x, 256, 32):\n    total = float32(0)\n"
    "    for k in range(a.shape[1]):\n"
    "        total += a[row + n // 16, k] * b[k, column + n % 16]\n"
    "    out[row + n // 16, column + n % 16] = total"
)


wrong, right = answers_to("split-product")
wrong("unwritten-output", "stores a lane's four sums")({"    store_sums(out, g, 2 * q, c)": ""})
wrong("typing", "upper_a and lower_a are of a")({"lower_a, upper_b)": "upper_b, lower_a)"})
for old, new in (
    ("c = mma_f16(c, upper_a, lower_b)", "c = mma_f16(c, lower_a, lower_b)"),
    ("c = mma_f16(c, lower_a, upper_b)", "c = mma_f16(c, lower_a, lower_b)"),
    ("mma_f16(c, upper_a, upper_b)", "mma_f16(zeros, upper_a, upper_b)"),
):
    wrong("wrong-result", "upper_a with upper_b")({old: new})
wrong("limit", "no product on tensor cores; 3 are needed")(
    "for n in range(cuda.threadIdx.x, 128, 32):\n    total = float32(0)\n"
    "    for k in range(16):\n        total += a[n // 8, k] * b[k, n % 8]\n"
    "    out[n // 8, n % 8] = total"
)
wrong("limit", "4 products on tensor cores; 3 are enough", "lower is too small")(
    {"    store_sums": "    c = mma_f16(c, lower_a, lower_b)\n    store_sums"}
)
right(
    "lane = cuda.threadIdx.x\ng, q = lane // 4, lane % 4\n"
    "high_a, low_a = split_share_of_a(a, g, 2 * q)\n"
    "high_b, low_b = split_share_of_b(b, 2 * q, g)\n"
    "zeros = (float32(0), float32(0), float32(0), float32(0))\n"
    "large, small = mma_f16(zeros, high_a, high_b), mma_f16(zeros, high_a, low_b)\n"
    "small = mma_f16(small, low_a, high_b)\n"
    "sums = (large[0] + small[0], large[1] + small[1], large[2] + small[2], large[3] + small[3])\n"
    "store_sums(out, g, 2 * q, sums)"
)

wrong, right = answers_to("swizzled-tile")
wrong("limit|bank-conflict", "word w of every row lies in bank w|^ (row % 8 * 4)")(
    {"lane ^ (row % 8 * 4)": "lane"}, {"word ^ (row % 8 * 4)": "word"}
)
wrong("limit|bank-conflict", "^ (row % 8 * 4)")(
    {"lane ^ (row % 8 * 4)": "lane ^ (row % 8)"}, {"word ^ (row % 8 * 4)": "word ^ (row % 8)"}
)
wrong("race", "cuda.syncwarp()")({"    cuda.syncwarp()\n": ""})
wrong("limit", "Bring whole rows to shared memory first")(
    {"tile[row, word ^ (row % 8 * 4)]": "a[row, word]"}
)
wrong("out-of-bounds", "word + that does not")(
    {"lane ^ (row % 8 * 4)": "lane + row % 8 * 4"}, {"word ^ (row % 8 * 4)": "word + row % 8 * 4"}
)
wrong("uninitialised-read", "Fill all 16 rows")({"range(16)": "range(8)"})
wrong("unwritten-output", "Four steps, four registers")(
    {"for step in range(4)": "for step in range(3)"}
)
right({"row % 8 * 4)] = a": "(row & 7) << 2)] = a"})
right({"cuda.syncwarp()": "cuda.syncthreads()"})


wrong, right = answers_to("tile-order")
wrong("wrong-shape|wrong-result", "two whole numbers|(row, column)")("return number")
wrong("borrowed", "uses `hopper.tile_of`, which is a solution of the course")(
    "return hopper.tile_of(number, down, across, band)"
)
wrong("borrowed", "Your answer is a solution of the course")(tile_of)
wrong("raised", "ZeroDivisionError")(
    {"high = min(band, down - whole * band)": "high = down % band"}
)
right(
    "tiles = []\nfor top in range(0, down, band):\n    for column in range(across):\n"
    "        for row in range(top, min(top + band, down)):\n"
    "            tiles.append((row, column))\nreturn tiles[number]"
)


wrong, right = answers_to("wgmma-descriptor")
wrong("wrong-result", "address is", "x 16 bytes in your bits 0 to 13")({"address >> 4": "address"})
wrong("wrong-result", "stride is 64 x 16 bytes|leading is 65 x 16")(
    {"stride >> 4 << 32": "stride >> 4 << 16"}
)
wrong("wrong-result", "swizzle is 0 in your bits 62 to 63")({" | swizzle << 62": ""})
wrong("wrong-result", "Return one whole number")("return float(address >> 4)")
right(
    "return hopper.descriptor(address, leading, stride, list(hopper.SWIZZLES)[0]) + (swizzle << 62)"
)

wrong, right = answers_to("one-wgmma")
FENCE, BARRIER = "    fence_async()\n", "    cuda.syncthreads()\n"
wrong("race", "fence_async()", "a path of their own")(
    {FENCE: "", "    c = wgmma_sums(c)\n": "    c = wgmma_sums(c)\n" + FENCE}
)
wrong("uninitialised-read|race", "comes after the barrier|a path of their own")(
    {BARRIER: "", "    c = wgmma_sums(c)\n": "    c = wgmma_sums(c)\n" + BARRIER}
)
wrong("race", "sums may be read after wgmma_sums")(
    {"    c = wgmma_sums(c)\n": "", FENCE: "    c = wgmma_sums(c)\n" + FENCE}
)
wrong("statements", "stands nowhere in your order")({FENCE: ""})
right({BARRIER: "", FENCE: BARRIER + FENCE})

wrong, right = answers_to("one-box")
SEEN = "    fence_mbarriers()\n"
MEET = "    cuda.syncthreads()\n"
LOAD = "    if t == 0:\n        tma_load(tile, 0, box, (0, 0), arrived, 0)\n"
WAIT = "    mbarrier_wait(arrived, 0, 0)\n"
wrong("deadlock", "bytes were announced")({"2 * out.size": "8192"})
wrong("race", "before TMA uses it")({SEEN: "", WAIT: SEEN + WAIT})
wrong("race", "a barrier between")({MEET: "", WAIT: WAIT + MEET})
wrong("deadlock", "waits for ever", "Initialise first, wait last")({LOAD + WAIT: WAIT + LOAD})
wrong("statements", "stands nowhere in your order")({SEEN: ""})
right({"2 * out.size": "out.nbytes"})

wrong, right = answers_to("ring-place")
wrong("wrong-result", "Line 3 decides")({"1 - parity": "parity"})
wrong("wrong-result", "take the round % 2|round is step // n")(
    {"step // stages % 2": "step // stages"}
)
wrong("wrong-shape", "stage, parity of full, parity of empty")({", 1 - parity": ""})
right("round, stage = divmod(step, stages)\nreturn stage, round & 1, round & 1 ^ 1")

wrong, right = answers_to("by-roles")
FULL, EMPTY = "mbarrier_wait(full, stage, parity)", "mbarrier_wait(empty, stage, parity ^ 1)"
ARRIVE = "mbarrier_arrive(empty, stage)"
wrong("race", "all four warps have arrived at its empty")({FULL: "pass"})
wrong("deadlock", "Each wait needs its arrivals")({ARRIVE: "pass"})
right({ARRIVE: "cuda.syncwarp()\n" + " " * 16 + ARRIVE})
