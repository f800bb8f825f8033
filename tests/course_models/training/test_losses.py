"""BCE and KL, summed in every way, against float64; their gradients; what is refused."""

import numpy as np
import pytest

from course import trace
from course_models.training import losses
from course_models.training.losses import LOSSES, TILE, bce_gradient, loss
from tests.course.kernels.launched import launched

ERRORS = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence"}


def given(name, shape, stored=np.float32, seed=1):
    rng = np.random.default_rng(seed)
    first = (3 * rng.standard_normal(shape)).astype(np.float32)
    second = rng.standard_normal(shape) if name == "kl" else rng.random(shape)
    return first, (second * 255).astype(np.uint8) if stored is np.uint8 else second.astype(stored)


def right(name, first, second):
    """Of each element, float64."""
    x, y = first.astype(float), second.astype(float)
    if name == "kl":
        return (x**2 + np.exp(y) - 1 - y) / 2
    y = y / 255 if second.dtype == np.uint8 else y
    return np.logaddexp(0, x) - x * y


def test_large_logits_are_finite():
    logits = np.array([1e4, -1e4, 88.5, -88.5, 0, 3e38], np.float32)
    for target in (0, 1):
        targets = np.full(6, target, np.float32)
        assert loss("bce", logits[:5], targets[:5]) == pytest.approx(
            right("bce", logits[:5], targets[:5]).sum(), rel=1e-6
        )
        found = bce_gradient(logits, targets)
        assert np.allclose(
            found, [1 - target, -target, 1 - target, -target, 0.5 - target, 1 - target]
        )


@pytest.mark.parametrize("stored", [np.float32, np.uint8])
def test_the_wide_gradient_of_bce_reads_and_writes_four_at_once(stored):
    logits, targets = given("bce", losses.THREADS * 4 + 6, stored)
    out = np.full(logits.size, np.nan, np.float32)
    scale = float(losses.OF_BYTE) if stored is np.uint8 else 1.0
    kernel = losses.bce_backward(scale, True)
    report = trace(kernel, 2, losses.THREADS, logits, targets, np.float32(1), out)
    assert not ERRORS & {finding.kind for finding in report.findings}
    assert not report.operations["float64"] and np.isfinite(out).all()
    full, last = losses.THREADS // 32 + 1, 2  # warps that store four at once; two numbers alone
    assert report.total("global", "store").requests <= full + last


def test_gradients_of_kl():
    mean, log_variance = given("kl", (13, 37))
    shapes = mean.shape, mean.shape
    by_mean, by_variance = launched(losses.kl_launches, (mean, log_variance), shapes, 0.25)
    assert np.allclose(by_mean, mean / 4)
    assert np.allclose(by_variance, (np.exp(log_variance.astype(float)) - 1) / 8, atol=1e-7)


def test_nothing_is_wrong_with_the_vectorised_step_which_reads_wide():
    first, second = given("bce", 2 * TILE + 8)
    partial = np.full(2, np.nan, np.float32)
    kernel = losses.vectorised(LOSSES["bce"], 1.0, True)
    report = trace(kernel, 2, losses.THREADS, first, second, partial)
    assert not ERRORS & {finding.kind for finding in report.findings}
    assert partial.sum() == pytest.approx(right("bce", first, second).sum(), rel=1e-5)
    wide = 2 * 2 * TILE // 4 // 32  # two arrays, two full tiles, four elements a lane
    last = 2 * 16  # warps whose lanes have one of the 8 elements behind, and their two arrays
    assert wide < report.total("global", "load").requests <= wide + last
