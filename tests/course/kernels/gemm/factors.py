"""Factors of products of matrices, float32, in each layout, and what is right in float64."""

import numpy as np

from course.kernels.gemm.float32 import LAYOUTS


def given(rows, columns, depth, layout, seed=3):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((rows, depth)), rng.standard_normal((depth, columns))
    pairs = zip((a, b), LAYOUTS[layout], strict=True)
    a, b = (
        np.ascontiguousarray(its.T if transpose else its, np.float32) for its, transpose in pairs
    )
    return a, b


def right(a, b, layout):
    transpose_a, transpose_b = LAYOUTS[layout]
    a, b = a.astype(float), b.astype(float)
    return (a.T if transpose_a else a) @ (b.T if transpose_b else b)
