"""A solution as text and tree, and the edited texts that are made of it."""

from __future__ import annotations

import ast
import difflib
import linecache
import textwrap
from ast import unparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from course.checks.edits import Edit, Text, numbers_in
from course.checks.exercises import Exercise, KernelExercise, find_exercise
from course.checks.judging import IMPORTS
from course_lessons.edits import Solution, solution

#: What an answer may use though its lesson does not, and the import.
FURTHER = {**IMPORTS, "float16": "from numba.core.types import float16"}
#: What makes one answer: an edit, several of them, none within another, or the whole text.
Change = Edit | list[Edit] | str
Operator = Callable[["Subject"], Iterable[Change]]


@dataclass(frozen=True)
class Answer:
    """An answer that was made of a solution, of a kind, as text."""

    exercise: str
    kind: str
    text: str

    @property
    def lines(self) -> set[int]:
        """The lines of the function that are others than the solution's, from `def` = 1.

        Where a line has gone, its neighbours count.
        """
        of, parsed = subject(self.exercise), ast.parse(self.text).body
        start = next((n.lineno for n in parsed if getattr(n, "name", "") == of.whole.name), 1)
        matched = difflib.SequenceMatcher(None, of.text.split("\n"), self.text.split("\n"), False)
        found: set[int] = set()
        for tag, _, _, first, last in matched.get_opcodes():
            if tag != "equal":
                found |= {first, first + 1} if first == last else set(range(first + 1, last + 1))
        return {line - start + 1 for line in found}

    def define(self) -> Any:
        """The function or kernel itself, with the names of its lesson."""
        return subject(self.exercise).define(self.text, f"{self.exercise}, {self.kind}")

    def difference(self) -> str:
        """What was changed, as a diff without its head."""
        old, new = subject(self.exercise).text.splitlines(), self.text.splitlines()
        lines = difflib.unified_diff(old, new, n=1, lineterm="")
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))


class Subject(Text):
    """The solution of an exercise in the form in which `ast.unparse` writes it.

    `whole` is the function that is checked; others may stand above it. `given` are the arguments of
    the first case by the solution's names, `results` those that a kernel writes. `arrays` declares
    shared and local arrays, `body` has the statements besides.
    """

    def __init__(self, exercise: Exercise) -> None:
        self.exercise = exercise
        self.solution: Solution = solution(exercise.name)
        text = unparse(ast.parse(self.solution.source)) + "\n"
        super().__init__(text, self.solution.function, isinstance(exercise, KernelExercise))
        self.parameters = [argument.arg for argument in self.whole.args.args]
        self.given = self.arguments(0)
        names = self.solution.names_in(compile(text, "<solution>", "exec"))
        self.numbers = numbers_in(names)
        own = dict(zip(exercise.parameters, self.parameters, strict=True))
        written = exercise.outputs + exercise.updated if self.is_kernel else ()
        self.results = [own[name] for name in written]
        arrays = [node for node in self.whole.body if ".array(" in unparse(node)]
        self.arrays = "".join(f"{unparse(node)}\n" for node in arrays)
        self.body = suite(node for node in self.whole.body if node not in arrays)

    def arguments(self, number: int) -> dict[str, Any]:
        """The arguments of a case by the solution's own names."""
        return dict(zip(self.parameters, self.exercise.arguments(number).values(), strict=True))

    def before_all(self, text: str) -> Change:
        """The statement before all others of the function."""
        first = self.whole.body[0]
        return first, f"{text}\n{unparse(first)}"

    def with_body(self, body: str, above: str = "") -> str:
        """The text with another body of its function, and something above it."""
        others = [unparse(node) for node in self.tree.body if node is not self.whole]
        marks = [f"@{unparse(mark)}" for mark in self.whole.decorator_list]
        head = f"def {self.whole.name}({', '.join(self.parameters)}):"
        return "\n".join([*others, above, *marks, head, indented(body)]) + "\n"

    def wrapped(self, returned: str, above: str) -> str:
        """The solution under another name, and a function that returns something of its value."""
        name, given = self.whole.name, ", ".join(self.parameters)
        last = f"def {name}({given}):\n    value = _right({given})\n    return {returned}\n"
        return above + self.text.replace(f"def {name}(", "def _right(") + last

    def answer(self, kind: str, change: Change) -> Answer | None:
        """The answer that a change makes; None where it changes nothing or breaks the text."""
        edits = [change] if isinstance(change, tuple) else change
        try:
            text = change if isinstance(change, str) else self.edited(edits)
            text = unparse(ast.parse(text)) + "\n"
        except SyntaxError:
            return None
        return Answer(self.exercise.name, kind, text) if text != self.text else None

    def define(self, text: str, where: str) -> Any:
        """Execute an answer's text with the names of the lesson and return the answer."""
        code = compile(text, "<answer>", "exec")
        used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        known = self.solution.names_in(code)
        imports = [FURTHER[name] for name in sorted(used & FURTHER.keys() - known.keys())]
        names: dict[str, Any] = {"__name__": __name__, **known}
        exec("\n".join(imports), names)
        file = f"<{where}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
        return names[self.solution.function]


@cache
def subject(name: str) -> Subject:
    """The subject of an exercise; given statements may be changed, as the cases are to tell."""
    return Subject(replace(find_exercise(name), statements=()))


def suite(nodes: Iterable[ast.AST]) -> str:
    """Statements as text, a line or more each."""
    return "\n".join(map(unparse, nodes))


def indented(text: str) -> str:
    """A text as the body of what stands above it."""
    return textwrap.indent(text, "    ")


def is_sized(value: Any) -> bool:
    """Whether it is a list, a dict, or an array with axes."""
    return isinstance(value, list | dict) or (isinstance(value, np.ndarray) and value.ndim > 0)


def literal(value: Any, in_kernel: bool) -> str | None:
    """The text of a value in an answer; None where it has none that is short."""
    if isinstance(value, np.floating):
        kind = f"np.{value.dtype}" if not in_kernel else str(value.dtype)
        return f"{kind}({float(value)!r})"
    if isinstance(value, np.integer | np.bool_):
        return repr(value.item())
    try:
        text = repr(value)
        same = ast.literal_eval(text) == value
    except (ValueError, SyntaxError, TypeError):
        return None
    return text if same and len(text) < 2000 else None
