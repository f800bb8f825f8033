"""Static types of a kernel's variables and expressions, by Numba's own rules.

Numba types a variable once for each of its *versions*: every assignment makes a new one, and where
control flow joins, the versions that arrive are unified. The same is done here on the syntax tree:
types flow with the statements, a loop is repeated until its types stand still, and where two
versions of different type join, a conversion is noted for the edge.
"""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import types

from warpsim.core.number_types import DATES, SCALARS, date_storable, storable
from warpsim.front.closures import Inner
from warpsim.front.expressions import Conflict, Expressions, items_of
from warpsim.front.names import MISSING, NotYet, Source, names_no_value
from warpsim.front.nodes import walk
from warpsim.front.numba_typing import held, plain, unify

#: The variables that have a value at some point, each with the type of that version. Under
#: ``(name,)`` stands the value of a version that is a literal, under ``(name, "made of")`` the
#: constant that it was set to; ``(name, "given")`` is there while an argument is not set anew,
#: ``(name, "set")`` where every way has set it: "definite assignment", chapter 16 of the Java
#: Language Specification. Other reads are looked at while the kernel runs.
Environment = dict[str, Any]


@dataclass
class Typing:
    """What is known of one kernel for one set of argument types."""

    source: Source
    arguments: tuple[types.Type, ...]
    result: types.Type = types.none
    of: dict[ast.AST, types.Type] = field(default_factory=dict)
    operands: dict[ast.AST, tuple[types.Type, ...]] = field(default_factory=dict)
    #: Of each call of a device function it, its argument types, its result, whether it is itself.
    callees: dict[ast.AST, tuple] = field(default_factory=dict)
    targets: dict[ast.AST, types.Type] = field(default_factory=dict)
    items: dict[ast.For, types.Type] = field(default_factory=dict)
    indices: dict[ast.Subscript, list[ast.expr]] = field(default_factory=dict)  # "..." spelled out
    fields: dict[ast.expr, str] = field(default_factory=dict)  # accesses of a record's fields
    known: dict[ast.AST, bool] = field(default_factory=dict)  # conditions that are decided
    values: dict[ast.AST, Any] = field(default_factory=dict)  # what else is known when compiled
    functions: dict[ast.Call, Any] = field(default_factory=dict)  # what is called; MISSING: methods
    shapes: dict[ast.Call, tuple[int, ...]] = field(default_factory=dict)  # of arrays it makes
    returns: bool = True  # some way ends, though not by a call of itself
    optional: bool = False  # on some ways it returns no value, on others one
    dead: set[ast.AST] = field(default_factory=set)  # what is never reached, and never typed
    recursive: bool = False  # the function calls itself
    needs: tuple | None = None  # the calls that typing made, as `kept.Variant` has them
    dropped: set[ast.AST] = field(default_factory=set)  # loads whose value nobody takes
    doubtful: set[ast.Name] = field(default_factory=set)  # reads that come before any assignment
    made: ast.Return | None = None  # returns an array that is no argument
    edges: dict[tuple[str, ast.AST], list[tuple[str, types.Type, types.Type]]] = field(
        default_factory=dict
    )

    makes = property(lambda self: self.made is not None)

    def check_result(self, function: Any) -> None:
        """Refuse a function that returns an array of its own, unless Numba may inline it."""
        inline = getattr(function, "targetoptions", {}).get("inline", "never")
        if self.makes and not isinstance(function, Inner) and inline in ("never", False, None):
            raise self.source.refused(
                self.made,
                "Only accept returning of array passed into the function as argument: return an "
                "argument as it is, take an array to write to, or declare the function with "
                'inline="always"',
            )


