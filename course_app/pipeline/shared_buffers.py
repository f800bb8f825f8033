"""Stacks of images in memory that several processes share: buffers, each with a slot an image.

The memory is a file without a name: each process that has it open sees it, and when all of them
have ended, however they ended, nothing is left. Linux keeps it in memory alone (`memfd_create`);
elsewhere it lies in the folder for temporary files. A buffer's bytes are allocated before it is
used: where memory runs out, fewer buffers have to do, and no process dies of it.
"""

import errno
import mmap
import os
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

from course_app.pipeline.capacity import buffer_count

ALIGNED = 4096  # bytes: each array begins at a page
MOST_SHRUNK = 4  # `course_app.kernels.resize.MOST`, which is not imported before a GPU is used


def goes_as_it_is(levels: np.ndarray, size: tuple[int, int]) -> bool:
    """Whether a GPU can resize an image to `size`, and a slot for that size holds its own bytes."""
    sides = zip(levels.shape, size, strict=True)
    return (
        levels.dtype == np.uint8
        and levels.size <= size[0] * size[1] * np.dtype(np.float32).itemsize
        and all(given <= MOST_SHRUNK * wanted for given, wanted in sides)
    )


@dataclass(frozen=True)
class Layout:
    """Buffers in shared memory, and what a slot of them holds.

    Attributes
    ----------
    count, batch : int
        Buffers, and slots in each.
    size : (int, int)
    ranks : int
        Reconstructions of each image.
    kept : int
        Singular values of the factors; 0 where there are none.
    """

    count: int
    batch: int
    size: tuple[int, int]
    ranks: int
    kept: int = 0

    def shapes(self) -> list[tuple[tuple[int, ...], type]]:
        """Of images, sizes, scan lines and the three factors: shape and type."""
        (rows, columns), all_slots = self.size, (self.count, self.batch)
        arrays: list[tuple[tuple[int, ...], type]] = [
            ((*all_slots, rows, columns), np.float32),
            ((*all_slots, 2), np.int32),
            ((self.count, self.ranks, self.batch, rows, 1 + columns), np.uint8),
        ]
        if self.kept:
            parts = (rows, self.kept), (self.kept,), (self.kept, columns)
            arrays += [((*all_slots, *part), np.float32) for part in parts]
        return arrays

    @property
    def bytes(self) -> int:
        """Of all buffers."""
        return sum(map(_rounded, self.shapes()))

    @classmethod
    def within_memory(
        cls, batch: int, size: tuple[int, int], ranks: int, kept: int, images: int
    ) -> "Layout":
        """A layout with as many buffers as memory holds, at most as many as `images` fill."""
        one = cls(1, batch, size, ranks, kept).bytes
        return cls(buffer_count(one, -(-images // batch)), batch, size, ranks, kept)


def _rounded(array: tuple[tuple[int, ...], type]) -> int:
    shape, dtype = array
    return -(-int(np.prod(shape)) * np.dtype(dtype).itemsize // ALIGNED) * ALIGNED


class SharedBuffers:
    """The arrays of the buffers.

    Parameters
    ----------
    layout : Layout
    file : int, optional
        Descriptor of the shared file; without it memory is this process's alone.

    Attributes
    ----------
    images : ndarray, shape (buffers, batch, rows, columns), float32
        Or, in the same bytes, 8-bit grey levels of another size, which a GPU resizes.
    sizes : ndarray, shape (buffers, batch, 2), int32
        That size; 0, 0 for an image that has the right one.
    lines : ndarray, shape (buffers, ranks, batch, rows, 1 + columns), uint8
    factors : tuple of ndarray
        u, s and vt, or nothing.
    """

    def __init__(self, layout: Layout, file: int | None = None):
        self.layout = layout
        memory = mmap.mmap(-1 if file is None else file, layout.bytes)
        arrays, start = [], 0
        for shape, dtype in layout.shapes():
            count = int(np.prod(shape))
            arrays.append(np.frombuffer(memory, dtype, count, start).reshape(shape))
            start += _rounded((shape, dtype))
        self.images, self.sizes, self.lines, *factors = arrays
        self.factors = tuple(factors)

    def store(self, buffer: int, slot: int, levels: np.ndarray) -> None:
        """Store an image in its slot: float32 of the right size, or uint8 with no more bytes."""
        there = self.images[buffer, slot]
        if levels.dtype == np.uint8:
            there.reshape(-1).view(np.uint8)[: levels.size] = levels.reshape(-1)
            self.sizes[buffer, slot] = levels.shape
        else:
            there[...] = levels
            self.sizes[buffer, slot] = 0


class SharedFile:
    """The file in which the buffers lie, empty until `begin`.

    Attributes
    ----------
    descriptor : int
        The file's descriptor, which the processes inherit.
    """

    def __init__(self) -> None:
        if sys.platform == "linux":
            self.descriptor = os.memfd_create("course-buffers")
        else:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())

    def begin(self, layout: Layout) -> None:
        """Set the layout and the file's length; no memory is allocated yet."""
        self.layout = layout
        os.ftruncate(self.descriptor, 0)
        os.ftruncate(self.descriptor, layout.bytes)

    def reserve(self, buffer: int) -> bool:
        """Allocate a buffer's memory; False where there is no more.

        Raises
        ------
        MemoryError
            Where there is not enough for two buffers.
        """
        start = 0
        try:
            for shape, dtype in self.layout.shapes():
                size = int(np.prod(shape[1:])) * np.dtype(dtype).itemsize
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(self.descriptor, start + buffer * size, size)
                start += _rounded((shape, dtype))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT):
                raise
            if buffer < 2:
                needed = 2 * self.layout.bytes / self.layout.count / 2**20
                raise MemoryError(
                    f"there is no room for {needed:,.0f} MiB of memory that processes share "
                    f"({error.strerror}); choose a smaller --batch"
                ) from error
            return False
        return True

    def close(self) -> None:
        """Let go of it; processes that have it open keep it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
