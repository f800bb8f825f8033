"""What plans are made with: whole numbers of blocks, and what the current GPU has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course import backend

_NUMBA = (0, 30)  # compiles for "sm_90a"


def ceil_div(a: int, b: int) -> int:
    """How many times b it takes to reach a: blocks of b threads for a elements."""
    return -(-a // b)


def round_up(n: int, multiple: int) -> int:
    """The smallest multiple that is at least n."""
    return ceil_div(n, multiple) * multiple


def shared_memory_limit() -> tuple[int, bool]:
    """Bytes of shared memory that a block can have, and whether it can be copied to meanwhile."""
    device = backend.cuda.get_current_device()
    shared = int(device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    return shared, tuple(device.compute_capability) >= (8, 0)


def multiprocessors() -> int:
    """Of the current GPU; those of an H200 where the simulated one does not say."""
    return int(getattr(backend.cuda.get_current_device(), "MULTIPROCESSOR_COUNT", 132))


def row_limit(most: Callable[[bool], int]) -> Callable[[Any], str]:
    """The refusal of a step whose rows have at most so many elements, aligned or not."""

    def refusal(problem: Any) -> str:
        limit = most(problem.aligned)
        if problem.columns <= limit:
            return ""
        return f"holds rows of at most {limit:,} elements, and these have {problem.columns:,}"

    return refusal


def hopper_refusal() -> str:
    """What kernels of Hopper's instructions need and do not find, in words; else nothing."""
    capability = tuple(backend.cuda.get_current_device().compute_capability)
    if capability != (9, 0):
        return "needs compute capability 9.0, and this GPU has {}.{}".format(*capability)
    version = backend.installed_version("numba-cuda") or ""
    old = backend.version_tuple(version) < _NUMBA and not backend.successor.is_chosen()
    if backend.gpu() is not None and old:
        return f"needs numba-cuda 0.30, which compiles for sm_90a, and {version} is installed"
    return ""
