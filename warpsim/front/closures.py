"""Functions that a kernel defines for itself: each becomes a device function.

What such a function reads of the kernel's variables is handed to it as further arguments; what it
declares ``nonlocal`` comes back as its result.
"""

import ast
from dataclasses import dataclass, field, replace
from types import FunctionType
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
    outward: list[str]  # variables of the kernel that it sets
    free: list[str] = field(default_factory=list)  # those that it reads
    alone: set[ast.Call] = field(default_factory=set)  # calls that set them
    made: Any = None

    @property
    def source(self) -> Source:
        """The function with the variables that it is handed."""
        known = self.outer.constants  # they may be shapes in the function, too
        shared = {name: known[name] for name in names(self.tree, ast.Load).keys() & known.keys()}
        return complete(
            replace(
                self.outer,
                label=self.tree.name,
                tree=self.tree,
                arguments=[argument.arg for argument in self.tree.args.args] + self.free,
                environment={**self.outer.environment, **shared},
            )
        )


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
    _find_free(taker.found)
    return outer


class _Taker(ast.NodeTransformer):
    """Takes the functions out of a kernel's body."""

    def __init__(self, source: Source):
        self.source, self.found = source, {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        if node is self.source.tree:
            return self.generic_visit(node)
        if node.decorator_list:
            raise self.source.unsupported(node, "a decorated function inside a kernel")
        return self._take(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if not isinstance(node.value, ast.Lambda) or not isinstance(target, ast.Name):
            return self.generic_visit(node)
        return self._take(ast.copy_location(with_a_name(node.value, target.id), node))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """``(lambda a: a + 1)(x)`` is called by a name of its own."""
        self.generic_visit(node)
        if isinstance(node.func, ast.Lambda):
            name = f"lambda_{len(self.found)}"
            self._take(ast.copy_location(with_a_name(node.func, name), node))
            node.func = ast.copy_location(ast.Name(name, ast.Load()), node.func)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        """``add(v)``, which sets ``total`` and ``calls``, as ``total, calls = add(v)``."""
        self.generic_visit(node)
        inner = _called(node.value, self.found)
        if inner is None or not inner.outward:
            return node
        inner.alone.add(node.value)
        made = ast.Assign([_together(inner.outward, ast.Store())], node.value)
        return ast.fix_missing_locations(ast.copy_location(made, node))

    def _take(self, tree: ast.FunctionDef) -> ast.stmt:
        spec = tree.args
        if tree.name in self.found:
            raise self.source.unsupported(tree, f"a second {tree.name} inside a kernel")
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.posonlyargs:
            raise self.source.unsupported(tree, "a function inside a kernel with * or **")
        if tree.name in names(tree, ast.Load) and tree.name not in {one.arg for one in spec.args}:
            raise self.source.refused(tree, f"{tree.name} reads itself, which is no value yet")
        nonlocals = [part for part in tree.body if isinstance(part, ast.Nonlocal)]
        outward = list(dict.fromkeys(name for part in nonlocals for name in part.names))
        ends = [part for part in walk(tree) if isinstance(part, ast.Return)] if outward else []
        if any(part.value for part in ends):
            raise self.source.unsupported(tree, "a function with nonlocal variables and a result")
        if outward:
            ends.append(ast.copy_location(ast.Return(), tree.body[-1]))
            tree.body = [*(part for part in tree.body if part not in nonlocals), ends[-1]]
        for part in ends:
            part.value = _together(outward, ast.Load())
            ast.fix_missing_locations(part)
        if MISSING in map(folded, spec.defaults):
            raise self.source.unsupported(tree, "a default value that is no literal")
        stub = ast.fix_missing_locations(ast.Expression(ast.Lambda(spec, ast.Constant(None))))
        space = {"__name__": self.source.function.__module__}
        made = eval(compile(stub, "<inside a kernel>", "eval"), space)
        made.__name__ = tree.name
        self.found[tree.name] = Inner(made, tree, self.source, outward)
        return ast.copy_location(ast.Pass(), tree)


def _together(names: list[str], context: ast.expr_context) -> ast.Tuple:
    return ast.Tuple([ast.Name(name, context) for name in names], context)


def _called(node: ast.AST, inners: dict[str, Any]) -> Inner | None:
    found = inners.get(getattr(node.func, "id", None)) if isinstance(node, ast.Call) else None
    return found if isinstance(found, Inner) else None


def _find_free(found: dict[str, Inner]) -> None:
    """The kernel's variables that each function reads, itself or by another one."""
    for inner in found.values():
        own = {argument.arg for argument in inner.tree.args.args}
        own |= {*names(inner.tree, ast.Store)}.difference(inner.outward)
        read = inner.outer.assigned.intersection(names(inner.tree, ast.Load))
        inner.free = sorted(read - own - inner.outer.constants.keys())
    for _ in found:  # as many calls as one may be away
        for inner in found.values():
            for name in names(inner.tree, ast.Load).keys() & found.keys():
                inner.free = sorted({*inner.free, *found[name].free})


# ---------------------------------------------------------------------- calling them
def hand_over(source: Source) -> None:
    """Calls of functions inside a kernel hand over its variables."""
    for node in walk(source.tree):
        inner = _called(node, source.environment)
        if inner is None or node.func.id in source.assigned:
            continue
        if inner.outward and node not in inner.alone:
            text = f"a call of {inner.tree.name}, which sets nonlocal variables, in an expression"
            raise source.unsupported(node, text)
        handed = (ast.Name(name, ast.Load()) for name in inner.free)
        node.args += [ast.copy_location(one, node) for one in handed]
