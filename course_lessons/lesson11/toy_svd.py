"""One-sided Jacobi in NumPy, small and slow, to watch: a rotation, a sweep, a tournament.

`course.kernels.svd` does the same on a GPU. Here everything is float64, and a round's rotations are
one line of NumPy.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float32

from course.backend import cuda
from course.kernels.svd.rotate import rotation as rotation_on_gpu


def rotation(a: float, b: float, g: float) -> tuple[float, float]:
    """Return (c, s) with which c x - s y and s x + c y are orthogonal.

    Parameters
    ----------
    a, b, g : float
        The dot products x x, y y and x y.
    """
    if g == 0:
        return 1.0, 0.0
    tau = (b - a) / (2 * g)
    t = math.copysign(1 / (abs(tau) + math.hypot(1, tau)), tau)
    c = 1 / math.hypot(1, t)
    return c, t * c


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    """|cos| of the angle between two rows; 0 where one of them is zero."""
    lengths = math.sqrt(x @ x) * math.sqrt(y @ y)
    return abs(x @ y) / lengths if lengths else 0.0


def cosines(rows: np.ndarray) -> np.ndarray:
    """|cos| of the angle between each two rows, 0 on the diagonal and for rows of zeros."""
    lengths = np.sqrt((rows * rows).sum(axis=1))
    unit = rows / np.where(lengths > 0, lengths, 1)[:, None]
    found = np.abs(unit @ unit.T)
    np.fill_diagonal(found, 0)
    return found


def swept(rows: np.ndarray) -> tuple[np.ndarray, float]:
    """Rotate all pairs of rows once, (0, 1), (0, 2), ... ; the rows, and the largest cosine met."""
    rows, largest = rows.copy(), 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            x, y = rows[i].copy(), rows[j].copy()
            largest = max(largest, cosine(x, y))
            c, s = rotation(x @ x, y @ y, x @ y)
            rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows, largest


def tournament(n: int) -> list[list[tuple[int, int]]]:
    """Return n - 1 rounds of n / 2 pairs in which each two of n players meet once; n is even."""
    ring = n - 1
    return [
        [(turn, ring), *(((turn + p) % ring, (turn - p) % ring) for p in range(1, n // 2))]
        for turn in range(ring)
    ]


def rotated(rows: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Rotate disjoint pairs of rows, all at the same time."""
    i, j = np.array(pairs).T
    x, y = rows[i], rows[j]
    angles = [rotation(x[p] @ x[p], y[p] @ y[p], x[p] @ y[p]) for p in range(len(x))]
    c, s = (np.array(part)[:, None] for part in zip(*angles, strict=True))
    rows = rows.copy()
    rows[i], rows[j] = c * x - s * y, s * x + c * y
    return rows


def history(
    rows: np.ndarray, goal: float = 1e-6, most: int = 30, floor: float = 0.0
) -> tuple[list[float], np.ndarray]:
    """Sweep, in rounds of a tournament, until the largest cosine is at most the goal.

    Parameters
    ----------
    rows : ndarray, shape (n, m)
        With n even.
    goal : float
    most : int
        Sweeps at most.
    floor : float
        Rows shorter than this, of the longest one, are noise: their cosines do not count.

    Returns
    -------
    found : list of float
        The largest cosine before the first sweep, and after each.
    rows : ndarray
        After the last sweep.
    """
    rows = np.array(rows, np.float64)
    found = [largest_cosine(rows, floor)]
    while found[-1] > goal and len(found) <= most:
        for pairs in tournament(len(rows)):
            rows = rotated(rows, pairs)
        found.append(largest_cosine(rows, floor))
    return found, rows


def largest_cosine(rows: np.ndarray, floor: float = 0.0) -> float:
    """The largest |cos| of two rows that are longer than `floor` times the longest."""
    lengths = np.sqrt((rows * rows).sum(axis=1))
    kept = rows[lengths > floor * lengths.max()]
    return float(cosines(kept).max(initial=0))


# --- for kernels of your own ----------------------------------------------------------------------


@cuda.jit(device=True)
def rotate_two(rows, i, j):
    """Make rows i and j of a matrix orthogonal, by one warp: all 32 lanes call it."""
    lane = cuda.threadIdx.x % 32
    a, b, g = float32(0), float32(0), float32(0)
    for column in range(lane, rows.shape[1], 32):
        x, y = rows[i, column], rows[j, column]
        a += x * x
        b += y * y
        g += x * y
    for step in range(5):
        a += cuda.shfl_xor_sync(0xFFFFFFFF, a, 1 << step)
        b += cuda.shfl_xor_sync(0xFFFFFFFF, b, 1 << step)
        g += cuda.shfl_xor_sync(0xFFFFFFFF, g, 1 << step)
    if g != float32(0):
        s, d = rotation_on_gpu(a, b, g)
        for column in range(lane, rows.shape[1], 32):
            x, y = rows[i, column], rows[j, column]
            rows[i, column] = x - (d * x + s * y)
            rows[j, column] = y + (s * x - d * y)
