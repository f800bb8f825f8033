"""LayerNorm: a ladder of ten steps and its front doors, and the way back."""

from course.kernels.norm.backward import layer_norm_backward
from course.kernels.norm.first_steps import Form
from course.kernels.norm.ladder import BOTH, LADDER, activate, layer_norm, method_for, prepared

__all__ = [
    "BOTH", "LADDER", "Form", "activate", "layer_norm", "layer_norm_backward", "method_for",
    "prepared",
]  # fmt: skip
