"""bfloat16: the upper 16 bits of a float32, stored; neither NumPy nor core Numba has such a type.

In a kernel an element is read as ``float32(x[i])`` and written as a float32, which is rounded to
the nearest, ties to even: other arithmetic than that is refused, on a GPU and here. The simulator
carries the bits as uint16. An array of them has the dtype `BFLOAT16`, which tells it from one of
integers. `course.door.bfloat` says how the type is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.core.typeconv import Conversion


class Bfloat16(types.Number):
    """Numba's type of an element."""

    bitwidth = 16

    def __init__(self) -> None:
        super().__init__(name="bfloat16")

    def can_convert_from(self, typingctx: Any, other: types.Type) -> Conversion | None:
        """A float32 may be stored where a bfloat16 is, without a cast that is spelled."""
        return Conversion.unsafe if other == types.float32 else None


bfloat16 = Bfloat16()
#: What is said of other casts than those to float32 and from it.
ALONE = "a bfloat16 becomes a float32 and is made of one: float32(x), bfloat16(float32(y))"
#: What is said of a float16 as a truth value.
HALF = "Numba compares a float16 with 0.0 as an integer, which NVVM refuses: write x != 0"
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
