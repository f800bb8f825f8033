"""What is chosen for products of 16 bits: tiles, splits, copies, pairs."""

import numpy as np
import pytest

from course.heuristics import gemm
from course.heuristics.gemm import GemmConfig, config_for

LAYOUTS = ("nn", "nt", "tn")


def test_a_product_takes_the_tile_that_fills_the_last_wave():
    few, eight, many = (config_for("nt", rows, 768, 768, 132)[0] for rows in (197, 1576, 12608))
    assert (few.rows, few.columns, few.waves) == (64, 64, 1)
    assert (eight.rows, eight.columns, eight.waves) == (64, 160, 1)  # 125 tiles
    assert (many.rows, many.columns, many.waves) == (128, 192, 3)  # 396 tiles: three waves
    assert config_for("nt", 197, 768, 3072, 132) == (GemmConfig(1, 64, 8, 1), 2)  # 48 tiles
    assert config_for("nt", 1576, 768, 3072, 132) == (GemmConfig(1, 160, 8, 1), 1)  # 125 tiles
    assert config_for("nt", 4096, 4096, 4096, 132) == (GemmConfig(2, 256, 3), 1)
    assert all(
        config_for("nn", rows, 760, 768, 132)[0].columns % 64 == 0 for rows in (8, 197, 5000)
    )


@pytest.mark.parametrize("seed", range(3))
def test_any_size_has_a_plan_that_can_be_launched(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        rows, columns, depth = (int(np.exp(rng.uniform(0, 11.5))) for _ in range(3))
        aligned = tuple(bool(rng.integers(2)) for _ in range(3))
        layout = str(rng.choice(list(LAYOUTS)))
        sizes = gemm.Sizes(layout, rows, columns, depth, 132, aligned)
        for plan in (gemm.thin_plan(sizes), gemm.partial_plan(sizes)):
            if plan.method == "thin":
                assert 1 <= plan.splits <= -(-depth // gemm.CHUNK)
            else:
                assert 1 <= plan.splits <= -(-depth // 64) and plan.config.stages >= 3
                assert plan.config.shared <= gemm.SHARED_LIMIT


def test_what_is_thin_or_unaligned_takes_another_way_than_what_is_neither():
    def plan(*sizes, aligned=(True, True, True)):
        methods = ("thin", "partial") + ("stored",) * all(aligned)
        return gemm.plan_for(gemm.Sizes(*sizes, 132, aligned), methods)

    assert plan("nt", 12608, 3072, 768).method == "roles"
    shared = plan("nt", 197, 768, 3072)
    assert shared.splits > 1 and not shared.config.partial
    assert plan("nn", 49, 536, 912).method != "thin"  # its warps would fill the GPU
    assert plan("nn", 65, 13536, 16608).config.swapped  # memory's time is the longer one
    assert plan("tn", 8, 6351, 14928, aligned=(True, False, False)).method == "thin"
    assert plan("nt", 9000, 16, 400).config.columns == 144  # 63 tiles: two launches fit at once
    copied = plan("nn", 4636, 3472, 4961, aligned=(False, True, True))
    assert copied.method == "partial" and copied.copied == (True, False)


def test_rows_that_begin_anywhere_are_stored_by_threads_and_read_in_pairs_where_it_pays():
    def plan(*sizes, aligned):
        return gemm.partial_plan(gemm.Sizes(*sizes, 132, aligned))

    anywhere = plan("tn", 2928, 2195, 608, aligned=(True, False, False))
    assert anywhere.config.by_threads and anywhere.splits == 1
    assert plan("tn", 344, 5784, 17728, aligned=(True, True, True)).config.paired  # of 688 bytes
    assert plan("nn", 4343, 24, 304, aligned=(True, True, True)).config.paired  # rows of 48 bytes
    assert not plan("nt", 12608, 3072, 768, aligned=(True, True, True)).config.paired


def test_short_sides_are_cut_in_parts_that_leave_little_empty():
    """On an H200 these took .55, .60 and .71 of cuBLAS's speed in tiles of 128 x 192."""
    sides = (4032, 264, 13360, "nn"), (280, 15368, 8264, "tn"), (520, 6856, 44801, "tn")
    for *sizes, layout in sides:
        aligned = (True, True, True)
        config = gemm.partial_plan(gemm.Sizes(layout, *sizes, 132, aligned)).config
        short = min(sizes[:2])
        assert -(-short // config.columns) * config.columns < 1.1 * short and config.paired


def test_a_long_result_of_eight_rows_is_not_stored_in_whole_tiles():
    """On an H200 these took 1.4 to 1.7 times what tiles take elsewhere (8x5128x1264: 10.3 us)."""
    for *sizes, layout in (8, 5128, 1264, "nn"), (12927, 8, 384, "nn"), (8, 10880, 114, "tn"):
        plan = gemm.plan_for(gemm.Sizes(layout, *sizes, 132, (True,) * 3), ("thin", "partial"))
        assert plan.method == "thin" or plan.config.partial
