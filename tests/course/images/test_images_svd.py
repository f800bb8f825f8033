"""The largest singular values and vectors of an image by its Gram matrix, beside NumPy's SVD."""

import numpy as np
import pytest

from course.images import images
from course.images.reading import ImageError

RNG = np.random.default_rng(11)
LOW = RNG.random((40, 3)) @ RNG.random((3, 56))  # of rank 3
IMAGES = {
    "tall": RNG.random((61, 24)),
    "wide": RNG.random((24, 61)),
    "square": RNG.random((32, 32)),
    "a row": RNG.random((1, 9)),
    "a column": RNG.random((9, 1)),
    "rank 3": LOW,
    "rank 3, tall": LOW.T,
    "flat": np.full((20, 30), 0.25),
    "zero": np.zeros((12, 10)),
    "an edge": np.tril(np.ones((30, 30))),
    "a photograph": images.photograph("camera", (96, 128)),
    "small numbers": 1e-6 * RNG.random((20, 20)),
}


@pytest.mark.parametrize("name", IMAGES)
def test_what_is_rebuilt_is_that_of_the_whole_svd(name):
    """To rounding of float32, for each k; also where the image has fewer values than that."""
    image = IMAGES[name].astype(np.float32)
    exact = images.svd(image)
    scale = float(np.abs(image).max()) or 1
    for k in range(1, min(image.shape) + 1, 1 + min(image.shape) // 24):
        u, s, vt = images.leading_svd(image, k)
        assert (u.shape, s.shape, vt.shape) == ((len(image), k), (k,), (k, image.shape[1]))
        assert u.dtype == s.dtype == vt.dtype == np.float32
        assert all(part.flags.c_contiguous for part in (u, s, vt))
        np.testing.assert_allclose(s, exact[1][:k], rtol=1e-6, atol=2e-7 * max(exact[1][0], 1e-30))
        gap = exact[1][k - 1] - exact[1][k] if k < len(exact[1]) else np.inf
        if gap > 1e-3 * exact[1][0] or k == min(image.shape):  # else neither choice is the one
            rebuilt, expected = (images.reconstruct(*of, k) for of in ((u, s, vt), exact))
            assert np.abs(rebuilt - expected).max() < 2e-6 * scale


def test_vectors_are_orthonormal_as_far_as_the_image_has_rank():
    for name in ("tall", "wide", "square", "a photograph"):
        u, _, vt = (part.astype(np.float64) for part in images.leading_svd(IMAGES[name], 8))
        assert np.abs(u.T @ u - np.eye(8)).max() < 1e-6
        assert np.abs(vt @ vt.T - np.eye(8)).max() < 1e-6


def test_of_nothing_the_values_are_zero_and_so_are_the_vectors_of_the_longer_side():
    u, s, vt = images.leading_svd(np.zeros((12, 10)), 4)
    assert not s.any() and not u.any() and np.isfinite(vt).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_is_refused(bad):
    image = np.zeros((9, 9))
    image[3, 4] = bad
    with pytest.raises(ImageError, match="holds NaN or infinite values: an SVD needs numbers"):
        images.leading_svd(image, 2)


def test_what_is_no_matrix_and_a_k_that_it_does_not_have_are_refused():
    with pytest.raises(ImageError, match=r"must be a matrix .* given shape \(3,\)"):
        images.leading_svd(np.zeros(3), 1)
    for k in (0, 6):
        with pytest.raises(ImageError, match=f"k is {k}; for an image of 5x7 it must be from 1 to"):
            images.leading_svd(np.zeros((5, 7)), k)
