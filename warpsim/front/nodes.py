"""Nodes of a syntax tree, as ``ast.walk`` gives them, sooner: trees are asked often."""

import ast
import operator
from collections import Counter
from typing import Any

#: Fields that hold no node that anybody asks for: names, numbers, and which operator it is.
_SKIPPED = set("id attr arg asname names module kind kwd_attrs type_comment ctx op ops".split())
#: The functions of ``operator`` that do what a node says.
BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
COMPARE = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


class Once(ast.expr):
    """An expression whose value several places of a call share: the ``first`` evaluates it."""

    _fields = ("value",)

    def __init__(self, value: Any = None, place: tuple[int, ...] = (), first: bool = True):
        super().__init__()
        self.value, self.place, self.first = value, place, first


class _Parts(dict):
    """For each kind of node the fields in which others may stand."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        fields = () if kind is ast.Constant else kind._fields
        found = self[kind] = tuple(name for name in fields if name not in _SKIPPED)
        return found


_PARTS = _Parts()


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all nodes below it but operators and contexts, those nearer to it first."""
    nodes = [node]
    for node in nodes:
        for name in _PARTS[type(node)]:
            value = getattr(node, name, None)
            if type(value) is list:
                nodes += filter(None, value)
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


def names(node: ast.AST, context: type[ast.expr_context]) -> Counter[str]:
    """How often each name is read, or set, in a tree."""
    found = (part for part in walk(node) if isinstance(part, ast.Name))
    return Counter(part.id for part in found if isinstance(part.ctx, context))
