"""The softmax of rows: a ladder of three steps and its front door, and the way back."""

from course.kernels.softmax.backward import BACKWARD, configured_backward, softmax_backward
from course.kernels.softmax.forward import (
    LADDER,
    THREADS,
    configured,
    online,
    registers,
    shape_for,
    softmax,
    softmax_three_passes,
)

__all__ = [
    "BACKWARD", "LADDER", "THREADS", "configured", "configured_backward", "online", "registers",
    "shape_for", "softmax", "softmax_backward", "softmax_three_passes",
]  # fmt: skip
