"""What is special about LayerNorm's gradients: blocks that walk over rows, what moves, no sums."""

import numpy as np
import pytest

from course import trace
from course.heuristics.norm import RowConfig, Variant
from course.kernels.norm.backward import BACKWARD, layer_norm_backward
from course.kernels.norm.backward_registers import backward_in_registers
from tests.course.kernels.cases.norm import right, right_backward
from tests.course.kernels.contract import checked

EPS = np.float32(1e-5)


def inputs(rng, rows, columns):
    """dy, x, gamma and beta."""
    dy, x = rng.standard_normal((2, rows, columns))
    given = dy, 3 * x + 2, *rng.standard_normal((2, columns))
    return [its.astype(np.float32) for its in given]


@pytest.mark.parametrize("activation", [None, "silu"])
def test_the_reference_is_the_slope(rng, activation):
    arrays = dict(zip(("dy", "x", "gamma", "beta"), inputs(rng, 2, 5), strict=True))
    arrays = {name: its.astype(np.float64) for name, its in arrays.items()}
    found = [its.values for its in right_backward(arrays, activation=activation)]
    dy, step = arrays.pop("dy"), 1e-6
    for name, slope in zip(arrays, found, strict=True):
        for place in np.ndindex(slope.shape):
            moved = [{n: its.copy() for n, its in arrays.items()} for _ in range(2)]
            moved[0][name][place] += step
            moved[1][name][place] -= step
            ends = [(dy * right(its, activation=activation)[0].values).sum() for its in moved]
            assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(slope[place], abs=1e-6)


@pytest.mark.parametrize("activation", [None, "gelu"])
@pytest.mark.parametrize("shape", [RowConfig(4, 8, 8), RowConfig(64, 1, 8)])
def test_blocks_that_walk_over_many_rows_race_with_nobody(rng, shape, activation):
    rows, columns, blocks = 37, shape.longest - 4, 3
    dy, x, gamma, beta = inputs(rng, rows, columns)
    dx = np.full_like(x, np.nan)
    sums = np.full((2, blocks * shape.rows, columns), np.nan, np.float32)
    variant = Variant(beta=activation is not None, activation=activation)
    kernel = backward_in_registers(shape, variant, True)
    report = trace(kernel, blocks, shape.threads, dy, x, gamma, beta, EPS, dx, sums)
    assert not [finding for finding in report.findings if finding.is_error]
    found = dx, *sums.sum(1)
    checked("layer_norm_backward", found=found, dy=dy, x=x, gamma=gamma, beta=beta,
            activation=activation)  # fmt: skip


@pytest.mark.parametrize("method", BACKWARD)
def test_sums_may_be_left_out_and_without_an_activation_beta_plays_no_part(rng, method):
    dy, x, gamma, beta = inputs(rng, 6, 48)
    for activation in (None, "silu"):
        how = {"method": method, "beta": beta, "activation": activation}
        found = layer_norm_backward(dy, x, gamma, **how)
        dx, *none = layer_norm_backward(dy, x, gamma, parameters=False, **how)
        assert none == [None, None] and np.array_equal(dx, found[0])
        bare = layer_norm_backward(dy, x, gamma, **how | {"beta": None})
        same = all(np.array_equal(*pair) for pair in zip(found, bare, strict=True))
        assert same == (activation is None)
