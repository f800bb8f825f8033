"""The drawings of lesson 04 show what they say."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from course_lessons.lesson04 import pictures
from tests.pictures import assert_drawn, picture_texts
from warpsim.draw.palette import VERMILLION


def sector_frames(axes):
    """Rectangles with the colour of a sector's frame."""
    wanted = to_rgba(VERMILLION)
    return [patch for patch in axes.patches if patch.get_edgecolor() == wanted]


def numbered(width, height):
    number = np.arange(width * height).reshape(height, width)
    return number // 32, number % 32


def test_warp_maps_show_every_lane_once_and_every_warp():
    picture = pictures.warp_maps(
        {"flat": numbered(32, 2), "tall": numbered(8, 8), "large": numbered(16, 6)}
    )
    assert_drawn(picture, "flat", "tall", "large", "warp 0", "warp 2")
    assert picture_texts(picture).count("31") == 2 + 2 + 3


@pytest.mark.parametrize(
    "maps", [{}, {"one": (np.zeros((2, 3)), np.zeros((3, 2)))}, {"flat": (np.zeros(4),) * 2}]
)
def test_warp_maps_refuse_what_is_no_block(maps):
    with pytest.raises(ValueError, match="one shape"):
        pictures.warp_maps(maps)


def test_warp_timeline_draws_a_panel_for_each_and_names_the_work():
    work = np.tile([[1, 0, 2]], (32, 1))
    picture = pictures.warp_timeline({"left": work, "right": work[:, :1]}, ["if", "else"])
    assert_drawn(picture, "left", "right", "if", "else", "waits", "step of the warp", "lane")
    left, right = (axes.get_position().width for axes in picture.axes)
    assert left == pytest.approx(3 * right)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (np.ones((31, 2), int), r"give \(32, steps\)"),
        (np.ones(32, int), r"give \(32, steps\)"),
        (np.full((32, 2), 2), "1 names"),
    ],
)
def test_warp_timeline_refuses_what_it_cannot_draw(work, words):
    with pytest.raises(ValueError, match=words):
        pictures.warp_timeline({"panel": work}, ["works"])


def test_transpose_sides_frame_one_sector_against_one_for_each_lane():
    picture = pictures.transpose_sides(lanes=8)
    assert_drawn(picture, "8 lanes, 1 sector", "8 lanes, 8 sectors")
    assert [len(sector_frames(axes)) for axes in picture.axes] == [1, 8]


def test_records_in_memory_counts_the_sectors_of_one_field():
    # 8 records of 12 bytes are 96 bytes: 3 sectors, and each holds some x
    picture = pictures.records_in_memory()
    assert_drawn(picture, "8 lanes read x: 3 sectors", "8 lanes read x: 1 sector")
    assert len(sector_frames(picture.axes[0])) == 3 + 1
    assert_drawn(pictures.records_in_memory("ab", 16), "16 lanes read a: 4 sectors")
