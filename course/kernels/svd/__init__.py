"""The singular value decomposition of many matrices at once, a = u diag(s) vt, on the GPU.

>>> u, s, vt = svd(a)                          # (batch, m, n), or one matrix (m, n)
>>> u, s, vt = svd(a, method="plain")          # a certain step of LADDER
>>> u, s, vt = rank_k(a, 50)                   # only the largest: `course.kernels.svd.truncated`

One-sided Jacobi: rows are rotated in pairs until all are orthogonal; their lengths are then the
singular values. What surrounds the rotations decides how many sweeps that takes, and what becomes
of small singular values. For a matrix with m >= n (others are transposed):

1. scale by a power of two, so that the largest entry is about 1;
2. a = Q1 R, and R' = Q2 R2, by Householder reflections (`course.kernels.svd.qr`): the rows of
   w = R2 = Q2' R' are graded and nearly orthogonal, and k = Q2' is orthonormal;
3. rotate the rows of w and k together, w = J' R2, k = J' Q2', until those of w are orthogonal: then
   w = diag(s) U', a = Q1 U diag(s) k. A refresh on the way removes what rounding has added to k:
   k = (3 k - k k' k) / 2, a Newton step to the nearest orthonormal matrix, and w = k R';
4. sort; where singular values are zero, their left vectors are completed: a few one by one, more by
   one more QR.

The ladder's methods differ in step 3. Where m = n, 2 and 3 work on a itself instead of R, and Q1 is
not needed.

Source: Z. Drmac and K. Veselic, "New fast and accurate Jacobi SVD algorithm", SIAM J. Matrix
Anal. Appl. 29 (2008), for the two QR decompositions; N. Higham, "Functions of Matrices" (2008),
chapter 8, for the Newton step.
"""

import functools
import threading

import numpy as np

from course.backend import cuda
from course.dispatch.array_facts import ArrayFacts
from course.dispatch.entry import EntryPoint, Result, Stream
from course.kernels.arrays import Array, whole
from course.kernels.svd.ladder import LADDER, NotConverged, Solver, SVDProblem
from course.kernels.svd.truncated import RankSolver, check_rank

__all__ = ["LADDER", "NotConverged", "RankSolver", "Solver", "forget", "rank_k", "svd"]


