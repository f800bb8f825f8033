"""Dataflow of a kernel's variables: two questions that its lane program is written by.

Which assignments may simply overwrite, and which must keep the values of idle lanes, which may read
them later? Two need no such care: statements of the function's own suite (lanes that are idle there
have returned), and variables that a suite sets before it reads them and that nobody reads outside.

Which variables does a loop change that steer nothing in it, such as a count of its passes?
"""

import ast
from collections import Counter
from functools import lru_cache
from itertools import count

from warpsim.front.names import Source
from warpsim.front.nodes import names, walk

#: A name, whether it is set there, and its suites, from the function's own to the innermost one.
_Place = tuple[ast.Name, bool, tuple[int, ...]]


# ---------------------------------------------------------------------- assignments
class Scopes:
    """The assignments that may overwrite, and the names with others."""

    def __init__(self, source: Source):
        self._found: dict[str, list[_Place]] = {}
        self._numbers = count()
        self._suite(source.tree.body, ())
        self.plain: set[ast.Name] = set()
        for name, places in self._found.items():
            self.plain |= _plain(places, name in source.arguments)
        stores = (node for places in self._found.values() for node, store, _ in places if store)
        self.others = {node.id for node in stores if node not in self.plain}

    def _suite(self, body: list[ast.AST], outer: tuple[int, ...]) -> None:
        path = (*outer, next(self._numbers))
        for node in body:
            if isinstance(node, ast.If | ast.While | ast.For):
                loop = isinstance(node, ast.For)
                self._names(node.iter if loop else node.test, path)
                self._suite([node.target, *node.body] if loop else node.body, path)
                self._suite(node.orelse, path)
            elif isinstance(node, ast.Assign):
                for part in (node.value, *node.targets):
                    self._names(part, path)
            elif isinstance(node, ast.AugAssign):
                self._names(node.value, path)
                if isinstance(node.target, ast.Name):
                    self._found.setdefault(node.target.id, []).append((node.target, False, path))
                self._names(node.target, path)
            else:
                self._names(node, path)

    def _names(self, node: ast.AST, path: tuple[int, ...]) -> None:
        for child in walk(node):
            if isinstance(child, ast.Name):
                place = child, isinstance(child.ctx, ast.Store), path
                self._found.setdefault(child.id, []).append(place)


def _plain(places: list[_Place], argument: bool) -> set[ast.Name]:
    top = {node for node, store, suites in places if store and len(suites) == 1}
    first: dict[int, _Place] = {}
    for place in places:
        for suite in place[2]:
            first.setdefault(suite, place)
    begins = {suite for suite, (_, store, suites) in first.items() if store and suites[-1] == suite}
    plain = set()
    for node, store, suites in places:
        own = [suite for suite in suites if suite in begins]
        if not own or argument:
            return top  # somebody reads it outside the suites that set it first
        if store and suites[-1] == own[0]:
            plain.add(node)
    return plain | top


# ---------------------------------------------------------------------- loops
@lru_cache(maxsize=1 << 10)
def idle_variables(loop: ast.While) -> frozenset[str]:
    """Names that a loop sets, and on which no condition, store, call or address in it depends.

    A loop in which nothing else changes any more goes on for ever.
    """
    ways: list[tuple[str, Counter[str]]] = []  # a name that is set, those that it is made of
    matter = names(loop.test, ast.Load)
    for node in (node for part in loop.body for node in walk(part)):
        if isinstance(node, ast.If | ast.While | ast.For):
            matter |= names(node.iter if isinstance(node, ast.For) else node.test, ast.Load)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            for target, value in _pairs(node):
                reads = names(value, ast.Load) | names(target, ast.Load)
                if isinstance(node, ast.AugAssign):
                    reads |= names(target, ast.Store)
                # what reads memory or calls something: what goes in there matters
                if any(isinstance(part, ast.Call | ast.Subscript) for part in walk(value)):
                    matter |= reads
                if isinstance(target, ast.Name):
                    ways.append((target.id, reads))
                else:
                    matter |= reads
        elif isinstance(node, ast.stmt) and not isinstance(node, ast.Pass):
            matter |= names(node, ast.Load)
    before = -1
    while before != len(matter):
        before = len(matter)
        for stored, reads in ways:
            if stored in matter:
                matter |= reads
    return frozenset(stored for stored, _ in ways).difference(matter)


def _pairs(statement: ast.Assign | ast.AugAssign) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment sets, and to what: each name of ``a, b = c, d`` to its own."""
    pairs, value = [], statement.value
    for target in getattr(statement, "targets", None) or [statement.target]:
        parts = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        values = value.elts if isinstance(value, ast.Tuple) else ()
        pairs += zip(parts, values if len(values) == len(parts) else [value] * len(parts))
    return pairs
