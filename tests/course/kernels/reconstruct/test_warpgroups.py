"""Images rebuilt by warpgroups: right at edges, for any magnitude, without a finding; compiled."""

import numpy as np
import pytest

from course import backend, gpu
from course.backend import cuda
from course.heuristics.reconstruct import WARPGROUP_CONFIGS, ImageProblem
from course.kernels.reconstruct import ladder
from course.kernels.reconstruct.ladder import LADDER, reconstruct
from tests.course.kernels.launched import traced

pytestmark = pytest.mark.usefixtures("h200")


def exact(u, s, vt, k):
    u, s, vt = (factor.astype(np.float64) for factor in (u, s, vt))
    return (u[:, :k] * s[:k]) @ vt[:k]


def drawn(rng, rows, columns, k):
    return (rng.standard_normal(size).astype(np.float32) for size in ((rows, k), k, (k, columns)))


@pytest.mark.slow
@pytest.mark.skipif(gpu() is not None, reason="traces in the simulator")
@pytest.mark.parametrize("config", WARPGROUP_CONFIGS)
@pytest.mark.parametrize(
    ("rows", "columns", "k", "blocks"), [(133, 195, 130, 1), (128, 400, 65, 3), (7, 36, 3, 1)]
)
def test_blocks_that_take_tile_after_tile_are_without_a_finding(
    monkeypatch, rng, config, rows, columns, k, blocks
):
    monkeypatch.setattr(ladder, "config_for", lambda *_: config)
    u, s, vt = drawn(rng, rows, columns, k + 2)
    expected = exact(u, s, vt, k)
    for factor in (u[:, k:], s[k:], vt[k:]):  # never factors: 0 times infinity is no zero
        factor[:] = np.inf
    out = cuda.to_device(np.full((rows, columns), np.nan, np.float32))
    there = (*map(cuda.to_device, (u, s, vt)), out)
    split, multiply = LADDER.launches(*there, k=k, method="warpgroups")
    for array in split.arguments[-4:]:
        array.copy_to_device(np.full(array.shape, np.nan, array.dtype))
    traced(split)
    traced(multiply, blocks)
    error = np.linalg.norm(out.copy_to_host() - expected) / np.linalg.norm(expected)
    assert error < 2e-7


def test_each_row_and_column_may_have_a_magnitude_of_its_own(rng):
    """From 1e-30 to 1e30, and products from both ends: each result is right to float32's digits."""
    u, s, vt = drawn(rng, 40, 72, 50)
    u *= np.logspace(-30, 30, 40, dtype=np.float32)[:, None]
    vt *= np.logspace(25, -30, 72, dtype=np.float32)
    rebuilt, expected = reconstruct(u, s, vt, 50, method="warpgroups"), exact(u, s, vt, 50)
    terms = (np.abs(u).astype(float) * np.abs(s)) @ np.abs(vt).astype(float)
    there = (terms > 1e-35) & (terms < 1e37)
    assert there.mean() > 0.6
    assert np.all(np.abs(rebuilt - expected)[there] <= 5e-7 * terms[there])


def test_what_is_not_a_number_stays_in_its_row_and_zeros_are_zeros():
    u, s, vt = np.zeros((8, 4), np.float32), np.ones(4, np.float32), np.ones((4, 8), np.float32)
    assert not reconstruct(u, s, vt, 4, method="warpgroups").any()
    u[3, 1], u[5, 2] = np.nan, np.inf
    rebuilt = reconstruct(u, s, vt, 4, method="warpgroups")
    assert not np.isfinite(rebuilt[[3, 5]]).any()
    assert not np.delete(rebuilt, (3, 5), 0).any()


@pytest.mark.skipif(gpu() is not None, reason="names a GPU that is not there")
def test_older_numba_is_refused_in_one_sentence(monkeypatch):
    monkeypatch.setattr(backend, "gpu", lambda: "H200")
    monkeypatch.setattr(backend, "installed_version", lambda _: "0.29.1")
    with pytest.raises(ValueError, match="needs numba-cuda 0.30, which compiles for sm_90a"):
        LADDER.choose("warpgroups", ImageProblem.of_shape(512, 512, 64))
