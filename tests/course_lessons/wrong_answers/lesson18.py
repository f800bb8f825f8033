"""Wrong answers to the exercises of lesson 18 as students write them, and unusual right ones."""

import math

import numpy as np
from numba import float32, int32

from course import cuda
from course_lessons.lesson18.parts import dot_in_tiles, row_sum
from course_models.vit.buffers import lifetimes
from tests.course_lessons.wrong_answers import answers_to

wrong, right = answers_to("attend-online")
wrong("wrong-result", "an exponential overflows", "scores near 1,000")(
    "total, sums = 0.0, np.zeros(size)\nfor scores, values in tiles:\n"
    "    weights = np.exp(scores)\n    total += weights.sum()\n    sums += weights @ values\n"
    "return sums / total"
)
wrong("wrong-result", "or the first tile's largest instead", "that rise by 1,000")(
    {"max(largest, scores.max())": "scores.max() if largest < -2e38 else largest"}
)
wrong("limit", "they were copied, to be read again", "64 tiles of 64 keys")(
    "kept = [(scores.copy(), values.copy()) for scores, values in tiles]\n"
    "scores = np.concatenate([s for s, _ in kept])\n"
    "values = np.concatenate([v for _, v in kept])\nweights = np.exp(scores - scores.max())\n"
    "return weights @ values / weights.sum()"
)
wrong("wrong-result", "where total is 0, since largest began above", "scores near -1,000")(
    {"-3e38, 0.0": "0.0, 0.0"}
)
wrong("wrong-result", "began above the scores", "drawn")({"-3e38, 0.0": "-1e9, 0.0"})
wrong("raised", "weights @ values is (size,)")({"weights @ values": "values @ weights"})
right({"-3e38, 0.0": "-np.inf, 0.0"})


@right
def attend_key_by_key(tiles, size):
    largest, total, sums = -1e300, 0.0, [0.0] * size
    for scores, values in tiles:
        for score, row in zip(scores, values, strict=True):
            if score > largest:
                factor = math.exp(max(largest - score, -700.0))
                total, sums = total * factor, [its * factor for its in sums]
                largest = score
            weight = math.exp(score - largest)
            total += weight
            sums = [its + weight * one for its, one in zip(sums, row, strict=True)]
    return np.array(sums) / total


wrong, right = answers_to("attention-in-tiles")
BARRIER = "        cuda.syncthreads()\n"
wrong("wrong-result", "exp(score) overflows", "whose scores go to 200")(
    {"new = max(largest, score)": "new = float32(0)", "math.exp(largest - new)": "float32(1)"}
)
wrong("wrong-result", "drawn")({"LOWEST, ": "float32(-1e4), "})
wrong("race", "one between filling and reading")({f"{BARRIER}        for n": "        for n"})
wrong("out-of-bounds", "store only if query < tokens")({"if query < tokens": "if query >= 0"})
wrong("limit", "Keys and values come by way of the tiles")(
    {"keys[n, e]": "float32(k[image, first + n, head, e])"}
)
wrong("wrong-result", "mine[e] * keys[n, e]")({"mine[e] * keys[n, e]": "mine[e] * values[n, e]"})
wrong("unwritten-output", "Each thread with a query stores SIZE numbers")(
    {"range(SIZE):\n            out": "range(SIZE - 1):\n            out"}
)
wrong("uninitialised-read", "for keys and for values")(
    {"        fill_tile(values, v, image, head, first)\n": ""}
)
wrong("typing", "out[image, query, head * SIZE + e]")({"head * SIZE + e": "head, e"})
right({"min(KEYS, tokens - first)": "KEYS", "            score = float32(0)": (
    "            if first + n >= tokens:\n                break\n            score = float32(0)"
)})  # fmt: skip


