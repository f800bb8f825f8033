"""Arithmetic and conversions of ``cuda.libdevice`` that round in a chosen direction.

The exact result is a fraction; from it the mode takes the float or the integer: to nearest (rn),
down (rd), up (ru) or towards zero (rz).
"""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

#: mode -> a float's nearest integer in that direction
WHOLE = {"rn": np.rint, "rd": np.floor, "ru": np.ceil, "rz": np.trunc}


def to_float(exact: Fraction, mode: str, kind: type) -> np.floating:
    """The float of a kind (np.float32, np.float64) that an exact number is rounded to."""
    try:
        near = kind(float(exact))
    except OverflowError:
        near = kind(math.inf if exact > 0 else -math.inf)
    if np.isfinite(near) and Fraction(float(near)) == exact:
        return near
    low = near if float(near) < exact else np.nextafter(near, kind(-np.inf))
    high = np.nextafter(low, kind(np.inf))
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    if mode != "rn":
        return low if mode == "rd" else high
    if not (np.isfinite(low) and np.isfinite(high)):
        return near
    below, above = exact - Fraction(float(low)), Fraction(float(high)) - exact
    even = int(low.view(f"u{low.itemsize}")) % 2 == 0
    return low if below < above or (below == above and even) else high


def _root(x: Fraction) -> Fraction:
    """A square root, exact or with 128 bits more than a float has and one below them."""
    shift = 1 << 2 * 1300  # a float's denominator is at most 2**1074
    whole = math.isqrt(int(x * shift))
    found = Fraction(whole, 1 << 1300)
    return found if found * found == x else found + Fraction(1, 1 << 1301)


#: name -> (exact result, as floats have it where that is no number)
_EXACT: dict[str, tuple[Callable, Callable]] = {
    "add": (lambda a, b: a + b, np.add),
    "sub": (lambda a, b: a - b, np.subtract),
    "mul": (lambda a, b: a * b, np.multiply),
    "div": (lambda a, b: a / b, np.divide),
    "rcp": (lambda a: 1 / a, np.reciprocal),
    "sqrt": (_root, np.sqrt),
    "fma": (lambda a, b, c: a * b + c, lambda a, b, c: a * b + c),
}


def operation(name: str, mode: str, kind: type) -> Callable:
    """``__nv_dadd_rd`` and its like, on lanes of a kind of float."""
    exactly, plainly = _EXACT[name]

    def one(*values):
        rough = plainly(*map(kind, values))
        if not np.isfinite(values).all() or (name in ("div", "rcp") and values[-1] == 0):
            return rough
        exact = (
            exactly(*map(Fraction, map(float, values))) if name != "sqrt" or values[0] > 0 else 0
        )
        if exact:
            return to_float(exact, mode, kind)
        if name in ("add", "sub", "fma") and mode == "rd":  # x - x is -0 only when rounded down
            terms = (values[0] * values[1], values[2]) if name == "fma" else values
            signs = [math.copysign(1, term) for term in terms]
            return kind(0.0 if (signs[0] > 0) and (signs[1] > 0) != (name == "sub") else -0.0)
        return rough

    return np.vectorize(one, otypes=[kind])


def to_kind(mode: str, kind: type, unsigned: int = 0) -> Callable:
    """``__nv_double2float_rd``, ``__nv_uint2float_rz``; of unsigned integers the number of bits."""
    mask = (1 << unsigned) - 1 if unsigned else -1

    def one(x):
        if isinstance(x, float | np.floating):
            exact = Fraction(float(x)) if np.isfinite(x) else 0
        else:
            exact = Fraction(int(x) & mask)
        return to_float(exact, mode, kind) if exact else kind(x)

    return np.vectorize(one, otypes=[kind])


def to_integer(mode: str, bits: int, signed: bool, from_double: bool) -> Callable:
    """``__nv_float2int_rz`` and its like, saturated; what an unsigned one gives is its bits.

    NaN is 0 from float32 to 32 bits, else the number whose first bit alone is set. Source: PTX ISA,
    cvt.
    """
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    of_nan = 1 << bits - 1 if from_double or bits == 64 else 0
    wide, own = (np.uint32, np.int32) if bits == 32 else (np.uint64, np.int64)

    def one(x):
        if x != x:
            return wide(of_nan).view(own)
        number = high if x >= high else low if x <= low else int(WHOLE[mode](np.float64(x)))
        return wide(number % (1 << bits)).view(own)

    return np.vectorize(one, otypes=[own])
