"""Dataflow of a kernel's variables: three questions that its lane program is written by.

Which reads may come before the variable has a value, as under an `if`? These alone are looked at
while the kernel runs. Source of the rules: "definite assignment", chapter 16 of the Java Language
Specification.

Which assignments may simply overwrite, and which must keep the values of idle lanes, which may read
them later? Two need no such care: statements of the function's own suite (lanes that are idle there
have returned), and variables that a suite sets before it reads them and that nobody reads outside.

Which variables does a loop change that steer nothing in it, such as a count of its passes?
"""

import ast
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numba import types

from warpsim.front import nodes
from warpsim.front.names import Source
from warpsim.front.nodes import names, walk
from warpsim.front.numba_typing import dtype_of, plain

# ---------------------------------------------------------------------- reads
#: What is set where control never comes: everything.
_Names = frozenset[str] | None


class DoubtfulReads:
    """Code of the reads of variables, for the emitter of a lane program."""

    def find_doubtful_reads(self) -> None:
        source, known = self.source, self.typing.known
        told, decided = source.told.setdefault(_Walk, {}), frozenset(known.items())
        if decided not in told:
            ways = _Walk(source.assigned, known)
            ways.suite(source.tree.body, frozenset(source.arguments))
            told[decided] = ways.doubtful
        self.doubtful = told[decided]  # reads that some way reaches before any assignment
        self.watched_names = sorted({node.id for node in self.doubtful}) if self.traced else []

    def read(self, node: ast.Name, kind: types.Type) -> str:
        """Code of a variable's value, which some threads may not have set."""
        variable = self.variable(node.id, kind)
        if node not in self.doubtful:
            return variable
        if not self.traced:
            return self.operation("given", variable, repr(_dtypes(kind)))
        named = [one for one in self.source.nodes if getattr(one, "id", None) == node.id]
        sets = [self.source.line(one) for one in named if isinstance(one.ctx, ast.Store)]
        site = self.site(node, node.id)
        was_set, dtypes = f"_s_{node.id}", repr(_dtypes(kind))
        return self.operation("maybe", variable, was_set, dtypes, tuple(dict.fromkeys(sets)), site)

    def note_set(self, name: str) -> None:
        """Remember who has set a variable that some threads may read without."""
        if name in self.watched_names:
            self.line(f"_s_{name} = {self.operation('now_set', f'_s_{name}')}")


def _dtypes(kind: types.Type) -> Any:
    """The dtype of a variable by name; of a tuple a tuple; None for what is no number."""
    kind = plain(kind)
    if isinstance(kind, types.Optional):
        return "bool", _dtypes(kind.type)
    if isinstance(kind, types.BaseTuple):
        return tuple(_dtypes(part) for part in kind)
    return dtype_of(kind).name if isinstance(kind, types.Number | types.Boolean) else None


class _Walk:
    """Follows all ways through a function with the names that surely have a value."""

    def __init__(self, assigned: frozenset[str], known: Mapping[ast.AST, bool]):
        self.assigned, self.known = assigned, known
        self.doubtful: set[ast.Name] = set()
        self.breaks: list[_Names] = []

    def suite(self, body: list[ast.stmt], names: _Names) -> _Names:
        for node in body:
            names = getattr(self, f"_{type(node).__name__}", self._other)(node, names)
        return names

    def _reads(self, node: ast.AST | None, names: _Names) -> None:
        for part in walk(node) if node is not None and names is not None else ():
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
                self._read(part, names)

    def _read(self, node: ast.Name, names: _Names) -> None:
        if names is not None and node.id in self.assigned and node.id not in names:
            self.doubtful.add(node)

    def _other(self, node: ast.stmt, names: _Names) -> _Names:
        """A statement that reads first and then sets its names."""
        self._reads(node, names)
        return self._set(node, names)

    @staticmethod
    def _set(node: ast.AST, names: _Names) -> _Names:
        return None if names is None else names.union(nodes.names(node, ast.Store))

    def _AugAssign(self, node: ast.AugAssign, names: _Names) -> _Names:
        self._reads(node, names)
        if isinstance(node.target, ast.Name):
            self._read(node.target, names)
        return self._set(node.target, names)

    def _If(self, node: ast.If, names: _Names) -> _Names:
        if node in self.known:
            return self.suite(node.body if self.known[node] else node.orelse, names)
        self._reads(node.test, names)
        return _both(self.suite(node.body, names), self.suite(node.orelse, names))

    def _For(self, node: ast.For, names: _Names) -> _Names:
        self._reads(node.iter, names)
        self.breaks.append(None)
        self.suite(node.body, self._set(node.target, names))
        return self._after(node, names)

    def _While(self, node: ast.While, names: _Names) -> _Names:
        self._reads(node.test, names)
        if self.known.get(node) is False:
            return self.suite(node.orelse, names)
        self.breaks.append(None)
        self.suite(node.body, names)
        return self._after(node, None if node in self.known else names)

    def _after(self, node: ast.For | ast.While, names: _Names) -> _Names:
        return _both(self.suite(node.orelse, names), self.breaks.pop())

    def _Break(self, node: ast.Break, names: _Names) -> _Names:
        if self.breaks:
            self.breaks[-1] = _both(self.breaks[-1], names)
        return None

    def _Return(self, node: ast.Return, names: _Names) -> _Names:
        self._reads(node, names)
        return None

    _Raise = _Continue = _Return


def _both(first: _Names, second: _Names) -> _Names:
    """What is set on both of two ways."""
    if first is None:
        return second
    return first if second is None else first & second


# ---------------------------------------------------------------------- assignments
@dataclass
class _Occurrence:
    node: ast.Name
    store: bool
    suites: tuple[int, ...]  # from the function's suite to the innermost one


class Scopes:
    """Knows, for each assignment to a name, whether it may overwrite."""

    def __init__(self, source: Source):
        self.found: dict[str, list[_Occurrence]] = {}
        self.suites = 0
        self._suite(source.tree.body, ())
        self.plain: set[ast.Name] = set()  # the assignments that may
        self.others: set[str] = set()  # names with one that may not
        for name, occurrences in self.found.items():
            plain = self._plain(occurrences, name in source.arguments)
            self.plain |= plain
            self.others.update(name for o in occurrences if o.store and o.node not in plain)

    def is_plain(self, target: ast.Name) -> bool:
        return target in self.plain

    def always_plain(self, name: str) -> bool:
        return name not in self.others

    # ------------------------------------------------------------------ collecting
    def _suite(self, body: list[ast.stmt], outer: tuple[int, ...], header=None) -> None:
        path = (*outer, self.suites)
        self.suites += 1
        if header is not None:
            self._names(header, path)
        for statement in body:
            self._statement(statement, path)

    def _statement(self, node: ast.stmt, path: tuple[int, ...]) -> None:
        if isinstance(node, ast.If | ast.While | ast.For):
            loop = isinstance(node, ast.For)
            self._names(node.iter if loop else node.test, path)
            self._suite(node.body, path, node.target if loop else None)
            self._suite(node.orelse, path)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            self._names(node.value, path)
            if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._add(node.target, False, path)
            for target in getattr(node, "targets", None) or [node.target]:
                self._names(target, path)
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


# ---------------------------------------------------------------------- loops
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
