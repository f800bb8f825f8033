"""How a plain function is judged: called in every case, its value compared."""

from __future__ import annotations

import contextlib
import io
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from course import answers, backend
from course.checks import FunctionExercise, call_with_named
from course.comparing import compare, is_wholly
from course.simt import ERRORS, KernelError
from course.simt.masks import EndlessLoop, limited_steps
from course.time_limit import OutOfTime, time_limit
from course.trials import all_cases, copied, from_finding, inputs_unchanged, named_case
from course.twins import simulated_twin
from course.verdicts import Failure, NotStarted

# What would poison a real GPU's context or hang it.
HARMFUL = ERRORS | {"endless-loop"}
MOST_STEPS = 100_000  # passes of one loop of a simulated kernel
MOST_SECONDS = 20.0  # of a case; the slowest right answer takes less than one


def judge_function(exercise: FunctionExercise, answer: Any) -> str:
    """What to say of a function that is right in every case; raises Failure or NotStarted."""
    fault = answers.function_fault(exercise.name, answer)
    if fault:
        raise Failure("not-a-function", fault)
    answers.check_parameters(answer, exercise.parameters)
    function = answers.plain_function(answer)
    twin = simulated_twin(function) if backend.gpu() is not None and function else None
    twin_is_right = twin is not None and _is_right(exercise, twin)
    for number in range(len(exercise.cases)):
        with named_case(exercise, number):
            if twin_is_right:
                _call_on_gpu(exercise, number, answer)
            else:
                _call_once(exercise, number, answer)
    return all_cases([case.name for case in exercise.cases])


def _is_right(exercise: FunctionExercise, twin: Callable[..., Any]) -> bool:
    """Whether the simulated twin passes; raises only for what would harm a real GPU.

    Anything else may be the twin's own limits, and the answer itself shows it without harm.
    """
    for number in range(len(exercise.cases)):
        with named_case(exercise, number):
            try:
                _call_once(exercise, number, twin)
            except Failure as failure:
                if failure.kind in HARMFUL:
                    raise
                return False
    return True


def _call_on_gpu(exercise: FunctionExercise, number: int, answer: Any) -> None:
    """Call a function whose simulated twin is right; its kernels now run on the real GPU."""
    try:
        _call_once(exercise, number, answer)
    except Failure as failure:
        message = f"Right when simulated, but not on this machine's GPU. {failure.message}"
        raise Failure("gpu-result", message, failure.line, failure.code) from failure


def _call_once(exercise: FunctionExercise, number: int, answer: Any) -> None:
    before = exercise.arguments(number)
    arguments = {name: copied(value) for name, value in before.items()}
    function = answers.plain_function(answer)
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            limited_steps(MOST_STEPS),
            time_limit(MOST_SECONDS),
        ):
            if exercise.caller is None:
                result = answer(*arguments.values())
            else:
                result = exercise.caller(answer, tuple(arguments.values()))
    except Failure:
        raise
    except OutOfTime as error:
        said = f"It had not ended after {MOST_SECONDS:g} s. Does each of its loops come to an end?"
        raise Failure("endless-loop", said, *_where(error, function)) from error
    except KernelError as error:
        raise from_finding(error.finding, (error.finding,)) from error
    except EndlessLoop as error:
        raise Failure("endless-loop", f"A kernel does not end. {error}") from error
    except NotImplementedError as error:
        if not str(error):
            raise NotStarted from error
        raise _raised(error, function) from error
    except (Exception, SystemExit) as error:  # quit() ends an answer, not the notebook
        if answers.is_numba_error(error):
            raise answers.typing_failure(error, function) from error
        raise _raised(error, function) from error
    if result is None:
        if answers.looks_like_a_stub(function):
            raise NotStarted
        raise Failure(
            "wrong-result", "Your function returns None. Does it end with `return` and a value?"
        )
    inputs_unchanged(exercise, before, arguments)
    if exercise.judge is not None:
        sentence = _judged(exercise.judge, _on_host(result), before)
        if sentence:
            raise Failure("wrong-result", sentence)
        return
    expected = call_with_named(exercise.reference, before)
    mistaken = {
        sentence: partial(call_with_named, wrong, before)
        for sentence, wrong in exercise.mistakes.items()
    }
    got = _on_host(result)
    try:
        _compare_values(exercise, "the result", got, expected, before, mistaken)
    except Failure as failure:
        if failure.kind != "wrong-result" or not isinstance(expected, (tuple, list, dict)):
            raise
        # Of several mistakes that give this value, the one that gives the others, too.
        likely = {said: wrong for said, wrong in mistaken.items() if is_wholly(got, wrong())}
        if not likely:
            raise
        _compare_values(exercise, "the result", got, expected, before, likely | mistaken)


def _judged(judge: Callable[..., str | None], result: Any, before: Mapping[str, Any]) -> str | None:
    """The judge's sentence; one that trips over an odd answer says so instead of ending."""
    try:
        return judge(result, **before)
    except (NotStarted, Failure):
        raise
    except Exception as error:
        return (
            f"The result, a {type(result).__name__}, cannot be judged "
            f"({backend.one_line(error, 200)}): {result!r:.80}. Return what the text asks for."
        )


