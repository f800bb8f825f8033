"""The drawings of lesson 12 show what they say."""

import io
import math

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyArrowPatch
from PIL import Image

from course import reduction_pictures as pictures
from course.plots import GREEN, VERMILLION


def texts(picture):
    return [
        text.get_text() for text in picture.findobj(match=lambda part: hasattr(part, "get_text"))
    ]


def assert_drawn(picture, *words):
    found = "\n".join(texts(picture))
    for word in words:
        assert word in found
    pixels = np.asarray(Image.open(io.BytesIO(picture.png())).convert("RGB"))
    assert pixels.shape[1] <= 900
    assert pixels.min() < 60 < 200 < pixels.max()


def played(partners):
    """What lanes hold, before and after each step, lane l starting with l."""
    values = [np.arange(partners.shape[1])]
    for row in partners:
        values.append(values[-1] + values[-1][row])
    return np.array(values)


def red_boxes(picture):
    axes = picture.axes[0]
    return [p for p in axes.patches if p.get_edgecolor() == to_rgba(VERMILLION)]


# --- lanes and threads ----------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [2, 8, 32])
def test_a_butterfly_brings_every_number_to_every_lane_once(lanes):
    partners = pictures.xor_partners(lanes)
    assert partners.shape == (int(math.log2(lanes)), lanes)
    assert (played(partners)[-1] == lanes * (lanes - 1) // 2).all()
    for row in partners:
        assert (row[row] == np.arange(lanes)).all()  # who gets from whom is mutual


def test_an_exchange_draws_all_numbers_and_one_lanes_way():
    partners = pictures.xor_partners()
    picture = pictures.exchange(played(partners), partners, lane=5)
    assert_drawn(picture, "step 5", "lane", "496")
    assert texts(picture).count("496") == 32
    assert len(red_boxes(picture)) == 32 + 16 + 8 + 4 + 2 + 1


def test_a_tree_ends_in_thread_0_with_fewer_threads_at_each_step():
    picture = pictures.tree(8)
    assert_drawn(picture, "thread", "start", "step 3", "28")
    assert len(red_boxes(picture)) == 8 + 4 + 2 + 1
    pale = [p for p in picture.axes[0].patches if p.get_facecolor() == to_rgba(pictures.UNUSED)]
    assert len(pale) == 4 + 6 + 7


def test_an_exchange_refuses_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match=r"n \+ 1 rows"):
        pictures.exchange(np.zeros((5, 32)), pictures.xor_partners())


# --- softmax --------------------------------------------------------------------------------------


def test_a_running_softmax_ends_in_the_sum_relative_to_the_largest():
    numbers = [1.0, 3.0, 2.0, 5.0]
    picture = pictures.running_softmax(numbers)
    assert_drawn(picture, "largest so far", "lost by multiplying", "numbers read")
    bars = picture.axes[1].patches
    highest = max(bar.get_y() + bar.get_height() for bar in bars if bar.get_x() > 2.5)
    drop = [bar for bar in bars if bar.get_edgecolor() == to_rgba(VERMILLION)]
    assert len(drop) == 2  # 3 and 5 come as larger numbers
    lost = drop[-1].get_height()
    assert highest - lost == pytest.approx(sum(math.exp(x - 5) for x in numbers))


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
