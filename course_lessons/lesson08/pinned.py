"""Memory for copies that overlap: pinned on the host, a slot on the GPU for each launch's images.

Locking pages ("pinning") takes the driver longer than most copies take, so it is done once and used
again. It cannot be swapped out: what is locked is missing elsewhere, so there is a bound.
`Recorder` makes spans of a timeline from the events around what is queued.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from course import backend
from course.kernels.reconstruct.ladder import LADDER
from course.measure.timeline import Span, one_at_a_time

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


# --- spans from events ----------------------------------------------------------------------------

LANES = ("copy in", "compute", "copy out")  # a GPU's engines, as rows of a timeline


class Recorder:
    """Puts events around pieces of work and makes spans of them."""

    def __init__(self, stream: Any):
        self.cuda = backend.cuda
        self.start = self.cuda.event()
        self.marks: list[tuple[str, str, Any, Any, int, int]] = []
        self.start.record(stream)

    @contextmanager
    def __call__(self, name: str, lane: str, stream: Any, image: int, number: int):
        before, after = self.cuda.event(), self.cuda.event()
        before.record(stream)
        yield
        after.record(stream)
        self.marks.append((name, lane, before, after, image, number))

    def spans(self) -> tuple[Span, ...]:
        """The spans, when all work is done; without a GPU there are none."""
        if backend.gpu() is None:
            return ()
        since = functools.partial(self.cuda.event_elapsed_time, self.start)
        found = [
            Span(name, lane, float(since(before)), float(since(after)), image, number)
            for name, lane, before, after, image, number in self.marks
        ]
        return one_at_a_time(found, ("copy in", "copy out"))


def untimed(*_: Any) -> AbstractContextManager[None]:
    """Stand in for a `Recorder` where nothing is recorded."""
    return nullcontext()


# --- room on the GPU for the images of one launch -------------------------------------------------

ALIGNED = 64  # float32: allocations on a GPU start on 256 bytes
Shape = tuple[int, int, int]  # rows, columns, and how many columns of u and rows of vt


def packed(
    u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int, take: Callable[[int], np.ndarray]
) -> np.ndarray:
    """What k layers need of the factors, one after the other in a buffer that `take(n)` lends."""
    parts = [part.ravel() for part in (u[:, :k], s[:k], vt[:k])]
    size = sum(part.size for part in parts)
    return np.concatenate(parts, out=take(size)[:size], casting="same_kind")


def floats(size: int, shape: Shape) -> int:
    """How many float32 the factors of so many images take in one piece, gaps included."""
    return _places(size, shape)[-1].stop


def views(memory: Any, size: int, shape: Shape, front: bool = True) -> tuple[Any, Any, Any]:
    """u, s and vt of so many images in one piece of memory, so that one copy moves them all.

    Parameters
    ----------
    memory : array, shape (at least floats(size, shape),), float32
        Of NumPy or of the GPU.
    size : int
        Images.
    shape : (rows, columns, depth)
    front : bool
        Whether a single image has an axis of images, too.
    """
    rows, columns, depth = shape
    many = (size,) if front or size > 1 else ()
    shapes = (*many, rows, depth), (*many, depth), (*many, depth, columns)
    u, s, vt = (
        memory[place].reshape(shape)
        for place, shape in zip(_places(size, shape), shapes, strict=True)
    )
    return u, s, vt


def _places(size: int, shape: Shape) -> list[slice]:
    """Where u, s and vt lie; each starts where wide accesses may start."""
    rows, columns, depth = shape
    places, start = [], 0
    for count in (size * rows * depth, size * depth, size * depth * columns):
        places.append(slice(start, start + count))
        start += -(-count // ALIGNED) * ALIGNED
    return places


class Slot:
    """Room on the GPU for the factors and results of one launch, and the launch, made ready.

    Attributes
    ----------
    memory : device array, shape (floats(size, shape),), float32
        The factors in one piece.
    out : device array, shape (rows, columns) or (size, rows, columns), float32
    into, compute, out_of : stream
        Where copies in, kernels and copies out are queued; one and the same, but for `queues`.
    arrived, computed, emptied : event
        The factors are there; the kernel is done with them; the image has left.
    """

    def __init__(self, size: int, shape: Shape, k: int, kernel: str,
                 streams: tuple[Any, Any, Any], number: int):  # fmt: skip
        cuda, (rows, columns, _) = backend.cuda, shape
        self.memory = cuda.device_array(floats(size, shape), np.float32)
        self.factors = views(self.memory, size, shape, front=False)
        self.out = cuda.device_array((size, rows, columns)[size == 1 :], np.float32)
        self.into, self.compute, self.out_of = streams
        self.arrived, self.computed, self.emptied = (cuda.event(timing=False) for _ in range(3))
        self.number = number
        self._launches = [
            (its.configured(self.compute), its.arguments)
            for its in LADDER.launches(*self.factors, self.out, k=k, method=kernel)
        ]

    def launch(self) -> None:
        """Compute what is in `memory`; nothing is waited for."""
        for kernel, arguments in self._launches:
            kernel(*arguments)
