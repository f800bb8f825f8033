"""Lesson 12's judge of a steady sum: the same batches from other workers, in other orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from course.checks.verdicts import brief

ROUNDINGS = 2.0**-24  # of a float32 addition
#: How the batches are dealt: workers, and whether they arrive in the order of their numbers.
DEALS = (
    (1, True), (1, False), (1, False), (2, True), (3, True), (3, False), (5, True), (5, False),
    (8, True), (8, False),
)  # fmt: skip


def deal_anew(answer: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Call an answer with the same batches as different runs deliver them; None from a stub."""
    (arrivals,) = arguments
    rng = np.random.default_rng(11)
    results = []
    for workers, in_order in DEALS:
        owners = rng.integers(0, workers, len(arrivals))
        order = range(len(arrivals)) if in_order else rng.permutation(len(arrivals))
        given = [(arrivals[n][0], int(owners[n]), arrivals[n][2]) for n in order]
        before = list(given)
        result = answer(given)
        if given != before:
            arrivals[:] = given[::-1]  # an input that was changed fails by itself
        if result is None:
            return None
        results.append(result)
    return tuple(results)


def judge_steady(answer: Any, arrivals: list[tuple[int, int, np.float32]]) -> str | None:
    """Judge the sums of several runs: the same to the bit, and right."""
    for result in answer:
        if isinstance(result, np.ndarray) and result.shape == ():
            result = result[()]
        if not isinstance(result, int | float | np.number):
            return f"Return one number, the sum; got {brief(result)}."
    found = [float(result) for result in answer]
    values = [float(value) for _, _, value in arrivals]
    right, size = math.fsum(values), math.fsum(map(abs, values))
    if not math.isfinite(found[0]):
        return f"Your sum is {found[0]}; right is {right:.7g}."
    allowed = max(len(values), 2) * ROUNDINGS * size
    if abs(found[0] - right) > allowed:
        return _wrong(found[0], right, values, allowed)
    if len(set(found)) == 1:
        return None
    return _unsteady(found)


def _unsteady(found: list[float]) -> str:
    """Why runs with the same sums gave different results."""
    in_order = [value for value, (_, order) in zip(found, DEALS, strict=True) if order]
    one, other = sorted(set(found))[:2]
    digits = next(digits for digits in range(9, 18) if f"{one:.{digits}g}" != f"{other:.{digits}g}")
    told = (
        f"The same sums gave {len(set(found))} different results in {len(found)} runs, such as "
        f"{one:.{digits}g} and {other:.{digits}g}."
    )
    if len(set(in_order)) > 1:
        return (
            f"{told} It depends on who did which batch: with other workers other sums are added "
            "first. Leave the worker out; order by the batches' numbers alone."
        )
    return (
        f"{told} It depends on the order in which they arrive, and each addition rounds. Order "
        "them by number first. (float64 rounds, too, only later.)"
    )


def _wrong(found: float, right: float, values: list[float], allowed: float) -> str:
    """What is wrong with a sum that is far off."""
    told = f"Your sum is {found:.7g}, right is {right:.7g}."
    slips = (
        (0.0, "Nothing was added. The third entry of a triple is the value."),
        (right / len(values), "That is the mean."),
        (math.fsum(map(abs, values)), "That is the sum without the signs."),
        (values[0], "That is the first batch alone. Does `return` stand in the loop?"),
        (values[-1], "That is the last batch alone: add, do not replace."),
        (max(values), "That is the largest of them."),
        (right - values[0], "The first batch is missing."),
        (right - values[-1], "The last batch is missing."),
        (right + values[0], "The first batch counts twice."),
        (right + values[-1], "The last batch counts twice."),
        (math.fsum(range(len(values))), "That is the sum of the numbers 0, 1, 2, ... of the "
         "batches: the third entry is the value."),
        (math.fsum(sorted(set(values))), "Equal sums count once each: a set drops repetitions."),
    )  # fmt: skip
    value, what = min(slips, key=lambda slip: abs(slip[0] - found))
    if abs(value - found) <= allowed and not math.isclose(found, right, rel_tol=1e-4):
        return f"{told} {what}"
    if math.isclose(found, sum(int(value) for value in values)) or found == int(right):
        return f"{told} You cut to whole numbers; the values have decimals."
    if abs(found - right) <= 5e-3 * math.fsum(map(abs, values)):
        return (
            f"{told} Close: digits were lost on the way. Rounding a total hides most differences, "
            "not all, and costs digits. Add float32 numbers, in a fixed order."
        )
    return f"{told} Each batch must be added exactly once."
