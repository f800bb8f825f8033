"""Arithmetic of a lane program: what Python's or NumPy's operators do differently from a GPU.

A value is either uniform (a Python int, float, bool or complex, or a NumPy float16/float32 scalar)
or an array with one element a lane. Integers wrap, division by zero gives infinity (integers: 0),
float min and max ignore NaN, conversions of floats to integers saturate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import types

from warpsim.front.bfloat import bfloat16, rounded, widened
from warpsim.front.dates import DATES, date_converter
from warpsim.run import complexes
from warpsim.run.bits import brev, clz, ffs, popc

ndarray = np.ndarray
_I8, _U8, _F8, _B = (np.dtype(name) for name in ("int64", "uint64", "float64", "bool"))


class _Unset:
    """The value of a variable that no thread has set yet."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET = _Unset()


# ---------------------------------------------------------------------- integers
def wrap(x):
    """An int64 result: Python's unbounded integers wrap as the hardware's do."""
    if type(x) is int and not -0x8000000000000000 <= x <= 0x7FFFFFFFFFFFFFFF:
        x &= 0xFFFFFFFFFFFFFFFF
        return x - (1 << 64) if x >> 63 else x
    return x


def wrap_unsigned(x):
    """A uint64 result."""
    return x & 0xFFFFFFFFFFFFFFFF if type(x) is int else x


def _power_of_two(x) -> bool:
    return type(x) is int and x > 0 and x & (x - 1) == 0


