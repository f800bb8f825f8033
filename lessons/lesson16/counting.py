"""Launches of a VAE's training step, counted by the simulator: how many, and the bytes of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from course.backend import cuda
from course.models.vae.forward import forward_of
from course.models.vae.fused import FusedTrainer
from course.models.vae.update import update_of
from warpsim import trace


def bytes_of_launches(launches: Iterable[tuple[Any, tuple]]) -> list[int]:
    """Bytes of device memory that each launch touches, each once, of a `LayeredTrainer`'s."""
    found = []
    for launch, arguments in launches:
        if hasattr(launch, "dispatcher"):  # of numba.cuda
            kernel, grid, block = launch.dispatcher, launch.griddim, launch.blockdim
        else:
            kernel, grid, block = launch.kernel, launch.grid, launch.block
        found.append(trace(kernel, grid, block, *arguments).unique_bytes)
    return found


def bytes_of_fused(trainer: FusedTrainer) -> list[int]:
    """The same of the two launches of a fused step; blocks meet by a barrier of the grid."""
    of = trainer.training()
    at_once = int(cuda.get_current_device().MULTIPROCESSOR_COUNT)
    forward = forward_of(of.shape, of.batch, trainer.precision, at_once, "grid")
    update = update_of(of.shape, of.batch, trainer.precision, forward.partials, forward.groups)
    return [
        trace(
            its.kernel, its.blocks, its.threads, *arguments, dynamic_shared=its.shared
        ).unique_bytes
        for its, arguments in zip((forward, update), trainer._arguments, strict=True)
    ]
