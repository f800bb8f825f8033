"""Exercises of lesson 13: transfers of a fusion, moments of two parts, LayerNorm with GELU."""

import math

import numpy as np

from course.checks.exercises import FunctionExercise, Limit, Tolerance
from course_lessons.cases import CANCELS, extent, fixed, row_sizes, table
from course_lessons.edits import LessonKernel
from course_lessons.lesson10.exercises import ALL_LANES, ALL_WRITE, SHUFFLE_HINTS, row_case
from course_lessons.lesson13.rivals import of_layer_norm

# --- transfers before and after fusing ------------------------------------------------------------

_CHAINS = (
    ("LayerNorm, GELU, square", [(["x"], "a"), (["a"], "b"), (["b"], "y")]),
    ("Swish as sigmoid, then product", [(["x"], "s"), (["x", "s"], "y")]),
    ("bias, square, and the input once more",
     [(["x", "bias"], "a"), (["a", "a"], "b"), (["b", "x"], "c")]),
    ("a result on the way that nobody reads", [(["x"], "signs"), (["x", "bias"], "y")]),
)  # fmt: skip


def _any_chain(rng):
    known, steps = ["x", "bias", "gate", "residual", "w"][: rng.integers(1, 6)], []
    for number in range(extent(rng, 1, 12)):
        inputs = [str(name) for name in rng.choice(known, rng.integers(1, 6))]
        steps.append((inputs, f"step {number}"))
        known = [*known, f"step {number}"]
    return fixed(f"{len(steps)} steps", steps=steps)


def _transfers(steps):
    made = {output for _, output in steps}
    wanted = {name for inputs, _ in steps for name in inputs}
    return sum(len(set(inputs)) + 1 for inputs, _ in steps), len(wanted - made) + 1


FunctionExercise.declare(
    name="count-transfers",
    lesson=13,
    title="Count the transfers before and after fusing",
    reference=_transfers,
    cases=table("steps", *_CHAINS),
    drawer=_any_chain,
    drawn=20,
    hints={
        "wrong-result": "Apart: each step reads its different inputs and writes one output. "
        "Fused: what no step has made must be read, once, and the last output is written.",
        "wrong-shape": "Return two whole numbers, (apart, fused).",
    },
)  # fmt: skip

NORMAL = np.vectorize(math.erf)

# --- two parts of a row's moments -----------------------------------------------------------------

_MOMENTS = "count mean squares other_count other_mean other_squares"


def _any_parts(rng):
    level = rng.choice([-1, 1]) * rng.choice([1, 1e3, 1e6, 1e9])
    parts = []
    for _ in range(2):
        count = int(rng.choice([0, 1, extent(rng, 2, 3000), extent(rng, 2, 3000)]))
        squares = rng.uniform(0, 9 * count) if count > 1 else 0.0
        parts += [count, level + rng.uniform(-4, 4) if count else 0.0, squares]
    return fixed(
        f"{parts[0]:,} and {parts[3]:,} numbers, means around {level:g}",
        **dict(zip(_MOMENTS.split(), parts, strict=True)),
    )


def _moments(count, mean, squares, other_count, other_mean, other_squares):
    both = count + other_count
    difference = other_mean - mean
    share = other_count / max(both, 1)
    return both, mean + difference * share, squares + other_squares + difference**2 * count * share


FunctionExercise.declare(
    name="merge-moments",
    lesson=13,
    title="Mean and squares of two parts together",
    reference=_moments,
    cases=table(
        _MOMENTS,
        ("3 and 5 numbers", 3, 1.0, 2.0, 5, 3.5, 1.5),
        ("means around 100 million", 6, 1e8, 9.0, 2, 1e8 + 4, 1.0),
        ("the second is empty", 3, 2.0, 5.0, 0, 0.0, 0.0),
        ("the first is empty, one number comes in", 0, 0.0, 0.0, 1, 2.5, 0.0),
        ("both are empty", 0, 0.0, 0.0, 0, 0.0, 0.0),
    ),
    drawer=_any_parts,
    drawn=40,
    tolerance=Tolerance(64, "a handful of products and sums"),
    hints={
        "wrong-result": "both = count + other_count, difference = other_mean - mean. The mean "
        "moves by difference * other_count / both; the squares grow by difference² * count * "
        "other_count / both.",
        "raised": "Both parts may be empty: divide by max(both, 1).",
        "wrong-shape": "Return three numbers, (count, mean, squares).",
    },
)

# --- LayerNorm and GELU in one kernel -------------------------------------------------------------


def _rows(rows, columns, eps=1e-5, **more):
    factors = {
        "gamma": lambda rng, columns: rng.random(columns, dtype=np.float32) + np.float32(0.5),
        "beta": lambda rng, columns: rng.standard_normal(columns, dtype=np.float32),
        "eps": lambda rng, columns: np.float32(eps),
    }
    return row_case(rows, columns, **more, **factors)


def _any_rows(rng):
    spread = 10.0 ** rng.uniform(-3, 1)
    return _rows(
        row_sizes(rng)[0], extent(rng, 1, 256), eps=10.0 ** rng.integers(-6, 0),
        spread=spread, middle=float(rng.choice([0, -2, 500])) * spread,
    )  # fmt: skip


def _layer_norm_gelu(x, gamma, beta, eps):
    y = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + eps) * gamma + beta
    return y * (1 + NORMAL(y * math.sqrt(0.5))) / 2


LessonKernel.declare(
    name="layer-norm-gelu",
    rivals=of_layer_norm(_rows(16_384, 256)),
    lesson=13,
    title="LayerNorm and GELU in one kernel, the row in registers",
    outputs=("out",),
    reference=_layer_norm_gelu,
    cases=[
        _rows(4, 256),
        _rows(8, 64, eps=0.25),
        _rows(5, 100, spread=3, middle=-2),
        _rows(2, 250, middle=4000),
        _rows(24, 128, measured=True),
    ],
    drawer=_any_rows,
    drawn=6,
    tolerance=Tolerance(
        48,
        "a dozen additions, a root, and GELU; a mean far from 0 is rounded as it is",
        magnitude=lambda x, gamma, beta, eps: (
            gamma * (2 + np.abs(x).max(1, keepdims=True) / (x.std(1, keepdims=True) + eps**0.5))
            + np.abs(beta)
        ),
    ),
    forbidden={"float64", "uncoalesced", "same-value-race"},
    limits=[
        Limit("global", "load", "lanes", "element", 3, "x is read once and stays in values: "
              "one number of x, one of gamma, one of beta for each of out."),
        Limit("global", "load", "requests", "launch", 3 * 96, ALL_LANES.format("lanes share a "
              "row")),
        Limit("global", "store", "lanes", "element", 1, "Write each number once, at the end."),
        Limit("shared", "store", "requests", "launch", 0, "A warp needs shuffles alone."),
    ],
    cancels={
        CANCELS: lambda x: np.abs(x.mean(1, keepdims=True)) > 30 * x.std(1, keepdims=True),
    },
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
)  # fmt: skip
