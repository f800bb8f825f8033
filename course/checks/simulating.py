"""Simulate a kernel in a case of its exercise: what it stores there, and what it does."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np

from course import backend
from course.checks import answers, trials
from course.checks.answers import is_gpu_kernel
from course.checks.comparing import poison
from course.checks.exercises import KernelExercise, call_with_named
from course.checks.trials import from_finding, launch_configuration
from course.checks.verdicts import Failure
from warpsim import KernelError, cuda, trace
from warpsim.core.masks import EndlessLoop
from warpsim.host import gpus
from warpsim.run.launch import run_kernel, signatures_of, taken_by

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
    return {name: np.broadcast_to(results[name], arguments[name].shape) for name in names}


def prepared(
    exercise: KernelExercise, number: int, expected: dict[str, np.ndarray], *, finite: bool = False
) -> dict[str, Any]:
    """The arguments of a case, poison in its outputs."""
    arguments = exercise.arguments(number)
    for name in exercise.outputs:
        arguments[name][...] = poison(expected[name], arguments[name].dtype, finite=finite)
    return arguments


def simulated(
    exercise: KernelExercise, number: int, answer: Any, arguments: dict, run: Callable = trace
) -> Any:
    """Simulate a case; the arguments' arrays hold the results afterwards."""
    case = exercise.cases[number]
    grid, block = launch_configuration(exercise, case, arguments)
    with _failures_of(answer), trials.unprinted(MOST_STEPS):
        return run(
            answer, grid, block, *arguments.values(), dynamic_shared=case.shared, gpu=exercise.gpu
        )


def check_signature(answer: Any, arguments: Mapping[str, Any]) -> None:
    """Raise Failure("wrong-arguments") where an explicit signature lets no launch take these."""
    if signatures_of(answer):
        with _failures_of(answer):
            try:
                taken_by(answer, tuple(arguments.values()))
            except TypeError as error:
                hint = "@cuda.jit without a signature takes all types."
                raise Failure("wrong-arguments", f"{error}.", hint=hint) from error


@contextlib.contextmanager
def _failures_of(answer: Any) -> Iterator[None]:
    """What a launch of an answer raises, as a Failure."""
    try:
        yield
    except Failure:
        raise
    except KernelError as error:
        raise from_finding(error.finding, (error.finding,)) from error
    except EndlessLoop as error:
        raise Failure("endless-loop", f"The kernel does not end. {error}") from error
    except Exception as error:
        if answers.is_numba_error(error):
            raise answers.typing_failure(error, answers.plain_function(answer)) from error
        raise Failure("raised", f"The launch fails. {backend.one_line(error, 400)}") from error


def values_of(exercise: KernelExercise, number: int, kernel: Any) -> dict[str, np.ndarray]:
    """What a kernel stores in a case, by name; a Failure where it stops.

    Nobody looks for other errors, which takes a fifth of a trace's time.
    """
    expected = references(exercise, exercise.arguments(number))
    arguments = prepared(exercise, number, expected)
    simulated(exercise, number, kernel, arguments, untraced)
    return {name: arguments[name] for name in expected}


def untraced(kernel: Any, grid: Any, block: Any, *arguments: Any, dynamic_shared, gpu) -> None:
    """Run a kernel; nobody looks for errors but those that end it."""
    run_kernel(kernel, grid, block, arguments, dynamic_shared, gpu=gpus.find(gpu) if gpu else None)


# --- a function's simulated twin ------------------------------------------------------------------


def simulated_twin(function: FunctionType) -> FunctionType | None:
    """A copy of `function` whose kernels are simulated, or None where it uses no GPU at all.

    On a GPU machine a wrong kernel can poison the whole session, so `check` first runs this.

    Followed are the global names and closures that it, its kernels and the functions of the same
    module use: numba.cuda, kernels, CuPy (which becomes NumPy).
    """
    memory: dict[int, Any] = {}
    twin = _twin(function, memory)
    return twin if any(_is_gpu(original) for original, _ in memory.values()) else None


def _is_gpu(value: Any) -> bool:
    if isinstance(value, ModuleType):
        return value.__name__ in ("numba.cuda", "cupy")
    return is_gpu_kernel(value)


def _twin(value: Any, memory: dict[int, Any]) -> Any:
    if id(value) in memory:
        return memory[id(value)][1]
    if isinstance(value, ModuleType) and _is_gpu(value):
        replacement: Any = cuda if value.__name__ == "numba.cuda" else np
    elif is_gpu_kernel(value):
        device = bool(value.targetoptions.get("device"))
        copy = _copy(value.py_func, memory)
        replacement = cuda.jit(copy, device=device)
    elif isinstance(value, FunctionType) and _is_readers(value):
        return _copy(value, memory)
    else:
        return value
    memory[id(value)] = (value, replacement)
    return replacement


def _is_readers(function: FunctionType) -> bool:
    """Whether a function is the reader's own; installed packages are left as they are."""
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None) or ""
    top = (function.__module__ or "").partition(".")[0]
    return "site-packages" not in file and top not in ("course", "course_app", "course_models")


def _copy(function: FunctionType, memory: dict[int, Any]) -> FunctionType:
    if id(function) in memory:
        return memory[id(function)][1]
    names = dict(function.__globals__)
    cells = tuple(CellType() for _ in function.__closure__ or ())
    copy = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, cells or None
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    # Kept before its parts are looked at: a function may name itself.
    memory[id(function)] = (function, copy)
    for name in answers.globals_read(function.__code__) & names.keys():
        names[name] = _twin(names[name], memory)
    for cell, original in zip(cells, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name that has no value yet stays without one
            cell.cell_contents = _twin(original.cell_contents, memory)
    return copy
