"""LayerNorm: a ladder of eleven steps, one more for 16-bit elements, and one for gradients."""

from course.heuristics.norm import REGISTERS_AND_SHARED, NormProblem, Variant
from course.kernels.norm.backward import layer_norm_backward
from course.kernels.norm.ladder import LADDER, activate, layer_norm, prepared

Form = Variant  # as lesson 13 called it before version 0.2

__all__ = [
    "LADDER", "REGISTERS_AND_SHARED", "Form", "NormProblem", "Variant", "activate", "layer_norm",
    "layer_norm_backward", "prepared",
]  # fmt: skip
