"""Singular value decompositions: what the factors give together, as they are not the only ones."""

import numpy as np

from course.kernels.svd import SVDProblem, rank_k, svd
from course.kernels.svd.qr import LONGEST
from tests.course.kernels.contract import Case, Inputs, Right, in_float64
from tests.course.kernels.svd_samples import ORTHOGONAL, RESIDUAL, SIGMA, special

SIDES = {"tiny": (1, 5), "odd": (5, 24), "fours": (4, 24), "long": (33, 41)}


def _draw(rng, size):
    batch, m, n = int(rng.integers(1, 3)), *map(int, rng.integers(*SIDES[size], 2))
    if size == "fours":
        m, n = m // 4 * 4, n // 4 * 4
    kinds = special(rng, max(m, n, 2))
    a = [list(kinds.values())[i][:m, :n] for i in rng.integers(len(kinds), size=batch)]
    if rng.random() < 0.5:
        a = rng.standard_normal((batch, m, n))
    a = 10.0 ** rng.integers(-3, 4) * np.array(a)
    return Inputs({"a": a[0] if rng.random() < 0.3 else a})


def _checked(a, **more):
    """The product of the factors, the singular values, and how orthogonal the vectors are."""
    u, s, vt = map(in_float64, svd(a, **more))
    return (u * s[..., None, :]) @ vt, s, u.swapaxes(-1, -2) @ u, vt @ vt.swapaxes(-1, -2)


_checked.ladder = svd.ladder


def _right(arrays):
    a = arrays["a"]
    s = np.linalg.svd(a, compute_uv=False)
    one = np.broadcast_to(np.eye(s.shape[-1]), (*s.shape, s.shape[-1]))
    norm = np.linalg.norm(a, axis=(-2, -1), keepdims=True)
    return [
        Right(a, RESIDUAL * norm), Right(s, SIGMA * s[..., :1]),
        Right(one, np.full(one.shape, ORTHOGONAL)), Right(one, np.full(one.shape, ORTHOGONAL)),
    ]  # fmt: skip


A = np.ones((3, 4, 4), np.float32)

CASES = [
    Case(
        _checked, _draw, _right, errors={"float32": 1.0},  # the project's bounds are the scale
        layout="any", out=False, entered=False, special=(), sizes=tuple(SIDES), calls=1,
        best=[(SVDProblem(1, 1024), "one launch"), (SVDProblem(128, 1024), "registers"),
              (SVDProblem(129), "tensor cores")],
        refused=[
            (lambda: svd(A.astype(np.int32)), TypeError, "holds int32.*float32"),
            (lambda: svd([[1.0]]), TypeError, "list"),
            (lambda: svd(A[0, 0]), ValueError, r"\(4,\).*\(batch, m, n\)"),
            (lambda: svd(A[:, :0]), ValueError, "nothing to decompose"),
            (lambda: svd(np.ones((1, LONGEST + 1, 2), "f4")), ValueError, "1025 x 2.*1,024"),
            (lambda: svd(np.ones((65, 65), "f4"), method="shared"), ValueError,
             "'shared' of svd takes .* at most 64; given 65: choose 'plain', 'registers'"),
            (lambda: rank_k(A, 5), ValueError, "k is 5.*1 to 4"),
            (lambda: rank_k(A, 2, power=-1), ValueError, "power is -1"),
        ],
    ),
]  # fmt: skip
