"""LayerNorm: a ladder of ten steps and its front doors, and the way back."""

from course.kernels.launching import room
from course.kernels.norm.backward import BACKWARD, layer_norm_backward, prepared_backward
from course.kernels.norm.backward_registers import (
    BACKWARD_ELEMENTS,
    BACKWARD_THREADS,
    backward_in_registers,
    backward_shape,
)
from course.kernels.norm.first_steps import ACTIVATIONS, REGISTERS, Form, Launch, NormStep, RowShape
from course.kernels.norm.ladder import (
    ALONE,
    BOTH,
    LADDER,
    activate,
    can_keep,
    layer_norm,
    method_for,
    prepared,
    shifted_factors,
)
from course.kernels.norm.long_rows import longest_split, rows_in_both, split_form, split_shape
from course.kernels.norm.registers import (
    ELEMENTS,
    IN_L2,
    ROW_THREADS,
    row_shape,
    rows_in_registers,
    short_shape,
)

__all__ = [
    "ACTIVATIONS", "ALONE", "BACKWARD", "BACKWARD_ELEMENTS", "BACKWARD_THREADS", "BOTH", "ELEMENTS",
    "IN_L2", "LADDER", "REGISTERS", "ROW_THREADS", "Form", "Launch", "NormStep", "RowShape",
    "activate", "backward_in_registers", "backward_shape", "can_keep", "layer_norm",
    "layer_norm_backward", "longest_split", "method_for", "prepared", "prepared_backward", "room",
    "row_shape", "rows_in_both", "rows_in_registers", "shifted_factors", "short_shape",
    "split_form", "split_shape",
]  # fmt: skip
