"""Functions of the bits of an integer: CUDA's population count and its like."""

from __future__ import annotations

import numpy as np

ndarray = np.ndarray


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
    length = np.zeros(len(value), np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        if step < bits:
            high = value >> step
            big = high > 0
            value = np.where(big, high, value).astype(value.dtype)
            length += np.where(big, step, 0)
    return bits - length - (value > 0)


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