def svd(a: Array, method: str = "auto", stream: Stream = None) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition of a matrix or of many, a = (u * s) @ vt.

    The result is the same to the bit on every call on one kind of GPU. The entry of largest
    magnitude is positive in each row of vt, where m >= n; else in each column of u.

    Memory on the GPU, about eight times that of `a`, is kept for the next call with the same shape;
    `forget` frees it.

    Parameters
    ----------
    a : array, shape (batch, m, n) or (m, n), float32
        Of NumPy, CuPy, PyTorch or numba.cuda, finite, m and n at most 1,024. On the GPU it may have
        any strides; it is not changed.
    method : str
        Of `svd.ladder.names`; "auto" takes rows in shared memory for few columns, then blocks, on
        tensor cores where the GPU has them.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; without it a's library's current one.
        The work is done on the default stream, after what that stream was given, and the host waits
        for it: only it can say when enough was rotated.

    Returns
    -------
    u : array, shape (batch, m, r) or (m, r), float32, with r = min(m, n)
        Orthonormal columns, also where singular values are zero.
    s : array, shape (batch, r) or (r,), float32
        Singular values, largest first.
    vt : array, shape (batch, r, n) or (r, n), float32
        Orthonormal rows. All of a's library.

    Raises
    ------
    TypeError
        For what is no array, and for elements that are not float32.
    ValueError
        For another number of axes, an axis of length 0, longer matrices, NaN or infinite values
        (naming the first matrix that holds some), for a singular value beyond float32's largest,
        3.4e38, and for a method that does not fit.
    NotConverged
        When rows are not orthogonal after 60 sweeps; none has been seen that needs half of them.
    """
    return _SVD.call((a,), (method,), None, stream)


def rank_k(
    a: Array,
    k: int,
    power: int = 2,
    seed: int = 0,
    method: str = "auto",
    stream: Stream = None,
) -> tuple[Array, Array, Array]:
    """Return the k largest singular values and their vectors, by a randomised range finder.

    `course.kernels.svd.truncated` says what it does and how large the error can be. The same seed
    gives the same result to the bit.

    Parameters
    ----------
    a : array, shape (batch, m, n) or (m, n), float32
        As for `svd`.
    k : int
        From 1 to min(m, n).
    power : int
        Power steps: each makes the error smaller, down to the least possible one.
    seed : int
        Of the random sketch.
    method : str
        Of `rank_k.ladder.names`, for the small SVD.
    stream
        As for `svd`.

    Returns
    -------
    u, s, vt : arrays, shapes (batch, m, k), (batch, k), (batch, k, n)
        Without the batch where `a` is one matrix.

    Raises
    ------
    TypeError, ValueError, NotConverged
        As `svd`; TypeError for a k, power or seed that is no whole number, ValueError for one out
        of range.
    """
    k, power, seed = whole(k, "k"), whole(power, "power"), whole(seed, "seed")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it is 0 or more")
    return _RANK_K.call((a,), (k, power, seed, method), None, stream)


def forget() -> None:
    """Free the memory on the GPU that the last calls of `svd` and `rank_k` left for the next."""
    _solver.cache_clear()
    _rank_solver.cache_clear()


@functools.lru_cache(maxsize=1)
def _solver(batch: int, m: int, n: int, method: str, device: int) -> Solver:
    """A solver, with memory on the current device, whose number is `device`."""
    return Solver(batch, m, n, method)


@functools.lru_cache(maxsize=1)
def _rank_solver(
    batch: int, m: int, n: int, k: int, power: int, seed: int, method: str, device: int
) -> RankSolver:
    return RankSolver(batch, m, n, k, power, seed, method)


# --- the entry points -----------------------------------------------------------------------------


def _results(a: ArrayFacts, k: int) -> list[Result]:
    """Shapes of u, s, vt."""
    *batch, m, n = a.shape
    return [((*batch, m, k), np.float32), ((*batch, k), np.float32), ((*batch, k, n), np.float32)]


def _checked(a: ArrayFacts) -> ArrayFacts:
    """The array, if it is one that can be decomposed."""
    if a.dtype != np.float32:
        raise TypeError(
            f"a holds {a.dtype}; it must hold float32: convert it, "
            f"{a.library.convert('a', 'float32')}, or use np.linalg.svd where float32's seven "
            "digits are not enough"
        )
    if a.ndim not in (2, 3):
        raise ValueError(
            f"a has the shape {a.shape}; it must be one matrix (m, n) or a batch of them "
            "(batch, m, n)"
        )
    if 0 in a.shape:
        raise ValueError(f"a has the shape {a.shape}: there is nothing to decompose")
    return a


def _result_of_svd(a: ArrayFacts, method: str) -> list[Result]:
    LADDER.choose(method, SVDProblem(min(_checked(a).shape[-2:])))
    return _results(a, min(a.shape[-2:]))


_alone = threading.RLock()  # a solver's memory serves one call at a time


def _svd(a: Array, u: Array, s: Array, vt: Array, method: str) -> None:
    a, *factors = map(_batch, (a, u, s, vt), (2, 2, 1, 2))
    with _alone:
        _solver(*a.shape, method, cuda.get_current_device().id)(a, *factors)


def _result_of_rank_k(a: ArrayFacts, k: int, power: int, seed: int, method: str) -> list[Result]:
    check_rank(_checked(a).shape, k, power)
    return _results(a, k)


def _rank_k(
    a: Array, u: Array, s: Array, vt: Array, k: int, power: int, seed: int, method: str
) -> None:
    a, *factors = map(_batch, (a, u, s, vt), (2, 2, 1, 2))
    with _alone:
        solver = _rank_solver(*a.shape, k, power, seed, method, cuda.get_current_device().id)
        solver(a, *factors)


class _Stack:
    """An array on the GPU as a batch of one, without a copy."""

    def __init__(self, one: Array):
        about = dict(one.__cuda_array_interface__)
        if about.get("strides"):
            about["strides"] = (about["strides"][0] * about["shape"][0], *about["strides"])
        about["shape"] = (1, *about["shape"])
        self.__cuda_array_interface__, self.one = about, one


def _batch(array: Array, axes: int) -> Array:
    """The array as a batch; one without the batch's axis is one of one."""
    return array if array.ndim > axes else cuda.as_cuda_array(_Stack(array), sync=False)


_SVD = EntryPoint("svd", ("a",), _result_of_svd, _svd, whole=True, options=("method",))
_RANK_K = EntryPoint(
    "rank_k", ("a",), _result_of_rank_k, _rank_k, whole=True,
    options=("k", "power", "seed", "method"),
)  # fmt: skip

svd.ladder = rank_k.ladder = LADDER
