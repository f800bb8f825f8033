"""Exercises of lesson 14: bytes of a fusion, launches in time, frames, staged weights, banks."""

import numpy as np

from course.checks.beside import Rivals
from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from course_lessons.cases import CANCELS, drawn, empty, extent, fixed, normal, table
from course_lessons.edits import LessonKernel
from course_lessons.lesson14.own_network import EXERCISE as OWN_NETWORK
from course_models.common import gelu
from warpsim.core.words import count

# --- bytes of a fusion ----------------------------------------------------------------------------

#: Two networks: launches, numbers of a sample, numbers of weights, results.
_CHAIN = (
    [(("x", "w"), "a"), (("a",), "b"), (("b", "v"), "y")],
    {"x": 64, "a": 128, "b": 96, "y": 10},
    {"w": 8192, "v": 960},
    ["y"],
)
_AGAIN = (
    [(("image", "w"), "h"), (("h",), "g"), (("g", "image", "w"), "sum"), (("sum", "mask"), "y")],
    {"image": 50, "h": 20, "g": 25, "sum": 45, "mask": 60, "y": 30},
    {"w": 1000},
    ["sum", "y"],
)


def _any_network(rng):
    known, made, launches = ["x", "w", "mask", "v", "target"], [], []
    for number in range(extent(rng, 1, 9)):
        made.append(f"layer {number}")
        reads = rng.choice(known, rng.integers(1, 4), replace=False)
        launches.append((tuple(map(str, reads)), made[-1]))
        known.append(made[-1])
    batch = extent(rng, 1, 5000)
    sizes = {name: extent(rng, 1, 9999) for reads, its in launches for name in (*reads, its)}
    return fixed(
        f"{len(launches)} launches, batch {batch:,}",
        launches=launches,
        of_a_sample={name: size for name, size in sizes.items() if name not in "vw"},
        of_weights={name: size for name, size in sizes.items() if name in "vw"},
        results=[name for name in made[:-1] if rng.random() < 0.3] + made[-1:],
        batch=batch,
    )


def _bytes(launches, of_a_sample, of_weights, results, batch):
    """Bytes that all launches move, and those that one kernel for the whole moves."""
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    size |= {name: 4 * count for name, count in of_weights.items()}
    read = {name for reads, _ in launches for name in reads}
    made = {written for _, written in launches}
    apart = sum(size[name] for reads, written in launches for name in (*reads, written))
    return apart, sum(size[name] for name in (*(read - made), *results))


FunctionExercise.declare(
    name="fused-bytes",
    lesson=14,
    title="Bytes of many launches, and of one",
    reference=_bytes,
    cases=table(
        "launches of_a_sample of_weights results batch",
        ("three in a row, batch 32", *_CHAIN, 32),
        ("two inputs, one of them read twice, batch 5", *_AGAIN, 5),
    ),
    drawer=_any_network,
    drawn=20,
    hints={
        "raised": "A launch is (what it reads, what it writes): a tuple of names, and one "
        "name. A name stands either in of_a_sample or in of_weights. Networks have other names "
        "than x and y, too: take them from the launches.",
        "wrong-result": "result[0], the launches: count each name that one reads, and the one that "
        "it writes. result[1], one kernel: it reads each name that no launch writes, once, and "
        "writes the `results`.",
    },
)

# --- launches in time -----------------------------------------------------------------------------


def _until_done(launch, works):
    now = done = 0.0
    for work in works:
        now += launch
        done = max(now, done) + work
    return done


def _any_works(rng):
    launch = rng.choice([0.004, 0.03, 0.25])
    works = (launch * 10 ** rng.uniform(-2, 1, extent(rng, 1, 300))).tolist()
    return fixed(
        f"{len(works)} kernels, launches of {launch} ms", launch=float(launch), works=works
    )


