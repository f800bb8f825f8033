"""Attention of float16 and bfloat16, forward, as a ladder; its front door is `attention`."""

from course.kernels.attention.ladder import METHODS, SIZES, attention, launches

__all__ = ["METHODS", "SIZES", "attention", "launches"]
