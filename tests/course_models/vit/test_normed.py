"""LayerNorm within products, simulated: sums of rows, and what reads them, against float64."""

import math

import numpy as np
import pytest

from course import cuda
from course.heuristics.gemm import GemmConfig
from course.kernels.arrays import as_words
from course.kernels.gemm.epilogue import Norm
from course.kernels.gemm.half import GemmProblem, launch_of
from course_models.vit import normed, reference
from tests.course.kernels.launched import traced

#: A tile whose rows and columns others share; tile after tile; blocks that share the depth.
TILES = {
    "overlapping": (GemmConfig(1, 112, 3, 1, True), 1), "many": (GemmConfig(2, 80, 2, 3, True), 1),
    "two": (GemmConfig(1, 96, 3, 2, True), 1), "split": (GemmConfig(1, 80, 2, 1, True), 2),
    "split by 4": (GemmConfig(2, 64, 2, 1, True), 4),
}  # fmt: skip
pytestmark = pytest.mark.usefixtures("h200")


def empty(*shape):
    return cuda.to_device(np.full(shape, np.nan, np.float16))


def run(its):
    """Launch without a finding, the persistent ones with fewer blocks than tiles."""
    traced(its, its.grid if isinstance(its.grid, tuple) else min(its.grid, 2))


def close(found, exact, tolerance):
    assert np.linalg.norm(found - exact) <= tolerance * np.linalg.norm(exact)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("tile", TILES)
def test_two_products_and_the_norm_between_them_are_float64s(tile, seed):
    """Rows of any mean and deviation: those of the residual, which is most of what is normed."""
    config, splits = TILES[tile]
    rng = np.random.default_rng([seed, *tile.encode()])
    rows, deep = int(rng.integers(1, 140)), 16 * int(rng.integers(1, 12))
    width, columns = 16 * int(rng.integers(4, 14)), 16 * int(rng.integers(4, 14))
    means = rng.choice([0, 0.5, 20], (rows, 1)) * rng.standard_normal((rows, 1))
    given = [
        rng.standard_normal((rows, deep)), rng.standard_normal((width, deep)) / math.sqrt(deep),
        rng.standard_normal(width), means + rng.choice([0.01, 1, 9], (rows, 1))
        * rng.standard_normal((rows, width)), rng.standard_normal((columns, width)),
        rng.standard_normal(columns), 1 + rng.standard_normal(width), rng.standard_normal(width),
    ]  # fmt: skip
    given = [its.astype(np.float16) for its in given]
    a, b, bias, residual, weight, last, gamma, beta = (its.astype(float) for its in given)
    one, other = empty(rows, width), empty(rows, columns)
    sums = as_words(empty(rows, normed.pitch(width)), kind="f")
    arrays = *map(cuda.to_device, given[:4]), one
    run(launch_of(config, splits, GemmProblem.of(*arrays, "nt"), *arrays, Norm(counts=True), sums))
    middle = a @ b.T + bias + residual
    close(one.copy_to_host(), middle, 4e-4)
    parts = -(-width // config.columns)
    found = sums.copy_to_host()[:, : 2 * parts].astype(float)
    close(found[:, ::2].sum(1), middle.sum(1), 1e-5)
    close(found[:, 1::2].sum(1), (middle**2).sum(1), 1e-6)

    factors = [cuda.to_device(its) for its in normed.folded(*given[4:])]
    arrays = one, *factors, None, other
    problem, norm = GemmProblem.of(*arrays, "nt", "gelu"), Norm(parts, 1e-6)
    config = config._replace(added=False)
    run(launch_of(config, splits, problem, *arrays, norm, sums))
    x = reference.norm(one.copy_to_host().astype(float), gamma, beta)
    close(other.copy_to_host(), reference.gelu(x @ weight.T + last), 6e-4)


@pytest.mark.parametrize("method", normed.SHARED_BY)
def test_what_reads_the_sums_knows_the_tiles_that_made_them(method):
    """Rows that two tiles share, of more than a tile across, and a row of zeros."""
    rng = np.random.default_rng(3)
    given = [rng.standard_normal(size).astype(np.float16) for size in (
        (70, 512), (144, 512), (70, 144), (80, 144), 80, 144, 144
    )]  # fmt: skip
    given[0][3], given[2][3] = 0, 0
    x, one, other = cuda.to_device(given[2]), empty(70, 144), empty(70, 80)
    sums = empty(70, normed.pitch(144))
    a, b = map(cuda.to_device, given[:2])
    normed.counting(a, b, None, x, one, sums, method).on()
    factors = [cuda.to_device(its) for its in normed.folded(*given[3:])]
    normed.normed(one, *factors, other, sums, 512, 1e-6, "", method).on()
    weight, bias, gamma, beta = (its.astype(float) for its in given[3:])
    exact = reference.norm(one.copy_to_host().astype(float), gamma, beta) @ weight.T + bias
    close(other.copy_to_host(), exact, 6e-4)
