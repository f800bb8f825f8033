"""Arrays in a real GPU's memory, simulated on copies: those that overlap share one.

A trace on a machine with a GPU reads them before the launch and writes them back after it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from warpsim.core.interface import device_memory
from warpsim.core.memory import contiguous_strides, leaves

#: The copy starts at an address of the GPU that is a multiple of this: elements stay aligned.
ALIGNMENT = 16


def _bounds(interface: dict[str, Any]) -> tuple[int, int]:
    """The addresses of the first byte that an array touches and of the one after its last."""
    shape, dtype = interface["shape"], np.dtype(interface["typestr"])
    start = interface["data"][0]
    if 0 in shape:
        return start, start
    gapless = [step * dtype.itemsize for step in contiguous_strides(shape)]
    strides = interface.get("strides") or gapless
    reach = [(size - 1) * step for size, step in zip(shape, strides, strict=True)]
    low = start + sum(min(0, far) for far in reach)
    return low, start + sum(max(0, far) for far in reach) + dtype.itemsize


def _on_a_gpu(values: tuple) -> Iterator[Any]:
    for value in leaves(values):
        value = value.value if hasattr(value, "direction") else value
        if hasattr(value, "__cuda_array_interface__") and device_memory(value) is None:
            yield value


class Copies:
    """Host copies of the arrays of a GPU that a launch gets; overlapping ones share memory."""

    def __init__(self, arguments: tuple):
        spans: list[list[int]] = []  # start, end
        bounds = (_bounds(one.__cuda_array_interface__) for one in _on_a_gpu(arguments))
        for low, high in sorted(bounds):
            if spans and low < spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], high)
            elif high > low:
                spans.append([low - low % ALIGNMENT, high])
        sizes = (-(-(high - low) // ALIGNMENT) * ALIGNMENT for low, high in spans)
        self.regions = [(*span, np.zeros(size, np.uint8)) for span, size in zip(spans, sizes)]

    def of(self, value: Any) -> np.ndarray:
        """An array's elements in the memory that stands for the GPU's."""
        its = value.__cuda_array_interface__
        copy = value.copy_to_host() if hasattr(value, "copy_to_host") else value.get()
        start = its["data"][0]
        for first, end, memory in self.regions:
            if copy.size and first <= start < end:
                here = np.ndarray(copy.shape, copy.dtype, memory, start - first, its["strides"])
                np.copyto(here, copy)
                return here
        return np.ascontiguousarray(copy)

    @staticmethod
    def back(value: Any, values: np.ndarray, before: bytes) -> None:
        """Write what the launch changed in the copy to the GPU."""
        values = np.ascontiguousarray(values)
        if values.tobytes() == before:
            return  # a view that is only read may have gaps, which Numba does not copy to
        (value.copy_to_device if hasattr(value, "copy_to_host") else value.set)(values)
