"""Judges of lesson 03: each says in a sentence what is wrong with an answer, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from course.checks.verdicts import brief
from course.measure.occupancy import occupancy
from course.measure.roofline import time_text
from course_lessons.lesson03.toy_gpu import JITTER

FEWEST = 5  # samples whose work was over when the clock was read
OCCUPIED = "H200"  # the GPU whose multiprocessor is filled
NEAR = 4e-4  # ms: a few readings of the clock
_OF_THE_BLOCK = (
    "Does occupancy get the shared memory of a whole block, `shared * threads`, and do you try all "
    "sizes?"
)


def _number(answer: Any) -> float | None:
    """The answer as a number; None where it is none."""
    try:
        value = np.asarray(float(answer) if isinstance(answer, Fraction) else answer)
    except ValueError:  # lists of unequal lengths
        return None
    if value.shape != () or value.dtype.kind not in "fiu":
        return None
    return float(value)


def _described(answer: Any) -> str:
    """An answer that is no number, in a few words."""
    if isinstance(answer, tuple | list) or (isinstance(answer, np.ndarray) and answer.ndim):
        return f"{len(answer)} values"
    return brief(answer)


# --- time a launch ------------------------------------------------------------------------------


def judge_time(answer: Any, launch: Any, **others: Any) -> str | None:
    """Judge a time [ms] of a toy's launch."""
    del others
    toy = launch.__self__
    given = _number(answer)
    if given is None:
        return f"Return one number, the median in ms; got {_described(answer)}."
    usual, cost = toy.work * 1e3 * float(np.median(JITTER)), toy.cost * 1e3
    if 0.985 * usual <= given <= 1.03 * usual + cost + 0.001:
        return _of_another_launch(toy)
    told = f"Your result is {given:.4g}; the work takes {usual:.4g} ms."
    if 0 <= given < NEAR:
        return (
            f"{told} Nothing happens between your readings of the clock: launch() and a "
            "synchronize() belong between them."
        )
    if 0 <= given <= cost + NEAR:
        return (
            f"{told} You timed the launch, not the work: launch() returns at once. "
            "Wait with synchronize() before you read the clock the second time."
        )
    return (
        f"{told} Keep the lines around the five as they are: one launch() before the loop, which "
        "compiles, 21 samples in ms, and their median."
    )


def _of_another_launch(toy: Any) -> str | None:
    """What is wrong where the clock was not read between a launch's work and the next launch."""
    if len(toy.over - {0}) >= FEWEST:
        return None
    return (
        "The time is right by luck: both readings of a sample come while the GPU is at work, so "
        "it is the launch before that you time. Read the clock, launch, synchronize, read again."
    )


# --- pairs --------------------------------------------------------------------------------------


def judge_pair(
    names: tuple[str, str],
    reference: Callable[..., tuple[Any, Any]],
    words: tuple[str, ...] = (),
) -> Callable[..., str | None]:
    """A judge of two values; where one is a word, it is one of `words`."""

    def judge(answer: Any, **arguments: Any) -> str | None:
        wanted = f"{names[0]} and {names[1]}"
        pair = answer.tolist() if isinstance(answer, np.ndarray) else answer
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            return f"Return two values, {wanted}; got {brief(answer)}."
        right = reference(**arguments)
        if all(map(_alike, pair, right)):
            return None
        told = f"Your {wanted}: {_shown(pair)}; right is {_shown(right)}."
        if all(map(_alike, pair, right[::-1])):
            return f"{told} The two have changed places."
        told += next(filter(None, (_fault(*both, words) for both in zip(pair, right, names))), "")
        return told

    return judge


def _fault(given: Any, right: Any, name: str, words: tuple[str, ...]) -> str | None:
    """What is wrong with one value by itself: its kind, its digits, its power of ten."""
    if _alike(given, right):
        return None
    if isinstance(right, str):
        known = isinstance(given, str) and given in words
        return None if known else f" {given!r} is none of {', '.join(map(repr, words))}."
    number = _number(given)
    if number is None:
        return f" {given!r} is no number."
    if not math.isfinite(number):
        return f" {number} is no figure."
    if number in {math.floor(right), *(round(right, digits) for digits in range(4))}:
        return f" {number:g} is rounded: return all digits."
    if number > 0 and right > 0:
        times = number / right
        if math.isclose(abs(math.log(times)), math.log(2**30 / 1e9), rel_tol=1e-3):
            return f" The figure in {name} is {times:.4g} times the right one: GB are 10⁹, not 2³⁰."
        power = math.log10(times)
        if round(power) and math.isclose(power, round(power), abs_tol=1e-3):
            return (
                f" The figure in {name} is {10.0 ** round(power):g} times the right one: "
                "1 s = 10³ ms, 1 GB = 10⁹ bytes, 1 TFLOP = 10¹² operations."
            )
    return None


