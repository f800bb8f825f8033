"""BCE and KL, summed in every way, against float64; their gradients; what is refused."""

import numpy as np
import pytest

from course import cuda, trace
from course.kernels import losses
from course.kernels.losses import (
    BACKWARD,
    LADDER,
    LOSSES,
    TILE,
    bce_gradient,
    loss,
)
from tests.course.launched import launched

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


@pytest.mark.parametrize("size", [1, 31, 257, 2049, TILE, 3 * TILE + 5])
@pytest.mark.parametrize(
    "name, stored", [("bce", np.float32), ("bce", np.uint8), ("kl", np.float32)]
)
@pytest.mark.parametrize("method", LADDER)
def test_every_way_gives_the_sum(method, name, stored, size):
    first, second = given(name, size, stored)
    wanted = right(name, first, second).sum()
    limit = 1e-5 if method == "atomics" else 2e-6  # one by one, each addition rounds a large sum
    assert abs(loss(name, first, second, method=method) - wanted) < limit * abs(wanted) + 1e-6


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


def test_slices_that_begin_in_between_and_no_elements():
    first, second = given("bce", 2 * TILE + 3)
    there = cuda.to_device(first)[1:], cuda.to_device(second)[1:]
    wanted = right("bce", first[1:], second[1:]).sum()
    assert loss("bce", *there) == pytest.approx(wanted, rel=1e-6)
    assert loss("kl", first[:0], second[:0]) == 0


@pytest.mark.parametrize("method", BACKWARD)
@pytest.mark.parametrize("stored", [np.float32, np.uint8])
def test_gradients_of_bce_are_sigmoid_less_target(stored, method):
    logits, targets = given("bce", (13, 37), stored)
    x = targets / 255 if stored is np.uint8 else targets
    wanted = (1 / (1 + np.exp(-logits.astype(float))) - x) / 128
    assert np.abs(bce_gradient(logits, targets, 1 / 128, method=method) - wanted).max() < 2e-9


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


@pytest.mark.parametrize("method", [name for name in LADDER if name != "vectorised"])
def test_nothing_is_wrong_with_a_step(method):
    make, tile = LADDER[method]
    first, second = given("bce", tile + 7)
    out = np.zeros(1, np.float32)
    report = trace(make(LOSSES["bce"], 1.0), 2, losses.THREADS, first, second, out)
    assert not ERRORS & {finding.kind for finding in report.findings}
    assert not report.operations["float64"]


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


@pytest.mark.parametrize(
    "arguments, kind, words",
    [
        (("mse", np.zeros(3, np.float32), np.zeros(3, np.float32)), ValueError, "no loss 'mse'"),
        (("bce", np.zeros(3), np.zeros(3, np.float32)), TypeError, "logits holds float64"),
        (("bce", np.zeros(3, np.float32), np.zeros(3, np.int8)), TypeError, "float32 or uint8"),
        (("kl", np.zeros(3, np.float32), np.zeros(3, np.uint8)), TypeError, "log_variance holds"),
        (("kl", np.zeros(3, np.float32), np.zeros(4, np.float32)), ValueError, "that of mean"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, kind, words):
    with pytest.raises(kind, match=words):
        loss(*arguments)
    with pytest.raises(ValueError, match="no method 'tree'"):
        bce_gradient(np.zeros(3, np.float32), np.zeros(3, np.float32), method="tree")
    with pytest.raises(ValueError, match="no method 'fast'"):
        loss("kl", np.zeros(3, np.float32), np.zeros(3, np.float32), method="fast")
