"""How matrices lie in shared memory and in registers for Hopper's wgmma and TMA.

Source: NVIDIA, PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", "Matrix
Descriptor", "Register Fragments and Shared Memory Matrix Layouts: wgmma.mma_async.m64nNk16",
"Tensor swizzling modes".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

ndarray = np.ndarray
#: Number of a layout in a descriptor, by the bytes of a row that is swizzled; 16: none is.
LAYOUTS = {16: 0, 128: 1, 64: 2, 32: 3}


def swizzled(address, row_bytes: int):
    """Where the byte of an address lies: chunks of 16 bytes are permuted within a row of a tile.

    Address bits 4 to 6 (128 bytes), 4 and 5 (64), or 4 (32) are xored with bits 7 to 9, 7 and 8, 7.
    """
    return address ^ (address >> 7 & row_bytes // 16 - 1) << 4 if row_bytes > 16 else address


@dataclass(frozen=True)
class Operand:
    """A matrix in shared memory, as a 64-bit descriptor says it.

    Attributes
    ----------
    start : int
        Byte address.
    leading, stride : int
        Bytes from one group of columns, or of eight rows, to the next; see PTX ISA.
    row_bytes : int
        16 (not swizzled), 32, 64 or 128.
    transposed : bool
        Rows' neighbours lie side by side (MN-major) instead of columns' (K-major).
    """

    start: int
    leading: int
    stride: int
    row_bytes: int
    transposed: bool = False

    @property
    def descriptor(self) -> int:
        """The 64 bits that tell an instruction all this but ``transposed``."""
        fields = (self.start, self.leading, self.stride)
        start, leading, stride = (number >> 4 & 0x3FFF for number in fields)
        return start | leading << 16 | stride << 32 | LAYOUTS[self.row_bytes] << 62

    def chunks(self, first: int, rows: int, columns: int) -> ndarray:
        """Numbers of the 16-byte chunks that hold some rows and columns (from column 0) of halves.

        Shape (rows, columns // 8), or (columns, rows // 8) if transposed.
        """
        made = _offsets(
            first, rows, columns, self.leading, self.stride, self.row_bytes, self.transposed
        )
        return swizzled(self.start + made, self.row_bytes) >> 4


@lru_cache(maxsize=256)
def _offsets(first, rows, columns, leading, stride, row_bytes, transposed) -> ndarray:
    """Bytes from a descriptor's start to each chunk, before they are swizzled."""
    if not transposed:
        row = np.arange(first, first + rows)[:, None]
        chunk = 16 * np.arange(columns // 8)[None, :]
        in_row, beyond = chunk % row_bytes, chunk // row_bytes
        return row // 8 * stride + row % 8 * row_bytes + in_row + beyond * leading
    column = np.arange(columns)[:, None]
    chunk = 2 * np.arange(first, first + rows, 8)[None, :]
    in_row, beyond = chunk % row_bytes, chunk // row_bytes
    groups, steps = (stride, leading) if row_bytes > 16 else (leading, stride)
    return column // 8 * groups + column % 8 * row_bytes + in_row + beyond * steps


def taken(memory: ndarray, chunks: ndarray, transposed: bool) -> ndarray:
    """The halves of some chunks as a matrix of uint16, rows by columns."""
    matrix = memory.reshape(-1, 16)[chunks].view(np.uint16).reshape(len(chunks), -1)
    return matrix.T if transposed else matrix


# ---------------------------------------------------------------------- registers of a product
def matrix_of(registers: ndarray) -> ndarray:
    """A warp's 16 rows of sums from its registers, (N / 2, 32)."""
    split = registers.reshape(-1, 2, 2, 8, 4)  # eight columns, half, neighbour, row, pair
    return split.transpose(1, 3, 0, 4, 2).reshape(16, -1)


def registers_of(matrix: ndarray) -> ndarray:
    """The registers, (N / 2, 32), of a warp's 16 rows."""
    split = matrix.reshape(2, 8, -1, 4, 2)
    return split.transpose(2, 0, 4, 1, 3).reshape(-1, 32)


class Box:
    """What one TMA copy moves: a box of a tensor, rows of it swizzled in shared memory.

    Attributes
    ----------
    array : Array
        The tensor in global memory.
    box : tuple of int
        As the array's shape: the innermost axis last.
    swizzle : int
        0, 32, 64 or 128 bytes.
    """

    def __init__(self, array: Any, box: tuple[int, ...], swizzle: int):
        self.array, self.box, self.swizzle = array, box, swizzle
        self.alignment = max(128, 8 * swizzle)
        self.bytes = int(np.prod(box)) * array.itemsize
        steps = tuple(stride * array.itemsize for stride in array.strides)
        flat = array.flat[array.offset :]
        self.tensor = np.lib.stride_tricks.as_strided(flat, array.shape, steps)
        rows = 16 * np.arange(self.bytes // 16)
        self.chunks = swizzled(rows, max(16, swizzle)) >> 4

    def elements(self, corner: tuple[int, ...]) -> ndarray:
        """Numbers of the elements that a box at a corner covers, (rows, columns)."""
        rows, columns = (np.arange(part.start, part.stop) for part in self.parts(corner)[1])
        steps = self.array.strides
        return self.array.offset + rows[:, None] * steps[0] + columns * steps[1]

    def parts(self, corner: tuple[int, ...]) -> tuple[tuple, tuple]:
        """The parts of the box and of the tensor that lie in each other."""
        inside, there = [], []
        for at, size, whole in zip(corner, self.box, self.array.shape, strict=True):
            low = min(max(at, 0), whole)
            high = max(min(at + size, whole), low)
            inside.append(slice(low - at, high - at) if high > low else slice(0, 0))
            there.append(slice(low, high))
        return tuple(inside), tuple(there)

    def read(self, corner: tuple[int, ...]) -> ndarray:
        """The box at a corner (innermost axis last) as chunks of 16 bytes; outside it is 0."""
        values = np.zeros(self.box, self.array.dtype)
        inside, there = self.parts(corner)
        values[inside] = self.tensor[there]
        return values.reshape(-1).view(np.uint8).reshape(-1, 16)

    def write(self, corner: tuple[int, ...], chunks: ndarray) -> None:
        """Write a box from shared memory; what lies outside of the tensor is dropped."""
        values = np.ascontiguousarray(chunks).reshape(-1).view(self.array.dtype).reshape(self.box)
        inside, there = self.parts(corner)
        self.tensor[there] = values[inside]
