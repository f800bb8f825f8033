"""Numba's settings that matter without a GPU, and the warnings that they ask for."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from warnings import warn

import numpy as np
from numba.core.errors import NumbaPerformanceWarning

#: Where numba-cuda keeps its settings: its own module, or in older releases that of Numba.
_PLACES = ("numba.cuda.core.config", "numba.core.config")
#: Fewer blocks make Numba warn. Source: numba.cuda.dispatcher of 0.30.4.
FEW_BLOCKS = 128
_PERFORMANCE = ("CUDA_LOW_OCCUPANCY_WARNINGS", "CUDA_WARN_ON_IMPLICIT_COPY")


def setting(name: str, default: Any = None) -> Any:
    """The value of one of Numba's settings, such as ``CUDA_ARRAY_INTERFACE_SYNC``."""
    for place in _PLACES:
        found = getattr(sys.modules.get(place), name, None)
        if found is not None:
            return found
    return default


def _wanted(name: str) -> bool:
    return bool(setting(name, 1)) and not setting("DISABLE_PERFORMANCE_WARNINGS", 0)


def warn_of_few_blocks(blocks: int) -> None:
    """Numba's warning of a grid that leaves most of a GPU idle."""
    if blocks < FEW_BLOCKS and _wanted("CUDA_LOW_OCCUPANCY_WARNINGS"):
        text = f"Grid size {blocks} will likely result in GPU under-utilization due to low"
        warn(NumbaPerformanceWarning(f"{text} occupancy."), stacklevel=4)


def warn_of_host_arrays(arguments: tuple) -> None:
    """Numba's warning of arrays that are copied to the GPU and back at a launch."""
    if not _wanted("CUDA_WARN_ON_IMPLICIT_COPY"):
        return
    for value in arguments:
        if isinstance(value, np.ndarray) and not hasattr(value, "_memory"):
            text = "Host array used in CUDA kernel will incur copy overhead to/from device."
            warn(NumbaPerformanceWarning(text), stacklevel=3)


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings about what a GPU would be slow at, unless the environment asks for them."""
    modules = [sys.modules[place] for place in _PLACES if place in sys.modules]
    kept = [
        (module, name, getattr(module, name))
        for module in modules
        for name in _PERFORMANCE
        if hasattr(module, name) and f"NUMBA_{name}" not in os.environ
    ]
    for module, name, _ in kept:
        setattr(module, name, 0)
    try:
        yield
    finally:
        for module, name, value in kept:
            setattr(module, name, value)
