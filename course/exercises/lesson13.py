"""Exercises of lesson 13: bytes of a fusion, launches in time, frames, staged weights, banks."""

import numpy as np

from course.checks import Case, FunctionExercise, KernelExercise, Limit, Tolerance, register
from course.exercises.lesson03_judges import judge_pair
from course.models.spectral import gelu

# --- bytes of a fusion ----------------------------------------------------------------------------

#: Three networks: (launches, numbers of a sample, numbers of weights, results).
_CHAIN = (
    [(("x", "w"), "a"), (("a",), "b"), (("b", "v"), "y")],
    {"x": 64, "a": 128, "b": 128, "y": 10},
    {"w": 8192, "v": 1280},
    ["y"],
)
_TIED = (
    [(("x", "basis"), "code"), (("code",), "active"), (("active", "basis"), "y"),
     (("x", "y"), "errors")],
    {"x": 320, "code": 32, "active": 32, "y": 320, "errors": 1},
    {"basis": 10240},
    ["y", "errors"],
)  # fmt: skip
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


def _bytes(launches, of_a_sample, of_weights, results, batch, once=True, kept=False, width=4):
    """Bytes of the launches, and of one kernel; with `once` false a weight counts each time."""
    size = {name: width * batch * count for name, count in of_a_sample.items()}
    size |= {name: width * count for name, count in of_weights.items()}
    unfused = sum(size[name] for reads, written in launches for name in (*reads, written))
    reads = [name for reads, _ in launches for name in reads]
    made = {written for _, written in launches}
    given = [name for name in (set(reads) if once else reads) if name not in made]
    return unfused, sum(size[name] for name in (*given, *(made if kept else results)))


def _weights_each(launches, of_a_sample, of_weights, results, batch):
    counts = {name: batch * count for name, count in of_weights.items()}
    return _bytes(launches, of_a_sample, counts, results, batch)


register(
    FunctionExercise(
        name="fused-bytes",
        lesson=13,
        title="Bytes of many launches, and of one",
        judge=judge_pair(
            ("bytes of the launches", "bytes of one kernel"),
            _bytes,
            {
                "numbers are counted, not bytes: 4 for each": lambda **a: _bytes(**a, width=1),
                "what is read twice counts twice in the one kernel, too": (
                    lambda **a: _bytes(**a, once=False)
                ),
                "the one kernel writes what lies between the layers, too": (
                    lambda **a: _bytes(**a, kept=True)
                ),
                "weights are multiplied by the batch": _weights_each,
                "the batch is left out": lambda **a: _bytes(**(a | {"batch": 1})),
            },
        ),
        cases=[
            _network("one launch", _ONE, 3),
            _network("three in a row", _CHAIN, 32),
            _network("a basis that is read twice", _TIED, 32),
            _network("a basis that is read twice", _TIED, 4096),
            _network("three in a row", _CHAIN, 1),
        ],
    )
)

# --- launches in time -----------------------------------------------------------------------------


def _timeline(name, launch, works):
    return Case(name, lambda rng: {"launch": launch, "works": list(works)})


def _until_done(launch, works):
    now = done = 0.0
    for work in works:
        now += launch
        done = max(now, done) + work
    return done


register(
    FunctionExercise(
        name="time-of-launches",
        lesson=13,
        title="When the last kernel is done",
        reference=_until_done,
        cases=[
            _timeline("one kernel", 0.03, [0.5]),
            _timeline("ten short ones", 0.03, [0.004] * 10),
            _timeline("ten long ones", 0.03, [0.4] * 10),
            _timeline("a long one in front", 0.02, [0.09, 0.001, 0.001, 0.001, 0.001, 0.001]),
            _timeline("a long one at the end", 0.02, [0.001, 0.001, 0.09]),
            _timeline("long and short in turns", 0.01, [0.025, 0.002, 0.03, 0.001, 0.001, 0.02]),
            _timeline("none", 0.03, []),
        ],
        tolerance=Tolerance(64, "a dozen sums", magnitude=lambda launch, works: 1.0),
        hints={
            "wrong-result": "Two clocks: one for the host, which goes on by `launch` at each, and "
            "one for when the GPU is done. A kernel begins when it is launched and the one before "
            "it is done, whichever is later.",
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
        },
    )
)

