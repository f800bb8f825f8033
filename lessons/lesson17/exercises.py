"""Exercises of lesson 17: a float32 in two halves, a product on tensor cores."""

import numpy as np

from course.checks.exercises import Case, FunctionExercise, Limit, Tolerance
from lessons.edits import LessonKernel, edits

# --- a number in two halves -----------------------------------------------------------------------


def _judge_split(answer, x):
    """Whether (upper, lower, power) hold x: halves, a power of two, to 2^-22 of the largest."""
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        return f"Return three things, upper, lower and power; got {type(answer).__name__}."
    upper, lower, power = (np.asarray(part) for part in answer)
    for name, part in (("upper", upper), ("lower", lower)):
        if part.dtype != np.float16 or part.shape != x.shape:
            return (
                f"{name} is {part.dtype} of shape {part.shape}; it must be float16 of shape "
                f"{x.shape}. array.astype(np.float16) rounds to halves."
            )
        if not np.isfinite(part).all():
            return f"{name} has infinite elements: a half ends at 65,504. Choose a smaller power."
    if power.shape != () or not power > 0 or np.frexp(float(power))[0] != 0.5:
        return f"power is {answer[2]}: it must be one power of two, so that no bit is lost by it."
    largest = float(np.abs(x).max())
    back = (upper.astype(np.float64) + lower.astype(np.float64)) / float(power)
    off = float(np.abs(back - x.astype(np.float64)).max()) / largest
    if off <= 2.0**-22:
        return None
    held = upper.astype(np.float64) + lower.astype(np.float64)
    if np.abs(held * float(power) - x).max() <= 2.0**-22 * largest:
        return "power is turned round: return the number that x was multiplied by."
    if np.abs(held - x).max() <= 2.0**-7 * largest:
        return f"upper + lower is x itself, but power is {power}: halve x * power, not x."
    single = float(np.abs(upper.astype(np.float64) / float(power) - x).max()) / largest
    if off >= 0.9 * single and largest * float(power) > 1:
        return (
            f"(upper + lower) / power is off by {off:.1e} of the largest number, no better than "
            "upper alone. lower must hold what rounding to upper left over: x * power - upper, "
            "taken in float32."
        )
    return (
        f"(upper + lower) / power is off by {off:.1e} of the largest number; 2^-23, 1.2e-07, is "
        "possible. What is below 6e-8 is lost in a half: choose a power that brings the largest "
        f"number, here {largest:.2g}, near 2^13."
    )


def _to_split(name, scale):
    return Case(name, lambda rng: {"x": (scale * rng.uniform(-1, 1, (9, 7))).astype(np.float32)})


FunctionExercise.declare(
    name="split-in-halves",
    lesson=17,
    title="A float32 in two halves",
    judge=_judge_split,
    cases=[
        _to_split("numbers up to 1", 1.0),
        _to_split("numbers up to 8,000", 8e3),
        _to_split("numbers up to a millionth", 1e-6),
        _to_split("numbers up to 10 millions", 1e7),
    ],
    hints={
        "raised": "np.frexp(largest) gives a number below 1 and an exponent: "
        "largest = number * 2**exponent. Take 2.0 ** (14 - exponent)."
    },
)

# --- a product on tensor cores --------------------------------------------------------------------

OWN_SHARE = (
    "A lane hands over its own numbers alone, 8 of a and 4 of b in all: the tensor cores bring "
    "them together."
)


def _product(name, make):
    def arguments(rng):
        a, b = make(rng)
        return {"a": a, "b": b, "out": np.empty((16, 8), np.float32)}

    return Case(name, arguments, block=32, grid=1)


def _whole(rng):
    """Whole numbers, exact as halves; so are their products and sums in float32."""
    a, b = rng.integers(-9, 10, (16, 16)), rng.integers(-9, 10, (16, 8))
    return a.astype(np.float32), b.astype(np.float32)


def _numbered(rng):
    """A matrix of ones on the diagonal, so that the numbers of b come out as they went in."""
    return np.eye(16, dtype=np.float32), np.arange(128, dtype=np.float32).reshape(16, 8)


LessonKernel.declare(
    name="one-product",
    lesson=17,
    title="16 x 8 sums on tensor cores",
    outputs=("out",),
    reference=lambda a, b: a @ b,
    cases=[
        _product("ones on a's diagonal, b numbered", _numbered),
        _product("whole numbers up to 9", _whole),
    ],
    tolerance=Tolerance(2, "whole numbers, exact as halves and in their sums"),
    forbidden={"float64", "negative-index", "same-value-race"},
    limits=[Limit("global", "load", "lanes", "thread", 12, OWN_SHARE)],
    hints={
        "wrong-result": "With ones on the diagonal of a the result is b: see where its numbers "
        "went. Of a, a lane has rows g and g + 8; of b, column g; of both, two neighbouring k from "
        "start + 2 q on. Its sums: row g, columns 2 q and 2 q + 1, then the same of row g + 8.",
        "out-of-bounds": "g goes from 0 to 7, q from 0 to 3. a is a[row, k], b is b[k, column]: "
        "rows g and g + 8, column g, and k below 16.",
        "unwritten-output": "Each lane stores four sums: two in row g, two in row g + 8.",
        "typing": "mma_f16_k8 takes four sums, a tuple of two pairs of a, and one pair of b.",
        "not-parallel": "All 32 lanes hand over their shares, 8 numbers of a and 4 of b, and each "
        "stores four sums.",
        "same-value-race": "Each lane stores sums of its own: g and q come of its number.",
    },
    mistakes=edits("""
        the first half of k is multiplied twice: k begins at start
            k = start + 2 * q -> k = 2 * q
        of a, rows g are handed over twice: the lower ones are rows g + 8
            pair(a[g + 8, k], a[g + 8, k + 1]) -> pair(a[g, k], a[g, k + 1])
        the rows are exchanged, of a or of the sums: first row g, then row g + 8
            (above, below) -> (below, above)
        the sums begin anew in the second half: hand over c
            mma_f16_k8(c, -> mma_f16_k8((float32(0), float32(0), float32(0), float32(0)),
        the second and the third sum are exchanged: two are of row g, then two of row g + 8
            = c[0], c[1] -> = c[0], c[2]
            = c[2], c[3] -> = c[1], c[3]
        the sums are stored in columns q and q + 4: they are neighbours, 2 q and 2 q + 1
            out[g, 2 * q], out[g, 2 * q + 1] -> out[g, q], out[g, q + 4]
            out[g + 8, 2 * q], out[g + 8, 2 * q + 1] -> out[g + 8, q], out[g + 8, q + 4]
        the two numbers of a pair of b are exchanged
            pair(b[k, g], b[k + 1, g]) -> pair(b[k + 1, g], b[k, g])
        only the first half of k is multiplied
            range(0, 16, 8) -> range(0, 8, 8)
    """),
)
