"""The drawings of lesson 10 show what they say."""

import math

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from course_lessons.lesson10 import pictures
from tests.pictures import assert_drawn, picture_texts
from warpsim.draw.palette import VERMILLION


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
    assert picture_texts(picture).count("496") == 32
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
