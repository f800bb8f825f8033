"""Wrong answers to the exercises of lesson 13 as students write them, and unusual right ones."""

import math

from numba import float32

from course import cuda
from course.kernels.activation import gelu
from course.kernels.reduce import KINDS, pieces
from tests.course_lessons.wrong_answers import answers_to

ALL = 0xFFFFFFFF
PARTS = 8
warp_sum, block_sum = pieces(KINDS["sum"], 8)


wrong, right = answers_to("merge-moments")
wrong("raised", "Both parts may be empty")({"max(both, 1)": "both"})
wrong("wrong-result", "right is 0")(
    {" = count": ", difference = max(count", "\n    difference =": ", 1),"}
)


right(
    {"difference =": "difference, share =", "\n    share =": ","},
    {
        "grown =": 'grown = mean + difference * share\n    total = {"right":',
        "\n    return both, mean": ', "one": squares + other_squares',
        "share, grown": (
            '(other_mean - grown), "share": squares + other_squares + difference**2 '
            '* share, "first": squares + difference**2 * count * share, "other": '
            'other_squares + difference**2 * count * share, "weighted": (squares * '
            "count + other_squares * other_count) / max(both, 1) + difference**2 * "
            'count * share}["right"]\n    results = both, grown, total\n'
            "    return tuple((results[n] for n in (0, 1, 2)))"
        ),
    },
)


wrong, right = answers_to("count-transfers")
wrong("wrong-result", "right is 6")("return 5, 2")
right(
    "read, made = [], []\nfor inputs, output in steps:\n    read = read + inputs\n"
    "    made.append(output)\napart = sum(len(set(inputs)) for inputs, _ in steps) + len(steps)\n"
    "return apart, len({name for name in read if name not in made}) + 1"
)


wrong, right = answers_to("layer-norm-gelu")
wrong("wrong-result", "digits cancel. Sum (value - mean)² instead")(
    {"squares += (values[n] - mean) * (values[n] - mean)": "squares += values[n] * values[n]"},
    {"columns + eps": "columns - mean * mean + eps"},
)
wrong("limit", "x is read once")(
    {
        "(values[n] - mean) * (values[n] - mean)": (
            "(x[row, lane + 32 * n] - mean) * (values[n] - mean)"
        ),
        "y = (values[n] - mean)": "y = (x[row, column] - mean)",
    }
)
wrong("float64", "1.0 and 1e-5 are float64")({"float32(1)": "1.0"})
wrong("out-of-bounds", "lanes without a column")(
    {":\n                y": " or True:\n                y"}
)
wrong("wrong-result", "with tanh it is another function")(
    {
        "out[row, column] = gelu(y * gamma[column] + beta[column])": (
            "y = y * gamma[column] + beta[column]\n"
            "                inner = float32(0.7978846) * (y + float32(0.044715) * y "
            "* y * y)\n"
            "                out[row, column] = float32(0.5) * y * (float32(1) + "
            "math.tanh(inner))"
        )
    }
)


@wrong("not-parallel", "4 of 128 threads do the work", "its 32 lanes share the columns")
@cuda.jit
def fused_by_lane_0(x, gamma, beta, eps, out):
    values = cuda.local.array(256, float32)
    t = cuda.threadIdx.x
    row, columns = cuda.blockIdx.x * 4 + t // 32, float32(x.shape[1])
    if row < x.shape[0] and t % 32 == 0:
        total, squares = float32(0), float32(0)
        for column in range(x.shape[1]):
            values[column] = x[row, column]
            total += values[column]
        mean = total / columns
        for column in range(x.shape[1]):
            squares += (values[column] - mean) ** 2
        scale = float32(1) / math.sqrt(squares / columns + eps)
        for column in range(x.shape[1]):
            y = (values[column] - mean) * scale
            out[row, column] = gelu(y * gamma[column] + beta[column])


wrong("uninitialised-read", "beyond the row's end")(
    {
        "0)\n        for n in range(PARTS):\n            column =": (
            "0)\n        for n in range(PARTS):\n            if"
        ),
        "\n            values": " < x.shape[1]:\n                values",
        "column] if column < x.shape[1] else float32(0)": "lane + 32 * n]",
    }
)
wrong("uninitialised-read", "which has returned", "Line 14: mean = warp_sum(total)")(
    {"if row": "if lane >= x.shape[1]:\n        return\n    if row"}
)
right({"columns +": "max(columns, float32(1)) +"})


@right
@cuda.jit
def fused_by_merging_moments(x, gamma, beta, eps, out):
    values = cuda.local.array(PARTS, float32)
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row >= x.shape[0]:
        return
    count, mean, squares = float32(0), float32(0), float32(0)
    for n in range(PARTS):
        if lane + 32 * n < x.shape[1]:
            values[n] = x[row, lane + 32 * n]
            count += float32(1)
            difference = values[n] - mean
            mean += difference / count
            squares += difference * (values[n] - mean)
    for step in range(5):
        other_count = cuda.shfl_xor_sync(ALL, count, 16 >> step)
        other_mean = cuda.shfl_xor_sync(ALL, mean, 16 >> step)
        other_squares = cuda.shfl_xor_sync(ALL, squares, 16 >> step)
        difference, both = other_mean - mean, max(count + other_count, float32(1))
        squares += other_squares + difference * difference * count * other_count / both
        mean += difference * other_count / both
        count += other_count
    for n in range(PARTS):
        column = lane + 32 * n
        if column < x.shape[1]:
            y = (values[n] - mean) / math.sqrt(squares / count + eps)
            out[row, column] = gelu(y * gamma[column] + beta[column])
