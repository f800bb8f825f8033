"""Serial twins: a loop that computes the whole result of a kernel, item by item.

Of kernels whose threads work together; others are gone through as they are, by `tools.mutants`, and
of those whose products on tensor cores are counted none is done without them. What a tensor map
describes is read by TMA alone.

An item is what can be computed alone: an element, a row, a pair of rows. Five answers come of each
text, by who runs it from where in which steps. All of them are right in what they store.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from course.checks.exercises import find_exercise
from course_lessons.edits import solution
from tests.course_lessons.wrong_answers.solutions import define

# who runs the loop, and the range of it
WHO = {
    "one thread does all": ("block == 0 and t == 0", "0, {count}, 1"),
    "one warp does all": ("block == 0 and t < 32", "t, {count}, min(32, threads)"),
    "one block does all": ("block == 0", "t, {count}, threads"),
    "every thread does all": ("True", "0, {count}, 1"),
    "all read, one thread does all": ("block == 0 and t == 0", "0, {count}, 1"),
}
_ALONE = {name for name, (_, steps) in WHO.items() if steps.startswith("0")}
_PLACE = """\
across, down = cuda.gridDim.x, cuda.gridDim.y
blocks = across * down * cuda.gridDim.z
block = cuda.blockIdx.x + across * (cuda.blockIdx.y + down * cuda.blockIdx.z)
wide, high = cuda.blockDim.x, cuda.blockDim.y
threads = wide * high * cuda.blockDim.z
t = cuda.threadIdx.x + wide * (cuda.threadIdx.y + high * cuda.threadIdx.z)
"""


@dataclass(frozen=True)
class Twin:
    """A serial program as text.

    Attributes
    ----------
    count, item : str
        How many items there are, and what computes item `j` of them.
    read : str
        An array of one to three axes that all threads may read.
    before, after : str
        What a thread does before its loop, and after it.
    alone : str
        What it does after its loop when it has all items.
    above : str
        What stands above the kernel.
    without : dict of str
        Who cannot run it, and why.
    """

    count: str
    item: str
    read: str
    before: str = ""
    after: str = ""
    alone: str = ""
    above: str = ""
    without: Mapping[str, str] = field(default_factory=dict)

    def source(self, exercise: str, who: str) -> str:
        """The text of an answer to an exercise."""
        condition, steps = WHO[who]
        after = self.alone if who in _ALONE and self.alone else self.after
        body = f"for j in range({steps.format(count=self.count)}):\n" + _in(self.item)
        if condition != "True":
            body = f"if {condition}:\n" + _in("\n".join(filter(None, (self.before, body, after))))
        else:
            body = "\n".join(filter(None, (self.before, body, after)))
        if who.startswith("all read"):
            axes = len(find_exercise(exercise).arguments(0)[self.read].shape)
            place = ", ".join(["n", *["0"] * (axes - 1)])
            steps = f"block * threads + t, {self.read}.shape[0], blocks * threads"
            body = f"for n in range({steps}):\n    seen = {self.read}[{place}]\n{body}"
        name = solution(exercise).function
        parameters = ", ".join(find_exercise(exercise).parameters)
        return f"{self.above}@cuda.jit\ndef {name}({parameters}):\n{_in(_PLACE + body)}\n"

    def answer(self, exercise: str, who: str) -> Callable:
        """The kernel itself, with the names of the exercise's lesson."""
        return define(self.source(exercise, who), exercise, who, {})


def _in(text: str) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n"), "    ")


_AGAIN, _IDLE = "every thread does all", "all read, one thread does all"
_IN_PLACE = {_AGAIN: "the array is changed in place: what is done twice has another result"}
_PIXEL = "r, c = j // out.shape[1], j % out.shape[1]\n"
_TRANSPOSED = Twin("out.size", _PIXEL + "out[r, c] = image[c, r]", "image")
_ONE_WARP = dict.fromkeys(
    ("one warp does all", "one block does all"), "the launch is one warp, of one block"
)
_REBUILT = Twin(
    "out.size",
    _PIXEL
    + """\
total = float32(0)
for i in range(k):
    total += u[r, i] * s[i] * vt[i, c]
out[r, c] = total
""",
    "u",
)
_ROTATED = """\
@cuda.jit(device=True)
def rotated(w, matrix, p, q):
    xx, yy, xy = float32(0), float32(0), float32(0)
    for c in range(w.shape[2]):
        x, y = w[matrix, p, c], w[matrix, q, c]
        xx += x * x
        yy += y * y
        xy += x * y
    if xy != float32(0):
        sine, rest = rotate.rotation(xx, yy, xy)
        for c in range(w.shape[2]):
            x, y = w[matrix, p, c], w[matrix, q, c]
            w[matrix, p, c] = x - (rest * x + sine * y)
            w[matrix, q, c] = y + (sine * x - rest * y)


"""

