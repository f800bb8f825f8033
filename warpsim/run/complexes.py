"""Functions of complex numbers where NumPy's differ from ``cmath``'s, which Numba follows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def exp(z):
    """e**z; of -inf with an infinite or unknown angle it is plain 0."""
    lost = np.isneginf(np.real(z)) & ~np.isfinite(np.imag(z))
    return np.where(lost, 0, np.exp(z))[()]


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
