"""Exercises of lesson 12 that write whole rows, a warp each: a softmax, LayerNorm with GELU."""

import math

import numpy as np

from course.checks import Case, KernelExercise, Limit, Tolerance, register
from course.exercises.lesson12 import ALL_LANES, SHUFFLE_HINTS, WARPS
from course.exercises.lesson12_numbers import LOWEST

NORMAL = np.vectorize(math.erf)
ALL_WRITE = "Each lane writes its columns, lane, lane + 32, lane + 64, ...: not lane 0 alone."


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
            _rows(2, 64, middle=-200),
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
                  "read once for both, and once more to write the row, each number by one lane."),
            Limit("global", "load", "requests", "launch", 2 * 128, ALL_LANES.format("lanes share "
                  "the reading")),
            Limit("global", "store", "lanes", "element", 1, "Write each number once, at the end."),
            Limit("global", "store", "requests", "launch", 128, ALL_LANES.format("lanes share the "
                  "writing")),
            Limit("shared", "store", "requests", "launch", 0, "A warp needs shuffles alone."),
        ],
        hints=SHUFFLE_HINTS
        | {
            "wrong-result": "A lane's largest begins with LOWEST, its total with 0. When the "
            "largest grows, the total is multiplied by exp(old largest - new largest) before the "
            "new power is added; the same when two lanes meet, whose pairs are exchanged before "
            "either is changed. All lanes write, so all need the result: shfl_xor_sync. A lane "
            "without a column goes along: one that returns early is missing in the shuffles.",
            "uninitialised-read": "A lane without a number has LOWEST and 0, which change nothing.",
            "unwritten-output": ALL_WRITE,
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
            "a lane's total is not multiplied down where a larger number comes in its columns": (
                lambda x: _not_rescaled(x, meeting=True)
            ),
            "the totals are not multiplied down where lanes meet": (
                lambda x: _not_rescaled(x, columns=True)
            ),
            "the largest number is not subtracted from what is written": lambda x: (
                np.exp(x) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
            ),
            "a step of five is missing: 16, 8, 4, 2 and 1 are five": lambda x: _each_lane(x, 2),
            "exp is missing in what is written": lambda x: (
                x / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
            ),
            "exp is missing in what is written, exp(number - largest)": lambda x: (
                (x - x.max(1, keepdims=True))
                / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
            ),
            "you multiply by the sum of the powers; divide by it": lambda x: (
                np.exp(x - x.max(1, keepdims=True))
                * np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)
            ),
            "only the first 32 columns are counted: a lane goes on by steps of 32": lambda x: (
                np.exp(x - x[:, :32].max(1, keepdims=True))
                / np.exp(x[:, :32] - x[:, :32].max(1, keepdims=True)).sum(1, keepdims=True)
            ),
            "the sum is infinite: is a power relative to LOWEST? It is exp(value - new), never "
            "exp(value - the largest before)": lambda x: np.zeros_like(x),
            "a new power is not relative to the largest: exp(value - new)": lambda x: _in_lanes(
                x, power=lambda value, new: np.exp(value)
            ),
            "the totals meet and the largest do not: exchange both": lambda x: _in_lanes(
                x, meet=lambda a, s, b, z: (a, s + z)
            ),
            "the largest meet and the totals do not: exchange both": lambda x: _in_lanes(
                x, meet=lambda a, s, b, z: (np.maximum(a, b), s)
            ),
            "largest = new is missing where lanes meet": lambda x: (
                _in_lanes(x, meet=lambda a, s, b, z: (a, _met(a, s, b, z)[1]))
            ),
            "the other lane's total is multiplied by your own factor; it has its own": lambda x: (
                _in_lanes(
                    x,
                    meet=lambda a, s, b, z: (
                        np.maximum(a, b), (s + z) * np.exp(a - np.maximum(a, b)),
                    ),
                )
            ),
            "each lane adds the whole row; its columns are lane, lane + 32, lane + 64, ...": (
                lambda x: _softmax(x) / 32
            ),
        },
    )
)  # fmt: skip


def _met(largest, total, other, other_total):
    """The pairs of two lanes merged."""
    new = np.maximum(largest, other)
    return new, total * np.exp(largest - new) + other_total * np.exp(other - new)


def _in_lanes(x, power=lambda value, new: np.exp(value - new), meet=_met):
    """What 32 lanes write that go through their columns and meet in five steps."""
    largest, total = np.full((len(x), 32), LOWEST), np.zeros((len(x), 32))
    lanes = np.arange(32)
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, x.shape[1], 32):
            value = x[:, start : start + 32]
            its = slice(value.shape[1])
            new = np.maximum(largest[:, its], value)
            total[:, its] = total[:, its] * np.exp(largest[:, its] - new) + power(value, new)
            largest[:, its] = new
        for distance in (16, 8, 4, 2, 1):
            others = lanes ^ distance
            largest, total = meet(largest, total, largest[:, others], total[:, others])
        of_column = np.arange(x.shape[1]) % 32
        return np.exp(x - largest[:, of_column]) / total[:, of_column]


def _each_lane(x, groups=32):
    """The softmax of the columns of each lane, or of every so-many-th lane."""
    out = np.empty_like(x)
    for lane in range(min(groups, x.shape[1])):
        out[:, lane::groups] = _softmax(x[:, lane::groups])
    return out


