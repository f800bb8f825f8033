"""The line of an answer that decides: changed in one place, the answer is right.

Such a change is looked for in the answer's own text: what the lesson's solution has there, then the
changes of `course.checks.edits`. Each is tried in the smallest case that fails, and what is right
there is judged as an answer is. So what is said has been tried. How much is tried is counted, in
changes and in lines or threads that run: no clock decides.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import inspect
import io
import linecache
import sys
import textwrap
import warnings
from ast import unparse
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain, product, zip_longest
from types import FrameType
from typing import Any

import numpy as np

from course import backend
from course.checks import edits
from course.checks.answers import names_in_reach, plain_function
from course.checks.edits import Edit, Text, numbers_in
from course.checks.exercises import (
    Exercise,
    KernelExercise,
    lesson_solution,
)
from course.checks.functions import OutOfTime, call_once, judge_function
from course.checks.kernels import judge_kernel, simulate_case
from course.checks.simulating import simulated_twin
from course.checks.trials import launch_configuration
from course.checks.verdicts import Failure, NotStarted
from warpsim.core.masks import limited_steps

#: Failures that say by themselves what to change, or that no case of its own shows.
SAID = {
    "not-a-kernel", "not-a-function", "borrowed", "wrong-arguments", "endless-loop", "deadlock",
    "misaligned", "barrier-divergence", "race", "same-value-race", "limit", "not-parallel",
    "gpu-result",
}  # fmt: skip
MOST_TRIES = 150
MOST_PASSES = 2_000  # of one loop of a kernel
MOST_LINES = 20_000  # that a function runs in a case
MOST_BITS = 10_000  # of a whole number in a function
MOST_SHOWN = 3  # statements, with the `def`, of a function of which no whole line is shown
MOST_WORK = 400_000  # lines that functions run, in all tries
MOST_NODES = 40_000  # of kernels' trees, each of which is compiled; one counts once a 4,096 threads
OPERATORS = (
    edits.terms, edits.constants, edits.operations, edits.comparisons, edits.ranges, edits.axes,
    edits.names, edits.factors, edits.kept_values, edits.unwrapped, edits.whole_indices,
    edits.extremes, edits.indices, edits.statements, edits.types, edits.words,
)  # fmt: skip


@dataclass(frozen=True)
class Repair:
    """One change that makes an answer right, in words.

    Attributes
    ----------
    where : str
        "Line 7", counted from the `def` of its function.
    old, new : str
        The line as it is, and as it would be right; `new` is "" where it is all that there is.
    change : str
        "With another comparison in place of `i <= n`"
    """

    where: str
    old: str
    new: str
    change: str

    def lines(self) -> list[str]:
        """What is said at the second try, and at the third."""
        said = f"{self.where} decides: `{self.old}`. {self.change} the answer passes."
        return [said, f"{self.where} would be right as `{self.new}`."] if self.new else [said]


class Source:
    """An answer's text with that of the functions beside it, which can be defined anew."""

    def __init__(self, exercise: Exercise, answer: Any) -> None:
        self.function = plain_function(answer)
        self.starts: dict[str, int] = {}  # the line of each `def` in the whole text
        self.text = ""
        if not self._has_text():
            return
        of = Text(self.text, self.function.__name__, isinstance(exercise, KernelExercise))
        self.of, reach = of, names_in_reach(self.function)
        of.numbers = numbers_in(reach)
        names = [argument.arg for argument in of.whole.args.args]
        of.given = dict(zip(names, exercise.arguments(0).values(), strict=False))
        self.starts = {n.name: n.lineno for n in of.tree.body if isinstance(n, ast.FunctionDef)}
        self._number = 0

    def _has_text(self) -> bool:
        """Whether the text is there and is that of functions alone; sets it."""
        if self.function is None:
            return False
        found = {self.function.__name__: self.function}
        left = [self.function]
        while left:
            for name, value in names_in_reach(left.pop()).items():
                own = plain_function(value)
                beside = own is not None and own.__code__.co_filename == self._file
                if beside and own.__name__ == name and name not in found:
                    found[name] = own
                    left.append(own)
        try:
            texts = [textwrap.dedent(inspect.getsource(f)) for f in reversed(found.values())]
            self.text = "\n".join(texts)
            tree = ast.parse(self.text)
        except (OSError, TypeError, SyntaxError):
            return False
        return [getattr(node, "name", "") for node in tree.body] == [*reversed(found)]

    @property
    def _file(self) -> str:
        return self.function.__code__.co_filename

    def define(self, text: str) -> Any:
        """The answer of another text, with the names that the answer has."""
        self._number += 1
        file = f"<{self.function.__name__}, change {self._number}>"
        code = compile(text, file, "exec", dont_inherit=True)
        names = dict(self.function.__globals__)
        names |= inspect.getclosurevars(self.function).nonlocals
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(code, names)
        return names[self.function.__name__]

    def forget(self) -> None:
        """Take the texts of all changes out of memory."""
        for number in range(1, self._number + 1):
            linecache.cache.pop(f"<{self.function.__name__}, change {number}>", None)


