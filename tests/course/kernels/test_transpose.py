"""Transposes that are no steps are right, and each side costs what a docstring says."""

import numpy as np
import pytest

from course import trace
from course.kernels.transpose import (
    TILE,
    copy,
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
