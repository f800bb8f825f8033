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
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from course.checks.comparing import wrong_elements
from course.checks.exercises import Exercise, KernelExercise
from course.checks.functions import OutOfTime, call_once, value_of
from course.checks.judging import judge
from course.checks.simulating import references, values_of
from course.checks.verdicts import Failure, NotStarted, Verdict, brief
from tools.mutants import advice, kernels, naming, rewrites, values, wholes
from tools.mutants.listed import ANSWERS
from tools.mutants.subjects import Answer, Operator, subject


def _by_kind(*operators: Operator) -> dict[str, Operator]:
    return {operator.__name__.replace("_", "-"): operator for operator in operators}


MUTANTS = _by_kind(*values.OPERATORS, *kernels.OPERATORS, *wholes.OPERATORS)
REWRITES = _by_kind(*rewrites.OPERATORS)
#: Kinds that store what the solution stores: who does it, and in which order, must be refused.
COSTS = {"who", "barriers", "libraries", "clamped-indices"}
#: Kinds whose values are near the solution's: they are other values if they have other bits.
DIGITS = {"roundings", "types"}
SECONDS = 6.0  # of a verdict on a mutant; the slowest on a solution takes less than one
SECONDS_RIGHT = 60.0  # of one on a rewrite, that a busy machine does not refuse it
SECONDS_APART = 10.0  # in which a survivor is compared with the solution
FIRST_SEED, MANY = 1000, 1000  # drawn cases in which it is compared


@dataclass(frozen=True)
class Outcome:
    """What became of an answer.

    Attributes
    ----------
    answer : Answer
    fate : str
        Of a mutant "killed", "survived", "equal" (answers as the solution does), "judged" (passes
        with other values than the solution's, by a judge) or "listed"; of a rewrite "passed" or
        "refused".
    verdict : Verdict or None
    said : str
        What tells it from the solution, or how often it was compared.
    named : str
        What the verdict on a killed mutant names: its "line", its "cause", or nothing.
    unhelped : str
        How the instruction in the verdict did not lead further.
    """

    answer: Answer
    fate: str
    verdict: Verdict | None
    said: str = ""
    named: str = ""
    unhelped: str = ""


def made(
    name: str, operators: dict[str, Operator], most: int | None = None, seed: int = 0
) -> list[Answer]:
    """The answers that operators make of a solution, each text once; so many, kinds by turns.

    Parameters
    ----------
    name : str
        Of the exercise.
    operators : dict
        By the kind of what they make.
    most : int, optional
        All without it.
    seed : int
        By which they are drawn.
    """
    of, rng, found = subject(name), random.Random(seed), {}
    turns = []
    for kind, operator in operators.items():
        if of.is_kernel or operator not in kernels.OPERATORS[:-1]:
            changes = list(operator(of))
            if most is not None:
                rng.shuffle(changes)
            turns.append([(kind, change) for change in changes])
    for kind, change in filter(None, chain.from_iterable(zip_longest(*turns))):
        if most is not None and len(found) >= most:
            break
        answer = of.answer(kind, change)
        if answer is not None:
            found.setdefault(answer.text, answer)
    return [*found.values()]


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


def verdict_of(exercise: Exercise, answer: Answer, seconds: float) -> Verdict:
    """The verdict on an answer; one that does not end, or cannot be defined, fails by that."""
    try:
        with _quiet(), stopped_after(seconds):
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
    verdict = verdict_of(exercise, answer, SECONDS)
    if verdict.status != "passed":
        found = naming.named(answer, verdict.message, verdict.kind)
        return Outcome(answer, "killed", verdict, "", found, _unhelped(exercise, answer, verdict))
    for line, reason in ANSWERS.get((answer.exercise, answer.kind), {}).items():
        if line in map(str.strip, answer.text.split("\n")):
            return Outcome(answer, "listed", verdict, reason)
    if answer.kind in COSTS:
        return Outcome(answer, "survived", verdict, "by what it costs alone it can be refused")
    fate, said = _apart(exercise, answer)
    return Outcome(answer, fate, verdict, said)