def repair(exercise: Exercise, answer: Any, failure: Failure) -> Repair | None:
    """The change of one place that makes an answer right; None where none is found.

    Parameters
    ----------
    exercise : Exercise
    answer : kernel or function
        One that has failed.
    failure : Failure
    """
    if failure.kind in SAID or getattr(exercise, "caller", None) is not None:
        return None
    if getattr(exercise, "runs", ""):
        return None
    source = Source(exercise, answer)
    if not source.starts:
        return None
    bare = replace(exercise, mistakes={})
    try:
        with _quiet():
            return _search(bare, source, answer)
    finally:
        source.forget()


def _search(exercise: Exercise, source: Source, answer: Any) -> Repair | None:
    sizes = [_size(exercise, number) for number in range(len(exercise.cases))]
    order = sorted(range(len(sizes)), key=sizes.__getitem__)
    for number in order:
        ran = _Lines(source.function.__code__.co_filename)
        if not _is_right(exercise, number, answer, ran):
            break
    else:
        return None
    if isinstance(exercise, KernelExercise):
        nodes = sum(1 for _ in ast.walk(source.of.tree))
        tries = MOST_NODES // (nodes * (1 + sizes[number] // 4096))
    else:
        tries = MOST_WORK // max(ran.count, 100)
    for change in _some(_changes(exercise, source, ran), min(tries, MOST_TRIES)):
        try:
            text = source.of.edited([change])
            changed = source.define(text)
        except (Exception, SystemExit):  # a decorator may raise anything
            continue
        lines = _Lines(plain_function(changed).__code__.co_filename)
        if not _is_right(exercise, number, changed, lines):
            continue
        if all(_is_right(exercise, other, changed, lines) for other in order) and _passes(
            exercise, changed
        ):
            return _described(source, change, text)
    return None


def _size(exercise: Exercise, number: int) -> int:
    """How much runs in a case: threads of a kernel, elements that a function is given."""
    arguments = exercise.arguments(number)
    if not isinstance(exercise, KernelExercise):
        sized = (v for v in arguments.values() if isinstance(v, np.ndarray | list | dict | str))
        return sum(v.size if isinstance(v, np.ndarray) else len(v) for v in sized)
    launch = launch_configuration(exercise, exercise.cases[number], arguments)
    return int(np.prod(launch[0]) * np.prod(launch[1]))


def _some(changes: Iterable[Edit], most: int) -> Iterator[Edit]:
    """So many changes, each once."""
    seen: set[tuple] = set()
    for node, new in changes:
        key = node, new.strip("()")
        if key not in seen and len(seen) < most:
            seen.add(key)
            yield node, new


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()), limited_steps(MOST_PASSES):
            yield


class _Lines:
    """Which lines of a file run, and how many; stopped after `MOST_LINES`."""

    def __init__(self, file: str) -> None:
        self.file, self.count, self.reached = file, 0, set()

    def __enter__(self) -> _Lines:
        self.count = 0
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _called(self, frame: FrameType, event: str, argument: Any) -> Callable | None:
        return self._line if frame.f_code.co_filename == self.file else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Callable:
        if event == "line":
            self.count += 1
            self.reached.add(frame.f_lineno)
            values = frame.f_locals.values()
            large = any(type(v) is int and v.bit_length() > MOST_BITS for v in values)
            if self.count > MOST_LINES or large:  # a square of a square of ... has no end either
                raise OutOfTime
        return self._line


def _is_right(exercise: Exercise, number: int, answer: Any, lines: _Lines) -> bool:
    try:
        if isinstance(exercise, KernelExercise):
            simulate_case(exercise, number, answer, causes=False)
        else:
            function = plain_function(answer)
            twin = simulated_twin(function) if backend.gpu() is not None else None
            with lines:
                call_once(exercise, number, twin or answer, causes=False)
    except (Exception, SystemExit, OutOfTime):
        return False
    return True


def _passes(exercise: Exercise, answer: Any) -> bool:
    judge = judge_kernel if isinstance(exercise, KernelExercise) else judge_function
    try:
        judge(exercise, answer)
    except (Failure, NotStarted):
        return False
    return True


