"""Code of attributes, indices and fields in a lane program."""

import ast
from itertools import accumulate, islice

from numba import types

from warpsim.core import operators
from warpsim.front.names import MISSING, KernelName
from warpsim.front.numba_typing import plain


class Accesses:
    """What the emitter writes for ``a.b`` and ``a[i]``."""

    def code_Attribute(self, node: ast.Attribute) -> str:
        value = self.source.static(node)
        if isinstance(value, KernelName):
            name = value.path.replace(".", "_")
            return "32" if name == "warpsize" else self.named(name)
        if value is not MISSING:
            return self.value(value, node)
        kind, name = self.typing.of[node.value], node.attr
        if node in self.typing.fields:
            return self._field_value(node)
        code = self.expression(node.value)
        if isinstance(kind, types.ArrayCTypes):
            return self.operation("address_of", code)
        if isinstance(kind, types.Array):
            if name in ("real", "imag") and isinstance(kind.dtype, types.Complex):
                return self.operation("component", code, repr(name))
            if name in ("ctypes", "flat", "real", "imag"):
                return code
            return f"{code}.{({'strides': 'byte_strides', 'T': 'transposed'}).get(name, name)}"
        if isinstance(kind, types.BaseNamedTuple):
            return f"{code}[{kind.fields.index(name)}]"
        if isinstance(kind, types.EnumMember | types.IntEnumMember):
            return code
        return f"({bare(code)}).{name}"

    def _field_value(self, node: ast.Attribute | ast.Subscript) -> str:
        code = self.field(node)
        if isinstance(self.typing.of[node], types.Array | types.Record):
            return code
        return self.operation("load", code, "()", self.site(node, ast.unparse(node)))

    def field(self, node: ast.Attribute | ast.Subscript) -> str:
        """Code of a field of a record, or of all records of an array, as an array."""
        return self.operation("field", self.expression(node.value), repr(self.typing.fields[node]))

    def holder(self, node: ast.Attribute | ast.Subscript) -> tuple[str, str]:
        """Code of what a target is stored in, a field or an array, and of the index there."""
        if node in self.typing.fields:
            return self.field(node), "()"
        return self.expression(node.value), self.index(node)

    def code_Subscript(self, node: ast.Subscript) -> str:
        value = self.source.static(node)
        if value is not MISSING:
            return self.value(value, node)
        base = self.typing.of[node.value]
        if node in self.typing.fields:
            return self._field_value(node)
        code = self.expression(node.value)
        if isinstance(base, types.BaseTuple):
            index = self.typing.values.get(node.slice, MISSING)
            floats = getattr(base, "dtype", None) == types.float32
            if type(index) is int and self.traced and floats:
                return self.operation("element", code, index, self.site(node))  # may be in flight
            if index is not MISSING:
                return f"{code}[{index!r}]"
            return self.operation("pick", code, self.expression(node.slice), self.site(node))
        site = self.site(node, ast.unparse(node.value))
        whole = isinstance(self.typing.of[node], types.Array | types.Record)
        return self.operation("view" if whole else "load", code, self.index(node), site)

    def index(self, node: ast.Subscript) -> str:
        """The index of an access as a tuple, one integer (or slice) a dimension."""
        if isinstance(self.typing.of[node.value], types.NumpyFlatType):
            place = self.operand(node.slice, types.int64)
            return self.operation("unravel", place, f"{self.expression(node.value)}.shape")
        nodes = self.typing.indices[node]
        if len(nodes) == 1 and isinstance(self.typing.of.get(nodes[0]), types.BaseTuple):
            return self.whole_index(nodes[0])
        return spelled_tuple([self._one_index(n) for n in nodes])

    def _one_index(self, node: ast.expr) -> str:
        if isinstance(node, ast.Slice):
            return f"slice({', '.join(map(self._limit, (node.lower, node.upper, node.step)))})"
        if self.typing.of[node] == types.none:
            return "None"
        return self.index_part(self.expression(node), self.typing.of[node])

    def _limit(self, node: ast.expr | None) -> str:
        """Code of a slice's limit; whole numbers need no conversion."""
        if node is None:
            return "None"
        whole = isinstance(plain(self.typing.of[node]), types.Integer | types.NoneType)
        return self.expression(node) if whole else self.operand(node, types.int64)

    def index_part(self, code: str, kind: types.Type) -> str:
        """Code of an index on one axis: only signed ones count from the end."""
        if plain(kind) == types.uint64:
            return f"unsigned_index({code})"
        return self.convert(code, kind, types.int64)

    def whole_index(self, node: ast.expr) -> str:
        """Code of a tuple that is the index of an element."""
        code, kinds = self.expression(node), [plain(kind) for kind in self.typing.of[node]]
        if all(isinstance(kind, types.Integer) and kind != types.uint64 for kind in kinds):
            return code
        parts = ", ".join(f"lambda x: {self.index_part('x', kind)}" for kind in kinds)
        return f"convert_tuple({code}, ({parts},))"

    def stored(self, code: str, kind: types.Type, element: types.Type) -> str:
        """Code of a value as an element holds it: of a byte's register the lower half."""
        code = self.convert(code, kind, element)
        wide = isinstance(plain(kind), types.Float) or plain(kind) == element
        narrow = element in (types.int8, types.uint8) and wide
        return f"{operators.name_of(element)}({bare(code)})" if narrow else code

    def store(self, target: ast.expr, code: str, kind: types.Type, site: int) -> None:
        """Write the line that sets an element, a field, a whole record or a slice."""
        wanted, (base, index) = self.typing.targets[target], self.holder(target)
        if isinstance(wanted, types.Record):
            self.line(self.operation("store_record", base, index, code, site))
        elif not isinstance(wanted, types.Array):
            code = bare(self.stored(code, kind, wanted))
            self.line(self.operation("store", base, index, code, site))
        else:
            if target not in self.typing.fields:
                base = self.operation("view", base, index, site)
            convert = "None"
            if not isinstance(wanted.dtype, types.Record):
                convert = operators.name_of(wanted.dtype)
                if isinstance(kind, types.BaseTuple):
                    code = self.convert(code, kind, types.UniTuple(wanted.dtype, len(kind)))
                elif not isinstance(kind, types.Array):
                    code = bare(self.stored(code, kind, wanted.dtype))
            self.line(self.operation("store_all", base, code, site, convert))


def spelled_tuple(parts: list[str]) -> str:
    """Code of a tuple of expressions."""
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def bare(code: str) -> str:
    """Code without the parentheses around all of it, for places that need none."""
    if not code.startswith("("):
        return code
    depths = accumulate((letter == "(") - (letter == ")") for letter in code)
    inside, whole = code[1:-1], all(islice(depths, len(code) - 1))
    return inside if whole and inside and "," not in inside else code
