"""What a kernel says in other words: `match`, functions of ``operator``, arguments by their names.

Done once, when a kernel is read, on its syntax tree; what comes out is typed and translated as if
it had been written so.
"""

import ast
import inspect
import operator
from copy import deepcopy
from dataclasses import replace
from numbers import Integral
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from warpsim.front.names import KERNEL_NAMES, MISSING, KernelName, Source, complete, folded
from warpsim.front.nodes import BINARY, COMPARE, UNARY, Once, walk

#: What functions of ``operator`` say in words: those of `BINARY` change their argument, too.
_BINARY = {
    function: kind
    for kind, plain in BINARY.items()
    for function in (plain, getattr(operator, f"i{plain.__name__.strip('_')}"))
}
_COMPARE = {function: kind for kind, function in COMPARE.items()} | {
    operator.is_: ast.Is, operator.is_not: ast.IsNot
}  # fmt: skip
_UNARY = {function: kind for kind, function in UNARY.items()} | {
    operator.inv: ast.Invert, operator.not_: ast.Not
}  # fmt: skip
_OPPOSITE = {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}


_PATTERNS = (
    "Numba takes patterns of values, |, names and _; not of sequences, mappings or classes: "
    "compare the parts with if"
)


def without_match(source: Source) -> Source:
    """A kernel whose ``match`` is the chain of ``if`` that Python's compiler makes of it.

    Numba's bytecode has the comparisons of patterns, and none of sequences, mappings and classes.
    """
    if not any(isinstance(node, ast.Match) for node in walk(source.tree)):
        return source
    return complete(replace(source, tree=_Matches(source).visit(source.tree), told={}))


class _Matches(ast.NodeTransformer):
    def __init__(self, source: Source):
        self.source = source

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        self.generic_visit(node)
        subject, first = node.subject, []
        if not isinstance(subject, ast.Name | ast.Constant):
            name = f"subject_{node.lineno}"
            first = [ast.Assign([ast.Name(name, ast.Store())], subject)]
            subject = ast.Name(name, ast.Load())
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            rest = self._case(case, subject, rest)
        made = [*first, *rest] or [ast.Pass()]
        return [ast.fix_missing_locations(ast.copy_location(one, node)) for one in made]

    def _case(self, case: ast.match_case, subject: ast.expr, rest: list) -> list[ast.stmt]:
        names: list[str] = []
        test = self._test(case.pattern, subject, names) or ast.Constant(True)
        taken = [ast.Assign([ast.Name(name, ast.Store())], deepcopy(subject)) for name in names]
        if case.guard is None:
            return [_if(test, [*taken, *case.body], rest, case)]
        both = ast.BoolOp(ast.And(), [test, case.guard])
        before = [_if(deepcopy(test), taken, [], case)] if taken else []
        return [*before, _if(both, case.body, rest, case)]

    def _test(self, pattern: ast.pattern, subject: ast.expr, names: list[str]) -> ast.expr | None:
        """The condition under which a pattern fits; None for always. Adds the names it sets."""
        if isinstance(pattern, ast.MatchValue):
            return ast.Compare(deepcopy(subject), [ast.Eq()], [pattern.value])
        if isinstance(pattern, ast.MatchSingleton):
            return ast.Compare(deepcopy(subject), [ast.Is()], [ast.Constant(pattern.value)])
        if isinstance(pattern, ast.MatchAs):
            inner = pattern.pattern and self._test(pattern.pattern, subject, names)
            names += [pattern.name] if pattern.name else []
            return inner
        if isinstance(pattern, ast.MatchOr):
            tests = [self._test(one, subject, names) for one in pattern.patterns]
            return None if None in tests else ast.BoolOp(ast.Or(), tests)
        raise self.source.refused(pattern, f"{ast.unparse(pattern)}: {_PATTERNS}")


def _if(test: ast.expr, body: list, rest: list, case: ast.match_case) -> ast.stmt:
    return ast.copy_location(ast.If(test, body, rest), case.pattern)


def rewrite(source: Source) -> None:
    """Spell out a kernel's calls, in place."""
    source.tree.body = [_Rewriter(source).visit(statement) for statement in source.tree.body]


