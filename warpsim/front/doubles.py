"""Why arithmetic is float64: the literal, the array or the conversion that it comes from."""

import ast
from collections.abc import Iterator

from numba import types

from warpsim.front.names import MISSING
from warpsim.front.nodes import names, walk
from warpsim.front.numba_typing import plain
from warpsim.front.types import Typing

WIDE = (types.float64, types.complex128)
MOST = 2  # origins that are named


def why_double(typing: Typing, node: ast.AST) -> str:
    """What makes a statement, its suites apart, or an expression float64; what to do about it."""
    own = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    nodes = [node] if isinstance(node, ast.expr | ast.AugAssign) else own
    found = (why for top in nodes for part in walk(top) for why in _origins(typing, part, set()))
    return "; ".join(list(dict.fromkeys(found))[:MOST])


def _origins(typing: Typing, node: ast.AST, seen: set[str]) -> Iterator[str]:
    if plain(typing.of.get(node)) not in WIDE:
        return
    source, text = typing.source, ast.unparse(node)
    parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
    if isinstance(node, ast.Constant) or source.static(node) is not MISSING:
        what = f"the literal {text}" if isinstance(node, ast.Constant) else f"{text}, a constant,"
        yield f"{what} is float64 in Numba; write float32({text.removesuffix('.0')})"
    elif isinstance(node, ast.Name) and node.id not in seen:
        seen.add(node.id)
        given = dict(zip(source.arguments, typing.arguments, strict=True)).get(node.id)
        if given is not None and plain(given) in WIDE:
            yield f"the argument {text} is {plain(given)}; give np.float32(...) at the launch"
        values = list(_assigned(source.tree, node.id))
        found = [why for value in values for why in _origins(typing, value, seen)]
        yield from found
        if given is None and not found:
            yield f"{text} holds an integer and a float, so float64; begin with float32(...)"
    elif isinstance(node, ast.Subscript | ast.Attribute):
        base = ast.unparse(node.value)
        yield f"the elements of {base} are {plain(typing.of[node])}; float32 may do"
    elif not isinstance(node, ast.Name):
        parts = node.args if isinstance(node, ast.Call) else parts
        wide = [part for part in parts if plain(typing.of.get(part)) in WIDE]
        for part in wide:
            yield from _origins(typing, part, seen)
        if not wide and isinstance(node, ast.Call) and text.startswith(("float", "np.float64")):
            yield f"{text} is float64 in Numba; write float32(...)"
        elif not wide:
            kinds = list(dict.fromkeys(plain(typing.of.get(part)) for part in parts))
            whole = any(isinstance(kind, types.Integer | types.Boolean) for kind in kinds)
            cure = "; convert integers with float32(...)" if whole else ""
            yield f"`{text}`, of {' and '.join(map(str, kinds))}, is float64 in Numba{cure}"


def _assigned(tree: ast.AST, name: str) -> Iterator[ast.AST]:
    for node in walk(tree):
        if not isinstance(node, ast.Assign | ast.AugAssign | ast.For):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(name in names(target, ast.Store) for target in targets):
            value = node.iter if isinstance(node, ast.For) else node.value
            parts = value.elts if isinstance(value, ast.Tuple) else [value]
            yield from [node] if isinstance(node, ast.AugAssign) else filter(None, parts)
