"""The line of an answer that decides: changed in one place, the answer is right.

Such a change is looked for in the answer's own text: what the lesson's solution has there, then the
changes of `course.checks.edits`, then up to three lines of the solution together. Each is tried in
the smallest case that fails, and what is right there is judged as an answer is. So what is said has
been tried. How much is tried is counted, in changes and in lines or threads that run: no clock
decides.
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
from itertools import chain, product, zip_longest
from types import FrameType
from typing import Any

import numpy as np

from course import backend
from course.checks import edits
from course.checks.answers import names_in_reach, plain_function
from course.checks.edits import Edit, Text, numbers_in
from course.checks.exercises import Exercise, KernelExercise, lesson_solution
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
MOST_PLACES = 3  # that are changed together
MOST_APART = 8  # statements that are others than the solution's, for that
MOST_SHOWN = 3  # statements, with the `def`, of a function of which no whole line is shown
MOST_WORK = 400_000  # lines that functions run, in all tries
MOST_NODES = 40_000  # of kernels' trees, each of which is compiled; one counts once a 4,096 threads
OPERATORS = (
    edits.terms, edits.constants, edits.operations, edits.comparisons, edits.ranges, edits.axes,
    edits.names, edits.factors, edits.kept_values, edits.unwrapped, edits.whole_indices,
    edits.extremes, edits.indices, edits.statements, edits.levels, edits.types, edits.words,
)  # fmt: skip


class Source:
    """An answer's text with that of the functions beside it, which can be defined anew."""

    def __init__(self, exercise: Exercise, answer: Any) -> None:
        self.function = plain_function(answer)
        self.of: Text | None = None  # None where there is no text
        self.text, self._number = "", 0
        if self._has_text():
            of = Text(self.text, self.function.__name__, isinstance(exercise, KernelExercise))
            self.of, of.numbers = of, numbers_in(names_in_reach(self.function))
            names = [argument.arg for argument in of.whole.args.args]
            of.given = dict(zip(names, exercise.arguments(0).values(), strict=False))

    def _has_text(self) -> bool:
        """Whether the text is there and is that of functions alone; sets it."""
        if self.function is None:
            return False
        found = {self.function.__name__: self.function}
        left = [self.function]
        while left:
            for name, value in names_in_reach(left.pop()).items():
                own = plain_function(value)
                beside = own is not None and own.__code__.co_filename == self.file
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
    def file(self) -> str:
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


def repair(exercise: Exercise, answer: Any, failure: Failure) -> list[str]:
    """Which line of an answer that has failed decides, and how it would be right; else []."""
    if failure.kind in SAID or getattr(exercise, "runs", ""):
        return []
    if getattr(exercise, "caller", None) is not None and exercise.reference is None:
        return []  # it is judged by what it does: threads, files
    with quiet(exercise, answer) as trial:
        return _search(trial) if trial.cases else []


class Trial:
    """Changes of an answer that fails, tried in the cases of its exercise.

    `cases` are the smallest that fails, then the others; none where none fails, or there is no
    text. `size` is that of the first, `ran` the lines of the answer in it.
    """

    def __init__(self, exercise: Exercise, answer: Any) -> None:
        self.exercise, self.source, self.cases = exercise, Source(exercise, answer), []
        sizes = [_size(exercise, number) for number in range(len(exercise.cases))]
        order = sorted(range(len(sizes)), key=sizes.__getitem__)
        for number in order if self.source.of else []:
            self.ran, self.size = _Lines(self.source.file), sizes[number]
            if not _is_right(exercise, number, answer, self.ran):
                self.cases = [number, *(other for other in order if other != number)]
                return

    def is_right(self, edits: Iterable[Edit], most: int | None = None) -> bool:
        """Whether the answer with these changes is right in so many cases, the failing one first.

        That is all that is looked at; `passes` judges it as an answer.
        """
        try:
            changed = self.source.define(self.source.of.edited(edits))
        except (Exception, SystemExit):  # a decorator may raise anything
            return False
        lines = _Lines(plain_function(changed).__code__.co_filename)
        return all(_is_right(self.exercise, n, changed, lines) for n in self.cases[:most])

    def passes(self, edits: list[Edit]) -> bool:
        if not self.is_right(edits):
            return False
        judge = judge_kernel if isinstance(self.exercise, KernelExercise) else judge_function
        try:
            judge(self.exercise, self.source.define(self.source.of.edited(edits)))
        except (Failure, NotStarted):
            return False
        return True


