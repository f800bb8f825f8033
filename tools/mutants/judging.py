"""What becomes of an answer: its verdict, and for a mutant that passes whether it is one."""

from __future__ import annotations

import contextlib
import io
import random
import signal
import time
import warnings
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from course.checks.comparing import wrong_elements
from course.checks.exercises import Exercise, KernelExercise
from course.checks.functions import OutOfTime, call_once, value_of
from course.checks.judging import judge
from course.checks.simulating import references, values_of
from course.checks.verdicts import Failure, NotStarted, Verdict
from tools.mutants import kernels, rewrites, values, wholes
from tools.mutants.subjects import Answer, Operator, subject

MUTANTS: dict[str, Operator] = {**values.OPERATORS, **kernels.OPERATORS, **wholes.OPERATORS}
REWRITES: dict[str, Operator] = rewrites.OPERATORS
#: Kinds that store what the solution stores: who does it, and in which order, must be refused.
COSTS = {"who", "barrier", "library", "clamped"}
#: Kinds whose values are near the solution's: they are other values if they have other bits.
DIGITS = {"rounding", "type"}
SECONDS = 10.0  # of a verdict; the slowest of a solution takes less than one
SECONDS_APART = 10.0  # in which a survivor is compared with the solution
FIRST_SEED, FEW, MANY = 1000, 20, 1000  # drawn cases in which it is compared


@dataclass(frozen=True)
class Outcome:
    """What became of an answer.

    Attributes
    ----------
    answer : Answer
    fate : str
        Of a mutant "killed", "survived", "equal" (answers as the solution does) or "judged" (passes
        with other values than the solution's, by a judge); of a rewrite "passed" or "refused".
    verdict : Verdict or None
    said : str
        What tells it from the solution, or how often it was compared.
    """

    answer: Answer
    fate: str
    verdict: Verdict | None
    said: str = ""


def made(name: str, operators: dict[str, Operator]) -> list[Answer]:
    """The answers that operators make of a solution, each text once."""
    of, found = subject(name), {}
    for kind, operator in operators.items():
        if kind in kernels.OPERATORS and kind != "library" and not of.is_kernel:
            continue
        for change in operator(of):
            answer = of.answer(kind, change)
            if answer is not None:
                found.setdefault(answer.text, answer)
    return [*found.values()]


def drawn(answers: list[Answer], most: int | None, seed: int) -> list[Answer]:
    """So many of them, of each kind by turns."""
    if most is None or len(answers) <= most:
        return answers
    rng, by_kind = random.Random(seed), {}
    for answer in answers:
        by_kind.setdefault(answer.kind, []).append(answer)
    for some in by_kind.values():
        rng.shuffle(some)
    taken: list[Answer] = []
    while len(taken) < most:
        for some in by_kind.values():
            if some and len(taken) < most:
                taken.append(some.pop())
    return taken