wrong, right = answers_to("patch-rows")
wrong("wrong-result", "one too far to the right|that is what you get|Row r is patch")(
    {"rows[row, column]": "rows[row, (column + 1) % rows.shape[1]]"}
)
wrong("wrong-result|unwritten-output|out-of-bounds|uncoalesced", "patch|rows")(
    {"column, row = cuda.grid(2)": "row, column = cuda.grid(2)"}
)
wrong("typing", "An index is a whole number")({"place // across": "place / across"})
wrong("unwritten-output", "writes rows[row, column]")(
    {"if row < rows": "if row > 0 and row < rows"}
)
wrong("out-of-bounds", "height // patch lines of patches and width // patch in a line")(
    {"images.shape[2] // patch * across": "across * across"}
)


@right
@cuda.jit
def rows_of_columns(images, patch, rows):
    """From the pixel's side: divmod, names of axes."""
    c, r = cuda.grid(2)
    if r >= rows.shape[0] or c >= rows.shape[1]:
        return
    _, _, height, width = images.shape
    n, p = divmod(r, (height // patch) * (width // patch))
    down, right_ = divmod(p, width // patch)
    line, place = divmod(c, patch)
    channel, y = divmod(line, patch)
    rows[r, c] = images[n, channel, down * patch + y, right_ * patch + place]


wrong, right = answers_to("norm-of-halves")
wrong("wrong-result", "squares of halves end at 65,504|digits cancel|E[x²]")(
    {
        "off = float32(x[row, c]) - mean": "off = x[row, c] * x[row, c]",
        "squares += off * off": "squares += float32(off)",
        "row_sum(squares) / float32(x.shape[1])": "row_sum(squares) / float32(x.shape[1]) "
        "- mean * mean",
    }
)
wrong("wrong-result", "whose digits cancel")(
    {
        "off = float32(x[row, c]) - mean": "off = float32(x[row, c])",
        "row_sum(squares) / float32(x.shape[1])": "abs(row_sum(squares) / float32(x.shape[1]) "
        "- mean * mean)",
    }
)
wrong("wrong-result", "drawn")(
    {"math.sqrt(variance": "math.sqrt((variance if variance > float32(1e-7) else float32(1))"}
)
wrong("float64", "write float32(1e-6)")({"float32(1e-6)": "1e-6"})
wrong("out-of-bounds", "if row < x.shape[0]")({"if row < x.shape[0]": "if row >= 0"})
wrong("unwritten-output", "four rows are in a block")(
    {"blockIdx.x * 4 + t // 32": "blockIdx.x + t // 32"}
)
wrong("barrier-divergence", "A barrier of the block is not needed")(
    {"        mean = row_sum": "        cuda.syncthreads()\n        mean = row_sum"}
)


@right
@cuda.jit
def norm_with_a_pair(x, gamma, beta, out):
    """Differences from the first number: sums in one pass that lose nothing."""
    lane = cuda.laneid
    row = cuda.grid(1) // 32
    columns = int32(x.shape[1])
    if row < x.shape[0]:
        near = float32(x[row, 0])
        one, two = float32(0), float32(0)
        for c in range(lane, columns, 32):
            d = float32(x[row, c]) - near
            one, two = one + d, two + d * d
        mean = row_sum(one) / float32(columns)
        variance = max(row_sum(two) / float32(columns) - mean * mean, float32(0))
        deviation = math.sqrt(variance + float32(1e-6))
        for c in range(lane, columns, 32):
            z = (float32(x[row, c]) - near - mean) / deviation
            out[row, c] = float32(gamma[c]) * z + float32(beta[c])


wrong, right = answers_to("bias-gelu")
wrong("out-of-bounds", "At the edges blocks stick out")(
    {"if row < out.shape[0] and column < out.shape[1]": "if column < out.shape[1]"}
)
wrong("wrong-result|limit", "narrower type|until then it is in a register|need not read back")(
    {
        "z = total + float32(bias[column])": "out[row, column] = total + float32(bias[column])\n"
        "        z = float32(out[row, column])"
    }
)
wrong("uninitialised-read", "all threads call it, before any guard")(
    {"    total =": "    if row >= len(out) or column >= bias.size:\n        return\n    total ="}
)
wrong("wrong-result", "where an exponential overflows", "far from 0")(
    {
        "math.tanh(inner)": "(math.exp(float32(2) * inner) - float32(1)) / "
        "(math.exp(float32(2) * inner) + float32(1))"
    }
)
wrong("float64", "what is divided by a whole number")({"float32(0.5) * z": "z / 2"})
wrong("barrier-divergence", "It needs no other barrier")(
    {"        inner =": "        cuda.syncthreads()\n        inner ="}
)
right(
    {
        "float32(0.5) * z * (float32(1) + math.tanh(inner))": "z / (float32(1) + "
        "math.exp(-float32(2) * inner))"
    }
)


@right
@cuda.jit
def linear_gelu_by_erf(x, weight, bias, out):
    """The exact one: as near to the tanh as a half can tell."""
    column, row = cuda.grid(2)
    z = dot_in_tiles(x, weight)
    if column < bias.size and row < x.shape[0]:
        z += float32(bias[column])
        below = float32(0.5) * (float32(1) + math.erf(z * float32(0.70710678)))
        out[row, column] = z * below


wrong, right = answers_to("buffers-by-lifetimes")
wrong("wrong-result", "both included")({"first <= lives[other][1]": "first < lives[other][1]"})
wrong("wrong-result", "nothing is shared either")(
    "places, place = {}, 0\nfor name in sizes:\n    places[name] = place\n"
    "    place += sizes[name]\nreturn places"
)
wrong("wrong-result", "A gap between two others counts")(
    {"            if place + sizes[name] > begin:\n                place": "            if True:\n"
     "                place"}
)  # fmt: skip
wrong("wrong-result", "Nothing overlaps, but it takes 306 bytes")(
    {"places[name] = place": "places[name] = -(-place // 256) * 256"}
)
wrong("wrong-result", "has no place")({"return places": "places.pop(name)\n    return places"})
wrong("wrong-result", "Return a dictionary")({"return places": "return list(places.values())"})
wrong("wrong-result", "whole number")({"place = 0": "place = 0.5"})
wrong("wrong-result", "share bytes", "one in the way ends behind the next one")(
    {"place = max(place, end)": "place = end"}
)
wrong("wrong-result", "the largest buffer first", "one in the way ends behind the next one")(
    {"-sizes[name]": "lives[name][0] - lives[name][1]"}
)


@right
def by_trying_bytes(steps, sizes):
    lives = lifetimes(steps)
    order = sorted(lives, key=lambda name: (-sizes[name], lives[name]))
    places = {}
    for name in order:
        ends = [0, *sorted(places[other] + sizes[other] for other in places)]
        for place in ends:
            if all(
                place + sizes[name] <= places[other]
                or places[other] + sizes[other] <= place
                or lives[other][1] < lives[name][0]
                or lives[name][1] < lives[other][0]
                for other in places
            ):
                places[name] = place
                break
    return places


wrong, right = answers_to("product-by-rows")
CALL = "gemm(columns, rows, depth, b, columns, a, depth, out, columns)"
wrong("raised", "The leading dimension is the length of a row")(
    {CALL: "gemm(rows, columns, depth, a, depth, b, columns, out, columns)"}
)
wrong("wrong-result", "No copy is needed")(
    {CALL: "gemm(rows, columns, depth, a.T.copy(), rows, b.T.copy(), depth, out, rows)"}
)
wrong("raised", "cannot be nearer than that|would end at number")(
    {CALL: "gemm(columns, rows, depth, b, depth, a, rows, out, rows)"}
)
wrong("wrong-result", "gemm was never called")({CALL: "out[...] = a @ b"})
wrong("wrong-result|raised", "Read by columns|The leading dimension")(
    {CALL: "gemm(rows, columns, depth, a, rows, b, depth, out, rows)"}
)
wrong("wrong-result", "only gemm writes")({CALL: f"{CALL}\n    out *= 2"})
wrong("wrong-result", "one call does it")(
    {CALL: f"{CALL}\n    gemm(columns, rows, depth, b, columns, a, depth, out, columns)"}
)
right({CALL: "gemm(b.shape[1], len(a), len(b), b.T, len(b[0]), a, len(b), out, out.shape[1])"})
