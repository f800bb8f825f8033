"""Arrays in which all threads leave the same whatever the data, as a kernel's source says.

Either every store to such an array sets one constant, or every thread makes the same stores in the
same order: no index, value or condition on the way there depends on which thread it is. Nothing is
said of what cannot be seen at once: views under other names, stores in device functions.
"""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from warpsim.front.names import MISSING, Source
from warpsim.watch.store_flow import ARRAYS, path_of, root_of, stored_by

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
        return frozenset(name for name, made in self.stores.items() if self._is_alike(made))

    def _is_alike(self, made: list[tuple[Any, bool]]) -> bool:
        values = {repr(value) if type(value) in (int, float, bool) else None for value, _ in made}
        return not any(varies for _, varies in made) or (len(values) == 1 and None not in values)

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
            again = inner.source, self.program_of, self.callers
            callee = None if itself else _Stores(*again)
            varies = callee is None or callee.result_varies
            # places are known by the names of function and array
            named = inner.source.name == self.callers[0].name and not itself
            self.is_clear &= not named and (callee is None or callee.is_clear)
        for array in stored:
            self._store(root_of(array), MISSING, True)
        return varies
