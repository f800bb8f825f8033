"""Judges of lesson 18: tiles that come once, a product by columns, buffers by lifetimes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from course.checks import answers
from course.checks.verdicts import Failure, brief
from course_lessons.lesson18 import toy_gemm
from course_models.vit.buffers import lifetimes

# --- tiles that come once -------------------------------------------------------------------------

LARGE = 400_000  # bytes of all tiles from which on what an answer keeps is measured


def each_once(
    tiles: Sequence[tuple[np.ndarray, np.ndarray]], before_last: Callable[[], None] = lambda: None
) -> Iterator[tuple]:
    """Tiles in turn; one that was handed over is NaN as soon as the next one is asked for."""
    for index, (scores, values) in enumerate(tiles, 1):
        if index == len(tiles):
            before_last()
        both = scores.copy(), values.copy()
        yield both
        for array in both:
            array[...] = np.nan


def call_with_tiles(answer: Callable, arguments: tuple) -> Any:
    """Call an answer whose tiles come once; raise Failure where it keeps half of many."""
    tiles, *others = arguments
    whole = sum(scores.nbytes + values.nbytes for scores, values in tiles)
    if whole < LARGE or tracemalloc.is_tracing():
        return answer(each_once(tiles), *others)
    held = 0

    def measure() -> None:
        # what was allocated below this call alone: other threads allocate meanwhile
        nonlocal held
        held = sum(
            place.size
            for place in tracemalloc.take_snapshot().statistics("traceback")
            if any(frame.filename == __file__ for frame in place.traceback)
        )

    tracemalloc.start(12)  # frames: of the answer, what it calls, NumPy
    try:
        result = answer(each_once(tiles, measure), *others)
    finally:
        tracemalloc.stop()
    if held > whole / 2:
        raise Failure(
            "limit",
            f"Your function held {held / 1e3:,.0f} kB before the last tile. That is all "
            f"{len(tiles)} tiles, and one of them has {whole / len(tiles) / 1e3:.0f} kB: they were "
            "copied, to be read again. Use a tile when it comes, and keep largest, total and sums "
            "alone.",
        )
    return result


# --- a product by columns -------------------------------------------------------------------------


def call_with_gemm(answer: Callable, arguments: tuple) -> Any:
    """Call an answer with a product that notes its calls; judged is what it left in `out`."""
    _, a, b, result = arguments
    result, given = np.full_like(result, np.nan), []
    left = result.copy()

    def gemm(m, n, k, first, ld_first, second, ld_second, out, ld_out):
        given.append((first, second, out))
        toy_gemm.gemm(m, n, k, first, ld_first, second, ld_second, out, ld_out)
        left[...] = result

    gemm.__qualname__ = "gemm"  # as errors name it
    answer(gemm, a, b, result)
    if not given and answers.looks_like_a_stub(answers.plain_function(answer)):
        return None
    own = all(any(np.shares_memory(its, one) for one in (a, b, result)) for call in given
              for its in call)  # fmt: skip
    return {"calls": len(given), "own": own, "out": left, "later": result}


def judge_product(answer: dict, a: np.ndarray, b: np.ndarray, **_: Any) -> str | None:
    """Whether the one call of gemm made a b of what lies there by rows."""
    if not isinstance(answer, Mapping) or not answer["calls"]:
        return "gemm was never called: it does the product, and writes it to out."
    if answer["calls"] > 1:
        return f"gemm was called {answer['calls']} times: one call does it."
    if not answer["own"]:
        return (
            "gemm was given an array other than a, b and out. No copy is needed: the same memory, "
            "read by columns, is the transposed matrix."
        )
    out, right = answer["out"], a.astype(np.float64) @ b
    if not np.array_equal(out, answer["later"], equal_nan=True):
        return "out was changed after gemm had written it: only gemm writes."
    if _near(out, right):
        return None
    if _near(out, right.T.reshape(right.shape)):
        return (
            "out holds the transposed result: its columns lie one after the other, where its rows "
            "should. gemm writes by columns, so let it make out', which is b' a'."
        )
    if missing := int(np.isnan(out).sum()):
        return f"{missing} of {out.size} numbers of out were not written: m n is {out.size}."
    return (
        f"out[0, 0] is {out[0, 0]:.4g}; it must be {right[0, 0]:.4g}. Read by columns, b's memory "
        f"is b', {b.shape[1]} x {b.shape[0]}, and a's is a', {a.shape[1]} x {a.shape[0]}. The "
        "distance from a column to the next is the row's length in NumPy."
    )


def _near(x: np.ndarray, y: np.ndarray) -> bool:
    return bool(np.allclose(x, y, rtol=1e-9, atol=1e-9))


# --- buffers --------------------------------------------------------------------------------------


def judge_buffers(
    answer: Any, steps: Sequence[Sequence[str]], sizes: Mapping[str, int]
) -> str | None:
    """Whether no two buffers that are alive at one time overlap, in as few bytes as greedily."""
    lives = lifetimes(steps)
    if not isinstance(answer, Mapping):
        return (
            f"Return a dictionary, the first byte of each buffer by its name; got {brief(answer)}."
        )
    if missing := [name for name in lives if name not in answer]:
        return f"{missing[0]!r} has no place: each buffer of `steps` gets one."
    for name in lives:
        place = answer[name]
        if not isinstance(place, int | np.integer) or isinstance(place, bool) or place < 0:
            return f"{name!r} begins at {brief(place)}: it must be a whole number, 0 or more."
    names = list(lives)
    for n, one in enumerate(names):
        for other in names[:n]:
            if fault := _overlap(other, one, lives, sizes, answer):
                return fault
    taken = max(answer[name] + sizes[name] for name in lives)
    if taken <= (allowed := _greedy(lives, sizes)):
        return None
    spans = sorted((answer[name], answer[name] + sizes[name]) for name in lives)
    if all(end <= begin for (_, end), (begin, _) in pairwise(spans)):
        return (
            f"Nothing overlaps, but nothing is shared either: {taken:,} bytes, and {allowed:,} do. "
            "Buffers whose lives do not meet may have the same bytes: the largest buffer first, "
            "each at the lowest place that is free as long as it lives."
        )
    return (
        f"Nothing overlaps, but it takes {taken:,} bytes, and {allowed:,} do: the largest buffer "
        "first, each at the lowest place where no buffer lies whose life meets its own. A gap "
        "between two others counts, where it is large enough."
    )


def _overlap(
    one: str, other: str, lives: Mapping, sizes: Mapping[str, int], places: Mapping[str, int]
) -> str | None:
    begin = max(lives[one][0], lives[other][0])
    end = min(lives[one][1], lives[other][1])
    low = max(places[one], places[other])
    high = min(places[one] + sizes[one], places[other] + sizes[other])
    if begin > end or low >= high:
        return None
    when = f"step {begin}" if begin == end else f"steps {begin} to {end}"
    lived = ", ".join(f"{name!r} in steps {lives[name][0]} to {lives[name][1]}"
                      for name in (one, other))  # fmt: skip
    return (
        f"{one!r} and {other!r} share bytes {low:,} to {high - 1:,}, and both are alive in {when}: "
        f"{lived}. A buffer is alive from the step that writes it to the last that reads it, "
        "both included."
    )


def _greedy(lives: Mapping[str, tuple[int, int]], sizes: Mapping[str, int]) -> int:
    """Bytes of the largest first, each at the lowest place that is free."""
    places: dict[str, int] = {}
    for name in sorted(lives, key=lambda name: -sizes[name]):
        first, last = lives[name]
        place = 0
        for begin, end in sorted((places[o], places[o] + sizes[o]) for o in places
                                 if lives[o][0] <= last and first <= lives[o][1]):  # fmt: skip
            if place + sizes[name] > begin:
                place = max(place, end)
        places[name] = place
    return max(places[name] + sizes[name] for name in places)
