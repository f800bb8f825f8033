"""Exercises of lesson 13: bytes of a fusion, launches in time, frames, staged weights, banks."""

import numpy as np

from course.checks import Case, FunctionExercise, KernelExercise, Limit, Tolerance, register
from course.exercises.lesson13_judges import judge_bytes
from course.exercises.lesson13_mistakes import OF_FRAMES
from course.exercises.lesson13_numbers import (
    by_columns,
    first_frame_everywhere,
    first_or_last,
    folded,
    frames_last,
    gelu_by_tanh,
    held_back,
    larger_of_each,
    linear,
    normalised,
    until_done,
)
from course.models.spectral import gelu

# --- bytes of a fusion ----------------------------------------------------------------------------

#: Three networks: (launches, numbers of a sample, numbers of weights, results).
_CHAIN = (
    [(("x", "w"), "a"), (("a",), "b"), (("b", "v"), "y")],
    {"x": 64, "a": 128, "b": 96, "y": 10},
    {"w": 8192, "v": 960},
    ["y"],
)
_TIED = (
    [(("x", "basis"), "code"), (("code",), "active"), (("active", "basis"), "y"),
     (("x", "y"), "errors")],
    {"x": 320, "code": 32, "active": 32, "y": 320, "errors": 1},
    {"basis": 10240},
    ["y", "errors"],
)  # fmt: skip
_AGAIN = (
    [(("image", "w"), "h"), (("h",), "g"), (("g", "image", "w"), "sum"), (("sum", "mask"), "y")],
    {"image": 50, "h": 20, "g": 20, "sum": 50, "mask": 50, "y": 30},
    {"w": 1000},
    ["sum", "y"],
)
_ONE = ([(("x",), "y")], {"x": 7, "y": 5}, {}, ["y"])


def _network(name, network, batch):
    launches, of_a_sample, of_weights, results = network

    def arguments(rng):
        return {
            "launches": list(launches),
            "of_a_sample": dict(of_a_sample),
            "of_weights": dict(of_weights),
            "results": list(results),
            "batch": batch,
        }

    return Case(f"{name}, batch {batch}", arguments)


register(
    FunctionExercise(
        name="fused-bytes",
        lesson=13,
        title="Bytes of many launches, and of one",
        judge=judge_bytes,
        cases=[
            _network("one launch", _ONE, 3),
            _network("three in a row", _CHAIN, 32),
            _network("a basis that is read twice", _TIED, 7),
            _network("a basis that is read twice", _TIED, 4096),
            _network("three in a row", _CHAIN, 1),
            _network("two inputs, one of them read twice", _AGAIN, 5),
        ],
        hints={
            "raised": "A launch is (what it reads, what it writes): a tuple of names, and one "
            "name. A name stands either in of_a_sample or in of_weights. Networks have other names "
            "than x and y, too: take them from the launches.",
        },
    )
)

# --- launches in time -----------------------------------------------------------------------------


def _timeline(name, launch, works):
    return Case(name, lambda rng: {"launch": launch, "works": list(works)})


register(
    FunctionExercise(
        name="time-of-launches",
        lesson=13,
        title="When the last kernel is done",
        reference=until_done,
        cases=[
            _timeline("one kernel", 0.03, [0.5]),
            _timeline("ten short ones", 0.03, [0.004] * 10),
            _timeline("ten long ones", 0.03, [0.4] * 10),
            _timeline("a long one in front", 0.02, [0.09, 0.001, 0.001, 0.001, 0.001, 0.001]),
            _timeline("a long one at the end", 0.02, [0.001, 0.001, 0.09]),
            _timeline("a long one in the middle", 0.02, [0.001, 0.001, 0.06, 0.001, 0.001]),
            _timeline("long and short in turns", 0.01, [0.025, 0.002, 0.03, 0.001, 0.001, 0.02]),
            _timeline("no kernels at all", 0.03, []),
        ],
        tolerance=Tolerance(64, "a dozen sums", magnitude=lambda launch, works: 1.0),
        hints={
            "wrong-result": "Two clocks: one for the host, which goes on by `launch` at each, and "
            "one for when the GPU is done. A kernel begins when it is launched and the one before "
            "it is done, whichever is later.",
            "raised": "`works` is a list of numbers, and it may be empty: then the answer is 0.",
            "wrong-shape": "Return one number: when the last kernel is done.",
            "input-modified": "Go through `works` with `for work in works`; leave the list as it "
            "is.",
        },
        mistakes={
            "launches and work are added: the host launches the next one while the GPU works": (
                lambda launch, works: sum(works) + launch * len(works)
            ),
            "only the work counts: before the first kernel works, it must be launched": (
                lambda works: sum(works)
            ),
            "only the launches count: after the last one its kernel has to work": (
                lambda launch, works: launch * len(works)
            ),
            "the kernels are not made to wait for each other": lambda launch, works: max(
                (launch * (n + 1) + work for n, work in enumerate(works)), default=0.0
            ),
            "only the first launch is waited for": lambda launch, works: (
                launch + sum(works) if works else 0.0
            ),
            "only the first and the last launch are looked at: the GPU may wait, or be late, in "
            "between": first_or_last,
            "a kernel begins with its launch's begin: it can begin when the launch is done": (
                lambda launch, works: until_done(launch, works) - launch if works else 0.0
            ),
            "of each kernel the larger of launch and work is counted: a long one gives the next "
            "launches time to be made meanwhile": larger_of_each,
            "the host waits until the kernel before is done: it launches the next one meanwhile": (
                held_back
            ),
            "only the first kernel is counted (a `return` in the loop?)": lambda launch, works: (
                launch + works[0] if works else 0.0
            ),
            "the result is in s: `launch` and `works` are in ms": lambda launch, works: (
                until_done(launch, works) / 1e3
            ),
        },
    )
)

