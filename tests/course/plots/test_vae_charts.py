"""Pictures of a VAE: what they show, and what they refuse."""

import numpy as np
import pytest

from course import plots
from course.plots import vae_charts
from tests.pictures import assert_drawn, picture_texts


@pytest.fixture
def digits():
    return np.random.default_rng(1).random((23, 9), np.float32)


def test_the_loss_has_a_mean_for_each_epoch():
    picture = plots.loss_curve([9.0, 7.0, 5.0, 3.0, 2.0], 2)
    assert_drawn(picture, "epoch", "BCE + KL of an image [nats]", "2 at the end")
    steps, means = picture.axes[0].lines
    assert [*steps.get_xdata()] == [0.25, 0.75, 1.25, 1.75, 2.25]
    assert [*means.get_xdata()] == [0.5, 1.5, 2.5] and [*means.get_ydata()] == [8, 4, 2]
    with pytest.raises(ValueError, match="no loss to draw"):
        plots.loss_curve([], 2)


def test_originals_are_above_what_is_rebuilt_with_dark_ink(digits):
    picture = plots.rebuilt_digits(digits, digits[::-1])
    assert_drawn(picture, "given", "rebuilt")
    assert len(picture.axes) == 60 and picture_texts(picture).count("rebuilt") == 3
    shown = [axes.images[0].get_array() for axes in picture.axes]
    assert np.allclose(shown[3], 1 - digits[3].reshape(3, 3))
    assert np.allclose(shown[13], 1 - digits[19].reshape(3, 3))


def test_samples_and_a_walk_are_grids(digits):
    assert_drawn(plots.digit_grid(digits))
    assert_drawn(plots.digit_grid(digits[:1]))
    walk = plots.digit_walk(digits[:11], "3", "8")
    assert_drawn(walk, "3", "50%", "8")
    assert "3 turns into 8" in walk.alternative


def test_a_code_of_two_numbers_is_its_own_plane():
    codes = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 0.0]])
    points, names = vae_charts.on_a_plane(codes)
    assert points is codes and names[0].startswith("first number")
    assert_drawn(plots.code_plane(codes, np.array([7, 7, 2])), "second number of the code", "7")


def test_longer_codes_lie_on_the_plane_on_which_they_are_farthest_apart():
    rng = np.random.default_rng(2)
    codes = rng.standard_normal((500, 4)) * [1, 9, 0.1, 3]
    points, names = vae_charts.on_a_plane(codes)
    assert abs(np.corrcoef(points[:, 0], codes[:, 1])[0, 1]) > 0.99
    assert abs(np.corrcoef(points[:, 1], codes[:, 3])[0, 1]) > 0.99
    assert "89% of the variance" in names[0] or "88%" in names[0] or "90%" in names[0]
    picture = plots.code_plane(codes, np.arange(500) % 10)
    assert_drawn(picture, *names, *map(str, range(10)))
    assert picture_texts(picture).count("7") == 1  # its mean; points are markers


def test_codes_that_are_all_one_lie_on_a_plane():
    points, names = vae_charts.on_a_plane(np.ones((4, 3), np.float32))
    assert not points.any() and all("(0% of" in name for name in names)


def test_what_has_no_picture_is_refused(digits):
    with pytest.raises(ValueError, match=r"\(23, 8\); .* square number of pixels"):
        plots.digit_grid(digits[:, :8])
    with pytest.raises(ValueError, match="a plane needs two"):
        plots.code_plane(np.zeros((5, 1)), np.zeros(5, int))
