"""Judge of lesson 02: it says in a sentence what is wrong with an answer, or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def judge_factors(answer: Any, u: Any, s: Any, vt: Any, k: int) -> str | None:
    """Judge arrays for the device: only what is needed, float32, side by side."""
    wanted = {"u": u[:, :k], "s": s[:k], "vt": vt[:k]}
    wholes = {"u": u, "s": s, "vt": vt}
    if not isinstance(answer, tuple | list) or len(answer) != 3:
        one = type(answer).__name__
        given = f"{len(answer)} values" if isinstance(answer, tuple | list) else f"one {one}"
        return f"Return three arrays, u, s and vt; got {given}."
    for given, (name, part) in zip(answer, wanted.items(), strict=True):
        if not isinstance(given, np.ndarray):
            return f"{name} is no NumPy array: np.ascontiguousarray makes one."
        if given.shape != part.shape:
            return (
                f"{name} has the shape {given.shape}; {part.shape} is needed."
                f"{_what_it_is(name, given, wholes, k)}"
            )
        if given.dtype != np.float32:
            times = given.dtype.itemsize / 4
            return (
                f"{name} is {given.dtype}, not float32: {times:g} times the bytes, and a kernel "
                "computes in that type."
            )
        if not _same(given, part):
            return (
                f"{name} has other values than the first {k} of the factor."
                f"{_what_it_is(name, given, wholes, k)}"
            )
        if not given.flags.c_contiguous:
            return (
                f"{name} is a view of a larger array, or lies column by column: its rows do not "
                "follow each other in memory. np.ascontiguousarray copies it in order."
            )
    return None


def _same(given: Any, part: Any) -> bool:
    return given.shape == part.shape and np.allclose(given, part, rtol=1e-5, atol=1e-6)


def _what_it_is(name: str, given: Any, wholes: Mapping[str, Any], k: int) -> str:
    """What was returned in place of a part of a factor, where it is known."""
    u, s, vt = wholes.values()
    if given.shape == wholes[name].shape and _same(given, wholes[name]):
        return " That is the whole factor."
    known = {
        "u": (
            (vt[:k], "These are rows of vt: return u, s, vt, in this order."),
            (u[:k], "These are rows of u. Its layers are columns: u[:, :k]."),
            (u[:, :k].T, "It is turned: its layers are columns, and stay columns."),
            (u[:, :k] * s[:k], "It is multiplied by s: the kernel does that."),
        ),
        "s": ((np.diag(s[:k]), "s is no matrix here: k numbers are enough."),),
        "vt": ((vt[:, :k], "These are columns of vt. Its layers are rows: vt[:k]."),),
    }
    return next((f" {what}" for part, what in known[name] if _same(given, part)), "")
