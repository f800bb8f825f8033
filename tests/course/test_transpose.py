"""The transposes are right for every shape, and each has the side in order that it says."""

import numpy as np
import pytest

from course import trace
from course.kernels.transpose import (
    copy,
    transpose_read_coalesced,
    transpose_write_coalesced,
)

SHAPES = [(1, 1), (3, 2), (13, 37), (37, 13), (64, 96), (1, 45), (33, 1)]


def launched(kernel, image, out, covers, block=(32, 8)):
    """Trace a kernel whose grid covers an array; out is poisoned before."""
    rows, columns = covers.shape
    grid = -(-columns // block[0]), -(-rows // block[1])
    out[...] = np.nan
    report = trace(kernel, grid, block, out, image)
    assert not [finding for finding in report.findings if finding.is_error]
    return report


@pytest.mark.parametrize("block", [(32, 8), (16, 16), (5, 3)])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_naive_transposes_transpose(rng, shape, block):
    image = rng.random(shape, dtype=np.float32)
    out = np.empty(shape[::-1], np.float32)
    launched(transpose_read_coalesced, image, out, image, block)
    assert np.array_equal(out, image.T)
    launched(transpose_write_coalesced, image, out, out, block)
    assert np.array_equal(out, image.T)


@pytest.mark.parametrize("shape", SHAPES)
def test_copy_copies(rng, shape):
    image = rng.random(shape, dtype=np.float32)
    out = np.empty_like(image)
    launched(copy, image, out, image)
    assert np.array_equal(out, image)


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
