"""Compares an answer's arrays with the reference and says in words how they differ."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from course.checks.verdicts import Failure

# A diagnosis such as "transposed" must fit far better than it could by chance, yet allow for
# float32 rounding in a sum; relative to the largest magnitude.
DIAGNOSIS_TOLERANCE = 1e-4
# An error this many times the allowed one may still come from rounding, not from a wrong formula.
LOOKS_LIKE_ROUNDING = 4
FINITE_POISON = 12_345  # fits float16; no exercise computes it


def poison(expected: np.ndarray, dtype: np.dtype, *, finite: bool = False) -> np.ndarray:
    """An array that no right answer leaves as it is.

    Floats and complex numbers: NaN (or 12,345 if `finite`). Integers: the type's largest value
    (or one below), never what is expected there. Bools: the opposite of what is expected.
    """
    dtype = np.dtype(dtype)
    if dtype.kind in "fc":
        return np.full(expected.shape, FINITE_POISON if finite else np.nan, dtype)
    if dtype.kind == "b":
        return ~expected.astype(bool)
    if dtype.kind not in "iu":
        raise TypeError(f"an output of dtype {dtype} cannot be poisoned; use numbers or bools")
    largest = np.iinfo(dtype).max
    first, spare = (largest - 2, largest - 3) if finite else (largest, largest - 1)
    values = np.full(expected.shape, first, dtype)
    values[np.asarray(expected == first)] = spare
    return values


def shown(value: Any) -> str:
    """A number as a learner would write it, at most six digits."""
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (complex, np.complexfloating)):
        return f"{complex(value):.6g}"
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    return repr(value)


def told_apart(got: Any, right: Any) -> tuple[str, str]:
    """Two numbers that differ, with as many digits as it takes to see that."""
    texts = shown(got), shown(right)
    if texts[0] == texts[1] and isinstance(got + right, (float, np.floating)):
        for digits in range(7, 18):
            texts = f"{float(got):.{digits}g}", f"{float(right):.{digits}g}"
            if texts[0] != texts[1]:
                break
    return texts


def place(name: str, index: tuple[int, ...]) -> str:
    """ "out[3]", "image[2, 5]"; a number without axes is just its name."""
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def extent(mask: np.ndarray) -> str:
    """Which elements a mask picks, in words: "the last 3 of 1,003 elements"."""
    chosen = int(mask.sum())
    total = mask.size
    if chosen == total:
        return "the only element" if total == 1 else f"all {total:,} elements"
    if mask.ndim == 2:
        words = _rows_or_columns(mask)
        if words:
            return words
    flat = np.flatnonzero(mask)
    if mask.ndim == 1 and flat[-1] - flat[0] + 1 == chosen:
        some = "element" if chosen == 1 else f"{chosen:,}"
        if flat[-1] == total - 1:
            return f"the last {some} of {total:,}"
        if flat[0] == 0:
            return f"the first {some} of {total:,}"
        if chosen > 1:
            return f"elements {flat[0]} to {flat[-1]} of {total:,}"
    return f"{chosen:,} of {total:,} elements"


def _rows_or_columns(mask: np.ndarray) -> str | None:
    for axis, noun in ((0, "row"), (1, "column")):
        whole = mask.all(axis=1 - axis)
        if not np.array_equal(mask, np.expand_dims(whole, 1 - axis) & np.ones_like(mask)):
            continue
        lines = np.flatnonzero(whole)
        number, total = len(lines), mask.shape[axis]
        nouns = noun if number == 1 else f"{number} {noun}s"
        if lines[-1] - lines[0] + 1 != number:
            return f"{number} of {total} {noun}s"
        if lines[-1] == total - 1:
            return f"the last {nouns} of {total}"
        if lines[0] == 0:
            return f"the first {nouns} of {total}"
        return f"{noun} {lines[0]}" if number == 1 else f"{noun}s {lines[0]} to {lines[-1]}"
    return None


def first(mask: np.ndarray) -> tuple[int, ...]:
    """Index of the first chosen element, in row order."""
    return tuple(int(i) for i in np.argwhere(mask)[0])


def wrong_elements(
    got: np.ndarray, expected: np.ndarray, allowed: np.ndarray | float
) -> np.ndarray:
    """Mask of the elements that are off by more than `allowed`; NaN is right where NaN is."""
    if expected.dtype.kind in "fc" or got.dtype.kind in "fc":
        wide = np.complex128 if "c" in expected.dtype.kind + got.dtype.kind else np.float64
        got, expected = got.astype(wide), expected.astype(wide)
        with np.errstate(all="ignore"):
            near = np.abs(got - expected) <= allowed
        same = (got == expected) | (np.isnan(got) & np.isnan(expected))
        return ~(near | same)
    return np.asarray(got != expected)


def compare(
    name: str,
    got: np.ndarray,
    expected: np.ndarray,
    allowed: np.ndarray | float,
    *,
    inputs: dict[str, Any] | None = None,
    threads: int | None = None,
    before: np.ndarray | None = None,
    tolerance_reason: str = "",
    others: Callable[[], Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]] = lambda: (),
    cancels: Mapping[str, Any] | None = None,
) -> None:
    """Raise Failure("wrong-result") where `got` is not what was expected.

    `name` is what the learner calls the array; `allowed` the largest absolute error, of each
    element or all, for a `tolerance_reason`. Something unchanged is recognised by the arguments,
    `inputs`, and what was there `before`; by the `threads` of a block, that only the first is
    right. `others` gives (got, expected, wrong) of the other cases that fail: what is said of how
    the values look must hold there, too. `cancels`: what to say where only elements of a mask are
    wrong, in which large terms cancel.
    """
    wrong = wrong_elements(got, expected, allowed)
    if not wrong.any():
        return
    index = first(wrong)
    mine, right = told_apart(got[index], expected[index])
    sentences = [f"{place(name, index)} is {mine}, right is {right}"]
    sentences[0] += f"; wrong: {extent(wrong)}." if got.ndim else "."
    diagnosis = (
        explain(got, expected, wrong, inputs=inputs or {}, threads=threads, others=others)
        or next((s for s, mask in (cancels or {}).items() if not (wrong & ~mask).any()), None)
        or (before is not None and _not_changed(got, wrong, before))
        or _looks_like_rounding(got, expected, allowed, tolerance_reason)
    )
    if diagnosis:
        sentences.append(diagnosis)
    raise Failure("wrong-result", "\n".join(sentences))


def explain(
    got: np.ndarray,
    expected: np.ndarray,
    wrong: np.ndarray,
    *,
    inputs: dict[str, Any],
    threads: int | None = None,
    others: Callable[[], Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]] = lambda: (),
) -> str | None:
    """What the wrong array looks like, in a sentence, or None."""
    for input_name, value in inputs.items():
        if got.size > 1 and isinstance(value, np.ndarray) and _same(got, value, expected):
            return f"It holds {input_name}, unchanged."
    if threads is None and _is_fixed(got, expected, [*others()]):
        return "It is the same in every case that is wrong."
    sentence = _looks(got, expected, wrong, threads)
    if sentence is None:
        return None
    told = [_looks(*each, threads) for each in others() if each[0].size > 1 or got.size == 1]
    if got.size == 1:  # any number is some multiple of another
        alike = told and all(each == sentence for each in told)
        return sentence.replace("Every element", "It") if alike else None
    number = re.compile(r"-?\d[\d.,]*(e[+-]?\d+)?")
    general = {number.sub("#", each or "") for each in (sentence, *told)}
    return sentence if len(general) == 1 else None


def _is_fixed(
    got: np.ndarray, expected: np.ndarray, others: list[tuple[np.ndarray, np.ndarray, np.ndarray]]
) -> bool:
    """Whether a function returns one value in all cases that fail, where others are right."""
    rights = [expected.tolist(), *(right.tolist() for _, right, _ in others)]
    fixed = all(np.array_equal(got, other) for other, _, _ in others)
    return fixed and len(rights) > 2 and any(right != rights[0] for right in rights)


def _looks(
    got: np.ndarray, expected: np.ndarray, wrong: np.ndarray, threads: int | None
) -> str | None:
    """How wrong values look, as far as one case tells."""
    if got.ndim and not np.any(got):
        return "Every element is 0: nothing was added up, or it is not what is stored."
    for sentence, candidate in _transformed(expected):
        if _same(got, candidate, expected):
            return sentence
    for words in (_shifted(got, expected), _scaled_or_offset(got, expected)):
        if words:
            return words
    return _partly_right(wrong, threads)


def _not_changed(got: np.ndarray, wrong: np.ndarray, before: np.ndarray) -> str | None:
    """Whether what is wrong in an array that is changed in place is as it was, in words."""
    if got.dtype.kind == "c" or not np.all(np.isfinite(got)):
        return None
    if np.any((got.astype(np.float64) - before)[wrong]):
        return None
    return (
        "What is wrong is as it was before: no thread has changed it. Is every value visited, also "
        "where there are more values than threads?"
    )


def _same(got: np.ndarray, candidate: np.ndarray, expected: np.ndarray) -> bool:
    """Whether `got` is the candidate, and the candidate is not just the right answer.

    Where it is near that one, too, `got` must be a hundred times nearer: 103.92 for 103.9198.
    """
    if not _near(got, candidate):
        return False
    return not _near(expected, candidate) or 100 * _gap(got, candidate) < _gap(expected, candidate)


def _gap(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two arrays of one shape, in the digits of float64."""
    wide = np.complex128 if "c" in one.dtype.kind + other.dtype.kind else np.float64
    return float(np.max(np.abs(one.astype(wide) - other), initial=0.0))


