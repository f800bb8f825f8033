"""Division of int32 in 32 bits; Numba's own ``//`` divides 64 bits, by a call.

Source: NVIDIA, PTX ISA, "Integer arithmetic instructions": div, rem.
"""

import numpy as np

from warpsim.ptx.instruction import i4, instruction


class Integers:
    """What the running threads divide."""

    def quotient(self, x, y, site: int):
        """Division of int32 that cuts off; by zero it gives anything, as the hardware does."""
        with np.errstate(all="ignore"):
            wide, by = np.int64(x), np.where(np.asarray(y) == 0, 1, np.int64(y))
            whole = np.abs(wide) // np.abs(by) * np.sign(wide) * np.sign(by)
        return whole.astype(np.int32) if np.ndim(whole) else int(whole)

    def remainder(self, x, y, site: int):
        rest = x - self.quotient(x, y, site) * y
        return rest if np.ndim(rest) else int(rest)


@instruction("i4 i4", i4, twin=Integers.quotient)
def quotient(x, y):
    """``quotient(x, y)``: x / y of int32, cut towards zero as in C; y is not 0."""
    return lambda context, builder, signature, args: builder.sdiv(*args)


@instruction("i4 i4", i4, twin=Integers.remainder)
def remainder(x, y):
    """``remainder(x, y)``: what `quotient` leaves, with the sign of x."""
    return lambda context, builder, signature, args: builder.srem(*args)
