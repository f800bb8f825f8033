"""Array slots: arrays without memory, with which launches are prepared.

A function that lists launches reads arrays' shape, dtype, strides and alignment, never elements.
So it can be given array slots, and its launches then serve all arrays that look alike.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from course import backend
from warpsim.ptx.bfloat16 import BFLOAT16, bfloat16

#: An array slot has a made-up address, with the index of the slot in its upper bits.
_SLOT_BITS = 48
_FIRST = 1 << 8  # so that no slot's address can be one of memory


class HasShape:
    """Properties that follow from a shape."""

    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True)
class ArraySlot(HasShape):
    """An array as a kernel sees it, but for its memory."""

    slot: int  # its index among a call's arrays, results and workspaces
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in bytes
    dtype: np.dtype
    offset: int = 0  # bytes from the array's first element
    beyond: int = 0  # that element's address modulo 16 bytes

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        address = ((_FIRST + self.slot) << _SLOT_BITS) + self.beyond + self.offset
        return {
            "data": (address, False), "shape": self.shape, "strides": self.strides,
            "typestr": self.dtype.str, "version": 3,
        }  # fmt: skip

    def __len__(self) -> int:
        return self.shape[0]

    def is_c_contiguous(self) -> bool:
        """Whether elements are contiguous, the last axis the fastest."""
        return _in_order(self.shape[::-1], self.strides[::-1], self.dtype.itemsize)

    def is_f_contiguous(self) -> bool:
        """Whether elements are contiguous, the first axis the fastest."""
        return _in_order(self.shape, self.strides, self.dtype.itemsize)

    def reshape(self, *shape: Any) -> ArraySlot:
        """The same elements in another shape; ValueError where they are not contiguous."""
        if len(shape) == 1 and isinstance(shape[0], Sequence):
            shape = tuple(shape[0])
        if math.prod(shape) != self.size or not self.is_c_contiguous():
            raise ValueError(f"an array of {self.shape}, {self.strides} bytes, is not {shape}")
        return replace(self, shape=tuple(shape), strides=in_c_order(shape, self.dtype.itemsize))

    def numba_type(self) -> Any:
        """The type that Numba gives such an array on the device."""
        from numba import types
        from numba.np import numpy_support

        order = "A"
        if not (0 in self.strides and self.size):
            order = "C" if self.is_c_contiguous() else "F" if self.is_f_contiguous() else "A"
        known = self.dtype != BFLOAT16
        element = numpy_support.from_dtype(self.dtype) if known else bfloat16
        return types.Array(element, self.ndim, order)


def name_of(dtype: Any) -> str:
    """What a type of element is called: "float32", "bfloat16"."""
    return "bfloat16" if dtype == BFLOAT16 else str(dtype)


def in_c_order(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Strides in bytes of elements that are contiguous, the last axis the fastest."""
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _in_order(lengths: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Whether elements are contiguous, the first axis given the fastest."""
    if 0 in lengths:
        return True
    for length, stride in zip(lengths, strides, strict=True):
        if length != 1 and stride != itemsize:
            return False
        itemsize *= length
    return True


class DeviceMemory:
    """Device memory as every library takes it, through the CUDA array interface."""

    def __init__(self, address: int, shape: tuple[int, ...], strides: Any, dtype: str, owner: Any):
        self.owner = owner  # keeps the memory alive
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": tuple(shape),
            "strides": None if strides is None else tuple(strides),
            "typestr": dtype,
            "version": 3,
        }


# --- workspaces -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workspace:
    """Scratch memory that a plan needs besides arrays and results."""

    slot: int
    shape: tuple[int, ...]
    dtype: np.dtype
    zeros: bool

    @property
    def nbytes(self) -> int:
        """Bytes, at least one."""
        return max(math.prod(self.shape) * self.dtype.itemsize, 1)


class _Planning(threading.local):
    workspaces: list[Workspace] | None = None
    first = 0


_planning = _Planning()


@contextmanager
def planning(first: int) -> Iterator[list[Workspace]]:
    """While a plan is made: `workspace` only lists slots, from index `first` on."""
    before = _planning.workspaces, _planning.first
    found: list[Workspace] = []
    _planning.workspaces, _planning.first = found, first
    try:
        yield found
    finally:
        _planning.workspaces, _planning.first = before


def workspace(shape: int | tuple[int, ...], dtype: Any, zeros: bool = False) -> Any:
    """Scratch memory on the GPU for launches, in C order.

    While a plan is made, this is an array slot. The plan then has memory of its own for each stream
    and each captured graph; with PyTorch's allocator, for each call. Elsewhere it is an array that
    lives as long as somebody holds it.

    Parameters
    ----------
    zeros : bool
        It holds zeros before the first launch; later ones find what was left.
    """
    shape, dtype = (shape,) if isinstance(shape, int) else tuple(shape), np.dtype(dtype)
    if _planning.workspaces is None:
        if zeros:
            return backend.cuda.to_device(np.zeros(shape, dtype))
        return backend.cuda.device_array(shape, dtype)
    slot = _planning.first + len(_planning.workspaces)
    _planning.workspaces.append(Workspace(slot, shape, dtype, zeros))
    return ArraySlot(slot, shape, in_c_order(shape, dtype.itemsize), dtype)
