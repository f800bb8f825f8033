"""Types of attributes: of arrays, records, complex numbers, enumerations and named tuples."""

import ast
import difflib
from typing import Any

from numba import types

from warpsim.core.number_types import SCALARS
from warpsim.front.allocations import Pointer
from warpsim.front.names import KERNEL_NAMES, MISSING, KernelName, Source
from warpsim.front.numba_typing import attribute_type, dtype_of, of_value, plain


def transposed(kind: types.Array) -> types.Array:
    """The type of an array's transpose, as Numba has it."""
    return kind if kind.ndim < 2 else kind.copy(layout={"C": "F", "F": "C"}.get(kind.layout, "A"))


def _why_lacking(module: Any, name: str) -> str:
    """What a module says itself of something that it lacks, where it gives a reason."""
    try:
        getattr(module, name)
    except AttributeError as error:
        return str(error) if ": " in str(error) else ""
    return ""


class Attributes:
    """Attributes and the fields of records."""

    source: Source
    typing: Any

    @staticmethod
    def what_cuda_has(path: str) -> str:
        parts = sorted(n.rpartition(".")[2] for n in KERNEL_NAMES if n.startswith(f"{path}."))
        if not parts:
            name = path.removeprefix("pieces.") if path.startswith("pieces.") else f"cuda.{path}"
            return f"{name} is a function: call it, {name}(...)"
        return f"cuda.{path} has the parts {', '.join(parts)}: write cuda.{path}.{parts[0]}"

    def check_attribute(self, node: ast.expr) -> None:
        """Refuse an attribute that a module, or a name of CUDA, does not have."""
        if not isinstance(node, ast.Attribute) or self.source.static(node) is not MISSING:
            return
        root = self.source.static(node.value)
        if root is MISSING or hasattr(root, "__cuda_array_interface__"):
            return
        if not isinstance(root, KernelName | type | types.Type) and hasattr(root, node.attr):
            return  # of an array or a number from outside
        if isinstance(root, KernelName):
            known = [n.rpartition(".")[2] for n in KERNEL_NAMES if n.startswith(f"{root.path}.")]
        else:
            known = [n for n in {*dir(root), *KERNEL_NAMES} if "." not in n]
        if isinstance(root, type | types.Type) and hasattr(root, node.attr):
            raise self.source.refused(
                node, f"Unknown attribute {node.attr!r} of type class({ast.unparse(node.value)})"
            )
        why = _why_lacking(root, node.attr)
        if why:
            raise self.source.refused(node, why)
        close = difflib.get_close_matches(node.attr, known, n=1)
        hint = f"; did you mean {ast.unparse(node.value)}.{close[0]}?" if close else ""
        raise self.source.refused(
            node, f"{ast.unparse(node.value)} has no attribute {node.attr!r}{hint}"
        )

    def see_Attribute(self, node: ast.Attribute) -> types.Type:
        if self.source.static(node) is not MISSING:
            return self._static(node)
        self.check_attribute(node)
        kind, name = self.expression(node.value), node.attr
        found = None
        if node.value in self.typing.values:  # np.finfo(x.dtype).eps
            value = self.typing.values[node] = getattr(self.typing.values[node.value], name, None)
            found = of_value(value)
        elif isinstance(kind, types.Array):
            found = self._of_array(kind, name)
        elif isinstance(kind, types.DType) and name == "type":
            found = types.NumberClass(kind.dtype)
        elif isinstance(kind, types.ArrayCTypes) and name == "data":
            found = types.uintp
        elif isinstance(kind, types.Record):
            return self.field(node, kind, name)
        elif isinstance(kind, types.BaseNamedTuple) and name in kind.fields:
            found = kind[kind.fields.index(name)]
        elif isinstance(kind, types.Number | types.EnumMember) and name in (
            "real",
            "imag",
            "value",
        ):
            found = attribute_type(kind, name)
        if found is None:
            raise self.source.refused(node, f"Unknown attribute {name!r} of type {kind}")
        return plain(found)

    @staticmethod
    def _of_array(kind: types.Array, name: str) -> types.Type | None:
        if isinstance(kind, Pointer):
            return None
        if name == "ctypes":
            return types.ArrayCTypes(kind)
        if name in ("shape", "strides"):
            return types.UniTuple(types.intp, kind.ndim)
        if name in ("ndim", "size", "itemsize", "nbytes"):
            return types.intp
        if name == "dtype":
            return types.DType(kind.dtype)
        if name == "flat":
            return types.NumpyFlatType(kind)
        if name == "T":
            return transposed(kind)
        if name in ("real", "imag") and isinstance(kind.dtype, types.Complex):
            return kind.copy(dtype=attribute_type(kind.dtype, name), layout="A")
        if name == "real" and isinstance(kind.dtype, types.Number):
            return kind
        if isinstance(kind.dtype, types.Record) and name in kind.dtype.fields:
            return Attributes.of_field(kind.dtype, name, kind.ndim, not kind.mutable)
        return None

    def check_mutable(self, node: ast.AST, kind: types.Type) -> None:
        """Refuse to change an array that the host has marked as read-only."""
        if isinstance(kind, types.Array) and not kind.mutable:
            raise self.source.refused(
                node,
                f"Cannot modify readonly array of type: {kind}: it is a constant from outside the "
                "kernel, or one whose flags.writeable is False; give a copy",
            )

    def field(self, node: ast.expr, kind: types.Type, name: Any) -> types.Type:
        """Type of a record's field, or of one field of an array of records."""
        record = kind.dtype if isinstance(kind, types.Array) else kind
        count = len(record.fields)
        if type(name) is int and kind is record and -count <= name < count:
            name = list(record.fields)[name]
        if not isinstance(name, str) or name not in record.fields:
            listed = ", ".join(record.fields)
            raise self.source.refused(node, f"the record has no field {name!r}; it has {listed}")
        axes, readonly = (kind.ndim, not kind.mutable) if kind is not record else (0, False)
        found = self.of_field(record, name, axes, readonly)
        if found is None:
            raise self.source.unsupported(node, f"a field of type {record.typeof(name)}")
        element = found.dtype if isinstance(found, types.Array) else found
        if not isinstance(element, types.Record):
            if record.offset(name) % dtype_of(element).alignment:
                raise self.source.refused(
                    node,
                    f"{record}.{name} of type {element} is not aligned: make the dtype with "
                    "np.dtype(..., align=True)",
                )
        return found

    @staticmethod
    def of_field(
        record: types.Record, name: str, axes: int, readonly: bool = False
    ) -> types.Type | None:
        """Type of a field in so many axes of records; None if it has none here."""
        found, layout = record.typeof(name), "A" if axes else "C"
        if isinstance(found, types.NestedArray):
            found, axes = found.dtype, axes + found.ndim
        if not isinstance(found, SCALARS | types.Record):
            return None
        return types.Array(found, axes, layout, readonly) if axes else found
