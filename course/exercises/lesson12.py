"""Exercises of lesson 12 whose answers are kernels: sums by shuffles, a softmax, a fused row."""

import math

import numpy as np

from course.checks import Case, KernelExercise, Limit, Tolerance, register

WARPS = 4  # of a block where a warp has a row
NORMAL = np.vectorize(math.erf)

SHUFFLE_HINTS = {
    "barrier-divergence": "All 32 lanes make every shuffle. Guard what a lane loads, never the "
    "shuffle: a lane without a number gives one that changes nothing.",
    "out-of-bounds": "The last block may have warps without a row, and the last round of a row "
    "lanes without a column: compare with x.shape first.",
    "uncoalesced": "Lane l takes the columns l, l + 32, l + 64, ...: neighbours read neighbours.",
    "float64": "Start a sum with float32(0): 0.0 is float64.",
    "unwritten-output": "Each row has a warp; one of its lanes, or each for its columns, stores.",
}


def _rows(rows, columns, spread=1.0, middle=0.0, measured=False, **factors):
    """A case of rows with a warp each; `factors` are further arguments by name, from rng."""

    def arguments(rng):
        x = rng.standard_normal((rows, columns), dtype=np.float32) * np.float32(spread)
        given = {"x": x + np.float32(middle)}
        given |= {name: make(rng, columns) for name, make in factors.items()}
        return given | {"out": np.empty((rows, columns), np.float32)}

    about = f" around {middle:g}" if middle else ""
    return Case(
        f"{rows} x {columns}{about}",
        arguments,
        block=32 * WARPS,
        grid=-(-rows // WARPS),
        measured=measured,
    )


# --- a warp adds a row ----------------------------------------------------------------------------


def _sums(rows, columns, measured=False):
    def arguments(rng):
        x = rng.standard_normal((rows, columns), dtype=np.float32)
        return {"x": x, "out": np.empty(rows, np.float32)}

    name = f"{rows} x {columns}"
    return Case(name, arguments, block=32 * WARPS, grid=-(-rows // WARPS), measured=measured)


def _lanes_of(x, lanes):
    """The sum over the columns of some lanes."""
    return x[:, np.isin(np.arange(x.shape[1]) % 32, lanes)].sum(1)


register(
    KernelExercise(
        name="warp-row-sum",
        lesson=12,
        title="A warp adds a row",
        outputs=("out",),
        reference=lambda x: x.sum(1),
        cases=[
            _sums(4, 32),
            _sums(8, 96),
            _sums(5, 70),
            _sums(3, 7),
            _sums(1, 1),
            _sums(32, 256, measured=True),
        ],
        tolerance=Tolerance(
            24,
            "up to 8 additions in a lane and 5 between lanes",
            magnitude=lambda x: np.abs(x).sum(1),
        ),
        forbidden={"float64", "negative-index", "uncoalesced", "same-value-race"},
        limits=[
            Limit("shared", "store", "requests", "launch", 0, "Lanes exchange registers: shuffles "
                  "do without shared memory."),
            Limit("global", "load", "lanes", "element", 256, "Load each number once."),
            Limit("global", "store", "lanes", "element", 1, "One lane stores the sum, lane 0."),
        ],
        hints=SHUFFLE_HINTS
        | {
            "same-value-race": "All lanes have the sum, and one stores it: if lane == 0.",
            "wrong-result": "Each lane adds its columns first. Then five shuffles, with 16, 8, 4, "
            "2 and 1, each followed by an addition.",
        },
        mistakes={
            "only the first 32 columns are added": lambda x: x[:, :32].sum(1),
            "a lane's own columns alone are stored: the lanes never meet": lambda x: (
                _lanes_of(x, [0])
            ),
            "one step of five is missing: 16, 8, 4, 2 and 1 are five": lambda x: (
                _lanes_of(x, range(0, 32, 2))
            ),
            "the first step is missing: it starts with 16": lambda x: _lanes_of(x, range(16)),
            "you return the mean, not the sum": lambda x: x.mean(1),
        },
    )
)  # fmt: skip

# --- a block adds, one atomic each ----------------------------------------------------------------

BLOCKS = 3


def _all(size, blocks=BLOCKS, measured=False):
    def arguments(rng):
        return {
            "x": rng.standard_normal(size, dtype=np.float32),
            "out": np.zeros(1, np.float32),
        }

    plural = "s" * (blocks != 1)
    name = f"{size:,} elements, {blocks} block{plural}"
    return Case(name, arguments, block=256, grid=blocks, measured=measured)


def _of_threads(x, threads):
    """The sum of the elements that some threads of each block load, 3 blocks of 256."""
    return np.array([x[np.isin(np.arange(x.size) % 256, threads)].sum()])


register(
    KernelExercise(
        name="sum-several",
        lesson=12,
        title="Several elements a thread, one atomic a block",
        updated=("out",),
        reference=lambda x, out: np.array([x.sum()]),
        cases=[
            _all(256, 1),
            _all(768),
            _all(6_000),
            _all(1_003),
            _all(1),
            _all(9_216, measured=True),
        ],
        tolerance=Tolerance(
            40,
            "up to 12 additions in a thread, 5 and 3 between lanes, 3 atomics",
            magnitude=lambda x: np.array([np.abs(x).sum()]),
        ),
        forbidden={"float64", "negative-index", "uncoalesced"},
        limits=[
            Limit("global", "atomic", "lanes", "launch", BLOCKS, "One thread of each block adds to "
                  "out, after the warps have met in shared memory."),
            Limit("global", "load", "lanes", "launch", 9_216, "Load each element once."),
            Limit("shared", "store", "lanes", "launch", 8 * BLOCKS, "One lane of each warp stores "
                  "its warp's sum: 8 numbers a block."),
        ],
        hints=SHUFFLE_HINTS
        | {
            "race": "The warps' sums are stored, then all wait (cuda.syncthreads()), then one warp "
            "or one thread reads them. And only atomics may add to out.",
            "out-of-bounds": "for i in range(cuda.grid(1), x.size, cuda.gridsize(1)) stays inside.",
            "barrier-divergence": "Shuffles and the barrier stand outside of every if: all threads "
            "make them. warp_sum, too.",
            "wrong-result": "A thread's own elements, then warp_sum, then the warps' sums in "
            "shared memory, then one atomic a block.",
            "uninitialised-read": "sums has a place for each of the 8 warps: lane 0 of every warp "
            "stores there.",
        },
        mistakes={
            "each thread adds one element: the loop over the rest is missing": lambda x: np.array(
                [x[: 256 * BLOCKS].sum()]
            ),
            "only the first warp of each block is counted": lambda x: _of_threads(x, range(32)),
            "only the first lane of each warp is counted: warp_sum is missing": lambda x: (
                _of_threads(x, range(0, 256, 32))
            ),
            "only one thread of each block is counted": lambda x: _of_threads(x, [0]),
            "only block 0 is counted: every block adds to out": lambda x: np.array(
                [x[np.arange(x.size) // 256 % BLOCKS == 0].sum()]
            ),
        },
    )
)  # fmt: skip

# --- softmax online -------------------------------------------------------------------------------


def _softmax(x):
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


register(
    KernelExercise(
        name="softmax-online",
        lesson=12,
        title="Softmax in two readings, a warp a row",
        outputs=("out",),
        reference=_softmax,
        cases=[
            _rows(8, 128, spread=3),
            _rows(4, 32),
            _rows(5, 70, spread=20),
            _rows(3, 7),
            _rows(2, 64, middle=200),
            _rows(1, 1),
            _rows(16, 256, spread=4, measured=True),
        ],
        tolerance=Tolerance(
            400,
            "an exponential's argument of up to 100 is rounded before it is taken",
            magnitude=lambda x: _softmax(x) + 1e-30,
        ),
        forbidden={"float64", "negative-index", "uncoalesced"},
        limits=[
            Limit("global", "load", "lanes", "element", 2, "Maximum and sum in the same loop: x is "
                  "read once for both, and once more to write the row."),
            Limit("global", "store", "lanes", "element", 1, "Write each number once, at the end."),
            Limit("shared", "store", "requests", "launch", 0, "A warp needs shuffles alone."),
        ],
        hints=SHUFFLE_HINTS
        | {
            "wrong-result": "A lane's largest begins with LOWEST, its total with 0. When the "
            "largest grows, the total is multiplied by exp(old largest - new largest) before the "
            "new power is added; the same when two lanes meet.",
            "uninitialised-read": "A lane without a number has LOWEST and 0, which change nothing.",
        },
        mistakes={
            "the powers are not divided by their sum": lambda x: np.exp(
                x - x.max(1, keepdims=True)
            ),
            "you divide by the sum of the numbers, not of their powers": lambda x: (
                np.exp(x - x.max(1, keepdims=True)) / x.sum(1, keepdims=True)
            ),
            "a softmax of each lane's columns: the lanes never meet": lambda x: _each_lane(x),
            "the sums are not multiplied down where a larger number comes": lambda x: (
                _not_rescaled(x)
            ),
        },
    )
)  # fmt: skip


def _each_lane(x):
    out = np.empty_like(x)
    for lane in range(min(32, x.shape[1])):
        out[:, lane::32] = _softmax(x[:, lane::32])
    return out


def _not_rescaled(x):
    """As if each lane added powers relative to its largest so far, and the lanes' sums as such."""
    total = 0.0
    for lane in range(min(32, x.shape[1])):
        some = x[:, lane::32]
        total = total + np.exp(some - np.maximum.accumulate(some, axis=1)).sum(1)
    return np.exp(x - x.max(1, keepdims=True)) / np.reshape(total, (-1, 1))


# --- LayerNorm and GELU in one kernel -------------------------------------------------------------

EPS = np.float32(1e-5)
FACTORS = {
    "gamma": lambda rng, columns: rng.random(columns, dtype=np.float32) + np.float32(0.5),
    "beta": lambda rng, columns: rng.standard_normal(columns, dtype=np.float32),
    "eps": lambda rng, columns: EPS,
}


def _normalised(x, eps, ddof=0, inside=True):
    centred = x - x.mean(1, keepdims=True)
    variance = (centred**2).sum(1, keepdims=True) / np.maximum(x.shape[1] - ddof, 1)
    return centred / (np.sqrt(variance + eps) if inside else np.sqrt(variance) + eps)


def _gelu(y):
    return y * (1 + NORMAL(y * math.sqrt(0.5))) / 2


def _layer_norm_gelu(x, gamma, beta, eps):
    return _gelu(_normalised(x, eps) * gamma + beta)


register(
    KernelExercise(
        name="layer-norm-gelu",
        lesson=12,
        title="LayerNorm and GELU in one kernel, the row in registers",
        outputs=("out",),
        reference=_layer_norm_gelu,
        cases=[
            _rows(4, 256, **FACTORS),
            _rows(8, 64, **FACTORS),
            _rows(4, 96, spread=2e-3, **FACTORS),
            _rows(5, 100, spread=3, middle=-2, **FACTORS),
            _rows(3, 7, **FACTORS),
            _rows(2, 250, middle=4000, **FACTORS),
            _rows(1, 1, **FACTORS),
            _rows(16, 128, measured=True, **FACTORS),
        ],
        tolerance=Tolerance(
            48,
            "a dozen additions, a root, and GELU; a mean far from 0 is rounded as it is",
            magnitude=lambda x, gamma, beta: (
                gamma * (2 + np.abs(x).max(1, keepdims=True) / (x.std(1, keepdims=True) + 3e-3))
                + np.abs(beta)
            ),
        ),
        forbidden={"float64", "negative-index", "uncoalesced"},
        limits=[
            Limit("global", "load", "lanes", "element", 3, "x is read once and stays in values: "
                  "one number of x, one of gamma, one of beta for each of out."),
            Limit("global", "store", "lanes", "element", 1, "Write each number once, at the end."),
            Limit("shared", "store", "requests", "launch", 0, "A warp needs shuffles alone."),
        ],
        hints=SHUFFLE_HINTS
        | {
            "wrong-result": "mean = sum / columns; variance = sum of (value - mean)² / columns; "
            "then gelu((value - mean) / sqrt(variance + eps) * gamma + beta).",
            "uninitialised-read": "In the parts beyond the row's end values holds nothing: leave "
            "them out of every sum, or fill in 0 and leave them out of the squares.",
        },
        mistakes={
            "GELU is missing": lambda x, gamma, beta, eps: _normalised(x, eps) * gamma + beta,
            "gamma and beta come after GELU; they come before it": lambda x, gamma, beta, eps: (
                _gelu(_normalised(x, eps)) * gamma + beta
            ),
            "beta is missing": lambda x, gamma, beta, eps: _gelu(_normalised(x, eps) * gamma),
            "gamma is missing": lambda x, gamma, beta, eps: _gelu(_normalised(x, eps) + beta),
            "eps is missing, or too small": lambda x, gamma, beta, eps: _gelu(
                _normalised(x, 1e-30) * gamma + beta
            ),
            "eps is added to the root; it belongs to the variance": lambda x, gamma, beta, eps: (
                _gelu(_normalised(x, eps, inside=False) * gamma + beta)
            ),
            "the variance divides by columns - 1": lambda x, gamma, beta, eps: _gelu(
                _normalised(x, eps, ddof=1) * gamma + beta
            ),
            "you divide by the variance, not by its root": lambda x, gamma, beta, eps: _gelu(
                (x - x.mean(1, keepdims=True)) / (x.var(1, keepdims=True) + eps) * gamma + beta
            ),
            "the mean is not subtracted from what is written": lambda x, gamma, beta, eps: _gelu(
                x / np.sqrt(x.var(1, keepdims=True) + eps) * gamma + beta
            ),
            "beyond the row's end (0 - mean)² is added to the squares": (
                lambda x, gamma, beta, eps: _padded(x, gamma, beta, eps)
            ),
        },
    )
)  # fmt: skip


def _padded(x, gamma, beta, eps):
    mean = x.mean(1, keepdims=True)
    beyond = 256 - x.shape[1]
    variance = x.var(1, keepdims=True) + beyond * mean**2 / x.shape[1]
    return _gelu((x - mean) / np.sqrt(variance + eps) * gamma + beta)
