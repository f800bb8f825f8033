"""Launches of a VAE's training step, counted by the simulator: the bytes of each."""

from __future__ import annotations

import numpy as np

from course_lessons.lesson16.layered import LayeredTrainer
from course_models.vae.trainer import FusedTrainer
from course_models.vae.weights import Training
from warpsim import trace


def bytes_of_layered(begun: Training, images: np.ndarray) -> list[int]:
    """Bytes of device memory that each launch of a step touches, each once: `LayeredTrainer`'s."""
    found = []
    for launch, arguments in LayeredTrainer(begun, images).launches:
        if hasattr(launch, "dispatcher"):  # of numba.cuda
            kernel, grid, block = launch.dispatcher, launch.griddim, launch.blockdim
        else:
            kernel, grid, block = launch.kernel, launch.grid, launch.block
        found.append(trace(kernel, grid, block, *arguments).unique_bytes)
    return found


def bytes_of_fused(begun: Training, images: np.ndarray) -> list[int]:
    """The same of `FusedTrainer`'s two launches; blocks meet at a barrier of the grid."""
    trainer = FusedTrainer(begun, images, "float32")
    return [
        trace(
            its.kernel, its.grid, its.block, *its.arguments, dynamic_shared=its.shared
        ).unique_bytes
        for its in trainer.as_simulated
    ]
