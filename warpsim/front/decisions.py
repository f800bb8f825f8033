"""Conditions that types and constants decide, as Numba decides them before it types a kernel."""

from __future__ import annotations

import ast
import operator
from enum import EnumType
from types import ModuleType
from typing import Any

from numba import types

from warpsim.front.dates import SCALARS
from warpsim.front.names import MISSING, Source, folded
from warpsim.front.oracle import plain, unify

COMPARE = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_DECIDERS = {
    **COMPARE, ast.Is: lambda a, b: a is b or (a is not None and a == b),
    ast.IsNot: lambda a, b: not (a is b or (a is not None and a == b)),
}  # fmt: skip


class Decisions:
    """``is``, and branches of which one side is left out."""

    source: Source
    typing: Any
    environment: Any

    def decided(self, node: ast.expr) -> bool | None:
        """The truth of a condition that types and constants decide, as Numba decides it; else None.

        The side of a branch that it rules out is left out of the kernel, and never typed.
        """
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.decided(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            return self._decided_together(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _DECIDERS:
            sides = [self.constant(side) for side in (node.left, *node.comparators)]
            if MISSING not in sides:
                return bool(_DECIDERS[type(node.ops[0])](*sides))
            if isinstance(node.ops[0], ast.Is | ast.IsNot) or self.asks_for_a_function(node):
                self.see_Compare(node)
                return self.typing.known.get(node)
            return None
        value = self.constant(node)
        return bool(value) if isinstance(value, bool | int | float | str | None) else None

    def _decided_together(self, node: ast.BoolOp) -> bool | None:
        """``and``, ``or``: Python's bytecode has a branch for each part, and Numba decides each.

        One part decides all, unless a call before it would be left out.
        """
        ends = isinstance(node.op, ast.Or)
        open_ones = False
        for value in node.values:
            found = self.decided(value)
            if found is ends:
                return ends
            if found is None:
                if any(isinstance(part, ast.Call) for part in ast.walk(value)):
                    return None
                open_ones = True
        return None if open_ones else not ends

    def constant(self, node: ast.expr) -> Any:
        """A literal, a global, None, ``x.ndim`` or ``len(a tuple)``; MISSING for all else."""
        value = self.source.static(node)
        if value is not MISSING and not isinstance(node, ast.Name | ast.Constant | ast.UnaryOp):
            return MISSING
        if isinstance(value, bool | int | float | str | None):
            return value
        if isinstance(node, ast.Name) and node.id in self.source.assigned:
            kind = self.environment.get(node.id)
            return None if isinstance(kind, types.NoneType) else MISSING
        if isinstance(node, ast.Attribute) and node.attr == "ndim":
            if isinstance(node.value, ast.Name) and node.value.id in self.source.assigned:
                kind = self.expression(node.value)
                return kind.ndim if isinstance(kind, types.Array) else MISSING
        if isinstance(node, ast.Call) and self.source.static(node.func) is len and node.args:
            argument = node.args[0]
            if isinstance(argument, ast.Name) and argument.id in self.source.assigned:
                kind = self.expression(argument)
            elif isinstance(argument, ast.Attribute) and argument.attr == "shape":
                kind = self.expression(argument)
            else:
                return MISSING
            return len(kind) if isinstance(kind, types.BaseTuple) else MISSING
        return MISSING

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
            decided = self.decided(node.test)
            if decided is not None:
                ways = (ways[not decided],)
            values = {self.literal(way) for way in ways}
            value = values.pop() if len(values) == 1 else MISSING
        elif isinstance(node, ast.Subscript):
            value = self._literal_item(node)
        elif isinstance(node, ast.Attribute) and node.attr == "ndim":
            value = self.constant(node)
        elif isinstance(node, ast.Name):
            value = self.source.static(node)
        elif isinstance(node, ast.Attribute):
            outer = self.source.static(node.value)
            whole = isinstance(outer, ModuleType | EnumType)
            value = self.source.static(node) if whole else MISSING
        return value if _whole(value) else MISSING

    def _literal_item(self, node: ast.Subscript) -> Any:
        """An element or a slice of a tuple that is a literal."""
        values, index = self.literal(node.value), node.slice
        if isinstance(index, ast.Slice):
            limits = [
                None if part is None else self.literal(part)
                for part in (index.lower, index.upper, index.step)
            ]
            number = MISSING if MISSING in limits else slice(*limits)
        else:
            number = self.literal(index)
        if not isinstance(values, tuple) or number is MISSING or isinstance(number, tuple):
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
        """``function is None``, of a name from outside: Numba decides it before it types names."""
        sides = [self.source.static(side) for side in (node.left, *node.comparators)]
        if len(sides) != 2 or not any(map(callable, sides)):
            return False
        nothing, unknown = (any(side is one for side in sides) for one in (None, MISSING))
        if (
            not nothing
            or unknown
            or not isinstance(node.ops[0], ast.Is | ast.IsNot | ast.Eq | ast.NotEq)
        ):
            return False
        self.typing.known[node] = isinstance(node.ops[0], ast.IsNot | ast.NotEq)
        return True

    def identity(self, node: ast.Compare, left: types.Type) -> types.Type:
        """``is``: None by its type; numbers of one type by their value, as in Numba."""
        right = self.expression(node.comparators[0])
        left, right = plain(left), plain(right)
        if len(node.ops) > 1:
            raise self.source.unsupported(node, "a chain of comparisons with is")
        if isinstance(left, types.Array | types.BaseTuple | types.Record) and left == right:
            raise self.source.unsupported(node, f"is between values of type {left}")
        self.typing.operands[node] = ((left, right),)
        maybe = isinstance(left, types.Optional), isinstance(right, types.Optional)
        if any(maybe):
            if not isinstance(right if maybe[0] else left, types.NoneType):
                raise self.source.unsupported(node, f"is between values of type {left}, {right}")
            self.typing.known.pop(node, None)
        elif left != right or isinstance(left, types.NoneType):
            same = left == right
            self.typing.known[node] = same is isinstance(node.ops[0], ast.Is)
        else:
            self.typing.known.pop(node, None)
        return types.boolean


def _whole(value: Any) -> bool:
    """Is it an integer, or a tuple of such?"""
    return type(value) is int or (isinstance(value, tuple) and all(type(n) is int for n in value))
