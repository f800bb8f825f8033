"""The first forward pass of a process: ours, with kernels compiled anew or kept, and PyTorch's.

A separate process makes model and images on the GPU. Then it times two calls by the host's clock,
each until its scores are there. ``python -m course_recording.vit_first compiled`` prints
both times for PyTorch's compiled model.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from course_models.vit.shape import TOY, ViTShape
from course_models.vit.weights import initial
from course_recording.first_calls import keep, print_two

WAYS = ("ours", "eager", "compiled")


def first_calls(bench: Any, shape: ViTShape, batch: int) -> None:
    """Keep each program's first call: with kernels compiled anew, and with kernels kept before."""
    key = "whole", f"{batch}x{shape.image}x{shape.image}", "float16"
    toy = ["toy"] * (shape == TOY)
    for way in WAYS:
        keep(bench, __name__, key, way, str(batch), *toy, compiles=way != "eager")


def ours(shape: ViTShape, batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Our call, which needs no PyTorch, and a function that waits for it."""
    import numpy as np

    from course.backend import cuda
    from course_models.vit.network import ViT

    vit = ViT(shape, initial(shape))
    size = batch, shape.channels, shape.image, shape.image
    images = cuda.to_device(np.random.default_rng(0).standard_normal(size).astype(np.float16))
    return lambda: vit(images), cuda.synchronize


def theirs(
    shape: ViTShape, batch: int, compiled: bool
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """PyTorch's call, and a function that waits for it."""
    import torch

    from course_recording.peers.vit_torch import network

    model = network(torch, shape, initial(shape))
    size = batch, shape.channels, shape.image, shape.image
    images = torch.randn(*size, device="cuda", dtype=torch.half)
    model = torch.compile(model, dynamic=False) if compiled else model

    def call() -> Any:
        with torch.no_grad():
            return model(images)

    return call, torch.cuda.synchronize


def main() -> None:
    """Command line: the way, how many images, and "toy" for a small transformer."""
    way, batch, shape = sys.argv[1], int(sys.argv[2]), TOY if sys.argv[3:] else ViTShape()
    call, wait = ours(shape, batch) if way == "ours" else theirs(shape, batch, way == "compiled")
    print_two(call, wait)


if __name__ == "__main__":
    main()