def _not_rescaled(x, columns=False, meeting=False):
    """As if powers relative to different numbers were added: in a lane, where lanes meet, both."""
    largest, total = x.max(1), 0.0
    for lane in range(min(32, x.shape[1])):
        some = x[:, lane::32]
        its_largest = some.max(1)
        so_far = its_largest[:, None] if columns else np.maximum.accumulate(some, axis=1)
        factor = np.exp(its_largest - largest) if meeting else 1.0
        total = total + np.exp(some - so_far).sum(1) * factor
    return np.exp(x - largest[:, None]) / np.reshape(total, (-1, 1))


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
            Limit("global", "load", "requests", "launch", 3 * 64, ALL_LANES.format("lanes share a "
                  "row")),
            Limit("global", "store", "lanes", "element", 1, "Write each number once, at the end."),
            Limit("shared", "store", "requests", "launch", 0, "A warp needs shuffles alone."),
        ],
        hints=SHUFFLE_HINTS
        | {
            "wrong-result": "mean = sum / columns; variance = sum of (value - mean)² / columns; "
            "then gelu((value - mean) / sqrt(variance + eps) * gamma + beta), with the gelu that "
            "is given: with tanh it is another function. A lane without a column goes along: one "
            "that returns early is missing in warp_sum.",
            "unwritten-output": ALL_WRITE,
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
            "you multiply by the root; divide by it": lambda x, gamma, beta, eps: _gelu(
                (x - x.mean(1, keepdims=True)) * np.sqrt(x.var(1, keepdims=True) + eps) * gamma
                + beta
            ),
            "the sum of the squares is not divided by the columns": lambda x, gamma, beta, eps: (
                _gelu(
                    (x - x.mean(1, keepdims=True))
                    / np.sqrt(x.var(1, keepdims=True) * x.shape[1] + eps) * gamma + beta
                )
            ),
            "the sum is not divided by the columns: that is no mean": lambda x, gamma, beta, eps: (
                _around(x, x.sum(1, keepdims=True), gamma, beta, eps)
            ),
            "you divide by the number of rows; columns is x.shape[1]": lambda x, gamma, beta, eps: (
                _around(x, x.sum(1, keepdims=True) / len(x), gamma, beta, eps, divisor=len(x))
            ),
            "gamma and beta are taken at n, not at the column": lambda x, gamma, beta, eps: _gelu(
                _normalised(x, eps) * gamma[np.arange(gamma.size) // 32]
                + beta[np.arange(beta.size) // 32]
            ),
            "gamma and beta are taken at the row, not at the column": lambda x, gamma, beta, eps: (
                _gelu(_normalised(x, eps) * _at_rows(gamma, x) + _at_rows(beta, x))
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
            "the mean is not subtracted before squaring": lambda x, gamma, beta, eps: _gelu(
                (x - x.mean(1, keepdims=True)) / np.sqrt((x**2).mean(1, keepdims=True) + eps)
                * gamma + beta
            ),
            "you divide by the 256 places of a row in registers, not by its columns": (
                lambda x, gamma, beta, eps: _of_256(x, gamma, beta, eps)
            ),
            "beta is added before gamma is multiplied": lambda x, gamma, beta, eps: _gelu(
                (_normalised(x, eps) + beta) * gamma
            ),
            "gamma and beta are taken at the lane, not at the column": (
                lambda x, gamma, beta, eps: _gelu(
                    _normalised(x, eps) * _at_lanes(gamma) + _at_lanes(beta)
                )
            ),
            "each lane takes the mean of its own numbers: warp_sum is missing": (
                lambda x, gamma, beta, eps: _apart(x, gamma, beta, eps, mean=True)
            ),
            "each lane takes its own squares alone: warp_sum is missing": (
                lambda x, gamma, beta, eps: _apart(x, gamma, beta, eps)
            ),
        },
    )
)  # fmt: skip


def _padded(x, gamma, beta, eps):
    mean = x.mean(1, keepdims=True)
    beyond = 256 - x.shape[1]
    variance = x.var(1, keepdims=True) + beyond * mean**2 / x.shape[1]
    return _gelu((x - mean) / np.sqrt(variance + eps) * gamma + beta)


def _of_256(x, gamma, beta, eps):
    mean = x.sum(1, keepdims=True) / 256
    variance = ((x - mean) ** 2).sum(1, keepdims=True) / 256
    return _gelu((x - mean) / np.sqrt(variance + eps) * gamma + beta)


def _around(x, middle, gamma, beta, eps, divisor=None):
    """Differences from another number than the mean, for variance and output."""
    variance = ((x - middle) ** 2).sum(1, keepdims=True) / (divisor or x.shape[1])
    return _gelu((x - middle) / np.sqrt(variance + eps) * gamma + beta)


def _at_rows(factors, x):
    return factors[np.arange(len(x)) % factors.size].reshape(-1, 1)


def _at_lanes(factors):
    return factors[np.arange(factors.size) % 32]


def _apart(x, gamma, beta, eps, mean=False):
    """As if each lane added its own columns only: for the mean, or for the squares."""
    lane = np.arange(x.shape[1]) % 32
    same = (lane[:, None] == lane).astype(np.float64)
    if mean:
        centred = x - x @ same / x.shape[1]
        squares = (centred**2).sum(1, keepdims=True)
    else:
        centred = x - x.mean(1, keepdims=True)
        squares = centred**2 @ same
    return _gelu(centred / np.sqrt(squares / x.shape[1] + eps) * gamma + beta)
