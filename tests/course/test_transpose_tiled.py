"""The tiled transposes are right for every shape, and cost what their docstrings say."""

import numpy as np
import pytest

from course.kernels import transpose
from warpsim import trace

KERNELS = {"tiled": transpose.transpose_tiled, "padded": transpose.transpose_padded}


def traced(kernel, rows, columns):
    image = np.random.default_rng(5).random((rows, columns), dtype=np.float32)
    out = np.full((columns, rows), np.nan, np.float32)
    grid = -(-columns // transpose.TILE), -(-rows // transpose.TILE)
    report = trace(kernel, grid, transpose.BLOCK, out, image)
    assert np.array_equal(out, image.T)
    return report


@pytest.mark.parametrize(("name", "wavefronts"), [("tiled", 32), ("padded", 1)])
def test_both_sides_are_in_order_and_padding_frees_the_banks(name, wavefronts):
    report = traced(KERNELS[name], 64, 96)
    for operation in ("load", "store"):
        moved = report.total("global", operation)
        assert moved.sectors == 4 * moved.requests == 64 * 96 // 8
    column = report.total("shared", "load")
    assert column.wavefronts == wavefronts * column.requests
    row = report.total("shared", "store")
    assert row.wavefronts == row.requests