TWINS = {
    "reverse-blocks": Twin(
        "x.size",
        """
        first = j // BLOCK * BLOCK
        other = first + min(first + BLOCK, x.size) - 1 - j
        if j < other:
            x[j], x[other] = x[other], x[j]
        """,
        "x",
        without=_IN_PLACE | {_IDLE: "who reads what another thread changes races with it"},
    ),
    "blur-halo": Twin(
        "out.size",
        """
        total = float32(0)
        for n in range(max(0, j - RADIUS), min(j + RADIUS + 1, x.size)):
            total += x[n]
        out[j] = total / float32(WINDOW)
        """,
        "x",
    ),
    "tile-rounds": _REBUILT,
    "reconstruct-tiled": _REBUILT,
    "block-sums": Twin(
        "out.size",
        """
        total = float32(0)
        for n in range(j * threads, min((j + 1) * threads, x.size)):
            total += x[n]
        out[j] = total
        """,
        "x",
    ),
    "tiled-transpose": _TRANSPOSED,
    "padded-transpose": _TRANSPOSED,
    "square-tile": _REBUILT,
    "wide-tile": _REBUILT,
    "last-rung": _REBUILT,
    "two-buffers": _REBUILT,
    "warp-row-sum": Twin(
        "x.shape[0]",
        """
        total = float32(0)
        for c in range(x.shape[1]):
            total += x[j, c]
        out[j] = total
        """,
        "x",
    ),
    "sum-several": Twin(
        "x.size",
        "mine += x[j]",
        "x",
        before="mine = float32(0)",
        after="cuda.atomic.add(out, 0, mine)",
        alone="out[0] = mine",
    ),
    "softmax-online": Twin(
        "x.shape[0]",
        """
        largest = x[j, 0]
        for c in range(1, x.shape[1]):
            largest = max(largest, x[j, c])
        total = float32(0)
        for c in range(x.shape[1]):
            total += math.exp(x[j, c] - largest)
        for c in range(x.shape[1]):
            out[j, c] = math.exp(x[j, c] - largest) / total
        """,
        "x",
    ),
    "softmax-gradient": Twin(
        "y.shape[0]",
        """
        total = float32(0)
        for c in range(y.shape[1]):
            total += dy[j, c] * y[j, c]
        for c in range(y.shape[1]):
            dx[j, c] = y[j, c] * (dy[j, c] - total)
        """,
        "y",
    ),
    "rotate-pairs": Twin(
        "w.shape[0] * pairs.shape[0]",
        """
        matrix, pair = j // pairs.shape[0], j % pairs.shape[0]
        rotated(w, matrix, pairs[pair, 0], pairs[pair, 1])
        """,
        "pairs",
        above=_ROTATED,
        without=_IN_PLACE,
    ),
    "sweep-shared": Twin(
        "w.shape[0]",
        """
        for turn in range(w.shape[1] - 1):
            for pair in range(w.shape[1] // 2):
                p, q = rotate.partners(turn, pair, w.shape[1])
                rotated(w, j, p, q)
        """,
        "w",
        above=_ROTATED,
        without=_IN_PLACE
        | dict.fromkeys(
            ("one warp does all", "one block does all"),
            "a matrix is an item: a warp or a block of them is a few threads, as one thread is",
        )
        | {_IDLE: "who reads what another thread changes races with it"},
    ),
    "layer-norm-gelu": Twin(
        "x.shape[0]",
        """
        mean, squares = float32(0), float32(0)
        for c in range(x.shape[1]):
            mean += x[j, c]
        mean /= float32(x.shape[1])
        for c in range(x.shape[1]):
            squares += (x[j, c] - mean) * (x[j, c] - mean)
        scale = float32(1) / math.sqrt(squares / float32(x.shape[1]) + eps)
        for c in range(x.shape[1]):
            out[j, c] = gelu((x[j, c] - mean) * scale * gamma[c] + beta[c])
        """,
        "x",
    ),
    "normalise-frames": Twin(
        "out.size // 64",
        """
        row, first = j // 5, j % 5 * 64
        mean, squares = float32(0), float32(0)
        for c in range(first, first + 64):
            mean += x[row, c]
        mean /= float32(64)
        for c in range(first, first + 64):
            squares += (x[row, c] - mean) * (x[row, c] - mean)
        scale = float32(1) / math.sqrt(squares / float32(64) + float32(1e-5))
        for c in range(first, first + 64):
            out[row, c] = (x[row, c] - mean) * scale
        """,
        "x",
    ),
    "staged-weights": Twin(
        "out.size",
        _PIXEL
        + """\
total = bias[c]
for n in range(64):
    total += z[r, n] * weight[n, c]
out[r, c] = gelu(total)
""",
        "z",
    ),
    "one-kernel": Twin(
        "y.shape[0]",
        """
        for f in range(0, 320, 64):
            mean, square = float32(0), float32(0)
            for c in range(64):
                mean += x[j, f + c] / float32(64)
            for c in range(64):
                square += (x[j, f + c] - mean) * (x[j, f + c] - mean)
            scale = float32(1) / math.sqrt(square / float32(64) + float32(1e-5))
            for c in range(64):
                total = encode_bias[c]
                for k in range(64):
                    total += (x[j, f + k] - mean) * scale * encode[k, c]
                frames[f + c] = gelu(total)
        mean, square = float32(0), float32(0)
        for c in range(32):
            total = float32(0)
            for k in range(320):
                total += frames[k] * to_code[k, c]
            codes[c] = total
            mean += total / float32(32)
        for c in range(32):
            square += (codes[c] - mean) * (codes[c] - mean)
        scale = float32(1) / math.sqrt(square / float32(32) + float32(1e-5))
        for c in range(32):
            total = middle_bias[c]
            for k in range(32):
                total += (codes[k] - mean) * scale * middle[k, c]
            frames[c] = gelu(total)
        for c in range(32):
            codes[c] = frames[c]
            code[j, c] = frames[c]
        for c in range(320):
            total = float32(0)
            for k in range(32):
                total += codes[k] * from_code[k, c]
            frames[c] = total
        square = float32(0)
        for f in range(0, 320, 64):
            for c in range(64):
                total = decode_bias[c]
                for k in range(64):
                    total += frames[f + k] * decode[k, c]
                y[j, f + c] = total
                square += (total - x[j, f + c]) * (total - x[j, f + c])
        errors[j] = square / float32(320)
        """,
        "x",
        before="frames = cuda.local.array(320, float32)\ncodes = cuda.local.array(32, float32)",
        without=dict.fromkeys(
            ("one warp does all", "one block does all"),
            "a spectrum is an item: of the few in a case each would have a thread",
        ),
    ),
    "product-epilogue": Twin(
        "out.size",
        _PIXEL
        + """\
total = bias[c]
for k in range(x.shape[1]):
    total += x[r, k] * weight[c, k]
out[r, c] = total if total > float32(0) else float32(0.2) * total
""",
        "x",
    ),
    "swizzled-tile": Twin(
        "out.size",
        """\
step, r, lane = j // 128, j // 32 % 4, j % 32
g, q = lane // 4, lane % 4
out[step, r, lane] = a[g + r % 2 * 8, 8 * step + r // 2 * 4 + q]
""",
        "a",
        without=_ONE_WARP,
    ),
    "norm-of-halves": Twin(
        "x.shape[0]",
        """
        columns = float32(x.shape[1])
        total = float32(0)
        for c in range(x.shape[1]):
            total += float32(x[j, c])
        square = float32(0)
        for c in range(x.shape[1]):
            square += (float32(x[j, c]) - total / columns) ** 2
        scale = float32(1) / math.sqrt(square / columns + float32(1e-6))
        for c in range(x.shape[1]):
            z = (float32(x[j, c]) - total / columns) * scale
            out[j, c] = z * float32(gamma[c]) + float32(beta[c])
        """,
        "x",
    ),
    "attention-in-tiles": Twin(
        "out.shape[0] * out.shape[1] * q.shape[2]",
        """
        size = q.shape[3]
        image, rest = j // (q.shape[1] * q.shape[2]), j % (q.shape[1] * q.shape[2])
        query, head = rest // q.shape[2], rest % q.shape[2]
        most = float32(-3e38)
        for key in range(q.shape[1]):
            score = float32(0)
            for e in range(size):
                score += float32(q[image, query, head, e]) * float32(k[image, key, head, e])
            most = max(most, scale * score)
        total = float32(0)
        for e in range(size):
            sums[e] = float32(0)
        for key in range(q.shape[1]):
            score = float32(0)
            for e in range(size):
                score += float32(q[image, query, head, e]) * float32(k[image, key, head, e])
            weight = math.exp(scale * score - most)
            total += weight
            for e in range(size):
                sums[e] += weight * float32(v[image, key, head, e])
        for e in range(size):
            out[image, query, head * size + e] = sums[e] / total
        """,
        "q",
        before="sums = cuda.local.array(16, float32)",
        without=dict.fromkeys(
            ("one warp does all", "one block does all"),
            "a query is an item: a lane has four of the largest case, and is told of its loads",
        ),
    ),
    "bias-gelu": Twin(
        "out.size",
        _PIXEL
        + """\
z = float32(bias[c])
for k in range(x.shape[1]):
    z += float32(x[r, k]) * float32(weight[c, k])
inner = float32(0.7978845608) * (z + float32(0.044715) * z * z * z)
out[r, c] = float32(0.5) * z * (float32(1) + math.tanh(inner))
""",
        "x",
    ),
}


def twins() -> list[tuple[str, str]]:
    """Each exercise with each who can run its twin."""
    return [(name, who) for name, twin in TWINS.items() for who in WHO if who not in twin.without]
