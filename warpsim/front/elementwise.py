"""NumPy ufuncs with an output array in a kernel: each thread works on all elements."""

import ast
from collections.abc import Hashable
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import ufunc_find_matching_loop

from warpsim.core import operators
from warpsim.front.numba_typing import dtype_of, method_type, resolve


def ufunc_type(typer: Any, node: ast.Call, function: np.ufunc, arguments: tuple) -> types.Type:
    """Type of ``np.add(x, y, out)``; notes the types that the loop works with."""
    name = ast.unparse(node.func)
    inputs, outputs = arguments[: function.nin], arguments[function.nin :]
    if not outputs:
        raise typer.source.refused(
            node,
            f"{name} of an array makes a new array, which a kernel has no memory for: give it an "
            f"array for the result, {name}(x, out), or loop over the elements",
        )
    if len(outputs) != 1 or function.nout != 1:
        raise typer.source.unsupported(node, f"{name} with {len(outputs)} arrays for results")
    fits = isinstance(outputs[0], types.Array) and all(
        not isinstance(kind, types.Array) or kind.ndim <= outputs[0].ndim for kind in inputs
    )
    plainly = tuple(
        types.Array(kind.dtype, kind.ndim, "C") if isinstance(kind, types.Array) else kind
        for kind in arguments
    )
    found = resolve(function, plainly) if fits else None
    elements = [kind.dtype if isinstance(kind, types.Array) else kind for kind in arguments]
    loop = ufunc_find_matching_loop(function, elements) if found is not None else None
    if loop is None:
        raise typer.call_refused(node, name, arguments)
    typer.check_mutable(node, outputs[0])
    typer.typing.operands[node] = (*loop.inputs, *loop.outputs)
    return outputs[0]


def ufunc_code(emitter: Any, node: ast.Call, function: np.ufunc) -> str:
    """Code of a ufunc with an output array."""
    typing, count = emitter.typing, function.nin
    kinds = typing.operands[node]
    run = emitter.constant(
        operators.Made(operators.library, (function, dtype_of(kinds[count]))),
        f"{function.__name__} of {kinds[:count]}",
    )
    inputs = []
    for argument, kind in zip(node.args, kinds[:count], strict=False):
        if isinstance(typing.of[argument], types.Array):
            inputs.append(f"({operators.name_of(kind)}, {emitter.expression(argument)})")
        else:
            inputs.append(f"(None, {emitter.operand(argument, kind)})")
    out = node.args[count]
    convert = operators.name_of(typing.of[out].dtype)
    site = emitter.site(node)
    return emitter.operation("ufunc", run, emitter.expression(out), convert, site, *inputs)


#: NumPy's functions, and the methods of arrays, that make one number of an array.
REDUCTIONS = {
    getattr(np, name): name
    for name in ("sum", "mean", "prod", "any", "all", "argmin", "argmax", "var", "std")
}


def is_reduction(function: Any) -> bool:
    """Is it one of NumPy's functions that make one number of an array?"""
    return isinstance(function, Hashable) and function in REDUCTIONS


def total_type(typer: Any, node: ast.Call, kind: types.Array, name: str) -> types.Type:
    """Type of ``x.sum()`` and its like: each thread goes through the whole array."""
    plainly = types.Array(kind.dtype, kind.ndim, "C")
    number = isinstance(kind.dtype, types.Number | types.Boolean)
    found = method_type(plainly, name) if number else None
    if not isinstance(found, types.Number | types.Boolean):
        raise typer.source.refused(node, f"No implementation of function {name} of {kind}")
    typer.typing.operands[node] = (found,)
    return found


def total_code(emitter: Any, node: ast.Call, array: ast.expr, name: str) -> str:
    """Code of a reduction of an array."""
    kind = emitter.typing.of[node]
    heading, site = operators.group_of(kind), emitter.site(node, ast.unparse(array))
    convert = operators.name_of(kind)
    code = emitter.expression(array)
    if name not in ("sum", "mean"):
        return emitter.operation("reduced", repr(name), code, convert, repr(heading), site)
    return emitter.operation("total", code, convert, name == "mean", repr(heading), site)