def floor_divide(a, b):
    if type(b) is int:
        if type(a) is int:
            return wrap(a // b) if b else 0
        if _power_of_two(b) and a.dtype == _I8:
            return a >> (b.bit_length() - 1)
    elif type(b) is float and type(a) is float and b == 0:
        return float(np.floor_divide(a, np.float64(b)))
    return np.floor_divide(a, b) if type(a) is ndarray or type(b) is ndarray else a // b


def remainder(a, b):
    if type(b) is int:
        if type(a) is int:
            return a % b if b else 0
        if _power_of_two(b) and a.dtype == _I8:
            return a & (b - 1)
    elif type(b) is float and type(a) is float and b == 0:
        return math.nan
    return np.remainder(a, b) if type(a) is ndarray or type(b) is ndarray else a % b


def divide(a, b):
    if type(b) in (float, complex, int) and type(a) in (float, complex, int) and b == 0:
        return np.divide(a, np.asarray(b, type(a) if type(a) is complex else float))[()].item()
    return a / b


def shift_left(a, b):
    if type(a) is int and type(b) is int:
        return a << (b & 63)
    return np.left_shift(a, b)


def shift_right(a, b):
    if type(a) is int and type(b) is int:
        return a >> (b & 63)
    return np.right_shift(a, b)


def power(a, b, convert):
    """``a ** b``; small integer exponents multiply, as the compiled code does."""
    if type(b) is int and 0 <= b <= 8:
        result = convert(1) if b == 0 else a
        for _ in range(b - 1):
            result = result * a
        return result
    if type(a) is int and type(b) is int:
        if b > 64:
            return convert(pow(a, b, 1 << 64))  # the number itself could fill the memory
        return pow(a, b) if b >= 0 else (a if abs(a) == 1 and b % 2 else int(abs(a) == 1))
    if type(b) is int or (type(b) is ndarray and b.dtype.kind in "iu"):
        if _kind(a) in "iu":
            whole = np.power(a, np.maximum(b, 0))
            inverse = np.where(np.abs(a) == 1, np.where(np.asarray(b) % 2 == 1, a, 1), 0)
            return np.where(np.asarray(b) >= 0, whole, inverse)
        return convert(np.power(a, convert(b)))
    return convert(np.power(a, b))


def _kind(x) -> str:
    return (
        x.dtype.kind
        if hasattr(x, "dtype")
        else {int: "i", float: "f", bool: "b", complex: "c"}[type(x)]
    )


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


def _extreme(integers: Callable, floats: Callable, python: Callable) -> Callable:
    def extreme(a, b):
        if type(a) is int and type(b) is int:
            return python(a, b)
        kind = (a if type(a) is ndarray else np.asarray(b)).dtype.kind
        return (floats if kind == "f" else integers)(a, b)

    return extreme


minimum = _extreme(np.minimum, np.fmin, min)
maximum = _extreme(np.maximum, np.fmax, max)


def rint(x, digits=None):
    """Round half to even, to a number of decimals; scaled in float64, as Numba does it."""
    if type(x) is int:
        return x
    if digits is None:
        return np.rint(x)
    scale = 10.0**digits
    scaled = np.float64(x) * scale
    rounded = np.where(np.isfinite(scaled), np.rint(scaled) / scale, x)
    return _like(rounded, x)


def _like(values, x):
    """Values as an array if ``x`` is one, else as a uniform value, in the type of ``x``."""
    if type(x) is ndarray:
        return values.astype(x.dtype)
    return float(values) if type(x) is float else x.dtype.type(values)


def part(x, name):
    """The real or imaginary part of a number."""
    return getattr(x, name)


def conjugate(x):
    return x.conjugate()


def complex_of(real, imaginary, dtype):
    """``complex(a, b)``: both parts as they are, infinities and NaNs too."""
    if type(real) is not ndarray and type(imaginary) is not ndarray:
        return CONVERT_DTYPE[np.dtype(dtype)](complex(real, imaginary))
    shape = np.broadcast_shapes(np.shape(real), np.shape(imaginary))
    value = np.empty(shape, dtype)
    value.real, value.imag = real, imaginary
    return value


def fma(a, b, c):
    """a·b + c, rounded once: exact for float32 through float64, close for float64."""
    if _kind(a) == "f" and getattr(a, "dtype", _F8).itemsize == 4:
        return (
            np.float32(np.float64(a) * np.float64(b) + np.float64(c))
            if not any(type(x) is ndarray for x in (a, b, c))
            else (np.float64(a) * np.float64(b) + np.float64(c)).astype(np.float32)
        )
    return a * b + c


def cbrt(x):
    return np.cbrt(x)


def selp(test, a, b):
    if type(test) is not ndarray:
        return a if test else b
    return np.where(test != 0, a, b)


def convert_tuple(values, functions):
    return tuple(function(value) for function, value in zip(functions, values, strict=True))


# ---------------------------------------------------------------------- conversions
def _to_integer(dtype: np.dtype) -> Callable:
    info = np.iinfo(dtype)
    low, high, size = int(info.min), int(info.max), 1 << info.bits

    def from_float(x: float) -> int:
        if x != x:
            return 0
        return low if x <= low else high if x >= high else int(x)

    def convert(x):
        if isinstance(x, bool | np.bool_ | np.integer):
            x = int(x)
        if type(x) is int:
            if low <= x <= high:
                return x
            x %= size
            return x - size if x > high else x
        if type(x) is not ndarray:
            return from_float(float(x))
        if x.dtype == dtype:
            return x
        if x.dtype.kind == "f":
            result = np.where(x == x, x, 0)
            result = np.clip(result, low, float(high)).astype(dtype)
            return np.where(x >= high, high, result).astype(dtype)
        return x.astype(dtype)

    convert.__name__ = dtype.name
    return convert


def int64(x):
    """Conversion to int64, the commonest by far."""
    if type(x) is int and -0x8000000000000000 <= x <= 0x7FFFFFFFFFFFFFFF:
        return x
    if type(x) is ndarray and x.dtype == _I8:
        return x
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
    return x.astype(_F8) if type(x) is ndarray else float(x)


def _to_float(dtype: np.dtype) -> Callable:
    scalar = dtype.type

    def convert(x):
        return x.astype(dtype) if type(x) is ndarray else scalar(x)

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


CONVERT: dict[types.Type, Callable] = _Converters(
    {
        types.boolean: bool_,
        types.int64: int64,
        types.float64: float64,
        types.complex128: complex128,
        bfloat16: rounded,
    }
)
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


def is_cast(function: Any) -> bool:
    if function in (int, float, bool, complex) or isinstance(function, types.Type):
        return True
    return isinstance(function, type) and issubclass(function, np.generic)


# ---------------------------------------------------------------------- math and NumPy
_NUMPY_NAME = {
    "acos": "arccos", "asin": "arcsin", "atan": "arctan", "atan2": "arctan2", "acosh": "arccosh",
    "asinh": "arcsinh", "atanh": "arctanh", "pow": "power",
}  # fmt: skip


@cache
def library(function: Any, dtype: np.dtype) -> Callable:
    """A function of ``math`` or a NumPy ufunc, on lanes; the result has the given dtype."""
    name = function.__name__
    if function is np.power and dtype.kind in "iu":
        return lambda a, b: CONVERT_DTYPE[dtype](power(a, b, CONVERT_DTYPE[dtype]))
    if isinstance(function, np.ufunc):
        run = function
    elif name in ("erf", "erfc", "gamma", "lgamma"):
        run = _special(name)
    elif function.__module__ == "cmath" and name in complexes.FUNCTIONS:
        run = complexes.FUNCTIONS[name]
    elif name == "rect":
        return lambda r, phi: complex_of(*complexes.rectangular(r, phi), dtype)
    else:
        run = getattr(np, _NUMPY_NAME.get(name, name), None) or np.vectorize(function)
    if dtype.kind == "f":
        return lambda *x: _as_dtype(run(*x), dtype)
    convert = next(c for c in CONVERT.values() if c.__name__ in (dtype.name, f"{dtype.name}_"))
    return lambda *x: convert(run(*x))


def library_pair(function: Any, dtypes: tuple[np.dtype, ...]) -> Callable:
    """``math.frexp``, ``math.modf``, ``cmath.polar``, ``divmod``: functions with two results."""
    name = function.__name__
    run = complexes.polar if name == "polar" else getattr(np, name, None)
    converts = [CONVERT_DTYPE[dtype] for dtype in dtypes]
    if name == "divmod":
        return lambda a, b: (converts[0](floor_divide(a, b)), converts[1](remainder(a, b)))
    return lambda x: tuple(c(part) for c, part in zip(converts, run(x), strict=True))


def _as_dtype(x, dtype: np.dtype):
    return x if getattr(x, "dtype", None) == dtype else CONVERT_DTYPE[dtype](x)


CONVERT_DTYPE = {
    np.dtype(convert.__name__.rstrip("_")): convert
    for kind, convert in CONVERT.items()
    if kind != bfloat16
}


def _special(name: str) -> Callable:
    try:
        from scipy import special
    except ImportError:
        return np.vectorize(getattr(math, name), otypes=[float])
    if name == "erfc":
        return lambda x: _erfc(special.erfc, x)
    return getattr(special, {"lgamma": "gammaln"}.get(name, name))


def _erfc(run: Callable, x):
    """1 - erf(x); SciPy's is 0 where the true value is too small for a normal float64."""
    value = run(x)
    tiny = np.asarray(x, float) > 26
    if not tiny.any():
        return value
    return np.where(tiny, np.vectorize(math.erfc, otypes=[float])(x), value)[()]


NAMESPACE: dict[str, Any] = {
    **{convert.__name__: convert for convert in CONVERT.values()},
    **{
        function.__name__: function
        for function in (
            wrap, wrap_unsigned, floor_divide, remainder, divide, shift_left, shift_right, power,
            popc, clz, ffs, brev, truth, negate, negative, absolute, rint, part, conjugate,
            complex_of, fma, cbrt, selp, convert_tuple, unsigned_index,
        )
    },
    "minimum": minimum,
    "maximum": maximum,
    "UNSET": UNSET,
    "widened": widened,
}  # fmt: skip
