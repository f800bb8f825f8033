"""Transposes that are no steps are right, and each side costs what a docstring says."""

import numpy as np
import pytest

from course import trace
from course.heuristics.transpose import MatrixProblem, TileConfig, tile_for
from course.kernels.steps import ceil_div
from course.kernels.transpose import (
    TILE,
    copy,
    in_flight,
    transpose,
    transpose_padded,
    transpose_read_coalesced,
    transpose_tiled,
    transpose_write_coalesced,
)

SHAPES = [(1, 1), (3, 2), (13, 37), (37, 13), (64, 96), (1, 45), (33, 1)]


def launched(kernel, image, out, covers, block=(32, 8), tile=None):
    """Trace a kernel whose grid covers an array; out is poisoned before."""
    down, across = (-(-size // n) for size, n in zip(covers.shape, (tile or block)[::-1]))
    out[...] = np.nan
    report = trace(kernel, (across, down), block, out, image)
    assert not [finding for finding in report.findings if finding.is_error]
    return report


@pytest.mark.parametrize("block", [(32, 8), (5, 3)])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_copy_copies_and_both_naive_kernels_transpose_whatever_the_block(rng, shape, block):
    image = rng.random(shape, dtype=np.float32)
    out, same = np.empty(shape[::-1], np.float32), np.empty_like(image)
    launched(transpose_read_coalesced, image, out, image, block)
    assert np.array_equal(out, image.T)
    launched(transpose_write_coalesced, image, out, out, block)
    assert np.array_equal(out, image.T)
    launched(copy, image, same, image, block)
    assert np.array_equal(same, image)


@pytest.mark.parametrize(
    ("kernel", "loads", "stores"),
    [(copy, 4, 4), (transpose_read_coalesced, 4, 32), (transpose_write_coalesced, 32, 4)],
)
def test_each_side_costs_the_sectors_that_the_docstring_says(rng, kernel, loads, stores):
    image = rng.random((64, 96), dtype=np.float32)
    out = np.empty((64, 96) if kernel is copy else (96, 64), np.float32)
    covers = out if kernel is transpose_write_coalesced else image
    report = launched(kernel, image, out, covers)
    for op, expected in (("load", loads), ("store", stores)):
        total = report.total("global", op)
        assert total.requests == 64 * 96 // 32
        assert total.sectors == expected * total.requests
    text = " ".join(kernel.py_func.__doc__.split())
    assert f"loads {loads} sectors" in text
    assert f"stores {stores}" in text


@pytest.mark.parametrize(("kernel", "wavefronts"), [(transpose_tiled, 32), (transpose_padded, 1)])
def test_both_sides_are_in_order_and_padding_frees_the_banks(rng, kernel, wavefronts):
    image, out = rng.random((64, 96), dtype=np.float32), np.empty((96, 64), np.float32)
    report = launched(kernel, image, out, image, tile=(TILE, TILE))
    for operation in ("load", "store"):
        moved = report.total("global", operation)
        assert moved.sectors == 4 * moved.requests == 64 * 96 // 8
    column = report.total("shared", "load")
    assert column.wavefronts == wavefronts * column.requests
    row = report.total("shared", "store")
    assert row.wavefronts == row.requests


@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((3, 700), (4, 256)), ((700, 3), (256, 4)), ((7, 300), (8, 128)), ((300, 6), (128, 8)),
        ((13, 150), (16, 64)), ((150, 16), (64, 16)), ((40, 70), (16, 16)), ((190, 201), (32, 32)),
    ],
)  # fmt: skip
def test_tiles_are_as_thin_as_the_matrix(rng, shape, tile):
    config = tile_for(MatrixProblem(*shape))
    assert (config.high, config.wide) == tile
    image = rng.normal(0, 1, shape).astype(np.float32)
    assert np.array_equal(transpose(image), image.T)


def test_large_matrices_have_large_tiles_and_higher_ones_where_rows_begin_between_sectors(rng):
    for problem, tile in (
        (MatrixProblem(4096, 4096, 4, 4), (64, 64)), (MatrixProblem(4095, 4096, 4, 1), (128, 64)),
        (MatrixProblem(100, 20_000), (32, 64)), (MatrixProblem(500, 8000), (64, 64)),
    ):  # fmt: skip
        config = tile_for(problem)
        assert (config.high, config.wide) == tile
        reads, writes = problem.reads, problem.writes
        image = rng.normal(0, 1, (132, 68)).astype(np.float32)
        out = np.full(image.T.shape, np.nan, np.float32)
        grid = ceil_div(68, config.wide), ceil_div(132, config.high)
        in_flight(config, reads, writes)[grid, config.threads](out, image)
        assert np.array_equal(out, image.T)


def test_in_flight_asks_once_for_four_elements_a_lane(rng):
    image = rng.normal(0, 1, (64, 64)).astype(np.float32)
    requests = []
    for at_once in (4, 1):
        kernel = in_flight(TileConfig(64, 64), at_once, at_once)
        report = trace(kernel, 1, 256, np.empty_like(image), image)
        for op in ("load", "store"):
            total = report.total("global", op)
            assert total.sectors == image.nbytes / 32
            requests.append(total.requests)
    assert requests == [32, 32, 128, 128]
