"""Arithmetic of a lane program: what Python's or NumPy's operators do differently from a GPU.

A value is either uniform (a Python int, float, bool or complex, or a NumPy float16/float32 scalar)
or an array with one element a lane. Integers wrap, division by zero gives infinity (integers: 0),
float min and max ignore NaN, conversions of floats to integers saturate. The rules are read off the
PTX that numba-cuda 0.30.4 makes.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numba import types
from numpy import ndarray

from warpsim.core import arithmetic
from warpsim.core.arithmetic import brev, clz, ffs, fma, popc
from warpsim.core.number_types import DATES, bfloat16, date_converter, rounded, widened

_I8, _U8, _F8, _B = (np.dtype(name) for name in ("int64", "uint64", "float64", "bool"))


@dataclass(frozen=True)
class Made:
    """A value that lane programs find outside themselves and no file can hold: what makes it."""

    maker: Callable
    given: tuple


#: The value of a variable that no thread has set yet.
UNSET: Any = type("Unset", (), {"__repr__": lambda self: "UNSET"})()


# ---------------------------------------------------------------------- integers
_LOWEST = -0x8000000000000000
_SHIFTS = 0xFFFFFFFF  # the bits of a count that shl and shr look at
_SQUARED = 0x10000  # the largest exponent of squares


def wrap(x):
    """An int64 result: Python's unbounded integers wrap as the hardware's do."""
    if type(x) is int and not _LOWEST <= x <= 0x7FFFFFFFFFFFFFFF:
        x &= 0xFFFFFFFFFFFFFFFF
        return x - (1 << 64) if x >> 63 else x
    return x


def wrap_unsigned(x):
    """A uint64 result."""
    return x & 0xFFFFFFFFFFFFFFFF if type(x) is int else x


def _power_of_two(x) -> bool:
    return type(x) is int and x > 0 and x & (x - 1) == 0


def floor_divide(a, b):
    """``a // b``; of integers by zero, and of the lowest one by -1, it is 0."""
    if type(a) is int and type(b) is int:
        return a // b if b > 0 or b < -1 or b and a != _LOWEST else 0
    if _kind(a) not in "iu":
        return _divided(a, b)[0]
    if _power_of_two(b) and a.dtype == _I8:
        return a >> (b.bit_length() - 1)
    quotient = np.floor_divide(a, b)
    if _any(b == -1) and quotient.dtype == _I8:
        return np.where((quotient == _LOWEST) & (b == -1), 0, quotient)
    return quotient


def remainder(a, b):
    """``a % b``; of integers by zero it is 0."""
    if type(a) is int and type(b) is int:
        return a % b if b else 0
    if _kind(a) not in "iu":
        return _divided(a, b)[1]
    if _power_of_two(b) and a.dtype == _I8:
        return a & (b - 1)
    return np.remainder(a, b)


def _divided(a, b) -> tuple:
    """Quotient and remainder of floats.

    The machine has no remainder of floats: what its quotient, rounded down, leaves stands for it.
    Far from zero that may have any sign and size, and of a number by infinity it is NaN.
    """
    x, y = np.asarray(a), np.asarray(b)
    size = np.abs(y)
    rest = fma(-np.floor(np.abs(x) / size), size, np.abs(x))
    rest = np.where(x < 0, -rest, rest)
    exact = (x - rest) / y
    apart = (rest != 0) & ((y < 0) != (rest < 0))
    exact = np.where(apart, exact - 1, exact)
    whole = np.floor(exact)
    whole = np.where(exact - whole > 0.5, whole + 1, whole)
    whole = np.where((exact < 0) | (exact > 0), whole, exact * exact * x / y)
    zero = np.where(y < 0, -0.0, 0.0).astype(x.dtype)
    rest = np.where(rest != 0, np.where(apart, rest + y, rest), zero)
    return _like(np.where(y == 0, x / y, whole), x, a, b), _like(rest, x, a, b)


def _like(values, x, *operands):
    """Results in the type of ``x``: an array if an operand is one, else a uniform value."""
    if any(type(operand) is ndarray for operand in operands):
        return values.astype(x.dtype, copy=False)
    return CONVERT_DTYPE[x.dtype](x.dtype.type(values))


