"""Judges of lesson 08: each says in a sentence what is wrong with an answer, or nothing."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from course.checks.verdicts import brief
from course_lessons.lesson08.overlap import STEPS, Stage, busy_shares, in_turns, length, play

#: In the check every image takes so long [ms]: three engines with almost as much to do.
STAGE = Stage(1.0, 1.5, 1.25)
NEARLY = 1.02  # times the best order's time


# --- fill the queues ----------------------------------------------------------------------------


def judge_queue(answer: Any, images: int, streams: int) -> str | None:
    """Judge a list of (step, image, stream) in the order in which they are queued."""
    if not isinstance(answer, tuple | list):
        kind = type(answer).__name__
        shown = "a generator; leave `yield` out" if kind == "generator" else brief(answer)
        return f"Return a list of (step, image, stream); got {shown}."
    for place, command in enumerate(answer):
        fault = _no_command(command, images, streams)
        if fault:
            return f"Entry {place} is {brief(command)}: {fault}"
    commands = [(step, int(image), int(stream)) for step, image, stream in answer]
    return (
        _not_once_each(commands, images)
        or _not_in_order(commands)
        or _overwritten(commands)
        or _too_slow(commands, images, streams)
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _no_command(command: Any, images: int, streams: int) -> str | None:
    if not isinstance(command, tuple | list) or len(command) != 3:
        return "it must have three parts, (step, image, stream)."
    step, image, stream = command
    if step not in STEPS:
        return f"the step must be one of {', '.join(map(repr, STEPS))}."
    if not _is_whole(image) or not 0 <= image < images:
        return f"there is no image {image!r}; they are 0 to {images - 1}."
    if not _is_whole(stream):
        return f"the stream is {stream!r}, no whole number. // and % give whole numbers."
    if not 0 <= stream < streams:
        return f"there is no stream {stream}; they are 0 to {streams - 1}."
    return None


def _not_once_each(commands: list, images: int) -> str | None:
    for image in range(images):
        for step in STEPS:
            count = sum(command[:2] == (step, image) for command in commands)
            if count != 1:
                how = "is missing" if count == 0 else f"is queued {count} times"
                return f"The {step} of image {image} {how}."
    return None


def _not_in_order(commands: list) -> str | None:
    where = {(step, image): (n, s) for n, (step, image, s) in enumerate(commands)}
    for step, image in where:
        if step == STEPS[0]:
            continue
        before = STEPS[STEPS.index(step) - 1]
        (first, stream), (then, other) = where[before, image], where[step, image]
        if stream != other:
            return (
                f"The {step} of image {image} is in stream {other}, its {before} in stream "
                f"{stream}: nothing makes it wait. Streams know nothing of each other, so an "
                "image's three steps belong in one."
            )
        if then < first:
            return (
                f"The {step} of image {image} is queued before its {before}: a stream does its "
                "work in the order in which you queue it."
            )
    return None


def _overwritten(commands: list) -> str | None:
    """Each stream has buffers for one image."""
    held: dict[int, int] = {}
    for step, image, stream in commands:
        if step == "copy in":
            if stream in held:
                return (
                    f"The copy in of image {image} overwrites image {held[stream]}, which stream "
                    f"{stream} has not copied out yet: a stream has buffers for one image at a "
                    "time. Queue an image's three steps before the next image of that stream."
                )
            held[stream] = image
        elif step == "copy out":
            held.pop(stream, None)
    return None


def _too_slow(commands: list, images: int, streams: int) -> str | None:
    best = length(play(in_turns(images, streams), STAGE))
    spans = play(commands, STAGE)
    takes = length(spans)
    if takes <= NEARLY * best:
        return None
    used = {stream for _, _, stream in commands}
    text = f"In the model {images} images take {takes:.4g} ms; {best:.4g} ms are possible."
    if len(used) < min(streams, images):
        return (
            f"{text} You use {len(used)} of {streams} streams: work in one stream never overlaps "
            "with work in the same one."
        )
    share = max(busy_shares(spans).values())
    return (
        f"{text} The busiest engine works {share:.0%} of the time. Give the streams an image each "
        "in turns."
    )


# --- pack the factors ---------------------------------------------------------------------------


class Shelf:
    """Where an answer takes its buffer from; remembers what it gave."""

    def __init__(self) -> None:
        self.given: list[np.ndarray] = []

    def __repr__(self) -> str:
        return "a shelf"

    def take(self, count: int) -> np.ndarray:
        """A buffer of `count` float32 in pinned memory; what it holds is left over."""
        if not _is_whole(count) or count < 1:
            raise ValueError(
                f"take({count!r}): give a number of elements, a whole number from 1 up"
            )
        if count > 10_000_000:
            raise ValueError(f"take({count}): more than 10,000,000 elements are not there")
        self.given.append(np.full(int(count), np.nan, dtype=np.float32))
        return self.given[-1]


def judge_packing(
    answer: Any, u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int, take: Callable
) -> str | None:
    """Judge a buffer into which the used parts of the factors were packed."""
    given = take.__self__.given
    parts = {"u[:, :k]": u[:, :k], "s[:k]": s[:k], "vt[:k]": vt[:k]}
    needed = sum(part.size for part in parts.values())
    if not given:
        return "You never called take(): the memory that you return is pageable."
    if len(given) > 1:
        return (
            f"You took {len(given)} buffers. One is enough for all three, and one buffer is one "
            "copy to the GPU."
        )
    if not isinstance(answer, np.ndarray):
        return f"Return the buffer, an array; got {type(answer).__name__}."
    if not np.shares_memory(answer, given[0]):
        return (
            "What you return is not the buffer that take() gave, but new memory, and that is "
            "pageable. Write into the buffer: buffer[...] = values."
        )
    if answer.shape != (needed,):
        return (
            f"The buffer has the shape {answer.shape}, right is ({needed},): rows · k numbers of "
            "u, k of s, k · columns of vt, one after the other."
        )
    return _wrong_part(answer, parts)


def _wrong_part(answer: np.ndarray, parts: dict[str, np.ndarray]) -> str | None:
    start = 0
    for name, part in parts.items():
        right = np.asarray(part, dtype=np.float32).ravel()
        found = answer[start : start + right.size]
        where = f"numbers {start} to {start + right.size - 1} of the buffer"
        start += right.size
        if np.array_equal(found, right):
            continue
        if np.isnan(found).all():
            return f"Nothing was written to {where}, where {name} belongs."
        if np.isnan(found).any():
            return f"{int(np.isnan(found).sum())} of {where} were never written: {name} is there."
        return f"The {where} are not {name}, row by row: the first is {found[0]:.9g}, " + (
            f"right is {right[0]:.9g}."
            if found[0] != right[0]
            else "and so it should be, but others differ."
        )
    return None


# --- outputs that are stale ---------------------------------------------------------------------


def printed(source: str, names: dict[str, Any]) -> str:
    """What one of the exercise's own cells prints."""
    with contextlib.redirect_stdout(io.StringIO()) as text:
        exec(source, names)
    return text.getvalue()


