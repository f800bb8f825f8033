"""Types of numbers that NumPy or core Numba lack, or that a kernel sees as something else.

bfloat16 is the upper 16 bits of a float32, stored. In a kernel an element is read as
``float32(x[i])`` and written as a float32, which is rounded to the nearest, ties to even: other
arithmetic than that is refused, on a GPU and here. The simulator carries the bits as uint16. An
array of them has the dtype `BFLOAT16`, which tells it from one of integers. `warpsim.ptx.bfloat16`
says how the type is compiled.

With dates and times, ``datetime64`` and ``timedelta64``, NumPy computes as Numba does. CUDA's
vector types, such as ``cuda.float32x4``, are several numbers to a kernel.
"""

import ast
from collections import namedtuple
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numba.core.typeconv import Conversion


# ---------------------------------------------------------------------- bfloat16
class Bfloat16(types.Number):
    """Numba's type of an element."""

    bitwidth = 16

    def __init__(self) -> None:
        super().__init__(name="bfloat16")

    def can_convert_from(self, typingctx: Any, other: types.Type) -> Conversion | None:
        """A float32 may be stored where a bfloat16 is, without a cast that is spelled."""
        return Conversion.unsafe if other == types.float32 else None


bfloat16 = Bfloat16()
#: What is said of a float16 as a truth value, and of the casts that a bfloat16 has not.
NOT_CAST = {
    types.float16: "Numba compares a float16 with 0.0 as an integer, which NVVM refuses: write "
    "x != 0",
    bfloat16: "a bfloat16 becomes a float32 and is made of one: float32(x), bfloat16(float32(y))",
}
#: The dtype of arrays of them.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])


def castable(old: types.Type, new: types.Type) -> bool:
    """Whether a cast makes one of the other: of bfloat16 only float32, and back."""
    if (old, new) == (types.float16, types.boolean):
        return False
    return bfloat16 not in (old, new) or old == new or types.float32 in (old, new)


def storable(old: types.Type, new: types.Type) -> bool:
    """Whether an element of one type takes the other as it is: a bfloat16 takes float32 alone."""
    return castable(old, new) and (old != bfloat16 or new == bfloat16)


_QUIET, _INFINITE = np.uint32(0x40), np.uint32(0x7F800000)


def widened(x: Any) -> Any:
    """The float32 of bits, a number or an array of them."""
    return (np.asarray(x, np.uint32) << np.uint32(16)).view(np.float32)[()]


def rounded(x: Any) -> Any:
    """The bits of float32 numbers, rounded to the nearest, ties to even; NaN stays NaN."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    upper = bits >> np.uint32(16)
    near = (bits + (np.uint32(0x7FFF) + (upper & np.uint32(1)))) >> np.uint32(16)
    nan = (bits & np.uint32(0x7FFFFFFF)) > _INFINITE
    found = np.where(nan, upper | _QUIET, near).astype(np.uint16)
    return found if found.ndim else int(found)


# ---------------------------------------------------------------------- dates and times
DATES = types.NPDatetime | types.NPTimedelta
#: Types of one value that arrays and variables may hold.
SCALARS = types.Number | types.Boolean | DATES
#: Types that Numba makes a whole number of wherever it needs one.
REAL = types.Integer | types.Float | types.Boolean


@cache
def date_dtype(kind: types.Type) -> np.dtype:
    """The NumPy dtype of a date's or a duration's type."""
    letter = "M8" if isinstance(kind, types.NPDatetime) else "m8"
    return np.dtype(f"{letter}[{kind.unit}]" if kind.unit else letter)


@cache
def date_converter(kind: types.Type) -> Callable:
    """The function that gives values of any unit the unit of a type."""
    dtype = date_dtype(kind)

    def convert(x):
        return x.astype(dtype) if hasattr(x, "astype") else np.asarray(x, dtype)[()]

    convert.__name__ = str(kind)
    return convert


def date_storable(given: types.Type, wanted: types.Type) -> bool:
    """May a value be stored as an element: both dates, or both durations?"""
    return isinstance(given, DATES) and type(given) is type(wanted)


def namespace(name: str, calls: dict[str, tuple]) -> dict[str, tuple[int, int, Callable]]:
    """A part of ``cuda`` whose functions convert any real number to what they take.

    ``calls`` gives the type of each one's result and those of its operands. Returns them as
    :data:`warpsim.front.cuda_names.FUNCTIONS` has them.
    """

    def typed(call: tuple) -> Callable:
        return lambda *given: call if all(isinstance(kind, REAL) for kind in given) else None

    return {f"{name}.{f}": (len(call[1]), len(call[1]), typed(call)) for f, call in calls.items()}


# ---------------------------------------------------------------------- CUDA's vector types
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


def vector_type(typer: Any, node: ast.Call, name: str) -> types.Type:
    """Type of ``cuda.float32x4(...)`` of numbers and of shorter vectors of the same numbers."""
    vector = VECTORS[name]
    kinds = [typer.expression(argument) for argument in node.args]
    of = [kind for kind in kinds if isinstance(kind, VectorType)]
    alone = [kind for kind in kinds if not isinstance(kind, VectorType)]
    fits = all(kind.dtype == vector.dtype for kind in of)
    fits &= all(isinstance(kind, types.Number | types.Boolean) for kind in alone)
    fits &= not any(isinstance(kind, types.Complex) for kind in alone)
    count = len(alone) + sum(kind.count for kind in of)
    if not fits or count != vector.count or node.keywords:
        why = f"it takes {vector.count} numbers, or vectors of {vector.dtype} with so many"
        raise typer.call_refused(node, name, kinds, why)
    return vector


def vector_code(emitter: Any, node: ast.Call, name: str) -> str:
    """Code of a vector: a tuple of its numbers."""
    parts = []
    for argument in node.args:
        if isinstance(emitter.typing.of[argument], VectorType):
            parts.append(f"*{emitter.expression(argument)}")
        else:
            parts.append(emitter.operand(argument, VECTORS[name].dtype))
    return f"({', '.join(parts)},)"
