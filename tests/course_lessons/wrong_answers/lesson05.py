"""Wrong answers to the exercises of lesson 05 as students write them, and unusual right ones."""

import numpy as np
from numba import float32

from course import cuda
from tests.course_lessons.wrong_answers import answers_to

BLOCK = 64
RADIUS = 3
WINDOW = 2 * RADIUS + 1
WITH_HALO = BLOCK + 2 * RADIUS
SIDE = 32
FULL = 0xFFFFFFFF
ZERO = np.float32(0)
ONE_SEVENTH = np.float32(1 / WINDOW)


wrong, right = answers_to("reverse-blocks")
wrong("race", "thread (63, 0, 0) reads too", "Line 10", "into the buffer")({"= buffer": "= x"})
wrong("barrier-divergence", "100 elements", "let all threads wait")(
    {"]\n    cuda": "]\n        cuda", "()\n    if t < count:": "()"}
)
wrong("uninitialised-read", "100 elements", "count - 1 - t")({"[count": "[BLOCK"})
wrong("typing", "compile-time constant")({"array(BLOCK": "array(cuda.blockDim.x"})
wrong("wrong-result", "It holds x, unchanged")({"buffer[t": "buffer[count - 1 - t"})
wrong("race", "buffer[63]", "cuda.syncthreads()", "Line 8")(
    {"\n    cuda.syncthreads()\n    if t < count:": ""}
)
wrong("typing", "compile-time constant", "count is neither")(
    {"first)": "cuda.blockIdx.x * BLOCK)\n    buffer = cuda.shared.array(count, float32)"}
)
wrong("out-of-bounds", "192 elements", "min(BLOCK, x.size - first)")(
    {"first =": "count = x.size -", "\n    count = min(BLOCK, x.size - first)": ""}
)


right(
    {"= buffer[count - 1 - t]": "= buffer[t]", "buffer[t] = x[i]": "buffer[count - 1 - t] = x[i]"}
)


