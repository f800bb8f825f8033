"""CUDA's vector types, such as ``cuda.float32x4``, which a kernel sees as several numbers."""

from __future__ import annotations

import ast
from collections import namedtuple
from typing import TYPE_CHECKING

import numpy as np
from numba import types

if TYPE_CHECKING:
    from warpsim.code.emit import Emitter
    from warpsim.front.expressions import Expressions

_BASES = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64".split()
#: C's names of the same types: ``float4`` is ``float32x4``.
_C_NAMES = {
    "char": np.byte, "short": np.short, "int": np.intc, "long": np.int_, "longlong": np.longlong,
    "uchar": np.ubyte, "ushort": np.ushort, "uint": np.uintc, "ulong": np.uint,
    "ulonglong": np.ulonglong, "float": np.single, "double": np.double,
}  # fmt: skip
ALIASES = {
    f"{name}{count}": f"{np.dtype(kind).name}x{count}"
    for name, kind in _C_NAMES.items()
    for count in (1, 2, 3, 4)
}


class VectorType(types.NamedUniTuple):
    """One to four numbers of a type, named x, y, z and w; no tuple for a kernel."""

    def __init__(self, base: str, count: int):
        fields = namedtuple(f"{base}x{count}", [*"xyzw"][:count])
        super().__init__(getattr(types, base), count, fields)
        self.name = f"{base}x{count}"


VECTORS = {f"{base}x{count}": VectorType(base, count) for base in _BASES for count in (1, 2, 3, 4)}


def vector_type(typer: Expressions, node: ast.Call, name: str) -> types.Type:
    """Type of ``cuda.float32x4(...)`` of numbers and of shorter vectors of the same numbers."""
    vector, source = VECTORS[name], typer.source
    kinds = [typer.expression(argument) for argument in node.args]
    fits = all(
        kind.dtype == vector.dtype
        if isinstance(kind, VectorType)
        else isinstance(kind, types.Number | types.Boolean) and not isinstance(kind, types.Complex)
        for kind in kinds
    )
    count = sum(kind.count if isinstance(kind, VectorType) else 1 for kind in kinds)
    if not fits or count != vector.count or node.keywords:
        listed = ", ".join(str(kind) for kind in kinds)
        raise source.refused(
            node,
            f"No implementation of function {name} found for signature:\n\n >>> {name}({listed})"
            f"\n\nit takes {vector.count} numbers, or vectors of {vector.dtype} with so many",
        )
    return vector


def vector_code(emitter: Emitter, node: ast.Call, name: str) -> str:
    """Code of a vector: a tuple of its numbers."""
    parts = []
    for argument in node.args:
        if isinstance(emitter.typing.of[argument], VectorType):
            parts.append(f"*{emitter.expression(argument)}")
        else:
            parts.append(emitter.operand(argument, VECTORS[name].dtype))
    return f"({', '.join(parts)},)"
