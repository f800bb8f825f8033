"""Functions of numbers as a GPU computes them, where NumPy's differ or are none.

Of bits: CUDA's population count and its like. Of real numbers: as the device library has them. Of
complex ones: as ``cmath`` has them, which Numba follows.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy import ndarray

# ---------------------------------------------------------------------- bits of integers


def popc(x, bits):
    """How many bits are set."""
    if type(x) is not ndarray:
        return (int(x) & ((1 << bits) - 1)).bit_count()
    return np.bitwise_count(x.astype(f"u{bits // 8}")).astype(np.int64)


def clz(x, bits):
    """How many bits above the highest set one are none."""
    if type(x) is not ndarray:
        return bits - (int(x) & ((1 << bits) - 1)).bit_length()
    value = x.astype(f"u{bits // 8}")
    for step in (1, 2, 4, 8, 16, 32)[: bits.bit_length() - 1]:
        value |= value >> step
    return bits - np.bitwise_count(value).astype(np.int64)


def ffs(x, bits):
    """Position of the lowest set bit, counted from 1; 0 if there is none."""
    if type(x) is not ndarray:
        return (int(x) & -x).bit_length() if x & ((1 << bits) - 1) else 0
    value = x.astype(f"u{bits // 8}")
    lowest = value & (~value + value.dtype.type(1))
    return np.where(value == 0, 0, bits - clz(lowest, bits))


def brev(x, bits):
    """The bits in reverse order."""
    if type(x) is not ndarray:
        return int(f"{int(x) & ((1 << bits) - 1):0{bits}b}"[::-1], 2)
    return np.array([brev(int(value), bits) for value in x], f"u{bits // 8}")


# ---------------------------------------------------------------------- real numbers
_F8 = np.dtype("float64")


def fma(a, b, c):
    """a·b + c, rounded once (of float64 nearly always)."""
    kind = np.result_type(*(np.asarray(value) for value in (a, b, c)))
    a, b, c = (np.asarray(value, _F8) for value in (a, b, c))
    product = a * b
    total = product + c
    if kind != _F8:  # the product is exact
        return total.astype(kind)[()]
    (left, high), (right, low) = np.frexp(a), np.frexp(b)
    lost = np.ldexp(_product_error(left, right), high + low)
    other = total - product
    lost += (product - (total - other)) + (c - other)
    return np.where(np.isfinite(lost), total + lost, total)[()]


def _product_error(a, b):
    """What rounding takes from a product, of numbers from 1/2 to 1. Source: Dekker 1971."""
    parts = []
    for number in (a, b):
        wide = number * 134217729.0  # 2**27 + 1
        high = wide - (wide - number)
        parts += [high, number - high]
    a_high, a_low, b_high, b_low = parts
    return ((a_high * b_high - a * b) + a_high * b_low + a_low * b_high) + a_low * b_low


def _real(x):
    """A number as the library takes it: whole ones as float64."""
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(_F8)


def hypot(x, y):
    """Length of (x, y), with the device library's last bit in float64."""
    x, y = np.abs(_real(x)), np.abs(_real(y))
    if x.dtype != _F8:
        return np.hypot(x, y)
    large, small = np.maximum(x, y), np.minimum(x, y)
    half, exponent = np.frexp(large)
    rest = np.ldexp(small, -exponent)
    square = np.asarray(fma(half, half, rest * rest))
    root = (1 / np.sqrt(square)).view(np.int64) & -0x100000000  # the machine's has a short mantissa
    root = root.view(_F8)
    error = fma(-root * root, square, 1.0)
    root = fma(fma(0.375, error, 0.5), error * root, root)
    length = np.where(small == 0, large, np.ldexp(square * root, exponent))
    return np.where(np.isfinite(large), length, np.hypot(x, y))[()]


def _logarithm(function: Callable, high: float, low: float) -> Callable:
    def logarithm(x):
        """A logarithm by way of the natural one: a power of the base may miss its exponent."""
        natural = np.log(_real(x))
        if natural.dtype != _F8:
            return function(x)
        by_way = fma(natural, high, natural * low)
        return np.where(np.isfinite(natural), by_way, natural)[()]

    return logarithm


def each(function: Callable) -> Callable:
    """A function of Python's floats, on lanes; what it refuses is NaN."""

    def one(*values: float) -> float:
        try:
            return function(*values)
        except (ValueError, OverflowError) as error:
            return math.nan if isinstance(error, ValueError) else math.inf

    run = np.vectorize(one, otypes=[float])
    return lambda *values: run(*values)[()]