@right
@cuda.jit
def reverse_in_two_steps_with_syncwarp(x):
    """Each warp turns its own 32 places, then the two warps of a full block change places."""
    buffer = cuda.shared.array(BLOCK, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    count = min(BLOCK, x.size - cuda.blockIdx.x * BLOCK)
    if count < BLOCK:
        if t < count // 2:
            j = i - t + count - 1 - t
            x[i], x[j] = x[j], x[i]
        return
    buffer[t] = x[i]
    cuda.syncwarp()
    turned = buffer[t ^ 31]
    cuda.syncthreads()
    x[i - t + (t ^ 32)] = turned


wrong, right = answers_to("blur-halo")
wrong("wrong-result", "x[i - 3]")({"< x.size:": "< x.size - (element >= i - t + BLOCK):"})
wrong("race", "cuda.syncthreads()")(
    {
        "if 0 <= element < x.size:\n            ": "",
        "\n        else:\n            tile[place] = 0\n    cuda.syncthreads(": (
            " if 0 <= element < x.size else float32(0"
        ),
    }
)
wrong("out-of-bounds", "x ends at x.size - 1")({"element]": "element + place]"})
wrong("barrier-divergence", "1,003 elements")(
    {"cuda.syncthreads()\n    if i < out.size:": ("if i < out.size:\n        cuda.syncthreads()")}
)


@wrong("limit", "into the tile")
@cuda.jit
def blur_without_tile(out, x):
    i = cuda.grid(1)
    if i < out.size:
        total = float32(0)
        for element in range(max(0, i - RADIUS), min(x.size, i + RADIUS + 1)):
            total += x[element]
        out[i] = total / float32(WINDOW)


wrong("float64", "float32(7)")({"float32(WINDOW)": "7"})
wrong("input-modified", "x is an input", "write to out instead")({"out[i": "x[i"})
wrong("uninitialised-read", "1,003 elements", "tile[64]", "All 70 places")(
    {"BLOCK": "cuda.gridsize(1)"}
)
wrong("wrong-result", "Only the first block")({"i - t - RADIUS + place": "place - RADIUS"})


@right
@cuda.jit
def blur_halo_by_the_outer_threads(out, x):
    tile = cuda.shared.array(WITH_HALO, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    tile[t + RADIUS] = x[i] if i < x.size else ZERO
    if t < RADIUS:
        left, beyond = i - RADIUS, i + BLOCK
        tile[t] = x[left] if left >= 0 else ZERO
        tile[t + RADIUS + BLOCK] = x[beyond] if beyond < x.size else ZERO
    cuda.syncthreads()
    if i >= out.size:
        return
    total = float32(0)
    for offset in range(-RADIUS, RADIUS + 1):
        total += tile[t + RADIUS + offset]
    out[i] = total * ONE_SEVENTH


wrong, right = answers_to("tile-rounds")
FILLS = (
    "        u_tile[y, x] = u[row, start + x] * s[start + x]\n"
    "        vt_tile[y, x] = vt[start + y, col]\n"
)
WAIT = "        cuda.syncthreads()\n"
ADDS = "        for i in range(TILE):\n            total += u_tile[y, i] * vt_tile[i, x]\n"
ROUND = FILLS + WAIT + ADDS + WAIT
wrong("race", "From one round to the next, from `for i in range(TILE): ...`")(
    {ROUND: FILLS + WAIT + WAIT + ADDS}
)
wrong("race", "Between `u_tile[y, x] = u[row, start + x] * s[start + x]` and `for i")(
    {ROUND: FILLS + ADDS + WAIT + WAIT}
)
wrong("uninitialised-read", "needs what that stores")({ROUND: WAIT + ADDS + WAIT + FILLS})
wrong("statements", "given twice, and stands once")({ROUND: FILLS + WAIT + ADDS})
right({ROUND: WAIT + FILLS + WAIT + ADDS})


wrong, right = answers_to("reconstruct-tiled")
wrong("wrong-result", "drawn")({"range(0, k": "range(0, min(k, 256)"})
wrong("barrier-divergence", "Guard the loads and the last store")(
    {
        "        cuda.syncthreads()\n        for i": (
            "        if row < out.shape[0] and col < out.shape[1]:\n"
            "            cuda.syncthreads()\n        for i"
        )
    }
)
wrong("barrier-divergence", "32 x 16, k = 1")(
    {"vt_tile[y, x] = 0": "    cuda.syncthreads()", ", col]\n": ", col]\n    "}
)
wrong("wrong-result", "u_tile[y, i] * vt_tile[i, x]")(
    {"y, i] * vt_tile[i, x": "i, y] * vt_tile[x, i"}
)
wrong("wrong-result", "drawn")({"(0, k,": "(0, min(k, 128),"})
wrong("limit", "the inner loop reads nothing but the two tiles")(
    {" * s[start + x]": "", "range(TILE)": "range(min(TILE, k - start))"},
    {"u_tile[y, i] *": "u_tile[y, i] * s[start + i] *"},
)


wrong("bank-conflict", "8.0 wavefronts", "Let x be the last index")(
    {
        "x, y = cuda.threadIdx.x, cuda.threadIdx.y": "y, x = cuda.threadIdx.x, cuda.threadIdx.y",
        "col, row = cuda.grid(2)": (
            "col, row = cuda.blockIdx.x * TILE + x, cuda.blockIdx.y * TILE + y"
        ),
    }
)


@wrong("race")
@cuda.jit
def tiled_sum_in_one_shared_place(u, s, vt, k, out):
    total = cuda.shared.array(1, float32)
    col, row = cuda.grid(2)
    total[0] = 0
    cuda.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        for i in range(k):
            total[0] += u[row, i] * s[i] * vt[i, col]
        out[row, col] = total[0]


wrong("uninitialised-read", "u_tile[0, 16]", "Every place of both tiles")(
    {"TILE), float32)\n    vt_tile": "32), float32)\n    vt_tile"},
    {"TILE, TILE), float32)\n    x": "32, TILE), float32)\n    x", "(TILE)": "(32)"},
)
wrong("out-of-bounds", "u_tile[16, 0]", "indices are y, x and i")(
    {"0\n        if row": "row", ":\n            u_tile[y": "\n        u_tile[row"}
)
wrong("out-of-bounds", "u_tile[0, 16]", "all below 16")({"(TILE)": "(k)"})
wrong("limit", "Each pixel is stored once, after the last tile")(
    {"\n    if row < out.shape": "\n        if row < out.shape"},
    {"        out[row": "            out[row"},
)
wrong("race", "vt_tile[0, 0]", "Two barriers")(
    {"vt_tile[y, x] = 0\n        if start + y < k and": "cuda.syncthreads()\n        inside ="},
    {":\n            vt_tile": " and start + y < k\n        vt_tile"},
    {"col]\n        cuda.syncthreads()": "col] if inside else float32(0)"},
)
wrong("wrong-result", "drawn")({"range(0, k": "range(0, 64"})
right({" * s[start + x]": "", "vt[start + y, col]": "s[start + y] * vt[start + y, col]"})


wrong, right = answers_to("block-sums")
wrong("wrong-result", "drawn")({"= part[0]": "= part[0] % float32(65536)"})
wrong("barrier-divergence", "outside of the if")({"step]\n": "step]\n    "})
wrong("limit", "Let many threads add at once")(
    {
        (
            "step = cuda.blockDim.x // 2\n    while step > 0:\n        if t < step:\n"
            "            part[t] += part[t + step]\n        cuda.syncthreads()\n"
            "        step //= 2\n    if t == 0:"
        ): (
            "if t == 0:\n        total = float32(0)\n"
            "        for place in range(cuda.blockDim.x):\n"
            "            total += part[place]"
        ),
        "part[0]": "total",
    }
)
wrong("out-of-bounds|race", "size 32|part[")({"array(0": "array(32"})


@wrong("uninitialised-read", "total[0]", "starts at 0")
@cuda.jit
def sums_without_a_start(out, x):
    total = cuda.shared.array(1, float32)
    i, t = cuda.grid(1), cuda.threadIdx.x
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])
    cuda.syncthreads()
    if t == 0:
        out[cuda.blockIdx.x] = total[0]


