"""The verdict on an answer: kernel or function, and what a stub or a fault becomes.

A slip that stands in the answer's text gets the words that cure it, and its line: Numba's error, or
a wrong result, is far from it. `if i < out.shape` ends in a message about signatures, `row < height
& column < width` in no message at all.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from course.checks import ordering
from course.checks.answers import CANNOT_COMPILE, function_node, plain_function
from course.checks.exercises import Exercise, KernelExercise
from course.checks.functions import judge_function
from course.checks.kernels import judge_kernel
from course.checks.repair import repair
from course.checks.verdicts import Failure, NotStarted, Verdict, failed
from course.checks.written import add_slip

#: Names that students use without the import, and the import.
IMPORTS = {
    "math": "import math",
    "np": "import numpy as np",
    "numba": "import numba",
    "cuda": "from course import cuda",
    **{
        name: f"from numba import {name}"
        for name in ("float32", "float64", "int32", "int64", "uint8", "uint32")
    },
}
NOT_DEFINED = re.compile(r"name '(\w+)' is not defined")
OF_CUDA = {
    "threadIdx", "blockIdx", "blockDim", "gridDim", "grid", "gridsize", "syncthreads", "shared",
    "local", "atomic",
}  # fmt: skip
SINGLE = "A kernel computes single numbers: x[i] * y[i], or math.sqrt(x[i]) with `import math`."
LIMIT = re.compile(r"\b(\w+)\.(?:size|shape\[(\d)\])")


def judge(exercise: Exercise, answer: Any, *, repairs: bool = False) -> Verdict:
    """The verdict on an answer; never raises for anything that the answer does.

    With `repairs` one change is looked for that makes the answer right.
    """
    try:
        if exercise.statements:
            ordering.look_at(exercise, answer)
        if isinstance(exercise, KernelExercise):
            passed = judge_kernel(exercise, answer)
        else:
            passed = judge_function(exercise, answer)
    except NotStarted as started:
        message = "Write your code where the stub says `pass`, then run this cell again."
        return Verdict(exercise.name, "not started", "not-started", str(started) or message)
    except Failure as failure:
        cases = [exercise.arguments(number) for number in range(len(exercise.cases))]
        named_cause(failure, plain_function(answer), cases[0])
        if exercise.statements:
            ordering.name_two(failure, exercise, answer)
        if isinstance(exercise, KernelExercise) and not failure.hint:
            add_slip(failure, exercise, answer)
        if failure.kind == "out-of-bounds":
            hint = exercise.hints.get("out-of-bounds") if failure.hint is None else failure.hint
            failure.message = agreeing(failure.message, hint, cases)
        if repairs and exercise.statements:
            failure.repair = ordering.decides(exercise, answer)
        elif repairs:
            failure.repair = repair(exercise, answer, failure)
        return failed(exercise.name, failure, dict(exercise.hints))
    return Verdict(exercise.name, "passed", "passed", passed)


def named_cause(
    failure: Failure, function: Callable[..., Any] | None, arguments: Mapping[str, Any]
) -> None:
    """Let a failure name the slip that it comes from, if it is one of these; in place.

    `function` is the answer, `arguments` those of a case by the names that the exercise gives them.
    """
    whole = function_node(function)
    if whole is None:
        return
    if failure.kind == "typing":
        _of_typing(failure, whole, arguments)
    if failure.kind == "raised" and (missing := NOT_DEFINED.search(failure.message)):
        failure.hint = _missing(missing[1], whole)
    for node in ast.walk(whole):
        if isinstance(node, ast.Compare):
            said = _bound_wrongly(node) or _of_tuples(node, whole)
            if said and (failure.kind != "typing" or failure.line == node.lineno):
                if failure.kind == "typing":
                    failure.message = CANNOT_COMPILE + said
                else:
                    failure.message += f"\n{said[0].upper()}{said[1:]}"
                _at(failure, node)
                return


def _at(failure: Failure, node: ast.AST) -> None:
    failure.line, failure.code, failure.hint = node.lineno, ast.unparse(node), ""


# ---------------------------------------------------------------------- comparisons
def _bound_wrongly(node: ast.Compare) -> str | None:
    """``a < b & c < d``, which is ``a < (b & c) < d``."""
    for part in node.comparators if len(node.ops) > 1 else ():
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd | ast.BitOr):
            mark, word = ("&", "and") if isinstance(part.op, ast.BitAnd) else ("|", "or")
            text = ast.unparse(node)
            return (
                f"`{text}` takes `{ast.unparse(part)}` first, as {mark} binds more tightly than "
                f"a comparison: write `{word}` instead of {mark}."
            )
    return None


def _of_tuples(node: ast.Compare, whole: ast.FunctionDef) -> str | None:
    """A tuple compared by size, one of indices or an array's shape."""
    sides = [node.left, *node.comparators]
    if not all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE) for op in node.ops):
        return None
    shapes = [s for s in sides if isinstance(s, ast.Attribute) and s.attr == "shape"]
    tuples = [s for s in sides if isinstance(s, ast.Tuple)]
    grids = [s for s in sides if isinstance(s, ast.Name) and _grid_of(s.id, whole) > 1]
    if grids:
        name, count = grids[0].id, _grid_of(grids[0].id, whole)
        names = ("column, row", "column, row, image")[count - 2]
        many = ("two", "three")[count - 2]
        return (
            f"`{name}` is a tuple, as cuda.grid({count}) gives {many} numbers: {names} = "
            f"cuda.grid({count}), and each is compared with its own axis."
        )
    if not shapes and not tuples:
        return None
    array = ast.unparse(shapes[0].value) if shapes else None
    if tuples:
        parts = [ast.unparse(part) for part in tuples[0].elts]
        limits = [f"{array}.shape[{n}]" if array else "..." for n in range(len(parts))]
        each = " and ".join(f"{a} < {b}" for a, b in zip(parts, limits, strict=True))
        return (
            "tuples are compared by their first numbers, and by the next only where those are "
            f"equal. Compare each number by itself: {each}."
        )
    return (
        f"{array}.shape is a tuple of sizes, one for each axis: compare with {array}.shape[0], or "
        f"with {array}.size where there is one axis."
    )


