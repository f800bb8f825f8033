"""Types of attributes: of arrays, records, complex numbers, enumerations and named tuples."""

import ast
import difflib
from typing import Any

from numba import types
from numba.core.typing.arraydecl import ArrayAttribute

from warpsim.core.number_types import SCALARS
from warpsim.front.allocations import Pointer
from warpsim.front.names import KERNEL_NAMES, MISSING, KernelName
from warpsim.front.numba_typing import attribute_type, dtype_of, of_value, plain

#: What Numba says itself of an array's attributes.
_NUMBAS = ArrayAttribute(None)
_OF_ARRAYS = "shape strides ndim size itemsize nbytes dtype flat ctypes T".split()


def _parts_of(path: str) -> list[str]:
    return [name.rpartition(".")[2] for name in KERNEL_NAMES if name.startswith(f"{path}.")]


class Attributes:
    """Attributes and the fields of records."""

    @staticmethod
    def what_cuda_has(path: str) -> str:
        parts = sorted(_parts_of(path))
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
        name = ast.unparse(node.value)
        if not isinstance(root, KernelName) and hasattr(root, node.attr):
            if isinstance(root, type | types.Type):
                text = f"Unknown attribute {node.attr!r} of type class({name})"
                raise self.source.refused(node, text)
            return  # of an array or a number from outside
        if isinstance(root, KernelName):
            known = _parts_of(root.path)
        else:
            known = [n for n in {*dir(root), *KERNEL_NAMES} if "." not in n]
        close = difflib.get_close_matches(node.attr, known, n=1)
        hint = f"; did you mean {name}.{close[0]}?" if close else ""
        why = f"{name} has no attribute {node.attr!r}{hint}"
        try:
            getattr(root, node.attr)
        except AttributeError as error:  # a module may give a reason itself
            why = str(error) if ": " in str(error) else why
        raise self.source.refused(node, why)

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
            found = self.of_array(kind, name)
            if isinstance(kind.dtype, types.Record) and name not in _OF_ARRAYS:
                self.typing.fields[node] = name
        elif isinstance(kind, types.DType) and name == "type":
            found = types.NumberClass(kind.dtype)
        elif isinstance(kind, types.ArrayCTypes) and name == "data":
            found = types.uintp
        elif isinstance(kind, types.Record):
            return self.field(node, kind, name)
        elif isinstance(kind, types.BaseNamedTuple) and name in kind.fields:
            found = kind[kind.fields.index(name)]
        elif isinstance(kind, types.Number | types.EnumMember):
            found = attribute_type(kind, name) if name in ("real", "imag", "value") else None
        if found is None:
            raise self.source.refused(node, f"Unknown attribute {name!r} of type {kind}")
        return plain(found)

    @staticmethod
    def of_array(kind: types.Array, name: str) -> types.Type | None:
        if isinstance(kind, Pointer):
            return None
        parts = isinstance(kind.dtype, types.Complex) and name in ("real", "imag")
        if name in _OF_ARRAYS or parts:
            return getattr(_NUMBAS, f"resolve_{name}")(kind)
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
        record_in_it = isinstance(element, types.Record)
        if not record_in_it and record.offset(name) % dtype_of(element).alignment:
            raise self.source.refused(
                node,
                f"{record}.{name} of type {element} is not aligned: make the dtype with "
                "np.dtype(..., align=True)",
            )
        self.typing.fields[node] = name
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
