"""Conditions that types and constants decide, as Numba decides them before it types a kernel."""

import ast
from enum import EnumType
from types import ModuleType
from typing import Any

from numba import types

from warpsim.core.number_types import SCALARS
from warpsim.front.names import MISSING, folded, names_no_value
from warpsim.front.nodes import COMPARE, names
from warpsim.front.numba_typing import of_value, plain, unify

_DECIDERS = {
    **COMPARE, ast.Is: lambda a, b: a is b or (type(a) is type(b) and a == b),
    ast.IsNot: lambda a, b: not (a is b or (type(a) is type(b) and a == b)),
    ast.In: lambda a, b: a in b,
}  # fmt: skip


#: Types of what may be a condition.
TRUE_OR_FALSE = (
    types.Number | types.Boolean | types.BaseTuple | types.StringLiteral | types.NoneType
)


class Decisions:
    """``is``, and branches of which one side is left out."""

    def condition(self, node: ast.expr) -> bool | None:
        """Type a condition; its truth where constants decide it, as in Numba's dead_branch_prune.

        Python's bytecode has a branch for each part of ``and``, ``or``, ``not`` and ``a if b else
        c``: they need no common type, and what a decided branch leaves out is never typed.
        """
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            truth = self.condition(node.operand)
            truth = None if truth is None else not truth
        elif isinstance(node, ast.BoolOp):
            ends, truths = isinstance(node.op, ast.Or), []
            for value in node.values:
                truths.append(self.condition(value))
                if truths[-1] is ends:
                    break
            self.typing.dead.difference_update(node.values)
            self.typing.dead.update(node.values[len(truths) :])
            truth = ends if truths[-1] is ends else None if None in truths else not ends
        elif isinstance(node, ast.IfExp):
            found = {self.condition(arm) for arm in self.arms(node)}
            truth = found.pop() if len(found) == 1 else None
        else:
            truth = self.decided(node)
            if truth is None:
                self.check_condition(node, self.expression(node))
            return truth
        self.typing.of[node] = types.boolean
        return truth

    def note(self, node: ast.AST, truth: bool | None) -> bool | None:
        """Remember the truth of what constants decide."""
        self.typing.known.pop(node, None)
        if truth is not None:
            self.typing.known[node] = truth
        return truth

    def arms(self, node: ast.IfExp) -> list[ast.expr]:
        """The arms of ``a if b else c`` that its condition leaves."""
        truth = self.note(node, self.condition(node.test))
        if truth is None:
            return [node.body, node.orelse]
        return [node.body if truth else node.orelse]

    def decided(self, node: ast.expr) -> bool | None:
        """The truth of a constant or of a comparison of two; None of all else."""
        compare = bool
        if isinstance(node, ast.Compare):
            compare = _DECIDERS.get(type(node.ops[0]))
            values = [self.constant(side) for side in (node.left, *node.comparators)]
        else:
            whole = folded(node)
            values = [whole if isinstance(whole, tuple) else self.constant(node)]
        unknown = compare is None or any(value is MISSING for value in values)
        if unknown or compare is bool and not isinstance(of_value(*values), TRUE_OR_FALSE):
            return self.note(node, None)
        try:
            return self.note(node, bool(compare(*values)))
        except (TypeError, ValueError):  # the constants do not compare: Numba leaves the branch
            return self.note(node, None)

    def constant(self, node: ast.expr) -> Any:
        """A literal, a global, a variable that is one here, ``x.ndim`` and ``len(a tuple)`` of an
        argument; else MISSING, as for tuples of literals: these are made in the kernel."""
        if isinstance(node, ast.Name) and node.id in self.source.assigned:
            made = self.environment.get((node.id, "made of"))
            return MISSING if made is None else self.constant(made)
        if isinstance(node, ast.Name):
            value = self.source.static(node)
            return value if names_no_value(value) or of_value(value) is not None else MISSING
        if isinstance(node, ast.Lambda):
            return node if self._captures_nothing(node) else MISSING
        given = node.value if isinstance(node, ast.Attribute) and node.attr == "ndim" else None
        if isinstance(node, ast.Call) and self.source.static(node.func) is len and node.args:
            given = node.args[0]
        if isinstance(given, ast.Name) and (given.id, "given") in self.environment:
            kind = self.environment[given.id]
            if isinstance(kind, types.BaseTuple if isinstance(node, ast.Call) else types.Array):
                return len(kind) if isinstance(node, ast.Call) else kind.ndim
        value = folded(node)
        return MISSING if isinstance(value, tuple) else value

    def text(self, node: ast.expr) -> str | None:
        """A literal text, by itself or under a name that holds it here; else None."""
        value = self.source.static(node)
        if isinstance(node, ast.Name) and value is MISSING:
            value = self.environment.get((node.id,))
        return value if isinstance(value, str) else None

    def literal(self, node: ast.expr) -> Any:
        """An integer, or a tuple of them, that Numba's typing knows as a literal; else MISSING.

        These are what Python's compiler folds, names that hold such on every way, integers from
        outside, ``x.ndim``, and tuples and elements of them; but no arithmetic with names.
        """
        value = folded(node)
        if value is not MISSING:
            pass
        elif isinstance(node, ast.Name) and node.id in self.source.assigned:
            value = self.environment.get((node.id,), MISSING)
        elif isinstance(node, ast.Tuple):
            parts = tuple(self.literal(element) for element in node.elts)
            value = MISSING if MISSING in parts else parts
        elif isinstance(node, ast.IfExp):
            ways = (node.body, node.orelse)
            decided = self.typing.known.get(node)
            if decided is not None:
                ways = (ways[not decided],)
            values = {self.literal(way) for way in ways}
            value = values.pop() if len(values) == 1 else MISSING
        elif isinstance(node, ast.Subscript):
            value = self._literal_item(node)
        elif isinstance(node, ast.Call) or getattr(node, "attr", None) == "ndim":
            value = self.constant(node)
        elif isinstance(node, ast.Name):
            value = self.source.static(node)
        elif isinstance(node, ast.Attribute):
            whole = isinstance(self.source.static(node.value), ModuleType | EnumType)
            value = self.source.static(node) if whole else MISSING
        return value if _whole(value) else MISSING

    def literal_index(self, node: ast.expr) -> Any:
        """An index or a slice of a tuple that is known when it is compiled; else MISSING."""
        if not isinstance(node, ast.Slice):
            value = self.literal(node)
            return MISSING if isinstance(value, tuple) else value
        limits = [None, None, None]
        for number, part in enumerate((node.lower, node.upper, node.step)):
            value = None if part is None else self.source.static(part)
            limits[number] = value if isinstance(value, bool | None) else self.literal(part)
        return MISSING if MISSING in limits else slice(*limits)

    def _literal_item(self, node: ast.Subscript) -> Any:
        values, number = self.literal(node.value), self.literal_index(node.slice)
        if not isinstance(values, tuple) or number is MISSING:
            return MISSING
        try:
            return values[number]
        except (IndexError, ValueError):
            return MISSING

    def pairs(self, node: ast.Compare, left: types.Type, right: types.Type) -> None:
        """Two tuples that are compared: so are their elements, as far as the shorter one goes."""
        for one, other in zip(left, right, strict=False):
            if isinstance(one, types.BaseTuple) and isinstance(other, types.BaseTuple):
                self.pairs(node, one, other)
                continue
            for kind in (one, other):
                if not isinstance(kind, SCALARS):
                    raise self.source.unsupported(node, f"a comparison of tuples with {kind}")
            if unify(plain(one), plain(other)) is None:
                raise self.source.refused(node, f"{one} and {other} cannot be compared")

    def asks_for_a_function(self, node: ast.Compare) -> bool:
        """``function is None``: functions, types and modules are compared, but have no value."""
        sides = [node.left, *node.comparators]
        values = [self.source.static(side) for side in sides]
        named = [
            self._captures_nothing(side) if isinstance(side, ast.Lambda) else names_no_value(value)
            for side, value in zip(sides, values, strict=True)
        ]
        same = isinstance(node.ops[0], ast.Is | ast.IsNot)
        nothing = isinstance(node.ops[0], ast.Eq | ast.NotEq) and any(v is None for v in values)
        if not any(named) or not (same or nothing):
            return False
        for side, one in zip(sides, named, strict=True):
            if not one:
                self.expression(side)
        equal = values[0] is values[1] and values[0] is not MISSING
        self.note(node, equal is isinstance(node.ops[0], ast.Is | ast.Eq))
        return True

    def _captures_nothing(self, node: ast.Lambda) -> bool:
        own = {argument.arg for argument in node.args.args}
        return not ({*names(node.body, ast.Load)} - own) & self.source.assigned

    def identity(self, node: ast.Compare, left: types.Type) -> types.Type:
        """``is``: None by its type; numbers of one type by their value, as in Numba."""
        right = self.expression(node.comparators[0])
        left, right = plain(left), plain(right)
        if isinstance(left, types.Array | types.BaseTuple | types.Record) and left == right:
            raise self.source.unsupported(node, f"is between values of type {left}")
        self.typing.operands[node] = (left, right)
        maybe = isinstance(left, types.Optional), isinstance(right, types.Optional)
        known = None
        if any(maybe):
            if not isinstance(right if maybe[0] else left, types.NoneType):
                raise self.source.unsupported(node, f"is between values of type {left}, {right}")
        elif left != right or isinstance(left, types.NoneType):
            known = (left == right) is isinstance(node.ops[0], ast.Is)
        self.note(node, known)
        return types.boolean


def _whole(value: Any) -> bool:
    return type(value) is int or (isinstance(value, tuple) and all(type(n) is int for n in value))
