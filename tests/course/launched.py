"""Kernels that no function calls for its user, launched as those who use them do."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course import cuda
from course.kernels.steps import configured


def launched(launches: Callable[..., Any], arrays: Sequence[np.ndarray], shapes: Sequence[tuple],
             *options: Any, **named: Any) -> list[np.ndarray]:  # fmt: skip
    """The results, float32 and poisoned before, of ``launches(*arrays, *results, *options)``."""
    there = [cuda.to_device(array) for array in arrays]
    results = [cuda.to_device(np.full(shape, np.nan, np.float32)) for shape in shapes]
    for kernel, arguments in configured(launches(*there, *results, *options, **named)):
        kernel(*arguments)
    return [result.copy_to_host() for result in results]


def layered(steps: Callable[..., Any], x: np.ndarray, weight: np.ndarray, bias: np.ndarray,
            shape: tuple, activation: str | None, method: str) -> np.ndarray:  # fmt: skip
    """A layer's result, of ``steps(x, weight, bias, out, activation, method)``."""

    def launches(*given: Any) -> list[tuple[Callable, tuple]]:
        return [(kernel[how], arguments) for _, kernel, how, arguments in steps(*given)]

    (found,) = launched(launches, (x, weight, bias), [shape], activation, method)
    return found