# --- LayerNorm, a warp a frame --------------------------------------------------------------------

_EPSILON = 1e-5


def _frames(batch, level=0.0, measured=False):
    def arguments(rng):
        x = rng.standard_normal((batch, 320), dtype=np.float32)
        x *= (0.5 + rng.random((batch, 1))).astype(np.float32)
        return {"x": x + np.float32(level), "out": np.empty((batch, 320), np.float32)}

    plural = "spectra" if batch > 1 else "spectrum"
    at = f", all levels near {level:g}" if level else ""
    return Case(f"{batch} {plural}{at}", arguments, block=160, grid=batch, measured=measured)


def _parts(x):
    return x.reshape(len(x), 5, 64)


def _normalised(x, axis=2, epsilon=_EPSILON, root=np.sqrt, share=1.0):
    frames = _parts(x)
    centred = frames - frames.mean(axis=axis, keepdims=True)
    variance = share * (centred**2).mean(axis=axis, keepdims=True)
    return (centred / root(variance + epsilon)).reshape(x.shape)


def _half_sums(x):
    """What comes out where only one of a lane's two numbers is in the sums."""
    frames = _parts(x)
    centred = frames - frames[..., :32].mean(axis=2, keepdims=True)
    variance = (centred[..., :32] ** 2).mean(axis=2, keepdims=True)
    return (centred / np.sqrt(variance + _EPSILON)).reshape(x.shape)


