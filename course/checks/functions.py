"""How a plain function is judged: called in every case, its value compared.

What takes too long is stopped: a loop without an end must not hang a notebook.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from course import backend
from course.checks import answers, trials
from course.checks.comparing import compare, wrong_elements
from course.checks.exercises import FunctionExercise, answer_at_work, call_with_named
from course.checks.simulating import simulated_twin
from course.checks.verdicts import Failure, NotStarted, brief
from warpsim import ERRORS, KernelError
from warpsim.core.masks import EndlessLoop

# What would poison a real GPU's context or hang it.
HARMFUL = ERRORS | {"endless-loop"}
MOST_STEPS = 100_000  # passes of one loop of a simulated kernel
MOST_SECONDS = 20.0  # of a case; the slowest right answer takes less than one
SECONDS_ELSEWHERE = 2.0  # of a case in which only a cause is looked for


def judge_function(exercise: FunctionExercise, answer: Any) -> str:
    """What to say of a function that is right in every case; raises Failure or NotStarted."""
    fault = answers.function_fault(exercise.name, answer)
    if exercise.runs == "gpu-ufunc" and answer is not None:
        fault = answers.ufunc_fault(answer)
    if fault:
        raise Failure("not-a-function", fault)
    answers.refuse_borrowed(answer, exercise)
    answers.check_parameters(answer, exercise.parameters)
    function = answers.plain_function(answer)
    if (given := exercise.given()) and answers.is_as_given(function, given):
        raise NotStarted
    twin = simulated_twin(function) if backend.gpu() is not None and function else None
    twin_is_right = twin is not None and _is_right(exercise, twin)
    for number in range(len(exercise.cases)):
        with trials.named_case(exercise, number):
            if twin_is_right:
                _call_on_gpu(exercise, number, answer)
            else:
                call_once(exercise, number, answer)
    with trials.with_other_values(exercise) as anew:
        if anew is not None:
            call_once(*anew, answer)
    return trials.all_cases(exercise)


def _is_right(exercise: FunctionExercise, twin: Callable[..., Any]) -> bool:
    """Whether the simulated twin passes; raises only for what would harm a real GPU.

    Anything else may be the twin's own limits, and the answer itself shows it without harm.
    """
    for number in range(len(exercise.cases)):
        with trials.named_case(exercise, number):
            try:
                call_once(exercise, number, twin)
            except Failure as failure:
                if failure.kind in HARMFUL:
                    raise
                return False
    return True


def _call_on_gpu(exercise: FunctionExercise, number: int, answer: Any) -> None:
    """Call a function whose simulated twin is right; its kernels now run on the real GPU."""
    try:
        call_once(exercise, number, answer)
    except Failure as failure:
        message = f"Right when simulated, but not on this machine's GPU. {failure.message}"
        raise Failure("gpu-result", message, failure.line, failure.code) from failure


def call_once(exercise: FunctionExercise, number: int, answer: Any, *, causes: bool = True) -> None:
    """Call a function in one case; raise what is wrong with it there, or NotStarted.

    Without `causes` it is called in no other case.
    """
    before = exercise.arguments(number)
    arguments = {name: trials.copied(value) for name, value in before.items()}
    function = answers.plain_function(answer)
    try:
        with time_limit(MOST_SECONDS):
            result = _called(exercise, answer, arguments)
    except Failure:
        raise
    except OutOfTime as error:
        said = f"It had not ended after {MOST_SECONDS:g} s. Does each of its loops come to an end?"
        raise Failure("endless-loop", said, *_where(error, function)) from error
    except KernelError as error:
        failure = trials.from_finding(error.finding, (error.finding,))
        if function is not None and error.module != function.__module__:
            # a kernel of the package: its own line says less than the one that launches it
            failure.message += f" That is line {failure.line} of a kernel: {failure.code}"
            failure.line, failure.code = _where(error, function)
        raise failure from error
    except EndlessLoop as error:
        raise Failure("endless-loop", f"A kernel does not end. {error}") from error
    except NotImplementedError as error:
        if answers.looks_like_a_stub(function):
            raise NotStarted from error
        raise _raised(error, function) from error
    except (Exception, SystemExit) as error:  # quit() ends an answer, not the notebook
        if answers.is_numba_error(error):
            raise answers.typing_failure(error, function) from error
        raise _raised(error, function) from error
    if result is None:
        if answers.looks_like_a_stub(function, given_lines=True):
            raise NotStarted
        if answers.never_returns(function):
            said, hint = "It has no `return`: end it with `return` and the value.", ""
        else:
            said, hint = "Some way through it returns no value.", None
        raise Failure("wrong-result", f"Your function returns None. {said}", hint=hint)
    trials.inputs_unchanged(exercise, before, arguments)
    if exercise.judge is not None:
        sentence = _judged(exercise.judge, _on_host(result), before)
        if sentence:
            raise Failure("wrong-result", sentence)
        return
    expected = call_with_named(exercise.reference, before)
    elsewhere = _others(exercise, number, answer) if causes else lambda keys: ()
    _compare_values(exercise, "the result", _on_host(result), expected, before, elsewhere)


def _others(
    exercise: FunctionExercise, number: int, answer: Callable[..., Any]
) -> Callable[[tuple], Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """What finds, at the keys of a result, what an answer returns in other cases that fail.

    With what is right and where it is wrong. Each case is called once, none after one without end.
    """

    @cache
    def results() -> list[tuple[dict[str, Any], Any]]:
        found = []
        for other in (n for n in range(len(exercise.cases)) if n != number):
            try:
                with time_limit(SECONDS_ELSEWHERE):
                    value = value_of(exercise, other, answer)
            except OutOfTime:
                break
            except (Exception, SystemExit):  # another fault
                continue
            found.append((exercise.arguments(other), value))
        return found

    def elsewhere(keys: tuple[Any, ...]) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for arguments, got in results():
            with contextlib.suppress(Exception):  # it has no such keys, or no numbers there
                right = call_with_named(exercise.reference, arguments)
                for key in keys:
                    got, right = got[key], right[key]
                got, right = np.asarray(got), np.asarray(right)
                if got.shape == right.shape:
                    wrong = wrong_elements(got, right, _allowed(exercise, arguments, right))
                    if wrong.any():
                        yield got, right, wrong

    return elsewhere


def _allowed(exercise: FunctionExercise, arguments: Mapping[str, Any], right: np.ndarray) -> Any:
    """How far an answer may be off, in digits of the type that is declared, or given."""
    rounded = exercise.dtype or _rounded(arguments)
    return (
        exercise.tolerance.allowed(arguments, right, rounded) if right.dtype.kind in "fc" else 0.0
    )


def _called(
    exercise: FunctionExercise, answer: Callable[..., Any], arguments: Mapping[str, Any]
) -> Any:
    with trials.unprinted(MOST_STEPS), answer_at_work(exercise.name):
        if exercise.caller is None:
            return answer(*arguments.values())
        return exercise.caller(answer, tuple(arguments.values()))


def value_of(exercise: FunctionExercise, number: int, function: Callable[..., Any]) -> Any:
    """What a function returns in a case; its kernels are simulated."""
    twin = simulated_twin(function) if backend.gpu() is not None else None
    return _on_host(_called(exercise, twin or function, exercise.arguments(number)))


def _judged(judge: Callable[..., str | None], result: Any, before: Mapping[str, Any]) -> str | None:
    """The judge's sentence; one that trips over an odd answer says so instead of ending."""
    try:
        return judge(result, **before)
    except (NotStarted, Failure):
        raise
    except Exception as error:
        return (
            f"The result, a {type(result).__name__}, cannot be judged "
            f"({backend.one_line(error, 200)}): {brief(result, 80)}. Return what the text asks for."
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
    elsewhere: Callable[[tuple], Iterable[tuple[np.ndarray, np.ndarray, np.ndarray]]],
    *keys: Any,
) -> None:
    if isinstance(expected, (tuple, list)):
        for key, part, right in _parts(name, got, expected):
            within = f"{name}[{key}]"
            _compare_values(exercise, within, part, right, arguments, elsewhere, *keys, key)
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
    if values.dtype == object and all(isinstance(each, Real | Decimal) for each in values.flat):
        values = values.astype(np.float64)  # Fraction and others that are exact
    if values.dtype.kind not in "fiubc":
        kind = type(got).__name__
        said = " Write `return` in place of `yield`." if kind == "generator" else ""
        raise Failure("wrong-result", f"{name} is a {kind}, not numbers: {brief(got, 80)}.{said}")
    if values.shape != right.shape:
        swapped = values.shape == right.shape[::-1]
        extra = " Rows and columns are swapped." if swapped and right.ndim == 2 else ""
        raise Failure(
            "wrong-shape", f"{name} has the shape {values.shape}, right is {right.shape}.{extra}"
        )
    if exercise.dtype is not None and values.dtype != np.dtype(exercise.dtype):
        raise Failure(
            "wrong-dtype",
            f"{name} has the type {values.dtype}, right is {np.dtype(exercise.dtype)}.",
        )
    compare(
        "result" if name == "the result" else name,
        values,
        right,
        _allowed(exercise, arguments, right),
        inputs=dict(arguments),
        tolerance_reason=exercise.tolerance.reason,
        others=lambda: elsewhere(keys),
    )


