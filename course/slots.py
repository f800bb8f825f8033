"""Room on the GPU for the images of one launch; events that become spans."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from course import backend
from course.kernels.reconstruct import step_for
from course.timeline import Span, one_at_a_time

LANES = ("copy in", "compute", "copy out")  # a GPU's engines, as rows of a timeline
ALIGNED = 64  # float32: allocations on a GPU start on 256 bytes


# ---------------------------------------------------------------------- times
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


# ---------------------------------------------------------------------- memory
Shape = tuple[int, int, int]  # rows, columns, and how many columns of u and rows of vt


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
        self.number, self.k = number, k
        _, step = step_for(kernel, rows, columns, k, images=size if size > 1 else 0)
        u, _, vt = self.factors
        self._launch = step.configured(u, vt, k, self.out, stream=self.compute)

    def launch(self) -> None:
        """Compute what is in `memory`; nothing is waited for."""
        self._launch(*self.factors, self.k, self.out)