register(
    KernelExercise(
        name="normalise-frames",
        lesson=13,
        title="LayerNorm of five frames, a warp each",
        outputs=("out",),
        reference=_normalised,
        cases=[
            _frames(1),
            _frames(3),
            _frames(2, level=200.0),
            _frames(7, measured=True),
        ],
        tolerance=Tolerance(
            24,
            "sums of 64, a difference, a root and a quotient; what a level is rounded by is "
            "divided by the frame's spread",
            magnitude=lambda x: 4 + np.abs(x).max() / x.reshape(len(x), 5, 64).std(axis=2).min(),
        ),
        forbidden={"float64", "uncoalesced", "negative-index"},
        limits=[
            Limit(
                "global",
                "load",
                "lanes",
                "element",
                1,
                "Each number of x is needed once from memory: keep it in a variable.",
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
            "unwritten-output": "A lane has two numbers of its frame: lane and lane + 32.",
            "wrong-result": "The mean is the sum of 64 numbers, two of each lane, / 64; the "
            "variance is the mean of (value - mean) squared.",
            "out-of-bounds": "The frame is threadIdx.x // 32, from 0 to 4, and its first column "
            "is 64 * frame.",
            "float64": "Write float32(1e-5) and float32(0): bare literals are float64.",
            "uncoalesced": "Neighbouring lanes take neighbouring numbers: lane and lane + 32, not "
            "2 * lane and 2 * lane + 1.",
        },
        mistakes={
            "each lane sums one of its two numbers only": _half_sums,
            "the variance is not divided by 64": lambda x: _normalised(x, share=64.0),
            "the variance is divided by 63: LayerNorm divides by 64": (
                lambda x: _normalised(x, share=64 / 63)
            ),
            "the root is missing": lambda x: _normalised(x, root=lambda variance: variance),
            "epsilon is missing": lambda x: _normalised(x, epsilon=0.0),
            "the mean is not subtracted in the result": lambda x: (
                _parts(x) / np.sqrt(_parts(x).var(axis=2, keepdims=True) + _EPSILON)
            ).reshape(x.shape),
            "a spectrum is normalised as a whole: each frame has its own mean": (
                lambda x: _normalised(x, axis=(1, 2))
            ),
            "the mean over the frames is taken, not over the bands": (
                lambda x: _normalised(x, axis=1)
            ),
        },
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


def _linear(z, weight, bias):
    return z @ weight + bias


register(
    KernelExercise(
        name="staged-weights",
        lesson=13,
        title="A Linear and GELU, weights read once a block",
        outputs=("out",),
        reference=lambda z, weight, bias: gelu(_linear(z, weight, bias)),
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
        forbidden={"float64", "uncoalesced", "bank-conflict", "negative-index"},
        limits=[
            Limit(
                "global",
                "load",
                "sectors",
                "element",
                3,
                "Weights that each block reads once make a quarter of a sector, and a warp that "
                "reads a number of z together two at most: copy the weights to shared memory "
                "before the loop over rows.",
            ),
            Limit(
                "global",
                "store",
                "lanes",
                "element",
                1,
                "Each result is stored once, when it is done.",
            ),
        ],
        hints={
            "barrier-divergence": "Warps of a block have different numbers of rows. Copy the "
            "weights and wait **before** the loop over rows; inside it a warp needs no other one.",
            "race": "Threads read weights that another one is still copying: cuda.syncthreads() "
            "between the copying and the loop over rows.",
            "uninitialised-read": "Some weights are read that nobody has copied: each thread "
            "copies every blockDim.x-th of 4,096.",
            "unwritten-output": "A lane has two columns, lane and lane + 32, and a warp every row "
            "from its own number on, in steps of all warps of the grid.",
            "out-of-bounds": "Compare the row with z.shape[0]: not every warp has one.",
            "wrong-result": "Column j of the result is the sum over k of z[row, k] * weight[k, j], "
            "plus bias[j], and then gelu.",
            "float64": "Begin the sums with bias[lane] and bias[lane + 32].",
            "uncoalesced": "weight is (inputs, outputs): neighbouring lanes read neighbouring "
            "outputs of one input.",
            "bank-conflict": "Lay the weights down as they come, and let neighbouring lanes read "
            "neighbouring columns.",
        },
        mistakes={
            "GELU is missing": _linear,
            "the bias is missing": lambda z, weight, bias: gelu(z @ weight),
            "the weights are turned: weight[k, j], not weight[j, k]": (
                lambda z, weight, bias: gelu(z @ weight.T + bias)
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


def _folded(basis, weight):
    frames = basis.reshape(len(basis), -1, weight.shape[1])
    return (frames @ weight.T).reshape(len(basis), -1)


def _by_columns(basis, weight):
    """Frames taken from every so-manyth column of the basis, not from neighbours."""
    wide = weight.shape[1]
    frames = basis.reshape(len(basis), wide, -1).swapaxes(1, 2)
    return (frames @ weight.T).reshape(len(basis), -1)


def _first_frame_everywhere(basis, weight):
    wide = weight.shape[1]
    return np.tile(basis[:, :wide] @ weight.T, basis.shape[1] // wide)


def _frames_last(basis, weight):
    frames = basis.reshape(len(basis), -1, weight.shape[1])
    return (frames @ weight.T).swapaxes(1, 2).reshape(len(basis), -1)


register(
    FunctionExercise(
        name="folded-decoder",
        lesson=13,
        title="Two Linears folded into one",
        reference=_folded,
        cases=[
            _two_linears(3, 1, 4, 4),
            _two_linears(32, 5, 64, 64),
            _two_linears(7, 3, 5, 2),
            _two_linears(1, 2, 3, 6),
        ],
        tolerance=Tolerance(
            80,
            "sums of up to 64 products",
            magnitude=lambda basis, weight: _folded(np.abs(basis), np.abs(weight)),
        ),
        hints={
            "wrong-shape": "The result has a row for each row of the basis, and `outputs` columns "
            "for each frame.",
            "wrong-result": "Column o of frame f is the sum over b of basis[row, wide * f + b] * "
            "weight[o, b].",
            "raised": "The basis has all frames side by side: cut its rows into frames first, "
            "basis.reshape(rows, frames, wide).",
        },
        mistakes={
            "the weight is not turned: it is (outputs, inputs), so `frames @ weight.T`": (
                lambda basis, weight: (
                    _folded(basis, weight.T) if weight.shape[0] == weight.shape[1] else basis
                )
            ),
            "every frame has the columns of the first": _first_frame_everywhere,
            "a frame is taken to be every so-manyth column; its columns stand side by side": (
                _by_columns
            ),
            "the columns are ordered by output, and within that by frame": _frames_last,
        },
    )
)
