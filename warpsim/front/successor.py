"""What numba-cuda-mlir, numba-cuda's successor, types otherwise than Numba.

The rules are those of release 0.6.0: what its typing context answers and what its PTX computes
(tests/warpsim/front/successor_answers.csv). A kernel is typed by them where the successor's ``jit``
decorates it.
"""

import math
import operator
from types import FunctionType
from typing import Any

from numba import types

from warpsim.core.number_types import bfloat16

NAME = "numba_cuda_mlir"
#: The release whose rules these are.
VERSION = "0.6.0"
#: Names of its types that Numba has not, or for another.
TYPES = {
    f"{letter}{bits}": getattr(types, f"{word}{bits}")
    for letter, word in (("i", "int"), ("u", "uint"), ("f", "float"))
    for bits in (8, 16, 32, 64)
    if (letter, bits) != ("f", 8)
} | {"bf16": bfloat16}
_BITWISE = (operator.and_, operator.or_, operator.xor)
_IN_FLOAT32 = (operator.add, operator.sub, operator.mul, operator.truediv, abs)
_WHOLE = types.Integer | types.Boolean
#: CUDA's functions of bits.
_BITS = ("popc", "clz", "ffs", "brev")


def mark(function: FunctionType) -> None:
    """Let the successor's rules type a function: its ``jit`` decorates it."""
    function._of_the_successor = True


def marked(function: FunctionType) -> bool:
    """Whether the successor's rules type a function."""
    return getattr(function, "_of_the_successor", False)


def retyped(function: Any, kinds: tuple, found: tuple | None) -> tuple | str | None:
    """Result and operand types of a call, where Numba has found its own; None if there is none.

    A sentence says why a call is refused of which the successor's type and code disagree.
    """
    first, alike = kinds[0], len(set(kinds)) == 1
    if function in _BITWISE and all(isinstance(kind, _WHOLE) for kind in kinds):
        if set(kinds) == {types.boolean}:
            return found
        of_bytes = [types.int8 if kind == types.boolean else kind for kind in kinds]
        signed = any(kind.signed for kind in of_bytes)
        wide = types.Integer.from_bitwidth(max(kind.bitwidth for kind in of_bytes), signed)
        return wide, (wide, wide)
    if function is operator.neg and isinstance(first, types.Integer) and first.bitwidth < 64:
        return types.int64, (types.Integer.from_bitwidth(first.bitwidth, signed=True),)
    if function is operator.pos and isinstance(first, types.Integer):
        return first, kinds
    if function in _IN_FLOAT32 and found is not None and found[0] == types.float16:
        return types.float32, (types.float32,) * len(kinds)
    if getattr(function, "__module__", "") != "math":
        return found
    if types.boolean in kinds:
        return None
    if function in (math.isnan, math.isinf, math.isfinite):
        return found
    if function in (math.floor, math.ceil, math.trunc):
        if isinstance(first, types.Integer):
            return first, kinds
        return (types.int64 if first == types.float64 else types.int32), kinds
    if function is math.ldexp:
        fits = isinstance(first, types.Float) and isinstance(kinds[1], types.Integer)
        return (first, (first, types.int32)) if fits else None
    if not alike or isinstance(first, types.Integer):
        called = f"math.{function.__name__}({', '.join(map(str, kinds))})"
        return (
            f"{called} has the type {first} in numba-cuda-mlir {VERSION}, whose code computes "
            f"another: give it floats of one type, such as float64(...)"
        )
    return (first, kinds) if first == types.float16 else found


def bits_retyped(path: str, kinds: tuple, found: Any) -> Any:
    """The same of a call of one of CUDA's names."""
    if path not in _BITS or len(kinds) != 1 or not isinstance(kinds[0], types.Integer):
        return None if path in _BITS else found
    if path in ("clz", "brev") and kinds[0].bitwidth < 32:
        return (
            f"cuda.{path}({kinds[0]}) takes 32 bits in numba-cuda-mlir {VERSION}: write "
            f"cuda.{path}(uint32(...))"
        )
    return (kinds[0] if path == "brev" else types.int32), kinds
