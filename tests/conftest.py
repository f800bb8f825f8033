"""Fixtures of many tests."""

import numpy as np
import pytest


@pytest.fixture
def rng():
    return np.random.default_rng(12)


@pytest.fixture(scope="module")
def compiled_once():
    """Numba compiles a kernel and its device functions once for all targets of a file."""
    from course.compiler.together import compiled_together

    with compiled_together():
        yield
