"""Page-locked ("pinned") host memory that is used again and again, and never more than so much.

Locking pages takes the driver longer than most copies take, so it is done once. Pinned memory
cannot be swapped out: what is locked is missing elsewhere, so there is a bound.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from course import backend

GIBIBYTE = 1 << 30


class PoolExhausted(RuntimeError):
    """Everything that the pool may lock is lent out; the message says what to do."""


class PinnedPool:
    """Lends arrays in pinned memory and takes them back; what came back is lent again.

    Parameters
    ----------
    limit : int
        Bytes that may be locked at a time, lent out or waiting.

    Attributes
    ----------
    limit : int
    locked, lent : int
        Bytes that are locked now, and how many of them somebody has.
    allocations : int
        How often the driver was asked for memory.

    Notes
    -----
    Give an array back only when no copy from it or into it is under way: the next borrower writes
    into the same memory. Threads may share a pool.
    """

    def __init__(self, limit: int = 4 * GIBIBYTE):
        if limit < 1:
            raise ValueError(f"PinnedPool: limit is {limit}; give a number of bytes from 1 up")
        self.limit = int(limit)
        self.locked = self.lent = self.allocations = 0
        self._free: list[np.ndarray] = []  # of bytes
        self._out: dict[int, np.ndarray] = {}  # address -> bytes that are lent
        self._changed = threading.Condition()

    def take(
        self, shape: int | tuple[int, ...], dtype: Any = np.float32, wait: float = 0.0
    ) -> np.ndarray:
        """Lend an array; what stands in it is left over from before.

        Parameters
        ----------
        shape : int or tuple of int
        dtype : dtype
        wait : float
            So many seconds at most for others to give something back.

        Raises
        ------
        ValueError
            When the pool is smaller than the array.
        PoolExhausted
            When too much is lent out, and nothing came back in time.
        """
        dtype = np.dtype(dtype)
        shape = shape if isinstance(shape, tuple) else (shape,)
        size = max(math.prod(shape) * dtype.itemsize, 1)
        if size > self.limit:
            raise ValueError(
                f"an array of {size:,} bytes is more than this pool may lock, {self.limit:,}: "
                "make PinnedPool(limit=...) larger, or work on fewer images at a time"
            )
        with self._changed:
            if not self._changed.wait_for(lambda: self.lent + size <= self.limit, wait):
                raise PoolExhausted(
                    f"{self.lent:,} of the pool's {self.limit:,} bytes are lent out, so there are "
                    f"not {size:,} left: give arrays back with pool.give(array), wait for others "
                    "with take(..., wait=seconds), or make the pool larger"
                )
            buffer = self._found(size)
            self.lent += buffer.nbytes
            self._out[buffer.ctypes.data] = buffer
        return buffer[: math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)

    def _found(self, size: int) -> np.ndarray:
        """The smallest free buffer that fits and wastes less than half of itself, or a new one."""
        fitting = [
            buffer
            for buffer in self._free
            if size <= buffer.nbytes <= 2 * size and self.lent + buffer.nbytes <= self.limit
        ]
        if fitting:
            best = min(fitting, key=lambda buffer: buffer.nbytes)
            self._free = [buffer for buffer in self._free if buffer is not best]
            return best
        while self._free and self.locked + size > self.limit:
            self.locked -= self._free.pop(0).nbytes
        self.locked += size
        self.allocations += 1
        return backend.cuda.pinned_array(size, np.uint8)

    def give(self, *arrays: np.ndarray) -> None:
        """Take arrays back.

        Raises
        ------
        ValueError
            When one was not lent by this pool, or came back before.
        """
        with self._changed:
            for array in arrays:
                buffer = self._out.pop(array.ctypes.data, None)
                if buffer is None:
                    raise ValueError(
                        f"this array of shape {array.shape} is not lent by this pool: give back "
                        "what take() returned, once, and no part of it"
                    )
                self.lent -= buffer.nbytes
                self._free.append(buffer)
            self._changed.notify_all()

    @contextmanager
    def lend(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Iterator[np.ndarray]:
        """An array for the length of a ``with``."""
        array = self.take(shape, dtype)
        try:
            yield array
        finally:
            self.give(array)

    def __repr__(self) -> str:
        return (
            f"<PinnedPool: {self.lent:,} bytes lent, {self.locked:,} locked, "
            f"at most {self.limit:,}>"
        )
