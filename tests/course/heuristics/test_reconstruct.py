"""Which step rebuilds an image, and with which tiles."""

import pytest

from course import gpu
from course.heuristics.reconstruct import (
    WARPGROUP_CONFIGS,
    ImageProblem,
    best_step,
    config_for,
    tile_for,
)
from course.kernels.reconstruct import LADDER
from warpsim.host import gpus


@pytest.mark.skipif(gpu() is not None, reason="names a GPU that is not there")
@pytest.mark.parametrize(
    ("card", "work", "chosen"),
    [
        ("H200", (4096, 4096, 1024), "warpgroups"), ("H200", (1024, 1024, 256), "warpgroups"),
        ("H200", (4096, 4096, 60), "warpgroups"), ("A100", (4096, 4096, 1024), "tensor cores"),
        ("H200", (4096, 4096, 20), "warp tiles"), ("H200", (1414, 1080, 56), "warp tiles"),
        ("H200", (256, 256, 50, 1000), "tensor cores"), ("H200", (256, 935, 163), "warp per tile"),
        ("H200", (256, 256, 36, 1000), "tensor cores"),
        ("H200", (256, 254, 80, 9), "warp per tile"), ("H200", (256, 256, 60, 1000), "warp tiles"),
        ("H200", (277, 336, 81, 8), "warp per tile"),
        ("H200", (171, 345, 32, 24), "warp per tile"), ("H200", (32, 4096, 20), "warp per tile"),
        ("H200", (82, 82, 32, 65536), "warp per tile"), ("H200", (24, 30, 2), "warp per tile"),
        ("H200", (1120, 2913, 5), "warp per tile"), ("Tesla T4", (1024, 1024, 50), "warp tiles"),
        ("Tesla T4", (4096, 4096, 1024), "tensor cores"),
        ("Tesla T4", (256, 256, 50, 1000), "warp tiles"),
    ],
)  # fmt: skip
def test_the_step_is_chosen_by_shape_and_gpu(monkeypatch, card, work, chosen):
    monkeypatch.setattr(gpus, "_chosen", gpus.find(card))
    monkeypatch.setattr("course.heuristics.reconstruct.gpu", lambda: card)
    assert LADDER.choose("auto", ImageProblem.of_shape(*work))[0] == chosen


@pytest.mark.skipif(gpu() is not None, reason="names a GPU that is not there")
@pytest.mark.parametrize("work", [(384, 421, 171, 21), (184, 498, 101, 192), (183, 480, 136, 8)])
def test_cublas_takes_stacks_whose_rows_begin_anywhere(monkeypatch, blas, work):
    monkeypatch.setattr(gpus, "_chosen", gpus.find("H200"))
    monkeypatch.setattr("course.heuristics.reconstruct.gpu", lambda: "H200")
    problem = ImageProblem.of_shape(*work)
    assert LADDER.choose("auto", problem)[0] == best_step(problem) == "library"
    others = LADDER.choose("auto", problem._replace(in_rows=False))[0]
    assert others == "warp per tile"
    monkeypatch.setattr("course.kernels.gemm.library.cublas", lambda: None)
    assert LADDER.choose("auto", problem)[0] == others  # nothing here loads cuBLAS


def test_images_take_the_tile_that_fills_the_last_wave():
    chosen = [config_for(side, side, 1024, 132) for side in (8192, 4096, 1024)]
    assert chosen == list(WARPGROUP_CONFIGS)  # 21 waves of 192 columns, or 32 of 128; 6, or 8; 1


def test_the_tile_follows_from_the_shape():
    assert tile_for(16, 16, 1, 4000, True, 132).lanes == 16
    assert tile_for(1120, 2913, 5, 1, False, 132).rows >= 8
    assert tile_for(4096, 4096, 8, 1, True, 132).wide
    assert not tile_for(4096, 4095, 8, 1, False, 132).wide
    shared = [tile_for(256, 935, 163, images, False, 132).shared for images in (0, 1)]
    assert shared == [True, False]  # never in a stack
