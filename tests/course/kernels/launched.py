"""Kernels that no function calls for its user, launched as those who use them do."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course import cuda, trace
from course.kernels.steps import Ladder, Launch, configured
from warpsim.draw.report import Report


def launched(launches: Callable[..., Any], arrays: Sequence[np.ndarray], shapes: Sequence[tuple],
             *options: Any, **named: Any) -> list[np.ndarray]:  # fmt: skip
    """The results, float32 and poisoned before, of ``launches(*arrays, *results, *options)``."""
    there = [cuda.to_device(array) for array in arrays]
    results = [cuda.to_device(np.full(shape, np.nan, np.float32)) for shape in shapes]
    for kernel, arguments in configured(launches(*there, *results, *options, **named)):
        kernel(*arguments)
    return [result.copy_to_host() for result in results]


def layered(ladder: Ladder, x: np.ndarray, weight: np.ndarray, bias: np.ndarray,
            shape: tuple, activation: str | None, method: str) -> np.ndarray:  # fmt: skip
    """A layer's result, of a method of its ladder."""

    def launches(*given: Any) -> list[Launch]:
        return ladder.launches(*given, activation=activation, method=method)

    (found,) = launched(launches, (x, weight, bias), [shape])
    return found


def traced(its: Launch, blocks: int | None = None) -> Report:
    """Trace a launch on a simulated H200, or so many blocks of it; nothing may be wrong."""
    report = trace(its.kernel, blocks or its.grid, its.block, *its.arguments,
                   dynamic_shared=its.shared, gpu="H200")  # fmt: skip
    assert not [found for found in report.findings if found.is_error], report.findings
    return report