def _grid_of(name: str, whole: ast.FunctionDef) -> int:
    """The n of ``name = cuda.grid(n)``; 0 where there is none."""
    for node in ast.walk(whole):
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == [name]:
            if found := re.fullmatch(r"cuda\.grid\((\d)\)", ast.unparse(node.value)):
                return int(found[1])
    return 0


# ---------------------------------------------------------------------- what Numba refuses
def _of_typing(failure: Failure, whole: ast.FunctionDef, arguments: Mapping[str, Any]) -> None:
    """One hint for each cause; where none is known that of the exercise stays."""
    message = failure.message
    if "void return type" in message:
        failure.message = CANNOT_COMPILE + "a kernel returns nothing."
        given = (n for n in ast.walk(whole) if isinstance(n, ast.Return) and n.value is not None)
        if (node := next(given, None)) is not None:
            _at(failure, node)
        failure.hint = "Store the value where the exercise wants it, out[i] = ..., without return."
        return
    if missing := NOT_DEFINED.search(message):
        failure.hint = _missing(missing[1], whole)
        return
    if re.search(r"\bnp\.\w+ is not available", message):
        failure.hint = SINGLE
        return
    if "function xor" in message:
        failure.hint = "In Python ^ is no power: a square is x * x, or x ** 2."
        return
    if "No implementation of function" in message and "array(" in message:
        if names := _whole_arrays(failure.line, whole, arguments):
            stand, take = ("stand", "each") if len(names) > 1 else ("stands", "it")
            listed = " and ".join(f"`{name}`" for name in names)
            failure.hint = (
                f"{listed} {stand} for a whole array here: take one element of {take}, by all its "
                "indices."
            )


def _missing(name: str, whole: ast.FunctionDef) -> str:
    if name in IMPORTS:
        return f"Run `{IMPORTS[name]}` in a cell above, or put it at the top of this one."
    if name in OF_CUDA:
        return f"Write cuda.{name}: it is a name of `cuda`."
    given = [node.arg for node in whole.args.args]
    if name in given:  # Numba looks for a function of that name
        return f"{name} is no function: an element is taken by square brackets, {name}[...]."
    known = {
        node.id
        for node in ast.walk(whole)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }.union(given)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"Nothing is called {name} here. Do you mean {close[0]}?"
    return f"Set {name} before this line. `{whole.name}` is given {', '.join(given)}."


def _whole_arrays(
    line: int | None, whole: ast.FunctionDef, arguments: Mapping[str, Any]
) -> list[str]:
    """The arrays that stand without an index in a line's arithmetic."""
    given = zip([node.arg for node in whole.args.args], arguments.values(), strict=False)
    arrays = {name for name, value in given if isinstance(value, np.ndarray) and value.ndim}
    found = []
    for node in ast.walk(whole):
        if not isinstance(node, ast.BinOp | ast.Compare | ast.AugAssign) or node.lineno != line:
            continue
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.Name) and part.id in arrays:
                found.append((part.col_offset, part.id))
    return list(dict.fromkeys(name for _, name in sorted(found)))


# ---------------------------------------------------------------------- one limit, one name
def agreeing(message: str, hint: str | None, cases: list[Mapping[str, Any]]) -> str:
    """A finding's message with the limit that the hint names, where the two are one in all cases.

    ``if i < x.size`` beside a hint of ``out.size`` would leave a reader with two limits.
    """
    found = re.search(r"< (" + LIMIT.pattern + r")(?=[:`])", message)
    if not found or not hint:
        return message
    own = [_value(found[2], found[3], case) for case in cases]
    named = re.search(rf"\b{found[2]}\.(size|shape)", hint)  # as row and column, by out.shape
    if None in own or named:
        return message
    for text, name, axis in (given.group(0, 1, 2) for given in LIMIT.finditer(hint)):
        if [_value(name, axis, case) for case in cases] == own:
            return message.replace(f"< {found[1]}", f"< {text}")
    return message


def _value(name: str, axis: str | None, case: Mapping[str, Any]) -> int | None:
    array = case.get(name)
    if not isinstance(array, np.ndarray) or (axis and int(axis) >= array.ndim):
        return None
    return array.shape[int(axis)] if axis else array.size
