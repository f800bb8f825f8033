"""Which assignments may simply overwrite, and which must keep the values of idle lanes.

An assignment under a mask must keep the old value of the lanes that are not active, because they
may read it later. Two common cases need no such care, and the lane program reads better and runs
faster for knowing them: statements of the function's own suite (lanes that are idle there have
returned), and variables that a suite sets before it reads them and that nobody reads outside.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from warpsim.front.names import Source
from warpsim.front.nodes import walk


@dataclass
class _Occurrence:
    node: ast.Name
    store: bool
    suites: tuple[int, ...]  # from the function's suite to the innermost one


class Scopes:
    """Knows, for each assignment to a name, whether it may overwrite."""

    def __init__(self, source: Source, merged: frozenset[str] = frozenset()):
        self.merged = merged
        self.found: dict[str, list[_Occurrence]] = {}
        self.suites = 0
        self._suite(source.tree.body, ())
        self.plain: set[ast.Name] = set()
        self._always: dict[str, bool] = {}
        for name, occurrences in self.found.items():
            plain = self._plain(occurrences, name in source.arguments)
            self.plain |= plain
            stores = {o.node for o in occurrences if o.store}
            self._always[name] = stores <= plain and name not in merged

    def is_plain(self, target: ast.Name) -> bool:
        return target in self.plain

    def always_plain(self, name: str) -> bool:
        return self._always.get(name, name not in self.merged)

    # ------------------------------------------------------------------ collecting
    def _suite(self, body: list[ast.stmt], outer: tuple[int, ...], header=None) -> None:
        path = (*outer, self.suites)
        self.suites += 1
        if header is not None:
            self._names(header, path)
        for statement in body:
            self._statement(statement, path)

    def _statement(self, node: ast.stmt, path: tuple[int, ...]) -> None:
        if isinstance(node, ast.If):
            self._names(node.test, path)
            self._suite(node.body, path)
            self._suite(node.orelse, path)
        elif isinstance(node, ast.While):
            self._names(node.test, path)
            self._suite(node.body, path)
            self._suite(node.orelse, path)
        elif isinstance(node, ast.For):
            self._names(node.iter, path)
            self._suite(node.body, path, node.target)
            self._suite(node.orelse, path)
        elif isinstance(node, ast.Assign):
            self._names(node.value, path)
            for target in node.targets:
                self._names(target, path)
        elif isinstance(node, ast.AugAssign):
            self._names(node.value, path)
            if isinstance(node.target, ast.Name):
                self._add(node.target, False, path)
            self._names(node.target, path)
        else:
            self._names(node, path)

    def _names(self, node: ast.AST, path: tuple[int, ...]) -> None:
        for child in walk(node):
            if isinstance(child, ast.Name):
                self._add(child, isinstance(child.ctx, ast.Store), path)

    def _add(self, node: ast.Name, store: bool, path: tuple[int, ...]) -> None:
        self.found.setdefault(node.id, []).append(_Occurrence(node, store, path))

    # ------------------------------------------------------------------ deciding
    @staticmethod
    def _plain(occurrences: list[_Occurrence], argument: bool) -> set[ast.Name]:
        top = {o.node for o in occurrences if o.store and len(o.suites) == 1}
        first: dict[int, _Occurrence] = {}
        for occurrence in occurrences:
            for suite in occurrence.suites:
                first.setdefault(suite, occurrence)
        begins = {s for s, o in first.items() if o.store and o.suites[-1] == s}
        plain = set()
        for occurrence in occurrences:
            own = [suite for suite in occurrence.suites if suite in begins]
            if not own or argument:
                return top  # somebody reads it outside the suites that set it first
            if occurrence.store and occurrence.suites[-1] == own[0]:
                plain.add(occurrence.node)
        return plain | top
