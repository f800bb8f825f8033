"""Products of matrices of float16 and bfloat16 with an epilogue, in each layout; few rows."""

import numpy as np

from course.kernels.gemm import gemv, half
from course.kernels.gemm.float32 import matmul
from tests.course.kernels.cases import activation as activations
from tests.course.kernels.contract import ROUNDING, Case, Inputs, Right, launched_by, length

# --- 16 bits --------------------------------------------------------------------------------------


def _gemm(a, b, *more, **options):
    """`gemm` of what is there of bias and residual."""
    named = {"bias" if np.ndim(its) == 1 else "residual": its for its in more}
    return half.gemm(a, b, **named, **options)


_gemm.ladder = half.LADDER


def _draw(rng, size):
    sizes = [length(rng, "tiny" if size == "tiny" else "odd", 65) for _ in range(3)]
    if size == "fours":  # rows at multiples of 16 bytes
        sizes = [8 * int(n) for n in rng.integers(1, 17, 3)]
    elif size == "long":
        sizes, axis = [8 * int(n) for n in rng.integers(1, 9, 3)], int(rng.integers(3))
        sizes[axis] = 8 * int(rng.integers(17, 60 if axis == 2 else 26))  # several tiles
    elif size == "empty":
        sizes[int(rng.integers(3))] = 0
    rows, columns, depth = sizes
    options, arrays = {"layout": "nt"}, {}
    if rng.random() < 0.7:
        options = {"layout": str(rng.choice(list(half.LAYOUTS))),
                   "activation": str(rng.choice(list(half.ACTIVATIONS)))}  # fmt: skip
        bias, residual = rng.standard_normal(columns), rng.standard_normal((rows, columns))
        arrays = {"bias": bias, "residual": residual}
        arrays = {name: its for name, its in arrays.items() if rng.random() < 0.6}

    shapes = (rows, depth), (depth, columns)
    a, b = (
        rng.standard_normal(shape[::-1] if transpose else shape)
        for transpose, shape in zip(half.LAYOUTS[options["layout"]], shapes, strict=True)
    )
    return Inputs({"a": a, "b": b} | arrays, options)


def _right(arrays, layout, activation=""):
    transpose_a, transpose_b = half.LAYOUTS[layout]
    a = arrays["a"].T if transpose_a else arrays["a"]
    b = arrays["b"].T if transpose_b else arrays["b"]
    x, sums = a @ b + arrays.get("bias", 0), np.abs(a) @ np.abs(b)
    active = activations.exact(activation, x)[0] if activation else x
    y = active + arrays.get("residual", 0)
    # rounded once; tanh is the GPU's, 2**-11 off; the sum's own error is float32's
    return [Right(y, np.abs(y) + np.abs(x) * bool(activation) + 2.0**-8 * sums + 0.02)]


_A = np.ones((8, 8), np.float16)
_TMA = {"layout": "nt", "method": "tma"}
_ONLY = "'tma' of gemm takes float16 in the layout 'nt', and does nothing after the product"

# --- few rows -------------------------------------------------------------------------------------


def _draw_layer(rng, size):
    rows, outputs, inputs = (length(rng, "tiny" if size == "tiny" else "odd", 37) for _ in range(3))
    if size == "long":
        inputs = length(rng, "long", 1025)
    x, weight = rng.standard_normal((rows, inputs)), rng.standard_normal((outputs, inputs))
    names = (*activations.FUNCTIONS, None)
    option = names[int(rng.integers(len(names)))]
    bias = rng.standard_normal(outputs)
    return Inputs({"x": x, "weight": weight, "bias": bias}, {"activation": option})


def _right_layer(arrays, activation):
    x, weight, bias = arrays.values()
    y, sums = x @ weight.T + bias, np.abs(x) @ np.abs(weight.T) + np.abs(bias)
    y = y if activation is None else activations.exact(activation, y)[0]
    return [Right(y, (x.shape[1] + 8) * sums)]


_layer = launched_by(gemv.LADDER, results=1, shape=lambda x, weight, bias: (len(x), len(weight)))
_X = np.ones((3, 8), np.float32)

CASES = [
    Case(
        _gemm, _draw, _right, errors={name: ROUNDING[name] for name in ("float16", "bfloat16")},
        in_place=("residual",), special=(np.nan,), calls=6,
        refused=[
            (lambda: _gemm(_A, _A.astype("f4")), TypeError, "a and b must both hold float16 or"),
            (lambda: _gemm(_A, _A[:4]), ValueError, "so 8 and 4 must be the same"),
            (lambda: _gemm(_A, _A, np.zeros(7, np.float16)), ValueError, r"bias has the shape \(7"),
            (lambda: _gemm(_A, _A, activation="relu"), ValueError, "no activation 'relu'"),
            (lambda: _gemm(_A[0], _A), ValueError, r"a has the shape \(8,\); it must be \(rows, d"),
            (lambda: _gemm(_A, _A, layout="nn", method="tma"), ValueError, _ONLY),
            (lambda: _gemm(_A, _A, activation="gelu", **_TMA), ValueError, _ONLY),
            (lambda: _gemm(_A, _A, _A, **_TMA), ValueError, _ONLY),
            (lambda: _gemm(_A[:, :4], _A[:4], method="split"), ValueError,
             "'split' of gemm needs rows that begin at multiples of 16 bytes"),
            (lambda: matmul(_A, _A, method="padded"), ValueError, "no method 'padded': choose"),
        ],
    ),
    Case(
        _layer, _draw_layer, _right_layer,
        # of the sum of |x| |weight|, times the depth; an activation's slope is at most 1.2
        errors={"float32": 1.2 * 2.0**-24}, out=False, entered=False, special=(np.nan,),
        sizes=("tiny", "odd", "long"), best=[((3, 8), "warp")],
        refused=[
            (lambda: _layer(_X, _X, _X[0, :3], activation="tan"), ValueError,
             "no activation 'tan': choose gelu"),
        ],
    ),
]  # fmt: skip
