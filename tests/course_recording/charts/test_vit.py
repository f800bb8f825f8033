"""Charts of a vision transformer's bench: what they show, one x a part, and what they refuse."""

import pytest

from course.measure.recorded import Figure
from course.plots.roofline_chart import intensity
from course_recording.charts import vit as vit_charts
from tests.pictures import assert_drawn, picture_texts


def timed(kernel, variant, shape, time, moved=None, work=None, metric="time in a graph"):
    return Figure(kernel, variant, shape, "float16", metric, "ms", time, time, time, 21, moved,
                  work, gpu="NVIDIA H200")  # fmt: skip


def roof(name, unit, rate):
    return Figure("roof", name, "", "", "peak", unit, rate, rate, rate, 1, gpu="NVIDIA H200")


FIGURES = [
    *[timed("whole", "ours", f"{n}x224x224", 0.1 * n) for n in (64, 8, 1)],
    *[timed("whole", "eager", f"{n}x224x224", 0.15 * n) for n in (64, 8, 1)],
    timed("whole", "compiled", "64x224x224", 8.0),
    *[timed("image", name, f"8x{n}x{n}", t * n) for n in (64, 384)
      for name, t in (("ours", 0.1), ("eager", 0.12))],
    timed("streams", "synchronous", "64 images", 9.0, metric="time"),
    timed("streams", "2 streams", "64 images", 6.0, metric="time"),
    timed("norm", "ours", "64 images", 0.010, 4e7),
    timed("norm", "eager", "64 images", 0.027, 4e7),
    timed("attention", "ours", "64 images", 0.036, 8e7, 8e9),
    timed("attention", "ours, online", "64 images", 0.1, 8e7, 8e9),
    timed("attention", "eager", "64 images", 0.048, 8e7, 8e9),
    timed("block", "ours", "64x197x768", 0.4),
    timed("block", "eager", "64x197x768", 0.5),
    roof("memory", "GB/s", 4200.0), roof("tensor_float16", "TFLOP/s", 660.0),
]  # fmt: skip


def test_the_bench_has_all_its_charts():
    found = vit_charts.charts(FIGURES)
    assert [*found] == ["batches", "sizes", "streams", "parts-64-images", "roofline-64-images"]
    assert all(picture.alternative for picture in found.values())
    assert vit_charts.charts(FIGURES[:1]).keys() == {"batches"}


def test_by_batch_times_are_an_images_and_ratios_are_to_ours():
    picture = vit_charts.by_batch(FIGURES)
    assert_drawn(picture, "images in a batch", "ms an image", "PyTorch, compiled")
    left, right = picture.axes
    assert [*left.lines[0].get_xdata()] == [1, 8, 64]
    assert left.lines[0].get_ydata() == pytest.approx([0.1] * 3)
    assert right.lines[0].get_ydata() == pytest.approx([1.5] * 3)
    assert [*right.lines[1].get_xdata()] == [64] and right.lines[1].get_ydata()[0] == 1.25


def test_parts_stand_beside_the_routine_with_the_ratio():
    picture = vit_charts.parts(FIGURES)
    assert_drawn(picture, "norm", "attention", "block")
    assert {"2.70 ×", "1.33 ×", "1.25 ×"} <= set(picture_texts(picture))
    with pytest.raises(ValueError, match="no part was timed for 3 images"):
        vit_charts.parts(FIGURES, "3 images")


def test_programs_of_a_part_have_one_x_in_the_roofline():
    picture = vit_charts.in_roofline(FIGURES)
    assert_drawn(picture, "attention, online", "attention, PyTorch", "attention, ours")
    assert "norm, ours" in picture.alternative
    places = {intensity(its) for its in FIGURES if its.kernel == "attention"}
    assert max(places) == pytest.approx(min(places))
    with pytest.raises(ValueError, match="no roofs"):
        vit_charts.in_roofline(FIGURES[:-2])


def test_streams_are_in_their_order():
    picture = vit_charts.by_streams(FIGURES)
    names = [label.get_text() for label in picture.axes[0].get_yticklabels()]
    assert names == ["synchronous", "2 streams"]
    with pytest.raises(ValueError, match="no times by streams"):
        vit_charts.by_streams([])