# --- LayerNorm, a warp a frame --------------------------------------------------------------------


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


register(
    KernelExercise(
        name="normalise-frames",
        lesson=13,
        title="LayerNorm of five frames, a warp each",
        outputs=("out",),
        reference=normalised,
        cases=[
            _frames(1),
            _frames(3),
            _frames(2, level=200.0, spread=0.5),
            _frames(2, spread=0.002),
            _frames(7, measured=True),
        ],
        tolerance=Tolerance(
            24,
            "sums of 64, a difference, a root and a quotient; what a level is rounded by is "
            "divided by the frame's spread",
            magnitude=lambda x: 4 + np.abs(x).max() / x.reshape(len(x), 5, 64).std(axis=2).min(),
        ),
        forbidden={"float64", "uncoalesced", "negative-index", "same-value-race"},
        limits=[
            Limit(
                "global",
                "load",
                "lanes",
                "element",
                1,
                "Each number of x is needed once from memory: keep it in a variable, and let "
                "shuffles add up what other lanes have.",
            ),
            Limit(
                "shared",
                "store",
                "requests",
                "launch",
                0,
                "Shuffles need no shared memory: a warp has a frame by itself.",
            ),
        ],
        hints={
            "unwritten-output": "Block b has spectrum b: row cuda.blockIdx.x. Warp f has the frame "
            "that begins at column 64 * f, and each lane two of its numbers: lane and lane + 32.",
            "same-value-race": "Several warps write the same frame. Warp f, of the threads 32 * f "
            "to 32 * f + 31, has frame f alone.",
            "wrong-result": "The mean is the sum of 64 numbers, two of each lane, / 64; the "
            "variance is the mean of (value - mean) squared, and 1e-5 is added to it, under the "
            "root. Every lane needs both sums: shfl_xor_sync gives them to all, shfl_down_sync to "
            "lane 0 alone. (Is it wrong at a high level only? E[x²] - mean² loses its digits "
            "there.)",
            "out-of-bounds": "The row is cuda.blockIdx.x. The frame is threadIdx.x // 32, from 0 "
            "to 4, and its first column is 64 * frame.",
            "race": "Two lanes write one number. Warp f begins at column 64 * f; its lanes have "
            "the columns + lane and + lane + 32.",
            "barrier-divergence": "All 32 lanes make a shuffle together: keep it out of `if`, "
            "and of loops that end sooner for some.",
            "float64": "Write float32(1e-5) and float32(0): bare literals are float64. And a "
            "float32 / 64 is one, too: divide by float32(64).",
            "uncoalesced": "Neighbouring lanes take neighbouring numbers: lane and lane + 32, not "
            "2 * lane and 2 * lane + 1.",
        },
        mistakes=OF_FRAMES,
    )
)

# --- weights staged once a block ------------------------------------------------------------------


