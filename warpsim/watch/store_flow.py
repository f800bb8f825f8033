"""What the source of a kernel says of its stores: which arrays, and which loads end in them."""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from warpsim.front.names import MISSING, KernelName, Source
from warpsim.front.nodes import walk

#: Functions that change the elements of their first argument.
STORING = ("atomic.", "pieces.store", "pieces.copy", "pieces.stmatrix")
#: Functions that make an array of the kernel's own.
ARRAYS = ("shared.array", "local.array")


def stored_arguments(source, callee_stores) -> frozenset[str]:
    """Arguments of a function whose elements it may change, itself or through what it calls.

    ``callee_stores`` gives, for a device function, the positions of those that it may change.
    """
    own, called, aliases = source.once(_stores)
    stored = set(own)
    for node in called:
        positions = callee_stores(source.static(node.func))
        stored |= {root_of(argument) for n, argument in enumerate(node.args) if n in positions}
    grown = True
    while grown:
        before = len(stored)
        for name, used in aliases:
            if name in stored:
                stored |= used
        grown = len(stored) > before
    if None in stored:
        return frozenset(source.arguments)
    return frozenset(stored) & frozenset(source.arguments)


def _stores(source: Source) -> tuple[set, list[ast.Call], list[tuple[str, set[str]]]]:
    """What a function itself stores to, its calls of others, and what each name is made of."""
    stored, called, aliases = set(), [], []
    for node in source.nodes:
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            stored.add(root_of(node.value))
        elif isinstance(node, ast.Call):
            function, into = stored_by(source, node)
            stored |= set(map(root_of, into))
            if function is not MISSING and hasattr(function, "py_func"):
                called.append(node)
        elif isinstance(node, ast.Assign | ast.For):
            value = node.iter if isinstance(node, ast.For) else node.value
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            used = {name.id for name in _names([value])} if value else set()
            # names that are bound: not those of `tile[i] = x`, which copies an element
            aliases += [(n.id, used) for n in _names(targets) if isinstance(n.ctx, ast.Store)]
    return stored, called, aliases


def stored_by(source: Source, node: ast.Call) -> tuple[Any, list[ast.expr]]:
    """What is called, and what it stores to, if that is no device function."""
    function = source.static(node.func)
    if isinstance(function, KernelName):
        return function, (node.args or [node])[:1] if function.path.startswith(STORING) else []
    if isinstance(function, np.ufunc):
        return function, node.args[function.nin :]
    fills = function is MISSING and getattr(node.func, "attr", "") == "fill"
    return function, [node.func] if fills else []


def root_of(node: ast.expr) -> str | None:
    """The name of the array that an element, a field or a view belongs to."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


# ---------------------------------------------------------------------- what ends in a store
def stored_loads(source: Source) -> set[ast.AST]:
    """The loads whose value may reach a plain store, by assignments in any order.

    Shared and local arrays are variables here. What a condition asks for reaches nothing, nor does
    what goes into an atomic; nor does a variable that a compare-and-swap checks.
    """
    nodes = source.nodes
    checked, own = set(), set()
    for node in nodes:
        if isinstance(node, ast.Call):
            path = path_of(source, node.func)
            if path in ("atomic.cas", "atomic.compare_and_swap"):
                checked |= {name.id for name in _names(node.args[-2:-1])}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            path = path_of(source, node.value.func)
            if path in ARRAYS:
                own |= {name.id for name in _names(node.targets)}
            elif path.startswith("atomic."):
                checked |= {name.id for name in _names(node.targets)}
    ends, flows = [], []
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
                    name = root_of(part)
                    if isinstance(part, ast.Name) or name in own:
                        flows.append((name, node.value))
                    else:
                        ends += [node.value, getattr(part, "slice", node.value)]
        elif isinstance(node, ast.For):
            flows += [(name.id, node.iter) for name in _names([node.target])]
        elif isinstance(node, ast.Return) and node.value is not None:
            ends.append(node.value)
        elif isinstance(node, ast.Call):
            function = source.static(node.func)
            stores = path_of(source, node.func).startswith("pieces.store")
            if stores or (function is not MISSING and hasattr(function, "py_func")):
                ends += node.args
    found, reaching = set(), set()
    while ends:
        for node in _taken(source, ends.pop()):
            if isinstance(node, ast.Subscript):
                found.add(node)
            elif isinstance(node, ast.Name) and node.id not in reaching | checked:
                reaching.add(node.id)
                ends += [value for name, value in flows if name == node.id]
    return found


def dropped_loads(source: Source, unread: Callable) -> set[ast.AST]:
    """The loads into a variable that nobody reads but functions which it is handed to in vain.

    ``unread`` gives the positions of the arguments that a device function never looks at.
    """
    handed: Counter[str] = Counter()
    for node in source.calls:
        function = source.static(node.func)
        positions = unread(function) if hasattr(function, "py_func") else ()
        given = [argument for n, argument in enumerate(node.args) if n in positions]
        handed.update(one.id for one in given if isinstance(one, ast.Name))
    reads = source.loads
    dropped = {name for name, times in handed.items() if times == reads[name]}
    if not dropped:
        return set()
    return {
        node.value
        for node in source.nodes
        if isinstance(node, ast.Assign)
        and all(isinstance(one, ast.Name) and one.id in dropped for one in node.targets)
    }


def _taken(source: Source, node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Call) and path_of(source, node.func).startswith("atomic."):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _taken(source, child)


def path_of(source: Source, node: ast.expr) -> str:
    """The name of CUDA that stands there, or nothing."""
    value = source.static(node)
    return value.path if isinstance(value, KernelName) else ""


def _names(nodes: list) -> list[ast.Name]:
    return [part for node in nodes for part in walk(node) if isinstance(part, ast.Name)]
