"""The GPUs that can be simulated: the limits that decide whether a launch is possible.

Source: NVIDIA, CUDA C++ Programming Guide, "Compute Capabilities" (table of technical
specifications), and the architecture white papers for multiprocessor counts and memory.
"""

import difflib
import os
from dataclasses import dataclass


@dataclass(frozen=True)
class GPU:
    """One GPU model; memory is in bytes."""

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    shared_per_block: int  # static, at most 48 KiB, and dynamic together
    shared_per_multiprocessor: int
    threads_per_multiprocessor: int
    memory: int
    threads_per_block: int = 1024
    warp_size: int = 32


_KIB, _GIB = 1024, 1024**3
GPUS = {
    gpu.name: gpu
    for gpu in (
        GPU("Tesla T4", (7, 5), 40, 64 * _KIB, 64 * _KIB, 1024, 15 * _GIB),
        GPU("L4", (8, 9), 58, 99 * _KIB, 100 * _KIB, 1536, 22 * _GIB),
        GPU("A100", (8, 0), 108, 163 * _KIB, 164 * _KIB, 2048, 80 * _GIB),
        GPU("H100", (9, 0), 132, 227 * _KIB, 228 * _KIB, 2048, 80 * _GIB),
        GPU("H200", (9, 0), 132, 227 * _KIB, 228 * _KIB, 2048, 140 * _GIB),
        GPU("RTX 4090", (8, 9), 128, 99 * _KIB, 100 * _KIB, 1536, 24 * _GIB),
    )
}
_chosen: GPU | None = None


def find(name: str) -> GPU:
    """The GPU of a name such as ``"H200"`` or ``"T4"``; ValueError lists the known ones."""
    known = {key.lower(): gpu for key, gpu in GPUS.items()} | {"t4": GPUS["Tesla T4"]}
    wanted = str(name).lower().removeprefix("nvidia ").strip()
    if wanted not in known:
        close = difflib.get_close_matches(wanted, known, n=1)
        hint = f" Did you mean {known[close[0]].name!r}?" if close else ""
        raise ValueError(f"no GPU {name!r} to simulate; known: {', '.join(GPUS)}.{hint}")
    return known[wanted]


def simulate(name: str) -> GPU:
    """Choose the GPU whose limits the simulator keeps."""
    global _chosen
    _chosen = find(name)
    return _chosen


def current() -> GPU:
    """The simulated GPU: the chosen one, that of COURSE_SIMULATED_GPU, or a Tesla T4."""
    return _chosen or find(os.environ.get("COURSE_SIMULATED_GPU") or "Tesla T4")
