"""Exercises: how one is declared, how an answer is judged, what is said of it; and `check`.

An exercise is declared in ``course_lessons/lessonNN/exercises.py`` by `KernelExercise.declare` or
`FunctionExercise.declare` (`course.checks.exercises`). How an answer is judged stands in
`course.checks.judging`; what is said about it in `course.checks.verdicts`.
"""

from __future__ import annotations

import os
from typing import Any

from course.checks import cells, grading, judging, progress
from course.checks.exercises import find_exercise
from course.checks.verdicts import Verdict, VerdictError
from course.files import progress_file

cells.watch()


def check(
    name: str, answer: Any, *, wrong_on_purpose: bool = False, seed: int = 0, explain: bool = False
) -> Verdict | float:
    """Try an answer in all cases of an exercise and say what came out.

    Parameters
    ----------
    name : str
        Name of the exercise, as the lesson gives it.
    answer : kernel or function
        What you wrote: the kernel itself, not a launch of it.
    wrong_on_purpose : bool
        A lesson shows what a verdict on this answer looks like: it is not noted in `progress`, and
        COURSE_STRICT does not stop it.
    seed : int
        The first of those by which the drawn cases are drawn. A verdict on a drawn case names its
        seed: with that one the case is tried again.
    explain : bool
        All help at once: the hint, and of an answer that one change makes right the line and the
        change. A learner's own session gives these from the second and third wrong answer on.

    Returns
    -------
    Verdict
        Shows itself. On a GPU machine the answer is simulated first, and launched on the GPU only
        if the simulation is clean. Where the cell that defines the answer failed to run, that is
        said ("not-run"), and nothing is judged: the answer would be an older one. (That a cell was
        edited and not run cannot be seen from here: what it defined last is judged.) Where the
        environment has COURSE_GRADING=1 the verdict is printed, and the answer's points are
        returned, a number: nbgrader takes that for the cell's score.

    Raises
    ------
    UnknownExercise
        When no exercise has that name.
    VerdictError
        When the environment has COURSE_STRICT=1 and the verdict is not "passed".
    """
    exercise = find_exercise(name)
    if seed:
        exercise = exercise.seeded(seed)
    grades = os.environ.get("COURSE_GRADING") == "1" and not wrong_on_purpose
    cells.watch()  # the package may have been imported before there was an IPython
    if reason := cells.stale(answer):
        verdict = Verdict(name, "failed", "not-run", reason)
        if grades:
            print(verdict)
            return 0.0
    elif grades:
        return grading.graded(exercise, answer)
    else:
        learns = progress_file() is not None and not wrong_on_purpose
        earlier = progress.tries(name, answer) if learns else 0
        verdict = judging.judge(exercise, answer, repairs=earlier > 0 or explain)
        if not wrong_on_purpose:
            progress.record(exercise, verdict, answer)
        if learns and not explain:
            verdict = verdict.at_try(earlier)
    if os.environ.get("COURSE_STRICT") == "1" and not verdict and not wrong_on_purpose:
        raise VerdictError(verdict)
    return verdict
