"""What is special about LayerNorm's steps: means far from zero, sums of 16 bits, mixed types."""

import numpy as np
import pytest

from course.heuristics.norm import REGISTERS_AND_SHARED
from course.images import images
from course.kernels.norm.ladder import LADDER, layer_norm
from tests.course.kernels.cases.norm import right
from tests.course.kernels.contract import checked, typed

ELSEWHERE = (REGISTERS_AND_SHARED, "clusters", "half", "squares")  # need another GPU, or other rows
GOOD = [name for name in LADDER if name not in ELSEWHERE]


def exact(x, eps=0.0):
    return right({"x": x.astype(np.float64), "gamma": 1.0, "beta": 0.0}, eps)[0].values


@pytest.mark.parametrize("method", GOOD)
def test_a_constant_row_is_beta_and_a_large_single_number_too(rng, method):
    beta = rng.standard_normal(45).astype(np.float32)
    x = np.full((2, 45), 7, np.float32)
    assert np.array_equal(layer_norm(x, None, beta, method=method), [beta, beta])
    assert layer_norm(np.full((1, 1), 1e30, np.float32), method=method) == 0


def variance_error(method, x):
    """Largest relative error of the scale, from a result without gamma and beta."""
    result, expected = layer_norm(x, eps=0.0, method=method), exact(x)
    return np.linalg.norm(result - expected) / np.linalg.norm(expected)


def test_mean_of_squares_minus_square_of_mean_loses_air_pressure(rng):
    pascal = (101_325 + 30 * rng.standard_normal((8, 256))).astype(np.float32)
    assert not variance_error("squares", pascal) < 0.1  # NaN: a variance came out below zero
    for method in GOOD:
        # sums of 256 such numbers are rounded to 2 Pa, of which the mean keeps up to 1/30 in 30 Pa
        assert variance_error(method, pascal) < 2e-3


def test_it_loses_digits_of_a_photo_that_the_others_keep():
    photo = images.photograph("camera", 256)
    even = np.argsort(photo.std(1))[:8]  # rows of sky
    x = np.ascontiguousarray(photo[even], np.float32)
    assert variance_error("squares", x) > 1e-4
    for method in GOOD:
        assert variance_error(method, x) < 2e-5


def test_one_pass_survives_an_outlier_that_a_shift_by_the_first_number_does_not(rng):
    x = rng.standard_normal((1, 1024)).astype(np.float32)
    x[0, 0] = 1e4
    shifted = x - x[0, 0]
    variance = (shifted**2).mean(dtype=np.float32) - shifted.mean(dtype=np.float32) ** 2
    exact = x.astype(np.float64).var()
    assert abs(variance / exact - 1) > 3e-5
    for method in GOOD:
        assert variance_error(method, x) < 3e-6


def test_sums_of_float16_rows_neither_overflow_nor_lose_digits(rng):
    x = (20_000 + 30 * rng.standard_normal((2, 768))).astype(np.float16)
    with np.errstate(over="ignore"):
        assert not np.isfinite(x.sum(1, dtype=np.float16)).any()
    checked("layer_norm", x=x, gamma=np.ones(768, np.float16), beta=np.zeros(768, np.float16))


@pytest.mark.usefixtures("h200")
@pytest.mark.parametrize(("of_x", "of_factors", "columns"), [
    ("float16", "float32", 40), ("bfloat16", "float32", 40), ("float32", "float16", 40),
    ("float32", "float16", 8193), ("float32", "bfloat16", 8193),  # copied four times
])  # fmt: skip
def test_factors_may_be_of_another_type(rng, of_x, of_factors, columns):
    x = typed(rng.standard_normal((3, columns)), of_x)
    gamma, beta = (typed(rng.standard_normal(columns), of_factors) for _ in range(2))
    found = checked("layer_norm", x=x, gamma=gamma, beta=beta)
    assert found.dtype == x.dtype
