"""Exercises in which given statements are put in order, by moving lines of the cell.

The answer is judged as any other, so that each right order passes. Here is what is special: each
statement stands once in the answer, and of which two of them a finding speaks.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from course.checks.answers import plain_function
from course.checks.exercises import Exercise
from course.checks.verdicts import Failure, NotStarted
from course.checks.written import function_node

BARRIER = "cuda.syncthreads()"


def as_given(statements: Iterable[str]) -> list[str]:
    """Statements in the order in which a student's cell gives them: that of their letters."""
    return sorted(map(_normal, statements))


def look_at(exercise: Exercise, answer: Any) -> None:
    """Look whether an answer has each statement once, in an order that is not the given one.

    Raises
    ------
    NotStarted
        When the order is the given one.
    Failure
        Of kind "statements", when one is missing or stands twice.
    """
    block, _ = _ordered(exercise, answer)
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
    block, loops = _ordered(exercise, answer)
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


def _ordered(exercise: Exercise, answer: Any) -> tuple[list[ast.stmt], bool]:
    """The given statements as the answer has them, below each other, and whether in a loop."""
    whole, given = function_node(answer), set(map(_shape, exercise.statements))
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


def _normal(text: str) -> str:
    return ast.unparse(ast.parse(text))


def _shape(text: str) -> str:
    """A statement without the names of its variables, which a student may change."""
    tree = ast.parse(text)
    kept = {
        id(name)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for name in ast.walk(call.func)
    }
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