def divide(a, b):
    """``a / b`` of floats and complex numbers."""
    if type(a) is float and type(b) is float:
        return a / b if b else float(np.float64(a) / b)
    return arithmetic.complex_divide(a, b) if _kind(a) == "c" else a / b


def shift_left(a, b, convert):
    """``a << b``; the count is unsigned, and beyond the width no bit is left."""
    return _shifted(operator.lshift, np.left_shift, a, b, convert)


def shift_right(a, b, convert):
    """``a >> b``; beyond the width only signs are left."""
    return _shifted(operator.rshift, np.right_shift, a, b, convert)


def _shifted(python: Callable, numpy: Callable, a, b, convert):
    if type(b) is int:
        b = b if 0 <= b < 64 else min(b & _SHIFTS, 64)
        return convert(python(a, b)) if type(a) is int else numpy(a, b)
    dtype = np.dtype(convert.__name__)
    return numpy(np.asarray(a, dtype), b.astype(dtype, copy=False) & _SHIFTS)


def power(a, b, convert, bits=0):
    """``a ** b`` as the compiler makes it: by squares for a whole exponent, of so many bits.

    0 to a negative power is the lowest int64. At the lowest exponent a thread ends; here it is 0.
    """
    if type(b) is int and 0 <= b <= _SQUARED:
        return _by_squares(a, b, convert)
    if _kind(a) == "c":
        return convert(arithmetic.complex_power(a, b))
    if not bits:
        return convert(np.float_power(a, b))  # np.power's shortcut for 0.5 makes NaN of -inf
    size, integers = abs(b), _kind(a) in "iu"
    a = convert(a)
    if type(b) is ndarray and type(a) is not ndarray:
        a = np.full(b.shape, a, np.dtype(convert.__name__))
    far = (size > _SQUARED) | (size < 0)
    result = _by_squares(a, size if type(b) is int else np.where(far, 0, size), convert)
    if _any(far):
        result = selp(far, convert(np.power(float64(a), float64(b))), result)
        result = selp(b == -1 << (bits - 1), convert(0), result)
    if not _any(b < 0):
        return result
    if not integers:
        return selp((b < 0) & ~far, convert(divide(1.0, float64(result))), result)
    minus = selp(far, result, 1 - 2 * (b & 1))
    unit = selp(a == 1, 1, selp(a == -1, minus, selp(a == 0, _LOWEST, 0)))
    return convert(selp((b < 0) & (b != -1 << (bits - 1)), unit, result))


def _by_squares(a, exponent, convert):
    square, one = convert(a), convert(1)
    result = one
    while True:
        odd, exponent = exponent & 1, exponent >> 1
        if type(odd) is not int:
            result = selp(odd, _narrowed(result * square, convert), result)
        elif odd:
            result = square if result is one else _narrowed(result * square, convert)
        if not _any(exponent):
            return result
        square = _narrowed(square * square, convert)


def _any(x) -> bool:
    return bool(x.any() if type(x) is ndarray else x)


def _narrowed(x, convert):
    return convert(x) if type(x) is int else x


_KINDS = {int: "i", float: "f", bool: "b", complex: "c"}


def _kind(x) -> str:
    return x.dtype.kind if hasattr(x, "dtype") else _KINDS[type(x)]


# ---------------------------------------------------------------------- any number
def truth(x):
    if type(x) is ndarray:
        return x if x.dtype == _B else x != 0
    return bool(x)


def negate(x):
    return ~x if type(x) is ndarray else not x


def negative(x):
    """-x; integers wrap."""
    return wrap(-x) if type(x) is int else -x


def absolute(x):
    return wrap(abs(x)) if type(x) is int else abs(x)


def smaller(a, b):
    """The smaller of two numbers; the first where they do not compare."""
    return selp(b < a, b, a)


def larger(a, b):
    return selp(b > a, b, a)


def minimum(a, b):
    """The smaller of two numbers; of a NaN the other one."""
    if type(a) is not ndarray and type(b) is not ndarray:
        return b if b < a or a != a else a
    return np.fmin(a, b)


def maximum(a, b):
    if type(a) is not ndarray and type(b) is not ndarray:
        return b if b > a or a != a else a
    return np.fmax(a, b)


