"""Exercises of lesson 13: transfers of a fusion, moments of two parts, LayerNorm with GELU."""

import math

import numpy as np

from course.checks.exercises import FunctionExercise, Limit, Tolerance
from course_lessons.cases import CANCELS, extent, fixed, table
from course_lessons.edits import LessonKernel, edits
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
    mistakes=edits("""
        an input that a step names twice is counted twice; a thread loads it once
            set(inputs) -> inputs
        fused is always 2; there may be several arrays from outside
            len(read - made) + 1 -> 2
        fused, only what the first step reads is counted; a later one may need more from outside
            read - made -> set(steps[0][0])
        fused, a result on the way is written, too; only the last one is wanted
            len(read - made) + 1 -> len(read ^ made)
        the outputs are not counted: a write is a transfer, too
            + 1 for -> for
            made) + 1 -> made)
        an array from outside that two steps read is counted twice; fused, it is read once
            len(read - made)
            -> sum(name not in made for inputs, _ in steps for name in set(inputs))
        what is made on the way is counted as read; fused, it stays in registers
            read - made -> read
        an array that several steps read is counted once; apart, each step reads it again
            return apart -> return len(read) + len(steps)
        you return them in the other order
            return {}[::-1]
    """),
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
    mistakes=edits(r"""
        x² and the mean's square are subtracted: that loses digits where the mean is large
            difference**2 * count * share -> count * mean**2 + other_count * other_mean**2
            \n    return
            -> - (count * mean + other_count * other_mean) ** 2 / max(both, 1)\n    return
        the squares of the parts are added; the distance of the means is missing
            + difference**2 * count * share ->
        difference² is multiplied by both counts, and not divided by their sum
            count * share -> count * other_count
        the step for one new number is taken, difference * (other_mean - the new mean); here
        other_count numbers come in
            count * share -> count / max(both, 1)
        the squares are weighted by the counts; they are sums, and added as they are
            squares + other_squares -> squares * (1 - share) + other_squares * share
        the mean moves by difference / both, as for one new number; other_count come in
            difference * share -> difference / max(both, 1)
        you return them in another order: (count, mean, squares)
            return {}[1:] + {}[:1]
        the difference is taken from the mean after it has moved
            difference**2 -> (difference * (1 - share)) ** 2
        the mean moves away from the other part: difference is other_mean - mean
            mean + difference -> mean - difference
        you return the variance: the squares are not divided by the count yet
            return both, mean + difference * share, grown
            -> return both, mean + difference * share, grown / max(both, 1)
        difference is not squared
            difference**2 -> difference
        the mean is the middle of the two means, whatever their counts
            mean + difference * share -> (mean + other_mean) / 2
    """),
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
        extent(rng, 1, 13), extent(rng, 1, 256), eps=10.0 ** rng.integers(-6, 0),
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
    mistakes=edits("""
        GELU is missing
            gelu(y * gamma[column] + beta[column]) -> y * gamma[column] + beta[column]
        gamma and beta come after GELU; they come before it
            gelu(y * gamma[column] + beta[column]) -> gelu(y) * gamma[column] + beta[column]
        beta is missing
            + beta[column] ->
        gamma is missing
            * gamma[column] ->
        eps is missing, or too small
            + eps ->
        eps is added to the root; it belongs to the variance
            math.sqrt(warp_sum(squares) / columns + eps)
            -> (math.sqrt(warp_sum(squares) / columns) + eps)
        the variance divides by columns - 1
            (squares) / columns -> (squares) / max(columns - float32(1), float32(1))
        you multiply by the root; divide by it
            float32(1) / ->
        the sum of the squares is not divided by the columns
            (squares) / columns -> (squares)
        the sum is not divided by the columns: that is no mean
            (total) / columns -> (total)
        you divide by the variance, not by its root
            math.sqrt(warp_sum(squares) / columns + eps) -> (warp_sum(squares) / columns + eps)
        the mean is not subtracted from what is written
            y = (values[n] - mean) * -> y = values[n] *
        beyond the row's end (0 - mean)² is added to the squares
            lane + 32 * n < x.shape[1] -> True
        the mean is not subtracted before squaring
            (values[n] - mean) * (values[n] - mean) -> values[n] * values[n]
        you divide by the 256 places of a row in registers, not by its columns
            columns = float32(x.shape[1]) -> columns = float32(256)
        gamma and beta are taken at the lane, not at the column
            gamma[column] + beta[column] -> gamma[lane] + beta[lane]
        each lane takes the mean of its own numbers: warp_sum is missing
            warp_sum(total) -> total
        each lane takes its own squares alone: warp_sum is missing
            warp_sum(squares) -> squares
    """),
)  # fmt: skip
