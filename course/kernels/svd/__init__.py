"""The singular value decomposition of many matrices at once, a = u diag(s) vt, on the GPU.

>>> u, s, vt = svd(a)                          # (batch, m, n), or one matrix (m, n)
>>> u, s, vt = svd(a, method="plain")          # a certain step of LADDER
>>> u, s, vt = rank_k(a, 50)                   # only the largest: `course.kernels.svd.truncated`

One-sided Jacobi: rows are rotated in pairs until all are orthogonal; their lengths are then the
singular values. What is done before the rotations decides how many sweeps these take, and how
accurate small singular values are. For a matrix with m >= n (others are transposed):

1. scale by a power of two, so that the largest entry is about 1;
2. a = Q1 R, and R' = Q2 R2, by Householder reflections (`course.kernels.svd.qr`): the rows of
   w = R2 = Q2' R' are graded and nearly orthogonal, and k = Q2' is orthonormal;
3. rotate the rows of w and k together, w = J' R2, k = J' Q2', until those of w are orthogonal: then
   w = diag(s) U', a = Q1 U diag(s) k. A refresh on the way removes what rounding has added to k:
   k = (3 k - k k' k) / 2, a Newton step to the nearest orthonormal matrix, and w = k R';
4. sort. One more QR completes the left vectors of singular values that are zero.

The ladder's methods differ in step 3. Where m = n, 2 and 3 work on a itself instead of R, and Q1 is
not needed. Matrices whose shorter side is at most 128 take `registers` of this package: all sweeps
in one launch, and no second QR. Up to 32, `one_launch` does everything. Where float64 is fast, tall
matrices get R from their Gram matrix, by `gram`. What cuSOLVER does faster is in `library`.

Source: Z. Drmac and K. Veselic, "New fast and accurate Jacobi SVD algorithm", SIAM J. Matrix
Anal. Appl. 29 (2008), for the two QR decompositions; N. Higham, "Functions of Matrices" (2008),
chapter 8, for the Newton step.
"""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from course.backend import cuda, gpu
from course.dispatch import prepared
from course.dispatch.ahead import compile_ahead
from course.dispatch.array_facts import ArrayFacts, handle_of
from course.dispatch.entry import EntryPoint, Result, Stream
from course.dispatch.kept import Kept
from course.dispatch.plans import to_host
from course.heuristics import svd as heuristics
from course.kernels.arrays import Array, seen_as, whole
from course.kernels.steps import AUTO
from course.kernels.svd import gram, ladder, library, one_launch, registers
from course.kernels.svd.ladder import LADDER, NotConverged, Solver, SVDProblem
from course.kernels.svd.qr import LONGEST
from course.kernels.svd.truncated import RankSolver, check_rank

__all__ = ["LADDER", "NotConverged", "RankSolver", "Solver", "forget", "rank_k", "svd"]