def rint(x, digits=None):
    """Round half to even; to a number of decimals through an int64, as the compiler does it."""
    if digits is None:
        return np.rint(x)
    few, up = np.minimum(digits, 22), np.asarray(digits) >= 0
    first = np.where(up, power(10.0, np.asarray(few), float64), 1.0)
    second = np.where(up, power(10.0, np.asarray(digits) - few, float64), 1.0)
    down = np.where(up, 1.0, power(10.0, -np.asarray(digits), float64))
    scaled = np.float64(x) * first * second / down
    result = int64(np.rint(scaled)) / second / first * down
    lost = ~np.isfinite(x) | up & np.isinf(scaled)
    return _like(np.where(lost, x, result), np.asarray(x), x, digits)


def complex_of(real, imaginary, dtype):
    """``complex(a, b)``: both parts as they are, infinities and NaNs too."""
    if type(real) is not ndarray and type(imaginary) is not ndarray:
        return CONVERT_DTYPE[np.dtype(dtype)](complex(real, imaginary))
    value = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imaginary)), dtype)
    value.real, value.imag = real, imaginary
    return value


def selp(test, a, b):
    if type(test) is not ndarray:
        return a if test else b
    return np.where(test != 0, _unsigned(a), _unsigned(b))


def convert_tuple(values, functions):
    return tuple(function(value) for function, value in zip(functions, values, strict=True))


# ---------------------------------------------------------------------- conversions
def _to_integer(dtype: np.dtype) -> Callable:
    """Conversion to an integer type.

    Of floats it rounds towards zero (of float16 to nearest) and saturates; NaN gives 0, or only the
    highest bit where float64 or 64 bits take part. Bytes are made of floats in a register of 16
    bits, whose upper half is lost at a store. Source: the compiler's cvt, PTX ISA.
    """
    info = np.iinfo(dtype)
    low, high, size = int(info.min), int(info.max), 1 << info.bits
    register = np.dtype(f"{dtype.kind}2") if info.bits == 8 else dtype

    def from_floats(x: ndarray) -> ndarray:
        held = dtype if x.dtype.itemsize == 2 else register
        x = np.rint(x).astype(np.float32) if x.dtype.itemsize == 2 else x
        bottom, top = int(np.iinfo(held).min), int(np.iinfo(held).max)
        inside = (x > float(bottom - 1)) & (x < float(top + 1))
        if inside.all():
            return x.astype(held)
        result = np.where(inside, x, 0).astype(held)
        result[x >= float(top + 1)] = top
        result[x <= float(bottom - 1)] = bottom
        if x.dtype == _F8 or held.itemsize == 8:
            result[np.isnan(x)] = top // 2 + 1 if dtype.kind == "u" else bottom
        return result

    def convert(x):
        if type(x) is ndarray:
            return from_floats(x) if x.dtype.kind == "f" else x.astype(dtype, copy=False)
        if type(x) is not int and not isinstance(x, bool | np.bool_ | np.integer):
            if type(x) in (float, np.float32) and low <= x < high:
                return int(x)
            (x,) = from_floats(np.asarray(x)[None])
            return int(x) if low <= x <= high else x
        x = int(x)
        if low <= x <= high:
            return x
        x %= size
        return x - size if x > high else x

    convert.__name__ = dtype.name
    return convert


def int64(x):
    """Conversion to int64, the commonest by far."""
    if type(x) is int and -0x8000000000000000 <= x <= 0x7FFFFFFFFFFFFFFF:
        return x
    if type(x) is ndarray and x.dtype == _I8:
        return x
    if type(x) is float and -1e18 < x < 1e18:
        return int(x)
    return _int64(x)


_int64 = _to_integer(_I8)


#: How far an unsigned index below zero is moved down, so that it cannot count from the end.
FAR_BELOW = 1 << 62


def unsigned_index(x):
    """A uint64 as an index: as Numba does not wrap it, one from 2⁶³ on is outside of any array."""
    if type(x) is not ndarray:
        return x
    signed = x.astype(_I8)
    return np.where(signed < 0, signed - FAR_BELOW, signed) if (signed < 0).any() else signed


def float64(x):
    return x.astype(_F8, copy=False) if type(x) is ndarray else float(x)


