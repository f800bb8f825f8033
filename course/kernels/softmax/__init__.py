"""The softmax of rows, a ladder of four steps, and its gradient, one of two."""

from course.heuristics.softmax import config_for
from course.kernels.softmax.backward import BACKWARD, softmax_backward
from course.kernels.softmax.forward import (
    LADDER,
    THREADS,
    online,
    registers,
    softmax,
    softmax_three_passes,
)

shape_for = config_for  # as lesson 10 called it before version 0.2

__all__ = [
    "BACKWARD", "LADDER", "THREADS", "config_for", "online", "registers", "shape_for",
    "softmax", "softmax_backward", "softmax_three_passes",
]  # fmt: skip