def svd(a: Array, method: str = "auto", stream: Stream = None) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition of a matrix or of many, a = (u * s) @ vt.

    The result is the same to the bit on every call on one kind of GPU. The entry of largest
    magnitude is positive in each row of vt, where m >= n; else in each column of u.

    GPU memory of about eight times `a` is kept for later calls with its shape, for up to 64 shapes
    and 2 GiB. `forget` frees it.

    Parameters
    ----------
    a : array, shape (batch, m, n) or (m, n), float32
        Of NumPy, CuPy, PyTorch or numba.cuda, finite, m and n at most 1,024. On the GPU it may have
        any strides; it is not changed.
    method : str
        One of `svd.ladder.names`. By the shorter side, "auto" takes "one launch" up to 32,
        "registers" up to 128, else "tensor cores", or "blocks" on GPUs without them. Where float64
        is fast, it begins with the Gram matrix of tall matrices whose shorter side is at most 128.
        If one of a batch is ill-conditioned, it begins again with reflections. With CuPy, cuSOLVER
        then takes what it does faster: 2 to 24 with shorter sides of 97 to 128, one with sides
        from 129 on, 10 million elements or more, sides from 320 on.
    stream : stream, optional
        Of CuPy, PyTorch or numba.cuda, or its handle; by default a's library's current one. The
        host waits for the result, and checks that the sweeps sufficed. All but small matrices are
        decomposed on the default stream, after all earlier work of this stream.

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
        For an argument that is no array, or another dtype than float32.
    ValueError
        For another number of axes, an axis of length 0, longer sides, NaN or infinite values
        (naming the first matrix that holds some), for a singular value beyond float32's largest,
        3.4e38, and for a method that does not fit.
    NotConverged
        When rows are not orthogonal after 60 sweeps; no matrix is known that needs half of them.
    """
    if found := method == AUTO and _by_library(a, stream, None):
        return found
    if name := _fits(a, method):
        return _at_once(a, None, name, stream)
    return _SVD.call((a,), (method,), None, stream)


def rank_k(
    a: Array, k: int, power: int = 2, seed: int = 0, method: str = "auto", stream: Stream = None
) -> tuple[Array, Array, Array]:
    """Return the k largest singular values and their vectors, by a randomised range finder.

    `course.kernels.svd.truncated` explains the method and its error. The same seed gives the same
    result to the bit.

    Parameters
    ----------
    a : array, shape (batch, m, n) or (m, n), float32
        As for `svd`.
    k : int
        From 1 to min(m, n).
    power : int
        Number of power steps: each lowers the error towards the least possible one.
    seed : int
        Seed of the random sketch. Batches whose shorter side is at most 128 are decomposed whole by
        "auto", without a sketch: `power` and `seed` then change nothing.
    method : str
        One of `rank_k.ladder.names`, for the small SVD. Where `svd` would, "auto" leaves to
        cuSOLVER 2 to 24 matrices whose shorter side is 97 to 128. It leaves every single matrix to
        cuSOLVER, too, for which no kernels are compiled then. If k + 8 is at most two sevenths of
        its shorter side, a matrix with sides from 129 on is sketched by k + 8 columns.
    stream
        As for `svd`.

    Returns
    -------
    u, s, vt : arrays, shapes (batch, m, k), (batch, k), (batch, k, n)
        Without the batch where `a` is one matrix.

    Raises
    ------
    TypeError, ValueError, NotConverged
        As `svd`; TypeError also for a k, power or seed that is no whole number, ValueError for one
        out of range.
    """
    k, power, seed = whole(k, "k"), whole(power, "power"), whole(seed, "seed")
    if seed < 0:
        raise ValueError(f"seed is {seed}; it is 0 or more")
    if found := method == AUTO and power >= 0 and _by_library(a, stream, k, power, seed):
        return found
    if power >= 0 and (name := _fits(a, method)):
        return _at_once(a, k, name, stream)
    return _RANK_K.call((a,), (k, power, seed, method), None, stream)


def forget() -> None:
    """Free the memory on the GPU that `svd` and `rank_k` keep for later calls."""
    with _alone:
        _solvers.clear()


# --- the entry points -----------------------------------------------------------------------------


def _results(a: ArrayFacts, k: int) -> list[Result]:
    *batch, m, n = a.shape
    return [((*batch, m, k), np.float32), ((*batch, k), np.float32), ((*batch, k, n), np.float32)]


def _checked(a: ArrayFacts) -> ArrayFacts:
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
    sides = sorted(_checked(a).shape[-2:])
    LADDER.choose(method, SVDProblem(*sides))
    return _results(a, min(a.shape[-2:]))


_alone = threading.RLock()  # a solver's memory serves one call at a time
_solvers = Kept()


def _by(solver: Callable[..., Any]) -> Callable[..., None]:
    """A function that solves by a cached solver, one for each shape and options."""

    def solve(a: Array, u: Array, s: Array, vt: Array, **options: Any) -> None:
        a, *factors = map(_batch, (a, u, s, vt), (2, 2, 1, 2))
        key = *a.shape, *options.values()
        with _alone:
            device = cuda.get_current_device().id
            _solvers.get((device, solver, *key), lambda: solver(*key))(a, *factors)

    return solve


def _fits(a: Array, method: str) -> str:
    """The step of matrices that need no solver, only prepared launches; "" for others."""
    shape = getattr(a, "shape", ())
    at_once = "one launch", "registers"
    if method not in (AUTO, *at_once) or len(shape) not in (2, 3) or 0 in shape:
        return ""
    columns, rows = sorted(shape[-2:])
    for name in at_once:
        fits = rows <= LONGEST and not LADDER[name].lacks(SVDProblem(columns, rows))
        if method in (AUTO, name) and fits:
            return "gram" if method == AUTO and heuristics.is_tall(shape) else name
    return ""


def _by_library(a: Array, stream: Stream, k: int | None, *sketch: int) -> Any:
    """The factors by cuSOLVER; None where it is slower, missing or not accurate enough."""
    shape = getattr(a, "shape", ())
    fits = len(shape) in (2, 3) and 0 not in shape and max(shape[-2:]) <= LONGEST
    if not (fits and library.takes(shape, k)):
        return None
    with contextlib.suppress(library.IllConditioned):
        sketch = sketch if heuristics.is_sketched(shape, k) else ()
        return _LIBRARY.call((a,), (k, sketch), None, stream)
    return None


def _at_once(a: Array, k: int | None, name: str, stream: Stream) -> tuple[Array, Array, Array]:
    u, s, vt, told = _FEW.call((a,), (k, name), None, stream)
    if stream is not None and gpu() is not None:
        prepared.wait(handle_of(stream))
    read = to_host(told)
    if (read[registers.REFUSED] == gram.ILL).any():
        return _at_once(a, k, "registers", stream)
    remaining = ladder.unfinished(read, lambda: np.atleast_2d(to_host(s)))
    if remaining:
        raise ladder.not_converged(remaining, read.shape[1], registers.MOST_SWEEPS, name)
    return u, s, vt


def _result_at_once(a: ArrayFacts, k: int | None, name: str) -> list[Result]:
    rank = min(_checked(a).shape[-2:])
    if k is not None:
        check_rank(a.shape, k)
    batch = a.shape[0] if a.ndim == 3 else 1
    return [*_results(a, rank if k is None else k), ((4, batch), np.int32)]


def _launches_at_once(a, u, s, vt, told, k, name):
    arrays = map(_batch, (a, u, s, vt), (2, 2, 1, 2))
    if name == "one launch":
        return [one_launch.launch(*arrays, told, registers.MOST_SWEEPS)]
    launches = (gram if name == "gram" else registers).launches(*arrays, told)
    compile_ahead(lambda: launches)
    return launches


def _result_of_rank_k(a: ArrayFacts, k: int, power: int, seed: int, method: str) -> list[Result]:
    check_rank(_checked(a).shape, k, power)
    return _results(a, k)


def _batch(array: Array, axes: int) -> Array:
    """The array as a batch; without the batch's axis it becomes a batch of one."""
    if array.ndim > axes:
        return array
    strides = array.shape[0] * array.strides[0], *array.strides
    return seen_as(array, (1, *array.shape), strides)


_LIBRARY = EntryPoint(
    "svd", ("a",), lambda a, k, sketch: _result_at_once(a, k, "")[:3], _by(library.LibrarySolver),
    whole=True, options=("k", "sketch"),
)  # fmt: skip
_FEW = EntryPoint("svd", ("a",), _result_at_once, _launches_at_once, options=("k", "name"))
_SVD = EntryPoint("svd", ("a",), _result_of_svd, _by(Solver), whole=True, options=("method",))
_RANK_K = EntryPoint(
    "rank_k", ("a",), _result_of_rank_k, _by(RankSolver), whole=True,
    options=("k", "power", "seed", "method"),
)  # fmt: skip

svd.ladder = rank_k.ladder = LADDER