# ---------------------------------------------------------------------- what is tried
def _changes(exercise: Exercise, source: Source, ran: _Lines) -> Iterator[Edit]:
    """The changes in the order in which they are tried."""
    yield from _of_solution(exercise, source)
    whole = source.of.whole
    head = min([whole.lineno, *(mark.lineno for mark in whole.decorator_list)])
    offset = head - source.function.__code__.co_firstlineno
    reached = {line + offset for line in ran.reached}
    by_operator = [operator(source.of) for operator in OPERATORS]
    for change in filter(None, chain.from_iterable(zip_longest(*by_operator))):
        statement = _statement(source.of, change[0])
        body = getattr(statement, "body", None)
        last = body[0].lineno - 1 if body else statement.end_lineno
        inside = whole.lineno < statement.lineno <= whole.end_lineno
        if not reached or not inside or reached & {*range(statement.lineno, last + 1)}:
            yield change


def _of_solution(exercise: Exercise, source: Source) -> Iterator[Edit]:
    """What the lesson's solution has in another form, in place of what the answer has."""
    found = lesson_solution(exercise.name)
    if found is None:
        return
    tree = ast.parse(found[0])
    theirs = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    theirs[source.of.whole.name] = theirs.get(found[1])
    for mine in source.of.tree.body:
        if (right := theirs.get(mine.name)) is not None:
            yield from _differences(source, mine, right)


def _differences(source: Source, mine: ast.FunctionDef, right: ast.FunctionDef) -> Iterator[Edit]:
    names = {a.arg: b.arg for a, b in zip(right.args.args, mine.args.args, strict=False)}
    own = {n.id for n in ast.walk(mine) if isinstance(n, ast.Name)} | set(names.values())
    old, new = _statements(mine), _statements(right)
    for a, b in product(old, new):  # another name for the same value
        if isinstance(a, ast.Assign) and isinstance(b, ast.Assign):
            x, y = a.targets[0], b.targets[0]
            if isinstance(x, ast.Name) and isinstance(y, ast.Name) and y.id not in own:
                if unparse(a.value) == _renamed(b.value, names):
                    names.setdefault(y.id, x.id)
    texts = [_head(a) for a in old], [_renamed(_head_of(b), names) for b in new]
    matched = difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes()
    right_of = {
        a: b
        for tag, i, _, j, _ in matched
        if tag == "equal"
        for a, b in _zip(old, new, i, j, texts)
    }
    placed = set(source.of.nodes(ast.AST))
    for tag, i, i2, j, j2 in matched:
        for a, b in product(old[i:i2], new[j:j2]) if tag == "replace" else ():
            if isinstance(a, ast.Pass):
                yield a, _renamed(b, names)
            elif type(a) is type(b):
                for node, other in _smaller(a, b, names):
                    if node in placed and not isinstance(node, ast.Slice):
                        yield node, _renamed(other, names)
            elif _alike(unparse(a), _renamed(b, names)):
                yield a, _renamed(b, names)
        if tag in ("replace", "insert"):
            for b in new[j:j2]:
                yield from _missing(b, right, right_of, names, source)
        for a in old[i:i2] if tag in ("replace", "delete") else ():
            body = "\n".join(map(unparse, a.body)) if isinstance(a, ast.If) else "pass"
            yield a, body


def _alike(one: str, other: str) -> bool:
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio() > 0.6


