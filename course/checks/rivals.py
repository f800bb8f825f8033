"""What a student's kernel is shown beside once it is right: see `course.checks.beside`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from course.checks.exercises import Case, Dimensions


@dataclass(frozen=True)
class Launch:
    """A launch of one of the package's kernels; `shared` are bytes of dynamic shared memory."""

    kernel: Any
    grid: Dimensions
    block: Dimensions
    arguments: tuple[Any, ...]
    shared: int = 0


@dataclass(frozen=True, kw_only=True)
class Rivals:
    """Other programs for an exercise's work, the least that it takes, and sizes.

    Functions take a case's arguments by name.

    Parameters
    ----------
    package : callable, optional
        Returns the package's launches for NumPy arrays, a list of `Launch`.
    called : callable, optional
        Returns ``(call, arguments)`` for arrays on a GPU, to be timed; without it the one launch of
        `package` is.
    torch : callable, optional
        Takes the module and then the inputs, as tensors on the GPU and plain numbers; returns what
        is computed.
    bytes : callable, optional
        Bytes that any program must read or write once; without it those of all arrays.
    operations : callable, optional
        float32 operations that any program needs.
    traced, timed : Case, optional
        What is counted, and what a GPU is timed with; without them the exercise's measured case,
        and what is counted.
    recorded : mapping
        What `course.recorded` is asked for, of the timed case on an H200: ``{"package": {"subject":
        "norm", "variant": "warp", ...}, "PyTorch": {...}}``.
    """

    package: Callable[..., list[Launch]] | None = None
    called: Callable[..., tuple[Callable[..., Any], tuple[Any, ...]]] | None = None
    torch: Callable[..., Any] | None = None
    bytes: Callable[..., float] | None = None
    operations: Callable[..., float] | None = None
    traced: Case | None = None
    timed: Case | None = None
    recorded: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def least(self, arguments: Mapping[str, Any]) -> tuple[float, float]:
        """Bytes and operations that any program needs for these arguments."""
        arrays = [value for value in arguments.values() if isinstance(value, np.ndarray)]
        moved = sum(array.nbytes for array in arrays)
        if self.bytes is not None:
            moved = self.bytes(**arguments)
        return moved, self.operations(**arguments) if self.operations is not None else 0
