"""LayerNorm within the products around it: what `course.kernels.gemm.epilogue` does, launched.

>>> counting(x, weight, bias, residual, out, sums)             # what makes the rows counts
>>> weight, bias = folded(weight, bias, gamma, beta)           # once, on the host
>>> normed(out, weight, bias, hidden, sums, depth, 1e-6, "gelu")      # and what reads them

All are of float16 in the layout "nt", on a GPU of 9.0; sums are memory for (rows, `pitch`) of it.
"""

from __future__ import annotations

import numpy as np

from course.heuristics.gemm import SPLITS, GemmConfig, config_for
from course.kernels.arrays import Array, as_words
from course.kernels.gemm.epilogue import Norm
from course.kernels.gemm.half import GemmProblem, launch_of
from course.kernels.steps import Launch, ceil_div, multiprocessors

#: How many blocks may share the depth of a tile, by the method of `course.kernels.gemm.half`.
SHARED_BY = {"auto": (1, *SPLITS), "roles": (1,), "split": SPLITS}
MULTIPLE = 16  # rows have so many elements, or a multiple: what two tiles share is counted once


def pitch(columns: int) -> int:
    """Elements of a row of sums: two of float32 for each tile across, of the narrowest tiles."""
    return 4 * ceil_div(columns, 64)


def _tile(
    sizes: tuple[int, int, int], added: bool, method: str, beside: int = 0
) -> tuple[GemmConfig, int]:
    blocks = multiprocessors()
    blocks -= beside if 2 * beside <= blocks else 0
    return config_for("nt", *sizes, blocks, SHARED_BY[method], added)


def folded(
    weight: np.ndarray, bias: np.ndarray, gamma: np.ndarray, beta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A layer's weights (columns, depth) behind LayerNorm, and float32, two a column.

    These are its bias and the sum of its weights, as float16 holds them.
    """
    exact = weight.astype(np.float64)
    found = (exact * gamma).astype(np.float16)
    pairs = bias + exact @ beta, found.sum(1, np.float64)
    return found, np.stack(pairs, 1).astype(np.float32).reshape(-1)


def counting(
    a: Array, b: Array, bias: Array | None, residual: Array, out: Array, sums: Array,
    method: str = "auto",
) -> Launch:  # fmt: skip
    """a b' + bias + residual, and the sums of its rows."""
    p = GemmProblem.of(a, b, bias, residual, out, "nt")
    tile, sums = _tile(p[1:4], True, method), as_words(sums, kind="f")
    return launch_of(*tile, p, a, b, bias, residual, out, Norm(counts=True), sums)


def normed(
    a: Array, b: Array, bias: Array, out: Array, sums: Array, depth: int, eps: float,
    activation: str = "", method: str = "auto", beside: int = 0,
) -> Launch:  # fmt: skip
    """activation(LayerNorm(a) weight' + bias), of what `folded` made.

    `depth` is that of the product that made a and its sums, by the same method. `beside` are blocks
    of the next launch: if they are few, multiprocessors are left to them, where they begin early.
    """
    p = GemmProblem.of(a, b, bias, None, out, "nt", activation)
    made_by, _ = _tile((p.rows, p.depth, depth), True, method)
    tile = _tile(p[1:4], False, method, beside)
    norm = Norm(ceil_div(p.depth, made_by.columns), eps)
    return launch_of(*tile, p, a, b, bias, None, out, norm, as_words(sums, kind="f"))
