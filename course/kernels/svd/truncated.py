"""The k largest singular values of many matrices, by a randomised range finder.

1. Sketch: y = a x, with x (n, l) of normal random elements, l a few more than k. Its columns are
   mostly in the span of the singular vectors of the largest singular values.
2. Power steps: y = a (a' y), orthonormal columns in between. Each step multiplies components by
   their squared singular values, so that small ones shrink.
3. q: orthonormal columns that span y's. b = q' a, (l, n), is small; its SVD gives a's, u = q u_b.

**How large the error is** (Halko, Martinsson and Tropp, theorem 10.5). Without power steps, on
average over x, with p = l - k and the singular values s of a,

    |a - q q' a|  <=  sqrt(1 + k / (p - 1)) sqrt(s[k]^2 + s[k + 1]^2 + ...)

in the Frobenius norm. The last root is the error of the best approximation of rank k. For k = 50
and l = 64 the factor is 2.2. With power steps it nears 1. On noise, where it is worst, it was
measured with these k and l and n = 256. After one step it is 1.044 on average, and 1.0504 at worst
in 640 matrices. After two, it is 1.017, and 1.021 in 256 matrices.

A matrix of up to 128 columns, whose sweeps are one launch, is decomposed whole, which costs less.
All launches between the copy of `a` and the factors are one CUDA graph, see
`course.dispatch.graphs`. Where float64 is fast, cuSOLVER takes single matrices, see
`course.kernels.svd.library`.

Source: N. Halko, P. Martinsson and J. Tropp, "Finding structure with randomness", SIAM Review 53
(2011), algorithms 4.4 and 5.1, theorem 10.5.
"""

from typing import Any

import numpy as np

from course.backend import cuda
from course.dispatch.graphs import ReplayedGraph, copied
from course.dispatch.kept import Memory
from course.heuristics.svd import sketch_columns
from course.kernels.gemm.batched import multiply
from course.kernels.svd.ladder import LADDER, Solver, SVDProblem
from course.kernels.svd.qr import Reflections
from course.kernels.svd.scaling_sorting import spreading

Array = Any  # of numba.cuda

SWEEPS = 9  # of the small matrix before the host waits: noise takes 8, photographs 7


def check_rank(shape: tuple[int, ...], k: int, power: int = 0) -> None:
    """Refuse a k that is no rank of matrices (..., rows, columns), and a power below 0."""
    rows, columns = shape[-2:]
    if not 1 <= k <= min(rows, columns):
        raise ValueError(
            f"k is {k}; for matrices of {rows} x {columns} it is 1 to {min(rows, columns)}"
        )
    if power < 0:
        raise ValueError(f"power is {power}; it is the number of power steps, 0 or more")


class RankSolver(Memory):
    """The largest singular values of batches of one shape: memory on the GPU, and the launches.

    Neither side is longer than `course.kernels.svd.qr.LONGEST`; `method` is that of the small SVD,
    the rest as for `course.kernels.svd.rank_k`.
    """

    def __init__(
        self, batch: int, rows: int, columns: int, k: int, power: int = 2, seed: int = 0,
        method: str = "auto",
    ):  # fmt: skip
        check_rank((rows, columns), k, power)
        rank, most = min(rows, columns), k
        self.batch, self.power, wide = batch, power, sketch_columns(most, rank)
        chosen, _ = LADDER.choose(method, SVDProblem(rank, max(rows, columns)))
        # a sketch with as many columns saves nothing
        self.whole = wide == rank or chosen in ("one launch", "registers")
        self.small = Solver(batch, rows if self.whole else wide, columns, method)
        if self.whole:
            return
        if not self.small.in_registers:
            self.small.queued = min(self.small.queued, SWEEPS)
        random = np.random.default_rng(seed).standard_normal((1, columns, wide))
        self.random = cuda.to_device(random.astype(np.float32))
        self.a = cuda.device_array((batch, rows, columns), np.float32)
        self.y = cuda.device_array((batch, rows, wide), np.float32)
        self.q = cuda.device_array((batch, rows, wide), np.float32)
        self.z = cuda.device_array((batch, columns, wide), np.float32)
        self.b = cuda.device_array((batch, wide, columns), np.float32)
        self.u = cuda.device_array((batch, wide, most), np.float32)
        self.of_rows, self.of_columns = (Reflections(batch, n, wide) for n in (rows, columns))
        self._launches = ReplayedGraph()

    def __call__(self, a: Array, u: Array, s: Array, vt: Array) -> None:
        """Decompose, called as `Solver` is; u and vt have k columns and rows."""
        small = self.small
        if self.whole:
            small(a, u, s, vt)
            return
        if not small.compiled:
            products = lambda: multiply(self.q, self.u, u, small.always)  # noqa: E731
            small.compile(self.b, self.u, s, vt, lambda: self._queue(0), products)
        if not copied(a, self.a):
            spreading(a, small.ones, self.a, False).on()

        def hand_over() -> None:
            small.hand_over(self.u, s, vt)
            multiply(self.q, self.u, u, small.always)

        self._launches(self._queue)
        small.finish(hand_over, s)

    def _queue(self, stream: Any) -> None:
        """Launch what lies between the copy of `a` and the factors, all in the solver's memory."""
        small, state = self.small, self.small.always
        small.find_scale(self.a, stream)
        spreading(self.a, small.scale, self.a, False).on(stream)
        multiply(self.a, self.random, self.y, state, stream=stream)
        for _ in range(self.power):
            self.of_rows.orthonormal(self.y, self.q, state, stream=stream)
            multiply(self.a, self.q, self.z, state, transpose_a=True, stream=stream)
            self.of_columns.orthonormal(self.z, self.z, state, stream=stream)
            multiply(self.a, self.z, self.y, state, stream=stream)
        self.of_rows.orthonormal(self.y, self.q, state, stream=stream)
        multiply(self.q, self.a, self.b, state, transpose_a=True, stream=stream)
        small.take(self.b, small.ones, stream)
        small.queue(stream)
