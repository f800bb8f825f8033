"""Numbers without a state: those of NumPy's Philox, on any grid; z and its gradient."""

import numpy as np
import pytest

from course import cuda, trace
from course_models.training import rng as sampling
from course_models.training.rng import reparameterise
from course_models.vae import reference
from tests.course.kernels.launched import launched

ERRORS = {"race", "out-of-bounds", "uninitialised-read", "barrier-divergence"}


def given(shape, seed=1):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((2, *shape)).astype(np.float32)


@cuda.jit
def bits_of(seed, step, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        a, b, c, d = sampling.philox(i, step, seed)
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = a, b, c, d


@pytest.mark.parametrize("seed, step", [(0, 0), (7, 3), (2**40 + 5, 2**31 - 1), (2**63 - 1, 1)])
def test_bits_are_numpys(seed, step):
    out = cuda.to_device(np.zeros((70, 4), np.uint64))
    bits_of[3, 32](seed, step, out)
    right = np.stack(reference.philox(np.arange(70), step, seed), axis=1)
    assert np.array_equal(out.copy_to_host(), right)


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (128, 20), (3, 2049)])
def test_a_sample_is_mean_and_deviation_times_the_references_noise(shape):
    mean, log_variance = given(shape)
    z, noise = reparameterise(mean, log_variance, np.array([2**35 + 1, 17]))
    right = reference.noise(*shape, 17, 2**35 + 1)
    assert z.dtype == noise.dtype == np.float32 and z.shape == shape
    assert np.abs(noise - right).max() < 2e-5
    right = mean + np.exp(log_variance.astype(float) / 2) * noise
    assert np.abs(z - right).max() < 1e-5


def test_another_step_or_seed_gives_other_numbers():
    mean, log_variance = given((40, 50))
    one, two, three = (
        reparameterise(mean, log_variance, np.array(counter))[1].ravel()
        for counter in ([3, 1], [3, 2], [4, 1])
    )
    for other in (two, three):
        assert abs(np.corrcoef(one, other)[0, 1]) < 0.08


def test_the_gradient_is_that_of_differences():
    (_, log_variance), (grad, noise) = given((9, 5)), given((9, 5), 2)
    given_arrays = grad, log_variance, noise
    (found,) = launched(sampling.gradient_launches, given_arrays, [grad.shape])
    wide = log_variance.astype(float)
    sides = (np.exp((wide + step) / 2) * noise for step in (1e-6, -1e-6))
    right = grad * (next(sides) - next(sides)) / 2e-6
    assert np.abs(found - right).max() < 1e-5


def test_nothing_is_read_twice_and_nothing_is_wrong():
    mean, log_variance = (its.ravel() for its in given((37, 11)))
    z, noise = np.full((2, mean.size), np.nan, np.float32)
    report = trace(
        sampling.sample, 2, sampling.THREADS, mean, log_variance, np.array([1, 2]), z, noise
    )
    assert not ERRORS & {finding.kind for finding in report.findings}
    assert report.total("global", "store").bytes == 8 * mean.size
    assert not report.operations["float64"]
    assert not np.isnan(z).any() and not np.isnan(noise).any()


@pytest.mark.parametrize(
    "change, kind, words",
    [
        ({"counter": np.array([1, 2], np.int32)}, TypeError, "counter is int32"),
        ({"counter": np.array([1, 2, 3])}, TypeError, r"shape \(3,\); it must be int64, \(2,\)"),
        ({"log_variance": np.zeros((2, 4), np.float32)}, ValueError, "that of mean, "),
        ({"mean": np.zeros((2, 3))}, TypeError, "mean holds float64"),
        ({"mean": None}, TypeError, "mean is None"),
    ],
)
def test_what_does_not_fit_is_refused(change, kind, words):
    arrays = {name: np.zeros((2, 3), np.float32) for name in ("mean", "log_variance")}
    with pytest.raises(kind, match=words):
        reparameterise(**(arrays | {"counter": np.array([1, 2])} | change))
