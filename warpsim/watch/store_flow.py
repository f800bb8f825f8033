"""What a kernel's source says of its stores: which arrays, which loads end there, what is alike."""

import ast
from collections import Counter, defaultdict
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
        positions = unread(f) if hasattr(f := source.static(node.func), "py_func") else ()
        given = [argument for n, argument in enumerate(node.args) if n in positions]
        handed.update(one.id for one in given if isinstance(one, ast.Name))
    reads = source.loads
    dropped = {name for name, times in handed.items() if times == reads[name]}
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


# ---------------------------------------------------------------------- the same on any data
# Arrays in which all threads leave the same: either each store to such an array sets a constant, or
# every thread makes the same stores in the same order, as no index, value or condition on the way
# there depends on which thread it is. Nothing is said of what cannot be seen at once: views under
# other names, stores in device functions.
#: What CUDA gives all threads alike, if its arguments are; all else may differ by thread.
_ALIKE = (
    "blockDim", "gridDim", "gridsize", "warpsize", "const.", "fma", "cbrt", "selp", "popc", "clz",
    "ffs", "brev", "fp16.", "libdevice.", "syncthreads", "syncwarp", "threadfence", *ARRAYS,
)  # fmt: skip
_UNCLEAR = ast.Lambda, ast.comprehension, ast.Starred, ast.NamedExpr, ast.keyword
_VOTES = ("syncthreads_count", "syncthreads_and", "syncthreads_or")


def alike_on_any_data(source: Source, program_of: Callable) -> frozenset[str]:
    """Names of the arrays of a kernel in which it never matters who stores last."""
    return _Stores(source, program_of).alike()


class _Stores:
    """Which names differ between threads, and what is stored where, found by growing."""

    def __init__(self, source: Source, program_of: Callable, callers: tuple[Source, ...] = ()):
        self.source, self.program_of, self.callers = source, program_of, (*callers, source)
        self.is_called = bool(callers)
        self.own: set[str] = set()  # shared and local arrays
        self.aliases: set[str] = set()
        self.varying: set[str] = set()
        self.everything = False  # some threads leave: what follows differs
        self.is_clear, self.result_varies = True, False
        before = None
        while before != (len(self.varying), self.everything):
            before = len(self.varying), self.everything
            self.stores: dict[str | None, list[tuple[Any, bool]]] = defaultdict(list)
            self._suite(source.tree.body, self.everything)
        known = self.own | set(self.source.arguments)
        self.is_clear &= self.stores.keys() <= known - self.aliases

    def alike(self) -> frozenset[str]:
        if not self.is_clear:
            return frozenset()
        found = set()
        for name, made in self.stores.items():
            values = {repr(v) if type(v) in (int, float, bool) else None for v, _ in made}
            if not any(varies for _, varies in made) or (len(values) == 1 and None not in values):
                found.add(name)
        return frozenset(found)

    # ------------------------------------------------------------------ statements
    def _suite(self, body: list[ast.stmt], differs: bool) -> None:
        for node in body:
            if isinstance(node, ast.If | ast.While):
                inside = self._varies(node.test) or differs
            elif isinstance(node, ast.For):
                inside = self._varies(node.iter) or differs
                self._set(node.target, node.iter, inside)
            elif isinstance(node, ast.Assign | ast.AugAssign):
                if node.value is not None:
                    self._assign(node, differs)
                continue
            elif isinstance(node, ast.Expr | ast.Return | ast.Assert | ast.Raise):
                parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
                varies = self._varies(ast.Tuple(parts)) or differs
                raises = isinstance(node, ast.Assert | ast.Raise)
                self.everything |= varies and raises
                self.is_clear &= not (raises and self.is_called)  # its callers' threads end, too
                self.everything |= differs and isinstance(node, ast.Return)
                self.result_varies |= varies and isinstance(node, ast.Return)
                continue
            else:
                self.everything |= differs and isinstance(node, ast.Break | ast.Continue)
                self.is_clear &= isinstance(node, ast.Pass | ast.Break | ast.Continue)
                continue
            self._suite(node.body, inside)
            self._suite(node.orelse, inside)

    def _assign(self, node: ast.Assign | ast.AugAssign, differs: bool) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        differs |= self._varies(node.value)
        if isinstance(node, ast.AugAssign):
            differs |= self._varies(node.target)
        made = node.value.func if isinstance(node.value, ast.Call) else None
        is_array = made is not None and path_of(self.source, made) in ARRAYS
        for target in targets:
            if is_array and isinstance(target, ast.Name):
                self.own.add(target.id)
                self.is_clear &= self._is_apart(node.value)
            else:
                value = MISSING if isinstance(node, ast.AugAssign) else node.value
                self._set(target, value, differs)

    def _set(self, target: ast.expr, value: Any, differs: bool) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                self._set(part, MISSING, differs)
        elif isinstance(target, ast.Name):
            self.aliases.add(target.id)
            if differs:
                self.varying.add(target.id)
        else:
            constant = MISSING if value is MISSING else self.source.static(value)
            self._store(root_of(target), constant, differs or self._varies(target))

    def _store(self, name: str | None, value: Any, differs: bool) -> None:
        self.stores[name].append((value, differs))
        if name is not None and differs:
            self.varying.add(name)

    def _is_apart(self, made: ast.Call) -> bool:
        """Whether an array has memory of its own: dynamic ones share theirs, calls those of all."""
        if path_of(self.source, made.func) == "local.array":
            return True
        shape = next((key.value for key in made.keywords if key.arg == "shape"), *made.args[:1])
        return not self.is_called and self.source.static(shape) not in (0, (0,))

    # ------------------------------------------------------------------ expressions
    def _varies(self, node: ast.expr) -> bool:
        """May the value differ between threads that have come the same way?"""
        found = False
        for part, path in self._parts(node):
            if path:
                found |= not path.startswith(_ALIKE) or path in _VOTES
            elif isinstance(part, ast.Name):
                found |= part.id in self.varying
            elif isinstance(part, _UNCLEAR):
                self.is_clear = False
            elif isinstance(part, ast.Call):
                found |= self._call(part)
        return found

    def _parts(self, node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
        """An expression's nodes, the names of CUDA as one each."""
        path = path_of(self.source, node) if isinstance(node, ast.Name | ast.Attribute) else ""
        yield node, path
        made = isinstance(node, ast.Call) and path_of(self.source, node.func) in ARRAYS
        for child in () if path or made else ast.iter_child_nodes(node):
            yield from self._parts(child)

    def _call(self, node: ast.Call) -> bool:
        """Notes what a call stores; whether its result differs though its arguments do not."""
        function, stored = stored_by(self.source, node)
        varies = function is MISSING and not isinstance(node.func, ast.Attribute)  # else a method
        if hasattr(function, "py_func"):
            inner = self.program_of(function)
            names = inner.source.arguments
            stored = [a for a, name in zip(node.args, names, strict=False) if name in inner.stored]
            itself = any(inner.source is caller for caller in self.callers)
            callee = None if itself else _Stores(inner.source, self.program_of, self.callers)
            varies = callee is None or callee.result_varies
            # places are known by the names of function and array
            named = inner.source.name == self.callers[0].name and not itself
            self.is_clear &= not named and (callee is None or callee.is_clear)
        for array in stored:
            self._store(root_of(array), MISSING, True)
        return varies
