"""What plans are made with: blocks rounded up, and the limits of the current GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from course import backend

_NUMBA = (0, 30)  # the first numba-cuda that compiles for "sm_90a"


def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up: the blocks of b threads that a elements need."""
    return -(-a // b)


def round_up(n: int, multiple: int) -> int:
    """The smallest multiple that is at least n."""
    return ceil_div(n, multiple) * multiple


def shared_memory_limit() -> tuple[int, bool]:
    """Bytes of shared memory that a block can have, and whether the GPU has cp.async (8.0)."""
    device = backend.cuda.get_current_device()
    shared = int(device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
    return shared, tuple(device.compute_capability) >= (8, 0)


def multiprocessors() -> int:
    """Those of the current GPU; an H200's 132 where the simulated GPU does not say."""
    return int(getattr(backend.cuda.get_current_device(), "MULTIPROCESSOR_COUNT", 132))


def row_limit(most: Callable[[bool], int]) -> Callable[[Any], str]:
    """The refusal of a step that holds rows of at most `most(aligned)` elements."""

    def refusal(problem: Any) -> str:
        limit = most(problem.aligned)
        if problem.columns <= limit:
            return ""
        return f"holds rows of at most {limit:,} elements, and these have {problem.columns:,}"

    return refusal


def hopper_refusal() -> str:
    """Why kernels with Hopper's instructions cannot run here, in words; "" if they can."""
    capability = tuple(backend.cuda.get_current_device().compute_capability)
    if capability != (9, 0):
        return "needs compute capability 9.0, and this GPU has {}.{}".format(*capability)
    version = backend.installed_version("numba-cuda") or ""
    old = backend.version_tuple(version) < _NUMBA and not backend.successor.is_chosen()
    if backend.gpu() is not None and old:
        return f"needs numba-cuda 0.30, which compiles for sm_90a, and {version} is installed"
    return ""
