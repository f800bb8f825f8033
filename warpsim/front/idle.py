"""Variables that a loop changes and that steer nothing in it, such as a count of its passes."""

from __future__ import annotations

import ast

from warpsim.front.trees import walk

#: What reads memory or calls something: what goes in there matters.
_REACHES_OUT = ast.Call | ast.Subscript


def idle_variables(loop: ast.While) -> frozenset[str]:
    """Names that a loop sets, and on which no condition, store, call or address in it depends.

    A loop in which nothing else changes any more goes on for ever.
    """
    ways: list[tuple[set[str], set[str]]] = []  # names that are set, names that they are made of
    matter = _names(loop.test, ast.Load)
    for statement in (node for part in loop.body for node in walk(part)):
        if isinstance(statement, ast.If | ast.While):
            matter |= _names(statement.test, ast.Load)
        elif isinstance(statement, ast.For):
            matter |= _names(statement.iter, ast.Load)
        elif isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = getattr(statement, "targets", None) or [statement.target]
            parts = [one for t in targets for one in (t.elts if isinstance(t, ast.Tuple) else [t])]
            reads = _names(statement, ast.Load)
            if isinstance(statement, ast.AugAssign):
                reads |= _names(statement.target, ast.Store)
            reach = statement.value is not None and any(
                isinstance(node, _REACHES_OUT) for node in walk(statement.value)
            )
            if reach or not all(isinstance(part, ast.Name) for part in parts):
                matter |= _names(statement, ast.Load)
            else:
                ways.append(({part.id for part in parts}, reads))
        elif isinstance(statement, ast.stmt) and not isinstance(statement, ast.Pass):
            matter |= _names(statement, ast.Load)
    before = -1
    while before != len(matter):
        before = len(matter)
        for stored, reads in ways:
            if stored & matter:
                matter |= reads
    return frozenset(set().union(*(stored for stored, _ in ways)) - matter)


def _names(node: ast.AST, context: type) -> set[str]:
    return {
        part.id
        for part in walk(node)
        if isinstance(part, ast.Name) and isinstance(part.ctx, context)
    }
