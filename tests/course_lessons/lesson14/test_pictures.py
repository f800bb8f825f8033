"""The drawings of lesson 14 show what they say."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from course_lessons.lesson14 import pictures
from course_models.spectral.config import FusedConfig
from course_models.spectral.data import FAULTS, spectra
from tests.pictures import assert_drawn, picture_texts
from warpsim.draw.palette import VERMILLION

LAYERS = [("LayerNorm", 40_960, 512, 40_960), ("Linear", 40_960, 16_640, 40_960)]


def some_spectra():
    return {name: (spectra(1, 4, name)[0], spectra(1, 5)[0]) for name in FAULTS}


def some_scores():
    rng = np.random.default_rng(1)
    return rng.random(50) + 0.1, {name: rng.random(20) + 0.5 for name in FAULTS}


@pytest.mark.parametrize(
    "draw",
    [
        lambda: pictures.rebuilt_spectra(some_spectra()),
        lambda: pictures.scores(*some_scores()),
        lambda: pictures.traffic({"layers": LAYERS, "fused": LAYERS[:1]}),
        lambda: pictures.warps(FusedConfig(4, 8)),
        lambda: pictures.warps(FusedConfig(1, 2)),
    ],
)
def test_a_picture_fits_a_notebook_and_is_not_blank(draw):
    assert_drawn(draw(), most_bytes=60_000)


def test_spectra_are_drawn_given_rebuilt_and_their_difference():
    given, rebuilt = spectra(2, 3)
    panels = pictures.rebuilt_spectra({"healthy": (given, rebuilt)}).axes
    shown = [np.asarray(axes.images[0].get_array()) for axes in panels]
    low, high = panels[2].images[0].get_clim()
    assert low == -high  # the middle of the colours is no difference
    assert panels[0].images[0].get_clim() == panels[1].images[0].get_clim()
    for panel, values in zip(shown, (given, rebuilt, given - rebuilt), strict=True):
        np.testing.assert_array_equal(panel, values.reshape(5, 64))


def test_a_roc_curve_goes_through_the_shares_above_each_limit():
    sound, faulty = np.array([1.0, 2.0, 3.0, 4.0]), {"whistle": np.array([2.5, 5.0])}
    curve = pictures.scores(sound, faulty).axes[1].lines[0]
    points = set(zip(*curve.get_data(), strict=True))
    assert points == {(0, 0), (0, 0.5), (0.25, 0.5), (0.5, 0.5), (0.5, 1), (0.75, 1), (1, 1)}


def test_bars_are_as_long_as_the_bytes_and_programs_say_their_sums():
    picture = pictures.traffic({"layers": LAYERS, "fused": LAYERS[:1]})
    bars = [patch.get_width() for patch in picture.axes[0].patches]
    assert sum(bars) == pytest.approx((2 * 82_432 + 98_560) / 1e3)
    shown = "\n".join(picture_texts(picture))
    assert "layers: 2 launches, 181 kB" in shown and "fused: 1 launch, 82 kB" in shown


@pytest.mark.parametrize(
    "shape", [FusedConfig(4, 8), FusedConfig(2, 4), FusedConfig(1, 2)], ids=str
)
def test_the_marked_lane_has_as_many_results_as_the_shape_says(shape):
    picture = pictures.warps(shape)
    marked = [
        patch for patch in picture.axes[0].patches if patch.get_facecolor() == to_rgba(VERMILLION)
    ]
    wide = sum(patch.get_width() for patch in marked) / (3.25 / 64)
    assert wide == pytest.approx(shape.samples * shape.columns)
    assert f"a tile of {shape.tile} spectr" in "\n".join(picture_texts(picture))
