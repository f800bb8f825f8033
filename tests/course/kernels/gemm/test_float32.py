"""Products of matrices in every layout and by every step, a layer's bias, and what is refused."""

import numpy as np
import pytest

from course import cuda
from course.kernels.gemm import float32 as kernels
from course.kernels.gemm import gemv
from course.kernels.gemm.float32 import LADDER, LAYOUTS, matmul
from course.kernels.transpose import transpose
from tests.course.kernels.gemm.factors import given
from tests.course.kernels.launched import launched, traced


@pytest.mark.slow
def test_long_sums_of_equal_numbers_do_not_drift():
    depth = 1 << 14
    a = np.full((1, depth), 0.1, np.float32)
    exact = float(np.float32(0.1)) ** 2 * depth
    naive, vectorised = (
        abs(float(matmul(a, a, "nt", method=method)[0, 0]) / exact - 1)
        for method in ("naive", "vectorised")
    )
    assert vectorised < 2e-5 and 4 * vectorised < naive


@pytest.mark.parametrize("layout", LAYOUTS)
def test_padding_parts_the_banks(layout):
    arrays = [*map(cuda.to_device, (*given(68, 68, 36, layout), np.zeros((68, 68), "f4")))]
    tiled, padded = (
        traced(*LADDER.launches(*arrays, layout=layout, method=name)).total("shared", "store")
        for name in ("tiled", "padded")
    )
    if layout == "nn":
        assert tiled.wavefronts == padded.wavefronts
    else:  # one of two tiles is written down a column: 32 wavefronts and 1 instead of 1 and 1
        assert 2 * tiled.wavefronts == 33 * padded.wavefronts


def test_the_bias_is_added_to_each_row_and_its_gradient_is_their_sum():
    rng = np.random.default_rng(5)
    for rows, columns in ((128, 400), (1, 1), (9, 33), (31, 70)):
        x = rng.standard_normal((rows, columns)).astype(np.float32)
        bias = rng.standard_normal(columns).astype(np.float32)
        (added,) = launched(kernels.bias_launches, (x, bias), [x.shape])
        assert np.array_equal(added, x + bias)
        (total,) = launched(kernels.sum_launches, (x,), [bias.shape])
        assert np.abs(total - x.sum(axis=0, dtype=float)).max() < 2e-5
    (total,) = launched(kernels.sum_launches, (np.zeros((0, 3), np.float32),), [3])
    assert np.array_equal(total, np.zeros(3))
    at = cuda.to_device(x)  # in place
    (launch,) = kernels.bias_launches(at, cuda.to_device(bias), at)
    launch.on()
    assert np.array_equal(at.copy_to_host(), x + bias)


@pytest.mark.parametrize("method", ["naive", "padded", "vectorised"])
def test_more_rows_than_a_grid_has_blocks_for_are_refused(method):
    high = {"naive": 8, "padded": 32, "vectorised": 64}[method]
    a = np.ones((65_535 * high + 1, 1), np.float32)
    with pytest.raises(ValueError, match=f"has {len(a):,} rows, and one launch at most"):
        matmul(a, a[:1], method=method)
    if method != "vectorised":
        with pytest.raises(ValueError, match=f"image has {len(a):,} rows"):
            transpose(a, method=method)
    if method == "naive":
        with pytest.raises(ValueError, match="x has 524,281 rows, and one launch at most 524,280"):
            kernels.bias_launches(a, a[0], a)
        for step in gemv.LADDER:
            with pytest.raises(ValueError, match="x has 524,281 rows"):
                gemv.LADDER.launches(a, a[:1], a[0], a, activation=None, method=step)