def _rounded(arguments: Mapping[str, Any]) -> np.dtype:
    """The type to whose digits an answer is held: that of the narrowest floats given.

    Its own type says nothing: who returns float16 has lost digits, and is not let off for that.
    """
    given = [value.dtype for value in arguments.values() if isinstance(value, np.ndarray)]
    floats = [each for each in given if each.kind == "f"] or [np.dtype(np.float64)]
    return min(floats, key=lambda each: each.itemsize)


def _parts(name: str, got: Any, expected: tuple | list) -> Iterable[tuple[int, Any, Any]]:
    """Each index of a container, what stands there and what should."""
    if isinstance(got, np.ndarray) and got.ndim:
        got = tuple(got)  # np.array([a, b]) is a pair, too
    if not isinstance(got, (tuple, list)) or len(got) != len(expected):
        size = f"{len(got)} values" if isinstance(got, (tuple, list)) else type(got).__name__
        raise Failure("wrong-shape", f"{name} must be {len(expected)} values; got {size}.")
    return zip(range(len(got)), got, expected, strict=True)


# --- a time limit ---------------------------------------------------------------------------------


class OutOfTime(BaseException):
    """Raised in the thread that works; no ``except Exception`` of an answer takes it."""


def _raise_in(thread: int) -> None:
    """Raise it in a thread between two of its instructions."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(OutOfTime))


def _take(worker: int) -> None:
    """Let no exception be on its way to this thread.

    One that is taken back by NULL leaves a mark in CPython 3.11, by which every function that is
    traced from then on never begins: so another takes its place and is raised here.
    """
    with contextlib.suppress(OutOfTime):
        _raise_in(worker)
        while True:
            pass


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` in what is inside when it takes longer.

    Python code is stopped wherever it is; a call into a library is stopped when it comes back.
    """
    worker, lock, state = threading.get_ident(), threading.Lock(), {"over": False, "raised": False}

    def stop() -> None:
        with lock:
            if not state["over"]:
                state["raised"] = True
                _raise_in(worker)

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            state["over"] = True
            raised = state["raised"]
        timer.cancel()
        if raised:
            _take(worker)
