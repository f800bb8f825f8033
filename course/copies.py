"""Copies of a call's arrays on the device: each launch takes the next, and finds no warm cache.

A copy has the shape, the strides and the alignment of its original (to 256 bytes), since a kernel's
time depends on them: a copy of ``u[:, :k]`` stays a slice of wide rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

ALIGNMENT = 256  # bytes; what a fresh allocation has at least


class Memory:
    """A piece of device memory as every library takes it, through the CUDA array interface."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: Any, dtype: str, owner: Any):
        self.owner = owner  # keeps the memory alive
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": tuple(shape),
            "strides": None if strides is None else tuple(strides),
            "typestr": dtype,
            "version": 3,
        }


def is_device_array(value: Any) -> bool:
    """Whether a value lies on the device: of Numba, CuPy or PyTorch."""
    if is_torch(value):
        return bool(value.is_cuda)
    return getattr(value, "__cuda_array_interface__", None) is not None


def is_torch(value: Any) -> bool:
    """Whether a value is PyTorch's, without importing it."""
    return type(value).__module__.split(".")[0] == "torch" and hasattr(value, "untyped_storage")


def span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """First and last byte, relative to element 0, that an array's elements touch.

    Returns
    -------
    first : int
        Zero or, with a negative stride, less.
    end : int
        One behind the last byte; equal to `first` without elements.
    """
    if any(size == 0 for size in shape):
        return 0, 0
    steps = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(min(step, 0) for step in steps), itemsize + sum(max(step, 0) for step in steps)


def footprint(values: Sequence[Any]) -> int:
    """Bytes of all arrays among some arguments, each array once."""
    total = 0
    for value in {id(value): value for value in values}.values():
        if isinstance(value, np.ndarray) or is_device_array(value) or hasattr(value, "_memory"):
            size = getattr(value, "nbytes", None)
            if size is None:
                size = math.prod(value.shape) * np.dtype(value.dtype).itemsize
            total += int(size)
    return total


def occupied(value: Any) -> int:
    """Bytes from a device array's first element to its last: what a copy of it takes."""
    if is_torch(value):
        return int(value.untyped_storage().nbytes())
    first, end = span(*_layout(value))
    return end - first


def _layout(value: Any) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and bytes of an element."""
    given = value.__cuda_array_interface__
    itemsize, shape = np.dtype(given["typestr"]).itemsize, tuple(given["shape"])
    strides = given.get("strides")
    if strides is None:
        strides = tuple(itemsize * math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return shape, tuple(strides), itemsize


def copy_of(value: Any, cuda: Any) -> Any:
    """A copy of a device array, of the same library, shape, strides and alignment."""
    if is_torch(value):
        import torch

        flat = value.detach()
        storage = flat.untyped_storage().clone()
        twin = torch.empty(0, dtype=flat.dtype, device=flat.device)
        return twin.set_(storage, flat.storage_offset(), flat.size(), flat.stride())
    given = value.__cuda_array_interface__
    first, end = span(*_layout(value))
    if first == end:
        return value
    start = given["data"][0] + first
    room = cuda.device_array(ALIGNMENT + end - first, np.uint8)
    base = room.__cuda_array_interface__["data"][0]
    begin = base + (start - base) % ALIGNMENT
    source = cuda.as_cuda_array(Memory(start, (end - first,), None, "|u1", value))
    cuda.as_cuda_array(Memory(begin, (end - first,), None, "|u1", room)).copy_to_device(source)
    twin = Memory(begin - first, given["shape"], given.get("strides"), given["typestr"], room)
    if type(value).__module__.split(".")[0] == "cupy":
        import cupy

        return cupy.asarray(twin)
    return cuda.as_cuda_array(twin)


def sets_of_arguments(
    arguments: Sequence[Any],
    cuda: Any,
    *,
    cold: bool,
    l2: int,
    free: int,
    most: int,
    host_arrays: bool,
) -> list[tuple[Any, ...]]:
    """Some sets of arguments that share no memory, together larger than twice the L2 cache.

    Parameters
    ----------
    arguments : sequence
        The first set; NumPy arrays among them go to the device when `host_arrays` is true.
    cold : bool
        Without it one set is all there is.
    l2, free : int
        Bytes of the cache, and of the memory that copies may take.
    most : int
        Sets at most.

    Returns
    -------
    list of tuples
        An array that is passed twice is one array in each set, too.
    """
    placed: dict[int, Any] = {}
    for value in arguments:
        if host_arrays and isinstance(value, np.ndarray) and id(value) not in placed:
            placed[id(value)] = cuda.to_device(value)
    first = tuple(placed.get(id(value), value) for value in arguments)
    arrays = list({id(value): value for value in first if is_device_array(value)}.values())
    touched = footprint(arrays)
    if not cold or touched == 0:
        return [first]
    room = sum(ALIGNMENT + occupied(value) for value in arrays)
    count = min(max(math.ceil(2 * l2 / touched), 2), most, 1 + int(free // room))
    sets = [first]
    for _ in range(count - 1):
        twins = {id(value): copy_of(value, cuda) for value in arrays}
        sets.append(tuple(twins.get(id(value), value) for value in first))
    return sets