def _alike(given: Any, right: Any) -> bool:
    if isinstance(right, str):
        return isinstance(given, str) and given == right
    number = _number(given)
    return number is not None and math.isclose(number, right, rel_tol=1e-5)


def _shown(pair: Any) -> str:
    numbers = [f"{part:.5g}" if _number(part) is not None else repr(part) for part in pair]
    return ", ".join(numbers)


# --- impossible figures -------------------------------------------------------------------------


def judge_figures(answer: Any, figures: Any, bandwidth: float, rate: float) -> str | None:
    """Judge which reported figures are above a roof."""
    is_list = hasattr(answer, "__iter__") and not isinstance(answer, str | Mapping)
    if not is_list or (isinstance(answer, np.ndarray) and answer.ndim != 1):
        what = "a dict" if isinstance(answer, Mapping) else brief(answer)
        return f"Return a list of names, empty if all are possible; got {what}."
    given = [*answer]
    names = [name for name, *_ in figures]
    shares = {
        name: (count / milliseconds * 1e-6 / bandwidth, operations / milliseconds * 1e-9 / rate)
        for name, count, operations, milliseconds in figures
    }
    for name in given:
        if not isinstance(name, str) or name not in names:
            return f"{brief(name)} is none of the names {', '.join(names)}."
        if given.count(name) > 1:
            return f"{name!r} is {given.count(name)} times in your list; once is enough."
    for name, _, operations, milliseconds in figures:
        of_bandwidth, of_rate = shares[name]
        above = max(of_bandwidth, of_rate) > 1
        if above == (name in given):
            continue
        what = f"{name!r}, in {time_text(milliseconds)}, moves {of_bandwidth * bandwidth:,.0f} GB/s"
        if operations:
            what += f" and computes {of_rate * rate:.3g} TFLOP/s"
        roofs = f"the roofs are {bandwidth:,.0f} GB/s and {rate:g} TFLOP/s"
        verdict = "impossible, and not" if above else "possible, but"
        return f"{what}; {roofs}. It is {verdict} in your list."
    return None


# --- a block that fills the multiprocessor ------------------------------------------------------


def judge_block(answer: Any, registers: int, shared: int) -> str | None:
    """Judge a number of threads by the warps that an H200's multiprocessor then holds."""
    given = _number(answer)
    if given is None or not given.is_integer():
        return f"Return one whole number, the threads of a block; got {brief(answer)}."
    threads = int(given)
    found = {n: occupancy(OCCUPIED, n, registers, shared * n) for n in range(32, 1025, 32)}
    best = max(found, key=lambda n: found[n].warps)
    warps = " Or are these warps? Return the threads." * (threads == found[best].warps)
    if threads not in found:
        return f"{threads} threads: take a multiple of 32 from 32 to 1,024, whole warps.{warps}"
    mine = found[threads]
    if mine.warps == found[best].warps:
        return None
    if mine.blocks == 0:
        return (
            f"No block of {threads} threads can start: too much is asked of "
            f"{' and '.join(mine.limited_by)}."
        )
    return (
        f"Blocks of {threads} threads: {mine.warps} warps on a multiprocessor, limited by "
        f"{' and '.join(mine.limited_by)}. There is a size that gives {found[best].warps}."
        f"{warps or _asked_otherwise(threads, registers, shared, [*found])}"
    )


def _asked_otherwise(threads: int, registers: int, shared: int, sizes: list[int]) -> str:
    """A question to whoever seems to have compared something else; "" where nothing gives that."""
    for of_block, figure, question in (
        (False, "warps", _OF_THE_BLOCK),
        (True, "blocks", "Do you compare .warps, and not .blocks?"),
    ):
        shares = {n: shared * (n if of_block else 1) for n in sizes}
        asked = {n: occupancy(OCCUPIED, n, registers, shares[n]) for n in sizes}
        if threads == max(sizes, key=lambda n: getattr(asked[n], figure)):
            return f" {question}"
    return ""
