"""Judges of lesson 11: a rotation, a tournament, a range finder. Each says what is wrong."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np

from course.checks.verdicts import brief
from warpsim.core.words import count

# --- a rotation -----------------------------------------------------------------------------------

CLOSE = 1e-6  # of the product before: float32 answers are right, too


def _numbers(answer: Any) -> tuple[float, float] | None:
    """The two numbers of an answer, or None."""
    pair = answer.tolist() if isinstance(answer, np.ndarray) else answer
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return None
    for value in pair:
        if np.ndim(value) or isinstance(value, bool) or np.asarray(value).dtype.kind not in "iuf":
            return None
    return float(pair[0]), float(pair[1])


def product_after(a: float, b: float, g: float, c: float, s: float) -> float:
    """The product of c x - s y and s x + c y."""
    return c * s * (a - b) + (c * c - s * s) * g


def judge_rotation(answer: Any, a: float, b: float, g: float) -> str | None:
    """Judge (c, s): orthogonal rows afterwards, c² + s² = 1, at most 45 degrees."""
    pair = _numbers(answer)
    if pair is None:
        return f"Return two numbers, (c, s); got {brief(answer)}."
    c, s = pair
    given = f"For a = {a:.4g}, b = {b:.4g}, g = {g:.4g} you return c = {c:.6g}, s = {s:.6g}."
    if not (math.isfinite(c) and math.isfinite(s)):
        return f"{given} With g = 0 tau has no value: then the rows stay as they are, (1, 0)."
    if abs(c * c + s * s - 1) > CLOSE:
        return (
            f"{given} c² + s² is {c * c + s * s:.6g}, so lengths change: a rotation has 1. From t, "
            "c = 1 / √(1 + t²) and s = t · c."
        )
    allowed = CLOSE * max(abs(g), 1e-6 * math.sqrt(a * b))

    def is_right(c, s):
        return abs(product_after(a, b, g, c, s)) <= allowed

    if is_right(c, s):
        if abs(s) <= abs(c) * (1 + CLOSE):
            return None
        if g == 0:
            return f"{given} With g = 0 the rows are orthogonal: they stay as they are, (1, 0)."
        degrees = math.degrees(math.atan2(abs(s), abs(c)))
        return (
            f"{given} The rows are orthogonal then, but you turn them by {degrees:.3g} degrees. Of "
            "the two angles take the smaller one, |s| <= c: with the other one rows change places, "
            "and sweeps may never end. (In t = sign(tau) / (|tau| + √(1 + tau²)) it is |tau|, not "
            "tau. By an arctangent: of 2 g / (b - a) as one number, not atan2 of two.)"
        )
    left = (
        f"{given} The product of the two new rows is {product_after(a, b, g, c, s):.4g} then, not 0"
    )
    return f"{left}. {_why(a, b, g, c, s, is_right)}".strip()


def _why(a, b, g, c, s, is_right) -> str:
    """What an answer that leaves a product may have done."""
    if s == 0 and a == b:
        return (
            "With a = b tau is 0. Its sign must count as 1 or -1, never as 0 (as np.sign has it): "
            "t is 1, an angle of 45 degrees."
        )
    if abs(s) < 1e-6 and abs(g) < 1e-6 * abs(b - a):
        return (
            "The angle is small, but not 0: √(1 + tau²) - |tau| is the difference of two nearly "
            "equal numbers, and nothing is left of it. Divide instead: 1 / (|tau| + √(1 + tau²)). "
            "And compare g with 0, not with a small number."
        )
    if s == 0:
        return (
            "The rows stay as they are, though g is not 0. Compare g with 0 itself: not with a "
            "small number, nor by g <= 0."
        )
    if abs(s) >= abs(c) and is_right(s, c):
        return (
            "c and s have changed places: c is the one near 1. (By an arctangent: tan(2 · angle) "
            "is 2 g / (b - a), in this order.)"
        )
    if is_right(c, -s):
        return (
            "With the other sign of s it would be: tau is (b - a) / (2 g), in this order, and t "
            "has the sign of tau."
        )
    return "Put your c and s into (c x - s y) · (s x + c y), and see what is left."


# --- a tournament ---------------------------------------------------------------------------------


def judge_tournament(answer: Any, n: int) -> str | None:
    """Judge n - 1 rounds of n / 2 pairs: any order in which each two meet once."""
    try:
        rounds = [[tuple(pair) for pair in turn] for turn in answer]
    except TypeError:
        return (
            "Return a list of rounds; a round is a list of pairs, and a pair (i, j); got "
            f"{brief(answer)}."
        )
    for turn, pairs in enumerate(rounds):
        fault = _fault_of_round(turn, pairs, n)
        if fault and len(pairs) > n // 2 and all(other == pairs for other in rounds):
            return f"{fault} All your rounds are the same list: begin a new one in each round."
        if fault:
            return fault
    met = Counter(frozenset(pair) for pairs in rounds for pair in pairs)
    twice = sorted(tuple(sorted(pair)) for pair, times in met.items() if times > 1)
    all_pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    missing = [pair for pair in all_pairs if frozenset(pair) not in met]
    if twice and not missing and len(rounds) > n - 1:
        return (
            f"{n} rows: all pairs meet, but {twice[0]} and others meet twice: you have "
            f"{count(len(rounds), 'round')}, and {n - 1} are enough."
        )
    if twice:
        first = [turn for turn, pairs in enumerate(rounds) if set(twice[0]) in map(set, pairs)]
        return (
            f"{n} rows: {twice[0]} meet in round {first[0]} and again in round {first[1]}"
            + (f"; and {missing[0]} never meet." if missing else ".")
            + " Between two rounds all but one player move on by one place."
        )
    if missing:
        do = "does" if len(missing) == 2 else "do"
        more = f", nor {do} {count(len(missing) - 1, 'other pair')}" if len(missing) > 1 else ""
        have = f"{count(len(rounds), 'round')} with {count(sum(map(len, rounds)), 'pair')}"
        return (
            f"{n} rows: {missing[0]} never meet{more}. You have {have}; {n} rows need {n - 1} "
            f"rounds, and {len(all_pairs)} pairs in all."
        )
    if len(rounds) != n - 1:
        return (
            f"{n} rows: every pair meets, but in {len(rounds)} rounds. {n - 1} are enough, if all "
            f"{n // 2} pairs of a round rotate at the same time."
        )
    return None


def _fault_of_round(turn: int, pairs: list[tuple], n: int) -> str | None:
    """What is wrong with one round by itself."""
    where = f"{n} rows, round {turn}"
    seen: dict[int, tuple] = {}
    for pair in pairs:
        whole = [isinstance(row, int | np.integer) and not isinstance(row, bool) for row in pair]
        if len(pair) != 2 or not all(whole):
            whole = " Row numbers are whole: divide with //." if len(pair) == 2 else ""
            return f"{where}: {brief(pair)} is no pair of two row numbers, (i, j).{whole}"
        for row in pair:
            if not 0 <= row < n:
                return f"{where}: {pair} has row {row}; rows go from 0 to {n - 1}."
        if pair[0] == pair[1]:
            return f"{where}: row {pair[0]} meets itself."
        for row in pair:
            if row in seen:
                return (
                    f"{where}: row {row} is in {seen[row]} and in {pair}. Two rotations that share "
                    "a row cannot happen at the same time."
                )
            seen[row] = pair
    return None


# --- a range finder -------------------------------------------------------------------------------


def found_range(a: np.ndarray, random: np.ndarray, power: int) -> np.ndarray:
    """Orthonormal columns that span (a a')^power a random, in float64."""
    a, q = np.asarray(a, np.float64), np.asarray(random, np.float64)
    q = np.linalg.qr(a @ q)[0]
    for _ in range(power):
        q = np.linalg.qr(a @ np.linalg.qr(a.T @ q)[0])[0]
    return q


def _apart(q: np.ndarray, p: np.ndarray) -> float:
    """How far the spaces of two sets of orthonormal columns are apart: 0 for the same one."""
    return float(np.abs(q - p @ (p.T @ q)).max())


def judge_range(answer: Any, a: np.ndarray, random: np.ndarray, power: int) -> str | None:
    """Judge orthonormal columns: their number, their lengths, and what they span."""
    rows, wanted = len(a), (len(a), random.shape[1])
    if not isinstance(answer, np.ndarray):
        both = isinstance(answer, tuple) and len(answer) == 2 and hasattr(answer[1], "shape")
        what = "a tuple: np.linalg.qr returns q and r" if both else brief(answer, 80)
        return f"Return one array, q; got {what}."
    if answer.shape != wanted:
        square = " Its mode is 'reduced', the default." if answer.shape == (rows, rows) else ""
        if answer.shape == (wanted[1], wanted[1]):
            square = " Is it r? np.linalg.qr(y)[0] is q, [1] is r."
        return (
            f"q has the shape {answer.shape}; it needs {wanted}: a column for each column of "
            f"`random`, as long as a column of a.{square}"
        )
    if answer.dtype != np.float32:
        return (
            f"q is {answer.dtype}, a and `random` are float32: let all stay float32. In twice the "
            "digits power steps do less harm, and cost a GPU far more."
        )
    q = np.asarray(answer, np.float64)
    if not np.isfinite(q).all():
        return "q holds NaN or infinite values."
    off = float(np.abs(q.T @ q - np.eye(wanted[1])).max())
    if off > 1e-4:
        return (
            f"The columns are not orthonormal: qᵀq is off the identity by {off:.2g}. The q of "
            "np.linalg.qr is; it comes last, after the last product with a."
        )
    if _apart(q, found_range(a, random, power)) <= 0.02:
        return None
    steps = "power step" + "s" * (power != 1)
    told = f"With {power} {steps} the columns span another space than a's sketch does."
    u = np.linalg.svd(np.asarray(a, np.float64))[0][:, : wanted[1]]
    if _apart(q, u) <= 1e-5 and _apart(u, found_range(a, random, power)) > 0.02:
        return (
            f"{told} Yours are the singular vectors themselves: right, but that SVD is what the "
            "sketch shall save. Use products with a, and np.linalg.qr."
        )
    if power:
        return (
            f"{told} A power step is y = a @ (a.T @ y), both factors, and each begins with what "
            "the one before has made. Between two products make the columns orthonormal: else all "
            "of them turn towards the first singular vector, and float32 keeps nothing of the "
            "others."
        )
    return f"{told} Begin with y = a @ random."
