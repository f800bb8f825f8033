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

from course.checks.exercises import Exercise, KernelExercise
from course.checks.functions import OutOfTime, call_once, value_of
from course.checks.judging import judge
from course.checks.kernels import simulate_case
from course.checks.repair import SAID
from course.checks.simulating import values_of
from course.checks.verdicts import Failure, NotStarted, Verdict, brief
from tools.mutants import advice, kernels, naming, rewrites, values, wholes
from tools.mutants.listed import ANSWERS
from tools.mutants.subjects import Answer, Operator, subject

OPERATORS = (*values.OPERATORS, *kernels.OPERATORS, *wholes.OPERATORS)
#: What makes mutants and what makes rewrites, by the kind of what it makes.
MUTANTS: dict[str, Operator] = {each.__name__.replace("_", "-"): each for each in OPERATORS}
REWRITES: dict[str, Operator] = {e.__name__.replace("_", "-"): e for e in rewrites.OPERATORS}
#: Kinds that store what the solution stores: who does it, and in which order, must be refused.
COSTS = {"who", "barriers", "libraries", "clamped-indices", "borrowed-references"}
#: Kinds whose values are near the solution's: the check's tolerance may be wider than they are.
DIGITS = {"roundings", "types"}
SECONDS = 6.0  # of a verdict on a mutant; the slowest on a solution takes less than one
SECONDS_RIGHT = 60.0  # of one on a rewrite, that a busy machine does not refuse it
SECONDS_APART = 10.0  # in which a survivor is compared with the solution
FIRST_SEED, MANY = 1000, 1000  # drawn cases in which it is compared


@dataclass(frozen=True)
class Outcome:
    """What became of an answer.

    `fate` is, of a mutant, "killed", "survived", "equal" (answers as the solution does), "judged"
    (passes with other values than the solution's, by a judge) or "listed"; of a rewrite "passed"
    or "refused". `said` tells it from the solution, or how often the two were compared. `named` is
    what the verdict on a killed mutant names, its "line" or "cause"; `unhelped` how the instruction
    in it did not lead further.
    """

    answer: Answer
    fate: str
    verdict: Verdict
    said: str = ""
    named: str = ""
    unhelped: str = ""


def made(
    name: str, operators: dict[str, Operator], most: int | None = None, seed: int = 0
) -> list[Answer]:
    """The answers that operators make of an exercise's solution, each text once.

    With `most` so many of them, drawn by the seed: one of each kind, then another of each.
    """
    of, rng, by_kind = subject(name), random.Random(seed), []
    for kind, operator in operators.items():
        if of.is_kernel or operator not in kernels.OPERATORS[:-1]:
            by_kind.append([(kind, change) for change in operator(of)])
    for some in (*by_kind, by_kind) if most is not None else ():
        rng.shuffle(some)
    found: dict[str, Answer] = {}
    for kind, change in filter(None, chain.from_iterable(zip_longest(*by_kind))):
        if most is not None and len(found) >= most:
            break
        if answer := of.answer(kind, change):
            found.setdefault(answer.text, answer)
    return [*found.values()]


