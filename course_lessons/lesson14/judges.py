"""The judge of bytes of lesson 14: it says of each of two figures what is counted wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np

from course.checks.verdicts import brief
from course_lessons.edits import edits

NAMES = ("bytes of the launches", "bytes of one kernel")
RULES = {
    NAMES[0]: "For each launch count each name that it reads, and the one that it writes.",
    NAMES[1]: "One kernel reads each name that no launch writes, once, and writes the `results`.",
}


def _right(launches, of_a_sample, of_weights, results, batch):
    """Bytes that all launches move, and those that one kernel for the whole moves."""
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    size |= {name: 4 * count for name, count in of_weights.items()}
    read = {name for reads, _ in launches for name in reads}
    made = {written for _, written in launches}
    apart = sum(size[name] for reads, written in launches for name in (*reads, written))
    return apart, sum(size[name] for name in (*(read - made), *results))


_SIZES = edits("""
    numbers are counted, not bytes: 4 for each
        return [figure / 4 for figure in {}]
    each number is counted with 8 bytes: a float32 has 4
        return [2 * figure for figure in {}]
    bits are counted, not bytes
        return [8 * figure for figure in {}]
    KiB are counted, not bytes
        return [figure / 1024 for figure in {}]
    weights are multiplied by the batch: all samples share them
        4 * count -> 4 * batch * count
    the batch is left out
        first: batch = 1
    the weights are left out
        first: of_weights = dict.fromkeys(of_weights, 0)
""")
#: What may be wrong with the one figure, and with the other.
MISTAKES = (
    _SIZES
    | edits("""
        what the launches write is left out
            (*reads, written) -> reads
        what the launches read is left out
            (*reads, written) -> [written]
        only the first launch is counted (a `return` in the loop?)
            first: launches = launches[:1]
        only the results are written: each launch writes what it makes
            (*reads, written)) -> reads) + sum(size[name] for name in results)
        what two launches read is counted once: each reads it for itself
            (*reads, written))
            -> [written]) + sum(size[name] for name in {n for reads, _ in launches for n in reads})
        a weight that two launches read is counted once: each reads it for itself
            (*reads, written))
            -> {*reads, written} - {*of_weights}) + sum(size[name] for name in of_weights)
    """),
    _SIZES
    | edits("""
        what is read twice counts twice in the one kernel, too
            *(read - made), -> *(n for reads, _ in launches for n in reads if n not in made),
        what lies between the layers is counted: the one kernel keeps it to itself
            *results -> *made
        what lies between the layers is written and read: the one kernel keeps it to itself
            *(read - made), *results -> *read, *made
        the one kernel reads its own results: it still has them
            *results -> *results, *(read & {*results})
        the one kernel's results are left out
            first: results = []
        of several results only the last is counted: all of `results` are written, also one that a
        launch reads
            first: results = results[-1:]
        twice each name between the layers is taken off: it may be read more than twice, and what
        else two launches read still counts twice
            sum(size[name] for name in (*(read - made), *results))
            -> unfused - sum(2 * size[name] for name in made - {*results})
        the one kernel reads what the first launch reads, and nothing that later ones need
            first: launches = launches[:1]
    """),
)


def judge_bytes(answer: Any, **arguments: Any) -> str | None:
    """Judge (bytes of the launches, bytes of one kernel): each is told what it counts wrongly."""
    pair = answer.tolist() if isinstance(answer, np.ndarray) else answer
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return f"Return two values, {NAMES[0]} and {NAMES[1]}; got {brief(answer)}."
    for value, name in zip(pair, NAMES, strict=True):
        if np.ndim(value) or isinstance(value, bool) or np.asarray(value).dtype.kind not in "iuf":
            return f"Your {name} are {brief(value)}: return a number."
    right = _right(**arguments)
    if tuple(pair) == right:
        return None
    told = [_told(place, pair[place], right[place], arguments) for place in range(2)]
    if tuple(pair) == right[::-1]:
        return " ".join(sentence for sentence, _ in told) + " The two have changed places."
    reasons = {reason for sentence, reason in told if sentence}
    if len(reasons) == 1:  # of one figure, or the same of both
        told = [(sentence, "") for sentence, _ in told] + [("", reasons.pop())]
    return " ".join(part for figure in told for part in figure if part)


def _told(place, value, wanted, arguments) -> tuple[str, str]:
    """What to say of a figure, and why it is so, or else the rule; nothing if it is right."""
    if value == wanted:
        return "", ""
    name = NAMES[place]
    why = RULES[name]
    for what, edit in MISTAKES[place].items():
        if value == (edit.called("fused-bytes", arguments) or (None, None))[place]:
            why = f"That is what you get when {what}."
            break
    return f"Your {name} are {float(value):,.10g}; right is {wanted:,}.", why
