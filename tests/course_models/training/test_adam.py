"""A step of Adam against float64, several of them, in place, and what is refused."""

import numpy as np
import pytest

from course import cuda
from course_models.training.adam import LADDER, corrections
from course_models.vae import reference
from tests.course.kernels.launched import launched


def given(size, seed=1):
    rng = np.random.default_rng(seed)
    p, g, m = rng.standard_normal((3, size)).astype(np.float32)
    return p, 1e-3 * g, 1e-3 * m, (1e-6 * rng.random(size)).astype(np.float32)


def adam(*arrays, method="wide"):
    """Parameters and moments after a step."""
    return launched(LADDER.launches, arrays, [arrays[0].shape] * 3, method=method)


def test_five_steps_are_those_of_float64():
    size = 257
    p, _, m, v = given(size)
    wide = [{"p": its.astype(float)} for its in (p, m, v)]
    before = p.copy()
    for step in range(1, 6):
        g = given(size, step)[1]
        reference.adam(*wide, {"p": g.astype(float)}, step, 1e-3)
        p, m, v = adam(p, g, m, v, corrections(step))
    assert np.abs(p - wide[0]["p"]).max() < 1e-6 < 1e-4 < np.abs(p - before).max()
    for found, right in zip((m, v), wide[1:], strict=True):
        assert np.abs(found - right["p"]).max() < 3e-6 * np.abs(right["p"]).max()


def test_the_first_step_is_the_rate_whatever_the_gradient():
    g = np.array([1e-3, -5.0, 1e-5], np.float32)
    zero = np.zeros(3, np.float32)
    p, _, _ = adam(zero, g, zero, zero, corrections(1, 0.01))
    assert np.allclose(p, [-0.01, 0.01, -0.01], rtol=2e-3)
    right = -0.01 * np.abs(g) / (np.abs(g) + 1e-8) * np.sign(g)
    assert np.abs(p / right - 1).max() < 1e-6


def test_corrections_keep_their_digits():
    assert corrections(1)[1] == np.float32(1000) and corrections(10**6)[1] == 1
    in_float32 = 1 / (np.float32(1) - np.float32(0.999))
    assert abs(in_float32 / 1000 - 1) > 1e-5  # which is why
    with pytest.raises(ValueError, match="step is 0"):
        corrections(0)


def test_it_works_in_place():
    arrays = given(2051)
    right = adam(*arrays, corrections(3))
    p, g, m, v = (cuda.to_device(array) for array in arrays)
    corrected = cuda.to_device(corrections(3))
    for launch in LADDER.launches(p, g, m, v, corrected, p, m, v):
        launch.on()
    for found, its in zip((p, m, v), right, strict=True):
        assert np.array_equal(found.copy_to_host(), its)