def stale(cells: list[tuple[str, str]]) -> list[int]:
    """Places of the cells that do not print what is saved, all run in order in one namespace."""
    names: dict[str, Any] = {}
    return [place for place, (source, saved) in enumerate(cells) if printed(source, names) != saved]


def judge_stale(answer: Any, cells: list[tuple[str, str]]) -> str | None:
    """Judge a list of places of cells."""
    if not isinstance(answer, tuple | list | np.ndarray | set):
        return f"Return a list of places, [] if there is none; got {brief(answer)}."
    if not all(_is_whole(place) for place in answer):
        return f"Places are whole numbers from 0; got {brief(list(answer))}."
    right, found = stale(cells), [int(place) for place in answer]
    if sorted(found) == right:
        return None
    if len(set(found)) < len(found):
        return f"You return {found}: name each cell once."
    if any(place not in range(len(cells)) for place in found):
        return f"You return {found}; there are cells 0 to {len(cells) - 1}."
    wrong = [place for place in found if place not in right]
    if wrong:
        source, saved = cells[wrong[0]]
        return (
            f"You name cell {wrong[0]}, {brief(source, 50)}. But run after the cells before it, it "
            f"prints what is saved, {brief(saved, 30)}. Do all cells share one namespace, a new "
            "one for each notebook, and do you compare each with its own output alone?"
        )
    missing = next(place for place in right if place not in found)
    source, saved = cells[missing]
    return (
        f"Cell {missing}, {brief(source, 50)}, does not print what is saved, {brief(saved, 30)}; "
        f"you return {found}. Run the cells in the order in which they stand, and compare the "
        "whole text."
    )
