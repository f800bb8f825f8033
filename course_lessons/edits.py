"""The solution of an exercise, found in the lesson that checks it; and such a text edited."""

from __future__ import annotations

import ast
import builtins
import dis
import linecache
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from course.checks.exercises import FunctionExercise, KernelExercise, refuse_answers

FOLDER = Path(__file__).resolve().parent
MARKERS = tuple(f"### {end} {what}" for what in ("SOLUTION", "ORDER") for end in ("BEGIN", "END"))
READING = ("LOAD_GLOBAL", "LOAD_NAME")


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
def _texts() -> dict[Path, str]:
    """The lessons' texts."""
    paths = sorted(FOLDER.glob("lesson[0-9][0-9]/*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    return {path: text for path, text in texts.items() if text.startswith("# %%")}


@cache
def _found(exercise: str) -> Solution:
    for path, text in _texts().items():
        if f'check("{exercise}", ' in text:
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
