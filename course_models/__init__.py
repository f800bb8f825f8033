"""Networks built from the course's own kernels."""

from __future__ import annotations

import numbers
from typing import Any


def is_whole(value: Any) -> bool:
    """Whether a value is an integer, of Python or NumPy; True and False do not count."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