@contextlib.contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the main thread, even where it waits for a lock."""

    def stop(number: int, frame: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, where an answer took the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def verdict_of(exercise: Exercise, answer: Answer) -> Verdict:
    """The verdict on an answer; one that does not end, or cannot be defined, fails by that."""
    try:
        with _quiet(), stopped_after(SECONDS):
            return judge(exercise, answer.define())
    except OutOfTime:
        return Verdict(exercise.name, "failed", "endless-loop", "It had not ended.")
    except (Exception, SystemExit) as error:
        return Verdict(exercise.name, "failed", "raised", f"It is no answer: {error!r}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield


def of_mutant(answer: Answer) -> Outcome:
    """Whether a mutant is killed, or is none, or survives."""
    exercise = subject(answer.exercise).exercise
    verdict = verdict_of(exercise, answer)
    if verdict.status != "passed":
        return Outcome(answer, "killed", verdict)
    if answer.kind in COSTS:
        return Outcome(
            answer, "survived", verdict, "it is refused for what it costs, or not at all"
        )
    fate, said = _apart(exercise, answer)
    return Outcome(answer, fate, verdict, said)


def of_rewrite(answer: Answer) -> Outcome:
    """Whether a rewrite passes."""
    verdict = verdict_of(subject(answer.exercise).exercise, answer)
    return Outcome(answer, "passed" if verdict.status == "passed" else "refused", verdict)


def _apart(exercise: Exercise, answer: Answer) -> tuple[str, str]:
    """Whether a mutant that passes has other values than the solution in drawn cases."""
    mutant, right = (
        answer.define(),
        subject(answer.exercise).define(
            subject(answer.exercise).text, f"{answer.exercise}, the solution"
        ),
    )
    start, compared, other = time.monotonic(), 0, 0
    for one in _drawn_cases(exercise):
        if time.monotonic() - start > SECONDS_APART:
            break
        judged = getattr(exercise, "judge", None) is not None
        difference = _difference(one, mutant, right, answer.kind in DIGITS or judged)
        compared += 1
        if difference and judged and _passes(one, mutant):
            other += 1
        elif difference:
            return "survived", f"{one.cases[0].name}: {difference}"
    if other:
        return "judged", f"other values in {other} of {compared} cases, all of which pass"
    if not compared:
        return "survived", "the exercise draws no cases"
    return "equal", f"in {compared} drawn cases"


def _drawn_cases(exercise: Exercise) -> Iterator[Exercise]:
    """The exercise with one case each: those drawn by seeds of their own."""
    if exercise.drawer is None:
        return
    listed = replace(exercise, cases=[])
    for seed in range(FIRST_SEED, FIRST_SEED + MANY):
        yield listed.seeded(seed, 1)


def _passes(one: Exercise, mutant: Any) -> bool:
    try:
        with _quiet(), stopped_after(SECONDS):
            call_once(one, 0, mutant)
    except (Failure, NotStarted, OutOfTime):
        return False
    return True


def _difference(one: Exercise, mutant: Any, right: Any, bits: bool) -> str:
    """What a mutant has that is not the solution's in a case; "" where nothing is."""
    try:
        with _quiet(), stopped_after(SECONDS):
            got = _value(one, mutant)
    except (Exception, SystemExit, OutOfTime) as error:
        return f"it fails: {str(error)[:200]}"
    with _quiet():
        if isinstance(one, KernelExercise):
            wanted = _value(one, right) if bits else references(one, one.arguments(0))
        else:
            wanted = _value(one, right)
    arguments = one.arguments(0)
    for place, mine, theirs in _pairs("", got, wanted):
        allowed: Any = 0.0
        if not bits:
            kind = mine.dtype if mine.dtype.kind in "fc" else np.dtype(np.float32)
            allowed = one.tolerance.allowed(arguments, theirs, kind)
        if mine.shape != theirs.shape:
            return f"{place}has the shape {mine.shape}, not {theirs.shape}"
        wrong = wrong_elements(mine, theirs, allowed)
        if np.any(wrong):
            index = tuple(np.argwhere(wrong)[0])
            return f"{place}{mine[index]!r} for {theirs[index]!r}"
    return ""


def _value(one: Exercise, answer: Any) -> Any:
    run = values_of if isinstance(one, KernelExercise) else value_of
    return deepcopy(run(one, 0, answer))


def _pairs(place: str, got: Any, wanted: Any) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """The arrays or numbers of two values, one beside the other."""
    if isinstance(wanted, dict) and isinstance(got, dict) and set(got) == set(wanted):
        for key in wanted:
            yield from _pairs(f"{place}[{key!r}]", got[key], wanted[key])
    elif (
        isinstance(wanted, list | tuple)
        and isinstance(got, list | tuple)
        and len(got) == len(wanted)
    ):
        for number, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
            yield from _pairs(f"{place}[{number}]", mine, theirs)
    else:
        mine, theirs = _array(got), _array(wanted)
        if {mine.dtype.kind, theirs.dtype.kind} <= set("fiubc"):
            yield f"{place} ", mine, theirs
        else:
            yield f"{place} ", np.array([repr(got)]), np.array([repr(wanted)])


def _array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:
        return np.array(None)
