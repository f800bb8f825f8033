"""Products of matrices in each layout, their arrays and what is right in float64."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from course import cuda
from course.kernels.gemm.half import LAYOUTS, GemmProblem
from course.kernels.steps import Launch
from tests.course.kernels.contract import ROUNDING, in_float64, typed
from tests.course.kernels.launched import traced


def given(rows, columns, depth, layout, seed=3):
    """Both factors, of float32."""
    rng = np.random.default_rng(seed)
    shapes = zip(((rows, depth), (depth, columns)), LAYOUTS[layout], strict=True)
    return [
        rng.standard_normal(shape[::-1] if transpose else shape).astype(np.float32)
        for shape, transpose in shapes
    ]


def right(a, b, layout):
    """The product of two factors."""
    a, b = (
        in_float64(its).T if transpose else in_float64(its)
        for its, transpose in zip((a, b), LAYOUTS[layout], strict=True)
    )
    return a @ b


class Product:
    """One of 16 bits: its `arrays` on the device, as launches take them, and its `problem`.

    `added`: a residual is, "in place" where the result will be.
    """

    def __init__(self, rows: int, columns: int, depth: int, layout: str = "nt",
                 element: str = "float16", *, seed: Any = 5, biased: bool = False,
                 added: str = "") -> None:  # fmt: skip
        a, b = (typed(its, element) for its in given(rows, columns, depth, layout, seed))
        rng = np.random.default_rng([7, rows])
        bias = typed(rng.standard_normal(columns), element) if biased else None
        other = typed(rng.standard_normal((rows, columns)), element) if added else None
        self.exact = right(a, b, layout)
        for more in (bias, other):
            self.exact = self.exact + (0 if more is None else in_float64(more))
        sums = right(*(typed(np.abs(in_float64(its)), element) for its in (a, b)), layout)
        # rounded once, and float32's error of the sum
        self.bound = ROUNDING[element] * np.abs(self.exact) + 2.0**-20 * sums + 1e-7
        there = [its if its is None else cuda.to_device(its) for its in (a, b, bias, other)]
        empty = typed(np.full((rows, columns), np.nan), element)
        self.out = there[3] if added == "in place" else cuda.to_device(empty)
        self.arrays = *there, self.out
        self.problem = GemmProblem.of(*self.arrays, layout)

    def check(self, launches: Iterable[Launch], blocks: int | None = None) -> None:
        """Launch one after the other, on so many blocks; nothing may be wrong."""
        for its in launches:
            traced(its, blocks)
        assert (np.abs(in_float64(self.out) - self.exact) <= self.bound).all()
