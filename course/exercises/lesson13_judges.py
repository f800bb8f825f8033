"""The judge of bytes of lesson 13: it says of each of two figures what is counted wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

NAMES = ("bytes of the launches", "bytes of one kernel")
RULES = {
    NAMES[0]: "For each launch count each name that it reads, and the one that it writes.",
    NAMES[1]: "One kernel reads each name that no launch writes, once, and writes the `results`.",
}

Count = Callable[..., float]  # of an exercise's arguments: bytes


# --- what is right --------------------------------------------------------------------------------


def _sizes(of_a_sample, of_weights, batch):
    """Bytes of each name."""
    size = {name: 4 * batch * count for name, count in of_a_sample.items()}
    return size | {name: 4 * count for name, count in of_weights.items()}


def _of_launches(launches, of_a_sample, of_weights, results, batch):
    """Bytes that all launches move."""
    size = _sizes(of_a_sample, of_weights, batch)
    return sum(size[name] for reads, written in launches for name in (*reads, written))


def _of_one(launches, of_a_sample, of_weights, results, batch):
    """Bytes that one kernel for the whole moves."""
    size = _sizes(of_a_sample, of_weights, batch)
    read = {name for reads, _ in launches for name in reads}
    made = {written for _, written in launches}
    return sum(size[name] for name in (*(read - made), *results))


# --- what is counted otherwise --------------------------------------------------------------------


def _otherwise(count: Count, **changes: Callable[[dict], Any]) -> Count:
    """A count in which some arguments are others, made of all the right ones."""
    return lambda **given: count(**given | {name: new(given) for name, new in changes.items()})


def _times(count: Count, factor: float) -> Count:
    return lambda **given: factor * count(**given)


def _first_alone(given):
    return given["launches"][:1]


def _only_reading(launches, of_a_sample, of_weights, results, batch):
    size = _sizes(of_a_sample, of_weights, batch)
    return sum(size[name] for reads, _ in launches for name in reads)


def _only_writing(launches, of_a_sample, of_weights, results, batch):
    size = _sizes(of_a_sample, of_weights, batch)
    return sum(size[written] for _, written in launches)


def _read_once(launches, of_a_sample, of_weights, results, batch, only_weights=False):
    """Launches of which only the first reads a name, or a weight."""
    size = _sizes(of_a_sample, of_weights, batch)
    reads = [name for reads, _ in launches for name in reads]
    again = [
        name
        for place, name in enumerate(reads)
        if name in reads[:place] and (name in of_weights or not only_weights)
    ]
    every = _of_launches(launches, of_a_sample, of_weights, results, batch)
    return every - sum(size[name] for name in again)


def _read_each_time(launches, of_a_sample, of_weights, results, batch):
    """One kernel that reads a weight anew for each layer."""
    size = _sizes(of_a_sample, of_weights, batch)
    made = {written for _, written in launches}
    read = [name for reads, _ in launches for name in reads if name not in made]
    return sum(size[name] for name in (*read, *results))


def _kept(launches, of_a_sample, of_weights, results, batch, read=False):
    """One kernel that writes what lies between the layers, or reads it, too."""
    size = _sizes(of_a_sample, of_weights, batch)
    reads = {name for reads, _ in launches for name in reads}
    made = {written for _, written in launches}
    return sum(size[name] for name in (*(reads if read else reads - made), *made))


def _results_again(launches, of_a_sample, of_weights, results, batch):
    """One kernel that reads its own results."""
    size = _sizes(of_a_sample, of_weights, batch)
    again = {name for reads, _ in launches for name in reads if name in results}
    whole = _of_one(launches, of_a_sample, of_weights, results, batch)
    return whole + sum(size[name] for name in again)


def _results_written(launches, of_a_sample, of_weights, results, batch):
    """Launches of which only those write that make a result."""
    size = _sizes(of_a_sample, of_weights, batch)
    reads = sum(size[name] for reads, _ in launches for name in reads)
    return reads + sum(size[name] for name in results)


def _without_what_lies_between(launches, of_a_sample, of_weights, results, batch):
    """All that the launches move, less twice what lies between: once written, once read."""
    size = _sizes(of_a_sample, of_weights, batch)
    every = _of_launches(launches, of_a_sample, of_weights, results, batch)
    return every - sum(2 * size[made] for _, made in launches if made not in results)


def _weights_for_each(given):
    return {name: given["batch"] * count for name, count in given["of_weights"].items()}


def _no_weights(given):
    return dict.fromkeys(given["of_weights"], 0)


def _with_sizes(count: Count, others: dict[str, Count]) -> dict[str, Count]:
    """What may be wrong with a figure: a sentence, and what is counted then."""
    return {
        "numbers are counted, not bytes: 4 for each": _times(count, 1 / 4),
        "each number is counted with 8 bytes: a float32 has 4": _times(count, 2),
        "bits are counted, not bytes": _times(count, 8),
        "KiB are counted, not bytes": _times(count, 1 / 1024),
        "weights are multiplied by the batch: all samples share them": _otherwise(
            count, of_weights=_weights_for_each
        ),
        "the batch is left out": _otherwise(count, batch=lambda given: 1),
        "the weights are left out": _otherwise(count, of_weights=_no_weights),
    } | others


MISTAKES = (
    _with_sizes(
        _of_launches,
        {
            "what the launches write is left out": _only_reading,
            "what the launches read is left out": _only_writing,
            "only the first launch is counted (a `return` in the loop?)": _otherwise(
                _of_launches, launches=_first_alone
            ),
            "only the results are written: each launch writes what it makes": _results_written,
            "what two launches read is counted once: each reads it for itself": _read_once,
            "a weight that two launches read is counted once: each reads it for itself": (
                lambda **given: _read_once(**given, only_weights=True)
            ),
        },
    ),
    _with_sizes(
        _of_one,
        {
            "what is read twice counts twice in the one kernel, too": _read_each_time,
            "what lies between the layers is counted: the one kernel keeps it to itself": _kept,
            "what lies between the layers is written and read: the one kernel keeps it to itself": (
                lambda **given: _kept(**given, read=True)
            ),
            "the one kernel reads its own results: it still has them": _results_again,
            "the one kernel's results are left out": _otherwise(_of_one, results=lambda given: []),
            "of several results only the last is counted: all of `results` are written, also one "
            "that a launch reads": _otherwise(_of_one, results=lambda given: given["results"][-1:]),
            "twice each name between the layers is taken off: it may be read more than twice, and "
            "what else two launches read still counts twice": _without_what_lies_between,
            "the one kernel reads what the first launch reads, and nothing that later ones need": (
                _otherwise(_of_one, launches=_first_alone)
            ),
        },
    ),
)


def judge_bytes(answer: Any, **arguments: Any) -> str | None:
    """Judge (bytes of the launches, bytes of one kernel): each is told what it counts wrongly."""
    pair = answer.tolist() if isinstance(answer, np.ndarray) else answer
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        return f"Return two values, {NAMES[0]} and {NAMES[1]}; got {answer!r:.60}."
    for value, name in zip(pair, NAMES, strict=True):
        if np.ndim(value) or isinstance(value, bool) or np.asarray(value).dtype.kind not in "iuf":
            return f"Your {name} are {value!r:.60}: return a number."
    right = _of_launches(**arguments), _of_one(**arguments)
    if tuple(pair) == right:
        return None
    told = [_told(*figure, arguments) for figure in zip(pair, right, NAMES, MISTAKES, strict=True)]
    if tuple(pair) == right[::-1]:
        return " ".join(sentence for sentence, _ in told) + " The two have changed places."
    reasons = {reason for sentence, reason in told if sentence}
    if len(reasons) == 1:  # of one figure, or the same of both
        told = [(sentence, "") for sentence, _ in told] + [("", reasons.pop())]
    return " ".join(part for figure in told for part in figure if part)


def _told(value, wanted, name, mistakes, arguments) -> tuple[str, str]:
    """What to say of a figure, and why it is so, or else the rule; nothing if it is right."""
    if value == wanted:
        return "", ""
    found = [what for what, count in mistakes.items() if value == count(**arguments)]
    why = f"That is what you get when {found[0]}." if found else RULES[name]
    return f"Your {name} are {float(value):,.10g}; right is {wanted:,}.", why
