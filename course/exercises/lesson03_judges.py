"""Judges of lesson 03: each says in a sentence what is wrong with an answer, or nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from course.occupancy import occupancy
from course.roofline import time_text
from course.toy_gpu import DISTURBANCE, JITTER, LUCK

FEWEST = 5  # samples with quartiles
ABOVE_A_ROOF = 1.0


def _number(answer: Any) -> float | None:
    """The answer as a number; None where it is none."""
    value = np.asarray(answer)
    if value.shape != () or value.dtype.kind not in "fiu":
        return None
    return float(value)


# --- time a launch ------------------------------------------------------------------------------


def judge_time(answer: Any, launch: Any, **others: Any) -> str | None:
    """Judge a time [ms] of a toy's launch."""
    del others
    toy = launch.__self__
    given = _number(answer)
    if given is None:
        return f"Return one number, the median in ms; got {answer!r:.60}."
    work, cost = toy.work * 1e3, toy.cost * 1e3
    usual = work * float(np.median(JITTER))
    if toy.launches <= FEWEST:
        return (
            f"You launched {toy.launches} time{'s' * (toy.launches != 1)}: one call that does not "
            f"count, and at least {FEWEST} that do."
        )
    if 0.985 * usual <= given <= 1.03 * usual + cost + 0.001:
        return None
    return _what_went_wrong(given, usual, cost, toy)


def _what_went_wrong(given: float, usual: float, cost: float, toy: Any) -> str:
    mean = usual * (1 + (DISTURBANCE - 1) / 7)
    readings = f"Your result is {given:.4g}; the work takes {usual:.4g} ms."
    if math.isclose(given * 1e3, usual, rel_tol=0.2) and given < usual / 100:
        return f"{readings} That is seconds: clock() gives seconds, and ms are asked for."
    if given <= 3 * cost + 0.01 and given < usual / 2:
        return (
            f"{readings} You timed the launch, not the work: launch() returns at once. "
            "Wait with synchronize() before you read the clock the second time."
        )
    if LUCK * usual * 0.995 <= given <= LUCK * usual * 1.01 + cost + 0.001 < usual:
        return (
            f"{readings} That is the shortest of your samples: one that had luck, such as a warm "
            "cache. Take the median."
        )
    if given < 0.985 * usual:
        return (
            f"{readings} Some of the work was not over when you read the clock, or belongs to "
            "another sample. synchronize() before both readings."
        )
    if given > toy.compiling * 1e3 / toy.launches and given > 1.6 * mean:
        return (
            f"{readings} Compiling is in it, or other work that was queued: launch once and "
            "synchronize before the first sample, and let that call not count."
        )
    if 1.1 * usual < given < 2.2 * mean:
        return (
            f"{readings} Some samples were disturbed and took {DISTURBANCE:.0f} times as long. "
            "A mean, or a sum, takes them in; the median does not."
        )
    return (
        f"{readings} Take the time of one launch at a time: synchronize, read the clock, launch, "
        "synchronize, read the clock."
    )


# --- copy what is needed ------------------------------------------------------------------------


def judge_factors(answer: Any, u: Any, s: Any, vt: Any, k: int) -> str | None:
    """Judge arrays for the device: only what is needed, float32, side by side."""
    wanted = {"u": u[:, :k], "s": s[:k], "vt": vt[:k]}
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        return f"Return three arrays, u, s and vt; got {type(answer).__name__}."
    for given, (name, part) in zip(answer, wanted.items(), strict=True):
        if not isinstance(given, np.ndarray):
            return f"{name} is a {type(given).__name__}, not an array."
        if given.shape != part.shape:
            whole = {"u": u, "s": s, "vt": vt}[name].shape
            extra = " That is the whole factor." if given.shape == whole else ""
            return f"{name} has the shape {given.shape}; {part.shape} is needed.{extra}"
        if given.dtype != np.float32:
            times = given.dtype.itemsize / 4
            return (
                f"{name} is {given.dtype}, not float32: {times:g} times the bytes, and a kernel "
                "computes in that type."
            )
        if not np.allclose(given, part, rtol=1e-5, atol=1e-6):
            return f"{name} has other values than the first {k} of the factor."
        if not given.flags.c_contiguous:
            return (
                f"{name} is a view of a larger array, or lies column by column: its rows do not "
                "follow each other in memory. np.ascontiguousarray copies it in order."
            )
    return None


