r"""A mistake as an edit of the lesson's own solution: text that stands in it once, and other text.

An exercise lists them, below what it says to whoever writes that::

    y is left out
        + y[i] ->
    a scales y instead of x
        a * x[i] -> x[i]
        y[i] -> a * y[i]
    you return percent
        return 100 * {}
    the second half is taken, too
        first: n = 2 * n

A line that begins with ``->`` goes on with the one above it; ``\n`` is the end of a line.
``return`` says what is returned, ``{}`` being what the solution returns; ``first:`` what is done
before all else. What comes out is computed when an answer is wrong: the solution is taken from the
lesson's text, edited and run in the case that failed.
"""

from __future__ import annotations

import ast
import builtins
import dis
import linecache
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

from course.checks.comparing import NoValue
from course.checks.exercises import (
    Exercise,
    FunctionExercise,
    KernelExercise,
    refuse_answers,
)
from course.checks.functions import OutOfTime, time_limit, value_of
from course.checks.simulating import values_of

FOLDER = Path(__file__).resolve().parent
MARKERS = tuple(f"### {end} {what}" for what in ("SOLUTION", "ORDER") for end in ("BEGIN", "END"))
READING = ("LOAD_GLOBAL", "LOAD_NAME")
MOST_SECONDS = 2.0  # of an edited solution in a case


def edits(table: str) -> dict[str, Edit]:
    """Mistakes by what is said of them, from a table as above.

    A line that is not indented belongs to a sentence, the indented ones below it are its edits.

    Raises
    ------
    ValueError
        When a line says nothing of these, or a sentence has no edit.
    """
    found: dict[str, list[str]] = {}
    sentence = ""
    for line in textwrap.dedent(table).strip("\n").split("\n"):
        if line.startswith(" ") and line.strip().startswith("-> "):
            found[sentence][-1] += f" {line.strip()}"
        elif line.startswith(" "):
            found.setdefault(sentence, []).append(line.strip())
        else:
            open_still = sentence and sentence not in found
            sentence = f"{sentence} {line.strip()}" if open_still else line.strip()
    if sentence not in found:
        raise ValueError(f"{sentence!r} has no edit: an indented line below it says old -> new")
    return {sentence: Edit(*lines) for sentence, lines in found.items()}


class Edit:
    """A mistake: what the lesson's solution gives when texts in it are others.

    Parameters
    ----------
    lines : str
        ``old -> new``, where `old` stands once in what the edits before have left and ``\\n`` is
        the end of a line; ``return ...``; ``first: ...``.
    """

    def __init__(self, *lines: str) -> None:
        self.lines = lines
        self.texts, self.first, self.returned = [], "", "{}"
        for line in lines:
            old, arrow, new = line.replace("\\n", "\n").partition(" ->")
            if line.startswith("first: "):
                self.first = line.removeprefix("first: ")
            elif arrow:
                self.texts.append((old, new.removeprefix(" ")))
            elif line.startswith("return "):
                self.returned = line.removeprefix("return ")
            else:
                raise ValueError(f"{line!r}: an edit is `old -> new`, `return ...`, `first: ...`")
        self._answers: dict[str, Any] = {}
        self._values: dict[tuple[str, int, int | None], Any] = {}

    def __repr__(self) -> str:
        return "; ".join(self.lines)

    def answer(self, exercise: str) -> Any:
        """The edited solution of an exercise, one for all cases: a kernel is compiled once."""
        if exercise not in self._answers:
            found = solution(exercise)
            text = edited(found.source, self.texts, exercise)
            text = _wrapped(text, found.function, self.first, self.returned)
            self._answers[exercise] = found.define(text, f"{exercise}, {self}")
        return self._answers[exercise]

    def in_case(self, exercise: Exercise, number: int) -> Any:
        """What comes out in a case: an answer's value, or by name what a kernel stores.

        Raises
        ------
        NoValue
            When the edited solution fails: nobody has its values then.
        """
        key = exercise.name, number, exercise.cases[number].seed
        if key not in self._values:
            run = values_of if isinstance(exercise, KernelExercise) else value_of
            self._values[key] = _tried(lambda: run(exercise, number, self.answer(exercise.name)))
        value = self._values[key]
        if isinstance(value, BaseException):
            raise NoValue(f"{exercise.name}, {self}") from value
        return value


def _tried(function: Callable[[], Any]) -> Any:
    """What a function returns; the error where it fails or takes too long."""
    try:
        with time_limit(MOST_SECONDS), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return function()
    except (Exception, SystemExit, OutOfTime) as error:
        return error


def edited(text: str, edits: Iterable[tuple[str, str]], where: str) -> str:
    """The text after the edits, one after the other.

    Raises
    ------
    ValueError
        When an old text is not there, or more than once.
    """
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(f"{where}: {old!r} stands {text.count(old)} times in\n{text}")
        text = text.replace(old, new)
    return text