def _search(trial: Trial) -> list[str]:
    exercise, source = trial.exercise, trial.source
    if isinstance(exercise, KernelExercise):
        nodes = sum(1 for _ in ast.walk(source.of.tree))
        tries = MOST_NODES // (nodes * (1 + trial.size // 4096))
    else:
        tries = MOST_WORK // max(trial.ran.count, 100)
    for change in _some(_changes(exercise, source, trial.ran), min(tries, MOST_TRIES)):
        if trial.passes([change]):
            return _in_words([_described(source, change)])
    edits = _all_differences(exercise, source)
    if not edits or not trial.is_right(edits):
        return []
    for edit in [*edits]:
        fewer = [each for each in edits if each is not edit]
        edits = fewer if trial.is_right(fewer) else edits
    if len(edits) > MOST_PLACES or not trial.passes(edits):
        return []
    return _in_words([_described(source, edit) for edit in edits])


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
        if len(seen) >= most:
            return
        if (key := (node, new.strip("()"))) not in seen:
            seen.add(key)
            yield node, new


@contextlib.contextmanager
def quiet(exercise: Exercise, answer: Any) -> Iterator[Trial]:
    """Changes of an answer, tried without warnings or prints, and forgotten at the end."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()), limited_steps(MOST_PASSES):
            trial = Trial(exercise, answer)
            try:
                yield trial
            finally:
                trial.source.forget()


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


# ---------------------------------------------------------------------- what is tried
def _changes(exercise: Exercise, source: Source, ran: _Lines) -> Iterator[Edit]:
    """The changes in the order in which they are tried."""
    placed = set(source.of.nodes(ast.AST))
    for both in _functions(exercise, source):
        yield from both.differences(placed)
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


def _functions(exercise: Exercise, source: Source) -> Iterator[_Aligned]:
    """The answer's functions beside those of the lesson's solution."""
    found = lesson_solution(exercise.name)
    if found is None:
        return
    tree = ast.parse(found[0])
    theirs = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    theirs[source.of.whole.name] = theirs.get(found[1])
    for mine in source.of.tree.body:
        if (right := theirs.get(mine.name)) is not None:
            yield _Aligned(mine, right)


class _Aligned:
    """A function of an answer beside the solution's: which statements correspond.

    `blocks` are the statements of the one and of the other that stand in the same place, with what
    `difflib` says of them: "equal", "replace", "insert" or "delete".
    """

    def __init__(self, mine: ast.FunctionDef, right: ast.FunctionDef) -> None:
        self.right = right
        self.names = names = {
            a.arg: b.arg for a, b in zip(right.args.args, mine.args.args, strict=False)
        }
        own = {n.id for n in ast.walk(mine) if isinstance(n, ast.Name)} | set(names.values())
        old, new = _statements(mine), _statements(right)
        for a, b in product(old, new):  # another name for the same value
            if isinstance(a, ast.Assign) and isinstance(b, ast.Assign):
                x, y = a.targets[0], b.targets[0]
                if isinstance(x, ast.Name) and isinstance(y, ast.Name) and y.id not in own:
                    if unparse(a.value) == self.text(b.value):
                        names.setdefault(y.id, x.id)
        texts = [unparse(_head(a)) for a in old], [self.text(_head(b)) for b in new]
        matched = difflib.SequenceMatcher(None, *texts, autojunk=False).get_opcodes()
        self.blocks = [(tag, old[i:i2], new[j:j2]) for tag, i, i2, j, j2 in matched]
        equal = [(new, old) for tag, old, new in self.blocks if tag == "equal"]
        self.mine_of = {b: a for new, old in equal for b, a in zip(new, old, strict=True)}

    def text(self, node: ast.AST) -> str:
        """A node of the solution as text, with the answer's names."""
        node = deepcopy(node)
        for name in ast.walk(node):
            if isinstance(name, ast.Name):
                name.id = self.names.get(name.id, name.id)
        return unparse(node)

    def differences(self, placed: set[ast.AST]) -> Iterator[Edit]:
        """What the solution has in another form, in place of what the answer has."""
        for tag, old, new in self.blocks:
            for a, b in product(old, new) if tag == "replace" else ():
                if isinstance(a, ast.Pass):
                    yield a, self.text(b)
                elif type(a) is type(b):
                    for head, right in zip(_heads(a), _heads(b), strict=True):
                        for node, other in self._smaller(head, right):
                            if node in placed and not isinstance(node, ast.Slice):
                                yield node, self.text(other)
                elif self._same_bodies(a, b):
                    texts = unparse(a), self.text(b)
                    if difflib.SequenceMatcher(None, *texts, autojunk=False).ratio() > 0.6:
                        yield a, texts[1]
            if tag in ("replace", "insert"):
                for b in new:
                    yield from self._missing(b)
            for a in old if tag in ("replace", "delete") else ():
                yield a, _without(a)

    def _same_bodies(self, a: ast.stmt, b: ast.stmt) -> bool:
        """Whether two statements differ in their first lines alone."""
        own, theirs = (getattr(its, "body", []) for its in (a, b))
        return [*map(unparse, own)] == [*map(self.text, theirs)]

    def _smaller(self, a: ast.AST, b: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Where two nodes of one kind differ: the smallest place that has all of it first."""
        mine, theirs = [*ast.iter_child_nodes(a)], [*ast.iter_child_nodes(b)]
        alike = type(a) is type(b) and len(mine) == len(theirs)
        parts = zip(mine, theirs, strict=True) if alike else ()
        other = [(x, y) for x, y in parts if unparse(x) != self.text(y)]
        if len(other) == 1 and hasattr(other[0][0], "lineno"):
            yield from self._smaller(*other[0])
        if isinstance(a, ast.expr | ast.stmt):
            yield a, b

    def _missing(self, b: ast.stmt) -> Iterator[Edit]:
        """A statement of the solution where the answer has none: beside its neighbours."""
        text = self.text(b)
        for above in ast.walk(self.right):
            suites = getattr(above, "body", None), getattr(above, "orelse", None)
            suite = next((s for s in suites if isinstance(s, list) and b in s), None)
            if suite is None:
                continue
            place = suite.index(b)
            before = self.mine_of.get(suite[place - 1]) if place else None
            after = self.mine_of.get(suite[place + 1]) if place + 1 < len(suite) else None
            if after is not None:
                yield after, f"{text}\n{unparse(after)}"
            elif before is not None:
                yield before, f"{unparse(before)}\n{text}"
            body = getattr(b, "body", None)
            inner = self.mine_of.get(body[0]) if body else None
            if isinstance(b, ast.If) and inner is not None and not b.orelse:
                head = text.split("\n")[0]
                yield inner, f"{head}\n{textwrap.indent(unparse(inner), '    ')}"


def _all_differences(exercise: Exercise, source: Source) -> list[Edit]:
    """Every statement as the solution has it; [] where there are many, or they do not pair."""
    edits: dict[ast.AST, str] = {}
    for both in _functions(exercise, source):
        for tag, old, new in both.blocks:
            if tag == "insert":
                added = [next(both._missing(b), None) for b in new]
                if None in added or any(node in edits for node, _ in added):
                    return []
                edits |= dict(added)
            for a, b in zip_longest(old, new) if tag in ("replace", "delete") else ():
                if b is None:
                    edits[a] = _without(a)
                elif a is None:
                    return []
                elif type(a) is not type(b) and (hasattr(a, "body") or hasattr(b, "body")):
                    return []
                else:
                    heads = zip(_heads(a), _heads(b), strict=True)
                    edits |= {x: text for x, y in heads if unparse(x) != (text := both.text(y))}
    return [*edits.items()] if 1 < len(edits) <= MOST_APART else []


def _without(statement: ast.stmt) -> str:
    """What is left of a statement without it: the body of an `if`."""
    return "\n".join(map(unparse, statement.body)) if isinstance(statement, ast.If) else "pass"


def _statements(function: ast.FunctionDef) -> list[ast.stmt]:
    """The statements within a function in the order of its text, without its docstring."""
    body = function.body[ast.get_docstring(function) is not None :]
    found = [n for part in body for n in ast.walk(part) if isinstance(n, ast.stmt)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _heads(statement: ast.stmt) -> list[ast.AST]:
    """What a compound statement says before its body; another one as it is."""
    if isinstance(statement, ast.If | ast.While):
        return [statement.test]
    return [statement.target, statement.iter] if isinstance(statement, ast.For) else [statement]


def _head(statement: ast.stmt) -> ast.AST:
    heads = _heads(statement)
    return heads[0] if len(heads) == 1 else ast.Tuple(heads, ast.Load())


# ---------------------------------------------------------------------- in words
def _in_words(places: list[tuple[str, str, str, str]]) -> list[str]:
    """What is said at the second try, and at the third, of each place that is changed."""
    (where, old, _, how), *others = places
    said = f"{where} decides: `{old}`."
    for where, old, *_ in others:
        said += f" So does {where[0].lower()}{where[1:]}: `{old}`."
    if others:
        how = f"With {'both' if len(others) == 1 else 'all of them'} changed"
    would = [f"{where} would be right as `{right}`." for where, _, right, _ in places if right]
    return [f"{said} {how} the answer passes.", *would]


def _described(source: Source, change: Edit) -> tuple[str, str, str, str]:
    """A change: "Line 7", counted from the `def`; the line as it is, and as it would be; how.

    It would be "" where that is all that there is.
    """
    node, new = change
    whole = next(f for f in source.of.tree.body if f.lineno <= node.lineno <= f.end_lineno)
    beside = "" if whole is source.of.whole else f" of `{whole.name}`"
    moved = _moved(node, new)
    statement = moved or _statement(source.of, node)
    where = f"Line {statement.lineno - whole.lineno + 1}{beside}"
    old = source.text.split("\n")[statement.lineno - 1].strip()
    if statement.end_lineno > statement.lineno and not hasattr(statement, "body"):
        old = unparse(statement)
    if moved:
        return where, old, "", f"Indented as line {node.lineno - whole.lineno + 1}"
    if isinstance(node, ast.stmt):
        return where, old, *_of_statement(node, new, old)
    lines = [n for n in ast.walk(ast.parse(source.of.edited([change]))) if isinstance(n, ast.stmt)]
    begins = statement.lineno, statement.col_offset
    right = next(unparse(n) for n in lines if (n.lineno, n.col_offset) == begins).split("\n")[0]
    if source.text.split("\n")[statement.lineno - 1].lstrip().startswith("elif "):
        right = f"el{right}"
    many = sum(isinstance(each, ast.stmt) for each in ast.walk(whole)) > MOST_SHOWN
    short = many or len(new) <= len(unparse(statement)) / 2
    return where, old, right if short else "", _kind(node, new)


def _moved(node: ast.AST, new: str) -> ast.stmt | None:
    """The statement that `edits.levels` takes out of a block."""
    if isinstance(node, ast.For | ast.While | ast.If) and len(node.body) > 1:
        last = node.body[-1]
        if new.startswith(unparse(node).split("\n")[0]) and new.endswith(f"\n{unparse(last)}"):
            return last
    return None


def _statement(of: Text, node: ast.AST) -> ast.stmt:
    while not isinstance(node, ast.stmt):
        node = of.parents[node]
    return node


def _of_statement(node: ast.stmt, new: str, line: str) -> tuple[str, str]:
    """The line as it would be, and what is done with a statement."""
    own, lines = unparse(node), new.split("\n")
    if new == "pass" or (isinstance(node, ast.If) and new == "\n".join(map(unparse, node.body))):
        return "", "Without its condition" if new != "pass" else "Without it"
    if new.endswith(f"\n{own}"):
        return f"{lines[0]}` and, below it, `{line}", "With one more line before it"
    if new.startswith(f"{own}\n"):
        more = new.removeprefix(f"{own}\n").split("\n")[0]
        return f"{line}` and, below it, `{more}", "With one more line after it"
    if textwrap.dedent("\n".join(lines[1:])) == own:
        return f"{lines[0]}` and, inside it, `{line}", "Below a condition"
    if isinstance(node, ast.Assign) and new.startswith(f"{unparse(node.targets[0])} += "):
        return lines[0], "With `+=` in place of `=`,"
    return lines[0], "With another statement there"


def _kind(node: ast.AST, new: str) -> str:
    """What another text is in the place of an expression."""
    old, other = unparse(node), ast.parse(f"({new})", mode="eval").body
    parts = [unparse(part) for part in ast.iter_child_nodes(node)]
    theirs = [unparse(part) for part in ast.iter_child_nodes(other)]
    if isinstance(node, ast.BinOp | ast.Call) and unparse(other) in parts:
        return f"With a part of `{old}` alone"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return f"With another number in place of `{old}`"
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return f"With another condition in place of `{old}`"
    if isinstance(node, ast.Tuple) and sorted(parts) != sorted(theirs):
        return f"With something else in place of `{old}`"
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