# --- pairs --------------------------------------------------------------------------------------


def judge_pair(
    names: tuple[str, str],
    reference: Callable[..., tuple[Any, Any]],
    mistakes: Mapping[str, Callable[..., tuple[Any, Any]]],
) -> Callable[..., str | None]:
    """A judge of two values, which names the mistake that gives both of them; 0.1% is allowed."""

    def judge(answer: Any, **arguments: Any) -> str | None:
        wanted = f"{names[0]} and {names[1]}"
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            return f"Return two values, {wanted}; got {answer!r:.60}."
        right = reference(**arguments)
        if all(map(_alike, answer, right)):
            return None
        told = f"Your {wanted}: {_shown(answer)}; right is {_shown(right)}."
        for sentence, mistaken in mistakes.items():
            if all(map(_alike, answer, mistaken(**arguments))):
                return f"{told} That is what you get when {sentence}."
        if all(map(_alike, answer, right[::-1])):
            return f"{told} The two have changed places."
        return told

    return judge


def _alike(given: Any, right: Any) -> bool:
    if isinstance(right, str):
        return isinstance(given, str) and given == right
    number = _number(given)
    return number is not None and math.isclose(number, right, rel_tol=1e-3)


def _shown(pair: Any) -> str:
    numbers = [f"{part:.5g}" if _number(part) is not None else repr(part) for part in pair]
    return ", ".join(numbers)


# --- impossible figures -------------------------------------------------------------------------


def judge_figures(answer: Any, figures: Any, bandwidth: float, rate: float) -> str | None:
    """Judge which reported figures are above a roof."""
    if isinstance(answer, str) or not hasattr(answer, "__iter__"):
        return f"Return a list of names, empty if all are possible; got {answer!r:.60}."
    given = [*answer]
    names = [name for name, *_ in figures]
    for name in given:
        if name not in names:
            return f"{name!r:.60} is none of the names {', '.join(names)}."
    for name, count, operations, milliseconds in figures:
        gigabytes, teraflops = count / milliseconds * 1e-6, operations / milliseconds * 1e-9
        above = gigabytes > bandwidth * ABOVE_A_ROOF or teraflops > rate * ABOVE_A_ROOF
        what = f"{name!r}, in {time_text(milliseconds)}, moves {gigabytes:,.0f} GB/s"
        if operations:
            what += f" and computes {teraflops:.3g} TFLOP/s"
        roofs = f"the roofs are {bandwidth:,.0f} GB/s and {rate:g} TFLOP/s"
        if above and name not in given:
            return f"{what}; {roofs}. It is impossible, and not in your list."
        if not above and name in given:
            return f"{what}; {roofs}. It is possible, but in your list."
    return None


# --- a block that fills the multiprocessor ------------------------------------------------------


def judge_block(answer: Any, registers: int, shared: int) -> str | None:
    """Judge a number of threads by the warps that a T4's multiprocessor then holds."""
    given = _number(answer)
    if given is None or given != int(given):
        return f"Return one whole number, the threads of a block; got {answer!r:.60}."
    threads = int(given)
    if not 32 <= threads <= 1024 or threads % 32:
        return f"{threads} threads: take a multiple of 32 from 32 to 1,024, whole warps."
    found = {n: _occupancy(n, registers, shared) for n in range(32, 1025, 32)}
    best = max(found, key=lambda n: found[n].warps)
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
    )


def _occupancy(threads: int, registers: int, shared: int) -> Any:
    return occupancy("T4", threads, registers, shared * threads)


# --- the crossing -------------------------------------------------------------------------------


def total_times(
    sizes: Any,
    cpu: float,
    gpu: float,
    link: float,
    start: float,
    *,
    there: bool = True,
    back: bool = True,
    whole: bool = False,
) -> tuple[list[float], list[float]]:
    """Times [ms] of images of n × n pixels, k = n // 8, on the CPU and on the GPU with copies."""
    by_cpu, by_gpu = [], []
    for n in sizes:
        k = n // 8
        operations = 2 * n * n * k
        factors = 2 * n * n + n if whole else 2 * n * k + k
        moved = 4 * (there * factors + back * n * n)
        by_cpu.append(operations / cpu * 1e-6)
        by_gpu.append(start + moved / link * 1e-6 + operations / gpu * 1e-6)
    return by_cpu, by_gpu
