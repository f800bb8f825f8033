"""The verdict on an answer: kernel or function, and what a stub or a fault becomes."""

from __future__ import annotations

from typing import Any

from course.checks.answers import plain_function
from course.checks.causes import agreeing, named_cause
from course.checks.exercises import Exercise, FunctionExercise, KernelExercise
from course.checks.functions import judge_function
from course.checks.kernels import judge_kernel
from course.checks.verdicts import Failure, NotStarted, Verdict, failed


def judge(exercise: Exercise, answer: Any) -> Verdict:
    """The verdict on an answer; never raises for anything that the answer does."""
    try:
        if isinstance(exercise, KernelExercise):
            passed = judge_kernel(exercise, answer)
        elif isinstance(exercise, FunctionExercise):
            passed = judge_function(exercise, answer)
        else:
            raise TypeError(f"no judge for exercises of type {type(exercise).__name__}")
    except NotStarted:
        message = "Write your code where the stub says `pass`, then run this cell again."
        return Verdict(exercise.name, "not started", "not-started", message)
    except Failure as failure:
        cases = [exercise.arguments(number) for number in range(len(exercise.cases))]
        named_cause(failure, plain_function(answer), cases[0])
        if failure.kind == "out-of-bounds":
            hint = exercise.hints.get("out-of-bounds") if failure.hint is None else failure.hint
            failure.message = agreeing(failure.message, hint, cases)
        return failed(exercise.name, failure, dict(exercise.hints))
    return Verdict(exercise.name, "passed", "passed", passed)
