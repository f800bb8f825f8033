"""The drawings of threads and blocks show every thread once, and say which have no element."""

import io

import numpy as np
import pytest
from matplotlib.patches import Rectangle
from PIL import Image

from course_lessons.lesson01.pictures import (
    histogram_bars,
    launch_picture,
    thread_map,
    two_memories,
)
from tests.pictures import picture_texts


def boxes(picture):
    """The unit squares of a drawing, a thread or an element each."""
    found = [p for p in picture.axes[0].patches if isinstance(p, Rectangle)]
    return [p for p in found if p.get_width() == p.get_height() == 1]


def test_a_launch_shows_each_thread_and_hatches_those_without_an_element():
    picture = launch_picture(10, 3, 4)
    assert len(boxes(picture)) == 12
    assert sum(bool(box.get_hatch()) for box in boxes(picture)) == 2
    assert {"block 0", "block 1", "block 2"} <= set(picture_texts(picture))


@pytest.mark.parametrize(
    ("shape", "grid", "block"), [((5, 10), (3, 2), (4, 3)), ((7, 3), (1, 4), (8, 2))]
)
def test_in_an_image_x_runs_along_the_columns(shape, grid, block):
    picture = launch_picture(shape, grid, block)
    threads = grid[0] * block[0] * grid[1] * block[1]
    hatched = [box for box in boxes(picture) if box.get_hatch()]
    assert len(boxes(picture)) == threads
    assert len(hatched) == threads - shape[0] * shape[1]
    for box in hatched:
        assert box.get_x() >= shape[1] or box.get_y() >= shape[0]


def test_blocks_have_different_colours_and_a_block_has_one():
    blocks = np.repeat(np.arange(6), 3)
    picture = thread_map(blocks, np.tile(np.arange(3), 6))
    colours = [box.get_facecolor() for box in boxes(picture)]
    assert len(set(colours)) == 6
    for number in range(6):
        assert len(set(colours[3 * number : 3 * number + 3])) == 1


def test_an_element_that_nobody_wrote_is_hatched_and_has_no_number():
    picture = thread_map(np.array([[0, -1], [0, 0]]), np.array([[7, 8], [9, 7]]))
    assert [bool(box.get_hatch()) for box in boxes(picture)] == [False, True, False, False]
    assert "8" not in picture_texts(picture)


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(ValueError, match="one or two numbers each"):
        launch_picture((5, 10), 3, 4)
    with pytest.raises(ValueError, match="one shape"):
        thread_map(np.zeros(3, int), np.zeros(4, int))
    with pytest.raises(ValueError, match="one shape"):
        thread_map(np.zeros(0, int), np.zeros(0, int))


def test_bars_are_as_high_as_the_counts():
    counts, right = np.array([3, 0, 5]), np.array([4, 1, 5])
    picture = histogram_bars(counts, "level", right=right)
    heights = [bar.get_height() for bar in picture.axes[0].patches]
    assert sorted(heights) == sorted([*counts, *right])


@pytest.mark.parametrize(
    "picture",
    [two_memories(), launch_picture(10, 3, 4), histogram_bars(np.arange(8))],
    ids=["two_memories", "launch_picture", "histogram_bars"],
)
def test_nothing_is_cut_off_at_the_paper_s_edge(picture):
    pixels = np.asarray(Image.open(io.BytesIO(picture.png())).convert("L"))
    for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]):
        assert edge.min() > 240
