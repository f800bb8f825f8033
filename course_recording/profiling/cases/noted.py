"""A decorator that adds a kernel with its launch to a list of cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from course_recording.profiling.cases.accesses import Case, filled


class Cases(list[Case]):
    """A list of cases that is also a decorator, which takes the launch and the arguments."""

    def __call__(self, grid: Any, block: Any, *values: Any) -> Callable:
        """Add a kernel; ``values`` are its arguments, or one function that makes them."""

        def note(kernel):
            made = values[0] if callable(values[0]) else filled(*values)
            self.append(Case(kernel.__name__, kernel, grid, block, made))
            return kernel

        return note


def zeros(shape: Any, kind: str = "f4") -> np.ndarray:
    """Memory for results."""
    return np.zeros(shape, kind)
