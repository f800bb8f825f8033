"""Charts of attention's bench: every program of a shape, what is refused."""

import pytest

from course.measure.recorded import Figure
from course_recording.charts import attention as attention_charts
from tests.pictures import assert_drawn, picture_texts


def timed(kernel, variant, shape, time, dtype="float16"):
    return Figure(kernel, variant, shape, dtype, "time in a graph", "ms", time, time, time, 21,
                  4e7, None, gpu="NVIDIA H200")  # fmt: skip


NORM = attention_charts.NORM
FIGURES = [
    timed("attention", "cuDNN, in C order", "8x12x197x64", 0.0125),
    timed("attention", "ours", "8x12x197x64", 0.0084),
    timed("attention", "scores", "8x12x197x64", 0.92),
    timed("attention", "ours", "8x12x197x64", 0.0085, "bfloat16"),
    timed("attention", "ours", "1x12x197x64", 0.0044),
    timed(NORM, "PyTorch", "12608x768", 0.027),
    timed(NORM, "ours", "12608x768", 0.012),
    *[timed(NORM, f"{n} tokens a block", "12608x768", 0.012 + n / 1e3) for n in (1, 4, 16)],
    *[timed(NORM, f"{n} numbers a thread", "12608x768", 0.02 + n / 1e3) for n in (4, 24)],
]


def test_the_bench_has_all_its_charts():
    found = attention_charts.charts(FIGURES)
    assert [*found] == ["programs", "norm"]
    assert all(picture.alternative for picture in found.values())
    assert attention_charts.charts([]) == {}


def test_every_program_of_a_shape_has_its_bar_in_the_colour_of_its_maker():
    picture = attention_charts.programs(FIGURES)
    assert_drawn(picture, "8 images, 12 heads, 197 tokens, heads of 64", "12.5 µs", "920 µs")
    first, second = picture.axes
    bars = [patch.get_facecolor() for patch in first.patches]
    assert len(bars) == 3 and bars[0] != bars[1] == bars[2] and len(second.patches) == 1
    with pytest.raises(ValueError, match="no time of 'product'"):
        attention_charts.programs(FIGURES, "product")


def test_sweeps_are_no_bars():
    texts = picture_texts(attention_charts.programs(FIGURES, NORM))
    assert "ours" in texts and not any("a block" in text for text in texts)