def raised(a, b):
    """``pow(a, b)``; to an int32 by squares in the type of ``a``. Source: libdevice's powi."""
    exponent = np.asarray(b)
    if exponent.dtype.kind == "f":
        return np.float_power(a, b)
    left, square, result = np.abs(exponent.astype(np.int64)), np.asarray(a), np.ones_like(a)
    while left.any():
        result = np.where(left & 1, result * square, result)
        left, square = left >> 1, square * square
    return np.where(exponent < 0, 1 / result, result)[()]


def _special(name: str) -> Callable:
    def special(x):
        by_python = each(getattr(math, name))
        functions = scipy()
        if functions is None:
            return by_python(x)
        if name == "erfc":  # SciPy's is 0 where the true value is too small for a normal float64
            return np.where(np.asarray(x) > 26, by_python(x), functions.erfc(x))[()]
        if name == "lgamma":
            return np.where(np.isinf(x), math.inf, functions.gammaln(x))[()]
        return getattr(functions, name)(x)

    return special


@cache
def scipy() -> Any:
    """SciPy's special functions; None where it is not installed."""
    try:
        from scipy import special
    except ImportError:
        return None
    return special


#: Functions of ``math`` that are not NumPy's of the same name.
MATH: dict[str, Callable] = {
    "hypot": hypot,
    "pow": raised,
    "log2": _logarithm(np.log2, math.log2(math.e), 2.0355273740931033e-17),
    "log10": _logarithm(np.log10, math.log10(math.e), 1.098319650216765e-17),
    **{name: _special(name) for name in ("erf", "erfc", "gamma", "lgamma")},
}


# ---------------------------------------------------------------------- complex numbers
def complex_exp(z):
    """e**z; of -inf with an infinite or unknown angle it is plain 0."""
    lost = np.isneginf(np.real(z)) & ~np.isfinite(np.imag(z))
    return np.where(lost, 0, np.exp(z))[()]


def complex_divide(a, b):
    """a / b; by zero it is NaN. Source: CPython's algorithm, which Numba compiles."""
    a, b = np.broadcast_arrays(a, b)
    swap = ~(np.abs(b.real) >= np.abs(b.imag))
    large, small = np.where(swap, b.imag, b.real), np.where(swap, b.real, b.imag)
    ratio = small / large
    below = np.where(swap, b.real * ratio + b.imag, b.real + b.imag * ratio)
    result = np.empty(ratio.shape, np.result_type(a, b))
    result.real = np.where(swap, a.real * ratio + a.imag, a.real + a.imag * ratio) / below
    result.imag = np.where(swap, a.imag * ratio - a.real, a.imag - a.real * ratio) / below
    result[large == 0] = complex(np.nan, np.nan)
    return _complex_value(result)


def complex_power(a, b):
    """a ** b; Numba's is 0 where both real parts are."""
    a, b = np.broadcast_arrays(a, b)
    zero = (a.real == 0) & (b.real == 0)
    result = np.where(b == 0, 1, np.where(zero, 0, np.power(a, b)))
    return _complex_value(result.astype(np.result_type(a, b)))


def _complex_value(result):
    if result.ndim:
        return result
    return complex(result) if result.dtype == np.complex128 else result[()]


def rectangular(r, phi):
    """Real and imaginary part of a number of length ``r`` and angle ``phi`` [rad].

    Infinite lengths and angles give what CPython's ``cmath.rect`` gives.
    """
    r, phi = np.asarray(r), np.asarray(phi)
    straight = np.isfinite(phi)
    nothing, endless = ~straight & (r == 0), ~straight & np.isinf(r)
    parts = []
    cases = (np.cos(phi), r, np.abs(r)), (np.sin(phi), phi, np.zeros_like(r))
    for part, at_infinity, at_zero in cases:
        whole = np.where((part == 0) & np.isinf(r), part / r, part * r)
        parts.append(np.where(endless, at_infinity, np.where(nothing, at_zero, whole))[()])
    return tuple(parts)


#: Functions of ``cmath`` that are not NumPy's of the same, or nearly the same, name.
CMATH: dict[str, Callable] = {
    "exp": complex_exp, "phase": np.angle, "polar": lambda z: (np.abs(z), np.angle(z)),
    "log": lambda z, base=None: np.log(z) if base is None else np.log(z) / np.log(base),
}  # fmt: skip