def _unhelped(exercise: Exercise, answer: Answer, verdict: Verdict) -> str:
    """How the instruction of a verdict, done to the letter, leads a mutant no further."""
    verdicts = [verdict]
    try:
        text = advice.following(answer.text, verdict)
    except LookupError as error:
        return f"it cannot be done: {error}"
    if text is not None:
        verdicts.append(verdict_of(exercise, replace(answer, text=text), SECONDS))
    return advice.without_help(exercise, verdicts)


def of_rewrite(answer: Answer) -> Outcome:
    """Whether a rewrite passes."""
    verdict = verdict_of(subject(answer.exercise).exercise, answer, SECONDS_RIGHT)
    return Outcome(answer, "passed" if verdict.status == "passed" else "refused", verdict)


def _apart(exercise: Exercise, answer: Answer) -> tuple[str, str]:
    """Whether a mutant that passes has other values than the solution in drawn cases."""
    of = subject(answer.exercise)
    mutant, right = answer.define(), of.define(of.text, f"{answer.exercise}, the solution")
    judged = getattr(exercise, "judge", None) is not None
    start, compared, other = time.monotonic(), 0, 0
    for one in _drawn_cases(exercise):
        if time.monotonic() - start > SECONDS_APART:
            break
        compared += 1
        difference = ""
        if answer.kind in DIGITS or judged:
            difference = _other_bits(one, mutant, right)
        if difference and judged or not (answer.kind in DIGITS or judged):
            other += judged
            difference = _wrong(one, mutant)
        if difference:
            return "survived", f"{one.cases[0].name}: {difference}"
    if other:
        return "judged", f"other values in {other} of {compared} cases, all of which pass"
    return (
        ("equal", f"in {compared} drawn cases") if compared else ("survived", "it draws no cases")
    )


def _drawn_cases(exercise: Exercise) -> Iterator[Exercise]:
    """The exercise with one case each: those drawn by seeds of their own."""
    if exercise.drawer is not None:
        for seed in range(FIRST_SEED, FIRST_SEED + MANY):
            yield replace(exercise, cases=[], first_seed=seed, drawn=1)


def _wrong(one: Exercise, mutant: Any) -> str:
    """What the check has against a mutant in a case; "" where nothing."""
    try:
        with _quiet(), stopped_after(SECONDS):
            if not isinstance(one, KernelExercise):
                call_once(one, 0, mutant)
                return ""
            arguments = one.arguments(0)
            wanted = references(one, arguments)
            for name, got in values_of(one, 0, mutant).items():
                allowed = one.tolerance.allowed(arguments, wanted[name], got.dtype)
                if wrong_elements(got, wanted[name], allowed).any():
                    return f"{name} has wrong elements"
    except (Failure, NotStarted, OutOfTime) as error:
        return str(error).partition("\n")[0] or "it does not end"
    return ""


def _other_bits(one: Exercise, mutant: Any, right: Any) -> str:
    """What a mutant returns or stores that is not to the bit the solution's; "" where nothing."""
    run = values_of if isinstance(one, KernelExercise) else value_of
    try:
        with _quiet(), stopped_after(SECONDS):
            got, wanted = deepcopy(run(one, 0, mutant)), run(one, 0, right)
    except (Exception, SystemExit, OutOfTime) as error:
        return f"it fails: {error}"
    return "" if _same(got, wanted) else f"{brief(got)} for {brief(wanted)}"


def _same(got: Any, wanted: Any) -> bool:
    """Whether two values are the same in each of their numbers."""
    if isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(_same(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return len(got) == len(wanted) and all(map(_same, got, wanted))
    if isinstance(wanted, float | np.ndarray | np.number):
        return np.array_equal(np.asarray(got, float), np.asarray(wanted, float), equal_nan=True)
    return bool(got == wanted)