def _to_float(dtype: np.dtype) -> Callable:
    scalar = dtype.type

    def convert(x):
        if type(x) is ndarray:
            return x.astype(dtype, copy=False)
        if type(x) is not int or abs(x) <= 1 << 53:
            return x if type(x) is scalar else scalar(x)
        return scalar(np.asarray(x).astype(dtype))  # rounded once, not by way of float64

    convert.__name__ = dtype.name
    return convert


def bool_(x):
    return truth(x)


def complex128(x):
    return x.astype(np.complex128) if type(x) is ndarray else complex(x)


class _Converters(dict):
    """Type -> conversion; those of dates are made for each unit."""

    def __missing__(self, kind: types.Type) -> Callable:
        if not isinstance(kind, DATES):
            raise KeyError(kind)
        return date_converter(kind)


CONVERT: dict[types.Type, Callable] = _Converters({
    types.boolean: bool_, types.int64: int64, types.float64: float64,
    types.complex128: complex128, bfloat16: rounded,
})  # fmt: skip
for _name in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"):
    CONVERT[getattr(types, _name)] = _to_integer(np.dtype(_name))
for _name in ("float16", "float32", "complex64"):
    CONVERT[getattr(types, _name)] = _to_float(np.dtype(_name))


def name_of(kind: types.Type) -> str:
    """Name of a type's conversion in a lane program."""
    return CONVERT[kind].__name__


def group_of(kind: types.Type) -> str:
    """Under which heading operations of a type are counted."""
    name = {"complex64": "float32", "complex128": "float64"}.get(str(kind), str(kind))
    return name if name in ("float16", "float32", "float64") else "integer"


def float_left_out(old: types.Integer, between: types.Float, new: types.Integer) -> bool:
    """Does the compiler leave a float out that holds all of a whole number, before or after?"""
    digits = {16: 11, 32: 24, 64: 53}[between.bitwidth]
    return between != types.float16 and min(old.bitwidth - old.signed, new.bitwidth) <= digits


# ---------------------------------------------------------------------- math and NumPy
@cache
def library(function: Any, dtype: np.dtype) -> Callable:
    """A function of ``math`` or a NumPy ufunc, on lanes; the result has the given dtype."""
    name = function.__name__
    convert = CONVERT_DTYPE[dtype]
    if function is np.power and dtype.kind in "iu":
        return lambda a, b: convert(power(a, b, convert))
    if isinstance(function, np.ufunc):
        return lambda *x: convert(function(*map(_unsigned, x)))
    if function.__module__ == "cmath" and name in arithmetic.CMATH:
        run = arithmetic.CMATH[name]
    elif function.__module__ == "math" and name in arithmetic.MATH:
        run = arithmetic.MATH[name]
    elif name == "rect":
        return lambda r, phi: complex_of(*arithmetic.rectangular(r, phi), dtype)
    else:
        numpy = getattr(np, name, None)
        run = arithmetic.each(function) if numpy in (None, np.remainder) else numpy
    return lambda *x: convert(run(*x))


def _unsigned(x):
    """An operand of NumPy's functions, which take Python's integers for int64."""
    return np.uint64(x) if type(x) is int and x > 0x7FFFFFFFFFFFFFFF else x


def library_pair(function: Any, dtypes: tuple[np.dtype, ...]) -> Callable:
    """``math.frexp``, ``math.modf``, ``cmath.polar``, ``divmod``: functions with two results."""
    name = function.__name__
    run = arithmetic.CMATH["polar"] if name == "polar" else getattr(np, name, None)
    converts = [CONVERT_DTYPE[dtype] for dtype in dtypes]
    if name == "divmod":
        return lambda a, b: (converts[0](floor_divide(a, b)), converts[1](remainder(a, b)))
    return lambda x: tuple(c(part) for c, part in zip(converts, run(x), strict=True))


CONVERT_DTYPE = {
    np.dtype(convert.__name__.rstrip("_")): convert
    for kind, convert in CONVERT.items()
    if kind != bfloat16
}
NAMESPACE: dict[str, Any] = {"UNSET": UNSET} | {
    function.__name__: function
    for function in (
        *CONVERT.values(), wrap, wrap_unsigned, floor_divide, remainder, divide, shift_left,
        shift_right, power, popc, clz, ffs, brev, truth, negate, negative, absolute, rint,
        complex_of, fma, selp, convert_tuple, unsigned_index, minimum, maximum,
        smaller, larger, widened,
    )
}  # fmt: skip
