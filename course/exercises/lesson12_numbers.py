"""Exercises of lesson 12 whose answers are plain functions: parts that meet, bytes that move."""

import math

import numpy as np

from course.checks import Case, FunctionExercise, Tolerance, register

# --- two parts of a softmax -----------------------------------------------------------------------

LOWEST = -3.4028234663852886e38  # float32's

_PAIRS = (  # largest and total of two parts
    ("the second has the larger number", (1.0, 2.5), (3.0, 1.25)),
    ("the first has the larger number", (2.0, 4.0), (-1.0, 3.0)),
    ("equal", (0.5, 1.0), (0.5, 2.0)),
    ("far apart, the second above", (-900.0, 7.0), (900.0, 1.5)),
    ("far apart, the first above", (900.0, 7.0), (-900.0, 1.5)),
    ("the first is empty", (LOWEST, 0.0), (-4.0, 2.0)),
    ("the second is empty", (5.0, 3.0), (LOWEST, 0.0)),
)


def _merged(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    return both, total * math.exp(largest - both) + other_total * math.exp(other_largest - both)


def _as_if_second_larger(largest, total, other_largest, other_total):
    with np.errstate(over="ignore"):
        grown = total * np.exp(largest - other_largest) + other_total
        return max(largest, other_largest), float(grown)


def _not_relative(largest, total, other_largest, other_total):
    both, right = _merged(largest, total, other_largest, other_total)
    with np.errstate(over="ignore"):
        return both, float(right * np.exp(both))


def _with_total(change):
    """The right largest number, another total of the two totals and their exponents."""

    def wrong(largest, total, other_largest, other_total):
        both = max(largest, other_largest)
        return both, change(total, other_total, largest - both, other_largest - both)

    return wrong


def _turned(largest, total, other_largest, other_total):
    both = max(largest, other_largest)
    with np.errstate(over="ignore", invalid="ignore"):
        factors = np.exp(both - np.array([largest, other_largest]))
        return both, float(total * factors[0] + other_total * factors[1])


register(
    FunctionExercise(
        name="merge-softmax",
        lesson=12,
        title="Two parts of a softmax become one",
        reference=_merged,
        cases=[
            Case(
                name,
                lambda rng, a=one, b=other: {
                    "largest": a[0], "total": a[1], "other_largest": b[0], "other_total": b[1],
                },
            )
            for name, one, other in _PAIRS
        ],
        tolerance=Tolerance(64, "two exponentials, two products and a sum"),
        hints={
            "wrong-result": "Both totals must become relative to the same largest number: multiply "
            "each by exp(its own largest - the larger of the two), then add.",
            "raised": "math.exp of a large number overflows. The exponents here are never above 0: "
            "each part's largest less the larger of the two.",
            "wrong-shape": "Return two numbers, (largest, total).",
        },
        mistakes={
            "the total of the part with the lower largest is not multiplied down; either part may "
            "be that one": lambda largest, total, other_largest, other_total: (
                max(largest, other_largest), total + other_total,
            ),
            "the exponent is turned round: exp(larger - own) is at least 1": _turned,
            "each total is multiplied by the factor of the other part": (
                lambda largest, total, other_largest, other_total: _merged(
                    largest, other_total, other_largest, total
                )
            ),
            "the smaller of the two is taken as the largest of both": (
                lambda largest, total, other_largest, other_total: (
                    min(largest, other_largest), total + other_total,
                )
            ),
            "the two results are in the other order: (largest, total)": (
                lambda largest, total, other_largest, other_total: (
                    _merged(largest, total, other_largest, other_total)[::-1]
                )
            ),
            "the second part is taken as the one with the larger number; it may be the first": (
                _as_if_second_larger
            ),
            "nothing is subtracted in the exponents": _not_relative,
            "both totals are multiplied by the first one's factor; each has its own": _with_total(
                lambda total, other, first, second: (total + other) * math.exp(first)
            ),
            "both totals are multiplied by the second one's factor; each has its own": _with_total(
                lambda total, other, first, second: (total + other) * math.exp(second)
            ),
            "exp is missing: the totals are multiplied by differences": _with_total(
                lambda total, other, first, second: total * first + other * second
            ),
            "the two factors are added; each is a factor of its part's total": _with_total(
                lambda total, other, first, second: math.exp(first) + math.exp(second)
            ),
            "the two largest are added": lambda largest, total, other_largest, other_total: (
                largest + other_largest, total + other_total,
            ),
        },
    )
)  # fmt: skip

# --- two parts of a row's moments -----------------------------------------------------------------

_PARTS = (
    ("3 and 5 numbers", (3, 1.0, 2.0), (5, 3.5, 1.5)),
    ("equal means", (4, 2.0, 3.0), (4, 2.0, 5.0)),
    ("one number comes in", (7, -1.5, 4.0), (1, 2.5, 0.0)),
    ("means around 100 million", (6, 1e8, 9.0), (2, 1e8 + 4, 1.0)),
    ("the second is empty", (3, 2.0, 5.0), (0, 0.0, 0.0)),
    ("the first is empty", (0, 0.0, 0.0), (3, 2.0, 5.0)),
    ("both are empty", (0, 0.0, 0.0), (0, 0.0, 0.0)),
)
_MOMENTS = ("count", "mean", "squares", "other_count", "other_mean", "other_squares")


def _moments(count, mean, squares, other_count, other_mean, other_squares):
    both = count + other_count
    difference = other_mean - mean
    share = other_count / max(both, 1)
    return both, mean + difference * share, squares + other_squares + difference**2 * count * share


def _variance(count, mean, squares, other_count, other_mean, other_squares):
    right = _moments(count, mean, squares, other_count, other_mean, other_squares)
    return *right[:2], right[2] / max(right[0], 1)


def _by_raw_squares(count, mean, squares, other_count, other_mean, other_squares):
    """As if sums of x² were made of the parts, and the square of the mean subtracted again."""
    both = max(count + other_count, 1)
    total = count * mean + other_count * other_mean
    raw = squares + count * mean**2 + other_squares + other_count * other_mean**2
    return count + other_count, total / both, raw - total * total / both


def _with_squares(change):
    """The right count and mean, other squares."""

    def wrong(count, mean, squares, other_count, other_mean, other_squares):
        right = _moments(count, mean, squares, other_count, other_mean, other_squares)
        difference, both = other_mean - mean, max(count + other_count, 1)
        return *right[:2], squares + other_squares + change(difference, count, other_count, both)

    return wrong


register(
    FunctionExercise(
        name="merge-moments",
        lesson=12,
        title="Mean and squares of two parts together",
        reference=_moments,
        cases=[
            Case(name, lambda rng, v=(*one, *other): dict(zip(_MOMENTS, v, strict=True)))
            for name, one, other in _PARTS
        ],
        tolerance=Tolerance(64, "a handful of products and sums"),
        hints={
            "wrong-result": "both = count + other_count, difference = other_mean - mean. The mean "
            "moves by difference * other_count / both; the squares grow by difference² * count * "
            "other_count / both.",
            "raised": "Both parts may be empty: divide by max(both, 1).",
            "wrong-shape": "Return three numbers, (count, mean, squares).",
        },
        mistakes={
            "x² and the mean's square are subtracted: that loses digits where the mean is large": (
                _by_raw_squares
            ),
            "the squares of the parts are added; the distance of the means is missing": (
                _with_squares(lambda difference, count, other, both: 0)
            ),
            "difference² is multiplied by both counts, and not divided by their sum": (
                _with_squares(lambda difference, count, other, both: difference**2 * count * other)
            ),
            "the step for one new number is taken, difference * (other_mean - the new mean); here "
            "other_count numbers come in": _with_squares(
                lambda difference, count, other, both: difference**2 * count / both
            ),
            "difference² is multiplied by the other one's share alone; by count, too": (
                _with_squares(lambda difference, count, other, both: difference**2 * other / both)
            ),
            "other_squares is missing": lambda **parts: _moments(
                **(parts | {"other_squares": 0.0})
            ),
            "the first part's squares are missing": lambda **parts: _moments(
                **(parts | {"squares": 0.0})
            ),
            "the squares are weighted by the counts; they are sums, and added as they are": (
                lambda count, mean, squares, other_count, other_mean, other_squares: _moments(
                    count,
                    mean,
                    squares * count / max(count + other_count, 1),
                    other_count,
                    other_mean,
                    other_squares * other_count / max(count + other_count, 1),
                )
            ),
            "the mean moves by difference / both, as for one new number; other_count come in": (
                lambda count, mean, squares, other_count, other_mean, other_squares: (
                    count + other_count,
                    mean + (other_mean - mean) / max(count + other_count, 1),
                    _moments(count, mean, squares, other_count, other_mean, other_squares)[2],
                )
            ),
            "you return them in another order: (count, mean, squares)": lambda **parts: (
                _moments(**parts)[1:] + _moments(**parts)[:1]
            ),
            "difference² is added once; it counts for all numbers of both parts": (
                _with_squares(lambda difference, count, other, both: difference**2)
            ),
            "difference² is divided by the sum of the counts twice": (
                _with_squares(
                    lambda difference, count, other, both: difference**2 * count * other / both**2
                )
            ),
            "the difference is taken from the mean after it has moved": (
                _with_squares(
                    lambda difference, count, other, both: (
                        (difference * count / both) ** 2 * count * other / both
                    )
                )
            ),
            "the mean moves by the first part's share; it moves by the share of the other": (
                lambda count, mean, squares, other_count, other_mean, other_squares: (
                    count + other_count,
                    mean + (other_mean - mean) * count / max(count + other_count, 1),
                    _moments(count, mean, squares, other_count, other_mean, other_squares)[2],
                )
            ),
            "the mean moves away from the other part: difference is other_mean - mean": (
                lambda count, mean, squares, other_count, other_mean, other_squares: (
                    count + other_count,
                    mean - (other_mean - mean) * other_count / max(count + other_count, 1),
                    _moments(count, mean, squares, other_count, other_mean, other_squares)[2],
                )
            ),
            "you return the variance: the squares are not divided by the count yet": (
                lambda count, mean, squares, other_count, other_mean, other_squares: _variance(
                    count, mean, squares, other_count, other_mean, other_squares
                )
            ),
            "difference is not squared": (
                _with_squares(
                    lambda difference, count, other, both: difference * count * other / both
                )
            ),
            "the mean is the middle of the two means, whatever their counts": (
                lambda count, mean, squares, other_count, other_mean, other_squares: (
                    count + other_count,
                    (mean + other_mean) / 2,
                    _moments(count, mean, squares, other_count, other_mean, other_squares)[2],
                )
            ),
        },
    )
)

# --- transfers before and after fusing ------------------------------------------------------------

_CHAINS = (
    ("LayerNorm, GELU, square", [(["x"], "a"), (["a"], "b"), (["b"], "y")]),
    ("Swish as sigmoid, then product", [(["x"], "s"), (["x", "s"], "y")]),
    ("LayerNorm, then GELU", [(["x"], "y"), (["y"], "z")]),
    ("one kernel", [(["x"], "y")]),
    ("a sum, LayerNorm, GELU", [(["x", "residual"], "a"), (["a"], "b"), (["b"], "c")]),
    ("bias, square, and the input once more",
     [(["x", "bias"], "a"), (["a", "a"], "b"), (["b", "x"], "c")]),
    ("four steps, the first result used late",
     [(["x"], "a"), (["a"], "b"), (["b"], "c"), (["c", "a"], "d")]),
    ("bias, GELU, times a gate", [(["x", "bias"], "a"), (["a"], "b"), (["b", "gate"], "c")]),
    ("a result on the way that nobody reads", [(["x"], "signs"), (["x", "bias"], "y")]),
)  # fmt: skip


def _transfers(steps):
    made = {output for _, output in steps}
    wanted = {name for inputs, _ in steps for name in inputs}
    return sum(len(set(inputs)) + 1 for inputs, _ in steps), len(wanted - made) + 1


def _all_results(steps):
    """Fused, with every array counted that is read but not made, or made but not read."""
    made = {output for _, output in steps}
    return len({name for inputs, _ in steps for name in inputs} ^ made)


register(
    FunctionExercise(
        name="count-transfers",
        lesson=12,
        title="Count the transfers before and after fusing",
        reference=_transfers,
        cases=[
            Case(name, lambda rng, s=steps: {"steps": s}) for name, steps in _CHAINS
        ],
        hints={
            "wrong-result": "Apart: each step reads its different inputs and writes one output. "
            "Fused: what no step has made must be read, once, and the last output is written.",
            "wrong-shape": "Return two whole numbers, (apart, fused).",
        },
        mistakes={
            "an input that a step names twice is counted twice; a thread loads it once": (
                lambda steps: (sum(len(i) + 1 for i, _ in steps), _transfers(steps)[1])
            ),
            "fused is always 2; there may be several arrays from outside": lambda steps: (
                _transfers(steps)[0], 2,
            ),
            "fused, only what the first step reads is counted; a later one may need more from "
            "outside": lambda steps: (_transfers(steps)[0], len(set(steps[0][0])) + 1),
            "fused, a result on the way is written, too; only the last one is wanted": (
                lambda steps: (_transfers(steps)[0], _all_results(steps))
            ),
            "the outputs are not counted: a write is a transfer, too": lambda steps: (
                sum(len(set(i)) for i, _ in steps), _transfers(steps)[1] - 1,
            ),
            "an array from outside that two steps read is counted twice; fused, it is read once": (
                lambda steps: (
                    _transfers(steps)[0],
                    sum(n not in {o for _, o in steps} for i, _ in steps for n in set(i)) + 1,
                )
            ),
            "what is made on the way is counted as read; fused, it stays in registers": (
                lambda steps: (_transfers(steps)[0], len({n for i, _ in steps for n in i}) + 1)
            ),
            "an array that several steps read is counted once; apart, each step reads it again": (
                lambda steps: (
                    len({n for i, _ in steps for n in i}) + len(steps), _transfers(steps)[1],
                )
            ),
            "apart, only the last output is counted as written; each step writes its own": (
                lambda steps: (sum(len(set(i)) for i, _ in steps) + 1, _transfers(steps)[1])
            ),
            "every step is counted as two; it reads all its different inputs": lambda steps: (
                2 * len(steps), _transfers(steps)[1],
            ),
            "the letters of the output's name are counted; each step writes one array": (
                lambda steps: (
                    sum(len(set(i)) + len(o) for i, o in steps), _transfers(steps)[1],
                )
            ),
            "you return them in the other order": lambda steps: _transfers(steps)[::-1],
        },
    )
)  # fmt: skip
