"""Simulate a kernel in a case of its exercise: what it stores there, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from course import backend
from course.checks import answers, trials
from course.checks.comparing import poison
from course.checks.exercises import KernelExercise, call_with_named
from course.checks.trials import from_finding, launch_configuration
from course.checks.verdicts import Failure
from warpsim import KernelError, trace
from warpsim.core.masks import EndlessLoop
from warpsim.host import gpus
from warpsim.run.launch import run_kernel

# In this order a fault is more likely the cause of the others than their effect.
ERRORS = (
    "out-of-bounds", "misaligned", "barrier-divergence", "deadlock", "race", "uninitialised-read",
)  # fmt: skip
MOST_STEPS = 20_000  # passes of one loop; the cases are small


def references(exercise: KernelExercise, arguments: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What is right for the arguments of a case, by the name of each output."""
    return by_name(exercise, call_with_named(exercise.reference, arguments), arguments)


def by_name(
    exercise: KernelExercise, result: Any, arguments: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """What a reference or a mistake gives, by name and in the shapes of the outputs."""
    names = exercise.outputs + exercise.updated
    results = result if isinstance(result, dict) else {names[0]: result}
    wanted = {}
    for name in names:
        if name not in results:
            raise KeyError(f"the reference of exercise {exercise.name!r} returns no {name!r}")
        value = np.asarray(results[name])
        wanted[name] = np.broadcast_to(value, arguments[name].shape)
    return wanted


def prepared(
    exercise: KernelExercise, number: int, expected: dict[str, np.ndarray], *, finite: bool = False
) -> dict[str, Any]:
    """The arguments of a case, poison in its outputs."""
    arguments = exercise.arguments(number)
    for name in exercise.outputs:
        arguments[name][...] = poison(expected[name], arguments[name].dtype, finite=finite)
    return arguments


def simulated(
    exercise: KernelExercise,
    number: int,
    answer: Any,
    arguments: dict,
    run: Callable = trace,
) -> Any:
    """Simulate a case; the arguments' arrays hold the results afterwards."""
    case = exercise.cases[number]
    grid, block = launch_configuration(exercise, case, arguments)
    try:
        with trials.unprinted(MOST_STEPS):
            return run(
                answer,
                grid,
                block,
                *arguments.values(),
                dynamic_shared=case.shared,
                gpu=exercise.gpu,
            )
    except KernelError as error:
        raise from_finding(error.finding, (error.finding,)) from error
    except EndlessLoop as error:
        raise Failure("endless-loop", f"The kernel does not end. {error}") from error
    except Exception as error:
        if answers.is_numba_error(error):
            raise answers.typing_failure(error, answers.plain_function(answer)) from error
        raise Failure("raised", f"The launch fails. {backend.one_line(error, 400)}") from error


def values_of(exercise: KernelExercise, number: int, kernel: Any) -> dict[str, np.ndarray]:
    """What a kernel stores in a case, by name; nobody looks for errors but those that end it.

    That takes a fifth of a trace's time.

    Raises
    ------
    Failure
        Where the kernel stops.
    """
    expected = references(exercise, exercise.arguments(number))
    arguments = prepared(exercise, number, expected)
    simulated(exercise, number, kernel, arguments, untraced)
    return {name: arguments[name] for name in expected}


def untraced(kernel: Any, grid: Any, block: Any, *arguments: Any, dynamic_shared, gpu) -> None:
    """Run a kernel; nobody looks for errors but those that end it."""
    run_kernel(kernel, grid, block, arguments, dynamic_shared, gpu=gpus.find(gpu) if gpu else None)