def _wrapped(text: str, function: str, first: str, returned: str) -> str:
    """The text with a statement before all others of the function, and with other values."""
    tree = ast.parse(text)
    whole = next(node for node in tree.body if getattr(node, "name", None) == function)
    lines = text.split("\n")
    if returned != "{}":
        found = [node for node in ast.walk(whole) if isinstance(node, ast.Return)]
        for node in sorted(found, key=lambda node: -node.lineno):
            value = returned.replace("{}", f"({ast.unparse(node.value)})")
            indented = " " * node.col_offset + f"return {value}"
            lines[node.lineno - 1 : node.end_lineno] = [indented]
    if first:
        lines.insert(whole.body[0].lineno - 1, f"    {first}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Solution:
    """The solution of an exercise.

    Attributes
    ----------
    function : str
        What the lesson calls it.
    source : str
        The text of its cell without the solution's markers and the docstrings.
    given : str
        The text of its cell as a student gets it: `pass` in place of what is to be written.
    makers : list of (set of str, ast.stmt)
        What stands above it in the lesson, the nearest first, by the names that it makes.
    path : Path
    """

    function: str
    source: str
    given: str
    makers: list
    path: Path
    names: dict = field(default_factory=lambda: {"__name__": __name__})

    def define(self, text: str, where: str) -> Any:
        """Execute the text of an answer, with the names of the lesson, and return the answer."""
        file = f"<{where}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        code = compile(text, file, "exec")
        known = {"__name__": __name__, **self.names_in(code)}
        exec(code, known)
        return known[self.function]

    def names_in(self, code: CodeType, without: Iterable[str] = ()) -> dict[str, Any]:
        """The lesson's values of those names in a program that the lesson makes, without some."""
        used = _used(code).difference(without)
        self._make(used, 0)
        return {name: self.names[name] for name in used & self.names.keys()}

    def _make(self, used: set[str], start: int) -> None:
        for name in used - self.names.keys() - vars(builtins).keys():
            for place, (made, statement) in enumerate(self.makers[start:], start):
                if name in made:
                    code = compile(ast.Module([statement], []), self.path, "exec")
                    self._make(_used(code) - made, place)
                    exec(code, self.names)
                    break


class LessonKernel(KernelExercise):
    """A kernel exercise of a lesson, whose text has a right answer: its solution."""

    def given(self) -> str:
        return solution(self.name).given

    def model(self) -> Any:
        return _model(self.name)


class LessonFunction(FunctionExercise):
    """A function exercise of a lesson, some lines of which are given."""

    def given(self) -> str:
        return solution(self.name).given


@cache
def _model(exercise: str) -> Any:
    found = solution(exercise)
    return found.define(found.source, exercise)


def solution(exercise: str) -> Solution:
    """The solution in the lesson that checks this exercise; found by the exercise's name.

    Raises
    ------
    LookupError
        When no lesson checks it.
    Failure
        When it is an answer that asks.
    """
    refuse_answers()
    return _found(exercise)


@cache
def _found(exercise: str) -> Solution:
    for path in sorted(FOLDER.glob("lesson[0-9][0-9]/*.py")):
        text = path.read_text(encoding="utf-8")
        if text.startswith("# %%") and f'check("{exercise}", ' in text:
            return _solution(path, exercise)
    raise LookupError(f"no lesson has check({exercise!r}, ...)")


def _solution(path: Path, exercise: str) -> Solution:
    cells = _code_cells(path)
    checked = re.compile(rf'check\("{exercise}", (\w+)\)', re.MULTILINE)
    number, function = next(
        (number, found[1])
        for number, (_, source) in enumerate(cells)
        if (found := checked.match(source))
    )
    above = cells[number - 1 :: -1]
    while not re.search(rf"^def {function}\(", above[0][1], re.MULTILINE):
        above.pop(0)
    makers = [maker for line, source in above[1:] for maker in _makers(path, line, source)]
    return Solution(function, _bare(above[0][1]), _given(above[0][1]), makers, path)


@cache
def _code_cells(path: Path) -> list[tuple[int, str]]:
    """The code cells of a lesson: the line of each in the file, and its text."""
    cells = []
    line = 1
    for cell in re.split(r"^(?=# %%)", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        head, _, source = cell.partition("\n")
        if head.startswith("# %%") and "[markdown]" not in head:
            cells.append((line, source.strip("\n")))
        line += cell.count("\n")
    return cells


@cache
def _makers(path: Path, line: int, source: str) -> list[tuple[set[str], ast.stmt]]:
    makers = []
    for statement in reversed(ast.parse(source).body):
        ast.increment_lineno(statement, line)
        if isinstance(statement, ast.Import | ast.ImportFrom):
            made = {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            made = {statement.name}
        elif isinstance(statement, ast.Assign):
            places = [node for target in statement.targets for node in ast.walk(target)]
            made = {node.id for node in places if isinstance(node, ast.Name)}
        else:
            continue
        makers.append((made, statement))
    return makers


def _used(code: CodeType) -> set[str]:
    """The global names that a program reads."""
    used = {step.argval for step in dis.get_instructions(code) if step.opname in READING}
    return used.union(*(_used(part) for part in code.co_consts if isinstance(part, CodeType)))


def _bare(source: str) -> str:
    """A cell's source without the markers of its solution and the docstrings."""
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node):
            first, last = node.body[0].lineno - 1, node.body[0].end_lineno
            lines[first:last] = [MARKERS[0]] * (last - first)
    kept = [line for line in lines if line.strip() not in MARKERS]
    return "\n".join(kept).strip("\n") + "\n"


def _given(source: str) -> str:
    """A cell's source with `pass` in place of each solution; "" where it has none."""
    begin, end = map(re.escape, MARKERS[:2])
    block = re.compile(rf"^( *){begin}\n.*?^ *{end}$", re.MULTILINE | re.DOTALL)
    return block.sub(r"\1pass", source) if block.search(source) else ""
