"""Images from their SVD: a ladder of kernels, and its entry point."""

from course.kernels.reconstruct.first_steps import (
    reconstruct_float32,
    reconstruct_naive,
    reconstruct_original,
    reconstruct_tiled,
)
from course.kernels.reconstruct.ladder import LADDER, reconstruct

__all__ = [
    "LADDER", "reconstruct", "reconstruct_float32", "reconstruct_naive", "reconstruct_original",
    "reconstruct_tiled",
]  # fmt: skip
