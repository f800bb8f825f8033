"""An answer that passed as a text of its own, and the answer that such a text makes again.

The text is a module: imports, constants and device functions that the answer reads, then the
answer. Lesson 09 launches by it what was written in lesson 02 (`course.mine`).
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import sys
import textwrap
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from course.checks import answers
from course.checks.exercises import Exercise, KernelExercise
from course.checks.verdicts import Failure

# Where a name that a notebook imports from may be found, beside the module that made its value.
KNOWN = ("course", "numba", "numpy", "math", "warpsim.ptx")
LARGEST_CONSTANT = 10_000  # elements of an array that a kernel reads as a constant


class CannotKeep(ValueError):
    """An answer's text would not be the answer again."""


def text_to_keep(exercise: Exercise, answer: Any) -> str | None:
    """The text of which `read` makes an answer again; None where there is no such text."""
    try:
        text = _module_text(answers.plain_function(answer))
        _made(exercise, text, "<kept>")
    except CannotKeep:
        return None
    return text


def read(exercise: Exercise, path: Path) -> Any:
    """The answer that a text defines last; CannotKeep for none, or what the exercise does not take.

    It says the rest of a sentence.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotKeep(f"cannot be read: {type(error).__name__}") from error
    return _made(exercise, text, str(path))


def _made(exercise: Exercise, text: str, file: str) -> Any:
    space: dict[str, Any] = {"__name__": f"kept_{exercise.name}", "__file__": file}
    try:
        tree = ast.parse(text)
        exec(compile(tree, file, "exec"), space)
    except Exception as error:  # whatever a text that somebody edited raises
        raise CannotKeep(f"cannot be run: {type(error).__name__}: {error}") from error
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not names or names[-1] not in space:
        raise CannotKeep("defines no function")
    answer = space[names[-1]]
    of_its_kind = (
        answers.kernel_fault if isinstance(exercise, KernelExercise) else answers.function_fault
    )
    if fault := of_its_kind(exercise.name, answer):
        raise CannotKeep(f"does not fit: {fault}")
    try:
        answers.check_parameters(answers.plain_function(answer), exercise.parameters)
    except Failure as failure:
        raise CannotKeep(f"does not fit: {failure.message}") from failure
    return answer


def _module_text(function: FunctionType | None) -> str:
    if function is None:
        raise CannotKeep("has no source")
    parts = {"numpy": "import numpy"}
    _add(function, parts, function.__name__)
    imports = [part for part in parts.values() if part.startswith(("import ", "from "))]
    others = [part for part in parts.values() if part not in imports]
    return "\n".join(imports) + "\n\n" + "\n\n\n".join(others) + "\n"


def _add(function: FunctionType, parts: dict[str, str], called: str) -> None:
    """Add what a function reads to the parts by name, then the function."""
    if function.__closure__ or function.__name__ != called:
        raise CannotKeep(f"uses a function `{called}` that was made by another one")
    try:
        text = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(text)
    except (OSError, TypeError, SyntaxError) as error:
        raise CannotKeep(f"uses `{called}`, which has no source") from error
    if not isinstance(tree.body[0], ast.FunctionDef):
        raise CannotKeep("is no def")
    parts[called] = ""  # one that calls itself is not begun again
    space = function.__globals__
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    for name in (node.id for node in names if isinstance(node.ctx, ast.Load)):
        if name not in space or name in parts:
            continue
        value = space[name]
        own = answers.plain_function(value)
        if own is not None and own.__globals__ is space:
            _add(own, parts, name)
        else:
            parts[name] = _statement(name, value)
    del parts[called]
    parts[called] = text.strip()


def _statement(name: str, value: Any) -> str:
    """The line that gives a name its value in a module of its own."""
    made_in = getattr(value, "__module__", None)
    for module in (*KNOWN, made_in if isinstance(made_in, str) else ""):
        if vars(sys.modules.get(module, ModuleType(""))).get(name) is value:
            return f"from {module} import {name}"
    if isinstance(value, ModuleType):
        if importlib.util.find_spec(value.__name__) is None:
            raise CannotKeep(f"uses `{name}`, which cannot be imported")
        return f"import {value.__name__} as {name}"
    if isinstance(value, np.generic):
        return f"{name} = numpy.{type(value).__name__}({value.item()!r})"
    if isinstance(value, np.ndarray) and value.size <= LARGEST_CONSTANT:
        return f"{name} = numpy.array({value.tolist()!r}, {value.dtype.name!r})"
    text = repr(value)
    with contextlib.suppress(ValueError, SyntaxError):
        if ast.literal_eval(text) == value:
            return f"{name} = {text}"
    raise CannotKeep(f"uses `{name}`, whose value is no constant")