@contextlib.contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in the main thread, even where it waits for a lock; nothing is printed."""

    def stop(number: int, frame: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again, where an answer took the first
    try:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                with (
                    contextlib.redirect_stdout(io.StringIO()),
                    contextlib.redirect_stderr(io.StringIO()),
                ):
                    yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:  # what the first one may be stopped by: there is a second between two alarms
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def verdict_of(answer: Answer, seconds: float = SECONDS_RIGHT, repairs: bool = False) -> Verdict:
    """The verdict on an answer; one that does not end, or cannot be defined, fails by that."""
    try:
        with _stopped_after(seconds):
            return judge(subject(answer.exercise).exercise, answer.define(), repairs=repairs)
    except OutOfTime:
        return Verdict(answer.exercise, "failed", "endless-loop", "It had not ended.")
    except (Exception, SystemExit) as error:
        return Verdict(answer.exercise, "failed", "raised", f"It is no answer: {error!r}")


def of_rewrite(answer: Answer) -> Outcome:
    """Whether a rewrite passes."""
    verdict = verdict_of(answer)
    return Outcome(answer, "passed" if verdict else "refused", verdict)


def of_mutant(answer: Answer) -> Outcome:
    """Whether a mutant is killed, or is none, or survives."""
    verdict = verdict_of(answer, SECONDS)
    if not verdict:
        if verdict.kind not in SAID:
            more = verdict_of(answer, SECONDS_RIGHT, repairs=True)
            verdict = more if more.kind == verdict.kind else verdict
        found = naming.named(answer, verdict.message, verdict.kind)
        return Outcome(answer, "killed", verdict, "", found, _unhelped(answer, verdict))
    for line, reason in ANSWERS.get((answer.exercise, answer.kind), {}).items():
        if line in map(str.strip, answer.text.split("\n")):
            return Outcome(answer, "listed", verdict, reason)
    if answer.kind in COSTS:
        return Outcome(answer, "survived", verdict, "by what it costs alone it can be refused")
    fate, said = _apart(subject(answer.exercise).exercise, answer)
    return Outcome(answer, fate, verdict, said)


def _unhelped(answer: Answer, verdict: Verdict) -> str:
    """How the instruction of a verdict, done to the letter, leads a mutant no further."""
    try:
        text = advice.following(answer.text, verdict)
    except LookupError as error:
        return f"it cannot be done: {error}"
    after = [] if text is None else [verdict_of(replace(answer, text=text), SECONDS)]
    return advice.without_help(subject(answer.exercise).exercise, [verdict, *after])


def _apart(exercise: Exercise, answer: Answer) -> tuple[str, str]:
    """Whether a mutant that passes has other values than the solution in drawn cases."""
    of = subject(answer.exercise)
    mutant, right = answer.define(), of.define(of.text, f"{answer.exercise}, the solution")
    judged = getattr(exercise, "judge", None) is not None
    start, compared, other = time.monotonic(), 0, 0
    for seed in range(FIRST_SEED, FIRST_SEED + MANY if exercise.drawer is not None else 0):
        if time.monotonic() - start > SECONDS_APART:
            break
        one = replace(exercise, cases=[], first_seed=seed, drawn=1)
        by_value = judged or answer.kind in DIGITS
        difference = _other_value(one, mutant, right) if by_value else _wrong(one, mutant)
        if difference and judged:
            difference, other = _wrong(one, mutant), other + 1
        if difference:
            return "survived", f"{one.cases[0].name}: {difference}"
        compared += 1
    if other:
        return "judged", f"other values in {other} of {compared} cases, all of which pass"
    return "equal" if compared else "survived", f"equal in {compared} drawn cases"


def _wrong(one: Exercise, mutant: Any) -> str:
    """What the check has against a mutant in a case; "" where nothing."""
    try:
        with _stopped_after(SECONDS):
            run = simulate_case if isinstance(one, KernelExercise) else call_once
            run(one, 0, mutant)
    except (Failure, NotStarted, OutOfTime) as error:
        return str(error).partition("\n")[0] or "it does not end"
    return ""


def _other_value(one: Exercise, mutant: Any, right: Any) -> str:
    """What a mutant returns or stores in place of the solution's values; "" where nothing."""
    run = values_of if isinstance(one, KernelExercise) else value_of
    try:
        with _stopped_after(SECONDS):
            got, wanted = deepcopy(run(one, 0, mutant)), run(one, 0, right)
    except (Exception, SystemExit, OutOfTime) as error:
        return f"it fails: {error}"
    return "" if _same(got, wanted) else f"{brief(got)} for {brief(wanted)}"


def _same(got: Any, wanted: Any) -> bool:
    """Whether two values are the same but for roundings to their type, which may fall otherwise."""
    if isinstance(wanted, dict):
        return got.keys() == wanted.keys() and all(_same(got[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list | tuple):
        return len(got) == len(wanted) and all(map(_same, got, wanted))
    wanted = np.asarray(wanted)
    if wanted.dtype.kind != "f" or np.shape(got) != wanted.shape:
        return np.array_equal(got, wanted)
    finite = np.abs(wanted[np.isfinite(wanted)], dtype=float)
    roundings = 100 * np.finfo(wanted.dtype).eps
    return np.allclose(got, wanted, roundings, roundings * finite.max(initial=0), equal_nan=True)
