"""A process's first epoch of a VAE's training: a trainer is made, all is compiled, images move.

``python -m course_recording.vae_first "fused, 3xTF32"`` prints what that takes by the host's clock,
until the GPU has done the epoch, and the next epoch; imports and the images' making are not in it.
"""

from __future__ import annotations

import sys
import time

from course.backend import cuda
from course_models.vae import data
from course_models.vae.shape import VAEShape
from course_recording.subjects import vae


def main() -> None:
    """Command line: the way, and "toy" for a small VAE."""
    way, *toy = sys.argv[1:]
    if toy:
        vae.COUNT, vae.BATCH, vae.SIDE, vae.SHAPE = 17, 5, 12, VAEShape(144, 8, 4)
    images, wait = data.enlarged(vae.COUNT, side=vae.SIDE), cuda.synchronize
    if way not in vae.OURS:
        import torch

        wait = torch.cuda.synchronize
        torch.ones(1, device=vae.DEVICE)
    wait()
    begun = time.perf_counter()
    if way in vae.OURS:
        epoch, _ = vae.our_epochs(vae.OURS[way][0], images)
    else:
        epoch, _ = vae.their_epochs(torch, vae.PEERS[way], images)
    times = []
    for _ in range(2):
        epoch()
        wait()
        now = time.perf_counter()
        times.append(1e3 * (now - begun))
        begun = now
    print(*times)


if __name__ == "__main__":
    main()
