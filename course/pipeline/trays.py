"""Stacks of images in memory that several processes share: trays, of so many places each.

The memory is a file without a name: whoever has it open sees it, and when all of them have ended,
however they ended, nothing is left. Linux keeps it in memory alone (`memfd_create`); elsewhere it
lies in the folder for temporary files. Its bytes are asked for at once: where there is not so much,
that is said at the start, and no process ends for it later.
"""

import errno
import mmap
import os
import sys
import tempfile
from dataclasses import dataclass

import numpy as np

from course.pipeline.capacity import tray_count

ALIGNED = 4096  # bytes: each array begins at a page


@dataclass(frozen=True)
class Layout:
    """Trays, and what a place in them holds.

    Attributes
    ----------
    count, batch : int
        Trays, and places in each.
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
        """Of images, scan lines and the three factors: shape and type."""
        (rows, columns), all_places = self.size, (self.count, self.batch)
        arrays: list[tuple[tuple[int, ...], type]] = [
            ((*all_places, rows, columns), np.float32),
            ((self.count, self.ranks, self.batch, rows, 1 + columns), np.uint8),
        ]
        if self.kept:
            parts = (rows, self.kept), (self.kept,), (self.kept, columns)
            arrays += [((*all_places, *part), np.float32) for part in parts]
        return arrays

    @property
    def bytes(self) -> int:
        """Of all trays."""
        return sum(map(_rounded, self.shapes()))

    @classmethod
    def within_memory(
        cls, batch: int, size: tuple[int, int], ranks: int, kept: int, images: int
    ) -> "Layout":
        """As many trays as memory has room for, at most those that so many images fill."""
        one = cls(1, batch, size, ranks, kept).bytes
        return cls(tray_count(one, -(-images // batch)), batch, size, ranks, kept)


def _rounded(array: tuple[tuple[int, ...], type]) -> int:
    shape, kind = array
    return -(-int(np.prod(shape)) * np.dtype(kind).itemsize // ALIGNED) * ALIGNED


class Trays:
    """The arrays of trays.

    Parameters
    ----------
    layout : Layout
    file : int, optional
        Descriptor of the shared file; without it memory is this process's alone.

    Attributes
    ----------
    images : ndarray, shape (trays, batch, rows, columns), float32
    lines : ndarray, shape (trays, ranks, batch, rows, 1 + columns), uint8
    factors : tuple of ndarray
        u, s and vt, or nothing.
    """

    def __init__(self, layout: Layout, file: int | None = None):
        self.layout = layout
        memory = mmap.mmap(-1 if file is None else file, layout.bytes)
        arrays, start = [], 0
        for shape, kind in layout.shapes():
            count = int(np.prod(shape))
            arrays.append(np.frombuffer(memory, kind, count, start).reshape(shape))
            start += _rounded((shape, kind))
        self.images, self.lines, *factors = arrays
        self.factors = tuple(factors)


class SharedFile:
    """The file in which trays lie, empty until `make_room`.

    Attributes
    ----------
    descriptor : int
        Which processes inherit.
    """

    def __init__(self) -> None:
        if sys.platform == "linux":
            self.descriptor = os.memfd_create("course-trays")
        else:
            with tempfile.TemporaryFile() as file:
                self.descriptor = os.dup(file.fileno())

    def make_room(self, layout: Layout) -> Layout:
        """Take memory for trays, fewer where there is not so much; what there is room for.

        Raises
        ------
        MemoryError
            Where there is no room for two trays.
        """
        while True:
            try:
                self._reserve(layout.bytes)
                return layout
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT):
                    raise
                if layout.count <= 2:
                    raise MemoryError(
                        f"there is no room for {layout.bytes / 2**20:,.0f} MiB of memory that "
                        f"processes share ({error.strerror}); choose a smaller --batch"
                    ) from error
            layout = Layout(max(2, layout.count // 2), *_rest(layout))

    def _reserve(self, count: int) -> None:
        os.ftruncate(self.descriptor, 0)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self.descriptor, 0, count)
        else:
            os.ftruncate(self.descriptor, count)

    def close(self) -> None:
        """Let go of it; processes that have it open keep it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _rest(layout: Layout) -> tuple:
    return layout.batch, layout.size, layout.ranks, layout.kept
