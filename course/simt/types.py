"""Static types of a kernel's variables and expressions, by Numba's own rules.

Numba types a variable once for each of its *versions*: every assignment makes a new one, and where
control flow joins, the versions that meet are unified. The same is done here on the syntax tree:
types flow with the statements, a loop is repeated until its types stand still, and where two
versions of different type meet, a conversion is noted for the edge.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import types
from numba.core.errors import TypingError

from course.simt import intrinsics
from course.simt.names import MISSING, KernelName, Source
from course.simt.oracle import of_dtype, of_value, plain, resolve, unify

BINARY = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
COMPARE = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert}
CASTS = {int, float, bool, complex}


@dataclass(frozen=True)
class Conflict:
    """A variable whose versions have no common type; an error only where it is read."""

    kinds: tuple[types.Type, ...]


#: The variables that have a value at some point, each with the type of that version.
Environment = dict[str, Any]


@dataclass
class Typing:
    """What is known of one kernel for one set of argument types."""

    source: Source
    arguments: tuple[types.Type, ...]
    result: types.Type = types.none
    of: dict[ast.AST, types.Type] = field(default_factory=dict)
    operands: dict[ast.AST, tuple[types.Type, ...]] = field(default_factory=dict)
    callees: dict[ast.AST, Any] = field(default_factory=dict)
    targets: dict[ast.AST, types.Type] = field(default_factory=dict)
    edges: dict[tuple[str, ast.AST], list[tuple[str, types.Type, types.Type]]] = field(
        default_factory=dict
    )


class Typer:
    """Types one function. ``callee(value, types)`` gives the typing of a device function."""

    def __init__(self, source: Source, arguments: tuple[types.Type, ...], callee: Callable):
        self.source = source
        self.callee = callee
        self.typing = Typing(source, arguments)
        self.environment: Environment | None = dict(zip(source.arguments, arguments, strict=True))
        self.loops: list[dict[str, list[tuple[ast.AST, Environment]]]] = []

    def run(self) -> Typing:
        self.block(self.source.tree.body)
        return self.typing

    # ------------------------------------------------------------------ joins
    def join(self, incoming: list[tuple[tuple[str, ast.AST], Environment | None]]):
        """The environment where control flow meets; notes the conversions of each edge."""
        alive = [(edge, env) for edge, env in incoming if env is not None]
        if not alive:
            return None
        joined: Environment = {}
        for name in {name: None for _, env in alive for name in env}:
            kinds = list(dict.fromkeys(env[name] for _, env in alive if name in env))
            joined[name] = kinds[0] if len(kinds) == 1 else self._unify(kinds)
        for edge, env in alive:
            self.typing.edges[edge] = [
                (name, kind, joined[name])
                for name, kind in env.items()
                if not isinstance(joined[name], Conflict) and kind != joined[name]
            ]
        return joined

    @staticmethod
    def _unify(kinds: list) -> Any:
        merged = kinds[0]
        for kind in kinds[1:]:
            if isinstance(merged, Conflict) or isinstance(kind, Conflict):
                parts = [k for c in (merged, kind) for k in getattr(c, "kinds", (c,))]
                return Conflict(tuple(dict.fromkeys(parts)))
            both = unify(merged, kind)
            merged = Conflict((merged, kind)) if both is None else both
        return merged

    # ------------------------------------------------------------------ statements
    def block(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self.environment is None:
                return  # unreachable, as in Numba: never typed
            handler = getattr(self, f"do_{type(statement).__name__}", None)
            if handler is None:
                name = type(statement).__name__
                raise self.source.unsupported(statement, f"the statement {name!r}")
            handler(statement)

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.expression(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        kind = self.expression(node.value)
        for target in node.targets:
            self.assign(target, kind)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.assign(node.target, self.expression(node.value))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        old = self.expression(_as_load(node.target))
        self.typing.of[node.target] = old
        new = self.binary(node, node.op, old, self.expression(node.value))
        self.assign(node.target, new)

    def assign(self, target: ast.expr, kind: types.Type) -> None:
        if isinstance(target, ast.Name):
            if isinstance(kind, types.NoneType):
                raise self.source.unsupported(target, f"{target.id} = None")
            self.environment[target.id] = plain(kind)
            self.typing.targets[target] = plain(kind)
        elif isinstance(target, ast.Tuple | ast.List):
            if not isinstance(kind, types.BaseTuple) or len(kind) != len(target.elts):
                raise self.source.refused(
                    target, f"cannot unpack {kind} into {len(target.elts)} names"
                )
            for element, part in zip(target.elts, kind, strict=True):
                self.assign(element, part)
        elif isinstance(target, ast.Subscript):
            array = self.expression(target.value)
            if isinstance(array, types.BaseTuple):
                raise self.source.refused(target, "a tuple cannot be changed")
            element = self.subscript(target, array)
            if isinstance(element, types.Array):
                raise self.source.unsupported(target, "assignment to a slice", "Write a loop.")
            number = types.Number | types.Boolean
            complex_lost = isinstance(kind, types.Complex) and not isinstance(
                element, types.Complex
            )
            if not isinstance(kind, number) or complex_lost:
                raise self.source.refused(target, f"Cannot cast {kind} to {element}: {array}")
            self.typing.targets[target] = element
        else:
            raise self.source.unsupported(target, f"assignment to {ast.unparse(target)}")

    def do_If(self, node: ast.If) -> None:
        self.condition(node.test)
        before = self.environment
        ends = []
        for which, body in (("then", node.body), ("else", node.orelse)):
            self.environment = dict(before)
            self.block(body)
            ends.append(((which, node), self.environment))
        self.environment = self.join(ends)

    def do_While(self, node: ast.While) -> None:
        self.loop(node, lambda: self.condition(node.test), None)

    def do_For(self, node: ast.For) -> None:
        item = self.iterated(node.iter)
        self.loop(node, lambda: None, item)

    def loop(self, node: ast.For | ast.While, head: Callable, item: types.Type | None) -> None:
        if node.orelse:
            raise self.source.unsupported(node, "else after a loop")
        entry = dict(self.environment)
        current = entry
        while True:
            self.loops.append({"break": [], "continue": []})
            self.environment = dict(current)
            head()
            leaving = dict(self.environment)
            if item is not None:
                self.assign(node.target, item)
            self.block(node.body)
            loop = self.loops.pop()
            back = [(("back", node), self.environment)]
            back += [(("continue", stop), env) for stop, env in loop["continue"]]
            joined = self.join([(("entry", node), entry), *back])
            if joined == current:
                break
            current = joined
        exits = [(("exit", node), leaving)]
        exits += [(("break", stop), env) for stop, env in loop["break"]]
        self.environment = self.join(exits)

    def do_Break(self, node: ast.Break) -> None:
        self.loops[-1]["break"].append((node, self.environment))
        self.environment = None

    def do_Continue(self, node: ast.Continue) -> None:
        self.loops[-1]["continue"].append((node, self.environment))
        self.environment = None

    def do_Return(self, node: ast.Return) -> None:
        kind = types.none if node.value is None else plain(self.expression(node.value))
        old = self.typing.result
        if isinstance(old, types.NoneType):
            self.typing.result = kind
        elif not isinstance(kind, types.NoneType):
            both = unify(old, kind)
            if both is None:
                raise self.source.refused(node, f"Can't unify return types {old} and {kind}")
            self.typing.result = both
        self.environment = None

    def do_Assert(self, node: ast.Assert) -> None:
        self.condition(node.test)

    def do_Raise(self, node: ast.Raise) -> None:
        self.environment = None

    # ------------------------------------------------------------------ expressions
    def condition(self, node: ast.expr) -> None:
        kind = self.expression(node)
        if not isinstance(kind, types.Number | types.Boolean | types.BaseTuple):
            raise self.source.refused(node, f"{ast.unparse(node)} is {kind}, not a condition")

    def expression(self, node: ast.expr) -> types.Type:
        handler = getattr(self, f"see_{type(node).__name__}", None)
        if handler is None:
            raise self.source.unsupported(node, f"the expression {type(node).__name__!r}")
        kind = handler(node)
        self.typing.of[node] = kind
        return kind

    def see_Constant(self, node: ast.Constant) -> types.Type:
        return of_value(node.value)

    def see_Name(self, node: ast.Name) -> types.Type:
        if node.id in self.source.assigned:
            kind = self.environment.get(node.id, MISSING)
            if kind is MISSING:
                raise self.source.refused(node, f"variable {node.id!r} is used before it is set")
            if isinstance(kind, Conflict):
                listed = " and ".join(str(k) for k in kind.kinds)
                raise self.source.refused(
                    node, f"Cannot unify {listed} for {node.id!r}: it has two types here"
                )
            return kind
        return self._static(node)

    def _static(self, node: ast.expr) -> types.Type:
        value = self.source.static(node)
        if value is MISSING:
            raise self.source.refused(node, f"NameError: name {ast.unparse(node)!r} is not defined")
        if isinstance(value, KernelName):
            kind = intrinsics.VALUES.get(value.path)
        else:
            kind = of_value(value)
        if kind is None:
            raise self.source.refused(
                node, f"Untyped global name {ast.unparse(node)!r}: cannot be used in a kernel"
            )
        return plain(kind) if not isinstance(value, str) else kind

    def see_Attribute(self, node: ast.Attribute) -> types.Type:
        if self.source.static(node) is not MISSING:
            return self._static(node)
        root = self.source.static(node.value)
        if root is not MISSING:
            raise self.source.refused(
                node, f"Unknown attribute {node.attr!r} of {ast.unparse(node.value)}"
            )
        kind = self.expression(node.value)
        if isinstance(kind, types.Array):
            sizes = types.UniTuple(types.intp, kind.ndim)
            known = {
                "shape": sizes, "strides": sizes, "ndim": types.intp, "size": types.intp,
                "itemsize": types.intp, "nbytes": types.intp,
                "T": types.Array(kind.dtype, kind.ndim, "A"),
            }  # fmt: skip
            if node.attr in known:
                return known[node.attr]
        if isinstance(kind, types.Number) and node.attr in ("real", "imag"):
            return kind.underlying_float if isinstance(kind, types.Complex) else kind
        raise self.source.refused(node, f"Unknown attribute {node.attr!r} of type {kind}")

    def see_Tuple(self, node: ast.Tuple) -> types.Type:
        return types.Tuple([plain(self.expression(element)) for element in node.elts])

    def see_BinOp(self, node: ast.BinOp) -> types.Type:
        return self.binary(node, node.op, self.expression(node.left), self.expression(node.right))

    def binary(self, node: ast.AST, op: ast.operator, left, right) -> types.Type:
        if isinstance(left, types.BaseTuple) and isinstance(right, types.BaseTuple):
            if isinstance(op, ast.Add):
                self.typing.operands[node] = (left, right)
                return types.Tuple([*left, *right])
        function = BINARY.get(type(op))
        if function is None:
            raise self.source.unsupported(node, f"the operator {type(op).__name__}")
        return self.call_type(node, function, (left, right))

    def call_type(self, node: ast.AST, function: Any, arguments: tuple) -> types.Type:
        """Ask Numba for the type of a call; remember what its operands are converted to."""
        if any(isinstance(kind, types.Array) for kind in arguments):
            found = None
        else:
            found = resolve(function, tuple(plain(kind) for kind in arguments))
        if found is None:
            name = getattr(function, "__name__", str(function))
            listed = ", ".join(str(kind) for kind in arguments)
            raise self.source.refused(
                node,
                f"No implementation of function {name} found for signature:\n\n"
                f" >>> {name}({listed})",
            )
        self.typing.operands[node] = found[1]
        return found[0]

    def see_UnaryOp(self, node: ast.UnaryOp) -> types.Type:
        if isinstance(node.op, ast.Not):
            self.condition(node.operand)
            return types.boolean
        return self.call_type(node, UNARY[type(node.op)], (self.expression(node.operand),))

    def see_BoolOp(self, node: ast.BoolOp) -> types.Type:
        kinds = [plain(self.expression(value)) for value in node.values]
        return self.unified(node, kinds)

    def see_IfExp(self, node: ast.IfExp) -> types.Type:
        self.condition(node.test)
        return self.unified(node, [self.expression(node.body), self.expression(node.orelse)])

    def unified(self, node: ast.AST, kinds: list) -> types.Type:
        merged = self._unify([plain(kind) for kind in kinds])
        if isinstance(merged, Conflict):
            listed = " and ".join(str(kind) for kind in kinds)
            raise self.source.refused(node, f"Cannot unify {listed} in {ast.unparse(node)}")
        return merged

    def see_Compare(self, node: ast.Compare) -> types.Type:
        left = self.expression(node.left)
        operands = []
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            if type(op) not in COMPARE:
                raise self.source.unsupported(node, f"the comparison {type(op).__name__}")
            right = self.expression(right_node)
            self.call_type(node, COMPARE[type(op)], (left, right))
            operands.append(self.typing.operands[node])
            left = right
        self.typing.operands[node] = tuple(operands)
        return types.boolean

    def see_Subscript(self, node: ast.Subscript) -> types.Type:
        base = self.expression(node.value)
        if isinstance(base, types.BaseTuple):
            return self._tuple_item(node, base)
        return self.subscript(node, base)

    def _tuple_item(self, node: ast.Subscript, base: types.BaseTuple) -> types.Type:
        index = self.source.static(node.slice)
        if isinstance(node.slice, ast.Slice):
            parts = [node.slice.lower, node.slice.upper, node.slice.step]
            limits = [None if part is None else self.source.static(part) for part in parts]
            if MISSING in limits:
                raise self.source.refused(node, "a tuple's slice must be constant")
            return types.Tuple(list(base)[slice(*limits)])
        if isinstance(index, int):
            if not -len(base) <= index < len(base):
                raise self.source.refused(node, f"index {index} of a tuple of {len(base)}")
            return base[index]
        kind = self.expression(node.slice)
        if not isinstance(kind, types.Integer) or not isinstance(base, types.UniTuple):
            raise self.source.refused(
                node, f"No implementation of getitem({base}, {kind}): the index must be constant"
            )
        return base.dtype

    def subscript(self, node: ast.Subscript, base: types.Type) -> types.Type:
        """Type of an element or of a view of an array."""
        if not isinstance(base, types.Array):
            raise self.source.refused(node, f"{ast.unparse(node.value)} is {base}, not an array")
        indices = index_nodes(node)
        kept = base.ndim - len(indices)
        for index in indices:
            if isinstance(index, ast.Slice):
                for part in (index.lower, index.upper, index.step):
                    if part is not None:
                        self.index(node, base, part)
                kept += 1
            elif isinstance(index, ast.Constant) and index.value is Ellipsis:
                raise self.source.unsupported(node, "an ellipsis as an index")
            else:
                expanded = self.index(node, base, index)
                kept -= expanded - 1
        if kept < 0 or len(indices) > base.ndim and not isinstance(node.slice, ast.Name):
            raise self.source.refused(
                node,
                f"cannot index {base} with {base.ndim - kept} indices: it has {base.ndim} "
                "dimensions",
            )
        return types.Array(base.dtype, kept, "A") if kept else base.dtype

    def index(self, node: ast.AST, base: types.Array, index: ast.expr) -> int:
        """Check one index; how many dimensions it stands for (a tuple variable: several)."""
        kind = plain(self.expression(index))
        if isinstance(kind, types.BaseTuple) and all(isinstance(k, types.Integer) for k in kind):
            return len(kind)
        if not isinstance(kind, types.Integer):
            raise self.source.refused(
                node,
                "No implementation of function getitem found for signature:\n\n"
                f" >>> getitem({base}, {kind})\n\nan index must be an integer: use int(...)",
            )
        return 1

    # ------------------------------------------------------------------ calls and loops
    def see_Call(self, node: ast.Call) -> types.Type:
        from course.simt.calls import call

        return call(self, node)

    def iterated(self, node: ast.expr) -> types.Type:
        """Type of the items of what a for loop runs over."""
        if isinstance(node, ast.Call):
            function = self.source.static(node.func)
            if function is range:
                kinds = tuple(plain(self.expression(argument)) for argument in node.args)
                found = resolve(range, kinds) if not node.keywords else None
                if found is None:
                    listed = ", ".join(str(kind) for kind in kinds)
                    raise self.source.refused(node, f"range({listed}) needs one to three integers")
                return found[0].dtype
            if function is enumerate and len(node.args) == 1 and not node.keywords:
                return types.Tuple([types.intp, self.iterated(node.args[0])])
            if function is zip and node.args and not node.keywords:
                return types.Tuple([self.iterated(argument) for argument in node.args])
        kind = self.expression(node)
        if isinstance(kind, types.UniTuple):
            return kind.dtype
        if isinstance(kind, types.Array):
            return kind.dtype if kind.ndim == 1 else types.Array(kind.dtype, kind.ndim - 1, "A")
        raise self.source.refused(node, f"cannot loop over {kind}")


def index_nodes(node: ast.Subscript) -> list[ast.expr]:
    """The indices of ``a[i, j]``, one for each dimension that is named."""
    return list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]


def _as_load(target: ast.expr) -> ast.expr:
    """The target of ``a[i] += 1``, read: the same nodes, so that their types are kept."""
    if not isinstance(target, ast.Name | ast.Subscript):
        raise TypingError(f"cannot assign to {ast.unparse(target)}")
    return target


def constant_dtype(typer: Typer, node: ast.expr) -> types.Type | None:
    """The element type named by ``float32``, ``np.float32`` or ``x.dtype``."""
    value = typer.source.static(node)
    if value is not MISSING:
        return of_dtype(value) if not isinstance(value, np.ndarray) else None
    if isinstance(node, ast.Attribute) and node.attr == "dtype":
        kind = typer.expression(node.value)
        return kind.dtype if isinstance(kind, types.Array) else None
    return None
