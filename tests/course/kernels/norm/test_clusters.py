"""Long rows that the blocks of a cluster share, on a simulated GPU that has clusters."""

import numpy as np
import pytest

from course.heuristics.norm import (
    REGISTERS_AND_SHARED,
    NormProblem,
)
from course.kernels.norm.ladder import LADDER, layer_norm
from tests.course.kernels.contract import checked

pytestmark = pytest.mark.usefixtures("h200")


@pytest.mark.parametrize(
    ("columns", "dtype", "activation"),
    [(33_300, "float16", None), (16_389, "float16", "gelu"), (70_004, "float32", None)],
)
def test_rows_that_no_block_holds_are_read_once(rng, columns, dtype, activation):
    x = (rng.normal(0, 1, (2, columns)) + 3).astype(dtype)
    gamma, beta = rng.normal(1, 0.3, (2, columns)).astype(dtype)
    checked("layer_norm", "clusters", x=x, gamma=gamma, beta=beta, activation=activation)


def test_blocks_without_an_element_add_nothing():
    x = np.arange(40, dtype=np.float32).reshape(2, 20)
    y = layer_norm(x, method="clusters")
    assert np.abs(y - layer_norm(x, method="naive")).max() < 1e-6


def test_auto_takes_clusters_for_few_rows_and_where_single_elements_are_accessed():
    def best(rows, columns, aligned=True):
        return LADDER.best(NormProblem(rows, columns, "float16", aligned))

    assert best(31, 90_576) == best(384, 93_689, False) == best(1336, 60_088) == "clusters"
    assert best(429, 33_312) == best(2106, 84_368) == "long"  # from L2, and a block at a time
    assert best(31, 30_000) == "registers"


def test_auto_takes_another_step_where_lanes_of_half_idle_or_both_takes_one_launch_more():
    def best(rows, columns, dtype, aligned=True):
        eights = "" if dtype == "float16" else "is for elements of 16 bits"
        return LADDER.best(NormProblem(rows, columns, dtype, aligned, eights=eights))

    assert best(10**5, 96, "float16") == best(10**5, 384 - 8, "float16") == "several rows"
    assert best(10**5, 224, "float16") == best(10**5, 768, "float16") == "half"
    assert best(24, 9631, "float32", False) == "registers"
    assert best(24, 30_001, "float32", False) == "clusters"
    assert best(1000, 9631, "float32", False) == REGISTERS_AND_SHARED
