"""R by a Gram matrix in float64: as right as by reflections, which take what is ill-conditioned."""

import numpy as np
import pytest

import course.kernels.svd as package
from course import gpu
from course.heuristics import svd as heuristics
from course.kernels.svd import gram, registers, svd
from tests.course.kernels.svd_samples import ORTHOGONAL, assert_right, errors, normal, same


def by_gram(a, k=None):
    return package._at_once(a, k, "gram", None)


@pytest.mark.drawn(3)
def test_drawn_tall_and_wide_matrices(rng):
    columns = int(rng.integers(1, 45))
    rows = columns + int(rng.integers(8, 60))
    a = normal(rng, 2, rows, columns)
    given = a, a.swapaxes(1, 2), np.ascontiguousarray(a.swapaxes(1, 2)), a[:, ::-1]
    a = given[rng.integers(4)]
    factors = by_gram(a)
    assert_right(a, factors)
    assert max(errors(a, factors)) <= 0.7 * ORTHOGONAL
    k = int(rng.integers(1, columns + 1))
    assert same([x[:, :k] for x in by_gram(a, k)[1:]], [x[:, :k] for x in factors[1:]])


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e30])
def test_any_scale(rng, scale):
    a = normal(rng, 1, 30, 10) * np.float32(scale)
    assert_right(a, by_gram(a))


def test_what_is_ill_conditioned_goes_to_reflections(rng):
    a = normal(rng, 3, 40, 9)
    a[1, :, 4] = a[1, :, 3]
    assert same(by_gram(a), svd(a, method="registers"))
    a[1, :, 4] += 1e-3 * normal(rng, 40)
    assert not same(by_gram(a), svd(a, method="registers"))
    assert_right(a, by_gram(a))
    a[2, 5, 5] = np.nan
    with pytest.raises(ValueError, match=r"a\[2\] holds NaN"):
        by_gram(a)


def test_tall_matrices_take_it_where_float64_is_fast(rng, monkeypatch):
    a = normal(rng, 1, 300, 12)
    assert not same(by_gram(a), svd(a))  # a Tesla T4
    device = package.cuda.get_current_device()
    assert not heuristics.is_tall(a.shape)
    monkeypatch.setattr(heuristics, "FAST_FLOAT64", (tuple(device.compute_capability),))
    assert heuristics.is_tall(a.shape) and not heuristics.is_tall((40, 47))
    assert same(by_gram(a), svd(a))


@pytest.mark.gpu
@pytest.mark.skipif(gpu() is None, reason="many matrices take a GPU")
@pytest.mark.parametrize("size", registers.SIZES)
def test_many_matrices(rng, size):
    for batch, longer in ((3, 900), (300, 20)):
        a = normal(rng, batch, size + longer, size - 1)
        assert_right(a, by_gram(a))
        assert_right(a.swapaxes(1, 2), by_gram(a.swapaxes(1, 2)))


def test_every_size_has_its_kernels():
    assert set(gram.GRAM) == set(gram.ELIMINATE) == set(gram.PRODUCT) == set(registers.SVD)
