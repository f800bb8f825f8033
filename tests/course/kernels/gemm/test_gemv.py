"""Products of few results, a warp each."""

import numpy as np
import pytest

from course import cuda
from course.kernels.gemm import gemv
from tests.course.kernels.launched import traced

pytestmark = pytest.mark.usefixtures("h200")


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("shape", [(3, 5, 768), (1, 1, 8), (2, 7, 264)])
def test_results_are_float64s_rounded_once(shape, biased):
    rows, columns, depth = shape
    rng = np.random.default_rng(depth)
    a, b, bias = (
        cuda.to_device(rng.standard_normal(size).astype(np.float16))
        for size in ((rows, depth), (columns, depth), columns)
    )
    out = cuda.to_device(np.full((rows, columns), np.nan, np.float16))
    assert gemv.takes(a, b, out)
    (its,) = gemv.launches(a, b, bias if biased else None, out)
    assert not traced(its).findings
    exact = a.copy_to_host().astype(float) @ b.copy_to_host().astype(float).T
    exact += bias.copy_to_host() if biased else 0
    wrong = np.abs(out.copy_to_host() - exact)
    assert (wrong <= 2**-11 * np.abs(exact) + 1e-5 * np.sqrt(depth)).all()


def test_others_are_not_taken():
    def some(*shape):
        return cuda.device_array(shape, np.float16)

    assert not gemv.takes(some(3, 12), some(5, 12), some(3, 5))  # no 16 bytes an access
    assert not gemv.takes(some(512, 8), some(33, 8), some(512, 33))  # too many results
    assert not gemv.takes(some(0, 8), some(5, 8), some(0, 5))