wrong("barrier-divergence", "the mask 0xffff does not name its lane, 16")(
    {
        (
            "if i < x.size:\n        part[t] = x[i]\n    else:\n        part[t] = 0\n"
            "    cuda.syncthreads()"
        ): (
            "part = cuda.shared.array(32, float32)\n    value = x[i] if i < x.size else float32(0)"
        ),
        "if t < step:\n            part[t] += part[t + step]\n        cuda.syncthreads(": (
            "value += cuda.shfl_down_sync(65535, value, step"
        ),
    }
)
wrong("wrong-result", "drawn")({"cuda.blockDim.x // 2": "min(cuda.blockDim.x, x.size) // 2"})
wrong("race", "part[1]", "nobody writes what another one reads")(
    {"+= part[t + step": "= part[2 * t] + part[2 * t + 1"}
)
wrong("race", "out[0]", "thread 0 alone stores")({"if t == 0:\n        ": "", "part[0": "part[t"})


@right
@cuda.jit
def sums_by_shuffles(out, x):
    i, t = cuda.grid(1), cuda.threadIdx.x
    part = cuda.shared.array(32, float32)
    value = x[i] if i < x.size else ZERO
    step = min(cuda.blockDim.x, 32) // 2
    while step > 0:
        value += cuda.shfl_down_sync(FULL, value, step)
        step //= 2
    if t % 32 == 0:
        part[t // 32] = value
    cuda.syncthreads()
    if t == 0:
        total = float32(0)
        for warp in range((cuda.blockDim.x + 31) // 32):
            total += part[warp]
        out[cuda.blockIdx.x] = total


wrong("race", "total[0]", "cuda.syncthreads()", base=sums_without_a_start)(
    {"cuda.syncthreads()\n    ": ""},
    {"i < x": "t == 0:\n        total[0] = 0\n    cuda.syncthreads()\n    if i < x"},
)
wrong(
    "uninitialised-read",
    "block 16",
    "lane 16, which the block does not have",
    base=sums_by_shuffles,
)(
    {":\n    i": ":\n    part = cuda.shared.array(0, float32)\n    i"},
    {"else ZERO": "else float32(0)"},
    {"min(cuda.blockDim.x, 32) // 2": "16", "FULL,": "4294967295,"},
)
right(
    {
        "step > 0": "step >= 32",
        "== 0:": (
            "< 32:\n        while step > 0:\n            cuda.syncwarp()\n"
            "            if t < step:\n"
            "                part[t] = part[t] + part[t + step] if t < step else "
            "float32(0)\n            cuda.syncwarp()\n            step //= 2\n"
            "    if t == 0:"
        ),
    }
)
right(
    {"array(0": "array(1", "i < x.size": "t == 0"},
    {
        "t] = x[i]\n    else:\n        part[t": "0",
        "step = cuda.blockDim.x // 2\n    while step > 0": "if i < x.size",
        "if t < step:\n            part[t] += part[t + step]\n    ": (
            "cuda.atomic.add(part, 0, x[i])\n"
        ),
        "\n        step //= 2": "",
    },
)
wrong("same-value-race", "of several that have one value, one stores it")(
    {"if t == 0:\n        ": ""}
)


wrong, right = answers_to("bank-wavefronts")
wrong("wrong-result", "result is 4, right is 2")(
    "return math.ceil(32 / len(np.unique(words % 32)))"
)
wrong("wrong-shape|wrong-result", "one number|most different words")({".max()": ""})
right(
    "banks = {}\nfor word in words:\n    banks.setdefault(word % 32, set()).add(word)\n"
    "return max(len(kept) for kept in banks.values())"
)


wrong, right = answers_to("transpose-write")
wrong("limit", "stores need 32 sectors per request", "The loads will pay")(
    "column, row = cuda.grid(2)\nif row < image.shape[0] and column < image.shape[1]:\n"
    "    out[column, row] = image[row, column]"
)
wrong("out-of-bounds", "13 x 37", "the axis on which you use it")(
    {"row < out": "row < image", "column < out": "column < image"}
)
wrong("wrong-result", "transpose of the right one|It holds image, unchanged")(
    {"column, row]": "row, column]"}
)
wrong("wrong-result", "Line 4 decides")({"[column": "[image.shape[0] - 1 - column"})
wrong("input-modified", "image")(
    {"out[row": "image[column, row] = out[row", " = image[column, row]": ""}
)
wrong("unwritten-output", "Which shape do you guard with?")(
    "column, row = cuda.grid(2)\nside = min(out.shape[0], out.shape[1])\n"
    "if row < side and column < side:\n    out[row, column] = image[column, row]"
)
wrong("not-parallel", "each thread does the work of", "both indices from cuda.grid(2)")(
    "column, row = cuda.grid(2)\nif row < out.shape[0]:\n"
    "    for other in range(out.shape[1]):\n        out[row, other] = image[other, row]"
)
right({"row < out": "column < image", "column < out": "row < image", ", row]": "][row]"})


wrong, right = answers_to("tiled-transpose")
wrong("uncoalesced", "32.0 sectors", "What turns is the tile")(
    "column, row = cuda.grid(2)\nif row < image.shape[0] and column < image.shape[1]:\n"
    "    out[column, row] = image[row, column]"
)
wrong("uninitialised-read|unwritten-output", "33 x 70", "guard")(
    {")\n    if": ")\n    inside ="},
    {":\n        tile": "\n    if inside:\n        tile", "row < out": "inside and row < out"},
)
wrong("out-of-bounds", "33 x 70", "the store with out.shape")(
    {
        "cuda.syncthreads()": (
            "if row >= image.shape[0] or column >= image.shape[1]:\n        return\n"
            "    cuda.syncthreads()"
        ),
        "row < out.shape[0] and column < out.shape[1]": "True",
    }
)
wrong("unwritten-output", "33 x 70", "Threads that return in line", "let all threads go on")(
    {
        "if row < image.shape[0] and column < image.shape[1]:\n        tile": (
            "if row >= image.shape[0] or column >= image.shape[1]:\n        return\n    tile"
        )
    }
)
right({"column =": "column, row =", "\n    row =": ","})


wrong, right = answers_to("padded-transpose")
wrong("limit", "Is the tile float32?")({"PADDED), float32": "PADDED), np.float64"})
wrong("barrier-divergence", "in neither")({"column]\n    cuda": "column]\n        cuda"})
wrong("bank-conflict", "32.0 wavefronts", "One more column")({"PADDED": "SIDE"})
wrong("typing", "SIDE + 1", "Compute it outside")({"PADDED": "SIDE + 1"})
right({"SIDE,": "PADDED,"})


_, right = answers_to("tiled-transpose", "padded-transpose")
