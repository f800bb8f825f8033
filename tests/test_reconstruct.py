"""The kernels that rebuild an image from its SVD agree with float64, and cost what they say."""

import numpy as np
import pytest

from course import images
from course.kernels.reconstruct import LADDER, Step, reconstruct

SHAPES = [(1, 1), (3, 2), (13, 7), (17, 33), (31, 64), (5, 101)]


@pytest.fixture
def rng():
    return np.random.default_rng(30)


def float64_reference(u, s, vt, k):
    u, s, vt = (factor.astype(np.float64) for factor in (u, s, vt))
    return (u[:, :k] * s[:k]) @ vt[:k]


@pytest.mark.parametrize("step", LADDER)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_step_agrees_with_float64(rng, step, shape):
    u, s, vt = images.svd(rng.random(shape))
    for k in {1, (min(shape) + 1) // 2, min(shape)}:
        rebuilt = reconstruct(u, s, vt, k, step)
        assert rebuilt.dtype == np.float32
        assert rebuilt.shape == shape
        expected = float64_reference(u, s, vt, k)
        # k float32 products and sums: each is off by at most 2**-24 of the terms' sizes
        terms = (np.abs(u[:, :k]) * s[:k]) @ np.abs(vt[:k])
        assert np.all(np.abs(rebuilt - expected) <= (k + 2) * 2.0**-24 * terms + 1e-12)


@pytest.mark.parametrize("step", LADDER)
def test_float64_factors_and_strided_factors_are_taken(rng, step):
    u, s, vt = images.svd(rng.random((9, 12)))
    expected = reconstruct(u, s, vt, 4, step)
    strided = np.asfortranarray(u), np.repeat(s, 2)[::2], np.asfortranarray(vt)
    assert np.array_equal(reconstruct(*strided, 4, step), expected)
    wide = (factor.astype(np.float64) for factor in (u, s, vt))
    assert np.array_equal(reconstruct(*wide, 4, step), expected)


@pytest.mark.parametrize("walks", ["rows", "columns"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("block", [(16, 16), (32, 4), (5, 7)])
def test_grid_covers_every_pixel_and_no_block_is_idle(walks, shape, block):
    grid_x, grid_y = Step(kernel=None, x_walks=walks, block=block).grid(*shape)
    along_x, along_y = shape if walks == "rows" else shape[::-1]
    assert (grid_x - 1) * block[0] < along_x <= grid_x * block[0]
    assert (grid_y - 1) * block[1] < along_y <= grid_y * block[1]


def test_wrong_arguments_are_refused(rng):
    u, s, vt = images.svd(rng.random((6, 5)))
    for k in (0, 6, -1):
        with pytest.raises(ValueError, match="from 1 to 5"):
            reconstruct(u, s, vt, k)
    with pytest.raises(ValueError, match="original, float32, naive"):
        reconstruct(u, s, vt, 2, "fastest")
    with pytest.raises(ValueError, match=r"\(rows, r\), \(r,\), \(r, columns\)"):
        reconstruct(u, s[:3], vt, 2)
    with pytest.raises(ValueError, match="shapes"):
        reconstruct(u, s, vt.T[:3], 2)


def traced(step, u, s, vt, k):
    from course.simt import trace

    chosen = LADDER[step]
    out = np.full((len(u), vt.shape[1]), np.nan, np.float32)
    columns_of_u = np.ascontiguousarray(u[:, :k])
    grid = chosen.grid(*out.shape)
    report = trace(chosen.kernel, grid, chosen.block, columns_of_u, s[:k], vt[:k], k, out)
    assert np.abs(out - float64_reference(u, s, vt, k)).max() < 1e-4
    return report


# Read on an H200 with Nsight Compute at 64x64, k = 8, blocks of 16x16.
HARDWARE_COUNTS = {
    "float32": (3072, 18432, 128, 2048),
    "naive": (3072, 5120, 128, 512),
}


@pytest.mark.parametrize("step", HARDWARE_COUNTS)
def test_traffic_is_what_the_hardware_counts(rng, step):
    report = traced(step, *images.svd(rng.random((64, 64))), 8)
    load, store = report.total("global", "load"), report.total("global", "store")
    counted = (load.requests, load.sectors, store.requests, store.sectors)
    assert counted == HARDWARE_COUNTS[step]


def test_only_the_original_works_in_float64(rng):
    factors = images.svd(rng.random((20, 18)))
    for step in LADDER:
        report = traced(step, *factors, 5)
        kinds = {finding.kind for finding in report.findings}
        assert ("float64" in kinds) == (step == "original")
        assert (report.operations["float64"] > 0) == (step == "original")


def test_tiled_loads_each_element_once_for_each_tile(rng):
    rows, columns, k = 64, 96, 32
    u, s, vt = images.svd(rng.random((rows, columns)))
    report = traced("tiled", u, s, vt, k)
    loaded = report.lines.query("space == 'global' and op == 'load'").groupby("array")["lanes"]
    lanes = loaded.sum().to_dict()
    assert lanes["u"] == rows * k * columns // 16
    assert lanes["vt"] == k * columns * rows // 16
    assert lanes["s"] == lanes["u"]


@pytest.mark.parametrize(("rows", "columns", "k"), [(64, 64, 32), (33, 50, 17), (1, 1, 1)])
def test_tiled_has_no_finding(rng, rows, columns, k):
    u, s, vt = images.svd(rng.random((rows, columns)))
    report = traced("tiled", u, s, vt, k)
    kinds = {finding.kind for finding in report.findings}
    assert kinds <= {"uncoalesced"}  # rows that begin inside a sector, where columns % 8 != 0
    assert columns % 8 or not kinds
    assert report.total("shared", "load").conflicts == 0


def test_tiled_moves_an_eighth_of_the_sectors_of_naive(rng):
    factors = images.svd(rng.random((64, 64)))
    naive, tiled = (
        traced(step, *factors, 32).total("global", "load").sectors for step in ("naive", "tiled")
    )
    assert (naive, tiled) == (20_480, 2_560)
