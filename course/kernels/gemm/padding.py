"""Copies with padded rows, for TMA: its matrices' rows must begin at multiples of 16 bytes.

>>> first, (a, b) = launches((a, b), (True, False))     # what copies a, and what to multiply then

A copy reads and writes the matrix once more. It pays where each element is used often.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from numba import int32, uint32

from course.backend import cuda
from course.dispatch.slots import workspace
from course.kernels.arrays import Array, address_of, as_words, flat
from course.kernels.steps import Launch, ceil_div, round_up
from warpsim.ptx import grid_dependency_wait, load, quotient, store4

THREADS = 256
LONG = 512  # rows of so many elements are padded to multiples of 64; shorter ones, of 16


@functools.cache
def pad() -> Callable:
    """The kernel of two matrices, each (words, elements, out as words, width, pitch, total).

    `total` is a matrix's number of elements, or 0 where its address allows no words of 4 bytes.
    Mapping: a thread copies eight neighbours of a row; the first `blocks` blocks copy the first
    matrix. Memory: rows are read by words, and shifted where they begin in the middle of one.
    """

    @cuda.jit(device=True, forceinline=True)
    def copy(block, words, elements, out, width, pitch, total):
        n = int32(int32(block) * THREADS + int32(cuda.threadIdx.x))
        chunks = int32(pitch >> 3)
        row = quotient(n, chunks)
        column = int32((n - row * chunks) << 3)
        at = int32(row * width + column)
        if 8 * n < out.shape[0] * 2:
            found = cuda.local.array(4, uint32)
            if column + 8 <= width and at + 10 <= total:
                low = load(words, int32(at >> 1))
                for e in range(4):
                    high = load(words, int32((at >> 1) + 1 + e))
                    found[e] = (low >> uint32(16) | high << uint32(16)) if at & 1 else low
                    low = high
            else:
                for e in range(4):
                    word = uint32(0)
                    for h in range(2):
                        if column + 2 * e + h < width:
                            word |= uint32(load(elements, int32(at + 2 * e + h))) << uint32(16 * h)
                    found[e] = word
            store4(out, int32(4 * n), (found[0], found[1], found[2], found[3]))

    @cuda.jit(launch_bounds=(THREADS, 4))
    def pad_rows(
        words, elements, out, width, pitch, total,
        words2, elements2, out2, width2, pitch2, total2, blocks,
    ):  # fmt: skip
        grid_dependency_wait()
        block = int32(cuda.blockIdx.x)
        if block < blocks:
            copy(block, words, elements, out, width, pitch, total)
        else:
            copy(int32(block - blocks), words2, elements2, out2, width2, pitch2, total2)

    return pad_rows


def launches(
    arrays: tuple[Array, Array], copied: tuple[bool, bool]
) -> tuple[list[Launch], list[Array]]:
    """The launch that copies those of two matrices that are `copied`; the matrices to multiply."""
    given, blocks, found = [], [], []
    for array, is_copied in zip(arrays, copied, strict=True):
        found.append(array)
        if not is_copied:
            continue
        height, width = array.shape
        # so that 128 bytes of a row, a TMA box's, cover four sectors, not parts of five
        pitch = round_up(width, 64 if width >= LONG else 16)
        found[-1] = workspace((height, pitch), array.dtype)
        line = flat(array, "a factor")
        total = array.size if address_of(array) % 4 == 0 else 0
        given.append((as_words(line), as_words(line, 2), as_words(flat(found[-1], "a copy")),
                      np.int32(width), np.int32(pitch), np.int32(total)))  # fmt: skip
        blocks.append(ceil_div(height * pitch // 8, THREADS))
    if not given:
        return [], found
    arguments = (*given[0], *given[-1], np.int32(blocks[0]))
    return [Launch(pad(), sum(blocks), THREADS, arguments)], found
