"""Fixtures of many tests of the course's package."""

import numpy as np
import pytest

from course.compiler.together import compiled_together
from course.pipeline import grid
from tests.course.pipeline_parts import draw_quickly


@pytest.fixture
def rng():
    return np.random.default_rng(12)


@pytest.fixture
def quick_grid(monkeypatch):
    """The grid of pictures is not drawn."""
    monkeypatch.setattr(grid, "write_grid", draw_quickly)


@pytest.fixture(scope="module")
def compiled_once():
    """Numba meets a kernel and its device functions once for all targets of a file."""
    with compiled_together():
        yield


@pytest.fixture(scope="module")
def group():
    """Two workers without a GPU."""
    from course.cluster.group import cluster

    with cluster(2, gpus=False) as its:
        yield its
