"""Images from their singular value decomposition, one or a stack."""

import numpy as np

from course.kernels.reconstruct.ladder import ImageProblem, reconstruct
from tests.course.kernels.contract import Case, Inputs, Right, length


def _draw(rng, size):
    stack = (2,) if rng.random() < 0.3 else ()
    rows, columns, k = (length(rng, "odd" if size == "long" else size, 65) for _ in range(3))
    if size == "fours":
        rows, columns, k = (4 * int(n) for n in rng.integers(1, 20, 3))
    elif size == "long":
        rows, columns, k = 130, 257, int(rng.integers(49, 60))
    r = k + int(rng.integers(0, 4))
    shapes = {"u": (rows, r), "s": (r,), "vt": (r, columns)}
    arrays = {name: rng.standard_normal((*stack, *shape)) for name, shape in shapes.items()}
    if rng.random() < 0.5:  # never factors: 0 times NaN is no zero
        arrays["u"][..., k:] = arrays["s"][..., k:] = arrays["vt"][..., k:, :] = np.nan
    return Inputs(arrays, {"k": k})


def _right(arrays, k):
    u, s, vt = arrays.values()
    u, s, vt = u[..., :k], s[..., None, :k], vt[..., :k, :]
    return [Right((u * s) @ vt, (k + 2) * ((np.abs(u) * np.abs(s)) @ np.abs(vt)))]


def _some(dtype):
    """Tiles and a depth that are not filled."""
    rows, k, columns = 130, 21, 136
    shapes = {"u": (rows, k), "s": (k,), "vt": (k, columns)}
    return Inputs({name: np.ones(shape) for name, shape in shapes.items()}, {"k": k})


_U, _S, _VT = np.ones((6, 5), np.float32), np.ones(5, np.float32), np.ones((5, 5), np.float32)

CASES = [
    Case(
        reconstruct, _draw, _right,
        # of k terms; two of float16 keep 23 bits of a factor, TF32 11, where float32 has 24
        errors={
            "float32": 2.0**-24, "tensor cores": 2.0**-22, "warpgroups": 2.0**-22, "tf32": 2.0**-11,
        },
        layout="rows", converts=True, special=(np.nan,), sizes=("tiny", "odd", "fours", "long"),
        float64=("original",), work=_some,
        best=[(ImageProblem(48, 48, 9, 0, (9, 0)), "naive"),
              (ImageProblem(64, 64, 9, 3, (9, 0)), "warp tiles")],
        refused=[
            *((lambda k=k: reconstruct(_U, _S, _VT, k), ValueError, "from 1 to 5")
              for k in (0, 6, -1)),
            (lambda: reconstruct(_U, _S[:3], _VT, 2), ValueError,
             r"\(rows, r\), \(r,\), \(r, columns\)"),
            (lambda: reconstruct(*(a[None] for a in (_U, _S, _VT)), 2, method="tiled"), ValueError,
             "'tiled' of reconstruct takes one image, .*: choose 'warp tiles', 'tensor cores'"),
        ],
    ),
]  # fmt: skip
