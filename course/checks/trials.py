"""What judging kernels and judging functions share: cases in words, inputs left alone."""

from __future__ import annotations

import contextlib
import io
import threading
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from course.checks.comparing import extent, first, place, told_apart
from course.checks.exercises import Case, Dimensions, Exercise, KernelExercise
from course.checks.verdicts import Failure, brief
from warpsim.core.masks import limited_steps
from warpsim.core.words import count

_printing = threading.RLock()  # sys.stdout is the process's


@contextlib.contextmanager
def unprinted(most_steps: int) -> Iterator[None]:
    """Let an answer print nothing, and stop its kernels' loops; one thread at a time."""
    with _printing, contextlib.redirect_stdout(io.StringIO()), limited_steps(most_steps):
        yield


@contextlib.contextmanager
def named_case(exercise: Exercise, number: int) -> Iterator[None]:
    """Add the case to a failure that passes through."""
    try:
        yield
    except Failure as failure:
        if failure.case is None:
            failure.case, failure.number = describe_case(exercise, number), number
        raise


@contextlib.contextmanager
def with_other_values(exercise: Exercise) -> Iterator[tuple[Exercise, int] | None]:
    """The exercise with other values, and its first case that has such; None where none has.

    A failure in there says that the answer was right with the values before.
    """
    anew = replace(exercise, anew=True)
    numbers = range(len(exercise.cases))
    differs = (n for n in numbers if not _same(exercise.arguments(n), anew.arguments(n)))
    number = next(differs, None)
    if number is None:
        yield None
        return
    try:
        with named_case(anew, number):
            yield anew, number
    except Failure as failure:
        failure.message = (
            "Right, and wrong when this case comes again with other values. Something is kept "
            f"between calls: a result, or a sum that does not begin anew. {failure.message}"
        )
        failure.hint = "Compute all from the arguments; keep nothing in names outside the function."
        raise


def describe_case(exercise: Exercise, number: int) -> str:
    """A case in words: its name and, for a kernel, grid and block."""
    case = exercise.cases[number]
    if not isinstance(exercise, KernelExercise):
        return case.name
    grid, block = launch_configuration(exercise, case, exercise.arguments(number))
    return f"{case.name}, grid {_dimensions(grid)}, block {_dimensions(block)}"


def _dimensions(value: Dimensions) -> str:
    numbers = (value,) if isinstance(value, int) else value
    return " x ".join(map(str, numbers))


def launch_configuration(
    exercise: KernelExercise, case: Case, arguments: Mapping[str, Any]
) -> tuple[Dimensions, Dimensions]:
    """(grid, block) of a case; just enough blocks for the first output where no grid is given."""
    if case.grid is not None:
        return case.grid, case.block
    block = (case.block,) if isinstance(case.block, int) else tuple(case.block)
    shape = arguments[(exercise.outputs + exercise.updated)[0]].shape
    if len(block) < len(shape):
        raise ValueError(
            f"exercise {exercise.name!r}, case {case.name!r}: a block of {len(block)} axes does "
            f"not say how to cover an output of {len(shape)}; give the case a grid"
        )
    sizes = tuple(reversed(shape)) + (1,) * len(block)
    grid = tuple(-(-size // threads) for size, threads in zip(sizes, block, strict=False))
    return (grid if len(grid) > 1 else grid[0]), case.block


def from_finding(finding: Any, findings: tuple[Any, ...] = ()) -> Failure:
    """A simulator's finding as a failure: its sentence begins with the thread, if there is one."""
    message = finding.sentence.strip().rstrip(".")
    line, code = finding.line, finding.code
    if finding.call is not None:  # in a function that is not the learner's
        message += f"; that is its line {line}: {code}"
        line, code = finding.call
    hint = "" if finding.whole else None
    return Failure(finding.kind, f"{message}.", line, code, findings, hint)


def copied(value: Any) -> Any:
    """A copy of an array, of a list or of a dictionary with all in it; anything else as it is."""
    if isinstance(value, np.ndarray):
        return value.copy(order="K")  # columns that lie side by side stay so
    return deepcopy(value) if isinstance(value, list | dict) else value


def inputs_unchanged(
    exercise: Exercise, before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    """Raise Failure("input-modified") if an argument that is no output has changed."""
    results = getattr(exercise, "outputs", ()) + getattr(exercise, "updated", ())
    for name, old in before.items():
        if name in results or _same(old, after[name]):
            continue
        if not isinstance(old, np.ndarray):
            raise Failure(
                "input-modified",
                "What your function is given belongs to the caller, and it changed it: "
                f"{brief(old, 70)} is now {brief(after[name], 70)}. Work on a copy: sorted(x) and "
                "list(x) make new lists, dict(x) a new dictionary.",
            )
        new = after[name]
        if (old.shape, old.dtype) != (new.shape, new.dtype):
            raise Failure(
                "input-modified",
                f"{name} is an input, but it was {_described(old)} and is now {_described(new)}: "
                f"{name}.reshape(...) and {name}.astype(...) give a new array and leave it alone.",
            )
        changed = np.asarray((old != new) & ~((old != old) & (new != new)))
        index = first(changed) if changed.any() else (0,) * old.ndim
        was, now = told_apart(old[index], new[index])
        target = f": write to {', '.join(results)} instead" if results else ""
        raise Failure(
            "input-modified",
            f"{name} is an input, but {place(name, index)} changed from {was} to {now}; "
            f"changed: {extent(changed)}{target}.",
        )


def all_cases(exercise: Exercise) -> str:
    """The sentence of a passed verdict."""
    listed = [case.name for case in exercise.cases if case.seed is None]
    drawn = len(exercise.cases) - len(listed)
    further = f", and in {drawn} drawn ones" if drawn else ""
    return f"Right in {count(len(listed), 'case')}: {'; '.join(listed)}{further}."


def _same(old: Any, new: Any) -> bool:
    """Whether an argument is as it was: an array, or a list or a dictionary with all in it."""
    if isinstance(old, np.ndarray):
        alike = isinstance(new, np.ndarray) and (old.shape, old.dtype) == (new.shape, new.dtype)
        return alike and old.tobytes() == new.tobytes()
    if isinstance(old, dict):
        return list(old) == list(new) and all(_same(old[key], new[key]) for key in old)
    if isinstance(old, list):
        return len(old) == len(new) and all(map(_same, old, new))
    if old is new or type(old).__eq__ is object.__eq__:  # a copy of such an object equals nothing
        return True
    return bool(old == new) or bool(old != old and new != new)


def _described(array: np.ndarray) -> str:
    return f"of shape {array.shape}, {array.dtype}"