def _zip(old: list, new: list, i: int, j: int, texts: tuple) -> Iterator[tuple]:
    while i < len(old) and j < len(new) and texts[0][i] == texts[1][j]:
        yield old[i], new[j]
        i, j = i + 1, j + 1


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements within a function in the order of its text, without its docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    found = [n for part in body for n in ast.walk(part) if isinstance(n, ast.stmt)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _head_of(statement: ast.stmt) -> ast.AST:
    """What a compound statement says before its body; another one as it is."""
    if isinstance(statement, ast.If | ast.While):
        return statement.test
    if isinstance(statement, ast.For):
        return ast.Tuple([statement.target, statement.iter], ast.Load())
    return statement


def _head(statement: ast.stmt) -> str:
    return unparse(_head_of(statement))


def _renamed(node: ast.AST, names: dict[str, str]) -> str:
    """A node of the solution as text, with the answer's names."""

    class Names(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.Name:
            return ast.Name(names.get(name.id, name.id), name.ctx)

    return unparse(Names().visit(deepcopy(node)))


def _smaller(a: ast.AST, b: ast.AST, names: dict[str, str]) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Where two nodes of one kind differ: the smallest place that has all of it first."""
    parts = [*zip(ast.iter_child_nodes(a), ast.iter_child_nodes(b), strict=False)]
    alike = type(a) is type(b) and len([*ast.iter_child_nodes(a)]) == len(parts)
    alike = alike and len([*ast.iter_child_nodes(b)]) == len(parts)
    other = [(x, y) for x, y in parts if unparse(x) != _renamed(y, names)] if alike else []
    if len(other) == 1 and hasattr(other[0][0], "lineno"):
        yield from _smaller(*other[0], names)
    if isinstance(a, ast.expr | ast.stmt):
        yield a, b


def _missing(
    b: ast.stmt, right: ast.FunctionDef, right_of: dict, names: dict[str, str], source: Source
) -> Iterator[Edit]:
    """A statement of the solution put where the answer has none: beside its neighbours there."""
    mine_of = {theirs: mine for mine, theirs in right_of.items()}
    text = _renamed(b, names)
    for above in ast.walk(right):
        suite = next(
            (s for s in (getattr(above, n, None) for n in ("body", "orelse"))
             if isinstance(s, list) and b in s), None,
        )  # fmt: skip
        if suite is None:
            continue
        place = suite.index(b)
        before = mine_of.get(suite[place - 1]) if place else None
        after = mine_of.get(suite[place + 1]) if place + 1 < len(suite) else None
        if after is not None:
            yield after, f"{text}\n{unparse(after)}"
        elif before is not None:
            yield before, f"{unparse(before)}\n{text}"
        body = getattr(b, "body", None)
        inner = mine_of.get(body[0]) if body else None
        if isinstance(b, ast.If) and inner is not None and not b.orelse:
            head = text.split("\n")[0]
            yield inner, f"{head}\n{textwrap.indent(unparse(inner), '    ')}"


# ---------------------------------------------------------------------- in words
def _described(source: Source, change: Edit, text: str) -> Repair:
    """A change in words: its line, what it is of, the line as it would be."""
    node, new = change
    whole = next(f for f in source.of.tree.body if f.lineno <= node.lineno <= f.end_lineno)
    beside = "" if whole is source.of.whole else f" of `{whole.name}`"
    where = f"Line {node.lineno - whole.lineno + 1}{beside}"
    statement = _statement(source.of, node)
    old = source.text.split("\n")[statement.lineno - 1].strip()
    if statement.end_lineno > statement.lineno and not hasattr(statement, "body"):
        old = unparse(statement)
    if isinstance(node, ast.stmt):
        right, how = _of_statement(node, new)
        return Repair(where, old, right, how)
    lines = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.stmt)]
    right = next(unparse(n) for n in lines if _begins(n) == _begins(statement)).split("\n")[0]
    if source.text.split("\n")[statement.lineno - 1].lstrip().startswith("elif "):
        right = f"el{right}"
    many = sum(isinstance(each, ast.stmt) for each in ast.walk(whole)) > MOST_SHOWN
    short = many or len(new) <= len(unparse(statement)) / 2
    return Repair(where, old, right if short else "", _kind(node, new))


def _begins(node: ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _statement(of: Text, node: ast.AST) -> ast.stmt:
    while not isinstance(node, ast.stmt):
        node = of.parents[node]
    return node


def _of_statement(node: ast.stmt, new: str) -> tuple[str, str]:
    """The line as it would be, and what is done with a statement."""
    own, lines = unparse(node), new.split("\n")
    if new == "pass" or (isinstance(node, ast.If) and new == "\n".join(map(unparse, node.body))):
        return "", "Without its condition" if new != "pass" else "Without it"
    if new.endswith(f"\n{own}"):
        return lines[0], "With one more line before it"
    if new.startswith(f"{own}\n"):
        return new.removeprefix(f"{own}\n").split("\n")[0], "With one more line after it"
    if textwrap.dedent("\n".join(lines[1:])) == own:
        return lines[0], "Below a condition"
    if isinstance(node, ast.Assign) and new.startswith(f"{unparse(node.targets[0])} += "):
        return lines[0], "With what was there before added,"
    return lines[0], "With another statement there"


def _kind(node: ast.AST, new: str) -> str:
    """What another text is in the place of an expression."""
    old, other = unparse(node), ast.parse(f"({new})", mode="eval").body
    parts = [unparse(part) for part in ast.iter_child_nodes(node)]
    theirs = [unparse(part) for part in ast.iter_child_nodes(other)]
    if isinstance(node, ast.BinOp | ast.Call) and unparse(other) in parts:
        return f"With a part of `{old}` alone"
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return f"With another number in place of `{old}`"
    if isinstance(other, ast.BinOp | ast.Call) and old in theirs:
        more = "a further factor or term" if isinstance(other, ast.BinOp) else "a call more"
        return f"With {more} at `{old}`"
    if isinstance(node, ast.Call) and type(other) is ast.Call:
        word = "range" if unparse(node.func) == "range" else "call"
        return f"With another {word} in place of `{old}`"
    return f"With {_KINDS.get(type(node), 'something else')} in place of `{old}`"


_KINDS = {
    ast.Compare: "another comparison", ast.BoolOp: "another condition", ast.Name: "another name",
    ast.Attribute: "another name", ast.Constant: "another word", ast.Subscript: "another element",
    ast.BinOp: "other arithmetic", ast.UnaryOp: "another sign", ast.Tuple: "another order",
}  # fmt: skip
