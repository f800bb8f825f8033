"""Wrong answers to the exercises of lesson 10 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32

from course import cuda
from course.kernels.reduce import KINDS, pieces
from tests.course_lessons.wrong_answers import answers_to

ALL = 0xFFFFFFFF
LOWEST = np.finfo(np.float32).min
warp_sum, block_sum = pieces(KINDS["sum"], 8)


wrong, right = answers_to("warp-row-sum")
wrong("unwritten-output", "drawn")({"< x.shape[0]": "< min(x.shape[0], 256)"})
wrong("race", "writes out")({"shfl_xor_sync": "shfl_down_sync", "if lane == 0:\n            ": ""})
wrong("uncoalesced", "Lane l takes the columns l, l + 32")(
    {"total =": "total, part =", ")\n        for": "), (x.shape[1] + 31) // 32\n        for"},
    {", x.shape[1], 32": " * part, min((lane + 1) * part, x.shape[1])"},
)
wrong("limit", "shuffles do without shared memory")(
    {
        "out):": "out):\n    sums = cuda.shared.array(128, float32)",
        "column]": "column]\n    sums[t] = total\n    half = 16\n    while half > 0:",
        (
            "for step in range(5):\n            total += cuda.shfl_xor_sync(ALL, total, 16 >> step"
        ): "cuda.syncthreads(",
        "== 0:\n            out[row] = total": (
            "< half:\n            sums[t] += sums[t + half]\n        half //= 2\n"
            "    if lane == 0 and row < x.shape[0]:\n        out[row] = sums[t]"
        ),
    }
)
wrong("wrong-result", "Every element is 2 times")({"range(5": "range(6"})
wrong("barrier-divergence", "the mask 0xffff does not name")({"(ALL,": "(65535,"})
wrong("unwritten-output", "Each row has a warp")({"lane ==": "t =="})
wrong("limit", "The lanes meet by shuffles")(
    {
        "total =": (
            "if lane == 0:\n            out[row] = 0\n        cuda.syncwarp()\n        total ="
        ),
        (
            "for step in range(5):\n"
            "            total += cuda.shfl_xor_sync(ALL, total, 16 >> step)\n"
            "        if lane == 0:\n            out[row] = total"
        ): "cuda.atomic.add(out, row, total)",
    }
)
wrong("limit", "all 32 at the same time")(
    {"if row < x.shape[0]:": "if row < x.shape[0] and lane == 0:"},
    {"lane, x.shape[1], 32": "x.shape[1]", "range(5)": "range(0)"},
)
wrong("limit", "Load each number once")(
    {"lane, x.shape[1], 32": "x.shape[1]", "range(5)": "range(0)"}
)
wrong("float64", "float32(0)")({"float32(0)": "0"})
wrong("uninitialised-read", "lane 16, which has returned", "no `return`")(
    {"if row <": "if lane >= x.shape[1]:\n        return\n    if row <"}
)
wrong("race", "One lane of each warp stores, at out[row]")({"[row]": "[lane]"})
wrong("barrier-divergence", "a warp needs no cuda.syncthreads()")(
    {"step)": "step)\n            cuda.syncthreads()"}
)
wrong("wrong-result", "drawn")({"x.shape[1]": "min(x.shape[1], 1024)"})
right({"shfl_xor_sync": "shfl_up_sync", "== 0:": "== 31:"})
right({"(ALL,": "(-1,"})


wrong, right = answers_to("sum-several")
wrong("wrong-result", "drawn")({"x.size": "min(x.size, 65536)"})
wrong("limit", "One thread of each block")(
    "for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):\n    cuda.atomic.add(out, 0, x[i])"
)
wrong("limit", "One lane of each warp stores")(
    {
        "array(8": "array(256",
        "total = warp_sum(total)\n    if lane == 0:\n        sums[warp": "sums[t",
        "total\n": "total\n    half = 128\n    while half > 0:\n    ",
        "total = warp_sum(sums[lane] if lane < 8 else float32(0))": (
            "    if t < half:\n            sums[t] += sums[t + half]\n        half //= 2"
        ),
        ", total": ", sums[0]",
    }
)
wrong("out-of-bounds", "sums has eight places")({" if lane < 8 else float32(0)": ""})
wrong("uninitialised-read", "which has returned", "Line 10: total = warp_sum(total)")(
    {"t % 32": "t % 32\n    if cuda.grid(1) >= x.size:\n        return"}
)
wrong("limit", "All threads of the block load")(
    {
        "range(cuda.grid(1), x.size, cuda.gridsize(1))": (
            "range(cuda.blockIdx.x if t == 0 else x.size, x.size, cuda.gridDim.x)"
        )
    }
)
wrong("uncoalesced", "neighbouring threads read neighbouring elements")(
    {
        "total = float32(0)\n": "total, part = float32(0), -(-x.size // cuda.gridsize(1))\n",
        "range(cuda.grid(1), x.size, cuda.gridsize(1))": (
            "range(cuda.grid(1) * part, min((cuda.grid(1) + 1) * part, x.size))"
        ),
    }
)
wrong("float64", "float32(0)")({"float32(0))": "0.0)"})
wrong("limit", "All warps of all blocks share the elements")(
    {"for i": "if t < 32:\n        for i"},
    {"grid(1)": "blockIdx.x * 32 + t", "gridsize(1)):\n": "gridDim.x * 32):\n    "},
)
wrong("race", "`out[0] = 0` in line", "out is given as it should begin")(
    {"t % 32": "t % 32\n    if t == 0:\n        out[0] = 0"}
)
wrong("barrier-divergence", "and of the loop over the elements")(
    {"x[i]\n    total = warp_sum(total": "warp_sum(x[i]"}
)
sum_of_several_1448 = right(
    {", total": ", sums[0]", ")\n    total = warp_sum(sums[lane] if lane < 8 else float32(0)": ""},
    {"sums[warp] = total": "cuda.atomic.add(sums, 0, total)", "lane ==": "t % 32 =="},
    {"warp, lane = t // 32, t % 32": "if t == 0:\n        sums[0] = 0\n    cuda.syncthreads()"},
    {"array(8": "array(1"},
)
wrong("limit", "the lanes of a warp meet first", base=sum_of_several_1448)(
    {"array(1": "array(8", "total = warp_sum(total)\n    if t % 32 == 0:\n        ": ""}
)


@wrong("borrowed", "uses `block_sum`, which is a solution of the course")
@cuda.jit
def sum_by_the_package(x, out):
    total = float32(0)
    i = cuda.grid(1)
    while i < x.size:
        total += x[i]
        i += cuda.gridDim.x * 256
    total = block_sum(total)
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, 0, total)


right({"t == 0": "t == 0 or (lane == 0 and False)"})


@cuda.jit(device=True)
def sum_of_a_block(value):
    sums, t = cuda.shared.array(8, float32), cuda.threadIdx.x
    value = warp_sum(value)
    if t % 32 == 0:
        sums[t // 32] = value
    cuda.syncthreads()
    return warp_sum(sums[t % 32] if t % 32 < 8 else float32(0))


@right
@cuda.jit
def sum_of_a_part_for_each_block(x, out):
    t = cuda.threadIdx.x
    part = -(-x.size // cuda.gridDim.x)
    first = cuda.blockIdx.x * part
    total = float32(0)
    for i in range(first + t, min(first + part, x.size), cuda.blockDim.x):
        total += x[i]
    total = sum_of_a_block(total)
    if t == 0:
        cuda.atomic.add(out, 0, total)


wrong, right = answers_to("merge-softmax")
right(
    "if total == 0:\n    return other_largest, other_total\n"
    "if other_total == 0:\n    return largest, total\n"
    "a, b = largest + math.log(total), other_largest + math.log(other_total)\n"
    "both = max(largest, other_largest)\n"
    "whole = max(a, b) + math.log(math.exp(a - max(a, b)) + math.exp(b - max(a, b)))\n"
    "return both, math.exp(whole - both)"
)
wrong("wrong-shape", "must be 2 values")(
    {"factor, other_factor =": "return total *", ", math": " + other_total * math"}
)
wrong("raised", "never above 0")(
    "both = max(largest, other_largest)\n"
    "factor = total * math.exp(largest) + other_total * math.exp(other_largest)\n"
    "return both, factor / math.exp(both)"
)
right(
    "both = np.maximum(largest, other_largest)\n"
    "return [both, total * np.exp(largest - both) + other_total * "
    "np.exp(other_largest - both)]"
)


wrong, right = answers_to("softmax-online")
wrong("wrong-result", "begins with LOWEST", "exp(old largest - new largest)")(
    {"value)\n            total = total *": "value)\n            total *="}
)
wrong("not-parallel", "of 256 threads do the work", "its 32 lanes share the columns")(
    {"if row < x.shape[0]:": "if row < x.shape[0] and lane == 0:", "range(5)": "range(0)"},
    {"range(lane, x.shape[1], 32):\n            value": "range(x.shape[1]):\n            value"},
    {"range(lane, x.shape[1], 32):\n            out": "range(x.shape[1]):\n            out"},
)
wrong("barrier-divergence", "All 32 lanes make every shuffle")(
    {"largest, total": "if row < x.shape[0] and lane < x.shape[1]:\n        largest, total"},
    {"\n    if row < x.shape[0]:": ""},
)


@wrong("limit", "Maximum and sum in the same loop")
@cuda.jit
def softmax_in_three_readings(x, out):
    t = cuda.threadIdx.x
    row, lane = cuda.blockIdx.x * 4 + t // 32, t % 32
    if row < x.shape[0]:
        largest, total = LOWEST, float32(0)
        for column in range(lane, x.shape[1], 32):
            largest = max(largest, x[row, column])
        for step in range(5):
            largest = max(largest, cuda.shfl_xor_sync(ALL, largest, 16 >> step))
        for column in range(lane, x.shape[1], 32):
            total += math.exp(x[row, column] - largest)
        total = warp_sum(total)
        for column in range(lane, x.shape[1], 32):
            out[row, column] = math.exp(x[row, column] - largest) / total


wrong("wrong-result", "Line 9 decides")({"value - new": "value - largest"})
wrong("unwritten-output", "writes all of its columns")(
    {"other - new)": "other - new)\n        if lane == 0:"},
    {"largest = new\n        for column": "for column"},
    {":\n            out": ":\n                out"},
)
right(
    {
        "largest) / total": "total)",
        "new\n        for column": (
            "new\n        total = largest + math.log(total)\n        for column"
        ),
        (
            "new = max(largest, other)\n"
            "            total = total * math.exp(largest - new) + other_total * "
            "math.exp(other - new)\n            "
        ): "",
        "other_total =": "total *= math.exp(largest - new)\n            total +=",
        "largest, 16 >> step)": "largest, 16 >> step))",
    },
    {"other =": "new = max(largest,", "\n    if row < x.shape[0]:": ""},
    {"largest, total": "if row < x.shape[0]:\n        largest, total"},
)
right(
    {"largest)": "new)", ":\n            out": ":\n        out"},
    {
        " + other_total * math.exp(other - new)\n            largest = new\n    ": ")\n",
        (
            "largest, 16 >> step)\n"
            "            other_total = cuda.shfl_xor_sync(ALL, total, 16 >> step)\n"
            "            new = max(largest, other)\n            total = total"
        ): ("new, 1 << step))\n    total = warp_sum(total"),
        "    other =": "new = max(new,",
        "value - new)\n            largest = new\n    ": "value - largest)\n    new = largest\n",
        "new) + math": (
            "value) + float32(1)\n            largest = value\n        else:\n"
            "            total += math"
        ),
        "    new = max(largest, value)": "if value > largest:",
    },
    {"    value": "value", "if row < x.shape[0]:\n        ": ""},
    {"largest, total": "if row >= x.shape[0]:\n        return\n    largest, total"},
)
right({"math.exp(value - new)": "own", "value)": "value)\n            own = math.exp(value - new)"})
right(
    {
        "shfl_xor_sync(ALL, largest": "shfl_down_sync(ALL, largest",
        "shfl_xor_sync(ALL, total": "shfl_down_sync(ALL, total",
        "new\n        for column": (
            "new\n        largest = cuda.shfl_sync(ALL, largest, 0)\n"
            "        inverse = float32(1) / cuda.shfl_sync(ALL, total, 0)\n"
            "        for column"
        ),
        "/ total": "* inverse",
    }
)
