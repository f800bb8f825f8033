"""The text of an answer, and the function that it makes with the names of its lesson."""

import ast
import inspect
import math
import os
import textwrap
import threading
import time
from typing import Any

import numba
import numpy as np

import course
from course_lessons.edits import solution
from tests.texts import function_of

# what an answer may use though its lesson does not
STUDENTS = {
    name: getattr(module, name)
    for module, given in ((numba, "float32 float64 int32 int64 njit"), (course, "cuda"))
    for name in given.split()
}
STUDENTS |= {"np": np, "math": math, "os": os, "threading": threading, "time": time}


def source_of(answer: Any) -> str:
    """The text of a whole function without the decorators that note it as an answer."""
    lines = inspect.getsource(getattr(answer, "py_func", answer)).split("\n")
    text = textwrap.dedent("\n".join(lines))
    for mark in reversed(ast.parse(text).body[0].decorator_list):
        if ast.unparse(mark).startswith(("wrong", "right")):
            lines = text.split("\n")
            text = "\n".join(lines[: mark.lineno - 1] + lines[mark.end_lineno :])
    return text


def with_body(text: str, body: str) -> str:
    """The text whose last function does something else."""
    first = ast.parse(text).body[-1].body[0].lineno
    lines = textwrap.indent(body, "    ").split("\n")
    return "\n".join(text.split("\n")[: first - 1] + lines) + "\n"


def define(text: str, exercise: str, where: str, names: dict[str, Any]) -> Any:
    """Execute an answer's text and return the function that its exercise asks for."""
    lesson = solution(exercise)
    # as in the notebook, which has the names of the solution where an answer reads none of them
    read = compile(f"{lesson.source}\n{text}", where, "exec")
    known = lesson.names_in(read, without=names)
    return function_of(text, f"{where}, {exercise}", {**STUDENTS, **known, **names})
