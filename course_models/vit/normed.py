"""LayerNorm computed by the products before and after it: launches for `gemm.epilogue`'s `Norm`.

>>> counting(x, weight, bias, residual, out, sums)             # stores rows, and sums of them
>>> weight, bias = folded(weight, bias, gamma, beta)           # once, on the host
>>> normed(out, weight, bias, hidden, sums, depth, 1e-6, "gelu")      # normalises by these sums

Arrays are float16, in the layout "nt", for compute capability 9.0; sums have (rows, `pitch`).
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
MULTIPLE = 16  # of rows' lengths: then a column that two tiles share is counted once


def pitch(columns: int) -> int:
    """Float16 elements in a row of sums: two float32 for each tile of 64 columns."""
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
    """A layer's weights (columns, depth) with LayerNorm's factors, and two float32 for each column.

    These are the column's bias, and the sum of its weights as rounded to float16.
    """
    exact = weight.astype(np.float64)
    found = (exact * gamma).astype(np.float16)
    pairs = bias + exact @ beta, found.sum(1, np.float64)
    return found, np.stack(pairs, 1).astype(np.float32).reshape(-1)


def counting(
    a: Array, b: Array, bias: Array | None, residual: Array, out: Array, sums: Array,
    method: str = "auto",
) -> Launch:  # fmt: skip
    """The launch of a b' + bias + residual that also stores sums of each row of the result."""
    p = GemmProblem.of(a, b, bias, residual, out, "nt")
    tile, sums = _tile(p[1:4], True, method), as_words(sums, kind="f")
    return launch_of(*tile, p, a, b, bias, residual, out, Norm(counts=True), sums)


def normed(
    a: Array, b: Array, bias: Array, out: Array, sums: Array, depth: int, eps: float,
    activation: str = "", method: str = "auto", beside: int = 0,
) -> Launch:  # fmt: skip
    """The launch of activation(LayerNorm(a) weight' + bias), with `folded` weights and bias.

    `depth` is that of the product that made a and its sums, by the same method. `beside` counts the
    next launch's blocks: if they are few, SMs are left free for them, so that they begin early.
    """
    p = GemmProblem.of(a, b, bias, None, out, "nt", activation)
    made_by, _ = _tile((p.rows, p.depth, depth), True, method)
    tile = _tile(p[1:4], False, method, beside)
    norm = Norm(ceil_div(p.depth, made_by.columns), eps)
    return launch_of(*tile, p, a, b, bias, None, out, norm, as_words(sums, kind="f"))
