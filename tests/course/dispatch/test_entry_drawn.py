"""Entry points and arrays as nobody lists them, drawn.

`tests.course.dispatch.drawn_arrays` says how.
"""

import numpy as np
import pytest

from course import backend
from course.images import images
from course.images.reading import ImageError
from course.kernels.reconstruct.ladder import reconstruct
from course.kernels.svd import rank_k
from course_app.kernels.resize import resized
from tests.course.dispatch.drawn_arrays import FRONTS, entries, problem

simulated = pytest.mark.skipif(backend.gpu() is not None, reason="looks into simulated memory")


@simulated
@pytest.mark.parametrize("seed", range(60))
def test_a_drawn_call_is_right_or_refused_in_a_sentence(seed):
    assert problem(seed) is None


@simulated
@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 250))
def test_many_drawn_calls_are_right_or_refused_in_a_sentence(first):
    assert not [told for seed in range(first, first + 250) if (told := problem(seed, long=True))]


def test_every_entry_point_is_drawn():
    assert entries().keys() == FRONTS.keys(), "say in drawn_arrays.py what a new one is given"


@pytest.mark.parametrize("number", [2.0, 2.5, True, np.True_, "2", None, [2], np.float32(2)])
def test_a_number_that_is_not_whole_is_refused_whatever_came_before(number):
    a, rng = np.eye(5, dtype=np.float32), np.random.default_rng(0)
    u, s, vt = a, np.ones(5, np.float32), a
    pixels = rng.integers(0, 9, (1, 4)).astype(np.uint8), np.array([[2, 2]], np.int32)
    for k in (1, 2, np.int64(2), np.uint8(2)):  # plans that equal numbers would find
        assert np.array_equal(reconstruct(u, s, vt, k), np.diag(np.arange(5) < k))
    for name, call in {
        "k": lambda: reconstruct(u, s, vt, number),
        "k ": lambda: rank_k(a, number),
        "power": lambda: rank_k(a, 2, power=number),
        "seed": lambda: rank_k(a, 2, seed=number),
        "rows": lambda: resized(*pixels, number, 2),
        "columns": lambda: resized(*pixels, 2, number),
    }.items():
        with pytest.raises(TypeError, match=f"^{name.strip()} is .*: give a whole number"):
            call()
    with pytest.raises(ImageError, match="k is .*; it must be a whole number from 1 to 5"):
        images.leading_svd(a, number)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (np.ma.masked_array(np.eye(9), np.eye(9) > 0), "is a masked array: fill what is masked"),
        (np.eye(9) * 1j, "holds complex128; it must hold real numbers"),
        (np.eye(9).astype("U9"), "holds <U9; it must hold real numbers"),
    ],
)
def test_images_that_are_no_plain_numbers_are_refused(image, words):
    for call in (
        lambda: images.svd(image), lambda: images.leading_svd(image, 2),
        lambda: images.psnr(image, np.eye(9)), lambda: images.ssim(np.eye(9), image),
    ):  # fmt: skip
        with pytest.raises(ImageError, match=words):
            call()
