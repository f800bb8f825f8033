"""Types of the arrays that a kernel makes, and of the addresses of arrays."""

import ast
import math
from typing import Any

import numpy as np
from numba import types

from warpsim.front.names import MISSING, Source
from warpsim.front.numba_typing import of_dtype, plain

#: Bytes of a pointer: no alignment is smaller.
POINTER_BYTES = 8


class Pointer(types.Array):
    """``CPointer(dtype)``: elements from an address on, whose number the kernel does not know."""

    def __init__(self, dtype: types.Type):
        super().__init__(dtype, 1, "C")
        self.name = f"{dtype}*"


def declared(kind: types.Type) -> types.Type:
    """The type of an argument as a signature declares it."""
    if isinstance(kind, types.CPointer) and of_dtype(kind.dtype) is not None:
        return Pointer(kind.dtype)
    return plain(kind)


# ---------------------------------------------------------------------- shared and local arrays
def array_type(typer: Any, node: ast.Call, path: str) -> types.Type:
    """Type of ``cuda.shared.array`` or ``cuda.local.array``; notes its shape."""
    source = typer.source
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    shape_node = node.args[0] if node.args else named.get("shape")
    dtype_node = node.args[1] if len(node.args) > 1 else named.get("dtype")
    if shape_node is None or dtype_node is None:
        raise source.refused(node, f"cuda.{path} needs a shape and a dtype")
    dtype = constant_dtype(typer, dtype_node)
    if dtype is None:
        named, text = source.static(dtype_node), f"{ast.unparse(dtype_node)} is not an element type"
        if isinstance(named, str):
            raise source.refused(node, f"Invalid NumPy dtype specified: {named!r}")
        name = assigned_name(source, node)
        raise source.refused(node, f"Cannot infer the type of variable {name!r}: {text}")
    whole = None if isinstance(shape_node, ast.List) else typer.expression(shape_node)
    shape = () if whole == types.Tuple(()) else typer.literal(shape_node)
    if shape is MISSING:
        raise _no_such_shape(typer, node, path, shape_node, dtype)
    for keyword in node.keywords:
        if source.of_the_successor and keyword.arg == "alignas":
            keyword.arg = "alignment"
        if keyword.arg == "alignment":
            _check_alignment(source, node, source.static(keyword.value))
    sizes = shape if isinstance(shape, tuple) else (shape,)
    dynamic = path == "shared.array" and sizes == (0,)
    if math.prod(sizes) <= 0 and not dynamic:
        raise source.refused(node, f"array length <= 0: cuda.{path} of shape {shape}")
    typer.typing.shapes[node] = sizes
    typer.typing.operands[node] = (dtype,)
    return types.Array(dtype, len(sizes), "C")


def assigned_name(source: Source, node: ast.AST) -> str | None:
    """The variable that an expression is assigned to."""
    return source.once(_assigned).get(node)


def _assigned(source: Source) -> dict[ast.AST, str | None]:
    pairs = [(one.value, one.targets[0]) for one in source.nodes if isinstance(one, ast.Assign)]
    return {value: getattr(target, "id", None) for value, target in pairs}


def _no_such_shape(
    typer: Any, node: ast.Call, path: str, shape: ast.expr, dtype: types.Type
) -> Exception:
    """The error of a shape that is not known when the kernel is compiled, as Numba words it."""
    given = _shown(typer, shape)
    return typer.source.refused(
        node,
        f"No implementation of function Function(<function {path}>) found for signature:\n \n >>> "
        f"array(shape={given}, dtype=class({dtype}))\n\n"
        f"the shape of cuda.{path} must be a compile-time constant: a literal, or a name from "
        f"outside the kernel that holds an integer; {ast.unparse(shape)} is neither. Compute it "
        "outside and use its name",
    )


def _shown(typer: Any, node: ast.expr) -> str:
    if not isinstance(node, ast.List | ast.Tuple):
        return str(plain(typer.expression(node)))
    values = [typer.literal(element) for element in node.elts]
    kinds = [plain(typer.expression(element)) for element in node.elts]
    if isinstance(node, ast.Tuple):
        pairs = zip(values, kinds, strict=True)
        return str(types.Tuple([types.literal(v) if type(v) is int else k for v, k in pairs]))
    inner = kinds[0] if len(set(kinds)) == 1 else "?"
    return f"list({inner})" + ("" if MISSING in values else f"<iv={values}>")


def _check_alignment(source: Source, node: ast.Call, value: Any) -> None:
    if value is None:
        return
    if type(value) is not int:
        raise source.refused(node, "RequireLiteralValue: alignment must be a constant integer")
    for what, fits in (
        ("positive", value > 0), ("a power of 2", not value & (value - 1)),
        (f"a multiple of {POINTER_BYTES}", value % POINTER_BYTES == 0),
    ):  # fmt: skip
        if not fits:
            raise ValueError(f"Alignment must be {what}: it is {value}")


def constant_dtype(typer: Any, node: ast.expr) -> types.Type | None:
    """The element type named by ``float32``, ``np.float32`` or ``x.dtype``."""
    value = typer.source.static(node)
    if value is not MISSING:
        python = value in (bool, int, float, complex) if isinstance(value, type) else False
        return None if python or isinstance(value, np.ndarray) else of_dtype(value)
    if isinstance(node, ast.Attribute | ast.Name):
        kind = typer.expression(node)
        return kind.dtype if isinstance(kind, types.DType) else None
    return None