def _near(got: np.ndarray, candidate: np.ndarray) -> bool:
    """Whether every element is the candidate's, within what a diagnosis allows."""
    if candidate.shape != got.shape or {got.dtype.kind, candidate.dtype.kind} - set("fiubc"):
        return False
    if not (np.all(np.isfinite(got)) and np.all(np.isfinite(candidate))):
        return False
    wide = np.complex128 if "c" in got.dtype.kind + candidate.dtype.kind else np.float64
    scale = float(np.max(np.abs(candidate.astype(wide)), initial=0.0))
    return not np.any(np.abs(got.astype(wide) - candidate) > DIAGNOSIS_TOLERANCE * scale)


def _transformed(expected: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if expected.ndim == 2:
        swapped = "Row and column are swapped somewhere: which index belongs to which axis?"
        if expected.shape[0] == expected.shape[1]:
            yield f"Your output is the transpose of the right one. {swapped}", expected.T
        yield (
            f"The right values stand in transposed order. {swapped}",
            expected.T.reshape(expected.shape),
        )
    if expected.dtype.kind in "fci":
        yield "Every element has the wrong sign.", -expected
        yield "The signs are lost: these are the absolute values.", np.abs(expected)
    for axis in range(expected.ndim):
        if expected.shape[axis] > 1:
            where = "reversed" if expected.ndim == 1 else f"reversed along axis {axis}"
            yield f"The right values are there, but {where}.", np.flip(expected, axis)
    if expected.dtype.kind == "f":
        yield "The fractions are lost: an integer division or type is at work.", np.trunc(expected)
        yield "The values are rounded to two digits.", np.round(expected, 2)
        yield "These are the squares of the right values.", expected * expected
        with np.errstate(all="ignore"):
            yield "These are the square roots of the right values.", np.sqrt(expected)


def _shifted(got: np.ndarray, expected: np.ndarray) -> str | None:
    for axis in range(expected.ndim):
        length = expected.shape[axis]
        if length < 4:
            continue
        early = np.moveaxis(expected, axis, 0)
        mine = np.moveaxis(got, axis, 0)
        along = "" if expected.ndim == 1 else f" along axis {axis}"
        for step in (1, -1):
            taken, right = (mine[1:], early[:-1]) if step == 1 else (mine[:-1], early[1:])
            reference = early[1:] if step == 1 else early[:-1]
            if _same(taken, right, reference):
                return (
                    f"Shifted by one{along}: element i holds what belongs to element "
                    f"i {'-' if step == 1 else '+'} 1. An index is off by one."
                )
    return None


def _scaled_or_offset(got: np.ndarray, expected: np.ndarray) -> str | None:
    if expected.dtype.kind == "c" or got.dtype.kind == "c" or got.dtype.kind == "b":
        return None
    wide_got, wide = got.astype(np.float64), expected.astype(np.float64)
    if not np.all(np.isfinite(wide_got)) or not wide.any() or np.ptp(wide) == 0 < wide.size - 1:
        return None
    largest = np.unravel_index(np.argmax(np.abs(wide)), wide.shape)
    factor = wide_got[largest] / wide[largest]
    far = 100 * DIAGNOSIS_TOLERANCE  # nearer to the right one, rounding decides what it looks like
    if factor and abs(factor - 1) > far and _same(wide_got, factor * wide, wide):
        return f"Every element is {shown(factor)} times the right one."
    offset = float(np.median(wide_got - wide))
    if abs(offset) > far * np.max(np.abs(wide)) and _same(wide_got, wide + offset, wide):
        than = "more" if offset > 0 else "less"
        return f"Every element is {shown(abs(offset))} {than} than the right one."
    return None


def _partly_right(wrong: np.ndarray, threads: int | None) -> str | None:
    if wrong.all() or wrong.ndim == 0:
        return None
    flat = np.flatnonzero(wrong)
    if threads and wrong.ndim == 1 and len(flat) == wrong.size - threads and flat[0] == threads:
        return (
            f"Only the first block's {threads} elements are right. "
            "Does your index count the blocks before it, as cuda.grid(1) does?"
        )
    if wrong.ndim == 2 and wrong.shape[0] != wrong.shape[1]:
        side = min(wrong.shape)
        if not wrong[:side, :side].any() and wrong[side:].all() and wrong[:, side:].all():
            return (
                f"Only the square part, {side} x {side}, is right. "
                "Is a row compared with the number of columns, or a column with that of rows?"
            )
    sides = [side.any() for side in (wrong[0], wrong[-1], wrong[..., 0], wrong[..., -1])]
    inside = wrong[1:-1, 1:-1] if wrong.ndim == 2 else wrong
    if min(wrong.shape) > 2 and not inside.any() and all(sides):
        return "Only elements on the border are wrong. What happens at the edges?"
    return None


def _looks_like_rounding(
    got: np.ndarray, expected: np.ndarray, allowed: np.ndarray | float, reason: str
) -> str | None:
    if expected.dtype.kind not in "fc" or not np.all(np.isfinite(got)):
        return None
    with np.errstate(over="ignore"):  # a warning would stand below the student's cell
        excess = np.abs(got - expected) / np.maximum(allowed, np.finfo(np.float64).tiny)
    worst = float(np.max(excess))
    if worst > LOOKS_LIKE_ROUNDING:
        return None
    because = f" ({reason})" if reason else ""
    return (
        f"Close: the largest error is about {worst:.2g} times what rounding explains{because}. "
        "Is a value kept in a narrower type than it needs, or is a small term missing?"
    )
