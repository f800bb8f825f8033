"""The drawings of lesson 05 show what they say."""

import numpy as np
import pytest

from course_lessons.lesson05 import pictures
from tests.pictures import assert_drawn, picture_texts


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    "draw",
    [
        lambda: pictures.tile_rounds(1),
        lambda: pictures.tile_rounds(4, current=1),
        lambda: pictures.tile_turn(),
        lambda: pictures.barrier_timelines(),
        lambda: pictures.halo(),
        lambda: pictures.tile_banks(),
    ],
)
def test_a_picture_fits_a_notebook_and_is_not_blank(draw):
    assert_drawn(draw(), most_bytes=60_000)


def test_tile_rounds_numbers_the_tiles_and_names_the_round():
    shown = picture_texts(pictures.tile_rounds(3, current=2))
    assert all(shown.count(number) == 2 for number in "012")
    assert any("round 2" in text for text in shown)
    assert "0" not in picture_texts(pictures.tile_rounds(1))


def test_halo_numbers_elements_and_places():
    shown = picture_texts(pictures.halo(block=8, radius=2, number=1, size=22))
    assert shown.count("6") == 2  # element 6 of x, and place 6 of the tile
    assert shown.count("0") == 2  # the tile begins at place 0, x at element 0
    assert shown.count("12") == 1  # the tile has 12 places: 0 to 11


def test_tile_turn_shows_a_matrix_and_its_transpose():
    numbers = [text for text in picture_texts(pictures.tile_turn(4)) if text.isdigit()]
    image, tile, out = np.array(numbers, int).reshape(3, 4, 4)
    assert np.array_equal(image, np.arange(16).reshape(4, 4))
    assert np.array_equal(tile, image)
    assert np.array_equal(out, image.T)


@pytest.mark.slow
def test_tile_banks_counts_the_banks_of_a_column():
    shown = "\n".join(picture_texts(pictures.tile_banks((32, 33, 34), rows=16)))
    assert "rows of 32 words: the first 16 words of column 0 are in one bank" in shown
    assert "rows of 33 words: the first 16 words of column 0 are in 16 banks" in shown
    assert "rows of 34 words: the first 16 words of column 0 are in 16 banks" in shown