class Typer(Expressions):
    """Types one function. ``callee(value, types)`` gives the typing of a device function."""

    def __init__(self, source: Source, arguments: tuple[types.Type, ...], callee: Callable):
        self.source = source
        self.callee = callee
        self.typing = Typing(source, arguments)
        self.environment: Environment | None = dict(zip(source.arguments, arguments, strict=True))
        for mark in ("given", "set"):
            self.environment.update(((name, mark), True) for name in source.arguments)
        nothing = [name for name in source.arguments if self.environment[name] == types.none]
        self.environment.update(((name, "made of"), ast.Constant(None)) for name in nothing)
        self.loops: list[dict[type, list[tuple[ast.AST, Environment]]]] = []
        self.returns_nothing = False
        self.unused: ast.expr | None = None  # an expression whose value nobody takes

    def run(self) -> Typing:
        self.block(self.source.tree.body)
        self.source.check_opcodes()
        nothing = self.returns_nothing or self.environment is not None
        self.typing.returns = nothing or not isinstance(self.typing.result, types.NoneType)
        if nothing and isinstance(self.typing.result, SCALARS):
            self.typing.result = types.Optional(self.typing.result)
        value = not isinstance(self.typing.result, types.NoneType | types.Optional)
        self.typing.optional = nothing and value
        return self.typing

    # ------------------------------------------------------------------ joins
    def join(self, incoming: list[tuple[tuple[str, ast.AST], Environment | None]]):
        """The environment where control flow joins; notes the conversions of each edge."""
        alive = [(edge, env) for edge, env in incoming if env is not None]
        if not alive:
            return None
        joined: Environment = {}
        for _, env in alive:
            joined.update(env)
        differ = {name for _, env in alive for name in env if env[name] is not joined[name]}
        differ.update(*(joined.keys() - env for _, env in alive))
        unified: list[str] = []  # names of several types
        for name in [name for name in joined if name in differ]:
            if isinstance(name, tuple):
                asked = [e for _, e in alive if name[0] in e or name[1:] == ("set",)]
                values = {env.get(name, MISSING) for env in asked}
                if len(values) > 1 or MISSING in values:
                    del joined[name]
                continue
            kinds = list(dict.fromkeys(env[name] for _, env in alive if name in env))
            joined[name] = kinds[0] if len(kinds) == 1 else self._unify(kinds)
            if len(kinds) > 1 and not isinstance(joined[name], Conflict):
                unified.append(name)
        for edge, env in alive:
            self.typing.edges[edge] = [
                (name, env[name], joined[name])
                for name in unified
                if name in env and env[name] != joined[name]
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
                self.typing.dead.add(statement)
                return  # unreachable, as in Numba: never typed
            self.typing.dead.discard(statement)
            handler = getattr(self, f"do_{type(statement).__name__}", None)
            if handler is None:
                raise self.unknown_syntax(statement, "statement")
            depth = len(self.loops)
            self.source.check_names(statement)
            try:
                handler(statement)
            except NotYet:  # the first pass: what calls itself ends elsewhere
                del self.loops[depth:]
                self.environment = None
                return

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.unused = node.value
            if not names_no_value(self.source.static(node.value)):
                self.expression(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        named = all(isinstance(target, ast.Name) for target in node.targets)
        if named and self._has_no_value(node.value):
            nothing = Conflict((types.Opaque(ast.unparse(node.value)),))
            for target in node.targets:
                self.assign(target, nothing)
            return
        kind, value = self.expression(node.value), self.literal(node.value)
        value = self.text(node.value) or value
        made = None if self.constant(node.value) is MISSING else node.value
        if isinstance(node.value, ast.Name) and node.value.id in self.source.assigned:
            made = self.environment.get((node.value.id, "made of"))
        for target in node.targets:
            self.assign(target, kind, value)
            if made is not None and isinstance(target, ast.Name):
                self.environment[(target.id, "made of")] = made

    def _has_no_value(self, node: ast.expr) -> bool:
        """Is it a type, a function, a list, ...: a variable may hold it, and there is no code?"""
        value = self.source.static(node)
        if isinstance(node, ast.List) and node.elts:
            if not any(isinstance(part, ast.Call) for part in walk(node)):
                return all(self.expression(element) for element in node.elts)
        kind = self.environment.get(getattr(node, "id", None))
        if isinstance(kind, Conflict) and len(kind.kinds) == 1:
            return True
        return names_no_value(value) or isinstance(value, bytes | np.dtype) or value is Ellipsis

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        old = self.expression(node.target)
        self.typing.of[node.target] = old
        value = self.expression(node.value)
        if isinstance(old, types.Array) and isinstance(node.target, ast.Name):
            text = "Give NumPy's function the array for the result, as np.divide(x, 2, x), or loop."
            raise self.source.unsupported(node, f"{ast.unparse(node)} of a whole array", text)
        if isinstance(old, types.BaseTuple):
            text = f"{old} is changed in place: write {_spelled_out(node)}"
            raise self.source.refused(node, text)
        kinds, whole = {type(held(kind)) for kind in (old, value)}, {types.Integer, types.Boolean}
        if isinstance(node.op, ast.Div) and types.Integer in kinds <= whole:
            raise self.source.refused(
                node,
                f"numba-cuda has no code for {old} /= {value} (NVVM: ERROR_INVALID_IR): write "
                f"{_spelled_out(node)}",
            )
        new = self.binary(node, node.op, old, value)
        self.typing.of[node] = new
        self.assign(node.target, new)

    def assign(self, target: ast.expr, kind: types.Type, value: Any = MISSING) -> None:
        """A target gets a new type, and a value if that is a literal."""
        if isinstance(target, ast.Name):
            for known in ((target.id,), (target.id, "given"), (target.id, "made of")):
                self.environment.pop(known, None)
            if value is not MISSING:
                self.environment[(target.id,)] = value
            self.environment[target.id] = plain(kind)
            self.environment[(target.id, "set")] = True
            self.typing.targets[target] = plain(kind)
        elif isinstance(target, ast.Tuple | ast.List):
            if isinstance(kind, types.Array) and kind.ndim:
                kind = (items_of(kind),) * len(target.elts)
            elif not isinstance(kind, types.BaseTuple) or len(kind) != len(target.elts):
                text = f"cannot unpack {kind} into {len(target.elts)} names"
                raise self.source.refused(target, text)
            values = value if isinstance(value, tuple) else (MISSING,) * len(kind)
            for element, part, one in zip(target.elts, kind, values, strict=True):
                self.assign(element, part, one)
        elif isinstance(target, ast.Attribute):
            array = self.expression(target.value)
            of = array if isinstance(array, types.Record) else getattr(array, "dtype", None)
            if not isinstance(of, types.Record):
                raise self.source.refused(target, f"{array} has no attribute that can be set")
            self.store(target, array, self.field(target, array, target.attr), kind)
        elif isinstance(target, ast.Subscript):
            array = self.expression(target.value)
            if isinstance(array, types.BaseTuple):
                raise self.source.refused(target, "a tuple cannot be changed")
            element = self.item(target, array)
            flat = isinstance(array, types.NumpyFlatType)
            self.store(target, array.array_type if flat else array, element, kind)
        else:
            raise self.source.unsupported(target, f"assignment to {ast.unparse(target)}")

    def store(self, target: ast.expr, array: types.Type, element: types.Type, kind) -> None:
        """Check that an element can be set to a value of some type."""
        self.check_mutable(target, array)
        self.typing.targets[target] = element
        part, given = element, held(kind)
        if isinstance(element, types.Array):  # a slice: one value for all, or an array of values
            part, whole = element.dtype, isinstance(given, types.Array)
            if target in self.typing.fields:
                same = whole and (given.dtype, given.ndim) == (element.dtype, element.ndim)
                if not isinstance(array, types.Record) or not same:
                    raise self.source.refused(
                        target,
                        f"Cannot set a field of type {element} to {kind}: an array in a record "
                        "takes an array of its own type; set the elements",
                    )
                given = given.dtype
            elif whole:
                raise self.source.refused(
                    target,
                    "Numba needs memory to set a slice to an array, which a kernel cannot allocate "
                    "(NRT required but not enabled): loop over the elements",
                )
            elif isinstance(given, types.UniTuple) and element.ndim == 1:
                self.store(target, array, part, given.dtype)
                self.typing.targets[target] = element
                return
        if isinstance(part, types.Record):
            fits = _alike(part, given)
        elif isinstance(part, DATES):
            fits = date_storable(given, part)
        elif isinstance(part, types.EnumMember | types.IntEnumMember) and part == given:
            fits = True
        else:
            lost = isinstance(given, types.Complex) and not isinstance(part, types.Complex)
            fits = isinstance(given, types.Number | types.Boolean) and not lost
            fits = fits and storable(given, part)
        if not fits:
            raise self.source.refused(target, f"Cannot cast {kind} to {element}: {array}")

    def do_If(self, node: ast.If) -> None:
        truth = self.note(node, self.condition(node.test))
        if truth is not None:
            self.block(node.body if truth else node.orelse)
            return
        before = self.environment
        ends = []
        for which, body in (("then", node.body), ("else", node.orelse)):
            self.environment = dict(before)
            self.block(body)
            ends.append(((which, node), self.environment))
        self.environment = self.join(ends)

    def do_While(self, node: ast.While) -> None:
        if self.note(node, self.condition(node.test)) is False:
            self.block(node.orelse)
            return
        self.loop(node)

    def do_For(self, node: ast.For) -> None:
        self.typing.items[node] = self.iterated(node.iter)
        self.loop(node)

    def loop(self, node: ast.For | ast.While) -> None:
        current = entry = dict(self.environment)
        while True:
            self.loops.append({ast.Break: [], ast.Continue: []})
            self.environment = dict(current)
            endless = self.condition(node.test) if isinstance(node, ast.While) else None
            leaving = dict(self.environment)
            if isinstance(node, ast.For):
                self.assign(node.target, self.typing.items[node])
            self.block(node.body)
            loop = self.loops.pop()
            back = [(("back", node), self.environment)]
            back += [(("continue", stop), env) for stop, env in loop[ast.Continue]]
            joined = self.join([(("entry", node), entry), *back])
            if joined == current:
                break
            # what a pass sets anew changes nothing in the next if nobody reads it before
            if not loop[ast.Break] and current.items() <= joined.items():
                if not any(read.id in joined.keys() - current for read in self.typing.doubtful):
                    leaving = joined
                    break
            current = joined
        self.note(node, endless)
        exits = [(("exit", node), None if endless else leaving)]
        if node.orelse and not endless:
            self.environment = leaving
            self.block(node.orelse)
            exits = [(("orelse", node), self.environment)]
        exits += [(("break", stop), env) for stop, env in loop[ast.Break]]
        self.environment = self.join(exits)

    def do_Break(self, node: ast.Break | ast.Continue) -> None:
        self.loops[-1][type(node)].append((node, self.environment))
        self.environment = None

    do_Continue = do_Break

    def do_Return(self, node: ast.Return) -> None:
        kind = types.none if node.value is None else plain(self.expression(node.value))
        given = isinstance(node.value, ast.Name) and (node.value.id, "given") in self.environment
        if isinstance(kind, types.Array) and not given:
            self.typing.made = node
        old = self.typing.result
        self.returns_nothing |= isinstance(kind, types.NoneType)
        if isinstance(old, types.NoneType):
            self.typing.result = kind
        elif not isinstance(kind, types.NoneType):
            both = unify(old, kind)
            if both is None:
                raise self.source.refused(node, f"Can't unify return types {old} and {kind}")
            self.typing.result = both
        self.environment = None

    def do_Assert(self, node: ast.Assert) -> None:
        truth = self.condition(node.test)
        self._check_raised(node, AssertionError, [node.msg] if node.msg else [])
        if truth is False:
            self.environment = None

    def do_Raise(self, node: ast.Raise) -> None:
        call = node.exc if isinstance(node.exc, ast.Call) else None
        if node.exc is not None:
            kind = self.source.static(call.func if call else node.exc)
            whole = node.cause is None and not (call and call.keywords)
            self._check_raised(node, kind if whole else MISSING, call.args if call else [])
        self.environment = None

    def _check_raised(self, node: ast.stmt, kind: Any, arguments: list[ast.expr]) -> None:
        """Refuse what Numba cannot raise: it keeps exceptions as constants."""
        known = isinstance(kind, type) and issubclass(kind, Exception)
        if not known or any(self.source.static(one) is MISSING for one in arguments):
            raise self.source.refused(
                node,
                "a kernel raises an Exception class, or one with constants: Numba has no way to "
                "keep values of a thread in it (return_dynamic_user_exc)",
            )


def _alike(first: types.Type, second: types.Type) -> bool:
    """Are two fields of one type, or records with the same fields of the same types?"""
    if not isinstance(first, types.Record) or not isinstance(second, types.Record):
        return first == second
    return list(first.fields) == list(second.fields) and all(
        _alike(first.typeof(name), second.typeof(name)) for name in first.fields
    )


def _spelled_out(node: ast.AugAssign) -> str:
    whole = ast.BinOp(node.target, node.op, node.value)
    return f"{ast.unparse(node.target)} = {ast.unparse(whole)}"
