"""A layer of a small network: convolution, bias, activation, pooling."""

import numpy as np

from course_lessons.lesson13.digits import network
from course_lessons.lesson13.digits.convolution import LADDER, LayerProblem
from tests.course.kernels.cases.activation import exact
from tests.course.kernels.contract import Case, Inputs, Right, launched_by

ACTIVATIONS = ("relu", "gelu", "silu", "gelu tanh", None)
#: (images, inputs, rows, columns), outputs
SHAPES = {
    "tiny": [((5, 2, 2, 3), 3), ((1, 1, 2, 2), 1), ((1, 1, 3, 2), 2)],
    # odd rows and columns are dropped; outputs beyond a group's
    "odd": [((1, 3, 5, 7), 17), ((2, 7, 13, 3), 1), ((1, 4, 3, 66), 33)],
    "fours": [((3, 1, 8, 8), 16), ((2, 16, 4, 4), 32)],  # the layers of the digits' network
    "long": [((1, 1, 28, 28), 5), ((1, 3, 64, 64), 2)],
}


def _draw(rng, size):
    shape, outputs = SHAPES[size][rng.integers(len(SHAPES[size]))]
    arrays = {"x": rng.normal(0, 1, shape), "weight": rng.normal(0, 1, (outputs, shape[1], 3, 3)),
              "bias": rng.normal(0, 1, outputs)}  # fmt: skip
    return Inputs(arrays, {"activation": ACTIVATIONS[rng.integers(len(ACTIVATIONS))]})


def _right(arrays, activation):
    y = network.convolution(*arrays.values())
    y = y if activation is None else exact(activation, y)[0]
    y = network.pooling(y[:, :, : y.shape[2] // 2 * 2, : y.shape[3] // 2 * 2])
    return [Right(y, np.nanmax(np.abs(y), keepdims=True, initial=1))]


def _pooled(x, weight, bias):
    return len(x), len(weight), x.shape[2] // 2, x.shape[3] // 2


X, W, B = (np.ones(shape, np.float32) for shape in ((2, 3, 4, 4), (6, 3, 3, 3), 6))
LARGE = np.ones((1, 3, 64, 64), np.float32)
_layer = launched_by(LADDER, results=1, shape=_pooled)

CASES = [
    Case(
        _layer, _draw, _right,
        # of the largest result: a float32 sum of up to 150 products in any order
        errors={"float32": 2e-6}, out=False, entered=False, special=(np.nan,), specials=("x",),
        sizes=tuple(SHAPES),
        best=[(LayerProblem(1, 8, 8), "fused"), (LayerProblem(3, 64, 64), "naive")],
        refused=[
            (lambda: _layer(X, W, B, activation="tanh"), ValueError,
             "no activation 'tanh': choose gelu"),
            (lambda: _layer(LARGE, W, B, method="fused", activation="relu"), ValueError,
             r"'fused' of convolution .*64 x 64 pixels need 55,\d+ bytes.* 49,152: choose 'naive'"),
        ],
    ),
]  # fmt: skip
