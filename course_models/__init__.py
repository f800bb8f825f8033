"""Networks built from the course's own kernels."""

from __future__ import annotations

import numbers
from typing import Any


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, one of NumPy's, too; True and False are none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)
