"""The drawings of lesson 03 show what they say."""

import numpy as np
import pytest

from course import plots as pictures
from course_lessons.lesson03.toy_gpu import ToyGPU
from tests.pictures import assert_drawn


def test_a_timeline_draws_every_span_where_it_took_place():
    toy = ToyGPU(work=2.0, launch=0.5, compiling=1.0, queued=3.0)
    toy.launch()
    toy.launch()
    toy.synchronize()
    picture = pictures.timeline(toy, marks={"begin": 0.0, "end": toy.clock()})
    boxes = picture.axes[0].patches
    assert len(boxes) == len(toy.spans)
    for box, span in zip(boxes, toy.spans, strict=True):
        assert box.get_x() == pytest.approx(span.start * 1e3)
        assert box.get_width() == pytest.approx((span.end - span.start) * 1e3)
        assert box.get_y() > 0.5 if span.where == "host" else box.get_y() < 0
    assert_drawn(
        picture, "host", "GPU", "begin", "end", "compile", "launch", "wait", "work", "other"
    )


def test_samples_show_median_mean_and_quartiles():
    times = [1.0, 1.0, 2.0, 3.0, 93.0]
    picture = pictures.samples(times, "five")
    assert_drawn(picture, "five", "mean 20 ms", "median 2 ms", "1 to 3 ms", "longest 93 ms")
    with pytest.raises(ValueError, match="5 or more"):
        pictures.samples(times[:4])


def test_heat_maps_colour_by_the_best_of_a_column():
    times = np.array([[1.0, 40.0], [2.0, 20.0], [np.nan, 60.0]])
    rows, columns = ["8x8", "16x16", "32x32"], ["512", "1024"]
    picture = pictures.heat_maps({"one": (rows, columns, times), "two": (rows, columns, times)})
    shown = picture.axes[0].images[0].get_array()
    assert np.allclose(shown[:, 1], [2, 1, 3]) and np.allclose(shown[:2, 0], [1, 2])
    assert_drawn(picture, "one", "two", "32x32", "1024", "40", "60")
    assert len(picture.axes[0].texts) == 5  # nothing stands where nothing was measured


def test_curves_have_their_names_beside_them_without_touching():
    lines = {f"line {number}": ([1, 2, 4], [1.0, 2.0, 4.0 + number / 100]) for number in range(5)}
    picture = pictures.curves(lines, "size", "ms", level=("roof", 4.02), title="many")
    assert_drawn(picture, "size", "ms", "roof", "many", *lines)
    picture.canvas.draw()
    names = [text for text in picture.axes[0].texts if text.get_text() in {*lines, "roof"}]
    tops = sorted(text.get_window_extent().y0 for text in names)
    assert len(tops) == 6 and min(np.diff(tops)) > 8
    with pytest.raises(ValueError, match="all above 0"):
        pictures.curves({"none": ([1, 2], [0, 1])}, "size", "ms")
