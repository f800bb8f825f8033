"""Exercises in which given statements are ordered, by moving lines of the cell.

The answer is judged as any other, so that each right order passes. Here is what is special: each
statement stands once in the answer, of which two of them a finding speaks, and which two decide.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Any

from course.checks.answers import function_node, plain_function
from course.checks.exercises import Exercise
from course.checks.repair import Trial, quiet
from course.checks.verdicts import Failure, NotStarted

BARRIER = "cuda.syncthreads()"


def as_given(statements: Iterable[str]) -> list[str]:
    """Statements in the order in which a student's cell gives them: that of their letters."""
    return sorted(ast.unparse(ast.parse(text)) for text in statements)


def look_at(exercise: Exercise, answer: Any) -> None:
    """Look whether an answer has each statement once, in an order that is not the given one.

    NotStarted for the given one; a Failure, "statements", when one is missing or stands twice.
    """
    block, _ = _ordered(exercise, function_node(answer))
    found = [ast.unparse(node) for node in block]
    given = as_given(exercise.statements)
    if not found:
        return
    shapes, wanted = [_shape(text) for text in found], [_shape(text) for text in given]
    for text, times in Counter(given).items():
        there = shapes.count(_shape(text)) - wanted.count(_shape(text)) + times
        if there != times:
            raise Failure(
                "statements",
                f"`{_short(text)}` is given {_times(times)}, and stands {_times(there)} "
                f"in your order. Move whole lines: all {len(given)} statements stay, one below the "
                "other.",
            )
    if found == given:
        raise NotStarted("Put the statements in order: move lines, then run the cell and this one.")


def name_two(failure: Failure, exercise: Exercise, answer: Any) -> None:
    """Let a failure say of which two statements its finding speaks, where that is sure; in place.

    Two statements race over one array if no others use it, or no others without a barrier between.
    Memory is read too early if all that could set it comes later.
    """
    block, loops = _ordered(exercise, function_node(answer))
    finding = next((f for f in failure.findings if f.kind == failure.kind), None)
    if finding is None:
        return
    array = _array(finding.code)
    at = [n for n, node in enumerate(block) if _holds(node, finding, plain_function(answer))]
    if len(at) != 1 or array not in _names(block[at[0]]):
        return
    one = at[0]
    others = [n for n, node in enumerate(block) if n != one and array in _names(node)]
    if failure.kind == "uninitialised-read" and len(others) == 1 and others[0] > one:
        early, late = (_short(ast.unparse(block[n])) for n in (one, others[0]))
        failure.message += f"\n`{early}` stands before `{late}`, and needs what that stores."
    if failure.kind == "race":
        barriers = [n for n, node in enumerate(block) if ast.unparse(node) == BARRIER]
        for between, when in ((_inside, "Between"), (_around, "From one round to the next, from")):
            unordered = [n for n in others if not any(between(b, one, n) for b in barriers)]
            if len(unordered) == 1 and barriers and (loops or between is _inside):
                pair = sorted((one, unordered[0]), reverse=between is _around)
                first, second = (_short(ast.unparse(block[n])) for n in pair)
                word = "to" if between is _around else "and"
                failure.message += f"\n{when} `{first}` {word} `{second}`, there is no barrier."
            if unordered:
                return


def _inside(barrier: int, one: int, other: int) -> bool:
    return min(one, other) < barrier < max(one, other)


def _around(barrier: int, one: int, other: int) -> bool:
    return not min(one, other) < barrier < max(one, other)


def decides(exercise: Exercise, answer: Any) -> list[str]:
    """Which two statements stand the wrong way round, where all else is right; [] if none do.

    The answer's own statements are taken in the solution's order, and then two of them the other
    way round, those that must stay before or behind one of them with them. Where that is wrong, the
    two matter: neighbours are tried first, and what follows from pairs that are known is not.
    """
    with quiet(exercise, answer) as trial:
        return _pair(exercise, trial) if trial.cases else []


def _pair(exercise: Exercise, trial: Trial) -> list[str]:
    whole = trial.source.of.whole
    block, _ = _ordered(exercise, whole)
    wanted, own = [_shape(text) for text in exercise.statements], []
    for node in block:
        shape = _shape(ast.unparse(node))
        own.append(next((n for n, w in enumerate(wanted) if w == shape and n not in own), -1))

    def is_right(order: Iterable[int]) -> bool:
        texts = [ast.unparse(block[own.index(n)]) for n in order]
        return trial.is_right(zip(block, texts, strict=True), 1)

    total = len(wanted)
    if sorted(own) != [*range(total)] or not is_right(range(total)):
        return []
    behind: list[set[int]] = [set() for _ in own]  # what must stand behind a statement
    for distance, a in product(range(1, total), range(total)):
        b = a + distance
        if b >= total or b in behind[a]:
            continue
        early = [n for n in range(a + 1, b) if b in behind[n]]
        late = [n for n in range(a + 1, b) if n not in early]
        if is_right([*range(a), *early, b, a, *late, *range(b + 1, total)]):
            continue
        if own.index(b) < own.index(a):
            one, other = block[own.index(b)], block[own.index(a)]
            line = one.lineno - whole.lineno + 1
            return [
                f"Line {line} decides: `{_short(ast.unparse(one))}`. In the lesson's solution it "
                f"stands behind `{_short(ast.unparse(other))}`, and that matters."
            ]
        for n in range(a + 1):
            if n == a or a in behind[n]:
                behind[n] |= {b} | behind[b]
    return []


def _ordered(exercise: Exercise, whole: ast.AST | None) -> tuple[list[ast.stmt], bool]:
    """The given statements as a function has them, below each other, and whether in a loop."""
    given = set(map(_shape, exercise.statements))
    best: list[ast.stmt] = []
    loops = False
    for node in ast.walk(whole) if whole is not None else ():
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            found = [each for each in block or () if _shape(ast.unparse(each)) in given]
            if len(found) > len(best):
                best, loops = found, isinstance(node, ast.For | ast.While)
    return best, loops


def _holds(node: ast.stmt, finding: Any, function: Any) -> bool:
    """Whether a finding is in a statement, or in a device function that it calls itself."""
    if finding.call is None and finding.function != function.__name__:
        calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        return any(ast.unparse(call.func) == finding.function for call in calls)
    line = finding.line if finding.call is None else finding.call[0]
    return node.lineno <= line <= node.end_lineno


def _array(code: str) -> str:
    """The array of an access, ``tile[y, x]`` or ``load4(tile, (y, x))``; "" where it is none."""
    try:
        node = ast.parse(code, mode="eval").body
    except SyntaxError:
        return ""
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value)
    return ast.unparse(node.args[0]) if isinstance(node, ast.Call) and node.args else ""


def _names(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _shape(text: str) -> str:
    """A statement without the names of its variables, which a student may change: `_.append(_)`."""
    tree = ast.parse(text)
    kept = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in kept:
            node.id = "_"
    return ast.unparse(tree)


def _times(number: int) -> str:
    return ("nowhere", "once", "twice")[number] if number < 3 else f"{number} times"


def _short(text: str) -> str:
    """A statement's first line; a long call by its name."""
    line, *rest = text.splitlines()
    if len(line) > 40 and re.match(r"\w+\(", line):
        return f"{line.partition('(')[0]}(...)"
    return f"{line} ..." if rest else line
