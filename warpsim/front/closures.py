"""Functions that a kernel defines for itself: each becomes a device function.

What such a function reads of the kernel's variables is handed to it as further arguments; what it
declares ``nonlocal`` comes back as its result.
"""

import ast
from dataclasses import dataclass, field, replace
from types import CellType, CodeType, FunctionType
from typing import Any

from warpsim.front.names import MISSING, Source, complete, folded, with_a_name
from warpsim.front.nodes import names, walk

_SCOPES = ast.FunctionDef | ast.Lambda


@dataclass(eq=False)
class Inner:
    """A function inside a kernel, as the kernel's program calls it."""

    py_func: FunctionType  # for its name and its parameters; never run
    tree: ast.FunctionDef
    outer: Source
    free: list[str] = field(default_factory=list)  # variables of the kernel that it reads
    outward: list[str] = field(default_factory=list)  # those that it sets
    made: Any = None

    @property
    def source(self) -> Source:
        """The function with the variables that it is handed, and those that it gives back."""
        arguments = [argument.arg for argument in self.tree.args.args] + self.free
        tree = self.tree
        if self.outward:
            tree.body.append(ast.copy_location(ast.Return(), tree.body[-1]))
            tree = _Returning(self.outward).visit(tree)
        known = self.outer.constants  # they may be shapes in the function, too
        shared = {name: known[name] for name in _reads(tree) & known.keys()}
        return complete(
            replace(
                self.outer,
                label=tree.name,
                tree=tree,
                arguments=arguments,
                environment={**self.outer.environment, **shared},
            )
        )


def _together(names: list[str], context: type[ast.expr_context]) -> ast.expr:
    parts = [ast.Name(name, context()) for name in names]
    return parts[0] if len(parts) == 1 else ast.Tuple(parts, context())


class _Returning(ast.NodeTransformer):
    """``return`` gives back what was declared nonlocal."""

    def __init__(self, names: list[str]):
        self.names = names

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_Return(self, node: ast.Return) -> ast.stmt:
        node.value = _together(self.names, ast.Load)
        return ast.fix_missing_locations(node)


# ---------------------------------------------------------------------- finding them
def lift(source: Source) -> Source:
    """A kernel without the functions inside it, which its names stand for from now on."""
    if not any(isinstance(node, _SCOPES) for part in source.tree.body for node in walk(part)):
        return source
    taker = _Taker(source)
    tree = taker.visit(source.tree)
    if not taker.found:
        return source
    environment = dict(source.environment)
    outer = complete(replace(source, tree=tree, environment=environment))
    environment.update(taker.found)
    for inner in taker.found.values():
        inner.outer = outer
        for name in inner.outward:
            outer.constants.pop(name, None)
    _find_free(taker.found)
    return outer


