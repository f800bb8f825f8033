"""Dates and times, ``datetime64`` and ``timedelta64``: NumPy computes with them as Numba does."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import types

DATES = types.NPDatetime | types.NPTimedelta
#: Types of one value that arrays and variables may hold.
SCALARS = types.Number | types.Boolean | DATES
#: Types that Numba makes a whole number of wherever it needs one.
REAL = types.Integer | types.Float | types.Boolean


@cache
def date_dtype(kind: types.Type) -> np.dtype:
    """The NumPy dtype of a date's or a duration's type."""
    letter = "M8" if isinstance(kind, types.NPDatetime) else "m8"
    return np.dtype(f"{letter}[{kind.unit}]" if kind.unit else letter)


@cache
def date_converter(kind: types.Type) -> Callable:
    """The function that gives values of any unit the unit of a type."""
    dtype = date_dtype(kind)

    def convert(x):
        return x.astype(dtype) if hasattr(x, "astype") else np.asarray(x, dtype)[()]

    convert.__name__ = str(kind)
    return convert


def date_storable(given: types.Type, wanted: types.Type) -> bool:
    """May a value be stored as an element: both dates, or both durations?"""
    return any(
        isinstance(given, kind) and isinstance(wanted, kind)
        for kind in (types.NPDatetime, types.NPTimedelta)
    )
