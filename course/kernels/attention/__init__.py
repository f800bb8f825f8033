"""Attention of float16 and bfloat16, forward, as a ladder; its entry point is `attention`."""

from course.kernels.attention.ladder import LADDER, SIZES, attention

__all__ = ["LADDER", "SIZES", "attention"]