def _raised(error: BaseException, function: Callable[..., Any] | None) -> Failure:
    said = f"Your function raised {backend.one_line(error, 400)}"
    return Failure("raised", said, *_where(error, function))


def _where(
    error: BaseException, function: Callable[..., Any] | None
) -> tuple[int | None, str | None]:
    """The answer's line that an exception came from, and its code."""
    line = code = None
    if function is not None:
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename == function.__code__.co_filename and frame.lineno:
                found = answers.line_of(function, frame.lineno)
                line, code = found if found[0] is not None else (line, code)
    return line, code


def _on_host(value: Any) -> Any:
    """Device arrays (Numba's, the simulator's, CuPy's) become NumPy's; containers follow."""
    if isinstance(value, (tuple, list)):
        return tuple(_on_host(part) for part in value)
    if isinstance(value, dict):
        return {name: _on_host(part) for name, part in value.items()}
    if hasattr(value, "copy_to_host"):
        return value.copy_to_host()
    if type(value).__module__.partition(".")[0] == "cupy":
        return value.get()
    return value


def _compare_values(
    exercise: FunctionExercise,
    name: str,
    got: Any,
    expected: Any,
    arguments: Mapping[str, Any],
    mistaken: Mapping[str, Callable[[], Any]],
) -> None:
    if isinstance(expected, (tuple, list, dict)):
        _compare_containers(exercise, name, got, expected, arguments, mistaken)
        return
    if isinstance(expected, str) or expected is None:
        if got != expected:
            raise Failure("wrong-result", f"{name} is {got!r}, right is {expected!r}.")
        return
    right = np.asarray(expected)
    try:
        values = np.asarray(got)
    except ValueError:  # lists of unequal lengths, a number beside an array
        values = np.array(None)
    if values.dtype.kind not in "fiubc":
        kind = type(got).__name__
        raise Failure("wrong-result", f"{name} is a {kind}, not numbers: {got!r:.80}.")
    if values.shape != right.shape:
        swapped = values.shape == right.shape[::-1]
        extra = " Rows and columns are swapped." if swapped and right.ndim == 2 else ""
        raise Failure(
            "wrong-shape",
            f"{name} has the shape {values.shape}, right is {right.shape}.{extra}",
        )
    if exercise.dtype is not None and values.dtype != np.dtype(exercise.dtype):
        raise Failure(
            "wrong-dtype",
            f"{name} has the type {values.dtype}, right is {np.dtype(exercise.dtype)}.",
        )
    rounded = exercise.dtype or _rounded(got, values.dtype, arguments)
    compare(
        "result" if name == "the result" else name,
        values,
        right,
        exercise.tolerance.allowed(arguments, right, rounded) if right.dtype.kind in "fc" else 0.0,
        mistakes=mistaken,
        inputs=dict(arguments),
        tolerance_reason=exercise.tolerance.reason,
    )


def _rounded(got: Any, kind: np.dtype, arguments: Mapping[str, Any]) -> np.dtype:
    """The type to whose digits an answer of this type is held.

    float16 is enough where something given is float16; else an answer that computes in it has lost
    digits. Python's own numbers have no type that says what they were computed in (`.tolist()`,
    `float(x)`): they are held to that of the arrays given.
    """
    if kind.kind not in "fc":
        return np.dtype(np.float64)
    half = np.dtype(np.float16)
    given = {value.dtype for value in arguments.values() if isinstance(value, np.ndarray)}
    floats = [each for each in given if each.kind == "f"]
    if floats and kind.kind == "f" and not hasattr(got, "dtype"):
        kind = min(floats, key=lambda each: each.itemsize)
    return kind if half in given else np.promote_types(kind, np.float32)


def _part(whole: Callable[[], Any], key: Any) -> Any:
    return whole()[key]


def _compare_containers(
    exercise: FunctionExercise,
    name: str,
    got: Any,
    expected: Any,
    arguments: Mapping[str, Any],
    mistaken: Mapping[str, Callable[[], Any]],
) -> None:
    if isinstance(expected, dict):
        if not isinstance(got, dict) or set(got) != set(expected):
            wanted = ", ".join(map(repr, expected))
            raise Failure("wrong-result", f"{name} must be a dict with {wanted}; got {got!r:.80}.")
        for key, right in expected.items():
            wrongs = {s: partial(_part, wrong, key) for s, wrong in mistaken.items()}
            _compare_values(exercise, f"{name}[{key!r}]", got[key], right, arguments, wrongs)
        return
    if isinstance(got, np.ndarray) and got.ndim:
        got = tuple(got)  # np.array([a, b]) is a pair, too
    if not isinstance(got, (tuple, list)) or len(got) != len(expected):
        size = f"{len(got)} values" if isinstance(got, (tuple, list)) else type(got).__name__
        raise Failure("wrong-shape", f"{name} must be {len(expected)} values; got {size}.")
    for index, (part, right) in enumerate(zip(got, expected, strict=True)):
        wrongs = {s: partial(_part, wrong, index) for s, wrong in mistaken.items()}
        _compare_values(exercise, f"{name}[{index}]", part, right, arguments, wrongs)
