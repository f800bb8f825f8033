"""Products past shared memory, and of copies: any tile, split, layout and alignment."""

import numpy as np
import pytest

from course.heuristics.gemm import ThinConfig, partial_tile, staged_config
from course.kernels.gemm import half, thin
from course.kernels.gemm.tiles import ELEMENTS
from course.kernels.steps import ceil_div, round_up
from tests.course.kernels.gemm.factors import Product

TILES = [ThinConfig(*its) for its in (
    (1, 1, 8, 1), (2, 1, 4, 2), (4, 1, 4, 1), (4, 2, 2, 2), (2, 2, 4, 2), (4, 4, 1, 4),
    (1, 2, 2, 2), (2, 4, 8, 1),
)]  # fmt: skip
pytestmark = pytest.mark.usefixtures("h200")


def drawn(rng, sides, depths):
    """Sizes, half of them multiples of 8, a layout and a type of elements."""
    sizes = [int(rng.integers(1, most)) for most in (*sides, depths)]
    if rng.random() < 0.5:
        sizes = [round_up(n, 8) for n in sizes]
    return *sizes, str(rng.choice(list(half.LAYOUTS))), str(rng.choice(list(ELEMENTS)))


@pytest.mark.drawn(6)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("config", TILES)
def test_tiles_past_shared_memory_are_right(config, seed):
    rng = np.random.default_rng([seed, TILES.index(config)])
    its = Product(*drawn(rng, (90, 40), 300), seed=seed, biased=True)
    for splits, swapped in ((1, False), (3, True), (9, False)):
        its.check(thin.launches(config, splits, swapped, its.problem, *its.arrays))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_products_of_copies_are_right(seed, swapped):
    rng = np.random.default_rng(seed)
    rows, columns, depth, layout, element = drawn(rng, (200, 140), 400)
    boxes = layout != "nt" and (layout, swapped) != ("nn", True)
    wide = 16 * int(rng.integers(1, 17))
    waves = 1 + 2 * (seed % 3 > 0)
    config = partial_tile(1 + seed % 3, wide, waves, swapped, boxed=boxes)._replace(stages=2)
    its = Product(rows, columns, depth, layout, element, seed=seed)
    splits = min(1 + seed % 3, ceil_div(depth, 64))
    its.check(half.partial_launches(config, splits, its.problem, *its.arrays))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("waves", [1, 2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_results_may_begin_anywhere(seed, waves):
    rng = np.random.default_rng([seed, waves])
    *sizes, layout, element = drawn(rng, (200, 300), 200)
    more = {"by_threads": True, "boxed": layout != "nt"}
    tile = staged_config(1 + seed % 3, 16 * int(rng.integers(4, 13)), waves, **more)
    tile = tile._replace(stages=2)
    its = Product(*sizes, layout, element, seed=seed, biased=True)
    its.check(half.partial_launches(tile, 1, its.problem, *its.arrays))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", ["stored", "swapped", "threads", "partial", "added"])
@pytest.mark.parametrize("seed", range(3))
def test_pairs_of_blocks_share_tiles_of_b(seed, kind):
    rng = np.random.default_rng([seed, len(kind)])
    layout, waves = ("nn", "nt", "tn")[seed % 3], 1 + 2 * int(rng.integers(2))
    sizes = (8 * int(rng.integers(*its)) for its in ((5, 60), (5, 50), (3, 30)))
    swapped = kind == "swapped"
    boxed = layout == "tn" or (layout == "nn" and not swapped)
    wide, more = 16 * int(rng.integers(4, 13)), {"paired": True, "boxed": boxed}
    tile = staged_config(1 + int(rng.integers(3)), wide, waves, kind == "added", **more)
    if kind == "partial":
        tile = partial_tile(tile.consumers, wide, waves, **more)
    tile = tile._replace(stages=2, by_threads=kind == "threads", swapped=swapped)
    its = Product(*sizes, layout, seed=seed, added="residual" if kind == "added" else "")
    its.check(half.partial_launches(tile, 1 + (kind == "partial"), its.problem, *its.arrays))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("waves", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_results_of_factors_in_changed_places_are_stored_transposed(seed, waves):
    rng = np.random.default_rng([seed, waves])
    layout, consumers = ("nn", "nt", "tn")[seed % 3], 1 + int(rng.integers(3))
    rows, columns, depth = (8 * int(rng.integers(*its)) for its in ((5, 50), (5, 60), (3, 30)))
    how = {"swapped": True, "boxed": layout == "tn"}
    tile = staged_config(consumers, 16 * int(rng.integers(4, 13)), waves, **how)
    element = str(rng.choice(list(ELEMENTS)))
    its = Product(rows, columns, depth, layout, element, seed=seed, biased=True)
    its.check(half.partial_launches(tile._replace(stages=2), 1, its.problem, *its.arrays))


def test_sums_of_an_odd_number_of_columns_are_stored_in_pairs():
    """The last tile's first column is even, though b's rows may begin anywhere."""
    its = Product(70, 141, 72)
    its.check(half.partial_launches(partial_tile(1, 64, 3), 1, its.problem, *its.arrays))


def test_a_factor_that_is_aligned_may_be_copied_all_the_same():
    its, tile = Product(72, 64, 520), staged_config(1, 64, 1)  # 1,040 bytes a row
    launches = half.partial_launches(tile, 1, its.problem, *its.arrays, copied=(True, False))
    assert len(launches) == 2
    its.check(launches)
