"""Functions of complex numbers where NumPy's differ from ``cmath``'s, which Numba follows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def exp(z):
    """e**z; of -inf with an infinite or unknown angle it is plain 0."""
    lost = np.isneginf(np.real(z)) & ~np.isfinite(np.imag(z))
    return np.where(lost, 0, np.exp(z))[()]


def divide(a, b):
    """a / b; by zero it is NaN. Source: CPython's algorithm, which Numba compiles."""
    a, b = np.broadcast_arrays(a, b)
    swap = ~(np.abs(b.real) >= np.abs(b.imag))
    large, small = np.where(swap, b.imag, b.real), np.where(swap, b.real, b.imag)
    ratio = small / large
    below = np.where(swap, b.real * ratio + b.imag, b.real + b.imag * ratio)
    result = np.empty(ratio.shape, np.result_type(a, b))
    result.real = np.where(swap, a.real * ratio + a.imag, a.real + a.imag * ratio) / below
    result.imag = np.where(swap, a.imag * ratio - a.real, a.imag - a.real * ratio) / below
    return _value(np.where(large == 0, complex(np.nan, np.nan), result).astype(result.dtype))


def power(a, b):
    """a ** b; Numba's is 0 where both real parts are."""
    a, b = np.broadcast_arrays(a, b)
    zero = (a.real == 0) & (b.real == 0)
    result = np.where(b == 0, 1, np.where(zero, 0, np.power(a, b)))
    return _value(result.astype(np.result_type(a, b)))


def _value(result):
    """An array of lanes, or the one value that all share."""
    if result.ndim:
        return result
    return complex(result) if result.dtype == np.complex128 else result[()]


def log(z, base=None):
    """The logarithm, natural or to a base."""
    return np.log(z) if base is None else np.log(z) / np.log(base)


def polar(z):
    """Length and angle [rad]."""
    return np.abs(z), np.angle(z)


def rectangular(r, phi):
    """Real and imaginary part of a number of length ``r`` and angle ``phi`` [rad].

    Infinite lengths and angles give what CPython's ``cmath.rect`` gives.
    """
    r, phi = np.asarray(r), np.asarray(phi)
    straight = np.isfinite(phi)
    nothing, endless = ~straight & (r == 0), ~straight & np.isinf(r)
    parts = []
    for part, at_infinity, at_zero in (
        (np.cos(phi), r, np.abs(r)),
        (np.sin(phi), phi, np.zeros_like(r)),
    ):
        whole = np.where((part == 0) & np.isinf(r), part / r, part * r)
        parts.append(np.where(endless, at_infinity, np.where(nothing, at_zero, whole))[()])
    return tuple(parts)


#: Functions of ``cmath`` that are not NumPy's of the same, or nearly the same, name.
FUNCTIONS: dict[str, Callable] = {"exp": exp, "log": log, "phase": np.angle}
