"""Rebuild an image from its SVD on the CPU: one formula, seven programs.

Every function computes ``out[row, col] = sum over i < k of u[row, i] * s[i] * vt[i, col]`` for
u (rows, r), s (r,), vt (r, cols) and returns (rows, cols). They differ in who runs the three loops:
Python, NumPy, a BLAS library, Numba's threads, or other processes.
"""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from numba import njit, prange

LONGEST_START = 60.0  # seconds that processes wait for each other at the start

# --- Python runs the loops ----------------------------------------------------------------------


def reconstruct_loops(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> np.ndarray:
    """Three loops in Python: rows x cols x k steps, each of them slow."""
    rows, cols = len(u), vt.shape[1]
    out = np.zeros((rows, cols), dtype=np.float32)
    for row in range(rows):
        for col in range(cols):
            for i in range(k):
                out[row, col] += u[row, i] * s[i] * vt[i, col]
    return out


def reconstruct_one_loop(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> np.ndarray:
    """One loop in Python: add k layers, each a column times a row. NumPy runs the other two."""
    out = np.zeros((len(u), vt.shape[1]), dtype=np.float32)
    for i in range(k):
        out += s[i] * np.outer(u[:, i], vt[i])
    return out


# --- NumPy runs the loops -----------------------------------------------------------------------


def reconstruct_einsum(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> np.ndarray:
    """No loop in sight: the indices of the formula, and einsum runs the loops in C."""
    return np.einsum("ri,i,ic->rc", u[:, :k], s[:k], vt[:k])


def reconstruct_broadcast(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> np.ndarray:
    """All products at once in one array (rows, k, cols), then a sum: k times the image's memory."""
    return (u[:, :k, None] * s[:k, None] * vt[:k]).sum(axis=1)


def reconstruct_matmul(u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int) -> np.ndarray:
    """Broadcast s over the columns of u, then one matrix product: the BLAS library's loops."""
    return (u[:, :k] * s[:k]) @ vt[:k]


# --- all cores run the loops --------------------------------------------------------------------


@njit(parallel=True)
def reconstruct_parallel(u, s, vt, k):
    """Three loops, compiled; threads share the rows and the memory.

    The loop over columns is the innermost one, so that vt and out are read in the order in which
    they lie in memory.
    """
    rows, cols = u.shape[0], vt.shape[1]
    out = np.zeros((rows, cols), dtype=np.float32)
    for row in prange(rows):
        for i in range(k):
            weight = u[row, i] * s[i]
            for col in range(cols):
                out[row, col] += weight * vt[i, col]
    return out


def start_processes(workers: int = 2) -> ProcessPoolExecutor:
    """Start a pool of Python processes for `reconstruct_processes`; use it with ``with``.

    Every process is a fresh interpreter ("spawn", the only way that works on Linux, macOS and
    Windows alike, and beside threads and GPUs). It imports the work by its name from this
    package, which is why a function that is only in a notebook cannot be sent to it. In a script,
    not in a notebook, call this below ``if __name__ == "__main__":``.

    Parameters
    ----------
    workers : int
        How many processes, at least 1. The call returns when all of them are ready.

    Raises
    ------
    ValueError
        When `workers` is less than 1.
    BrokenProcessPool
        When they do not start, as in a script without the line above.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}; start at least 1 process")
    spawn = multiprocessing.get_context("spawn")
    everyone = spawn.Barrier(workers)
    pool = ProcessPoolExecutor(
        workers, mp_context=spawn, initializer=everyone.wait, initargs=(LONGEST_START,)
    )
    list(pool.map(abs, range(workers)))  # a task for each, so that each is started
    return pool


def reconstruct_processes(
    u: np.ndarray, s: np.ndarray, vt: np.ndarray, k: int, pool: ProcessPoolExecutor, parts: int = 2
) -> np.ndarray:
    """Cut the image in `parts` groups of rows, for the processes of a pool of `start_processes`.

    The processes share no memory: a group's rows of u, with s and vt, are copied to a process, and
    the rows that it rebuilt are copied back.
    """
    groups = np.array_split(u[:, :k], parts)
    return np.vstack(list(pool.map(rebuild_band, groups, [s[:k]] * parts, [vt[:k]] * parts)))


def rebuild_band(u: np.ndarray, s: np.ndarray, vt: np.ndarray) -> np.ndarray:
    """What one process does: rebuild its rows of the image.

    With einsum, which uses one core: the cores are shared out by the processes.
    """
    return np.einsum("ri,i,ic->rc", u, s, vt)


VARIANTS: dict[str, Callable[..., np.ndarray]] = {
    "three loops": reconstruct_loops,
    "one loop": reconstruct_one_loop,
    "einsum": reconstruct_einsum,
    "broadcast": reconstruct_broadcast,
    "matmul": reconstruct_matmul,
    "njit(parallel)": reconstruct_parallel,
}