class _Taker(ast.NodeTransformer):
    """Takes the functions out of a kernel's body."""

    def __init__(self, source: Source):
        self.source, self.found = source, {}
        self.codes = [c for c in source.function.__code__.co_consts if isinstance(c, CodeType)]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node is self.source.tree:
            return self.generic_visit(node)
        if node.decorator_list:
            raise self.source.unsupported(node, "a decorated function inside a kernel")
        return self._take(node, node.name)

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if not isinstance(node.value, ast.Lambda) or not isinstance(target, ast.Name):
            return self.generic_visit(node)
        return self._take(ast.copy_location(with_a_name(node.value, target.id), node), "<lambda>")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """``(lambda a: a + 1)(x)`` is called by a name of its own."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Lambda):
            name = f"lambda_{len(self.found)}"
            self._take(ast.copy_location(with_a_name(node.func, name), node), "<lambda>")
            node.func = ast.copy_location(ast.Name(name, ast.Load()), node.func)
        return node

    def _take(self, tree: ast.FunctionDef, code_name: str) -> ast.stmt:
        spec = tree.args
        if tree.name in self.found:
            raise self.source.unsupported(tree, f"a second {tree.name} inside a kernel")
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.posonlyargs:
            raise self.source.unsupported(tree, "a function inside a kernel with * or **")
        if tree.name in names(tree, ast.Load) and tree.name not in {one.arg for one in spec.args}:
            raise self.source.refused(tree, f"{tree.name} reads itself, which is no value yet")
        outward = [n for part in walk(tree) if isinstance(part, ast.Nonlocal) for n in part.names]
        values = any(isinstance(part, ast.Return) and part.value for part in walk(tree))
        if outward and values:
            raise self.source.unsupported(tree, "a function with nonlocal variables and a result")
        defaults = tuple(folded(node) for node in spec.defaults)
        if MISSING in defaults:
            raise self.source.unsupported(tree, "a default value that is no literal")
        line = self.source.in_file(self.source.line(tree))[1]
        named = [code for code in self.codes if code.co_name == code_name]
        exact = [code for code in named if code.co_firstlineno == line]
        code = next(iter(exact or named), (lambda: None).__code__)
        cells = tuple(CellType(None) for _ in code.co_freevars)
        made = FunctionType(code, self.source.function.__globals__, tree.name, defaults, cells)
        self.found[tree.name] = Inner(made, tree, self.source, outward=list(dict.fromkeys(outward)))
        return ast.copy_location(ast.Pass(), tree)


def _reads(tree: ast.AST) -> set[str]:
    return {node.id for node in walk(tree) if isinstance(node, ast.Name)}


def _find_free(found: dict[str, Inner]) -> None:
    """The kernel's variables that each function reads, itself or by another one."""
    for inner in found.values():
        own = {argument.arg for argument in inner.tree.args.args}
        stores = {*names(inner.tree, ast.Store)} - {*inner.outward}
        reads = {*names(inner.tree, ast.Load)}
        changed = [n.target for n in walk(inner.tree) if isinstance(n, ast.AugAssign)]
        reads |= {target.id for target in changed if isinstance(target, ast.Name)}
        branches = ast.If | ast.For | ast.While | ast.Return
        if any(isinstance(node, branches) for node in walk(inner.tree)):
            reads |= {*inner.outward}  # what a way leaves as it is goes back as it came
        free = (reads & inner.outer.assigned) - own - stores - inner.outer.constants.keys()
        inner.free = sorted(free)
    for _ in found:  # as many calls as one may be away
        for inner in found.values():
            for name in _reads(inner.tree) & found.keys():
                inner.free = sorted({*inner.free, *found[name].free})


# ---------------------------------------------------------------------- calling them
def hand_over(source: Source) -> None:
    """Calls of functions inside a kernel hand over its variables, and take back what is set."""
    inners = {k: v for k, v in source.environment.items() if isinstance(v, Inner)}
    if inners:
        caller = _Caller(source, inners)
        source.tree.body = [caller.visit(statement) for statement in source.tree.body]


class _Caller(ast.NodeTransformer):
    def __init__(self, source: Source, inners: dict[str, Inner]):
        self.source, self.inners = source, inners

    def _called(self, node: ast.AST) -> Inner | None:
        called = getattr(node.func, "id", None) if isinstance(node, ast.Call) else None
        return None if called in self.source.assigned else self.inners.get(called)

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        inner = self._called(node.value)
        if inner is None or not inner.outward:
            return self.generic_visit(node)
        made = ast.Assign([_together(inner.outward, ast.Store)], self._handed(node.value, inner))
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        inner = self._called(node)
        if inner is None:
            return self.generic_visit(node)
        if inner.outward:
            text = f"a call of {inner.tree.name}, which sets nonlocal variables, in an expression"
            raise self.source.unsupported(node, text)
        return self._handed(node, inner)

    def _handed(self, node: ast.Call, inner: Inner) -> ast.Call:
        self.generic_visit(node)
        more = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in inner.free]
        node.args = [*node.args, *more]
        return node
