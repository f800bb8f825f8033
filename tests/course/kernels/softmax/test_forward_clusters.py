"""Long rows that the blocks of a cluster share, on a simulated GPU that has clusters."""

import numpy as np
import pytest

from course.kernels.softmax import LADDER, softmax
from course.kernels.softmax.forward import RowProblem
from tests.course.kernels.contract import checked

pytestmark = pytest.mark.usefixtures("h200")


@pytest.mark.parametrize(("columns", "dtype"), [(16_669, "float32"), (70_264, "float16")])
def test_rows_that_no_block_holds_are_read_once(rng, columns, dtype):
    checked("softmax", "clusters", x=rng.normal(0, 3, (2, columns)).astype(dtype))


def test_nan_infinity_and_the_largest_numbers_reach_all_blocks():
    most, columns = np.finfo(np.float32).max, 5000
    x = np.zeros((7, columns), np.float32)
    x[0, 4999], x[1, 2], x[2, :], x[3, 1:] = np.nan, np.inf, -np.inf, -np.inf
    x[4, :], x[5, 4000], x[6, :] = -most, most, most
    y = softmax(x, method="clusters")
    assert np.isnan(y[:3]).all()
    assert np.array_equal(y[3], np.eye(1, columns)[0])
    assert np.allclose(y[[4, 6]], 1 / columns, rtol=1e-6)
    assert np.array_equal(y[5], np.eye(1, columns, 4000)[0])


def test_auto_takes_clusters_for_long_rows_and_for_few_that_are_not_short():
    def best(rows, columns, aligned=True):
        return LADDER.best(RowProblem(rows, columns, "float32", aligned))

    assert best(2, 22_864) == best(3, 16_669, False) == best(2469, 74_248) == "clusters"
    assert best(6325, 21_456) == best(1, 8920) == "registers"
    assert best(1, 300_000) == "online"
