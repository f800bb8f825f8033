"""Accesses of several elements at once, asynchronous copies, tensor cores: types and code.

These are the functions of :mod:`warpsim.ptx.intrinsics`. Numba compiles them to vector
instructions or inline PTX; here each has an equivalent that lane programs call
(:mod:`warpsim.ptx.vectors`).
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from numba import types

from warpsim.core.number_types import Bfloat16
from warpsim.front.numba_typing import plain
from warpsim.ptx import hopper_types

if TYPE_CHECKING:
    from warpsim.code.emit import Emitter
    from warpsim.front.expressions import Expressions

f4, u4 = types.float32, types.uint32

#: Elements of one access, by the function's name.
LOADS = {
    "load": 1, "load2": 2, "load4": 4, "load_streaming": 1, "load4_streaming": 4, "load_kept": 1,
    "load4_kept": 4,
}  # fmt: skip
STORES = {"store": 1, "store2": 2, "store4": 4, "store_streaming": 1, "store4_streaming": 4}
#: Accesses of global memory alone, of elements that no cache need keep.
STREAMING = tuple(name for name in (*LOADS, *STORES) if name.endswith("_streaming"))
#: Accesses of global memory alone, of elements that L2 shall keep.
KEPT = tuple(name for name in LOADS if name.endswith("_kept"))
COPIES = {"copy_async": 1, "copy4_async": 4}
#: Types of the operands of a tensor core's product (c, a, b), and multiplications for each lane.
PRODUCTS = {
    "mma_f16_k8": ((types.UniTuple(f4, 4), types.UniTuple(u4, 2), u4), 32),
    "mma_f16": ((types.UniTuple(f4, 4), types.UniTuple(u4, 4), types.UniTuple(u4, 2)), 64),
    "mma_tf32": ((types.UniTuple(f4, 4), types.UniTuple(f4, 4), types.UniTuple(f4, 2)), 32),
}
#: Types of numbers rounded.
ROUNDED = {"split_halves": types.UniTuple(u4, 2), "round_tf32": f4}
#: Arguments of each.
ARITY = {
    **dict.fromkeys(LOADS, 2), **dict.fromkeys(STORES, 3), **dict.fromkeys(COPIES, 4),
    **dict.fromkeys(PRODUCTS, 3), "split_halves": 2, "round_tf32": 1,
    "commit_copies": 0, "wait_copies": 1,
}  # fmt: skip


#: Bytes of the widest access that a GPU makes.
WIDEST = 16


def refusal(name: str, kinds: tuple[types.Type, ...], named: tuple[str, ...]) -> str | None:
    """What is wrong with the types of a call's arguments, for Numba and the simulator alike.

    Parameters
    ----------
    name : str
        The function.
    kinds : tuple of Type
        Of its arguments.
    named : tuple of str
        Names of arguments that are given by name.
    """
    if name in hopper_types.INSTRUCTIONS:
        return hopper_types.refusal(name, kinds, named)
    if named:
        return f"{name} takes its arguments by position, not as {', '.join(named)}="
    if len(kinds) != ARITY[name]:
        given = f"{len(kinds)} given" if kinds else "none given"
        return f"{name} takes {ARITY[name]} argument{'s' * (ARITY[name] != 1)}, {given}"
    if name in PRODUCTS or name in ROUNDED:
        wanted = PRODUCTS[name][0] if name in PRODUCTS else (f4,) * ARITY[name]
        if kinds != wanted:
            spelled = [", ".join(str(kind) for kind in some) for some in (wanted, kinds)]
            return f"{name} takes ({spelled[0]}), given ({spelled[1]})"
        return None
    if name == "wait_copies":
        return None if isinstance(kinds[0], types.Integer) else f"{LITERAL}, not {kinds[0]}"
    count = {**LOADS, **STORES, **COPIES}.get(name, 0)
    for array, index in zip(kinds[::2], kinds[1::2], strict=False):
        wrong = _unfit(name, array, index, count)
        if wrong:
            return wrong
    if name in STORES or name in COPIES:
        if not kinds[0].mutable:
            return f"{name} cannot write to a read-only array"
    if name in COPIES and (kinds[0].dtype != kinds[2].dtype or kinds[0].dtype.bitwidth != 32):
        return (
            f"{name} copies elements of 4 bytes of one type, not {kinds[2].dtype} to "
            f"{kinds[0].dtype}"
        )
    if name in STORES:
        wanted = _several(kinds[0].dtype, count)
        if kinds[2] != wanted:
            return f"{name} to an array of {kinds[0].dtype} takes {wanted}, not {kinds[2]}"
    return None


LITERAL = "wait_copies takes a literal, 0 or more: how many groups of copies may be under way"


def _unfit(name: str, array: Any, index: Any, count: int) -> str | None:
    """What is wrong with an array, or with an index of it."""
    parts = list(index) if isinstance(index, types.BaseTuple) else [index]
    if not isinstance(array, types.Array):
        return f"{name} needs an array, not {array}"
    if not isinstance(array.dtype, types.Integer | types.Float | Bfloat16):
        return f"{name} needs an array of integers or floats, not of {array.dtype}"
    if array.ndim == 0:
        return f"{name} needs an array with an axis, not one of a single element"
    if len(parts) != array.ndim or not all(isinstance(part, types.Integer) for part in parts):
        return (
            f"{name} of an array with {array.ndim} {'axis' if array.ndim == 1 else 'axes'} needs "
            f"as many integers as its index, not {index}"
        )
    if array.layout == "F" and array.ndim > 1:
        return f"{name} needs an array whose last axis is contiguous, not one in Fortran's order"
    if name in STREAMING and array.dtype.bitwidth not in (16, 32, 64):
        return f"{name} needs elements of 2, 4 or 8 bytes, not of {array.dtype}"
    if name in KEPT and array.dtype.bitwidth != 32:
        return f"{name} needs elements of 4 bytes, not of {array.dtype}"
    size = count * array.dtype.bitwidth // 8
    if size > WIDEST:
        return (
            f"{name} of {array.dtype} is an access of {size} bytes, a GPU makes them of at most "
            f"{WIDEST}: take fewer elements"
        )
    return None


def piece_type(typer: Expressions, node: ast.Call, name: str) -> types.Type:
    """The type of a call, with the types that its operands are converted to noted."""
    if name in hopper_types.INSTRUCTIONS:
        return hopper_types.instruction_type(typer, node, name)
    source = typer.source
    kinds = tuple(plain(typer.expression(argument)) for argument in node.args)
    wrong = refusal(name, kinds, tuple(str(keyword.arg) for keyword in node.keywords))
    if wrong is None and name == "wait_copies":
        most = source.static(node.args[0])
        wrong = None if type(most) is int and most >= 0 else LITERAL
    if wrong is not None:
        raise source.refused(node, wrong)
    if name in STORES or name in COPIES:
        typer.check_mutable(node, kinds[0])
    typer.typing.operands[node] = kinds
    if name in LOADS:
        return _several(kinds[0].dtype, LOADS[name])
    if name in PRODUCTS:
        return PRODUCTS[name][0][0]
    return ROUNDED.get(name, types.none)


def _several(kind: types.Type, count: int) -> types.Type:
    return kind if count == 1 else types.UniTuple(kind, count)


# ---------------------------------------------------------------------- code
def piece_code(emitter: Emitter, node: ast.Call, name: str) -> str:
    """Code of a call in a lane program."""
    if name in hopper_types.INSTRUCTIONS:
        return hopper_types.instruction_code(emitter, node, name)
    site = emitter.site(node, ast.unparse(node.args[0]) if node.args else "")
    if name in LOADS or name in STORES or name in COPIES:
        codes = [emitter.expression(argument) for argument in node.args]
        for place in (1, 3) if name in COPIES else (1,):
            kind = plain(emitter.typing.of[node.args[place]])
            if not isinstance(kind, types.BaseTuple):
                codes[place] = f"({codes[place]},)"
        cached = ['"streaming"'] if name in STREAMING else ['"kept"'] if name in KEPT else []
        if name in LOADS:
            return emitter.operation("load_vector", *codes, LOADS[name], site, *cached)
        if name in STORES:
            return emitter.operation("store_vector", *codes, STORES[name], site, *cached)
        other = emitter.site(node, ast.unparse(node.args[2]))
        return emitter.operation("copy_async", *codes, COPIES[name], site, other)
    if name == "wait_copies":
        return emitter.operation("wait_copies", emitter.source.static(node.args[0]), site)
    codes = [
        emitter.operand(argument, kind)
        for argument, kind in zip(node.args, emitter.typing.operands[node], strict=True)
    ]
    if name in PRODUCTS:
        emitter.count("tensor", 2 * PRODUCTS[name][1])
    return emitter.operation(name, *codes, site)