def _encoder(rows, blocks, warps=4, measured=False):
    def arguments(rng):
        return {
            "z": rng.standard_normal((rows, 64), dtype=np.float32),
            "weight": rng.standard_normal((64, 64), dtype=np.float32) / np.float32(8),
            "bias": rng.standard_normal(64, dtype=np.float32),
            "out": np.empty((rows, 64), np.float32),
        }

    plural = "blocks" if blocks > 1 else "block"
    name = f"{rows} frames, {blocks} {plural} of {warps} warps"
    return Case(name, arguments, block=32 * warps, grid=blocks, measured=measured)


register(
    KernelExercise(
        name="staged-weights",
        lesson=13,
        title="A Linear and GELU, weights read once a block",
        outputs=("out",),
        reference=lambda z, weight, bias: gelu(linear(z, weight, bias)),
        cases=[
            _encoder(4, 1),
            _encoder(13, 1),
            _encoder(7, 3),
            _encoder(11, 1, warps=2),
            _encoder(64, 2, measured=True),
        ],
        tolerance=Tolerance(
            48,
            "64 products and sums, a bias, and a GELU that is off by 1e-7 of its argument",
            magnitude=lambda z, weight, bias: np.abs(z) @ np.abs(weight) + np.abs(bias) + 1,
        ),
        forbidden={
            "float64",
            "uncoalesced",
            "bank-conflict",
            "negative-index",
            "same-value-race",
        },
        limits=[
            Limit(
                "global",
                "store",
                "lanes",
                "element",
                1,
                "Each result is stored once, when it is done: keep the sum in a variable.",
            ),
            Limit(
                "global",
                "load",
                "sectors",
                "element",
                3,
                "Weights that each block reads once make a quarter of a sector, and a warp that "
                "reads a number of z together two at most: copy the weights to shared memory "
                "with all threads of the block, before the loop over rows.",
            ),
        ],
        hints={
            "barrier-divergence": "Warps of a block have different numbers of rows. Copy the "
            "weights and wait **before** the loop over rows; inside it a warp needs no other one.",
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
        mistakes={
            "GELU is missing": linear,
            "the bias is missing": lambda z, weight, bias: gelu(z @ weight),
            "GELU is made with tanh: use the package's `gelu`, with erf": gelu_by_tanh,
            "the bias is added for each input, 64 times": lambda z, weight, bias: gelu(
                z @ weight + 64 * bias
            ),
            "the weights are turned: weight[k, j], not weight[j, k]": (
                lambda z, weight, bias: gelu(z @ weight.T + bias)
            ),
            "GELU is made of each product: it comes once, after the sum": (
                lambda z, weight, bias: gelu(z[:, :, None] * weight).sum(axis=1) + bias
            ),
            "lane + 32 gets the bias of lane: its own is bias[lane + 32]": (
                lambda z, weight, bias: gelu(z @ weight + np.tile(bias[:32], 2))
            ),
            "the bias is added after GELU": lambda z, weight, bias: gelu(z @ weight) + bias,
            "half of the inputs are missing: k goes to 64": lambda z, weight, bias: gelu(
                z[:, :32] @ weight[:32] + bias
            ),
        },
    )
)

# --- two Linears folded into one ------------------------------------------------------------------


def _two_linears(rows, frames, wide, outputs):
    def arguments(rng):
        return {
            "basis": rng.standard_normal((rows, frames * wide), dtype=np.float32),
            "weight": rng.standard_normal((outputs, wide), dtype=np.float32),
        }

    plural = "frames" if frames > 1 else "frame"
    name = f"basis {rows} x {frames * wide}, {frames} {plural}, {outputs} outputs"
    return Case(name, arguments)


register(
    FunctionExercise(
        name="folded-decoder",
        lesson=13,
        title="Two Linears folded into one",
        reference=folded,
        cases=[
            _two_linears(3, 1, 4, 4),
            _two_linears(32, 5, 64, 64),
            _two_linears(7, 3, 5, 2),
            _two_linears(1, 2, 3, 6),
        ],
        tolerance=Tolerance(
            80,
            "sums of up to 64 products",
            magnitude=lambda basis, weight: folded(np.abs(basis), np.abs(weight)),
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
        mistakes={
            "the weight is not turned: it is (outputs, inputs), so `frames @ weight.T`": (
                lambda basis, weight: (
                    folded(basis, weight.T) if weight.shape[0] == weight.shape[1] else basis
                )
            ),
            "every frame has the columns of the first": first_frame_everywhere,
            "a frame is taken to be every so-manyth column; its columns stand side by side": (
                by_columns
            ),
            "the columns are ordered by output, and within that by frame": frames_last,
        },
    )
)
