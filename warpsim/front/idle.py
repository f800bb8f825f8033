"""Variables that a loop changes and that steer nothing in it, such as a count of its passes."""

from __future__ import annotations

import ast
from collections import Counter

from warpsim.front.nodes import names, walk

#: What reads memory or calls something: what goes in there matters.
_REACHES_OUT = ast.Call | ast.Subscript


def idle_variables(loop: ast.While) -> frozenset[str]:
    """Names that a loop sets, and on which no condition, store, call or address in it depends.

    A loop in which nothing else changes any more goes on for ever.
    """
    ways: list[tuple[str, Counter[str]]] = []  # a name that is set, those that it is made of
    matter = names(loop.test, ast.Load)
    for statement in (node for part in loop.body for node in walk(part)):
        if isinstance(statement, ast.If | ast.While):
            matter |= names(statement.test, ast.Load)
        elif isinstance(statement, ast.For):
            matter |= names(statement.iter, ast.Load)
        elif isinstance(statement, ast.Assign | ast.AugAssign):
            for target, value in _pairs(statement):
                reads = names(value, ast.Load) | names(target, ast.Load)
                if isinstance(statement, ast.AugAssign):
                    reads |= names(target, ast.Store)
                reach = any(isinstance(node, _REACHES_OUT) for node in walk(value))
                if reach or not isinstance(target, ast.Name):
                    matter |= reads
                if isinstance(target, ast.Name):
                    ways.append((target.id, reads))
        elif isinstance(statement, ast.stmt) and not isinstance(statement, ast.Pass):
            matter |= names(statement, ast.Load)
    before = -1
    while before != len(matter):
        before = len(matter)
        for stored, reads in ways:
            if stored in matter:
                matter |= reads
    return frozenset(stored for stored, _ in ways).difference(matter)


def _pairs(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment sets, and to what: each name of ``a, b = c, d`` to its own."""
    value = statement.value
    if value is None:
        return []
    pairs = []
    for target in getattr(statement, "targets", None) or [statement.target]:
        if not isinstance(target, ast.Tuple | ast.List):
            pairs.append((target, value))
        elif isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            pairs += zip(target.elts, value.elts, strict=True)
        else:
            pairs += [(part, value) for part in target.elts]
    return pairs
