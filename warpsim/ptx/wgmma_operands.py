"""How matrices lie in shared memory and in registers for Hopper's wgmma and TMA.

Source: NVIDIA, PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Register
Fragments for wgmma.mma_async.m64nNk16", "Tensor swizzling modes".
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

ndarray = np.ndarray
PIECE = 64 * 128  # bytes of 64 rows of 64 numbers of 16 bits


def swizzled(address):
    """Where a byte lies: bits 4 to 6 of its address (the chunk) are xored with bits 7 to 9."""
    return address ^ (address >> 7 & 7) << 4


def chunks_of(start: int, first: int, rows: int, turned: bool) -> ndarray:
    """Numbers of the chunks of 16 bytes of some rows of an operand, 64 deep; all is swizzled.

    Parameters
    ----------
    start : int
        The operand's first byte.
    first, rows : int
    turned : bool
        Whether neighbours lie along the rows' numbers (MN-major), in pieces of 64, not the depth.

    Returns
    -------
    ndarray of int, (rows, 8) or, turned, (64, rows // 8)
    """
    return (start >> 4) + _chunks(first, rows, turned)


@lru_cache(maxsize=64)
def _chunks(first: int, rows: int, turned: bool) -> ndarray:
    if not turned:
        return swizzled(128 * np.arange(first, first + rows)[:, None] + 16 * np.arange(8)) >> 4
    along = 2 * np.arange(first, first + rows, 8)
    return swizzled(128 * np.arange(64)[:, None] + along // 128 * PIECE + along % 128) >> 4


def taken(memory: ndarray, chunks: ndarray, turned: bool) -> ndarray:
    """An operand as a matrix of uint16, (rows, 64)."""
    matrix = memory.reshape(-1, 16)[chunks].view(np.uint16).reshape(len(chunks), -1)
    return matrix.T if turned else matrix


def matrix_of(registers: ndarray) -> ndarray:
    """A warp's 16 rows of sums from its registers, (N / 2, 32)."""
    split = registers.reshape(-1, 2, 2, 8, 4)  # eight columns, half, neighbour, row, pair
    return split.transpose(1, 3, 0, 4, 2).reshape(16, -1)


def registers_of(matrix: ndarray) -> ndarray:
    """The registers, (N / 2, 32), of a warp's 16 rows."""
    split = matrix.reshape(2, 8, -1, 4, 2)
    return split.transpose(2, 0, 4, 1, 3).reshape(-1, 32)


class Box:
    """What a TMA copy moves: a box of a matrix in global memory.

    Attributes
    ----------
    array : Array
    box : (int, int)
        Rows and columns.
    alignment : int
        Of its place in shared memory, in bytes.
    chunks : ndarray of int
        Where each 16 bytes of the box go, from that place on.
    """

    def __init__(self, array: Any, box: tuple[int, int], swizzle: bool):
        self.array, self.box, size = array, box, array.itemsize
        self.alignment = 1024 if swizzle else 128
        self.bytes = box[0] * box[1] * size
        places = 16 * np.arange(self.bytes // 16)
        self.chunks = (swizzled(places) if swizzle else places) >> 4
        steps = tuple(stride * size for stride in array.strides)
        flat = array.flat[array.offset :]
        self.matrix = np.lib.stride_tricks.as_strided(flat, array.shape, steps)

    def parts(self, corner: tuple[int, int]) -> tuple[tuple, tuple]:
        """The parts of the box and of the matrix that lie in each other."""
        inside, there = [], []
        for at, size, whole in zip(corner, self.box, self.array.shape, strict=True):
            low = min(max(at, 0), whole)
            high = max(min(at + size, whole), low)
            inside.append(slice(low - at, high - at) if high > low else slice(0, 0))
            there.append(slice(low, high))
        return tuple(inside), tuple(there)

    def elements(self, corner: tuple[int, int]) -> ndarray:
        """Numbers of the elements that a box at a corner covers, (rows, columns)."""
        rows, columns = (np.arange(part.start, part.stop) for part in self.parts(corner)[1])
        steps = self.array.strides
        return self.array.offset + rows[:, None] * steps[0] + columns * steps[1]

    def read(self, corner: tuple[int, int]) -> ndarray:
        """The box at a corner as chunks of 16 bytes; what is outside of the matrix is 0."""
        values = np.zeros(self.box, self.array.dtype)
        inside, there = self.parts(corner)
        values[inside] = self.matrix[there]
        return values.view(np.uint8).reshape(-1, 16)

    def write(self, corner: tuple[int, int], chunks: ndarray) -> None:
        """Write a box from shared memory; what is outside of the matrix is dropped."""
        values = chunks.reshape(-1).view(self.array.dtype).reshape(self.box)
        inside, there = self.parts(corner)
        self.matrix[there] = values[inside]
