"""The drawings of lesson 13 show what they say."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyArrowPatch

from course_lessons.lesson13 import pictures
from tests.pictures import assert_drawn
from warpsim.draw.palette import GREEN, VERMILLION

# --- activations ----------------------------------------------------------------------------------


def test_the_curves_are_those_of_the_normal_distribution_and_of_tanh():
    x = np.array([-4.0, -1.0, 0.0, 1.0, 2.7])
    below = pictures.normal_below(x)
    assert below == pytest.approx([(1 + math.erf(v / math.sqrt(2))) / 2 for v in x], abs=1e-15)
    off = np.abs(pictures.gelu_by_tanh(x) - x * below)
    assert off.argmax() == 4
    assert off[4] == pytest.approx(4.7e-4, rel=0.02)
    assert_drawn(pictures.activation_curves(), "ReLU", "Swish", "GELU", "difference")


# --- transfers ------------------------------------------------------------------------------------


def test_transfers_are_arrows_and_counted():
    picture = pictures.transfers(
        {
            "apart": [("sigmoid", ["x"], "s"), ("multiply", ["x", "s"], "y")],
            "fused": [("Swish", ["x"], "y")],
        }
    )
    assert_drawn(picture, "apart: 5 transfers", "fused: 2 transfers", "device memory", "multiply")
    arrows = [p for p in picture.axes[0].patches if isinstance(p, FancyArrowPatch)]
    colours = [arrow.get_edgecolor() for arrow in arrows]
    assert colours.count(to_rgba(GREEN)) == 4
    assert colours.count(to_rgba(VERMILLION)) == 3


def test_transfers_of_nothing_are_refused():
    with pytest.raises(ValueError, match="empty"):
        pictures.transfers({})
