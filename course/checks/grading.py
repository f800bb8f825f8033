"""What an answer is worth in a class: the points of its exercise, by its verdict.

Passed: all. Right in some cases, or in all and too costly: half of the points, by the share of the
cases. Not started, without an end, or the work of all threads done by one or by each: none.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

from course import backend
from course.checks import judging, progress
from course.checks.answers import plain_function
from course.checks.exercises import Exercise, FunctionExercise, KernelExercise
from course.checks.functions import call_once
from course.checks.kernels import simulate_case
from course.checks.simulating import simulated_twin
from course.checks.verdicts import Failure, NotStarted, Verdict

FOR_WRONG = 0.5  # of the points, where an answer is right in all cases and yet fails
#: What is not tried again in the other cases: it says nothing for the answer, or takes too long.
WORTH_NOTHING = ("not-a-kernel", "not-a-function", "wrong-arguments", "typing") + (
    "endless-loop", "deadlock", "not-parallel",
)  # fmt: skip


def graded(exercise: Exercise, answer: Any) -> float:
    """Judge an answer, print the verdict and return the points.

    Nothing goes to standard error, not even an answer's own warning: nbgrader gives 0 to a cell
    that writes there.
    """
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = judging.judge(exercise, answer)
        earned = points(exercise, answer, verdict)
    progress.record(exercise, verdict, answer)
    print(verdict)
    return earned


def points(exercise: Exercise, answer: Any, verdict: Verdict) -> float:
    """Points of an answer, 0 to `exercise.points`; two decimals."""
    if verdict:
        return float(exercise.points)
    if verdict.status == "not started" or verdict.kind in WORTH_NOTHING:
        return 0.0
    share = right_cases(exercise, answer) / len(exercise.cases)
    return round(FOR_WRONG * share * exercise.points, 2)


def right_cases(exercise: Exercise, answer: Any) -> int:
    """In how many cases an answer computes what is right, at whatever cost; simulated."""
    if isinstance(exercise, FunctionExercise) and backend.gpu() is not None:
        answer = simulated_twin(plain_function(answer)) or answer
    right = 0
    for number in range(len(exercise.cases)):
        try:
            if isinstance(exercise, KernelExercise):
                simulate_case(exercise, number, answer, causes=False)
            else:
                call_once(exercise, number, answer, causes=False)
        except NotStarted:
            pass
        except Failure as failure:
            if failure.kind == "endless-loop":
                break
        else:
            right += 1
    return right
