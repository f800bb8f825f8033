"""Judge of lesson 02: it says in a sentence what is wrong with an answer, or nothing."""

from __future__ import annotations

from typing import Any

import numpy as np


def judge_factors(answer: Any, u: Any, s: Any, vt: Any, k: int) -> str | None:
    """Judge arrays for the device: only what is needed, float32, side by side."""
    wanted = {"u": u[:, :k], "s": s[:k], "vt": vt[:k]}
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        one = type(answer).__name__
        given = f"{len(answer)} values" if isinstance(answer, tuple | list) else f"one {one}"
        return f"Return three arrays, u, s and vt; got {given}."
    for given, (name, part) in zip(answer, wanted.items(), strict=True):
        if not isinstance(given, np.ndarray):
            return f"{name} is no NumPy array: np.ascontiguousarray makes one."
        if given.shape != part.shape:
            return f"{name} has the shape {given.shape}; {part.shape} is needed."
        if given.dtype != np.float32:
            times = given.dtype.itemsize / 4
            return (
                f"{name} is {given.dtype}, not float32: {times:g} times the bytes, and a kernel "
                "computes in that type."
            )
        if not np.allclose(given, part, rtol=1e-5, atol=1e-6):
            return f"{name} has other values than the first {k} of the factor."
        if not given.flags.c_contiguous:
            return (
                f"{name} is a view of a larger array, or lies column by column: its rows do not "
                "follow each other in memory. np.ascontiguousarray copies it in order."
            )
    return None
