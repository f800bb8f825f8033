"""The drawings of lesson 02 show what they say."""

import numpy as np
import pytest

from course import cuda, plots, trace
from course.images import images
from course.kernels.reconstruct.ladder import LADDER
from course_lessons.lesson02 import pictures
from tests.pictures import assert_drawn, picture_texts


@pytest.mark.parametrize(("rows", "columns", "k"), [(64, 64, 20), (37, 61, 1), (61, 37, 37)])
def test_factors_names_the_shapes_of_what_is_kept(rows, columns, k):
    image = images.phantom(rows, columns)
    u, s, vt = images.svd(image)
    picture = pictures.factors(image, u, s, vt, k)
    assert_drawn(picture, f"{rows} × {columns}", f"{rows} × {k}", f"{k} × {columns}")


def test_the_way_of_an_image_counts_the_bytes_that_cross():
    u, s, vt = images.svd(images.phantom(64))
    down = u[:, :8].nbytes + s[:8].nbytes + vt[:8].nbytes
    assert_drawn(pictures.way_of_an_image(64, 8), f"{down:,} bytes", f"{64 * 64 * 4:,} bytes")


def test_warp_on_image_draws_the_sectors_that_the_trace_counts():
    u, s, vt = images.svd(images.phantom(64))
    out = np.zeros((64, 64), np.float32)
    picture = pictures.warp_on_image()
    for step, words in (("float32", "down the rows"), ("naive", "along the columns")):
        stores = trace(LADDER[step].kernel, (4, 4), (16, 16), u, s, vt, 8, out).total(
            "global", "store"
        )
        title = next(text for text in picture_texts(picture) if words in text)
        assert f": {stores.sectors // stores.requests} sectors a store" in title
    assert_drawn(picture, "row, col = cuda.grid(2)", "col, row = cuda.grid(2)")
    assert cuda.grid  # the titles name a function that exists


def test_singular_values_leave_rounding_noise_out():
    picture = plots.singular_values({"steep": [4, 2, 1, 1e-9], "flat": [1, 1, 1, 1]}, keep=2)
    assert_drawn(picture, "steep", "flat", "k = 2", "number of the singular value")
    heights = picture.axes[0].get_lines()[0].get_ydata()
    assert np.array_equal(heights[:3], [1, 0.5, 0.25])
    assert np.isnan(heights[3])


def test_time_bars_go_from_the_slowest_on_top_to_the_fastest():
    picture = plots.time_bars({"middle": 2, "slow": 300, "fast": 0.01}, "an 8-core machine")
    axes = picture.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["fast", "middle", "slow"]
    assert_drawn(picture, "300 ms", "0.01 ms", "an 8-core machine", "time [ms]")
