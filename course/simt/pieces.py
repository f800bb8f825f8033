"""Accesses of several elements at once, asynchronous copies, tensor cores: types and code.

These are the functions of :mod:`course.intrinsics`. Numba compiles them to vector instructions or
inline PTX; here each has an equivalent that lane programs call (:mod:`course.simt.vectors`).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from numba import types

from course.simt.oracle import plain

if TYPE_CHECKING:
    from course.simt.emit import Emitter
    from course.simt.expressions import Expressions

f4, u4 = types.float32, types.uint32

#: Elements of one access, by the function's name.
LOADS = {"load": 1, "load2": 2, "load4": 4}
STORES = {"store": 1, "store2": 2, "store4": 4}
COPIES = {"copy_async": 1, "copy4_async": 4}
#: Types of the operands of a tensor core's product (c, a, b), and multiplications for each lane.
PRODUCTS = {
    "mma_f16_k8": ((types.UniTuple(f4, 4), types.UniTuple(u4, 2), u4), 32),
    "mma_f16": ((types.UniTuple(f4, 4), types.UniTuple(u4, 4), types.UniTuple(u4, 2)), 64),
    "mma_tf32": ((types.UniTuple(f4, 4), types.UniTuple(f4, 4), types.UniTuple(f4, 2)), 32),
}
#: Arguments of each.
ARITY = {
    **dict.fromkeys(LOADS, 2), **dict.fromkeys(STORES, 3), **dict.fromkeys(COPIES, 4),
    **dict.fromkeys(PRODUCTS, 3), "split_halves": 2, "commit_copies": 0, "wait_copies": 1,
}  # fmt: skip


def piece_type(typer: Expressions, node: ast.Call, name: str) -> types.Type:
    """The type of a call, with the types that its operands are converted to noted."""
    source = typer.source
    if len(node.args) != ARITY[name] or node.keywords:
        raise source.refused(
            node, f"{name} takes {ARITY[name]} arguments, {len(node.args)} given, and no names"
        )
    kinds = tuple(plain(typer.expression(argument)) for argument in node.args)
    operands: tuple[Any, ...] = kinds
    if name in LOADS or name in STORES or name in COPIES:
        result = _access(typer, node, name, kinds)
    elif name in PRODUCTS:
        operands, result = PRODUCTS[name][0], PRODUCTS[name][0][0]
        if kinds != operands:
            raise source.refused(node, _mismatch(name, operands, kinds))
    elif name == "split_halves":
        operands, result = (f4, f4), types.UniTuple(u4, 2)
        if kinds != operands:
            raise source.refused(node, _mismatch(name, operands, kinds))
    else:
        result = types.none
        if name == "wait_copies" and not isinstance(source.static(node.args[0]), int):
            raise source.refused(
                node, "wait_copies takes a literal: how many groups of copies may be under way"
            )
    typer.typing.operands[node] = operands
    return result


def _mismatch(name: str, wanted: tuple, given: tuple) -> str:
    spelled = [", ".join(str(kind) for kind in kinds) for kinds in (wanted, given)]
    return f"{name} takes ({spelled[0]}), given ({spelled[1]})"


def _access(typer: Expressions, node: ast.Call, name: str, kinds: tuple) -> types.Type:
    array = _indexed(typer, node, name, kinds[0], kinds[1])
    if name in COPIES:
        other = _indexed(typer, node, name, kinds[2], kinds[3])
        if array.dtype != other.dtype or array.dtype.bitwidth != 32:
            raise typer.source.refused(
                node,
                f"{name} copies elements of 4 bytes of one type, not {other.dtype} to "
                f"{array.dtype}",
            )
        return types.none
    if name in LOADS:
        count = LOADS[name]
        return array.dtype if count == 1 else types.UniTuple(array.dtype, count)
    count = STORES[name]
    wanted = array.dtype if count == 1 else types.UniTuple(array.dtype, count)
    if kinds[2] != wanted:
        raise typer.source.refused(
            node, f"{name} to an array of {array.dtype} takes {wanted} as its values, not {kinds[2]}"
        )
    return types.none


def _indexed(typer: Expressions, node: ast.Call, name: str, array: Any, index: Any) -> types.Array:
    parts = list(index) if isinstance(index, types.BaseTuple) else [index]
    if not isinstance(array, types.Array) or not isinstance(array.dtype, types.Number):
        raise typer.source.refused(node, f"{name} needs an array of numbers, not {array}")
    if len(parts) != array.ndim or not all(isinstance(part, types.Integer) for part in parts):
        raise typer.source.refused(
            node, f"{name}: the index {index} does not fit an array with {array.ndim} axes"
        )
    return array


# ---------------------------------------------------------------------- code
def piece_code(emitter: Emitter, node: ast.Call, name: str) -> str:
    """Code of a call in a lane program."""
    site = emitter.site(node, ast.unparse(node.args[0]) if node.args else "")
    if name in LOADS or name in STORES or name in COPIES:
        codes = [emitter.expression(argument) for argument in node.args]
        for place in (1, 3) if name in COPIES else (1,):
            kind = plain(emitter.typing.of[node.args[place]])
            if not isinstance(kind, types.BaseTuple):
                codes[place] = f"({codes[place]},)"
        if name in LOADS:
            return f"T.load_vector({', '.join(codes)}, {LOADS[name]}, {site})"
        if name in STORES:
            return f"T.store_vector({', '.join(codes)}, {STORES[name]}, {site})"
        other = emitter.site(node, ast.unparse(node.args[2]))
        return f"T.copy_async({', '.join(codes)}, {COPIES[name]}, {site}, {other})"
    if name == "wait_copies":
        return f"T.wait_copies({emitter.source.static(node.args[0])}, {site})"
    codes = [
        emitter.operand(argument, kind)
        for argument, kind in zip(node.args, emitter.typing.operands[node], strict=True)
    ]
    if name in PRODUCTS:
        emitter.count("tensor", 2 * PRODUCTS[name][1])
    return f"T.{name}({', '.join([*codes, str(site)])})"