class _Rewriter(ast.NodeTransformer):
    def __init__(self, source: Source):
        self.source = source

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        function = self.source.static(node.func)
        if function is MISSING:
            return node
        if function in (np.size, np.shape) and len(node.args) == 1 and not node.keywords:
            made = ast.Attribute(node.args[0], function.__name__, ast.Load())
            return ast.copy_location(made, node)
        if function is print:
            node.args = [self._axes(argument) for argument in node.args]
            return node
        if isinstance(function, BuiltinFunctionType):
            return ast.copy_location(_operation(function, node), node)
        if hasattr(function, "py_func"):
            all_by_position(self.source, function, node)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """``n: int = 1`` as ``n = 1``: Python does not look at what a function's variable is."""
        made = ast.Assign([node.target], node.value) if node.value else ast.Pass()
        return self.visit(ast.copy_location(made, node))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """``not a in b`` as ``a not in b``, as Python's compiler has it."""
        self.generic_visit(node)
        asked = node.operand
        if not isinstance(node.op, ast.Not) or not isinstance(asked, ast.Compare):
            return node
        opposite = _OPPOSITE.get(type(asked.ops[0]))
        if opposite is None:
            return node
        return ast.copy_location(ast.Compare(asked.left, [opposite()], asked.comparators), node)

    def visit_For(self, node: ast.For) -> ast.stmt:
        """``for j in [1, 2, 4]`` as over the tuple: nobody else sees the list."""
        self.generic_visit(node)
        if isinstance(node.iter, ast.List) and node.iter.elts:
            node.iter = ast.copy_location(ast.Tuple(node.iter.elts, ast.Load()), node.iter)
        return node

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        """``global N`` of a name that is only read says nothing."""
        read = not self.source.assigned.intersection(node.names)
        return ast.copy_location(ast.Pass(), node) if read else node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """``True or x``, ``True and x``: Python's compiler leaves one of the two out."""
        self.generic_visit(node)
        values, node.values = node.values, []
        for value in values:
            same = isinstance(value, ast.BoolOp) and type(value.op) is type(node.op)
            once = any(isinstance(part, Once) for part in walk(value))
            node.values += value.values if same and not once else [value]
        while len(node.values) > 1 and folded(node.values[0]) is not MISSING:
            if bool(folded(node.values[0])) is isinstance(node.op, ast.Or):
                return node.values[0]
            del node.values[0]
        return node if len(node.values) > 1 else node.values[0]

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """``a < b < c`` as ``a < b and b < c``, of which ``b`` is evaluated once."""
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        left, parts = node.left, []
        for number, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            first = again = right
            impure = any(isinstance(n, ast.Call | ast.Subscript | ast.BinOp) for n in walk(right))
            if impure and folded(right) is MISSING and number < len(node.ops) - 1:
                place = node.lineno, node.col_offset, node.end_col_offset, number
                first, again = (Once(right, place, begins) for begins in (True, False))
            parts.append(ast.copy_location(ast.Compare(left, [op], [first]), node))
            left = ast.copy_location(again, right)
        made = parts.pop()
        while parts:  # each inside the one before it, whose value it may read
            made = ast.copy_location(ast.BoolOp(ast.And(), [parts.pop(), made]), node)
        return made

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """``x[slice(1, n)]`` as ``x[1:n]``, and so a slice that has a name outside the kernel."""
        self.generic_visit(node)
        if isinstance(node.slice, ast.Tuple):
            node.slice.elts = [self._sliced(part) for part in node.slice.elts]
        else:
            node.slice = self._sliced(node.slice)
        return node

    def _sliced(self, part: ast.expr) -> ast.expr:
        if isinstance(part, ast.Call) and self.source.static(part.func) is slice:
            if 1 < len(part.args) < 4 and not part.keywords:
                return ast.copy_location(ast.Slice(*part.args), part)
        if not isinstance(part, ast.Name | ast.Attribute):
            return part
        known = self.source.static(part)
        if not isinstance(known, slice):
            return part
        limits = known.start, known.stop, known.step
        if not all(limit is None or isinstance(limit, Integral) for limit in limits):
            raise self.source.refused(part, f"{known!r}: the limits of a slice are whole numbers")
        found = [None if limit is None else ast.Constant(int(limit)) for limit in limits]
        return ast.fix_missing_locations(ast.copy_location(ast.Slice(*found), part))

    def _axes(self, node: ast.expr) -> ast.expr:
        """``cuda.threadIdx`` and its like as a whole: the tuple of its axes."""
        value = self.source.static(node)
        if not isinstance(value, KernelName) or f"{value.path}.x" not in KERNEL_NAMES:
            return node
        parts = [ast.Attribute(node, axis, ast.Load()) for axis in "xyz"]
        made = ast.Tuple([ast.copy_location(part, node) for part in parts], ast.Load())
        return ast.copy_location(made, node)


def _operation(function: Any, node: ast.Call) -> ast.expr:
    """``operator.add(a, b)`` as ``a + b``; any other call as it is."""
    if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
        return node
    if len(node.args) == 2:
        left, right = node.args
        if function in _BINARY:
            return ast.BinOp(left, _BINARY[function](), right)
        if function in _COMPARE:
            return ast.Compare(left, [_COMPARE[function]()], [right])
        if function is operator.getitem:
            return ast.Subscript(left, right, ast.Load())
    if len(node.args) == 1 and function in _UNARY:
        return ast.UnaryOp(_UNARY[function](), node.args[0])
    return node


def all_by_position(source: Source, function: Any, node: ast.Call) -> None:
    """Arguments of a device function that are named or left out take their places."""
    function = getattr(function, "py_func", function)
    parameters = inspect.signature(function).parameters
    rest = next((p for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    if any(isinstance(argument, ast.Starred) for argument in node.args):
        if rest is not None:  # f(a, *t) of a function with a and *args: these are the tuple
            if len(node.args) != len(parameters) or not isinstance(node.args[-1], ast.Starred):
                raise source.unsupported(node, "* that spreads over the arguments before *args")
            node.args[-1] = node.args[-1].value
        return
    if not node.keywords and len(node.args) >= len(parameters) and rest is None:
        return
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    if None in named or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise source.unsupported(node, "a call with **")
    try:
        bound = inspect.signature(function).bind(*node.args, **named)
    except TypeError as error:
        if not node.keywords:
            return  # too few: said where the call is typed
        raise source.refused(node, f"{function.__name__}(): {error}") from None
    node.args = [
        bound.arguments[name]
        if name in bound.arguments
        else ast.copy_location(ast.Constant(parameter.default), node)
        for name, parameter in parameters.items()
        if parameter is not rest
    ]
    if rest is not None:
        given = ast.Tuple([*bound.arguments.get(rest.name, ())], ast.Load())
        node.args.append(ast.copy_location(given, node))
    node.keywords = []
