"""How Numba compiles bfloat16: 16 bits that become a float32 where they are read.

A kernel needs nothing of this file: ``float32(x[i])`` and ``out[i] = y`` are the same for float32,
float16 and bfloat16. `warpsim.core.number_types` is the type, and what the simulator makes of it:
the upper half of a float32. From compute capability 8.0 on a GPU rounds by one instruction, older
ones by nine of integers, which takes GELU longer than its memory traffic.

Source: NVIDIA, PTX ISA: cvt; Numba, "Low-level extension API".
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.targetconfig import ConfigStack

from warpsim.core.number_types import BFLOAT16, Bfloat16, bfloat16

__all__ = ["BFLOAT16", "Bfloat16", "bfloat16"]

_SHORT, _WORD, _FLOAT = ir.IntType(16), ir.IntType(32), ir.FloatType()


def _widened(context: Any, builder: Any, old: Any, new: Any, value: Any) -> Any:
    """The bits, and 16 zeros below them."""
    bits = builder.shl(builder.zext(value, _WORD), _WORD(16))
    return builder.bitcast(bits, _FLOAT)


def _rounded(context: Any, builder: Any, old: Any, new: Any, value: Any) -> Any:
    """To the nearest, ties to even; NaN stays NaN, quiet: ``fastmath`` asks for its bits."""
    if ConfigStack().top().compute_capability >= (8, 0):
        kind = ir.FunctionType(_SHORT, [_FLOAT])
        return builder.call(ir.InlineAsm(kind, "cvt.rn.bf16.f32 $0, $1;", "=h,f"), [value])
    bits = builder.bitcast(value, _WORD)
    upper = builder.lshr(bits, _WORD(16))
    less_than_half = builder.add(bits, _WORD(0x7FFF))
    near = builder.add(less_than_half, builder.and_(upper, _WORD(1)))
    near = builder.lshr(near, _WORD(16))
    size = builder.and_(bits, _WORD(0x7FFFFFFF))
    is_nan = builder.icmp_unsigned(">", size, _WORD(0x7F800000))
    return builder.trunc(builder.select(is_nan, builder.or_(upper, _WORD(0x40)), near), _SHORT)


def _register() -> None:
    """Tell numba.cuda; where it is missing, nothing is compiled."""
    try:
        from numba.cuda.cudaimpl import registry
        from numba.cuda.datamodel.models import PrimitiveModel, StructModel
        from numba.cuda.models import register_model
    except (ImportError, AttributeError):  # of the latter kind where Numba's simulator stands in
        return

    class Bits(PrimitiveModel):
        """An integer of 16 bits."""

        def __init__(self, dmm: Any, kind: Any):
            self._dmm, self._fe_type, self.be_type = dmm, kind, _SHORT

    # numba.cuda makes local arrays of numbers that it knows, and of structures: so it is called one
    same = {name: getattr(Bits, name) for name in dir(Bits) if not name.startswith("__")}
    register_model(Bfloat16)(type("Bits", (Bits, StructModel), same))
    registry.lower_cast(Bfloat16, types.float32)(_widened)
    registry.lower_cast(types.float32, Bfloat16)(_rounded)


_register()