FunctionExercise.declare(
    name="time-of-launches",
    lesson=14,
    title="When the last kernel is done",
    reference=_until_done,
    cases=table(
        "launch works",
        ("one kernel", 0.03, [0.5]),
        ("ten short ones", 0.03, [0.004] * 10),
        ("a long one in front", 0.02, [0.09, 0.001, 0.001, 0.001, 0.001, 0.001]),
        ("no kernels at all", 0.03, []),
    ),
    drawer=_any_works,
    drawn=20,
    tolerance=Tolerance(600, "a sum for each launch and each kernel"),
    hints={
        "wrong-result": "Two clocks: one for the host, which goes on by `launch` at each, and "
        "one for when the GPU is done. A kernel begins when it is launched and the one before "
        "it is done, whichever is later.",
        "raised": "`works` is a list of numbers, and it may be empty: then the answer is 0.",
        "wrong-shape": "Return one number: when the last kernel is done.",
        "input-modified": "Go through `works` with `for work in works`; leave the list as it is.",
    },
)

# --- LayerNorm, a warp a frame --------------------------------------------------------------------


def _normalised(x):
    """LayerNorm of each of a spectrum's five frames."""
    frames = x.reshape(len(x), 5, -1)
    mean, variance = (of(axis=2, keepdims=True) for of in (frames.mean, frames.var))
    return ((frames - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)


def _far_from_zero(x):
    """Frames whose mean is large beside their spread."""
    frames = x.reshape(len(x), 5, 64)
    far = np.abs(frames.mean(2, keepdims=True)) > 30 * frames.std(2, keepdims=True)
    return np.repeat(far, 64, axis=2).reshape(x.shape)


def _frames(batch, level=0.0, spread=2.0, measured=False):
    """Spectra of a spread beside which epsilon counts for nothing, or of a small one."""

    def arguments(rng):
        x = rng.standard_normal((batch, 320), dtype=np.float32)
        x *= (spread * (1 + rng.random((batch, 1)))).astype(np.float32)
        return {"x": x + np.float32(level), "out": np.empty((batch, 320), np.float32)}

    plural = "spectra" if batch > 1 else "spectrum"
    at = f", all levels near {level:g}" if level else ""
    quiet = f", spread about {spread:g}" if spread < 1 else ""
    return Case(f"{batch} {plural}{at}{quiet}", arguments, block=160, grid=batch, measured=measured)


def _any_frames(rng):
    spread = 10.0 ** rng.uniform(-3, 1)
    return _frames(extent(rng, 1, 13, 600), level=spread * rng.choice([0, -3, 400]), spread=spread)


_LOADED_ONCE = (
    "Each number of x is needed once from memory: keep it in a variable, and let shuffles add up "
    "what other lanes have."
)
_SHUFFLES = "Shuffles need no shared memory: a warp has a frame by itself."

LessonKernel.declare(
    name="normalise-frames",
    rivals=Rivals(
        torch=lambda torch, x: torch.nn.functional.layer_norm(x.view(-1, 5, 64), (64,)),
        timed=_frames(4096),
    ),
    lesson=14,
    title="LayerNorm of five frames, a warp each",
    outputs=("out",),
    reference=_normalised,
    cases=[
        _frames(1),
        _frames(2, level=200.0, spread=0.5),
        _frames(2, spread=0.002),
        _frames(7, measured=True),
    ],
    drawer=_any_frames,
    drawn=6,
    tolerance=Tolerance(
        24,
        "sums of 64, a difference, a root and a quotient; what a level is rounded by is "
        "divided by the frame's spread",
        magnitude=lambda x: 4 + np.abs(x).max() / (x.reshape(-1, 64).std(1).min() + 1e-5**0.5),
    ),
    forbidden={"float64", "uncoalesced"},
    limits=[
        Limit("global", "load", "lanes", "element", 1, _LOADED_ONCE),
        Limit("shared", "store", "requests", "launch", 0, _SHUFFLES),
    ],
    cancels={CANCELS: _far_from_zero},
    hints={
        "unwritten-output": "Block b has spectrum b: row cuda.blockIdx.x. Warp f has the frame "
        "that begins at column 64 * f, and each lane two of its numbers: lane and lane + 32.",
        "same-value-race": "Several warps write the same frame. Warp f, of the threads 32 * f "
        "to 32 * f + 31, has frame f alone.",
        "wrong-result": "The mean is the sum of 64 numbers, two of each lane, / 64; the "
        "variance is the mean of (value - mean) squared, and 1e-5 is added to it, under the "
        "root. Every lane needs both sums: shfl_xor_sync gives them to all, shfl_down_sync to "
        "lane 0 alone.",
        "out-of-bounds": "The row is cuda.blockIdx.x. The frame is threadIdx.x // 32, from 0 "
        "to 4, and its first column is 64 * frame.",
        "race": "Two lanes write one number. Warp f begins at column 64 * f; its lanes have "
        "the columns + lane and + lane + 32.",
        "not-parallel": "Five frames, five warps, all at the same time: warp threadIdx.x // 32 "
        "has one frame, and each of its lanes two of the numbers.",
        "barrier-divergence": "All 32 lanes make a shuffle together: keep it out of `if`, "
        "and of loops that end sooner for some.",
        "float64": "Write float32(1e-5) and float32(0): bare literals are float64. And a "
        "float32 / 64 is one, too: divide by float32(64).",
        "uncoalesced": "Neighbouring lanes take neighbouring numbers: lane and lane + 32, not "
        "2 * lane and 2 * lane + 1.",
    },
)

# --- weights staged once a block ------------------------------------------------------------------


def _encoder(rows, blocks, warps=4, measured=False):
    def weight(rng):
        return normal(64, 64)(rng) / np.float32(8)

    arguments = drawn(z=normal(rows, 64), weight=weight, bias=normal(64), out=empty(rows, 64))
    plural = "blocks" if blocks > 1 else "block"
    name = f"{count(rows, 'frame')}, {blocks} {plural} of {count(warps, 'warp')}"
    return Case(name, arguments, block=32 * warps, grid=blocks, measured=measured)


def _any_encoder(rng):
    blocks, warps = int(rng.integers(1, 4)), int(rng.choice([2, 4]))
    return _encoder(int(rng.integers(2 * warps, 9 * blocks * warps)), blocks, warps)


_STORED_ONCE = "Each result is stored once, when it is done: keep the sum in a variable."
_ALL_COPY = (
    "All threads of the block copy weights, 32 each, not one warp or one thread alone: thread t "
    "every blockDim.x-th, from t on."
)
_STAGED = (
    "Weights that each block reads once make a quarter of a sector, and a warp that reads a "
    "number of z together two at most: copy the weights to shared memory with all threads of the "
    "block, before the loop over rows."
)

LessonKernel.declare(
    name="staged-weights",
    rivals=Rivals(
        torch=lambda torch, z, weight, bias: torch.nn.functional.gelu(z @ weight + bias),
        operations=lambda z, **_: 2 * 64 * z.size,
        timed=_encoder(20_480, 132),
    ),
    lesson=14,
    title="A Linear and GELU, weights read once a block",
    outputs=("out",),
    reference=lambda z, weight, bias: gelu(z @ weight + bias),
    cases=[
        _encoder(12, 6, warps=2),
        _encoder(1, 1),
        _encoder(32, 1, measured=True),
    ],
    drawer=_any_encoder,
    tolerance=Tolerance(
        48,
        "64 products and sums, a bias, and a GELU that is off by 1e-7 of its argument",
        magnitude=lambda z, weight, bias: np.abs(z) @ np.abs(weight) + np.abs(bias) + 1,
    ),
    forbidden={"float64", "uncoalesced", "bank-conflict"},
    limits=[
        Limit("global", "store", "lanes", "element", 1, _STORED_ONCE),
        Limit("global", "load", "sectors", "element", 3, _STAGED),
        Limit("shared", "store", "lanes", "thread", 64, _ALL_COPY),
    ],
    hints={
        "barrier-divergence": "Warps of a block have different numbers of rows. Copy the "
        "weights and wait **before** the loop over rows; inside it a warp needs no other one.",
        "not-parallel": "All threads of a block copy the weights, a part each: thread t every "
        "blockDim.x-th from t on. Each warp of the grid has rows of its own.",
        "race": "Is it the weights? Some read what others are still copying: "
        "cuda.syncthreads() between the copying and the loop over rows. Other shared numbers? "
        "Give each warp its own; no barrier may stand in the loop.",
        "uninitialised-read": "Some weights are read that nobody has copied to this block's "
        "shared memory. Each block copies all 4,096: thread t every blockDim.x-th from t on, "
        "also where its warp has no row.",
        "same-value-race": "Some do the work of others again. Each weight is copied by one "
        "thread of the block, and each row belongs to one warp of the whole grid.",
        "unwritten-output": "A lane has two columns, lane and lane + 32, and a warp every row "
        "from its own number on, in steps of all warps of the grid.",
        "out-of-bounds": "In z and out compare the row with z.shape[0]: not every warp has "
        "one. The weights are 64 x 64, in shared memory, too: number n of the 4,096 is row "
        "n // 64, column n % 64.",
        "wrong-result": "Column j of the result is the sum over k of z[row, k] * weight[k, j], "
        "plus bias[j], and then gelu. Each row's sums begin anew.",
        "float64": "A sum that begins with 0.0 is float64, and so is all that is made of it, "
        "GELU too. Begin the sums with bias[lane] and bias[lane + 32], and let the shared "
        "array hold float32. (A GELU of your own? 0.5 and math.sqrt(2) are float64; the "
        "package's `gelu` has none.)",
        "uncoalesced": "A warp has a row together: its lanes read the same number of z, and "
        "neighbouring lanes neighbouring columns, lane and lane + 32, of weight, bias and out.",
        "bank-conflict": "Lay the weights down as they come, and let neighbouring lanes read "
        "neighbouring columns.",
    },
)

# --- two Linears folded into one ------------------------------------------------------------------


def _folded(basis, weight):
    frames = basis.reshape(len(basis), -1, weight.shape[1])
    return (frames @ weight.T).reshape(len(basis), -1)


def _two_linears(rows, frames, wide, outputs):
    arguments = drawn(basis=normal(rows, frames * wide), weight=normal(outputs, wide))
    plural = "frames" if frames > 1 else "frame"
    name = f"basis {rows} x {frames * wide}, {frames} {plural}, {outputs} outputs"
    return Case(name, arguments)


def _any_linears(rng):
    """Of any sizes, or of listed ones with other numbers: what an answer has kept is wrong then."""
    if rng.random() < 0.2:
        return _two_linears(7, 3, 5, 2)
    return _two_linears(*(extent(rng, 1, most) for most in (40, 9, 140, 140)))


FunctionExercise.declare(
    name="folded-decoder",
    lesson=14,
    title="Two Linears folded into one",
    reference=_folded,
    cases=[
        _two_linears(3, 1, 4, 4),
        _two_linears(7, 3, 5, 2),
    ],
    drawer=_any_linears,
    drawn=20,
    tolerance=Tolerance(
        160,
        "sums of up to 140 products",
        magnitude=lambda basis, weight: _folded(np.abs(basis), np.abs(weight)),
    ),
    hints={
        "wrong-shape": "The result has a row for each row of the basis, and `outputs` columns "
        "for each frame.",
        "wrong-result": "Column o of frame f is the sum over b of basis[row, wide * f + b] * "
        "weight[o, b].",
        "raised": "Take the sizes from the arguments: the basis has all frames side by side, "
        "weight.shape[1] columns for each; cut its rows into frames first, basis.reshape(rows, "
        "frames, wide). The result has weight.shape[0] columns for each frame.",
    },
)

# --- a network in one kernel ----------------------------------------------------------------------

LessonKernel.declare(**OWN_NETWORK)
