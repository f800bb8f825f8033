"""A product as BLAS libraries offer it: matrices by columns, each with a leading dimension.

>>> gemm(m, n, k, first, ld_first, second, ld_second, out, ld_out)

makes out (m x n) of first (m x k) times second (k x n).

Element (i, j) of a matrix lies at ``memory[i + j * ld]``, so ``ld`` is how far one column is from
the next. Arrays are taken as memory alone: what shape NumPy gives them does not matter.
"""

from __future__ import annotations

import numpy as np


def gemm(
    m: int, n: int, k: int, first: np.ndarray, ld_first: int, second: np.ndarray, ld_second: int,
    out: np.ndarray, ld_out: int,
) -> None:  # fmt: skip
    """out = first second, by columns; see above.

    Raises
    ------
    ValueError
        For a leading dimension below the column's length, or a matrix that is larger than its
        memory.
    """
    parts = {
        "ld_first": (first, ld_first, m, k),
        "ld_second": (second, ld_second, k, n),
        "ld_out": (out, ld_out, m, n),
    }
    matrices = [_by_columns(name, *part) for name, part in parts.items()]
    matrices[2][...] = matrices[0] @ matrices[1]


def _by_columns(name: str, array: np.ndarray, ld: int, rows: int, columns: int) -> np.ndarray:
    memory = flat(array)
    if ld < rows:
        raise ValueError(
            f"{name} is {ld}: a column of this matrix has {rows} numbers, so the next one cannot "
            "be nearer than that"
        )
    if rows + ld * (columns - 1) > memory.size:
        raise ValueError(
            f"{name} is {ld}: {columns} columns of {rows} numbers would end at number "
            f"{rows + ld * (columns - 1):,}, and the array has {memory.size:,}"
        )
    strides = memory.itemsize, ld * memory.itemsize
    return np.lib.stride_tricks.as_strided(memory, (rows, columns), strides)


def flat(array: np.ndarray) -> np.ndarray:
    """An array's memory as it lies, in one axis; a view, of a transposed array, too."""
    whole = array if array.flags.c_contiguous else array.T
    if not whole.flags.c_contiguous:
        raise ValueError("the array has gaps: gemm takes whole arrays")
    return whole.reshape(-1)
